//! A participant with a reconciler and a naive device: by hand, and with random messages and faults.

mod bench;

use coalloc_common::RmName;
use proptest::prelude::*;

use self::bench::{Fault, Rm};
use super::super::tests::{order, txn, window};
use super::super::*;
use super::*;
use crate::message::HoldOrder;

fn active(amount: u64) -> Stage {
    Stage::Active(Amount(amount))
}

#[test]
fn a_booking_follows_its_window() {
    let mut rm = Rm::new();
    let call = rm.hold(&order("a", 600, window(60, 120)));
    assert_eq!(rm.answers.get(&call), None, "the answer waits for the claim");
    rm.settle();
    assert!(rm.is_held(call));
    assert_eq!(rm.stages(), [Stage::Claimed]);
    assert_eq!(rm.commit("a"), Some(Answer::Done), "a Commit does not ask the equipment");
    rm.settle();
    assert_eq!(rm.stages(), [Stage::Granted]);
    rm.pass(59_000);
    assert_eq!(rm.stages(), [Stage::Granted]);
    rm.pass(1_100);
    assert_eq!(rm.stages(), [active(600)]);
    rm.pass(59_000);
    assert_eq!(rm.stages(), [active(600)]);
    rm.pass(1_000);
    assert_eq!(rm.stages(), []);
    assert!(rm.participant.equipment_states().is_empty());
    assert_eq!(rm.participant.entries()[&txn("a")].phase, Phase::Booked, "it is over, not ended");
}

#[test]
fn what_is_not_provisioned_stays_claimed_until_a_version_lets_the_user_in() {
    let mut rm = Rm::new();
    let first = HoldOrder { manual_provision: true, ..order("a", 600, window(60, 600)) };
    rm.hold(&first);
    rm.settle();
    rm.commit("a");
    rm.pass(61_000);
    assert_eq!(rm.stages(), [Stage::Claimed], "its window has begun");
    rm.restart();
    rm.settle();
    assert_eq!(rm.stages(), [Stage::Claimed]);
    let next = |name: &str, old: &str, manual_provision| HoldOrder {
        replaces: Some(txn(old)),
        keeps_old: true,
        manual_provision,
        ..order(name, 600, window(60, 600))
    };
    rm.hold(&next("b", "a", false));
    rm.settle();
    assert_eq!(rm.stages(), [Stage::Claimed], "the new version is only held");
    rm.commit("b");
    rm.settle();
    assert_eq!(rm.stages(), [active(600)]);
    rm.hold(&next("c", "b", true));
    rm.settle();
    assert_eq!(rm.stages(), [active(600)]);
    rm.commit("c");
    rm.settle();
    assert_eq!(rm.stages(), [Stage::Claimed]);
    rm.pass(600_000);
    assert_eq!(rm.stages(), []);
}

#[test]
fn what_the_equipment_refuses_is_refused_for_good() {
    let mut rm = Rm::new();
    rm.device.faults.push_back(Fault::Refuse);
    let call = rm.hold(&order("a", 600, window(60, 120)));
    rm.settle();
    let refusal = rm.refused(call).unwrap().clone();
    assert_eq!(refusal.reason, Reason::Equipment);
    assert_eq!(refusal.rm, Some(RmName::composed("nrm-N")));
    rm.restart();
    let again = rm.hold(&order("a", 600, window(60, 120)));
    assert_eq!(rm.refused(again), Some(&refusal));
    // What it held is free again.
    let other = rm.hold(&order("b", 1_000, window(60, 120)));
    rm.settle();
    assert!(rm.is_held(other));
}

#[test]
fn a_claim_is_tried_again_until_its_time_is_over() {
    let mut rm = Rm::new();
    rm.device.faults = [Fault::Down, Fault::Down].into();
    let call = rm.hold(&order("a", 600, window(60, 120)));
    rm.settle();
    assert_eq!(rm.answers.get(&call), None);
    let repeated = rm.hold(&order("a", 600, window(60, 120)));
    rm.pass(2_000);
    assert!(rm.is_held(call) && rm.is_held(repeated), "a repeated Hold joins those that wait");
    rm.device.faults = std::iter::repeat_n(Fault::Down, 100).collect();
    let call = rm.hold(&order("b", 400, window(60, 120)));
    rm.pass(5_900);
    assert_eq!(rm.answers.get(&call), None);
    rm.pass(200);
    let refusal = rm.refused(call).unwrap();
    assert!(refusal.detail.contains("no controller answers"), "{}", refusal.detail);
    assert_eq!(rm.commit("b").map(|answer| matches!(answer, Answer::Refused(_))), Some(true));
}

