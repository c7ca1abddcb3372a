//! The shell of a child coordinator: a parent's hold becomes a request of its own, is planned on what its
//! resource managers report as free, and is tried by the coordinator core, which is the participant towards the
//! parent.
//!
//! What is queried inside, and what the parent is told, is decided by the code of the daemon:
//! [`coalloc_plan::abstracted`].

use coalloc_common::{Reason, Refusal, TransactionId};
use coalloc_plan::Instance;
use coalloc_plan::abstracted::periods::periods;
use coalloc_plan::abstracted::refused::{RoutedLink, is_short, outward, unplanned, words};
use coalloc_plan::abstracted::{Inner, short};
use coalloc_protocol::conversation::{
    Caller, ConversationInput, Next, Opening, ParentReply, PlanJob,
};
use coalloc_protocol::coordinator::{
    Candidate, CoordinatorInput, MessageKind, ParentInput, Ticket,
};
use coalloc_protocol::message::{Answer, HoldOrder, Message};

use super::planning::Job;
use super::{Event, Member, World};
use crate::experiment::ModelError;

/// A caller that waits for a coordinator's answer and is not a user.
#[derive(Debug)]
pub(super) enum ReplyTarget {
    /// A member that has sent Resolve for what it holds.
    Holder { member: Member, txn: TransactionId },
    /// A parent coordinator, with the content of its message if that was a Hold.
    Parent { from: usize, txn: TransactionId, kind: MessageKind, order: Option<HoldOrder> },
}

/// What a child coordinator tries for a parent's hold.
#[derive(Debug)]
pub(super) struct ChildCandidate {
    candidate: Candidate,
    /// The paths of each link of the hold.
    led: Vec<RoutedLink>,
    /// How many paths there are in all.
    pub(super) edges: u64,
}

