//! What clients were told, compared with daemons in which a mistake is planted.

use super::*;
use crate::testbed::audit::journal::ReportedSegment;
use coalloc_proto::Timestamp;

fn segment(amount: u64) -> v1::Segment {
    let at = |seconds| Some(Timestamp { seconds, nanos: 0 });
    v1::Segment {
        resource: "A".into(),
        amount,
        window: Some(v1::Window { start: at(0), end: at(10) }),
        resource_manager: "crm-A".into(),
    }
}

fn reservation(state: State, version: u32, amount: u64) -> v1::Reservation {
    v1::Reservation {
        id: "g-1".into(),
        request_id: "r1".into(),
        state: state.into(),
        definite: true,
        version,
        transaction: format!("g-1/{version}"),
        plan: Some(v1::Plan { segments: vec![segment(amount)], ..Default::default() }),
        ..Default::default()
    }
}

/// What one resource manager has of the reservation: state, version and amount.
fn testimony(booked: &[(v1::BookingState, u32, u64)]) -> Vec<Testimony> {
    let bookings = booked.iter().map(|(state, version, amount)| v1::Booking {
        transaction: format!("g-1/{version}"),
        state: (*state).into(),
        segments: vec![segment(*amount)],
        ..Default::default()
    });
    let capacities = [("A".to_owned(), 100)].into();
    vec![Testimony {
        name: "crm-A".into(),
        capacities,
        bookings: bookings.collect(),
        ..Testimony::default()
    }]
}

fn line(kind: Kind, said: CallKnowledge, version: u32, amount: u64) -> Entry {
    let change = if kind == Kind::Modify { "c1" } else { "" };
    let told = ReportedSegment {
        resource_manager: "crm-A".into(),
        resource: "A".into(),
        amount,
        start_us: 0,
        end_us: 10_000_000,
    };
    let mut entry = Entry::asked("g", "r1", kind, change).ended(said);
    if said != CallKnowledge::Asked && said != CallKnowledge::Lost {
        entry.reservation = "g-1".into();
        entry.transaction = format!("g-1/{version}");
        entry.version = version;
    }
    if matches!(said, CallKnowledge::Confirmed | CallKnowledge::Changed) {
        entry.segments = vec![told];
    }
    entry
}

/// The invariants that are violated.
fn violated(
    lines: &[(Kind, CallKnowledge, u32, u64)],
    now: Option<v1::Reservation>,
    booked: &[(v1::BookingState, u32, u64)],
) -> Vec<&'static str> {
    let entries: Vec<Entry> = lines
        .iter()
        .map(|(kind, said, version, amount)| line(*kind, *said, *version, *amount))
        .collect();
    let reservations: Vec<v1::Reservation> = now.into_iter().collect();
    let kept = [("g", &reservations[..])].into();
    let check = all_is_as_reported(&entries, &testimony(booked), &kept);
    check.violations.iter().map(|violation| violation.invariant).collect()
}

use Kind::{Modify, Release, Reserve};
use v1::BookingState::Booked;
const ASKED: (Kind, CallKnowledge, u32, u64) = (Reserve, CallKnowledge::Asked, 0, 0);
const CONFIRMED: (Kind, CallKnowledge, u32, u64) = (Reserve, CallKnowledge::Confirmed, 1, 4);
const CHANGE: (Kind, CallKnowledge, u32, u64) = (Modify, CallKnowledge::Asked, 0, 0);
const RELEASE: (Kind, CallKnowledge, u32, u64) = (Release, CallKnowledge::Asked, 0, 0);
const RELEASED: (Kind, CallKnowledge, u32, u64) = (Release, CallKnowledge::Released, 1, 0);
const NOTHING: [&str; 0] = [];

#[test]
fn what_was_told_and_is_so_passes() {
    let confirmed = Some(reservation(State::Confirmed, 1, 4));
    assert_eq!(violated(&[ASKED, CONFIRMED], confirmed, &[(Booked, 1, 4)]), NOTHING);
    let changed = (Modify, CallKnowledge::Changed, 2, 6);
    let second = Some(reservation(State::Confirmed, 2, 6));
    let lines = [ASKED, CONFIRMED, CHANGE, changed];
    assert_eq!(violated(&lines, second.clone(), &[(Booked, 2, 6)]), NOTHING);
    let terminated = Some(reservation(State::Terminated, 1, 4));
    assert_eq!(violated(&[ASKED, CONFIRMED, RELEASE, RELEASED], terminated, &[]), NOTHING);
    let refused = (Reserve, CallKnowledge::Refused, 0, 0);
    assert_eq!(violated(&[ASKED, refused], Some(reservation(State::Failed, 0, 4)), &[]), NOTHING);
    // A client that was told nothing may get any complete outcome.
    let lost = (Modify, CallKnowledge::Lost, 0, 0);
    for (now, booked) in
        [(second, (Booked, 2, 6)), (Some(reservation(State::Confirmed, 1, 4)), (Booked, 1, 4))]
    {
        assert_eq!(violated(&[ASKED, CONFIRMED, CHANGE, lost], now, &[booked]), NOTHING);
    }
    for now in [None, Some(reservation(State::Failed, 0, 4))] {
        assert_eq!(violated(&[ASKED, (Reserve, CallKnowledge::Lost, 0, 0)], now, &[]), NOTHING);
    }
    let confirmed = Some(reservation(State::Confirmed, 1, 4));
    assert_eq!(violated(&[ASKED], confirmed, &[(Booked, 1, 4)]), NOTHING);
}

