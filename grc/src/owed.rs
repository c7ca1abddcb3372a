//! What a call owes the coordinator core, said whatever ends the call.
//!
//! Whoever is told to plan (`Reply::Plan`, `Reply::PlanChange`, `Reply::Replan`) has to say what came of it: until
//! then the id counts as being planned, and everybody who sends it again waits. A handler that panics on its way,
//! or is dropped, says so by dropping what it owes.

use coalloc_common::{Reason, Refusal, RequestId, ReservationId, limits};
use coalloc_protocol::coordinator::CoordinatorInput;
use coalloc_protocol::message::Token;

use crate::shell::Handle;

/// Nobody: tokens of callers begin at 1.
const NOBODY: Token = Token(0);

/// An input that is posted when this is dropped, unless it was [settled](Owed::settled).
#[must_use = "dropped, it is said that the planning broke off"]
pub(crate) struct Owed {
    handle: Handle,
    input: Option<CoordinatorInput>,
}

impl Owed {
    /// The planning of a request broke off.
    pub(crate) fn request(handle: &Handle, request: &RequestId) -> Self {
        Self::new(handle, CoordinatorInput::Forget { request: request.clone() })
    }

    /// The planning of a change broke off.
    pub(crate) fn change(handle: &Handle, reservation: &ReservationId) -> Self {
        Self::new(handle, CoordinatorInput::ForgetChange { reservation: reservation.clone() })
    }

    /// Planning again broke off: what is half way through ends.
    pub(crate) fn replan(handle: &Handle, reservation: &ReservationId) -> Self {
        let refusal = Refusal::new(Reason::BudgetExhausted, "planning again broke off");
        let (reservation, outcome) = (reservation.clone(), Err(refusal));
        Self::new(handle, CoordinatorInput::Replanned { reservation, outcome, token: NOBODY })
    }

    fn new(handle: &Handle, input: CoordinatorInput) -> Self {
        Self { handle: handle.clone(), input: Some(input) }
    }

    /// What came of it was posted.
    pub(crate) fn settled(mut self) {
        self.input = None;
    }
}

