//! The coordinator: the side of a Global Resource Coordinator (GRC) in two-phase reservation.
//!
//! A shell passes in the candidates for a request (plans, best first). The coordinator tries them in order,
//! each in a transaction of its own, until one is booked at all of its RMs or none is left. It keeps one entry
//! for every reservation and one for every transaction:
//!
//! ```text
//! transaction   Holding --all yes, D3--> Committing --all acks--> Done (booked)
//!                  |                         | one refuses: mixed outcome, recorded
//!                  | one no, timeout,        v
//!                  | restart, user      Releasing --all acks--> Done (nothing left)
//!                  v                         ^ released by the user
//!              Aborting --all acks--> Done   |
//!                                            (from Committing or Done)
//! reservation   Checking -> Committing -> Confirmed -> Terminating -> Terminated
//!                  '-> (next candidate) ... -> Aborting -> Failed
//! ```
//!
//! A message that an RM has not acknowledged is sent again with a growing backoff, a decision for ever. So a
//! message that is lost, repeated or late changes nothing. A transaction that is undecided at a restart is
//! aborted (presumed abort). A user is told "confirmed" only after every RM has acknowledged (I6).
//!
//! If a candidate has an order, its RMs are sent Hold one after the other. When one of them refuses, the
//! request is planned again before any other candidate is tried, because the refusal is about one choice of the
//! search.
//!
//! A candidate may be one-way: its RMs are sent Hold one after the other, and each books at once. When all have
//! said yes, the transaction is decided and finished without another message. When one refuses, what was booked
//! before it is ended.
//!
//! A confirmed reservation may be changed, one change at a time: see [`change`]. What has ended is forgotten after a
//! retention: see [`forgetting`]. While its user can use it, it is active: see `usage.rs`.
//!
//! The file is long because it holds the one table of inputs and the one table of invariants.
//!
//! Left out: planning, which the shell does. Source: design.md "Two-phase reservation"; reliability.md
//! "Protocol consequences".

mod attempts;
mod calendar;
#[cfg(test)]
mod calendar_tests;
mod change;
#[cfg(test)]
mod change_tests;
mod converse;
mod details;
mod forgetting;
#[cfg(test)]
mod forgetting_tests;
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
mod quota;
#[cfg(test)]
mod quota_tests;
mod record;
mod refused;
#[cfg(test)]
mod refused_tests;
mod repair;
#[cfg(test)]
mod repair_tests;
#[cfg(test)]
mod report_tests;
mod reports;
pub(crate) mod reservation;
mod retrying;
#[cfg(test)]
mod room_tests;
mod snapshot;
mod superseding;
#[cfg(test)]
mod tests;
mod transaction;
#[cfg(test)]
mod turn_tests;
mod usage;
#[cfg(test)]
mod usage_tests;
mod waiting;

use std::collections::{BTreeMap, BTreeSet};

use coalloc_common::planted::{self, Bug};
use coalloc_common::{
    BootTime, CoordinatorName, DiskSpace, Now, Reason, Refusal, RequestId, ReservationId, RmName,
    Span, TransactionId,
};

use self::attempts::Attempts;
use self::calendar::Calendars;
pub use self::calendar::{CalendarAddress, CalendarInput, CalendarReply, OwnerProof};
pub use self::details::Details;
pub use self::forgetting::ForgetPolicy;
use self::forgetting::Forgetting;
pub use self::giving_up::{GaveUpOn, GiveUpReply, NotGivenUp, OfWhat, Owed};
pub use self::input::{
    CoordinatorEffect, CoordinatorInput, DisownReply, ParentInput, Repair, Reply,
};
use self::mending::Mendings;
use self::parent::ParentHolds;
pub use self::parent::{ParentConfig, ParentEntry};
pub use self::promises::Difference;
use self::promises::Promises;
use self::quota::LiveReservations;
pub use self::quota::{ReservationQuota, ReservationQuotas, ReservedByUser};
pub use self::record::{CoordinatorRecord, Differs, MendTarget};
use self::refused::NO_NOTES;
pub use self::refused::ShortNotes;
use self::repair::Disowning;
use self::reports::Reports;
pub use self::reports::{Report, ReportEnd};
pub use self::reservation::{
    Candidate, Change, ChangeState, ChangeTicket, GivenUp, Reservation, ServersByRm, State, Ticket,
};
use self::retrying::RetryState;
pub use self::snapshot::CoordinatorPart;
use self::transaction::{Transaction, TransactionGoal};
use self::usage::Usages;
pub use self::usage::{
    EquipmentFound, EquipmentNews, ResourceUsage, UnusableParts, Usage, UsagePhase,
};
use self::waiting::{Conversations, Waiter};
use crate::conversation::ReleaseReply;
use crate::core::{Core, ReplayError};
use crate::disk_gate::DiskGate;
use crate::durable::Unsynced;
pub use crate::message::MessageKind;
use crate::message::{Decision, Resolution, Token};
use crate::tracked::TrackedMap;

