//! Solvers that are programs: the text written for them means the model, and their answers are
//! checked.
//!
//! In this test microlp stands in for the programs and gets only the text. If a row were lost or a
//! sign reversed on the way, its optimum would differ from that of `exact`. The real programs run
//! in `tests/experiments`.

use std::sync::Arc;

use coalloc_common::topology::FrameView;
use coalloc_common::{BitsPerSecond, CoAllocation, Reason, Span, Topology};
use coalloc_plan::ip::outside::{
    Format, ProgramEnd, ProgramOutcome, ProgramRun, Programs, SolverJob,
};
use coalloc_plan::ip::{Exact, IpOptions, Outside, Program, verify};
use coalloc_plan::{Budget, FramePlanner, Instance, Named, Outcome};
use microlp::{ComparisonOp, Error, OptimizationDirection, Problem};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

use crate::fixtures::{self, AMPLE};

/// A constraint that was read: terms, relation, bound.
type Read = (Vec<(usize, f64)>, ComparisonOp, f64);

/// A model that was read: the cost of each column, and the rows.
struct Text {
    costs: Vec<f64>,
    rows: Vec<Read>,
}

fn relation(word: &str) -> ComparisonOp {
    match word {
        "=" => ComparisonOp::Eq,
        "<=" => ComparisonOp::Le,
        ">=" => ComparisonOp::Ge,
        other => panic!("{other} is no relation"),
    }
}

/// Reads `+ 3 x0 - 1 x1`, with columns counted from 0.
fn lp_terms(words: &[&str]) -> Vec<(usize, f64)> {
    let term = |word: &[&str]| {
        let by: f64 = word[1].parse().expect("a coefficient");
        let sign = if word[0] == "-" { -1.0 } else { 1.0 };
        (word[2].strip_prefix('x').expect("a column").parse().expect("its number"), sign * by)
    };
    words.chunks(3).map(term).collect()
}

fn read_lp(text: &str) -> Text {
    let (head, rest) = text.split_once("Subject To\n").expect("rows");
    let (rows, binary) = rest.split_once("Binary\n").expect("kinds of columns");
    let costs: Vec<&str> = head.split_once("obj:").expect("costs").1.split_whitespace().collect();
    let costs: Vec<f64> = (0..)
        .zip(lp_terms(&costs))
        .map(|(at, (column, by))| {
            assert_eq!(at, column, "columns are met in their order");
            by
        })
        .collect();
    let named = binary.trim_end().strip_suffix("End").expect("an end").split_whitespace().count();
    assert_eq!(named, costs.len(), "every column is binary");
    let mut found: Vec<Vec<&str>> = Vec::new();
    for line in rows.lines() {
        match line.split_once(':') {
            Some((_, terms)) => found.push(terms.split_whitespace().collect()),
            None => found.last_mut().expect("a row").extend(line.split_whitespace()),
        }
    }
    let row = |words: Vec<&str>| match &words[..] {
        [terms @ .., by, bound] => (lp_terms(terms), relation(by), bound.parse().expect("a bound")),
        _ => panic!("no row"),
    };
    Text { costs, rows: found.into_iter().map(row).collect() }
}

fn read_opb(text: &str) -> Text {
    let mut lines = text.lines();
    let head: Vec<&str> = lines.next().expect("a head").split_whitespace().collect();
    let [_, "#variable=", count, "#constraint=", rows] = head[..] else { panic!("{head:?}") };
    let terms = |words: &[&str]| -> Vec<(usize, f64)> {
        let term = |word: &[&str]| {
            let column: usize = word[1].strip_prefix('x').expect("a name").parse().expect("one");
            (column - 1, word[0].parse::<i64>().expect("a whole number") as f64)
        };
        words.chunks(2).map(term).collect()
    };
    let goal: Vec<&str> = lines.next().expect("a goal").split_whitespace().collect();
    let ["min:", goal @ .., ";"] = &goal[..] else { panic!("{goal:?}") };
    let mut costs = vec![0.0; count.parse().expect("a count")];
    for (column, by) in terms(goal) {
        costs[column] = by;
    }
    let row = |line: &str| {
        let words: Vec<&str> = line.split_whitespace().collect();
        match &words[..] {
            [own @ .., by, bound, ";"] => {
                let bound: i64 = bound.parse().expect("a whole number");
                (terms(own), relation(by), bound as f64)
            }
            _ => panic!("{line}"),
        }
    };
    let found: Vec<Read> = lines.map(row).collect();
    assert_eq!(found.len(), rows.parse::<usize>().expect("a count"));
    Text { costs, rows: found }
}

/// microlp in the role of a program.
#[derive(Debug)]
struct Played;

