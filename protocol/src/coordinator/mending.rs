//! Mending a change that was decided and is booked at only some of its RMs.
//!
//! After D3 an RM may be too late to book, because its hold has expired. It then still has the version that the
//! change was to replace, while other RMs have the new one. Nothing is released for that reason. The
//! coordinator waits until every RM has answered Commit, and records which have not booked
//! ([`CoordinatorRecord::Split`]). Then it makes further attempts, each a transaction like any other, until all
//! RMs have the same version:
//!
//! ```text
//! Committing --all have answered, some refused--> split --new version held and booked everywhere--> Done
//!                                                 |  ^ \--old version held and booked everywhere--> Refused
//!                                                 '--' one no: the other version next, after a backoff
//! ```
//!
//! The Hold of such an attempt replaces what each RM has: the new version where it is booked, the old one
//! elsewhere. Until one version is booked everywhere, RMs that have booked the new version keep what the old
//! one had and the new one does not need ([`superseding`](super::superseding)). So going back to the old
//! version is always possible. An attempt to go back fails only when an answer is missing, and is then repeated
//! after a backoff. The user may release the reservation at any time, which ends all of it.
//!
//! An RM that reports that it has lost what it had takes no part in going back. Reconciliation will find and
//! repair its missing booking. When no RM is left, the old version is restored as it was promised, and no RM is
//! asked. The same is done when both versions are over. The reason is a coordinator whose ledger was put back:
//! it may have told an RM before to release the old version, and then going back might never succeed.
//!
//! Mending serves a parent's change as well. There the new version is a reservation of its own. When the change
//! goes back to the old version, the new reservation fails, and the old reservation gets the transaction that
//! has mended it.
//!
//! Left out: mending a new reservation. Nothing of it was ever confirmed, so a late RM leads to a mixed
//! outcome, and everything is released. Source: design.md "Decided stays decided"; Gray and Lamport, "Consensus
//! on transaction commit", for why a decision must not depend on who carries it out in time.

use std::collections::{BTreeMap, BTreeSet};

use coalloc_common::{
    BootTime, Now, Reason, Refusal, ReservationId, RmName, Span, TransactionId, limits,
};

use serde::{Deserialize, Serialize};

use super::record::{CoordinatorRecord, MendTarget, stamped};
use super::reservation::{Candidate, ChangeState, State};
use super::transaction::{Transaction, TransactionGoal};
use super::{Coordinator, StepOutput};
use crate::core::ReplayError;
use crate::tracked::TrackedMap;

/// The state of mending one change that some RMs have booked and others have not.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Mending {
    /// The transaction of the version that the change was to replace.
    old: TransactionId,
    old_candidate: Candidate,
    new_candidate: Candidate,
    /// What each RM has booked, and which version that is. An RM that is not listed has nothing.
    parts: BTreeMap<RmName, (TransactionId, MendTarget)>,
    /// What each RM has last refused to book. If such an RM reports later that something has replaced what it
    /// had, it has booked this after all.
    refused: BTreeMap<RmName, (TransactionId, MendTarget)>,
    /// Why the change was not booked everywhere.
    why: Refusal,
    /// How many attempts have failed. After an even number the new version is tried next, after an odd number
    /// the old one.
    failed: u32,
    /// What the last attempt tries.
    attempt: Option<Candidate>,
}

/// The changes that are being mended.
#[derive(Debug, Clone, Default)]
pub(super) struct Mendings {
    pub(super) open: TrackedMap<ReservationId, Mending>,
    /// When the next attempt is due, for each reservation that has no attempt under way. Lost at a restart.
    pub(super) due: BTreeMap<ReservationId, BootTime>,
}

impl Mending {
    const fn turn(&self) -> MendTarget {
        if self.failed.is_multiple_of(2) { MendTarget::New } else { MendTarget::Old }
    }

    /// Is the old version next, and either no RM has anything of either version, or both versions are over?
    /// Then no RM is asked.
    fn is_moot(&self, now: Now) -> bool {
        let versions = [&self.old_candidate, &self.new_candidate];
        let segments = versions.into_iter().flat_map(|version| version.segments.values().flatten());
        let ends = segments.map(|segment| segment.window.end()).max();
        let is_over = ends.is_some_and(|ends| ends <= now.wall);
        self.turn() == MendTarget::Old && (self.parts.is_empty() || is_over)
    }

