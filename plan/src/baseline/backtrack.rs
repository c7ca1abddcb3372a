//! Depth-first search for the first plan that fits: sites in the order of the request, vertices in the
//! order of the federation, each link routed as soon as both its ends are placed, fewest paths first.

use coalloc_common::topology::Direction;
use coalloc_common::{EdgeIndex, Span, VertexIndex};

use crate::ip::{IpOptions, admit};
use crate::{Budget, FramePlanner, Instance, Outcome, Plan, Route};

/// The planner `backtrack`: it finds a plan whenever there is one, and looks at no cost on its way.
#[derive(Debug, Clone, Copy, Default)]
pub struct Backtrack {
    /// N_max, as for the integer program.
    pub options: IpOptions,
}

impl FramePlanner for Backtrack {
    fn name(&self) -> &'static str {
        "backtrack"
    }

    fn plan(&self, instance: &Instance<'_>, budget: &Budget<'_>) -> Outcome {
        let Instance { topology, request, view, costs } = instance;
        if let Err(refusal) = admit::candidates(topology, request, view) {
            return Outcome::Refused(*refusal);
        }
        let mut search = Search::new(instance, self.options, budget);
        if search.take(0) {
            let cost = costs.plan(request, &search.placed, &search.routes);
            let (window, placements) = (view.window, search.placed);
            let routes = search.routes;
            let solver = "backtrack";
            return Outcome::Planned(Plan {
                window,
                placements,
                routes,
                cost,
                lower_bound: 0,
                solver,
            });
        }
        Outcome::Refused(match search.over {
            true => admit::exhausted(view, budget, "the search budget ended"),
            false => admit::no_route(topology, request, view, &self.options),
        })
    }
}

/// One step of the search, in the order in which they are taken.
#[derive(Clone, Copy)]
enum Step {
    /// A requested site is placed.
    Site(usize),
    /// A requested link, whose ends are placed, is routed.
    Link(usize),
}

struct Search<'a> {
    instance: &'a Instance<'a>,
    options: IpOptions,
    budget: &'a Budget<'a>,
    steps: Vec<Step>,
    /// Sites before the step at hand; in the order of the request, as they are placed in it.
    placed: Vec<VertexIndex>,
    /// By link; empty where it is not routed yet.
    routes: Vec<Route>,
    /// What is left, by edge and [`Direction::at`].
    free: Vec<[u64; 2]>,
    nodes: u64,
    /// The budget has ended.
    over: bool,
}

impl<'a> Search<'a> {
    fn new(instance: &'a Instance<'a>, options: IpOptions, budget: &'a Budget<'a>) -> Self {
        let request = instance.request;
        let mut steps = Vec::with_capacity(request.sites.len() + request.links.len());
        for site in 0..request.sites.len() {
            steps.push(Step::Site(site));
            let links = request.links.iter().enumerate();
            let ready = links.filter(|(_, link)| link.from.max(link.to) == site);
            steps.extend(ready.map(|(link, _)| Step::Link(link)));
        }
        let lanes = instance.topology.edges().iter().zip(&instance.view.free_bps);
        let free = lanes.map(|(edge, [ab, ba])| match edge.is_shared() {
            true => [ab.0.min(ba.0); 2],
            false => [ab.0, ba.0],
        });
        Self {
            instance,
            options,
            budget,
            steps,
            placed: Vec::with_capacity(request.sites.len()),
            routes: vec![Route::new(); request.links.len()],
            free: free.collect(),
            nodes: 0,
            over: false,
        }
    }

    /// Takes this step and all after it. False when that cannot be done, and all is as it was.
    fn take(&mut self, step: usize) -> bool {
        match self.steps.get(step).copied() {
            None => true,
            Some(Step::Site(site)) => self.place(site, step),
            // Fewest paths first: one more allowed each time.
            Some(Step::Link(link)) => (1..=self.options.route_edges()).any(|edges| {
                let from = self.placed[self.instance.request.links[link].from];
                self.extend(link, from, edges, Span::ZERO, step)
            }),
        }
    }

    fn place(&mut self, site: usize, step: usize) -> bool {
        let demand = &self.instance.request.sites[site];
        for (vertex, place, _) in self.instance.topology.sites() {
            let fits = self.instance.view.free_cpus[vertex.at()] >= demand.cpus
                && !self.placed.contains(&vertex)
                && demand.pinned.as_ref().is_none_or(|pin| *pin == place.name)
                && !demand.excluded.contains(&place.name);
            if !fits {
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

    /// Continues a link's route by exactly `edges` more edges, then takes the steps after it.
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
            // The end is the last vertex and no other.
            let leads_on = (hop.to == end) == (edges == 1) && hop.to != start;
            let fits = leads_on
                && self.free[hop.edge.at()][hop.direction.at()] >= demand.bandwidth.0
                && demand.latency_max.is_none_or(|max| latency <= max)
                && !self.passes(link, hop.to);
            if !fits {
                continue;
            }
            if !self.tick() {
                return false;
            }
            self.load(hop.edge, hop.direction, |free| free - demand.bandwidth.0);
            self.routes[link].push((hop.edge, hop.direction));
            if self.extend(link, hop.to, edges - 1, latency, step) {
                return true;
            }
            self.routes[link].pop();
            self.load(hop.edge, hop.direction, |free| free + demand.bandwidth.0);
        }
        false
    }

    /// Has the link's route been at this vertex already?
    fn passes(&self, link: usize, vertex: VertexIndex) -> bool {
        let mut steps = self.routes[link].iter();
        steps.any(|(edge, way)| self.instance.topology.edge(*edge).head(*way) == vertex)
    }

    fn load(&mut self, edge: EdgeIndex, direction: Direction, change: impl Fn(u64) -> u64) {
        let lanes = &mut self.free[edge.at()];
        if self.instance.topology.edge(edge).is_shared() {
            *lanes = lanes.map(change);
        } else {
            lanes[direction.at()] = change(lanes[direction.at()]);
        }
    }

    /// One more vertex or edge tried. False when the budget has ended.
    fn tick(&mut self) -> bool {
        self.over |= self.nodes >= self.budget.nodes || self.budget.stopped();
        self.nodes += 1;
        !self.over
    }
}
