//! The auditor must find every planted mistake.

use super::*;

fn segment(manager: &str, resource: &str, amount: u64, from_s: i64, to_s: i64) -> v1::Segment {
    let at = |seconds| Some(Timestamp { seconds, nanos: 0 });
    v1::Segment {
        resource: resource.into(),
        amount,
        window: Some(v1::Window { start: at(from_s), end: at(to_s) }),
        resource_manager: manager.into(),
    }
}

fn booking(
    transaction: &str,
    state: v1::BookingState,
    mut segments: Vec<v1::Segment>,
) -> v1::Booking {
    for segment in &mut segments {
        segment.resource_manager.clear();
    }
    v1::Booking {
        transaction: transaction.into(),
        state: state.into(),
        segments,
        ..Default::default()
    }
}

fn confirmed(id: &str, segments: Vec<v1::Segment>) -> v1::Reservation {
    v1::Reservation {
        id: id.into(),
        transaction: format!("{id}/1"),
        state: v1::ReservationState::Confirmed.into(),
        definite: true,
        plan: Some(v1::Plan { segments, ..Default::default() }),
        ..Default::default()
    }
}

/// Two reservations of 6 of 8 CPUs, one after the other; the first also has 1 of 5 on a path.
fn world() -> (Vec<Testimony>, Vec<v1::Reservation>) {
    use v1::BookingState::Booked;
    let first = segment("crm-A", "A", 6, 0, 10);
    let path = segment("nrm", "A-B", 1, 0, 10);
    let second = segment("crm-A", "A", 6, 10, 20);
    let crm = Testimony {
        name: "crm-A".into(),
        capacities: [("A".to_owned(), 8)].into(),
        bookings: vec![
            booking("r1/1", Booked, vec![first.clone()]),
            booking("r2/1", Booked, vec![second.clone()]),
        ],
        ..Testimony::default()
    };
    let nrm = Testimony {
        name: "nrm".into(),
        capacities: [("A-B".to_owned(), 5)].into(),
        bookings: vec![booking("r1/1", Booked, vec![path.clone()])],
        ..Testimony::default()
    };
    let failed = v1::Reservation {
        id: "r3".into(),
        transaction: "r3/1".into(),
        state: v1::ReservationState::Failed.into(),
        ..Default::default()
    };
    let reservations =
        vec![confirmed("r1", vec![first, path]), confirmed("r2", vec![second]), failed];
    (vec![crm, nrm], reservations)
}

fn said(check: &Check) -> Vec<String> {
    check.violations.iter().map(ToString::to_string).collect()
}

fn passed(testimonies: &[Testimony], reservations: &[v1::Reservation]) -> Vec<bool> {
    audit(testimonies, reservations).iter().map(|check| check.passed).collect()
}

#[test]
fn a_clean_federation_passes_with_its_numbers() {
    let (testimonies, reservations) = world();
    let checks = audit(&testimonies, &reservations);
    let sentences: Vec<&str> = checks.iter().map(|check| check.sentence.as_str()).collect();
    assert_eq!(
        sentences,
        [
            "nothing overbooked: 2 timetables, 3 bookings, 5 instants checked; fullest: A at 75 %",
            "every confirmed reservation is booked as promised: 2 reservations, 3 segments at 2 \
             resource managers",
            "nothing else is booked: 3 bookings, each of them confirmed",
            "nothing is half booked: 2 transactions that are booked, 0 that have ended somewhere",
            "no hold is left: 2 resource managers asked",
        ]
    );
    assert!(checks.iter().all(|check| check.passed));
}

#[test]
fn planted_overbooking_is_found_even_between_a_hold_and_a_booking() {
    let (mut testimonies, reservations) = world();
    // 6 + 3 of 8 CPUs are taken from 9 to 10 only; neither alone is too much.
    let hold = booking("r4/1", v1::BookingState::Held, vec![segment("", "A", 3, 9, 10)]);
    testimonies[0].bookings.push(hold);
    let checks = audit(&testimonies, &reservations);
    assert_eq!(
        said(&checks[0]),
        ["I1 r1/1, r4/1 at crm-A: expected at most 8 of A taken at 1970-01-01T00:00:09Z; found 9 \
             taken"]
    );
    assert!(!checks[4].passed, "and a hold is left");
}

#[test]
fn a_booking_that_is_missing_or_differs_is_found() {
    let (mut testimonies, reservations) = world();
    testimonies[1].bookings.clear();
    let checks = audit(&testimonies, &reservations);
    assert_eq!(
        said(&checks[1]),
        ["I6 r1/1 at nrm: expected booked, because it is confirmed: 1 of A-B from \
             1970-01-01T00:00:00Z to 1970-01-01T00:00:10Z; found nothing of this transaction"]
    );
    let spoil: [fn(&mut v1::Segment); 3] = [
        |segment| segment.amount = 5,
        |segment| segment.resource = "B".into(),
        |segment| segment.window = segment_window(0, 9),
    ];
    for spoil in spoil {
        let (mut testimonies, reservations) = world();
        testimonies[0].capacities.insert("B".into(), 8);
        spoil(&mut testimonies[0].bookings[0].segments[0]);
        assert_eq!(passed(&testimonies, &reservations), [true, false, true, true, true]);
    }
    let (mut testimonies, reservations) = world();
    testimonies[0].bookings[0].state = v1::BookingState::Held.into();
    assert_eq!(passed(&testimonies, &reservations), [true, false, true, true, false]);
}

