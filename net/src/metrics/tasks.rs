//! What a coordinator counts of tasks: their outcomes, the age of the profiles that they were planned on, and
//! the cost of the updates.

use std::sync::OnceLock;

use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::histogram::Histogram;

use super::{LabelledMetric, MetricGroup};

/// Metrics of tasks at coordinators.
#[derive(Debug)]
pub struct Tasks {
    pub(super) room: MetricGroup,
    /// Tasks that ended, by outcome.
    pub ended: LabelledMetric<Counter, 1>,
    /// Tries that a resource manager refused, by kind of resource.
    pub refused: LabelledMetric<Counter, 1>,
    /// How long planning a task took.
    pub planning_seconds: Histogram,
    /// Age of the oldest profile that a plan was made from.
    pub picture_age: Histogram,
    /// Updates that were merged, by RM and kind.
    pub updates: LabelledMetric<Counter, 2>,
    /// Bytes of the updates that were merged, by RM.
    pub update_bytes: LabelledMetric<Counter, 1>,
    /// Updates that were ignored, by RM and reason.
    pub ignored: LabelledMetric<Counter, 2>,
    /// Rounds in which all RMs were asked for their profiles (mode central).
    pub rounds: Counter,
}

pub(super) static TASKS: OnceLock<Tasks> = OnceLock::new();

/// The metrics of tasks.
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
                "How long it took to plan a task once, including cutting the vectors and waiting \
                 for a thread",
            ),
            picture_age: room.seconds(
                "picture_age_seconds",
                "Age of the oldest profile that a plan rests on, at the time of planning",
            ),
            updates: room.counters(
                ["rm", "kind"],
                "updates",
                "Profile updates that were merged: snapshots, deltas, facts from answers, signs of \
                 life",
            ),
            update_bytes: room.counters(["rm"], "update_bytes", "Bytes of the updates that were merged"),
            ignored: room.counters(
                ["rm", "kind"],
                "updates_ignored",
                "Profile updates that were ignored, by what was wrong with them",
            ),
            rounds: room.counter(
                "rounds",
                "Rounds in which every resource manager was asked for its profiles (mode central)",
            ),
            room,
        }
    })
}
