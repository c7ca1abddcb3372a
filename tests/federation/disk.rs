//! Disks that are full, and ledgers that are older than they were: real daemons on a small tmpfs, and a
//! ledger that was restored.
//!
//! The tmpfs needs root; without root, the test prints a message and does nothing.

use std::path::Path;
use std::process::Command;

use coalloc_net::client;
use coalloc_proto::v1::{self, BookingState, Reason, ReservationState as State};
use tonic_health::pb::health_check_response::ServingStatus;
use tonic_health::pb::health_client::HealthClient;

use crate::harness::{Federation, Setup, eventually, pair, seconds_from_now};
use crate::tmpfs::Small;

fn move_ledger(federation: &Federation, name: &str, folder: &Path) {
    let path = federation.dir.path().join(format!("{name}.yaml"));
    let text = std::fs::read_to_string(&path).unwrap();
    let (old, new) = (format!("{name}.ledger"), folder.join(format!("{name}.ledger")));
    let text = text.replace(&format!("ledger: {old}"), &format!("ledger: {}", new.display()));
    std::fs::write(path, text).unwrap();
}

fn hold(number: u32) -> v1::HoldRequest {
    let window =
        v1::Window { start: Some(seconds_from_now(90_000)), end: Some(seconds_from_now(93_600)) };
    v1::HoldRequest {
        transaction: format!("grc-00000000-{number}/1"),
        coordinator: "grc".to_owned(),
        segments: vec![v1::Segment {
            resource: "A-B".to_owned(),
            amount: 1_000_000,
            window: Some(window),
            ..v1::Segment::default()
        }],
        ..v1::HoldRequest::default()
    }
}

async fn held(federation: &Federation, order: &v1::HoldRequest) -> Result<(), v1::Refusal> {
    let answer = federation.rm("nrm").hold(order.clone()).await.unwrap().into_inner().answer;
    match answer.unwrap() {
        v1::hold_response::Answer::Held(_) => Ok(()),
        v1::hold_response::Answer::Refused(refusal) => Err(refusal),
    }
}

