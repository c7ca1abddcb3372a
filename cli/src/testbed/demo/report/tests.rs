//! What people and programs see of a small demo.

use super::*;
use crate::kit::gantt::BLOCKS;
use crate::testbed::audit::rules::audit;
use crate::testbed::demo::workload::arrivals;

const DAY: Time = Time::from_us(1_795_334_400_000_000); // 2026-11-22T08:00:00Z

/// Three requests: two confirmed on one site and one path, one refused.
fn report() -> Report {
    let arrivals = arrivals(1, 3, DAY, Type4::Ring);
    let segment = |manager: &str, resource: &str, amount| v1::Segment {
        resource: resource.into(),
        amount,
        window: Window::starting(DAY, Span::from_secs(3_600)).map(window_to_wire),
        resource_manager: manager.into(),
    };
    let confirmed = |number: usize| v1::Reservation {
        id: format!("grc-{number}"),
        user: arrivals[number].request.user.clone(),
        state: v1::ReservationState::Confirmed.into(),
        definite: true,
        attempts: 1,
        transaction: format!("grc-{number}/1"),
        plan: Some(v1::Plan {
            window: Window::starting(DAY, Span::from_secs(3_600)).map(window_to_wire),
            placements: vec![v1::Placement {
                site: "a".into(),
                at: "N0".into(),
                cpus: 4,
                ..Default::default()
            }],
            routes: vec![v1::Route {
                paths: vec!["N0-X1".into(), "S0-X1".into()],
                ..Default::default()
            }],
            segments: vec![segment("crm-N0", "N0", 4), segment("nrm-N", "N0-X1", 1_000)],
            cost_millipoints: 14_500,
            ..Default::default()
        }),
        ..Default::default()
    };
    let refused = v1::Reservation {
        state: v1::ReservationState::Failed.into(),
        definite: true,
        refusal: Some(v1::Refusal {
            detail: "no site has 8 CPUs free".into(),
            ..Default::default()
        }),
        ..Default::default()
    };
    let booking = |number: usize, segment: v1::Segment| v1::Booking {
        transaction: format!("grc-{number}/1"),
        state: v1::BookingState::Booked.into(),
        segments: vec![segment],
        ..Default::default()
    };
    let testimony = |name: &str, resource: &str, capacity, amount| Testimony {
        name: name.into(),
        capacities: [(resource.to_owned(), capacity)].into(),
        bookings: [0, 2].map(|number| booking(number, segment("", resource, amount))).into(),
        ..Testimony::default()
    };
    let testimonies =
        vec![testimony("crm-N0", "N0", 8, 4), testimony("nrm-N", "N0-X1", 10_000, 1_000)];
    let reservations = vec![confirmed(0), refused, confirmed(2)];
    let checks = audit(&testimonies, &reservations);
    let (federation, type4) = ("elgl".into(), Type4::Ring);
    Report {
        federation,
        seed: 1,
        type4,
        day: DAY,
        arrivals,
        reservations,
        coordinators: vec!["grc".into()],
        lower: 0,
        testimonies,
        checks,
    }
}

#[test]
fn people_see_table_chart_ratios_and_proof() {
    let text = report().text(BLOCKS);
    let expected = [
        "3 requests of seed 1, for 2026-11-22 08:00 to 2026-11-23 08:00 UTC",
        "08:00-09:00  N0     N0-X1+S0-X1  14.5",
        "no site has 8 CPUs free",
        "N0    |███",
        "100 %",
        "together 2 of 3 (0.667)",
        "The proof holds; read back from 2 resource managers:",
        "  ok    nothing overbooked: 2 timetables, 4 bookings, 4 instants checked; \
         fullest: N0 at 100 %",
    ];
    for part in expected {
        assert!(text.contains(part), "{part:?} is missing in\n{text}");
    }
}

#[test]
fn a_failed_proof_cannot_be_overlooked() {
    let mut report = report();
    report.testimonies[0].capacities.insert("N0".into(), 7);
    report.checks = audit(&report.testimonies, &report.reservations);
    assert!(!report.proven());
    let text = report.text(BLOCKS);
    assert!(text.contains("The proof FAILS"), "{text}");
    assert!(text.contains("FAIL  nothing overbooked"), "{text}");
    assert!(
        text.contains(
            "at crm-N0: expected at most 7 of N0 taken at 2026-11-22T08:00:00Z; found 8 taken"
        ),
        "{text}"
    );
}

#[test]
fn programs_get_messages_of_the_schema() {
    let json: Value = serde_json::from_str(&report().json().unwrap()).unwrap();
    assert_eq!(json["proven"], true);
    assert_eq!(json["success"]["all"], json!({"confirmed": 2, "requests": 3}));
    let day: v1::Window = serde_json::from_value(json["day"].clone()).unwrap();
    assert_eq!(text::time(day.start.as_ref()), Some(DAY));
    let round = &json["rounds"][0];
    let reservation: v1::Reservation =
        serde_json::from_value(round["reservation"].clone()).unwrap();
    assert_eq!(reservation.id, "grc-0");
    let request: v1::CoAllocationRequest =
        serde_json::from_value(round["request"].clone()).unwrap();
    assert_eq!(request.user, reservation.user);
}

#[test]
fn coordinators_that_compete_are_told_apart() {
    let mut report = report();
    assert!(!report.text(BLOCKS).contains("By coordinator"));
    report.coordinators = vec!["grc-1".into(), "grc-2".into()];
    report.reservations[2].attempts = 3;
    let text = report.text(BLOCKS);
    let row = |name: &str| {
        let line =
            text.lines().find(|line| line.trim_start().starts_with(name)).unwrap_or_default();
        line.split_whitespace().map(str::to_owned).collect::<Vec<_>>()
    };
    assert_eq!(row("grc-1"), ["grc-1", "2", "of", "2", "(1.000)", "1", "1", "0", "3"]);
    assert_eq!(row("grc-2")[..5], ["grc-2", "0", "of", "1", "(0.000)"]);
    assert!(text.contains("1 request took more than one attempt"), "{text}");
}
