//! Subscribers of profiles, one at each resource manager. What they believe equals the timetables (I11), and
//! within an epoch revisions only rise (I13), whatever happens to the nodes.
//!
//! Each subscriber looks at what is durable, as a publisher does, and not after every batch: one is eager,
//! one is lazy, one is so lazy that the ring of changes has moved on. Some updates are lost on their way; a
//! subscriber that lost one resumes from where it was. When a process starts again, its subscriptions are
//! gone and the pictures stay. A disk that was put back has another epoch, as it has for the operator who
//! accepts it.
//!
//! Subscribers draw no random numbers: the world of a seed is the same with and without them.
//!
//! Left out: streams, slices and delays, which `tests/updates` tests with real ones; inner networks.

use coalloc_common::{Amount, Now, Profile, RmName, Time, Window, limits};
use coalloc_protocol::participant::{Disclosure, Participant};
use coalloc_protocol::update::{
    DueUpdate, Ignored, Picture, Strategy, Subscription, Update, UpdateKind,
};

use super::World;

/// Number of changes that each participant of a world keeps: few, so that rings move on.
pub(super) const CHANGES_KEPT: usize = 12;
/// A subscriber looks once in so many batches, by the number of the RM.
const LOOKS: [u64; 4] = [1, 3, 40, 7];
/// One update in so many is lost.
const LOST: u64 = 5;
/// How many looks a subscriber needs at most to learn everything, when nothing changes any more. The worst
/// case: a change shows that the picture was made by a clock that was ahead (F5); the snapshot after it is
/// lost; the stream that resumes after the loss begins with that change again; the next snapshot arrives,
/// because only one update in [`LOST`] is lost.
const LOOKS_AT_REST: u32 = 4;

/// A subscriber and its picture of one RM.
#[derive(Debug)]
pub(super) struct Subscriber {
    picture: Picture,
    /// `None` while it is not connected.
    subscription: Option<Subscription>,
    /// The epoch of the RM's ledger: rises when a disk is put back.
    epoch: u64,
    batches: u64,
    updates: u64,
}

impl Default for Subscriber {
    fn default() -> Self {
        Self { picture: Picture::default(), subscription: None, epoch: 1, batches: 0, updates: 0 }
    }
}

impl Subscriber {
    /// The process that the subscriber was connected to is gone.
    pub(super) fn disconnect(&mut self) {
        self.subscription = None;
    }

    /// An older disk was put back.
    pub(super) fn restored(&mut self) {
        self.epoch += 1;
    }

    fn look(&mut self, node: &Participant, now: Now) -> Result<bool, String> {
        let name = &node.config().name;
        self.picture.expect(name, node.config().resources.iter().cloned());
        let cursor = self.picture.cursor(name);
        let resumed =
            cursor.filter(|(epoch, _)| *epoch == self.epoch).map(|(_, revision)| revision);
        let new = || Subscription::new(Strategy::EveryChange, resumed, now.boot);
        let mut subscription = self.subscription.take().unwrap_or_else(new);
        let capacity = |number: u32| node.config().resources[number as usize].1;
        // The update also covers what is over, as a publisher's does.
        let ever = Now { wall: Time::from_us(0), ..now };
        let (kind, mut disclosure) = match subscription.due(node.changes(), capacity, ever) {
            DueUpdate::Snapshot => {
                let resources = node.config().resources.iter().map(|(name, _)| name.clone());
                let kind = UpdateKind::Snapshot { resources: resources.collect(), more: false };
                (kind, node.everything(now.wall))
            }
            DueUpdate::Delta { from, touched } => {
                let windows = touched.into_iter().flat_map(|(number, of)| {
                    of.windows.into_iter().map(move |window| (number, window))
                });
                (UpdateKind::Delta { from }, Disclosure::of(windows))
            }
            DueUpdate::At(_) | DueUpdate::Nothing => {
                self.subscription = Some(subscription);
                return Ok(true);
            }
        };
        while !disclosure.is_read() && !disclosure.is_full() {
            node.disclose(&mut disclosure);
        }
        let (revision, parts) = (node.changes().revision(), disclosure.take());
        subscription.told(revision, now.boot);
        let update = Update { epoch: self.epoch, kind, revision, at: now.wall, parts };
        self.updates += 1;
        if self.updates.is_multiple_of(LOST) {
            // The update is lost, and its stream with it.
            return Ok(false);
        }
        self.subscription = Some(subscription);
        let merged = self.picture.merge(name, &update, now);
        if merged == Err(Ignored::ClockSetBack) {
            // The picture was made by a clock that was ahead (F5), so the subscription begins anew.
            self.subscription = Some(Subscription::new(Strategy::EveryChange, None, now.boot));
            return Ok(false);
        }
        merged.map_err(|error| {
            format!("I13: an update of {name} does not continue the stream: {error}")
        })?;
        let had = cursor.filter(|(epoch, _)| *epoch == update.epoch);
        if had.is_some_and(|(_, had)| revision < had) {
            return Err(format!("I13: {name} is at revision {revision} after {had:?}"));
        }
        Ok(true)
    }

