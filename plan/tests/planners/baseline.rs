//! The baselines: every plan is feasible; `backtrack` finds a plan whenever there is one, and
//! `sliding-window` only when there are paths between the computers that it fixed first.

use std::sync::atomic::AtomicBool;

use coalloc_common::topology::FrameView;
use coalloc_common::{
    BitsPerSecond, CoAllocation, Reason, RmName, Span, Time, Topology, VertexIndex, VertexName,
    Window,
};
use coalloc_plan::baseline::{Backtrack, SlidingWindow, order, slide};
use coalloc_plan::ip::brute::Brute;
use coalloc_plan::ip::{Exact, IpOptions, verify};
use coalloc_plan::{Budget, FramePlanner, Instance, Named, Outcome, Packing, Plan, Solver};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

use crate::fixtures;

static GO: AtomicBool = AtomicBool::new(false);
const AMPLE: Budget<'static> =
    Budget { nodes: 10_000_000, solver_time: Span::from_secs(60), stop: &GO };

#[test]
fn backtrack_plans_exactly_what_can_be_planned() {
    let (mut feasible, mut refused, mut dearer) = (0, 0, 0);
    for seed in 0..20_000 {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let (topology, request, view) = fixtures::tiny(&mut rng);
        let route_edges_max = rng.random_range(1..=4);
        let options = IpOptions { route_edges_max, ..IpOptions::default() };
        let instance = Instance::new(&topology, &request, &view);
        let brute = Brute { options }.plan(&instance, &AMPLE);
        match ((Backtrack { options }).plan(&instance, &AMPLE), brute) {
            (Outcome::Planned(plan), Outcome::Planned(best)) => {
                assert_eq!(verify(&instance, &options, &plan), Ok(()), "seed {seed}");
                assert!(plan.cost >= best.cost, "seed {seed}");
                feasible += 1;
                dearer += u32::from(plan.cost > best.cost);
            }
            (Outcome::Refused(_), Outcome::Refused(_)) => refused += 1,
            (ours, brute) => panic!("seed {seed}: {ours:?}, the enumeration has {brute:?}"),
        }
    }
    assert!(feasible > 5_000 && refused > 2_000, "{feasible} feasible, {refused} refused");
    // `backtrack` takes what it finds first. If it were never more expensive, the test would
    // compare a solver with itself.
    assert!(dearer > 500, "{dearer} dearer");
}

#[test]
fn on_the_papers_federation_it_finds_what_exact_finds_and_says_when_its_budget_ended() {
    let topology = fixtures::elgl();
    let options = IpOptions::default();
    let mut planned = 0;
    for seed in 0..300 {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let shape = fixtures::paper_shape(&mut rng);
        let request = fixtures::paper_request(shape, &mut rng);
        let view = fixtures::random_loads(&topology, &mut rng);
        let instance = Instance::new(&topology, &request, &view);
        let exact = Exact::new(options).plan(&instance, &AMPLE);
        match (Backtrack { options }).plan(&instance, &AMPLE) {
            Outcome::Planned(plan) => {
                assert_eq!(verify(&instance, &options, &plan), Ok(()), "seed {seed}");
                assert!(matches!(exact, Outcome::Planned(_)), "seed {seed}");
                planned += 1;
                let nothing = Budget { nodes: 0, ..AMPLE };
                match (Backtrack { options }).plan(&instance, &nothing) {
                    Outcome::Refused(refusal) => {
                        assert_eq!(refusal.reason, Reason::BudgetExhausted);
                    }
                    Outcome::Planned(plan) => panic!("seed {seed}: {plan:?} for no budget"),
                }
            }
            // With 10 million nodes, a hard instance may end without an answer but never with a
            // wrong one.
            Outcome::Refused(refusal) if refusal.reason == Reason::BudgetExhausted => {}
            Outcome::Refused(_) => assert!(matches!(exact, Outcome::Refused(_)), "seed {seed}"),
        }
    }
    assert!(planned > 100, "{planned}");
}

