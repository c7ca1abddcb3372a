//! Single servers of by-server sites: each has one holder at a time, and reservations have those that are booked.

use std::collections::BTreeMap;

use coalloc_proto::v1;

use super::{is_booked, microseconds, time};
use crate::testbed::audit::testimony::{Testimony, is_live};
use crate::testbed::audit::violation::{Check, Violation};

/// I1 of servers: no server has two holders at any instant, whoever holds servers has enough of them, and confirmed
/// reservations have those that are booked. `None` when no resource manager has servers.
pub(in crate::testbed::audit) fn one_holder(
    testimonies: &[Testimony],
    reservations: &[v1::Reservation],
) -> Option<Check> {
    let with = testimonies.iter().filter(|testimony| !testimony.servers.is_empty());
    let with: Vec<&Testimony> = with.collect();
    if with.is_empty() {
        return None;
    }
    let (mut found, mut servers, mut held) = (Vec::new(), 0, 0);
    for testimony in &with {
        servers += testimony.servers.values().map(BTreeMap::len).sum::<usize>();
        let mut holders: BTreeMap<&str, Vec<Holder<'_>>> = BTreeMap::new();
        for booking in testimony.bookings.iter().filter(|booking| is_live(booking)) {
            found.extend(enough(testimony, booking));
            for granted in &booking.servers {
                let Some((start, end)) = ends(granted.window.as_ref()) else { continue };
                let transaction = booking.transaction.as_str();
                for server in &granted.servers {
                    let all = holders.entry(server).or_default();
                    all.push(Holder { start, end, transaction });
                }
            }
        }
        for (server, mut all) in holders {
            held += all.len();
            all.sort_unstable();
            found.extend(twice(&testimony.name, server, &all));
        }
    }
    found.extend(reservations.iter().flat_map(|one| as_booked(&with, one)));
    let sentence = format!(
        "every server has one holder at a time: {servers} servers, held {held} times in all, and as confirmed"
    );
    Some(Check::new("I1", found, sentence))
}

/// Who has a server, from when to when.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Holder<'a> {
    start: i128,
    end: i128,
    transaction: &'a str,
}

fn ends(window: Option<&v1::Window>) -> Option<(i128, i128)> {
    let window = window?;
    Some((microseconds(window.start.as_ref()?), microseconds(window.end.as_ref()?)))
}

