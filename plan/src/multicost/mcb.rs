//! `mc-b`: the cluster at which the data arrive first, however busy it is.

use super::choice::{self, Choice, PathCandidate};
use super::frame::{Frame, Hop, Tables};
use super::search::{
    Arena, DelayOrderedSearch, Dominance, End, Guide, Label, Search, usual_entries,
};
use super::{
    Effort, Scratch, TaskAnswer, TaskInstance, TaskObjective, TaskOutcome, TaskPlanner, refuse,
};
use crate::Budget;

/// Multi-cost routing of the burst alone (Stevens 2009, section 5.1): phase 1 of `mc-t`, then the
/// cluster with the earliest arrival. Ties go to the smaller delay. The cluster's vector is read
/// only after that decision, and the run begins there as soon as it can. The task's objective is
/// ignored.
///
/// When more than one plan is wanted, others follow in the order of arrival. A plan that would miss
/// the deadline is dropped after the choice. So with one plan wanted there may be none, although
/// another cluster would do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct McB {
    /// Decides which paths phase 1 keeps.
    pub dominance: Dominance,
    /// Whether the earliest arrival is proven, or an earlier one found, as `mc-t` does it. The
    /// plans are still not marked as proven, because the earliest arrival is not the objective of
    /// the task.
    pub prove: bool,
}

impl Default for McB {
    fn default() -> Self {
        Self { dominance: Dominance::Arrival, prove: true }
    }
}

/// One path to the vertex of a cluster: its arrival, delay and vertex, then its wavelength, its
/// links and its label.
pub(super) type ClusterPath = ((usize, u32, u32), usize, Vec<u32>, Label);

impl TaskPlanner for McB {
    fn name(&self) -> &'static str {
        "mc-b"
    }

    fn plan(
        &self,
        instance: &TaskInstance<'_>,
        budget: &Budget<'_>,
        scratch: &mut Scratch,
    ) -> TaskAnswer {
        let frame = Frame::new(*instance, usual_entries(self.dominance));
        let Scratch { tables, arena } = scratch;
        frame.begin(tables);
        let mut effort = Effort::default();
        let (mut found, mut end) = (Vec::new(), End::Complete);
        for wavelength in 0..instance.picture.wavelengths() {
            frame.begin_wavelength(tables);
            let mut search = Search {
                frame: &frame,
                tables,
                arena,
                effort: &mut effort,
                dominance: self.dominance,
                wavelength,
                guide: DelayOrderedSearch,
            };
            end = end.and(search.run(budget));
            gather(&frame, tables, arena, wavelength, &mut found, &mut effort);
        }
        if self.prove && end == End::Complete {
            end = prove(&frame, tables, arena, &mut found, &mut effort, budget);
        }
        let mut choice = Choice::new(&frame, TaskObjective::Arrival);
        for (_, wavelength, links, label) in &found {
            let way = PathCandidate { label, wavelength: *wavelength, vouched: None };
            choice.offer(&frame, tables, &way, || links.clone(), &mut effort);
        }
        if choice.offers.is_empty() {
            let cut = (end == End::Cut).then_some(budget);
            return refuse::answer(&frame, tables, &choice, cut, self.name(), effort);
        }
        let plan = |offer| choice::plan(&frame, tables, offer, false, self.name());
        let plans = choice.offers.iter().map(plan).collect();
        TaskAnswer { outcome: TaskOutcome::Planned(plans), effort }
    }
}

/// Adds the paths with the earliest arrivals at vertices that have clusters, as many as plans are
/// wanted.
fn gather(
    frame: &Frame<'_>,
    tables: &Tables,
    arena: &Arena,
    wavelength: usize,
    found: &mut Vec<ClusterPath>,
    effort: &mut Effort,
) {
    for (index, label) in arena.alive() {
        effort.paths += 1;
        if !tables.clusters.iter().any(|cluster| cluster.vertex == label.vertex) {
            continue;
        }
        effort.operations += 2;
        let arrival = frame.arrival(label.departure as usize, label.delay, label.hops);
        let key = (arrival, label.delay, label.vertex);
        let place = found.partition_point(|other| other.0 <= key);
        if place < frame.instance.task.plans {
            found.insert(place, (key, wavelength, arena.links(index), *label));
            found.truncate(frame.instance.task.plans);
        }
    }
}

