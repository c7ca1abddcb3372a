//! A tree of two levels: `grc` is the parent coordinator of `grc-1` (site A) and `grc-2` (site B), each
//! with its own CRM and NRM; the two domains meet at the exchange point X.

use coalloc_proto::Duration;
use coalloc_proto::v1::{self, BookingState, ReservationState as State};

use crate::harness::{Federation, eventually, pair, seconds_from_now};

pub(crate) const INNER: [&str; 4] = ["crm-A", "nrm-1", "crm-B", "nrm-2"];
pub(crate) const LOWER: [&str; 2] = ["grc-1", "grc-2"];

/// Writes the configurations of all seven daemons; `policy` is the hold policy of the child coordinators.
pub(crate) fn prepare(policy: &str) -> Federation {
    let mut tree = Federation::prepare();
    tree.addresses.retain(|name, _| name == "grc");
    for name in INNER.iter().chain(&LOWER) {
        let address = format!("127.0.0.1:{}", crate::harness::free_port());
        tree.addresses.insert((*name).to_owned(), address);
    }
    let peer = |name: &str| format!("{{name: {name}, address: \"{}\"}}", tree.addresses[name]);
    let daemon = |name: &str| {
        format!(
            "daemon: {{insecure_plaintext: true, listen: \"{}\", ledger: {name}.ledger}}\n",
            tree.addresses[name]
        )
    };
    for (nth, site) in [(1, "A"), (2, "B")] {
        let (crm, nrm, grc) = (format!("crm-{site}"), format!("nrm-{nth}"), format!("grc-{nth}"));
        let coordinators = format!("coordinators: [{}]\n", peer(&grc));
        let sites = format!("sites: [{{name: {site}, cpus: 100}}]");
        let inventory = format!("inventory: {{name: {crm}, domain: D{nth}, {sites}}}\n");
        tree.write(&format!("{crm}.yaml"), &(daemon(&crm) + &coordinators + &inventory));
        // Two routes from the site to the border: 1 Gbit/s, and 600 Mbit/s by a switch that nobody outside
        // knows.
        let path = |a: &str, b: &str, mbps: u64| {
            format!("{{name: {a}-{b}, a: {a}, b: {b}, capacity_bps: {mbps}000000}}")
        };
        let switch = format!("switch{nth}");
        let paths =
            [path(site, "X", 1_000), path(site, &switch, 600), path(&switch, "X", 600)].join(", ");
        let inventory = format!("inventory: {{name: {nrm}, domain: D{nth}, paths: [{paths}]}}\n");
        tree.write(&format!("{nrm}.yaml"), &(daemon(&nrm) + &coordinators + &inventory));
        let upward = format!(
            "upward: {{domain: D{nth}, coordinators: [{}], border_points: [X], policy: {policy}}}\n",
            peer("grc")
        );
        let members = format!("resource_managers: [{}, {}]\n", peer(&crm), peer(&nrm));
        let file = daemon(&grc) + &format!("name: {grc}\n") + &members + &upward;
        tree.write(&format!("{grc}.yaml"), &file);
    }
    let members = format!("resource_managers: [{}, {}]\n", peer("grc-1"), peer("grc-2"));
    tree.write("grc.yaml", &(daemon("grc") + "name: grc\n" + &members));
    tree
}

pub(crate) async fn start(policy: &str) -> Federation {
    let mut tree = prepare(policy);
    for name in INNER.iter().chain(&LOWER).chain(&["grc"]) {
        tree.spawn(name);
    }
    whole(&tree).await;
    tree
}

/// Waits until the parent coordinator sees both sites and a path from each to X.
pub(crate) async fn whole(tree: &Federation) {
    eventually("the tree is whole", || async {
        let answer = tree.grc().describe_federation(v1::DescribeFederationRequest {}).await;
        let Ok(answer) = answer else { return false };
        let members = answer.into_inner().resource_managers;
        members.iter().all(|member| {
            let shown = member.description.as_ref();
            let full = |d: &v1::DescribeResponse| !d.sites.is_empty() && !d.paths.is_empty();
            member.reachable && shown.is_some_and(full)
        })
    })
    .await;
}

