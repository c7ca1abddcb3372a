//! Hop 4: plans, best first. One plan is searched for each frame. All frames are searched at once, on threads of their
//! own and under one time budget; then the plans are sorted by the objectives.
//!
//! Left out: how a plan is searched (`coalloc_plan`). Source: Takefusa 2010, section 3.1, stages 2iii and 2iv.

mod fair;
mod job;
pub mod libraries;
pub mod plan_cache;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use coalloc_common::{CoAllocation, Reason, Refusal, RmName, Span, UserName, Window, limits};
use coalloc_net::convert::RequestOptions;
use coalloc_net::{metrics, status, traces};
use coalloc_plan::objectives::{Answer, best};
use coalloc_plan::{FramePlanner, RankedPlan, Solver};
use rayon::prelude::*;
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use tonic::Status;

use crate::availability::FrameAvailability;
use crate::availability::federation::Snapshot;
use crate::planning::fair::{Places, PlanningSlot, Turn, TurnQueue};
pub use crate::planning::job::ip_options;
use crate::planning::job::{Job, Stage, is_open, is_worse};
use crate::planning::libraries::Libraries;

/// The result of planning a request.
#[derive(Debug)]
pub struct PlanningOutcome {
    /// The plans, best first: at most as many as the request asked for.
    pub plans: Vec<RankedPlan>,
    /// The frames without a plan, earliest first, each with the reason.
    pub refused: Vec<(Window, Refusal)>,
    /// Which of the refused frames are explained.
    pub explained: ExplainedFrames,
    /// The RMs that were not asked or did not answer.
    pub unreachable: Vec<RmName>,
    /// Whether all RMs have described what they have, those included that do not answer now.
    pub all_described: bool,
}

/// Which refused frames are explained, that is, what is missing there. An explanation takes some milliseconds of a
/// planner's thread in a large federation, and a failed reservation shows one refusal at most.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ExplainedFrames {
    /// Every refused frame.
    All,
    /// If there is no plan at all, the frame that came closest to one; otherwise none.
    Closest,
}

impl PlanningOutcome {
    /// Why there is no plan at all: the refusal of the frame that came closest to one, and which RMs were missing. Only
    /// to be used when there is no plan.
    #[must_use]
    pub fn refusal(&self) -> Refusal {
        let explained = self.refused.iter().find(|(_, refusal)| refusal.bottleneck.is_some());
        let explained = explained.filter(|_| self.explained == ExplainedFrames::Closest);
        let refusal = explained.or_else(|| closest(&self.refused).map(|at| &self.refused[at]));
        let none = || Refusal::new(Reason::NoRoute, "there was no frame to plan");
        self.blame(refusal.map_or_else(none, |(_, refusal)| refusal.clone()))
    }

    /// Is there no plan, and will there be none while the resource managers own what they describe now?
    #[must_use]
    pub fn is_for_good(&self) -> bool {
        let mut refused = self.refused.iter();
        self.plans.is_empty()
            && (self.unreachable.is_empty() || self.all_described)
            && refused.any(|(_, refusal)| !refusal.reason.transient())
    }

    /// The refusal of a frame. If RMs did not answer, the reason is that they are unreachable, since no shortage is
    /// proven; but what is more than all have described is never there.
    #[must_use]
    pub fn blame(&self, refusal: Refusal) -> Refusal {
        let is_never = refusal.reason == Reason::BeyondCapacity && self.all_described;
        if self.unreachable.is_empty() || refusal.reason == Reason::OutsideHorizon || is_never {
            return refusal;
        }
        Refusal { bottleneck: None, ..behind_silence(&self.unreachable, refusal) }
    }
}

/// A refusal whose cause may be that these resource managers, of which there is at least one, did not answer.
#[must_use]
pub fn behind_silence<'a>(
    silent: impl IntoIterator<Item = &'a RmName>,
    refusal: Refusal,
) -> Refusal {
    let names: Vec<&str> = silent.into_iter().map(RmName::as_str).collect();
    let (do_not, theirs) = match names.len() {
        1 => ("does not", "what it has"),
        _ => ("do not", "what they have"),
    };
    let (names, detail) = (names.join(", "), refusal.detail);
    let detail = format!("{names} {do_not} answer, so {theirs} counts as taken: {detail}");
    Refusal { detail, reason: Reason::Unreachable, ..refusal }
}

