//! The log records of a participant, and the one place where its state changes: the fold of the records.

use std::collections::{BTreeMap, BTreeSet};

use coalloc_common::planted::{self, Bug};
use coalloc_common::timetable::{Layer, Shortfall, Timetable};
use coalloc_common::{
    Amount, CoordinatorName, Now, Reason, Refusal, ResourceId, RmName, Segment, Span,
    TransactionId, Window,
};
use serde::{Deserialize, Serialize};

use super::equipment::{Claim, EquipmentKey, EquipmentState};
use super::refused::OrderDigest;
use super::{Entry, HoldClocks, InnerMove, InnerRoute, Participant, Phase, SegmentServers};
use crate::core::ReplayError;
use crate::message::{Cause, HoldOrder};

/// How a transaction ended, before or after it was booked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TransactionEnd {
    /// Its coordinator aborted it, or the booking that it should replace has ended. Also the tombstone of a
    /// transaction that was never held.
    Aborted,
    /// Its hard expiry passed before a decision arrived.
    Expired,
    /// Its coordinator released it after it was booked.
    Released,
    /// A newer version was booked in its place.
    Replaced,
}

impl TransactionEnd {
    /// The reason for refusing every later Hold or Commit.
    #[must_use]
    pub const fn reason(self) -> Reason {
        match self {
            Self::Aborted => Reason::Aborted,
            Self::Expired => Reason::Expired,
            Self::Released => Reason::Released,
            Self::Replaced => Reason::Replaced,
        }
    }

    /// The word for sentences such as "was aborted".
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Aborted => "aborted",
            Self::Expired => "expired",
            Self::Released => "released",
            Self::Replaced => "replaced",
        }
    }

    pub(super) fn refusal(self, rm: &RmName, txn: &TransactionId) -> Refusal {
        let detail = match self {
            Self::Aborted => format!("{txn} was aborted before this message arrived"),
            Self::Expired => format!("the hold of {txn} expired before the Commit arrived"),
            Self::Released => format!("{txn} was released before this message arrived"),
            Self::Replaced => {
                format!("{txn} was replaced by a newer version before this message arrived")
            }
        };
        Refusal::new(self.reason(), detail).at(rm)
    }
}

