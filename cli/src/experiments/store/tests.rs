//! The folders that a run continues with, and those that it refuses.

use coalloc_sim::experiment::file::Model;
use serde_json::json;
use tempfile::TempDir;

use super::*;

const TEXT: &str = "name: mine\n";

fn head(name: &str) -> Head {
    Head::of(name, Model::Tasks, false, &json!({"settings": 1}))
}

fn run(point: &str, seed: u64) -> Run {
    let mut measures = Measures::new();
    measures.put("blocking", 0.25);
    Run { point: [("load".to_owned(), point.to_owned())].into(), seed, measures }
}

fn begun(runs: &[Run]) -> (TempDir, Store) {
    let folder = tempfile::tempdir().unwrap();
    let (mut store, found) = Store::open(folder.path(), &head("mine"), TEXT).unwrap();
    assert!(found.is_empty());
    for run in runs {
        store.add(run).unwrap();
    }
    (folder, store)
}

fn text(folder: &TempDir) -> String {
    std::fs::read_to_string(folder.path().join(RUNS)).unwrap()
}

fn refused(folder: &Path, head: &Head) -> String {
    Store::open(folder, head, TEXT).map(|_| ()).unwrap_err().message
}

#[test]
fn whatever_a_kill_leaves_is_gone_on_with() {
    let (folder, store) = begun(&[run("1", 1), run("1", 2)]);
    drop(store);
    let whole = text(&folder);
    let first = whole.find('\n').unwrap() + 1;
    let second = first + whole[first..].find('\n').unwrap() + 1;
    for length in 0..whole.len() {
        std::fs::write(folder.path().join(RUNS), &whole[..length]).unwrap();
        // At this point of a first start, the later files do not exist yet.
        let _ = std::fs::remove_file(folder.path().join(EXPERIMENT));
        let (mut store, runs) = Store::open(folder.path(), &head("mine"), TEXT).unwrap();
        let expected = [run("1", 1), run("1", 2)][..usize::from(length >= second)].to_vec();
        assert_eq!(runs, expected, "{length} bytes");
        for run in [run("1", 1), run("1", 2)].into_iter().skip(runs.len()) {
            store.add(&run).unwrap();
        }
        drop(store);
        assert_eq!(text(&folder), whole, "{length} bytes");
    }
}

#[test]
fn a_folder_with_nothing_but_the_experiment_is_begun_and_one_with_other_files_is_not() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join(EXPERIMENT), TEXT).unwrap();
    Store::open(folder.path(), &head("mine"), TEXT).map(|_| ()).unwrap();
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("letters.txt"), "").unwrap();
    let said = refused(folder.path(), &head("mine"));
    assert!(said.contains("the folder has files and no results.jsonl; expected"), "{said}");
    let said = refused(&folder.path().join("letters.txt"), &head("mine"));
    assert!(said.contains("is a file, not a folder"), "{said}");
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1, "something was written");
}

#[test]
fn a_line_that_is_not_whole_is_left_out_and_its_run_done_again() {
    let (folder, store) = begun(&[run("1", 1), run("1", 2), run("2", 1)]);
    drop(store);
    // A full disk leaves this to a program that continues: two lines in one.
    let whole = text(&folder);
    let second = whole.match_indices('\n').nth(1).unwrap().0 + 1;
    let (before, behind) = whole.as_bytes().split_at(second);
    // What a disk leaves behind may not be valid text.
    let glued = [before, &behind[..20], b"\xff\xfe", behind].concat();
    std::fs::write(folder.path().join(RUNS), &glued).unwrap();
    let said = read(folder.path()).unwrap_err().message;
    assert!(
        said.contains("results.jsonl:3: is not a complete line of `coalloc sim run`"),
        "{said}"
    );
    let (mut store, runs) = Store::open(folder.path(), &head("mine"), TEXT).unwrap();
    assert_eq!(runs, [run("1", 1), run("2", 1)]);
    store.add(&run("1", 2)).unwrap();
    store.in_order(&Results::new(Vec::new())).unwrap();
    assert_eq!(text(&folder), whole, "the piece is gone");
}

#[test]
fn a_file_system_without_locks_is_no_reason_to_refuse() {
    use std::io::Error;
    assert!(has_no_locks(&ErrorKind::Unsupported.into()));
    assert!(has_no_locks(&Error::from_raw_os_error(rustix::io::Errno::NOLCK.raw_os_error())));
    assert!(!has_no_locks(&ErrorKind::PermissionDenied.into()));
}

