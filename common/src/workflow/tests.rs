//! Workflows that are wrong, sets that overlap, and cycles, compared with the closure of the graph.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;

use super::*;
use crate::InvalidField;

fn activity(name: &str) -> Activity {
    Activity {
        name: ActivityName::composed(name),
        work: Work::Load { mi: 1_000 },
        cpus: Cpus(1),
        others: BTreeMap::new(),
        sites: BTreeSet::new(),
        excluded: BTreeSet::new(),
    }
}

fn item(name: String, from: usize, to: &[usize]) -> DataItem {
    let (source, consumers) = (DataSource::Activity(from), to.to_vec());
    DataItem { name: DataName::composed(name), bytes: 1, source, consumers, rate: None }
}

/// Activities a0, a1, .. with one item for each pair.
fn workflow(activities: usize, pairs: &[(usize, usize)], sync_sets: &[&[usize]]) -> Workflow {
    Workflow {
        activities: (0..activities).map(|index| activity(&format!("a{index}"))).collect(),
        data: (0..)
            .zip(pairs)
            .map(|(index, (from, to))| item(format!("d{index}"), *from, &[*to]))
            .collect(),
        sync_sets: sync_sets.iter().map(|set| set.to_vec()).collect(),
        channels: Vec::new(),
        same_site: Vec::new(),
        ready: Time::from_us(0),
        deadline: Time::from_us(3_600_000_000),
    }
}

fn refused(workflow: &Workflow) -> InvalidField {
    WorkflowGraph::new(workflow).expect_err("a wrong workflow")
}

#[test]
fn sets_that_overlap_are_one_node_with_all_their_neighbours() {
    let mut given = workflow(6, &[(0, 1), (3, 5), (1, 5)], &[&[1, 2], &[4], &[2, 3]]);
    assert_eq!(refused(&given).field, "sync_sets[1]", "a set of one");
    given.sync_sets.remove(1);
    let graph = WorkflowGraph::new(&given).expect("a workflow");
    assert_eq!(graph.node_of, [0, 1, 1, 1, 2, 3]);
    assert_eq!(graph.nodes[1].members, [1, 2, 3]);
    assert_eq!(graph.nodes[1].predecessors, [0]);
    assert_eq!(graph.nodes[1].successors, [3], "two items, one neighbour");
    assert_eq!(graph.merged, [[0, 1]]);
    assert_eq!(graph.order, [0, 1, 2, 3]);
    assert_eq!((&graph.inputs[5][..], &graph.outputs[1][..]), (&[1, 2][..], &[2][..]));
}

#[test]
fn the_shortest_cycle_is_named_also_when_only_sets_close_it() {
    let cycle = refused(&workflow(5, &[(0, 1), (1, 2), (2, 3), (3, 0), (2, 1)], &[]));
    assert_eq!((&cycle.field[..], &cycle.value[..]), ("data", "a1 > a2 > a1"));
    let contracted = refused(&workflow(4, &[(0, 1), (1, 2), (2, 3)], &[&[0, 3]]));
    assert_eq!(contracted.value, "{a0, a3} > a1 > a2 > {a0, a3}");
    assert!(contracted.allowed.contains("count as one"), "{contracted}");
}

