//! The statements about what binds are true on every infeasible instance, compared with the
//! enumeration. Smaller requests and nearest windows are compared with trying everything.

use std::collections::BTreeMap;

use coalloc_common::timetable::{Layer, Timetable};
use coalloc_common::topology::{Direction, FrameView};
use coalloc_common::{
    Amount, BitsPerSecond, Bottleneck, BottleneckKind, CoAllocation, Cpus, Reason, Span, Time,
    Topology, VertexName, Window,
};
use coalloc_plan::explain::{bottleneck, check, combination, explain, never};
use coalloc_plan::ip::brute::Brute;
use coalloc_plan::ip::{Exact, verify};
use coalloc_plan::nearest::NearestWindowSearch;
use coalloc_plan::smaller::smaller;
use coalloc_plan::{FramePlanner, Instance, Outcome};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

use crate::fixtures::{self, AMPLE, hops, plan};

/// The view in which the binding resources have what is requested of them.
fn relaxed(topology: &Topology, view: &FrameView, found: &Bottleneck) -> FrameView {
    let mut view = view.clone();
    for (at, place, _) in topology.sites() {
        if found.resources.iter().any(|name| *name == place.name.as_str()) {
            view.free_cpus[at.at()] = Cpus(u64::from(u32::MAX));
        }
    }
    for (edge, free) in topology.edges().iter().zip(&mut view.free_bps) {
        for way in [Direction::AToB, Direction::BToA] {
            if found.resources.iter().any(|name| *name == edge.resource(way).as_str()) {
                free[way.at()] = BitsPerSecond(found.requested.max(free[way.at()].0));
            }
        }
    }
    view
}

type Make = fn(&mut ChaCha8Rng) -> (Topology, CoAllocation, FrameView);

#[test]
fn what_is_said_to_bind_is_true_of_every_infeasible_instance_and_said_of_no_feasible_one() {
    const INSTANCES: u64 = 12_000;
    let makers: [(&str, Make, u64); 3] = [
        ("tiny", fixtures::tiny, INSTANCES),
        ("crowded", fixtures::crowded, INSTANCES / 8),
        ("staged", fixtures::staged, INSTANCES / 8),
    ];
    for (name, make, instances) in makers {
        let (mut infeasible, mut explained) = (0u64, 0u64);
        let mut kinds: BTreeMap<BottleneckKind, u64> = BTreeMap::new();
        for seed in 0..instances {
            let mut rng = ChaCha8Rng::seed_from_u64(seed);
            let (topology, request, view) = make(&mut rng);
            let options = hops(rng.random_range(2..=4));
            let said = bottleneck(&topology, &request, &view, &options);
            let brute = Brute { options }.plan(&Instance::new(&topology, &request, &view), &AMPLE);
            if let Outcome::Planned(_) = brute {
                assert_eq!(said, None, "{name} {seed}: there is a plan");
                continue;
            }
            infeasible += 1;
            let Some(said) = said else { continue };
            let proof = |view: &FrameView| check(&topology, &request, view, &options, &said);
            assert_eq!(proof(&view), Ok(()), "{name} {seed}: {said:?}");
            if !said.resources.is_empty() {
                let wide = relaxed(&topology, &view, &said);
                assert!(proof(&wide).is_err(), "{name} {seed}: {said:?} does not depend on it");
            }
            explained += 1;
            *kinds.entry(said.kind).or_default() += 1;
        }
        println!("{name}: {explained} of {infeasible} infeasible explained: {kinds:?}");
        assert!(explained * 100 >= infeasible * 60, "{name}: {explained} of {infeasible}");
    }
}

/// Timetables for every resource of a topology, most of them with bookings.
struct World {
    topology: Topology,
    sites: BTreeMap<usize, Timetable>,
    lanes: BTreeMap<(usize, usize), Timetable>,
    ends: Vec<Time>,
}

const HORIZON_S: i64 = 4_000;

fn at(seconds: i64) -> Time {
    Time::from_us(seconds * 1_000_000)
}

impl World {
    fn new(topology: Topology, rng: &mut ChaCha8Rng) -> Self {
        let sites = topology.sites().map(|(at, _, compute)| (at.at(), compute.capacity.into()));
        let sites = sites.map(|(at, capacity)| (at, Timetable::new(capacity))).collect();
        let lanes = topology.edges().iter().enumerate().flat_map(|(index, edge)| {
            let lanes = if edge.is_shared() { 1 } else { 2 };
            (0..lanes).map(move |lane| ((index, lane), Timetable::new(edge.capacity.into())))
        });
        let lanes = lanes.collect();
        let mut world = Self { topology, sites, lanes, ends: Vec::new() };
        for _ in 0..rng.random_range(5..120) {
            world.book(rng);
        }
        world
    }

