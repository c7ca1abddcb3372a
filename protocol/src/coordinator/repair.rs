//! What can be done about a difference with an RM: each an ordinary transaction, asked for by an operator.
//!
//! * **Book again** ([`Coordinator::rebook`]): a change of the reservation to what it is. RMs that have lost its booking
//!   hold all of it anew; the others replace what they have, as in any change, so that it is all of it
//!   again or the old version as it stands. Where the capacity was sold meanwhile the change is refused.
//! * **Release what is nobody's** ([`Coordinator::disown`]): a Release for a transaction that stands nowhere
//!   here, recorded with who wanted it and why, and sent until the RM acknowledges it. What an RM was given up of
//!   ([`giving_up`](super::giving_up)) is sent the same way.
//!
//! Left out: what differs, see [`promises`](super::promises); who may ask, which is the shell's.
//! Source: docs/adr/0031-reconciliation.md.

use std::collections::{BTreeMap, BTreeSet};

use coalloc_common::{
    BootTime, Now, Reason, Refusal, RmName, Span, TransactionId, UserName, limits,
};

use super::change::ChangeTicket;
use super::giving_up::{GiveUpReply, OfWhat};
use super::record::CoordinatorRecord;
use super::reservation::{Reservation, State};
use super::{Candidate, Coordinator, CoordinatorEffect, MessageKind, Reply, StepOutput};
use crate::conversation::{ChangeEnd, ChangeWaiter, Waiter};
use crate::core::ReplayError;
use crate::message::{Answer, Delivery, Message, Token};

/// What an operator wants done.
#[derive(Debug, Clone)]
pub enum Repair {
    /// Book a confirmed reservation again. Answered as a change is.
    Rebook {
        /// Which reservation, and the id of this repair.
        ticket: ChangeTicket,
        /// The booked version that it is about; another one by now changes nothing.
        booked: TransactionId,
        /// What it is, without what of it is over where it was lost.
        candidate: Candidate,
        /// RMs that do not have it.
        lost: Vec<RmName>,
        /// Who waits.
        token: Token<ChangeEnd>,
    },
    /// Release what an RM has of a transaction that stands nowhere here.
    Disown {
        /// Where.
        rm: RmName,
        /// What.
        txn: TransactionId,
        /// Who wants it.
        by: UserName,
        /// And why.
        why: String,
        /// Who waits.
        token: Token<DisownReply>,
    },
    /// Give up on an RM that does not acknowledge an end, see [`giving_up`](super::giving_up).
    GiveUp {
        /// On which.
        rm: RmName,
        /// Of what.
        of: OfWhat,
        /// Who wants it.
        by: UserName,
        /// And why.
        why: String,
        /// Who waits.
        token: Token<GiveUpReply>,
    },
}

/// What [`Repair::Disown`] is answered with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DisownReply {
    /// The RM has acknowledged: it has nothing of the transaction any more.
    Released,
    /// The transaction stands here, in this reservation; nothing was done.
    Stands(Box<Reservation>),
}

/// What an RM is to release.
type ReleaseTargets = (RmName, TransactionId);

/// Releases that no transaction of a reservation waits for, as far as they are not acknowledged, by RM and
/// transaction: of what is nobody's, and of what an RM was given up of.
#[derive(Debug, Clone, Default)]
pub(super) struct Disowning {
    all: BTreeMap<ReleaseTargets, Sending>,
    /// When each is to be sent (again).
    due: BTreeSet<(BootTime, ReleaseTargets)>,
}

#[derive(Debug, Clone)]
struct Sending {
    send_at: BootTime,
    pause: Span,
    /// Forgotten at a restart.
    waiting: Vec<Token<DisownReply>>,
}

impl Disowning {
    /// When one is to be sent (again).
    pub(super) fn next_wake(&self) -> Option<BootTime> {
        self.due.first().map(|(at, _)| *at)
    }

    /// The RM of each.
    pub(super) fn rms(&self) -> impl Iterator<Item = &RmName> {
        self.all.keys().map(|(rm, _)| rm)
    }

    fn insert(&mut self, place: ReleaseTargets) {
        let send_at = BootTime::from_us(i64::MIN);
        let new = Sending { send_at, pause: limits::RESEND_FIRST, waiting: Vec::new() };
        if !self.all.contains_key(&place) {
            self.due.insert((send_at, place.clone()));
            self.all.insert(place, new);
        }
    }

    fn remove(&mut self, place: &ReleaseTargets) -> Option<Sending> {
        let sending = self.all.remove(place)?;
        self.due.remove(&(sending.send_at, place.clone()));
        Some(sending)
    }

    fn put_off(&mut self, place: &ReleaseTargets, until: BootTime) {
        let Some(sending) = self.all.get_mut(place) else { return };
        self.due.remove(&(sending.send_at, place.clone()));
        sending.send_at = until;
        self.due.insert((until, place.clone()));
    }
}

