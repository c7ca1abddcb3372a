//! A rogue with the stolen key of one coordinator (F14), which every RM and child coordinator of that one's
//! configuration believes.
//!
//! It forges Hold, Commit, Abort and Release of known and guessed transactions of all coordinators, in the name of the
//! stolen coordinator or of another one. It also makes holds that would replace somebody else's booking, asks for
//! outcomes as if it were an RM, and calls what only users and operators may. What it sends is lost, doubled and late like
//! all messages, so that some of it arrives long after all is at rest.
//!
//! What belongs to others must be denied: by the judgement of identities, or by the core where the message is in the
//! stolen coordinator's own name. What belongs to the stolen coordinator may end, and the checks leave exactly that out
//! ([`exempt`](super::exempt)).
//!
//! Left out: keys of RMs, whose owners may lie anyway (F7), and of users and operators; floods.

use std::collections::BTreeMap;

use coalloc_common::{CoordinatorName, ReservationId, RmName, TransactionId, UserName};
use coalloc_protocol::conversation::{ConversationInput, Opening, ParentReply};
use coalloc_protocol::coordinator::{CoordinatorInput, OfWhat, ParentInput, Repair};
use coalloc_protocol::message::{Answer, HoldOrder, Message, Token};
use coalloc_protocol::participant::{ParticipantInput, Phase};

use super::identity::{JudgedCall, Sender};
use super::{Address, Event, Fault, Waiter, World, print};

/// The rogue of a world.
#[derive(Debug)]
pub struct Rogue {
    /// The coordinator whose key it has.
    pub key: CoordinatorName,
    /// The answers of RMs that are still to come, by the number of the message.
    open: BTreeMap<u64, Forgery>,
}

impl Rogue {
    /// A rogue with the key of this coordinator.
    pub const fn new(key: CoordinatorName) -> Self {
        Self { key, open: BTreeMap::new() }
    }
}

/// A message that the rogue sends.
#[derive(Debug, Clone)]
pub struct Forged {
    to: Address,
    /// The coordinator in whose name it is.
    by: CoordinatorName,
    txn: TransactionId,
    content: ForgedContent,
}

/// What a forged message says.
#[derive(Debug, Clone)]
pub enum ForgedContent {
    /// What a coordinator sends to an RM or a child coordinator.
    ToRm(Message),
    /// A question about the outcome, in the name of this RM.
    Resolve(RmName),
    /// A user's release of the reservation.
    Release,
    /// An operator's end of waiting for this RM.
    GiveUp(RmName),
}

/// How the rogue's message must be answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Owed {
    /// In any way, because it is about what belongs to the stolen coordinator; or it was denied already.
    Anything,
    /// It must not be held, because it would replace somebody else's booking.
    Refusal,
    /// It must be denied.
    Denial,
}

/// A message of the rogue that a node has taken.
#[derive(Debug, Clone)]
pub struct Forgery {
    txn: TransactionId,
    owed: Owed,
}

impl World {
    /// Sends one message of the rogue.
    pub(super) fn forge(&mut self) {
        let Some(key) = self.rogue.as_ref().map(|rogue| rogue.key.clone()) else { return };
        let Some(txn) = self.rogues_target(&key) else { return };
        let owner = self.grc_names.iter().find(|name| txn.is_of(name)).cloned();
        let by = match owner {
            Some(owner) if self.dice.per_mille(500) => owner,
            _ => key.clone(),
        };
        let forged = match self.dice.below(10) {
            0 => self.forged_question(&key, txn, by),
            1 => self.forged_of_others(txn, by),
            _ => self.forged_message(txn, by),
        };
        let Some(forged) = forged else { return };
        let twice = self.dice.per_mille(self.weather.twice.max(100));
        for _ in 0..=u8::from(twice) {
            if self.dice.per_mille(self.weather.loss) {
                continue;
            }
            let delay_us = self.weather.delay_us(&mut self.dice);
            self.last_late_us = self.last_late_us.max(self.now_us + delay_us);
            self.after(delay_us, Event::Forged(Box::new(forged.clone())));
        }
    }

    /// A transaction of the stolen coordinator or of anybody, known or guessed.
    fn rogues_target(&mut self, key: &CoordinatorName) -> Option<TransactionId> {
        if self.dice.per_mille(500) {
            let own = self.watch.intents().iter().filter(|txn| txn.is_of(key));
            let own: Vec<TransactionId> = own.cloned().collect();
            if !own.is_empty() {
                let txn = self.dice.pick(&own).clone();
                return self.guessed(txn);
            }
        }
        self.somebodys()
    }

    /// Hold, Commit, Abort or Release.
    fn forged_message(&mut self, txn: TransactionId, by: CoordinatorName) -> Option<Forged> {
        let to = self.where_to_meddle(&txn);
        let message = match self.dice.below(5) {
            0 | 1 => Message::Hold(self.forged_order(to, &txn, &by)?),
            2 => Message::Commit,
            3 => Message::Abort,
            _ => Message::Release,
        };
        Some(Forged { to, by, txn, content: ForgedContent::ToRm(message) })
    }

