//! One attempt at one candidate: which RM has answered what, when a message is sent again, and what is decided.
//! What an answer does is in [`answers`].

mod answers;
mod stored;

use std::collections::BTreeMap;

use coalloc_common::planted::{self, Bug};
use coalloc_common::{
    BootTime, Now, Reason, Refusal, ReservationId, RmName, Segment, Span, Time, TransactionId,
    limits,
};
use serde::{Deserialize, Serialize};

pub(super) use self::stored::StoredTransaction;
use super::record::{CoordinatorRecord, stamped};
use super::reservation::{Candidate, ServersByRm};
use super::{Coordinator, CoordinatorEffect, StepOutput};
use crate::message::{Decision, GrantedServers, HoldOrder, Message, ServerWish};

/// What a transaction wants of its RMs now.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum TransactionGoal {
    Hold,
    /// Every RM holds, and the parent decides.
    Prepared,
    Commit,
    Abort,
    Release,
}

/// One RM of a transaction.
#[derive(Debug, Clone)]
struct Party {
    /// What it is to hold. Empty once no Hold will be sent to it any more.
    segments: Vec<Segment>,
    /// When the last of its segments ends; `None` if it never had one.
    until: Option<Time>,
    /// The RM is sent Hold after all RMs of a lower turn hold. All have the same turn if they are sent Hold at
    /// once.
    turn: usize,
    /// A Hold was sent, or may have been sent before a restart.
    asked: bool,
    /// The transaction that the RM has booked and that this one replaces.
    old: Option<TransactionId>,
    /// The RM has done what the goal wants.
    answered: bool,
    /// A record says that it counts as having answered, because an operator has given up on it.
    given_up: bool,
    /// The refusal with which the RM has answered Commit: it was too late to book, and has what it had before.
    /// Lost at a restart; then the RM is sent Commit again.
    refused: Option<Refusal>,
    /// When its hold ends, in this machine's boot time, counted from before the first Hold was sent.
    expires_at: Option<BootTime>,
    /// Which servers to take at the RM's by-server sites, as long as a Hold may be sent; and the servers that its hold has.
    wish: Option<ServerWish>,
    granted: Vec<GrantedServers>,
    /// The RM has answered Abort with "booked already": only a Release ends it.
    booked: bool,
    /// When to send the message, or send it again.
    send_at: BootTime,
    /// The backoff before the next repetition.
    pause: Span,
}

/// A promise to the parent that everything is held until it decides.
#[derive(Debug, Clone)]
pub(super) struct Promise {
    /// When the promise was made, and in which boot.
    pub(super) since: Now,
    pub(super) boot: String,
    /// How long it lasts, as the parent was told.
    pub(super) expires_in: Span,
    /// When it ends, in boot time.
    pub(super) hard_at: BootTime,
    /// When the parent is asked next, and how often it was asked.
    pub(super) ask_at: BootTime,
    pub(super) asked: u32,
}

impl Promise {
    pub(super) fn alarm(&self) -> BootTime {
        self.ask_at.min(self.hard_at)
    }
}

/// One attempt: a transaction, its RMs and what it wants of them.
#[derive(Debug, Clone)]
pub(super) struct Transaction {
    pub(super) reservation: ReservationId,
    pub(super) goal: TransactionGoal,
    done: bool,
    /// When the goal was set. Its timeout is counted from here.
    since: BootTime,
    /// No Hold was sent before this time.
    opened: BootTime,
    parties: BTreeMap<RmName, Party>,
    /// Its RMs are sent Hold in turns.
    pub(super) one_by_one: bool,
    /// One-way reservation: a yes to Hold is already a booking, so the decision needs no Commit.
    pub(super) one_way: bool,
    /// The user may not use what it books.
    manual_provision: bool,
    /// The next candidate is being tried, or the reservation is concluded: nothing waits for this transaction.
    left_behind: bool,
    /// The promise made to the parent.
    pub(super) promise: Option<Promise>,
    alarm: Option<BootTime>,
    /// The booked version that it would replace, when it is an attempt at a change.
    pub(super) replaces: Option<TransactionId>,
    /// It books one version at RMs that have two different ones, see [`mending`](super::mending).
    pub(super) mends: bool,
    /// A newer version is booked everywhere, and the RMs give back what they have kept of this one.
    superseded: bool,
}

