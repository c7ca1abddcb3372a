//! When a subscriber's next update is due, and how far it has got.

use std::collections::BTreeMap;

use coalloc_common::{Amount, BootTime, Now, Span};

use super::{ChangeLog, ResourceChange};

/// When an RM reports changes to a subscriber.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Strategy {
    /// At once, at every change.
    #[default]
    EveryChange,
    /// At most once in a period, if anything has changed.
    Periodic(Span),
    /// When the amounts that changed of some resource add up to a share of its capacity; or when the oldest
    /// unreported change is as old as the period.
    Threshold {
        /// The share in percent of the capacity, 1 to 100.
        percent: u32,
        /// How long a change waits at most.
        period: Span,
    },
}

/// When an RM reports to a subscriber, and how much later on purpose.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UpdatePolicy {
    /// When the next update is due.
    pub strategy: Strategy,
    /// For experiments: how long every update is held back.
    pub delay: Span,
}

impl Default for UpdatePolicy {
    fn default() -> Self {
        Self { strategy: Strategy::EveryChange, delay: Span::ZERO }
    }
}

impl UpdatePolicy {
    /// The policy for a subscriber that asks for `asked`, when `self` is the fastest policy that the RM allows:
    /// the result never reports sooner or more often than `self` would.
    #[must_use]
    pub fn at_fastest(self, asked: Self) -> Self {
        use Strategy::{EveryChange, Periodic, Threshold};
        let strategy = match (self.strategy, asked.strategy) {
            (EveryChange, asked) => asked,
            (own, EveryChange) => own,
            // A threshold may be reached at any time, but a period has to pass.
            (Periodic(own), Periodic(period) | Threshold { period, .. })
            | (Threshold { period: own, .. }, Periodic(period)) => Periodic(own.max(period)),
            (Threshold { percent: a, period: own }, Threshold { percent: b, period }) => {
                Threshold { percent: a.max(b), period: own.max(period) }
            }
        };
        Self { strategy, delay: self.delay.max(asked.delay) }
    }
}

/// How far one subscriber has got. This is all it costs the RM, however slow the subscriber is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Subscription {
    strategy: Strategy,
    /// The revision that the subscriber has; `None` if it has nothing.
    revision: Option<u64>,
    /// When it was last sent an update, or when it subscribed.
    told: BootTime,
    /// Since when it is known to be behind; `None` when it is not.
    behind_since: Option<BootTime>,
}

/// What is due to a subscriber.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DueUpdate {
    /// A snapshot: the subscriber has nothing, or it has missed more than the log keeps.
    Snapshot,
    /// What changed after a revision.
    Delta {
        /// The revision that the subscriber has.
        from: u64,
        /// What has changed since, by resource.
        touched: BTreeMap<u32, ResourceChange>,
    },
    /// Nothing is due now; something will be at this instant, or before it if more changes.
    At(BootTime),
    /// Nothing is due until something changes.
    Nothing,
}

impl Subscription {
    /// A subscription of a subscriber that has this revision of the current epoch, or that has nothing.
    #[must_use]
    pub const fn new(strategy: Strategy, revision: Option<u64>, now: BootTime) -> Self {
        Self { strategy, revision, told: now, behind_since: None }
    }

    /// The last revision that the subscriber was sent, if any.
    #[must_use]
    pub const fn revision(&self) -> Option<u64> {
        self.revision
    }

    /// What is due now. `capacity` returns the capacity of a resource. Call it at every change, and at the
    /// instant of [`DueUpdate::At`]. An update counts as sent only after [`Subscription::told`].
    #[must_use]
    pub fn due(
        &mut self,
        log: &ChangeLog,
        capacity: impl Fn(u32) -> Amount,
        now: Now,
    ) -> DueUpdate {
        let Some(from) = self.revision else { return DueUpdate::Snapshot };
        if !log.is_behind(from) {
            return DueUpdate::Nothing;
        }
        let since = *self.behind_since.get_or_insert(now.boot);
        let Some(touched) = log.since(from, now.wall) else {
            // A subscriber that has fallen off the ring also waits for the end of its period: a slow subscriber
            // is not served more often than others.
            return match self.strategy {
                Strategy::Periodic(period) if self.told.saturating_add(period) > now.boot => {
                    DueUpdate::At(self.told.saturating_add(period))
                }
                _ => DueUpdate::Snapshot,
            };
        };
        let at = match self.strategy {
            Strategy::EveryChange => now.boot,
            Strategy::Periodic(period) => self.told.saturating_add(period),
            Strategy::Threshold { percent, period } => {
                let enough = touched.iter().any(|(resource, of)| {
                    of.amount * 100 >= u128::from(capacity(*resource).0) * u128::from(percent)
                });
                if enough { now.boot } else { since.saturating_add(period) }
            }
        };
        if at > now.boot { DueUpdate::At(at) } else { DueUpdate::Delta { from, touched } }
    }

