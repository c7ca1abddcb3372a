//! Frames in which demands may share sites: compared with the enumeration of all placements and all
//! combinations of simple routes, with results worked out by hand, and at the end of the budget.

use std::collections::{BTreeMap, BTreeSet};

use coalloc_common::topology::{Direction, Duplex, FrameView, SiteResource};
use coalloc_common::{
    Amount, BitsPerSecond, Cpus, LinkDemand, ResourceId, ResourceKind, Span, Topology, UnitValue,
    VertexIndex,
};
use coalloc_plan::ip::shared::{
    Conflict, SharedFrame, SharedMember, SharedOutcome, Steps, place, place_in,
};
use coalloc_plan::{Budget, Route};
use proptest::prelude::*;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

use crate::fixtures::{self, AMPLE};

const STORAGE: ResourceKind = ResourceKind::Storage;

/// A tiny world, and a frame in it.
#[derive(Debug, Clone)]
struct World {
    topology: Topology,
    view: FrameView,
    members: Vec<SharedMember>,
    links: Vec<LinkDemand>,
    route_edges_max: u32,
}

impl World {
    fn frame<'a>(&'a self, view: &'a FrameView) -> SharedFrame<'a> {
        SharedFrame {
            topology: &self.topology,
            view,
            members: &self.members,
            links: &self.links,
            route_edges_max: self.route_edges_max,
        }
    }

    /// Every placement that fits, in the order of preference.
    fn every(&self, view: &FrameView) -> Vec<Vec<VertexIndex>> {
        let mut found = Vec::new();
        self.extend(view, &mut Vec::new(), &mut found);
        found
    }

    fn extend(
        &self,
        view: &FrameView,
        placed: &mut Vec<VertexIndex>,
        found: &mut Vec<Vec<VertexIndex>>,
    ) {
        let Some(member) = self.members.get(placed.len()) else {
            if self.routable(placed, 0, &mut rates(&self.topology, view)) {
                found.push(placed.clone());
            }
            return;
        };
        for vertex in &member.candidates {
            placed.push(*vertex);
            if self.sums_fit(view, placed) {
                self.extend(view, placed, found);
            }
            placed.pop();
        }
    }

    fn sums_fit(&self, view: &FrameView, placed: &[VertexIndex]) -> bool {
        placed.iter().all(|vertex| {
            let here = || placed.iter().zip(&self.members).filter(|(at, _)| *at == vertex);
            let cpus: u64 = here().map(|(_, member)| member.cpus.0).sum();
            let storage =
                |member: &SharedMember| member.others.get(&STORAGE).map_or(0, |own| own.0);
            let storage: u64 = here().map(|(_, member)| storage(member)).sum();
            cpus <= view.free_cpus[vertex.at()].0 && storage <= view.free_at(STORAGE, *vertex).0
        })
    }

    /// Whether the links from this one on can be routed with what is free.
    fn routable(&self, placed: &[VertexIndex], link: usize, free: &mut Vec<[u64; 2]>) -> bool {
        let Some(demand) = self.links.get(link) else { return true };
        let mut routes = Vec::new();
        self.walk(placed[demand.from], placed[demand.to], &mut Vec::new(), &mut routes);
        routes.iter().any(|route| {
            let latency: i64 =
                route.iter().map(|(edge, _)| self.topology.edge(*edge).latency.as_us()).sum();
            if demand.latency_max.is_some_and(|max| latency > max.as_us())
                || route.iter().any(|(edge, way)| free[edge.at()][way.at()] < demand.bandwidth.0)
            {
                return false;
            }
            let former = free.clone();
            for (edge, way) in route {
                for lane in [Direction::AToB, Direction::BToA] {
                    if lane == *way || self.topology.edge(*edge).is_shared() {
                        free[edge.at()][lane.at()] -= demand.bandwidth.0;
                    }
                }
            }
            let fits = self.routable(placed, link + 1, free);
            *free = former;
            fits
        })
    }

    /// All simple routes; the empty one from a vertex to itself.
    fn walk(&self, at: VertexIndex, end: VertexIndex, route: &mut Route, found: &mut Vec<Route>) {
        if at == end {
            found.push(route.clone());
            return;
        }
        for hop in self.topology.hops(at) {
            let ends = |edge| [self.topology.edge(edge).a, self.topology.edge(edge).b];
            let visited = route.iter().any(|(edge, _)| ends(*edge).contains(&hop.to));
            if !visited && route.len() < self.route_edges_max as usize {
                route.push((hop.edge, hop.direction));
                self.walk(hop.to, end, route, found);
                route.pop();
            }
        }
    }

