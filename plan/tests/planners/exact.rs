//! Solver `exact` of planner `ip`: compared with the enumeration, with results worked out by hand,
//! and at the end of its budget.

use std::sync::atomic::AtomicBool;

use coalloc_common::topology::FrameView;
use coalloc_common::{
    BitsPerSecond, CoAllocation, Cpus, Reason, Topology, VertexIndex, VertexName,
};
use coalloc_plan::ip::brute::Brute;
use coalloc_plan::ip::{Exact, verify};
use coalloc_plan::{Budget, FramePlanner, Instance, Outcome};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

use crate::fixtures::{self, AMPLE, hops, plan};

#[test]
fn exact_costs_what_the_enumeration_costs() {
    const INSTANCES: u64 = 40_000;
    let (mut feasible, mut routeless, mut rerouted) = (0, 0, 0);
    for seed in 0..INSTANCES {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let (topology, request, view) = fixtures::tiny(&mut rng);
        let options = hops(rng.random_range(1..=4));
        let brute = Brute { options }.plan(&Instance::new(&topology, &request, &view), &AMPLE);
        let exact = plan(&topology, &request, &view, options);
        match (brute, exact) {
            (Outcome::Planned(brute), Ok(exact)) => {
                assert_eq!(brute.cost, exact.cost, "seed {seed}");
                feasible += 1;
                // If the cheapest route of every link had fitted, a plan without loads would cost
                // the same.
                let wide = FrameView {
                    free_bps: view.free_bps.iter().map(|free| free.map(widened)).collect(),
                    ..view.clone()
                };
                let free_of_loads = plan(&topology, &request, &wide, options);
                rerouted += u64::from(free_of_loads.is_ok_and(|other| other.cost < exact.cost));
            }
            (Outcome::Refused(_), Err(refusal)) => {
                assert_ne!(refusal.reason, Reason::BudgetExhausted, "seed {seed}");
                routeless += u64::from(refusal.reason == Reason::NoRoute);
            }
            (brute, exact) => panic!("seed {seed}: brute {brute:?}, exact {exact:?}"),
        }
    }
    let share = |count: u64| 100 * count / INSTANCES;
    println!(
        "feasible {} %, no route {} %, dearer for loads {} %",
        share(feasible),
        share(routeless),
        share(rerouted)
    );
    assert!((20..=80).contains(&share(feasible)), "feasible {} %", share(feasible));
    assert!(share(routeless) >= 10, "no route {} %", share(routeless));
    assert!(share(rerouted) >= 3, "dearer for loads {} %", share(rerouted));
}

#[test]
fn exact_decides_who_leaves_a_crowded_edge_as_the_enumeration_does() {
    const INSTANCES: u64 = 3_000;
    let (mut feasible, mut rerouted) = (0, 0);
    for seed in 0..INSTANCES {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let world = if seed % 2 == 0 { fixtures::crowded } else { fixtures::staged };
        let (topology, request, mut view) = world(&mut rng);
        let brute =
            Brute { options: hops(4) }.plan(&Instance::new(&topology, &request, &view), &AMPLE);
        let exact = plan(&topology, &request, &view, hops(4));
        match (brute, exact) {
            (Outcome::Planned(brute), Ok(exact)) => {
                assert_eq!(brute.cost, exact.cost, "seed {seed}");
                feasible += 1;
                view.free_bps.iter_mut().for_each(|free| *free = free.map(widened));
                let wide = plan(&topology, &request, &view, hops(4)).expect("more is free");
                rerouted += u64::from(wide.cost < exact.cost);
            }
            (Outcome::Refused(_), Err(_)) => {}
            (brute, exact) => panic!("seed {seed}: brute {brute:?}, exact {exact:?}"),
        }
    }
    let (feasible, rerouted) = (100 * feasible / INSTANCES, 100 * rerouted / INSTANCES);
    println!("crowded: feasible {feasible} %, dearer for crowding {rerouted} %");
    assert!((20..=80).contains(&feasible) && rerouted >= 20, "{feasible} %, {rerouted} %");
}