#[test]
fn a_lost_claim_is_looked_at_before_it_is_made_again() {
    for fault in [Fault::LostBefore, Fault::LostAfter] {
        let mut rm = Rm::new();
        rm.device.faults.push_back(fault);
        let call = rm.hold(&order("a", 600, window(60, 120)));
        rm.device.calls.clear();
        rm.pass(1_000);
        assert!(rm.is_held(call));
        assert_eq!(rm.stages(), [Stage::Claimed]);
        assert_eq!(rm.device.calls[..2], ["make", "observe"]);
        assert_eq!(rm.device.made, 1);
    }
}

#[test]
fn an_abort_ends_the_wait_and_the_claim() {
    let mut rm = Rm::new();
    rm.device.faults.push_back(Fault::LostAfter);
    let call = rm.hold(&order("a", 600, window(60, 120)));
    assert!(rm.work());
    assert_eq!(rm.abort("a"), Some(Answer::Done));
    assert_eq!(rm.refused(call).map(|refusal| refusal.reason), Some(Reason::Aborted));
    rm.pass(21_000);
    assert_eq!(rm.stages(), [], "it is ours and nobody wants it");
}

#[test]
fn nobody_commits_what_is_not_claimed() {
    let mut rm = Rm::new();
    let call = rm.hold(&order("a", 600, window(60, 120)));
    assert!(matches!(rm.commit("a"), Some(Answer::Refused(_))));
    assert!(rm.refused(call).is_some());
    rm.settle();
    assert_eq!(rm.stages(), []);
}

#[test]
fn a_restart_looks_first_and_goes_on() {
    let mut rm = Rm::new();
    let call = rm.hold(&order("a", 600, window(60, 120)));
    rm.settle();
    assert!(rm.is_held(call));
    let _ = rm.commit("a");
    let open = rm.hold(&order("b", 100, window(60, 120)));
    rm.restart();
    let again = rm.hold(&order("b", 100, window(60, 120)));
    rm.settle();
    assert_eq!(rm.answers.get(&open), None, "its caller is gone");
    assert!(rm.is_held(again));
    assert_eq!(rm.stages(), [Stage::Granted, Stage::Claimed]);
    assert_eq!(rm.device.made, 2);
    // The daemon is down when the window ends.
    rm.ms += 130_000;
    rm.restart();
    rm.settle();
    assert_eq!(rm.stages(), []);
    assert!(rm.participant.equipment_states().is_empty());
}

#[test]
fn a_change_claims_both_versions_and_grants_the_old_one() {
    let mut rm = Rm::new();
    let _ = rm.hold(&order("a", 600, window(60, 120)));
    rm.settle();
    let _ = rm.commit("a");
    rm.pass(61_000);
    assert_eq!(rm.stages(), [active(600)]);
    let wider = HoldOrder { replaces: Some(txn("a")), ..order("b", 900, window(60, 120)) };
    let call = rm.hold(&wider);
    rm.settle();
    assert!(rm.is_held(call));
    assert_eq!(rm.stages(), [active(600)], "the user still has the old version");
    let versions = |rm: &Rm| -> Vec<(TransactionId, bool)> {
        let (_, want) = rm.device.things.values().next().unwrap();
        want.versions.iter().map(|one| (one.txn.clone(), one.is_booked)).collect()
    };
    assert_eq!(versions(&rm), [(txn("a"), true), (txn("b"), false)]);
    assert_eq!(rm.abort("b"), Some(Answer::Done));
    rm.settle();
    assert_eq!(versions(&rm), [(txn("a"), true)]);
    let again = HoldOrder { replaces: Some(txn("a")), ..order("c", 900, window(60, 120)) };
    let _ = rm.hold(&again);
    rm.settle();
    assert_eq!(rm.commit("c"), Some(Answer::Done));
    rm.settle();
    assert_eq!(versions(&rm), [(txn("c"), true)]);
    assert_eq!(rm.stages(), [active(900)]);
    assert_eq!(rm.device.made, 1, "changed in place");
    assert_eq!(rm.release("c"), Some(Answer::Done));
    rm.settle();
    assert_eq!(rm.stages(), []);
}

