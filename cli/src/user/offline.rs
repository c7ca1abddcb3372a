//! Planning without any daemon: a federation file, what it says is taken, and a planner.

mod instead;
pub mod task;
pub mod workflow;

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use coalloc_common::timetable::{Layer, Timetable};
use coalloc_common::topology::{Direction, FrameView};
use coalloc_common::{
    Amount, CoAllocation, InvalidField, PartWindow, Reason, ResourceId, RmName, Segment, Span,
    Time, Topology, Window, limits,
};
use coalloc_grc::planning::libraries::Libraries;
use coalloc_net::convert::{
    RequestOptions, check_references, file_topology, plan_options, plan_to_wire, refusal_to_wire,
    request_from_wire, taken, window_to_wire,
};
use coalloc_plan::ip::IpOptions;
use coalloc_plan::objectives::{Answer, best};
use coalloc_plan::{Budget, FramePlanner, Packing};
use coalloc_proto::file::{Document, read};
use coalloc_proto::v1;

use crate::kit::exit::Failure;
use crate::kit::request::ParsedRequest;

/// A federation that was read from a file.
#[derive(Debug)]
pub struct Federation {
    /// The file.
    pub file: v1::FederationFile,
    /// The graph of the federation.
    pub topology: Topology,
    /// What is taken of each resource.
    timetables: BTreeMap<(RmName, ResourceId), Timetable>,
}

impl Federation {
    /// Reads a federation file and checks all of it.
    ///
    /// # Errors
    /// The first mistake, with its line.
    pub fn read(path: &Path) -> Result<Self, Failure> {
        Self::of(read(path)?)
    }

    /// Checks a federation file that was read.
    ///
    /// # Errors
    /// The first mistake, with its line.
    pub fn of(document: Document<v1::FederationFile>) -> Result<Self, Failure> {
        let mistake = |error: InvalidField| -> Failure {
            let problem = error.problem();
            document.mistake(&error.field, &problem).into()
        };
        let topology = file_topology(&document.message).map_err(mistake)?;
        let taken = taken(&document.message, &topology).map_err(mistake)?;
        let mut timetables = empty_timetables(&topology);
        for (index, (rm, segment)) in taken.into_iter().enumerate() {
            take(&mut timetables, rm, &segment).map_err(|(value, allowed)| {
                mistake(InvalidField::new(format!("taken[{index}].amount"), value, allowed))
            })?;
        }
        Ok(Self { file: document.message, topology, timetables })
    }

    /// What is free during the whole of a window.
    #[must_use]
    pub fn view(&self, window: Window) -> FrameView {
        let free = |rm: &RmName, resource: &ResourceId| {
            let timetable = self.timetables.get(&(rm.clone(), resource.clone()));
            timetable.map_or(0, |timetable| timetable.free_min(window).0)
        };
        FrameView::of_answers(&self.topology, window, free)
    }

    /// What is free during the whole of a window, and in the windows that parts of a request have within it.
    fn view_for(&self, request: &CoAllocation, frame: Window) -> FrameView {
        let parts = request.part_windows().into_iter();
        let parts = parts.map(|part| self.view(PartWindow::within(Some(part), frame))).collect();
        FrameView { parts, ..self.view(frame) }
    }

    /// Plans a request: one plan per frame, the earliest start first, then the cheapest first.
    ///
    /// # Errors
    /// When the request is wrong, with the line of the mistake.
    pub fn plan(&self, asked: &ParsedRequest, soonest: Time) -> Result<v1::PlanResponse, Failure> {
        let request = request_from_wire(&asked.request, soonest);
        let request = request.map_err(|error| asked.invalid(&error))?;
        check_references(&self.topology, &request).map_err(|error| asked.invalid(&error))?;
        let options = plan_options(Some(&asked.options), RequestOptions::default());
        let options = options.map_err(|error| asked.invalid(&error))?;
        let frames = request.timing.frames(options.frames);
        let answers = self.plan_frames(&request, &frames, options);
        let answers = self.explained(&request, options, answers);
        let beyond = |(_, answer): &(Window, Answer)| {
            answer.as_ref().err().map(|refusal| refusal.reason == Reason::BeyondCapacity)
        };
        let refused: Option<Vec<bool>> = answers.iter().map(beyond).collect();
        let mut response = self.response(&request, answers, options.plans as usize);
        if let Some(beyond) = refused
            && asked.options.alternatives.unwrap_or(true)
        {
            let beyond = beyond.contains(&true);
            let found = self.alternatives(&asked.request, &request, &frames, options, beyond);
            response.alternatives = Some(found);
        }
        Ok(response)
    }

