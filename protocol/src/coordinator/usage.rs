//! What the user of a booked reservation can do with it now: nothing yet, use it, nothing any more.
//!
//! ```text
//! Ahead --its window begins, and its equipment lets the user in--> Active --its last window ends--> Over
//!    ^                                                               |
//!    '----------------- its equipment fails, or it is deprovisioned -'
//! ```
//!
//! What its user has not provisioned yet ([`Candidate::manual_provision`]) stays ahead. Where resource managers have no
//! equipment, the rest follows from the clock alone. Where they have, they tell what became of
//! it ([`EquipmentNews`]), and what is wrong there is part of the usage. Each change is a record
//! ([`CoordinatorRecord::UsageChanged`]), so those who watch the reservation are told, and a listing knows it without
//! asking anybody. What resource managers have told is not recorded; after a restart they tell it again.
//!
//! The clock is the wall clock, because windows are. It may be set, so it is looked at every
//! [`limits::USAGE_CLOCK_CHECK`] at the latest.
//!
//! Left out: what follows from it, because the usage ends no booking and changes none; what is reserved for a parent
//! coordinator, whose users ask the parent; and what the equipment of a child's members has, which the child does not tell.
//! Source: the data plane status of NSI Connection Service 2.1; docs/adr/0053-usage.md.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use coalloc_common::planted::{self, Bug};
use coalloc_common::{
    BootTime, Now, ReservationId, ResourceId, RmName, Segment, Span, Time, TransactionId, Window,
    limits,
};
use serde::{Deserialize, Serialize};

use super::record::{CoordinatorRecord, stamped};
use super::reservation::{Candidate, Reservation, State};
use super::{Coordinator, StepOutput};
use crate::core::ReplayError;

/// How far the use of a booked reservation is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum UsagePhase {
    /// It cannot be used: its window is still to come, or its equipment has not let the user in.
    #[default]
    Ahead,
    /// It can be used.
    Active,
    /// Its last window is over.
    Over,
}

impl UsagePhase {
    /// A term for messages and labels.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Ahead => "ahead",
            Self::Active => "active",
            Self::Over => "over",
        }
    }
}

/// What the user of a booked reservation can do with it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Usage {
    /// How far it is.
    pub phase: UsagePhase,
    /// What is wrong at the equipment of resource managers, in sentences for people. Empty when it is over.
    #[serde(skip_serializing_if = "BTreeMap::is_empty", default)]
    pub trouble: BTreeMap<RmName, String>,
}

impl Usage {
    /// Is it as it is when a reservation is made?
    pub(super) fn is_new(&self) -> bool {
        *self == Self::default()
    }
}

/// What the equipment of an RM has of one resource of a booking.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ResourceUsage {
    /// Can the user use it now?
    pub is_active: bool,
    /// What is wrong with it, in a sentence; `None` when nothing is.
    pub trouble: Option<String>,
    /// What of it cannot be used now: whole names of servers, or the resource itself.
    pub unusable: BTreeSet<ResourceId>,
}

/// What of the equipment of a reservation cannot be used now, by RM: whole names of servers and names of resources.
pub type UnusableParts = BTreeMap<RmName, BTreeSet<ResourceId>>;

/// What the equipment of an RM has of one resource of one booking.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EquipmentFound {
    /// The transaction of any version of the booking.
    pub txn: TransactionId,
    /// The resource, by its name at the RM.
    pub resource: ResourceId,
    /// What the equipment has; `None` when it has nothing any more.
    pub usage: Option<ResourceUsage>,
}

/// What a resource manager tells of its equipment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum EquipmentNews {
    /// All that it has now, in place of what the RM has told before.
    All {
        /// The RM.
        rm: RmName,
        /// What its equipment has; `None`: the RM has no equipment.
        found: Option<Vec<EquipmentFound>>,
    },
    /// What has changed.
    Changed {
        /// The RM.
        rm: RmName,
        /// What its equipment has now.
        found: EquipmentFound,
    },
}

