//! What a shared log needs of its store.

use coalloc_etcd::{EtcdError, KeyValue, Outcome, Page, Transaction};

/// A strictly serializable store of keys: etcd, or a twin of it. Its calls wait for their answers.
pub trait Store {
    /// Does a transaction. It is sent once.
    ///
    /// # Errors
    /// [`EtcdError::Unknown`] when it may have been done, or may be done later.
    fn transact(&mut self, transaction: &Transaction) -> Result<Outcome, EtcdError>;

    /// What a key has now. It shows every transaction that was done before the call.
    ///
    /// # Errors
    /// [`EtcdError`] when the store does not answer.
    fn get(&mut self, key: &[u8]) -> Result<Option<KeyValue>, EtcdError>;

    /// The first keys from `from` up to `until`, without that one: at most `limit`.
    ///
    /// # Errors
    /// [`EtcdError`] when the store does not answer.
    fn page(&mut self, from: &[u8], until: &[u8], limit: u32) -> Result<Page, EtcdError>;

    /// How many bytes it has in use, of those that it may use.
    ///
    /// # Errors
    /// [`EtcdError`] when the store does not answer.
    fn bytes_in_use(&mut self) -> Result<u64, EtcdError>;

    /// Waits before a call is made again, after so many calls in a row that had no answer. Returns whether it should be made
    /// again: `false` when this has taken too long.
    fn wait(&mut self, failures: u32) -> bool;
}
