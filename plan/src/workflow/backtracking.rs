//! The printed backtracking planner: best-first search inside synchronous sets. It is for comparison; its
//! cost grows exponentially with the members of a set.
//!
//! Source: Decker 2007, section IV-C. The members of a set are placed by falling load. The first level of
//! the tree has every site and every start of the first member, from the latest end of a predecessor to
//! the deadline. Each further level adds a member at a site that is free in the window; a slower site
//! makes the window longer for all members. A channel is placed as soon as both of its ends are, over any
//! route. The partial solution with the earliest end is continued first; then the one with the earlier
//! start, then the order of sites. The text is silent about data: at the leaves they are brought in their
//! order, and a leaf at which an item comes too late is dismissed.
//!
//! Left out: other sites for nodes that are placed before the set.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use coalloc_common::{Reason, Refusal, Span, Time, VertexIndex, Window};

use super::answer::{WorkflowAnswer, WorkflowRefusal};
use super::heft_sync::{bring_data, by_falling_load, plan_nodes};
use super::partial::{PartialSchedule, SiteChoice};
use super::scratch::ScratchTimetables;
use super::{WorkflowInstance, WorkflowPlanner};
use crate::{Budget, Route};

/// The backtracking planner as printed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct PrintedBacktracking;

impl WorkflowPlanner for PrintedBacktracking {
    fn name(&self) -> &'static str {
        "heft-sync-bt-printed"
    }

    fn plan(
        &self,
        instance: &WorkflowInstance<'_>,
        scratch: &mut ScratchTimetables,
        budget: &Budget<'_>,
    ) -> WorkflowAnswer {
        plan_nodes(instance, scratch, |partial, node| {
            let members = &partial.instance.graph.nodes[node].members;
            match members[..] {
                [activity] => partial.place_single(activity, budget),
                _ => SetTree::new(partial, node).place(partial, budget),
            }
        })
    }
}

/// A partial solution. Its order is that in which partial solutions are continued.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct PartialSolution {
    end: Time,
    start: Time,
    /// For each member placed so far, the place of its site among its choices.
    choices: Vec<usize>,
}

/// The search tree of one set.
struct SetTree {
    node: usize,
    /// By falling load, each with its sites.
    members: Vec<(usize, Vec<SiteChoice>)>,
    open: BinaryHeap<Reverse<PartialSolution>>,
}

impl SetTree {
    fn new(partial: &PartialSchedule<'_>, node: usize) -> Self {
        let members = &partial.instance.graph.nodes[node].members;
        let members = by_falling_load(&partial.instance, members);
        let choices = |member| (member, partial.choices(member).collect());
        Self { node, members: members.into_iter().map(choices).collect(), open: BinaryHeap::new() }
    }

    fn place(
        mut self,
        partial: &mut PartialSchedule<'_>,
        budget: &Budget<'_>,
    ) -> Result<(), Box<WorkflowRefusal>> {
        let activities: Vec<usize> = self.members.iter().map(|(member, _)| *member).collect();
        let ends = activities.iter().map(|member| partial.predecessors_end(*member));
        let begin = ends.max().unwrap_or_else(|| partial.ready());
        for choice in 0..self.members[0].1.len() {
            self.open_start(partial, choice, begin);
        }
        while let Some(Reverse(solution)) = self.open.pop() {
            if partial.effort.placements >= budget.nodes || budget.stopped() {
                return Err(partial.exhausted(&activities));
            }
            partial.effort.placements += 1;
            if let [choice] = solution.choices[..] {
                partial.effort.frames += 1;
                let after = solution.start.saturating_add(partial.slot());
                self.open_start(partial, choice, after);
            }
            let Some(window) = Window::new(solution.start, solution.end) else { continue };
            let mark = partial.mark();
            let fits = self.take(partial, &solution, window);
            if fits && solution.choices.len() == self.members.len() {
                if bring_data(partial, &activities, window).is_ok() {
                    return Ok(());
                }
            } else if fits {
                self.extend(partial, &solution);
            }
            partial.undo_to(mark);
        }
        let deadline = partial.deadline();
        let names = partial.names(&activities).join(", ");
        let detail = format!("{names} cannot run together by the deadline, {deadline}");
        let refusal = Refusal::new(Reason::InsufficientCapacity, detail);
        Err(Box::new(WorkflowRefusal { activities, refusal, earliest_finish: None }))
    }

