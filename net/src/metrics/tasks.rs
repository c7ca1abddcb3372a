//! What a coordinator counts of tasks: what became of them, how old what they were planned on was, and
//! what the updates cost.

use std::sync::OnceLock;

use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::histogram::Histogram;

use super::{LabelledMetric, MetricGroup};

/// Tasks at coordinators.
#[derive(Debug)]
pub struct Tasks {
    pub(super) room: MetricGroup,
    /// Tasks that ended.
    pub ended: LabelledMetric<Counter, 1>,
    /// Tries that a resource manager refused.
    pub refused: LabelledMetric<Counter, 1>,
    /// Making one plan.
    pub planning_seconds: Histogram,
    /// How old the oldest part was that a plan rests on.
    pub picture_age: Histogram,
    /// Updates merged.
    pub updates: LabelledMetric<Counter, 2>,
    /// Their bytes.
    pub update_bytes: LabelledMetric<Counter, 1>,
    /// Updates ignored.
    pub ignored: LabelledMetric<Counter, 2>,
    /// Rounds of questions for profiles.
    pub rounds: Counter,
}

pub(super) static TASKS: OnceLock<Tasks> = OnceLock::new();

/// Metrics of tasks.
pub fn tasks() -> &'static Tasks {
    TASKS.get_or_init(|| {
        let mut room = MetricGroup::new("task");
        Tasks {
            ended: room
                .counters(
                    ["outcome"],
                    "ended",
                    "Tasks that ended: booked, no plan found, or refused at every try",
                )
                .show([["booked"], ["no_plan"], ["refused"]]),
            refused: room
                .counters(
                    ["kind"],
                    "tries_refused",
                    "Plans that a resource manager refused: at a cluster (conflict), at a path (blocking), or for another reason",
                )
                .show([["conflict"], ["blocking"], ["other"]]),
            planning_seconds: room.seconds(
                "planning_seconds",
                "How long one planning of a task took, cutting the vectors and waiting for a thread included",
            ),
            picture_age: room.seconds(
                "picture_age_seconds",
                "How old the oldest profile was that a plan rests on, when it was made",
            ),
            updates: room.counters(
                ["rm", "kind"],
                "updates",
                "Updates of profiles that were merged: snapshots, deltas, facts of answers, signs of life",
            ),
            update_bytes: room.counters(["rm"], "update_bytes", "Bytes of the updates that were merged"),
            ignored: room.counters(
                ["rm", "kind"],
                "updates_ignored",
                "Updates of profiles that were ignored, by what was wrong with them",
            ),
            rounds: room.counter(
                "rounds",
                "Rounds in which every resource manager was asked for its profiles (mode central)",
            ),
            room,
        }
    })
}
