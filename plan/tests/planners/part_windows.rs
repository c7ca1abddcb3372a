//! Requests whose parts have windows of their own: every planner does what the enumeration does, plans keep to what
//! is free at every instant, and what is said to bind is true.

use std::collections::BTreeMap;

use coalloc_common::topology::{Direction, FrameView};
use coalloc_common::{
    Amount, CoAllocation, Objective, PartWindow, Ranking, Reason, Refusal, ResourceId,
    ResourceKind, RmName, Span, Topology, Window,
};
use coalloc_plan::baseline::{Backtrack, SlidingWindow};
use coalloc_plan::explain::{bottleneck, check, explain, never};
use coalloc_plan::ip::brute::Brute;
use coalloc_plan::ip::{Exact, Mip, MipBackend, verify};
use coalloc_plan::objectives::price_of;
use coalloc_plan::{FramePlanner, Instance, Outcome, Packing, Plan};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

use crate::fixtures::{self, AMPLE, hops, plan};
use crate::kinds::with_storage;
use crate::objectives::priced;

/// The frame is cut into so many slots, at whose ends parts begin and end.
const SLOTS: i64 = 4;

fn slot_length() -> Span {
    Span::from_us(fixtures::window().length().as_us() / SLOTS)
}

/// A window of whole slots; `None` when it is the whole frame.
fn slots(begin: i64, end: i64) -> Option<PartWindow> {
    let slot = slot_length();
    let duration = fixtures::window().length();
    PartWindow::new(slot.saturating_mul(begin), slot.saturating_mul(end - begin), duration)
}

fn any_slots(rng: &mut ChaCha8Rng) -> Option<PartWindow> {
    let begin = rng.random_range(0..SLOTS);
    slots(begin, rng.random_range(begin + 1..=SLOTS))
}

/// What is free in both of two views, in a given window.
fn least(a: &FrameView, b: &FrameView, window: Window) -> FrameView {
    let mut least = FrameView { window, ..a.clone() };
    for (free, other) in least.free_cpus.iter_mut().zip(&b.free_cpus) {
        *free = (*free).min(*other);
    }
    for (free, other) in least.free_bps.iter_mut().zip(&b.free_bps) {
        *free = [free[0].min(other[0]), free[1].min(other[1])];
    }
    for (kind, free) in &mut least.free_others {
        for (free, other) in free.iter_mut().zip(&b.free_others[kind]) {
            *free = (*free).min(*other);
        }
    }
    least
}

/// A tiny instance with windows, and what is free in each slot.
struct Case {
    topology: Topology,
    request: CoAllocation,
    view: FrameView,
    by_slot: Vec<FrameView>,
}

impl Case {
    fn random(rng: &mut ChaCha8Rng) -> Self {
        let (topology, mut request, open) = with_storage(rng);
        for site in &mut request.sites {
            let kinds: Vec<ResourceKind> = site.amounts().map(|(kind, _)| kind).collect();
            for kind in kinds {
                if rng.random_bool(0.6) {
                    site.windows.extend(any_slots(rng).map(|window| (kind, window)));
                }
            }
        }
        for link in &mut request.links {
            link.window = if rng.random_bool(0.7) { any_slots(rng) } else { None };
        }
        assert_eq!(request.check(), Ok(()));
        let by_slot: Vec<FrameView> = (0..SLOTS).map(|_| some_taken(&open, rng)).collect();
        let view = seen(&request, &by_slot);
        Self { topology, request, view, by_slot }
    }