/// One record of a participant's log. In the ledger it is JSON.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "record", rename_all = "snake_case")]
pub enum ParticipantRecord {
    /// The process began. If the boot is another one, deadlines are recomputed from the wall clock.
    Opened {
        /// The running boot.
        boot: String,
        /// When the process began.
        at: Now,
    },
    /// D2: a hold, recorded before the answer "held".
    Held {
        /// What is held, and for whom.
        order: HoldOrder,
        /// The time from `at` to the soft expiry.
        soft: Span,
        /// The time from `at` to the hard expiry.
        hard: Span,
        /// When the hold was made.
        at: Now,
        /// The inner links of each segment, when there is an inner network.
        #[serde(skip_serializing_if = "Option::is_none", default)]
        inner: Option<Vec<InnerRoute>>,
        /// The servers of each segment, when one is at a by-server site.
        #[serde(skip_serializing_if = "Vec::is_empty", default)]
        servers: Vec<SegmentServers>,
        /// Must it be claimed at the equipment before it is answered?
        #[serde(skip_serializing_if = "Claim::is_not_needed", default)]
        claim: Claim,
    },
    /// All that a hold takes is certain at the equipment, recorded before the answer "held".
    Claimed {
        /// The transaction of the hold.
        txn: TransactionId,
        /// How each resource is named there.
        references: BTreeMap<ResourceId, String>,
        /// When the last of them became certain.
        at: Now,
    },
    /// A hold that its equipment refuses, or did not confirm in time. It ends as if it had been refused at once, and is recorded
    /// before that answer (I8).
    ClaimRefused {
        /// The transaction of the hold.
        txn: TransactionId,
        /// The refusal, which also answers every repetition.
        refusal: Refusal,
        /// When it was refused.
        at: Now,
    },
    /// What is known of the equipment has changed.
    Equipped {
        /// Of which key.
        key: EquipmentKey,
        /// The newest version of the booking that the equipment has, had, or should have.
        txn: TransactionId,
        /// What is known now; `None`: nothing is there any more.
        #[serde(skip_serializing_if = "Option::is_none", default)]
        state: Option<EquipmentState>,
        /// When it became known.
        at: Now,
    },
    /// Entries that have not begun yet are rerouted in the inner network, before the hold that needs their
    /// links. Or entries from before there was an inner network get their routes. Their orders do not change.
    Moved {
        /// All moves at once, because two entries may exchange their routes.
        moves: Vec<InnerMove>,
        /// Who caused it.
        by: Cause,
        /// When the routes changed.
        at: Now,
    },
    /// A refused hold, recorded before the answer "refused" (I8).
    Refused {
        /// The Hold that was refused. Of a long one only the beginning is kept.
        order: HoldOrder,
        /// The digest of the whole Hold, when `order` is only its beginning.
        #[serde(skip_serializing_if = "Option::is_none", default)]
        whole: Option<OrderDigest>,
        /// The refusal, which also answers every repetition.
        refusal: Refusal,
        /// When the Hold was refused.
        at: Now,
    },
    /// D4: a booking, recorded before its acknowledgement. It also ends the booking that it replaces, if any.
    Booked {
        /// The transaction that is booked.
        txn: TransactionId,
        /// Who caused it.
        by: Cause,
        /// When it was booked.
        at: Now,
    },
    /// D5: the end of a transaction, recorded before its acknowledgement. For an unknown transaction this is
    /// the tombstone.
    Ended {
        /// The transaction that ends.
        txn: TransactionId,
        /// The coordinator that it belongs to.
        coordinator: CoordinatorName,
        /// How it ends.
        ending: TransactionEnd,
        /// Who caused it.
        by: Cause,
        /// When it ended.
        at: Now,
    },
    /// Another process leads those that share a coordinator's ledger. Orders of earlier ones are not carried out any more.
    LeaderChanged {
        /// The ledger, as `<coordinator>-<tag>`.
        ledger: String,
        /// The epoch in which the process leads.
        epoch: u64,
        /// When its first order arrived.
        at: Now,
    },
    /// Transactions are forgotten, see [`forgetting`](super::forgetting).
    Forgotten {
        /// For each ledger of a coordinator: every attempt with a lower number is at rest. What is unknown here and has
        /// a lower number is refused from now on.
        oldest_open: BTreeMap<String, u64>,
        /// The transactions that are forgotten.
        transactions: Vec<TransactionId>,
        /// When they were forgotten.
        at: Now,
    },
}

/// How a hold's amounts are entered: with [`Timetable::add`], or in replay with [`Timetable::restore`].
pub(super) type Take = fn(&mut Timetable, Layer, Window, Amount) -> Result<(), Shortfall>;

