//! The rules: checks the reports of the daemons, by an auditor that shares no code with them.
//!
//! The auditor knows only the public messages. It sweeps naively: it adds up everything that begins or
//! ends, in the order of time. It deliberately does not use `common::timetable`, which the resource
//! managers count with, because a mistake there would then hide itself.

use std::collections::{BTreeMap, BTreeSet};

use coalloc_proto::{Timestamp, v1};

use super::testimony::{Lower, Testimony, is_live};
use super::violation::{Check, Violation};

/// Makes all checks: nothing is overbooked, everything confirmed is booked exactly, nothing else is booked,
/// nothing is half booked, no hold is left, and every server has one holder.
#[must_use]
pub fn audit(testimonies: &[Testimony], reservations: &[v1::Reservation]) -> Vec<Check> {
    let promised = promised(reservations);
    let mut checks = vec![
        nothing_overbooked(testimonies),
        confirmed_is_booked(testimonies, &promised),
        nothing_else_booked(testimonies, &promised, None),
        nothing_half_booked(testimonies),
        no_hold_left(testimonies),
    ];
    checks.extend(one_holder(testimonies, reservations));
    checks
}

/// An amount of a resource in a window, in microseconds since 1970.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Piece {
    pub(crate) resource: String,
    pub(crate) start: i128,
    pub(crate) end: i128,
    pub(crate) amount: u64,
}

impl Piece {
    /// Returns `None` when the window is missing.
    pub(crate) fn of(segment: &v1::Segment) -> Option<Self> {
        let window = segment.window.as_ref()?;
        Some(Self {
            resource: segment.resource.clone(),
            start: microseconds(window.start.as_ref()?),
            end: microseconds(window.end.as_ref()?),
            amount: segment.amount,
        })
    }

    fn covers(&self, instant: i128) -> bool {
        self.start <= instant && instant < self.end
    }

    fn sentence(&self) -> String {
        let Self { resource, start, end, amount } = self;
        format!("{amount} of {resource} from {} to {}", time(*start), time(*end))
    }
}

/// A sentence for people about several pieces.
pub(crate) fn sentence(pieces: &[Piece]) -> String {
    if pieces.is_empty() {
        return "nothing".to_owned();
    }
    pieces.iter().map(Piece::sentence).collect::<Vec<_>>().join(" and ")
}

fn microseconds(time: &Timestamp) -> i128 {
    i128::from(time.seconds) * 1_000_000 + i128::from(time.nanos) / 1_000
}

fn time(instant: i128) -> String {
    let time = i64::try_from(instant).map(coalloc_common::Time::from_us);
    time.map_or_else(|_| "no instant of a calendar".into(), |time| time.to_string())
}

fn is_booked(booking: &v1::Booking) -> bool {
    booking.state() == v1::BookingState::Booked
}

/// The fullest instant of one timetable.
struct FullestInstant<'a> {
    resource: &'a str,
    total: u128,
    capacity: u64,
}

impl FullestInstant<'_> {
    /// Is this instant fuller than the other, as a share of its capacity?
    fn above(&self, other: &Self) -> bool {
        self.total * u128::from(other.capacity) > other.total * u128::from(self.capacity)
    }
}

