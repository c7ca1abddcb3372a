//! Workflows that are revised while they run: random lives of random workflows, verified step by step apart from
//! the code that revises, and the cases that a person would try first.

use std::collections::{BTreeMap, BTreeSet};

use coalloc_common::workflow::{
    ActivityEvent, ActivityReport, Channel, Progress, ReportedProgress, Work, Workflow,
    WorkflowGraph,
};
use coalloc_common::{
    BitsPerSecond, Reason, ResourceId, RmName, Segment, Time, VertexName, Window,
};
use coalloc_plan::workflow::check::{verify_amounts, verify_revised};
use coalloc_plan::workflow::revise::{BookedWorkflow, Revision, RevisionError, RevisionOrder};
use coalloc_plan::workflow::{
    KeptPart, RefusedSegment, Schedule, ScratchTimetables, SetSearch, WorkflowInstance,
    WorkflowPlanner, WorkflowRefusal,
};
use coalloc_plan::{Named, WorkflowPlannerName};
use rand::seq::IndexedRandom;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

use crate::fixtures::AMPLE;
use crate::fixtures::workflow::{
    CaseSize, SmallCase, activity, in_slots, item, mesh, slots, small_case, t, workflow,
};

const SIZE: CaseSize = CaseSize { sites: 4, activities: 7, members: 3, slots: 60 };
/// Slots between the present and the first instant that a revision may change.
const LEAD: i64 = 1;

type Segments = BTreeMap<RmName, Vec<Segment>>;

/// A workflow that is booked, and what has become of it.
#[derive(Clone)]
struct Life {
    workflow: Workflow,
    schedule: Schedule,
    past: Segments,
    reports: Vec<ActivityReport>,
}

impl Life {
    fn begin(case: &SmallCase, planner: &dyn WorkflowPlanner) -> Option<Self> {
        let answer = planner.plan(&case.instance(), &mut case.free.clone(), &AMPLE);
        let workflow = case.workflow.clone();
        let schedule = answer.outcome.ok()?;
        Some(Self { workflow, schedule, past: Segments::new(), reports: Vec::new() })
    }

    fn reported(&self) -> Vec<ReportedProgress> {
        let of = |index: usize| {
            let name = &self.workflow.activities[index].name;
            let own = self.reports.iter().filter(|report| report.activity == *name);
            ReportedProgress::of(own, self.schedule.activities[index].window)
        };
        (0..self.workflow.activities.len()).map(of).collect()
    }

    fn report(&mut self, activity: usize, event: ActivityEvent, at: i64) {
        let activity = self.workflow.activities[activity].name.clone();
        let excluded = BTreeSet::new();
        self.reports.push(ActivityReport { activity, event, at: t(at), excluded });
    }

    /// All that the version takes, added up over time.
    fn segments(&self, case: &SmallCase) -> Segments {
        let mut all = self.schedule.segments(&case.topology, &self.workflow);
        for (rm, segments) in &self.past {
            all.entry(rm.clone()).or_default().extend(segments.iter().cloned());
        }
        all
    }

    /// What is free for others while this version is booked.
    fn taken(&self, case: &SmallCase) -> ScratchTimetables {
        let mut scratch = case.free.clone();
        for (rm, segments) in &self.segments(case) {
            scratch.book(rm, segments).expect("a version that is booked fits");
        }
        scratch
    }

    fn revise(
        &self,
        case: &SmallCase,
        planner: &dyn WorkflowPlanner,
        order: &RevisionOrder,
    ) -> Result<Result<(Revision, Schedule), Box<WorkflowRefusal>>, RevisionError> {
        let reported = self.reported();
        let booked =
            BookedWorkflow { schedule: &self.schedule, past: &self.past, reported: &reported };
        let instance = WorkflowInstance { workflow: &self.workflow, ..case.instance() };
        let revision = Revision::new(&instance, &booked, order)?;
        let mut scratch = self.taken(case);
        let known = t(10 * SIZE.slots);
        let answer = revision.plan(planner, &instance, &mut scratch, known, &AMPLE);
        Ok(answer.outcome.map(|schedule| (revision, schedule)))
    }
}

