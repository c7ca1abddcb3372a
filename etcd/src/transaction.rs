//! A transaction: changes that are made together at one revision, if every condition holds.

use crate::client::KeyValue;
use crate::wire;
use crate::wire::compare::{CompareResult, CompareTarget, TargetUnion};
use crate::wire::{request_op, response_op};

/// What must be so for a transaction to change anything.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Condition {
    /// The key is there and has this value. Its revision does not matter: a change that was sent twice may have been made twice.
    Value {
        /// The key.
        key: Vec<u8>,
        /// Its value.
        value: Vec<u8>,
    },
    /// The key was made at this revision, and was never deleted since.
    MadeAt {
        /// The key.
        key: Vec<u8>,
        /// The revision of the store.
        revision: i64,
    },
    /// The key is not there.
    Absent {
        /// The key.
        key: Vec<u8>,
    },
}

/// What a transaction changes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Change {
    /// The key has this value from now on.
    Put {
        /// The key.
        key: Vec<u8>,
        /// Its value.
        value: Vec<u8>,
        /// The lease whose end deletes the key; `None`: it stays.
        lease: Option<i64>,
    },
    /// The keys from `from` up to `until`, without that one, are there no longer.
    Delete {
        /// The first key.
        from: Vec<u8>,
        /// The first key that stays.
        until: Vec<u8>,
    },
}

/// Changes, the conditions for them, and what is read if one of these does not hold.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Transaction {
    /// All of them must hold.
    pub conditions: Vec<Condition>,
    /// Made together, or not at all. At most 128, unless the members are configured otherwise, and none of two with the same key.
    pub changes: Vec<Change>,
    /// Keys to read when a condition does not hold.
    pub otherwise: Vec<Vec<u8>>,
}

/// What became of a transaction.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// The changes were made.
    Done {
        /// The revision of the store that has them.
        revision: i64,
    },
    /// A condition did not hold, and nothing was changed.
    NotDone {
        /// What the keys of [`Transaction::otherwise`] have, in their order.
        found: Vec<Option<KeyValue>>,
    },
}

impl From<Condition> for wire::Compare {
    fn from(condition: Condition) -> Self {
        let (key, target, wanted) = match condition {
            Condition::Value { key, value } => {
                (key, CompareTarget::Value, TargetUnion::Value(value))
            }
            Condition::MadeAt { key, revision } => {
                (key, CompareTarget::Create, TargetUnion::CreateRevision(revision))
            }
            Condition::Absent { key } => {
                (key, CompareTarget::Create, TargetUnion::CreateRevision(0))
            }
        };
        let result = CompareResult::Equal.into();
        Self { result, target: target.into(), key, target_union: Some(wanted) }
    }
}

impl From<Change> for wire::RequestOp {
    fn from(change: Change) -> Self {
        let request = match change {
            Change::Put { key, value, lease } => {
                let lease = lease.unwrap_or_default();
                request_op::Request::RequestPut(wire::PutRequest { key, value, lease })
            }
            Change::Delete { from: key, until: range_end } => {
                let request = wire::DeleteRangeRequest { key, range_end };
                request_op::Request::RequestDeleteRange(request)
            }
        };
        Self { request: Some(request) }
    }
}

impl From<Transaction> for wire::TxnRequest {
    fn from(Transaction { conditions, changes, otherwise }: Transaction) -> Self {
        let read = |key| {
            let range = wire::RangeRequest { key, ..wire::RangeRequest::default() };
            wire::RequestOp { request: Some(request_op::Request::RequestRange(range)) }
        };
        Self {
            compare: conditions.into_iter().map(Into::into).collect(),
            success: changes.into_iter().map(Into::into).collect(),
            failure: otherwise.into_iter().map(read).collect(),
        }
    }
}

impl Outcome {
    /// The outcome in etcd's answer; `None` if that is no answer to a transaction that reads so many keys otherwise.
    pub(crate) fn of(answer: wire::TxnResponse, otherwise: usize) -> Option<Self> {
        if answer.succeeded {
            return Some(Self::Done { revision: answer.header?.revision });
        }
        let found = |op: wire::ResponseOp| match op.response? {
            response_op::Response::ResponseRange(range) => {
                Some(range.kvs.into_iter().next().map(KeyValue::from))
            }
            response_op::Response::ResponsePut(_)
            | response_op::Response::ResponseDeleteRange(_) => None,
        };
        let found: Option<Vec<_>> = answer.responses.into_iter().map(found).collect();
        found.filter(|found| found.len() == otherwise).map(|found| Self::NotDone { found })
    }
}
