//! What must hold in every state, and in states at rest. Each check has a name and does not depend on the
//! others.
//!
//! Bookings are compared by content, not by the transaction that booked them: a repair may restore with one
//! transaction what another transaction has lost.

use std::collections::BTreeMap;

use coalloc_common::{Segment, TransactionId};
use coalloc_protocol::Core;
use coalloc_protocol::coordinator::{
    ChangeState, CoordinatorEffect, CoordinatorInput, Reply, Reservation, State as Stands,
};
use coalloc_protocol::message::Token;
use coalloc_protocol::participant::{
    Entry, HoldClocks, Participant, ParticipantEffect, ParticipantInput, Phase, TransactionEnd,
};

use super::cores::{Number, clocks};
use super::facts::Decisions;
use super::federation::{Federation, State};
use super::scenarios::{RESERVATION, RMS};
use crate::forgetful::released;

/// A check of a state.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Check {
    /// The cores keep their own invariants (I1, I12, I22), each log replays (I14), and nothing panics.
    Invariants,
    /// Everything comes to rest, and no user waits for ever.
    Settles,
    /// Every booking in two phases has a decision record (I3).
    BookedIsDecided,
    /// What is confirmed is booked everywhere (I6).
    ConfirmedIsBooked,
    /// At rest, what was confirmed and not released is booked completely, in its old version or its new one.
    ChangeKeepsBooking,
    /// A hold with a commit decision becomes a booking even if no Commit arrives, provided that questions
    /// reach its coordinator from half of the hold on.
    AsksInTime,
    /// At rest, what has a commit decision and was not released is booked everywhere and confirmed, unless
    /// one of its holds has expired. This holds whoever answers the messages, and however often.
    DecidedStands,
    /// Where a user is told that nothing is reserved, or that nothing has changed, no RM holds or has booked
    /// anything else. At rest no RM does in any case.
    DefiniteIsTrue,
}

impl Check {
    /// All checks.
    pub const ALL: [Self; 8] = [
        Self::Invariants,
        Self::Settles,
        Self::BookedIsDecided,
        Self::ConfirmedIsBooked,
        Self::ChangeKeepsBooking,
        Self::AsksInTime,
        Self::DecidedStands,
        Self::DefiniteIsTrue,
    ];
}

/// No run takes that long, in microseconds: what is not at rest by then never will be.
const REST_US: i64 = 4 * 3_600 * 1_000_000;

/// Checks states, and remembers the results of the expensive check.
#[derive(Default)]
pub(super) struct Judge {
    /// For a state of the coordinator and of an RM at an instant, the failure of [`Check::AsksInTime`], if it
    /// fails.
    asked: BTreeMap<(Number, usize, Number, i64), Option<String>>,
}

/// What is booked of the reservation at each RM.
type Bookings<'a> = [Vec<&'a Segment>; RMS.len()];

impl Judge {
    /// Every check that a state fails, each with a sentence that says why.
    pub(super) fn judge(&mut self, world: &Federation, state: &State) -> Vec<(Check, String)> {
        let mut failed = Vec::new();
        let grc = world.grc.get(state.grc);
        let facts = &grc.facts;
        let rms: [&Participant; 2] = [0, 1].map(|rm| &world.rms[rm].get(state.rms[rm]).core);
        let known = grc.core.find(RESERVATION);
        let booked = rms.map(booked_at);
        let mut fail = |check, result: Result<(), String>| {
            failed.extend(result.err().map(|text| (check, text)));
        };
        fail(Check::BookedIsDecided, decided(rms, facts));
        if let Some(known) = known {
            fail(Check::ConfirmedIsBooked, confirmed_is_booked(known, &booked));
            fail(Check::DefiniteIsTrue, definite(known, rms));
        }
        if world.is_at_rest(state) {
            if state.waits {
                fail(Check::Settles, Err("the user waits, but nothing is under way".to_owned()));
            }
            fail(Check::ChangeKeepsBooking, one_version(facts, &booked));
            let is_confirmed = known.is_some_and(|known| known.state == Stands::Confirmed);
            fail(Check::DecidedStands, stands(facts, rms, &booked, is_confirmed));
            fail(Check::DefiniteIsTrue, nothing_left(known, rms, &booked));
        } else if state.now > REST_US {
            fail(Check::Settles, Err("it does not come to rest".to_owned()));
        }
        for rm in 0..RMS.len() {
            if let Some(text) = self.asks(world, state, rm) {
                failed.push((Check::AsksInTime, text));
            }
        }
        failed
    }

