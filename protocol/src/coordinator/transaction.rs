//! One attempt at one candidate: who has answered what, what is sent again when, what is decided. What an answer
//! does is in [`answers`].

mod answers;

use std::collections::BTreeMap;

use coalloc_common::planted::{self, Bug};
use coalloc_common::{
    BootTime, Now, Reason, Refusal, ReservationId, RmName, Segment, Span, Time, TransactionId,
    limits,
};

use super::parent::Promise;
use super::record::CoordinatorRecord;
use super::{Candidate, Coordinator, CoordinatorEffect, StepOutput};
use crate::message::{Decision, HoldOrder, Message};

/// What a transaction wants of its RMs now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum TransactionGoal {
    Hold,
    /// Every RM holds, and the one above decides.
    Prepared,
    Commit,
    Abort,
    Release,
}

/// One RM of a transaction.
#[derive(Debug, Clone)]
struct Party {
    segments: Vec<Segment>,
    /// It is asked to hold after all of a lower turn have; the same for all when they are asked at once.
    turn: usize,
    /// A Hold has left, or may have before a restart.
    asked: bool,
    /// What it has booked that this transaction replaces.
    old: Option<TransactionId>,
    /// It has answered what the goal wants.
    answered: bool,
    /// It has answered Commit with this: it was too late to book, and has what it had before. Forgotten at a
    /// restart, which asks it again.
    refused: Option<Refusal>,
    /// When its hold ends, by our clock: counted from before the first Hold left.
    expires_at: Option<BootTime>,
    /// It answered Abort with "booked already": only a Release ends it.
    booked: bool,
    /// When to send (again).
    send_at: BootTime,
    /// The next pause.
    pause: Span,
}

/// One attempt.
#[derive(Debug, Clone)]
pub(super) struct Transaction {
    pub(super) reservation: ReservationId,
    pub(super) goal: TransactionGoal,
    done: bool,
    /// When the goal was taken up; by it patience is counted.
    since: BootTime,
    /// The first Hold left no earlier than this.
    opened: BootTime,
    parties: BTreeMap<RmName, Party>,
    /// Its RMs are asked to hold in turns.
    pub(super) one_by_one: bool,
    /// A yes to Hold is a booking already (one-way reservation): the decision needs no Commit.
    pub(super) one_way: bool,
    /// The next candidate has been taken up, or the reservation concluded: nothing waits for this.
    left_behind: bool,
    /// What was promised to the one above.
    pub(super) promise: Option<Promise>,
    alarm: Option<BootTime>,
    /// The booked version that it would replace, when it is an attempt at a change.
    pub(super) replaces: Option<TransactionId>,
    /// It makes one version of what is booked in two, see [`mending`](super::mending).
    pub(super) mends: bool,
    /// Its RMs keep what they give up of the version that it replaces, see [`superseding`](super::superseding).
    pub(super) keeps_old: bool,
    /// A newer version is booked everywhere: what RMs keep of this one is given back.
    superseded: bool,
}

impl Transaction {
    pub(super) fn new(reservation: ReservationId, candidate: &Candidate, now: BootTime) -> Self {
        let order = &candidate.order;
        let turn = |rm: &RmName| order.iter().position(|next| next == rm).unwrap_or(order.len());
        let party = |rm: &RmName, segments: &Vec<Segment>| Party {
            segments: segments.clone(),
            turn: turn(rm),
            asked: false,
            old: None,
            answered: false,
            refused: None,
            expires_at: None,
            booked: false,
            send_at: now,
            pause: limits::RESEND_FIRST,
        };
        Self {
            reservation,
            goal: TransactionGoal::Hold,
            done: false,
            since: now,
            opened: now,
            parties: candidate.segments.iter().map(|(rm, s)| (rm.clone(), party(rm, s))).collect(),
            one_by_one: !order.is_empty(),
            one_way: candidate.one_way,
            left_behind: false,
            promise: None,
            alarm: None,
            replaces: None,
            mends: false,
            keeps_old: false,
            superseded: false,
        }
    }

