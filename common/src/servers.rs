//! A timetable by server: which of a site's servers are idle when.
//!
//! A *server* is a unit that one holder has alone, for a whole window. An *idle period* is a longest
//! stretch of time in which one server is taken by nobody. [`ServerTimetable`] keeps the idle periods
//! of all servers. It answers which servers are idle through a window, and when enough of them are idle
//! together for the first time. An [`IdleIndex`] finds the servers fast; there are three:
//!
//! * [`PeriodTree`]: one tree of all idle periods, by start and server. It is the fastest, and what
//!   daemons use.
//! * [`SlotTrees`]: the structure of the paper, one two-dimensional tree for each slot of time.
//! * [`SlotBits`]: for each slot, and each power of two of slots, the set of servers idle through it.
//!
//! An index may name too many servers, never too few: the timetable checks each against the server's
//! own periods. So all three give the same answers, but for the order of [`Choice::Paper`].
//!
//! Left out: who has a server, holds and bookings (the participant knows), sites with interchangeable
//! CPUs ([`Timetable`]). Source: Castillo 2009, section 4. The file is long because
//! the timetable is one structure, and its three indexes have files of their own.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::ControlFlow;

use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::amount::Amount;
use crate::invalid::InvalidField;
use crate::planted::{self, Bug};
use crate::time::{Span, Time, Window};
use crate::timetable::{Layer, Timetable};

mod period_tree;
mod slot_bits;
mod slot_trees;
#[cfg(test)]
mod tests;

pub use period_tree::PeriodTree;
pub use slot_bits::SlotBits;
pub use slot_trees::{Operations, SlotTrees, SlotTreesConfig, Tails};

/// A server of one site, counted from 0 in the order in which the site lists them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct ServerIndex(pub u32);

/// A longest stretch of time in which one server is idle.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct IdlePeriod {
    /// The server.
    pub server: ServerIndex,
    /// First instant of the period; [`Time::MIN`] when the server was never taken before.
    pub start: Time,
    /// First instant after the period; [`Time::MAX`] when the server is not taken afterwards.
    pub end: Time,
}

impl IdlePeriod {
    /// Is the server idle at every instant of the window?
    #[must_use]
    pub fn contains(&self, window: Window) -> bool {
        self.start <= window.start() && window.end() <= self.end
    }

    /// The parts of the period before and after a window in it; `None` where there is nothing.
    #[must_use]
    pub fn around(&self, window: Window) -> [Option<Self>; 2] {
        let before = Self { end: window.start(), ..*self };
        let after = Self { start: window.end(), ..*self };
        [before, after].map(|part| (part.start < part.end).then_some(part))
    }

    /// How long it is, at most the longest span.
    #[must_use]
    pub const fn length(&self) -> Span {
        self.end.since(self.start)
    }
}

/// Which of the idle servers are chosen when there are more than needed.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize,
)]
#[serde(rename_all = "kebab-case")]
pub enum Choice {
    /// Those that the index finds first. [`PeriodTree`] finds first what became idle last.
    /// [`SlotTrees`] searches subtree by subtree, as the paper does: the subtree that became idle last
    /// comes first, and in each subtree what ends first. [`SlotBits`] goes by the number of the server.
    #[default]
    Paper,
    /// Those that the site lists first.
    First,
    /// Those whose idle period ends soonest after the window; among these, those whose idle period
    /// began last.
    BestFit,
    /// The reverse of [`Choice::BestFit`].
    WorstFit,
}

/// A server that is not idle through a window.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("server {} is taken from {} to {}", .server.0, .taken.start(), .taken.end())]
pub struct ServerTaken {
    /// The server.
    pub server: ServerIndex,
    /// The first stretch in which it is taken and that the window overlaps, as far as it is known: from
    /// its first instant in the window to the instant at which the server is idle again.
    pub taken: Window,
}

/// A window was given back in which the server is idle: the caller's records differ from the
/// timetable's. Nothing was changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("server {} is idle from {} on, within {window}", .server.0, .idle_from)]
pub struct NotTaken {
    /// The server.
    pub server: ServerIndex,
    /// The window that was to be given back.
    pub window: Window,
    /// The first instant of the window at which the server is idle.
    pub idle_from: Time,
}

/// The first start at which enough servers are idle together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FirstStart {
    /// The start.
    pub start: Time,
    /// How many starts the paper would have tried, this one included: with a step dt, those at
    /// `within.start() + k * dt`. Without a step, how many starts were looked at.
    pub attempts: u64,
}

