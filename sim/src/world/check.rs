//! What must hold after every record, at every reply to a user, and when all is at rest.
//!
//! A state changes in one place only, a node's own step. So after every event the node that the event was for
//! is checked: the invariants of its core when it has stepped (I1, I2, I10, I22), its records when they are
//! durable (I3, I4, I9, I14), that its state is the fold of its records (I12), and every message that leaves
//! it (I4, I6, I8). What spans several nodes is checked when it is said to a user (I6: "confirmed", "nothing
//! is held") and at rest (I5, I7). [`exempt`](super::exempt) leaves out what cannot be promised. The file is long
//! because it is the list of what is promised, and each check is short.

use std::collections::{BTreeMap, BTreeSet};

use coalloc_common::planted::{self, Bug};
use coalloc_common::{Reason, ReservationId, RmName, Segment, Span, TransactionId};
use coalloc_protocol::Core;
use coalloc_protocol::coordinator::{CoordinatorRecord, Reservation, State};
use coalloc_protocol::message::{Answer, Cause, Decision, Message};
use coalloc_protocol::participant::{Entry, Participant, ParticipantRecord, Phase, TransactionEnd};

use super::asking::QuestionLog;
use super::exempt::Exempt;
use super::model::Model;
use super::operator::may_have;
use super::sent::SentLog;
use super::{Address, Fault, MessageKind, World};

/// What the durable records of all nodes have said so far.
#[derive(Debug, Default)]
pub struct Watch {
    /// What cannot be promised, and is therefore not checked.
    pub exempt: Exempt,
    intents: BTreeSet<TransactionId>,
    committed: BTreeSet<TransactionId>,
    aborted: BTreeSet<TransactionId>,
    mixed: BTreeSet<TransactionId>,
    /// Changes that some RMs have booked and for which the Commit came too late at others.
    split: BTreeSet<TransactionId>,
    releasing: BTreeSet<TransactionId>,
    finished: BTreeSet<TransactionId>,
    /// For each attempt at a change, the transaction that it would replace.
    replaces: BTreeMap<TransactionId, TransactionId>,
    /// The order in which each attempt asks its RMs. Attempts that ask all RMs at once are not here.
    orders: BTreeMap<TransactionId, Vec<RmName>>,
    /// Attempts at one-way candidates, for which a yes to Hold means that it is booked.
    books_at_once: BTreeSet<TransactionId>,
    /// The RMs that each attempt to mend a change has asked to hold.
    asked_to_mend: BTreeMap<TransactionId, BTreeSet<RmName>>,
    /// Attempts to go back to an old version that is over by the coordinator's clock: its RMs need not be asked.
    over: BTreeSet<TransactionId>,
    /// What each child coordinator has promised to its parent, by the parent's transaction.
    pub(super) promised: BTreeSet<(Address, TransactionId)>,
    /// When each hold began, which is when the RM's core stepped it, and how long it lasts, by RM and
    /// transaction.
    held: BTreeMap<(usize, TransactionId), (i64, Span)>,
    /// Holds that were refused for want of disk space, or denied. Neither is written down, so a new process
    /// may hold them, and then asks for the outcome. Nobody asks about a one-way booking, so one-way bookings
    /// are not exempt.
    unwritten: BTreeSet<(usize, TransactionId)>,
    /// The reservations that each coordinator has forgotten.
    pub(super) forgotten_by_grc: BTreeSet<(usize, ReservationId)>,
    /// The parent's transaction of each reservation for a parent, by child coordinator.
    for_parent: BTreeMap<(usize, ReservationId), TransactionId>,
    /// Transactions of parents that each child coordinator has forgotten.
    pub(super) forgotten_for_parent: BTreeSet<(usize, TransactionId)>,
    /// What each RM has forgotten.
    pub(super) forgotten: BTreeSet<(usize, TransactionId)>,
    pub(super) asking: QuestionLog,
    pub(super) sent: SentLog,
    /// The reason of the last refusal of a Hold, by RM and transaction.
    refused: BTreeMap<(usize, TransactionId), Reason>,
    pub(super) model: Model,
}

