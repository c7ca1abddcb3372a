//! What a snapshot keeps of a transaction: exactly what the records say of it.
//!
//! A running coordinator knows more: who has answered, when it sends again, when holds end. No record says these, and a restart
//! forgets them, whether it reads records or a snapshot. So a stored transaction is a type of its own.

use std::collections::BTreeMap;

use coalloc_common::{
    BootTime, Now, ReservationId, RmName, Segment, Span, Time, TransactionId, limits,
};
use serde::{Deserialize, Serialize};

use super::{Party, Promise, Transaction, TransactionGoal, last_end};
use crate::message::{GrantedServers, ServerWish};

/// A transaction in a snapshot.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(in crate::coordinator) struct StoredTransaction {
    reservation: ReservationId,
    goal: TransactionGoal,
    #[serde(skip_serializing_if = "std::ops::Not::not", default)]
    done: bool,
    opened: BootTime,
    parties: BTreeMap<RmName, StoredParty>,
    #[serde(skip_serializing_if = "std::ops::Not::not", default)]
    one_by_one: bool,
    #[serde(skip_serializing_if = "std::ops::Not::not", default)]
    one_way: bool,
    #[serde(skip_serializing_if = "std::ops::Not::not", default)]
    manual_provision: bool,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    promise: Option<StoredPromise>,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    replaces: Option<TransactionId>,
    #[serde(skip_serializing_if = "std::ops::Not::not", default)]
    mends: bool,
    #[serde(skip_serializing_if = "std::ops::Not::not", default)]
    superseded: bool,
}

/// One RM of a transaction in a snapshot.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct StoredParty {
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    segments: Vec<Segment>,
    /// `None` with segments in what earlier releases have stored.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    until: Option<Time>,
    #[serde(skip_serializing_if = "is_zero", default)]
    turn: usize,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    old: Option<TransactionId>,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    wish: Option<ServerWish>,
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    granted: Vec<GrantedServers>,
    #[serde(skip_serializing_if = "std::ops::Not::not", default)]
    given_up: bool,
}

/// A promise to the parent in a snapshot.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct StoredPromise {
    since: Now,
    boot: String,
    expires_in: Span,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
const fn is_zero(turn: &usize) -> bool {
    *turn == 0
}

impl Transaction {
    /// What a snapshot keeps of it.
    pub(in crate::coordinator) fn stored(&self) -> StoredTransaction {
        // Until a decision or a promise, only the answers to Hold say which servers there are, and a decision for no
        // does not record them. An attempt to mend has the promise of another one.
        let granted = match self.goal {
            TransactionGoal::Hold => false,
            TransactionGoal::Abort => self.promise.is_some() && !self.mends,
            TransactionGoal::Prepared | TransactionGoal::Commit | TransactionGoal::Release => true,
        };
        let stored = |party: &Party| StoredParty {
            segments: party.segments.clone(),
            until: party.until,
            turn: party.turn,
            old: party.old.clone(),
            wish: party.wish.clone(),
            granted: if granted { party.granted.clone() } else { Vec::new() },
            given_up: party.given_up,
        };
        StoredTransaction {
            reservation: self.reservation.clone(),
            goal: self.goal,
            done: self.done,
            opened: self.opened,
            parties: self.parties.iter().map(|(rm, party)| (rm.clone(), stored(party))).collect(),
            one_by_one: self.one_by_one,
            one_way: self.one_way,
            manual_provision: self.manual_provision,
            promise: self.promise.as_ref().map(|promise| StoredPromise {
                since: promise.since,
                boot: promise.boot.clone(),
                expires_in: promise.expires_in,
            }),
            replaces: self.replaces.clone(),
            mends: self.mends,
            superseded: self.superseded,
        }
    }
}

impl From<StoredTransaction> for Transaction {
    /// The transaction as the records say it is. The start of the core sets all clocks of those that are not finished.
    fn from(stored: StoredTransaction) -> Self {
        let answered = stored.done || stored.goal == TransactionGoal::Prepared;
        // Earlier releases kept what was held.
        let holds = stored.goal == TransactionGoal::Hold;
        let party = |party: StoredParty| Party {
            until: party.until.or_else(|| last_end(&party.segments)),
            segments: if holds { party.segments } else { Vec::new() },
            turn: party.turn,
            asked: false,
            old: party.old,
            answered: answered || party.given_up,
            given_up: party.given_up,
            refused: None,
            expires_at: None,
            wish: party.wish.filter(|_| holds),
            granted: party.granted,
            booked: false,
            send_at: BootTime::from_us(i64::MIN),
            pause: limits::RESEND_FIRST,
        };
        Self {
            reservation: stored.reservation,
            goal: stored.goal,
            done: stored.done,
            since: stored.opened,
            opened: stored.opened,
            parties: stored.parties.into_iter().map(|(rm, stored)| (rm, party(stored))).collect(),
            one_by_one: stored.one_by_one,
            one_way: stored.one_way,
            manual_provision: stored.manual_provision,
            left_behind: false,
            promise: stored.promise.map(|StoredPromise { since, boot, expires_in }| Promise {
                since,
                boot,
                expires_in,
                hard_at: since.boot.saturating_add(expires_in),
                // The start asks the parent at once.
                ask_at: since.boot,
                asked: 0,
            }),
            alarm: None,
            replaces: stored.replaces,
            mends: stored.mends,
            superseded: stored.superseded,
        }
    }
}