/// The index of the refused frame that came closest to a plan; if several did, the first of them, which begins when it was asked
/// for.
fn closest(refused: &[(Window, Refusal)]) -> Option<usize> {
    (0..refused.len()).rev().max_by_key(|at| closeness(&refused[*at].1))
}

/// How far a frame got before it was refused; higher is further. A missing route is found only after enough CPUs.
fn closeness(refusal: &Refusal) -> u32 {
    match refusal.reason {
        Reason::BudgetExhausted => 3,
        Reason::NoRoute => 2,
        Reason::InsufficientCapacity => 1,
        _ => 0,
    }
}

/// The threads of the planners, in three pools, so that no request waits for work that takes much longer than its own:
///
/// * `quick`, for planning that takes next to no time. It has normal priority: otherwise most requests would wait for
///   their planner on a busy machine.
/// * `search`, for long searches of our own planners, which stop on request.
/// * `outside`, for work that waits for outside solvers, which do not stop on request. The solvers themselves run on
///   threads of their own, see [`Libraries`].
///
/// The last two pools have the lowest priority, and one thread fewer than there are cores. A core without a planner at
/// work answers holds at once. The lowest priority alone would leave holds waiting for the scheduler's next tick, 4 ms
/// on many systems (`docs/FIGURES.md`).
#[derive(Debug, Clone)]
pub struct Planners {
    quick: Arc<rayon::ThreadPool>,
    search: Arc<rayon::ThreadPool>,
    outside: Arc<rayon::ThreadPool>,
    libraries: Libraries,
    /// Hands work to a pool, and returns at once or after the work is done.
    hand: fn(&rayon::ThreadPool, PoolJob),
    /// Search nodes for each frame in the first, short stage.
    quick_nodes: u64,
    /// Limits the requests that are being planned or wait for it.
    places: Places,
    /// The user who is planned for; "anonymous" unless set.
    user: UserName,
    /// The place of a request that has one for all of its planning; `None`: each piece of planning takes one.
    place: Option<Arc<PlanningSlot>>,
}

/// How far a search goes, which decides on which threads it runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Depth {
    /// Only as far as takes a negligible time.
    Short,
    /// To its end, or until its time is over.
    Whole,
}

/// A piece of work for a pool.
type PoolJob = Box<dyn FnOnce() + Send>;

/// Niceness of the threads for long work: 19 is the lowest priority there is.
const PLANNER_NICENESS: i32 = 19;

/// Sets the stop flag of a search when the request that waits for it goes away.
struct StopWhenDropped(Arc<AtomicBool>);

impl Drop for StopWhenDropped {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

impl Planners {
    /// Starts the threads of all pools.
    ///
    /// # Errors
    /// When the system gives no threads.
    pub fn start() -> std::io::Result<Self> {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let pool = |name: &'static str, threads: usize| {
            let builder = rayon::ThreadPoolBuilder::new().num_threads(threads);
            builder.thread_name(move |n| format!("{name}-{n}"))
        };
        let long = |name| {
            let builder = pool(name, cores.saturating_sub(1).max(1));
            built(builder.start_handler(|_| yield_to_others()))
        };
        let quick = built(pool("planner", cores))?;
        let (search, outside) = (long("search")?, long("solver")?);
        let libraries = Libraries::new(outside.current_num_threads(), yield_to_others);
        let hand = |pool: &rayon::ThreadPool, work: PoolJob| pool.spawn(work);
        Ok(Self::on_pools(quick, search, outside, libraries, hand))
    }

    /// Planners on one thread, whose callers block until the work is done. For simulations: no simulated time passes
    /// meanwhile, and the same run gets the same answers at the same moments.
    ///
    /// # Errors
    /// When the system gives no threads.
    pub fn at_once() -> std::io::Result<Self> {
        let one = built(rayon::ThreadPoolBuilder::new().num_threads(1))?;
        let (quick, search, outside) = (Arc::clone(&one), Arc::clone(&one), one);
        let libraries = Libraries::at_once();
        let hand = |pool: &rayon::ThreadPool, work: PoolJob| pool.install(work);
        Ok(Self::on_pools(quick, search, outside, libraries, hand))
    }

