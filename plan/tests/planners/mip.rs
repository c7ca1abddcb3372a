//! Solver `mip` of planner `ip`: the library's optimum equals the exact one, and so do its
//! refusals.

use std::sync::atomic::AtomicBool;

use coalloc_common::topology::FrameView;
use coalloc_common::{BitsPerSecond, CoAllocation, Reason, Span, Topology};
use coalloc_plan::ip::{Exact, HandoverPlanner, IpOptions, Mip, MipBackend, verify};
use coalloc_plan::{Budget, FramePlanner, Instance, Outcome};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

use crate::fixtures::{self, AMPLE};

/// Runs both solvers on one instance and compares them. Returns true when there is a plan.
fn agree(mip: Mip, topology: &Topology, request: &CoAllocation, view: &FrameView) -> bool {
    let exact = Exact::new(mip.options).plan(&Instance::new(topology, request, view), &AMPLE);
    let other = mip.plan(&Instance::new(topology, request, view), &AMPLE);
    match (exact, other) {
        (Outcome::Planned(exact), Outcome::Planned(other)) => {
            assert_eq!(
                verify(&Instance::new(topology, request, view), &mip.options, &other),
                Ok(())
            );
            assert_eq!(exact.cost, other.cost);
            assert!(exact.is_proven_optimal() && other.is_proven_optimal());
            true
        }
        (Outcome::Refused(exact), Outcome::Refused(other)) => {
            assert_eq!(exact, other, "one refusal in the same words");
            false
        }
        (exact, other) => panic!("exact {exact:?}, mip {other:?}"),
    }
}

fn agree_on_tiny(backend: MipBackend, instances: u64) {
    let mut feasible = 0;
    for seed in 0..instances {
        let mut rng = ChaCha8Rng::seed_from_u64(1_000_000 + seed);
        let (topology, request, view) = fixtures::tiny(&mut rng);
        let options = IpOptions {
            route_edges_max: rng.random_range(1..=4),
            exclude_opposite_arcs: rng.random_bool(0.7),
        };
        feasible += u64::from(agree(Mip::new(options, backend), &topology, &request, &view));
    }
    let share = 100 * feasible / instances;
    println!("{instances} random graphs, {share} % feasible");
    assert!((20..=80).contains(&share), "feasible {share} %");
}

fn agree_on_elgl(backend: MipBackend, instances: u64) {
    let topology = fixtures::elgl();
    let mut feasible = 0;
    for seed in 0..instances {
        let mut rng = ChaCha8Rng::seed_from_u64(2_000_000 + seed);
        let shape = fixtures::paper_shape(&mut rng);
        let request = fixtures::paper_request(shape, &mut rng);
        let view = fixtures::random_loads(&topology, &mut rng);
        let mip = Mip { backend, ..Mip::default() };
        feasible += u64::from(agree(mip, &topology, &request, &view));
    }
    println!("{instances} of ELGL, {} % feasible", 100 * feasible / instances);
}

/// Instances in which routes compete, with N_max up to 6.
fn agree_on_scarce(backend: MipBackend, instances: u64) {
    let topology = fixtures::elgl();
    let mut feasible = 0;
    for seed in 0..instances {
        let mut rng = ChaCha8Rng::seed_from_u64(3_000_000 + seed);
        let request = fixtures::paper_request(rng.random_range(2..6), &mut rng);
        let view = fixtures::scarce(&topology, &mut rng);
        let options =
            IpOptions { route_edges_max: rng.random_range(2..=6), ..IpOptions::default() };
        feasible += u64::from(agree(Mip::new(options, backend), &topology, &request, &view));
    }
    println!("{instances} of ELGL with few edges, {} % feasible", 100 * feasible / instances);
}

#[test]
fn microlp_agrees_on_random_graphs() {
    agree_on_tiny(MipBackend::Microlp, 3_000);
}

#[test]
fn microlp_agrees_on_elgl() {
    agree_on_elgl(MipBackend::Microlp, 20);
}