impl Drop for Owed {
    fn drop(&mut self) {
        let Some(input) = self.input.take() else { return };
        if self.handle.tell(input.clone()) {
            return;
        }
        // Busy, or stopping; a runtime that has ended stops, too.
        let Ok(runtime) = tokio::runtime::Handle::try_current() else { return };
        let handle = self.handle.clone();
        runtime.spawn(async move {
            while !handle.is_stopping() && !handle.tell(input.clone()) {
                tokio::time::sleep(limits::BUSY_PAUSE.to_std()).await;
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::sync::mpsc;

    use coalloc_common::{Amount, ResourceId, RmName, Segment, Span, Time, UserName, Window};
    use coalloc_net::machine::System;
    use coalloc_protocol::coordinator::{
        Candidate, Coordinator, CoordinatorConfig, CoordinatorEffect, MessageKind, Reply, State,
        Ticket,
    };
    use coalloc_protocol::message::{Answer, Delivery};

    use super::*;
    use crate::shell::Node;

    type Sent = (RmName, coalloc_common::TransactionId, MessageKind);

    /// A coordinator whose messages go nowhere but here.
    fn node(folder: &tempfile::TempDir) -> (Node, mpsc::Receiver<Sent>) {
        let name = coalloc_common::CoordinatorName::composed("grc");
        let config = CoordinatorConfig { name, tag: "t".to_owned(), hold_for: None };
        let (path, mut core) = (folder.path().join("grc.ledger"), Coordinator::new(config));
        let ledger = coalloc_net::node::open_ledger(&path, "grc", "grc", &mut core).unwrap();
        let (sender, sent) = mpsc::channel();
        let on_effect = move |effect, waiters: &coalloc_net::waiters::Waiters<Reply>| match effect {
            CoordinatorEffect::Reply { token, reply } => waiters.complete(token.0, reply),
            CoordinatorEffect::Send { rm, txn, message } => {
                let _ = sender.send((rm, txn, message.kind()));
            }
            CoordinatorEffect::AskParent { .. } => {}
        };
        let node = Node::start("coordinator", &System::host(), core, ledger, on_effect).unwrap();
        node.handle.tell(CoordinatorInput::Start);
        (node, sent)
    }

    fn ticket(request: &RequestId) -> Ticket {
        let user = UserName::composed("u");
        Ticket { request: request.clone(), user, content: "c".to_owned() }
    }

    async fn open(handle: &Handle, request: &RequestId) -> Reply {
        let ticket = ticket(request);
        handle.call(|token| CoordinatorInput::Open { ticket, token }).await.unwrap()
    }

    fn candidate() -> Candidate {
        let start = Time::from_us(coalloc_net::clock::now().wall.as_us())
            .saturating_add(Span::from_secs(3_600));
        let segment = Segment {
            resource: ResourceId::composed("A"),
            amount: Amount(1),
            window: Window::starting(start, Span::from_secs(60)).unwrap(),
        };
        let segments = BTreeMap::from([(RmName::composed("crm"), vec![segment])]);
        Candidate { segments, order: Vec::new(), one_way: false, details: String::new().into() }
    }

    /// A planner that panics leaves its id to whoever sends it again.
    #[tokio::test]
    async fn a_panic_while_it_is_planned_leaves_the_id_usable() {
        let folder = tempfile::tempdir().unwrap();
        let (node, _sent) = node(&folder);
        let (handle, request) = (node.handle.clone(), RequestId::composed("r1"));
        assert_eq!(open(&handle, &request).await, Reply::Plan);
        let waiting = tokio::spawn({
            let (handle, request) = (handle.clone(), request.clone());
            async move { open(&handle, &request).await }
        });
        let planning = tokio::spawn({
            let (handle, request) = (handle.clone(), request.clone());
            async move {
                let _owed = Owed::request(&handle, &request);
                panic!("a planner that breaks");
            }
        });
        assert!(planning.await.unwrap_err().is_panic());
        // Who has waited hears of it, or came after it and plans; the next one plans in any case.
        let reply = waiting.await.unwrap();
        assert!(matches!(reply, Reply::Forgotten | Reply::Plan), "{reply:?}");
        drop(Owed::request(&handle, &request));
        assert_eq!(open(&handle, &request).await, Reply::Plan);
        node.stop().await;
    }

    /// Planning again that panics ends what is half way through, so that whoever asks gets an outcome.
    #[tokio::test]
    async fn a_panic_while_it_is_planned_again_ends_the_reservation() {
        let folder = tempfile::tempdir().unwrap();
        let (node, sent) = node(&folder);
        let (handle, request) = (node.handle.clone(), RequestId::composed("r1"));
        assert_eq!(open(&handle, &request).await, Reply::Plan);
        let input = |token| CoordinatorInput::Reserve {
            request: request.clone(),
            candidates: vec![candidate()],
            replans: None,
            notes: String::new(),
            token,
        };
        let answer = handle.post(input).unwrap();
        let (rm, txn, kind) = sent.recv().unwrap();
        assert_eq!(kind, MessageKind::Hold);
        let refusal = Refusal::new(Reason::InsufficientCapacity, "others were faster");
        let delivery = Delivery::Answered(Answer::Refused(refusal));
        handle.tell(CoordinatorInput::Delivered { rm, txn, kind, delivery });
        let Reply::Replan(reservation) = answer.await.unwrap() else { panic!("not planned again") };
        let planning = tokio::spawn({
            let handle = handle.clone();
            async move {
                let _owed = Owed::replan(&handle, &reservation);
                panic!("a planner that breaks");
            }
        });
        assert!(planning.await.unwrap_err().is_panic());
        let Reply::Stands(stands) = open(&handle, &request).await else { panic!("no outcome") };
        assert_eq!(stands.state, State::Failed);
        assert!(stands.refusal.unwrap().detail.contains("broke off"));
        node.stop().await;
    }
}
