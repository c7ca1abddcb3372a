//! What a coordinator shows to its parents of its federation at one moment, in the schema.

use std::sync::Arc;

use coalloc_net::convert;
use coalloc_plan::abstracted;
use coalloc_proto::v1;
use tonic::Status;

use crate::availability::federation::Snapshot;
use crate::availability::server_sites::described;
use crate::config::parents::ParentSettings;

/// The abstract topology that parents see, and the snapshot that it was made from.
pub(super) struct AbstractSnapshot {
    pub(super) snapshot: Arc<Snapshot>,
    pub(super) all: abstracted::AbstractTopology,
}

impl AbstractSnapshot {
    pub(super) fn of(
        snapshot: Arc<Snapshot>,
        name: &str,
        config: &ParentSettings,
        edges_max: usize,
    ) -> Result<Self, Status> {
        let topology = Arc::clone(&snapshot.topology);
        let all =
            abstracted::AbstractTopology::of(topology, name, &config.border_points, edges_max);
        let all = all.map_err(|error| {
            let text = format!("{name} cannot be shown to parents: {error}");
            Status::failed_precondition(text)
        })?;
        Ok(Self { snapshot, all })
    }

    /// The sites and paths for the answer to Describe.
    pub(super) fn describe(&self) -> (Vec<v1::Site>, Vec<v1::Path>) {
        let sites = self.all.sites().map(|(vertex, compute)| v1::Site {
            name: vertex.name.to_string(),
            cpus: compute.capacity.0,
            unit_value: Some(compute.unit_value.0),
            mips: Some(compute.mips),
            others: convert::others_to_wire(vertex),
            // Servers have the same names on both levels, as sites do.
            servers: described(&self.snapshot, compute).and_then(|site| site.servers.clone()),
            ..v1::Site::default()
        });
        let paths = self.all.paths().iter().map(|path| v1::Path {
            name: path.name.clone(),
            a: path.a.to_string(),
            b: path.b.to_string(),
            capacity_bps: path.capacity.0,
            unit_value: Some(path.unit_value.0),
            latency: Some(convert::span_to_wire(path.latency)),
            full_duplex: path.full_duplex,
            ..v1::Path::default()
        });
        (sites.collect(), paths.collect())
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::path::Path;

    use coalloc_common::{DomainName, RmName, ServiceLevels, Span};
    use coalloc_net::convert::{file_topology, topology_of_descriptions};
    use coalloc_plan::abstracted::seen_by_parent;

    use super::*;

    /// The topology that a parent builds from the description is the same as `seen_by_parent` gives without a wire.
    /// Simulated worlds plan on the latter.
    #[test]
    fn described_and_put_together_again_it_is_what_is_seen_above() {
        let text = include_str!("../../../../deploy/federations/elgl.yaml");
        let file = coalloc_proto::file::parse::<v1::FederationFile>(Path::new("elgl"), text.into());
        let topology = Arc::new(file_topology(&file.unwrap().message).unwrap());
        let domain = DomainName::composed("all");
        let border = topology.vertices().iter().find(|v| v.compute.is_none()).unwrap();
        let config = ParentSettings {
            domain: domain.clone(),
            coordinators: BTreeMap::new(),
            border_points: [border.name.clone()].into(),
            soft: Span::ZERO,
            hard: Span::ZERO,
            horizon: Span::ZERO,
            levels: ServiceLevels::default(),
        };
        let (members, missing) = (BTreeMap::new(), Vec::new());
        let snapshot = Arc::new(Snapshot { topology: Arc::clone(&topology), members, missing });
        let shown = AbstractSnapshot::of(snapshot, "grc-all", &config, 3).unwrap();
        let (sites, paths) = shown.describe();
        assert_eq!((sites.len(), paths.len()), (10, 11 * 10 / 2));
        let (name, domain_text) = ("grc-all".to_owned(), domain.to_string());
        let said = v1::DescribeResponse {
            name,
            domain: domain_text,
            sites,
            paths,
            ..v1::DescribeResponse::default()
        };
        let wire = topology_of_descriptions([(&RmName::composed("grc-all"), &said)]).unwrap();
        assert_eq!(wire, seen_by_parent(&[(domain, &shown.all)]).unwrap());
    }
}