fn order(now: i64) -> RevisionOrder {
    RevisionOrder {
        now: t(now),
        cut: t(now + LEAD),
        excluded: BTreeSet::new(),
        excluded_of: BTreeMap::new(),
        again: BTreeSet::new(),
    }
}

/// What is taken of a resource at an instant.
fn taken_at(segments: &Segments, rm: &RmName, resource: &ResourceId, at: Time) -> u64 {
    let all = segments.get(rm).into_iter().flatten();
    let here = all.filter(|one| {
        one.resource == *resource && one.window.start() <= at && at < one.window.end()
    });
    here.map(|one| one.amount.0).sum()
}

/// Checks a new version against the one before it, from the rules alone.
fn verify_version(case: &SmallCase, old: &Life, new: &Life, order: &RevisionOrder) {
    let reported = old.reported();
    let (now, cut) = (order.now, order.cut);
    let ended: BTreeSet<usize> =
        (0..reported.len()).filter(|index| reported[*index].end().is_some()).collect();
    let ended_before =
        |index: &usize| new.schedule.activities[*index] == old.schedule.activities[*index];
    let shorter = (0..reported.len()).filter(ended_before).chain(ended.iter().copied()).collect();
    let verified = verify_revised(&case.topology, &new.workflow, &new.schedule, &shorter);
    assert_eq!(verified, Ok(()), "{:?}\n{:?}\n{:?}", new.schedule, old.schedule, old.reports);
    let (before, after) = (old.segments(case), new.segments(case));
    assert_eq!(verify_amounts(&after, &case.free), Ok(()));
    for (_, rm, resource) in case.free.resources() {
        for slot in 0..10 * SIZE.slots {
            if t(slot) < cut {
                let was = taken_at(&before, rm, resource, t(slot));
                let is = taken_at(&after, rm, resource, t(slot));
                assert!(is == was || (t(slot) >= now && is > was), "the past stays");
            }
        }
    }
    for (index, reported) in reported.iter().enumerate() {
        let (was, is) = (old.schedule.activities[index], new.schedule.activities[index]);
        let moved = (was.site, was.window.start()) != (is.site, is.window.start());
        assert!(!moved || is.window.start() >= cut, "nothing begins in the past");
        let progress = reported.progress(was.window, now);
        match progress {
            Progress::Failed => assert!(is.window.start() >= cut, "what has failed runs again"),
            Progress::Running | Progress::Finished if reported.has_begun() => {
                let set = &case.graph.nodes[case.graph.node_of[index]].members;
                // A set runs again as a whole when one of its activities has failed.
                if set.iter().any(|one| old.reported()[*one].failed.is_some()) {
                    continue;
                }
                assert!(!moved, "what runs stays: {was:?} {is:?}");
                let asked = set.iter().any(|one| old.reported()[*one].end().is_some());
                assert!(asked || was == is, "what nobody says stays");
                let alone = set.len() == 1 && was.window.end() > cut;
                if let Some(end) = reported.end().filter(|_| alone) {
                    assert_eq!(is.window.end(), end.max(cut));
                }
            }
            Progress::Waiting | Progress::Running | Progress::Finished => {}
        }
    }
}

/// A random event of an activity that has begun by the clock.
fn event(rng: &mut ChaCha8Rng, window: Window, now: i64) -> ActivityEvent {
    let end = in_slots(window).1;
    match rng.random_range(0..5) {
        0 => ActivityEvent::Started,
        1 => ActivityEvent::Finished,
        2 => ActivityEvent::Failed,
        _ if end > now => ActivityEvent::NeedsUntil(t(end + rng.random_range(-1..4)).max(t(now))),
        _ => ActivityEvent::Finished,
    }
}

