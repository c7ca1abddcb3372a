//! What coordinators have sent to RMs, and that an RM records nothing on behalf of a coordinator which that one has not
//! asked for (I20, I21).
//!
//! The check compares durable records with what has left the coordinators, and so depends on neither cores nor
//! judgements. Left out: what a stolen key has been used for ([`exempt`](super::exempt)).

use std::collections::BTreeMap;

use coalloc_common::TransactionId;
use coalloc_protocol::coordinator::MessageKind;
use coalloc_protocol::message::{Cause, Message};
use coalloc_protocol::participant::ParticipantRecord;

use super::World;

/// The kinds of messages that coordinators have sent, as bits, by RM and transaction.
#[derive(Debug, Default)]
pub(super) struct SentLog(BTreeMap<(usize, TransactionId), u8>);

const fn bit(kind: MessageKind) -> u8 {
    1 << kind as u8
}

/// What may make an RM hold.
const HOLDS: u8 = bit(MessageKind::Hold);
/// What may make an RM book: a Hold books at once when it is one-way.
const BOOKS: u8 = bit(MessageKind::Commit) | bit(MessageKind::Hold);
/// What may make an RM end something: a Commit that comes too late does.
const ENDS: u8 = bit(MessageKind::Commit) | bit(MessageKind::Abort) | bit(MessageKind::Release);

impl SentLog {
    /// A coordinator sends a message to this RM.
    pub(super) fn note(&mut self, rm: usize, txn: &TransactionId, message: &Message) {
        *self.0.entry((rm, txn.clone())).or_default() |= bit(message.kind());
    }
}

impl World {
    /// Checks that the transaction's own coordinator has asked for what a record says that it caused.
    pub(super) fn check_asked_for(
        &self,
        rm: usize,
        record: &ParticipantRecord,
    ) -> Result<(), String> {
        let (txn, kinds, word) = match record {
            ParticipantRecord::Held { order, .. } => (&order.txn, HOLDS, "holds"),
            ParticipantRecord::Booked { txn, by: Cause::Coordinator(_), .. } => {
                (txn, BOOKS, "books")
            }
            ParticipantRecord::Ended { txn, by: Cause::Coordinator(_), .. } => (txn, ENDS, "ends"),
            _ => return Ok(()),
        };
        let sent = self.watch.sent.0.get(&(rm, txn.clone())).copied().unwrap_or_default();
        if sent & kinds != 0 || self.watch.exempt.is_stolen(txn) {
            return Ok(());
        }
        let name = &self.rms[rm].name;
        Err(format!("I21: {name} {word} {txn}, for which its coordinator has not asked"))
    }
}
