//! An amount that is kept over a time: what a quota counts. CPUs over hours give CPU-hours, and bandwidth over hours
//! gives Gbit/s-hours.
//!
//! Left out: whose amounts are added up, and how much is allowed (the quotas of `protocol` and of their
//! configurations).

use std::collections::BTreeMap;

use crate::amount::Amount;
use crate::kind::ResourceKind;
use crate::time::Window;

const HOUR_US: u128 = 3_600_000_000;

/// A kind of which more is used or wanted than a quota allows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Exceeded {
    /// The kind.
    pub kind: ResourceKind,
    /// The most that is allowed.
    pub most: AmountTime,
    /// What is used already.
    pub used: AmountTime,
    /// What is wanted besides.
    pub wanted: AmountTime,
}

impl Exceeded {
    /// What is left.
    #[must_use]
    pub const fn left(&self) -> AmountTime {
        self.most.saturating_sub(self.used)
    }
}

/// The first kind of which what is used and what is wanted are together more than a quota allows. A kind of which nothing
/// is wanted, or that has no quota, is never exceeded.
#[must_use]
pub fn first_exceeded(
    quota: &BTreeMap<ResourceKind, AmountTime>,
    used: &BTreeMap<ResourceKind, AmountTime>,
    wanted: &BTreeMap<ResourceKind, AmountTime>,
) -> Option<Exceeded> {
    quota.iter().find_map(|(kind, most)| {
        let wanted = *wanted.get(kind)?;
        let used = used.get(kind).copied().unwrap_or_default();
        let exceeded = Exceeded { kind: *kind, most: *most, used, wanted };
        (used.saturating_add(wanted) > *most).then_some(exceeded)
    })
}

/// An amount times a time, in units of the resource's kind times microseconds.
///
/// One segment always fits: 64 bits times 63 bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct AmountTime(pub u128);

impl AmountTime {
    /// Nothing.
    pub const ZERO: Self = Self(0);

    /// An amount over a window.
    #[must_use]
    pub const fn of(amount: Amount, window: Window) -> Self {
        Self(amount.0 as u128 * window.length().as_us().unsigned_abs() as u128)
    }

    /// This many hours of a kind, in the unit that people use for the kind: see [`ResourceKind::hours`].
    #[must_use]
    pub const fn from_hours(kind: ResourceKind, hours: u64) -> Self {
        Self(hours as u128 * hour_of(kind))
    }

    /// `self + other`, or the largest value when that is larger.
    #[must_use]
    pub const fn saturating_add(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0))
    }

    /// `self - other`, or zero when `other` is larger.
    #[must_use]
    pub const fn saturating_sub(self, other: Self) -> Self {
        Self(self.0.saturating_sub(other.0))
    }

    /// `self + other`, modulo 2^128. Sums that are changed by [`Self::wrapping_sub`] later stay exact, whatever a
    /// ledger says that somebody has made up.
    #[must_use]
    pub const fn wrapping_add(self, other: Self) -> Self {
        Self(self.0.wrapping_add(other.0))
    }

    /// `self - other`, modulo 2^128: undoes [`Self::wrapping_add`].
    #[must_use]
    pub const fn wrapping_sub(self, other: Self) -> Self {
        Self(self.0.wrapping_sub(other.0))
    }

    /// Thousandths of an hour of a kind, rounded down; the largest number when it is more.
    #[must_use]
    pub fn thousandths_down(self, kind: ResourceKind) -> u64 {
        u64::try_from(self.0 / (hour_of(kind) / 1_000)).unwrap_or(u64::MAX)
    }

    /// Thousandths of an hour of a kind, rounded up; the largest number when it is more.
    #[must_use]
    pub fn thousandths_up(self, kind: ResourceKind) -> u64 {
        u64::try_from(self.0.div_ceil(hour_of(kind) / 1_000)).unwrap_or(u64::MAX)
    }

    /// Text for people, rounded down to thousandths of an hour: `12.5 CPU-hours`.
    #[must_use]
    pub fn show_down(self, kind: ResourceKind) -> String {
        show(self.0 / (hour_of(kind) / 1_000), kind.hours().0)
    }

    /// Text for people, rounded up to thousandths of an hour.
    #[must_use]
    pub fn show_up(self, kind: ResourceKind) -> String {
        show(self.0.div_ceil(hour_of(kind) / 1_000), kind.hours().0)
    }
}

/// One hour of a kind, in the unit that people use.
const fn hour_of(kind: ResourceKind) -> u128 {
    kind.hours().1 as u128 * HOUR_US
}

/// Thousandths of a unit of hours as text for people: `12.5 CPU-hours`.
#[must_use]
pub fn show_hours(thousandths: u64, unit: &str) -> String {
    show(thousandths.into(), unit)
}

fn show(thousandths: u128, unit: &str) -> String {
    let (whole, part) = (thousandths / 1_000, thousandths % 1_000);
    let part = if part == 0 { String::new() } else { format!(".{part:03}") };
    let part = part.trim_end_matches('0');
    let unit = if (whole, part) == (1, "") { unit.trim_end_matches('s') } else { unit };
    format!("{whole}{part} {unit}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::time::Time;

    fn seconds(amount: u64, length_s: i64) -> AmountTime {
        let window = Window::new(Time::from_us(0), Time::from_us(length_s * 1_000_000)).unwrap();
        AmountTime::of(Amount(amount), window)
    }

    #[test]
    fn hours_are_shown_in_the_unit_of_the_kind() {
        let cases = [
            (ResourceKind::Cpus, seconds(4, 3_600), "4 CPU-hours"),
            (ResourceKind::Cpus, seconds(2, 1_800), "1 CPU-hour"),
            (ResourceKind::Cpus, seconds(1, 450), "0.125 CPU-hours"),
            (ResourceKind::Storage, seconds(500, 5_400), "750 GB-hours"),
            (ResourceKind::Bandwidth, seconds(2_500_000_000, 3_600), "2.5 Gbit/s-hours"),
            (ResourceKind::Bandwidth, AmountTime::ZERO, "0 Gbit/s-hours"),
        ];
        for (kind, amount, text) in cases {
            assert_eq!((amount.show_down(kind), amount.show_up(kind)), (text.into(), text.into()));
        }
        let little = seconds(1, 1);
        let kind = ResourceKind::Cpus;
        assert_eq!(little.show_down(kind), "0 CPU-hours");
        assert_eq!(little.show_up(kind), "0.001 CPU-hours");
    }

    #[test]
    fn hours_from_a_file_are_those_of_segments() {
        assert_eq!(AmountTime::from_hours(ResourceKind::Cpus, 4), seconds(4, 3_600));
        assert_eq!(
            AmountTime::from_hours(ResourceKind::Bandwidth, 1),
            seconds(1_000_000_000, 3_600)
        );
    }

    #[test]
    fn the_largest_segment_fits_and_sums_undo() {
        let window = Window::new(Time::from_us(0), Time::from_us(i64::MAX)).unwrap();
        let largest = AmountTime::of(Amount(u64::MAX), window);
        let sum = largest.wrapping_add(largest).wrapping_add(largest);
        assert_eq!(sum.wrapping_sub(largest).wrapping_sub(largest), largest);
        assert_eq!(largest.saturating_add(largest).saturating_add(largest).0, u128::MAX);
    }
}
