//! Objectives packed into one number: the planner's optimum is the lexicographic one, found by
//! enumerating every plan and computing its value from the definitions.

use coalloc_common::price::BandText;
use coalloc_common::topology::{Direction, Edge, FrameView, Vertex};
use coalloc_common::{
    CoAllocation, EdgeIndex, Objective, PriceSchedule, Ranking, RmName, Segment, Span, Time,
    Topology, VertexIndex, Window,
};
use coalloc_plan::ip::brute::Brute;
use coalloc_plan::ip::{Exact, IpOptions, Mip, MipBackend};
use coalloc_plan::{FramePlanner, Packing, RankedPlan, Route, objectives};
use rand::seq::SliceRandom;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

use crate::fixtures::{self, AMPLE};

/// The same graph with prices, qualities and other values.
pub(crate) fn priced(topology: &Topology, prices: u64, rng: &mut ChaCha8Rng) -> Topology {
    let schedule = |rng: &mut ChaCha8Rng| {
        let mut price = || rng.random_range(0..=prices);
        let bands = [
            BandText { from: "00:00", to: "00:10", unit_price: price() },
            BandText { from: "00:10", to: "07:00", unit_price: price() },
            BandText { from: "07:00", to: "24:00", unit_price: price() },
        ];
        PriceSchedule::parse("", &bands).expect("a day")
    };
    let mut priced = Topology::new();
    for vertex in topology.vertices() {
        let mut vertex = Vertex::clone(vertex);
        if let Some(compute) = &mut vertex.compute {
            compute.price = rng.random_bool(0.8).then(|| schedule(rng));
            compute.quality = rng.random_range(0..=1_000);
        }
        priced.add_vertex(vertex).expect("a vertex");
    }
    for edge in topology.edges() {
        let mut edge = Edge::clone(edge);
        edge.price = rng.random_bool(0.8).then(|| schedule(rng));
        edge.quality = rng.random_range(990..=1_000);
        priced.add_edge(edge).expect("an edge");
    }
    priced
}

fn ranking(rng: &mut ChaCha8Rng) -> Ranking {
    let mut all = Objective::ALL;
    all.shuffle(rng);
    Ranking::of(&all[..rng.random_range(1..=5)])
}

/// A plan's value by the definition of an objective, in steps fine enough for all its terms.
fn value(
    objective: Objective,
    topology: &Topology,
    request: &CoAllocation,
    view: &FrameView,
    sites: &[VertexIndex],
    routes: &[Route],
) -> u128 {
    let mut sum = 0;
    for (site, at) in request.sites.iter().zip(sites) {
        let compute = topology.vertex(*at).compute.as_ref().expect("computers");
        let cpus = u128::from(site.cpus.0);
        let price = compute.price.as_ref().map_or(0, |p| p.unit_price_us(view.window));
        let taken = compute.capacity.0 - view.free_cpus[at.at()].0 + site.cpus.0;
        sum += match objective {
            Objective::Start => 0,
            Objective::Price => 1000 * cpus * price,
            Objective::Quality => 1000 * cpus * u128::from(1000 - compute.quality),
            Objective::Load => {
                (1_000_000 * cpus * u128::from(taken)).div_ceil(u128::from(compute.capacity.0))
            }
            Objective::Preference => 1000 * cpus * u128::from(compute.unit_value.0),
        };
    }
    let rates: Vec<u64> = request.links.iter().map(|link| link.bandwidth.0).collect();
    let unit = objectives_unit(&rates);
    let mean = rates.iter().sum::<u64>().div_ceil(rates.len().max(1) as u64);
    for (rate, route) in rates.iter().zip(routes) {
        for (edge, way) in route {
            let units = u128::from(rate.div_ceil(1_000_000) / unit);
            sum += units * step(objective, topology, view, *edge, *way, unit, mean);
        }
    }
    sum
}

fn step(
    objective: Objective,
    topology: &Topology,
    view: &FrameView,
    index: EdgeIndex,
    way: Direction,
    unit: u64,
    mean: u64,
) -> u128 {
    let edge = topology.edge(index);
    let unit = u128::from(unit);
    let free = view.free_bps[index.at()];
    let free = if edge.is_shared() { free[0].min(free[1]) } else { free[way.at()] };
    let taken = u128::from(edge.capacity.0 - free.0 + mean);
    match objective {
        Objective::Start => 0,
        Objective::Price => unit * edge.price.as_ref().map_or(0, |p| p.unit_price_us(view.window)),
        Objective::Quality => unit * u128::from(1000 - edge.quality),
        Objective::Load => (1000 * unit * taken).div_ceil(u128::from(edge.capacity.0)),
        Objective::Preference => unit * u128::from(edge.unit_value.0),
    }
}