impl Participant {
    /// Applies one more record. After an error no entry and no amount has changed, with two exceptions: new
    /// routes, or the end of what was kept, may have been applied in part; and after an underflow the whole
    /// state cannot be trusted.
    pub(super) fn fold(
        &mut self,
        record: &ParticipantRecord,
        take: Take,
    ) -> Result<(), ReplayError> {
        self.changes.begin();
        match record {
            ParticipantRecord::Opened { boot, at } => {
                self.reopen(boot, *at);
                Ok(())
            }
            ParticipantRecord::Held { order, soft, hard, at, inner, servers, claim } => {
                let choice = (inner.as_deref(), &servers[..]);
                self.fold_held(order, choice, *claim, (*soft, *hard), *at, take)
            }
            ParticipantRecord::Claimed { txn, references, at } => {
                self.fold_claimed(txn, references, *at)
            }
            ParticipantRecord::ClaimRefused { txn, refusal, .. } => {
                if !self.entries.get(txn).is_some_and(Entry::waits_for_claim) {
                    return Err(ReplayError(format!("{txn} is refused but waits for no claim")));
                }
                self.fold_over(txn, Phase::Refused(refusal.clone()))
            }
            ParticipantRecord::Equipped { key, state, .. } => {
                self.fold_equipped(key, state.as_ref());
                Ok(())
            }
            ParticipantRecord::Moved { moves, .. } => self.fold_moved(moves, take),
            ParticipantRecord::Refused { order, whole, refusal, .. } => {
                self.expect_new(&order.txn)?;
                let entry = Entry {
                    order: Some(order.clone()),
                    whole: whole.clone(),
                    coordinator: order.coordinator.clone(),
                    phase: Phase::Refused(refusal.clone()),
                    inner: None,
                    servers: Vec::new(),
                    kept: Vec::new(),
                    chain: None,
                    claim: Claim::NotNeeded,
                    replaced_by: None,
                };
                self.entries.insert(order.txn.clone(), entry);
                Ok(())
            }
            ParticipantRecord::Booked { txn, .. } => self.fold_booked(txn),
            ParticipantRecord::Ended { txn, coordinator, ending, .. } => {
                self.fold_ended(txn, coordinator, *ending)
            }
            ParticipantRecord::LeaderChanged { ledger, epoch, .. } => {
                self.leader_epochs.fold_changed(ledger, *epoch)
            }
            ParticipantRecord::Forgotten { oldest_open, transactions, .. } => {
                self.fold_forgotten(oldest_open, transactions)
            }
        }
    }

    fn reopen(&mut self, boot: &str, at: Now) {
        if self.boot.as_deref() == Some(boot) || planted::is(Bug::StaleBoot) {
            return;
        }
        self.boot = Some(boot.to_owned());
        self.alarms.clear();
        let is_held = |(_, entry): &(_, &Entry)| matches!(entry.phase, Phase::Held(_));
        let held: Vec<_> =
            self.entries.iter().filter(is_held).map(|(txn, _)| txn.clone()).collect();
        for txn in held {
            let entry = self.entries.get_mut(&txn);
            let Some(Entry { phase: Phase::Held(held), .. }) = entry else { continue };
            // Boot time starts again with each boot. So the wall clock says how much of the interval has passed,
            // limited to the interval's length, so that a clock that was set back does little harm (I18).
            let soft = held.soft_at.since(held.since.boot);
            let elapsed = at.wall.since(held.since.wall).clamp(Span::ZERO, held.expires_in);
            let elapsed = if planted::is(Bug::ExpiryFromRestart) { Span::ZERO } else { elapsed };
            held.since =
                Now { wall: held.since.wall, boot: at.boot.saturating_add(negate(elapsed)) };
            held.soft_at = held.since.boot.saturating_add(soft);
            held.hard_at = held.since.boot.saturating_add(held.expires_in);
            held.ask_at = held.soft_at;
            held.asked = 0;
            self.alarms.insert((held.ask_at.min(held.hard_at), txn));
        }
    }

