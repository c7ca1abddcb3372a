//! What RMs tell coordinators of their equipment, and what coordinators make of it: the usage of reservations.
//!
//! In a daemon, each coordinator has a stream from each RM that begins with all that there is. Here what travels is all that
//! there is at the moment of the arrival, as on a stream that loses nothing and keeps the order. A coordinator or an RM
//! that is down or cut off makes it wait. Everything is told anew when either of the two starts.
//!
//! Checked (I24): a reservation is recorded as active only while its window lasts, and not before equipment has let the user
//! in; as over only after its window; at rest its usage is what the clock and the equipment of its RMs say. Stories are told
//! nothing, so nothing in them is active.

use std::collections::BTreeSet;

use coalloc_common::{
    CoordinatorName, ResourceId, RmName, Segment, Span, Time, TransactionId, Window, limits,
};
use coalloc_protocol::coordinator::{
    Coordinator, CoordinatorInput, CoordinatorRecord, EquipmentFound, EquipmentNews, Reservation,
    ResourceUsage, State, Usage, UsagePhase,
};
use coalloc_protocol::participant::Participant;
use coalloc_protocol::participant::equipment::Stage;

use super::{Address, Event, World};

/// How long news takes where nothing is left to chance, in microseconds.
const NEWS_US: i64 = 150_000;
/// The longest that news takes, in microseconds.
const NEWS_US_MAX: i64 = 3_000_000;

/// What an RM or a child coordinator has to tell a coordinator, at most once at a time.
pub(super) type News = (Address, usize);

/// The news that is on its way.
#[derive(Debug, Default)]
pub(super) struct AllNews {
    under_way: BTreeSet<News>,
}

/// All that the equipment of an RM has for a coordinator.
fn all_of(rm: &Participant, grc: &CoordinatorName) -> Vec<EquipmentFound> {
    let states = rm.equipment_states().iter();
    let own = states.filter(|(_, state)| {
        rm.entries().get(&state.version).is_some_and(|entry| entry.coordinator == *grc)
    });
    let found = own.map(|(key, state)| EquipmentFound {
        txn: state.version.clone(),
        resource: key.resource.clone(),
        usage: Some(ResourceUsage {
            is_active: matches!(state.stage, Some(Stage::Active(_))) && state.unusable.is_empty(),
            trouble: state.trouble.clone(),
            unusable: state.unusable.clone(),
        }),
    });
    found.collect()
}

/// When the first window of what is booked begins, and when the last one ends.
fn spans(booked: &[&Segment]) -> Option<(Time, Time)> {
    let start = booked.iter().map(|segment| segment.window.start()).min()?;
    let end = booked.iter().map(|segment| segment.window.end()).max()?;
    Some((start, end))
}

fn has_now(window: Window, wall: Time) -> bool {
    window.start() <= wall && wall < window.end()
}

impl World {
    /// A node starts: what it has to tell is told, and what it has to be told.
    pub(super) fn news_after_start(&mut self, node: Address) {
        let rms = (0..self.rms.len()).map(Address::Rm);
        let children = self.members.keys().copied().map(Address::Grc);
        let tellers: Vec<Address> = rms.chain(children).collect();
        let is_teller = |grc: usize| self.members.contains_key(&grc);
        let news: Vec<News> = match node {
            Address::Rm(_) => (0..self.grcs.len()).map(|grc| (node, grc)).collect(),
            Address::Grc(index) => {
                let told = tellers.into_iter().map(|teller| (teller, index));
                let tells = (0..self.grcs.len()).filter(|_| is_teller(index));
                told.chain(tells.map(|grc| (node, grc))).collect()
            }
        };
        news.into_iter().for_each(|news| self.send_news(news));
    }

    /// Something has changed at the equipment of an RM.
    pub(super) fn news_of_equipment(&mut self, rm: usize) {
        (0..self.grcs.len()).for_each(|grc| self.send_news((Address::Rm(rm), grc)));
    }

    fn send_news(&mut self, news: News) {
        if self.is_story() || !self.news.under_way.insert(news) {
            return;
        }
        let us = self.equipment_chance(1_000, NEWS_US_MAX).unwrap_or(NEWS_US);
        self.after(us, Event::News(news));
    }

    /// News arrives, unless one of the two cannot be reached.
    pub(super) fn news_arrives(&mut self, news: News) -> Result<(), String> {
        let (from, grc) = news;
        let to = Address::Grc(grc);
        let is_cut = self.cuts.contains(&(from, to));
        let is_frozen =
            [from, to].into_iter().any(|node| self.troubles.frozen_until(node).is_some());
        self.news.under_way.remove(&news);
        if is_cut || is_frozen {
            self.send_news(news);
            return Ok(());
        }
        // Whoever is down tells, or is told, after its start.
        if !self.is_up(from) || !self.is_up(to) {
            return Ok(());
        }
        let (rm, found) = match from {
            Address::Rm(rm) => {
                let shadow = &self.rms[rm].shadow;
                let found = self.has_equipment(rm).then(|| all_of(shadow, &self.grc_names[grc]));
                (shadow.config().name.clone(), found)
            }
            Address::Grc(child) => (RmName::composed(self.grc_names[child].as_str()), None),
        };
        self.grcs[grc].post(CoordinatorInput::Equipment(EquipmentNews::All { rm, found }));
        self.begin(to)
    }