    /// The next candidate. Every RM that has something of either version takes part. In going back to the old
    /// version no other RM does: one that has lost its part is left to reconciliation.
    fn next(&self, now: Now) -> Candidate {
        let (version, others) = match self.turn() {
            MendTarget::New => (&self.new_candidate, true),
            MendTarget::Old => (&self.old_candidate, self.is_moot(now)),
        };
        let mut segments = version.segments.clone();
        segments.retain(|rm, _| others || self.parts.contains_key(rm));
        for rm in self.parts.keys() {
            segments.entry(rm.clone()).or_default();
        }
        let (details, servers) = (version.details.clone(), version.servers.clone());
        let (kinds, manual_provision) = (version.kinds.clone(), version.manual_provision);
        Candidate { segments, details, servers, kinds, manual_provision, ..Candidate::default() }
    }

    /// What is booked when the attempt is. A part that an RM has lost still counts, so that the difference is
    /// noticed.
    fn booked(&self) -> Option<Candidate> {
        let mut booked = self.attempt.clone()?;
        if self.turn() == MendTarget::Old {
            for (rm, wanted) in &self.old_candidate.segments {
                booked.segments.entry(rm.clone()).or_insert_with(|| wanted.clone());
            }
        }
        Some(booked)
    }

    /// The time from the last failure to the next attempt.
    fn pause(&self) -> Span {
        // Going back to the old version is tried at once. Then both are tried again, with a growing backoff.
        match self.turn() {
            MendTarget::Old => Span::ZERO,
            MendTarget::New => {
                let doubled = (self.failed / 2).min(limits::MEND_DOUBLINGS_MAX);
                limits::RESEND_FIRST.saturating_mul(1 << doubled)
            }
        }
    }
}

/// Does this refusal of a Hold say that what it was to replace no longer exists? That the Hold's own
/// transaction was aborted or has expired says nothing about that.
const fn says_gone(reason: Reason) -> bool {
    matches!(reason, Reason::NotHeld | Reason::Replaced)
}

impl Coordinator {
    /// Every RM has answered the Commit of a change, and some have not booked.
    pub(super) fn split(
        &mut self,
        txn: &TransactionId,
        refused: BTreeMap<RmName, Refusal>,
        now: Now,
        out: &mut StepOutput,
    ) {
        let reservation = self.transactions.get(txn).map(|txn| txn.reservation.clone());
        self.record(
            CoordinatorRecord::Split {
                txn: txn.clone(),
                refused,
                state: stamped::STATE,
                active: stamped::ACTIVE,
                at: now,
            },
            out,
        );
        self.set_alarm(txn);
        if let Some(id) = reservation {
            self.mend(&id, now, out);
        }
    }

    /// Opens the next attempt to mend a reservation, if its RMs have two different versions.
    pub(super) fn mend(&mut self, id: &ReservationId, now: Now, out: &mut StepOutput) {
        let Some(mending) = self.mendings.open.get(id) else { return };
        let (candidate, is_moot) = (mending.next(now), mending.is_moot(now));
        let (old, mends) = (mending.old.clone(), Some(mending.turn()));
        let txn = self.next_attempt(id);
        let record = CoordinatorRecord::Intent {
            txn: txn.clone(),
            reservation: id.clone(),
            candidate,
            replaces: Some(old),
            mends,
            anew: Vec::new(),
            version: stamped::VERSION,
            active: stamped::ACTIVE,
            at: now,
        };
        self.record(record, out);
        if is_moot {
            self.decide_unasked(&txn, now, out);
        } else {
            self.send_due(&txn, now, out);
        }
    }

    /// An attempt to mend has failed, and every RM has dropped it.
    pub(super) fn mend_again(&mut self, id: &ReservationId, now: Now, out: &mut StepOutput) {
        let Some(mending) = self.mendings.open.get(id) else { return };
        match mending.pause() {
            Span::ZERO => self.mend(id, now, out),
            pause => {
                self.mendings.due.insert(id.clone(), now.boot.saturating_add(pause));
            }
        }
    }

