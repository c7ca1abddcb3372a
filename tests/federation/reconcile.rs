//! An RM that has lost its ledger, or was given an older one: its coordinator reports what differs.
//!
//! `coalloc repair` books again what is free, releases bookings that belong to no reservation, and reports
//! what has been sold.

use std::process::Command;

use coalloc_proto::v1::{self, ReservationState as State};

use crate::harness::{Federation, eventually, pair};

/// The differences that the coordinator has found by itself: resource manager, transaction, kind.
async fn found(federation: &Federation) -> Vec<(String, String, v1::DifferenceKind)> {
    let last = v1::ListDifferencesRequest::default();
    let answer = federation.grc().list_differences(last).await.unwrap().into_inner();
    let of = |one: v1::ComparedBookings| {
        let rm = one.resource_manager;
        let differences = one.differences.into_iter();
        differences.map(move |d| (rm.clone(), d.transaction.clone(), d.kind()))
    };
    answer.resource_managers.into_iter().flat_map(of).collect()
}

/// Waits until the coordinator has found these differences by itself.
async fn finds(federation: &Federation, expected: &[(&str, &str, v1::DifferenceKind)]) {
    let mut expected: Vec<(String, String, v1::DifferenceKind)> =
        expected.iter().map(|(rm, txn, kind)| ((*rm).into(), (*txn).into(), *kind)).collect();
    expected.sort_by(|a, b| (&a.0, &a.1).cmp(&(&b.0, &b.1)));
    let what = format!("the coordinator finds {expected:?}");
    eventually(&what, || async { found(federation).await == expected }).await;
}

/// Checks that a watcher of this reservation, from its beginning, gets this event.
async fn hears(federation: &Federation, id: &str, what: &str) {
    let from_first =
        v1::WatchRequest { resume_token: "0".into(), id: id.into(), ..Default::default() };
    let mut events = federation.grc().watch(from_first).await.unwrap().into_inner();
    let heard = async {
        while let Some(told) = events.message().await.unwrap() {
            if matches!(&told.what, Some(v1::watch_response::What::Event(event)) if event.what == what)
            {
                return;
            }
        }
        panic!("the stream has ended without {what:?}");
    };
    tokio::time::timeout(std::time::Duration::from_secs(30), heard).await.expect(what);
}

/// Runs `coalloc` against the coordinator; returns its exit code and standard output.
fn coalloc(federation: &Federation, words: &[&str]) -> (Option<i32>, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_coalloc"));
    command.args(words).args(["--grc", &federation.addresses["grc"]]);
    let output = command.output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned()
        + &String::from_utf8_lossy(&output.stderr);
    (output.status.code(), text)
}

/// Stops a daemon, changes its ledger, and starts the daemon again.
pub(crate) async fn with_ledger_changed(
    federation: &mut Federation,
    name: &str,
    change: impl FnOnce(&std::path::Path),
) {
    assert!(federation.stop(name).success());
    change(&federation.dir.path().join(format!("{name}.ledger")));
    federation.spawn(name);
    federation.complete().await;
}

/// All files that belong to a ledger: the ledger itself and those next to it.
fn files(ledger: &std::path::Path) -> Vec<std::path::PathBuf> {
    let name = ledger.file_name().unwrap().to_str().unwrap().to_owned();
    let all = std::fs::read_dir(ledger.parent().unwrap()).unwrap();
    let all = all.map(|entry| entry.unwrap().path());
    all.filter(|path| path.file_name().unwrap().to_str().unwrap().starts_with(&name)).collect()
}

pub(crate) fn lose(ledger: &std::path::Path) {
    let files = files(ledger);
    assert!(!files.is_empty());
    files.iter().for_each(|file| std::fs::remove_file(file).unwrap());
}

#[tokio::test(flavor = "multi_thread")]
async fn what_an_rm_has_lost_is_found_and_booked_again_where_it_is_free() {
    let mut federation = Federation::start().await;
    let one = federation.reserve("one", pair(60, 600, 3_600, 600)).await;
    let two = federation.reserve("two", pair(60, 600, 7_200, 600)).await;
    assert_eq!((one.state(), two.state()), (State::Confirmed, State::Confirmed));
    with_ledger_changed(&mut federation, "crm-A", lose).await;
    let missing = v1::DifferenceKind::MissingThere;
    let (one, two) = (one.transaction, two.transaction);
    finds(&federation, &[("crm-A", &one, missing), ("crm-A", &two, missing)]).await;
    hears(&federation, "two", "crm-A has lost its booking").await;
    let (code, text) = coalloc(&federation, &["topology"]);
    assert_eq!(code, Some(0), "{text}");
    assert!(text.contains("reachable; 2 differences, see coalloc repair"), "{text}");
    let (code, text) = coalloc(&federation, &["audit", "--patience", "5s"]);
    assert_eq!(code, Some(1), "{text}");
    assert!(
        text.contains(&format!("{one} at crm-A: expected booked, because the coord")),
        "{text}"
    );

    // The capacity of the first reservation is sold in the meantime, because crm-A does not know of it any
    // more.
    let sold = federation.reserve_confirmed("sold", alone(60, 3_600)).await;
    assert_eq!(sold.plan.as_ref().unwrap().placements[0].at, "A");

    let (code, text) = coalloc(&federation, &["repair"]);
    assert_eq!(code, Some(1), "{text}");
    assert!(text.contains("missing there") && text.contains("book again"), "{text}");
    let (code, text) = coalloc(&federation, &["repair", "--apply"]);
    assert_eq!(code, Some(3), "{text}");
    assert!(text.contains(&format!("{two} at crm-A: booked again")), "{text}");
    let refused = format!("{one} at crm-A: refused: ");
    let line = text.lines().find(|line| line.starts_with(&refused));
    let line = line.unwrap_or_else(|| panic!("{text}"));
    assert!(line.contains("A has 40") && line.contains("60"), "{line}");

    let booked = federation.get("two").await.unwrap();
    assert_eq!((booked.state(), booked.version), (State::Confirmed, 2));
    assert_ne!(booked.transaction, two);
    finds(&federation, &[("crm-A", &one, missing)]).await;
    hears(&federation, "two", "crm-A has the right booking again").await;
    // The user releases the reservation whose capacity was sold: crm-A has nothing of it, elsewhere it ends.
    assert_eq!(coalloc(&federation, &["release", "one"]).0, Some(0));
    let (code, text) = coalloc(&federation, &["repair"]);
    assert_eq!(code, Some(0), "{text}");
    federation.audit_at_rest().await;
    let (code, text) = coalloc(&federation, &["audit", "--patience", "5s"]);
    assert_eq!(code, Some(0), "{text}");
    assert!(text.contains("3 compared, 0 differences"), "{text}");
}

