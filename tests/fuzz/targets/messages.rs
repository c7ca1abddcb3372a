//! Messages of the network: from protobuf bytes to messages, from messages to the types of `common`, and back.

use std::fmt::Debug;
use std::sync::LazyLock;

use coalloc_common::{
    Amount, BootTime, InvalidField, Now, ResourceId, RmName, Segment, Time, TransactionId, Window,
    limits,
};
use coalloc_net::convert::{self, RequestOptions};
use coalloc_net::identity::trust::Trust;
use coalloc_net::tips::{self, TipError};
use coalloc_proto::{Duration, Timestamp, v1};
use coalloc_protocol::digest::{self, BookingSet};
use coalloc_protocol::update::{Part, Picture};
use prost::Message;

pub(super) const NOW: Time = Time::from_us(1_795_219_200_000_000);

fn stamp(seconds: i64) -> Timestamp {
    Timestamp { seconds: 1_795_219_200 + seconds, nanos: 0 }
}

fn long(seconds: i64) -> Duration {
    Duration { seconds, nanos: 0 }
}

fn window() -> v1::Window {
    v1::Window { start: Some(stamp(600)), end: Some(stamp(4_200)) }
}

fn segment(resource: &str) -> v1::Segment {
    v1::Segment {
        resource: resource.to_owned(),
        window: Some(window()),
        amount: 1_000,
        ..v1::Segment::default()
    }
}

pub(crate) fn hold() -> v1::HoldRequest {
    v1::HoldRequest {
        transaction: "grc-1a2b3c4d-7/9".to_owned(),
        coordinator: "grc".to_owned(),
        user: "UserA".to_owned(),
        segments: vec![segment("N0-N1:ab"), segment("N0-N1:ba")],
        hold_for: Some(long(60)),
        resource_manager: "nrm-N".to_owned(),
        replaces: "grc-1a2b3c4d-3/1".to_owned(),
        one_way: false,
        keeps_old: true,
        servers: None,
        manual_provision: false,
        oldest_open: 5,
        coordinator_epoch: 7,
    }
}

pub(crate) fn refusal() -> v1::Refusal {
    v1::Refusal {
        reason: v1::Reason::InsufficientCapacity.into(),
        resource_manager: "nrm-N".to_owned(),
        resource: "N0-N1".to_owned(),
        window: Some(window()),
        requested: Some(10),
        available: Some(4),
        detail: "N0-N1 has 4 free".to_owned(),
        bottleneck: Some(v1::Bottleneck {
            kind: v1::BottleneckKind::Path.into(),
            demands: vec!["a-b".to_owned()],
            resources: vec!["N0-N1".to_owned()],
            requested: 10,
            available: 4,
            resource_kind: "storage".to_owned(),
        }),
        ..v1::Refusal::default()
    }
}

pub(crate) fn request() -> v1::CoAllocationRequest {
    let site = |name: &str, pinned: Option<&str>| v1::SiteRequest {
        name: name.to_owned(),
        cpus: 8,
        pinned_to: pinned.map(str::to_owned),
        excluded: vec!["N9".to_owned()],
        others: vec![v1::KindAmount {
            kind: "storage".to_owned(),
            amount: 100,
            offset: Some(long(0)),
            length: Some(long(3_600)),
        }],
        offset: Some(long(600)),
        length: Some(long(60)),
    };
    let link = v1::LinkRequest {
        from: "a".to_owned(),
        to: "b".to_owned(),
        bandwidth_bps: 1_000_000,
        max_latency: Some(Duration { seconds: 0, nanos: 20_000_000 }),
        offset: None,
        length: Some(long(600)),
    };
    v1::CoAllocationRequest {
        user: "UserA".to_owned(),
        sites: vec![site("a", Some("N0")), site("b", None)],
        links: vec![link],
        earliest_start: Some(stamp(600)),
        latest_start: Some(stamp(7_200)),
        duration: Some(long(3_600)),
        manual_provision: Some(true),
        series: "lab".to_owned(),
    }
}

