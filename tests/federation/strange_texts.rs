//! Texts that a stranger chooses stay data: in the log, in tables, in JSON, in metrics.
//!
//! Names have a plain spelling, so a strange one is refused. Free texts are the reasons of operators, what resource
//! managers say when they refuse or fail, and what they say of themselves.

use std::process::Command;

use coalloc_common::plain_text::steers;
use coalloc_proto::v1;

use crate::harness::{Federation, Setup, eventually, free_port, pair};
use crate::middle::{self, Slander};
use crate::telemetry::{scrape, tell};

/// A line end and a forged line, an escape sequence in two spellings, marks of direction, quotes and markup.
const STRANGE: &str = "x\nFORGED line\r\n\u{1b}[2J\u{9b}31m\u{7}\u{202e}egral\u{2066}\u{200f}\u{200b}\u{2028}\"'</td><script>alert(1)</script>\\ é\u{5e9}";

/// No text of a stranger steers the terminal or has begun a line.
fn check_is_plain(what: &str, text: &str) {
    let steering = text.chars().find(|c| *c != '\n' && steers(*c));
    assert_eq!(steering, None, "{what}: {text:?}");
    assert!(!text.lines().any(|line| line.trim_start().starts_with("FORGED")), "{what}: {text}");
}

/// What `coalloc` prints, which is plain.
fn printed(federation: &Federation, words: &[&str]) -> String {
    let mut command = Command::new(env!("CARGO_BIN_EXE_coalloc"));
    command.args(words).current_dir(federation.dir.path());
    match words[0] {
        "health" => command.arg(&federation.addresses["grc"]),
        "ledger" => &mut command,
        _ => command.args(["--grc", &federation.addresses["grc"]]),
    };
    let output = command.output().unwrap();
    let stdout = String::from_utf8(output.stdout).unwrap();
    check_is_plain(&words.join(" "), &stdout);
    check_is_plain(&words.join(" "), &String::from_utf8(output.stderr).unwrap());
    stdout
}

/// Every event of a daemon's log is one line, which begins with its time.
fn check_log(federation: &Federation, daemon: &str) {
    let log = federation.log(daemon);
    check_is_plain(daemon, &log);
    assert!(log.lines().count() > 3 && log.contains("FORGED"), "it is told: {log}");
    for line in log.lines() {
        let (time, _) = line.split_once(' ').unwrap();
        assert!(time.starts_with("20") && time.ends_with('Z'), "{line}");
    }
}

