//! A controller: the real participant of a resource manager, and what it reports to schedulers.
//!
//! Everything is reserved by the participant's own inputs, as in a daemon. Its log keeps nothing, because no
//! node dies in this model. Its change log and its subscriptions decide which scheduler gets an update when,
//! and the update is read from the participant, see `coalloc_protocol::update`.

use std::collections::BTreeMap;
use std::rc::Rc;

use coalloc_common::profile::FreeStep;
use coalloc_common::{
    Amount, BootTime, CoordinatorName, Now, ResourceKind, Segment, ServiceLevels, Time,
    TransactionId, UserName, Window, limits,
};
use coalloc_protocol::Core;
use coalloc_protocol::message::{Answer, HoldOrder, Message, Token};
use coalloc_protocol::participant::{
    Disclosure, HoldPolicy, HoldQuotas, Participant, ParticipantConfig, ParticipantEffect,
    ParticipantInput, ParticipantRecord,
};
use coalloc_protocol::update::{
    DueUpdate, Part, ResourceChange, Strategy, Subscription, Update, UpdateKind,
};

use super::net::Net;
use crate::forgetful::released;

/// The epoch of every controller: no ledger is ever replaced.
const EPOCH: u64 = 1;

/// The token of every caller. An answer is given within the step, so there is only one caller at a time.
const CALLER: Token<Answer> = Token::new(0);

/// A controller.
pub(super) struct Controller {
    participant: Participant,
    /// The revisions at which free amounts changed, and when.
    changed_at: Vec<(u64, Time)>,
    subscriptions: Vec<Subscription>,
    /// The instant for which each subscriber's next turn is scheduled.
    turns: Vec<Option<BootTime>>,
    /// The update that was made last, from which revision to which. Most subscribers need the same one.
    made: Option<(Option<u64>, u64, Rc<Update>)>,
    user: UserName,
    /// The instant for which its next tick is scheduled, if there is one.
    pub(super) wakes: Option<Time>,
}

/// The result of a step of the participant.
#[derive(Debug, Default)]
pub(super) struct ControllerStep {
    pub(super) answer: Option<Answer>,
    /// The questions to coordinators.
    pub(super) asks: Vec<(CoordinatorName, TransactionId)>,
    /// Something was held or booked; the input says what.
    pub(super) took: bool,
    /// What has ended, and was held or booked before.
    pub(super) freed: Vec<TransactionId>,
}

/// Both clocks show the simulated time.
pub(super) const fn now_of(at: Time) -> Now {
    Now { wall: at, boot: BootTime::from_us(at.as_us()) }
}

impl Controller {
    /// A controller with nothing reserved. These coordinators may hold at it. It has one subscriber for each
    /// scheduler, and every subscriber already knows that nothing is reserved.
    pub(super) fn new(
        net: &Net,
        place: usize,
        coordinators: &[CoordinatorName],
        schedulers: usize,
        strategy: Strategy,
    ) -> Self {
        let place = &net.places[place];
        let resources = place.resources.iter().map(|at| &net.resources[*at]);
        let resources: Vec<_> = resources.map(|own| (own.id.clone(), own.capacity)).collect();
        let is_cluster =
            place.resources.iter().any(|resource| net.resources[*resource].cluster.is_some());
        let config = ParticipantConfig {
            name: place.name.clone(),
            resources,
            kinds: if is_cluster { ResourceKind::Cpus } else { ResourceKind::Bandwidth }.into(),
            coordinators: coordinators.iter().cloned().collect(),
            policy: HoldPolicy { horizon: limits::HORIZON_MAX, ..HoldPolicy::default() },
            levels: ServiceLevels::default(),
            quotas: HoldQuotas::default(),
            inside: None,
            servers: BTreeMap::new(),
        };
        let start = BootTime::from_us(0);
        let mut controller = Self {
            participant: Participant::new(config),
            changed_at: Vec::new(),
            subscriptions: Vec::new(),
            turns: vec![None; schedulers],
            made: None,
            user: UserName::composed("user"),
            wakes: None,
        };
        let input = ParticipantInput::Start { boot: "simulated".to_owned() };
        controller.step(input, Time::from_us(0));
        let known = Some(controller.revision());
        controller.subscriptions = vec![Subscription::new(strategy, known, start); schedulers];
        controller
    }