/// The settings of a coordinator.
#[derive(Debug, Clone)]
pub struct CoordinatorConfig {
    /// The coordinator's name in the federation.
    pub name: CoordinatorName,
    /// Every id that this coordinator gives begins with its name and this tag. The shell takes the tag from the
    /// identity of the ledger, so a new ledger under an old name never gives an id twice.
    pub tag: String,
    /// The soft expiry of the coordinator's holds: after this long, an RM asks for the decision. `None` means
    /// each RM's own setting.
    pub hold_for: Option<Span>,
    /// When what has ended is forgotten; `None`: never.
    pub forgets: Option<ForgetPolicy>,
}

/// The state of one coordinator: its reservations and their transactions, what follows from them, and who
/// waits.
#[derive(Debug, Clone)]
pub struct Coordinator {
    config: CoordinatorConfig,
    reservations: TrackedMap<ReservationId, Reservation>,
    by_request: BTreeMap<RequestId, ReservationId>,
    /// In the order they were made, by the number of each that counts from 0.
    order: BTreeMap<usize, ReservationId>,
    transactions: TrackedMap<TransactionId, Transaction>,
    /// How many attempts there were, and which are open.
    attempts: Attempts,
    /// What is booked at each RM according to this coordinator.
    promises: Promises,
    /// Releases of bookings that belong to no reservation here.
    disowning: Disowning,
    /// When each unfinished transaction next has something to do. Lost at a restart.
    alarms: BTreeSet<(BootTime, TransactionId)>,
    /// Who plans and who waits. Lost at a restart.
    conversations: Conversations,
    /// The changes of each reservation before its last, by their ids.
    past_changes: TrackedMap<ReservationId, BTreeMap<RequestId, Change>>,
    /// What was reported about each reservation.
    reports: Reports,
    /// The retry state of each undecided reservation. Lost at a restart, which ends whatever is undecided.
    trying: BTreeMap<ReservationId, RetryState>,
    /// Reservations of which some RMs have booked a change and others have not.
    mendings: Mendings,
    /// What parent coordinators have held here.
    parents: ParentHolds,
    /// Which reservations of each user are live.
    live: LiveReservations,
    /// What is needed to know the usage of reservations.
    usages: Usages,
    /// How much each user may have reserved.
    quotas: ReservationQuotas,
    /// What is kept of the notes of a refused reservation that are long.
    short_notes: ShortNotes,
    /// The secret addresses of calendars.
    calendars: Calendars,
    /// What was forgotten, and when to look for more.
    forgetting: Forgetting,
    /// In which epoch the process leads that has this coordinator.
    epoch: LeaderEpoch,
    /// Whether the disk has space for something new, and which Holds of parents were refused because it had
    /// none. Lost at a restart.
    room: DiskGate,
}

/// The epoch of the last election.
#[derive(Debug, Clone, Default)]
struct LeaderEpoch {
    /// 0 if there was none: the ledger was never shared.
    now: u64,
    /// What the snapshot says.
    in_snapshot: u64,
}

type Step = Unsynced<CoordinatorRecord, CoordinatorEffect>;

