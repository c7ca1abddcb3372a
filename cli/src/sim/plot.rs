//! A plot of an experiment: metrics over an axis, or curves, one line for each value of the other axes, with
//! 95 % confidence intervals.

use coalloc_sim::experiment::file::{Plot, Term};
use coalloc_sim::experiment::judge::number;
use coalloc_sim::experiment::{Experiment, Results, Summary};

use super::svg::{Anchor, COLOURS, Svg, ticks};

/// One line of a plot.
struct Line {
    name: String,
    /// x, and what is there.
    points: Vec<(f64, Summary)>,
}

/// Lines that are told apart in one plot; more are left out, and the plot says so.
const LINES_MAX: usize = 24;
const WIDTH: f64 = 640.0;
const HEIGHT: f64 = 420.0;
/// Around the axes: left, top, bottom.
const LEFT: f64 = 74.0;
const TOP: f64 = 44.0;
const BOTTOM: f64 = 56.0;

/// The plot as SVG.
#[must_use]
pub fn draw(experiment: &Experiment, results: &Results, plot: &Plot, small: bool) -> String {
    let axis = plot.x.clone().or_else(|| experiment.sweep.first().map(|axis| axis.name.clone()));
    let axis = axis.unwrap_or_else(|| "@".to_owned());
    let own = experiment.sweep.iter().find(|own| own.name == axis);
    let labels = own.map(|own| own.labels(small)).unwrap_or_default();
    let numbers: Option<Vec<f64>> = labels.iter().map(|label| label.parse().ok()).collect();
    let mut lines = Vec::new();
    for metric in &plot.y {
        let term = Term { metric: metric.clone(), at: plot.at.clone() };
        let found = match axis.as_str() {
            "@" => curves(results, &term),
            axis => over_axis(results, &term, axis, &labels, numbers.as_deref()),
        };
        let label = experiment.metric(metric).map_or(metric.as_str(), |metric| &metric.label);
        for (place, points) in found {
            let name = match (plot.y.len(), place.is_empty()) {
                (1, false) => place,
                (_, true) => label.to_owned(),
                (_, false) => format!("{label}, {place}"),
            };
            lines.push(Line { name, points });
        }
    }
    let left_out = lines.len().saturating_sub(LINES_MAX);
    lines.truncate(LINES_MAX);
    let metric = plot.y.first().and_then(|metric| experiment.metric(metric));
    let y_label = plot.y_label.clone().unwrap_or_else(|| {
        let unit = metric.and_then(|metric| metric.unit.as_ref());
        let label = metric.map(|metric| metric.label.as_str()).unwrap_or_default();
        unit.map_or_else(|| label.to_owned(), |unit| format!("{label} [{unit}]"))
    });
    let x_label = plot.x_label.clone().or_else(|| own.and_then(|own| own.label.clone()));
    let names = if numbers.is_some() || axis == "@" { Vec::new() } else { labels };
    let chart = Chart {
        title: plot.title.clone(),
        x_label: x_label.unwrap_or(axis),
        y_label,
        log: (plot.log_x, plot.log_y),
        names,
        left_out,
    };
    chart.draw(&lines)
}

/// What a place is called in a legend.
fn legend<'a>(place: impl Iterator<Item = &'a (String, String)>) -> String {
    let named = place.map(|(axis, label)| {
        // A bare number or truth value says nothing.
        let says_all = label.parse::<f64>().is_err() && label.parse::<bool>().is_err();
        if says_all { label.clone() } else { format!("{axis} {label}") }
    });
    named.collect::<Vec<_>>().join(", ")
}

type Found = Vec<(String, Vec<(f64, Summary)>)>;