#[test]
fn what_somebody_changes_by_hand_is_mended() {
    let mut rm = Rm::new();
    let _ = rm.hold(&order("a", 600, window(60, 600)));
    rm.settle();
    let _ = rm.commit("a");
    rm.pass(61_000);
    rm.device.things.clear();
    rm.pass(31_000);
    assert_eq!(rm.stages(), [active(600)]);
    let (key, mut want) = rm.device.things["thing-2"].clone();
    want.stage = Stage::Claimed;
    rm.device.things.insert("thing-2".into(), (key, want.clone()));
    let stray = EquipmentKey { chain: txn("z"), resource: ResourceId::composed("N0-N1") };
    rm.device.things.insert("stray".into(), (stray, want));
    rm.pass(15_000);
    assert!(rm.device.things.contains_key("stray"), "not at once");
    rm.pass(65_000);
    assert_eq!(rm.device.things["thing-2"].1.stage, active(600));
    assert!(!rm.device.things.contains_key("stray"));
}

#[test]
fn trouble_is_told_and_what_cannot_be_removed_is_in_the_way() {
    let mut rm = Rm::new();
    let _ = rm.hold(&order("a", 600, window(60, 120)));
    rm.settle();
    let _ = rm.commit("a");
    rm.device.faults.push_back(Fault::Refuse);
    rm.settle();
    let state = rm.participant.equipment_states().values().next().unwrap();
    assert_eq!(state.trouble.as_deref(), Some("a job is in the way"), "{state:?}");
    rm.pass(1_000);
    let state = rm.participant.equipment_states().values().next().unwrap();
    assert_eq!((state.stage, &state.trouble), (Some(Stage::Granted), &None), "tried again");
    rm.device.faults = std::iter::repeat_n(Fault::Refuse, 100).collect();
    let _ = rm.release("a");
    rm.settle();
    let call = rm.hold(&order("b", 100, window(60, 120)));
    rm.pass(7_000);
    let refusal = rm.refused(call).unwrap();
    assert!(refusal.detail.contains("could not be removed"), "{}", refusal.detail);
    rm.device.faults.clear();
    rm.pass(6_000);
    assert_eq!(rm.stages(), []);
}

#[test]
fn what_has_to_change_while_nobody_can_look_is_in_trouble() {
    let mut rm = Rm::new();
    let call = rm.hold(&order("a", 600, window(60, 120)));
    rm.settle();
    assert!(rm.is_held(call));
    rm.device.faults = std::iter::repeat_n(Fault::Down, 100).collect();
    rm.pass(6_000);
    let state = |rm: &Rm| rm.participant.equipment_states().values().next().unwrap().clone();
    assert_eq!(state(&rm).trouble, None, "it was as wanted when somebody looked");
    assert_eq!(rm.commit("a"), Some(Answer::Done));
    rm.pass(6_000);
    assert_eq!(state(&rm).trouble.as_deref(), Some("no controller answers"));
    // A change of it is told, too.
    let change = HoldOrder { replaces: Some(txn("a")), ..order("b", 700, window(60, 120)) };
    let call = rm.hold(&change);
    rm.pass(6_100);
    let refusal = rm.refused(call).unwrap();
    assert!(refusal.detail.contains("no controller answers"), "{}", refusal.detail);
    rm.device.faults.clear();
    rm.pass(6_000);
    assert_eq!((state(&rm).stage, state(&rm).trouble), (Some(Stage::Granted), None));
}

#[test]
fn what_nobody_wants_is_taken_away_when_its_time_is_over() {
    let mut rm = Rm::new();
    let _ = rm.hold(&order("a", 600, window(60, 600)));
    rm.settle();
    rm.pass(20_000);
    let (_, want) = rm.device.things["thing-1"].clone();
    let stray = EquipmentKey { chain: txn("z"), resource: ResourceId::composed("N0-N1") };
    rm.device.things.insert("stray".into(), (stray, want));
    while rm.reconciler.report().orphans.is_empty() {
        rm.pass(100);
    }
    let until = rm.now().boot.saturating_add(limits::EQUIPMENT_ORPHAN_GRACE);
    assert_eq!(rm.reconciler.due(), until, "and not at the next look");
    rm.pass(20_000);
    assert!(!rm.device.things.contains_key("stray"));
}