pub(crate) fn reserve() -> v1::ReserveRequest {
    v1::ReserveRequest {
        request_id: "r7".to_owned(),
        request: Some(request()),
        options: Some(v1::PlanOptions { frames: Some(10), ..v1::PlanOptions::default() }),
        plan_digest: "0123456789abcdef".to_owned(),
    }
}

pub(crate) fn federation() -> v1::FederationFile {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/examples/small-federation.yaml");
    coalloc_proto::file::read::<v1::FederationFile>(path.as_ref()).unwrap().message
}

pub(crate) fn description() -> v1::DescribeResponse {
    v1::DescribeResponse {
        name: "nrm-N".to_owned(),
        domain: "N".to_owned(),
        ledger_id: "0".repeat(32),
        paths: federation().networks.iter().flat_map(|network| network.paths.clone()).collect(),
        horizon: Some(long(86_400)),
        ..v1::DescribeResponse::default()
    }
}

pub(crate) fn update() -> v1::ProfileUpdate {
    let part = |resource, free: &[u64], after: &[u64]| v1::ProfilePart {
        resource,
        from_us: NOW.as_us(),
        length_us: 600_000_000,
        free: free.to_vec(),
        after_us: after.to_vec(),
    };
    v1::ProfileUpdate {
        epoch: 7,
        kind: v1::ProfileUpdateKind::Snapshot.into(),
        revision: 42,
        at_us: NOW.as_us(),
        resources: vec!["N0-N1:ab".to_owned(), "N0-N1:ba".to_owned()],
        parts: vec![part(0, &[1_000, 400, 1_000], &[1, 59_000_000]), part(1, &[1_000], &[])],
        ..v1::ProfileUpdate::default()
    }
}

/// The bookings of a resource manager.
fn booked() -> BookingSet {
    let mut set = BookingSet::default();
    for number in 0..5_i64 {
        let start = Time::from_us(NOW.as_us() + number * 86_400_000_000);
        let window = Window::new(start, Time::from_us(start.as_us() + 60_000_000)).unwrap();
        let resource = ResourceId::composed("N0-N1:ab");
        let segment = Segment { resource, amount: Amount(1_000), window };
        set.insert(&TransactionId::composed(format!("grc-1a2b3c4d-{number}/1")), &[segment]);
    }
    set
}

pub(crate) fn comparison() -> v1::CompareBookingsRequest {
    let from = digest::Part::first(NOW);
    convert::compare_to_wire("grc", "nrm-N", from, &booked().summaries(from..))
}

pub(crate) fn compared_answer() -> v1::CompareBookingsResponse {
    convert::compared_to_wire("1a2b".to_owned(), &booked(), &[], digest::Part::first(NOW)..)
}

pub(crate) fn policy() -> v1::UpdatePolicy {
    v1::UpdatePolicy {
        strategy: v1::UpdateStrategy::Threshold.into(),
        period: Some(long(1)),
        threshold_percent: 10,
        delay: Some(long(5)),
    }
}

/// Decodes bytes, and checks that the message survives encoding and decoding.
pub(super) fn decoded<M: Message + Default + PartialEq + Debug>(bytes: &[u8]) -> Option<M> {
    let message = M::decode(bytes).ok()?;
    assert_eq!(M::decode(&message.encode_to_vec()[..]).as_ref(), Ok(&message));
    Some(message)
}

/// Checks that an error names a field and what is allowed, in a text of bounded length.
pub(super) fn is_helpful(error: &InvalidField) {
    assert!(!error.field.is_empty() && !error.allowed.is_empty(), "{error:?}");
    assert!(error.to_string().len() < 100_000, "{} bytes of error", error.to_string().len());
}

pub(super) fn taken<T>(result: Result<T, InvalidField>) -> Option<T> {
    result.inspect_err(is_helpful).ok()
}