/// I1: held + booked <= capacity at every instant.
pub(super) fn nothing_overbooked(testimonies: &[Testimony]) -> Check {
    let (mut found, mut timetables, mut bookings, mut instants) = (Vec::new(), 0, 0, 0);
    let mut fullest: Option<FullestInstant<'_>> = None;
    let mut gone = Vec::new();
    for testimony in testimonies {
        let Live { pieces, retired, malformed } = live_pieces(testimony);
        found.extend(malformed);
        gone.extend(retired_sentence(&testimony.name, &retired));
        bookings += testimony.bookings.iter().filter(|booking| is_live(booking)).count();
        for (resource, capacity) in &testimony.capacities {
            let mine: Vec<&(String, Piece)> =
                pieces.iter().filter(|(_, piece)| piece.resource == *resource).collect();
            timetables += 1;
            // The amounts that begin and that end at each instant. A window is half open, so both count at
            // its ends.
            let mut changes: BTreeMap<i128, (u128, u128)> = BTreeMap::new();
            for (_, piece) in &mine {
                changes.entry(piece.start).or_default().0 += u128::from(piece.amount);
                changes.entry(piece.end).or_default().1 += u128::from(piece.amount);
            }
            instants += changes.len();
            let mut total = 0;
            for (instant, (begins, ends)) in changes {
                // This never falls below zero: what ends has begun before, because no window here is reversed.
                total = (total + begins).saturating_sub(ends);
                if total > u128::from(*capacity) {
                    let who = mine.iter().filter(|(_, piece)| piece.covers(instant));
                    let who: Vec<&str> = who.map(|(txn, _)| txn.as_str()).collect();
                    found.push(Violation::new(
                        "I1",
                        &who.join(", "),
                        &testimony.name,
                        format!("at most {capacity} of {resource} taken at {}", time(instant)),
                        format!("{total} taken"),
                    ));
                }
                let here = FullestInstant { resource, total, capacity: *capacity };
                if fullest.as_ref().is_none_or(|before| here.above(before)) {
                    fullest = Some(here);
                }
            }
        }
    }
    let fullest = fullest.filter(|fullest| fullest.total > 0).map_or_else(
        || "nothing is taken".to_owned(),
        |FullestInstant { resource, total, capacity }| {
            format!("fullest: {resource} at {} %", total * 100 / u128::from(capacity.max(1)))
        },
    );
    let mut sentence = format!(
        "nothing overbooked: {timetables} timetables, {bookings} bookings, {instants} instants \
         checked; {fullest}"
    );
    if !gone.is_empty() {
        sentence += &format!("; equipment that was taken away: {}", gone.join(", "));
    }
    Check::new("I1", found, sentence)
}

/// Everything held or booked at one resource manager, with its transactions.
#[derive(Default)]
struct Live {
    pieces: Vec<(String, Piece)>,
    /// Bookings of equipment that the resource manager once had and no longer describes. The bookings stay
    /// valid, but there is no capacity to compare them with. Another rule (I6) checks that they were
    /// promised.
    retired: Vec<(String, Piece)>,
    /// Bookings that cannot be counted.
    malformed: Vec<Violation>,
}

/// One sentence for each resource that the resource manager no longer has and that is still booked.
fn retired_sentence(manager: &str, retired: &[(String, Piece)]) -> Vec<String> {
    let mut things: BTreeMap<&str, (BTreeSet<&str>, i128)> = BTreeMap::new();
    for (transaction, Piece { resource, end, .. }) in retired {
        let (by, until) = things.entry(resource).or_default();
        by.insert(transaction);
        *until = (*end).max(*until);
    }
    let one = |(resource, (by, until)): (&str, (BTreeSet<&str>, i128))| {
        let by: Vec<&str> = by.into_iter().collect();
        format!("{resource} at {manager}, still booked until {} by {}", time(until), by.join(", "))
    };
    things.into_iter().map(one).collect()
}

fn live_pieces(testimony: &Testimony) -> Live {
    let Live { mut pieces, mut retired, mut malformed } = Live::default();
    for booking in testimony.bookings.iter().filter(|booking| is_live(booking)) {
        for segment in &booking.segments {
            let (transaction, manager) = (&booking.transaction, &testimony.name);
            let mut wrong = |expected: &str, found: String| {
                malformed.push(Violation::new("I1", transaction, manager, expected, found));
            };
            match Piece::of(segment) {
                Some(piece) if piece.start >= piece.end => {
                    wrong("windows that end after they begin", piece.sentence());
                }
                Some(piece) if !testimony.capacities.contains_key(&piece.resource) => {
                    retired.push((booking.transaction.clone(), piece));
                }
                Some(piece) => pieces.push((booking.transaction.clone(), piece)),
                None => wrong("a window", "none".to_owned()),
            }
        }
    }
    Live { pieces, retired, malformed }
}

/// The transaction and the resource manager of a booking.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct BookingKey {
    pub(crate) transaction: String,
    pub(crate) manager: String,
}

impl BookingKey {
    pub(crate) fn new(transaction: &str, manager: &str) -> Self {
        Self { transaction: transaction.to_owned(), manager: manager.to_owned() }
    }
}

/// The bookings that users were promised: by transaction and resource manager, in order.
pub(super) struct PromisedBookings {
    reservations: usize,
    places: BTreeMap<BookingKey, Vec<Piece>>,
    /// Transactions of reservations whose window is over: resource managers may still have them or not.
    over: BTreeSet<String>,
    without_plan: Vec<Violation>,
}

