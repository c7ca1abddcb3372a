//! Service levels, from files: the share of what is free that users and coordinators may take (Takefusa 2010, section
//! 3.4, option C; docs/adr/0044-coordinator-levels.md).
//!
//! Left out: which level counts for a call (`coalloc_common::service_level`).

use std::collections::{BTreeMap, BTreeSet};

use coalloc_common::invalid::check_range;
use coalloc_common::service_level::WHOLE;
use coalloc_common::suggest::did_you_mean;
use coalloc_common::{CoordinatorLevels, CoordinatorName, InvalidField, ServiceLevels, UserName};
use coalloc_proto::v1;

/// The levels of users and coordinators. `path` is where the fields `service_levels` and `coordinator_levels` are in the
/// file, with a dot behind it if it is not empty, and `known` are the coordinators that the file names.
///
/// # Errors
/// [`InvalidField`] when a name, a share or a user is missing, unknown, out of its range, or there twice.
pub fn service_levels<'a>(
    path: &str,
    users: &[v1::ServiceLevel],
    coordinators: &[v1::CoordinatorLevels],
    known: impl Iterator<Item = &'a CoordinatorName>,
) -> Result<ServiceLevels, InvalidField> {
    let known: BTreeSet<&CoordinatorName> = known.collect();
    let users = user_levels(&format!("{path}service_levels"), users)?;
    let mut each = BTreeMap::new();
    for (index, wire) in coordinators.iter().enumerate() {
        let at = format!("{path}coordinator_levels[{index}]");
        let field = format!("{at}.name");
        let name = CoordinatorName::parse(&field, &wire.name)?;
        if !known.contains(&name) {
            let guess = did_you_mean(name.as_str(), known.iter().map(|name| name.as_str()));
            let allowed = format!("one of `{path}coordinators`{guess}");
            return Err(InvalidField::new(field, name, allowed));
        }
        if each.insert(name, coordinator_levels(&at, wire)?).is_some() {
            return Err(InvalidField::new(field, &wire.name, "each coordinator once"));
        }
    }
    Ok(ServiceLevels { users, coordinators: each })
}

fn coordinator_levels(
    at: &str,
    wire: &v1::CoordinatorLevels,
) -> Result<CoordinatorLevels, InvalidField> {
    let percent = |name: &str, percent: u32, most: u32| {
        check_range(&format!("{at}.{name}"), percent, 1..=most, "percent")
    };
    let best = percent("best_percent", wire.best_percent.unwrap_or(WHOLE), WHOLE)?;
    // A level above the best one would be no error to the eye, and would never count.
    let each_user = wire.users_percent.map(|share| percent("users_percent", share, best));
    let field = format!("{at}.service_levels");
    let users = user_levels(&field, &wire.service_levels)?;
    for (index, level) in wire.service_levels.iter().enumerate() {
        let name = format!("service_levels[{index}].share_percent");
        percent(&name, level.share_percent, best)?;
    }
    Ok(CoordinatorLevels { best, each_user: each_user.transpose()?, users })
}

