//! A second opinion on capacity and time, computed from the records alone and by the simplest means: amounts
//! are added up instant by instant in lists, and intervals are measured by the time of the world.
//!
//! The cores check themselves against their own timetables and clocks, and the shadows share their code, so
//! that a mistake in that code is a mistake on both sides. This module shares none of it. Planted bugs showed
//! what the other checks missed: unnecessary refusals, holds that last too long, decisions that come too
//! late, aborts that nobody has decided.
//!
//! Left out: refusals because of service levels and inner networks, which other modules test.

use std::collections::{BTreeMap, BTreeSet};

use coalloc_common::{
    Amount, Now, Reason, ResourceId, Segment, Span, Time, TransactionId, Window, limits,
};
use coalloc_protocol::coordinator::CoordinatorRecord;
use coalloc_protocol::message::{Cause, Decision, HoldOrder};
use coalloc_protocol::participant::{ParticipantRecord, Phase, SegmentServers, TransactionEnd};

use super::World;
use super::asking::SYNC_US_MAX;

/// What is held or booked at each RM, and since when its process runs.
#[derive(Debug, Default)]
pub struct Model {
    /// Holds and bookings, by RM and transaction.
    live: BTreeMap<usize, BTreeMap<TransactionId, ModelEntry>>,
    /// The segments that are kept of transactions that were replaced, by RM and transaction.
    kept: BTreeMap<usize, BTreeMap<TransactionId, Vec<Segment>>>,
    /// When the process of each RM began, or continued after it was frozen.
    awake_us: BTreeMap<usize, i64>,
}

/// A hold or a booking.
#[derive(Debug)]
struct ModelEntry {
    order: HoldOrder,
    /// The segments of the booking that this one is to replace, and what is kept beside that booking. This
    /// entry takes that much less, also when the replaced booking ends first; then this entry can never be
    /// booked.
    beside: Vec<Segment>,
}

/// How much these segments take of a resource at an instant.
fn wants(segments: &[Segment], resource: &ResourceId, at: Time) -> u64 {
    let there = |segment: &&Segment| {
        segment.resource == *resource && segment.window.start() <= at && at < segment.window.end()
    };
    segments.iter().filter(there).map(|segment| segment.amount.0).sum()
}

/// The amounts by which `own` exceeds `new`, from each instant at which a segment begins or ends to the next.
fn surplus(own: &[Segment], new: &[Segment]) -> Vec<Segment> {
    let resources: BTreeSet<&ResourceId> = own.iter().map(|segment| &segment.resource).collect();
    let mut surplus = Vec::new();
    for resource in resources {
        let all = own.iter().chain(new).filter(|segment| segment.resource == *resource);
        let edges = all.flat_map(|segment| [segment.window.start(), segment.window.end()]);
        let edges: BTreeSet<Time> = edges.collect();
        for (from, to) in edges.iter().zip(edges.iter().skip(1)) {
            let more = wants(own, resource, *from).saturating_sub(wants(new, resource, *from));
            if let Some(window) = Window::new(*from, *to).filter(|_| more > 0) {
                surplus.push(Segment { resource: resource.clone(), amount: Amount(more), window });
            }
        }
    }
    surplus
}

/// A whole server over a window.
fn of_server(name: &ResourceId, window: Window) -> Segment {
    Segment { resource: name.clone(), amount: Amount(1), window }
}

/// An order with a segment for each server that it has.
fn with_servers(order: &HoldOrder, servers: &[SegmentServers]) -> HoldOrder {
    let mut all = order.clone();
    for (segment, of) in order.segments.iter().zip(servers) {
        all.segments.extend(of.servers.iter().map(|name| of_server(name, segment.window)));
    }
    all
}

impl Model {
    /// The segments kept of the transaction that this order's transaction has replaced.
    fn kept_before(&self, rm: usize, order: &HoldOrder) -> Vec<Segment> {
        let kept = order.replaces.as_ref().and_then(|old| self.kept.get(&rm)?.get(old));
        kept.cloned().unwrap_or_default()
    }

    /// What an order may count as its own: the booking that it replaces, and what is kept beside that
    /// booking.
    fn own_segments(&self, rm: usize, order: &HoldOrder) -> Vec<Segment> {
        let old = order.replaces.as_ref().and_then(|old| self.live.get(&rm)?.get(old));
        let Some(old) = old else { return Vec::new() };
        let kept = self.kept_before(rm, &old.order);
        old.order.segments.iter().cloned().chain(kept).collect()
    }

