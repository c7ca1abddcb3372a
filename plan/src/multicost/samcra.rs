//! `samcra` and `samcra-hbh`: path and cluster for a task that begins at once, by the present
//! loads.
//!
//! Stevens 2009, section 3: all clusters are behind one virtual vertex, each on its own edge
//! (anycast). A path has two sums: its delay, and the load of the cluster at its end. [`route`]
//! finds the shortest path under a limit for each sum.
//!
//! Path and cluster are chosen only by what is free now, and not by the size of the data or the
//! length of the run. Whether the task can have both for long enough is checked on the picture
//! afterwards. If not, it is refused, as it would be by the nodes of the path.

pub mod route;

use coalloc_common::{Reason, Refusal, ResourceId, Span};

use super::choice::{self, Choice, PathCandidate};
use super::frame::{Cluster, Entries, Frame, Tables};
use super::{
    Effort, Scratch, TaskAnswer, TaskInstance, TaskObjective, TaskOutcome, TaskPlanner,
    TaskRefusal, ect,
};
use crate::Budget;
use route::{Edge, Graph, Length};

/// Full load of a cluster, in millionths.
const FULL: u64 = 1_000_000;

/// SAMCRA to an anycast vertex.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Samcra {
    /// Whether each vertex of the path computes the path again (`samcra-hbh`).
    pub hop_by_hop: bool,
    /// The limit of the delay, at most half an hour; a larger value counts as that. The limit of
    /// the load is the whole cluster.
    pub delay_max: Span,
}

impl Samcra {
    /// `samcra` or `samcra-hbh` with a delay limit of one second, which no path on Earth needs.
    #[must_use]
    pub const fn new(hop_by_hop: bool) -> Self {
        Self { hop_by_hop, delay_max: Span::from_secs(1) }
    }
}

impl TaskPlanner for Samcra {
    fn name(&self) -> &'static str {
        if self.hop_by_hop { "samcra-hbh" } else { "samcra" }
    }

    fn plan(
        &self,
        instance: &TaskInstance<'_>,
        _: &Budget<'_>,
        scratch: &mut Scratch,
    ) -> TaskAnswer {
        let frame = Frame::new(*instance, Entries::Slots);
        let tables = &mut scratch.tables;
        frame.begin(tables);
        let mut effort = Effort::default();
        let mut best: Option<(Length<2>, usize, Vec<u32>, Cluster)> = None;
        for wavelength in 0..instance.picture.wavelengths() {
            let found = self.route(&frame, tables, wavelength, &mut effort);
            best = best.into_iter().chain(found).min_by_key(|(length, ..)| *length);
        }
        let refusal = match best {
            None => {
                let cpus = instance.task.cpus;
                let detail =
                    format!("no path that is free now leads to a cluster that has {cpus} free now");
                Refusal::new(Reason::NoRoute, detail)
            }
            Some((_, wavelength, links, cluster)) => {
                match self.at_once(&frame, tables, wavelength, &links, &cluster, &mut effort) {
                    Ok(outcome) => return TaskAnswer { outcome, effort },
                    Err(refusal) => *refusal,
                }
            }
        };
        let outcome = TaskOutcome::Refused(Box::new(TaskRefusal { refusal, nearest: None }));
        TaskAnswer { outcome, effort }
    }
}

