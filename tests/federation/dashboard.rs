//! Checks the queries of a dashboard without Grafana: the metrics and labels of each query, against series
//! that daemons show.
//!
//! It knows only the part of PromQL that the dashboard uses: selectors with matchers, `by (...)`, `rate`.
//! If a query uses anything else, the metrics that it names are still checked.

use std::collections::{BTreeMap, BTreeSet};

/// Labels that the scraper adds, to show which daemon a series belongs to.
const OF_THE_SCRAPER: [&str; 2] = ["daemon", "instance"];

/// Series by their names, as an exposition shows them: the labels of each series.
pub(crate) type Series = BTreeMap<String, Vec<BTreeMap<String, String>>>;

/// Adds the series of one exposition in OpenMetrics text.
pub(crate) fn read(exposition: &str, series: &mut Series) {
    for line in exposition.lines().filter(|line| !line.starts_with('#')) {
        let sample = line.rsplit_once(' ').unwrap().0;
        let (name, labels) = sample.split_once('{').unwrap_or((sample, "}"));
        let labels = labels.strip_suffix('}').unwrap();
        let pairs = labels.split("\",").filter_map(|pair| pair.split_once("=\""));
        let label =
            |(key, value): (&str, &str)| (key.to_owned(), value.trim_end_matches('"').to_owned());
        series.entry(name.to_owned()).or_default().push(pairs.map(label).collect());
    }
}

/// One metric in a query: its name, its matchers (label, operator, value), and whether it is in a rate.
#[derive(Debug, PartialEq, Eq)]
struct Selector<'a> {
    name: &'a str,
    matchers: Vec<(&'a str, &'a str, &'a str)>,
    is_rated: bool,
}

fn selectors(query: &str) -> Vec<Selector<'_>> {
    let mut found = Vec::new();
    for (at, _) in query.match_indices("coalloc_") {
        let rest = &query[at..];
        let end = rest.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(rest.len());
        let (name, behind) = rest.split_at(end);
        let inside = behind.strip_prefix('{').and_then(|behind| behind.split_once('}'));
        let pairs =
            inside.map_or("", |(inside, _)| inside).split(',').filter(|one| !one.is_empty());
        let matcher = |one: &'_ str| -> (usize, usize) {
            let operator = one.find(['=', '!']).unwrap();
            (operator, operator + one[operator..].find('"').unwrap())
        };
        let matchers = pairs.map(|one| {
            let (from, to) = matcher(one);
            (one[..from].trim(), &one[from..to], one[to..].trim_matches('"'))
        });
        let is_rated = query[..at].ends_with("rate(");
        found.push(Selector { name, matchers: matchers.collect(), is_rated });
    }
    found
}

/// The labels that a query groups by, if it groups.
fn grouped(query: &str) -> Option<BTreeSet<&str>> {
    let groups = query.split("by (").skip(1).map(|rest| rest.split(')').next().unwrap());
    let groups: Vec<&str> = groups.collect();
    let labels = || groups.iter().flat_map(|group| group.split(',')).map(str::trim).collect();
    (!groups.is_empty()).then(labels)
}

