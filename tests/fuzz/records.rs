//! The disk: records as JSON to records to a core's state, write-ahead logs, whole files.

use std::collections::BTreeMap;
use std::fs;

use coalloc_common::{
    Amount, BootTime, CoordinatorName, Now, Reason, Refusal, RequestId, ReservationId, ResourceId,
    RmName, Segment, Span, Time, TransactionId, Unit, UserName, Window,
};
use coalloc_ledger::{Identity, SqliteLedger};
use coalloc_protocol::coordinator::{
    Candidate, Coordinator, CoordinatorConfig, CoordinatorInput, CoordinatorRecord, Details,
    MessageKind, Ticket,
};
use coalloc_protocol::message::{Answer, Delivery, HoldOrder, Token};
use coalloc_protocol::participant::{
    HoldPolicy, Participant, ParticipantConfig, ParticipantInput, ParticipantRecord,
};
use coalloc_protocol::{Core, Log};
use rand::RngExt as _;
use rand_chacha::ChaCha8Rng;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::{fuzz, mutate};

fn at(seconds: i64) -> Now {
    Now {
        wall: Time::from_us(1_795_219_200_000_000 + seconds * 1_000_000),
        boot: BootTime::from_us(seconds * 1_000_000),
    }
}

fn grc() -> CoordinatorName {
    CoordinatorName::composed("grc")
}

fn segment(from: i64) -> Segment {
    let window = Window::new(at(600 + from).wall, at(4_200 + from).wall).unwrap();
    Segment { resource: ResourceId::composed("N0-N1"), amount: Amount(400), window }
}

fn participant() -> Participant {
    Participant::new(ParticipantConfig {
        name: RmName::composed("nrm-N"),
        unit: Unit::BitsPerSecond,
        resources: vec![(ResourceId::composed("N0-N1"), Amount(1_000))],
        coordinators: [grc()].into(),
        policy: HoldPolicy::default(),
        levels: BTreeMap::new(),
        inside: None,
    })
}

fn coordinator() -> Coordinator {
    let (name, tag) = (grc(), "1a2b3c4d".to_owned());
    Coordinator::new(CoordinatorConfig { name, tag, hold_for: None })
}

/// Every record that these inputs make, as JSON.
fn lived<C: Core>(mut core: C, inputs: Vec<(C::Input, Now)>) -> Vec<Value>
where
    C::Record: Serialize,
{
    let mut all = Vec::new();
    for (input, now) in inputs {
        let step = core.step(input, now);
        all.extend(step.records().iter().map(|record| serde_json::to_value(record).unwrap()));
    }
    all
}

fn of_participant() -> Vec<Value> {
    let txn = |name: &str| TransactionId::composed(name);
    let order = |name: &str, replaces: Option<&str>| HoldOrder {
        txn: txn(name),
        coordinator: grc(),
        user: UserName::composed("UserA"),
        segments: vec![segment(0), segment(10_000)],
        hold_for: None,
        replaces: replaces.map(txn),
    };
    let token = Token(1);
    let hold = |name, old| ParticipantInput::Hold { order: order(name, old), token };
    let commit = |name| ParticipantInput::Commit { txn: txn(name), by: grc(), token };
    let abort = |name| ParticipantInput::Abort { txn: txn(name), by: grc(), token };
    let release = |name| ParticipantInput::Release { txn: txn(name), by: grc(), token };
    let inputs = vec![
        (ParticipantInput::Start { boot: "b".to_owned() }, at(0)),
        (hold("a", None), at(1)),
        (commit("a"), at(2)),
        (hold("b", None), at(3)),
        (hold("c", None), at(4)),
        (abort("b"), at(5)),
        (hold("d", Some("a")), at(6)),
        (commit("d"), at(7)),
        (hold("e", None), at(8)),
        (ParticipantInput::Tick, at(2_000)),
        (release("d"), at(2_001)),
        (abort("never"), at(2_002)),
        (ParticipantInput::Start { boot: "b2".to_owned() }, at(2_003)),
    ];
    let all = lived(participant(), inputs);
    assert!(all.len() >= 13, "{all:?}");
    all
}

fn of_coordinator() -> Vec<Value> {
    let token = Token(1);
    let request = |name: &str| RequestId::composed(name);
    let ticket = |name: &str| Ticket {
        request: request(name),
        user: UserName::composed("UserA"),
        content: "c".to_owned(),
    };
    let rms = ["crm-A", "nrm-N"].map(RmName::composed);
    let candidate = || Candidate {
        segments: rms.iter().map(|rm| (rm.clone(), vec![segment(0)])).collect(),
        order: Vec::new(),
        details: Details::default(),
    };
    let mut inputs = vec![(CoordinatorInput::Start, at(0))];
    let reserve = |name: &str| CoordinatorInput::Reserve {
        request: request(name),
        candidates: vec![candidate(), candidate()],
        notes: "n".to_owned(),
        token,
    };
    let told = |rm: &RmName, txn: &str, kind, answer| CoordinatorInput::Delivered {
        rm: rm.clone(),
        txn: TransactionId::composed(txn),
        kind,
        delivery: Delivery::Answered(answer),
    };
    let held = || Answer::Held { expires_in: Span::from_secs(900) };
    for name in ["r1", "r2"] {
        inputs.push((CoordinatorInput::Open { ticket: ticket(name), token }, at(1)));
        inputs.push((reserve(name), at(2)));
    }
    let one = "grc-1a2b3c4d-1/1";
    for rm in &rms {
        inputs.push((told(rm, one, MessageKind::Hold, held()), at(3)));
    }
    for rm in &rms {
        inputs.push((told(rm, one, MessageKind::Commit, Answer::Done), at(4)));
    }
    let no = Answer::Refused(Refusal::new(Reason::UnknownResource, "no"));
    inputs.push((told(&rms[0], "grc-1a2b3c4d-2/1", MessageKind::Hold, no), at(5)));
    let reservation = ReservationId::composed("grc-1a2b3c4d-1");
    inputs.push((CoordinatorInput::Release { reservation, token }, at(6)));
    for rm in &rms {
        inputs.push((told(rm, one, MessageKind::Release, Answer::Done), at(7)));
    }
    inputs.push((CoordinatorInput::Tick, at(500)));
    let all = lived(coordinator(), inputs);
    assert!(all.len() >= 9, "{all:?}");
    all
}

