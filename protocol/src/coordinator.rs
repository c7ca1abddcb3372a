//! The coordinator: a GRC's side of two-phase reservation.
//!
//! It is given candidates (plans, best first) for a request and tries them in order, one transaction
//! each, until one is booked everywhere or none is left. One entry a reservation, one a transaction:
//!
//! ```text
//! transaction   Holding --all yes, D3--> Committing --all acks--> Done (booked)
//!                  |                         | one refuses: mixed outcome, recorded
//!                  | one no, patience over,  v
//!                  | restart, user      Releasing --all acks--> Done (nothing left)
//!                  v                         ^ released by the user
//!              Aborting --all acks--> Done   |
//!                                            (from Committing or Done)
//! reservation   Checking -> Committing -> Confirmed -> Terminating -> Terminated
//!                  '-> (next candidate) ... -> Aborting -> Failed
//! ```
//!
//! What an RM has not acknowledged is sent again, with a growing pause, for ever: a message lost,
//! doubled or late changes nothing. What was undecided at a restart is aborted (presumed abort). A
//! user hears "confirmed" only after every acknowledgement (I6).
//!
//! A candidate with an order has its RMs asked to hold one after the other. When one of them refuses, it
//! is planned again before any other candidate is tried: the refusal is about one choice of the search.
//!
//! A candidate may be one-way: what its RMs are asked to hold, one after the other, they book at once. A yes
//! of all is decided and finished without another message; a refusal ends what was booked before it.
//!
//! A confirmed reservation may be changed, one change at a time: see [`change`].
//!
//! Left out: planning itself, which is the shell's. Source: design.md "Two-phase reservation";
//! reliability.md "Protocol consequences".

mod change;
#[cfg(test)]
mod change_tests;
mod converse;
mod details;
mod giving_up;
#[cfg(test)]
mod giving_up_tests;
mod input;
mod mending;
#[cfg(test)]
mod mending_tests;
#[cfg(test)]
mod one_way_tests;
mod parent;
mod parent_change;
#[cfg(test)]
mod parent_tests;
mod promises;
mod record;
mod repair;
#[cfg(test)]
mod repair_tests;
mod reservation;
mod retrying;
#[cfg(test)]
mod room_tests;
mod superseding;
#[cfg(test)]
mod tests;
mod transaction;
#[cfg(test)]
mod turn_tests;

use std::collections::{BTreeMap, BTreeSet};

use coalloc_common::planted::{self, Bug};
use coalloc_common::{
    BootTime, CoordinatorName, DiskSpace, Now, Reason, Refusal, RequestId, ReservationId, RmName,
    Segment, Span, TransactionId, UserName,
};
use serde::{Deserialize, Serialize};

pub use self::change::{Change, ChangeState, ChangeTicket};
pub use self::details::Details;
pub use self::giving_up::{GaveUpOn, GiveUpReply, GivenUp, NotGivenUp, OfWhat, Owed};
pub use self::input::{CoordinatorEffect, CoordinatorInput, MessageKind, Reply};
pub use self::mending::MendTarget;
use self::mending::Mending;
pub use self::parent::{ParentConfig, ParentEntry, ParentInput};
use self::promises::Promises;
pub use self::promises::{Difference, Differs};
pub use self::record::CoordinatorRecord;
use self::repair::Disowning;
pub use self::repair::{DisownReply, Repair};
pub use self::reservation::{Reservation, State};
use self::retrying::RetryState;
use self::transaction::{Transaction, TransactionGoal};
use crate::conversation::{Conversations, ReleaseReply, Waiter};
use crate::core::{Core, ReplayError};
use crate::disk_gate::DiskGate;
use crate::durable::Unsynced;
use crate::message::{Decision, Resolution, Token};

/// What a coordinator is told once.
#[derive(Debug, Clone)]
pub struct CoordinatorConfig {
    /// Its name in the federation.
    pub name: CoordinatorName,
    /// Begins every id it gives, with its name: taken from its ledger's identity, so that a new
    /// ledger under an old name never gives an id twice.
    pub tag: String,
    /// How long its holds last before RMs ask; `None` leaves it to them.
    pub hold_for: Option<Span>,
}