    /// Checks routes against what is free.
    fn verify(&self, placed: &[VertexIndex], routes: &[Route]) {
        assert_eq!((placed.len(), routes.len()), (self.members.len(), self.links.len()));
        assert!(self.sums_fit(&self.view, placed));
        let mut free = rates(&self.topology, &self.view);
        for (link, route) in self.links.iter().zip(routes) {
            let mut at = placed[link.from];
            let mut seen = BTreeSet::from([at]);
            let mut latency = 0;
            for (index, way) in route {
                let edge = self.topology.edge(*index);
                assert_eq!(edge.head(way.back()), at, "the route is connected");
                at = edge.head(*way);
                assert!(seen.insert(at), "the route is simple");
                latency += edge.latency.as_us();
                for lane in [Direction::AToB, Direction::BToA] {
                    if lane == *way || edge.is_shared() {
                        let left = &mut free[index.at()][lane.at()];
                        *left = left.checked_sub(link.bandwidth.0).expect("the load fits");
                    }
                }
            }
            assert_eq!(at, placed[link.to]);
            assert!(link.latency_max.is_none_or(|max| latency <= max.as_us()));
            assert!(route.len() <= self.route_edges_max as usize);
        }
    }

    /// The view with everything entirely free but what is in the conflict.
    fn raised(&self, conflict: &Conflict) -> FrameView {
        let mut view = FrameView::empty_federation(&self.topology, fixtures::window());
        for (vertex, kind) in &conflict.sites {
            view.set_free(*kind, *vertex, self.view.free_at(*kind, *vertex));
        }
        for (edge, way) in &conflict.edges {
            let lanes = &mut view.free_bps[edge.at()];
            let free = self.view.free_bps[edge.at()];
            if self.topology.edge(*edge).is_shared() {
                *lanes = free;
            } else {
                lanes[way.at()] = free[way.at()];
            }
        }
        view
    }
}

fn rates(topology: &Topology, view: &FrameView) -> Vec<[u64; 2]> {
    assert_eq!(topology.edges().len(), view.free_bps.len());
    view.free_bps.iter().map(|free| free.map(|rate| rate.0)).collect()
}

/// A vertex: CPUs and storage with what is free of them; `None` for an exchange point.
type Site = Option<(u64, u64, u64, u64)>;

fn sites() -> impl Strategy<Value = Vec<Site>> {
    let site = (3..=8u64, 1..=8u64, 0..=6u64, 0..=6u64).prop_map(|(cpus, free, storage, left)| {
        Some((cpus, free.min(cpus), storage, left.min(storage)))
    });
    let exchange = prop::collection::vec(Just(None), 0..=1);
    (prop::collection::vec(site, 2..=4), exchange)
        .prop_map(|(sites, exchange)| sites.into_iter().chain(exchange).collect())
}

/// An edge: its ends, capacity and what is free each way, whether it is shared, and its latency.
type Path = (usize, usize, u64, u64, u64, bool, i64);

fn worlds() -> impl Strategy<Value = World> {
    let paths = prop::collection::vec(
        (0..5usize, 1..5usize, 2..=5u64, 0..=5u64, 0..=5u64, any::<bool>(), 0..3i64),
        2..=8,
    );
    let alike = any::<bool>();
    let members = prop::collection::vec(
        (0..=5u64, prop_oneof![3 => Just(0u64), 1 => 1..=2u64], any::<u64>(), 2..=5usize),
        1..=5,
    );
    let links = prop::collection::vec(
        (
            0..5usize,
            1..5usize,
            1..=3u64,
            prop_oneof![5 => Just(None), 1 => (0..5i64).prop_map(Some)],
        ),
        0..=4,
    );
    (sites(), paths, alike, members, links, 1..=4u32).prop_map(
        |(sites, paths, alike, members, links, route_edges_max)| {
            world(&sites, &paths, alike, &members, &links, route_edges_max)
        },
    )
}

