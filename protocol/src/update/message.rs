//! What an update says. On the wire it is `ProfileUpdate`.

use coalloc_common::profile::FreeStep;
use coalloc_common::{ResourceId, Time, Window};

/// News of an RM's profiles.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Update {
    /// Stands for the RM's ledger and inventory.
    pub epoch: u64,
    /// What it is.
    pub kind: UpdateKind,
    /// State changes applied when it was made.
    pub revision: u64,
    /// When it was made, by the RM's clock.
    pub at: Time,
    /// What is free now, each of a window of its own.
    pub parts: Vec<Part>,
}

/// What an update is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum UpdateKind {
    /// A whole picture, or a piece of one; it takes the place of everything.
    Snapshot {
        /// In the first piece: the resources, in the order in which parts count them.
        resources: Vec<ResourceId>,
        /// Further pieces follow.
        more: bool,
    },
    /// What changed after the revision `from`; right only on a picture of that revision.
    Delta {
        /// The revision it goes on from.
        from: u64,
    },
    /// Some windows as they were at this revision; the picture's own revision stays.
    Facts,
}

/// What is free of one resource over a window.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Part {
    /// Which, in the order of the snapshot's resources.
    pub resource: u32,
    /// Of when it speaks.
    pub window: Window,
    /// The first begins with the window, the others rise within it. Never empty.
    pub steps: Vec<FreeStep>,
}

impl Part {
    /// Is it as it says: steps that begin with the window and rise within it?
    #[must_use]
    pub fn is_sound(&self) -> bool {
        let begins = self.steps.first().is_some_and(|(at, _)| *at == self.window.start());
        let rises = self.steps.windows(2).all(|pair| pair[0].0 < pair[1].0);
        let within = self.steps.last().is_some_and(|(at, _)| *at < self.window.end());
        begins && rises && within
    }
}
