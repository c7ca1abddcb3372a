//! The settings of an experiment with the model `tasks`, as a file gives them, and their checks.
//!
//! Times have their unit in the name. Settings that are not given are as in Christodoulopoulos 2008:
//! distributed schedulers, one-way reservation, updates at every change.

pub(crate) mod table;

use coalloc_common::InvalidField;
use coalloc_common::invalid::check_range;
use coalloc_plan::{Named, TaskPlannerName};
use serde::{Deserialize, Serialize};

use crate::experiment::settings;

/// Settings of one run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TasksSettings {
    /// The network.
    pub topology: TopologySettings,
    /// The clusters, at which tasks can run.
    pub clusters: ClusterSettings,
    /// The tasks that arrive.
    pub workload: WorkloadSettings,
    /// The schedulers and their planner.
    pub planning: PlanningSettings,
    /// How plans are reserved.
    #[serde(default)]
    pub reservation: ReservationSettings,
    /// How schedulers learn what is free.
    #[serde(default)]
    pub updates: UpdateSettings,
}

/// The network.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub enum TopologySettings {
    /// A mesh with wraparounds.
    Torus(TorusSettings),
    /// The network of a federation file, in an experiment `{file: path}`.
    Federation,
}

/// A mesh with wraparounds.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TorusSettings {
    /// Nodes in a row and in a column.
    pub side: u32,
    /// Distance of neighbours, in km.
    pub km: u32,
    /// Capacity of each link in each direction, in bit/s.
    pub capacity_bps: u64,
}

/// The clusters. If neither `random` nor `at` is given, they are those of the federation file.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ClusterSettings {
    /// Number of clusters, at nodes that the seed draws. Not together with `at`.
    #[serde(default)]
    pub random: Option<u32>,
    /// The names of the nodes that have a cluster.
    #[serde(default)]
    pub at: Option<Vec<String>>,
    /// CPUs of each cluster. Clusters of the federation file have their own number.
    #[serde(default = "one")]
    pub cpus: u64,
    /// Speed of each CPU, in million instructions a second.
    #[serde(default = "default_mips")]
    pub mips: u64,
}

/// The tasks that arrive: one Poisson stream, sources drawn evenly from all nodes, sizes and work
/// exponential.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WorkloadSettings {
    /// Tasks a second in total (`lambda`).
    pub lambda: f64,
    /// Number of tasks that arrive.
    pub tasks: u64,
    /// Number of tasks at the beginning that are not measured.
    #[serde(default)]
    pub warm_up: u64,
    /// Mean size of the data, in bytes (`I`).
    pub mean_bytes: f64,
    /// Mean work, in million instructions (`W`).
    pub mean_mi: f64,
    /// CPUs of each task (`r`).
    #[serde(default = "one")]
    pub cpus: u64,
    /// The rate at which a task sends its data, in bit/s; if not given, the capacity of the smallest link.
    #[serde(default)]
    pub rate_bps: Option<u64>,
    /// A task has to end within this multiple of the time that its transmission and run take; if not given,
    /// it has no deadline.
    #[serde(default)]
    pub deadline_factor: Option<f64>,
}

/// The schedulers, and how they plan.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PlanningSettings {
    /// The planner, by the name that users give, such as `mc-t`.
    pub planner: String,
    /// One scheduler for all nodes, or one at each node.
    #[serde(default)]
    pub schedulers: Schedulers,
    /// How long planning takes, in microseconds of simulated time.
    #[serde(default)]
    pub takes_us: i64,
    /// The largest number of paths of one search.
    #[serde(default = "default_paths")]
    pub paths: u64,
    /// Do schedulers look at clusters' profiles? If not, every cluster always looks free: `mc-b` as in
    /// Christodoulopoulos 2008.
    #[serde(default = "yes")]
    pub sees_clusters: bool,
    /// Are sizes and work known in advance? If not, only planners that begin at once can be used.
    #[serde(default = "yes")]
    pub sizes_known: bool,
    /// `tau_l`: length of a slot of links' vectors, in microseconds.
    #[serde(default = "default_link_slot")]
    pub link_slot_us: i64,
    /// `u_l`: number of slots of links' vectors.
    #[serde(default = "default_slots")]
    pub link_slots: usize,
    /// `tau_m`: length of a slot of clusters' vectors, in microseconds.
    #[serde(default = "default_cluster_slot")]
    pub cluster_slot_us: i64,
    /// `u_m`: number of slots of clusters' vectors.
    #[serde(default = "default_slots")]
    pub cluster_slots: usize,
}

/// Where the schedulers are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Schedulers {
    /// One scheduler that is at no node: its messages take no time.
    Central,
    /// One scheduler at each node, for the tasks that arrive there.
    #[default]
    Distributed,
}

/// How plans are reserved.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ReservationSettings {
    /// The protocol of the reservation.
    pub protocol: Protocol,
    /// How long a node takes to handle a message, in microseconds.
    pub processing_us: i64,
    /// How often a task may be planned, including the first time.
    pub tries: u32,
    /// Mean time, in milliseconds, after which a task is planned again when a link has refused it (`one-way`)
    /// or when there is no plan. The time is exponential.
    pub retry_after_ms: i64,
    /// With `one-way`: what happens to a task whose cluster is not free at the planned time.
    pub on_conflict: OnConflict,
    /// With `one-way`: does a refusal, on its way back, free what was reserved for later?
    pub release: bool,
    /// Do answers of resource managers report what is free there now?
    pub fresh_facts: bool,
}

