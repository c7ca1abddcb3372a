//! A coordinator as a participant: what the coordinators above it may hold, commit, abort and release.
//!
//! To them it is one more RM. A hold from above becomes a reservation of its own, whose candidates
//! the shell plans; when every inner RM holds, the transaction is *prepared* instead of decided, and
//! the answer is Held. From then on the decision is not ours: it comes from above, by Commit or Abort
//! or by an answer to our question; at the latest the promise ends (its own hard expiry, before that
//! of any inner hold), and the transaction is aborted by a record.
//!
//! ```text
//! Hold      -> (planned, held inside) --all inner yes--> Held        --Commit--> D3, Committing -> Done
//!                   | one inner no                        | Abort, expiry
//!                   v                                     v
//!               Refused                              Aborting -> Failed -> Done
//! ```
//!
//! Answers are made of the state of the reservation alone, so the same message gets the same answer
//! for ever (I8), also after a restart. What is under way is answered when it has ended. A message
//! about a transaction never heard of leaves a tombstone (I9). An inner RM that asks about a prepared
//! transaction hears "no answer yet": only the one above may decide it.
//!
//! A hold that replaces a booking is a reservation of its own, see [`upper_change`](super::upper_change).

use std::collections::BTreeSet;

use coalloc_common::planted::{self, Bug};
use coalloc_common::{
    BootTime, CoordinatorName, Now, Reason, Refusal, RequestId, ReservationId, RmName, Span,
    TransactionId, limits,
};

use super::converse::best_first;
use super::record::CoordinatorRecord;
use super::reservation::{Reservation, State};
use super::retrying::RetryState;
use super::transaction::TransactionGoal;
use super::{Candidate, Coordinator, CoordinatorEffect, MessageKind, Reply, StepOutput, Ticket};
use crate::conversation::{Caller, Next, ParentReply, ParentWaiter, PlanJob, PlanTarget};
use crate::core::ReplayError;
use crate::message::{Answer, Decision, HoldOrder, Resolution, Token};
use crate::participant::ask_by;

/// Whom this coordinator serves as an RM, and how long its promises last.
#[derive(Debug, Clone, Default)]
pub struct ParentConfig {
    /// Who may hold here.
    pub coordinators: BTreeSet<CoordinatorName>,
    /// Ask the one above after this long, unless its hold says otherwise.
    pub soft: Span,
    /// A promise lasts at most this long.
    pub hard: Span,
    /// The running boot of this machine: boot times compare only within one.
    pub boot: String,
}

/// What came from a parent coordinator besides a Hold, which opens a [conversation](crate::conversation).
#[derive(Debug, Clone)]
pub enum ParentInput {
    /// Phase two, either way, or the end of a booking.
    End {
        /// Of which transaction.
        txn: TransactionId,
        /// Who says so.
        by: CoordinatorName,
        /// Which: everything but Hold.
        kind: MessageKind,
        /// Who waits.
        token: Token<ParentReply>,
    },
    /// What came of a [`CoordinatorEffect::AskParent`].
    Resolved {
        /// Of which transaction.
        txn: TransactionId,
        /// The answer, or that none came.
        resolution: Resolution,
    },
}

/// One transaction of a coordinator above.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ParentEntry {
    /// Whose it is.
    pub coordinator: CoordinatorName,
    /// Its content, and the reservation that it became here; `None` for a tombstone.
    pub order: Option<(HoldOrder, ReservationId)>,
}

/// A Hold that came before.
enum KnownHold {
    /// With this answer.
    Answered(Answer),
    /// As this reservation, of whose state the answer is made.
    Opened(ReservationId),
}

/// A promise that was given above.
#[derive(Debug, Clone)]
pub(super) struct Promise {
    /// When it was given, and in which boot.
    since: Now,
    boot: String,
    /// The interval that the one above was told.
    expires_in: Span,
    /// Over from here on, by our clock.
    hard_at: BootTime,
    /// When to ask next, and how often it was asked.
    ask_at: BootTime,
    asked: u32,
}

impl Promise {
    pub(super) fn alarm(&self) -> BootTime {
        self.ask_at.min(self.hard_at)
    }
}

impl Coordinator {
    /// Lets coordinators above hold here.
    pub fn serve_parents(&mut self, above: ParentConfig) {
        self.parents = above;
    }

    /// Every transaction of a coordinator above, by id.
    #[must_use]
    pub const fn parent_entries(&self) -> &std::collections::BTreeMap<TransactionId, ParentEntry> {
        &self.parent_entries
    }

