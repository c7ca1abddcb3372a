//! What a hold may take: the one rule that admits a hold, explains its refusal, and answers queries in advance.
//!
//! At every instant a hold may take `max(own, share of (free + own))` (Takefusa 2010, section 3.4, option C).
//! Here `own` is what the replaced booking has, together with what is [`kept`](super::kept) beside it (nothing
//! if the hold replaces nothing), and `share` is the user's service level. So a change that asks for no more
//! than it had is never refused. A change that asks for more is admitted like a new request, less its own old
//! booking. Outside the horizon only `own` is left: the part of an active booking that is over stays as it was.
//!
//! A user's level is never better than the best level of the coordinator that asks
//! ([`ServiceLevels`](coalloc_common::ServiceLevels)). A coordinator is told nothing of what is beyond its best level: an
//! order beyond that is refused as if nothing more were free (ADR 44).
//!
//! For a path with an inner network, a query reports no more than one route can carry now, and a hold must find
//! a route, see [`super::inner`]. For a by-server site, a query reports the CPUs of the servers that are idle
//! throughout, and a hold must find enough of them, see [`super::servers`].

use std::collections::{BTreeMap, BTreeSet};

use coalloc_common::service_level::{self, WHOLE, part};
use coalloc_common::suggest::did_you_mean;
use coalloc_common::timetable::Timetable;
use coalloc_common::{
    Amount, CoordinatorName, Now, Reason, Refusal, Requester, ResourceId, Segment, Time,
    TransactionId, UserName, Window, limits,
};

use super::equipment::Unusable;
use super::footprint::{Footprint, Steps, pieces};
use super::inner::InnerAt;
use super::servers::ServerClaim;
use super::{Participant, Phase};
use crate::message::HoldOrder;

/// What a hold's sender is entitled to of one resource.
#[derive(Clone, Copy)]
struct Claimant<'a> {
    /// What the replaced booking has of the resource.
    own: &'a Steps,
    /// What the claimant may take and know.
    level: ClaimLevel,
}

/// How much of what is free a claimant may take, and how much of it the claimant's coordinator may know, in percent.
#[derive(Clone, Copy)]
pub(super) struct ClaimLevel {
    /// The user's service level.
    pub(super) share: u32,
    /// The best level of the coordinator, which is at least the share.
    pub(super) best: u32,
}

impl ClaimLevel {
    /// The level of whoever may take all that the coordinator may know.
    const fn best(self) -> Self {
        Self { share: self.best, ..self }
    }

    /// Words behind what is free, for a coordinator that does not know all of it.
    pub(super) fn words(self, coordinator: &CoordinatorName) -> String {
        match self.best < WHOLE {
            true => format!(" for coordinator {coordinator}"),
            false => String::new(),
        }
    }
}

/// A query of what may be taken, and as much of its answer as is known yet. It is answered in slices, so that a
/// large query does not keep the participant's thread from everybody else. What a hold changes between two
/// slices shows in the later slices.
#[derive(Debug, Clone)]
pub struct Question {
    windows: Vec<Window>,
    requester: Requester,
    user: UserName,
    replaces: Option<TransactionId>,
    /// What is not to be taken.
    avoided: BTreeSet<ResourceId>,
    /// By window, then by resource in the order of the configuration. The last window may lack some resources.
    free: Vec<Vec<Amount>>,
    /// For each window that is answered: when something ends after its start.
    changes: Vec<Option<Time>>,
    /// How many searches for new routes of others may still be made for the query.
    searches: usize,
    /// The share of those searches that is left for the window that is being answered.
    here: usize,
    answered: bool,
}

