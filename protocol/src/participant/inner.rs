//! An NRM's inside: the links that its disclosed paths are routed over, and who routes them.
//!
//! The participant keeps a timetable of every inner link beside those of the paths. It asks an
//! [`InnerRouter`] for routes when it admits a hold, and writes them into the record: the fold needs no
//! router, and neither does replay. Each segment of an order has a route of its own, and takes its
//! amount on every link of it. What an entry takes of inner links is part of its footprint, so that
//! holds, bookings, changes and ends treat it like everything else.
//!
//! When the inside says that it may, entries that have not begun are routed anew to admit one more: a
//! record before that of the hold. What takes part in a change of a reservation stays where it is, and
//! so does what begins within [`limits::INNER_MOVE_LEAD`]. Entries from before there was an inner
//! network get their routes at start.
//!
//! Nothing of this leaves the RM: refusals name paths, listings show orders, and an inner link is no
//! resource to whoever asks. Source: docs/adr/0010-inner-networks.md.

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
use super::{Entry, Participant, ParticipantRecord, Phase};
use crate::core::ReplayError;
use crate::message::{Cause, HoldOrder};

/// The links of a route, from one end of the path to the other.
pub type InnerRoute = Vec<ResourceId>;

/// What wants a route.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InnerDemand {
    /// The disclosed path.
    pub path: ResourceId,
    /// How much of it.
    pub amount: Amount,
    /// When.
    pub window: Window,
    /// The only route it may take: that of a booking which has begun.
    pub only: Option<InnerRoute>,
}

/// What has a route.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InnerPlaced {
    /// What.
    pub demand: InnerDemand,
    /// Its route.
    pub route: InnerRoute,
}

/// A demand that found no route.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct InnerShort {
    /// Its index.
    pub demand: usize,
    /// What would have found one, beside the demands before it.
    pub fits: Amount,
}

/// Routes for new demands, and new routes of those that moved, by index.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InnerRearranged {
    /// For each new demand.
    pub routes: Vec<InnerRoute>,
    /// For each that moved.
    pub moved: Vec<(usize, InnerRoute)>,
}

/// What is free of a link over a whole window: the minimum; negative where more is promised than there
/// is.
pub trait InnerFreeCapacity {
    /// Of this link.
    fn free(&self, link: &ResourceId, window: Window) -> i64;
}

/// Who routes. Deterministic, without state and without a clock; what it answers fits the room it was
/// given.
pub trait InnerRouter: Debug + Send + Sync {
    /// Every link and its capacity. No link has the name of a disclosed resource.
    fn links(&self) -> &[(ResourceId, Amount)];

    /// May what has not begun be routed anew?
    fn may_move(&self) -> bool;

    /// The most of a path, at most `most`, that one route can carry when this much is free of each
    /// link, in the order of [`InnerRouter::links`].
    fn widest(&self, path: &ResourceId, free: &[i64], most: Amount) -> Amount;

    /// A route for every demand, so that all fit together.
    ///
    /// # Errors
    /// The first that finds none.
    fn route(
        &self,
        demands: &[InnerDemand],
        room: &dyn InnerFreeCapacity,
    ) -> Result<Vec<InnerRoute>, InnerShort>;

    /// The same with new routes for some of those that may be moved; `None` when that does not help, as
    /// far as routing this many of them tells.
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
    /// Whose.
    pub txn: TransactionId,
    /// All of its routes.
    pub inner: Vec<InnerRoute>,
}

/// What a hold takes inside, and who makes room for it.
#[derive(Debug, Default)]
pub(super) struct InnerChoice {
    /// One route a segment; `None` without an inner network.
    pub(super) inner: Option<Vec<InnerRoute>>,
    /// Who moves first.
    pub(super) moves: Vec<InnerMove>,
}

/// What segments take of inner links on these routes.
pub(super) fn inner_footprint(segments: &[Segment], inner: Option<&[InnerRoute]>) -> Footprint {
    let routed = segments.iter().zip(inner.unwrap_or_default());
    Footprint::sum(routed.flat_map(|(segment, route)| {
        route.iter().map(|link| (link, segment.window, segment.amount))
    }))
}

/// The links' timetables, with what a replaced booking has counted as free.
struct LinkTimetables<'a> {
    participant: &'a Participant,
    own: Footprint,
}

impl InnerFreeCapacity for LinkTimetables<'_> {
    fn free(&self, link: &ResourceId, window: Window) -> i64 {
        let Some(timetable) = self.participant.timetables.get(link) else { return 0 };
        let Some(own) = self.own.steps(link) else { return timetable.slack(window) };
        let free = |piece: Window| {
            let own = i64::try_from(own.at(piece.start()).0).unwrap_or(i64::MAX);
            timetable.slack(piece).saturating_add(own)
        };
        pieces(window, own.changes_in(window)).into_iter().map(free).min().unwrap_or(0)
    }
}

/// One segment that may move: whose, which, and what.
struct Movable {
    txn: TransactionId,
    segment: usize,
    placed: InnerPlaced,
}

