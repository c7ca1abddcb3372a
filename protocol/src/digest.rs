//! Sets of bookings that two nodes compare without telling each other all of them.
//!
//! A coordinator and an RM each keep, for the other, the set of what is booked: transactions, each with the
//! digest of its content there. A set is dealt into parts, by when a booking ends ([`limits::RECONCILE_ERA`])
//! and by its transaction ([`limits::RECONCILE_SHARDS`]). A part is told by its size and the exclusive or of its
//! members' digests, which an insertion or a removal changes in constant time, in whatever order they
//! come. So equal sets are found equal at the cost of their parts, and of unequal ones only the parts that
//! differ are listed ([`BookingSet::differing`]).
//!
//! Parts of the past are not compared: whoever asks says from which era on.
//!
//! Left out: who differs how, which is for whoever has decided ([`crate::coordinator`]); protection against
//! a peer that wants to be found equal, who could as well say nothing.

use std::collections::BTreeMap;
use std::ops::RangeFrom;

use coalloc_common::{Segment, Time, TransactionId, limits};
use sha2::{Digest as _, Sha256};

/// What stands for the content of one booking, or for a part of a set.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct Digest(pub u128);

/// Which part of a set, in the order in which parts are compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Part {
    /// When its bookings end, in spans of [`limits::RECONCILE_ERA`] since 1970.
    pub era: i64,
    /// Which of the parts of that era, below [`limits::RECONCILE_SHARDS`].
    pub shard: u8,
}

/// A part as it is told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Summary {
    /// Which.
    pub part: Part,
    /// Its bookings.
    pub count: u32,
    /// Of all of them, in any order.
    pub digest: Digest,
}

/// One booking as both sides see it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Member {
    /// Of its transaction and its segments.
    pub digest: Digest,
    /// When its last segment ends.
    pub ends: Time,
}

/// A part that was found to differ, as one side has it. Without members: this side has nothing there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Listed {
    /// Which.
    pub part: Part,
    /// Its bookings, by transaction.
    pub members: Vec<(TransactionId, Member)>,
}

/// What is booked between one coordinator and one RM.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct BookingSet(BTreeMap<Part, Members>);

#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Members {
    all: Digest,
    of: BTreeMap<TransactionId, Member>,
}

impl Part {
    /// The first part that is not all over by now.
    #[must_use]
    pub const fn first(now: Time) -> Self {
        Self { era: era(now), shard: 0 }
    }

    /// The one after it; the last that there can be, after that.
    #[must_use]
    pub const fn next(self) -> Self {
        match self.era.checked_add(1) {
            _ if self.shard + 1 < limits::RECONCILE_SHARDS => {
                Self { shard: self.shard + 1, ..self }
            }
            Some(era) => Self { era, shard: 0 },
            None => self,
        }
    }

    fn of(txn: &TransactionId, ends: Time) -> Self {
        // FNV-1a: ids of one coordinator differ in their last characters.
        let hash = |hash: u32, byte: &u8| (hash ^ u32::from(*byte)).wrapping_mul(0x0100_0193);
        let hash = txn.as_str().as_bytes().iter().fold(0x811c_9dc5, hash);
        let mixed = (hash ^ (hash >> 16)) % u32::from(limits::RECONCILE_SHARDS);
        Self { era: era(ends), shard: u8::try_from(mixed).unwrap_or_default() }
    }
}

const fn era(time: Time) -> i64 {
    time.as_us().div_euclid(limits::RECONCILE_ERA.as_us())
}

impl Digest {
    const fn toggle(&mut self, other: Self) {
        self.0 ^= other.0;
    }
}

impl Member {
    /// A booking of these segments; `None` when it is of nothing, which no side can miss.
    #[must_use]
    pub fn of(txn: &TransactionId, segments: &[Segment]) -> Option<Self> {
        let ends = segments.iter().map(|segment| segment.window.end()).max()?;
        let mut sorted: Vec<&Segment> = segments.iter().collect();
        sorted.sort_unstable();
        let mut hash = Sha256::new();
        feed(&mut hash, txn.as_str());
        for Segment { resource, amount, window } in sorted {
            feed(&mut hash, resource.as_str());
            hash.update(amount.0.to_be_bytes());
            hash.update(window.start().as_us().to_be_bytes());
            hash.update(window.end().as_us().to_be_bytes());
        }
        let bytes = hash.finalize();
        let digest = bytes.iter().take(16).fold(0, |all, byte| (all << 8) | u128::from(*byte));
        Some(Self { digest: Digest(digest), ends })
    }
}

