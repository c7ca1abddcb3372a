//! Child coordinators: the shell of a coordinator that serves as an RM, and the checks between the levels.
//!
//! Planning in a child is a throw of the dice: one candidate for each of its RMs alone, one candidate over all
//! of them, or no plan.

use std::collections::BTreeMap;
use std::rc::Rc;

use coalloc_common::{Reason, RmName, Segment, Span, TransactionId};
use coalloc_protocol::conversation::{ConversationInput, Opening, ParentReply};
use coalloc_protocol::coordinator::{
    Candidate, Coordinator, CoordinatorConfig, CoordinatorInput, CoordinatorRecord, MessageKind,
    ParentConfig, ParentInput, Reservation, State,
};
use coalloc_protocol::message::{Answer, Decision, HoldOrder, Message, Token};

use super::network::Packet;
use super::node::Node;
use super::{Address, Fault, Waiter, World};

/// How long a child coordinator plans, in microseconds.
const PLANNING_US: i64 = 50_000;

impl World {
    /// Adds a coordinator that serves parents, and starts it. `own` are its RMs.
    pub fn add_lower(
        &mut self,
        config: CoordinatorConfig,
        parents: ParentConfig,
        own: Vec<RmName>,
    ) -> Result<(), String> {
        self.grc_names.push(config.name.clone());
        let name = config.name.to_string();
        let later = Rc::clone(&self.forgets_later);
        let make = move |boot: &str| {
            let forgets = later.get().or(config.forgets);
            let mut core = Coordinator::new(CoordinatorConfig { forgets, ..config.clone() });
            core.serve_parents(ParentConfig { boot: boot.to_owned(), ..parents.clone() });
            core
        };
        let every = self.snapshot_every();
        let node = Node::new(&name, make, |_| CoordinatorInput::Start).with_snapshots(every);
        self.grcs.push(node);
        let index = self.grcs.len() - 1;
        self.members.insert(index, own);
        self.restart(Address::Grc(index), false)
    }

    /// A message of a parent coordinator arrives.
    pub(super) fn heard_from_parent(
        &mut self,
        grc: usize,
        call: u64,
        txn: TransactionId,
        message: Message,
        number: u64,
    ) -> Result<(), String> {
        let Some(caller) = self.calls.get(&call) else { return Ok(()) };
        let by = self.grc_names[caller.grc].clone();
        let kind = message.kind();
        let token = self.fresh();
        self.waiters.insert(token, Waiter::Parent { call });
        if matches!(message, Message::Hold(_)) {
            let (txn, by) = (txn.clone(), by.clone());
            let token = self.fresh();
            self.waiters.insert(token, Waiter::Preface);
            let token = Token::new(token);
            let preface = ParentInput::Preface { txn, by, oldest_open: number, epoch: 0, token };
            self.grcs[grc].post(CoordinatorInput::Parent(preface));
        }
        self.grcs[grc].post(match message {
            Message::Hold(order) => {
                ConversationInput::Open(Opening::ParentHold(order, Token::new(token))).into()
            }
            _ => {
                let token = Token::new(token);
                CoordinatorInput::Parent(ParentInput::End { txn, by, kind, epoch: 0, token })
            }
        });
        self.begin(Address::Grc(grc))
    }

    /// Handles a coordinator's answer to its parent.
    pub(super) fn answer_to_parent(
        &mut self,
        grc: usize,
        waiter: &Waiter,
        reply: ParentReply,
    ) -> Result<(), String> {
        let call = match waiter {
            Waiter::Parent { call } => *call,
            Waiter::Preface if reply == ParentReply::Answered(Answer::Done) => return Ok(()),
            Waiter::Meddler { .. } if reply == ParentReply::Answered(Answer::Denied) => {
                return Ok(());
            }
            Waiter::Meddler { txn } => {
                let name = &self.grcs[grc].name;
                return Err(format!("I21: {name} answers a meddler about {txn}: {reply:?}"));
            }
            Waiter::Rogue(forgery) => return self.watch_forged_to_child(grc, forgery, &reply),
            other => return Err(format!("{other:?} is told {reply:?}")),
        };
        let Some(known) = self.calls.get(&call) else { return Ok(()) };
        let caller = known.grc;
        match reply {
            // The answer goes to another copy of the message.
            ParentReply::SentAgain => Ok(()),
            ParentReply::Answered(answer) => {
                self.watch_answer_to_parent(grc, call, &answer)?;
                let packet = Packet::Answer { call, answer };
                self.send(Address::Grc(grc), Address::Grc(caller), packet);
                Ok(())
            }
        }
    }

