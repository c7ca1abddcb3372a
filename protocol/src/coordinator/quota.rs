//! Quotas of what each user has reserved at this coordinator: how many live reservations, and how much of each kind
//! over the time to come.
//!
//! A reservation is live from its record until it is over, is released, or the end of its last window has passed. Ahead
//! is what it takes from now on: amount times time, by kind, of what is booked or being held. While a change is under way,
//! each kind counts what the larger of the two versions takes.
//!
//! Every attempt is checked in the step that would record it, so that two requests of one user never pass on the same
//! remainder. A change is no further reservation, and a kind of which it takes no more than before is never refused. Which
//! reservations are live follows the reservations in the fold ([`Coordinator::relist_after`]), and
//! [`Coordinator::check_live`] compares it with them.
//!
//! Left out: what a user holds at a resource manager ([`crate::participant::quota`]), calls a second, and what is
//! reserved for parent coordinators, which have quotas for their users themselves. Source: docs/adr/0043-quotas.md.

use std::collections::{BTreeMap, BTreeSet};

use coalloc_common::{
    AmountTime, Exceeded, Reason, Refusal, ReservationId, ResourceKind, Time, UserName, Window,
    first_exceeded, limits,
};

use super::Coordinator;
use super::record::CoordinatorRecord;
use super::reservation::{Candidate, Reservation};

/// How much one user may have reserved.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReservationQuota {
    /// The most live reservations.
    pub live: u32,
    /// The most that they may take from now on, by kind. A kind that is not listed has no quota.
    pub ahead: BTreeMap<ResourceKind, AmountTime>,
}

impl Default for ReservationQuota {
    fn default() -> Self {
        Self { live: limits::RESERVATIONS_PER_USER, ahead: BTreeMap::new() }
    }
}

/// The quotas of all users of one coordinator.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ReservationQuotas {
    /// For each user who is not in `users`.
    pub each: ReservationQuota,
    /// For users with quotas of their own.
    pub users: BTreeMap<UserName, ReservationQuota>,
}

impl ReservationQuotas {
    /// The quota of a user.
    #[must_use]
    pub fn of(&self, user: &UserName) -> &ReservationQuota {
        self.users.get(user).unwrap_or(&self.each)
    }
}

/// What a user has reserved.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ReservedByUser {
    /// Number of live reservations.
    pub live: u64,
    /// What they take from now on, by kind. A kind of which they take nothing is not listed.
    pub ahead: BTreeMap<ResourceKind, AmountTime>,
}

/// The reservations of each user that are not over, by the end of their last window.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct LiveReservations {
    by_user: BTreeMap<UserName, BTreeSet<(Time, ReservationId)>>,
    ends: BTreeMap<ReservationId, Time>,
}

impl LiveReservations {
    pub(super) fn set(&mut self, reservation: &Reservation) {
        let (id, user) = (&reservation.id, &reservation.ticket.user);
        let end = end_of(reservation);
        if self.ends.get(id).copied() == end {
            return;
        }
        if let Some(before) = self.ends.remove(id)
            && let Some(own) = self.by_user.get_mut(user)
        {
            own.remove(&(before, id.clone()));
            if own.is_empty() {
                self.by_user.remove(user);
            }
        }
        if let Some(end) = end {
            self.ends.insert(id.clone(), end);
            self.by_user.entry(user.clone()).or_default().insert((end, id.clone()));
        }
    }

    /// How many reservations of a user are listed, also those whose time is over.
    fn listed(&self, user: &UserName) -> usize {
        self.by_user.get(user).map_or(0, BTreeSet::len)
    }

    /// The reservations of a user that end after `now`.
    fn of(&self, user: &UserName, now: Time) -> impl Iterator<Item = &ReservationId> {
        let own = self.by_user.get(user).into_iter();
        let later =
            own.flat_map(move |own| own.iter().rev().take_while(move |(end, _)| *end > now));
        later.map(|(_, id)| id)
    }
}

/// Until when a reservation is live; `None` when it is over, or is not a user's own.
fn end_of(reservation: &Reservation) -> Option<Time> {
    if reservation.is_over() || reservation.parent_transaction.is_some() {
        return None;
    }
    let candidates = versions(reservation).flat_map(|version| version.segments.values().flatten());
    // Nothing is known of its windows before its first attempt.
    Some(candidates.map(|segment| segment.window.end()).max().unwrap_or(Time::MAX))
}

/// What is booked or being held of a reservation, and what a change under way would book instead.
fn versions(reservation: &Reservation) -> impl Iterator<Item = &Candidate> {
    let change = reservation.change.as_ref().filter(|change| change.is_under_way());
    reservation.candidate.iter().chain(change.and_then(|change| change.candidate.as_ref()))
}

/// What a candidate takes from `now` on, by kind.
fn ahead_of(candidate: &Candidate, now: Time) -> BTreeMap<ResourceKind, AmountTime> {
    let mut ahead: BTreeMap<ResourceKind, AmountTime> = BTreeMap::new();
    for (rm, segments) in &candidate.segments {
        // Ledgers from before there were quotas do not say kinds.
        let Some(kinds) = candidate.kinds.get(rm) else { continue };
        for segment in segments {
            let left = Window::new(segment.window.start().max(now), segment.window.end());
            let Some(left) = left.filter(|_| segment.amount.0 > 0) else { continue };
            let sum = ahead.entry(kinds.of(&segment.resource)).or_default();
            *sum = sum.saturating_add(AmountTime::of(segment.amount, left));
        }
    }
    ahead
}

