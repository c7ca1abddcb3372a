//! Servers that stay: after all daemons were killed, between hold and commit, after a disk was lost, and through a child
//! coordinator.

use std::collections::BTreeSet;

use coalloc_proto::v1::{self, ReservationState as State};
use tonic::{Code, Status};

use crate::harness::{Federation, Setup, eventually, free_port, pair, seconds_from_now};
use crate::middle::{self, Point, Then};
use crate::reconcile;
use crate::servers::{
    A, B, HOUR, allocate, configure_crm, found, holders, idle, names, picked, refused, search,
    servers, start, starts, try_allocate,
};
use crate::trees;

#[tokio::test(flavor = "multi_thread")]
async fn the_same_allocation_has_the_same_answer_also_after_everybody_was_killed() {
    let mut federation = start().await;
    let from = seconds_from_now(HOUR);
    let request =
        v1::AllocateRequest { choice: v1::ServerChoice::First.into(), ..servers("one", 2, &from) };
    let one = allocate(&federation, request.clone()).await;
    assert_eq!((one.allocation.as_ref(), one.request.as_ref()), (Some(&request), None));
    assert_eq!(one.servers[0].resource_manager, "crm-A");
    assert_eq!(names(&one), ["A/1", "A/2"]);
    assert_eq!(allocate(&federation, request.clone()).await, one);
    let other = v1::AllocateRequest { servers: 3, ..request.clone() };
    let code = |status: Status| status.code();
    let other = try_allocate(&federation, other).await.map_err(code);
    assert_eq!(other.unwrap_err(), Code::AlreadyExists);
    let reserved = federation.try_reserve("one", pair(4, 1, HOUR, HOUR)).await;
    assert_eq!(reserved.map_err(code).unwrap_err(), Code::AlreadyExists);
    // A co-allocation gets whole servers, and its id is no allocation's.
    let two = federation.reserve_confirmed("two", pair(6, 1, 3 * HOUR, HOUR)).await;
    let of_rms: Vec<(&str, usize)> =
        two.servers.iter().map(|of| (of.resource_manager.as_str(), of.servers.len())).collect();
    assert_eq!(of_rms, [("crm-A", 2), ("crm-B", 1)]);
    let two_again = try_allocate(&federation, servers("two", 2, &from)).await.map_err(code);
    assert_eq!(two_again.unwrap_err(), Code::AlreadyExists);

    let before = holders(&federation, &["crm-A", "crm-B"]).await;
    for name in ["grc", "crm-A", "crm-B"] {
        federation.kill(name);
    }
    for name in ["crm-A", "crm-B", "grc"] {
        federation.spawn(name);
    }
    federation.complete().await;
    assert_eq!(federation.get("one").await.unwrap(), one);
    assert_eq!(allocate(&federation, request).await, one);
    assert_eq!(federation.get("two").await.unwrap().servers, two.servers);
    assert_eq!(holders(&federation, &["crm-A", "crm-B"]).await, before);

    let change = v1::ModifyRequest {
        id: one.id.clone(),
        change_id: "change".to_owned(),
        request: Some(pair(4, 1, HOUR, HOUR)),
        ..v1::ModifyRequest::default()
    };
    let refused = federation.grc().modify(change).await.unwrap_err();
    assert_eq!(refused.code(), Code::FailedPrecondition);
    assert!(refused.message().contains("release it and allocate again"), "{refused:?}");
    let release = v1::ReleaseReservationRequest { id: one.id.clone(), ..Default::default() };
    federation.grc().release(release).await.unwrap();
    let idle_again = found(&federation, search(&from, HOUR)).await;
    assert_eq!(idle_again.servers.len(), 8);
    federation.audit_at_rest().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_crm_that_is_killed_between_hold_and_commit_books_the_servers_that_it_held() {
    let mut federation = Federation::prepare();
    let listen = format!("127.0.0.1:{}", free_port());
    let mut control = middle::start(&listen, &federation.addresses["crm-A"]).await;
    let relayed = [("crm-A".to_owned(), listen)].into();
    federation.configure(&Setup { relayed, ..Setup::default() });
    configure_crm(&federation, "crm-A", A, "grc", "grc");
    configure_crm(&federation, "crm-B", B, "grc", "grc");
    federation.start_all().await;
    let from = seconds_from_now(HOUR);
    control.stop_at(Point::BeforeCommit);
    let mut grc = federation.grc();
    let request = v1::AllocateRequest { site: "A".to_owned(), ..servers("one", 3, &from) };
    let call = tokio::spawn(async move { grc.allocate(request).await });
    let then = control.stopped().await;
    let held = holders(&federation, &["crm-A"]).await;
    federation.kill("crm-A");
    then.send(Then::Lose).unwrap();
    federation.spawn("crm-A");
    let one = call.await.unwrap().unwrap().into_inner().reservation.unwrap();
    assert_eq!(one.state(), State::Confirmed, "{one:?}");
    let own: BTreeSet<String> = names(&one).into_iter().map(str::to_owned).collect();
    assert_eq!((own.len(), held), (3, [(one.transaction.clone(), own)].into()));
    federation.audit_at_rest().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn servers_of_a_child_coordinator_are_searched_allocated_and_picked_by_its_parent() {
    let mut tree = trees::prepare("{}");
    configure_crm(&tree, "crm-A", A, "grc-1", "grc-1");
    configure_crm(&tree, "crm-B", B, "grc-2", "grc-2");
    for name in trees::INNER.iter().chain(&trees::LOWER).chain(&["grc"]) {
        tree.spawn(name);
    }
    trees::whole(&tree).await;
    let from = seconds_from_now(HOUR);
    let mine = allocate(&tree, picked("mine", &["A/2", "A/big"], &from)).await;
    assert_eq!(names(&mine), ["A/2", "A/big"]);
    assert_eq!(mine.servers[0].resource_manager, "grc-1");
    let inside = holders(&tree, &["crm-A"]).await;
    let own = BTreeSet::from(["A/2".to_owned(), "A/big".to_owned()]);
    assert_eq!(inside.values().collect::<Vec<_>>(), [&own]);
    assert_eq!(holders(&tree, &["grc-1"]).await[&mine.transaction], own, "as the child lists it");

    let left = found(&tree, search(&from, HOUR)).await;
    assert_eq!(idle(&left), ["A/1", "A/3", "A/4", "B/1", "B/2", "B/3"]);
    assert_eq!((left.servers[0].resource_manager.as_str(), left.silent.len()), ("grc-1", 0));
    let page = v1::FindServersRequest {
        coordinator: "grc".to_owned(),
        window: search(&from, HOUR).window,
        page_size: Some(2),
        ..v1::FindServersRequest::default()
    };
    let first = tree.rm("grc-1").find_servers(page.clone()).await.unwrap().into_inner();
    assert_eq!((first.servers.len(), first.next_page_token.as_str()), (2, "A/3"));
    let rest = v1::FindServersRequest { page_token: first.next_page_token, ..page.clone() };
    let rest = tree.rm("grc-1").find_servers(rest).await.unwrap().into_inner();
    assert_eq!((rest.servers[0].name.as_str(), rest.next_page_token.as_str()), ("A/4", ""));
    let other = v1::FindServersRequest { coordinator: "other".to_owned(), ..page };
    let denied = tree.rm("grc-1").find_servers(other).await.unwrap_err();
    assert_eq!(denied.code(), Code::PermissionDenied);

    let lost = refused(&tree, picked("lost", &["A/1", "A/2"], &from)).await;
    assert_eq!((lost.resource.as_str(), lost.resource_manager.as_str()), ("A/2", "grc-1"));
    assert!(lost.detail.contains("all of them are next idle for 1 h from"), "{lost:?}");
    let at_a = v1::AllocateRequest { site: "A".to_owned(), ..servers("four", 4, &from) };
    let four = allocate(&tree, at_a).await;
    assert_eq!((starts(&four), names(&four).len()), (from.seconds + HOUR, 4));
    holders(&tree, &["crm-A", "grc-1"]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_parent_with_a_best_level_finds_the_first_of_the_idle_servers_of_each_site() {
    let mut tree = trees::prepare("{}, coordinator_levels: [{name: grc, best_percent: 60}]");
    configure_crm(&tree, "crm-A", A, "grc-1", "grc-1");
    configure_crm(&tree, "crm-B", B, "grc-2", "grc-2");
    for name in trees::INNER.iter().chain(&trees::LOWER).chain(&["grc"]) {
        tree.spawn(name);
    }
    trees::whole(&tree).await;
    let from = seconds_from_now(HOUR);
    let all = v1::FindServersRequest {
        coordinator: "grc".to_owned(),
        window: search(&from, HOUR).window,
        ..v1::FindServersRequest::default()
    };
    let found = async |query: v1::FindServersRequest| {
        let (mut names, mut page_token) = (Vec::new(), String::new());
        loop {
            let query = v1::FindServersRequest { page_token, ..query.clone() };
            let page = tree.rm("grc-1").find_servers(query).await.unwrap().into_inner();
            names.extend(page.servers.into_iter().map(|server| server.name));
            page_token = page.next_page_token;
            if page_token.is_empty() {
                return names;
            }
        }
    };
    // Three of five, also page by page.
    assert_eq!(found(all.clone()).await, ["A/1", "A/2", "A/3"]);
    let two = v1::FindServersRequest { page_size: Some(2), ..all.clone() };
    assert_eq!(found(two).await, ["A/1", "A/2", "A/3"]);
    // Searches for what the others have do not find them.
    let of = |property: &str| v1::FindServersRequest {
        properties: vec![property.to_owned()],
        ..all.clone()
    };
    assert_eq!((found(of("gpu")).await.len(), found(of("nvlink")).await.len()), (3, 0));
    for (at_least, count) in [(3, 3), (4, 0)] {
        let query = v1::FindServersRequest { at_least, page_size: Some(2), ..all.clone() };
        assert_eq!(found(query).await.len(), count, "at least {at_least}");
    }
    // One more is taken, and 60 percent of four are two.
    let one = v1::AllocateRequest { site: "A".to_owned(), ..servers("one", 1, &from) };
    allocate(&tree, one).await;
    assert_eq!(found(all).await.len(), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_crm_has_lost_is_booked_again_with_the_same_servers() {
    let mut federation = start().await;
    let from = seconds_from_now(HOUR);
    let first = v1::ServerChoice::First.into();
    let one = v1::AllocateRequest { choice: first, ..servers("one", 1, &from) };
    let one = allocate(&federation, one).await;
    let two = v1::AllocateRequest { choice: first, ..servers("two", 2, &from) };
    let two = allocate(&federation, two).await;
    assert_eq!((names(&one), names(&two)), (vec!["A/1"], vec!["A/2", "A/3"]));
    reconcile::with_ledger_changed(&mut federation, "crm-A", reconcile::lose).await;
    eventually("the losses are found", || async {
        let request = v1::ListDifferencesRequest { fresh: true, ..Default::default() };
        let answer = federation.grc().list_differences(request).await.unwrap().into_inner();
        answer.resource_managers.iter().map(|of| of.differences.len()).sum::<usize>() == 2
    })
    .await;
    // The second is booked again first: the choice alone would give it the server of the first.
    for lost in [&two, &one] {
        let repair = v1::RepairRequest {
            repair_id: format!("again-{}", lost.request_id),
            resource_manager: "crm-A".to_owned(),
            transaction: lost.transaction.clone(),
            ..v1::RepairRequest::default()
        };
        let repaired = federation.grc().repair(repair).await.unwrap().into_inner();
        let repaired = repaired.reservation.unwrap();
        assert_eq!(names(&repaired), names(lost), "{repaired:?}");
    }
    let held = holders(&federation, &["crm-A"]).await;
    assert_eq!(held.values().map(BTreeSet::len).sum::<usize>(), 3, "{held:?}");
}