    fn instance(&self) -> Instance<'_> {
        Instance::new(&self.topology, &self.request, &self.view)
    }

    /// The segments of a plan take no more than is free at any instant.
    fn assert_fits(&self, plan: &Plan, seed: u64) {
        let segments = plan.segments(&self.topology, &self.request);
        let instant = |slot: usize| {
            let middle = slot_length().as_us() * slot as i64 + 1;
            fixtures::window().start().saturating_add(Span::from_us(middle))
        };
        for (slot, free) in self.by_slot.iter().enumerate() {
            let mut taken: BTreeMap<(&RmName, &ResourceId), u64> = BTreeMap::new();
            for (rm, segment) in
                segments.iter().flat_map(|(rm, all)| all.iter().map(move |s| (rm, s)))
            {
                let window = segment.window;
                if window.start() <= instant(slot) && instant(slot) < window.end() {
                    *taken.entry((rm, &segment.resource)).or_default() += segment.amount.0;
                }
            }
            for (at, vertex, _) in self.topology.sites() {
                for of in vertex.resources() {
                    let sum = taken.get(&(of.rm, of.resource)).copied().unwrap_or(0);
                    assert!(Amount(sum) <= free.free_at(of.kind, at), "seed {seed}, slot {slot}");
                }
            }
            for (edge, lanes) in self.topology.edges().iter().zip(&free.free_bps) {
                for way in [Direction::AToB, Direction::BToA] {
                    let sum = taken.get(&(&edge.rm, edge.resource(way))).copied().unwrap_or(0);
                    assert!(sum <= lanes[way.at()].0, "seed {seed}, slot {slot}");
                }
            }
        }
    }
}

/// The view with some of it taken.
fn some_taken(open: &FrameView, rng: &mut ChaCha8Rng) -> FrameView {
    let mut view = open.clone();
    for free in &mut view.free_cpus {
        free.0 = if rng.random_bool(0.6) { free.0 } else { rng.random_range(0..=free.0) };
    }
    for lanes in &mut view.free_bps {
        let (shared, less) = (lanes[0] == lanes[1], rng.random_bool(0.4));
        let part = |bps: u64, rng: &mut ChaCha8Rng| bps / 4 * rng.random_range(0..=4);
        if less {
            lanes[0].0 = part(lanes[0].0, rng);
            lanes[1].0 = if shared { lanes[0].0 } else { part(lanes[1].0, rng) };
        }
    }
    for free in view.free_others.values_mut().flatten() {
        free.0 = if rng.random_bool(0.6) { free.0 } else { rng.random_range(0..=free.0) };
    }
    view
}

/// What a coordinator is told of the slots: the whole frame, and the windows that the request asks about.
fn seen(request: &CoAllocation, by_slot: &[FrameView]) -> FrameView {
    let frame = fixtures::window();
    let over = |window: Window| {
        let slot = slot_length().as_us();
        let begin = (window.start().since(frame.start()).as_us() / slot) as usize;
        let end = (window.end().since(frame.start()).as_us() / slot) as usize;
        let first = FrameView { window, ..by_slot[begin].clone() };
        by_slot[begin..end].iter().fold(first, |view, next| least(&view, next, window))
    };
    let parts = request.part_windows().into_iter();
    let parts = parts.map(|part| over(PartWindow::within(Some(part), frame))).collect();
    FrameView { parts, ..over(frame) }
}

