//! Repairs of a difference with an RM. Each is an ordinary transaction, and an operator asks for it.
//!
//! * **Book again** ([`Coordinator::rebook`]): a change of a reservation to the version that it already has.
//!   RMs that have lost its booking hold all of it anew. The other RMs replace what they have, as in any
//!   change. The result is the whole reservation, or the old version as it is. Where the capacity was sold
//!   meanwhile, the change is refused.
//! * **Release what belongs to no reservation** ([`Coordinator::disown`]): a Release for a transaction that is
//!   not booked here. It is recorded with the operator and the reason, and sent until the RM acknowledges it.
//!   Releases that remain after an RM was given up on ([`giving_up`](super::giving_up)) are sent in the same
//!   way.
//!
//! Left out: what counts as a difference, see [`promises`](super::promises); who may ask for a repair, which
//! the shell decides. Source: docs/adr/0031-reconciliation.md.

use std::collections::BTreeSet;

use coalloc_common::{BootTime, Now, Reason, Refusal, RmName, Span, TransactionId, limits};

use super::giving_up::Operator;
use super::record::{CoordinatorRecord, stamped};
use super::reservation::{Candidate, ChangeTicket, State};
use super::waiting::{ChangeWaiter, Waiter};
use super::{Coordinator, CoordinatorEffect, DisownReply, Repair, Reply, StepOutput};
use crate::conversation::ChangeEnd;
use crate::core::ReplayError;
use crate::message::{Answer, Delivery, Message, MessageKind, Token};
use crate::tracked::TrackedMap;

/// An RM, and the transaction that it is to release.
type ReleaseTargets = (RmName, TransactionId);

/// The unacknowledged releases for which no transaction of a reservation waits: of bookings that belong to no
/// reservation, and of RMs that were given up on.
#[derive(Debug, Clone, Default)]
pub(super) struct Disowning {
    pub(super) all: TrackedMap<ReleaseTargets, Sending>,
    /// When each release is to be sent, or sent again.
    due: BTreeSet<(BootTime, ReleaseTargets)>,
}

#[derive(Debug, Clone)]
pub(super) struct Sending {
    send_at: BootTime,
    pause: Span,
    /// Callers that wait for the acknowledgement. Lost at a restart.
    waiting: Vec<Token<DisownReply>>,
}

impl Sending {
    /// Due at once.
    const fn new() -> Self {
        let (send_at, pause) = (BootTime::from_us(i64::MIN), limits::RESEND_FIRST);
        Self { send_at, pause, waiting: Vec::new() }
    }
}

impl Disowning {
    /// When the next release is to be sent, or sent again.
    pub(super) fn next_wake(&self) -> Option<BootTime> {
        self.due.first().map(|(at, _)| *at)
    }

    /// The RM of each release.
    pub(super) fn rms(&self) -> impl Iterator<Item = &RmName> {
        self.all.keys().map(|(rm, _)| rm)
    }

    fn insert(&mut self, place: ReleaseTargets) {
        if !self.all.contains_key(&place) {
            self.all.insert(place.clone(), Sending::new());
            self.due.insert((Sending::new().send_at, place));
        }
    }

    /// Puts back what a snapshot has. Returns whether it is new.
    pub(super) fn restore(&mut self, place: ReleaseTargets) -> bool {
        self.due.insert((Sending::new().send_at, place.clone()));
        self.all.restore(place, Sending::new()).is_none()
    }

    pub(super) fn remove(&mut self, place: &ReleaseTargets) -> Option<Sending> {
        let sending = self.all.remove(place)?;
        self.due.remove(&(sending.send_at, place.clone()));
        Some(sending)
    }

    fn put_off(&mut self, place: &ReleaseTargets, until: BootTime) {
        let Some(sending) = self.all.get_mut_unnoted(place) else { return };
        self.due.remove(&(sending.send_at, place.clone()));
        sending.send_at = until;
        self.due.insert((until, place.clone()));
    }
}

/// What is booked again where it was lost.
struct Rebooking {
    /// The transaction that is booked.
    booked: TransactionId,
    /// The segments of the new one.
    candidate: Candidate,
    /// The RMs that have lost it.
    lost: Vec<RmName>,
}

impl Coordinator {
    pub(super) fn repair(&mut self, repair: Repair, now: Now, out: &mut StepOutput) {
        match repair {
            Repair::Rebook { ticket, booked, candidate, lost, token } => {
                let rebooking = Rebooking { booked, candidate, lost };
                self.rebook(ticket, rebooking, token, now, out);
            }
            Repair::Disown { rm, txn, by, why, token } => {
                self.disown(rm, txn, Operator { by, why }, token, now, out);
            }
            Repair::GiveUp { rm, of, by, why, token } => {
                self.give_up(&rm, &of, Operator { by, why }, token, now, out);
            }
        }
    }

