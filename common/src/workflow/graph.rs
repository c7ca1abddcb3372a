//! A checked workflow as a graph whose nodes are single activities and whole synchronous sets.
//!
//! Source: Decker 2007, section IV-B.1: all activities of a set have one priority, and together they
//! have the predecessors and successors of each of them. Left out: weights of nodes and edges, which
//! depend on the federation.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use super::{DataSource, Work, Workflow};
use crate::invalid::{InvalidField, check_range};
use crate::limits;
use crate::time::{Span, Window};

/// One activity, or all activities of one synchronous set.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Node {
    /// Indices of its activities, in the order of the workflow; one when it is no set.
    pub members: Vec<usize>,
    /// Indices of the channels between its members.
    pub channels: Vec<usize>,
    /// The nodes that produce data for this one, in increasing order.
    pub predecessors: Vec<usize>,
    /// The nodes that need data of this one, in increasing order.
    pub successors: Vec<usize>,
}

impl Node {
    /// Whether the node is a synchronous set.
    #[must_use]
    pub fn is_set(&self) -> bool {
        self.members.len() > 1
    }
}

/// A workflow without cycles, contracted to [`Node`]s.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WorkflowGraph {
    /// The nodes, in the order of their first activities.
    pub nodes: Vec<Node>,
    /// The node of each activity.
    pub node_of: Vec<usize>,
    /// The data items that each activity needs, in the order of the workflow.
    pub inputs: Vec<Vec<usize>>,
    /// The data items that each activity produces, in the order of the workflow.
    pub outputs: Vec<Vec<usize>>,
    /// All nodes, each after its predecessors; of several possible nodes the lowest comes first.
    pub order: Vec<usize>,
    /// The synchronous sets of the workflow (indices in [`Workflow::sync_sets`]) that overlap and
    /// therefore are one set; one entry for each set that was made of several.
    pub merged: Vec<Vec<usize>>,
    /// For each activity, the index in [`Workflow::same_site`] of the first group that it belongs to.
    /// Groups that overlap are one group and have one number.
    pub site_group: Vec<Option<usize>>,
}

impl WorkflowGraph {
    /// Checks a workflow and contracts it.
    ///
    /// # Errors
    /// [`InvalidField`] for the first field that is wrong, in the order activities, data, sync_sets,
    /// channels, same_site, timing, cycles.
    pub fn new(workflow: &Workflow) -> Result<Self, InvalidField> {
        check_activities(workflow)?;
        check_data(workflow)?;
        let sets = Groups::of("sync_sets", &workflow.sync_sets, workflow)?;
        let (nodes, node_of) = nodes(workflow, &sets)?;
        let mut graph = Self {
            nodes,
            node_of,
            inputs: vec![Vec::new(); workflow.activities.len()],
            outputs: vec![Vec::new(); workflow.activities.len()],
            order: Vec::new(),
            merged: sets.merged(&workflow.sync_sets),
            site_group: Groups::of("same_site", &workflow.same_site, workflow)?.group_of,
        };
        graph.join(workflow)?;
        graph.add_channels(workflow)?;
        check_timing(workflow)?;
        graph.sort(workflow)?;
        Ok(graph)
    }

    /// Adds the dependencies between nodes.
    fn join(&mut self, workflow: &Workflow) -> Result<(), InvalidField> {
        let mut edges: BTreeSet<(usize, usize)> = BTreeSet::new();
        for (index, item) in workflow.data.iter().enumerate() {
            for consumer in &item.consumers {
                self.inputs[*consumer].push(index);
            }
            let DataSource::Activity(producer) = item.source else { continue };
            self.outputs[producer].push(index);
            for consumer in &item.consumers {
                let (from, to) = (self.node_of[producer], self.node_of[*consumer]);
                if from == to {
                    let name = |at: usize| &workflow.activities[at].name;
                    let value = format!("from {} to {}", name(producer), name(*consumer));
                    let allowed = "data between activities that run one after the other; \
                                   inside a synchronous set use a channel";
                    return Err(InvalidField::new(format!("data[{index}]"), value, allowed));
                }
                edges.insert((from, to));
            }
        }
        for (from, to) in edges {
            self.nodes[from].successors.push(to);
            self.nodes[to].predecessors.push(from);
        }
        Ok(())
    }

