//! Sets of bookings that two nodes compare without listing all of them to each other.
//!
//! A coordinator and an RM each keep the set of the bookings between the two: the transactions, each with a
//! digest of its content. A set is divided into parts, by when a booking ends ([`limits::RECONCILE_ERA`]) and
//! by its transaction ([`limits::RECONCILE_SHARDS`]). A part is summarized by its size and the exclusive or of
//! its members' digests. An insertion or a removal updates this summary in constant time, and the order of the
//! changes does not matter. So comparing two equal sets costs as much as they have parts, and of two unequal
//! sets only the parts that differ are listed ([`BookingSet::differing`]).
//!
//! Parts of the past are not compared: the side that asks names the first era to compare.
//!
//! Left out: judging a difference, which is for the side that has decided ([`crate::coordinator`]); and
//! protection against a peer that wants to appear equal, because such a peer could as well say nothing.

use std::collections::BTreeMap;
use std::ops::RangeFrom;

use coalloc_common::{Segment, Time, TransactionId, limits};
use sha2::{Digest as _, Sha256};

/// The digest of one booking's content, or the exclusive or of the digests in one part of a set.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct Digest(pub u128);

/// One part of a set. Parts are ordered, and compared in this order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Part {
    /// The era in which its bookings end, counted from 1970 in spans of [`limits::RECONCILE_ERA`].
    pub era: i64,
    /// The number of this part within its era, below [`limits::RECONCILE_SHARDS`].
    pub shard: u8,
}

/// The summary of a part, as one side sends it to the other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Summary {
    /// The part that is summarized.
    pub part: Part,
    /// How many bookings the part has.
    pub count: u32,
    /// The exclusive or of the digests of all its bookings.
    pub digest: Digest,
}

/// One booking, in the form that both sides can compute.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Member {
    /// The digest of its transaction and its segments.
    pub digest: Digest,
    /// When its last segment ends.
    pub ends: Time,
}

/// The content of a part that was found to differ, as one side has it. No members means that this side has
/// nothing there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Listed {
    /// The part that is listed.
    pub part: Part,
    /// Its bookings, in the order of their transactions.
    pub members: Vec<(TransactionId, Member)>,
}

/// The bookings between one coordinator and one RM.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct BookingSet(BTreeMap<Part, Members>);

#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Members {
    all: Digest,
    of: BTreeMap<TransactionId, Member>,
}

impl Part {
    /// The first part that may have bookings that are not over at `now`.
    #[must_use]
    pub const fn first(now: Time) -> Self {
        Self { era: era(now), shard: 0 }
    }

    /// The part after this one. The very last part is followed by itself.
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
        // FNV-1a, because the ids of one coordinator differ only in their last characters.
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
    /// The member for a booking of these segments. `None` without segments: such a booking is part of no set,
    /// and neither side can miss it.
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

/// Hashes the length before the text, so that two different lists of texts never feed the same bytes.
fn feed(hash: &mut Sha256, text: &str) {
    hash.update((text.len() as u64).to_be_bytes());
    hash.update(text);
}

impl BookingSet {
    /// Inserts a booking and returns its part, which [`BookingSet::remove`] needs. A booking without segments
    /// is not inserted; `None` then.
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

    /// Removes a booking that has ended from the part into which it was inserted.
    pub fn remove(&mut self, txn: &TransactionId, part: Part) {
        let Some(members) = self.0.get_mut(&part) else { return };
        if let Some(member) = members.of.remove(txn) {
            members.all.toggle(member.digest);
        }
        if members.of.is_empty() {
            self.0.remove(&part);
        }
    }

    /// Removes a booking whose segments are at hand; they say which part it is in.
    pub fn remove_content(&mut self, txn: &TransactionId, segments: &[Segment]) {
        if let Some(ends) = segments.iter().map(|segment| segment.window.end()).max() {
            self.remove(txn, Part::of(txn, ends));
        }
    }

    /// The number of bookings, including those of the past.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.values().map(|members| members.of.len()).sum()
    }

    /// Does the set have no bookings at all, not even past ones?
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The summaries of all parts that are not empty, from the given part on, in order.
    #[must_use]
    pub fn summaries(&self, parts: RangeFrom<Part>) -> Vec<Summary> {
        let summary = |(part, members): (&Part, &Members)| Summary {
            part: *part,
            // A part with more members would take terabytes.
            count: u32::try_from(members.of.len()).unwrap_or(u32::MAX),
            digest: members.all,
        };
        self.0.range(parts).map(summary).collect()
    }

    /// The parts whose summary differs from the other side's, from the given part on, in order. A part that
    /// only one side has also differs.
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

    /// Lists the bookings of one part.
    #[must_use]
    pub fn listed(&self, part: Part) -> Listed {
        let members = self.0.get(&part).into_iter().flat_map(|members| &members.of);
        Listed { part, members: members.map(|(txn, member)| (txn.clone(), *member)).collect() }
    }

    /// Checks that every part holds the right members, and that its digest is that of its members.
    ///
    /// # Errors
    /// Describes the first part that is wrong.
    pub fn check_invariants(&self) -> Result<(), String> {
        for (part, members) in &self.0 {
            let mut all = Digest::default();
            for (txn, member) in &members.of {
                all.toggle(member.digest);
                if Part::of(txn, member.ends) != *part {
                    return Err(format!("{txn} is in {part:?} but belongs elsewhere"));
                }
            }
            if all != members.all || members.of.is_empty() {
                return Err(format!(
                    "the digest of {part:?} is not the sum of its members, {} in number",
                    members.of.len()
                ));
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

    /// A history of a set: each booking comes, with an amount and a day, or goes.
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
        /// Whatever its history, a set equals one that is built from what is left.
        #[test]
        fn a_set_is_what_is_left_of_its_history(changes in changes()) {
            let (naive, set) = run(&changes);
            prop_assert_eq!(&set, &of(&naive));
            prop_assert_eq!(set.len(), naive.len());
        }

        /// The parts that differ contain every booking by which the naive sets differ. Equal sets have no parts
        /// that differ.
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