#[test]
fn what_was_confirmed_must_be_booked_exactly() {
    let lines = [ASKED, CONFIRMED];
    let confirmed = || Some(reservation(State::Confirmed, 1, 4));
    assert_eq!(violated(&lines, confirmed(), &[]), ["I6"], "booked nowhere");
    assert_eq!(violated(&lines, confirmed(), &[(Booked, 1, 5)]), ["I6"], "more than was told");
    assert_eq!(
        violated(&lines, None, &[(Booked, 1, 4)]),
        ["I6"],
        "the coordinator has forgotten it"
    );
    // The coordinator and the resource manager agree with each other, but not with what the client was told.
    let other = Some(reservation(State::Confirmed, 1, 5));
    assert_eq!(violated(&lines, other, &[(Booked, 1, 5)]), ["I8", "I6"]);
    let terminated = || Some(reservation(State::Terminated, 1, 4));
    assert_eq!(violated(&lines, terminated(), &[]), ["I6", "I6"], "nobody has released it");
    let second = Some(reservation(State::Confirmed, 2, 6));
    assert_eq!(violated(&lines, second, &[(Booked, 2, 6)]), ["I6"], "nobody has changed it");
    let failed = Some(reservation(State::Failed, 1, 4));
    assert_eq!(violated(&[ASKED, CONFIRMED, RELEASE], failed, &[]), ["I6", "I6"]);
}

#[test]
fn what_was_told_to_be_nowhere_must_be_nowhere() {
    let lines = [ASKED, CONFIRMED, RELEASE, RELEASED];
    let terminated = Some(reservation(State::Terminated, 1, 4));
    assert_eq!(violated(&lines, terminated, &[(Booked, 1, 4)]), ["I6"]);
    let confirmed = Some(reservation(State::Confirmed, 1, 4));
    assert_eq!(violated(&lines, confirmed, &[(Booked, 1, 4)]), ["I6", "I6"]);
    let refused = [ASKED, (Reserve, CallKnowledge::Refused, 1, 0)];
    let held = [(v1::BookingState::Held, 1, 4)];
    assert_eq!(violated(&refused, Some(reservation(State::Failed, 1, 4)), &held), ["I6"]);
    assert_eq!(violated(&refused, None, &[]), ["I6"], "its answer is kept for ever");
    let acknowledged = [ASKED, CONFIRMED, RELEASE, (Release, CallKnowledge::Indefinite, 1, 0)];
    let confirmed = Some(reservation(State::Confirmed, 1, 4));
    assert_eq!(violated(&acknowledged, confirmed, &[(Booked, 1, 4)]), ["I6"]);
}

#[test]
fn a_client_may_not_be_told_two_things() {
    let other = (Reserve, CallKnowledge::Confirmed, 1, 5);
    let now = Some(reservation(State::Confirmed, 1, 5));
    assert_eq!(violated(&[ASKED, CONFIRMED, ASKED, other], now, &[(Booked, 1, 5)]), ["I8"]);
    let refused = (Reserve, CallKnowledge::Refused, 1, 0);
    let now = || Some(reservation(State::Failed, 1, 4));
    assert_eq!(violated(&[ASKED, CONFIRMED, ASKED, refused], now(), &[]), ["I8"]);
    assert_eq!(violated(&[ASKED, refused, ASKED, CONFIRMED], now(), &[]), ["I8"]);
    // A rejected call has caused nothing, so nothing may be booked.
    let rejected = (Reserve, CallKnowledge::Rejected, 0, 0);
    let confirmed = Some(reservation(State::Confirmed, 1, 4));
    assert_eq!(violated(&[ASKED, rejected], confirmed, &[(Booked, 1, 4)]), ["I6"]);
}

#[test]
fn a_mixed_outcome_that_is_recorded_may_end_a_change() {
    let mixed = || v1::Reservation {
        refusal: Some(v1::Refusal { reason: v1::Reason::Mixed.into(), ..Default::default() }),
        ..reservation(State::Failed, 1, 4)
    };
    let lost = (Modify, CallKnowledge::Lost, 0, 0);
    assert_eq!(violated(&[ASKED, CONFIRMED, CHANGE, lost], Some(mixed()), &[]), NOTHING);
    assert_eq!(violated(&[ASKED, CONFIRMED], Some(mixed()), &[]), ["I6", "I6"]);
    // A rejected change has caused nothing either.
    let rejected = (Modify, CallKnowledge::Rejected, 0, 0);
    let all = [ASKED, CONFIRMED, CHANGE, rejected];
    assert_eq!(violated(&all, Some(mixed()), &[]), ["I6", "I6"]);
}

#[test]
fn requests_of_two_coordinators_are_told_apart() {
    let entries =
        [line(Reserve, CallKnowledge::Asked, 0, 0), line(Reserve, CallKnowledge::Confirmed, 1, 4)];
    let (own, other) = ([reservation(State::Confirmed, 1, 4)], [reservation(State::Failed, 1, 4)]);
    let kept: Kept<'_> = [("g", &own[..]), ("h", &other[..])].into();
    assert!(all_is_as_reported(&entries, &testimony(&[(Booked, 1, 4)]), &kept).passed);
    let nameless = entries.map(|entry| Entry { grc: String::new(), ..entry });
    assert!(!all_is_as_reported(&nameless, &testimony(&[(Booked, 1, 4)]), &kept).passed);
}