/// One plan to try.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Candidate {
    /// What to hold, at whom; never empty.
    pub segments: BTreeMap<RmName, Vec<Segment>>,
    /// The order in which its RMs are asked to hold, each only after the yes of the one before; those that are
    /// not named are asked last, together. Empty, as in old logs: all at once.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub order: Vec<RmName>,
    /// Booked with the message that would else hold (one-way reservation), in this order; a refusal ends what was
    /// booked before it, and no Commit is sent.
    #[serde(skip_serializing_if = "std::ops::Not::not", default)]
    pub one_way: bool,
    /// The plan as the shell shows it; kept and given back, never looked at.
    pub details: Details,
}

/// Who asks for what, and how it will be known again.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ticket {
    /// The client's id of the request.
    pub request: RequestId,
    /// For whom.
    pub user: UserName,
    /// Digest of the request's content: the same id with another digest is another request (I8).
    pub content: String,
}

/// The coordinator.
#[derive(Debug, Clone)]
pub struct Coordinator {
    config: CoordinatorConfig,
    reservations: BTreeMap<ReservationId, Reservation>,
    by_request: BTreeMap<RequestId, ReservationId>,
    /// In the order they were made.
    order: Vec<ReservationId>,
    transactions: BTreeMap<TransactionId, Transaction>,
    /// What stands, as bookings at each RM.
    promises: Promises,
    /// Releases of what is nobody's.
    disowning: Disowning,
    /// When each unfinished transaction or reservation wants to be looked at. Forgotten at a restart.
    alarms: BTreeSet<(BootTime, TransactionId)>,
    /// Who plans and who waits. Forgotten at a restart.
    conversations: Conversations,
    /// The changes of each reservation before its last, by their ids.
    past_changes: BTreeMap<ReservationId, BTreeMap<RequestId, Change>>,
    /// What each undecided reservation may still try. Forgotten at a restart: what was undecided then
    /// ends.
    trying: BTreeMap<ReservationId, RetryState>,
    /// Reservations of which some RMs have booked a change and others have not.
    mending: BTreeMap<ReservationId, Mending>,
    /// When each of them is tried again that is not being tried. Forgotten at a restart.
    mend_at: BTreeMap<ReservationId, BootTime>,
    /// Who may hold here as if this were an RM; nobody unless said.
    parents: ParentConfig,
    /// What they have held, or ended before they could.
    parent_entries: BTreeMap<TransactionId, ParentEntry>,
    /// By what they have booked here: who was the last to try to replace it.
    replacing_for_parent: BTreeMap<ReservationId, ReservationId>,
    /// Is there room on the disk to begin anything new? Forgotten at a restart.
    /// With what was refused to those above for want of it.
    room: DiskGate,
}

type Step = Unsynced<CoordinatorRecord, CoordinatorEffect>;

/// Records and effects as a step gathers them.
#[derive(Default)]
struct StepOutput {
    records: Vec<CoordinatorRecord>,
    effects: Vec<CoordinatorEffect>,
}

impl StepOutput {
    fn reply(&mut self, reply: Reply) {
        self.effects.push(CoordinatorEffect::Reply(reply));
    }
}

impl Coordinator {
    /// A coordinator without reservations. Replay its log with [`Core::apply`], then give it
    /// [`CoordinatorInput::Start`].
    #[must_use]
    pub fn new(config: CoordinatorConfig) -> Self {
        Self {
            config,
            reservations: BTreeMap::new(),
            by_request: BTreeMap::new(),
            order: Vec::new(),
            transactions: BTreeMap::new(),
            promises: Promises::default(),
            disowning: Disowning::default(),
            alarms: BTreeSet::new(),
            conversations: Conversations::default(),
            past_changes: BTreeMap::new(),
            trying: BTreeMap::new(),
            mending: BTreeMap::new(),
            mend_at: BTreeMap::new(),
            parents: ParentConfig::default(),
            parent_entries: BTreeMap::new(),
            replacing_for_parent: BTreeMap::new(),
            room: DiskGate::default(),
        }
    }

    /// Sets the tag of ids to come, which is known once the ledger is open.
    pub fn set_tag(&mut self, tag: String) {
        self.config.tag = tag;
    }