fn world(
    sites: &[Site],
    paths: &[Path],
    alike: bool,
    members: &[(u64, u64, u64, usize)],
    links: &[(usize, usize, u64, Option<i64>)],
    route_edges_max: u32,
) -> World {
    let mut topology = Topology::new();
    for (number, site) in sites.iter().enumerate() {
        let vertex = match site {
            None => fixtures::exchange("x"),
            Some((cpus, _, storage, _)) => {
                let mut vertex = fixtures::site(&format!("v{number}"), "d", *cpus, 1);
                if *storage > 0 {
                    let resource = ResourceId::composed(format!("v{number}:storage"));
                    let own = SiteResource {
                        resource,
                        capacity: Amount(*storage),
                        unit_value: UnitValue(1),
                    };
                    vertex.others.insert(STORAGE, own);
                }
                vertex
            }
        };
        topology.add_vertex(vertex).expect("a vertex");
    }
    let vertices = sites.len();
    for (number, (a, step, bps, _, _, shared, latency)) in paths.iter().enumerate() {
        let a = a % vertices;
        let b = (a + 1 + step % (vertices - 1)) % vertices;
        let name = format!("e{number}");
        let (a, b) = (VertexIndex(a as u32), VertexIndex(b as u32));
        let mut edge = fixtures::edge(&name, a, b, *bps, 1);
        edge.latency = Span::from_us(*latency);
        if !shared {
            let lane = |way: &str| ResourceId::composed(format!("{name}-{way}"));
            edge.duplex = Duplex::Full { ab: lane("ab"), ba: lane("ba") };
        }
        topology.add_edge(edge).expect("an edge");
    }
    let mut view = FrameView::empty_federation(&topology, fixtures::window());
    for (number, site) in (0u32..).zip(sites) {
        if let Some((_, cpus, _, storage)) = site {
            view.free_cpus[number as usize] = Cpus(*cpus);
            view.set_free(STORAGE, VertexIndex(number), Amount(*storage));
        }
    }
    for (lanes, (_, _, bps, there, back, shared, _)) in view.free_bps.iter_mut().zip(paths) {
        let back = if *shared { there } else { back };
        *lanes = [there, back].map(|free| BitsPerSecond(*free.min(bps)));
    }
    let first = members[0];
    let members: Vec<SharedMember> = members
        .iter()
        .map(|member| if alike { first } else { *member })
        .map(|(cpus, storage, order, count)| {
            // A pseudo-random order of some of the vertices.
            let mut candidates: Vec<VertexIndex> = (0..vertices as u32).map(VertexIndex).collect();
            candidates.sort_by_key(|at| (u64::from(at.0) + 1).wrapping_mul(order | 1) >> 7);
            candidates.truncate(count);
            let mut others = BTreeMap::new();
            if storage > 0 {
                others.insert(STORAGE, Amount(storage));
            }
            SharedMember { cpus: Cpus(cpus), others, candidates }
        })
        .collect();
    let ends = |from: usize, step: usize| {
        let from = from % members.len();
        (from, (from + 1 + step % (members.len() - 1)) % members.len())
    };
    let links = links
        .iter()
        .filter(|_| members.len() > 1)
        .map(|(from, step, rate, latency)| {
            let (from, to) = ends(*from, *step);
            let latency_max = latency.map(Span::from_us);
            LinkDemand { from, to, bandwidth: BitsPerSecond(*rate), latency_max, window: None }
        })
        .collect();
    World { topology, view, members, links, route_edges_max }
}