/// From a coordinator to a resource manager, or from a parent coordinator to a child coordinator.
pub(crate) fn holds(bytes: &[u8]) -> bool {
    let Some(wire) = decoded::<v1::HoldRequest>(bytes) else { return false };
    let _ = taken(coalloc_grc::calls::parents::order_from_wire(&wire));
    let Some(order) = taken(convert::hold_from_wire(&wire)) else { return false };
    assert!(order.segments.len() <= limits::HOLD_SEGMENTS_MAX);
    let rm = RmName::composed("rm");
    let again = convert::hold_to_wire(&rm, &order, wire.oldest_open, wire.coordinator_epoch);
    assert_eq!(again.oldest_open, wire.oldest_open);
    assert_eq!(convert::hold_from_wire(&again), Ok(order));
    true
}

/// From a resource manager to a coordinator.
pub(crate) fn refusals(bytes: &[u8]) -> bool {
    let Some(wire) = decoded::<v1::Refusal>(bytes) else { return false };
    let refusal = convert::refusal_from_wire(&wire);
    let again = convert::refusal_to_wire(&refusal);
    assert_eq!(convert::refusal_from_wire(&again), refusal);
    true
}

/// The request of a client.
pub(crate) fn requests(bytes: &[u8]) -> bool {
    let Some(wire) = decoded::<v1::CoAllocationRequest>(bytes) else { return false };
    let Some(request) = taken(convert::request_from_wire(&wire, NOW)) else { return false };
    // Every frame of an accepted request is a window.
    let frames = request.timing.frames(limits::FRAMES_MAX);
    assert!(frames.len() <= limits::FRAMES_MAX as usize);
    assert!(frames.iter().all(|frame| frame.start() < frame.end()));
    true
}

/// The call that reserves a request: a ticket, options, the digest of a plan that was shown.
pub(crate) fn reserves(bytes: &[u8]) -> bool {
    let Some(wire) = decoded::<v1::ReserveRequest>(bytes) else { return false };
    let ticket = coalloc_grc::admission::ticket(&wire, "grc-1a2b3c4d-");
    let _ = coalloc_grc::admission::request_digest(wire.request.as_ref());
    let defaults = convert::plan_options(None, RequestOptions::default()).unwrap();
    let options = taken(convert::plan_options(wire.options.as_ref(), defaults));
    assert!(options.is_none_or(|o| o.frames <= limits::FRAMES_MAX));
    let _ =
        coalloc_grc::planning::plan_cache::check_digest(&wire.plan_digest).inspect_err(is_helpful);
    ticket.is_ok() && options.is_some()
}

/// The content of a federation file after the JSON, and the topology that plans are made on.
pub(crate) fn federations(bytes: &[u8]) -> bool {
    let Some(wire) = decoded::<v1::FederationFile>(bytes) else { return false };
    let Some(topology) = taken(convert::file_topology(&wire)) else { return false };
    let _ = taken(convert::taken(&wire, &topology));
    for network in &wire.networks {
        let Some(inner) = &network.inner else { continue };
        let _ = taken(convert::inner_network("networks", &network.paths, inner));
    }
    true
}

/// A resource manager's description of itself.
pub(crate) fn descriptions(bytes: &[u8]) -> bool {
    let Some(wire) = decoded::<v1::DescribeResponse>(bytes) else { return false };
    let name = coalloc_common::RmName::composed("nrm-N");
    convert::topology_of_descriptions([(&name, &wire)]).is_ok()
}

/// From a coordinator to a resource manager that has bookings for it.
pub(crate) fn comparisons(bytes: &[u8]) -> bool {
    let Some(wire) = decoded::<v1::CompareBookingsRequest>(bytes) else { return false };
    let Some((from, theirs)) = taken(convert::compare_from_wire(&wire)) else { return false };
    let answer = convert::compared_to_wire(String::new(), &booked(), &theirs, from..);
    let listed = convert::compared_from_wire(&answer).unwrap();
    assert!(listed.windows(2).all(|pair| pair[0].part < pair[1].part));
    assert!(listed.iter().all(|one| one.part >= from && booked().listed(one.part) == *one));
    true
}