    /// It is an attempt at a change of `old`; these RMs have booked these transactions for that.
    pub(super) fn replace<'a>(
        &mut self,
        old: &TransactionId,
        booked: impl Iterator<Item = (&'a RmName, &'a TransactionId)>,
    ) {
        self.replaces = Some(old.clone());
        for (rm, old) in booked {
            if let Some(party) = self.parties.get_mut(rm) {
                party.old = Some(old.clone());
            }
        }
    }

    /// Every RM that takes part.
    pub(super) fn parties(&self) -> impl Iterator<Item = &RmName> {
        self.parties.keys()
    }

    /// Who has refused to book what was decided, and why.
    fn refusals(&self) -> BTreeMap<RmName, Refusal> {
        let refused = |(rm, party): (&RmName, &Party)| Some((rm.clone(), party.refused.clone()?));
        self.parties.iter().filter_map(refused).collect()
    }

    /// When the last of what an RM was to have of it ends.
    pub(super) fn wanted_until(&self, rm: &RmName) -> Option<Time> {
        let segments = self.parties.get(rm).into_iter().flat_map(|party| &party.segments);
        segments.map(|segment| segment.window.end()).max()
    }

    pub(super) const fn is_done(&self) -> bool {
        self.done
    }

    pub(super) fn has_party(&self, rm: &RmName) -> bool {
        self.parties.contains_key(rm)
    }

    /// When it wants to be looked at.
    pub(super) const fn alarm(&self) -> Option<BootTime> {
        self.alarm
    }

    pub(super) const fn is_left_behind(&self) -> bool {
        self.left_behind
    }

    /// Takes up another goal: nobody has answered it yet.
    pub(super) fn turn(&mut self, goal: TransactionGoal) {
        self.goal = goal;
        self.done = false;
        for party in self.parties.values_mut() {
            party.answered = false;
            party.refused = None;
            party.send_at = BootTime::from_us(i64::MIN);
            party.pause = limits::RESEND_FIRST;
        }
    }

    /// Nobody goes back to it any more: its RMs are told to release what they keep of it.
    pub(super) fn supersede(&mut self) {
        self.turn(TransactionGoal::Release);
        self.superseded = true;
    }

    pub(super) const fn is_superseded(&self) -> bool {
        self.superseded
    }

    /// Is this RM still to acknowledge the release of what a newer version has superseded?
    pub(super) fn is_settling_at(&self, rm: &RmName) -> bool {
        self.superseded && !self.done && self.parties.get(rm).is_some_and(|party| !party.answered)
    }

    pub(super) fn acknowledge(&mut self, rm: &RmName) {
        if let Some(party) = self.parties.get_mut(rm) {
            party.answered = true;
        }
    }

    pub(super) fn finish(&mut self) {
        self.done = true;
        self.answer_all();
    }

    pub(super) fn answer_all(&mut self) {
        for party in self.parties.values_mut() {
            party.answered = true;
        }
    }

    /// When the first of its holds ends, by our clock.
    pub(super) fn holds_until(&self) -> BootTime {
        let ends = self.parties.values().filter_map(|party| party.expires_at).min();
        ends.unwrap_or(self.opened)
    }

    /// When the first known hold ends that is neither booked nor dropped.
    pub(super) fn hold_ends(&self) -> Option<BootTime> {
        let holds = self.parties.values().filter(|party| match self.goal {
            TransactionGoal::Hold | TransactionGoal::Prepared => true,
            TransactionGoal::Commit => !party.answered,
            TransactionGoal::Abort | TransactionGoal::Release => false,
        });
        holds.filter_map(|party| party.expires_at).min()
    }

    fn all_answered(&self) -> bool {
        self.parties.values().all(|party| party.answered)
    }

    /// When its patience with the present goal ends, if it has not ended yet.
    fn patience_ends(&self) -> Option<BootTime> {
        match self.goal {
            TransactionGoal::Hold => Some(self.since.saturating_add(limits::HOLD_PATIENCE)),
            // What mends goes on when its aborts are through, and not before.
            TransactionGoal::Abort if !self.left_behind && !self.mends => {
                Some(self.since.saturating_add(limits::MESSAGE_PATIENCE))
            }
            TransactionGoal::Prepared => self.promise.as_ref().map(Promise::alarm),
            TransactionGoal::Abort | TransactionGoal::Commit | TransactionGoal::Release => None,
        }
    }

    /// While holds are asked for: the turn that it is, and nobody of a later one is asked yet.
    fn turn_now(&self) -> usize {
        let waiting = self.parties.values().filter(|party| !party.answered);
        match self.goal {
            TransactionGoal::Hold => waiting.map(|party| party.turn).min().unwrap_or(usize::MAX),
            TransactionGoal::Prepared
            | TransactionGoal::Commit
            | TransactionGoal::Abort
            | TransactionGoal::Release => usize::MAX,
        }
    }

    /// An RM that was asked to hold before its turn: there is never one.
    pub(super) fn asked_out_of_turn(&self) -> Option<&RmName> {
        let turn = self.turn_now();
        let early = |(_, party): &(&RmName, &Party)| party.asked && party.turn > turn;
        self.parties.iter().find(early).map(|(rm, _)| rm)
    }

    /// Who was asked for something and has not answered.
    pub(super) fn silent(&self) -> impl Iterator<Item = &RmName> {
        let turn = self.turn_now();
        let silent = move |party: &Party| !party.answered && party.turn <= turn;
        self.parties.iter().filter(move |(_, party)| silent(party)).map(|(rm, _)| rm)
    }

    fn next_alarm(&self) -> Option<BootTime> {
        let turn = self.turn_now();
        let waiting = self.parties.values().filter(|party| !party.answered && party.turn <= turn);
        waiting.map(|party| party.send_at).chain(self.patience_ends()).min()
    }
}