    /// Why a hold with a commit decision does not become a booking if only this RM's questions pass from now
    /// on; `None` if it does.
    fn asks(&mut self, world: &Federation, state: &State, rm: usize) -> Option<String> {
        let facts = &world.grc.get(state.grc).facts;
        let core = &world.rms[rm].get(state.rms[rm]).core;
        let waiting = |(txn, held): &(&TransactionId, &HoldClocks)| {
            let half = held.since.boot.as_us() + held.expires_in.as_us() / 2;
            facts.commits.contains(txn) && !facts.undone && state.now <= half
        };
        let (txn, _) =
            core.entries().iter().filter_map(|(txn, entry)| held(txn, entry)).find(waiting)?;
        let key = (state.grc, rm, state.rms[rm], state.now);
        let ask = || ask_on(world, state, rm, txn);
        self.asked.entry(key).or_insert_with(ask).clone()
    }
}

fn held<'a>(
    txn: &'a TransactionId,
    entry: &'a Entry,
) -> Option<(&'a TransactionId, &'a HoldClocks)> {
    match &entry.phase {
        Phase::Held(held) => Some((txn, held)),
        _ => None,
    }
}

/// Lets the RM of a hold ask, and its coordinator answer, until the hold has ended. Returns why it was not
/// booked, if it was not.
fn ask_on(world: &Federation, state: &State, rm: usize, txn: &TransactionId) -> Option<String> {
    let mut grc = world.grc.get(state.grc).core.clone();
    let mut core = world.rms[rm].get(state.rms[rm]).core.clone();
    let mut questions = 0;
    while let Some(wake) = core.next_wake() {
        let now = clocks(wake.as_us().max(state.now));
        for effect in released(core.step(ParticipantInput::Tick, now)) {
            let ParticipantEffect::Ask { txn, .. } = effect else { continue };
            questions += 1;
            let name = coalloc_common::RmName::composed(RMS[rm]);
            let token = Token::new(0);
            let input = CoordinatorInput::Resolve { txn: txn.clone(), rm: name, token };
            for effect in released(grc.step(input, now)) {
                if let CoordinatorEffect::Reply(Reply::Resolve(_, resolution)) = effect {
                    let txn = txn.clone();
                    let _ =
                        released(core.step(ParticipantInput::Resolved { txn, resolution }, now));
                }
            }
        }
        match core.entries().get(txn).map(|entry| &entry.phase) {
            Some(Phase::Held(_)) => {}
            Some(Phase::Booked) => return None,
            _ => break,
        }
    }
    let name = RMS[rm];
    Some(format!("{txn} is decided, but {name} asks {questions} times and does not book it"))
}

fn booked_at(core: &Participant) -> Vec<&Segment> {
    let entries = core.entries().values();
    let booked = entries.filter(|entry| entry.phase == Phase::Booked);
    booked.flat_map(|entry| entry.order.iter().flat_map(|order| &order.segments)).collect()
}

fn decided(rms: [&Participant; 2], facts: &Decisions) -> Result<(), String> {
    for (rm, core) in rms.into_iter().enumerate() {
        for (txn, entry) in core.entries() {
            let one_way = entry.order.as_ref().is_some_and(|order| order.one_way);
            if entry.phase == Phase::Booked && !one_way && !facts.commits.contains(txn) {
                return Err(format!("{txn} is booked at {}, but was not decided", RMS[rm]));
            }
        }
    }
    Ok(())
}

type Plan = BTreeMap<coalloc_common::RmName, Vec<Segment>>;

/// Has this RM booked all of the plan's segments? It may have booked others as well.
fn is_booked(plan: &Plan, rm: usize, booked: &Bookings<'_>) -> bool {
    plan.get(RMS[rm]).into_iter().flatten().all(|segment| booked[rm].contains(&segment))
}

fn is_whole(plan: &Plan, booked: &Bookings<'_>) -> bool {
    (0..RMS.len()).all(|rm| is_booked(plan, rm, booked))
}

