//! Every state of a transaction at its coordinator, and every input. The transaction has two RMs, `a` and
//! `b`: `a` has given the answer that the state needs, and the input is about `b`.

use coalloc_common::{
    CoordinatorName, Now, Reason, Refusal, RequestId, ReservationId, RmName, Span, TransactionId,
    UserName,
};
use coalloc_protocol::Core;
use coalloc_protocol::conversation::{
    Caller, ConversationInput, Next, Opening, ParentReply, PlanJob, PlanTarget, ReleaseReply,
    RequestEnd,
};
use coalloc_protocol::coordinator::{
    Coordinator, CoordinatorConfig, CoordinatorEffect, CoordinatorInput, CoordinatorRecord,
    DisownReply, MessageKind, Reply, Report, ReportEnd, Ticket,
};
use coalloc_protocol::message::{Answer, Delivery, Resolution, Token};
use coalloc_sim::world::script::coordinator_point;

use super::{at, candidate, cell, told};

/// A coordinator, and all records that it has written.
pub(crate) struct Grc {
    pub(crate) core: Coordinator,
    pub(crate) log: Vec<CoordinatorRecord>,
    pub(crate) make: fn() -> Coordinator,
}

impl Grc {
    pub(crate) fn new(make: fn() -> Coordinator) -> Self {
        let mut grc = Self { core: make(), log: Vec::new(), make };
        grc.step(CoordinatorInput::Start, at(0));
        grc
    }

    pub(crate) fn step(&mut self, input: CoordinatorInput, now: Now) -> String {
        let step = self.core.step(input, now);
        let records: Vec<String> =
            step.records().iter().map(|record| coordinator_point(record).to_owned()).collect();
        self.log.extend(step.records().iter().cloned());
        self.core.check_invariants().unwrap();
        let mut said: Vec<(String, String)> = Vec::new();
        let Ok(synced) = coalloc_protocol::sync(vec![step], &mut Silent);
        for effect in synced.into_effects() {
            let (what, to) = match effect {
                CoordinatorEffect::Send { rm, message, .. } => {
                    (format!("{:?} to", message.kind()), rm.to_string())
                }
                CoordinatorEffect::AskParent { .. } => {
                    ("asks its parent".to_owned(), String::new())
                }
                CoordinatorEffect::Reply(reply) => (reply_text(&reply), String::new()),
            };
            match said.iter_mut().find(|(known, _)| *known == what) {
                Some((_, names)) => *names = format!("{names} {to}"),
                None => said.push((what, to)),
            }
        }
        let said: Vec<String> =
            said.iter().map(|(what, to)| format!("{what} {to}").trim_end().to_owned()).collect();
        cell(&records, &said)
    }

    /// The process ends, and a new one replays the records.
    fn restart(&mut self, now: Now) -> String {
        self.core = (self.make)();
        for record in &self.log {
            self.core.apply(record).unwrap();
        }
        self.step(CoordinatorInput::Start, now)
    }

    pub(crate) fn delivered(
        &mut self,
        rm: &str,
        kind: MessageKind,
        answer: Answer,
        ms: i64,
    ) -> String {
        let (rm, delivery) = (RmName::composed(rm), Delivery::Answered(answer));
        self.step(CoordinatorInput::Delivered { rm, txn: txn(), kind, delivery }, at(ms))
    }
}

struct Silent;

impl coalloc_protocol::Log for Silent {
    type Record = CoordinatorRecord;
    type Error = std::convert::Infallible;

