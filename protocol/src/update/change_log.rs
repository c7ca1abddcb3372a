//! Which windows changed at which revision, so that a subscriber which is behind can be sent just these changes.

use std::collections::{BTreeMap, VecDeque};

use coalloc_common::{Amount, Time, Window, limits};

/// One change of what is free.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Change {
    /// The revision that the change led to.
    pub revision: u64,
    /// The resource, as its number in the order of the inventory. `None` means any of them: where inner links
    /// carry all paths, a change of one link may change every path.
    pub resource: Option<u32>,
    /// The window in which something changed.
    pub window: Window,
    /// By how much it changed at most.
    pub amount: Amount,
}

/// What changed of one resource after some revision.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ResourceChange {
    /// The windows that changed, in order; no two overlap or meet.
    pub windows: Vec<Window>,
    /// The sum of the amounts of all changes.
    pub amount: u128,
}

impl ResourceChange {
    /// Sorts the windows, and joins those that overlap or meet.
    fn unite(&mut self) {
        self.windows.sort_by_key(|window| (window.start(), window.end()));
        self.windows = united(&self.windows);
    }
}

/// The most recent changes, at most a bounded number of them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChangeLog {
    kept: usize,
    resources: u32,
    changes: VecDeque<Change>,
    /// All changes after this revision are still in the log.
    complete_after: u64,
    revision: u64,
}

impl ChangeLog {
    /// An empty log for this many resources that keeps the last `kept` changes.
    #[must_use]
    pub const fn new(kept: usize, resources: u32) -> Self {
        Self { kept, resources, changes: VecDeque::new(), complete_after: 0, revision: 0 }
    }

    /// The revision of the state: the number of state changes so far.
    #[must_use]
    pub const fn revision(&self) -> u64 {
        self.revision
    }

    /// Forgets all changes, because the state comes from a snapshot at this revision: who knows an older one needs
    /// everything.
    pub fn restart(&mut self, revision: u64) {
        self.changes.clear();
        (self.complete_after, self.revision) = (revision, revision);
    }

    /// Does this log have the last changes of `whole`, and lack only changes of which it does not claim to be complete? So it
    /// is after a start from a snapshot.
    #[must_use]
    pub fn is_end_of(&self, whole: &Self) -> bool {
        let Some(lacking) = whole.changes.len().checked_sub(self.changes.len()) else {
            return false;
        };
        let mut lacks = whole.changes.range(..lacking);
        self.revision == whole.revision
            && self.complete_after >= whole.complete_after
            && self.changes.iter().eq(whole.changes.range(lacking..))
            && lacks.all(|change| change.revision <= self.complete_after)
    }

    /// Begins the next revision. Call it once for every record, and note what the record changed afterwards.
    pub const fn begin(&mut self) {
        self.revision += 1;
    }

    /// Notes that the free amount of a resource changed within a window by at most `amount`, at the current revision.
    pub fn note(&mut self, resource: u32, window: Window, amount: Amount) {
        self.push(Some(resource), window, amount);
    }

    /// Notes a change that may have touched any of the resources; it counts as one change.
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

    /// What changed after a revision, by resource, without what ended before `now`. `None` when some of these changes
    /// are no longer kept, when the revision is still to come, or when the answer would be longer than a snapshot.
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
                // A snapshot would be shorter.
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

    /// Has something changed since `revision`? Also true of a revision that is still to come, and when the log
    /// no longer reaches back to `revision`.
    #[must_use]
    pub fn is_behind(&self, revision: u64) -> bool {
        let last = self.changes.back().map_or(self.complete_after, |change| change.revision);
        revision < last.max(self.complete_after) || revision > self.revision
    }
}

/// Joins windows that overlap or meet. The windows must come in the order of their starts.
fn united(windows: &[Window]) -> Vec<Window> {
    let mut united: Vec<Window> = Vec::with_capacity(windows.len());
    for window in windows {
        match united.last_mut() {
            Some(last) if window.start() <= last.end() => {
                let end = last.end().max(window.end());
                // The extended window is never empty, so `new` succeeds.
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
            // Two changes share one revision: the ring may cut between them.
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
