//! The durable log a state machine writes before it speaks, and the thread that owns both.
//!
//! A core (`coalloc_protocol::Core`) decides; what it decided must be on a disk before anybody hears
//! of it: the intent before a Hold leaves (D1), the hold before its yes (D2), the decision before a
//! Commit (D3), the booking before its ack (D4), release and tombstone before theirs (D5). These
//! points are records, in the order in which the core made them, and a core's state is the fold of
//! its records (I12, I14). This crate keeps them:
//!
//! * [`SqliteLedger`]: the real one, a SQLite file;
//! * [`LedgerReader`]: what is durable, read from a cursor on beside the writer;
//! * [`MemoryLedger`] on a [`SimulatedDisk`]: its twin for fault runs, which fails when told to;
//! * [`Ledger`]: what a node needs of either;
//! * [`Owner`]: one thread with one core and one ledger. It gathers what was posted while the disk
//!   was busy, makes it durable with one append (group commit: one fsync for up to
//!   [`GROUP_COMMIT_MAX`](coalloc_common::limits::GROUP_COMMIT_MAX) inputs) and only then lets the
//!   effects out.
//!
//! # Format
//! One SQLite file in write-ahead mode with `synchronous=FULL`. Table `meta` says format version,
//! ledger id, node kind, node name and time of creation; table `record` has `sequence` (1, 2, 3 and so
//! on), `body` and `hash`. The body is the record as JSON text, so that whoever has to find out what
//! a node did needs nothing but `sqlite3`:
//!
//! ```text
//! sqlite3 -readonly north.ledger "SELECT sequence, body FROM record ORDER BY sequence DESC LIMIT 5"
//! ```
//!
//! This works on a live ledger: SQLite's exclusive mode is not used for that reason. A reader never
//! delays an append; one that keeps a transaction open for hours lets the `-wal` file grow. Two
//! writers are kept apart by a lock on `<path>.lock`. To copy a live ledger use `.backup` of
//! `sqlite3`: the main file alone lacks what is still in `-wal`.
//!
//! The hash is SHA-256 over previous hash (32 bytes), sequence (8 bytes, big endian), length of the
//! body in bytes (8 bytes, big endian), body. The first previous hash is SHA-256 over
//! `coalloc ledger, format 1`, a line feed, the length of the ledger id (as above) and the ledger id.
//!
//! # What is found, and what is not (I15)
//! * A transaction that a crash cut off is rolled back by SQLite; nobody was told of it. The log has a line of it.
//! * A record that was changed, removed from the middle or moved, and a write-ahead log damaged
//!   before its last transaction, stop the node at start, with the number of the record.
//! * A tail that is missing whole makes a sound shorter chain: an old backup put back (F11), a `-wal` file
//!   deleted after a crash, rot in the very last transaction. The tip beside the ledger tells ([`tip`]), unless
//!   it was put back as well.
//! * A failed append leaves open what is on the disk. The ledger writes nothing more, the owner
//!   releases nothing, the process ends (I16); the next start reads what is there.
//! * A full disk is known before it is met: room is kept back for the ends of what has begun (I17, `room`).
//!
//! [`look`] is for people: whether a ledger is sound and what is in it, changing nothing.
//!
//! # What this leaves out
//! Compaction and snapshots: a start replays everything. Replication. Keeping the disk's own
//! promise: an fsync that lies, lies here, too.

mod chain;
mod create;
pub mod error;
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
pub use inspect::LedgerSummary;
pub use ledger::Ledger;
pub use memory::{AppendFault, Damage, DiskCounts, MemoryLedger, SimulatedDisk, SimulatedError};
pub use owner::{Command, Owner, OwnerThread, OwnerTurn, PostError, spawn};
pub use reader::{Entry, LedgerReader, MemoryReader, ReadRecords};
pub use sqlite::{Identity, SqliteLedger};
pub use turn::{news_of_room, step_all};
pub use wal::{Unfinished, end as wal_end};
