//! The durable log in which a state machine records its decisions before it sends anything, and the thread that
//! owns both.
//!
//! A core (`coalloc_protocol::Core`) makes decisions. Each decision must be on a disk before anybody else learns
//! of it: the intent before a Hold is sent (D1), the hold before its yes (D2), the decision before a Commit (D3),
//! the booking before its ack (D4), and release and tombstone before their acks (D5). Decisions are written as log
//! records, in the order in which the core made them, and a core's state is the fold of its records (I12, I14).
//! This crate has:
//!
//! * [`SqliteLedger`]: the real ledger, a SQLite file.
//! * [`LedgerReader`]: reads the durable records from a cursor on, while the writer is at work.
//! * [`MemoryLedger`] on a [`SimulatedDisk`]: a simulated ledger for fault runs, which fails on demand.
//! * [`Ledger`]: what a node needs of either ledger.
//! * [`Owner`]: one thread with one core and one ledger. It gathers the inputs that were posted while the disk was
//!   busy and makes their records durable with one append (group commit: one fsync for up to
//!   [`GROUP_COMMIT_MAX`](coalloc_common::limits::GROUP_COMMIT_MAX) inputs). Only then does it release the
//!   effects.
//!
//! # Format
//! A ledger is one SQLite file in write-ahead mode with `synchronous=FULL`. Table `meta` has the format version,
//! ledger id, node kind, node name and time of creation. Table `record` has the columns `sequence` (1, 2, 3 and so
//! on), `body` and `hash`. The body is the record as JSON text, so that `sqlite3` is enough to find out what a
//! node did:
//!
//! ```text
//! sqlite3 -readonly north.ledger "SELECT sequence, body FROM record ORDER BY sequence DESC LIMIT 5"
//! ```
//!
//! This works while the node runs: for that reason, SQLite's exclusive mode is not used. A reader never delays an
//! append, but a reader that keeps a transaction open for hours lets the `-wal` file grow. A lock on `<path>.lock`
//! keeps a second writer out. To copy the ledger of a running node, use [`backup`]: the main file alone lacks what
//! is still in the `-wal` file.
//!
//! The hash is SHA-256 over the previous hash (32 bytes), the sequence (8 bytes, big endian), the length of the
//! body in bytes (8 bytes, big endian) and the body. The first previous hash is SHA-256 over
//! `coalloc ledger, format 1`, a line feed, the length of the ledger id (as above) and the ledger id.
//!
//! # Which damage is found, and which is not (I15)
//! * SQLite rolls back a transaction that a crash cut off. Its records were never acknowledged. The daemon logs a
//!   warning.
//! * A record that was changed, moved, or removed from the middle stops the node at its start, with the number of
//!   the record. So does a write-ahead log that is damaged before its last transaction.
//! * A ledger whose tail is missing is a sound, shorter chain. This happens when an old backup was put back (F11),
//!   when the `-wal` file was deleted after a crash, or when the very last transaction has rotted. The tip, a file
//!   beside the ledger, reveals it ([`tip`]), unless the tip was put back as well. A whole new chain is sound, too.
//!   Against both, an auditor keeps tips that the node has signed (`coalloc audit --evidence`).
//! * After a failed append, it is unknown what is on the disk. The ledger writes nothing more, the owner releases
//!   nothing, and the process ends (I16). The next start reads what is there.
//! * A full disk is noticed in advance: space is reserved for the ends of what has begun (I17, `reserved_space`).
//!
//! [`look`] is for people: it checks whether a ledger is sound and shows what is in it, without changing anything.
//!
//! # What this leaves out
//! Compaction and snapshots: a start replays everything. Replication. Disks that break their promises: if the disk
//! acknowledges an fsync that it has not done, the ledger is wrong, too.

pub mod backup;
mod chain;
mod create;
pub mod error;
mod identity;
mod inspect;
pub mod ledger;
mod lock;
pub mod look;
pub mod memory;
pub mod owner;
pub mod reader;
mod replay;
mod reserved_space;
pub mod sqlite;
pub mod tip;
pub mod turn;
mod wal;

pub use error::{LedgerError, chain_text};
pub use identity::Identity;
pub use inspect::LedgerSummary;
pub use ledger::Ledger;
pub use memory::{AppendFault, Damage, DiskCounts, MemoryLedger, SimulatedDisk, SimulatedError};
pub use owner::{Command, Owner, OwnerThread, OwnerTurn, PostError, spawn};
pub use reader::{Entry, LedgerReader, MemoryReader, ReadRecords};
pub use sqlite::SqliteLedger;
pub use turn::{news_of_room, step_all};
pub use wal::{Unfinished, end as wal_end};
