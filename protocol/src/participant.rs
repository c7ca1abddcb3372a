//! The participant: an RM's side of two-phase reservation.
//!
//! It owns the timetables of the RM's resources and one entry for every transaction it has ever heard
//! of. Every handler has one shape: refusals in a fixed order; from there nothing can fail; one
//! record; its answer. The state changes in [`Participant::apply`] only.
//!
//! ```text
//!            Hold ok            Commit
//!  (unknown) -------> Held ------------------> Booked
//!      | Hold no       | Abort, Resolve: abort    | Release
//!      v               v                          v
//!   Refused   Aborted, Expired (hard)   Released, Replaced   all final; each refuses for ever
//! ```
//!
//! Abort, Commit or Release of an unknown transaction leaves its final state as a tombstone (I9).
//! At its soft expiry, and at half of its hard one at the latest, a hold asks the coordinator; without an
//! answer it stays until its hard expiry, then it is expired by a record (I14) and a later Commit is refused
//! for ever.
//!
//! A transaction is its coordinator's alone (I21): its id says whose it is, nobody else may hold, end or
//! tombstone it, and what a coordinator holds or has booked it may end, even when the configuration does
//! not name it any more. [`Answer::Denied`] therefore says something definite: nothing of this
//! transaction is held or booked here for the one who asks.
//!
//! The inventory may shrink between two runs: what the log says was promised stays promised, nothing
//! new is admitted where it does not fit, and [`Participant::overcommitted`] says where that is. A
//! resource that is gone but has a record is *retired*: its bookings live on, nobody else sees it.
//!
//! A hold may replace a booking by a new version: it holds only what it takes beyond the old one, and
//! its Commit makes the old one `Ended(Replaced)` in the same record; what the new one does without may be
//! [`kept`] until the old one is released. What a hold may take is said in [`admission`], what a transaction
//! takes in [`footprint`].
//!
//! A one-way hold is booked in the same step: two records, one answer, and no decision of a coordinator stands
//! behind it, so that Abort ends it like Release.
//!
//! An NRM with an inner network routes its paths over links of its own, see [`inside`].
//!
//! Left out: compaction of what has ended. Source: design.md "Two-phase reservation"; TigerBeetle's
//! pending transfers; NSI Connection Service 2.1; docs/adr/0005-modify.md.

mod admission;
mod config;
mod disclosure;
#[cfg(test)]
mod disclosure_tests;
mod entry;
pub mod footprint;
mod inner;
mod input;
mod kept;
mod overlap;
mod promised;
mod record;
#[cfg(test)]
mod room_tests;
#[cfg(test)]
mod tests;
#[cfg(test)]
mod version_tests;

use std::collections::{BTreeMap, BTreeSet};

use coalloc_common::planted::{self, Bug};
use coalloc_common::timetable::Timetable;
use coalloc_common::{
    Amount, BootTime, CoordinatorName, DiskSpace, Now, Reason, Refusal, ResourceId, Span, Time,
    TransactionId, Window, limits,
};

pub use self::admission::Question;
pub use self::config::{HoldPolicy, Level, Overcommitted, ParticipantConfig};
pub use self::disclosure::Disclosure;
pub use self::entry::{Entry, HoldClocks, Phase};
use self::footprint::Footprint;
use self::inner::{InnerChoice, inner_footprint};
pub use self::inner::{
    InnerDemand, InnerFreeCapacity, InnerMove, InnerPlaced, InnerRearranged, InnerRoute,
    InnerRouter, InnerShort,
};
pub use self::input::{ParticipantEffect, ParticipantInput};
use self::overlap::Overlaps;
pub use self::record::{ParticipantRecord, TransactionEnd};
use crate::core::{Core, ReplayError};
use crate::digest::BookingSet;
use crate::disk_gate::DiskGate;
use crate::durable::Unsynced;
use crate::message::{Answer, Cause, Decision, HoldOrder, Resolution, Token};
use crate::update::ChangeLog;

