//! Quotas of what coordinators and their users hold at a time: how many holds, and how much over which time.
//!
//! A hold counts from its record until it is booked or ends. It counts what it takes of the disclosed resources: the
//! hold of a new version counts what it takes beyond the booking that it replaces, and counts nothing when that is
//! nothing. So a change that asks for no more than it had meets no quota, and neither does a return to a version that
//! is [`kept`](super::kept). A one-way hold has to be within the quotas like any other, and is booked in the same step.
//!
//! The totals change in the fold, with the entries; [`Participant::check_quotas`] compares them with the entries. What
//! is held stays held when a configuration with smaller quotas is read.
//!
//! Left out: quotas of what is booked, which the coordinators keep for their users. Source: docs/adr/0043-quotas.md.

use std::collections::BTreeMap;

use coalloc_common::planted::{self, Bug};
use coalloc_common::{
    AmountTime, CoordinatorName, Reason, Refusal, ResourceKind, Segment, TransactionId, UserName,
    first_exceeded,
};

use super::config::HoldQuota;
use super::footprint::Footprint;
use super::{Entry, Participant, Phase};
use crate::message::HoldOrder;

/// What somebody holds now.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Held {
    /// Number of holds that take anything.
    pub holds: u64,
    /// What they take, amount times time, by kind.
    pub amounts: BTreeMap<ResourceKind, AmountTime>,
}

impl Held {
    /// What one hold counts; `None` when it takes nothing.
    fn of_hold(amounts: BTreeMap<ResourceKind, AmountTime>) -> Option<Self> {
        (!amounts.is_empty()).then_some(Self { holds: 1, amounts })
    }

    fn add(&mut self, hold: &Self) {
        self.holds += hold.holds;
        for (kind, more) in &hold.amounts {
            let sum = self.amounts.entry(*kind).or_default();
            *sum = sum.wrapping_add(*more);
        }
    }

    /// Takes out what was added. A kind of which nothing is left is left out, so that equal totals are equal.
    fn remove(&mut self, hold: &Self) {
        self.holds = self.holds.saturating_sub(hold.holds);
        for (kind, less) in &hold.amounts {
            let Some(sum) = self.amounts.get_mut(kind) else { continue };
            *sum = sum.wrapping_sub(*less);
            if *sum == AmountTime::ZERO {
                self.amounts.remove(kind);
            }
        }
    }
}

/// What one coordinator holds: for each of its users who holds anything, and all together.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct CoordinatorHeld {
    all: Held,
    users: BTreeMap<UserName, Held>,
}

/// What all coordinators hold. Nobody who holds nothing is in it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct HeldTotals(BTreeMap<CoordinatorName, CoordinatorHeld>);

impl HeldTotals {
    fn add(&mut self, coordinator: &CoordinatorName, user: &UserName, hold: &Held) {
        let of = self.0.entry(coordinator.clone()).or_default();
        of.all.add(hold);
        of.users.entry(user.clone()).or_default().add(hold);
    }

    fn remove(&mut self, coordinator: &CoordinatorName, user: &UserName, hold: &Held) {
        let Some(of) = self.0.get_mut(coordinator) else { return };
        of.all.remove(hold);
        if let Some(total) = of.users.get_mut(user) {
            total.remove(hold);
            if total.holds == 0 {
                of.users.remove(user);
            }
        }
        if of.all.holds == 0 {
            self.0.remove(coordinator);
        }
    }

    fn of(&self, coordinator: &CoordinatorName) -> Option<&CoordinatorHeld> {
        self.0.get(coordinator)
    }
}

impl Participant {
    /// What a coordinator holds here now, for all of its users together or for one of them; `None`: nothing.
    #[must_use]
    pub fn held_by(&self, coordinator: &CoordinatorName, user: Option<&UserName>) -> Option<&Held> {
        let of = self.held.of(coordinator)?;
        user.map_or(Some(&of.all), |user| of.users.get(user))
    }

    /// Why an order is one hold too many; `None` if it is not. Cheap, so that it stands before the admission.
    pub(super) fn refusal_of_holds(&self, order: &HoldOrder) -> Option<Refusal> {
        let quotas = self.config.quotas.of(&order.coordinator);
        let of = self.held.of(&order.coordinator)?;
        let all = (false, &quotas.all, of.all.holds);
        let used = of.users.get(&order.user).map_or(0, |held| held.holds);
        let user = (true, quotas.of_user(&order.user), used);
        let is_full = |(_, quota, used): &(_, &HoldQuota, _)| *used >= u64::from(quota.holds);
        let (is_user, quota, used) = [user, all].into_iter().find(is_full)?;
        if order.replaces.is_some() && self.takes_nothing(order) {
            return None;
        }
        let (who, most) = (owner(order, is_user), quota.holds);
        let detail = format!(
            "{who} has {used} of at most {most} holds here that are not booked yet: none is left \
             until one of them is booked or ends"
        );
        Some(Refusal::new(Reason::Quota, detail).at(&self.config.name))
    }