/// Finds servers that are idle through a window.
///
/// An index has every idle period of every server. It is changed by [`IdleIndex::take`] and
/// [`IdleIndex::give`] only, for periods that exist.
pub trait IdleIndex {
    /// A new index: `servers` servers, each idle at every instant.
    fn fill(&mut self, servers: u32);

    /// The window, which is within this period, is taken: what is left of the period is
    /// [`IdlePeriod::around`].
    fn take(&mut self, period: IdlePeriod, window: Window);

    /// Takes several windows, one after the other; `left` are all idle periods that are left in the end.
    fn take_all(&mut self, taken: &[(IdlePeriod, Window)], _left: &[IdlePeriod]) {
        taken.iter().for_each(|(period, window)| self.take(*period, *window));
    }

    /// The window is given back: what was left of the period around it becomes this whole period.
    fn give(&mut self, period: IdlePeriod, window: Window);

    /// Visits servers, each once, until `visit` breaks: all that are idle through the window, and maybe
    /// others. When fewer than `least` are idle, it may visit fewer.
    fn visit(
        &self,
        window: Window,
        least: usize,
        visit: &mut dyn FnMut(ServerIndex) -> ControlFlow<()>,
    );

    /// An instant after `after` at which a period starts. No period of this length starts between the
    /// two. `None` when no period of this length starts after `after`.
    fn next_start(&self, after: Time, length: Span) -> Option<Time>;

    /// Time has come to this instant: nothing will be taken or searched before it.
    fn advance(&mut self, _now: Time) {}

    /// What the index has done so far, if it counts that.
    fn operations(&self) -> Option<Operations> {
        None
    }

    /// Checks the index against all idle periods.
    ///
    /// # Errors
    /// A sentence that states what is wrong.
    fn check(&self, periods: &[IdlePeriod]) -> Result<(), String>;
}

/// The servers of one site, and when each of them is taken.
#[derive(Debug, Clone)]
pub struct ServerTimetable<I> {
    /// Of each server, its idle periods: start and end.
    idle: Vec<BTreeMap<Time, Time>>,
    /// How many servers are taken.
    taken: Timetable,
    /// Time has come to this instant.
    since: Time,
    index: I,
}

impl<I: IdleIndex> ServerTimetable<I> {
    /// A timetable of this many servers, all idle. The index must be new.
    #[must_use]
    pub fn new(servers: u32, mut index: I) -> Self {
        index.fill(servers);
        let always = BTreeMap::from([(Time::MIN, Time::MAX)]);
        Self {
            idle: vec![always; servers as usize],
            taken: Timetable::new(Amount(u64::from(servers))),
            since: Time::MIN,
            index,
        }
    }

    /// A timetable in which these servers are taken over these windows, as after [`Self::take`] of one
    /// after the other. The index must be new; it is changed once.
    ///
    /// # Errors
    /// [`ServerTaken`] for the first that is not idle through its window.
    pub fn with_taken(
        servers: u32,
        taken: &[(ServerIndex, Window)],
        index: I,
    ) -> Result<Self, ServerTaken> {
        let mut new = Self::new(servers, index);
        let mut parts = Vec::with_capacity(taken.len());
        for &(server, window) in taken {
            let period = new.idle_through(server, window)?;
            new.count_taken(1, window);
            parts.push((period, new.split(period, window)));
        }
        let left = (0..servers).map(ServerIndex).flat_map(|server| new.periods(server));
        let left: Vec<IdlePeriod> = left.collect();
        new.index.take_all(&parts, &left);
        Ok(new)
    }

    /// Counts servers that are idle through the window as taken.
    fn count_taken(&mut self, servers: usize, window: Window) {
        // These servers are idle, so the count has room for them.
        let counted = self.taken.add(Layer::Booked, window, Amount(servers as u64));
        debug_assert!(counted.is_ok(), "{counted:?}");
    }

    /// Takes the window out of an idle period that contains it. Returns the window that the index is to take
    /// of it: what is left before it is of no use if it is past.
    fn split(&mut self, period: IdlePeriod, window: Window) -> Window {
        let from = if window.start() <= self.since { period.start } else { window.start() };
        // Not empty: it contains the window.
        let window = Window::new(from, window.end()).unwrap_or(window);
        let own = &mut self.idle[period.server.0 as usize];
        own.remove(&period.start);
        for part in period.around(window).into_iter().flatten() {
            own.insert(part.start, part.end);
        }
        window
    }

    /// How many servers there are.
    #[must_use]
    pub fn servers(&self) -> usize {
        self.idle.len()
    }

    /// The index.
    pub const fn index(&self) -> &I {
        &self.index
    }