/// What the inside can carry over one window.
pub(super) struct InnerAt<'a> {
    inside: &'a dyn InnerRouter,
    old: Option<&'a Entry>,
    room: LinkTimetables<'a>,
    window: Window,
    /// Of each link.
    free: Vec<i64>,
    /// Who may move, and what would be free of each link without them; asked for when it matters.
    movable: Option<(Vec<InnerPlaced>, Vec<i64>)>,
    /// How many segments were looked at for that.
    looked: usize,
    /// How many searches for new routes may still be made, and were made.
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

    /// What was done so far, in looks at a timetable.
    pub(super) fn work(&self) -> usize {
        let looked = self
            .movable
            .as_ref()
            .map_or(0, |_| self.looked / limits::INNER_ENTRIES_A_LOOK + self.free.len());
        self.free.len() + looked + self.searched * limits::INNER_SEARCH_WORK
    }

    /// The only route that a path may take: that of the old booking, which has begun.
    fn begun_route(&self, path: &ResourceId, now: Now) -> Option<&InnerRoute> {
        self.old.filter(|old| old.begins_by(move_from(now)))?.route_of(path)
    }

    /// The most of a path that one route can carry as things are.
    pub(super) fn most_as_is(&self, path: &ResourceId, most: Amount, now: Now) -> Amount {
        let Some(route) = self.begun_route(path, now) else {
            return self.inside.widest(path, &self.free, most);
        };
        let free = route.iter().map(|link| self.room.free(link, self.window)).min();
        most.min(Amount(free.unwrap_or(0).max(0).unsigned_abs()))
    }

    /// The most of a path that one route can carry: as things are, or after others have moved. When no
    /// search is left, as things are: a hold may then find more room than was told.
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
        // What those who stay leave; then halfway back, a few times.
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
    /// A live entry that takes a path of an inner link's name, or a link of a path's name: the inventory
    /// has changed so that one name means two things. The two would share a timetable, so that whoever
    /// finds one must not start. What has ended takes nothing any more.
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
            let mut links = entry.inner.iter().flatten().flatten();
            let name = paths.find(|path| self.links.contains(*path));
            name.or_else(|| links.find(|link| disclosed(link))).map(|name| (txn, name))
        })
    }

    /// Live entries that have no route although there is an inner network: it was configured after
    /// them, and they did not fit into it.
    #[must_use]
    pub fn unrouted(&self, now: Now) -> Vec<&TransactionId> {
        if self.config.inside.is_none() {
            return Vec::new();
        }
        self.entries.iter().filter(|(_, e)| e.lacks_route(now)).map(|(txn, _)| txn).collect()
    }

    /// Routes for an order; nothing without an inner network.
    pub(super) fn route_inside(
        &self,
        order: &HoldOrder,
        now: Now,
    ) -> Result<InnerChoice, Box<Refusal>> {
        let Some(inside) = &self.config.inside else { return Ok(InnerChoice::default()) };
        let old = self.booked_entry(order.replaces.as_ref());
        let own = self.own(order.replaces.as_ref()).unwrap_or_default();
        // Those of what is booked, or of what it has replaced: back to that is always a way.
        let before = order.replaces.as_ref().and_then(|old| self.kept_before(old));
        let before = before.and_then(|before| self.entries.get(before));
        for version in [old, before].into_iter().flatten() {
            if let Some(inner) = self.same_routes(order, &own, version) {
                return Ok(InnerChoice { inner: Some(inner), moves: Vec::new() });
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
            Ok(inner) => return Ok(InnerChoice { inner: Some(inner), moves: Vec::new() }),
            Err(short) => short,
        };
        if inside.may_move() {
            let (movable, _) = self.movable(&demands, now);
            // What the old version has stays its own until the new one is booked: nobody else may
            // move there.
            let room = LinkTimetables { participant: self, own: Footprint::default() };
            let placed: Vec<InnerPlaced> = movable.iter().map(|m| m.placed.clone()).collect();
            let effort = limits::INNER_MOVE_EFFORT;
            if let Some(found) = inside.rearrange(&demands, &placed, &room, effort) {
                let moves = self.moves(&movable, found.moved);
                return Ok(InnerChoice { inner: Some(found.routes), moves });
            }
        }
        Err(Box::new(self.no_route(order, short)))
    }

    /// The inside over a window, to whoever may replace a booking, with so many searches for new routes
    /// of others; `None` without an inner network.
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

    /// The routes of a version for the new one, when there is one for every segment and what is
    /// taken beyond one's own fits: a change disturbs no more than it must.
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

    /// Every segment that may be routed anew and overlaps one of the demands, and how many were looked at
    /// to find them.
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

    /// The moved segments as whole entries.
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
        let unit = self.config.unit;
        let Some(segment) = order.segments.get(short.demand) else {
            // The inside spoke of a demand that there is not.
            return Refusal::new(Reason::InsufficientCapacity, "no room").at(&self.config.name);
        };
        let Segment { resource, amount, window } = segment;
        let (has, wanted) = (unit.show(short.fits), unit.show(*amount));
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

    /// Routes for entries that have none: one record for each that fits.
    pub(super) fn route_unrouted(&mut self, now: Now) -> Vec<ParticipantRecord> {
        let lacking: Vec<TransactionId> = self.unrouted(now).into_iter().cloned().collect();
        let mut records = Vec::new();
        for txn in lacking {
            let Some(entry) = self.entries.get(&txn) else { continue };
            let Some(order) = entry.order.clone() else { continue };
            let held_change = order.replaces.is_some() && matches!(entry.phase, Phase::Held(_));
            if held_change || self.replacing.contains_key(&txn) {
                // What a change takes beyond its old version is settled, of either; they are routed once
                // the change is decided, at the next start.
                continue;
            }
            // What a booking replaced is over.
            let order = HoldOrder { replaces: None, ..order };
            let Ok(InnerChoice { inner: Some(inner), mut moves }) = self.route_inside(&order, now)
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

    /// New routes: all are lifted, then all take their new ones, so that two may change places.
    pub(super) fn fold_moved(
        &mut self,
        moves: &[InnerMove],
        take: Take,
    ) -> Result<(), ReplayError> {
        let mut taken: Vec<(Layer, Vec<Segment>)> = Vec::new();
        for InnerMove { txn, inner } in moves {
            let entry = self.entries.get(txn);
            let Some((entry, order)) = entry.and_then(|e| Some((e, e.order.as_ref()?))) else {
                return Err(ReplayError(format!("{txn} is routed anew but was never held")));
            };
            let Some((layer, _)) = entry.in_timetables() else {
                return Err(ReplayError(format!("{txn} is routed anew after its end")));
            };
            let before = entry.inner_footprint().segments();
            taken.push((layer, inner_footprint(&order.segments, Some(inner)).segments()));
            self.give_back(layer, &before)?;
            self.note(&before);
        }
        for (InnerMove { txn, inner }, (layer, segments)) in moves.iter().zip(taken) {
            for segment in &segments {
                let timetable = self.timetable_of(&segment.resource);
                take(timetable, layer, segment.window, segment.amount).map_err(|problem| {
                    ReplayError(format!("{txn}: {}: {problem}", segment.resource))
                })?;
            }
            self.note(&segments);
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
        }
        Ok(())
    }

    /// Is every live entry routed for each of its segments, or not at all? Are those that are routed found
    /// by their time, and no others?
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
            return Err("I12: the index of routed segments by time is not their sum".into());
        }
        Ok(())
    }

    /// Forgets when a transaction that has ended takes its routes.
    pub(super) fn forget_overlaps(&mut self, txn: &TransactionId) {
        let entry = self.entries.get(txn).filter(|entry| entry.inner.is_some());
        if let Some(order) = entry.and_then(|entry| entry.order.as_ref()) {
            self.overlaps.remove(txn, &order.segments);
        }
    }
}

