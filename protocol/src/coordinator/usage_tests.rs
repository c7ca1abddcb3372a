//! The usage of a booked reservation: by the clock, by what equipment tells, and after a restart.

use coalloc_common::{ResourceId, limits};

use super::tests::{Bench, OTHER, at, rm, txn};
use super::*;
use crate::message::Answer;

/// The window of what the bench books.
const START_MS: i64 = 4_000_000;
const END_MS: i64 = 5_000_000;

const BOOKED: &str = "grc-t-1/1";

/// All that an RM tells; `None`: it has no equipment.
fn all(name: &str, found: Option<Vec<EquipmentFound>>) -> CoordinatorInput {
    CoordinatorInput::Equipment(EquipmentNews::All { rm: rm(name), found })
}

fn has(of: &str, is_active: bool, trouble: Option<&str>) -> EquipmentFound {
    let trouble = trouble.map(str::to_owned);
    let usage = ResourceUsage { is_active, trouble, unusable: BTreeSet::new() };
    EquipmentFound { txn: txn(of), resource: ResourceId::composed("r"), usage: Some(usage) }
}

fn changed(name: &str, found: EquipmentFound) -> CoordinatorInput {
    CoordinatorInput::Equipment(EquipmentNews::Changed { rm: rm(name), found })
}

fn usage(bench: &Bench) -> Usage {
    bench.core.find("grc-t-1").unwrap().usage.clone()
}

fn phase(bench: &Bench) -> UsagePhase {
    usage(bench).phase
}

/// The phases on the log, with what is wrong in each.
fn logged(bench: &Bench) -> Vec<(UsagePhase, Vec<String>)> {
    let of = |record: &CoordinatorRecord| match record {
        CoordinatorRecord::UsageChanged { usage, .. } => {
            Some((usage.phase, usage.trouble.values().cloned().collect()))
        }
        _ => None,
    };
    bench.log.iter().filter_map(of).collect()
}

fn tick(bench: &mut Bench, ms: i64) {
    assert_eq!(bench.step(CoordinatorInput::Tick, at(ms)), []);
}

/// Booked at `a` and `b`, neither of which has equipment.
fn without_equipment() -> Bench {
    let mut bench = Bench::confirmed();
    let _ = bench.step(all("a", None), at(50));
    let _ = bench.step(all("b", None), at(60));
    bench
}

/// Booked at `a`, which has equipment that has let nobody in yet, and at `b`, which has none.
fn with_equipment() -> Bench {
    let mut bench = Bench::confirmed();
    let _ = bench.step(all("a", Some(vec![has(BOOKED, false, None)])), at(50));
    let _ = bench.step(all("b", None), at(60));
    bench
}

#[test]
fn without_equipment_it_follows_the_clock() {
    let mut bench = without_equipment();
    tick(&mut bench, START_MS - 1);
    assert_eq!(logged(&bench), []);
    tick(&mut bench, START_MS);
    assert!(bench.core.find("grc-t-1").unwrap().is_active());
    tick(&mut bench, END_MS - 1);
    tick(&mut bench, END_MS);
    tick(&mut bench, END_MS + 1);
    assert_eq!(logged(&bench), [(UsagePhase::Active, vec![]), (UsagePhase::Over, vec![])]);
    assert_eq!(bench.state("grc-t-1"), State::Confirmed, "it ends no booking");
}

#[test]
fn the_clock_is_looked_at_when_a_window_begins_and_now_and_then_before() {
    let mut bench = without_equipment();
    // Steps in between do not put it off.
    let check = at(0).boot.saturating_add(limits::USAGE_CLOCK_CHECK);
    for ms in [100, 200] {
        tick(&mut bench, ms);
        assert_eq!(bench.core.next_wake(), Some(check));
    }
    tick(&mut bench, START_MS - 5);
    assert_eq!(bench.core.next_wake(), Some(at(START_MS).boot));
    tick(&mut bench, END_MS);
    assert_eq!(bench.core.next_wake(), None, "nothing is left to look at");
}

