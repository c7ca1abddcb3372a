//! The planners of a run: the one whose plans are reserved, and one that may be compared with it.
//!
//! A planner that is an external program is watched: whether it finished each frame, and whether it works at
//! all. A program that fails ends the run, because the measures of a day that it planned only in part would
//! mean nothing. A program that is cut short by its time limit is counted.
//!
//! A program of the user ([`custom`]) plans like them.
//!
//! The compared planner plans the same frames as the planner of the day, after it, and nothing of its plans
//! is reserved.

mod custom;

use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, PoisonError};

use coalloc_common::topology::FrameView;
use coalloc_common::{CoAllocation, InvalidField, Ranking, Reason, Span, Topology, Window, limits};
use coalloc_plan::Named as _;
use coalloc_plan::ip::outside::{ProgramOutcome, Programs};
use coalloc_plan::ip::{Exact, IpOptions, Outside};
use coalloc_plan::objectives::Answer;
use coalloc_plan::{Budget, FramePlanner, Instance, Outcome, Packing, Solver};

use self::custom::Custom;
use super::settings::{Planner, Settings};
use crate::experiment::{ModelError, Trace, TraceEvent};

/// How the frames that a program planned ended.
#[derive(Debug, Clone, Default)]
struct Frames {
    planned: u64,
    cut_short: u64,
    failed: Option<String>,
}

/// The planners of a day.
pub(super) struct Planning {
    engine: Engine,
    beside: Option<ComparedPlanner>,
    options: IpOptions,
    ranking: Ranking,
    solver_time: Span,
}

/// A request whose frames are to be planned.
pub(super) struct Question<'a> {
    pub(super) at: i64,
    pub(super) request: usize,
    pub(super) topology: &'a Topology,
    pub(super) wanted: &'a CoAllocation,
}

impl Planning {
    /// The planners that the settings name. `programs` starts external programs; with `None` none can be
    /// started.
    pub(super) fn new(
        settings: &Settings,
        programs: Option<&Arc<dyn Programs>>,
    ) -> Result<Self, ModelError> {
        let options = settings.ip_options();
        Ok(Self {
            engine: Engine::new(settings.planner()?, options, programs)?,
            beside: ComparedPlanner::of(settings, programs)?,
            options,
            ranking: settings.ranking()?,
            solver_time: Span::from_secs(settings.solver_s),
        })
    }

    /// The solver that the coordinator takes the planner of the day for: a program is a solver like the
    /// built-in ones.
    pub(super) const fn solver(&self) -> Solver {
        self.engine.solver
    }

