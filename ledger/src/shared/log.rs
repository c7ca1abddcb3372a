//! The log: leading, appending, reading, and giving up what everybody has.

mod format;

use coalloc_etcd::{Change, Condition, EtcdError, KeyValue, Outcome, Transaction};

use super::batch::{self, BatchValue};
use super::error::SharedLogError;
use super::keys::Keys;
use super::store::Store;
use crate::body::OwnedBody;
use crate::chain::{Chain, Hash};
use crate::identity::Identity;

/// Longest value: etcd takes requests of 1.5 MiB, and the rest of the transaction must fit, too.
const VALUE_BYTES_MAX: usize = 1 << 20;
/// Records whose batches are read together. etcd looks at every key of a range, so the range is narrow.
const READ_RECORDS: u64 = 4_096;
/// Batches that are read together, of at most [`VALUE_BYTES_MAX`] each.
const READ_BATCHES: u32 = 16;

/// Where a log ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SharedTip {
    /// The number of the last record; 0 without records.
    pub sequence: u64,
    /// Its hash in the chain.
    pub hash: [u8; 32],
    /// The epoch of the leader that has written it; 0 without records.
    pub epoch: i64,
}

impl SharedTip {
    fn encode(&self) -> Vec<u8> {
        format!("{} {} {}", self.sequence, crate::tip::hex(&self.hash), self.epoch).into_bytes()
    }

    fn decode(value: &[u8]) -> Option<Self> {
        let mut parts = std::str::from_utf8(value).ok()?.split(' ');
        let sequence = parts.next()?.parse().ok()?;
        let hash = crate::tip::unhex(parts.next()?)?;
        let epoch = parts.next()?.parse().ok()?;
        parts.next().is_none().then_some(Self { sequence, hash, epoch })
    }
}

/// Which ledger a log is of.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SharedLogId {
    /// The id with which the chain begins: 32 hexadecimal digits.
    pub chain: String,
    /// The id by which others know the ledger. It is another one if a backup of the ledger was restored.
    pub identity: String,
    /// The node that the ledger belongs to.
    pub node: Identity,
}

impl SharedLogId {
    /// That of a new ledger of a node.
    #[must_use]
    pub fn new(id: String, node: Identity) -> Self {
        Self { chain: id.clone(), identity: id, node }
    }

    fn encode(&self) -> Vec<u8> {
        let Self { chain, identity, node } = self;
        format!("{chain} {identity} {} {}", node.kind, node.name).into_bytes()
    }

    fn decode(value: &[u8]) -> Option<Self> {
        let mut parts = std::str::from_utf8(value).ok()?.splitn(4, ' ').map(str::to_owned);
        let (chain, identity) = (parts.next()?, parts.next()?);
        let node = Identity { kind: parts.next()?, name: parts.next()? };
        Some(Self { chain, identity, node })
    }
}

/// The end of a log without records.
fn beginning(id: &str) -> SharedTip {
    let chain = Chain::new(id);
    SharedTip { sequence: chain.last, hash: chain.tip, epoch: 0 }
}

/// One member's view of a shared log.
#[derive(Debug, Clone)]
pub struct SharedLog<S> {
    store: S,
    prefix: String,
    keys: Keys,
    id: SharedLogId,
    /// The last record that this member knows.
    tip: SharedTip,
    /// The epoch in which this member leads.
    epoch: Option<i64>,
    /// Has an append failed? Then it is unknown what has landed.
    failed: bool,
}

/// How an append ended.
enum Landing {
    Landed,
    /// Not yet: the tip is still the one before.
    NotYet,
}

