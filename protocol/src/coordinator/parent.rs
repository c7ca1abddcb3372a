//! A coordinator as a participant: what its parent coordinators may hold, commit, abort and release.
//!
//! To its parents the coordinator is one more RM. A parent's hold becomes a reservation of its own, for which
//! the shell plans candidates. When every inner RM holds, the transaction is not decided but *prepared*, and
//! the answer is Held. From then on only the parent decides, by Commit, by Abort, or by its answer to this
//! coordinator's question. Without a decision the promise ends at its own hard expiry, which is before that of
//! any inner hold. Then a record aborts the transaction.
//!
//! ```text
//! Hold      -> (planned, held inside) --all inner yes--> Held        --Commit--> D3, Committing -> Done
//!                   | one inner no                        | Abort, expiry
//!                   v                                     v
//!               Refused                              Aborting -> Failed -> Done
//! ```
//!
//! Every answer follows from the state of the reservation alone. So the same message always gets the same
//! answer (I8), also after a restart. While something is under way, the answer waits for its end. A message
//! about an unknown transaction leaves a tombstone (I9). If an inner RM asks about a prepared transaction, it
//! gets "no answer yet", because only the parent may decide it.
//!
//! A hold that replaces a booking is a reservation of its own, see [`parent_change`](super::parent_change).

use std::cmp::Ordering;
use std::collections::BTreeSet;

use coalloc_common::planted::{self, Bug};
use coalloc_common::{
    BootTime, CoordinatorName, Now, Reason, Refusal, RequestId, ReservationId, RmName, Span,
    TransactionId, limits,
};

use serde::{Deserialize, Serialize};

use super::record::CoordinatorRecord;
use super::reservation::{Candidate, Reservation, State, Ticket};
use super::retrying::{RetryState, best_first};
use super::transaction::{Promise, TransactionGoal};
use super::waiting::ParentWaiter;
use super::{Coordinator, CoordinatorEffect, ParentInput, Reply, StepOutput};
use crate::conversation::{Caller, HoldToken, Next, ParentReply, PlanJob, PlanTarget};
use crate::core::ReplayError;
use crate::leader_epochs::LeaderEpochs;
use crate::message::{Answer, Decision, HoldOrder, MessageKind, Resolution, Token};
use crate::participant::ask_by;
use crate::participant::refused::{self, OrderDigest};
use crate::tracked::TrackedMap;

/// The parents that this coordinator serves as an RM, and how long its promises last.
#[derive(Debug, Clone, Default)]
pub struct ParentConfig {
    /// The coordinators that may hold here.
    pub coordinators: BTreeSet<CoordinatorName>,
    /// The soft expiry of a promise: after this long, the parent is asked for the decision. The parent's hold
    /// may name another time.
    pub soft: Span,
    /// The hard expiry of a promise, at most this long after it was made.
    pub hard: Span,
    /// Names the running boot of this machine. Boot times compare only within one boot.
    pub boot: String,
}

/// One transaction of a parent coordinator.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ParentEntry {
    /// The parent that it belongs to.
    pub coordinator: CoordinatorName,
    /// The content of the parent's Hold, and the reservation that it became here; `None` for a tombstone.
    pub order: Option<(HoldOrder, ReservationId)>,
    /// The digest of the whole Hold, when `order` has only the beginning of one that was refused.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub whole: Option<OrderDigest>,
}

/// A Hold that arrived before.
enum KnownHold {
    /// It got this answer.
    Answered(Answer),
    /// It became this reservation, from whose state the answer follows.
    Opened(ReservationId),
}

/// What parent coordinators have held here, as if this coordinator were an RM.
#[derive(Debug, Clone, Default)]
pub(super) struct ParentHolds {
    /// The parents that may hold here; none by default.
    pub(super) config: ParentConfig,
    /// Transactions of parents: those that were held here, and tombstones of those that ended before that.
    pub(super) entries: TrackedMap<TransactionId, ParentEntry>,
    /// For each reservation that a parent has booked here: the reservation that last tried to replace it.
    pub(super) replacing: TrackedMap<ReservationId, ReservationId>,
    /// Which of a parent's processes are obeyed.
    pub(super) leader_epochs: LeaderEpochs,
}

impl Coordinator {
    /// Sets which parent coordinators may hold here.
    pub fn serve_parents(&mut self, above: ParentConfig) {
        self.parents.config = above;
    }

    /// Every transaction of a parent coordinator, by its id.
    #[must_use]
    pub fn parent_entries(&self) -> &std::collections::BTreeMap<TransactionId, ParentEntry> {
        &self.parents.entries
    }