    /// A new version is booked: what it no longer uses is either kept or freed.
    fn replace(&mut self, rm: usize, new: &HoldOrder) {
        let Some(old) = &new.replaces else { return };
        let left = surplus(&self.own_segments(rm, new), &new.segments);
        let before = self.live.entry(rm).or_default().remove(old);
        let kept = self.kept.entry(rm).or_default();
        if let Some(before) = before.and_then(|before| before.order.replaces) {
            kept.remove(&before);
        }
        if new.keeps_old {
            kept.insert(old.clone(), left);
        }
    }

    /// Holds that count on segments which are no longer kept take those amounts themselves.
    fn count_again(&mut self, rm: usize) {
        let Some(live) = self.live.get(&rm) else { return };
        let counts = |taken: &&ModelEntry| {
            let old = taken.order.replaces.as_ref().and_then(|old| live.get(old));
            !taken.beside.is_empty() && old.is_some()
        };
        let held = live.values().filter(counts).map(|taken| taken.order.clone());
        for order in held.collect::<Vec<HoldOrder>>() {
            let own = self.own_segments(rm, &order);
            let taken = self.live.get_mut(&rm).and_then(|live| live.get_mut(&order.txn));
            if let Some(taken) = taken {
                taken.beside = own;
            }
        }
    }

    /// What all other transactions take of a resource at an instant. Of a booking and its new version, the
    /// larger counts.
    fn others(&self, rm: usize, order: &HoldOrder, resource: &ResourceId, at: Time) -> u64 {
        let Some(live) = self.live.get(&rm) else { return 0 };
        let own = order.replaces.as_ref().and_then(|old| live.get(old)?.order.replaces.as_ref());
        let kept = self.kept.get(&rm).into_iter().flatten();
        let kept = kept.filter(|(txn, _)| Some(*txn) != own);
        let kept: u64 = kept.map(|(_, kept)| wants(kept, resource, at)).sum();
        let others = live
            .iter()
            .filter(|(txn, _)| **txn != order.txn && Some(*txn) != order.replaces.as_ref());
        let beyond = |(_, other): (&TransactionId, &ModelEntry)| {
            let beside = wants(&other.beside, resource, at);
            wants(&other.order.segments, resource, at).saturating_sub(beside)
        };
        kept + others.map(beyond).sum::<u64>()
    }

    /// Every instant within the order's windows at which a segment of the order or of another transaction
    /// begins or ends.
    fn instants(&self, rm: usize, order: &HoldOrder) -> Vec<(ResourceId, Time)> {
        let mut instants = Vec::new();
        for segment in &order.segments {
            let (resource, window) = (&segment.resource, segment.window);
            let all = self.live.get(&rm).into_iter().flat_map(BTreeMap::values);
            // A change takes more where the booking that it is to replace ends, also when that booking is
            // gone.
            let all = all.flat_map(|taken| taken.order.segments.iter().chain(&taken.beside));
            let kept = self.kept.get(&rm).into_iter().flat_map(BTreeMap::values).flatten();
            let of = all.chain(&order.segments).chain(kept);
            let of = of.filter(|other| other.resource == *resource);
            let edges = of.flat_map(|other| [other.window.start(), other.window.end()]);
            let inside = edges.filter(|at| window.start() <= *at && *at < window.end());
            instants.extend(inside.map(|at| (resource.clone(), at)));
        }
        instants.sort_unstable();
        instants.dedup();
        instants
    }

    /// The first resource and instant at which the order does not fit beside all others, if there is one.
    fn excess(
        &self,
        rm: usize,
        order: &HoldOrder,
        capacity: impl Fn(&ResourceId) -> Amount,
    ) -> Option<(ResourceId, Time)> {
        let own = self.own_segments(rm, order);
        self.instants(rm, order).into_iter().find(|(resource, at)| {
            let new = wants(&order.segments, resource, *at);
            let more = new > wants(&own, resource, *at);
            more && self.others(rm, order, resource, *at) + new > capacity(resource).0
        })
    }
}

