//! The free amount of one resource as a step function of time, as a resource manager reports it and
//! schedulers believe it.
//!
//! A [`crate::timetable::Timetable`] records what a resource manager has promised. A profile is a copy of
//! what is free beside those promises, and ages from the moment it was copied. It covers the time from
//! [`Profile::from`] on and nothing before that. Newer reports replace parts of it with absolute values and
//! never add differences: if a part comes twice or late, the next one corrects it.
//!
//! Left out: why an amount is free, and for whom. Source: Christodoulopoulos 2008, section II-B
//! ("utilization profiles").

use crate::{Amount, Time, Window};

/// An instant, and the amount that is free from it until the next step.
pub type FreeStep = (Time, Amount);

/// The free amount of one resource over time, from one instant on for ever.
///
/// Two profiles are equal when they begin at the same instant and have the same free amount at every instant
/// after it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Profile {
    /// The instants increase strictly, neighbouring amounts differ, and there is at least one step.
    steps: Vec<FreeStep>,
}

impl Profile {
    /// A profile with the same free amount from `from` on, for ever.
    #[must_use]
    pub fn constant(from: Time, free: Amount) -> Self {
        Self { steps: vec![(from, free)] }
    }

    /// The instant at which the profile begins.
    #[must_use]
    pub fn from(&self) -> Time {
        self.steps[0].0
    }

    /// The steps. Each lasts until the instant of the next step, the last one for ever. Neighbouring amounts
    /// differ.
    #[must_use]
    pub fn steps(&self) -> &[FreeStep] {
        &self.steps
    }

    /// The free amount at an instant; `None` before the profile begins.
    #[must_use]
    pub fn free_at(&self, at: Time) -> Option<Amount> {
        let next = self.steps.partition_point(|(start, _)| *start <= at);
        next.checked_sub(1).map(|index| self.steps[index].1)
    }

    /// The amount that is free over a whole window; zero when the window begins before the profile does.
    #[must_use]
    pub fn free_min(&self, window: Window) -> Amount {
        if window.start() < self.from() {
            return Amount::ZERO;
        }
        self.over(window).into_iter().map(|(_, free)| free).min().unwrap_or(Amount::ZERO)
    }

    /// The steps over a window. The first step begins at the start of the window or of the profile,
    /// whichever is later; the last one lasts to the end of the window. Empty when the window ends before
    /// the profile begins.
    #[must_use]
    pub fn over(&self, window: Window) -> Vec<FreeStep> {
        let start = window.start().max(self.from());
        if start >= window.end() {
            return Vec::new();
        }
        // There is a step at `start`, because the profile has begun by then.
        let first = self.steps.partition_point(|(at, _)| *at <= start) - 1;
        let last = self.steps.partition_point(|(at, _)| *at < window.end());
        let mut steps = self.steps[first..last].to_vec();
        steps[0].0 = start;
        steps
    }

    /// Replaces the free amounts of a window. `steps` have the form that [`Profile::over`] returns: the
    /// first begins with the window, and the instants of the others increase within it. A part of the window
    /// before the profile's begin is ignored.
    ///
    /// The cost is that of moving the steps after the begin of the window.
    pub fn replace(&mut self, window: Window, steps: &[FreeStep]) {
        let start = window.start().max(self.from());
        let inside = steps.partition_point(|(at, _)| *at <= start);
        if start >= window.end() || inside == 0 {
            return;
        }
        let head = self.steps.partition_point(|(at, _)| *at < start);
        let tail = self.steps.partition_point(|(at, _)| *at <= window.end());
        // The amount that applied at the window's end applies again from there on.
        let after = self.steps[tail - 1].1;
        let first = (start, steps[inside - 1].1);
        let within = steps[inside..].iter().copied().filter(|(at, _)| *at < window.end());
        let mut previous = head.checked_sub(1).map(|index| self.steps[index].1);
        let mut put: Vec<FreeStep> = Vec::with_capacity(steps.len() + 2);
        for (at, free) in std::iter::once(first).chain(within).chain([(window.end(), after)]) {
            if previous != Some(free) {
                put.push((at, free));
                previous = Some(free);
            }
        }
        // The step after these has a different amount than `after`, because neighbouring amounts differ.
        self.steps.splice(head..tail, put);
    }

