//! What a scheduler believes of the profiles of all RMs.
//!
//! Every update is checked as a whole before any of it counts. An update that does not fit is ignored and
//! counted, and [`Ignored::needs_snapshot`] says whether the picture stays wrong until a new snapshot arrives.
//! Answers to Hold bring facts about single windows. Facts may be newer than updates that are still on their
//! way; older updates do not undo them.

use std::collections::BTreeMap;

use coalloc_common::profile::FreeStep;
use coalloc_common::{Amount, Now, Profile, ResourceId, RmName, Span, Time, Window, limits};

use super::facts::{Fact, Facts};
use super::{Part, Update, UpdateKind};

/// What a scheduler believes of the RMs that it knows.
#[derive(Debug, Clone, Default)]
pub struct Picture {
    members: BTreeMap<RmName, Member>,
}

/// What is known of one RM.
#[derive(Debug, Clone, Default)]
struct Member {
    /// The capacity of each resource, as the RM described it.
    capacities: BTreeMap<ResourceId, Amount>,
    known: Option<RmPicture>,
    /// A snapshot of which some pieces have not arrived yet.
    incoming: Option<RmPicture>,
    counts: Counts,
}

/// How the updates of one RM have fared.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Counts {
    /// Snapshots that were taken over; each piece counts.
    pub snapshots: u64,
    /// Deltas that were taken over.
    pub deltas: u64,
    /// Facts from answers that were taken over.
    pub facts: u64,
    /// Updates that were ignored, for whatever reason.
    pub ignored: u64,
}

/// What is believed of one RM.
#[derive(Debug, Clone)]
pub struct RmPicture {
    /// The RM's epoch, which stands for its ledger and inventory.
    pub epoch: u64,
    /// The revision of the RM's state that the picture shows.
    pub revision: u64,
    /// When the RM made the last update, by the RM's clock.
    pub at: Time,
    /// When that update arrived here.
    pub heard: Now,
    resources: Vec<ResourceId>,
    index: BTreeMap<ResourceId, u32>,
    profiles: Vec<Profile>,
    /// Windows of which something newer than `revision` is known.
    facts: Facts,
}

/// Why an update was ignored.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Ignored {
    /// The picture does not know the RM.
    #[error("it is from an unknown resource manager")]
    Stranger,
    /// The update belongs to another ledger or inventory, or no snapshot has arrived yet.
    #[error("its epoch is not the picture's")]
    WrongEpoch,
    /// Updates between the picture and this one are missing.
    #[error("it starts from revision {from}, but the picture has {have}")]
    Gap {
        /// The revision of the picture.
        have: u64,
        /// The revision that the update starts from.
        from: u64,
    },
    /// The picture is at least as new already.
    #[error("the picture already has revision {have}")]
    Replay {
        /// The revision of the picture.
        have: u64,
    },
    /// The update names a resource that the RM did not describe, or a number that stands for none.
    #[error("it names a resource that was not described: {0}")]
    UnknownResource(String),
    /// The update reports more free than the resource has.
    #[error("it reports {free} free of {resource}, which has {capacity}")]
    AboveCapacity {
        /// The resource in question.
        resource: ResourceId,
        /// The free amount that the update reports.
        free: u64,
        /// The capacity of the resource.
        capacity: u64,
    },
    /// The RM's clock was ahead when the picture was made and has been set back since. The picture knows
    /// nothing of a time that is not over.
    #[error("the clock of its resource manager was set back")]
    ClockSetBack,
    /// The picture would have too many steps, a window or its steps make no sense, or a piece of a snapshot
    /// does not belong to the pieces before it.
    #[error("it contradicts itself")]
    Unsound,
}

impl Ignored {
    /// Does the picture stay wrong until a new snapshot arrives?
    #[must_use]
    pub const fn needs_snapshot(&self) -> bool {
        !matches!(self, Self::Stranger | Self::Replay { .. })
    }

    /// The reason in one word, as a label for counters.
    #[must_use]
    pub const fn word(&self) -> &'static str {
        match self {
            Self::Stranger => "stranger",
            Self::WrongEpoch => "wrong_epoch",
            Self::Gap { .. } => "gap",
            Self::Replay { .. } => "replay",
            Self::UnknownResource(_) => "unknown_resource",
            Self::AboveCapacity { .. } => "above_capacity",
            Self::ClockSetBack => "clock_set_back",
            Self::Unsound => "unsound",
        }
    }
}

impl Picture {
    /// Adds an RM with the resources that it described. If the RM is known, what is believed of it stays,
    /// unless its description has changed: then everything but its counts is dropped.
    pub fn expect(
        &mut self,
        rm: &RmName,
        resources: impl IntoIterator<Item = (ResourceId, Amount)>,
    ) {
        let capacities = resources.into_iter().collect();
        let member = self.members.entry(rm.clone()).or_default();
        if member.capacities != capacities {
            let counts = member.counts;
            *member = Member { capacities, counts, ..Member::default() };
        }
    }