    fn fold_held(
        &mut self,
        order: &HoldOrder,
        (inner, servers): (Option<&[InnerRoute]>, &[SegmentServers]),
        claim: Claim,
        (soft, hard): (Span, Span),
        at: Now,
        take: Take,
    ) -> Result<(), ReplayError> {
        self.expect_new(&order.txn)?;
        if let Some(length) = [soft, hard].into_iter().find(|length| *length < Span::ZERO) {
            return Err(ReplayError(format!("hold of {}: it lasts {length}", order.txn)));
        }
        let taken = self.to_take(order, inner, servers).segments();
        for resource in order.segments.iter().map(|segment| &segment.resource) {
            self.timetable_of(resource);
        }
        let links = inner.into_iter().flatten().flatten();
        for name in links.chain(servers.iter().flat_map(|of| &of.servers)) {
            self.timetable_of(name);
        }
        for (index, segment) in taken.iter().enumerate() {
            if let Err(problem) = self.take_segment(Layer::Held, segment, take) {
                self.give_back(Layer::Held, &taken[..index])?;
                return Err(ReplayError(format!("hold of {}: {problem}", order.txn)));
            }
        }
        self.note(&taken);
        let soft_at = at.boot.saturating_add(soft);
        let hard_at = at.boot.saturating_add(hard);
        let held = HoldClocks {
            since: at,
            soft_at,
            hard_at,
            expires_in: hard,
            taken,
            ask_at: soft_at,
            asked: 0,
        };
        let old = order.replaces.as_ref();
        let chain = old.map(|old| self.entries.get(old).map_or(old, |entry| entry.chain(old)));
        let chain = chain.cloned();
        let entry = Entry {
            order: Some(order.clone()),
            whole: None,
            coordinator: order.coordinator.clone(),
            phase: Phase::Held(held),
            inner: inner.map(<[InnerRoute]>::to_vec),
            servers: servers.to_vec(),
            kept: Vec::new(),
            chain,
            claim,
            replaced_by: None,
        };
        self.entries.insert(order.txn.clone(), entry);
        self.note_equipment(&order.txn);
        if inner.is_some() {
            self.overlaps.insert(&order.txn, &order.segments);
        }
        if let Some(old) = &order.replaces {
            if planted::is(Bug::OldReleasedAtHold) {
                self.fold_ended(old, &order.coordinator, TransactionEnd::Replaced)?;
            }
            if planted::is(Bug::OldServersFreed) {
                let kept: BTreeSet<&ResourceId> =
                    servers.iter().flat_map(|of| &of.servers).collect();
                let old = self.own(Some(old)).unwrap_or_default().segments();
                let lost = old.into_iter().filter(|segment| !kept.contains(&segment.resource));
                lost.for_each(|segment| drop(self.servers.give(&segment)));
            }
            self.replacing.insert(old.clone(), order.txn.clone());
        }
        self.count_hold(&order.txn);
        self.set_alarm(&order.txn);
        Ok(())
    }

    /// The timetable of a resource. A resource that the log names and the configuration does not was configured
    /// when it was held; it is retired, and gets a timetable without capacity.
    pub(super) fn timetable_of(&mut self, resource: &ResourceId) -> &mut Timetable {
        self.timetables.entry(resource.clone()).or_insert_with(|| {
            self.retired.insert(resource.clone());
            Timetable::new(Amount::ZERO)
        })
    }

    /// Takes a segment from its timetable, and from its site if it is one of a server. After an error nothing has
    /// changed.
    pub(super) fn take_segment(
        &mut self,
        layer: Layer,
        segment: &Segment,
        take: Take,
    ) -> Result<(), ReplayError> {
        let Segment { resource, amount, window } = segment;
        let wrong = |problem: Shortfall| ReplayError(format!("{resource}: {problem}"));
        take(self.timetable_of(resource), layer, *window, *amount).map_err(wrong)?;
        self.servers.take(segment).inspect_err(|_| {
            // Replay restores whatever its log says; a server that two have at once is in no log of ours.
            let undone = self.timetable_of(resource).remove(layer, *window, *amount);
            debug_assert!(undone.is_ok(), "{undone:?}");
        })
    }

    /// Gives segments back to their timetables.
    pub(super) fn give_back(
        &mut self,
        layer: Layer,
        segments: &[Segment],
    ) -> Result<(), ReplayError> {
        let kept = usize::from(planted::is(Bug::SegmentKept) && segments.len() > 1);
        for segment in &segments[..segments.len() - kept] {
            if let Some(timetable) = self.timetables.get_mut(&segment.resource) {
                timetable
                    .remove(layer, segment.window, segment.amount)
                    .map_err(|error| ReplayError(format!("{}: {error}", segment.resource)))?;
                self.servers.give(segment)?;
            }
        }
        Ok(())
    }