impl Watch {
    /// A decision is final (D3): no transaction is decided both ways.
    fn one_way(&self, txn: &TransactionId) -> Result<(), String> {
        let both = self.committed.contains(txn) && self.aborted.contains(txn);
        if both && !self.exempt.is_lost_txn(txn) {
            return Err(format!("{txn} is decided twice, commit and abort"));
        }
        Ok(())
    }

    /// Forgets what the Intent of a transaction said.
    fn forget_intent(&mut self, txn: &TransactionId) {
        self.asked_to_mend.remove(txn);
        self.orders.remove(txn);
        self.books_at_once.remove(txn);
        self.replaces.remove(txn);
    }

    /// A coordinator sends this message to an RM, which has this index, or to a child coordinator.
    pub(super) fn note_sent(
        &mut self,
        index: Option<usize>,
        rm: &RmName,
        txn: &TransactionId,
        message: &Message,
    ) {
        if let Some(index) = index {
            self.sent.note(index, txn, message);
        }
        if let (Message::Hold(_), Some(asked)) = (message, self.asked_to_mend.get_mut(txn)) {
            asked.insert(rm.clone());
        }
    }

    /// Every transaction that was ever opened.
    pub(super) const fn intents(&self) -> &BTreeSet<TransactionId> {
        &self.intents
    }

    /// Does a yes to this message mean that the transaction is booked?
    pub(super) fn yes_is_booked(&self, txn: &TransactionId, kind: MessageKind) -> bool {
        match kind {
            MessageKind::Hold => self.books_at_once.contains(txn),
            MessageKind::Commit => true,
            MessageKind::Abort | MessageKind::Release => false,
        }
    }

    pub(super) fn is_committed(&self, txn: &TransactionId) -> bool {
        self.committed.contains(txn)
    }

    /// Is the transaction decided, either way?
    pub(super) fn is_decided(&self, txn: &TransactionId) -> bool {
        self.committed.contains(txn) || self.aborted.contains(txn)
    }

    /// When a hold began, in microseconds, and how long it lasts.
    pub(super) fn hold(&self, rm: usize, txn: &TransactionId) -> Option<(i64, Span)> {
        self.held.get(&(rm, txn.clone())).copied()
    }

    /// Has this child coordinator promised its parent's transaction?
    pub(super) fn was_promised(&self, grc: Option<Address>, txn: &TransactionId) -> bool {
        let promised = grc.is_some_and(|grc| self.promised.contains(&(grc, txn.clone())));
        promised || self.exempt.is_lost_txn(txn)
    }

    /// Was an RM left out when a change went back to the old version, because it had said that it has nothing
    /// of that version any more?
    fn is_unasked(&self, txn: &TransactionId, rm: &RmName) -> bool {
        self.asked_to_mend.get(txn).is_some_and(|asked| !asked.contains(rm))
    }

    /// Was an RM left out when a change went back to the old version, because all of it was over?
    pub(super) fn is_over(&self, txn: &TransactionId, rm: &RmName) -> bool {
        self.over.contains(txn) && self.is_unasked(txn, rm)
    }

    pub(super) fn was_held(&self, rm: usize, txn: &TransactionId) -> bool {
        self.held.contains_key(&(rm, txn.clone())) || self.exempt.is_free(rm, txn)
    }
}

