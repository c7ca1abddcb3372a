//! What each setting of the model `coallocations` may be.

use coalloc_common::{Objective, limits};
use coalloc_plan::ip::Program;
use coalloc_plan::{Named, Solver};
use serde_json::{Value, json};

use super::{DAY_MAX_MIN, DELAY_MAX_US, EarliestStarts, First, RequestTarget, Type4};
use crate::experiment::settings::{Allowed, Setting, words};

/// Every setting besides the federation.
pub(crate) const TABLE: &[Setting] = &[
    Setting::words("planner", planners),
    Setting::flag("first_solution"),
    Setting::whole("solver_s", 1, 24 * 3_600, "s"),
    Setting::fields("compared"),
    Setting::words("compared.planner", planners),
    Setting::flag("compared.strengthened"),
    Setting::flag("compared.first_solution"),
    Setting::whole("compared.every", 1, 1_000_000, "requests"),
    Setting::whole("compared.frames", 1, limits::FRAMES_MAX as u64, "frames"),
    Setting::flag("strengthened"),
    Setting::whole("route_edges", 1, limits::ROUTE_EDGES_MAX as u64, "edges"),
    Setting::whole("frames", 1, limits::FRAMES_MAX as u64, "frames"),
    Setting {
        path: "objectives",
        allowed: Allowed::List { count: None, each: &Allowed::Words(objectives) },
    },
    Setting::words("first", words::<First>),
    Setting {
        path: "cpu_values",
        allowed: Allowed::Named(&Allowed::Whole {
            least: 0,
            most: limits::UNIT_VALUE_MAX,
            unit: "points",
        }),
    },
    Setting::flag("full_duplex"),
    Setting {
        path: "levels",
        allowed: Allowed::Named(&Allowed::Whole { least: 1, most: 100, unit: "percent" }),
    },
    Setting::whole("coordinators", 1, 1_000, ""),
    Setting::other("lower", "none, domains, or by name: a list of domains and resource managers"),
    Setting::words("asked", words::<RequestTarget>),
    Setting::flag("in_turn"),
    Setting::whole("delay_us", 0, DELAY_MAX_US.unsigned_abs(), "us"),
    Setting::whole("planning_us", 0, DELAY_MAX_US.unsigned_abs(), "us"),
    Setting::fields("workload"),
    Setting {
        path: "workload.users",
        allowed: Allowed::List {
            count: Some((1, limits::REQUEST_SITES_MAX as u64)),
            each: &Allowed::Other("the name of a user"),
        },
    },
    Setting {
        path: "workload.interarrival_s",
        allowed: Allowed::Number { least: 0.001, is_open: true, most: 1e9, unit: "s" },
    },
    Setting::whole("workload.day_min", 1, DAY_MAX_MIN.unsigned_abs(), "min"),
    Setting::other("workload.requests", "a whole number from 0"),
    Setting {
        path: "workload.cpus",
        allowed: Allowed::List {
            count: Some((1, limits::REQUEST_SITES_MAX as u64)),
            each: &Allowed::Whole { least: 1, most: limits::CPUS_MAX, unit: "CPUs" },
        },
    },
    Setting {
        path: "workload.others",
        allowed: Allowed::Named(&Allowed::Other("an amount of that kind (storage: GB)")),
    },
    Setting {
        path: "workload.durations_min",
        allowed: Allowed::List {
            count: Some((1, limits::REQUEST_SITES_MAX as u64)),
            each: &Allowed::Whole { least: 1, most: DAY_MAX_MIN.unsigned_abs(), unit: "min" },
        },
    },
    Setting::whole("workload.slack", 0, 1_000, "durations"),
    Setting::whole("workload.rate_bps", 1, limits::BANDWIDTH_MAX_BPS, "bit/s"),
    Setting::words("workload.type4", words::<Type4>),
    Setting::words("workload.earliest", words::<EarliestStarts>),
];

fn planners() -> Vec<&'static str> {
    let own = Solver::ALL.iter().map(|solver| solver.name());
    let programs = Program::ALL.iter().map(|program| program.name());
    own.chain(programs).chain(["program:PATH"]).collect()
}

fn objectives() -> Vec<&'static str> {
    Objective::ALL.map(Objective::word).to_vec()
}

/// Settings in which every one is given.
pub(crate) fn full() -> Value {
    json!({
        "planner": "exact",
        "first_solution": false,
        "solver_s": 60,
        "compared": {
            "planner": "mip", "strengthened": true, "first_solution": false, "every": 1, "frames": 1,
        },
        "strengthened": true,
        "route_edges": 5,
        "frames": 10,
        "objectives": ["start"],
        "first": "earliest",
        "cpu_values": {"4": 10},
        "full_duplex": false,
        "levels": {"UserA": 50},
        "coordinators": 1,
        "lower": "none",
        "asked": "upper",
        "in_turn": false,
        "delay_us": 0,
        "planning_us": 0,
        "workload": {
            "users": ["UserA"],
            "interarrival_s": 400.0,
            "day_min": 1_440,
            "requests": 100,
            "cpus": [1, 2],
            "others": {"storage": 1},
            "durations_min": [30],
            "slack": 3,
            "rate_bps": 1_000_000_000,
            "type4": "ring",
            "earliest": "inside-day",
        },
    })
}