    /// An order with the content of another one. Now and then it books at once, or would replace a booking of anybody.
    fn forged_order(
        &mut self,
        to: Address,
        txn: &TransactionId,
        by: &CoordinatorName,
    ) -> Option<HoldOrder> {
        let own = self.order_about(txn, by);
        let any = || self.rms.iter().flat_map(|rm| rm.shadow.entries().values());
        let order = own.or_else(|| any().find_map(|entry| entry.order.clone()))?;
        let coordinator = by.clone();
        let user = UserName::composed("Mallory");
        let mut order = HoldOrder { txn: txn.clone(), coordinator, user, ..order };
        if let Address::Rm(rm) = to
            && self.dice.per_mille(400)
        {
            let entries = self.rms[rm].shadow.entries().iter();
            let booked = entries.filter(|(_, entry)| entry.phase == Phase::Booked);
            let booked: Vec<TransactionId> = booked.map(|(txn, _)| txn.clone()).collect();
            if !booked.is_empty() {
                order.replaces = Some(self.dice.pick(&booked).clone());
                order.one_way = false;
            }
        } else if order.replaces.is_none() {
            order.one_way = self.dice.per_mille(200);
        }
        Some(order)
    }

    /// A question about the outcome, in the name of an RM or, where a child coordinator's key was stolen, of that one.
    fn forged_question(
        &mut self,
        key: &CoordinatorName,
        txn: TransactionId,
        by: CoordinatorName,
    ) -> Option<Forged> {
        let to = Address::Grc(self.grc_names.iter().position(|name| txn.is_of(name))?);
        let rms: Vec<RmName> = self.rms.iter().map(|rm| RmName::composed(&*rm.name)).collect();
        let rm = match self.dice.per_mille(300) {
            true => RmName::composed(key.as_str()),
            false => self.dice.pick(&rms).clone(),
        };
        Some(Forged { to, by, txn, content: ForgedContent::Resolve(rm) })
    }

    /// What only a user or an operator may call.
    fn forged_of_others(&mut self, txn: TransactionId, by: CoordinatorName) -> Option<Forged> {
        let to = Address::Grc(self.grc_names.iter().position(|name| txn.is_of(name))?);
        let rms: Vec<RmName> = self.rms.iter().map(|rm| RmName::composed(&*rm.name)).collect();
        let content = match self.dice.per_mille(500) {
            true => ForgedContent::Release,
            false => ForgedContent::GiveUp(self.dice.pick(&rms).clone()),
        };
        Some(Forged { to, by, txn, content })
    }

    /// A message of the rogue arrives. The node judges it, and its core takes it if it is allowed.
    pub(super) fn forged_arrives(&mut self, forged: Forged) -> Result<(), String> {
        let Some(key) = self.rogue.as_ref().map(|rogue| rogue.key.clone()) else { return Ok(()) };
        let (to, txn) = (forged.to, forged.txn.clone());
        if !self.is_up(to) {
            return Ok(());
        }
        self.counts.forged += 1;
        self.counts.fault(Fault::F14);
        self.say(
            |world| format!("rogue ({key}) -> {}", world.name(to)),
            |_| format!("{}, in the name of {}", print::forged(&txn, &forged.content), forged.by),
        );
        let reservation = reservation_of(&txn);
        let call = match &forged.content {
            ForgedContent::ToRm(message) => JudgedCall::ToRm(message.kind(), &forged.by),
            ForgedContent::Resolve(rm) => JudgedCall::Resolve(rm.as_str()),
            ForgedContent::Release => JudgedCall::Release(&reservation),
            ForgedContent::GiveUp(_) => JudgedCall::GiveUp,
        };
        let judgement = self.judge(to, Sender::Coordinator(&key), call);
        if !Self::takes(&judgement) {
            self.counts.forged_denied += 1;
            return Ok(());
        }
        let owed = match judgement {
            // The rogue is told of the denial, whatever the core answers.
            Err(_) => Owed::Anything,
            Ok(()) => self.owed(&key, &forged),
        };
        if owed != Owed::Denial && judgement.is_ok() {
            self.counts.forged_own += 1;
            self.watch.exempt.steal(&txn);
            // The Commit of such a hold ends the booking that it replaces.
            if let ForgedContent::ToRm(Message::Hold(order)) = &forged.content
                && let Some(old) = order.replaces.as_ref().filter(|old| old.is_of(&key))
            {
                self.watch.exempt.steal(old);
            }
        }
        let Forged { by, content, .. } = forged;
        match to {
            Address::Rm(rm) => self.post_forged_to_rm(rm, txn, by, content, owed),
            Address::Grc(grc) => self.post_forged_to_grc(grc, txn, by, content, owed),
        }
        self.begin(to)
    }

