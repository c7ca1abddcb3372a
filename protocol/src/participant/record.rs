//! What a participant writes down, and the one place where its state changes: the fold of records.

use coalloc_common::timetable::{Layer, Shortfall, Timetable};
use coalloc_common::{
    Amount, CoordinatorName, Now, Reason, Refusal, RmName, Span, TransactionId, Window,
};
use serde::{Deserialize, Serialize};

use super::{Entry, Held, Participant, Phase};
use crate::core::ReplayError;
use crate::message::{Cause, HoldOrder};

/// How a transaction ended without, or after, a booking.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Ending {
    /// Told so by its coordinator; also the tombstone of a transaction never held.
    Aborted,
    /// Its hard expiry came first.
    Expired,
    /// Told so after it was booked.
    Released,
}

impl Ending {
    /// The reason that every later Hold or Commit is refused with.
    #[must_use]
    pub const fn reason(self) -> Reason {
        match self {
            Self::Aborted => Reason::Aborted,
            Self::Expired => Reason::Expired,
            Self::Released => Reason::Released,
        }
    }

    /// For sentences: "was aborted".
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Aborted => "aborted",
            Self::Expired => "expired",
            Self::Released => "released",
        }
    }

    pub(super) fn refusal(self, rm: &RmName, txn: &TransactionId) -> Refusal {
        let detail = match self {
            Self::Aborted => format!("{txn} was aborted before this came"),
            Self::Expired => format!("the hold of {txn} expired before the commit came"),
            Self::Released => format!("{txn} was released before this came"),
        };
        Refusal::new(self.reason(), detail).at(rm)
    }
}

/// One entry of a participant's log. JSON in the ledger; fields are only ever added.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "record", rename_all = "snake_case")]
pub enum ParticipantRecord {
    /// The process began. Deadlines of another boot are counted anew by the wall clock.
    Opened {
        /// The running boot.
        boot: String,
        /// When.
        at: Now,
    },
    /// D2: a hold, before the yes.
    Held {
        /// What is kept, for whom.
        order: HoldOrder,
        /// Ask after this long.
        soft: Span,
        /// Over after this long.
        hard: Span,
        /// When.
        at: Now,
    },
    /// A hold refused, before the no (I8).
    Refused {
        /// What was asked for.
        order: HoldOrder,
        /// The answer, for ever.
        refusal: Refusal,
        /// When.
        at: Now,
    },
    /// D4: a booking, before its ack.
    Booked {
        /// Which.
        txn: TransactionId,
        /// Who caused it.
        by: Cause,
        /// When.
        at: Now,
    },
    /// D5: an end, before its ack; of an unknown transaction, its tombstone.
    Ended {
        /// Which.
        txn: TransactionId,
        /// Whose it is.
        coordinator: CoordinatorName,
        /// How.
        ending: Ending,
        /// Who caused it.
        by: Cause,
        /// When.
        at: Now,
    },
}

/// How a hold takes its amounts: [`Timetable::add`], or in replay [`Timetable::restore`].
pub(super) type Take = fn(&mut Timetable, Layer, Window, Amount) -> Result<(), Shortfall>;

impl Participant {
    /// The state after one more record. Where it fails no entry and no amount has changed, but after an
    /// underflow: then nothing here can be trusted.
    pub(super) fn fold(
        &mut self,
        record: &ParticipantRecord,
        take: Take,
    ) -> Result<(), ReplayError> {
        match record {
            ParticipantRecord::Opened { boot, at } => {
                self.reopen(boot, *at);
                Ok(())
            }
            ParticipantRecord::Held { order, soft, hard, at } => {
                self.fold_held(order, (*soft, *hard), *at, take)
            }
            ParticipantRecord::Refused { order, refusal, .. } => {
                self.expect_new(&order.txn)?;
                let entry = Entry {
                    order: Some(order.clone()),
                    coordinator: order.coordinator.clone(),
                    phase: Phase::Refused(refusal.clone()),
                };
                self.entries.insert(order.txn.clone(), entry);
                Ok(())
            }
            ParticipantRecord::Booked { txn, .. } => self.fold_booked(txn),
            ParticipantRecord::Ended { txn, coordinator, ending, .. } => {
                self.fold_ended(txn, coordinator, *ending)
            }
        }
    }

