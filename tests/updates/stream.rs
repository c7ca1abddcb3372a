//! Snapshots, deltas, restarts, and a subscriber that does not read.

use coalloc_proto::v1;
use coalloc_protocol::update::UpdateKind;
use tonic::Code;

use crate::harness::Federation;
use crate::rm::{
    RESOURCES, Rm, Subscriber, abort, book, client_of, commit, configuration, hold, is_snapshot,
    order, release, truth, window,
};

const MAY: &str = "{coordinators: [grc]}";

async fn nrm_answers(federation: &Federation) {
    crate::harness::eventually("it answers", || async {
        let mut client = client_of(&federation.addresses["nrm"]);
        client.describe(v1::DescribeRequest {}).await.is_ok()
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_told_is_the_timetable_also_across_kill() {
    let mut federation = Federation::prepare();
    federation.write("nrm.yaml", &configuration(&federation.addresses["nrm"], MAY));
    federation.spawn("nrm");
    let mut client = client_of(&federation.addresses["nrm"]);
    nrm_answers(&federation).await;
    let mut subscriber = Subscriber::new();
    subscriber.watch(&mut client, None).await.unwrap();
    assert!(is_snapshot(&subscriber.next().await.unwrap()));
    // Holds, bookings of both kinds, ends of both kinds.
    for n in 0..30_i64 {
        let (resource, _) = RESOURCES[n as usize % 3];
        let txn = format!("t{n}");
        let order = order(&txn, resource, 40, window(n * 7, 100));
        match n % 5 {
            0 => book(&mut client, order).await,
            1 => drop(hold(&mut client, order).await),
            2 => {
                hold(&mut client, order).await;
                assert_eq!(commit(&mut client, &txn).await, None);
            }
            3 => {
                hold(&mut client, order).await;
                assert_eq!(abort(&mut client, &txn).await, None);
            }
            _ => {
                book(&mut client, order).await;
                release(&mut client, &txn).await;
            }
        }
    }
    let heard = subscriber.until_right(&mut client).await;
    assert!(
        heard.iter().all(|update| matches!(update.kind, UpdateKind::Delta { .. })),
        "{heard:?}"
    );
    assert_eq!(abort(&mut client, "t0").await, None, "one-way: Abort ends the booking");
    subscriber.until_right(&mut client).await;
    // The daemon is killed while the subscriber reads: the stream continues from where it was, without a
    // new snapshot.
    federation.kill("nrm");
    let error = loop {
        match subscriber.next().await {
            Ok(_) => {}
            Err(status) => break status,
        }
    };
    assert_ne!(error.code(), Code::Ok);
    let before = subscriber.cursor;
    federation.spawn("nrm");
    nrm_answers(&federation).await;
    book(&mut client, order("after", "A-B", 40, window(0, 50))).await;
    subscriber.watch(&mut client, None).await.unwrap();
    let heard = subscriber.until_right(&mut client).await;
    assert!(!heard.is_empty() && !heard.iter().any(is_snapshot), "{heard:?}");
    assert_eq!(subscriber.cursor.0, before.0, "the same epoch");
    assert!(subscriber.cursor.1 > before.1);
    // Another ledger has another epoch.
    federation.kill("nrm");
    for file in ["nrm.ledger", "nrm.ledger-wal", "nrm.ledger-shm", "nrm.ledger.tip"] {
        let _ = std::fs::remove_file(federation.dir.path().join(file));
    }
    federation.spawn("nrm");
    nrm_answers(&federation).await;
    subscriber.watch(&mut client, None).await.unwrap();
    assert!(is_snapshot(&subscriber.next().await.unwrap()));
    assert_ne!(subscriber.cursor.0, before.0);
    assert!(subscriber.believes(&truth(&mut client).await));
}

#[tokio::test(flavor = "multi_thread")]
async fn who_reads_nothing_for_long_gets_a_snapshot_and_is_right() {
    // The ring keeps so few changes that 2,000 changes are far beyond it.
    let rm = Rm::start(MAY, 64).await;
    let (mut client, mut narrow) = (rm.client(), rm.narrow_client());
    let mut subscriber = Subscriber::new();
    subscriber.watch(&mut narrow, None).await.unwrap();
    assert!(is_snapshot(&subscriber.next().await.unwrap()));
    // Many changes are made at once, so that the ledger syncs only a few times.
    let mut changes = 0;
    for round in 0..20_i64 {
        let booked = (0..50_i64).map(|n| {
            let mut client = client.clone();
            async move {
                let (txn, resource) = (format!("t{round}-{n}"), RESOURCES[n as usize % 3].0);
                book(&mut client, order(&txn, resource, 1, window(n * 11 + round, 400))).await;
                if n % 10 != round % 10 {
                    release(&mut client, &txn).await;
                }
            }
        });
        let all: Vec<_> = booked.map(tokio::spawn).collect();
        changes += all.len();
        for one in all {
            one.await.unwrap();
        }
    }
    assert_eq!(changes, 1_000);
    let heard = subscriber.until_right(&mut client).await;
    assert!(heard.iter().any(is_snapshot), "it fell off the ring");
    // Updates that were in transit are older; missed changes are not sent one by one.
    assert!(heard.len() < 900, "{} updates for 1,900 changes", heard.len());
    // After that, the subscriber continues like any other.
    book(&mut client, order("after", "A-B", 1, window(0, 50))).await;
    let heard = subscriber.until_right(&mut client).await;
    assert!(!heard.is_empty() && !heard.iter().any(is_snapshot), "{heard:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cursor_of_elsewhere_gets_a_snapshot_and_one_of_here_goes_on_after_a_restart() {
    let mut rm = Rm::start(MAY, 64).await;
    let mut client = rm.client();
    book(&mut client, order("one", "A-B", 7, window(0, 50))).await;
    let mut subscriber = Subscriber::new();
    subscriber.watch(&mut client, None).await.unwrap();
    subscriber.until_right(&mut client).await;
    let cursor = subscriber.cursor;
    // A position in the future of this ledger, and a position in an unknown epoch.
    for strange in [(cursor.0, cursor.1 + 1_000), (cursor.0 ^ 1, cursor.1)] {
        let mut other = Subscriber::new();
        other.cursor = strange;
        other.watch(&mut client, None).await.unwrap();
        // The position that it sent was made up.
        other.cursor = (0, 0);
        let first = other.next().await;
        assert!(is_snapshot(&first.unwrap()), "{strange:?}");
    }
    // Ledger and inventory are the same: a restart is no reason for another epoch, and the first message is
    // a sign of life.
    rm.restart(MAY, 64).await;
    let mut client = rm.client();
    subscriber.watch(&mut client, None).await.unwrap();
    let first = subscriber.next().await.unwrap();
    assert!(!is_snapshot(&first) && first.parts.is_empty(), "{first:?}");
    assert_eq!(subscriber.cursor.0, cursor.0);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_to_hold_brings_facts_to_those_who_may_watch() {
    let rm = Rm::start(MAY, 64).await;
    let mut client = rm.client();
    let free = |answer: &v1::HoldResponse| -> Vec<Vec<u64>> {
        let fresh = answer.fresh.clone().expect("facts");
        assert_eq!(fresh.kind(), v1::ProfileUpdateKind::Facts);
        fresh.parts.into_iter().map(|part| part.free).collect()
    };
    let yes = hold(&mut client, order("a", "A-B", 600, window(10, 50))).await;
    assert_eq!(free(&yes), [vec![400]]);
    // A refusal shows what is free: half of the window has less than the request needs.
    let no = hold(&mut client, order("b", "A-B", 600, window(40, 50))).await;
    assert!(matches!(no.answer, Some(v1::hold_response::Answer::Refused(_))), "{no:?}");
    assert_eq!(free(&no), [vec![400, 1_000]]);
    let mut other = order("c", "A-B", 1, window(40, 50));
    other.coordinator = "other".to_owned();
    assert_eq!(hold(&mut client, other).await.fresh, None);
    // These amounts correct a picture that has not received the booking.
    let mut subscriber = Subscriber::new();
    let hour = coalloc_proto::Duration { seconds: 3_600, nanos: 0 };
    let policy = v1::UpdatePolicy {
        strategy: v1::UpdateStrategy::Periodic.into(),
        period: Some(hour),
        ..Default::default()
    };
    subscriber.watch(&mut client, Some(policy)).await.unwrap();
    subscriber.until_right(&mut client).await;
    let yes = hold(&mut client, order("d", "A-C:ab", 500, window(0, 50))).await;
    let fresh = coalloc_net::convert::update_from_wire("fresh", &yes.fresh.unwrap()).unwrap();
    assert!(!subscriber.believes(&truth(&mut client).await));
    subscriber.picture.merge(&crate::rm::rm_name(), &fresh, crate::rm::now()).unwrap();
    assert!(subscriber.believes(&truth(&mut client).await));
}