/// The participant.
#[derive(Debug, Clone)]
pub struct Participant {
    config: ParticipantConfig,
    /// Of every configured resource, and of every retired one.
    timetables: BTreeMap<ResourceId, Timetable>,
    /// No longer configured, but the log has a hold of it. Their timetables have no capacity.
    retired: BTreeSet<ResourceId>,
    /// Inner links: they have timetables, and are no resources to whoever asks.
    links: BTreeSet<ResourceId>,
    entries: BTreeMap<TransactionId, Entry>,
    /// By which hold each booking is being replaced.
    replacing: BTreeMap<TransactionId, TransactionId>,
    /// When what is live takes its routes inside.
    overlaps: Overlaps,
    /// What is booked for each coordinator.
    booked: BTreeMap<CoordinatorName, BookingSet>,
    /// The next instant at which each hold wants something.
    alarms: BTreeSet<(BootTime, TransactionId)>,
    /// The boot that the deadlines of all holds are counted in.
    boot: Option<String>,
    /// What of that is free has changed lately, and the number of each resource for it. Both follow from
    /// the log and the configuration.
    changes: ChangeLog,
    numbers: BTreeMap<ResourceId, u32>,
    /// Is there room on the disk? With what was refused for want of it. Forgotten at a restart.
    room: DiskGate,
}

type Step = Unsynced<ParticipantRecord, ParticipantEffect>;

impl Participant {
    /// A participant with nothing held. Replay its log with [`Core::apply`], then give it
    /// [`ParticipantInput::Start`].
    #[must_use]
    pub fn new(config: ParticipantConfig) -> Self {
        let links =
            config.inside.as_ref().map(|inside| inside.links().to_vec()).unwrap_or_default();
        let timetables = (config.resources.iter())
            .chain(&links)
            .map(|(resource, capacity)| (resource.clone(), Timetable::new(*capacity)))
            .collect();
        let count = disclosure::count(&config.resources);
        Self {
            changes: ChangeLog::new(limits::CHANGES_KEPT, count),
            numbers: disclosure::numbers(&config.resources),
            config,
            timetables,
            retired: BTreeSet::new(),
            links: links.into_iter().map(|(link, _)| link).collect(),
            entries: BTreeMap::new(),
            replacing: BTreeMap::new(),
            overlaps: Overlaps::default(),
            booked: BTreeMap::new(),
            alarms: BTreeSet::new(),
            boot: None,
            room: DiskGate::default(),
        }
    }

    /// What it was told.
    #[must_use]
    pub const fn config(&self) -> &ParticipantConfig {
        &self.config
    }

    /// When, after a window's start, some hold or booking here ends, so that more may be free.
    fn next_change(&self, window: Window) -> Option<Time> {
        let own = self.config.resources.iter().filter_map(|(name, _)| self.timetables.get(name));
        own.filter_map(|timetable| timetable.next_relief(window.start())).min()
    }

    /// Every transaction ever heard of, by id.
    #[must_use]
    pub const fn entries(&self) -> &BTreeMap<TransactionId, Entry> {
        &self.entries
    }

    /// The timetable of a configured resource. A retired one is no resource to whoever asks.
    #[must_use]
    pub fn timetable(&self, resource: &ResourceId) -> Option<&Timetable> {
        let hidden = self.retired.contains(resource) || self.links.contains(resource);
        self.timetables.get(resource).filter(|_| !hidden)
    }

    /// Every hold that is neither committed nor ended, in the order in which they want something.
    pub fn holds(&self) -> impl ExactSizeIterator<Item = Option<&HoldClocks>> {
        self.alarms.iter().map(|(_, txn)| match &self.entries.get(txn)?.phase {
            Phase::Held(held) => Some(held),
            Phase::Booked | Phase::Refused(_) | Phase::Ended(_) => None,
        })
    }

    /// What is held and booked of every configured resource at one instant, beside what there is, in
    /// the order of the configuration.
    pub fn levels(&self, at: Time) -> impl Iterator<Item = (&ResourceId, Level)> {
        self.config.resources.iter().filter_map(move |(resource, capacity)| {
            let window = Window::starting(at, Span::from_us(1))?;
            let step = self.timetables.get(resource)?.profile(window).first().copied()?;
            let level = Level { capacity: *capacity, held: step.held, booked: step.booked };
            Some((resource, level))
        })
    }

