//! The report of an experiment: the paper's numbers and shapes compared with ours, plots, tables, assumptions.
//!
//! It contains no date and no times of its own, so that the same results give the same report.

use std::fmt::Write as _;
use std::ops::Range;

use coalloc_sim::experiment::file::{Axis, Point, Printed};
use coalloc_sim::experiment::judge::paired::PairedVerdict;
use coalloc_sim::experiment::judge::{
    ComparedNumber, ShapeStatus, Tally, Verdict, at, number, numbers, shapes,
};
use coalloc_sim::experiment::{Experiment, Results, Summary};

use super::metrics::curves_not_drawn;
use super::plot;
use crate::kit::text;

/// How the runs were made.
#[derive(Debug, Clone)]
pub struct RunDescription {
    /// How the command named the experiment.
    pub named: String,
    /// Whether only the points and seeds of a `--small` run were used.
    pub small: bool,
    /// The seeds.
    pub seeds: Range<u64>,
    /// The options that chose a part of the experiment, each after a blank.
    pub options: String,
    /// What was left out, as lines: other points and seeds, and what this machine does not have.
    pub left_out: Vec<String>,
}

/// Maximum number of points in the table of means; the CSV has all.
const ROWS_MAX: usize = 60;
/// How many places are shown for one printed number.
const PLACES_MAX: usize = 12;

/// The mean, and half the width of its confidence interval.
fn shown(summary: &Summary) -> String {
    match summary.within {
        Some(within) => format!("{} ± {}", number(summary.mean), number(within)),
        None => number(summary.mean),
    }
}

/// The whole report.
#[must_use]
pub fn report(experiment: &Experiment, results: &Results, how: &RunDescription) -> String {
    let mut text = format!("# {}\n\n", experiment.title);
    if let Some(source) = &experiment.source {
        let _ = writeln!(text, "{}, {}.\n", source.paper, source.figure);
    }
    if let Some(about) = &experiment.about {
        let _ = writeln!(text, "{}\n", about.trim());
    }
    let small = if how.small { " --small" } else { "" };
    let count = how.seeds.end - how.seeds.start;
    let _ = writeln!(
        text,
        "Made by `coalloc sim run {} --out DIR{small}{}`: {}, {} each ({} to {}), {}. \
         After ± stands half the width of the 95 % confidence interval of the mean (Student's t over the seeds).\n",
        how.named,
        how.options,
        text::count(results.points.len(), "point"),
        text::count(usize::try_from(count).unwrap_or(usize::MAX), "seed"),
        how.seeds.start,
        how.seeds.end.saturating_sub(1),
        text::count(results.len(), "run")
    );
    for line in notes(experiment, results, how) {
        let _ = writeln!(text, "* {line}");
    }
    if !text.ends_with("\n\n") {
        text.push('\n');
    }
    text += &paper_numbers(experiment, results);
    text += &paper_shapes(experiment, results, how.small);
    for plot in &experiment.plots {
        let _ = match plot::draw(experiment, results, plot, how.small) {
            Some(_) => writeln!(text, "![{}]({}.svg)\n", plot.title, plot.name),
            None => {
                writeln!(text, "No point of this run belongs to the plot \"{}\".\n", plot.title)
            }
        };
    }
    text += &means(experiment, results);
    text += &assumptions(experiment);
    text.trim_end().to_owned() + "\n"
}

fn cell(text: &str) -> String {
    text.replace('|', "\\|").replace('<', "&lt;").replace('\n', " ")
}