impl<S: Store> SharedLog<S> {
    /// Opens the log below a prefix.
    ///
    /// # Errors
    /// [`SharedLogError`] when the store does not answer, or has something else there, or nothing.
    pub fn open(store: S, prefix: &str) -> Result<Self, SharedLogError> {
        let mut log = Self::closed(store, prefix);
        let Some(known) = log.get(&log.keys.id(), &mut 0)? else {
            return Err(SharedLogError::Missing { prefix: log.prefix });
        };
        let id = SharedLogId::decode(&known.value);
        log.id = id.ok_or_else(|| log.damaged("its id is not understood".to_owned()))?;
        log.tip = beginning(&log.id.chain);
        log.check_format()?;
        Ok(log)
    }

    /// Makes a log of a new ledger.
    ///
    /// # Errors
    /// As [`SharedLog::share`].
    pub fn create(store: S, prefix: &str, id: &SharedLogId) -> Result<(), SharedLogError> {
        let SharedTip { sequence, hash, .. } = beginning(&id.chain);
        Self::share(store, prefix, id, sequence, hash)
    }

    /// Makes a log that begins after the last record of a ledger. Its members begin with copies of that ledger.
    ///
    /// # Errors
    /// [`SharedLogError::Occupied`] when there is a log of another ledger, or with other records; or the store does not answer.
    pub fn share(
        store: S,
        prefix: &str,
        id: &SharedLogId,
        sequence: u64,
        hash: [u8; 32],
    ) -> Result<(), SharedLogError> {
        let mut log = Self::closed(store, prefix);
        let tip = SharedTip { sequence, hash, epoch: 0 };
        let mut tries = 0;
        let known = log.make(id, &tip, &mut tries)?;
        if known.value == id.encode() && log.tip_in_store(&mut tries)? == tip {
            return Ok(());
        }
        let found = SharedLogId::decode(&known.value);
        let found = found.map(|id| format!("{} {}", id.node, id.identity)).unwrap_or_default();
        Err(SharedLogError::Occupied { prefix: log.prefix, found })
    }

    /// Removes the log, which must end with this record, while nobody leads it.
    ///
    /// # Errors
    /// [`SharedLogError::NotAtEnd`] when it has other records or a leader; or the store does not answer, or has no such log.
    pub fn unshare(mut self, sequence: u64, hash: [u8; 32]) -> Result<(), SharedLogError> {
        let mut tries = 0;
        let tip = self.tip_in_store(&mut tries)?;
        let not_at_end = |log: &Self, why: String| {
            Err(SharedLogError::NotAtEnd { prefix: log.prefix.clone(), why })
        };
        if (tip.sequence, tip.hash) != (sequence, hash) {
            let last = tip.sequence;
            return not_at_end(&self, format!("it ends at record {last}, the copy at {sequence}"));
        }
        let (from, until) = self.keys.all();
        let transaction = Transaction {
            conditions: vec![
                Condition::Value { key: self.keys.tip(), value: tip.encode() },
                Condition::Absent { key: self.keys.leader() },
            ],
            changes: vec![Change::Delete { from, until }],
            otherwise: Vec::new(),
        };
        loop {
            match self.store.transact(&transaction) {
                Ok(Outcome::Done { .. }) => return Ok(()),
                Ok(Outcome::NotDone { .. }) => {
                    return not_at_end(&self, "a process leads it".to_owned());
                }
                Err(error) => self.wait_or_fail(&mut tries, error)?,
            }
            if self.get(&self.keys.id(), &mut tries)?.is_none() {
                return Ok(());
            }
        }
    }

    fn closed(store: S, prefix: &str) -> Self {
        let tip = SharedTip { sequence: 0, hash: Hash::default(), epoch: 0 };
        let (keys, prefix) = (Keys::new(prefix), prefix.to_owned());
        let node = Identity { kind: String::new(), name: String::new() };
        let id = SharedLogId::new(String::new(), node);
        Self { store, prefix, keys, id, tip, epoch: None, failed: false }
    }