#[test]
fn planners_keep_to_the_windows_of_parts_as_the_enumeration_does() {
    const INSTANCES: u64 = 8_000;
    let (mut feasible, mut only_so, mut explained, mut refused) = (0u64, 0u64, 0u64, 0u64);
    for seed in 0..INSTANCES {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let case = Case::random(&mut rng);
        let options = hops(rng.random_range(1..=4));
        let instance = case.instance();
        let Case { topology, request, view, .. } = &case;
        let brute = Brute { options }.plan(&instance, &AMPLE);
        let exact = plan(topology, request, view, options);
        let first = (Backtrack { options }).plan(&instance, &AMPLE);
        let slid = (SlidingWindow { options }).plan(&instance, &AMPLE);
        let mip =
            (seed < 800).then(|| Mip::new(options, MipBackend::Microlp).plan(&instance, &AMPLE));
        if let Outcome::Planned(slid) = &slid {
            assert_eq!(verify(&instance, &options, slid), Ok(()), "seed {seed}");
        }
        match (brute, exact) {
            (Outcome::Planned(brute), Ok(exact)) => {
                assert_eq!(brute.cost, exact.cost, "seed {seed}");
                case.assert_fits(&exact, seed);
                let Outcome::Planned(first) = first else { panic!("seed {seed}: {first:?}") };
                assert_eq!(verify(&instance, &options, &first), Ok(()), "seed {seed}");
                case.assert_fits(&first, seed);
                if let Some(mip) = mip {
                    let Outcome::Planned(mip) = mip else { panic!("seed {seed}: {mip:?}") };
                    assert_eq!(mip.cost, brute.cost, "seed {seed}");
                }
                assert_eq!(bottleneck(topology, request, view, &options), None, "seed {seed}");
                feasible += 1;
                let mut whole = request.clone();
                whole.sites.iter_mut().for_each(|site| site.windows.clear());
                whole.links.iter_mut().for_each(|link| link.window = None);
                only_so += u64::from(plan(topology, &whole, view, options).is_err());
            }
            (Outcome::Refused(_), Err(refusal)) => {
                assert!(matches!(first, Outcome::Refused(_)), "seed {seed}: {first:?}");
                assert!(matches!(slid, Outcome::Refused(_)), "seed {seed}: {slid:?}");
                assert!(!matches!(mip, Some(Outcome::Planned(_))), "seed {seed}");
                refused += 1;
                let Some(said) = bottleneck(topology, request, view, &options) else { continue };
                let proof = check(topology, request, view, &options, &said);
                assert_eq!(proof, Ok(()), "seed {seed}: {said:?}");
                explained += 1;
                let told = explain(topology, request, view, &options, refusal);
                // What islands that are too small refuse for good, no booking is to blame for.
                let island = told.detail.contains("places for them even when nothing is booked");
                assert!(island || told.bottleneck.is_some(), "seed {seed}: {told:?}");
                let within = |window: Window| {
                    view.window.start() <= window.start() && window.end() <= view.window.end()
                };
                assert!(told.window.is_none_or(within), "seed {seed}: {told:?}");
            }
            (brute, exact) => panic!("seed {seed}: brute {brute:?}, exact {exact:?}"),
        }
    }
    println!(
        "{feasible} of {INSTANCES} feasible, {only_so} of them only by the windows of their parts; \
         {explained} of {refused} refusals explained"
    );
    assert!(feasible * 5 >= INSTANCES && only_so * 20 >= INSTANCES, "{feasible}, {only_so}");
    assert!(explained * 2 >= refused, "{explained} of {refused}");
}

/// Tables of cheapest completions from the first node on.
#[test]
fn the_tables_of_exact_keep_to_windows_too() {
    for seed in 0..1_500 {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let case = Case::random(&mut rng);
        let instance = case.instance();
        let options = hops(3);
        let search =
            |tables_after| Exact { tables_after, ..Exact::new(options) }.plan(&instance, &AMPLE);
        match (search(0), search(u64::MAX)) {
            (Outcome::Planned(with), Outcome::Planned(without)) => {
                assert_eq!(with.cost, without.cost, "seed {seed}");
            }
            (Outcome::Refused(_), Outcome::Refused(_)) => {}
            (with, without) => panic!("seed {seed}: {with:?}, {without:?}"),
        }
    }
}

#[test]
fn the_price_is_that_of_the_segments() {
    let (mut compared, mut cheaper) = (0, 0);
    for seed in 0..1_500 {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let mut case = Case::random(&mut rng);
        case.topology = priced(&case.topology, 5_000, &mut rng);
        for link in &mut case.request.links {
            link.bandwidth.0 = link.bandwidth.0.div_ceil(1_000_000) * 1_000_000;
        }
        let Case { topology, request, view, .. } = &case;
        let ranking = Ranking::of(&[Objective::Price]);
        let packing = Packing::new(topology, request, view, ranking, 3);
        let Outcome::Planned(exact) = Exact::new(hops(3)).plan(&packing.instance, &AMPLE) else {
            continue;
        };
        let Outcome::Planned(brute) = (Brute { options: hops(3) }).plan(&packing.instance, &AMPLE)
        else {
            panic!("seed {seed}")
        };
        assert_eq!(exact.cost, brute.cost, "seed {seed}");
        let segments = exact.segments(topology, request);
        let judged = packing.judge(exact);
        let (_, price) = judged.values[0];
        assert_eq!(Some(price), price_of(topology, &segments), "seed {seed}");
        let mut whole = request.clone();
        whole.sites.iter_mut().for_each(|site| site.windows.clear());
        whole.links.iter_mut().for_each(|link| link.window = None);
        let all = Packing::new(topology, &whole, view, ranking, 3).judge(judged.plan).values[0].1;
        assert!(price <= all, "seed {seed}");
        cheaper += u32::from(price < all);
        compared += 1;
    }
    assert!(compared >= 300 && cheaper * 2 >= compared, "{compared}, {cheaper}");
}

