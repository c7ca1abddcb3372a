//! What each setting of the model `workflows` may be.

use coalloc_common::limits;
use coalloc_plan::{Named, WorkflowPlannerName};
use serde_json::{Value, json};

use super::{
    BOOK_AHEAD_MAX_SLOTS, DEADLINE_MAX_PERCENT, INTERARRIVAL_MAX_SLOTS, MACHINES_MAX,
    PLACEMENTS_MAX, SHAPE_MAX_PERCENT, SpeedChoice, WORKFLOWS_MAX,
};
use crate::experiment::settings::{Allowed, Setting, words};

/// Most dependencies, in percent of one activity.
const DEPENDENCIES_MAX_PERCENT: u64 = 100 * limits::WORKFLOW_DEPENDENCIES_MAX as u64;

/// Every setting.
pub(crate) const TABLE: &[Setting] = &[
    Setting::words("planner", planners),
    Setting::whole("discrepancies", 0, limits::DISCREPANCIES_MAX as u64, ""),
    Setting::whole("route_edges", 1, limits::ROUTE_EDGES_MAX as u64, "edges"),
    Setting::whole("placements", 1, PLACEMENTS_MAX, "placements"),
    Setting::fields("federation"),
    Setting::whole("federation.machines", 1, MACHINES_MAX as u64, "machines"),
    Setting::whole("federation.cpus", 1, limits::CPUS_MAX, "CPUs"),
    Setting::between("federation.speeds", 1, limits::MIPS_MAX, "million instructions a slot"),
    Setting::words("federation.speed_choice", words::<SpeedChoice>),
    Setting::whole("federation.link_bps", 1, limits::BANDWIDTH_MAX_BPS, "bit/s"),
    Setting::fields("workload"),
    Setting::whole("workload.workflows", 1, WORKFLOWS_MAX, "workflows"),
    Setting::whole("workload.warm_up", 0, WORKFLOWS_MAX - 1, "workflows"),
    Setting::above_zero("workload.interarrival_slots", INTERARRIVAL_MAX_SLOTS, "slots"),
    Setting {
        path: "workload.book_ahead_slots",
        allowed: Allowed::Number {
            least: 0.0,
            is_open: false,
            most: BOOK_AHEAD_MAX_SLOTS,
            unit: "slots",
        },
    },
    Setting::between(
        "workload.activities",
        1,
        limits::WORKFLOW_ACTIVITIES_MAX as u64,
        "activities",
    ),
    Setting::between("workload.cpus", 1, limits::CPUS_MAX, "CPUs"),
    Setting::between("workload.load_mi", 1, limits::TASK_WORK_MAX_MI, "million instructions"),
    Setting::between("workload.dependencies_percent", 0, DEPENDENCIES_MAX_PERCENT, "percent"),
    Setting::between("workload.synchronous_percent", 0, 100, "percent"),
    Setting::between("workload.members", 2, limits::SYNC_MEMBERS_MAX as u64, "members"),
    Setting::between(
        "workload.channels_percent",
        0,
        100 * limits::SYNC_CHANNELS_MAX as u64,
        "percent",
    ),
    Setting::between("workload.shape_percent", 1, SHAPE_MAX_PERCENT, "percent"),
    Setting::between("workload.data_bytes", 0, limits::TASK_BYTES_MAX, "bytes"),
    Setting::between("workload.channel_bps", 1, limits::BANDWIDTH_MAX_BPS, "bit/s"),
    Setting::whole("workload.deadline_percent", 1, DEADLINE_MAX_PERCENT, "percent"),
    Setting::fields("workload.recorded"),
    Setting::other("workload.recorded.file", "the name of a file, WfFormat 1.5 or DAX"),
    Setting::whole("workload.recorded.synchronous_level_percent", 0, 100, "percent"),
];

fn planners() -> Vec<&'static str> {
    WorkflowPlannerName::ALL.iter().map(|planner| planner.name()).collect()
}

/// Settings in which every one is given.
pub(crate) fn full() -> Value {
    let range = |least: u64, most: u64| json!({"least": least, "most": most});
    json!({
        "planner": "heft-sync",
        "discrepancies": 1,
        "route_edges": 1,
        "placements": 1_000,
        "federation": {
            "machines": 3,
            "cpus": 8,
            "speeds": range(500, 1_000),
            "speed_choice": "even",
            "link_bps": 1_000_000_000,
        },
        "workload": {
            "workflows": 10,
            "warm_up": 0,
            "interarrival_slots": 1.0,
            "book_ahead_slots": 1.0,
            "activities": range(5, 10),
            "cpus": range(1, 4),
            "load_mi": range(500, 1_000),
            "dependencies_percent": range(0, 100),
            "synchronous_percent": range(0, 50),
            "members": range(2, 4),
            "channels_percent": range(0, 100),
            "shape_percent": range(50, 150),
            "data_bytes": range(0, 1_000_000),
            "channel_bps": range(1_000_000, 10_000_000),
            "deadline_percent": 200,
            "recorded": {"file": "a.dax", "synchronous_level_percent": 50},
        },
    })
}
