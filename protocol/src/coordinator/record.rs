//! The log records of a coordinator. What they do to its durable state is in [`fold`].

mod fold;

use std::collections::BTreeMap;

use coalloc_common::{
    CoordinatorName, Now, Refusal, ReservationId, RmName, Span, Time, TransactionId, UserName,
};
use serde::{Deserialize, Serialize};

use super::Coordinator;
use super::calendar::CalendarAddress;
use super::reports::Report;
use super::reservation::{Candidate, ChangeTicket, ServersByRm, State, Ticket};
use super::transaction::Transaction;
use super::usage::Usage;
use crate::message::{Decision, HoldOrder};
use crate::participant::refused::OrderDigest;
use crate::tracked::TrackedMap;

/// Which version an attempt to mend would book everywhere.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MendTarget {
    /// The version that was decided.
    New,
    /// The version that it was to replace.
    Old,
}

/// How an RM's booking differs from its coordinator's record.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Differs {
    /// Confirmed here, and not booked there.
    MissingThere,
    /// Booked there in this coordinator's name, and not booked according to this coordinator.
    UnknownHere,
    /// Confirmed here and booked there, with another content.
    OtherContent,
}

impl Differs {
    /// A term for messages and labels.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::MissingThere => "missing there",
            Self::UnknownHere => "unknown here",
            Self::OtherContent => "other content",
        }
    }
}