    /// Until when the promise of a prepared transaction lasts.
    #[must_use]
    pub fn promised_until(&self, reservation: &Reservation) -> Option<BootTime> {
        let txn = self.transactions.get(reservation.transaction.as_ref()?)?;
        txn.promise.as_ref().filter(|_| txn.goal == TransactionGoal::Prepared).map(|p| p.hard_at)
    }

    /// When the one above is asked next about a prepared transaction.
    #[must_use]
    pub fn asks_parent_at(&self, reservation: &Reservation) -> Option<BootTime> {
        let txn = self.transactions.get(reservation.transaction.as_ref()?)?;
        txn.promise.as_ref().filter(|_| txn.goal == TransactionGoal::Prepared).map(|p| p.ask_at)
    }

    /// Was a reservation ever promised to the one above? Once it is decided this never changes.
    #[must_use]
    pub fn was_promised(&self, reservation: &Reservation) -> bool {
        let txn = reservation.transaction.as_ref().and_then(|txn| self.transactions.get(txn));
        txn.is_some_and(|txn| txn.promise.is_some())
    }

    pub(super) fn parent_input(&mut self, input: ParentInput, now: Now, out: &mut StepOutput) {
        match input {
            ParentInput::End { txn, by, kind, token } => {
                self.parent_end(&txn, by, kind, token, now, out)
            }
            ParentInput::Resolved { txn, resolution } => {
                self.parent_resolved(&txn, resolution, now, out)
            }
        }
    }

    /// A Hold of a parent came, or was planned.
    pub(super) fn parent_hold(
        &mut self,
        order: HoldOrder,
        planned: Option<Result<Vec<Candidate>, Refusal>>,
        token: Token<Next<ParentReply>>,
        now: Now,
        out: &mut StepOutput,
    ) {
        let waiter = ParentWaiter::Hold(token);
        match self.known_hold(&order) {
            Some(KnownHold::Answered(answer)) => return out.effects.push(waiter.answer(answer)),
            Some(KnownHold::Opened(id)) => {
                return self.answer_parent(&id, MessageKind::Hold, waiter, out);
            }
            None => {}
        }
        // As at a participant: told, and not written down.
        if let Some(answer) = self.room.refuse(&order, &self.rm_name()) {
            return out.effects.push(waiter.answer(answer));
        }
        let Some(outcome) = planned else {
            let job = PlanJob::first(PlanTarget::ParentHold(order));
            return out.reply(Reply::ParentHold(token, Next::Plan(job)));
        };
        let outcome = match self.refusal_of_replacing(&order) {
            Some(refusal) => Err(refusal),
            None if order.one_way => {
                let text = "behind a coordinator nothing is booked with one message";
                Err(Refusal::new(Reason::Denied, text))
            }
            None => outcome.map(|candidates| self.with_parties_for_parent(&order, candidates)),
        };
        let id = format!("{}-{}-{}", self.config.name, self.config.tag, self.order.len() + 1);
        let id = ReservationId::composed(id);
        let record =
            CoordinatorRecord::ParentHoldOpened { reservation: id.clone(), order, at: now };
        self.record(record, out);
        self.answer_parent(&id, MessageKind::Hold, waiter, out);
        match best_first(outcome) {
            Ok((first, rest)) => {
                let trying = RetryState::for_parent(rest, Caller::ParentHold(token), now);
                self.trying.insert(id.clone(), trying);
                self.attempt(&id, first, now, out);
            }
            Err(refusal) => self.conclude(&id, refusal, now, out),
        }
    }

    /// What is known of a Hold that came. Refusals come in a fixed order, as a participant's: who, known before,
    /// what.
    fn known_hold(&self, order: &HoldOrder) -> Option<KnownHold> {
        let answered = |answer| Some(KnownHold::Answered(answer));
        if !order.txn.is_of(&order.coordinator) {
            return answered(Answer::Denied);
        }
        if let Some(answer) = self.room.remembered(order, &self.rm_name()) {
            return answered(answer);
        }
        if let Some(entry) = self.parent_entries.get(&order.txn) {
            return match &entry.order {
                _ if entry.coordinator != order.coordinator => answered(Answer::Denied),
                Some((known, _)) if known != order => answered(Answer::OtherContent),
                Some((_, id)) => Some(KnownHold::Opened(id.clone())),
                None => {
                    let text = format!("{} was ended before this Hold came", order.txn);
                    answered(Answer::Refused(Refusal::new(Reason::Aborted, text)))
                }
            };
        }
        let is_served = self.parents.coordinators.contains(&order.coordinator);
        if is_served { None } else { answered(Answer::Denied) }
    }

