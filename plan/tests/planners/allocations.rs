//! The inner loop of the multi-cost search does not allocate: the number of allocations for a task
//! does not grow with the number of paths that are searched.

use std::sync::atomic::AtomicBool;

use crate::fixtures::multicost::{World, exponential, task, torus};
use allocation_counter::measure;
use coalloc_common::{Cpus, Span, Time};
use coalloc_plan::Budget;
use coalloc_plan::multicost::{McT, Scratch, TaskInstance, TaskPlanner};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

/// Allocations of an answer itself: its plan, that plan's legs, and names in it.
const OF_AN_ANSWER: u64 = 32;

#[test]
fn a_task_allocates_no_more_for_more_paths() {
    for planner in [McT::optimal(), McT::available_weight(), McT::printed()] {
        let mut world = World::new(25, &torus(), &[(3, 25), (7, 25), (16, 25), (20, 25)]);
        let (mut random, mut scratch) = (ChaCha8Rng::seed_from_u64(5), Scratch::default());
        let stop = AtomicBool::new(false);
        let budget = Budget { nodes: 20_000, solver_time: Span::ZERO, stop: &stop };
        let (mut now, mut most, mut tried) = (1_000_000_000, 0, Vec::new());
        for number in 0..400 {
            now += exponential(1e6 / 90.0, &mut random) as i64;
            let ready = Time::from_us(now);
            let (bytes, work) = (exponential(1.25e7, &mut random), exponential(2.5e4, &mut random));
            let task = task(random.random_range(0..25), bytes, work, ready);
            let picture = world.picture(ready, Cpus(1));
            let instance = TaskInstance::new(&task, &picture).unwrap();
            // One run allocates the memory that is reused, and the second is counted.
            planner.plan(&instance, &budget, &mut scratch);
            let mut answer = None;
            let counted = measure(|| answer = Some(planner.plan(&instance, &budget, &mut scratch)));
            let answer = answer.unwrap();
            if let Some(plan) = answer.best() {
                world.book(plan, Cpus(1));
            }
            if number >= 100 {
                most = most.max(counted.count_total);
                tried.push(answer.effort.tried);
            }
        }
        // One allocation for each path would exceed the bound.
        let fewest = tried.iter().min().unwrap();
        assert!(*fewest > OF_AN_ANSWER, "{fewest} paths: no test");
        assert!(most <= OF_AN_ANSWER, "{}: {most} allocations for a task", planner.name());
    }
}
