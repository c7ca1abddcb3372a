//! What is measured of a run: rejections and why, utilisation, the lengths of schedules, and effort.
//!
//! Workflows of the warm-up are not measured, but what they have booked counts as taken. The utilisation is over the
//! *measured time*: from the arrival of the first measured workflow to the last arrival. Whatever is booked
//! outside that time is cut off. Links do not count (Decker 2007, section V-B).
//!
//! The schedule length ratio (SLR, section V-C) is the makespan over the critical path with mean durations
//! and transfers. The text does not say where the makespan begins: `slr` counts from the first start,
//! `slr_from_ready` from the time when the workflow is ready. Both are means over accepted workflows.

use std::collections::BTreeMap;

use coalloc_common::{Time, Topology, Window};

use super::world::{BookedCpus, Rejection, WorkflowOutcome, WorkflowRecord, machines};
use crate::experiment::Measures;

/// Every metric of the model, with its description.
pub const METRICS: &[(&str, &str)] = &[
    ("workflows", "workflows that are measured"),
    ("accepted", "measured workflows that were accepted"),
    ("rejection", "share of workflows that were rejected"),
    ("rejected_deadline", "share rejected: even on empty machines too late for the deadline"),
    ("rejected_single", "share rejected: a single activity cannot end by the deadline"),
    ("rejected_set", "share rejected: no machines are free together for a synchronous set"),
    ("rejected_network", "share rejected: no link is free for a channel or the data of a set"),
    ("rejected_budget", "share rejected: the planner used up its placements"),
    ("rejected_other", "share rejected for any other reason"),
    ("rejection_by_synchronous", "share rejected, over the number of synchronous activities"),
    ("offered_load", "work that arrived in the measured time, at mean speed, over all CPU time"),
    ("accepted_per_slot", "workflows that were accepted in a slot of the measured time"),
    (
        "utilisation",
        "share of CPU time that is booked, from the first measured to the last arrival",
    ),
    ("working", "share of booked CPU time in which the work itself runs: no rounding, no waiting"),
    ("slr", "makespan from the first start over the mean critical path, mean"),
    ("slr_from_ready", "makespan from the ready time over the mean critical path, mean"),
    ("slr_sd", "standard deviation of the makespan from the first start over the critical path"),
    ("critical_path_slots", "mean critical path, slots"),
    ("placements", "placements that were tried for a workflow, mean"),
    ("frames", "windows of synchronous sets that were tried for a workflow, mean"),
    ("placements_accepted", "placements that were tried for an accepted workflow, mean"),
    ("frames_accepted", "windows of sets that were tried for an accepted workflow, mean"),
    (
        "frames_per_set",
        "windows that were tried for a synchronous set of an accepted workflow, mean",
    ),
    ("activities", "activities of a workflow, mean"),
    ("dependencies", "dependencies of a workflow, mean"),
    ("synchronous", "activities in synchronous sets of a workflow, mean"),
    ("channels", "channels of a workflow, mean"),
];

/// The metrics that are curves.
pub const CURVES: &[&str] = &["rejection_by_synchronous"];

/// Ratios are summed in parts of this.
const PARTS: i128 = 1_000_000;

/// Sums over accepted workflows.
#[derive(Debug, Default)]
struct AcceptedSums {
    count: u64,
    slr: i128,
    slr_squares: i128,
    slr_from_ready: i128,
    placements: u64,
    frames: u64,
    sets: u64,
}

/// The measures of a run.
pub(super) fn measures(topology: &Topology, record: &WorkflowRecord) -> Measures {
    let mut measures = Measures::new();
    let measured = record.workflows.get(record.warm_up..).unwrap_or_default();
    let count = measured.len() as u64;
    measures.put("workflows", count as f64);
    put_workload(&mut measures, measured, count);
    put_rejections(&mut measures, measured, count);
    put_accepted(&mut measures, measured);
    let sum = |of: fn(&WorkflowOutcome) -> u64| measured.iter().map(of).sum::<u64>();
    measures.put_share("placements", sum(|one| one.effort.placements), count);
    measures.put_share("frames", sum(|one| one.effort.frames), count);
    let time = measured.first().zip(measured.last());
    if let Some(time) = time.and_then(|(first, last)| Window::new(first.at, last.at)) {
        put_use(&mut measures, topology, record, measured, time);
    }
    measures
}