    fn add_channels(&mut self, workflow: &Workflow) -> Result<(), InvalidField> {
        for (index, channel) in workflow.channels.iter().enumerate() {
            let field = |name: &str| format!("channels[{index}].{name}");
            for (name, end) in [("from", channel.from), ("to", channel.to)] {
                check_activity(&field(name), end, workflow)?;
            }
            let name = &workflow.activities[channel.to].name;
            if channel.from == channel.to {
                return Err(InvalidField::new(field("to"), name, "another activity than `from`"));
            }
            let node = self.node_of[channel.from];
            if node != self.node_of[channel.to] {
                let from = &workflow.activities[channel.from].name;
                let allowed = format!("an activity of the same synchronous set as {from}");
                return Err(InvalidField::new(field("to"), name, allowed));
            }
            let rates = 1..=limits::BANDWIDTH_MAX_BPS;
            check_range(&field("bandwidth_bps"), channel.bandwidth.0, rates, "bit/s")?;
            if let Some(latency) = channel.latency_max
                && !(Span::ZERO..=limits::LATENCY_MAX).contains(&latency)
            {
                let allowed = format!("0 to {}", limits::LATENCY_MAX);
                return Err(InvalidField::new(field("max_latency"), latency, allowed));
            }
            let channels = &mut self.nodes[node].channels;
            channels.push(index);
            if channels.len() > limits::SYNC_CHANNELS_MAX {
                let allowed =
                    format!("at most {} channels in a synchronous set", limits::SYNC_CHANNELS_MAX);
                return Err(InvalidField::new(format!("channels[{index}]"), name, allowed));
            }
        }
        Ok(())
    }

    /// Puts the nodes into an order in which each comes after its predecessors.
    fn sort(&mut self, workflow: &Workflow) -> Result<(), InvalidField> {
        let mut open: Vec<usize> = self.nodes.iter().map(|node| node.predecessors.len()).collect();
        let mut ready: BTreeSet<usize> =
            (0..self.nodes.len()).filter(|node| open[*node] == 0).collect();
        while let Some(node) = ready.pop_first() {
            self.order.push(node);
            for next in &self.nodes[node].successors {
                open[*next] -= 1;
                if open[*next] == 0 {
                    ready.insert(*next);
                }
            }
        }
        if self.order.len() == self.nodes.len() {
            return Ok(());
        }
        let stuck: Vec<bool> = open.iter().map(|left| *left > 0).collect();
        Err(self.cycle(workflow, &stuck))
    }

    /// The error that names the shortest cycle. `stuck` has the nodes that a cycle keeps from being sorted.
    fn cycle(&self, workflow: &Workflow, stuck: &[bool]) -> InvalidField {
        let cycles = (0..self.nodes.len()).filter(|node| stuck[*node]);
        let shortest = cycles.filter_map(|start| self.way_back(start, stuck)).min_by_key(Vec::len);
        let nodes = shortest.unwrap_or_default();
        let name = |node: &usize| {
            let of = |at: &usize| workflow.activities[*at].name.as_str();
            let members: Vec<&str> = self.nodes[*node].members.iter().map(of).collect();
            match &members[..] {
                [one] => (*one).to_owned(),
                some => format!("{{{}}}", some.join(", ")),
            }
        };
        let names: Vec<String> = nodes.iter().chain(nodes.first()).map(name).collect();
        let sets = nodes.iter().any(|node| self.nodes[*node].is_set());
        let allowed = match sets {
            true => "no cycle, where all activities of a synchronous set count as one",
            false => "no cycle",
        };
        // The whole cycle is the message, so it is not cut like other values.
        InvalidField { value: names.join(" > "), ..InvalidField::new("data", "", allowed) }
    }

    /// The shortest way from a node back to itself, without its end.
    fn way_back(&self, start: usize, stuck: &[bool]) -> Option<Vec<usize>> {
        let mut before: BTreeMap<usize, usize> = BTreeMap::new();
        let mut queue = VecDeque::from([start]);
        while let Some(node) = queue.pop_front() {
            for next in self.nodes[node].successors.iter().filter(|next| stuck[**next]) {
                if *next == start {
                    let mut way = vec![node];
                    while let Some(at) = way.last().and_then(|last| before.get(last)) {
                        way.push(*at);
                    }
                    way.reverse();
                    return Some(way);
                }
                before.entry(*next).or_insert_with(|| {
                    queue.push_back(*next);
                    node
                });
            }
        }
        None
    }
}

