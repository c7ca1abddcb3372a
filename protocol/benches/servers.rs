//! What a Hold costs at a by-server site of 10,000 servers, beside the same Hold at a site of 10,000 CPUs that are
//! counted; and what a query of 256 frames costs at both.
//!
//! Both sites have the same 20,000 bookings of 1 to 16 servers. A measured round is a Hold and its Abort.
//!
//! `cargo bench -p coalloc-protocol --bench servers`

use std::cell::RefCell;

use coalloc_common::{
    Amount, BootTime, CoordinatorName, Now, ResourceId, ResourceKind, RmName, Segment,
    ServiceLevels, Span, Time, TransactionId, UserName, Window, limits,
};
use coalloc_protocol::Core;
use coalloc_protocol::message::{HoldOrder, Token};
use coalloc_protocol::participant::{
    HoldPolicy, HoldQuotas, Participant, ParticipantConfig, ParticipantInput, SiteServers,
};
use divan::Bencher;

const SERVERS: u64 = 10_000;
const BOOKINGS: u64 = 20_000;
const NOW: Now = Now { wall: Time::from_us(1_800_000_000_000_000), boot: BootTime::from_us(0) };

fn main() {
    divan::main();
}

fn site() -> ResourceId {
    ResourceId::composed("A")
}

fn window(from_s: i64, length_s: i64) -> Window {
    let start = NOW.wall.saturating_add(Span::from_secs(60 + from_s));
    let Some(window) = Window::starting(start, Span::from_secs(length_s)) else {
        unreachable!("it has a length")
    };
    window
}

fn txn(number: u64) -> TransactionId {
    TransactionId::composed(format!("grc-t-{number}/1"))
}

fn hold(number: u64, servers: u64, window: Window) -> ParticipantInput {
    let order = HoldOrder {
        txn: txn(number),
        coordinator: CoordinatorName::composed("grc"),
        user: UserName::composed("UserA"),
        segments: vec![Segment { resource: site(), amount: Amount(servers), window }],
        hold_for: None,
        replaces: None,
        keeps_old: false,
        one_way: false,
        servers: None,
        manual_provision: false,
    };
    ParticipantInput::Hold { order, oldest_open: 0, token: Token::new(0) }
}

/// A site with all its bookings, by server or counted.
fn booked(by_server: bool) -> Participant {
    let names = (1..=SERVERS).map(|number| ResourceId::composed(format!("A/{number}"))).collect();
    let servers = by_server.then(|| (site(), SiteServers { cpus_each: 1, names }));
    let mut participant = Participant::new(ParticipantConfig {
        name: RmName::composed("crm"),
        resources: vec![(site(), Amount(SERVERS))],
        kinds: ResourceKind::Cpus.into(),
        coordinators: [CoordinatorName::composed("grc")].into(),
        policy: HoldPolicy { horizon: limits::HORIZON_MAX, ..HoldPolicy::default() },
        levels: ServiceLevels::default(),
        quotas: HoldQuotas::default(),
        inside: None,
        servers: servers.into_iter().collect(),
    });
    let _ = participant.step(ParticipantInput::Start { boot: "bench".into() }, NOW);
    for number in 0..BOOKINGS {
        // Spread over ten days, so that a sixth of the servers is taken at once.
        let from_s = i64::try_from(number * 7_919 % 864_000).unwrap_or(0);
        let window = window(from_s, 3_600 + from_s % 7_200);
        let _ = participant.step(hold(number, 1 + number % 16, window), NOW);
        let by = CoordinatorName::composed("grc");
        let commit = ParticipantInput::Commit { txn: txn(number), by, token: Token::new(0) };
        let _ = participant.step(commit, NOW);
    }
    participant
}

fn hold_and_abort(bencher: Bencher<'_, '_>, by_server: bool, servers: u64) {
    let participant = RefCell::new(booked(by_server));
    let mut number = BOOKINGS;
    bencher
        .with_inputs(|| {
            number += 1;
            let from_s = i64::try_from(number * 104_729 % 864_000).unwrap_or(0);
            let by = CoordinatorName::composed("grc");
            let abort = ParticipantInput::Abort { txn: txn(number), by, token: Token::new(0) };
            (hold(number, servers, window(from_s, 3_600)), abort)
        })
        .bench_local_values(|(hold, abort)| {
            let mut participant = participant.borrow_mut();
            (participant.step(hold, NOW), participant.step(abort, NOW))
        });
}

#[divan::bench(args = [1, 16, 64])]
fn counted(bencher: Bencher<'_, '_>, servers: u64) {
    hold_and_abort(bencher, false, servers);
}

#[divan::bench(args = [1, 16, 64])]
fn by_server(bencher: Bencher<'_, '_>, servers: u64) {
    hold_and_abort(bencher, true, servers);
}

/// What is free in 256 frames of an hour, a quarter of an hour apart.
#[divan::bench(args = [false, true], sample_count = 10, sample_size = 1)]
fn query(bencher: Bencher<'_, '_>, by_server: bool) {
    let participant = booked(by_server);
    let frames: Vec<Window> = (0..256).map(|frame| window(frame * 900, 3_600)).collect();
    let user = UserName::composed("UserA");
    bencher.bench_local(|| participant.availability(&frames, &user, None, NOW));
}
