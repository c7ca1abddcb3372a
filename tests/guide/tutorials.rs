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
}
