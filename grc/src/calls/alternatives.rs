//! Alternatives to a request that has no plan: the nearest window in which it fits, and smaller requests that fit at
//! the time that was asked for.
//!
//! The searches are pure ([`coalloc_plan::nearest`], [`coalloc_plan::smaller`]); this module gives them the answers of
//! the RMs and a planner. Both begin only after the request was refused. They run on the planners' threads and within a
//! time of their own, so that they delay neither the protocol nor other requests. They ask every RM about many frames, so
//! they take turns, round robin by user, like long searches. What they find is a hint, like every plan: nothing is held.
//!
//! Left out: starts before the earliest one that was asked for.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use coalloc_common::topology::FrameView;
use coalloc_common::{CoAllocation, Reason, Refusal, Span, Time, Window, limits};
use coalloc_net::convert::{
    RequestOptions, plan_to_wire, smaller_to_wire, time_to_wire, window_to_wire,
};
use coalloc_net::machine::Host;
use coalloc_plan::nearest::NearestWindowSearch;
use coalloc_plan::smaller::{SmallerRequest, Trial, smaller};
use coalloc_plan::{Budget, FramePlanner, Packing, RankedPlan, explain};
use coalloc_proto::v1;
use tonic::Status;

use crate::admission::Admitted;
use crate::availability::federation::{Federation, Snapshot};
use crate::availability::{self, Replaced};
use crate::planning::{AlternativesTurn, ExplainedFrames, Planners, PlanningOutcome, ip_options};

/// Where alternatives are searched: the RMs that are queried, and the planners.
#[derive(Debug)]
pub struct AlternativeSearch<'a> {
    /// The machine whose clocks are used.
    pub host: &'a Host,
    /// The resource managers.
    pub federation: &'a Federation,
    /// The federation as it was when the request was planned.
    pub snapshot: &'a Arc<Snapshot>,
    /// The planners' threads.
    pub planners: &'a Planners,
    /// The booking that counts as free, because the request is a new version of it.
    pub replaces: Replaced<'a>,
}

/// Does the client want alternatives? `unless_said` is the answer for a client that does not say.
#[must_use]
pub fn wanted(options: Option<&v1::PlanOptions>, unless_said: bool) -> bool {
    options.and_then(|options| options.alternatives).unwrap_or(unless_said)
}

/// Frames without a plan, each with the reason.
type Refused = Vec<(Window, Refusal)>;

/// How far the search for the nearest window got.
struct SearchExtent {
    nearest: Option<RankedPlan>,
    until: Time,
    complete: bool,
    tried: u64,
}