    /// How long a child coordinator plans, in microseconds; nothing in a story.
    pub(super) const fn planning_below_us(&self) -> i64 {
        if self.is_story() { 0 } else { PLANNING_US }
    }

    /// The candidates of a child coordinator. Each RM gets the segments of its own resources. The RMs of a
    /// candidate are sent Hold all at once, or one after the other.
    pub(super) fn plan_at_child(
        &mut self,
        grc: usize,
        order: &HoldOrder,
    ) -> Option<Vec<Candidate>> {
        let own = self.members.get(&grc).cloned().unwrap_or_default();
        let in_turns = self.dice.per_mille(self.in_turns);
        let of = |rm: &RmName| -> Vec<Segment> {
            let known = self.rm_index(rm).and_then(|rm| self.rms[rm].core.as_ref());
            let has = |segment: &&Segment| {
                known.is_none_or(|core| core.timetable(&segment.resource).is_some())
            };
            order.segments.iter().filter(has).cloned().collect()
        };
        let at = |rms: &[RmName]| {
            let segments = rms.iter().map(|rm| (rm.clone(), of(rm)));
            let segments: BTreeMap<RmName, Vec<Segment>> =
                segments.filter(|(_, segments)| !segments.is_empty()).collect();
            let order = segments.keys().rev().filter(|_| in_turns).cloned().collect();
            Candidate { segments, order, ..Candidate::default() }
        };
        let (all, each) = (at(&own), own.iter().map(|rm| at(std::slice::from_ref(rm))).collect());
        // What an RM has already can be had again, even if it has begun. A real planner knows that. Dice that
        // never choose it would leave a change with two versions for longer than the world lasts.
        let again = self.replaced_rms(grc, order).map(|rms| at(&rms));
        let mut plans: Vec<Candidate> = match if self.is_story() { 7 } else { self.dice.below(8) } {
            0 => return None,
            1 | 2 => each,
            _ => vec![all],
        };
        if let Some(again) = again.filter(|again| !self.is_story() && !plans.contains(again)) {
            plans.push(again);
        }
        Some(plans)
    }

    /// The RMs that have what an order would replace.
    fn replaced_rms(&self, grc: usize, order: &HoldOrder) -> Option<Vec<RmName>> {
        let core = &self.grcs[grc].shadow;
        let (_, id) = core.parent_entries().get(order.replaces.as_ref()?)?.order.as_ref()?;
        let has = core.find(id.as_str())?.candidate.as_ref()?;
        Some(
            has.segments
                .iter()
                .filter(|(_, of)| !of.is_empty())
                .map(|(rm, _)| rm.clone())
                .collect(),
        )
    }

    /// What a child coordinator has made of a parent's transaction: the child, the order, and the reservation.
    fn child_reservation(
        &self,
        name: &RmName,
        txn: &TransactionId,
    ) -> Option<(usize, &HoldOrder, &Reservation)> {
        let Some(Address::Grc(grc)) = self.find(name.as_str()) else { return None };
        let core = &self.grcs[grc].shadow;
        let (order, id) = core.parent_entries().get(txn)?.order.as_ref()?;
        Some((grc, order, core.find(id.as_str())?))
    }

