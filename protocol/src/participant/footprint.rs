//! What a transaction takes in the timetables: one step function of time for each resource.
//!
//! Everything that changes a timetable is computed here: what a hold takes, what a booking has, and how two
//! versions of a booking differ. A new version holds only what it takes beyond the old one, instant by instant
//! ([`Footprint::beyond`]). What it no longer needs is given back when it is booked.
//!
//! Left out: the free amounts, which the timetable knows. Source: docs/adr/0005-modify.md.

use std::collections::BTreeMap;

use coalloc_common::{Amount, ResourceId, Segment, Time, Window};

/// The step function of one resource: each level lasts from its instant to the next. Before the first step the
/// level is zero, and the last step returns to zero. Neighbouring levels differ, so equal functions are equal lists.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Steps(Vec<(Time, Amount)>);

impl Steps {
    /// The level at an instant.
    #[must_use]
    pub fn at(&self, instant: Time) -> Amount {
        let after = self.0.partition_point(|(start, _)| *start <= instant);
        after.checked_sub(1).map_or(Amount::ZERO, |index| self.0[index].1)
    }

    /// The instants within a window at which the level changes, without the window's start.
    pub fn changes_in(&self, window: Window) -> impl Iterator<Item = Time> + '_ {
        let first = self.0.partition_point(|(start, _)| *start <= window.start());
        let starts = self.0[first..].iter().map(|(start, _)| *start);
        starts.take_while(move |start| *start < window.end())
    }

    /// The sum of amounts over windows. It costs as much as sorting the windows' ends, because a hold may have
    /// thousands of segments on one resource.
    pub fn sum(parts: impl IntoIterator<Item = (Window, Amount)>) -> Self {
        let ends = |(window, amount): (Window, Amount)| {
            let amount = i128::from(amount.0);
            [(window.start(), amount), (window.end(), -amount)]
        };
        let mut changes: Vec<(Time, i128)> = parts.into_iter().flat_map(ends).collect();
        changes.sort_unstable_by_key(|(at, _)| *at);
        let (mut steps, mut level): (Vec<(Time, Amount)>, i128) = (Vec::new(), 0);
        for at_once in changes.chunk_by(|(one, _), (other, _)| one == other) {
            level += at_once.iter().map(|(_, by)| by).sum::<i128>();
            // A sum beyond 64 bits is far beyond any capacity, so it is refused in any case.
            let level = Amount(u64::try_from(level).unwrap_or(u64::MAX));
            if steps.last().map_or(Amount::ZERO, |(_, before)| *before) != level {
                steps.push((at_once[0].0, level));
            }
        }
        Self(steps)
    }

    /// Is the level zero everywhere?
    #[must_use]
    pub const fn is_nothing(&self) -> bool {
        self.0.is_empty()
    }

    /// Is it more than `other` at any instant?
    #[must_use]
    pub fn exceeds(&self, other: &Self) -> bool {
        !self.with(other, Amount::saturating_sub).is_nothing()
    }

    /// Combines two functions instant by instant, in one pass over the steps of both.
    fn with(&self, other: &Self, of: impl Fn(Amount, Amount) -> Amount) -> Self {
        let (mut mine, mut others) = (self.0.iter().peekable(), other.0.iter().peekable());
        let (mut here, mut there) = (Amount::ZERO, Amount::ZERO);
        let mut steps: Vec<(Time, Amount)> = Vec::with_capacity(self.0.len() + other.0.len());
        let next = |one: Option<&&(Time, Amount)>| one.map(|(at, _)| *at);
        while let Some(at) = [next(mine.peek()), next(others.peek())].into_iter().flatten().min() {
            here = mine.next_if(|(start, _)| *start == at).map_or(here, |(_, level)| *level);
            there = others.next_if(|(start, _)| *start == at).map_or(there, |(_, level)| *level);
            let level = of(here, there);
            if steps.last().map_or(Amount::ZERO, |(_, before)| *before) != level {
                steps.push((at, level));
            }
        }
        Self(steps)
    }

    /// The windows in which the level is above zero, with their levels, in order.
    pub fn pieces(&self) -> impl Iterator<Item = (Window, Amount)> + '_ {
        let pairs = self.0.iter().zip(self.0.iter().skip(1));
        pairs.filter(|((_, level), _)| *level > Amount::ZERO).filter_map(
            |((start, level), (end, _))| Window::new(*start, *end).map(|window| (window, *level)),
        )
    }
}