#[test]
fn every_step_of_random_lives_keeps_what_runs_and_all_promises() {
    let mut counts = BTreeMap::<&str, u32>::new();
    for seed in 0..1_200 {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let case = small_case(&mut rng, SIZE);
        let name = WorkflowPlannerName::ALL[seed as usize % WorkflowPlannerName::ALL.len()];
        let planner = name.planner();
        let Some(mut life) = Life::begin(&case, planner.as_ref()) else { continue };
        let mut now = 0;
        for _ in 0..6 {
            now += rng.random_range(1..6);
            let begun = |index: &usize| life.schedule.activities[*index].window.start() <= t(now);
            let all = 0..life.workflow.activities.len();
            let begun: Vec<usize> = all.filter(begun).collect();
            let mut reporting = life.clone();
            if let Some(one) = begun.choose(&mut rng) {
                let window = life.schedule.activities[*one].window;
                reporting.report(*one, event(&mut rng, window, now), now);
            }
            let mut order = order(now);
            if rng.random_range(0..5) == 0 {
                let sites: Vec<VertexName> =
                    case.topology.sites().map(|(_, place, _)| place.name.clone()).collect();
                order.excluded.extend(sites.choose(&mut rng).cloned());
            }
            let outcome = match reporting.revise(&case, planner.as_ref(), &order) {
                Ok(outcome) => outcome,
                Err(_) => {
                    *counts.entry("contradiction").or_default() += 1;
                    continue;
                }
            };
            // A report is a fact, whether a new version comes of it or not.
            life.reports.clone_from(&reporting.reports);
            let (revision, schedule) = match outcome {
                Ok(version) => version,
                Err(refused) => {
                    let deadline = life.workflow.deadline;
                    let missed = refused.earliest_finish.is_none_or(|end| end > deadline);
                    assert!(missed, "seed {seed}: {refused:?}");
                    *counts.entry("refused").or_default() += 1;
                    continue;
                }
            };
            if revision.is_empty() {
                assert_eq!(schedule, life.schedule, "seed {seed}: nothing changes");
                *counts.entry("nothing").or_default() += 1;
            }
            let (workflow, past) = (revision.workflow.clone(), revision.past.clone());
            let new = Life { workflow, schedule, past, reports: life.reports.clone() };
            verify_version(&case, &life, &new, &order);
            let kind = if revision.moved().next().is_some() { "moved" } else { "stayed" };
            *counts.entry(kind).or_default() += 1;
            life = new;
        }
    }
    for (kind, least) in [("moved", 300), ("stayed", 500), ("refused", 50), ("nothing", 300)] {
        let count = counts.get(kind).copied().unwrap_or(0);
        assert!(count >= least, "{kind}: {count} in {counts:?}");
    }
}

/// `read` makes data for `filter` and `show`, which run together; `write` comes after them.
fn pipeline() -> SmallCase {
    let fixed = |s| Work::Fixed(coalloc_common::Span::from_secs(s));
    let activities = [("read", 10), ("filter", 10), ("show", 10), ("write", 5)]
        .map(|(name, s)| activity(name, fixed(s), 1));
    let data = vec![item("raw", 0, &[1, 2], 4, Some(8)), item("out", 1, &[3], 4, Some(8))];
    let mut workflow = workflow(activities.to_vec(), data, 100);
    workflow.sync_sets.push(vec![1, 2]);
    let bandwidth = BitsPerSecond(8);
    workflow.channels.push(Channel { from: 1, to: 2, bandwidth, latency_max: None });
    let topology = mesh(&[(1, 100), (1, 100), (1, 100)], 16);
    let graph = WorkflowGraph::new(&workflow).expect("a workflow");
    let free = ScratchTimetables::new(&topology);
    SmallCase { topology, workflow, graph, free }
}

fn revised(case: &SmallCase, life: &Life, order: &RevisionOrder) -> Life {
    let (revision, schedule) =
        life.revise(case, &SetSearch, order).expect("no contradiction").expect("a version");
    let new = Life {
        workflow: revision.workflow.clone(),
        schedule,
        past: revision.past.clone(),
        reports: life.reports.clone(),
    };
    verify_version(case, life, &new, order);
    new
}

#[test]
fn an_early_end_gives_back_and_moves_nothing() {
    let case = pipeline();
    let mut life = Life::begin(&case, &SetSearch).expect("a plan");
    life.report(0, ActivityEvent::Finished, 3);
    let new = revised(&case, &life, &order(3));
    assert_eq!(in_slots(new.schedule.activities[0].window), (0, 4));
    assert_eq!(new.schedule.activities[1..], life.schedule.activities[1..]);
    assert_eq!(new.schedule.transfers, life.schedule.transfers);
}

