//! The baselines: whatever they plan is feasible, and `backtrack` finds a plan whenever there is one.

#![allow(clippy::expect_used, reason = "a test that meets nonsense ends")]

mod fixtures;

use std::sync::atomic::AtomicBool;

use coalloc_common::{Reason, Span};
use coalloc_plan::baseline::Backtrack;
use coalloc_plan::ip::brute::Brute;
use coalloc_plan::ip::{Exact, IpOptions, verify};
use coalloc_plan::{Budget, FramePlanner, Instance, Outcome};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

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
    // It takes what it finds first: were it never dearer, the test would compare a solver with itself.
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
            // With 10 million nodes a hard one may end without an answer, never with a wrong one.
            Outcome::Refused(refusal) if refusal.reason == Reason::BudgetExhausted => {}
            Outcome::Refused(_) => assert!(matches!(exact, Outcome::Refused(_)), "seed {seed}"),
        }
    }
    assert!(planned > 100, "{planned}");
}
