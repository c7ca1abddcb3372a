//! What is free over time, for schedulers that may watch profiles: which windows changed, and what is
//! free in them now.
//!
//! Every change of what is free is noted where the fold makes it ([`Participant::changes`]), so that the notes
//! are the same after a replay. A Commit neither frees nor takes anything, so it is no change. A change of an
//! inner link may change what any path can carry, and counts as one change of every path.
//!
//! # What is disclosed
//! At every instant, subscribers see what a query about that instant alone would answer to a user without a
//! service level who replaces nothing, whatever the horizon: the capacity less held and booked; for a path with
//! an inner network, at most what one route can carry at present.
//!
//! A subscriber's figures differ from a query's answer in two cases, both only with an inner network. A hold
//! over several steps needs one route through all of them, so it may be refused although each step has enough.
//! And where bookings may be rerouted, a hold may get more than is disclosed, because the search for that
//! ([`limits::INNER_QUERY_SEARCHES`]) is not made for subscribers. Names, holders and routes are not disclosed.
//!
//! The timetables are read in slices of about [`limits::QUERY_SLICE_WORK`], so that holds do not wait for a
//! snapshot. What a hold changes between two slices is in the later slices, or in the next update.
//!
//! Left out: who may watch, which the shell knows. Source: docs/adr/0022-updates.md, 0023-publisher.md.

use std::collections::{BTreeMap, VecDeque};

use coalloc_common::profile::FreeStep;
use coalloc_common::timetable::{Step, Timetable};
use coalloc_common::{Amount, ResourceId, Segment, Time, Window, limits};

use super::Participant;
use crate::update::{ChangeLog, Part};

/// Windows that are to be disclosed, and what was read of them so far.
#[derive(Debug, Clone, Default)]
pub struct Disclosure {
    left: VecDeque<(u32, Window)>,
    parts: Vec<Part>,
    steps: usize,
}

impl Disclosure {
    /// A disclosure of these windows, each with the number of its resource in the order of the configuration.
    pub fn of(windows: impl IntoIterator<Item = (u32, Window)>) -> Self {
        Self { left: windows.into_iter().collect(), ..Self::default() }
    }

    /// Has everything been read?
    #[must_use]
    pub fn is_read(&self) -> bool {
        self.left.is_empty()
    }

    /// Has as much been read as fits in one update?
    #[must_use]
    pub const fn is_full(&self) -> bool {
        // Each part has at least one step, so the number of parts is bounded as well.
        self.steps >= limits::UPDATE_STEPS_MAX
    }

    /// Takes out what was read so far, so that more can be read.
    #[must_use]
    pub fn take(&mut self) -> Vec<Part> {
        self.steps = 0;
        std::mem::take(&mut self.parts)
    }
}

/// How much more may be read in this slice.
struct Budget {
    steps: usize,
    work: usize,
}

/// The steps that were read, and the instant at which the budget cut them off; `None` when they are complete.
type CutSteps = (Vec<FreeStep>, Option<Time>);

impl Participant {
    /// Sets how many changes the ring keeps instead of [`limits::CHANGES_KEPT`]. Call it before any record is applied.
    #[must_use]
    pub fn with_changes_kept(mut self, kept: usize) -> Self {
        self.changes = ChangeLog::new(kept, self.changes_of());
        self
    }

    /// Which windows changed at which revision. A revision is one record.
    #[must_use]
    pub const fn changes(&self) -> &ChangeLog {
        &self.changes
    }

    /// All resources, from an instant on for ever.
    #[must_use]
    pub fn everything(&self, from: Time) -> Disclosure {
        let window = Window::new(from, Time::from_us(limits::TIME_MAX_US));
        let all = 0..self.changes_of();
        Disclosure::of(all.filter_map(|resource| Some((resource, window?))))
    }

    /// The windows of these segments, except those of unknown resources.
    #[must_use]
    pub fn around(&self, segments: &[Segment]) -> Disclosure {
        let known =
            |segment: &Segment| Some((*self.numbers.get(&segment.resource)?, segment.window));
        Disclosure::of(segments.iter().filter_map(known))
    }

    /// Reads one more slice, but never more than fits in one update.
    pub fn disclose(&self, disclosure: &mut Disclosure) {
        let mut budget = Budget {
            steps: limits::UPDATE_STEPS_MAX.saturating_sub(disclosure.steps),
            work: limits::QUERY_SLICE_WORK,
        };
        while budget.steps > 0
            && budget.work > 0
            && let Some((resource, window)) = disclosure.left.pop_front()
        {
            let Some((steps, cut)) = self.free_steps(resource, window, &mut budget) else {
                continue;
            };
            let rest = cut.and_then(|at| Window::new(at, window.end()));
            let read = cut.and_then(|at| Window::new(window.start(), at)).unwrap_or(window);
            if let Some(rest) = rest {
                disclosure.left.push_front((resource, rest));
            }
            disclosure.steps += steps.len();
            disclosure.parts.push(Part { resource, window: read, steps });
        }
    }

