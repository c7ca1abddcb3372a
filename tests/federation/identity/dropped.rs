//! Whoever is not believed any more is out within ten seconds, in the middle of its calls and without a signal to
//! anybody, and others do not notice.

use std::time::Instant;

use coalloc_common::Role;
use coalloc_proto::v1;
use coalloc_proto::v1::coordinator_client::CoordinatorClient;
use tonic::transport::Channel;
use tonic::{Code, Status};

use super::OUT_WITHIN;
use super::world::{TlsWorld, request};
use crate::harness::{PATIENCE, RMS, eventually};

/// Lists over one connection until a call fails, or until somebody says stop.
async fn calls(
    client: &mut CoordinatorClient<Channel>,
    stop: &tokio::sync::watch::Receiver<bool>,
) -> Option<Status> {
    while !*stop.borrow() {
        if let Err(status) = client.list(v1::ListRequest::default()).await {
            return Some(status);
        }
    }
    None
}

#[tokio::test(flavor = "multi_thread")]
async fn the_calls_of_whoever_is_revoked_end_and_those_of_others_do_not() {
    let mut world = TlsWorld::start().await;
    let alice = world.who("grid", Role::User, "alice");
    let bob = world.who("grid", Role::User, "bob");
    let (mut of_alice, mut of_bob) = (world.grc(&alice), world.grc(&bob));
    // Both are connected when the list changes.
    for client in [&mut of_alice, &mut of_bob] {
        client.list(v1::ListRequest::default()).await.unwrap();
    }
    world.revoke("grid", Role::User, "alice", "grc");
    let revoked = Instant::now();
    let (stop, stopped) = tokio::sync::watch::channel(false);
    let until_refused = async {
        let refused = calls(&mut of_alice, &stopped).await;
        let after = revoked.elapsed();
        stop.send(true).unwrap();
        (refused, after)
    };
    let both = async { tokio::join!(until_refused, calls(&mut of_bob, &stopped)) };
    let both = tokio::time::timeout(PATIENCE, both).await.expect("her calls end");
    let ((refused, after), failed) = both;
    assert!(refused.is_some() && after < OUT_WITHIN, "{refused:?} after {after:?}");
    assert!(failed.is_none(), "{failed:?}");
    assert!(of_bob.list(v1::ListRequest::default()).await.is_ok());
    let again = of_alice.list(v1::ListRequest::default()).await.unwrap_err();
    let said = coalloc_cli::kit::rpc::cause_of(&again);
    assert!(said.contains("our certificate was revoked"), "{said}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_resource_manager_that_was_revoked_is_out_at_its_coordinator_and_others_stay() {
    let mut world = TlsWorld::start().await;
    let olga = world.who("grid", Role::Operator, "olga");
    let crm_b = world.folder_dialer("crm-B");
    // She has read whom to believe before.
    let sue = world.who("south", Role::Auditor, "sue");
    let mut resolver = world.resolver(&crm_b);
    let unknown =
        v1::ResolveRequest { transaction: "grc-0000-9/1".into(), resource_manager: "crm-B".into() };
    assert_eq!(resolver.resolve(unknown.clone()).await.unwrap_err().code(), Code::NotFound);
    world.revoke("south", Role::ResourceManager, "crm-B", "grc");
    let revoked = Instant::now();
    let reachable = || async {
        let all = world.grc(&olga).describe_federation(v1::DescribeFederationRequest {}).await;
        let managers = all.unwrap().into_inner().resource_managers;
        managers.into_iter().map(|rm| (rm.name, rm.reachable, rm.problem)).collect::<Vec<_>>()
    };
    eventually("the coordinator gives crm-B up", || async {
        reachable().await.iter().any(|(name, reachable, _)| name == "crm-B" && !reachable)
    })
    .await;
    assert!(revoked.elapsed() < OUT_WITHIN, "{:?}", revoked.elapsed());
    // As a client it is out, too, over the connection that it had and over a new one.
    for mut resolver in [resolver, world.resolver(&crm_b)] {
        let status = resolver.resolve(unknown.clone()).await.unwrap_err();
        let said = coalloc_cli::kit::rpc::cause_of(&status);
        assert!(said.contains("our certificate was revoked"), "{said} {status:?}");
    }
    for (name, is_reachable, problem) in reachable().await {
        assert_eq!(is_reachable, name != "crm-B", "{name}: {problem}");
        assert!(is_reachable || problem.contains("it was revoked"), "{problem}");
    }
    // What needs both sites is refused, and nothing is held for it.
    let made = world.grc(&olga).reserve(request("r1", "alice")).await.unwrap().into_inner();
    let made = made.reservation.unwrap();
    assert_eq!(made.state(), v1::ReservationState::Failed, "{made:?}");
    for rm in RMS {
        let all = world.rm(&sue, rm).list_bookings(v1::ListBookingsRequest::default()).await;
        assert_eq!(all.unwrap().into_inner().bookings.len(), 0, "{rm}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_coordinator_that_a_resource_manager_drops_books_there_no_more() {
    let mut world = TlsWorld::start().await;
    let alice = world.who("grid", Role::User, "alice");
    let grc = world.folder_dialer("grc");
    let watch = v1::WatchProfilesRequest { coordinator: "grc".into(), ..Default::default() };
    let mut stream = world.rm(&grc, "crm-A").watch_profiles(watch).await.unwrap().into_inner();
    world.revoke("grid", Role::Coordinator, "grc", "crm-A");
    let ended = async { while let Ok(Some(_)) = stream.message().await {} };
    tokio::time::timeout(OUT_WITHIN, ended).await.expect("its stream of profiles ends");
    let made = world.grc(&alice).reserve(request("r1", "alice")).await.unwrap().into_inner();
    let made = made.reservation.unwrap();
    assert_eq!(made.state(), v1::ReservationState::Failed, "{made:?}");
    // The others have not dropped it.
    let describe = |rm: &'static str| {
        let mut client = world.rm(&grc, rm);
        async move { client.describe(v1::DescribeRequest {}).await }
    };
    assert!(describe("crm-B").await.is_ok());
    let said = coalloc_cli::kit::rpc::cause_of(&describe("crm-A").await.unwrap_err());
    assert!(said.contains("our certificate was revoked"), "{said}");
}