#[test]
fn runs_are_brought_in_order_and_those_of_other_points_are_kept() {
    let (folder, mut store) =
        begun(&[run("2", 1), run("9", 1), run("1", 2), run("2", 1), run("1", 1)]);
    let point = |label: &str| coalloc_sim::experiment::file::Point {
        labels: vec![("load".to_owned(), label.to_owned())],
        settings: serde_json::Map::new(),
        indices: Vec::new(),
    };
    store.in_order(&Results::new(vec![point("2"), point("1")])).unwrap();
    store.add(&run("2", 7)).unwrap();
    let (_, runs) = read(folder.path()).unwrap();
    let expected = [run("2", 1), run("1", 1), run("1", 2), run("9", 1), run("2", 7)];
    assert_eq!(runs, expected);
}

#[test]
fn a_second_writer_is_refused_while_there_is_a_first_even_after_it_has_brought_runs_in_order() {
    let (folder, mut store) = begun(&[run("2", 1), run("1", 1)]);
    for _ in 0..2 {
        let second = Store::open(folder.path(), &head("mine"), TEXT).map(|_| ()).unwrap_err();
        assert_eq!(second.exit, Exit::Refused);
        assert!(second.message.contains("another `coalloc sim run` writes to this folder"));
        let before = text(&folder);
        store.in_order(&Results::new(Vec::new())).unwrap();
        assert_eq!(before.lines().count(), text(&folder).lines().count());
    }
    drop(store);
    assert_eq!(Store::open(folder.path(), &head("mine"), TEXT).unwrap().1.len(), 2);
}

#[test]
fn results_of_something_else_are_refused_with_what_differs() {
    let (folder, store) = begun(&[run("1", 1)]);
    drop(store);
    let whole = text(&folder);
    let small = Head::of("mine", Model::Tasks, true, &json!({"settings": 1}));
    let other = Head::of("mine", Model::Tasks, false, &json!({"settings": 2}));
    let mut newer = head("mine");
    newer.program.as_mut().unwrap().version = "9.0.0".to_owned();
    let mut revised = head("mine");
    revised.program.as_mut().unwrap().revision += 1;
    for (wanted, said) in [
        (head("yours"), ":1: experiment: the folder holds results of mine, not of yours; choose"),
        (
            small,
            ":1: small: the folder holds results of mine (a full run), not of mine (a --small run); choose",
        ),
        (other, ":1: digest: the folder holds results of mine from before"),
        (newer, "and this is coalloc 9.0.0 with revision"),
        (revised, "results of two programs are not mixed; choose another --out, or remove"),
    ] {
        let told = refused(folder.path(), &wanted);
        assert!(told.contains(said) && told.ends_with("nothing was overwritten"), "{told}");
        assert_eq!(text(&folder), whole);
    }
    // Older programs, which did not record who they are, wrote the head like this.
    let line = whole.lines().next().unwrap();
    let program = line.find(",\"program\"").unwrap();
    let old = whole.replacen(&line[program..], "}", 1);
    std::fs::write(folder.path().join(RUNS), &old).unwrap();
    let told = refused(folder.path(), &head("mine"));
    assert!(told.contains(":1: program: the folder holds results of an older coalloc"), "{told}");
    std::fs::write(folder.path().join(RUNS), "letters\n").unwrap();
    assert!(
        refused(folder.path(), &head("mine")).contains(":1: expected value; expected the first")
    );
}

#[test]
fn a_closed_folder_is_free_even_if_a_program_that_is_being_started_still_has_its_file() {
    let (folder, store) = begun(&[run("1", 1)]);
    // Between its fork and its exec a child has every file of its parent, as this copy does.
    let inherited = store.file.try_clone().unwrap();
    drop(store);
    assert_eq!(Store::open(folder.path(), &head("mine"), TEXT).unwrap().1.len(), 1);
    drop(inherited);
}

#[test]
fn a_folder_in_which_no_run_has_ended_is_for_any_experiment() {
    let (folder, store) = begun(&[]);
    drop(store);
    let (mut store, found) = Store::open(folder.path(), &head("yours"), TEXT).unwrap();
    assert!(found.is_empty());
    store.add(&run("1", 1)).unwrap();
    drop(store);
    assert_eq!(text(&folder).lines().next(), Some(head("yours").line().as_str()));
    assert!(refused(folder.path(), &head("mine")).contains("results of yours, not of mine"));
}
