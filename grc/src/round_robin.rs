//! A queue that serves owners in turn: after one of an owner's entries comes the oldest of the next owner. So whoever has
//! many entries makes only itself wait.
//!
//! Left out: what is served, and how many at a time ([`crate::planning`], [`crate::availability`]).

use std::collections::{BTreeMap, VecDeque};
use std::ops::Bound;

/// Entries that wait, by owner.
#[derive(Debug)]
pub(crate) struct RoundRobin<K, T> {
    /// Oldest first. No queue is empty.
    queues: BTreeMap<K, VecDeque<T>>,
    /// Who was served last.
    last: Option<K>,
}

impl<K, T> Default for RoundRobin<K, T> {
    fn default() -> Self {
        Self { queues: BTreeMap::new(), last: None }
    }
}

impl<K: Ord + Clone, T> RoundRobin<K, T> {
    /// Adds an entry at the end of its owner's queue.
    pub(crate) fn push(&mut self, owner: K, entry: T) {
        self.queues.entry(owner).or_default().push_back(entry);
    }

    /// Takes out the next entry in turn, among the owners for whom `may` says so: the oldest of the next such owner
    /// after the last one.
    pub(crate) fn next_where(&mut self, may: impl Fn(&K) -> bool) -> Option<(K, T)> {
        let after = self.last.as_ref().map_or(Bound::Unbounded, Bound::Excluded);
        let later = self.queues.range::<K, _>((after, Bound::Unbounded));
        let owner = later.chain(&self.queues).map(|(owner, _)| owner).find(|owner| may(owner))?;
        let owner = owner.clone();
        let entry = self.take(&owner, VecDeque::pop_front)?;
        self.last = Some(owner.clone());
        Some((owner, entry))
    }

    /// Takes out the youngest entry of an owner.
    pub(crate) fn take_youngest(&mut self, owner: &K) -> Option<T> {
        self.take(owner, VecDeque::pop_back)
    }

    /// Takes out the entries of an owner for which `wanted` says so, oldest first.
    pub(crate) fn take_where(&mut self, owner: &K, mut wanted: impl FnMut(&T) -> bool) -> Vec<T> {
        let Some(queue) = self.queues.remove(owner) else { return Vec::new() };
        let (taken, left): (Vec<T>, VecDeque<T>) = split(queue, &mut wanted);
        if !left.is_empty() {
            self.queues.insert(owner.clone(), left);
        }
        taken
    }

    /// Keeps the entries for which `keep` says so.
    pub(crate) fn retain(&mut self, mut keep: impl FnMut(&T) -> bool) {
        self.queues.retain(|_, queue| {
            queue.retain(&mut keep);
            !queue.is_empty()
        });
    }

    /// Number of entries.
    pub(crate) fn len(&self) -> usize {
        self.queues.values().map(VecDeque::len).sum()
    }

    fn take(&mut self, owner: &K, end: fn(&mut VecDeque<T>) -> Option<T>) -> Option<T> {
        let queue = self.queues.get_mut(owner)?;
        let entry = end(queue);
        if queue.is_empty() {
            self.queues.remove(owner);
        }
        entry
    }
}

fn split<T>(queue: VecDeque<T>, wanted: &mut impl FnMut(&T) -> bool) -> (Vec<T>, VecDeque<T>) {
    let (mut taken, mut left) = (Vec::new(), VecDeque::new());
    for entry in queue {
        if wanted(&entry) { taken.push(entry) } else { left.push_back(entry) }
    }
    (taken, left)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn owners_are_served_in_turn_and_each_in_its_order() {
        let mut queue: RoundRobin<&str, i32> = RoundRobin::default();
        for (owner, entry) in [("a", 1), ("a", 2), ("a", 3), ("b", 4), ("c", 5), ("b", 6)] {
            queue.push(owner, entry);
        }
        let next = || queue.next_where(|_| true);
        let served: Vec<_> = std::iter::from_fn(next).map(|(_, entry)| entry).collect();
        assert_eq!(served, [1, 4, 5, 2, 6, 3]);
        assert_eq!(queue.len(), 0);
        queue.push("a", 7);
        queue.push("a", 8);
        assert_eq!(queue.take_youngest(&"a"), Some(8));
        assert!(queue.take_where(&"a", |entry| *entry == 9).is_empty());
        assert_eq!(queue.take_where(&"a", |entry| *entry == 7), [7]);
        assert_eq!(queue.next_where(|_| true), None);
    }

    #[test]
    fn who_may_not_is_passed_over_and_keeps_its_entries() {
        let mut queue: RoundRobin<&str, i32> = RoundRobin::default();
        for (owner, entry) in [("a", 1), ("a", 2), ("b", 3), ("c", 4)] {
            queue.push(owner, entry);
        }
        assert_eq!(queue.next_where(|owner| *owner != "a"), Some(("b", 3)));
        assert_eq!(queue.next_where(|owner| *owner == "a"), Some(("a", 1)));
        assert_eq!(queue.next_where(|owner| *owner == "b"), None);
        assert_eq!(queue.next_where(|_| true), Some(("c", 4)));
        assert_eq!(queue.next_where(|_| true), Some(("a", 2)));
    }

    proptest! {
        /// Whoever adds an entry is served after at most one entry of each other owner and its own earlier ones.
        #[test]
        fn nobody_waits_longer_than_a_round(
            owners in prop::collection::vec(0_u8..5, 1..60), served in 0_usize..40,
        ) {
            let mut queue = RoundRobin::default();
            owners.iter().enumerate().for_each(|(at, owner)| queue.push(*owner, at));
            (0..served).for_each(|_| {
                queue.next_where(|_| true);
            });
            queue.push(9, usize::MAX);
            let round = std::iter::from_fn(|| queue.next_where(|_| true)).take(6).map(|(_, entry)| entry);
            prop_assert!(round.collect::<Vec<_>>().contains(&usize::MAX));
        }
    }
}