    /// Makes the attempts whose backoff has ended.
    pub(super) fn mend_due(&mut self, now: Now, out: &mut StepOutput) {
        let due = self.mendings.due.iter().filter(|(_, at)| **at <= now.boot);
        let due: Vec<ReservationId> = due.map(|(id, _)| id.clone()).collect();
        for id in due {
            self.mendings.due.remove(&id);
            self.mend(&id, now, out);
        }
    }

    /// When the first backoff ends.
    pub(super) fn next_mend(&self) -> Option<BootTime> {
        self.mendings.due.values().min().copied()
    }

    /// After a restart, resumes every mending without an attempt under way.
    pub(super) fn start_mending(&mut self, now: Now, out: &mut StepOutput) {
        let idle = self.mendings.open.keys().filter(|id| !self.is_mended(id));
        let idle: Vec<ReservationId> = idle.cloned().collect();
        for id in idle {
            self.mend(&id, now, out);
        }
    }

    /// Is an attempt to mend this reservation under way?
    fn is_mended(&self, id: &ReservationId) -> bool {
        self.attempts_of(id).any(|(_, txn)| txn.mends && !txn.is_done())
    }

    /// Ends the attempt to mend a reservation that has been released meanwhile, if the attempt is undecided.
    pub(super) fn end_mending(&mut self, id: &ReservationId, now: Now, out: &mut StepOutput) {
        self.mendings.due.remove(id);
        let undecided =
            self.attempts_of(id).find(|(_, txn)| txn.mends && txn.goal == TransactionGoal::Hold);
        if let Some(txn) = undecided.map(|(txn, _)| txn.clone()) {
            let text = "the reservation was released before the change was mended";
            self.abort(&txn, Refusal::new(Reason::Released, text), None, now, out);
        }
    }

    /// Sends what a release of this reservation has made due.
    pub(super) fn send_released(&mut self, id: &ReservationId, now: Now, out: &mut StepOutput) {
        let known = self.reservations.get(id).and_then(|known| known.transaction.clone());
        let own = self
            .attempts_of(id)
            .filter(|(_, txn)| txn.goal == TransactionGoal::Release && !txn.is_done());
        // A transaction that has mended back to an old version has an id of the new reservation, so
        // `attempts_of` does not find it.
        let all: BTreeSet<TransactionId> = own.map(|(txn, _)| txn.clone()).chain(known).collect();
        for txn in all {
            self.send_due(&txn, now, out);
        }
    }

    pub(super) fn fold_split(
        &mut self,
        txn: &TransactionId,
        refused: &BTreeMap<RmName, Refusal>,
    ) -> Result<(), ReplayError> {
        let transaction = self.transaction_mut(txn)?;
        let (id, old) = (transaction.reservation.clone(), transaction.replaces.clone());
        let Some(old) =
            old.filter(|_| transaction.goal == TransactionGoal::Commit && !transaction.is_done())
        else {
            return Err(ReplayError(format!("{txn} is split but was not to be committed")));
        };
        transaction.finish();
        let booked: Vec<RmName> =
            transaction.parties().filter(|rm| !refused.contains_key(*rm)).cloned().collect();
        let why = refused.iter().next().map(|(rm, why)| late(rm, why));
        let why = why.unwrap_or_else(|| Refusal::new(Reason::Expired, "it was not booked"));
        if !self.mendings.open.contains_key(&id) {
            if booked.is_empty() {
                // No RM has booked it, so the old version is intact.
                return self.fold_change_missed(&id, &why);
            }
            let mending = self.begin_mending(&id, old, why.clone())?;
            self.mendings.open.insert(id.clone(), mending);
        }
        if let Some(mending) = self.mendings.open.get_mut(&id) {
            // If this was an attempt to mend, it has failed, too.
            let version = mending.turn();
            mending.failed += u32::from(mending.attempt.is_some());
            let this = |rm: RmName| (rm, (txn.clone(), version));
            mending.parts.extend(booked.into_iter().map(this));
            mending.refused.extend(refused.keys().cloned().map(this));
        }
        let reservation = self.reservation_mut(&id)?;
        match reservation.change.as_mut().filter(|change| change.is_under_way()) {
            Some(change) => change.refusal = Some(why),
            None => reservation.attempt_refusals.push(why),
        }
        Ok(())
    }