    /// Makes the log, unless it is there. Returns the key of its id.
    fn make(
        &mut self,
        id: &SharedLogId,
        tip: &SharedTip,
        tries: &mut u32,
    ) -> Result<KeyValue, SharedLogError> {
        let put = |key, value| Change::Put { key, value, lease: None };
        let transaction = Transaction {
            conditions: vec![Condition::Absent { key: self.keys.id() }],
            changes: vec![put(self.keys.id(), id.encode()), put(self.keys.tip(), tip.encode())],
            otherwise: Vec::new(),
        };
        loop {
            if let Err(error) = self.store.transact(&transaction) {
                self.wait_or_fail(tries, error)?;
            }
            // Whatever became of it, the key says whose id it is.
            if let Some(known) = self.get(&self.keys.id(), tries)? {
                return Ok(known);
            }
        }
    }

    /// The ledger.
    #[must_use]
    pub const fn id(&self) -> &SharedLogId {
        &self.id
    }

    /// The log, for people.
    #[must_use]
    pub fn prefix(&self) -> &str {
        &self.prefix
    }

    /// Who leads: what its process said of itself; `None` if nobody does.
    ///
    /// # Errors
    /// [`SharedLogError`] when the store does not answer.
    pub fn leader(&mut self) -> Result<Option<String>, SharedLogError> {
        let leader = self.get(&self.keys.leader(), &mut 0)?;
        Ok(leader.map(|leader| String::from_utf8_lossy(&leader.value).into_owned()))
    }

    /// The last record that this member knows.
    #[must_use]
    pub const fn tip(&self) -> SharedTip {
        self.tip
    }

    /// The epoch in which this member leads, as far as it knows.
    #[must_use]
    pub const fn epoch(&self) -> Option<i64> {
        self.epoch
    }

    /// Goes on after a record that this member has in its own copy of the log.
    pub const fn set_known(&mut self, sequence: u64, hash: [u8; 32]) {
        self.tip.sequence = sequence;
        self.tip.hash = hash;
    }

    /// Tries to lead, with a lease whose end lets others try. `member` must be another one for every process. Returns whether this
    /// member leads. It may append once it has read everything up to the tip.
    ///
    /// # Errors
    /// [`SharedLogError`] when the store does not say who leads.
    pub fn lead(&mut self, member: &str, lease: i64) -> Result<bool, SharedLogError> {
        let key = self.keys.leader();
        let leader = Change::Put { key: key.clone(), value: member.into(), lease: Some(lease) };
        let transaction = Transaction {
            conditions: vec![Condition::Absent { key: key.clone() }],
            changes: vec![leader],
            otherwise: vec![key.clone()],
        };
        self.epoch = None;
        if self.failed {
            return Err(self.not_leading("an append has failed".to_owned()));
        }
        let mut tries = 0;
        loop {
            let found = match self.store.transact(&transaction) {
                // The key is made by this very transaction.
                Ok(Outcome::Done { revision }) => {
                    self.epoch = Some(revision);
                    return Ok(true);
                }
                Ok(Outcome::NotDone { found }) => found.into_iter().next().flatten(),
                Err(error) => {
                    self.wait_or_fail(&mut tries, error)?;
                    match self.store.get(&key) {
                        Ok(found) => found,
                        Err(error) => {
                            self.wait_or_fail(&mut tries, error)?;
                            continue;
                        }
                    }
                }
            };
            match found {
                Some(leader) if leader.value == member.as_bytes() => {
                    self.epoch = Some(leader.made_at);
                    return Ok(true);
                }
                Some(_) => return Ok(false),
                // Nobody leads: it may still land, or be sent again.
                None => {}
            }
        }
    }