    /// Where more is promised than there is, now or later: each such resource, retired ones too, in
    /// the order of their names.
    #[must_use]
    pub fn overcommitted(&self, now: Now) -> Vec<Overcommitted> {
        let over = |(resource, timetable): (&ResourceId, &Timetable)| {
            let by = timetable.overcommitted(now.wall)?;
            Some(Overcommitted { resource: resource.clone(), by })
        };
        self.timetables.iter().filter_map(over).collect()
    }

    fn hold(&mut self, order: HoldOrder, token: Token, now: Now) -> Step {
        // Refusals, in a fixed order: whose, known before, who, room to write it down, what, when, how much.
        if !order.txn.is_of(&order.coordinator) && !planted::is(Bug::AnybodysId) {
            return reply(token, Answer::Denied);
        }
        if let Some(answer) = self.room.remembered(&order, &self.config.name) {
            return reply(token, answer);
        }
        if let Some(entry) = self.entries.get(&order.txn) {
            return reply(token, entry.answer_hold(&order));
        }
        if !self.config.coordinators.contains(&order.coordinator) {
            return reply(token, Answer::Denied);
        }
        if let Some(answer) = self.room.refuse(&order, &self.config.name) {
            return reply(token, answer);
        }
        let chosen = match self.refusal_of(&order, now) {
            Some(refusal) => Err(Box::new(refusal)),
            None => self.route_inside(&order, now),
        };
        let InnerChoice { inner, moves } = match chosen {
            Ok(chosen) => chosen,
            Err(refusal) => {
                let answer = Answer::Refused((*refusal).clone());
                if planted::is(Bug::RefusalForgotten) {
                    return reply(token, answer);
                }
                let record = ParticipantRecord::Refused { order, refusal: *refusal, at: now };
                return self.record(record, token, answer);
            }
        };
        // From here nothing can fail: every segment fits.
        let mut records = Vec::new();
        if !moves.is_empty() {
            let by = Cause::Coordinator(order.coordinator.clone());
            let record = ParticipantRecord::Moved { moves, by, at: now };
            self.must_apply(&record);
            records.push(record);
        }
        if order.one_way {
            return self.book_at_once(records, (order, inner), token, now);
        }
        let first_start = self.to_take(&order, inner.as_deref()).start();
        let before = |start: Time| start.since(now.wall).saturating_sub(limits::HOLD_LEAD);
        let hard = self.config.policy.hard;
        let hard = first_start.map_or(hard, |start| hard.min(before(start)));
        let hard = hard.max(limits::HOLD_HARD_MIN);
        let soft = order.hold_for.unwrap_or(self.config.policy.soft).min(ask_by(hard));
        let answer = Answer::Held { expires_in: hard };
        let record = ParticipantRecord::Held { order, soft, hard, at: now, inner };
        self.must_apply(&record);
        records.push(record);
        Unsynced::new(records, vec![ParticipantEffect::Reply { token, answer }])
    }

    /// A one-way hold that fits: held and booked in one append, so that a binary from before there were any
    /// reads the same from the log.
    fn book_at_once(
        &mut self,
        mut records: Vec<ParticipantRecord>,
        (order, inner): (HoldOrder, Option<Vec<InnerRoute>>),
        token: Token,
        now: Now,
    ) -> Step {
        // As when it is asked again: nothing expires any more.
        let lasts = limits::HOLD_HARD_MIN;
        let (txn, by) = (order.txn.clone(), Cause::Coordinator(order.coordinator.clone()));
        let held = ParticipantRecord::Held { order, soft: lasts, hard: lasts, at: now, inner };
        let booked = ParticipantRecord::Booked { txn, by, at: now };
        for record in [held, booked] {
            self.must_apply(&record);
            records.push(record);
        }
        let answer = Answer::Held { expires_in: lasts };
        Unsynced::new(records, vec![ParticipantEffect::Reply { token, answer }])
    }

    /// What a hold of this order takes now: beyond what is booked for the version that it replaces.
    fn to_take(&self, order: &HoldOrder, inner: Option<&[InnerRoute]>) -> Footprint {
        let whole = Footprint::of(&order.segments).and(inner_footprint(&order.segments, inner));
        match self.own(order.replaces.as_ref()) {
            Some(own) => whole.beyond(&own),
            None => whole,
        }
    }

