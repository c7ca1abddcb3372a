//! The settings of an experiment with the model `workflows`, as a file gives them, and their checks.
//!
//! Source: Decker 2007, section V-A. The paper prints the number of machines, the range of their speeds, and
//! that all numbers of a workflow are uniformly distributed. It prints neither their ranges nor the sizes of
//! machines and links: those are free, and each has a default here. With these defaults a mean inter-arrival
//! time of 0.5 slots is a load of 1: 10 activities of 8 CPUs and 4,480 million instructions take as long as
//! half a slot of 7 machines of 128 CPUs at 800 million instructions a slot.

pub(crate) mod table;

use coalloc_common::invalid::check_range;
use coalloc_common::{InvalidField, limits};
use coalloc_plan::{Named, WorkflowPlannerName};
use serde::{Deserialize, Serialize};

use crate::experiment::settings;

/// Most machines of a federation; they are joined by a full mesh.
pub const MACHINES_MAX: u32 = 64;
/// Most workflows of a run.
pub const WORKFLOWS_MAX: u64 = 1_000_000;
/// Longest mean of the time between two arrivals, in slots.
pub const INTERARRIVAL_MAX_SLOTS: f64 = 1_000.0;
/// Longest mean of the book-ahead time, in slots.
pub const BOOK_AHEAD_MAX_SLOTS: f64 = 1_000_000.0;
/// Latest deadline, in percent of the mean critical path.
pub const DEADLINE_MAX_PERCENT: u64 = 10_000;
/// Largest shape factor, in percent: then a workflow of 1,024 activities has 3 levels.
pub const SHAPE_MAX_PERCENT: u64 = 1_000;
/// Most placements that a planner may try for one workflow.
pub const PLACEMENTS_MAX: u64 = 1_000_000_000;

/// Settings of one run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct WorkflowsSettings {
    /// The planner, by the name that users give: `heft-sync`, `heft-sync-along`, `heft-sync-bt`, `heft-sync-bt-printed`.
    pub planner: String,
    /// How often a planner may give an earlier node another site because a later one misses the deadline. Only
    /// `heft-sync-bt` does so.
    pub discrepancies: u32,
    /// N_max: the number of edges that a transfer or channel may use. In the paper it is 1: a network link is
    /// "the whole communication path between two resources" (section II-B).
    pub route_edges: u32,
    /// How many placements a planner may try for one workflow.
    pub placements: u64,
    /// The machines and the links between them.
    pub federation: MachineSettings,
    /// The workflows.
    pub workload: WorkloadSettings,
}

/// The federation: machines in a full mesh of equal links.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct MachineSettings {
    /// Number of machines.
    pub machines: u32,
    /// CPUs of each machine.
    pub cpus: u64,
    /// The slowest and the fastest possible speed of a CPU, in million instructions a slot.
    pub speeds: UniformRange,
    /// How the machines get their speeds.
    pub speed_choice: SpeedChoice,
    /// Rate of each link in each direction, bit/s.
    pub link_bps: u64,
}

/// How machines get their speeds out of a range.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum SpeedChoice {
    /// In equal steps from the slowest to the fastest.
    #[default]
    Even,
    /// Each speed is drawn by itself; every speed of the range is equally likely.
    Drawn,
}

/// Whole numbers from `least` to `most`, each equally likely.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct UniformRange {
    /// The smallest number.
    pub least: u64,
    /// The largest number.
    pub most: u64,
}

/// The workflows of Decker 2007, section V-A.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct WorkloadSettings {
    /// Number of workflows.
    pub workflows: u64,
    /// How many of them arrive before anything is measured.
    pub warm_up: u64,
    /// Mean of the exponentially distributed time between two arrivals, in slots.
    pub interarrival_slots: f64,
    /// Mean of the exponentially distributed book-ahead time, in slots: a workflow is ready so long after its
    /// arrival. 0 means at once.
    pub book_ahead_slots: f64,
    /// Number of activities.
    pub activities: UniformRange,
    /// CPUs of an activity.
    pub cpus: UniformRange,
    /// Load of an activity on each of its CPUs, million instructions.
    pub load_mi: UniformRange,
    /// Number of dependencies, in percent of the number of activities.
    pub dependencies_percent: UniformRange,
    /// Number of activities in synchronous sets, in percent of the number of activities.
    pub synchronous_percent: UniformRange,
    /// Number of members of a synchronous set.
    pub members: UniformRange,
    /// Number of channels, in percent of the number of activities in synchronous sets.
    pub channels_percent: UniformRange,
    /// The shape factor, in percent: the mean number of activities on one level, over the square root of the number of
    /// activities (Topcuoglu 2002, section 5.2.1).
    pub shape_percent: UniformRange,
    /// Size of the data of a dependency, bytes.
    pub data_bytes: UniformRange,
    /// Rate of a channel, bit/s.
    pub channel_bps: UniformRange,
    /// The time from ready to deadline, in percent of the critical path with mean durations and transfers.
    pub deadline_percent: u64,
    /// A recorded workflow: all workflows are copies of it, and `activities`, `cpus`, `load_mi`,
    /// `dependencies_percent`, `synchronous_percent`, `shape_percent` and `data_bytes` are of no use.
    pub recorded: Option<RecordedSettings>,
}

