//! From a federation to segments: a task is planned on the picture of ELGL.

use std::sync::atomic::AtomicBool;

use coalloc_common::topology::Direction;
use coalloc_common::{AvailabilityVector, BitsPerSecond, Cpus, Slot, SlotGrid, Span, Time, Window};
use coalloc_plan::Budget;
use coalloc_plan::multicost::{
    BelievedNetwork, ClusterState, McT, Scratch, Signalling, Task, TaskInstance, TaskObjective,
    TaskPlanner, check,
};

use crate::fixtures;

#[test]
fn a_plan_becomes_segments_of_the_managers_that_own_what_it_takes() {
    let topology = fixtures::elgl();
    let seconds = SlotGrid::new(Span::from_secs(1)).unwrap();
    let (rate, cpus) = (BitsPerSecond(500_000_000), Cpus(48));
    let all = || AvailabilityVector::everything(seconds, Slot(100), 3_600).unwrap();
    // Only N3 has enough CPUs, and only from 140 s on.
    let late = all().masked_until(Slot(140));
    let site = |vertex| {
        let big = topology.vertex(vertex).compute.as_ref()?.capacity >= cpus;
        let nothing = AvailabilityVector::nothing(seconds, Slot(100), 3_600).unwrap();
        let free = if big { late.clone() } else { nothing };
        Some(ClusterState { mips: 1_000, busy: Cpus(0), tasks: 0, free })
    };
    let (links, clusters) = ((seconds, rate), (seconds, cpus));
    let picture =
        BelievedNetwork::of_topology(&topology, links, clusters, |_, _| all(), site).unwrap();
    assert_eq!(picture.links().len(), 2 * topology.edges().len());
    for (index, link) in picture.links().iter().enumerate() {
        let edge = topology.edge(link.edge);
        let ends =
            if link.direction == Direction::AToB { (edge.a, edge.b) } else { (edge.b, edge.a) };
        assert_eq!(((link.from, link.to), link.edge.at()), (ends, index / 2));
    }
    let (source, _, _) = topology.sites().last().unwrap();
    let ready = Time::from_us(100_500_000);
    let task = Task {
        source,
        // 10 s at 500 Mbit/s, 30 s at 1,000 MIPS.
        data_bytes: 625_000_000,
        work_mi: 30_000,
        cpus,
        rate,
        ready,
        deadline: None,
        objective: TaskObjective::Completion,
        signalling: Signalling::ONE_WAY,
        cluster: None,
        plans: 1,
    };
    let instance = TaskInstance::new(&task, &picture).unwrap();
    let stop = AtomicBool::new(false);
    let budget = Budget { nodes: 10_000, solver_time: Span::ZERO, stop: &stop };
    let answer = McT::optimal().plan(&instance, &budget, &mut Scratch::default());
    let plan = answer.best().expect("everything is free");
    assert_eq!(check::check(&instance, plan), Ok(()));
    let segments = plan.segments(&topology, &picture, &task);
    let window = |from: i64, to: i64| {
        Window::new(Time::from_us(from * 1_000_000), Time::from_us(to * 1_000_000)).unwrap()
    };
    let place = topology.vertex(picture.clusters()[plan.cluster].vertex);
    let compute = place.compute.as_ref().unwrap();
    let run = &segments[&compute.rm];
    assert_eq!(run.len(), 1);
    assert_eq!((run[0].window, run[0].amount.0), (window(140, 170), 48));
    let held: usize = segments.values().map(Vec::len).sum();
    assert_eq!(held, plan.legs.len() + 1);
    let first = topology.edge(picture.links()[plan.legs[0].link].edge);
    let leg = &segments[&first.rm][0];
    assert_eq!((leg.window, leg.amount.0), (window(101, 111), rate.0), "the next full slot");
}