#[test]
fn a_one_way_hold_is_booked_when_it_is_claimed() {
    let mut rm = Rm::new();
    let one_way = HoldOrder { one_way: true, ..order("a", 600, window(60, 120)) };
    let call = rm.hold(&one_way);
    assert!(matches!(rm.participant.entries()[&txn("a")].phase, Phase::Held(_)));
    rm.settle();
    assert!(rm.is_held(call));
    assert_eq!(rm.participant.entries()[&txn("a")].phase, Phase::Booked);
    rm.settle();
    assert_eq!(rm.stages(), [Stage::Granted]);
}

#[test]
fn a_clock_that_is_set_back_brings_back_what_was_over() {
    let mut rm = Rm::new();
    let _ = rm.hold(&order("a", 600, window(60, 120)));
    rm.settle();
    let _ = rm.commit("a");
    rm.pass(61_000);
    rm.ahead_ms = 1_800_000;
    rm.pass(11_000);
    assert_eq!(rm.stages(), []);
    rm.ahead_ms = 0;
    // The next look notices it.
    rm.pass(31_000);
    assert_eq!(rm.stages(), [active(600)]);
    rm.pass(40_000);
    assert_eq!(rm.stages(), []);
}

#[test]
fn nothing_wakes_for_a_window_of_what_has_ended() {
    let mut rm = Rm::new();
    let _ = rm.hold(&order("a", 600, window(60, 120)));
    rm.settle();
    let _ = rm.commit("a");
    assert!(rm.participant.equipment_due().is_some());
    let _ = rm.release("a");
    rm.settle();
    assert_eq!(rm.participant.equipment_due(), None);
}

#[test]
fn a_look_tells_what_the_participant_was_too_busy_for() {
    let mut rm = Rm::new();
    let _ = rm.hold(&order("a", 600, window(60, 600)));
    rm.settle();
    let _ = rm.commit("a");
    rm.untold = 1;
    rm.settle();
    let stage = |rm: &Rm| rm.participant.equipment_states().values().next().unwrap().stage;
    assert_eq!((rm.stages(), stage(&rm)), (vec![Stage::Granted], Some(Stage::Claimed)));
    rm.pass(31_000);
    assert_eq!(stage(&rm), Some(Stage::Granted));
    rm.untold = 1;
    let _ = rm.release("a");
    rm.settle();
    assert_eq!((rm.stages(), rm.participant.equipment_states().len()), (vec![], 1));
    rm.pass(31_000);
    assert!(rm.participant.equipment_states().is_empty());
}

#[test]
fn a_claim_that_ends_the_trouble_of_an_older_version_is_told() {
    let mut rm = Rm::new();
    let _ = rm.hold(&order("a", 600, window(60, 120)));
    rm.settle();
    let _ = rm.commit("a");
    rm.device.faults.push_back(Fault::Refuse);
    rm.settle();
    let state = |rm: &Rm| rm.participant.equipment_states().values().next().cloned().unwrap();
    assert!(state(&rm).trouble.is_some());
    let before = rm.log.len();
    let _ = rm.hold(&HoldOrder { replaces: Some(txn("a")), ..order("b", 900, window(60, 120)) });
    rm.settle();
    let told = rm.log[before..].iter().rev().find_map(|record| match record {
        ParticipantRecord::Equipped { state, .. } => state.clone(),
        _ => None,
    });
    assert_eq!(told, Some(state(&rm)), "watchers are told of records of the equipment only");
    assert_eq!((state(&rm).trouble, state(&rm).version), (None, txn("b")));
}

