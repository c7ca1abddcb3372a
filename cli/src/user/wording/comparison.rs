//! Compares several plans: what all of them have, then one line per plan with what differs, and one column for every
//! objective that is in use.

use coalloc_common::{Span, Time};
use coalloc_net::comparison::{
    Optimality, columns, differing, differing_paths, differing_sites, objective_word, optimality,
    optimality_cell, value, value_cell,
};
use coalloc_proto::v1;

use super::plan::{self, PlanLine};
use crate::kit::text;
use crate::kit::zone::{self, ZoneClock};

/// Digits of a digest that are shown: as many as are needed to reserve the plan by its digest.
const DIGEST_SHOWN: usize = coalloc_common::limits::DIGEST_PREFIX_MIN;

/// What the plan costs by the price schedules; `None` if it is free.
#[must_use]
pub fn price(plan: &v1::Plan) -> Option<String> {
    value(plan, v1::Objective::Price).filter(|price| *price > 0).map(text::points)
}

/// What all plans have, then the plans, one line each with what differs. `asked` are the objectives that the caller named.
#[must_use]
pub fn compare(plans: &[v1::Plan], asked: &[i32]) -> String {
    let lines: Vec<Vec<PlanLine>> = plans.iter().map(relative_lines).collect();
    common(plans, &lines) + "\n" + &table(plans, asked)
}

/// The parts of a plan, with their windows counted from its start, so that the parts of plans can be compared.
fn relative_lines(plan: &v1::Plan) -> Vec<PlanLine> {
    let start = start(plan);
    plan::lines(plan, &|window| {
        let own = text::time(window.start.as_ref());
        let after = start.zip(own).map_or(Span::ZERO, |(start, own)| own.since(start));
        let length = text::length(Some(window)).unwrap_or(Span::ZERO);
        match after {
            Span::ZERO => format!("for {length}"),
            after => format!("for {length} from {after} after the start"),
        }
    })
}

fn start(plan: &v1::Plan) -> Option<Time> {
    text::time(plan.window.as_ref()?.start.as_ref())
}

/// What is the same in all plans. A part that is elsewhere in some plan has no place here.
fn common(plans: &[v1::Plan], lines: &[Vec<PlanLine>]) -> String {
    let [first, ..] = plans else { return String::new() };
    let length = text::length(first.window.as_ref()).unwrap_or(Span::ZERO);
    let optimal = match optimality(first) {
        _ if differing(plans.iter().map(optimality_cell)).is_some() => "",
        Optimality::Proven => ", proven optimal",
        Optimality::Coarse | Optimality::Unknown | Optimality::Within(_) => ", not proven optimal",
    };
    let parts: Vec<PlanLine> = lines[0]
        .iter()
        .enumerate()
        .map(|(at, line)| {
            let place = if differs(lines, at) { String::new() } else { line.place.clone() };
            PlanLine { place, ..line.clone() }
        })
        .collect();
    format!("all plans ({length}{optimal}):\n{}", plan::in_columns(&parts))
}

/// Is the part with this number elsewhere in some plan?
fn differs(lines: &[Vec<PlanLine>], at: usize) -> bool {
    differing(lines.iter().map(|lines| lines.get(at).map(|line| &line.place))).is_some()
}