    /// The version that a hold would replace, when it is not there any more: the hold cannot be booked.
    fn lost_old(&self, txn: &TransactionId) -> Option<&TransactionId> {
        let order = self.entries.get(txn)?.order.as_ref()?;
        let old = order.replaces.as_ref()?;
        let is_booked = self.entries.get(old).is_some_and(|old| old.phase == Phase::Booked);
        (!is_booked).then_some(old)
    }

    fn commit(&mut self, txn: TransactionId, by: CoordinatorName, token: Token, now: Now) -> Step {
        let (hard_at, known) = match self.gate(&txn, &by) {
            Gate::Denied => return reply(token, Answer::Denied),
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
            let detail = format!("{old}, which {txn} would replace, is not booked any more");
            let refusal =
                Refusal::new(TransactionEnd::Aborted.reason(), detail).at(&self.config.name);
            let ending = TransactionEnd::Aborted;
            let record =
                ParticipantRecord::Ended { txn, coordinator: by, ending, by: cause, at: now };
            return self.record(record, token, Answer::Refused(refusal));
        }
        if hard_at.is_some_and(|hard_at| now.boot < hard_at) {
            // From here nothing can fail: what is held is moved to booked.
            let record = ParticipantRecord::Booked { txn, by: cause, at: now };
            return self.record(record, token, Answer::Done);
        }
        let (ending, cause) = if known {
            (TransactionEnd::Expired, Cause::Expiry)
        } else {
            (TransactionEnd::Aborted, cause)
        };
        let mut refusal = ending.refusal(&self.config.name, &txn);
        if !known {
            refusal.reason = Reason::NotHeld;
            refusal.detail = format!("nothing is held for {txn} here, and never will be");
        }
        let record = ParticipantRecord::Ended { txn, coordinator: by, ending, by: cause, at: now };
        self.record(record, token, Answer::Refused(refusal))
    }

    fn abort(&mut self, txn: TransactionId, by: CoordinatorName, token: Token, now: Now) -> Step {
        match self.gate(&txn, &by) {
            Gate::Denied => return reply(token, Answer::Denied),
            Gate::Known(entry) if entry.phase == Phase::Booked && !entry.is_one_way() => {
                let detail = format!("{txn} is booked; only Release ends it");
                let refusal = Refusal::new(Reason::NotHeld, detail).at(&self.config.name);
                return reply(token, Answer::Refused(refusal));
            }
            Gate::Known(Entry { phase: Phase::Refused(_) | Phase::Ended(_), .. }) => {
                return reply(token, Answer::Done);
            }
            Gate::Unknown if planted::is(Bug::NoTombstone) => return reply(token, Answer::Done),
            Gate::Known(Entry { phase: Phase::Held(_) | Phase::Booked, .. }) | Gate::Unknown => {}
        }
        self.end(txn, by, TransactionEnd::Aborted, token, now)
    }