    fn book(&mut self, rng: &mut ChaCha8Rng) {
        let start = rng.random_range(0..HORIZON_S);
        let end = start + rng.random_range(1..800);
        let window = Window::new(at(start), at(end)).expect("a window");
        let all = self.sites.values_mut().chain(self.lanes.values_mut());
        let mut all: Vec<&mut Timetable> = all.collect();
        let chosen = rng.random_range(0..all.len());
        let free = all[chosen].free_min(window);
        let amount = if rng.random_bool(0.5) { free.0 } else { rng.random_range(0..=free.0) };
        let layer = if rng.random_bool(0.2) { Layer::Held } else { Layer::Booked };
        all[chosen].add(layer, window, Amount(amount)).expect("it is free");
        self.ends.push(window.end());
    }

    fn view(&self, window: Window) -> FrameView {
        let mut view = FrameView::nothing(&self.topology, window);
        for (at, timetable) in &self.sites {
            view.free_cpus[*at] = Cpus(timetable.free_min(window).0);
        }
        for (index, edge) in self.topology.edges().iter().enumerate() {
            let free = |lane| BitsPerSecond(self.lanes[&(index, lane)].free_min(window).0);
            let back = usize::from(!edge.is_shared());
            view.free_bps[index] = [free(0), free(back)];
        }
        view
    }

    fn next_change(&self, window: Window) -> Option<Time> {
        let all = self.sites.values().chain(self.lanes.values());
        all.filter_map(|timetable| timetable.next_relief(window.start())).min()
    }
}

#[test]
fn the_nearest_window_is_the_earliest_of_all_booking_ends_that_fits() {
    let (mut found, mut none, mut rounds_most) = (0, 0, 0);
    for seed in 0..1_500 {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let (topology, mut request, _) = fixtures::tiny(&mut rng);
        request.timing.duration = Span::from_secs(rng.random_range(1..900));
        let options = hops(3);
        let world = World::new(topology, &mut rng);
        let (first, last) = (at(rng.random_range(0..500)), at(HORIZON_S));
        let length = request.timing.duration;
        let fits = |start: Time| {
            let window = Window::starting(start, length).expect("a window");
            plan(&world.topology, &request, &world.view(window), options).is_ok()
        };

        let batch = rng.random_range(1..40);
        let mut search = NearestWindowSearch::new(first, last, length);
        let mut rounds = 0;
        let nearest = loop {
            for frame in search.questions(batch) {
                assert!(frame.start() >= first && frame.start() <= last);
                search.learn(world.view(frame), world.next_change(frame));
            }
            rounds += 1;
            let Some(view) = search.candidate() else { break None };
            assert_eq!(*view, world.view(view.window));
            match plan(&world.topology, &request, view, options).ok() {
                Some(plan) => break Some(plan.window.start()),
                None => search.refute(),
            }
        };
        rounds_most = rounds_most.max(rounds);

        // The ends of all bookings, and random instants between them, which must not be better.
        let mut starts: Vec<Time> = world.ends.iter().copied().chain([first]).collect();
        starts.extend((0..50).map(|_| Time::from_us(rng.random_range(0..HORIZON_S * 1_000_000))));
        starts.retain(|start| *start >= first && *start <= last);
        starts.sort_unstable();
        let expected = starts.into_iter().find(|start| fits(*start));
        assert_eq!(nearest, expected, "seed {seed}");
        assert_eq!(search.is_complete(), nearest.is_none(), "seed {seed}");
        match nearest {
            Some(start) if start > first => found += 1,
            Some(_) => {}
            None => none += 1,
        }
    }
    println!("found later {found}, never {none}, {rounds_most} rounds at most");
    assert!(found > 200 && none > 200, "{found} found later, {none} never");
}

