//! The content of an update. On the wire it is `ProfileUpdate`.

use coalloc_common::profile::FreeStep;
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
    /// Are the steps well formed: does the first begin with the window, and do the others rise within it?
    #[must_use]
    pub fn is_sound(&self) -> bool {
        let begins = self.steps.first().is_some_and(|(at, _)| *at == self.window.start());
        let rises = self.steps.windows(2).all(|pair| pair[0].0 < pair[1].0);
        let within = self.steps.last().is_some_and(|(at, _)| *at < self.window.end());
        begins && rises && within
    }
}
