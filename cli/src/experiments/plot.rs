//! A plot of an experiment: metrics over an axis, or curves.
//!
//! There is one line for each value of the other axes, with 95 % confidence intervals. [`Chart`] lays the
//! plot out.

use coalloc_sim::experiment::file::{Plot, Term};
use coalloc_sim::experiment::{Experiment, Results, Summary};

use super::chart::{Chart, Line};
use super::metrics::is_share;
use crate::kit::drawing::Drawing;

/// Maximum number of lines in one plot; more lines are left out, and the plot says so.
const LINES_MAX: usize = 24;

/// Draws the plot. Nothing is drawn if the results have no value for any of its lines.
#[must_use]
pub fn draw(
    experiment: &Experiment,
    results: &Results,
    plot: &Plot,
    small: bool,
) -> Option<Drawing> {
    let axis = plot.x.clone().or_else(|| experiment.sweep.first().map(|axis| axis.name.clone()));
    let axis = axis.unwrap_or_else(|| "@".to_owned());
    let own = experiment.sweep.iter().find(|own| own.name == axis);
    let labels = own.map(|own| own.labels(small)).unwrap_or_default();
    let numbers: Option<Vec<f64>> = labels.iter().map(|label| label.parse().ok()).collect();
    let (mut lines, mut legend) = (Vec::new(), String::new());
    for metric in &plot.y {
        let term = Term { metric: metric.clone(), at: plot.at.clone() };
        legend = legend_title(results, &term, &axis, plot.y.len());
        let found = match axis.as_str() {
            "@" => curves(results, &term),
            axis => over_axis(results, &term, axis, &labels, numbers.as_deref()),
        };
        let label = experiment.metric(metric).map_or(metric.as_str(), |metric| &metric.label);
        // A small run may have no points of some lines.
        for (place, points) in found.into_iter().filter(|(_, points)| !points.is_empty()) {
            let name = match (plot.y.len(), place.is_empty()) {
                (1, false) => place,
                (_, true) => label.to_owned(),
                (_, false) => format!("{label}, {place}"),
            };
            // No model measures less than nothing, unless a difference will be measured one day.
            let is_positive = points.iter().all(|(_, summary)| summary.mean >= 0.0);
            let least = if is_positive { 0.0 } else { f64::NEG_INFINITY };
            let most = if is_share(experiment.model, metric) { 1.0 } else { f64::INFINITY };
            lines.push(Line { name, points, range: (least, most) });
        }
    }
    if lines.is_empty() {
        return None;
    }
    let left_out = lines.len().saturating_sub(LINES_MAX);
    lines.truncate(LINES_MAX);
    let y_label = plot.y_label.clone().unwrap_or_else(|| y_label(experiment, plot));
    let x_label = plot.x_label.clone().or_else(|| own.and_then(|own| own.label.clone()));
    let names = if numbers.is_some() || axis == "@" { Vec::new() } else { labels };
    let chart = Chart {
        title: plot.title.clone(),
        x_label: x_label.unwrap_or(axis),
        y_label,
        log: (plot.log_x, plot.log_y),
        names,
        legend,
        left_out,
    };
    Some(chart.draw(&lines))
}

/// The label of y where a plot has none: what it draws.
fn y_label(experiment: &Experiment, plot: &Plot) -> String {
    let mut labels: Vec<String> = Vec::new();
    for metric in plot.y.iter().filter_map(|metric| experiment.metric(metric)) {
        let label = match &metric.unit {
            Some(unit) => format!("{} [{unit}]", metric.label),
            None => metric.label.clone(),
        };
        if !labels.contains(&label) {
            labels.push(label);
        }
    }
    labels.join(", ")
}

/// What the names in a legend are values of: the axes that the term leaves open.
fn legend_title(results: &Results, term: &Term, x: &str, metrics: usize) -> String {
    let places = results.places(term);
    let axes = places.first().into_iter().flat_map(|(place, _)| place);
    let axes: Vec<&str> = axes.map(|(axis, _)| axis.as_str()).filter(|axis| *axis != x).collect();
    let measure = (metrics > 1 && !axes.is_empty()).then_some("measure");
    measure.into_iter().chain(axes).collect::<Vec<&str>>().join(", ")
}

/// The name of a place in a legend.
fn legend<'a>(place: impl Iterator<Item = &'a (String, String)>) -> String {
    place.map(|(_, label)| label.as_str()).collect::<Vec<&str>>().join(", ")
}

type SeriesSummaries = Vec<(String, Vec<(f64, Summary)>)>;

fn curves(results: &Results, term: &Term) -> SeriesSummaries {
    let line = |(place, point): (Vec<(String, String)>, usize)| {
        let xs = results.curve(point, &term.metric).into_iter();
        let at = |x| Some((x, results.summary(point, &format!("{}@{x}", term.metric))?));
        (legend(place.iter()), xs.filter_map(at).collect())
    };
    results.places(term).into_iter().map(line).collect()
}

fn over_axis(
    results: &Results,
    term: &Term,
    axis: &str,
    labels: &[String],
    numbers: Option<&[f64]>,
) -> SeriesSummaries {
    let mut found: SeriesSummaries = Vec::new();
    for (place, point) in results.places(term) {
        let Some(label) = results.points[point].labels.iter().find(|(own, _)| own == axis) else {
            continue;
        };
        let Some(at) = labels.iter().position(|own| *own == label.1) else { continue };
        let Some(summary) = results.summary(point, &term.metric) else { continue };
        let x = numbers.map_or(at as f64, |numbers| numbers[at]);
        let name = legend(place.iter().filter(|(own, _)| own != axis));
        match found.iter_mut().find(|(own, _)| *own == name) {
            Some((_, points)) => points.push((x, summary)),
            None => found.push((name, vec![(x, summary)])),
        }
    }
    found
}
