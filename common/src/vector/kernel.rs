//! Operations of planners on the raw words of vectors: 64 slots per word, the lowest bit first.
//!
//! A slice of words has no length in bits: the bits beyond the slots of a vector must be zero, and
//! they stay zero. A position beyond the last word is not free. Nothing here allocates. Where a result
//! is longer than an operand, the positions that the operand lacks count as not free.
//!
//! Every function is tested bit by bit against its definition (`vector/tests.rs`). The loops are
//! written so that the compiler can process several words at a time, and are measured against plain
//! loops over words that do no shifting (`benches/vector.rs`). Left out: grids and first slots, which
//! are the vector's.

/// Slots in a word.
pub const WORD: usize = 64;

/// Number of words that so many slots take.
#[must_use]
pub const fn words_for(slots: usize) -> usize {
    slots.div_ceil(WORD)
}

/// The lowest `bits` bits of a word; all 64 when `bits` is 64 or more.
const fn low(bits: usize) -> u64 {
    if bits >= WORD { u64::MAX } else { (1 << bits) - 1 }
}

/// Sets the positions from `from` to before `to`, as far as there are words.
pub fn set(words: &mut [u64], from: usize, to: usize) {
    for_range(words, from, to, |word, mask| *word |= mask);
}

/// Clears the positions from `from` to before `to` (`MUV` when `from` is 0).
pub fn clear(words: &mut [u64], from: usize, to: usize) {
    for_range(words, from, to, |word, mask| *word &= !mask);
}

/// Clears position `from` and all after it.
pub fn clear_from(words: &mut [u64], from: usize) {
    let to = words.len() * WORD;
    clear(words, from, to);
}

fn for_range(words: &mut [u64], from: usize, to: usize, act: impl Fn(&mut u64, u64)) {
    let to = to.min(words.len() * WORD);
    if from >= to {
        return;
    }
    let (first, last) = (from / WORD, (to - 1) / WORD);
    for (index, word) in words.iter_mut().enumerate().take(last + 1).skip(first) {
        let begin = if index == first { from % WORD } else { 0 };
        let end = if index == last { (to - 1) % WORD + 1 } else { WORD };
        act(word, low(end) & !low(begin));
    }
}

/// `into[k] = a[k] & b[k + shift]` for every position of `into` (Eq. 1: path `a`, link `b`). Positions
/// that `a` or `b` lacks are not free.
pub fn and_shifted(into: &mut [u64], a: &[u64], b: &[u64], shift: i64) {
    let by = usize::try_from(shift.unsigned_abs()).unwrap_or(usize::MAX);
    let (words, bits) = (by / WORD, by % WORD);
    let len = into.len().min(a.len());
    if len < into.len() {
        into[len..].fill(0); // This would be a call even when there is nothing to fill.
    }
    let (into, a) = (&mut into[..len], &a[..len]);
    if shift >= 0 {
        and_up(into, a, b.get(words..).unwrap_or(&[]), bits);
    } else {
        // The first words of `into` lie before the beginning of `b`.
        let before = words.min(len);
        into[..before].fill(0);
        and_down(&mut into[before..], &a[before..], b, bits);
    }
}

/// `into[k] = a[k] & b[k + bits]`, `bits` below 64; `into` and `a` are equally long.
fn and_up(into: &mut [u64], a: &[u64], b: &[u64], bits: usize) {
    let whole = into.len().min(b.len());
    if bits == 0 {
        for ((to, a), b) in into.iter_mut().zip(a).zip(b) {
            *to = a & b;
        }
    } else {
        // The number of words that have a next word; the last one has none.
        let pairs = whole.min(b.len().saturating_sub(1));
        // Hide from the compiler that the two shifts combine two words into one. x86-64 has an
        // instruction for that, but it works on one word at a time and takes half as long again as the
        // two shifts on several words.
        let up = std::hint::black_box(WORD - bits);
        let next = b.iter().zip(b.get(1..).unwrap_or(&[]));
        for ((to, a), (low, high)) in into.iter_mut().zip(a).zip(next) {
            *to = a & ((low >> bits) | (high << up));
        }
        if pairs < whole {
            into[pairs] = a[pairs] & (b[pairs] >> bits);
        }
    }
    into[whole..].fill(0);
}

/// `into[k] = a[k] & b[k - bits]`, `bits` below 64; `into` and `a` are equally long.
fn and_down(into: &mut [u64], a: &[u64], b: &[u64], bits: usize) {
    if bits == 0 {
        return and_up(into, a, b, 0);
    }
    let mut carry = 0;
    let words = b.iter().copied().chain(std::iter::repeat(0));
    for ((to, a), word) in into.iter_mut().zip(a).zip(words) {
        *to = a & ((word << bits) | carry);
        carry = word >> (WORD - bits);
    }
}

