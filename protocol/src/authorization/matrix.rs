//! Every method of every service, and who may call it.
//!
//! The table is complete: a test of `coalloc-net` compares it with the schema, and a method without a row is denied to
//! everybody. Handlers look closer where a row has a user, a coordinator or a resource manager in it: each for its own
//! things only.
//!
//! Source: the matrix of docs/adr/0042-identity.md.

use std::fmt;

use super::Party;
use super::Party::{Anybody, Auditor, Coordinator, Identified, Operator, ResourceManager, User};

/// A set of kinds of callers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Parties(u8);

impl Parties {
    pub(super) const fn of(parties: &[Party]) -> Self {
        let (mut set, mut index) = (Self(0), 0);
        while index < parties.len() {
            set = set.with(parties[index]);
            index += 1;
        }
        set
    }

    const fn bit(party: Party) -> u8 {
        1 << party as u8
    }

    /// The set with one more kind.
    pub(super) const fn with(self, party: Party) -> Self {
        Self(self.0 | Self::bit(party))
    }

    /// Whether this kind is in the set.
    #[must_use]
    pub const fn has(self, party: Party) -> bool {
        self.0 & Self::bit(party) != 0
    }

    /// Whether any of these kinds is in the set.
    #[must_use]
    pub const fn admits(self, parties: Self) -> bool {
        self.0 & parties.0 != 0
    }
}

/// The kinds of callers, for people.
impl fmt::Display for Parties {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let here = Party::ALL.into_iter().filter(|party| self.has(*party));
        f.pad(&here.map(Party::words).collect::<Vec<_>>().join(", "))
    }
}

const USERS: Parties = Parties::of(&[User, Operator]);
const READERS: Parties = Parties::of(&[User, Operator, Auditor]);
const OPERATORS: Parties = Parties::of(&[Operator]);
const STAFF: Parties = Parties::of(&[Operator, Auditor]);
const COORDINATORS: Parties = Parties::of(&[Coordinator]);
const COORDINATORS_OPERATORS: Parties = Parties::of(&[Coordinator, Operator]);
const COORDINATORS_STAFF: Parties = Parties::of(&[Coordinator, Operator, Auditor]);
const MANAGERS: Parties = Parties::of(&[ResourceManager]);
const ONLY_USERS: Parties = Parties::of(&[User]);
const ANYBODY: Parties = Parties::of(&[Anybody]);
const IDENTIFIED: Parties = Parties::of(&[Identified]);

