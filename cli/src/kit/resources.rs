//! The resources that a resource manager describes: of what kind each is, how much of it there is, and between which
//! ends a path goes.

use coalloc_common::{Amount, ResourceKind};
use coalloc_net::convert::site_resources;
use coalloc_proto::v1;

/// One resource of a resource manager.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DescribedResource {
    /// Its name, as segments have it: `N0`, `disk:storage`, `N0-N1`, or `N0-N1:ab` for one direction.
    pub name: String,
    /// What it is an amount of.
    pub kind: ResourceKind,
    /// How much of it there is, in the unit of its kind.
    pub capacity: u64,
    /// The site or the path that it is of.
    pub of: String,
    /// The two ends of a path.
    pub ends: Option<[String; 2]>,
}

/// The resources in an answer to Describe: of each site its CPUs and further kinds, then the paths, in both directions
/// where each has a rate of its own.
#[must_use]
pub fn described(answer: &v1::DescribeResponse) -> Vec<DescribedResource> {
    let of_site = |site: &v1::Site| {
        let own = site_resources(site).into_iter();
        let own = own.map(|(name, capacity)| DescribedResource {
            kind: ResourceKind::of_site_resource(&name).1,
            name,
            capacity,
            of: site.name.clone(),
            ends: None,
        });
        own.collect::<Vec<_>>()
    };
    let of_path = |path: &v1::Path| {
        let suffixes: &[&str] = if path.full_duplex { &[":ab", ":ba"] } else { &[""] };
        let direction = |suffix: &&str| DescribedResource {
            name: format!("{}{suffix}", path.name),
            kind: ResourceKind::Bandwidth,
            capacity: path.capacity_bps,
            of: path.name.clone(),
            ends: Some([path.a.clone(), path.b.clone()]),
        };
        suffixes.iter().map(direction).collect::<Vec<_>>()
    };
    answer.sites.iter().flat_map(of_site).chain(answer.paths.iter().flat_map(of_path)).collect()
}

/// What a segment takes, with its unit: `N0 4 CPUs`. Of a resource that is not described, only the number is known.
#[must_use]
pub fn taken(segment: &v1::Segment, described: &[DescribedResource]) -> String {
    let v1::Segment { resource, amount, .. } = segment;
    match described.iter().find(|one| one.name == *resource) {
        Some(one) => format!("{resource} {}", one.kind.show(Amount(*amount))),
        None => format!("{resource} {amount}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn directions_and_further_kinds_are_resources_of_their_own() {
        let path = |name: &str, full_duplex| v1::Path {
            name: name.into(),
            a: "A".into(),
            b: "B".into(),
            capacity_bps: 5_000_000_000,
            full_duplex,
            ..Default::default()
        };
        let storage = v1::SiteResource { kind: "storage".into(), capacity: 500, unit_value: None };
        let site =
            v1::Site { name: "A".into(), cpus: 8, others: vec![storage], ..Default::default() };
        let answer = v1::DescribeResponse {
            sites: vec![site],
            paths: vec![path("one", false), path("two", true)],
            ..Default::default()
        };
        let all = described(&answer);
        let names: Vec<&str> = all.iter().map(|one| one.name.as_str()).collect();
        assert_eq!(names, ["A", "A:storage", "one", "two:ab", "two:ba"]);
        let segment = |resource: &str, amount| v1::Segment {
            resource: resource.into(),
            amount,
            ..Default::default()
        };
        assert_eq!(taken(&segment("A", 4), &all), "A 4 CPUs");
        assert_eq!(taken(&segment("A:storage", 9), &all), "A:storage 9 GB of storage");
        assert_eq!(taken(&segment("two:ab", 1_000_000_000), &all), "two:ab 1 Gbit/s");
        assert_eq!(taken(&segment("gone", 3), &all), "gone 3");
    }
}
