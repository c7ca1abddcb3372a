//! Solvers that are separate programs: the model of [`super::mip`] as text, and what the programs
//! answer.
//!
//! GLPK and CBC take the model as CPLEX LP. MiniSat+ and clasp (SAT solvers) take it as OPB, which
//! are pseudo-Boolean constraints. This module writes the text, says how a program is called
//! ([`SolverJob`]) and reads its answer ([`ProgramRun`]). An implementation of [`Programs`] starts
//! the processes.
//!
//! The answer of a program is not trusted. If it cannot be read, has a value that is no binary one,
//! or costs something else than it says, that is an error. Sites and routes then go through the
//! same checks as those of every backend: they are decoded, their cost is added up in integers, and
//! [`super::verify`] checks the plan. Whether a program is right about an optimum, or about there
//! being no solution, cannot be checked here; experiments compare it with what `exact` proves.
//!
//! The plan of a program that finished depends on the program alone. When the time limit ended the
//! program, the plan also depends on the speed of the machine. [`Outside::answer`] says which was
//! the case.
//!
//! Left out: programs in a daemon. A coordinator plans only with the solvers that it is linked
//! with.

mod lp;
mod opb;
mod read;

use std::sync::Arc;

use coalloc_common::Span;

pub use self::read::Unreadable;
use super::mip::model::Model;
use super::mip::{Answer, Attempt, Solve, attempt};
use super::{IpOptions, admit};
use crate::{Budget, FramePlanner, Instance, Named, Outcome};

/// A program that solves such models.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Program {
    /// GNU Linear Programming Kit, which Takefusa 2010 used.
    Glpk,
    /// COIN-OR branch and cut.
    Cbc,
    /// A SAT solver that learns from pseudo-Boolean constraints.
    Clasp,
    /// `MiniSat` with a translation of pseudo-Boolean constraints to clauses: the closest to the
    /// Sugar++ and `MiniSat` of Takefusa 2010.
    MinisatPlus,
}

/// The text format of a model.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// CPLEX LP.
    Lp,
    /// Pseudo-Boolean constraints, as in the PB competitions.
    Opb,
}

impl Format {
    /// The file name extension of the format, by which CBC recognises it.
    #[must_use]
    pub const fn ending(self) -> &'static str {
        match self {
            Self::Lp => "lp",
            Self::Opb => "opb",
        }
    }
}

impl Program {
    /// The executable that is started.
    #[must_use]
    pub const fn executable(self) -> &'static str {
        match self {
            Self::Glpk => "glpsol",
            Self::Cbc => "cbc",
            Self::Clasp => "clasp",
            Self::MinisatPlus => "minisat+",
        }
    }

    /// The format that the program reads.
    #[must_use]
    pub const fn format(self) -> Format {
        match self {
            Self::Glpk | Self::Cbc => Format::Lp,
            Self::Clasp | Self::MinisatPlus => Format::Opb,
        }
    }

    /// Whether it can be told to end at its first solution.
    #[must_use]
    pub const fn can_end_at_first(self) -> bool {
        matches!(self, Self::Clasp | Self::MinisatPlus)
    }

    /// Whether it keeps to a time limit by itself. A program that does not gets a signal to end,
    /// and then reports what it has.
    #[must_use]
    pub const fn keeps_time(self) -> bool {
        !matches!(self, Self::MinisatPlus)
    }

    /// Whether it may end with this exit code when nothing went wrong. clasp also reports its
    /// answer by this code.
    const fn ends_well_with(self, code: i32) -> bool {
        code == 0 || (matches!(self, Self::Clasp) && matches!(code, 1 | 10 | 11 | 20 | 30))
    }
}

impl Named for Program {
    const WHAT: &'static str = "a program";
    const ALL: &'static [Self] = &[Self::Glpk, Self::Cbc, Self::Clasp, Self::MinisatPlus];

    fn name(self) -> &'static str {
        match self {
            Self::Glpk => "glpk",
            Self::Cbc => "cbc",
            Self::Clasp => "clasp",
            Self::MinisatPlus => "minisat+",
        }
    }

    fn about(self) -> &'static str {
        match self {
            Self::Glpk => "GLPK, a MIP solver",
            Self::Cbc => "CBC, a MIP solver",
            Self::Clasp => "clasp, an answer set and pseudo-Boolean solver",
            Self::MinisatPlus => "MiniSat+, a pseudo-Boolean solver",
        }
    }
}

/// One model for one program.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SolverJob {
    /// The program that has to solve it.
    pub program: Program,
    /// The model, in the program's format.
    pub model: String,
    /// The time limit.
    pub time: Span,
    /// Whether the program has to end at its first solution.
    pub first: bool,
}

impl SolverJob {
    /// The arguments of the command line after the executable. `model` is the file with the model.
    /// `answer` is the file for the answer of programs that do not write it to their standard
    /// output.
    #[must_use]
    pub fn arguments(&self, model: &str, answer: &str) -> Vec<String> {
        let seconds = self.seconds().to_string();
        let limit = format!("--time-limit={seconds}");
        let words: Vec<&str> = match (self.program, self.first) {
            (Program::Glpk, _) => vec!["--lp", model, "--tmlim", &seconds, "--write", answer],
            (Program::Cbc, _) => {
                vec![
                    model, "timeMode", "elapsed", "sec", &seconds, "ratio", "0", "solve",
                    "solution", answer,
                ]
            }
            (Program::Clasp, false) => vec!["--quiet=1", &limit, model],
            (Program::Clasp, true) => {
                vec!["--quiet=1", &limit, "--opt-mode=ignore", "--models=1", model]
            }
            (Program::MinisatPlus, false) => vec!["-v0", "-ansi", model],
            (Program::MinisatPlus, true) => vec!["-v0", "-ansi", "-first", model],
        };
        words.into_iter().map(str::to_owned).collect()
    }

