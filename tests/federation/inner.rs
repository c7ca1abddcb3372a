//! An NRM with an inner network: a ring of four switches that its paths share.
//!
//! The true state inside is read from the NRM's ledger after the daemon was killed; nothing of it may be
//! visible outside.

use std::collections::BTreeMap;

use coalloc_common::ResourceId;
use coalloc_proto::v1;
use coalloc_protocol::participant::{InnerRoute, Participant, Phase};
use tokio::task::JoinSet;

use crate::harness::{Federation, eventually, pair, seconds_from_now};

const LINKS: [(&str, &str, &str, u64); 8] = [
    ("port-a", "A", "sa", 2_000),
    ("port-b", "B", "sb", 2_000),
    ("port-c", "C", "sc", 2_000),
    ("port-d", "D", "sd", 2_000),
    ("north", "sa", "sb", 1_000),
    ("east", "sb", "sc", 1_000),
    ("south", "sc", "sd", 1_000),
    ("west", "sd", "sa", 1_000),
];
const PATHS: [(&str, &str); 4] = [("A", "B"), ("A", "C"), ("B", "C"), ("B", "D")];
const MBPS: u64 = 1_000_000;

fn configure(federation: &Federation, may_move: bool) {
    federation.configure(&crate::harness::Setup::default());
    let path = |(a, b): &(&str, &str)| {
        format!("    - {{name: {a}-{b}, a: {a}, b: {b}, capacity_bps: {}}}\n", 1_000 * MBPS)
    };
    let link = |(name, a, b, mbps): &(&str, &str, &str, u64)| {
        format!("      - {{name: {name}, a: {a}, b: {b}, capacity_bps: {}}}\n", mbps * MBPS)
    };
    let (nrm, grc) = (&federation.addresses["nrm"], &federation.addresses["grc"]);
    let text = format!(
        "daemon: {{insecure_plaintext: true, listen: \"{nrm}\", ledger: nrm.ledger}}\n\
         coordinators: [{{name: grc, address: \"{grc}\"}}]\n\
         inventory:\n  name: nrm\n  domain: D\n  paths:\n{}  inner:\n    may_move: {may_move}\n    links:\n{}",
        PATHS.iter().map(path).collect::<String>(),
        LINKS.iter().map(link).collect::<String>(),
    );
    federation.write("nrm.yaml", &text);
}

/// The NRM alone; the test acts as its coordinator.
async fn network(may_move: bool) -> Federation {
    let mut federation = Federation::prepare();
    configure(&federation, may_move);
    up(&mut federation).await;
    federation
}

async fn up(federation: &mut Federation) {
    federation.spawn("nrm");
    eventually("the NRM answers", || async {
        federation.rm("nrm").describe(v1::DescribeRequest {}).await.is_ok()
    })
    .await;
}

/// The window from one to two hours from now, the same to the second within one test.
fn hour(from: &coalloc_proto::Timestamp) -> Option<v1::Window> {
    let end = coalloc_proto::Timestamp { seconds: from.seconds + 3_600, nanos: 0 };
    Some(v1::Window { start: Some(*from), end: Some(end) })
}

async fn hold(
    federation: &Federation,
    n: u32,
    paths: &[(&str, u64)],
    from: &coalloc_proto::Timestamp,
) -> Result<(), v1::Refusal> {
    let segment = |(path, mbps): &(&str, u64)| v1::Segment {
        resource_manager: String::new(),
        resource: (*path).to_owned(),
        amount: mbps * MBPS,
        window: hour(from),
    };
    let request = v1::HoldRequest {
        transaction: format!("grc-t-{n}/1"),
        coordinator: "grc".to_owned(),
        resource_manager: "nrm".to_owned(),
        user: "UserA".to_owned(),
        segments: paths.iter().map(segment).collect(),
        ..v1::HoldRequest::default()
    };
    match federation.rm("nrm").hold(request).await.unwrap().into_inner().answer.unwrap() {
        v1::hold_response::Answer::Held(_) => Ok(()),
        v1::hold_response::Answer::Refused(refusal) => Err(refusal),
    }
}

async fn book(
    federation: &Federation,
    n: u32,
    paths: &[(&str, u64)],
    from: &coalloc_proto::Timestamp,
) {
    hold(federation, n, paths, from).await.unwrap();
    let request = v1::CommitRequest {
        transaction: format!("grc-t-{n}/1"),
        coordinator: "grc".to_owned(),
        resource_manager: "nrm".to_owned(),
        ..Default::default()
    };
    let answer = federation.rm("nrm").commit(request).await.unwrap().into_inner();
    assert_eq!(answer.refused, None);
}

