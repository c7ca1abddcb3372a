//! Federations that fall apart into islands: sites that links join have to be placed on one of
//! them, and planners count before they search.

use coalloc_common::topology::FrameView;
use coalloc_common::{BitsPerSecond, Reason, VertexName};
use coalloc_plan::ip::Exact;
use coalloc_plan::smaller::{Trial, smaller};
use coalloc_plan::{Budget, FramePlanner, Instance, Outcome, Solver, explain};

use crate::fixtures::wide::{self, ring};
use crate::fixtures::{self, AMPLE, hops, plan};

/// Three islands of 11 sites have no room for 12 sites that links join. The search for that would
/// never end.
#[test]
fn islands_too_small_are_found_without_a_search() {
    let topology = wide::islands(3, 11);
    let view = FrameView::empty_federation(&topology, fixtures::window());
    let request = wide::request(12, &ring(12));
    let instance = Instance::new(&topology, &request, &view);
    let answer = Exact::new(hops(4)).search(&instance, &AMPLE, &mut |_, _| {});
    let Outcome::Refused(refusal) = answer.outcome else { panic!("12 sites on 11") };
    assert_eq!((refusal.reason, answer.nodes), (Reason::BeyondCapacity, 0), "{refusal}");
    assert!(refusal.detail.contains("12 sites"), "{refusal}");
    assert!(refusal.detail.contains("11 places"), "{refusal}");
    let told = Solver::Exact.explain(&topology, &request, &view, &hops(4), refusal.clone());
    assert_eq!(told.detail, refusal.detail, "the sentence stands");
    // One site less fits, and so do two islands' worth of sites that nothing joins.
    assert!(plan(&topology, &wide::request(11, &ring(11)), &view, hops(4)).is_ok());
    assert!(plan(&topology, &wide::request(12, &ring(6)), &view, hops(4)).is_ok());
}

/// Islands may come from bookings. Then the refusal is for this frame only.
#[test]
fn islands_of_what_is_free_are_refused_for_now() {
    let topology = wide::islands(1, 12);
    let mut view = FrameView::empty_federation(&topology, fixtures::window());
    for (edge, free) in topology.edges().iter().zip(&mut view.free_bps) {
        // Vertex 3 is cut off.
        if edge.a.0 == 3 || edge.b.0 == 3 {
            *free = [BitsPerSecond(999_999_999); 2];
        }
    }
    let mut request = wide::request(12, &ring(12));
    let refusal = plan(&topology, &request, &view, hops(4)).expect_err("11 sites are joined");
    assert_eq!((refusal.reason, refusal.window), (Reason::NoRoute, Some(view.window)), "{refusal}");
    let told = explain::explain(&topology, &request, &view, &hops(4), refusal.clone());
    assert_eq!(told.detail, refusal.detail);
    for link in &mut request.links {
        link.bandwidth = BitsPerSecond(999_999_999);
    }
    assert!(plan(&topology, &request, &view, hops(4)).is_ok(), "a lower rate joins all 12");
    // A site that is pinned to the vertex by itself leaves nothing for the others.
    let mut request = wide::request(3, &ring(3));
    request.sites[1].pinned = Some(VertexName::composed("n3"));
    assert!(plan(&topology, &request, &view, hops(4)).is_err());
}

/// A planner whose budget ends before it knows does not make a smaller request the largest.
#[test]
fn what_time_cut_short_is_not_called_the_largest() {
    let topology = wide::islands(1, 4);
    let view = FrameView::empty_federation(&topology, fixtures::window());
    let mut request = wide::request(4, &wide::mesh(4));
    for link in &mut request.links {
        link.bandwidth = BitsPerSecond(25_000_000_000);
    }
    let largest = |unknown_from: u64| {
        let mut tried = |tried: &coalloc_common::CoAllocation| -> Trial<coalloc_plan::Plan> {
            let rate = tried.links.iter().map(|link| link.bandwidth.0).max().unwrap_or(0);
            let nodes = if rate >= unknown_from { 0 } else { AMPLE.nodes };
            let instance = Instance::new(&topology, tried, &view);
            match Exact::new(hops(1)).plan(&instance, &Budget { nodes, ..AMPLE }) {
                Outcome::Planned(plan) => Trial::Fits(plan),
                Outcome::Refused(why) if why.reason == Reason::BudgetExhausted => Trial::Unknown,
                Outcome::Refused(_) => Trial::Not,
            }
        };
        let found = smaller(&request, &mut tried);
        let rates = found.into_iter().find(|one| one.change.contains("a link"));
        let rates = rates.expect("lower rates fit");
        (rates.request.links[0].bandwidth.0, rates.complete, rates.change)
    };
    let (most, complete, change) = largest(u64::MAX);
    assert_eq!((most, complete), (10_000_000_000, true), "{change}");
    let (less, complete, change) = largest(5_000_000_000);
    assert!(less < 5_000_000_000 && !complete, "{less}: {change}");
    assert!(change.contains("more may fit"), "{change}");
}