/// What an RM has told of a reservation, by resource.
type ToldByRm = BTreeMap<ResourceId, ResourceUsage>;

/// When the usage of a reservation may change by the clock. A time that was looked at already is not there.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct UsageEdges {
    /// The start of its first window.
    start: Option<Time>,
    /// The end of its last window.
    end: Option<Time>,
}

impl UsageEdges {
    fn times(self) -> impl Iterator<Item = Time> {
        [self.start, self.end].into_iter().flatten()
    }
}

/// What a coordinator keeps to know the usage of its reservations, besides the usage itself.
#[derive(Clone, Default)]
pub(super) struct Usages {
    /// The booked reservations that are not over.
    edges: BTreeMap<ReservationId, UsageEdges>,
    /// The same by time.
    by_time: BTreeSet<(Time, ReservationId)>,
    /// Those whose window has begun. Lost at a restart.
    begun: BTreeSet<ReservationId>,
    /// Those of which something else has changed since they were looked at. Lost at a restart.
    stirred: BTreeSet<ReservationId>,
    /// The RMs that have told whether they have equipment, and whether they have. Lost at a restart.
    equipped: BTreeMap<RmName, bool>,
    /// What they have told. Lost at a restart.
    pub(super) told: BTreeMap<ReservationId, BTreeMap<RmName, ToldByRm>>,
    /// Those of which something cannot be used, as follows from what was told. Lost at a restart.
    unusable: BTreeSet<ReservationId>,
    /// When the clock was last looked at. Lost at a restart.
    looked_at: Option<Now>,
    /// When it is looked at in any case, because the wall clock may have jumped. Lost at a restart.
    check_at: Option<BootTime>,
}

/// Without the readings of the clock, which change at every step: coordinators that differ in them alone do the same, but
/// for when they look at the clock. `sim/src/explore` tells states apart by this text.
impl fmt::Debug for Usages {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // What is unusable follows from what was told.
        let Self { edges, by_time, begun, stirred, equipped, told, .. } = self;
        f.debug_struct("Usages")
            .field("edges", edges)
            .field("by_time", by_time)
            .field("begun", begun)
            .field("stirred", stirred)
            .field("equipped", equipped)
            .field("told", told)
            .finish()
    }
}

impl Usages {
    /// Lists anew when the usage of a reservation may change.
    pub(super) fn set(&mut self, reservation: &Reservation) {
        let id = &reservation.id;
        let edges = edges_of(reservation);
        let before = match edges {
            Some(edges) => self.edges.insert(id.clone(), edges),
            None => self.edges.remove(id),
        };
        if before == edges {
            return;
        }
        for at in before.into_iter().flat_map(UsageEdges::times) {
            self.by_time.remove(&(at, id.clone()));
        }
        let times = edges.into_iter().flat_map(UsageEdges::times);
        self.by_time.extend(times.map(|at| (at, id.clone())));
    }

    /// Forgets what was told of a reservation that has ended.
    pub(super) fn end(&mut self, id: &ReservationId) {
        self.told.remove(id);
        self.unusable.remove(id);
        self.begun.remove(id);
        self.stirred.remove(id);
    }

    /// Something of a reservation has changed.
    pub(super) fn stir(&mut self, id: &ReservationId) {
        self.stirred.insert(id.clone());
    }

    /// Takes the next reservation of which something may have changed.
    fn take_due(&mut self, now: Time) -> Option<ReservationId> {
        if let Some(id) = self.stirred.pop_first() {
            return Some(id);
        }
        let (at, id) = self.by_time.first().filter(|(at, _)| *at <= now)?.clone();
        self.by_time.pop_first();
        if let Some(edges) = self.edges.get_mut(&id) {
            edges.start = edges.start.filter(|start| *start != at);
            edges.end = edges.end.filter(|end| *end != at);
        }
        Some(id)
    }

