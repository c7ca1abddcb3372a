//! Tests the check of how long a hold lasts, with records written by hand.

use std::collections::BTreeMap;

use coalloc_common::{
    Amount, CoordinatorName, ResourceId, ResourceKind, ServiceLevels, Time, UserName, Window,
    limits,
};
use coalloc_protocol::message::{Cause, HoldOrder};
use coalloc_protocol::participant::equipment::Claim;
use coalloc_protocol::participant::{HoldPolicy, HoldQuotas, ParticipantConfig};

use super::super::Trace;
use super::*;

const SECOND: i64 = 1_000_000;

/// A world with one resource manager, up and idle.
fn world() -> World {
    let mut world = World::new(0, Trace::Off);
    let config = ParticipantConfig {
        name: RmName::composed("rm"),
        kinds: ResourceKind::Cpus.into(),
        resources: vec![(ResourceId::composed("a"), Amount(1_000))],
        coordinators: [CoordinatorName::composed("grc")].into(),
        policy: HoldPolicy {
            soft: limits::HOLD_SOFT_DEFAULT,
            hard: limits::HOLD_HARD_DEFAULT,
            horizon: limits::HORIZON_DEFAULT,
            ..HoldPolicy::default()
        },
        levels: ServiceLevels::default(),
        quotas: HoldQuotas::default(),
        inside: None,
        servers: BTreeMap::new(),
    };
    world.add_rm(config).expect("it starts");
    while world.step().expect("nothing is wrong") {}
    world
}

/// Checks a hold of 12 s that was stepped at `held_us` and expires at `expires_us`. Both records become durable at
/// `durable_us`.
fn expiry(held_us: i64, expires_us: i64, durable_us: i64) -> Result<(), String> {
    let mut world = world();
    let txn = TransactionId::composed("grc-1-1/1");
    let at = |us| world.rms[0].now(us);
    let (held_at, expires_at) = (at(held_us), at(expires_us));
    let start = Time::from_us(held_at.wall.as_us() + 3_600 * SECOND);
    let window = Window::starting(start, Span::from_secs(60)).expect("a window");
    let order = HoldOrder {
        txn: txn.clone(),
        coordinator: CoordinatorName::composed("grc"),
        user: UserName::composed("UserA"),
        segments: vec![Segment { resource: ResourceId::composed("a"), amount: Amount(1), window }],
        hold_for: None,
        replaces: None,
        keeps_old: false,
        one_way: false,
        servers: None,
        manual_provision: false,
    };
    world.watch.intents.insert(txn.clone());
    world.watch.sent.note(0, &txn, &Message::Hold(order.clone()));
    world.now_us = durable_us;
    world.rms[0].stepped_us = held_us;
    let (soft, hard) = (Span::from_secs(8), Span::from_secs(12));
    let held = ParticipantRecord::Held {
        order,
        soft,
        hard,
        at: held_at,
        inner: None,
        servers: Vec::new(),
        claim: Claim::NotNeeded,
    };
    world.watch_rm(0, &[held]).expect("a hold");
    // The RM has asked shortly before, as it must.
    world.watch.asking.note(Address::Rm(0), &txn, expires_us - SECOND);
    // The process was frozen until then, if that is later than the end of the hold.
    world.model_awake(0, expires_us);
    world.rms[0].stepped_us = expires_us;
    let coordinator = CoordinatorName::composed("grc");
    let (ending, by) = (TransactionEnd::Expired, Cause::Expiry);
    world.watch_rm(0, &[ParticipantRecord::Ended { txn, coordinator, ending, by, at: expires_at }])
}

/// Seeds 74767, 99359, 123433, 147941, 175562 and 177904: the process was frozen between step and sync.
#[test]
fn a_hold_lasts_from_its_step_to_that_of_its_expiry_however_late_either_is_durable() {
    let held_us = 5 * SECOND;
    let over_us = held_us + 12 * SECOND;
    assert_eq!(expiry(held_us, over_us, over_us), Ok(()));
    // A frozen process: both records become durable in one moment, a minute later.
    assert_eq!(expiry(held_us, held_us + 90 * SECOND, held_us + 90 * SECOND), Ok(()));
    // Too early by a microsecond is an error, also when the disk makes both records late.
    for durable_us in [over_us, over_us + 60 * SECOND] {
        let error = expiry(held_us, over_us - 1, durable_us).expect_err("too early");
        assert!(error.starts_with("I14: grc-1-1/1 was held for 12 s"), "{error}");
    }
}