impl World {
    /// An RM's ledger was put back to an older state, so the model takes over that state.
    pub(super) fn model_again(&mut self, rm: usize) {
        let entries = self.rms[rm].shadow.entries();
        let live = entries.iter().filter_map(|(txn, entry)| {
            let is_held = matches!(entry.phase, Phase::Held(_));
            let order = entry.order.as_ref().map(|order| with_servers(order, &entry.servers));
            let order = order.filter(|_| is_held || entry.phase == Phase::Booked)?;
            let old = order.replaces.as_ref().filter(|_| is_held);
            let old = old.and_then(|old| {
                let entry = entries.get(old)?;
                Some(with_servers(entry.order.as_ref()?, &entry.servers))
            });
            let old = old.as_ref();
            let kept = old.and_then(|old| entries.get(old.replaces.as_ref()?));
            let kept = kept.into_iter().flat_map(|entry| &entry.kept);
            let beside = old.into_iter().flat_map(|old| &old.segments).chain(kept).cloned();
            let beside = beside.collect();
            Some((txn.clone(), ModelEntry { order, beside }))
        });
        let live = live.collect();
        let kept = entries.iter().filter(|(_, entry)| !entry.kept.is_empty());
        let kept = kept.map(|(txn, entry)| (txn.clone(), entry.kept.clone())).collect();
        self.watch.model.live.insert(rm, live);
        self.watch.model.kept.insert(rm, kept);
    }

    /// The process of an RM has begun, or continues after it was frozen.
    pub(super) fn model_awake(&mut self, rm: usize, at_us: i64) {
        self.watch.model.awake_us.insert(rm, at_us);
    }

    /// Called with the records of an RM's batch before any of them is checked. What fell due while the RM was
    /// down ends in the first batch of the new process, possibly before the record that the process has
    /// opened.
    pub(super) fn model_batch(&mut self, rm: usize, records: &[ParticipantRecord]) {
        if records.iter().any(|record| matches!(record, ParticipantRecord::Opened { .. })) {
            self.model_awake(rm, self.now_us);
        }
    }

    /// Checks and applies one record of an RM.
    pub(super) fn model_rm(&mut self, rm: usize, record: &ParticipantRecord) -> Result<(), String> {
        match record {
            ParticipantRecord::Held { order, servers, .. } => {
                let order = &with_servers(order, servers);
                if let Some((resource, at)) = self.model_excess(rm, order) {
                    let (name, txn) = (&self.rms[rm].name, &order.txn);
                    return Err(format!(
                        "I1: {name} holds {txn} beyond the capacity of {resource} at {at}"
                    ));
                }
                let beside = self.watch.model.own_segments(rm, order);
                let live = self.watch.model.live.entry(rm).or_default();
                live.insert(order.txn.clone(), ModelEntry { order: order.clone(), beside });
            }
            ParticipantRecord::Refused { order, whole, refusal, at } => {
                let config = self.rms[rm].shadow.config();
                let is_whole = whole.is_none();
                let plain = is_whole && config.levels.is_empty() && config.inside.is_none();
                if plain
                    && refusal.reason == Reason::InsufficientCapacity
                    && self.model_excess(rm, order).is_none()
                    && self.has_servers(rm, order, at.wall)
                {
                    let (name, txn) = (&self.rms[rm].name, &order.txn);
                    return Err(format!("{name} refuses {txn}, which would fit: {refusal}"));
                }
            }
            ParticipantRecord::ClaimRefused { txn, .. } => {
                self.watch.model.live.entry(rm).or_default().remove(txn);
            }
            ParticipantRecord::Booked { txn, at, .. } => {
                self.check_length(rm, txn, *at, false)?;
                let live = self.watch.model.live.entry(rm).or_default();
                if let Some(taken) = live.get_mut(txn) {
                    taken.beside.clear();
                    let order = taken.order.clone();
                    self.watch.model.replace(rm, &order);
                }
            }
            ParticipantRecord::Ended { txn, ending, by, at, .. } => {
                if *ending == TransactionEnd::Expired {
                    self.check_length(rm, txn, *at, true)?;
                }
                let told = matches!(by, Cause::Coordinator(_) | Cause::Resolve(_));
                let decided = self.watch.is_decided(txn) || self.watch.exempt.is_stolen(txn);
                if *ending == TransactionEnd::Aborted && told && !decided {
                    let name = &self.rms[rm].name;
                    return Err(format!("I3: {name} aborts {txn}, which nobody has decided"));
                }
                self.watch.model.live.entry(rm).or_default().remove(txn);
                if self.watch.model.kept.entry(rm).or_default().remove(txn).is_some() {
                    self.watch.model.count_again(rm);
                }
            }
            ParticipantRecord::Forgotten { transactions, .. } => {
                let ids = transactions.iter().map(|txn| (rm, txn.clone()));
                self.counts.at_rest += transactions.len() as u64;
                self.watch.forgotten.extend(ids);
            }
            ParticipantRecord::Opened { .. }
            | ParticipantRecord::Moved { .. }
            | ParticipantRecord::LeaderChanged { .. }
            | ParticipantRecord::Claimed { .. }
            | ParticipantRecord::Equipped { .. } => {}
        }
        Ok(())
    }

