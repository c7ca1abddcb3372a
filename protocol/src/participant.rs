//! The participant: the side of a resource manager (RM) in two-phase reservation.
//!
//! It owns the timetables of the RM's resources, and keeps one entry for every transaction that it has ever
//! heard of. Every handler has the same shape: first refusals in a fixed order, then a point from which nothing
//! can fail, then one record, then the answer. The state changes in [`Participant::apply`] only.
//!
//! ```text
//!            Hold ok            Commit
//!  (unknown) -------> Held ------------------> Booked
//!      | Hold no       | Abort, Resolve: abort    | Release
//!      v               v                          v
//!   Refused   Aborted, Expired (hard)   Released, Replaced   all final: a later Hold or Commit is always refused
//! ```
//!
//! Abort, Commit or Release of an unknown transaction leaves its final state as a tombstone (I9). At its soft
//! expiry, and when half of the time to its hard expiry has passed at the latest, a hold asks its coordinator
//! for the decision. Without an answer it stays until its hard expiry. Then a record ends it (I14), and every
//! later Commit is refused.
//!
//! A transaction belongs to its coordinator alone (I21). Its id names that coordinator, and nobody else may
//! hold it, end it or leave its tombstone. A coordinator may end what it holds or has booked even when the
//! configuration does not name the coordinator any more. Therefore [`Answer::Denied`] has a definite meaning:
//! nothing of this transaction is held or booked here for the sender.
//!
//! The inventory may shrink between two runs. What was promised according to the log stays promised, nothing
//! new is admitted where it does not fit, and [`Participant::overcommitted`] reports where that is the case. A
//! resource that is no longer configured but has a record in the log is *retired*: its bookings live on, and
//! nobody can see or book it any more.
//!
//! A hold may replace a booking by a new version. It then holds only what the new version takes beyond the old
//! one, and its Commit makes the old one `Ended(Replaced)` in the same record. What the new version does not
//! need may be [`kept`] until the old one is released. [`admission`] says what a hold may take, and
//! [`footprint`] what a transaction takes.
//!
//! A one-way hold is booked in the same step, with two records and one answer. No decision of a coordinator
//! stands behind it, so Abort ends it like Release.
//!
//! What a coordinator and each of its users hold at a time is limited, see [`quota`].
//!
//! An NRM with an inner network routes its paths over links of its own, see [`inner`]. A CRM may reserve single
//! servers, see [`servers`].
//!
//! What has ended for good is forgotten, see [`forgetting`].
//!
//! Source: design.md "Two-phase reservation"; pending transfers of TigerBeetle; NSI Connection Service 2.1;
//! docs/adr/0005-modify.md.

mod admission;
mod config;
mod disclosure;
#[cfg(test)]
mod disclosure_tests;
mod ending;
mod entry;
pub mod equipment;
pub mod footprint;
mod forgetting;
#[cfg(test)]
mod forgetting_tests;
mod inner;
mod input;
mod kept;
#[cfg(test)]
mod leader_tests;
#[cfg(test)]
mod level_tests;
mod overlap;
#[cfg(test)]
mod overlapping_tests;
mod promised;
pub mod quota;
#[cfg(test)]
mod quota_tests;
mod record;
pub mod refused;
#[cfg(test)]
mod room_tests;
#[cfg(test)]
mod server_tests;
mod servers;
mod snapshot;
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
pub use self::config::{
    CoordinatorQuotas, HoldPolicy, HoldQuota, HoldQuotas, Level, Overcommitted, ParticipantConfig,
};
pub use self::disclosure::Disclosure;
pub use self::entry::{Entry, HoldClocks, Phase};
use self::equipment::{Claim, Equipment};
use self::footprint::Footprint;
use self::forgetting::Forgetting;
use self::inner::{InnerChoice, inner_footprint};
pub use self::inner::{
    InnerDemand, InnerFreeCapacity, InnerMove, InnerPlaced, InnerRearranged, InnerRoute,
    InnerRouter, InnerShort,
};
pub use self::input::{ParticipantEffect, ParticipantInput};
use self::overlap::Overlaps;
use self::quota::HeldTotals;
pub use self::record::{ParticipantRecord, TransactionEnd};
pub use self::servers::{IdleServer, SegmentServers, SiteServers, granted_servers};
use self::servers::{ServerSites, disclosed_footprint};
pub use self::snapshot::ParticipantPart;
use crate::core::{Core, ReplayError};
use crate::digest::BookingSet;
use crate::disk_gate::DiskGate;
use crate::durable::Unsynced;
use crate::leader_epochs::LeaderEpochs;
use crate::message::{Answer, Cause, HoldOrder, Token};
use crate::tracked::TrackedMap;
use crate::update::ChangeLog;