    /// Checks that a child has D3 only after its parent has D3, and D2 only when every inner RM has D2.
    pub(super) fn watch_levels(
        &mut self,
        grc: usize,
        record: &CoordinatorRecord,
    ) -> Result<(), String> {
        match record {
            CoordinatorRecord::Decided { txn, decision: Decision::Commit, .. } => {
                let known = self.grcs[grc].shadow.reservation_of(txn);
                if let Some(upper) = known.and_then(|known| known.parent_transaction.as_ref())
                    && !self.watch.is_committed(upper)
                    && !self.watch.exempt.is_lost_txn(upper)
                {
                    return Err(format!("I3: {txn} is decided at a child, {upper} is not decided"));
                }
            }
            CoordinatorRecord::Prepared { txn, expires_in, .. } => {
                self.counts.prepared += 1;
                let known = self.grcs[grc].shadow.reservation_of(txn);
                let upper = known.and_then(|known| known.parent_transaction.clone());
                let plan = known.and_then(|known| known.candidate.as_ref());
                for name in plan.iter().flat_map(|plan| plan.segments.keys()) {
                    let held = match self.rm_index(name) {
                        Some(rm) => self.watch.was_held(rm, txn),
                        None => self.watch.was_promised(self.find(name.as_str()), txn),
                    };
                    if !held {
                        return Err(format!("I4: {txn} is promised, but not held at {name}"));
                    }
                }
                let core = &self.grcs[grc].shadow;
                let ends = known.and_then(|known| core.promised_until(known));
                let asks = known.and_then(|known| core.asks_parent_at(known));
                if asks >= ends && *expires_in > Span::ZERO && ends.is_some() {
                    return Err(format!(
                        "I22: {txn} is promised for {expires_in}, but not asked about in time"
                    ));
                }
                if let Some(upper) = &upper {
                    let since_us = self.grcs[grc].stepped_us;
                    self.watch.asking.promise(grc, txn, upper.clone(), since_us, *expires_in);
                }
                self.watch.promised.extend(upper.map(|upper| (Address::Grc(grc), upper)));
            }
            CoordinatorRecord::ReplacedForParent { by, .. } => {
                self.counts.replaced_below += 1;
                if !self.watch.is_committed(by) && !self.watch.exempt.is_lost_txn(by) {
                    return Err(format!("I3: {by} replaced a booking before its parent decided"));
                }
            }
            _ => {}
        }
        Ok(())
    }

    /// Checks I4, I6 and I8 for an answer to a parent.
    fn watch_answer_to_parent(
        &mut self,
        grc: usize,
        call: u64,
        answer: &Answer,
    ) -> Result<(), String> {
        let Some(known) = self.calls.get(&call) else { return Ok(()) };
        let (kind, txn) = (known.kind, known.txn.clone());
        if self.watch.exempt.is_lost_txn(&txn) {
            return Ok(());
        }
        let name = RmName::composed(self.grcs[grc].name.as_str());
        let below = self.child_reservation(&name, &txn).map(|(_, _, known)| known.clone());
        match (answer, kind) {
            (Answer::Held { .. }, _) if below.is_none() => {
                Err(format!("I4: {txn} is reported as held, but is not"))
            }
            (Answer::Held { .. }, _)
                if self.refused_to_parent.contains_key(&(grc, txn.clone())) =>
            {
                Err(format!("I8: {txn} was refused before, but is now held"))
            }
            (Answer::Held { .. }, _)
                if self.watch.forgotten_for_parent.contains(&(grc, txn.clone())) =>
            {
                Err(format!("I9: {txn} was forgotten, but is now held"))
            }
            // This refusal is not recorded, so after a restart the process may hold it.
            (Answer::Refused(refusal), _) if refusal.reason == Reason::DiskFull => {
                self.counts.no_room += 1;
                self.counts.fault(Fault::F4);
                Ok(())
            }
            (Answer::Refused(refusal), MessageKind::Hold) => {
                let key = (grc, txn.clone());
                let was_forgotten = self.watch.forgotten_for_parent.contains(&key);
                let before = *self.refused_to_parent.entry(key).or_insert(refusal.reason);
                // What the child has forgotten stays refused, with no other reason than that.
                let forgotten = refusal.reason == Reason::Aborted && was_forgotten;
                self.counts.late_holds += u64::from(forgotten);
                if before != refusal.reason && !forgotten {
                    let now = refusal.reason;
                    return Err(format!("I8: {txn} was refused: {before:?}, but now: {now:?}"));
                }
                Ok(())
            }
            (Answer::Done, MessageKind::Commit) => {
                let Some(known) = below else {
                    return Err(format!("I6: {txn} is reported as booked, but is not"));
                };
                match known.state {
                    State::Confirmed => self.check_inside(&known, false),
                    // A later input of the same batch has ended it.
                    _ => Ok(()),
                }
            }
            (Answer::Done, MessageKind::Abort | MessageKind::Release) => match below {
                Some(known) if known.is_over() => self.check_gone(&known),
                Some(known) => Err(format!("{txn} is reported as ended, but is {:?}", known.state)),
                None => Ok(()),
            },
            _ => Ok(()),
        }
    }