    /// Makes a hold a booking. If it replaces an old version, what it holds beyond the old one is booked, and
    /// what it does not need is given back, or kept until the old one is released. No total grows anywhere, so
    /// no capacity can refuse it.
    fn fold_booked(&mut self, txn: &TransactionId) -> Result<(), ReplayError> {
        self.clear_alarm(txn);
        let Some(entry) = self.entries.get(txn) else {
            return Err(ReplayError(format!("{txn} is booked but was never held")));
        };
        let (Phase::Held(held), Some(order)) = (&entry.phase, &entry.order) else {
            return Err(ReplayError(format!("{txn} is booked but not held")));
        };
        let (taken, replaces) = (held.taken.clone(), order.replaces.clone());
        let keeps_old = order.keeps_old;
        let whole = entry.footprint();
        if let Some(old) = replaces {
            let Some(own) = self.own(Some(&old)) else {
                return Err(ReplayError(format!("{txn} replaces {old}, which is not booked")));
            };
            let surplus = own.beyond(&whole).segments();
            self.replacing.remove(&old);
            self.forget_overlaps(&old);
            self.leave_booked(&old);
            let before = self.kept_before(&old).cloned();
            if let Some(before) = before.as_ref().and_then(|txn| self.entries.get_mut(txn)) {
                // What was kept before is part of the surplus.
                before.kept.clear();
            }
            if let Some(before) = before {
                self.note_equipment(&before);
            }
            if !keeps_old {
                self.give_back(Layer::Booked, &surplus)?;
                self.note(&surplus);
            }
            if let Some(old) = self.entries.get_mut(&old) {
                old.phase = Phase::Ended(TransactionEnd::Replaced);
                old.kept = if keeps_old { surplus } else { Vec::new() };
                old.replaced_by = Some(txn.clone());
            }
            self.note_equipment(&old);
        }
        for segment in &taken {
            let Some(timetable) = self.timetables.get_mut(&segment.resource) else { continue };
            timetable
                .commit(segment.window, segment.amount)
                .map_err(|error| ReplayError(format!("booking of {txn}: {error}")))?;
        }
        self.discount_hold(txn);
        if let Some(entry) = self.entries.get_mut(txn) {
            entry.phase = Phase::Booked;
        }
        self.note_equipment(txn);
        self.enter_booked(txn);
        Ok(())
    }

    fn fold_ended(
        &mut self,
        txn: &TransactionId,
        coordinator: &CoordinatorName,
        ending: TransactionEnd,
    ) -> Result<(), ReplayError> {
        let phase = Phase::Ended(ending);
        let Some(entry) = self.entries.get(txn) else {
            let coordinator = coordinator.clone();
            let (inner, servers, kept) = (None, Vec::new(), Vec::new());
            let (order, whole, chain, replaced_by) = (None, None, None, None);
            let claim = Claim::NotNeeded;
            let entry = Entry {
                order,
                whole,
                coordinator,
                phase,
                inner,
                servers,
                kept,
                chain,
                claim,
                replaced_by,
            };
            self.entries.insert(txn.clone(), entry);
            return Ok(());
        };
        if !entry.kept.is_empty() {
            return self.fold_settled(txn);
        }
        self.fold_over(txn, phase)
    }

    /// Ends a hold or booking: gives back what it takes.
    fn fold_over(&mut self, txn: &TransactionId, phase: Phase) -> Result<(), ReplayError> {
        self.clear_alarm(txn);
        let taken = self.entries.get(txn).and_then(|entry| Some((entry, entry.in_timetables()?)));
        let Some((entry, (layer, segments))) = taken else {
            return Err(ReplayError(format!("{txn} ends twice")));
        };
        let replaces = entry.order.as_ref().and_then(|order| order.replaces.clone());
        self.give_back(layer, &segments)?;
        self.note(&segments);
        if let Some(old) = replaces.filter(|_| layer == Layer::Held) {
            self.replacing.remove(&old);
        }
        self.forget_overlaps(txn);
        self.leave_booked(txn);
        self.discount_hold(txn);
        if let Some(entry) = self.entries.get_mut(txn) {
            entry.phase = phase;
        }
        self.note_equipment(txn);
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