    /// Reads the next records after the tip that this member knows, and takes them as known; empty when there are none.
    ///
    /// # Errors
    /// [`SharedLogError`] when the store does not answer, or the records do not follow the ones that are known.
    pub fn read_next(&mut self) -> Result<Vec<OwnedBody>, SharedLogError> {
        let mut tries = 0;
        let end = self.tip_in_store(&mut tries)?;
        if end.sequence == self.tip.sequence {
            if end.hash != self.tip.hash {
                return Err(self.damaged(format!("record {} is another one here", end.sequence)));
            }
            self.tip = end;
            return Ok(Vec::new());
        }
        let first = self.tip.sequence + 1;
        if end.sequence < first {
            let why = format!("it ends at record {}, before {}", end.sequence, self.tip.sequence);
            return Err(self.damaged(why));
        }
        let (from, until) = (self.keys.log(first), self.keys.log(first + READ_RECORDS));
        let page = loop {
            match self.store.page(&from, &until, READ_BATCHES) {
                Ok(page) => break page,
                Err(error) => self.wait_or_fail(&mut tries, error)?,
            }
        };
        let mut chain = Chain { last: self.tip.sequence, tip: self.tip.hash };
        let mut all = Vec::new();
        for batch in page.keys {
            if self.keys.first(&batch.key) != Some(chain.last + 1) {
                break;
            }
            let bodies = self.bodies(chain.last + 1, &batch, &mut tries)?;
            bodies.iter().for_each(|body| chain.append(body.as_body()));
            all.extend(bodies);
        }
        if all.is_empty() {
            return Err(SharedLogError::Trimmed { prefix: self.prefix.clone(), wanted: first });
        }
        if chain.last == end.sequence && chain.tip != end.hash {
            return Err(
                self.damaged(format!("record {} has another hash than the tip", end.sequence))
            );
        }
        let epoch = if chain.last == end.sequence { end.epoch } else { self.tip.epoch };
        self.tip = SharedTip { sequence: chain.last, hash: chain.tip, epoch };
        Ok(all)
    }

    fn bodies(
        &mut self,
        first: u64,
        batch: &KeyValue,
        tries: &mut u32,
    ) -> Result<Vec<OwnedBody>, SharedLogError> {
        let damaged = |log: &Self, why: String| {
            log.damaged(format!("the batch of record {first} is not understood: {why}"))
        };
        let value = minicbor::decode(&batch.value);
        let bytes = match value.map_err(|error| damaged(self, error.to_string()))? {
            BatchValue::Whole(bytes) => bytes.into(),
            BatchValue::Chunked { epoch, chunks } => {
                let mut bytes = Vec::new();
                for number in 0..chunks {
                    let key = self.keys.chunk(first, epoch, number);
                    let chunk = self.get(&key, tries)?;
                    let missing = || format!("chunk {number} of {chunks} is missing");
                    let chunk = chunk.ok_or_else(|| damaged(self, missing()))?;
                    bytes.extend(chunk.value);
                }
                bytes
            }
        };
        batch::decode(&bytes).map_err(|why| damaged(self, why))
    }

    /// Appends records: all or none, and durable at a majority of the store's members when this returns.
    ///
    /// # Errors
    /// Whatever the error is, the records may be in the log, and the process must end (I16). This value neither appends nor leads any
    /// more: what is still under way must not meet other records of the same epoch.
    pub fn append(&mut self, bodies: &[OwnedBody]) -> Result<(), SharedLogError> {
        let Some(epoch) = self.epoch.filter(|_| !self.failed) else {
            let why = if self.failed { "an append has failed" } else { "it has not tried to" };
            return Err(self.not_leading(why.to_owned()));
        };
        let appended = self.append_in(epoch, bodies);
        self.failed = appended.is_err();
        appended
    }