#[test]
fn with_equipment_it_is_active_when_the_user_is_let_in() {
    let mut bench = with_equipment();
    tick(&mut bench, START_MS);
    assert_eq!(phase(&bench), UsagePhase::Ahead, "its window has begun, and nobody is let in");
    let _ = bench.step(changed("a", has(BOOKED, true, None)), at(START_MS + 100));
    assert_eq!(phase(&bench), UsagePhase::Active);
    let _ = bench.step(changed("a", has(BOOKED, true, None)), at(START_MS + 200));
    let down = Some("node n3 is down");
    let _ = bench.step(changed("a", has(BOOKED, true, down)), at(START_MS + 300));
    let _ = bench.step(changed("a", has(BOOKED, false, down)), at(START_MS + 400));
    let _ = bench.step(changed("a", has(BOOKED, true, None)), at(START_MS + 500));
    tick(&mut bench, END_MS);
    let told = || vec!["r: node n3 is down".to_owned()];
    let expected = [
        (UsagePhase::Active, vec![]),
        (UsagePhase::Active, told()),
        (UsagePhase::Ahead, told()),
        (UsagePhase::Active, vec![]),
        (UsagePhase::Over, vec![]),
    ];
    assert_eq!(logged(&bench), expected);
}

#[test]
fn trouble_before_the_window_is_told_and_what_is_not_told_any_more_is_gone() {
    let mut bench = with_equipment();
    let lost = || has(BOOKED, false, Some("gone"));
    let _ = bench.step(changed("a", lost()), at(70));
    // The same once more, in a new stream.
    let _ = bench.step(all("a", Some(vec![lost()])), at(80));
    let _ = bench.step(all("a", Some(vec![])), at(90));
    let expected = [(UsagePhase::Ahead, vec!["r: gone".to_owned()]), (UsagePhase::Ahead, vec![])];
    assert_eq!(logged(&bench), expected);
    let nothing = EquipmentFound { usage: None, ..lost() };
    let _ = bench.step(changed("a", lost()), at(100));
    let _ = bench.step(changed("a", nothing), at(110));
    assert_eq!(logged(&bench).len(), 4);
    assert_eq!(usage(&bench), Usage::default());
}

#[test]
fn what_cannot_be_used_is_listed_until_it_can_or_nobody_has_it() {
    let listed = |bench: &Bench| {
        bench.core.check_invariants().unwrap();
        let all = bench.core.unusable().map(|(known, parts)| (known.id.to_string(), parts));
        all.collect::<Vec<_>>()
    };
    let broken = || {
        let unusable: BTreeSet<ResourceId> = [ResourceId::composed("r/1")].into();
        let usage = has(BOOKED, false, Some("node 1 is down")).usage;
        EquipmentFound {
            usage: usage.map(|usage| ResourceUsage { unusable, ..usage }),
            ..has(BOOKED, false, None)
        }
    };
    let parts: UnusableParts = [(rm("a"), [ResourceId::composed("r/1")].into())].into();
    let mut bench = with_equipment();
    assert_eq!(listed(&bench), []);
    let _ = bench.step(changed("a", broken()), at(70));
    assert_eq!(listed(&bench), [("grc-t-1".to_owned(), parts.clone())]);
    let _ = bench.step(changed("a", has(BOOKED, false, None)), at(80));
    assert_eq!(listed(&bench), [], "it can be used again");
    let _ = bench.step(all("a", Some(vec![broken()])), at(90));
    assert_eq!(listed(&bench), [("grc-t-1".to_owned(), parts)]);
    let _ = bench.step(all("a", Some(vec![])), at(100));
    assert_eq!(listed(&bench), [], "the RM has nothing of it");
    let _ = bench.step(changed("a", broken()), at(110));
    tick(&mut bench, START_MS);
    tick(&mut bench, END_MS);
    assert_eq!((phase(&bench), listed(&bench)), (UsagePhase::Over, vec![]));
}