impl Question {
    /// A query for the amount of every resource that a hold of this user may take over each window. `replaces`
    /// is the booking that the hold would replace. A transaction that is not booked counts as nothing.
    #[must_use]
    pub fn new(windows: Vec<Window>, user: UserName, replaces: Option<TransactionId>) -> Self {
        let requester = Requester::Unknown;
        let (free, searches) = (Vec::with_capacity(windows.len()), limits::INNER_QUERY_SEARCHES);
        let answered = windows.is_empty();
        let changes = Vec::with_capacity(windows.len());
        let avoided = BTreeSet::new();
        Self {
            windows,
            requester,
            user,
            replaces,
            avoided,
            free,
            changes,
            searches,
            here: 0,
            answered,
        }
    }

    /// This query, for a hold that takes none of these servers and resources, also not what of them the replaced booking
    /// has.
    #[must_use]
    pub fn avoiding(self, avoided: impl IntoIterator<Item = ResourceId>) -> Self {
        Self { avoided: avoided.into_iter().collect(), ..self }
    }

    /// This query, asked by somebody who is known.
    #[must_use]
    pub fn of(self, requester: Requester) -> Self {
        Self { requester, ..self }
    }

    /// Is the query answered completely?
    #[must_use]
    pub const fn is_answered(&self) -> bool {
        self.answered
    }

    /// The answer so far: for each window, the minimum over it of every resource, in the order of the
    /// configuration.
    #[must_use]
    pub fn into_answer(self) -> Vec<Vec<Amount>> {
        self.free
    }

    /// The answer, and for each window the first instant after its start at which a hold or booking ends, so
    /// that more may be free.
    pub fn into_answer_with_changes(self) -> impl Iterator<Item = (Vec<Amount>, Option<Time>)> {
        self.free.into_iter().zip(self.changes)
    }
}

impl Participant {
    /// Answers a whole query of an unknown requester at once.
    #[must_use]
    pub fn availability(
        &self,
        windows: &[Window],
        user: &UserName,
        replaces: Option<&TransactionId>,
        now: Now,
    ) -> Vec<Vec<Amount>> {
        let mut question = Question::new(windows.to_vec(), user.clone(), replaces.cloned());
        while !question.is_answered() {
            self.answer(&mut question, now);
        }
        question.into_answer()
    }

    /// Answers one more slice of a query: at least one resource of one window, and at most about
    /// [`limits::QUERY_SLICE_WORK`].
    pub fn answer(&self, question: &mut Question, now: Now) {
        let Question { requester, user, replaces, .. } = &*question;
        let own = self.own(replaces.as_ref()).unwrap_or_default();
        let level = self.level(requester, user);
        let Question {
            windows, replaces, avoided, free, changes, searches, here, answered, ..
        } = question;
        let (nothing, none) = (Steps::default(), Steps::default());
        let mut work = 0;
        while work < limits::QUERY_SLICE_WORK && !*answered {
            if free.last().is_none_or(|last| last.len() >= self.config.resources.len()) {
                let left = windows.len().saturating_sub(free.len()).max(1);
                *here = searches.div_ceil(left);
                free.push(Vec::with_capacity(self.config.resources.len()));
            }
            let (Some(at), Some(done)) = (free.len().checked_sub(1), free.last_mut()) else {
                return;
            };
            let window = windows[at];
            let mut inner = self.inner_at(window, replaces.as_ref(), *here);
            let (before, mut idle_work) = (work, 0);
            let left = self.config.resources.iter().skip(done.len());
            for (count, (resource, _)) in (1..).zip(left) {
                let asker = Claimant { own: own.steps(resource).unwrap_or(&nothing), level };
                let most = self.timetables.get(resource).map_or(Amount::ZERO, |timetable| {
                    let most = self.may_take(timetable, window, asker, &none, now);
                    let own_cpus = own_throughout(asker.own, window);
                    if avoided.contains(resource) {
                        return Amount::ZERO;
                    }
                    let most = match self.unusable().contains_key(resource) {
                        true => most.min(own_cpus),
                        false => most,
                    };
                    let claim = ServerClaim { window, own: &own, own_cpus, level, avoided };
                    if let Some(idle) = self.idle_for(resource, &claim) {
                        idle_work += idle.looked_at / limits::SERVERS_A_LOOK;
                        return most.min(idle.most);
                    }
                    let inner = inner.as_mut();
                    inner.map_or(most, |inner| inside(inner, resource, timetable, asker, most, now))
                });
                done.push(most);
                work = before + count + idle_work + inner.as_ref().map_or(0, InnerAt::work);
                if work >= limits::QUERY_SLICE_WORK {
                    break;
                }
            }
            let unspent = inner.map_or(*here, |inner| inner.searches());
            *searches = searches.saturating_sub(*here - unspent);
            *here = unspent;
            let whole = done.len() >= self.config.resources.len();
            if whole {
                changes.push(self.next_change(window));
                work += self.config.resources.len();
            }
            *answered = whole && free.len() == windows.len();
        }
    }

