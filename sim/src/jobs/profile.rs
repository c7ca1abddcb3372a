//! How many servers are free from now on: a step function in one sorted list.
//!
//! The planner `conservative` looks at every step between now and the starts of its waiting jobs, and these
//! are few. The timetable of `coalloc-common` finds its way through years of steps; this list forgets what is
//! past. Tests compare the two.

/// Free servers from now on.
#[derive(Debug, Clone)]
pub(super) struct Profile {
    /// Each step begins at an instant and has so many free servers until the next one begins. The last one
    /// has no end.
    steps: Vec<(i64, i64)>,
}

impl Profile {
    /// All servers are free, from the earliest instant on.
    pub(super) fn new(servers: i64) -> Self {
        Self { steps: vec![(i64::MIN, servers)] }
    }

    /// Forgets all steps that have ended by `now`.
    pub(super) fn forget_before(&mut self, now: i64) {
        let past = self.index(now);
        self.steps.drain(..past);
    }

    /// The index of the step at an instant.
    fn index(&self, at: i64) -> usize {
        self.steps.partition_point(|(start, _)| *start <= at).saturating_sub(1)
    }

    /// Changes the number of free servers in a window. Does nothing in an empty one.
    pub(super) fn change(&mut self, start: i64, end: i64, by: i64) {
        if start >= end {
            return;
        }
        let (from, to) = (self.split(start), self.split(end));
        for step in &mut self.steps[from..to] {
            step.1 += by;
        }
        // The end first: removing it does not move the start.
        self.join(to);
        self.join(from);
    }

    /// Makes a step begin at this instant, and returns its index.
    fn split(&mut self, at: i64) -> usize {
        let index = self.index(at);
        let (start, free) = self.steps[index];
        if start == at {
            return index;
        }
        self.steps.insert(index + 1, (at, free));
        index + 1
    }

    /// Joins a step with the one before it if both have the same number.
    fn join(&mut self, index: usize) {
        if index > 0 && self.steps[index - 1].1 == self.steps[index].1 {
            self.steps.remove(index);
        }
    }

    /// The earliest start in `from..before` such that `servers` are free from the start on for `length`, or
    /// until `before`: after that, the caller has the servers anyway. Without a `before`, for all of
    /// `length`.
    pub(super) fn earliest(
        &self,
        from: i64,
        length: i64,
        servers: i64,
        before: Option<i64>,
    ) -> Option<i64> {
        let limit = before.unwrap_or(i64::MAX);
        if from >= limit {
            return None;
        }
        let mut start = None;
        for (at, (begins, free)) in self.steps.iter().enumerate().skip(self.index(from)) {
            if *begins >= limit {
                break;
            }
            if *free < servers {
                start = None;
                continue;
            }
            let start = *start.get_or_insert(from.max(*begins));
            let ends = self.steps.get(at + 1).map_or(i64::MAX, |(next, _)| *next);
            if ends.min(limit) >= limit.min(start.saturating_add(length)) {
                return Some(start);
            }
        }
        None
    }

    /// The largest number of free servers at any instant of a window.
    pub(super) fn most_free(&self, start: i64, end: i64) -> i64 {
        let steps = self.steps[self.index(start)..].iter();
        steps.take_while(|(begins, _)| *begins < end).map(|(_, free)| *free).max().unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chance::RandomStream;

    #[test]
    fn the_list_is_a_plain_array() {
        const SECONDS: i64 = 40;
        for seed in 0..300 {
            let mut random = RandomStream::new(seed, "profile");
            let mut draw = |n: i64| random.below(n.unsigned_abs()).cast_signed();
            let (mut list, mut plain) = (Profile::new(5), [5_i64; SECONDS as usize]);
            for _ in 0..30 {
                let (a, b) = (draw(SECONDS), draw(SECONDS));
                let (start, end, by) = (a.min(b), a.max(b), draw(5) - 2);
                list.change(start, end, by);
                plain[start as usize..end as usize].iter_mut().for_each(|free| *free += by);
                let (from, length, servers) = (draw(SECONDS), 1 + draw(9), draw(7));
                let before = Some(from + draw(12)).filter(|_| draw(2) == 0);
                let is_free = |s: i64| plain.get(s as usize).map_or(5, |free| *free) >= servers;
                let until = before.unwrap_or(SECONDS + 20);
                let fits =
                    |s: &i64| (*s..(s + length).min(before.unwrap_or(i64::MAX))).all(is_free);
                let expected = (from..until).find(fits);
                let found = list.earliest(from, length, servers, before);
                assert_eq!(found, expected, "{list:?} from {from} for {length}, {before:?}");
                let most = (start..end.max(start + 1)).map(|s| plain[s as usize]).max();
                assert_eq!(Some(list.most_free(start, end.max(start + 1))), most);
            }
        }
    }
}
