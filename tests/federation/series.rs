//! Series of reservations: made by the command line, made again after the client was killed, listed, changed and released.

use std::process::{Command, Output, Stdio};

use coalloc_proto::v1::{self, ReservationState as State};
use tonic::Code;

use crate::harness::{Federation, eventually, pair};

fn coalloc(federation: &Federation, words: &str) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_coalloc"));
    command.args(words.split(' ')).env("COALLOC_GRC", &federation.addresses["grc"]);
    command.env_remove("COALLOC_IDENTITY").stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

fn run(federation: &Federation, words: &str, exit: i32) -> String {
    let Output { status, stdout, stderr } = coalloc(federation, words).output().unwrap();
    let (out, error) = (String::from_utf8_lossy(&stdout), String::from_utf8_lossy(&stderr));
    assert_eq!(status.code(), Some(exit), "{words}\n{out}{error}");
    out.into_owned()
}

async fn members(federation: &Federation, series: &str) -> Vec<v1::Reservation> {
    let request = v1::ListRequest { series: series.to_owned(), ..v1::ListRequest::default() };
    federation.grc().list(request).await.unwrap().into_inner().reservations
}

/// A request that is the same whenever it is sent on one day.
fn daily(count: u32, more: &str) -> String {
    let seconds = crate::harness::seconds_from_now(2 * 86_400).seconds;
    let start = coalloc_common::Time::from_us(seconds / 86_400 * 86_400_000_000);
    format!(
        "reserve --site a=60 --for 1h --user UserA --after {start} --repeat daily --count {count} {more}"
    )
}

#[tokio::test(flavor = "multi_thread")]
async fn the_same_command_after_a_killed_client_makes_nothing_twice() {
    let federation = Federation::start().await;
    let words = daily(12, "--id lab");
    let mut client = coalloc(&federation, &words).spawn().unwrap();
    eventually("two are reserved", || async { members(&federation, "lab").await.len() >= 2 }).await;
    client.kill().unwrap();
    client.wait().unwrap();
    let told = run(&federation, &words, 0);
    assert!(told.contains("12 of 12 are reserved"), "{told}");
    assert_eq!(run(&federation, &words, 0), told);
    let all = members(&federation, "lab").await;
    let ids: Vec<&str> = all.iter().map(|one| one.request_id.as_str()).collect();
    let expected: Vec<String> = (1..=12).map(|number| format!("lab-{number}")).collect();
    assert_eq!(ids, expected);
    assert!(all.iter().all(|one| one.state() == State::Confirmed), "{all:?}");
    federation.audit_at_rest().await;

    // A change is one of each, and leaves them in the series.
    let told = run(&federation, "modify --series lab --for 2h", 0);
    assert_eq!(told.matches(": changed; ").count(), 12, "{told}");
    assert_eq!(members(&federation, "lab").await.len(), 12);
    // Whoever takes the name of a series for an id is told how to name a series.
    for command in ["show lab", "modify lab --for 1h", "release lab"] {
        let Output { status, stderr, .. } = coalloc(&federation, command).output().unwrap();
        let told = String::from_utf8_lossy(&stderr);
        assert!(status.code() == Some(6) && told.contains("--series lab`"), "{command}: {told}");
    }
    let told = run(&federation, "release --series lab", 0);
    assert_eq!(told.matches(": terminated\n").count(), 12, "{told}");
    assert_eq!(run(&federation, "release --series lab", 0), "nothing is left to release\n");
    run(&federation, "release --series nobody", 6);
    federation.audit_at_rest().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn of_a_series_that_does_not_fit_nothing_is_kept_unless_some_will_do() {
    let federation = Federation::start().await;
    // Both sites are taken by others on the third day.
    let third = daily(3, "--id block --those-that-fit").replace("a=60", "a=60 --site b=60");
    run(&federation, &third, 0);
    run(&federation, "release block-1 block-2", 0);

    let told = run(&federation, &daily(4, "--id lab"), 3);
    assert_eq!(told.matches("released again").count(), 2, "{told}");
    assert!(told.contains("4: not tried\nthis command has reserved nothing"), "{told}");
    let is_left = |one: &v1::Reservation| one.state() == State::Confirmed;
    assert_eq!(members(&federation, "lab").await.iter().filter(|one| is_left(one)).count(), 0);

    // What an earlier command has reserved stays when a longer series does not fit, or another rule is asked for.
    run(&federation, &daily(2, "--id early"), 0);
    let told = run(&federation, &daily(4, "--id early"), 3);
    assert!(told.contains("2 of 4 are reserved") && !told.contains("released again"), "{told}");
    let other = daily(2, "--id early").replace("--repeat daily", "--repeat 36h");
    let told = run(&federation, &other, 3);
    assert!(!told.contains("released again"), "{told}");
    assert_eq!(members(&federation, "early").await.iter().filter(|one| is_left(one)).count(), 2);
    run(&federation, "release --series early", 0);

    let told = run(&federation, &daily(4, "--id some --those-that-fit"), 0);
    assert!(told.contains("3 of 4 are reserved"), "{told}");
    assert_eq!(members(&federation, "some").await.iter().filter(|one| is_left(one)).count(), 3);
    federation.audit_at_rest().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_series_is_a_name_and_a_change_does_not_leave_it() {
    let federation = Federation::start().await;
    let of = |series: &str| v1::CoAllocationRequest {
        series: series.to_owned(),
        ..pair(10, 100, 3_600, 600)
    };
    let error = federation.try_reserve("one", of("not a name")).await.unwrap_err();
    assert_eq!(error.code(), Code::InvalidArgument, "{error:?}");
    federation.reserve_confirmed("one", of("lab")).await;
    federation.reserve_confirmed("two", of("")).await;
    let modify = |series: &str| v1::ModifyRequest {
        id: "one".to_owned(),
        change_id: format!("to-{series}"),
        request: Some(v1::CoAllocationRequest { earliest_start: None, ..of(series) }),
        ..v1::ModifyRequest::default()
    };
    let error = federation.grc().modify(modify("other")).await.unwrap_err();
    assert!(error.message().contains("to which the reservation belongs"), "{error:?}");
    federation.grc().modify(modify("")).await.unwrap();
    assert_eq!(members(&federation, "lab").await.len(), 1);
    let request = v1::ListRequest { series: "no name".to_owned(), ..v1::ListRequest::default() };
    let error = federation.grc().list(request).await.unwrap_err();
    assert_eq!(error.code(), Code::InvalidArgument, "{error:?}");
}