impl World<'_> {
    /// A message of a parent coordinator arrives.
    pub(super) fn lower_hears(
        &mut self,
        from: usize,
        lower: usize,
        txn: TransactionId,
        message: Message,
    ) -> Result<(), ModelError> {
        let (kind, by) = (message.kind(), self.grcs[from].name.clone());
        let order = match message {
            Message::Hold(order) => Some(order),
            Message::Commit | Message::Abort | Message::Release => None,
        };
        let asker = ReplyTarget::Parent { from, txn: txn.clone(), kind, order: order.clone() };
        let input = match order {
            Some(order) => {
                ConversationInput::Open(Opening::ParentHold(order, self.token(asker))).into()
            }
            None => {
                let token = self.token(asker);
                CoordinatorInput::Parent(ParentInput::End { txn, by, kind, epoch: 0, token })
            }
        };
        self.step_grc(lower, input)
    }

    /// A child coordinator answers a parent's Hold, or has it planned.
    pub(super) fn hold_answered(
        &mut self,
        grc: usize,
        asker: ReplyTarget,
        next: Next<ParentReply>,
    ) -> Result<(), ModelError> {
        match (asker, next) {
            (asker, Next::Done(reply)) => self.parent_answered(grc, asker, reply),
            (ReplyTarget::Parent { from, order: Some(order), .. }, Next::Plan(job)) => {
                self.ask(Job::Hold { grc, from, order, job });
                Ok(())
            }
            (asker, Next::Plan(job)) => {
                Err(ModelError::Defect(format!("{asker:?} is to plan {:?}", job.target)))
            }
        }
    }

    /// A child coordinator answers a message of its parent.
    pub(super) fn parent_answered(
        &mut self,
        grc: usize,
        asker: ReplyTarget,
        reply: ParentReply,
    ) -> Result<(), ModelError> {
        match (asker, reply) {
            (ReplyTarget::Parent { from, txn, kind, order }, ParentReply::Answered(answer)) => {
                self.answer_parent(grc, from, txn, kind, order.as_ref(), answer);
                Ok(())
            }
            // The answer goes to another copy of the message.
            (ReplyTarget::Parent { .. }, ParentReply::SentAgain) => Ok(()),
            (asker, reply) => Err(ModelError::Defect(format!("{asker:?} is told {reply:?}"))),
        }
    }

    fn answer_parent(
        &mut self,
        lower: usize,
        grc: usize,
        txn: TransactionId,
        kind: MessageKind,
        order: Option<&HoldOrder>,
        answer: Answer,
    ) {
        let name = self.grcs[lower].name.as_str();
        let answer = match (answer, order) {
            (Answer::Refused(refusal), Some(order)) => {
                let tried = self.ways.get(&(lower, txn.clone()));
                let led = tried.map_or(&[][..], |way| &way.led);
                Answer::Refused(outward(name, &refusal, &order.segments, led))
            }
            (Answer::Refused(refusal), None) => {
                Answer::Refused(Refusal::new(refusal.reason, words(name, &refusal)))
            }
            (answer, _) => answer,
        };
        let from = Member::Grc(lower);
        self.note(grc, from, &txn, kind, &answer);
        self.send(from, Event::ToGrc { grc, from, txn, kind, answer });
    }

    /// What a child coordinator will try; or a refusal in the parent's terms.
    pub(super) fn plan_at_child(
        &mut self,
        grc: usize,
        order: &HoldOrder,
        job: &PlanJob,
    ) -> Result<Result<ChildCandidate, Refusal>, ModelError> {
        let Some(shown) = self.grcs[grc].shown.clone() else {
            return Err(ModelError::Defect(format!("{} has no parent", self.grcs[grc].name)));
        };
        let parts = periods(&order.segments, &[], self.now().wall);
        let [(window, wanted)] = &parts.planned[..] else {
            return Err(ModelError::Defect(format!("{} has more than one window", order.txn)));
        };
        let inner = match shown.request(*window, wanted) {
            Ok(inner) => inner,
            Err(refusal) => return Ok(Err(refusal)),
        };
        let mut views = self.picture(grc, &[*window], &order.user);
        self.believe(grc, job, &mut views);
        let ticket = self.parent_ticket(&order.txn);
        let number = ticket.and_then(|ticket| self.numbers.get(&ticket.request)).copied();
        let number =
            number.ok_or_else(|| ModelError::Defect(format!("no request has {}", order.txn)))?;
        let topology = shown.topology();
        let answer = self.solve(topology, number, &inner.request, &views)?.pop();
        let none = || Refusal::new(Reason::NoRoute, "there was no frame to plan");
        let Some((_, answer)) = answer else { return Ok(Err(none())) };
        Ok(match answer {
            Ok(judged) => Ok(way(topology, &inner, &judged.plan)),
            Err(why) if is_short(&why) => {
                let instance = views.first().map(|v| Instance::new(topology, &inner.request, v));
                let found = instance.and_then(|instance| {
                    self.planning.with(|planner, budget| short(&instance, planner, budget))
                });
                Err(unplanned(&shown, &inner, *window, why, found))
            }
            Err(why) => Err(why),
        })
    }

    /// Passes the outcome of planning to the child coordinator.
    pub(super) fn planned_at_child(
        &mut self,
        job: Job,
        outcome: Result<ChildCandidate, Refusal>,
    ) -> Result<(), ModelError> {
        let Job::Hold { grc, from, order, job } = job else {
            return Err(ModelError::Defect("a request was planned as a hold".to_owned()));
        };
        let outcome = outcome.map(|way| {
            let candidates = vec![way.candidate.clone()];
            self.ways.insert((grc, order.txn.clone()), way);
            candidates
        });
        let (txn, kind) = (order.txn.clone(), MessageKind::Hold);
        let asker = ReplyTarget::Parent { from, txn, kind, order: Some(order) };
        let (planned, caller) = (outcome.into(), Caller::ParentHold(self.token(asker)));
        self.step_grc(grc, ConversationInput::Planned { job, planned, caller }.into())
    }

    /// The request that a transaction of a parent coordinator serves.
    pub(super) fn parent_ticket(&self, txn: &TransactionId) -> Option<&Ticket> {
        let mut upper = self.grcs.iter().filter(|grc| grc.shown.is_none());
        upper.find_map(|grc| grc.core.reservation_of(txn)).map(|known| &known.ticket)
    }
}

/// A plan as a candidate for the core. Its resource managers are sent Hold all at once, as in a daemon.
fn way(
    topology: &coalloc_common::Topology,
    inner: &Inner,
    plan: &coalloc_plan::Plan,
) -> ChildCandidate {
    let request = &inner.request;
    let site = |at: usize| request.sites[at].name.to_string();
    let led = request.links.iter().zip(&plan.routes).map(|(link, route)| RoutedLink {
        from: site(link.from),
        to: site(link.to),
        paths: route.iter().map(|(edge, _)| topology.edge(*edge).name.to_string()).collect(),
    });
    let candidate =
        Candidate { segments: plan.segments(topology, request), ..Candidate::default() };
    let edges = plan.routes.iter().map(|route| route.len() as u64).sum();
    ChildCandidate { candidate, led: led.collect(), edges }
}