impl World {
    /// Checks and notes a coordinator's records when they are durable.
    pub fn watch_grc(&mut self, index: usize, records: &[CoordinatorRecord]) -> Result<(), String> {
        let watch = &mut self.watch;
        for record in records {
            match record {
                CoordinatorRecord::Intent { txn, replaces, candidate, mends, at, .. } => {
                    if !watch.intents.insert(txn.clone()) {
                        if !watch.exempt.is_lost_txn(txn) {
                            return Err(format!("the id {txn} is given twice"));
                        }
                        // The id of a lost transaction now belongs to another one.
                        watch.forget_intent(txn);
                    }
                    if mends.is_some() {
                        watch.asked_to_mend.insert(txn.clone(), BTreeSet::new());
                        let mut old = candidate.segments.values().flatten();
                        if old.all(|segment| segment.window.end() <= at.wall) {
                            watch.over.insert(txn.clone());
                        }
                    }
                    if !candidate.order.is_empty() {
                        watch.orders.insert(txn.clone(), candidate.order.clone());
                    }
                    if candidate.one_way {
                        watch.books_at_once.insert(txn.clone());
                    }
                    if let Some(old) = replaces {
                        watch.replaces.insert(txn.clone(), old.clone());
                    }
                }
                CoordinatorRecord::Decided { txn, decision: Decision::Commit, .. } => {
                    watch.committed.insert(txn.clone());
                    watch.one_way(txn)?;
                }
                CoordinatorRecord::Decided { txn, refusal, .. } => {
                    let reason = refusal.as_ref().map(|refusal| refusal.reason);
                    let held = watch.held.keys().any(|(_, held)| held == txn);
                    let in_turns = watch.orders.contains_key(txn);
                    if in_turns && held && reason == Some(Reason::InsufficientCapacity) {
                        self.counts.went_back += 1;
                    }
                    if reason == Some(Reason::Expired) {
                        watch.asking.check_promise(index, txn, self.grcs[index].stepped_us)?;
                    }
                    watch.aborted.insert(txn.clone());
                    watch.one_way(txn)?;
                }
                CoordinatorRecord::ParentHoldOpened { reservation, order, .. } => {
                    watch.exempt.note_parent(reservation, &order.txn);
                    let place = (index, reservation.clone());
                    watch.for_parent.insert(place, order.txn.clone());
                }
                CoordinatorRecord::Mixed { txn, .. } => {
                    if watch.replaces.contains_key(txn) {
                        return Err(format!("I5: the decided change {txn} has a mixed outcome"));
                    }
                    self.counts.mixed += 1;
                    watch.mixed.insert(txn.clone());
                }
                CoordinatorRecord::Split { txn, .. } => {
                    self.counts.split += 1;
                    watch.split.insert(txn.clone());
                }
                CoordinatorRecord::Releasing { txn, .. }
                | CoordinatorRecord::RetentionEnded { txn, .. } => {
                    let ended = matches!(record, CoordinatorRecord::RetentionEnded { .. });
                    self.counts.retentions_ended += u64::from(ended);
                    watch.releasing.insert(txn.clone());
                }
                CoordinatorRecord::Forgotten { reservations, tombstones, .. } => {
                    self.counts.reservations_forgotten += reservations.len() as u64;
                    let all = reservations.iter().map(|id| (index, id.clone()));
                    watch.forgotten_by_grc.extend(all.clone());
                    let held = all.filter_map(|place| watch.for_parent.get(&place).cloned());
                    let all = held.chain(tombstones.iter().cloned());
                    watch.forgotten_for_parent.extend(all.map(|txn| (index, txn)));
                }
                CoordinatorRecord::Finished { txn, .. } => {
                    watch.finished.insert(txn.clone());
                }
                _ => {}
            }
        }
        let begins = |record: &CoordinatorRecord| {
            matches!(
                record,
                CoordinatorRecord::Refused { .. }
                    | CoordinatorRecord::Opened { .. }
                    | CoordinatorRecord::Intent { mends: None, .. }
                    | CoordinatorRecord::ChangeOpened { .. }
                    | CoordinatorRecord::ParentHoldOpened { .. }
            )
        };
        if self.grcs[index].is_low() && records.iter().any(begins) {
            return Err(format!(
                "I17: {} begins something new on a nearly full disk",
                self.grcs[index].name
            ));
        }
        for record in records {
            self.model_grc(index, record)?;
            self.watch_levels(index, record)?;
            self.watch_usage(index, record)?;
            if let CoordinatorRecord::Finished { txn, .. } = record
                && let Some(known) = self.grcs[index].shadow.reservation_of(txn)
                && known.state == State::Confirmed
                && known.transaction.as_ref() == Some(txn)
            {
                self.check_workflow(index, known)?;
            }
        }
        self.check_shadow_grc(index)
    }