impl AlternativeSearch<'_> {
    /// All alternatives to a request that has no plan.
    ///
    /// # Errors
    /// RESOURCE_EXHAUSTED when too many requests are being planned, INTERNAL when a planner panicked.
    pub async fn seek(
        &self,
        wire: &v1::CoAllocationRequest,
        admitted: &Admitted,
        planned: &mut PlanningOutcome,
    ) -> Result<v1::Alternatives, Status> {
        // A request beyond the capacity of a federation without bookings fits at no time.
        let beyond = |reason| matches!(reason, Reason::BeyondCapacity);
        // An RM that does not answer may have what is missing, also at times when others have too little.
        let silent = !self.snapshot.missing.is_empty() || !planned.unreachable.is_empty();
        let hopeless = self.snapshot.missing.is_empty()
            && planned.refused.iter().any(|(_, refusal)| beyond(refusal.reason));
        let refused = planned.refused.clone();
        let turn = &self.planners.for_alternatives().await?;
        let nearest = async {
            if hopeless { Ok(None) } else { self.nearest(turn, admitted).await.map(Some) }
        };
        let (nearest, smaller) =
            tokio::join!(nearest, self.smaller(turn, admitted, refused, planned.explained));
        let (nearest, (smaller, refused)) = (nearest?, smaller?);
        planned.refused = refused;
        let topology = &self.snapshot.topology;
        let mut found = v1::Alternatives::default();
        if let Some(searched) = nearest {
            found.searched_until = Some(time_to_wire(searched.until));
            // Where no later start ends within the horizon, nobody was asked.
            let all_told = !silent || searched.nearest.is_some() || searched.tried == 0;
            found.complete = searched.complete && all_told;
            found.starts_tried = searched.tried;
            if let Some(plan) = &searched.nearest {
                found.nearest_window = Some(window_to_wire(plan.plan.window));
                found.nearest_plan = Some(plan_to_wire(topology, &admitted.request, plan));
            }
        } else {
            found.complete = true;
        }
        found.complete &= smaller.iter().all(|smaller| smaller.complete);
        found.smaller = smaller
            .into_iter()
            .map(|smaller| v1::SmallerRequest {
                change: smaller.change,
                plan: Some(plan_to_wire(topology, &smaller.request, &smaller.plan)),
                request: Some(smaller_to_wire(wire, &smaller.request)),
            })
            .collect();
        Ok(found)
    }

    /// Searches the nearest window: queries starts in rounds, and plans those that may fit, earliest first.
    async fn nearest(
        &self,
        turn: &AlternativesTurn<'_>,
        admitted: &Admitted,
    ) -> Result<SearchExtent, Status> {
        let begun = self.host.now();
        let now = begun.wall;
        let soonest = now.saturating_add(limits::SOONEST_LEAD).next_second();
        let timing = admitted.request.timing;
        let end = availability::horizon_end(self.snapshot, now);
        let first = timing.earliest_start.max(soonest);
        let mut search =
            NearestWindowSearch::new(first, end.saturating_sub(timing.duration), timing.duration);
        // Each frame is asked about together with the windows of parts in it.
        let most = limits::FRAMES_MAX as usize / (1 + admitted.request.part_windows().len());
        let mut nearest = None;
        let mut all_answered = true;
        for _ in 0..limits::ALTERNATIVES_ROUNDS_MAX {
            let left = limits::ALTERNATIVES_TIME_MAX
                .saturating_sub(self.host.now().boot.since(begun.boot));
            let frames = search.questions(most);
            if left <= Span::ZERO || frames.is_empty() {
                break;
            }
            let user = &admitted.user;
            let (rms, snapshot, request) = (self.federation, self.snapshot, &admitted.request);
            let answers =
                availability::query_for(rms, snapshot, request, &frames, user, self.replaces).await;
            all_answered &= answers.unreachable.is_empty();
            for (view, change) in answers.views.into_iter().zip(answers.changes) {
                search.learn(view, change);
            }
            let (snapshot, request) = (Arc::clone(self.snapshot), admitted.request.clone());
            let options = admitted.options;
            let planner = self.planners.planner(options, left);
            let work = move |stop: &AtomicBool| {
                let found = follow(&mut search, |view| {
                    plan(&snapshot, options, planner.as_ref(), &request, view, stop)
                });
                (search, found)
            };
            let found;
            (search, found) = turn.run(options.solver, left, work).await?;
            match found {
                KnownOutcome::Fits(plan) => {
                    nearest = Some(*plan);
                    break;
                }
                KnownOutcome::Stopped => break,
                KnownOutcome::AskMore => {}
            }
        }
        Ok(SearchExtent {
            complete: ((search.is_complete() && all_answered) || nearest.is_some())
                && admitted.options.solver.is_complete(),
            until: search.searched_until(),
            tried: search.tried() + u64::from(nearest.is_some()),
            nearest,
        })
    }

    /// Searches smaller requests that fit in one of the frames that were asked for. Also returns the refusals of these
    /// frames. If all are to be explained, each refusal without a bottleneck gets what the closest plan lacks.
    async fn smaller(
        &self,
        turn: &AlternativesTurn<'_>,
        admitted: &Admitted,
        mut refused: Refused,
        explained: ExplainedFrames,
    ) -> Result<(Vec<SmallerRequest<RankedPlan>>, Refused), Status> {
        let frames = refused.iter().map(|(window, _)| *window).collect();
        let (frames, _) = availability::bookable(self.snapshot, frames, self.host.now().wall);
        if frames.is_empty() {
            return Ok((Vec::new(), refused));
        }
        let (rms, request, user) = (self.federation, &admitted.request, &admitted.user);
        let picture =
            availability::query_for(rms, self.snapshot, request, &frames, user, self.replaces)
                .await;
        let (snapshot, request) = (Arc::clone(self.snapshot), request.clone());
        let options = admitted.options;
        let planner = self.planners.planner(options, limits::ALTERNATIVES_TIME_MAX);
        let work = move |stop: &AtomicBool| {
            let plan = |request: &CoAllocation, view: &FrameView| {
                plan(&snapshot, options, planner.as_ref(), request, view, stop)
            };
            // Not every solver proves what it refuses.
            let proves = options.solver.is_complete();
            let trial = |tried: &CoAllocation, view: &FrameView| match plan(tried, view) {
                FrameOutcome::Fits(plan) => Trial::Fits(*plan),
                FrameOutcome::Not if proves => Trial::Not,
                FrameOutcome::Not | FrameOutcome::Stopped => Trial::Unknown,
            };
            let found = smaller(&request, &mut |tried| {
                picture.views.iter().map(|view| trial(tried, view)).collect::<Trial<RankedPlan>>()
            });
            let ip = ip_options(options);
            // If a solver may miss plans, the closest plan that it finds does not tell what is missing.
            let told = explained == ExplainedFrames::All && options.solver.is_complete();
            let frames = if told { &mut refused[..] } else { &mut [] };
            for (window, refusal) in frames {
                if let Some(view) = picture.views.iter().find(|view| view.window == *window) {
                    let mut plan = |wider: &FrameView| match plan(&request, wider) {
                        FrameOutcome::Fits(judged) => Some(judged.plan),
                        FrameOutcome::Not | FrameOutcome::Stopped => None,
                    };
                    let topology = &snapshot.topology;
                    let told = refusal.clone();
                    *refusal = explain::combination(topology, &request, view, &ip, told, &mut plan);
                }
            }
            (found, refused)
        };
        turn.run(options.solver, limits::ALTERNATIVES_TIME_MAX, work).await
    }
}