fn confirmed_is_booked(known: &Reservation, booked: &Bookings<'_>) -> Result<(), String> {
    if known.state != Stands::Confirmed {
        return Ok(());
    }
    let decided = known.change.as_ref().filter(|change| change.state == ChangeState::Committing);
    let new = decided.and_then(|change| change.candidate.as_ref());
    for (rm, name) in RMS.into_iter().enumerate() {
        let mut versions = known.candidate.iter().chain(new);
        if !versions.any(|version| is_booked(&version.segments, rm, booked)) {
            return Err(format!("it is confirmed, but not booked at {name}"));
        }
    }
    Ok(())
}

/// Checks what a user may rely on who is told that nothing is reserved, or that nothing has changed.
fn definite(known: &Reservation, rms: [&Participant; 2]) -> Result<(), String> {
    let nothing = matches!(known.state, Stands::Failed | Stands::Terminated);
    let change = known.change.as_ref().map(|change| change.state);
    let unchanged = known.state == Stands::Confirmed && change == Some(ChangeState::Refused);
    for (rm, core) in rms.into_iter().enumerate() {
        for (txn, entry) in core.entries() {
            let is_there = matches!(entry.phase, Phase::Held(_) | Phase::Booked);
            let replaces = entry.order.as_ref().is_some_and(|order| order.replaces.is_some());
            let is_new = known.transaction.as_ref() != Some(txn) && replaces;
            if is_there && (nothing || unchanged && is_new) {
                let (stands, name) = (known.state, RMS[rm]);
                let phase = if entry.phase == Phase::Booked { "has booked" } else { "holds" };
                return Err(format!("the user is told {stands:?}, but {name} {phase} {txn}"));
            }
        }
    }
    Ok(())
}

/// Checks that at rest no RM has anything that the reservation does not name.
fn nothing_left(
    known: Option<&Reservation>,
    rms: [&Participant; 2],
    booked: &Bookings<'_>,
) -> Result<(), String> {
    let known = known.filter(|known| known.state == Stands::Confirmed);
    let plan = known.and_then(|known| known.candidate.as_ref());
    for (rm, core) in rms.into_iter().enumerate() {
        let name = RMS[rm];
        if let Some((txn, _)) = core.entries().iter().find_map(|(txn, entry)| held(txn, entry)) {
            return Err(format!("{name} still holds {txn} at rest"));
        }
        let plan = plan.and_then(|plan| plan.segments.get(name));
        if booked[rm].len() > plan.map_or(0, Vec::len) {
            let amounts = amounts(&booked[rm]);
            return Err(format!("{name} has booked {amounts}, more than the user was told"));
        }
    }
    Ok(())
}

fn one_version(facts: &Decisions, booked: &Bookings<'_>) -> Result<(), String> {
    if !facts.confirmed || facts.released {
        return Ok(());
    }
    let mut versions = facts.commits.iter().filter_map(|txn| facts.plans.get(txn));
    if versions.any(|plan| is_whole(plan, booked)) {
        return Ok(());
    }
    let lines = (0..RMS.len()).map(|rm| format!("{}: {}", RMS[rm], amounts(&booked[rm])));
    let lines: Vec<String> = lines.collect();
    Err(format!(
        "it was confirmed and not released, but no version is booked completely: {}",
        lines.join(", ")
    ))
}

fn amounts(booked: &[&Segment]) -> String {
    let amounts: Vec<String> = booked.iter().map(|segment| segment.amount.to_string()).collect();
    if amounts.is_empty() { "nothing".to_owned() } else { amounts.join(" and ") }
}

fn stands(
    facts: &Decisions,
    rms: [&Participant; 2],
    booked: &Bookings<'_>,
    is_confirmed: bool,
) -> Result<(), String> {
    let Some(txn) = facts.commits.last().filter(|_| !facts.released) else { return Ok(()) };
    let expired = |core: &Participant| {
        core.entries().values().any(|entry| entry.phase == Phase::Ended(TransactionEnd::Expired))
    };
    if rms.into_iter().any(expired) {
        return Ok(());
    }
    let whole = facts.plans.get(txn).is_some_and(|plan| is_whole(plan, booked));
    if whole && is_confirmed {
        return Ok(());
    }
    Err(format!("{txn} is decided and no hold has expired, but it is not booked everywhere"))
}