/// A text and where it ends, so that no two lists of texts are fed as the same bytes.
fn feed(hash: &mut Sha256, text: &str) {
    hash.update((text.len() as u64).to_be_bytes());
    hash.update(text);
}

impl BookingSet {
    /// One more booking; of nothing, none. Where it stands now: [`BookingSet::remove`] wants it back.
    pub fn insert(&mut self, txn: &TransactionId, segments: &[Segment]) -> Option<Part> {
        let member = Member::of(txn, segments)?;
        let part = Part::of(txn, member.ends);
        let members = self.0.entry(part).or_default();
        if let Some(before) = members.of.insert(txn.clone(), member) {
            members.all.toggle(before.digest);
        }
        members.all.toggle(member.digest);
        Some(part)
    }

    /// A booking has ended that was inserted into this part.
    pub fn remove(&mut self, txn: &TransactionId, part: Part) {
        let Some(members) = self.0.get_mut(&part) else { return };
        if let Some(member) = members.of.remove(txn) {
            members.all.toggle(member.digest);
        }
        if members.of.is_empty() {
            self.0.remove(&part);
        }
    }

    /// The same of one whose segments are at hand.
    pub fn remove_content(&mut self, txn: &TransactionId, segments: &[Segment]) {
        if let Some(ends) = segments.iter().map(|segment| segment.window.end()).max() {
            self.remove(txn, Part::of(txn, ends));
        }
    }

