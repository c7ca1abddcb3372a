//! Packets between nodes: calls and questions are sent, the network delays, loses or doubles their packets, and
//! each answer finds the node that waits for it.

use coalloc_common::{CoordinatorName, RmName, TransactionId, limits};
use coalloc_protocol::authorization::Denial;
use coalloc_protocol::conversation::{Caller, Next};
use coalloc_protocol::coordinator::{CoordinatorInput, ParentInput, Reply};
use coalloc_protocol::message::{Delivery, Message, Resolution, Token};
use coalloc_protocol::participant::ParticipantInput;

use super::identity::{JudgedCall, Sender};
use super::network::{OpenCall, Packet, PacketFate, Question};
use super::{Address, Event, Fault, Waiter, World, print};

impl World {
    /// Sends a coordinator's message to an RM, as a call that waits for an answer.
    pub(super) fn call(
        &mut self,
        grc: usize,
        rm: &RmName,
        txn: TransactionId,
        message: Message,
        oldest_open: u64,
    ) {
        let Some(to) = self.find(rm.as_str()) else { return };
        let (call, life, kind) = (self.fresh(), self.grcs[grc].life, message.kind());
        self.calls.insert(call, OpenCall { grc, life, to, txn: txn.clone(), kind, open: true });
        self.after(limits::MESSAGE_PATIENCE.as_us(), Event::CallOver(call));
        self.send(Address::Grc(grc), to, Packet::Message { call, txn, message, oldest_open });
    }

    /// Sends an RM's question (Resolve) to a coordinator of that name.
    pub(super) fn ask(&mut self, by: Address, coordinator: &CoordinatorName, txn: TransactionId) {
        self.counts.asked += 1;
        self.watch.asking.note(by, &txn, self.now_us);
        let names = self.grc_names.iter().enumerate();
        let named: Vec<usize> =
            names.filter(|(_, name)| *name == coordinator).map(|(index, _)| index).collect();
        if named.is_empty() {
            return;
        }
        // Of two coordinators with this name, the newest answers in a story; in a random world it is either
        // one.
        let grc = if self.is_story() { named[named.len() - 1] } else { *self.dice.pick(&named) };
        if named.len() > 1 && self.grcs[grc].shadow.reservation_of(&txn).is_none() {
            self.counts.strangers += 1;
        }
        let (ask, life) = (self.fresh(), self.life(by));
        self.questions.insert(ask, Question { by, life, txn: txn.clone(), open: true });
        self.after(limits::MESSAGE_PATIENCE.as_us(), Event::AskOver(ask));
        self.send(by, Address::Grc(grc), Packet::Ask { ask, txn });
    }

    pub(super) fn send(&mut self, from: Address, to: Address, packet: Packet) {
        self.counts.packets += 1;
        let rule = self.rules.iter().position(|rule| {
            rule.times > 0 && rule.from == from && rule.to == to && rule.word == packet.word()
        });
        let fate = rule.map(|index| {
            self.rules[index].times -= 1;
            self.rules[index].fate
        });
        let lost = self.cuts.contains(&(from, to))
            || fate == Some(PacketFate::Lose)
            || self.dice.per_mille(self.weather.loss);
        let twice = fate == Some(PacketFate::Twice) || self.dice.per_mille(self.weather.twice);
        let held_up_us = self.held_up_us(from, to);
        let mut note = if twice { "   (twice)".to_owned() } else { String::new() };
        for _ in 0..=u8::from(twice) {
            let mut delay_us = self.weather.delay_us(&mut self.dice) + held_up_us;
            if let Some(PacketFate::Delay(span)) = fate {
                delay_us = span.as_us();
            }
            if lost {
                "   (lost)".clone_into(&mut note);
                continue;
            }
            if delay_us >= 200_000 {
                self.counts.late += 1;
                if held_up_us == 0 {
                    self.counts.fault(Fault::F3);
                }
                note = format!(
                    "   (takes {}.{:03} s)",
                    delay_us / 1_000_000,
                    delay_us / 1_000 % 1_000
                );
            }
            if self.now_us <= self.faults_us {
                self.last_late_us = self.last_late_us.max(self.now_us + delay_us);
            }
            self.after(delay_us, Event::Arrive { from, to, packet: packet.clone() });
        }
        self.counts.lost += u64::from(lost);
        self.counts.doubled += u64::from(twice);
        (0..u64::from(lost) + u64::from(twice)).for_each(|_| self.counts.fault(Fault::F3));
        self.say(
            |world| format!("{} -> {}", world.name(from), world.name(to)),
            |_| format!("{}{note}", print::packet(&packet)),
        );
    }

