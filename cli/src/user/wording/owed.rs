//! The problems between a coordinator and its resource managers, one sentence each: nobody accepts it,
//! bookings differ, one describes names of another or more than there is room for, one does not answer, or something is owed to a
//! resource manager that cannot be told.

use coalloc_common::Time;
use coalloc_proto::v1;

use crate::kit::text;

/// A sentence for a coordinator that no resource manager accepts.
#[must_use]
pub fn denied_by_all(response: &v1::DescribeFederationResponse) -> Option<String> {
    let managers = &response.resource_managers;
    let all = !managers.is_empty() && managers.iter().all(|manager| manager.denies);
    let name = &response.coordinator;
    all.then(|| {
        format!(
            "no resource manager accepts {name}: it can plan, but not reserve, until \
             `coordinators` in their configurations names it"
        )
    })
}

/// A sentence about differing bookings, with the resource managers and the command to run; `None` if none
/// differ.
#[must_use]
pub fn differing(response: &v1::DescribeFederationResponse) -> Option<String> {
    let differs = response.resource_managers.iter().filter(|manager| manager.differences > 0);
    let names: Vec<String> = differs.clone().map(|manager| manager.name.clone()).collect();
    let count: usize = differs.map(|manager| manager.differences as usize).sum();
    let told = || {
        let (count, names) = (text::count(count, "difference"), text::enumerate(&names));
        format!("{count} between its own records and the bookings at {names}: see `coalloc repair`")
    };
    (count > 0).then(told)
}

/// Most names of others that a sentence lists.
const NAMES_SHOWN: usize = 3;

/// One sentence for each resource manager that describes sites or paths of another one, or more than there is room
/// for.
pub fn overreaching(response: &v1::DescribeFederationResponse) -> impl Iterator<Item = String> {
    response.resource_managers.iter().flat_map(|manager| {
        let v1::ResourceManagerStatus { name, not_used, .. } = manager;
        let crowded_out = (!not_used.is_empty())
            .then(|| format!("nothing of what {name} describes is used: it {not_used}"));
        foreign(manager).into_iter().chain(crowded_out)
    })
}

fn foreign(manager: &v1::ResourceManagerStatus) -> Option<String> {
    let all = &manager.foreign_names;
    let total = (manager.foreign_names_total as usize).max(all.len());
    let shown = all.iter().take(NAMES_SHOWN).map(|name| {
        let v1::ForeignName { site, path, owner } = name;
        let what = if path.is_empty() { format!("site {site}") } else { format!("path {path}") };
        if owner.is_empty() { what } else { format!("{what} of {owner}") }
    });
    let mut shown: Vec<String> = shown.collect();
    if total > shown.len() {
        shown.push(format!("{} more", total - shown.len()));
    }
    (total > 0).then(|| {
        let (name, names) = (&manager.name, text::enumerate(&shown));
        format!("{name} describes what belongs to another, which is ignored: {names}")
    })
}

/// One sentence for each resource manager that does not answer but has described itself: how old that is.
pub fn outdated(
    response: &v1::DescribeFederationResponse,
    now: Time,
) -> impl Iterator<Item = String> {
    response.resource_managers.iter().filter(|manager| !manager.reachable).filter_map(
        move |manager| {
            let said = text::time(manager.described.as_ref())?;
            let age = now.since(said).as_age();
            Some(format!("{} does not answer: what it describes is {age} old", manager.name))
        },
    )
}

/// One sentence for each resource manager that is owed something and is not configured or does not answer.
pub fn owed(response: &v1::DescribeFederationResponse) -> impl Iterator<Item = String> {
    let silent = response.resource_managers.iter().filter(|manager| !manager.reachable);
    let silent = silent.filter_map(|manager| {
        let v1::ResourceManagerStatus { name, owed, releases_owed, .. } = manager;
        sentence(name, "which does not answer", *owed, *releases_owed)
    });
    let elsewhere = response.not_configured.iter().filter_map(|manager| {
        let v1::OwedElsewhere { name, owed, releases_owed } = manager;
        sentence(name, "which is not configured", *owed, *releases_owed)
    });
    silent.chain(elsewhere)
}

