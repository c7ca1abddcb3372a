//! The planners of workflows: HEFT's ten tasks, the example of Decker 2007, Fig. 2, and random cases that
//! are verified apart from the planners.

use coalloc_common::workflow::{Channel, DataSource, Work, WorkflowGraph};
use coalloc_common::{Amount, BitsPerSecond, Reason, Segment, Span};
use coalloc_plan::workflow::check::verify;
use coalloc_plan::workflow::rank::{Ranks, least_length};
use coalloc_plan::workflow::{
    HeftSync, PrintedBacktracking, Schedule, ScratchTimetables, SetSearch, WorkflowAnswer,
    WorkflowInstance, WorkflowOptions, WorkflowPlanner, WorkflowRefusal,
};
use coalloc_plan::{Named, WorkflowPlannerName};
use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;

use crate::fixtures::AMPLE;
use crate::fixtures::workflow::{
    CaseSize, SmallCase, activity, heft_ten_tasks, in_slots, item, mesh, slots, small_case,
    small_set_case, t, v, workflow,
};

const SMALL: CaseSize = CaseSize { sites: 4, activities: 6, members: 3, slots: 30 };

/// Plans, checks that the timetables are left as they were, and verifies a schedule.
fn plan(case: &SmallCase, planner: &dyn WorkflowPlanner) -> WorkflowAnswer {
    let mut scratch = case.free.clone();
    let answer = planner.plan(&case.instance(), &mut scratch, &AMPLE);
    assert_eq!(scratch.mark(), 0);
    for (number, _, _) in case.free.resources() {
        assert_eq!(scratch.table(number), case.free.table(number), "it is left as it was");
    }
    if let Ok(schedule) = &answer.outcome {
        let verified = verify(&case.topology, &case.workflow, &case.free, schedule);
        assert_eq!(verified, Ok(()), "{}: {:?}\n{schedule:?}", planner.name(), case.workflow);
    }
    answer
}

fn case(
    topology: coalloc_common::Topology,
    workflow: coalloc_common::workflow::Workflow,
) -> SmallCase {
    let graph = WorkflowGraph::new(&workflow).expect("a workflow");
    let free = ScratchTimetables::new(&topology);
    SmallCase { topology, workflow, graph, free }
}

#[test]
fn hefts_ten_tasks_have_the_printed_ranks_and_makespan() {
    let (topology, workflow) = heft_ten_tasks();
    let case = case(topology, workflow);
    let ranks = Ranks::new(&case.instance());
    let printed = [108_000, 77_000, 80_000, 80_000, 69_000, 63_333, 42_667, 35_667, 44_333, 14_667];
    let rounded: Vec<u128> = ranks.ns.iter().map(|ns| (ns + 500_000) / 1_000_000).collect();
    assert_eq!(rounded, printed);
    for name in WorkflowPlannerName::ALL {
        let schedule = plan(&case, name.planner().as_ref()).outcome.expect("a schedule");
        assert_eq!(schedule.makespan_from(t(0)), Span::from_secs(80), "{}", name.name());
        assert_eq!(schedule.activities[0].site, v(2));
        assert_eq!(in_slots(schedule.activities[9].window), (73, 80));
    }
}

/// Four activities on three sites, of which the first two are synchronous with a channel between them.
fn figure_2() -> SmallCase {
    let work = |mi| Work::Load { mi };
    let activities = [("a1", 400, 2), ("a2", 300, 2), ("a3", 200, 1), ("a4", 200, 1)]
        .map(|(name, mi, cpus)| activity(name, work(mi), cpus));
    let data = vec![item("d13", 0, &[2], 2, Some(8)), item("d24", 1, &[3], 3, Some(8))];
    let mut workflow = workflow(activities.to_vec(), data, 20);
    workflow.sync_sets.push(vec![0, 1]);
    let bandwidth = BitsPerSecond(8);
    workflow.channels.push(Channel { from: 1, to: 0, bandwidth, latency_max: None });
    case(mesh(&[(2, 100), (2, 100), (1, 200)], 16), workflow)
}

