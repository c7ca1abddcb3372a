//! All idle periods of all servers in one tree, by start and server.
//!
//! A branch knows the latest end below it. A search walks left from the start of the window and enters
//! only branches with a period that ends late enough: O((n + 1) log M) for n servers among M periods.
//! Each period that contains the window is found, and what became idle last comes first. A branch also
//! knows the longest period below it, for [`PeriodTree::next_start`](IdleIndex::next_start).

use std::ops::ControlFlow;

use super::{IdleIndex, IdlePeriod, ServerIndex};
use crate::summary_tree::{Entry, Summary, SummaryTree};
use crate::time::{Span, Time, Window};

/// Where a period starts, and which server it is of.
type Key = (Time, ServerIndex);

/// Measured, see `benches/servers.rs`.
type Tree = SummaryTree<PeriodEnd, 32, 32>;

/// An idle period in the tree: its end. Start and server are its key.
#[derive(Debug, Clone, Copy)]
struct PeriodEnd(Time);

impl Default for PeriodEnd {
    fn default() -> Self {
        Self(Time::MIN)
    }
}

/// What a branch knows of the periods below it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Reach {
    latest_end: Time,
    longest: Span,
}

impl Summary for Reach {
    const EMPTY: Self = Self { latest_end: Time::MIN, longest: Span::ZERO };

    fn append(&mut self, later: &Self) {
        self.latest_end = self.latest_end.max(later.latest_end);
        self.longest = self.longest.max(later.longest);
    }
}

impl Entry for PeriodEnd {
    type Key = Key;
    type Summary = Reach;
    const KEY_MIN: Key = (Time::MIN, ServerIndex(0));

    fn pass(&self, (start, _): Key, so_far: &mut Reach) {
        so_far.append(&Reach { latest_end: self.0, longest: self.0.since(start) });
    }
}

/// An index of idle periods in one tree.
#[derive(Clone)]
pub struct PeriodTree {
    tree: Tree,
}

impl std::fmt::Debug for PeriodTree {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PeriodTree").field("periods", &self.tree.count()).finish_non_exhaustive()
    }
}

impl Default for PeriodTree {
    fn default() -> Self {
        Self::new()
    }
}

impl PeriodTree {
    /// An index without servers.
    #[must_use]
    pub fn new() -> Self {
        Self { tree: SummaryTree::new() }
    }

    /// How many idle periods there are.
    #[must_use]
    pub const fn periods(&self) -> usize {
        self.tree.count()
    }

    /// Bytes of heap in use, unused capacity included.
    #[must_use]
    pub fn heap_bytes(&self) -> usize {
        self.tree.heap_bytes()
    }

    fn insert(&mut self, period: IdlePeriod) {
        self.tree.edit((period.start, period.server), |_| Some(PeriodEnd(period.end)));
    }

    fn remove(&mut self, start: Time, server: ServerIndex) {
        self.tree.edit((start, server), |_| None);
    }

    /// The part of [`IdleIndex::visit`] below one node. Keys after `last` start too late; `None` when
    /// no key below the node does.
    fn visit_below(
        &self,
        node: usize,
        height: usize,
        last: Option<Key>,
        end: Time,
        visit: &mut dyn FnMut(ServerIndex) -> ControlFlow<()>,
    ) -> ControlFlow<()> {
        if height == 0 {
            let leaf = &self.tree.leaves[node];
            let candidates = last.map_or(leaf.len(), |last| leaf.count_until(last));
            let keys = leaf.keys()[..candidates].iter();
            for ((_, server), period) in keys.zip(leaf.items()).rev() {
                if period.0 >= end {
                    visit(*server)?;
                }
            }
            return ControlFlow::Continue(());
        }
        let inner = &self.tree.inners[node];
        let at = last.map_or(inner.len() - 1, |last| inner.branch_at(last));
        for (index, branch) in inner.items()[..=at].iter().enumerate().rev() {
            if branch.summary.latest_end >= end {
                let last = last.filter(|_| index == at);
                self.visit_below(branch.child, height - 1, last, end, visit)?;
            }
        }
        ControlFlow::Continue(())
    }

    /// The part of [`IdleIndex::next_start`] below one node; `after` is `None` when every key below the
    /// node is later.
    fn next_below(
        &self,
        node: usize,
        height: usize,
        after: Option<Key>,
        length: Span,
    ) -> Option<Time> {
        if height == 0 {
            let leaf = &self.tree.leaves[node];
            let first = after.map_or(0, |after| leaf.count_until(after));
            let mut later = leaf.keys()[first..].iter().zip(&leaf.items()[first..]);
            let found = later.find(|((start, _), end)| end.0.since(*start) >= length);
            return found.map(|((start, _), _)| *start);
        }
        let inner = &self.tree.inners[node];
        let at = after.map_or(0, |after| inner.branch_at(after));
        inner.items()[at..].iter().enumerate().find_map(|(index, branch)| {
            if branch.summary.longest < length {
                return None;
            }
            let after = after.filter(|_| index == 0);
            self.next_below(branch.child, height - 1, after, length)
        })
    }
}

impl IdleIndex for PeriodTree {
    fn fill(&mut self, servers: u32) {
        for server in (0..servers).map(ServerIndex) {
            self.insert(IdlePeriod { server, start: Time::MIN, end: Time::MAX });
        }
    }

    fn take(&mut self, period: IdlePeriod, window: Window) {
        let [before, after] = period.around(window);
        match before {
            // The entry stays where it is and gets an earlier end.
            Some(before) => self.insert(before),
            None => self.remove(period.start, period.server),
        }
        if let Some(after) = after {
            self.insert(after);
        }
    }

    fn give(&mut self, period: IdlePeriod, window: Window) {
        let [_, after] = period.around(window);
        if let Some(after) = after {
            self.remove(after.start, after.server);
        }
        self.insert(period);
    }

    fn visit(
        &self,
        window: Window,
        _: usize,
        visit: &mut dyn FnMut(ServerIndex) -> ControlFlow<()>,
    ) {
        let last = (window.start(), ServerIndex(u32::MAX));
        let (root, height) = (self.tree.root, self.tree.height);
        let _ = self.visit_below(root, height, Some(last), window.end(), visit);
    }

    fn next_start(&self, after: Time, length: Span) -> Option<Time> {
        let after = (after, ServerIndex(u32::MAX));
        self.next_below(self.tree.root, self.tree.height, Some(after), length)
    }

    fn check(&self, periods: &[IdlePeriod]) -> Result<(), String> {
        self.tree.check()?;
        if self.tree.count() != periods.len() {
            let (has, there) = (self.tree.count(), periods.len());
            return Err(format!("the tree has {has} of {there} idle periods"));
        }
        for period in periods {
            let mut found = false;
            let window = Window::new(period.start, period.end);
            let window = window.ok_or_else(|| format!("{period:?} is empty"))?;
            self.visit(window, 1, &mut |server| {
                found |= server == period.server;
                if found { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
            });
            if !found {
                return Err(format!("the tree does not find {period:?}"));
            }
        }
        Ok(())
    }
}
