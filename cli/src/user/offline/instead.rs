//! What would be possible instead of a request that does not fit into a federation file.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::time::Instant;

use coalloc_common::topology::FrameView;
use coalloc_common::{CoAllocation, PartWindow, Reason, Span, Time, Window, limits};
use coalloc_net::convert::{
    RequestOptions, plan_to_wire, smaller_to_wire, time_to_wire, window_to_wire,
};
use coalloc_plan::nearest::NearestWindowSearch;
use coalloc_plan::objectives::Answer;
use coalloc_plan::smaller::{Trial, smaller};
use coalloc_plan::{Budget, FramePlanner, Packing, RankedPlan};
use coalloc_proto::v1;

use super::{Federation, planner};

/// Frames asked about at once. Every answer is available immediately here, so asking one by one wastes nothing.
const BATCH: usize = 1;

impl Federation {
    /// The nearest window up to the default horizon, and smaller requests that fit into the frames.
    pub(super) fn alternatives(
        &self,
        wire: &v1::CoAllocationRequest,
        request: &CoAllocation,
        frames: &[Window],
        options: RequestOptions,
        beyond: bool,
    ) -> v1::Alternatives {
        let stop = AtomicBool::new(false);
        let (done, ended) = mpsc::channel::<()>();
        std::thread::scope(|scope| {
            let stop = &stop;
            scope.spawn(move || {
                // Either the search is done and has dropped the sender, or its time is over.
                let _ = ended.recv_timeout(limits::ALTERNATIVES_TIME_MAX.to_std());
                stop.store(true, Ordering::Relaxed);
            });
            let end = Instant::now() + limits::ALTERNATIVES_TIME_MAX.to_std();
            let planner = planner(options, end);
            let seeker = Seeker { federation: self, options, planner: planner.as_ref(), stop };
            let mut found = v1::Alternatives { complete: true, ..Default::default() };
            if !beyond {
                seeker.nearest(request, &mut found);
            }
            let (smaller, complete) = seeker.smaller(wire, request, frames);
            found.smaller = smaller;
            found.complete &= complete;
            drop(done);
            found
        })
    }

    /// The first later start of a frame at which something that the file says is taken has ended, at the start of the
    /// frame or of one of the windows that parts of the request have.
    fn next_change(&self, request: &CoAllocation, frame: Window) -> Option<Time> {
        let offsets = request.part_windows().into_iter().map(PartWindow::offset);
        let after = |offset: Span| {
            let start = frame.start().saturating_add(offset);
            let ends = self.timetables.values().filter_map(|one| one.next_relief(start));
            Some(ends.min()?.saturating_sub(offset))
        };
        std::iter::once(Span::ZERO).chain(offsets).filter_map(after).min()
    }
}

struct Seeker<'a> {
    federation: &'a Federation,
    options: RequestOptions,
    planner: &'a dyn FramePlanner,
    stop: &'a AtomicBool,
}

impl Seeker<'_> {
    fn nearest(&self, request: &CoAllocation, found: &mut v1::Alternatives) {
        let timing = request.timing;
        let end = timing.earliest_start.saturating_add(limits::HORIZON_DEFAULT);
        let last = end.saturating_sub(timing.duration);
        let mut search = NearestWindowSearch::new(timing.earliest_start, last, timing.duration);
        let nearest = loop {
            for frame in search.questions(BATCH) {
                let view = self.federation.view_for(request, frame);
                search.learn(view, self.federation.next_change(request, frame));
            }
            let Some(view) = search.candidate() else { break None };
            match self.plan(request, view) {
                Ok(plan) => break Some(plan),
                Err(refusal) if refusal.reason == Reason::BudgetExhausted => break None,
                Err(_) => search.refute(),
            }
        };
        found.searched_until = Some(time_to_wire(search.searched_until()));
        found.complete =
            (search.is_complete() || nearest.is_some()) && self.options.solver.is_complete();
        found.starts_tried = search.tried() + u64::from(nearest.is_some());
        if let Some(plan) = nearest {
            found.nearest_window = Some(window_to_wire(plan.plan.window));
            found.nearest_plan = Some(plan_to_wire(&self.federation.topology, request, &plan));
        }
    }

    /// Smaller requests that fit, and whether it is proven of each that no larger one does.
    fn smaller(
        &self,
        wire: &v1::CoAllocationRequest,
        request: &CoAllocation,
        frames: &[Window],
    ) -> (Vec<v1::SmallerRequest>, bool) {
        let views: Vec<FrameView> =
            frames.iter().map(|frame| self.federation.view_for(request, *frame)).collect();
        // Not every solver proves what it refuses.
        let proves = self.options.solver.is_complete();
        let trial = |tried: &CoAllocation, view: &FrameView| match self.plan(tried, view) {
            Ok(plan) => Trial::Fits(plan),
            Err(refusal) if proves && refusal.reason != Reason::BudgetExhausted => Trial::Not,
            Err(_) => Trial::Unknown,
        };
        let found = smaller(request, &mut |tried| {
            views.iter().map(|view| trial(tried, view)).collect::<Trial<RankedPlan>>()
        });
        let complete = found.iter().all(|smaller| smaller.complete);
        let topology = &self.federation.topology;
        let found = found
            .into_iter()
            .map(|smaller| v1::SmallerRequest {
                change: smaller.change,
                plan: Some(plan_to_wire(topology, &smaller.request, &smaller.plan)),
                request: Some(smaller_to_wire(wire, &smaller.request)),
            })
            .collect();
        (found, complete)
    }

    fn plan(&self, request: &CoAllocation, view: &FrameView) -> Answer {
        let nodes = if self.stop.load(Ordering::Relaxed) { 0 } else { limits::PLANNING_NODES_MAX };
        let solver_time = limits::ALTERNATIVES_SOLVER_TIME;
        let budget = Budget { nodes, solver_time, stop: self.stop };
        let (ranking, edges) = (self.options.ranking, self.options.route_edges_max as usize);
        Packing::new(&self.federation.topology, request, view, ranking, edges)
            .solve(self.planner, &budget)
    }
}
