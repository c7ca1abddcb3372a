//! The proof: what the resource managers say of themselves, checked by an auditor who shares nothing
//! with them.
//!
//! It knows the public messages only. It sweeps naively (at every instant at which anything changes,
//! add up everything that covers it) and on purpose not with `common::timetable`, which is what the
//! resource managers count with: one mistake must not hide behind itself.

use std::collections::{BTreeMap, BTreeSet};

use coalloc_proto::{Timestamp, v1};

/// What one resource manager answered over its public API.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Testimony {
    /// Its name.
    pub name: String,
    /// Its resources and their capacities, from Describe.
    pub capacities: BTreeMap<String, u64>,
    /// The two ends of each of them that is a path, from Describe.
    pub ends: BTreeMap<String, [String; 2]>,
    /// Its live holds and bookings, from ListBookings.
    pub bookings: Vec<v1::Booking>,
}

/// What a coordinator below another one answered, as a resource manager and as a coordinator.
#[derive(Debug, Clone, PartialEq)]
pub struct Lower {
    /// What it says to the one above.
    pub testimony: Testimony,
    /// What it has reserved at its own resource managers.
    pub reservations: Vec<v1::Reservation>,
}

/// One line of the proof.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Check {
    /// Does it hold?
    pub passed: bool,
    /// What was checked, with numbers.
    pub sentence: String,
    /// What is wrong, one sentence each.
    pub faults: Vec<String>,
}

/// Checks everything: nothing overbooked, all confirmed booked exactly, nothing else booked, no hold.
#[must_use]
pub fn audit(testimonies: &[Testimony], reservations: &[v1::Reservation]) -> Vec<Check> {
    let promised = promised(reservations);
    vec![
        nothing_overbooked(testimonies),
        confirmed_is_booked(testimonies, &promised),
        nothing_else_booked(testimonies, &promised),
        no_hold_left(testimonies),
    ]
}

impl Check {
    fn new(faults: Vec<String>, sentence: String) -> Self {
        Self { passed: faults.is_empty(), sentence, faults }
    }

    /// The same, said of one level of a tree.
    fn of(self, level: &str) -> Self {
        Self { sentence: format!("{level}: {}", self.sentence), ..self }
    }
}

/// An amount of a resource in a window, in microseconds since 1970.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Piece {
    resource: String,
    start: i128,
    end: i128,
    amount: u64,
}

impl Piece {
    /// None when the window is missing.
    fn of(segment: &v1::Segment) -> Option<Self> {
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
}

fn microseconds(time: &Timestamp) -> i128 {
    i128::from(time.seconds) * 1_000_000 + i128::from(time.nanos) / 1_000
}

fn is_live(booking: &v1::Booking) -> bool {
    matches!(booking.state(), v1::BookingState::Held | v1::BookingState::Booked)
}

fn is_booked(booking: &v1::Booking) -> bool {
    booking.state() == v1::BookingState::Booked
}

/// What is the fullest instant of one timetable?
struct Fullest<'a> {
    resource: &'a str,
    total: u128,
    capacity: u64,
}

impl Fullest<'_> {
    /// Is this one fuller than the other, as a share of its capacity?
    fn above(&self, other: &Self) -> bool {
        self.total * u128::from(other.capacity) > other.total * u128::from(self.capacity)
    }
}

fn nothing_overbooked(testimonies: &[Testimony]) -> Check {
    let (mut faults, mut timetables, mut bookings, mut instants) = (Vec::new(), 0, 0, 0);
    let mut fullest: Option<Fullest<'_>> = None;
    for testimony in testimonies {
        let (pieces, malformed) = live_pieces(testimony);
        faults.extend(malformed);
        bookings += testimony.bookings.iter().filter(|booking| is_live(booking)).count();
        for (resource, capacity) in &testimony.capacities {
            let mine: Vec<&Piece> =
                pieces.iter().filter(|piece| piece.resource == *resource).collect();
            timetables += 1;
            let changes: BTreeSet<i128> =
                mine.iter().flat_map(|piece| [piece.start, piece.end]).collect();
            instants += changes.len();
            for instant in changes {
                let covering = mine.iter().filter(|piece| piece.covers(instant));
                let total = covering.map(|piece| u128::from(piece.amount)).sum();
                let here = Fullest { resource, total, capacity: *capacity };
                if total > u128::from(*capacity) {
                    let name = &testimony.name;
                    faults.push(format!(
                        "{name}: {total} of {capacity} of {resource} are taken {}",
                        at(instant)
                    ));
                }
                if fullest.as_ref().is_none_or(|before| here.above(before)) {
                    fullest = Some(here);
                }
            }
        }
    }
    let fullest = fullest.filter(|fullest| fullest.total > 0).map_or_else(
        || "nothing is taken".to_owned(),
        |Fullest { resource, total, capacity }| {
            format!("fullest: {resource} at {} %", total * 100 / u128::from(capacity.max(1)))
        },
    );
    let sentence = format!(
        "nothing overbooked: {timetables} timetables, {bookings} bookings, {instants} instants \
         checked; {fullest}"
    );
    Check::new(faults, sentence)
}

