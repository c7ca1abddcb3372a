//! The nearest window in which a request fits: which starts have to be tried, and in which order to
//! ask for them. A core without a clock or a wire: whoever drives it asks the resource managers and
//! plans.
//!
//! What is free over `[t, t + D)` can only grow with `t` at an instant at which something booked ends.
//! So when no start up to `t` fits, the next one that may is the first such instant after `t`, and a
//! resource manager that tells nothing but that instant for each frame it is asked about gives the
//! whole chain of them, one link a question. To save rounds, each batch of questions also asks at
//! known ends further on, and at guesses between: what they answer are ends as well. The chain itself
//! is followed link by link, so that the first start that fits is the first there is.
//!
//! Left out: starts before the asked one, and holding still what others do meanwhile: the answer is
//! as good as the answers were when they came.

use std::collections::{BTreeMap, BTreeSet};

use coalloc_common::topology::FrameView;
use coalloc_common::{Span, Time, Window};

/// The search for the nearest window.
#[derive(Debug, Clone)]
pub struct NearestWindowSearch {
    length: Span,
    last: Time,
    /// The next start to try; every earlier one does not fit.
    next: Option<Time>,
    /// Instants at which something ends, later than `next`, not asked about yet.
    ends: BTreeSet<Time>,
    /// What was answered for `next` and later.
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

    /// The frames to ask about next, at most so many, earliest first; none when what is known will do.
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

    /// Starts after `from`, dense near it and thin further on: within each doubling of the distance
    /// equally many.
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

    /// Takes an answer: what is free in a frame, and when after its start something ends.
    pub fn learn(&mut self, view: FrameView, next_change: Option<Time>) {
        let start = view.window.start();
        // An end that is not after its frame's start would lead nowhere.
        let change = next_change.filter(|change| *change > start && *change <= self.last);
        self.ends.extend(change.filter(|change| !self.known.contains_key(change)));
        self.ends.remove(&start);
        if self.next.is_some_and(|next| start >= next) {
            self.known.insert(start, (view, change));
        }
    }

    /// The frame to plan now: the earliest that is not known to be hopeless.
    #[must_use]
    pub fn candidate(&self) -> Option<&FrameView> {
        self.known.get(&self.next?).map(|(view, _)| view)
    }

    /// Nothing fits in the candidate: goes on to the next start.
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

    /// Every start before this one was tried, or cannot fit when those tried do not; when all are
    /// done, the last that there is.
    #[must_use]
    pub fn searched_until(&self) -> Time {
        self.next.unwrap_or(self.last)
    }

    /// Has every start been tried?
    #[must_use]
    pub const fn is_complete(&self) -> bool {
        self.next.is_none()
    }

    /// Starts tried.
    #[must_use]
    pub const fn tried(&self) -> u64 {
        self.tried
    }
}