/// What a reservation takes from `now` on, by kind.
fn ahead_of_reservation(
    reservation: &Reservation,
    now: Time,
) -> BTreeMap<ResourceKind, AmountTime> {
    let mut most: BTreeMap<ResourceKind, AmountTime> = BTreeMap::new();
    for version in versions(reservation) {
        for (kind, amount) in ahead_of(version, now) {
            let known = most.entry(kind).or_default();
            *known = amount.max(*known);
        }
    }
    most
}

impl Coordinator {
    /// Sets how much each user may have reserved. What is reserved already stays.
    pub fn set_quotas(&mut self, quotas: ReservationQuotas) {
        self.quotas = quotas;
    }

    /// How much each user may have reserved.
    #[must_use]
    pub const fn quotas(&self) -> &ReservationQuotas {
        &self.quotas
    }

    /// What a user has reserved, as it counts at this time. Its cost grows with the number of the user's live
    /// reservations.
    #[must_use]
    pub fn reserved_by(&self, user: &UserName, now: Time) -> ReservedByUser {
        self.reserved_besides(user, None, now)
    }

    fn reserved_besides(
        &self,
        user: &UserName,
        besides: Option<&ReservationId>,
        now: Time,
    ) -> ReservedByUser {
        let mut reserved = ReservedByUser::default();
        for id in self.live.of(user, now).filter(|id| Some(*id) != besides) {
            reserved.live += 1;
            let known = self.reservations.get(id);
            for (kind, more) in
                known.map(|known| ahead_of_reservation(known, now)).unwrap_or_default()
            {
                let sum = reserved.ahead.entry(kind).or_default();
                *sum = sum.saturating_add(more);
            }
        }
        reserved
    }

    /// The first candidate from this one on that is within the quota of the reservation's user; or why none is. The
    /// candidates before it are used up.
    #[allow(clippy::result_large_err)] // The refusal becomes a record at once.
    pub(super) fn within_quota(
        &mut self,
        id: &ReservationId,
        first: Candidate,
        now: Time,
    ) -> Result<Candidate, Refusal> {
        let Some(known) = self.reservations.get(id) else { return Ok(first) };
        if known.parent_transaction.is_some() {
            return Ok(first);
        }
        let user = &known.ticket.user;
        let quota = self.quotas.of(user);
        let changed = known.is_changing().then_some(known);
        // Those whose time is over are listed, too, so this is mostly all that it takes.
        if changed.is_none() && self.live.listed(user) > quota.live as usize {
            let live = self.live.of(user, now).filter(|other| *other != id).count() as u64;
            if live >= u64::from(quota.live) {
                return Err(too_many(user, live, quota.live));
            }
        }
        if quota.ahead.is_empty() {
            return Ok(first);
        }
        let others = self.reserved_besides(user, Some(id), now).ahead;
        let own = changed.and_then(|known| known.candidate.as_ref());
        let own = own.map(|booked| ahead_of(booked, now)).unwrap_or_default();
        let exceeded = |candidate: &Candidate| {
            let mut wanted = ahead_of(candidate, now);
            wanted.retain(|kind, wanted| own.get(kind).is_none_or(|own| *wanted > *own));
            first_exceeded(&quota.ahead, &others, &wanted)
        };
        let refusal = match exceeded(&first) {
            None => return Ok(first),
            Some(exceeded) => too_much(user, &exceeded),
        };
        // Another plan may take a shorter way, and so less bandwidth.
        let next =
            self.trying.get_mut(id).and_then(|trying| trying.take_first(|c| exceeded(c).is_none()));
        next.ok_or(refusal)
    }

    /// After a record, lists its reservation anew among those that are live.
    pub(super) fn relist_after(&mut self, record: &CoordinatorRecord) {
        let subject = record.subject();
        let id = subject.as_ref().and_then(|subject| subject.reservation(&self.transactions));
        if let Some(reservation) = id.and_then(|id| self.reservations.get(id)) {
            self.live.set(reservation);
            self.usages.set(reservation);
        }
    }

    /// Checks that those that are listed as live are those that are.
    pub(super) fn check_live(&self) -> Result<(), String> {
        let mut naive = LiveReservations::default();
        self.reservations.values().for_each(|reservation| naive.set(reservation));
        if naive != self.live {
            return Err(
                "I12: the live reservations of users are not those that are live".to_owned()
            );
        }
        Ok(())
    }
}

fn too_many(user: &UserName, live: u64, most: u32) -> Refusal {
    let detail = format!(
        "user {user} has {live} of at most {most} live reservations at this coordinator: none is left until one of \
         them is released or its time is over"
    );
    Refusal::new(Reason::Quota, detail)
}

fn too_much(user: &UserName, exceeded: &Exceeded) -> Refusal {
    let Exceeded { kind, .. } = exceeded;
    let detail = format!(
        "user {user} has reserved {} from now on, of at most {} at this coordinator: {} are left, and this takes {}",
        exceeded.used.show_up(*kind),
        exceeded.most.show_down(*kind),
        exceeded.left().show_down(*kind),
        exceeded.wanted.show_up(*kind),
    );
    Refusal::new(Reason::Quota, detail)
}
