//! Random numbers that are the same on every machine.
//!
//! A [`RandomStream`] is a stream of random numbers that is determined by a seed and a name. Drawing more
//! numbers from one stream changes no other stream, so two planners get the same tasks under the same seed.
//! Exponential values are computed with additions, multiplications and divisions alone, which are exact to
//! the bit everywhere; the logarithm of a system's library is not.
//!
//! Left out: distributions that no world has needed yet.

use coalloc_common::Span;
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};

/// One stream of random numbers.
#[derive(Debug, Clone)]
pub struct RandomStream(ChaCha8Rng);

impl RandomStream {
    /// The stream of this name under a seed.
    #[must_use]
    pub fn new(seed: u64, name: &str) -> Self {
        let mut random = ChaCha8Rng::seed_from_u64(seed);
        // FNV-1a. A test checks that the names in use have different numbers.
        let number = name.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3)
        });
        random.set_stream(number);
        Self(random)
    }

    /// A number of `0..n`, or 0 when `n` is 0. All are equally likely, up to a bias of 1 in 2^64 / n.
    pub fn below(&mut self, n: u64) -> u64 {
        let wide = u128::from(self.0.next_u64()) * u128::from(n);
        (wide >> 64) as u64
    }

    /// A number in (0, 1], in steps of 2^-53. It is never 0.
    pub fn part(&mut self) -> f64 {
        ((self.0.next_u64() >> 11) + 1) as f64 / (1_u64 << 53) as f64
    }

    /// An exponentially distributed number with this mean.
    pub fn exponential(&mut self, mean: f64) -> f64 {
        -ln(self.part()) * mean
    }

    /// An exponentially distributed whole number with this mean, at least 1.
    pub fn exponential_count(&mut self, mean: f64) -> u64 {
        self.exponential(mean).max(1.0) as u64
    }

    /// An exponentially distributed time with this mean in microseconds.
    pub fn exponential_span(&mut self, mean_us: f64) -> Span {
        Span::from_us(self.exponential(mean_us) as i64)
    }

    /// Draws `count` different numbers of `0..of`, or all of them if `count` is larger, in the order in which
    /// they were drawn.
    pub fn choose(&mut self, count: usize, of: usize) -> Vec<usize> {
        let mut all: Vec<usize> = (0..of).collect();
        for at in 0..count.min(of) {
            let other = at + self.below((of - at) as u64) as usize;
            all.swap(at, other);
        }
        all.truncate(count);
        all
    }
}

/// The natural logarithm of a normal positive number, by basic operations alone. With `x = m 2^e` and `m` in
/// [1/sqrt 2, sqrt 2), it computes `ln m = 2 artanh((m - 1) / (m + 1))` by its series, whose terms shrink by
/// a factor of 34 or more. The error is a few units in the last place.
fn ln(x: f64) -> f64 {
    let bits = x.to_bits();
    let mut exponent = (bits >> 52) as i32 - 1_023;
    let mut mantissa = f64::from_bits(bits & ((1 << 52) - 1) | (1_023 << 52));
    if mantissa > std::f64::consts::SQRT_2 {
        mantissa /= 2.0;
        exponent += 1;
    }
    let z = (mantissa - 1.0) / (mantissa + 1.0);
    let square = z * z;
    let (mut sum, mut term, mut odd) = (0.0, z, 1.0);
    for _ in 0..13 {
        sum += term / odd;
        term *= square;
        odd += 2.0;
    }
    f64::from(exponent) * std::f64::consts::LN_2 + 2.0 * sum
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_logarithm_is_the_logarithm() {
        let mut chance = RandomStream::new(1, "ln");
        for _ in 0..100_000 {
            let x = chance.part();
            let error = (ln(x) - x.ln()).abs();
            assert!(
                error <= 4.0 * f64::EPSILON * x.ln().abs().max(1.0),
                "ln {x} is off by {error}"
            );
        }
        assert_eq!(ln(1.0).to_bits(), 0.0_f64.to_bits());
    }

    #[test]
    fn streams_of_one_seed_differ_and_repeat() {
        let draw = |seed, name| {
            let mut chance = RandomStream::new(seed, name);
            (0..8).map(|_| chance.below(1 << 40)).collect::<Vec<_>>()
        };
        assert_eq!(draw(5, "arrivals"), draw(5, "arrivals"));
        assert_ne!(draw(5, "arrivals"), draw(5, "sizes"));
        assert_ne!(draw(5, "arrivals"), draw(6, "arrivals"));
    }

    #[test]
    fn exponential_values_have_their_mean_and_their_median() {
        let mut chance = RandomStream::new(3, "exponential");
        let mut all: Vec<f64> = (0..200_000).map(|_| chance.exponential(10.0)).collect();
        let mean = all.iter().sum::<f64>() / all.len() as f64;
        assert!((mean - 10.0).abs() < 0.1, "{mean}");
        all.sort_by(f64::total_cmp);
        let median = all[all.len() / 2];
        assert!((median - 10.0 * std::f64::consts::LN_2).abs() < 0.1, "{median}");
    }

    #[test]
    fn who_is_chosen_is_chosen_once() {
        let mut chance = RandomStream::new(9, "choose");
        let mut seen = [0_u32; 9];
        for _ in 0..900 {
            let mut chosen = chance.choose(3, 9);
            chosen.iter().for_each(|at| seen[*at] += 1);
            chosen.sort_unstable();
            chosen.dedup();
            assert_eq!(chosen.len(), 3);
        }
        assert!(seen.iter().all(|count| (200..400).contains(count)), "{seen:?}");
        assert_eq!(chance.choose(5, 2).len(), 2);
    }
}
