//! What a booking takes, as the pieces of which Slurm makes reservations: a window and the nodes that are taken
//! throughout.
//!
//! A reservation of Slurm has one start, one end and one set of nodes. A booking may have several windows, and a change
//! of it takes other nodes than the booking itself. So it is cut into pieces, and each piece is one reservation:
//!
//! 1. All nodes that are taken at the first instant are one piece, for as long as all of them are taken.
//! 2. The rest is cut in the same way.
//!
//! So the piece in which jobs run keeps its end when others join later, and a booking with one window is one piece.
//! What the user may use, what is booked and not provisioned, and what is only held, are cut apart.
//!
//! Slurm counts in whole seconds. Starts and ends are rounded down alike, so bookings that touch each other do so at
//! the cluster too.

use std::collections::{BTreeMap, BTreeSet};

use coalloc_common::Time;
use coalloc_protocol::participant::equipment::Want;
use coalloc_rm::driver::Naming;

/// Names of nodes.
pub(super) type Nodes = BTreeSet<String>;

/// A window, and the nodes that are taken throughout.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Piece {
    /// Its first second.
    pub(super) start: Time,
    /// The second after its last one.
    pub(super) end: Time,
    /// Its nodes; at least one.
    pub(super) nodes: Nodes,
    /// May the user use it?
    pub(super) is_granted: bool,
    /// Is it booked? Then it was certain before, and is made again even if somebody else is in the way by now.
    pub(super) is_booked: bool,
}

impl Piece {
    /// Does it take a node that the other one takes at the same instant?
    pub(super) fn meets(&self, other: &Self) -> bool {
        self.start < other.end && other.start < self.end && !self.nodes.is_disjoint(&other.nodes)
    }

    /// Does it take all that the other one takes?
    pub(super) fn covers(&self, other: &Self) -> bool {
        self.start <= other.start && other.end <= self.end && other.nodes.is_subset(&self.nodes)
    }
}

/// The pieces of what is wanted from now on: those that the user may use first, then by their starts. What has begun
/// starts in this second.
pub(super) fn pieces(want: &Want, now: Time) -> Vec<Piece> {
    let (mut granted, mut booked, mut held) = <(Area, Area, Area)>::default();
    for version in &want.versions {
        let area = match (version.is_granted, version.is_booked) {
            (true, _) => &mut granted,
            (false, true) => &mut booked,
            (false, false) => &mut held,
        };
        for share in &version.shares {
            let nodes = share.servers.iter().map(|server| Naming::of_server(server).to_owned());
            let start = whole(share.window.start().max(now));
            area.add(start, whole(share.window.end()), &nodes.collect());
        }
    }
    booked.subtract(&granted);
    held.subtract(&granted);
    held.subtract(&booked);
    let granted = granted.into_pieces(true, true).into_iter();
    granted.chain(booked.into_pieces(false, true)).chain(held.into_pieces(false, false)).collect()
}

/// The pieces of what `wanted` takes and none of `own` has, after now.
pub(super) fn missing(wanted: &Piece, own: &[Piece], now: Time) -> Vec<Piece> {
    let mut area = Area::default();
    area.add(wanted.start.max(whole(now)), wanted.end, &wanted.nodes);
    let mut covered = Area::default();
    for piece in own {
        covered.add(piece.start, piece.end, &piece.nodes);
    }
    area.subtract(&covered);
    area.into_pieces(wanted.is_granted, wanted.is_booked)
}

/// The second in which an instant is.
pub(super) fn whole(time: Time) -> Time {
    Time::from_us(time.as_us().div_euclid(1_000_000) * 1_000_000)
}

/// Nodes over time: those from each instant on, until the next one.
#[derive(Debug, Default)]
struct Area(BTreeMap<Time, Nodes>);

