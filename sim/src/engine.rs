//! The queue of a discrete-event simulation. It hands out events in the order of their instants.
//!
//! Time is integer microseconds. Events of the same instant come in the order in which they were scheduled,
//! so that a run is a function of its seed on every machine. The world decides what an event is and does; the
//! queue only hands events out. `benches/engine.rs` measures it.
//!
//! Left out: random numbers ([`crate::chance`]), cancelling (an event that has become pointless finds that
//! out by itself), clocks.

use std::cmp::Ordering;
use std::collections::BinaryHeap;

use coalloc_common::{Span, Time};

/// Events that are still to come, and the current simulated time.
#[derive(Debug, Clone)]
pub struct Queue<E> {
    heap: BinaryHeap<Entry<E>>,
    now: Time,
    scheduled: u64,
}

#[derive(Debug, Clone)]
struct Entry<E> {
    at: Time,
    serial: u64,
    event: E,
}

impl<E> Queue<E> {
    /// An empty queue whose clock is set to `start`.
    #[must_use]
    pub const fn new(start: Time) -> Self {
        Self { heap: BinaryHeap::new(), now: start, scheduled: 0 }
    }

    /// The instant of the last event that was handed out.
    #[must_use]
    pub const fn now(&self) -> Time {
        self.now
    }

    /// Schedules an event. An event for a past instant happens now.
    pub fn at(&mut self, at: Time, event: E) {
        let serial = self.scheduled;
        self.scheduled += 1;
        self.heap.push(Entry { at: at.max(self.now), serial, event });
    }

    /// Schedules an event this long after now; a negative span means now.
    pub fn after(&mut self, span: Span, event: E) {
        self.at(self.now.saturating_add(span), event);
    }

    /// Removes and returns the next event and its instant, which becomes the current time. `None` when no
    /// event is left.
    pub fn take(&mut self) -> Option<(Time, E)> {
        let Entry { at, event, .. } = self.heap.pop()?;
        self.now = at;
        Some((at, event))
    }

    /// The instant of the next event.
    #[must_use]
    pub fn next_at(&self) -> Option<Time> {
        self.heap.peek().map(|entry| entry.at)
    }

    /// The events still to come, in no order.
    pub fn iter(&self) -> impl Iterator<Item = &E> {
        self.heap.iter().map(|entry| &entry.event)
    }

    /// Keeps only the events for which `keep` is true.
    pub fn retain(&mut self, keep: impl Fn(&E) -> bool) {
        self.heap.retain(|entry| keep(&entry.event));
    }

    /// Moves every event for which `which` is true and that is later than `latest` to `latest`, in the order
    /// of their instants, behind what was scheduled for then.
    pub fn hurry(&mut self, latest: Time, which: impl Fn(&E) -> bool) {
        let all = std::mem::take(&mut self.heap).into_sorted_vec();
        // The order is that of the heap: the earliest entry is the last one.
        for Entry { at, serial, event } in all.into_iter().rev() {
            if at > latest && which(&event) {
                self.at(latest, event);
            } else {
                self.heap.push(Entry { at, serial, event });
            }
        }
    }

    /// Number of events still to come.
    #[must_use]
    pub fn len(&self) -> usize {
        self.heap.len()
    }

    /// Is no event left?
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.heap.is_empty()
    }

    /// Number of events that were ever scheduled.
    #[must_use]
    pub const fn scheduled(&self) -> u64 {
        self.scheduled
    }
}

impl<E> Entry<E> {
    const fn key(&self) -> (Time, u64) {
        (self.at, self.serial)
    }
}

impl<E> PartialEq for Entry<E> {
    fn eq(&self, other: &Self) -> bool {
        self.key() == other.key()
    }
}

impl<E> Eq for Entry<E> {}

impl<E> PartialOrd for Entry<E> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl<E> Ord for Entry<E> {
    /// The heap hands out its largest entry, so the earliest event has to be the largest.
    fn cmp(&self, other: &Self) -> Ordering {
        other.key().cmp(&self.key())
    }
}

#[cfg(test)]
mod tests {
    use crate::chance::RandomStream;

    use super::*;

    fn t(us: i64) -> Time {
        Time::from_us(us)
    }

    #[test]
    fn events_of_one_instant_come_in_the_order_they_were_scheduled() {
        let mut queue = Queue::new(t(100));
        for (at, name) in [(300, 'c'), (200, 'a'), (200, 'b'), (50, 'n')] {
            queue.at(t(at), name);
        }
        queue.after(Span::from_us(0), 'm');
        let mut order = Vec::new();
        while let Some((at, name)) = queue.take() {
            order.push((at.as_us(), name));
            if name == 'a' {
                queue.after(Span::ZERO, 'z');
            }
        }
        // What was scheduled for the past, 'n', happens at once, before what was scheduled after it.
        let expected = [(100, 'n'), (100, 'm'), (200, 'a'), (200, 'b'), (200, 'z'), (300, 'c')];
        assert_eq!(order, expected);
        assert!(queue.is_empty() && queue.scheduled() == 6);
    }

    #[test]
    fn events_are_dropped_and_hurried() {
        let mut queue = Queue::new(t(0));
        for (at, name) in [(9, 'x'), (8, 'y'), (5, 'a'), (3, 'x'), (7, 'b'), (4, 'c')] {
            queue.at(t(at), name);
        }
        queue.retain(|name| *name != 'c');
        queue.hurry(t(5), |name| matches!(name, 'x' | 'y'));
        assert_eq!((queue.next_at(), queue.iter().count()), (Some(t(3)), 5));
        let taken = std::iter::from_fn(|| queue.take());
        let order: Vec<(i64, char)> = taken.map(|(at, name)| (at.as_us(), name)).collect();
        assert_eq!(order, [(3, 'x'), (5, 'a'), (5, 'y'), (5, 'x'), (7, 'b')]);
    }

    #[test]
    fn it_is_a_stable_sort_by_time() {
        let mut chance = RandomStream::new(7, "queue");
        let mut queue = Queue::new(t(0));
        let mut naive: Vec<(i64, u64)> = Vec::new();
        for number in 0..5_000 {
            let at = chance.below(200) as i64;
            queue.at(t(at), number);
            naive.push((at, number));
        }
        naive.sort_by_key(|(at, _)| *at);
        let mut got = Vec::new();
        while let Some((at, number)) = queue.take() {
            got.push((at.as_us(), number));
        }
        assert_eq!(got, naive);
    }
}