    /// Does the hold of a new version take nothing beyond the booking that it replaces?
    fn takes_nothing(&self, order: &HoldOrder) -> bool {
        let order = self.in_whole_servers(order);
        let own = self.own(order.replaces.as_ref()).unwrap_or_default();
        let wanted = Footprint::of(&order.segments);
        wanted.beyond(&own).segments().is_empty()
    }

    /// Why an order that fits would be held too much; `None` if it would not.
    pub(super) fn refusal_of_held(&self, order: &HoldOrder, taken: &Footprint) -> Option<Refusal> {
        let quotas = self.config.quotas.of(&order.coordinator);
        let all = (false, &quotas.all);
        let user = (true, quotas.of_user(&order.user));
        if all.1.held.is_empty() && user.1.held.is_empty() {
            return None;
        }
        let (nothing, wanted) = (BTreeMap::new(), self.amounts_of(&taken.segments()));
        for (is_user, quota) in [user, all] {
            let held = self.held_by(&order.coordinator, is_user.then_some(&order.user));
            let used = held.map(|held| &held.amounts).unwrap_or(&nothing);
            if let Some(exceeded) = first_exceeded(&quota.held, used, &wanted) {
                let kind = exceeded.kind;
                let detail = format!(
                    "{} holds {} of at most {} here that are not booked yet: {} are left, and this \
                     hold takes {}",
                    owner(order, is_user),
                    exceeded.used.show_up(kind),
                    exceeded.most.show_down(kind),
                    exceeded.left().show_down(kind),
                    exceeded.wanted.show_up(kind),
                );
                return Some(Refusal::new(Reason::Quota, detail).at(&self.config.name));
            }
        }
        None
    }

    /// What segments take, amount times time, by kind. Inner links and servers are no resources of their own and do
    /// not count.
    fn amounts_of(&self, taken: &[Segment]) -> BTreeMap<ResourceKind, AmountTime> {
        let mut amounts: BTreeMap<ResourceKind, AmountTime> = BTreeMap::new();
        for Segment { resource, amount, window } in taken {
            if !self.is_hidden(resource) {
                let sum = amounts.entry(self.config.kinds.of(resource)).or_default();
                *sum = sum.wrapping_add(AmountTime::of(*amount, *window));
            }
        }
        amounts
    }

    /// What an entry counts now; `None` when it is no hold or takes nothing.
    fn counts(&self, entry: &Entry) -> Option<(CoordinatorName, UserName, Held)> {
        let (Phase::Held(held), Some(order)) = (&entry.phase, &entry.order) else { return None };
        if planted::is(Bug::HoldsUncounted) {
            return None;
        }
        let hold = Held::of_hold(self.amounts_of(&held.taken))?;
        Some((entry.coordinator.clone(), order.user.clone(), hold))
    }

    /// Counts a transaction that is now held, or takes more than before.
    pub(super) fn count_hold(&mut self, txn: &TransactionId) {
        let counts = self.entries.get(txn).and_then(|entry| self.counts(entry));
        if let Some((coordinator, user, hold)) = counts {
            self.held.add(&coordinator, &user, &hold);
        }
    }

    /// Stops counting a transaction, if it is held, before it is booked, ends, or takes more.
    pub(super) fn discount_hold(&mut self, txn: &TransactionId) {
        let counts = self.entries.get(txn).and_then(|entry| self.counts(entry));
        if let Some((coordinator, user, hold)) = counts {
            self.held.remove(&coordinator, &user, &hold);
        }
    }

    /// Checks that the totals are the sums of the holds.
    pub(super) fn check_quotas(&self) -> Result<(), String> {
        let mut naive = HeldTotals::default();
        for (coordinator, user, hold) in self.entries.values().filter_map(|one| self.counts(one)) {
            naive.add(&coordinator, &user, &hold);
        }
        if naive != self.held {
            return Err("I12: what the coordinators hold is not the sum of their holds".to_owned());
        }
        Ok(())
    }
}

/// Whose quota it is, as people say it.
fn owner(order: &HoldOrder, is_user: bool) -> String {
    let (coordinator, user) = (&order.coordinator, &order.user);
    if is_user {
        format!("user {user} of coordinator {coordinator}")
    } else {
        format!("coordinator {coordinator}")
    }
}