    /// The beginning of mending a change. So far every RM has the old version.
    fn begin_mending(
        &self,
        id: &ReservationId,
        old: TransactionId,
        why: Refusal,
    ) -> Result<Mending, ReplayError> {
        let missing = || ReplayError(format!("{id} is split but replaces nothing"));
        let known = self.reservations.get(id).ok_or_else(missing)?;
        let (old_version, new_version) = match known.change.as_ref().filter(|c| c.is_under_way()) {
            Some(change) => (known.candidate.as_ref(), change.candidate.as_ref()),
            None => (
                self.old_for_parent(id).and_then(|old| old.candidate.as_ref()),
                known.candidate.as_ref(),
            ),
        };
        let old_candidate = old_version.cloned().ok_or_else(missing)?;
        let new_candidate = new_version.cloned().ok_or_else(missing)?;
        let has = |rm: &RmName| (rm.clone(), (old.clone(), MendTarget::Old));
        let parts = old_candidate.segments.keys().map(has).collect();
        let (refused, failed, attempt) = (BTreeMap::new(), 0, None);
        Ok(Mending { old, old_candidate, new_candidate, parts, refused, why, failed, attempt })
    }

    /// No RM has booked a change that was decided. Nothing has changed.
    fn fold_change_missed(&mut self, id: &ReservationId, why: &Refusal) -> Result<(), ReplayError> {
        let unfinished = self.has_unfinished_change(id);
        let reservation = self.reservation_mut(id)?;
        match reservation.change.as_mut().filter(|change| change.is_under_way()) {
            Some(change) => {
                change.state =
                    if unfinished { ChangeState::Aborting } else { ChangeState::Refused };
                change.refuse(why);
            }
            None => {
                reservation.state = if unfinished { State::Aborting } else { State::Failed };
                reservation.refusal = Some(why.clone());
            }
        }
        Ok(())
    }

    /// An attempt to mend opens.
    pub(super) fn fold_mend_opened(
        &mut self,
        txn: &TransactionId,
        id: &ReservationId,
        candidate: &Candidate,
        at: Now,
    ) -> Result<(), ReplayError> {
        if self.transactions.contains_key(txn) {
            return Err(ReplayError(format!("{txn} begins twice")));
        }
        let Some(mending) = self.mendings.open.get_mut(id) else {
            return Err(ReplayError(format!("{txn} mends {id}, which is whole")));
        };
        let mut transaction = Transaction::new(id.clone(), candidate, at.boot);
        let has = mending.parts.iter().map(|(rm, (txn, _))| (rm, txn));
        transaction.replace(&mending.old, has);
        transaction.mends = true;
        mending.attempt = Some(candidate.clone());
        let reservation = self.reservation_mut(id)?;
        if let Some(change) = reservation.change.as_mut().filter(|change| change.is_under_way()) {
            change.transaction = Some(txn.clone());
            change.attempts += 1;
        } else {
            let before = reservation.transaction.replace(txn.clone());
            reservation.attempts += 1;
            // The promise to the parent was made once, and stays as it was.
            let before = before.and_then(|before| self.transactions.get(&before));
            transaction.promise = before.and_then(|before| before.promise.clone());
        }
        self.reservation_mut(id)?.opened += 1;
        self.attempts.opened += 1;
        self.transactions.insert(txn.clone(), transaction);
        Ok(())
    }

    /// An attempt to mend was decided against: the other version is next.
    pub(super) fn fold_mend_aborted(&mut self, id: &ReservationId, refusal: Option<&Refusal>) {
        let Some(mending) = self.mendings.open.get_mut(id) else { return };
        mending.failed += 1;
        let gone = refusal.filter(|refusal| says_gone(refusal.reason));
        let Some((gone, rm)) = gone.and_then(|gone| Some((gone, gone.rm.as_ref()?))) else {
            return;
        };
        let after_all = mending.refused.remove(rm).filter(|_| gone.reason == Reason::Replaced);
        match after_all {
            Some(booked) => mending.parts.insert(rm.clone(), booked),
            None => mending.parts.remove(rm),
        };
    }