fn paper_numbers(experiment: &Experiment, results: &Results) -> String {
    let all = numbers(experiment, results);
    if all.is_empty() {
        return String::new();
    }
    let mut text = String::from(
        "## The paper's numbers\n\n| | where | paper | ours | deviation | met |\n|---|---|--:|--:|--:|---|\n",
    );
    let mut notes: Vec<(&str, String)> = Vec::new();
    for own in all.chunk_by(|one, other| std::ptr::eq(one.printed, other.printed)) {
        for compared in own.iter().take(PLACES_MAX) {
            text += &number_row(experiment, compared);
        }
        if own.len() > PLACES_MAX {
            let rest = own.len() - PLACES_MAX;
            let _ = writeln!(text, "| | {rest} more places, further off | | | | |");
        }
        if let Some(note) = own.first().and_then(|compared| compared.printed.note.as_deref()) {
            let label = format!("{} ({})", number(own[0].printed.value), own[0].printed.place);
            match notes.iter_mut().find(|(known, _)| *known == note) {
                Some((_, labels)) => *labels = format!("{labels}, {label}"),
                None => notes.push((note, label)),
            }
        }
    }
    text += &readings(&all);
    for (note, labels) in notes {
        let _ = writeln!(text, "* {labels}: {}", note.trim());
    }
    text + "\n"
}

