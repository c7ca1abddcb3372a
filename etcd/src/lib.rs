//! A client of etcd, as far as a ledger needs one: linearizable reads, transactions, and leases.
//!
//! etcd is an existing engine with the guarantees that a coordinator's ledger needs to outlive a machine: a transaction
//! compares and changes keys at one revision of a strictly serializable store, whatever becomes of a minority of its members.
//! Whoever keeps decisions there compares what it knows with each transaction, so that nobody else's decision is lost, and never
//! relies on a lease alone: a lease ends by etcd's clock, and a process that was stopped does not notice.
//!
//! Every call ends in one of three ways, and the difference between the last two is what this crate is for:
//!
//! | outcome | what is known |
//! |---|---|
//! | an answer | it was done, at a revision |
//! | [`EtcdError::Refused`] | it was not done, and will not be |
//! | [`EtcdError::Unknown`] | no answer: it was done, or will be done soon, or never |
//!
//! Calls go to one member until it fails, and then to the next. A call that changes something is sent once.
//!
//! Left out: passwords (certificates say who calls), watches (a reader of a log asks for what comes next), etcd's locks and elections (they are unsafe in a network whose messages
//! may be late), everything about etcd's own members. The schema is a part of etcd's, API 3.4 and later.
//! Source: etcd's API documentation; docs/adr/0049-etcd.md.

mod client;
mod error;
mod transaction;

/// The generated code of the part of etcd's schema that is used.
#[allow(missing_docs, unreachable_pub, clippy::all, clippy::pedantic)]
mod wire {
    tonic::include_proto!("etcdserverpb");
}

pub use self::client::{Etcd, KeyValue, Lease, MemberStatus, Page};
pub use self::error::EtcdError;
pub use self::transaction::{Change, Condition, Outcome, Transaction};