    /// How much of what is free a user may take through a requester, and how much of it the requester may know.
    fn level(&self, requester: &Requester, user: &UserName) -> ClaimLevel {
        let levels = &self.config.levels;
        ClaimLevel { share: levels.share(requester, user), best: levels.best(requester) }
    }

    /// The level of the user and of the coordinator of an order.
    pub(super) fn level_of(&self, order: &HoldOrder) -> ClaimLevel {
        self.level(&Requester::Coordinator(order.coordinator.clone()), &order.user)
    }

    /// What may be taken over a window beside `before`, which is what the order itself takes there already.
    fn may_take(
        &self,
        timetable: &Timetable,
        window: Window,
        asker: Claimant<'_>,
        before: &Steps,
        now: Now,
    ) -> Amount {
        let open = self.open(now);
        let cuts = asker.own.changes_in(window).chain(before.changes_in(window));
        let left = |piece: Window| {
            let most = at_most(Some(timetable), piece, asker, open);
            most.saturating_sub(before.at(piece.start()))
        };
        let pieces = pieces(window, cuts.chain(ends(open)));
        pieces.into_iter().map(left).min().unwrap_or(Amount::ZERO)
    }

    /// Why this order cannot be held; `None` if it can. Each segment is checked beside the segments before it.
    pub(super) fn refusal_of(&self, order: &HoldOrder, now: Now) -> Option<Refusal> {
        if order.one_way && order.replaces.is_some() {
            // The code that takes in orders from outside says which field is wrong; this is the last check.
            let detail = "a one-way hold cannot replace a booking: a change needs two phases";
            return Some(Refusal::new(Reason::NotHeld, detail).at(&self.config.name));
        }
        if let Some(old) = &order.replaces
            && let Some(refusal) = self.refusal_of_replacing(order, old)
        {
            return Some(refusal);
        }
        let own = self.own(order.replaces.as_ref()).unwrap_or_default();
        let level = self.level_of(order);
        let is_unusable = |segment: &Segment| self.unusable().contains_key(&segment.resource);
        for index in (0..order.segments.len()).filter(|index| is_unusable(&order.segments[*index]))
        {
            let refusal = self.refusal_at(order, index, &own, 0, now);
            if refusal.is_some() {
                return refusal;
            }
        }
        let first = self.first_beyond(order, &own, level, now);
        if level.share < WHOLE && self.config.inside.is_some() {
            let before = &order.segments[..first.unwrap_or(order.segments.len())];
            let refusal = self.refusal_inside(order, before, &own, now);
            if refusal.is_some() {
                return refusal;
            }
        }
        self.refusal_at(order, first?, &own, limits::INNER_MOVE_GUESSES, now)
    }

