//! Plans made on vectors fit the timetables that the vectors were made from, when they are booked
//! one after another.

use std::sync::atomic::AtomicBool;

use crate::fixtures::multicost::{PHOSPHORUS_SUBSTITUTE, World, exponential, task};
use coalloc_common::{Cpus, Span, Time};
use coalloc_plan::Budget;
use coalloc_plan::multicost::{Ect, McB, McT, Samcra, Scratch, TaskInstance, TaskPlanner, check};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

/// Runs tasks that arrive faster than they can be done, at instants that are no slot boundaries.
/// Returns how many were booked, and how many plans met a link that was not free.
fn run(planner: &dyn TaskPlanner, seed: u64) -> (u32, u32) {
    let clusters = [(0, 12), (5, 8), (8, 4)];
    let mut world = World::new(9, &PHOSPHORUS_SUBSTITUTE, &clusters);
    let (mut random, mut scratch) = (ChaCha8Rng::seed_from_u64(seed), Scratch::default());
    let (stop, mut now) = (AtomicBool::new(false), 77_777_i64);
    let budget = Budget { nodes: 20_000, solver_time: Span::ZERO, stop: &stop };
    let (mut booked, mut met) = (0, 0);
    for _ in 0..150 {
        now += exponential(150_000.0, &mut random) as i64;
        let bytes = exponential(5e7, &mut random);
        let work = exponential(1e5, &mut random);
        let cpus = Cpus(random.random_range(1..4));
        let source = random.random_range(0..9);
        let task =
            coalloc_plan::multicost::Task { cpus, ..task(source, bytes, work, Time::from_us(now)) };
        let picture = world.picture(task.ready, cpus);
        let instance = TaskInstance::new(&task, &picture).unwrap();
        let answer = planner.plan(&instance, &budget, &mut scratch);
        let Some(plan) = answer.best() else { continue };
        assert_eq!(check::check(&instance, plan), Ok(()), "{}", planner.name());
        // The timetables refuse what would be more than there is (I1). For clusters, `book` unwraps
        // instead.
        match world.book(plan, cpus) {
            true => booked += 1,
            false => met += 1,
        }
    }
    (booked, met)
}

#[test]
fn what_is_planned_can_be_booked() {
    let planners: [&dyn TaskPlanner; 8] = [
        &McT::optimal(),
        &McT::printed(),
        &McT::available_weight(),
        &McB::default(),
        &Ect { first_link_only: false },
        &Samcra::new(false),
        &Samcra::new(true),
        &Ect { first_link_only: true },
    ];
    for planner in planners {
        let (booked, met) = run(planner, 1);
        println!("{}: {booked} booked, {met} met others on the way", planner.name());
        assert!(booked > 40, "{}: {booked}", planner.name());
        // Only a planner that checks the first link alone meets other links that are not free.
        assert_eq!(met > 0, planner.name() == "ect-first-link", "{}", planner.name());
    }
}