    fn on_pools(
        quick: Arc<rayon::ThreadPool>,
        search: Arc<rayon::ThreadPool>,
        outside: Arc<rayon::ThreadPool>,
        libraries: Libraries,
        hand: fn(&rayon::ThreadPool, PoolJob),
    ) -> Self {
        let (places, user) = (Places::new(limits::PLANNINGS_MAX), nobody());
        let quick_nodes = limits::QUICK_NODES;
        Self { quick, search, outside, libraries, hand, quick_nodes, places, user, place: None }
    }

    /// The same planners for a user. Places and turns are shared fairly between users.
    #[must_use]
    pub fn of(&self, user: &UserName) -> Self {
        Self { user: user.clone(), ..self.clone() }
    }

    /// Waits until it is this user's turn to plan something that holds nothing. Returns planners that have the place for all
    /// of it. Such plans have up to [`limits::FRAMES_MAX`] frames, and their queries, views and answers keep the async
    /// threads busy, which the protocol needs: so they take turns as a whole.
    ///
    /// # Errors
    /// RESOURCE_EXHAUSTED when too many requests are being planned, or the place is given to another user meanwhile.
    pub(crate) async fn what_if(&self) -> Result<(Self, Turn), Status> {
        let place = self.enter()?;
        let turn = place.turn(TurnQueue::WhatIf).await?;
        Ok((Self { place: Some(place), ..self.clone() }, turn))
    }

    /// The place of the request, or a new one.
    fn enter(&self) -> Result<Arc<PlanningSlot>, Status> {
        match &self.place {
            Some(place) => Ok(Arc::clone(place)),
            None => self.places.enter(&self.user).map(Arc::new),
        }
    }

    /// Plans every frame of a picture. Async threads only wait; the time budget begins when a planner's thread begins.
    /// If the caller goes away, its planning stops.
    ///
    /// # Errors
    /// RESOURCE_EXHAUSTED when too many requests are being planned already; INTERNAL when a planner panicked. Neither
    /// means that anything is wrong with the request.
    pub async fn plan(
        &self,
        federation: Arc<Snapshot>,
        request: CoAllocation,
        options: RequestOptions,
        picture: FrameAvailability,
        explained: ExplainedFrames,
    ) -> Result<PlanningOutcome, Status> {
        let place = self.enter()?;
        let _counted = metrics::GaugeGuard::new(&metrics::grc().plannings);
        let (span, begun) = (traces::part("planning"), Instant::now());
        let FrameAvailability { views, unreachable, .. } = picture;
        let frames: Vec<usize> = (0..views.len()).collect();
        let job = Arc::new(Job { federation, request, options, views, span: span.clone() });
        let answers = match options.solver {
            Solver::Exact => self.in_two_stages(&place, &job, frames).await?,
            _ => self.in_turn(&place, &job, frames).await?,
        };
        let (plans, refused) = best(answers, options.plans as usize);
        let wanted: Vec<usize> = match explained {
            ExplainedFrames::All => (0..refused.len()).collect(),
            ExplainedFrames::Closest if plans.is_empty() => closest(&refused).into_iter().collect(),
            ExplainedFrames::Closest => Vec::new(),
        };
        let refused = self.explain(&place, &job, refused, wanted).await?;
        let all_described = job.federation.missing.is_empty();
        let refused = match plans.is_empty() && all_described {
            true => self.never(&place, &job, refused).await?,
            false => refused,
        };
        count(begun, &plans, &refused);
        span.set("coalloc.plans", plans.len());
        Ok(PlanningOutcome { plans, refused, explained, unreachable, all_described })
    }

