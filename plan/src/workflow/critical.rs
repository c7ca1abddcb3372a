//! What the end of a schedule waits for: the critical path of a plan.
//!
//! The path is followed backwards from the activity that ends last, always to the input that arrived last. A
//! gap between two steps is a wait for resources that others have taken. Left out: what would have to be free
//! to close such a gap.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use coalloc_common::VertexIndex;
use coalloc_common::workflow::{DataSource, Workflow, WorkflowGraph};

use super::answer::Schedule;

/// One step of a critical path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CriticalStep {
    /// The index of an activity that runs.
    Activity(usize),
    /// The index of a transfer of the schedule.
    Transfer(usize),
}

/// The critical path of a schedule, in the order of time. Of a synchronous set it names the member whose input
/// arrived last.
#[must_use]
pub fn critical_path(
    workflow: &Workflow,
    graph: &WorkflowGraph,
    schedule: &Schedule,
) -> Vec<CriticalStep> {
    let all = schedule.activities.iter().enumerate();
    let last = all.max_by_key(|(index, placed)| (placed.window.end(), Reverse(*index)));
    let Some((last, _)) = last else { return Vec::new() };
    let transfers = schedule.transfers.iter().enumerate();
    let transfers = transfers.map(|(index, one)| ((one.item, one.to), index)).collect();
    let inputs = Inputs { workflow, graph, schedule, transfers };
    let mut path = vec![CriticalStep::Activity(last)];
    let mut at = last;
    while let Some((member, item, transfer)) = inputs.latest(at) {
        path.pop();
        path.push(CriticalStep::Activity(member));
        path.extend(transfer.map(CriticalStep::Transfer));
        match workflow.data[item].source {
            DataSource::Activity(producer) => {
                path.push(CriticalStep::Activity(producer));
                at = producer;
            }
            DataSource::Site(_) => break,
        }
    }
    path.reverse();
    path
}

/// The data that activities of a schedule need.
struct Inputs<'a> {
    workflow: &'a Workflow,
    graph: &'a WorkflowGraph,
    schedule: &'a Schedule,
    /// By data item and the site where it is needed.
    transfers: BTreeMap<(usize, VertexIndex), usize>,
}

impl Inputs<'_> {
    /// The input that arrives last at the node of an activity: the member that needs it, the item, and its
    /// transfer. Items that lie at their site from the beginning do not count.
    fn latest(&self, activity: usize) -> Option<(usize, usize, Option<usize>)> {
        let Self { workflow, graph, schedule, transfers } = self;
        let members = &graph.nodes[graph.node_of[activity]].members;
        let inputs = members.iter().flat_map(|member| {
            let items = graph.inputs[*member].iter();
            items.map(|item| (*member, *item))
        });
        let arrivals = inputs.filter_map(|(member, item)| {
            let site = schedule.activities.get(member)?.site;
            let transfer = transfers.get(&(item, site)).copied();
            let end = match (transfer, &workflow.data[item].source) {
                (Some(transfer), _) => schedule.transfers[transfer].window.end(),
                (None, DataSource::Activity(producer)) => {
                    schedule.activities.get(*producer)?.window.end()
                }
                (None, DataSource::Site(_)) => return None,
            };
            Some((end, member, item, transfer))
        });
        let key = |(end, member, item, _): &(_, usize, usize, _)| {
            (*end, Reverse(*item), Reverse(*member))
        };
        let latest = arrivals.max_by_key(key);
        latest.map(|(_, member, item, transfer)| (member, item, transfer))
    }
}
