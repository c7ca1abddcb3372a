//! Ways from what is there to what is wanted, as lists of commands, carried out at a cluster in memory.

use std::collections::BTreeSet;

use super::*;

const NAME: &str = "co-0badcafe-0123456789abcdef";

fn at(second: i64) -> Time {
    Time::from_us(second * 1_000_000)
}

fn piece(start: i64, end: i64, nodes: &str, is_granted: bool) -> Piece {
    let nodes = nodes.split(' ').map(str::to_owned).collect();
    Piece { start: at(start), end: at(end), nodes, is_granted, is_booked: is_granted }
}

/// A cluster that keeps Slurm's rules: no overlaps but with MAINT, and no new start of what has begun.
#[derive(Debug, Default)]
struct Cluster {
    own: Vec<Reservation>,
    now: i64,
}

impl Cluster {
    /// Carries out a command, as `scontrol` would.
    fn run(&mut self, command: &Command) -> Result<(), String> {
        let now = at(self.now);
        match command {
            Command::Create { name, piece, users, is_over_own } => {
                assert!(!self.own.iter().any(|one| one.name == *name), "{name} twice");
                let flags = is_over_own.then(|| "MAINT".to_owned()).into_iter().collect();
                let (is_active, users) = (piece.start <= now, users.clone());
                let piece = Piece { is_granted: false, is_booked: false, ..piece.clone() };
                self.put(Reservation { name: name.clone(), piece, users, flags, is_active })
            }
            Command::Update { name, start, end, nodes, users, is_over_own } => {
                let mut one = self.take(name);
                assert!(!(one.is_active && start.is_some()), "{name} has begun");
                one.piece.start = start.unwrap_or(one.piece.start);
                one.is_active |= one.piece.start <= now;
                one.piece.end = end.unwrap_or(one.piece.end);
                one.piece.nodes = nodes.clone().unwrap_or(one.piece.nodes);
                one.users = users.clone().unwrap_or(one.users);
                one.flags.extend(is_over_own.then(|| "MAINT".to_owned()));
                self.put(one)
            }
            Command::Delete { name } => {
                self.take(name);
                Ok(())
            }
            Command::Settle { name } => {
                let mut one = self.take(name);
                one.flags.clear();
                self.put(one)
            }
        }
    }

    fn take(&mut self, name: &str) -> Reservation {
        let place = self.own.iter().position(|one| one.name == name).unwrap();
        self.own.remove(place)
    }

    fn put(&mut self, new: Reservation) -> Result<(), String> {
        let is_free = |one: &&Reservation| !one.has_flag("MAINT") && !new.has_flag("MAINT");
        if let Some(other) = self.own.iter().filter(is_free).find(|one| one.piece.meets(&new.piece))
        {
            return Err(format!("{} overlaps with {}", new.name, other.name));
        }
        self.own.push(new);
        Ok(())
    }

    /// Is this node covered at this second by a reservation that others may not overlap?
    fn covers(&self, node: &str, second: i64) -> bool {
        self.own.iter().any(|one| !one.has_flag("MAINT") && has(one, node, second))
    }

    /// Makes it as wanted, and checks that what was there and is wanted is covered after each command.
    fn make(&mut self, wanted: &[Piece]) -> String {
        let plan = plan(NAME, "alice", wanted, &self.own, at(self.now));
        let kept: Vec<(String, i64)> = (self.now..40)
            .flat_map(|second| ["a", "b", "c"].map(|node| (node.to_owned(), second)))
            .filter(|(node, second)| self.covers(node, *second))
            .filter(|(node, second)| {
                wanted.iter().any(|piece| {
                    piece.start <= at(*second)
                        && at(*second) < piece.end
                        && piece.nodes.contains(node)
                })
            })
            .collect();
        let claims = plan.claims.iter().map(|claim| &claim.command);
        let commands: Vec<&Command> = claims.chain(&plan.moves).collect();
        for command in &commands {
            self.run(command).unwrap_or_else(|error| panic!("{error}: {commands:#?}"));
            let covered = kept.iter().filter(|(node, at)| self.covers_at_all(node, *at));
            assert_eq!(covered.count(), kept.len(), "{commands:#?}");
        }
        let rest = super::plan(NAME, "alice", wanted, &self.own, at(self.now));
        assert!(rest.is_empty(), "{rest:#?}");
        self.text()
    }

    /// The same, whatever its flags.
    fn covers_at_all(&self, node: &str, second: i64) -> bool {
        self.own.iter().any(|one| has(one, node, second))
    }

    fn text(&self) -> String {
        let mut own = self.own.clone();
        own.sort_by(|one, other| one.name.cmp(&other.name));
        let text = |one: &Reservation| {
            let [start, end] =
                [one.piece.start, one.piece.end].map(|time| time.as_us() / 1_000_000);
            let nodes = joined(&one.piece.nodes);
            let users = one.users.join("+");
            format!("{} {start}..{end} {nodes} {users}", one.name.replace(NAME, "N"))
        };
        own.iter().map(text).collect::<Vec<_>>().join(", ")
    }
}

fn has(one: &Reservation, node: &str, second: i64) -> bool {
    let window = one.piece.start..one.piece.end;
    window.contains(&at(second)) && one.piece.nodes.contains(node)
}

