//! Plans that a coordinator reserves: in two phases, or one-way at one resource manager after the other.
//!
//! The coordinator of each scheduler is the one that runs live (`coalloc_protocol::coordinator`). On the
//! other side are the participants at the controllers. A task is opened when it arrives, and its plan is the only
//! candidate. A refusal aborts the attempt. When all resource managers have acknowledged that, the coordinator
//! asks for another plan, as often as the task may be planned. A task succeeds when all have booked. The cores
//! are woken at the times that they ask for: to repeat messages, for timeouts, and for holds that expire.
//!
//! A message takes as long as light takes over the shortest route to the node. A Hold also takes the time that
//! the node needs to read it. Data are planned to leave after the answers are back, as far as vectors may begin
//! later ([`coalloc_common::limits::LATENCY_MAX`]). Facts travel with the answer, and the belief is updated
//! before the coordinator gets the answer, as in a daemon.
//!
//! Left out: loss, restarts and parent coordinators, which the fault world has; and the random backoff before
//! planning again, which belongs to the coordinator's shell.

use std::collections::BTreeMap;

use coalloc_common::{
    CoordinatorName, Refusal, RequestId, ReservationId, RmName, Segment, Span, Time, TransactionId,
    UserName,
};
use coalloc_protocol::Core;
use coalloc_protocol::conversation::{
    Caller, ConversationInput, Next, Opening, PlanJob, PlanTarget, Planned, RequestEnd,
};
use coalloc_protocol::coordinator::{
    Candidate, CoordinatorEffect, CoordinatorInput, Details, MessageKind, Reply, Reservation,
    State, Ticket,
};
use coalloc_protocol::message::{Answer, Delivery, Message, Resolution, Token};
use coalloc_protocol::participant::ParticipantInput;

use super::belief::ClaimPart;
use super::controller::{ControllerStep, now_of};
use super::events::{Answered, Attempt, CoordinatorMessage, CoordinatorReply, Event, Piece};
use super::settings::Protocol;
use super::world::World;
use crate::forgetful::released;

fn request_of(number: u32) -> RequestId {
    RequestId::composed(format!("t{number}"))
}

/// The token of a caller is the number of its task.
fn token_of(number: u32) -> Token<Next<RequestEnd>> {
    Token::new(u64::from(number))
}