impl Coordinator {
    /// Sends what is due to every RM that has not answered the goal, and sets the next alarm.
    pub(super) fn send_due(&mut self, id: &TransactionId, now: Now, out: &mut StepOutput) {
        let Some(txn) = self.transactions.get_mut(id).filter(|txn| !txn.done) else { return };
        let user = self.reservations.get(&txn.reservation).map(|r| r.ticket.user.clone());
        let turn = txn.turn_now();
        for (rm, party) in &mut txn.parties {
            if party.answered || party.turn > turn || party.send_at > now.boot {
                continue;
            }
            party.asked |= txn.goal == TransactionGoal::Hold;
            let message = match (txn.goal, &user) {
                (TransactionGoal::Hold, Some(user)) => Message::Hold(HoldOrder {
                    txn: id.clone(),
                    coordinator: self.config.name.clone(),
                    user: user.clone(),
                    segments: party.segments.clone(),
                    hold_for: self.config.hold_for,
                    replaces: party.old.clone(),
                    keeps_old: txn.keeps_old && party.old.is_some(),
                    one_way: txn.one_way,
                }),
                (TransactionGoal::Commit, _) => Message::Commit,
                (TransactionGoal::Release, _) => Message::Release,
                (TransactionGoal::Abort, _) if party.booked => Message::Release,
                (TransactionGoal::Abort | TransactionGoal::Prepared, _)
                | (TransactionGoal::Hold, None) => Message::Abort,
            };
            // The answer is given its time before the message is sent again; a Lost comes earlier.
            party.send_at =
                now.boot.saturating_add(limits::MESSAGE_PATIENCE).saturating_add(party.pause);
            out.effects.push(CoordinatorEffect::Send { rm: rm.clone(), txn: id.clone(), message });
        }
        self.set_alarm(id);
    }

