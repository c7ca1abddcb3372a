//! Every state of a transaction at an RM, and every input.

use std::collections::BTreeMap;

use coalloc_common::{
    Amount, CoordinatorName, ResourceId, ResourceKind, RmName, ServiceLevels, Span, TransactionId,
    limits,
};
use coalloc_protocol::Core;
use coalloc_protocol::message::{Decision, HoldOrder, Resolution, Token};
use coalloc_protocol::participant::{
    HoldPolicy, HoldQuotas, Participant, ParticipantConfig, ParticipantEffect, ParticipantInput,
    Phase,
};
use coalloc_sim::world::script::participant_point;

use super::{NEWER, TXN, at, cell, order, told};

const SOFT_MS: i64 = 5_000;
const HARD_MS: i64 = 20_000;

/// One participant and its one transaction `t`.
struct Rm {
    core: Participant,
    /// The amount that it is asked to hold.
    amount: u64,
    /// Whether the Hold books one-way.
    one_way: bool,
}

impl Rm {
    fn new() -> Self {
        let policy = HoldPolicy {
            soft: Span::from_millis(SOFT_MS),
            hard: Span::from_millis(HARD_MS),
            horizon: limits::HORIZON_DEFAULT,
            ..HoldPolicy::default()
        };
        let mut core = Participant::new(ParticipantConfig {
            name: RmName::composed("rm"),
            resources: vec![(ResourceId::composed("r"), Amount(100))],
            kinds: ResourceKind::Cpus.into(),
            coordinators: ["grc", "grc-2"].map(CoordinatorName::composed).into(),
            policy,
            levels: ServiceLevels::default(),
            quotas: HoldQuotas::default(),
            inside: None,
            servers: BTreeMap::new(),
        });
        let _ = core.step(ParticipantInput::Start { boot: "boot-1".to_owned() }, at(0));
        Self { core, amount: 10, one_way: false }
    }

    fn step(&mut self, input: ParticipantInput, ms: i64) -> String {
        let step = self.core.step(input, at(ms));
        let records: Vec<String> =
            step.records().iter().map(|record| participant_point(record).to_owned()).collect();
        self.core.check_invariants().unwrap();
        let effects = Silent::sync(step).into_iter().map(|effect| match effect {
            ParticipantEffect::Reply { answer, .. } => told(&answer),
            ParticipantEffect::Ask { .. } => "asks".to_owned(),
            ParticipantEffect::Reconcile { .. } => "looks at its equipment".to_owned(),
        });
        cell(&records, &effects.collect::<Vec<_>>())
    }

    fn hold(&self) -> ParticipantInput {
        let order = HoldOrder { one_way: self.one_way, ..order(TXN, self.amount, None) };
        ParticipantInput::Hold { order, oldest_open: 0, token: Token::new(1) }
    }
}

/// A log that keeps nothing, because other tests cover durability.
struct Silent<R>(std::marker::PhantomData<R>);

impl<R> coalloc_protocol::Log for Silent<R> {
    type Record = R;
    type Error = std::convert::Infallible;

