//! The order in which nodes are placed: by falling b-level, with mean durations and mean transfers.
//!
//! Sources: HEFT (Topcuoglu 2002) and Decker 2007, section IV-B.1. A synchronous set is one node. Its
//! rank is the greatest mean duration of a member plus the greatest sum of a mean transfer and the rank
//! of its target, over the data items of all members. The paper unites the successors of a set
//! (`succSync`) but gives no cost for an edge to a successor of another member; here each edge keeps the
//! cost that it has.
//!
//! Also here: the mean and least lengths of a whole workflow, which need the same weights. Left out:
//! what is free.

use coalloc_common::workflow::{Activity, DataItem, DataSource, Work, Workflow};
use coalloc_common::{Span, VertexIndex};

use super::WorkflowInstance;
use super::scratch::slots_up;

/// Nanoseconds in a microsecond. Ranks are counted in nanoseconds, because they are sums of means.
const NS_PER_US: u128 = 1_000;

/// The ranks of all nodes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ranks {
    /// The rank of each node, in nanoseconds.
    pub ns: Vec<u128>,
    /// All nodes by falling rank; equal ones in the order of the workflow.
    pub order: Vec<usize>,
}

impl Ranks {
    /// The ranks of an instance.
    #[must_use]
    pub fn new(instance: &WorkflowInstance<'_>) -> Self {
        let means = Means::new(instance);
        let mut ns = vec![0; instance.graph.nodes.len()];
        for node in instance.graph.order.iter().rev() {
            ns[*node] = means.rank(instance, *node, &ns);
        }
        // A node ranks above its successors: each lasts a microsecond at least.
        let mut order: Vec<usize> = (0..ns.len()).collect();
        order.sort_by_key(|node| (std::cmp::Reverse(ns[*node]), *node));
        Self { ns, order }
    }

    /// The length of the critical path with mean durations and transfers: the greatest rank.
    #[must_use]
    pub fn critical_path(&self) -> Span {
        let us = self.ns.iter().max().copied().unwrap_or(0) / NS_PER_US;
        Span::from_us(i64::try_from(us).unwrap_or(i64::MAX))
    }
}

/// Mean weights of activities and data items.
struct Means {
    durations_ns: Vec<u128>,
    /// Mean capacity of all edges, in bit/s; zero when there are none.
    rate_bps: u128,
}

impl Means {
    fn new(instance: &WorkflowInstance<'_>) -> Self {
        let edges = instance.topology.edges();
        let sum: u128 = edges.iter().map(|edge| u128::from(edge.capacity.0)).sum();
        let activities = &instance.workflow.activities;
        Self {
            durations_ns: activities.iter().map(|one| mean_duration_ns(instance, one)).collect(),
            rate_bps: sum.checked_div(edges.len() as u128).unwrap_or(0),
        }
    }

    fn rank(&self, instance: &WorkflowInstance<'_>, node: usize, ranks: &[u128]) -> u128 {
        let graph = instance.graph;
        let members = &graph.nodes[node].members;
        let longest = members.iter().map(|member| self.durations_ns[*member]).max().unwrap_or(0);
        let after = members.iter().flat_map(|member| &graph.outputs[*member]).flat_map(|index| {
            let item = &instance.workflow.data[*index];
            let transfer = self.transfer_ns(item);
            item.consumers.iter().map(move |to| transfer + ranks[graph.node_of[*to]])
        });
        longest + after.max().unwrap_or(0)
    }

    fn transfer_ns(&self, item: &DataItem) -> u128 {
        let rate = item.rate.map_or(self.rate_bps, |rate| u128::from(rate.0));
        (u128::from(item.bytes) * 8 * NS_PER_US * 1_000_000).checked_div(rate).unwrap_or(0)
    }
}

/// The mean duration of an activity over the sites where it may run: by mean speed, or the mean of its
/// durations. Zero when it can run nowhere.
pub(super) fn mean_duration_ns(instance: &WorkflowInstance<'_>, activity: &Activity) -> u128 {
    let sites = || allowed_sites(instance, activity);
    match &activity.work {
        Work::Fixed(duration) => ns(*duration),
        Work::Load { mi } => {
            let (sum, count) = sites()
                .fold((0, 0), |(sum, count), (_, mips, _)| (sum + u128::from(mips), count + 1));
            // mi / (sum / count) seconds.
            (u128::from(*mi) * count * NS_PER_US * 1_000_000).checked_div(sum).unwrap_or(0)
        }
        Work::BySite(_) => {
            let (sum, count) = sites()
                .fold((0, 0), |(sum, count), (_, _, duration)| (sum + ns(duration), count + 1));
            u128::checked_div(sum, count).unwrap_or(0)
        }
    }
}

fn ns(span: Span) -> u128 {
    u128::from(span.as_us().unsigned_abs()) * NS_PER_US
}

/// The sites at which an activity may run and could if nothing were taken: vertex, speed, and duration
/// before rounding.
pub(super) fn allowed_sites<'a>(
    instance: &'a WorkflowInstance<'_>,
    activity: &'a Activity,
) -> impl Iterator<Item = (VertexIndex, u64, Span)> + 'a {
    let demand = activity.demand();
    instance.topology.sites().filter_map(move |(vertex, place, compute)| {
        let enough = demand.amounts().all(|(kind, wanted)| {
            place.resources().any(|of| of.kind == kind && of.capacity >= wanted)
        });
        let duration = activity.work.duration_at(&place.name, compute.mips)?;
        (enough && activity.may_run_at(&place.name)).then_some((vertex, compute.mips, duration))
    })
}

/// A length that no schedule of the workflow can go below: its longest path with every activity at its
/// fastest allowed site and all transfers free. `None` when some activity can run nowhere; it is named.
///
/// # Errors
/// The index of the first activity that can run at no site.
pub fn least_length(instance: &WorkflowInstance<'_>) -> Result<Span, usize> {
    let Workflow { activities, .. } = instance.workflow;
    let mut least = Vec::with_capacity(activities.len());
    for (index, activity) in activities.iter().enumerate() {
        let durations = allowed_sites(instance, activity).map(|(_, _, duration)| duration);
        let shortest = durations.min().ok_or(index)?;
        least.push(slots_up(shortest, instance.slot));
    }
    let graph = instance.graph;
    let mut ends = vec![Span::ZERO; graph.nodes.len()];
    for node in &graph.order {
        let of = &graph.nodes[*node];
        let start = of.predecessors.iter().map(|before| ends[*before]).max();
        let longest = of.members.iter().map(|member| least[*member]).max();
        let longest = longest.unwrap_or(Span::ZERO);
        ends[*node] = start.unwrap_or(Span::ZERO).saturating_add(longest);
    }
    Ok(ends.into_iter().max().unwrap_or(Span::ZERO))
}

/// Whether a data item lies at a site from the beginning.
pub(super) fn is_initial(item: &DataItem) -> bool {
    matches!(item.source, DataSource::Site(_))
}
