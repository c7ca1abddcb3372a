//! A coordinator on a bench: inputs, what it says, and its log.

use coalloc_common::{Amount, ResourceId, Time, Window};
use coalloc_common::{Segment, UserName};

use super::super::*;
use crate::conversation::{
    Caller, ChangeEnd, ConversationInput, Next, Opening, PlanJob, PlanTarget, Planned, RequestEnd,
};
use crate::message::{Answer, Delivery};

// The numbers of callers.
pub(in crate::coordinator) const USER: u64 = 1;
pub(in crate::coordinator) const RM: u64 = 2;
pub(in crate::coordinator) const OTHER: u64 = 3;

pub(in crate::coordinator) fn at(ms: i64) -> Now {
    Now {
        wall: Time::from_us(1_000_000_000 + ms * 1_000),
        boot: BootTime::from_us(1_000_000 + ms * 1_000),
    }
}

pub(in crate::coordinator) fn rm(name: &str) -> RmName {
    RmName::composed(name)
}

pub(in crate::coordinator) fn txn(name: &str) -> TransactionId {
    TransactionId::composed(name)
}

pub(in crate::coordinator) fn ticket(request: &str, content: &str) -> Ticket {
    Ticket {
        request: RequestId::composed(request),
        user: UserName::composed("UserA"),
        content: content.into(),
    }
}

/// A plan over these RMs.
pub(in crate::coordinator) fn plan(rms: &[&str]) -> Candidate {
    let window = Window::new(Time::from_us(5_000_000_000), Time::from_us(6_000_000_000)).unwrap();
    let segment = || Segment { resource: ResourceId::composed("r"), amount: Amount(1), window };
    let segments = rms.iter().map(|name| (rm(name), vec![segment()])).collect();
    Candidate { segments, ..Candidate::default() }
}

/// A request arrives.
pub(in crate::coordinator) fn open(ticket: Ticket, who: u64) -> CoordinatorInput {
    ConversationInput::Open(Opening::Request(ticket, Token::new(who))).into()
}

/// A change arrives.
pub(in crate::coordinator) fn open_change(ticket: ChangeTicket, who: u64) -> CoordinatorInput {
    ConversationInput::Open(Opening::Change(ticket, Token::new(who))).into()
}

/// A request was planned.
pub(in crate::coordinator) fn request_planned(
    request: &str,
    planned: impl Into<Planned>,
    who: u64,
) -> CoordinatorInput {
    let job = PlanJob::first(PlanTarget::Request(RequestId::composed(request)));
    let (planned, caller) = (planned.into(), Caller::Request(Token::new(who)));
    ConversationInput::Planned { job, planned, caller }.into()
}

/// A change was planned.
pub(in crate::coordinator) fn change_planned(
    id: &str,
    plans: &[Candidate],
    who: u64,
) -> CoordinatorInput {
    let job = PlanJob::first(PlanTarget::Change(ReservationId::composed(id)));
    let planned = Planned { outcome: Ok(plans.to_vec()), replans: None, notes: "new".into() };
    let caller = Caller::Change(Token::new(who));
    ConversationInput::Planned { job, planned, caller }.into()
}

/// The request of a reservation was planned again.
pub(in crate::coordinator) fn planned_again(
    id: &str,
    plans: &[Candidate],
    who: u64,
) -> CoordinatorInput {
    let job = PlanJob::again(ReservationId::composed(id), Vec::new());
    let caller = Caller::Request(Token::new(who));
    ConversationInput::Planned { job, planned: Ok(plans.to_vec()).into(), caller }.into()
}

/// A coordinator, and everything that it has written to its log.
pub(in crate::coordinator) struct Bench {
    pub(in crate::coordinator) core: Coordinator,
    pub(in crate::coordinator) log: Vec<CoordinatorRecord>,
    /// The parents that it serves, also after a restart.
    pub(in crate::coordinator) parents: ParentConfig,
}

pub(in crate::coordinator) fn fresh() -> Coordinator {
    Coordinator::new(CoordinatorConfig {
        name: CoordinatorName::composed("grc"),
        tag: "t".into(),
        hold_for: None,
        forgets: None,
    })
}

impl Bench {
    pub(in crate::coordinator) fn new() -> Self {
        Self::child(ParentConfig::default())
    }

    /// A coordinator that serves these parents.
    pub(in crate::coordinator) fn child(above: ParentConfig) -> Self {
        let mut core = fresh();
        core.serve_parents(above.clone());
        let mut bench = Self { core, log: Vec::new(), parents: above };
        assert_eq!(bench.step(CoordinatorInput::Start, at(0)), []);
        bench
    }