/// When the last of these segments ends; `None` without segments.
fn last_end(segments: &[Segment]) -> Option<Time> {
    segments.iter().map(|segment| segment.window.end()).max()
}

impl Transaction {
    pub(super) fn new(reservation: ReservationId, candidate: &Candidate, now: BootTime) -> Self {
        let order = &candidate.order;
        let turn = |rm: &RmName| order.iter().position(|next| next == rm).unwrap_or(order.len());
        let party = |rm: &RmName, segments: &Vec<Segment>| Party {
            segments: segments.clone(),
            until: last_end(segments),
            turn: turn(rm),
            asked: false,
            old: None,
            answered: false,
            given_up: false,
            refused: None,
            expires_at: None,
            wish: candidate.servers.get(rm).cloned(),
            granted: Vec::new(),
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
            manual_provision: candidate.manual_provision,
            left_behind: false,
            promise: None,
            alarm: None,
            replaces: None,
            mends: false,
            superseded: false,
        }
    }

    /// Makes this an attempt at a change of `old`. `booked` lists what each RM has booked that this replaces.
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

    /// The servers that the RMs have chosen for it, of those RMs that have any.
    pub(super) fn servers(&self) -> ServersByRm {
        let with = self.parties.iter().filter(|(_, party)| !party.granted.is_empty());
        with.map(|(rm, party)| (rm.clone(), party.granted.clone())).collect()
    }

    /// Notes the servers that RMs have chosen.
    pub(super) fn grant(&mut self, servers: &ServersByRm) {
        for (rm, granted) in servers {
            if let Some(party) = self.parties.get_mut(rm) {
                party.granted.clone_from(granted);
            }
        }
    }

    /// Every RM that takes part.
    pub(super) fn parties(&self) -> impl Iterator<Item = &RmName> {
        self.parties.keys()
    }

    /// The RMs that have refused Commit, each with its reason.
    fn refusals(&self) -> BTreeMap<RmName, Refusal> {
        let refused = |(rm, party): (&RmName, &Party)| Some((rm.clone(), party.refused.clone()?));
        self.parties.iter().filter_map(refused).collect()
    }

    /// When the last segment that this RM was to have of the transaction ends; `None` without segments.
    pub(super) fn wanted_until(&self, rm: &RmName) -> Option<Time> {
        self.parties.get(rm)?.until
    }

    pub(super) const fn is_done(&self) -> bool {
        self.done
    }

    pub(super) fn has_party(&self, rm: &RmName) -> bool {
        self.parties.contains_key(rm)
    }

    /// When it next has something to do.
    pub(super) const fn alarm(&self) -> Option<BootTime> {
        self.alarm
    }

    pub(super) const fn is_left_behind(&self) -> bool {
        self.left_behind
    }

    /// Sets another goal than Hold, which no RM has answered yet.
    pub(super) fn turn(&mut self, goal: TransactionGoal) {
        self.goal = goal;
        self.done = false;
        for party in self.parties.values_mut() {
            // Nothing is held any more after the first goal. What is booked is in the reservation's candidate.
            (party.segments, party.wish) = (Vec::new(), None);
            party.answered = false;
            party.given_up = false;
            party.refused = None;
            party.send_at = BootTime::from_us(i64::MIN);
            party.pause = limits::RESEND_FIRST;
        }
    }

    /// The version of this transaction will not be restored any more. Its RMs are sent Release for what they keep.
    pub(super) fn supersede(&mut self) {
        self.turn(TransactionGoal::Release);
        self.superseded = true;
    }

    pub(super) const fn is_superseded(&self) -> bool {
        self.superseded
    }

    /// Has this RM still to acknowledge the release of a transaction that a newer version has superseded?
    pub(super) fn is_settling_at(&self, rm: &RmName) -> bool {
        self.superseded && !self.done && self.parties.get(rm).is_some_and(|party| !party.answered)
    }