pub(super) fn promised(reservations: &[v1::Reservation]) -> PromisedBookings {
    let mut promised = PromisedBookings {
        reservations: 0,
        places: BTreeMap::new(),
        over: BTreeSet::new(),
        without_plan: Vec::new(),
    };
    for reservation in reservations {
        match reservation.state() {
            v1::ReservationState::Confirmed | v1::ReservationState::Active => {}
            v1::ReservationState::PassedEndTime => {
                promised.over.insert(reservation.transaction.clone());
                continue;
            }
            _ => continue,
        }
        promised.reservations += 1;
        let pieces = pieces_of(reservation);
        if pieces.is_empty() {
            promised.without_plan.push(Violation::new(
                "I6",
                &reservation.transaction,
                "",
                format!("a confirmed reservation {} with something booked", reservation.id),
                "a plan without segments",
            ));
        }
        promised.places.extend(pieces.into_iter().map(|(manager, pieces)| {
            (BookingKey::new(&reservation.transaction, &manager), pieces)
        }));
    }
    promised
}

/// The pieces of a reservation's plan at each resource manager, in order.
pub(crate) fn pieces_of(reservation: &v1::Reservation) -> BTreeMap<String, Vec<Piece>> {
    let mut places: BTreeMap<String, Vec<Piece>> = BTreeMap::new();
    for segment in reservation.plan.iter().flat_map(|plan| &plan.segments) {
        if let Some(piece) = Piece::of(segment) {
            places.entry(segment.resource_manager.clone()).or_default().push(piece);
        }
    }
    places.values_mut().for_each(|pieces| pieces.sort());
    places
}

/// All bookings, by transaction and resource manager, in order.
pub(crate) fn booked(testimonies: &[Testimony]) -> BTreeMap<BookingKey, Vec<Piece>> {
    let mut booked: BTreeMap<BookingKey, Vec<Piece>> = BTreeMap::new();
    for testimony in testimonies {
        for booking in testimony.bookings.iter().filter(|booking| is_booked(booking)) {
            let place = BookingKey::new(&booking.transaction, &testimony.name);
            let pieces = booking.segments.iter().filter_map(Piece::of);
            booked.entry(place).or_default().extend(pieces);
        }
    }
    booked.values_mut().for_each(|pieces| pieces.sort());
    booked
}

/// The state of one transaction at one resource manager, for people.
pub(crate) fn standing(testimonies: &[Testimony], place: &BookingKey) -> String {
    let BookingKey { transaction, manager } = place;
    let Some(testimony) = testimonies.iter().find(|one| one.name == *manager) else {
        return format!("no resource manager {manager} that could be asked");
    };
    let mut all = testimony.bookings.iter().chain(&testimony.ended);
    let found = all.find(|booking| booking.transaction == *transaction);
    found.map_or_else(
        || "nothing of this transaction".to_owned(),
        |booking| {
            let mut pieces: Vec<Piece> = booking.segments.iter().filter_map(Piece::of).collect();
            pieces.sort();
            format!("{}: {}", state(booking), sentence(&pieces))
        },
    )
}

fn state(booking: &v1::Booking) -> String {
    booking.state().as_str_name().trim_start_matches("BOOKING_STATE_").to_lowercase()
}

/// I6: what a coordinator calls confirmed is booked at every resource manager, with exactly those segments.
pub(super) fn confirmed_is_booked(testimonies: &[Testimony], promised: &PromisedBookings) -> Check {
    let booked = booked(testimonies);
    let mut found = promised.without_plan.clone();
    let (mut segments, mut managers) = (0, BTreeSet::new());
    for (place, expected) in &promised.places {
        segments += expected.len();
        managers.insert(&place.manager);
        if booked.get(place) != Some(expected) {
            found.push(Violation::new(
                "I6",
                &place.transaction,
                &place.manager,
                format!("booked, because it is confirmed: {}", sentence(expected)),
                standing(testimonies, place),
            ));
        }
    }
    let (reservations, managers) = (promised.reservations, managers.len());
    let sentence = format!(
        "every confirmed reservation is booked as promised: {reservations} reservations, \
         {segments} segments at {managers} resource managers"
    );
    Check::new("I6", found, sentence)
}

