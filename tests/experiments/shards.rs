//! Shards of a run: put together, they are the same bytes as one run; whatever does not belong together is refused.

use std::path::{Path, PathBuf};
use std::process::Output;

use super::{MINE, coalloc, shown, written};

/// Runs a shard, or the whole, of an experiment.
fn run(file: &str, out: &Path, more: &[&str]) {
    let ran = coalloc(&[&["sim", "run", file, "--out", out.to_str().unwrap()], more].concat());
    assert!(ran.status.success(), "{}", shown(&ran));
}

fn merge(folders: &[PathBuf], out: &Path, more: &[&str]) -> Output {
    let folders: Vec<&str> = folders.iter().map(|folder| folder.to_str().unwrap()).collect();
    coalloc(&[&["sim", "merge", "--out", out.to_str().unwrap()], more, &folders].concat())
}

/// Every file of a folder, with its bytes.
fn files(folder: &Path) -> Vec<(String, Vec<u8>)> {
    let mut all = Vec::new();
    for path in std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()) {
        let name = path.file_name().unwrap().to_str().unwrap().to_owned();
        match path.is_dir() {
            true => {
                let below = files(&path).into_iter();
                all.extend(below.map(|(file, bytes)| (format!("{name}/{file}"), bytes)));
            }
            false => all.push((name, std::fs::read(&path).unwrap())),
        }
    }
    all.sort();
    all
}

/// The folders of all shards of an experiment.
fn shards(file: &str, under: &Path, of: usize, more: &[&str]) -> Vec<PathBuf> {
    let one = |number: usize| {
        let (out, shard) = (under.join(format!("{number}-{of}")), format!("{number}/{of}"));
        run(file, &out, &[&["--shard", &shard], more].concat());
        out
    };
    (1..=of).map(one).collect()
}

#[test]
fn merged_shards_are_the_bytes_of_one_run() {
    // What is said of a value that the sweep does not have is left out of both.
    let number =
        "paper: {numbers: [{metric: success, at: {frames: 7}, value: 1, place: x}]}\nplots:";
    let (folder, file) = written(&MINE.replace("plots:", number));
    let more = ["--seeds", "5", "--first-seed", "3", "--png"];
    let whole = folder.path().join("whole");
    run(&file, &whole, &more);
    let report = String::from_utf8(std::fs::read(whole.join("report.md")).unwrap()).unwrap();
    assert!(report.contains("2 points, 5 seeds each (3 to 7), 10 runs"), "{report}");
    let folders = shards(&file, folder.path(), 3, &more);
    let part = String::from_utf8(std::fs::read(folders[1].join("report.md")).unwrap()).unwrap();
    assert!(part.contains("* shard 2/3: 3 of 10 runs;"), "{part}");
    assert!(part.contains("--first-seed 3 --shard 2/3`"), "{part}");
    // The experiment's own files are needed no more, and the order of the folders does not matter.
    std::fs::remove_file(folder.path().join("federation.yaml")).unwrap();
    let other_way: Vec<PathBuf> = folders.iter().rev().cloned().collect();
    for (number, folders) in [folders, other_way].into_iter().enumerate() {
        let merged = folder.path().join(format!("merged-{number}"));
        let told = merge(&folders, &merged, &["--png"]);
        assert!(told.status.success(), "{}", shown(&told));
        assert!(shown(&told).contains("10 runs of 3 shards"), "{}", shown(&told));
        let (ours, one) = (files(&merged), files(&whole));
        assert_eq!(one.len(), 7, "{:?}", one.iter().map(|(name, _)| name).collect::<Vec<_>>());
        for ((name, bytes), (other, wanted)) in ours.iter().zip(&one) {
            assert!(name == other && bytes == wanted, "{name} differs");
        }
        assert_eq!(ours.len(), one.len());
        // It is the folder of the whole, to which a run may add.
        let again = coalloc(&["sim", "merge", merged.to_str().unwrap(), "--out", "x"]);
        assert_eq!(again.status.code(), Some(2), "{}", shown(&again));
        assert!(shown(&again).contains("it has the results of a whole run"), "{}", shown(&again));
    }
}

#[test]
fn a_shard_without_runs_says_why() {
    let (folder, file) = written(MINE);
    let out = folder.path().join("out");
    let ran = coalloc(&["sim", "run", &file, "--shard", "5/5", "--out", out.to_str().unwrap()]);
    assert!(ran.status.success(), "{}", shown(&ran));
    let said = "shard 5/5: 0 of 2 runs; there are more shards than runs, and 3 have none; ";
    assert!(shown(&ran).contains(said), "{}", shown(&ran));
    assert!(!shown(&ran).contains("frames=1"), "no point has a value: {}", shown(&ran));
}

