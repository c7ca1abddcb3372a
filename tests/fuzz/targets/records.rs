//! The disk: from JSON and from packed bytes to records and to a core's state, write-ahead logs, whole files.

use std::collections::BTreeMap;
use std::fs;
use std::sync::LazyLock;

use coalloc_common::{
    Amount, BootTime, CoordinatorName, Now, Reason, Refusal, RequestId, ReservationId, ResourceId,
    ResourceKind, RmName, Segment, Span, Time, TransactionId, UserName, Window,
};
use coalloc_ledger::{Identity, SqliteLedger};
use coalloc_protocol::conversation::{
    Caller, ConversationInput, Opening, PlanJob, PlanTarget, Planned,
};
use coalloc_protocol::coordinator::{
    Candidate, Coordinator, CoordinatorConfig, CoordinatorInput, MessageKind, Ticket,
};
use coalloc_protocol::message::{Answer, Delivery, HoldOrder, Token};
use coalloc_protocol::participant::{
    HoldPolicy, HoldQuotas, Participant, ParticipantConfig, ParticipantInput,
};
use coalloc_protocol::{Core, Log};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

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
        kinds: ResourceKind::Bandwidth.into(),
        resources: vec![(ResourceId::composed("N0-N1"), Amount(1_000))],
        coordinators: [grc()].into(),
        policy: HoldPolicy::default(),
        levels: coalloc_common::ServiceLevels::default(),
        quotas: HoldQuotas::default(),
        inside: None,
        servers: BTreeMap::new(),
    })
}

fn coordinator() -> Coordinator {
    let (name, tag) = (grc(), "1a2b3c4d".to_owned());
    Coordinator::new(CoordinatorConfig { name, tag, hold_for: None, forgets: None })
}

/// Every record that these inputs produce, as JSON.
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

pub(crate) fn of_participant() -> Vec<Value> {
    let txn = |name: &str| {
        let number = name.bytes().fold(0_u64, |number, byte| number << 8 | u64::from(byte));
        TransactionId::composed(format!("{}-t-{number}/1", grc()))
    };
    let order = |name: &str, replaces: Option<&str>| HoldOrder {
        txn: txn(name),
        coordinator: grc(),
        user: UserName::composed("UserA"),
        segments: vec![segment(0), segment(10_000)],
        hold_for: None,
        replaces: replaces.map(txn),
        keeps_old: false,
        one_way: false,
        servers: None,
        manual_provision: false,
    };
    let token = Token::new(1);
    let hold =
        |name, old| ParticipantInput::Hold { order: order(name, old), oldest_open: 0, token };
    let one_way = |name| {
        let order = HoldOrder { one_way: true, ..order(name, None) };
        ParticipantInput::Hold { order, oldest_open: 0, token }
    };
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
        (one_way("f"), at(5)),
        (abort("f"), at(5)),
        (one_way("g"), at(5)),
        (release("g"), at(5)),
        (hold("d", Some("a")), at(6)),
        (commit("d"), at(7)),
        (hold("e", None), at(8)),
        (ParticipantInput::Tick, at(2_000)),
        (release("d"), at(2_001)),
        (abort("never"), at(2_002)),
        (ParticipantInput::Start { boot: "b2".to_owned() }, at(2_003)),
    ];
    let all = lived(participant(), inputs);
    assert!(all.len() >= 19, "{all:?}");
    all
}

pub(crate) fn of_coordinator() -> Vec<Value> {
    let request = |name: &str| RequestId::composed(name);
    let ticket = |name: &str| Ticket {
        request: request(name),
        user: UserName::composed("UserA"),
        content: "c".to_owned(),
    };
    let rms = ["crm-A", "nrm-N"].map(RmName::composed);
    let candidate = || Candidate {
        segments: rms.iter().map(|rm| (rm.clone(), vec![segment(0)])).collect(),
        ..Candidate::default()
    };
    let mut inputs = vec![(CoordinatorInput::Start, at(0))];
    let open =
        |name: &str| ConversationInput::Open(Opening::Request(ticket(name), Token::new(1))).into();
    let reserve = |name: &str| {
        let job = PlanJob::first(PlanTarget::Request(request(name)));
        let outcome = Ok(vec![candidate(), candidate()]);
        let planned = Planned { outcome, replans: None, notes: "n".to_owned() };
        let caller = Caller::Request(Token::new(1));
        ConversationInput::Planned { job, planned, caller }.into()
    };
    let told = |rm: &RmName, txn: &str, kind, answer| CoordinatorInput::Delivered {
        rm: rm.clone(),
        txn: TransactionId::composed(txn),
        kind,
        delivery: Delivery::Answered(answer),
    };
    let held = || Answer::Held { expires_in: Span::from_secs(900), servers: Vec::new() };
    for name in ["r1", "r2"] {
        inputs.push((open(name), at(1)));
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
    let token = Token::new(1);
    inputs.push((CoordinatorInput::Release { reservation, token }, at(6)));
    for rm in &rms {
        inputs.push((told(rm, one, MessageKind::Release, Answer::Done), at(7)));
    }
    inputs.push((CoordinatorInput::Tick, at(500)));
    let all = lived(coordinator(), inputs);
    assert!(all.len() >= 9, "{all:?}");
    all
}

/// Replays a log as the ledger does, up to the first record that is refused, and then starts the node.
fn replay<'a, C: Core>(mut core: C, log: impl IntoIterator<Item = &'a str>, start: C::Input) -> bool
where
    C::Record: Serialize + DeserializeOwned + PartialEq + std::fmt::Debug,
{
    for text in log {
        let Ok(record) = serde_json::from_str::<C::Record>(text) else { return false };
        let again = serde_json::to_string(&record).unwrap();
        assert_eq!(serde_json::from_str::<C::Record>(&again).unwrap(), record);
        let packed = coalloc_ledger::pack(&record).unwrap();
        assert_eq!(coalloc_ledger::unpack::<C::Record>(&packed).unwrap(), record);
        if core.apply(&record).is_err() {
            return false;
        }
    }
    // A log that only looks sound may lead to an unsound state. The invariants must detect it; the steps
    // must not run into it. A coordinator has no alarms before it starts, and so goes no further while
    // anything is unfinished (I22).
    if core.check_invariants().is_ok() {
        let _ = core.step(start, at(10_000));
        let _ = core.step(C::tick(), at(20_000));
    }
    true
}

