//! The inner network of an NRM: the links over which its disclosed paths are routed, and the interface of its router.
//!
//! The participant keeps a timetable of every inner link beside those of the paths. It asks an [`InnerRouter`]
//! for routes when it admits a hold, and writes them into the record. So neither the fold nor replay needs a
//! router. Each segment of an order has a route of its own, and takes its amount on every link of that route.
//! What an entry takes of inner links is part of its footprint, so holds, bookings, changes and ends treat
//! inner links like all other resources.
//!
//! If the router allows it, entries that have not begun yet are rerouted to admit one more hold; their new
//! routes are in a record before that of the hold. An entry that takes part in a change of a reservation keeps
//! its routes, and so does one that begins within [`limits::INNER_MOVE_LEAD`]. Entries from before there was an
//! inner network get their routes at start.
//!
//! Nothing of this leaves the RM: refusals name paths, listings show orders, and from outside an inner link is
//! no resource. Source: docs/adr/0010-inner-networks.md.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fmt::Debug;

use coalloc_common::timetable::Layer;
use coalloc_common::{
    Amount, Now, Reason, Refusal, ResourceId, Segment, Time, TransactionId, Window, limits,
};
use serde::{Deserialize, Serialize};

use super::footprint::{Footprint, pieces};
use super::overlap::Overlaps;
use super::record::Take;
use super::{Entry, Participant, ParticipantRecord, Phase, SegmentServers};
use crate::core::ReplayError;
use crate::message::{Cause, HoldOrder};

/// The links of a route, in order from one end of the path to the other.
pub type InnerRoute = Vec<ResourceId>;

/// One amount of a path over a window that needs a route.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InnerDemand {
    /// The disclosed path.
    pub path: ResourceId,
    /// How much of it is needed.
    pub amount: Amount,
    /// The window in which it is needed.
    pub window: Window,
    /// The only route that it may take: the route of a booking that has begun.
    pub only: Option<InnerRoute>,
}

/// A demand that has a route.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InnerPlaced {
    /// The demand.
    pub demand: InnerDemand,
    /// Its route.
    pub route: InnerRoute,
}

/// A demand for which there is no route.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct InnerShort {
    /// The index of the demand.
    pub demand: usize,
    /// The amount for which there would be a route, beside the demands before this one.
    pub fits: Amount,
}

/// Routes for new demands, and new routes for demands that had one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InnerRearranged {
    /// The route of each new demand, in the order of the demands.
    pub routes: Vec<InnerRoute>,
    /// The index of each demand that was rerouted, and its new route.
    pub moved: Vec<(usize, InnerRoute)>,
}

/// Tells a router what is free of the inner links.
pub trait InnerFreeCapacity {
    /// What is free of this link over the whole window: the minimum; negative where more is promised than there is.
    fn free(&self, link: &ResourceId, window: Window) -> i64;
}

/// Routes demands over the inner links. It is deterministic, has no state and reads no clock. Its routes fit
/// within the free capacity that it is given.
pub trait InnerRouter: Debug + Send + Sync {
    /// Every link and its capacity. No link may have the name of a disclosed resource.
    fn links(&self) -> &[(ResourceId, Amount)];

    /// May entries that have not begun be rerouted?
    fn may_move(&self) -> bool;

    /// The most of a path, up to `most`, that one route can carry when `free` is free of each link, in the
    /// order of [`InnerRouter::links`].
    fn widest(&self, path: &ResourceId, free: &[i64], most: Amount) -> Amount;

    /// A route for every demand, such that all of them fit together.
    ///
    /// # Errors
    /// The first demand for which there is no route.
    fn route(
        &self,
        demands: &[InnerDemand],
        room: &dyn InnerFreeCapacity,
    ) -> Result<Vec<InnerRoute>, InnerShort>;

    /// Like [`InnerRouter::route`], with new routes for some of the `movable` demands. `None` when no solution
    /// was found. `effort` bounds how many demands are rerouted during the search.
    fn rearrange(
        &self,
        demands: &[InnerDemand],
        movable: &[InnerPlaced],
        room: &dyn InnerFreeCapacity,
        effort: usize,
    ) -> Option<InnerRearranged>;
}

