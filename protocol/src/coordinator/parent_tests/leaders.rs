//! Which process of a parent coordinator is obeyed: the last one that was elected, also after a restart.

use super::*;
use crate::snapshot::Snapshot;

/// What the parent's process of this epoch is answered when it ends a transaction.
fn end(bench: &mut Bench, id: &str, kind: MessageKind, epoch: u64) -> Answer {
    let (by, token) = (CoordinatorName::composed("top"), Token::new(OTHER));
    only(bench.step(ParentInput::End { txn: txn(id), by, kind, epoch, token }.into(), at(2)))
}

/// What the parent's process of this epoch is answered before its Hold.
fn preface(bench: &mut Bench, by: &str, epoch: u64) -> Answer {
    let (txn, by, token) = (txn("a"), CoordinatorName::composed(by), Token::new(OTHER));
    only(bench.step(ParentInput::Preface { txn, by, oldest_open: 0, epoch, token }.into(), at(1)))
}

fn only(effects: Vec<CoordinatorEffect>) -> Answer {
    match &replies(&effects)[..] {
        [Reply::ParentEnd(_, ParentReply::Answered(answer))] => answer.clone(),
        other => panic!("one answer expected: {other:?}"),
    }
}

#[test]
fn a_process_of_the_parent_that_was_replaced_is_not_obeyed() {
    let mut bench = Bench::child(parents());
    assert_eq!(preface(&mut bench, "top", 3), Answer::Done);
    let older = Answer::OlderLeader { epoch: 8 };
    // Another process was elected, and says so with its first message.
    assert_eq!(end(&mut bench, "b", MessageKind::Abort, 8), Answer::Done);
    assert_eq!(preface(&mut bench, "top", 3), older);
    for kind in [MessageKind::Commit, MessageKind::Abort, MessageKind::Release] {
        assert_eq!(end(&mut bench, "c", kind, 3), older, "{kind:?}");
        assert_eq!(end(&mut bench, "c", kind, 0), older, "{kind:?}");
    }
    assert!(bench.core.parent_entries().get(&txn("c")).is_none(), "nothing was done");

    let mut again = Bench::child(parents());
    for part in bench.core.take_changed().into_iter().filter_map(|changed| changed.part) {
        again.core.restore(part).unwrap();
    }
    again.core.restored(9).unwrap();
    assert_eq!(preface(&mut again, "top", 7), older);
    assert_eq!(preface(&mut again, "top", 9), Answer::Done);
}

#[test]
fn strangers_leave_no_epoch() {
    let mut bench = Bench::child(parents());
    // It may hold here, but the transaction is not its own; the Hold that follows is denied.
    assert_eq!(preface(&mut bench, "top-2", 99), Answer::Done);
    assert_eq!(preface(&mut bench, "stranger", 99), Answer::Done);
    assert_eq!(preface(&mut bench, "top", 1), Answer::Done);
    assert_eq!(bench.core.parents.leader_epochs.on_record.len(), 1);
}
