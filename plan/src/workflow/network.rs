//! Routes for transfers: the earliest window in which one route is free at a rate.
//!
//! All edges of a route are taken over the same window. The search is exact: at an instant it looks
//! for a route over edges that are free for the whole length from there on (fewest edges first), and
//! otherwise goes on at the next instant at which an edge that it met opens. Decker 2007, section
//! II-B, has one point-to-point link between any two resources; this is the same on any graph.
//! Left out: latency, and several routes for one transfer.

use std::collections::BTreeMap;

use coalloc_common::topology::Direction;
use coalloc_common::{Amount, BitsPerSecond, EdgeIndex, Span, Time, Topology, VertexIndex, Window};

use super::scratch::{ResourceNumber, ScratchTimetables};
use crate::Route;

/// A step to a neighbour.
#[derive(Debug, Clone, Copy)]
struct Step {
    to: VertexIndex,
    edge: EdgeIndex,
    direction: Direction,
    number: ResourceNumber,
}

/// What is asked for: a rate for a length of time.
#[derive(Debug, Clone, Copy)]
pub(super) struct TransferDemand {
    pub(super) from: VertexIndex,
    pub(super) to: VertexIndex,
    pub(super) rate: BitsPerSecond,
    pub(super) length: Span,
}

/// The graph as planners of transfers need it, with memory for searches.
#[derive(Debug)]
pub(super) struct TransferNetwork {
    steps: Vec<Vec<Step>>,
    edges_max: usize,
    slot: Span,
    /// The rate of the widest route between two vertices on empty edges, once it was needed.
    widest: BTreeMap<(VertexIndex, VertexIndex), u64>,
    /// For each resource, the earliest start found in the present search, if it was looked at.
    starts: Vec<Option<Option<Time>>>,
    looked_at: Vec<ResourceNumber>,
    /// The step by which each vertex was reached in the present round.
    reached: Vec<Option<(VertexIndex, Step)>>,
}

impl TransferNetwork {
    pub(super) fn new(
        topology: &Topology,
        scratch: &ScratchTimetables,
        edges_max: usize,
        slot: Span,
    ) -> Self {
        let vertices = topology.vertices().len();
        let steps = (0..).map(VertexIndex).take(vertices).map(|vertex| {
            let step = |hop: &coalloc_common::topology::Hop| Step {
                to: hop.to,
                edge: hop.edge,
                direction: hop.direction,
                number: scratch.of_edge(hop.edge, hop.direction),
            };
            topology.hops(vertex).iter().map(step).collect()
        });
        Self {
            steps: steps.collect(),
            edges_max,
            slot,
            widest: BTreeMap::new(),
            starts: vec![None; scratch.resources().count()],
            looked_at: Vec::new(),
            reached: vec![None; vertices],
        }
    }

    /// The rate that the widest route between two vertices carries when nothing is taken; zero when there
    /// is no route of few enough edges.
    pub(super) fn widest(
        &mut self,
        scratch: &ScratchTimetables,
        from: VertexIndex,
        to: VertexIndex,
    ) -> u64 {
        if let Some(known) = self.widest.get(&(from, to)) {
            return *known;
        }
        let mut best = vec![0; self.steps.len()];
        best[from.at()] = u64::MAX;
        for _ in 0..self.edges_max {
            let before = best.clone();
            for (vertex, width) in before.iter().enumerate().filter(|(_, width)| **width > 0) {
                for step in &self.steps[vertex] {
                    let through = scratch.table(step.number).capacity().0.min(*width);
                    best[step.to.at()] = best[step.to.at()].max(through);
                }
            }
        }
        let width = best[to.at()];
        self.widest.insert((from, to), width);
        width
    }

    /// The earliest window for a demand, not before `from` and at an end not after `until`, with its
    /// route. Of several routes, one with the fewest edges.
    pub(super) fn earliest(
        &mut self,
        scratch: &ScratchTimetables,
        demand: TransferDemand,
        (from, until): (Time, Time),
    ) -> Option<(Window, Route)> {
        for number in self.looked_at.drain(..) {
            self.starts[number.at()] = None;
        }
        let mut at = super::scratch::slot_ceil(from, self.slot);
        loop {
            let mut next = None;
            if self.route_at(scratch, demand, (at, until), &mut next) {
                let window = Window::starting(at, demand.length)?;
                return Some((window, self.route(demand)));
            }
            at = next?;
        }
    }

    /// Looks for a route that is free from an instant on. `next` gets the next instant at which an edge
    /// opens that was closed.
    fn route_at(
        &mut self,
        scratch: &ScratchTimetables,
        demand: TransferDemand,
        (at, until): (Time, Time),
        next: &mut Option<Time>,
    ) -> bool {
        self.reached.fill(None);
        let mut layer = vec![demand.from];
        for left in (0..self.edges_max).rev() {
            let mut following = Vec::new();
            // Steps to the destination come first: nothing else of this layer matters then. Nor does
            // anything else in the last layer, from where no route goes on.
            let kinds: &[bool] = if left == 0 { &[true] } else { &[true, false] };
            for direct in kinds.iter().copied() {
                for vertex in &layer {
                    for index in 0..self.steps[vertex.at()].len() {
                        let step = self.steps[vertex.at()][index];
                        let known = self.reached[step.to.at()].is_some() || step.to == demand.from;
                        if known || (step.to == demand.to) != direct {
                            continue;
                        }
                        match self.start_of(scratch, step.number, demand, (at, until)) {
                            Some(start) if start == at => {
                                self.reached[step.to.at()] = Some((*vertex, step));
                                following.push(step.to);
                            }
                            Some(start) => {
                                *next = Some(next.map_or(start, |other| other.min(start)));
                            }
                            None => {}
                        }
                    }
                }
                if self.reached[demand.to.at()].is_some() {
                    return true;
                }
            }
            layer = following;
        }
        false
    }

    /// When a resource is free for the demand, not before an instant.
    fn start_of(
        &mut self,
        scratch: &ScratchTimetables,
        number: ResourceNumber,
        demand: TransferDemand,
        (at, until): (Time, Time),
    ) -> Option<Time> {
        // A start found from an earlier instant on is the earliest from here on too, unless it has passed.
        let known = &mut self.starts[number.at()];
        match *known {
            Some(None) => None,
            Some(Some(start)) if start >= at => Some(start),
            _ => {
                if known.is_none() {
                    self.looked_at.push(number);
                }
                let rate = Amount(demand.rate.0);
                let start =
                    scratch.earliest_start(number, rate, demand.length, (at, until), self.slot);
                *known = Some(start);
                start
            }
        }
    }

    /// The route that the last round has found.
    fn route(&self, demand: TransferDemand) -> Route {
        let mut route = Route::new();
        let mut at = demand.to;
        while let Some((before, step)) = self.reached[at.at()] {
            route.push((step.edge, step.direction));
            at = before;
            if at == demand.from {
                break;
            }
        }
        route.reverse();
        route
    }
}
