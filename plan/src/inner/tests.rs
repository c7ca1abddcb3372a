//! Compares the router with all simple routes, listed by brute force, on small random networks.

use coalloc_common::{Time, Window, limits};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

use super::*;

fn window(start: i64, end: i64) -> Window {
    Window::new(Time::from_us(start), Time::from_us(end)).unwrap()
}

/// What is booked of each link, as windows and amounts.
struct TakenCapacity {
    capacities: Vec<u64>,
    taken: Vec<(u32, Window, u64)>,
}

impl TakenCapacity {
    fn of(router: &Router) -> Self {
        let capacities = router.links().iter().map(|link| link.capacity).collect();
        Self { capacities, taken: Vec::new() }
    }

    fn add(&mut self, way: &[u32], demand: &Demand) {
        self.taken.extend(way.iter().map(|link| (*link, demand.window, demand.amount)));
    }

    fn remove(&mut self, way: &[u32], demand: &Demand) {
        for link in way {
            let one = (*link, demand.window, demand.amount);
            let at = self.taken.iter().position(|other| *other == one).unwrap();
            self.taken.remove(at);
        }
    }

    fn is_within_capacity(&self) -> bool {
        let all = window(0, 1_000);
        (0u32..).zip(&self.capacities).all(|(link, _)| self.free(link, all) >= 0)
    }
}

impl FreeCapacity for TakenCapacity {
    fn free(&self, link: u32, window: Window) -> i64 {
        let here: Vec<_> =
            self.taken.iter().filter(|(l, w, _)| *l == link && w.overlaps(window)).collect();
        let starts = here.iter().map(|(_, w, _)| w.start().max(window.start()));
        let most = starts
            .map(|at| {
                let at = Window::new(at, Time::from_us(at.as_us() + 1)).unwrap();
                here.iter()
                    .filter(|(_, w, _)| w.overlaps(at))
                    .map(|(_, _, amount)| amount)
                    .sum::<u64>()
            })
            .max();
        signed(self.capacities[link as usize]) - signed(most.unwrap_or(0))
    }
}

fn random_router(random: &mut ChaCha8Rng, vertices: u32) -> Router {
    let mut links = Vec::new();
    for b in 1..vertices {
        // A tree, so that everything is connected; some more links are added below.
        links.push((random.random_range(0..b), b));
    }
    for _ in 0..random.random_range(1..4) {
        let a = random.random_range(0..vertices);
        let b = (a + random.random_range(1..vertices)) % vertices;
        links.push((a, b));
    }
    let link = |(a, b)| Link {
        a,
        b,
        capacity: random.random_range(1..=6),
        latency: random.random_range(0..=2),
    };
    let links: Vec<Link> = links.into_iter().map(link).collect();
    let path = |random: &mut ChaCha8Rng| {
        let a = random.random_range(0..vertices);
        let b = (a + random.random_range(1..vertices)) % vertices;
        Path { a, b, latency_max: random.random_range(0..=6) }
    };
    let paths = (0..3).map(|_| path(random)).collect();
    let links_max = random.random_range(2..=6);
    Router::new(vertices as usize, links, paths, links_max)
}

/// Every simple route of a path within its bounds.
fn all_ways(router: &Router, path: usize) -> Vec<LinkRoute> {
    fn go(
        router: &Router,
        at: u32,
        path: Path,
        seen: &mut Vec<u32>,
        way: &mut LinkRoute,
        all: &mut Vec<LinkRoute>,
    ) {
        if at == path.b {
            let latency: u64 = way.iter().map(|link| router.links[*link as usize].latency).sum();
            if way.len() <= router.links_max && latency <= path.latency_max {
                all.push(way.clone());
            }
            return;
        }
        for (index, link) in (0u32..).zip(&router.links) {
            let to = if link.a == at { link.b } else { link.a };
            if (link.a == at || link.b == at) && !seen.contains(&to) {
                seen.push(to);
                way.push(index);
                go(router, to, path, seen, way, all);
                way.pop();
                seen.pop();
            }
        }
    }
    let ends = router.paths[path];
    let mut all = Vec::new();
    go(router, ends.a, ends, &mut vec![ends.a], &mut Vec::new(), &mut all);
    all
}

fn random_demand(random: &mut ChaCha8Rng) -> Demand {
    let start = random.random_range(0..6);
    let window = window(start, start + random.random_range(1..5));
    Demand {
        path: random.random_range(0..3),
        amount: random.random_range(1..=4),
        window,
        only: None,
    }
}

/// Whether any choice of routes fits, by trying all of them.
fn any_fits(demands: &[Demand], ways: &[Vec<LinkRoute>], taken: &mut TakenCapacity) -> bool {
    let Some((demand, rest)) = demands.split_first() else { return true };
    ways[demand.path].iter().any(|way| {
        let fits = way.iter().all(|link| taken.free(*link, demand.window) >= signed(demand.amount));
        if !fits {
            return false;
        }
        taken.add(way, demand);
        let found = any_fits(rest, ways, taken);
        taken.remove(way, demand);
        found
    })
}

