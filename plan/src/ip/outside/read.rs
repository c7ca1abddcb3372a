//! Reads what programs answered: the files of GLPK and CBC, and the lines of the PB competitions.
//!
//! A reader takes a verdict and the columns at 1, and rejects everything else that it does not
//! understand. The program may have been killed, be of another version, or not be what its name
//! says.

use super::{Program, ProgramEnd, ProgramRun};
use crate::ip::mip::Answer;

/// Why an answer cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Unreadable {
    /// A signal killed the program.
    #[error("it was killed by signal {0}{1}")]
    Killed(i32, String),
    /// The program ended with an exit code that means failure.
    #[error("it ended with exit code {0}{1}")]
    Exited(i32, String),
    /// There is no answer.
    #[error("it did not report a result{0}")]
    Silent(String),
    /// The answer ends too early; the number is that of its lines.
    #[error("its answer is cut off after {0} lines")]
    CutOff(usize),
    /// A line that cannot be understood.
    #[error("line {line} of its answer is {text:?}; expected {expected}")]
    Line {
        /// The number of the line, from 1.
        line: usize,
        /// The text of the line, shortened.
        text: String,
        /// What was expected instead.
        expected: &'static str,
    },
    /// Columns are missing: how many there are, and how many there should be.
    #[error("its answer has {0} of {1} columns")]
    Columns(usize, usize),
    /// The stated cost is not that of the stated solution.
    #[error("it says that its solution costs {said}, but it costs {costs}")]
    Cost {
        /// The cost that the program stated.
        said: String,
        /// The cost of the chosen columns.
        costs: u128,
    },
}

/// The verdict of a program on its model.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Verdict {
    /// The columns are a solution, and no solution is better.
    Optimal,
    /// The columns are a solution.
    Feasible,
    /// There is no solution.
    Infeasible,
    /// The program found out nothing.
    Unknown,
}

/// An answer that was read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Reading {
    pub(super) verdict: Verdict,
    /// For each column, whether it is at 1. Empty without a solution.
    pub(super) chosen: Vec<bool>,
    /// The cost of the chosen columns, in the text's unit.
    costs: u128,
}

impl Reading {
    /// The answer in the model's units. `unit` of them are one unit of the text.
    pub(super) fn answer(&self, unit: u64) -> Answer {
        let optimal = self.verdict == Verdict::Optimal;
        match self.verdict {
            Verdict::Infeasible => Answer::Infeasible,
            Verdict::Unknown => Answer::OutOfTime,
            Verdict::Optimal | Verdict::Feasible => Answer::Solved {
                values: self.chosen.iter().map(|chosen| f64::from(u8::from(*chosen))).collect(),
                // Costs were rounded down to the text's unit, so this is a lower bound of the
                // model's costs.
                bound: if optimal { self.costs as f64 * unit as f64 } else { f64::NEG_INFINITY },
                optimal: optimal && unit == 1,
            },
        }
    }
}

/// Reads an answer to a model with these costs. `unit` units of the model are one unit of its text.
/// A program that was ended by its time limit may have been in the middle of writing, so an answer
/// that cannot be read then means [`Verdict::Unknown`].
pub(super) fn read(
    program: Program,
    said: &ProgramRun,
    costs: &[u64],
    unit: u64,
) -> Result<Reading, Unreadable> {
    match taken(program, said, costs, unit) {
        Err(_) if said.ended == ProgramEnd::OutOfTime => {
            Ok(Reading { verdict: Verdict::Unknown, chosen: Vec::new(), costs: 0 })
        }
        reading => reading,
    }
}

fn taken(
    program: Program,
    said: &ProgramRun,
    costs: &[u64],
    unit: u64,
) -> Result<Reading, Unreadable> {
    match said.ended {
        ProgramEnd::Killed(signal) => return Err(Unreadable::Killed(signal, last_words(said))),
        ProgramEnd::Exited(code) if !program.ends_well_with(code) => {
            return Err(Unreadable::Exited(code, last_words(said)));
        }
        ProgramEnd::Exited(_) | ProgramEnd::OutOfTime => {}
    }
    let mut columns = Columns::new(costs.len());
    let found = match (program, said.answer.as_deref()) {
        (Program::Clasp | Program::MinisatPlus, _) => competition(&said.output, &mut columns)?,
        (Program::Glpk, Some(answer)) => glpk(answer, &mut columns)?,
        (Program::Cbc, Some(answer)) => cbc(answer, &mut columns)?,
        (Program::Glpk | Program::Cbc, None) => None,
    };
    let Some((verdict, cost)) = found else {
        return Err(Unreadable::Silent(last_words(said)));
    };
    let verdict = match verdict {
        Verdict::Unknown if proved_by_silence(program, said) => Verdict::Infeasible,
        verdict => verdict,
    };
    // Running out of time is the only accepted reason for an unknown verdict.
    if verdict == Verdict::Unknown && !was_out_of_time(said) {
        return Err(Unreadable::Silent(last_words(said)));
    }
    if matches!(verdict, Verdict::Infeasible | Verdict::Unknown) {
        return Ok(Reading { verdict, chosen: Vec::new(), costs: 0 });
    }
    // A SAT solver may omit a variable that is in no constraint.
    if program == Program::Glpk {
        columns.all()?;
    }
    let chosen: Vec<bool> = columns.values.iter().map(|value| *value == Some(true)).collect();
    let priced = chosen.iter().zip(costs).filter(|(chosen, _)| **chosen);
    let costs: u128 = priced.map(|(_, cost)| u128::from(cost / unit)).sum();
    if let Some(said) = cost {
        // Programs print costs rounded to six digits or more.
        let whole = costs as f64;
        let agrees = (said - whole).abs() <= 1e-5 * whole.abs().max(1.0);
        if !agrees {
            return Err(Unreadable::Cost { said: said.to_string(), costs });
        }
    }
    Ok(Reading { verdict, chosen, costs })
}

