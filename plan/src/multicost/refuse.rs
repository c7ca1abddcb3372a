//! Why there is no plan: what binds, found by assuming that first the links and then also the
//! clusters are free.
//!
//! If the task could be done with every link free, links bind. The refusal then names the first
//! link on the shortest path that leaves no start in time. If it could be done with every cluster
//! free as well, clusters bind, and the refusal names the one that would complete first. Otherwise
//! no booking is the cause: the task is beyond what the federation has.

use coalloc_common::topology::Direction;
use coalloc_common::{Amount, Reason, Refusal, ResourceId, Time, Window};

use super::choice::{self, Choice};
use super::ect;
use super::frame::{Cluster, Frame, Tables};
use super::{Effort, TaskAnswer, TaskOutcome, TaskRefusal};
use crate::Budget;

/// The answer when there is no plan. `cut` is the budget that ended the search, if one did.
pub(super) fn answer(
    frame: &Frame<'_>,
    tables: &mut Tables,
    choice: &Choice,
    cut: Option<&Budget<'_>>,
    planner: &'static str,
    effort: Effort,
) -> TaskAnswer {
    let nearest =
        choice.nearest.as_ref().map(|offer| choice::plan(frame, tables, offer, false, planner));
    let refusal = match cut {
        Some(budget) => {
            let how = if budget.stopped() { "was stopped" } else { "used up its budget" };
            let detail = format!("{planner} {how} before it found a plan");
            Refusal::new(Reason::BudgetExhausted, detail)
        }
        None => because(frame, tables, choice),
    };
    let outcome = TaskOutcome::Refused(Box::new(TaskRefusal { refusal, nearest }));
    TaskAnswer { outcome, effort }
}

/// Adds to a refusal of a planner that may miss plans that it has not found one, and no more.
pub(super) fn admit_unproven(refusal: &mut Refusal, planner: &str) {
    // Links and clusters that are taken may have been missed ways round. What the federation has
    // in all was not searched but counted.
    if matches!(refusal.reason, Reason::NoRoute | Reason::InsufficientCapacity) {
        refusal.detail.push_str(&format!(
            "; {planner} has found no plan, but does not try every path: mc-t may find one"
        ));
    }
}

/// One cluster, under the assumption that every link on the path to it is free.
struct Ideal<'t> {
    cluster: &'t Cluster,
    links: Vec<u32>,
    /// When data would arrive, as a position.
    arrival: usize,
    /// The run with the cluster as it is, if it ends in time.
    run: Option<Window>,
    /// The run with the cluster free, if it ends in time and within the cluster's vector.
    free_run: Option<Window>,
}

fn because(frame: &Frame<'_>, tables: &mut Tables, choice: &Choice) -> Refusal {
    let (task, picture) = (frame.instance.task, frame.instance.picture);
    if tables.clusters.is_empty() {
        return too_few_cpus(frame);
    }
    let clusters = tables.clusters.clone();
    let paths = ect::shortest(frame, tables);
    let ideals: Vec<Ideal<'_>> = clusters
        .iter()
        .filter_map(|cluster| {
            let (_, links) = paths.iter().find(|(vertex, _)| *vertex == cluster.vertex)?;
            Some(ideal(frame, tables, choice, cluster, links))
        })
        .collect();
    if ideals.is_empty() {
        let source = task.source.0;
        let detail = format!("no path of {} leads from vertex {source} to a cluster", task.rate);
        return Refusal::new(Reason::NoRoute, detail);
    }
    let last = frame.time(frame.slots);
    if ideals.iter().all(|ideal| !ideal.links.is_empty() && ideal.arrival > frame.slots) {
        let detail =
            format!("the data could not arrive by {last}, where the picture of the paths ends");
        let window = Window::new(frame.time(0), last);
        return Refusal { window, ..Refusal::new(Reason::OutsideHorizon, detail) };
    }
    let soonest = |run: fn(&Ideal<'_>) -> Option<Window>| {
        ideals
            .iter()
            .filter_map(|ideal| Some((run(ideal)?.end(), ideal)))
            .min_by_key(|(end, _)| *end)
    };
    if let Some((_, ideal)) = soonest(|ideal| ideal.run) {
        return links_bind(frame, tables, choice, ideal);
    }
    if let Some((_, ideal)) = soonest(|ideal| ideal.free_run) {
        return cluster_binds(frame, choice, ideal);
    }
    match task.deadline {
        Some(deadline) => {
            let detail = format!("even with everything free, the run would not end by {deadline}");
            Refusal::new(Reason::BeyondCapacity, detail)
        }
        None => {
            let ends = clusters.iter().map(|c| picture.cluster_grid().start_of(c.end()));
            let end = ends.max().unwrap_or(last);
            let detail =
                format!("the run would not end by {end}, where the picture of the clusters ends");
            Refusal::new(Reason::OutsideHorizon, detail)
        }
    }
}