impl Programs for Played {
    fn run(&self, errand: &SolverJob) -> Result<ProgramRun, String> {
        let text = match errand.program.format() {
            Format::Lp => read_lp(&errand.model),
            Format::Opb => read_opb(&errand.model),
        };
        let mut problem = Problem::new(OptimizationDirection::Minimize);
        // With `-first`, costs do not count.
        let counts = if errand.first { 0.0 } else { 1.0 };
        let columns: Vec<_> =
            text.costs.iter().map(|cost| problem.add_binary_var(counts * cost)).collect();
        for (terms, relation, bound) in &text.rows {
            let terms = terms.iter().map(|(column, by)| (columns[*column], *by));
            problem.add_constraint(terms, *relation, *bound);
        }
        let values: Option<Vec<bool>> = match problem.solve() {
            Ok(outcome) => {
                let solution = outcome.into_solution().expect("time enough");
                Some(columns.iter().map(|column| solution.var_value(*column) > 0.5).collect())
            }
            Err(Error::Infeasible) => None,
            Err(error) => panic!("{error}"),
        };
        Ok(answer(errand, &text.costs, values.as_deref()))
    }
}

/// The answer in the program's own format.
fn answer(errand: &SolverJob, costs: &[f64], values: Option<&[bool]>) -> ProgramRun {
    let chosen = |at: usize| values.is_some_and(|values| values[at]);
    let cost: f64 = (0..costs.len()).filter(|at| chosen(*at)).map(|at| costs[at]).sum();
    let count = costs.len();
    let mut text = match (errand.program, values.is_some()) {
        (Program::Glpk, true) => format!("s mip 1 {count} o {cost}\n"),
        (Program::Glpk, false) => format!("s mip 1 {count} n 0\n"),
        (Program::Cbc, true) => format!("Optimal - objective value {cost:.8}\n"),
        (Program::Cbc, false) => "Integer infeasible - objective value 0\n".to_owned(),
        (_, false) => "s UNSATISFIABLE\n".to_owned(),
        (_, true) if errand.first => "s SATISFIABLE\nv".to_owned(),
        (_, true) => format!("o {cost}\ns OPTIMUM FOUND\nv"),
    };
    for at in 0..count {
        let value = u8::from(chosen(at));
        text += &match errand.program {
            Program::Glpk => format!("j {} {value}\n", at + 1),
            Program::Cbc if value == 0 => String::new(),
            Program::Cbc => format!("{at} x{at} {value} 0\n"),
            _ if values.is_none() => String::new(),
            _ => format!(" {}x{}", if value == 1 { "" } else { "-" }, at + 1),
        };
    }
    text += match errand.program {
        Program::Glpk => "e o f\n",
        _ => "\n",
    };
    let in_file = errand.program.format() == Format::Lp;
    let (output, answer) = if in_file { (String::new(), Some(text)) } else { (text, None) };
    ProgramRun { ended: ProgramEnd::Exited(0), output, errors: String::new(), answer }
}

fn outside(program: Program, options: IpOptions, first: bool) -> Outside {
    Outside { options, program, first, programs: Arc::new(Played) }
}

/// Whether the program answers as `exact` does. Returns true when there is a plan.
fn agrees(own: &Outside, topology: &Topology, request: &CoAllocation, view: &FrameView) -> bool {
    let instance = Instance::new(topology, request, view);
    let (answer, came) = own.answer(&instance, &AMPLE);
    assert_eq!(came, ProgramOutcome::ToItsEnd);
    match (Exact::new(own.options).plan(&instance, &AMPLE), answer) {
        (Outcome::Planned(exact), Outcome::Planned(other)) => {
            assert_eq!(verify(&instance, &own.options, &other), Ok(()));
            if own.first {
                assert!(other.cost >= exact.cost && other.lower_bound <= exact.cost);
            } else {
                assert_eq!((other.cost, other.lower_bound), (exact.cost, exact.cost));
            }
            assert_eq!(other.solver, own.program.name());
            true
        }
        (Outcome::Refused(exact), Outcome::Refused(other)) => {
            assert_eq!(exact, other, "one refusal in the same words");
            false
        }
        (exact, other) => panic!("exact {exact:?}, {} {other:?}", own.program.name()),
    }
}

#[test]
fn what_is_written_means_the_model() {
    let mut feasible = 0;
    for seed in 0..1_200 {
        let mut rng = ChaCha8Rng::seed_from_u64(9_000_000 + seed);
        let (topology, request, view) = fixtures::tiny(&mut rng);
        let options = IpOptions {
            route_edges_max: rng.random_range(1..=4),
            exclude_opposite_arcs: rng.random_bool(0.7),
        };
        let program = Program::ALL[rng.random_range(0..Program::ALL.len())];
        let first = program.can_end_at_first() && rng.random_bool(0.3);
        let own = outside(program, options, first);
        feasible += u32::from(agrees(&own, &topology, &request, &view));
    }
    println!("1200 random graphs, {feasible} feasible");
    assert!((240..=960).contains(&feasible));
}