#[test]
fn an_overrun_prolongs_and_shifts_what_waits_for_its_data() {
    let case = pipeline();
    let mut life = Life::begin(&case, &SetSearch).expect("a plan");
    life.report(0, ActivityEvent::NeedsUntil(t(17)), 5);
    let new = revised(&case, &life, &order(5));
    assert_eq!(in_slots(new.schedule.activities[0].window), (0, 17));
    for (old, new) in life.schedule.activities.iter().zip(&new.schedule.activities).skip(1) {
        assert_eq!(new.window.start().since(old.window.start()).as_us(), 7_000_000);
    }
    // The deadline is at slot 100: the chain behind `read` takes 29 slots at least.
    life.report(0, ActivityEvent::NeedsUntil(t(90)), 6);
    let refused = life.revise(&case, &SetSearch, &order(6)).unwrap().unwrap_err();
    let late = refused.earliest_finish.expect("it could end later").since(t(100));
    assert!(late.as_us() > 0);
    assert!(
        refused.refusal.detail.contains(&format!("would be missed by {late}")),
        "{}",
        refused.refusal
    );
}

/// Found by the fault worlds of the simulator, seed 616 of generator 6.
#[test]
fn an_end_after_the_window_shifts_what_waits_for_its_data() {
    let case = pipeline();
    let mut life = Life::begin(&case, &SetSearch).expect("a plan");
    let end = in_slots(life.schedule.activities[0].window).1;
    life.report(0, ActivityEvent::Finished, end + 4);
    let new = revised(&case, &life, &order(end + 5));
    assert_eq!(new.schedule.activities[0], life.schedule.activities[0], "what is over stays");
    for placed in &new.schedule.activities[1..] {
        assert!(placed.window.start() >= t(end + 5 + LEAD), "{placed:?}");
    }
    let begun = in_slots(life.schedule.activities[1].window).0;
    life.report(1, ActivityEvent::Started, begun);
    let order = order(begun.max(end + 5));
    let error = life.revise(&case, &SetSearch, &order).expect_err("it had no data");
    assert!(matches!(error, RevisionError::BegunWithoutData { .. }), "{error}");
}

#[test]
fn a_set_ends_with_the_last_of_its_activities() {
    let case = pipeline();
    let mut life = Life::begin(&case, &SetSearch).expect("a plan");
    let (start, end) = in_slots(life.schedule.activities[1].window);
    life.report(1, ActivityEvent::Finished, start + 2);
    let same = revised(&case, &life, &order(start + 2));
    assert_eq!(same.schedule, life.schedule, "the other one still runs");
    life.report(2, ActivityEvent::NeedsUntil(t(end + 3)), start + 3);
    let longer = revised(&case, &life, &order(start + 3));
    for member in [1, 2] {
        assert_eq!(in_slots(longer.schedule.activities[member].window), (start, end + 3));
    }
    let mut life = Life { reports: life.reports, ..longer };
    life.report(2, ActivityEvent::Finished, start + 5);
    let shorter = revised(&case, &life, &order(start + 5));
    for member in [1, 2] {
        assert_eq!(in_slots(shorter.schedule.activities[member].window), (start, start + 6));
    }
}

#[test]
fn a_failure_takes_its_whole_set_and_all_descendants_elsewhere() {
    let case = pipeline();
    let mut life = Life::begin(&case, &SetSearch).expect("a plan");
    let start = in_slots(life.schedule.activities[1].window).0;
    life.report(1, ActivityEvent::Failed, start + 4);
    let site = life.schedule.activities[1].site;
    let name = case.topology.vertex(site).name.clone();
    let mut order = order(start + 4);
    order.excluded_of.insert(1, [name].into());
    let new = revised(&case, &life, &order);
    assert_ne!(new.schedule.activities[1].site, site);
    for member in [1, 2, 3] {
        assert!(new.schedule.activities[member].window.start() >= t(start + 4 + LEAD));
    }
    assert_eq!(new.schedule.activities[0], life.schedule.activities[0], "it has ended");
    // What was taken until the failure stays taken, and a second revision keeps it.
    assert!(!new.past.is_empty());
    let again = revised(&case, &new, &super::revise::order(start + 6));
    assert_eq!((&again.schedule, &again.past), (&new.schedule, &new.past));
}