/// Live bookings of all RMs, as (RM, state, resource, amount).
pub(crate) async fn live(tree: &Federation) -> Vec<(String, BookingState, String, u64)> {
    let mut all = Vec::new();
    for rm in INNER {
        for booking in tree.bookings(rm).await {
            for segment in &booking.segments {
                let (resource, amount) = (segment.resource.clone(), segment.amount);
                all.push((rm.to_owned(), booking.state(), resource, amount));
            }
        }
    }
    all
}

pub(crate) async fn nothing_left(tree: &Federation) {
    eventually("nothing is held or booked anywhere", || async { live(tree).await.is_empty() })
        .await;
}

pub(crate) fn hold(txn: &str, cpus: u64) -> v1::HoldRequest {
    let window =
        v1::Window { start: Some(seconds_from_now(3_600)), end: Some(seconds_from_now(7_200)) };
    let segment = |resource: &str, amount| v1::Segment {
        resource: resource.to_owned(),
        amount,
        window: Some(window),
        ..v1::Segment::default()
    };
    v1::HoldRequest {
        transaction: txn.to_owned(),
        coordinator: "grc".to_owned(),
        segments: vec![segment("A", cpus), segment("grc-1:A--X", 300_000_000)],
        resource_manager: "grc-1".to_owned(),
        ..v1::HoldRequest::default()
    }
}

pub(crate) async fn held(tree: &Federation, order: v1::HoldRequest) -> v1::Held {
    match tree.rm("grc-1").hold(order).await.unwrap().into_inner().answer {
        Some(v1::hold_response::Answer::Held(held)) => held,
        other => panic!("{other:?}"),
    }
}

pub(crate) async fn commit(tree: &Federation, txn: &str) -> Option<v1::Refusal> {
    let request = v1::CommitRequest {
        transaction: txn.to_owned(),
        coordinator: "grc".to_owned(),
        ..v1::CommitRequest::default()
    };
    tree.rm("grc-1").commit(request).await.unwrap().into_inner().refused
}

