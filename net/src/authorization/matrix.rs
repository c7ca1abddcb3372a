//! Every method of every service, and who may call it.
//!
//! The table is complete: a test compares it with the schema, and a method without a row is denied to everybody.
//! Handlers look closer where a row has a user, a coordinator or a resource manager in it: each for its own things only.
//!
//! Source: the matrix of docs/adr/0042-identity.md.

use super::Party;
use super::Party::{Auditor, Coordinator, Identified, Operator, ResourceManager, User};

/// A set of kinds of callers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Parties(u8);

impl Parties {
    const fn of(parties: &[Party]) -> Self {
        let (mut bits, mut index) = (0, 0);
        while index < parties.len() {
            bits |= parties[index].bit();
            index += 1;
        }
        Self(bits)
    }

    /// Whether any of these kinds of callers, as bits, is in the set.
    pub(super) const fn admits(self, parties: u8) -> bool {
        self.0 & parties != 0
    }

    /// The kinds of callers, for people.
    #[must_use]
    pub fn words(self) -> String {
        let all = [User, Operator, Auditor, Coordinator, ResourceManager, Identified];
        let here = all.into_iter().filter(|party| self.admits(party.bit()));
        here.map(Party::words).collect::<Vec<_>>().join(", ")
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
const IDENTIFIED: Parties = Parties::of(&[Identified]);

/// The rows, sorted by the path of the method.
pub(super) const ROWS: &[(&str, Parties)] = &[
    ("/coalloc.v1.Coordinator/Allocate", USERS),
    ("/coalloc.v1.Coordinator/DescribeFederation", IDENTIFIED),
    ("/coalloc.v1.Coordinator/Get", READERS),
    ("/coalloc.v1.Coordinator/GetQuota", READERS),
    ("/coalloc.v1.Coordinator/GiveUp", OPERATORS),
    ("/coalloc.v1.Coordinator/List", READERS),
    ("/coalloc.v1.Coordinator/ListDifferences", STAFF),
    ("/coalloc.v1.Coordinator/Modify", USERS),
    ("/coalloc.v1.Coordinator/Plan", USERS),
    ("/coalloc.v1.Coordinator/PlanTask", USERS),
    ("/coalloc.v1.Coordinator/ReadPicture", STAFF),
    ("/coalloc.v1.Coordinator/Release", USERS),
    ("/coalloc.v1.Coordinator/Repair", OPERATORS),
    ("/coalloc.v1.Coordinator/Reserve", USERS),
    ("/coalloc.v1.Coordinator/SearchServers", USERS),
    ("/coalloc.v1.Coordinator/SubmitTask", USERS),
    ("/coalloc.v1.Coordinator/Watch", READERS),
    ("/coalloc.v1.Ledgers/SignTip", STAFF),
    ("/coalloc.v1.Resolver/Resolve", MANAGERS),
    ("/coalloc.v1.ResourceManager/Abort", COORDINATORS_OPERATORS),
    ("/coalloc.v1.ResourceManager/Commit", COORDINATORS),
    ("/coalloc.v1.ResourceManager/CompareBookings", COORDINATORS),
    ("/coalloc.v1.ResourceManager/Describe", COORDINATORS_STAFF),
    ("/coalloc.v1.ResourceManager/FindServers", COORDINATORS_STAFF),
    ("/coalloc.v1.ResourceManager/Hold", COORDINATORS),
    ("/coalloc.v1.ResourceManager/ListBookings", STAFF),
    ("/coalloc.v1.ResourceManager/QueryAvailability", COORDINATORS_STAFF),
    ("/coalloc.v1.ResourceManager/Release", COORDINATORS_OPERATORS),
    ("/coalloc.v1.ResourceManager/WatchBookings", STAFF),
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
    use prost::Message as _;

    use super::*;

    fn methods(descriptors: &[u8]) -> Vec<String> {
        // The descriptors of descriptors: only names are read.
        #[derive(prost::Message)]
        struct Set {
            #[prost(message, repeated, tag = "1")]
            files: Vec<File>,
        }
        #[derive(prost::Message)]
        struct File {
            #[prost(string, tag = "2")]
            package: String,
            #[prost(message, repeated, tag = "6")]
            services: Vec<Service>,
        }
        #[derive(prost::Message)]
        struct Service {
            #[prost(string, tag = "1")]
            name: String,
            #[prost(message, repeated, tag = "2")]
            methods: Vec<Method>,
        }
        #[derive(prost::Message)]
        struct Method {
            #[prost(string, tag = "1")]
            name: String,
        }
        let set = Set::decode(descriptors).unwrap();
        let paths = set.files.iter().flat_map(|file| {
            file.services.iter().flat_map(move |service| {
                service.methods.iter().map(move |method| {
                    format!("/{}.{}/{}", file.package, service.name, method.name)
                })
            })
        });
        paths.collect()
    }

    #[test]
    fn every_method_that_is_served_has_a_row_and_every_row_a_method() {
        let mut served = methods(coalloc_proto::DESCRIPTORS);
        served.extend(methods(tonic_health::pb::FILE_DESCRIPTOR_SET));
        served.extend(methods(tonic_reflection::pb::v1::FILE_DESCRIPTOR_SET));
        served.extend(methods(tonic_reflection::pb::v1alpha::FILE_DESCRIPTOR_SET));
        served.sort_unstable();
        assert!(served.len() > 30, "{served:?}");
        let rows: Vec<&str> = ROWS.iter().map(|(path, _)| *path).collect();
        assert_eq!(rows, served);
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
        let words = row("/coalloc.v1.ResourceManager/Abort").unwrap().words();
        assert_eq!(words, "operators, coordinators of its configuration");
    }
}
