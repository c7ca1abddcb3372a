//! An index of routed segments of live transactions, which finds those that overlap given windows.
//!
//! An NRM that reroutes entries must not look at every transaction that it has ever heard of: transactions that
//! have ended stay known for ever, and so do bookings whose time is over. So segments are indexed by a class of
//! length, and by start. A segment of class `c` is shorter than `2^(c + 1)` us. If it overlaps a window, it
//! begins less than that before the window, so a search reads only a stretch of each class.
//!
//! Left out: what a segment takes, which its entry says. Source: docs/adr/0010-inner-networks.md.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use coalloc_common::{Segment, Span, Time, TransactionId, Window};

/// A segment: its start, its transaction, and its index in the order.
type Start = (Time, TransactionId, usize);

/// The ends of the routed segments of all live transactions, by class of length. No class is empty.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Overlaps(BTreeMap<u32, BTreeMap<Start, Time>>);

/// The overlapping segments, by transaction and index in its order, and how many segments were looked at.
#[derive(Debug, Default)]
pub(super) struct OverlapResult<'a> {
    pub(super) segments: BTreeSet<(&'a TransactionId, usize)>,
    pub(super) looked: usize,
}

impl Overlaps {
    /// Adds the segments of a transaction. Segments that are in the index already stay as they are.
    pub(super) fn insert(&mut self, txn: &TransactionId, segments: &[Segment]) {
        for (place, Segment { window, .. }) in segments.iter().enumerate() {
            let start = (window.start(), txn.clone(), place);
            self.0.entry(class(*window)).or_default().insert(start, window.end());
        }
    }

    /// Removes the segments of a transaction.
    pub(super) fn remove(&mut self, txn: &TransactionId, segments: &[Segment]) {
        for (place, Segment { window, .. }) in segments.iter().enumerate() {
            let class = class(*window);
            let Some(starts) = self.0.get_mut(&class) else { continue };
            starts.remove(&(window.start(), txn.clone(), place));
            if starts.is_empty() {
                self.0.remove(&class);
            }
        }
    }

    /// Every segment that overlaps at least one of these windows.
    pub(super) fn find(&self, windows: impl IntoIterator<Item = Window>) -> OverlapResult<'_> {
        let wanted = united(windows.into_iter().map(|window| window.start()..window.end()));
        let mut found = OverlapResult::default();
        for (class, starts) in &self.0 {
            // No segment of the class is longer than this: 2^(class + 1) - 1 us.
            let longest = Span::from_us(i64::MAX >> 62_u32.saturating_sub(*class));
            let earlier = |window: &Range<Time>| window.start.saturating_sub(longest)..window.end;
            for near in united(wanted.iter().map(earlier)) {
                let first = (near.start, TransactionId::composed("0"), 0);
                let near = starts.range(first..).take_while(|((at, ..), _)| *at < near.end);
                for ((start, txn, place), end) in near {
                    found.looked += 1;
                    let next = wanted.partition_point(|window| window.end <= *start);
                    if wanted.get(next).is_some_and(|window| window.start < *end) {
                        found.segments.insert((txn, *place));
                    }
                }
            }
        }
        found
    }
}

/// The class of a window: its length is at least `2^class` us and below `2^(class + 1)` us.
const fn class(window: Window) -> u32 {
    // A window is never empty, so its length has a logarithm.
    window.length().as_us().unsigned_abs().ilog2()
}

/// Sorts stretches of time, and joins those that overlap or meet.
fn united(stretches: impl Iterator<Item = Range<Time>>) -> Vec<Range<Time>> {
    let mut stretches: Vec<Range<Time>> = stretches.collect();
    stretches.sort_unstable_by_key(|stretch| (stretch.start, stretch.end));
    stretches.dedup_by(|next, last| {
        let meets = next.start <= last.end;
        if meets {
            last.end = last.end.max(next.end);
        }
        meets
    });
    stretches
}

#[cfg(test)]
mod tests {
    use coalloc_common::{Amount, ResourceId};
    use proptest::prelude::*;

    use super::*;

    fn segment(start: i64, length: i64) -> Segment {
        let window = Window::starting(Time::from_us(start), Span::from_us(length)).unwrap();
        Segment { resource: ResourceId::composed("A"), amount: Amount(1), window }
    }

    fn txn(number: usize) -> TransactionId {
        TransactionId::composed(format!("t{number}"))
    }

    /// Starts, and lengths from one microsecond to about a day.
    fn parts(most: usize) -> impl Strategy<Value = Vec<(i64, i64)>> {
        let part = (0..5_000_i64, 0..37_u32, 1..3_i64)
            .prop_map(|(start, scale, length)| (start * 1_000, (length << scale).min(1 << 37)));
        prop::collection::vec(part, 1..most)
    }

    proptest! {
        #[test]
        fn what_is_found_is_what_a_look_at_everything_finds(
            all in prop::collection::vec(parts(5), 1..20),
            gone in prop::collection::vec(any::<prop::sample::Index>(), 0..5),
            wanted in parts(6),
        ) {
            let of = |parts: &[(i64, i64)]| -> Vec<Segment> {
                parts.iter().map(|(start, length)| segment(*start, *length)).collect()
            };
            let mut overlaps = Overlaps::default();
            let mut live: BTreeMap<usize, Vec<Segment>> =
                all.iter().map(|parts| of(parts)).enumerate().collect();
            for (number, segments) in &live {
                overlaps.insert(&txn(*number), segments);
            }
            for index in gone {
                if let Some(segments) = live.remove(&index.index(all.len())) {
                    overlaps.remove(&txn(index.index(all.len())), &segments);
                }
            }
            let wanted: Vec<Window> = of(&wanted).iter().map(|segment| segment.window).collect();
            let mut expected = BTreeSet::new();
            for (number, segments) in &live {
                for (place, segment) in segments.iter().enumerate() {
                    if wanted.iter().any(|window| window.overlaps(segment.window)) {
                        expected.insert((txn(*number), place));
                    }
                }
            }
            let found = overlaps.find(wanted);
            let told: BTreeSet<(TransactionId, usize)> =
                found.segments.iter().map(|(txn, place)| ((*txn).clone(), *place)).collect();
            prop_assert_eq!(told, expected);
            for (number, segments) in live {
                overlaps.remove(&txn(number), &segments);
            }
            prop_assert_eq!(overlaps, Overlaps::default(), "nothing is left of what has ended");
        }
    }

    #[test]
    fn what_is_elsewhere_in_time_is_not_looked_at() {
        let mut looked = Vec::new();
        for history in [10, 1_000, 100_000] {
            let mut overlaps = Overlaps::default();
            for number in 0..history {
                let at = i64::try_from(number).unwrap() * 10_000_000;
                overlaps.insert(&txn(number), &[segment(at, 3_600_000)]);
            }
            let found = overlaps.find([segment(50_000_000, 10_000_000).window]);
            assert_eq!(found.segments.into_iter().collect::<Vec<_>>(), [(&txn(5), 0)]);
            looked.push(found.looked);
        }
        assert_eq!(looked, [looked[0]; 3], "the cost does not grow with the history");
        assert!(looked[0] <= 2);
    }
}