    pub(super) fn arrive(
        &mut self,
        from: Address,
        to: Address,
        packet: Packet,
    ) -> Result<(), String> {
        if !self.is_up(to) {
            let called = matches!(packet, Packet::Message { .. } | Packet::Ask { .. });
            if called && self.dice.per_mille(self.weather.reset) {
                self.send(to, from, Packet::Reset { to: Box::new(packet) });
            }
            return Ok(());
        }
        match (to, packet) {
            (Address::Rm(index), Packet::Message { call, txn, message, oldest_open }) => {
                let Some(caller) = self.calls.get(&call) else { return Ok(()) };
                let by = self.grc_names[caller.grc].clone();
                let token = Token::new(call);
                if self.dice.per_mille(self.weather.deny) {
                    let text = "a status that is not the RM's".to_owned();
                    self.send(to, from, Packet::Rejected { call, text });
                    return Ok(());
                }
                if let Err(denial) = self.judge_message(from, to, &message) {
                    self.check_denied(to, &by, &denial)?;
                    let text = denial.to_string();
                    self.send(to, from, Packet::Rejected { call, text });
                    return Ok(());
                }
                if self.rejects(index, call, &message)
                    || self.refuses_anew(index, call, &message)
                    || self.promises_falsely(index, call, &message)
                {
                    return Ok(());
                }
                self.rms[index].post(match message {
                    Message::Hold(order) => ParticipantInput::Hold { order, oldest_open, token },
                    Message::Commit => ParticipantInput::Commit { txn, by, token },
                    Message::Abort => ParticipantInput::Abort { txn, by, token },
                    Message::Release => ParticipantInput::Release { txn, by, token },
                });
                self.begin(to)
            }
            (Address::Grc(index), Packet::Message { call, txn, message, oldest_open }) => {
                if let Err(denial) = self.judge_message(from, to, &message) {
                    return Err(format!("I21: {} denies its parent: {denial}", self.name(to)));
                }
                self.heard_from_parent(index, call, txn, message, oldest_open)
            }
            (Address::Grc(index), Packet::Ask { ask, txn }) => {
                let name = RmName::composed(self.name(from));
                let question = JudgedCall::Resolve(name.as_str());
                if let Err(denial) = self.judge(to, Sender::Node(from), question) {
                    return self.denies_question(index, from, ask, &denial);
                }
                let token = self.fresh();
                self.waiters.insert(token, Waiter::Rm { by: from, ask });
                let token = Token::new(token);
                self.grcs[index].post(CoordinatorInput::Resolve { txn, rm: name, token });
                self.begin(to)
            }
            (_, Packet::Answer { call, answer }) => {
                self.call_ends(call, Delivery::Answered(answer))
            }
            (_, Packet::Rejected { call, text }) => self.call_ends(call, Delivery::Rejected(text)),
            (_, Packet::Resolution { ask, resolution }) => self.ask_ends(ask, resolution),
            (_, Packet::Reset { to }) => match *to {
                Packet::Message { call, .. } => self.call_ends(call, Delivery::Lost),
                Packet::Ask { ask, .. } => self.ask_ends(ask, Resolution::Lost),
                _ => Ok(()),
            },
            _ => Ok(()),
        }
    }

    fn judge_message(
        &mut self,
        from: Address,
        to: Address,
        message: &Message,
    ) -> Result<(), Denial> {
        let Address::Grc(grc) = from else { return Ok(()) };
        let by = self.grc_names[grc].clone();
        self.judge(to, Sender::Node(from), JudgedCall::ToRm(message.kind(), &by))
    }

    /// A coordinator denies a question. It may do so only to a liar that is none of its RMs (F7).
    fn denies_question(
        &mut self,
        grc: usize,
        by: Address,
        ask: u64,
        denial: &Denial,
    ) -> Result<(), String> {
        if self.is_member(grc, self.name(by)) {
            let name = &self.grcs[grc].name;
            return Err(format!("I21: {name} denies {} its question: {denial}", self.name(by)));
        }
        let resolution = Resolution::Lost;
        self.send(Address::Grc(grc), by, Packet::Resolution { ask, resolution });
        Ok(())
    }

