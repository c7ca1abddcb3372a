//! The reference planner: it tries every placement and every combination of simple routes. For
//! tests on tiny instances only. It shares nothing with the solvers except types and `free_bps`.

use coalloc_common::topology::{Direction, FrameView};
use coalloc_common::{CoAllocation, Reason, Refusal, Topology, VertexIndex};

use super::{IpOptions, free_bps};
use crate::{Budget, Costs, FramePlanner, Instance, Outcome, Plan, Route};

/// Enumerates all plans, and ignores its budget.
#[derive(Debug, Clone, Copy, Default)]
pub struct Brute {
    /// The options that determine the feasible set.
    pub options: IpOptions,
}

struct Enumeration<'a> {
    topology: &'a Topology,
    request: &'a CoAllocation,
    costs: &'a Costs,
    free: Vec<[u64; 2]>,
    options: IpOptions,
    best: Option<Plan>,
    visit: &'a mut dyn FnMut(&[VertexIndex], &[Route]),
}

impl Brute {
    /// Calls `visit` with every feasible plan, and returns one of least cost.
    pub fn every(
        &self,
        instance: &Instance<'_>,
        visit: &mut dyn FnMut(&[VertexIndex], &[Route]),
    ) -> Option<Plan> {
        let Instance { topology, request, view, costs } = instance;
        let free = (0u32..)
            .zip(topology.edges())
            .map(|(index, edge)| {
                let index = coalloc_common::EdgeIndex(index);
                [Direction::AToB, Direction::BToA].map(|way| free_bps(edge, index, way, view))
            })
            .collect();
        let options = self.options;
        let mut all = Enumeration { topology, request, costs, free, options, best: None, visit };
        all.place(view, &mut Vec::new());
        all.best
    }
}

impl FramePlanner for Brute {
    fn name(&self) -> &'static str {
        "brute"
    }

    fn plan(&self, instance: &Instance<'_>, _budget: &Budget<'_>) -> Outcome {
        let best = self.every(instance, &mut |_, _| ());
        best.map_or_else(
            || Outcome::Refused(Refusal::new(Reason::NoRoute, "nothing fits")),
            Outcome::Planned,
        )
    }
}

impl Enumeration<'_> {
    fn place(&mut self, view: &FrameView, placements: &mut Vec<VertexIndex>) {
        let Some(site) = self.request.sites.get(placements.len()) else {
            self.route(view, placements, &mut Vec::new());
            return;
        };
        for (vertex, place, _) in self.topology.sites() {
            if placements.contains(&vertex)
                || !site.amounts().all(|(kind, wanted)| view.free_at(kind, vertex) >= wanted)
                || site.pinned.as_ref().is_some_and(|pin| *pin != place.name)
                || site.excluded.contains(&place.name)
            {
                continue;
            }
            placements.push(vertex);
            self.place(view, placements);
            placements.pop();
        }
    }

    fn route(&mut self, view: &FrameView, placements: &[VertexIndex], routes: &mut Vec<Route>) {
        let Some(link) = self.request.links.get(routes.len()) else {
            self.record(view, placements, routes);
            return;
        };
        let mut found = Vec::new();
        self.walk(placements[link.from], placements[link.to], &mut Vec::new(), &mut found);
        for route in found {
            let latency: i64 =
                route.iter().map(|(edge, _)| self.topology.edge(*edge).latency.as_us()).sum();
            if link.latency_max.is_some_and(|max| latency > max.as_us())
                || route.iter().any(|(edge, way)| self.free[edge.at()][way.at()] < link.bandwidth.0)
            {
                continue;
            }
            self.take(&route, |free| free - link.bandwidth.0);
            routes.push(route);
            self.route(view, placements, routes);
            if let Some(route) = routes.pop() {
                self.take(&route, |free| free + link.bandwidth.0);
            }
        }
    }

    fn take(&mut self, route: &Route, change: impl Fn(u64) -> u64) {
        for (edge, way) in route {
            let lanes = &mut self.free[edge.at()];
            if self.topology.edge(*edge).is_shared() {
                *lanes = lanes.map(&change);
            } else {
                lanes[way.at()] = change(lanes[way.at()]);
            }
        }
    }

    /// All simple routes of at most N_max edges.
    fn walk(&self, at: VertexIndex, end: VertexIndex, route: &mut Route, found: &mut Vec<Route>) {
        if at == end {
            found.push(route.clone());
            return;
        }
        if route.len() >= self.options.route_edges() {
            return;
        }
        for hop in self.topology.hops(at) {
            let head = hop.to;
            let visited = route.iter().any(|(edge, _)| {
                let edge = self.topology.edge(*edge);
                edge.a == head || edge.b == head
            });
            if visited {
                continue;
            }
            route.push((hop.edge, hop.direction));
            self.walk(head, end, route, found);
            route.pop();
        }
    }

    fn record(&mut self, view: &FrameView, placements: &[VertexIndex], routes: &[Route]) {
        (self.visit)(placements, routes);
        let cost = self.costs.plan(self.request, placements, routes);
        if self.best.as_ref().is_none_or(|best| cost < best.cost) {
            self.best = Some(Plan {
                window: view.window,
                placements: placements.to_vec(),
                routes: routes.to_vec(),
                cost,
                lower_bound: cost,
                solver: "brute",
            });
        }
    }
}