impl Coordinator {
    pub(super) fn repair(&mut self, repair: Repair, now: Now, out: &mut StepOutput) {
        match repair {
            Repair::Rebook { ticket, booked, candidate, lost, token } => {
                self.rebook(ticket, (&booked, candidate, lost), token, now, out);
            }
            Repair::Disown { rm, txn, by, why, token } => {
                self.disown((rm, txn), by, why, token, now, out);
            }
            Repair::GiveUp { rm, of, by, why, token } => {
                self.give_up((&rm, &of), (&by, &why), token, now, out);
            }
        }
    }

    fn rebook(
        &mut self,
        ticket: ChangeTicket,
        (booked, candidate, lost): (&TransactionId, Candidate, Vec<RmName>),
        token: Token<ChangeEnd>,
        now: Now,
        out: &mut StepOutput,
    ) {
        let (id, waiter) = (ticket.reservation.clone(), ChangeWaiter::Rebook(token));
        let known = self.find_change(&id, ticket.change.as_str()).is_some();
        let stands = self.reservations.get(&id);
        if let Some(other) = stands.filter(|stands| stands.transaction.as_ref() != Some(booked))
            && !known
        {
            let end = ChangeEnd::NotConfirmed(Box::new(other.clone()));
            return out.effects.push(waiter.reply(end));
        }
        // Nothing is planned: it is what it was.
        if !self.admit_change(&ticket, waiter, out) {
            return;
        }
        let Some(reservation) = self.reservations.get(&id) else { return };
        let notes = reservation.notes.clone();
        let txn = TransactionId::composed(format!("{id}/{}", reservation.opened + 1));
        self.conversations.wait(&id, [Waiter::Change(waiter)]);
        let record = CoordinatorRecord::ChangeOpened { ticket, notes, version: None, at: now };
        self.record(record, out);
        let mut candidates = self.with_old_parties(&id, vec![candidate]);
        let left = candidates.pop().map(|mut candidate| {
            // There is nothing to hold, and nothing to replace.
            candidate.segments.retain(|rm, wanted| !wanted.is_empty() || !lost.contains(rm));
            candidate
        });
        let Some(candidate) = left.filter(|candidate| !candidate.segments.is_empty()) else {
            let text = "nothing of it is left to book";
            return self.refuse_change(&id, Refusal::new(Reason::NotHeld, text), now, out);
        };
        let details = candidate.details.written();
        let record = CoordinatorRecord::Intent {
            txn: txn.clone(),
            reservation: id,
            candidate: Candidate { details, one_way: false, ..candidate },
            replaces: Some(booked.clone()),
            mends: None,
            keeps_old: true,
            anew: lost,
            version: None,
            at: now,
        };
        self.record(record, out);
        self.send_due(&txn, now, out);
    }

    fn disown(
        &mut self,
        (rm, txn): (RmName, TransactionId),
        by: UserName,
        why: String,
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
            self.record(CoordinatorRecord::Disowned { txn, rm, by, why, at: now }, out);
        }
        if let Some(sending) = self.disowning.all.get_mut(&place) {
            sending.waiting.push(token);
        }
        self.disown_due(now, out);
    }

    /// Sends every Release of these that is due.
    pub(super) fn disown_due(&mut self, now: Now, out: &mut StepOutput) {
        while let Some((at, place)) = self.disowning.due.first().cloned()
            && at <= now.boot
        {
            let pause = self.disowning.all.get(&place).map_or(Span::ZERO, |sending| sending.pause);
            // The answer is given its time before the message is sent again.
            let next = now.boot.saturating_add(limits::MESSAGE_PATIENCE).saturating_add(pause);
            self.disowning.put_off(&place, next);
            let ((rm, txn), message) = (place, Message::Release);
            out.effects.push(CoordinatorEffect::Send { rm, txn, message });
        }
    }

    /// What became of a Release, if it was one of these.
    pub(super) fn disown_delivered(
        &mut self,
        (rm, txn, kind): (&RmName, &TransactionId, MessageKind),
        delivery: &Delivery,
        now: Now,
        out: &mut StepOutput,
    ) -> bool {
        let place = (rm.clone(), txn.clone());
        let sending = self.disowning.all.get_mut(&place);
        let Some(sending) = sending.filter(|_| kind == MessageKind::Release) else { return false };
        // Denied: nothing of it is there for us.
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

    /// Is a release of this under way that no transaction waits for?
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
        let missing = || ReplayError(format!("{txn} at {rm} is released and was not to be"));
        removed.map(|_| ()).ok_or_else(missing)
    }
}

/// Whom a change of a reservation finds with the old version: all of its RMs but those that have lost it.
pub(super) fn have_it<'a>(
    booked: impl Iterator<Item = &'a RmName>,
    lost: &[RmName],
) -> impl Iterator<Item = &'a RmName> {
    booked.filter(move |rm| !lost.contains(rm))
}
