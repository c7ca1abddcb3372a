//! The calls.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tonic::transport::Channel;
use tonic::{Response, Status};

use crate::error::EtcdError;
use crate::transaction::{Outcome, Transaction};
use crate::wire;
use crate::wire::kv_client::KvClient;
use crate::wire::lease_client::LeaseClient;
use crate::wire::maintenance_client::MaintenanceClient;

/// Longest answer that is read. A page of a range has as many values as its caller asks for, of up to 1.5 MiB each.
const ANSWER_BYTES_MAX: usize = 64 << 20;

/// A key, and what it has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeyValue {
    /// The key.
    pub key: Vec<u8>,
    /// Its value.
    pub value: Vec<u8>,
    /// The revision of the store at which the key was made.
    pub made_at: i64,
}

impl From<wire::KeyValue> for KeyValue {
    fn from(wire::KeyValue { key, value, create_revision, .. }: wire::KeyValue) -> Self {
        Self { key, value, made_at: create_revision }
    }
}

/// Some keys of a range, in order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Page {
    /// The keys.
    pub keys: Vec<KeyValue>,
    /// Are there more in the range?
    pub more: bool,
}

/// A lease: its keys are deleted when it ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Lease {
    /// Its id.
    pub id: i64,
    /// How long it lasts from the moment at which etcd answered; at least as long as was asked for.
    pub lasts: Duration,
}

/// What a member of an etcd cluster says of itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MemberStatus {
    /// Its version, for people.
    pub version: String,
    /// Does the cluster have a leader, as far as it knows?
    pub has_leader: bool,
    /// Bytes of its database that are in use, history included.
    pub bytes_in_use: u64,
}

/// The members of an etcd cluster. Clones share what is known of them.
#[derive(Debug, Clone)]
pub struct Etcd {
    members: Arc<[(String, Channel)]>,
    /// The member to call next: the one that has answered last.
    next: Arc<AtomicUsize>,
    patience: Duration,
}

impl Etcd {
    /// A client of these members, each with its name for people; at least one. A call waits for an answer for `patience`.
    #[must_use]
    pub fn new(members: Vec<(String, Channel)>, patience: Duration) -> Self {
        Self { members: members.into(), next: Arc::default(), patience }
    }

    /// Makes a call to one member.
    async fn once<T>(
        &self,
        doing: &'static str,
        call: impl AsyncFnOnce(Channel) -> Result<Response<T>, Status>,
    ) -> Result<(String, T), EtcdError> {
        let number = self.next.load(Ordering::Relaxed);
        let Some((name, channel)) = self.members.get(number % self.members.len().max(1)) else {
            return Err(EtcdError::odd("no address", doing, "no member is configured"));
        };
        let answer = tokio::time::timeout(self.patience, call(channel.clone())).await;
        let error = match answer {
            Ok(Ok(answer)) => return Ok((name.clone(), answer.into_inner())),
            Ok(Err(status)) => EtcdError::new(name, doing, &status),
            Err(_) => EtcdError::silent(name, doing, self.patience),
        };
        if error.is_unknown() {
            // Whoever else failed at the same member moves on to the same next one.
            let next = number.wrapping_add(1);
            let moved = (Ordering::Relaxed, Ordering::Relaxed);
            let _ = self.next.compare_exchange(number, next, moved.0, moved.1);
        }
        Err(error)
    }

    /// Makes a call that changes nothing, to one member after the other until one answers.
    async fn any<T>(
        &self,
        doing: &'static str,
        call: impl AsyncFn(Channel) -> Result<Response<T>, Status>,
    ) -> Result<(String, T), EtcdError> {
        let mut left = self.members.len();
        loop {
            left = left.saturating_sub(1);
            match self.once(doing, &call).await {
                Err(error) if error.is_unknown() && left > 0 => {
                    tracing::debug!(%error, "asking the next member");
                }
                end => return end,
            }
        }
    }

    /// Does a transaction. It is sent once.
    ///
    /// # Errors
    /// [`EtcdError::Unknown`] when it may have been done.
    pub async fn transact(&self, transaction: Transaction) -> Result<Outcome, EtcdError> {
        let (doing, otherwise) = ("do a transaction", transaction.otherwise.len());
        let request = wire::TxnRequest::from(transaction);
        let call = async |channel| {
            KvClient::new(channel).max_decoding_message_size(ANSWER_BYTES_MAX).txn(request).await
        };
        let (member, answer) = self.once(doing, call).await?;
        let odd = || EtcdError::odd(&member, doing, "the answer is none to this transaction");
        Outcome::of(answer, otherwise).ok_or_else(odd)
    }

