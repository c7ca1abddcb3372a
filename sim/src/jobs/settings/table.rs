//! What each setting of the model `jobs` may be.

use coalloc_common::limits::{
    CPUS_MAX, TRACE_ATTEMPTS_MAX, TRACE_HORIZON_DAYS_MAX, TRACE_JOBS_MAX, TRACE_SECONDS_MAX,
    TRACE_STEP_MAX_S,
};
use coalloc_common::servers::Choice;
use serde_json::{Value, json};

use super::{AtOneInstant, Estimates, JobPlanner, ServerIndexKind};
use crate::experiment::settings::{Allowed, Setting, words};

const SECONDS_MAX: u64 = TRACE_SECONDS_MAX.unsigned_abs();
const STEP_MAX_S: u64 = TRACE_STEP_MAX_S.unsigned_abs();

/// Every setting.
pub(crate) const TABLE: &[Setting] = &[
    Setting::other("trace", "the name of a file in SWF"),
    Setting {
        path: "servers",
        allowed: Allowed::Optional(&Allowed::Whole { least: 1, most: CPUS_MAX, unit: "" }),
    },
    Setting {
        path: "least_cpu_s",
        allowed: Allowed::Optional(&Allowed::Whole { least: 0, most: SECONDS_MAX, unit: "s" }),
    },
    Setting {
        path: "round_run_to_s",
        allowed: Allowed::Optional(&Allowed::Whole { least: 1, most: STEP_MAX_S, unit: "s" }),
    },
    Setting {
        path: "jobs",
        allowed: Allowed::Optional(&Allowed::Whole {
            least: 1,
            most: TRACE_JOBS_MAX as u64,
            unit: "jobs",
        }),
    },
    Setting::words("planner", words::<JobPlanner>),
    Setting::whole("step_s", 0, STEP_MAX_S, "s"),
    Setting::whole("horizon_days", 1, TRACE_HORIZON_DAYS_MAX.unsigned_abs(), "days"),
    Setting::whole("slot_s", 1, STEP_MAX_S, "s"),
    Setting {
        path: "attempts",
        allowed: Allowed::Optional(&Allowed::Whole {
            least: 1,
            most: TRACE_ATTEMPTS_MAX,
            unit: "",
        }),
    },
    Setting::words("index", words::<ServerIndexKind>),
    Setting::words("choice", words::<Choice>),
    Setting::words("estimates", words::<Estimates>),
    Setting::words("at_one_instant", words::<AtOneInstant>),
    Setting {
        path: "reserved_share",
        allowed: Allowed::Number { least: 0.0, is_open: false, most: 1.0, unit: "" },
    },
    Setting::whole("reserved_ahead_s", 0, SECONDS_MAX, "s"),
];

/// Settings in which every one is given.
pub(crate) fn full() -> Value {
    json!({
        "trace": "log.swf",
        "servers": 8,
        "least_cpu_s": 0,
        "round_run_to_s": 1,
        "jobs": 10,
        "planner": "online",
        "step_s": 900,
        "horizon_days": 1,
        "slot_s": 900,
        "attempts": 10,
        "index": "count",
        "choice": "paper",
        "estimates": "exact",
        "at_one_instant": "ends-first",
        "reserved_share": 0.5,
        "reserved_ahead_s": 60,
    })
}
