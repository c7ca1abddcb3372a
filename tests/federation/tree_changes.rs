//! What parent coordinators do with their bookings: change them, watch them, and get refusals in their own
//! terms.
//!
//! The tree is that of [`trees`](crate::trees).

use coalloc_proto::v1::{self, BookingState, ReservationState as State};
use tokio_stream::StreamExt as _;

use crate::harness::{Federation, eventually, pair};
use crate::trees::{INNER, LOWER, commit, held, hold, live, nothing_left, prepare, start, whole};

const MBIT: u64 = 1_000_000;

/// The same hold, as a new version of another transaction.
fn replacing(old: &str, order: v1::HoldRequest) -> v1::HoldRequest {
    v1::HoldRequest { replaces: old.to_owned(), ..order }
}

async fn refused(tree: &Federation, order: v1::HoldRequest) -> v1::Refusal {
    match tree.rm("grc-1").hold(order).await.unwrap().into_inner().answer {
        Some(v1::hold_response::Answer::Refused(refusal)) => refusal,
        other => panic!("{other:?}"),
    }
}

/// Everything that all RMs have, sorted: state, resource, amount.
async fn taken(tree: &Federation) -> Vec<(BookingState, String, u64)> {
    let live = live(tree).await;
    let mut taken: Vec<_> = live.into_iter().map(|(_, state, what, n)| (state, what, n)).collect();
    taken.sort_by(|a, b| (&a.1, a.2).cmp(&(&b.1, b.2)));
    taken
}

fn booked(of: &[(&str, u64)]) -> Vec<(BookingState, String, u64)> {
    of.iter().map(|(what, n)| (BookingState::Booked, (*what).to_owned(), *n)).collect()
}

async fn modify(
    tree: &Federation,
    id: &str,
    change: &str,
    request: v1::CoAllocationRequest,
) -> v1::Reservation {
    let request = v1::ModifyRequest {
        id: id.to_owned(),
        change_id: change.to_owned(),
        request: Some(request),
        ..v1::ModifyRequest::default()
    };
    tree.grc().modify(request).await.unwrap().into_inner().reservation.unwrap()
}