    /// The first segment of an order that takes more than may be taken beside the segments before it. Orders
    /// can have thousands of segments, so the cost is that of sorting them, however they overlap.
    fn first_beyond(
        &self,
        order: &HoldOrder,
        own: &Footprint,
        level: ClaimLevel,
        now: Now,
    ) -> Option<usize> {
        let mut each: BTreeMap<&ResourceId, Vec<(usize, Window, Amount)>> = BTreeMap::new();
        for (index, Segment { resource, amount, window }) in order.segments.iter().enumerate() {
            each.entry(resource).or_default().push((index, *window, *amount));
        }
        let nothing = Steps::default();
        let first = |(resource, parts): (&ResourceId, Vec<(usize, Window, Amount)>)| {
            let asker = Claimant { own: own.steps(resource).unwrap_or(&nothing), level };
            let sum = |count: usize| {
                Steps::sum(parts[..count].iter().map(|(_, window, amount)| (*window, *amount)))
            };
            let all = sum(parts.len());
            if !all.exceeds(&self.most_of(
                resource,
                all.pieces().map(|(piece, _)| piece),
                asker,
                now,
            )) {
                return None;
            }
            // Fewer segments may end at an instant where one of the later segments begins.
            let ends = parts.iter().flat_map(|(_, window, _)| [window.start(), window.end()]);
            let mut ends: Vec<Time> = ends.collect();
            ends.sort_unstable();
            ends.dedup();
            let each = ends.windows(2).filter_map(|ends| Window::new(ends[0], ends[1]));
            let most = self.most_of(resource, each, asker, now);
            let is_within = |count: usize| !sum(count).exceeds(&most);
            // Every further segment leaves the sum as it is or raises it, so bisection finds the first that exceeds.
            let (mut fits, mut exceeds) = (0, parts.len());
            while fits + 1 < exceeds {
                let middle = usize::midpoint(fits, exceeds);
                *(if is_within(middle) { &mut fits } else { &mut exceeds }) = middle;
            }
            Some(parts[fits].0)
        };
        each.into_iter().filter_map(first).min()
    }

    /// The most that may be taken of a resource over each of these windows, which must not overlap. A window is
    /// cut where that amount may change for this claimant.
    fn most_of(
        &self,
        resource: &ResourceId,
        windows: impl Iterator<Item = Window>,
        asker: Claimant<'_>,
        now: Now,
    ) -> Steps {
        let (timetable, open) = (self.timetable(resource), self.open(now));
        let most = |window: Window| {
            let pieces = pieces(window, asker.own.changes_in(window).chain(ends(open)));
            let most = |piece| (piece, at_most(timetable, piece, asker, open));
            pieces.into_iter().map(most)
        };
        Steps::sum(windows.flat_map(most))
    }

    /// Finds a segment that the timetable of its path admits, but that takes more than the service level allows
    /// of what a route in the inner network can carry. All segments share a bounded number of searches for new
    /// routes of others.
    fn refusal_inside(
        &self,
        order: &HoldOrder,
        segments: &[Segment],
        own: &Footprint,
        now: Now,
    ) -> Option<Refusal> {
        let share = self.level_of(order).share;
        let mut searches = limits::INNER_QUERY_SEARCHES;
        let mut inner: Option<InnerAt<'_>> = None;
        for (index, Segment { resource, amount, window }) in segments.iter().enumerate() {
            if inner.as_ref().is_none_or(|inner| inner.window() != *window) {
                inner = self.inner_at(*window, order.replaces.as_ref(), 0);
            }
            let all = u128::from(amount.0) * u128::from(WHOLE);
            let all = u64::try_from(all.div_ceil(u128::from(share.max(1)))).unwrap_or(u64::MAX);
            let as_is = inner.as_ref().map(|inner| inner.most_as_is(resource, Amount(all), now));
            if share > 0 && as_is.is_some_and(|most| most >= Amount(all)) {
                continue;
            }
            let here = searches.min(limits::INNER_MOVE_GUESSES);
            searches -= here;
            let refusal = self.refusal_at(order, index, own, here, now);
            if refusal.is_some() {
                return refusal;
            }
        }
        None
    }