fn segment_window(from_s: i64, to_s: i64) -> Option<v1::Window> {
    segment("", "", 1, from_s, to_s).window
}

#[test]
fn a_booking_that_nobody_was_promised_is_found() {
    let (testimonies, mut reservations) = world();
    reservations[1].state = v1::ReservationState::Failed.into();
    let checks = audit(&testimonies, &reservations);
    assert_eq!(
        said(&checks[2]),
        ["I6 r2/1 at crm-A: expected nothing booked, because no confirmed reservation of its \
             coordinator books it there; found booked: 6 of A from 1970-01-01T00:00:10Z to \
             1970-01-01T00:00:20Z"]
    );
    // A confirmed reservation may not be booked where its plan has nothing either.
    let (mut testimonies, reservations) = world();
    let stray = booking("r2/1", v1::BookingState::Booked, vec![segment("", "A-B", 1, 10, 20)]);
    testimonies[1].bookings.push(stray);
    assert_eq!(passed(&testimonies, &reservations), [true, true, false, true, true]);
}

#[test]
fn a_booking_of_which_another_manager_has_ended_its_part_is_found() {
    use v1::BookingState as B;
    for end in [B::Released, B::Aborted, B::Expired, B::Refused, B::Replaced] {
        let (mut testimonies, reservations) = world();
        let part = testimonies[1].bookings.remove(0);
        testimonies[1].ended.push(v1::Booking { state: end.into(), ..part });
        let checks = audit(&testimonies, &reservations);
        assert!(!checks[1].passed && !checks[3].passed);
        let [violation] = &checks[3].violations[..] else { panic!("{checks:?}") };
        assert_eq!((violation.invariant, violation.manager.as_str()), ("I5", "crm-A"));
        assert!(violation.found.ends_with(" at nrm"), "{violation}");
    }
}

#[test]
fn what_is_of_a_coordinator_that_was_not_asked_is_not_judged_and_one_that_is_over_may_be_gone() {
    let (mut testimonies, mut reservations) = world();
    let names = ["grc"].into();
    let mut stray = booking("x/1", v1::BookingState::Booked, vec![segment("", "A", 1, 0, 1)]);
    stray.coordinator = "other".into();
    testimonies[0].bookings.push(stray);
    for booking in testimonies.iter_mut().flat_map(|one| &mut one.bookings) {
        if booking.coordinator.is_empty() {
            booking.coordinator = "grc".into();
        }
    }
    let check = |reservations: &[v1::Reservation], testimonies: &[Testimony]| {
        nothing_else_booked(testimonies, &promised(reservations), Some(&names))
    };
    assert!(check(&reservations, &testimonies).passed);
    reservations[1].state = v1::ReservationState::PassedEndTime.into();
    assert!(check(&reservations, &testimonies).passed);
    assert!(confirmed_is_booked(&testimonies, &promised(&reservations)).passed);
    reservations[1].state = v1::ReservationState::Terminated.into();
    assert!(!check(&reservations, &testimonies).passed);
}

#[test]
fn an_outcome_that_is_not_final_is_found() {
    let (_, mut reservations) = world();
    assert_eq!(said(&all_have_ended(&reservations)).len(), 1, "r3 is not marked final");
    reservations[2].definite = true;
    assert!(all_have_ended(&reservations).passed);
    reservations[0].definite = false;
    let found = said(&all_have_ended(&reservations));
    assert_eq!(
        found,
        ["I22 r1/1: expected an outcome that is final; found r1 confirmed, not final"]
    );
}

#[test]
fn a_hold_that_is_left_is_found() {
    let (mut testimonies, reservations) = world();
    let hold = booking("r3/1", v1::BookingState::Held, vec![segment("", "A", 1, 0, 5)]);
    testimonies[0].bookings.push(hold);
    let checks = audit(&testimonies, &reservations);
    assert_eq!(
        said(&checks[4]),
        ["I7 r3/1 at crm-A: expected no hold at rest; found held: 1 of A from \
             1970-01-01T00:00:00Z to 1970-01-01T00:00:05Z"]
    );
}

#[test]
fn what_cannot_be_counted_is_a_fault() {
    let (mut testimonies, reservations) = world();
    let bookings = &mut testimonies[0].bookings;
    let reversed = booking("x/1", v1::BookingState::Booked, vec![segment("", "Z", 1, 1, 0)]);
    let timeless = v1::Segment { resource: "A".into(), amount: 1, ..Default::default() };
    bookings.push(reversed);
    bookings.push(booking("y/1", v1::BookingState::Booked, vec![timeless]));
    assert_eq!(audit(&testimonies, &reservations)[0].violations.len(), 2);
    let empty = vec![confirmed("r9", Vec::new())];
    assert_eq!(passed(&[], &empty), [true, false, true, true, true]);
}

