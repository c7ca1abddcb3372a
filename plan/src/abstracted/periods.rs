//! Splits a hold from the parent into periods. Within a period the same amounts are wanted
//! throughout.
//!
//! When the parent changes a reservation that has begun, it keeps the old amounts up to some
//! instant and wants other amounts from then on. Where the amounts are unchanged, the child keeps
//! its bookings, route by route. The rest is planned, each period by itself. A reservation that
//! lies ahead is planned anew as a whole, provided the same amounts are wanted throughout.
//!
//! Pure.

use std::collections::{BTreeMap, BTreeSet};

use coalloc_common::{Amount, ResourceId, RmName, Segment, Time, Window};

/// How much of each resource is wanted.
pub type WantedAmounts = BTreeMap<ResourceId, Amount>;

/// A hold split into periods.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Periods {
    /// Windows in which nothing changes: the bookings stay as they are.
    pub kept: Vec<Window>,
    /// Windows that have to be planned, and what is wanted in each.
    pub planned: Vec<(Window, WantedAmounts)>,
}

/// What is wanted at one instant. Several segments of one resource add up.
fn at(segments: &[Segment], instant: Time) -> WantedAmounts {
    let mut wanted = WantedAmounts::new();
    let covering =
        segments.iter().filter(|s| s.window.start() <= instant && instant < s.window.end());
    for segment in covering.filter(|segment| segment.amount > Amount::ZERO) {
        let amount = wanted.entry(segment.resource.clone()).or_insert(Amount::ZERO);
        *amount = Amount(amount.0.saturating_add(segment.amount.0));
    }
    wanted
}

fn ends(segments: &[Segment]) -> impl Iterator<Item = Time> + '_ {
    segments.iter().flat_map(|segment| [segment.window.start(), segment.window.end()])
}

/// Splits the hold `new`. `old` is the hold that it replaces, empty if there is none.
#[must_use]
pub fn periods(new: &[Segment], old: &[Segment], now: Time) -> Periods {
    let mut cuts: BTreeSet<Time> = ends(new).collect();
    let ahead = cuts.first().is_some_and(|first| *first > now);
    let same = || ends(old).chain(ends(new)).all(|instant| at(old, instant) == at(new, instant));
    let as_one = ahead && cuts.len() == 2 && !same();
    if !as_one {
        cuts.extend(ends(old));
    }
    let starts = cuts.iter().copied();
    let windows = starts.zip(cuts.iter().copied().skip(1));
    let mut periods = Periods { kept: Vec::new(), planned: Vec::new() };
    for window in windows.filter_map(|(start, end)| Window::new(start, end)) {
        let wanted = at(new, window.start());
        if wanted.is_empty() {
            continue;
        }
        if !as_one && at(old, window.start()) == wanted {
            periods.kept.push(window);
        } else {
            periods.planned.push((window, wanted));
        }
    }
    periods
}

/// The part of the child's own bookings `old` that lies in these windows.
#[must_use]
pub fn kept(
    old: &BTreeMap<RmName, Vec<Segment>>,
    windows: &[Window],
) -> BTreeMap<RmName, Vec<Segment>> {
    let mut kept: BTreeMap<RmName, Vec<Segment>> = BTreeMap::new();
    for (rm, segments) in old {
        for segment in segments {
            let part = |window: &Window| {
                let start = window.start().max(segment.window.start());
                let window = Window::new(start, window.end().min(segment.window.end()))?;
                Some(Segment { window, ..segment.clone() })
            };
            kept.entry(rm.clone()).or_default().extend(windows.iter().filter_map(part));
        }
    }
    kept.retain(|_, segments| !segments.is_empty());
    kept
}

