//! Planner `heft-sync-bt`: the sets that the printed backtracking would place, without its exponent, and
//! other sites for earlier nodes when a later one misses the deadline.
//!
//! Source: Decker 2007, section IV-C, whose planner is [`super::PrintedBacktracking`]. `set_frames` finds
//! the window of a set that ends first.
//!
//! When a node cannot end by the deadline, the latest earlier node that stands in its way gets its next
//! site (a discrepancy), and all nodes after that one are placed anew, [`WorkflowOptions::discrepancies`]
//! times at most. With none, the workflow is decided as the printed planner decides it.
//!
//! [`WorkflowOptions::discrepancies`]: super::WorkflowOptions::discrepancies
//!
//! Left out: sites of predecessors that would suit a set better although nothing is late.

use std::collections::{BTreeMap, BTreeSet};

use coalloc_common::VertexIndex;

use super::answer::{WorkflowAnswer, WorkflowEffort, WorkflowRefusal};
use super::heft_sync::{hopeless, order_of_open};
use super::partial::{Mark, PartialSchedule};
use super::scratch::ScratchTimetables;
use super::set_frames::{Placement, place_set};
use super::set_refusal::set_refusal;
use super::{WorkflowInstance, WorkflowPlanner};
use crate::Budget;

/// The planner `heft-sync-bt`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct SetSearch;

impl WorkflowPlanner for SetSearch {
    fn name(&self) -> &'static str {
        "heft-sync-bt"
    }

    fn plan(
        &self,
        instance: &WorkflowInstance<'_>,
        scratch: &mut ScratchTimetables,
        budget: &Budget<'_>,
    ) -> WorkflowAnswer {
        let refused =
            |refusal| WorkflowAnswer { outcome: Err(refusal), effort: WorkflowEffort::default() };
        if let Some(refusal) = hopeless(instance) {
            return refused(refusal);
        }
        let partial = match PartialSchedule::new(instance, scratch) {
            Ok(partial) => partial,
            Err(refusal) => return refused(refusal),
        };
        let order = order_of_open(instance);
        let marks = Vec::with_capacity(order.len());
        let mut search = WorkflowSearch { partial, order, marks, forbidden: BTreeMap::new() };
        let failed = search.run(budget);
        let (schedule, effort) = search.partial.finish();
        WorkflowAnswer { outcome: failed.map_or(Ok(schedule), Err), effort }
    }
}

/// The nodes in their order, and what was forbidden to them.
struct WorkflowSearch<'a> {
    partial: PartialSchedule<'a>,
    order: Vec<usize>,
    /// For each node that is placed, the state before it.
    marks: Vec<Mark>,
    /// Placements that a node must not take again, for as long as no earlier node moves.
    forbidden: BTreeMap<usize, BTreeSet<Placement>>,
}

impl WorkflowSearch<'_> {
    /// Places all nodes. Returns the refusal if that cannot be done.
    fn run(&mut self, budget: &Budget<'_>) -> Option<Box<WorkflowRefusal>> {
        let allowed = self.partial.instance.options.discrepancies;
        let mut discrepancies = allowed;
        // The refusal of the schedule without discrepancies is the one that people understand.
        let mut first = None;
        while let Some(node) = self.order.get(self.marks.len()).copied() {
            let mark = self.partial.mark();
            match self.place(node, budget) {
                Ok(true) => {
                    self.marks.push(mark);
                    continue;
                }
                Ok(false) => self.partial.undo_to(mark),
                Err(exhausted) => {
                    self.partial.undo_to(mark);
                    return Some(match first {
                        Some(first) => self.refusal(first, false, budget),
                        None => exhausted,
                    });
                }
            }
            let at_first = *first.get_or_insert(node);
            if !self.move_earlier(node, &mut discrepancies) {
                return Some(self.refusal(at_first, discrepancies == allowed, budget));
            }
        }
        None
    }

    /// The refusal of the node that was the first not to be placed. It is made once, when the workflow
    /// is refused for good: it searches when the node could end. Unless nothing has moved since
    /// (`unmoved`), the nodes before it are placed again, as they were.
    fn refusal(&mut self, node: usize, unmoved: bool, budget: &Budget<'_>) -> Box<WorkflowRefusal> {
        // It has as many placements as the search had.
        let nodes = self.partial.effort.placements.saturating_add(budget.nodes);
        let budget = Budget { nodes, ..*budget };
        if !unmoved {
            self.forbidden.clear();
            if let Some(begin) = self.marks.first() {
                self.partial.undo_to(*begin);
            }
            self.marks.clear();
            for earlier in self.order.clone().into_iter().take_while(|earlier| *earlier != node) {
                let mark = self.partial.mark();
                match self.place(earlier, &budget) {
                    Ok(true) => self.marks.push(mark),
                    // They were placed before; only a stop ends them.
                    Ok(false) | Err(_) => {
                        return self.partial.exhausted(&self.members(node));
                    }
                }
            }
        }
        match self.members(node)[..] {
            [activity] => self.partial.too_late(activity),
            _ => set_refusal(&mut self.partial, node, &budget),
        }
    }

    fn members(&self, node: usize) -> Vec<usize> {
        self.partial.instance.graph.nodes[node].members.clone()
    }

    /// Places a node. False, when it cannot end by the deadline.
    fn place(&mut self, node: usize, budget: &Budget<'_>) -> Result<bool, Box<WorkflowRefusal>> {
        let none = BTreeSet::new();
        let forbidden = self.forbidden.get(&node).unwrap_or(&none);
        match self.partial.instance.graph.nodes[node].members[..] {
            [activity] => {
                let sites = forbidden.iter().flatten().copied().collect();
                self.partial.place_single_apart(activity, &sites, budget)
            }
            _ => place_set(&mut self.partial, node, forbidden, budget),
        }
    }

    /// Takes the latest earlier node away that stands in the way of this one, and forbids its placement.
    /// False when there is none, or no discrepancy is left.
    fn move_earlier(&mut self, node: usize, discrepancies: &mut u32) -> bool {
        if *discrepancies == 0 {
            return false;
        }
        let blamed = |at: &usize| self.stands_in_the_way(self.order[*at], node);
        let Some(at) = (0..self.marks.len()).rev().find(blamed) else { return false };
        let earlier = self.order[at];
        let members = &self.partial.instance.graph.nodes[earlier].members;
        let sites = members.iter().filter_map(|member| self.partial.site_of(*member)).collect();
        self.forbidden.entry(earlier).or_default().insert(sites);
        for later in &self.order[at + 1..] {
            self.forbidden.remove(later);
        }
        self.partial.undo_to(self.marks[at]);
        self.marks.truncate(at);
        *discrepancies -= 1;
        true
    }

    /// Whether another placement of an earlier node could let a node end earlier: it is a predecessor,
    /// or it takes something at a site or on an edge that the node could use.
    fn stands_in_the_way(&self, earlier: usize, node: usize) -> bool {
        let graph = self.partial.instance.graph;
        let sites_of = |node: usize| {
            let members = graph.nodes[node].members.iter();
            members.filter_map(|member| self.partial.site_of(*member))
        };
        let could_use = |site: VertexIndex| {
            let members = &graph.nodes[node].members;
            let mut choices = members.iter().flat_map(|member| self.partial.choices(*member));
            choices.any(|choice| choice.site == site)
        };
        let of = &graph.nodes[node];
        let travels = of.members.iter().any(|member| !graph.inputs[*member].is_empty());
        of.predecessors.contains(&earlier)
            || sites_of(earlier).any(could_use)
            || ((travels || !of.channels.is_empty()) && self.partial.uses_network(earlier))
    }
}
