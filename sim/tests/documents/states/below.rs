//! Every state of a child coordinator's transaction for its parent, and every message of the parent.

use coalloc_common::{CoordinatorName, RmName, Span, TransactionId};
use coalloc_protocol::conversation::{Caller, ConversationInput, PlanJob, PlanTarget};
use coalloc_protocol::coordinator::{
    Coordinator, CoordinatorConfig, CoordinatorInput, MessageKind, ParentConfig, ParentInput,
};
use coalloc_protocol::message::{Answer, Decision, Resolution, Token};

use super::coordinator::{Grc, held, refused};
use super::{TXN, at, candidate, order};

fn make() -> Coordinator {
    let name = CoordinatorName::composed("grc");
    let config = CoordinatorConfig { name, tag: "1".to_owned(), hold_for: None, forgets: None };
    let mut core = Coordinator::new(config);
    core.serve_parents(ParentConfig {
        coordinators: [CoordinatorName::composed("grc")].into(),
        soft: Span::from_secs(5),
        hard: Span::from_secs(20),
        boot: "boot-1".to_owned(),
    });
    core
}

fn hold(amount: u64) -> CoordinatorInput {
    let job = PlanJob::first(PlanTarget::ParentHold(order(TXN, amount, None)));
    let (planned, caller) = (Ok(vec![candidate()]).into(), Caller::ParentHold(Token::new(50)));
    ConversationInput::Planned { job, planned, caller }.into()
}

fn end(kind: MessageKind) -> CoordinatorInput {
    let (txn, by) = (TransactionId::composed(TXN), CoordinatorName::composed("grc"));
    CoordinatorInput::Parent(ParentInput::End { txn, by, kind, epoch: 0, token: Token::new(60) })
}

fn answered(resolution: Resolution) -> CoordinatorInput {
    CoordinatorInput::Parent(ParentInput::Resolved {
        txn: TransactionId::composed(TXN),
        resolution,
    })
}

fn states() -> Vec<(&'static str, Grc)> {
    let checking = || {
        let mut grc = Grc::new(make);
        grc.step(hold(10), at(1));
        grc.delivered("a", MessageKind::Hold, held(), 10);
        grc
    };
    let promised = || {
        let mut grc = checking();
        grc.delivered("b", MessageKind::Hold, held(), 11);
        grc
    };
    let committing = || {
        let mut grc = promised();
        grc.step(end(MessageKind::Commit), at(20));
        grc.delivered("a", MessageKind::Commit, Answer::Done, 30);
        grc
    };
    let confirmed = || {
        let mut grc = committing();
        grc.delivered("b", MessageKind::Commit, Answer::Done, 31);
        grc
    };
    let failed = || {
        let mut grc = checking();
        grc.delivered("b", MessageKind::Hold, refused(), 11);
        grc.delivered("a", MessageKind::Abort, Answer::Done, 30);
        grc
    };
    let terminated = || {
        let mut grc = confirmed();
        grc.step(end(MessageKind::Release), at(40));
        grc.delivered("a", MessageKind::Release, Answer::Done, 41);
        grc.delivered("b", MessageKind::Release, Answer::Done, 42);
        grc
    };
    let tombstone = || {
        let mut grc = Grc::new(make);
        grc.step(end(MessageKind::Abort), at(20));
        grc
    };
    vec![
        ("unknown", Grc::new(make)),
        ("Checking", checking()),
        ("Held", promised()),
        ("Committing", committing()),
        ("Confirmed", confirmed()),
        ("Failed", failed()),
        ("Terminated", terminated()),
        ("a tombstone", tombstone()),
    ]
}

pub(crate) fn table() -> String {
    let inner = CoordinatorInput::Resolve {
        txn: TransactionId::composed("grc-1-1/1"),
        rm: RmName::composed("b"),
        token: Token::new(70),
    };
    let decided = |decision| answered(Resolution::Decided(decision));
    let inputs: Vec<(&str, CoordinatorInput, i64)> = vec![
        ("Hold", hold(10), 50),
        ("Hold, other content", hold(11), 50),
        ("Commit", end(MessageKind::Commit), 50),
        ("Commit, too late", end(MessageKind::Commit), 25_000),
        ("Abort", end(MessageKind::Abort), 50),
        ("Release", end(MessageKind::Release), 50),
        ("asked parent: commit", decided(Decision::Commit), 50),
        ("asked parent: abort", decided(Decision::Abort), 50),
        ("asked parent: no answer", answered(Resolution::Lost), 50),
        ("an RM asks (Resolve)", inner, 50),
        ("6 s later", CoordinatorInput::Tick, 6_000),
        ("25 s later", CoordinatorInput::Tick, 25_000),
    ];
    let columns: Vec<&str> = states().iter().map(|(name, _)| *name).collect();
    let row = |input: &CoordinatorInput, ms| {
        states().iter_mut().map(|(_, grc)| grc.step(input.clone(), at(ms))).collect::<Vec<String>>()
    };
    let rows: Vec<(&str, Vec<String>)> =
        inputs.iter().map(|(name, input, ms)| (*name, row(input, *ms))).collect();
    super::table("input", &columns, &rows)
}