/// The state of one RM: its timetables, and every transaction that it knows.
#[derive(Debug, Clone)]
pub struct Participant {
    config: ParticipantConfig,
    /// The timetables of all configured resources, of all inner links and servers, and of all retired resources.
    timetables: BTreeMap<ResourceId, Timetable>,
    /// Resources that are no longer configured although the log has a hold of them. Their timetables have no capacity.
    retired: BTreeSet<ResourceId>,
    /// The inner links. They have timetables, but from outside they are no resources.
    links: BTreeSet<ResourceId>,
    /// The by-server sites. Their servers have timetables, but are no resources from outside.
    servers: ServerSites,
    entries: TrackedMap<TransactionId, Entry>,
    /// For each booking that is being replaced: the hold that will replace it.
    replacing: BTreeMap<TransactionId, TransactionId>,
    /// The windows of the routed segments of all live transactions.
    overlaps: Overlaps,
    /// The bookings for each coordinator.
    booked: BTreeMap<CoordinatorName, BookingSet>,
    /// What each coordinator holds.
    held: HeldTotals,
    /// When each hold next asks its coordinator, or expires.
    alarms: BTreeSet<(BootTime, TransactionId)>,
    /// The boot in whose boot time all deadlines are counted.
    boot: Option<String>,
    /// The boot that the last snapshot has.
    boot_in_snapshot: Option<String>,
    /// What has changed lately in what is free, and the number under which it notes each resource. Both follow
    /// from the log and the configuration.
    changes: ChangeLog,
    numbers: BTreeMap<ResourceId, u32>,
    /// Whether the disk has space for something new, and which Holds were refused because it had none.
    /// Lost at a restart.
    room: DiskGate,
    /// What is forgotten, and when to look again.
    forgetting: Forgetting,
    /// What the equipment has, if there is a driver.
    equipment: Equipment,
    /// Which process leads those that share a coordinator's ledger.
    leader_epochs: LeaderEpochs,
}

type Step = Unsynced<ParticipantRecord, ParticipantEffect>;

impl Participant {
    /// A participant without any transactions. Replay its log with [`Core::apply`], then pass in
    /// [`ParticipantInput::Start`].
    #[must_use]
    pub fn new(config: ParticipantConfig) -> Self {
        let links =
            config.inside.as_ref().map(|inside| inside.links().to_vec()).unwrap_or_default();
        let servers = ServerSites::new(&config.servers);
        let hidden = servers.names().map(|name| (name, Amount(1)));
        let hidden = links.iter().map(|(link, capacity)| (link, *capacity)).chain(hidden);
        let disclosed = config.resources.iter().map(|(resource, capacity)| (resource, *capacity));
        let timetables = disclosed
            .chain(hidden)
            .map(|(resource, capacity)| (resource.clone(), Timetable::new(capacity)))
            .collect();
        let count = disclosure::count(&config.resources);
        Self {
            changes: ChangeLog::new(limits::CHANGES_KEPT, count),
            numbers: disclosure::numbers(&config.resources),
            config,
            timetables,
            retired: BTreeSet::new(),
            links: links.into_iter().map(|(link, _)| link).collect(),
            servers,
            entries: TrackedMap::default(),
            replacing: BTreeMap::new(),
            overlaps: Overlaps::default(),
            booked: BTreeMap::new(),
            held: HeldTotals::default(),
            alarms: BTreeSet::new(),
            boot: None,
            boot_in_snapshot: None,
            room: DiskGate::default(),
            forgetting: Forgetting::default(),
            equipment: Equipment::default(),
            leader_epochs: LeaderEpochs::default(),
        }
    }