/// One record of a coordinator's log. In the ledger it is JSON.
///
/// Who makes a record leaves its `state` and `version` to the coordinator, which stamps them once it is applied.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "record", rename_all = "snake_case")]
pub enum CoordinatorRecord {
    /// A request that planning refused. It has ended.
    Refused {
        /// The reservation's id.
        reservation: ReservationId,
        /// Who requested what.
        ticket: Ticket,
        /// Why planning refused it.
        refusal: Refusal,
        /// What the shell wants remembered with it.
        notes: String,
        /// When it was refused.
        at: Now,
    },
    /// A request for which planning found candidates.
    Opened {
        /// The reservation's id.
        reservation: ReservationId,
        /// Who requested what.
        ticket: Ticket,
        /// What the shell wants remembered with it.
        notes: String,
        /// When the reservation was opened.
        at: Now,
    },
    /// D1: the intent, before any Hold.
    Intent {
        /// The transaction of this attempt.
        txn: TransactionId,
        /// The reservation that it belongs to.
        reservation: ReservationId,
        /// What will be held at each RM.
        candidate: Candidate,
        /// The transaction of the booked version that this one would replace, when it is an attempt at a
        /// change.
        #[serde(skip_serializing_if = "Option::is_none", default)]
        replaces: Option<TransactionId>,
        /// For an attempt that mends: the version that it would book everywhere.
        #[serde(skip_serializing_if = "Option::is_none", default)]
        mends: Option<MendTarget>,
        /// RMs that have lost their booking of the old version. They hold anew and replace nothing.
        #[serde(skip_serializing_if = "Vec::is_empty", default)]
        anew: Vec<RmName>,
        /// The booked version after this record, 0 for none, for readers of the log.
        version: u32,
        /// Whether the reservation is in use after this record, for readers of the log.
        #[serde(skip_serializing_if = "std::ops::Not::not", default)]
        active: bool,
        /// When the attempt was opened.
        at: Now,
    },
    /// D3: the decision, before any Commit or Abort.
    Decided {
        /// The transaction that is decided.
        txn: TransactionId,
        /// The decision, which is final.
        decision: Decision,
        /// Why it was decided against.
        #[serde(skip_serializing_if = "Option::is_none", default)]
        refusal: Option<Refusal>,
        /// The reservation's state after this record, for readers of the log.
        state: State,
        /// If the decision is Commit: the time from `at` to the end of the first hold, at the earliest.
        #[serde(skip_serializing_if = "Option::is_none", default)]
        expires_in: Option<Span>,
        /// If the decision is Commit: the servers that each RM has chosen.
        #[serde(skip_serializing_if = "BTreeMap::is_empty", default)]
        servers: ServersByRm,
        /// The booked version after this record, 0 for none, for readers of the log.
        version: u32,
        /// Whether the reservation is in use after this record, for readers of the log.
        #[serde(skip_serializing_if = "std::ops::Not::not", default)]
        active: bool,
        /// When it was decided.
        at: Now,
    },
    /// An RM refused Commit after the decision. What the other RMs have booked will be released.
    Mixed {
        /// The transaction that was to be committed.
        txn: TransactionId,
        /// The RM that refused.
        rm: RmName,
        /// Why it refused.
        refusal: Refusal,
        /// When the refusal arrived.
        at: Now,
    },
    /// Every RM has answered the Commit of a change, and some have refused it: these still have their old
    /// version. Nothing is released. Attempts follow that book one of the two versions everywhere.
    Split {
        /// The transaction that the other RMs have booked.
        txn: TransactionId,
        /// The RMs that have not booked it, each with its reason.
        refused: BTreeMap<RmName, Refusal>,
        /// The reservation's state after this record, for readers of the log.
        state: State,
        /// Whether the reservation is in use after this record, for readers of the log.
        #[serde(skip_serializing_if = "std::ops::Not::not", default)]
        active: bool,
        /// When the last RM had answered.
        at: Now,
    },
    /// The user, or a parent coordinator for its user, ends the reservation.
    Releasing {
        /// The reservation's current transaction.
        txn: TransactionId,
        /// The user of the reservation.
        by: UserName,
        /// The booked version after this record, 0 for none, for readers of the log.
        version: u32,
        /// When the release began.
        at: Now,
    },
    /// A change whose planning has ended. An attempt follows, or the refusal of the change.
    ChangeOpened {
        /// Which change of which reservation.
        ticket: ChangeTicket,
        /// What the shell wants remembered once the change is booked.
        notes: String,
        /// The booked version after this record, 0 for none, for readers of the log.
        version: u32,
        /// Whether the reservation is in use after this record, for readers of the log.
        #[serde(skip_serializing_if = "std::ops::Not::not", default)]
        active: bool,
        /// When the change was opened.
        at: Now,
    },
    /// No attempt at a change succeeded, and no further one will be made. The old version is intact.
    ChangeRefused {
        /// The reservation that was to be changed.
        reservation: ReservationId,
        /// Why it was not changed.
        refusal: Refusal,
        /// The booked version after this record, 0 for none, for readers of the log.
        version: u32,
        /// Whether the reservation is in use after this record, for readers of the log.
        #[serde(skip_serializing_if = "std::ops::Not::not", default)]
        active: bool,
        /// When the change was refused.
        at: Now,
    },
    /// The user reports what happened to a part of the reservation while it is used.
    Reported {
        /// The reservation.
        reservation: ReservationId,
        /// What happened.
        report: Report,
        /// The user who reported it.
        by: UserName,
        /// The booked version, for readers of the log.
        version: u32,
        /// Whether the reservation is in use after this record, for readers of the log.
        #[serde(skip_serializing_if = "std::ops::Not::not", default)]
        active: bool,
        /// When the report arrived.
        at: Now,
    },
    /// D6: every RM has acknowledged the decision, or the release, of a transaction.
    Finished {
        /// The transaction that is finished.
        txn: TransactionId,
        /// The reservation's state after this record, for readers of the log.
        state: State,
        /// The booked version after this record, 0 for none, for readers of the log.
        version: u32,
        /// Whether the reservation is in use after this record, for readers of the log.
        #[serde(skip_serializing_if = "std::ops::Not::not", default)]
        active: bool,
        /// When the last acknowledgement arrived.
        at: Now,
    },
    /// A hold of a parent coordinator became a reservation.
    ParentHoldOpened {
        /// The reservation's id in this coordinator.
        reservation: ReservationId,
        /// What the parent wants held.
        order: HoldOrder,
        /// The digest of the whole Hold, when `order` has only the beginning of one that planning refused.
        #[serde(skip_serializing_if = "Option::is_none", default)]
        whole: Option<OrderDigest>,
        /// When the reservation was opened.
        at: Now,
    },
    /// D2 towards the parent: every inner RM holds. From now on only the parent decides.
    Prepared {
        /// The transaction of the attempt that holds.
        txn: TransactionId,
        /// How long the promise to the parent lasts, counted from `at`.
        expires_in: Span,
        /// The boot in whose boot time the promise is counted.
        boot: String,
        /// The servers that each RM has chosen.
        #[serde(skip_serializing_if = "BTreeMap::is_empty", default)]
        servers: ServersByRm,
        /// When the promise was made.
        at: Now,
    },
    /// The tombstone of a parent's transaction that never held anything here.
    ParentTombstone {
        /// The transaction's id in the parent.
        txn: TransactionId,
        /// The parent coordinator that it belongs to.
        coordinator: CoordinatorName,
        /// When the tombstone was made.
        at: Now,
    },
    /// A newer version of a parent's booking is booked everywhere in its place.
    ReplacedForParent {
        /// The reservation of the old version.
        reservation: ReservationId,
        /// The parent's transaction that has the new version.
        by: TransactionId,
        /// When the new version was booked everywhere.
        at: Now,
    },
    /// The parent no longer needs the version that this reservation had before it was replaced.
    Superseded {
        /// The reservation of the old version.
        reservation: ReservationId,
        /// When the parent's Release of it arrived.
        at: Now,
    },
    /// Every RM has acknowledged that it keeps nothing of a version that was replaced.
    Settled {
        /// The transaction of the old version.
        txn: TransactionId,
        /// The reservation's state after this record, for readers of the log.
        state: State,
        /// The booked version after this record, 0 for none, for readers of the log.
        version: u32,
        /// Whether the reservation is in use after this record, for readers of the log.
        #[serde(skip_serializing_if = "std::ops::Not::not", default)]
        active: bool,
        /// When the last acknowledgement arrived.
        at: Now,
    },
    /// An operator wants an RM to release what it has of a transaction that is not booked here.
    Disowned {
        /// The transaction to release.
        txn: TransactionId,
        /// The RM that has it.
        rm: RmName,
        /// The operator.
        by: UserName,
        /// The operator's reason.
        why: String,
        /// When the operator asked for it.
        at: Now,
    },
    /// The RM has acknowledged a release after `Disowned` or `GaveUp`.
    DisownEnded {
        /// The transaction that is released.
        txn: TransactionId,
        /// The RM that has acknowledged.
        rm: RmName,
        /// The state of the transaction's reservation, if it has one here.
        #[serde(skip_serializing_if = "Option::is_none", default)]
        state: Option<State>,
        /// When the acknowledgement arrived.
        at: Now,
    },
    /// A comparison with an RM has shown that its booking for a reservation differs from the coordinator's
    /// record, or differs no longer.
    Differs {
        /// The transaction of the booking.
        txn: TransactionId,
        /// The RM of the comparison.
        rm: RmName,
        /// How the two differ; `None` if they no longer do.
        differs: Option<Differs>,
        /// The reservation's state after this record, for readers of the log.
        state: State,
        /// The booked version after this record, 0 for none, for readers of the log.
        version: u32,
        /// Whether the reservation is in use after this record, for readers of the log.
        #[serde(skip_serializing_if = "std::ops::Not::not", default)]
        active: bool,
        /// When the comparison was made.
        at: Now,
    },
    /// An operator has given up on an RM that does not acknowledge an end. From now on it counts as having
    /// acknowledged. It is still sent Release until it does acknowledge; that is recorded as `DisownEnded`.
    GaveUp {
        /// The transaction that the RM was to end.
        txn: TransactionId,
        /// The RM that is given up on.
        rm: RmName,
        /// The operator.
        by: UserName,
        /// The operator's reason.
        why: String,
        /// The RM may have it booked until this time; `None` if it was to have nothing of it.
        #[serde(skip_serializing_if = "Option::is_none", default)]
        until: Option<Time>,
        /// The reservation's state after this record, for readers of the log.
        state: State,
        /// The booked version after this record, 0 for none, for readers of the log.
        version: u32,
        /// Whether the reservation is in use after this record, for readers of the log.
        #[serde(skip_serializing_if = "std::ops::Not::not", default)]
        active: bool,
        /// When the operator gave up on it.
        at: Now,
    },
    /// The windows of a booked reservation, and the retention after them, are over. Its RMs are told to release it.
    RetentionEnded {
        /// The reservation's current transaction.
        txn: TransactionId,
        /// The booked version after this record, for readers of the log.
        version: u32,
        /// When it was noticed.
        at: Now,
    },
    /// What the user of a booked reservation can do with it has changed.
    UsageChanged {
        /// The transaction that is booked.
        txn: TransactionId,
        /// What the user can do with it now.
        usage: Usage,
        /// The reservation's state after this record, for readers of the log.
        state: State,
        /// The booked version after this record, for readers of the log.
        version: u32,
        /// When it was noticed.
        at: Now,
    },
    /// The secret address of a user's calendar was made, or is no more: it was revoked, or its time is over.
    CalendarChanged {
        /// The user.
        user: UserName,
        /// The address, in place of any other one of this user; `None`: there is none.
        #[serde(skip_serializing_if = "Option::is_none", default)]
        address: Option<CalendarAddress>,
        /// When it changed.
        at: Now,
    },
    /// A process leads those that share this ledger. Earlier ones append nothing after this record.
    LeaderElected {
        /// The epoch, higher than any before.
        epoch: u64,
        /// The name of the process among them.
        member: String,
        /// When it was elected.
        at: Now,
    },
    /// Another process leads those that share a parent's ledger. Messages of earlier ones are not carried out any more.
    ParentLeaderChanged {
        /// The parent's ledger, as `<coordinator>-<tag>`.
        ledger: String,
        /// The epoch in which the process leads.
        epoch: u64,
        /// When its first message arrived.
        at: Now,
    },
    /// What has ended for good is forgotten, see [`forgetting`](super::forgetting).
    Forgotten {
        /// By ledger of a parent coordinator: all of its attempts with lower numbers are at rest.
        #[serde(skip_serializing_if = "BTreeMap::is_empty", default)]
        oldest_open: BTreeMap<String, u64>,
        /// The reservations that are forgotten.
        #[serde(skip_serializing_if = "Vec::is_empty", default)]
        reservations: Vec<ReservationId>,
        /// Transactions of parents that are forgotten, and that never held anything here.
        #[serde(skip_serializing_if = "Vec::is_empty", default)]
        tombstones: Vec<TransactionId>,
        /// When they were forgotten.
        at: Now,
    },
    /// No attempt at a reservation succeeded, and no further one will be made.
    Concluded {
        /// The reservation that has failed.
        reservation: ReservationId,
        /// Why it failed.
        refusal: Refusal,
        /// What is kept in place of the notes, when the reservation was long. Its last candidate is not kept then.
        #[serde(skip_serializing_if = "Option::is_none", default)]
        notes: Option<String>,
        /// The reservation's state after this record, for readers of the log.
        state: State,
        /// When it was concluded.
        at: Now,
    },
}