    /// Makes a step, checks the invariants, and keeps the records. Returns the effects as if the records were
    /// synced.
    pub(in crate::coordinator) fn step(
        &mut self,
        input: CoordinatorInput,
        now: Now,
    ) -> Vec<CoordinatorEffect> {
        struct Keep<'a>(&'a mut Vec<CoordinatorRecord>);
        impl crate::durable::Log for Keep<'_> {
            type Record = CoordinatorRecord;
            type Error = std::convert::Infallible;
            fn append_caused(
                &mut self,
                records: &[crate::causer::CausedRecord<'_, CoordinatorRecord>],
            ) -> Result<(), Self::Error> {
                for record in records {
                    let text = serde_json::to_string(record.record).unwrap();
                    self.0.push(serde_json::from_str(&text).unwrap());
                }
                Ok(())
            }
        }
        let step = self.core.step(input, now);
        self.core.check_invariants().unwrap();
        let Ok(synced) = crate::durable::sync(vec![step], &mut Keep(&mut self.log));
        synced.into_effects()
    }

    /// A new process on the same log. Its state must be that of the old one.
    pub(in crate::coordinator) fn restart(&mut self, now: Now) -> Vec<CoordinatorEffect> {
        self.restart_by(CoordinatorInput::Start, now)
    }

    /// Replays the log, and gives the first input to what it is then.
    pub(in crate::coordinator) fn restart_by(
        &mut self,
        first: CoordinatorInput,
        now: Now,
    ) -> Vec<CoordinatorEffect> {
        let mut core = fresh();
        core.serve_parents(self.parents.clone());
        self.log.iter().for_each(|record| core.apply(record).unwrap());
        assert!(core.reservations().eq(self.core.reservations()), "I12: the fold of its log");
        assert_eq!(core.parent_entries(), self.core.parent_entries(), "I12: the fold of its log");
        self.core = core;
        self.step(first, now)
    }

    /// Sends a request, and passes in the result of its planning.
    pub(in crate::coordinator) fn reserve(
        &mut self,
        request: &str,
        plans: &[Candidate],
        now: Now,
    ) -> Vec<CoordinatorEffect> {
        let opened = self.step(open(ticket(request, "c"), USER), now);
        assert_eq!(replies(&opened), [plans_request(USER, request)]);
        self.step(request_planned(request, Ok(plans.to_vec()), USER), now)
    }

    pub(in crate::coordinator) fn answer(
        &mut self,
        name: &str,
        id: &str,
        kind: MessageKind,
        answer: Answer,
        now: Now,
    ) -> Vec<CoordinatorEffect> {
        let delivery = Delivery::Answered(answer);
        self.step(CoordinatorInput::Delivered { rm: rm(name), txn: txn(id), kind, delivery }, now)
    }

    pub(in crate::coordinator) fn held(
        &mut self,
        name: &str,
        id: &str,
        expires_s: i64,
        now: Now,
    ) -> Vec<CoordinatorEffect> {
        let answer = Answer::Held { expires_in: Span::from_secs(expires_s), servers: Vec::new() };
        self.answer(name, id, MessageKind::Hold, answer, now)
    }

    pub(in crate::coordinator) fn release(&mut self, id: &str, now: Now) -> Vec<CoordinatorEffect> {
        let reservation = ReservationId::composed(id);
        self.step(CoordinatorInput::Release { reservation, token: Token::new(OTHER) }, now)
    }

    pub(in crate::coordinator) fn resolve(
        &mut self,
        id: &str,
        name: &str,
        now: Now,
    ) -> Vec<CoordinatorEffect> {
        let token = Token::new(RM);
        self.step(CoordinatorInput::Resolve { txn: txn(id), rm: rm(name), token }, now)
    }

    /// One reservation over two RMs, up to "decided: commit" at 20 ms.
    pub(in crate::coordinator) fn decided() -> Self {
        let mut bench = Self::new();
        let _ = bench.reserve("r1", &[plan(&["a", "b"])], at(0));
        assert_eq!(bench.held("a", "grc-t-1/1", 900, at(10)), []);
        let sent = bench.held("b", "grc-t-1/1", 900, at(20));
        assert_eq!(sends(&sent), ["a Commit", "b Commit"]);
        bench
    }

    /// The same, booked at both RMs.
    pub(in crate::coordinator) fn confirmed() -> Self {
        let mut bench = Self::decided();
        let _ = bench.answer("a", "grc-t-1/1", MessageKind::Commit, Answer::Done, at(30));
        let _ = bench.answer("b", "grc-t-1/1", MessageKind::Commit, Answer::Done, at(40));
        assert_eq!(bench.state("grc-t-1"), State::Confirmed);
        bench
    }

    pub(in crate::coordinator) fn state(&self, id: &str) -> State {
        self.core.find(id).unwrap().state
    }

    pub(in crate::coordinator) fn last(&self) -> &CoordinatorRecord {
        self.log.last().unwrap()
    }
}