    pub(super) fn acknowledge(&mut self, rm: &RmName) {
        if let Some(party) = self.parties.get_mut(rm) {
            party.answered = true;
        }
    }

    /// An operator has given up on an RM.
    pub(super) fn give_up_on(&mut self, rm: &RmName) {
        if let Some(party) = self.parties.get_mut(rm) {
            (party.answered, party.given_up) = (true, true);
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

    /// When the first of its holds ends, in boot time; the time of opening if no hold has an end.
    pub(super) fn holds_until(&self) -> BootTime {
        let ends = self.parties.values().filter_map(|party| party.expires_at).min();
        ends.unwrap_or(self.opened)
    }

    /// When the first hold ends that is known and is neither booked nor dropped.
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

    /// When the timeout of the present goal passes; `None` if the goal has none, or if nothing waits any more.
    fn patience_ends(&self) -> Option<BootTime> {
        match self.goal {
            TransactionGoal::Hold => Some(self.since.saturating_add(limits::HOLD_PATIENCE)),
            // An attempt to mend goes on only when all its aborts have been acknowledged.
            TransactionGoal::Abort if !self.left_behind && !self.mends => {
                Some(self.since.saturating_add(limits::MESSAGE_PATIENCE))
            }
            TransactionGoal::Prepared => self.promise.as_ref().map(Promise::alarm),
            TransactionGoal::Abort | TransactionGoal::Commit | TransactionGoal::Release => None,
        }
    }

    /// While holds are being made: the present turn. RMs of a later turn have not been sent Hold yet.
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

    /// An RM that was sent Hold before its turn. That must never happen.
    pub(super) fn asked_out_of_turn(&self) -> Option<&RmName> {
        let turn = self.turn_now();
        let early = |(_, party): &(&RmName, &Party)| party.asked && party.turn > turn;
        self.parties.iter().find(early).map(|(rm, _)| rm)
    }

    /// Are its RMs told what was decided, and no longer asked?
    pub(super) const fn is_decided(&self) -> bool {
        !matches!(self.goal, TransactionGoal::Hold | TransactionGoal::Prepared)
    }

    /// The RMs that were sent something and have not answered.
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
    /// Sends what is due to every RM that has not done what the goal wants, and sets the next alarm.
    pub(super) fn send_due(&mut self, id: &TransactionId, now: Now, out: &mut StepOutput) {
        let oldest_open = self.oldest_open();
        let Some(txn) = self.transactions.get_mut_unnoted(id).filter(|txn| !txn.done) else {
            return;
        };
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
                    // The old version can be restored until it is superseded.
                    keeps_old: party.old.is_some(),
                    one_way: txn.one_way,
                    servers: party.wish.clone(),
                    // Whoever has nothing more lets nobody in, and need not know the word.
                    manual_provision: txn.manual_provision && !party.segments.is_empty(),
                }),
                (TransactionGoal::Commit, _) => Message::Commit,
                (TransactionGoal::Release, _) => Message::Release,
                (TransactionGoal::Abort, _) if party.booked => Message::Release,
                (TransactionGoal::Abort | TransactionGoal::Prepared, _)
                | (TransactionGoal::Hold, None) => Message::Abort,
            };
            // The answer gets its full time before the message is sent again. `Lost` makes it due sooner.
            party.send_at =
                now.boot.saturating_add(limits::MESSAGE_PATIENCE).saturating_add(party.pause);
            let (rm, txn) = (rm.clone(), id.clone());
            out.effects.push(CoordinatorEffect::Send { rm, txn, message, oldest_open });
        }
        self.set_alarm(id);
    }

    pub(super) fn set_alarm(&mut self, id: &TransactionId) {
        let Some(txn) = self.transactions.get_mut_unnoted(id) else { return };
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

    /// After a restart. The boot times in the log may be those of another boot, so everything is due now. No
    /// candidates are left to try, so nothing follows this attempt.
    pub(super) fn rearm(&mut self, id: &TransactionId, now: Now) {
        let Some(txn) = self.transactions.get_mut_unnoted(id) else { return };
        txn.since = now.boot;
        txn.left_behind = true;
        for party in txn.parties.values_mut() {
            party.asked = true;
            party.send_at = now.boot;
        }
        self.set_alarm(id);
    }

    /// Does a transaction serve a parent's transaction?
    fn is_for_parent(&self, id: &TransactionId) -> bool {
        let reservation = self.transactions.get(id).map(|txn| &txn.reservation);
        let reservation = reservation.and_then(|id| self.reservations.get(id));
        reservation.is_some_and(|known| known.parent_transaction.is_some())
    }

    /// D3 with yes, then Commit to every RM. A one-way transaction is booked already, so the decision finishes it.
    pub(super) fn decide_commit(&mut self, id: &TransactionId, now: Now, out: &mut StepOutput) {
        self.record_commit(id, now, out);
        self.commit_due(id, now, out);
    }

    /// D3 with yes, and the transaction is finished: no RM is asked or told. If the coordinator dies before the
    /// last record is durable, RMs are sent Commit for what they do not hold, and refuse.
    pub(super) fn decide_unasked(&mut self, id: &TransactionId, now: Now, out: &mut StepOutput) {
        self.record_commit(id, now, out);
        if let Some(txn) = self.transactions.get_mut_unnoted(id) {
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
            state: stamped::STATE,
            expires_in,
            servers: self.transactions.get(id).map(Transaction::servers).unwrap_or_default(),
            version: stamped::VERSION,
            active: stamped::ACTIVE,
            at: now,
        };
        self.record(record, out);
        // A decided transaction tries nothing else, and its other candidates take most of its memory.
        if let Some(txn) = self.transactions.get(id) {
            self.trying.remove(&txn.reservation);
        }
        self.since(id, now);
    }

    /// Sends Commit to every RM. In a one-way transaction all RMs have booked already, and nothing is sent.
    pub(super) fn commit_due(&mut self, id: &TransactionId, now: Now, out: &mut StepOutput) {
        match self
            .transactions
            .get_mut_unnoted(id)
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
        if let Some(txn) = self.transactions.get_mut_unnoted(id) {
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
            let (txn, state) = (id.clone(), stamped::STATE);
            let (version, active) = (stamped::VERSION, stamped::ACTIVE);
            self.record(CoordinatorRecord::Settled { txn, state, version, active, at: now }, out);
            return self.set_alarm(id);
        }
        let (goal, left_behind, mends) = (txn.goal, txn.left_behind, txn.mends);
        let reservation = txn.reservation.clone();
        let refused = txn.refusals();
        if !refused.is_empty() {
            return self.split(id, refused, now, out);
        }
        let (txn, state) = (id.clone(), stamped::STATE);
        let (version, active) = (stamped::VERSION, stamped::ACTIVE);
        self.record(CoordinatorRecord::Finished { txn, state, version, active, at: now }, out);
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

    /// Decides no, durably. Then tells every RM that was sent Hold, except the one that has refused already.
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
            state: stamped::STATE,
            expires_in: None,
            servers: BTreeMap::new(),
            version: stamped::VERSION,
            active: stamped::ACTIVE,
            at: now,
        };
        self.record(record, out);
        self.since(id, now);
        if let Some(txn) = self.transactions.get_mut_unnoted(id) {
            let unasked = txn.parties.values_mut().filter(|party| !party.asked);
            unasked.for_each(|party| party.answered = true);
            refuser.into_iter().for_each(|rm| txn.acknowledge(rm));
        }
        self.finish_or_go_on(id, now, out);
    }

    fn since(&mut self, id: &TransactionId, now: Now) {
        if let Some(txn) = self.transactions.get_mut_unnoted(id) {
            txn.since = now.boot;
        }
    }

    /// Nothing waits for this transaction any more. Returns the RMs that have not answered it yet.
    pub(super) fn leave_behind(&mut self, id: &TransactionId) -> Vec<RmName> {
        let Some(txn) = self.transactions.get_mut_unnoted(id) else { return Vec::new() };
        txn.left_behind = true;
        let silent = txn.silent().cloned().collect();
        self.set_alarm(id);
        silent
    }

    /// Handles every alarm that is due: messages to send again, and timeouts.
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
