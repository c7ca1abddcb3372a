//! A change of a world's behaviour must raise the revision of its model (`Model::revision`); otherwise
//! results of the program before and after the change would be mixed in one folder.
//!
//! A tiny run of every kind of each model is kept here. If it measures something else under the same
//! revision, this test fails.
//!
//! To change what a world does: raise the revision, then run `COALLOC_BLESS=1 cargo test -p coalloc --test
//! experiments golden`, and read the diff.

use std::path::Path;

use super::{coalloc, shown};

#[test]
fn a_model_that_measures_something_else_has_another_revision() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/experiments/golden");
    for model in ["tasks", "coallocations", "jobs", "workflows"] {
        let out = tempfile::tempdir().unwrap();
        let file = folder.join(format!("{model}.yaml"));
        let words = ["sim", "run", file.to_str().unwrap(), "--out", out.path().to_str().unwrap()];
        let ran = coalloc(&words);
        assert!(ran.status.success(), "{}", shown(&ran));
        let written = std::fs::read_to_string(out.path().join("results.jsonl")).unwrap();
        let (head, runs) = written.split_once('\n').unwrap();
        let head: serde_json::Value = serde_json::from_str(head).unwrap();
        let revision = format!("revision {}", head["program"]["revision"]);
        let path = folder.join(format!("{model}.jsonl"));
        let known = std::fs::read_to_string(&path).unwrap_or_default();
        let (known_revision, known_runs) = known.split_once('\n').unwrap_or_default();
        if known_runs == runs && known_revision == revision {
            continue;
        }
        assert_ne!(
            known_revision,
            revision,
            "the model `{model}` measures something else than before; raise its revision in \
             sim/src/experiment/file.rs (Model::revision), then bless\n{}",
            first_difference(known_runs, runs)
        );
        assert!(
            std::env::var_os("COALLOC_BLESS").is_some_and(|bless| bless == "1"),
            "{} is of {known_revision} and the model of {revision}: COALLOC_BLESS=1 writes it anew",
            path.display()
        );
        std::fs::write(&path, format!("{revision}\n{runs}")).unwrap();
    }
}

fn first_difference(known: &str, runs: &str) -> String {
    let pair = known.lines().zip(runs.lines()).find(|(one, other)| one != other);
    match pair {
        Some((known, run)) => format!("before: {known}\nnow:    {run}"),
        None => "runs were added or are missing".to_owned(),
    }
}