fn ideal<'t>(
    frame: &Frame<'_>,
    tables: &Tables,
    choice: &Choice,
    cluster: &'t Cluster,
    links: &[u32],
) -> Ideal<'t> {
    let delay = links.iter().fold(0_u32, |sum, link| sum.saturating_add(tables.delay(*link)));
    let waited = frame.lead + if links.is_empty() { 0 } else { frame.travels * delay as usize };
    let arrival = frame.arrival(waited, delay, links.len() as u32);
    let in_time = |run: &Window| run.end() <= choice.deadline();
    let run = frame.run_start(tables, cluster, arrival);
    let run = run.and_then(|at| frame.run(at, cluster)).filter(in_time);
    let from = frame.cluster_slot(arrival);
    let known = from.plus(cluster.run) <= cluster.end();
    let free_run = frame.run(from, cluster).filter(in_time).filter(|_| known);
    // Data that need no path need no link. Other data have to arrive while the vectors of links
    // last.
    let arrives = links.is_empty() || arrival <= frame.slots;
    let (run, free_run) = (run.filter(|_| arrives), free_run.filter(|_| arrives));
    Ideal { cluster, links: links.to_vec(), arrival, run, free_run }
}

fn too_few_cpus(frame: &Frame<'_>) -> Refusal {
    let (cpus, picture) = (frame.instance.task.cpus, frame.instance.picture);
    let Some(most) = picture.clusters().iter().max_by_key(|cluster| cluster.capacity) else {
        return Refusal::new(Reason::NoRoute, "there is no cluster");
    };
    let detail =
        format!("no cluster has {cpus}; the largest, {}, has {}", most.name, most.capacity);
    Refusal {
        resource: Some(ResourceId::composed(most.name.as_str())),
        requested: Some(cpus.into()),
        available: Some(most.capacity.into()),
        ..Refusal::new(Reason::BeyondCapacity, detail)
    }
}

/// Follows the shortest path until no run can begin in time. Names the link where that happens.
fn links_bind(
    frame: &Frame<'_>,
    tables: &mut Tables,
    choice: &Choice,
    ideal: &Ideal<'_>,
) -> Refusal {
    let (task, picture) = (frame.instance.task, frame.instance.picture);
    let until = choice.deadline().min(frame.time(frame.slots));
    let window = Window::new(frame.time(frame.lead), until);
    for looked in 1..=ideal.links.len() {
        let mut effort = Effort::default();
        let fits = (0..picture.wavelengths()).any(|wavelength| {
            frame.begin_wavelength(tables);
            let (vertex, links) = (ideal.cluster.vertex, ideal.links.as_slice());
            let Some(way) =
                ect::walk(frame, tables, vertex, links, looked, wavelength, &mut effort)
            else {
                return false;
            };
            let arrival = frame.arrival(way.departure as usize, way.delay, way.hops);
            let run = frame.run_start(tables, ideal.cluster, arrival);
            run.and_then(|at| frame.run(at, ideal.cluster))
                .is_some_and(|run| run.end() <= choice.deadline())
        });
        if !fits {
            let link = &picture.links()[ideal.links[looked - 1] as usize];
            let way = if link.direction == Direction::AToB { "" } else { " (b to a)" };
            let length = picture.link_grid().length_of(frame.data as u64);
            let detail = format!(
                "path {}{way} is not free for {length} at {} in time",
                link.name, task.rate
            );
            return Refusal {
                resource: Some(ResourceId::composed(link.name.as_str())),
                window,
                requested: Some(task.rate.into()),
                ..Refusal::new(Reason::InsufficientCapacity, detail)
            };
        }
    }
    // The shortest path would do, so the planner chose another cluster without considering when
    // that is free.
    let chosen = choice.nearest.as_ref().map_or(ideal.cluster.index, |offer| offer.cluster);
    let name = &picture.clusters()[chosen].name;
    let detail = format!("the chosen cluster {name} is not free in time");
    Refusal {
        resource: Some(ResourceId::composed(name.as_str())),
        window,
        requested: Some(task.cpus.into()),
        ..Refusal::new(Reason::InsufficientCapacity, detail)
    }
}

fn cluster_binds(frame: &Frame<'_>, choice: &Choice, ideal: &Ideal<'_>) -> Refusal {
    let (cpus, picture) = (frame.instance.task.cpus, frame.instance.picture);
    let name = &picture.clusters()[ideal.cluster.index].name;
    let (grid, arrival) = (picture.cluster_grid(), frame.time(ideal.arrival));
    let end: Time = choice.deadline().min(grid.start_of(ideal.cluster.end()));
    let length = grid.length_of(ideal.cluster.run);
    let detail = format!(
        "no cluster has {cpus} for {length} between {arrival}, when the data could be there, and {end}"
    );
    Refusal {
        resource: Some(ResourceId::composed(name.as_str())),
        window: Window::new(arrival, end),
        requested: Some(Amount(cpus.0)),
        ..Refusal::new(Reason::InsufficientCapacity, detail)
    }
}
