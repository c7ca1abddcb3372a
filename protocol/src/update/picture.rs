//! What a scheduler believes of everybody's profiles.
//!
//! Every update is checked whole before any of it counts: one that does not fit is ignored and counted, and
//! [`Ignored::needs_snapshot`] says whether the picture is of any use without a new one. Refusals and yeses
//! bring facts about single windows, which may be younger than the updates that are on their way; older
//! updates do not undo them.

use std::collections::BTreeMap;

use coalloc_common::profile::FreeStep;
use coalloc_common::{Amount, Now, Profile, ResourceId, RmName, Span, Time, Window, limits};

use super::facts::{Fact, Facts};
use super::{Part, Update, UpdateKind};

/// What a scheduler believes of the RMs it knows.
#[derive(Debug, Clone, Default)]
pub struct Picture {
    members: BTreeMap<RmName, Member>,
}

/// One RM.
#[derive(Debug, Clone, Default)]
struct Member {
    /// What there is, as it described itself.
    capacities: BTreeMap<ResourceId, Amount>,
    known: Option<RmPicture>,
    /// A snapshot of which pieces are missing.
    incoming: Option<RmPicture>,
    counts: Counts,
}

/// What came of one RM's updates.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Counts {
    /// Snapshots, pieces counted.
    pub snapshots: u64,
    /// Changes.
    pub deltas: u64,
    /// Facts out of answers.
    pub facts: u64,
    /// Ignored, for whatever reason.
    pub ignored: u64,
}

/// What is believed of one RM.
#[derive(Debug, Clone)]
pub struct RmPicture {
    /// Of which ledger and inventory.
    pub epoch: u64,
    /// Of which state.
    pub revision: u64,
    /// When it was made, by the RM's clock.
    pub at: Time,
    /// When it came.
    pub heard: Now,
    resources: Vec<ResourceId>,
    index: BTreeMap<ResourceId, u32>,
    profiles: Vec<Profile>,
    /// Windows of which something younger than `revision` is known.
    facts: Facts,
}

/// Why an update does not count.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Ignored {
    /// The picture has no such RM.
    #[error("from a stranger")]
    Stranger,
    /// It is of another ledger or inventory, or comes before any snapshot.
    #[error("of another epoch than the picture's")]
    WrongEpoch,
    /// Updates between are missing.
    #[error("it goes on from revision {from}, the picture has {have}")]
    Gap {
        /// The revision of the picture.
        have: u64,
        /// The one it goes on from.
        from: u64,
    },
    /// The picture is as young already.
    #[error("the picture has revision {have} already")]
    Replay {
        /// The revision of the picture.
        have: u64,
    },
    /// A resource that the RM did not describe, or a number without one.
    #[error("of a resource that was not described: {0}")]
    UnknownResource(String),
    /// More free than there is.
    #[error("{free} of {resource} free, which has {capacity}")]
    AboveCapacity {
        /// Of which resource.
        resource: ResourceId,
        /// What it says.
        free: u64,
        /// What there is.
        capacity: u64,
    },
    /// The RM's clock was ahead when the picture was made: it says nothing of a time that is still to come.
    #[error("the clock of its resource manager was set back")]
    ClockSetBack,
    /// More steps than a picture has room for, a window or its steps make no sense, or a piece of a snapshot does not go with the others.
    #[error("it contradicts itself")]
    Unsound,
}

impl Ignored {
    /// Does the picture stay wrong without a new snapshot?
    #[must_use]
    pub const fn needs_snapshot(&self) -> bool {
        !matches!(self, Self::Stranger | Self::Replay { .. })
    }

    /// One word for counters.
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
    /// Knows an RM by what it described. What is believed of it stays, unless what it described has changed:
    /// then it counts as unheard of.
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

    /// The RMs it knows.
    pub fn members(&self) -> impl Iterator<Item = (&RmName, Option<&RmPicture>, Counts)> {
        self.members.iter().map(|(rm, member)| (rm, member.known.as_ref(), member.counts))
    }

    /// What is believed of an RM, if it was ever heard of.
    #[must_use]
    pub fn known(&self, rm: &RmName) -> Option<&RmPicture> {
        self.members.get(rm)?.known.as_ref()
    }

    /// What is believed of a resource.
    #[must_use]
    pub fn profile(&self, rm: &RmName, resource: &ResourceId) -> Option<&Profile> {
        self.known(rm)?.profile(resource)
    }

    /// Where to go on from: the epoch and revision of what is believed of an RM.
    #[must_use]
    pub fn cursor(&self, rm: &RmName) -> Option<(u64, u64)> {
        self.known(rm).map(|known| (known.epoch, known.revision))
    }

    /// Takes news of an RM: all of it, or nothing.
    ///
    /// # Errors
    /// [`Ignored`], which is counted; the picture is as it was, but for pieces of a snapshot that this one
    /// does not go with.
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

    /// Drops what was before an instant, so that profiles do not grow with time; of each RM not beyond what it told
    /// last, so that a clock that is ahead here loses nothing (I18).
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
                // Checked above.
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
    /// An empty picture of these resources: nothing is known to be free.
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

    /// Every resource and its profile, in the RM's order.
    pub fn profiles(&self) -> impl Iterator<Item = (&ResourceId, &Profile)> {
        self.resources.iter().zip(&self.profiles)
    }

    /// The profile of a resource.
    #[must_use]
    pub fn profile(&self, resource: &ResourceId) -> Option<&Profile> {
        self.profiles.get(*self.index.get(resource)? as usize)
    }

    /// How old it is: time since the RM made it, by the clocks of both; never negative.
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

    /// Does it know nothing of a time that an update speaks of and that is not over?
    fn begins_after(&self, update: &Update) -> bool {
        update.parts.iter().any(|part| {
            let from = self.profiles.get(part.resource as usize).map(Profile::from);
            from.is_some_and(|from| from > update.at && part.window.start() < from)
        })
    }

    /// Keeps what another one of the same epoch knows that is younger.
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

    /// Believes parts that were checked, but for windows of which something younger is known.
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

/// What of a window lies outside of others.
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

/// The steps over a window that lies within theirs.
fn within(steps: &[FreeStep], window: Window) -> Vec<FreeStep> {
    let first = steps.partition_point(|(at, _)| *at <= window.start()).saturating_sub(1);
    let inside = steps[first..].iter().filter(|(at, _)| *at < window.end());
    inside.map(|(at, free)| ((*at).max(window.start()), *free)).collect()
}

#[cfg(test)]
#[path = "picture_tests.rs"]
mod tests;
