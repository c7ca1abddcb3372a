//! Turns a solver's values into a plan: the steps at 1 are followed from each link's start to its
//! end.
//!
//! By Eq. (9) these steps are a route from start to end, and possibly cycles beside it. The cycles
//! cost nothing (otherwise the answer would not be optimal), or they remain because of a time
//! limit. The route with the fewest of these steps is simple and leaves out every cycle.

use coalloc_common::{Topology, VertexIndex};

use super::model::{Choice, Model};
use crate::{Instance, Plan, Route};

/// The plan that the values describe, with its value added up in integers; `None` when they
/// describe none. Its lower bound is not set.
pub(super) fn plan(
    model: &Model,
    instance: &Instance<'_>,
    values: &[f64],
    solver: &'static str,
) -> Option<Plan> {
    let Instance { topology, request, view, costs } = instance;
    let placements = model.placements(request.sites.len(), values)?;
    let mut steps: Vec<Route> = vec![Vec::new(); request.links.len()];
    for (choice, value) in model.choices.iter().zip(values) {
        if let Choice::Step { link, edge, direction } = choice
            && *value > 0.5
        {
            steps[*link].push((*edge, *direction));
        }
    }
    let mut routes = Vec::new();
    for (link, steps) in request.links.iter().zip(&steps) {
        let route = follow(topology, steps, placements[link.from], placements[link.to])?;
        routes.push(route);
    }
    let cost = costs.plan(request, &placements, &routes);
    let window = view.window;
    Some(Plan { window, placements, routes, cost, lower_bound: 0, solver })
}

/// The route with the fewest of these steps from start to end, found breadth first.
fn follow(
    topology: &Topology,
    steps: &Route,
    start: VertexIndex,
    end: VertexIndex,
) -> Option<Route> {
    // The vertices reached. Each has the index in this list of the vertex it was reached from, and
    // the step taken.
    let mut reached = vec![(start, None)];
    let mut next = 0;
    while let Some((at, _)) = reached.get(next).copied() {
        if at == end {
            break;
        }
        for (edge, direction) in steps {
            let road = topology.edge(*edge);
            let (head, tail) = (
                road.head(*direction),
                if road.head(*direction) == road.a { road.b } else { road.a },
            );
            if tail == at && reached.iter().all(|(vertex, _)| *vertex != head) {
                reached.push((head, Some((next, (*edge, *direction)))));
            }
        }
        next += 1;
    }
    let mut route = Route::new();
    let mut led = reached.get(next)?.1;
    while let Some((from, step)) = led {
        route.push(step);
        led = reached[from].1;
    }
    route.reverse();
    Some(route)
}