/// A network, all routes of its paths, and some demands routed over it.
fn ground(seed: u64) -> (Router, Vec<Vec<LinkRoute>>, Vec<Placed>, TakenCapacity, ChaCha8Rng) {
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    let vertices = random.random_range(3..=6);
    let router = random_router(&mut random, vertices);
    let ways: Vec<Vec<LinkRoute>> = (0..3).map(|path| all_ways(&router, path)).collect();
    let mut taken = TakenCapacity::of(&router);
    let mut placed = Vec::new();
    for _ in 0..random.random_range(0..8) {
        let demand = random_demand(&mut random);
        if let Ok(routes) = router.route(std::slice::from_ref(&demand), &taken) {
            taken.add(&routes[0], &demand);
            placed.push(Placed { demand, way: routes[0].clone() });
        }
    }
    (router, ways, placed, taken, random)
}

#[test]
fn the_widest_route_is_that_of_all_simple_routes() {
    let mut partly = 0;
    for seed in 0..2_000 {
        let (router, ways, _, taken, mut random) = ground(seed);
        let Demand { path, window, .. } = random_demand(&mut random);
        let most = random.random_range(1..=8);
        let free: Vec<i64> =
            (0..router.links.len() as u32).map(|l| taken.free(l, window)).collect();
        let wide = ways[path].iter().map(|way| search::narrowest(way, &free)).max();
        let wide = wide.unwrap_or(0).min(most);
        assert_eq!(router.widest(path, &free, most), wide, "seed {seed}");
        partly += u32::from(0 < wide && wide < most);
    }
    assert!(partly > 100, "{partly} cases are between nothing and all");
}

#[test]
fn demands_are_routed_together_exactly_when_some_choice_of_routes_fits() {
    let (mut fit, mut none) = (0, 0);
    for seed in 0..2_000 {
        let (router, ways, _, mut taken, mut random) = ground(seed);
        let demands: Vec<Demand> =
            (0..random.random_range(1..=3)).map(|_| random_demand(&mut random)).collect();
        match router.route(&demands, &taken) {
            Ok(routes) => {
                fit += 1;
                for (demand, way) in demands.iter().zip(&routes) {
                    assert!(ways[demand.path].contains(way), "seed {seed}: {way:?} is no route");
                    taken.add(way, demand);
                }
                assert!(taken.is_within_capacity(), "seed {seed}");
            }
            Err(short) => {
                none += 1;
                assert!(!any_fits(&demands, &ways, &mut taken), "seed {seed}: missed one");
                if demands.len() == 1 {
                    let less = Demand { amount: short.fits, ..demands[0].clone() };
                    assert!(
                        short.fits == 0 || router.route(&[less], &taken).is_ok(),
                        "seed {seed}"
                    );
                    let more = Demand { amount: short.fits + 1, ..demands[0].clone() };
                    assert!(router.route(&[more], &taken).is_err(), "seed {seed}");
                }
            }
        }
    }
    assert!(fit > 300 && none > 300, "{fit} fit, {none} do not");
}

#[test]
fn a_rearrangement_fits_and_is_found_only_when_there_is_one() {
    let (mut more, mut missed) = (0, 0);
    for seed in 0..3_000 {
        let (router, ways, placed, mut taken, mut random) = ground(seed);
        let demand = random_demand(&mut random);
        let alone = router.route(std::slice::from_ref(&demand), &taken).is_ok();
        let found = router.rearrange(
            std::slice::from_ref(&demand),
            &placed,
            &taken,
            limits::INNER_MOVE_EFFORT,
        );
        assert!(
            !alone || found.as_ref().is_some_and(|found| found.moved.is_empty()),
            "seed {seed}"
        );
        let Some(found) = found else {
            let mut all = vec![demand];
            all.extend(placed.iter().map(|placed| placed.demand.clone()));
            missed += u32::from(any_fits(&all, &ways, &mut TakenCapacity::of(&router)));
            continue;
        };
        more += u32::from(!alone);
        for (index, way) in &found.moved {
            let Placed { demand, way: before } = &placed[*index];
            assert!(ways[demand.path].contains(way) && way != before, "seed {seed}");
            taken.remove(before, demand);
            taken.add(way, demand);
        }
        taken.add(&found.ways[0], &demand);
        assert!(taken.is_within_capacity(), "seed {seed}");
    }
    assert!(more > 50, "{more} fit only because others moved");
    // The search is bounded, but these networks are so small that it misses almost nothing.
    assert!(missed * 20 <= more, "{missed} missed, {more} found");
}

#[test]
fn the_fewest_links_come_first_then_the_least_loaded() {
    // A square 0-1-2-3: two routes of two links each from 0 to 2, and a direct link that is narrow.
    let link = |a, b, capacity| Link { a, b, capacity, latency: 0 };
    let links = vec![link(0, 1, 10), link(1, 2, 10), link(0, 3, 10), link(3, 2, 10), link(0, 2, 4)];
    let router = Router::new(4, links, vec![Path { a: 0, b: 2, latency_max: 0 }], 16);
    let mut taken = TakenCapacity::of(&router);
    let mut take = |amount| {
        let demand = Demand { path: 0, amount, window: window(0, 10), only: None };
        let way =
            router.route(std::slice::from_ref(&demand), &taken).map(|mut ways| ways.remove(0));
        if let Ok(way) = &way {
            taken.add(way, &demand);
        }
        way
    };
    assert_eq!(take(3), Ok(vec![4]));
    assert_eq!(take(3), Ok(vec![0, 1]));
    assert_eq!(take(2), Ok(vec![2, 3]), "the other way is loaded");
    assert_eq!(take(9), Err(Short { demand: 0, fits: 8 }));
}