    fn append_in(&mut self, epoch: i64, bodies: &[OwnedBody]) -> Result<(), SharedLogError> {
        if bodies.is_empty() {
            return Ok(());
        }
        let mut tries = 0;
        let first = self.tip.sequence + 1;
        let value = self.write_long(first, epoch, batch::encode(bodies), &mut tries)?;
        let mut chain = Chain { last: self.tip.sequence, tip: self.tip.hash };
        bodies.iter().for_each(|body| chain.append(body.as_body()));
        let next = SharedTip { sequence: chain.last, hash: chain.tip, epoch };
        let put = |key, value| Change::Put { key, value, lease: None };
        let transaction = Transaction {
            conditions: vec![
                Condition::Value { key: self.keys.tip(), value: self.tip.encode() },
                Condition::MadeAt { key: self.keys.leader(), revision: epoch },
            ],
            changes: vec![put(self.keys.log(first), value), put(self.keys.tip(), next.encode())],
            otherwise: vec![self.keys.tip()],
        };
        loop {
            let landing = match self.store.transact(&transaction) {
                Ok(Outcome::Done { .. }) => Landing::Landed,
                Ok(Outcome::NotDone { found }) => {
                    let tip = found.into_iter().next().flatten();
                    match self.landing(&next, tip)? {
                        Landing::Landed => Landing::Landed,
                        // So it was the leader's key that did not hold.
                        Landing::NotYet => {
                            return Err(self.not_leading("its lease has ended".to_owned()));
                        }
                    }
                }
                Err(error) => {
                    self.wait_or_fail(&mut tries, error)?;
                    let tip = self.get(&self.keys.tip(), &mut tries)?;
                    self.landing(&next, tip)?
                }
            };
            if let Landing::Landed = landing {
                self.tip = next;
                return Ok(());
            }
        }
    }

    /// Writes a value in parts if it is too long for one. Returns the value of the batch.
    fn write_long(
        &mut self,
        first: u64,
        epoch: i64,
        bytes: Vec<u8>,
        tries: &mut u32,
    ) -> Result<Vec<u8>, SharedLogError> {
        let value = if bytes.len() <= VALUE_BYTES_MAX {
            BatchValue::Whole(bytes.into())
        } else {
            let mut chunks = 0;
            for chunk in bytes.chunks(VALUE_BYTES_MAX) {
                let key = self.keys.chunk(first, epoch, chunks);
                self.write_as_leader(key, chunk, epoch, tries)?;
                chunks += 1;
            }
            BatchValue::Chunked { epoch, chunks }
        };
        // Writing to memory does not fail.
        Ok(minicbor::to_vec(value).unwrap_or_default())
    }

    /// Writes a key if this member leads. It may be written twice.
    fn write_as_leader(
        &mut self,
        key: Vec<u8>,
        value: &[u8],
        epoch: i64,
        tries: &mut u32,
    ) -> Result<(), SharedLogError> {
        let transaction = Transaction {
            conditions: vec![Condition::MadeAt { key: self.keys.leader(), revision: epoch }],
            changes: vec![Change::Put { key, value: value.to_owned(), lease: None }],
            otherwise: Vec::new(),
        };
        loop {
            match self.store.transact(&transaction) {
                Ok(Outcome::Done { .. }) => return Ok(()),
                Ok(Outcome::NotDone { .. }) => {
                    return Err(self.not_leading("its lease has ended".to_owned()));
                }
                Err(error) => self.wait_or_fail(tries, error)?,
            }
        }
    }

    /// What the tip says of an append that would make it `next`.
    fn landing(&self, next: &SharedTip, tip: Option<KeyValue>) -> Result<Landing, SharedLogError> {
        let tip = tip.and_then(|tip| SharedTip::decode(&tip.value));
        match tip {
            Some(tip) if tip == *next => Ok(Landing::Landed),
            Some(tip) if tip == self.tip => Ok(Landing::NotYet),
            Some(SharedTip { sequence, epoch, .. }) => {
                let why = format!("record {sequence} was written in epoch {epoch}");
                Err(self.not_leading(why))
            }
            None => Err(self.damaged("it has no tip".to_owned())),
        }
    }

    /// Says that all records up to this one are durable at a member.
    ///
    /// # Errors
    /// [`SharedLogError`] when the store does not answer. It may be said later.
    pub fn say_seen(&mut self, member: &str, sequence: u64) -> Result<(), SharedLogError> {
        let value = sequence.to_string().into_bytes();
        let put = Change::Put { key: self.keys.seen(member), value, lease: None };
        let transaction = Transaction { changes: vec![put], ..Transaction::default() };
        self.store.transact(&transaction).map(drop).map_err(|source| self.unusable(source))
    }

