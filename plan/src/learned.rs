//! What refusals say in addition to what RMs answer to queries, for a coordinator that plans again.
//!
//! A refused Hold names the resource, the window and what was available. Usually the new picture
//! says the same, and then this module changes nothing. But a picture can promise too much every
//! time: that of a child coordinator which presents a large federation as a few paths, or that of
//! an RM whose answers are old. Without memory, the coordinator would make the same plan again
//! until its attempts are used up.
//!
//! One refusal alone proves little, because the hold of a rival may have ended meanwhile. If two
//! coordinators were refused because of each other's holds and both believed it, both would
//! consider the resource full, and neither would get it. So only the second refusal of the same
//! resource is believed ([`limits::REFUSALS_BELIEVED`]). A search that backtracks believes the
//! first refusal, because it does not return to a choice that was refused. A refusal counts only in
//! frames that contain the refused window: what is short in a part is short in the whole, but not
//! the other way round. The periods of a request whose parts have windows of their own are an
//! exception. A refusal of a longer window counts in all its periods, because it is not known in which
//! of them too little is free, and loads are added up by period.
//!
//! Pure. The memory lasts as long as the attempts of one reservation; the next request starts
//! without it.

use coalloc_common::topology::{Direction, FrameView};
use coalloc_common::{
    Amount, BitsPerSecond, Reason, Refusal, ResourceId, RmName, Topology, Window, limits,
};

use crate::Solver;

/// How many refusals of one resource it takes until they are believed, when this solver plans
/// again.
#[must_use]
pub const fn believed(solver: Solver) -> usize {
    if solver.reserves_as_it_searches() { 1 } else { limits::REFUSALS_BELIEVED }
}

/// Lowers what a view gives as free to what refusals said was available. `refusals` are in order,
/// the oldest first. A resource with fewer than `believed` refusals stays as it is.
pub fn believe(topology: &Topology, refusals: &[Refusal], believed: usize, view: &mut FrameView) {
    if refusals.len() < believed {
        return;
    }
    let frame = view.window;
    lower(topology, refusals, believed, view, &|short| is_within(short, frame));
    for part in &mut view.parts {
        let own = part.window;
        let counts = |short| is_within(short, own) || is_within(own, short);
        lower(topology, refusals, believed, part, &counts);
    }
}

fn is_within(inner: Window, outer: Window) -> bool {
    outer.start() <= inner.start() && inner.end() <= outer.end()
}

/// Lowers what one window has free to what those refusals said whose window counts.
fn lower(
    topology: &Topology,
    refusals: &[Refusal],
    believed: usize,
    view: &mut FrameView,
    counts: &dyn Fn(Window) -> bool,
) {
    for (at, vertex, _) in topology.sites() {
        for of in vertex.resources() {
            if let Some(most) = available(refusals, believed, of.rm, of.resource, counts) {
                view.set_free(of.kind, at, view.free_at(of.kind, at).min(Amount(most)));
            }
        }
    }
    for (edge, free) in topology.edges().iter().zip(&mut view.free_bps) {
        for direction in [Direction::AToB, Direction::BToA] {
            let resource = edge.resource(direction);
            if let Some(most) = available(refusals, believed, &edge.rm, resource, counts) {
                let free = &mut free[direction.at()];
                *free = (*free).min(BitsPerSecond(most));
            }
        }
    }
}

/// What the last refusal of a resource said was available; `None` when there were fewer than
/// `believed`.
fn available(
    refusals: &[Refusal],
    believed: usize,
    rm: &RmName,
    resource: &ResourceId,
    counts: &dyn Fn(Window) -> bool,
) -> Option<u64> {
    let said: Vec<u64> = refusals
        .iter()
        .filter(|refusal| refusal.reason == Reason::InsufficientCapacity)
        .filter(|refusal| {
            (refusal.rm.as_ref(), refusal.resource.as_ref()) == (Some(rm), Some(resource))
        })
        .filter(|refusal| refusal.window.is_some_and(counts))
        .filter_map(|refusal| refusal.available.map(|amount| amount.0))
        .collect();
    said.last().copied().filter(|_| said.len() >= believed)
}

#[cfg(test)]
mod tests {
    use coalloc_common::topology::{Compute, Duplex, Edge, Vertex};
    use coalloc_common::{Cpus, EdgeName, Span, Time, UnitValue, VertexIndex, VertexName};

    use super::*;

    fn topology() -> Topology {
        let mut topology = Topology::new();
        for name in ["A", "B"] {
            let compute = Compute {
                rm: RmName::composed(format!("crm-{name}")),
                resource: ResourceId::composed(name),
                capacity: Cpus(100),
                unit_value: UnitValue(1),
                price: None,
                quality: 0,
                mips: limits::MIPS_DEFAULT,
            };
            let name = VertexName::composed(name);
            topology.add_vertex(Vertex::new(name, None, Some(compute))).unwrap();
        }
        let edge = |name: &str, duplex| Edge {
            name: EdgeName::composed(name),
            a: VertexIndex(0),
            b: VertexIndex(1),
            rm: RmName::composed("nrm"),
            capacity: BitsPerSecond(1_000),
            unit_value: UnitValue(1),
            price: None,
            quality: 0,
            latency: Span::from_millis(1),
            duplex,
        };
        let id = |name: &str| ResourceId::composed(name.to_owned());
        topology.add_edge(edge("shared", Duplex::Shared(id("shared")))).unwrap();
        let full = Duplex::Full { ab: id("full:ab"), ba: id("full:ba") };
        topology.add_edge(edge("full", full)).unwrap();
        topology
    }

