//! The client and real etcd members. Without etcd on the machine, the tests are skipped; with `COALLOC_ETCD=1`, they fail.

#![allow(clippy::unwrap_used, reason = "tests")]

mod cluster;

use std::time::{Duration, Instant};

use coalloc_etcd::{Change, Condition, Etcd, EtcdError, Outcome, Transaction};

use crate::cluster::Cluster;

fn put(key: &str, value: &str) -> Change {
    Change::Put { key: key.into(), value: value.into(), lease: None }
}

fn is(key: &str, value: &str) -> Condition {
    Condition::Value { key: key.into(), value: value.into() }
}

async fn value(etcd: &Etcd, key: &str) -> Option<String> {
    let found = etcd.get(key.as_bytes()).await.unwrap();
    found.map(|found| String::from_utf8(found.value).unwrap())
}

/// The revision of a transaction that must be done.
fn done(outcome: Outcome) -> i64 {
    match outcome {
        Outcome::Done { revision } => revision,
        Outcome::NotDone { found } => panic!("not done: {found:?}"),
    }
}

#[tokio::test]
async fn a_transaction_is_done_only_if_its_conditions_hold() {
    let Some(cluster) = Cluster::start(1).await else { return };
    let etcd = cluster.client();
    let absent = Condition::Absent { key: "tip".into() };
    let first = Transaction {
        conditions: vec![absent.clone()],
        changes: vec![put("tip", "1"), put("log/1", "a")],
        otherwise: vec!["tip".into(), "leader".into()],
    };
    let made_at = done(etcd.transact(first.clone()).await.unwrap());
    // The same again finds the key, and says what it has.
    let Outcome::NotDone { found } = etcd.transact(first.clone()).await.unwrap() else { panic!() };
    let [Some(tip), None] = &found[..] else { panic!("{found:?}") };
    assert_eq!((&tip.value[..], tip.made_at), (&b"1"[..], made_at));
    let next = |conditions| Transaction {
        conditions,
        changes: vec![put("tip", "2"), put("log/2", "b")],
        otherwise: vec![],
    };
    let wrong_value = vec![is("tip", "0")];
    let wrong_revision =
        vec![is("tip", "1"), Condition::MadeAt { key: "tip".into(), revision: made_at + 1 }];
    for conditions in [wrong_value, wrong_revision, vec![is("tip", "1"), absent]] {
        let outcome = etcd.transact(next(conditions)).await.unwrap();
        assert_eq!(outcome, Outcome::NotDone { found: vec![] });
        assert_eq!(value(&etcd, "log/2").await, None, "all or nothing");
    }
    let right = vec![is("tip", "1"), Condition::MadeAt { key: "tip".into(), revision: made_at }];
    assert!(done(etcd.transact(next(right)).await.unwrap()) > made_at);
    assert_eq!(value(&etcd, "tip").await.as_deref(), Some("2"));
    assert_eq!(value(&etcd, "log/2").await.as_deref(), Some("b"));
    let status = etcd.status().await.unwrap();
    assert!(status.version.starts_with("3.") && status.has_leader, "{status:?}");
    assert!(status.bytes_in_use > 0, "{status:?}");
}

#[tokio::test]
async fn ranges_are_read_in_pages() {
    let Some(cluster) = Cluster::start(1).await else { return };
    let etcd = cluster.client();
    let changes = (0..100).map(|number| put(&format!("log/{number:03}"), "x")).collect();
    let all = Transaction { changes, ..Transaction::default() };
    done(etcd.transact(all).await.unwrap());
    let (mut from, mut seen) = (b"log/".to_vec(), 0);
    loop {
        let page = etcd.page(&from, b"log0", 30).await.unwrap();
        seen += page.keys.len();
        let Some(last) = page.keys.last() else { panic!("an empty page") };
        from = [&last.key[..], &[0]].concat();
        if !page.more {
            break;
        }
    }
    assert_eq!(seen, 100);
    let delete = Change::Delete { from: "log/000".into(), until: "log/050".into() };
    done(
        etcd.transact(Transaction { changes: vec![delete], ..Transaction::default() })
            .await
            .unwrap(),
    );
    assert_eq!(etcd.page(b"log/", b"log0", 200).await.unwrap().keys.len(), 50);
}

