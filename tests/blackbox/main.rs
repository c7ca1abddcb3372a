//! Real daemons under a mixed load of reserves, changes and releases.
//!
//! Meanwhile they are killed, paused and restarted, their messages are lost, duplicated, delayed, cut in
//! one direction and broken off, and a disk fills up. Afterwards `coalloc audit` reads all of them over the
//! public API and checks I1, I5, I6, I7, I8 and I22 against what clients were told.
//!
//! [`cluster`] starts the daemons with a [`relay`] on every connection, [`nemesis`] draws a schedule from a
//! seed and carries it out, `coalloc_cli::testbed::soak` is the load and `coalloc_cli::testbed::audit` the judge. A run in
//! which the load fell below [`LEAST_PER_MINUTE`] per core is void, and fails for that reason. [`canary`]
//! proves that faults are found.
//!
//! `COALLOC_KILLS=1000 COALLOC_PAUSES=300 COALLOC_SEED=7 cargo test -p coalloc --test blackbox one_coordinator --
//! --nocapture` runs longer, or with another seed, and with so many daemons paused for 1 s to 60 s.

// clippy allows unwrap in test functions only; the helpers of this file are test code all through.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod canary;
mod cluster;
// Each test target uses a part of it.
#[allow(dead_code)]
#[path = "../harness/mod.rs"]
mod harness;
mod nemesis;
mod relay;

use std::fs::File;
use std::path::PathBuf;
use std::time::Duration;

use coalloc_cli::testbed::audit::journal::{self, CallKnowledge, Kind, Writer};
use coalloc_cli::testbed::audit::{hear, judge};
use coalloc_cli::testbed::soak::{self, Lines, Soak};
use coalloc_net::client::Dialer;

use cluster::{Cluster, Shape};
use nemesis::Nemesis;

/// Co-allocations offered per minute and core, in every window; with fewer, a run proves nothing.
const LEAST_PER_MINUTE: f64 = 100.0;
/// The factor by which more is offered, so that many transactions are in progress when a fault happens, and
/// a busy machine does not make the run void at once.
const MARGIN: f64 = 6.0;
/// Time after the last fault by which everything must have ended (I22): a few times the longest pause
/// between two sendings of a message.
const REST: Duration = Duration::from_secs(90);

fn journal_of(cluster: &Cluster) -> PathBuf {
    cluster.federation.dir.path().join("told.jsonl")
}

fn lines_of(cluster: &Cluster) -> Lines {
    Writer::new(Box::new(File::create(journal_of(cluster)).unwrap()))
}

fn number(name: &str, default: u64) -> u64 {
    let text = std::env::var(name).ok();
    text.map_or(default, |text| text.parse().unwrap_or_else(|_| panic!("{name}={text}: a number")))
}

/// A complete run: load and faults together, then rest, then the audit.
async fn run(test: &str, shape: Shape, kills: u64) {
    let (seed, kills) = (number("COALLOC_SEED", 1), number("COALLOC_KILLS", kills));
    let disk = shape == Shape::One;
    println!(
        "{test}: seed {seed}, {kills} kills; again with\n  COALLOC_SEED={seed} COALLOC_KILLS={kills} \
         cargo test -p coalloc --test blackbox {test} -- --nocapture"
    );
    let mut cluster = Cluster::start(shape, seed, disk).await;
    let cores = std::thread::available_parallelism().unwrap().get() as f64;
    let rate = (LEAST_PER_MINUTE * cores * MARGIN / 60.0).ceil() as u32;
    let load = Soak { seed, rate, frames: 4, dialer: Dialer::plain_text() };
    let on = nemesis::Targets {
        names: cluster.names.clone(),
        links: cluster.links.len(),
        disk: cluster.disk.is_some(),
        partitions: shape == Shape::One,
    };
    let pauses = number("COALLOC_PAUSES", 2);
    let blows = nemesis::schedule(seed, &on, kills as usize, pauses as usize);
    let (over, until) = tokio::sync::oneshot::channel::<()>();
    let (entrances, lines) = (cluster.entrances(), lines_of(&cluster));
    let load = tokio::spawn(async move {
        let until = async { drop(until.await) };
        load.run(&entrances, lines, until).await
    });
    // This must run on this thread, because the daemons are tied to it.
    let mut nemesis = Nemesis::new(&mut cluster);
    nemesis.deal(&blows, kills as usize).await;
    let dealt = nemesis.dealt.clone();
    drop(over);
    let outcome = load.await.unwrap().unwrap();
    let heard = hear(&cluster.places(), REST).await.unwrap();
    let entries = journal::read(&journal_of(&cluster)).unwrap();
    let audit = judge(&heard, Some(&entries));
    let mixed = heard.coordinators.iter().flat_map(|one| &one.reservations);
    let mixed = mixed.filter(|one| {
        let refusal = one.refusal.as_ref();
        refusal.is_some_and(|refusal| refusal.reason() == coalloc_proto::v1::Reason::Mixed)
    });
    let mut links = relay::Counts::default();
    for link in &cluster.links {
        links.add(link.counts());
    }
    println!("{test}, seed {seed}: {dealt}\n{links:?}");
    println!("{}mixed outcomes recorded: {}", soak::describe(&outcome), mixed.count());
    println!("{}", audit.text());
    let panicked: Vec<&String> = cluster
        .names
        .iter()
        .filter(|name| cluster.federation.log(name).contains("panicked at"))
        .collect();
    let got = |kind, said| outcome.count(kind, said);
    let exercised = [
        got(Kind::Reserve, CallKnowledge::Confirmed),
        got(Kind::Modify, CallKnowledge::Changed),
        got(Kind::Release, CallKnowledge::Released),
    ];
    let ok = audit.holds() && panicked.is_empty();
    if !ok {
        cluster.federation.dir.disable_cleanup(true);
        println!("journal, ledgers and logs are in {}", cluster.federation.dir.path().display());
    }
    assert!(audit.holds(), "{}", audit.text());
    assert!(panicked.is_empty(), "panicked: {panicked:?}");
    let least = outcome.least_per_minute() / cores;
    assert!(
        least >= LEAST_PER_MINUTE,
        "this run is VOID: only {least:.0} co-allocations a minute and core were offered in its emptiest \
         window, {LEAST_PER_MINUTE} are needed; nothing is proven"
    );
    assert!(
        exercised.iter().all(|count| *count > 0),
        "this run is VOID: nothing was confirmed, changed or released: {exercised:?}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn one_coordinator() {
    run("one_coordinator", Shape::One, 60).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn two_coordinators_that_compete() {
    run("two_coordinators_that_compete", Shape::Rivals, 40).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_tree_of_coordinators() {
    run("a_tree_of_coordinators", Shape::Tree, 40).await;
}
