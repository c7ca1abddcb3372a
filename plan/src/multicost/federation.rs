//! Connects a federation with its picture: makes a picture of a topology and vectors, and turns a
//! plan into segments to hold.

use std::collections::BTreeMap;

use coalloc_common::topology::{Compute, Direction, Edge};
use coalloc_common::{
    Amount, AvailabilityVector, BitsPerSecond, Cpus, EdgeIndex, InvalidField, ResourceId, RmName,
    Segment, Slot, SlotGrid, Span, Time, Topology, VertexIndex,
};

use super::{BelievedNetwork, ClusterView, Delivery, Leg, LinkView, PictureSize, Task, TaskPlan};

/// How profiles are cut into the vectors of one task.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct VectorGrid {
    /// The slots of paths.
    pub link_grid: SlotGrid,
    /// The slots of clusters.
    pub cluster_grid: SlotGrid,
    /// How far vectors reach from the time at which the task is ready.
    pub horizon: Span,
    /// The guard, see [`BelievedNetwork::with_guard`].
    pub guard_slots: u32,
}

/// What is known of the resources of a federation: timetables, or profiles that were reported.
pub trait Knowledge {
    /// When an amount of a resource is free: a vector of `slots` slots from `first` on. Of an
    /// unknown resource nothing is free.
    ///
    /// # Errors
    /// When such a vector is not possible.
    fn vector(
        &self,
        rm: &RmName,
        resource: &ResourceId,
        amount: Amount,
        grid: SlotGrid,
        first: Slot,
        slots: usize,
    ) -> Result<AvailabilityVector, InvalidField>;

    /// What is free of a resource at an instant; zero for an unknown resource.
    fn free_at(&self, rm: &RmName, resource: &ResourceId, at: Time) -> Amount;
}

/// What a scheduler believes about the computers of one site.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClusterState {
    /// The speed of each CPU, in million instructions per second.
    pub mips: u64,
    /// How many CPUs are busy at the moment.
    pub busy: Cpus,
    /// How many tasks are scheduled there.
    pub tasks: u64,
    /// When the picture's number of CPUs is free.
    pub free: AvailabilityVector,
}

impl BelievedNetwork {
    /// The picture of a federation: every edge in both directions, in the order of the topology,
    /// then every site about which something is known. `free` says when the rate is free on an edge
    /// in a direction; for an edge whose directions share one capacity it says the same for both.
    /// `site` says what is known about a site's computers. A site without any information takes no
    /// tasks.
    ///
    /// # Errors
    /// As [`BelievedNetwork::new`], [`BelievedNetwork::add_link`] and
    /// [`BelievedNetwork::add_cluster`]. The field begins with the name of the edge or site.
    pub fn of_topology(
        topology: &Topology,
        links: (SlotGrid, BitsPerSecond),
        clusters: (SlotGrid, Cpus),
        mut free: impl FnMut(EdgeIndex, Direction) -> AvailabilityVector,
        mut site: impl FnMut(VertexIndex) -> Option<ClusterState>,
    ) -> Result<Self, InvalidField> {
        let mut picture =
            Self::new(topology.vertices().len(), links.0, links.1, clusters.0, clusters.1)?;
        for (index, edge) in (0..).map(EdgeIndex).zip(topology.edges()) {
            for direction in [Direction::AToB, Direction::BToA] {
                let link = LinkView {
                    name: edge.name.clone(),
                    edge: index,
                    direction,
                    from: edge.head(direction.back()),
                    to: edge.head(direction),
                    delay: edge.latency,
                    capacity: edge.capacity,
                    free: vec![free(index, direction)],
                };
                picture.add_link(link).map_err(|error| error.within(edge.name.as_str()))?;
            }
        }
        for (vertex, place, compute) in topology.sites() {
            let Some(ClusterState { mips, busy, tasks, free }) = site(vertex) else { continue };
            let (name, capacity) = (place.name.clone(), compute.capacity);
            let cluster = ClusterView { name, vertex, capacity, busy, mips, tasks, free };
            picture.add_cluster(cluster).map_err(|error| error.within(place.name.as_str()))?;
        }
        Ok(picture)
    }