    /// Steps its participant with one input.
    pub(super) fn step(&mut self, input: ParticipantInput, now: Time) -> ControllerStep {
        let step = self.participant.step(input, now_of(now));
        let mut stepped = ControllerStep::default();
        for record in step.records() {
            match record {
                ParticipantRecord::Held { .. } => stepped.took = true,
                // If the Hold never came, there is only a tombstone, and nothing was freed.
                ParticipantRecord::Ended { txn, .. } => {
                    stepped.freed.extend(self.asked(txn).map(|order| order.txn.clone()));
                }
                ParticipantRecord::Opened { .. }
                | ParticipantRecord::Moved { .. }
                | ParticipantRecord::Refused { .. }
                | ParticipantRecord::Booked { .. }
                | ParticipantRecord::LeaderChanged { .. }
                | ParticipantRecord::Claimed { .. }
                | ParticipantRecord::ClaimRefused { .. }
                | ParticipantRecord::Equipped { .. }
                | ParticipantRecord::Forgotten { .. } => {}
            }
        }
        for effect in released(step) {
            match effect {
                ParticipantEffect::Reply { answer, .. } => stepped.answer = Some(answer),
                ParticipantEffect::Ask { coordinator, txn } => {
                    stepped.asks.push((coordinator, txn));
                }
                ParticipantEffect::Reconcile { .. } => {}
            }
        }
        if stepped.took || !stepped.freed.is_empty() {
            self.changed(now);
        }
        stepped
    }

    /// Handles a message of a coordinator.
    pub(super) fn hear(
        &mut self,
        by: CoordinatorName,
        txn: TransactionId,
        message: Message,
        now: Time,
    ) -> ControllerStep {
        let token = CALLER;
        let input = match message {
            Message::Hold(order) => ParticipantInput::Hold { order, oldest_open: 0, token },
            Message::Commit => ParticipantInput::Commit { txn, by, token },
            Message::Abort => ParticipantInput::Abort { txn, by, token },
            Message::Release => ParticipantInput::Release { txn, by, token },
        };
        self.step(input, now)
    }

    /// Books a segment at once. Returns true if it was free.
    pub(super) fn book(
        &mut self,
        by: CoordinatorName,
        txn: TransactionId,
        segment: Segment,
        now: Time,
    ) -> bool {
        let order = HoldOrder {
            txn: txn.clone(),
            coordinator: by.clone(),
            user: self.user.clone(),
            segments: vec![segment],
            hold_for: None,
            replaces: None,
            keeps_old: false,
            one_way: true,
            servers: None,
            manual_provision: false,
        };
        self.hear(by, txn, Message::Hold(order), now).took
    }

    /// When the participant wants to be woken.
    pub(super) fn next_wake(&self) -> Option<Time> {
        self.participant.next_wake().map(|wake| Time::from_us(wake.as_us()))
    }

    /// Does it have an entry for the transaction?
    pub(super) fn knows(&self, txn: &TransactionId) -> bool {
        self.participant.entries().contains_key(txn)
    }

    /// The order of a transaction's Hold; `None` when no Hold has arrived.
    pub(super) fn asked(&self, txn: &TransactionId) -> Option<&HoldOrder> {
        self.participant.entries().get(txn)?.order.as_ref()
    }

    fn changed(&mut self, now: Time) {
        self.changed_at.push((self.revision(), now));
        self.made = None;
    }

    /// Number of state changes so far.
    pub(super) const fn revision(&self) -> u64 {
        self.participant.changes().revision()
    }

    /// When the first change after a revision was made; `None` when there was none.
    pub(super) fn changed_after(&self, revision: u64) -> Option<Time> {
        let next = self.changed_at.partition_point(|(at, _)| *at <= revision);
        self.changed_at.get(next).map(|(_, time)| *time)
    }

    /// What is free of a resource over a window.
    pub(super) fn free(&self, net: &Net, resource: usize, window: Window) -> Vec<FreeStep> {
        let Some(timetable) = self.participant.timetable(&net.resources[resource].id) else {
            return vec![(window.start(), Amount::ZERO)];
        };
        let capacity = timetable.capacity();
        let free = |step: coalloc_common::timetable::Step| {
            let free = capacity.saturating_sub(step.held).saturating_sub(step.booked);
            (step.start, free)
        };
        timetable.steps(window).map(free).collect()
    }

    /// The earliest window of this length, within another window, in which an amount of a resource is free.
    pub(super) fn earliest(
        &self,
        net: &Net,
        resource: usize,
        amount: Amount,
        length: coalloc_common::Span,
        within: Window,
    ) -> Option<Window> {
        let timetable = self.participant.timetable(&net.resources[resource].id)?;
        timetable.earliest_fit(amount, length, within)
    }

    /// What is free of a resource over a window, as the facts of an answer.
    pub(super) fn facts(&self, net: &Net, resource: usize, window: Window, now: Time) -> Update {
        let windows = [(net.resources[resource].number, window)];
        self.update(UpdateKind::Facts, Disclosure::of(windows), now)
    }

    /// What is free around these segments, as the facts of an answer.
    pub(super) fn fresh(&self, segments: &[Segment], now: Time) -> Update {
        self.update(UpdateKind::Facts, self.participant.around(segments), now)
    }

    /// A snapshot of everything. A scheduler begins with it, or gets it when it has missed too much.
    pub(super) fn snapshot(&self, net: &Net, place: usize, now: Time) -> Update {
        let own = &net.places[place].resources;
        let resources = own.iter().map(|resource| net.resources[*resource].id.clone()).collect();
        let kind = UpdateKind::Snapshot { resources, more: false };
        self.update(kind, self.participant.everything(now), now)
    }