    /// Adds to some of the refused frames the resource that is the bottleneck there.
    async fn explain(
        &self,
        place: &PlanningSlot,
        job: &Arc<Job>,
        mut refused: Vec<(Window, Refusal)>,
        wanted: Vec<usize>,
    ) -> Result<Vec<(Window, Refusal)>, Status> {
        if wanted.is_empty() {
            return Ok(refused);
        }
        let (sender, explained) = tokio::sync::oneshot::channel();
        let job = Arc::clone(job);
        // One explanation takes some milliseconds, and does not wait behind other requests' searches. The many of a
        // what-if plan may take seconds.
        let (pool, _turn) = match wanted.len() {
            1 => (&self.quick, None),
            _ => (&self.search, Some(place.turn(TurnQueue::Search).await?)),
        };
        let work = move || {
            let explain = || {
                let said = |at: usize| {
                    let (window, refusal) = &refused[at];
                    (at, job.explain(*window, refusal))
                };
                let said: Vec<(usize, Refusal)> = wanted.into_par_iter().map(said).collect();
                for (at, refusal) in said {
                    refused[at].1 = refusal;
                }
                refused
            };
            // The caller may be gone.
            let _ = sender.send(catch_unwind(AssertUnwindSafe(explain)));
        };
        (self.hand)(pool, Box::new(work));
        explained.await.ok().and_then(Result::ok).ok_or_else(broken_off)
    }

    /// For a request without a plan: refuses all its frames for good if even a federation without bookings has no plan.
    async fn never(
        &self,
        place: &PlanningSlot,
        job: &Arc<Job>,
        mut refused: Vec<(Window, Refusal)>,
    ) -> Result<Vec<(Window, Refusal)>, Status> {
        let beyond = |refusal: &Refusal| refusal.reason == Reason::BeyondCapacity;
        let Some((window, _)) = refused.first().cloned() else { return Ok(refused) };
        let said = refused.iter().find(|(_, refusal)| beyond(refusal)).cloned();
        let never = match said {
            Some((_, refusal)) => Some(refusal),
            None => {
                let job = Arc::clone(job);
                let work = move |stop: &AtomicBool| job.never(window, stop);
                // If this waits too long behind other requests' searches, the refusal stays transient.
                let (pool, line) = (&*self.search, Some(TurnQueue::Search));
                let answer = self.work(place, pool, line, limits::NEVER_TIME, work).await;
                answer.or_else(|status| match status.code() {
                    tonic::Code::ResourceExhausted => Ok(None),
                    _ => Err(status),
                })?
            }
        };
        let Some(never) = never else { return Ok(refused) };
        // A frame in the past or beyond the horizon keeps its own reason.
        let frames = refused.iter_mut().map(|(_, refusal)| refusal);
        for refusal in frames.filter(|refusal| refusal.reason.transient()) {
            *refusal = never.clone();
        }
        Ok(refused)
    }

    /// Searches each frame for a short time first, then those frames to the end that the short search left open. The
    /// long search begins anew, because it soon repeats the short one.
    async fn in_two_stages(
        &self,
        place: &PlanningSlot,
        job: &Arc<Job>,
        frames: Vec<usize>,
    ) -> Result<Vec<(Window, Answer)>, Status> {
        let mut answers = self.on(&self.quick, job, Stage::Short(self.quick_nodes), frames).await?;
        let open = answers.iter().enumerate().filter(|(_, (_, answer))| is_open(answer));
        let open: Vec<usize> = open.map(|(frame, _)| frame).collect();
        if !open.is_empty() {
            let whole = self.in_turn(place, job, open.clone()).await?;
            for (frame, answer) in open.into_iter().zip(whole) {
                // The long search may have been stopped before it found what the short one has.
                if !is_worse(&answer.1, &answers[frame].1) {
                    answers[frame] = answer;
                }
            }
        }
        Ok(answers)
    }

    /// Searches frames to the end, once it is this request's turn.
    async fn in_turn(
        &self,
        place: &PlanningSlot,
        job: &Arc<Job>,
        frames: Vec<usize>,
    ) -> Result<Vec<(Window, Answer)>, Status> {
        let solver = job.options.solver;
        let _turn = place.turn(line(solver)).await?;
        self.on(self.long(solver), job, Stage::Whole, frames).await
    }

