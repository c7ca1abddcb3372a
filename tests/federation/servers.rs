//! By-server sites: idle servers are searched, whole servers are allocated, and every server has one holder.
//!
//! Site A has four servers of 4 CPUs with a GPU and one named `big`; site B has three servers of 8 CPUs.

use std::collections::{BTreeMap, BTreeSet};

use coalloc_proto::v1::{self, Reason, ReservationState as State};
use coalloc_proto::{Duration, Timestamp};
use tokio::task::JoinSet;
use tonic::{Code, Status};
use tonic_types::StatusExt as _;

use crate::giving_up::coalloc;
use crate::harness::{Federation, Setup, free_port, seconds_from_now};
use crate::telemetry::{scrape, tell};

pub(crate) const HOUR: i64 = 3_600;
pub(crate) const A: &str = "{name: A, servers: {cpus_each: 4, groups: [{count: 4, properties: [gpu]}, \
                 {names: [big], properties: [gpu, nvlink]}]}}";
pub(crate) const B: &str = "{name: B, servers: {cpus_each: 8, groups: [{count: 3}]}}";

/// Writes the configuration of a CRM; `watchers` are the coordinators that may watch profiles and search.
pub(crate) fn configure_crm(
    federation: &Federation,
    name: &str,
    site: &str,
    grc: &str,
    watchers: &str,
) {
    let (own, address) = (&federation.addresses[name], &federation.addresses[grc]);
    let text = format!(
        "daemon: {{insecure_plaintext: true, listen: \"{own}\", ledger: {name}.ledger}}\n\
         coordinators: [{{name: {grc}, address: \"{address}\"}}]\n\
         profiles: {{coordinators: [{watchers}]}}\n\
         inventory: {{name: {name}, domain: D, sites: [{site}]}}\n"
    );
    federation.write(&format!("{name}.yaml"), &text);
}

pub(crate) async fn start() -> Federation {
    let mut federation = Federation::prepare();
    federation.configure(&Setup::default());
    configure_crm(&federation, "crm-A", A, "grc", "grc");
    configure_crm(&federation, "crm-B", B, "grc", "grc");
    federation.start_all().await;
    federation
}

pub(crate) fn after(instant: &Timestamp, seconds: i64) -> Option<Timestamp> {
    Some(Timestamp { seconds: instant.seconds + seconds, nanos: 0 })
}

pub(crate) const fn seconds(seconds: i64) -> Option<Duration> {
    Some(Duration { seconds, nanos: 0 })
}

/// So many servers for an hour, from this instant on.
pub(crate) fn servers(id: &str, count: u32, from: &Timestamp) -> v1::AllocateRequest {
    v1::AllocateRequest {
        request_id: id.to_owned(),
        user: "UserA".to_owned(),
        servers: count,
        duration: seconds(HOUR),
        earliest_start: Some(*from),
        ..v1::AllocateRequest::default()
    }
}

/// These servers for an hour, from this instant on.
/// So many servers of site A.
fn servers_at_a(id: &str, count: u32, from: &Timestamp) -> v1::AllocateRequest {
    v1::AllocateRequest { site: "A".to_owned(), ..servers(id, count, from) }
}

pub(crate) fn picked(id: &str, names: &[&str], from: &Timestamp) -> v1::AllocateRequest {
    let picked = names.iter().map(|name| (*name).to_owned()).collect();
    v1::AllocateRequest { picked, ..servers(id, 0, from) }
}

pub(crate) async fn try_allocate(
    federation: &Federation,
    request: v1::AllocateRequest,
) -> Result<(v1::Reservation, u64), Status> {
    let answer = federation.grc().allocate(request).await?.into_inner();
    Ok((answer.reservation.unwrap(), answer.starts_tried))
}

pub(crate) async fn allocate(
    federation: &Federation,
    request: v1::AllocateRequest,
) -> v1::Reservation {
    let (reservation, _) = try_allocate(federation, request).await.unwrap();
    assert_eq!(reservation.state(), State::Confirmed, "{reservation:?}");
    reservation
}

pub(crate) async fn refused(federation: &Federation, request: v1::AllocateRequest) -> v1::Refusal {
    let (reservation, _) = try_allocate(federation, request).await.unwrap();
    assert_eq!(reservation.state(), State::Failed, "{reservation:?}");
    reservation.refusal.unwrap()
}

