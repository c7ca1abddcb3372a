//! Hop 4: plans, best first. Stages 2iii and 2iv of Takefusa 2010, section 3.1: a plan per frame, all
//! frames at once on threads of their own, under one time budget; then sorted by the objectives.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use coalloc_common::topology::FrameView;
use coalloc_common::{CoAllocation, Reason, Refusal, RmName, Span, Window, limits};
use coalloc_net::convert::RequestOptions;
use coalloc_net::traces::{Span as Traced, SpanKind};
use coalloc_net::{metrics, status, traces};
use coalloc_plan::baseline::slide;
use coalloc_plan::ip::IpOptions;
use coalloc_plan::ip::handover::Elsewhere;
use coalloc_plan::objectives::{Answer, best};
use coalloc_plan::{Budget, Judged, Packing, Solver};
use rayon::prelude::*;
use tokio::sync::Semaphore;
use tonic::Status;

use crate::federation::Snapshot;
use crate::picture::Picture;

/// What planning came to.
#[derive(Debug)]
pub struct Planned {
    /// Best first, at most as many as were asked for.
    pub plans: Vec<Judged>,
    /// The frames without one, and why, earliest first.
    pub refused: Vec<(Window, Refusal)>,
    /// RMs that were not asked, or did not answer.
    pub unreachable: Vec<RmName>,
}

impl Planned {
    /// Why there is no plan at all, when there is none: the refusal of the frame that came closest,
    /// and which RMs were missing.
    #[must_use]
    pub fn refusal(&self) -> Refusal {
        let refusal = self
            .refused
            .iter()
            .map(|(_, refusal)| refusal)
            .max_by_key(|refusal| closeness(refusal))
            .cloned()
            .unwrap_or_else(|| Refusal::new(Reason::NoRoute, "there was no frame to plan"));
        self.blame(refusal)
    }

    /// The refusal of a frame; where RMs were silent it is theirs, and no shortage is proven.
    #[must_use]
    pub fn blame(&self, refusal: Refusal) -> Refusal {
        if self.unreachable.is_empty() || refusal.reason == Reason::OutsideHorizon {
            return refusal;
        }
        let names: Vec<&str> = self.unreachable.iter().map(|rm| rm.as_str()).collect();
        let detail = &refusal.detail;
        let detail = format!("{detail}; not answering, so not counted: {}", names.join(", "));
        Refusal { detail, reason: Reason::Unreachable, bottleneck: None, ..refusal }
    }
}

/// How far a frame got before it was refused: a missing route comes after enough CPUs were found.
fn closeness(refusal: &Refusal) -> u32 {
    match refusal.reason {
        Reason::BudgetExhausted => 3,
        Reason::NoRoute => 2,
        Reason::InsufficientCapacity => 1,
        _ => 0,
    }
}

/// The planners' threads: some for planners of our own, which stop when they are told, and others for
/// outside solvers, which do not, so that a slow library delays nobody who has not asked for it.
#[derive(Debug, Clone)]
pub struct Planners {
    own: Arc<rayon::ThreadPool>,
    outside: Arc<rayon::ThreadPool>,
    /// Requests that may be planned at once, or wait for it.
    places: Arc<Semaphore>,
}

/// Niceness of planners' threads: the least there is.
const PLANNER_NICENESS: i32 = 19;

/// Says stop when its request is no longer waited for.
struct StopWhenDropped(Arc<AtomicBool>);

impl Drop for StopWhenDropped {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

impl Planners {
    /// One thread a core for each kind.
    ///
    /// # Errors
    /// When the system gives no threads.
    pub fn start() -> std::io::Result<Self> {
        let pool = |name: &'static str| {
            let builder =
                rayon::ThreadPoolBuilder::new().thread_name(move |n| format!("{name}-{n}"));
            let builder = builder.start_handler(|_| yield_to_others());
            builder.build().map(Arc::new).map_err(std::io::Error::other)
        };
        let places = Arc::new(Semaphore::new(limits::PLANNINGS_MAX));
        Ok(Self { own: pool("planner")?, outside: pool("solver")?, places })
    }

