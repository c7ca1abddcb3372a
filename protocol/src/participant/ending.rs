//! Phase two, and the end of what is booked: Commit, Abort, Release, and the answer to Resolve; and which process of a
//! coordinator may send them.
//!
//! Left out: ends by time, which are alarms of the participant.

use std::cmp::Ordering;

use coalloc_common::planted::{self, Bug};
use coalloc_common::{CoordinatorName, Now, Reason, Refusal, TransactionId};

use super::record::{ParticipantRecord, TransactionEnd};
use super::{Entry, Participant, ParticipantInput, Phase, Step, nothing, reply};
use crate::core::Core as _;
use crate::durable::Unsynced;
use crate::message::{Answer, Cause, Decision, Resolution, Token};

/// What one coordinator may know of a transaction.
enum Gate<'a> {
    Denied,
    /// It is unknown, and its coordinator has done with it.
    Forgotten,
    Unknown,
    Known(&'a Entry),
}

impl Participant {
    /// The booking that a hold would replace, when it is no longer booked, so that the hold cannot be committed.
    fn lost_old(&self, txn: &TransactionId) -> Option<&TransactionId> {
        let order = self.entries.get(txn)?.order.as_ref()?;
        let old = order.replaces.as_ref()?;
        let is_booked = self.entries.get(old).is_some_and(|old| old.phase == Phase::Booked);
        (!is_booked).then_some(old)
    }

    pub(super) fn commit(
        &mut self,
        txn: TransactionId,
        by: CoordinatorName,
        token: Token<Answer>,
        now: Now,
    ) -> Step {
        let (hard_at, known) = match self.gate(&txn, &by) {
            Gate::Denied => return reply(token, Answer::Denied),
            Gate::Forgotten => {
                let refusal = self.not_held(&txn);
                return reply(token, Answer::Refused(refusal));
            }
            Gate::Unknown => (None, false),
            Gate::Known(entry) => match &entry.phase {
                Phase::Booked => return reply(token, Answer::Done),
                Phase::Refused(refusal) => return reply(token, Answer::Refused(refusal.clone())),
                Phase::Ended(TransactionEnd::Expired) if planted::is(Bug::CommitOfExpired) => {
                    return reply(token, Answer::Done);
                }
                Phase::Ended(ending) => {
                    return reply(token, Answer::Refused(ending.refusal(&self.config.name, &txn)));
                }
                Phase::Held(held) => (Some(held.hard_at), true),
            },
        };
        let cause = Cause::Coordinator(by.clone());
        if let Some(old) = self.lost_old(&txn) {
            let detail = format!("{old}, which {txn} would replace, is no longer booked");
            let refusal =
                Refusal::new(TransactionEnd::Aborted.reason(), detail).at(&self.config.name);
            let ending = TransactionEnd::Aborted;
            let record =
                ParticipantRecord::Ended { txn, coordinator: by, ending, by: cause, at: now };
            return self.record(record, token, Answer::Refused(refusal));
        }
        if self.entries.get(&txn).is_some_and(Entry::waits_for_claim) {
            // Nobody was told that it is held.
            let refusal = self.not_held(&txn);
            let ending = TransactionEnd::Aborted;
            let record =
                ParticipantRecord::Ended { txn, coordinator: by, ending, by: cause, at: now };
            return self.record(record, token, Answer::Refused(refusal));
        }
        if hard_at.is_some_and(|hard_at| now.boot < hard_at) {
            // From here on nothing can fail: what is held becomes booked.
            let record = ParticipantRecord::Booked { txn, by: cause, at: now };
            return self.record(record, token, Answer::Done);
        }
        let (ending, cause) = if known {
            (TransactionEnd::Expired, Cause::Expiry)
        } else {
            (TransactionEnd::Aborted, cause)
        };
        let refusal =
            if known { ending.refusal(&self.config.name, &txn) } else { self.not_held(&txn) };
        let record = ParticipantRecord::Ended { txn, coordinator: by, ending, by: cause, at: now };
        self.record(record, token, Answer::Refused(refusal))
    }

    /// Why nothing can be committed that is unknown here.
    fn not_held(&self, txn: &TransactionId) -> Refusal {
        let detail = format!("nothing is held for {txn} here, and a later Hold will be refused");
        Refusal::new(Reason::NotHeld, detail).at(&self.config.name)
    }

    pub(super) fn abort(
        &mut self,
        txn: TransactionId,
        by: CoordinatorName,
        token: Token<Answer>,
        now: Now,
    ) -> Step {
        match self.gate(&txn, &by) {
            Gate::Denied => return reply(token, Answer::Denied),
            Gate::Known(entry) if entry.phase == Phase::Booked && !entry.is_one_way() => {
                let detail = format!("{txn} is booked; only Release ends it");
                let refusal = Refusal::new(Reason::NotHeld, detail).at(&self.config.name);
                return reply(token, Answer::Refused(refusal));
            }
            Gate::Known(Entry { phase: Phase::Refused(_) | Phase::Ended(_), .. })
            | Gate::Forgotten => return reply(token, Answer::Done),
            Gate::Unknown if planted::is(Bug::NoTombstone) => return reply(token, Answer::Done),
            Gate::Known(Entry { phase: Phase::Held(_) | Phase::Booked, .. }) | Gate::Unknown => {}
        }
        self.end(txn, by, TransactionEnd::Aborted, token, now)
    }