/// The field that a refused call names, and what would be allowed.
pub(crate) async fn mistake(
    federation: &Federation,
    request: v1::AllocateRequest,
) -> (String, String) {
    let status = try_allocate(federation, request).await.unwrap_err();
    blamed(&status)
}

pub(crate) fn blamed(status: &Status) -> (String, String) {
    assert_eq!(status.code(), Code::InvalidArgument, "{status:?}");
    let violation = status.get_details_bad_request().unwrap().field_violations.remove(0);
    (violation.field, violation.description)
}

pub(crate) fn starts(reservation: &v1::Reservation) -> i64 {
    reservation.plan.as_ref().unwrap().window.unwrap().start.unwrap().seconds
}

pub(crate) fn names(reservation: &v1::Reservation) -> Vec<&str> {
    reservation.servers.iter().flat_map(|of| &of.servers).map(String::as_str).collect()
}

pub(crate) fn sorted(reservation: &v1::Reservation) -> Vec<&str> {
    let mut names = names(reservation);
    names.sort_unstable();
    names
}

pub(crate) fn search(from: &Timestamp, length: i64) -> v1::SearchServersRequest {
    let window = Some(v1::Window { start: Some(*from), end: after(from, length) });
    v1::SearchServersRequest { window, ..v1::SearchServersRequest::default() }
}

pub(crate) async fn found(
    federation: &Federation,
    request: v1::SearchServersRequest,
) -> v1::SearchServersResponse {
    federation.grc().search_servers(request).await.unwrap().into_inner()
}

pub(crate) fn idle(response: &v1::SearchServersResponse) -> Vec<&str> {
    response.servers.iter().map(|server| server.name.as_str()).collect()
}

/// Checks that no server has two holders at any instant. Returns for each transaction the servers that it has.
pub(crate) async fn holders(
    federation: &Federation,
    rms: &[&str],
) -> BTreeMap<String, BTreeSet<String>> {
    let mut holders: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for rm in rms {
        let mut taken: Vec<(String, i64, i64)> = Vec::new();
        for booking in federation.bookings(rm).await {
            for granted in &booking.servers {
                let window = granted.window.unwrap();
                let (from, until) = (window.start.unwrap().seconds, window.end.unwrap().seconds);
                for server in &granted.servers {
                    let other = taken
                        .iter()
                        .find(|(name, start, end)| name == server && *start < until && from < *end);
                    assert_eq!(other, None, "{server} of {} has two holders", booking.transaction);
                    taken.push((server.clone(), from, until));
                    let own = holders.entry(booking.transaction.clone()).or_default();
                    own.insert(server.clone());
                }
            }
        }
    }
    holders
}