/// The plans, one line each. Columns in which all plans are alike are left out, except for start, objectives and digest.
#[must_use]
pub fn table(plans: &[v1::Plan], asked: &[i32]) -> String {
    let columns = columns(plans, asked);
    let numbers = 1..=plans.len();
    let started =
        plans.iter().map(|plan| start(plan).map_or_else(|| "-".to_owned(), text::minutes));
    let digest = |plan: &v1::Plan| plan.digest.get(..DIGEST_SHOWN).unwrap_or_default().to_owned();
    let zone =
        ZoneClock::new(zone::shown(), plans.iter().find_map(start).unwrap_or(Time::from_us(0)));
    let started_in = format!("start ({})", zone.name(plans.iter().filter_map(start)));
    let mut all: Vec<(&str, Vec<String>)> = vec![
        ("plan", numbers.map(|number| number.to_string()).collect()),
        (&started_in, started.collect()),
    ];
    let values = columns.iter().map(|objective| {
        let values = plans.iter().map(|plan| value_cell(plan, *objective));
        (objective_word(*objective), values.collect::<Vec<_>>())
    });
    all.extend(values);
    let texts = [
        ("optimal", plans.iter().map(optimality_cell).collect::<Vec<_>>()),
        ("sites", plans.iter().map(|plan| differing_sites(plan, plans)).collect()),
        ("paths", plans.iter().map(|plan| differing_paths(plan, plans)).collect()),
    ];
    all.extend(texts.into_iter().filter(|(_, cells)| differing(cells.iter()).is_some()));
    all.push(("digest", plans.iter().map(digest).collect()));
    let header: Vec<&str> = all.iter().map(|(head, _)| *head).collect();
    let mut table = text::table(&header);
    for row in 0..plans.len() {
        table.add_row(all.iter().map(|(_, cells)| &cells[row]));
    }
    let numbers: Vec<usize> = (2..2 + columns.len()).collect();
    text::align_right(&mut table, &numbers);
    text::finish(&table)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(values: &[(v1::Objective, u64)], digest: &str) -> v1::Plan {
        let value = |(objective, value): &(v1::Objective, u64)| v1::ObjectiveValue {
            objective: (*objective).into(),
            value: *value,
        };
        v1::Plan {
            values: values.iter().map(value).collect(),
            digest: digest.repeat(64),
            ..v1::Plan::default()
        }
    }

    #[test]
    fn objectives_in_use_have_a_column_in_their_order() {
        use v1::Objective::{Load, Preference, Price, Quality, Start};
        let values = [(Load, 1_500), (Start, 7), (Preference, 13_000), (Price, 0), (Quality, 9)];
        let plans = [plan(&values, "a"), plan(&values, "b")];
        let text = table(&plans, &[]);
        let lines: Vec<Vec<&str>> = text.lines().map(|l| l.split_whitespace().collect()).collect();
        assert_eq!(lines[0], ["plan", "start", "(UTC)", "load", "cost", "digest"]);
        assert_eq!(lines[2], ["2", "-", "1.5", "13", "bbbbbbbbbbbb"]);
        let text = table(&plans[..1], &[Quality.into(), Price.into()]);
        assert!(text.contains("load  cost  price  quality loss  digest"), "{text}");
    }

    fn placed(start_s: i64, sites: [&str; 2], paths: &[&str]) -> v1::Plan {
        let at = |seconds| Some(coalloc_proto::Timestamp { seconds, nanos: 0 });
        let placement = |site: &str, at: &str| v1::Placement {
            site: site.to_owned(),
            at: at.to_owned(),
            cpus: 4,
            ..v1::Placement::default()
        };
        let route = v1::Route {
            from: "a".to_owned(),
            to: "b".to_owned(),
            bandwidth_bps: 1_000_000_000,
            paths: paths.iter().map(|path| (*path).to_owned()).collect(),
            via: sites.iter().map(|site| (*site).to_owned()).collect(),
            window: Some(v1::Window { start: at(start_s + 60), end: at(start_s + 120) }),
            ..v1::Route::default()
        };
        v1::Plan {
            window: Some(v1::Window { start: at(start_s), end: at(start_s + 3_600) }),
            placements: vec![placement("a", sites[0]), placement("b", sites[1])],
            routes: vec![route],
            proven_optimal: true,
            ..plan(&[(v1::Objective::Preference, 13_000)], "c")
        }
    }

    #[test]
    fn what_all_plans_have_is_told_once_and_what_differs_line_by_line() {
        let plans = [
            placed(0, ["N0", "N1"], &["N0-N1"]),
            placed(60, ["N0", "N2"], &["N0-N2"]),
            v1::Plan { proven_optimal: false, ..placed(120, ["N0", "N1"], &["N0-N1"]) },
        ];
        let expected = "\
all plans (1 h):
  a       4 CPUs    at N0
  b       4 CPUs
  a -> b  1 Gbit/s  for 1 min from 1 min after the start

plan  start (UTC)       cost  optimal     sites  digest
1     1970-01-01 00:00    13  proven      b N1   cccccccccccc
2     1970-01-01 00:01    13  proven      b N2   cccccccccccc
3     1970-01-01 00:02    13  not proven  b N1   cccccccccccc
";
        assert_eq!(compare(&plans, &[]), expected);
        let plans =
            [placed(0, ["N0", "N1"], &["N0-N1"]), placed(0, ["N0", "N1"], &["N0-X", "X-N1"])];
        let text = compare(&plans, &[]);
        assert!(
            text.starts_with("all plans (1 h, proven optimal):\n  a       4 CPUs    at N0"),
            "{text}"
        );
        let last = "2     1970-01-01 00:00    13  a-b by N0-X, X-N1  cccccccccccc";
        assert_eq!(text.lines().last(), Some(last));
    }
}
