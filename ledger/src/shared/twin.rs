//! A twin of etcd in memory: strictly serializable, with answers that are lost and transactions that land late.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use coalloc_etcd::{Change, Condition, EtcdError, KeyValue, Outcome, Page, Transaction};
use rand::rngs::SmallRng;
use rand::{RngExt as _, SeedableRng as _};

use super::store::Store;

/// What all clients of the twin share.
#[derive(Debug, Default)]
pub(super) struct Shared {
    keys: BTreeMap<Vec<u8>, KeyValue>,
    revision: i64,
    /// Transactions that may land at any time, or never.
    late: Vec<Transaction>,
    /// Of a thousand calls, so many go wrong.
    faults: u32,
    /// A planted bug: no condition is looked at.
    compares_nothing: bool,
}

/// One client of the twin.
#[derive(Debug, Clone)]
pub(super) struct Twin {
    shared: Arc<Mutex<Shared>>,
    dice: SmallRng,
}

impl Shared {
    fn holds(&self, condition: &Condition) -> bool {
        match condition {
            Condition::Value { key, value } => {
                self.keys.get(key).is_some_and(|known| known.value == *value)
            }
            Condition::MadeAt { key, revision } => {
                self.keys.get(key).is_some_and(|known| known.made_at == *revision)
            }
            Condition::Absent { key } => !self.keys.contains_key(key),
        }
    }

    pub(super) fn keys(&self) -> impl Iterator<Item = String> {
        self.keys.keys().map(|key| String::from_utf8_lossy(key).into_owned())
    }

    pub(super) const fn set_faults(&mut self, faults: u32) {
        self.faults = faults;
    }

    fn apply(&mut self, transaction: &Transaction) -> Outcome {
        let holds = transaction.conditions.iter().all(|condition| self.holds(condition));
        if !holds && !self.compares_nothing {
            let read = |key: &Vec<u8>| self.keys.get(key).cloned();
            return Outcome::NotDone { found: transaction.otherwise.iter().map(read).collect() };
        }
        self.revision += 1;
        for change in transaction.changes.clone() {
            match change {
                Change::Put { key, value, .. } => {
                    let made_at = self.keys.get(&key).map_or(self.revision, |known| known.made_at);
                    self.keys.insert(key.clone(), KeyValue { key, value, made_at });
                }
                Change::Delete { from, until } => {
                    self.keys.retain(|key, _| *key < from || *key >= until);
                }
            }
        }
        Outcome::Done { revision: self.revision }
    }
}

impl Twin {
    pub(super) fn new(seed: u64, faults: u32, compares_nothing: bool) -> Self {
        let shared = Shared { faults, compares_nothing, ..Shared::default() };
        Self { shared: Arc::new(Mutex::new(shared)), dice: SmallRng::seed_from_u64(seed) }
    }

    /// Another client.
    pub(super) fn client(&mut self) -> Self {
        let dice = SmallRng::seed_from_u64(self.dice.random());
        Self { shared: Arc::clone(&self.shared), dice }
    }

    pub(super) fn shared(&self) -> MutexGuard<'_, Shared> {
        self.shared.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// From now on every call is answered.
    pub(super) fn calm(&self) {
        self.shared().set_faults(0);
    }

    /// The lease of a key ends.
    pub(super) fn expire(&self, key: &[u8]) {
        let mut shared = self.shared();
        shared.revision += 1;
        shared.keys.remove(key);
    }

    /// What lands late lands now, or not yet, or never. Does the next call go wrong?
    fn begin(&mut self) -> bool {
        let mut shared = self.shared.lock().unwrap_or_else(PoisonError::into_inner);
        for transaction in std::mem::take(&mut shared.late) {
            match self.dice.random_range(0..4) {
                0 => drop(shared.apply(&transaction)),
                1 => {}
                _ => shared.late.push(transaction),
            }
        }
        self.dice.random_range(0..1_000) < shared.faults
    }
}

fn silent() -> EtcdError {
    EtcdError::Unknown { member: "twin".to_owned(), doing: "a call", why: "lost".to_owned() }
}

impl Store for Twin {
    fn transact(&mut self, transaction: &Transaction) -> Result<Outcome, EtcdError> {
        if !self.begin() {
            return Ok(self.shared().apply(transaction));
        }
        match self.dice.random_range(0..3) {
            0 => {}
            1 => drop(self.shared().apply(transaction)),
            _ => self.shared().late.push(transaction.clone()),
        }
        Err(silent())
    }

    fn get(&mut self, key: &[u8]) -> Result<Option<KeyValue>, EtcdError> {
        if self.begin() { Err(silent()) } else { Ok(self.shared().keys.get(key).cloned()) }
    }

    fn page(&mut self, from: &[u8], until: &[u8], limit: u32) -> Result<Page, EtcdError> {
        if self.begin() {
            return Err(silent());
        }
        let shared = self.shared();
        let range = shared.keys.range(from.to_vec()..until.to_vec());
        let mut keys: Vec<KeyValue> = range.map(|(_, known)| known.clone()).collect();
        let more = keys.len() > limit as usize;
        keys.truncate(limit as usize);
        Ok(Page { keys, more, revision: shared.revision })
    }

    fn wait(&mut self, failures: u32) -> bool {
        failures < 100
    }
}