    /// The last record that is durable at all of these members; 0 if one of them has never said so.
    ///
    /// # Errors
    /// [`SharedLogError`] when the store does not answer.
    pub fn seen_by_all(&mut self, members: &[String]) -> Result<u64, SharedLogError> {
        let (mut tries, mut least) = (0, u64::MAX);
        for member in members {
            let seen = self.get(&self.keys.seen(member), &mut tries)?;
            let text = seen.and_then(|seen| String::from_utf8(seen.value).ok());
            least = least.min(text.and_then(|text| text.parse().ok()).unwrap_or(0));
        }
        Ok(if members.is_empty() { 0 } else { least })
    }

    /// How many bytes the store has in use, whoever uses them.
    ///
    /// # Errors
    /// [`SharedLogError`] when the store does not answer.
    pub fn store_bytes(&mut self) -> Result<u64, SharedLogError> {
        self.store.bytes_in_use().map_err(|source| self.unusable(source))
    }

    /// Gives up the records up to this one, and the rest of its batch.
    ///
    /// # Errors
    /// [`SharedLogError`] when the store does not answer. It may be done later.
    pub fn trim(&mut self, sequence: u64) -> Result<(), SharedLogError> {
        let (from, until) = (self.keys.log(0), self.keys.log(sequence + 1));
        let oldest = self.store.page(&from, &until, 1);
        let oldest = oldest.map_err(|source| self.unusable(source))?.keys;
        let first = oldest.first().and_then(|batch| self.keys.first(&batch.key));
        let Some(mut stays) = first else { return Ok(()) };
        // In steps: a store that deletes very many keys at once does nothing else meanwhile.
        while stays <= sequence {
            stays = (stays + READ_RECORDS).min(sequence + 1);
            let (chunks, kept_chunks) = (self.keys.chunks_of(0), self.keys.chunks_of(stays));
            let transaction = Transaction {
                changes: vec![
                    Change::Delete { from: self.keys.log(0), until: self.keys.log(stays) },
                    Change::Delete { from: chunks, until: kept_chunks },
                ],
                ..Transaction::default()
            };
            let trimmed = self.store.transact(&transaction);
            trimmed.map_err(|source| self.unusable(source))?;
        }
        Ok(())
    }

    /// The tip that the store has now.
    fn tip_in_store(&mut self, tries: &mut u32) -> Result<SharedTip, SharedLogError> {
        let tip = self.get(&self.keys.tip(), tries)?;
        let tip = tip.and_then(|tip| SharedTip::decode(&tip.value));
        tip.ok_or_else(|| self.damaged("it has no tip".to_owned()))
    }

    /// What a key has, asked for until the store answers.
    fn get(&mut self, key: &[u8], tries: &mut u32) -> Result<Option<KeyValue>, SharedLogError> {
        loop {
            match self.store.get(key) {
                Ok(found) => return Ok(found),
                Err(error) => self.wait_or_fail(tries, error)?,
            }
        }
    }

    /// Waits until a call that has failed may be made again.
    fn wait_or_fail(&mut self, tries: &mut u32, source: EtcdError) -> Result<(), SharedLogError> {
        if !source.is_unknown() {
            return Err(self.unusable(source));
        }
        *tries += 1;
        if self.store.wait(*tries) {
            return Ok(());
        }
        Err(SharedLogError::Unknown { prefix: self.prefix.clone(), source })
    }

    fn unusable(&self, source: EtcdError) -> SharedLogError {
        SharedLogError::Store { prefix: self.prefix.clone(), source }
    }

    fn not_leading(&self, why: String) -> SharedLogError {
        SharedLogError::NotLeading { prefix: self.prefix.clone(), why }
    }

    fn damaged(&self, why: String) -> SharedLogError {
        SharedLogError::Damaged { prefix: self.prefix.clone(), why }
    }
}