/// Puts what describes the workflows, whoever plans them.
fn put_workload(measures: &mut Measures, measured: &[WorkflowOutcome], count: u64) {
    let mut put = |name: &str, of: fn(&WorkflowOutcome) -> u64| {
        measures.put_share(name, measured.iter().map(of).sum(), count);
    };
    put("activities", |one| one.activities);
    put("dependencies", |one| one.dependencies);
    put("synchronous", |one| one.synchronous);
    put("channels", |one| one.channels);
    let us: i128 = measured.iter().map(|one| i128::from(one.critical_path.as_us())).sum();
    let slot_us = super::generator::SLOT.as_us();
    measures.put("critical_path_slots", us as f64 / slot_us as f64 / count as f64);
}

fn put_rejections(measures: &mut Measures, measured: &[WorkflowOutcome], count: u64) {
    let mut by_reason: BTreeMap<Rejection, u64> = BTreeMap::new();
    let mut by_synchronous: BTreeMap<u64, (u64, u64)> = BTreeMap::new();
    for one in measured {
        let (rejected, all) = by_synchronous.entry(one.synchronous).or_default();
        *all += 1;
        if let Err(rejection) = one.outcome {
            *rejected += 1;
            *by_reason.entry(rejection).or_default() += 1;
        }
    }
    let rejected: u64 = by_reason.values().sum();
    measures.put("accepted", (count - rejected) as f64);
    measures.put_share("rejection", rejected, count);
    for rejection in Rejection::ALL {
        let name = format!("rejected_{}", rejection.word());
        measures.put_share(&name, by_reason.get(&rejection).copied().unwrap_or(0), count);
    }
    for (synchronous, (rejected, all)) in by_synchronous {
        let share = rejected as f64 / all as f64;
        measures.put_at("rejection_by_synchronous", synchronous as f64, share);
    }
}

fn put_accepted(measures: &mut Measures, measured: &[WorkflowOutcome]) {
    let mut sums = AcceptedSums::default();
    for one in measured {
        let Ok(accepted) = one.outcome else { continue };
        // A critical path lasts a microsecond at least: loads are positive.
        let path = i128::from(one.critical_path.as_us().max(1));
        let ratio = |from: Time| i128::from(accepted.end.since(from).as_us()) * PARTS / path;
        let slr = ratio(accepted.start);
        sums.count += 1;
        sums.slr += slr;
        sums.slr_squares += slr * slr;
        sums.slr_from_ready += ratio(one.ready);
        sums.placements += one.effort.placements;
        sums.frames += one.effort.frames;
        sums.sets += one.sets;
    }
    let (count, parts) = (sums.count as f64, PARTS as f64);
    let mean = sums.slr as f64 / count / parts;
    measures.put("slr", mean);
    measures.put("slr_from_ready", sums.slr_from_ready as f64 / count / parts);
    let squares = sums.slr_squares as f64 / count / parts / parts;
    measures.put("slr_sd", (squares - mean * mean).max(0.0).sqrt());
    measures.put_share("placements_accepted", sums.placements, sums.count);
    measures.put_share("frames_accepted", sums.frames, sums.count);
    measures.put_share("frames_per_set", sums.frames, sums.sets);
}

/// Puts what was offered and booked in the measured time.
fn put_use(
    measures: &mut Measures,
    topology: &Topology,
    record: &WorkflowRecord,
    measured: &[WorkflowOutcome],
    time: Window,
) {
    let (cpus, mips) = machines(topology);
    let machines = topology.sites().count() as f64;
    let all_us = cpus as f64 * time.length().as_us() as f64;
    let offered: u128 = measured.iter().map(|one| one.cpu_mi).sum();
    let mean_mips = mips as f64 / machines;
    let accepted = measured.iter().filter(|one| one.outcome.is_ok()).count() as f64;
    let slots = time.length().as_us() as f64 / super::generator::SLOT.as_us() as f64;
    measures.put("accepted_per_slot", accepted / slots);
    measures.put("offered_load", offered as f64 * 1e6 / mean_mips / all_us);
    let cut = |booked: &BookedCpus| {
        let (start, end) =
            (booked.window.start().max(time.start()), booked.window.end().min(time.end()));
        let inside = Window::new(start, end).map_or(0, |window| window.length().as_us());
        i128::from(booked.cpus) * i128::from(inside)
    };
    let taken: i128 = record.booked.iter().map(cut).sum();
    measures.put("utilisation", taken as f64 / all_us);
    let working: u128 = record.booked.iter().map(|booked| booked.working_us).sum();
    let booked = record.booked.iter().map(|booked| {
        u128::from(booked.cpus) * u128::from(booked.window.length().as_us().unsigned_abs())
    });
    measures.put("working", working as f64 / booked.sum::<u128>() as f64);
}