/// Refuses a pseudo-random part of the placements: all whose hash has one of these bits.
fn refuses(salt: u64, placed: &[VertexIndex]) -> bool {
    let mix = |hash: u64, at: &VertexIndex| (hash ^ u64::from(at.0)).wrapping_mul(0x0100_0000_01b3);
    let hash = placed.iter().fold(0xcbf2_9ce4_8422_2325 ^ salt, mix);
    (hash >> 32) & 0b11 != 0
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 6_000, ..ProptestConfig::default() })]

    #[test]
    fn the_answer_is_that_of_the_enumeration(world in worlds(), salt in any::<u64>(), picky in any::<bool>(), in_order in 0..60u64) {
        let every = world.every(&world.view);
        let mut offered = Vec::new();
        let steps = Steps { in_order: in_order / 4, ..Steps::UNBOUNDED };
        let answer = place_in(&world.frame(&world.view), &AMPLE, steps, &mut |placed| {
            offered.push(placed.to_vec());
            !(picky && refuses(salt, placed))
        });
        let wanted = every.iter().position(|placed| !(picky && refuses(salt, placed)));
        // Every placement that comes before the answer is offered once, and in its order.
        let before = wanted.map_or(every.len(), |at| at + 1);
        prop_assert_eq!(&offered[..], &every[..before]);
        match answer.outcome {
            SharedOutcome::Fits { placements, routes } => {
                prop_assert_eq!(Some(&placements), wanted.map(|at| &every[at]));
                world.verify(&placements, &routes);
            }
            SharedOutcome::Refuted { conflict, refused } => {
                prop_assert_eq!(wanted, None);
                prop_assert_eq!(refused, !every.is_empty());
                for (vertex, kind) in &conflict.sites {
                    let empty = FrameView::empty_federation(&world.topology, fixtures::window());
                    let free = world.view.free_at(*kind, *vertex);
                    prop_assert!(free < empty.free_at(*kind, *vertex));
                }
                for (edge, way) in &conflict.edges {
                    let free = world.view.free_bps[edge.at()][way.at()];
                    prop_assert!(free < world.topology.edge(*edge).capacity);
                }
                prop_assert!(conflict.sites.is_sorted() && conflict.edges.is_sorted());
                // Whatever else becomes free, nothing fits that was not refused.
                let raised = world.every(&world.raised(&conflict));
                prop_assert_eq!(&raised, &every);
            }
            SharedOutcome::Stopped => prop_assert!(false, "the budget is ample"),
        }
    }

    #[test]
    fn without_the_order_of_preference_the_same_placements_fit(world in worlds(), salt in any::<u64>(), picky in any::<bool>(), in_order in 0..12u64, one_by_one in 0..12u64) {
        let every = world.every(&world.view);
        let mut offered = Vec::new();
        let steps = Steps { in_order: in_order / 2, one_by_one };
        let answer = place_in(&world.frame(&world.view), &AMPLE, steps, &mut |placed| {
            offered.push(placed.to_vec());
            !(picky && refuses(salt, placed))
        });
        let distinct: BTreeSet<_> = offered.iter().collect();
        prop_assert_eq!(distinct.len(), offered.len(), "no placement is offered twice");
        prop_assert!(offered.iter().all(|placed| every.contains(placed)));
        let wanted = every.iter().position(|placed| !(picky && refuses(salt, placed)));
        match answer.outcome {
            SharedOutcome::Fits { placements, routes } => {
                world.verify(&placements, &routes);
                prop_assert_eq!(offered.last(), Some(&placements));
                prop_assert!(!(picky && refuses(salt, &placements)));
                if answer.least {
                    prop_assert_eq!(Some(&placements), wanted.map(|at| &every[at]));
                }
            }
            SharedOutcome::Refuted { conflict, refused } => {
                prop_assert_eq!(wanted, None);
                prop_assert_eq!(refused, !every.is_empty());
                prop_assert_eq!(distinct.len(), every.len(), "every placement was offered");
                prop_assert_eq!(&world.every(&world.raised(&conflict)), &every);
            }
            SharedOutcome::Stopped => prop_assert!(false, "the budget is ample"),
        }
    }

    #[test]
    fn a_small_budget_ends_in_a_true_answer(world in worlds(), nodes in 0..40u64) {
        let budget = Budget { nodes, ..AMPLE };
        let whole = place(&world.frame(&world.view), &AMPLE, &mut |_| true);
        let part = place(&world.frame(&world.view), &budget, &mut |_| true);
        prop_assert!(part.nodes <= nodes);
        if part.outcome != SharedOutcome::Stopped {
            let least = |outcome: &SharedOutcome| match outcome {
                SharedOutcome::Fits { placements, .. } => Some(placements.clone()),
                _ => None,
            };
            prop_assert_eq!(least(&part.outcome), least(&whole.outcome));
        }
        prop_assert!(whole.nodes > nodes || part.outcome != SharedOutcome::Stopped);
    }
}

#[test]
fn members_in_their_own_order_and_one_by_one_get_the_same_answer() {
    const WORLDS: u64 = 400;
    let (mut fit, mut refuted) = (0, 0);
    for seed in 0..WORLDS {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let members = rng.random_range(6..=9usize);
        let most = rng.random_range(1..=4);
        let wants: Vec<u64> = (0..members).map(|_| rng.random_range(1..=most) + 1).collect();
        let total: u64 = wants.iter().sum();
        let links: Vec<(usize, usize, u64)> = (0..rng.random_range(0..=members))
            .map(|_| {
                let from = rng.random_range(0..members - 1);
                (from, rng.random_range(from + 1..members), rng.random_range(1..=2))
            })
            .collect();
        let mut world = mesh(&wants, &links);
        for free in &mut world.view.free_cpus {
            *free = Cpus(rng.random_range(0..=2 * total / 7 + 2).min(8));
        }
        for free in &mut world.view.free_bps {
            *free = [BitsPerSecond(rng.random_range(0..=2)); 2];
        }
        if rng.random_bool(0.5) {
            let first = world.members[0].candidates.clone();
            world.members.iter_mut().for_each(|member| member.candidates.clone_from(&first));
        }
        let in_order = place_in(&world.frame(&world.view), &AMPLE, Steps::UNBOUNDED, &mut |_| true);
        let one_by_one = place_in(
            &world.frame(&world.view),
            &AMPLE,
            Steps { in_order: 0, ..Steps::UNBOUNDED },
            &mut |_| true,
        );
        match (in_order.outcome, one_by_one.outcome) {
            (
                SharedOutcome::Fits { placements, routes },
                SharedOutcome::Fits { placements: others, routes: other_routes },
            ) => {
                assert_eq!(placements, others, "seed {seed}");
                world.verify(&placements, &routes);
                world.verify(&placements, &other_routes);
                fit += 1;
            }
            (SharedOutcome::Refuted { .. }, SharedOutcome::Refuted { conflict, .. }) => {
                let raised = world.raised(&conflict);
                let again = place(&world.frame(&raised), &AMPLE, &mut |_| true);
                let never = matches!(again.outcome, SharedOutcome::Refuted { .. });
                assert!(never, "seed {seed}: {conflict:?}");
                refuted += 1;
            }
            (one, other) => panic!("seed {seed}: {one:?} and {other:?}"),
        }
    }
    println!("{fit} fit, {refuted} refuted");
    assert!(fit >= 50 && refuted >= 50, "{fit} fit, {refuted} refuted");
}

