//! Timetables of a whole federation in which a planner tries what to take, with an undo log.
//!
//! What others have taken is booked; what the workflow in planning takes is held, and taken back in
//! the reverse order. Source: the design, "Planners"; the timetables are those of the resource
//! managers. Left out: whose bookings they are, and how profiles are fetched.

use std::collections::BTreeMap;

use coalloc_common::profile::FreeStep;
use coalloc_common::timetable::{Layer, Shortfall, Timetable};
use coalloc_common::topology::{Direction, FrameView};
use coalloc_common::{
    Amount, BitsPerSecond, EdgeIndex, ResourceId, ResourceKind, RmName, Segment, Span, Time,
    Topology, VertexIndex, Window,
};

/// The number of a resource in [`ScratchTimetables`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct ResourceNumber(u32);

impl ResourceNumber {
    pub(super) const fn at(self) -> usize {
        self.0 as usize
    }
}

/// One held amount, for taking it back.
#[derive(Debug, Clone, Copy)]
struct HeldAmount {
    number: ResourceNumber,
    window: Window,
    amount: Amount,
}

/// One resource of the federation.
#[derive(Debug, Clone)]
struct ScratchResource {
    rm: RmName,
    resource: ResourceId,
    table: Timetable,
}

/// A timetable for each resource of a federation.
#[derive(Debug, Clone)]
pub struct ScratchTimetables {
    resources: Vec<ScratchResource>,
    /// By edge and [`Direction::at`].
    of_edge: Vec<[ResourceNumber; 2]>,
    /// By vertex: its CPUs, if it has any.
    cpus: Vec<Option<ResourceNumber>>,
    others: BTreeMap<(VertexIndex, ResourceKind), ResourceNumber>,
    by_name: BTreeMap<(RmName, ResourceId), ResourceNumber>,
    held: Vec<HeldAmount>,
}

impl ScratchTimetables {
    /// The timetables of a federation in which nothing is taken.
    #[must_use]
    pub fn new(topology: &Topology) -> Self {
        let mut all = Self {
            resources: Vec::new(),
            of_edge: Vec::with_capacity(topology.edges().len()),
            cpus: vec![None; topology.vertices().len()],
            others: BTreeMap::new(),
            by_name: BTreeMap::new(),
            held: Vec::new(),
        };
        for (vertex, place, _) in topology.sites() {
            for of in place.resources() {
                let number = all.add(of.rm, of.resource, of.capacity);
                match of.kind {
                    ResourceKind::Cpus => all.cpus[vertex.at()] = Some(number),
                    kind => drop(all.others.insert((vertex, kind), number)),
                }
            }
        }
        for edge in topology.edges() {
            let numbers = [Direction::AToB, Direction::BToA]
                .map(|way| all.add(&edge.rm, edge.resource(way), edge.capacity.into()));
            all.of_edge.push(numbers);
        }
        all
    }

    /// Adds a resource, or finds it: both directions of a shared edge are one.
    fn add(&mut self, rm: &RmName, resource: &ResourceId, capacity: Amount) -> ResourceNumber {
        // At most all resources of VERTICES_MAX sites and EDGES_MAX edges, far below 2^32.
        let next = ResourceNumber(self.resources.len() as u32);
        let number = *self.by_name.entry((rm.clone(), resource.clone())).or_insert(next);
        if number == next {
            let (rm, resource) = (rm.clone(), resource.clone());
            self.resources.push(ScratchResource { rm, resource, table: Timetable::new(capacity) });
        }
        number
    }

    /// Every resource, with the names of its resource manager and of itself.
    pub fn resources(&self) -> impl Iterator<Item = (ResourceNumber, &RmName, &ResourceId)> {
        let all = (0..).zip(&self.resources);
        all.map(|(index, of)| (ResourceNumber(index), &of.rm, &of.resource))
    }

    /// The names of the resource manager and of the resource.
    #[must_use]
    pub fn names(&self, number: ResourceNumber) -> (&RmName, &ResourceId) {
        let of = &self.resources[number.at()];
        (&of.rm, &of.resource)
    }

    /// The number of a resource by its names.
    #[must_use]
    pub fn find(&self, rm: &RmName, resource: &ResourceId) -> Option<ResourceNumber> {
        self.by_name.get(&(rm.clone(), resource.clone())).copied()
    }

    /// The resource that a link takes when it uses an edge in this direction.
    #[must_use]
    pub fn of_edge(&self, edge: EdgeIndex, direction: Direction) -> ResourceNumber {
        self.of_edge[edge.at()][direction.at()]
    }

    /// What a site has of a kind, if anything.
    #[must_use]
    pub fn at_site(&self, site: VertexIndex, kind: ResourceKind) -> Option<ResourceNumber> {
        match kind {
            ResourceKind::Cpus => self.cpus[site.at()],
            kind => self.others.get(&(site, kind)).copied(),
        }
    }

    /// The timetable of a resource.
    #[must_use]
    pub fn table(&self, number: ResourceNumber) -> &Timetable {
        &self.resources[number.at()].table
    }