    /// Checks I6 across levels: what the parent has confirmed is confirmed at the child for the same segments,
    /// and booked at every RM of the child.
    pub(super) fn check_child(
        &self,
        name: &RmName,
        txn: &TransactionId,
        segments: &[Segment],
        released: bool,
    ) -> Result<(), String> {
        if self.watch.exempt.is_lost_txn(txn) {
            return Ok(());
        }
        let Some((_, order, known)) = self.child_reservation(name, txn) else {
            return Err(format!("I6: {txn} is confirmed, but unknown at {name}"));
        };
        let ended = matches!(known.state, State::Terminating | State::Terminated)
            && (released || self.is_replaced(txn));
        if order.segments != segments || !(known.state == State::Confirmed || ended) {
            let state = known.state;
            return Err(format!("I6: {txn} is confirmed, but at {name} it is {state:?}"));
        }
        self.check_inside(known, released || known.state != State::Confirmed)
    }

    /// Checks that nothing of an attempt of a parent is alive in its children.
    pub(super) fn check_gone_at_children(&self, reservation: &Reservation) -> Result<(), String> {
        let own = format!("{}/", reservation.id);
        for node in &self.grcs {
            for (txn, entry) in node.shadow.parent_entries() {
                let Some((_, id)) = entry.order.as_ref() else { continue };
                let Some(known) = node.shadow.find(id.as_str()) else { continue };
                if !txn.as_str().starts_with(&own)
                    || self.watch.exempt.is_lost(id.as_str())
                    || self.is_back(reservation, txn)
                {
                    continue;
                }
                if self.is_settling(&node.name, txn) {
                    continue;
                }
                if !known.is_over() {
                    let (id, state, below) = (&reservation.id, reservation.state, known.state);
                    return Err(format!("{id} is {state:?}, {txn} at {} is {below:?}", node.name));
                }
                self.check_gone(known)?;
            }
        }
        Ok(())
    }

    /// Has a coordinator that serves as an RM still to release what is superseded of a transaction? Until then
    /// it has the new version beside the old one, if it has reported for an inner RM that there is nothing to
    /// replace.
    fn is_settling(&self, name: &str, txn: &TransactionId) -> bool {
        let name = RmName::composed(name);
        self.grcs.iter().any(|node| node.shadow.is_settling_at(txn, &name))
    }

    /// Checks I5 across levels, at rest: what is booked for a parent's transaction is confirmed in the parent.
    pub(super) fn check_owned(
        &self,
        owners: &BTreeMap<TransactionId, &Reservation>,
    ) -> Result<(), String> {
        for (txn, reservation) in owners {
            if let Some(upper) = &reservation.parent_transaction
                && !owners.contains_key(upper)
                && !self.watch.exempt.is_lost_txn(upper)
            {
                return Err(format!("I5: {txn} is booked for {upper}, which is not confirmed"));
            }
        }
        Ok(())
    }
}