fn planned(planner: &dyn FramePlanner, instance: &Instance<'_>) -> Option<Plan> {
    match planner.plan(instance, &AMPLE) {
        Outcome::Planned(plan) => Some(plan),
        Outcome::Refused(refusal) => {
            assert_ne!(refusal.reason, Reason::BudgetExhausted, "{refusal}");
            None
        }
    }
}

#[test]
fn sliding_window_plans_only_what_can_be_planned_misses_some_and_says_the_same_twice() {
    let (mut feasible, mut missed, mut refused, mut dearer) = (0, 0, 0, 0);
    for seed in 0..20_000 {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let (topology, request, view) = fixtures::tiny(&mut rng);
        let route_edges_max = rng.random_range(1..=4);
        let options = IpOptions { route_edges_max, ..IpOptions::default() };
        let instance = Instance::new(&topology, &request, &view);
        let planner = SlidingWindow { options };
        let first = planner.plan(&instance, &AMPLE);
        assert_eq!(first, planner.plan(&instance, &AMPLE), "seed {seed}: deterministic");
        let brute = planned(&Brute { options }, &instance);
        match (first, brute) {
            (Outcome::Planned(plan), Some(best)) => {
                assert_eq!(verify(&instance, &options, &plan), Ok(()), "seed {seed}");
                assert!(plan.cost >= best.cost && !plan.is_proven_optimal() || plan.cost == 0);
                feasible += 1;
                dearer += u32::from(plan.cost > best.cost);
            }
            (Outcome::Planned(plan), None) => panic!("seed {seed}: {plan:?} of what has no plan"),
            (Outcome::Refused(refusal), Some(_)) => {
                // It has examined the network for one combination only, and must not claim more.
                assert_eq!(refusal.reason, Reason::NoRoute, "seed {seed}");
                assert!(
                    refusal.detail.contains("other computers may have"),
                    "seed {seed}: {refusal}"
                );
                let solver = Solver::SlidingWindow;
                let told = solver.explain(&topology, &request, &view, &options, refusal.clone());
                assert_eq!(told, refusal, "seed {seed}: nothing is proven");
                missed += 1;
            }
            (Outcome::Refused(_), None) => refused += 1,
        }
    }
    assert!(feasible > 3_000 && refused > 2_000, "{feasible} feasible, {refused} refused");
    assert!(missed > 500 && dearer > 300, "{missed} missed, {dearer} dearer");
}

/// The paper's federation, empty except that the paths of its first site are full.
fn first_site_cut_off(window: Window) -> (Topology, CoAllocation, FrameView) {
    let topology = fixtures::elgl();
    let request = fixtures::request(&[4, 4], &[(0, 1)], 1_000_000_000);
    let mut view = FrameView::empty_federation(&topology, window);
    for hop in topology.hops(VertexIndex(0)) {
        view.free_bps[hop.edge.at()] = [BitsPerSecond(0); 2];
    }
    (topology, request, view)
}

/// The worked case: N0 has the first CPUs that suffice, and no free path to anywhere. A planner
/// that fixes computers without regard to the network takes N0. A planner that considers both goes
/// on to N1 and N2.
#[test]
fn sliding_window_misses_what_needs_other_computers_than_the_first() {
    let (topology, request, view) = first_site_cut_off(fixtures::window());
    let instance = Instance::new(&topology, &request, &view);
    let names = |plan: Plan| -> Vec<String> {
        plan.placements.iter().map(|at| topology.vertex(*at).name.to_string()).collect()
    };
    let exact = planned(&Exact::default(), &instance).expect("there is a plan");
    assert_eq!(names(exact).len(), 2);
    let backtrack = planned(&Backtrack::default(), &instance).expect("there is a plan");
    assert_eq!(names(backtrack), ["N1", "N2"]);
    let Outcome::Refused(refusal) = SlidingWindow::default().plan(&instance, &AMPLE) else {
        panic!("it looks at the network before it fixes computers");
    };
    assert!(refusal.detail.contains("(r0 at N0, r1 at N1)"), "{refusal}");
}