    /// Plans every frame of a picture. The async threads only wait; the time budget begins when a
    /// planner's thread does. A caller that goes away stops its planning.
    ///
    /// # Errors
    /// RESOURCE_EXHAUSTED when too many requests are being planned already; INTERNAL when a planner
    /// panicked. Neither says anything about the request.
    pub async fn plan(
        &self,
        federation: Arc<Snapshot>,
        request: CoAllocation,
        options: RequestOptions,
        picture: Picture,
    ) -> Result<Planned, Status> {
        let _place = Arc::clone(&self.places).try_acquire_owned().map_err(|_| status::busy())?;
        let _counted = metrics::Counted::new(&metrics::grc().plannings);
        let (span, begun) = (traces::part("planning"), Instant::now());
        let stop = StopWhenDropped(Arc::new(AtomicBool::new(false)));
        let (started, has_started) = tokio::sync::oneshot::channel();
        let (sender, planned) = tokio::sync::oneshot::channel();
        let stopped = Arc::clone(&stop.0);
        let unreachable = picture.unreachable;
        let pool = if options.solver.is_outside() { &self.outside } else { &self.own };
        let within = span.clone();
        let outside = Arc::clone(&self.outside);
        pool.spawn(move || {
            // The caller may be gone, both times.
            let _ = started.send(());
            let views = &picture.views;
            let count = options.plans as usize;
            let plan = || {
                let frames = (&views[..], &within);
                best(
                    plan_frames((&federation, &request, options), &outside, frames, &stopped),
                    count,
                )
            };
            let _ = sender.send(catch_unwind(AssertUnwindSafe(plan)));
        });
        let timed = async {
            let _ = has_started.await;
            tokio::time::sleep(limits::PLANNING_TIME_MAX.to_std()).await;
            stop.0.store(true, Ordering::Relaxed);
            std::future::pending::<()>().await;
        };
        let outcome = tokio::select! {
            outcome = planned => outcome,
            () = timed => return Err(status::stopping()),
        };
        match outcome {
            Ok(Ok((plans, refused))) => {
                count(begun, &plans, &refused);
                span.set("coalloc.plans", plans.len());
                Ok(Planned { plans, refused, unreachable })
            }
            Ok(Err(_)) | Err(_) => {
                tracing::error!("a planner panicked");
                Err(status::internal("the planner broke off; nothing was done"))
            }
        }
    }

    /// Does other work with a planner on its threads: until it is done, its time is over, or nobody
    /// waits for it any more; the last two it is told by the flag.
    ///
    /// # Errors
    /// As [`Planners::plan`].
    pub async fn run<T: Send + 'static>(
        &self,
        solver: Solver,
        time: Span,
        work: impl FnOnce(&AtomicBool) -> T + Send + 'static,
    ) -> Result<T, Status> {
        let _place = Arc::clone(&self.places).try_acquire_owned().map_err(|_| status::busy())?;
        let stop = StopWhenDropped(Arc::new(AtomicBool::new(false)));
        let (sender, mut done) = tokio::sync::oneshot::channel();
        let stopped = Arc::clone(&stop.0);
        let pool = if solver.is_outside() { &self.outside } else { &self.own };
        pool.spawn(move || {
            // The caller may be gone.
            let _ = sender.send(catch_unwind(AssertUnwindSafe(|| work(&stopped))));
        });
        let outcome = match tokio::time::timeout(time.to_std(), &mut done).await {
            Ok(outcome) => outcome,
            Err(_) => {
                stop.0.store(true, Ordering::Relaxed);
                done.await
            }
        };
        outcome.ok().and_then(Result::ok).ok_or_else(|| {
            tracing::error!("a planner panicked");
            status::internal("the planner broke off; nothing was done")
        })
    }
}

/// Lets every thread of the protocol, of this and of other processes, go before this one: a planner
/// that is at full load takes what is left.
fn yield_to_others() {
    // On Linux this is the calling thread's own. Without it plans are as good, holds only slower.
    if let Err(error) = rustix::process::setpriority_process(None, PLANNER_NICENESS) {
        tracing::warn!(%error, "planners run with the priority of everybody else");
    }
}