/// New routes of one entry, one for each of its segments.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct InnerMove {
    /// The transaction of the entry.
    pub txn: TransactionId,
    /// All routes of the entry, in the order of its segments.
    pub inner: Vec<InnerRoute>,
}

/// The routes of a hold, and the entries that must be rerouted before it.
#[derive(Debug, Default)]
pub(super) struct InnerChoice {
    /// One route for each segment; `None` without an inner network.
    pub(super) inner: Option<Vec<InnerRoute>>,
    /// The servers of each segment; empty when none is at a by-server site.
    pub(super) servers: Vec<SegmentServers>,
    /// The entries that are rerouted first.
    pub(super) moves: Vec<InnerMove>,
}

/// What segments take of inner links on these routes.
pub(super) fn inner_footprint(segments: &[Segment], inner: Option<&[InnerRoute]>) -> Footprint {
    let routed = segments.iter().zip(inner.unwrap_or_default());
    Footprint::sum(routed.flat_map(|(segment, route)| {
        route.iter().map(|link| (link, segment.window, segment.amount))
    }))
}

/// The timetables of the links, with the share of a replaced booking counted as free.
struct LinkTimetables<'a> {
    participant: &'a Participant,
    own: Footprint,
}

impl InnerFreeCapacity for LinkTimetables<'_> {
    fn free(&self, link: &ResourceId, window: Window) -> i64 {
        self.participant.free_beside(&self.own, link, window)
    }
}

/// One segment that may be rerouted: its transaction, its index there, and its demand and route.
struct Movable {
    txn: TransactionId,
    segment: usize,
    placed: InnerPlaced,
}

/// What the inner network can carry over one window.
pub(super) struct InnerAt<'a> {
    inside: &'a dyn InnerRouter,
    old: Option<&'a Entry>,
    room: LinkTimetables<'a>,
    window: Window,
    /// What is free of each link.
    free: Vec<i64>,
    /// The demands that may be rerouted, and what would be free of each link without them. Computed only when needed.
    movable: Option<(Vec<InnerPlaced>, Vec<i64>)>,
    /// How many segments were looked at for that.
    looked: usize,
    /// How many searches for new routes may still be made, and how many were made.
    searches: usize,
    searched: usize,
}

impl InnerAt<'_> {
    pub(super) const fn window(&self) -> Window {
        self.window
    }

    /// How many searches for new routes of others may still be made.
    pub(super) const fn searches(&self) -> usize {
        self.searches
    }

    /// The work done so far, counted in looks at a timetable.
    pub(super) fn work(&self) -> usize {
        let looked = self
            .movable
            .as_ref()
            .map_or(0, |_| self.looked / limits::INNER_ENTRIES_A_LOOK + self.free.len());
        self.free.len() + looked + self.searched * limits::INNER_SEARCH_WORK
    }

    /// The only route that a path may take: the route of the replaced booking, if that has begun.
    fn begun_route(&self, path: &ResourceId, now: Now) -> Option<&InnerRoute> {
        self.old.filter(|old| old.begins_by(move_from(now)))?.route_of(path)
    }

    /// The most of a path that one route can carry without rerouting others.
    pub(super) fn most_as_is(&self, path: &ResourceId, most: Amount, now: Now) -> Amount {
        let Some(route) = self.begun_route(path, now) else {
            return self.inside.widest(path, &self.free, most);
        };
        let free = route.iter().map(|link| self.room.free(link, self.window)).min();
        most.min(Amount(free.unwrap_or(0).max(0).unsigned_abs()))
    }

    /// The most of a path that one route can carry, with rerouting of others if that is allowed. When no search
    /// is left, this is the amount without rerouting; a hold may then get more than a query reports.
    pub(super) fn most(&mut self, path: &ResourceId, most: Amount, now: Now) -> Amount {
        let participant = self.room.participant;
        let here = self.most_as_is(path, most, now);
        let stays = !self.inside.may_move() || self.begun_route(path, now).is_some();
        if here >= most || stays || self.searches == 0 {
            return here;
        }
        let demand =
            |amount| InnerDemand { path: path.clone(), amount, window: self.window, only: None };
        let (movable, without) = self.movable.get_or_insert_with(|| {
            let (movable, looked) = participant.movable(&[demand(most)], now);
            self.looked = looked;
            let movable = movable.into_iter().map(|movable| movable.placed);
            let movable: Vec<InnerPlaced> = movable.collect();
            let lifted: Vec<Segment> = movable.iter().flat_map(InnerPlaced::segments).collect();
            let without = LinkTimetables { participant, own: Footprint::of(&lifted) };
            let links = self.inside.links().iter();
            let free = links.map(|(link, _)| without.free(link, self.window)).collect();
            (movable, free)
        });
        let room = LinkTimetables { participant, own: Footprint::default() };
        // First try what is free without all that may be rerouted; then bisect a few times.
        let (mut low, mut high) = (here, self.inside.widest(path, without, most));
        let mut next = high;
        for _ in 0..limits::INNER_MOVE_GUESSES {
            if next <= low || self.searches == 0 {
                break;
            }
            self.searches -= 1;
            self.searched += 1;
            let effort = limits::INNER_QUERY_EFFORT;
            if self.inside.rearrange(&[demand(next)], movable, &room, effort).is_some() {
                low = next;
            } else {
                high = next;
            }
            next = Amount(u64::midpoint(low.0, high.0));
        }
        low
    }
}