/// Sets of activities, of which those that overlap are one.
struct Groups {
    /// For each activity, the first given set of its group.
    group_of: Vec<Option<usize>>,
}

impl Groups {
    fn of(field: &str, sets: &[Vec<usize>], workflow: &Workflow) -> Result<Self, InvalidField> {
        let most = workflow.activities.len();
        if sets.len() > most {
            let allowed = format!("at most as many sets as activities, {most}");
            return Err(InvalidField::new(field, sets.len(), allowed));
        }
        // The first set of each group of sets, found over the sets before it.
        let mut first: Vec<usize> = (0..sets.len()).collect();
        let mut group_of: Vec<Option<usize>> = vec![None; most];
        let root = |first: &[usize], mut set: usize| {
            while first[set] != set {
                set = first[set];
            }
            set
        };
        for (index, set) in sets.iter().enumerate() {
            let field = format!("{field}[{index}]");
            if set.len() < 2 {
                return Err(InvalidField::new(field, set.len(), "two activities or more"));
            }
            let mut seen = BTreeSet::new();
            for member in set {
                check_activity(&field, *member, workflow)?;
                if !seen.insert(*member) {
                    let name = &workflow.activities[*member].name;
                    return Err(InvalidField::new(field, name, "each activity once"));
                }
                let own = root(&first, index);
                match group_of[*member] {
                    None => group_of[*member] = Some(index),
                    Some(other) => {
                        let other = root(&first, other);
                        first[own.max(other)] = own.min(other);
                    }
                }
            }
        }
        for group in group_of.iter_mut().flatten() {
            *group = root(&first, *group);
        }
        Ok(Self { group_of })
    }

    /// For each group that was made of several sets, these sets.
    fn merged(&self, sets: &[Vec<usize>]) -> Vec<Vec<usize>> {
        let mut groups: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
        for (index, set) in sets.iter().enumerate() {
            if let Some(group) = set.first().and_then(|member| self.group_of[*member]) {
                groups.entry(group).or_default().push(index);
            }
        }
        groups.into_values().filter(|sets| sets.len() > 1).collect()
    }
}

/// The nodes without their edges, and the node of each activity.
fn nodes(workflow: &Workflow, sets: &Groups) -> Result<(Vec<Node>, Vec<usize>), InvalidField> {
    let mut nodes: Vec<Node> = Vec::new();
    let mut node_of = Vec::with_capacity(workflow.activities.len());
    let mut of_group: BTreeMap<usize, usize> = BTreeMap::new();
    for (activity, group) in sets.group_of.iter().enumerate() {
        let next = nodes.len();
        let node = group.map_or(next, |group| *of_group.entry(group).or_insert(next));
        if node == next {
            let (channels, predecessors, successors) = (Vec::new(), Vec::new(), Vec::new());
            nodes.push(Node { members: Vec::new(), channels, predecessors, successors });
        }
        nodes[node].members.push(activity);
        node_of.push(node);
        let members = nodes[node].members.len();
        if members > limits::SYNC_MEMBERS_MAX {
            let field = format!("sync_sets[{}]", group.unwrap_or(0));
            let allowed = format!(
                "at most {} activities in a set and all sets that overlap with it",
                limits::SYNC_MEMBERS_MAX
            );
            return Err(InvalidField::new(field, members, allowed));
        }
    }
    Ok((nodes, node_of))
}

fn check_activities(workflow: &Workflow) -> Result<(), InvalidField> {
    let activities = &workflow.activities;
    let counts = 1..=limits::WORKFLOW_ACTIVITIES_MAX;
    if !counts.contains(&activities.len()) {
        let allowed = format!("1 to {} activities", limits::WORKFLOW_ACTIVITIES_MAX);
        return Err(InvalidField::new("activities", activities.len(), allowed));
    }
    let mut names = BTreeMap::new();
    for (index, activity) in activities.iter().enumerate() {
        let field = |name: &str| format!("activities[{index}].{name}");
        if let Some(first) = names.insert(&activity.name, index) {
            let allowed =
                format!("a name that no other activity has; activities[{first}] has this one");
            return Err(InvalidField::new(field("name"), &activity.name, allowed));
        }
        check_range(&field("cpus"), activity.cpus.0, 1..=limits::CPUS_MAX, "CPUs")?;
        for (kind, amount) in &activity.others {
            kind.parse_amount(&field(&format!("others.{}", kind.word())), amount.0)?;
        }
        check_work(&activity.work, &field)?;
        if let Some(site) = activity.sites.intersection(&activity.excluded).next() {
            let allowed = "a site that is not also excluded";
            return Err(InvalidField::new(field("sites"), site, allowed));
        }
    }
    Ok(())
}

