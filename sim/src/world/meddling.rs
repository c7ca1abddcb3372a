//! Meddling coordinators (F13): a coordinator that the configuration of an RM or of a child coordinator names
//! sends a message about a transaction that another coordinator has opened or will open. The message must be
//! denied, and must leave no trace (I9, I21).
//!
//! A meddler has a name of its own and no core. Its messages always arrive as sent, because the faults of
//! packets are for nodes that wait for an answer.
//!
//! Left out: coordinators that share one name, which nobody can distinguish (F10); strangers that no
//! configuration names, whom the shells turn away.

use coalloc_common::{CoordinatorName, TransactionId, UserName};
use coalloc_protocol::conversation::{ConversationInput, Opening};
use coalloc_protocol::coordinator::{CoordinatorInput, MessageKind, ParentInput};
use coalloc_protocol::message::{Answer, HoldOrder, Message, Token};
use coalloc_protocol::participant::ParticipantInput;

use super::identity::{JudgedCall, Sender};
use super::{Address, Fault, Waiter, World};

/// The name of a coordinator that every configuration names and that does not belong to this federation.
pub const MEDDLER: &str = "meddler";

impl World {
    /// Sends one message about a transaction that belongs to another coordinator.
    pub(super) fn meddle(&mut self) -> Result<(), String> {
        let Some(txn) = self.somebodys() else { return Ok(()) };
        let others = self.grc_names.iter().filter(|name| !txn.is_of(name)).cloned();
        let mut names: Vec<CoordinatorName> = others.collect();
        names.push(CoordinatorName::composed(MEDDLER));
        let by = self.dice.pick(&names).clone();
        let kinds =
            [MessageKind::Hold, MessageKind::Commit, MessageKind::Abort, MessageKind::Release];
        let kind = *self.dice.pick(&kinds);
        let node = self.where_to_meddle(&txn);
        let message = match kind {
            MessageKind::Hold => self.order_about(&txn, &by).map(Message::Hold),
            MessageKind::Commit => Some(Message::Commit),
            MessageKind::Abort => Some(Message::Abort),
            MessageKind::Release => Some(Message::Release),
        };
        let Some(message) = message.filter(|_| self.is_up(node)) else { return Ok(()) };
        self.counts.meddled += 1;
        self.counts.fault(Fault::F13);
        self.say(
            |world| format!("{by} -> {}", world.name(node)),
            |_| format!("{kind:?} {txn}, which is not its own"),
        );
        let (sender, call) = (Sender::Coordinator(&by), JudgedCall::ToRm(kind, &by));
        let judgement = self.judge(node, sender, call);
        if !Self::takes(&judgement) {
            return Ok(());
        }
        let number = self.fresh();
        match node {
            Address::Rm(rm) => {
                let token = Token::new(number);
                self.meddled.insert(number, txn.clone());
                self.rms[rm].post(match message {
                    Message::Hold(order) => ParticipantInput::Hold { order, oldest_open: 0, token },
                    Message::Commit => ParticipantInput::Commit { txn, by, token },
                    Message::Abort => ParticipantInput::Abort { txn, by, token },
                    Message::Release => ParticipantInput::Release { txn, by, token },
                });
            }
            Address::Grc(grc) => {
                self.waiters.insert(number, Waiter::Meddler { txn: txn.clone() });
                self.grcs[grc].post(match message {
                    Message::Hold(order) => {
                        let opening = Opening::ParentHold(order, Token::new(number));
                        ConversationInput::Open(opening).into()
                    }
                    _ => {
                        let token = Token::new(number);
                        CoordinatorInput::Parent(ParentInput::End {
                            txn,
                            by,
                            kind,
                            epoch: 0,
                            token,
                        })
                    }
                });
            }
        }
        self.begin(node)
    }

    /// A transaction that was opened, or one that its coordinator may open next.
    pub(super) fn somebodys(&mut self) -> Option<TransactionId> {
        let all = self.watch.intents().len() as u64;
        if all == 0 {
            return None;
        }
        let number = usize::try_from(self.dice.below(all)).expect("an index");
        let txn = self.watch.intents().iter().nth(number)?.clone();
        self.guessed(txn)
    }

    /// The transaction, or now and then one that its coordinator may open next.
    pub(super) fn guessed(&mut self, txn: TransactionId) -> Option<TransactionId> {
        let (reservation, attempt) = txn.as_str().rsplit_once('/')?;
        Some(match self.dice.below(4) {
            0 => {
                let attempt: u32 = attempt.parse().ok()?;
                TransactionId::composed(format!("{reservation}/{}", attempt + 1))
            }
            1 => {
                let (coordinator, number) = reservation.rsplit_once('-')?;
                let (number, attempt): (u32, u32) = (number.parse().ok()?, attempt.parse().ok()?);
                TransactionId::composed(format!("{coordinator}-{}/{}", number + 1, attempt + 1))
            }
            _ => txn,
        })
    }

    /// Where the message goes: mostly to a node that has something of the transaction, sometimes to any RM or
    /// child coordinator.
    pub(super) fn where_to_meddle(&mut self, txn: &TransactionId) -> Address {
        let rms = 0..self.rms.len();
        let knows = |rm: &usize| self.rms[*rm].shadow.entries().contains_key(txn);
        let here = rms.clone().filter(knows).map(Address::Rm);
        let below = self.members.keys().copied();
        let below = below.filter(|grc| self.grcs[*grc].shadow.parent_entries().contains_key(txn));
        let here: Vec<Address> = here.chain(below.map(Address::Grc)).collect();
        let below = self.members.keys().copied().map(Address::Grc);
        let all: Vec<Address> = rms.map(Address::Rm).chain(below).collect();
        let from = if here.is_empty() || self.dice.per_mille(300) { all } else { here };
        *self.dice.pick(&from)
    }

    /// An order in the meddler's name, with the content of the coordinator's own order if any RM knows one.
    pub(super) fn order_about(
        &self,
        txn: &TransactionId,
        by: &CoordinatorName,
    ) -> Option<HoldOrder> {
        let own = format!("{}/", txn.as_str().rsplit_once('/')?.0);
        let mut entries = self.rms.iter().flat_map(|rm| rm.shadow.entries());
        let order = entries.find_map(|(known, entry)| {
            entry.order.as_ref().filter(|_| known.as_str().starts_with(&own))
        })?;
        Some(HoldOrder {
            txn: txn.clone(),
            coordinator: by.clone(),
            user: UserName::composed("Mallory"),
            ..order.clone()
        })
    }

    /// Checks that an RM answers a meddler only with a denial.
    pub(super) fn watch_meddled(
        &mut self,
        rm: usize,
        call: u64,
        answer: &Answer,
    ) -> Result<(), String> {
        match self.meddled.remove(&call) {
            Some(txn) if *answer != Answer::Denied => {
                let name = &self.rms[rm].name;
                Err(format!("I21: {name} answers a meddler about {txn}: {answer:?}"))
            }
            _ => Ok(()),
        }
    }
}
