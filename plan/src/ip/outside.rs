//! Solvers that are programs of their own: the model of [`super::mip`] as text, and what they answer.
//!
//! GLPK and CBC take the model as CPLEX LP, MiniSat+ and clasp (SAT solvers) as OPB, pseudo-Boolean
//! constraints. This room writes the text, says how a program is called ([`SolverJob`]) and reads what it
//! said ([`ProgramRun`]); whoever has processes starts it ([`Programs`]).
//!
//! Nothing that a program says is believed. What cannot be read, is no value of a binary column, or costs
//! something else than was said is an error; sites and routes then go the way of every back end: decoded,
//! added up in integers, and checked by [`super::verify`]. A program's word for an optimum, or for there
//! being none, cannot be checked here: experiments put it beside what `exact` proves.
//!
//! A plan of a program that came to its end depends on the program alone; one that was cut short by its
//! time also on how fast the machine is. [`Outside::answer`] says which it was.
//!
//! Left out: programs in a daemon. A coordinator plans with what it is linked with.

mod lp;
mod opb;
mod read;

use std::sync::Arc;

use coalloc_common::Span;

pub use self::read::Unreadable;
use super::mip::model::Model;
use super::mip::{Answer, Attempt, Solve, attempt};
use super::{IpOptions, admit};
use crate::{Budget, FramePlanner, Instance, Outcome};

/// A program that solves such models.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Program {
    /// GNU Linear Programming Kit, which Takefusa 2010 used.
    Glpk,
    /// COIN-OR branch and cut.
    Cbc,
    /// A SAT solver that learns on pseudo-Boolean constraints.
    Clasp,
    /// `MiniSat` behind a translation of pseudo-Boolean constraints to clauses: what comes nearest to the
    /// Sugar++ and `MiniSat` of Takefusa 2010.
    MinisatPlus,
}

/// How a model is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// CPLEX LP.
    Lp,
    /// Pseudo-Boolean constraints as in the PB competitions.
    Opb,
}

impl Format {
    /// The ending of such a file's name, by which CBC knows it.
    #[must_use]
    pub const fn ending(self) -> &'static str {
        match self {
            Self::Lp => "lp",
            Self::Opb => "opb",
        }
    }
}

impl Program {
    /// All of them, in the order in which they are listed to users.
    pub const ALL: [Self; 4] = [Self::Glpk, Self::Cbc, Self::Clasp, Self::MinisatPlus];

    /// The name users give.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Glpk => "glpk",
            Self::Cbc => "cbc",
            Self::Clasp => "clasp",
            Self::MinisatPlus => "minisat+",
        }
    }

    /// The one of this name.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|program| program.name() == name)
    }

    /// What is started.
    #[must_use]
    pub const fn executable(self) -> &'static str {
        match self {
            Self::Glpk => "glpsol",
            Self::Cbc => "cbc",
            Self::Clasp => "clasp",
            Self::MinisatPlus => "minisat+",
        }
    }

    /// How it wants its models.
    #[must_use]
    pub const fn format(self) -> Format {
        match self {
            Self::Glpk | Self::Cbc => Format::Lp,
            Self::Clasp | Self::MinisatPlus => Format::Opb,
        }
    }

    /// Can it be told to end at its first solution?
    #[must_use]
    pub const fn can_end_at_first(self) -> bool {
        matches!(self, Self::Clasp | Self::MinisatPlus)
    }

    /// Does it keep a time limit by itself? One that does not is asked to end, and then tells what it has.
    #[must_use]
    pub const fn keeps_time(self) -> bool {
        !matches!(self, Self::MinisatPlus)
    }

    /// May it end with this exit code when all is well? clasp tells its answer by it, too.
    const fn ends_well_with(self, code: i32) -> bool {
        code == 0 || (matches!(self, Self::Clasp) && matches!(code, 1 | 10 | 11 | 20 | 30))
    }
}

/// One model for one program.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SolverJob {
    /// Who is to solve it.
    pub program: Program,
    /// The model, in the program's format.
    pub model: String,
    /// How long it may take.
    pub time: Span,
    /// Is it to end at its first solution?
    pub first: bool,
}

impl SolverJob {
    /// The words of the command line behind the program: `model` is the file with the model, `answer` the
    /// one that programs write which do not answer on their standard output.
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

    /// Its time in whole seconds, rounded up: what programs take.
    #[must_use]
    pub const fn seconds(&self) -> i64 {
        let seconds = self.time.as_us().div_euclid(1_000_000);
        let more = self.time.as_us().rem_euclid(1_000_000) > 0;
        if more { seconds + 1 } else { seconds }
    }
}

/// What became of a program that was started.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProgramRun {
    /// How it ended.
    pub ended: ProgramEnd,
    /// What it wrote to its standard output.
    pub output: String,
    /// What it wrote to its standard error.
    pub errors: String,
    /// The file of its answer, where it wrote one.
    pub answer: Option<String>,
}

/// How a program ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProgramEnd {
    /// By itself, with this exit code.
    Exited(i32),
    /// By this signal, which was not ours.
    Killed(i32),
    /// Its time was over and it was made to end.
    OutOfTime,
}

/// Whoever can start programs.
pub trait Programs: std::fmt::Debug + Send + Sync {
    /// Runs one to its end, or until its time is over.
    ///
    /// # Errors
    /// When it could not be run, in words.
    fn run(&self, errand: &SolverJob) -> Result<ProgramRun, String>;
}

/// What came of one frame.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ProgramOutcome {
    /// To its end: the same on every machine with the same program.
    ToItsEnd,
    /// The time was over: a faster machine may have answered otherwise.
    CutShort,
    /// The program did not do what it is for, and what it did.
    Failed(String),
}

/// The planner: one program.
#[derive(Debug, Clone)]
pub struct Outside {
    /// N_max and Eq. (10).
    pub options: IpOptions,
    /// Which.
    pub program: Program,
    /// Ends at its first solution, where the program [can](Program::can_end_at_first): no plan is proven best.
    pub first: bool,
    /// Who starts it.
    pub programs: Arc<dyn Programs>,
}

impl Outside {
    /// Plans a frame, and says whether the program came to its end.
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
                let what = format!("the time of {} ended", self.program.executable());
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

/// The solves of one frame.
struct FrameSolves<'a> {
    own: &'a Outside,
    /// Was one of them?
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