    /// Why a segment of an order cannot be held beside the segments before it; `None` if it can.
    fn refusal_at(
        &self,
        order: &HoldOrder,
        index: usize,
        own: &Footprint,
        searches: usize,
        now: Now,
    ) -> Option<Refusal> {
        let segment = order.segments.get(index)?;
        let nothing = Steps::default();
        let own = own.steps(&segment.resource).unwrap_or(&nothing);
        let asker = Claimant { own, level: self.level_of(order) };
        let before = order.segments[..index].iter().filter(|s| s.resource == segment.resource);
        let before = Steps::sum(before.map(|s| (s.window, s.amount)));
        let inner = || self.inner_at(segment.window, order.replaces.as_ref(), searches);
        let inner = (asker.level.share < WHOLE).then(inner).flatten();
        self.refusal_of_segment((segment, &order.coordinator), asker, &before, inner, now)
    }

    /// Why an order cannot replace the booking that it names; `None` if it can.
    fn refusal_of_replacing(&self, order: &HoldOrder, old: &TransactionId) -> Option<Refusal> {
        let refuse = |reason, detail| Some(Refusal::new(reason, detail).at(&self.config.name));
        let known = self.entries.get(old).filter(|entry| entry.coordinator == order.coordinator);
        let Some(entry) = known else {
            return refuse(
                Reason::NotHeld,
                format!("{old} is not booked here, so it cannot be replaced"),
            );
        };
        if let Phase::Ended(ending) = &entry.phase {
            // Other reasons would describe how the order's own transaction has ended.
            let reason = match ending.reason() {
                Reason::Replaced => Reason::Replaced,
                _ => Reason::NotHeld,
            };
            let word = ending.word();
            return refuse(reason, format!("{old} was {word}; it cannot be replaced"));
        }
        if entry.phase != Phase::Booked {
            return refuse(
                Reason::NotHeld,
                format!("{old} is not booked, so it cannot be replaced"),
            );
        }
        let other = self.replacing.get(old)?;
        refuse(Reason::NotHeld, format!("{old} is already being replaced by {other}"))
    }

    fn refusal_of_segment(
        &self,
        (segment, coordinator): (&Segment, &CoordinatorName),
        asker: Claimant<'_>,
        before: &Steps,
        mut inner: Option<InnerAt<'_>>,
        now: Now,
    ) -> Option<Refusal> {
        let refuse = |reason, available: Option<Amount>, detail: String| {
            Some(Refusal {
                rm: Some(self.config.name.clone()),
                resource: Some(segment.resource.clone()),
                window: Some(segment.window),
                requested: available.map(|_| segment.amount),
                available,
                ..Refusal::new(reason, detail)
            })
        };
        let Segment { resource, amount, window } = segment;
        let (amount, window) = (*amount, *window);
        // Where the segment takes no more than the replaced booking had, nothing needs to be checked.
        let cuts = asker.own.changes_in(window).chain(before.changes_in(window));
        let more = |piece: &Window| {
            let own = asker.own.at(piece.start());
            amount > own.saturating_sub(before.at(piece.start()))
        };
        let more: Vec<Window> = pieces(window, cuts).into_iter().filter(more).collect();
        let (Some(first), Some(last)) = (more.first(), more.last()) else { return None };
        let kind = self.config.kinds.of(resource);
        let wanted = kind.show(amount);
        let Some(timetable) = self.timetable(resource) else {
            let known = self.config.resources.iter().map(|(name, _)| name.as_str());
            let guess = did_you_mean(resource.as_str(), known);
            let detail = format!("there is no resource {resource} here{guess}");
            return refuse(Reason::UnknownResource, None, detail);
        };
        let capacity = timetable.capacity();
        if amount > capacity {
            let has = kind.show(capacity);
            let detail = format!("{resource} has {has} in all, {wanted} were asked for");
            return refuse(Reason::BeyondCapacity, Some(capacity), detail);
        }
        if let Some(Unusable { sentence, .. }) = self.unusable().get(resource) {
            let detail = format!("{resource} cannot be used now: {sentence}");
            return refuse(Reason::Equipment, None, detail);
        }
        let outer = [*first, *last].into_iter().find_map(|w| self.outside_horizon(w, now));
        if let Some(detail) = outer {
            return refuse(Reason::OutsideHorizon, None, detail);
        }
        let mut most = |asker| {
            let most = self.may_take(timetable, window, asker, before, now);
            let inner = inner.as_mut();
            inner.map_or(most, |inner| inside(inner, resource, timetable, asker, most, now))
        };
        let may_take = most(asker);
        if amount <= may_take {
            return None;
        }
        let known = Claimant { level: asker.level.best(), ..asker };
        let (has, share) = (kind.show(may_take), asker.level.share);
        if amount <= most(known) {
            let detail = format!(
                "the user's service level is {share} % of what is free: {has} of {resource} in \
                 {window}, {wanted} were asked for"
            );
            return refuse(Reason::ServiceLevel, Some(may_take), detail);
        }
        let own = if asker.own.is_nothing() { "" } else { " with its own" };
        let whose = asker.level.words(coordinator);
        let detail =
            format!("{resource} has {has} free{own}{whose} in {window}, {wanted} were asked for");
        refuse(Reason::InsufficientCapacity, Some(may_take), detail)
    }