/// The least amount of a resource at any instant of a window.
#[must_use]
pub fn least(segments: &[Segment], resource: &ResourceId, window: Window) -> Amount {
    let inside = |instant: &Time| window.start() < *instant && *instant < window.end();
    let instants = std::iter::once(window.start()).chain(ends(segments).filter(inside));
    let level = |instant| at(segments, instant).get(resource).copied().unwrap_or(Amount::ZERO);
    instants.map(level).min().unwrap_or(Amount::ZERO)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at_s(s: i64) -> Time {
        Time::from_us(s * 1_000_000)
    }

    fn window(start: i64, end: i64) -> Window {
        Window::new(at_s(start), at_s(end)).unwrap()
    }

    fn segment(resource: &str, amount: u64, start: i64, end: i64) -> Segment {
        let resource = ResourceId::composed(resource);
        Segment { resource, amount: Amount(amount), window: window(start, end) }
    }

    fn wanted(of: &[(&str, u64)]) -> WantedAmounts {
        of.iter().map(|(name, amount)| (ResourceId::composed(*name), Amount(*amount))).collect()
    }

    #[test]
    fn a_hold_of_one_window_is_one_period() {
        let new = [segment("A", 4, 10, 20), segment("p", 7, 10, 20)];
        let one = vec![(window(10, 20), wanted(&[("A", 4), ("p", 7)]))];
        for now in [0, 15] {
            let parts = periods(&new, &[], at_s(now));
            assert_eq!(parts, Periods { kept: vec![], planned: one.clone() });
        }
    }

    #[test]
    fn what_lies_ahead_is_planned_as_one_unless_nothing_is_different() {
        let old = [segment("A", 4, 10, 20), segment("p", 7, 10, 20)];
        let longer = [segment("A", 4, 10, 30), segment("p", 7, 10, 30)];
        let parts = periods(&longer, &old, at_s(0));
        let one = vec![(window(10, 30), wanted(&[("A", 4), ("p", 7)]))];
        assert_eq!(parts, Periods { kept: vec![], planned: one });
        let parts = periods(&old, &old, at_s(0));
        assert_eq!(parts, Periods { kept: vec![window(10, 20)], planned: vec![] });
        let shorter = [segment("A", 4, 10, 15), segment("p", 7, 10, 15)];
        assert_eq!(periods(&shorter, &old, at_s(0)).planned.len(), 1);
        assert_eq!(periods(&[], &old, at_s(0)), Periods { kept: vec![], planned: vec![] });
    }

    #[test]
    fn of_what_has_begun_only_what_is_different_is_planned() {
        let old = [segment("A", 4, 10, 20), segment("p", 7, 10, 20)];
        // More CPUs from 15 s on. Then a longer hold, in which neighbouring periods with equal
        // amounts are joined.
        let more = [segment("A", 4, 10, 15), segment("A", 6, 15, 20), segment("p", 7, 10, 20)];
        let parts = periods(&more, &old, at_s(12));
        assert_eq!(parts.kept, [window(10, 15)]);
        assert_eq!(parts.planned, [(window(15, 20), wanted(&[("A", 6), ("p", 7)]))]);
        let longer = [segment("A", 4, 10, 30), segment("p", 7, 10, 30)];
        let parts = periods(&longer, &old, at_s(12));
        assert_eq!(parts.kept, [window(10, 20)]);
        assert_eq!(parts.planned, [(window(20, 30), wanted(&[("A", 4), ("p", 7)]))]);
        // A part that is over is not planned, and a gap makes no period.
        let gap = [segment("A", 4, 10, 12), segment("A", 4, 14, 20)];
        let parts = periods(&gap, &[segment("A", 4, 10, 20)], at_s(13));
        assert_eq!((parts.kept.len(), parts.planned.len()), (2, 0));
    }

    #[test]
    fn what_is_kept_is_what_was_booked_in_those_windows() {
        let rm = RmName::composed("nrm");
        let other = RmName::composed("other");
        let old = BTreeMap::from([
            (rm.clone(), vec![segment("x", 7, 10, 20), segment("y", 7, 20, 30)]),
            (other, vec![segment("z", 1, 40, 50)]),
        ]);
        let parts = kept(&old, &[window(5, 12), window(18, 25)]);
        let expected =
            vec![segment("x", 7, 10, 12), segment("x", 7, 18, 20), segment("y", 7, 20, 25)];
        assert_eq!(parts, BTreeMap::from([(rm, expected)]));
    }

    #[test]
    fn the_least_of_a_window_is_that_of_its_emptiest_instant() {
        let segments = [segment("A", 4, 10, 20), segment("A", 2, 15, 30), segment("B", 9, 0, 99)];
        let least = |start, end| least(&segments, &ResourceId::composed("A"), window(start, end)).0;
        assert_eq!((least(10, 15), least(15, 20), least(10, 20)), (4, 6, 4));
        assert_eq!((least(10, 30), least(5, 12), least(25, 31)), (2, 0, 0));
    }
}