#[test]
fn it_slides_to_the_first_start_that_fits_and_looks_at_no_later_one() {
    let at = |minute: i64| Time::from_us(minute * 60_000_000);
    let frames: Vec<FrameView> = (0..6)
        .map(|minute| {
            let window = Window::new(at(minute), at(minute + 30)).expect("not empty");
            let (topology, _, cut_off) = first_site_cut_off(window);
            // The paths of N0 are full for the first three starts.
            if minute < 3 { cut_off } else { FrameView::empty_federation(&topology, window) }
        })
        .collect();
    let (topology, request, _) = first_site_cut_off(fixtures::window());
    let planner = Solver::SlidingWindow.planner(IpOptions::default(), None);
    let mut looked_at = Vec::new();
    let answers = slide(&frames, |view| {
        looked_at.push(view.window.start());
        let packing = Packing::new(&topology, &request, view, Default::default(), 4);
        (view.window, packing.solve(planner.as_ref(), &AMPLE))
    });
    assert_eq!(looked_at, [at(0), at(1), at(2), at(3)]);
    let fits: Vec<bool> = answers.iter().map(|(_, answer)| answer.is_ok()).collect();
    assert_eq!(fits, [false, false, false, true]);
}

#[test]
fn resource_managers_are_asked_in_the_order_in_which_the_search_needs_them() {
    let topology = fixtures::elgl();
    for seed in 0..300 {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let shape = fixtures::paper_shape(&mut rng);
        let request = fixtures::paper_request(shape, &mut rng);
        let view = fixtures::random_loads(&topology, &mut rng);
        let instance = Instance::new(&topology, &request, &view);
        let Outcome::Planned(plan) = Backtrack::default().plan(&instance, &AMPLE) else { continue };
        let order = order(&topology, &request, &plan);
        let mut each: Vec<&RmName> = order.iter().collect();
        each.sort_unstable();
        let segments = plan.segments(&topology, &request);
        assert!(each.into_iter().eq(segments.keys()), "seed {seed}: each of its managers, once");
        let site = |at: usize| {
            let compute = topology.vertex(plan.placements[at]).compute.as_ref();
            compute.expect("a site").rm.clone()
        };
        assert_eq!(order[..2], [site(0), site(1)], "seed {seed}: the first link needs both");
        let joined = request.links.iter().any(|link| link.from.max(link.to) == 1);
        if joined && request.sites.len() > 2 {
            let network = order.iter().position(|rm| rm.as_str() == "nrm");
            let third = order.iter().position(|rm| *rm == site(2));
            assert!(network < third, "seed {seed}: a link as soon as both its ends are placed");
        }
        assert_eq!(Solver::Backtrack.hold_order(&topology, &request, &plan), order);
        assert_eq!(Solver::Exact.hold_order(&topology, &request, &plan), []);
    }
}

/// A hold of a parent coordinator between border points has no CPUs at its ends.
#[test]
fn a_site_without_cpus_may_be_pinned_to_an_exchange_point() {
    let topology = fixtures::elgl();
    let mut request = fixtures::request(&[4, 0], &[(0, 1)], 1_000_000_000);
    request.sites[1].pinned = Some(VertexName::composed("X1"));
    let view = FrameView::empty_federation(&topology, fixtures::window());
    let instance = Instance::new(&topology, &request, &view);
    for solver in [Solver::Exact, Solver::Backtrack, Solver::SlidingWindow] {
        let options = IpOptions::default();
        let plan = planned(solver.planner(options, None).as_ref(), &instance);
        let plan = plan.unwrap_or_else(|| panic!("{} has no plan", solver.name()));
        assert_eq!(verify(&instance, &options, &plan), Ok(()), "{}", solver.name());
    }
}