/// A recorded workflow.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RecordedSettings {
    /// The name of its file, WfFormat 1.5 or DAX. Seconds become work at the mean speed of the machines, because
    /// the speeds in such files are noise.
    pub file: String,
    /// The share of each level that is made synchronous, in percent.
    pub synchronous_level_percent: u64,
}

impl Default for WorkflowsSettings {
    fn default() -> Self {
        Self {
            planner: WorkflowPlannerName::HeftSync.name().to_owned(),
            discrepancies: limits::DISCREPANCIES_DEFAULT,
            route_edges: 1,
            placements: 1_000_000,
            federation: MachineSettings::default(),
            workload: WorkloadSettings::default(),
        }
    }
}

impl Default for MachineSettings {
    fn default() -> Self {
        Self {
            machines: 7,
            cpus: 128,
            speeds: UniformRange { least: 500, most: 1_100 },
            speed_choice: SpeedChoice::Even,
            link_bps: 1_000_000_000,
        }
    }
}

impl Default for WorkloadSettings {
    fn default() -> Self {
        Self {
            workflows: 5_000,
            warm_up: 500,
            interarrival_slots: 0.5,
            book_ahead_slots: 20.0,
            activities: UniformRange { least: 5, most: 15 },
            cpus: UniformRange { least: 1, most: 15 },
            load_mi: UniformRange { least: 960, most: 8_000 },
            dependencies_percent: UniformRange { least: 100, most: 200 },
            synchronous_percent: UniformRange { least: 0, most: 60 },
            members: UniformRange { least: 2, most: 4 },
            channels_percent: UniformRange { least: 0, most: 100 },
            shape_percent: UniformRange { least: 50, most: 150 },
            data_bytes: UniformRange { least: 1_000_000, most: 10_000_000 },
            channel_bps: UniformRange { least: 100_000_000, most: 500_000_000 },
            deadline_percent: 200,
            recorded: None,
        }
    }
}

impl UniformRange {
    /// Checks both ends where what is allowed depends on another setting, and that they are not reversed.
    fn check(self, field: &str, allowed: (u64, u64), unit: &str) -> Result<(), InvalidField> {
        let (low, high) = allowed;
        check_range(&format!("{field}.least"), self.least, low..=high, unit)?;
        check_range(&format!("{field}.most"), self.most, self.least..=high, unit).map(|_| ())
    }
}

impl WorkflowsSettings {
    /// Checks every number. Returns the planner.
    ///
    /// # Errors
    /// The first field that is out of its range, by its path within the settings.
    pub fn check(&self) -> Result<WorkflowPlannerName, InvalidField> {
        settings::check(table::TABLE, self)?;
        let planner = WorkflowPlannerName::named(&self.planner).ok_or_else(|| {
            let value = InvalidField::quoted(&self.planner);
            InvalidField::new("planner", value, WorkflowPlannerName::instead_of(&self.planner))
        })?;
        self.workload.check(&self.federation).map_err(|error| error.within("workload"))?;
        Ok(planner)
    }
}

impl MachineSettings {
    /// The mean speed of a machine, for recorded workflows: the middle of the range.
    #[must_use]
    pub const fn mean_mips(&self) -> u64 {
        let UniformRange { least, most } = self.speeds;
        least + (most - least) / 2
    }
}

impl WorkloadSettings {
    fn check(&self, federation: &MachineSettings) -> Result<(), InvalidField> {
        check_range("warm_up", self.warm_up, 0..=self.workflows - 1, "workflows")?;
        self.cpus.check("cpus", (1, federation.cpus), "CPUs, as many as a machine has")?;
        let dependencies = limits::WORKFLOW_DEPENDENCIES_MAX as u64;
        let percent = dependencies * 100 / self.activities.most;
        self.dependencies_percent.check("dependencies_percent", (0, percent), "percent")?;
        self.channel_bps.check("channel_bps", (1, federation.link_bps), "bit/s")?;
        self.check_length(federation)
    }

    /// The longest chain of activities and transfers, by mean speeds, ends within the longest window.
    fn check_length(&self, federation: &MachineSettings) -> Result<(), InvalidField> {
        let run = u128::from(self.load_mi.most) / u128::from(federation.speeds.least) + 1;
        let bits = 8 * u128::from(self.data_bytes.most);
        let travel = bits / u128::from(federation.link_bps) + 1;
        let chain = u128::from(self.activities.most) * (run + travel);
        let slots = chain * u128::from(self.deadline_percent.max(100)) / 100;
        let most = u128::from(limits::DURATION_MAX.as_us().unsigned_abs() / 1_000_000);
        if slots <= most {
            return Ok(());
        }
        let value = format!("{slots} slots to the deadline of the longest chain");
        let allowed =
            format!("at most {most} slots; change load_mi, data_bytes, activities or speeds");
        Err(InvalidField::new("deadline_percent", value, allowed))
    }
}