#[test]
fn as_long_as_a_resource_manager_has_told_nothing_nothing_changes() {
    let mut bench = Bench::confirmed();
    let _ = bench.step(all("a", None), at(50));
    tick(&mut bench, START_MS);
    assert_eq!(phase(&bench), UsagePhase::Ahead);
    let _ = bench.step(all("b", None), at(START_MS + 10));
    assert_eq!(phase(&bench), UsagePhase::Active);
    // After a restart nobody has told anything. What was recorded stays, until it is over.
    let _ = bench.restart(at(START_MS + 20));
    tick(&mut bench, START_MS + 30);
    assert_eq!(phase(&bench), UsagePhase::Active);
    tick(&mut bench, END_MS);
    assert_eq!(logged(&bench), [(UsagePhase::Active, vec![]), (UsagePhase::Over, vec![])]);
}

#[test]
fn what_equipment_has_lost_while_the_process_was_down_is_noticed() {
    let mut bench = with_equipment();
    let _ = bench.step(changed("a", has(BOOKED, true, None)), at(70));
    tick(&mut bench, START_MS);
    let _ = bench.restart(at(START_MS + 10));
    let _ = bench.step(all("a", Some(vec![])), at(START_MS + 20));
    assert_eq!(phase(&bench), UsagePhase::Active, "b has told nothing yet");
    let _ = bench.step(all("b", None), at(START_MS + 30));
    assert_eq!(phase(&bench), UsagePhase::Ahead);
}

#[test]
fn trouble_that_has_gone_while_the_process_was_down_is_not_told_for_ever() {
    let mut bench = with_equipment();
    let _ = bench.step(changed("a", has(BOOKED, false, Some("gone"))), at(70));
    let _ = bench.restart(at(80));
    assert_eq!(usage(&bench).trouble.len(), 1, "a has told nothing yet");
    let _ = bench.step(all("a", Some(vec![])), at(90));
    assert_eq!(usage(&bench), Usage::default());
}

/// Seed 21064 of generator 12 of the fault worlds.
#[test]
fn after_a_restart_nothing_new_is_said_of_what_is_in_use_until_all_have_told() {
    let mut bench = with_equipment();
    let _ = bench.step(changed("a", has(BOOKED, true, Some("weak"))), at(70));
    tick(&mut bench, START_MS);
    let before = logged(&bench);
    assert_eq!(before.last(), Some(&(UsagePhase::Active, vec!["r: weak".to_owned()])));
    let _ = bench.restart(at(START_MS + 10));
    tick(&mut bench, START_MS + 20);
    assert_eq!(logged(&bench), before, "the trouble of a is not gone because a has told nothing");
    let _ = bench.step(all("a", Some(vec![has(BOOKED, true, None)])), at(START_MS + 30));
    assert_eq!(logged(&bench), before, "b has told nothing yet");
    let _ = bench.step(all("b", None), at(START_MS + 40));
    assert_eq!(usage(&bench), Usage { phase: UsagePhase::Active, ..Usage::default() });
}

#[test]
fn what_happened_while_the_process_was_down_is_recorded_at_its_start() {
    let mut bench = without_equipment();
    let _ = bench.restart(at(END_MS + 10));
    assert_eq!(logged(&bench), [(UsagePhase::Over, vec![])]);
    let _ = bench.restart(at(END_MS + 20));
    assert_eq!(logged(&bench).len(), 1);
}

#[test]
fn a_resource_manager_speaks_of_its_own_part_only_and_not_for_long() {
    let mut bench = with_equipment();
    let wrong = Some("wrong");
    let _ = bench.step(all("c", Some(vec![has(BOOKED, false, wrong)])), at(70));
    let _ = bench.step(changed("c", has(BOOKED, false, wrong)), at(80));
    let _ = bench.step(changed("a", has("grc-t-7/1", false, wrong)), at(90));
    assert_eq!(logged(&bench), []);
    let long = "ä".repeat(5_000);
    let _ = bench.step(changed("a", has(BOOKED, false, Some(&long))), at(100));
    let kept = usage(&bench).trouble[&rm("a")].chars().count();
    assert_eq!(kept, limits::EQUIPMENT_TROUBLE_CHARS_MAX + 1);
}

