//! What a coordinator counts of requests, attempts, changes, messages and planning.

use std::sync::OnceLock;

use coalloc_common::Reason;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;

use super::{LabelledMetric, MetricGroup, Seconds, count, duration};

/// Metrics of coordinators.
#[derive(Debug)]
pub struct Grc {
    pub(super) room: MetricGroup,
    /// Requests for which planning came to an end, with a reservation or a refusal.
    pub requests: Counter,
    /// Requests that ended, by outcome.
    pub reservations: LabelledMetric<Counter, 1>,
    /// Changes of reservations, by outcome.
    pub changes: LabelledMetric<Counter, 1>,
    /// Requests that failed, by reason.
    pub refusals: LabelledMetric<Counter, 1>,
    /// Reservations ended by users.
    pub releases: Counter,
    /// Reports of activities of workflows.
    pub reports: Counter,
    /// Transactions opened (D1).
    pub attempts: Counter,
    /// Attempts that failed, by the reason of the first refusal.
    pub attempt_refusals: LabelledMetric<Counter, 1>,
    /// Transactions that some RM has not acknowledged yet.
    pub unfinished: Gauge,
    /// Messages to RMs, by RM, kind and outcome.
    pub messages: LabelledMetric<Counter, 3>,
    /// Messages that were sent again, by RM and kind.
    pub retried: LabelledMetric<Counter, 2>,
    /// How long a message took until its answer or its loss, by kind.
    pub message_seconds: LabelledMetric<Histogram, 1>,
    /// Availability queries, by RM and outcome.
    pub queries: LabelledMetric<Counter, 2>,
    /// How long one availability query to one RM took.
    pub query_seconds: Histogram,
    /// How long planning took for all frames of one request.
    pub planning_seconds: Histogram,
    /// Plans found for one request.
    pub plans: Histogram,
    /// Frames planned, by outcome.
    pub frames: LabelledMetric<Counter, 1>,
    /// Requests that are being planned or wait to be planned.
    pub plannings: Gauge,
    /// Outside solvers that did not keep to their time and still run, although nobody waits for them any
    /// more.
    pub libraries_left: Gauge,
    /// Requests that were planned again, because others were faster, or because a search that backtracks was
    /// refused a choice.
    pub replans: Counter,
    /// 1 if the RM answers, else 0, by RM.
    pub reachable: LabelledMetric<Gauge, 1>,
    /// Sites and paths that an RM describes and that belong to another one, by RM.
    pub foreign_names: LabelledMetric<Gauge, 1>,
    /// Age of the latest facts about an RM, in seconds, by RM.
    pub picture_age: LabelledMetric<Seconds, 1>,
    /// Comparisons of bookings with an RM, by RM and outcome.
    pub comparisons: LabelledMetric<Counter, 2>,
    /// Bookings that differ, by RM and kind of difference.
    pub differences: LabelledMetric<Gauge, 2>,
    /// Ends of transactions for which an operator gave up on an RM, by RM.
    pub given_up: LabelledMetric<Counter, 1>,
    /// Changes of what users can do with booked reservations, by how far the use then was.
    pub usages: LabelledMetric<Counter, 1>,
    /// Reservations that are remembered.
    pub remembered: Gauge,
    /// Reservations that were forgotten.
    pub forgotten: Counter,
    /// What an RM has not acknowledged, by RM and kind.
    pub owed: LabelledMetric<Gauge, 2>,
}

pub(super) static GRC: OnceLock<Grc> = OnceLock::new();