    fn rebook(
        &mut self,
        ticket: ChangeTicket,
        rebooking: Rebooking,
        token: Token<ChangeEnd>,
        now: Now,
        out: &mut StepOutput,
    ) {
        let Rebooking { booked, candidate, lost } = rebooking;
        let (id, waiter) = (ticket.reservation.clone(), ChangeWaiter::Rebook(token));
        let known = self.find_change(&id, ticket.change.as_str()).is_some();
        let stands = self.reservations.get(&id);
        if let Some(other) = stands.filter(|stands| stands.transaction.as_ref() != Some(&booked))
            && !known
        {
            let end = ChangeEnd::NotConfirmed(Box::new(other.clone()));
            return out.effects.push(waiter.reply(end));
        }
        // Nothing is planned, because the content of the reservation stays the same.
        if !self.admit_change(&ticket, waiter, out) {
            return;
        }
        let Some(reservation) = self.reservations.get(&id) else { return };
        let notes = reservation.notes.clone();
        let txn = self.next_attempt(&id);
        self.conversations.wait(&id, [Waiter::Change(waiter)]);
        let (version, active) = (stamped::VERSION, stamped::ACTIVE);
        let record = CoordinatorRecord::ChangeOpened { ticket, notes, version, active, at: now };
        self.record(record, out);
        let mut candidates = self.with_old_parties(&id, vec![candidate]);
        let left = candidates.pop().map(|mut candidate| {
            // These RMs have nothing to hold and nothing to replace.
            candidate.segments.retain(|rm, wanted| !wanted.is_empty() || !lost.contains(rm));
            candidate
        });
        let Some(candidate) = left.filter(|candidate| !candidate.segments.is_empty()) else {
            let text = "nothing of the reservation is left to book";
            return self.refuse_change(&id, Refusal::new(Reason::NotHeld, text), now, out);
        };
        let details = candidate.details.written();
        let record = CoordinatorRecord::Intent {
            txn: txn.clone(),
            reservation: id,
            candidate: Candidate { details, one_way: false, ..candidate },
            replaces: Some(booked),
            mends: None,
            anew: lost,
            version: stamped::VERSION,
            active: stamped::ACTIVE,
            at: now,
        };
        self.record(record, out);
        self.send_due(&txn, now, out);
    }

    fn disown(
        &mut self,
        rm: RmName,
        txn: TransactionId,
        operator: Operator,
        token: Token<DisownReply>,
        now: Now,
        out: &mut StepOutput,
    ) {
        if let Some(reservation) = self.reservation_of(&txn) {
            let stands = reservation.transaction.as_ref() == Some(&txn)
                && reservation.state == State::Confirmed;
            if stands || self.has_unfinished(&reservation.id) {
                let stands = DisownReply::Stands(Box::new(reservation.clone()));
                return out.reply(Reply::Disown(token, stands));
            }
        }
        let place = (rm.clone(), txn.clone());
        if !self.disowning.all.contains_key(&place) {
            let Operator { by, why } = operator;
            self.record(CoordinatorRecord::Disowned { txn, rm, by, why, at: now }, out);
        }
        if let Some(sending) = self.disowning.all.get_mut_unnoted(&place) {
            sending.waiting.push(token);
        }
        self.disown_due(now, out);
    }

    /// Sends every one of these releases that is due.
    pub(super) fn disown_due(&mut self, now: Now, out: &mut StepOutput) {
        while let Some((at, place)) = self.disowning.due.first().cloned()
            && at <= now.boot
        {
            let pause = self.disowning.all.get(&place).map_or(Span::ZERO, |sending| sending.pause);
            // The answer gets its full time before the message is sent again.
            let next = now.boot.saturating_add(limits::MESSAGE_PATIENCE).saturating_add(pause);
            self.disowning.put_off(&place, next);
            let ((rm, txn), message) = (place, Message::Release);
            let oldest_open = self.oldest_open();
            out.effects.push(CoordinatorEffect::Send { rm, txn, message, oldest_open });
        }
    }

    /// Handles what became of a Release, if it is one of these. Returns false for any other message.
    pub(super) fn disown_delivered(
        &mut self,
        rm: &RmName,
        txn: &TransactionId,
        kind: MessageKind,
        delivery: &Delivery,
        now: Now,
        out: &mut StepOutput,
    ) -> bool {
        let place = (rm.clone(), txn.clone());
        let sending = self.disowning.all.get_mut_unnoted(&place);
        let Some(sending) = sending.filter(|_| kind == MessageKind::Release) else { return false };
        // Denied: this RM has nothing of it for this coordinator.
        let ended = matches!(delivery, Delivery::Answered(Answer::Done | Answer::Denied));
        if !ended {
            let until = now.boot.saturating_add(sending.pause);
            sending.pause = sending.pause.saturating_mul(2).min(limits::RESEND_MAX);
            self.disowning.put_off(&place, until);
            return true;
        }
        for token in std::mem::take(&mut sending.waiting) {
            out.reply(Reply::Disown(token, DisownReply::Released));
        }
        let (rm, txn) = place;
        self.record(CoordinatorRecord::DisownEnded { txn, rm, state: None, at: now }, out);
        true
    }

    /// Is a release of this transaction under way for which no transaction waits?
    pub(super) fn is_disowning(&self, rm: &RmName, txn: &TransactionId) -> bool {
        self.disowning.all.contains_key(&(rm.clone(), txn.clone()))
    }

    pub(super) fn fold_disowned(&mut self, rm: &RmName, txn: &TransactionId) {
        self.disowning.insert((rm.clone(), txn.clone()));
    }

    pub(super) fn fold_disown_ended(
        &mut self,
        rm: &RmName,
        txn: &TransactionId,
    ) -> Result<(), ReplayError> {
        let removed = self.disowning.remove(&(rm.clone(), txn.clone()));
        let missing =
            || ReplayError(format!("{txn} at {rm} is released but was not to be released"));
        removed.map(|_| ()).ok_or_else(missing)
    }
}

/// The RMs that still have the old version when a change begins: all of its RMs but those that have lost it.
pub(super) fn have_it<'a>(
    booked: impl Iterator<Item = &'a RmName>,
    lost: &[RmName],
) -> impl Iterator<Item = &'a RmName> {
    booked.filter(move |rm| !lost.contains(rm))
}