impl Samcra {
    /// The shortest path over what is free now, and the cluster at its end.
    fn route(
        &self,
        frame: &Frame<'_>,
        tables: &mut Tables,
        wavelength: usize,
        effort: &mut Effort,
    ) -> Option<(Length<2>, usize, Vec<u32>, Cluster)> {
        let picture = frame.instance.picture;
        let anycast = picture.vertices() as u32;
        let limit = self.delay_max.as_us().max(1).unsigned_abs();
        let mut graph = Graph::new(picture.vertices() + 1, [limit, FULL]);
        // The link of each edge, by the edge's number; clusters follow below.
        let mut links = Vec::new();
        let now = frame.base.plus(frame.lead as u64);
        for (index, link) in (0..).zip(picture.links()) {
            let free = link.free.get(wavelength).is_some_and(|vector| vector.is_free(now));
            if free && link.capacity >= frame.instance.task.rate {
                let weights = [link.delay.as_us().unsigned_abs(), 0];
                graph.add(Edge { from: link.from.0, to: link.to.0, weights });
                links.push(index);
            }
        }
        let now = frame.cluster_slot(frame.lead);
        let mut clusters = Vec::new();
        for cluster in &tables.clusters {
            let view = &picture.clusters()[cluster.index];
            if view.free.is_free(now) {
                let load = view.busy.0.saturating_mul(FULL) / view.capacity.0;
                graph.add(Edge { from: cluster.vertex, to: anycast, weights: [0, load] });
                clusters.push(*cluster);
            }
        }
        let source = frame.instance.task.source.0;
        let route = match self.hop_by_hop {
            true => graph.hop_by_hop(source, anycast, effort),
            false => graph.samcra(source, anycast, effort),
        }?;
        let length = graph.length(route.weights, route.edges.len() as u32);
        let (last, path) = route.edges.split_last()?;
        let cluster = *clusters.get((*last as usize).checked_sub(links.len())?)?;
        let path = path.iter().filter_map(|edge| links.get(*edge as usize).copied()).collect();
        Some((length, wavelength, path, cluster))
    }

    /// Plans the task over this path at once, if the picture has it free for long enough.
    fn at_once(
        &self,
        frame: &Frame<'_>,
        tables: &mut Tables,
        wavelength: usize,
        links: &[u32],
        cluster: &Cluster,
        effort: &mut Effort,
    ) -> Result<TaskOutcome, Box<Refusal>> {
        let (task, picture) = (frame.instance.task, frame.instance.picture);
        frame.begin_wavelength(tables);
        // The effort of this check is not part of the algorithm.
        let mut looked = Effort::default();
        for first in 1..=links.len() {
            let vertex = cluster.vertex;
            let way = ect::walk(frame, tables, vertex, links, first, wavelength, &mut looked);
            let at_once = |way: &super::search::Label| {
                way.departure as usize == frame.lead + frame.travels * way.delay as usize
            };
            if !way.as_ref().is_some_and(at_once) {
                let name = &picture.links()[links[first - 1] as usize].name;
                let detail =
                    format!("path {name} is not free at once for as long as the transfer takes");
                return Err(short(name.as_str(), task.rate.into(), detail));
            }
        }
        let (vertex, all) = (cluster.vertex, links.len());
        let Some(label) = ect::walk(frame, tables, vertex, links, all, wavelength, &mut looked)
        else {
            return Err(Box::new(Refusal::new(Reason::NoRoute, "the path is not free at once")));
        };
        let arrival = frame.arrival(label.departure as usize, label.delay, label.hops);
        let name = &picture.clusters()[cluster.index].name;
        let start = frame.cluster_slot(arrival);
        if frame.run_start(tables, cluster, arrival) != Some(start) {
            let detail =
                format!("{name} is not free when the data arrive for as long as the run takes");
            return Err(short(name.as_str(), task.cpus.into(), detail));
        }
        // Other clusters at the same vertex were not chosen.
        tables.clusters.retain(|other| other.index == cluster.index);
        let mut choice = Choice::new(frame, TaskObjective::Completion);
        let way = PathCandidate { label: &label, wavelength, vouched: None };
        choice.offer(frame, tables, &way, || links.to_vec(), &mut looked);
        effort.operations += 2;
        match choice.offers.first() {
            Some(offer) => {
                let plan = choice::plan(frame, tables, offer, false, self.name());
                Ok(TaskOutcome::Planned(vec![plan]))
            }
            None => {
                let detail = "a run begun at once would not end by the deadline".to_owned();
                Err(Box::new(Refusal::new(Reason::BeyondCapacity, detail)))
            }
        }
    }
}

fn short(name: &str, requested: coalloc_common::Amount, detail: String) -> Box<Refusal> {
    Box::new(Refusal {
        resource: Some(ResourceId::composed(name)),
        requested: Some(requested),
        ..Refusal::new(Reason::InsufficientCapacity, detail)
    })
}
