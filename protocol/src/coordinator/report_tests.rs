//! Reports about a reservation: recorded before they are acknowledged, one answer each, and only while it is booked.

use coalloc_common::limits;

use super::tests::{Bench, OTHER, USER, at, open_change, replies};
use super::*;
use coalloc_common::UserName;

fn report(reservation: &str, id: &str, content: &str) -> CoordinatorInput {
    let report = Report {
        id: RequestId::composed(id),
        content: content.to_owned(),
        text: format!("text of {id}"),
    };
    let (reservation, by) = (ReservationId::composed(reservation), UserName::composed("u"));
    CoordinatorInput::Report { reservation, report, by, token: Token::new(OTHER) }
}

fn ends(bench: &mut Bench, input: CoordinatorInput, now: Now) -> ReportEnd {
    match &replies(&bench.step(input, now))[..] {
        [Reply::Report(_, end)] => end.clone(),
        other => panic!("one answer expected: {other:?}"),
    }
}

fn ids(bench: &Bench) -> Vec<String> {
    let reports = bench.core.reports(&ReservationId::composed("grc-t-1"));
    reports.iter().map(|report| report.id.to_string()).collect()
}

#[test]
fn a_report_has_one_answer_and_is_there_after_a_restart() {
    let mut bench = Bench::confirmed();
    assert_eq!(ends(&mut bench, report("grc-t-1", "p1", "x"), at(50)), ReportEnd::Recorded(1));
    assert_eq!(ends(&mut bench, report("grc-t-1", "p2", "x"), at(51)), ReportEnd::Recorded(2));
    for restarted in [false, true] {
        if restarted {
            let _ = bench.restart(at(60));
        }
        assert_eq!(ends(&mut bench, report("grc-t-1", "p1", "x"), at(61)), ReportEnd::Recorded(1));
        assert_eq!(ends(&mut bench, report("grc-t-1", "p2", "y"), at(62)), ReportEnd::OtherContent);
        assert_eq!(ids(&bench), ["p1", "p2"]);
    }
    // It is known after the release, too; a new one is not taken any more.
    let _ = bench.release("grc-t-1", at(70));
    assert_eq!(ends(&mut bench, report("grc-t-1", "p2", "x"), at(71)), ReportEnd::Recorded(2));
    let end = ends(&mut bench, report("grc-t-1", "p3", "x"), at(72));
    assert!(matches!(end, ReportEnd::NotConfirmed(_)), "{end:?}");
    assert_eq!(ends(&mut bench, report("grc-t-7", "p3", "x"), at(73)), ReportEnd::Unknown);
}

#[test]
fn a_report_comes_while_a_change_is_under_way() {
    let mut bench = Bench::confirmed();
    let ticket = ChangeTicket {
        reservation: ReservationId::composed("grc-t-1"),
        change: RequestId::composed("c1"),
        content: "x".into(),
    };
    let _ = bench.step(open_change(ticket, USER), at(50));
    assert_eq!(ends(&mut bench, report("grc-t-1", "p1", "x"), at(51)), ReportEnd::Recorded(1));
    assert_eq!(ids(&bench), ["p1"]);
}

#[test]
fn what_cannot_be_recorded_is_not_acknowledged() {
    let mut bench = Bench::confirmed();
    let _ = bench.step(CoordinatorInput::Room(DiskSpace::Low), at(50));
    assert_eq!(ends(&mut bench, report("grc-t-1", "p1", "x"), at(51)), ReportEnd::DiskFull);
    let _ = bench.step(CoordinatorInput::Room(DiskSpace::Enough), at(52));
    for number in 1..=limits::REPORTS_MAX {
        let end = ends(&mut bench, report("grc-t-1", &format!("q{number}"), "x"), at(53));
        assert_eq!(end, ReportEnd::Recorded(number));
    }
    assert_eq!(ends(&mut bench, report("grc-t-1", "p1", "x"), at(54)), ReportEnd::Spent);
}
