//! Amounts and values: integers with their units in the type. Left out: which resource an amount
//! belongs to.

use std::fmt;

use serde::{Deserialize, Serialize};

/// A number of CPUs (cores) at a site.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct Cpus(pub u64);

/// A rate in bit/s.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct BitsPerSecond(pub u64);

/// An amount of one resource, in the unit of that resource.
///
/// Timetables and the protocol count amounts without their unit; the [kind](crate::ResourceKind) of the
/// resource knows it.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct Amount(pub u64);

impl Amount {
    /// The amount 0.
    pub const ZERO: Self = Self(0);

    /// `self + other`, or `None` beyond 64 bits.
    #[must_use]
    pub const fn checked_add(self, other: Self) -> Option<Self> {
        match self.0.checked_add(other.0) {
            Some(sum) => Some(Self(sum)),
            None => None,
        }
    }

    /// `self - other`, or zero when `other` is larger.
    #[must_use]
    pub const fn saturating_sub(self, other: Self) -> Self {
        Self(self.0.saturating_sub(other.0))
    }
}

impl From<Cpus> for Amount {
    fn from(cpus: Cpus) -> Self {
        Self(cpus.0)
    }
}

impl From<BitsPerSecond> for Amount {
    fn from(rate: BitsPerSecond) -> Self {
        Self(rate.0)
    }
}

impl fmt::Display for Amount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl fmt::Display for Cpus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} CPU{}", self.0, if self.0 == 1 { "" } else { "s" })
    }
}

impl fmt::Display for BitsPerSecond {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (unit, size) in
            [("Tbit/s", 1_000_000_000_000), ("Gbit/s", 1_000_000_000), ("Mbit/s", 1_000_000)]
        {
            if self.0 >= size && self.0.is_multiple_of(size / 1000) {
                let (whole, part) = (self.0 / size, self.0 % size / (size / 1000));
                return if part == 0 {
                    write!(f, "{whole} {unit}")
                } else {
                    let digits = format!("{part:03}");
                    write!(f, "{whole}.{} {unit}", digits.trim_end_matches('0'))
                };
            }
        }
        write!(f, "{} bit/s", self.0)
    }
}

/// Value of one unit: points per CPU at a site, points per Gbit/s on an edge (`vc_i`, `vb_k` of
/// Takefusa 2010, Eq. 3). Whether it is a price or a preference is up to the operator.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct UnitValue(pub u64);

impl UnitValue {
    /// Value of `cpus` CPUs at this unit value.
    #[must_use]
    pub const fn of_cpus(self, cpus: Cpus) -> Value {
        Value { milli: self.0.saturating_mul(cpus.0).saturating_mul(1000) }
    }

    /// Value of a rate on one edge at this unit value. The rate is counted in whole Mbit/s, rounded
    /// up, so that sums stay exact integers: points per Gbit/s are milli-points per Mbit/s.
    #[must_use]
    pub const fn of_rate(self, rate: BitsPerSecond) -> Value {
        Value { milli: self.0.saturating_mul(rate.0.div_ceil(1_000_000)) }
    }
}

/// What a plan costs, in thousandths of a point: the objective of Takefusa 2010, Eq. (3).
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct Value {
    /// Thousandths of a point.
    pub milli: u64,
}

impl Value {
    /// The value 0.
    pub const ZERO: Self = Self { milli: 0 };

    /// The sum, at most the largest possible value.
    #[must_use]
    pub const fn saturating_add(self, other: Self) -> Self {
        Self { milli: self.milli.saturating_add(other.milli) }
    }
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (whole, part) = (self.milli / 1000, self.milli % 1000);
        let text = if part == 0 {
            whole.to_string()
        } else {
            format!("{whole}.{}", format!("{part:03}").trim_end_matches('0'))
        };
        f.pad(&text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_exact_and_readable() {
        assert_eq!(UnitValue(5).of_rate(BitsPerSecond(1_000_000_000)).to_string(), "5");
        assert_eq!(UnitValue(5).of_rate(BitsPerSecond(600_000_000)).to_string(), "3");
        assert_eq!(UnitValue(3).of_rate(BitsPerSecond(1)).to_string(), "0.003");
        assert_eq!(UnitValue(2).of_cpus(Cpus(8)).to_string(), "16");
    }

    #[test]
    fn rates_are_shown_in_the_unit_people_use() {
        assert_eq!(BitsPerSecond(1_000_000_000).to_string(), "1 Gbit/s");
        assert_eq!(BitsPerSecond(2_500_000_000).to_string(), "2.5 Gbit/s");
        assert_eq!(BitsPerSecond(600_000_000).to_string(), "600 Mbit/s");
        assert_eq!(BitsPerSecond(1_000_001).to_string(), "1000001 bit/s");
        assert_eq!(BitsPerSecond(0).to_string(), "0 bit/s");
    }
}