    /// A reservation by its id, or by the client's id of its request.
    #[must_use]
    pub fn find(&self, id: &str) -> Option<&Reservation> {
        let by_request = || self.by_request.get(id).and_then(|id| self.reservations.get(id));
        self.reservations.get(id).or_else(by_request)
    }

    /// All reservations, in the order they were made.
    pub fn reservations(&self) -> impl DoubleEndedIterator<Item = &Reservation> {
        self.order.iter().filter_map(|id| self.reservations.get(id))
    }

    /// The same from a place in that order on.
    pub fn reservations_from(&self, place: usize) -> impl Iterator<Item = &Reservation> {
        let order = self.order.get(place..).unwrap_or_default();
        order.iter().filter_map(|id| self.reservations.get(id))
    }

    /// The place of a reservation in that order. Its id ends with it, counted from one.
    #[must_use]
    pub fn place_of(&self, id: &str) -> Option<usize> {
        let (_, number) = id.rsplit_once('-')?;
        let place = number.parse::<usize>().ok()?.checked_sub(1)?;
        self.order.get(place).filter(|known| known.as_str() == id).map(|_| place)
    }

    /// The ticket of a request that is being planned right now.
    #[must_use]
    pub fn planning(&self, request: &str) -> Option<&Ticket> {
        self.conversations.requests.get(request).map(|(ticket, _)| ticket)
    }

    /// Of which reservation an attempt is: this never changes.
    #[must_use]
    pub fn reservation_of(&self, txn: &TransactionId) -> Option<&Reservation> {
        let txn = self.transactions.get(txn)?;
        self.reservations.get(&txn.reservation)
    }

    /// Was an attempt decided against? Once decided, this never changes.
    #[must_use]
    pub fn is_aborted(&self, txn: &TransactionId) -> bool {
        self.transactions.get(txn).is_some_and(|txn| txn.goal == TransactionGoal::Abort)
    }

    /// When the first of the holds of a reservation, or of its change, ends that are known and neither
    /// booked nor dropped yet; `None` when there is none. By our boot-time clock, counted from before the Hold left: no
    /// RM drops one before that.
    #[must_use]
    pub fn hold_ends(&self, reservation: &Reservation) -> Option<BootTime> {
        let change = reservation.change.as_ref().filter(|change| change.is_under_way());
        let txn = change.map_or(&reservation.transaction, |change| &change.transaction);
        self.transactions.get(txn.as_ref()?)?.hold_ends()
    }

    /// Transactions that are not finished.
    #[must_use]
    pub fn unfinished(&self) -> usize {
        self.transactions.values().filter(|txn| !txn.is_done()).count()
    }

    fn release(
        &mut self,
        id: &ReservationId,
        token: Token<ReleaseReply>,
        now: Now,
        out: &mut StepOutput,
    ) {
        let Some(reservation) = self.reservations.get(id) else {
            return out.reply(Reply::Release(token, ReleaseReply::Unknown));
        };
        let txn = reservation.transaction.clone();
        // What a coordinator above has only that one may end (I21).
        let ours = !reservation.is_over() && reservation.parent_transaction.is_none();
        let waiter = Waiter::Release(token);
        let Some(txn) = txn.filter(|_| ours) else {
            return out.effects.push(waiter.stands(reservation));
        };
        let by = reservation.ticket.user.clone();
        let change = reservation.change.as_ref().map(|change| change.state);
        // Who waits for the change alone may hear of its end before the release is through.
        self.end_change(id, now, out);
        self.conversations.wait(id, [waiter]);
        if change == Some(ChangeState::Committing) {
            // The version that it replaces is released with it.
            return self.send_due(&txn, now, out);
        }
        match self.transactions.get(&txn).map(|txn| txn.goal) {
            Some(TransactionGoal::Hold) => {
                self.trying.remove(id);
                let text = "released by the user before it was decided";
                self.abort(&txn, Refusal::new(Reason::Released, text), None, now, out);
            }
            Some(TransactionGoal::Abort) => {
                let replanned = self.trying.remove(id).is_some_and(|trying| trying.is_replanned());
                if replanned {
                    let text = "released by the user before it was decided";
                    self.conclude(id, Refusal::new(Reason::Released, text), now, out);
                }
            }
            Some(TransactionGoal::Commit) => {
                let record =
                    CoordinatorRecord::Releasing { txn: txn.clone(), by, version: None, at: now };
                self.record(record, out);
                self.send_due(&txn, now, out);
            }
            Some(TransactionGoal::Prepared | TransactionGoal::Release) | None => {}
        }
    }