impl Participant {
    /// What is free of a hidden resource over a whole window when `own` counts as free; negative where more is
    /// promised than there is.
    pub(super) fn free_beside(&self, own: &Footprint, name: &ResourceId, window: Window) -> i64 {
        let Some(timetable) = self.timetables.get(name) else { return 0 };
        let Some(own) = own.steps(name) else { return timetable.slack(window) };
        let free = |piece: Window| {
            let own = i64::try_from(own.at(piece.start()).0).unwrap_or(i64::MAX);
            timetable.slack(piece).saturating_add(own)
        };
        pieces(window, own.changes_in(window)).into_iter().map(free).min().unwrap_or(0)
    }

    /// A live entry that takes a disclosed resource with the name of an inner link or a server, or the other way
    /// round. The inventory has changed so that one name means two things, and both would share a timetable, so an
    /// RM with such an entry must not start. An entry that has ended takes nothing any more, and does not count.
    #[must_use]
    pub fn name_of_two(&self, now: Now) -> Option<(&TransactionId, &ResourceId)> {
        let disclosed =
            |name: &ResourceId| self.config.resources.iter().any(|(own, _)| own == name);
        let live = |entry: &Entry| {
            let mut segments = entry.order.iter().flat_map(|order| &order.segments);
            entry.in_timetables().is_some() && segments.any(|s| s.window.end() > now.wall)
        };
        self.entries.iter().filter(|(_, entry)| live(entry)).find_map(|(txn, entry)| {
            let segments = entry.order.iter().flat_map(|order| &order.segments);
            let mut paths = segments.map(|segment| &segment.resource);
            let links = entry.inner.iter().flatten().flatten();
            let mut hidden = links.chain(entry.servers.iter().flat_map(|of| &of.servers));
            let name = paths.find(|path| self.is_hidden(path));
            name.or_else(|| hidden.find(|name| disclosed(name))).map(|name| (txn, name))
        })
    }

    /// Live entries that have no routes although there is an inner network: it was configured after they were
    /// admitted, and they did not fit into it.
    #[must_use]
    pub fn unrouted(&self, now: Now) -> Vec<&TransactionId> {
        if self.config.inside.is_none() {
            return Vec::new();
        }
        self.entries.iter().filter(|(_, e)| e.lacks_route(now)).map(|(txn, _)| txn).collect()
    }

