//! Facts: windows of which a scheduler knows something newer than the last update.
//!
//! At most [`limits::FACTS_KEPT`] facts are kept, which is as many as can be answered while an update is on its
//! way; beyond that the oldest fact is dropped. An update asks, for each of its parts, which facts of that
//! resource are newer, so the facts are kept by resource.
//!
//! Left out: the free amounts in these windows, which are in the profile.

use std::collections::BTreeMap;

use coalloc_common::{Window, limits};

/// A window of which something is known that no update has reported yet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Fact {
    pub(super) resource: u32,
    pub(super) window: Window,
    pub(super) revision: u64,
}

/// The facts of one resource manager.
#[derive(Debug, Clone, Default)]
pub(super) struct Facts {
    /// By resource, then in the order of arrival.
    known: BTreeMap<(u32, u64), Fact>,
    /// The resource of each fact, in the order of arrival.
    order: BTreeMap<u64, u32>,
    /// How many facts have ever arrived.
    came: u64,
}

impl Facts {
    /// Notes one more fact, and drops the oldest one if there are too many.
    pub(super) fn add(&mut self, fact: Fact) {
        if self.known.len() >= limits::FACTS_KEPT
            && let Some((came, resource)) = self.order.pop_first()
        {
            // An update that is on its way may undo the dropped fact; the update after it repairs that.
            self.known.remove(&(resource, came));
        }
        self.order.insert(self.came, fact.resource);
        self.known.insert((fact.resource, self.came), fact);
        self.came += 1;
    }

    /// The facts' windows of one resource that overlap `window` and are newer than `revision`.
    pub(super) fn younger(&self, resource: u32, revision: u64, window: Window) -> Vec<Window> {
        let own = self.known.range((resource, 0)..=(resource, u64::MAX)).map(|(_, fact)| fact);
        own.filter(|fact| fact.revision > revision && fact.window.overlaps(window))
            .map(|fact| fact.window)
            .collect()
    }

    /// Keeps only the facts for which `is_kept` is true.
    pub(super) fn retain(&mut self, is_kept: impl Fn(&Fact) -> bool) {
        let Self { known, order, .. } = self;
        known.retain(|(_, came), fact| {
            let kept = is_kept(fact);
            if !kept {
                order.remove(came);
            }
            kept
        });
    }

    /// All facts, in the order of arrival.
    pub(super) fn iter(&self) -> impl Iterator<Item = &Fact> {
        self.order.iter().filter_map(|(came, resource)| self.known.get(&(*resource, *came)))
    }
}

#[cfg(test)]
mod tests {
    use coalloc_common::Time;
    use proptest::prelude::*;

    use super::*;

    fn window(start: i64, length: i64) -> Window {
        let at = |us| Time::from_us(us);
        Window::new(at(start), at(start + length)).expect("a window")
    }

    #[derive(Debug, Clone)]
    enum Step {
        Add(Fact),
        Younger(u32, u64, Window),
        Told(u64),
        Over(i64),
    }

    fn step() -> impl Strategy<Value = Step> {
        let window = || (0..40_i64, 1..9_i64).prop_map(|(start, length)| window(start, length));
        let fact = (0..4_u32, window(), 0..20_u64).prop_map(|(resource, window, revision)| Fact {
            resource,
            window,
            revision,
        });
        prop_oneof![
            6 => fact.prop_map(Step::Add),
            3 => (0..4_u32, 0..20_u64, window()).prop_map(|(r, v, w)| Step::Younger(r, v, w)),
            1 => (0..20_u64).prop_map(Step::Told),
            1 => (0..45_i64).prop_map(Step::Over),
        ]
    }

    proptest! {
        /// The facts behave like a plain list that is searched from its front.
        #[test]
        fn they_are_a_list(steps in prop::collection::vec(step(), 1..120)) {
            let (mut facts, mut list) = (Facts::default(), Vec::<Fact>::new());
            for step in steps {
                match step {
                    Step::Add(fact) => {
                        facts.add(fact);
                        list.push(fact);
                    }
                    Step::Younger(resource, revision, window) => {
                        let own = list.iter().filter(|fact| {
                            fact.resource == resource
                                && fact.revision > revision
                                && fact.window.overlaps(window)
                        });
                        let own: Vec<Window> = own.map(|fact| fact.window).collect();
                        prop_assert_eq!(facts.younger(resource, revision, window), own);
                    }
                    Step::Told(revision) => {
                        facts.retain(|fact| fact.revision > revision);
                        list.retain(|fact| fact.revision > revision);
                    }
                    Step::Over(at) => {
                        facts.retain(|fact| fact.window.end() > Time::from_us(at));
                        list.retain(|fact| fact.window.end() > Time::from_us(at));
                    }
                }
                prop_assert!(facts.iter().eq(&list));
            }
        }
    }

    #[test]
    fn the_oldest_of_all_resources_goes_when_there_are_too_many() {
        let mut facts = Facts::default();
        let fact = |number: usize| {
            let number = number as i64;
            Fact { resource: (number % 3) as u32, window: window(number, 1), revision: 1 }
        };
        for number in 0..limits::FACTS_KEPT + 2 {
            facts.add(fact(number));
        }
        assert_eq!(facts.iter().count(), limits::FACTS_KEPT);
        assert_eq!(facts.iter().next(), Some(&fact(2)));
        assert!(facts.younger(0, 0, window(0, 2)).is_empty());
        assert_eq!(facts.younger(2, 0, window(0, 3)), [window(2, 1)]);
    }
}