    /// Plans some frames of a job on the threads of a pool: one answer for each frame, in their order. A solver that
    /// slides gives no answers after the first frame that fits.
    async fn on(
        &self,
        pool: &rayon::ThreadPool,
        job: &Arc<Job>,
        stage: Stage,
        frames: Vec<usize>,
    ) -> Result<Vec<(Window, Answer)>, Status> {
        let stop = StopWhenDropped(Arc::new(AtomicBool::new(false)));
        let (started, has_started) = tokio::sync::oneshot::channel();
        let (sender, planned) = tokio::sync::oneshot::channel();
        let (stopped, job) = (Arc::clone(&stop.0), Arc::clone(job));
        let (libraries, outside) = (self.libraries.clone(), self.outside.current_num_threads());
        let work = move || {
            // The caller may be gone, here and below.
            let _ = started.send(());
            let plan = || job.plan(stage, &frames, &libraries, outside, &stopped);
            let _ = sender.send(catch_unwind(AssertUnwindSafe(plan)));
        };
        (self.hand)(pool, Box::new(work));
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
        outcome.ok().and_then(Result::ok).ok_or_else(broken_off)
    }

    /// The pool for long work of a solver.
    const fn long(&self, solver: Solver) -> &Arc<rayon::ThreadPool> {
        if solver.is_outside() { &self.outside } else { &self.search }
    }

    /// Searches on the threads for this depth, for `time` at most; otherwise as [`Planners::run`].
    ///
    /// # Errors
    /// As [`Planners::run`].
    pub async fn search<T: Send + 'static>(
        &self,
        depth: Depth,
        time: Span,
        work: impl FnOnce(&AtomicBool) -> T + Send + 'static,
    ) -> Result<T, Status> {
        let (pool, line) = match depth {
            Depth::Short => (&self.quick, None),
            Depth::Whole => (&self.search, Some(TurnQueue::Search)),
        };
        self.run_on(pool, line, time, work).await
    }

    /// The planner of a solver, for work that may take `time`. Planners of our own need no outside solver.
    #[must_use]
    pub fn planner(&self, options: RequestOptions, time: Span) -> Box<dyn FramePlanner> {
        let outside = options.solver.is_outside();
        let elsewhere = outside.then(|| self.libraries.until(Instant::now() + time.to_std()));
        options.solver.planner(ip_options(options), elsewhere)
    }

    /// Does other work with a solver on the solver's threads. The flag is set when `time` is over, or when nobody waits
    /// for the result any more; the work must end soon after that.
    ///
    /// # Errors
    /// As [`Planners::plan`]; also RESOURCE_EXHAUSTED when no thread was free within `time`.
    pub async fn run<T: Send + 'static>(
        &self,
        solver: Solver,
        time: Span,
        work: impl FnOnce(&AtomicBool) -> T + Send + 'static,
    ) -> Result<T, Status> {
        self.run_on(self.long(solver), Some(line(solver)), time, work).await
    }

    /// Waits, for as long as alternatives may take, until it is this user's turn to search alternatives.
    ///
    /// # Errors
    /// RESOURCE_EXHAUSTED when too many requests are being planned, or the turn does not come in time.
    pub async fn for_alternatives(&self) -> Result<AlternativesTurn<'_>, Status> {
        let place = self.enter()?;
        let turn = place.turn(TurnQueue::Alternatives);
        let turn = tokio::time::timeout(limits::ALTERNATIVES_TIME_MAX.to_std(), turn).await;
        let turn = turn.map_err(|_| status::busy())??;
        Ok(AlternativesTurn { planners: self, place, _turn: turn })
    }

    async fn run_on<T: Send + 'static>(
        &self,
        pool: &rayon::ThreadPool,
        line: Option<TurnQueue>,
        time: Span,
        work: impl FnOnce(&AtomicBool) -> T + Send + 'static,
    ) -> Result<T, Status> {
        let place = self.enter()?;
        self.work(&place, pool, line, time, work).await
    }

    /// As [`Planners::run`], for a request that has its place already.
    async fn work<T: Send + 'static>(
        &self,
        place: &PlanningSlot,
        pool: &rayon::ThreadPool,
        line: Option<TurnQueue>,
        time: Span,
        work: impl FnOnce(&AtomicBool) -> T + Send + 'static,
    ) -> Result<T, Status> {
        let begun = tokio::time::Instant::now();
        let turn = async {
            match line {
                Some(line) => place.turn(line).await.map(Some),
                None => Ok(None),
            }
        };
        let turn = tokio::time::timeout(time.to_std(), turn).await;
        let _turn = turn.map_err(|_| status::busy())??;
        let stop = StopWhenDropped(Arc::new(AtomicBool::new(false)));
        let (started, mut has_started) = tokio::sync::oneshot::channel();
        let (sender, mut done) = tokio::sync::oneshot::channel();
        let stopped = Arc::clone(&stop.0);
        let work = move || {
            // The caller may be gone, here and below.
            let _ = started.send(());
            let _ = sender.send(catch_unwind(AssertUnwindSafe(|| work(&stopped))));
        };
        (self.hand)(pool, Box::new(work));
        let until = begun + time.to_std();
        let outcome = match tokio::time::timeout_at(until, &mut done).await {
            Ok(outcome) => outcome,
            Err(_) => {
                stop.0.store(true, Ordering::Relaxed);
                // Work that still waits for a thread is given up; work that has begun stops soon, and is awaited.
                has_started.try_recv().map_err(|_| status::busy())?;
                done.await
            }
        };
        outcome.ok().and_then(Result::ok).ok_or_else(broken_off)
    }
}