#[test]
fn microlp_agrees_where_routes_compete() {
    agree_on_scarce(MipBackend::Microlp, 6);
}

#[cfg(feature = "highs")]
#[test]
fn highs_agrees_where_routes_compete() {
    agree_on_scarce(MipBackend::Highs, 300);
}

#[cfg(feature = "highs")]
#[test]
fn highs_agrees_on_random_graphs() {
    agree_on_tiny(MipBackend::Highs, 2_000);
}

#[cfg(feature = "highs")]
#[test]
fn highs_agrees_on_elgl() {
    agree_on_elgl(MipBackend::Highs, 1_000);
}

#[test]
fn one_bit_per_second_is_not_lost_in_tolerances() {
    // Rates that are equal, different, and too different for a row of small whole numbers.
    for rates in [[7, 7], [1_000_000_000, 3], [89_999_999_999_989, 1_000_003]] {
        let (topology, request, view) = fixtures::one_bit_short(rates);
        assert!(agree(Mip::default(), &topology, &request, &view), "{rates:?}: by `far`");
        let mut none = view.clone();
        none.free_bps[1] = [BitsPerSecond(0); 2];
        assert!(!agree(Mip::default(), &topology, &request, &none), "{rates:?}: no way");
        let mut enough = none;
        enough.free_bps[0] = [BitsPerSecond(rates[0] + rates[1]); 2];
        assert!(agree(Mip::default(), &topology, &request, &enough), "{rates:?}: both by `near`");
    }
}

#[test]
fn time_and_stop_end_the_library() {
    let topology = fixtures::elgl();
    let request = fixtures::request(&[1; 4], fixtures::SHAPES[5].2, 1_000_000_000);
    let view = FrameView::empty_federation(&topology, fixtures::window());
    let stop = AtomicBool::new(true);
    for budget in [Budget { solver_time: Span::ZERO, ..AMPLE }, Budget { stop: &stop, ..AMPLE }] {
        let outcome = Mip::default().plan(&Instance::new(&topology, &request, &view), &budget);
        let Outcome::Refused(refusal) = outcome else { panic!("{outcome:?}") };
        assert_eq!(refusal.reason, Reason::BudgetExhausted, "{refusal}");
    }
}

#[test]
fn what_exact_leaves_open_mip_closes() {
    let topology = fixtures::elgl();
    let (mut handed, mut better) = (0, 0);
    for seed in 0..30 {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let request = fixtures::paper_request(rng.random_range(2..4), &mut rng);
        let view = fixtures::random_loads(&topology, &mut rng);
        let instance = Instance::new(&topology, &request, &view);
        let nodes = rng.random_range(0..6);
        let options = IpOptions::default();
        let full = Exact::default().plan(&instance, &AMPLE);
        let part = Exact::default().plan(&instance, &Budget { nodes, ..AMPLE });
        let both =
            HandoverPlanner::here(options, MipBackend::default(), nodes).plan(&instance, &AMPLE);
        match (full, both) {
            (Outcome::Planned(full), Outcome::Planned(both)) => {
                assert_eq!(verify(&instance, &options, &both), Ok(()));
                assert_eq!((both.cost, both.lower_bound), (full.cost, full.cost), "seed {seed}");
                if let Outcome::Planned(part) = part {
                    handed += u32::from(!part.is_proven_optimal());
                    better += u32::from(part.cost > both.cost);
                }
            }
            (Outcome::Refused(full), Outcome::Refused(both)) => assert_eq!(full, both),
            (full, both) => panic!("seed {seed}: exact {full:?}, both {both:?}"),
        }
        let no_time = Budget { solver_time: Span::ZERO, ..AMPLE };
        let alone =
            HandoverPlanner::here(options, MipBackend::default(), nodes).plan(&instance, &no_time);
        assert_eq!(
            alone,
            Exact::default().plan(&instance, &no_time),
            "no time, nothing handed over"
        );
    }
    println!("handed over with a plan {handed}, of which made better {better}");
    assert!(handed >= 3);
}
