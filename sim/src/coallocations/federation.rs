//! The resource managers of a federation, one unchanged participant each, and what they disclose to planners.

use std::collections::{BTreeMap, BTreeSet};

use coalloc_common::topology::{Direction, Duplex, FrameView};
use coalloc_common::{
    Amount, CoordinatorName, Now, ResourceId, ResourceKind, ResourceKinds, RmName, ServiceLevels,
    Topology, UnitValue, UserName, VertexIndex, VertexName, Window,
};
use coalloc_plan::abstracted::AbstractTopology;
use coalloc_protocol::participant::{HoldPolicy, HoldQuotas, Participant, ParticipantConfig};

use super::settings::Settings;
use crate::experiment::ModelError;

/// The topology with the unit values and the kind of edges that the settings give.
///
/// # Errors
/// When a setting gives a value for a site that does not exist.
pub(super) fn topology_of(given: &Topology, settings: &Settings) -> Result<Topology, ModelError> {
    let mut topology = Topology::new();
    let mut used: Vec<&String> = Vec::new();
    for vertex in given.vertices() {
        let mut vertex = vertex.clone();
        if let Some(compute) = &mut vertex.compute {
            let domain = vertex.domain.as_ref().map(|domain| domain.as_str()).unwrap_or_default();
            let keys = [vertex.name.as_str(), domain, &compute.capacity.0.to_string()];
            let found = keys.iter().find_map(|key| settings.cpu_values.get_key_value(*key));
            if let Some((key, value)) = found {
                used.push(key);
                compute.unit_value = UnitValue(*value);
            }
        }
        topology.add_vertex(vertex)?;
    }
    if let Some(key) = settings.cpu_values.keys().find(|key| !used.contains(key)) {
        let allowed = "a site, a domain or a number of CPUs of the federation";
        let field = format!("cpu_values.{key}");
        return Err(coalloc_common::InvalidField::new(field, key, allowed).into());
    }
    for edge in given.edges() {
        let mut edge = edge.clone();
        if settings.full_duplex
            && let Duplex::Shared(resource) = &edge.duplex
        {
            let way = |end: &str| ResourceId::composed(format!("{resource}:{end}"));
            edge.duplex = Duplex::Full { ab: way("ab"), ba: way("ba") };
        }
        topology.add_edge(edge)?;
    }
    Ok(topology)
}

/// A vertex that no path connects to the first vertex, if there is one.
pub(super) fn not_reached(topology: &Topology) -> Option<&VertexName> {
    let vertices = topology.vertices();
    let mut reached = vec![false; vertices.len()];
    let mut open = if vertices.is_empty() { Vec::new() } else { vec![VertexIndex(0)] };
    while let Some(at) = open.pop() {
        if !std::mem::replace(&mut reached[at.at()], true) {
            open.extend(topology.hops(at).iter().map(|hop| hop.to));
        }
    }
    let far = reached.iter().position(|reached| !reached)?;
    Some(&vertices[far].name)
}

/// What one resource manager owns.
struct Owned {
    kinds: ResourceKinds,
    resources: Vec<(ResourceId, Amount)>,
}

/// One participant for each resource manager, by name. `coordinators` says which coordinators may hold at it.
pub(super) fn participants(
    topology: &Topology,
    settings: &Settings,
    coordinators: impl Fn(&RmName) -> BTreeSet<CoordinatorName>,
) -> BTreeMap<RmName, Participant> {
    let mut owned: BTreeMap<RmName, Owned> = BTreeMap::new();
    for of in topology.sites().flat_map(|(_, vertex, _)| vertex.resources()) {
        let none = || Owned { kinds: ResourceKind::Cpus.into(), resources: Vec::new() };
        let own = owned.entry(of.rm.clone()).or_insert_with(none);
        own.kinds.name(of.resource.clone(), of.kind);
        own.resources.push((of.resource.clone(), of.capacity));
    }
    for edge in topology.edges() {
        let none = || Owned { kinds: ResourceKind::Bandwidth.into(), resources: Vec::new() };
        let own = owned.entry(edge.rm.clone()).or_insert_with(none);
        let ways: &[Direction] = match edge.duplex {
            Duplex::Shared(_) => &[Direction::AToB],
            Duplex::Full { .. } => &[Direction::AToB, Direction::BToA],
        };
        for way in ways {
            own.resources.push((edge.resource(*way).clone(), edge.capacity.into()));
        }
    }
    // A user without a service level would get the lowest one, so users without a setting get 100 percent.
    let users = settings.workload.users.iter().filter(|_| !settings.levels.is_empty());
    let whole = users.map(|user| (user, 100));
    let own = settings.levels.iter().map(|(user, percent)| (user, *percent));
    let levels = (whole.chain(own))
        .map(|(user, percent)| (UserName::composed(user.as_str()), percent))
        .collect();
    let levels = ServiceLevels::of_users(levels);
    let participant = |name: RmName, own: Owned| {
        let config = ParticipantConfig {
            name: name.clone(),
            resources: own.resources,
            kinds: own.kinds,
            coordinators: coordinators(&name),
            policy: HoldPolicy::default(),
            levels: levels.clone(),
            quotas: HoldQuotas::default(),
            inside: None,
            servers: BTreeMap::new(),
        };
        (name, Participant::new(config))
    };
    owned.into_iter().map(|(name, own)| participant(name, own)).collect()
}

/// The amounts that members disclose for every frame; one query to each member (stage 2ii).
#[derive(Default)]
pub(super) struct Disclosed(BTreeMap<(RmName, ResourceId), Vec<u64>>);

impl Disclosed {
    /// Adds the answer of a resource manager.
    pub(super) fn ask(
        &mut self,
        participant: &Participant,
        frames: &[Window],
        user: &UserName,
        now: Now,
    ) {
        let config = participant.config();
        let answer = participant.availability(frames, user, None, now);
        for (at, (resource, _)) in config.resources.iter().enumerate() {
            let amounts = answer.iter().map(|frame| frame.get(at).map_or(0, |amount| amount.0));
            self.0.insert((config.name.clone(), resource.clone()), amounts.collect());
        }
    }

    /// Adds the answer of a child coordinator: the amounts of its abstract topology, from its own view of
    /// each frame.
    pub(super) fn ask_child(&mut self, shown: &AbstractTopology, views: &[FrameView]) {
        let free: Vec<Vec<Amount>> = views.iter().map(|view| shown.free(view)).collect();
        let name = RmName::composed(shown.name());
        for (at, resource) in shown.resources().iter().enumerate() {
            let amounts = free.iter().map(|frame| frame.get(at).map_or(0, |amount| amount.0));
            self.0.insert((name.clone(), resource.name.clone()), amounts.collect());
        }
    }

    /// Views of a topology, one for each frame, with the disclosed amounts at its sites and edges.
    pub(super) fn views(&self, topology: &Topology, frames: &[Window]) -> Vec<FrameView> {
        let of = |frame: usize, rm: &RmName, resource: &ResourceId| -> u64 {
            let said = self.0.get(&(rm.clone(), resource.clone()));
            said.and_then(|frames| frames.get(frame)).copied().unwrap_or(0)
        };
        let view = |(at, window): (usize, &Window)| {
            FrameView::of_answers(topology, *window, |rm, resource| of(at, rm, resource))
        };
        frames.iter().enumerate().map(view).collect()
    }
}