fn sentence(name: &str, which: &str, decisions: u32, releases: u32) -> Option<String> {
    let decisions = match decisions {
        0 => None,
        1 => Some("1 decision that a reservation waits for".to_owned()),
        count => Some(format!("{count} decisions that reservations wait for")),
    };
    let hint = match decisions {
        Some(_) => {
            format!(" (is it gone for good? `coalloc give-up --all --rm {name} --why TEXT`)")
        }
        None => String::new(),
    };
    let releases = match releases {
        0 => None,
        count => Some(format!("{} that nobody waits for", text::count(count as usize, "release"))),
    };
    let all: Vec<String> = decisions.into_iter().chain(releases).collect();
    let owed = all.join(" and ");
    (!all.is_empty()).then(|| format!("{name}, {which}, is owed {owed}{hint}"))
}

#[cfg(test)]
mod tests {
    use coalloc_common::Span;
    use coalloc_net::convert::time_to_wire;

    use super::*;

    #[test]
    fn the_age_of_what_a_silent_one_describes_is_told() {
        let now = Time::from_us(1_795_262_400_000_000);
        let manager = |name: &str, reachable, said: Option<i64>| v1::ResourceManagerStatus {
            name: name.to_owned(),
            reachable,
            described: said.map(|ago| time_to_wire(now.saturating_add(Span::from_secs(-ago)))),
            ..Default::default()
        };
        let response = v1::DescribeFederationResponse {
            resource_managers: vec![
                manager("crm-a", true, Some(1)),
                manager("crm-b", false, Some(90)),
                manager("crm-c", false, None),
                manager("crm-d", false, Some(-5)),
            ],
            ..Default::default()
        };
        let told: Vec<String> = outdated(&response, now).collect();
        let expected = [
            "crm-b does not answer: what it describes is 1 min 30 s old",
            "crm-d does not answer: what it describes is 0 s old",
        ];
        assert_eq!(told, expected);
    }

    #[test]
    fn names_of_others_are_told_with_their_owners() {
        let name = |site: &str, path: &str| v1::ForeignName {
            site: site.to_owned(),
            path: path.to_owned(),
            owner: "crm-a".to_owned(),
        };
        let mut rogue = v1::ResourceManagerStatus {
            name: "rogue".to_owned(),
            foreign_names: vec![name("N0", ""), name("", "N0-N1")],
            foreign_names_total: 2,
            ..Default::default()
        };
        let told = |rogue: &v1::ResourceManagerStatus| {
            let honest = v1::ResourceManagerStatus::default();
            let resource_managers = vec![honest, rogue.clone()];
            let response =
                v1::DescribeFederationResponse { resource_managers, ..Default::default() };
            overreaching(&response).collect::<Vec<_>>()
        };
        let start = "rogue describes what belongs to another, which is ignored: ";
        let expected = format!("{start}site N0 of crm-a and path N0-N1 of crm-a");
        assert_eq!(told(&rogue), [expected]);
        rogue.foreign_names.extend([name("N1", ""), name("N2", "")]);
        (rogue.foreign_names_total, rogue.not_used) = (90, "describes too much".to_owned());
        let expected =
            format!("{start}site N0 of crm-a, path N0-N1 of crm-a, site N1 of crm-a and 87 more");
        let crowded_out = "nothing of what rogue describes is used: it describes too much";
        assert_eq!(told(&rogue), [expected, crowded_out.to_owned()]);
    }

    #[test]
    fn only_who_cannot_be_told_is_owed_something() {
        let manager = |name: &str, reachable, owed| v1::ResourceManagerStatus {
            name: name.to_owned(),
            reachable,
            owed,
            differences: owed,
            ..Default::default()
        };
        let mut response = v1::DescribeFederationResponse {
            resource_managers: vec![manager("crm-a", true, 2), manager("crm-b", false, 1)],
            ..Default::default()
        };
        let all: Vec<String> = owed(&response).collect();
        let expected = "crm-b, which does not answer, is owed 1 decision that a reservation waits \
                        for (is it gone for good? `coalloc give-up --all --rm crm-b --why TEXT`)";
        assert_eq!(all, [expected]);
        let differ = differing(&response).unwrap();
        assert!(
            differ.starts_with("3 differences between") && differ.contains("crm-a"),
            "{differ}"
        );
        response.resource_managers.clear();
        let (name, owed_there, releases_owed) = ("crm-c".to_owned(), 2, 1);
        response.not_configured = vec![v1::OwedElsewhere { name, owed: owed_there, releases_owed }];
        let all: Vec<String> = owed(&response).collect();
        assert!(
            all[0].contains(
                "which is not configured, is owed 2 decisions that reservations wait \
                 for and 1 release that nobody"
            ),
            "{all:?}"
        );
        assert_eq!(differing(&response), None);
    }
}