    /// Routes for an order; no routes without an inner network.
    pub(super) fn route_inside(
        &self,
        order: &HoldOrder,
        now: Now,
    ) -> Result<InnerChoice, Box<Refusal>> {
        let Some(inside) = &self.config.inside else { return Ok(InnerChoice::default()) };
        let old = self.booked_entry(order.replaces.as_ref());
        let own = self.own(order.replaces.as_ref()).unwrap_or_default();
        // The routes of the booking, or of the version that it has replaced: a return to that version must
        // always succeed.
        let before = order.replaces.as_ref().and_then(|old| self.kept_before(old));
        let before = before.and_then(|before| self.entries.get(before));
        for version in [old, before].into_iter().flatten() {
            if let Some(inner) = self.same_routes(order, &own, version) {
                return Ok(InnerChoice { inner: Some(inner), ..InnerChoice::default() });
            }
        }
        let kept = kept_routes(order, old);
        let fixed = old.is_some_and(|old| old.begins_by(move_from(now)));
        let demand = |(segment, kept): (&Segment, Option<InnerRoute>)| InnerDemand {
            path: segment.resource.clone(),
            amount: segment.amount,
            window: segment.window,
            only: kept.filter(|_| fixed),
        };
        let demands: Vec<InnerDemand> = order.segments.iter().zip(kept).map(demand).collect();
        let short = match inside.route(&demands, &LinkTimetables { participant: self, own }) {
            Ok(inner) => return Ok(InnerChoice { inner: Some(inner), ..InnerChoice::default() }),
            Err(short) => short,
        };
        if inside.may_move() {
            let (movable, _) = self.movable(&demands, now);
            // The old version keeps what it has until the new one is booked, so no other entry may be
            // rerouted onto it.
            let room = LinkTimetables { participant: self, own: Footprint::default() };
            let placed: Vec<InnerPlaced> = movable.iter().map(|m| m.placed.clone()).collect();
            let effort = limits::INNER_MOVE_EFFORT;
            if let Some(found) = inside.rearrange(&demands, &placed, &room, effort) {
                let moves = self.moves(&movable, found.moved);
                let inner = Some(found.routes);
                return Ok(InnerChoice { inner, moves, ..InnerChoice::default() });
            }
        }
        Err(Box::new(self.no_route(order, short)))
    }

