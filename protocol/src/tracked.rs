//! A map that notes which of its values have changed, so that a snapshot need not write the others.
//!
//! Every way to change a value notes its key, so no change can be forgotten. There is one exception, for facts that a
//! restart forgets anyway: [`TrackedMap::get_mut_unnoted`]. Left out: what is done with the changed values, see
//! [`crate::snapshot`].

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Deref;

use coalloc_common::planted::{self, Bug};

/// A [`BTreeMap`] that notes the keys whose values were added, changed or removed. It is read like a `BTreeMap`.
#[derive(Debug, Clone)]
pub(crate) struct TrackedMap<K, V> {
    map: BTreeMap<K, V>,
    changed: BTreeSet<K>,
}

impl<K, V> Default for TrackedMap<K, V> {
    fn default() -> Self {
        Self { map: BTreeMap::new(), changed: BTreeSet::new() }
    }
}

impl<K, V> Deref for TrackedMap<K, V> {
    type Target = BTreeMap<K, V>;

    fn deref(&self) -> &BTreeMap<K, V> {
        &self.map
    }
}

impl<'a, K, V> IntoIterator for &'a TrackedMap<K, V> {
    type Item = (&'a K, &'a V);
    type IntoIter = std::collections::btree_map::Iter<'a, K, V>;

    fn into_iter(self) -> Self::IntoIter {
        self.map.iter()
    }
}

impl<K: Ord + Clone, V> TrackedMap<K, V> {
    /// Adds a value or replaces it. Returns the value before.
    pub(crate) fn insert(&mut self, key: K, value: V) -> Option<V> {
        self.changed.insert(key.clone());
        self.map.insert(key, value)
    }

    /// A value that is about to change.
    pub(crate) fn get_mut(&mut self, key: &K) -> Option<&mut V> {
        let value = self.map.get_mut(key)?;
        if !planted::is(Bug::SnapshotMissesChange) && !self.changed.contains(key) {
            self.changed.insert(key.clone());
        }
        Some(value)
    }

    /// A value that is about to change, and is made if there is none.
    pub(crate) fn get_or_default(&mut self, key: K) -> &mut V
    where
        V: Default,
    {
        self.changed.insert(key.clone());
        self.map.entry(key).or_default()
    }

    /// A value of which only facts change that no record stands for, and that a restart forgets.
    pub(crate) fn get_mut_unnoted(&mut self, key: &K) -> Option<&mut V> {
        self.map.get_mut(key)
    }

    /// Removes a value.
    pub(crate) fn remove(&mut self, key: &K) -> Option<V> {
        let value = self.map.remove(key)?;
        self.changed.insert(key.clone());
        Some(value)
    }

    /// Adds a value that a snapshot has, which is no change.
    pub(crate) fn restore(&mut self, key: K, value: V) -> Option<V> {
        self.map.insert(key, value)
    }

    /// How many keys are noted.
    pub(crate) fn changed(&self) -> usize {
        self.changed.len()
    }

    /// The keys that were noted since the last call, each with its value; `None` if it was removed.
    pub(crate) fn take_changed(&mut self) -> impl Iterator<Item = (K, Option<&V>)> {
        let changed = std::mem::take(&mut self.changed);
        changed.into_iter().map(|key| {
            let value = self.map.get(&key);
            (key, value)
        })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[derive(Debug, Clone)]
    enum Act {
        Insert(u8, u8),
        Change(u8, u8),
        Remove(u8),
        Take,
    }

    fn act() -> impl Strategy<Value = Act> {
        let key = || 0_u8..12;
        prop_oneof![
            4 => (key(), any::<u8>()).prop_map(|(key, value)| Act::Insert(key, value)),
            4 => (key(), any::<u8>()).prop_map(|(key, value)| Act::Change(key, value)),
            2 => key().prop_map(Act::Remove),
            1 => Just(Act::Take),
        ]
    }

    proptest! {
        /// The changes that were taken, applied to a copy one after the other, make the copy equal; and only what may
        /// differ is taken.
        #[test]
        fn what_was_taken_makes_a_copy_equal(acts in proptest::collection::vec(act(), 0..80)) {
            let mut map = TrackedMap::default();
            let (mut naive, mut copy, mut touched) = (BTreeMap::new(), BTreeMap::new(), BTreeSet::new());
            for act in acts.into_iter().chain([Act::Take]) {
                match act {
                    Act::Insert(key, value) => {
                        touched.insert(key);
                        prop_assert_eq!(map.insert(key, value), naive.insert(key, value));
                    }
                    Act::Change(key, value) => {
                        if let Some(of) = naive.get_mut(&key) {
                            touched.insert(key);
                            *of = value;
                        }
                        if let Some(of) = map.get_mut(&key) {
                            *of = value;
                        }
                    }
                    Act::Remove(key) => {
                        touched.extend(naive.contains_key(&key).then_some(key));
                        prop_assert_eq!(map.remove(&key), naive.remove(&key));
                    }
                    Act::Take => {
                        prop_assert_eq!(map.changed(), touched.len());
                        for (key, value) in map.take_changed() {
                            prop_assert!(touched.remove(&key));
                            match value {
                                Some(value) => copy.insert(key, *value),
                                None => copy.remove(&key),
                            };
                        }
                        prop_assert!(touched.is_empty());
                        prop_assert_eq!(&copy, &naive);
                    }
                }
                prop_assert_eq!(&*map, &naive);
            }
        }
    }
}