/// The parts of a query that no series can answer, as one sentence each.
pub(crate) fn problems(query: &str, legend: &str, series: &Series) -> Vec<String> {
    let mut problems = Vec::new();
    let by = grouped(query);
    let aggregates = by.is_some() || ["sum(", "max(", "count("].iter().any(|of| query.contains(of));
    let wanted = legend.split("{{").skip(1).map(|rest| rest.split("}}").next().unwrap().trim());
    let wanted: BTreeSet<&str> = wanted.collect();
    if aggregates {
        let by = by.clone().unwrap_or_default();
        problems.extend(wanted.difference(&by).map(|one| format!("its legend wants {one}")));
    }
    let selectors = selectors(query);
    if selectors.is_empty() {
        problems.push("it asks for no metric".to_owned());
    }
    for Selector { name, matchers, is_rated } in selectors {
        let Some(all) = series.get(name) else {
            problems.push(format!("nobody shows {name}"));
            continue;
        };
        let counts = ["_total", "_bucket", "_sum", "_count"].iter().any(|end| name.ends_with(end));
        if counts != is_rated {
            problems.push(format!("{name}: counters are rated, and nothing else is"));
        }
        let fits = |one: &&BTreeMap<String, String>| {
            // A matcher with `=` needs a series with this value. For any other operator the label is
            // enough, because a matching series may still come.
            let of = |(label, operator, value): &(&str, &str, &str)| match *operator {
                "=" => one.get(*label).is_some_and(|own| own == value),
                _ => one.contains_key(*label),
            };
            matchers.iter().all(of)
        };
        let Some(first) = all.iter().find(fits) else {
            problems.push(format!("{name}: no series is as {matchers:?}"));
            continue;
        };
        let mut needed = by.clone().unwrap_or_default();
        if !aggregates {
            needed.extend(wanted.iter().filter(|one| !OF_THE_SCRAPER.contains(one)));
        }
        let lacking = needed.into_iter().filter(|label| !first.contains_key(*label));
        problems.extend(lacking.map(|label| format!("{name} has no label {label}")));
        let quantile = query.contains("histogram_quantile(");
        if quantile && !(name.ends_with("_bucket") && by.iter().any(|by| by.contains("le"))) {
            problems.push(format!("{name}: a quantile is of buckets, by le"));
        }
    }
    problems
}

/// Every query of a dashboard: its panel, the query, its legend.
pub(crate) fn queries(dashboard: &serde_json::Value) -> Vec<(String, String, String)> {
    let text = |value: &serde_json::Value| value.as_str().unwrap_or_default().to_owned();
    let panels = dashboard["panels"].as_array().into_iter().flatten();
    let target = |panel: &serde_json::Value| -> Vec<(String, String, String)> {
        let targets = panel["targets"].as_array().into_iter().flatten();
        let one = |target: &serde_json::Value| {
            (text(&panel["title"]), text(&target["expr"]), text(&target["legendFormat"]))
        };
        targets.map(one).collect()
    };
    panels.flat_map(target).collect()
}

#[test]
fn what_a_query_cannot_get_is_named() {
    let mut series = Series::new();
    let shown = "# TYPE coalloc_a counter\n\
                 coalloc_a_total{outcome=\"confirmed\",rm=\"nrm\"} 3\n\
                 coalloc_b 4\n\
                 coalloc_c_seconds_bucket{le=\"0.1\",kind=\"hold\"} 4\n";
    read(shown, &mut series);
    let none: &[&str] = &[];
    let cases = [
        ("sum by (rm) (rate(coalloc_a_total{outcome=\"confirmed\"}[5m]))", "{{rm}}", none),
        ("sum by (rm) (rate(coalloc_a_total{outcome!=\"failed\"}[5m]))", "{{rm}}", none),
        ("max(coalloc_b) > 0", "b", none),
        (
            "histogram_quantile(0.9, sum by (le, kind) (rate(coalloc_c_seconds_bucket[5m])))",
            "",
            none,
        ),
        ("sum(rate(coalloc_a_total{outcome=\"confimed\"}[5m]))", "", &["no series is as"]),
        ("sum by (reason) (rate(coalloc_a_total[5m]))", "{{reason}}", &["no label reason"]),
        ("sum by (rm) (rate(coalloc_a_total[5m]))", "{{outcome}}", &["legend wants outcome"]),
        ("coalloc_b", "{{rm}} {{daemon}}", &["no label rm"]),
        ("sum(coalloc_a_total)", "", &["counters are rated"]),
        ("rate(coalloc_b[5m])", "", &["counters are rated"]),
        ("sum(coalloc_d)", "", &["nobody shows coalloc_d"]),
        ("histogram_quantile(0.9, sum(rate(coalloc_c_seconds_bucket[5m])))", "", &["by le"]),
        ("up", "", &["no metric"]),
    ];
    for (query, legend, expected) in cases {
        let found = problems(query, legend, &series);
        assert_eq!(found.len(), expected.len(), "{query}: {found:?}");
        let named = found.iter().zip(expected).all(|(found, expected)| found.contains(expected));
        assert!(named, "{query}: {found:?}");
    }
}