/// The largest number of which all rates, in whole Mbit/s, are multiples.
fn objectives_unit(rates: &[u64]) -> u64 {
    let mbps: Vec<u64> = rates.iter().map(|rate| rate.div_ceil(1_000_000)).collect();
    let most = mbps.iter().copied().max().unwrap_or(1);
    let divides = |unit: &u64| mbps.iter().all(|rate| rate.is_multiple_of(*unit));
    (1..=most).rev().find(divides).unwrap_or(1)
}

/// The objectives that count within a frame, in order, for the best of all plans.
fn best_of_all(
    packing: &Packing<'_>,
    options: IpOptions,
    counting: &[Objective],
) -> Option<Vec<u128>> {
    let (topology, request, view) =
        (packing.instance.topology, packing.instance.request, packing.instance.view);
    let mut best: Option<Vec<u128>> = None;
    Brute { options }.every(&packing.instance, &mut |sites, routes| {
        let values = counting.iter().map(|o| value(*o, topology, request, view, sites, routes));
        let values: Vec<u128> = values.collect();
        if best.as_ref().is_none_or(|best| values < *best) {
            best = Some(values);
        }
    });
    best
}

fn solve(planner: &dyn FramePlanner, packing: &Packing<'_>) -> Option<RankedPlan> {
    packing.solve(planner, &AMPLE).ok()
}

fn compare(seeds: std::ops::Range<u64>, prices: u64, window: Window) -> (u64, u64) {
    let (mut feasible, mut coarse) = (0, 0);
    for seed in seeds {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let (topology, request, mut view) = fixtures::tiny(&mut rng);
        let topology = priced(&topology, prices, &mut rng);
        view.window = window;
        let ranking = ranking(&mut rng);
        let options = IpOptions { route_edges_max: rng.random_range(1..=4), ..Default::default() };
        let packing = Packing::new(&topology, &request, &view, ranking, options.route_edges());
        let found = solve(&Exact::new(options), &packing);
        let within = ranking.counting().iter().copied().filter(|o| *o != Objective::Start);
        let mut counting: Vec<Objective> = within.collect();
        let (Some(found), best) = (found, best_of_all(&packing, options, &counting)) else {
            assert_eq!(best_of_all(&packing, options, &counting), None, "seed {seed}");
            continue;
        };
        let mut best = best.expect("a plan was found");
        feasible += 1;
        coarse += u64::from(!found.coarse.is_empty());
        assert_eq!(found.proven_optimal, found.coarse.is_empty(), "seed {seed}");
        // The optimum of an objective that was counted coarsely may be missed, and then also those
        // of all objectives after it.
        let exact = counting.iter().take_while(|o| !found.coarse.contains(o)).count();
        counting.truncate(exact);
        best.truncate(exact);
        let (sites, routes) = (&found.plan.placements, &found.plan.routes);
        let has = counting.iter().map(|o| value(*o, &topology, &request, &view, sites, routes));
        let has: Vec<u128> = has.collect();
        assert_eq!(has, best, "seed {seed}, {ranking:?}");
        for (objective, shown) in &found.values {
            let exact = match objective {
                Objective::Start => u128::from(view.window.start().as_us().unsigned_abs()),
                other => value(*other, &topology, &request, &view, sites, routes),
            };
            assert_eq!(*shown, objectives::shown(*objective, exact), "seed {seed}");
        }
        assert!(found.lower_bound <= found.preference, "seed {seed}");
        if found.proven_optimal {
            assert_eq!(found.lower_bound, found.preference, "seed {seed}");
        }
    }
    (feasible, coarse)
}

fn at(us: i64) -> Time {
    Time::from_us(us)
}

#[test]
fn the_packed_optimum_is_the_lexicographic_one() {
    let half_an_hour = fixtures::window();
    let (feasible, coarse) = compare(0..12_000, 20, half_an_hour);
    println!("{feasible} feasible, {coarse} counted coarsely");
    assert!(feasible >= 4_000, "{feasible} feasible");
    assert!(coarse * 5 < feasible, "{coarse} of {feasible} counted coarsely");
}

#[test]
fn where_bits_do_not_suffice_the_most_important_ones_are_exact_all_the_same() {
    // An odd number of microseconds and prices up to the limit, so that there is no common divisor.
    let year = Window::new(at(1_234_567), at(365 * 86_400_000_003)).expect("a year");
    let (feasible, coarse) = compare(0..6_000, 1_000_000_000, year);
    println!("{feasible} feasible, {coarse} counted coarsely");
    assert!(feasible >= 2_000 && coarse >= 500, "{coarse} of {feasible} counted coarsely");
}