/// A sentence about the places that meet most of the numbers, when the numbers leave open which place is
/// meant and there is more than one.
fn readings(all: &[ComparedNumber<'_>]) -> String {
    let mut places: Vec<(String, usize, usize)> = Vec::new();
    for compared in all.iter().filter(|compared| !compared.place.is_empty()) {
        let (name, met) = (at(&compared.place), usize::from(compared.met == Some(true)));
        match places.iter_mut().find(|(own, ..)| *own == name) {
            Some((_, good, of)) => (*good, *of) = (*good + met, *of + 1),
            None => places.push((name, met, 1)),
        }
    }
    let most = places.iter().map(|(_, good, _)| *good).max().unwrap_or(0);
    if most == 0 || places.len() < 2 {
        return "\n".to_owned();
    }
    let best = places.iter().filter(|(_, good, _)| *good == most);
    let of = places.iter().map(|(.., of)| *of).max().unwrap_or(0);
    let best: Vec<&str> = best.map(|(name, ..)| name.trim_start_matches(" at ")).collect();
    format!("\n{most} of {of} are met together by: {}.\n\n", best.join("; "))
}

fn number_row(experiment: &Experiment, compared: &ComparedNumber<'_>) -> String {
    let ComparedNumber { printed, place, ours, met } = compared;
    let label = experiment.metric(&printed.metric).map_or("", |metric| &metric.label);
    let x = printed.metric.split_once('@').map(|(_, x)| format!(" at {x}")).unwrap_or_default();
    let fixed: Vec<(String, String)> = (printed.at.iter())
        .map(|(axis, value)| (axis.clone(), coalloc_sim::experiment::file::text_of(value)))
        .collect();
    let place = at(&[fixed, place.clone()].concat());
    let met = match met {
        Some(true) => "yes",
        Some(false) => "no",
        None => "",
    };
    format!(
        "| {}{x} ({}) | {} | {} | {} | {} | {met} |\n",
        cell(label),
        cell(&printed.place),
        cell(place.trim_start_matches(" at ")),
        number(printed.value),
        shown(ours),
        signed(ours.mean - printed.value)
    )
}

fn signed(value: f64) -> String {
    // For a difference of two values with four digits, three digits after the decimal point are enough.
    let text =
        if value.abs() < 100.0 { number((value * 1e4).round() / 1e4) } else { number(value) };
    if value > 0.0 { format!("+{text}") } else { text }
}

fn paper_shapes(experiment: &Experiment, results: &Results, small: bool) -> String {
    let all = shapes(experiment, results, small);
    if all.is_empty() {
        return String::new();
    }
    let paired = experiment.paper.paired && !small;
    let how = match paired {
        true => {
            "Judged seed by seed: the margin of a statement is the mean over the seeds of a difference (or ratio, or distance \
             from a bound), ± half its 95 % confidence interval. A statement holds where the whole interval is on its side, fails \
             where it is on the other, and is open between. At forty places one may err.\n\n"
        }
        false => "",
    };
    let mut text = format!(
        "## What the paper says of its curves\n\n{how}| said (in our words) | place | held | at the place that speaks most against it |\n|---|---|---|---|\n",
    );
    let mut reasons = String::new();
    for verdict in &all {
        let Verdict { shape, places: (good, of), telling, .. } = verdict;
        let held = match (verdict.standing(small), of) {
            (ShapeStatus::Held, _) => format!("yes ({good} of {of})"),
            (ShapeStatus::NotMet | ShapeStatus::Broken, _) => match &verdict.paired {
                Some(own) => format!("**no** ({good} of {of}; fails at {})", own.fails),
                None => format!("**no** ({good} of {of})"),
            },
            (ShapeStatus::Undecided, _) => {
                let open = verdict.paired.as_ref().map_or(0, |own| own.undecided);
                let seeds = verdict.paired.as_ref().map(PairedVerdict::seeds_in_words);
                format!("undecided ({good} of {of}, {open} open; {})", seeds.unwrap_or_default())
            }
            (ShapeStatus::NotLookedAt, 0) => {
                "not looked at: no point of this run has it".to_owned()
            }
            (ShapeStatus::NotLookedAt, _) => {
                format!("looked at in a full run only ({good} of {of} here)")
            }
        };
        let _ = writeln!(
            text,
            "| {} | {} | {held} | {} |",
            cell(&shape.says),
            cell(&shape.place),
            cell(telling)
        );
        if let (Some(false), Some(why)) = (verdict.held, &shape.not_met) {
            let _ = writeln!(reasons, "* Not held: {}. {}", shape.says, why.trim());
        }
    }
    let _ = writeln!(text, "\n{}.", Tally::of(experiment, results, small));
    if !reasons.is_empty() {
        text = format!("{text}\n{reasons}");
    }
    text + "\n"
}

/// The means of every metric that is not a curve, by point.
fn means(experiment: &Experiment, results: &Results) -> String {
    let measured =
        |name: &str| (0..results.points.len()).any(|at| results.summary(at, name).is_some());
    let metrics: Vec<_> =
        experiment.metrics.iter().filter(|metric| measured(&metric.name)).collect();
    if metrics.is_empty() {
        return String::new();
    }
    let axes: Vec<&str> = experiment.sweep.iter().map(|axis| axis.name.as_str()).collect();
    let heads = metrics.iter().map(|metric| match &metric.unit {
        Some(unit) => cell(&format!("{} [{unit}]", metric.label)),
        None => cell(&metric.label),
    });
    let heads: Vec<String> = axes.iter().map(|axis| (*axis).to_owned()).chain(heads).collect();
    let lines: String = axes.iter().map(|_| "---|").chain(metrics.iter().map(|_| "--:|")).collect();
    let mut text = format!("## Means\n\n| {} |\n|{lines}\n", heads.join(" | "));
    for (index, point) in results.points.iter().enumerate().take(ROWS_MAX) {
        let labels = point.labels.iter().map(|(_, label)| cell(label));
        let values = metrics.iter().map(|metric| {
            results.summary(index, &metric.name).map_or_else(String::new, |own| shown(&own))
        });
        let cells: Vec<String> = labels.chain(values).collect();
        let _ = writeln!(text, "| {} |", cells.join(" | "));
    }
    let rest = results.points.len().saturating_sub(ROWS_MAX);
    if rest > 0 {
        let _ = writeln!(text, "\n{rest} more points in results.csv.");
    }
    text + "\n"
}

fn assumptions(experiment: &Experiment) -> String {
    if experiment.assumptions.is_empty() {
        return String::new();
    }
    let mut text =
        String::from("## What the paper leaves open\n\n| | the paper | ours |\n|---|---|---|\n");
    for own in &experiment.assumptions {
        let paper = own.paper.as_deref().unwrap_or("does not say");
        let _ = writeln!(text, "| {} | {} | {} |", cell(&own.about), cell(paper), cell(&own.ours));
    }
    text + "\n"
}

/// The points at which planners that are programs were cut short: what they planned may differ between
/// machines.
fn cut_short(results: &Results) -> Vec<String> {
    let point = |(index, point): (usize, &Point)| {
        let share = results.summary(index, "cut_short")?.mean;
        let percent = number(100.0 * share);
        (share > 0.0).then(|| {
            format!(
                "time ended the planner in {percent} % of its frames{}: a faster machine may plan them otherwise",
                at(&point.labels)
            )
        })
    };
    results.points.iter().enumerate().filter_map(point).collect()
}

/// What a reader should know of a run, a line each.
fn notes(experiment: &Experiment, results: &Results, how: &RunDescription) -> Vec<String> {
    let curves = curves_not_drawn(experiment).into_iter().collect();
    [how.left_out.clone(), cut_short(results), curves].concat()
}

/// What was measured at the first points, for experiments that repeat no printed number.
fn measured(experiment: &Experiment, results: &Results) -> String {
    let line = |(at, point): (usize, &Point)| {
        let own = experiment.metrics.iter().filter_map(|metric| {
            let summary = results.summary(at, &metric.name)?;
            Some(format!("{} {}", metric.name, shown(&summary)))
        });
        let own: Vec<String> = own.collect();
        let labels = point.labels.iter().map(|(axis, label)| format!("{axis}={label}"));
        let labels = labels.collect::<Vec<_>>().join(" ");
        // A shard has no run of some points.
        (!own.is_empty()).then(|| format!("  {labels}: {}\n", own.join(", ")))
    };
    let lines: Vec<String> = results.points.iter().enumerate().filter_map(line).collect();
    let mut text = lines.iter().take(PLACES_MAX).map(String::as_str).collect::<String>();
    let rest = lines.len().saturating_sub(PLACES_MAX);
    if rest > 0 {
        let _ = writeln!(text, "  {rest} more points in report.md and results.csv");
    }
    text
}

/// The metric of a printed number, and the values of axes to which the number belongs.
fn named(printed: &Printed) -> String {
    let values: Vec<String> = printed.at.values().map(Axis::label_of).collect();
    match values.is_empty() {
        true => printed.metric.clone(),
        false => format!("{} {}", printed.metric, values.join(" ")),
    }
}

/// The summary that is printed in the terminal.
#[must_use]
pub fn summary(experiment: &Experiment, results: &Results, how: &RunDescription) -> String {
    let mut text = format!("{}: {}\n", experiment.name, experiment.title);
    let all = numbers(experiment, results);
    let wide = all.iter().map(|compared| named(compared.printed).chars().count()).max();
    let wide = wide.unwrap_or_default();
    for own in all.chunk_by(|one, other| std::ptr::eq(one.printed, other.printed)) {
        // The nearest comes first.
        let ComparedNumber { printed, place, ours, .. } = &own[0];
        let _ = writeln!(
            text,
            "  {:<wide$} paper {:<8} ours {:<18} {}{}",
            named(printed),
            number(printed.value),
            shown(ours),
            signed(ours.mean - printed.value),
            at(place)
        );
    }
    for verdict in shapes(experiment, results, how.small) {
        let (good, of) = verdict.places;
        let standing = verdict.standing(how.small);
        let word = match standing {
            ShapeStatus::Held => "held",
            ShapeStatus::NotMet => "not held, as the file says",
            ShapeStatus::Broken => "NOT HELD",
            ShapeStatus::Undecided => "undecided",
            ShapeStatus::NotLookedAt => "not looked at",
        };
        let looked = match of {
            _ if standing == ShapeStatus::NotLookedAt && of > 0 => {
                format!("in a full run only; here {good} of {of}: {}", verdict.telling)
            }
            0 => "no point of this run has it".to_owned(),
            _ => format!("{good} of {of}: {}", verdict.telling),
        };
        let _ = writeln!(text, "  {word:<8} {} ({looked})", verdict.shape.says);
    }
    let tally = Tally::of(experiment, results, how.small);
    if !tally.is_empty() {
        let _ = writeln!(text, "  of what is said of curves: {tally}");
    }
    if all.is_empty() {
        text += &measured(experiment, results);
    }
    for metric in results.missing(experiment) {
        let _ = writeln!(text, "  no run has measured {metric}");
    }
    for line in notes(experiment, results, how) {
        let _ = writeln!(text, "  {line}");
    }
    text
}