    /// What a key has now; `None` if it is not there. Linearizable: it shows every transaction that was done before the call.
    ///
    /// # Errors
    /// [`EtcdError`] when no member answers.
    pub async fn get(&self, key: &[u8]) -> Result<Option<KeyValue>, EtcdError> {
        let request = wire::RangeRequest { key: key.to_owned(), ..wire::RangeRequest::default() };
        let (_, answer) = self.range("read a key", request).await?;
        Ok(answer.kvs.into_iter().next().map(KeyValue::from))
    }

    /// The first keys from `from` up to `until`, without that one: at most `limit`. Linearizable.
    ///
    /// etcd looks at all keys of the range for this, and not only at those that it returns. So the range should not have many more
    /// than `limit`.
    ///
    /// # Errors
    /// [`EtcdError`] when no member answers.
    pub async fn page(&self, from: &[u8], until: &[u8], limit: u32) -> Result<Page, EtcdError> {
        let request = wire::RangeRequest {
            key: from.to_owned(),
            range_end: until.to_owned(),
            limit: limit.into(),
            keys_only: false,
        };
        let (_, answer) = self.range("read a range", request).await?;
        Ok(Page { keys: answer.kvs.into_iter().map(KeyValue::from).collect(), more: answer.more })
    }

    async fn range(
        &self,
        doing: &'static str,
        request: wire::RangeRequest,
    ) -> Result<(String, wire::RangeResponse), EtcdError> {
        let call = async |channel| {
            KvClient::new(channel)
                .max_decoding_message_size(ANSWER_BYTES_MAX)
                .range(request.clone())
                .await
        };
        self.any(doing, call).await
    }

    /// A new lease of at least so many seconds.
    ///
    /// # Errors
    /// [`EtcdError::Unknown`] when there may be one. It ends by itself.
    pub async fn grant(&self, seconds: u32) -> Result<Lease, EtcdError> {
        let (ttl, doing) = (i64::from(seconds), "grant a lease");
        let request = wire::LeaseGrantRequest { ttl, id: 0 };
        let call = async |channel| LeaseClient::new(channel).lease_grant(request).await;
        let (member, answer) = self.once(doing, call).await?;
        lease(answer.id, answer.ttl).ok_or_else(|| EtcdError::odd(&member, doing, &answer.error))
    }

    /// Renews a lease; `None` if it has ended.
    ///
    /// # Errors
    /// [`EtcdError`] when no member answers. The lease may be renewed or not.
    pub async fn renew(&self, id: i64) -> Result<Option<Lease>, EtcdError> {
        let call = async |channel| {
            let once = tokio_stream::once(wire::LeaseKeepAliveRequest { id });
            let answers = LeaseClient::new(channel).lease_keep_alive(once).await?;
            let next = answers.into_inner().message().await?;
            next.map(Response::new).ok_or_else(|| Status::unknown("no answer to the renewal"))
        };
        let (_, answer) = self.any("renew a lease", call).await?;
        Ok(lease(answer.id, answer.ttl))
    }

    /// Ends a lease, and with it its keys.
    ///
    /// # Errors
    /// [`EtcdError::Refused`] if there is none, [`EtcdError::Unknown`] when it may have ended.
    pub async fn revoke(&self, id: i64) -> Result<(), EtcdError> {
        let request = wire::LeaseRevokeRequest { id };
        let call = async |channel| LeaseClient::new(channel).lease_revoke(request).await;
        self.once("end a lease", call).await.map(drop)
    }

    /// What one member says of itself.
    ///
    /// # Errors
    /// [`EtcdError`] when no member answers.
    pub async fn status(&self) -> Result<MemberStatus, EtcdError> {
        let call =
            async |channel| MaintenanceClient::new(channel).status(wire::StatusRequest {}).await;
        let (_, answer) = self.any("say its status", call).await?;
        Ok(MemberStatus {
            version: answer.version,
            has_leader: answer.leader != 0,
            bytes_in_use: answer.db_size_in_use.try_into().unwrap_or(0),
        })
    }
}

/// A lease as etcd answers; `None` if it has ended.
fn lease(id: i64, ttl: i64) -> Option<Lease> {
    let seconds = u64::try_from(ttl).ok().filter(|seconds| *seconds > 0)?;
    Some(Lease { id, lasts: Duration::from_secs(seconds) })
}
