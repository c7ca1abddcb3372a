//! Workflows: requests and options from the wire.
//!
//! Names become indices here. What depends on several fields (cycles, sets that overlap, data inside a set) is
//! checked by [`WorkflowGraph::new`]. Left out: plans, which are in `plan`; who may submit.

mod plan;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};

use coalloc_common::invalid::check_range;
use coalloc_common::suggest::{choices, did_you_mean};
use coalloc_common::workflow::{
    Activity, Channel, DataItem, DataSource, Work, Workflow, WorkflowGraph,
};
use coalloc_common::{
    ActivityName, BitsPerSecond, Cpus, DataName, InvalidField, Span, Time, Topology, VertexName,
    limits,
};
use coalloc_plan::workflow::WorkflowOptions;
use coalloc_plan::{Named as _, WorkflowPlannerName};
use coalloc_proto::v1;

use super::request::amounts_from_wire;
use super::{span_from_wire, time_from_wire};

pub use self::plan::{
    merged_sets, schedule_from_wire, workflow_answer_to_wire, workflow_effort_to_wire,
    workflow_plan_to_wire, workflow_refusal_to_wire, workflow_version_to_wire,
};

/// A workflow that was read and checked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ParsedWorkflow {
    /// The workflow for the planners.
    pub workflow: Workflow,
    /// Its graph.
    pub graph: WorkflowGraph,
}

/// How a workflow is planned, with all defaults filled in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ParsedWorkflowOptions {
    /// The planner.
    pub planner: WorkflowPlannerName,
    /// What the planner may vary.
    pub options: WorkflowOptions,
    /// How often the workflow may be planned.
    pub tries: u32,
}

/// Reads a workflow. An unset `ready` becomes `soonest`. Without a topology the names of sites are not looked up.
///
/// # Errors
/// [`InvalidField`] for the first field that is wrong.
pub fn workflow_from_wire(
    topology: Option<&Topology>,
    wire: &v1::Workflow,
    soonest: Time,
) -> Result<ParsedWorkflow, InvalidField> {
    check_counts(wire)?;
    let sites = SiteNames { topology };
    let mut activities = Vec::with_capacity(wire.activities.len());
    for (index, activity) in wire.activities.iter().enumerate() {
        activities.push(sites.activity(&format!("activities[{index}]"), activity)?);
    }
    let names = ActivityNames::of(&activities)?;
    let mut data = Vec::with_capacity(wire.data.len());
    for (index, item) in wire.data.iter().enumerate() {
        data.push(data_item(&format!("data[{index}]"), item, &names, &sites)?);
    }
    let sets = |field: &str, wire: &[v1::ActivitySet]| -> Result<Vec<Vec<usize>>, InvalidField> {
        let all = wire.iter().enumerate();
        all.map(|(index, set)| {
            names.find_all(&format!("{field}[{index}].activities"), &set.activities)
        })
        .collect()
    };
    let (sync_sets, same_site) =
        (sets("sync_sets", &wire.sync_sets)?, sets("same_site", &wire.same_site)?);
    let mut channels = Vec::with_capacity(wire.channels.len());
    for (index, channel) in wire.channels.iter().enumerate() {
        channels.push(channel_of(&format!("channels[{index}]"), channel, &names)?);
    }
    let ready = match &wire.ready {
        None => soonest,
        Some(time) => time_from_wire("ready", time)?,
    };
    let deadline = match &wire.deadline {
        None => ready.saturating_add(limits::WORKFLOW_DEADLINE_DEFAULT),
        Some(time) => time_from_wire("deadline", time)?,
    };
    let workflow = Workflow { activities, data, sync_sets, channels, same_site, ready, deadline };
    let graph = WorkflowGraph::new(&workflow)?;
    Ok(ParsedWorkflow { workflow, graph })
}

/// Refuses lists that are too long before anything is made of them.
fn check_counts(wire: &v1::Workflow) -> Result<(), InvalidField> {
    let most_activities = limits::WORKFLOW_ACTIVITIES_MAX;
    let most = limits::WORKFLOW_DEPENDENCIES_MAX;
    let count = wire.activities.len();
    if count == 0 || count > most_activities {
        let allowed = format!("1 to {most_activities} activities");
        return Err(InvalidField::new("activities", count, allowed));
    }
    let dependencies: usize = wire.data.iter().map(|item| item.to.len()).sum();
    let lists = [
        ("data", wire.data.len().max(dependencies), "dependencies"),
        ("channels", wire.channels.len(), "channels"),
        ("sync_sets", wire.sync_sets.len(), "sets"),
        ("same_site", wire.same_site.len(), "sets"),
    ];
    match lists.into_iter().find(|(_, count, _)| *count > most) {
        Some((field, count, what)) => {
            Err(InvalidField::new(field, count, format!("at most {most} {what}")))
        }
        None => Ok(()),
    }
}

