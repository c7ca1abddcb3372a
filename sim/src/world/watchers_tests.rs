//! A subscriber comes to rest, whichever of its updates is lost.

use std::collections::BTreeMap;

use coalloc_common::{
    CoordinatorName, ResourceId, ResourceKind, Segment, ServiceLevels, Span, TransactionId,
    UserName,
};
use coalloc_protocol::Core;
use coalloc_protocol::message::HoldOrder;
use coalloc_protocol::participant::equipment::Claim;
use coalloc_protocol::participant::{HoldPolicy, HoldQuotas, ParticipantConfig, ParticipantRecord};

use super::super::node::WALL_START;
use super::*;

fn node() -> Participant {
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
    Participant::new(config).with_changes_kept(CHANGES_KEPT)
}

/// So many seconds after the beginning of the world, by a wall clock that is `ahead` seconds ahead.
fn now(seconds: i64, ahead: i64) -> Now {
    let boot = coalloc_common::BootTime::from_us(seconds * 1_000_000);
    Now { wall: WALL_START.saturating_add(Span::from_secs(seconds + ahead)), boot }
}

/// Holds some CPUs for an hour, from this second on.
fn hold(node: &mut Participant, txn: &str, from: i64, at: Now) {
    let start = WALL_START.saturating_add(Span::from_secs(from));
    let window = Window::starting(start, Span::from_secs(3_600)).expect("a window");
    let order = HoldOrder {
        txn: TransactionId::composed(txn),
        coordinator: CoordinatorName::composed("grc"),
        user: UserName::composed("UserA"),
        segments: vec![Segment {
            resource: ResourceId::composed("a"),
            amount: Amount(100),
            window,
        }],
        hold_for: None,
        replaces: None,
        keeps_old: false,
        one_way: false,
        servers: None,
        manual_provision: false,
    };
    let (soft, hard) = (limits::HOLD_SOFT_DEFAULT, limits::HOLD_HARD_DEFAULT);
    let record = ParticipantRecord::Held {
        order,
        soft,
        hard,
        at,
        inner: None,
        servers: Vec::new(),
        claim: Claim::NotNeeded,
    };
    node.apply(&record).expect("it fits");
}

/// Seeds 11241, 12051, 30749, 63827, 70092, 85221, 102443 and 194848: the subscriber's picture was made by a
/// clock that was half an hour ahead, and the change that would show that, or the snapshot after it, is lost.
#[test]
fn whichever_update_is_lost_it_believes_what_is_so_when_all_is_at_rest() {
    let mut most = 0;
    for told in 0..LOST {
        let (mut node, mut subscriber) = (node(), Subscriber::default());
        let ahead = now(1, 1_800);
        assert_eq!(subscriber.look(&node, ahead), Ok(true));
        hold(&mut node, "grc-1-1/1", 60, now(2, 0));
        assert!(subscriber.differs(&node).is_some(), "it has not heard of it");
        subscriber.updates = told;
        subscriber.comes_to_rest(&node, now(4, 0)).expect("it is told");
        assert_eq!(subscriber.differs(&node), None, "after {told} updates");
        most = most.max(subscriber.updates - told);
    }
    assert_eq!(most, u64::from(LOOKS_AT_REST), "no look too many");
}
