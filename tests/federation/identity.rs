//! Real daemons that prove who they are: who may do what, and that everybody else is denied, whatever they show.
//!
//! `world` has the authorities, the daemons over TLS, and clients that are ours. `stranger` is a client that is not ours
//! and shows any certificate, also those with which our own client would not even start.

mod calendar;
mod causers;
mod dropped;
mod ending;
mod levels;
mod others;
mod pages;
mod quotas;
mod rogue;
mod rogue_day;
mod siege;
mod stranger;
mod tips;
mod watches;
mod world;

use std::time::{Duration, Instant};

use coalloc_common::Role;
use coalloc_net::client::Dialer;
use coalloc_proto::v1;
use coalloc_proto::v1::resource_manager_client::ResourceManagerClient;
use rustix::process::{Signal, kill_process};
use tonic::Code;

use self::stranger::{Show, methods};
use self::world::{TlsWorld, request};
use crate::harness::{RMS, eventually};

/// A peer that was revoked has to be out within this time.
const OUT_WITHIN: Duration = Duration::from_secs(10);

/// The one method for everybody with an identity (and without one by the web listener): a secret in its message says what it
/// shows.
const BY_SECRET: &str = "/coalloc.v1.Coordinator/ReadCalendar";

fn code<T>(answer: Result<T, tonic::Status>) -> Code {
    answer.err().map_or(Code::Ok, |status| status.code())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_user_has_its_own_an_operator_all_and_an_auditor_looks_only() {
    let mut world = TlsWorld::start().await;
    let alice = world.who("grid", Role::User, "alice");
    let bob = world.who("grid", Role::User, "bob");
    let olga = world.who("grid", Role::Operator, "olga");
    let ada = world.who("grid", Role::Auditor, "ada");
    let foreign = world.who("south", Role::User, "alice");
    let reserved = world.grc(&alice).reserve(request("r1", "alice")).await.unwrap().into_inner();
    let reservation = reserved.reservation.unwrap();
    assert_eq!(reservation.state(), v1::ReservationState::Confirmed, "{reservation:?}");
    let id = reservation.id;
    let get = |dialer: &Dialer, id: &str| {
        let (mut client, id) = (world.grc(dialer), id.to_owned());
        async move { code(client.get(v1::GetRequest { id }).await) }
    };
    let list = |dialer: &Dialer, user: &str| {
        let (mut client, user) = (world.grc(dialer), user.to_owned());
        async move {
            let wanted = v1::ListRequest { user, ..Default::default() };
            client.list(wanted).await.map(|answer| answer.into_inner().reservations.len())
        }
    };
    for name in [id.as_str(), "r1"] {
        for (dialer, expected) in [
            (&alice, Code::Ok),
            (&olga, Code::Ok),
            (&ada, Code::Ok),
            (&bob, Code::NotFound),
            // The user of another domain with the same name is somebody else.
            (&foreign, Code::NotFound),
        ] {
            assert_eq!(get(dialer, name).await, expected, "{name} {dialer:?}");
        }
    }
    for (dialer, count) in [(&alice, 1), (&olga, 1), (&ada, 1), (&bob, 0), (&foreign, 0)] {
        assert_eq!(list(dialer, "").await.unwrap(), count, "{dialer:?}");
    }
    assert_eq!(code(list(&bob, "alice").await), Code::PermissionDenied);
    // Nobody reserves for somebody else but an operator, and an auditor for nobody.
    for (n, dialer, user, expected) in [
        (2, &bob, "alice", Code::PermissionDenied),
        (3, &foreign, "alice", Code::PermissionDenied),
        (4, &ada, "ada", Code::PermissionDenied),
        (5, &olga, "alice", Code::Ok),
        (6, &foreign, "south/alice", Code::Ok),
    ] {
        let answer = world.grc(dialer).reserve(request(&format!("r{n}"), user)).await;
        assert_eq!(code(answer), expected, "{user} by {dialer:?}");
    }
    // Who names nobody means itself; an operator that is no user here has to name somebody.
    for (n, dialer, own) in [(7, &bob, "bob"), (8, &foreign, "south/alice")] {
        let made = world.grc(dialer).reserve(request(&format!("r{n}"), "")).await.unwrap();
        assert_eq!(made.into_inner().reservation.unwrap().user, own);
    }
    let mut eve = world.grc(&bob);
    let release = v1::ReleaseReservationRequest { id: id.clone(), user: String::new() };
    assert_eq!(code(eve.release(release.clone()).await), Code::NotFound);
    let modify = v1::ModifyRequest { id: id.clone(), change_id: "c".into(), ..Default::default() };
    assert_eq!(code(eve.modify(modify).await), Code::NotFound);
    let watch = v1::WatchRequest { id: id.clone(), ..Default::default() };
    assert_eq!(code(eve.watch(watch).await), Code::NotFound);
    let others = v1::WatchRequest { user: "alice".into(), ..Default::default() };
    assert_eq!(code(eve.watch(others).await), Code::PermissionDenied);
    assert_eq!(code(world.grc(&ada).release(release.clone()).await), Code::PermissionDenied);
    // Where things are is for those who run them.
    let described = |dialer: &Dialer| {
        let mut client = world.grc(dialer);
        async move {
            let all = client.describe_federation(v1::DescribeFederationRequest {}).await;
            all.unwrap().into_inner()
        }
    };
    let shown = described(&alice).await;
    assert!(shown.ledger_id.is_empty() && shown.resource_managers.len() == 3);
    for rm in &shown.resource_managers {
        let ledger = rm.description.as_ref().map_or("", |it| it.ledger_id.as_str());
        assert!(rm.reachable && rm.address.is_empty() && ledger.is_empty(), "{rm:?}");
    }
    assert!(described(&olga).await.resource_managers.iter().all(|rm| !rm.address.is_empty()));
    let released = world.grc(&alice).release(release).await.unwrap().into_inner();
    assert_eq!(released.reservation.unwrap().state(), v1::ReservationState::Terminated);
    // The operator ends for her what it has reserved for her.
    let release = v1::ReleaseReservationRequest { id: "r5".into(), user: String::new() };
    let released = world.grc(&olga).release(release).await.unwrap().into_inner();
    assert_eq!(released.reservation.unwrap().state(), v1::ReservationState::Terminated);
}

#[tokio::test(flavor = "multi_thread")]
async fn whoever_is_nobody_here_is_denied_every_method_and_no_ledger_changes() {
    let mut world = TlsWorld::start().await;
    let alice = world.who("grid", Role::User, "alice");
    world.grc(&alice).reserve(request("r1", "alice")).await.unwrap();
    let before = world.ledgers();
    // What everybody with an identity may do, as the matrix has it.
    let for_all = |path: &str| {
        path.starts_with("/grpc.")
            || path == "/coalloc.v1.Coordinator/DescribeFederation"
            || path == BY_SECRET
    };
    let nobodies = world.nobodies();
    let strangers = world.strangers();
    for name in RMS.iter().chain(&["grc"]) {
        kill_process(world.federation.pid(name), Signal::HUP).unwrap();
        eventually("the list of what was revoked is in force", || async {
            world.federation.log(name).contains("identity read again")
        })
        .await;
    }
    assert!(nobodies.len() >= 8 && strangers.len() >= 4 && methods().len() > 30);
    let (mut asked, mut wrong) = (0, Vec::new());
    for daemon in RMS.iter().chain(&["grc"]) {
        let address = world.address(daemon);
        for (what, show, alert) in &nobodies {
            // At the coordinator tokens come without a certificate, so that connections without one are let in.
            let is_let_in = matches!(show, Show::Nothing) && *daemon == "grc";
            let expected = if is_let_in {
                Code::Unauthenticated
            } else {
                assert_eq!(stranger::alert_to(&address, show).await, *alert, "{daemon} {what}");
                Code::Unavailable
            };
            for (path, said) in stranger::call_each(&address, show, methods()).await {
                asked += 1;
                if said != expected {
                    wrong.push(format!("{daemon} {what} {path}: {said:?}"));
                }
            }
        }
        for (what, show) in &strangers {
            for (path, said) in stranger::call_each(&address, show, methods()).await {
                asked += 1;
                if said != Code::PermissionDenied && !for_all(&path) {
                    wrong.push(format!("{daemon} {what} {path}: {said:?}"));
                }
            }
        }
    }
    // There are no other exceptions.
    assert_eq!(wrong, Vec::<String>::new());
    assert!(asked > 1_000, "{asked}");
    // The daemons are still there to deny anything.
    let sue = world.who("south", Role::Auditor, "sue");
    for rm in RMS {
        let all = world.rm(&sue, rm).list_bookings(v1::ListBookingsRequest::default()).await;
        assert_eq!(all.unwrap().into_inner().bookings.len(), 1, "{rm}");
    }
    let got = world.grc(&alice).get(v1::GetRequest { id: "r1".into() }).await.unwrap().into_inner();
    assert_eq!(got.reservation.unwrap().state(), v1::ReservationState::Confirmed);
    assert_eq!(world.ledgers(), before, "no ledger has changed");
}

#[tokio::test(flavor = "multi_thread")]
async fn whoever_is_somebody_is_denied_what_is_not_for_it_and_no_ledger_changes() {
    let mut world = TlsWorld::start().await;
    let alice = world.who("grid", Role::User, "alice");
    world.grc(&alice).reserve(request("r1", "alice")).await.unwrap();
    let before = world.ledgers();
    let (mut denied, mut wrong) = (0, Vec::new());
    for (what, show, allowed) in world.somebodies() {
        for daemon in RMS.iter().chain(&["grc"]) {
            let address = world.address(daemon);
            // It is let in: otherwise nothing that follows would say anything of roles.
            let described = "/coalloc.v1.Coordinator/DescribeFederation";
            let said = stranger::call(&address, &show, described).await;
            let expected = if *daemon == "grc" { Code::Ok } else { Code::Unimplemented };
            assert_eq!(said, expected, "{what} at {daemon}");
            let is_denied = |path: &String| {
                let for_all = path.starts_with("/grpc.") || path == described || path == BY_SECRET;
                !for_all && !allowed.has(daemon, path)
            };
            let methods = methods().into_iter().filter(is_denied);
            for (path, said) in stranger::call_each(&address, &show, methods).await {
                denied += 1;
                // The matrix is one for all daemons, and may admit to a service that a daemon does not have.
                let is_for_rms = path.starts_with("/coalloc.v1.ResourceManager/");
                let is_served = is_for_rms == (*daemon != "grc");
                let is_denied =
                    said == Code::PermissionDenied || !is_served && said == Code::Unimplemented;
                if !is_denied {
                    wrong.push(format!("{daemon} {what} {path}: {said:?}"));
                }
            }
        }
    }
    assert_eq!(wrong, Vec::<String>::new());
    assert!(denied > 400, "{denied}");
    assert_eq!(world.ledgers(), before, "no ledger has changed");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_coordinator_that_is_trusted_ends_nothing_of_another_one() {
    let mut world = TlsWorld::start().await;
    let alice = world.who("grid", Role::User, "alice");
    let rogue = world.who("grid", Role::Coordinator, "grc-2");
    let answer = world.grc(&alice).reserve(request("r1", "alice")).await.unwrap().into_inner();
    let reservation = answer.reservation.unwrap();
    let txn = reservation.transaction.clone();
    let segments = reservation.plan.unwrap().segments;
    let segment = segments.iter().find(|it| it.resource_manager == "crm-A").unwrap().clone();
    let before = world.ledgers();
    let mut crm: ResourceManagerClient<_> = world.rm(&rogue, "crm-A");
    let (coordinator, transaction) = ("grc".to_owned(), txn.clone());
    let hold = v1::HoldRequest {
        transaction: "grc-0000-99/1".into(),
        coordinator: coordinator.clone(),
        user: "alice".into(),
        segments: vec![segment.clone()],
        ..Default::default()
    };
    assert_eq!(code(crm.hold(hold.clone()).await), Code::PermissionDenied);
    let commit = v1::CommitRequest {
        transaction: transaction.clone(),
        coordinator: coordinator.clone(),
        ..Default::default()
    };
    assert_eq!(code(crm.commit(commit).await), Code::PermissionDenied);
    for transaction in [transaction.clone(), "grc-0000-100/1".to_owned()] {
        let abort = v1::AbortRequest {
            transaction: transaction.clone(),
            coordinator: coordinator.clone(),
            ..Default::default()
        };
        assert_eq!(code(crm.abort(abort).await), Code::PermissionDenied);
        let release = v1::ReleaseRequest {
            transaction,
            coordinator: coordinator.clone(),
            ..Default::default()
        };
        assert_eq!(code(crm.release(release).await), Code::PermissionDenied);
    }
    let compare =
        v1::CompareBookingsRequest { coordinator: coordinator.clone(), ..Default::default() };
    assert_eq!(code(crm.compare_bookings(compare).await), Code::PermissionDenied);
    let watch = v1::WatchProfilesRequest { coordinator, ..Default::default() };
    assert_eq!(code(crm.watch_profiles(watch).await), Code::PermissionDenied);
    let query = v1::QueryAvailabilityRequest {
        frames: vec![segment.window.unwrap()],
        user: "alice".into(),
        replaces: txn.clone(),
        ..Default::default()
    };
    assert_eq!(code(crm.query_availability(query).await), Code::PermissionDenied);
    // In its own name it may not touch what belongs to the other one, nor take an id of the other's.
    let own = "grc-2".to_owned();
    let taken = v1::HoldRequest { coordinator: own.clone(), ..hold.clone() };
    let refused = |answer: v1::HoldResponse| {
        matches!(answer.answer, Some(v1::hold_response::Answer::Refused(_)))
    };
    assert!(refused(crm.hold(taken).await.unwrap().into_inner()));
    let replacing = v1::HoldRequest {
        transaction: "grc-2-0000-1/1".into(),
        coordinator: own.clone(),
        replaces: txn.clone(),
        ..hold
    };
    assert!(refused(crm.hold(replacing).await.unwrap().into_inner()));
    let release =
        v1::ReleaseRequest { transaction: txn.clone(), coordinator: own, ..Default::default() };
    assert!(crm.release(release).await.unwrap().into_inner().refused.is_some());
    // A resource manager speaks for itself only.
    let crm_a = world.folder_dialer("crm-A");
    let resolve = v1::ResolveRequest { transaction: txn, resource_manager: "crm-B".into() };
    assert_eq!(code(world.resolver(&crm_a).resolve(resolve).await), Code::PermissionDenied);
    for (unknown, expected) in
        [("grc-0000-99/1", Code::NotFound), ("grc-2-0000-1/1", Code::NotFound)]
    {
        let resolve =
            v1::ResolveRequest { transaction: unknown.into(), resource_manager: "crm-A".into() };
        assert_eq!(code(world.resolver(&crm_a).resolve(resolve).await), expected, "{unknown}");
    }
    let after = world.ledgers();
    for daemon in ["grc", "crm-B", "nrm"] {
        assert_eq!(after[daemon], before[daemon], "{daemon}");
    }
    let got = world.grc(&alice).get(v1::GetRequest { id: "r1".into() }).await.unwrap().into_inner();
    assert_eq!(got.reservation.unwrap().state(), v1::ReservationState::Confirmed);
    let staff = world.who("south", Role::Auditor, "sue");
    let booked = world.rm(&staff, "crm-A").list_bookings(v1::ListBookingsRequest::default()).await;
    assert_eq!(booked.unwrap().into_inner().bookings.len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn whoever_is_revoked_is_out_within_ten_seconds_and_others_stay() {
    let mut world = TlsWorld::start().await;
    let alice = world.who("grid", Role::User, "alice");
    let bob = world.who("grid", Role::User, "bob");
    let mut of_alice =
        world.grc(&alice).watch(v1::WatchRequest::default()).await.unwrap().into_inner();
    let mut of_bob = world.grc(&bob).watch(v1::WatchRequest::default()).await.unwrap().into_inner();
    world.revoke("grid", Role::User, "alice", "grc");
    let revoked = Instant::now();
    let ended = async { while let Ok(Some(_)) = of_alice.message().await {} };
    tokio::time::timeout(OUT_WITHIN, ended).await.expect("the stream ends");
    let mut client = world.grc(&alice);
    let status = client.list(v1::ListRequest::default()).await.unwrap_err();
    let said = coalloc_cli::kit::rpc::cause_of(&status);
    assert_eq!(status.code(), Code::Unavailable, "{status:?}");
    assert!(said.contains("our certificate was revoked"), "{said}");
    assert!(revoked.elapsed() < OUT_WITHIN, "{:?}", revoked.elapsed());
    // Bob's stream goes on: what he reserves is told there.
    world.grc(&bob).reserve(request("r1", "bob")).await.unwrap();
    let told = async {
        loop {
            let message = of_bob.message().await.unwrap().unwrap();
            if matches!(message.what, Some(v1::watch_response::What::Event(_))) {
                break;
            }
        }
    };
    tokio::time::timeout(OUT_WITHIN, told).await.expect("bob is told");
}

#[tokio::test(flavor = "multi_thread")]
async fn certificates_are_renewed_under_load_and_broken_ones_are_refused() {
    let mut world = TlsWorld::start().await;
    let alice = world.who("grid", Role::User, "alice");
    let (stop, mut stopped) = tokio::sync::watch::channel(false);
    let mut client = world.grc(&alice);
    let load = tokio::spawn(async move {
        let mut done = 0;
        while !*stopped.borrow_and_update() {
            let id = format!("load-{done}");
            client.reserve(request(&id, "alice")).await?;
            client.release(v1::ReleaseReservationRequest { id, user: String::new() }).await?;
            done += 1;
        }
        Ok::<_, tonic::Status>(done)
    });
    let first = world.shown_certificates().await;
    for name in RMS.iter().chain(&["grc"]) {
        world.renew(name);
        kill_process(world.federation.pid(name), Signal::HUP).unwrap();
        eventually("the new certificate is in force", || async {
            world.federation.log(name).contains("identity read again")
        })
        .await;
    }
    let renewed = world.shown_certificates().await;
    assert!(renewed.iter().zip(&first).all(|(new, old)| new != old), "{renewed:?}");
    // A certificate that cannot be used changes nothing.
    world.break_certificate("crm-A");
    kill_process(world.federation.pid("crm-A"), Signal::HUP).unwrap();
    eventually("the broken certificate is told", || async {
        world.federation.log("crm-A").contains("cannot be used; the old ones stay in force")
    })
    .await;
    assert_eq!(world.shown_certificates().await, renewed, "the old certificate is shown");
    stop.send(true).unwrap();
    let done = load.await.unwrap().expect("no call fails");
    assert!(done > 0, "{done}");
    let answer = world.grc(&alice).reserve(request("last", "alice")).await.unwrap().into_inner();
    assert_eq!(answer.reservation.unwrap().state(), v1::ReservationState::Confirmed);
}