    fn window(from_s: i64, to_s: i64) -> Window {
        let at = |s: i64| Time::from_us(s * 1_000_000);
        Window::new(at(from_s), at(to_s)).unwrap()
    }

    fn short(rm: &str, resource: &str, window: Window, available: u64) -> Refusal {
        Refusal {
            rm: Some(RmName::composed(rm)),
            resource: Some(ResourceId::composed(resource)),
            window: Some(window),
            requested: Some(Amount(900)),
            available: Some(Amount(available)),
            ..Refusal::new(Reason::InsufficientCapacity, "short")
        }
    }

    /// What is free after these refusals: the CPUs of A and B, then both directions of the shared
    /// path and of the full-duplex one.
    fn seen(refusals: &[Refusal], frame: Window) -> ([u64; 2], [[u64; 2]; 2]) {
        let topology = topology();
        let mut view = FrameView::empty_federation(&topology, frame);
        believe(&topology, refusals, believed(Solver::Exact), &mut view);
        let cpus = [view.free_cpus[0].0, view.free_cpus[1].0];
        (cpus, [0, 1].map(|at: usize| view.free_bps[at].map(|free| free.0)))
    }

    const ALL: ([u64; 2], [[u64; 2]; 2]) = ([100; 2], [[1_000; 2]; 2]);

    #[test]
    fn one_refusal_may_be_a_rival_that_is_gone() {
        let frame = window(0, 60);
        assert_eq!(seen(&[], frame), ALL);
        assert_eq!(seen(&[short("crm-A", "A", frame, 7)], frame), ALL);
        let elsewhere = [short("crm-A", "A", frame, 7), short("crm-B", "B", frame, 7)];
        assert_eq!(seen(&elsewhere, frame), ALL, "one of each");
    }

    #[test]
    fn a_search_that_backtracks_believes_the_first() {
        let (topology, frame) = (topology(), window(0, 60));
        let mut view = FrameView::empty_federation(&topology, frame);
        let refusals = [short("crm-A", "A", frame, 7)];
        believe(&topology, &refusals, believed(Solver::Backtrack), &mut view);
        assert_eq!(view.free_cpus, [Cpus(7), Cpus(100)]);
    }

    #[test]
    fn the_second_is_believed_and_what_it_said_last_counts() {
        let frame = window(0, 60);
        let cpus = [short("crm-A", "A", frame, 7), short("crm-A", "A", frame, 30)];
        assert_eq!(seen(&cpus, frame), ([30, 100], ALL.1));
        let shared = [0, 1].map(|_| short("nrm", "shared", frame, 400));
        assert_eq!(seen(&shared, frame), (ALL.0, [[400; 2], [1_000; 2]]));
        let one_way = [0, 1].map(|_| short("nrm", "full:ba", frame, 0));
        assert_eq!(seen(&one_way, frame), (ALL.0, [[1_000; 2], [1_000, 0]]));
    }

    #[test]
    fn it_never_shows_more_than_the_picture() {
        let frame = window(0, 60);
        let more = [0, 1].map(|_| short("crm-A", "A", frame, 5_000));
        assert_eq!(seen(&more, frame), ALL);
    }

    #[test]
    fn only_frames_that_contain_the_refused_window() {
        let refused = [0, 1].map(|_| short("crm-A", "A", window(60, 120), 7));
        for (frame, free) in [
            (window(60, 120), 7),
            (window(0, 180), 7),
            (window(90, 150), 100),
            (window(70, 100), 100),
            (window(120, 180), 100),
        ] {
            assert_eq!(seen(&refused, frame).0, [free, 100], "{frame}");
        }
    }

    #[test]
    fn windows_of_parts_are_lowered_each_by_itself_and_periods_by_longer_refusals() {
        let (topology, frame) = (topology(), window(0, 180));
        let mut view = FrameView::empty_federation(&topology, frame);
        let part = |from, to| FrameView::empty_federation(&topology, window(from, to));
        view.parts = vec![part(0, 60), part(60, 120), part(0, 120), part(120, 180)];
        let refusals = [0, 1].map(|_| short("crm-A", "A", window(0, 120), 7));
        believe(&topology, &refusals, believed(Solver::Exact), &mut view);
        let free: Vec<u64> = view.parts.iter().map(|part| part.free_cpus[0].0).collect();
        assert_eq!((view.free_cpus[0].0, free), (7, vec![7, 7, 7, 100]));
    }

    #[test]
    fn another_rm_another_reason_or_no_amount_says_nothing() {
        let frame = window(0, 60);
        let other = [0, 1].map(|_| short("crm-B", "A", frame, 7));
        assert_eq!(seen(&other, frame), ALL);
        let level = [0, 1]
            .map(|_| Refusal { reason: Reason::ServiceLevel, ..short("crm-A", "A", frame, 7) });
        assert_eq!(seen(&level, frame), ALL);
        let silent = [0, 1].map(|_| Refusal { available: None, ..short("crm-A", "A", frame, 7) });
        assert_eq!(seen(&silent, frame), ALL);
    }
}