    /// Opens the first start of the first member at a site, not before an instant.
    fn open_start(&mut self, partial: &PartialSchedule<'_>, choice: usize, from: Time) {
        let (member, choices) = &self.members[0];
        let SiteChoice { site, duration } = choices[choice];
        let range = (from, partial.deadline());
        if let Some(start) = partial.earliest_fit(*member, site, duration, range) {
            let end = start.saturating_add(duration);
            self.open.push(Reverse(PartialSolution { end, start, choices: vec![choice] }));
        }
    }

    /// Opens every site for the next member.
    fn extend(&mut self, partial: &PartialSchedule<'_>, solution: &PartialSolution) {
        let (_, sites) = &self.members[solution.choices.len()];
        for (choice, SiteChoice { duration, .. }) in sites.iter().enumerate() {
            let start = solution.start;
            let end = solution.end.max(start.saturating_add(*duration));
            if end <= partial.deadline() {
                let choices = [&solution.choices[..], &[choice]].concat();
                self.open.push(Reverse(PartialSolution { end, start, choices }));
            }
        }
    }

    /// Takes the sites of a partial solution, and any routes for the channels between them.
    fn take(
        &self,
        partial: &mut PartialSchedule<'_>,
        solution: &PartialSolution,
        window: Window,
    ) -> bool {
        for ((member, sites), choice) in self.members.iter().zip(&solution.choices) {
            let site = sites[*choice].site;
            let open = partial.choices(*member).any(|choice| choice.site == site);
            if !open || !partial.take(*member, site, window) {
                return false;
            }
        }
        let channels: Vec<usize> = partial.instance.graph.nodes[self.node]
            .channels
            .iter()
            .copied()
            .filter(|channel| {
                let of = partial.instance.workflow.channels[*channel];
                partial.site_of(of.from).is_some() && partial.site_of(of.to).is_some()
            })
            .collect();
        take_channels(partial, &channels, window)
    }
}

/// Takes routes for all channels, the first ones that fit together: every simple route of each is tried.
fn take_channels(partial: &mut PartialSchedule<'_>, channels: &[usize], window: Window) -> bool {
    let Some((channel, others)) = channels.split_first() else { return true };
    let of = partial.instance.workflow.channels[*channel];
    let (Some(from), Some(to)) = (partial.site_of(of.from), partial.site_of(of.to)) else {
        return false;
    };
    for route in simple_routes(partial, from, to, of.latency_max) {
        let mark = partial.mark();
        if partial.take_channel(*channel, window, route) && take_channels(partial, others, window) {
            return true;
        }
        partial.undo_to(mark);
    }
    false
}

/// All routes between two vertices that visit none twice and have few enough edges and little enough
/// latency; the shortest first.
fn simple_routes(
    partial: &PartialSchedule<'_>,
    from: VertexIndex,
    to: VertexIndex,
    latency_max: Option<Span>,
) -> Vec<Route> {
    let topology = partial.instance.topology;
    let mut routes: Vec<Route> = Vec::new();
    let mut open = vec![(from, vec![from], Route::new(), Span::ZERO)];
    while let Some((at, seen, route, latency)) = open.pop() {
        if at == to {
            routes.push(route);
            continue;
        }
        if route.len() >= partial.route_edges() {
            continue;
        }
        for hop in topology.hops(at) {
            let latency = latency.saturating_add(topology.edge(hop.edge).latency);
            if seen.contains(&hop.to) || latency_max.is_some_and(|max| latency > max) {
                continue;
            }
            let step = (hop.edge, hop.direction);
            let route = [&route[..], &[step]].concat();
            open.push((hop.to, [&seen[..], &[hop.to]].concat(), route, latency));
        }
    }
    routes.sort_by_key(|route| (route.len(), route.clone()));
    routes
}