fn check_work(work: &Work, field: &dyn Fn(&str) -> String) -> Result<(), InvalidField> {
    let allowed = limits::DURATION_MIN..=limits::DURATION_MAX;
    let check = |name: &str, duration: Span| match allowed.contains(&duration) {
        true => Ok(()),
        false => {
            let allowed = format!("{} to {}", limits::DURATION_MIN, limits::DURATION_MAX);
            Err(InvalidField::new(field(name), duration, allowed))
        }
    };
    match work {
        Work::Load { mi } => check_range(
            &field("load_mi"),
            *mi,
            1..=limits::TASK_WORK_MAX_MI,
            "million instructions",
        )
        .map(|_| ()),
        Work::Fixed(duration) => check("duration", *duration),
        Work::BySite(durations) if durations.is_empty() => {
            Err(InvalidField::new(field("durations"), 0, "one site or more"))
        }
        Work::BySite(durations) => durations
            .iter()
            .try_for_each(|(site, duration)| check(&format!("durations.{site}"), *duration)),
    }
}

fn check_data(workflow: &Workflow) -> Result<(), InvalidField> {
    let mut names = BTreeMap::new();
    let mut dependencies = 0;
    for (index, item) in workflow.data.iter().enumerate() {
        let field = |name: &str| format!("data[{index}].{name}");
        if let Some(first) = names.insert(&item.name, index) {
            let allowed = format!("a name that no other item has; data[{first}] has this one");
            return Err(InvalidField::new(field("name"), &item.name, allowed));
        }
        check_range(&field("bytes"), item.bytes, 0..=limits::TASK_BYTES_MAX, "bytes")?;
        if let Some(rate) = item.rate {
            let rates = 1..=limits::BANDWIDTH_MAX_BPS;
            check_range(&field("rate_bps"), rate.0, rates, "bit/s")?;
        }
        if let DataSource::Activity(producer) = item.source {
            check_activity(&field("from"), producer, workflow)?;
        }
        if item.consumers.is_empty() {
            return Err(InvalidField::new(field("to"), 0, "one activity or more"));
        }
        let mut seen = BTreeSet::new();
        for consumer in &item.consumers {
            check_activity(&field("to"), *consumer, workflow)?;
            let name = &workflow.activities[*consumer].name;
            if !seen.insert(*consumer) {
                return Err(InvalidField::new(field("to"), name, "each activity once"));
            }
            if item.source == DataSource::Activity(*consumer) {
                return Err(InvalidField::new(field("to"), name, "another activity than `from`"));
            }
        }
        dependencies += item.consumers.len();
        if dependencies > limits::WORKFLOW_DEPENDENCIES_MAX {
            let allowed = format!("at most {} dependencies", limits::WORKFLOW_DEPENDENCIES_MAX);
            return Err(InvalidField::new("data", dependencies, allowed));
        }
    }
    Ok(())
}

fn check_timing(workflow: &Workflow) -> Result<(), InvalidField> {
    Window::parse("ready", workflow.ready, workflow.ready.saturating_add(limits::DURATION_MIN))?;
    if workflow.deadline <= workflow.ready {
        let allowed = format!("later than ready, {}", workflow.ready);
        return Err(InvalidField::new("deadline", workflow.deadline, allowed));
    }
    Window::parse("deadline", workflow.ready, workflow.deadline).map(|_| ())
}

fn check_activity(field: &str, index: usize, workflow: &Workflow) -> Result<(), InvalidField> {
    match index < workflow.activities.len() {
        true => Ok(()),
        false => Err(InvalidField::new(field, index, "an activity of the workflow")),
    }
}