    /// The configuration that it was made with.
    #[must_use]
    pub const fn config(&self) -> &ParticipantConfig {
        &self.config
    }

    /// The first instant after the window's start at which a hold or booking here ends, so that more may be
    /// free from then on.
    fn next_change(&self, window: Window) -> Option<Time> {
        let own = self.config.resources.iter().filter_map(|(name, _)| self.timetables.get(name));
        let relief = own.filter_map(|timetable| timetable.next_relief(window.start()));
        relief.chain(self.next_idle_server(window)).min()
    }

    /// Does a resource of this name exist that nobody outside may book: an inner link or a server?
    fn is_hidden(&self, resource: &ResourceId) -> bool {
        self.links.contains(resource) || self.servers.has(resource)
    }

    /// Every transaction that it has ever heard of, by id.
    #[must_use]
    pub fn entries(&self) -> &BTreeMap<TransactionId, Entry> {
        &self.entries
    }

    /// The timetable of a configured resource. `None` for retired resources, and for inner links and servers,
    /// which nobody outside may book by name.
    #[must_use]
    pub fn timetable(&self, resource: &ResourceId) -> Option<&Timetable> {
        let hidden = self.retired.contains(resource) || self.is_hidden(resource);
        self.timetables.get(resource).filter(|_| !hidden)
    }

    /// All holds that are neither committed nor ended, in the order of the instants at which they next ask or expire.
    pub fn holds(&self) -> impl ExactSizeIterator<Item = Option<&HoldClocks>> {
        self.alarms.iter().map(|(_, txn)| match &self.entries.get(txn)?.phase {
            Phase::Held(held) => Some(held),
            Phase::Booked | Phase::Refused(_) | Phase::Ended(_) => None,
        })
    }

    /// The capacity of every configured resource, and what is held and booked of it at one instant, in the
    /// order of the configuration.
    pub fn levels(&self, at: Time) -> impl Iterator<Item = (&ResourceId, Level)> {
        self.config.resources.iter().filter_map(move |(resource, capacity)| {
            let window = Window::starting(at, Span::from_us(1))?;
            let step = self.timetables.get(resource)?.profile(window).first().copied()?;
            let level = Level { capacity: *capacity, held: step.held, booked: step.booked };
            Some((resource, level))
        })
    }

    /// The resources of which more is promised than there is, now or later. Retired resources and inner links
    /// count, too. In the order of their names.
    #[must_use]
    pub fn overcommitted(&self, now: Now) -> Vec<Overcommitted> {
        let over = |(resource, timetable): (&ResourceId, &Timetable)| {
            let by = timetable.overcommitted(now.wall)?;
            Some(Overcommitted { resource: resource.clone(), by })
        };
        self.timetables.iter().filter_map(over).collect()
    }