/// `MiniSat+` with `-first` says UNKNOWN when it has searched everything and found no solution.
/// When a signal ends it, a line before that says so.
fn proved_by_silence(program: Program, said: &ProgramRun) -> bool {
    let by_itself = matches!(said.ended, ProgramEnd::Exited(_)) && !said.output.contains("***");
    program == Program::MinisatPlus && by_itself
}

/// Whether the program was ended by its time limit, or says so.
fn was_out_of_time(said: &ProgramRun) -> bool {
    let cbc = said.answer.as_ref().is_some_and(|answer| answer.starts_with("Stopped on time"));
    said.ended == ProgramEnd::OutOfTime || cbc || said.output.contains("TIME LIMIT")
}

/// The last line that the program wrote, for people.
fn last_words(said: &ProgramRun) -> String {
    let lines = said.errors.lines().rev().chain(said.output.lines().rev());
    let last = lines.map(str::trim).find(|line| !line.is_empty() && *line != "c");
    last.map(|line| format!("; its last words: {}", short(line))).unwrap_or_default()
}

/// As much of a line as fits into a message.
fn short(line: &str) -> String {
    const SHOWN_MAX: usize = 120;
    line.chars().filter(|c| !c.is_control()).take(SHOWN_MAX).collect()
}

/// The values of the columns as the program states them.
struct Columns {
    values: Vec<Option<bool>>,
}

impl Columns {
    fn new(count: usize) -> Self {
        Self { values: vec![None; count] }
    }

    /// Sets the value of a column; `None` if it has one already.
    fn put(&mut self, column: Option<usize>, value: Option<bool>) -> Option<()> {
        let place = self.values.get_mut(column?)?;
        if place.is_some() {
            return None;
        }
        *place = Some(value?);
        Some(())
    }

    fn all(&self) -> Result<(), Unreadable> {
        let known = self.values.iter().flatten().count();
        match known == self.values.len() {
            true => Ok(()),
            false => Err(Unreadable::Columns(known, self.values.len())),
        }
    }
}

/// The value of a binary column, printed by a program that calculates in floating point.
fn binary(text: &str) -> Option<bool> {
    let value: f64 = text.parse().ok()?;
    match value {
        v if v.abs() < 1e-4 => Some(false),
        v if (v - 1.0).abs() < 1e-4 => Some(true),
        _ => None,
    }
}

fn wrong(at: usize, text: &str, expected: &'static str) -> Unreadable {
    Unreadable::Line { line: at + 1, text: short(text), expected }
}

type ParsedVerdict = Option<(Verdict, Option<f64>)>;

/// Reads GLPK's `--write`: `s mip ROWS COLUMNS STATUS COST`, `j COLUMN VALUE`, and `e o f` at the
/// end.
fn glpk(answer: &str, columns: &mut Columns) -> Result<ParsedVerdict, Unreadable> {
    const HEAD: &str = "`s mip ROWS COLUMNS STATUS COST` with this model's columns";
    let mut head = None;
    let mut lines = 0;
    for (at, line) in answer.lines().enumerate() {
        lines = at + 1;
        let words: Vec<&str> = line.split_whitespace().collect();
        match words[..] {
            [] | ["c", ..] | ["i", ..] => {}
            ["s", "mip", _, count, status, cost] if head.is_none() => {
                let verdict = match status {
                    "o" => Verdict::Optimal,
                    "f" => Verdict::Feasible,
                    "n" => Verdict::Infeasible,
                    "u" => Verdict::Unknown,
                    _ => return Err(wrong(at, line, HEAD)),
                };
                let known = count.parse() == Ok(columns.values.len());
                let cost = cost.parse().ok().filter(|_| known);
                head = Some((verdict, Some(cost.ok_or_else(|| wrong(at, line, HEAD))?)));
            }
            ["j", column, value] if head.is_some() => {
                // Without a solution the values mean nothing.
                if matches!(head, Some((Verdict::Infeasible | Verdict::Unknown, _))) {
                    continue;
                }
                let column = column.parse::<usize>().ok().and_then(|column| column.checked_sub(1));
                let put = columns.put(column, binary(value));
                put.ok_or_else(|| wrong(at, line, "`j COLUMN VALUE`, each column once, 0 or 1"))?;
            }
            ["e", "o", "f"] if head.is_some() => return Ok(head),
            _ => return Err(wrong(at, line, "a line of a MIP solution")),
        }
    }
    Err(Unreadable::CutOff(lines))
}