    fn append_caused(
        &mut self,
        _: &[coalloc_protocol::CausedRecord<'_, CoordinatorRecord>],
    ) -> Result<(), Self::Error> {
        Ok(())
    }
}

fn reply_text(reply: &Reply) -> String {
    let parent = |reply: &ParentReply| match reply {
        ParentReply::Answered(answer) => told(answer),
        // The parent's earlier call has timed out, so nobody waits for this reply.
        ParentReply::SentAgain => "waits".to_owned(),
    };
    match reply {
        Reply::Request(_, Next::Done(RequestEnd::Stands(known)))
        | Reply::Release(_, ReleaseReply::Stands(known)) => format!("user: {:?}", known.state),
        Reply::Release(_, ReleaseReply::Unknown) => "Unknown".to_owned(),
        Reply::Resolve(_, Resolution::Decided(decision)) => format!("answers {decision:?}"),
        Reply::Resolve(_, Resolution::NotMine) => "answers NotMine".to_owned(),
        Reply::Resolve(_, Resolution::Lost) => "no answer yet".to_owned(),
        Reply::ParentHold(_, Next::Done(reply)) | Reply::ParentEnd(_, reply) => parent(reply),
        Reply::ParentHold(_, Next::Plan(_)) => "to be planned".to_owned(),
        Reply::Disown(_, DisownReply::Released) => "released".to_owned(),
        Reply::Report(_, ReportEnd::Recorded(number)) => format!("recorded as number {number}"),
        Reply::Report(_, ReportEnd::NotConfirmed(known)) => {
            format!("not confirmed: {:?}", known.state)
        }
        Reply::Report(_, end) => format!("{end:?}"),
        Reply::Request(_, Next::Plan(job)) if job.reservation().is_some() => "Replan".to_owned(),
        other => format!("{other:?}").chars().take_while(|c| c.is_alphanumeric()).collect(),
    }
}

fn make() -> Coordinator {
    let name = CoordinatorName::composed("grc");
    Coordinator::new(CoordinatorConfig { name, tag: "1".to_owned(), hold_for: None, forgets: None })
}

fn txn() -> TransactionId {
    TransactionId::composed("grc-1-1/1")
}

fn reservation() -> ReservationId {
    ReservationId::composed("grc-1-1")
}

pub(crate) fn held() -> Answer {
    Answer::Held { expires_in: Span::from_secs(900), servers: Vec::new() }
}

pub(crate) fn refused() -> Answer {
    Answer::Refused(Refusal::new(Reason::Expired, "it is over"))
}

fn resolve(rm: &str) -> CoordinatorInput {
    CoordinatorInput::Resolve { txn: txn(), rm: RmName::composed(rm), token: Token::new(7) }
}

fn released() -> CoordinatorInput {
    CoordinatorInput::Release { reservation: reservation(), token: Token::new(8) }
}

fn reported() -> CoordinatorInput {
    let (id, content) = (RequestId::composed("p1"), "c".to_owned());
    let report = Report { id, content, text: "it has ended".to_owned() };
    let (by, token) = (UserName::composed("alice"), Token::new(9));
    CoordinatorInput::Report { reservation: reservation(), report, by, token }
}

/// Every state, and a coordinator that has reached it.
fn states() -> Vec<(&'static str, Grc)> {
    let undecided = || {
        let mut grc = Grc::new(make);
        let (request, user) = (RequestId::composed("r1"), UserName::composed("alice"));
        let ticket = Ticket { request: request.clone(), user, content: "c".to_owned() };
        let opening = Opening::Request(ticket, Token::new(1));
        grc.step(ConversationInput::Open(opening).into(), at(1));
        let job = PlanJob::first(PlanTarget::Request(request));
        let (planned, caller) = (Ok(vec![candidate()]).into(), Caller::Request(Token::new(2)));
        grc.step(ConversationInput::Planned { job, planned, caller }.into(), at(2));
        grc.delivered("a", MessageKind::Hold, held(), 10);
        grc
    };
    let committing = || {
        let mut grc = undecided();
        grc.delivered("b", MessageKind::Hold, held(), 11);
        grc.delivered("a", MessageKind::Commit, Answer::Done, 20);
        grc
    };
    let booked = || {
        let mut grc = committing();
        grc.delivered("b", MessageKind::Commit, Answer::Done, 21);
        grc
    };
    let aborting = || {
        let mut grc = undecided();
        grc.step(resolve("a"), at(20));
        grc.delivered("a", MessageKind::Abort, Answer::Done, 30);
        grc
    };
    let releasing = || {
        let mut grc = booked();
        grc.step(released(), at(30));
        grc.delivered("a", MessageKind::Release, Answer::Done, 40);
        grc
    };
    let mixed = || {
        let mut grc = committing();
        grc.delivered("b", MessageKind::Commit, refused(), 21);
        grc.delivered("a", MessageKind::Release, Answer::Done, 40);
        grc
    };
    let then = |mut grc: Grc, kind| {
        grc.delivered("b", kind, Answer::Done, 45);
        grc
    };
    vec![
        ("unknown", Grc::new(make)),
        ("Holding", undecided()),
        ("Committing", committing()),
        ("Done: booked", booked()),
        ("Aborting", aborting()),
        ("Done: aborted", then(aborting(), MessageKind::Abort)),
        ("Releasing", releasing()),
        ("Releasing, mixed", mixed()),
        ("Done: released", then(releasing(), MessageKind::Release)),
    ]
}

pub(crate) fn table() -> String {
    type Do = Box<dyn Fn(&mut Grc) -> String>;
    let b = |kind: MessageKind, answer: Answer| -> Do {
        Box::new(move |grc: &mut Grc| grc.delivered("b", kind, answer.clone(), 50))
    };
    let step = |input: CoordinatorInput, ms: i64| -> Do {
        Box::new(move |grc: &mut Grc| grc.step(input.clone(), at(ms)))
    };
    let lost = |kind| CoordinatorInput::Delivered {
        rm: RmName::composed("b"),
        txn: txn(),
        kind,
        delivery: Delivery::Lost,
    };
    let inputs: Vec<(&str, Do)> = vec![
        ("b: held", b(MessageKind::Hold, held())),
        ("b refuses Hold", b(MessageKind::Hold, refused())),
        ("b denies Hold", b(MessageKind::Hold, Answer::Denied)),
        ("b has booked", b(MessageKind::Commit, Answer::Done)),
        ("b refuses Commit", b(MessageKind::Commit, refused())),
        ("b has aborted", b(MessageKind::Abort, Answer::Done)),
        ("b has released", b(MessageKind::Release, Answer::Done)),
        ("Commit to b is lost", step(lost(MessageKind::Commit), 50)),
        ("b asks (Resolve)", step(resolve("b"), 50)),
        ("an RM that is none of it asks", step(resolve("c"), 50)),
        ("a report of the user", step(reported(), 50)),
        ("Release by the user", step(released(), 50)),
        ("8 s later", step(CoordinatorInput::Tick, 8_000)),
        ("restart", Box::new(|grc: &mut Grc| grc.restart(at(60)))),
    ];
    let columns: Vec<&str> = states().iter().map(|(name, _)| *name).collect();
    let row = |act: &Do| states().iter_mut().map(|(_, grc)| act(grc)).collect::<Vec<String>>();
    let rows: Vec<(&str, Vec<String>)> =
        inputs.iter().map(|(name, act)| (*name, row(act))).collect();
    super::table("input", &columns, &rows)
}