    /// The time in which anything new may be booked.
    fn open(&self, now: Now) -> Option<Window> {
        let first = now.wall.saturating_sub(limits::START_GRACE);
        Window::new(first, now.wall.saturating_add(self.config.policy.horizon))
    }

    /// Why a window cannot be booked now; `None` if it can.
    fn outside_horizon(&self, window: Window, now: Now) -> Option<String> {
        let open = self.open(now)?;
        let (first, last) = (open.start(), open.end());
        if window.start() < first {
            return Some(format!("{window} starts in the past; allowed: from {first}"));
        }
        (window.end() > last)
            .then(|| format!("{window} ends beyond the horizon; allowed: until {last}"))
    }
}

/// Both ends of the time in which anything new may be booked.
fn ends(open: Option<Window>) -> impl Iterator<Item = Time> {
    open.map(|open| [open.start(), open.end()]).into_iter().flatten()
}

/// What may be taken in a piece of time that lies wholly inside or wholly outside `open`, and in which the
/// claimant's own booking is constant. Without a timetable this is only what the claimant has already.
fn at_most(
    timetable: Option<&Timetable>,
    piece: Window,
    asker: Claimant<'_>,
    open: Option<Window>,
) -> Amount {
    let own = asker.own.at(piece.start());
    let timetable = timetable.filter(|_| open.is_some_and(|open| open.overlaps(piece)));
    let shared = |timetable: &Timetable| {
        // One's own counts as free.
        part(asker.level.share, u128::from(timetable.free_min(piece).0) + u128::from(own.0))
    };
    own.max(timetable.map_or(Amount::ZERO, shared))
}

/// The least that a step function has in a window.
pub(super) fn own_throughout(own: &Steps, window: Window) -> Amount {
    let pieces = pieces(window, own.changes_in(window)).into_iter();
    pieces.map(|piece| own.at(piece.start())).min().unwrap_or(Amount::ZERO)
}

/// What may be taken of a path with an inner network: no more than one route can carry, and of that no more
/// than the service level's share.
fn inside(
    inner: &mut InnerAt<'_>,
    path: &ResourceId,
    timetable: &Timetable,
    asker: Claimant<'_>,
    most: Amount,
    now: Now,
) -> Amount {
    if asker.level.share == WHOLE {
        return inner.most(path, most, now);
    }
    let own = own_throughout(asker.own, inner.window());
    let all = inner.most(path, timetable.capacity(), now);
    most.min(service_level::most(own, all, asker.level.share))
}
