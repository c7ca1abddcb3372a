//! The content of an update. On the wire it is `ProfileUpdate`.

use coalloc_common::profile::FreeStep;
use coalloc_common::service_level::{WHOLE, part};
use coalloc_common::{ResourceId, Time, Window};

/// A report of an RM on its profiles.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Update {
    /// Stands for the RM's ledger and inventory.
    pub epoch: u64,
    /// Whether it is a snapshot, a delta, or facts.
    pub kind: UpdateKind,
    /// The RM's revision when the update was made.
    pub revision: u64,
    /// When it was made, by the RM's clock.
    pub at: Time,
    /// What is free now: one part for each resource and window that the update covers.
    pub parts: Vec<Part>,
}

/// The kind of an update.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum UpdateKind {
    /// The whole picture, or a piece of it. It replaces everything that was known of the RM.
    Snapshot {
        /// In the first piece: the resources, in the order in which parts number them. Empty in further pieces.
        resources: Vec<ResourceId>,
        /// Whether further pieces follow.
        more: bool,
    },
    /// What changed after the revision `from`. It applies only to a picture of at least that revision.
    Delta {
        /// The revision that the changes start from.
        from: u64,
    },
    /// Some windows as they were at this revision. The picture's own revision stays as it is.
    Facts,
}

/// What is free of one resource over a window.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Part {
    /// The number of the resource, in the order of the snapshot's resources.
    pub resource: u32,
    /// The window that the part covers.
    pub window: Window,
    /// What is free from each instant on. The first step begins with the window, the others follow in rising
    /// order within it. Never empty.
    pub steps: Vec<FreeStep>,
}

impl Part {
    /// This part as somebody is shown it who may know only a share of what is free, in percent.
    #[must_use]
    pub fn at_most(mut self, share: u32) -> Self {
        if share < WHOLE {
            for (_, free) in &mut self.steps {
                *free = part(share, u128::from(free.0));
            }
            self.steps.dedup_by_key(|(_, free)| *free);
        }
        self
    }

    /// Are the steps well formed: does the first begin with the window, and do the others rise within it?
    #[must_use]
    pub fn is_sound(&self) -> bool {
        let begins = self.steps.first().is_some_and(|(at, _)| *at == self.window.start());
        let rises = self.steps.windows(2).all(|pair| pair[0].0 < pair[1].0);
        let within = self.steps.last().is_some_and(|(at, _)| *at < self.window.end());
        begins && rises && within
    }
}

#[cfg(test)]
mod tests {
    use coalloc_common::Amount;

    use super::*;

    #[test]
    fn whoever_may_know_a_share_is_shown_no_more_and_no_step_that_shows_nothing() {
        let window = Window::new(Time::from_us(0), Time::from_us(40)).unwrap();
        let steps = |all: &[(i64, u64)]| -> Vec<FreeStep> {
            all.iter().map(|(at, free)| (Time::from_us(*at), Amount(*free))).collect()
        };
        let whole = steps(&[(0, 10), (10, 11), (20, 3), (30, 0)]);
        let part = Part { resource: 0, window, steps: whole.clone() };
        let shown = part.clone().at_most(50);
        assert_eq!(shown.steps, steps(&[(0, 5), (20, 1), (30, 0)]));
        assert!(shown.is_sound());
        assert_eq!(part.at_most(WHOLE).steps, whole);
    }
}