#[test]
fn the_example_of_figure_2_is_placed_with_its_channel_and_its_data() {
    let case = figure_2();
    for name in WorkflowPlannerName::ALL {
        let schedule = plan(&case, name.planner().as_ref()).outcome.expect("a schedule");
        let Schedule { activities, transfers, channels } = &schedule;
        let sites: Vec<u32> = activities[..2].iter().map(|placed| placed.site.0).collect();
        assert_eq!(sites, [0, 1], "each of the two takes a whole site");
        assert!(activities[..2].iter().all(|placed| in_slots(placed.window) == (0, 4)));
        assert_eq!(channels[0].len(), 1);
        assert!(transfers.iter().all(|one| in_slots(one.window).0 >= 4));
    }
}

#[test]
fn a_check_refuses_what_a_planner_must_not_do() {
    let case = figure_2();
    let good = plan(&case, &HeftSync::printed()).outcome.expect("a schedule");
    let spoilt: [(&str, fn(&mut Schedule)); 6] = [
        ("different times", |s| s.activities[1].window = slots(1, 5)),
        ("route ends", |s| s.channels[0].clear()),
        ("starts before", |s| s.activities[2].window = slots(3, 5)),
        ("cannot run", |s| s.activities[0].window = slots(0, 3)),
        ("cpus taken at", |s| {
            s.activities[1].site = s.activities[0].site;
            s.channels[0].clear();
            s.activities[3].window = slots(18, 20);
            s.transfers.retain(|one| one.item != 1);
            s.activities[3].site = s.activities[0].site;
        }),
        ("does not travel", |s| {
            s.transfers.clear();
            s.activities[2].site = v(2);
            s.activities[2].window = slots(18, 19);
        }),
    ];
    for (what, spoil) in spoilt {
        let mut bad = good.clone();
        spoil(&mut bad);
        let error = verify(&case.topology, &case.workflow, &case.free, &bad).expect_err(what);
        let error = error.replace("of cpus", "cpus");
        assert!(error.contains(what), "{what}: {error}");
    }
}

#[test]
fn only_along_time_goes_on_when_the_first_window_has_no_route() {
    let mut case = figure_2();
    let book = |case: &mut SmallCase, window| {
        let edge = case.topology.edges().iter().find(|edge| edge.name.as_str() == "P0-P1");
        let edge = edge.expect("the edge");
        let resource = edge.resource(coalloc_common::topology::Direction::AToB).clone();
        let segment = Segment { resource, amount: Amount(16), window };
        case.free.book(&edge.rm.clone(), &[segment]).expect("it is free");
    };
    book(&mut case, slots(2, 6));
    // The way over the third site is closed too.
    case.workflow.channels[0].latency_max = Some(Span::ZERO);
    let options = WorkflowOptions { route_edges_max: 1, ..WorkflowOptions::default() };
    let instance = WorkflowInstance { options, ..case.instance() };
    let mut scratch = case.free.clone();
    let printed = HeftSync::printed().plan(&instance, &mut scratch, &AMPLE).outcome;
    let refused = printed.expect_err("its one window has no route");
    assert_eq!(refused.refusal.reason, Reason::NoRoute);
    assert_eq!(refused.activities, [0, 1]);
    let along = HeftSync::along().plan(&instance, &mut scratch, &AMPLE).outcome;
    assert_eq!(in_slots(along.expect("later").activities[0].window), (6, 10));
}

#[test]
fn what_can_never_be_is_refused_with_what_it_needs() {
    let (topology, workflow) = heft_ten_tasks();
    let mut late = case(topology, workflow);
    assert_eq!(least_length(&late.instance()), Ok(Span::from_secs(9 + 13 + 12 + 7)));
    late.workflow.deadline = t(40);
    let refused = plan(&late, &HeftSync::along()).outcome.expect_err("too short");
    assert_eq!(refused.earliest_finish, Some(t(41)));
    assert!(refused.refusal.detail.contains("critical path takes 41 s"), "{}", refused.refusal);

    late.workflow.deadline = t(60);
    let refused = plan(&late, &HeftSync::along()).outcome.expect_err("HEFT needs 80");
    assert!(refused.earliest_finish > Some(t(60)), "{refused:?}");

    late.workflow.activities[4].cpus = coalloc_common::Cpus(2);
    let refused = plan(&late, &HeftSync::along()).outcome.expect_err("no site has two CPUs");
    assert_eq!((refused.activities, refused.refusal.reason), (vec![4], Reason::BeyondCapacity));
}

