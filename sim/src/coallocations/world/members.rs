//! The resource managers of a day: they get messages, answer, and ask. Their answers are counted and traced.

use coalloc_common::{Refusal, TransactionId};
use coalloc_protocol::Core;
use coalloc_protocol::coordinator::MessageKind;
use coalloc_protocol::message::{Answer, Message, Token};
use coalloc_protocol::participant::{ParticipantEffect, ParticipantInput, Phase};

use super::{DAY, Event, Member, World, released};
use crate::experiment::TraceEvent;

impl World<'_> {
    pub(super) fn rm_hears(&mut self, grc: usize, rm: usize, txn: TransactionId, message: Message) {
        let (kind, by) = (message.kind(), self.grcs[grc].name.clone());
        // One message is handled at a time, and answered within its step.
        let token = Token::new(0);
        let input = match message {
            Message::Hold(order) => ParticipantInput::Hold { order, oldest_open: 0, token },
            Message::Commit => ParticipantInput::Commit { txn: txn.clone(), by, token },
            Message::Abort => ParticipantInput::Abort { txn: txn.clone(), by, token },
            Message::Release => ParticipantInput::Release { txn: txn.clone(), by, token },
        };
        let Some(answer) = self.step_rm(rm, input) else { return };
        let from = Member::Rm(rm);
        self.note(grc, from, &txn, kind, &answer);
        if kind == MessageKind::Commit && self.trace.is_wanted() {
            self.tell_booked(grc, rm, &txn);
        }
        self.send(from, Event::ToGrc { grc, from, txn, kind, answer });
    }

    /// Counts an answer, and traces who refused.
    pub(super) fn note(
        &mut self,
        grc: usize,
        from: Member,
        txn: &TransactionId,
        kind: MessageKind,
        answer: &Answer,
    ) {
        if kind != MessageKind::Hold {
            return;
        }
        self.exchanged(from).holds += 1;
        if let Answer::Refused(refusal) = answer {
            self.exchanged(from).holds_refused += 1;
            self.tell_refused(grc, from, txn, refusal);
        }
    }

    fn tell_refused(&mut self, grc: usize, from: Member, txn: &TransactionId, refusal: &Refusal) {
        if !self.trace.is_wanted() {
            return;
        }
        let Some(request) = self.number_of(grc, txn) else { return };
        let (at, name) = (self.now_us, self.rm_name(from));
        let (resource, reason) = (name.as_str().into(), refusal.reason.word().into());
        self.trace.event(TraceEvent::Refused { at, request, resource, reason });
    }

    fn tell_booked(&mut self, grc: usize, rm: usize, txn: &TransactionId) {
        let Some(request) = self.number_of(grc, txn) else { return };
        let at = self.now_us;
        let entry = self.rms[rm].entries().get(txn).filter(|entry| entry.phase == Phase::Booked);
        let segments = entry.and_then(|entry| entry.order.as_ref());
        for segment in segments.iter().flat_map(|order| &order.segments) {
            self.trace.event(TraceEvent::Reserved {
                at,
                request,
                resource: segment.resource.as_str().into(),
                amount: segment.amount.0,
                start: segment.window.start().since(DAY).as_us(),
                end: segment.window.end().since(DAY).as_us(),
            });
        }
    }

    /// The number of the request that a coordinator's transaction serves, also where the transaction serves a
    /// parent.
    pub(super) fn number_of(&self, grc: usize, txn: &TransactionId) -> Option<u64> {
        let known = self.grcs[grc].core.reservation_of(txn)?;
        let ticket = match &known.parent_transaction {
            None => &known.ticket,
            Some(upper) => self.parent_ticket(upper)?,
        };
        self.numbers.get(&ticket.request).map(|number| *number as u64)
    }

    /// Steps a participant. Returns its answer, if it has one.
    pub(super) fn step_rm(&mut self, rm: usize, input: ParticipantInput) -> Option<Answer> {
        let now = self.now();
        let effects = released(self.rms[rm].step(input, now));
        let mut reply = None;
        for effect in effects {
            match effect {
                ParticipantEffect::Reply { answer, .. } => reply = Some(answer),
                ParticipantEffect::Ask { coordinator, txn } => {
                    self.ask_coordinator(Member::Rm(rm), &coordinator, txn);
                }
                ParticipantEffect::Reconcile { .. } => {}
            }
        }
        self.wake(Member::Rm(rm), self.rms[rm].next_wake());
        reply
    }
}
