//! Which windows changed at which revision: what a subscriber that is behind has to be told again.

use std::collections::{BTreeMap, VecDeque};

use coalloc_common::{Amount, Time, Window, limits};

/// One change of what is free.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Change {
    /// The revision that it made.
    pub revision: u64,
    /// Which resource, in the order of the inventory; `None`: any of them, as where links inside carry all paths.
    pub resource: Option<u32>,
    /// When something changed.
    pub window: Window,
    /// By how much at most.
    pub amount: Amount,
}

/// What changed of one resource after some revision.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ResourceChange {
    /// When, in order; no two overlap or meet.
    pub windows: Vec<Window>,
    /// The amounts of all changes, added up.
    pub amount: u128,
}

impl ResourceChange {
    /// In order, and none meets another.
    fn unite(&mut self) {
        self.windows.sort_by_key(|window| (window.start(), window.end()));
        self.windows = united(&self.windows);
    }
}

/// The last changes, at most a bounded number of them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChangeLog {
    kept: usize,
    resources: u32,
    changes: VecDeque<Change>,
    /// Changes after this revision are all here.
    complete_after: u64,
    revision: u64,
}

impl ChangeLog {
    /// Keeps the last `kept` changes of so many resources.
    #[must_use]
    pub const fn new(kept: usize, resources: u32) -> Self {
        Self { kept, resources, changes: VecDeque::new(), complete_after: 0, revision: 0 }
    }

    /// The revision of the state: how many state changes there were.
    #[must_use]
    pub const fn revision(&self) -> u64 {
        self.revision
    }

    /// Begins the next revision. Call it once for every record, before what that changed is noted.
    pub const fn begin(&mut self) {
        self.revision += 1;
    }

    /// Notes that what is free of a resource changed over a window by up to an amount, at this revision.
    pub fn note(&mut self, resource: u32, window: Window, amount: Amount) {
        self.push(Some(resource), window, amount);
    }

    /// Notes the same of whichever resources; that is one change.
    pub fn note_any(&mut self, window: Window, amount: Amount) {
        self.push(None, window, amount);
    }

    fn push(&mut self, resource: Option<u32>, window: Window, amount: Amount) {
        self.changes.push_back(Change { revision: self.revision, resource, window, amount });
        while self.changes.len() > self.kept {
            if let Some(lost) = self.changes.pop_front() {
                self.complete_after = lost.revision;
            }
        }
    }

    /// What changed after a revision, by resource; what ended before `now` is left out. `None` when that cannot
    /// be told any more, the revision is yet to come, or it would be longer than a snapshot.
    #[must_use]
    pub fn since(&self, revision: u64, now: Time) -> Option<BTreeMap<u32, ResourceChange>> {
        if revision < self.complete_after || revision > self.revision {
            return None;
        }
        let first = self.changes.partition_point(|change| change.revision <= revision);
        let mut touched: BTreeMap<u32, ResourceChange> = BTreeMap::new();
        let mut any = ResourceChange::default();
        for change in self.changes.range(first..).filter(|change| change.window.end() > now) {
            let of = match change.resource {
                Some(resource) => touched.entry(resource).or_default(),
                None => &mut any,
            };
            of.amount += u128::from(change.amount.0);
            let start = change.window.start().max(now);
            of.windows.extend(Window::new(start, change.window.end()));
        }
        if !any.windows.is_empty() {
            any.unite();
            if any.windows.len() * self.resources as usize > limits::TOUCHED_MAX {
                // A snapshot says less.
                return None;
            }
            for resource in 0..self.resources {
                let of = touched.entry(resource).or_default();
                of.amount += any.amount;
                of.windows.extend_from_slice(&any.windows);
            }
        }
        for of in touched.values_mut() {
            of.unite();
        }
        Some(touched)
    }

    /// The revision of the first change after `revision` of a window that is not over; `None` when there is
    /// none, or that cannot be told any more.
    #[must_use]
    pub fn is_behind(&self, revision: u64) -> bool {
        let last = self.changes.back().map_or(self.complete_after, |change| change.revision);
        revision < last.max(self.complete_after) || revision > self.revision
    }
}

/// Windows in the order of their starts, with those that meet made one.
fn united(windows: &[Window]) -> Vec<Window> {
    let mut united: Vec<Window> = Vec::with_capacity(windows.len());
    for window in windows {
        match united.last_mut() {
            Some(last) if window.start() <= last.end() => {
                let end = last.end().max(window.end());
                // A window that grows is one.
                *last = Window::new(last.start(), end).unwrap_or(*last);
            }
            _ => united.push(*window),
        }
    }
    united
}

#[cfg(test)]
mod tests {
    use super::*;

    fn window(start: i64, end: i64) -> Window {
        Window::new(Time::from_us(start), Time::from_us(end)).expect("a window")
    }

    #[test]
    fn what_changed_after_a_revision_is_told_by_resource_and_united() {
        let mut log = ChangeLog::new(8, 2);
        for (resource, start, end) in [(0, 0, 10), (1, 5, 6), (0, 20, 30), (0, 10, 12)] {
            log.begin();
            log.note(resource, window(start, end), Amount(3));
        }
        assert_eq!(log.revision(), 4);
        let all = log.since(0, Time::from_us(0)).expect("all are kept");
        assert_eq!(all[&0].windows, [window(0, 12), window(20, 30)]);
        assert_eq!(all[&0].amount, 9);
        assert_eq!(all[&1].windows, [window(5, 6)]);
        let later = log.since(2, Time::from_us(11)).expect("kept");
        assert_eq!(later.keys().collect::<Vec<_>>(), [&0]);
        assert_eq!(later[&0].windows, [window(11, 12), window(20, 30)]);
        assert_eq!(log.since(4, Time::from_us(0)), Some(BTreeMap::new()));
        assert!(!log.is_behind(4) && log.is_behind(3));
        assert_eq!(log.since(5, Time::from_us(0)), None, "a revision that is yet to come");
    }

    #[test]
    fn a_change_of_any_is_one_of_each() {
        let mut log = ChangeLog::new(2, 3);
        log.begin();
        log.note_any(window(0, 10), Amount(4));
        log.begin();
        log.note(1, window(10, 12), Amount(1));
        let all = log.since(0, Time::from_us(0)).expect("both are kept");
        assert_eq!(all.keys().collect::<Vec<_>>(), [&0, &1, &2]);
        assert_eq!((all[&0].amount, all[&1].amount), (4, 5));
        assert_eq!(
            (&all[&2].windows[..], &all[&1].windows[..]),
            (&[window(0, 10)][..], &[window(0, 12)][..])
        );
        assert_eq!(log.since(1, Time::from_us(0)).expect("kept").keys().collect::<Vec<_>>(), [&1]);
    }

    #[test]
    fn what_fell_off_the_ring_is_not_made_up() {
        let mut log = ChangeLog::new(2, 2);
        for revision in 1..=3 {
            log.begin();
            // Two changes of one revision: the ring may cut between them.
            log.note(0, window(revision, revision + 1), Amount(1));
            log.note(1, window(revision, revision + 1), Amount(1));
        }
        assert_eq!(log.since(1, Time::from_us(0)), None);
        assert!(log.since(2, Time::from_us(0)).is_some());
        log.begin();
        log.note(0, window(9, 10), Amount(1));
        assert_eq!(log.since(2, Time::from_us(0)), None, "half of revision 3 is gone");
        assert!(log.since(3, Time::from_us(0)).is_some());
    }
}