/// `words[k] = words[k + by]` in place; the positions at the end are cleared, so they are not free.
pub fn shift_down(words: &mut [u64], by: usize) {
    let (whole, bits) = (by / WORD, by % WORD);
    let len = words.len();
    if whole >= len {
        return words.fill(0);
    }
    let left = len - whole;
    words.copy_within(whole.., 0);
    words[left..].fill(0);
    if bits > 0 {
        let mut carry = 0;
        for word in words[..left].iter_mut().rev() {
            let low = *word << (WORD - bits);
            *word = (*word >> bits) | carry;
            carry = low;
        }
    }
}

/// Number of free positions.
#[must_use]
pub fn weight(words: &[u64]) -> usize {
    words.iter().map(|word| word.count_ones() as usize).sum()
}

/// The first free position at `from` or later.
#[must_use]
pub fn first_one(words: &[u64], from: usize) -> Option<usize> {
    let index = from / WORD;
    let begun = words.get(index)? & !low(from % WORD);
    if begun != 0 {
        return Some(index * WORD + begun.trailing_zeros() as usize);
    }
    let rest = &words[index + 1..];
    let at = rest.iter().position(|word| *word != 0)?;
    Some((index + 1 + at) * WORD + rest[at].trailing_zeros() as usize)
}

/// The first position at `from` or later that is not free: at the latest, the one after the last word.
#[must_use]
pub fn first_zero(words: &[u64], from: usize) -> usize {
    let index = from / WORD;
    let Some(word) = words.get(index) else { return from };
    let begun = !word & !low(from % WORD);
    if begun != 0 {
        return index * WORD + begun.trailing_zeros() as usize;
    }
    let rest = &words[index + 1..];
    let at = rest.iter().position(|word| *word != u64::MAX).unwrap_or(rest.len());
    (index + 1 + at) * WORD + rest.get(at).map_or(0, |word| word.trailing_ones() as usize)
}

/// The first position at `from` or later at which `length` free positions in a row begin (`R(b)`);
/// `from` itself for a length of 0.
#[must_use]
pub fn first_run(words: &[u64], from: usize, length: usize) -> Option<usize> {
    if length == 0 {
        return Some(from);
    }
    let mut at = from;
    loop {
        at = first_one(words, at)?;
        let end = first_zero(words, at);
        if end - at >= length {
            return Some(at);
        }
        at = end;
    }
}

/// Sets in `into` the positions of `words` at which `length` free positions in a row begin, where
/// something of that length can start, and clears all others. A length of 0 counts as 1.
pub fn starts(into: &mut [u64], words: &[u64], length: usize) {
    into.fill(0);
    let mut at = 0;
    while let Some(begin) = first_one(words, at) {
        let end = first_zero(words, begin);
        // Empty when the run is too short.
        set(into, begin, (end + 1).saturating_sub(length.max(1)));
        at = end;
    }
}

/// The first position of `b` that is free in `b` and not free in `a` at `shift` positions later.
/// `None` when the shifted `a` covers `b` (`>=` of Eq. 3).
#[must_use]
pub fn first_uncovered(a: &[u64], b: &[u64], shift: i64) -> Option<usize> {
    let by = usize::try_from(shift.unsigned_abs()).unwrap_or(usize::MAX);
    let (words, bits) = (by / WORD, by % WORD);
    if shift < 0 {
        return uncovered(b, |index| {
            let Some(at) = index.checked_sub(words) else { return 0 };
            let here = a.get(at).copied().unwrap_or(0);
            let before = at.checked_sub(1).and_then(|at| a.get(at)).copied().unwrap_or(0);
            if bits == 0 { here } else { (here << bits) | (before >> (WORD - bits)) }
        });
    }
    let a = a.get(words..).unwrap_or(&[]);
    if bits == 0 {
        let rest = a.len().min(b.len());
        let found = b.iter().zip(a).position(|(b, a)| b & !a != 0);
        return match found {
            Some(index) => Some(index * WORD + (b[index] & !a[index]).trailing_zeros() as usize),
            None => first_one(b, rest * WORD),
        };
    }
    uncovered(b, |index| {
        let here = a.get(index).copied().unwrap_or(0);
        (here >> bits) | (a.get(index + 1).copied().unwrap_or(0) << (WORD - bits))
    })
}

fn uncovered(b: &[u64], a: impl Fn(usize) -> u64) -> Option<usize> {
    let mut words = b.iter().enumerate();
    words.find_map(|(index, b)| {
        let left = b & !a(index);
        (left != 0).then(|| index * WORD + left.trailing_zeros() as usize)
    })
}