    /// Checks and notes an RM's records when they are durable.
    pub fn watch_rm(&mut self, index: usize, records: &[ParticipantRecord]) -> Result<(), String> {
        self.model_batch(index, records);
        for record in records {
            self.check_asked_for(index, record)?;
            self.model_rm(index, record)?;
            match record {
                ParticipantRecord::Held { order, soft, hard, .. } => {
                    if !order.one_way && soft >= hard {
                        let txn = &order.txn;
                        return Err(format!(
                            "I22: {txn} ends after {hard}, but is asked about only after {soft}"
                        ));
                    }
                    if !order.txn.is_of(&order.coordinator) {
                        return Err(format!(
                            "I21: {} has made an RM hold {}, which is not its own",
                            order.coordinator, order.txn
                        ));
                    }
                    let stolen = self.watch.exempt.is_stolen(&order.txn);
                    if !self.watch.intents.contains(&order.txn) && !stolen {
                        return Err(format!("D1: {} is held without an intent", order.txn));
                    }
                    // An RM that has lied that it booked something may get another message about it, and book
                    // it.
                    let lost = self.watch.exempt.is_free(index, &order.txn)
                        || (!order.one_way
                            && self.watch.unwritten.contains(&(index, order.txn.clone())));
                    if self.watch.finished.contains(&order.txn) && !lost {
                        return Err(format!("I9: {} is held after it was finished", order.txn));
                    }
                    self.check_turn(index, &order.txn)?;
                    let key = (index, order.txn.clone());
                    let stepped_us = self.rms[index].stepped_us;
                    self.watch.held.insert(key, (stepped_us, *hard));
                }
                ParticipantRecord::Booked { txn, by: Cause::Coordinator(name), .. }
                    if !txn.is_of(name) =>
                {
                    return Err(format!("I21: {name} has booked {txn}, which is not its own"));
                }
                ParticipantRecord::Booked { txn, .. } => {
                    let decided = self.watch.committed.contains(txn);
                    let stolen = self.watch.exempt.is_stolen(txn);
                    if !decided && !stolen && !self.is_one_way(index, txn) {
                        return Err(format!("I3: {txn} is booked without a decision"));
                    }
                    self.counts.booked += 1;
                    self.check_replaced(index, txn)?;
                }
                ParticipantRecord::Ended { txn, coordinator, .. } if !txn.is_of(coordinator) => {
                    return Err(format!(
                        "I21: {coordinator} has ended {txn}, which is not its own"
                    ));
                }
                ParticipantRecord::Ended { txn, ending: TransactionEnd::Aborted, .. }
                    if self.watch.committed.contains(txn)
                        && !self.may_end(txn)
                        && !self.watch.exempt.is_free(index, txn) =>
                {
                    return Err(format!("I3: {txn} is aborted after it was decided"));
                }
                ParticipantRecord::Ended { txn, ending: TransactionEnd::Expired, .. } => {
                    self.counts.expired += 1;
                    self.check_expiry(index, txn)?;
                }
                _ => {}
            }
        }
        let begins = |record: &ParticipantRecord| {
            matches!(record, ParticipantRecord::Held { .. } | ParticipantRecord::Refused { .. })
        };
        if self.rms[index].is_low() && records.iter().any(begins) {
            return Err(format!(
                "I17: {} begins something new on a nearly full disk",
                self.rms[index].name
            ));
        }
        if records.iter().any(|record| matches!(record, ParticipantRecord::Held { .. })) {
            self.check_quotas(index)?;
        }
        self.check_shadow_rm(index)
    }

    /// Where RMs are asked in turn, all RMs before this one have a durable hold (I4).
    fn check_turn(&mut self, rm: usize, txn: &TransactionId) -> Result<(), String> {
        let Some(order) = self.watch.orders.get(txn) else { return Ok(()) };
        let name = &self.rms[rm].name;
        let before = order.iter().take_while(|next| next.as_str() != name);
        let mut waited = false;
        for earlier in before.filter_map(|earlier| self.rm_index(earlier)) {
            waited = true;
            if !self.watch.was_held(earlier, txn) {
                let earlier = &self.rms[earlier].name;
                return Err(format!("{name} holds {txn} before {earlier} has said yes"));
            }
        }
        self.counts.held_after += u64::from(waited);
        Ok(())
    }