    fn hold(&mut self, order: HoldOrder, token: Token<Answer>, now: Now) -> Step {
        // Refusals in a fixed order: another coordinator's id, known already, unknown coordinator, forgotten, disk
        // full, too many holds, not admitted (what, when, how much), too much held. The number of holds comes before
        // the admission, so that a search for routes or servers is not made for somebody who may not hold. How
        // much is held comes after it, so that what does not fit at all is refused for that.
        if !order.txn.is_of(&order.coordinator) && !planted::is(Bug::AnybodysId) {
            return reply(token, Answer::Denied);
        }
        if let Some(answer) = self.room.remembered(&order, &self.config.name) {
            return reply(token, answer);
        }
        if let Some(entry) = self.entries.get(&order.txn) {
            let answer = entry.answer_hold(&order);
            let waits = entry.waits_for_claim() && matches!(answer, Answer::Held { .. });
            return match waits {
                true => Unsynced::new(vec![], self.answer_or_wait(&order.txn, token, answer)),
                false => reply(token, answer),
            };
        }
        if !self.config.coordinators.contains(&order.coordinator) {
            return reply(token, Answer::Denied);
        }
        if let Some(refusal) = self.refusal_of_forgotten(&order.txn) {
            return reply(token, Answer::Refused(refusal));
        }
        if let Some(answer) = self.room.refuse(&order, &self.config.name) {
            return reply(token, answer);
        }
        let chosen = match self.refusal_of_holds(&order) {
            Some(refusal) => Err(Box::new(refusal)),
            None => self.choose_inside(&order, now),
        };
        let (InnerChoice { inner, servers, moves }, taken) = match chosen {
            Ok(chosen) => chosen,
            Err(refusal) => {
                let answer = Answer::Refused((*refusal).clone());
                if planted::is(Bug::RefusalForgotten) {
                    return reply(token, answer);
                }
                let (order, whole) = refused::kept_of_refused(order);
                let refusal = *refusal;
                let record = ParticipantRecord::Refused { order, whole, refusal, at: now };
                return self.record(record, token, answer);
            }
        };
        // From here on nothing can fail: every segment fits.
        let mut records = Vec::new();
        if !moves.is_empty() {
            let by = Cause::Coordinator(order.coordinator.clone());
            let record = ParticipantRecord::Moved { moves, by, at: now };
            self.must_apply(&record);
            records.push(record);
        }
        if order.one_way {
            return self.book_at_once(records, order, inner, servers, token, now);
        }
        let first_start = taken.start();
        let before = |start: Time| start.since(now.wall).saturating_sub(limits::HOLD_LEAD);
        let hard = self.config.policy.hard;
        let hard = first_start.map_or(hard, |start| hard.min(before(start)));
        let hard = hard.max(limits::HOLD_HARD_MIN);
        let soft = order.hold_for.unwrap_or(self.config.policy.soft).min(ask_by(hard));
        let granted = granted_servers(&order.segments, &servers);
        let answer = Answer::Held { expires_in: hard, servers: granted };
        let (txn, claim) = (order.txn.clone(), self.claim_of(&order));
        let record = ParticipantRecord::Held { order, soft, hard, at: now, inner, servers, claim };
        self.must_apply(&record);
        records.push(record);
        Unsynced::new(records, self.answer_or_wait(&txn, token, answer))
    }

    /// Admits an order, and chooses what it takes of inner links and servers. Also returns all that it takes.
    fn choose_inside(
        &self,
        order: &HoldOrder,
        now: Now,
    ) -> Result<(InnerChoice, Footprint), Box<Refusal>> {
        let given = order;
        let order = self.in_whole_servers(order);
        if let Some(refusal) = self.refusal_of(&order, now) {
            // A server that is taken says more than a site that has too few.
            let is_short = refusal.reason == Reason::InsufficientCapacity;
            let servers = is_short.then(|| self.choose_servers(&order, now).err()).flatten();
            return Err(servers.unwrap_or_else(|| Box::new(refusal)));
        }
        let servers = self.choose_servers(&order, now)?;
        let chosen = InnerChoice { servers, ..self.route_inside(&order, now)? };
        let taken = self.to_take(given, chosen.inner.as_deref(), &chosen.servers);
        match self.refusal_of_held(given, &taken) {
            Some(refusal) => Err(Box::new(refusal)),
            None => Ok((chosen, taken)),
        }
    }