#[test]
fn every_planner_keeps_all_promises_on_random_cases() {
    let mut planned = [0; 8];
    for seed in 0..1_500 {
        let case = small_case(&mut ChaCha8Rng::seed_from_u64(seed), SMALL);
        for (name, planned) in WorkflowPlannerName::ALL.iter().zip(&mut planned) {
            *planned += i32::from(plan(&case, name.planner().as_ref()).outcome.is_ok());
        }
    }
    for (name, planned) in WorkflowPlannerName::ALL.iter().zip(planned) {
        assert!((500..1_500).contains(&planned), "{}: {planned} of 1,500", name.name());
    }
}

/// The set of a case is placed alike, or refused alike, as long as nothing before it depends on routes.
#[test]
fn backtracking_without_its_exponent_places_sets_as_printed() {
    let (mut placed, mut refused) = (0, 0);
    for seed in 0..4_000 {
        let case = small_case(&mut ChaCha8Rng::seed_from_u64(seed), SMALL);
        let Some(set) = case.graph.nodes.iter().position(|node| node.is_set()) else { continue };
        let options = WorkflowOptions { discrepancies: 0, ..WorkflowOptions::default() };
        let instance = WorkflowInstance { options, ..case.instance() };
        let order = Ranks::new(&instance).order;
        let before = order.iter().take_while(|node| **node != set).chain([&set]);
        let activities: Vec<usize> =
            before.flat_map(|node| case.graph.nodes[*node].members.clone()).collect();
        let outcome = |planner: &dyn WorkflowPlanner| {
            planner.plan(&instance, &mut case.free.clone(), &AMPLE).outcome
        };
        let printed = outcome(&PrintedBacktracking);
        let ours = outcome(&SetSearch);
        let at_set = |refusal: &WorkflowRefusal| {
            refusal.activities.contains(&case.graph.nodes[set].members[0])
        };
        match (printed, ours) {
            (Ok(printed), Ok(ours)) => {
                for activity in activities {
                    assert_eq!(
                        printed.activities[activity], ours.activities[activity],
                        "seed {seed}, activity {activity}: {:?}",
                        case.workflow
                    );
                }
                placed += 1;
            }
            (Err(printed), Err(ours)) => {
                assert_eq!(at_set(&printed), at_set(&ours), "seed {seed}");
                refused += i32::from(at_set(&ours));
            }
            // A node after the set may fail for the sake of a route.
            (Err(one), Ok(_)) | (Ok(_), Err(one)) => assert!(!at_set(&one), "seed {seed}: {one:?}"),
        }
    }
    assert!(placed > 1_000 && refused > 100, "{placed} placed, {refused} refused at the set");
}

