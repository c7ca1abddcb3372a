//! What is taken of the servers of a machine, and when: as a count, or server by server.
//!
//! A count is enough to find a start: any idle server is as good as any other one. But a job that keeps its
//! servers throughout may have to wait longer than the count says. With single servers, [`Choice`] says which
//! of the idle ones a job gets.

use std::collections::BTreeMap;

use coalloc_common::servers::{
    Choice, FirstStart, IdleIndex, PeriodTree, ServerIndex, ServerTimetable, SlotBits, SlotTrees,
    SlotTreesConfig, Tails,
};
use coalloc_common::timetable::{Layer, Timetable};
use coalloc_common::{Amount, InvalidField, Span, Time, Window, limits};

use super::settings::{JobsSettings, ServerIndexKind};

/// The jobs that have servers, each by its number.
pub(super) trait Occupancy {
    /// The first start, at steps from the start of `within`, at which enough servers are idle.
    fn first_start(
        &self,
        servers: usize,
        length: Span,
        within: Window,
        step: Span,
    ) -> Option<FirstStart>;

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

    /// How many operations were made so far, where they are counted.
    fn operations(&self) -> Option<u64> {
        None
    }
}

/// The occupancy that the settings ask for, of jobs that are submitted between two instants.
///
/// # Errors
/// [`InvalidField`] when slots times servers exceed what the index can have.
pub(super) fn occupancy(
    settings: &JobsSettings,
    servers: u64,
    first: Time,
    last: Time,
) -> Result<Box<dyn Occupancy>, InvalidField> {
    let count = || {
        let most = limits::SERVERS_MAX;
        u32::try_from(servers).ok().filter(|count| *count <= most).ok_or_else(|| {
            let allowed = format!("1 to {most} with an index of single servers");
            InvalidField::new("servers", servers, allowed)
        })
    };
    let slot = Span::from_secs(settings.slot_s);
    let slots = |span: Span| usize::try_from(span.as_us() / slot.as_us() + 1).unwrap_or(usize::MAX);
    let (choice, horizon) = (settings.choice, Span::from_secs(settings.horizon_s()));
    let trees = |tails| {
        let config = SlotTreesConfig { origin: first, slot, slots: slots(horizon), tails };
        let table = ServerTimetable::new(count()?, SlotTrees::new(config, count()?)?);
        Ok(Box::new(SlotTreeOccupancy(ServerOccupancy::new(table, choice))))
    };
    Ok(match settings.index {
        ServerIndexKind::Count => Box::new(Timetable::new(Amount(servers))),
        ServerIndexKind::Tree => {
            let table = ServerTimetable::new(count()?, PeriodTree::new());
            Box::new(ServerOccupancy::new(table, choice))
        }
        ServerIndexKind::Bits => {
            let all = slots(last.since(first).saturating_add(horizon));
            let bits = SlotBits::new(first, slot, all, count()?)?;
            Box::new(ServerOccupancy::new(ServerTimetable::new(count()?, bits), choice))
        }
        ServerIndexKind::Slots => trees(Tails::Apart)?,
        ServerIndexKind::SlotsPrinted => trees(Tails::Printed)?,
    })
}

/// Servers as a count.
impl Occupancy for Timetable {
    fn first_start(
        &self,
        servers: usize,
        length: Span,
        within: Window,
        step: Span,
    ) -> Option<FirstStart> {
        let mut from = within.start();
        loop {
            let left = Window::new(from, within.end())?;
            let fit = self.earliest_fit(amount(servers), length, left)?.start();
            if step <= Span::ZERO {
                return Some(FirstStart { start: fit, attempts: 1 });
            }
            let waited = fit.since(within.start()).as_us();
            let steps = (waited + step.as_us() - 1) / step.as_us();
            let on_step = within.start().saturating_add(step.saturating_mul(steps));
            if on_step == fit {
                return Some(FirstStart { start: fit, attempts: steps.unsigned_abs() + 1 });
            }
            from = on_step;
        }
    }

    fn take(&mut self, job: usize, servers: usize, window: Window) -> Result<(), String> {
        let taken = self.add(Layer::Booked, window, amount(servers));
        taken.map_err(|error| format!("job {job} does not fit where it was found to: {error}"))
    }

    fn free(&mut self, job: usize, servers: usize, rest: Window) -> Result<(), String> {
        let freed = self.remove(Layer::Booked, rest, amount(servers));
        freed.map_err(|error| format!("job {job} ended early: {error}"))
    }
}

const fn amount(servers: usize) -> Amount {
    Amount(servers as u64)
}

/// Single servers.
struct ServerOccupancy<I> {
    table: ServerTimetable<I>,
    choice: Choice,
    /// The servers of each job.
    of: BTreeMap<usize, Vec<ServerIndex>>,
}

impl<I: IdleIndex> ServerOccupancy<I> {
    const fn new(table: ServerTimetable<I>, choice: Choice) -> Self {
        Self { table, choice, of: BTreeMap::new() }
    }
}

impl<I: IdleIndex> Occupancy for ServerOccupancy<I> {
    fn first_start(
        &self,
        servers: usize,
        length: Span,
        within: Window,
        step: Span,
    ) -> Option<FirstStart> {
        self.table.first_start(servers, length, within, step)
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
}

/// The paper's trees, which make each attempt and count what they do.
struct SlotTreeOccupancy(ServerOccupancy<SlotTrees>);

impl Occupancy for SlotTreeOccupancy {
    fn first_start(
        &self,
        servers: usize,
        length: Span,
        within: Window,
        step: Span,
    ) -> Option<FirstStart> {
        if step <= Span::ZERO {
            return self.0.first_start(servers, length, within, step);
        }
        let (mut start, mut attempts) = (within.start(), 0);
        loop {
            let window =
                Window::starting(start, length).filter(|tried| tried.end() <= within.end())?;
            attempts += 1;
            if self.0.table.has_idle(window, servers) {
                return Some(FirstStart { start, attempts });
            }
            start = start.saturating_add(step);
        }
    }

    fn take(&mut self, job: usize, servers: usize, window: Window) -> Result<(), String> {
        self.0.take(job, servers, window)
    }

    fn free(&mut self, job: usize, servers: usize, rest: Window) -> Result<(), String> {
        self.0.free(job, servers, rest)
    }

    fn advance(&mut self, now: Time) {
        self.0.table.index_mut().advance(now);
    }

    fn operations(&self) -> Option<u64> {
        Some(self.0.table.index().operations().total())
    }
}
