//! What is taken of the servers of a machine, and when: as a count, or server by server.
//!
//! A count is enough to find a start: any idle server is as good as any other one. But a job that keeps its
//! servers throughout may have to wait longer than the count says. With single servers, [`Choice`] says which
//! of the idle ones a job gets.

use std::collections::BTreeMap;

use coalloc_common::servers::{
    Choice, FirstStart, IdleIndex, Operations, PeriodTree, ServerIndex, ServerTimetable, SlotBits,
    SlotTrees, SlotTreesConfig, Tails, first_start_of,
};
use coalloc_common::timetable::{Layer, Timetable};
use coalloc_common::{Amount, InvalidField, Span, Time, Window, limits};

use super::settings::{JobsSettings, ServerIndexKind};

/// A start that a job wants.
pub(super) struct WantedStart {
    /// How many servers.
    pub(super) servers: usize,
    /// For how long.
    pub(super) length: Span,
    /// All of it is inside this window.
    pub(super) within: Window,
    /// Starts are at steps from the start of the window; any start if this is zero.
    pub(super) step: Span,
}

/// The jobs that have servers, each by its number.
pub(super) trait Occupancy {
    /// The first start at which enough servers are idle.
    fn first_start(&self, wanted: &WantedStart) -> Option<FirstStart>;

    /// Takes servers for a job.
    ///
    /// # Errors
    /// When they are not idle: a defect.
    fn take(&mut self, job: usize, servers: usize, window: Window) -> Result<(), String>;

    /// Frees the servers of a job over the last part of its window.
    ///
    /// # Errors
    /// When the job does not have them: a defect.
    fn free(&mut self, job: usize, servers: usize, rest: Window) -> Result<(), String>;

    /// Time has come to this instant; nothing will be taken before it.
    fn advance(&mut self, _now: Time) {}

    /// Forgets what was before this instant; nothing will be taken or freed before it.
    fn forget_before(&mut self, now: Time);

    /// How many operations were made so far, where they are counted.
    fn operations(&self) -> Option<u64> {
        None
    }
}

/// Checks that there may be such an index of so many servers, for jobs that are submitted between two
/// instants.
///
/// # Errors
/// [`InvalidField`] when there are too many servers for an index, or too many slots times servers.
pub(super) fn check(
    settings: &JobsSettings,
    servers: u64,
    first: Time,
    last: Time,
) -> Result<(), InvalidField> {
    match settings.index {
        ServerIndexKind::Count => Ok(()),
        ServerIndexKind::Tree => single_servers(servers).map(drop),
        ServerIndexKind::Bits => slot_bits(settings, servers, first, last).map(drop),
        ServerIndexKind::Slots => slot_trees(settings, servers, first, Tails::Apart).map(drop),
        ServerIndexKind::SlotsPrinted => {
            slot_trees(settings, servers, first, Tails::Printed).map(drop)
        }
    }
}

/// The occupancy that the settings ask for, of jobs that are submitted between two instants.
///
/// # Errors
/// As [`check`].
pub(super) fn of_settings(
    settings: &JobsSettings,
    servers: u64,
    first: Time,
    last: Time,
) -> Result<Box<dyn Occupancy>, InvalidField> {
    let trees = |tails| -> Result<Box<dyn Occupancy>, InvalidField> {
        let trees = slot_trees(settings, servers, first, tails)?;
        Ok(Box::new(ServerOccupancy::new(settings, single_servers(servers)?, trees, true)))
    };
    match settings.index {
        ServerIndexKind::Count => Ok(Box::new(Timetable::new(Amount(servers)))),
        ServerIndexKind::Tree => {
            let (count, tree) = (single_servers(servers)?, PeriodTree::new());
            Ok(Box::new(ServerOccupancy::new(settings, count, tree, false)))
        }
        ServerIndexKind::Bits => {
            let bits = slot_bits(settings, servers, first, last)?;
            Ok(Box::new(ServerOccupancy::new(settings, single_servers(servers)?, bits, false)))
        }
        ServerIndexKind::Slots => trees(Tails::Apart),
        ServerIndexKind::SlotsPrinted => trees(Tails::Printed),
    }
}

/// The number of servers of an index.
fn single_servers(servers: u64) -> Result<u32, InvalidField> {
    let most = limits::SERVERS_MAX;
    u32::try_from(servers).ok().filter(|count| *count <= most).ok_or_else(|| {
        let allowed = format!("1 to {most} with an index of single servers");
        InvalidField::new("servers", servers, allowed)
    })
}