/// What a record is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum RecordSubject<'a> {
    /// A reservation.
    Reservation(&'a ReservationId),
    /// The reservation of a transaction.
    Transaction(&'a TransactionId),
}

impl CoordinatorRecord {
    /// When the record was made.
    pub(super) const fn at(&self) -> Now {
        match self {
            Self::Refused { at, .. }
            | Self::Opened { at, .. }
            | Self::Intent { at, .. }
            | Self::Decided { at, .. }
            | Self::Mixed { at, .. }
            | Self::Split { at, .. }
            | Self::Releasing { at, .. }
            | Self::ChangeOpened { at, .. }
            | Self::ChangeRefused { at, .. }
            | Self::Reported { at, .. }
            | Self::Finished { at, .. }
            | Self::ParentHoldOpened { at, .. }
            | Self::Prepared { at, .. }
            | Self::ParentTombstone { at, .. }
            | Self::ReplacedForParent { at, .. }
            | Self::Superseded { at, .. }
            | Self::Settled { at, .. }
            | Self::Disowned { at, .. }
            | Self::DisownEnded { at, .. }
            | Self::Differs { at, .. }
            | Self::GaveUp { at, .. }
            | Self::RetentionEnded { at, .. }
            | Self::UsageChanged { at, .. }
            | Self::CalendarChanged { at, .. }
            | Self::LeaderElected { at, .. }
            | Self::ParentLeaderChanged { at, .. }
            | Self::Forgotten { at, .. }
            | Self::Concluded { at, .. } => *at,
        }
    }

    /// The reservation whose state or content the record may change; `None` if it changes none of a user's.
    pub(super) const fn subject(&self) -> Option<RecordSubject<'_>> {
        match self {
            Self::Refused { reservation, .. }
            | Self::Opened { reservation, .. }
            | Self::Intent { reservation, .. }
            | Self::ChangeRefused { reservation, .. }
            | Self::ChangeOpened { ticket: ChangeTicket { reservation, .. }, .. }
            | Self::Concluded { reservation, .. } => Some(RecordSubject::Reservation(reservation)),
            Self::Decided { txn, .. }
            | Self::Mixed { txn, .. }
            | Self::Split { txn, .. }
            | Self::Releasing { txn, .. }
            | Self::Finished { txn, .. }
            | Self::Settled { txn, .. }
            | Self::RetentionEnded { txn, .. }
            | Self::UsageChanged { txn, .. }
            | Self::DisownEnded { txn, .. }
            | Self::GaveUp { txn, .. } => Some(RecordSubject::Transaction(txn)),
            Self::Reported { .. }
            | Self::ParentHoldOpened { .. }
            | Self::Prepared { .. }
            | Self::ParentTombstone { .. }
            | Self::ReplacedForParent { .. }
            | Self::Superseded { .. }
            | Self::CalendarChanged { .. }
            | Self::LeaderElected { .. }
            | Self::ParentLeaderChanged { .. }
            | Self::Forgotten { .. }
            | Self::Disowned { .. }
            | Self::Differs { .. } => None,
        }
    }
}