pub(crate) fn replay_participant<'a>(log: impl IntoIterator<Item = &'a str>) -> bool {
    replay(participant(), log, ParticipantInput::Start { boot: "b3".to_owned() })
}

pub(crate) fn replay_coordinator<'a>(log: impl IntoIterator<Item = &'a str>) -> bool {
    replay(coordinator(), log, CoordinatorInput::Start)
}

/// The log of a resource manager, one record per line.
pub(crate) fn records_of_resource_managers(bytes: &[u8]) -> bool {
    std::str::from_utf8(bytes).is_ok_and(|text| replay_participant(text.lines()))
}

/// The log of a coordinator, one record per line.
pub(crate) fn records_of_coordinators(bytes: &[u8]) -> bool {
    std::str::from_utf8(bytes).is_ok_and(|text| replay_coordinator(text.lines()))
}

const SUFFIXES: [&str; 3] = ["", "-wal", ".tip"];

/// The files that a crash has left, made once.
pub(crate) static CRASHED: LazyLock<[Vec<u8>; 3]> = LazyLock::new(crashed);

/// Makes the files of a ledger that a crash has left: main file, write-ahead log, tip.
fn crashed() -> [Vec<u8>; 3] {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("n.ledger");
    let node = Identity { kind: "nrm".to_owned(), name: "nrm-N".to_owned() };
    let id = || "0123456789abcdef0123456789abcdef".to_owned();
    let mut ledger = SqliteLedger::<Value>::open(&path, &node, id, |_, _| Ok(())).unwrap();
    for record in of_participant() {
        ledger.append(&[&record]).unwrap();
    }
    SUFFIXES.map(|suffix| fs::read(folder.path().join(format!("n.ledger{suffix}"))).unwrap())
}

/// Checks that looking at a ledger gives an answer and changes nothing, whatever the files contain.
pub(crate) fn look_at(files: &[Vec<u8>; 3]) -> bool {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("n.ledger");
    let paths = SUFFIXES.map(|suffix| folder.path().join(format!("n.ledger{suffix}")));
    for (path, bytes) in paths.iter().zip(files) {
        fs::write(path, bytes).unwrap();
    }
    let mut last = 0;
    let seen = coalloc_ledger::look::look(&path, |sequence, _, _| {
        last += 1;
        assert_eq!(sequence, last);
        Ok(())
    });
    if let Err(error) = &seen {
        assert!(error.to_string().contains("n.ledger"), "{error}");
    }
    for (path, bytes) in paths.iter().zip(files) {
        assert!(fs::read(path).unwrap() == *bytes, "{} has changed", path.display());
    }
    seen.is_ok()
}

/// One of the three files, overwritten.
///
/// The bytes give which file (1 byte), then places (3 bytes), how many bytes (1; 0: the file ends here),
/// and the bytes. The files are too long for a guided mutator; this way it sees what it changes.
pub(crate) fn ledgers(bytes: &[u8]) -> bool {
    let mut files = CRASHED.clone();
    if let Some((which, mut rest)) = bytes.split_first() {
        let file = &mut files[usize::from(*which) % 3];
        while let [low, middle, high, count, more @ ..] = rest
            && !file.is_empty()
        {
            let at = u32::from_le_bytes([*low, *middle, *high, 0]) as usize % file.len();
            let count = usize::from(*count).min(more.len());
            let written = count.min(file.len() - at);
            file[at..at + written].copy_from_slice(&more[..written]);
            if count == 0 {
                file.truncate(at);
            }
            rest = &more[count..];
        }
    }
    look_at(&files)
}

/// Write-ahead logs of SQLite, as far as we read them ourselves.
pub(crate) fn logs(bytes: &[u8]) -> bool {
    let end = coalloc_ledger::wal_end(&mut &bytes[..]).unwrap();
    if let Ok(Some(unfinished)) = &end {
        assert!(unfinished.bytes <= bytes.len() as u64);
    }
    end.is_ok()
}

/// The content of the tip file next to a ledger.
pub(crate) fn tips(bytes: &[u8]) -> bool {
    let tip = coalloc_ledger::tip::Tip::parse(bytes);
    if let Some(tip) = &tip {
        assert_eq!(tip.ledger_id.len(), 32);
    }
    tip.is_some()
}