    fn release(&mut self, txn: TransactionId, by: CoordinatorName, token: Token, now: Now) -> Step {
        match self.gate(&txn, &by) {
            Gate::Denied => return reply(token, Answer::Denied),
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
        token: Token,
        now: Now,
    ) -> Step {
        let by = Cause::Coordinator(coordinator.clone());
        let record = ParticipantRecord::Ended { txn, coordinator, ending, by, at: now };
        self.record(record, token, Answer::Done)
    }

    fn resolved(&mut self, txn: TransactionId, resolution: Resolution, now: Now) -> Step {
        let Some(Entry { coordinator, phase: Phase::Held(held), .. }) = self.entries.get(&txn)
        else {
            return nothing();
        };
        let (coordinator, hard_at) = (coordinator.clone(), held.hard_at);
        let by = Cause::Resolve(coordinator.clone());
        let record = match resolution {
            // The next question was put off when this one was asked.
            Resolution::NotMine | Resolution::Lost => return nothing(),
            Resolution::Decided(Decision::Commit) if self.lost_old(&txn).is_some() => {
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

    /// Every alarm that is due: hard expiries become records, soft ones questions.
    fn tick(&mut self, now: Now) -> Step {
        let mut records = Vec::new();
        let mut effects = Vec::new();
        while let Some((due, txn)) = self.alarms.first().cloned()
            && due <= now.boot
        {
            let Some(Entry { coordinator, phase: Phase::Held(held), .. }) =
                self.entries.get_mut(&txn)
            else {
                // Alarms are removed with their hold; an alarm without one has nothing to say.
                self.alarms.remove(&(due, txn));
                continue;
            };
            let coordinator = coordinator.clone();
            if now.boot >= held.hard_at {
                let (ending, by) = (TransactionEnd::Expired, Cause::Expiry);
                let record = ParticipantRecord::Ended { txn, coordinator, ending, by, at: now };
                self.must_apply(&record);
                if !planted::is(Bug::ExpiryUnrecorded) {
                    records.push(record);
                }
                continue;
            }
            self.alarms.remove(&(due, txn.clone()));
            held.asked = held.asked.saturating_add(1);
            let left = match planted::is(Bug::AskPauseFixed) {
                true => limits::HOLD_HARD_MAX,
                false => held.hard_at.since(now.boot),
            };
            let pause = limits::ask_pause(held.asked, left);
            held.ask_at = now.boot.saturating_add(pause);
            self.alarms.insert((held.ask_at.min(held.hard_at), txn.clone()));
            effects.push(ParticipantEffect::Ask { coordinator, txn });
        }
        Unsynced::new(records, effects)
    }

    fn gate(&self, txn: &TransactionId, by: &CoordinatorName) -> Gate<'_> {
        match self.entries.get(txn) {
            Some(entry) if entry.coordinator != *by => Gate::Denied,
            Some(_)
                if planted::is(Bug::LeftOutDenied) && !self.config.coordinators.contains(by) =>
            {
                Gate::Denied
            }
            // What was promised to it stays promised, whatever the configuration says by now.
            Some(entry) => Gate::Known(entry),
            None if !self.config.coordinators.contains(by) => Gate::Denied,
            None if !txn.is_of(by) && !planted::is(Bug::AnybodysId) => Gate::Denied,
            None => Gate::Unknown,
        }
    }

    fn record(&mut self, record: ParticipantRecord, token: Token, answer: Answer) -> Step {
        self.must_apply(&record);
        Unsynced::new(vec![record], vec![ParticipantEffect::Reply { token, answer }])
    }

    /// Applies a record that a step has just decided on: as replay will, but that a hold must fit.
    #[allow(clippy::expect_used)] // Each handler has checked all that the fold checks: were this to
    // fail, memory and ledger would part, and a node must not speak after that (I1, I12, I16).
    fn must_apply(&mut self, record: &ParticipantRecord) {
        self.fold(record, Timetable::add).expect("a record that was decided on applies");
    }

    /// A hold of a new version takes exactly what that lacks, as long as the old one is booked.
    fn check_replacing(
        &self,
        txn: &TransactionId,
        entry: &Entry,
        held: &HoldClocks,
    ) -> Result<(), String> {
        let replaces = entry.order.as_ref().and_then(|order| order.replaces.as_ref());
        let Some(old) = replaces else { return Ok(()) };
        if self.replacing.get(old) != Some(txn) {
            return Err(format!("{txn} replaces {old}, and nobody knows"));
        }
        let lacks = self.own(Some(old)).map(|own| entry.footprint().beyond(&own).segments());
        if lacks.is_some_and(|lacks| lacks != held.taken) {
            return Err(format!("I1: {txn} does not hold what it lacks beside {old}"));
        }
        Ok(())
    }

    fn set_alarm(&mut self, txn: &TransactionId) {
        if let Some(Entry { phase: Phase::Held(held), .. }) = self.entries.get(txn) {
            self.alarms.insert((held.ask_at.min(held.hard_at), txn.clone()));
        }
    }

    fn clear_alarm(&mut self, txn: &TransactionId) {
        if let Some(Entry { phase: Phase::Held(held), .. }) = self.entries.get(txn) {
            self.alarms.remove(&(held.ask_at.min(held.hard_at), txn.clone()));
        }
    }
}

/// What is known of a transaction, to one coordinator.
enum Gate<'a> {
    Denied,
    Unknown,
    Known(&'a Entry),
}

/// A hold is asked about after this long at the latest: early enough for the answer to come, and for more
/// questions when it does not.
pub(crate) fn ask_by(hard: Span) -> Span {
    if planted::is(Bug::ShortHoldUnasked) { hard } else { Span::from_us(hard.as_us() / 2) }
}

fn reply(token: Token, answer: Answer) -> Step {
    Unsynced::new(vec![], vec![ParticipantEffect::Reply { token, answer }])
}

fn nothing() -> Step {
    Unsynced::new(vec![], vec![])
}

impl Core for Participant {
    type Input = ParticipantInput;
    type Record = ParticipantRecord;
    type Effect = ParticipantEffect;

    fn step(&mut self, input: ParticipantInput, now: Now) -> Step {
        match input {
            ParticipantInput::Start { boot } => {
                let record = ParticipantRecord::Opened { boot, at: now };
                self.must_apply(&record);
                let mut records = vec![record];
                records.extend(self.route_unrouted(now));
                Unsynced::new(records, vec![])
            }
            ParticipantInput::Hold { order, token } => self.hold(order, token, now),
            ParticipantInput::Commit { txn, by, token } => self.commit(txn, by, token, now),
            ParticipantInput::Abort { txn, by, token } => self.abort(txn, by, token, now),
            ParticipantInput::Release { txn, by, token } => self.release(txn, by, token, now),
            ParticipantInput::Resolved { txn, resolution } => self.resolved(txn, resolution, now),
            ParticipantInput::Room(room) => {
                self.room.now = room;
                nothing()
            }
            ParticipantInput::Tick => self.tick(now),
        }
    }

    fn apply(&mut self, record: &ParticipantRecord) -> Result<(), ReplayError> {
        // The step that wrote the record had checked it against the inventory of its day. Today's may
        // be smaller, and has no say in what was promised.
        self.fold(record, Timetable::restore)
    }

    fn tick() -> ParticipantInput {
        ParticipantInput::Tick
    }

    fn room(room: DiskSpace) -> Option<ParticipantInput> {
        Some(ParticipantInput::Room(room))
    }

    fn next_wake(&self) -> Option<BootTime> {
        self.alarms.first().map(|(at, _)| *at)
    }

    fn check_invariants(&self) -> Result<(), String> {
        let mut fold: BTreeMap<&ResourceId, Timetable> = BTreeMap::new();
        for (resource, timetable) in &self.timetables {
            timetable.check_invariants().map_err(|error| format!("I1: {resource}: {error}"))?;
            fold.insert(resource, Timetable::new(timetable.capacity()));
            if self.retired.contains(resource) && timetable.capacity() != Amount::ZERO {
                return Err(format!("I1: {resource} is retired and can be booked"));
            }
        }
        for (txn, entry) in &self.entries {
            if let Phase::Held(held) = &entry.phase {
                if !self.alarms.contains(&(held.ask_at.min(held.hard_at), txn.clone())) {
                    return Err(format!("I22: the hold of {txn} has no alarm"));
                }
                self.check_replacing(txn, entry, held)?;
            }
            let Some((layer, segments)) = entry.in_timetables() else { continue };
            for segment in &segments {
                let Some(timetable) = fold.get_mut(&segment.resource) else {
                    return Err(format!("I12: {txn} has {}, unknown here", segment.resource));
                };
                // Whether it all fits was asked above; the inventory may have shrunk under it.
                timetable
                    .restore(layer, segment.window, segment.amount)
                    .map_err(|error| format!("I1: {txn}: {error}"))?;
            }
        }
        self.check_routes()?;
        self.check_promised()?;
        self.check_kept()?;
        let held = |txn: &TransactionId| {
            self.entries.get(txn).is_some_and(|entry| matches!(entry.phase, Phase::Held(_)))
        };
        if let Some((old, new)) = self.replacing.iter().find(|(_, new)| !held(new)) {
            return Err(format!("{old} is being replaced by {new}, which is not held"));
        }
        for (resource, timetable) in &self.timetables {
            if fold.get(resource) != Some(timetable) {
                return Err(format!("I12: the timetable of {resource} is not its entries' sum"));
            }
        }
        Ok(())
    }
}