    /// A hold lasts as long as its coordinator was told, whatever restarts and reboots came in between, on a
    /// machine whose wall clock nobody set (I14, I18). Both ends are the instants at which the RM's core
    /// stepped. So the check allows no slack for the disk, and none for a process that is frozen before its
    /// sync: in that case the hold becomes durable as late as its expiry.
    fn check_expiry(&self, rm: usize, txn: &TransactionId) -> Result<(), String> {
        let Some((held_us, hard)) = self.watch.held.get(&(rm, txn.clone())) else {
            return Err(format!("{txn} expires, but was never held"));
        };
        let lasted_us = self.rms[rm].stepped_us - held_us;
        if !self.rms[rm].clock.was_set && lasted_us < hard.as_us() {
            return Err(format!(
                "I14: {txn} was held for {hard}, but expires after {lasted_us} us"
            ));
        }
        let at_us = self.rms[rm].stepped_us;
        self.watch.asking.check(Address::Rm(rm), txn, *held_us, *hard, at_us)
    }

    /// The booking of a new version ends the old version, which was booked everywhere and decided.
    fn check_replaced(&mut self, rm: usize, txn: &TransactionId) -> Result<(), String> {
        let entries = self.rms[rm].shadow.entries();
        if self.watch.exempt.is_free(rm, txn) {
            return Ok(());
        }
        let had = entries.get(txn).and_then(|entry| entry.order.as_ref());
        // An RM that is new to the reservation has no old version.
        let Some(old) = had.and_then(|order| order.replaces.as_ref()) else { return Ok(()) };
        let phase = entries.get(old).map(|entry| &entry.phase);
        if !matches!(phase, Some(Phase::Ended(TransactionEnd::Replaced | TransactionEnd::Released)))
        {
            return Err(format!("I5: {txn} is booked in place of {old}, which is {phase:?}"));
        }
        self.counts.replaced += 1;
        Ok(())
    }

    /// Is the transaction booked by its first message? Then its booking needs no decision.
    fn is_one_way(&self, rm: usize, txn: &TransactionId) -> bool {
        let entry = self.rms[rm].shadow.entries().get(txn);
        entry.and_then(|entry| entry.order.as_ref()).is_some_and(|order| order.one_way)
    }

    /// May a decided transaction end? Only if its outcome was mixed or its user released it.
    fn may_end(&self, txn: &TransactionId) -> bool {
        let ends = |txn| self.watch.mixed.contains(txn) || self.watch.releasing.contains(txn);
        ends(txn) || self.watch.replaces.get(txn).is_some_and(ends)
    }

    /// I4, I8: an RM says yes only with a hold on its disk. Once it has refused, it always refuses, for the
    /// same reason.
    pub fn watch_answer(&mut self, rm: usize, call: u64, answer: &Answer) -> Result<(), String> {
        let Some(call) = self.calls.get(&call) else { return Ok(()) };
        let key = (rm, call.txn.clone());
        let lost = self.watch.exempt.is_lost_txn(&call.txn);
        let entry = self.rms[rm].shadow.entries().get(&call.txn);
        match answer {
            // A later input of the same batch may have ended it already; but it was held.
            Answer::Held { .. } if entry.is_none_or(|entry| entry.order.is_none()) => {
                return Err(format!("I4: {} is reported as held, but is not", call.txn));
            }
            Answer::Held { servers, .. }
                if entry.is_some_and(|entry| entry.granted_servers() != *servers) =>
            {
                return Err(format!("I8: {} is reported with other servers than it has", call.txn));
            }
            Answer::Held { .. } if self.watch.forgotten.contains(&key) && !lost => {
                return Err(format!("I9: {} was forgotten, but is now held", call.txn));
            }
            Answer::Held { .. } if self.watch.refused.contains_key(&key) && !lost => {
                return Err(format!("I8: {} was refused before, but is now held", call.txn));
            }
            Answer::Refused(refusal) if refusal.reason == Reason::DiskFull => {
                self.watch.unwritten.insert(key);
                self.counts.no_room += 1;
                self.counts.fault(Fault::F4);
            }
            Answer::Denied => {
                if matches!(call.kind, MessageKind::Abort | MessageKind::Release) {
                    self.watch.exempt.deny(rm, &call.txn);
                }
                self.watch.unwritten.insert(key);
                self.counts.denied += 1;
                self.counts.fault(Fault::F12);
            }
            Answer::Refused(refusal) if call.kind == MessageKind::Hold => {
                self.counts.over_quota += u64::from(refusal.reason == Reason::Quota);
                // What an RM has forgotten stays refused, with no other reason than that.
                let forgotten =
                    refusal.reason == Reason::Aborted && self.watch.forgotten.contains(&key);
                let before = *self.watch.refused.entry(key).or_insert(refusal.reason);
                self.counts.late_holds += u64::from(forgotten);
                if before != refusal.reason && !lost && !forgotten {
                    let (now, txn) = (refusal.reason, &call.txn);
                    return Err(format!(
                        "I8: {txn} was refused with {before:?} before, now with {now:?}"
                    ));
                }
            }
            _ => {}
        }
        Ok(())
    }