    /// The picture of a federation for one task: what is known about every path and site, for the
    /// amounts of the task, beginning with the slot in which the task is ready.
    ///
    /// # Errors
    /// As [`PictureSize::check`], before anything is made, and as [`BelievedNetwork::of_topology`].
    /// When a vector cannot be made, the first such error.
    pub fn cut(
        topology: &Topology,
        task: &Task,
        cut: VectorGrid,
        known: &impl Knowledge,
    ) -> Result<Self, InvalidField> {
        let slots = |grid: SlotGrid| {
            let slots = grid.slots_for(cut.horizon).saturating_add(1);
            (grid.containing(task.ready), usize::try_from(slots).unwrap_or(usize::MAX))
        };
        let (links, clusters) = (slots(cut.link_grid), slots(cut.cluster_grid));
        let size = PictureSize {
            links: 2 * topology.edges().len(),
            wavelengths: 1,
            link_slots: links.1,
            clusters: topology.sites().count(),
            cluster_slots: clusters.1,
        };
        size.check()?;
        let (rate, cpus) = (Amount::from(task.rate), Amount::from(task.cpus));
        let mut of_links = Vec::with_capacity(size.links);
        for edge in topology.edges() {
            for direction in [Direction::AToB, Direction::BToA] {
                let of = (&edge.rm, edge.resource(direction));
                of_links.push(known.vector(of.0, of.1, rate, cut.link_grid, links.0, links.1)?);
            }
        }
        let mut of_sites = BTreeMap::new();
        for (vertex, _, compute) in topology.sites() {
            let of = (&compute.rm, &compute.resource);
            let free = known.vector(of.0, of.1, cpus, cut.cluster_grid, clusters.0, clusters.1)?;
            let left = known.free_at(of.0, of.1, task.ready).0.min(compute.capacity.0);
            let busy = Cpus(compute.capacity.0 - left);
            of_sites.insert(vertex, ClusterState { mips: compute.mips, busy, tasks: 0, free });
        }
        let nothing = AvailabilityVector::nothing(cut.link_grid, links.0, links.1)?;
        // `of_topology` asks for them in the order in which they were made.
        let mut of_links = of_links.into_iter();
        let picture = Self::of_topology(
            topology,
            (cut.link_grid, task.rate),
            (cut.cluster_grid, task.cpus),
            |_, _| of_links.next().unwrap_or_else(|| nothing.clone()),
            |vertex| of_sites.remove(&vertex),
        )?;
        Ok(picture.with_guard(cut.guard_slots))
    }

    /// The index in [`BelievedNetwork::clusters`] of the cluster at this vertex.
    #[must_use]
    pub fn cluster_at(&self, vertex: VertexIndex) -> Option<usize> {
        self.clusters().iter().position(|cluster| cluster.vertex == vertex)
    }

    /// The edge of the topology that a leg uses, and its direction.
    pub(super) fn edge_of<'t>(
        &self,
        topology: &'t Topology,
        leg: &Leg,
    ) -> Option<(&'t Edge, Direction)> {
        let link = self.links().get(leg.link)?;
        Some((topology.edges().get(link.edge.at())?, link.direction))
    }

    /// The computers of the topology on which a plan runs.
    pub(super) fn compute_of<'t>(
        &self,
        topology: &'t Topology,
        plan: &TaskPlan,
    ) -> Option<&'t Compute> {
        let cluster = self.clusters().get(plan.cluster)?;
        topology.vertices().get(cluster.vertex.at())?.compute.as_ref()
    }
}

/// What has to be held at each RM, each segment with its own window. `topology` is the federation
/// of `picture`, and `task` the planned task. Something that is not in the topology has no segment.
/// Wavelengths are not resources of their own.
struct Segments<'a> {
    topology: &'a Topology,
    picture: &'a BelievedNetwork,
    task: &'a Task,
    of: BTreeMap<RmName, Vec<Segment>>,
}

impl<'a> Segments<'a> {
    fn new(topology: &'a Topology, picture: &'a BelievedNetwork, task: &'a Task) -> Self {
        Self { topology, picture, task, of: BTreeMap::new() }
    }

    /// Adds the legs in the order in which data travel.
    fn legs(mut self, legs: &[Leg]) -> Self {
        for leg in legs {
            let Some((edge, direction)) = self.picture.edge_of(self.topology, leg) else {
                continue;
            };
            let resource = edge.resource(direction).clone();
            let segment =
                Segment { resource, amount: Amount(self.task.rate.0), window: leg.window };
            self.of.entry(edge.rm.clone()).or_default().push(segment);
        }
        self
    }

    /// Adds the run.
    fn run(mut self, plan: &TaskPlan) -> Self {
        if let Some(compute) = self.picture.compute_of(self.topology, plan) {
            let resource = compute.resource.clone();
            let segment = Segment { resource, amount: Amount(self.task.cpus.0), window: plan.run };
            self.of.entry(compute.rm.clone()).or_default().push(segment);
        }
        self
    }
}

impl Delivery {
    /// As [`TaskPlan::segments`], with the path of the results.
    #[must_use]
    pub fn segments(
        &self,
        topology: &Topology,
        picture: &BelievedNetwork,
        task: &Task,
    ) -> BTreeMap<RmName, Vec<Segment>> {
        let segments = Segments::new(topology, picture, task).legs(&self.plan.legs);
        segments.run(&self.plan).legs(&self.legs).of
    }
}

impl TaskPlan {
    /// What has to be held at each RM, each segment with its own window: the legs in the order in
    /// which data travel, then the run.
    ///
    /// `topology` is the federation of `picture`, and `task` the task of the plan. Something that
    /// is not in the topology has no segment. Wavelengths are not resources of their own.
    #[must_use]
    pub fn segments(
        &self,
        topology: &Topology,
        picture: &BelievedNetwork,
        task: &Task,
    ) -> BTreeMap<RmName, Vec<Segment>> {
        Segments::new(topology, picture, task).legs(&self.legs).run(self).of
    }
}