/// What planning one request came to.
fn count(begun: Instant, plans: &[Judged], refused: &[(Window, Refusal)]) {
    let grc = metrics::grc();
    grc.planning_seconds.observe(metrics::seconds(begun.elapsed()));
    // At most `FRAMES_MAX` of each.
    grc.plans.observe(plans.len() as f64);
    grc.frames.with(["planned"]).inc_by(plans.len() as u64);
    grc.frames.with(["refused"]).inc_by(refused.len() as u64);
}

fn plan_frames(
    (federation, request, options): (&Snapshot, &CoAllocation, RequestOptions),
    outside: &Arc<rayon::ThreadPool>,
    (views, span): (&[FrameView], &Traced),
    stop: &AtomicBool,
) -> Vec<(Window, Answer)> {
    let ip = ip_options(options);
    // What `exact` hands over is solved on the threads of outside solvers; its own plans others meanwhile.
    let outside = Arc::clone(outside);
    let elsewhere: Elsewhere = Box::new(move |work| outside.install(work));
    let planner = options.solver.planner(ip, Some(elsewhere));
    // An outside solver does not hear `stop`: the frames share the time that all may take (I19).
    let threads = rayon::current_num_threads().max(1);
    let rounds = views.len().div_ceil(threads).max(1);
    let share = Span::from_us(limits::PLANNING_TIME_MAX.as_us() / rounds as i64);
    let budget = Budget {
        nodes: limits::PLANNING_NODES_MAX,
        solver_time: options.solver.outside_time(share),
        stop,
    };
    let topology = &federation.topology;
    let (ranking, edges) = (options.ranking, options.route_edges_max as usize);
    let plan = |view: &FrameView| {
        let span = span.child("frame", SpanKind::Internal);
        span.set("coalloc.window", view.window);
        let packing = Packing::new(topology, request, view, ranking, edges);
        let answer = packing.solve(planner.as_ref(), &budget);
        let explain = |refusal| options.solver.explain(topology, request, view, &ip, refusal);
        (view.window, answer.map_err(explain))
    };
    if options.solver.slides() {
        return slide(views, plan);
    }
    views.par_iter().map(plan).collect()
}

/// What every planner of the integer program is told.
#[must_use]
pub const fn ip_options(options: RequestOptions) -> IpOptions {
    IpOptions { route_edges_max: options.route_edges_max, exclude_opposite_arcs: true }
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};

    use coalloc_common::{Cpus, SiteDemand, SiteName, Time, Timing, Topology};

    use super::*;

    fn nothing_known() -> Arc<Snapshot> {
        let (topology, members) = (Topology::new(), BTreeMap::new());
        Arc::new(Snapshot { topology, members, missing: Vec::new() })
    }

    fn request() -> CoAllocation {
        let name = SiteName::composed("a");
        let site = SiteDemand { name, cpus: Cpus(1), pinned: None, excluded: BTreeSet::new() };
        let start = Time::from_us(0);
        let duration = Span::from_secs(60);
        let timing = Timing { earliest_start: start, latest_start: start, duration };
        CoAllocation { sites: vec![site], links: Vec::new(), timing }
    }

    fn picture() -> Picture {
        let windows = request().timing.frames(1);
        let topology = Topology::new();
        let views = windows.iter().map(|w| FrameView::nothing(&topology, *w)).collect();
        Picture { views, changes: Vec::new(), unreachable: Vec::new() }
    }

    #[tokio::test]
    async fn too_many_plannings_are_answered_busy_and_a_place_is_given_back() {
        let mut planners = Planners::start().unwrap();
        planners.places = Arc::new(Semaphore::new(1));
        let taken = Arc::clone(&planners.places).try_acquire_owned().unwrap();
        let options = RequestOptions::default();
        let busy = planners.plan(nothing_known(), request(), options, picture()).await;
        assert_eq!(busy.unwrap_err().code(), tonic::Code::ResourceExhausted);
        drop(taken);
        for _ in 0..2 {
            let planned = planners.plan(nothing_known(), request(), options, picture()).await;
            let planned = planned.unwrap();
            assert!(planned.plans.is_empty(), "an empty federation has no site");
            assert_eq!(planned.refusal().reason, Reason::BeyondCapacity);
        }
    }
}