    fn parent_end(
        &mut self,
        txn: &TransactionId,
        by: CoordinatorName,
        kind: MessageKind,
        token: Token<ParentReply>,
        now: Now,
        out: &mut StepOutput,
    ) {
        let waiter = ParentWaiter::End(token);
        let known = self.parent_entries.get(txn);
        let allowed = match known {
            Some(entry) => entry.coordinator == by,
            None => self.parents.coordinators.contains(&by) && txn.is_of(&by),
        };
        if !allowed {
            return out.effects.push(waiter.answer(Answer::Denied));
        }
        let Some((_, id)) = known.and_then(|entry| entry.order.clone()) else {
            if known.is_none() {
                let record = CoordinatorRecord::ParentTombstone {
                    txn: txn.clone(),
                    coordinator: by,
                    at: now,
                };
                self.record(record, out);
            }
            let answer = match kind {
                MessageKind::Commit | MessageKind::Hold => {
                    let text = format!("nothing is held for {txn} here, and never will be");
                    Answer::Refused(Refusal::new(Reason::NotHeld, text).at(&self.rm_name()))
                }
                MessageKind::Abort | MessageKind::Release => Answer::Done,
            };
            return out.effects.push(waiter.answer(answer));
        };
        match (kind, self.reservations.get(&id).map(|r| r.state)) {
            (MessageKind::Commit, Some(State::Held)) => self.parent_commit(&id, now, out),
            (MessageKind::Commit, Some(State::Checking)) => {
                let text = "it was to be committed before it was held";
                self.drop_parent_hold(&id, Refusal::new(Reason::NotHeld, text), now, out);
            }
            (MessageKind::Abort | MessageKind::Release, Some(State::Checking | State::Held)) => {
                let text = "aborted by the coordinator above";
                self.drop_parent_hold(&id, Refusal::new(Reason::Aborted, text), now, out);
            }
            (MessageKind::Release, Some(State::Committing | State::Confirmed)) => {
                self.release_for_parent(&id, now, out);
            }
            (MessageKind::Release, Some(State::Terminated)) => self.supersede(&id, now, out),
            _ => {}
        }
        self.answer_parent(&id, kind, waiter, out);
    }

    fn parent_resolved(
        &mut self,
        txn: &TransactionId,
        resolution: Resolution,
        now: Now,
        out: &mut StepOutput,
    ) {
        let Some((_, id)) = self.parent_entries.get(txn).and_then(|entry| entry.order.clone())
        else {
            return;
        };
        if self.reservations.get(&id).is_none_or(|r| r.state != State::Held) {
            return;
        }
        match resolution {
            Resolution::Decided(Decision::Commit) => self.parent_commit(&id, now, out),
            Resolution::Decided(Decision::Abort) => {
                let text = "aborted by the coordinator above, which was asked";
                self.drop_parent_hold(&id, Refusal::new(Reason::Aborted, text), now, out);
            }
            // The next question was put off when this one was asked.
            Resolution::NotMine | Resolution::Lost => {}
        }
    }

    /// The one above has decided yes; in time, or too late.
    fn parent_commit(&mut self, id: &ReservationId, now: Now, out: &mut StepOutput) {
        let Some(txn) = self.reservations.get(id).and_then(|r| r.transaction.clone()) else {
            return;
        };
        let promise = self.transactions.get(&txn).and_then(|txn| txn.promise.as_ref());
        if promise.is_none_or(|promise| promise.hard_at <= now.boot) {
            return self.drop_parent_hold(id, expired(), now, out);
        }
        if let Some(refusal) = self.lost_old_for_parent(id) {
            return self.drop_parent_hold(id, refusal, now, out);
        }
        // From here nothing can fail: every inner hold outlives the promise.
        self.decide_commit(&txn, now, out);
    }

    /// Ends what is not decided yet, for good: the last attempt and the reservation.
    fn drop_parent_hold(
        &mut self,
        id: &ReservationId,
        refusal: Refusal,
        now: Now,
        out: &mut StepOutput,
    ) {
        self.trying.remove(id);
        let txn = self.reservations.get(id).and_then(|r| r.transaction.clone());
        let undecided = txn.filter(|txn| {
            let goal = self.transactions.get(txn).map(|txn| txn.goal);
            matches!(goal, Some(TransactionGoal::Hold | TransactionGoal::Prepared))
        });
        if let Some(txn) = undecided {
            self.abort(&txn, refusal.clone(), None, now, out);
        }
        if self.reservations.get(id).is_some_and(|r| r.state == State::Checking) {
            self.conclude(id, refusal, now, out);
        }
    }

