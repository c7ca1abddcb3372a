//! Several members and their store, whose answers are lost and whose leases end at any time.

use std::collections::BTreeMap;

use coalloc_etcd::EtcdError;
use rand::rngs::SmallRng;
use rand::{RngExt as _, SeedableRng as _};

use super::error::SharedLogError;
use super::log::{SharedLog, SharedLogId};
use super::twin::EtcdTwin;
use crate::body::OwnedBody;
use crate::identity::Identity;

const PREFIX: &str = "coalloc/grc";

fn id() -> String {
    "0123456789abcdef0123456789abcdef".to_owned()
}

fn bodies(text: &str, count: usize) -> Vec<OwnedBody> {
    let body = |number: usize| OwnedBody {
        record: format!("{text}.{number}").into_bytes(),
        causer: (number % 2 == 1).then(|| b"alice".to_vec()),
    };
    (0..count).map(body).collect()
}

/// Reads everything that a member does not know.
fn read_all(log: &mut SharedLog<EtcdTwin>) -> Result<Vec<OwnedBody>, SharedLogError> {
    let mut all = Vec::new();
    loop {
        let next = log.read_next()?;
        if next.is_empty() {
            return Ok(all);
        }
        all.extend(next);
    }
}

/// Opens the log, which is made if there is none.
fn open(store: EtcdTwin) -> SharedLog<EtcdTwin> {
    let node = Identity { kind: "grc".to_owned(), name: "grc".to_owned() };
    let made = SharedLog::create(store.observer(), PREFIX, &SharedLogId::new(id(), node));
    assert!(matches!(made, Ok(()) | Err(SharedLogError::Occupied { .. })));
    SharedLog::open(store, PREFIX).unwrap()
}

#[test]
fn what_one_member_appends_another_one_reads() {
    let mut store = EtcdTwin::new(1, 0);
    let (mut leader, mut follower) = (open(store.client()), open(store.client()));
    assert_eq!((&leader.id().chain, leader.epoch()), (&id(), None));
    assert!(matches!(leader.append(&bodies("a", 1)), Err(SharedLogError::NotLeading { .. })));
    assert!(leader.lead("one", 7).unwrap() && leader.lead("one", 7).unwrap());
    assert!(!follower.lead("two", 8).unwrap());
    assert_eq!(read_all(&mut leader).unwrap(), []);
    // The third is longer than one value may be.
    let batches =
        [bodies("a", 1), bodies("b", 300), bodies(&"c".repeat(900_000), 3), bodies("d", 2)];
    for batch in &batches {
        leader.append(batch).unwrap();
    }
    assert_eq!(read_all(&mut follower).unwrap(), batches.concat());
    assert_eq!(follower.tip(), leader.tip());
    assert_eq!(leader.tip().sequence, 306);
    // The records of the first two batches are durable everywhere, and go.
    for member in ["one", "two"] {
        leader.say_seen(member, 301).unwrap();
    }
    let members = ["one", "two", "three"].map(str::to_owned);
    assert_eq!(leader.seen_by_all(&members[..2]).unwrap(), 301);
    assert_eq!(leader.seen_by_all(&members).unwrap(), 0);
    leader.trim(301).unwrap();
    let mut late = open(store.client());
    assert!(matches!(late.read_next(), Err(SharedLogError::Trimmed { wanted: 1, .. })));
    let mut copied = open(store.client());
    let mut known = open(store.client());
    known.set_known(301, follower_hash(&batches[..2]));
    copied.set_known(301, [7; 32]);
    assert_eq!(read_all(&mut known).unwrap(), batches[2..].concat());
    assert!(matches!(read_all(&mut copied), Err(SharedLogError::Damaged { .. })));
    leader.trim(304).unwrap();
    assert_eq!(store.keys().iter().filter(|key| key.contains("chunk")).count(), 0);
}

fn follower_hash(batches: &[Vec<OwnedBody>]) -> crate::chain::Hash {
    let mut chain = crate::chain::Chain::new(&id());
    batches.concat().iter().for_each(|body| chain.append(body.as_body()));
    chain.tip
}

