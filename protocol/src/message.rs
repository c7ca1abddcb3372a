//! What a coordinator and a participant say to each other. Every message is safe to send twice.

use coalloc_common::{CoordinatorName, Refusal, RmName, Segment, Span, TransactionId, UserName};
use serde::{Deserialize, Serialize};

/// Phase one: keep these segments. The content of a transaction at one RM.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct HoldOrder {
    /// Whose decision it will follow.
    pub txn: TransactionId,
    /// Who asks, and who will be asked by Resolve.
    pub coordinator: CoordinatorName,
    /// For whom.
    pub user: UserName,
    /// What to keep; never empty unless it replaces something: then nothing is needed here any more.
    pub segments: Vec<Segment>,
    /// Ask Resolve after this long; `None` is the RM's own setting. An interval: clocks differ.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub hold_for: Option<Span>,
    /// Whose booking here this is a new version of; `None` is a booking of its own. Until Commit both
    /// are kept, what they share counted once.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub replaces: Option<TransactionId>,
    /// What the new version does without stays kept after Commit, until the old transaction is released: a version
    /// that one RM is too late to book can then be taken back. Only with `replaces`.
    #[serde(skip_serializing_if = "std::ops::Not::not", default)]
    pub keeps_old: bool,
    /// Booked at once, with this message (one-way reservation): nothing expires, nobody asks Resolve, and Abort
    /// ends it like Release. Not with `replaces`.
    #[serde(skip_serializing_if = "std::ops::Not::not", default)]
    pub one_way: bool,
}

/// What a coordinator sends to one RM.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Message {
    /// Phase one.
    Hold(HoldOrder),
    /// Phase two, yes.
    Commit,
    /// Phase two, no.
    Abort,
    /// The booking, or whatever is left of the transaction, ends.
    Release,
}

/// An RM's answer to any [`Message`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Answer {
    /// Hold: yes. The hold ends by itself this long after it was made.
    Held {
        /// Measured by the RM from the moment of its D2.
        expires_in: Span,
    },
    /// Commit: booked. Abort, Release: ended.
    Done,
    /// No, and never under this transaction.
    Refused(Refusal),
    /// Hold: the transaction is known with other content. Nothing was changed.
    OtherContent,
    /// The transaction is another coordinator's, or new and of one that the RM does not know (I21). Nothing was
    /// changed, and nothing of it is held or booked here for whoever asks.
    Denied,
}

/// What became of a message, as its sender sees it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Delivery {
    /// The RM answered.
    Answered(Answer),
    /// Somebody turned the message away: the RM, a proxy, or whoever else answers at its address. Nothing
    /// is known of its effect, and sending it again is of little use before something changes. One
    /// sentence for people.
    Rejected(String),
    /// Nothing is known of its effect: it timed out, the connection broke, the RM was busy.
    Lost,
}

/// A final decision.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Decision {
    /// Every RM held; it will be booked.
    Commit,
    /// It will not.
    Abort,
}

/// Answer to an RM that asks what became of a transaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Resolution {
    /// This.
    Decided(Decision),
    /// The coordinator's ledger never opened this transaction: it may not decide it. (Another ledger
    /// under the same name did, F10.) Or it did, and not at the RM that asks.
    NotMine,
    /// No answer came.
    Lost,
}

/// Who caused a change (I20).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Cause {
    /// A message of this coordinator.
    Coordinator(CoordinatorName),
    /// An answer of this coordinator to Resolve.
    Resolve(CoordinatorName),
    /// A message of this RM.
    ResourceManager(RmName),
    /// A user's call.
    User(UserName),
    /// Time: a hold ran out, a patience ended.
    Expiry,
    /// The node's own restart.
    Restart,
}

/// Names a waiting caller to the shell; the core gives it back with the answer and never looks at it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Token(pub u64);