/// Reads CBC's `solution`: `STATUS - objective value COST`, then `INDEX NAME VALUE REDUCED-COST`.
fn cbc(answer: &str, columns: &mut Columns) -> Result<ParsedVerdict, Unreadable> {
    const HEAD: &str = "`STATUS - objective value COST`";
    let mut lines = answer.lines().enumerate();
    let Some((at, head)) = lines.next() else { return Err(Unreadable::CutOff(0)) };
    let parts = head.split_once(" - objective value ");
    let (status, cost) = parts.ok_or_else(|| wrong(at, head, HEAD))?;
    let verdict = match status {
        "Optimal" => Verdict::Optimal,
        "Infeasible" | "Integer infeasible" => Verdict::Infeasible,
        stopped if stopped.contains("no integer solution") => Verdict::Unknown,
        stopped if stopped.starts_with("Stopped on ") || stopped.starts_with("Optimal (") => {
            Verdict::Feasible
        }
        _ => return Err(wrong(at, head, HEAD)),
    };
    if matches!(verdict, Verdict::Infeasible | Verdict::Unknown) {
        return Ok(Some((verdict, None)));
    }
    let cost: f64 = cost.trim().parse().map_err(|_| wrong(at, head, HEAD))?;
    for (at, line) in lines {
        let words: Vec<&str> = line.split_whitespace().collect();
        let put = match words[..] {
            [] => Some(()),
            [_, name, value, _] => {
                let column = name.strip_prefix('x').and_then(|number| number.parse().ok());
                columns.put(column, binary(value))
            }
            _ => None,
        };
        put.ok_or_else(|| wrong(at, line, "`INDEX NAME VALUE COST`, each column once, 0 or 1"))?;
    }
    // CBC may omit columns at 0, but not all columns, and the last line has to be complete.
    if !answer.ends_with('\n') {
        return Err(Unreadable::CutOff(answer.lines().count()));
    }
    if columns.values.iter().flatten().count() == 0 {
        columns.all()?;
    }
    Ok(Some((verdict, Some(cost))))
}

/// Reads the lines of the PB competitions: `s STATUS`, `o COST` for each solution better than the
/// one before, and `v` with literals. All other lines are comments.
fn competition(output: &str, columns: &mut Columns) -> Result<ParsedVerdict, Unreadable> {
    let (mut verdict, mut cost) = (None, None);
    for (at, line) in output.lines().enumerate() {
        let (kind, rest) = line.split_once(' ').unwrap_or((line, ""));
        match kind {
            "s" if verdict.is_none() => {
                verdict = Some(match rest.trim() {
                    "OPTIMUM FOUND" => Verdict::Optimal,
                    "SATISFIABLE" => Verdict::Feasible,
                    "UNSATISFIABLE" => Verdict::Infeasible,
                    "UNKNOWN" => Verdict::Unknown,
                    _ => return Err(wrong(at, line, "`s` and how it ended")),
                });
            }
            "s" => return Err(wrong(at, line, "one line `s`")),
            "o" => {
                let said: f64 = (rest.trim().parse()).map_err(|_| wrong(at, line, "`o COST`"))?;
                cost = Some(said);
            }
            "v" => {
                for literal in rest.split_whitespace() {
                    let name = literal.strip_prefix('-').unwrap_or(literal);
                    let number = name.strip_prefix('x').and_then(|number| number.parse().ok());
                    let column = number.and_then(|number: usize| number.checked_sub(1));
                    let put = columns.put(column, Some(name == literal));
                    put.ok_or_else(|| wrong(at, line, "`v` and each variable once"))?;
                }
            }
            _ => {}
        }
    }
    let last = output.lines().next_back().unwrap_or_default();
    if last.starts_with('v') && !output.ends_with('\n') {
        return Err(Unreadable::CutOff(output.lines().count()));
    }
    let solved = matches!(verdict, Some(Verdict::Optimal | Verdict::Feasible));
    if solved && columns.values.iter().flatten().count() == 0 {
        columns.all()?;
    }
    Ok(verdict.map(|verdict| (verdict, cost)))
}