    fn check_shadow_grc(&self, index: usize) -> Result<(), String> {
        let node = &self.grcs[index];
        let Some(core) = node.core.as_ref().filter(|_| node.is_settled()) else { return Ok(()) };
        if core.reservations().ne(node.shadow.reservations()) {
            return Err(format!("I12: {}: memory and log differ", node.name));
        }
        if core.reservations().any(|of| core.reports(&of.id) != node.shadow.reports(&of.id)) {
            return Err(format!("I12: {}: memory and log differ in reports", node.name));
        }
        if core.unfinished() != node.shadow.unfinished() {
            return Err(format!(
                "I12: {}: memory and log differ in the number of unfinished transactions",
                node.name
            ));
        }
        Ok(())
    }

    fn check_shadow_rm(&self, index: usize) -> Result<(), String> {
        let node = &self.rms[index];
        let Some(core) = node.core.as_ref().filter(|_| node.is_settled()) else { return Ok(()) };
        same_participant(core, &node.shadow).map_err(|what| format!("I12: {}: {what}", node.name))
    }

    /// I6: when a user is told "confirmed", every RM has the booking on its disk.
    pub fn check_confirmed(
        &mut self,
        reservation: &Reservation,
        released: bool,
    ) -> Result<(), String> {
        self.counts.confirmed += 1;
        self.check_inside(reservation, released)
    }

    /// The check of [`Self::check_confirmed`] for a reservation of any coordinator, including child
    /// coordinators.
    pub(super) fn check_inside(
        &self,
        reservation: &Reservation,
        released: bool,
    ) -> Result<(), String> {
        let id = &reservation.id;
        let missing = || format!("I6: {id} is confirmed without transaction or candidate");
        let txn = reservation.transaction.as_ref().ok_or_else(missing)?;
        let candidate = reservation.candidate.as_ref().ok_or_else(missing)?;
        if self.watch.exempt.is_lost_txn(txn) {
            return Ok(());
        }
        for (name, segments) in &candidate.segments {
            // An RM below has lied that it lost its part, and the child coordinator has passed that on.
            let below = self.watch.is_unasked(txn, name) && self.watch.exempt.is_lied_about(txn);
            let Some(rm) = self.rm_index(name) else {
                if !below {
                    self.check_child(name, txn, segments, released)?;
                }
                continue;
            };
            let entry = self.rms[rm].shadow.entries().get(txn);
            let phase = entry.map(|entry| &entry.phase);
            let booked = matches!(phase, Some(Phase::Booked))
                || (released && matches!(phase, Some(Phase::Ended(TransactionEnd::Released))))
                || (self.is_replaced(txn) && matches!(phase, Some(Phase::Ended(_))));
            let content: Option<&Vec<Segment>> =
                entry.and_then(|entry| entry.order.as_ref()).map(|order| &order.segments);
            // What a lying RM really has does not matter. What counts is whether it said that it booked.
            let exempt = &self.watch.exempt;
            let said = exempt.said_booked(rm, txn) || self.watch.is_unasked(txn, name);
            let believed = exempt.has_lied(rm, txn) && said || self.watch.is_over(txn, name);
            if !(believed || booked && content == Some(segments)) {
                return Err(format!("I6: {id} is confirmed, but {txn} at {name} is {phase:?}"));
            }
        }
        Ok(())
    }