impl Area {
    fn add(&mut self, start: Time, end: Time, nodes: &Nodes) {
        if start >= end {
            return;
        }
        self.cut(start);
        self.cut(end);
        for (_, taken) in self.0.range_mut(start..end) {
            taken.extend(nodes.iter().cloned());
        }
    }

    fn subtract(&mut self, other: &Self) {
        for instant in other.0.keys() {
            self.cut(*instant);
        }
        for (instant, taken) in &mut self.0 {
            if let Some((_, less)) = other.0.range(..=*instant).next_back() {
                taken.retain(|node| !less.contains(node));
            }
        }
    }

    /// Makes an instant one at which the nodes may change.
    fn cut(&mut self, instant: Time) {
        let before = self.0.range(..=instant).next_back();
        let before = before.map(|(_, nodes)| nodes.clone()).unwrap_or_default();
        self.0.entry(instant).or_insert(before);
    }

    fn into_pieces(mut self, is_granted: bool, is_booked: bool) -> Vec<Piece> {
        let mut pieces = Vec::new();
        while let Some((start, nodes)) = self.first() {
            let mut end = start;
            let mut goes_on = true;
            for (instant, taken) in self.0.range_mut(start..) {
                if goes_on && nodes.is_subset(taken) {
                    taken.retain(|node| !nodes.contains(node));
                } else if goes_on {
                    (end, goes_on) = (*instant, false);
                }
            }
            pieces.push(Piece { start, end, nodes, is_granted, is_booked });
        }
        pieces
    }

    fn first(&self) -> Option<(Time, Nodes)> {
        let first = self.0.iter().find(|(_, nodes)| !nodes.is_empty());
        first.map(|(start, nodes)| (*start, nodes.clone()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(second: i64) -> Time {
        Time::from_us(second * 1_000_000)
    }

    fn nodes(names: &str) -> Nodes {
        names.split(' ').map(str::to_owned).collect()
    }

    fn cut(shares: &[(i64, i64, &str)]) -> Vec<String> {
        let mut area = Area::default();
        for (start, end, names) in shares {
            area.add(at(*start), at(*end), &nodes(names));
        }
        let text = |piece: Piece| {
            let names: Vec<String> = piece.nodes.into_iter().collect();
            let [start, end] = [piece.start, piece.end].map(|time| time.as_us() / 1_000_000);
            format!("{start}..{end} {}", names.join(" "))
        };
        area.into_pieces(true, true).into_iter().map(text).collect()
    }

    #[test]
    fn windows_with_the_same_nodes_that_touch_are_one_piece() {
        assert_eq!(cut(&[(0, 5, "a b"), (5, 9, "a b")]), ["0..9 a b"]);
        assert_eq!(cut(&[(0, 5, "a b"), (6, 9, "a b")]), ["0..5 a b", "6..9 a b"]);
    }

    #[test]
    fn nodes_that_join_later_leave_the_first_piece_as_it_is() {
        assert_eq!(cut(&[(0, 5, "a"), (3, 9, "a b")]), ["0..9 a", "3..9 b"]);
        assert_eq!(cut(&[(0, 5, "a b"), (5, 9, "b c")]), ["0..5 a b", "5..9 b c"]);
    }

    #[test]
    fn what_is_missing_is_cut_out() {
        let piece = |start, end, names: &str| Piece {
            start: at(start),
            end: at(end),
            nodes: nodes(names),
            is_granted: false,
            is_booked: false,
        };
        let missing = missing(&piece(0, 9, "a b"), &[piece(0, 5, "a"), piece(0, 9, "b")], at(2));
        assert_eq!(missing, [piece(5, 9, "a")]);
        assert_eq!(super::missing(&piece(0, 9, "a"), &[piece(1, 9, "a")], at(2)), []);
    }

    #[test]
    fn a_window_shorter_than_a_second_takes_nothing() {
        assert_eq!(cut(&[(3, 3, "a")]), Vec::<String>::new());
        assert_eq!(whole(Time::from_us(-1)), at(-1));
    }
}
