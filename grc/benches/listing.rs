//! How long requests wait for the coordinator's thread while another client lists its reservations.
//!
//! The core has many confirmed reservations and runs on its own thread, with its ledger on a disk. One caller posts
//! requests that are refused, one after the other: each takes two inputs and one append, as much as D1 of a Hold. It
//! does so first alone, and then while another caller lists all reservations in pages, again and again. Both figures
//! come from the same run: compare them with each other.
//!
//! `cargo bench -p coalloc-grc --bench listing -- 100000` (the ledger is written in target/, which must be on a disk
//! and not in memory).

// A benchmark is test code throughout.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use coalloc_common::{
    Amount, CoordinatorName, Reason, Refusal, RequestId, ReservationId, ResourceId, RmName,
    Segment, Span, TransactionId, UserName, Window,
};
use coalloc_grc::node::shell;
use coalloc_grc::node::shell::{Handle, Node};
use coalloc_grc::views::{kept, listing, view};
use coalloc_net::client::Dialer;
use coalloc_net::machine::System;
use coalloc_net::node;
use coalloc_proto::v1;
use coalloc_protocol::Causer;
use coalloc_protocol::Core as _;
use coalloc_protocol::conversation::{Caller, ConversationInput, Next, RequestEnd, Subject as _};
use coalloc_protocol::coordinator::{
    Candidate, Coordinator, CoordinatorConfig, CoordinatorEffect, CoordinatorRecord, State, Ticket,
};
use coalloc_protocol::message::Decision;

/// Requests in each measurement.
const REQUESTS: usize = 2_000;

fn ticket(n: usize) -> Ticket {
    let user = UserName::composed(format!("user-{}", n % 10));
    Ticket { request: RequestId::composed(format!("request-{n}")), user, content: "digest".into() }
}

/// The records of a confirmed reservation of two sites and a link.
fn confirmed(n: usize) -> [CoordinatorRecord; 4] {
    let at = System::host(Dialer::plain_text()).now();
    let reservation = ReservationId::composed(format!("bench-tag-{n}"));
    let txn = TransactionId::composed(format!("bench-tag-{n}/1"));
    let start = at.wall.saturating_add(Span::from_secs(3_600));
    let window = Window::new(start, start.saturating_add(Span::from_secs(600))).unwrap();
    let wire = coalloc_net::convert::window_to_wire(window);
    let segment = |resource: &str| Segment {
        resource: ResourceId::composed(resource.to_owned()),
        amount: Amount(1),
        window,
    };
    let rm = |name: &str| RmName::composed(name.to_owned());
    let segments = [("crm-A", "A0"), ("crm-B", "B0"), ("nrm", "A-B")];
    let segments: std::collections::BTreeMap<RmName, Vec<Segment>> =
        segments.map(|(name, resource)| (rm(name), vec![segment(resource)])).into();
    let all = |segments: &std::collections::BTreeMap<_, Vec<Segment>>| {
        segments.values().flatten().cloned().collect::<Vec<_>>()
    };
    let plan = v1::Plan {
        digest: "0123456789abcdef".repeat(4),
        window: Some(wire),
        segments: coalloc_net::convert::segments_to_wire(None, &all(&segments)),
        solver: "exact".to_owned(),
        values: (1..=6)
            .map(|objective| v1::ObjectiveValue { objective, value: 1_000 * u64::from(n as u32) })
            .collect(),
        ..Default::default()
    };
    let request =
        v1::CoAllocationRequest { user: format!("user-{}", n % 10), ..Default::default() };
    let candidate =
        Candidate { segments, details: kept::co_allocation(&plan).into(), ..Candidate::default() };
    let notes = view::notes(&[], Some(&request), None);
    [
        CoordinatorRecord::Opened {
            reservation: reservation.clone(),
            ticket: ticket(n),
            notes,
            at,
        },
        CoordinatorRecord::Intent {
            txn: txn.clone(),
            reservation,
            candidate,
            replaces: None,
            mends: None,
            anew: Vec::new(),
            version: 0,
            active: false,
            at,
        },
        CoordinatorRecord::Decided {
            txn: txn.clone(),
            decision: Decision::Commit,
            refusal: None,
            state: State::Committing,
            expires_in: None,
            version: 0,
            active: false,
            at,
            servers: BTreeMap::new(),
        },
        CoordinatorRecord::Finished { txn, state: State::Confirmed, version: 1, active: false, at },
    ]
}

