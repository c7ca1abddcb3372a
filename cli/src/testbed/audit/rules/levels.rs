//! The proof for a tree: what each child coordinator has promised to its parent coordinator is booked at
//! its own resource managers.
//!
//! A parent coordinator does not know the inside of a child coordinator's domain. A promise is therefore
//! compared with the bookings inside by what both must agree on: the CPUs of every site, exactly; and for
//! every end point of a promised path, whatever route was taken inside, at least the path's rate must leave
//! the point.

use std::collections::{BTreeMap, BTreeSet};

use coalloc_proto::v1;

use super::{
    Check, Lower, Piece, Testimony, Violation, confirmed_is_booked, is_booked, no_hold_left,
    nothing_else_booked, nothing_half_booked, nothing_overbooked, one_holder, promised,
};

/// Checks a tree: its resource managers, its child coordinators, and the reservations of the parent
/// coordinator.
#[must_use]
pub fn audit_tree(
    testimonies: &[Testimony],
    lower: &[Lower],
    reservations: &[v1::Reservation],
) -> Vec<Check> {
    // What the parent coordinator deals with: child coordinators, and resource managers that are below no
    // child.
    let reserved = || lower.iter().flat_map(|lower| &lower.reservations);
    let inner: Vec<v1::Reservation> = reserved().cloned().collect();
    let below: Vec<Testimony> = lower.iter().map(|lower| lower.testimony.clone()).collect();
    let all: Vec<Testimony> = below.iter().chain(testimonies).cloned().collect();
    let both: Vec<v1::Reservation> = reservations.iter().chain(&inner).cloned().collect();
    let upper = "level 1 (parent)";
    let under = "level 2 (children)";
    let mut checks = vec![
        nothing_overbooked(testimonies),
        confirmed_is_booked(&all, &promised(reservations)).of(upper),
        nothing_else_booked(&below, &promised(reservations), None).of(upper),
        confirmed_is_booked(testimonies, &promised(&inner)).of(under),
        nothing_else_booked(testimonies, &promised(&both), None).of(under),
        promises_are_kept(testimonies, lower),
        nothing_half_booked(&all),
        no_hold_left(&all),
    ];
    checks.extend(one_holder(&all, &both));
    checks
}

/// The amount booked of each site, or of each end point of paths.
type Sums = BTreeMap<String, u128>;

/// I6 across levels: what a child coordinator has booked for its parent is booked at its own resource managers.
pub(in super::super) fn promises_are_kept(testimonies: &[Testimony], lower: &[Lower]) -> Check {
    let (mut found, mut promises, mut compared) = (Vec::new(), 0, 0);
    for Lower { testimony, reservations } in lower {
        for booking in testimony.bookings.iter().filter(|booking| is_booked(booking)) {
            promises += 1;
            let (transaction, manager) = (&booking.transaction, &testimony.name);
            let inner = reservations.iter().filter(|one| one.request_id == *transaction);
            let mut inner = inner.filter(|one| one.state().is_booked());
            let (Some(one), None) = (inner.next(), inner.next()) else {
                let expected = "reserved once by the coordinator that has promised it";
                let now = format!(
                    "{} reservations of it",
                    reservations.iter().filter(|one| one.request_id == *transaction).count()
                );
                found.push(Violation::new("I6", transaction, manager, expected, now));
                continue;
            };
            let own: Vec<(&Testimony, Piece)> = booked_for(testimonies, &one.transaction).collect();
            let outer: Vec<Piece> = booking.segments.iter().filter_map(Piece::of).collect();
            let instants: BTreeSet<i128> =
                outer.iter().chain(own.iter().map(|(_, piece)| piece)).map(|p| p.start).collect();
            for instant in instants {
                let now = |piece: &&Piece| piece.covers(instant);
                let here = outer.iter().filter(now).map(|piece| (testimony, piece));
                let (cpus, ends) = sums(here);
                let there = own.iter().map(|(of, piece)| (*of, piece));
                let (own_cpus, own_ends) = sums(there.filter(|(_, piece)| now(piece)));
                compared += cpus.len() + ends.len();
                if cpus != own_cpus {
                    let (promised, has) =
                        (format!("{cpus:?} CPUs"), format!("{own_cpus:?} booked for it"));
                    found.push(Violation::new("I6", transaction, manager, promised, has));
                }
                for (point, rate) in ends {
                    let has = own_ends.get(&point).copied().unwrap_or_default();
                    if has < rate {
                        let (promised, has) =
                            (format!("{rate} bit/s at {point}"), format!("{has} booked for it"));
                        found.push(Violation::new("I6", transaction, manager, promised, has));
                    }
                }
            }
        }
    }
    let sentence = format!(
        "every promise of a child coordinator is kept: {promises} promises of {} coordinators, \
         {compared} sites and end points compared",
        lower.len()
    );
    Check::new("I6", found, sentence)
}

/// The resource managers' bookings for a transaction.
fn booked_for<'a>(
    testimonies: &'a [Testimony],
    txn: &str,
) -> impl Iterator<Item = (&'a Testimony, Piece)> {
    testimonies.iter().flat_map(move |testimony| {
        let own = testimony.bookings.iter().filter(|one| is_booked(one) && one.transaction == txn);
        let pieces = own.flat_map(|booking| booking.segments.iter().filter_map(Piece::of));
        pieces.map(move |piece| (testimony, piece)).collect::<Vec<_>>()
    })
}

/// CPUs by site, and rates by the end points of paths.
fn sums<'a>(pieces: impl Iterator<Item = (&'a Testimony, &'a Piece)>) -> (Sums, Sums) {
    let (mut cpus, mut ends) = (Sums::new(), Sums::new());
    for (testimony, piece) in pieces {
        let amount = u128::from(piece.amount);
        match testimony.ends.get(&piece.resource) {
            None => *cpus.entry(piece.resource.clone()).or_default() += amount,
            Some(points) => {
                for point in points {
                    *ends.entry(point.clone()).or_default() += amount;
                }
            }
        }
    }
    (cpus, ends)
}
