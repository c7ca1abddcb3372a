//! Requests that want storage beside CPUs: every planner does what the enumeration does, what is said
//! to bind is true, and requests without further kinds cost what they cost before.

use coalloc_common::topology::{FrameView, SiteResource};
use coalloc_common::{
    Amount, BottleneckKind, CoAllocation, Reason, ResourceKind, Topology, UnitValue,
};
use coalloc_plan::baseline::Backtrack;
use coalloc_plan::explain::{bottleneck, check};
use coalloc_plan::ip::brute::Brute;
use coalloc_plan::ip::{Mip, MipBackend, verify};
use coalloc_plan::smaller::smaller;
use coalloc_plan::{FramePlanner, Instance, Outcome};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

use crate::fixtures::{self, AMPLE, hops, plan};

const STORAGE: ResourceKind = ResourceKind::Storage;

/// A tiny instance in which most sites have storage, part of it taken, and most demands want some.
pub(crate) fn with_storage(rng: &mut ChaCha8Rng) -> (Topology, CoAllocation, FrameView) {
    let (bare, mut request, mut view) = fixtures::tiny(rng);
    let mut topology = Topology::new();
    for vertex in bare.vertices() {
        let mut vertex = vertex.clone();
        if vertex.compute.is_some() && rng.random_bool(0.8) {
            let resource = STORAGE.resource_at("name", vertex.name.as_str()).expect("a name");
            let capacity = Amount(rng.random_range(1..=6));
            let unit_value = UnitValue(rng.random_range(0..=3));
            vertex.others.insert(STORAGE, SiteResource { resource, capacity, unit_value });
        }
        topology.add_vertex(vertex).expect("a vertex");
    }
    for edge in bare.edges() {
        topology.add_edge(edge.clone()).expect("an edge");
    }
    for (at, vertex, _) in topology.sites() {
        if let Some(own) = vertex.others.get(&STORAGE) {
            view.set_free(STORAGE, at, Amount(rng.random_range(0..=own.capacity.0)));
        }
    }
    for site in &mut request.sites {
        if rng.random_bool(0.6) {
            site.set_amount(STORAGE, Amount(rng.random_range(1..=4)));
        }
    }
    (topology, request, view)
}

#[test]
fn planners_ask_for_storage_as_the_enumeration_does() {
    const INSTANCES: u64 = 6_000;
    let (mut feasible, mut by_storage) = (0u64, 0u64);
    for seed in 0..INSTANCES {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let (topology, request, view) = with_storage(&mut rng);
        let options = hops(rng.random_range(1..=4));
        let instance = Instance::new(&topology, &request, &view);
        let brute = Brute { options }.plan(&instance, &AMPLE);
        let exact = plan(&topology, &request, &view, options);
        let first = (Backtrack { options }).plan(&instance, &AMPLE);
        let library = seed < 600;
        let mip = library.then(|| Mip::new(options, MipBackend::Microlp).plan(&instance, &AMPLE));
        match (brute, exact) {
            (Outcome::Planned(brute), Ok(exact)) => {
                assert_eq!(brute.cost, exact.cost, "seed {seed}");
                let Outcome::Planned(first) = first else { panic!("seed {seed}: {first:?}") };
                assert_eq!(verify(&instance, &options, &first), Ok(()), "seed {seed}");
                if let Some(mip) = mip {
                    let Outcome::Planned(mip) = mip else { panic!("seed {seed}: {mip:?}") };
                    assert_eq!(mip.cost, brute.cost, "seed {seed}");
                }
                assert_eq!(bottleneck(&topology, &request, &view, &options), None, "seed {seed}");
                feasible += 1;
            }
            (Outcome::Refused(_), Err(refusal)) => {
                assert!(matches!(first, Outcome::Refused(_)), "seed {seed}: {first:?}");
                assert!(!matches!(mip, Some(Outcome::Planned(_))), "seed {seed}");
                assert_ne!(refusal.reason, Reason::BudgetExhausted, "seed {seed}");
                let Some(said) = bottleneck(&topology, &request, &view, &options) else { continue };
                let proof = check(&topology, &request, &view, &options, &said);
                assert_eq!(proof, Ok(()), "seed {seed}: {said:?}");
                by_storage += u64::from(said.resource_kind == Some(STORAGE));
            }
            (brute, exact) => panic!("seed {seed}: brute {brute:?}, exact {exact:?}"),
        }
    }
    println!("{feasible} of {INSTANCES} feasible, {by_storage} refused for storage");
    assert!(feasible * 10 >= INSTANCES, "{feasible}");
    assert!(by_storage * 20 >= INSTANCES, "{by_storage}");
}