    /// Was a change of this transaction decided? Then its booking may be gone already.
    pub(super) fn is_replaced(&self, txn: &TransactionId) -> bool {
        let mut changes = self.watch.replaces.iter().filter(|(_, old)| *old == txn);
        changes.any(|(new, _)| self.watch.committed.contains(new))
    }

    /// Has an attempt of a failed change gone back to the old version? At a child coordinator that version is
    /// a reservation of its own.
    pub(super) fn is_back(&self, failed: &Reservation, txn: &TransactionId) -> bool {
        let mut owners = self.grcs.iter().filter_map(|node| node.shadow.reservation_of(txn));
        owners.any(|owner| owner.id != failed.id && owner.transaction.as_ref() == Some(txn))
    }

    /// After a definite "no" or "released", nothing of the reservation is held or booked anywhere.
    pub fn check_gone(&self, reservation: &Reservation) -> Result<(), String> {
        let own = format!("{}/", reservation.id);
        if self.watch.exempt.is_lost(reservation.id.as_str()) {
            return Ok(());
        }
        for (index, rm) in self.rms.iter().enumerate() {
            // Ids are sorted, so the transactions of one reservation are neighbours.
            let all = rm.shadow.entries().range(TransactionId::composed(own.as_str())..);
            for (txn, entry) in all.take_while(|(txn, _)| txn.as_str().starts_with(&own)) {
                let live = matches!(entry.phase, Phase::Held(_) | Phase::Booked);
                if live
                    && !self.watch.exempt.owes_nothing(index, txn)
                    && !may_have(reservation, &rm.name)
                    && !self.is_back(reservation, txn)
                {
                    let (id, state, name) = (&reservation.id, reservation.state, &rm.name);
                    let phase = &entry.phase;
                    return Err(format!("{id} is {state:?}, but {txn} at {name} is {phase:?}"));
                }
            }
        }
        self.check_gone_at_children(reservation)
    }

    /// Checks at rest: I1, I5, I6, I7, I11, and that every node is the fold of its log (I12).
    pub fn check_rest(&mut self) -> Result<(), String> {
        if planted::is(Bug::Canary) {
            return Err("the planted canary".to_owned());
        }
        let mut owners: BTreeMap<TransactionId, &Reservation> = BTreeMap::new();
        for (index, node) in self.grcs.iter().enumerate() {
            let Some(core) = &node.core else { return Err(format!("{} is down", node.name)) };
            core.check_invariants()?;
            self.check_shadow_grc(index)?;
            self.check_all_reported(index)?;
            for reservation in core.reservations() {
                self.check_outcome(reservation)?;
                if reservation.state == State::Confirmed
                    && let Some(txn) = &reservation.transaction
                {
                    self.check_workflow(index, reservation)?;
                    owners.insert(txn.clone(), reservation);
                }
            }
        }
        for (index, node) in self.rms.iter().enumerate() {
            node.core.as_ref().ok_or("an RM is down")?.check_invariants()?;
            let free = |txn| self.watch.exempt.is_free(index, txn);
            self.check_shadow_rm(index)?;
            for (txn, entry) in node.shadow.entries() {
                let name = &node.name;
                match (&entry.phase, owners.get(txn)) {
                    (Phase::Held(_), _) => return Err(format!("I7: {txn} is held at {name}")),
                    (Phase::Booked, None) if !free(txn) => {
                        return Err(format!(
                            "I5: {txn} is booked at {name} for no confirmed reservation"
                        ));
                    }
                    _ if !entry.kept.is_empty() && !free(txn) => {
                        return Err(format!(
                            "I5: {name} keeps amounts of {txn} for no confirmed reservation"
                        ));
                    }
                    _ => {}
                }
            }
        }
        self.check_owned(&owners)?;
        self.check_bookings(&owners)?;
        self.check_compared()?;
        self.check_pictures()
    }

