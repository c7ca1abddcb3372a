//! The tutorials for operators and for researchers: a shell runs their commands from an empty folder.
//!
//! The commands of the one for users need the demo, so they are run like those of chapters (`main.rs`).

use crate::shell::{Detached, PORTS, ShellPage, free_ports};

#[test]
fn a_domain_joins_a_federation() {
    let folder = tempfile::tempdir().unwrap();
    let there = ["my-federation", "kyoto"].map(|name| folder.path().join(name));
    let _detached = there.each_ref().map(|folder| Detached(folder));
    let page = ShellPage::new("first-domain.md", folder.path())
        .with_ports(7_000, free_ports(PORTS, 28_500));
    let shown = page.run();
    for expected in [
        "kyoto/crm-kyoto.yaml: ok",
        "4 resource managers, 4 reachable",
        "24 CPUs  at kyoto",
        "1 booking",
        "crm-kyoto.backup is sound",
        "revoked at",
    ] {
        assert!(shown.contains(expected), "{expected}: {shown}");
    }
}

#[test]
fn a_figure_is_repeated_and_becomes_an_experiment() {
    let folder = tempfile::tempdir().unwrap();
    let shown = ShellPage::new("first-experiment.md", folder.path()).run();
    for expected in ["Success falls as the day fills", "4 runs in", "2 values in both", "framse"] {
        assert!(shown.contains(expected), "{expected}: {shown}");
    }
    assert!(
        folder.path().join("fig7/report.md").exists() && folder.path().join("day.svg").exists()
    );
    page_shows_what_is_printed("first-experiment.md", &shown);
}

/// Checks that the lines of a page's blocks of `text` are lines of what the commands print, in this order. `...` stands for any lines.
fn page_shows_what_is_printed(page: &str, shown: &str) {
    let page = std::fs::read_to_string(crate::root().join("docs/guide").join(page)).unwrap();
    let blocks = page.split("```text\n").skip(1).map(|rest| rest.split("```").next().unwrap());
    let printed: Vec<String> = shown.lines().map(without_measured).collect();
    let (mut from, mut found) = (0, 0);
    for part in blocks.flat_map(|block| block.split("  ...\n")).filter(|part| !part.is_empty()) {
        let wanted: Vec<String> = part.lines().map(without_measured).collect();
        let place = printed[from..].windows(wanted.len()).position(|own| own == wanted);
        let place = place.unwrap_or_else(|| {
            panic!("the page shows lines that are not printed there:\n{part}\n{shown}")
        });
        from += place + wanted.len();
        found += wanted.len();
    }
    assert!(found > 5, "the page shows {found} lines");
}

/// A line without the numbers that another machine has otherwise: `3.4 s on 2 threads` and `107 MiB`.
fn without_measured(line: &str) -> String {
    let words: Vec<&str> = line.split(' ').collect();
    let is_measured = |at: &usize| {
        let next = words.get(at + 1).copied().unwrap_or_default();
        next.starts_with("thread")
            || next == "MiB"
            || (next == "s" && words.get(at + 2) == Some(&"on"))
    };
    let kept = (0..words.len()).map(|at| if is_measured(&at) { "N" } else { words[at] });
    kept.collect::<Vec<&str>>().join(" ").trim_end().replace("threads", "thread")
}
