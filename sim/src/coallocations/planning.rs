//! Planners at work: the one that decides the day, and the one that is put beside it.
//!
//! A planner that is a program is watched: whether each frame came to its end, and whether it did what it is
//! for at all. A program that fails ends the run, because a day half planned by it would be a measure of
//! nothing; one that is cut short by its time is counted.
//!
//! What is compared plans the same frames as the planner of the day, after it, and nobody acts on it.

use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, PoisonError};

use coalloc_common::topology::FrameView;
use coalloc_common::{CoAllocation, InvalidField, Ranking, Reason, Span, Topology, Window, limits};
use coalloc_plan::ip::outside::{ProgramOutcome, Programs};
use coalloc_plan::ip::{Exact, IpOptions, Outside};
use coalloc_plan::objectives::Answer;
use coalloc_plan::{Budget, FramePlanner, Instance, Outcome, Packing, Solver};

use super::settings::{Planner, Settings};
use crate::experiment::{ModelError, Trace, TraceEvent};

/// What became of the frames that a program planned.
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
    /// Those that the settings name. Programs are started by `programs`; with `None` nobody can.
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

    /// What the planner of the day is to the coordinator: a program is a solver like the library.
    pub(super) const fn solver(&self) -> Solver {
        self.engine.solver
    }

    /// Puts questions beside the frames to the planner of the day; in place of a program, which would be started for each
    /// of dozens, to `exact`.
    pub(super) fn with<T>(&self, ask: impl FnOnce(&dyn FramePlanner, &Budget<'_>) -> T) -> T {
        let (stop, nodes) = (AtomicBool::new(false), limits::EXACT_NODES_MAX);
        let budget = Budget { nodes, solver_time: self.solver_time, stop: &stop };
        match self.engine.is_program {
            true => ask(&Exact::new(self.options), &budget),
            false => ask(self.engine.planner.as_ref(), &budget),
        }
    }

    /// Plans every frame, or those up to the first that fits, as the planner of the day does.
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
            let due = (asked.request, number, views.len());
            // The time of planning is that of the one beside, where there is one.
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
            if let Some(beside) = self.beside.as_mut().filter(|own| own.is_due(due)) {
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

    /// Frames that programs planned, and those of them that their time cut short.
    pub(super) fn frames_of_programs(&self) -> (u64, u64) {
        let (own, own_cut) = self.engine.frames();
        let (other, other_cut) = self.beside.as_ref().map_or((0, 0), |own| own.engine.frames());
        (own + other, own_cut + other_cut)
    }

    /// What the comparison came to, where there is one.
    pub(super) fn compared(&self) -> Option<ComparisonCounts> {
        self.beside.as_ref().map(|beside| beside.compared)
    }
}

/// A planner at work.
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
        let frames = Arc::default();
        let is_program = matches!(planner, Planner::Outside(..));
        let (solver, planner): (Solver, Box<dyn FramePlanner>) = match planner {
            Planner::Own(solver) => (solver, solver.planner(options, None)),
            Planner::Outside(program, first) => {
                let nobody = || {
                    let allowed = "a planner that is no program of its own: none is started here";
                    InvalidField::new("planner", InvalidField::quoted(program.name()), allowed)
                };
                let programs = Arc::clone(programs.ok_or_else(nobody)?);
                let outside = Outside { options, program, first, programs };
                (Solver::Mip, Box::new(Watched { outside, frames: Arc::clone(&frames) }))
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

/// A program as a planner.
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

/// What a comparison came to.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub(super) struct ComparisonCounts {
    pub(super) frames: u64,
    /// Frames of which `exact` proved nothing: they are compared with nothing.
    pub(super) unproven: u64,
    /// Frames of which both say the same: a plan of one value, or none.
    pub(super) agreed: u64,
    /// Frames that both have a plan for, and the sum of its value over the least.
    pub(super) both: u64,
    pub(super) over_optimum: f64,
}

/// A planner beside the one of the day.
struct ComparedPlanner {
    engine: Engine,
    reference: Exact,
    options: IpOptions,
    every: u32,
    frames: u32,
    compared: ComparisonCounts,
}

impl ComparedPlanner {
    /// The one that the settings name, if they do.
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

    /// Does it plan this frame of so many of this request?
    const fn is_due(&self, (request, frame, of): (usize, usize, usize)) -> bool {
        let (every, frames) = (self.every as usize, self.frames as usize);
        let before = frame * frames / of;
        request % every == every / 2 && (frames >= of || (frame + 1) * frames / of > before)
    }

    /// Plans a frame; the trace is told of its planning, not of the reference's.
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
                // Both are far below 2^53 in all that is run; a plan costs more than nothing, or both cost it.
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