    /// The RMs that the picture knows, each with what is believed of it and with its counts.
    pub fn members(&self) -> impl Iterator<Item = (&RmName, Option<&RmPicture>, Counts)> {
        self.members.iter().map(|(rm, member)| (rm, member.known.as_ref(), member.counts))
    }

    /// What is believed of an RM; `None` before its first snapshot.
    #[must_use]
    pub fn known(&self, rm: &RmName) -> Option<&RmPicture> {
        self.members.get(rm)?.known.as_ref()
    }

    /// What is believed of a resource; `None` when the RM or the resource is not known.
    #[must_use]
    pub fn profile(&self, rm: &RmName, resource: &ResourceId) -> Option<&Profile> {
        self.known(rm)?.profile(resource)
    }

    /// Where a new subscription should start: the epoch and revision of what is believed of an RM.
    #[must_use]
    pub fn cursor(&self, rm: &RmName) -> Option<(u64, u64)> {
        self.known(rm).map(|known| (known.epoch, known.revision))
    }

    /// Takes over all of an update, or nothing of it.
    ///
    /// # Errors
    /// [`Ignored`]; the update is counted as ignored. The picture stays as it was, except that pieces of a
    /// snapshot which this piece does not belong to are dropped.
    pub fn merge(&mut self, rm: &RmName, update: &Update, now: Now) -> Result<(), Ignored> {
        let member = self.members.get_mut(rm).ok_or(Ignored::Stranger)?;
        let done = member.merge(update, now);
        match (&done, &update.kind) {
            (Err(_), _) => member.counts.ignored += 1,
            (Ok(()), UpdateKind::Snapshot { .. }) => member.counts.snapshots += 1,
            (Ok(()), UpdateKind::Delta { .. }) => member.counts.deltas += 1,
            (Ok(()), UpdateKind::Facts) => member.counts.facts += 1,
        }
        done
    }

    /// Drops what was before an instant, so that profiles do not grow with time. Of each RM, nothing is dropped
    /// after the instant of its last update, so that a clock which is ahead here loses nothing (I18).
    pub fn forget_before(&mut self, at: Time) {
        for known in self.members.values_mut().filter_map(|member| member.known.as_mut()) {
            let at = at.min(known.at);
            known.profiles.iter_mut().for_each(|profile| profile.forget_before(at));
            known.facts.retain(|fact| fact.window.end() > at);
        }
    }
}

impl Member {
    fn merge(&mut self, update: &Update, now: Now) -> Result<(), Ignored> {
        match &update.kind {
            UpdateKind::Snapshot { resources, more } => {
                let mut incoming = match (resources.is_empty(), self.incoming.take()) {
                    (false, _) => RmPicture::begin(update, resources, &self.capacities, now)?,
                    (true, Some(incoming)) => incoming,
                    (true, None) => return Err(Ignored::Unsound),
                };
                let same = (incoming.epoch, incoming.revision) == (update.epoch, update.revision);
                if !same {
                    return Err(Ignored::Unsound);
                }
                incoming.check(&update.parts, &self.capacities)?;
                incoming.take(&update.parts, update.revision);
                if *more {
                    self.incoming = Some(incoming);
                } else {
                    if let Some(old) = self.known.take_if(|old| old.epoch == incoming.epoch) {
                        incoming.keep_younger(&old);
                    }
                    self.known = Some(incoming);
                }
                Ok(())
            }
            UpdateKind::Delta { from } => {
                let known = self.of_epoch(update.epoch)?;
                let have = known.revision;
                if *from > have {
                    return Err(Ignored::Gap { have, from: *from });
                }
                if update.revision < have || (update.revision == have && *from < have) {
                    return Err(Ignored::Replay { have });
                }
                self.check(update)?;
                // The check above has found an RM of this epoch.
                let Some(known) = &mut self.known else { return Err(Ignored::WrongEpoch) };
                if known.begins_after(update) {
                    return Err(Ignored::ClockSetBack);
                }
                known.take(&update.parts, update.revision);
                known.revision = update.revision;
                (known.at, known.heard) = (known.at.max(update.at), now);
                known.facts.retain(|fact| fact.revision > update.revision);
                Ok(())
            }
            UpdateKind::Facts => {
                let have = self.of_epoch(update.epoch)?.revision;
                if update.revision < have {
                    return Err(Ignored::Replay { have });
                }
                self.check(update)?;
                let Some(known) = &mut self.known else { return Err(Ignored::WrongEpoch) };
                known.take(&update.parts, update.revision);
                if update.revision > have {
                    known.remember(&update.parts, update.revision);
                }
                Ok(())
            }
        }
    }

    fn of_epoch(&self, epoch: u64) -> Result<&RmPicture, Ignored> {
        self.known.as_ref().filter(|known| known.epoch == epoch).ok_or(Ignored::WrongEpoch)
    }

    fn check(&self, update: &Update) -> Result<(), Ignored> {
        self.of_epoch(update.epoch)?.check(&update.parts, &self.capacities)
    }
}