    /// Takes over what an RM tells of a reservation.
    fn tell(&mut self, id: ReservationId, rm: RmName, found: EquipmentFound) {
        let told = self.told.entry(id.clone()).or_default().entry(rm).or_default();
        if keep(told, found) {
            self.list_if_unusable(&id);
            self.stirred.insert(id);
        }
    }

    fn list_if_unusable(&mut self, id: &ReservationId) {
        let told = self.told.get(id).into_iter().flatten();
        let mut usages = told.flat_map(|(_, told)| told.values());
        match usages.any(|usage| !usage.unusable.is_empty()) {
            true => drop(self.unusable.insert(id.clone())),
            false => drop(self.unusable.remove(id)),
        }
    }

    /// Takes over all that an RM tells, by reservation.
    fn tell_all(&mut self, rm: &RmName, mut all: BTreeMap<ReservationId, ToldByRm>) {
        for (id, told) in &mut self.told {
            let now = all.remove(id);
            if told.get(rm) != now.as_ref() {
                self.stirred.insert(id.clone());
            }
            match now {
                Some(now) => drop(told.insert(rm.clone(), now)),
                None => drop(told.remove(rm)),
            }
        }
        for (id, now) in all {
            self.stirred.insert(id.clone());
            self.told.entry(id).or_default().insert(rm.clone(), now);
        }
        let told: Vec<ReservationId> = self.told.keys().cloned().collect();
        told.iter().for_each(|id| self.list_if_unusable(id));
    }
}

/// Keeps what an RM tells of one resource, unless it is one more than the RM can have. Returns whether something has changed.
fn keep(told: &mut ToldByRm, EquipmentFound { resource, mut usage, .. }: EquipmentFound) -> bool {
    if let Some(usage) = usage.as_mut().filter(|usage| !usage.unusable.is_empty()) {
        // Among all resources of the reservation at this RM.
        let others = told.iter().filter(|(name, _)| **name != resource);
        let others: usize = others.map(|(_, usage)| usage.unusable.len()).sum();
        let left = limits::EQUIPMENT_UNUSABLE_MAX.saturating_sub(others);
        while usage.unusable.len() > left {
            usage.unusable.pop_last();
        }
    }
    let is_too_many =
        told.len() >= limits::EQUIPMENT_RESOURCES_MAX && !told.contains_key(&resource);
    let before = match &usage {
        Some(_) if is_too_many => return false,
        Some(usage) => told.insert(resource, usage.clone()),
        None => told.remove(&resource),
    };
    before != usage
}

/// The windows of a version.
fn windows(candidate: &Candidate) -> impl Iterator<Item = Window> + '_ {
    candidate.segments.values().flatten().map(|segment| segment.window)
}

/// When the usage of a reservation may change by the clock; `None` if it is not booked, or over.
fn edges_of(reservation: &Reservation) -> Option<UsageEdges> {
    let phase = reservation.usage.phase;
    let is_open = is_booked(reservation) && phase != UsagePhase::Over;
    let booked = reservation.candidate.as_ref().filter(|_| is_open)?;
    let start = windows(booked).map(Window::start).min();
    Some(UsageEdges {
        start: start.filter(|_| phase == UsagePhase::Ahead),
        end: windows(booked).map(Window::end).max(),
    })
}

/// Is it a booked reservation of a user of this coordinator?
fn is_booked(reservation: &Reservation) -> bool {
    reservation.state == State::Confirmed && reservation.parent_transaction.is_none()
}

impl Reservation {
    /// Is it in use?
    #[must_use]
    pub fn is_active(&self) -> bool {
        // What was active until it was deprovisioned is not, even before that is recorded.
        let is_provisioned = self.candidate.as_ref().is_none_or(|booked| !booked.manual_provision);
        is_booked(self) && is_provisioned && self.usage.phase == UsagePhase::Active
    }
}