    /// The inner network over a window, for a hold that may replace a booking and may make so many searches for
    /// new routes of others; `None` without an inner network.
    pub(super) fn inner_at(
        &self,
        window: Window,
        replaces: Option<&TransactionId>,
        searches: usize,
    ) -> Option<InnerAt<'_>> {
        let inside = self.config.inside.as_deref()?;
        let old = self.booked_entry(replaces);
        let own = self.own(replaces).unwrap_or_default();
        let room = LinkTimetables { participant: self, own };
        let free = inside.links().iter().map(|(link, _)| room.free(link, window)).collect();
        let (movable, looked, searched) = (None, 0, 0);
        Some(InnerAt { inside, old, room, window, free, movable, looked, searches, searched })
    }

    /// The routes of an older version for the new one, if it has one for every segment and what they take
    /// beyond one's own fits. So a change alters no more than necessary.
    fn same_routes(
        &self,
        order: &HoldOrder,
        own: &Footprint,
        version: &Entry,
    ) -> Option<Vec<InnerRoute>> {
        let inner: Vec<InnerRoute> =
            kept_routes(order, Some(version)).into_iter().collect::<Option<_>>()?;
        let taken = inner_footprint(&order.segments, Some(&inner)).beyond(own);
        let fits = |segment: &Segment| {
            let timetable = self.timetables.get(&segment.resource);
            timetable.is_some_and(|timetable| segment.amount <= timetable.free_min(segment.window))
        };
        taken.segments().iter().all(fits).then_some(inner)
    }

    /// Every segment that may be rerouted and overlaps one of the demands, and how many segments were
    /// looked at to find them.
    fn movable(&self, demands: &[InnerDemand], now: Now) -> (Vec<Movable>, usize) {
        let from = move_from(now);
        let changing: BTreeSet<&TransactionId> =
            self.replacing.iter().flat_map(|(old, new)| [old, new]).collect();
        let found = self.overlaps.find(demands.iter().map(|demand| demand.window));
        let segments: Vec<(&TransactionId, usize)> = found.segments.into_iter().collect();
        let mut movable = Vec::new();
        for places in segments.chunk_by(|(one, _), (other, _)| one == other) {
            let txn = places[0].0;
            let stays = changing.contains(txn) || self.kept_before(txn).is_some();
            let entry = self.entries.get(txn).filter(|_| !stays);
            let Some(entry) = entry.filter(|entry| !entry.begins_by(from)) else { continue };
            let (Some(order), Some(inner)) = (&entry.order, &entry.inner) else { continue };
            for &(_, place) in places {
                let Some((segment, route)) = order.segments.get(place).zip(inner.get(place)) else {
                    continue;
                };
                let demand = InnerDemand {
                    path: segment.resource.clone(),
                    amount: segment.amount,
                    window: segment.window,
                    only: None,
                };
                let placed = InnerPlaced { demand, route: route.clone() };
                movable.push(Movable { txn: txn.clone(), segment: place, placed });
            }
        }
        (movable, found.looked)
    }

    /// The rerouted segments, combined into whole entries.
    fn moves(&self, movable: &[Movable], moved: Vec<(usize, InnerRoute)>) -> Vec<InnerMove> {
        let mut moves: BTreeMap<&TransactionId, Vec<InnerRoute>> = BTreeMap::new();
        for (index, route) in moved {
            let Movable { txn, segment, .. } = &movable[index];
            let now = || self.entries.get(txn).and_then(|e| e.inner.clone()).unwrap_or_default();
            if let Some(place) = moves.entry(txn).or_insert_with(now).get_mut(*segment) {
                *place = route;
            }
        }
        moves.into_iter().map(|(txn, inner)| InnerMove { txn: txn.clone(), inner }).collect()
    }

    fn no_route(&self, order: &HoldOrder, short: InnerShort) -> Refusal {
        let Some(segment) = order.segments.get(short.demand) else {
            // The router named a demand that does not exist.
            return Refusal::new(Reason::InsufficientCapacity, "no capacity").at(&self.config.name);
        };
        let Segment { resource, amount, window } = segment;
        let kind = self.config.kinds.of(resource);
        let (has, wanted) = (kind.show(short.fits), kind.show(*amount));
        let detail = format!("{resource} has {has} free in {window}, {wanted} were asked for");
        Refusal {
            rm: Some(self.config.name.clone()),
            resource: Some(resource.clone()),
            window: Some(*window),
            requested: Some(*amount),
            available: Some(short.fits),
            ..Refusal::new(Reason::InsufficientCapacity, detail)
        }
    }

    /// Routes entries that have none. Writes one record for each entry that fits.
    pub(super) fn route_unrouted(&mut self, now: Now) -> Vec<ParticipantRecord> {
        let lacking: Vec<TransactionId> = self.unrouted(now).into_iter().cloned().collect();
        let mut records = Vec::new();
        for txn in lacking {
            let Some(entry) = self.entries.get(&txn) else { continue };
            let Some(order) = entry.order.clone() else { continue };
            let held_change = order.replaces.is_some() && matches!(entry.phase, Phase::Held(_));
            if held_change || self.replacing.contains_key(&txn) {
                // What a change takes beyond its old version is settled for both versions. They are routed once
                // the change is decided, at the next start.
                continue;
            }
            // The version that a booking replaced is over.
            let order = HoldOrder { replaces: None, ..order };
            let Ok(InnerChoice { inner: Some(inner), mut moves, .. }) =
                self.route_inside(&order, now)
            else {
                continue;
            };
            moves.push(InnerMove { txn, inner });
            let record = ParticipantRecord::Moved { moves, by: Cause::Restart, at: now };
            self.must_apply(&record);
            records.push(record);
        }
        records
    }

    /// Enters new routes: first all old routes are given back, then all new ones are taken, so that two entries
    /// may exchange routes.
    pub(super) fn fold_moved(
        &mut self,
        moves: &[InnerMove],
        take: Take,
    ) -> Result<(), ReplayError> {
        let mut taken: Vec<(Layer, Vec<Segment>)> = Vec::new();
        for InnerMove { txn, inner } in moves {
            let entry = self.entries.get(txn);
            let Some((entry, order)) = entry.and_then(|e| Some((e, e.order.as_ref()?))) else {
                return Err(ReplayError(format!("{txn} is rerouted but was never held")));
            };
            let Some((layer, _)) = entry.in_timetables() else {
                return Err(ReplayError(format!("{txn} is rerouted after its end")));
            };
            let before = entry.inner_footprint().segments();
            taken.push((layer, inner_footprint(&order.segments, Some(inner)).segments()));
            self.give_back(layer, &before)?;
            self.note(&before);
        }
        for (InnerMove { txn, inner }, (layer, segments)) in moves.iter().zip(taken) {
            for segment in &segments {
                let taken = self.take_segment(layer, segment, take);
                taken.map_err(|problem| ReplayError(format!("{txn}: {problem}")))?;
            }
            self.note(&segments);
            // Links that are no longer configured count as retired resources, so a new route may count otherwise.
            self.discount_hold(txn);
            if let Some(entry) = self.entries.get_mut(txn) {
                if let (None, Some(order)) = (&entry.inner, &entry.order) {
                    self.overlaps.insert(txn, &order.segments);
                }
                entry.inner = Some(inner.clone());
                let whole = entry.footprint().segments();
                if let Phase::Held(held) = &mut entry.phase {
                    held.taken = whole;
                }
            }
            self.count_hold(txn);
        }
        Ok(())
    }

    /// Checks that every live entry has a route for each of its segments or none at all, and that the index by
    /// time has exactly the routed live entries.
    pub(super) fn check_routes(&self) -> Result<(), String> {
        let mut overlaps = Overlaps::default();
        for (txn, entry) in &self.entries {
            let (Some(order), Some(inner)) = (&entry.order, &entry.inner) else { continue };
            if order.segments.len() != inner.len() {
                let (routes, segments) = (inner.len(), order.segments.len());
                return Err(format!("I12: {txn} has {routes} routes for {segments} segments"));
            }
            if matches!(entry.phase, Phase::Held(_) | Phase::Booked) {
                overlaps.insert(txn, &order.segments);
            }
        }
        if overlaps != self.overlaps {
            return Err(
                "I12: the index of routed segments by time does not match the segments".into()
            );
        }
        Ok(())
    }

    /// Removes a transaction that ends from the index of routed segments.
    pub(super) fn forget_overlaps(&mut self, txn: &TransactionId) {
        let entry = self.entries.get(txn).filter(|entry| entry.inner.is_some());
        if let Some(order) = entry.and_then(|entry| entry.order.as_ref()) {
            self.overlaps.remove(txn, &order.segments);
        }
    }
}

