//! Tests of the models as text and of reading answers: complete, cut off, nonsense, and ended by
//! the time limit.

use super::read::{Reading, Verdict, read};
use super::*;
use crate::ip::mip::model::Row;

/// Three columns with two rows: exactly one of the first two is chosen, and all three together take
/// at most 4.
fn model() -> Model {
    let rows = vec![
        Row::new(1, 1, vec![(0, 1), (1, 1)]),
        Row::new(0, 0, vec![(0, 1), (2, -1)]),
        Row::new(1, 4, vec![(0, 3), (1, 2), (2, 5)]),
    ];
    of(vec![7, 9, 0], rows)
}

fn of(costs: Vec<u64>, rows: Vec<Row>) -> Model {
    let mut model = Model::default();
    (model.costs, model.rows, model.unit) = (costs, rows, 1);
    model
}

#[test]
fn a_model_in_both_formats() {
    let lp = "\\ Takefusa 2010, Eq. (1) to (11), of one frame\nMinimize\n obj: + 7 x0 + 9 x1 + 0 x2\n\
        Subject To\n r0: + 1 x0 + 1 x1 = 1\n r1: + 1 x0 - 1 x2 = 0\n\
        \x20r2: + 3 x0 + 2 x1 + 5 x2 <= 4\n l2: + 3 x0 + 2 x1 + 5 x2 >= 1\n\
        Binary\n x0 x1 x2\nEnd\n";
    assert_eq!(lp::write(&model()), lp);
    let opb = "* #variable= 3 #constraint= 4\nmin: +7 x1 +9 x2 ;\n+1 x1 +1 x2 = 1 ;\n\
        +1 x1 -1 x3 = 0 ;\n-3 x1 -2 x2 -5 x3 >= -4 ;\n+3 x1 +2 x2 +5 x3 >= 1 ;\n";
    assert_eq!(opb::write(&model()), (opb.to_owned(), 1));
}

#[test]
fn what_32_bits_do_not_hold_is_divided_and_rounded_down() {
    let large = 1_i64 << 33;
    let rows = vec![Row::new(0, 2 * large - 1, vec![(0, large), (1, large), (2, 3)])];
    let costs = vec![1 << 40, (1 << 41) + 5, 3];
    let (text, unit) = opb::write(&of(costs.clone(), rows));
    let sum: u64 = costs.iter().map(|cost| cost / unit).sum();
    assert!(unit > 1 && sum < 1 << 30, "{unit}, {sum}");
    assert!(text.contains(&format!("min: +{} x1", costs[0] / unit)), "{text}");
    // The sum is slightly more than sixteen times 2^30, so it is divided by 17.
    let (by, most) = (large / 17, (2 * large - 1) / 17);
    assert!(text.contains(&format!("\n-{by} x1 -{by} x2 >= -{most} ;\n")), "{text}");
    assert!(2 * by <= most, "what the exact row allows is allowed");
}

fn said(program: Program, text: &str) -> ProgramRun {
    let (output, answer) = match program.format() {
        Format::Lp => (String::new(), Some(text.to_owned())),
        Format::Opb => (text.to_owned(), None),
    };
    ProgramRun { ended: ProgramEnd::Exited(0), output, errors: String::new(), answer }
}

fn take(program: Program, text: &str) -> Result<Reading, Unreadable> {
    read(program, &said(program, text), &model().costs, 1)
}

/// The same answer in the format of each program.
const GOOD: [(Program, &str); 4] = [
    (
        Program::Glpk,
        "c Status: INTEGER OPTIMAL\ns mip 4 3 o 9\ni 1 1\nj 1 0\nj 2 1\nj 3 0\ne o f\n",
    ),
    (
        Program::Cbc,
        "Optimal - objective value 9.00000000\n      0 x0  1e-09  0\n      1 x1  1  9\n",
    ),
    (Program::Clasp, "c Reading\nv -x1 x2\nv -x3\no 9\ns OPTIMUM FOUND\nc Models : 1\n"),
    (Program::MinisatPlus, "s OPTIMUM FOUND\nv -x1 x2 -x3\n"),
];