#[test]
fn a_plan_holds_the_storage_at_the_crm_of_its_site_and_pays_for_it() {
    let (mut held, mut dearer) = (0, 0);
    for seed in 0..600 {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let (topology, request, view) = with_storage(&mut rng);
        let Ok(plan) = plan(&topology, &request, &view, hops(3)) else { continue };
        let segments = plan.segments(&topology, &request);
        let mut points = 0;
        for (site, at) in request.sites.iter().zip(&plan.placements) {
            let (wanted, vertex) = (site.amount(STORAGE), topology.vertex(*at));
            if wanted == Amount::ZERO {
                continue;
            }
            let own = &vertex.others[&STORAGE];
            let rm = &vertex.compute.as_ref().expect("a site").rm;
            let mut held_there = segments[rm].iter();
            let segment = held_there.find(|one| one.resource == own.resource).expect("a segment");
            assert_eq!(segment.amount, wanted, "seed {seed}");
            points += own.unit_value.0 * wanted.0 * 1_000;
            held += 1;
        }
        // The same plan without storage costs less by exactly what the storage is worth.
        let mut bare = request.clone();
        bare.sites.iter_mut().for_each(|site| site.set_amount(STORAGE, Amount::ZERO));
        let without = plan.preference(&topology, &bare).milli;
        assert_eq!(plan.preference(&topology, &request).milli, without + points, "seed {seed}");
        dearer += u64::from(points > 0);
    }
    assert!(held > 100 && dearer > 50, "{held}, {dearer}");
}

#[test]
fn less_storage_is_offered_where_that_would_do() {
    let mut offered = 0;
    for seed in 0..600 {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let (topology, request, view) = with_storage(&mut rng);
        let fits = |one: &CoAllocation| plan(&topology, one, &view, hops(3)).ok();
        if fits(&request).is_some() {
            continue;
        }
        for one in smaller(&request, &mut |one| fits(one).into()) {
            let less = |site: &usize| {
                one.request.sites[*site].amount(STORAGE) < request.sites[*site].amount(STORAGE)
            };
            if one.request.sites.len() < request.sites.len()
                || !(0..request.sites.len()).any(|site| less(&site))
                || !one.change.contains("GB of storage")
            {
                continue;
            }
            let kept = one.request.sites.iter().zip(&request.sites);
            assert!(kept.into_iter().all(|(less, all)| less.cpus == all.cpus), "seed {seed}");
            offered += 1;
        }
    }
    assert!(offered > 5, "{offered}");
}

#[test]
fn a_pinned_demand_names_the_kind_that_is_short() {
    let (mut cpus, mut storage) = (0, 0);
    for seed in 0..2_000 {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let (topology, request, view) = with_storage(&mut rng);
        let Some(said) = bottleneck(&topology, &request, &view, &hops(3)) else { continue };
        if said.kind != BottleneckKind::Site {
            continue;
        }
        let site = request.sites.iter().find(|site| site.name.as_str() == said.demands[0]);
        let kind = said.resource_kind.unwrap_or(ResourceKind::Cpus);
        assert_eq!(Amount(said.requested), site.expect("a site").amount(kind), "seed {seed}");
        *(if kind == STORAGE { &mut storage } else { &mut cpus }) += 1;
    }
    assert!(cpus > 10 && storage > 10, "{cpus}, {storage}");
}