impl Coordinator {
    /// A resource manager tells of its equipment.
    pub(super) fn equipment_news(&mut self, news: EquipmentNews) {
        match news {
            EquipmentNews::All { rm, found } => {
                let has = found.is_some();
                let before = self.usages.equipped.insert(rm.clone(), has);
                if before != Some(has) {
                    self.usages.stirred.extend(self.usages.begun.iter().cloned());
                }
                if before.is_none() {
                    // What it told before the restart is recorded, and it may have nothing of that any more.
                    let has_trouble = |id: &&ReservationId| {
                        let known = self.reservations.get(*id);
                        known.is_some_and(|known| known.usage.trouble.contains_key(&rm))
                    };
                    let troubled = self.usages.edges.keys().filter(has_trouble).cloned();
                    self.usages.stirred.extend(troubled.collect::<Vec<_>>());
                }
                let mut all: BTreeMap<ReservationId, ToldByRm> = BTreeMap::new();
                for found in found.into_iter().flatten() {
                    if let Some(id) = self.is_about(&rm, &found.txn) {
                        keep(all.entry(id).or_default(), found);
                    }
                }
                self.usages.tell_all(&rm, all);
            }
            EquipmentNews::Changed { rm, found } => {
                if let Some(id) = self.is_about(&rm, &found.txn) {
                    self.usages.tell(id, rm, found);
                }
            }
        }
    }

    /// After a record: the usage of its reservation may be another one. What has ended has none.
    pub(super) fn stir_usage_after(&mut self, record: &CoordinatorRecord) {
        if matches!(record, CoordinatorRecord::UsageChanged { .. }) {
            return;
        }
        let subject = record.subject();
        let id = subject.as_ref().and_then(|subject| subject.reservation(&self.transactions));
        let Some(known) = id.and_then(|id| self.reservations.get(id)) else { return };
        if known.is_over() {
            self.usages.end(&known.id);
        } else if is_booked(known) {
            self.usages.stir(&known.id);
        }
    }

    /// The booked reservations of which something cannot be used now, and what that is.
    pub fn unusable(&self) -> impl Iterator<Item = (&Reservation, UnusableParts)> {
        let known = self.usages.unusable.iter().filter_map(|id| self.reservations.get(id));
        let parts = known.map(|known| (known, self.unusable_of(known)));
        parts.filter(|(_, parts)| !parts.is_empty())
    }

    /// What of a booked reservation cannot be used now. What an RM still has of an older version does not count.
    #[must_use]
    pub fn unusable_of(&self, known: &Reservation) -> UnusableParts {
        let booked = known.candidate.as_ref().filter(|_| is_booked(known));
        let segments = booked.into_iter().flat_map(|booked| &booked.segments);
        let told = self.usages.told.get(&known.id);
        let parts = segments.map(|(rm, segments)| {
            let told = told.and_then(|told| told.get(rm));
            let usage = |segment: &Segment| told?.get(&segment.resource);
            let usages = segments.iter().filter_map(usage);
            let parts = usages.flat_map(|usage| &usage.unusable).cloned();
            (rm.clone(), parts.collect::<BTreeSet<ResourceId>>())
        });
        parts.filter(|(_, parts)| !parts.is_empty()).collect()
    }

    /// The reservation that an RM speaks of, which may speak of its own part only; `None` also if it is over.
    fn is_about(&self, rm: &RmName, txn: &TransactionId) -> Option<ReservationId> {
        let known = self.transactions.get(txn).filter(|known| known.has_party(rm))?;
        let of = self.reservations.get(&known.reservation)?;
        let is_gone = of.is_over() || of.usage.phase == UsagePhase::Over;
        (!is_gone && of.parent_transaction.is_none()).then(|| of.id.clone())
    }

    /// The process starts. The clock may have been set back meanwhile, so that what is in use is still to come.
    pub(super) fn start_usage(&mut self) {
        let Usages { edges, stirred, .. } = &mut self.usages;
        let in_use = edges.iter().filter(|(_, edges)| edges.start.is_none());
        stirred.extend(in_use.map(|(id, _)| id.clone()));
    }