/// Where a server has two holders, who are ordered by their starts.
fn twice(manager: &str, server: &str, all: &[Holder<'_>]) -> Vec<Violation> {
    let mut found = Vec::new();
    let mut last: Option<Holder<'_>> = None;
    for holder in all {
        if let Some(other) = last.filter(|other| other.end > holder.start) {
            let both = format!("{}, {}", other.transaction, holder.transaction);
            let expected = format!("one holder of {server} at {}", time(holder.start));
            found.push(Violation::new("I1", &both, manager, expected, "two"));
        }
        // Of two that overlap, the one that ends last may overlap further ones.
        last = last.filter(|other| other.end > holder.end).or(Some(*holder));
    }
    found
}

/// Where a booking has a segment at a by-server site, and fewer CPUs of servers.
fn enough(testimony: &Testimony, booking: &v1::Booking) -> Vec<Violation> {
    let short = |segment: &v1::Segment| {
        let known = testimony.servers.get(&segment.resource)?;
        let same = |granted: &&v1::GrantedServers| {
            granted.site == segment.resource && granted.window == segment.window
        };
        let granted = booking.servers.iter().filter(same).flat_map(|granted| &granted.servers);
        // A server that was taken away had as many CPUs as those that are left.
        let each = known.values().max().copied().unwrap_or_default();
        let cpus: u64 = granted.map(|server| known.get(server).copied().unwrap_or(each)).sum();
        let expected = format!("servers of {} for {} CPUs", segment.resource, segment.amount);
        let violation = || {
            let found = format!("servers that have {cpus}");
            Violation::new("I1", &booking.transaction, &testimony.name, expected, found)
        };
        (cpus < segment.amount).then(violation)
    };
    booking.segments.iter().filter_map(short).collect()
}

/// Where a confirmed reservation names other servers than those that are booked for it.
fn as_booked(with: &[&Testimony], reservation: &v1::Reservation) -> Vec<Violation> {
    if !reservation.state().is_booked() {
        return Vec::new();
    }
    let other = |testimony: &&Testimony| {
        let of_rm = reservation.servers.iter();
        let of_rm = of_rm.filter(|granted| granted.resource_manager == testimony.name);
        let said: Vec<v1::GrantedServers> = of_rm
            .map(|granted| v1::GrantedServers {
                resource_manager: String::new(),
                ..granted.clone()
            })
            .collect();
        let mut booked = testimony.bookings.iter().filter(|booking| is_booked(booking));
        let booked = booked.find(|booking| booking.transaction == reservation.transaction);
        let has = booked.map_or(&[][..], |booking| &booking.servers);
        (said != has).then(|| {
            let (transaction, manager) = (&reservation.transaction, &testimony.name);
            let expected = format!("as confirmed: {}", names(&said));
            Violation::new("I6", transaction, manager, expected, names(has))
        })
    };
    with.iter().filter_map(other).collect()
}

fn names(all: &[v1::GrantedServers]) -> String {
    let names: Vec<&str> = all.iter().flat_map(|of| &of.servers).map(String::as_str).collect();
    if names.is_empty() { "no servers".to_owned() } else { names.join(", ") }
}

#[cfg(test)]
mod tests {
    use super::*;
    use coalloc_proto::Timestamp;

    fn window(start: i64, end: i64) -> Option<v1::Window> {
        let at = |seconds| Some(Timestamp { seconds, nanos: 0 });
        Some(v1::Window { start: at(start), end: at(end) })
    }

    fn booking(transaction: &str, start: i64, end: i64, names: &[&str]) -> v1::Booking {
        let servers = names.iter().map(|name| (*name).to_owned()).collect();
        let site = || "A".to_owned();
        let window = window(start, end);
        let granted = v1::GrantedServers { site: site(), window, servers, ..Default::default() };
        v1::Booking {
            transaction: transaction.to_owned(),
            state: v1::BookingState::Booked.into(),
            segments: vec![v1::Segment {
                resource: site(),
                amount: 4,
                window,
                ..Default::default()
            }],
            servers: vec![granted],
            ..v1::Booking::default()
        }
    }

    fn testimony(bookings: Vec<v1::Booking>) -> Testimony {
        let servers = ["A/1", "A/2"].map(|name| (name.to_owned(), 4));
        Testimony {
            name: "crm".to_owned(),
            servers: [("A".to_owned(), servers.into())].into(),
            bookings,
            ..Testimony::default()
        }
    }

    fn found(bookings: Vec<v1::Booking>, reservations: &[v1::Reservation]) -> Vec<String> {
        let check = one_holder(&[testimony(bookings)], reservations).unwrap();
        check.violations.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn two_holders_at_one_instant_are_found_and_neighbours_are_not() {
        assert_eq!(one_holder(&[Testimony::default()], &[]), None);
        let long = || booking("long", 0, 100, &["A/1"]);
        let beside =
            vec![long(), booking("after", 100, 200, &["A/1"]), booking("b", 0, 9, &["A/2"])];
        assert_eq!(found(beside, &[]), [""; 0]);
        let inside =
            vec![long(), booking("first", 10, 20, &["A/1"]), booking("second", 30, 40, &["A/1"])];
        let inside = found(inside, &[]);
        assert_eq!(inside.len(), 2, "the second one overlaps only the long one: {inside:?}");
        assert!(inside[1].contains("long, second"), "{inside:?}");
    }

    #[test]
    fn too_few_servers_and_others_than_confirmed_are_found() {
        let few = found(vec![booking("none", 0, 9, &[])], &[]);
        assert_eq!(
            few,
            ["I1 none at crm: expected servers of A for 4 CPUs; found servers that have 0"]
        );
        let one = booking("one", 0, 9, &["A/1"]);
        let granted = |name: &str| v1::GrantedServers {
            servers: vec![name.to_owned()],
            resource_manager: "crm".to_owned(),
            ..one.servers[0].clone()
        };
        let confirmed = |name: &str| v1::Reservation {
            transaction: "one".to_owned(),
            state: v1::ReservationState::Confirmed.into(),
            servers: vec![granted(name)],
            ..v1::Reservation::default()
        };
        assert_eq!(found(vec![one.clone()], &[confirmed("A/1")]), [""; 0]);
        let other = found(vec![one.clone()], &[confirmed("A/2")]);
        assert_eq!(other, ["I6 one at crm: expected as confirmed: A/2; found A/1"]);
    }
}