#[test]
fn symmetric_requests_cost_what_the_enumeration_costs_with_tables_and_without() {
    const INSTANCES: u64 = 600;
    let mut feasible = 0;
    for seed in 0..INSTANCES {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let (topology, request, view) = fixtures::alike(&mut rng);
        let options = hops(rng.random_range(1..=2));
        let instance = Instance::new(&topology, &request, &view);
        let brute = Brute { options }.plan(&instance, &AMPLE);
        for tables_after in [0, 5, u64::MAX] {
            let exact = Exact { tables_after, ..Exact::new(options) }.plan(&instance, &AMPLE);
            match (&brute, exact) {
                (Outcome::Planned(brute), Outcome::Planned(exact)) => {
                    assert_eq!(brute.cost, exact.cost, "seed {seed}, tables {tables_after}");
                    assert_eq!(verify(&instance, &options, &exact), Ok(()));
                    assert!(exact.is_proven_optimal());
                    feasible += u64::from(tables_after == 0);
                }
                (Outcome::Refused(_), Outcome::Refused(_)) => {}
                (brute, exact) => panic!("seed {seed}: brute {brute:?}, exact {exact:?}"),
            }
        }
    }
    println!("feasible {} %", 100 * feasible / INSTANCES);
    assert!((20..=80).contains(&(100 * feasible / INSTANCES)));
}

/// Prices, fans, rounds and what is put off are for long searches. Here they are used from the first
/// node on.
#[test]
fn what_long_searches_use_costs_what_the_enumeration_costs() {
    let worlds = [fixtures::tiny, fixtures::crowded, fixtures::staged, fixtures::alike];
    let mut counts = [[0u32; 2]; 4];
    for seed in 0..4_000 {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let world = (seed % 4) as usize;
        let (topology, request, view) = worlds[world](&mut rng);
        let options = hops(if world == 3 { 2 } else { rng.random_range(2..=4) });
        let instance = Instance::new(&topology, &request, &view);
        let brute = Brute { options }.plan(&instance, &AMPLE);
        let long = Exact { prices_after: 0, rounds_after: 1, ..Exact::new(options) };
        match (brute, long.plan(&instance, &AMPLE)) {
            (Outcome::Planned(brute), Outcome::Planned(exact)) => {
                assert_eq!(verify(&instance, &options, &exact), Ok(()), "seed {seed}");
                assert_eq!(
                    (exact.cost, exact.lower_bound),
                    (brute.cost, brute.cost),
                    "seed {seed}"
                );
                counts[world][0] += 1;
            }
            (Outcome::Refused(_), Outcome::Refused(refusal)) => {
                assert_ne!(refusal.reason, Reason::BudgetExhausted, "seed {seed}");
                counts[world][1] += 1;
            }
            (brute, exact) => panic!("seed {seed}: brute {brute:?}, exact {exact:?}"),
        }
    }
    println!("planned and refused, by world: {counts:?}");
    assert!(counts.iter().all(|count| count[0] > 50 && count[1] > 50), "{counts:?}");
}

/// The capacity widened so that whatever carried some of the links carries all of them.
fn widened(free: BitsPerSecond) -> BitsPerSecond {
    BitsPerSecond(free.0 * 20)
}

/// Two pinned pairs, r0-r1 and r2-r3, whose cheapest routes share the edge m-n, which has capacity
/// for one of them.
fn rivals(detour: bool) -> (Topology, CoAllocation) {
    let mut topology = Topology::new();
    let names = ["a", "b", "c", "d"];
    let ends: Vec<VertexIndex> = names
        .iter()
        .map(|name| topology.add_vertex(fixtures::site(name, "d", 4, 1)).expect("a site"))
        .collect();
    let [m, n] = ["m", "n"]
        .map(|name| topology.add_vertex(fixtures::exchange(name)).expect("an exchange point"));
    let mut join = |name: &str, a, b, value| {
        topology.add_edge(fixtures::edge(name, a, b, 1_500_000_000, value)).expect("an edge");
    };
    join("a-m", ends[0], m, 1);
    join("n-b", n, ends[1], 1);
    join("c-m", ends[2], m, 1);
    join("n-d", n, ends[3], 1);
    join("m-n", m, n, 1);
    if detour {
        join("a-b", ends[0], ends[1], 10);
        join("c-d", ends[2], ends[3], 7);
    }
    let mut request = fixtures::request(&[1; 4], &[(0, 1), (3, 2)], 1_000_000_000);
    for (site, name) in request.sites.iter_mut().zip(names) {
        site.pinned = Some(VertexName::composed(name));
    }
    (topology, request)
}