/// Searches every path that could arrive earlier than the first one so far; see `mc-t`.
fn prove(
    frame: &Frame<'_>,
    tables: &mut Tables,
    arena: &mut Arena,
    found: &mut Vec<ClusterPath>,
    effort: &mut Effort,
    budget: &Budget<'_>,
) -> End {
    let picture = frame.instance.picture;
    let towards = tables.towards_clusters(picture);
    let mut first = found.first().cloned();
    let mut end = End::Complete;
    for wavelength in 0..picture.wavelengths() {
        if picture.wavelengths() > 1 {
            frame.begin_wavelength(tables);
        }
        let mut search = Search {
            frame,
            tables,
            arena,
            effort,
            dominance: Dominance::Whole,
            wavelength,
            guide: EarliestArrivalSearch { towards: &towards, wavelength, first: &mut first },
        };
        end = end.and(search.run(budget));
    }
    if first.as_ref().map(|first| first.0) != found.first().map(|first| first.0) {
        found.splice(0..0, first);
        found.truncate(frame.instance.task.plans);
    }
    end
}

/// The path on which data arrive first at one vertex, of all simple paths. It is the search of the
/// proof, with no earlier arrival to beat. Also says whether the search was complete.
pub(super) fn first_at(
    frame: &Frame<'_>,
    tables: &mut Tables,
    arena: &mut Arena,
    vertex: u32,
    effort: &mut Effort,
    budget: &Budget<'_>,
) -> (Option<ClusterPath>, End) {
    let picture = frame.instance.picture;
    let towards = [(vertex, tables.shortest(picture, vertex, false))];
    let (mut first, mut end) = (None, End::Complete);
    for wavelength in 0..picture.wavelengths() {
        frame.begin_wavelength(tables);
        let mut search = Search {
            frame,
            tables,
            arena,
            effort,
            dominance: Dominance::Whole,
            wavelength,
            guide: EarliestArrivalSearch { towards: &towards, wavelength, first: &mut first },
        };
        end = end.and(search.run(budget));
    }
    (first, end)
}

/// Orders paths by their earliest possible arrival, and drops those that cannot arrive earlier than
/// the first one.
struct EarliestArrivalSearch<'c> {
    towards: &'c [(u32, Vec<Hop>)],
    wavelength: usize,
    first: &'c mut Option<ClusterPath>,
}

impl EarliestArrivalSearch<'_> {
    fn is_sooner(&self, arrival: usize, delay: u32) -> bool {
        self.first.as_ref().is_none_or(|(key, ..)| (arrival, delay) < (key.0, key.1))
    }
}

impl Guide for EarliestArrivalSearch<'_> {
    fn bound(&mut self, frame: &Frame<'_>, _: &Tables, label: &Label) -> Option<u64> {
        let ways = self.towards.iter().filter_map(|(vertex, all)| {
            let hop = all.get(label.vertex as usize).filter(|hop| hop.delay != u32::MAX)?;
            Some(frame.soonest(label, *vertex, hop.delay))
        });
        let (arrival, delay) = ways.min()?;
        self.is_sooner(arrival, delay).then_some(arrival as u64)
    }

    fn still(&self, bound: u64) -> bool {
        self.first.as_ref().is_none_or(|(key, ..)| bound <= key.0 as u64)
    }

    fn kept(&mut self, frame: &Frame<'_>, _: &Tables, arena: &Arena, index: u32) {
        let label = &arena.labels[index as usize];
        let (arrival, delay) = frame.soonest(label, label.vertex, 0);
        let here = self.towards.iter().any(|(vertex, _)| *vertex == label.vertex);
        if here && self.is_sooner(arrival, delay) {
            let links = arena.links(index);
            *self.first = Some(((arrival, delay, label.vertex), self.wavelength, links, *label));
        }
    }
}