    /// Notes that the subscriber was sent everything up to a revision.
    pub const fn told(&mut self, revision: u64, now: BootTime) {
        self.revision = Some(revision);
        self.told = now;
        self.behind_since = None;
    }
}

#[cfg(test)]
mod tests {
    use coalloc_common::{Time, Window};

    use super::*;

    fn at(ms: i64) -> Now {
        Now { wall: Time::from_us(ms * 1_000), boot: BootTime::from_us(ms * 1_000) }
    }

    fn changed(log: &mut ChangeLog, amount: u64) {
        log.begin();
        let window = Window::starting(at(1_000).wall, Span::from_secs(10)).expect("a window");
        log.note(0, window, Amount(amount));
    }

    fn hundred(_: u32) -> Amount {
        Amount(100)
    }

    #[test]
    fn who_has_nothing_gets_a_snapshot_and_then_every_change() {
        let mut log = ChangeLog::new(4, 1);
        let mut one = Subscription::new(Strategy::EveryChange, None, at(0).boot);
        assert_eq!(one.due(&log, hundred, at(0)), DueUpdate::Snapshot);
        one.told(log.revision(), at(0).boot);
        assert_eq!(one.due(&log, hundred, at(1)), DueUpdate::Nothing);
        changed(&mut log, 1);
        assert!(matches!(one.due(&log, hundred, at(2)), DueUpdate::Delta { from: 0, .. }));
        one.told(1, at(2).boot);
        assert_eq!(one.due(&log, hundred, at(3)), DueUpdate::Nothing);
        // Off the ring: a snapshot is due.
        (0..5).for_each(|_| changed(&mut log, 1));
        assert_eq!(one.due(&log, hundred, at(4)), DueUpdate::Snapshot);
        // A revision from another ledger: a snapshot is due as well.
        let mut ahead = Subscription::new(Strategy::EveryChange, Some(99), at(0).boot);
        assert_eq!(ahead.due(&log, hundred, at(4)), DueUpdate::Snapshot);
    }

    #[test]
    fn periodic_tells_once_in_a_period_and_nothing_when_nothing_changed() {
        let mut log = ChangeLog::new(64, 1);
        let mut one =
            Subscription::new(Strategy::Periodic(Span::from_millis(100)), Some(0), at(0).boot);
        assert_eq!(one.due(&log, hundred, at(500)), DueUpdate::Nothing);
        one.told(0, at(500).boot);
        changed(&mut log, 1);
        assert_eq!(one.due(&log, hundred, at(501)), DueUpdate::At(at(600).boot));
        changed(&mut log, 1);
        let due = one.due(&log, hundred, at(600));
        assert!(
            matches!(&due, DueUpdate::Delta { touched, .. } if touched[&0].amount == 2),
            "{due:?}"
        );
    }

    #[test]
    fn nobody_is_told_faster_than_the_setting() {
        use Strategy::{EveryChange, Periodic, Threshold};
        let of = |strategy, delay| UpdatePolicy { strategy, delay: Span::from_millis(delay) };
        let (short, long) = (Span::from_millis(10), Span::from_secs(1));
        let threshold = |percent, period| Threshold { percent, period };
        let cases = [
            (EveryChange, threshold(5, short), threshold(5, short)),
            (Periodic(long), EveryChange, Periodic(long)),
            (Periodic(short), Periodic(long), Periodic(long)),
            (Periodic(short), threshold(1, long), Periodic(long)),
            (threshold(20, long), Periodic(short), Periodic(long)),
            (threshold(20, short), threshold(5, long), threshold(20, long)),
        ];
        for (own, asked, gets) in cases {
            assert_eq!(of(own, 5).at_fastest(of(asked, 0)), of(gets, 5), "{own:?} {asked:?}");
            assert_eq!(of(own, 0).at_fastest(of(asked, 7)), of(gets, 7));
        }
    }

    #[test]
    fn threshold_tells_when_enough_has_changed_or_a_change_is_old() {
        let mut log = ChangeLog::new(64, 1);
        let strategy = Strategy::Threshold { percent: 10, period: Span::from_secs(1) };
        let mut one = Subscription::new(strategy, Some(0), at(0).boot);
        changed(&mut log, 9);
        assert_eq!(one.due(&log, hundred, at(10)), DueUpdate::At(at(1_010).boot));
        changed(&mut log, 1);
        assert!(matches!(one.due(&log, hundred, at(20)), DueUpdate::Delta { .. }));
        one.told(2, at(20).boot);
        changed(&mut log, 1);
        assert_eq!(one.due(&log, hundred, at(30)), DueUpdate::At(at(1_030).boot));
        assert!(matches!(one.due(&log, hundred, at(1_030)), DueUpdate::Delta { from: 2, .. }));
    }
}