/// The least end of a case with one set and nothing else: every start, every placement, and data in
/// their order, on plain arrays. Each pair of sites has one edge, every item lies at a site and has a rate.
fn least_end(case: &SmallCase, last: i64) -> Option<i64> {
    let topology = &case.topology;
    let members = &case.graph.nodes[0].members;
    let sites: Vec<_> = topology.sites().map(|(vertex, place, _)| (vertex, place)).collect();
    let edge_between = |a, b| {
        topology
            .edges()
            .iter()
            .position(|edge| (edge.a, edge.b) == (a, b) || (edge.b, edge.a) == (a, b))
    };
    let free = |rm: &coalloc_common::RmName, resource: &coalloc_common::ResourceId, from, to| {
        let number = case.free.find(rm, resource).expect("known");
        case.free.free_min(number, slots(from, to)).0
    };
    let edge_free = |edge: usize, from, to| {
        let edge = &topology.edges()[edge];
        free(&edge.rm, edge.resource(coalloc_common::topology::Direction::AToB), from, to)
    };
    let duration = |member: usize, site: usize| {
        let (_, place) = sites[site];
        let mips = place.compute.as_ref().expect("a site").mips;
        let activity = &case.workflow.activities[member];
        let span = activity.work.duration_at(&place.name, mips)?;
        activity.may_run_at(&place.name).then_some((span.as_us() + 999_999) / 1_000_000)
    };
    let placements = sites.len().pow(members.len() as u32);
    let site_of =
        |placement: usize, member: usize| placement / sites.len().pow(member as u32) % sites.len();
    let fits = |placement: usize, start: i64, end: i64| {
        let mut cpus = vec![0; sites.len()];
        let mut rates = vec![0; topology.edges().len()];
        for (at, member) in members.iter().enumerate() {
            let site = site_of(placement, at);
            if duration(*member, site).is_none_or(|duration| duration > end - start) {
                return false;
            }
            cpus[site] += case.workflow.activities[*member].cpus.0;
        }
        for channel in &case.workflow.channels {
            let (a, b) = (site_of(placement, channel.from), site_of(placement, channel.to));
            if a != b {
                let edge = edge_between(sites[a].0, sites[b].0).expect("an edge");
                rates[edge] += channel.bandwidth.0;
            }
        }
        let enough_cpus = cpus.iter().zip(&sites).all(|(cpus, (_, place))| {
            let compute = place.compute.as_ref().expect("a site");
            *cpus <= free(&compute.rm, &compute.resource, start, end)
        });
        let enough_rate = (0..rates.len())
            .all(|edge| rates[edge] == 0 || rates[edge] <= edge_free(edge, start, end));
        if !enough_cpus || !enough_rate {
            return false;
        }
        let mut used = vec![vec![0; last as usize]; rates.len()];
        for item in &case.workflow.data {
            let DataSource::Site(source) = &item.source else { unreachable!("all lie at sites") };
            let source = topology.find_vertex(source).expect("a site");
            let mut to: Vec<usize> =
                item.consumers.iter().map(|member| site_of(placement, *member)).collect();
            to.sort_unstable();
            to.dedup();
            for site in to.into_iter().filter(|site| sites[*site].0 != source && item.bytes > 0) {
                let edge = edge_between(source, sites[site].0).expect("an edge");
                let rate = item.rate.expect("a rate").0;
                let length = (item.bytes * 8).div_ceil(rate) as i64;
                let open = |begin: &i64| {
                    (*begin..begin + length)
                        .all(|at| used[edge][at as usize] + rate <= edge_free(edge, at, at + 1))
                };
                let Some(begin) = (0..=start - length).find(open) else { return false };
                (begin..begin + length).for_each(|at| used[edge][at as usize] += rate);
            }
        }
        true
    };
    (1..=last).find(|end| {
        (0..*end).any(|start| (0..placements).any(|placement| fits(placement, start, *end)))
    })
}

#[test]
fn a_set_ends_as_early_as_exhaustive_search_ends_it() {
    let size = CaseSize { sites: 4, activities: 3, members: 3, slots: 12 };
    let (mut placed, mut refused, mut waited) = (0, 0, 0);
    for seed in 0..3_000 {
        let case = small_set_case(&mut ChaCha8Rng::seed_from_u64(seed), size);
        let least = least_end(&case, size.slots);
        for planner in [&SetSearch as &dyn WorkflowPlanner, &PrintedBacktracking] {
            let options = WorkflowOptions { route_edges_max: 1, discrepancies: 0 };
            let instance = WorkflowInstance { options, ..case.instance() };
            let outcome = planner.plan(&instance, &mut case.free.clone(), &AMPLE).outcome;
            let end = outcome.ok().map(|schedule| in_slots(schedule.activities[0].window).1);
            assert_eq!(end, least, "seed {seed}, {}: {:?}", planner.name(), case.workflow);
        }
        placed += i32::from(least.is_some());
        refused += i32::from(least.is_none());
        waited += i32::from(least.is_some_and(|end| end > 6));
    }
    assert!(placed > 1_000 && refused > 300 && waited > 200, "{placed}, {refused}, {waited}");
}