    /// Every inner RM holds: the promise is made, durably, and the one above decides.
    pub(super) fn prepare(&mut self, id: &TransactionId, now: Now, out: &mut StepOutput) {
        let Some(txn) = self.transactions.get(id) else { return };
        let reservation = txn.reservation.clone();
        // A Commit that comes at the last moment of the promise still finds every inner hold.
        let left = txn.holds_until().since(now.boot).saturating_sub(limits::COMMIT_MARGIN);
        let expires_in = left.min(self.parents.hard).max(Span::ZERO);
        self.trying.remove(&reservation);
        let boot = self.parents.boot.clone();
        let record = CoordinatorRecord::Prepared { txn: id.clone(), expires_in, boot, at: now };
        self.record(record, out);
        self.set_alarm(id);
    }

    /// The alarm of a prepared transaction: the promise is over, or it is time to ask.
    pub(super) fn promise_due(&mut self, id: &TransactionId, now: Now, out: &mut StepOutput) {
        let Some(txn) = self.transactions.get_mut(id) else { return };
        let reservation = txn.reservation.clone();
        let Some(promise) = &mut txn.promise else { return };
        if promise.hard_at <= now.boot {
            return self.drop_parent_hold(&reservation, expired(), now, out);
        }
        promise.asked = promise.asked.saturating_add(1);
        let pause = limits::ask_pause(promise.asked, promise.hard_at.since(now.boot));
        promise.ask_at = now.boot.saturating_add(pause);
        self.set_alarm(id);
        self.ask_parent(&reservation, out);
    }

    /// An inner RM asks about a prepared transaction: so do we.
    pub(super) fn ask_sooner(&mut self, id: &TransactionId, now: Now, out: &mut StepOutput) {
        let Some(txn) = self.transactions.get_mut(id) else { return };
        let Some(promise) = txn.promise.as_mut().filter(|promise| promise.asked == 0) else {
            return;
        };
        promise.ask_at = now.boot;
        self.promise_due(id, now, out);
    }

    fn ask_parent(&self, id: &ReservationId, out: &mut StepOutput) {
        let upper = self.reservations.get(id).and_then(|r| r.parent_transaction.clone());
        if let Some(txn) = upper
            && let Some(entry) = self.parent_entries.get(&txn)
        {
            let coordinator = entry.coordinator.clone();
            out.effects.push(CoordinatorEffect::AskParent { coordinator, txn });
        }
    }

    /// After a restart: deadlines of another boot are counted anew by the wall clock, within what the
    /// promise could have left; and the one above is asked at once.
    pub(super) fn rearm_promise(&mut self, id: &TransactionId, now: Now) {
        let boot = self.parents.boot.clone();
        let Some(txn) = self.transactions.get_mut(id) else { return };
        if let Some(promise) = &mut txn.promise {
            if promise.boot != boot {
                let gone = now.wall.since(promise.since.wall).max(Span::ZERO);
                let left = promise.expires_in.saturating_sub(gone).max(Span::ZERO);
                promise.hard_at = now.boot.saturating_add(left);
            }
            promise.ask_at = now.boot;
        }
        self.set_alarm(id);
    }

    pub(super) fn rm_name(&self) -> RmName {
        RmName::composed(self.config.name.as_str())
    }

    /// Answers now, or when it can be answered.
    pub(super) fn answer_parent(
        &mut self,
        id: &ReservationId,
        kind: MessageKind,
        waiter: ParentWaiter,
        out: &mut StepOutput,
    ) {
        match self.answer_to_parent(id, kind) {
            Some(answer) => out.effects.push(waiter.answer(answer)),
            None => {
                let before = self.conversations.wait_as_parent(id, kind, waiter);
                let sent_again = before.map(|before| before.reply(ParentReply::SentAgain));
                out.effects.extend(sent_again);
            }
        }
    }

    /// Answers all parents whose answer is there.
    pub(super) fn answer_waiting_parents(&mut self, out: &mut StepOutput) {
        for ((id, kind), waiter) in self.conversations.take_parents() {
            self.answer_parent(&id, kind, waiter, out);
        }
    }