#[test]
fn a_site_is_avoided_by_all_that_has_not_begun() {
    let case = pipeline();
    let life = Life::begin(&case, &SetSearch).expect("a plan");
    let site = life.schedule.activities[3].site;
    let name = case.topology.vertex(site).name.clone();
    let mut order = order(2);
    order.excluded.insert(name.clone());
    let new = revised(&case, &life, &order);
    assert!(new.schedule.activities[1..].iter().all(|placed| placed.site != site));
    assert_eq!(new.schedule.activities[0], life.schedule.activities[0], "it runs");
    assert!(new.workflow.activities[1..].iter().all(|one| one.excluded.contains(&name)));
    // Two of three sites are left for a set of two; with one more avoided there is no room.
    let other = case.topology.sites().map(|(_, place, _)| place.name.clone());
    order.excluded.extend(other.filter(|other| *other != name).take(1));
    let refused = life.revise(&case, &SetSearch, &order).unwrap().unwrap_err();
    assert!(refused.refusal.reason != Reason::BudgetExhausted, "{refused:?}");
}

#[test]
fn contradictions_and_what_comes_too_late_are_named() {
    let case = pipeline();
    let mut life = Life::begin(&case, &SetSearch).expect("a plan");
    let mut started = life.clone();
    let start = in_slots(life.schedule.activities[1].window).0;
    started.report(1, ActivityEvent::Started, start);
    started.report(0, ActivityEvent::Failed, start + 1);
    let error = started.revise(&case, &SetSearch, &order(start + 1)).unwrap_err().to_string();
    assert!(error.contains("filter") && error.contains("read"), "{error}");
    life.report(0, ActivityEvent::NeedsUntil(t(17)), 9);
    let prolonged = revised(&case, &life, &order(9));
    assert_eq!(in_slots(prolonged.schedule.activities[0].window), (0, 17), "just in time");
    let error = life.revise(&case, &SetSearch, &order(10)).unwrap_err().to_string();
    assert!(error.contains("read") && error.contains("report that it failed"), "{error}");
}

#[test]
fn what_ranks_before_a_refused_segment_is_planned_again_as_it_was() {
    let (mut kept_some, mut whole) = (0, 0);
    for seed in 0..600 {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let case = small_case(&mut rng, SIZE);
        let instance = case.instance();
        let plan = |kept: Option<&KeptPart>, free: &mut ScratchTimetables| {
            SetSearch.plan(&WorkflowInstance { kept, ..instance }, free, &AMPLE).outcome
        };
        let Ok(schedule) = plan(None, &mut case.free.clone()) else { continue };
        let segments = schedule.segments(&case.topology, &case.workflow);
        let all: Vec<(&RmName, &Segment)> =
            segments.iter().flat_map(|(rm, all)| all.iter().map(move |one| (rm, one))).collect();
        let (rm, segment) = *all.choose(&mut rng).expect("a segment");
        let refused =
            RefusedSegment { rm, resource: Some(&segment.resource), window: Some(segment.window) };
        let Some(kept) = KeptPart::before(&instance, &schedule, refused) else {
            whole += 1;
            continue;
        };
        kept_some += 1;
        let mut free = case.free.clone();
        for (rm, segments) in kept.segments(&instance) {
            free.book(&rm, &segments).expect("it is part of a plan that fits");
        }
        // Nothing has changed: the rest is found as it was.
        let again = plan(Some(&kept), &mut free).expect("a plan");
        let mut sorted = (again.transfers.clone(), schedule.transfers.clone());
        sorted.0.sort_by_key(|one| (one.item, one.to));
        sorted.1.sort_by_key(|one| (one.item, one.to));
        assert_eq!(again.activities, schedule.activities, "seed {seed}");
        assert_eq!(sorted.0, sorted.1, "seed {seed}");
        assert!(all.len() > 1 && slots(0, 1).length() > coalloc_common::Span::ZERO);
        let touched = kept.segments(&instance).into_iter().any(|(of, some)| {
            of == *rm
                && some.iter().any(|one| {
                    one.resource == segment.resource && one.window.overlaps(segment.window)
                })
        });
        assert!(!touched, "seed {seed}: {}", WorkflowPlannerName::ALL[0].name());
    }
    assert!(kept_some > 100 && whole > 50, "{kept_some} kept some, {whole} nothing");
}