#[test]
fn a_smaller_request_fits_and_is_the_largest_that_does() {
    let mut kinds: BTreeMap<&str, u32> = BTreeMap::new();
    for seed in 0..3_000 {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let (topology, request, view) = fixtures::tiny(&mut rng);
        let mut request = request;
        request.links.iter_mut().for_each(|link| link.bandwidth.0 *= 3);
        let options = hops(3);
        if plan(&topology, &request, &view, options).is_ok() {
            continue;
        }
        let found =
            smaller(&request, &mut |tried| plan(&topology, tried, &view, options).ok().into());
        for one in found {
            assert_eq!(one.request.check(), Ok(()), "seed {seed}: {}", one.change);
            let instance = Instance::new(&topology, &one.request, &view);
            assert_eq!(verify(&instance, &options, &one.plan), Ok(()));
            let kind = match one.change.as_str() {
                change if change.contains("without") => "site",
                change if change.contains('%') => "both",
                change if change.contains("CPU") => "cpus",
                _ => "rates",
            };
            *kinds.entry(kind).or_default() += 1;
            // The same request with one step more of what was reduced does not fit.
            let mut more = one.request.clone();
            if kind == "cpus" {
                let less = |at: &usize| one.request.sites[*at].cpus < request.sites[*at].cpus;
                let less: Vec<usize> = (0..request.sites.len()).filter(less).collect();
                let cap = less.iter().map(|at| one.request.sites[*at].cpus.0).max();
                let cap = cap.expect("something is less") + 1;
                for at in less {
                    more.sites[at].cpus.0 = request.sites[at].cpus.0.min(cap);
                }
            } else if kind == "rates" {
                let rate = |request: &CoAllocation, at: usize| request.links[at].bandwidth.0;
                let less = |at: &usize| rate(&one.request, *at) < rate(&request, *at);
                let less: Vec<usize> = (0..request.links.len()).filter(less).collect();
                let cap = less.iter().map(|at| rate(&one.request, *at)).max();
                let cap = cap.expect("something is less") + 1_000_000;
                for at in less {
                    more.links[at].bandwidth.0 = rate(&request, at).min(cap);
                }
            } else {
                continue;
            }
            assert!(plan(&topology, &more, &view, options).is_err(), "seed {seed}: {}", one.change);
        }
    }
    println!("{kinds:?}");
    for kind in ["cpus", "rates", "both", "site"] {
        assert!(kinds.get(kind).is_some_and(|count| *count > 20), "{kind}: {kinds:?}");
    }
}

#[test]
fn what_only_together_does_not_fit_fits_once_the_named_paths_have_what_is_requested() {
    let (mut together, mut told) = (0u64, 0u64);
    for seed in 0..3_000 {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let staged = seed % 2 == 0;
        let make = if staged { fixtures::staged } else { fixtures::tiny };
        let (topology, request, mut view) = make(&mut rng);
        if staged {
            for (free, edge) in view.free_bps.iter_mut().zip(topology.edges()) {
                let left = rng.random_range(0..=edge.capacity.0);
                *free = if rng.random_bool(0.3) { [BitsPerSecond(left); 2] } else { *free };
            }
        }
        let options = hops(4);
        let instance = Instance::new(&topology, &request, &view);
        let Outcome::Refused(refusal) = Exact::new(options).plan(&instance, &AMPLE) else {
            continue;
        };
        let refusal = explain(&topology, &request, &view, &options, refusal);
        if refusal.bottleneck.is_some() {
            continue;
        }
        together += 1;
        // Only islands that are too small are another reason.
        let island = refusal.detail.contains("places for them");
        assert!(island || refusal.detail.contains("together"), "seed {seed}: {refusal}");
        let mut fits = |view: &FrameView| plan(&topology, &request, view, options).ok();
        let refusal = combination(&topology, &request, &view, &options, refusal, &mut fits);
        let Some(found) = refusal.bottleneck else { continue };
        assert_eq!(found.kind, BottleneckKind::Combination);
        assert!(found.requested > found.available, "seed {seed}: {found:?}");
        let free = |name: &String| {
            let lanes = topology.edges().iter().zip(&view.free_bps);
            let of = |(edge, free): (&coalloc_common::topology::Edge, &[BitsPerSecond; 2])| {
                let ways = [Direction::AToB, Direction::BToA];
                let way = ways.into_iter().find(|way| edge.resource(*way).as_str() == name)?;
                Some(free[way.at()].0)
            };
            lanes.map(|(edge, free)| of((edge, free))).find_map(|free| free).expect("a path")
        };
        assert_eq!(found.available, found.resources.iter().map(free).sum::<u64>());
        assert!(fits(&relaxed(&topology, &view, &found)).is_some(), "seed {seed}: {found:?}");
        told += 1;
    }
    println!("{together} fit only together not, of {told} the closest plan is told");
    assert!(together > 50 && told * 2 > together, "{told} of {together}");
}

