//! How long a certificate lasts, in words, and when somebody should renew it: once less than a third of its life is left.
//!
//! Left out: whether a certificate is believed.

use coalloc_common::{Span, Time};

use crate::kit::text;

/// The part of its life that a certificate has left when people are warned: a third. Who renews once a month has then ten
/// days for it.
const WARNED_PART: i64 = 3;

/// Where a certificate stands in its life.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Expiry {
    /// It has ended, this long ago.
    Ended(Span),
    /// It begins in this time.
    NotBegun(Span),
    /// It is valid for this long.
    Valid {
        /// Until it ends.
        left: Span,
        /// Whether it is time to renew it.
        ends_soon: bool,
    },
}

impl Expiry {
    /// Of a certificate that is valid from one instant to the other.
    #[must_use]
    pub fn at(now: Time, not_before: Time, not_after: Time) -> Self {
        if now > not_after {
            Self::Ended(now.since(not_after))
        } else if now < not_before {
            Self::NotBegun(not_before.since(now))
        } else {
            let (left, life) = (not_after.since(now), not_after.since(not_before));
            Self::Valid { left, ends_soon: left.as_us() < life.as_us() / WARNED_PART }
        }
    }

    /// In words: `ends in 3 days`.
    #[must_use]
    pub fn words(self) -> String {
        match self {
            Self::Ended(ago) => format!("ended {} ago", about(ago)),
            Self::NotBegun(span) => format!("begins in {}", about(span)),
            Self::Valid { left, .. } => format!("ends in {}", about(left)),
        }
    }

    /// A sentence about `whose` certificate if it is time to renew it, or too late. A connection that was made before is not
    /// closed when a certificate ends, so nothing else shows that it has.
    #[must_use]
    pub fn warning(self, whose: &str) -> Option<String> {
        match self {
            Self::Ended(_) => {
                Some(format!("{whose} {}: no new connection is possible with it", self.words()))
            }
            Self::Valid { ends_soon: true, .. } => {
                let words = self.words();
                Some(format!("{whose} {words}: less than a third of its life is left"))
            }
            Self::NotBegun(_) | Self::Valid { .. } => None,
        }
    }
}

/// A length of time in its greatest unit, rounded down: `3 days`.
#[must_use]
pub fn about(span: Span) -> String {
    let seconds = usize::try_from(span.as_us() / 1_000_000).unwrap_or_default();
    match (seconds / 86_400, seconds / 3_600, seconds / 60) {
        (0, 0, 0) => text::count(seconds, "second"),
        (0, 0, minutes) => text::count(minutes, "minute"),
        (0, hours, _) => text::count(hours, "hour"),
        (days, _, _) => text::count(days, "day"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_third_of_a_life_is_warned_of() {
        let day = |days: i64| Time::from_us(days * 86_400_000_000);
        let at = |now| Expiry::at(now, day(10), day(40));
        assert_eq!(at(day(30)).warning("it"), None, "just a third is left");
        let soon = at(day(30).saturating_add(Span::from_secs(1)));
        let expected = "it ends in 9 days: less than a third of its life is left";
        assert_eq!(soon.warning("it").as_deref(), Some(expected));
        let ended = at(day(41));
        assert_eq!(ended.words(), "ended 1 day ago");
        assert_eq!(
            ended.warning("it").as_deref(),
            Some("it ended 1 day ago: no new connection is possible with it")
        );
        let later = at(day(8));
        assert_eq!((later.words().as_str(), later.warning("it")), ("begins in 2 days", None));
    }
}
