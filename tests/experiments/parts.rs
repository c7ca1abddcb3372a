//! Parts of an experiment: some points, other seeds.

use std::path::Path;

use super::{MINE, coalloc, shown, written};

fn text(path: impl AsRef<Path>) -> String {
    std::fs::read_to_string(path.as_ref()).unwrap()
}

const SWEEP: &str = "  - {name: frames, path: frames, values: [1, 2]}";

/// [`MINE`] with a second axis.
fn with_two_axes() -> String {
    let second = "  - {name: first, path: first, values: [earliest, latest]}";
    MINE.replace(SWEEP, &format!("{SWEEP}\n{second}"))
}

#[test]
fn a_part_says_so_and_the_rest_may_follow_into_its_folder() {
    let (folder, file) = written(&with_two_axes());
    let run = |out: &Path, more: &[&str]| {
        let words = [&["sim", "run", &file, "--out", out.to_str().unwrap()], more].concat();
        let ran = coalloc(&words);
        assert!(ran.status.success(), "{}", shown(&ran));
        shown(&ran)
    };
    let (out, whole) = (folder.path().join("out"), folder.path().join("whole"));
    let part = ["--first-seed", "7", "--seeds", "2", "--point", "first=latest", "--point"];
    let told = run(&out, &[&part[..], &["frames=2"]].concat());
    let report = text(out.join("report.md"));
    let (points, seeds) = (
        "a part of the experiment: 1 of its 4 points (--point first=latest --point frames=2)",
        "its seeds begin with 7, those of the experiment's file with 1",
    );
    for said in [points, seeds] {
        assert!(told.contains(said) && report.contains(&format!("* {said}\n")), "{told}{report}");
    }
    let made = "--out DIR --seeds 2 --first-seed 7 --point first=latest --point frames=2`: \
                1 point, 2 seeds each (7 to 8), 2 runs.";
    assert!(report.contains(made), "{report}");
    // Two values of one axis are two points.
    let told = run(&out, &[&part[..], &["frames=2", "--point", "frames=1"]].concat());
    assert!(told.contains("2 of its 4 points") && told.contains("2 were there"), "{told}");
    let all = ["--first-seed", "7", "--seeds", "2"];
    run(&out, &all);
    run(&whole, &all);
    for name in ["results.jsonl", "results.csv", "report.md", "over-frames.svg"] {
        assert!(text(out.join(name)) == text(whole.join(name)), "{name} differs");
    }
    assert!(!text(out.join("report.md")).contains("a part of"), "nothing is missing");
}

#[test]
fn an_axis_or_value_that_there_is_not_is_named_with_those_that_there_are() {
    let (folder, file) = written(&with_two_axes());
    let out = folder.path().join("out");
    for (pair, said) in [
        ("frame=1", "frame is not an axis of mine; allowed: frames, first; did you mean frames?"),
        (
            "first=lates",
            "lates is not a value of that axis in this run; allowed: earliest, latest; did you mean latest?",
        ),
        ("frames", "is not AXIS=VALUE; allowed: frames, first"),
    ] {
        let words = ["sim", "run", &file, "--out", out.to_str().unwrap(), "--point", pair];
        let ran = coalloc(&words);
        assert_eq!(ran.status.code(), Some(2), "{}", shown(&ran));
        assert!(shown(&ran).contains(&format!("--point {pair}: {said}")), "{}", shown(&ran));
    }
    for (option, value, most) in [
        ("--first-seed", "-1", "0 to 1000000000000"),
        ("--first-seed", "one", "0 to 1000000000000"),
        ("--seeds", "0", "1 to "),
    ] {
        let ran = coalloc(&["sim", "run", &file, "--out", out.to_str().unwrap(), option, value]);
        assert_eq!(ran.status.code(), Some(2), "{}", shown(&ran));
        let said = format!(
            "invalid value '{value}' for '{option} <N>': allowed: a whole number from {most}"
        );
        assert!(shown(&ran).contains(&said), "{}", shown(&ran));
    }
    assert!(!out.exists(), "nothing was written");
}
