//! Forgetting what has ended for good, so that a coordinator's state is bounded by what lives.
//!
//! A reservation of a user is forgotten a *retention* after its end. For one that is booked, the end is that of its last
//! window; for one that was released or refused, it is when the last RM acknowledged that. While it is remembered, the same
//! request gets the same answer (I8). After that its request id counts as new.
//!
//! ```text
//! Confirmed --last window, retention--> Terminating --all RMs acknowledge the Release--> Terminated --> forgotten
//! Failed, Terminated --retention--> forgotten
//! ```
//!
//! RMs keep a booking until it is released, because only its coordinator knows that no part of it lasts longer. So when
//! the retention of a booked reservation ends, its RMs are sent Release. No RM is ever told anything about a reservation
//! that is forgotten, and no RM knows less about it than the coordinator does. An RM that does not acknowledge is sent
//! Release until an operator gives up on it; meanwhile at most [`limits::FORGET_SLICE`] reservations wait for it.
//!
//! What a parent coordinator has held here is forgotten as at a resource manager: when it has ended, and the parent says
//! that the attempt is at rest (see [`OldestOpen`]). The parent's retention is enough.
//!
//! Ids are never given twice, so what is forgotten stays counted. Reservations are looked at in slices, so that nobody
//! waits for long. Source: docs/adr/0047-forgetting.md, docs/adr/0048-retention.md.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;

use coalloc_common::planted::{self, Bug};
use coalloc_common::{
    BootTime, CoordinatorName, Now, ReservationId, RmName, Span, Time, TransactionId, limits,
};

use super::record::{CoordinatorRecord, stamped};
use super::reservation::{Reservation, State};
use super::transaction::TransactionGoal;
use super::{Coordinator, StepOutput, place_in};
use crate::core::ReplayError;
use crate::oldest_open::OldestOpen;

/// When a coordinator forgets what has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ForgetPolicy {
    /// How long a user's reservation is remembered after its end.
    pub retention: Span,
    /// How soon it is looked for what can be forgotten, after something has ended.
    pub every: Span,
}

/// How much was forgotten so far.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct ForgottenCount {
    /// Reservations.
    pub(super) reservations: u64,
    /// Their attempts.
    pub(super) attempts: u64,
}

/// What was forgotten, and where the next look for what can be forgotten begins.
#[derive(Debug, Clone, Default)]
pub(super) struct Forgetting {
    pub(super) count: ForgottenCount,
    /// The count that the last snapshot has.
    pub(super) count_in_snapshot: ForgottenCount,
    /// Attempts of parents that are known to be at rest.
    pub(super) oldest_open: OldestOpen,
    /// Attempts that belong to another reservation than the one that they are named after, by their reservation.
    foreign: BTreeMap<ReservationId, BTreeSet<TransactionId>>,
    /// When the process started. `None` before that.
    began: Option<Now>,
    /// Something has come to rest since the last look. Lost at a restart.
    stirred: bool,
    /// When to look next, and where; `None` when there is nothing to look for. Lost at a restart.
    next: Option<(BootTime, Place)>,
    /// The first time at which one of those that were looked at may be forgotten. Lost at a restart.
    earliest: Option<Time>,
}

impl Forgetting {
    /// When to look next.
    pub(super) fn due(&self) -> Option<BootTime> {
        self.next.as_ref().map(|(due, _)| *due)
    }

    /// An attempt belongs to another reservation than the one that it is named after.
    pub(super) fn note_foreign(&mut self, reservation: ReservationId, txn: TransactionId) {
        self.foreign.entry(reservation).or_default().insert(txn);
    }

    /// May be forgotten at this time at the earliest.
    fn put_off(&mut self, until: Time) {
        self.earliest = Some(self.earliest.map_or(until, |earliest| earliest.min(until)));
    }
}

/// After which reservation, or after which transaction of a parent, a look begins; `None` for the first one.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Place {
    Reservation(Option<ReservationId>),
    OfParent(Option<TransactionId>),
}

/// What a look has found.
#[derive(Debug, Default)]
struct LookResult {
    /// Reservations to forget.
    reservations: Vec<ReservationId>,
    /// Transactions of parents to forget of which nothing else is known.
    tombstones: Vec<TransactionId>,
    /// By ledger of a parent, the oldest open attempts by which they may be forgotten.
    oldest_open: BTreeMap<String, u64>,
    /// Booked reservations whose retention has ended.
    ended: Vec<ReservationId>,
}

impl LookResult {
    fn is_full(&self) -> bool {
        let Self { reservations, tombstones, ended, .. } = self;
        reservations.len() + tombstones.len() + ended.len() >= limits::FORGET_BATCH
    }
}