#[test]
fn a_claim_becomes_a_booking_in_its_place() {
    let mut cluster = Cluster::default();
    assert_eq!(cluster.make(&[piece(5, 9, "a b", false)]), "N 5..9 a,b root");
    assert_eq!(cluster.make(&[piece(5, 9, "a b", true)]), "N 5..9 a,b root+alice");
}

#[test]
fn the_first_claim_asks_whether_the_user_is_known() {
    let plan = plan(NAME, "alice", &[piece(5, 9, "a", false)], &[], at(0));
    let Command::Create { users, .. } = &plan.claims[0].command else { panic!("{plan:?}") };
    assert_eq!(users, &["root", "alice"]);
    let Command::Update { users: Some(users), .. } = &plan.moves[0] else { panic!("{plan:?}") };
    assert_eq!(users, &["root"]);
}

#[test]
fn a_change_is_held_apart_and_then_joins() {
    let mut cluster = Cluster::default();
    cluster.make(&[piece(5, 9, "a", true)]);
    cluster.now = 6;
    let held = [piece(6, 9, "a", true), piece(6, 12, "b", false), piece(9, 12, "a", false)];
    let text = cluster.make(&held);
    assert_eq!(text, "N 5..9 a root+alice, N-2 6..12 b root, N-3 9..12 a root");
    assert_eq!(cluster.make(&[piece(6, 12, "a b", true)]), "N 5..12 a,b root+alice");
}

#[test]
fn an_abort_leaves_the_booking() {
    let mut cluster = Cluster::default();
    let booked = piece(5, 9, "a", true);
    cluster.make(std::slice::from_ref(&booked));
    cluster.make(&[booked.clone(), piece(5, 9, "b c", false)]);
    assert_eq!(cluster.make(&[booked]), "N 5..9 a root+alice");
}

#[test]
fn a_move_to_other_nodes_keeps_the_name_that_the_user_knows() {
    let mut cluster = Cluster::default();
    cluster.make(&[piece(5, 9, "a", true)]);
    cluster.make(&[piece(5, 9, "a", true), piece(5, 9, "b", false)]);
    assert_eq!(cluster.make(&[piece(5, 9, "b", true)]), "N 5..9 b root+alice");
}

#[test]
fn windows_that_pass_leave_the_names_of_the_others() {
    let mut cluster = Cluster::default();
    let text = cluster.make(&[piece(5, 9, "a", true), piece(12, 15, "a", true)]);
    assert_eq!(text, "N 5..9 a root+alice, N-2 12..15 a root+alice");
    cluster.now = 13;
    cluster.own[1].is_active = true;
    assert_eq!(cluster.make(&[piece(13, 15, "a", true)]), "N-2 12..15 a root+alice");
}

#[test]
fn what_has_begun_and_is_to_begin_later_is_made_again() {
    let mut cluster = Cluster::default();
    cluster.make(&[piece(0, 9, "a", true)]);
    assert_eq!(cluster.make(&[piece(4, 9, "a", true)]), "N-2 4..9 a root+alice");
}

#[test]
fn what_was_changed_by_hand_is_told_and_mended() {
    let mut cluster = Cluster::default();
    let wanted = [piece(5, 9, "a b", true)];
    cluster.make(&wanted);
    cluster.own[0].piece.end = at(7);
    cluster.own[0].piece.nodes.remove("a");
    cluster.own[0].flags.push("MAINT".to_owned());
    let told = plan(NAME, "alice", &wanted, &cluster.own, at(0)).difference(&cluster.own).unwrap();
    assert!(
        told.contains("ends at 1970-01-01T00:00:07Z instead of 1970-01-01T00:00:09Z"),
        "{told}"
    );
    assert!(told.contains("has the nodes b instead of a,b") && told.contains("MAINT"), "{told}");
    assert_eq!(cluster.make(&wanted), "N 5..9 a,b root+alice");
}

/// Every way between two of some hundred wanted states, at two moments.
#[test]
fn every_way_leads_to_what_is_wanted() {
    let sets = ["a", "b", "a b", "a b c"];
    let windows = [(0, 10), (5, 10), (5, 20), (12, 20)];
    let mut all: Vec<Vec<Piece>> = Vec::new();
    for nodes in sets {
        for (start, end) in windows {
            for is_granted in [false, true] {
                all.push(vec![piece(start, end, nodes, is_granted)]);
            }
            let rest: BTreeSet<&str> =
                ["a", "b", "c"].into_iter().filter(|n| !nodes.contains(n)).collect();
            if let Some(other) = rest.first() {
                all.push(vec![piece(start, end, nodes, true), piece(start, end, other, false)]);
            }
            all.push(vec![piece(start, end, nodes, true), piece(end, end + 5, nodes, true)]);
        }
    }
    for now in [0, 6] {
        let clipped = |wanted: &Vec<Piece>| -> Vec<Piece> {
            let clip = |one: &Piece| Piece { start: one.start.max(at(now)), ..one.clone() };
            wanted.iter().map(clip).collect()
        };
        for first in &all {
            for second in &all {
                let mut cluster = Cluster::default();
                cluster.make(first);
                cluster.now = now;
                for one in &mut cluster.own {
                    one.is_active = one.piece.start <= at(now);
                }
                cluster.make(&clipped(second));
            }
        }
    }
}