    /// An attempt to mend is booked everywhere: all RMs have the same version again.
    pub(super) fn fold_mended(
        &mut self,
        id: &ReservationId,
        txn: &TransactionId,
    ) -> Result<(), ReplayError> {
        let missing = || ReplayError(format!("{txn} mends {id}, which is whole"));
        let mending = self.mendings.open.remove(id).ok_or_else(missing)?;
        let forward = mending.turn() == MendTarget::New;
        let booked = mending.booked().ok_or_else(missing)?;
        let old_above = self.old_for_parent(id).map(|old| old.id.clone());
        let reservation = self.reservation_mut(id)?;
        match reservation.change.as_mut().filter(|change| change.is_under_way()) {
            Some(change) => {
                reservation.transaction = Some(txn.clone());
                reservation.candidate = Some(booked);
                if forward {
                    change.state = ChangeState::Done;
                    change.candidate = None;
                    change.refusal = None;
                    reservation.notes = std::mem::take(&mut change.notes);
                    reservation.version += 1;
                } else {
                    change.state = ChangeState::Refused;
                    change.refuse(&mending.why);
                }
                self.supersede_all(id);
                self.fold_servers(id, txn)
            }
            // The parent says when nobody goes back to the old version any more.
            None if forward => {
                reservation.candidate = Some(booked);
                reservation.state = State::Confirmed;
                self.fold_servers(id, txn)
            }
            None => {
                reservation.state = State::Failed;
                reservation.refusal = Some(mending.why);
                let old_id = old_above.ok_or_else(missing)?;
                let old = self.reservation_mut(&old_id)?;
                old.transaction = Some(txn.clone());
                old.candidate = Some(booked);
                self.transaction_mut(txn)?.reservation = old_id.clone();
                self.forgetting.note_foreign(old_id.clone(), txn.clone());
                self.supersede_all(id);
                self.supersede_all(&old_id);
                self.fold_servers(&old_id, txn)
            }
        }
    }

    /// A reservation with two different versions is released: everything that any RM may have of it.
    pub(super) fn fold_mending_released(
        &mut self,
        id: &ReservationId,
    ) -> Result<bool, ReplayError> {
        if self.mendings.open.remove(id).is_none() {
            return Ok(false);
        }
        let current = self.reservation_mut(id)?.transaction.clone();
        let booked = self.attempts_of(id).filter(|(_, txn)| txn.goal == TransactionGoal::Commit);
        let booked: BTreeSet<TransactionId> =
            booked.map(|(txn, _)| txn.clone()).chain(current).collect();
        for txn in booked {
            let transaction = self.transaction_mut(&txn)?;
            // A transaction of another reservation is released together with that one.
            if transaction.reservation == *id && transaction.goal == TransactionGoal::Commit {
                transaction.turn(TransactionGoal::Release);
            }
        }
        Ok(true)
    }

    /// Will mending replace what a transaction has booked for a reservation?
    pub(super) fn is_split(&self, id: &ReservationId, txn: &TransactionId) -> bool {
        self.mendings.open.contains_key(id)
            || self.mendings.open.values().any(|mending| mending.old == *txn)
    }

    /// Checks that every reservation with two different versions is being mended.
    pub(super) fn check_mending(&self) -> Result<(), String> {
        let idle = self
            .mendings
            .open
            .keys()
            .find(|id| !self.is_mended(id) && !self.mendings.due.contains_key(*id));
        idle.map_or(Ok(()), |id| Err(format!("I22: nobody mends {id}")))
    }
}

/// A sentence for people: why a decided change is not booked everywhere.
fn late(rm: &RmName, why: &Refusal) -> Refusal {
    let late = "it was too late to book the new version";
    let detail = match why.detail.starts_with(late) {
        // A child coordinator has said so about its own RM.
        true => why.detail.clone(),
        false => format!("{late} ({})", why.detail),
    };
    Refusal { detail, ..why.clone().at(rm) }
}