/// The sites of the federation, if it is known.
struct SiteNames<'a> {
    topology: Option<&'a Topology>,
}

impl SiteNames<'_> {
    /// Finds a site.
    fn site(&self, field: &str, text: &str) -> Result<VertexName, InvalidField> {
        let name = VertexName::parse(field, text)?;
        let Some(topology) = self.topology else { return Ok(name) };
        let found = topology.find_vertex(&name);
        let known = found.is_some_and(|index| topology.vertex(index).compute.is_some());
        if known {
            return Ok(name);
        }
        let names = topology.sites().map(|(_, vertex, _)| vertex.name.as_str());
        let allowed = format!("a site of the federation: {}", choices(text, names));
        Err(InvalidField::new(field, InvalidField::quoted(text), allowed))
    }

    /// Finds a site or an exchange point.
    fn place(&self, field: &str, text: &str) -> Result<VertexName, InvalidField> {
        let name = VertexName::parse(field, text)?;
        let Some(topology) = self.topology else { return Ok(name) };
        if topology.find_vertex(&name).is_some() {
            return Ok(name);
        }
        let names = topology.vertices().iter().map(|vertex| vertex.name.as_str());
        let guess = did_you_mean(text, names);
        let allowed = format!("a site or an exchange point of the federation{guess}");
        Err(InvalidField::new(field, InvalidField::quoted(text), allowed))
    }

    fn set(&self, field: &str, texts: &[String]) -> Result<BTreeSet<VertexName>, InvalidField> {
        let mut all = BTreeSet::new();
        for (index, text) in texts.iter().enumerate() {
            let field = format!("{field}[{index}]");
            if !all.insert(self.site(&field, text)?) {
                return Err(InvalidField::new(field, text, "each site once"));
            }
        }
        Ok(all)
    }

    fn activity(&self, field: &str, wire: &v1::WorkflowActivity) -> Result<Activity, InvalidField> {
        let cpus = wire.cpus.unwrap_or(1);
        let cpus = check_range(&format!("{field}.cpus"), cpus, 1..=limits::CPUS_MAX, "CPUs")?;
        Ok(Activity {
            name: ActivityName::parse(&format!("{field}.name"), &wire.name)?,
            work: self.work(field, wire)?,
            cpus: Cpus(cpus),
            others: amounts_from_wire(&format!("{field}.others"), &wire.others)?,
            sites: self.set(&format!("{field}.sites"), &wire.sites)?,
            excluded: self.set(&format!("{field}.excluded"), &wire.excluded)?,
        })
    }

    fn work(&self, field: &str, wire: &v1::WorkflowActivity) -> Result<Work, InvalidField> {
        let one = "exactly one of load_mi, duration and durations";
        match (wire.load_mi, &wire.duration, &wire.durations[..]) {
            (Some(mi), None, []) => {
                let field = format!("{field}.load_mi");
                let mi = check_range(&field, mi, 1..=limits::TASK_WORK_MAX_MI, "MI")?;
                Ok(Work::Load { mi })
            }
            (None, Some(duration), []) => {
                duration_of(&format!("{field}.duration"), Some(duration)).map(Work::Fixed)
            }
            (None, None, durations @ [_, ..]) => {
                let mut all = BTreeMap::new();
                for (index, of) in durations.iter().enumerate() {
                    let field = format!("{field}.durations[{index}]");
                    let site_field = format!("{field}.site");
                    let site = self.site(&site_field, &of.site)?;
                    let duration = duration_of(&format!("{field}.duration"), of.duration.as_ref())?;
                    if all.insert(site, duration).is_some() {
                        return Err(InvalidField::new(site_field, &of.site, "each site once"));
                    }
                }
                Ok(Work::BySite(all))
            }
            (mi, duration, durations) => {
                let set = [
                    mi.map(|_| "load_mi"),
                    duration.as_ref().map(|_| "duration"),
                    durations.first().map(|_| "durations"),
                ];
                let set: Vec<&str> = set.into_iter().flatten().collect();
                let value =
                    if set.is_empty() { "none of them".to_owned() } else { set.join(" and ") };
                Err(InvalidField::new(field, value, one))
            }
        }
    }
}

/// The duration of an activity.
fn duration_of(field: &str, wire: Option<&coalloc_proto::Duration>) -> Result<Span, InvalidField> {
    let (low, high) = (limits::DURATION_MIN, limits::DURATION_MAX);
    let allowed = format!("{low} to {high}");
    let wire = wire.ok_or_else(|| InvalidField::missing(field, &allowed))?;
    let duration = span_from_wire(field, wire)?;
    match (low..=high).contains(&duration) {
        true => Ok(duration),
        false => Err(InvalidField::new(field, duration, allowed)),
    }
}

/// The activities of a workflow by their names.
struct ActivityNames<'a>(BTreeMap<&'a str, usize>);

