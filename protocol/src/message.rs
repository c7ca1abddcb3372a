//! The messages between a coordinator and a participant. Every message may safely be sent twice.

use std::fmt;
use std::marker::PhantomData;

use coalloc_common::servers::Choice;
use coalloc_common::{
    CoordinatorName, Refusal, ResourceId, RmName, Segment, Span, TransactionId, UserName, Window,
};
use serde::{Deserialize, Serialize};

/// Phase one: hold these segments. This is the content of a transaction at one RM.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct HoldOrder {
    /// The transaction that the hold belongs to. Its decision will be the hold's, too.
    pub txn: TransactionId,
    /// The coordinator that sends the Hold. Resolve will ask it for the decision.
    pub coordinator: CoordinatorName,
    /// The user for whom the coordinator reserves.
    pub user: UserName,
    /// What to hold. Empty only together with `replaces`: the new version then needs nothing at this RM any
    /// more.
    pub segments: Vec<Segment>,
    /// The soft expiry: after this long, the RM asks the coordinator for the decision (Resolve). `None` means
    /// the RM's own setting. It is an interval, because clocks differ.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub hold_for: Option<Span>,
    /// The transaction whose booking at this RM the hold will replace by a new version; `None` for a booking of
    /// its own. Until Commit the RM keeps both, and counts what they share once.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub replaces: Option<TransactionId>,
    /// Keeps what the old version has and the new one does not need. It stays booked after Commit until the old
    /// transaction is released. So the change can still be taken back if some RM is too late to book it. Only
    /// with `replaces`.
    #[serde(skip_serializing_if = "std::ops::Not::not", default)]
    pub keeps_old: bool,
    /// One-way reservation: this message books at once. Nothing expires, nobody sends Resolve, and Abort ends
    /// the booking like Release. Not with `replaces`.
    #[serde(skip_serializing_if = "std::ops::Not::not", default)]
    pub one_way: bool,
    /// Which servers to take at by-server sites; `None`: whichever the RM finds first.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub servers: Option<ServerWish>,
    /// Once booked, it is certain at the equipment, but the user may not use it. A later version without this lets the user
    /// in.
    #[serde(skip_serializing_if = "std::ops::Not::not", default)]
    pub manual_provision: bool,
}

/// Which servers a hold wants at by-server sites.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ServerWish {
    /// Which of the idle servers are taken.
    pub choice: Choice,
    /// The whole names of the servers to take, each once. At a site without any of them, the RM chooses.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub picked: Vec<ResourceId>,
    /// The whole names of servers that are not taken, also not by a version whose replaced version has them.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub avoided: Vec<ResourceId>,
}

/// The servers that a hold or booking has at one site over one window.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct GrantedServers {
    /// The site.
    pub site: ResourceId,
    /// The window.
    pub window: Window,
    /// The whole names of the servers.
    pub servers: Vec<ResourceId>,
}

/// A message of a coordinator to one RM.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Message {
    /// Phase one: hold these segments.
    Hold(HoldOrder),
    /// Phase two: book what is held.
    Commit,
    /// Phase two: end what is held.
    Abort,
    /// End the booking, or whatever else is left of the transaction.
    Release,
}

/// An RM's answer to any [`Message`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Answer {
    /// Hold: yes. The hold ends by itself at its hard expiry.
    Held {
        /// How long after D2 (the durable record of the hold) the hard expiry is, measured by the RM.
        expires_in: Span,
        /// The servers that it has at by-server sites.
        servers: Vec<GrantedServers>,
    },
    /// Commit: booked. Abort, Release: ended.
    Done,
    /// No, and the answer stays no for this transaction.
    Refused(Refusal),
    /// Hold: the RM knows the transaction with other content. Nothing has changed.
    OtherContent,
    /// The message came from a process that does not lead its coordinator any more. Nothing has changed.
    OlderLeader {
        /// The epoch in which another process leads.
        epoch: u64,
    },
    /// The transaction belongs to another coordinator, or it is new and its coordinator is unknown to the RM
    /// (I21). Nothing has changed, and this RM holds or has booked nothing of it for the sender.
    Denied,
}

/// What became of a message, as far as its sender knows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Delivery {
    /// The RM answered.
    Answered(Answer),
    /// Somebody turned the message away: the RM, a proxy, or whoever else answers at the RM's address. Whether
    /// the message had an effect is unknown. Sending it again is of little use until something changes. The
    /// text is one sentence for people.
    Rejected(String),
    /// The message timed out, the connection broke, or the RM was busy. Whether it had an effect is unknown.
    Lost,
}

/// The final decision on a transaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Decision {
    /// Every RM holds its part; all will be booked.
    Commit,
    /// Nothing will be booked.
    Abort,
}

/// The answer to Resolve, with which an RM asks for the decision on a transaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Resolution {
    /// The final decision.
    Decided(Decision),
    /// The ledger of this coordinator never opened the transaction, so it may not decide it; another ledger
    /// under the same name did (F10). Or the transaction is this coordinator's, but the RM that asks has no
    /// part in it.
    NotMine,
    /// No answer has arrived.
    Lost,
}

/// Who or what caused a change (I20).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Cause {
    /// A message from this coordinator.
    Coordinator(CoordinatorName),
    /// This coordinator's answer to Resolve.
    Resolve(CoordinatorName),
    /// A message from this RM.
    ResourceManager(RmName),
    /// A call of this user.
    User(UserName),
    /// Time: a hold expired, or a coordinator's timeout passed.
    Expiry,
    /// The restart of the node itself.
    Restart,
}

/// Names a waiting caller to the shell, with the type of the answer that its call has. The core gives it back with
/// the answer and never looks at it.
pub struct Token<A> {
    number: u64,
    answer: PhantomData<fn(A)>,
}

impl<A> Token<A> {
    /// The caller of this number.
    #[must_use]
    pub const fn new(number: u64) -> Self {
        Self { number, answer: PhantomData }
    }

    /// The number of the caller.
    #[must_use]
    pub const fn number(self) -> u64 {
        self.number
    }
}

// By hand: derives would ask the same of the answer.
impl<A> Clone for Token<A> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<A> Copy for Token<A> {}

impl<A> PartialEq for Token<A> {
    fn eq(&self, other: &Self) -> bool {
        self.number == other.number
    }
}

impl<A> Eq for Token<A> {}

impl<A> fmt::Debug for Token<A> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "Token({})", self.number)
    }
}

/// The kind of a [`Message`], by which an answer is matched to what was sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum MessageKind {
    /// Phase one.
    Hold,
    /// Phase two, yes.
    Commit,
    /// Phase two, no.
    Abort,
    /// The end of a booking.
    Release,
}

impl Message {
    /// The message's kind.
    #[must_use]
    pub const fn kind(&self) -> MessageKind {
        match self {
            Self::Hold(_) => MessageKind::Hold,
            Self::Commit => MessageKind::Commit,
            Self::Abort => MessageKind::Abort,
            Self::Release => MessageKind::Release,
        }
    }
}
