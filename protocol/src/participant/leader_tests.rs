//! Which process of a coordinator is obeyed: the last one that was elected, also after a restart.

use super::tests::{at, config, grc, order, run, window};
use super::*;
use crate::message::Answer;
use crate::snapshot::Snapshot;

fn attempt(ledger: &str, number: u64) -> TransactionId {
    TransactionId::composed(format!("grc-{ledger}-1/{number}"))
}

fn started() -> Participant {
    let mut p = Participant::new(config(&[("N0-N1", 1_000)]));
    let _ = run(&mut p, ParticipantInput::Start { boot: "first".into() }, at(0));
    p
}

fn tell(p: &mut Participant, epoch: u64, order: ParticipantInput, now: i64) -> Answer {
    let input = ParticipantInput::Led { epoch, order: Box::new(order) };
    match &run(p, input, at(now))[..] {
        [ParticipantEffect::Reply { answer, .. }] => answer.clone(),
        other => panic!("one answer expected: {other:?}"),
    }
}

fn hold(txn: TransactionId) -> ParticipantInput {
    let order = HoldOrder { txn, ..order("a", 100, window(3_600, 7_200)) };
    ParticipantInput::Hold { order, oldest_open: 0, token: Token::new(1) }
}

fn commit(txn: TransactionId) -> ParticipantInput {
    ParticipantInput::Commit { txn, by: grc(), token: Token::new(1) }
}

/// The same participant after a restart from its snapshot alone.
fn from_parts(p: &mut Participant) -> Participant {
    let mut again = Participant::new(p.config().clone());
    for part in p.take_changed().into_iter().filter_map(|changed| changed.part) {
        again.restore(part).unwrap();
    }
    again.restored(9).unwrap();
    again
}

#[test]
fn whoever_was_replaced_is_not_obeyed_and_nothing_changes() {
    let mut p = started();
    let (first, second) = (attempt("t", 1), attempt("t", 2));
    assert!(matches!(tell(&mut p, 3, hold(first.clone()), 1), Answer::Held { .. }));
    // Another process was elected, and says so with its first message.
    assert!(matches!(tell(&mut p, 8, hold(second.clone()), 2), Answer::Held { .. }));
    for late in [commit(first.clone()), commit(second.clone()), hold(attempt("t", 3))] {
        assert_eq!(tell(&mut p, 3, late.clone(), 3), Answer::OlderLeader { epoch: 8 });
        assert_eq!(tell(&mut p, 0, late, 3), Answer::OlderLeader { epoch: 8 });
    }
    assert_eq!(p.entries.len(), 2);
    let mut again = from_parts(&mut p);
    assert_eq!(tell(&mut again, 7, commit(first.clone()), 4), Answer::OlderLeader { epoch: 8 });
    assert_eq!(tell(&mut again, 8, commit(first), 4), Answer::Done);
    assert_eq!(tell(&mut again, 9, commit(second), 4), Answer::Done);
}

#[test]
fn each_ledger_counts_for_itself_and_strangers_leave_no_record() {
    let mut p = started();
    assert!(matches!(tell(&mut p, 8, hold(attempt("t", 1)), 1), Answer::Held { .. }));
    // The coordinator has lost its ledger and begun a new one, which is not shared.
    assert!(matches!(tell(&mut p, 0, hold(attempt("u", 1)), 1), Answer::Held { .. }));
    let stranger = ParticipantInput::Abort {
        txn: TransactionId::composed("rogue-t-1/1"),
        by: CoordinatorName::composed("rogue"),
        token: Token::new(1),
    };
    assert_eq!(tell(&mut p, 99, stranger, 1), Answer::Denied);
    let foreign = ParticipantInput::Abort {
        txn: TransactionId::composed("other-t-1/1"),
        by: grc(),
        token: Token::new(1),
    };
    assert_eq!(tell(&mut p, 99, foreign, 1), Answer::Denied);
    assert_eq!(p.leader_epochs.on_record.len(), 1);
}

#[test]
fn a_process_on_a_machine_that_has_run_for_longer_keeps_what_is_held() {
    let mut p = started();
    assert!(matches!(tell(&mut p, 3, hold(attempt("t", 1)), 1), Answer::Held { .. }));
    let mut again = from_parts(&mut p);
    // The clock of the other machine is beyond every deadline, as it stands in the records.
    let month = Now { wall: at(2).wall, boot: BootTime::from_us(30 * 86_400_000_000) };
    assert!(again.next_wake().is_some_and(|wake| wake < month.boot));
    let _ = run(&mut again, ParticipantInput::Start { boot: "other".into() }, month);
    let input = ParticipantInput::Led { epoch: 4, order: Box::new(commit(attempt("t", 1))) };
    match &run(&mut again, input, month)[..] {
        [ParticipantEffect::Reply { answer, .. }] => assert_eq!(*answer, Answer::Done),
        other => panic!("one answer expected: {other:?}"),
    }
}