#[test]
fn links_that_do_not_fit_together_take_the_cheaper_detour() {
    let (topology, request) = rivals(true);
    let view = FrameView::empty_federation(&topology, fixtures::window());
    let plan = plan(&topology, &request, &view, hops(4)).expect("a plan");
    // 4 for the CPUs, 3 for a-m-n-b and 7 for c-d. The other way round costs 4 + 10 + 3; both by
    // m-n would cost 4 + 6.
    assert_eq!(plan.cost, 14_000);
    assert_eq!((plan.routes[0].len(), plan.routes[1].len()), (3, 1));
}

#[test]
fn opposite_directions_of_a_shared_edge_take_from_one_capacity() {
    let (topology, request) = rivals(false);
    let mut view = FrameView::empty_federation(&topology, fixtures::window());
    let refusal = plan(&topology, &request, &view, hops(4)).expect_err("one capacity");
    assert_eq!(refusal.reason, Reason::NoRoute, "{refusal}");
    for free in &mut view.free_bps {
        *free = [BitsPerSecond(2_000_000_000); 2];
    }
    assert!(plan(&topology, &request, &view, hops(4)).is_ok());
    assert!(plan(&topology, &request, &view, hops(2)).is_err(), "three edges are needed");
}

#[test]
fn the_budget_ends_in_a_true_bound_or_a_refusal() {
    let topology = fixtures::elgl();
    let mut gaps = 0;
    for seed in 0..300 {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let request = fixtures::paper_request(rng.random_range(2..6), &mut rng);
        let view = fixtures::random_loads(&topology, &mut rng);
        let optimum = plan(&topology, &request, &view, hops(4)).map(|plan| plan.cost);
        for nodes in [0, 1, 3, 5, 9, 20] {
            let budget = Budget { nodes, ..AMPLE };
            match Exact::default().plan(&Instance::new(&topology, &request, &view), &budget) {
                Outcome::Planned(plan) => {
                    let optimum = optimum.as_ref().expect("a plan was found");
                    assert_eq!(
                        verify(&Instance::new(&topology, &request, &view), &hops(4), &plan),
                        Ok(())
                    );
                    assert!(plan.lower_bound <= *optimum && *optimum <= plan.cost, "seed {seed}");
                    gaps += u32::from(!plan.is_proven_optimal());
                }
                Outcome::Refused(refusal) if refusal.reason == Reason::BudgetExhausted => {}
                Outcome::Refused(refusal) => assert!(optimum.is_err(), "seed {seed}: {refusal}"),
            }
        }
    }
    assert!(gaps >= 20, "only {gaps} plans with a gap");
}

#[test]
fn one_node_is_not_enough_and_stop_is_obeyed() {
    let topology = fixtures::elgl();
    let request = fixtures::request(&[1; 4], fixtures::SHAPES[5].2, 1_000_000_000);
    let view = FrameView::empty_federation(&topology, fixtures::window());
    let stop = AtomicBool::new(true);
    for budget in [Budget { nodes: 1, ..AMPLE }, Budget { stop: &stop, ..AMPLE }] {
        let outcome = Exact::default().plan(&Instance::new(&topology, &request, &view), &budget);
        let Outcome::Refused(refusal) = outcome else { panic!("{outcome:?}") };
        assert_eq!(refusal.reason, Reason::BudgetExhausted);
        assert!(refusal.detail.contains("stop") == budget.stopped(), "{refusal}");
    }
}

#[test]
fn the_same_input_gets_the_same_plan() {
    let topology = fixtures::elgl();
    let view = FrameView::empty_federation(&topology, fixtures::window());
    for shape in 0..6 {
        let (_, sites, links) = fixtures::SHAPES[shape];
        let request = fixtures::request(&vec![4; sites], links, 1_000_000_000);
        let first = plan(&topology, &request, &view, hops(4)).expect("an empty federation");
        assert_eq!(plan(&topology, &request, &view, hops(4)), Ok(first));
    }
}