#[test]
fn bad_workflows_are_refused_with_field_value_and_range() {
    type Spoil = fn(&mut Workflow);
    let cases: [(&str, Spoil); 18] = [
        ("activities", |w| w.activities.clear()),
        ("activities[1].name", |w| w.activities[1].name = w.activities[0].name.clone()),
        ("activities[0].cpus", |w| w.activities[0].cpus = Cpus(0)),
        ("activities[0].load_mi", |w| w.activities[0].work = Work::Load { mi: u64::MAX }),
        ("activities[0].duration", |w| w.activities[0].work = Work::Fixed(Span::ZERO)),
        ("activities[0].durations", |w| w.activities[0].work = Work::BySite(BTreeMap::new())),
        ("activities[2].sites", |w| {
            let site = VertexName::composed("N0");
            w.activities[2].sites.insert(site.clone());
            w.activities[2].excluded.insert(site);
        }),
        ("data[1].name", |w| w.data[1].name = w.data[0].name.clone()),
        ("data[0].bytes", |w| w.data[0].bytes = u64::MAX),
        ("data[0].rate_bps", |w| w.data[0].rate = Some(BitsPerSecond(0))),
        ("data[0].from", |w| w.data[0].source = DataSource::Activity(99)),
        ("data[0].to", |w| w.data[0].consumers.clear()),
        ("data[2]", |w| w.data.push(item("d9".to_owned(), 1, &[2]))),
        ("sync_sets[0]", |w| w.sync_sets[0] = vec![1, 1]),
        ("channels[0].to", |w| w.channels[0].to = 3),
        ("channels[0].bandwidth_bps", |w| w.channels[0].bandwidth = BitsPerSecond(0)),
        ("same_site[0]", |w| w.same_site.push(vec![0])),
        ("deadline", |w| w.deadline = w.ready),
    ];
    let mut good = workflow(4, &[(0, 1), (2, 3)], &[&[1, 2]]);
    let bandwidth = BitsPerSecond(1_000_000);
    good.channels.push(Channel { from: 1, to: 2, bandwidth, latency_max: None });
    assert!(WorkflowGraph::new(&good).is_ok());
    for (field, spoil) in cases {
        let mut bad = good.clone();
        spoil(&mut bad);
        let error = refused(&bad);
        assert_eq!(error.field, field, "{error}");
        assert!(!error.allowed.is_empty());
    }
}

#[test]
fn a_set_has_a_limit_also_when_it_is_made_of_several() {
    let chain: Vec<Vec<usize>> = (0..40).map(|at| vec![at, at + 1]).collect();
    let sets: Vec<&[usize]> = chain.iter().map(Vec::as_slice).collect();
    let error = refused(&workflow(41, &[], &sets));
    assert_eq!((&error.field[..], &error.value[..]), ("sync_sets[0]", "33"));
}

/// Whether a chain of items leads from each activity to itself, where sets are one: by closure.
fn has_cycle(activities: usize, pairs: &[(usize, usize)], set_of: &[usize]) -> bool {
    let mut reach = vec![vec![false; activities]; activities];
    for (from, to) in pairs {
        reach[set_of[*from]][set_of[*to]] = true;
    }
    for middle in 0..activities {
        for from in 0..activities {
            for to in 0..activities {
                reach[from][to] |= reach[from][middle] && reach[middle][to];
            }
        }
    }
    (0..activities).any(|at| reach[at][at])
}

proptest! {
    #[test]
    fn order_and_cycles_agree_with_the_closure(
        pairs in prop::collection::btree_set((0_usize..7, 0_usize..7), 0..9),
        sets in prop::collection::vec(prop::collection::btree_set(0_usize..7, 2..4), 0..3),
    ) {
        let pairs: Vec<(usize, usize)> = pairs.into_iter().filter(|(a, b)| a != b).collect();
        let lists: Vec<Vec<usize>> = sets.iter().map(|set| set.iter().copied().collect()).collect();
        let slices: Vec<&[usize]> = lists.iter().map(Vec::as_slice).collect();
        let mut set_of: Vec<usize> = (0..7).collect();
        for _ in 0..7 {
            for set in &lists {
                let least = set.iter().map(|at| set_of[*at]).min().expect("not empty");
                set.iter().for_each(|at| set_of[*at] = least);
            }
        }
        match WorkflowGraph::new(&workflow(7, &pairs, &slices)) {
            Ok(graph) => {
                prop_assert!(!has_cycle(7, &pairs, &set_of));
                let place = |at: usize| graph.order.iter().position(|node| *node == graph.node_of[at]);
                prop_assert!(pairs.iter().all(|(from, to)| place(*from) < place(*to)));
                for (a, b) in (0..7).flat_map(|a| (0..7).map(move |b| (a, b))) {
                    prop_assert_eq!(graph.node_of[a] == graph.node_of[b], set_of[a] == set_of[b]);
                }
            }
            Err(error) => prop_assert!(has_cycle(7, &pairs, &set_of), "{}", error),
        }
    }
}
