//! What is left of a search's budget.

use std::sync::atomic::{AtomicBool, Ordering};

/// Counts down the search nodes and watches for the caller's stop.
pub(super) struct Meter<'a> {
    left: u64,
    opened: u64,
    stop: &'a AtomicBool,
}

impl<'a> Meter<'a> {
    pub(super) fn new(nodes: u64, stop: &'a AtomicBool) -> Self {
        Self { left: nodes, opened: 0, stop }
    }

    /// A part of this budget, for one of several searches.
    pub(super) fn part(&self, nodes: u64) -> Self {
        Self::new(nodes.min(self.left), self.stop)
    }

    /// Counts the nodes that were opened in a part.
    pub(super) fn spend(&mut self, nodes: u64) {
        self.left = self.left.saturating_sub(nodes);
        self.opened += nodes;
    }

    /// The number of nodes opened so far.
    pub(super) const fn opened(&self) -> u64 {
        self.opened
    }

    /// Whether the budget has ended.
    pub(super) const fn ended(&self) -> bool {
        self.left == 0
    }

    /// Whether the budget has ended, or the caller has stopped the search meanwhile.
    pub(super) fn is_over(&self) -> bool {
        self.left == 0 || self.stop.load(Ordering::Relaxed)
    }

    /// Opens one node. False when the budget has ended.
    pub(super) fn tick(&mut self) -> bool {
        if self.left == 0 || self.stop.load(Ordering::Relaxed) {
            self.left = 0;
            return false;
        }
        self.left -= 1;
        self.opened += 1;
        true
    }
}