/// What begins later than this may be routed anew.
const fn move_from(now: Now) -> Time {
    now.wall.saturating_add(limits::INNER_MOVE_LEAD)
}

/// For each segment of an order the old version's route of the same path, in their order.
fn kept_routes(order: &HoldOrder, old: Option<&Entry>) -> Vec<Option<InnerRoute>> {
    let mut routes: BTreeMap<&ResourceId, VecDeque<&InnerRoute>> = BTreeMap::new();
    for (path, route) in old.into_iter().flat_map(Entry::routes) {
        routes.entry(path).or_default().push_back(route);
    }
    let paths = order.segments.iter().map(|segment| &segment.resource);
    paths.map(|path| routes.get_mut(path)?.pop_front().cloned()).collect()
}

impl InnerPlaced {
    /// What it takes.
    fn segments(&self) -> Vec<Segment> {
        let InnerDemand { amount, window, .. } = self.demand;
        self.route.iter().map(|link| Segment { resource: link.clone(), amount, window }).collect()
    }
}

impl Entry {
    /// What it takes of inner links.
    pub(super) fn inner_footprint(&self) -> Footprint {
        let segments = self.order.as_ref().map_or(&[][..], |order| &order.segments);
        inner_footprint(segments, self.inner.as_deref())
    }

    /// The path and the route of each of its segments that has one.
    fn routes(&self) -> impl Iterator<Item = (&ResourceId, &InnerRoute)> {
        let segments = self.order.iter().flat_map(|order| &order.segments);
        segments.map(|segment| &segment.resource).zip(self.inner.iter().flatten())
    }

    /// The route of its first segment of a path.
    fn route_of(&self, path: &ResourceId) -> Option<&InnerRoute> {
        self.routes().find(|(own, _)| *own == path).map(|(_, route)| route)
    }

    /// Does any of it begin at this instant, or before?
    fn begins_by(&self, at: Time) -> bool {
        let mut segments = self.order.iter().flat_map(|order| &order.segments);
        segments.any(|segment| segment.window.start() <= at)
    }

    fn lacks_route(&self, now: Now) -> bool {
        let live = matches!(self.phase, Phase::Held(_) | Phase::Booked);
        let mut segments = self.order.iter().flat_map(|order| &order.segments);
        live && self.inner.is_none() && segments.any(|s| now.wall < s.window.end())
    }
}
