//! The search that the baselines share: depth first over sites and paths, for the first combination
//! that fits.
//!
//! A requested site tries its vertices in the order of the federation. A requested link tries its
//! simple routes, those with the fewest edges first, then in the order of the federation. The
//! caller decides in which order sites are placed and links routed. Costs are ignored. Loads of paths are counted in
//! each period of the request.

use coalloc_common::topology::Direction;
use coalloc_common::{EdgeIndex, LinkDemand, PartWindow, Span, VertexIndex};

use crate::ip::admit::Candidates;
use crate::ip::{IpOptions, free_bps};
use crate::{Budget, Instance, Outcome, Plan, Route};

/// One step of the search.
#[derive(Clone, Copy)]
pub(super) enum Step {
    /// Place this requested site. All sites before it are placed.
    Site(usize),
    /// Route this requested link. Both its ends are placed.
    Link(usize),
}

pub(super) struct Search<'a> {
    instance: &'a Instance<'a>,
    options: IpOptions,
    budget: &'a Budget<'a>,
    candidates: &'a Candidates,
    steps: Vec<Step>,
    /// The vertices of the sites placed so far, in the order of the request.
    placed: Vec<VertexIndex>,
    /// The route of each link; empty while it is not routed.
    routes: Vec<Route>,
    /// The periods of the request.
    periods: Vec<Option<PartWindow>>,
    /// What is left free, by period, then by edge and [`Direction::at`], in bit/s.
    free: Vec<Vec<[u64; 2]>>,
    nodes: u64,
    /// Whether the budget has ended.
    over: bool,
}

impl<'a> Search<'a> {
    /// A search that takes these steps. `placed` has the vertices of the sites that no step places.
    pub(super) fn new(
        instance: &'a Instance<'a>,
        options: IpOptions,
        budget: &'a Budget<'a>,
        candidates: &'a Candidates,
        placed: Vec<VertexIndex>,
        steps: Vec<Step>,
    ) -> Self {
        let free = |period: &Option<PartWindow>| {
            let lanes = instance.topology.edges().iter();
            let lanes = lanes.zip(&instance.view.during(*period).free_bps);
            let free = lanes.map(|(edge, [ab, ba])| match edge.is_shared() {
                true => [ab.0.min(ba.0); 2],
                false => [ab.0, ba.0],
            });
            free.collect()
        };
        let periods = instance.request.periods();
        Self {
            instance,
            options,
            budget,
            candidates,
            steps,
            placed,
            routes: vec![Route::new(); instance.request.links.len()],
            free: periods.iter().map(free).collect(),
            periods,
            nodes: 0,
            over: false,
        }
    }

    /// The first combination that fits, as a plan of `solver`. `None` when no combination of these
    /// steps fits, or when the budget has ended, see [`Search::is_over`].
    pub(super) fn run(&mut self, solver: &'static str) -> Option<Outcome> {
        if !self.take(0) {
            return None;
        }
        let Instance { request, view, costs, .. } = self.instance;
        let cost = costs.plan(request, &self.placed, &self.routes);
        let placements = std::mem::take(&mut self.placed);
        let routes = std::mem::take(&mut self.routes);
        // The search has looked at nothing that bounds the cost.
        let lower_bound = 0;
        let window = view.window;
        Some(Outcome::Planned(Plan { window, placements, routes, cost, lower_bound, solver }))
    }

    /// Whether the budget has ended.
    pub(super) const fn is_over(&self) -> bool {
        self.over
    }

    /// Takes this step and all steps after it. If that is impossible, it restores the state and
    /// returns false.
    fn take(&mut self, step: usize) -> bool {
        match self.steps.get(step).copied() {
            None => true,
            Some(Step::Site(site)) => self.place(site, step),
            // Routes with the fewest paths first: each round allows one more.
            Some(Step::Link(link)) => (1..=self.options.route_edges()).any(|edges| {
                let from = self.placed[self.instance.request.links[link].from];
                self.extend(link, from, edges, Span::ZERO, step)
            }),
        }
    }

    fn place(&mut self, site: usize, step: usize) -> bool {
        let candidates = self.candidates;
        for vertex in candidates.of(site).iter().copied().map(VertexIndex) {
            if self.placed.contains(&vertex) {
                continue;
            }
            if !self.tick() {
                return false;
            }
            self.placed.push(vertex);
            if self.take(step + 1) {
                return true;
            }
            self.placed.pop();
        }
        false
    }

    /// Extends a link's route by exactly `edges` more edges, then takes the steps after it.
    fn extend(
        &mut self,
        link: usize,
        at: VertexIndex,
        edges: usize,
        latency: Span,
        step: usize,
    ) -> bool {
        let demand = &self.instance.request.links[link];
        let (start, end) = (self.placed[demand.from], self.placed[demand.to]);
        if edges == 0 {
            return at == end && self.take(step + 1);
        }
        for hop in self.instance.topology.hops(at) {
            let edge = self.instance.topology.edge(hop.edge);
            let latency = latency.saturating_add(edge.latency);
            // The end may be the last vertex of the route and no other.
            let leads_on = (hop.to == end) == (edges == 1) && hop.to != start;
            let fits = leads_on
                && self.carries(demand, hop.edge, hop.direction)
                && demand.latency_max.is_none_or(|max| latency <= max)
                && !self.passes(link, hop.to);
            if !fits {
                continue;
            }
            if !self.tick() {
                return false;
            }
            self.load(demand, hop.edge, hop.direction, |free| free - demand.bandwidth.0);
            self.routes[link].push((hop.edge, hop.direction));
            if self.extend(link, hop.to, edges - 1, latency, step) {
                return true;
            }
            self.routes[link].pop();
            self.load(demand, hop.edge, hop.direction, |free| free + demand.bandwidth.0);
        }
        false
    }

    /// Whether the link's route already passes through this vertex.
    fn passes(&self, link: usize, vertex: VertexIndex) -> bool {
        let mut steps = self.routes[link].iter();
        steps.any(|(edge, way)| self.instance.topology.edge(*edge).head(*way) == vertex)
    }

    /// Whether the rate of a link is left free on a step whenever the link is wanted.
    fn carries(&self, link: &LinkDemand, edge: EdgeIndex, direction: Direction) -> bool {
        let Instance { topology, view, .. } = self.instance;
        let rate = link.bandwidth.0;
        let mut left = self.periods.iter().zip(&self.free);
        left.all(|(period, free)| {
            !link.is_wanted_in(*period) || free[edge.at()][direction.at()] >= rate
        }) && (link.window.is_none()
            || free_bps(topology.edge(edge), edge, direction, view.during(link.window)) >= rate)
    }

    fn load(
        &mut self,
        link: &LinkDemand,
        edge: EdgeIndex,
        direction: Direction,
        change: impl Fn(u64) -> u64,
    ) {
        let shared = self.instance.topology.edge(edge).is_shared();
        for (period, free) in self.periods.iter().zip(&mut self.free) {
            if !link.is_wanted_in(*period) {
                continue;
            }
            let lanes = &mut free[edge.at()];
            if shared {
                *lanes = lanes.map(&change);
            } else {
                lanes[direction.at()] = change(lanes[direction.at()]);
            }
        }
    }

    /// Counts one more vertex or edge that is tried. False when the budget has ended.
    fn tick(&mut self) -> bool {
        self.over |= self.nodes >= self.budget.nodes || self.budget.stopped();
        self.nodes += 1;
        !self.over
    }
}
