//! The texts of Slurm's programs, as values.
//!
//! The programs run with `TZ=UTC`, so times have no zone. Refusals are not read here: whether something was done is
//! read back from lists.
//!
//! Source: `scontrol show reservation -o`, `sinfo -N` and `squeue` of Slurm 22.05, and the manual of scontrol.

use std::collections::BTreeMap;

use coalloc_common::Time;

use super::pieces::{Nodes, Piece};

/// Most nodes in one list. A text with more was not written by a cluster that exists.
const NODES_MAX: usize = 1_000_000;

/// A reservation at the cluster.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Reservation {
    /// Its name, unique at the cluster.
    pub(super) name: String,
    /// Its window and nodes.
    pub(super) piece: Piece,
    /// The Unix users who may use it.
    pub(super) users: Vec<String>,
    /// Its flags.
    pub(super) flags: Vec<String>,
    /// Has it begun, by the clock of the controller?
    pub(super) is_active: bool,
}

impl Reservation {
    /// Does it have a flag?
    pub(super) fn has_flag(&self, flag: &str) -> bool {
        self.flags.iter().any(|own| own == flag)
    }
}

/// A node at the cluster.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Node {
    /// Its state, in Slurm's word: "idle", "down*", "drained".
    pub(super) state: String,
    /// Why it is in this state, as an operator wrote it.
    pub(super) reason: String,
}

impl Node {
    /// Can it run jobs, now or when the present ones have ended? A controller that has just started does not know
    /// yet: then it counts as able.
    pub(super) fn is_usable(&self) -> bool {
        let state = self.state.to_ascii_lowercase();
        let bad = ["down", "drain", "drng", "fail", "error", "perfctrs", "future", "inval"];
        !state.contains('*') && !bad.iter().any(|word| state.starts_with(word))
    }

    /// Does it run jobs that may end, and takes no new ones?
    pub(super) fn is_draining(&self) -> bool {
        let state = self.state.to_ascii_lowercase();
        ["draining", "drng"].iter().any(|word| state == *word)
    }
}

/// A job at the cluster.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Job {
    pub(super) id: String,
    pub(super) user: String,
    /// The reservation in which it runs or waits; empty: in none.
    pub(super) reservation: String,
    /// Where it runs; empty while it waits.
    pub(super) nodes: Nodes,
    /// When it ends at the latest; `None`: it has not begun, or has no limit.
    pub(super) end: Option<Time>,
}

/// The format of `squeue` that [`jobs`] reads.
pub(super) const JOB_FORMAT: &str = "%i|%u|%v|%e|%N";
/// The format of `sinfo -N` that [`nodes`] reads.
pub(super) const NODE_FORMAT: &str = "%N|%T|%E";

/// Reads `scontrol show reservation -o`.
pub(super) fn reservations(text: &str) -> Result<Vec<Reservation>, String> {
    text.lines().filter(|line| line.starts_with("ReservationName=")).map(reservation).collect()
}

fn reservation(line: &str) -> Result<Reservation, String> {
    let fields: BTreeMap<&str, &str> =
        line.split_whitespace().filter_map(|field| field.split_once('=')).collect();
    let get = |name: &str| match fields.get(name) {
        Some(text) if *text != "(null)" => Ok(*text),
        Some(_) => Ok(""),
        None => Err(format!("scontrol tells of a reservation without {name}: {line:.200}")),
    };
    let piece = Piece {
        start: time(get("StartTime")?)?,
        end: time(get("EndTime")?)?,
        nodes: host_list(get("Nodes")?)?,
        is_granted: false,
        is_booked: false,
    };
    let list = |text: &str| -> Vec<String> {
        text.split(',').filter(|one| !one.is_empty()).map(str::to_owned).collect()
    };
    Ok(Reservation {
        name: get("ReservationName")?.to_owned(),
        piece,
        users: list(get("Users")?),
        flags: list(get("Flags")?),
        is_active: get("State")? == "ACTIVE",
    })
}

/// Reads `sinfo -h -N -o` in the format [`NODE_FORMAT`].
pub(super) fn nodes(text: &str) -> BTreeMap<String, Node> {
    let line = |line: &str| {
        let mut parts = line.splitn(3, '|').map(str::trim);
        let (name, state, reason) = (parts.next()?, parts.next()?, parts.next()?);
        let node = Node { state: state.to_owned(), reason: reason.to_owned() };
        Some((name.to_owned(), node))
    };
    text.lines().filter_map(line).collect()
}

/// Reads `squeue -h -o` in the format [`JOB_FORMAT`].
pub(super) fn jobs(text: &str) -> Result<Vec<Job>, String> {
    let line = |line: &str| -> Result<Job, String> {
        let parts: Vec<&str> = line.splitn(5, '|').map(str::trim).collect();
        let [id, user, reservation, end, nodes] = parts.as_slice() else {
            return Err(format!("squeue tells of a job without all of {JOB_FORMAT}: {line:.200}"));
        };
        let reservation = if *reservation == "(null)" { "" } else { reservation };
        Ok(Job {
            id: (*id).to_owned(),
            user: (*user).to_owned(),
            reservation: reservation.to_owned(),
            nodes: host_list(nodes)?,
            end: time(end).ok(),
        })
    };
    text.lines().filter(|text| !text.trim().is_empty()).map(line).collect()
}