/// What a transaction takes: a step function for each of its resources, none of which is zero everywhere.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Footprint(BTreeMap<ResourceId, Steps>);

impl Footprint {
    /// The sum of segments. Segments of the same resource add up where they overlap.
    pub fn of<'a>(segments: impl IntoIterator<Item = &'a Segment>) -> Self {
        Self::sum(segments.into_iter().map(|s| (&s.resource, s.window, s.amount)))
    }

    /// The sum of amounts, each of a resource over a window.
    pub fn sum<'a>(parts: impl IntoIterator<Item = (&'a ResourceId, Window, Amount)>) -> Self {
        let mut each: BTreeMap<&ResourceId, Vec<(Window, Amount)>> = BTreeMap::new();
        for (resource, window, amount) in parts {
            if amount > Amount::ZERO {
                each.entry(resource).or_default().push((window, amount));
            }
        }
        let steps = |(resource, parts): (&ResourceId, _)| (resource.clone(), Steps::sum(parts));
        Self(each.into_iter().map(steps).collect())
    }

    /// Two footprints together. They must not have a resource in common.
    #[must_use]
    pub fn and(mut self, other: Self) -> Self {
        self.0.extend(other.0);
        self
    }

    /// What the footprint takes of one resource; `None` when that is nothing.
    #[must_use]
    pub fn steps(&self, resource: &ResourceId) -> Option<&Steps> {
        self.0.get(resource)
    }

    /// The resources of which the footprint takes anything.
    pub fn resources(&self) -> impl Iterator<Item = &ResourceId> {
        self.0.keys()
    }

    /// What this footprint takes more than `other`, instant by instant: the positive part of the difference.
    #[must_use]
    pub fn beyond(&self, other: &Self) -> Self {
        let nothing = Steps::default();
        let beyond = self.0.iter().map(|(resource, steps)| {
            let less = other.0.get(resource).unwrap_or(&nothing);
            (resource.clone(), steps.with(less, Amount::saturating_sub))
        });
        Self(beyond.filter(|(_, steps)| !steps.is_nothing()).collect())
    }

    /// The footprint as segments that do not overlap, ordered by resource, then by time.
    #[must_use]
    pub fn segments(&self) -> Vec<Segment> {
        let of = |(resource, steps): (&ResourceId, &Steps)| -> Vec<Segment> {
            let segment = |(window, amount)| Segment { resource: resource.clone(), amount, window };
            steps.pieces().map(segment).collect()
        };
        self.0.iter().flat_map(of).collect()
    }

    /// When the footprint begins; `None` when it is empty.
    #[must_use]
    pub fn start(&self) -> Option<Time> {
        let first = |steps: &Steps| steps.pieces().next().map(|(window, _)| window.start());
        self.0.values().filter_map(first).min()
    }
}

/// Cuts a window at these instants, so that functions which change only there are constant on each piece.
pub fn pieces(window: Window, cuts: impl IntoIterator<Item = Time>) -> Vec<Window> {
    let inside = |at: &Time| window.start() < *at && *at < window.end();
    let mut cuts: Vec<Time> = cuts.into_iter().filter(inside).collect();
    cuts.sort_unstable();
    cuts.dedup();
    let starts = std::iter::once(window.start()).chain(cuts.iter().copied());
    let ends = cuts.iter().copied().chain([window.end()]);
    starts.zip(ends).filter_map(|(start, end)| Window::new(start, end)).collect()
}