    pub(super) fn set_alarm(&mut self, id: &TransactionId) {
        let Some(txn) = self.transactions.get_mut(id) else { return };
        let next = if txn.done { None } else { txn.next_alarm() };
        if txn.alarm == next {
            return;
        }
        if let Some(old) = txn.alarm {
            self.alarms.remove(&(old, id.clone()));
        }
        if let Some(next) = next {
            self.alarms.insert((next, id.clone()));
        }
        txn.alarm = next;
    }

    /// After a restart: boot times of the log may be of another boot, so everything is due now. And
    /// no candidate is left to try, so nothing comes after this attempt, whichever it was.
    pub(super) fn rearm(&mut self, id: &TransactionId, now: Now) {
        let Some(txn) = self.transactions.get_mut(id) else { return };
        txn.since = now.boot;
        txn.left_behind = true;
        for party in txn.parties.values_mut() {
            party.asked = true;
            party.send_at = now.boot;
        }
        self.set_alarm(id);
    }

    /// Does a transaction serve one of a coordinator above?
    fn is_for_parent(&self, id: &TransactionId) -> bool {
        let reservation = self.transactions.get(id).map(|txn| &txn.reservation);
        let reservation = reservation.and_then(|id| self.reservations.get(id));
        reservation.is_some_and(|known| known.parent_transaction.is_some())
    }

    /// D3, yes; then Commit to every RM. One-way they have booked already: with the decision it is over.
    pub(super) fn decide_commit(&mut self, id: &TransactionId, now: Now, out: &mut StepOutput) {
        self.record_commit(id, now, out);
        self.commit_due(id, now, out);
    }

    /// D3, yes, and it is over: nobody has to be asked or told. Should the coordinator die before the last record is
    /// durable, the RMs are told to book what they do not hold, and refuse.
    pub(super) fn decide_unasked(&mut self, id: &TransactionId, now: Now, out: &mut StepOutput) {
        self.record_commit(id, now, out);
        if let Some(txn) = self.transactions.get_mut(id) {
            txn.answer_all();
        }
        self.finish_or_go_on(id, now, out);
    }

    fn record_commit(&mut self, id: &TransactionId, now: Now, out: &mut StepOutput) {
        let ends = self.transactions.get(id).and_then(Transaction::hold_ends);
        let expires_in = ends.map(|ends| ends.since(now.boot));
        let record = CoordinatorRecord::Decided {
            txn: id.clone(),
            decision: Decision::Commit,
            refusal: None,
            state: None,
            expires_in,
            version: None,
            at: now,
        };
        self.record(record, out);
        // What is decided tries nothing else; its other candidates are most of what it has in memory.
        if let Some(txn) = self.transactions.get(id) {
            self.trying.remove(&txn.reservation);
        }
        self.since(id, now);
    }

    /// What was decided to be booked is told to every RM; one-way all of them have said that it is.
    pub(super) fn commit_due(&mut self, id: &TransactionId, now: Now, out: &mut StepOutput) {
        match self
            .transactions
            .get_mut(id)
            .filter(|txn| txn.one_way && txn.goal == TransactionGoal::Commit)
        {
            Some(txn) => {
                txn.answer_all();
                self.finish_or_go_on(id, now, out);
            }
            None => self.send_due(id, now, out),
        }
    }

    /// One more RM has done what the goal wants.
    fn end_answered(&mut self, rm: &RmName, id: &TransactionId, now: Now, out: &mut StepOutput) {
        if let Some(txn) = self.transactions.get_mut(id) {
            txn.acknowledge(rm);
        }
        self.finish_or_go_on(id, now, out);
    }

