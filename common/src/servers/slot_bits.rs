//! For each slot of time, and each aligned power of two of slots, the set of servers that are idle
//! through all of it: a segment tree of packed sets.
//!
//! The servers that are idle through a window are the intersection of O(log Q) sets, for Q slots. It
//! takes N / 64 words for each, for N servers. To take or give back a server touches every slot of the
//! window. What only a part of a slot decides is left to the timetable: a window that fills no slot
//! makes every server a candidate.
//!
//! Left out: what lies before the first slot or after the last, which the sets do not restrict.

use std::collections::BTreeMap;
use std::ops::{ControlFlow, Range};

use super::{IdleIndex, IdlePeriod, ServerIndex};
use crate::invalid::InvalidField;
use crate::limits;
use crate::time::{Span, Time, Window};

/// An index of idle servers as one set for each slot of time.
#[derive(Debug, Clone)]
pub struct SlotBits {
    origin: Time,
    slot: Span,
    slots: usize,
    servers: u32,
    /// The sets, each of [`Self::words`] words: set 1 is for all slots, sets 2 i and 2 i + 1 are for the
    /// halves of set i.
    sets: Vec<u64>,
    /// How many idle periods start at an instant.
    starts: BTreeMap<Time, u32>,
}

impl SlotBits {
    /// An index of `slots` slots from `origin` on.
    ///
    /// # Errors
    /// [`InvalidField`] when a slot is not positive, when there is no slot, or when slots times servers
    /// exceed [`limits::SLOT_BITS_MAX`].
    pub fn new(origin: Time, slot: Span, slots: usize, servers: u32) -> Result<Self, InvalidField> {
        super::check_slots(slot, slots, servers, limits::SLOT_BITS_MAX)?;
        let starts = BTreeMap::new();
        Ok(Self { origin, slot, slots, servers, sets: Vec::new(), starts })
    }

    /// Bytes of heap in use by the sets.
    #[must_use]
    pub const fn heap_bytes(&self) -> usize {
        self.sets.capacity() * size_of::<u64>()
    }

    const fn words(&self) -> usize {
        self.servers.div_ceil(u64::BITS) as usize
    }

    /// The first set of a single slot.
    const fn leaves(&self) -> usize {
        self.slots.next_power_of_two()
    }

    fn set(&self, node: usize) -> &[u64] {
        &self.sets[node * self.words()..(node + 1) * self.words()]
    }

    /// The word with the bit of a server in a set, and the bit.
    const fn bit(&self, node: usize, server: ServerIndex) -> (usize, u64) {
        let word = node * self.words() + (server.0 / u64::BITS) as usize;
        (word, 1 << (server.0 % u64::BITS))
    }

    /// How many whole slots lie between the origin and an instant, and whether it is inside of the next.
    const fn slots_until(&self, at: Time) -> (i64, bool) {
        let distance = at.since(self.origin).as_us();
        let (whole, rest) =
            (distance.div_euclid(self.slot.as_us()), distance.rem_euclid(self.slot.as_us()));
        (whole, rest > 0)
    }

    /// The slots that a stretch of time touches.
    fn touched(&self, from: Time, to: Time) -> Range<usize> {
        let (first, _) = self.slots_until(from);
        let (last, inside) = self.slots_until(to);
        self.clamp(first, last.saturating_add(i64::from(inside)))
    }

    /// The slots that a stretch of time fills.
    fn filled(&self, from: Time, to: Time) -> Range<usize> {
        let (first, inside) = self.slots_until(from);
        let (last, _) = self.slots_until(to);
        self.clamp(first.saturating_add(i64::from(inside)), last)
    }

    /// The slots of a range that there are.
    fn clamp(&self, first: i64, end: i64) -> Range<usize> {
        let within = |slot: i64| usize::try_from(slot.max(0)).unwrap_or(usize::MAX).min(self.slots);
        within(first)..within(end).max(within(first))
    }

    fn note_start(&mut self, start: Time) {
        *self.starts.entry(start).or_default() += 1;
    }

    fn forget_start(&mut self, start: Time) {
        if let Some(count) = self.starts.get_mut(&start) {
            *count -= 1;
            if *count == 0 {
                self.starts.remove(&start);
            }
        }
    }
}

impl IdleIndex for SlotBits {
    fn fill(&mut self, servers: u32) {
        debug_assert_eq!(servers, self.servers);
        self.sets = vec![u64::MAX; 2 * self.leaves() * self.words()];
        self.starts = BTreeMap::from([(Time::MIN, servers)]);
    }