    /// Books a one-way hold that fits: Held and Booked in one append.
    fn book_at_once(
        &mut self,
        mut records: Vec<ParticipantRecord>,
        order: HoldOrder,
        inner: Option<Vec<InnerRoute>>,
        servers: Vec<SegmentServers>,
        token: Token<Answer>,
        now: Now,
    ) -> Step {
        // The same answer as to a repeated Hold of a booking: nothing expires any more.
        let lasts = limits::HOLD_HARD_MIN;
        let (txn, by) = (order.txn.clone(), Cause::Coordinator(order.coordinator.clone()));
        let granted = granted_servers(&order.segments, &servers);
        let (soft, hard) = (lasts, lasts);
        let claim = self.claim_of(&order);
        let held = ParticipantRecord::Held { order, soft, hard, at: now, inner, servers, claim };
        // A hold that must be claimed is booked when it is certain at the equipment.
        let is_certain = claim == Claim::NotNeeded;
        let booked =
            is_certain.then(|| ParticipantRecord::Booked { txn: txn.clone(), by, at: now });
        for record in std::iter::once(held).chain(booked) {
            self.must_apply(&record);
            records.push(record);
        }
        let answer = Answer::Held { expires_in: lasts, servers: granted };
        Unsynced::new(records, self.answer_or_wait(&txn, token, answer))
    }

    /// What a hold of this order takes now: only what goes beyond the booking that it replaces, if any.
    fn to_take(
        &self,
        order: &HoldOrder,
        inner: Option<&[InnerRoute]>,
        servers: &[SegmentServers],
    ) -> Footprint {
        let whole = disclosed_footprint(&order.segments, servers);
        let whole = whole.and(inner_footprint(&order.segments, inner));
        match self.own(order.replaces.as_ref()) {
            Some(own) => whole.beyond(&own),
            None => whole,
        }
    }