impl RmPicture {
    /// An empty picture of these resources, in which nothing is known to be free.
    fn begin(
        update: &Update,
        resources: &[ResourceId],
        capacities: &BTreeMap<ResourceId, Amount>,
        now: Now,
    ) -> Result<Self, Ignored> {
        if let Some(other) = resources.iter().find(|name| !capacities.contains_key(*name)) {
            return Err(Ignored::UnknownResource(other.to_string()));
        }
        let index: BTreeMap<ResourceId, u32> = resources.iter().cloned().zip(0..).collect();
        if index.len() != resources.len() {
            return Err(Ignored::Unsound);
        }
        Ok(Self {
            epoch: update.epoch,
            revision: update.revision,
            at: update.at,
            heard: now,
            resources: resources.to_vec(),
            index,
            profiles: vec![Profile::constant(update.at, Amount::ZERO); resources.len()],
            facts: Facts::default(),
        })
    }

    /// Every resource with its profile, in the RM's order.
    pub fn profiles(&self) -> impl Iterator<Item = (&ResourceId, &Profile)> {
        self.resources.iter().zip(&self.profiles)
    }

    /// The profile of a resource; `None` for an unknown one.
    #[must_use]
    pub fn profile(&self, resource: &ResourceId) -> Option<&Profile> {
        self.profiles.get(*self.index.get(resource)? as usize)
    }

    /// How old the picture is: the time since the RM made it, by the clocks of both nodes; never negative.
    #[must_use]
    pub fn age(&self, now: Time) -> Span {
        now.since(self.at).max(Span::ZERO)
    }

    fn check(
        &self,
        parts: &[Part],
        capacities: &BTreeMap<ResourceId, Amount>,
    ) -> Result<(), Ignored> {
        let known: usize = parts
            .iter()
            .filter_map(|part| self.profiles.get(part.resource as usize))
            .map(|profile| profile.steps().len())
            .max()
            .unwrap_or(0);
        if known > limits::PICTURE_STEPS_MAX / self.profiles.len().max(1) {
            return Err(Ignored::Unsound);
        }
        for part in parts {
            let Some(name) = self.resources.get(part.resource as usize) else {
                return Err(Ignored::UnknownResource(format!("number {}", part.resource)));
            };
            if !part.is_sound() {
                return Err(Ignored::Unsound);
            }
            let capacity = capacities.get(name).copied().unwrap_or(Amount::ZERO);
            if let Some((_, free)) = part.steps.iter().find(|(_, free)| *free > capacity) {
                let (resource, free) = (name.clone(), free.0);
                return Err(Ignored::AboveCapacity { resource, free, capacity: capacity.0 });
            }
        }
        Ok(())
    }

    /// Does the picture know nothing of a time that the update covers and that is not over by the update's clock?
    fn begins_after(&self, update: &Update) -> bool {
        update.parts.iter().any(|part| {
            let from = self.profiles.get(part.resource as usize).map(Profile::from);
            from.is_some_and(|from| from > update.at && part.window.start() < from)
        })
    }

    /// Takes over those facts of an older picture of the same epoch that are newer than this one.
    fn keep_younger(&mut self, old: &Self) {
        for fact in old.facts.iter().filter(|fact| fact.revision > self.revision) {
            let number = fact.resource as usize;
            let steps = old.profiles.get(number).map(|old| old.over(fact.window));
            if let (Some(profile), Some(steps)) = (self.profiles.get_mut(number), steps)
                && let Some((start, _)) = steps.first()
                && let Some(window) = Window::new(*start, fact.window.end())
            {
                profile.replace(window, &steps);
                self.facts.add(*fact);
            }
        }
    }

    /// Takes over parts that were checked, except for windows of which something newer is known.
    fn take(&mut self, parts: &[Part], revision: u64) {
        for part in parts {
            let younger = self.facts.younger(part.resource, revision, part.window);
            let Some(profile) = self.profiles.get_mut(part.resource as usize) else { continue };
            for window in outside(part.window, younger) {
                profile.replace(window, &within(&part.steps, window));
            }
        }
    }

    fn remember(&mut self, parts: &[Part], revision: u64) {
        for Part { resource, window, .. } in parts {
            self.facts.add(Fact { resource: *resource, window: *window, revision });
        }
    }
}

/// The parts of a window that lie outside all of the others.
fn outside(window: Window, mut others: Vec<Window>) -> Vec<Window> {
    others.sort_by_key(|other| other.start());
    let mut left = Vec::with_capacity(others.len() + 1);
    let mut from = window.start();
    for other in others {
        left.extend(Window::new(from, other.start().min(window.end())));
        from = from.max(other.end());
    }
    left.extend(Window::new(from, window.end()));
    left
}

/// The steps over a window. The window must lie within the window of the steps.
fn within(steps: &[FreeStep], window: Window) -> Vec<FreeStep> {
    let first = steps.partition_point(|(at, _)| *at <= window.start()).saturating_sub(1);
    let inside = steps[first..].iter().filter(|(at, _)| *at < window.end());
    inside.map(|(at, free)| ((*at).max(window.start()), *free)).collect()
}

#[cfg(test)]
#[path = "picture_tests.rs"]
mod tests;
