//! What is there, as the commands say it: list, usage, bookings, topology and find-window of a running federation.

use std::process::Command;

use coalloc_proto::v1;

use crate::harness::{Federation, pair};

/// The width of the page for which the commands print.
const COLUMNS: usize = 80;

/// Runs a command for a page of 80 columns, in UTC: its exit code and what it printed.
fn coalloc(federation: &Federation, line: &str) -> (Option<i32>, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_coalloc"));
    command.args(line.split(' ')).args(["--grc", &federation.addresses["grc"]]);
    let output = command.env("COLUMNS", COLUMNS.to_string()).env("TZ", "UTC").output().unwrap();
    let text = [&output.stdout[..], &output.stderr[..]].concat();
    (output.status.code(), String::from_utf8_lossy(&text).into_owned())
}

/// The same for a command that succeeds with lines of at most 80 columns.
fn page(federation: &Federation, line: &str) -> String {
    page_with(federation, line, 0)
}

/// The same for a command with this exit code.
fn page_with(federation: &Federation, line: &str, exit: i32) -> String {
    let (code, text) = coalloc(federation, line);
    assert_eq!(code, Some(exit), "{line}: {text}");
    let longest = text.lines().map(|line| line.chars().count()).max();
    assert!(longest <= Some(COLUMNS), "{line}: {longest:?}\n{text}");
    text
}

#[tokio::test(flavor = "multi_thread")]
async fn reservations_are_listed_by_the_users_own_ids() {
    let federation = Federation::start().await;
    federation.reserve_confirmed("my-first", pair(1, 1, 3_600, 600)).await;
    federation.reserve_confirmed("my-second", pair(1, 1, 7_200, 600)).await;
    let refused = federation.reserve("too-large", pair(1_000, 1, 3_600, 600)).await;
    assert_eq!(refused.state(), v1::ReservationState::Failed);

    let list = page(&federation, "list");
    let lines: Vec<&str> = list.lines().collect();
    assert!(lines[0].starts_with("id         state      window (UTC)"), "{list}");
    assert!(lines[1].starts_with("my-first   confirmed") && lines[1].ends_with("A B"), "{list}");
    assert_eq!(lines[3], "2 reservations, without those that have ended (--all)");
    let all = page(&federation, "list --all");
    assert!(all.contains("too-large  failed") && all.contains("3 reservations\n"), "{all}");
    let newest = page(&federation, "list --limit 1 --since -1h");
    assert!(newest.contains("1 reservation, the newest of 2 (--limit 2 lists all)"), "{newest}");
    assert!(newest.contains("my-second") && !newest.contains("my-first"), "{newest}");
    let (_, csv) = coalloc(&federation, "list -o csv --state failed");
    assert!(csv.starts_with("request_id,user,state,") && csv.contains("\ntoo-large,"), "{csv}");
    let (_, json) = coalloc(&federation, "list -o json");
    let json: v1::ListResponse = serde_json::from_str(&json).unwrap();
    assert_eq!(json.reservations.len(), 2);
    let (_, wide) = coalloc(&federation, "list -o wide --limit 1");
    assert!(wide.contains(&json.reservations[1].id), "{wide}");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_booked_is_drawn_and_listed_and_who_is_down_is_named() {
    let mut federation = Federation::start().await;
    federation.reserve_confirmed("one", pair(1, 1, 3_600, 3_600)).await;
    let usage = page(&federation, "usage --ascii --site A --path A-B --for 6h");
    assert!(usage.starts_with("Everything that is held and booked:\n"), "{usage}");
    let rows = ["A   |", "A-B |"].map(|row| usage.lines().filter(|l| l.starts_with(row)).count());
    assert_eq!(rows, [1, 1], "{usage}");
    assert!(usage.contains(" %\n") && !usage.contains("\nB "), "{usage}");
    let (code, text) = coalloc(&federation, "usage --rm crm-C");
    assert_eq!(code, Some(2), "{text}");
    assert!(text.contains("allowed: crm-A, crm-B and nrm"), "{text}");

    let bookings = page(&federation, "bookings");
    assert!(bookings.contains("A 1 CPU") && bookings.contains("3 bookings, 0 holds"), "{bookings}");
    let (_, csv) = coalloc(&federation, "bookings -o csv --rm nrm");
    assert!(csv.contains(",nrm,grc,UserA,booked,A-B,1000000,bit/s,"), "{csv}");

    federation.kill("crm-B");
    let usage = page_with(&federation, "usage", 5);
    assert!(usage.contains("did not answer: crm-B: "), "{usage}");
    let bookings = page_with(&federation, "bookings", 5);
    assert!(bookings.contains("did not answer: crm-B: "), "{bookings}");
    let topology = page(&federation, "topology");
    assert_eq!(topology.lines().filter(|line| line.starts_with("A-B ")).count(), 1, "{topology}");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_starts_that_fit_are_found_and_nothing_is_reserved() {
    let federation = Federation::start().await;
    federation.reserve_confirmed("first", pair(8, 1, 3_600, 3_600)).await;
    let found = page(&federation, "find-window --site a=95@A --for 1h --step 10min --user UserA");
    assert!(found.contains("what does not fit:\n") && found.contains("at A"), "{found}");
    assert!(found.contains("tried 145 starts: every 10 min"), "{found}");
    assert!(found.contains("--site a=95@A") && found.contains("--earliest-start "), "{found}");
    let (code, text) = coalloc(&federation, "find-window --site a=999 --for 1h --step 2h");
    assert_eq!(code, Some(3), "{text}");
    assert!(text.contains("0 of them fit; nothing is reserved"), "{text}");
    assert!(page(&federation, "list").contains("1 reservation,"));
}