#[test]
fn a_shipped_experiment_is_merged_with_its_verdicts_and_points() {
    let folder = tempfile::tempdir().unwrap();
    let more = ["--small", "--seeds", "2", "--point", "service=normal"];
    let whole = folder.path().join("whole");
    run("takefusa-fig7", &whole, &more);
    let folders = shards("takefusa-fig7", folder.path(), 2, &more);
    let merged = folder.path().join("merged");
    let told = merge(&folders, &merged, &[]);
    assert!(told.status.success(), "{}", shown(&told));
    assert!(shown(&told).contains("a part of the experiment: "), "{}", shown(&told));
    assert!(files(&merged) == files(&whole), "the folders differ");
}

#[test]
fn what_does_not_belong_together_is_refused_and_nothing_is_written() {
    let (folder, file) = written(MINE);
    let under = |name: &str| {
        let path = folder.path().join(name);
        std::fs::create_dir(&path).unwrap();
        path
    };
    let seeds = ["--seeds", "2"];
    let two = shards(&file, &under("two"), 2, &seeds);
    let three = shards(&file, &under("three"), 3, &seeds);
    let more = shards(&file, &under("more"), 2, &["--seeds", "3"]);
    std::fs::write(&file, MINE.replace("requests: 3", "requests: 4")).unwrap();
    let changed = shards(&file, &under("changed"), 2, &seeds);
    std::fs::write(&file, MINE.replace("name: mine", "name: other")).unwrap();
    let other = shards(&file, &under("other"), 2, &seeds);
    std::fs::write(&file, MINE.replace("title: Mine", "title: Ours")).unwrap();
    let title = shards(&file, &under("title"), 2, &seeds);
    std::fs::write(&file, MINE).unwrap();
    let whole = folder.path().join("whole");
    run(&file, &whole, &seeds);
    let edited = |name: &str, edit: &dyn Fn(&str) -> String| {
        let copy = under(name);
        for (file, bytes) in files(&two[1]) {
            std::fs::create_dir_all(copy.join(&file).parent().unwrap()).unwrap();
            std::fs::write(copy.join(file), bytes).unwrap();
        }
        let runs = copy.join("results.jsonl");
        std::fs::write(&runs, edit(&std::fs::read_to_string(&runs).unwrap())).unwrap();
        copy
    };
    let newer = edited("newer", &|text| text.replace("\"version\":\"", "\"version\":\"9."));
    let short = edited("short", &|text| {
        let kept: Vec<&str> = text.lines().collect();
        kept[..kept.len() - 1].join("\n") + "\n"
    });
    let foreign = edited("foreign", &|text| {
        let first = std::fs::read_to_string(two[0].join("results.jsonl")).unwrap();
        text.to_owned() + first.lines().nth(1).unwrap() + "\n"
    });
    let out = folder.path().join("merged");
    for (one, second, said) in [
        (&two[0], Some(&three[1]), "shard: it is 2/3, which is of another set than that of"),
        (&two[0], Some(&more[1]), "part: its seeds or points are not those of"),
        (&two[0], Some(&changed[1]), "digest: its settings or sweep are not those of"),
        (&two[0], Some(&other[1]), "experiment: it is another one than that of"),
        (&two[0], Some(&title[1]), "experiment.yaml: it is not the same as that of"),
        (&two[0], Some(&newer), "program: it is coalloc 9."),
        (&two[0], Some(&whole), "it has the results of a whole run"),
        (&two[0], Some(&two[0]), "each shard may be there once"),
        (&two[0], None, "no folder has shard 2/2; needed: the folders of all 2 shards"),
        (&two[0], Some(&short), "shard 2/2 is not complete: seed 2 at frames 2 is missing"),
        (&two[0], Some(&foreign), "has 1 run of other shards than 2/2"),
    ] {
        let folders: Vec<PathBuf> = [one].into_iter().chain(second).cloned().collect();
        let refused = merge(&folders, &out, &[]);
        assert_eq!(refused.status.code(), Some(2), "{said}: {}", shown(&refused));
        assert!(shown(&refused).contains(said), "{said}: {}", shown(&refused));
        assert!(!out.exists(), "{said}");
    }
    // A folder is for one shard, and is not taken for the whole.
    for (shard, said) in [
        (
            &["--shard", "1/2"][..],
            "the folder is for shard 2/2 of a run --seeds 2, and this is shard 1/2",
        ),
        (&[][..], "the folder is for shard 2/2 of a run --seeds 2, and this is a whole run"),
    ] {
        let words = ["sim", "run", &file, "--seeds", "2", "--out", two[1].to_str().unwrap()];
        let refused = coalloc(&[&words[..], shard].concat());
        assert_eq!(refused.status.code(), Some(2), "{}", shown(&refused));
        assert!(shown(&refused).contains(said), "{}", shown(&refused));
    }
    let wrong = coalloc(&["sim", "run", &file, "--shard", "3/2", "--out", out.to_str().unwrap()]);
    assert_eq!(wrong.status.code(), Some(2), "{}", shown(&wrong));
    assert!(shown(&wrong).contains("K from 1 to N"), "{}", shown(&wrong));
    let told = merge(&two, &out, &[]);
    assert!(told.status.success(), "{}", shown(&told));
}