/// The protocol of a reservation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Protocol {
    /// Tell-and-go as in the papers: the message books link by link on its way, and the data follow it.
    #[default]
    OneWay,
    /// One-way reservation as it is live: the coordinator asks one resource manager after the other to book,
    /// and the data leave when all have booked.
    OneWayInTurn,
    /// Tell-and-wait: the data leave when all resource managers have said yes.
    TwoPhase,
}

/// What happens to a task whose cluster is not free.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum OnConflict {
    /// The task waits at the cluster until its run fits.
    #[default]
    Queue,
    /// The task is planned again, including the transfer of its data.
    Replan,
    /// The task is lost.
    Drop,
}

/// How schedulers learn what is free.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct UpdateSettings {
    /// When resource managers send updates.
    pub strategy: UpdateStrategy,
    /// For `periodic` and `threshold`: the period in milliseconds.
    pub period_ms: i64,
    /// For `threshold`: the percentage of change.
    pub percent: u32,
    /// Extra delay of updates beyond the time that light takes, in milliseconds.
    pub delay_ms: i64,
}

/// When resource managers send updates.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum UpdateStrategy {
    /// Never: schedulers look at the timetables themselves.
    Truth,
    /// At every change.
    #[default]
    EveryChange,
    /// Once in a period, if anything changed.
    Periodic,
    /// When enough has changed, or when a change is as old as the period.
    Threshold,
}

impl Default for ReservationSettings {
    fn default() -> Self {
        Self {
            protocol: Protocol::OneWay,
            processing_us: 0,
            tries: 100,
            retry_after_ms: 1_000,
            on_conflict: OnConflict::Queue,
            release: true,
            fresh_facts: true,
        }
    }
}

impl Default for UpdateSettings {
    fn default() -> Self {
        let strategy = UpdateStrategy::EveryChange;
        Self { strategy, period_ms: 1_000, percent: 10, delay_ms: 0 }
    }
}

const fn one() -> u64 {
    1
}
const fn yes() -> bool {
    true
}
const fn default_mips() -> u64 {
    25_000
}
const fn default_paths() -> u64 {
    20_000
}
const fn default_link_slot() -> i64 {
    1_000
}
const fn default_cluster_slot() -> i64 {
    40_000
}
const fn default_slots() -> usize {
    10_000
}

/// The largest number of tasks in one run, so that a run takes no more than an hour and 2 GiB.
const TASKS_MAX: u64 = 1_000_000;
/// The same where coordinators keep every reservation, which takes some 5 kB a task in coordinators and
/// participants.
const COORDINATED_TASKS_MAX: u64 = 400_000;
/// An hour in each unit. No reasonable experiment has a longer delay.
const HOUR_MS: i64 = 3_600_000;
const HOUR_US: i64 = 1_000 * HOUR_MS;

/// The smallest and the largest side of a torus. With two nodes in a row, two links would join the same nodes.
const SIDE_MIN: u64 = 3;
const SIDE_MAX: u64 = 30;

impl TasksSettings {
    /// Checks each number by itself. What depends on the network is checked when the world is made.
    ///
    /// # Errors
    /// [`InvalidField`] with the path of the field within the settings.
    pub fn check(&self) -> Result<TaskPlannerName, InvalidField> {
        settings::check(table::TABLE, self)?;
        let planner = self.planning.check()?;
        let is_coordinated = self.reservation.protocol != Protocol::OneWay;
        if is_coordinated {
            let most = COORDINATED_TASKS_MAX;
            check_range("workload.tasks", self.workload.tasks, 1..=most, "tasks")?;
        }
        if !self.planning.sizes_known && is_coordinated {
            let allowed = "true, unless reservation.protocol is one-way: a coordinator must know \
                           how long everything is taken before it asks anybody";
            return Err(InvalidField::new("planning.sizes_known", false, allowed));
        }
        let WorkloadSettings { warm_up, tasks, .. } = self.workload;
        check_range("workload.warm_up", warm_up, 0..=tasks - 1, "tasks")?;
        if self.clusters.random.is_some() && self.clusters.at.is_some() {
            let allowed = "either this or clusters.random";
            return Err(InvalidField::new("clusters.at", "a list", allowed));
        }
        Ok(planner)
    }
}

impl PlanningSettings {
    fn check(&self) -> Result<TaskPlannerName, InvalidField> {
        let Some(planner) = TaskPlannerName::named(&self.planner) else {
            let names = TaskPlannerName::instead_of(&self.planner);
            let value = InvalidField::quoted(&self.planner);
            return Err(InvalidField::new("planning.planner", value, names));
        };
        if !self.sizes_known && !planner.begins_at_once() {
            let allowed = "true, unless the planner begins at once (\"samcra\", \"samcra-hbh\")";
            return Err(InvalidField::new("planning.sizes_known", false, allowed));
        }
        Ok(planner)
    }
}