    fn model_excess(&self, rm: usize, order: &HoldOrder) -> Option<(ResourceId, Time)> {
        let shadow = &self.rms[rm].shadow;
        let servers = || shadow.config().servers.values().flat_map(|site| &site.names);
        let capacity = |resource: &ResourceId| match shadow.timetable(resource) {
            Some(known) => known.capacity(),
            None if servers().any(|name| name == resource) => Amount(1),
            None => Amount(u64::MAX),
        };
        self.watch.model.excess(rm, order, capacity)
    }

    /// Are enough servers idle throughout each segment of an order at a by-server site, or those that it picks?
    /// No, when a segment goes on with servers that are in use: it may need just these.
    fn has_servers(&self, rm: usize, order: &HoldOrder, now: Time) -> bool {
        let picked = order.servers.as_ref().map(|wish| wish.picked.clone()).unwrap_or_default();
        let sites = &self.rms[rm].shadow.config().servers;
        let own = self.watch.model.own_segments(rm, order);
        order.segments.iter().all(|segment| {
            let Some(site) = sites.get(&segment.resource) else { return true };
            // Whether segments that overlap get servers depends on which servers the others among them get.
            let beside = |other: &&Segment| {
                other.resource == segment.resource && other.window.overlaps(segment.window)
            };
            if order.segments.iter().filter(beside).count() > 1 {
                return false;
            }
            let goes_on = |own: &Segment| {
                let same = own.resource == segment.resource && own.window.start() <= now;
                same && own.window.overlaps(segment.window)
            };
            if own.iter().any(goes_on) {
                return false;
            }
            let wanted = usize::try_from(segment.amount.0.div_ceil(site.cpus_each)).unwrap_or(0);
            let is_idle = |name: &&ResourceId| {
                let segments = vec![of_server(name, segment.window)];
                self.model_excess(rm, &HoldOrder { segments, ..order.clone() }).is_none()
            };
            let mut picked = picked.iter().filter(|name| site.names.contains(name)).peekable();
            match picked.peek() {
                Some(_) => picked.all(|name| is_idle(&name)),
                None => site.names.iter().filter(is_idle).count() >= wanted,
            }
        })
    }

    /// I14: by the time of the world, no hold is booked later than it was to last, or expires much later, on
    /// a machine whose wall clock nobody set. A hold of an RM that was down or frozen expires when the RM is
    /// back.
    fn check_length(
        &self,
        rm: usize,
        txn: &TransactionId,
        at: Now,
        expires: bool,
    ) -> Result<(), String> {
        let node = &self.rms[rm];
        let Some((held_us, hard)) = self.watch.hold(rm, txn).filter(|_| !node.clock.was_set) else {
            return Ok(());
        };
        let awake_us = self.watch.model.awake_us.get(&rm).copied().unwrap_or_default();
        let due_us = held_us + hard.as_us();
        let due_us = if expires { due_us.max(awake_us) + SYNC_US_MAX } else { due_us };
        let at_us = node.world_us(at.boot);
        if at_us > due_us && !self.watch.exempt.is_lost_txn(txn) {
            let (name, lasted) = (&node.name, Span::from_us(at_us - held_us));
            return Err(format!("I14: {txn} at {name} was held for {hard}, but lasts {lasted}"));
        }
        Ok(())
    }

    /// A decision leaves every hold its margin, and does not claim that the holds last longer than they do
    /// (I3).
    pub(super) fn model_grc(&self, grc: usize, record: &CoordinatorRecord) -> Result<(), String> {
        let CoordinatorRecord::Decided {
            txn,
            decision: Decision::Commit,
            expires_in: Some(expires_in),
            at,
            ..
        } = record
        else {
            return Ok(());
        };
        let below = self.members.contains_key(&grc);
        if !below && *expires_in < limits::COMMIT_MARGIN {
            return Err(format!(
                "I3: {txn} is decided only {expires_in} before one of its holds ends"
            ));
        }
        let ends_us = self.grcs[grc].world_us(at.boot).saturating_add(expires_in.as_us());
        for rm in 0..self.rms.len() {
            if let Some((held_us, hard)) = self.watch.hold(rm, txn)
                && ends_us > held_us + hard.as_us()
                && !self.watch.exempt.is_free(rm, txn)
            {
                let name = &self.rms[rm].name;
                return Err(format!(
                    "I3: {txn} is decided, but its hold at {name} ends earlier than the decision \
                     says"
                ));
            }
        }
        Ok(())
    }
}