fn last(reservation: &v1::Reservation) -> (u32, v1::ChangeState, &v1::Change) {
    let change = reservation.change.as_ref().unwrap();
    (reservation.version, change.state(), change)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reservation_of_two_levels_is_changed_and_a_refused_change_leaves_it_whole() {
    let tree = start("{}").await;
    let first = pair(60, 400, 3_600, 1_800);
    let at = first.earliest_start;
    tree.reserve_confirmed("one", first).await;

    // Longer, with more CPUs and a higher rate: what the reservation has counts as free.
    let new = v1::CoAllocationRequest { earliest_start: at, ..pair(80, 900, 0, 3_600) };
    let changed = modify(&tree, "one", "more", new.clone()).await;
    let (version, state, change) = last(&changed);
    assert_eq!((version, state), (2, v1::ChangeState::Done), "{:?}", change.refusal);
    let more = booked(&[("A", 80), ("A-X", 900 * MBIT), ("B", 80), ("B-X", 900 * MBIT)]);
    assert_eq!(taken(&tree).await, more);
    let ends = |bookings: Vec<v1::Booking>| {
        let segments = bookings.into_iter().flat_map(|booking| booking.segments);
        segments.map(|s| s.window.unwrap().end.unwrap().seconds).collect::<Vec<_>>()
    };
    let end = at.unwrap().seconds + 3_600;
    for rm in INNER {
        assert_eq!(ends(tree.bookings(rm).await), [end], "{rm}");
    }

    // The same change again gets the same answer; a change for too much is refused, and nothing has changed
    // anywhere.
    assert_eq!(last(&modify(&tree, "one", "more", new.clone()).await).0, 2);
    let much = v1::CoAllocationRequest { earliest_start: at, ..pair(101, 900, 0, 3_600) };
    let same = modify(&tree, "one", "too-much", much).await;
    assert_eq!(last(&same).1, v1::ChangeState::Refused, "{same:?}");
    assert_eq!((same.state(), same.version), (State::Confirmed, 2));
    assert_eq!(taken(&tree).await, more);

    // Fewer CPUs, and one site less: nothing of the reservation is left there.
    let mut less = v1::CoAllocationRequest { earliest_start: at, ..pair(5, 900, 0, 3_600) };
    less.links.clear();
    less.sites.truncate(1);
    let changed = modify(&tree, "one", "less", less).await;
    assert_eq!(last(&changed).1, v1::ChangeState::Done, "{changed:?}");
    assert_eq!(taken(&tree).await, booked(&[("A", 5)]));

    let request = v1::ReleaseReservationRequest { id: changed.id, user: String::new() };
    let released = tree.grc().release(request).await.unwrap().into_inner().reservation.unwrap();
    assert_eq!(released.state(), State::Terminated);
    nothing_left(&tree).await;
    for lower in LOWER {
        eventually("nothing is left to say", || async { tree.bookings(lower).await.is_empty() })
            .await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_has_begun_keeps_what_was_and_goes_on_otherwise() {
    let tree = start("{}").await;
    tree.reserve_confirmed("running", pair(10, 100, 0, 1_800)).await;
    let request = v1::CoAllocationRequest { earliest_start: None, ..pair(20, 300, 0, 3_600) };
    let changed = modify(&tree, "running", "c", request).await;
    let (version, state, change) = last(&changed);
    assert_eq!((version, state), (2, v1::ChangeState::Done), "{:?}", change.refusal);
    let parts: Vec<(String, u64)> =
        taken(&tree).await.into_iter().map(|(_, what, amount)| (what, amount)).collect();
    let of = |what: &str, amount| (what.to_owned(), amount);
    let (low, high) = (100 * MBIT, 300 * MBIT);
    assert_eq!(
        parts,
        [
            of("A", 10),
            of("A", 20),
            of("A-X", low),
            of("A-X", high),
            of("B", 10),
            of("B", 20),
            of("B-X", low),
            of("B-X", high),
        ]
    );
    // The windows follow one another without a gap.
    for rm in INNER {
        let bookings = tree.bookings(rm).await;
        let mut windows: Vec<(i64, i64)> = bookings[0]
            .segments
            .iter()
            .map(|segment| {
                let window = segment.window.unwrap();
                (window.start.unwrap().seconds, window.end.unwrap().seconds)
            })
            .collect();
        windows.sort_unstable();
        assert!(windows.len() == 2 && windows[0].1 == windows[1].0, "{rm}: {windows:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_promise_to_change_survives_and_the_old_version_stands_until_the_decision() {
    let mut tree = start("{}").await;
    held(&tree, hold("grc-t-1/1", 10)).await;
    assert_eq!(commit(&tree, "grc-t-1/1").await, None);
    let old = booked(&[("A", 10), ("A-X", 300 * MBIT)]);
    assert_eq!(taken(&tree).await, old);

    held(&tree, replacing("grc-t-1/1", hold("grc-t-1/2", 25))).await;
    // Only one hold at a time may replace a booking; a hold that is dropped leaves the booking unchanged.
    let second = refused(&tree, replacing("grc-t-1/1", hold("grc-t-1/3", 5))).await;
    assert_eq!(second.reason(), v1::Reason::NotHeld, "{second:?}");
    tree.kill("grc-1");
    tree.spawn("grc-1");
    eventually("it is back", || async {
        tree.rm("grc-1")
            .describe(v1::DescribeRequest {})
            .await
            .is_ok_and(|d| !d.into_inner().sites.is_empty())
    })
    .await;
    let during = taken(&tree).await;
    assert!(old.iter().all(|part| during.contains(part)), "the old version stands: {during:?}");
    assert_eq!(commit(&tree, "grc-t-1/2").await, None);
    assert_eq!(taken(&tree).await, booked(&[("A", 25), ("A-X", 300 * MBIT)]));

    let late = refused(&tree, replacing("grc-t-1/1", hold("grc-t-1/4", 5))).await;
    assert_eq!(late.reason(), v1::Reason::Replaced, "{late:?}");
    let list = v1::ListBookingsRequest { include_ended: true, ..Default::default() };
    let list = tree.rm("grc-1").list_bookings(list).await.unwrap().into_inner().bookings;
    let states: Vec<(&str, BookingState)> =
        list.iter().map(|one| (one.transaction.as_str(), one.state())).collect();
    let (refused, replaced) = (BookingState::Refused, BookingState::Replaced);
    let expected = [
        ("grc-t-1/1", replaced),
        ("grc-t-1/2", BookingState::Booked),
        ("grc-t-1/3", refused),
        ("grc-t-1/4", refused),
    ];
    assert_eq!(states, expected);
    assert_eq!(list[1].replaces, "grc-t-1/1");

    // The new version needs nothing any more.
    let empty =
        v1::HoldRequest { segments: Vec::new(), ..replacing("grc-t-1/2", hold("grc-t-1/5", 1)) };
    held(&tree, empty).await;
    assert_eq!(commit(&tree, "grc-t-1/5").await, None);
    nothing_left(&tree).await;
}

/// A hold of these amounts, in an hour.
fn order(txn: &str, wanted: &[(&str, u64)]) -> v1::HoldRequest {
    let mut order = hold(txn, 1);
    let window = order.segments[0].window;
    let segment = |(resource, amount): &(&str, u64)| v1::Segment {
        resource: (*resource).to_owned(),
        amount: *amount,
        window,
        ..v1::Segment::default()
    };
    order.segments = wanted.iter().map(segment).collect();
    order
}

#[tokio::test(flavor = "multi_thread")]
async fn a_refusal_names_what_is_short_of_several_and_how_much_of_it_can_be_had() {
    let mut tree = prepare("{}");
    // A switch becomes a border point, which the parent coordinator sees, so that there are three paths.
    let file = std::fs::read_to_string(tree.dir.path().join("grc-1.yaml")).unwrap();
    let more = file.replace("border_points: [X]", "border_points: [X, switch1]");
    tree.write("grc-1.yaml", &more);
    for name in INNER.iter().chain(&LOWER).chain(&["grc"]) {
        tree.spawn(name);
    }
    whole(&tree).await;
    let (x, switch) = ("grc-1:A--X", "grc-1:A--switch1");
    held(&tree, order("grc-t-61/1", &[(x, 300 * MBIT), (switch, 200 * MBIT)])).await;
    let told = |refusal: &v1::Refusal| {
        let (requested, available) = (refusal.requested.unwrap(), refusal.available.unwrap());
        (refusal.reason(), refusal.resource.clone(), requested, available)
    };
    // 700 of 1000 Mbit/s are left on A-X, 400 of 600 on A-switch1.
    let short = v1::Reason::InsufficientCapacity;
    let wanted = [("A", 100), (x, 650 * MBIT), (switch, 500 * MBIT)];
    // An order's window depends on the second in which it is made, so what is sent again is made once.
    let first = order("grc-t-62/1", &wanted);
    let refusal = refused(&tree, first.clone()).await;
    let expected = (short, switch.to_owned(), 500 * MBIT, 400 * MBIT);
    assert_eq!(told(&refusal), expected, "{refusal:?}");
    let wanted = [("A", 100), (x, 750 * MBIT), (switch, 400 * MBIT)];
    let refusal = refused(&tree, order("grc-t-63/1", &wanted)).await;
    assert_eq!(told(&refusal), (short, x.to_owned(), 750 * MBIT, 700 * MBIT));
    held(&tree, order("grc-t-64/1", &[("A", 70)])).await;
    let wanted = [("A", 31), (x, 100 * MBIT)];
    let refusal = refused(&tree, order("grc-t-65/1", &wanted)).await;
    assert_eq!(told(&refusal), (short, "A".to_owned(), 31, 30), "CPUs are CPUs");
    let refusal = refused(&tree, order("grc-t-66/1", &[(switch, 700 * MBIT)])).await;
    let beyond = v1::Reason::BeyondCapacity;
    // On its own, this path can be routed by X.
    assert_eq!(told(&refusal), (beyond, switch.to_owned(), 700 * MBIT, 600 * MBIT));
    let again = refused(&tree, first).await;
    assert_eq!(told(&again), expected, "I8");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_direction_is_booked_as_it_was_asked_for() {
    let mut tree = prepare("{}");
    // One edge has a capacity for each direction; the directions of the others share theirs.
    let file = std::fs::read_to_string(tree.dir.path().join("nrm-1.yaml")).unwrap();
    let mixed = file.replace("name: A-X,", "name: A-X, full_duplex: true,");
    assert_ne!(file, mixed);
    tree.write("nrm-1.yaml", &mixed);
    for name in INNER.iter().chain(&LOWER).chain(&["grc"]) {
        tree.spawn(name);
    }
    whole(&tree).await;
    held(&tree, order("grc-t-50/1", &[("grc-1:A--X:ba", 700 * MBIT)])).await;
    assert_eq!(commit(&tree, "grc-t-50/1").await, None);
    assert_eq!(taken(&tree).await, booked(&[("A-X:ba", 700 * MBIT)]));
    // The other direction still has its full capacity.
    held(&tree, order("grc-t-51/1", &[("grc-1:A--X:ab", 1_000 * MBIT)])).await;
    assert_eq!(commit(&tree, "grc-t-51/1").await, None);
    let both = booked(&[("A-X:ab", 1_000 * MBIT), ("A-X:ba", 700 * MBIT)]);
    assert_eq!(taken(&tree).await, both);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_level_lets_a_user_of_the_one_above_see_and_take_its_share() {
    let levels = "{}, service_levels: [{name: guests, share_percent: 50, users: [eve]}, \
                  {name: staff, share_percent: 100, users: [alice, anonymous]}]";
    let tree = start(levels).await;
    let free = |user: &'static str, replaces: &'static str| {
        let window = hold("grc-t-90/1", 1).segments[0].window.unwrap();
        let request = v1::QueryAvailabilityRequest {
            frames: vec![window],
            user: user.to_owned(),
            replaces: replaces.to_owned(),
            ..Default::default()
        };
        let mut rm = tree.rm("grc-1");
        async move { rm.query_availability(request).await.unwrap().into_inner().frames[0].free.clone() }
    };
    assert_eq!(free("alice", "").await, [100, 1_000 * MBIT]);
    assert_eq!(free("eve", "").await, [50, 500 * MBIT]);
    assert_eq!(free("stranger", "").await, [50, 500 * MBIT], "the smallest share");
    let by_eve = |order: v1::HoldRequest| v1::HoldRequest { user: "eve".to_owned(), ..order };
    let refusal = refused(&tree, by_eve(order("grc-t-71/1", &[("A", 51)]))).await;
    assert_eq!(refusal.reason(), v1::Reason::ServiceLevel, "{refusal:?}");
    assert_eq!((refusal.requested, refusal.available), (Some(51), Some(50)));
    assert!(refusal.detail.contains("50 %"), "{refusal:?}");
    held(&tree, by_eve(order("grc-t-72/1", &[("A", 50), ("grc-1:A--X", 500 * MBIT)]))).await;
    assert_eq!(commit(&tree, "grc-t-72/1").await, None);
    // This is half of the capacity of the route by the switch.
    assert_eq!(free("eve", "").await, [25, 300 * MBIT]);
    // A service level never takes away what a coordinator already has.
    assert_eq!(free("eve", "grc-t-72/1").await, [50, 500 * MBIT]);
    held(&tree, by_eve(replacing("grc-t-72/1", order("grc-t-73/1", &[("A", 45)])))).await;
    held(&tree, order("grc-t-81/1", &[("A", 50)])).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_parent_sees_and_takes_no_more_than_its_best_level_whichever_user_it_claims() {
    let levels = "{}, service_levels: [{name: staff, share_percent: 100, users: [alice]}, \
                  {name: guests, share_percent: 10, users: [eve]}], \
                  coordinator_levels: [{name: grc, best_percent: 40}]";
    let tree = start(levels).await;
    let free = |user: &'static str| {
        let window = hold("grc-t-90/1", 1).segments[0].window.unwrap();
        let (frames, user) = (vec![window], user.to_owned());
        let request = v1::QueryAvailabilityRequest { frames, user, ..Default::default() };
        let mut rm = tree.rm("grc-1");
        async move { rm.query_availability(request).await.unwrap().into_inner().frames[0].free.clone() }
    };
    assert_eq!(free("alice").await, [40, 400 * MBIT]);
    assert_eq!(free("eve").await, [10, 100 * MBIT]);
    let by =
        |user: &str, order: v1::HoldRequest| v1::HoldRequest { user: user.to_owned(), ..order };
    for amount in [41, 100] {
        let id = format!("grc-t-{amount}/1");
        let refusal = refused(&tree, by("alice", order(&id, &[("A", amount)]))).await;
        assert_eq!(refusal.reason(), v1::Reason::InsufficientCapacity, "{refusal:?}");
        assert_eq!((refusal.requested, refusal.available), (Some(amount), Some(40)));
        assert!(refusal.detail.contains("40 CPUs of the requested"), "{refusal:?}");
    }
    let refusal = refused(&tree, by("eve", order("grc-t-42/1", &[("A", 11)]))).await;
    assert_eq!(refusal.reason(), v1::Reason::ServiceLevel, "{refusal:?}");
    assert_eq!(refusal.available, Some(10));
    held(&tree, by("alice", order("grc-t-43/1", &[("A", 40), ("grc-1:A--X", 400 * MBIT)]))).await;
    assert_eq!(commit(&tree, "grc-t-43/1").await, None);
    assert_eq!(free("alice").await[0], 24);
}

#[tokio::test(flavor = "multi_thread")]
async fn whoever_watches_hears_of_promises_as_of_an_rms_bookings() {
    let tree = start("{}").await;
    let request = v1::WatchBookingsRequest { resume_token: "0".to_owned() };
    let mut stream = tree.rm("grc-1").watch_bookings(request).await.unwrap().into_inner();
    held(&tree, hold("grc-t-1/1", 10)).await;
    assert_eq!(commit(&tree, "grc-t-1/1").await, None);
    held(&tree, replacing("grc-t-1/1", hold("grc-t-1/2", 20))).await;
    assert_eq!(commit(&tree, "grc-t-1/2").await, None);
    refused(&tree, hold("grc-t-91/1", 99)).await;
    held(&tree, hold("grc-t-92/1", 1)).await;
    let end = |transaction: &str| v1::AbortRequest {
        transaction: transaction.to_owned(),
        coordinator: "grc".to_owned(),
        ..v1::AbortRequest::default()
    };
    for transaction in ["grc-t-92/1", "grc-t-93/1"] {
        let mut rm = tree.rm("grc-1");
        assert_eq!(rm.abort(end(transaction)).await.unwrap().into_inner().refused, None);
    }
    let release = v1::ReleaseRequest {
        transaction: "grc-t-1/2".to_owned(),
        coordinator: "grc".to_owned(),
        ..v1::ReleaseRequest::default()
    };
    tree.rm("grc-1").release(release).await.unwrap();
    use BookingState as S;
    let expected = [
        ("grc-t-1/1", S::Held),
        ("grc-t-1/1", S::Booked),
        ("grc-t-1/2", S::Held),
        ("grc-t-1/2", S::Booked),
        ("grc-t-1/1", S::Replaced),
        ("grc-t-91/1", S::Refused),
        ("grc-t-92/1", S::Held),
        ("grc-t-92/1", S::Aborted),
        ("grc-t-93/1", S::Aborted),
        ("grc-t-1/2", S::Released),
    ];
    let mut heard = Vec::new();
    let mut token = String::new();
    while heard.len() < expected.len() {
        let message = stream.next().await.unwrap().unwrap();
        let Some(v1::watch_bookings_response::What::Event(event)) = message.what else { continue };
        let booking = event.booking.unwrap();
        assert_eq!(event.cause, "coordinator grc", "{booking:?}");
        assert_eq!(event.refusal.is_some(), booking.state() == S::Refused);
        if heard.len() == 4 {
            token = event.resume_token;
        }
        heard.push((booking.transaction.clone(), booking.state()));
    }
    let expected: Vec<(String, S)> =
        expected.iter().map(|(txn, state)| ((*txn).to_owned(), *state)).collect();
    assert_eq!(heard, expected);
    // A watch can also resume from where it stopped.
    let request = v1::WatchBookingsRequest { resume_token: token };
    let mut stream = tree.rm("grc-1").watch_bookings(request).await.unwrap().into_inner();
    let next = loop {
        let message = stream.next().await.unwrap().unwrap();
        if let Some(v1::watch_bookings_response::What::Event(event)) = message.what {
            break event.booking.unwrap();
        }
    };
    assert_eq!((next.transaction.as_str(), next.state()), ("grc-t-91/1", S::Refused));
}