/// The participant as its ledger has it; the daemon must not run.
fn ledger(federation: &Federation) -> Participant {
    let config = coalloc_nrm::load(&federation.dir.path().join("nrm.yaml")).unwrap();
    let (participant, _) = coalloc_rm::shell::open(&config).unwrap();
    participant.check_invariants_of_core();
    participant
}

trait Check {
    fn check_invariants_of_core(&self);
}

impl Check for Participant {
    fn check_invariants_of_core(&self) {
        coalloc_protocol::Core::check_invariants(self).unwrap();
    }
}

fn routes(participant: &Participant) -> BTreeMap<String, Vec<InnerRoute>> {
    let routed = participant
        .entries()
        .iter()
        .filter_map(|(txn, entry)| Some((txn.to_string(), entry.inner.clone()?)));
    routed.collect()
}

/// I1 inside: at the start of every segment, the amount that live entries take of each link, by their records.
fn audit(participant: &Participant) -> BTreeMap<ResourceId, u64> {
    let mut taken: Vec<(ResourceId, i64, i64, u64)> = Vec::new();
    for entry in participant.entries().values() {
        if !matches!(entry.phase, Phase::Held(_) | Phase::Booked) {
            continue;
        }
        let (order, inner) = (entry.order.as_ref().unwrap(), entry.inner.as_ref().unwrap());
        for (segment, route) in order.segments.iter().zip(inner) {
            let (start, end) = (segment.window.start().as_us(), segment.window.end().as_us());
            taken.extend(route.iter().map(|link| (link.clone(), start, end, segment.amount.0)));
        }
    }
    let mut most: BTreeMap<ResourceId, u64> = BTreeMap::new();
    for (link, at, _, _) in &taken {
        let here = taken.iter().filter(|(l, start, end, _)| l == link && start <= at && at < end);
        let sum: u64 = here.map(|(_, _, _, amount)| amount).sum();
        let name = link.as_str().strip_prefix("inner/").unwrap();
        let (.., mbps) = LINKS.iter().find(|(link, ..)| *link == name).unwrap();
        assert!(sum <= mbps * MBPS, "I1: {link} has {sum} taken");
        let known = most.entry(link.clone()).or_default();
        *known = sum.max(*known);
    }
    most
}