    fn update(&self, kind: UpdateKind, mut disclosure: Disclosure, now: Time) -> Update {
        let mut parts = Vec::new();
        while !disclosure.is_read() {
            self.participant.disclose(&mut disclosure);
            parts.extend(disclosure.take());
        }
        Update { epoch: EPOCH, kind, revision: self.revision(), at: now, parts }
    }

    /// The update that a subscriber gets now, or when it is its turn, unless that turn is already scheduled.
    pub(super) fn due(&mut self, net: &Net, place: usize, subscriber: usize, now: Time) -> Turn {
        let own = &net.places[place].resources;
        let capacity = |number: u32| {
            own.get(number as usize).map_or(Amount::ZERO, |at| net.resources[*at].capacity)
        };
        // Most subscribers are at the same revision as the one before, so the last update serves them, too.
        let stands_at = self.subscriptions[subscriber].revision();
        let changes = self.participant.changes();
        let due = self.subscriptions[subscriber].due(changes, capacity, now_of(now));
        let revision = self.revision();
        let update = match due {
            DueUpdate::Nothing => return Turn::Nothing,
            DueUpdate::At(at) => {
                let known = self.turns[subscriber]
                    .is_some_and(|turn| turn <= at && turn > now_of(now).boot);
                if known {
                    return Turn::Nothing;
                }
                self.turns[subscriber] = Some(at);
                return Turn::At(Time::from_us(at.as_us()));
            }
            DueUpdate::Snapshot | DueUpdate::Delta { .. } => match &self.made {
                Some((from, to, made)) if (*from, *to) == (stands_at, revision) => made.clone(),
                _ => Rc::new(match due {
                    DueUpdate::Delta { from, touched } => self.delta(from, &touched, now),
                    _ => self.snapshot(net, place, now),
                }),
            },
        };
        self.made = Some((stands_at, revision, update.clone()));
        self.subscriptions[subscriber].told(revision, now_of(now).boot);
        Turn::Tell(update)
    }

    fn delta(&self, from: u64, touched: &BTreeMap<u32, ResourceChange>, now: Time) -> Update {
        let windows = touched
            .iter()
            .flat_map(|(number, touched)| touched.windows.iter().map(|window| (*number, *window)));
        self.update(UpdateKind::Delta { from }, Disclosure::of(windows), now)
    }

    /// Checks a controller at rest: its invariants hold, and nothing is undecided (I7).
    pub(super) fn check(&self) -> Result<(), String> {
        let held = self.participant.holds().len();
        if held > 0 {
            return Err(format!("I7: {held} holds are left at {}", self.participant.config().name));
        }
        self.participant.check_invariants()
    }
}

/// What a subscriber gets at its turn.
pub(super) enum Turn {
    /// There is nothing to report, or a later turn is already scheduled.
    Nothing,
    /// The subscriber's turn is at this instant.
    At(Time),
    /// Send this update.
    Tell(Rc<Update>),
}

/// The size in bytes of an update on the wire (`coalloc.v1.ProfileUpdate`), without the frames around it.
pub(super) fn wire_bytes(update: &Update) -> u64 {
    // Each field has one byte of tag and a value. The epoch has eight bytes, the kind one.
    let from = match update.kind {
        UpdateKind::Delta { from } => field(from),
        UpdateKind::Snapshot { .. } | UpdateKind::Facts => 0,
    };
    let names = match &update.kind {
        UpdateKind::Snapshot { resources, .. } => {
            resources.iter().map(|name| block(name.as_str().len() as u64)).sum()
        }
        UpdateKind::Delta { .. } | UpdateKind::Facts => 0,
    };
    let head = 9 + 2 + from + field(update.revision) + field(update.at.as_us().unsigned_abs());
    head + names + update.parts.iter().map(|part| block(part_bytes(part))).sum::<u64>()
}

fn part_bytes(part: &Part) -> u64 {
    let free: u64 = part.steps.iter().map(|(_, free)| varint(free.0)).sum();
    let after: u64 = part
        .steps
        .windows(2)
        .map(|pair| varint(pair[1].0.since(pair[0].0).as_us().unsigned_abs()))
        .sum();
    let after = if part.steps.len() > 1 { block(after) } else { 0 };
    field(u64::from(part.resource))
        + field(part.window.start().as_us().unsigned_abs())
        + field(part.window.length().as_us().unsigned_abs())
        + block(free)
        + after
}

/// The size of a length-delimited field.
const fn block(bytes: u64) -> u64 {
    1 + varint(bytes) + bytes
}

/// The size of a number field; zero is not sent.
const fn field(value: u64) -> u64 {
    if value == 0 { 0 } else { 1 + varint(value) }
}

const fn varint(value: u64) -> u64 {
    (64 - (value | 1).leading_zeros() as u64).div_ceil(7)
}