async fn start(control: &mut Option<middle::Control>) -> (Federation, String) {
    let mut federation = Federation::prepare();
    let relay = format!("127.0.0.1:{}", free_port());
    *control = Some(middle::start(&relay, &federation.addresses["crm-A"]).await);
    let relayed = [("crm-A".to_owned(), relay)].into();
    federation.configure(&Setup { relayed, ..Setup::default() });
    let metrics = format!("127.0.0.1:{}", free_port());
    tell(&federation, "grc", &format!("metrics_listen: \"{metrics}\""));
    federation.start_all().await;
    (federation, metrics)
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_resource_manager_says_and_why_an_operator_acts_stay_data() {
    let mut control = None;
    let (federation, metrics) = start(&mut control).await;
    let control = control.unwrap();
    federation.reserve_confirmed("kept", pair(1, 1, 3_600, 600)).await;

    control.slander(Slander::InAnswers(STRANGE.to_owned()));
    let refused = federation.reserve("refused", pair(1, 1, 3_600, 600)).await;
    assert_eq!(refused.refusal.as_ref().unwrap().detail, STRANGE, "the text itself is kept");
    eventually("its ledger is told", || async {
        federation.log("grc").contains("another ledger than before")
    })
    .await;
    let list = printed(&federation, &["list", "--all", "-o", "wide"]);
    assert_eq!(list.lines().filter(|line| line.contains("FORGED")).count(), 1, "{list}");
    assert!(list.contains("x\\nFORGED") && list.contains("<script>"), "{list}");
    let show = printed(&federation, &["show", "refused"]);
    assert!(show.contains("x\\nFORGED line\\r\\n\\u{1b}[2J\\u{9b}31m"), "{show}");
    let shown = printed(&federation, &["show", "refused", "--json"]);
    let shown: v1::Reservation = serde_json::from_str(&shown).unwrap();
    assert_eq!(shown.refusal.unwrap().detail, STRANGE);
    let until = ["watch", "refused", "--until", "ended", "--idle", "5s"];
    assert!(printed(&federation, &until).contains("x\\nFORGED"));
    let events = printed(&federation, &[&until[..], &["--json"]].concat());
    let events = events.lines().map(|line| {
        serde_json::from_str::<v1::ReservationEvent>(line).expect("one event is one line")
    });
    let mut details = events.filter_map(|event| Some(event.refusal?.detail));
    assert!(details.any(|detail| detail == STRANGE));
    let topology = printed(&federation, &["topology", "--json"]);
    let topology: v1::DescribeFederationResponse = serde_json::from_str(&topology).unwrap();
    let said = topology.resource_managers[0].description.as_ref().unwrap();
    assert_eq!(said.ledger_id, STRANGE);

    control.slander(Slander::InErrors(STRANGE.to_owned()));
    let (mut grc, release) = (
        federation.grc(),
        v1::ReleaseReservationRequest { id: "kept".to_owned(), user: String::new() },
    );
    let waiting = tokio::spawn(async move { grc.release(release).await.unwrap() });
    eventually("the failure is told", || async {
        printed(&federation, &["topology"]).contains("UNREACHABLE: does not answer: x\\nFORGED")
    })
    .await;
    printed(&federation, &["health"]);
    printed(&federation, &["repair"]);
    let words = ["give-up", "kept", "--rm", "crm-A", "--by", "alice", "--why", STRANGE];
    let given_up = printed(&federation, &words);
    assert!(given_up.contains("given up on by alice (x\\nFORGED line"), "{given_up}");
    waiting.await.unwrap();
    let shown = printed(&federation, &["show", "kept", "--json"]);
    let shown: v1::Reservation = serde_json::from_str(&shown).unwrap();
    assert_eq!(shown.given_up[0].why, STRANGE);
    let until = ["watch", "kept", "--until", "ended", "--idle", "5s"];
    assert!(printed(&federation, &until).contains("(x\\nFORGED"));

    check_log(&federation, "grc");
    let dump = printed(&federation, &["ledger", "dump", "grc.ledger"]);
    assert!(dump.lines().all(|line| line.trim_start().starts_with(|c: char| c.is_ascii_digit())));
    let dump = printed(&federation, &["ledger", "dump", "grc.ledger", "--json"]);
    let records = dump.lines().map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap());
    assert!(records.filter(|record| record.to_string().contains("FORGED")).count() >= 2);
    // Metrics name neither users nor texts.
    let exposition = scrape(&metrics).await.0;
    check_is_plain("metrics", &exposition);
    for text in ["FORGED", "UserA", "alice", "script", "kept"] {
        assert!(!exposition.contains(text), "{text}: {exposition}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_strange_name_is_refused_in_plain_words() {
    let federation = Federation::start().await;
    let strange = || STRANGE.to_owned();
    let plain = |what: &str, status: tonic::Status| {
        assert!(!status.message().chars().any(steers), "{what}: {:?}", status.message());
        assert_ne!(status.code(), tonic::Code::Internal, "{what}: {status:?}");
    };
    let user = v1::CoAllocationRequest { user: strange(), ..pair(1, 1, 3_600, 600) };
    let mut site = pair(1, 1, 3_600, 600);
    site.sites[0].name = strange();
    let mut pinned = pair(1, 1, 3_600, 600);
    pinned.sites[0].pinned_to = Some(strange());
    let mut kind = pair(1, 1, 3_600, 600);
    kind.sites[0].others.push(v1::KindAmount { kind: strange(), amount: 1, ..Default::default() });
    let mut link = pair(1, 1, 3_600, 600);
    link.links[0].to = strange();
    for (what, request) in
        [("user", user), ("site", site), ("pin", pinned), ("kind", kind), ("link", link)]
    {
        plain(what, federation.try_reserve("one", request).await.unwrap_err());
    }
    plain("id", federation.try_reserve(STRANGE, pair(1, 1, 3_600, 600)).await.unwrap_err());
    let solver = v1::ReserveRequest {
        request_id: "one".to_owned(),
        request: Some(pair(1, 1, 3_600, 600)),
        options: Some(v1::PlanOptions { solver: Some(strange()), ..Default::default() }),
        ..Default::default()
    };
    plain("solver", federation.grc().reserve(solver).await.unwrap_err());
    plain("get", federation.get(STRANGE).await.unwrap_err());
    let list = v1::ListRequest { page_token: strange(), ..Default::default() };
    plain("page", federation.grc().list(list).await.unwrap_err());
    let list = v1::ListRequest { user: strange(), ..Default::default() };
    if let Err(status) = federation.grc().list(list).await {
        plain("list", status);
    }
    let watch = v1::WatchRequest { resume_token: strange(), ..Default::default() };
    plain("token", federation.grc().watch(watch).await.unwrap_err());
    let release = v1::ReleaseReservationRequest { id: strange(), user: strange() };
    plain("release", federation.grc().release(release).await.unwrap_err());
    let repair = v1::RepairRequest {
        repair_id: strange(),
        resource_manager: strange(),
        transaction: strange(),
        by: strange(),
        why: strange(),
    };
    plain("repair", federation.grc().repair(repair).await.unwrap_err());
    let give_up = v1::GiveUpRequest {
        resource_manager: strange(),
        by: strange(),
        why: strange(),
        all: true,
        ..Default::default()
    };
    plain("give up", federation.grc().give_up(give_up).await.unwrap_err());
    let hold = v1::HoldRequest {
        transaction: strange(),
        coordinator: strange(),
        user: strange(),
        resource_manager: strange(),
        ..Default::default()
    };
    plain("hold", federation.rm("crm-A").hold(hold).await.unwrap_err());
    let allocate = v1::AllocateRequest {
        request_id: "one".to_owned(),
        site: strange(),
        picked: vec![strange()],
        ..Default::default()
    };
    plain("allocate", federation.grc().allocate(allocate).await.unwrap_err());
    for daemon in ["grc", "crm-A"] {
        check_is_plain(daemon, &federation.log(daemon));
    }
}
