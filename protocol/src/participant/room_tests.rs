//! A full disk (I17): what is refused then and what is not, and that refusals write no records.

use coalloc_common::Reason;

use super::tests::{at, grc, order, participant, txn, window};
use super::*;

fn hold_of(order: HoldOrder) -> ParticipantInput {
    ParticipantInput::Hold { order, oldest_open: 0, token: Token::new(1) }
}

fn commit_of(name: &str) -> ParticipantInput {
    ParticipantInput::Commit { txn: txn(name), by: grc(), token: Token::new(1) }
}

fn abort_of(name: &str) -> ParticipantInput {
    ParticipantInput::Abort { txn: txn(name), by: grc(), token: Token::new(1) }
}

fn release_of(name: &str) -> ParticipantInput {
    ParticipantInput::Release { txn: txn(name), by: grc(), token: Token::new(1) }
}

fn room(p: &mut Participant, room: DiskSpace) {
    let step = p.step(ParticipantInput::Room(room), at(1));
    assert!(step.records().is_empty());
}

fn refused_for(answer: &Answer) -> Option<Reason> {
    match answer {
        Answer::Refused(refusal) => Some(refusal.reason),
        _ => None,
    }
}

/// The answer of a step, and how many records it wrote.
fn answer(p: &mut Participant, input: ParticipantInput) -> (Answer, usize) {
    struct Count(usize);
    impl crate::durable::Log for Count {
        type Record = ParticipantRecord;
        type Error = std::convert::Infallible;
        fn append_caused(
            &mut self,
            records: &[crate::causer::CausedRecord<'_, ParticipantRecord>],
        ) -> Result<(), Self::Error> {
            self.0 += records.len();
            Ok(())
        }
    }
    let mut log = Count(0);
    let step = p.step(input, at(2));
    p.check_invariants().unwrap();
    let Ok(synced) = crate::durable::sync(vec![step], &mut log);
    match synced.into_effects().pop() {
        Some(ParticipantEffect::Reply { answer, .. }) => (answer, log.0),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_full_disk_refuses_what_is_new_and_writes_nothing_of_it() {
    let mut p = participant();
    let wanted = order("new", 100, window(600, 1200));
    room(&mut p, DiskSpace::Low);
    let (told, records) = answer(&mut p, hold_of(wanted.clone()));
    assert_eq!((refused_for(&told), records), (Some(Reason::DiskFull), 0));
    assert!(p.entries().is_empty());
    // A refusal for another reason would write a record, so other reasons are not even checked.
    let much = order("much", 9_999, window(600, 1200));
    assert_eq!(refused_for(&answer(&mut p, hold_of(much)).0), Some(Reason::DiskFull));
    // I8: the answer stays the same when there is space again. With other content it is an error.
    room(&mut p, DiskSpace::Enough);
    assert_eq!(answer(&mut p, hold_of(wanted.clone())), (told, 0));
    let other = HoldOrder { segments: order("x", 1, window(600, 1200)).segments, ..wanted };
    assert_eq!(answer(&mut p, hold_of(other)).0, Answer::OtherContent);
    // Another transaction is held.
    let (told, records) = answer(&mut p, hold_of(order("next", 100, window(600, 1200))));
    assert!(matches!(told, Answer::Held { .. }) && records == 1, "{told:?}");
}

#[test]
fn a_full_disk_ends_what_has_begun() {
    let mut p = participant();
    for name in ["a", "b", "c"] {
        let (told, _) = answer(&mut p, hold_of(order(name, 100, window(600, 1200))));
        assert!(matches!(told, Answer::Held { .. }));
    }
    room(&mut p, DiskSpace::Low);
    // A transaction from before gets the same answer as before.
    let again = answer(&mut p, hold_of(order("a", 100, window(600, 1200))));
    assert!(matches!(again, (Answer::Held { .. }, 0)), "{again:?}");
    assert_eq!(answer(&mut p, commit_of("a")), (Answer::Done, 1));
    assert_eq!(answer(&mut p, abort_of("b")), (Answer::Done, 1));
    assert_eq!(answer(&mut p, release_of("a")), (Answer::Done, 1));
    // A tombstone is written too: a late Hold must not be held (I9).
    assert_eq!(answer(&mut p, abort_of("unknown")), (Answer::Done, 1));
    // So is the expiry of a hold that nobody decides.
    let expired = p.step(ParticipantInput::Tick, at(2_000));
    assert_eq!(expired.records().len(), 1);
    assert_eq!(p.entries()[&txn("c")].phase, Phase::Ended(TransactionEnd::Expired));
    p.check_invariants().unwrap();
}

#[test]
fn what_is_remembered_of_refusals_is_bounded() {
    let mut p = participant();
    room(&mut p, DiskSpace::Low);
    let kept = limits::ROOM_REFUSALS_KEPT / 2;
    for number in 0..=kept {
        let wanted = order(&format!("t{number}"), 1, window(600, 1200));
        assert_eq!(refused_for(&answer(&mut p, hold_of(wanted)).0), Some(Reason::DiskFull));
    }
    room(&mut p, DiskSpace::Enough);
    let oldest = answer(&mut p, hold_of(order("t0", 1, window(600, 1200))));
    assert!(matches!(oldest, (Answer::Held { .. }, 1)), "the oldest is forgotten: {oldest:?}");
    let last = order(&format!("t{kept}"), 1, window(600, 1200));
    assert_eq!(refused_for(&answer(&mut p, hold_of(last)).0), Some(Reason::DiskFull));
}
