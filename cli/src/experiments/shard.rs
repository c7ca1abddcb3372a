//! One of several equal parts of a run, for several machines: `--shard 2/20`.
//!
//! The runs of an experiment are counted over points and seeds, and run i belongs to shard i modulo N. So every shard
//! has about the same share of each point, and no shard needs to know of another. `coalloc sim merge` puts the
//! folders of all shards together ([`super::merge`]).

use std::fmt;
use std::ops::Range;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use super::part::PartArgs;

/// The largest number of shards. Slurm allows 1,001 jobs in an array unless it is configured otherwise, and `merge` holds
/// all folders in memory.
const SHARDS_MAX: u64 = 10_000;

/// One of several equal parts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Shard {
    /// The number of the shard, from 1 on.
    pub number: u64,
    /// The number of shards.
    pub of: u64,
}

impl Shard {
    /// Does it have the run of this point and seed?
    #[must_use]
    pub fn has(self, point: usize, seed: u64, seeds: &Range<u64>) -> bool {
        let count = seeds.end.saturating_sub(seeds.start);
        let run = (point as u64).saturating_mul(count).saturating_add(seed - seeds.start);
        run % self.of.max(1) + 1 == self.number
    }
}

impl fmt::Display for Shard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.number, self.of)
    }
}

impl FromStr for Shard {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let number = |text: &str| text.parse::<u64>().ok();
        let both = text.split_once('/').and_then(|(one, of)| number(one).zip(number(of)));
        match both {
            Some((number, of)) if (1..=of).contains(&number) && of <= SHARDS_MAX => {
                Ok(Self { number, of })
            }
            _ => Err(format!("allowed: K/N, with K from 1 to N, and N from 1 to {SHARDS_MAX}")),
        }
    }
}

/// What a shard's folder says of the run that the shard is a part of.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ShardedRun {
    /// The shard.
    pub shard: Shard,
    /// How the command named the experiment.
    pub named: String,
    /// The other options that chose a part of the experiment.
    pub part: PartArgs,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_run_belongs_to_one_shard_and_shards_are_equally_large() {
        let seeds = 5..12;
        for of in [1, 2, 3, 7, 40] {
            let mut sizes = vec![0; usize::try_from(of).unwrap()];
            for (point, seed) in (0..3).flat_map(|point| seeds.clone().map(move |s| (point, s))) {
                let own = (1..=of)
                    .filter(|number| Shard { number: *number, of }.has(point, seed, &seeds));
                let own: Vec<u64> = own.collect();
                assert_eq!(own.len(), 1, "{point} {seed} of {of}: {own:?}");
                sizes[usize::try_from(own[0] - 1).unwrap()] += 1;
            }
            assert_eq!(sizes.iter().sum::<u64>(), 21);
            let (least, most) = (sizes.iter().min().unwrap(), sizes.iter().max().unwrap());
            assert!(most - least <= 1, "{sizes:?}");
        }
        let first = Shard { number: 1, of: 3 };
        assert!(first.has(0, 5, &seeds) && first.has(0, 8, &seeds) && !first.has(1, 5, &seeds));
    }

    #[test]
    fn a_shard_is_a_number_of_a_number() {
        assert_eq!("2/20".parse(), Ok(Shard { number: 2, of: 20 }));
        for wrong in ["", "2", "0/3", "4/3", "1/0", "a/b", "1/10001", "-1/2", "1/2/3"] {
            let said = wrong.parse::<Shard>().unwrap_err();
            assert!(said.contains("K from 1 to N"), "{wrong}: {said}");
        }
    }
}