/// The records and effects that one step puts out.
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
    /// A coordinator without reservations. Replay its log with [`Core::apply`], then pass in
    /// [`CoordinatorInput::Start`].
    #[must_use]
    pub fn new(config: CoordinatorConfig) -> Self {
        Self {
            config,
            reservations: TrackedMap::default(),
            by_request: BTreeMap::new(),
            short_notes: NO_NOTES,
            order: BTreeMap::new(),
            transactions: TrackedMap::default(),
            attempts: Attempts::default(),
            promises: Promises::default(),
            disowning: Disowning::default(),
            alarms: BTreeSet::new(),
            conversations: Conversations::default(),
            past_changes: TrackedMap::default(),
            reports: Reports::default(),
            trying: BTreeMap::new(),
            mendings: Mendings::default(),
            parents: ParentHolds::default(),
            live: LiveReservations::default(),
            usages: Usages::default(),
            quotas: ReservationQuotas::default(),
            calendars: Calendars::default(),
            forgetting: Forgetting::default(),
            epoch: LeaderEpoch::default(),
            room: DiskGate::default(),
        }
    }

    /// Sets the tag of all ids to come. It is known once the ledger is open.
    pub fn set_tag(&mut self, tag: String) {
        self.config.tag = tag;
    }

    /// The epoch of the last election; 0 if there was none. Orders carry it.
    #[must_use]
    pub const fn epoch(&self) -> u64 {
        self.epoch.now
    }

    /// The epoch of an election that the store of the ledger has given this number. It is higher than any before, even if the ledger
    /// has moved to a store that counts from the beginning.
    #[must_use]
    pub fn next_epoch(&self, number: u64) -> u64 {
        number.max(self.epoch.now.saturating_add(1))
    }

    /// A reservation by its id, or by the client's id of its request.
    #[must_use]
    pub fn find(&self, id: &str) -> Option<&Reservation> {
        let by_request = || self.by_request.get(id).and_then(|id| self.reservations.get(id));
        self.reservations.get(id).or_else(by_request)
    }

    /// All reservations, in the order they were made.
    pub fn reservations(&self) -> impl DoubleEndedIterator<Item = &Reservation> {
        self.order.values().filter_map(|id| self.reservations.get(id))
    }

    /// How many reservations are not forgotten.
    #[must_use]
    pub fn reservations_remembered(&self) -> usize {
        self.order.len()
    }

    /// The reservations from this place on with their places, in the order they were made; empty beyond the last.
    pub fn reservations_from(&self, place: usize) -> impl Iterator<Item = (usize, &Reservation)> {
        let from = self.order.range(place..);
        from.filter_map(|(place, id)| Some((*place, self.reservations.get(id)?)))
    }

    /// The place of a reservation in the order in which they were made, counted from 0; `None` if there never was
    /// such a reservation. One that is forgotten keeps its place. The id ends with the same place counted from 1.
    #[must_use]
    pub fn place_of(&self, id: &str) -> Option<usize> {
        let place = place_in(id)?;
        let was_made =
            (place as u64) < self.order.len() as u64 + self.forgetting.count.reservations;
        let is_same = self.order.get(&place).is_none_or(|known| known.as_str() == id);
        (was_made && is_same).then_some(place)
    }

    /// The ticket of a request that is being planned right now.
    #[must_use]
    pub fn planning(&self, request: &str) -> Option<&Ticket> {
        self.conversations.requests.get(request).map(|(ticket, _)| ticket)
    }

    /// The reservation that a transaction belongs to. This changes in one case only: a transaction that takes a
    /// parent's change back to the old version belongs to the old reservation once it is booked.
    #[must_use]
    pub fn reservation_of(&self, txn: &TransactionId) -> Option<&Reservation> {
        let txn = self.transactions.get(txn)?;
        self.reservations.get(&txn.reservation)
    }

    /// Was this transaction decided against? Once it is decided, this never changes.
    #[must_use]
    pub fn is_aborted(&self, txn: &TransactionId) -> bool {
        self.transactions.get(txn).is_some_and(|txn| txn.goal == TransactionGoal::Abort)
    }

    /// When the first hold of a reservation ends, or of its change while one is under way. Counts the holds
    /// that are known and neither booked nor dropped; `None` if there is none. In this machine's boot time, and
    /// counted from before the Hold left: no RM drops a hold before that.
    #[must_use]
    pub fn hold_ends(&self, reservation: &Reservation) -> Option<BootTime> {
        let change = reservation.change.as_ref().filter(|change| change.is_under_way());
        let txn = change.map_or(&reservation.transaction, |change| &change.transaction);
        self.transactions.get(txn.as_ref()?)?.hold_ends()
    }

    /// The RMs that have not acknowledged what was decided about a reservation, or about a change of it.
    #[must_use]
    pub fn awaited(&self, reservation: &Reservation) -> Vec<RmName> {
        let change = reservation.change.as_ref().and_then(|change| change.transaction.as_ref());
        let all = reservation.transaction.iter().chain(change);
        let open = all.filter_map(|txn| self.transactions.get(txn));
        let decided = open.filter(|txn| txn.is_decided() && !txn.is_done());
        let awaited: BTreeSet<&RmName> = decided.flat_map(Transaction::silent).collect();
        awaited.into_iter().cloned().collect()
    }

    /// How many transactions are not finished.
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
        // Only the parent may end what a parent has here (I21).
        let ours = !reservation.is_over() && reservation.parent_transaction.is_none();
        let waiter = Waiter::Release(token);
        let Some(txn) = txn.filter(|_| ours) else {
            return out.effects.push(waiter.stands(reservation));
        };
        let by = reservation.ticket.user.clone();
        let change = reservation.change.as_ref().map(|change| change.state);
        // A caller that waits only for the change may be answered before the release has finished.
        self.end_change(id, now, out);
        self.conversations.wait(id, [waiter]);
        if change == Some(ChangeState::Committing) {
            // The version that the change replaces is released together with it.
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
                let version = record::stamped::VERSION;
                let record =
                    CoordinatorRecord::Releasing { txn: txn.clone(), by, version, at: now };
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
            // A question from an RM that has no part in the transaction decides nothing (I21).
            Some(_) if !known.is_some_and(|known| known.has_party(rm)) => Resolution::NotMine,
            // D1 is recorded before any Hold, so the RM holds something that some ledger knew. It was not this
            // ledger, or this one has lost a part (F10, F11). So this coordinator may not decide.
            None if planted::is(Bug::StrangerAborts) => Resolution::Decided(Decision::Abort),
            None => Resolution::NotMine,
            Some(TransactionGoal::Hold) if planted::is(Bug::ResolveUnrecorded) => {
                Resolution::Decided(Decision::Abort)
            }
            Some(TransactionGoal::Hold) => {
                let text =
                    format!("{rm} asked for the outcome before all resource managers had answered");
                self.abort(txn, Refusal::new(Reason::TimedOut, text), None, now, out);
                Resolution::Decided(Decision::Abort)
            }
            // Only the parent may decide it, so there is no answer yet.
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

    /// After the replay: aborts what is undecided, and finishes what is decided.
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
        // Reservations that had no further candidate, or were between two attempts, end here. Candidates are
        // not kept across a restart, because they would be out of date.
        let checking = self.reservations.values().filter(|r| r.state == State::Checking);
        let ids: Vec<ReservationId> = checking.map(|reservation| reservation.id.clone()).collect();
        for id in ids {
            self.conclude(&id, restarted(), now, out);
        }
        for id in self.undecided_changes() {
            self.conclude(&id, change::restarted(), now, out);
        }
        self.start_mending(now, out);
        self.start_forgetting(now);
        self.start_usage();
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
        self.stir_usage_after(&record);
        self.answer_waiting(&record, out);
        out.records.push(record);
    }

    #[allow(clippy::expect_used)] // Each handler has already checked what `apply` checks. If this
    // failed, memory and ledger would differ, and a node must not send anything after that (I12, I16).
    fn must_apply(&mut self, record: &CoordinatorRecord) {
        self.apply(record).expect("a record that was decided on applies");
    }

    /// Answers all callers that wait for the record's reservation, if it has become definite.
    fn answer_waiting(&mut self, record: &CoordinatorRecord, out: &mut StepOutput) {
        let subject = record.subject();
        let id = subject.as_ref().and_then(|subject| subject.reservation(&self.transactions));
        let known = id.and_then(|id| self.reservations.get(id));
        if let Some(known) = known.filter(|known| known.is_definite()) {
            let waiting = self.conversations.take(&known.id).into_iter();
            out.effects.extend(waiting.map(|waiter| waiter.stands(known)));
        }
        self.answer_waiting_parents(out);
    }

    /// Checks that nobody waits for an outcome that is known.
    fn check_waiting(&self) -> Result<(), String> {
        let known =
            |id: &&ReservationId| self.reservations.get(*id).is_some_and(Reservation::is_definite);
        match self.conversations.awaited().find(known) {
            Some(id) => Err(format!("I22: somebody waits for {id}, whose outcome is known")),
            None => Ok(()),
        }
    }
}