/// What is held or booked at one resource manager, and what cannot be counted.
fn live_pieces(testimony: &Testimony) -> (Vec<Piece>, Vec<String>) {
    let (mut pieces, mut malformed) = (Vec::new(), Vec::new());
    for booking in testimony.bookings.iter().filter(|booking| is_live(booking)) {
        for segment in &booking.segments {
            let (name, transaction) = (&testimony.name, &booking.transaction);
            match Piece::of(segment) {
                Some(piece) if !testimony.capacities.contains_key(&piece.resource) => malformed
                    .push(format!("{name}: {transaction} takes {}, unknown there", piece.resource)),
                Some(piece) => pieces.push(piece),
                None => malformed.push(format!("{name}: {transaction} has no window")),
            }
        }
    }
    (pieces, malformed)
}

fn at(instant: i128) -> String {
    let time = i64::try_from(instant).map(coalloc_common::Time::from_us);
    time.map_or_else(|_| "at no instant of a calendar".into(), |time| format!("at {time}"))
}

/// Transaction and resource manager.
type Place = (String, String);

/// What was promised to the users: by transaction and resource manager, in order.
struct Promised {
    reservations: usize,
    places: BTreeMap<Place, Vec<Piece>>,
    without_plan: Vec<String>,
}

fn promised(reservations: &[v1::Reservation]) -> Promised {
    let mut promised =
        Promised { reservations: 0, places: BTreeMap::new(), without_plan: Vec::new() };
    let confirmed = |one: &&v1::Reservation| one.state() == v1::ReservationState::Confirmed;
    for reservation in reservations.iter().filter(confirmed) {
        promised.reservations += 1;
        let segments = reservation.plan.iter().flat_map(|plan| &plan.segments);
        let mut pieces = 0;
        for segment in segments {
            let Some(piece) = Piece::of(segment) else { continue };
            let place = (reservation.transaction.clone(), segment.resource_manager.clone());
            promised.places.entry(place).or_default().push(piece);
            pieces += 1;
        }
        if pieces == 0 {
            let id = &reservation.id;
            promised.without_plan.push(format!("{id} is confirmed without anything to book"));
        }
    }
    for pieces in promised.places.values_mut() {
        pieces.sort();
    }
    promised
}

fn confirmed_is_booked(testimonies: &[Testimony], promised: &Promised) -> Check {
    let mut booked: BTreeMap<Place, Vec<Piece>> = BTreeMap::new();
    for testimony in testimonies {
        for booking in testimony.bookings.iter().filter(|booking| is_booked(booking)) {
            let place = (booking.transaction.clone(), testimony.name.clone());
            let pieces = booking.segments.iter().filter_map(Piece::of);
            booked.entry(place).or_default().extend(pieces);
        }
    }
    let mut faults = promised.without_plan.clone();
    let (mut segments, mut managers) = (0, BTreeSet::new());
    for (place, expected) in &promised.places {
        let (transaction, manager) = place;
        segments += expected.len();
        managers.insert(manager);
        match booked.get_mut(place) {
            None => faults.push(format!("{transaction} is confirmed, but not booked at {manager}")),
            Some(found) => {
                found.sort();
                if found != expected {
                    faults.push(format!("{transaction} is booked otherwise at {manager}"));
                }
            }
        }
    }
    let (reservations, managers) = (promised.reservations, managers.len());
    let sentence = format!(
        "every confirmed reservation is booked as promised: {reservations} reservations, \
         {segments} segments at {managers} resource managers"
    );
    Check::new(faults, sentence)
}

fn nothing_else_booked(testimonies: &[Testimony], promised: &Promised) -> Check {
    let (mut faults, mut bookings) = (Vec::new(), 0);
    for testimony in testimonies {
        // A change that a resource manager has no part in any more leaves a booking of nothing there.
        let of_something =
            |booking: &&v1::Booking| is_booked(booking) && !booking.segments.is_empty();
        for booking in testimony.bookings.iter().filter(of_something) {
            bookings += 1;
            let place = (booking.transaction.clone(), testimony.name.clone());
            if !promised.places.contains_key(&place) {
                let (transaction, manager) = place;
                faults.push(format!("{transaction} is booked at {manager}, but not confirmed"));
            }
        }
    }
    let sentence = format!("nothing else is booked: {bookings} bookings, each of them confirmed");
    Check::new(faults, sentence)
}

fn no_hold_left(testimonies: &[Testimony]) -> Check {
    let mut faults = Vec::new();
    for testimony in testimonies {
        let is_held = |booking: &&v1::Booking| booking.state() == v1::BookingState::Held;
        for booking in testimony.bookings.iter().filter(is_held) {
            faults.push(format!("{} is still held at {}", booking.transaction, testimony.name));
        }
    }
    let managers = testimonies.len();
    let sentence = format!("no hold is left: {managers} resource managers asked");
    Check::new(faults, sentence)
}

mod levels;
#[cfg(test)]
mod tests;

pub use levels::audit_tree;