    pub(super) fn release(
        &mut self,
        txn: TransactionId,
        by: CoordinatorName,
        token: Token<Answer>,
        now: Now,
    ) -> Step {
        match self.gate(&txn, &by) {
            Gate::Denied => return reply(token, Answer::Denied),
            Gate::Forgotten => return reply(token, Answer::Done),
            Gate::Known(Entry { phase: Phase::Refused(_) | Phase::Ended(_), kept, .. })
                if kept.is_empty() =>
            {
                return reply(token, Answer::Done);
            }
            Gate::Known(_) if planted::is(Bug::ReleaseUnrecorded) => {
                return reply(token, Answer::Done);
            }
            Gate::Known(_) | Gate::Unknown => {}
        }
        self.end(txn, by, TransactionEnd::Released, token, now)
    }

    fn end(
        &mut self,
        txn: TransactionId,
        coordinator: CoordinatorName,
        ending: TransactionEnd,
        token: Token<Answer>,
        now: Now,
    ) -> Step {
        let by = Cause::Coordinator(coordinator.clone());
        let record = ParticipantRecord::Ended { txn, coordinator, ending, by, at: now };
        self.record(record, token, Answer::Done)
    }

    pub(super) fn resolved(
        &mut self,
        txn: TransactionId,
        resolution: Resolution,
        now: Now,
    ) -> Step {
        let Some(Entry { coordinator, phase: Phase::Held(held), .. }) = self.entries.get(&txn)
        else {
            return nothing();
        };
        let (coordinator, hard_at) = (coordinator.clone(), held.hard_at);
        let by = Cause::Resolve(coordinator.clone());
        let record = match resolution {
            // The next question was already put off when this one was sent.
            Resolution::NotMine | Resolution::Lost => return nothing(),
            Resolution::Decided(Decision::Commit)
                if self.lost_old(&txn).is_some()
                    || self.entries.get(&txn).is_some_and(Entry::waits_for_claim) =>
            {
                let ending = TransactionEnd::Aborted;
                ParticipantRecord::Ended { txn, coordinator, ending, by, at: now }
            }
            Resolution::Decided(Decision::Commit) if now.boot < hard_at => {
                ParticipantRecord::Booked { txn, by, at: now }
            }
            Resolution::Decided(Decision::Commit) => {
                let (ending, by) = (TransactionEnd::Expired, Cause::Expiry);
                ParticipantRecord::Ended { txn, coordinator, ending, by, at: now }
            }
            Resolution::Decided(Decision::Abort) => {
                let ending = TransactionEnd::Aborted;
                ParticipantRecord::Ended { txn, coordinator, ending, by, at: now }
            }
        };
        self.must_apply(&record);
        Unsynced::new(vec![record], vec![])
    }

    /// A message of a coordinator's process. Of those that share a ledger, only the last one that was elected is obeyed.
    pub(super) fn led(&mut self, epoch: u64, input: ParticipantInput, now: Now) -> Step {
        let Some((txn, by, token)) = input.order() else { return nothing() };
        // Strangers, and ids that are no coordinator's own, are denied as ever, and leave no record.
        let is_own = txn.is_of(by) && self.config.coordinators.contains(by);
        let Some(ledger) = txn.counted().map(|(ledger, _)| ledger.to_owned()).filter(|_| is_own)
        else {
            return self.step(input, now);
        };
        match self.leader_epochs.compare(&ledger, epoch) {
            Ordering::Less => {
                let epoch = self.leader_epochs.of(&ledger);
                reply(token, Answer::OlderLeader { epoch })
            }
            Ordering::Equal => self.step(input, now),
            Ordering::Greater => {
                let record = ParticipantRecord::LeaderChanged { ledger, epoch, at: now };
                self.must_apply(&record);
                self.step(input, now).after(record)
            }
        }
    }

    fn gate(&self, txn: &TransactionId, by: &CoordinatorName) -> Gate<'_> {
        match self.entries.get(txn) {
            Some(entry) if entry.coordinator != *by => Gate::Denied,
            Some(_)
                if planted::is(Bug::LeftOutDenied) && !self.config.coordinators.contains(by) =>
            {
                Gate::Denied
            }
            // What was promised to a coordinator stays promised, even when the configuration no longer names it.
            Some(entry) => Gate::Known(entry),
            None if !self.config.coordinators.contains(by) => Gate::Denied,
            None if !txn.is_of(by) && !planted::is(Bug::AnybodysId) => Gate::Denied,
            None if self.forgetting.oldest_open.after(txn).is_some() => Gate::Forgotten,
            None => Gate::Unknown,
        }
    }
}