impl<'a> ActivityNames<'a> {
    fn of(activities: &'a [Activity]) -> Result<Self, InvalidField> {
        let mut names = BTreeMap::new();
        for (index, activity) in activities.iter().enumerate() {
            if let Some(first) = names.insert(activity.name.as_str(), index) {
                let allowed =
                    format!("a name that no other activity has; activities[{first}] has this one");
                let field = format!("activities[{index}].name");
                return Err(InvalidField::new(field, &activity.name, allowed));
            }
        }
        Ok(Self(names))
    }

    fn find(&self, field: &str, text: &str) -> Result<usize, InvalidField> {
        self.0.get(text).copied().ok_or_else(|| {
            let guess = did_you_mean(text, self.0.keys().copied());
            let allowed = format!("the name of an activity of this workflow{guess}");
            InvalidField::new(field, InvalidField::quoted(text), allowed)
        })
    }

    fn find_all(&self, field: &str, texts: &[String]) -> Result<Vec<usize>, InvalidField> {
        let all = texts.iter().enumerate();
        all.map(|(index, text)| self.find(&format!("{field}[{index}]"), text)).collect()
    }
}

fn data_item(
    field: &str,
    wire: &v1::WorkflowData,
    names: &ActivityNames<'_>,
    sites: &SiteNames<'_>,
) -> Result<DataItem, InvalidField> {
    let source = match (wire.from.as_str(), wire.from_site.as_str()) {
        ("", "") => {
            let one = "one of from (an activity) and from_site";
            return Err(InvalidField::missing(format!("{field}.from"), one));
        }
        (from, "") => DataSource::Activity(names.find(&format!("{field}.from"), from)?),
        ("", site) => DataSource::Site(sites.place(&format!("{field}.from_site"), site)?),
        (_, site) => {
            let one = "unset, because `from` is set";
            return Err(InvalidField::new(format!("{field}.from_site"), site, one));
        }
    };
    let bytes_field = format!("{field}.bytes");
    let rates = 1..=limits::BANDWIDTH_MAX_BPS;
    let rate = wire.rate_bps.map(|rate| {
        check_range(&format!("{field}.rate_bps"), rate, rates, "bit/s").map(BitsPerSecond)
    });
    Ok(DataItem {
        name: DataName::parse(&format!("{field}.name"), &wire.name)?,
        bytes: check_range(&bytes_field, wire.bytes, 0..=limits::TASK_BYTES_MAX, "bytes")?,
        source,
        consumers: names.find_all(&format!("{field}.to"), &wire.to)?,
        rate: rate.transpose()?,
    })
}

fn channel_of(
    field: &str,
    wire: &v1::WorkflowChannel,
    names: &ActivityNames<'_>,
) -> Result<Channel, InvalidField> {
    let latency = wire.max_latency.as_ref();
    let latency = latency.map(|span| span_from_wire(&format!("{field}.max_latency"), span));
    Ok(Channel {
        from: names.find(&format!("{field}.from"), &wire.from)?,
        to: names.find(&format!("{field}.to"), &wire.to)?,
        bandwidth: BitsPerSecond(wire.bandwidth_bps),
        latency_max: latency.transpose()?,
    })
}

/// Reads the options of a workflow. What is unset gets the schema's default.
///
/// # Errors
/// [`InvalidField`] for the first field that is wrong.
pub fn workflow_options(
    wire: Option<&v1::WorkflowOptions>,
) -> Result<ParsedWorkflowOptions, InvalidField> {
    let wire = wire.cloned().unwrap_or_default();
    let planner = match &wire.planner {
        None => WorkflowPlannerName::default(),
        Some(name) => WorkflowPlannerName::named(name).ok_or_else(|| {
            let value = InvalidField::quoted(name);
            InvalidField::new("options.planner", value, WorkflowPlannerName::instead_of(name))
        })?,
    };
    let defaults = WorkflowOptions::default();
    let edges = wire.max_paths_per_route.unwrap_or(defaults.route_edges_max);
    let all_edges = 1..=limits::ROUTE_EDGES_MAX;
    let discrepancies = wire.discrepancies.unwrap_or(defaults.discrepancies);
    let all_discrepancies = 0..=limits::DISCREPANCIES_MAX;
    let tries = wire.tries.unwrap_or(limits::TASK_TRIES_DEFAULT);
    let options = WorkflowOptions {
        route_edges_max: check_range("options.max_paths_per_route", edges, all_edges, "paths")?,
        discrepancies: check_range(
            "options.discrepancies",
            discrepancies,
            all_discrepancies,
            "discrepancies",
        )?,
    };
    let tries = check_range("options.tries", tries, 1..=limits::TASK_TRIES_MAX, "tries")?;
    Ok(ParsedWorkflowOptions { planner, options, tries })
}
