//! etcd as the store of a shared log.

use std::time::{Duration, Instant};

use coalloc_etcd::{Etcd, EtcdError, KeyValue, Outcome, Page, Transaction};
use tokio::runtime::Handle;

use super::store::Store;

/// The pause after the first failure, which doubles with each further one.
const PAUSE_FIRST: Duration = Duration::from_millis(10);
/// The longest pause: shorter than etcd's members take to agree on a leader, so that little time is lost after that.
const PAUSE_MAX: Duration = Duration::from_millis(250);

/// etcd, for a thread of its own that waits for the answers.
#[derive(Debug, Clone)]
pub struct EtcdStore {
    etcd: Etcd,
    runtime: Handle,
    patience: Duration,
    /// When the first of the failures in a row was.
    failing_since: Option<Instant>,
}

impl EtcdStore {
    /// A store whose calls are made in a runtime. Its methods must not be called from a task of a runtime. A call that has no answer
    /// is made again for `patience`.
    #[must_use]
    pub const fn new(etcd: Etcd, runtime: Handle, patience: Duration) -> Self {
        Self { etcd, runtime, patience, failing_since: None }
    }
}

impl Store for EtcdStore {
    fn transact(&mut self, transaction: &Transaction) -> Result<Outcome, EtcdError> {
        self.runtime.block_on(self.etcd.transact(transaction.clone()))
    }

    fn get(&mut self, key: &[u8]) -> Result<Option<KeyValue>, EtcdError> {
        self.runtime.block_on(self.etcd.get(key))
    }

    fn page(&mut self, from: &[u8], until: &[u8], limit: u32) -> Result<Page, EtcdError> {
        self.runtime.block_on(self.etcd.page(from, until, limit))
    }

    fn bytes_in_use(&mut self) -> Result<u64, EtcdError> {
        self.runtime.block_on(self.etcd.status()).map(|status| status.bytes_in_use)
    }

    fn wait(&mut self, failures: u32) -> bool {
        let begun = match self.failing_since {
            Some(since) if failures > 1 => since,
            _ => *self.failing_since.insert(Instant::now()),
        };
        let doubled = PAUSE_FIRST.saturating_mul(1 << failures.saturating_sub(1).min(16));
        std::thread::sleep(doubled.min(PAUSE_MAX));
        begun.elapsed() < self.patience
    }
}