/// Entries that begin later than this may be rerouted.
const fn move_from(now: Now) -> Time {
    now.wall.saturating_add(limits::INNER_MOVE_LEAD)
}

/// For each segment of an order: the old version's route of the same path, taken in their order.
fn kept_routes(order: &HoldOrder, old: Option<&Entry>) -> Vec<Option<InnerRoute>> {
    let mut routes: BTreeMap<&ResourceId, VecDeque<&InnerRoute>> = BTreeMap::new();
    for (path, route) in old.into_iter().flat_map(Entry::routes) {
        routes.entry(path).or_default().push_back(route);
    }
    let paths = order.segments.iter().map(|segment| &segment.resource);
    paths.map(|path| routes.get_mut(path)?.pop_front().cloned()).collect()
}

impl InnerPlaced {
    /// What the demand takes on the links of its route.
    fn segments(&self) -> Vec<Segment> {
        let InnerDemand { amount, window, .. } = self.demand;
        self.route.iter().map(|link| Segment { resource: link.clone(), amount, window }).collect()
    }
}

impl Entry {
    /// What the entry takes of inner links.
    pub(super) fn inner_footprint(&self) -> Footprint {
        let segments = self.order.as_ref().map_or(&[][..], |order| &order.segments);
        inner_footprint(segments, self.inner.as_deref())
    }

    /// The path and the route of each segment that has one.
    fn routes(&self) -> impl Iterator<Item = (&ResourceId, &InnerRoute)> {
        let segments = self.order.iter().flat_map(|order| &order.segments);
        segments.map(|segment| &segment.resource).zip(self.inner.iter().flatten())
    }

    /// The route of the entry's first segment of a path.
    fn route_of(&self, path: &ResourceId) -> Option<&InnerRoute> {
        self.routes().find(|(own, _)| *own == path).map(|(_, route)| route)
    }

    /// Does any segment begin at this instant, or earlier?
    pub(super) fn begins_by(&self, at: Time) -> bool {
        let mut segments = self.order.iter().flat_map(|order| &order.segments);
        segments.any(|segment| segment.window.start() <= at)
    }

    fn lacks_route(&self, now: Now) -> bool {
        let live = matches!(self.phase, Phase::Held(_) | Phase::Booked);
        let mut segments = self.order.iter().flat_map(|order| &order.segments);
        live && self.inner.is_none() && segments.any(|s| now.wall < s.window.end())
    }
}