#[test]
fn who_has_lost_the_lead_appends_nothing() {
    let mut store = EtcdTwin::new(2, 0);
    let (mut old, mut new) = (open(store.client()), open(store.client()));
    assert!(old.lead("old", 1).unwrap());
    read_all(&mut old).unwrap();
    old.append(&bodies("a", 2)).unwrap();
    store.expire(b"coalloc/grc/leader");
    // Nobody leads.
    assert!(matches!(old.clone().append(&bodies("b", 1)), Err(SharedLogError::NotLeading { .. })));
    assert!(new.lead("new", 2).unwrap());
    // Somebody else leads, and has not appended yet.
    assert!(matches!(old.clone().append(&bodies("b", 1)), Err(SharedLogError::NotLeading { .. })));
    assert_eq!(read_all(&mut new).unwrap(), bodies("a", 2));
    new.append(&bodies("c", 1)).unwrap();
    assert!(matches!(old.clone().append(&bodies("b", 1)), Err(SharedLogError::NotLeading { .. })));
    assert_eq!(read_all(&mut open(store.client())).unwrap().len(), 3);
    // After a failure even the lead is of no use.
    let mut failed = new.clone();
    store.expire(b"coalloc/grc/leader");
    assert!(failed.append(&bodies("d", 1)).is_err());
    assert!(matches!(failed.lead("failed", 3), Err(SharedLogError::NotLeading { .. })));
}

#[test]
fn a_store_that_refuses_or_is_silent_for_long_ends_an_append() {
    let mut store = EtcdTwin::new(3, 0);
    let mut log = open(store.client());
    assert!(log.lead("one", 1).unwrap());
    read_all(&mut log).unwrap();
    store.set_faults(1_000);
    let error = log.append(&bodies("a", 1)).unwrap_err();
    assert!(matches!(&error, SharedLogError::Unknown { source: EtcdError::Unknown { .. }, .. }));
}

/// What became of the appends of one world: the records that were acknowledged, by their numbers, and those that some call has
/// tried to append.
fn world(seed: u64, compares_nothing: bool) -> Result<(usize, usize), String> {
    let mut store = EtcdTwin::new(seed, 250);
    if compares_nothing {
        store.compare_nothing();
    }
    let mut dice = SmallRng::seed_from_u64(seed ^ 0x5eed);
    let mut members: Vec<SharedLog<EtcdTwin>> = (0..3).map(|_| open(store.client())).collect();
    let (mut acknowledged, mut terms) = (BTreeMap::new(), 0);
    for step in 0..300 {
        let member = dice.random_range(0..members.len());
        if dice.random_range(0..20) == 0 {
            store.expire(b"coalloc/grc/leader");
        }
        let log = &mut members[member];
        if log.epoch().is_none() {
            let name = format!("{member}-{step}");
            if log.lead(&name, 1).map_err(|error| error.to_string())? {
                terms += 1;
                read_all(log).map_err(|error| error.to_string())?;
            }
            continue;
        }
        let batch = bodies(&format!("{step}"), dice.random_range(1..5));
        let before = log.tip().sequence;
        match log.append(&batch) {
            Ok(()) => {
                let numbered = (before + 1..).zip(batch);
                for (number, body) in numbered {
                    if acknowledged.insert(number, body).is_some() {
                        return Err(format!("record {number} was acknowledged twice"));
                    }
                }
            }
            Err(SharedLogError::NotLeading { .. }) => {
                // As a new process would: it forgets what it knows, and reads again from its own copy's end.
                members[member] = open(store.client());
                read_all(&mut members[member]).map_err(|error| error.to_string())?;
            }
            Err(error) => return Err(error.to_string()),
        }
    }
    store.set_faults(0);
    let log = read_all(&mut open(store.client())).map_err(|error| error.to_string())?;
    for (number, body) in &acknowledged {
        let index = usize::try_from(*number).unwrap() - 1;
        if log.get(index) != Some(body) {
            return Err(format!("record {number} was acknowledged and is not in the log"));
        }
    }
    let mut once = log.clone();
    once.sort_by(|a, b| a.record.cmp(&b.record));
    once.dedup();
    if once.len() != log.len() {
        return Err("a record is in the log twice".to_owned());
    }
    Ok((acknowledged.len(), terms))
}

#[test]
fn whatever_is_lost_late_or_led_by_two_the_log_is_one() {
    let (mut records, mut terms) = (0, 0);
    for seed in 0..400 {
        let (more_records, more_terms) =
            world(seed, false).unwrap_or_else(|why| panic!("seed {seed}: {why}"));
        records += more_records;
        terms += more_terms;
    }
    assert!(records > 20_000 && terms > 2_000, "{records} records in {terms} terms");
}

#[test]
fn a_store_that_compares_nothing_is_found_out() {
    let found = (0..20).filter(|seed| world(*seed, true).is_err()).count();
    assert!(found > 15, "{found} of 20");
}