    /// Plans every frame within the time of one request, as many at once as there are processors.
    ///
    /// If the solver slides, frames are planned one after another until one fits.
    fn plan_frames(
        &self,
        request: &CoAllocation,
        frames: &[Window],
        options: RequestOptions,
    ) -> Vec<(Window, Answer)> {
        let stop = AtomicBool::new(false);
        let next = AtomicUsize::new(0);
        let end = Instant::now() + limits::PLANNING_TIME_MAX.to_std();
        let planner = planner(options, end);
        let (done, outcomes) = mpsc::channel();
        // An external solver does not react to `stop`, so the frames share the time that all of them may take.
        let threads = match options.solver.slides() {
            true => 1,
            false => std::thread::available_parallelism().map_or(1, usize::from),
        };
        let rounds = frames.len().div_ceil(threads).max(1) as i64;
        let share = Span::from_us(limits::PLANNING_TIME_MAX.as_us() / rounds);
        let work = |done: mpsc::Sender<(usize, Answer)>| {
            while let at = next.fetch_add(1, Ordering::Relaxed)
                && let Some(window) = frames.get(at)
            {
                let view = self.view_for(request, *window);
                let left = end.saturating_duration_since(Instant::now());
                // This is at most the five seconds of PLANNING_TIME_MAX.
                let left = Span::from_us(left.as_micros() as i64);
                let solver_time = options.solver.outside_time(left.min(share));
                let budget = Budget { nodes: limits::PLANNING_NODES_MAX, solver_time, stop: &stop };
                let (ranking, edges) = (options.ranking, options.route_edges_max as usize);
                let packing = Packing::new(&self.topology, request, &view, ranking, edges);
                let answer = packing.solve(planner.as_ref(), &budget);
                let ends = options.solver.slides() && answer.is_ok();
                // The receiver waits for every frame, so it still exists.
                let _ = done.send((at, answer));
                if ends {
                    break;
                }
            }
        };
        let mut all = Vec::with_capacity(frames.len());
        std::thread::scope(|scope| {
            for _ in 0..threads.min(frames.len()) {
                let done = done.clone();
                scope.spawn(|| work(done));
            }
            drop(done);
            all = collect(&outcomes, &stop, end);
        });
        all.sort_by_key(|(at, _)| *at);
        all.into_iter().zip(frames).map(|((_, answer), window)| (*window, answer)).collect()
    }

    /// The same answers, with the bottleneck for each frame without a plan.
    fn explained(
        &self,
        request: &CoAllocation,
        options: RequestOptions,
        answers: Vec<(Window, Answer)>,
    ) -> Vec<(Window, Answer)> {
        let ip = ip_options(options);
        let explained = |(window, answer): (Window, Answer)| {
            let explain = |refusal| {
                let view = self.view_for(request, window);
                options.solver.explain(&self.topology, request, &view, &ip, refusal)
            };
            (window, answer.map_err(explain))
        };
        answers.into_iter().map(explained).collect()
    }

    fn response(
        &self,
        request: &CoAllocation,
        answers: Vec<(Window, Answer)>,
        count: usize,
    ) -> v1::PlanResponse {
        let (plans, refused) = best(answers, count);
        let refused = refused.iter().map(|(window, refusal)| v1::RefusedFrame {
            window: Some(window_to_wire(*window)),
            refusal: Some(refusal_to_wire(refusal)),
        });
        v1::PlanResponse {
            plans: plans.iter().map(|p| plan_to_wire(&self.topology, request, p)).collect(),
            refused: refused.collect(),
            ..v1::PlanResponse::default()
        }
    }
}

/// Collects every outcome; sets `stop` when the time of one request is over.
fn collect(
    outcomes: &mpsc::Receiver<(usize, Answer)>,
    stop: &AtomicBool,
    end: Instant,
) -> Vec<(usize, Answer)> {
    let mut all = Vec::new();
    loop {
        let left = end.saturating_duration_since(Instant::now());
        if left.is_zero() {
            stop.store(true, Ordering::Relaxed);
        }
        let patience = if left.is_zero() { Duration::from_secs(1) } else { left };
        match outcomes.recv_timeout(patience) {
            Ok(outcome) => all.push(outcome),
            Err(mpsc::RecvTimeoutError::Timeout) => stop.store(true, Ordering::Relaxed),
            Err(mpsc::RecvTimeoutError::Disconnected) => return all,
        }
    }
}

/// The planner that the options name.
///
/// An external library gets one thread for each of ours, and is not waited for after `end`.
fn planner(options: RequestOptions, end: Instant) -> Box<dyn FramePlanner> {
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let libraries = Libraries::new(threads, || ());
    options.solver.planner(ip_options(options), Some(libraries.until(end)))
}

const fn ip_options(options: RequestOptions) -> IpOptions {
    IpOptions { route_edges_max: options.route_edges_max, exclude_opposite_arcs: true }
}

fn empty_timetables(topology: &Topology) -> BTreeMap<(RmName, ResourceId), Timetable> {
    let mut timetables = BTreeMap::new();
    for of in topology.sites().flat_map(|(_, vertex, _)| vertex.resources()) {
        timetables.insert((of.rm.clone(), of.resource.clone()), Timetable::new(of.capacity));
    }
    for edge in topology.edges() {
        for direction in [Direction::AToB, Direction::BToA] {
            let resource = edge.resource(direction).clone();
            let timetable = Timetable::new(Amount::from(edge.capacity));
            timetables.insert((edge.rm.clone(), resource), timetable);
        }
    }
    timetables
}

/// Books a segment; if it does not fit, returns the amount and what would fit.
fn take(
    timetables: &mut BTreeMap<(RmName, ResourceId), Timetable>,
    rm: RmName,
    segment: &Segment,
) -> Result<(), (Amount, String)> {
    let Some(timetable) = timetables.get_mut(&(rm, segment.resource.clone())) else {
        return Err((segment.amount, "an amount of a resource that the file lists".to_owned()));
    };
    timetable.add(Layer::Booked, segment.window, segment.amount).map_err(|short| {
        let free = short.available;
        (segment.amount, format!("at most {free}, which is what the entries before it leave free"))
    })
}