impl RecordSubject<'_> {
    /// The reservation that it is, or that the transaction belongs to.
    pub(super) fn reservation<'a>(
        &'a self,
        transactions: &'a TrackedMap<TransactionId, Transaction>,
    ) -> Option<&'a ReservationId> {
        match self {
            Self::Reservation(id) => Some(id),
            Self::Transaction(txn) => transactions.get(*txn).map(|txn| &txn.reservation),
        }
    }
}

/// What a record says of its reservation until it is stamped.
pub(super) mod stamped {
    use super::State;

    /// In place of a state.
    pub(in super::super) const STATE: State = State::Checking;
    /// In place of a version.
    pub(in super::super) const VERSION: u32 = 0;
    /// In place of whether it is in use.
    pub(in super::super) const ACTIVE: bool = false;
}

impl Coordinator {
    /// Writes what an applied record has led to into the record itself, where the record does not show it. A
    /// reader of the log has no state to look it up in.
    pub(super) fn stamp(&self, record: &mut CoordinatorRecord) {
        let of = |id: &ReservationId| self.reservations.get(id);
        let of_txn = |txn: &TransactionId| of(&self.transactions.get(txn)?.reservation);
        // Every record but DisownEnded is of a reservation that there is: else it is not applied.
        match record {
            CoordinatorRecord::UsageChanged { txn, state, version, .. } => {
                let Some(known) = of_txn(txn) else { return };
                (*state, *version) = (known.state, known.booked_version());
            }
            CoordinatorRecord::Decided { txn, state, version, active, .. }
            | CoordinatorRecord::Finished { txn, state, version, active, .. }
            | CoordinatorRecord::Settled { txn, state, version, active, .. }
            | CoordinatorRecord::Differs { txn, state, version, active, .. }
            | CoordinatorRecord::GaveUp { txn, state, version, active, .. } => {
                let Some(known) = of_txn(txn) else { return };
                (*state, *version) = (known.state, known.booked_version());
                *active = known.is_active();
            }
            CoordinatorRecord::Concluded { reservation, state, .. } => {
                of(reservation).inspect(|known| *state = known.state);
            }
            CoordinatorRecord::Split { txn, state, active, .. } => {
                let Some(known) = of_txn(txn) else { return };
                (*state, *active) = (known.state, known.is_active());
            }
            CoordinatorRecord::DisownEnded { txn, state, .. } => {
                *state = of_txn(txn).map(|known| known.state);
            }
            CoordinatorRecord::Intent { reservation, version, active, .. }
            | CoordinatorRecord::ChangeRefused { reservation, version, active, .. }
            | CoordinatorRecord::Reported { reservation, version, active, .. }
            | CoordinatorRecord::ChangeOpened {
                ticket: ChangeTicket { reservation, .. },
                version,
                active,
                ..
            } => {
                let Some(known) = of(reservation) else { return };
                (*version, *active) = (known.booked_version(), known.is_active());
            }
            CoordinatorRecord::Releasing { txn, version, .. }
            | CoordinatorRecord::RetentionEnded { txn, version, .. } => {
                of_txn(txn).inspect(|known| *version = known.booked_version());
            }
            CoordinatorRecord::Refused { .. }
            | CoordinatorRecord::Opened { .. }
            | CoordinatorRecord::ParentHoldOpened { .. }
            | CoordinatorRecord::Prepared { .. }
            | CoordinatorRecord::ParentTombstone { .. }
            | CoordinatorRecord::ReplacedForParent { .. }
            | CoordinatorRecord::Superseded { .. }
            | CoordinatorRecord::CalendarChanged { .. }
            | CoordinatorRecord::LeaderElected { .. }
            | CoordinatorRecord::ParentLeaderChanged { .. }
            | CoordinatorRecord::Forgotten { .. }
            | CoordinatorRecord::Disowned { .. }
            | CoordinatorRecord::Mixed { .. } => {}
        }
    }
}