#[tokio::test(flavor = "multi_thread")]
async fn idle_servers_of_all_sites_are_found_with_their_idle_periods_and_nothing_is_held() {
    let federation = start().await;
    let from = seconds_from_now(HOUR);
    let all = found(&federation, search(&from, HOUR)).await;
    assert_eq!(idle(&all), ["A/1", "A/2", "A/3", "A/4", "A/big", "B/1", "B/2", "B/3"]);
    assert!(!all.more && all.silent.is_empty(), "{all:?}");
    let rms: Vec<&str> = all.servers.iter().map(|of| of.resource_manager.as_str()).collect();
    assert_eq!(rms, [["crm-A"; 5].as_slice(), ["crm-B"; 3].as_slice()].concat());
    assert_eq!((all.servers[4].cpus, all.servers[4].properties.len()), (4, 2));

    allocate(&federation, picked("one", &["A/1", "A/big"], &from)).await;
    let left = found(&federation, search(&from, HOUR)).await;
    assert_eq!(idle(&left), ["A/2", "A/3", "A/4", "B/1", "B/2", "B/3"]);
    let later = found(&federation, search(&after(&from, HOUR).unwrap(), HOUR)).await;
    assert_eq!(later.servers[0].name, "A/1");
    assert_eq!(later.servers[0].idle_since, after(&from, HOUR));
    let before = found(&federation, search(&seconds_from_now(60), 60)).await;
    assert_eq!(before.servers[0].idle_until, Some(from));

    let of = |change: fn(&mut v1::SearchServersRequest)| {
        let mut request = search(&from, HOUR);
        change(&mut request);
        found(&federation, request)
    };
    let gpus = of(|request| request.properties = vec!["gpu".to_owned()]).await;
    assert_eq!(idle(&gpus), ["A/2", "A/3", "A/4"]);
    let many = of(|request| request.at_least = 4).await;
    assert!(many.servers.is_empty(), "{many:?}");
    let at_b = of(|request| request.site = "B".to_owned()).await;
    assert_eq!(idle(&at_b), ["B/1", "B/2", "B/3"]);
    let few = of(|request| request.limit = Some(4)).await;
    assert_eq!((idle(&few), few.more), (vec!["A/2", "A/3", "A/4", "B/1"], true));
    let exactly = of(|request| request.limit = Some(6)).await;
    assert!(!exactly.more, "{exactly:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn who_does_not_answer_a_search_is_named_with_the_reason() {
    let mut federation = Federation::prepare();
    federation.configure(&Setup::default());
    configure_crm(&federation, "crm-A", A, "grc", "");
    configure_crm(&federation, "crm-B", B, "grc", "grc");
    federation.start_all().await;
    let from = seconds_from_now(HOUR);
    let heard = found(&federation, search(&from, HOUR)).await;
    assert_eq!(idle(&heard), ["B/1", "B/2", "B/3"]);
    assert_eq!(heard.silent.len(), 1, "{heard:?}");
    assert_eq!(heard.silent[0].name, "crm-A");
    assert!(heard.silent[0].problem.contains("profiles.coordinators"), "{heard:?}");
    federation.kill("crm-B");
    let heard = found(&federation, search(&from, HOUR)).await;
    let silent: Vec<&str> = heard.silent.iter().map(|one| one.name.as_str()).collect();
    assert_eq!((idle(&heard).len(), silent), (0, vec!["crm-A", "crm-B"]));
    // Who may not search may reserve all the same.
    let allocated = allocate(&federation, servers("five", 5, &from)).await;
    assert_eq!(sorted(&allocated), ["A/1", "A/2", "A/3", "A/4", "A/big"]);
    assert!(allocated.unreachable.is_empty(), "B has too few servers, so it was not asked");
    let refusal = refused(
        &federation,
        v1::AllocateRequest { latest_start: Some(from), ..servers("three", 3, &from) },
    );
    let refusal = refusal.await;
    assert_eq!(refusal.reason(), Reason::Unreachable);
    let start = "crm-B does not answer, so what it has counts as taken: ";
    assert!(refusal.detail.starts_with(start), "{refusal:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_first_start_is_found_exactly_without_a_step_and_on_the_ladder_with_one() {
    let federation = start().await;
    let from = seconds_from_now(HOUR);
    let at_a = |id, count, earliest| v1::AllocateRequest {
        site: "A".to_owned(),
        ..servers(id, count, earliest)
    };
    let first = allocate(&federation, at_a("first", 3, &from)).await;
    assert_eq!((starts(&first), names(&first).len()), (from.seconds, 3));
    // From an odd second on, so that no rung meets its end by chance.
    let odd = after(&from, 7).unwrap();
    let (second, tried) = try_allocate(&federation, at_a("second", 4, &odd)).await.unwrap();
    assert_eq!(starts(&second), from.seconds + HOUR, "{second:?}");
    assert_eq!(tried, 2);
    let step = v1::AllocateRequest { step: seconds(900), ..at_a("third", 5, &odd) };
    let (third, tried) = try_allocate(&federation, step).await.unwrap();
    // The first two end after two hours: 7 s + 8 x 900 s is the first rung after that.
    assert_eq!(starts(&third), odd.seconds + 8 * 900);
    assert_eq!(tried, 16, "one call for the first sixteen");
    let at_b = allocate(&federation, servers("other", 3, &odd)).await;
    assert_eq!((starts(&at_b), sorted(&at_b)), (odd.seconds, vec!["B/1", "B/2", "B/3"]));
    let cpus = v1::AllocateRequest { cpus: 16, ..servers("sixteen", 2, &from) };
    let cpus = allocate(&federation, cpus).await;
    assert_eq!(starts(&cpus), odd.seconds + HOUR, "only B has 16 CPUs in 2 servers");
    let held = holders(&federation, &["crm-A", "crm-B"]).await;
    assert_eq!(held.len(), 5, "{held:?}");
    assert_eq!(held[&first.transaction].len(), 3);
    federation.audit_at_rest().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_does_not_fit_is_refused_with_the_most_that_is_idle_and_what_was_tried() {
    let federation = start().await;
    let from = seconds_from_now(HOUR);
    allocate(&federation, picked("big", &["A/big"], &from)).await;
    let until = v1::AllocateRequest {
        step: seconds(600),
        latest_start: after(&from, 1_800),
        ..servers("five", 5, &from)
    };
    let refusal = refused(&federation, until).await;
    assert_eq!(refusal.reason(), Reason::InsufficientCapacity);
    assert!(refusal.detail.contains("at most 4 of 5 at A, from"), "{refusal:?}");
    assert_eq!(refusal.resource_manager, "", "no resource manager has refused");
    assert!(refusal.detail.contains("4 starts were tried"), "{refusal:?}");
    assert_eq!((refusal.requested, refusal.available), (Some(20), Some(16)), "{refusal:?}");
    let far = servers("far", 1, &seconds_from_now(20 * 366 * 86_400));
    assert_eq!(refused(&federation, far).await.reason(), Reason::OutsideHorizon);
    let past = servers("past", 1, &seconds_from_now(-HOUR));
    assert_eq!(refused(&federation, past).await.reason(), Reason::OutsideHorizon);
}

#[tokio::test(flavor = "multi_thread")]
async fn many_starts_at_ten_sites_take_one_round_trip_for_256_of_them() {
    let mut federation = Federation::prepare();
    federation.addresses.retain(|name, _| name == "grc");
    let crms: Vec<String> = (0..10).map(|number| format!("crm-{number}")).collect();
    for name in &crms {
        federation.addresses.insert(name.clone(), format!("127.0.0.1:{}", free_port()));
    }
    let peer =
        |name: &str| format!("{{name: {name}, address: \"{}\"}}", federation.addresses[name]);
    let peers: Vec<String> = crms.iter().map(|name| peer(name)).collect();
    let grc = format!(
        "daemon: {{insecure_plaintext: true, listen: \"{}\", ledger: grc.ledger}}\nname: grc\nresource_managers: [{}]\n",
        federation.addresses["grc"],
        peers.join(", ")
    );
    federation.write("grc.yaml", &grc);
    let metrics = format!("127.0.0.1:{}", free_port());
    tell(&federation, "grc", &format!("metrics_listen: \"{metrics}\""));
    for (number, name) in crms.iter().enumerate() {
        let site =
            format!("{{name: S{number}, servers: {{cpus_each: 4, groups: [{{count: 64}}]}}}}");
        configure_crm(&federation, name, &site, "grc", "grc");
        federation.spawn(name);
    }
    federation.spawn("grc");
    federation.complete().await;
    let from = seconds_from_now(HOUR);
    // Everything but one server is taken for long.
    for number in 0..10 {
        let long = v1::AllocateRequest {
            site: format!("S{number}"),
            duration: seconds(80 * 24 * HOUR),
            ..servers(&format!("long-{number}"), 63, &from)
        };
        allocate(&federation, long).await;
    }
    let queries = || async {
        scrape(&metrics).await.sum("coalloc_grc_queries_total", &[("outcome", "answered")])
    };
    for (rungs, calls) in [(16, 1), (16 + 64, 2), (16 + 64 + 256, 3), (16 + 64 + 2 * 256, 4)] {
        let before = queries().await;
        let request = v1::AllocateRequest {
            step: seconds(900),
            attempts: Some(rungs),
            ..servers(&format!("two-{rungs}"), 2, &from)
        };
        let begun = std::time::Instant::now();
        let (reservation, tried) = try_allocate(&federation, request).await.unwrap();
        println!("{rungs} rungs at ten sites: {calls} round trips, {:?}", begun.elapsed());
        assert_eq!((reservation.state(), tried), (State::Failed, u64::from(rungs)));
        assert_eq!(queries().await - before, f64::from(10 * calls), "ten for each round trip");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lost_pick_names_who_is_taken_until_when_and_when_all_are_idle_again() {
    let federation = start().await;
    let from = seconds_from_now(HOUR);
    let mine = allocate(&federation, picked("mine", &["A/2", "A/1"], &from)).await;
    assert_eq!(names(&mine), ["A/2", "A/1"]);
    // In a part of that time, and of the servers.
    let (lost_from, next) = (after(&from, 600).unwrap(), after(&from, HOUR).unwrap());
    let lost = refused(&federation, picked("lost", &["A/3", "A/2"], &lost_from)).await;
    assert_eq!(lost.reason(), Reason::InsufficientCapacity);
    assert_eq!(lost.resource, "A/2");
    assert_eq!(lost.window.unwrap(), v1::Window { start: Some(lost_from), end: Some(next) });
    let until = coalloc_common::Time::from_us(next.seconds * 1_000_000);
    assert!(lost.detail.contains(&format!("all of them are next idle for 1 h from {until} on")));
    // With a later latest start the search goes on where they are idle again.
    let later = v1::AllocateRequest {
        latest_start: after(&from, 10 * HOUR),
        ..picked("later", &["A/3", "A/2"], &lost_from)
    };
    let later = allocate(&federation, later).await;
    assert_eq!((starts(&later), names(&later)), (next.seconds, vec!["A/3", "A/2"]));
    assert_eq!(later.attempts, 2);
    let rungs = v1::AllocateRequest { step: seconds(1_000), ..picked("rungs", &["A/2"], &from) };
    let rungs = allocate(&federation, rungs).await;
    assert_eq!(starts(&rungs), from.seconds + 8_000, "the first rung after two hours");
    // Also when no server of the site is idle at all.
    let full = after(&from, 20 * HOUR).unwrap();
    assert_eq!(names(&allocate(&federation, servers_at_a("full", 5, &full)).await).len(), 5);
    let lost = refused(&federation, picked("lost-too", &["A/3"], &full)).await;
    assert_eq!(lost.resource, "A/3");
    assert!(lost.detail.contains("it is next idle for 1 h from"), "{lost:?}");
    holders(&federation, &["crm-A"]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn of_two_that_want_the_same_servers_one_gets_them_and_the_other_goes_on() {
    let federation = start().await;
    for round in 0..5 {
        let from = seconds_from_now((round + 1) * 20 * HOUR);
        let mut calls = JoinSet::new();
        for n in 0..6 {
            let mut grc = federation.grc();
            let request = v1::AllocateRequest {
                step: Some(HOUR).filter(|_| round % 2 == 0).and_then(seconds),
                site: "A".to_owned(),
                ..servers(&format!("race-{round}-{n}"), 5, &from)
            };
            calls.spawn(async move { grc.allocate(request).await });
        }
        let mut begun = BTreeSet::new();
        while let Some(answer) = calls.join_next().await {
            let reservation = answer.unwrap().unwrap().into_inner().reservation.unwrap();
            assert_eq!(reservation.state(), State::Confirmed, "{reservation:?}");
            begun.insert((starts(&reservation) - from.seconds) / HOUR);
        }
        assert_eq!(begun, (0..6).collect(), "one after the other, without a gap");
    }
    holders(&federation, &["crm-A"]).await;
    federation.audit_at_rest().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_command_line_allocates_shows_and_searches_with_its_exit_codes() {
    let federation = start().await;
    let from = coalloc_common::Time::from_us(seconds_from_now(HOUR).seconds * 1_000_000);
    let from = from.to_string();
    let run = |line: &str| {
        let words: Vec<&str> = line.split(' ').collect();
        coalloc(&federation, &words)
    };
    let allocate = |what: &str| run(&format!("allocate {what} --for 1h --start {from}"));
    let (exit, text) = allocate("--servers 2 --choice first --id one");
    assert_eq!(exit, Some(0), "{text}");
    assert!(text.contains("2 servers of crm-A: A/1 and A/2"), "{text}");
    let (exit, text) = allocate("--pick A/2,A/3");
    assert_eq!(exit, Some(3), "{text}");
    assert!(text.contains("crm-A: server A/2 is taken from"), "{text}");
    let (exit, text) = allocate("--pick A/9");
    assert_eq!(exit, Some(2), "{text}");
    assert!(text.contains("error: --pick: A/9 is not allowed"), "{text}");
    let (_, text) = run("show one");
    assert!(text.contains("2 servers of crm-A: A/1 and A/2"), "{text}");
    let (_, text) = run("list");
    assert!(text.contains("A (2 servers)"), "{text}");
    let search = |more: &str| run(&format!("servers search --start {from} --for 1h{more}"));
    let (exit, text) = search("");
    assert!(exit == Some(0) && text.contains("6 idle servers"), "{text}");
    let (exit, text) = search(" --at-least 4");
    assert!(exit == Some(3) && text.contains("0 idle servers"), "{text}");
    let (exit, text) = run(&format!("servers --start {from} --for 2h --ascii --site A"));
    assert_eq!(exit, Some(0), "{text}");
    let rows: Vec<&str> = text.lines().filter(|line| line.starts_with("A/")).collect();
    assert_eq!(rows.len(), 5, "{text}");
    let (first, third) = (rows[0], rows[2]);
    assert_eq!(first.matches('#').count(), first.matches('.').count(), "half of it: {text}");
    assert!(!third.contains('#') && third.contains('.'), "{text}");
}

#[tokio::test(flavor = "multi_thread")]
async fn bad_input_names_field_value_and_what_is_allowed() {
    let federation = start().await;
    let from = seconds_from_now(HOUR);
    let good = || servers("bad", 2, &from);
    let cases: [(&str, &str, v1::AllocateRequest); 14] = [
        ("servers", "1 to 10000 servers", servers("bad", 0, &from)),
        ("servers", "1 to 5 servers, which A has", servers("bad", 6, &from)),
        (
            "servers",
            "1 to 3 servers, which B has",
            v1::AllocateRequest { site: "B".to_owned(), ..servers("bad", 4, &from) },
        ),
        ("step", "1 s to 1 d", v1::AllocateRequest { step: seconds(0), ..good() }),
        (
            "attempts",
            "1 to 3: later starts are after latest_start",
            v1::AllocateRequest {
                step: seconds(900),
                attempts: Some(4),
                latest_start: after(&from, 2_000),
                ..good()
            },
        ),
        (
            "latest_start",
            "the earliest start, or later",
            v1::AllocateRequest { latest_start: after(&from, -1), ..good() },
        ),
        ("duration", "1 s to 366 d", v1::AllocateRequest { duration: None, ..good() }),
        (
            "cpus",
            "8 or 16, what 2 servers have at A, B; or 0",
            v1::AllocateRequest { cpus: 9, ..good() },
        ),
        ("site", "did you mean", v1::AllocateRequest { site: "a".to_owned(), ..good() }),
        ("picked[1]", "did you mean", picked("bad", &["A/1", "A/bigg"], &from)),
        ("picked[0]", "by-server site: A, B", picked("bad", &["C/1"], &from)),
        ("picked[1]", "each server once", picked("bad", &["A/1", "A/1"], &from)),
        ("picked[1]", "the first one is of A", picked("bad", &["A/1", "B/1"], &from)),
        (
            "servers",
            "2, the number of picked servers, or 0",
            v1::AllocateRequest { servers: 3, ..picked("bad", &["A/1", "A/2"], &from) },
        ),
    ];
    for (field, allowed, request) in cases {
        let (blamed, text) = mistake(&federation, request.clone()).await;
        assert_eq!(blamed, field, "{text}: {request:?}");
        assert!(text.contains(allowed), "{field}: {text}");
    }
    // Nothing is known of an id that was only used for mistakes.
    assert_eq!(federation.get("bad").await.unwrap_err().code(), Code::NotFound);
    allocate(&federation, good()).await;

    let bad_search = |change: fn(&mut v1::SearchServersRequest)| {
        let mut request = search(&from, HOUR);
        change(&mut request);
        let mut grc = federation.grc();
        async move { blamed(&grc.search_servers(request).await.unwrap_err()) }
    };
    assert_eq!(bad_search(|request| request.window = None).await.0, "window");
    assert_eq!(bad_search(|request| request.limit = Some(0)).await.0, "limit");
    assert_eq!(bad_search(|request| request.at_least = 10_001).await.0, "at_least");
    let spaced = bad_search(|request| request.properties = vec!["a b".to_owned()]).await;
    assert_eq!(spaced.0, "properties[0]");
    let site = bad_search(|request| request.site = "C".to_owned()).await;
    assert!(site.0 == "site" && site.1.contains("A, B"), "{site:?}");
}