    /// The answer that follows from where the reservation stands; `None` while something is under way.
    fn answer_to_parent(&self, id: &ReservationId, kind: MessageKind) -> Option<Answer> {
        let reservation = self.reservations.get(id)?;
        let booked = |text: &str| {
            let refusal = Refusal::new(Reason::NotHeld, text).at(&self.rm_name());
            Some(Answer::Refused(refusal))
        };
        let refused = || {
            let why = reservation.refusal.clone();
            let why = why.unwrap_or_else(|| Refusal::new(Reason::Released, "it was released"));
            Some(Answer::Refused(why))
        };
        match (kind, reservation.state) {
            // What is booked was held once: the answer stays what it was.
            (MessageKind::Hold, State::Held | State::Committing | State::Confirmed) => {
                let txn = self.transactions.get(reservation.transaction.as_ref()?)?;
                let expires_in = txn.promise.as_ref()?.expires_in;
                Some(Answer::Held { expires_in })
            }
            (MessageKind::Hold | MessageKind::Commit, State::Failed | State::Terminated) => {
                refused()
            }
            (MessageKind::Commit, State::Confirmed) => Some(Answer::Done),
            (MessageKind::Abort, State::Committing | State::Confirmed) => {
                booked("it is booked; only Release ends it")
            }
            (MessageKind::Abort | MessageKind::Release, State::Failed | State::Terminated) => {
                Some(Answer::Done)
            }
            _ => None,
        }
    }

    pub(super) fn fold_parent_hold_opened(
        &mut self,
        id: &ReservationId,
        order: &HoldOrder,
        at: Now,
    ) -> Result<(), ReplayError> {
        if self.reservations.contains_key(id) || self.parent_entries.contains_key(&order.txn) {
            return Err(ReplayError(format!("{id} begins twice")));
        }
        // Not in `by_request`: a user's request may bear any name, and must not be taken for it.
        let ticket = Ticket {
            request: RequestId::composed(order.txn.as_str()),
            user: order.user.clone(),
            content: String::new(),
        };
        let mut reservation = Reservation::new(id.clone(), ticket, String::new(), at.wall);
        reservation.parent_transaction = Some(order.txn.clone());
        self.reservations.insert(id.clone(), reservation);
        self.order.push(id.clone());
        let entry = ParentEntry {
            coordinator: order.coordinator.clone(),
            order: Some((order.clone(), id.clone())),
        };
        self.parent_entries.insert(order.txn.clone(), entry);
        Ok(())
    }

    pub(super) fn fold_parent_tombstone(
        &mut self,
        txn: &TransactionId,
        coordinator: &CoordinatorName,
    ) -> Result<(), ReplayError> {
        let entry = ParentEntry { coordinator: coordinator.clone(), order: None };
        match self.parent_entries.insert(txn.clone(), entry) {
            None => Ok(()),
            Some(_) => Err(ReplayError(format!("{txn} of a coordinator above ends twice"))),
        }
    }

    pub(super) fn fold_prepared(
        &mut self,
        txn: &TransactionId,
        expires_in: Span,
        boot: &str,
        at: Now,
    ) -> Result<(), ReplayError> {
        let transaction = self.transaction_mut(txn)?;
        if transaction.goal != TransactionGoal::Hold {
            return Err(ReplayError(format!("{txn} is prepared but was not to be held")));
        }
        let id = transaction.reservation.clone();
        transaction.turn(TransactionGoal::Prepared);
        transaction.answer_all();
        let missing = || ReplayError(format!("{txn} is prepared for nobody"));
        let upper = self.reservation_mut(&id)?.parent_transaction.clone().ok_or_else(missing)?;
        let entry = self.parent_entries.get(&upper).and_then(|entry| entry.order.as_ref());
        let soft = entry.and_then(|(order, _)| order.hold_for).unwrap_or(self.parents.soft);
        // As at a resource manager: a promise that is short is asked about all the same.
        let asked = soft.min(ask_by(expires_in));
        let soft = if planted::is(Bug::PromiseUnasked) { soft } else { asked };
        self.transaction_mut(txn)?.promise = Some(Promise {
            since: at,
            boot: boot.to_owned(),
            expires_in,
            hard_at: at.boot.saturating_add(expires_in),
            ask_at: at.boot.saturating_add(soft),
            asked: 0,
        });
        self.reservation_mut(&id)?.state = State::Held;
        Ok(())
    }
}

fn expired() -> Refusal {
    Refusal::new(Reason::Expired, "the hold had expired before the coordinator above decided")
}