    /// Ends a step: records what has changed of the usage of reservations.
    pub(super) fn look_at_usage(&mut self, now: Now, out: &mut StepOutput) {
        if self.usages.looked_at.is_some_and(|before| now.wall < before.wall) {
            // The clock was set back, so what had begun may be still to come. What was over stays over.
            let ids: Vec<ReservationId> = self.usages.edges.keys().cloned().collect();
            for known in ids.iter().filter_map(|id| self.reservations.get(id)) {
                self.usages.set(known);
            }
            self.usages.stirred.extend(ids);
        }
        self.usages.looked_at = Some(now);
        if self.usages.check_at.is_none_or(|at| at <= now.boot) {
            self.usages.check_at = Some(now.boot.saturating_add(limits::USAGE_CLOCK_CHECK));
        }
        if self.room.is_low() {
            // The reserved space is for the ends of what has begun (I17). This is made up for when there is room again.
            return;
        }
        for _ in 0..limits::USAGE_SLICE {
            let Some(id) = self.usages.take_due(now.wall) else { return };
            let changed = self.changed_usage(&id, now.wall);
            let Some((txn, usage)) = changed else { continue };
            let record = CoordinatorRecord::UsageChanged {
                txn,
                usage,
                state: stamped::STATE,
                version: stamped::VERSION,
                at: now,
            };
            self.record(record, out);
        }
    }

    /// The usage of a booked reservation with its transaction, if it is not the recorded one.
    fn changed_usage(&mut self, id: &ReservationId, now: Time) -> Option<(TransactionId, Usage)> {
        let known = self.reservations.get(id).filter(|known| is_booked(known))?;
        let booked = known.candidate.as_ref()?;
        let start = windows(booked).map(Window::start).min()?;
        let usage = self.usage_of(known, booked, now)?;
        let change = (usage != known.usage).then(|| known.transaction.clone());
        let change = change.flatten().map(|txn| (txn, usage.clone()));
        if usage.phase == UsagePhase::Over {
            self.usages.end(id);
        } else if start <= now {
            self.usages.begun.insert(id.clone());
        } else {
            self.usages.begun.remove(id);
        }
        change
    }

    /// The usage of a booked reservation at this time; `None` if it takes nothing.
    fn usage_of(&self, known: &Reservation, booked: &Candidate, now: Time) -> Option<Usage> {
        let start = windows(booked).map(Window::start).min()?;
        let end = windows(booked).map(Window::end).max()?;
        let is_over = end <= now && !planted::is(Bug::EndUnnoticed);
        if is_over || known.usage.phase == UsagePhase::Over {
            return Some(Usage { phase: UsagePhase::Over, trouble: BTreeMap::new() });
        }
        let has_told = |rm: &RmName| self.usages.equipped.contains_key(rm);
        let phase = if start > now || booked.manual_provision {
            UsagePhase::Ahead
        } else if booked.segments.keys().all(has_told) {
            let is_let_in =
                self.is_let_in(&known.id, booked, now) || planted::is(Bug::ActiveUnheard);
            if is_let_in { UsagePhase::Active } else { UsagePhase::Ahead }
        } else if known.usage.phase == UsagePhase::Active {
            // As long as an RM has told nothing, nobody knows whether it is in use still. Nothing new is said of it.
            return Some(known.usage.clone());
        } else {
            known.usage.phase
        };
        let told = self.usages.told.get(&known.id).into_iter().flatten();
        let told = told.filter_map(|(rm, told)| Some((rm.clone(), troubles(told)?)));
        // What an RM told before a restart counts until the RM tells again.
        let recorded = known.usage.trouble.iter().filter(|(rm, _)| !has_told(rm));
        let recorded = recorded.map(|(rm, trouble)| (rm.clone(), trouble.clone()));
        let trouble = recorded.chain(told).collect();
        Some(Usage { phase, trouble })
    }