#[test]
fn a_clock_that_is_set_back_takes_the_beginning_back_and_not_the_end() {
    let mut bench = without_equipment();
    tick(&mut bench, START_MS);
    let back = |ms: i64| Now { boot: at(START_MS + 10).boot, ..at(ms) };
    assert_eq!(bench.step(CoordinatorInput::Tick, back(100)), []);
    assert_eq!(phase(&bench), UsagePhase::Ahead);
    tick(&mut bench, END_MS);
    assert_eq!(bench.step(CoordinatorInput::Tick, at(START_MS)), []);
    let phases: Vec<UsagePhase> = logged(&bench).into_iter().map(|(phase, _)| phase).collect();
    assert_eq!(phases, [UsagePhase::Active, UsagePhase::Ahead, UsagePhase::Over]);
    // The same while the process is down.
    let mut bench = without_equipment();
    tick(&mut bench, START_MS);
    let _ = bench.restart(back(100));
    assert_eq!(phase(&bench), UsagePhase::Ahead);
}

#[test]
fn nothing_is_recorded_without_space_and_all_of_it_later() {
    let mut bench = without_equipment();
    let _ = bench.step(CoordinatorInput::Room(DiskSpace::Low), at(70));
    tick(&mut bench, START_MS);
    assert_eq!(logged(&bench), []);
    let later = at(START_MS).boot.saturating_add(limits::USAGE_CLOCK_CHECK);
    assert_eq!(bench.core.next_wake(), Some(later), "perhaps there is space then");
    let _ = bench.step(CoordinatorInput::Room(DiskSpace::Enough), at(START_MS + 10));
    assert_eq!(logged(&bench), [(UsagePhase::Active, vec![])]);
}

#[test]
fn other_records_say_whether_it_is_in_use_and_its_end_ends_that() {
    let mut bench = without_equipment();
    let report = |id: &str| CoordinatorInput::Report {
        reservation: ReservationId::composed("grc-t-1"),
        report: Report { id: RequestId::composed(id), content: "x".into(), text: "x".into() },
        by: coalloc_common::UserName::composed("u"),
        token: Token::new(OTHER),
    };
    let is_active = |bench: &Bench| match bench.last() {
        CoordinatorRecord::Reported { active, .. } => *active,
        other => panic!("a report expected: {other:?}"),
    };
    let _ = bench.step(report("p1"), at(100));
    assert!(!is_active(&bench));
    tick(&mut bench, START_MS);
    let _ = bench.step(report("p2"), at(START_MS + 1));
    assert!(is_active(&bench));
    let _ = bench.release("grc-t-1", at(START_MS + 2));
    assert!(!bench.core.find("grc-t-1").unwrap().is_active(), "it is being released");
    for name in ["a", "b"] {
        let ended = Answer::Done;
        let _ = bench.answer(name, BOOKED, MessageKind::Release, ended, at(START_MS + 3));
    }
    assert_eq!(bench.state("grc-t-1"), State::Terminated);
    let _ = bench.step(changed("a", has(BOOKED, true, Some("wrong"))), at(START_MS + 4));
    tick(&mut bench, END_MS);
    assert_eq!(logged(&bench), [(UsagePhase::Active, vec![])], "nothing of it is told any more");
}

#[test]
fn of_a_reservation_no_more_resources_are_kept_than_it_can_have() {
    let mut bench = with_equipment();
    let found = |at: usize| EquipmentFound {
        resource: ResourceId::composed(format!("r{at}")),
        ..has(BOOKED, true, Some("it is broken"))
    };
    let some = limits::EQUIPMENT_RESOURCES_MAX;
    let _ = bench.step(all("a", Some((0..2 * some).map(found).collect())), at(70));
    let _ = bench.step(changed("a", found(3 * some)), at(80));
    let kept = |bench: &Bench| -> usize {
        let told = bench.core.usages.told.values().flat_map(|told| told.values());
        told.map(BTreeMap::len).sum()
    };
    assert_eq!(kept(&bench), some);
    // What is kept may still change.
    let gone = EquipmentFound { usage: None, ..found(0) };
    let _ = bench.step(changed("a", gone), at(90));
    assert_eq!(kept(&bench), some - 1);
}
