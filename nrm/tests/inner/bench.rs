//! A ring with an inner network, and the calls that tests make on its participant.

use super::*;

/// A ring of four switches with links of 10 units each, and an end point at every switch. There are two
/// routes between any two of them.
pub(crate) fn ring(may_move: bool) -> (Vec<v1::Path>, v1::InnerNetwork) {
    let link = |name: &str, a: &str, b: &str, capacity_bps| v1::InnerLink {
        name: name.to_owned(),
        a: a.to_owned(),
        b: b.to_owned(),
        capacity_bps,
        latency: None,
    };
    let mut links = Vec::new();
    for (n, next) in [(0, 1), (1, 2), (2, 3), (3, 0)] {
        links.push(link(&format!("ring{n}"), &format!("s{n}"), &format!("s{next}"), 10));
        links.push(link(&format!("port{n}"), &format!("p{n}"), &format!("s{n}"), 20));
    }
    let path = |a: i32, b: i32| v1::Path {
        name: format!("p{a}-p{b}"),
        a: format!("p{a}"),
        b: format!("p{b}"),
        capacity_bps: 10,
        ..v1::Path::default()
    };
    let paths = vec![path(0, 1), path(0, 2), path(1, 2), path(1, 3)];
    (paths, v1::InnerNetwork { links, may_move, max_links_per_path: None })
}

pub(crate) fn participant(paths: &[v1::Path], inner: Option<&v1::InnerNetwork>) -> Participant {
    let inside = inner.map(|inner| {
        Arc::new(Network::new(inner_network("inventory", paths, inner).unwrap())) as _
    });
    let resource = |path: &v1::Path| (ResourceId::composed(&*path.name), Amount(path.capacity_bps));
    Participant::new(ParticipantConfig {
        name: RmName::composed("nrm"),
        resources: paths.iter().map(resource).collect(),
        kinds: ResourceKind::Bandwidth.into(),
        coordinators: [CoordinatorName::composed("grc")].into(),
        policy: HoldPolicy::default(),
        // A user in no level gets the smallest share.
        levels: coalloc_common::ServiceLevels::of_users(
            [("half", 50), ("UserA", 100), ("u", 100)]
                .map(|(user, percent)| (UserName::composed(user), percent))
                .into(),
        ),
        quotas: coalloc_protocol::participant::HoldQuotas::default(),
        inside,
        servers: BTreeMap::new(),
    })
}

pub(crate) fn started(may_move: bool) -> Participant {
    let (paths, inner) = ring(may_move);
    let mut participant = participant(&paths, Some(&inner));
    let _ = participant.step(ParticipantInput::Start { boot: "first".into() }, at(0));
    participant
}

pub(crate) fn at(s: i64) -> Now {
    let wall = Time::from_us(1_000_000_000_000 + s * 1_000_000);
    Now { wall, boot: BootTime::from_us(s * 1_000_000) }
}

pub(crate) fn window(start_s: i64, end_s: i64) -> Window {
    Window::new(at(start_s).wall, at(end_s).wall).unwrap()
}

pub(crate) fn txn(n: usize) -> TransactionId {
    TransactionId::composed(format!("grc-t-{n}/1"))
}

pub(crate) fn order(n: usize, segments: &[(&str, u64, Window)]) -> HoldOrder {
    let segment = |&(path, amount, window): &(&str, u64, Window)| Segment {
        resource: ResourceId::composed(path),
        amount: Amount(amount),
        window,
    };
    HoldOrder {
        txn: txn(n),
        coordinator: CoordinatorName::composed("grc"),
        user: UserName::composed("UserA"),
        segments: segments.iter().map(segment).collect(),
        hold_for: None,
        replaces: None,
        keeps_old: false,
        one_way: false,
        servers: None,
        manual_provision: false,
    }
}

/// These tests have no log. Answers are read as if their records were durable.
pub(crate) struct InstantLog;

impl Log for InstantLog {
    type Record = ParticipantRecord;
    type Error = std::fmt::Error;

    fn append_caused(
        &mut self,
        _: &[coalloc_protocol::CausedRecord<'_, ParticipantRecord>],
    ) -> Result<(), std::fmt::Error> {
        Ok(())
    }
}

/// Steps the participant. Checks that the invariants hold, and that replaying the records on an earlier copy,
/// as they would be in a ledger, gives the same state (I12, I14).
pub(crate) fn step(
    participant: &mut Participant,
    input: ParticipantInput,
    now: Now,
) -> (Option<Answer>, Vec<ParticipantRecord>) {
    let mut twin = participant.clone();
    let unsynced = participant.step(input, now);
    let records = unsynced.records().to_vec();
    for record in &records {
        let text = serde_json::to_string(record).unwrap();
        twin.apply(&serde_json::from_str(&text).unwrap()).unwrap();
    }
    participant.check_invariants().unwrap();
    twin.check_invariants().unwrap();
    assert_eq!(twin.entries(), participant.entries());
    let effects = sync(vec![unsynced], &mut InstantLog).unwrap().into_effects();
    let answer = effects.into_iter().find_map(|effect| match effect {
        ParticipantEffect::Reply { answer, .. } => Some(answer),
        ParticipantEffect::Ask { .. } | ParticipantEffect::Reconcile { .. } => None,
    });
    (answer, records)
}

pub(crate) fn hold(participant: &mut Participant, order: HoldOrder, now: Now) -> Answer {
    step(participant, ParticipantInput::Hold { order, oldest_open: 0, token: Token::new(0) }, now)
        .0
        .unwrap()
}

pub(crate) fn commit(participant: &mut Participant, n: usize, now: Now) -> Answer {
    let by = CoordinatorName::composed("grc");
    let input = ParticipantInput::Commit { txn: txn(n), by, token: Token::new(0) };
    step(participant, input, now).0.unwrap()
}

pub(crate) fn is_held(answer: &Answer) -> bool {
    matches!(answer, Answer::Held { .. })
}

pub(crate) fn routes(participant: &Participant, n: usize) -> Vec<InnerRoute> {
    participant.entries()[&txn(n)].inner.clone().unwrap()
}

pub(crate) fn free(participant: &Participant, window: Window, now: Now) -> Vec<u64> {
    let free = participant.availability(&[window], &UserName::composed("UserA"), None, now);
    free[0].iter().map(|amount| amount.0).collect()
}