    /// Calls `ask` with the planner of the day, for questions other than the frames. If that planner is a
    /// program, `exact` takes its place, because the program would be started for each of dozens of
    /// questions.
    pub(super) fn with<T>(&self, ask: impl FnOnce(&dyn FramePlanner, &Budget<'_>) -> T) -> T {
        let (stop, nodes) = (AtomicBool::new(false), limits::EXACT_NODES_MAX);
        let budget = Budget { nodes, solver_time: self.solver_time, stop: &stop };
        match self.engine.is_program {
            true => ask(&Exact::new(self.options), &budget),
            false => ask(self.engine.planner.as_ref(), &budget),
        }
    }

    /// Plans every frame, or, if the planner of the day slides, only the frames up to the first that fits.
    pub(super) fn plan(
        &mut self,
        asked: &Question<'_>,
        views: &[FrameView],
        trace: &mut dyn Trace,
    ) -> Result<Vec<(Window, Answer)>, ModelError> {
        let (stop, nodes) = (AtomicBool::new(false), limits::EXACT_NODES_MAX);
        let budget = Budget { nodes, solver_time: self.solver_time, stop: &stop };
        let (at, request) = (asked.at, asked.request as u64);
        let mut answers = Vec::with_capacity(views.len());
        for (number, view) in views.iter().enumerate() {
            // Where a planner is compared, the traced planning time is that of the compared planner.
            let is_told = self.beside.is_none();
            if is_told {
                trace.event(TraceEvent::PlanningBegins { at, request });
            }
            let edges = self.options.route_edges_max as usize;
            let packing = Packing::new(asked.topology, asked.wanted, view, self.ranking, edges);
            let answer = self.engine.solve(&packing, &budget)?;
            if is_told {
                let plans = u64::from(answer.is_ok());
                trace.event(TraceEvent::PlanningEnds { at, request, plans });
            }
            if let Some(beside) =
                self.beside.as_mut().filter(|own| own.is_due(asked.request, number, views.len()))
            {
                beside.plan(asked, view, self.ranking, &budget, trace)?;
            }
            let ends = self.engine.solver.slides() && answer.is_ok();
            answers.push((view.window, answer));
            if ends {
                break;
            }
        }
        Ok(answers)
    }

    /// The number of frames that programs planned, and how many of them were cut short by the time limit.
    pub(super) fn frames_of_programs(&self) -> (u64, u64) {
        let (own, own_cut) = self.engine.frames();
        let (other, other_cut) = self.beside.as_ref().map_or((0, 0), |own| own.engine.frames());
        (own + other, own_cut + other_cut)
    }

    /// The result of the comparison, where a planner is compared.
    pub(super) fn compared(&self) -> Option<ComparisonCounts> {
        self.beside.as_ref().map(|beside| beside.compared)
    }
}

/// One planner and its counts.
struct Engine {
    solver: Solver,
    planner: Box<dyn FramePlanner>,
    is_program: bool,
    frames: Arc<Mutex<Frames>>,
}

impl Engine {
    fn new(
        planner: Planner,
        options: IpOptions,
        programs: Option<&Arc<dyn Programs>>,
    ) -> Result<Self, ModelError> {
        let frames: Arc<Mutex<Frames>> = Arc::default();
        let is_program = matches!(planner, Planner::Outside(..) | Planner::Custom(_));
        let started = |name: &str| {
            let nobody = || {
                let allowed =
                    "a planner that is not a separate program: no program is started here";
                InvalidField::new("planner", InvalidField::quoted(name), allowed)
            };
            programs.map(Arc::clone).ok_or_else(nobody)
        };
        let (solver, planner): (Solver, Box<dyn FramePlanner>) = match planner {
            Planner::Own(solver) => (solver, solver.planner(options, None)),
            Planner::Outside(program, first) => {
                let programs = started(program.name())?;
                let outside = Outside { options, program, first, programs };
                (Solver::Mip, Box::new(Watched { outside, frames: Arc::clone(&frames) }))
            }
            Planner::Custom(path) => {
                let programs = started(&path)?;
                let custom = Custom { path, options, programs, frames: Arc::clone(&frames) };
                (Solver::Mip, Box::new(custom))
            }
        };
        Ok(Self { solver, planner, is_program, frames })
    }

    fn solve(&self, packing: &Packing<'_>, budget: &Budget<'_>) -> Result<Answer, ModelError> {
        let answer = packing.solve(self.planner.as_ref(), budget);
        let failed = self.frames.lock().unwrap_or_else(PoisonError::into_inner).failed.clone();
        failed.map_or(Ok(answer), |what| Err(ModelError::Program(what)))
    }

    fn frames(&self) -> (u64, u64) {
        let frames = self.frames.lock().unwrap_or_else(PoisonError::into_inner);
        (frames.planned, frames.cut_short)
    }
}

/// A program as a planner, which records how each of its frames ended.
struct Watched {
    outside: Outside,
    frames: Arc<Mutex<Frames>>,
}

impl FramePlanner for Watched {
    fn name(&self) -> &'static str {
        self.outside.name()
    }

