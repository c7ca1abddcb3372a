//! When a subscriber is told, and where it stands.

use std::collections::BTreeMap;

use coalloc_common::{Amount, BootTime, Now, Span};

use super::{ChangeLog, ResourceChange};

/// When an RM tells a subscriber of changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Strategy {
    /// At once.
    #[default]
    EveryChange,
    /// Once in a period, when anything changed.
    Periodic(Span),
    /// When the amounts that changed of some resource add up to a share of what it has; or when the oldest
    /// change is as old as the period.
    Threshold {
        /// 1 to 100.
        percent: u32,
        /// How long a change waits at most.
        period: Span,
    },
}

/// When a subscriber is told, and how late on purpose.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UpdatePolicy {
    /// When.
    pub strategy: Strategy,
    /// For experiments: every update is kept back so long.
    pub delay: Span,
}

impl Default for UpdatePolicy {
    fn default() -> Self {
        Self { strategy: Strategy::EveryChange, delay: Span::ZERO }
    }
}

impl UpdatePolicy {
    /// What a subscriber gets that asks for `asked` where this is the fastest there is: nothing is told sooner
    /// or more often than this would tell it.
    #[must_use]
    pub fn at_fastest(self, asked: Self) -> Self {
        use Strategy::{EveryChange, Periodic, Threshold};
        let strategy = match (self.strategy, asked.strategy) {
            (EveryChange, asked) => asked,
            (own, EveryChange) => own,
            // A threshold may be passed at any time, a period has to be over.
            (Periodic(own), Periodic(period) | Threshold { period, .. })
            | (Threshold { period: own, .. }, Periodic(period)) => Periodic(own.max(period)),
            (Threshold { percent: a, period: own }, Threshold { percent: b, period }) => {
                Threshold { percent: a.max(b), period: own.max(period) }
            }
        };
        Self { strategy, delay: self.delay.max(asked.delay) }
    }
}

/// Where one subscriber stands. It costs the RM this much, however slow the subscriber is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Subscription {
    strategy: Strategy,
    /// What it has, or nothing.
    revision: Option<u64>,
    /// When it was last told, or asked to be.
    told: BootTime,
    /// Since when it is known to be behind.
    behind_since: Option<BootTime>,
}

/// What a subscriber has to be told now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DueUpdate {
    /// Everything: it has nothing, or has missed more than is kept.
    Snapshot,
    /// What changed after a revision.
    Delta {
        /// The revision it has.
        from: u64,
        /// What changed since, by resource.
        touched: BTreeMap<u32, ResourceChange>,
    },
    /// Nothing now; something at this instant at the latest, unless more changes before.
    At(BootTime),
    /// Nothing, until something changes.
    Nothing,
}

impl Subscription {
    /// One that has a revision of this epoch, or nothing.
    #[must_use]
    pub const fn new(strategy: Strategy, revision: Option<u64>, now: BootTime) -> Self {
        Self { strategy, revision, told: now, behind_since: None }
    }

    /// What it has been told of, if anything.
    #[must_use]
    pub const fn revision(&self) -> Option<u64> {
        self.revision
    }

    /// What is due. `capacity` says what there is of a resource. Ask at every change, and at the instant that
    /// [`DueUpdate::At`] names. Nothing counts as told before [`Subscription::told`].
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
            // It waits for its turn like any other: a slow subscriber is not told more often.
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

    /// It has been told of everything up to a revision.
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
        // Off the ring: everything again.
        (0..5).for_each(|_| changed(&mut log, 1));
        assert_eq!(one.due(&log, hundred, at(4)), DueUpdate::Snapshot);
        // From another life of the ledger: likewise.
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
