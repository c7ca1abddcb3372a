//! The testbed of containers, used as in `docs/guide/compose.md`: every command of that page is run, in order. The three
//! organisations of `docs/guide/domains.md` are in [`organisations`], and a coordinator with a shared ledger whose networks are
//! cut is in [`partitions`].
//!
//! While the testbed runs, a load from this machine continues while a domain is cut off, containers are
//! killed and paused, and the coordinator is restarted. Then the auditor compares what all daemons have
//! with what clients were told.
//!
//! The test needs a Docker engine with compose and the image of `deploy/compose/build`, so it runs only
//! when COALLOC_COMPOSE=1 says that they are there; otherwise it prints that it was skipped. It has its own
//! project, loopback address and volumes, and removes them even when it fails.

// clippy allows unwrap in test functions only; the helpers of this file are test code all through.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod load;
mod organisations;
#[path = "../page.rs"]
mod page;
mod partitions;
mod process;
mod testbed;

use std::time::Duration;

use load::Load;
use testbed::{Testbed, eventually};
use tokio::sync::{Mutex, MutexGuard};

/// The first command of the guide that comes after the faults of this test.
const AT_THE_END: &str = "deploy/compose/audit";

/// Returns the right to use the Docker engine, or `None` if this machine has none for the tests. The tests of this file
/// have it one after the other: both measure times.
async fn engine() -> Option<MutexGuard<'static, ()>> {
    static ONE_AT_A_TIME: Mutex<()> = Mutex::const_new(());
    if std::env::var("COALLOC_COMPOSE").as_deref() != Ok("1") {
        println!("skipped: set COALLOC_COMPOSE=1 after deploy/compose/build; it needs Docker");
        return None;
    }
    Some(ONE_AT_A_TIME.lock().await)
}

#[tokio::test(flavor = "multi_thread")]
async fn the_testbed_survives_what_its_guide_and_worse_do_to_it() {
    let Some(_alone) = engine().await else { return };
    let testbed = Testbed::new();
    let commands = testbed.commands_of_the_guide();
    let end = commands.iter().position(|one| one.line.starts_with(AT_THE_END)).unwrap();
    let (story, end) = commands.split_at(end);
    for command in story {
        testbed.run_of_the_guide(command);
    }
    domains_are_apart(&testbed);
    containers_are_fenced_in(&testbed);

    let before = testbed.coalloc("show before --json");
    let journal = testbed.folder().join("told.jsonl");
    let load = Load::start(testbed.address(7_000), &testbed.identity(), &journal);
    load.goes_on("before any fault").await;
    faults(&testbed, &load).await;
    load.stop().await;

    let journal = journal.display();
    println!("{}", testbed.run(&format!("deploy/compose/audit --journal {journal}")));
    let after = testbed.coalloc("show before --json");
    assert_eq!(before, after, "what was confirmed before stands as it was");
    testbed.nobody_crashed();
    for command in end {
        testbed.run_of_the_guide(command);
    }
    testbed.is_gone();
}

/// Each fault lasts until clients have received several answers during it, so that it affects requests in
/// all states, even on a slow machine.
async fn faults(testbed: &Testbed, load: &Load) {
    testbed.run("deploy/compose/cut N");
    load.goes_on("while N is cut off").await;
    testbed.run("deploy/compose/heal N");
    load.goes_on("after N is back").await;

    // The network manager of one domain and a site of another domain, killed as by a power cut.
    testbed.docker("kill", &["nrm-S", "crm-U1"]);
    assert_eq!(testbed.inspect("nrm-S", "{{.State.Status}}"), "exited", "it stays down");
    load.goes_on("without nrm-S and crm-U1").await;
    testbed.docker("start", &["nrm-S", "crm-U1"]);

    // All daemons are there, but some do not answer: their connections stay open.
    testbed.docker("pause", &["crm-N0", "gate-U"]);
    load.goes_on("with crm-N0 and gate-U paused").await;
    testbed.docker("unpause", &["crm-N0", "gate-U"]);

    // The coordinator is killed in the middle of its work; clients lose their answers.
    testbed.docker("kill", &["grc"]);
    // One network, with everybody in it at once: a resource manager that lost its network restarts nothing.
    testbed.disconnect("crm-N3", "domain-N");
    testbed.docker("start", &["grc"]);
    load.goes_on("after the coordinator was killed").await;
    testbed.connect("crm-N3", "domain-N");
    eventually("the coordinator reaches everyone", Duration::from_secs(60), || {
        testbed.coalloc("topology").contains("13 resource managers, 13 reachable")
    })
    .await;
    load.goes_on("after everything").await;
}

/// Checks that a daemon in one domain reaches neither the inside of another domain nor the exchange.
fn domains_are_apart(testbed: &Testbed) {
    let asks = |from: &str, address: &str| testbed.exec(from, &format!("health {address}"));
    assert!(asks("crm-S0", "gate-S:7000"), "a domain reaches the coordinator through its gate");
    assert!(asks("grc", "gate-S:7108"), "and the coordinator the domain");
    assert!(asks("crm-S0", "nrm-S:7102"), "within the domain");
    assert!(!asks("crm-S0", "crm-N0:7104"), "not into another domain");
    assert!(!asks("crm-S0", "gate-N:7104"), "nor through its gate");
    assert!(!asks("crm-S0", "grc:7000"), "the coordinator only through the gate");
    assert!(!asks("grc", "crm-S0:7108"), "the domain only through the gate");
    let addresses = testbed.addresses("crm-N0");
    let address = addresses.first().expect("it has one");
    assert!(!asks("crm-S0", &format!("{address}:7104")), "nor by address");
}

fn containers_are_fenced_in(testbed: &Testbed) {
    let format = "{{.HostConfig.Memory}} {{.HostConfig.NanoCpus}} {{.HostConfig.PidsLimit}} \
                  {{.HostConfig.ReadonlyRootfs}} {{.Config.User}}";
    for service in testbed.services() {
        let fence = testbed.inspect(&service, format);
        let mut words = fence.split_whitespace();
        for what in ["memory", "cpus", "pids"] {
            let limit: u64 = words.next().unwrap().parse().unwrap();
            assert!(limit > 0, "{service} has no limit of {what}: {fence}");
        }
        let rest: Vec<&str> = words.collect();
        assert_eq!(rest, ["true", "65532:65532"], "{service}");
    }
}