#[test]
fn every_program_is_understood() {
    for (program, text) in GOOD {
        let reading = take(program, text).unwrap();
        assert_eq!(reading.verdict, Verdict::Optimal, "{program:?}");
        assert_eq!(reading.chosen, [false, true, false], "{program:?}");
        let answer = Answer::Solved { values: vec![0.0, 1.0, 0.0], bound: 9.0, optimal: true };
        assert_eq!(reading.answer(1), answer, "{program:?}");
    }
    let verdicts = [
        (Program::Glpk, "s mip 4 3 f 9\nj 1 0\nj 2 1\nj 3 0\ne o f\n", Verdict::Feasible),
        (Program::Glpk, "s mip 4 3 n 0\nj 1 0.5\ne o f\n", Verdict::Infeasible),
        (Program::Cbc, "Infeasible - objective value 3\n** 1 x1 7 0\n", Verdict::Infeasible),
        (Program::Cbc, "Integer infeasible - objective value 3.5\n", Verdict::Infeasible),
        (Program::Cbc, "Stopped on time - objective value 9\n 1 x1 1 9\n", Verdict::Feasible),
        (
            Program::Cbc,
            "Stopped on time (no integer solution - continuous used) - objective value 5.6\n 0 x0 0.6 0\n",
            Verdict::Unknown,
        ),
        (Program::Clasp, "s SATISFIABLE\nv -x1 x2 -x3\n", Verdict::Feasible),
        (Program::Clasp, "s UNSATISFIABLE\n", Verdict::Infeasible),
        (Program::Clasp, "s UNKNOWN\nc TIME LIMIT : 1\n", Verdict::Unknown),
        (Program::MinisatPlus, "c *** TERMINATED ***\ns SATISFIABLE\nv x2\n", Verdict::Feasible),
        // The answer of MiniSat+ with -first to a pigeonhole problem with one hole too few, which
        // it has searched completely.
        (Program::MinisatPlus, "s UNKNOWN\n", Verdict::Infeasible),
    ];
    for (program, text, verdict) in verdicts {
        assert_eq!(take(program, text).unwrap().verdict, verdict, "{text}");
    }
    let ended_by_somebody = take(Program::MinisatPlus, "c *** TERMINATED ***\ns UNKNOWN\n");
    assert!(ended_by_somebody.is_err(), "{ended_by_somebody:?}");
}

#[test]
fn an_answer_that_is_cut_off_anywhere_is_refused_or_says_the_same() {
    for (program, text) in GOOD {
        let whole = take(program, text).unwrap();
        for end in 0..text.len() {
            // Text after the answer is not needed, so an answer without it is complete.
            if let Ok(part) = take(program, &text[..end]) {
                assert_eq!(part, whole, "{program:?}: {:?}", &text[..end]);
            }
        }
    }
}

#[test]
fn an_answer_that_its_time_cut_off_is_none_and_no_mistake() {
    for (program, text) in GOOD {
        let whole = take(program, text).unwrap();
        let mut unknown = 0;
        for end in 0..text.len() {
            let said = ProgramRun { ended: ProgramEnd::OutOfTime, ..said(program, &text[..end]) };
            let reading = read(program, &said, &model().costs, 1).unwrap();
            match reading.verdict {
                Verdict::Unknown => {
                    assert_eq!(reading.answer(1), Answer::OutOfTime, "{program:?}");
                    unknown += 1;
                }
                _ => assert_eq!(reading, whole, "{program:?}: {:?}", &text[..end]),
            }
        }
        assert!(unknown > text.len() / 2, "{program:?}: {unknown}");
    }
}