    /// I6: every RM has exactly the segments of each confirmed reservation's candidate.
    fn check_bookings(&self, owners: &BTreeMap<TransactionId, &Reservation>) -> Result<(), String> {
        for (txn, reservation) in owners {
            for (name, segments) in reservation.candidate.iter().flat_map(|plan| &plan.segments) {
                let below =
                    self.watch.is_unasked(txn, name) && self.watch.exempt.is_lied_about(txn);
                let Some(rm) = self.rm_index(name) else {
                    if !below {
                        self.check_child(name, txn, segments, false)?;
                    }
                    continue;
                };
                if self.watch.exempt.is_free(rm, txn) || self.watch.is_over(txn, name) {
                    continue;
                }
                let entry = self.rms[rm].shadow.entries().get(txn);
                let booked = entry.is_some_and(|entry| {
                    let same = entry.order.as_ref().is_some_and(|o| o.segments == *segments);
                    entry.phase == Phase::Booked && same
                });
                if !booked {
                    return Err(format!("I6: {txn} is confirmed, but not booked at {name}"));
                }
                let has = entry.map(Entry::granted_servers).unwrap_or_default();
                if reservation.servers.get(name).map_or(&[][..], |told| told) != has {
                    return Err(format!("I6: {txn} has other servers at {name} than is told"));
                }
            }
        }
        Ok(())
    }

    /// I5: a reservation that was booked and has failed has a recorded mixed outcome. A change from the
    /// parent that was split may fail without one when the version that it was to replace is booked
    /// everywhere again.
    fn check_outcome(&self, reservation: &Reservation) -> Result<(), String> {
        let Some(txn) = &reservation.transaction else { return Ok(()) };
        let id = &reservation.id;
        if self.watch.exempt.is_lost(id.as_str()) {
            return Ok(());
        }
        // The prefix also covers changes, whose two versions both end then.
        let own = format!("{id}/");
        let any =
            |of: &BTreeSet<TransactionId>| of.iter().any(|txn| txn.as_str().starts_with(&own));
        let (mixed, split) = (any(&self.watch.mixed), any(&self.watch.split));
        match reservation.state {
            State::Failed if self.watch.committed.contains(txn) && !mixed && !split => {
                Err(format!("I5: {id} was decided and has failed, but is not recorded as mixed"))
            }
            State::Failed if mixed => {
                let reason = reservation.refusal.as_ref().map(|refusal| refusal.reason);
                if reason == Some(Reason::Mixed) {
                    return Ok(());
                }
                Err(format!("{id} has a mixed outcome, but its user is told {reason:?}"))
            }
            State::Confirmed if mixed => {
                Err(format!("I6: {id} has a mixed outcome and is confirmed"))
            }
            _ => Ok(()),
        }
    }
}

/// Compares the durable parts of a core and its shadow. When a hold asks next is not durable.
fn same_participant(core: &Participant, shadow: &Participant) -> Result<(), String> {
    for (resource, _) in &core.config().resources {
        if core.timetable(resource) != shadow.timetable(resource) {
            return Err(format!("the timetable of {resource} differs from the log"));
        }
    }
    if !core.changes().is_end_of(shadow.changes()) {
        return Err("the latest changes differ from the log".to_owned());
    }
    if core.entries().len() != shadow.entries().len() {
        return Err("the number of transactions differs from the log".to_owned());
    }
    for ((txn, a), (other, b)) in core.entries().iter().zip(shadow.entries()) {
        let phases = match (&a.phase, &b.phase) {
            (Phase::Held(a), Phase::Held(b)) => {
                (a.since, a.soft_at, a.hard_at, a.expires_in)
                    == (b.since, b.soft_at, b.hard_at, b.expires_in)
            }
            (a, b) => a == b,
        };
        let same = a.order == b.order && a.coordinator == b.coordinator && a.servers == b.servers;
        if txn != other || !same || !phases {
            return Err(format!("{txn} differs from the log"));
        }
    }
    Ok(())
}

#[cfg(test)]
#[path = "check_tests.rs"]
mod tests;