    fn plan(&self, instance: &Instance<'_>, budget: &Budget<'_>) -> Outcome {
        let (outcome, came) = self.outside.answer(instance, budget);
        let mut frames = self.frames.lock().unwrap_or_else(PoisonError::into_inner);
        frames.planned += 1;
        match came {
            ProgramOutcome::ToItsEnd => {}
            ProgramOutcome::CutShort => frames.cut_short += 1,
            ProgramOutcome::Failed(what) => frames.failed = Some(what),
        }
        outcome
    }
}

/// The result of a comparison.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub(super) struct ComparisonCounts {
    pub(super) frames: u64,
    /// Frames for which `exact` proved nothing, so that they are compared with nothing.
    pub(super) unproven: u64,
    /// Frames for which both planners have plans of the same value, or both have none.
    pub(super) agreed: u64,
    /// Frames for which both have a plan, and the sum over them of the plan's value divided by the least
    /// value.
    pub(super) both: u64,
    pub(super) over_optimum: f64,
}

/// The planner that is compared with the reference `exact`.
struct ComparedPlanner {
    engine: Engine,
    reference: Exact,
    options: IpOptions,
    every: u32,
    frames: u32,
    compared: ComparisonCounts,
}

impl ComparedPlanner {
    /// The compared planner that the settings name, if they name one.
    fn of(
        settings: &Settings,
        programs: Option<&Arc<dyn Programs>>,
    ) -> Result<Option<Self>, ModelError> {
        let Some(own) = &settings.compared else { return Ok(None) };
        let options = settings.ip_options_if(own.strengthened);
        let planner = own.planner().map_err(|error| error.within("compared"))?;
        let engine = Engine::new(planner, options, programs)?;
        Ok(Some(Self {
            engine,
            reference: Exact::new(options),
            options,
            every: own.every.max(1),
            frames: own.frames,
            compared: ComparisonCounts::default(),
        }))
    }

    /// Does it plan frame number `frame` of the `of` frames of this request?
    const fn is_due(&self, request: usize, frame: usize, of: usize) -> bool {
        let (every, frames) = (self.every as usize, self.frames as usize);
        let before = frame * frames / of;
        request % every == every / 2 && (frames >= of || (frame + 1) * frames / of > before)
    }

    /// Plans a frame with the compared planner and with the reference. Only the former appears in the trace.
    fn plan(
        &mut self,
        asked: &Question<'_>,
        view: &FrameView,
        ranking: Ranking,
        budget: &Budget<'_>,
        trace: &mut dyn Trace,
    ) -> Result<(), ModelError> {
        let (at, request) = (asked.at, asked.request as u64);
        let edges = self.options.route_edges();
        trace.event(TraceEvent::PlanningBegins { at, request });
        let packing = Packing::new(asked.topology, asked.wanted, view, ranking, edges);
        let answer = self.engine.solve(&packing, budget);
        let plans = u64::from(matches!(answer, Ok(Ok(_))));
        trace.event(TraceEvent::PlanningEnds { at, request, plans });
        let reference = packing.solve(&self.reference, budget);
        self.compared.frames += 1;
        let answer = answer?;
        let is_proven = match &reference {
            Ok(least) => least.plan.is_proven_optimal(),
            Err(refusal) => refusal.reason != Reason::BudgetExhausted,
        };
        if !is_proven {
            self.compared.unproven += 1;
            return Ok(());
        }
        match (answer, reference) {
            (Ok(own), Ok(least)) => {
                self.compared.both += 1;
                self.compared.agreed += u64::from(own.plan.cost == least.plan.cost);
                // Both values are far below 2^53 in all runs. Costs of 0 count as 1, so that the division is
                // defined.
                let over = own.plan.cost.max(1) as f64 / least.plan.cost.max(1) as f64;
                self.compared.over_optimum += over;
            }
            (Err(refusal), Err(_)) if refusal.reason != Reason::BudgetExhausted => {
                self.compared.agreed += 1;
            }
            _ => {}
        }
        Ok(())
    }
}
