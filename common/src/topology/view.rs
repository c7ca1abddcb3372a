//! What is free in one frame, and whether a demand fits there. Left out: how RMs are asked.

use std::collections::BTreeMap;

use super::{OfSite, Topology, VertexIndex};
use crate::amount::{Amount, BitsPerSecond, Cpus};
use crate::id::{ResourceId, RmName};
use crate::kind::ResourceKind;
use crate::part_window::PartWindow;
use crate::request::SiteDemand;
use crate::time::Window;

/// What is free in one frame, as the RMs disclosed it. There is one number per resource, the minimum
/// over the window, in the order of the topology. A resource for which no RM answered counts as zero.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FrameView {
    /// The window of the frame.
    pub window: Window,
    /// Free CPUs of each vertex (`wc_i`); zero at exchange points.
    pub free_cpus: Vec<Cpus>,
    /// Free rate of each edge (`wb_k`), indexed by [`Direction::at`](super::Direction::at). On a shared edge both entries
    /// are the same number, which the two directions share.
    pub free_bps: Vec<[BitsPerSecond; 2]>,
    /// Free amounts of each further kind that any site has, by vertex.
    pub free_others: BTreeMap<ResourceKind, Vec<Amount>>,
    /// What is free in windows within the frame, for requests whose parts have windows of their own
    /// ([`CoAllocation::part_windows`](crate::CoAllocation::part_windows)). Empty for all other requests.
    pub parts: Vec<FrameView>,
}

/// What a demand lacks at a vertex.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ShortOf {
    /// The first kind of which too little is free.
    pub kind: ResourceKind,
    /// What the demand wants of it.
    pub wanted: Amount,
    /// What is free of it.
    pub free: Amount,
    /// The window in which it is wanted.
    pub window: Window,
}

impl FrameView {
    /// A view in which everything is free: the federation without any booking.
    #[must_use]
    pub fn empty_federation(topology: &Topology, window: Window) -> Self {
        let mut view = Self::nothing(topology, window);
        view.fill_sites(topology, |of| of.capacity);
        view.free_bps = topology.edges().iter().map(|edge| [edge.capacity; 2]).collect();
        view
    }

    /// A view of what the RMs answered: `free` gives the free amount of a resource of an RM.
    #[must_use]
    pub fn of_answers(
        topology: &Topology,
        window: Window,
        free: impl Fn(&RmName, &ResourceId) -> u64,
    ) -> Self {
        let amounts = topology.resources().map(|(rm, resource)| free(rm, resource));
        Self::of_amounts(topology, window, amounts)
    }

    /// A view in which these amounts are free of [`Topology::resources`], in their order. Of those at the end for which
    /// there is no amount, nothing is free.
    #[must_use]
    pub fn of_amounts(
        topology: &Topology,
        window: Window,
        amounts: impl IntoIterator<Item = u64>,
    ) -> Self {
        let mut view = Self::nothing(topology, window);
        let mut amounts = amounts.into_iter();
        let mut next = || amounts.next().unwrap_or(0);
        view.fill_sites(topology, |_| Amount(next()));
        for rates in &mut view.free_bps {
            *rates = [BitsPerSecond(next()), BitsPerSecond(next())];
        }
        view
    }

    /// The same view with at most the capacity of everything: more cannot be free, and a wrong answer must
    /// not mislead a planner.
    #[must_use]
    pub fn at_most_capacity(mut self, topology: &Topology) -> Self {
        for (index, vertex, _) in topology.sites() {
            for of in vertex.resources() {
                let free = self.free_at(of.kind, index).min(of.capacity);
                self.set_free(of.kind, index, free);
            }
        }
        for (edge, rates) in topology.edges().iter().zip(&mut self.free_bps) {
            *rates = rates.map(|rate| rate.min(edge.capacity));
        }
        self
    }

    fn fill_sites(&mut self, topology: &Topology, mut free: impl FnMut(OfSite<'_>) -> Amount) {
        for (index, vertex, _) in topology.sites() {
            for of in vertex.resources() {
                self.set_free(of.kind, index, free(of));
            }
        }
    }

    /// A view in which nothing is free, to which the answers of the RMs are then added.
    #[must_use]
    pub fn nothing(topology: &Topology, window: Window) -> Self {
        Self {
            window,
            free_cpus: vec![Cpus(0); topology.vertices().len()],
            free_bps: vec![[BitsPerSecond(0); 2]; topology.edges().len()],
            free_others: BTreeMap::new(),
            parts: Vec::new(),
        }
    }

    /// What is free in the window of a part of a request. If that is not known, it is what is free in the whole frame,
    /// which is never more.
    #[must_use]
    pub fn during(&self, part: Option<PartWindow>) -> &Self {
        if part.is_none() || self.parts.is_empty() {
            return self;
        }
        let window = PartWindow::within(part, self.window);
        self.parts.iter().find(|view| view.window == window).unwrap_or(self)
    }

    /// What is free of a kind at a vertex. Bandwidth is free on edges, so there is none at a vertex.
    #[must_use]
    pub fn free_at(&self, kind: ResourceKind, at: VertexIndex) -> Amount {
        if kind == ResourceKind::Cpus {
            return self.free_cpus[at.at()].into();
        }
        let free = self.free_others.get(&kind).and_then(|free| free.get(at.at()));
        free.copied().unwrap_or(Amount::ZERO)
    }

    /// Sets what is free of a kind at a vertex.
    pub fn set_free(&mut self, kind: ResourceKind, at: VertexIndex, free: Amount) {
        if kind == ResourceKind::Cpus {
            self.free_cpus[at.at()] = Cpus(free.0);
            return;
        }
        let vertices = self.free_cpus.len();
        let all = self.free_others.entry(kind).or_insert_with(|| vec![Amount::ZERO; vertices]);
        all[at.at()] = free;
    }

    /// Whether a vertex has enough free of everything that a demand wants.
    #[must_use]
    pub fn fits(&self, demand: &SiteDemand, at: VertexIndex) -> bool {
        if !demand.windows.is_empty() {
            return self.short_of(demand, at).is_none();
        }
        // Nearly all demands want CPUs only, and this is asked of every vertex.
        self.free_cpus[at.at()] >= demand.cpus
            && (demand.others.is_empty()
                || demand.others.iter().all(|(kind, wanted)| self.free_at(*kind, at) >= *wanted))
    }

    /// What a demand lacks at a vertex; `None` when it fits.
    #[must_use]
    pub fn short_of(&self, demand: &SiteDemand, at: VertexIndex) -> Option<ShortOf> {
        let mut amounts = demand.amounts().map(|(kind, wanted)| {
            let view = self.during(demand.window(kind));
            let window = PartWindow::within(demand.window(kind), self.window);
            ShortOf { kind, wanted, free: view.free_at(kind, at), window }
        });
        amounts.find(|of| of.free < of.wanted)
    }
}