    fn resolve(
        &mut self,
        txn: &TransactionId,
        rm: &RmName,
        token: Token<Resolution>,
        now: Now,
        out: &mut StepOutput,
    ) {
        let known = self.transactions.get(txn);
        let resolution = match known.map(|txn| txn.goal) {
            // Nobody else's question decides anything (I21).
            Some(_) if !known.is_some_and(|known| known.has_party(rm)) => Resolution::NotMine,
            // D1 comes before any Hold, so whoever asks holds something that a ledger knew. It is not
            // this one, or not the whole of it (F10, F11): deciding is not for us.
            None if planted::is(Bug::StrangerAborts) => Resolution::Decided(Decision::Abort),
            None => Resolution::NotMine,
            Some(TransactionGoal::Hold) if planted::is(Bug::ResolveUnrecorded) => {
                Resolution::Decided(Decision::Abort)
            }
            Some(TransactionGoal::Hold) => {
                let text = format!("{rm} asked before all had answered");
                self.abort(txn, Refusal::new(Reason::TimedOut, text), None, now, out);
                Resolution::Decided(Decision::Abort)
            }
            // Only the one above may decide it: no answer yet.
            Some(TransactionGoal::Prepared) => {
                self.ask_sooner(txn, now, out);
                Resolution::Lost
            }
            Some(TransactionGoal::Commit) => Resolution::Decided(Decision::Commit),
            Some(TransactionGoal::Abort | TransactionGoal::Release) => {
                Resolution::Decided(Decision::Abort)
            }
        };
        out.reply(Reply::Resolve(token, resolution));
    }

    /// After the replay: what was undecided is aborted, what was decided is finished.
    fn start(&mut self, now: Now, out: &mut StepOutput) {
        let open: Vec<TransactionId> = self
            .transactions
            .iter()
            .filter(|(_, txn)| !txn.is_done())
            .map(|(id, _)| id.clone())
            .collect();
        for txn in open {
            self.rearm(&txn, now);
            if planted::is(Bug::DecisionForgotten)
                && let Some(decided) = self.transactions.get_mut(&txn)
                && decided.goal == TransactionGoal::Commit
            {
                decided.turn(TransactionGoal::Abort);
            }
            let goal = self.transactions.get(&txn).map(|txn| txn.goal);
            if goal == Some(TransactionGoal::Prepared) {
                self.rearm_promise(&txn, now);
            } else if goal == Some(TransactionGoal::Hold) {
                self.abort(&txn, self.restarted(&txn), None, now, out);
            } else {
                self.commit_due(&txn, now, out);
            }
        }
        // What had no further candidate in hand, or was between two attempts, ends here: candidates
        // are not kept across a restart, they would be out of date.
        let checking = self.reservations.values().filter(|r| r.state == State::Checking);
        let ids: Vec<ReservationId> = checking.map(|reservation| reservation.id.clone()).collect();
        for id in ids {
            self.conclude(&id, restarted(), now, out);
        }
        for id in self.undecided_changes() {
            self.conclude(&id, change::restarted(), now, out);
        }
        self.start_mending(now, out);
    }

    /// Why an undecided transaction ends at a restart.
    fn restarted(&self, txn: &TransactionId) -> Refusal {
        match self.transactions.get(txn).and_then(|txn| txn.replaces.as_ref()) {
            Some(_) => change::restarted(),
            None => restarted(),
        }
    }

    fn record(&mut self, mut record: CoordinatorRecord, out: &mut StepOutput) {
        self.must_apply(&record);
        self.stamp(&mut record);
        out.records.push(record);
        self.answer_waiting(out);
    }

    #[allow(clippy::expect_used)] // Each handler has checked what `apply` checks: were this to fail,
    // memory and ledger would part, and a node must not speak after that (I12, I16).
    fn must_apply(&mut self, record: &CoordinatorRecord) {
        self.apply(record).expect("a record that was decided on applies");
    }

