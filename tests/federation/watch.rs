//! Watching real daemons: nothing is lost or told twice, whoever is killed; slow watchers harm nobody;
//! tokens of another past are refused; an expired hold is seen.

use std::io::{BufRead as _, BufReader};
use std::process::Stdio;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use coalloc_common::{
    Amount, BootTime, CoordinatorName, Now, Reason, Refusal, ResourceId, Segment, Span, Time,
    TransactionId, UserName, Window, limits,
};
use coalloc_ledger::{Identity, SqliteLedger};
use coalloc_proto::v1::resource_manager_client::ResourceManagerClient;
use coalloc_proto::v1::{self, BookingState, ReservationState as State};
use coalloc_protocol::Log;
use coalloc_protocol::message::HoldOrder;
use coalloc_protocol::participant::ParticipantRecord;
use tonic::transport::Endpoint;
use tonic::{Code, Status};
use tonic_types::StatusExt as _;

use crate::harness::{Federation, PATIENCE, Setup, eventually, free_port, pair, seconds_from_now};
use crate::middle::{self, Point, Then};

/// A message of either stream.
#[derive(Debug, Clone, PartialEq)]
enum WatchMessage {
    Reservation(Box<v1::ReservationEvent>),
    Booking(Box<v1::BookingEvent>),
    Progress(String),
}

/// Either stream.
enum Stream {
    Grc(tonic::Streaming<v1::WatchResponse>),
    Rm(tonic::Streaming<v1::WatchBookingsResponse>),
}

impl Stream {
    async fn open(federation: &Federation, node: &str, token: &str) -> Result<Self, Status> {
        let resume_token = token.to_owned();
        if node == "grc" {
            let request = v1::WatchRequest { resume_token, ..Default::default() };
            return Ok(Self::Grc(federation.grc().watch(request).await?.into_inner()));
        }
        let request = v1::WatchBookingsRequest { resume_token };
        Ok(Self::Rm(federation.rm(node).watch_bookings(request).await?.into_inner()))
    }

    async fn next(&mut self) -> Result<WatchMessage, Status> {
        let next = async {
            match self {
                Self::Grc(stream) => match stream.message().await?.unwrap().what.unwrap() {
                    v1::watch_response::What::Event(event) => {
                        Ok(WatchMessage::Reservation(Box::new(event)))
                    }
                    v1::watch_response::What::Progress(at) => {
                        Ok(WatchMessage::Progress(at.resume_token))
                    }
                },
                Self::Rm(stream) => match stream.message().await?.unwrap().what.unwrap() {
                    v1::watch_bookings_response::What::Event(event) => {
                        Ok(WatchMessage::Booking(Box::new(event)))
                    }
                    v1::watch_bookings_response::What::Progress(at) => {
                        Ok(WatchMessage::Progress(at.resume_token))
                    }
                },
            }
        };
        tokio::time::timeout(PATIENCE, next).await.expect("a stream is never silent for so long")
    }
}

impl WatchMessage {
    fn token(&self) -> &str {
        match self {
            Self::Reservation(event) => &event.resume_token,
            Self::Booking(event) => &event.resume_token,
            Self::Progress(token) => token,
        }
    }

    fn sequence(&self) -> u64 {
        self.token().split(':').nth(1).unwrap().parse().unwrap()
    }
}

/// All messages from the beginning until now.
async fn history(federation: &Federation, node: &str) -> Vec<WatchMessage> {
    let now = Stream::open(federation, node, "").await.unwrap().next().await.unwrap().sequence();
    let mut stream = Stream::open(federation, node, "0").await.unwrap();
    let mut all = Vec::new();
    loop {
        let told = stream.next().await.unwrap();
        let over = told.sequence() >= now;
        if !matches!(told, WatchMessage::Progress(_)) {
            all.push(told);
        }
        if over {
            return all;
        }
    }
}

