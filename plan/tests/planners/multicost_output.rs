//! Results that travel on: compares the earliest delivery with exhaustive search of both legs.

use std::sync::atomic::AtomicBool;

use crate::fixtures::multicost::{Exhaustive, SLOT_BYTES, cluster, relay, tiny};
use coalloc_common::{AvailabilityVector, Slot, Span, Time, VertexIndex};
use coalloc_plan::Budget;
use coalloc_plan::multicost::{
    BelievedNetwork, Ect, McT, Output, Scratch, Task, TaskInstance, TaskObjective, TaskPlanner,
    check, deliver,
};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

const NETWORKS: u64 = 1_500;

/// The earliest delivery, from the earliest completion at each cluster and the earliest arrival
/// from there.
fn exhaustive(picture: &BelievedNetwork, task: &Task, output: Output) -> Option<i64> {
    let free = AvailabilityVector::everything(picture.cluster_grid(), Slot(0), 100).unwrap();
    let mut wanted = picture.clone();
    wanted.add_cluster(cluster(output.to.0, 8, 1_000, free)).unwrap();
    let end = picture.clusters().len();
    let delivered = (0..end).filter_map(|index| {
        // A picture with one cluster alone.
        let mut alone = BelievedNetwork::new(
            picture.vertices(),
            picture.link_grid(),
            picture.rate(),
            picture.cluster_grid(),
            picture.cpus(),
        )
        .unwrap()
        .with_guard(picture.guard());
        picture.links().iter().for_each(|link| alone.add_link(link.clone()).unwrap());
        alone.add_cluster(picture.clusters()[index].clone()).unwrap();
        let first = Task { deadline: None, objective: TaskObjective::Completion, ..*task };
        let (_, completion, _) = Exhaustive::new(&alone, &first).run().best?;
        let source = picture.clusters()[index].vertex;
        if source == output.to {
            return Some(completion);
        }
        let ready = Time::from_us(completion);
        let second = Task { source, data_bytes: output.bytes, ready, ..first };
        Exhaustive::new(&wanted, &second).run().arrivals.get(&end).copied()
    });
    delivered.min().filter(|at| task.deadline.is_none_or(|deadline| *at <= deadline.as_us()))
}

fn compare(make: fn(&mut ChaCha8Rng) -> (BelievedNetwork, Task)) -> u64 {
    let (stop, mut scratch, mut delivered) = (AtomicBool::new(false), Scratch::default(), 0);
    let budget = Budget { nodes: u64::MAX, solver_time: Span::ZERO, stop: &stop };
    for seed in 0..NETWORKS {
        let mut random = ChaCha8Rng::seed_from_u64(seed);
        let (picture, task) = make(&mut random);
        let to = VertexIndex(random.random_range(0..picture.vertices() as u32));
        let output = Output { to, bytes: SLOT_BYTES * random.random_range(1..4) };
        let instance = TaskInstance::new(&task, &picture).unwrap();
        let mut run = |planner: &dyn TaskPlanner| {
            deliver(planner, &instance, output, &budget, &mut scratch).unwrap().0
        };
        let found = run(&McT::optimal());
        let at = found.as_ref().ok().map(|delivery| delivery.delivered.as_us());
        assert_eq!(at, exhaustive(&picture, &task, output), "seed {seed}");
        // With another planner for the first leg, the delivery is not earlier.
        let other = run(&Ect { first_link_only: false });
        assert!(other.is_err() || other.is_ok_and(|other| Some(other.delivered.as_us()) >= at));
        let Ok(delivery) = found else { continue };
        let without = Task { deadline: None, ..task };
        let first = TaskInstance::new(&without, &picture).unwrap();
        assert_eq!(check::check(&first, &delivery.plan), Ok(()), "seed {seed}");
        assert!(delivery.proven && delivery.departure >= delivery.plan.completion());
        let mut at = picture.clusters()[delivery.plan.cluster].vertex;
        for leg in &delivery.legs {
            let link = &picture.links()[leg.link];
            assert_eq!(link.from, at);
            at = link.to;
            let (vector, grid) = (&link.free[delivery.wavelength], picture.link_grid());
            let (from, end) =
                (grid.containing(leg.window.start()), grid.first_from(leg.window.end()));
            assert!(vector.is_free_over(from, end), "seed {seed}");
            assert!(leg.window.start() >= delivery.plan.completion(), "seed {seed}");
        }
        assert_eq!(at, to);
        delivered += 1;
    }
    delivered
}

#[test]
fn results_are_delivered_as_early_as_exhaustive_search_can() {
    let delivered = [compare(tiny), compare(relay)];
    println!("delivered: {delivered:?} of {NETWORKS}");
    assert!(delivered.iter().all(|count| *count > NETWORKS / 20), "{delivered:?}");
}

#[test]
fn an_output_that_cannot_be_is_refused_by_field() {
    let (picture, task) = tiny(&mut ChaCha8Rng::seed_from_u64(1));
    let instance = TaskInstance::new(&task, &picture).unwrap();
    let stop = AtomicBool::new(false);
    let budget = Budget { nodes: u64::MAX, solver_time: Span::ZERO, stop: &stop };
    let field = |to: u32, bytes: u64| {
        let output = Output { to: VertexIndex(to), bytes };
        let scratch = &mut Scratch::default();
        deliver(&McT::optimal(), &instance, output, &budget, scratch).unwrap_err().field
    };
    assert_eq!(field(99, 1), "output.to");
    assert_eq!(field(0, 0), "output.bytes");
    let error = TaskInstance::new(&Task { cluster: Some(9), ..task }, &picture).unwrap_err();
    assert_eq!(error.field, "cluster");
}