/// The rows, sorted by the path of the method.
pub const ROWS: &[(&str, Parties)] = &[
    ("/coalloc.v1.Coordinator/Allocate", USERS),
    ("/coalloc.v1.Coordinator/Deprovision", USERS),
    ("/coalloc.v1.Coordinator/DescribeFederation", IDENTIFIED),
    ("/coalloc.v1.Coordinator/Get", READERS),
    ("/coalloc.v1.Coordinator/GetCalendarAddress", READERS),
    ("/coalloc.v1.Coordinator/GetDataPlane", READERS),
    ("/coalloc.v1.Coordinator/GetQuota", READERS),
    ("/coalloc.v1.Coordinator/GiveUp", OPERATORS),
    ("/coalloc.v1.Coordinator/List", READERS),
    ("/coalloc.v1.Coordinator/ListDifferences", STAFF),
    // Operators see everybody's reservations already, and an address of theirs would stand for the user's own right.
    ("/coalloc.v1.Coordinator/MakeCalendarAddress", ONLY_USERS),
    ("/coalloc.v1.Coordinator/Modify", USERS),
    ("/coalloc.v1.Coordinator/Plan", USERS),
    ("/coalloc.v1.Coordinator/PlanTask", USERS),
    ("/coalloc.v1.Coordinator/Provision", USERS),
    // The secret in the message is the proof. Over gRPC whoever calls has to show an identity besides.
    ("/coalloc.v1.Coordinator/ReadCalendar", ANYBODY),
    ("/coalloc.v1.Coordinator/ReadPicture", STAFF),
    ("/coalloc.v1.Coordinator/Release", USERS),
    ("/coalloc.v1.Coordinator/ReleaseRest", USERS),
    ("/coalloc.v1.Coordinator/Repair", OPERATORS),
    ("/coalloc.v1.Coordinator/Reserve", USERS),
    ("/coalloc.v1.Coordinator/RevokeCalendarAddress", USERS),
    ("/coalloc.v1.Coordinator/SearchServers", USERS),
    ("/coalloc.v1.Coordinator/SubmitTask", USERS),
    ("/coalloc.v1.Coordinator/Watch", READERS),
    ("/coalloc.v1.Ledgers/SignTip", STAFF),
    ("/coalloc.v1.Logging/GetLogFilter", OPERATORS),
    ("/coalloc.v1.Logging/SetLogFilter", OPERATORS),
    ("/coalloc.v1.Resolver/Resolve", MANAGERS),
    ("/coalloc.v1.ResourceManager/Abort", COORDINATORS_OPERATORS),
    ("/coalloc.v1.ResourceManager/Commit", COORDINATORS),
    ("/coalloc.v1.ResourceManager/CompareBookings", COORDINATORS),
    ("/coalloc.v1.ResourceManager/Describe", COORDINATORS_STAFF),
    ("/coalloc.v1.ResourceManager/FindServers", COORDINATORS_STAFF),
    ("/coalloc.v1.ResourceManager/GetBooking", COORDINATORS),
    ("/coalloc.v1.ResourceManager/Hold", COORDINATORS),
    ("/coalloc.v1.ResourceManager/ListBookings", STAFF),
    ("/coalloc.v1.ResourceManager/QueryAvailability", COORDINATORS_STAFF),
    ("/coalloc.v1.ResourceManager/Release", COORDINATORS_OPERATORS),
    ("/coalloc.v1.ResourceManager/WatchBookings", STAFF),
    ("/coalloc.v1.ResourceManager/WatchEquipment", COORDINATORS),
    ("/coalloc.v1.ResourceManager/WatchProfiles", COORDINATORS),
    ("/coalloc.v1.Workflows/GetWorkflow", READERS),
    ("/coalloc.v1.Workflows/PlanWorkflow", USERS),
    ("/coalloc.v1.Workflows/ReportActivity", USERS),
    ("/coalloc.v1.Workflows/ReviseWorkflow", USERS),
    ("/coalloc.v1.Workflows/SubmitWorkflow", USERS),
    ("/grpc.health.v1.Health/Check", IDENTIFIED),
    ("/grpc.health.v1.Health/Watch", IDENTIFIED),
    ("/grpc.reflection.v1.ServerReflection/ServerReflectionInfo", IDENTIFIED),
    ("/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo", IDENTIFIED),
];

/// Who may call a method, by its path; `None` for a method that nobody may call.
#[must_use]
pub fn row(path: &str) -> Option<Parties> {
    let at = ROWS.binary_search_by_key(&path, |(path, _)| path).ok()?;
    Some(ROWS[at].1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_found_because_they_are_sorted() {
        assert!(ROWS.is_sorted_by(|(a, _), (b, _)| a < b));
        assert!(ROWS.iter().all(|(path, parties)| row(path) == Some(*parties)));
    }

    #[test]
    fn a_path_that_is_only_like_one_of_the_rows_has_none() {
        for path in [
            "",
            "/",
            "/coalloc.v1.Coordinator/",
            "/coalloc.v1.Coordinator/Get/",
            "/coalloc.v1.Coordinator/get",
            "/coalloc.v1.Coordinator/GetX",
            "//coalloc.v1.Coordinator/Get",
            "/coalloc.v1.Coordinator/Get?x",
            "coalloc.v1.Coordinator/Get",
        ] {
            assert_eq!(row(path), None, "{path}");
        }
    }

    #[test]
    fn the_words_of_a_row_name_everybody_in_it() {
        let words = row("/coalloc.v1.ResourceManager/Abort").unwrap().to_string();
        assert_eq!(words, "operators, coordinators of its configuration");
    }
}