/// A log in which records are changed, left out, doubled and in another order, one record as text broken.
fn spoil(rng: &mut ChaCha8Rng, sound: &[Value]) -> Vec<String> {
    let mut log = sound.to_vec();
    for _ in 0..rng.random_range(0..4) {
        let at = rng.random_range(0..log.len());
        match rng.random_range(0..6) {
            0 if log.len() > 1 => drop(log.remove(at)),
            1 => log.insert(at, log[at].clone()),
            2 => log.swap(at, 0),
            _ => mutate::json(rng, &mut log[at]),
        }
    }
    let mut texts: Vec<String> = log.iter().map(Value::to_string).collect();
    if rng.random_ratio(1, 4) {
        let at = rng.random_range(0..texts.len());
        texts[at] = mutate::text(rng, &texts[at]);
    }
    texts
}

/// Replays a log as the ledger does, up to the first record that is refused; then the node would start.
fn replay<C: Core>(mut core: C, log: &[String], start: C::Input)
where
    C::Record: Serialize + DeserializeOwned + PartialEq + std::fmt::Debug,
{
    for text in log {
        let Ok(record) = serde_json::from_str::<C::Record>(text) else { return };
        let again = serde_json::to_string(&record).unwrap();
        assert_eq!(serde_json::from_str::<C::Record>(&again).unwrap(), record);
        if core.apply(&record).is_err() {
            return;
        }
    }
    // A log that only looks sound may end in a state that is not; it must be told, not met.
    if core.check_invariants().is_ok() {
        let _ = core.step(start, at(10_000));
        let _ = core.step(C::tick(), at(20_000));
    }
}

#[test]
fn records_of_resource_managers() {
    let sound = of_participant();
    fuzz("records_of_resource_managers", |rng| {
        let start = ParticipantInput::Start { boot: "b3".to_owned() };
        replay(participant(), &spoil(rng, &sound), start);
    });
    check_seed::<ParticipantRecord>(&sound);
}

#[test]
fn records_of_coordinators() {
    let sound = of_coordinator();
    fuzz("records_of_coordinators", |rng| {
        replay(coordinator(), &spoil(rng, &sound), CoordinatorInput::Start);
    });
    check_seed::<CoordinatorRecord>(&sound);
}

fn check_seed<R: DeserializeOwned>(sound: &[Value]) {
    for record in sound {
        serde_json::from_value::<R>(record.clone()).unwrap();
    }
}

/// Files of a ledger that a crash has left: main file, write-ahead log, tip.
fn crashed(folder: &std::path::Path) -> [(&'static str, Vec<u8>); 3] {
    let path = folder.join("n.ledger");
    let node = Identity { kind: "nrm".to_owned(), name: "nrm-N".to_owned() };
    let id = || "0123456789abcdef0123456789abcdef".to_owned();
    let mut ledger = SqliteLedger::<Value>::open(&path, &node, id, |_, _| Ok(())).unwrap();
    for record in of_participant() {
        ledger.append(&[&record]).unwrap();
    }
    let file = |suffix: &'static str| {
        (suffix, fs::read(folder.join(format!("n.ledger{suffix}"))).unwrap())
    };
    ["", "-wal", ".tip"].map(file)
}

/// Whatever the files are: an answer, and nothing changed by the look.
#[test]
fn ledgers() {
    let folder = tempfile::tempdir().unwrap();
    let sound = crashed(folder.path());
    let place = tempfile::tempdir().unwrap();
    let path = place.path().join("n.ledger");
    fuzz("ledgers", |rng| {
        let spoiled = rng.random_range(0..3);
        for (at, (suffix, bytes)) in sound.iter().enumerate() {
            // Of the main file the first pages and the last say something; the others are room.
            let bytes = match at == spoiled {
                true => mutate::bytes(rng, bytes),
                false => bytes.clone(),
            };
            fs::write(place.path().join(format!("n.ledger{suffix}")), bytes).unwrap();
        }
        let _ = fs::remove_file(place.path().join("n.ledger-shm"));
        let mut last = 0;
        let seen = coalloc_ledger::look::look(&path, |sequence, _, _| {
            last += 1;
            assert_eq!(sequence, last);
            Ok(())
        });
        if let Err(error) = seen {
            assert!(error.to_string().contains("n.ledger"), "{error}");
        }
    });
}

#[test]
fn logs() {
    let folder = tempfile::tempdir().unwrap();
    let [_, (_, wal), (_, tip)] = crashed(folder.path());
    fuzz("logs", |rng| {
        let bytes = mutate::bytes(rng, &wal);
        let end = coalloc_ledger::wal_end(&mut &bytes[..]).unwrap();
        if let Ok(Some(unfinished)) = end {
            assert!(unfinished.bytes <= bytes.len() as u64);
        }
        let place = mutate::bytes(rng, &tip[..256]);
        if let Some(tip) = coalloc_ledger::tip::Tip::parse(&place) {
            assert_eq!(tip.ledger_id.len(), 32);
        }
    });
}