    /// Bookings, those of the past too.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.values().map(|members| members.of.len()).sum()
    }

    /// Is nothing booked, and was nothing?
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Every part that has something, from one on, in order.
    #[must_use]
    pub fn summaries(&self, parts: RangeFrom<Part>) -> Vec<Summary> {
        let summary = |(part, members): (&Part, &Members)| Summary {
            part: *part,
            // A part of more would be of terabytes.
            count: u32::try_from(members.of.len()).unwrap_or(u32::MAX),
            digest: members.all,
        };
        self.0.range(parts).map(summary).collect()
    }

    /// The parts that are not as the other side says, from one on and in order: those that either has.
    #[must_use]
    pub fn differing(&self, theirs: &[Summary], parts: RangeFrom<Part>) -> Vec<Part> {
        let told = |summary: Summary| (summary.part, (summary.count, summary.digest));
        let ours: BTreeMap<_, _> = self.summaries(parts.clone()).into_iter().map(told).collect();
        let theirs = theirs.iter().filter(|summary| parts.contains(&summary.part));
        let theirs: BTreeMap<_, _> = theirs.copied().map(told).collect();
        let mut all: Vec<Part> = ours.keys().chain(theirs.keys()).copied().collect();
        all.sort_unstable();
        all.dedup();
        all.retain(|part| ours.get(part) != theirs.get(part));
        all
    }

    /// What one part has.
    #[must_use]
    pub fn listed(&self, part: Part) -> Listed {
        let members = self.0.get(&part).into_iter().flat_map(|members| &members.of);
        Listed { part, members: members.map(|(txn, member)| (txn.clone(), *member)).collect() }
    }

    /// Is every part what its members are?
    ///
    /// # Errors
    /// In words, the first that is not.
    pub fn check_invariants(&self) -> Result<(), String> {
        for (part, members) in &self.0 {
            let mut all = Digest::default();
            for (txn, member) in &members.of {
                all.toggle(member.digest);
                if Part::of(txn, member.ends) != *part {
                    return Err(format!("{txn} stands in {part:?} and belongs elsewhere"));
                }
            }
            if all != members.all || members.of.is_empty() {
                return Err(format!("{part:?} is not the sum of its {}", members.of.len()));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use coalloc_common::{Amount, ResourceId, Span, Window};
    use proptest::prelude::*;

    use super::*;

    const DAY: i64 = 86_400_000_000;

    fn txn(number: u32) -> TransactionId {
        TransactionId::composed(format!("grc-00000000-{number}/1"))
    }

    fn segment(resource: &str, amount: u64, day: i64) -> Segment {
        let start = Time::from_us(day * DAY);
        let window = Window::starting(start, Span::from_secs(3_600)).unwrap();
        Segment { resource: ResourceId::composed(resource), amount: Amount(amount), window }
    }

    fn of(bookings: &BTreeMap<u32, (u64, i64)>) -> BookingSet {
        let mut set = BookingSet::default();
        for (number, (amount, day)) in bookings {
            set.insert(&txn(*number), &[segment("A", *amount, *day)]);
        }
        set
    }

    #[test]
    fn content_is_told_apart_by_everything_but_its_order() {
        let (a, b) = (segment("A", 5, 1), segment("B", 5, 1));
        let digest = |number, segments: &[Segment]| Member::of(&txn(number), segments);
        let whole = digest(1, &[a.clone(), b.clone()]);
        assert_eq!(whole, digest(1, &[b.clone(), a.clone()]));
        let others = [
            digest(2, &[a.clone(), b.clone()]),
            digest(1, std::slice::from_ref(&a)),
            digest(1, &[a.clone(), a.clone(), b]),
            digest(1, &[a, segment("B", 6, 1)]),
        ];
        let all: BTreeSet<_> = others.iter().chain([&whole]).flatten().map(|m| m.digest).collect();
        assert_eq!(all.len(), 5);
        assert_eq!(digest(1, &[]), None);
    }

    #[test]
    fn what_is_over_is_not_compared() {
        let ours = of(&[(1, (5, 1)), (2, (5, 400))].into());
        let theirs = of(&[(2, (5, 400))].into());
        let compare = |day: i64| {
            let from = Part::first(Time::from_us(day * DAY));
            ours.differing(&theirs.summaries(from..), from..)
        };
        assert_eq!(compare(0).len(), 1);
        assert_eq!(compare(30), []);
    }

    #[test]
    fn parts_follow_one_another() {
        let last = Part { era: 3, shard: limits::RECONCILE_SHARDS - 1 };
        assert_eq!(last.next(), Part { era: 4, shard: 0 });
        assert_eq!(Part { era: 3, shard: 0 }.next(), Part { era: 3, shard: 1 });
        let end = Part { era: i64::MAX, ..last };
        assert_eq!(end.next(), end);
    }

    /// What happens to a set: a booking comes, with an amount and a day, or goes.
    fn changes() -> impl Strategy<Value = Vec<(u32, Option<(u64, i64)>)>> {
        let booking = prop::option::weighted(0.7, (1_u64..4, 0_i64..60));
        prop::collection::vec((0_u32..40, booking), 0..120)
    }

    fn run(changes: &[(u32, Option<(u64, i64)>)]) -> (BTreeMap<u32, (u64, i64)>, BookingSet) {
        let (mut naive, mut set) = (BTreeMap::new(), BookingSet::default());
        for (number, booking) in changes {
            if let Some((amount, day)) = naive.remove(number) {
                set.remove_content(&txn(*number), &[segment("A", amount, day)]);
            }
            if let Some((amount, day)) = booking {
                set.insert(&txn(*number), &[segment("A", *amount, *day)]);
                naive.insert(*number, (*amount, *day));
            }
            set.check_invariants().unwrap();
        }
        (naive, set)
    }

    proptest! {
        /// However a set came to be, it is that of what is left.
        #[test]
        fn a_set_is_what_is_left_of_its_history(changes in changes()) {
            let (naive, set) = run(&changes);
            prop_assert_eq!(&set, &of(&naive));
            prop_assert_eq!(set.len(), naive.len());
        }

        /// Parts that differ have between them every booking that the naive sets differ by, and equal sets none.
        #[test]
        fn differing_parts_have_all_that_differs(ours in changes(), theirs in changes(), day in 0_i64..60) {
            let ((a, ours), (b, theirs)) = (run(&ours), run(&theirs));
            let from = Part::first(Time::from_us(day * DAY));
            let parts = ours.differing(&theirs.summaries(from..), from..);
            let listed = |set: &BookingSet| -> BTreeSet<(TransactionId, u128)> {
                let members = parts.iter().flat_map(|part| set.listed(*part).members);
                members.map(|(txn, member)| (txn, member.digest.0)).collect()
            };
            let (in_ours, in_theirs) = (listed(&ours), listed(&theirs));
            let differ: BTreeSet<_> = in_ours.symmetric_difference(&in_theirs).cloned().collect();
            let live = |(number, (amount, day)): (&u32, &(u64, i64))| {
                let member = Member::of(&txn(*number), &[segment("A", *amount, *day)]).unwrap();
                (era(member.ends) >= from.era).then(|| (txn(*number), member.digest.0))
            };
            let (a, b): (BTreeSet<_>, BTreeSet<_>) =
                (a.iter().filter_map(live).collect(), b.iter().filter_map(live).collect());
            prop_assert_eq!(differ, a.symmetric_difference(&b).cloned().collect::<BTreeSet<_>>());
            prop_assert_eq!(parts.is_empty(), a == b);
        }
    }
}
