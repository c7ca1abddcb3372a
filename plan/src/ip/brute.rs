//! The reference planner: it tries every placement and every combination of simple routes. For
//! tests on tiny instances only. It shares nothing with the solvers except types and `free_bps`.

use coalloc_common::topology::{Direction, FrameView};
use coalloc_common::{CoAllocation, PartWindow, Reason, Refusal, Topology, VertexIndex};

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
    view: &'a FrameView,
    /// The periods, in each of which loads are added up.
    periods: Vec<Option<PartWindow>>,
    /// What is left free, by period, then by edge and direction.
    free: Vec<Vec<[u64; 2]>>,
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
        let free = |period: &Option<PartWindow>| {
            let lanes = |(index, edge)| {
                let (index, view) = (coalloc_common::EdgeIndex(index), view.during(*period));
                [Direction::AToB, Direction::BToA].map(|way| free_bps(edge, index, way, view))
            };
            (0u32..).zip(topology.edges()).map(lanes).collect()
        };
        let periods = request.periods();
        let free = periods.iter().map(free).collect();
        let options = self.options;
        let mut all = Enumeration {
            topology,
            request,
            costs,
            view,
            periods,
            free,
            options,
            best: None,
            visit,
        };
        all.place(&mut Vec::new());
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
    fn place(&mut self, placements: &mut Vec<VertexIndex>) {
        let Some(site) = self.request.sites.get(placements.len()) else {
            self.route(placements, &mut Vec::new());
            return;
        };
        let free = |kind, vertex| self.view.during(site.window(kind)).free_at(kind, vertex);
        for (vertex, place, _) in self.topology.sites() {
            if placements.contains(&vertex)
                || !site.amounts().all(|(kind, wanted)| free(kind, vertex) >= wanted)
                || site.pinned.as_ref().is_some_and(|pin| *pin != place.name)
                || site.excluded.contains(&place.name)
            {
                continue;
            }
            placements.push(vertex);
            self.place(placements);
            placements.pop();
        }
    }

    fn route(&mut self, placements: &[VertexIndex], routes: &mut Vec<Route>) {
        let Some(link) = self.request.links.get(routes.len()) else {
            self.record(placements, routes);
            return;
        };
        let covered: Vec<usize> =
            (0..self.periods.len()).filter(|at| link.is_wanted_in(self.periods[*at])).collect();
        let mut found = Vec::new();
        self.walk(placements[link.from], placements[link.to], &mut Vec::new(), &mut found);
        for route in found {
            let latency: i64 =
                route.iter().map(|(edge, _)| self.topology.edge(*edge).latency.as_us()).sum();
            if link.latency_max.is_some_and(|max| latency > max.as_us())
                || route.iter().any(|(edge, way)| {
                    let free = |at: &usize| self.free[*at][edge.at()][way.at()];
                    let then = self.view.during(link.window);
                    covered.iter().any(|at| free(at) < link.bandwidth.0)
                        || free_bps(self.topology.edge(*edge), *edge, *way, then) < link.bandwidth.0
                })
            {
                continue;
            }
            self.take(&covered, &route, |free| free - link.bandwidth.0);
            routes.push(route);
            self.route(placements, routes);
            if let Some(route) = routes.pop() {
                self.take(&covered, &route, |free| free + link.bandwidth.0);
            }
        }
    }

    fn take(&mut self, periods: &[usize], route: &Route, change: impl Fn(u64) -> u64) {
        for (at, (edge, way)) in periods.iter().flat_map(|at| route.iter().map(move |s| (*at, *s)))
        {
            let lanes = &mut self.free[at][edge.at()];
            if self.topology.edge(edge).is_shared() {
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

    fn record(&mut self, placements: &[VertexIndex], routes: &[Route]) {
        (self.visit)(placements, routes);
        let cost = self.costs.plan(self.request, placements, routes);
        if self.best.as_ref().is_none_or(|best| cost < best.cost) {
            self.best = Some(Plan {
                window: self.view.window,
                placements: placements.to_vec(),
                routes: routes.to_vec(),
                cost,
                lower_bound: cost,
                solver: "brute",
            });
        }
    }
}