#[test]
fn windows_that_say_the_whole_in_full_change_nothing() {
    for seed in 0..300 {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let (topology, request, view) = with_storage(&mut rng);
        assert!(!request.has_part_windows() && request.part_windows().is_empty());
        // A view of parts that nobody asked for is not looked at.
        let mut more = view.clone();
        more.parts = vec![FrameView::nothing(&topology, view.window)];
        let options = hops(3);
        let plans = [&view, &more].map(|view| plan(&topology, &request, view, options));
        assert_eq!(plans[0], plans[1], "seed {seed}");
    }
}

/// A path between two sites that is taken in the middle of the frame.
#[test]
fn a_refusal_names_the_part_and_the_window_that_bind() {
    let mut topology = Topology::new();
    let ends = ["a", "b"].map(|name| topology.add_vertex(fixtures::site(name, "d", 8, 1)).unwrap());
    topology.add_edge(fixtures::edge("ab", ends[0], ends[1], 1_000_000, 1)).unwrap();
    let mut request = fixtures::request(&[4, 4], &[(0, 1)], 1_000_000);
    request.sites[1].windows.extend(slots(1, 3).map(|window| (ResourceKind::Cpus, window)));
    request.links[0].window = slots(0, 1);
    let open = FrameView::empty_federation(&topology, fixtures::window());
    let mut by_slot = vec![open; SLOTS as usize];
    by_slot[1].free_bps[0] = [coalloc_common::BitsPerSecond(0); 2];
    let options = hops(3);
    let planned = |request: &CoAllocation, by_slot: &[FrameView]| {
        let view = seen(request, by_slot);
        let told = |why| explain(&topology, request, &view, &options, why);
        plan(&topology, request, &view, options).map_err(told)
    };
    let plan = planned(&request, &by_slot).unwrap();
    let segments = plan.segments(&topology, &request);
    let windows: Vec<(Window, u64)> =
        segments.values().flatten().map(|segment| (segment.window, segment.amount.0)).collect();
    let at = |begin, end| PartWindow::within(slots(begin, end), fixtures::window());
    assert_eq!(windows.len(), 3, "{segments:?}");
    for expected in [(at(0, 4), 4), (at(1, 3), 4), (at(0, 1), 1_000_000)] {
        assert!(windows.contains(&expected), "{segments:?}");
    }
    let mut later = request.clone();
    later.links[0].window = slots(1, 2);
    let refusal = planned(&later, &by_slot).unwrap_err();
    assert_eq!(refusal.window, Some(at(1, 2)), "{refusal}");
    assert!(refusal.detail.contains("r0-r1") && refusal.detail.contains("ab"), "{refusal}");
    by_slot[2].free_cpus.iter_mut().for_each(|free| free.0 = 3);
    let refusal = planned(&request, &by_slot).unwrap_err();
    assert_eq!(refusal.reason, Reason::InsufficientCapacity);
    let binding = refusal.window.unwrap();
    assert!(at(0, 4).start() <= binding.start() && binding.end() <= at(0, 4).end(), "{refusal}");
    assert!(refusal.to_string().contains("r0") || refusal.to_string().contains("r1"), "{refusal}");
    let mut never_fits = request;
    never_fits.sites[1].cpus.0 = 9;
    let window = fixtures::window();
    let for_good: Refusal = never(&topology, &never_fits, window, &options, &AMPLE).unwrap();
    assert_eq!(for_good.reason, Reason::BeyondCapacity);
}