#[test]
fn what_was_unusable_before_a_restart_is_usable_after_the_first_look() {
    let mut rm = Rm::new();
    let _ = rm.hold(&order("a", 600, window(60, 120)));
    rm.settle();
    let _ = rm.commit("a");
    rm.settle();
    let unusable = |rm: &Rm| {
        let states = rm.participant.equipment_states().values();
        states.map(|state| state.unusable.len()).sum::<usize>()
    };
    rm.device.unusable.insert(ResourceId::composed("N0-N1"));
    rm.pass(31_000);
    assert_eq!((unusable(&rm), rm.participant.unusable().len()), (1, 1));
    rm.device.unusable.clear();
    rm.restart();
    rm.settle();
    assert_eq!((unusable(&rm), rm.participant.unusable().len()), (0, 0));
}

#[derive(Debug, Clone)]
enum Act {
    Hold { name: u8, amount: u64, start: i64, length: i64, replaces: Option<u8> },
    Commit(u8),
    Abort(u8),
    Release(u8),
    Pass(i64),
    Restart,
    Fault(Fault),
    Tamper,
}

fn act() -> impl Strategy<Value = Act> {
    let name = || 0_u8..6;
    let fault = prop_oneof![
        Just(Fault::Refuse),
        Just(Fault::Down),
        Just(Fault::LostBefore),
        Just(Fault::LostAfter)
    ];
    prop_oneof![
        4 => (name(), 1_u64..700, 20_i64..60, 1_i64..40, proptest::option::of(name())).prop_map(
            |(name, amount, start, length, replaces)| Act::Hold { name, amount, start, length, replaces }
        ),
        4 => name().prop_map(Act::Commit),
        1 => name().prop_map(Act::Abort),
        1 => name().prop_map(Act::Release),
        4 => (100_i64..9_000).prop_map(Act::Pass),
        1 => Just(Act::Restart),
        3 => fault.prop_map(Act::Fault),
        1 => Just(Act::Tamper),
    ]
}

fn name(number: u8) -> String {
    char::from(b'a' + number).to_string()
}

proptest! {
    /// Whatever happens: yes is said only to what the equipment has, nothing is made twice or before a look, nothing
    /// is active outside its window once the RM has had the time to end it, and in the end the equipment has what is wanted.
    #[test]
    fn the_equipment_ends_up_as_wanted(acts in proptest::collection::vec(act(), 0..60)) {
        let mut rm = Rm::new();
        for act in acts {
            match act {
                Act::Hold { name: number, amount, start, length, replaces } => {
                    let from = rm.ms / 1_000 + start;
                    let replaces = replaces.map(|old| txn(&name(old)));
                    let order = order(&name(number), amount, window(from, from + length));
                    let order = HoldOrder { replaces: replaces.filter(|old| *old != order.txn), ..order };
                    let call = rm.hold(&order);
                    let is_made = !order.segments.is_empty()
                        && rm.participant.entries().get(&order.txn).is_some_and(|entry| entry.claim == Claim::Made);
                    prop_assert!(is_made || !rm.is_held(call), "yes before the claim");
                }
                Act::Commit(number) => drop(rm.commit(&name(number))),
                Act::Abort(number) => drop(rm.abort(&name(number))),
                Act::Release(number) => drop(rm.release(&name(number))),
                Act::Pass(ms) => rm.pass(ms),
                Act::Restart => rm.restart(),
                Act::Fault(fault) => rm.device.faults.push_back(fault),
                Act::Tamper => drop(rm.device.things.pop_first()),
            }
        }
        rm.device.faults.clear();
        rm.pass(90_000);
        let wanted = rm.participant.wanted(rm.now().wall);
        let has: BTreeMap<EquipmentKey, Want> = rm.device.things.values().cloned().collect();
        prop_assert_eq!(wanted.keys().collect::<Vec<_>>(), has.keys().collect::<Vec<_>>());
        for (key, want) in &wanted {
            prop_assert_eq!(want.stage, has[key].stage);
            prop_assert_eq!(&want.versions, &has[key].versions);
            prop_assert_eq!(rm.participant.equipment_states()[key].stage, Some(want.stage));
            prop_assert_eq!(&rm.participant.equipment_states()[key].trouble, &None);
        }
        prop_assert_eq!(rm.participant.equipment_states().len(), wanted.len());
        let waiting = rm.participant.entries().values().any(Entry::waits_for_claim);
        prop_assert!(!waiting, "every claim is made or refused");
    }
}