    pub(super) fn finish_or_go_on(&mut self, id: &TransactionId, now: Now, out: &mut StepOutput) {
        let Some(txn) = self.transactions.get(id) else { return };
        let early = planted::is(Bug::ConfirmedEarly) && txn.goal == TransactionGoal::Commit;
        let whole = txn.all_answered() || (early && txn.silent().count() == 1);
        if !whole {
            self.send_due(id, now, out);
            return;
        }
        if txn.superseded {
            let (txn, at) = (id.clone(), now);
            let record = CoordinatorRecord::Settled { txn, state: None, version: None, at };
            self.record(record, out);
            return self.set_alarm(id);
        }
        let (goal, left_behind, mends) = (txn.goal, txn.left_behind, txn.mends);
        let reservation = txn.reservation.clone();
        let refused = txn.refusals();
        if !refused.is_empty() {
            return self.split(id, refused, now, out);
        }
        self.record(
            CoordinatorRecord::Finished { txn: id.clone(), state: None, version: None, at: now },
            out,
        );
        self.set_alarm(id);
        match goal {
            TransactionGoal::Abort if mends => self.mend_again(&reservation, now, out),
            TransactionGoal::Abort if !left_behind => self.go_on(id, &reservation, now, out),
            TransactionGoal::Commit => {
                self.replaced_for_parent(id, now, out);
                let old = self.old_for_parent(&reservation).map(|old| old.id.clone());
                for id in [Some(reservation), old].into_iter().flatten() {
                    self.send_released(&id, now, out);
                }
            }
            _ => {}
        }
    }

    /// Decides no, durably, and tells every RM that was asked but the one that has refused already.
    pub(super) fn abort(
        &mut self,
        id: &TransactionId,
        refusal: Refusal,
        refuser: Option<&RmName>,
        now: Now,
        out: &mut StepOutput,
    ) {
        let record = CoordinatorRecord::Decided {
            txn: id.clone(),
            decision: Decision::Abort,
            refusal: Some(refusal),
            state: None,
            expires_in: None,
            version: None,
            at: now,
        };
        self.record(record, out);
        self.since(id, now);
        if let Some(txn) = self.transactions.get_mut(id) {
            let unasked = txn.parties.values_mut().filter(|party| !party.asked);
            unasked.for_each(|party| party.answered = true);
            refuser.into_iter().for_each(|rm| txn.acknowledge(rm));
        }
        self.finish_or_go_on(id, now, out);
    }

    fn since(&mut self, id: &TransactionId, now: Now) {
        if let Some(txn) = self.transactions.get_mut(id) {
            txn.since = now.boot;
        }
    }

    /// Nothing waits for this transaction any more; who has not answered it yet?
    pub(super) fn leave_behind(&mut self, id: &TransactionId) -> Vec<RmName> {
        let Some(txn) = self.transactions.get_mut(id) else { return Vec::new() };
        txn.left_behind = true;
        let silent = txn.silent().cloned().collect();
        self.set_alarm(id);
        silent
    }

    /// Every alarm that is due: messages again, patience that ends.
    pub(super) fn on_tick(&mut self, now: Now, out: &mut StepOutput) {
        self.mend_due(now, out);
        while let Some((due, id)) = self.alarms.first().cloned()
            && due <= now.boot
        {
            let Some(txn) = self.transactions.get(&id).filter(|txn| !txn.done) else {
                self.alarms.remove(&(due, id));
                continue;
            };
            let patience_over = txn.patience_ends().is_some_and(|ends| ends <= now.boot);
            let (goal, reservation) = (txn.goal, txn.reservation.clone());
            match goal {
                TransactionGoal::Hold if patience_over => {
                    let names: Vec<&str> = txn.silent().map(|rm| rm.as_str()).collect();
                    let text = format!("no answer to Hold in time from {}", names.join(", "));
                    self.abort(&id, Refusal::new(Reason::TimedOut, text), None, now, out);
                }
                TransactionGoal::Abort if patience_over => {
                    self.go_on(&id, &reservation, now, out);
                    self.send_due(&id, now, out);
                }
                TransactionGoal::Prepared if patience_over => self.promise_due(&id, now, out),
                _ => self.send_due(&id, now, out),
            }
        }
    }
}