/// Follows a node over as many connections as necessary, until `done` was set and all messages have been
/// received.
async fn follow(
    federation: &Federation,
    node: &str,
    done: &AtomicBool,
) -> (Vec<WatchMessage>, usize) {
    let (mut token, mut all, mut connections) = ("0".to_owned(), Vec::new(), 0);
    loop {
        let was_done = done.load(Ordering::SeqCst);
        let Ok(mut stream) = Stream::open(federation, node, &token).await else {
            tokio::time::sleep(Duration::from_millis(20)).await;
            continue;
        };
        connections += 1;
        let mut first = true;
        while let Ok(told) = stream.next().await {
            token = told.token().to_owned();
            match told {
                // Progress messages come at the beginning, and when the whole past has been sent.
                WatchMessage::Progress(_) if !std::mem::take(&mut first) && was_done => {
                    return (all, connections);
                }
                WatchMessage::Progress(_) => {}
                event => all.push(event),
            }
            if !was_done && done.load(Ordering::SeqCst) {
                // The watch resumes once more from the last token, to receive the rest.
                break;
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn streams_resumed_over_kills_of_both_sides_are_one_history_without_gap_or_double() {
    let mut federation = Federation::start().await;
    let done = Arc::new(AtomicBool::new(false));
    let view = federation.addresses.clone();
    let followers = ["grc", "nrm"].map(|node| {
        let (done, addresses) = (Arc::clone(&done), view.clone());
        tokio::spawn(async move {
            let eyes = Federation::elsewhere(addresses);
            follow(&eyes, node, &done).await
        })
    });
    for round in 0..4 {
        let mut calls = tokio::task::JoinSet::new();
        for n in 0..6 {
            let mut grc = federation.grc();
            let request = v1::ReserveRequest {
                request_id: format!("round{round}-{n}"),
                request: Some(pair(5, 150, 3_600 * (round + 1), 1_800)),
                ..v1::ReserveRequest::default()
            };
            calls.spawn(async move { grc.reserve(request).await.map(|_| ()) });
        }
        // After the first answer the other calls are still in progress, at some unknown point.
        let _ = calls.join_next().await;
        for name in if round % 2 == 0 { ["nrm", "grc"] } else { ["grc", "nrm"] } {
            federation.kill(name);
            federation.spawn(name);
        }
        federation.complete().await;
        while calls.join_next().await.is_some() {}
    }
    federation.reserve_confirmed("last", pair(1, 1, 86_400, 600)).await;
    federation.audit_at_rest().await;
    done.store(true, Ordering::SeqCst);
    for (node, follower) in ["grc", "nrm"].into_iter().zip(followers) {
        let (told, connections) = follower.await.unwrap();
        let history = history(&federation, node).await;
        assert!(connections >= 5, "{node}: four kills, but {connections} connections");
        let rising = history.windows(2).all(|pair| pair[0].sequence() < pair[1].sequence());
        assert!(rising, "{node}: the order of the ledger");
        assert!(told == history, "{node}: {} told, {} happened", told.len(), history.len());
        fold(&federation, node, &history).await;
    }
}

/// Checks that the last event of each transaction is what the listing shows.
async fn fold(federation: &Federation, node: &str, history: &[WatchMessage]) {
    let mut states = std::collections::BTreeMap::new();
    for told in history {
        match told {
            WatchMessage::Reservation(event) => {
                states.insert(event.reservation.clone(), event.state)
            }
            WatchMessage::Booking(event) => {
                let booking = event.booking.clone().unwrap();
                states.insert(booking.transaction, booking.state)
            }
            WatchMessage::Progress(_) => None,
        };
    }
    let listed: std::collections::BTreeMap<String, i32> = if node == "grc" {
        let list = federation.grc().list(v1::ListRequest::default()).await.unwrap().into_inner();
        list.reservations.into_iter().map(|one| (one.id, one.state)).collect()
    } else {
        let request = v1::ListBookingsRequest { include_ended: true, ..Default::default() };
        let list = federation.rm(node).list_bookings(request).await.unwrap().into_inner();
        list.bookings.into_iter().map(|one| (one.transaction, one.state)).collect()
    };
    assert_eq!(states, listed, "{node}");
}

const BIG: u64 = 60_000;

/// Writes a ledger of the NRM that contains many refusals.
fn big_ledger(federation: &Federation) {
    let path = federation.dir.path().join("nrm.ledger");
    let identity = Identity { kind: "nrm".into(), name: "nrm".into() };
    let id = || "0123456789abcdef0123456789abcdef".to_owned();
    let mut ledger =
        SqliteLedger::<ParticipantRecord>::open(&path, &identity, id, |_, _| Ok(())).unwrap();
    let at = Now { wall: Time::from_us(1_795_255_200_000_000), boot: BootTime::from_us(1) };
    let window = Window::starting(at.wall, Span::from_secs(3_600)).unwrap();
    let record = |number: u64| {
        let order = HoldOrder {
            txn: TransactionId::composed(format!("grc-old-{number}/1")),
            coordinator: CoordinatorName::composed("grc"),
            user: UserName::composed("UserA"),
            segments: vec![Segment {
                resource: ResourceId::composed("A-B"),
                amount: Amount(number),
                window,
            }],
            hold_for: None,
            replaces: None,
            keeps_old: false,
            one_way: false,
            servers: None,
            manual_provision: false,
        };
        let refusal = Refusal::new(Reason::InsufficientCapacity, "x".repeat(300));
        ParticipantRecord::Refused { order, whole: None, refusal, at }
    };
    for first in (0..BIG).step_by(1_000) {
        let batch: Vec<ParticipantRecord> = (first..first + 1_000).map(record).collect();
        ledger.append(&batch.iter().collect::<Vec<_>>()).unwrap();
    }
}

/// Memory of a daemon's process, in bytes.
fn memory(federation: &Federation, node: &str) -> u64 {
    let pid = federation.pid(node).as_raw_nonzero();
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap() * 1_024
}

#[tokio::test(flavor = "multi_thread")]
async fn watchers_that_take_nothing_delay_nobody_and_cost_no_memory() {
    let mut federation = Federation::prepare();
    federation.configure(&Setup::default());
    big_ledger(&federation);
    federation.start_all().await;
    let before = memory(&federation, "nrm");
    // These watchers have a window of 1 KiB and never read.
    let endpoint =
        Endpoint::from_shared(format!("http://{}", federation.addresses["nrm"])).unwrap();
    let endpoint = endpoint.initial_stream_window_size(Some(1_024));
    let mut slow = Vec::new();
    for _ in 0..24 {
        let mut client = ResourceManagerClient::new(endpoint.connect().await.unwrap());
        let request = v1::WatchBookingsRequest { resume_token: "0".to_owned() };
        slow.push(client.watch_bookings(request).await.unwrap().into_inner());
    }
    for n in 0..10 {
        federation.reserve_confirmed(&format!("r{n}"), pair(1, 10, 3_600, 600)).await;
    }
    // One of them starts to read, and another watcher reads everything: neither misses anything.
    let request = v1::WatchBookingsRequest { resume_token: "0".to_owned() };
    let quick = federation.rm("nrm").watch_bookings(request).await.unwrap().into_inner();
    for (mut stream, last) in [(slow.pop().unwrap(), 2_000), (quick, BIG)] {
        let mut sequence = 0;
        while sequence < last {
            let what = stream.message().await.unwrap().unwrap().what.unwrap();
            if let v1::watch_bookings_response::What::Event(event) = what {
                assert_eq!(event.sequence, sequence + 1);
                sequence = event.sequence;
            }
        }
    }
    let after = memory(&federation, "nrm");
    // The records are 30 MB as JSON: 23 watchers with a copy each would need far more than this.
    let grown = after.saturating_sub(before);
    assert!(grown < 96 << 20, "grown by {} MiB", grown >> 20);
    federation.audit_at_rest().await;
}

fn violation(status: &Status) -> String {
    let details = status.get_details_precondition_failure().unwrap();
    details.violations[0].description.clone()
}

#[tokio::test(flavor = "multi_thread")]
async fn tokens_of_another_past_are_refused_with_what_to_do() {
    let mut federation = Federation::start().await;
    let refused = |status: Result<Stream, Status>| {
        let status = status.err().expect("it is refused");
        assert_eq!(status.code(), Code::FailedPrecondition, "{status}");
        violation(&status)
    };
    // A token of another daemon.
    let grc = history_token(&federation, "grc").await;
    let (id, _) = grc.split_once(':').unwrap();
    let text = refused(Stream::open(&federation, "nrm", &grc).await);
    assert!(text.contains(id) && text.contains("List the current state"), "{text}");
    // A token of the same ledger, from before an older copy was restored. The tip is restored too;
    // otherwise the node would notice.
    federation.stop("nrm");
    let file = |name: &str| federation.dir.path().join(name);
    let copies = [("nrm.ledger", "nrm.copy"), ("nrm.ledger.tip", "nrm.copy.tip")]
        .map(|(from, to)| (file(from), file(to)));
    for (ledger, copy) in &copies {
        std::fs::copy(ledger, copy).unwrap();
    }
    federation.spawn("nrm");
    up(&federation).await;
    for n in 0..3 {
        federation.reserve(&format!("lost{n}"), pair(1, 10, 3_600, 600)).await;
    }
    let token = history_token(&federation, "nrm").await;
    assert!(Stream::open(&federation, "nrm", &token).await.is_ok());
    federation.stop("nrm");
    for (ledger, copy) in &copies {
        std::fs::copy(copy, ledger).unwrap();
    }
    federation.spawn("nrm");
    up(&federation).await;
    let text = refused(Stream::open(&federation, "nrm", &token).await);
    assert!(text.contains("an older copy was restored"), "{text}");
    // The token is refused even when the ledger has grown beyond it in the meantime.
    for n in 0..6 {
        federation.reserve(&format!("new{n}"), pair(1, 10, 7_200, 600)).await;
    }
    let now = history_token(&federation, "nrm").await;
    let sequence = |token: &str| token.split(':').nth(1).unwrap().parse::<u64>().unwrap();
    assert!(sequence(&now) > sequence(&token));
    let text = refused(Stream::open(&federation, "nrm", &token).await);
    assert!(text.contains("does not have: an older copy"), "{text}");
    let status = Stream::open(&federation, "nrm", "yesterday").await.err().unwrap();
    assert_eq!(status.code(), Code::InvalidArgument);
    let details = status.get_details_bad_request().unwrap();
    assert_eq!(details.field_violations[0].field, "resume_token");
}

/// Waits until the NRM serves again, and the GRC has noticed.
async fn up(federation: &Federation) {
    eventually("the NRM is up", || async {
        federation.rm("nrm").describe(v1::DescribeRequest {}).await.is_ok()
    })
    .await;
    federation.complete().await;
}

/// The current token of a node.
async fn history_token(federation: &Federation, node: &str) -> String {
    let mut stream = Stream::open(federation, node, "").await.unwrap();
    stream.next().await.unwrap().token().to_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn an_expired_hold_is_seen_with_its_cause() {
    let mut federation = Federation::prepare();
    let policy = "{hold_soft: 1s, hold_hard: 10s}";
    federation.configure(&Setup { policy, ..Setup::default() });
    federation.start_all().await;
    let mut stream = Stream::open(&federation, "nrm", "").await.unwrap();
    let window =
        v1::Window { start: Some(seconds_from_now(3_600)), end: Some(seconds_from_now(7_200)) };
    // The GRC never opened this transaction, so nobody decides it.
    let hold = v1::HoldRequest {
        transaction: "grc-nobody-1/1".to_owned(),
        coordinator: "grc".to_owned(),
        user: "UserA".to_owned(),
        segments: vec![v1::Segment {
            resource: "A-B".to_owned(),
            amount: 1_000_000,
            window: Some(window),
            ..Default::default()
        }],
        ..Default::default()
    };
    federation.rm("nrm").hold(hold).await.unwrap();
    let mut events = Vec::new();
    while events.len() < 2 {
        if let WatchMessage::Booking(event) = stream.next().await.unwrap() {
            events.push(event);
        }
    }
    let [held, expired] = &events[..] else { panic!("{events:?}") };
    let (before, after) = (held.booking.as_ref().unwrap(), expired.booking.as_ref().unwrap());
    assert_eq!((before.state(), held.cause.as_str()), (BookingState::Held, "coordinator grc"));
    assert_eq!(before.expires_in.as_ref().unwrap().seconds, 10);
    assert_eq!((after.state(), expired.cause.as_str()), (BookingState::Expired, "expiry"));
    assert_eq!((after.expires_in, &after.segments), (None, &before.segments));
    federation.audit_at_rest().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stopped_daemon_ends_its_streams_so_that_clients_go_elsewhere() {
    let mut federation = Federation::start().await;
    for node in ["nrm", "grc"] {
        let mut stream = Stream::open(&federation, node, "").await.unwrap();
        stream.next().await.unwrap();
        let ended = tokio::spawn(async move {
            loop {
                if let Err(status) = stream.next().await {
                    return status;
                }
            }
        });
        assert!(federation.stop(node).success());
        assert_eq!(ended.await.unwrap().code(), Code::Unavailable, "{node}");
        assert!(!federation.log(node).contains("calls that are still open are dropped"), "{node}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn one_watcher_too_many_is_refused_until_another_goes() {
    let federation = Federation::start().await;
    let mut streams = Vec::new();
    for _ in 0..limits::WATCHERS_MAX {
        streams.push(Stream::open(&federation, "nrm", "").await.unwrap());
    }
    let status = Stream::open(&federation, "nrm", "").await.err().unwrap();
    assert_eq!(status.code(), Code::ResourceExhausted, "{status}");
    federation.reserve_confirmed("one", pair(1, 1, 3_600, 600)).await;
    streams.pop();
    eventually("the place is free again", || async {
        Stream::open(&federation, "nrm", "").await.is_ok()
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_filter_tells_of_one_reservation_or_one_user_and_unknown_ids_are_not_found() {
    let federation = Federation::start().await;
    let mine = federation.reserve("mine", pair(1, 1, 3_600, 600)).await;
    let mut other = pair(1, 1, 3_600, 600);
    other.user = "UserB".to_owned();
    federation.reserve("other", other).await;
    let ask = |id: &str, user: &str| v1::WatchRequest {
        resume_token: "0".to_owned(),
        id: id.to_owned(),
        user: user.to_owned(),
    };
    let mut stories = Vec::new();
    for request in [ask("mine", ""), ask(&mine.id, ""), ask("", "UserA"), ask("", "UserB")] {
        let stream = federation.grc().watch(request).await.unwrap().into_inner();
        let (mut stream, mut story) = (Stream::Grc(stream), Vec::new());
        while story.len() < 4 {
            if let WatchMessage::Reservation(event) = stream.next().await.unwrap() {
                story.push((event.request_id, event.user, event.state));
            }
        }
        stories.push(story);
    }
    let states = [State::Checking, State::Checking, State::Committing, State::Confirmed];
    let story = |id: &str, user: &str| {
        states.map(|state| (id.to_owned(), user.to_owned(), i32::from(state))).to_vec()
    };
    assert_eq!(stories[..3], [(); 3].map(|()| story("mine", "UserA")));
    assert_eq!(stories[3], story("other", "UserB"));
    let status = federation.grc().watch(ask("nobody", "")).await.unwrap_err();
    assert_eq!(status.code(), Code::NotFound);
    let status = federation.grc().watch(ask("", "a b")).await.unwrap_err();
    assert_eq!(status.code(), Code::InvalidArgument);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_command_goes_on_by_itself_after_a_kill_and_prints_every_event_once() {
    let mut federation = Federation::start().await;
    let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_coalloc"));
    command.args(["watch", "--from", "start", "--json", "--count", "8", "--idle", "40s"]);
    command.args(["--grc", &federation.addresses["grc"]]);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    federation.reserve("one", pair(1, 1, 3_600, 600)).await;
    // The command is following once it has printed something; only then does an end of the connection count
    // as an interruption.
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let (first, lines) =
        tokio::task::spawn_blocking(|| (lines.next().unwrap().unwrap(), lines)).await.unwrap();
    federation.kill("grc");
    federation.spawn("grc");
    federation.complete().await;
    federation.reserve("two", pair(1, 1, 3_600, 600)).await;
    let rest = tokio::task::spawn_blocking(|| lines.map(Result::unwrap).collect::<Vec<_>>());
    let rest = rest.await.unwrap();
    let output = tokio::task::spawn_blocking(|| child.wait_with_output()).await.unwrap().unwrap();
    let errors = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(0), "{errors}");
    let printed: Vec<u64> = [first]
        .into_iter()
        .chain(rest)
        .map(|line| {
            let event: v1::ReservationEvent = serde_json::from_str(&line).unwrap();
            event.sequence
        })
        .collect();
    let history = history(&federation, "grc").await;
    assert_eq!(printed, history.iter().map(WatchMessage::sequence).collect::<Vec<_>>());
    assert!(errors.contains("to go on from here: --from "), "{errors}");
}

#[tokio::test(flavor = "multi_thread")]
async fn how_long_it_is_held_yet_is_shown_while_it_is() {
    let mut federation = Federation::prepare();
    let listen = format!("127.0.0.1:{}", free_port());
    let mut control = middle::start(&listen, &federation.addresses["nrm"]).await;
    federation.configure(&Setup {
        policy: "{hold_hard: 600s}",
        relayed: [("nrm".to_owned(), listen)].into(),
    });
    federation.start_all().await;
    control.stop_at(Point::BeforeCommit);
    let mut grc = federation.grc();
    let request = v1::ReserveRequest {
        request_id: "one".to_owned(),
        request: Some(pair(10, 600, 3_600, 600)),
        ..v1::ReserveRequest::default()
    };
    let call = tokio::spawn(async move { grc.reserve(request).await.unwrap().into_inner() });
    let go = control.stopped().await;
    // The NRM has not heard of the decision, so it still holds.
    let held = federation.get("one").await.unwrap();
    let left = held.expires_in.expect("it is held").seconds;
    assert_eq!(held.state(), State::Committing);
    assert!((1..=600).contains(&left), "{left}");
    let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_coalloc"));
    command.args(["show", "one", "--grc", &federation.addresses["grc"]]);
    let shown = String::from_utf8(command.output().unwrap().stdout).unwrap();
    assert!(shown.contains("  held: the first of its holds ends in 9 min"), "{shown}");
    go.send(Then::GoOn).unwrap();
    call.await.unwrap();
    assert_eq!(federation.get("one").await.unwrap().expires_in, None, "it is booked");
}
