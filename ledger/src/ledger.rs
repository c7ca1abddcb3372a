//! What a node needs of its ledger beyond appending: its identity, its last record, and readers
//! beside the writer.
//!
//! The real implementation is [`SqliteLedger`]; a simulation runs the same node with its own. Left
//! out: replay, which comes before there is a ledger to ask.

use coalloc_protocol::Log;
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::error::LedgerError;
use crate::reader::{LedgerReader, ReadRecords};
use crate::sqlite::SqliteLedger;

/// A log with an identity, which can be read while its writer is at work.
pub trait Ledger: Log + Send + 'static {
    /// The reader of this ledger.
    type Reader: ReadRecords<Record = Self::Record> + Send + 'static;

    /// The ledger's own id, which was made with the ledger: 32 hexadecimal digits.
    fn id(&self) -> &str;

    /// The id by which others know the ledger: 32 hexadecimal digits.
    fn identity(&self) -> String;

    /// Where the ledger is, as text for people.
    fn place(&self) -> String;

    /// Bytes that are reserved for the ends of what has begun (I17).
    fn room_bytes(&self) -> u64;

    /// The sequence number of the last durable record; the first record is 1.
    fn last_sequence(&self) -> u64;

    /// Returns a function that opens readers and may be called at any time later. It may wait for a
    /// disk.
    fn readers(
        &self,
    ) -> impl Fn() -> Result<Self::Reader, LedgerError> + Send + Sync + 'static + use<Self>;

    /// Returns a function that measures how many bytes the ledger takes on its disk.
    fn size(&self) -> impl Fn() -> u64 + Send + Sync + 'static + use<Self>;
}

impl<R> Ledger for SqliteLedger<R>
where
    R: Serialize + DeserializeOwned + Send + 'static,
{
    type Reader = LedgerReader<R>;

    fn id(&self) -> &str {
        self.id()
    }

    fn identity(&self) -> String {
        self.identity()
    }

    fn place(&self) -> String {
        self.path().display().to_string()
    }

    fn room_bytes(&self) -> u64 {
        self.room_bytes()
    }

    fn last_sequence(&self) -> u64 {
        self.last_sequence()
    }

    fn readers(
        &self,
    ) -> impl Fn() -> Result<Self::Reader, LedgerError> + Send + Sync + 'static + use<R> {
        let (path, id) = (self.path().to_owned(), self.id().to_owned());
        move || LedgerReader::open(&path, &id)
    }

    fn size(&self) -> impl Fn() -> u64 + Send + Sync + 'static + use<R> {
        let file = self.path().to_owned();
        let mut log = file.clone().into_os_string();
        log.push("-wal");
        let log = std::path::PathBuf::from(log);
        move || {
            let bytes =
                |path: &std::path::Path| std::fs::metadata(path).map_or(0, |file| file.len());
            bytes(&file).saturating_add(bytes(&log))
        }
    }
}