#[test]
fn nonsense_is_told_with_its_line() {
    let cases = [
        (Program::Glpk, "", "cut off after 0 lines"),
        (Program::Glpk, "s mip 4 2 o 9\n", "line 1 of its answer"),
        (Program::Glpk, "s mip 4 3 x 9\n", "line 1 of its answer"),
        (Program::Glpk, "s mip 4 3 o nine\n", "line 1 of its answer"),
        (Program::Glpk, "j 1 0\n", "line 1 of its answer"),
        (Program::Glpk, "s mip 4 3 o 9\nj 1 0\nj 1 1\n", "line 3 of its answer"),
        (Program::Glpk, "s mip 4 3 o 9\nj 4 1\n", "line 2 of its answer is \"j 4 1\""),
        (Program::Glpk, "s mip 4 3 o 9\nj 0 1\n", "line 2 of its answer"),
        (Program::Glpk, "s mip 4 3 o 9\nj 1 0.5\n", "line 2 of its answer"),
        (Program::Glpk, "s mip 4 3 o 9\nj 1 nan\n", "line 2 of its answer"),
        (Program::Glpk, "s mip 4 3 o 9\nj 2 1\ne o f\n", "has 1 of 3 columns"),
        (Program::Glpk, "s mip 4 3 u 0\ne o f\n", "did not report a result"),
        (Program::Glpk, "s mip 4 3 o 8\nj 1 0\nj 2 1\nj 3 0\ne o f\n", "costs 8, but it costs 9"),
        (Program::Cbc, "", "cut off"),
        (Program::Cbc, "Unbounded - objective value 9\n", "line 1 of its answer"),
        (Program::Cbc, "Optimal - objective value 9\n", "has 0 of 3 columns"),
        (Program::Cbc, "Optimal - objective value 9\n 1 y1 1 9\n", "line 2 of its answer"),
        (Program::Cbc, "Optimal - objective value 9\n** 1 x1 1 9\n", "line 2 of its answer"),
        (Program::Clasp, "v x1\n", "did not report a result"),
        (Program::Clasp, "s OPTIMUM FOUND\n", "has 0 of 3 columns"),
        (Program::Clasp, "s OPTIMUM FOUND\nv x1 x1\n", "line 2 of its answer"),
        (Program::Clasp, "s OPTIMUM FOUND\nv x4\n", "line 2 of its answer"),
        (Program::Clasp, "s SATISFIABLE\ns UNSATISFIABLE\n", "line 2 of its answer"),
        (Program::Clasp, "s OPTIMUM FOUND\nv x2\no 7\n", "costs 7, but it costs 9"),
        (Program::MinisatPlus, "Segmentation\u{7} fault\n", "last words: Segmentation fault"),
    ];
    for (program, text, expected) in cases {
        let error = take(program, text).unwrap_err().to_string();
        assert!(error.contains(expected), "{program:?} {text:?}: {error}");
    }
    // Whatever the bytes are, the reader returns.
    for seed in 0..2_000_u32 {
        let words =
            ["s mip 4 3 o 9\n", "j 1", " 1\n", "v x1 ", "-x2\n", "s ", "o ", "e o f\n", "é"];
        let picked = (0..12).map(|at| words[((seed as usize * 7919) >> at) % words.len()]);
        let text: String = picked.collect();
        for &program in Program::ALL {
            let _ = take(program, &text);
        }
    }
}

#[test]
fn how_it_ended_counts() {
    let good = said(Program::Glpk, GOOD[0].1);
    let ended =
        |ended| read(Program::Glpk, &ProgramRun { ended, ..good.clone() }, &model().costs, 1);
    let error = ended(ProgramEnd::Killed(9)).unwrap_err();
    assert_eq!(error, Unreadable::Killed(9, String::new()));
    assert_eq!(ended(ProgramEnd::Exited(1)).unwrap_err(), Unreadable::Exited(1, String::new()));
    assert_eq!(ended(ProgramEnd::OutOfTime).unwrap().verdict, Verdict::Optimal, "just in time");
    let nothing = ProgramRun { ended: ProgramEnd::OutOfTime, answer: None, ..good.clone() };
    let reading = read(Program::Glpk, &nothing, &model().costs, 1).unwrap();
    assert_eq!(reading.answer(1), Answer::OutOfTime);
    let clasp = said(Program::Clasp, GOOD[2].1);
    for (code, well) in [(30, true), (65, false), (33, false)] {
        let said = ProgramRun { ended: ProgramEnd::Exited(code), ..clasp.clone() };
        assert_eq!(read(Program::Clasp, &said, &model().costs, 1).is_ok(), well, "{code}");
    }
}

#[test]
fn a_bound_in_coarser_costs_proves_no_optimum() {
    let clasp = said(Program::Clasp, "s OPTIMUM FOUND\nv -x1 x2 -x3\no 4\n");
    let reading = read(Program::Clasp, &clasp, &model().costs, 2).unwrap();
    let expected = Answer::Solved { values: vec![0.0, 1.0, 0.0], bound: 8.0, optimal: false };
    assert_eq!(reading.answer(2), expected);
}

#[test]
fn names_and_words() {
    for &program in Program::ALL {
        assert_eq!(Program::named(program.name()), Some(program));
    }
    let errand = |program, first| {
        let time = Span::from_millis(1_500);
        let errand = SolverJob { program, model: String::new(), time, first };
        errand.arguments("m", "a").join(" ")
    };
    assert_eq!(errand(Program::Glpk, false), "--lp m --tmlim 2 --write a");
    assert_eq!(errand(Program::Cbc, false), "m timeMode elapsed sec 2 ratio 0 solve solution a");
    assert_eq!(errand(Program::Clasp, false), "--quiet=1 --time-limit=2 m");
    assert_eq!(errand(Program::MinisatPlus, true), "-v0 -ansi -first m");
}