async fn health(federation: &Federation, name: &str) -> ServingStatus {
    let channel = client::channel("health", &federation.addresses[name]).unwrap();
    let request = tonic_health::pb::HealthCheckRequest { service: "coalloc.holds".to_owned() };
    HealthClient::new(channel).check(request).await.unwrap().into_inner().status()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_full_disk_refuses_what_is_new_and_ends_what_has_begun() {
    let Some(small) = Small::mounted(40) else { return };
    let mut federation = Federation::prepare();
    // Soft expiry never comes: the GRC does not know the transaction of the holds below.
    federation.configure(&Setup { policy: "{hold_soft: 900s}", ..Setup::default() });
    for name in ["nrm", "grc"] {
        move_ledger(&federation, name, small.path());
    }
    federation.start_all().await;
    federation.reserve_confirmed("before", pair(10, 100, 3_600, 600)).await;
    for number in [1, 2] {
        held(&federation, &hold(number)).await.unwrap();
    }
    assert_eq!(health(&federation, "nrm").await, ServingStatus::Serving);

    small.fill();
    // New requests are refused at once, with a reason for people and for programs.
    let refusal = held(&federation, &hold(3)).await.unwrap_err();
    assert_eq!((refusal.reason(), &*refusal.nsi_error), (Reason::DiskFull, "00600"));
    assert!(refusal.transient && refusal.detail.contains("disk is nearly full"), "{refusal:?}");
    let status = federation.try_reserve("during", pair(1, 1, 3_600, 600)).await.unwrap_err();
    assert_eq!(status.code(), tonic::Code::ResourceExhausted, "{status}");
    assert!(status.message().contains("nothing was reserved"), "{status}");
    for name in ["nrm", "grc"] {
        let log = federation.log(name);
        assert_eq!(log.matches("the disk is nearly full").count(), 1, "{log}");
        eventually("health says it", || async {
            health(&federation, name).await == ServingStatus::NotServing
        })
        .await;
    }
    // Transactions that have begun continue as usual.
    let end = |number: u32| (hold(number).transaction, "grc".to_owned(), String::new());
    let (transaction, coordinator, resource_manager) = end(1);
    let commit =
        v1::CommitRequest { transaction, coordinator, resource_manager, ..Default::default() };
    let refused = federation.rm("nrm").commit(commit.clone()).await.unwrap().into_inner().refused;
    assert_eq!(refused, None);
    let (transaction, coordinator, resource_manager) = end(2);
    let abort =
        v1::AbortRequest { transaction, coordinator, resource_manager, ..Default::default() };
    let refused = federation.rm("nrm").abort(abort).await.unwrap().into_inner().refused;
    assert_eq!(refused, None);
    let release = v1::ReleaseReservationRequest { id: "before".to_owned(), ..Default::default() };
    let released = federation.grc().release(release).await.unwrap().into_inner().reservation;
    assert_eq!(released.unwrap().state(), State::Terminated);

    // A daemon that was killed starts again on the full disk, and nothing is lost.
    for name in ["nrm", "grc"] {
        federation.kill(name);
        federation.spawn(name);
    }
    federation.complete().await;
    let bookings = federation.bookings("nrm").await;
    let live: Vec<_> = bookings.iter().map(|b| (&*b.transaction, b.state())).collect();
    assert_eq!(live, [(&*commit.transaction, BookingState::Booked)]);
    assert_eq!(federation.get("before").await.unwrap().state(), State::Terminated);
    let refusal = held(&federation, &hold(4)).await.unwrap_err();
    assert_eq!(refusal.reason(), Reason::DiskFull);

    small.free();
    eventually("holds are accepted again", || async {
        // A refused transaction stays refused, so each attempt uses a new one.
        static NEXT: std::sync::atomic::AtomicU32 = std::sync::atomic::AtomicU32::new(100);
        let next = NEXT.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        held(&federation, &hold(next)).await.is_ok()
    })
    .await;
    // The request id of a request that was turned away can be used for a new request.
    federation.reserve_confirmed("during", pair(1, 1, 3_600, 600)).await;
    assert_eq!(health(&federation, "nrm").await, ServingStatus::Serving);
    for name in ["nrm", "grc"] {
        assert!(federation.log(name).contains("there is enough disk space again"), "{name}");
    }
}

/// Runs `coalloc ledger ...`; returns its exit code, and everything it prints.
fn coalloc(words: &[&str], path: &Path) -> (Option<i32>, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_coalloc"));
    let output = command.arg("ledger").args(words).arg(path).output().unwrap();
    let said = [&output.stdout[..], &output.stderr[..]].concat();
    (output.status.code(), String::from_utf8_lossy(&said).into_owned())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_ledger_put_back_stops_the_node_until_it_is_accepted() {
    let mut federation = Federation::start().await;
    let path = federation.dir.path().join("grc.ledger");
    let first = federation.reserve("one", pair(1, 1, 3_600, 600)).await;
    assert!(federation.stop("grc").success());
    let backup = std::fs::read(&path).unwrap();
    federation.spawn("grc");
    federation.complete().await;
    let second = federation.reserve("two", pair(1, 1, 7_200, 600)).await;
    let (exit, said) = coalloc(&["accept-restored"], &path);
    assert_eq!(exit, Some(3), "beside the node at work: {said}");
    let (exit, said) = coalloc(&["verify"], &path);
    assert!(exit == Some(0) && said.contains("by a running node"), "{said}");
    assert!(federation.stop("grc").success());

    std::fs::write(&path, &backup).unwrap();
    let output = federation.command("grc").output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    let log = federation.log("grc");
    assert!(log.contains("not the ledger that was last used here: it ends at record"), "{log}");
    assert!(log.contains("accept-restored"), "{log}");
    assert_eq!(std::fs::read(&path).unwrap(), backup, "it was left as it is");
    let (exit, said) = coalloc(&["verify"], &path);
    assert!(exit == Some(1) && said.contains("not the ledger that was last used here"), "{said}");

    let (exit, said) = coalloc(&["accept-restored"], &path);
    assert_eq!(exit, Some(0), "{said}");
    let (exit, said) = coalloc(&["verify"], &path);
    assert_eq!(exit, Some(0), "{said}");
    federation.spawn("grc");
    federation.complete().await;
    // The second reservation is forgotten here, and its number is not used again.
    assert_eq!(federation.get("one").await.unwrap().id, first.id);
    assert!(federation.get("two").await.is_err());
    let third = federation.reserve_confirmed("three", pair(1, 1, 10_800, 600)).await;
    assert_ne!(third.id, second.id);
    let (exit, said) = coalloc(&["dump", "--reservation", &third.id], &path);
    assert!(exit == Some(0) && said.contains("by user UserA"), "{said}");
    assert!(said.lines().count() >= 4 && !said.contains(&first.id), "{said}");
}