    fn append_caused(
        &mut self,
        _: &[coalloc_protocol::CausedRecord<'_, R>],
    ) -> Result<(), Self::Error> {
        Ok(())
    }
}

impl<R> Silent<R> {
    fn sync<E>(step: coalloc_protocol::Unsynced<R, E>) -> Vec<E> {
        let Ok(synced) = coalloc_protocol::sync(vec![step], &mut Self(std::marker::PhantomData));
        synced.into_effects()
    }
}

fn txn(id: &str) -> TransactionId {
    TransactionId::composed(id)
}

fn by(name: &str) -> CoordinatorName {
    CoordinatorName::composed(name)
}

fn commit(id: &str) -> ParticipantInput {
    ParticipantInput::Commit { txn: txn(id), by: by("grc"), token: Token::new(1) }
}

fn abort() -> ParticipantInput {
    ParticipantInput::Abort { txn: txn(TXN), by: by("grc"), token: Token::new(1) }
}

fn release() -> ParticipantInput {
    ParticipantInput::Release { txn: txn(TXN), by: by("grc"), token: Token::new(1) }
}

fn resolved(resolution: Resolution) -> ParticipantInput {
    ParticipantInput::Resolved { txn: txn(TXN), resolution }
}

/// Every state, and a participant that has reached it.
fn states() -> Vec<(&'static str, Rm)> {
    let after = |inputs: Vec<(ParticipantInput, i64)>| {
        let mut rm = Rm::new();
        for (input, ms) in inputs {
            rm.step(input, ms);
        }
        rm
    };
    let hold = || (Rm::new().hold(), 10);
    let one_way = |inputs: &[ParticipantInput]| {
        let mut rm = Rm { one_way: true, ..Rm::new() };
        rm.step(rm.hold(), 10);
        for input in inputs {
            rm.step(input.clone(), 20);
        }
        rm
    };
    let newer = ParticipantInput::Hold {
        order: order(NEWER, 20, Some(TXN)),
        oldest_open: 0,
        token: Token::new(1),
    };
    // The next attempt says that nothing before it is open.
    let next = ParticipantInput::Hold {
        order: order(NEWER, 20, None),
        oldest_open: 2,
        token: Token::new(1),
    };
    let forget_ms = limits::FORGET_EVERY.as_us() / 1_000 + 30;
    let mut refused = Rm { amount: 101, ..Rm::new() };
    refused.step(refused.hold(), 10);
    let states = vec![
        ("unknown", after(vec![])),
        (
            "unknown, for it was forgotten",
            after(vec![(abort(), 20), (next, 30), (ParticipantInput::Tick, forget_ms)]),
        ),
        ("Held", after(vec![hold()])),
        ("Booked", after(vec![hold(), (commit(TXN), 20)])),
        ("Booked, one-way", one_way(&[])),
        ("Refused", refused),
        ("Aborted", after(vec![hold(), (abort(), 20)])),
        ("Aborted, a tombstone", after(vec![(abort(), 20)])),
        ("Expired", after(vec![hold(), (ParticipantInput::Tick, HARD_MS + 20)])),
        ("Released", after(vec![hold(), (commit(TXN), 20), (release(), 30)])),
        ("Replaced", after(vec![hold(), (commit(TXN), 20), (newer, 30), (commit(NEWER), 40)])),
        ("Aborted, one-way", one_way(&[abort()])),
    ];
    for (name, rm) in &states {
        let phase = rm.core.entries().get(&txn(TXN)).map(|entry| entry.phase.clone());
        let is = match phase {
            None => "unknown".to_owned(),
            Some(Phase::Held(_)) => "Held".to_owned(),
            Some(Phase::Booked) => "Booked".to_owned(),
            Some(Phase::Refused(_)) => "Refused".to_owned(),
            Some(Phase::Ended(ending)) => format!("{ending:?}"),
        };
        assert!(name.starts_with(&is), "{name} is {is}");
    }
    states
}

pub(crate) fn table() -> String {
    let other = ParticipantInput::Hold {
        order: order(TXN, 11, None),
        oldest_open: 0,
        token: Token::new(1),
    };
    let stranger = ParticipantInput::Abort { txn: txn(TXN), by: by("grc-2"), token: Token::new(1) };
    let unknown = ParticipantInput::Abort { txn: txn(TXN), by: by("who"), token: Token::new(1) };
    let decided = |decision| resolved(Resolution::Decided(decision));
    let inputs: Vec<(&str, Option<ParticipantInput>, i64)> = vec![
        ("Hold", None, 50),
        ("Hold, other content", Some(other), 50),
        ("Commit", Some(commit(TXN)), 50),
        ("Commit, too late", Some(commit(TXN)), HARD_MS + 50),
        ("Abort", Some(abort()), 50),
        ("Release", Some(release()), 50),
        ("asked: commit", Some(decided(Decision::Commit)), 50),
        ("asked: abort", Some(decided(Decision::Abort)), 50),
        ("asked: no answer", Some(resolved(Resolution::Lost)), 50),
        ("soft expiry", Some(ParticipantInput::Tick), SOFT_MS + 50),
        ("hard expiry", Some(ParticipantInput::Tick), HARD_MS + 50),
        ("of another coordinator", Some(stranger), 50),
        ("of nobody known", Some(unknown), 50),
    ];
    let columns: Vec<&str> = states().iter().map(|(name, _)| *name).collect();
    let row = |input: &Option<ParticipantInput>, ms: i64| {
        let one = |(name, rm): &mut (&str, Rm)| {
            // An input of another coordinator may leave a tombstone of that coordinator, so every cell has a
            // participant of its own.
            let _ = name;
            rm.step(input.clone().unwrap_or_else(|| rm.hold()), ms)
        };
        states().iter_mut().map(one).collect::<Vec<String>>()
    };
    let rows: Vec<(&str, Vec<String>)> =
        inputs.iter().map(|(name, input, ms)| (*name, row(input, *ms))).collect();
    super::table("input", &columns, &rows)
}
