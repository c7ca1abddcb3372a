//! What belongs to a parent coordinator only the parent may end (I21), whatever RM is gone.

use coalloc_common::UserName;

use super::*;

#[test]
fn what_one_above_has_is_not_given_up_here() {
    let mut bench = Bench::booked();
    let _ = bench.parent_ends("u", MessageKind::Release, at(70));
    assert_eq!(replies(&bench.answer("a", TRY, MessageKind::Release, Answer::Done, at(80))), []);
    let give_up = |of| {
        let (rm, by, why) = (RmName::composed("b"), UserName::composed("op"), String::new());
        CoordinatorInput::Repair(Repair::GiveUp { rm, of, by, why, token: Token::new(USER) })
    };
    let reply = |reply| Reply::GiveUp(Token::new(USER), reply);
    let written = bench.log.len();
    let one = OfWhat::Reservation(ReservationId::composed(ID));
    let told = replies(&bench.step(give_up(one), at(90)));
    assert_eq!(told, [reply(GiveUpReply::NotGivenUp(NotGivenUp::OfParent))]);
    let told = replies(&bench.step(give_up(OfWhat::All), at(90)));
    let none = GaveUpOn { wanted: 1, ..GaveUpOn::default() };
    assert_eq!(told, [reply(GiveUpReply::GaveUp(none))]);
    assert_eq!((bench.log.len(), bench.state(ID)), (written, State::Terminating));
}