/// What is to be done about a reservation of a user.
enum Fate {
    Forget,
    /// Its RMs are told to release it.
    End,
    /// Nothing before this time.
    Later(Time),
    /// Nothing until something happens to it.
    Wait,
}

impl Coordinator {
    /// Notes what a parent says about its oldest open attempt with a Hold.
    pub(super) fn hear_oldest_open(
        &mut self,
        txn: &TransactionId,
        by: &CoordinatorName,
        number: u64,
    ) {
        let is_own = txn.is_of(by) && self.parents.config.coordinators.contains(by);
        if is_own && self.forgetting.oldest_open.hear(txn, by, number) {
            self.forgetting.stirred = true;
        }
    }

    /// The process starts.
    pub(super) fn start_forgetting(&mut self, now: Now) {
        self.forgetting.began = Some(now);
        self.forgetting.stirred = true;
    }

    /// Was the wall clock set far ahead since the process started?
    fn is_clock_set(&self, now: Now) -> bool {
        let gain =
            |began: Now| now.wall.since(began.wall).saturating_sub(now.boot.since(began.boot));
        self.forgetting.began.is_some_and(|began| gain(began) > limits::FORGET_CLOCK_GAIN)
    }

    /// Something has come to rest, so it is worth a look.
    pub(super) fn stir(&mut self) {
        self.forgetting.stirred = true;
    }

    /// After a step: sees to it that a look follows when something has come to rest.
    pub(super) fn plan_to_forget(&mut self, now: Now) {
        let Some(ForgetPolicy { every, .. }) = self.config.forgets else { return };
        let begins = Place::Reservation(None);
        let next = self.forgetting.next.as_ref();
        // A look that is under way may have passed what has come to rest, so another one follows it.
        if !self.forgetting.stirred || next.is_some_and(|(_, place)| *place != begins) {
            return;
        }
        self.forgetting.stirred = false;
        let due = now.boot.saturating_add(every);
        let due = next.map_or(due, |(next, _)| due.min(*next));
        self.forgetting.next = Some((due, begins));
    }

    /// Looks at the next slice, if that is due. Forgets what may be forgotten, and ends the bookings whose retention is
    /// over.
    pub(super) fn forget_due(&mut self, now: Now, out: &mut StepOutput) {
        let Some(ForgetPolicy { retention, every }) = self.config.forgets else { return };
        let Some((_, place)) = self.forgetting.next.clone().filter(|(due, _)| *due <= now.boot)
        else {
            return;
        };
        if self.is_clock_set(now) {
            // Until the next start. Perhaps somebody will have set it right.
            self.forgetting.next = None;
            return;
        }
        if self.room.is_low() {
            // The reserved space is for the ends of what has begun (I17).
            self.forgetting.next = Some((now.boot.saturating_add(every), place));
            return;
        }
        let (found, next) = match place {
            Place::Reservation(after) => self.look_at_reservations(after, retention, now),
            Place::OfParent(after) => self.look_at_parents(after),
        };
        self.forgetting.next = match next {
            Some(place) => Some((now.boot.saturating_add(limits::FORGET_PAUSE.min(every)), place)),
            None => self.forgetting.earliest.take().map(|earliest| {
                let wait = earliest.since(now.wall).max(every).min(limits::FORGET_LATEST);
                (now.boot.saturating_add(wait), Place::Reservation(None))
            }),
        };
        let LookResult { reservations, tombstones, oldest_open, ended } = found;
        if !(reservations.is_empty() && tombstones.is_empty()) {
            let record =
                CoordinatorRecord::Forgotten { oldest_open, reservations, tombstones, at: now };
            self.record(record, out);
        }
        for id in ended {
            self.end_retention(&id, now, out);
        }
    }

    fn look_at_reservations(
        &mut self,
        after: Option<ReservationId>,
        retention: Span,
        now: Now,
    ) -> (LookResult, Option<Place>) {
        let mut waited_for = self.waited_for();
        let mut found = LookResult::default();
        let (mut looked_at, mut last, mut put_off) = (0, None, Vec::new());
        let from = after.map_or(Bound::Unbounded, Bound::Excluded);
        for (id, known) in self.reservations.range((from, Bound::Unbounded)) {
            if looked_at == limits::FORGET_SLICE || found.is_full() {
                break;
            }
            (looked_at, last) = (looked_at + 1, Some(id.clone()));
            match self.fate(known, retention, now) {
                Fate::Forget => found.reservations.push(id.clone()),
                Fate::End => match self.wait_for(known, &mut waited_for) {
                    true => found.ended.push(id.clone()),
                    false => put_off.push(now.wall),
                },
                Fate::Later(until) => put_off.push(until),
                Fate::Wait => {}
            }
        }
        put_off.into_iter().for_each(|until| self.forgetting.put_off(until));
        let is_last = last.as_ref() == self.reservations.last_key_value().map(|(id, _)| id);
        let next = match last.filter(|_| !is_last) {
            Some(last) => Some(Place::Reservation(Some(last))),
            None if self.parents.entries.is_empty() => None,
            None => Some(Place::OfParent(None)),
        };
        (found, next)
    }