#[test]
fn what_is_booked_of_equipment_that_was_taken_away_is_said_and_is_no_overbooking() {
    let (mut testimonies, reservations) = world();
    // The CRM was restarted without A; the bookings of A that were promised stay.
    testimonies[0].capacities = [("A2".to_owned(), 8)].into();
    let checks = audit(&testimonies, &reservations);
    assert!(checks.iter().all(|check| check.passed), "{checks:?}");
    let told = "equipment that was taken away: A at crm-A, still booked until \
                1970-01-01T00:00:20Z by r1/1, r2/1";
    assert!(checks[0].sentence.ends_with(told), "{}", checks[0].sentence);
    // A booking of missing equipment that was promised to nobody is still found.
    let stray = booking("x/1", v1::BookingState::Booked, vec![segment("", "Z", 1, 0, 1)]);
    testimonies[0].bookings.push(stray);
    assert_eq!(passed(&testimonies, &reservations), [true, true, false, true, true]);
}

/// What is heard of a tree.
struct Tree {
    testimonies: Vec<Testimony>,
    lower: Vec<Lower>,
    reservations: Vec<v1::Reservation>,
}

/// The same as one domain of a tree.
///
/// The domain's coordinator has promised it to its parent coordinator, with one path that takes two paths
/// inside.
fn tree() -> Tree {
    use v1::BookingState::Booked;
    let inner = [
        segment("crm-A", "A", 6, 0, 10),
        segment("nrm", "A-b", 1, 0, 10),
        segment("nrm", "b-X", 1, 0, 10),
    ];
    let outer = vec![segment("grc-1", "A", 6, 0, 10), segment("grc-1", "grc-1:A--X", 1, 0, 10)];
    let ends = |name: &str, a: &str, b: &str| (name.to_owned(), [a.to_owned(), b.to_owned()]);
    let crm = Testimony {
        name: "crm-A".into(),
        capacities: [("A".to_owned(), 8)].into(),
        bookings: vec![booking("grc-1-1/1", Booked, vec![inner[0].clone()])],
        ..Testimony::default()
    };
    let nrm = Testimony {
        name: "nrm".into(),
        capacities: [("A-b".to_owned(), 5), ("b-X".to_owned(), 5)].into(),
        ends: [ends("A-b", "A", "b"), ends("b-X", "b", "X")].into(),
        bookings: vec![booking("grc-1-1/1", Booked, inner[1..].to_vec())],
        ..Testimony::default()
    };
    let testimony = Testimony {
        name: "grc-1".into(),
        capacities: [("A".to_owned(), 8), ("grc-1:A--X".to_owned(), 5)].into(),
        ends: [ends("grc-1:A--X", "A", "X")].into(),
        bookings: vec![booking("r1/1", Booked, outer.clone())],
        ..Testimony::default()
    };
    let reservations =
        vec![v1::Reservation { request_id: "r1/1".into(), ..confirmed("grc-1-1", inner.to_vec()) }];
    Tree {
        testimonies: vec![crm, nrm],
        lower: vec![Lower { testimony, reservations }],
        reservations: vec![confirmed("r1", outer)],
    }
}

/// The checks of a tree that fail, by their positions.
fn failing(tree: &Tree) -> Vec<usize> {
    let checks = audit_tree(&tree.testimonies, &tree.lower, &tree.reservations);
    (0..checks.len()).filter(|at| !checks[*at].passed).collect()
}

#[test]
fn a_clean_tree_passes_on_both_levels() {
    let tree = tree();
    assert_eq!(failing(&tree), [0; 0]);
    let checks = audit_tree(&tree.testimonies, &tree.lower, &tree.reservations);
    assert_eq!(
        checks[5].sentence,
        "every promise of a child coordinator is kept: 1 promises of 1 coordinators, 3 sites and \
         end points compared"
    );
}

#[test]
fn what_is_promised_above_and_not_booked_below_is_found() {
    // The child coordinator and its NRM agree with each other, but not with the promise.
    let mut thin = tree();
    thin.lower[0].reservations[0].plan.as_mut().unwrap().segments[1].amount = 0;
    thin.testimonies[1].bookings[0].segments[0].amount = 0;
    assert_eq!(failing(&thin), [5]);
    let mut few = tree();
    few.lower[0].reservations[0].plan.as_mut().unwrap().segments[0].amount = 5;
    few.testimonies[0].bookings[0].segments[0].amount = 5;
    assert_eq!(failing(&few), [5]);
    let mut forgotten = tree();
    forgotten.lower[0].reservations.clear();
    assert_eq!(failing(&forgotten), [4, 5], "booked for nobody");
    let mut unknown = tree();
    unknown.reservations.clear();
    assert_eq!(failing(&unknown), [2], "promised to nobody");
    let mut lost = tree();
    lost.lower[0].testimony.bookings.clear();
    assert_eq!(failing(&lost), [1]);
    let mut held = tree();
    held.lower[0].testimony.bookings[0].state = v1::BookingState::Held.into();
    assert_eq!(failing(&held), [1, 7]);
}
