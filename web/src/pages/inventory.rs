//! The rows of a drawing: a row for each site and each path of the federation, as resource managers describe them.

use std::collections::BTreeMap;

use coalloc_common::{Amount, ResourceKind};
use coalloc_net::convert::site_resources;
use coalloc_proto::v1;

/// Sites and paths, and which of them a resource belongs to.
#[derive(Debug, Clone, Default)]
pub(super) struct Inventory {
    /// Sites first, then paths; each in the order of the federation.
    pub(super) rows: Vec<InventoryRow>,
    /// By resource manager and resource.
    resources: BTreeMap<(String, String), Resource>,
}

/// A site or a path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct InventoryRow {
    pub(super) name: String,
    pub(super) manager: String,
    /// The two ends of a path.
    pub(super) ends: Option<[String; 2]>,
    /// CPUs of a site, or bit/s of a path in each direction that has a rate of its own.
    pub(super) capacity: u64,
    /// Has each direction of a path a rate of its own?
    pub(super) is_full_duplex: bool,
}

#[derive(Debug, Clone, Copy)]
struct Resource {
    row: usize,
    kind: ResourceKind,
}

impl InventoryRow {
    /// The capacity with its unit.
    pub(super) fn capacity_text(&self) -> String {
        let kind = if self.ends.is_some() { ResourceKind::Bandwidth } else { ResourceKind::Cpus };
        kind.show(Amount(self.capacity))
    }
}

impl Inventory {
    pub(super) fn of(federation: &v1::DescribeFederationResponse) -> Self {
        let mut inventory = Self::default();
        let managers = || {
            let all = federation.resource_managers.iter();
            all.filter_map(|one| Some((one.name.as_str(), one.description.as_ref()?)))
        };
        for (manager, description) in managers() {
            for site in &description.sites {
                inventory.add_site(manager, site);
            }
        }
        for (manager, description) in managers() {
            for path in &description.paths {
                inventory.add_path(manager, path);
            }
        }
        inventory
    }

    fn add_site(&mut self, manager: &str, site: &v1::Site) {
        let row = self.rows.len();
        let resources = site_resources(site);
        let cpus = resources.iter().find(|(name, _)| *name == site.name);
        self.rows.push(InventoryRow {
            name: site.name.clone(),
            manager: manager.to_owned(),
            ends: None,
            capacity: cpus.map_or(site.cpus, |(_, cpus)| *cpus),
            is_full_duplex: false,
        });
        for (name, _) in resources {
            let kind = ResourceKind::of_site_resource(&name).1;
            self.resources.insert((manager.to_owned(), name), Resource { row, kind });
        }
    }

    fn add_path(&mut self, manager: &str, path: &v1::Path) {
        let row = self.rows.len();
        self.rows.push(InventoryRow {
            name: path.name.clone(),
            manager: manager.to_owned(),
            ends: Some([path.a.clone(), path.b.clone()]),
            capacity: path.capacity_bps,
            is_full_duplex: path.full_duplex,
        });
        let suffixes: &[&str] = if path.full_duplex { &[":ab", ":ba"] } else { &[""] };
        for suffix in suffixes {
            let name = format!("{}{suffix}", path.name);
            let resource = Resource { row, kind: ResourceKind::Bandwidth };
            self.resources.insert((manager.to_owned(), name), resource);
        }
    }

    fn resource(&self, segment: &v1::Segment) -> Option<Resource> {
        let key = (segment.resource_manager.clone(), segment.resource.clone());
        self.resources.get(&key).copied()
    }

    /// The row to which a segment belongs, if its resource is described.
    pub(super) fn row(&self, segment: &v1::Segment) -> Option<usize> {
        self.resource(segment).map(|resource| resource.row)
    }

    /// The row and the kind of a resource, if it is described.
    pub(super) fn described(
        &self,
        manager: &str,
        resource: &str,
    ) -> Option<(&InventoryRow, ResourceKind)> {
        let own = self.resources.get(&(manager.to_owned(), resource.to_owned()))?;
        Some((self.rows.get(own.row)?, own.kind))
    }

    /// Is it what the capacity of its row counts, and not storage?
    pub(super) fn is_counted(&self, segment: &v1::Segment) -> bool {
        self.resource(segment).is_some_and(|resource| resource.kind != ResourceKind::Storage)
    }

    /// The amount of a segment with its unit. Of a resource that is not described, only the number is known.
    pub(super) fn amount(&self, segment: &v1::Segment) -> String {
        match self.resource(segment) {
            Some(resource) => resource.kind.show(Amount(segment.amount)),
            None => segment.amount.to_string(),
        }
    }
}

/// A federation for tests: the sites `A` and `B`, the second with a strange name, and a full-duplex path between them.
#[cfg(test)]
pub(super) fn example(b: &str) -> v1::DescribeFederationResponse {
    let storage = v1::SiteResource { kind: "storage".into(), capacity: 500, unit_value: None };
    let site = |name: &str| v1::Site {
        name: name.into(),
        cpus: 8,
        others: vec![storage.clone()],
        ..Default::default()
    };
    let path = v1::Path {
        name: "A-B".into(),
        a: "A".into(),
        b: b.into(),
        capacity_bps: 1_000_000_000,
        full_duplex: true,
        ..Default::default()
    };
    let manager = |name: &str, sites: Vec<v1::Site>, paths: Vec<v1::Path>| {
        let description =
            v1::DescribeResponse { name: name.into(), sites, paths, ..Default::default() };
        v1::ResourceManagerStatus {
            name: name.into(),
            reachable: true,
            description: Some(description),
            ..Default::default()
        }
    };
    v1::DescribeFederationResponse {
        coordinator: "grc".into(),
        resource_managers: vec![
            manager("nrm", vec![], vec![path]),
            manager("crm", vec![site("A"), site(b)], vec![]),
        ],
        ..Default::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_segment_finds_its_row_and_unit() {
        let inventory = Inventory::of(&example("B"));
        let names: Vec<_> = inventory.rows.iter().map(|row| row.name.as_str()).collect();
        assert_eq!(names, ["A", "B", "A-B"]);
        let segment = |manager: &str, resource: &str, amount| v1::Segment {
            resource: resource.into(),
            resource_manager: manager.into(),
            amount,
            ..Default::default()
        };
        let cases = [
            (segment("crm", "A", 4), Some(0), true, "4 CPUs"),
            (segment("crm", "B:storage", 9), Some(1), false, "9 GB of storage"),
            (segment("nrm", "A-B:ba", 1_000_000_000), Some(2), true, "1 Gbit/s"),
            (segment("nrm", "A", 4), None, false, "4"),
        ];
        for (segment, row, is_counted, amount) in cases {
            assert_eq!(inventory.row(&segment), row, "{segment:?}");
            assert_eq!(inventory.is_counted(&segment), is_counted, "{segment:?}");
            assert_eq!(inventory.amount(&segment), amount);
        }
        assert_eq!(inventory.rows[2].capacity_text(), "1 Gbit/s");
    }
}