    /// The index, to set what has nothing to do with its periods.
    pub const fn index_mut(&mut self) -> &mut I {
        &mut self.index
    }

    /// How many servers are taken over time: a timetable of their count.
    pub const fn count(&self) -> &Timetable {
        &self.taken
    }

    /// The idle period of a server that has this instant. `None` when the server is taken then, or is
    /// unknown.
    #[must_use]
    pub fn period_at(&self, server: ServerIndex, at: Time) -> Option<IdlePeriod> {
        let (&start, &end) = self.idle.get(server.0 as usize)?.range(..=at).next_back()?;
        (at < end).then_some(IdlePeriod { server, start, end })
    }

    /// The idle periods of one server in the order of time; none when the server is unknown.
    pub fn periods(&self, server: ServerIndex) -> impl Iterator<Item = IdlePeriod> + '_ {
        let periods = self.idle.get(server.0 as usize).into_iter().flatten();
        periods.map(move |(&start, &end)| IdlePeriod { server, start, end })
    }

    /// The idle period of a server that contains the whole window.
    ///
    /// # Errors
    /// [`ServerTaken`] when the server is taken at some instant of the window. An unknown server is
    /// taken for ever.
    pub fn idle_through(
        &self,
        server: ServerIndex,
        window: Window,
    ) -> Result<IdlePeriod, ServerTaken> {
        let around = self.period_at(server, window.start());
        match around {
            Some(period) if period.contains(window) && !is_end_excluded(period, window) => {
                Ok(period)
            }
            _ => {
                let from = around.map_or(window.start(), |period| period.end);
                let next = self.idle.get(server.0 as usize);
                let next = next.and_then(|periods| periods.range(from..).next());
                let until = next.map_or(Time::MAX, |(&start, _)| start);
                // `from` is taken, so the next period starts later; at the end of time all is idle.
                let taken = Window::new(from, until).unwrap_or(window);
                Err(ServerTaken { server, taken })
            }
        }
    }

    /// Takes a server over a window.
    ///
    /// # Errors
    /// [`ServerTaken`] when it is not idle through the window. Nothing was changed then.
    pub fn take(&mut self, server: ServerIndex, window: Window) -> Result<(), ServerTaken> {
        self.take_all(&[server], window)
    }

    /// Takes several different servers over a window.
    ///
    /// # Errors
    /// [`ServerTaken`] for the first that is not idle through the window, also when it is named twice.
    /// Nothing was changed then.
    pub fn take_all(&mut self, servers: &[ServerIndex], window: Window) -> Result<(), ServerTaken> {
        let idle = |server: &ServerIndex| self.idle_through(*server, window);
        let periods = servers.iter().map(idle).collect::<Result<Vec<IdlePeriod>, _>>()?;
        let mut sorted = servers.to_vec();
        sorted.sort_unstable();
        if let Some(twice) = sorted.windows(2).find(|pair| pair[0] == pair[1]) {
            return Err(ServerTaken { server: twice[0], taken: window });
        }
        // Nothing can fail from here.
        self.count_taken(periods.len(), window);
        for period in periods {
            let window = self.split(period, window);
            self.index.take(period, window);
        }
        Ok(())
    }

    /// Gives a server back over a window. Idle periods that touch the window become one with it.
    ///
    /// # Errors
    /// [`NotTaken`] when the server is idle at some instant of the window. Nothing was changed then.
    pub fn give(&mut self, server: ServerIndex, window: Window) -> Result<(), NotTaken> {
        let not_taken = |idle_from| NotTaken { server, window, idle_from };
        let Some(periods) = self.idle.get_mut(server.0 as usize) else {
            return Err(not_taken(window.start()));
        };
        let before = periods.range(..window.start()).next_back().map(|(&start, &end)| (start, end));
        if before.is_some_and(|(_, end)| end > window.start()) {
            return Err(not_taken(window.start()));
        }
        if let Some((&start, _)) = periods.range(window.start()..window.end()).next() {
            return Err(not_taken(start));
        }
        // Nothing can fail from here.
        let counted = self.taken.remove(Layer::Booked, window, Amount(1));
        debug_assert!(counted.is_ok(), "{counted:?}");
        let before = before.filter(|_| !planted::is(Bug::ServersUnmerged));
        let start = before.filter(|(_, end)| *end == window.start()).map(|(start, _)| start);
        let start = start.unwrap_or(window.start());
        let end = periods.remove(&window.end()).unwrap_or(window.end());
        periods.insert(start, end);
        self.index.give(IdlePeriod { server, start, end }, window);
        Ok(())
    }

    /// Time has come to this instant: nothing will be taken, given back or searched before it. Idle periods
    /// that end here are kept no longer.
    pub fn advance(&mut self, now: Time) {
        self.since = self.since.max(now);
        self.index.advance(now);
    }

    /// Forgets what was before an instant, to which time has come. Costs O(log M) for each idle period that is
    /// forgotten, and a look at every server.
    pub fn forget_before(&mut self, now: Time) {
        self.advance(now);
        self.taken.forget_before(now);
        for (server, periods) in (0..).map(ServerIndex).zip(&mut self.idle) {
            // A period that ends now may be touched by what is given back now.
            while let Some((start, end)) =
                periods.first_key_value().map(|(&start, &end)| (start, end))
                && end < now
            {
                periods.pop_first();
                if let Some(window) = Window::new(start, end) {
                    self.index.take(IdlePeriod { server, start, end }, window);
                }
            }
        }
    }

    /// All servers that are idle through a window, with the whole idle period of each, in the order in
    /// which the site lists them.
    #[must_use]
    pub fn idle(&self, window: Window) -> Vec<IdlePeriod> {
        let mut idle = self.idle_up_to(window, 1, usize::MAX);
        idle.sort_unstable();
        idle
    }

    /// How many servers are idle through a window. It costs a look at each of them.
    #[must_use]
    pub fn count_idle(&self, window: Window) -> usize {
        self.idle_up_to(window, 1, usize::MAX).len()
    }

    /// Whether so many servers are idle through a window.
    #[must_use]
    pub fn has_idle(&self, window: Window, wanted: usize) -> bool {
        self.idle_up_to(window, wanted, wanted).len() >= wanted
    }

    /// Chooses servers that are idle through a window; `None` when fewer than `wanted` are. Nothing is
    /// taken.
    #[must_use]
    pub fn find(&self, window: Window, wanted: usize, choice: Choice) -> Option<Vec<ServerIndex>> {
        self.find_beside(&BTreeSet::new(), window, wanted, choice)
    }

    /// Chooses servers as [`ServerTimetable::find`] does, but none of `others`.
    #[must_use]
    pub fn find_beside(
        &self,
        others: &BTreeSet<ServerIndex>,
        window: Window,
        wanted: usize,
        choice: Choice,
    ) -> Option<Vec<ServerIndex>> {
        let most = if choice == Choice::Paper { wanted + others.len() } else { usize::MAX };
        let mut idle = self.idle_up_to(window, wanted, most);
        idle.retain(|period| !others.contains(&period.server));
        if idle.len() < wanted {
            return None;
        }
        let by_end = |period: &IdlePeriod| (period.end, std::cmp::Reverse(period.start));
        match choice {
            Choice::Paper => {}
            Choice::First => idle.sort_unstable_by_key(|period| period.server),
            Choice::BestFit => {
                idle.sort_unstable_by_key(|period| (by_end(period), period.server));
            }
            Choice::WorstFit => {
                idle.sort_unstable_by_key(|period| {
                    (std::cmp::Reverse(by_end(period)), period.server)
                });
            }
        }
        Some(idle.into_iter().take(wanted).map(|period| period.server).collect())
    }

    /// The first start at which `wanted` servers are idle for `length`, so that all of it is inside
    /// `within`. With a step, starts are `within.start() + k * step`; a step of zero allows any start.
    /// `None` when there is none, or when the length is not positive.
    ///
    /// Enough servers must be idle at every instant, which the count tells in O(log M); whether they
    /// are the same ones is then looked up. If they are not, no start works before the next start of an
    /// idle period that is long enough.
    #[must_use]
    pub fn first_start(
        &self,
        wanted: usize,
        length: Span,
        within: Window,
        step: Span,
    ) -> Option<FirstStart> {
        let (mut from, mut looked_at) = (within.start(), 0);
        loop {
            let first = first_start_of(&self.taken, wanted, length, within, from, step)?;
            let window = Window::starting(first.start, length)?;
            looked_at += 1;
            if self.has_idle(window, wanted) {
                let attempts = if step > Span::ZERO { first.attempts } else { looked_at };
                return Some(FirstStart { attempts, ..first });
            }
            from = self.index.next_start(first.start, length)?;
        }
    }

    /// The first start, at `from` or later, at which all of these servers are idle for `length`. `None` when
    /// there is none, when one of them is unknown, or when the length is not positive.
    #[must_use]
    pub fn first_start_together(
        &self,
        servers: &[ServerIndex],
        length: Span,
        from: Time,
    ) -> Option<Time> {
        let mut start = from;
        loop {
            let window = Window::starting(start, length)?;
            let later = |server: &ServerIndex| {
                let taken = self.idle_through(*server, window).err()?;
                // The server is not idle long enough from any instant before that on.
                Some(taken.taken.end())
            };
            match servers.iter().filter_map(later).max() {
                None => return Some(start),
                Some(Time::MAX) => return None,
                Some(next) => start = next,
            }
        }
    }

    /// Up to `most` idle periods that contain the window, in the order of the index. When fewer than
    /// `least` servers are idle, there may be fewer.
    fn idle_up_to(&self, window: Window, least: usize, most: usize) -> Vec<IdlePeriod> {
        let mut found = Vec::new();
        if most == 0 {
            return found;
        }
        self.index.visit(window, least, &mut |server| {
            found.extend(self.idle_through(server, window).ok());
            if found.len() < most { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
        });
        found
    }

    /// Checks that the periods of each server are apart, that as many servers are taken as the count
    /// says, and the index. Costs O(M log M).
    ///
    /// # Errors
    /// A sentence that states what is wrong.
    pub fn check_invariants(&self) -> Result<(), String> {
        self.taken.check_invariants()?;
        let mut count = Timetable::new(self.taken.capacity());
        let mut all = Vec::new();
        for index in 0..self.idle.len() {
            let server = ServerIndex(u32::try_from(index).map_err(|error| error.to_string())?);
            let mut idle_until = None;
            for period in self.periods(server) {
                if period.start >= period.end {
                    return Err(format!("{period:?} is empty or reversed"));
                }
                let taken_from = idle_until.unwrap_or(Time::MIN);
                match Window::new(taken_from, period.start) {
                    Some(taken) => {
                        let counted = count.add(Layer::Booked, taken, Amount(1));
                        counted.map_err(|error| error.to_string())?;
                    }
                    None if idle_until.is_some() => {
                        return Err(format!("{period:?} touches the period before it"));
                    }
                    None => {}
                }
                idle_until = Some(period.end);
                all.push(period);
            }
            if let Some(taken) = Window::new(idle_until.unwrap_or(Time::MIN), Time::MAX) {
                let counted = count.add(Layer::Booked, taken, Amount(1));
                counted.map_err(|error| error.to_string())?;
            }
        }
        let left = Window::new(self.since, Time::MAX);
        if left.is_some_and(|left| count.profile(left) != self.taken.profile(left)) {
            return Err("the count of taken servers is not that of their periods".to_owned());
        }
        self.index.check(&all)
    }
}

