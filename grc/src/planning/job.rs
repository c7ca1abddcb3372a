//! One request on the threads that plan it: a frame searched, explained, or refused for good.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Instant;

use coalloc_common::topology::FrameView;
use coalloc_common::{CoAllocation, Reason, Refusal, Span, Window, limits};
use coalloc_net::convert::RequestOptions;
use coalloc_net::traces::{Span as Traced, SpanKind};
use coalloc_plan::baseline::slide;
use coalloc_plan::ip::IpOptions;
use coalloc_plan::objectives::Answer;
use coalloc_plan::{Budget, Packing};
use rayon::prelude::*;

use super::libraries::Libraries;
use crate::availability::federation::Snapshot;

/// A request and the frames to plan it in; shared by the threads that search.
pub(super) struct Job {
    pub(super) federation: Arc<Snapshot>,
    pub(super) request: CoAllocation,
    pub(super) options: RequestOptions,
    pub(super) views: Vec<FrameView>,
    pub(super) span: Traced,
}

/// How far a frame is searched.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stage {
    /// This many search nodes, by the solver `exact`. The answer may stay open.
    Short(u64),
    /// As far as the time allows, by the solver of the options.
    Whole,
}

impl Job {
    /// The refusal of a frame, with the bottleneck.
    pub(super) fn explain(&self, window: Window, refusal: &Refusal) -> Refusal {
        let Self { federation, request, options, views, .. } = self;
        let view = views.iter().find(|view| view.window == window);
        view.map_or_else(
            || refusal.clone(),
            |view| {
                let (topology, ip) = (&federation.topology, ip_options(*options));
                options.solver.explain(topology, request, view, &ip, refusal.clone())
            },
        )
    }

    /// The refusal for good, if there is no plan even with nothing booked.
    pub(super) fn never(&self, window: Window, stop: &AtomicBool) -> Option<Refusal> {
        let Self { federation, request, options, .. } = self;
        let budget = Budget { nodes: limits::NEVER_NODES, solver_time: Span::ZERO, stop };
        let ip = ip_options(*options);
        coalloc_plan::explain::never(&federation.topology, request, window, &ip, &budget)
    }

    pub(super) fn plan(
        &self,
        stage: Stage,
        frames: &[usize],
        libraries: &Libraries,
        outside: usize,
        stop: &AtomicBool,
    ) -> Vec<(Window, Answer)> {
        let Self { federation, request, options, .. } = self;
        let (topology, ip, solver) = (&federation.topology, ip_options(*options), options.solver);
        let end = Instant::now() + limits::PLANNING_TIME_MAX.to_std();
        let elsewhere = || libraries.until(end);
        let planner = solver.planner(ip, (stage == Stage::Whole).then(elsewhere));
        // An outside solver does not see `stop`, so each frame gets a share of the time that all may take (I19).
        let rounds = frames.len().div_ceil(outside.max(1)).max(1);
        let share = Span::from_us(limits::PLANNING_TIME_MAX.as_us() / rounds as i64);
        let nodes = match stage {
            Stage::Short(nodes) => nodes.min(limits::QUICK_NODES_ALL / frames.len().max(1) as u64),
            Stage::Whole => limits::PLANNING_NODES_MAX,
        };
        let budget = Budget { nodes, solver_time: solver.outside_time(share), stop };
        let (ranking, edges) = (options.ranking, options.route_edges_max as usize);
        let plan = |frame: &usize| {
            let view = &self.views[*frame];
            let span = self.span.child("frame", SpanKind::Internal);
            span.set("coalloc.window", view.window);
            let packing = Packing::new(topology, request, view, ranking, edges);
            (view.window, packing.solve(planner.as_ref(), &budget))
        };
        if solver.slides() {
            return slide(frames, plan);
        }
        frames.par_iter().map(plan).collect()
    }
}

/// Did the search end before it was proven that there is no plan, or no better one?
pub(super) fn is_open(answer: &Answer) -> bool {
    match answer {
        Ok(judged) => !judged.plan.is_proven_optimal(),
        Err(refusal) => refusal.reason == Reason::BudgetExhausted,
    }
}

pub(super) fn is_worse(answer: &Answer, than: &Answer) -> bool {
    match (answer, than) {
        (Ok(answer), Ok(than)) => answer.plan.cost > than.plan.cost,
        (Err(_), Ok(_)) => true,
        (_, Err(_)) => false,
    }
}

/// The options of the integer program, which are the same for every solver.
#[must_use]
pub const fn ip_options(options: RequestOptions) -> IpOptions {
    IpOptions { route_edges_max: options.route_edges_max, exclude_opposite_arcs: true }
}