    /// Takes what is not free of a resource: `steps` say what is free over the window, as
    /// [`coalloc_common::Profile::over`] returns them. Before the first step, and after the window,
    /// nothing is known and so nothing is free.
    pub fn limit(&mut self, number: ResourceNumber, window: Window, steps: &[FreeStep]) {
        let table = &mut self.resources[number.at()].table;
        let capacity = table.capacity();
        let mut take = |start: Time, end: Time, free: Amount| {
            if let Some(window) = Window::new(start, end) {
                let taken = Amount(capacity.0.saturating_sub(free.0));
                // Cannot fail: what is free already bounds what is taken.
                let taken = taken.min(table.free_min(window));
                let _ = table.add(Layer::Booked, window, taken);
            }
        };
        let first = steps.first().map_or(window.end(), |(start, _)| *start);
        take(Time::MIN, first, Amount::ZERO);
        for (index, (start, free)) in steps.iter().enumerate() {
            let end = steps.get(index + 1).map_or(window.end(), |(next, _)| *next);
            take(*start, end.min(window.end()), *free);
        }
        take(window.end(), Time::MAX, Amount::ZERO);
    }

    /// Books segments of one resource manager for good. Those of unknown resources are left out.
    ///
    /// # Errors
    /// [`Shortfall`] for the first segment that does not fit; those before it stay booked.
    pub fn book(&mut self, rm: &RmName, segments: &[Segment]) -> Result<(), Shortfall> {
        for segment in segments {
            if let Some(number) = self.find(rm, &segment.resource) {
                let table = &mut self.resources[number.at()].table;
                table.add(Layer::Booked, segment.window, segment.amount)?;
            }
        }
        Ok(())
    }

    /// Frees segments that were booked before. Those of unknown resources, and those that are not
    /// booked, are left out.
    pub fn free(&mut self, rm: &RmName, segments: &[Segment]) {
        for segment in segments {
            if let Some(number) = self.find(rm, &segment.resource) {
                let table = &mut self.resources[number.at()].table;
                let _ = table.remove(Layer::Booked, segment.window, segment.amount);
            }
        }
    }

    /// Forgets what was booked before an instant.
    pub fn forget_before(&mut self, at: Time) {
        for of in &mut self.resources {
            of.table.forget_before(at);
        }
    }

    /// The present length of the undo log, for [`ScratchTimetables::undo_to`].
    #[must_use]
    pub fn mark(&self) -> usize {
        self.held.len()
    }

    /// Takes back everything that was held since the mark.
    pub fn undo_to(&mut self, mark: usize) {
        while self.held.len() > mark {
            let Some(HeldAmount { number, window, amount }) = self.held.pop() else { return };
            let removed = self.resources[number.at()].table.remove(Layer::Held, window, amount);
            debug_assert_eq!(removed, Ok(()), "the log says what is held");
        }
    }

    /// Holds an amount over a window. False, and nothing changes, when less is free.
    #[must_use]
    pub fn hold(&mut self, number: ResourceNumber, window: Window, amount: Amount) -> bool {
        let table = &mut self.resources[number.at()].table;
        let fits = table.add(Layer::Held, window, amount).is_ok();
        if fits {
            self.held.push(HeldAmount { number, window, amount });
        }
        fits
    }

    /// What is free over a whole window.
    #[must_use]
    pub fn free_min(&self, number: ResourceNumber, window: Window) -> Amount {
        self.table(number).free_min(window)
    }

    /// The earliest start on the slot grid, not before `from`, of a window of this length that ends by
    /// `until` and has this amount free.
    #[must_use]
    pub fn earliest_start(
        &self,
        number: ResourceNumber,
        amount: Amount,
        length: Span,
        (from, until): (Time, Time),
        slot: Span,
    ) -> Option<Time> {
        let mut start = slot_ceil(from, slot);
        loop {
            let within = Window::new(start, until)?;
            let fit = self.table(number).earliest_fit(amount, length, within)?.start();
            // What others have taken may end between two slots.
            start = slot_ceil(fit, slot);
            if start == fit {
                return Some(start);
            }
        }
    }

    /// What is free in one frame, for planners of frames.
    #[must_use]
    pub fn view(&self, topology: &Topology, window: Window) -> FrameView {
        let mut view = FrameView::nothing(topology, window);
        for (vertex, place, _) in topology.sites() {
            for of in place.resources() {
                if let Some(number) = self.at_site(vertex, of.kind) {
                    view.set_free(of.kind, vertex, self.free_min(number, window));
                }
            }
        }
        for (rates, numbers) in view.free_bps.iter_mut().zip(&self.of_edge) {
            *rates = numbers.map(|number| BitsPerSecond(self.free_min(number, window).0));
        }
        view
    }
}

/// The first multiple of the slot that is not before an instant.
pub(super) fn slot_ceil(at: Time, slot: Span) -> Time {
    let past = at.as_us().rem_euclid(slot.as_us());
    if past == 0 { at } else { Time::from_us(at.as_us().saturating_add(slot.as_us() - past)) }
}

/// The shortest multiple of the slot that is not shorter than a span; at least one slot.
pub(super) fn slots_up(span: Span, slot: Span) -> Span {
    let slots = span.as_us().max(1).div_euclid(slot.as_us());
    let whole = slots.saturating_mul(slot.as_us());
    if whole >= span.as_us().max(1) {
        Span::from_us(whole)
    } else {
        Span::from_us(whole.saturating_add(slot.as_us()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_and_instants_round_up_to_slots() {
        let s = |us| Span::from_us(us);
        let lengths = [0, 1, 9, 10, 11].map(|us| slots_up(s(us), s(10)).as_us());
        assert_eq!(lengths, [10, 10, 10, 10, 20]);
        let instants = [-11, -10, 0, 1, 10].map(|us| slot_ceil(Time::from_us(us), s(10)).as_us());
        assert_eq!(instants, [-10, -10, 0, 10, 10]);
    }
}