    fn reopen(&mut self, boot: &str, at: Now) {
        if self.boot.as_deref() == Some(boot) {
            return;
        }
        self.boot = Some(boot.to_owned());
        self.alarms.clear();
        for (txn, entry) in &mut self.entries {
            let Phase::Held(held) = &mut entry.phase else { continue };
            // Another boot, another origin of boot time: what is left is judged by the wall clock,
            // within what the hold could have left at all, so that a set-back clock harms little (I18).
            let soft = held.soft_at.since(held.since.boot);
            let elapsed = at.wall.since(held.since.wall).clamp(Span::ZERO, held.expires_in);
            held.since =
                Now { wall: held.since.wall, boot: at.boot.saturating_add(negate(elapsed)) };
            held.soft_at = held.since.boot.saturating_add(soft);
            held.hard_at = held.since.boot.saturating_add(held.expires_in);
            held.ask_at = held.soft_at;
            held.asked = 0;
            self.alarms.insert((held.ask_at.min(held.hard_at), txn.clone()));
        }
    }

    fn fold_held(
        &mut self,
        order: &HoldOrder,
        (soft, hard): (Span, Span),
        at: Now,
        take: Take,
    ) -> Result<(), ReplayError> {
        self.expect_new(&order.txn)?;
        for (index, segment) in order.segments.iter().enumerate() {
            let resource = &segment.resource;
            let timetable = self.timetables.entry(resource.clone()).or_insert_with(|| {
                // It was configured when this was held.
                self.retired.insert(resource.clone());
                Timetable::new(Amount::ZERO)
            });
            if let Err(problem) = take(timetable, Layer::Held, segment.window, segment.amount) {
                self.take_back(order, index)?;
                return Err(ReplayError(format!("hold of {}: {resource}: {problem}", order.txn)));
            }
        }
        let soft_at = at.boot.saturating_add(soft);
        let hard_at = at.boot.saturating_add(hard);
        let held =
            Held { since: at, soft_at, hard_at, expires_in: hard, ask_at: soft_at, asked: 0 };
        let entry = Entry {
            order: Some(order.clone()),
            coordinator: order.coordinator.clone(),
            phase: Phase::Held(held),
        };
        self.entries.insert(order.txn.clone(), entry);
        self.set_alarm(&order.txn);
        Ok(())
    }

    /// Undoes the first `count` segments of an order that could not be held whole.
    fn take_back(&mut self, order: &HoldOrder, count: usize) -> Result<(), ReplayError> {
        for segment in &order.segments[..count] {
            if let Some(timetable) = self.timetables.get_mut(&segment.resource) {
                timetable
                    .remove(Layer::Held, segment.window, segment.amount)
                    .map_err(|error| ReplayError(format!("{}: {error}", segment.resource)))?;
            }
        }
        Ok(())
    }

    fn fold_booked(&mut self, txn: &TransactionId) -> Result<(), ReplayError> {
        self.clear_alarm(txn);
        let Some(entry) = self.entries.get_mut(txn) else {
            return Err(ReplayError(format!("{txn} is booked but was never held")));
        };
        let (Phase::Held(_), Some(order)) = (&entry.phase, &entry.order) else {
            return Err(ReplayError(format!("{txn} is booked but not held")));
        };
        for segment in &order.segments {
            let Some(timetable) = self.timetables.get_mut(&segment.resource) else { continue };
            timetable
                .commit(segment.window, segment.amount)
                .map_err(|error| ReplayError(format!("booking of {txn}: {error}")))?;
        }
        entry.phase = Phase::Booked;
        Ok(())
    }

    fn fold_ended(
        &mut self,
        txn: &TransactionId,
        coordinator: &CoordinatorName,
        ending: Ending,
    ) -> Result<(), ReplayError> {
        self.clear_alarm(txn);
        let phase = Phase::Ended(ending);
        let Some(entry) = self.entries.get_mut(txn) else {
            let entry = Entry { order: None, coordinator: coordinator.clone(), phase };
            self.entries.insert(txn.clone(), entry);
            return Ok(());
        };
        let layer = match &entry.phase {
            Phase::Held(_) => Layer::Held,
            Phase::Booked => Layer::Booked,
            Phase::Refused(_) | Phase::Ended(_) => {
                return Err(ReplayError(format!("{txn} ends twice")));
            }
        };
        for segment in entry.order.iter().flat_map(|order| &order.segments) {
            let Some(timetable) = self.timetables.get_mut(&segment.resource) else { continue };
            timetable
                .remove(layer, segment.window, segment.amount)
                .map_err(|error| ReplayError(format!("end of {txn}: {error}")))?;
        }
        entry.phase = phase;
        Ok(())
    }

    fn expect_new(&self, txn: &TransactionId) -> Result<(), ReplayError> {
        if self.entries.contains_key(txn) {
            return Err(ReplayError(format!("{txn} begins twice")));
        }
        Ok(())
    }
}

const fn negate(span: Span) -> Span {
    Span::ZERO.saturating_sub(span)
}
