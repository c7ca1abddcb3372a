//! What a transaction takes in the timetables, as step functions of time, one for each resource.
//!
//! Everything that touches a timetable goes through here: what a hold takes, what a booking has, and
//! what the two versions of a booking differ by. A new version holds only what it takes beyond the old
//! one, instant by instant ([`Footprint::beyond`]); what it takes less is given back when it is booked.
//!
//! Left out: amounts that are free, which the timetable knows. Source: docs/adr/0005-modify.md.

use std::collections::BTreeMap;

use coalloc_common::{Amount, ResourceId, Segment, Time, Window};

/// One resource: levels from an instant on, in order; before the first and from the last on, nothing.
/// Neighbours differ, so that equal functions are equal lists.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Steps(Vec<(Time, Amount)>);

impl Steps {
    /// The level at an instant.
    #[must_use]
    pub fn at(&self, instant: Time) -> Amount {
        let after = self.0.partition_point(|(start, _)| *start <= instant);
        after.checked_sub(1).map_or(Amount::ZERO, |index| self.0[index].1)
    }

    /// The instants inside a window at which the level changes, its start not among them.
    pub fn changes_in(&self, window: Window) -> impl Iterator<Item = Time> + '_ {
        let first = self.0.partition_point(|(start, _)| *start <= window.start());
        let starts = self.0[first..].iter().map(|(start, _)| *start);
        starts.take_while(move |start| *start < window.end())
    }

    /// Adds an amount over a window.
    pub fn add(&mut self, window: Window, amount: Amount) {
        let one = Self(vec![(window.start(), amount), (window.end(), Amount::ZERO)]);
        // A sum beyond 64 bits is far beyond any capacity, so that it is refused all the same.
        *self = self.with(&one, |a, b| Amount(a.0.saturating_add(b.0)));
    }

    /// Is it nothing, everywhere?
    #[must_use]
    pub const fn is_nothing(&self) -> bool {
        self.0.is_empty()
    }

    /// Both, instant by instant.
    fn with(&self, other: &Self, of: impl Fn(Amount, Amount) -> Amount) -> Self {
        let mut instants: Vec<Time> = self.0.iter().chain(&other.0).map(|(at, _)| *at).collect();
        instants.sort_unstable();
        instants.dedup();
        let mut steps: Vec<(Time, Amount)> = Vec::with_capacity(instants.len());
        for at in instants {
            let level = of(self.at(at), other.at(at));
            if steps.last().map_or(Amount::ZERO, |(_, before)| *before) != level {
                steps.push((at, level));
            }
        }
        Self(steps)
    }

    /// The windows in which it is more than nothing, with their levels, in order.
    pub fn pieces(&self) -> impl Iterator<Item = (Window, Amount)> + '_ {
        let pairs = self.0.iter().zip(self.0.iter().skip(1));
        pairs.filter(|((_, level), _)| *level > Amount::ZERO).filter_map(
            |((start, level), (end, _))| Window::new(*start, *end).map(|window| (window, *level)),
        )
    }
}

/// What a transaction takes: a step function for each of its resources, none of them nothing.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Footprint(BTreeMap<ResourceId, Steps>);

impl Footprint {
    /// The sum of segments: they add up where they overlap one another, and only there.
    pub fn of<'a>(segments: impl IntoIterator<Item = &'a Segment>) -> Self {
        let mut footprint = Self::default();
        for segment in segments {
            footprint.add(segment);
        }
        footprint
    }

    /// Adds a segment.
    pub fn add(&mut self, segment: &Segment) {
        if segment.amount > Amount::ZERO {
            let steps = self.0.entry(segment.resource.clone()).or_default();
            steps.add(segment.window, segment.amount);
        }
    }

    /// Both, of resources that only one of them has.
    #[must_use]
    pub fn and(mut self, other: Self) -> Self {
        self.0.extend(other.0);
        self
    }

    /// What it takes of one resource; `None` when that is nothing.
    #[must_use]
    pub fn steps(&self, resource: &ResourceId) -> Option<&Steps> {
        self.0.get(resource)
    }

    /// What this takes more than `other`, instant by instant: the positive part of the difference.
    #[must_use]
    pub fn beyond(&self, other: &Self) -> Self {
        let nothing = Steps::default();
        let beyond = self.0.iter().map(|(resource, steps)| {
            let less = other.0.get(resource).unwrap_or(&nothing);
            (resource.clone(), steps.with(less, Amount::saturating_sub))
        });
        Self(beyond.filter(|(_, steps)| !steps.is_nothing()).collect())
    }

    /// The same as segments that overlap nowhere, by resource, then time.
    #[must_use]
    pub fn segments(&self) -> Vec<Segment> {
        let of = |(resource, steps): (&ResourceId, &Steps)| -> Vec<Segment> {
            let segment = |(window, amount)| Segment { resource: resource.clone(), amount, window };
            steps.pieces().map(segment).collect()
        };
        self.0.iter().flat_map(of).collect()
    }

    /// When it begins; `None` when it is nothing.
    #[must_use]
    pub fn start(&self) -> Option<Time> {
        let first = |steps: &Steps| steps.pieces().next().map(|(window, _)| window.start());
        self.0.values().filter_map(first).min()
    }
}

/// Cuts a window at every instant at which one of these changes: pieces in which all are constant.
pub fn pieces(window: Window, cuts: impl IntoIterator<Item = Time>) -> Vec<Window> {
    let inside = |at: &Time| window.start() < *at && *at < window.end();
    let mut cuts: Vec<Time> = cuts.into_iter().filter(inside).collect();
    cuts.sort_unstable();
    cuts.dedup();
    let starts = std::iter::once(window.start()).chain(cuts.iter().copied());
    let ends = cuts.iter().copied().chain([window.end()]);
    starts.zip(ends).filter_map(|(start, end)| Window::new(start, end)).collect()
}
