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
//! * [`shared`]: a log that several members share in etcd, for ledgers that outlive their machine.
//! * [`LedgerReader`]: reads the durable records from a cursor on, while the writer is at work.
//! * [`MemoryLedger`] on a [`SimulatedDisk`]: a simulated ledger for fault runs, which fails on demand.
//! * [`Ledger`]: what a node needs of either ledger.
//! * [`Owner`]: one thread with one core and one ledger. It gathers the inputs that were posted while the disk was
//!   busy and makes their records durable with one append (group commit: one fsync for up to
//!   [`GROUP_COMMIT_MAX`](coalloc_common::limits::GROUP_COMMIT_MAX) inputs). Only then does it release the
//!   effects.
//!
//! # Format
//! A ledger is one SQLite file in write-ahead mode with `synchronous=FULL` (a copy of a shared log: `NORMAL`). This is format 2:
//!
//! | table | what it has |
//! |---|---|
//! | `meta` | format version, ledger id, node kind, node name, time of creation; where the log is that it is a copy of |
//! | `record` | `sequence` (1, 2, 3 and so on), `body`, `hash` and `causer` |
//! | `causer` | everybody who caused a record, once; records have its number |
//! | `part` | the parts of the snapshot, by their keys |
//! | `position` | which record the snapshot stands for, and which is the last one that is in an archive |
//! | `room` | reserved space, see `reserved_space` |
//!
//! Bodies of records, causers and parts are Packed CBOR, see `packed`. `coalloc ledger dump` shows them as JSON. Format 1
//! had JSON texts as bodies, with the causer as the field `from`. A ledger that format 1 began keeps its JSON records: its node
//! changes the tables when it opens the file (`upgrade`), and writes packed records from then on.
//!
//! A ledger can be read while its node runs: for that reason, SQLite's exclusive mode is not used. A reader never delays
//! an append, but a reader that keeps a transaction open for hours lets the `-wal` file grow. A lock on `<path>.lock`
//! keeps a second writer out. To copy the ledger of a running node, use [`backup`]: the main file alone lacks what
//! is still in the `-wal` file.
//!
//! The hash is SHA-256 over the previous hash (32 bytes), the sequence (8 bytes, big endian), the length of the
//! body in bytes (8 bytes, big endian) and the body; and then, if the node itself did not cause the record, the length and
//! the bytes of the causer's body. The first previous hash is SHA-256 over `coalloc ledger, format 1`, a line feed,
//! the length of the ledger id (as above) and the ledger id; the chain has not changed since format 1.
//!
//! # What stays small
//! A snapshot is the core's state as parts ([`coalloc_protocol::Snapshot`]), as it is after one record. When so many parts
//! have changed, or so many records were appended ([`SnapshotPolicy`]), the owner writes the changed parts in one transaction
//! ([`snapshot`]). A start reads the parts and replays only the records after them. Records that a snapshot contains
//! stay in the file for a while, for those who follow it, and then move to archives (`archive`), which a start does not read.
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
//! * A part of the snapshot that was changed or removed stops the node at its start. Whoever changes parts and digest together is
//!   not found by the chain: the snapshot is not signed. The archives have the records from which it follows.
//! * After a failed append, it is unknown what is on the disk. The ledger writes nothing more, the owner releases
//!   nothing, and the process ends (I16). The next start reads what is there.
//! * A full disk is noticed in advance: space is reserved for the ends of what has begun (I17, `reserved_space`).
//!
//! [`look`] is for people: it checks whether a ledger is sound and shows what is in it, without changing anything.
//!
//! # What this leaves out
//! Disks that break their promises: if the disk acknowledges an fsync that it has not done, the ledger is wrong, too.

mod archive;
pub mod backup;
mod body;
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
mod packed;
pub mod reader;
mod replay;
mod reserved_space;
mod rows;
pub mod shared;
pub mod snapshot;
pub mod sqlite;
pub mod tip;
pub mod turn;
mod upgrade;
mod wal;

pub use body::{Body, BodyError, OwnedBody};
pub use error::{LedgerError, chain_text};
pub use identity::Identity;
pub use inspect::LedgerSummary;
pub use ledger::Ledger;
pub use memory::{AppendFault, Damage, DiskCounts, MemoryLedger, SimulatedDisk, SimulatedError};
pub use owner::{Command, Owner, OwnerThread, OwnerTurn, PostError, TurnError, spawn};
pub use packed::{PackedError, pack, unpack};
pub use reader::{Entry, LedgerReader, MemoryReader, ReadRecords};
pub use snapshot::{CoreFold, Fold, SnapshotPolicy};
pub use sqlite::SqliteLedger;
pub use turn::{news_of_room, snapshot_if_due, step_all};
pub use wal::{Unfinished, end as wal_end};
