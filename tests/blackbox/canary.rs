//! The harness must report what is wrong: faults planted in a journal or at a resource manager are found.

use coalloc_cli::testbed::audit::journal::{self, CallKnowledge};
use coalloc_cli::testbed::audit::{Audit, hear, judge};
use coalloc_cli::testbed::soak::Soak;
use coalloc_net::client::Dialer;
use coalloc_proto::v1;

use crate::cluster::{Cluster, Shape};
use crate::harness::PATIENCE;
use crate::{journal_of, lines_of};

async fn audit(cluster: &Cluster, entries: &[journal::Entry]) -> Audit {
    let heard = hear(&cluster.places(), PATIENCE).await.unwrap();
    judge(&heard, Some(entries))
}

fn invariants(audit: &Audit) -> Vec<&str> {
    let mut all: Vec<&str> = audit.violations().map(|one| one.invariant).collect();
    all.sort_unstable();
    all.dedup();
    all
}

async fn hold(cluster: &Cluster, manager: &str, transaction: &str, resource: &str) {
    let mut client = client(cluster, manager);
    let at = |s| Some(crate::harness::seconds_from_now(s));
    let request = v1::HoldRequest {
        transaction: transaction.to_owned(),
        coordinator: "grc".to_owned(),
        segments: vec![v1::Segment {
            resource: resource.to_owned(),
            amount: 1,
            window: Some(v1::Window { start: at(3_600), end: at(7_200) }),
            ..Default::default()
        }],
        hold_for: Some(coalloc_proto::Duration { seconds: 900, nanos: 0 }),
        ..Default::default()
    };
    let answer = client.hold(request).await.unwrap().into_inner().answer;
    assert!(matches!(answer, Some(v1::hold_response::Answer::Held(_))), "{answer:?}");
}

fn client(cluster: &Cluster, manager: &str) -> coalloc_cli::kit::rpc::ResourceManager {
    coalloc_cli::kit::rpc::resource_manager(
        &Dialer::plain_text(),
        &cluster.federation.addresses[manager],
    )
    .unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_planted_is_found() {
    let mut cluster = Cluster::start(Shape::One, 1, false).await;
    cluster.links.iter().for_each(|link| link.heal());
    let soak = Soak { seed: 1, rate: 20, frames: 4, dialer: Dialer::plain_text() };
    let until = tokio::time::sleep(std::time::Duration::from_secs(3));
    soak.run(&cluster.entrances(), lines_of(&cluster), until).await.unwrap();
    let entries = journal::read(&journal_of(&cluster)).unwrap();
    let clean = audit(&cluster, &entries).await;
    assert!(clean.holds(), "nothing is planted yet:\n{}", clean.text());

    // A client was told something else than the daemons have.
    let last = |at: usize| entries.iter().rposition(|entry| entry.request == entries[at].request);
    let stands =
        |at: &usize| entries[*at].said == CallKnowledge::Confirmed && last(*at) == Some(*at);
    let told = (0..entries.len()).find(stands).expect("something was confirmed and left alone");
    let mut doctored = entries.clone();
    doctored[told].segments[0].amount += 1;
    doctored.truncate(told + 1);
    let found = audit(&cluster, &doctored).await;
    assert!(invariants(&found).contains(&"I6"), "{}", found.text());
    let mut doctored = entries.clone();
    doctored[told].said = CallKnowledge::Refused;
    assert!(!audit(&cluster, &doctored).await.holds());

    // One transaction is booked at one resource manager and aborted at another.
    hold(&cluster, "crm-A", "grc-t-1/1", "A").await;
    let (transaction, coordinator) = ("grc-t-1/1".to_owned(), "grc".to_owned());
    let abort = v1::AbortRequest {
        transaction: transaction.clone(),
        coordinator: coordinator.clone(),
        ..Default::default()
    };
    client(&cluster, "crm-B").abort(abort).await.unwrap();
    let commit = v1::CommitRequest { transaction, coordinator, ..Default::default() };
    client(&cluster, "crm-A").commit(commit).await.unwrap();
    let half = audit(&cluster, &entries).await;
    assert_eq!(invariants(&half), ["I5", "I6"], "{}", half.text());

    // A ledger is lost: what was confirmed is no longer booked there.
    cluster.federation.kill("crm-B");
    for file in std::fs::read_dir(cluster.federation.dir.path()).unwrap() {
        let path = file.unwrap().path();
        if path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("crm-B.ledger")) {
            std::fs::remove_file(path).unwrap();
        }
    }
    cluster.spawn("crm-B");
    cluster.complete().await;
    let lost = audit(&cluster, &entries).await;
    let at_b = lost.violations().filter(|one| one.manager == "crm-B" && one.invariant == "I6");
    assert!(at_b.count() > 0, "{}", lost.text());
}