    /// The time limit in whole seconds, rounded up, because programs take it so.
    #[must_use]
    pub const fn seconds(&self) -> i64 {
        let seconds = self.time.as_us().div_euclid(1_000_000);
        let more = self.time.as_us().rem_euclid(1_000_000) > 0;
        if more { seconds + 1 } else { seconds }
    }
}

/// The result of a program that was started.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProgramRun {
    /// How the program ended.
    pub ended: ProgramEnd,
    /// What it wrote to its standard output.
    pub output: String,
    /// What it wrote to its standard error.
    pub errors: String,
    /// The contents of its answer file, if it wrote one.
    pub answer: Option<String>,
}

/// How a program ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProgramEnd {
    /// It exited by itself, with this exit code.
    Exited(i32),
    /// It was killed by this signal, which we did not send.
    Killed(i32),
    /// Its time ended, and it was made to end.
    OutOfTime,
}

/// Something that can start programs.
pub trait Programs: std::fmt::Debug + Send + Sync {
    /// Runs a program to its end, or until its time is over.
    ///
    /// # Errors
    /// A text for people, when the program could not be run.
    fn run(&self, errand: &SolverJob) -> Result<ProgramRun, String>;

    /// Runs a planner that is a program of the user, to its end or until its time is over.
    ///
    /// # Errors
    /// A text for people, when the program could not be run.
    fn plan(&self, job: &PlannerJob) -> Result<ProgramRun, String> {
        Err(format!("{} cannot be started here", job.path))
    }
}

/// One frame for a planner that is a program of the user. It gets the frame on its standard input.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlannerJob {
    /// The program, as the user named it.
    pub path: String,
    /// The frame, as the program reads it.
    pub frame: String,
    /// The time limit.
    pub time: Span,
}

/// How the solving of one frame went.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ProgramOutcome {
    /// The program finished, or was not needed: the answer is the same on every machine with the
    /// same program.
    ToItsEnd,
    /// The time ended: on a faster machine the answer may differ.
    CutShort,
    /// The program failed; the text says how.
    Failed(String),
}

/// A planner that uses one program.
#[derive(Debug, Clone)]
pub struct Outside {
    /// N_max and Eq. (10).
    pub options: IpOptions,
    /// The program.
    pub program: Program,
    /// Whether to end at the first solution, where the program [can](Program::can_end_at_first).
    /// Then no plan is proven to be the best.
    pub first: bool,
    /// Starts the program.
    pub programs: Arc<dyn Programs>,
}

impl Outside {
    /// Plans a frame, and says whether the program finished.
    #[must_use]
    pub fn answer(
        &self,
        instance: &Instance<'_>,
        budget: &Budget<'_>,
    ) -> (Outcome, ProgramOutcome) {
        let Instance { topology, request, view, .. } = instance;
        let candidates = match admit::candidates(topology, request, view) {
            Ok(candidates) => candidates,
            Err(refusal) => return (Outcome::Refused(*refusal), ProgramOutcome::ToItsEnd),
        };
        let model = Model::new(instance, &self.options, &candidates);
        let call = FrameSolves { own: self, cut_short: std::cell::Cell::new(false) };
        let exhausted = |what: &str| Outcome::Refused(admit::exhausted(view, budget, what));
        match attempt(&call, &self.options, model, instance, budget) {
            Attempt::Planned(plan) if call.cut_short.get() => {
                (Outcome::Planned(plan), ProgramOutcome::CutShort)
            }
            Attempt::Planned(plan) => (Outcome::Planned(plan), ProgramOutcome::ToItsEnd),
            Attempt::Infeasible => {
                let refusal = admit::no_route(topology, request, view, &self.options);
                (Outcome::Refused(refusal), ProgramOutcome::ToItsEnd)
            }
            Attempt::OutOfTime => {
                let what = format!("{} timed out", self.program.executable());
                (exhausted(&what), ProgramOutcome::CutShort)
            }
            Attempt::Failed(what) => (exhausted(&what), ProgramOutcome::Failed(what)),
        }
    }

    fn run(&self, model: &Model, time: Span) -> Result<(Answer, bool), String> {
        let (text, unit) = match self.program.format() {
            Format::Lp => (lp::write(model), 1),
            Format::Opb => opb::write(model),
        };
        let first = self.first && self.program.can_end_at_first();
        let errand = SolverJob { program: self.program, model: text, time, first };
        let said = self.programs.run(&errand)?;
        let reading = read::read(self.program, &said, &model.costs, unit)
            .map_err(|error| error.to_string())?;
        let cut_short = reading.verdict == read::Verdict::Unknown
            || (reading.verdict == read::Verdict::Feasible && !first);
        Ok((reading.answer(unit), cut_short))
    }
}

impl FramePlanner for Outside {
    fn name(&self) -> &'static str {
        self.program.name()
    }

    fn plan(&self, instance: &Instance<'_>, budget: &Budget<'_>) -> Outcome {
        self.answer(instance, budget).0
    }
}

/// Solves the models of one frame.
struct FrameSolves<'a> {
    own: &'a Outside,
    /// Whether the time ended any of the solves.
    cut_short: std::cell::Cell<bool>,
}

impl Solve for FrameSolves<'_> {
    fn name(&self) -> &'static str {
        self.own.program.name()
    }

    fn called(&self) -> &'static str {
        self.own.program.executable()
    }

    fn solve(&self, model: &Model, time: Span) -> Answer {
        match self.own.run(model, time) {
            Ok((answer, cut_short)) => {
                self.cut_short.set(self.cut_short.get() || cut_short);
                answer
            }
            Err(what) => Answer::Failed(what),
        }
    }
}

#[cfg(test)]
mod tests;
