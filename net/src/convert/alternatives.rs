//! Smaller requests as wire messages that the user could send.

use std::collections::BTreeMap;

use coalloc_common::{CoAllocation, SiteDemand};
use coalloc_proto::v1;

use super::amounts_to_wire;

/// The message `asked` with the amounts, sites and links of a smaller request. Everything else, including
/// times, stays as the user wrote it.
#[must_use]
pub fn smaller_to_wire(
    asked: &v1::CoAllocationRequest,
    smaller: &CoAllocation,
) -> v1::CoAllocationRequest {
    let sites: BTreeMap<&str, &SiteDemand> =
        smaller.sites.iter().map(|site| (site.name.as_str(), site)).collect();
    let name = |site: usize| smaller.sites[site].name.as_str();
    let rates: BTreeMap<(&str, &str), u64> = smaller
        .links
        .iter()
        .map(|link| ((name(link.from), name(link.to)), link.bandwidth.0))
        .collect();
    let mut wire = asked.clone();
    wire.sites.retain_mut(|site| {
        let Some(found) = sites.get(site.name.as_str()) else { return false };
        site.cpus = found.cpus.0;
        // What has a window of its own keeps it.
        let mut others = amounts_to_wire(&found.others);
        for other in &mut others {
            let asked = site.others.iter().find(|asked| asked.kind == other.kind);
            (other.offset, other.length) =
                asked.map_or((None, None), |asked| (asked.offset, asked.length));
        }
        site.others = others;
        true
    });
    wire.links.retain_mut(|link| {
        let found = rates.get(&(link.from.as_str(), link.to.as_str()));
        link.bandwidth_bps = found.copied().unwrap_or_default();
        found.is_some()
    });
    wire
}

#[cfg(test)]
mod tests {
    use coalloc_common::{Cpus, Time};
    use coalloc_proto::Duration;

    use super::*;
    use crate::convert::request_from_wire;

    #[test]
    fn a_smaller_request_keeps_what_it_does_not_change() {
        let site =
            |name: &str| v1::SiteRequest { name: name.into(), cpus: 8, ..Default::default() };
        let link = |from: &str, to: &str| v1::LinkRequest {
            from: from.into(),
            to: to.into(),
            bandwidth_bps: 5,
            max_latency: Some(Duration { seconds: 1, nanos: 0 }),
            length: Some(Duration { seconds: 20, nanos: 0 }),
            ..Default::default()
        };
        let mut first = site("a");
        first.offset = Some(Duration { seconds: 20, nanos: 0 });
        first.others = vec![v1::KindAmount {
            kind: "storage".into(),
            amount: 7,
            offset: Some(Duration::default()),
            length: None,
        }];
        let asked = v1::CoAllocationRequest {
            sites: vec![first, site("b"), site("c")],
            links: vec![link("a", "b"), link("b", "c")],
            duration: Some(Duration { seconds: 60, nanos: 0 }),
            user: "alice".into(),
            ..Default::default()
        };
        let mut smaller = request_from_wire(&asked, Time::from_us(0)).unwrap();
        smaller.sites.pop();
        smaller.links.pop();
        smaller.sites[0].cpus = Cpus(3);
        let wire = smaller_to_wire(&asked, &smaller);
        assert_eq!(request_from_wire(&wire, Time::from_us(0)), Ok(smaller));
        assert_eq!((wire.user.as_str(), wire.earliest_start), ("alice", None));
    }
}
