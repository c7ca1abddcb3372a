//! The nearest window in which a request fits: which starts have to be tried, and in which order to
//! query them. This is a core without a clock or connections; its caller queries the resource
//! managers and plans.
//!
//! What is free over `[t, t + D)` can only grow with `t` at an instant at which a booking ends. So
//! when no start up to `t` fits, the next start that may fit is the first such instant after `t`. A
//! resource manager only has to report that one instant for each frame it is queried about: each
//! answer leads to the next start, in a chain. To save rounds, each batch of queries also covers
//! known ends further on, and guesses between them; the answers to those are ends as well. The
//! chain itself is followed start by start, so the first start found that fits is the first that
//! exists.
//!
//! Left out: starts before the requested one, and what others book meanwhile. The result is as good
//! as the answers were when they arrived.

use std::collections::{BTreeMap, BTreeSet};

use coalloc_common::topology::FrameView;
use coalloc_common::{Span, Time, Window};

/// The search for the nearest window.
#[derive(Debug, Clone)]
pub struct NearestWindowSearch {
    length: Span,
    last: Time,
    /// The next start to try. No earlier start fits.
    next: Option<Time>,
    /// Instants later than `next` at which a booking ends, and which have not been queried yet.
    ends: BTreeSet<Time>,
    /// The answers for `next` and later starts.
    known: BTreeMap<Time, (FrameView, Option<Time>)>,
    tried: u64,
}

impl NearestWindowSearch {
    /// Looks for windows of this length that start in `[first, last]`.
    #[must_use]
    pub fn new(first: Time, last: Time, length: Span) -> Self {
        Self {
            length,
            last,
            next: (first <= last).then_some(first),
            ends: BTreeSet::new(),
            known: BTreeMap::new(),
            tried: 0,
        }
    }

    /// The frames to query next, at most `most` of them, the earliest first. Empty when the known
    /// answers suffice.
    #[must_use]
    pub fn questions(&self, most: usize) -> Vec<Window> {
        let Some(next) = self.next.filter(|next| !self.known.contains_key(next)) else {
            return Vec::new();
        };
        let mut starts = BTreeSet::from([next]);
        starts.extend(self.ends.iter().copied().take(most / 2));
        let left = most.saturating_sub(starts.len());
        starts.extend(self.guesses(next, left));
        let frames = starts.into_iter().filter(|start| !self.known.contains_key(start));
        frames.filter_map(|start| Window::starting(start, self.length)).take(most.max(1)).collect()
    }

    /// Starts after `from`, dense near it and sparse further on: equally many within each doubling
    /// of the distance.
    fn guesses(&self, from: Time, most: usize) -> Vec<Time> {
        let all = self.last.since(from).as_us();
        let mut distance = Span::from_secs(1).as_us();
        let doublings =
            (0..).take_while(|n| distance.saturating_mul(1 << n.min(&62)) < all).count();
        if doublings == 0 || most < doublings {
            return Vec::new();
        }
        let each = (most / doublings) as i64;
        let mut guesses = Vec::with_capacity(most);
        for _ in 0..doublings {
            for step in 0..each {
                let beyond = distance + distance / each * step;
                guesses.push(from.saturating_add(Span::from_us(beyond)));
            }
            distance *= 2;
        }
        guesses.retain(|guess| *guess <= self.last);
        guesses
    }

    /// Takes an answer: what is free in a frame, and when the next booking ends after its start.
    pub fn learn(&mut self, view: FrameView, next_change: Option<Time>) {
        let start = view.window.start();
        // An end that is not after the start of its frame would not lead anywhere.
        let change = next_change.filter(|change| *change > start && *change <= self.last);
        self.ends.extend(change.filter(|change| !self.known.contains_key(change)));
        self.ends.remove(&start);
        if self.next.is_some_and(|next| start >= next) {
            self.known.insert(start, (view, change));
        }
    }

    /// The frame to plan now: the earliest start that may still fit. `None` until it has been
    /// answered.
    #[must_use]
    pub fn candidate(&self) -> Option<&FrameView> {
        self.known.get(&self.next?).map(|(view, _)| view)
    }

    /// Called when nothing fits in the candidate: goes on to the next start.
    pub fn refute(&mut self) {
        let Some((_, change)) = self.next.and_then(|next| self.known.remove(&next)) else { return };
        self.tried += 1;
        self.next = change;
        match change {
            Some(change) => {
                self.known = self.known.split_off(&change);
                self.ends = self.ends.split_off(&change);
            }
            None => self.known.clear(),
        }
    }

    /// The start up to which the search has got: every earlier start was tried, or cannot fit
    /// because those that were tried do not. When all are done, it is the last start of the range.
    #[must_use]
    pub fn searched_until(&self) -> Time {
        self.next.unwrap_or(self.last)
    }

    /// Whether every start has been tried.
    #[must_use]
    pub const fn is_complete(&self) -> bool {
        self.next.is_none()
    }

    /// How many starts have been tried.
    #[must_use]
    pub const fn tried(&self) -> u64 {
        self.tried
    }
}