/// Is the period too short if its end does not count?
fn is_end_excluded(period: IdlePeriod, window: Window) -> bool {
    planted::is(Bug::ServerEndInclusive) && period.end == window.end()
}

/// Checks the slots of an index before anything is allocated for them.
fn check_slots(slot: Span, slots: usize, servers: u32, most: u64) -> Result<(), InvalidField> {
    if slot <= Span::ZERO {
        return Err(InvalidField::new("slot", slot, "a positive length"));
    }
    let most = most / u64::from(servers.max(1));
    if slots == 0 || slots as u64 > most {
        let allowed = format!("1 to {most} for {servers} servers");
        return Err(InvalidField::new("slots", slots, allowed));
    }
    Ok(())
}

/// The first start at `from` or later at which so many servers are free by their count, as for
/// [`ServerTimetable::first_start`]. Whether they are the same ones throughout is not asked.
#[must_use]
pub fn first_start_of(
    taken: &Timetable,
    wanted: usize,
    length: Span,
    within: Window,
    from: Time,
    step: Span,
) -> Option<FirstStart> {
    let mut from = from;
    loop {
        let left = Window::new(from, within.end())?;
        let fit = taken.earliest_fit(Amount(wanted as u64), length, left)?.start();
        if step <= Span::ZERO {
            return Some(FirstStart { start: fit, attempts: 1 });
        }
        let steps = steps_up(fit.since(within.start()), step);
        let start = within.start().saturating_add(step.saturating_mul(steps));
        if start == fit {
            return Some(FirstStart { start, attempts: steps.unsigned_abs() + 1 });
        }
        from = start;
    }
}

/// How many steps it takes to go at least as far as `distance`; 0 when there is no step.
const fn steps_up(distance: Span, step: Span) -> i64 {
    if step.as_us() <= 0 {
        return 0;
    }
    // Not negative: starts are looked for from the start of the window on.
    distance.as_us().saturating_add(step.as_us() - 1) / step.as_us()
}