/// The metrics of coordinators.
pub fn grc() -> &'static Grc {
    GRC.get_or_init(|| {
        let mut room = MetricGroup::new("grc");
        Grc {
            requests: room.counter("requests", "Requests whose planning has ended"),
            reservations: room.counters(
                ["outcome"],
                "reservations",
                "Requests that ended: confirmed, failed, or mixed (booked in part, then released)",
            ).show([["confirmed"], ["failed"], ["mixed"]]),
            changes: room
                .counters(
                    ["outcome"],
                    "changes",
                    "Changes that ended: done, or refused; also those that were split on the way, \
                     booked at some resource managers and not at others",
                )
                .show([["done"], ["refused"]]),
            refusals: room
                .counters(["reason"], "refusals", "Requests that failed, by reason")
                .show([[Reason::InsufficientCapacity.word()]]),
            releases: room.counter("releases", "Confirmed reservations ended by their users"),
            reports: room.counter("reports", "Reports of what happened to activities of workflows"),
            attempts: room.counter("attempts", "Transactions opened: plans that were tried"),
            attempt_refusals: room.counters(
                ["reason"],
                "attempt_refusals",
                "Transactions aborted, by the reason of the first refusal",
            ).show([[Reason::InsufficientCapacity.word()]]),
            unfinished: room.gauge(
                "transactions_unfinished",
                "Transactions that some resource manager has not acknowledged yet",
            ),
            messages: room.counters(
                ["rm", "kind", "outcome"],
                "messages",
                "Messages to resource managers: answered, lost (sent again), or rejected",
            ),
            retried: room.counters(
                ["rm", "kind"],
                "messages_retried",
                "Messages sent again because the one before got no answer",
            ),
            message_seconds: room.many(
                duration,
                ["kind"],
                "message_seconds",
                "Time from sending a message to a resource manager until its answer or its loss",
            ),
            queries: room.counters(
                ["rm", "outcome"],
                "queries",
                "Availability queries to resource managers: answered or failed",
            ),
            query_seconds: room
                .seconds("query_seconds", "How long one availability query to one RM took"),
            planning_seconds: room.seconds(
                "planning_seconds",
                "How long the planning of all frames of one request took, including the wait for a \
                 thread",
            ),
            plans: room.one(count(), "plans", "Plans found for one request, one per frame"),
            frames: room
                .counters(["outcome"], "frames", "Frames: planned or refused")
                .show([["planned"], ["refused"]]),
            plannings: room
                .gauge(
                    "plannings_in_flight",
                    "Requests that are being planned or wait for planning",
                ),
            libraries_left: room.gauge(
                "libraries_left",
                "Outside solvers that exceeded their time and still run, with nobody waiting for \
                 them; at 4 no outside solver is called",
            ),
            replans: room.counter(
                "replans",
                "Requests planned again, because others were faster or a search backtracked to \
                 another choice",
            ),
            reachable: room
                .gauges(["rm"], "rm_reachable", "1 when the resource manager answers, else 0"),
            foreign_names: room.gauges(
                ["rm"],
                "foreign_names",
                "Sites and paths that the resource manager describes and that belong to another \
                 one; they are ignored",
            ),
            picture_age: room.many(
                Seconds::default,
                ["rm"],
                "picture_age_seconds",
                "How long ago the resource manager last reported what is free",
            ),
            comparisons: room.counters(
                ["rm", "outcome"],
                "comparisons",
                "Comparisons with the bookings of the resource manager: equal, differ, or failed",
            ),
            differences: room.gauges(
                ["rm", "kind"],
                "differences",
                "Bookings of the resource manager that differ from what this coordinator counts \
                 on, by kind",
            ),
            remembered: room.gauge(
                "reservations_remembered",
                "Reservations that the coordinator remembers: live ones, and those that ended within \
                 the retention",
            ),
            forgotten: room.counter(
                "forgotten",
                "Reservations forgotten: they ended longer ago than the retention",
            ),
            given_up: room.counters(
                ["rm"],
                "given_up",
                "Ends of transactions for which an operator has given up on the resource manager",
            ),
            usages: room.counters(
                ["usage"],
                "usages",
                "Changes of what the user of a booked reservation can do with it: ahead, active, over",
            ),
            owed: room.gauges(
                ["rm", "kind"],
                "owed",
                "What the resource manager has not acknowledged: decisions that somebody waits \
                 for, or releases that nobody waits for",
            ),
            room,
        }
    })
}