    /// Drops the steps before an instant. The profile then begins at that instant, unless it begins later
    /// anyway.
    pub fn forget_before(&mut self, at: Time) {
        let next = self.steps.partition_point(|(start, _)| *start <= at);
        if let Some(current) = next.checked_sub(1) {
            self.steps.drain(..current);
            self.steps[0].0 = at;
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn t(us: i64) -> Time {
        Time::from_us(us)
    }

    fn window(start: i64, end: i64) -> Window {
        Window::new(t(start), t(end)).expect("a window")
    }

    #[test]
    fn a_part_replaces_what_was_said_of_its_window_and_nothing_else() {
        let mut profile = Profile::constant(t(0), Amount(10));
        profile.replace(window(5, 9), &[(t(5), Amount(3)), (t(7), Amount(0))]);
        let steps = [(0, 10), (5, 3), (7, 0), (9, 10)].map(|(at, free)| (t(at), Amount(free)));
        assert_eq!(profile.steps(), steps);
        assert_eq!(profile.free_min(window(0, 5)), Amount(10));
        assert_eq!(profile.free_min(window(4, 6)), Amount(3));
        assert_eq!(profile.free_min(window(-1, 3)), Amount::ZERO, "nothing is known of before");
        assert_eq!(
            profile.over(window(6, 20)),
            [(t(6), Amount(3)), (t(7), Amount(0)), (t(9), Amount(10))]
        );
        profile.replace(window(5, 9), &[(t(5), Amount(10))]);
        assert_eq!(profile, Profile::constant(t(0), Amount(10)));
    }

    /// Free amounts at the instants 0 to 31, known from `from` on.
    #[derive(Debug, Clone)]
    struct Naive {
        from: usize,
        free: [u64; 32],
    }

    #[derive(Debug, Clone)]
    enum Op {
        Replace(usize, usize, Vec<u64>),
        Forget(usize),
    }

    fn ops() -> impl Strategy<Value = Vec<Op>> {
        let replace = (0_usize..31, 1_usize..8, prop::collection::vec(0_u64..4, 8))
            .prop_map(|(start, length, free)| Op::Replace(start, (start + length).min(31), free));
        prop::collection::vec(
            prop_oneof![8 => replace, 1 => (0_usize..12).prop_map(Op::Forget)],
            1..24,
        )
    }

    proptest! {
        #[test]
        fn it_is_an_array_of_free_amounts(ops in ops(), start in 0_usize..31, length in 1_usize..31) {
            let mut profile = Profile::constant(t(0), Amount(2));
            let mut naive = Naive { from: 0, free: [2; 32] };
            for op in ops {
                match op {
                    Op::Replace(start, end, free) => {
                        let steps: Vec<FreeStep> = (start..end)
                            .map(|at| (t(at as i64), Amount(free[at - start])))
                            .collect();
                        profile.replace(window(start as i64, end as i64), &steps);
                        let known = start.max(naive.from).min(end);
                        naive.free[known..end].copy_from_slice(&free[known - start..end - start]);
                    }
                    Op::Forget(at) => {
                        profile.forget_before(t(at as i64));
                        naive.from = naive.from.max(at);
                    }
                }
                prop_assert_eq!(profile.from(), t(naive.from as i64));
                for at in naive.from..32 {
                    prop_assert_eq!(profile.free_at(t(at as i64)), Some(Amount(naive.free[at])));
                }
                let differ = |pair: &[FreeStep]| pair[0].0 < pair[1].0 && pair[0].1 != pair[1].1;
                prop_assert!(profile.steps().windows(2).all(differ));
            }
            let end = (start + length).min(32);
            let least = naive.free[start..end].iter().min().copied().unwrap_or(0);
            let least = if start < naive.from { 0 } else { least };
            prop_assert_eq!(profile.free_min(window(start as i64, end as i64)), Amount(least));
        }
    }
}
