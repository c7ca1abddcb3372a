//! A log that outlives its machine: the records of one ledger in a store that several members share.
//!
//! One member leads and appends; the others follow, and any of them may lead next. What decides is the *tip*: the number and
//! the hash of the last record, and the epoch in which it was written. Every append is one transaction of the store, which
//! compares the tip with the one that the leader knows, and the leader's key with the leader's epoch:
//!
//! ```text
//! if   tip = (N, hash, epoch)  and  leader was made at revision EPOCH      what the leader knows
//! then log/N+1 := the records,  tip := (N+k, hash', EPOCH)                  all or nothing
//! else read tip and leader                                                 somebody else leads, or this has landed before
//! ```
//!
//! A leader that was stopped and does not know that its lease has ended fails at the compare, and so does one that lost its tip.
//! The lease only says when somebody else may try. When the outcome of an append is unknown, the tip says it: its hash tells what
//! landed. The same append may then be sent again, because two of them cannot both find the same tip.
//!
//! | key | what it has |
//! |---|---|
//! | `PREFIX/id` | the ledger's id, the id by which others know it, and its node |
//! | `PREFIX/leader` | who leads, with a lease; the revision at which it was made is the epoch |
//! | `PREFIX/tip` | see above |
//! | `PREFIX/log/N` | a batch of records; the first has number N |
//! | `PREFIX/chunk/N/EPOCH/I` | parts of a batch that is too long for one value, written before it |
//! | `PREFIX/seen/MEMBER` | the last record that is durable at a member |
//!
//! Snapshots and archives are in the copy of the log that each member keeps as a file ([`SharedLedger`]). A batch leaves the store
//! when every member has it, and at the latest when so many others were appended
//! ([`SHARED_LOG_RECORDS_MAX`](coalloc_common::limits::SHARED_LOG_RECORDS_MAX)).
//!
//! Left out: leases, which a member renews beside its ledger, and when it tries to lead. Source: docs/adr/0049-etcd.md.

mod batch;
mod error;
mod etcd_store;
mod keys;
mod ledger;
#[cfg(test)]
mod ledger_tests;
mod log;
#[cfg(test)]
mod real_tests;
mod store;
#[cfg(test)]
mod tests;
mod twin;

pub use self::error::SharedLogError;
pub use self::etcd_store::EtcdStore;
pub use self::ledger::{Membership, SharedLedger, share, unshare};
pub use self::log::{SharedLog, SharedLogId, SharedTip};
pub use self::store::Store;
pub use self::twin::EtcdTwin;