#[tokio::test(flavor = "multi_thread")]
async fn one_request_is_committed_across_two_levels_and_released_and_a_refused_one_leaves_nothing()
{
    let tree = start("{}").await;
    let status = tree.grc().describe_federation(v1::DescribeFederationRequest {}).await.unwrap();
    let member = status.into_inner().resource_managers[0].description.clone().unwrap();
    assert_eq!(member.coordinators_below, ["grc-1"]);
    let shown: Vec<(&str, u64)> =
        member.paths.iter().map(|path| (path.name.as_str(), path.capacity_bps)).collect();
    assert_eq!(shown, [("grc-1:A--X", 1_000_000_000)], "the inside stays inside");

    let reservation = tree.reserve_confirmed("one", pair(60, 400, 3_600, 1_800)).await;
    let mut booked = live(&tree).await;
    booked.sort_by(|a, b| a.0.cmp(&b.0));
    let expected = [("crm-A", 60), ("crm-B", 60), ("nrm-1", 400_000_000), ("nrm-2", 400_000_000)];
    let seen: Vec<(&str, u64)> = booked.iter().map(|(rm, _, _, n)| (rm.as_str(), *n)).collect();
    assert_eq!(seen, expected);
    assert!(booked.iter().all(|(_, state, _, _)| *state == BookingState::Booked));

    let refused = tree.reserve("two", pair(60, 100, 3_600, 1_800)).await;
    assert_eq!(refused.state(), State::Failed);
    assert_eq!(live(&tree).await.len(), 4, "the refused one has left nothing");

    // What belongs to the parent coordinator is not for users of the child coordinator.
    let mut lower = v1::coordinator_client::CoordinatorClient::new(
        coalloc_net::client::channel("grc", &tree.addresses["grc-1"]).unwrap(),
    );
    let list = lower.list(v1::ListRequest::default()).await.unwrap().into_inner().reservations;
    assert_eq!(list.len(), 1);
    let release = v1::ReleaseReservationRequest { id: list[0].id.clone(), user: String::new() };
    let error = lower.release(release).await.unwrap_err();
    assert_eq!(error.code(), tonic::Code::PermissionDenied);

    let request = v1::ReleaseReservationRequest { id: reservation.id, user: String::new() };
    let released = tree.grc().release(request).await.unwrap().into_inner().reservation.unwrap();
    assert_eq!(released.state(), State::Terminated);
    nothing_left(&tree).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lower_coordinator_killed_between_held_and_commit_keeps_its_promise() {
    let mut tree = start("{}").await;
    let order = hold("grc-t-1/1", 10);
    let first = held(&tree, order.clone()).await;
    assert!(first.expires_in.unwrap().seconds > 60);
    tree.kill("grc-1");
    tree.spawn("grc-1");
    eventually("it is back and says what it said", || async {
        let order = order.clone();
        tree.rm("grc-1").hold(order).await.is_ok_and(|answer| {
            let held = v1::hold_response::Answer::Held(first.clone());
            answer.into_inner().answer == Some(held)
        })
    })
    .await;
    assert_eq!(commit(&tree, "grc-t-1/1").await, None);
    assert_eq!(commit(&tree, "grc-t-1/1").await, None, "the same answer for ever");
    let booked = live(&tree).await;
    assert_eq!(booked.len(), 2, "{booked:?}");
    assert!(booked.iter().all(|(_, state, _, _)| *state == BookingState::Booked));
    let mut other = order.clone();
    other.segments[0].amount += 1;
    let error = tree.rm("grc-1").hold(other).await.unwrap_err();
    assert_eq!(error.code(), tonic::Code::AlreadyExists);
    let stranger = v1::HoldRequest { coordinator: "who".to_owned(), ..hold("grc-t-2/1", 1) };
    let denied = tree.rm("grc-1").hold(stranger).await.unwrap().into_inner().answer;
    let Some(v1::hold_response::Answer::Refused(denied)) = denied else { panic!("{denied:?}") };
    assert_eq!(denied.reason(), v1::Reason::Denied);
    assert!(commit(&tree, "grc-t-3/1").await.is_some());
    let late = tree.rm("grc-1").hold(hold("grc-t-3/1", 1)).await.unwrap().into_inner();
    assert!(matches!(late.answer, Some(v1::hold_response::Answer::Refused(_))), "I9: {late:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_upper_coordinator_dies_before_its_decision_and_everything_is_aborted() {
    let mut tree = start("{}").await;
    // One of the two child coordinators cannot hold while its NRM is silent, so nothing can be decided.
    tree.pause("nrm-2");
    let call = {
        let mut grc = tree.grc();
        let request = v1::ReserveRequest {
            request_id: "doomed".to_owned(),
            request: Some(pair(10, 100, 3_600, 600)),
            ..v1::ReserveRequest::default()
        };
        tokio::spawn(async move { grc.reserve(request).await })
    };
    eventually(
        "the first one holds for the parent, or it was refused for the silent one",
        || async {
            call.is_finished()
                || tree.bookings("grc-1").await.iter().any(|b| b.state() == BookingState::Held)
        },
    )
    .await;
    tree.kill("grc");
    tree.resume("nrm-2");
    let _ = call.await;
    tree.spawn("grc");
    whole(&tree).await;
    nothing_left(&tree).await;
    tree.reserve_confirmed("after", pair(100, 900, 3_600, 600)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_promise_ends_by_itself_and_a_later_commit_is_refused_for_ever() {
    let tree = start("{hold_soft: 1s, hold_hard: 10s}").await;
    let mut order = hold("grc-t-94/1", 10);
    // Inner RMs ask soon, and are told that there is no answer yet.
    order.hold_for = Some(Duration { seconds: 1, nanos: 0 });
    let promised = held(&tree, order).await.expires_in.unwrap();
    assert!(promised.seconds <= 10, "{promised:?}");
    nothing_left(&tree).await;
    let refusal = commit(&tree, "grc-t-94/1").await.unwrap();
    assert_eq!(refusal.reason(), v1::Reason::Expired, "{refusal:?}");
    assert!(
        tree.log("grc-1").contains("asked about the outcome of a hold"),
        "it asked before it gave up"
    );
    assert!(live(&tree).await.is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_beyond_the_horizon_that_is_shown_above_is_refused_at_hold() {
    let tree = start("{horizon: 3600s}").await;
    let answer = tree.rm("grc-1").hold(hold("grc-t-95/1", 1)).await.unwrap().into_inner().answer;
    let Some(v1::hold_response::Answer::Refused(refusal)) = answer else { panic!("{answer:?}") };
    assert_eq!(refusal.reason(), v1::Reason::OutsideHorizon, "{refusal:?}");
    assert!(live(&tree).await.is_empty());
    let mut near = hold("grc-t-96/1", 1);
    for segment in &mut near.segments {
        let window =
            v1::Window { start: Some(seconds_from_now(600)), end: Some(seconds_from_now(1_200)) };
        segment.window = Some(window);
    }
    let _ = held(&tree, near).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cycle_is_reported_and_not_used() {
    let mut tree = prepare("{}");
    let file = std::fs::read_to_string(tree.dir.path().join("grc.yaml")).unwrap();
    let below = &tree.addresses["grc-1"];
    let upward = format!(
        "upward: {{domain: T, coordinators: [{{name: grc-1, address: \"{below}\"}}], \
         border_points: [X]}}\n"
    );
    tree.write("grc.yaml", &(file + &upward));
    let file = std::fs::read_to_string(tree.dir.path().join("grc-1.yaml")).unwrap();
    let above =
        format!("resource_managers: [{{name: grc, address: \"{}\"}}, ", tree.addresses["grc"]);
    tree.write("grc-1.yaml", &file.replace("resource_managers: [", &above));
    for name in INNER.iter().chain(&LOWER).chain(&["grc"]) {
        tree.spawn(name);
    }
    eventually("the one above says that there is a cycle", || async {
        let answer = tree.grc().describe_federation(v1::DescribeFederationRequest {}).await;
        let Ok(answer) = answer else { return false };
        let members = answer.into_inner().resource_managers;
        members.iter().any(|m| m.name == "grc-1" && !m.reachable && m.problem.contains("cycle"))
    })
    .await;
    eventually("and its log too", || async { tree.log("grc").contains("cycle") }).await;

    // A coordinator that names itself as its resource manager does not start.
    let file = std::fs::read_to_string(tree.dir.path().join("grc-2.yaml")).unwrap();
    let own = file.replace("{name: crm-B,", "{name: grc-2,");
    tree.write("grc-9.yaml", &own);
    let ended = tree.command("grc-9").status().unwrap();
    assert!(!ended.success());
    let log = tree.log("grc-9");
    assert!(log.contains("resource_managers[0].name") && log.contains("cycle"), "{log}");
}

/// The list takes more than one slice of the core's thread, and has pages that end within a slice.
#[tokio::test(flavor = "multi_thread")]
async fn what_one_above_has_is_listed_page_by_page_once_each() {
    let tree = start("{hold_soft: 60s, hold_hard: 120s}").await;
    let mut all: Vec<String> = (1..150).map(|number| format!("grc-t-{number}/1")).collect();
    for txn in &all {
        let (transaction, coordinator) = (txn.clone(), "grc".to_owned());
        let abort = v1::AbortRequest { transaction, coordinator, ..Default::default() };
        assert_eq!(tree.rm("grc-1").abort(abort).await.unwrap().into_inner().refused, None);
    }
    let _ = held(&tree, hold("grc-t-1000/1", 10)).await;
    all.push("grc-t-1000/1".to_owned());
    all.sort();
    let mut listed = Vec::new();
    let mut page_token = String::new();
    loop {
        let request = v1::ListBookingsRequest {
            include_ended: true,
            page_size: Some(40),
            page_token,
            ..Default::default()
        };
        let page = tree.rm("grc-1").list_bookings(request).await.unwrap().into_inner();
        assert!(page.bookings.len() <= 40);
        listed.extend(page.bookings.into_iter().map(|booking| booking.transaction));
        page_token = page.next_page_token;
        if page_token.is_empty() {
            break;
        }
    }
    assert_eq!(listed, all);
    let live = tree.bookings("grc-1").await;
    let live: Vec<&str> = live.iter().map(|booking| booking.transaction.as_str()).collect();
    assert_eq!(live, ["grc-t-1000/1"], "behind more of what has ended than a slice takes");
    let unknown =
        v1::ListBookingsRequest { page_token: "grc-t-2000/1".into(), ..Default::default() };
    let status = tree.rm("grc-1").list_bookings(unknown).await.unwrap_err();
    assert_eq!(status.code(), tonic::Code::InvalidArgument, "{status:?}");
}
