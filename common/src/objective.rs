//! What makes one plan better than another (Takefusa 2010, section 3.4).
//!
//! Several objectives are ordered, the most important first. Two plans are compared by the first
//! objective in which they differ. In every objective, a smaller value is better. Left out: how a
//! plan's values are computed.

use std::fmt;

use serde::{Deserialize, Serialize};

/// One objective.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Objective {
    /// (a) Reservation time: the start, in microseconds since 1970.
    Start,
    /// (b) Price, in thousandths of a point.
    Price,
    /// (c) Quality: the amount times what its resource lacks of full quality, in points.
    Quality,
    /// (A) Load balancing: the amount times the share of the resource that is taken, in thousandths
    /// of a CPU or of a Gbit/s.
    Load,
    /// (B) Preferred resource managers: unit value times amount (Eq. 3), in thousandths of a point.
    Preference,
}

impl Objective {
    /// All of them, in the paper's order.
    pub const ALL: [Self; 5] =
        [Self::Start, Self::Price, Self::Quality, Self::Load, Self::Preference];

    /// The word that users write for this objective.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Start => "start",
            Self::Price => "price",
            Self::Quality => "quality",
            Self::Load => "load",
            Self::Preference => "preference",
        }
    }

    /// The objective with this word, if there is one.
    #[must_use]
    pub fn of_word(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|objective| objective.word() == word)
    }
}

impl fmt::Display for Objective {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.word())
    }
}

/// All objectives, each once, most important first. The objectives that the user named come first.
/// After them come start and preference, if they were not named, as a last resort. The other
/// objectives come last and do not count.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ranking {
    order: [Objective; 5],
    named: usize,
    counting: usize,
}

impl Default for Ranking {
    /// Start, then preference.
    fn default() -> Self {
        Self::of(&[Objective::Start, Objective::Preference])
    }
}

impl Ranking {
    /// The ranking that begins with these objectives. If an objective is named twice, its first place
    /// counts.
    #[must_use]
    pub fn of(named: &[Objective]) -> Self {
        let last_resort = [Objective::Start, Objective::Preference];
        let mut order = Objective::ALL;
        let (mut length, mut ends) = (0, [0; 3]);
        for (part, end) in [named, &last_resort, &Objective::ALL].into_iter().zip(&mut ends) {
            for objective in part {
                if !order[..length].contains(objective) {
                    order[length] = *objective;
                    length += 1;
                }
            }
            *end = length;
        }
        Self { order, named: ends[0], counting: ends[1] }
    }

    /// The objectives that the user named.
    #[must_use]
    pub fn named(&self) -> &[Objective] {
        &self.order[..self.named]
    }

    /// The objectives by which plans are compared: the named ones, then the last resort.
    #[must_use]
    pub fn counting(&self) -> &[Objective] {
        &self.order[..self.counting]
    }

    /// All five objectives, those that count first.
    #[must_use]
    pub const fn all(&self) -> &[Objective; 5] {
        &self.order
    }
}

#[cfg(test)]
mod tests {
    use super::Objective::{Load, Preference, Price, Quality, Start};
    use super::*;

    #[test]
    fn what_is_not_named_stands_behind_what_is() {
        let ranking = Ranking::of(&[Price, Load]);
        assert_eq!(ranking.named(), [Price, Load]);
        assert_eq!(ranking.counting(), [Price, Load, Start, Preference]);
        assert_eq!(*ranking.all(), [Price, Load, Start, Preference, Quality]);
        assert_eq!(Ranking::default().counting(), [Start, Preference]);
        assert_eq!(Ranking::of(&[Load, Load, Start]).counting(), [Load, Start, Preference]);
        for objective in Objective::ALL {
            assert_eq!(Objective::of_word(objective.word()), Some(objective));
        }
    }
}