#[test]
fn a_federation_of_the_papers_size() {
    let topology = fixtures::elgl();
    for (seed, program) in (0..).zip(Program::ALL.iter().copied()) {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let request = fixtures::paper_request(1 + seed as usize % 3, &mut rng);
        let view = fixtures::random_loads(&topology, &mut rng);
        agrees(&outside(program, IpOptions::default(), false), &topology, &request, &view);
    }
}

#[test]
fn rates_that_32_bits_do_not_hold_lose_nothing() {
    for rates in [[7, 7], [1_000_000_000, 3], [89_999_999_999_989, 1_000_003]] {
        let (topology, request, view) = fixtures::one_bit_short(rates);
        let mut enough = view.clone();
        enough.free_bps[0] = [BitsPerSecond(rates[0] + rates[1]); 2];
        for &program in Program::ALL {
            let own = outside(program, IpOptions::default(), false);
            assert!(agrees(&own, &topology, &request, &view), "{rates:?}: by `far`");
            assert!(agrees(&own, &topology, &request, &enough), "{rates:?}: both by `near`");
        }
    }
}

/// A program with a given answer.
#[derive(Debug)]
struct Says(Result<ProgramRun, String>);

impl Programs for Says {
    fn run(&self, _: &SolverJob) -> Result<ProgramRun, String> {
        self.0.clone()
    }
}

#[test]
fn nothing_is_believed_and_a_failure_is_told() {
    let (topology, request, view) = fixtures::one_bit_short([7, 7]);
    let instance = Instance::new(&topology, &request, &view);
    let ask = |said: Result<ProgramRun, String>| {
        let own = Outside {
            programs: Arc::new(Says(said)),
            ..outside(Program::MinisatPlus, IpOptions::default(), false)
        };
        own.answer(&instance, &AMPLE)
    };
    let output = |output: &str| {
        Ok(ProgramRun {
            ended: ProgramEnd::Exited(0),
            output: output.to_owned(),
            errors: String::new(),
            answer: None,
        })
    };
    let literals = |chosen: &[usize]| {
        let all =
            (1..=12).map(|at| format!("{}x{at}", if chosen.contains(&at) { "" } else { "-" }));
        format!("s OPTIMUM FOUND\nv {}\n", all.collect::<Vec<_>>().join(" "))
    };
    let cases = [
        (Err("no such file".to_owned()), "gave up (no such file)"),
        (output("command not understood\n"), "its last words: command not understood"),
        (output(&literals(&[])), "sites that no route joins"),
        // The columns are four for places, then four steps for each link: `near` and `far`, each in
        // both directions.
        (output(&literals(&[1, 4, 5])), "sites that no route joins"),
        (output(&literals(&[1, 4, 5, 10])), "gave a wrong plan (near carries 14 bit/s of 13"),
    ];
    for (said, expected) in cases {
        let (outcome, came) = ask(said);
        let Outcome::Refused(refusal) = outcome else { panic!("{outcome:?}") };
        assert_eq!(refusal.reason, Reason::BudgetExhausted);
        let ProgramOutcome::Failed(what) = came else { panic!("{expected}: {came:?}") };
        assert!(what.contains(expected) && what.starts_with("minisat+ "), "{expected}: {what}");
        assert!(refusal.to_string().contains(&what), "{refusal}");
    }
    let (outcome, came) = ask(output(&literals(&[1, 4, 5, 12])));
    assert!(matches!(outcome, Outcome::Planned(_)), "{outcome:?}");
    assert_eq!(came, ProgramOutcome::ToItsEnd);
}

#[test]
fn a_program_that_is_cut_short_says_so() {
    let (topology, request, view) = fixtures::one_bit_short([7, 7]);
    let instance = Instance::new(&topology, &request, &view);
    let said = |output: &str| ProgramRun {
        ended: ProgramEnd::OutOfTime,
        output: output.to_owned(),
        errors: String::new(),
        answer: None,
    };
    let own = |said| Outside {
        programs: Arc::new(Says(Ok(said))),
        ..outside(Program::MinisatPlus, IpOptions::default(), false)
    };
    let (outcome, came) = own(said("")).answer(&instance, &AMPLE);
    assert_eq!(came, ProgramOutcome::CutShort);
    let Outcome::Refused(refusal) = outcome else { panic!("{outcome:?}") };
    assert_eq!(refusal.reason, Reason::BudgetExhausted);
    assert!(refusal.to_string().contains("minisat+ timed out"), "{refusal}");
    let (outcome, came) = own(said("s SATISFIABLE\nv x1 x4 x5 x12\n")).answer(&instance, &AMPLE);
    assert_eq!(came, ProgramOutcome::CutShort);
    let Outcome::Planned(plan) = outcome else { panic!("{outcome:?}") };
    assert_eq!((plan.is_proven_optimal(), plan.lower_bound), (false, 0));
    let none = Budget { solver_time: Span::ZERO, ..AMPLE };
    assert_eq!(
        own(said("")).answer(&instance, &none).1,
        ProgramOutcome::CutShort,
        "nothing is started"
    );
}