    /// I24: what is recorded of the usage of a reservation can be so.
    pub(super) fn watch_usage(
        &mut self,
        grc: usize,
        record: &CoordinatorRecord,
    ) -> Result<(), String> {
        let CoordinatorRecord::UsageChanged { txn, usage, at, .. } = record else {
            return Ok(());
        };
        let node = &self.grcs[grc];
        let known = node.shadow.reservation_of(txn);
        let Some(known) = known.filter(|known| known.transaction.as_ref() == Some(txn)) else {
            return Ok(());
        };
        let booked = booked(known);
        let Some((start, end)) = spans(&booked) else { return Ok(()) };
        let problem = |what: &str| Err(format!("I24: {}: {} {what}", node.name, known.id));
        match usage.phase {
            UsagePhase::Ahead => {}
            UsagePhase::Over if at.wall < end => return problem("is over before its end"),
            UsagePhase::Over => self.counts.usages_over += 1,
            UsagePhase::Active if at.wall < start || end <= at.wall => {
                return problem("is active outside its window");
            }
            UsagePhase::Active
                if known.candidate.as_ref().is_some_and(|of| of.manual_provision) =>
            {
                return problem("is active and not provisioned");
            }
            UsagePhase::Active => {
                for (rm, segments) in known.candidate.iter().flat_map(|of| &of.segments) {
                    let Some(rm) = self.rm_index(rm) else { continue };
                    let due = segments.iter().filter(|segment| has_now(segment.window, at.wall));
                    for segment in due {
                        if !self.was_let_in(rm, known.id.as_str(), &segment.resource) {
                            let (name, resource) = (&self.rms[rm].name, &segment.resource);
                            let what =
                                format!("is active before {name} has let it in to {resource}");
                            return problem(&what);
                        }
                    }
                }
                self.counts.usages_active += 1;
            }
        }
        Ok(())
    }

    /// Why the usage of some reservation is not what it should be at rest.
    pub(super) fn usage_unrest(&self) -> Option<String> {
        if self.is_story() {
            return None;
        }
        if !self.news.under_way.is_empty() {
            return Some("news of equipment is on its way".to_owned());
        }
        self.grcs.iter().zip(&self.grc_names).find_map(|(node, name)| {
            let core = node.core.as_ref()?;
            let wall = node.now(self.now_us).wall;
            let own = core.reservations().filter(|known| {
                known.state == State::Confirmed && known.parent_transaction.is_none()
            });
            own.into_iter().find_map(|known| {
                let expected = self.expected_usage(core, name, known, wall)?;
                // What was over stays over when the clock is set back. A clock that is set forward may be noticed so late.
                let late =
                    wall.saturating_add(Span::ZERO.saturating_sub(limits::USAGE_CLOCK_CHECK));
                let is_right = expected == known.usage
                    || known.usage.phase == UsagePhase::Over
                    || self.expected_usage(core, name, known, late).as_ref() == Some(&known.usage);
                let of = || {
                    format!("I24: the usage of {} is {:?}, not {expected:?}", known.id, known.usage)
                };
                (!is_right).then(of)
            })
        })
    }

    /// The usage of a booked reservation by what is true at its RMs; `None` if it takes nothing.
    fn expected_usage(
        &self,
        core: &Coordinator,
        name: &CoordinatorName,
        known: &Reservation,
        wall: Time,
    ) -> Option<Usage> {
        let (start, end) = spans(&booked(known))?;
        if end <= wall {
            return Some(Usage { phase: UsagePhase::Over, ..Usage::default() });
        }
        let candidate = known.candidate.as_ref()?;
        let mut usage = Usage::default();
        let mut is_let_in = !candidate.manual_provision;
        for (name_of_rm, segments) in &candidate.segments {
            let Some(rm) = self.rm_index(name_of_rm).filter(|rm| self.has_equipment(*rm)) else {
                continue;
            };
            let all = all_of(&self.rms[rm].shadow, name);
            let own: Vec<&EquipmentFound> = all
                .iter()
                .filter(|found| core.reservation_of(&found.txn).is_some_and(|of| of.id == known.id))
                .collect();
            let of = |resource: &ResourceId| {
                own.iter().find(|found| found.resource == *resource)?.usage.as_ref()
            };
            is_let_in &= segments
                .iter()
                .filter(|segment| has_now(segment.window, wall))
                .all(|segment| of(&segment.resource).is_some_and(|usage| usage.is_active));
            let told: Vec<String> = own
                .iter()
                .filter_map(|found| {
                    let trouble = found.usage.as_ref()?.trouble.as_ref()?;
                    Some(format!("{}: {trouble}", found.resource))
                })
                .collect();
            if !told.is_empty() {
                usage.trouble.insert(name_of_rm.clone(), told.join("; "));
            }
        }
        if start <= wall && is_let_in {
            usage.phase = UsagePhase::Active;
        }
        Some(usage)
    }
}

/// All that is booked of a reservation.
fn booked(known: &Reservation) -> Vec<&Segment> {
    known.candidate.iter().flat_map(|of| of.segments.values().flatten()).collect()
}

/// Is this a transaction of this reservation?
pub(super) fn is_attempt_of(txn: &TransactionId, reservation: &str) -> bool {
    txn.as_str().rsplit_once('/').is_some_and(|(id, _)| id == reservation)
}
