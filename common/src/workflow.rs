//! A workflow as the user requests it: activities, the data between them, and sets of activities that
//! run at the same time.
//!
//! It is `W = (A, D, Sync, C)` of Decker 2007, section II-A. The paper leaves three things open, and
//! they are read as follows:
//!
//! * Equal start and end is transitive, so synchronous sets that overlap are one set
//!   ([`WorkflowGraph::merged`] says which).
//! * A data item travels once to each site that needs it. Nothing is sent within a site.
//! * A data item may also lie at a site from the beginning (the paper's "central repositories").
//!
//! A [`Workflow`] is what was written down. [`WorkflowGraph::new`] checks it and contracts every
//! synchronous set to one node; planners work on the graph.
//!
//! What users report while it runs is in `progress`.
//!
//! Left out: the conversion from the wire, which is in `net::convert`; ranks and plans, which are in
//! `plan::workflow`; activities whose number of CPUs may vary ("modable").

mod graph;
mod progress;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};

use crate::amount::{BitsPerSecond, Cpus};
use crate::id::{ActivityName, DataName, VertexName};
use crate::request::SiteDemand;
use crate::time::{Span, Time};
use crate::{Amount, ResourceKind, SiteName};

pub use self::graph::{Node, WorkflowGraph};
pub use self::progress::{ActivityEvent, ActivityReport, Progress, ReportedProgress};

/// How long an activity runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Work {
    /// This much work on each of the CPUs, in million instructions, 1 to
    /// [`crate::limits::TASK_WORK_MAX_MI`]. The duration is the work divided by the speed of the site's CPUs.
    Load {
        /// Million instructions.
        mi: u64,
    },
    /// The same duration at every site.
    Fixed(Span),
    /// A duration for each site. The activity runs at no other site.
    BySite(BTreeMap<VertexName, Span>),
}

impl Work {
    /// The duration at a site whose CPUs have this speed; `None` when the activity cannot run there.
    /// It is rounded up to a microsecond.
    #[must_use]
    pub fn duration_at(&self, site: &VertexName, mips: u64) -> Option<Span> {
        match self {
            Self::Load { mi } => {
                let us = (u128::from(*mi) * 1_000_000).div_ceil(u128::from(mips.max(1)));
                Some(Span::from_us(i64::try_from(us).unwrap_or(i64::MAX)))
            }
            Self::Fixed(duration) => Some(*duration),
            Self::BySite(durations) => durations.get(site).copied(),
        }
    }
}

/// One activity (`a_i`): an amount of resources of one site for the duration of its work.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Activity {
    /// The name, unique in the workflow.
    pub name: ActivityName,
    /// How long it runs.
    pub work: Work,
    /// CPUs that it needs all the time, 1 to [`crate::limits::CPUS_MAX`].
    pub cpus: Cpus,
    /// What else it needs at the same site, by kind.
    pub others: BTreeMap<ResourceKind, Amount>,
    /// The sites at which it may run. Empty: every site.
    pub sites: BTreeSet<VertexName>,
    /// The sites at which it must not run.
    pub excluded: BTreeSet<VertexName>,
}

impl Activity {
    /// Whether the activity may run at a site, by name.
    #[must_use]
    pub fn may_run_at(&self, site: &VertexName) -> bool {
        (self.sites.is_empty() || self.sites.contains(site)) && !self.excluded.contains(site)
    }

    /// The amounts that the activity needs at its site.
    #[must_use]
    pub fn demand(&self) -> SiteDemand {
        SiteDemand {
            name: SiteName::composed(self.name.as_str()),
            cpus: self.cpus,
            others: self.others.clone(),
            pinned: None,
            excluded: BTreeSet::new(),
            windows: BTreeMap::new(),
        }
    }
}

/// Where a data item comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DataSource {
    /// Index in [`Workflow::activities`] of the activity that produces it. The item is there when the
    /// activity ends.
    Activity(usize),
    /// The site at which it lies when the workflow is ready.
    Site(VertexName),
}

/// One data item (`D`). Each activity that needs it depends on it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DataItem {
    /// The name, unique in the workflow.
    pub name: DataName,
    /// Its size in bytes, 0 to [`crate::limits::TASK_BYTES_MAX`]. An item without bytes only orders
    /// activities: nothing travels.
    pub bytes: u64,
    /// Where it comes from.
    pub source: DataSource,
    /// Indices in [`Workflow::activities`] of the activities that need it, at least one.
    pub consumers: Vec<usize>,
    /// The rate at which it travels. `None`: the planner takes the best of 1, 1/2, 1/4 and 1/8 of what
    /// the widest route between the two sites can carry.
    pub rate: Option<BitsPerSecond>,
}

/// A channel (`C`): a rate between two activities of one synchronous set, for as long as the set runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Channel {
    /// Index in [`Workflow::activities`] of the activity where the channel starts.
    pub from: usize,
    /// Index of the activity where it ends; it is another activity of the same set.
    pub to: usize,
    /// The rate, 1 to [`crate::limits::BANDWIDTH_MAX_BPS`]. It is needed only between different sites.
    pub bandwidth: BitsPerSecond,
    /// Largest allowed sum of the latencies of the edges that the channel takes.
    pub latency_max: Option<Span>,
}

/// A workflow. Its fields are public so that planners and tests can read them; nothing uses one that
/// [`WorkflowGraph::new`] has not accepted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Workflow {
    /// The activities, 1 to [`crate::limits::WORKFLOW_ACTIVITIES_MAX`].
    pub activities: Vec<Activity>,
    /// The data items; at most [`crate::limits::WORKFLOW_DEPENDENCIES_MAX`] pairs of an item and a consumer.
    pub data: Vec<DataItem>,
    /// Sets of activities (indices) with equal start and end, two or more each.
    pub sync_sets: Vec<Vec<usize>>,
    /// The channels inside the sets.
    pub channels: Vec<Channel>,
    /// Sets of activities (indices) that run at one site, whichever it is, two or more each.
    pub same_site: Vec<Vec<usize>>,
    /// Nothing of the workflow happens before.
    pub ready: Time,
    /// Everything has ended by then; after `ready`.
    pub deadline: Time,
}

impl Workflow {
    /// The index of an activity by its name.
    #[must_use]
    pub fn find_activity(&self, name: &str) -> Option<usize> {
        self.activities.iter().position(|activity| activity.name.as_str() == name)
    }
}
