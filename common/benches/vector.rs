//! Measures what one operation on a vector of 10,000 slots costs, compared with a plain loop over the
//! same words, which is the limit, and with the definition bit by bit.
//!
//! The plain loop of each operation reads (and writes) the words that it must and does nothing else
//! with them: an AND without a shift, a sum of set bits, a search for a word that is not full. The
//! x86-64 baseline has no instruction that shifts over two words, so an AND with such a shift is
//! measured as well. The vectors are those of a busy link: bursts of 80 to 1,600 slots, with free gaps
//! of about the same length.
//!
//! `cargo bench -p coalloc-common --bench vector`

use coalloc_common::vector::kernel;
use coalloc_common::{AvailabilityVector, Slot, SlotGrid, Span};
use divan::{Bencher, black_box};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

/// Number of slots, as in the papers.
const SLOTS: usize = 10_000;
/// A run length that does not occur in the vector, so that all of it is searched.
const TOO_LONG: usize = 2_000;
/// The travel time of the data, in slots: several words and some bits.
const TRAVEL: u64 = 203;

fn main() {
    if !std::env::args().any(|arg| arg == "--bench") {
        return; // `cargo test --all-targets` runs this file too; there is nothing to test.
    }
    divan::main();
}

fn busy(seed: u64) -> AvailabilityVector {
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    let mut bits = Vec::new();
    while bits.len() < SLOTS {
        let free = bits.last() != Some(&true);
        bits.extend(std::iter::repeat_n(free, random.random_range(80..1_600)));
    }
    bits.truncate(SLOTS);
    let Ok(grid) = SlotGrid::new(Span::from_millis(1)) else { unreachable!("a millisecond") };
    let Ok(vector) = AvailabilityVector::of_bits(grid, Slot(0), bits) else { unreachable!() };
    vector
}

fn bits(vector: &AvailabilityVector) -> Vec<bool> {
    vector.bits().collect()
}

#[divan::bench_group(sample_size = 1_000)]
mod shifted_and {
    use super::*;

    #[divan::bench]
    fn kernel(bencher: Bencher) {
        let (a, b, mut into) = (busy(1), busy(2), busy(3).words().to_vec());
        bencher.bench_local(|| {
            let travel = black_box(TRAVEL) as i64;
            kernel::and_shifted(black_box(&mut into), a.words(), b.words(), travel);
        });
    }

    #[divan::bench]
    fn words(bencher: Bencher) {
        let (a, b, mut into) = (busy(1), busy(2), busy(3).words().to_vec());
        bencher.bench_local(|| {
            for ((to, a), b) in black_box(&mut into).iter_mut().zip(a.words()).zip(b.words()) {
                *to = a & b;
            }
        });
    }

    /// The same with only the work that a shift takes: two words of `b` are combined into one, without
    /// special cases at the ends.
    #[divan::bench]
    fn words_shifted(bencher: Bencher) {
        let (a, b, mut into) = (busy(1), busy(2), busy(3).words().to_vec());
        let (words, bits) = (TRAVEL as usize / 64, TRAVEL % 64);
        bencher.bench_local(|| {
            let b = &b.words()[black_box(words)..];
            let (pairs, bits) = (b.iter().zip(&b[1..]), black_box(bits));
            for ((to, a), (low, high)) in black_box(&mut into).iter_mut().zip(a.words()).zip(pairs)
            {
                *to = a & ((low >> bits) | (high << (64 - bits)));
            }
        });
    }

    #[divan::bench(sample_size = 10)]
    fn bits(bencher: Bencher) {
        let (a, b, mut into) = (super::bits(&busy(1)), super::bits(&busy(2)), vec![false; SLOTS]);
        bencher.bench_local(|| {
            let travel = black_box(TRAVEL) as usize;
            for (k, to) in black_box(&mut into).iter_mut().enumerate() {
                *to = a[k] && b.get(k + travel).copied().unwrap_or(false);
            }
        });
    }
}

#[divan::bench_group(sample_size = 1_000)]
mod weight {
    use super::*;

    #[divan::bench]
    fn kernel(bencher: Bencher) {
        let a = busy(1);
        bencher.bench_local(|| kernel::weight(black_box(a.words())));
    }

    /// A plain sum of the words: the cost of reading them.
    #[divan::bench]
    fn words(bencher: Bencher) {
        let a = busy(1);
        bencher
            .bench_local(|| black_box(a.words()).iter().map(|word| word.count_ones()).sum::<u32>());
    }

    #[divan::bench(sample_size = 10)]
    fn bits(bencher: Bencher) {
        let a = busy(1);
        // Read the bits in place, one by one, and not from an array of bytes, where the compiler would
        // count several at once.
        bencher.bench_local(|| {
            let words = black_box(a.words());
            (0..SLOTS).filter(|k| black_box(words[k / 64] >> (k % 64)) & 1 == 1).count()
        });
    }
}

#[divan::bench_group(sample_size = 1_000)]
mod first_run {
    use super::*;

    #[divan::bench]
    fn kernel(bencher: Bencher) {
        let a = busy(1);
        bencher.bench_local(|| kernel::first_run(black_box(a.words()), 0, TOO_LONG));
    }

    /// The length of the longest stretch of full words: one branch per word.
    #[divan::bench]
    fn words(bencher: Bencher) {
        let a = busy(1);
        bencher.bench_local(|| {
            let (mut run, mut longest) = (0_usize, 0);
            for word in black_box(a.words()) {
                run = if *word == u64::MAX { run + 1 } else { 0 };
                longest = run.max(longest);
            }
            longest
        });
    }

    #[divan::bench(sample_size = 10)]
    fn bits(bencher: Bencher) {
        let a = super::bits(&busy(1));
        bencher.bench_local(|| {
            let mut run = 0;
            black_box(&a).iter().position(|free| {
                run = if *free { run + 1 } else { 0 };
                run == TOO_LONG
            })
        });
    }
}