fn curves(results: &Results, term: &Term) -> Found {
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
) -> Found {
    let mut found: Found = Vec::new();
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

struct Chart {
    title: String,
    x_label: String,
    y_label: String,
    log: (bool, bool),
    /// What stands at 0, 1, 2 .. of x, where x is no number.
    names: Vec<String>,
    left_out: usize,
}

/// One scale: from values to places on the page.
struct Scale {
    low: f64,
    high: f64,
    log: bool,
    from: f64,
    to: f64,
}

impl Scale {
    fn at(&self, value: f64) -> f64 {
        let map = |value: f64| if self.log { value.max(1e-300).log10() } else { value };
        let (low, high) = (map(self.low), map(self.high));
        let share = if high > low { (map(value) - low) / (high - low) } else { 0.5 };
        self.from + share.clamp(-0.02, 1.02) * (self.to - self.from)
    }

    fn ticks(&self) -> Vec<f64> {
        if !self.log {
            return ticks(self.low, self.high, 6);
        }
        let (low, high) = (self.low.log10().floor(), self.high.log10().ceil());
        // Powers of ten of numbers that are no further apart than 10^600.
        let powers = (low as i32..=high as i32).map(|power| 10_f64.powi(power));
        powers.filter(|tick| (self.low..=self.high).contains(tick)).collect()
    }
}

impl Chart {
    fn draw(&self, lines: &[Line]) -> String {
        let longest = lines.iter().map(|line| line.name.chars().count()).max().unwrap_or(0);
        let legend = if lines.len() > 1 { 48.0 + 6.4 * longest as f64 } else { 16.0 };
        let mut svg = Svg::new(WIDTH + legend, HEIGHT);
        svg.text((LEFT, 24.0), &self.title, 15.0, Anchor::Start);
        let all = || lines.iter().flat_map(|line| &line.points);
        if all().next().is_none() {
            svg.text((WIDTH / 2.0, HEIGHT / 2.0), "nothing was measured", 13.0, Anchor::Middle);
            return svg.finish();
        }
        let x = self.x_scale(all().map(|(x, _)| *x));
        let y = self.y_scale(all().map(|(_, summary)| summary));
        self.axes(&mut svg, &x, &y);
        for (at, line) in lines.iter().enumerate() {
            let colour = COLOURS[at % COLOURS.len()];
            let dash = if at < COLOURS.len() { "" } else { "5 3" };
            draw_line(&mut svg, line, at, &x, &y, (colour, dash));
            if lines.len() > 1 {
                let row = TOP + 10.0 + 17.0 * at as f64;
                svg.path(&[(WIDTH + 2.0, row), (WIDTH + 26.0, row)], colour, dash);
                svg.mark((WIDTH + 14.0, row), at, colour);
                svg.text((WIDTH + 32.0, row + 4.0), &line.name, 12.0, Anchor::Start);
            }
        }
        if self.left_out > 0 {
            let text = format!("{} more lines in results.csv", self.left_out);
            svg.text((WIDTH, HEIGHT - 8.0), &text, 10.0, Anchor::End);
        }
        svg.finish()
    }

    fn x_scale(&self, values: impl Iterator<Item = f64> + Clone) -> Scale {
        let low = values.clone().fold(f64::INFINITY, f64::min);
        let high = values.fold(f64::NEG_INFINITY, f64::max);
        let pad = match (self.names.is_empty(), self.log.0) {
            (false, _) => 0.4,
            (true, true) => 0.0,
            (true, false) => ((high - low) * 0.03).max(1e-9),
        };
        let (from, to) = (LEFT, WIDTH - 16.0);
        Scale { low: low - pad, high: high + pad, log: self.log.0 && low > 0.0, from, to }
    }

    fn y_scale<'a>(&self, values: impl Iterator<Item = &'a Summary> + Clone) -> Scale {
        let (from, to) = (HEIGHT - BOTTOM, TOP);
        let means = || values.clone().map(|summary| summary.mean);
        let positive = means().filter(|mean| *mean > 0.0).fold(f64::INFINITY, f64::min);
        let top = |summary: &Summary| summary.mean + summary.within.unwrap_or(0.0);
        let high = values.clone().map(top).fold(f64::NEG_INFINITY, f64::max);
        if self.log.1 && positive.is_finite() {
            return Scale { low: positive / 1.5, high: high * 1.5, log: true, from, to };
        }
        let low = means().fold(0.0, f64::min);
        // Shares keep their whole scale in sight.
        let high = if high <= 1.0 && high > 0.55 { 1.02 } else { high * 1.06 };
        Scale { low, high: if high > low { high } else { low + 1.0 }, log: false, from, to }
    }

    fn axes(&self, svg: &mut Svg, x: &Scale, y: &Scale) {
        for tick in y.ticks() {
            let at = y.at(tick);
            svg.line((x.from, at), (x.to, at), "#e4e4e4", 1.0);
            svg.text((x.from - 7.0, at + 4.0), &number(tick), 11.5, Anchor::End);
        }
        let named: Vec<(f64, String)> = match self.names.is_empty() {
            true => x.ticks().into_iter().map(|tick| (tick, number(tick))).collect(),
            false => {
                self.names.iter().enumerate().map(|(at, name)| (at as f64, name.clone())).collect()
            }
        };
        for (tick, name) in named {
            let at = x.at(tick);
            svg.line((at, y.from), (at, y.from + 4.0), "#444444", 1.0);
            svg.text((at, y.from + 17.0), &name, 11.5, Anchor::Middle);
        }
        svg.line((x.from, y.from), (x.to, y.from), "#444444", 1.0);
        svg.line((x.from, y.from), (x.from, y.to), "#444444", 1.0);
        svg.text(((x.from + x.to) / 2.0, HEIGHT - 14.0), &self.x_label, 12.5, Anchor::Middle);
        svg.text_up((18.0, (y.from + y.to) / 2.0), &self.y_label, 12.5);
    }
}

fn draw_line(svg: &mut Svg, line: &Line, shape: usize, x: &Scale, y: &Scale, pen: (&str, &str)) {
    let mut points: Vec<(f64, Summary)> = line.points.clone();
    points.sort_by(|one, other| one.0.total_cmp(&other.0));
    let places: Vec<(f64, f64)> =
        points.iter().map(|(at, own)| (x.at(*at), y.at(own.mean))).collect();
    svg.path(&places, pen.0, pen.1);
    // Many points are a line; marks on each would be a blot.
    let dense = places.len() > 60;
    for ((_, own), place) in points.iter().zip(&places) {
        if let Some(within) = own.within.filter(|within| *within > 0.0 && !dense) {
            let (low, high) = (y.at(own.mean - within), y.at(own.mean + within));
            svg.line((place.0, low), (place.0, high), pen.0, 1.0);
            for end in [low, high] {
                svg.line((place.0 - 3.0, end), (place.0 + 3.0, end), pen.0, 1.0);
            }
        }
        if !dense {
            svg.mark(*place, shape, pen.0);
        }
    }
}