    /// The free amounts of a resource over a window: at least one step, and more as far as the budget goes.
    /// `None` for an unknown resource.
    fn free_steps(&self, resource: u32, window: Window, budget: &mut Budget) -> Option<CutSteps> {
        let (name, _) = self.config.resources.get(resource as usize)?;
        let timetable = self.timetables.get(name)?;
        let own = timetable.steps(window).map(|step| (step.start, free(timetable, step)));
        let Some(inside) = self.config.inside.as_deref() else {
            return Some(cut(own.map(|(at, free)| (at, amount(free))), 1, budget));
        };
        let links: Vec<&Timetable> =
            inside.links().iter().filter_map(|(link, _)| self.timetables.get(link)).collect();
        let each = links.iter().map(|link| {
            Box::new(link.steps(window).map(|step| (step.start, free(link, step)))) as Levels<'_>
        });
        let all =
            MergedSteps::new(std::iter::once(Box::new(own) as Levels<'_>).chain(each).collect());
        let carried = all.map(|(at, levels)| {
            let (own, links) =
                levels.split_first().map_or((0, &[][..]), |(own, links)| (*own, links));
            let own = amount(own);
            let most = if own == Amount::ZERO { own } else { inside.widest(name, links, own) };
            (at, most.min(own))
        });
        // Each step looks at every link, and the search for a route looks at every link again.
        Some(cut(carried, 1 + 2 * links.len(), budget))
    }

    /// Notes that the free amounts in these segments have changed.
    pub(super) fn note(&mut self, segments: &[Segment]) {
        let mut inside: BTreeMap<(Time, Time), Amount> = BTreeMap::new();
        for Segment { resource, amount, window } in segments {
            if self.servers.has(resource) {
                // The CPUs of the server are in the segment of its site.
            } else if self.links.contains(resource) {
                // A route takes the same amount of each of its links.
                let most = inside.entry((window.start(), window.end())).or_default();
                *most = (*most).max(*amount);
            } else if let Some(number) = self.numbers.get(resource) {
                self.changes.note(*number, *window, *amount);
            }
        }
        for ((start, end), amount) in inside {
            if let Some(window) = Window::new(start, end) {
                self.changes.note_any(window, amount);
            }
        }
    }

    /// The number of resources.
    fn changes_of(&self) -> u32 {
        count(&self.config.resources)
    }
}

/// The number of resources, which is far below 2^32.
pub(super) fn count(resources: &[(ResourceId, Amount)]) -> u32 {
    u32::try_from(resources.len()).unwrap_or(u32::MAX)
}

/// The number of each resource, in the order of the configuration.
pub(super) fn numbers(resources: &[(ResourceId, Amount)]) -> BTreeMap<ResourceId, u32> {
    resources.iter().map(|(resource, _)| resource.clone()).zip(0..).collect()
}

/// What is free at a step; negative where more is promised than there is.
fn free(timetable: &Timetable, step: Step) -> i64 {
    let signed = |amount: Amount| i64::try_from(amount.0).unwrap_or(i64::MAX);
    let taken = signed(step.held).saturating_add(signed(step.booked));
    signed(timetable.capacity()).saturating_sub(taken)
}

fn amount(free: i64) -> Amount {
    Amount(free.max(0).unsigned_abs())
}

/// Takes steps while the budget lasts, and merges equal neighbours. `work` is the cost of one step.
fn cut(all: impl Iterator<Item = FreeStep>, work: usize, budget: &mut Budget) -> CutSteps {
    let mut steps: Vec<FreeStep> = Vec::new();
    for (at, free) in all {
        let is_new = steps.last().is_none_or(|(_, before)| *before != free);
        if !steps.is_empty() && (budget.work == 0 || (is_new && budget.steps == 0)) {
            return (steps, Some(at));
        }
        budget.work = budget.work.saturating_sub(work);
        if is_new {
            budget.steps = budget.steps.saturating_sub(1);
            steps.push((at, free));
        }
    }
    (steps, None)
}

/// A step function of time, from the start of a window on.
type Levels<'a> = Box<dyn Iterator<Item = (Time, i64)> + 'a>;

/// Several step functions side by side, with a step wherever any of them has one.
struct MergedSteps<'a> {
    each: Vec<std::iter::Peekable<Levels<'a>>>,
    now: Vec<i64>,
}

impl<'a> MergedSteps<'a> {
    fn new(each: Vec<Levels<'a>>) -> Self {
        let now = vec![0; each.len()];
        Self { each: each.into_iter().map(Iterator::peekable).collect(), now }
    }

    fn map<T>(mut self, of: impl Fn((Time, &[i64])) -> T) -> impl Iterator<Item = T> {
        std::iter::from_fn(move || {
            let at = self.each.iter_mut().filter_map(|one| one.peek().map(|(at, _)| *at)).min()?;
            for (one, now) in self.each.iter_mut().zip(&mut self.now) {
                if let Some((_, level)) = one.next_if(|(start, _)| *start == at) {
                    *now = level;
                }
            }
            Some(of((at, &self.now)))
        })
    }
}