/// The place that the number at the end of an id says, counted from 0.
fn place_in(id: &str) -> Option<usize> {
    let (_, number) = id.rsplit_once('-')?;
    number.parse::<usize>().ok()?.checked_sub(1)
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
            CoordinatorInput::Elected { epoch, member } => {
                self.record(CoordinatorRecord::LeaderElected { epoch, member, at: now }, &mut out);
                self.start(now, &mut out);
            }
            CoordinatorInput::Conversation(input) => self.converse(input, now, &mut out),
            CoordinatorInput::Delivered { rm, txn, kind, delivery } => {
                if !self.disown_delivered(&rm, &txn, kind, &delivery, now, &mut out) {
                    self.delivered(&rm, &txn, kind, delivery, now, &mut out);
                }
            }
            CoordinatorInput::Resolve { txn, rm, token } => {
                self.resolve(&txn, &rm, token, now, &mut out);
            }
            CoordinatorInput::Release { reservation, token } => {
                self.release(&reservation, token, now, &mut out);
            }
            CoordinatorInput::Report { reservation, report, by, token } => {
                self.report(reservation, report, by, token, now, &mut out);
            }
            CoordinatorInput::Calendar(input) => self.calendar_input(input, now, &mut out),
            CoordinatorInput::Compared { rm, differences } => {
                self.compared(&rm, differences, now, &mut out);
            }
            CoordinatorInput::Equipment(news) => self.equipment_news(news),
            CoordinatorInput::Repair(input) => self.repair(input, now, &mut out),
            CoordinatorInput::Parent(input) => self.parent_input(input, now, &mut out),
            CoordinatorInput::Room(room) => self.room.now = room,
            CoordinatorInput::Tick => {
                self.on_tick(now, &mut out);
                self.disown_due(now, &mut out);
                self.forget_due(now, &mut out);
            }
        }
        self.look_at_usage(now, &mut out);
        self.plan_to_forget(now);
        Unsynced::new(out.records, out.effects)
    }

    fn apply(&mut self, record: &CoordinatorRecord) -> Result<(), ReplayError> {
        self.fold(record)?;
        self.recount_after(record);
        self.note_rest_after(record);
        self.relist_after(record);
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
        let others =
            [self.next_mend(), self.disowning.next_wake(), self.forgetting.due(), self.usage_due()];
        due.into_iter().chain(others.into_iter().flatten()).min()
    }

    fn check_invariants(&self) -> Result<(), String> {
        for (id, txn) in &self.transactions {
            let alarmed = txn.alarm().is_some_and(|at| self.alarms.contains(&(at, id.clone())));
            if !txn.is_done() && !alarmed {
                return Err(format!("I22: {id} is unfinished but has no alarm"));
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
        self.check_attempts()?;
        self.check_live()?;
        self.check_usages()?;
        self.check_calendars()?;
        self.check_waiting()?;
        self.check_trying()
    }
}
