//! How amounts of several members are compared with what is free at several vertices.
//!
//! The sum of what is wanted is compared with the sum of what is free in whole multiples of a
//! divisor, for several divisors: of members that want 3 each, a vertex with 8 takes two. This is a
//! dual feasible function of bin packing (Fekete and Schepers 2001): what is wanted at one vertex
//! has at least as many multiples together as one by one.

use super::super::network::Link;

/// What members want, and what there is, by kind. A kind is an index here.
pub(in super::super) struct Amounts {
    /// The number of kinds.
    pub(in super::super) kinds: usize,
    /// By member and kind.
    pub(in super::super) wants: Vec<u64>,
    /// What is free, by vertex and kind.
    pub(in super::super) free: Vec<u64>,
    /// What can be free at most, by vertex and kind.
    pub(in super::super) most: Vec<u64>,
}

/// What the bounds need beside the amounts. It is the same for all searches with the same members.
pub(in super::super) struct Bounds {
    /// For each kind, the divisors in whose multiples amounts are compared, and whether the divisor
    /// divides all amounts.
    pub(super) divisors: Vec<Vec<(u64, bool)>>,
    pub(super) groups: Vec<Group>,
    /// The greatest common divisor of the rates of all links.
    pub(super) rate: u64,
}

/// Members that have to be placed within some vertices.
pub(super) struct Group {
    pub(super) members: Vec<bool>,
    pub(super) vertices: Vec<u32>,
}

/// Most divisors of one kind. More of them seldom refute what these do not.
const DIVISORS_MAX: usize = 8;

impl Bounds {
    /// The bounds for members with these candidates.
    pub(in super::super) fn new(amounts: &Amounts, lists: &[Vec<u32>], links: &[Link]) -> Self {
        let mut sets: Vec<Vec<u32>> = lists.to_vec();
        sets.iter_mut().for_each(|set| set.sort_unstable());
        let mut all: Vec<u32> = sets.concat();
        all.sort_unstable();
        all.dedup();
        let mut areas = vec![all];
        for set in &sets {
            if !areas.contains(set) {
                areas.push(set.clone());
            }
        }
        let within =
            |area: &[u32], set: &[u32]| set.iter().all(|at| area.binary_search(at).is_ok());
        let group = |vertices: Vec<u32>| Group {
            members: sets.iter().map(|set| within(&vertices, set)).collect(),
            vertices,
        };
        Self {
            divisors: (0..amounts.kinds).map(|kind| divisors(amounts, kind)).collect(),
            groups: areas.into_iter().map(group).collect(),
            rate: links.iter().fold(0, |rate, link| gcd(rate, link.rate)),
        }
    }
}

/// The greatest common divisor of what members want, and the largest of these amounts.
fn divisors(amounts: &Amounts, kind: usize) -> Vec<(u64, bool)> {
    let wants = amounts.wants.iter().skip(kind).step_by(amounts.kinds.max(1));
    let mut wanted: Vec<u64> = wants.copied().filter(|want| *want > 0).collect();
    let common = wanted.iter().fold(0, |common, want| gcd(common, *want));
    wanted.sort_unstable_by(|a, b| b.cmp(a));
    wanted.dedup();
    wanted.truncate(DIVISORS_MAX);
    if common > 0 && !wanted.contains(&common) {
        wanted.push(common);
    }
    wanted.into_iter().map(|divisor| (divisor, divisor == common)).collect()
}

/// How an amount counts: in whole multiples of a divisor. If the divisor divides all that is
/// wanted, only sums of some of it count. So 5 free CPUs count as 4 if 2, 2 and 6 are wanted.
#[derive(Clone, Copy)]
pub(super) struct Measure {
    divisor: u64,
    /// A bit for each multiple that counts; larger multiples all count.
    sums: u128,
}

impl Measure {
    pub(super) fn new(divisor: u64, exact: bool, wants: impl Iterator<Item = u64>) -> Self {
        let with = |sums: u128, want: u64| match want / divisor {
            multiple @ 0..128 => sums | (sums << multiple),
            _ => sums,
        };
        Self { divisor, sums: if exact { wants.fold(1, with) } else { u128::MAX } }
    }

    /// The largest multiple that counts, of those that the amount contains.
    pub(super) fn of(self, amount: u64) -> u64 {
        match amount / self.divisor {
            // The multiple zero always counts.
            multiple @ 0..127 => {
                127 - u64::from((self.sums & ((2 << multiple) - 1)).leading_zeros())
            }
            multiple => multiple,
        }
    }
}

const fn gcd(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { gcd(b, a % b) }
}
