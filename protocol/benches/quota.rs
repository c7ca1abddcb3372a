//! What it costs a coordinator to check the quota of a user who has many live reservations, when an attempt is made.
//!
//! `cargo bench -p coalloc-protocol --bench quota`

#![allow(clippy::disallowed_methods, clippy::disallowed_types)] // A benchmark has a clock.

use std::collections::BTreeMap;
use std::hint::black_box;
use std::time::{Duration, Instant};

use coalloc_common::{
    Amount, AmountTime, BootTime, CoordinatorName, Now, RequestId, ReservationId, ResourceId,
    ResourceKind, ResourceKinds, RmName, Segment, Span, Time, UserName, Window,
};
use coalloc_protocol::conversation::{
    Caller, ConversationInput, Opening, PlanJob, PlanTarget, Planned,
};
use coalloc_protocol::coordinator::{
    Candidate, Coordinator, CoordinatorConfig, CoordinatorInput, ReservationQuota,
    ReservationQuotas, Ticket,
};
use coalloc_protocol::core::Core as _;
use coalloc_protocol::message::Token;

const RUNS: usize = 101;

fn now() -> Now {
    Now { wall: Time::from_us(0), boot: BootTime::from_us(1) }
}

/// Two sites with CPUs, and a route of three paths.
fn candidate() -> Candidate {
    let start = Time::from_us(3_600_000_000);
    let segments = ["crm-a", "crm-b", "nrm-1", "nrm-2", "nrm-3"].into_iter().filter_map(|rm| {
        let window = Window::starting(start, Span::from_secs(3_600))?;
        let segment = Segment { resource: ResourceId::composed(rm), amount: Amount(8), window };
        Some((RmName::composed(rm), vec![segment]))
    });
    let segments: BTreeMap<RmName, Vec<Segment>> = segments.collect();
    let kind = |rm: &RmName| match rm.as_str().starts_with("crm") {
        true => ResourceKind::Cpus,
        false => ResourceKind::Bandwidth,
    };
    let kinds = segments.keys().map(|rm| (rm.clone(), ResourceKinds::all(kind(rm)))).collect();
    Candidate { segments, kinds, ..Candidate::default() }
}

fn reserve(core: &mut Coordinator, number: usize) -> Duration {
    let request = RequestId::composed(format!("r{number}"));
    let user = UserName::composed("alice");
    let ticket = Ticket { request: request.clone(), user, content: "c".to_owned() };
    let token = Token::new(number as u64);
    let open = ConversationInput::Open(Opening::Request(ticket, Token::new(number as u64)));
    let _ = black_box(core.step(open.into(), now()));
    let planned = Planned { outcome: Ok(vec![candidate()]), replans: None, notes: String::new() };
    let job = PlanJob::first(PlanTarget::Request(request));
    let caller = Caller::Request(token);
    let input = CoordinatorInput::from(ConversationInput::Planned { job, planned, caller });
    let begun = Instant::now();
    let _ = black_box(core.step(input, now()));
    begun.elapsed()
}

fn main() {
    if !std::env::args().any(|arg| arg == "--bench") {
        return; // `cargo test --all-targets` runs this file too; there is nothing to test.
    }
    println!("| live reservations | quota of reservations only | and of hours |");
    println!("|---|---|---|");
    for live in [10, 1_000, 10_000] {
        let mut cells = Vec::new();
        for hours in [None, Some(1_000_000_000)] {
            let mut core = Coordinator::new(CoordinatorConfig {
                name: CoordinatorName::composed("grc"),
                tag: "t".to_owned(),
                hold_for: None,
                forgets: None,
            });
            for number in 0..live {
                reserve(&mut core, number);
            }
            let limit =
                |hours| (ResourceKind::Cpus, AmountTime::from_hours(ResourceKind::Cpus, hours));
            let each =
                ReservationQuota { live: 1_000_000, ahead: hours.map(limit).into_iter().collect() };
            core.set_quotas(ReservationQuotas { each, users: BTreeMap::new() });
            let mut times: Vec<Duration> =
                (live..live + RUNS).map(|n| reserve(&mut core, n)).collect();
            times.sort_unstable();
            let last = ReservationId::composed(format!("grc-t-{}", live + RUNS));
            assert!(core.find(last.as_str()).is_some_and(|known| known.attempts == 1));
            cells.push(times[RUNS / 2]);
        }
        println!("| {live} | {:.1?} | {:.1?} |", cells[0], cells[1]);
    }
}