#[tokio::test]
async fn what_has_a_lease_is_gone_when_the_lease_is() {
    let Some(cluster) = Cluster::start(1).await else { return };
    let etcd = cluster.client();
    let lead = async |seconds| {
        let lease = etcd.grant(seconds).await.unwrap();
        assert!(lease.lasts >= Duration::from_secs(seconds.into()));
        let leader = Change::Put { key: "leader".into(), value: "a".into(), lease: Some(lease.id) };
        let absent = Condition::Absent { key: "leader".into() };
        let conditions = vec![absent];
        let transaction =
            Transaction { conditions, changes: vec![leader], ..Transaction::default() };
        done(etcd.transact(transaction).await.unwrap());
        lease
    };
    let long = lead(60).await;
    assert!(etcd.renew(long.id).await.unwrap().is_some());
    etcd.revoke(long.id).await.unwrap();
    assert_eq!(value(&etcd, "leader").await, None);
    assert_eq!(etcd.renew(long.id).await.unwrap(), None);
    assert!(matches!(etcd.revoke(long.id).await, Err(EtcdError::Refused { .. })));
    let short = lead(1).await;
    let begun = Instant::now();
    while value(&etcd, "leader").await.is_some() {
        assert!(begun.elapsed() < Duration::from_secs(30), "the lease does not end");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    assert_eq!(etcd.renew(short.id).await.unwrap(), None);
}

#[tokio::test]
async fn what_is_too_large_is_refused_and_nothing_is_done() {
    let Some(cluster) = Cluster::start(1).await else { return };
    let etcd = cluster.client();
    for (bytes, fits) in [(1_400_000, true), (1_700_000, false)] {
        let changes = vec![put("batch", &"x".repeat(bytes)), put("tip", &bytes.to_string())];
        let outcome = etcd.transact(Transaction { changes, ..Transaction::default() }).await;
        match outcome {
            Ok(outcome) => assert!(fits && done(outcome) > 0),
            Err(error) => assert!(!fits && !error.is_unknown(), "{error}"),
        }
    }
    assert_eq!(value(&etcd, "tip").await.as_deref(), Some("1400000"));
    assert_eq!(etcd.get(b"batch").await.unwrap().unwrap().value.len(), 1_400_000);
}

#[tokio::test]
async fn nobody_answers_where_nobody_is() {
    let Some(mut cluster) = Cluster::start(1).await else { return };
    let etcd = cluster.client();
    cluster.kill(0);
    let error = etcd.get(b"tip").await.unwrap_err();
    assert!(error.is_unknown() && error.to_string().contains("http://127.0.0.1"), "{error}");
    cluster.restart(0);
    let begun = Instant::now();
    while etcd.get(b"tip").await.is_err() {
        assert!(begun.elapsed() < Duration::from_secs(30), "it does not come back");
    }
}

/// A log as a ledger keeps it there: every entry compares the tip. Members are killed and started again meanwhile.
#[tokio::test]
async fn a_compared_tip_leaves_no_hole_and_no_double_whoever_is_killed() {
    const ENTRIES: u64 = 400;
    let Some(mut cluster) = Cluster::start(3).await else { return };
    let etcd = cluster.client();
    let start = Transaction { changes: vec![put("tip", "0")], ..Transaction::default() };
    done(etcd.transact(start).await.unwrap());
    let (mut tip, mut unknown, mut landed) = (0, 0, 0);
    while tip < ENTRIES {
        match tip {
            100 => cluster.kill(0),
            200 => cluster.restart(0),
            250 => cluster.kill(1),
            300 => cluster.restart(1),
            _ => {}
        }
        let before = tip;
        while tip == before {
            let next = tip + 1;
            let append = Transaction {
                conditions: vec![is("tip", &tip.to_string())],
                changes: vec![
                    put("tip", &next.to_string()),
                    put(&format!("log/{next:06}"), &next.to_string()),
                ],
                otherwise: vec!["tip".into()],
            };
            match etcd.transact(append).await {
                Ok(Outcome::Done { .. }) => tip = next,
                // The one whose answer was lost has landed after the tip was read.
                Ok(Outcome::NotDone { found }) => {
                    let found = found.into_iter().next().flatten().unwrap();
                    assert_eq!(found.value, next.to_string().into_bytes());
                    landed += 1;
                    tip = next;
                }
                Err(error) => {
                    assert!(error.is_unknown(), "{error}");
                    unknown += 1;
                    // Only the tip says whether it has landed. As long as nobody leads, nobody answers.
                    let now = loop {
                        match etcd.get(b"tip").await {
                            Ok(now) => break String::from_utf8(now.unwrap().value).unwrap(),
                            Err(error) => assert!(error.is_unknown(), "{error}"),
                        }
                    };
                    let now: u64 = now.parse().unwrap();
                    assert!(now == tip || now == next, "{now} after {tip}");
                    landed += u64::from(now == next);
                    tip = now;
                }
            }
        }
    }
    let log = etcd.page(b"log/", b"log0", 1_000).await.unwrap();
    let numbers: Vec<u64> =
        log.keys.iter().map(|key| String::from_utf8_lossy(&key.value).parse().unwrap()).collect();
    assert_eq!(numbers, (1..=ENTRIES).collect::<Vec<_>>());
    eprintln!("{unknown} unknown outcomes, of which {landed} had landed");
}
