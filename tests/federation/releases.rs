//! Daemons of the previous release and of this one together, and what a release says that does not know what it is asked for.
//!
//! The program of the previous release is built by `.ci/previous`, which prints its path; `COALLOC_PREVIOUS` names it. Without it
//! the tests that need it say that they are skipped; CI always has it.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use coalloc_proto::v1::{self, ChangeState, Reason, ReservationState as State};
use tonic::{Code, Request, Status};
use tonic_types::StatusExt as _;

use crate::harness::{Federation, RMS, Setup, eventually, free_port, pair, seconds_from_now};
use crate::middle::{self, Slander};

/// The program of the previous release.
fn previous() -> Option<PathBuf> {
    let path = std::env::var_os("COALLOC_PREVIOUS").map(PathBuf::from);
    if path.is_none() {
        eprintln!("skipped: COALLOC_PREVIOUS is not set (see .ci/previous)");
    }
    path
}

/// A federation in which these daemons run the previous release.
async fn start(old: &[&str], program: &Path) -> Federation {
    let mut federation = Federation::prepare();
    federation.configure(&Setup::default());
    for name in old {
        federation.programs.insert((*name).to_owned(), program.to_owned());
    }
    federation.start_all().await;
    federation
}

async fn modify(
    federation: &Federation,
    id: &str,
    change: &str,
    request: v1::CoAllocationRequest,
) -> Result<v1::Reservation, Status> {
    let (id, change_id, request) = (id.to_owned(), change.to_owned(), Some(request));
    let request = v1::ModifyRequest { id, change_id, request, ..v1::ModifyRequest::default() };
    Ok(federation.grc().modify(request).await?.into_inner().reservation.unwrap())
}

fn longer(request: &v1::CoAllocationRequest) -> v1::CoAllocationRequest {
    let duration = Some(coalloc_proto::Duration { seconds: 1_800, nanos: 0 });
    v1::CoAllocationRequest { duration, earliest_start: None, ..request.clone() }
}