pub(in crate::coordinator) fn sends(effects: &[CoordinatorEffect]) -> Vec<String> {
    let one = |effect: &CoordinatorEffect| match effect {
        CoordinatorEffect::Send { rm, message, .. } => Some(format!("{rm} {:?}", message.kind())),
        CoordinatorEffect::Reply(_) | CoordinatorEffect::AskParent { .. } => None,
    };
    effects.iter().filter_map(one).collect()
}

pub(in crate::coordinator) fn replies(effects: &[CoordinatorEffect]) -> Vec<Reply> {
    let one = |effect: &CoordinatorEffect| match effect {
        CoordinatorEffect::Send { .. } | CoordinatorEffect::AskParent { .. } => None,
        CoordinatorEffect::Reply(reply) => Some(reply.clone()),
    };
    effects.iter().filter_map(one).collect()
}

/// The reservations in the answers to callers, with the number of each caller.
pub(in crate::coordinator) fn stands(effects: &[CoordinatorEffect]) -> Vec<(u64, Reservation)> {
    let one = |reply| match reply {
        Reply::Request(token, Next::Done(RequestEnd::Stands(known))) => (token.number(), *known),
        Reply::Change(token, Next::Done(ChangeEnd::Stands(known))) => (token.number(), *known),
        Reply::Rebook(token, ChangeEnd::Stands(known)) => (token.number(), *known),
        Reply::Release(token, ReleaseReply::Stands(known)) => (token.number(), *known),
        other => panic!("an outcome expected: {other:?}"),
    };
    replies(effects).into_iter().map(one).collect()
}

/// The states in the answers to callers, with the number of each caller.
pub(in crate::coordinator) fn told(effects: &[CoordinatorEffect]) -> Vec<(u64, State)> {
    stands(effects).into_iter().map(|(who, known)| (who, known.state)).collect()
}

/// The answer that asks a caller to plan its request.
pub(in crate::coordinator) fn plans_request(who: u64, request: &str) -> Reply {
    let job = PlanJob::first(PlanTarget::Request(RequestId::composed(request)));
    Reply::Request(Token::new(who), Next::Plan(job))
}

/// The answer that asks a caller to plan its change.
pub(in crate::coordinator) fn plans_change(who: u64, id: &str) -> Reply {
    let job = PlanJob::first(PlanTarget::Change(ReservationId::composed(id)));
    Reply::Change(Token::new(who), Next::Plan(job))
}

/// The callers that are asked to plan again, with the reservation for each.
pub(in crate::coordinator) fn plans_again(effects: &[CoordinatorEffect]) -> Vec<(u64, String)> {
    let one = |reply| {
        let (who, job) = match reply {
            Reply::Request(token, Next::Plan(job)) => (token.number(), job),
            Reply::Change(token, Next::Plan(job)) => (token.number(), job),
            Reply::ParentHold(token, Next::Plan(job)) => (token.number(), job),
            _ => return None,
        };
        Some((who, job.reservation()?.to_string()))
    };
    replies(effects).into_iter().filter_map(one).collect()
}

/// The end of a conversation about a request.
pub(in crate::coordinator) fn request_end(who: u64, end: RequestEnd) -> Reply {
    Reply::Request(Token::new(who), Next::Done(end))
}

/// The end of a conversation about a change.
pub(in crate::coordinator) fn change_end(who: u64, end: ChangeEnd) -> Reply {
    Reply::Change(Token::new(who), Next::Done(end))
}

pub(in crate::coordinator) fn resolution(effects: &[CoordinatorEffect]) -> Resolution {
    match &replies(effects)[..] {
        [Reply::Resolve(token, resolution)] if token.number() == RM => *resolution,
        other => panic!("one resolution expected: {other:?}"),
    }
}

pub(in crate::coordinator) fn refused(reason: Reason) -> Answer {
    Answer::Refused(Refusal::new(reason, "no"))
}
