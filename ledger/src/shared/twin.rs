//! A twin of etcd in memory, for simulations: strictly serializable, with answers that are lost and transactions that land late.
//!
//! Leases do not end by themselves: whoever drives the simulation says when one ends, which may be too early.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use coalloc_etcd::{Change, Condition, EtcdError, KeyValue, Outcome, Page, Transaction};
use rand::rngs::SmallRng;
use rand::{RngExt as _, SeedableRng as _};

use super::store::Store;

/// What all clients of the twin share.
#[derive(Debug, Default)]
struct Shared {
    keys: BTreeMap<Vec<u8>, KeyValue>,
    revision: i64,
    /// Transactions that may land at any time, or never.
    late: Vec<Transaction>,
    /// Of a thousand calls, so many go wrong.
    faults: u32,
    /// What others have in the store.
    bytes_of_others: u64,
    /// A planted bug: no condition is looked at.
    compares_nothing: bool,
}

/// One client of the twin.
#[derive(Debug, Clone)]
pub struct EtcdTwin {
    shared: Arc<Mutex<Shared>>,
    dice: SmallRng,
    /// Nothing goes wrong with its calls.
    is_observer: bool,
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

impl EtcdTwin {
    /// An empty store. Of a thousand calls, so many `faults` go wrong.
    #[must_use]
    pub fn new(seed: u64, faults: u32) -> Self {
        let shared = Shared { faults, ..Shared::default() };
        let dice = SmallRng::seed_from_u64(seed);
        Self { shared: Arc::new(Mutex::new(shared)), dice, is_observer: false }
    }

    /// A planted bug: from now on no transaction's conditions are looked at.
    pub fn compare_nothing(&self) {
        self.shared().compares_nothing = true;
    }

    /// Another client.
    #[must_use]
    pub fn client(&mut self) -> Self {
        let dice = SmallRng::seed_from_u64(self.dice.random());
        Self { shared: Arc::clone(&self.shared), dice, is_observer: false }
    }

    /// A client with whose calls nothing goes wrong, and that changes nothing for the others.
    #[must_use]
    pub fn observer(&self) -> Self {
        Self { is_observer: true, ..self.clone() }
    }

    /// Of a thousand calls, so many go wrong from now on. With 0, what is still late never lands.
    pub fn set_faults(&self, faults: u32) {
        let mut shared = self.shared();
        shared.faults = faults;
        if faults == 0 {
            shared.late.clear();
        }
    }

    /// The lease of a key ends.
    pub fn expire(&self, key: &[u8]) {
        let mut shared = self.shared();
        shared.revision += 1;
        shared.keys.remove(key);
    }

    /// Others fill the store with so many bytes.
    pub fn fill(&self, bytes: u64) {
        self.shared().bytes_of_others = bytes;
    }

    /// All keys.
    #[must_use]
    pub fn keys(&self) -> Vec<String> {
        let shared = self.shared();
        shared.keys.keys().map(|key| String::from_utf8_lossy(key).into_owned()).collect()
    }

    fn shared(&self) -> MutexGuard<'_, Shared> {
        self.shared.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What lands late lands now, or not yet, or never. Does the next call go wrong?
    fn begin(&mut self) -> bool {
        if self.is_observer {
            return false;
        }
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

impl Store for EtcdTwin {
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
        Ok(Page { keys, more })
    }

    fn bytes_in_use(&mut self) -> Result<u64, EtcdError> {
        if self.begin() {
            return Err(silent());
        }
        let shared = self.shared();
        let bytes = |known: &KeyValue| (known.key.len() + known.value.len()) as u64;
        Ok(shared.bytes_of_others + shared.keys.values().map(bytes).sum::<u64>())
    }

    fn wait(&mut self, failures: u32) -> bool {
        failures < 100
    }
}