    /// Answers all who wait for a reservation that has become definite.
    fn answer_waiting(&mut self, out: &mut StepOutput) {
        let reservations = &self.reservations;
        self.conversations.answer_definite(|id| reservations.get(id), &mut out.effects);
        self.answer_waiting_parents(out);
    }
}

fn restarted() -> Refusal {
    let text = "the coordinator stopped before it had decided; nothing is reserved";
    Refusal::new(Reason::CoordinatorRestarted, text)
}

impl Core for Coordinator {
    type Input = CoordinatorInput;
    type Record = CoordinatorRecord;
    type Effect = CoordinatorEffect;

    fn step(&mut self, input: CoordinatorInput, now: Now) -> Step {
        let mut out = StepOutput::default();
        match input {
            CoordinatorInput::Start => self.start(now, &mut out),
            CoordinatorInput::Conversation(input) => self.converse(input, now, &mut out),
            CoordinatorInput::Delivered { rm, txn, kind, delivery } => {
                if !self.disown_delivered((&rm, &txn, kind), &delivery, now, &mut out) {
                    self.delivered(&rm, &txn, kind, delivery, now, &mut out);
                }
            }
            CoordinatorInput::Resolve { txn, rm, token } => {
                self.resolve(&txn, &rm, token, now, &mut out);
            }
            CoordinatorInput::Release { reservation, token } => {
                self.release(&reservation, token, now, &mut out);
            }
            CoordinatorInput::Compared { rm, differences } => {
                self.compared(&rm, differences, now, &mut out);
            }
            CoordinatorInput::Repair(input) => self.repair(input, now, &mut out),
            CoordinatorInput::Parent(input) => self.parent_input(input, now, &mut out),
            CoordinatorInput::Room(room) => self.room.now = room,
            CoordinatorInput::Tick => {
                self.on_tick(now, &mut out);
                self.disown_due(now, &mut out);
            }
        }
        Unsynced::new(out.records, out.effects)
    }

    fn apply(&mut self, record: &CoordinatorRecord) -> Result<(), ReplayError> {
        self.fold(record)?;
        self.recount_after(record);
        Ok(())
    }

    fn tick() -> CoordinatorInput {
        CoordinatorInput::Tick
    }

    fn room(room: DiskSpace) -> Option<CoordinatorInput> {
        Some(CoordinatorInput::Room(room))
    }

    fn next_wake(&self) -> Option<BootTime> {
        let due = self.alarms.first().map(|(at, _)| *at);
        due.into_iter().chain(self.next_mend()).chain(self.disowning.next_wake()).min()
    }

    fn check_invariants(&self) -> Result<(), String> {
        for (id, txn) in &self.transactions {
            let alarmed = txn.alarm().is_some_and(|at| self.alarms.contains(&(at, id.clone())));
            if !txn.is_done() && !alarmed {
                return Err(format!("I22: {id} is unfinished and has no alarm"));
            }
            if let Some(rm) = txn.asked_out_of_turn() {
                return Err(format!("{id}: {rm} is asked to hold before its turn"));
            }
            if !self.reservations.contains_key(&txn.reservation) {
                return Err(format!("{id} belongs to no reservation"));
            }
        }
        for reservation in self.reservations.values() {
            let txn = reservation.transaction.as_ref().and_then(|id| self.transactions.get(id));
            let pursued = txn.is_some_and(|txn| !txn.is_done() && !txn.is_left_behind());
            let replanned = self.trying.get(&reservation.id).is_some_and(RetryState::is_replanned);
            if reservation.state == State::Checking && !pursued && !replanned {
                return Err(format!("I22: nothing is done about {}", reservation.id));
            }
            if reservation.state == State::Confirmed
                && !txn.is_some_and(|txn| txn.goal == TransactionGoal::Commit && txn.is_done())
            {
                return Err(format!("I6: {} is confirmed without all bookings", reservation.id));
            }
            self.check_change(reservation)?;
        }
        self.check_mending()?;
        self.check_given_up()?;
        self.check_promises()?;
        self.check_trying()
    }
}