    fn look_at_parents(&self, after: Option<TransactionId>) -> (LookResult, Option<Place>) {
        let mut found = LookResult::default();
        let (mut looked_at, mut last) = (0, None);
        let from = after.map_or(Bound::Unbounded, Bound::Excluded);
        for (txn, entry) in self.parents.entries.range((from, Bound::Unbounded)) {
            if looked_at == limits::FORGET_SLICE || found.is_full() {
                break;
            }
            (looked_at, last) = (looked_at + 1, Some(txn.clone()));
            let Some((ledger, attempt, Some(number))) =
                self.forgetting.oldest_open.of(txn, &entry.coordinator)
            else {
                continue;
            };
            let may = attempt < number
                && match &entry.order {
                    Some((_, id)) => self.has_ended_for_parent(id),
                    None => true,
                };
            if !may {
                continue;
            }
            found.oldest_open.insert(ledger, number);
            match &entry.order {
                Some((_, id)) => found.reservations.push(id.clone()),
                None => found.tombstones.push(txn.clone()),
            }
        }
        let is_last = last.as_ref() == self.parents.entries.last_key_value().map(|(txn, _)| txn);
        let next = last.filter(|_| !is_last).map(|last| Place::OfParent(Some(last)));
        (found, next)
    }

    fn fate(&self, known: &Reservation, retention: Span, now: Now) -> Fate {
        if known.parent_transaction.is_some() || !self.is_idle(&known.id) {
            return Fate::Wait;
        }
        if self.conversations.changes.contains_key(&known.id) {
            // Planning may end without a record, and then nothing else says that it is time to look again.
            return Fate::Later(now.wall);
        }
        let until = retention_from(known).saturating_add(retention);
        match known.state {
            State::Failed | State::Terminated if known.retention_ended || until <= now.wall => {
                if self.has_ended(known) {
                    Fate::Forget
                } else {
                    Fate::Wait
                }
            }
            State::Confirmed if until <= now.wall => Fate::End,
            State::Failed | State::Terminated | State::Confirmed => Fate::Later(until),
            State::Checking
            | State::Held
            | State::Committing
            | State::Aborting
            | State::Terminating => Fate::Wait,
        }
    }

    /// Is nothing of a reservation under way, here or at any RM?
    fn is_idle(&self, id: &ReservationId) -> bool {
        self.is_at_rest(id) && !self.has_unfinished(id)
    }

    /// Has all of a reservation ended for good, as every RM knows? An operator may have given up on an RM.
    fn has_ended(&self, known: &Reservation) -> bool {
        let id = &known.id;
        // An attempt of another reservation is forgotten together with that one.
        let ended = self.attempts_of(id).all(|(_, txn)| txn.reservation == *id && txn.is_done());
        // A parent may still go back to a version that was replaced, and its RMs keep it until then.
        let stands = known.transaction.as_ref().and_then(|txn| self.transactions.get(txn));
        let is_kept = known.state == State::Terminated
            && stands.is_some_and(|txn| txn.goal == TransactionGoal::Commit);
        let owes = |rm: &RmName, txn: &TransactionId| {
            let of = self.transactions.get(txn).is_some_and(|txn| txn.reservation == *id);
            of && !known.given_up.iter().any(|one| one.rm == *rm && one.txn == *txn)
        };
        known.is_over()
            && ended
            && !is_kept
            && !self.disowning.all.keys().any(|(rm, txn)| owes(rm, txn))
    }

    /// Has what a parent has held here ended, so that it may be forgotten once the parent is at rest with it? As at a
    /// resource manager, a version that was replaced is kept while the newer one lives.
    fn has_ended_for_parent(&self, id: &ReservationId) -> bool {
        let Some(known) = self.reservations.get(id) else { return false };
        let newer = self.parents.replacing.get(id).and_then(|newer| self.reservations.get(newer));
        self.is_idle(id) && self.has_ended(known) && newer.is_none_or(Reservation::is_over)
    }

    /// How many ends of a retention wait for each RM.
    fn waited_for(&self) -> BTreeMap<RmName, usize> {
        let mut waited_for = BTreeMap::new();
        let open = self.alarms.iter().filter_map(|(_, txn)| self.transactions.get(txn));
        for txn in open {
            let of = self.reservations.get(&txn.reservation);
            if of.is_some_and(|of| of.retention_ended) {
                for rm in txn.silent() {
                    *waited_for.entry(rm.clone()).or_default() += 1;
                }
            }
        }
        waited_for
    }