#[test]
fn a_library_finds_the_same_packed_optimum() {
    let mut compared = 0;
    for seed in 0..300 {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let (topology, request, view) = fixtures::tiny(&mut rng);
        let topology = priced(&topology, 20, &mut rng);
        let options = IpOptions::default();
        let ranking = Ranking::of(&[Objective::Price]);
        let packing = Packing::new(&topology, &request, &view, ranking, options.route_edges());
        let exact = solve(&Exact::new(options), &packing);
        let other = solve(&Mip::new(options, MipBackend::default()), &packing);
        match (exact, other) {
            (Some(exact), Some(other)) if other.proven_optimal => {
                assert_eq!(exact.plan.cost, other.plan.cost, "seed {seed}");
                compared += 1;
            }
            (Some(exact), Some(other)) => assert!(exact.plan.cost <= other.plan.cost),
            (None, None) => {}
            (exact, other) => panic!("seed {seed}: exact {exact:?}, mip {other:?}"),
        }
    }
    assert!(compared >= 60, "only {compared} compared");
}

#[test]
fn frames_are_ranked_by_the_same_order() {
    let mut rng = ChaCha8Rng::seed_from_u64(1);
    let topology = priced(&fixtures::elgl(), 5_000, &mut rng);
    let request = fixtures::request(&[4, 4], &[(0, 1)], 1_000_000_000);
    let mut views = Vec::new();
    for hour in [9, 1, 5, 0] {
        let window = Window::starting(at(hour * 3_600_000_000), Span::from_secs(3_600));
        views.push(FrameView::empty_federation(&topology, window.expect("an hour")));
    }
    for named in [vec![Objective::Price], vec![Objective::Start], vec![Objective::Load]] {
        let ranking = Ranking::of(&named);
        let plan = |view| {
            let packing = Packing::new(&topology, &request, view, ranking, 4);
            solve(&Exact::default(), &packing).expect("an empty federation")
        };
        let mut plans: Vec<RankedPlan> = views.iter().map(plan).collect();
        objectives::sort(&mut plans);
        let first: Vec<u64> = plans.iter().map(|judged| judged.values[0].1).collect();
        assert!(first.is_sorted(), "{named:?}: {first:?}");
        let starts: Vec<i64> = plans.iter().map(|j| j.plan.window.start().as_us()).collect();
        assert_eq!(starts.is_sorted(), named[0] != Objective::Price, "{named:?}: {starts:?}");
    }
}

#[test]
fn segments_cost_what_the_plan_that_made_them_costs_whole_or_in_pieces() {
    let mut priced_plans = 0;
    for seed in 0..2_000 {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let (topology, mut request, view) = fixtures::tiny(&mut rng);
        let topology = priced(&topology, 5_000, &mut rng);
        for link in &mut request.links {
            // Several links over one path are one segment. With whole Mbit/s, the rounded sum
            // equals the sum of the rounded rates.
            link.bandwidth.0 = link.bandwidth.0.div_ceil(1_000_000) * 1_000_000;
        }
        let packing = Packing::new(&topology, &request, &view, Ranking::default(), 4);
        let Some(judged) = solve(&Exact::default(), &packing) else { continue };
        let price = judged.values.iter().find(|(objective, _)| *objective == Objective::Price);
        let price = price.map(|(_, price)| *price);
        let mut segments = judged.plan.segments(&topology, &request);
        assert_eq!(objectives::price_of(&topology, &segments), price, "seed {seed}");
        for own in segments.values_mut() {
            let pieces = own.iter().flat_map(|segment| {
                let (from, until) = (segment.window.start(), segment.window.end());
                let cut = Time::from_us(rng.random_range(from.as_us() + 1..until.as_us()));
                let ends = [(from, cut), (cut, until)];
                ends.map(|(from, until)| Segment {
                    window: Window::new(from, until).expect("a piece"),
                    ..segment.clone()
                })
            });
            *own = pieces.collect();
        }
        assert_eq!(objectives::price_of(&topology, &segments), price, "seed {seed}: in pieces");
        priced_plans += u32::from(price != Some(0));
        let Some((rm, own)) = segments.pop_first() else { continue };
        let elsewhere = [(RmName::composed(format!("{rm}-gone")), own)].into();
        assert_eq!(objectives::price_of(&topology, &elsewhere), None, "seed {seed}");
    }
    assert!(priced_plans >= 500, "{priced_plans}");
}