    /// Looks until the subscriber has learned everything, when nothing changes any more.
    fn comes_to_rest(&mut self, node: &Participant, now: Now) -> Result<(), String> {
        for _ in 0..LOOKS_AT_REST {
            if self.look(node, now)? {
                return Ok(());
            }
        }
        Err(format!("it has not received everything after {LOOKS_AT_REST} looks"))
    }

    /// How the picture differs from the timetables, from the later of their two beginnings on.
    fn differs(&self, node: &Participant) -> Option<String> {
        let config = node.config();
        let known = self.picture.known(&config.name)?;
        for (name, capacity) in &config.resources {
            let Some(own) = known.profile(name) else { return Some(format!("{name} is unknown")) };
            let Some(timetable) = node.timetable(name) else { continue };
            let end = Time::from_us(limits::TIME_MAX_US);
            let window = Window::new(own.from(), end)?;
            let mut truth = Profile::constant(own.from(), Amount::ZERO);
            for step in timetable.profile(window) {
                let free = capacity.saturating_sub(step.held).saturating_sub(step.booked);
                truth.replace(Window::new(step.start, end)?, &[(step.start, free)]);
            }
            if truth != *own {
                return Some(format!(
                    "of {name} it believes {own:?}, but the timetable has {truth:?}"
                ));
            }
        }
        None
    }
}

impl World {
    /// After a batch of an RM, its subscriber may look.
    pub(super) fn subscriber_looks(&mut self, rm: usize) -> Result<(), String> {
        let (node, now_us) = (&self.rms[rm], self.now_us);
        let Some(subscriber) = self.subscribers.get_mut(rm) else { return Ok(()) };
        subscriber.batches += 1;
        if !subscriber.batches.is_multiple_of(LOOKS[rm % LOOKS.len()]) {
            return Ok(());
        }
        if subscriber.look(&node.shadow, node.now(now_us))?
            && let Some(what) = subscriber.differs(&node.shadow)
        {
            return Err(format!("I11: the subscriber of {}: {what}", node.name));
        }
        Ok(())
    }

    /// At rest, every subscriber that looks until it has learned everything has a picture that equals the
    /// timetables.
    pub(super) fn check_pictures(&mut self) -> Result<(), String> {
        for (node, subscriber) in self.rms.iter().zip(&mut self.subscribers) {
            let now = node.now(self.now_us);
            let rm: &RmName = &node.shadow.config().name;
            let rest = subscriber.comes_to_rest(&node.shadow, now);
            rest.map_err(|what| format!("I11: at rest, the subscriber of {rm}: {what}"))?;
            if subscriber.picture.known(rm).is_none() {
                return Err(format!("I11: the subscriber of {rm} has received nothing"));
            }
            if let Some(what) = subscriber.differs(&node.shadow) {
                return Err(format!("I11: at rest, the subscriber of {rm}: {what}"));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
#[path = "watchers_tests.rs"]
mod tests;