    /// How a message must be answered, by whose things it is about. It is said without the judgement that is checked.
    fn owed(&self, key: &CoordinatorName, forged: &Forged) -> Owed {
        let is_own = forged.by == *key && forged.txn.is_of(key);
        match &forged.content {
            ForgedContent::ToRm(Message::Hold(order)) if is_own => match &order.replaces {
                Some(old) if !old.is_of(key) => Owed::Refusal,
                _ => Owed::Anything,
            },
            ForgedContent::ToRm(_) if is_own => Owed::Anything,
            // The stolen coordinator is an RM to its parents.
            ForgedContent::Resolve(rm) if rm.as_str() == key.as_str() => match forged.to {
                Address::Grc(grc) if self.is_member(grc, key.as_str()) => Owed::Anything,
                _ => Owed::Denial,
            },
            _ => Owed::Denial,
        }
    }

    fn post_forged_to_rm(
        &mut self,
        rm: usize,
        txn: TransactionId,
        by: CoordinatorName,
        content: ForgedContent,
        owed: Owed,
    ) {
        let ForgedContent::ToRm(message) = content else { return };
        let number = self.fresh();
        let token = Token::new(number);
        if let Some(rogue) = &mut self.rogue {
            rogue.open.insert(number, Forgery { txn: txn.clone(), owed });
        }
        self.rms[rm].post(match message {
            Message::Hold(order) => ParticipantInput::Hold { order, oldest_open: 0, token },
            Message::Commit => ParticipantInput::Commit { txn, by, token },
            Message::Abort => ParticipantInput::Abort { txn, by, token },
            Message::Release => ParticipantInput::Release { txn, by, token },
        });
    }

    fn post_forged_to_grc(
        &mut self,
        grc: usize,
        txn: TransactionId,
        by: CoordinatorName,
        content: ForgedContent,
        owed: Owed,
    ) {
        let number = self.fresh();
        self.waiters.insert(number, Waiter::Rogue(Forgery { txn: txn.clone(), owed }));
        let reservation = reservation_of(&txn);
        self.grcs[grc].post(match content {
            ForgedContent::ToRm(Message::Hold(order)) => {
                ConversationInput::Open(Opening::ParentHold(order, Token::new(number))).into()
            }
            ForgedContent::ToRm(message) => {
                let (kind, token) = (message.kind(), Token::new(number));
                CoordinatorInput::Parent(ParentInput::End { txn, by, kind, epoch: 0, token })
            }
            ForgedContent::Resolve(rm) => {
                CoordinatorInput::Resolve { txn, rm, token: Token::new(number) }
            }
            ForgedContent::Release => {
                CoordinatorInput::Release { reservation, token: Token::new(number) }
            }
            ForgedContent::GiveUp(rm) => {
                let (of, by) = (OfWhat::Reservation(reservation), UserName::composed("Mallory"));
                let (why, token) = ("it is in the way".to_owned(), Token::new(number));
                CoordinatorInput::Repair(Repair::GiveUp { rm, of, by, why, token })
            }
        });
    }

    /// Checks an RM's answer to a message of the rogue.
    pub(super) fn watch_forged(
        &mut self,
        rm: usize,
        number: u64,
        answer: &Answer,
    ) -> Result<(), String> {
        let open = self.rogue.as_mut().and_then(|rogue| rogue.open.remove(&number));
        open.map_or(Ok(()), |forgery| check_forged(&self.rms[rm].name, &forgery, answer))
    }

    /// Checks a child coordinator's answer to a message of the rogue.
    pub(super) fn watch_forged_to_child(
        &self,
        grc: usize,
        forgery: &Forgery,
        reply: &ParentReply,
    ) -> Result<(), String> {
        match reply {
            ParentReply::SentAgain => Ok(()),
            ParentReply::Answered(answer) => check_forged(&self.grcs[grc].name, forgery, answer),
        }
    }

    /// Checks that a coordinator may tell the rogue anything that is no answer to a coordinator.
    pub(super) fn watch_told_rogue(
        &self,
        grc: usize,
        forgery: &Forgery,
        what: &impl std::fmt::Debug,
    ) -> Result<(), String> {
        if forgery.owed == Owed::Anything {
            return Ok(());
        }
        let (name, txn) = (&self.grcs[grc].name, &forgery.txn);
        Err(format!("I21: {name} tells a rogue about {txn}: {what:?}"))
    }
}

fn check_forged(name: &str, forgery: &Forgery, answer: &Answer) -> Result<(), String> {
    let fits = match forgery.owed {
        Owed::Anything => true,
        Owed::Refusal => !matches!(answer, Answer::Held { .. }),
        Owed::Denial => *answer == Answer::Denied,
    };
    if fits {
        return Ok(());
    }
    let txn = &forgery.txn;
    Err(format!("I21: {name} answers a rogue about {txn}, which is not its own: {answer:?}"))
}

/// The reservation that a transaction is an attempt of.
fn reservation_of(txn: &TransactionId) -> ReservationId {
    let reservation = txn.as_str().rsplit_once('/').map_or(txn.as_str(), |(id, _)| id);
    ReservationId::composed(reservation)
}