    /// Does all equipment let the user in to what the user may use now?
    fn is_let_in(&self, id: &ReservationId, booked: &Candidate, now: Time) -> bool {
        let told = self.usages.told.get(id);
        let is_equipped = |rm: &RmName| self.usages.equipped.get(rm) == Some(&true);
        let equipped = booked.segments.iter().filter(|(rm, _)| is_equipped(rm));
        equipped.into_iter().all(|(rm, segments)| {
            let told = told.and_then(|told| told.get(rm));
            let due = segments
                .iter()
                .filter(|segment| segment.window.start() <= now && now < segment.window.end());
            due.into_iter().all(|segment| {
                let usage = told.and_then(|told| told.get(&segment.resource));
                usage.is_some_and(|usage| usage.is_active)
            })
        })
    }

    /// When the clock must be looked at for the usage of reservations.
    pub(super) fn usage_due(&self) -> Option<BootTime> {
        let Usages { by_time, stirred, looked_at, check_at, .. } = &self.usages;
        let looked_at = (*looked_at)?;
        let next = by_time.first();
        if self.room.is_low() {
            let is_due = !stirred.is_empty() || next.is_some();
            return check_at.filter(|_| is_due);
        }
        if !stirred.is_empty() {
            return Some(looked_at.boot);
        }
        let (at, _) = next?;
        let left = at.since(looked_at.wall).max(Span::ZERO);
        let edge = looked_at.boot.saturating_add(left);
        Some(check_at.map_or(edge, |check_at| check_at.min(edge)))
    }

    pub(super) fn fold_usage_changed(
        &mut self,
        txn: &TransactionId,
        usage: &Usage,
    ) -> Result<(), ReplayError> {
        let id = self.transaction_mut(txn)?.reservation.clone();
        let reservation = self.reservation_mut(&id)?;
        if !is_booked(reservation) || reservation.transaction.as_ref() != Some(txn) {
            return Err(ReplayError(format!("{txn} is in use but is not booked")));
        }
        reservation.usage = usage.clone();
        Ok(())
    }

    /// Checks that each booked reservation is looked at when its usage may change, and that nothing is kept of one that is
    /// over.
    pub(super) fn check_usages(&self) -> Result<(), String> {
        let Usages { edges, by_time, told, looked_at, .. } = &self.usages;
        let is_passed = |at: Time| looked_at.is_some_and(|looked_at| at <= looked_at.wall);
        for known in self.reservations.values() {
            let (id, listed) = (&known.id, edges.get(&known.id).copied());
            if listed.is_some() != edges_of(known).is_some() {
                return Err(format!("I24: {id} is booked, and nobody looks at its usage"));
            }
            let listed: Vec<Time> = listed.into_iter().flat_map(UsageEdges::times).collect();
            for at in edges_of(known).into_iter().flat_map(UsageEdges::times) {
                if !is_passed(at) && !listed.contains(&at) {
                    return Err(format!("I24: nobody looks at {id} at {at}"));
                }
            }
            if listed.iter().any(|at| !by_time.contains(&(*at, id.clone()))) {
                return Err(format!("I24: the times of {id} are not those that are looked at"));
            }
            let is_over = known.is_over() || known.usage.phase == UsagePhase::Over;
            if !self.usages.unusable.contains(id) && !self.unusable_of(known).is_empty() {
                return Err(format!("I24: {id} has what cannot be used, and is not listed"));
            }
            if is_over && told.contains_key(id) {
                return Err(format!("I24: what equipment has of {id}, which is over, is kept"));
            }
        }
        Ok(())
    }
}

/// What is wrong with the resources of one RM; `None` when nothing is.
fn troubles(told: &ToldByRm) -> Option<String> {
    let told = told.iter();
    let troubles: Vec<String> = told
        .filter_map(|(resource, usage)| Some(format!("{resource}: {}", usage.trouble.as_ref()?)))
        .collect();
    let mut all = troubles.join("; ");
    let end = all.char_indices().map(|(at, _)| at).nth(limits::EQUIPMENT_TROUBLE_CHARS_MAX);
    if let Some(end) = end {
        all.truncate(end);
        all.push('…');
    }
    (!all.is_empty()).then_some(all)
}