#[test]
fn refusals_name_the_reason_and_the_numbers() {
    let topology = fixtures::elgl();
    let empty = FrameView::empty_federation(&topology, fixtures::window());
    let gigabit = 1_000_000_000;
    let refuse = |request: &CoAllocation, view: &FrameView| {
        let refusal = plan(&topology, request, view, hops(4)).expect_err("a refusal");
        println!("{refusal}");
        refusal
    };
    let number = |amount: Option<coalloc_common::Amount>| amount.map(|amount| amount.0);

    let refusal = refuse(&fixtures::request(&[65, 1], &[(0, 1)], gigabit), &empty);
    assert_eq!(refusal.reason, Reason::BeyondCapacity);
    assert_eq!((number(refusal.requested), number(refusal.available)), (Some(65), Some(64)));
    assert!(refusal.detail.contains("65 CPUs") && refusal.detail.contains("N3"), "{refusal}");

    // Only four sites have 32 CPUs or more.
    let refusal = refuse(&fixtures::request(&[32; 5], &[(0, 1)], gigabit), &empty);
    assert_eq!(refusal.reason, Reason::BeyondCapacity);
    assert_eq!((number(refusal.requested), number(refusal.available)), (Some(32), Some(16)));
    assert!(refusal.detail.contains('5') && refusal.detail.contains('4'), "{refusal}");

    let refusal = refuse(&fixtures::request(&[1, 1], &[(0, 1)], 11 * gigabit), &empty);
    assert_eq!(refusal.reason, Reason::BeyondCapacity);
    assert!(refusal.detail.contains("11 Gbit/s") && refusal.detail.contains("10 Gbit/s"));

    let mut busy = empty.clone();
    busy.free_cpus.iter_mut().for_each(|free| *free = Cpus(free.0.min(7)));
    let refusal = refuse(&fixtures::request(&[8, 1], &[(0, 1)], gigabit), &busy);
    assert_eq!(refusal.reason, Reason::InsufficientCapacity);
    assert_eq!((number(refusal.requested), number(refusal.available)), (Some(8), Some(7)));
    assert_eq!(refusal.window, Some(fixtures::window()));
    assert_eq!(refusal.rm, None, "no RM has refused, the planner has");

    let mut full = empty;
    full.free_bps.iter_mut().for_each(|free| *free = [BitsPerSecond(gigabit - 1); 2]);
    let refusal = refuse(&fixtures::request(&[1, 1], &[(0, 1)], gigabit), &full);
    assert_eq!(refusal.reason, Reason::NoRoute);
}

#[test]
fn better_and_better_plans_are_told_and_the_best_so_far_is_there_at_stop() {
    let topology = fixtures::scale::topology();
    let (_, sites, links) = &fixtures::scale::shapes()[0];
    let mut improved = 0;
    for seed in 0..12 {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let request = fixtures::scale::request(*sites, links, &mut rng);
        let view = fixtures::scale::loaded(&topology, 70, &mut rng);
        let instance = Instance::new(&topology, &request, &view);
        let mut told = Vec::new();
        let searched =
            Exact::default().search(&instance, &AMPLE, &mut |cost, at| told.push((cost, at)));
        let Outcome::Planned(best) = &searched.outcome else { panic!("{searched:?}") };
        assert!(best.is_proven_optimal() && searched.nodes <= 50_000, "{} nodes", searched.nodes);
        assert!(told.is_sorted_by(|a, b| a.0 > b.0 && a.1 <= b.1), "{told:?}");
        assert_eq!(told.last().map(|last| last.0), Some(best.cost));
        improved += usize::from(told.len() > 1);

        let again = Exact::default().search(&instance, &AMPLE, &mut |_, _| {});
        assert_eq!(again, searched, "the same plan by the same number of nodes");

        let stop = AtomicBool::new(false);
        let budget = Budget { stop: &stop, ..AMPLE };
        let stopped = Exact::default().search(&instance, &budget, &mut |_, _| {
            stop.store(true, std::sync::atomic::Ordering::Relaxed);
        });
        let Outcome::Planned(first) = stopped.outcome else { panic!("{stopped:?}") };
        assert_eq!(verify(&instance, &hops(4), &first), Ok(()));
        assert_eq!(first.cost, told[0].0);
        assert!(first.lower_bound <= best.cost, "{} above {}", first.lower_bound, best.cost);
    }
    assert!(improved >= 3, "only {improved} searches found better plans later");
}