/// A user's turn to search alternatives.
#[derive(Debug)]
pub struct AlternativesTurn<'a> {
    planners: &'a Planners,
    place: Arc<PlanningSlot>,
    _turn: Turn,
}

impl AlternativesTurn<'_> {
    /// As [`Planners::run`], in the place that the user has already.
    ///
    /// # Errors
    /// As [`Planners::run`].
    pub async fn run<T: Send + 'static>(
        &self,
        solver: Solver,
        time: Span,
        work: impl FnOnce(&AtomicBool) -> T + Send + 'static,
    ) -> Result<T, Status> {
        let (planners, line) = (self.planners, Some(line(solver)));
        planners.work(&self.place, planners.long(solver), line, time, work).await
    }
}

/// The queue in which long work of a solver waits for its turn.
const fn line(solver: Solver) -> TurnQueue {
    if solver.is_outside() { TurnQueue::Outside } else { TurnQueue::Search }
}

/// The user for requests without a user name.
fn nobody() -> UserName {
    UserName::composed("anonymous")
}

fn built(builder: rayon::ThreadPoolBuilder) -> std::io::Result<Arc<rayon::ThreadPool>> {
    builder.build().map(Arc::new).map_err(std::io::Error::other)
}

fn broken_off() -> Status {
    tracing::error!("a planner panicked");
    status::internal("the planner broke off; nothing was done")
}

/// Gives every other thread, of this process and of others, precedence over the calling one: a planner at full load
/// takes only what they leave.
fn yield_to_others() {
    // On Linux this sets the priority of the calling thread alone. If it fails, plans are as good but holds slower.
    if let Err(error) = rustix::process::setpriority_process(None, PLANNER_NICENESS) {
        tracing::warn!(%error, "planners run with the priority of everybody else");
    }
    if let Err(error) = leave_a_core() {
        tracing::warn!(%error, "planners run on every core");
    }
}

/// Keeps the calling thread off the first core that it may use, if there are others. It is not enough to have fewer
/// threads than cores: threads that move from one core to another disturb both.
fn leave_a_core() -> std::io::Result<()> {
    let mut cores = sched_getaffinity(None)?;
    let first = (0..CpuSet::MAX_CPU).find(|core| cores.is_set(*core));
    if let Some(first) = first.filter(|_| cores.count() > 1) {
        cores.unset(first);
        sched_setaffinity(None, &cores)?;
    }
    Ok(())
}

/// Counts the result of planning one request.
fn count(begun: Instant, plans: &[RankedPlan], refused: &[(Window, Refusal)]) {
    let grc = metrics::grc();
    grc.planning_seconds.observe(metrics::seconds(begun.elapsed()));
    // There are at most `FRAMES_MAX` of each.
    grc.plans.observe(plans.len() as f64);
    grc.frames.with(["planned"]).inc_by(plans.len() as u64);
    grc.frames.with(["refused"]).inc_by(refused.len() as u64);
}

#[cfg(test)]
mod tests;