#[test]
fn a_refusal_says_who_what_and_how_much() {
    let topology = fixtures::federation(&[("N", &[8, 16], &["X1"]), ("S", &[8, 16], &["X1"])]);
    let options = hops(4);
    let told = |request: &CoAllocation, view: &FrameView| {
        let instance = Instance::new(&topology, request, view);
        let Outcome::Refused(refusal) = Exact::new(options).plan(&instance, &AMPLE) else {
            panic!("it fits")
        };
        explain(&topology, request, view, &options, refusal)
    };
    let pin = |request: &mut CoAllocation, places: &[&str]| {
        for (site, place) in request.sites.iter_mut().zip(places) {
            site.pinned = Some(VertexName::composed(*place));
        }
    };
    let empty = FrameView::empty_federation(&topology, fixtures::window());
    // N0 is joined to N1 by 5 Gbit/s and to X1 by 10 Gbit/s. Two links of 8 Gbit/s to N0 would both
    // need the edge to X1.
    let mut request = fixtures::request(&[1; 3], &[(0, 1), (0, 2)], 8_000_000_000);
    pin(&mut request, &["N0", "S0", "S1"]);
    let refusal = told(&request, &empty);
    let found = refusal.bottleneck.expect("a cut");
    assert_eq!(refusal.reason, Reason::BeyondCapacity, "{}", refusal.detail);
    assert_eq!((found.requested, found.available), (16_000_000_000, 15_000_000_000));
    assert_eq!(
        (found.kind, &found.demands[..]),
        (BottleneckKind::Cut, &["r0-r1".to_owned(), "r0-r2".to_owned()][..])
    );
    assert!(refusal.detail.contains("1 Gbit/s short"), "{}", refusal.detail);
    // One link, with only one route that could carry it, and which is too full now.
    let mut request = fixtures::request(&[1; 2], &[(0, 1)], 6_000_000_000);
    pin(&mut request, &["N0", "S0"]);
    let mut view = empty.clone();
    let (into, _) = (0..)
        .zip(topology.edges())
        .find(|(_, edge)| edge.name.as_str() == "S-2-X1")
        .expect("S0 is the third site");
    view.free_bps[into] = [BitsPerSecond(4_000_000_000); 2];
    let refusal = told(&request, &view);
    let found = refusal.bottleneck.expect("a path");
    // The other route, through S1, has 5 Gbit/s.
    assert_eq!(
        (found.kind, found.requested, found.available),
        (BottleneckKind::Paths, 6_000_000_000, 5_000_000_000)
    );
    assert_eq!(refusal.reason, Reason::NoRoute);
    assert!(found.resources.contains(&"S-2-X1".to_owned()), "{found:?}");
    // A pinned site.
    let mut view = empty.clone();
    view.free_cpus[0] = Cpus(3);
    let mut request = fixtures::request(&[5, 1], &[], 1);
    pin(&mut request, &["N0", "S0"]);
    let refusal = told(&request, &view);
    assert!(refusal.detail.contains("r0 needs 5 CPUs at N0, which has 3 CPUs free"), "{refusal}");
    assert!(refusal.detail.ends_with("2 CPUs short"), "{refusal}");
    assert_eq!(refusal.bottleneck.expect("a site").kind, BottleneckKind::Site);
}

/// Three sites and only one path: a chain of two links needs two paths.
#[test]
fn a_chain_that_the_empty_federation_has_no_paths_for_is_refused_for_good() {
    let mut topology = Topology::new();
    let mut site = |name| topology.add_vertex(fixtures::site(name, "D", 8, 1)).expect("a new name");
    let (a, b, _) = (site("A"), site("B"), site("C"));
    topology.add_edge(fixtures::edge("A-B", a, b, 1_000_000_000, 1)).expect("a new name");
    let chain = |rate| fixtures::request(&[1; 3], &[(0, 1), (1, 2)], rate);
    let options = hops(4);
    let told =
        |request: &CoAllocation| never(&topology, request, fixtures::window(), &options, &AMPLE);
    for rate in [1, 1_000_000_000] {
        let refusal = told(&chain(rate)).expect("one path is not two");
        assert_eq!(refusal.reason, Reason::BeyondCapacity, "{refusal}");
        assert!(!refusal.reason.transient() && refusal.window.is_none(), "{refusal}");
        assert!(refusal.detail.contains("even when nothing is booked"), "{refusal}");
    }
    assert_eq!(told(&fixtures::request(&[1; 2], &[(0, 1)], 1)), None);
}

#[test]
fn for_good_is_said_exactly_of_what_the_empty_federation_has_no_plan_for() {
    let (mut good, mut fits) = (0u64, 0u64);
    for seed in 0..6_000 {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let (topology, request, view) = fixtures::tiny(&mut rng);
        let options = hops(4);
        let told = never(&topology, &request, view.window, &options, &AMPLE);
        let empty = FrameView::empty_federation(&topology, view.window);
        let brute = Brute { options }.plan(&Instance::new(&topology, &request, &empty), &AMPLE);
        let has_plan = matches!(brute, Outcome::Planned(_));
        assert_eq!(told.is_none(), has_plan, "seed {seed}: {told:?}");
        good += u64::from(told.is_some_and(|refusal| !refusal.reason.transient()));
        fits += u64::from(has_plan);
    }
    println!("{good} for good, {fits} fit");
    assert!(good > 500 && fits > 500, "{good} for good, {fits} fit");
}