    pub(super) fn call_ends(&mut self, call: u64, delivery: Delivery) -> Result<(), String> {
        let Some(call) = self.calls.get_mut(&call).filter(|call| call.open) else { return Ok(()) };
        call.open = false;
        let (grc, life, kind) = (call.grc, call.life, call.kind);
        let (to, txn) = (call.to, call.txn.clone());
        if self.grcs[grc].life != life {
            return Ok(());
        }
        let rm = RmName::composed(self.name(to));
        self.grcs[grc].post(CoordinatorInput::Delivered { rm, txn, kind, delivery });
        self.begin(Address::Grc(grc))
    }

    pub(super) fn ask_ends(&mut self, ask: u64, resolution: Resolution) -> Result<(), String> {
        let Some(asked) = self.questions.get_mut(&ask).filter(|asked| asked.open) else {
            return Ok(());
        };
        asked.open = false;
        let (by, life, txn) = (asked.by, asked.life, asked.txn.clone());
        if self.life(by) != life {
            return Ok(());
        }
        match by {
            Address::Rm(rm) => self.rms[rm].post(ParticipantInput::Resolved { txn, resolution }),
            Address::Grc(grc) => {
                let resolved = ParentInput::Resolved { txn, resolution };
                self.grcs[grc].post(CoordinatorInput::Parent(resolved));
            }
        }
        self.begin(by)
    }

    /// A coordinator answers one of its callers.
    pub(super) fn reply(&mut self, grc: usize, reply: Reply) -> Result<(), String> {
        match reply {
            Reply::Request(token, Next::Plan(job)) => self.plan(grc, job, Caller::Request(token)),
            Reply::Change(token, Next::Plan(job)) => self.plan(grc, job, Caller::Change(token)),
            Reply::ParentHold(token, Next::Plan(job)) => {
                self.plan(grc, job, Caller::ParentHold(token))
            }
            Reply::Request(token, Next::Done(end)) => match self.take_waiter(token)? {
                Waiter::User { demand } => self.tell_end(grc, demand, &end),
                other => Err(format!("{other:?} is told {end:?}")),
            },
            Reply::Release(token, answer) => match self.take_waiter(token)? {
                Waiter::User { demand } => self.tell_released(demand, &answer),
                Waiter::Rogue(forgery) => self.watch_told_rogue(grc, &forgery, &answer),
                other => Err(format!("{other:?} is told {answer:?}")),
            },
            Reply::Change(token, Next::Done(end)) => match self.take_waiter(token)? {
                Waiter::Changer { demand, wish } => self.tell_changer(grc, demand, wish, &end),
                Waiter::Follower { reservation, reports, .. } => {
                    self.tell_follower(grc, &reservation, reports, &end)
                }
                other => Err(format!("{other:?} is told {end:?}")),
            },
            Reply::ParentHold(token, Next::Done(answer)) => {
                let waiter = self.take_waiter(token)?;
                self.answer_to_parent(grc, &waiter, answer)
            }
            Reply::ParentEnd(token, answer) => {
                let waiter = self.take_waiter(token)?;
                self.answer_to_parent(grc, &waiter, answer)
            }
            Reply::Resolve(token, resolution) => match self.take_waiter(token)? {
                Waiter::Rm { by, ask } => {
                    let packet = Packet::Resolution { ask, resolution };
                    self.send(Address::Grc(grc), by, packet);
                    Ok(())
                }
                Waiter::Rogue(forgery) => self.watch_told_rogue(grc, &forgery, &resolution),
                other => Err(format!("{other:?} is told {resolution:?}")),
            },
            Reply::GiveUp(token, answer) => match self.take_waiter(token)? {
                Waiter::Operator => self.tell_operator(grc, &answer),
                Waiter::Rogue(forgery) => self.watch_told_rogue(grc, &forgery, &answer),
                other => Err(format!("{other:?} is told {answer:?}")),
            },
            Reply::Report(token, end) => match self.take_waiter(token)? {
                Waiter::Reporter { demand, report } => {
                    self.tell_reporter(grc, demand, report, &end)
                }
                other => Err(format!("{other:?} is told {end:?}")),
            },
            Reply::Rebook(..) | Reply::Disown(..) | Reply::Calendar(..) => {
                Err(format!("nobody repairs anything or has a calendar here: {reply:?}"))
            }
        }
    }

    fn take_waiter<A>(&mut self, token: Token<A>) -> Result<Waiter, String> {
        let number = token.number();
        self.waiters.remove(&number).ok_or_else(|| format!("token {number} is answered twice"))
    }
}