    /// Handles every alarm that is due: a hard expiry becomes a record, any other alarm a question to the coordinator.
    fn tick(&mut self, now: Now) -> Step {
        let mut records = Vec::new();
        let mut effects = Vec::new();
        while let Some((due, txn)) = self.alarms.first().cloned()
            && due <= now.boot
        {
            let Some(Entry { coordinator, phase: Phase::Held(held), .. }) =
                self.entries.get_mut_unnoted(&txn)
            else {
                // An alarm is removed together with its hold, so this one is stale and has no effect.
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
        records.extend(self.refuse_late_claims(now));
        records.extend(self.forget_due(now));
        Unsynced::new(records, effects)
    }

    fn record(&mut self, record: ParticipantRecord, token: Token<Answer>, answer: Answer) -> Step {
        self.must_apply(&record);
        Unsynced::new(vec![record], vec![ParticipantEffect::Reply { token, answer }])
    }

    /// Applies a record that a step has just decided on. Replay does the same, except that there a hold need not fit.
    #[allow(clippy::expect_used)] // Each handler has checked all that the fold checks. If this failed,
    // memory and ledger would differ, and a node must send nothing after that (I1, I12, I16).
    fn must_apply(&mut self, record: &ParticipantRecord) {
        self.fold(record, Timetable::add).expect("a record that was decided on applies");
    }

    /// Checks that the hold of a new version takes exactly what it lacks beside the old one, while that is booked.
    fn check_replacing(
        &self,
        txn: &TransactionId,
        entry: &Entry,
        held: &HoldClocks,
    ) -> Result<(), String> {
        let replaces = entry.order.as_ref().and_then(|order| order.replaces.as_ref());
        let Some(old) = replaces else { return Ok(()) };
        if self.replacing.get(old) != Some(txn) {
            return Err(format!(
                "{txn} replaces {old}, but the index of replacements does not have it"
            ));
        }
        let lacks = self.own(Some(old)).map(|own| entry.footprint().beyond(&own).segments());
        if lacks.is_some_and(|lacks| lacks != held.taken) {
            return Err(format!("I1: {txn} does not hold exactly what it needs beyond {old}"));
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

/// When a hold asks its coordinator at the latest: after half of the time to its hard expiry. That leaves time
/// for the answer, and for more questions if none arrives.
pub(crate) fn ask_by(hard: Span) -> Span {
    if planted::is(Bug::ShortHoldUnasked) { hard } else { Span::from_us(hard.as_us() / 2) }
}

fn reply(token: Token<Answer>, answer: Answer) -> Step {
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
        let step = match input {
            ParticipantInput::Start { boot } => {
                let record = ParticipantRecord::Opened { boot, at: now };
                self.must_apply(&record);
                let mut records = vec![record];
                records.extend(self.route_unrouted(now));
                self.equipment_starts(now);
                Unsynced::new(records, vec![])
            }
            ParticipantInput::Hold { order, oldest_open, token } => {
                self.hear_oldest_open(&order, oldest_open, now);
                self.hold(order, token, now)
            }
            ParticipantInput::Commit { txn, by, token } => self.commit(txn, by, token, now),
            ParticipantInput::Abort { txn, by, token } => self.abort(txn, by, token, now),
            ParticipantInput::Release { txn, by, token } => self.release(txn, by, token, now),
            ParticipantInput::Led { epoch, order } => self.led(epoch, *order, now),
            ParticipantInput::Resolved { txn, resolution } => self.resolved(txn, resolution, now),
            ParticipantInput::Room(room) => {
                self.room.now = room;
                nothing()
            }
            ParticipantInput::Equipped { key, asked, outcome, trouble } => {
                self.equipped(key, asked.as_deref(), outcome, trouble, now)
            }
            ParticipantInput::Unusable(unusable) => self.now_unusable(unusable, now),
            ParticipantInput::Tick => self.tick(now),
        };
        self.with_equipment_effects(step, now)
    }

    fn apply(&mut self, record: &ParticipantRecord) -> Result<(), ReplayError> {
        // The step that wrote the record has checked it against the inventory of that time. Today's inventory
        // may be smaller, but it cannot revoke what was promised.
        if planted::is(Bug::ServersChosenAgain) {
            return self.fold(&self.with_servers_chosen_again(record), Timetable::restore);
        }
        self.fold(record, Timetable::restore)
    }

    fn tick() -> ParticipantInput {
        ParticipantInput::Tick
    }

    fn room(room: DiskSpace) -> Option<ParticipantInput> {
        Some(ParticipantInput::Room(room))
    }

    fn next_wake(&self) -> Option<BootTime> {
        let alarm = self.alarms.first().map(|(at, _)| *at);
        [alarm, self.forgetting.due(), self.equipment_due()].into_iter().flatten().min()
    }

    fn check_invariants(&self) -> Result<(), String> {
        let mut fold: BTreeMap<&ResourceId, Timetable> = BTreeMap::new();
        let mut servers = ServerSites::new(&self.config.servers);
        for (resource, timetable) in &self.timetables {
            timetable.check_invariants().map_err(|error| format!("I1: {resource}: {error}"))?;
            fold.insert(resource, Timetable::new(timetable.capacity()));
            if self.retired.contains(resource) && timetable.capacity() != Amount::ZERO {
                return Err(format!("I1: {resource} is retired but can be booked"));
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
                    return Err(format!(
                        "I12: {txn} has {}, which is unknown here",
                        segment.resource
                    ));
                };
                // Whether all of it fits was checked above. The inventory may have shrunk since it was admitted.
                timetable
                    .restore(layer, segment.window, segment.amount)
                    .map_err(|error| format!("I1: {txn}: {error}"))?;
                servers.take(segment).map_err(|error| format!("I1: {txn}: {error}"))?;
            }
        }
        self.servers.check(&servers)?;
        self.check_servers()?;
        self.check_routes()?;
        self.check_promised()?;
        self.check_quotas()?;
        self.check_kept()?;
        self.check_equipment()?;
        let held = |txn: &TransactionId| {
            self.entries.get(txn).is_some_and(|entry| matches!(entry.phase, Phase::Held(_)))
        };
        if let Some((old, new)) = self.replacing.iter().find(|(_, new)| !held(new)) {
            return Err(format!("{old} is being replaced by {new}, which is not held"));
        }
        for (resource, timetable) in &self.timetables {
            if fold.get(resource) != Some(timetable) {
                return Err(format!(
                    "I12: the timetable of {resource} is not the sum of its entries"
                ));
            }
        }
        Ok(())
    }
}