/// How many slots a span has, the one in which it ends included.
fn slots(settings: &JobsSettings, span: Span) -> usize {
    let slot = Span::from_secs(settings.slot_s).as_us();
    usize::try_from(span.as_us() / slot + 1).unwrap_or(usize::MAX)
}

fn slot_bits(
    settings: &JobsSettings,
    servers: u64,
    first: Time,
    last: Time,
) -> Result<SlotBits, InvalidField> {
    let all = last.since(first).saturating_add(Span::from_secs(settings.horizon_s()));
    let slot = Span::from_secs(settings.slot_s);
    SlotBits::new(first, slot, slots(settings, all), single_servers(servers)?)
}

fn slot_trees(
    settings: &JobsSettings,
    servers: u64,
    first: Time,
    tails: Tails,
) -> Result<SlotTrees, InvalidField> {
    let slots = slots(settings, Span::from_secs(settings.horizon_s()));
    let slot = Span::from_secs(settings.slot_s);
    SlotTrees::new(SlotTreesConfig { origin: first, slot, slots, tails }, single_servers(servers)?)
}

/// Servers as a count.
impl Occupancy for Timetable {
    fn first_start(&self, wanted: &WantedStart) -> Option<FirstStart> {
        let WantedStart { servers, length, within, step } = *wanted;
        first_start_of(self, servers, length, within, within.start(), step)
    }

    fn take(&mut self, job: usize, servers: usize, window: Window) -> Result<(), String> {
        let taken = self.add(Layer::Booked, window, Amount(servers as u64));
        taken.map_err(|error| format!("job {job} does not fit where it was found to: {error}"))
    }

    fn free(&mut self, job: usize, servers: usize, rest: Window) -> Result<(), String> {
        let freed = self.remove(Layer::Booked, rest, Amount(servers as u64));
        freed.map_err(|error| format!("job {job} ended early: {error}"))
    }

    fn forget_before(&mut self, now: Time) {
        Self::forget_before(self, now);
    }
}

/// Single servers.
struct ServerOccupancy<I> {
    table: ServerTimetable<I>,
    choice: Choice,
    /// Is every start tried by itself, as the paper has it?
    makes_attempts: bool,
    /// The servers of each job.
    of: BTreeMap<usize, Vec<ServerIndex>>,
}

impl<I: IdleIndex> ServerOccupancy<I> {
    fn new(settings: &JobsSettings, servers: u32, index: I, makes_attempts: bool) -> Self {
        let (table, of) = (ServerTimetable::new(servers, index), BTreeMap::new());
        Self { table, choice: settings.choice, makes_attempts, of }
    }
}

impl<I: IdleIndex> Occupancy for ServerOccupancy<I> {
    fn first_start(&self, wanted: &WantedStart) -> Option<FirstStart> {
        let WantedStart { servers, length, within, step } = *wanted;
        if !self.makes_attempts || step <= Span::ZERO {
            return self.table.first_start(servers, length, within, step);
        }
        let (mut start, mut attempts) = (within.start(), 0);
        loop {
            let window = Window::starting(start, length);
            let window = window.filter(|tried| tried.end() <= within.end())?;
            attempts += 1;
            if self.table.has_idle(window, servers) {
                return Some(FirstStart { start, attempts });
            }
            start = start.saturating_add(step);
        }
    }

    fn take(&mut self, job: usize, servers: usize, window: Window) -> Result<(), String> {
        let found = self.table.find(window, servers, self.choice);
        let found = found.ok_or_else(|| format!("job {job} does not fit where it was found to"))?;
        self.table.take_all(&found, window).map_err(|error| format!("job {job}: {error}"))?;
        self.of.insert(job, found);
        Ok(())
    }

    fn free(&mut self, job: usize, _: usize, rest: Window) -> Result<(), String> {
        for server in self.of.remove(&job).unwrap_or_default() {
            let freed = self.table.give(server, rest);
            freed.map_err(|error| format!("job {job} ended early: {error}"))?;
        }
        Ok(())
    }

    /// The paper's trees drop a period with its last slot, and their operations are counted.
    fn advance(&mut self, now: Time) {
        match self.makes_attempts {
            true => self.table.index_mut().advance(now),
            false => self.table.advance(now),
        }
    }

    /// As for [`Self::advance`].
    fn forget_before(&mut self, now: Time) {
        if !self.makes_attempts {
            self.table.forget_before(now);
        }
    }

    fn operations(&self) -> Option<u64> {
        self.table.index().operations().map(Operations::total)
    }
}