    /// Counts one more end of a retention at each RM of a reservation, unless one of them has too many already.
    fn wait_for(&self, known: &Reservation, waited_for: &mut BTreeMap<RmName, usize>) -> bool {
        let txn = known.transaction.as_ref().and_then(|txn| self.transactions.get(txn));
        let Some(txn) = txn else { return false };
        let is_full = |rm| waited_for.get(rm).is_some_and(|many| *many >= limits::FORGET_SLICE);
        if txn.parties().any(is_full) {
            return false;
        }
        for rm in txn.parties() {
            *waited_for.entry(rm.clone()).or_default() += 1;
        }
        true
    }

    fn end_retention(&mut self, id: &ReservationId, now: Now, out: &mut StepOutput) {
        let txn = self.reservations.get(id).and_then(|known| known.transaction.clone());
        let Some(txn) = txn else { return };
        let version = stamped::VERSION;
        let record = CoordinatorRecord::RetentionEnded { txn: txn.clone(), version, at: now };
        self.record(record, out);
        if planted::is(Bug::RetentionUnsent)
            && let Some(transaction) = self.transactions.get_mut_unnoted(&txn)
        {
            transaction.answer_all();
        }
        self.finish_or_go_on(&txn, now, out);
    }

    pub(super) fn fold_retention_ended(&mut self, txn: &TransactionId) -> Result<(), ReplayError> {
        let transaction = self.transaction_mut(txn)?;
        let id = transaction.reservation.clone();
        let is_booked = transaction.is_done() && transaction.goal == TransactionGoal::Commit;
        let known = self.reservation_mut(&id)?;
        if !is_booked || known.state != State::Confirmed || known.transaction.as_ref() != Some(txn)
        {
            return Err(ReplayError(format!("the retention of {txn} ends, but it is not booked")));
        }
        known.state = State::Terminating;
        known.retention_ended = true;
        self.transaction_mut(txn)?.turn(TransactionGoal::Release);
        Ok(())
    }

    pub(super) fn fold_forgotten(
        &mut self,
        oldest_open: &BTreeMap<String, u64>,
        reservations: &[ReservationId],
        tombstones: &[TransactionId],
    ) -> Result<(), ReplayError> {
        for id in reservations {
            if !self.reservations.get(id).is_some_and(|known| self.has_ended(known)) {
                return Err(ReplayError(format!("{id} is forgotten but has not ended")));
            }
        }
        for txn in tombstones {
            if self.parents.entries.get(txn).is_none_or(|entry| entry.order.is_some()) {
                return Err(ReplayError(format!("{txn} is forgotten but is no tombstone")));
            }
        }
        self.forgetting.oldest_open.fold(oldest_open);
        reservations.iter().for_each(|id| self.forget(id));
        for txn in tombstones {
            self.parents.entries.remove(txn);
        }
        Ok(())
    }

    /// Removes all that is known of a reservation.
    fn forget(&mut self, id: &ReservationId) {
        let old = self.old_for_parent(id).map(|old| old.id.clone());
        let named = self.attempts_of(id).map(|(txn, _)| txn.clone());
        let mut attempts: BTreeSet<TransactionId> = named.collect();
        attempts.extend(self.forgetting.foreign.remove(id).unwrap_or_default());
        let Some(known) = self.reservations.remove(id) else { return };
        self.forgetting.count.reservations += 1;
        self.forgetting.count.attempts += u64::from(known.opened);
        if let Some(place) = place_in(id.as_str()) {
            self.order.remove(&place);
        }
        let request = &known.ticket.request;
        if self.by_request.get(request) == Some(id) {
            self.by_request.remove(request);
        }
        for one in &known.given_up {
            self.disowning.remove(&(one.rm.clone(), one.txn.clone()));
        }
        for txn in &attempts {
            self.transactions.remove(txn);
            self.promises.forget(txn);
        }
        self.past_changes.remove(id);
        self.reports.of.remove(id);
        self.parents.replacing.remove(id);
        if let Some(old) = old.filter(|old| self.parents.replacing.get(old) == Some(id)) {
            self.parents.replacing.remove(&old);
        }
        if let Some(txn) = &known.parent_transaction {
            self.parents.entries.remove(txn);
        }
        self.note_rest(id);
    }
}

/// From when the retention of a reservation at rest is counted.
fn retention_from(known: &Reservation) -> Time {
    let rest = known.at_rest_since.unwrap_or(known.created);
    let booked = known.candidate.iter().filter(|_| known.state == State::Confirmed);
    let segments = booked.flat_map(|booked| booked.segments.values().flatten());
    segments.map(|segment| segment.window.end()).max().map_or(rest, |end| end.max(rest))
}