/// Everything that a user does, between daemons of two releases.
async fn lives(federation: &Federation) {
    let request = pair(60, 600, 3_600, 600);
    federation.reserve_confirmed("one", request.clone()).await;
    let refused = federation.reserve("two", request.clone()).await;
    assert_eq!(refused.state(), State::Failed, "{refused:?}");
    let changed = modify(federation, "one", "longer", longer(&request)).await.unwrap();
    assert_eq!((changed.change.unwrap().state(), changed.version), (ChangeState::Done, 2));
    federation.reserve_confirmed("three", pair(10, 100, 7_200, 600)).await;
    let release = v1::ReleaseReservationRequest { id: "three".to_owned(), ..Default::default() };
    let released = federation.grc().release(release).await.unwrap().into_inner();
    assert_eq!(released.reservation.unwrap().state(), State::Terminated);
    federation.audit_at_rest().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_coordinator_and_resource_managers_of_two_releases_work_together_either_way() {
    let Some(program) = previous() else { return };
    lives(&start(&RMS, &program).await).await;
    lives(&start(&["grc"], &program).await).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn daemons_are_upgraded_one_by_one_under_load_and_there_is_no_way_back() {
    let Some(program) = previous() else { return };
    let mut federation = start(&["crm-A", "nrm", "crm-B", "grc"], &program).await;
    let watcher = Federation::elsewhere(federation.addresses.clone());
    let done = Arc::new(AtomicBool::new(false));
    let load = tokio::spawn(reserve_until(watcher, Arc::clone(&done)));
    for name in ["crm-A", "nrm", "crm-B", "grc"] {
        federation.stop(name);
        federation.programs.remove(name);
        federation.spawn(name);
        federation.complete().await;
        let before = reserved(&federation).await;
        eventually("the load goes on", || async { reserved(&federation).await > before + 2 }).await;
    }
    done.store(true, Ordering::Release);
    let confirmed = load.await.unwrap();
    assert!(confirmed.len() >= 8, "{}", confirmed.len());
    for (id, known) in &confirmed {
        let now = federation.get(id).await.unwrap();
        assert_eq!((now.state(), &now.transaction), (State::Confirmed, &known.transaction), "{id}");
    }
    federation.audit_at_rest().await;
    let described = v1::DescribeFederationRequest {};
    let described = federation.grc().describe_federation(described).await.unwrap().into_inner();
    for rm in &described.resource_managers {
        let version = rm.description.as_ref().unwrap().version.clone();
        assert_eq!((version.is_some(), &version), (true, &described.version), "{}", rm.name);
    }
    // The way back: the old program refuses the ledger, says why, and leaves it as it is.
    federation.stop("crm-A");
    let ledger = federation.dir.path().join("crm-A.ledger");
    let before = std::fs::read(&ledger).unwrap();
    federation.programs.insert("crm-A".to_owned(), program);
    let ended = federation.command("crm-A").status().unwrap();
    assert!(!ended.success(), "{ended}");
    let log = federation.log("crm-A");
    assert!(log.contains("format 4") && log.contains("Start the release that wrote it"), "{log}");
    assert!(std::fs::read(&ledger).unwrap() == before, "the ledger was changed");
    federation.programs.remove("crm-A");
    let verified = cli(&["ledger", "verify", ledger.to_str().unwrap()]);
    assert!(verified.status.success(), "{verified:?}");
    federation.spawn("crm-A");
    eventually("crm-A serves again", || async {
        federation.rm("crm-A").describe(v1::DescribeRequest {}).await.is_ok()
    })
    .await;
    federation.audit_at_rest().await;
}

fn cli(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_coalloc")).args(args).output().unwrap()
}

async fn reserved(federation: &Federation) -> usize {
    let list = v1::ListRequest { page_size: Some(1_000), ..v1::ListRequest::default() };
    let Ok(list) = federation.grc().list(list).await else { return 0 };
    let all = list.into_inner().reservations;
    all.iter().filter(|known| known.state().is_booked()).count()
}

/// Reserves one after the other, each as often as it takes, until it is told to stop. Returns what was confirmed.
async fn reserve_until(
    federation: Federation,
    done: Arc<AtomicBool>,
) -> BTreeMap<String, v1::Reservation> {
    let mut confirmed = BTreeMap::new();
    for number in 0_i64.. {
        if done.load(Ordering::Acquire) {
            break;
        }
        let id = format!("load-{number}");
        let request = v1::CoAllocationRequest {
            earliest_start: Some(seconds_from_now(3_600 + number * 60)),
            ..pair(1, 1, 3_600, 30)
        };
        // The request is the same each time: it is made once.
        while !done.load(Ordering::Acquire) {
            match federation.try_reserve(&id, request.clone()).await {
                Ok(known) if known.state().is_booked() => {
                    confirmed.insert(id, known);
                    break;
                }
                // A daemon is away: the next one is tried, and this one has an answer in the end.
                Ok(_) => break,
                // The connection may end before or after the daemon has taken the call.
                Err(status) => {
                    let lost = [Code::Unavailable, Code::Cancelled];
                    assert!(lost.contains(&status.code()), "{status}");
                }
            }
        }
    }
    confirmed
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_release_does_not_know_is_refused_before_anything_is_held() {
    let mut federation = Federation::prepare();
    let relay = format!("127.0.0.1:{}", free_port());
    let relayed = BTreeMap::from([("crm-B".to_owned(), relay.clone())]);
    federation.configure(&Setup { relayed, ..Setup::default() });
    let control = middle::start(&relay, &federation.addresses["crm-B"]).await;
    control.slander(Slander::OfItsRelease);
    federation.start_all().await;
    // Nothing of this needs a word.
    let request = pair(60, 600, 3_600, 600);
    federation.reserve_confirmed("one", request.clone()).await;
    let refused = modify(&federation, "one", "longer", longer(&request)).await.unwrap();
    let change = refused.change.clone().unwrap();
    let refusal = change.refusal.clone().unwrap();
    assert_eq!((change.state(), refusal.reason()), (ChangeState::Refused, Reason::Unsupported));
    assert_eq!(refusal.resource_manager, "crm-B");
    assert!(refusal.detail.contains("coalloc 0.0.1") && refusal.detail.contains("replace"));
    assert_eq!((refused.version, refused.attempts), (1, 1), "{refused:?}");
    for rm in RMS {
        let all = v1::ListBookingsRequest { include_ended: true, ..Default::default() };
        let all = federation.rm(rm).list_bookings(all).await.unwrap().into_inner().bookings;
        assert_eq!(all.len(), 1, "{rm} has held nothing: {all:?}");
    }
    let shown = cli(&["topology", "--grc", &federation.addresses["grc"]]);
    let shown = String::from_utf8_lossy(&shown.stdout).into_owned();
    assert!(shown.contains("crm-B is coalloc 0.0.1 (protocol 2)"), "{shown}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_that_needs_what_a_daemon_does_not_know_changes_nothing() {
    let federation = Federation::start().await;
    let needs = |words: &str| words.parse().unwrap();
    let reserve = |words: &str| {
        let mut request = Request::new(v1::ReserveRequest {
            request_id: "one".to_owned(),
            request: Some(pair(60, 600, 3_600, 600)),
            ..v1::ReserveRequest::default()
        });
        request.metadata_mut().insert("coalloc-needs", needs(words));
        request
    };
    let status = federation.grc().reserve(reserve("servers, teleport")).await.unwrap_err();
    let info = status.get_details_error_info().unwrap();
    assert_eq!((status.code(), info.reason.as_str()), (Code::Unimplemented, "UNSUPPORTED"));
    assert_eq!(info.metadata["unknown"], "teleport");
    assert_eq!(federation.get("one").await.unwrap_err().code(), Code::NotFound);
    let mut hold = Request::new(v1::HoldRequest::default());
    hold.metadata_mut().insert("coalloc-needs", needs("teleport"));
    let status = federation.rm("nrm").hold(hold).await.unwrap_err();
    assert_eq!(status.code(), Code::Unimplemented, "{status}");
    let known = federation.grc().reserve(reserve("one-way,replaces,keeps-old,servers")).await;
    assert_eq!(known.unwrap().into_inner().reservation.unwrap().state(), State::Confirmed);
}