/// A time as Slurm reads and writes it.
pub(super) fn slurm_time(time: Time) -> String {
    time.to_string().trim_end_matches('Z').to_owned()
}

fn time(text: &str) -> Result<Time, String> {
    let unreadable = |error: jiff::Error| format!("Slurm wrote {text:?} as a time: {error}");
    let civil: jiff::civil::DateTime = text.parse().map_err(unreadable)?;
    let zoned = civil.to_zoned(jiff::tz::TimeZone::UTC).map_err(unreadable)?;
    Ok(Time::from_us(zoned.timestamp().as_microsecond()))
}

/// The names in a list of nodes, `n[1-2,7],m1` for example.
fn host_list(text: &str) -> Result<Nodes, String> {
    let mut names = Nodes::new();
    let (mut depth, mut from) = (0_usize, 0);
    for (index, character) in text.char_indices() {
        match character {
            '[' => depth += 1,
            ']' => depth = depth.saturating_sub(1),
            ',' if depth == 0 => {
                expand("", &text[from..index], &mut names)?;
                from = index + 1;
            }
            _ => {}
        }
    }
    expand("", &text[from..], &mut names)?;
    Ok(names)
}

/// Adds all names that begin with `begin` and go on as `rest` says.
fn expand(begin: &str, rest: &str, names: &mut Nodes) -> Result<(), String> {
    let unreadable = || format!("Slurm wrote {begin}{rest} as names of nodes");
    let Some((before, rest)) = rest.split_once('[') else {
        if !(begin.is_empty() && rest.is_empty()) {
            names.insert(format!("{begin}{rest}"));
        }
        return if names.len() > NODES_MAX { Err(unreadable()) } else { Ok(()) };
    };
    let (numbers, rest) = rest.split_once(']').ok_or_else(unreadable)?;
    for range in numbers.split(',') {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        let number = |text: &str| text.parse::<usize>().map_err(|_| unreadable());
        let (from, to) = (number(first)?, number(last)?);
        if to.saturating_sub(from) > NODES_MAX {
            return Err(unreadable());
        }
        for number in from..=to {
            let width = first.len();
            expand(&format!("{begin}{before}{number:0width$}"), rest, names)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(text: &str) -> String {
        host_list(text).unwrap().into_iter().collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn lists_of_nodes_are_expanded() {
        assert_eq!(names("n1"), "n1");
        assert_eq!(names("n[1-3,7],m,k[08-10]"), "k08 k09 k10 m n1 n2 n3 n7");
        assert_eq!(names("r[1-2]n[1-2]"), "r1n1 r1n2 r2n1 r2n2");
        assert_eq!(names(""), "");
        for wrong in ["n[1", "n[a-b]", "n[1-99999999]"] {
            assert!(host_list(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_reservation_is_read() {
        let line = "ReservationName=co-a StartTime=2026-11-27T19:40:57 EndTime=2026-11-27T20:00:57 \
            Duration=00:20:00 Nodes=n[1-2] NodeCnt=2 CoreCnt=8 Features=(null) PartitionName=(null) \
            Flags=MAINT,SPEC_NODES TRES=cpu=8 Users=root,alice Groups=(null) Accounts=(null) \
            Licenses=(null) State=INACTIVE BurstBuffer=(null) Watts=n/a MaxStartDelay=(null)\n";
        let read = reservations(line).unwrap();
        let [read] = read.as_slice() else { panic!("{read:?}") };
        assert_eq!(read.name, "co-a");
        assert_eq!(slurm_time(read.piece.start), "2026-11-27T19:40:57");
        assert_eq!(slurm_time(read.piece.end), "2026-11-27T20:00:57");
        assert_eq!(read.piece.nodes.len(), 2);
        assert_eq!(read.users, ["root", "alice"]);
        assert!(read.has_flag("MAINT") && !read.is_active);
        assert_eq!(reservations("No reservations in the system\n").unwrap(), []);
        assert!(reservations("ReservationName=x StartTime=soon").is_err());
    }

    #[test]
    fn nodes_that_cannot_run_jobs_are_known() {
        let read =
            nodes("n1|idle|none\nn2|down*|Not responding\nn3|drained|a | b\nn3|drained|a | b\n");
        assert!(read["n1"].is_usable());
        assert!(!read["n2"].is_usable());
        assert_eq!((read["n3"].is_usable(), read["n3"].reason.as_str()), (false, "a | b"));
        let draining = Node { state: "draining".to_owned(), reason: String::new() };
        assert!(draining.is_draining() && !draining.is_usable());
        for state in ["drained", "draining*", "down", "idle"] {
            assert!(
                !Node { state: state.to_owned(), reason: String::new() }.is_draining(),
                "{state}"
            );
        }
        for state in
            ["mixed", "allocated", "reserved", "maint", "completing", "idle~", "powered_down"]
        {
            assert!(Node { state: state.to_owned(), reason: String::new() }.is_usable(), "{state}");
        }
    }

    #[test]
    fn jobs_are_read() {
        let read = jobs("5|alice|co-a|2027-11-27T19:31:03|n[1-2]\n7|bob|(null)|N/A|\n").unwrap();
        assert_eq!((read[0].reservation.as_str(), read[0].nodes.len()), ("co-a", 2));
        assert!(read[0].end.is_some());
        assert_eq!((read[1].reservation.as_str(), read[1].end), ("", None));
        assert!(jobs("5|alice").is_err());
    }
}