/// The result of planning one frame.
enum FrameOutcome {
    Fits(Box<RankedPlan>),
    Not,
    /// The time or the planner's budget is over, so the result is unknown.
    Stopped,
}

fn plan(
    snapshot: &Snapshot,
    options: RequestOptions,
    planner: &dyn FramePlanner,
    request: &CoAllocation,
    view: &FrameView,
    stop: &AtomicBool,
) -> FrameOutcome {
    if stop.load(Ordering::Relaxed) {
        return FrameOutcome::Stopped;
    }
    // An outside solver does not see `stop`, so no single call of it may take long.
    let (nodes, solver_time) = (limits::PLANNING_NODES_MAX, limits::ALTERNATIVES_SOLVER_TIME);
    let budget = Budget { nodes, solver_time, stop };
    let (ranking, edges) = (options.ranking, options.route_edges_max as usize);
    let packing = Packing::new(&snapshot.topology, request, view, ranking, edges);
    match packing.solve(planner, &budget) {
        Ok(plan) => FrameOutcome::Fits(Box::new(plan)),
        Err(refusal) if refusal.reason == Reason::BudgetExhausted => FrameOutcome::Stopped,
        Err(_) => FrameOutcome::Not,
    }
}

/// How far the known starts led.
enum KnownOutcome {
    Fits(Box<RankedPlan>),
    /// No known start fits, so more must be queried.
    AskMore,
    Stopped,
}

/// Tries the starts with known availability, in their order.
fn follow(
    search: &mut NearestWindowSearch,
    plan: impl Fn(&FrameView) -> FrameOutcome,
) -> KnownOutcome {
    while let Some(view) = search.candidate() {
        match plan(view) {
            FrameOutcome::Fits(plan) => return KnownOutcome::Fits(plan),
            FrameOutcome::Stopped => return KnownOutcome::Stopped,
            FrameOutcome::Not => search.refute(),
        }
    }
    KnownOutcome::AskMore
}