/// A request for CPUs at A only.
fn alone(cpus: u64, start_s: i64) -> v1::CoAllocationRequest {
    let mut request = pair(cpus, 1, start_s, 600);
    request.links.clear();
    request.sites.truncate(1);
    request.sites[0].pinned_to = Some("A".to_owned());
    request
}

#[tokio::test(flavor = "multi_thread")]
async fn an_older_ledger_has_what_is_nobodys_and_lacks_what_is_somebodys() {
    let mut federation = Federation::start().await;
    let one = federation.reserve("one", pair(60, 600, 3_600, 600)).await;
    let mut backup = Vec::new();
    with_ledger_changed(&mut federation, "nrm", |ledger| backup = std::fs::read(ledger).unwrap())
        .await;
    assert_eq!(coalloc(&federation, &["release", "one"]).0, Some(0));
    // This request needs what the released one had.
    let two = federation.reserve("two", pair(60, 600, 3_600, 600)).await;
    assert_eq!((one.state(), two.state()), (State::Confirmed, State::Confirmed));
    with_ledger_changed(&mut federation, "nrm", |ledger| {
        std::fs::write(ledger, &backup).unwrap();
        let mut accept = Command::new(env!("CARGO_BIN_EXE_coalloc"));
        let accepted = accept.args(["ledger", "accept-restored"]).arg(ledger).output().unwrap();
        assert!(accepted.status.success(), "{}", String::from_utf8_lossy(&accepted.stderr));
    })
    .await;
    let (one, two) = (one.transaction, two.transaction);
    let (missing, unknown) = (v1::DifferenceKind::MissingThere, v1::DifferenceKind::UnknownHere);
    finds(&federation, &[("nrm", &one, unknown), ("nrm", &two, missing)]).await;
    let (code, text) = coalloc(&federation, &["repair", "--apply", "--why", "an older ledger"]);
    assert_eq!(code, Some(0), "{text}");
    assert!(text.contains(&format!("{one} at nrm: released")), "{text}");
    assert!(text.contains(&format!("{two} at nrm: booked again")), "{text}");
    assert!(text.contains("nothing differs any more"), "{text}");
    federation.audit_at_rest().await;
    assert!(!federation.bookings("nrm").await.is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn bookings_of_a_ledger_that_the_coordinator_has_lost_are_released_only_by_name() {
    let mut federation = Federation::start().await;
    let one = federation.reserve("one", pair(60, 600, 3_600, 600)).await.transaction;
    with_ledger_changed(&mut federation, "grc", lose).await;
    let unknown = v1::DifferenceKind::UnknownHere;
    finds(&federation, &["crm-A", "crm-B", "nrm"].map(|rm| (rm, one.as_str(), unknown))).await;
    let (code, text) = coalloc(&federation, &["repair", "--apply"]);
    assert_eq!(code, Some(1), "{text}");
    assert!(text.contains(&format!("{one} at crm-A: left alone")), "{text}");
    assert_eq!(federation.bookings("crm-A").await.len(), 1);
    let (code, text) = coalloc(&federation, &["repair", "--apply", &one]);
    assert_eq!(code, Some(0), "{text}");
    for rm in ["crm-A", "crm-B", "nrm"] {
        assert!(federation.bookings(rm).await.is_empty(), "{rm}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stranger_may_not_compare_and_what_does_not_differ_is_not_repaired() {
    let federation = Federation::start().await;
    let one = federation.reserve("one", pair(60, 600, 3_600, 600)).await.transaction;
    let stranger = v1::CompareBookingsRequest { coordinator: "other".into(), ..Default::default() };
    let status = federation.rm("crm-A").compare_bookings(stranger).await.unwrap_err();
    assert_eq!(status.code(), tonic::Code::PermissionDenied);
    let repair = v1::RepairRequest {
        repair_id: "r".into(),
        resource_manager: "crm-A".into(),
        transaction: one,
        ..Default::default()
    };
    let status = federation.grc().repair(repair).await.unwrap_err();
    assert_eq!(status.code(), tonic::Code::FailedPrecondition, "{status:?}");
    assert_eq!(federation.bookings("crm-A").await.len(), 1);
}