    fn take(&mut self, period: IdlePeriod, window: Window) {
        let [before, after] = period.around(window);
        if before.is_none() {
            self.forget_start(period.start);
        }
        if let Some(after) = after {
            self.note_start(after.start);
        }
        let slots = self.touched(window.start(), window.end());
        if slots.is_empty() {
            return;
        }
        let (mut first, mut last) = (self.leaves() + slots.start, self.leaves() + slots.end - 1);
        while first > 0 {
            for node in first..=last {
                let (word, bit) = self.bit(node, period.server);
                self.sets[word] &= !bit;
            }
            (first, last) = (first / 2, last / 2);
        }
    }

    fn give(&mut self, period: IdlePeriod, window: Window) {
        let [before, after] = period.around(window);
        if before.is_none() {
            self.note_start(period.start);
        }
        if let Some(after) = after {
            self.forget_start(after.start);
        }
        // A slot that the window touches is idle when the whole period fills it.
        let touched = self.touched(window.start(), window.end());
        let filled = self.filled(period.start, period.end);
        let slots = touched.start.max(filled.start)..touched.end.min(filled.end);
        if slots.is_empty() {
            return;
        }
        let leaves = self.leaves();
        let (mut first, mut last) = (leaves + slots.start, leaves + slots.end - 1);
        for node in first..=last {
            let (word, bit) = self.bit(node, period.server);
            self.sets[word] |= bit;
        }
        while first > 1 {
            (first, last) = (first / 2, last / 2);
            for node in first..=last {
                let (word, bit) = self.bit(node, period.server);
                let (left, _) = self.bit(2 * node, period.server);
                let (right, _) = self.bit(2 * node + 1, period.server);
                let both = self.sets[left] & self.sets[right] & bit;
                self.sets[word] = self.sets[word] & !bit | both;
            }
        }
    }

    fn visit(
        &self,
        window: Window,
        least: usize,
        visit: &mut dyn FnMut(ServerIndex) -> ControlFlow<()>,
    ) {
        let slots = self.filled(window.start(), window.end());
        let mut idle = vec![u64::MAX; self.words()];
        let (mut first, mut end) = (self.leaves() + slots.start, self.leaves() + slots.end);
        let mut restrict = |node: usize| {
            for (word, also) in idle.iter_mut().zip(self.set(node)) {
                *word &= also;
            }
        };
        while first < end {
            if first % 2 == 1 {
                restrict(first);
                first += 1;
            }
            if end % 2 == 1 {
                end -= 1;
                restrict(end);
            }
            (first, end) = (first / 2, end / 2);
        }
        // The last word has bits of servers that there are not.
        let found: usize = idle.iter().map(|word| word.count_ones() as usize).sum();
        if found < least {
            return;
        }
        for (base, mut word) in (0..).step_by(u64::BITS as usize).zip(idle) {
            while word != 0 {
                let server = ServerIndex(base + word.trailing_zeros());
                word &= word - 1;
                if server.0 >= self.servers || visit(server).is_break() {
                    return;
                }
            }
        }
    }

    fn next_start(&self, after: Time, _: Span) -> Option<Time> {
        let later = (std::ops::Bound::Excluded(after), std::ops::Bound::Unbounded);
        self.starts.range(later).next().map(|(&start, _)| start)
    }

    fn check(&self, periods: &[IdlePeriod]) -> Result<(), String> {
        let mut starts = BTreeMap::<Time, u32>::new();
        let mut sets = vec![0; self.sets.len()];
        for period in periods {
            *starts.entry(period.start).or_default() += 1;
            for slot in self.filled(period.start, period.end) {
                let (word, bit) = self.bit(self.leaves() + slot, period.server);
                sets[word] |= bit;
            }
        }
        if starts != self.starts {
            return Err("the starts of idle periods are not those of the index".to_owned());
        }
        for slot in 0..self.slots {
            for server in (0..self.servers).map(ServerIndex) {
                let (word, bit) = self.bit(self.leaves() + slot, server);
                if (sets[word] ^ self.sets[word]) & bit != 0 {
                    return Err(format!("slot {slot} is wrong about server {}", server.0));
                }
            }
        }
        for node in 1..self.leaves() {
            let halves = self.set(2 * node).iter().zip(self.set(2 * node + 1));
            if !self.set(node).iter().copied().eq(halves.map(|(left, right)| left & right)) {
                return Err(format!("set {node} is not what its halves have in common"));
            }
        }
        Ok(())
    }
}