/// From a resource manager to the coordinator that has asked for the comparison.
pub(crate) fn compared(bytes: &[u8]) -> bool {
    let Some(wire) = decoded::<v1::CompareBookingsResponse>(bytes) else { return false };
    let Some(listed) = taken(convert::compared_from_wire(&wire)) else { return false };
    assert!(listed.iter().all(|one| one.part.next() >= one.part));
    true
}

/// From a resource manager to a scheduler's picture.
pub(crate) fn updates(bytes: &[u8]) -> bool {
    let Some(wire) = decoded::<v1::ProfileUpdate>(bytes) else { return false };
    let Some(update) = taken(convert::update_from_wire("update", &wire)) else { return false };
    let again = convert::update_to_wire(&update);
    assert_eq!(convert::update_from_wire("update", &again).as_ref(), Ok(&update));
    let steps: usize = update.parts.iter().map(|part| part.steps.len()).sum();
    assert!(steps <= limits::UPDATE_STEPS_MAX && update.parts.iter().all(Part::is_sound));
    // The update is applied as the first one of a picture, and after a sound one.
    let rm = RmName::composed("nrm-N");
    let now = Now { wall: NOW, boot: BootTime::from_us(0) };
    let mut picture = Picture::default();
    let all = ["N0-N1:ab", "N0-N1:ba"].map(|name| (ResourceId::composed(name), Amount(1_000)));
    picture.expect(&rm, all);
    let _ = picture.merge(&rm, &update, now);
    let sound = convert::update_from_wire("update", &self::update()).unwrap();
    picture.merge(&rm, &sound, now).unwrap();
    let _ = picture.merge(&rm, &update, now);
    for (_, profile) in picture.known(&rm).unwrap().profiles() {
        assert!(profile.steps().iter().all(|(_, free)| free.0 <= 1_000));
        assert!(profile.steps().windows(2).all(|pair| pair[0].0 < pair[1].0));
    }
    true
}

/// From a subscriber to a resource manager.
pub(crate) fn policies(bytes: &[u8]) -> bool {
    let Some(wire) = decoded::<v1::UpdatePolicy>(bytes) else { return false };
    let policy = taken(convert::update_policy_from_wire("policy", &wire));
    let Some(policy) = policy else { return false };
    let again = convert::update_policy_to_wire(policy);
    assert_eq!(convert::update_policy_from_wire("policy", &again), Ok(policy));
    true
}

/// A tip that a coordinator of the domain `grid` has signed, as it was stored by `coalloc audit --evidence`. Its certificate
/// ended after a day; this format stays readable.
pub(crate) fn signed_tip() -> v1::SignedTip {
    serde_json::from_str(include_str!("signed-tip.json")).unwrap()
}

/// The authority of the domain `grid`.
static GRID: LazyLock<Trust> = LazyLock::new(|| {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("grid.pem"), include_str!("signed-tip.pem")).unwrap();
    Trust::read(folder.path()).unwrap()
});

/// From any daemon to an auditor, and again whenever it is read from a file.
pub(crate) fn signed_tips(bytes: &[u8]) -> bool {
    let Some(wire) = decoded::<v1::SignedTip>(bytes) else { return false };
    match tips::verify(&wire, &GRID) {
        Ok(verified) => {
            // Nobody has the key: only what was signed is believed, whatever is around it.
            assert_eq!(wire.statement, signed_tip().statement);
            assert_eq!(verified.statement.identity, verified.signer.identity);
            true
        }
        Err(TipError::Malformed(error)) => {
            is_helpful(&error);
            false
        }
        Err(error) => {
            assert!(!error.to_string().is_empty());
            false
        }
    }
}