    /// When the promise of a prepared transaction ends; `None` for any other reservation.
    #[must_use]
    pub fn promised_until(&self, reservation: &Reservation) -> Option<BootTime> {
        let txn = self.transactions.get(reservation.transaction.as_ref()?)?;
        txn.promise.as_ref().filter(|_| txn.goal == TransactionGoal::Prepared).map(|p| p.hard_at)
    }

    /// When the parent is asked next about a prepared transaction; `None` for any other reservation.
    #[must_use]
    pub fn asks_parent_at(&self, reservation: &Reservation) -> Option<BootTime> {
        let txn = self.transactions.get(reservation.transaction.as_ref()?)?;
        txn.promise.as_ref().filter(|_| txn.goal == TransactionGoal::Prepared).map(|p| p.ask_at)
    }

    /// Was this reservation ever promised to the parent? Once it is decided, this never changes.
    #[must_use]
    pub fn was_promised(&self, reservation: &Reservation) -> bool {
        let txn = reservation.transaction.as_ref().and_then(|txn| self.transactions.get(txn));
        txn.is_some_and(|txn| txn.promise.is_some())
    }

    pub(super) fn parent_input(&mut self, input: ParentInput, now: Now, out: &mut StepOutput) {
        match input {
            ParentInput::End { txn, by, kind, epoch, token } => {
                match self.hear_epoch(&txn, &by, epoch, now, out) {
                    Some(older) => out.effects.push(ParentWaiter::End(token).answer(older)),
                    None => self.parent_end(&txn, by, kind, token, now, out),
                }
            }
            ParentInput::Preface { txn, by, oldest_open, epoch, token } => {
                let older = self.hear_epoch(&txn, &by, epoch, now, out);
                if older.is_none() {
                    self.hear_oldest_open(&txn, &by, oldest_open);
                }
                let answer = older.unwrap_or(Answer::Done);
                out.effects.push(ParentWaiter::End(token).answer(answer));
            }
            ParentInput::Resolved { txn, resolution } => {
                self.parent_resolved(&txn, resolution, now, out)
            }
        }
    }

    /// Hears in which epoch a parent's process leads. If another process was elected since, its messages are not carried out,
    /// and this is the answer. As at a participant, strangers and foreign ids leave no record; they are denied later.
    fn hear_epoch(
        &mut self,
        txn: &TransactionId,
        by: &CoordinatorName,
        epoch: u64,
        now: Now,
        out: &mut StepOutput,
    ) -> Option<Answer> {
        let is_own = txn.is_of(by) && self.parents.config.coordinators.contains(by);
        let ledger = txn.counted().map(|(ledger, _)| ledger.to_owned()).filter(|_| is_own)?;
        match self.parents.leader_epochs.compare(&ledger, epoch) {
            Ordering::Less => {
                Some(Answer::OlderLeader { epoch: self.parents.leader_epochs.of(&ledger) })
            }
            Ordering::Equal => None,
            Ordering::Greater => {
                self.record(CoordinatorRecord::ParentLeaderChanged { ledger, epoch, at: now }, out);
                None
            }
        }
    }

