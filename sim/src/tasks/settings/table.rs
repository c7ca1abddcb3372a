//! What each setting of the model `tasks` may be.

use coalloc_common::limits;
use coalloc_plan::{Named, TaskPlannerName};
use serde_json::{Value, json};

use super::{
    HOUR_MS, HOUR_US, OnConflict, Protocol, SIDE_MAX, SIDE_MIN, Schedulers, TASKS_MAX,
    UpdateStrategy,
};
use crate::experiment::settings::{Allowed, Setting, words};

/// Every setting.
pub(crate) const TABLE: &[Setting] = &[
    Setting::other("topology", "torus, with its fields, or federation: {file: path}"),
    Setting::whole("topology.torus.side", SIDE_MIN, SIDE_MAX, "nodes"),
    Setting::whole("topology.torus.km", 1, 20_000, "km"),
    Setting::whole("topology.torus.capacity_bps", 1, limits::BANDWIDTH_MAX_BPS, "bit/s"),
    Setting::fields("clusters"),
    Setting {
        path: "clusters.random",
        allowed: Allowed::Optional(&Allowed::Other("1 to the number of nodes; not with at")),
    },
    Setting {
        path: "clusters.at",
        allowed: Allowed::Optional(&Allowed::List {
            count: None,
            each: &Allowed::Other("the name of a node; not with random"),
        }),
    },
    Setting::whole("clusters.cpus", 1, limits::CPUS_MAX, "CPUs"),
    Setting::whole("clusters.mips", 1, limits::MIPS_MAX, "MIPS"),
    Setting::fields("workload"),
    Setting::above_zero("workload.lambda", 1e6, "tasks/s"),
    Setting::whole("workload.tasks", 1, TASKS_MAX, "tasks"),
    Setting::whole("workload.warm_up", 0, TASKS_MAX - 1, "tasks"),
    Setting::above_zero("workload.mean_bytes", 1e13, "bytes"),
    Setting::above_zero("workload.mean_mi", 1e13, "MI"),
    Setting::whole("workload.cpus", 1, limits::CPUS_MAX, "CPUs"),
    Setting {
        path: "workload.rate_bps",
        allowed: Allowed::Optional(&Allowed::Whole {
            least: 1,
            most: limits::BANDWIDTH_MAX_BPS,
            unit: "bit/s",
        }),
    },
    Setting {
        path: "workload.deadline_factor",
        allowed: Allowed::Optional(&Allowed::Number {
            least: 0.0,
            is_open: true,
            most: 1e6,
            unit: "",
        }),
    },
    Setting::fields("planning"),
    Setting::words("planning.planner", planners),
    Setting::words("planning.schedulers", words::<Schedulers>),
    Setting::whole("planning.takes_us", 0, HOUR_US.unsigned_abs(), "us"),
    Setting::whole("planning.paths", 1, limits::SEARCH_PATHS_MAX as u64, "paths"),
    Setting::flag("planning.sees_clusters"),
    Setting::flag("planning.sizes_known"),
    Setting::whole("planning.link_slot_us", 1, HOUR_US.unsigned_abs(), "us"),
    Setting::whole("planning.link_slots", 1, limits::VECTOR_SLOTS_MAX as u64, "slots"),
    Setting::whole("planning.cluster_slot_us", 1, HOUR_US.unsigned_abs(), "us"),
    Setting::whole("planning.cluster_slots", 1, limits::VECTOR_SLOTS_MAX as u64, "slots"),
    Setting::fields("reservation"),
    Setting::words("reservation.protocol", words::<Protocol>),
    Setting::whole("reservation.processing_us", 0, HOUR_US.unsigned_abs(), "us"),
    Setting::whole("reservation.tries", 1, 10_000, "tries"),
    Setting::whole("reservation.retry_after_ms", 0, HOUR_MS.unsigned_abs(), "ms"),
    Setting::words("reservation.on_conflict", words::<OnConflict>),
    Setting::flag("reservation.release"),
    Setting::flag("reservation.fresh_facts"),
    Setting::fields("updates"),
    Setting::words("updates.strategy", words::<UpdateStrategy>),
    Setting::whole("updates.period_ms", 1, HOUR_MS.unsigned_abs(), "ms"),
    Setting::whole("updates.percent", 1, 100, "percent"),
    Setting::whole("updates.delay_ms", 0, HOUR_MS.unsigned_abs(), "ms"),
];

fn planners() -> Vec<&'static str> {
    TaskPlannerName::ALL.iter().map(|planner| planner.name()).collect()
}

/// Settings in which every one is given.
pub(crate) fn full() -> Value {
    json!({
        "topology": {"torus": {"side": 5, "km": 100, "capacity_bps": 1_000_000_000}},
        "clusters": {"random": 3, "at": ["n0"], "cpus": 1, "mips": 25_000},
        "workload": {
            "lambda": 1.0,
            "tasks": 100,
            "warm_up": 0,
            "mean_bytes": 1e6,
            "mean_mi": 1e3,
            "cpus": 1,
            "rate_bps": 1_000_000,
            "deadline_factor": 2.0,
        },
        "planning": {
            "planner": "mc-t",
            "schedulers": "distributed",
            "takes_us": 0,
            "paths": 100,
            "sees_clusters": true,
            "sizes_known": true,
            "link_slot_us": 1_000,
            "link_slots": 100,
            "cluster_slot_us": 1_000,
            "cluster_slots": 100,
        },
        "reservation": {
            "protocol": "one-way",
            "processing_us": 0,
            "tries": 1,
            "retry_after_ms": 1,
            "on_conflict": "queue",
            "release": true,
            "fresh_facts": true,
        },
        "updates": {"strategy": "truth", "period_ms": 1, "percent": 1, "delay_ms": 0},
    })
}