impl World<'_> {
    /// The name of the coordinator of a task.
    pub(super) fn coordinator_of(&self, number: u32) -> &CoordinatorName {
        self.offices[self.tasks[number as usize].scheduler].name()
    }

    /// A task arrives at its coordinator.
    pub(super) fn open(&mut self, number: u32) -> Result<(), String> {
        let request = request_of(number);
        let ticket = Ticket { request, user: UserName::composed("user"), content: String::new() };
        let opening = Opening::Request(ticket, token_of(number));
        self.tell_coordinator(number, ConversationInput::Open(opening))
    }

    /// Gives a task's plan to its coordinator, as the only candidate.
    pub(super) fn order(&mut self, attempt: Attempt) -> Result<(), String> {
        let (number, _) = attempt;
        let state = &self.tasks[number as usize];
        let in_turn = self.settings.reservation.protocol == Protocol::OneWayInTurn;
        let mut segments: BTreeMap<RmName, Vec<Segment>> = BTreeMap::new();
        let mut order: Vec<RmName> = Vec::new();
        for piece in &state.pieces {
            let resource = &self.net.resources[piece.resource];
            let rm = self.net.places[resource.controller].name.clone();
            let (id, amount, window) = (resource.id.clone(), piece.amount, piece.window);
            let segment = Segment { resource: id, amount, window };
            if in_turn && !segments.contains_key(&rm) {
                order.push(rm.clone());
            }
            segments.entry(rm).or_default().push(segment);
        }
        let details = Details::default();
        let candidates =
            vec![Candidate { segments, order, one_way: in_turn, details, ..Candidate::default() }];
        let left = self.settings.reservation.tries.saturating_sub(state.asked);
        let planned = Planned { replans: Some(left), ..Ok(candidates).into() };
        self.planned(number, planned)
    }

    /// There is no plan for a task, and there will be no other one.
    pub(super) fn refuse(&mut self, number: u32, refusal: Refusal) -> Result<(), String> {
        self.planned(number, Err(refusal).into())
    }

    fn planned(&mut self, number: u32, planned: Planned) -> Result<(), String> {
        let job = match self.tasks[number as usize].reservation.clone() {
            // What refusals have reported is in the belief already.
            Some(reservation) => PlanJob::again(reservation, Vec::new()),
            None => PlanJob::first(PlanTarget::Request(request_of(number))),
        };
        let caller = Caller::Request(token_of(number));
        self.tell_coordinator(number, ConversationInput::Planned { job, planned, caller })
    }

    fn tell_coordinator(&mut self, number: u32, input: ConversationInput) -> Result<(), String> {
        self.step_coordinator(self.tasks[number as usize].scheduler, input.into()).map(|_| ())
    }

    /// Steps a coordinator, and carries out its effects. Returns its answer to Resolve, if it gives one.
    fn step_coordinator(
        &mut self,
        scheduler: usize,
        input: CoordinatorInput,
    ) -> Result<Option<Resolution>, String> {
        let now = now_of(self.now());
        let mut said = None;
        for effect in released(self.offices[scheduler].core.step(input, now)) {
            match effect {
                CoordinatorEffect::Send { rm, txn, message, .. } => {
                    self.post(scheduler, &rm, txn, message)?;
                }
                CoordinatorEffect::Reply(Reply::Resolve(_, resolution)) => said = Some(resolution),
                CoordinatorEffect::Reply(Reply::Request(token, next)) => {
                    self.replied(token.number() as u32, next)?;
                }
                CoordinatorEffect::Reply(other) => {
                    return Err(format!("nobody waits for {other:?}"));
                }
                CoordinatorEffect::AskParent { .. } => return Err("it has no parent".to_owned()),
            }
        }
        let office = &mut self.offices[scheduler];
        let wake = office.core.next_wake().map(|wake| Time::from_us(wake.as_us()));
        if let Some(wake) = wake.filter(|wake| office.wakes.is_none_or(|set| *wake < set)) {
            office.wakes = Some(wake);
            self.queue.at(wake, Event::WakeCoordinator(scheduler as u32));
        }
        Ok(said)
    }

    fn post(
        &mut self,
        scheduler: usize,
        rm: &RmName,
        txn: TransactionId,
        message: Message,
    ) -> Result<(), String> {
        let number = self.task_of(scheduler, &txn)?;
        let place = self.net.place_named(rm).ok_or_else(|| format!("there is no {rm}"))?;
        let reads = matches!(message, Message::Hold(_));
        let handling = if reads { self.settings.reservation.processing_us } else { 0 };
        let away = self.away(place, scheduler).saturating_add(Span::from_us(handling));
        let attempt = (number, self.tasks[number as usize].asked.saturating_sub(1));
        let letter = CoordinatorMessage { scheduler, place, txn, attempt, content: message };
        self.send(away, Event::Order(Box::new(letter)));
        Ok(())
    }

    /// Handles a coordinator's answer about a task.
    fn replied(&mut self, number: u32, next: Next<RequestEnd>) -> Result<(), String> {
        match next {
            Next::Plan(job) => match job.reservation() {
                None => {
                    let takes = Span::from_us(self.settings.planning.takes_us);
                    self.send(takes, Event::Plan(number));
                    Ok(())
                }
                Some(reservation) => {
                    self.end_attempt(number, Some(reservation.clone()));
                    // The refusal has reported what is free, so there is nothing to wait for.
                    self.again(number, Span::ZERO)
                }
            },
            Next::Done(RequestEnd::Stands(known)) => {
                self.stands(number, &known);
                Ok(())
            }
            Next::Done(other) => Err(format!("the scheduler of task {number} is told {other:?}")),
        }
    }

    fn stands(&mut self, number: u32, known: &Reservation) {
        let reservation = Some(known.id.clone());
        if known.state == State::Confirmed {
            let state = &mut self.tasks[number as usize];
            state.reservation = reservation;
            let end = state.pieces.last().map_or(state.created, |run| run.window.end());
            self.succeed(number, end);
        } else {
            // Also if holds are still being dropped: the task will not run.
            self.end_attempt(number, reservation);
            self.fail(number);
        }
    }

    /// The parts of the present attempt that have no answer were not sent, and do not count as taken.
    fn end_attempt(&mut self, number: u32, reservation: Option<ReservationId>) {
        let state = &mut self.tasks[number as usize];
        state.reservation = reservation;
        let (attempt, scheduler) = ((number, state.asked.saturating_sub(1)), state.scheduler);
        let belief = self.belief_of(scheduler);
        let which = ClaimPart::Unanswered(attempt);
        self.beliefs[belief].settle(&self.net, &self.controllers, which, None);
    }

    /// A message of a coordinator arrives at a controller.
    pub(super) fn ordered(&mut self, letter: CoordinatorMessage<Message>) -> Result<(), String> {
        let CoordinatorMessage { scheduler, place, txn, attempt, content: message } = letter;
        let (now, kind) = (self.now(), message.kind());
        let asked = match &message {
            // If the Hold has arrived before, all of it is counted already.
            Message::Hold(order) if !self.controllers[place].knows(&txn) => order.segments.clone(),
            _ => Vec::new(),
        };
        let by = self.offices[scheduler].name.clone();
        let stepped = self.controllers[place].hear(by, txn.clone(), message, now);
        if kind == MessageKind::Hold {
            self.count_hold(attempt, place, &asked, &stepped);
        }
        self.follow(place, &stepped)?;
        let Some(answer) = stepped.answer else { return Err(format!("{txn} has no answer")) };
        let wanted = self.settings.reservation.fresh_facts && !self.beliefs[0].is_truth();
        let controller = &self.controllers[place];
        let facts = (wanted && !asked.is_empty()).then(|| controller.fresh(&asked, now));
        let yes = matches!(answer, Answer::Held { .. });
        let learned = Answered { yes, facts, revision: controller.revision() };
        let content = CoordinatorReply { kind, answer, learned };
        let letter = CoordinatorMessage { scheduler, place, txn, attempt, content };
        self.send(self.away(place, scheduler), Event::Replied(Box::new(letter)));
        Ok(())
    }

    /// Counts and reports the outcome of a Hold of these segments.
    fn count_hold(
        &mut self,
        attempt: Attempt,
        place: usize,
        segments: &[Segment],
        stepped: &ControllerStep,
    ) {
        let pieces = self.pieces_at(place, segments);
        let runs =
            pieces.iter().filter(|piece| self.net.resources[piece.resource].cluster.is_some());
        let runs = runs.count() as u64;
        if let Some(counts) = self.counts(attempt.0) {
            counts.runs += runs;
        }
        if stepped.took {
            for piece in &pieces {
                self.reserved(attempt.0, piece);
                self.changed(piece.resource, piece.window);
            }
        } else if let Some(Answer::Refused(refusal)) = &stepped.answer {
            // A Hold that arrives after its Abort is refused as well, but it has competed with nobody.
            let named = |piece: &&Piece| {
                refusal.resource.as_ref() == Some(&self.net.resources[piece.resource].id)
            };
            let short = pieces.iter().find(named).cloned();
            if let Some(piece) = short {
                self.count_refusal(attempt, &piece);
            }
        }
    }

    /// The segments, with the numbers that the world gives to resources.
    fn pieces_at(&self, place: usize, segments: &[Segment]) -> Vec<Piece> {
        let piece = |segment: &Segment| {
            let own = &self.net.places[place].resources;
            let resource = own.iter().find(|at| self.net.resources[**at].id == segment.resource)?;
            Some(Piece::new(*resource, segment.window, segment.amount, Span::ZERO))
        };
        segments.iter().filter_map(piece).collect()
    }

    /// Carries out what follows from a step of a controller: what it has freed is free, and its questions are
    /// sent.
    fn follow(&mut self, place: usize, stepped: &ControllerStep) -> Result<(), String> {
        for txn in &stepped.freed {
            let Some(order) = self.controllers[place].asked(txn) else { continue };
            let (by, segments) = (order.coordinator.clone(), order.segments.clone());
            let scheduler = self.scheduler_named(&by)?;
            let number = self.task_of(scheduler, txn)?;
            for piece in self.pieces_at(place, &segments) {
                self.freed(number, &piece);
                self.changed(piece.resource, piece.window);
            }
        }
        for (by, txn) in &stepped.asks {
            let scheduler = self.scheduler_named(by)?;
            let letter = CoordinatorMessage {
                scheduler,
                place,
                txn: txn.clone(),
                attempt: (0, 0),
                content: (),
            };
            self.send(self.away(place, scheduler), Event::Asks(Box::new(letter)));
        }
        let controller = &mut self.controllers[place];
        let wake = controller.next_wake();
        if let Some(wake) = wake.filter(|wake| controller.wakes.is_none_or(|set| *wake < set)) {
            controller.wakes = Some(wake);
            self.queue.at(wake, Event::WakeController(place as u32));
        }
        Ok(())
    }

    /// The task that a transaction belongs to.
    fn task_of(&self, scheduler: usize, txn: &TransactionId) -> Result<u32, String> {
        let known = self.offices[scheduler].core.reservation_of(txn);
        let number = known.and_then(|known| known.ticket.request.as_str().strip_prefix('t'));
        let number = number.and_then(|number| number.parse().ok());
        number.ok_or_else(|| format!("{txn} belongs to no task"))
    }

    fn scheduler_named(&self, name: &CoordinatorName) -> Result<usize, String> {
        let found = self.offices.iter().position(|office| office.name == *name);
        found.ok_or_else(|| format!("there is no coordinator {name}"))
    }

    /// The outcome of a message arrives at its coordinator.
    pub(super) fn answered(
        &mut self,
        letter: CoordinatorMessage<CoordinatorReply>,
    ) -> Result<(), String> {
        let CoordinatorMessage { scheduler, place, txn, attempt, content } = letter;
        let CoordinatorReply { kind, answer, learned } = content;
        if kind == MessageKind::Hold {
            self.learn(attempt.0, ClaimPart::At(attempt, place), Some(place), &learned);
        }
        let (rm, delivery) = (self.net.places[place].name.clone(), Delivery::Answered(answer));
        let input = CoordinatorInput::Delivered { rm, txn, kind, delivery };
        self.step_coordinator(scheduler, input).map(|_| ())
    }

    /// A controller asks for the decision on a hold (Resolve).
    pub(super) fn asked(&mut self, letter: CoordinatorMessage<()>) -> Result<(), String> {
        let CoordinatorMessage { scheduler, place, txn, attempt, content: () } = letter;
        let (rm, token) = (self.net.places[place].name.clone(), Token::new(u64::MAX));
        let input = CoordinatorInput::Resolve { txn: txn.clone(), rm, token };
        if let Some(resolution) = self.step_coordinator(scheduler, input)? {
            let letter = CoordinatorMessage { scheduler, place, txn, attempt, content: resolution };
            self.send(self.away(place, scheduler), Event::Resolved(Box::new(letter)));
        }
        Ok(())
    }

    /// The answer to Resolve arrives at the controller.
    pub(super) fn resolved(
        &mut self,
        letter: CoordinatorMessage<Resolution>,
    ) -> Result<(), String> {
        let CoordinatorMessage { place, txn, content: resolution, .. } = letter;
        self.step_controller(place, ParticipantInput::Resolved { txn, resolution })
    }

    fn step_controller(&mut self, place: usize, input: ParticipantInput) -> Result<(), String> {
        let now = self.now();
        let stepped = self.controllers[place].step(input, now);
        self.follow(place, &stepped)
    }

    /// A wake-up of a controller is due.
    pub(super) fn wake_controller(&mut self, place: usize) -> Result<(), String> {
        // A wake-up that was set later, and for an earlier time, may have replaced this one.
        let now = self.now();
        if self.controllers[place].wakes.take_if(|at| *at <= now).is_none() {
            return Ok(());
        }
        self.step_controller(place, ParticipantInput::Tick)
    }

    /// A wake-up of a coordinator is due.
    pub(super) fn wake_coordinator(&mut self, scheduler: usize) -> Result<(), String> {
        let now = self.now();
        if self.offices[scheduler].wakes.take_if(|at| *at <= now).is_none() {
            return Ok(());
        }
        self.step_coordinator(scheduler, CoordinatorInput::Tick).map(|_| ())
    }
}
