//! A resource manager that is gone when a reservation is released: an operator gives up on it, the
//! reservation ends, and the resource manager is told when it returns, whatever was restarted or
//! reconfigured in the meantime.

use std::process::Command;

use coalloc_proto::v1::{self, ReservationState as State};

use crate::harness::{Federation, Setup, eventually, pair};

/// Runs `coalloc` against the coordinator; returns its exit code and everything it prints.
pub(crate) fn coalloc(federation: &Federation, words: &[&str]) -> (Option<i32>, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_coalloc"));
    command.args(words);
    match words[0] {
        "health" => command.arg(&federation.addresses["grc"]),
        _ => command.args(["--grc", &federation.addresses["grc"]]),
    };
    let output = command.output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned()
        + &String::from_utf8_lossy(&output.stderr);
    (output.status.code(), text)
}

/// Sends a release in the background, where its caller waits.
fn release(federation: &Federation, id: &str) -> tokio::task::JoinHandle<v1::Reservation> {
    let (mut grc, id, user) = (federation.grc(), id.to_owned(), String::new());
    tokio::spawn(async move {
        let answer = grc.release(v1::ReleaseReservationRequest { id, user }).await.unwrap();
        answer.into_inner().reservation.unwrap()
    })
}

async fn terminating(federation: &Federation, id: &str) {
    let what = format!("{id} waits for crm-A alone");
    eventually(&what, || async {
        let others = [federation.bookings("crm-B").await, federation.bookings("nrm").await];
        federation.get(id).await.unwrap().state() == State::Terminating
            && others.iter().all(Vec::is_empty)
    })
    .await;
}

/// Starts the coordinator again, with or without this resource manager in its configuration.
fn reconfigured(federation: &mut Federation, without: Option<&str>) {
    assert!(federation.stop("grc").success());
    federation.configure(&Setup::default());
    if let Some(rm) = without {
        let path = federation.dir.path().join("grc.yaml");
        let text = std::fs::read_to_string(&path).unwrap();
        let others: Vec<&str> = text.lines().filter(|line| !line.contains(rm)).collect();
        assert_eq!(others.len() + 1, text.lines().count());
        federation.write("grc.yaml", &others.join("\n"));
    }
    federation.spawn("grc");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_dead_rm_does_not_end_is_given_up_and_ended_when_it_returns() {
    let mut federation = Federation::start().await;
    federation.reserve_confirmed("one", pair(60, 600, 3_600, 600)).await;
    federation.kill("crm-A");
    let burnt = ["--why", "disk burnt", "--by", "alice"];
    let give_up = |rm: &'static str| [&["give-up", "one", "--rm", rm], &burnt[..]].concat();

    // A reservation that is still wanted is not given up.
    let (code, text) = coalloc(&federation, &give_up("crm-A"));
    assert_eq!(code, Some(3), "{text}");
    assert!(text.contains("Release it first"), "{text}");
    let waiting = release(&federation, "one");
    terminating(&federation, "one").await;

    let owed = "crm-A, which does not answer, is owed 1 decision that a reservation waits for";
    eventually("health says what is owed", || async {
        coalloc(&federation, &["health"]).1.contains(owed)
    })
    .await;
    let (code, text) = coalloc(&federation, &give_up("crm-B"));
    assert_eq!(code, Some(2), "{text}");
    assert!(
        text.contains("has acknowledged everything of it") && text.contains(": crm-A"),
        "{text}"
    );
    let (code, text) = coalloc(&federation, &give_up("crm-A"));
    assert_eq!(code, Some(0), "{text}");
    assert!(text.contains(": terminated\n"), "{text}");
    assert!(text.contains("crm-A was given up on by alice (disk burnt) at "), "{text}");
    assert!(text.contains("it may still have it booked until "), "{text}");
    let told = waiting.await.unwrap();
    assert_eq!((told.state(), told.definite), (State::Terminated, true), "whoever waits is told");
    assert_eq!((told.given_up.len(), told.given_up[0].ended), (1, None));
    let (code, text) = coalloc(&federation, &["watch", "one", "--until", "ended", "--idle", "5s"]);
    assert_eq!(code, Some(0), "{text}");
    assert!(text.contains("crm-A was given up on by alice (disk burnt): it may still"), "{text}");

    // A restarted coordinator still knows it, even if the resource manager is not in its configuration.
    reconfigured(&mut federation, Some("crm-A"));
    federation.complete().await;
    let known = federation.get("one").await.unwrap();
    assert_eq!((known.state(), known.definite), (State::Terminated, true));
    assert_eq!(known.given_up, told.given_up);
    let elsewhere = "crm-A, which is not configured, is owed 1 release that nobody waits for";
    for words in [["health"], ["topology"]] {
        let (_, text) = coalloc(&federation, &words);
        assert!(text.contains(elsewhere), "{text}");
    }
    let warned = federation.log("grc").matches("owed to an RM that is not configured").count();
    assert_eq!(warned, 1, "{}", federation.log("grc"));

    // The resource manager returns, with its ledger.
    reconfigured(&mut federation, None);
    federation.spawn("crm-A");
    federation.complete().await;
    eventually("crm-A has ended it", || async {
        let known = federation.get("one").await.unwrap();
        known.given_up[0].ended.is_some()
    })
    .await;
    assert!(federation.bookings("crm-A").await.is_empty());
    let (_, text) = coalloc(&federation, &["show", "one"]);
    assert!(text.contains("it has returned, and has had nothing of it since "), "{text}");
    let (code, text) = coalloc(&federation, &["repair"]);
    assert_eq!(code, Some(0), "{text}");
    assert!(coalloc(&federation, &["health"]).1.ends_with("serving\n"));
    federation.audit_at_rest().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn all_that_an_rm_owes_is_given_up_and_what_is_wanted_is_not() {
    let mut federation = Federation::start().await;
    for (id, start_s) in [("one", 3_600), ("two", 7_200), ("three", 10_800)] {
        federation.reserve_confirmed(id, pair(60, 600, start_s, 600)).await;
    }
    federation.kill("crm-A");
    let waiting = [release(&federation, "one"), release(&federation, "two")];
    eventually("two releases are waited for", || async {
        coalloc(&federation, &["topology"])
            .1
            .contains("is owed 2 decisions that reservations wait for")
    })
    .await;
    let all = ["give-up", "--all", "--why", "gone", "--rm"];
    let (code, text) = coalloc(&federation, &[&all[..], &["crm-Z"]].concat());
    assert_eq!(code, Some(6), "{text}");
    let (code, text) = coalloc(&federation, &["give-up", "--all", "--why", " ", "--rm", "crm-A"]);
    assert_eq!(code, Some(2), "{text}");
    assert!(text.contains("why"), "{text}");
    let (code, text) = coalloc(&federation, &[&all[..], &["crm-A"]].concat());
    assert_eq!(code, Some(0), "{text}");
    assert!(text.contains("2 reservations; crm-A is told"), "{text}");
    for told in waiting {
        assert_eq!(told.await.unwrap().state(), State::Terminated);
    }
    assert_eq!(federation.get("three").await.unwrap().state(), State::Confirmed);
    federation.spawn("crm-A");
    eventually("crm-A has the third alone", || async {
        let answer = federation.rm("crm-A").list_bookings(v1::ListBookingsRequest::default()).await;
        answer.is_ok_and(|answer| answer.into_inner().bookings.len() == 1)
    })
    .await;
    federation.complete().await;
    federation.audit_at_rest().await;
}