/// Posts requests, and returns how long each took, shortest first.
async fn requests(handle: &Handle, next: &mut usize) -> Vec<Duration> {
    let mut took = Vec::with_capacity(REQUESTS);
    for _ in 0..REQUESTS {
        *next += 1;
        let (ticket, begun) = (ticket(*next), Instant::now());
        let open = |token| ConversationInput::Open(ticket.open(token)).into();
        let Next::Plan(job) = handle.call(&Causer::Itself, open).await.unwrap() else {
            panic!("known already")
        };
        let planned = Err(Refusal::new(Reason::NoRoute, "a bench")).into();
        let refuse = |token| {
            let caller = Caller::Request(token);
            ConversationInput::Planned { job, planned, caller }.into()
        };
        let end = handle.call(&Causer::Itself, refuse).await.unwrap();
        assert!(matches!(end, Next::Done(RequestEnd::Stands(_))));
        took.push(begun.elapsed());
    }
    took.sort();
    took
}

/// Lists all reservations, page by page, until `stop` is set.
async fn list(handle: Handle, stop: Arc<AtomicBool>, listed: Arc<AtomicUsize>) {
    let mut page_token = String::new();
    while !stop.load(Ordering::Relaxed) {
        let wire = v1::ListRequest { page_token, ..Default::default() };
        let page = listing::page(&handle, wire, false).await.unwrap();
        listed.fetch_add(page.reservations.len(), Ordering::Relaxed);
        page_token = page.next_page_token;
    }
}

fn show(what: &str, took: &[Duration]) {
    let at = |percent: usize| took[took.len() * percent / 100 - 1];
    println!("{what}: p50 {:?}, p99 {:?}, longest {:?}", at(50), at(99), took[took.len() - 1]);
}

fn main() {
    let count = std::env::args().skip(1).find_map(|arg| arg.parse().ok()).unwrap_or(100_000);
    let config = CoordinatorConfig {
        name: CoordinatorName::composed("bench".to_owned()),
        tag: "tag".to_owned(),
        hold_for: None,
        forgets: None,
    };
    let mut core = Coordinator::new(config);
    let path = std::env::current_exe().unwrap().with_extension(format!("{}", std::process::id()));
    let ledger = node::open_ledger(&path, "grc", "bench", &mut core).unwrap();
    for record in (1..=count).flat_map(confirmed) {
        core.apply(&record).unwrap();
    }
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let node = Node::start(
            "bench",
            &System::host(Dialer::plain_text()),
            core,
            ledger,
            |effect, waiters| {
                if let CoordinatorEffect::Reply(reply) = effect {
                    shell::complete(waiters, reply);
                }
            },
        );
        let (node, mut next) = (node.unwrap(), count);
        println!("{count} reservations, {REQUESTS} requests each time");
        for _ in 0..3 {
            show("alone", &requests(&node.handle, &mut next).await);
            let (stop, listed) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
            let lister = list(node.handle.clone(), Arc::clone(&stop), Arc::clone(&listed));
            let (lister, begun) = (tokio::spawn(lister), Instant::now());
            show("beside List", &requests(&node.handle, &mut next).await);
            let rate = listed.load(Ordering::Relaxed) as f64 / begun.elapsed().as_secs_f64();
            println!("  listed {rate:.0} reservations a second meanwhile");
            stop.store(true, Ordering::Relaxed);
            lister.await.unwrap();
        }
        node.stop().await;
    });
    for end in ["", "-wal", "-shm", ".tip", ".lock"] {
        let mut file = path.clone().into_os_string();
        file.push(end);
        // Some of the files may not exist.
        let _ = std::fs::remove_file(file);
    }
}