/// I6 and I5: everything booked is confirmed.
///
/// With `coordinators`, only the bookings that they opened are checked.
pub(super) fn nothing_else_booked(
    testimonies: &[Testimony],
    promised: &PromisedBookings,
    coordinators: Option<&BTreeSet<&str>>,
) -> Check {
    let (mut found, mut bookings, mut of_others) = (Vec::new(), 0, 0);
    for testimony in testimonies {
        // A change that no longer involves a resource manager leaves an empty booking there.
        let of_something =
            |booking: &&v1::Booking| is_booked(booking) && !booking.segments.is_empty();
        for booking in testimony.bookings.iter().filter(of_something) {
            if coordinators.is_some_and(|asked| !asked.contains(booking.coordinator.as_str())) {
                of_others += 1;
                continue;
            }
            bookings += 1;
            let place = BookingKey::new(&booking.transaction, &testimony.name);
            if !promised.places.contains_key(&place) && !promised.over.contains(&place.transaction)
            {
                found.push(Violation::new(
                    "I6",
                    &place.transaction,
                    &place.manager,
                    "nothing booked, because no confirmed reservation of its coordinator books it \
                     there",
                    standing(testimonies, &place),
                ));
            }
        }
    }
    let mut sentence =
        format!("nothing else is booked: {bookings} bookings, each of them confirmed");
    if of_others > 0 {
        sentence +=
            &format!("; {of_others} bookings of coordinators that were not asked were not checked");
    }
    Check::new("I6", found, sentence)
}

/// I5: no transaction is booked at one resource manager and ended at another.
///
/// After a recorded mixed outcome everything is released, so at rest it is not booked anywhere either.
pub(super) fn nothing_half_booked(testimonies: &[Testimony]) -> Check {
    let mut ends: BTreeMap<&str, Vec<(&str, String)>> = BTreeMap::new();
    for testimony in testimonies {
        for booking in &testimony.ended {
            let end = (testimony.name.as_str(), state(booking));
            ends.entry(&booking.transaction).or_default().push(end);
        }
    }
    let (mut found, mut transactions) = (Vec::new(), BTreeSet::new());
    for testimony in testimonies {
        for booking in testimony.bookings.iter().filter(|booking| is_booked(booking)) {
            transactions.insert(booking.transaction.as_str());
            let Some(ended) = ends.get(booking.transaction.as_str()) else { continue };
            let ended: Vec<String> =
                ended.iter().map(|(manager, state)| format!("{state} at {manager}")).collect();
            found.push(Violation::new(
                "I5",
                &booking.transaction,
                &testimony.name,
                "booked everywhere or nowhere",
                format!("booked here, {}", ended.join(", ")),
            ));
        }
    }
    let sentence = format!(
        "nothing is half booked: {} transactions that are booked, {} that have ended somewhere",
        transactions.len(),
        ends.len()
    );
    Check::new("I5", found, sentence)
}

/// I7: no hold is left.
pub(super) fn no_hold_left(testimonies: &[Testimony]) -> Check {
    let mut found = Vec::new();
    for testimony in testimonies {
        let is_held = |booking: &&v1::Booking| booking.state() == v1::BookingState::Held;
        for booking in testimony.bookings.iter().filter(is_held) {
            let place = BookingKey::new(&booking.transaction, &testimony.name);
            let now = standing(testimonies, &place);
            found.push(Violation::new(
                "I7",
                &place.transaction,
                &place.manager,
                "no hold at rest",
                now,
            ));
        }
    }
    let managers = testimonies.len();
    let sentence = format!("no hold is left: {managers} resource managers asked");
    Check::new("I7", found, sentence)
}

/// I22: every reservation is final.
pub(super) fn all_have_ended(reservations: &[v1::Reservation]) -> Check {
    let restless = reservations.iter().filter(|one| !one.definite);
    let found = restless.map(|one| {
        let state = crate::kit::text::state(one.state());
        let id = if one.id.is_empty() { &one.request_id } else { &one.id };
        let found = format!("{id} {state}, not final");
        Violation::new("I22", &one.transaction, "", "an outcome that is final", found)
    });
    let sentence = format!("every outcome is final: {} reservations", reservations.len());
    Check::new("I22", found.collect(), sentence)
}

mod agree;
mod levels;
mod servers;
#[cfg(test)]
mod tests;

pub(super) use agree::all_agree;
pub use levels::audit_tree;
pub(super) use levels::promises_are_kept;
pub(super) use servers::one_holder;