#[tokio::test(flavor = "multi_thread")]
async fn paths_that_share_the_inside_are_told_apart_from_their_sum_and_nothing_is_disclosed() {
    let federation = network(false).await;
    let from = seconds_from_now(3_600);
    // Each of these alone would fit, if need be around the ring.
    book(&federation, 1, &[("A-C", 600)], &from).await;
    let free = v1::QueryAvailabilityRequest {
        frames: vec![hour(&from).unwrap()],
        user: "UserA".to_owned(),
        ..Default::default()
    };
    let free = federation.rm("nrm").query_availability(free).await.unwrap().into_inner();
    assert_eq!(free.frames[0].free, [400, 400, 400, 400].map(|mbps| mbps * MBPS));
    let refusal = hold(&federation, 2, &[("A-B", 500)], &from).await.unwrap_err();
    assert_eq!(refusal.reason(), v1::Reason::InsufficientCapacity);
    assert!(refusal.detail.contains("A-B has 400 Mbit/s free"), "{}", refusal.detail);
    book(&federation, 3, &[("A-B", 400)], &from).await;

    let describe = federation.rm("nrm").describe(v1::DescribeRequest {}).await.unwrap();
    let list = v1::ListBookingsRequest { include_ended: true, ..Default::default() };
    let list = federation.rm("nrm").list_bookings(list).await.unwrap();
    let heard = format!("{describe:?} {free:?} {refusal:?} {list:?}");
    assert!(heard.contains("A-B"));
    for (link, ..) in LINKS {
        assert!(!heard.contains(link), "{link} is heard of outside: {heard}");
    }
    for switch in ["\"sa\"", "\"sb\"", "\"sc\"", "\"sd\"", "inner/"] {
        assert!(!heard.contains(switch), "{switch} is heard of outside: {heard}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn moving_admits_a_hold_that_is_refused_without_and_a_killed_nrm_keeps_the_routes() {
    let from = seconds_from_now(3_600);
    let all = [("A-B", 1_000), ("B-C", 1_000)];
    let fixed = network(false).await;
    book(&fixed, 1, &[("A-C", 600)], &from).await;
    let refusal = hold(&fixed, 2, &all, &from).await.unwrap_err();
    assert_eq!(refusal.resource, "A-B", "{refusal:?}");

    let mut moving = network(true).await;
    book(&moving, 1, &[("A-C", 600)], &from).await;
    moving.kill("nrm");
    let before = routes(&ledger(&moving));
    up(&mut moving).await;
    book(&moving, 2, &all, &from).await;
    moving.kill("nrm");
    let after = ledger(&moving);
    assert_ne!(routes(&after)["grc-t-1/1"], before["grc-t-1/1"], "it moved out of the way");
    let most = audit(&after);
    assert_eq!(most[&ResourceId::composed("inner/north")], 1_000 * MBPS);
    assert_eq!(most[&ResourceId::composed("inner/west")], 600 * MBPS);

    up(&mut moving).await;
    let refusal = hold(&moving, 3, &[("B-D", 500)], &from).await.unwrap_err();
    assert_eq!(refusal.resource, "B-D", "the ring is as full as it was before the kill");
    moving.kill("nrm");
    let last = ledger(&moving);
    let live = |p: &Participant| -> BTreeMap<_, _> {
        routes(p).into_iter().filter(|(txn, _)| txn != "grc-t-3/1").collect()
    };
    assert_eq!(live(&last), live(&after));
    audit(&last);
}

#[tokio::test(flavor = "multi_thread")]
async fn concurrent_holds_of_all_paths_never_overbook_a_link() {
    for may_move in [false, true] {
        let mut federation = network(may_move).await;
        let from = seconds_from_now(3_600);
        let mut calls = JoinSet::new();
        for n in 0..48_u32 {
            let (a, b) = PATHS[n as usize % 4];
            let mut nrm = federation.rm("nrm");
            let request = v1::HoldRequest {
                transaction: format!("grc-t-{n}/1"),
                coordinator: "grc".to_owned(),
                resource_manager: "nrm".to_owned(),
                user: "UserA".to_owned(),
                segments: vec![v1::Segment {
                    resource: format!("{a}-{b}"),
                    amount: u64::from(100 + 50 * (n % 7)) * MBPS,
                    window: hour(&from),
                    ..Default::default()
                }],
                ..v1::HoldRequest::default()
            };
            calls.spawn(
                async move { nrm.hold(request).await.unwrap().into_inner().answer.unwrap() },
            );
        }
        let mut held = 0;
        while let Some(answer) = calls.join_next().await {
            held += u32::from(matches!(answer.unwrap(), v1::hold_response::Answer::Held(_)));
        }
        federation.kill("nrm");
        let most = audit(&ledger(&federation));
        let ring: u64 =
            most.iter().filter(|(l, _)| !l.as_str().contains("port")).map(|(_, m)| m).sum();
        assert!((4..48).contains(&held), "{held} held");
        assert!(ring > 2_000 * MBPS, "the ring was nearly filled: {ring}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_coordinator_plans_with_what_the_inside_has_left() {
    let mut federation = Federation::prepare();
    configure(&federation, false);
    federation.start_all().await;
    let from = seconds_from_now(3_600);
    book(&federation, 1, &[("A-C", 600)], &from).await;
    let ask = |mbps| {
        let mut request = pair(1, mbps, 0, 1_800);
        request.earliest_start = Some(from);
        request
    };
    let refused = federation.reserve("too-much", ask(500)).await;
    assert_eq!(refused.state(), v1::ReservationState::Failed);
    let confirmed = federation.reserve("fits", ask(400)).await;
    assert_eq!(confirmed.state(), v1::ReservationState::Confirmed, "{:?}", confirmed.refusal);
}

/// Segments of one path that overlap in one Hold are routed one by one, and add up to exactly what the path has.
#[tokio::test(flavor = "multi_thread")]
async fn overlapping_segments_of_one_hold_are_routed_side_by_side() {
    let federation = &mut network(false).await;
    let from = seconds_from_now(3_600);
    let short = hold(federation, 1, &[("A-B", 600), ("A-B", 401)], &from).await.unwrap_err();
    assert_eq!((short.requested, short.available), (Some(401 * MBPS), Some(400 * MBPS)));
    book(federation, 2, &[("A-B", 600), ("A-B", 400)], &from).await;
    let full = hold(federation, 3, &[("A-B", 1)], &from).await.unwrap_err();
    assert_eq!(full.available, Some(0));
    federation.kill("nrm");
    let participant = ledger(federation);
    audit(&participant);
    let routes = routes(&participant);
    assert_eq!(routes["grc-t-2/1"].len(), 2, "a route for each segment: {routes:?}");
}