/// Seven sites with 8 CPUs each, fully meshed with 10 bit/s, and this many members that want this
/// much, anywhere.
fn mesh(members: &[u64], links: &[(usize, usize, u64)]) -> World {
    let site: Site = Some((8, 8, 0, 0));
    let paths: Vec<Path> =
        (0..7).flat_map(|a| (a..6).map(move |b| (a, b - a, 10, 10, 10, true, 0))).collect();
    let members: Vec<(u64, u64, u64, usize)> =
        members.iter().map(|cpus| (*cpus, 0, 0, 7)).collect();
    let links: Vec<(usize, usize, u64, Option<i64>)> =
        links.iter().map(|(from, to, rate)| (*from, to - from - 1, *rate, None)).collect();
    world(&[site; 7], &paths, false, &members, &links, 4)
}

fn outcome(world: &World) -> SharedOutcome {
    place(&world.frame(&world.view), &AMPLE, &mut |_| true).outcome
}

#[test]
fn members_that_fit_at_their_first_candidate_share_it_without_a_search() {
    let world = mesh(&[3, 3, 2], &[(0, 1, 99), (1, 2, 99)]);
    let first = world.members[0].candidates[0];
    let answer = place(&world.frame(&world.view), &Budget { nodes: 0, ..AMPLE }, &mut |_| true);
    let routes = vec![Vec::new(); 2];
    let fits = SharedOutcome::Fits { placements: vec![first; 3], routes };
    assert_eq!((answer.outcome, answer.nodes), (fits, 0));
}

#[test]
fn a_member_too_many_is_refuted_without_a_search() {
    // Each site takes two members of 3 CPUs, though together they want 45 of 56.
    let world = mesh(&[3; 15], &[]);
    let mut busy = world.clone();
    busy.view.free_cpus[2] = Cpus(7);
    for world in [&world, &busy] {
        let answer = place(&world.frame(&world.view), &AMPLE, &mut |_| true);
        let refuted = SharedOutcome::Refuted { conflict: Conflict::default(), refused: false };
        assert_eq!((answer.outcome, answer.nodes), (refuted, 0), "it never fits");
    }
    let mut world = mesh(&[3; 14], &[]);
    assert!(matches!(outcome(&world), SharedOutcome::Fits { .. }));
    // At site 2 is room for one member only; that site 4 is busy does not matter.
    world.view.free_cpus[2] = Cpus(5);
    world.view.free_cpus[4] = Cpus(6);
    let conflict = Conflict { sites: vec![(VertexIndex(2), ResourceKind::Cpus)], edges: vec![] };
    assert_eq!(outcome(&world), SharedOutcome::Refuted { conflict, refused: false });
}

#[test]
fn channels_that_their_sites_cannot_carry_are_refuted_with_the_edges() {
    // Both members fill a site, so the channel needs an edge, and five of six edges of the one site
    // where the first member may be placed are full.
    let mut world = mesh(&[8, 8], &[(0, 1, 7), (0, 1, 7)]);
    world.members[0].candidates = vec![VertexIndex(0)];
    for edge in 1..6 {
        world.view.free_bps[edge] = [BitsPerSecond(6); 2];
    }
    let SharedOutcome::Refuted { conflict, refused: false } = outcome(&world) else {
        panic!("one edge carries one channel");
    };
    let edges: Vec<u32> = conflict.edges.iter().map(|(edge, _)| edge.0).collect();
    assert_eq!((conflict.sites.len(), edges), (0, vec![1, 2, 3, 4, 5]));
    world.view.free_bps[5] = [BitsPerSecond(7); 2];
    assert!(matches!(outcome(&world), SharedOutcome::Fits { .. }));
}