/// Percent of what is free that a user may take, for each user. `path` is where the levels are in the file.
fn user_levels(
    path: &str,
    wire: &[v1::ServiceLevel],
) -> Result<BTreeMap<UserName, u32>, InvalidField> {
    let mut levels: BTreeMap<UserName, u32> = BTreeMap::new();
    let mut named: BTreeMap<&str, usize> = BTreeMap::new();
    for (index, level) in wire.iter().enumerate() {
        let field = |name: &str| format!("{path}[{index}].{name}");
        UserName::parse(&field("name"), &level.name)?;
        if let Some(first) = named.insert(&level.name, index) {
            let allowed = format!("a name that no other level has; {path}[{first}] has it");
            return Err(InvalidField::new(field("name"), &level.name, allowed));
        }
        let share = check_range(&field("share_percent"), level.share_percent, 1..=100, "percent")?;
        if level.users.is_empty() {
            return Err(InvalidField::missing(field("users"), "at least one user"));
        }
        for (at, user) in level.users.iter().enumerate() {
            let field = format!("{}[{at}]", field("users"));
            if levels.insert(UserName::parse(&field, user)?, share).is_some() {
                return Err(InvalidField::new(field, user, "each user once, in one level"));
            }
        }
    }
    Ok(levels)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn level(name: &str, share_percent: u32, users: &[&str]) -> v1::ServiceLevel {
        let users = users.iter().map(|user| (*user).to_owned()).collect();
        v1::ServiceLevel { name: name.to_owned(), share_percent, users }
    }

    fn read(
        users: &[v1::ServiceLevel],
        coordinators: &[v1::CoordinatorLevels],
    ) -> Result<ServiceLevels, InvalidField> {
        let known = ["grc", "south"].map(CoordinatorName::composed);
        service_levels("", users, coordinators, known.iter())
    }

    #[test]
    fn levels_of_coordinators_are_checked_and_the_error_names_field_and_range() {
        let of = |name: &str, best_percent, users_percent, service_levels: &[_]| {
            let (name, service_levels) = (name.to_owned(), service_levels.to_vec());
            v1::CoordinatorLevels { name, best_percent, users_percent, service_levels }
        };
        let good = [
            of("south", Some(50), Some(20), &[level("staff", 50, &["bob"])]),
            of("grc", None, None, &[]),
        ];
        let levels = read(&[], &good).unwrap().coordinators;
        let bob = UserName::composed("bob");
        let south = CoordinatorLevels { best: 50, each_user: Some(20), users: [(bob, 50)].into() };
        assert_eq!(levels[&CoordinatorName::composed("south")], south);
        let grc = CoordinatorLevels { best: 100, each_user: None, users: BTreeMap::new() };
        assert_eq!(levels[&CoordinatorName::composed("grc")], grc);
        let cases = [
            ("coordinator_levels[0].name", of("suoth", None, None, &[]), "south"),
            ("coordinator_levels[0].best_percent", of("grc", Some(0), None, &[]), "1 to 100"),
            ("coordinator_levels[0].best_percent", of("grc", Some(101), None, &[]), "1 to 100"),
            ("coordinator_levels[0].users_percent", of("grc", Some(30), Some(31), &[]), "1 to 30"),
            (
                "coordinator_levels[0].service_levels[0].share_percent",
                of("grc", Some(30), None, &[level("x", 31, &["a"])]),
                "1 to 30",
            ),
            (
                "coordinator_levels[0].service_levels[0].users",
                of("grc", None, None, &[level("x", 31, &[])]),
                "user",
            ),
        ];
        for (field, wire, allowed) in cases {
            let error = read(&[], &[wire]).unwrap_err();
            assert_eq!(error.field, field, "{error}");
            assert!(error.allowed.contains(allowed), "{error}");
        }
        let twice = [of("grc", None, None, &[]), of("grc", None, None, &[])];
        assert_eq!(read(&[], &twice).unwrap_err().field, "coordinator_levels[1].name");
    }

    #[test]
    fn service_levels_are_checked_and_the_error_names_field_and_range() {
        let levels = [level("guests", 25, &["eve", "mallory"]), level("staff", 100, &["alice"])];
        let levels = read(&levels, &[]).unwrap().users;
        assert_eq!(levels[&UserName::composed("eve")], 25);
        assert_eq!(levels[&UserName::composed("alice")], 100);
        let cases: [(&str, Vec<v1::ServiceLevel>); 6] = [
            ("service_levels[0].share_percent", vec![level("x", 0, &["eve"])]),
            ("service_levels[0].share_percent", vec![level("x", 101, &["eve"])]),
            ("service_levels[0].users", vec![level("x", 50, &[])]),
            ("service_levels[0].name", vec![level("", 50, &["eve"])]),
            ("service_levels[1].name", vec![level("x", 50, &["a"]), level("x", 60, &["b"])]),
            ("service_levels[1].users[0]", vec![level("x", 50, &["a"]), level("y", 60, &["a"])]),
        ];
        for (field, levels) in cases {
            let error = read(&levels, &[]).unwrap_err();
            assert_eq!(error.field, field, "{error}");
            assert!(!error.allowed.is_empty());
        }
    }
}