    /// Handles a parent's Hold: with `planned`, the outcome of its planning; without, one that has just
    /// arrived.
    pub(super) fn parent_hold(
        &mut self,
        order: HoldOrder,
        planned: Option<Result<Vec<Candidate>, Refusal>>,
        token: HoldToken,
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
        // As at a participant, a refusal for want of disk space is not recorded.
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
                let text = "a child coordinator cannot book with one message";
                Err(Refusal::new(Reason::Denied, text))
            }
            None => outcome.map(|candidates| self.with_parties_for_parent(&order, candidates)),
        };
        let id = self.next_id();
        let reservation = id.clone();
        let (order, whole) = match &outcome {
            Ok(_) => (order, None),
            Err(_) => refused::kept_of_refused(order),
        };
        let record = CoordinatorRecord::ParentHoldOpened { reservation, order, whole, at: now };
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

    /// What is known of a Hold that has arrived. As at a participant, refusals come in a fixed order: who sent
    /// it, what is known of it, what it wants.
    fn known_hold(&self, order: &HoldOrder) -> Option<KnownHold> {
        let answered = |answer| Some(KnownHold::Answered(answer));
        if !order.txn.is_of(&order.coordinator) {
            return answered(Answer::Denied);
        }
        if let Some(answer) = self.room.remembered(order, &self.rm_name()) {
            return answered(answer);
        }
        if let Some(entry) = self.parents.entries.get(&order.txn) {
            return match &entry.order {
                _ if entry.coordinator != order.coordinator => answered(Answer::Denied),
                Some((known, _)) if !refused::is_same(order, known, entry.whole.as_ref()) => {
                    answered(Answer::OtherContent)
                }
                Some((_, id)) => Some(KnownHold::Opened(id.clone())),
                None => {
                    let text = format!("{} was ended before this Hold arrived", order.txn);
                    answered(Answer::Refused(Refusal::new(Reason::Aborted, text)))
                }
            };
        }
        if let Some(open) = self.forgetting.oldest_open.after(&order.txn) {
            let text = format!(
                "{} was decided long ago: the oldest open attempt of its coordinator is number {open}",
                order.txn
            );
            return answered(Answer::Refused(Refusal::new(Reason::Aborted, text)));
        }
        let is_served = self.parents.config.coordinators.contains(&order.coordinator);
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
        let known = self.parents.entries.get(txn);
        let allowed = match known {
            Some(entry) => entry.coordinator == by,
            None => self.parents.config.coordinators.contains(&by) && txn.is_of(&by),
        };
        if !allowed {
            return out.effects.push(waiter.answer(Answer::Denied));
        }
        let Some((_, id)) = known.and_then(|entry| entry.order.clone()) else {
            // What is forgotten needs no tombstone.
            if known.is_none() && self.forgetting.oldest_open.after(txn).is_none() {
                let record = CoordinatorRecord::ParentTombstone {
                    txn: txn.clone(),
                    coordinator: by,
                    at: now,
                };
                self.record(record, out);
            }
            let answer = match kind {
                MessageKind::Commit | MessageKind::Hold => {
                    let text =
                        format!("nothing is held for {txn} here, and a later Hold will be refused");
                    Answer::Refused(Refusal::new(Reason::NotHeld, text).at(&self.rm_name()))
                }
                MessageKind::Abort | MessageKind::Release => Answer::Done,
            };
            return out.effects.push(waiter.answer(answer));
        };
        match (kind, self.reservations.get(&id).map(|r| r.state)) {
            (MessageKind::Commit, Some(State::Held)) => self.parent_commit(&id, now, out),
            (MessageKind::Commit, Some(State::Checking)) => {
                let text = "its Commit arrived before it was held";
                self.drop_parent_hold(&id, Refusal::new(Reason::NotHeld, text), now, out);
            }
            (MessageKind::Abort | MessageKind::Release, Some(State::Checking | State::Held)) => {
                let text = "aborted by the parent coordinator";
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
        let Some((_, id)) = self.parents.entries.get(txn).and_then(|entry| entry.order.clone())
        else {
            return;
        };
        if self.reservations.get(&id).is_none_or(|r| r.state != State::Held) {
            return;
        }
        match resolution {
            Resolution::Decided(Decision::Commit) => self.parent_commit(&id, now, out),
            Resolution::Decided(Decision::Abort) => {
                let text = "aborted by the parent coordinator, as it answered when asked";
                self.drop_parent_hold(&id, Refusal::new(Reason::Aborted, text), now, out);
            }
            // When this question was sent, the time of the next one was set.
            Resolution::NotMine | Resolution::Lost => {}
        }
    }

    /// The parent has decided to commit, in time or too late.
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
        // From here nothing can fail, because every inner hold outlives the promise.
        self.decide_commit(&txn, now, out);
    }

    /// Ends an undecided hold of a parent for good: its last attempt, and the reservation.
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

    /// Every inner RM holds. The promise is recorded, and from then on the parent decides.
    pub(super) fn prepare(&mut self, id: &TransactionId, now: Now, out: &mut StepOutput) {
        let Some(txn) = self.transactions.get(id) else { return };
        let reservation = txn.reservation.clone();
        // A Commit that arrives at the last moment of the promise still finds every inner hold.
        let left = txn.holds_until().since(now.boot).saturating_sub(limits::COMMIT_MARGIN);
        let expires_in = left.min(self.parents.config.hard).max(Span::ZERO);
        self.trying.remove(&reservation);
        let boot = self.parents.config.boot.clone();
        let (txn, servers) = (id.clone(), txn.servers());
        let record = CoordinatorRecord::Prepared { txn, expires_in, boot, servers, at: now };
        self.record(record, out);
        self.set_alarm(id);
    }

    /// Handles the alarm of a prepared transaction: its promise is over, or it is time to ask the parent.
    pub(super) fn promise_due(&mut self, id: &TransactionId, now: Now, out: &mut StepOutput) {
        let Some(txn) = self.transactions.get_mut_unnoted(id) else { return };
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

    /// An inner RM asks about a prepared transaction, so this coordinator asks the parent.
    pub(super) fn ask_sooner(&mut self, id: &TransactionId, now: Now, out: &mut StepOutput) {
        let Some(txn) = self.transactions.get_mut_unnoted(id) else { return };
        let Some(promise) = txn.promise.as_mut().filter(|promise| promise.asked == 0) else {
            return;
        };
        promise.ask_at = now.boot;
        self.promise_due(id, now, out);
    }

    fn ask_parent(&self, id: &ReservationId, out: &mut StepOutput) {
        let upper = self.reservations.get(id).and_then(|r| r.parent_transaction.clone());
        if let Some(txn) = upper
            && let Some(entry) = self.parents.entries.get(&txn)
        {
            let coordinator = entry.coordinator.clone();
            out.effects.push(CoordinatorEffect::AskParent { coordinator, txn });
        }
    }

    /// After a restart. If the machine has booted since, deadlines are recomputed from the wall clock, and lie
    /// no further ahead than the promise was long. The parent is asked at once.
    pub(super) fn rearm_promise(&mut self, id: &TransactionId, now: Now) {
        let boot = self.parents.config.boot.clone();
        let Some(txn) = self.transactions.get_mut_unnoted(id) else { return };
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

    /// Answers now, or once there is an answer.
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

    /// Answers all waiting parents for which there is an answer now.
    pub(super) fn answer_waiting_parents(&mut self, out: &mut StepOutput) {
        for ((id, kind), waiter) in self.conversations.take_parents() {
            self.answer_parent(&id, kind, waiter, out);
        }
    }

    /// The answer that follows from the state of the reservation; `None` while something is under way.
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
            // What is booked was held before, so a repeated Hold gets the same answer as then.
            (MessageKind::Hold, State::Held | State::Committing | State::Confirmed) => {
                let txn = self.transactions.get(reservation.transaction.as_ref()?)?;
                let expires_in = txn.promise.as_ref()?.expires_in;
                let servers = reservation.servers.values().flatten().cloned().collect();
                Some(Answer::Held { expires_in, servers })
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
        whole: Option<&OrderDigest>,
        at: Now,
    ) -> Result<(), ReplayError> {
        if self.reservations.contains_key(id) || self.parents.entries.contains_key(&order.txn) {
            return Err(ReplayError(format!("{id} begins twice")));
        }
        // Not entered in `by_request`: a user's request may have any id, and must not be taken for this one.
        let ticket = Ticket {
            request: RequestId::composed(order.txn.as_str()),
            user: order.user.clone(),
            content: String::new(),
        };
        let mut reservation = Reservation::new(id.clone(), ticket, String::new(), at.wall);
        reservation.parent_transaction = Some(order.txn.clone());
        self.reservations.insert(id.clone(), reservation);
        self.fold_place(id)?;
        let entry = ParentEntry {
            coordinator: order.coordinator.clone(),
            order: Some((order.clone(), id.clone())),
            whole: whole.cloned(),
        };
        self.parents.entries.insert(order.txn.clone(), entry);
        Ok(())
    }

    /// Of a parent's Hold that was refused, only the beginning is kept.
    pub(super) fn fold_parent_hold_refused(&mut self, parent_transaction: &TransactionId) {
        let Some(entry) = self.parents.entries.get_mut(parent_transaction) else { return };
        // One that planning refused is short already.
        if entry.whole.is_none()
            && let Some((order, id)) = entry.order.take()
        {
            let (order, whole) = refused::kept_of_refused(order);
            (entry.order, entry.whole) = (Some((order, id)), whole);
        }
    }

    pub(super) fn fold_parent_tombstone(
        &mut self,
        txn: &TransactionId,
        coordinator: &CoordinatorName,
    ) -> Result<(), ReplayError> {
        let entry = ParentEntry { coordinator: coordinator.clone(), order: None, whole: None };
        match self.parents.entries.insert(txn.clone(), entry) {
            None => Ok(()),
            Some(_) => Err(ReplayError(format!("{txn} of a parent coordinator ends twice"))),
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
        let missing = || ReplayError(format!("{txn} is prepared but has no parent transaction"));
        let upper = self.reservation_mut(&id)?.parent_transaction.clone().ok_or_else(missing)?;
        let entry = self.parents.entries.get(&upper).and_then(|entry| entry.order.as_ref());
        let soft = entry.and_then(|(order, _)| order.hold_for).unwrap_or(self.parents.config.soft);
        // As at a resource manager: the parent is asked after half of the promise at the latest.
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
        self.fold_servers(&id, txn)
    }
}

fn expired() -> Refusal {
    Refusal::new(Reason::Expired, "the hold expired before the parent coordinator decided")
}
