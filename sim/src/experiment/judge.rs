//! Compares our results with the paper's numbers and shapes, and counts how many shapes hold.
//!
//! A file chooses how its shapes are judged. Without `paper.paired` the means of points are compared. With it,
//! [`paired`] compares seed by seed, and some shapes may stay undecided.

pub mod paired;

use serde_json::Value;

use super::file::{Experiment, Printed, Shape, Term, TermOrder, Trend, TrendDirection};
use super::measures::parts;
use super::results::{AxisPoint, Results, Summary};
use paired::{PairedOutcome, PairedVerdict};

/// A number of the paper and our value at one point.
#[derive(Debug, Clone, PartialEq)]
pub struct ComparedNumber<'a> {
    /// What the paper prints.
    pub printed: &'a Printed,
    /// The values of the axes that the printed number leaves open.
    pub place: AxisPoint,
    /// Our value.
    pub ours: Summary,
    /// Is our value within the deviation that counts as met? `None` when the file gives no deviation.
    pub met: Option<bool>,
}

/// The result of checking a shape.
#[derive(Debug, Clone, PartialEq)]
pub struct Verdict<'a> {
    /// The shape, as the file states it.
    pub shape: &'a Shape,
    /// Does it hold? `None` when nothing of it was measured.
    pub held: Option<bool>,
    /// Number of points at which it holds, and number of points at which it was checked.
    pub places: (usize, usize),
    /// The point with the smallest margin, in words: the strongest evidence against the shape, or the weakest
    /// for it.
    pub telling: String,
    /// What the seeds say, in a full run of a file that asks for it.
    pub paired: Option<PairedVerdict>,
}

/// The status of a shape in the report.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ShapeStatus {
    /// The shape holds.
    Held,
    /// The shape does not hold, and the file says why.
    NotMet,
    /// The shape does not hold, and the file does not expect that.
    Broken,
    /// The seeds do not say whether the shape holds.
    Undecided,
    /// The shape was not checked: the run has no point for it, or a `--small` run has too few seeds for it.
    NotLookedAt,
}

impl Verdict<'_> {
    /// The status of this verdict in a `--small` run or a full one.
    #[must_use]
    pub fn standing(&self, small: bool) -> ShapeStatus {
        if self.paired.as_ref().is_some_and(|own| own.outcome == PairedOutcome::Undecided) {
            return ShapeStatus::Undecided;
        }
        match self.held {
            None => ShapeStatus::NotLookedAt,
            Some(true) => ShapeStatus::Held,
            Some(false) if self.shape.not_met.is_some() => ShapeStatus::NotMet,
            Some(false) if small && self.shape.full_only => ShapeStatus::NotLookedAt,
            Some(false) => ShapeStatus::Broken,
        }
    }
}

/// The number of shapes with each status.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Tally {
    /// Shapes that hold.
    pub held: usize,
    /// Shapes that do not hold, as the file says.
    pub not_met: usize,
    /// Shapes that do not hold although the file expects them to.
    pub broken: usize,
    /// Shapes of which the seeds do not say whether they hold.
    pub undecided: usize,
    /// Shapes that were not checked.
    pub not_looked_at: usize,
}

impl Tally {
    /// Counts the shapes of an experiment.
    #[must_use]
    pub fn of(experiment: &Experiment, results: &Results, small: bool) -> Self {
        let mut tally = Self::default();
        for verdict in shapes(experiment, results, small) {
            match verdict.standing(small) {
                ShapeStatus::Held => tally.held += 1,
                ShapeStatus::NotMet => tally.not_met += 1,
                ShapeStatus::Broken => tally.broken += 1,
                ShapeStatus::Undecided => tally.undecided += 1,
                ShapeStatus::NotLookedAt => tally.not_looked_at += 1,
            }
        }
        tally
    }

    /// Does the experiment have no shapes?
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.held + self.not_met + self.broken + self.undecided + self.not_looked_at == 0
    }
}

impl std::ops::AddAssign for Tally {
    fn add_assign(&mut self, other: Self) {
        self.held += other.held;
        self.not_met += other.not_met;
        self.broken += other.broken;
        self.undecided += other.undecided;
        self.not_looked_at += other.not_looked_at;
    }
}

/// The counts in words: `3 held, 1 did not hold`. Counts of zero are left out, except that of the shapes that
/// held.
impl std::fmt::Display for Tally {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} held", self.held)?;
        let others = [
            (self.not_met, "did not hold, as the file says"),
            (self.broken, "did not hold"),
            (self.undecided, "undecided"),
            (self.not_looked_at, "not looked at"),
        ];
        others
            .iter()
            .filter(|(count, _)| *count > 0)
            .try_for_each(|(count, what)| write!(f, ", {count} {what}"))
    }
}

/// Every printed number, compared at every point that it may be about; the closest point comes first.
#[must_use]
pub fn numbers<'a>(experiment: &'a Experiment, results: &Results) -> Vec<ComparedNumber<'a>> {
    let mut all = Vec::new();
    for printed in &experiment.paper.numbers {
        let term = Term { metric: printed.metric.clone(), at: printed.at.clone() };
        let mut own: Vec<ComparedNumber<'a>> = Vec::new();
        for (place, point) in results.places(&term) {
            if let Some(ours) = results.summary(point, &printed.metric) {
                let deviation = (ours.mean - printed.value).abs();
                let met = printed.within.map(|within| deviation <= within);
                own.push(ComparedNumber { printed, place, ours, met });
            }
        }
        let far = |compared: &ComparedNumber<'_>| (compared.ours.mean - printed.value).abs();
        own.sort_by(|one, other| far(one).total_cmp(&far(other)));
        all.extend(own);
    }
    all
}

/// The verdict on every shape of the experiment.
#[must_use]
pub fn shapes<'a>(experiment: &'a Experiment, results: &Results, small: bool) -> Vec<Verdict<'a>> {
    let judge = |shape| match experiment.paper.paired {
        true => paired_verdict(shape, results, small),
        false => verdict(shape, results),
    };
    experiment.paper.shapes.iter().map(judge).collect()
}

fn paired_verdict<'a>(shape: &'a Shape, results: &Results, small: bool) -> Verdict<'a> {
    let Some(own) = paired::verdict(shape, results, !small) else {
        let (places, telling) = ((0, 0), String::new());
        return Verdict { shape, held: None, places, telling, paired: None };
    };
    let held = match own.outcome {
        PairedOutcome::Holds => Some(true),
        PairedOutcome::Fails => Some(false),
        PairedOutcome::Undecided => None,
    };
    let (places, telling) = (own.places, own.telling.clone());
    Verdict { shape, held, places, telling, paired: Some(own) }
}

/// By how much a shape holds at one point (0 or more where it holds), with the values in words.
struct Margin {
    by: f64,
    words: String,
}

fn verdict<'a>(shape: &'a Shape, results: &Results) -> Verdict<'a> {
    let margins = margins(shape, results);
    let good = margins.iter().filter(|margin| margin.by >= 0.0).count();
    let held = !margins.is_empty() && good as f64 >= shape.share * margins.len() as f64;
    let worst = margins.iter().min_by(|one, other| one.by.total_cmp(&other.by));
    Verdict {
        shape,
        held: (!margins.is_empty()).then_some(held),
        places: (good, margins.len()),
        telling: worst.map(|margin| margin.words.clone()).unwrap_or_default(),
        paired: None,
    }
}

fn margins(shape: &Shape, results: &Results) -> Vec<Margin> {
    if let Some(order) = &shape.order {
        let rows = rows(&order.falling.iter().collect::<Vec<_>>(), results, shape.mean);
        return rows.iter().map(|(place, values)| ordered(order, place, values)).collect();
    }
    if let Some(ratio) = &shape.ratio {
        let rows = rows(&[&ratio.of, &ratio.to], results, shape.mean);
        let margin = |(place, values): &(AxisPoint, Vec<f64>)| {
            let value = values[0] / values[1];
            let text = format!("{} / {} = {}", number(values[0]), number(values[1]), number(value));
            within(value, ratio.at_least, ratio.at_most, format!("{text}{}", at(place)))
        };
        return rows.iter().map(margin).collect();
    }
    if let Some(bounds) = &shape.bounds {
        let rows = rows(&[&bounds.of], results, shape.mean);
        let margin = |(place, values): &(AxisPoint, Vec<f64>)| {
            let text = format!("{}{}", number(values[0]), at(place));
            within(values[0], bounds.at_least, bounds.at_most, text)
        };
        return rows.iter().map(margin).collect();
    }
    shape.trend.as_ref().map(|trend| trends(trend, results)).unwrap_or_default()
}

/// The values of some terms at every point where all of them have one, or their means over those points if
/// `mean` is set. An axis that all terms leave open, or restrict to the same values, has the same value for
/// all terms of a row. Values of an axis that the terms restrict differently are combined: `mc-b` and `ect`
/// above `mc-t` make two comparisons.
fn rows(terms: &[&Term], results: &Results, mean: bool) -> Vec<(AxisPoint, Vec<f64>)> {
    rows_of(terms, results, mean, &|point, metric| Some(results.summary(point, metric)?.mean))
}

/// [`rows`] with other values than the means over the seeds.
fn rows_of(
    terms: &[&Term],
    results: &Results,
    mean: bool,
    value: &dyn Fn(usize, &str) -> Option<f64>,
) -> Vec<(AxisPoint, Vec<f64>)> {
    let of = |term: &Term| -> Vec<(AxisPoint, f64)> {
        let places = results.places(term).into_iter();
        places.filter_map(|(place, point)| Some((place, value(point, &term.metric)?))).collect()
    };
    let Some((first, others)) = terms.split_first() else { return Vec::new() };
    let mut rows: Vec<(AxisPoint, Vec<f64>)> =
        of(first).into_iter().map(|(place, value)| (place, vec![value])).collect();
    for other in others {
        let shared = |axis: &str| first.at.get(axis) == other.at.get(axis);
        let found = of(other);
        let mut next = Vec::new();
        for (place, values) in &rows {
            for (own, value) in &found {
                let (same, more): (Vec<_>, Vec<_>) = own.iter().partition(|at| shared(&at.0));
                if same.iter().all(|at| place.contains(at)) {
                    let place = place.iter().chain(more).cloned().collect();
                    next.push((place, [&values[..], &[*value]].concat()));
                }
            }
        }
        rows = next;
    }
    if !mean || rows.is_empty() {
        return rows;
    }
    let average =
        |term: usize| rows.iter().map(|(_, values)| values[term]).sum::<f64>() / rows.len() as f64;
    vec![(AxisPoint::new(), (0..terms.len()).map(average).collect())]
}

fn ordered(order: &TermOrder, place: &AxisPoint, values: &[f64]) -> Margin {
    let pairs = values.windows(2).map(|pair| {
        // The margin includes the slack that the upper value is allowed.
        let (upper, lower) = (pair[0], pair[1]);
        let scale = lower.abs().max(f64::MIN_POSITIVE);
        (upper - lower) / scale + order.slack
    });
    let by = pairs.fold(f64::INFINITY, f64::min);
    let shown: Vec<String> = values.iter().map(|value| number(*value)).collect();
    Margin { by, words: format!("{}{}", shown.join(" > "), at(place)) }
}

fn within(value: f64, least: Option<f64>, most: Option<f64>, words: String) -> Margin {
    let below = least.map_or(f64::INFINITY, |least| value - least);
    let above = most.map_or(f64::INFINITY, |most| most - value);
    // NaN is within no bounds.
    let by = below.min(above);
    Margin { by: if value.is_nan() { f64::NEG_INFINITY } else { by }, words }
}

fn trends(trend: &Trend, results: &Results) -> Vec<Margin> {
    let mut lines: Vec<(AxisPoint, Vec<f64>)> = Vec::new();
    if trend.along == "@" {
        let (curve, _) = parts(&trend.of.metric);
        for (place, point) in results.places(&trend.of) {
            let xs = results.curve(point, curve).into_iter();
            let values = xs.filter_map(|x| results.summary(point, &format!("{curve}@{x}")));
            lines.push((place, values.map(|summary| summary.mean).collect()));
        }
    } else {
        let mut along = trend.of.clone();
        // A trend follows its axis, so a single fixed value of that axis is ignored; a list restricts and
        // keeps its order.
        along.at.retain(|axis, wanted| *axis != trend.along || matches!(wanted, Value::Array(_)));
        for (mut place, point) in results.places(&along) {
            let Some(summary) = results.summary(point, &trend.of.metric) else { continue };
            place.retain(|(axis, _)| *axis != trend.along);
            match lines.iter_mut().find(|(known, _)| *known == place) {
                Some((_, values)) => values.push(summary.mean),
                None => lines.push((place, vec![summary.mean])),
            }
        }
    }
    let long = lines.into_iter().filter(|(_, values)| values.len() > 1);
    long.map(|(place, values)| going(trend, &place, &values)).collect()
}

fn going(trend: &Trend, place: &AxisPoint, values: &[f64]) -> Margin {
    let largest = values.iter().fold(f64::MIN_POSITIVE, |most, value| most.max(value.abs()));
    let steps = values.windows(2).map(|pair| match trend.goes {
        TrendDirection::Up => pair[1] - pair[0],
        TrendDirection::Down => pair[0] - pair[1],
    });
    let by = steps.fold(f64::INFINITY, f64::min) / largest + trend.slack;
    let shown: Vec<String> = values.iter().map(|value| number(*value)).collect();
    Margin { by, words: format!("{}{}", shown.join(", "), at(place)) }
}

/// The text ` at axis value, ..`, or nothing for an empty place.
#[must_use]
pub fn at(place: &AxisPoint) -> String {
    if place.is_empty() {
        return String::new();
    }
    let shown: Vec<String> = place.iter().map(|(axis, value)| format!("{axis} {value}")).collect();
    format!(" at {}", shown.join(", "))
}

/// A number with four significant digits.
#[must_use]
pub fn number(value: f64) -> String {
    if value == 0.0 || !value.is_finite() {
        return format!("{value}");
    }
    let digits = value.abs().log10().floor();
    if (-4.0..6.0).contains(&digits) {
        // The exponent is between -4 and 6.
        let places = (3 - digits as i32).max(0) as usize;
        let text = format!("{value:.places$}");
        return match text.contains('.') {
            true => text.trim_end_matches('0').trim_end_matches('.').to_owned(),
            false => text,
        };
    }
    format!("{value:.3e}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiment::Measures;

    fn experiment(shape: &str) -> Experiment {
        let text = format!(
            "{{name: x, title: x, model: tasks, settings: {{}}, seeds: {{count: 1}}, \
             metrics: [{{name: m, label: m}}, {{name: c, label: c}}], \
             sweep: [{{name: load, path: load, values: [1, 2, 3]}}, {{name: by, path: by, values: [a, b]}}], \
             paper: {{numbers: [{{metric: m, at: {{load: 2}}, value: 15, within: 6, place: x}}], \
             shapes: [{{says: x, place: x, {shape}}}]}}}}"
        );
        let experiment: Experiment = serde_saphyr::from_str(&text).unwrap();
        experiment.check().unwrap();
        experiment
    }

    /// Checks a shape against these results: `a` is 10, 20, 30 over load, `b` is 5, 25, 15, and the curve `c`
    /// falls.
    fn judged(shape: &str) -> (Option<bool>, (usize, usize), String) {
        let experiment = experiment(shape);
        let mut results = Results::new(experiment.points(false));
        for (point, value) in [10.0, 5.0, 20.0, 25.0, 30.0, 15.0].into_iter().enumerate() {
            let mut measures = Measures::new();
            measures.put("m", value);
            measures.put_at("c", 10.0, 5.0);
            measures.put_at("c", 9.0, 6.0);
            results.add(point, 1, measures);
        }
        let compared = numbers(&experiment, &results);
        let met: Vec<_> = compared.iter().map(|c| (c.place[0].1.as_str(), c.met)).collect();
        assert_eq!(met, [("a", Some(true)), ("b", Some(false))]);
        let verdict = shapes(&experiment, &results, false).remove(0);
        (verdict.held, verdict.places, verdict.telling)
    }

    const A_B: &str = "[{metric: m, at: {by: a}}, {metric: m, at: {by: b}}]";

    #[test]
    fn an_order_holds_everywhere_or_at_a_share_or_with_slack() {
        let order = format!("order: {{falling: {A_B}}}");
        let (held, places, telling) = judged(&order);
        assert_eq!((held, places), (Some(false), (2, 3)));
        assert_eq!(telling, "20 > 25 at load 2");
        assert_eq!(judged(&format!("{order}, share: 0.6")).0, Some(true));
        assert_eq!(judged(&format!("order: {{falling: {A_B}, slack: 0.3}}")).0, Some(true));
        assert_eq!(judged(&format!("{order}, mean: true")).2, "20 > 15");
    }

    #[test]
    fn values_that_only_one_term_names_are_combined() {
        let both = "{metric: m, at: {load: [2, 3], by: [a, b]}}";
        let order = format!("order: {{falling: [{both}, {{metric: m, at: {{load: 1, by: b}}}}]}}");
        assert_eq!(judged(&order).1, (4, 4));
        let order = format!(
            "order: {{falling: [{both}, {{metric: m, at: {{load: [2, 3], by: a}}}}], slack: 0.01}}"
        );
        // At equal loads: 20 and 25 are compared with 20, 30 and 15 with 30.
        assert_eq!(judged(&order).1, (3, 4));
        assert_eq!(judged(&order).2, "15 > 30 at load 3, by b");
    }

    #[test]
    fn ratios_bounds_and_trends() {
        let ratio =
            "ratio: {of: {metric: m, at: {by: a}}, to: {metric: m, at: {by: b}}, at_least: 1.5}";
        assert_eq!(judged(ratio).1, (2, 3));
        assert_eq!(judged("bounds: {of: {metric: m}, at_most: 25}").1, (5, 6));
        assert_eq!(
            judged("trend: {of: {metric: m, at: {by: a}}, along: load, goes: up}").0,
            Some(true)
        );
        let b = "trend: {of: {metric: m, at: {by: b}}, along: load, goes: up}";
        assert_eq!(judged(b).2, "5, 25, 15");
        assert_eq!(judged(b).0, Some(false));
        assert_eq!(judged("trend: {of: {metric: c}, along: '@', goes: down}").1, (6, 6));
        assert_eq!(judged("bounds: {of: {metric: c}, at_most: 25}").0, None, "c has no point 25");
    }

    #[test]
    fn what_was_not_looked_at_does_not_count_as_held() {
        let standing = |shape: &str, small| {
            let experiment = experiment(shape);
            let mut results = Results::new(experiment.points(false));
            for (point, value) in [10.0, 5.0, 20.0, 25.0, 30.0, 15.0].into_iter().enumerate() {
                let mut measures = Measures::new();
                measures.put("m", value);
                results.add(point, 1, measures);
            }
            Tally::of(&experiment, &results, small)
        };
        let none = Tally::default();
        let cases = [
            ("bounds: {of: {metric: m}, at_most: 30}", Tally { held: 1, ..none }),
            ("bounds: {of: {metric: m}, at_most: 3}", Tally { broken: 1, ..none }),
            ("bounds: {of: {metric: m}, at_most: 3}, not_met: so", Tally { not_met: 1, ..none }),
            ("bounds: {of: {metric: c}, at_most: 3}", Tally { not_looked_at: 1, ..none }),
        ];
        for (shape, tally) in cases {
            assert_eq!((standing(shape, true), standing(shape, false)), (tally, tally), "{shape}");
        }
        let fine = "bounds: {of: {metric: m}, at_most: 3}, full_only: true";
        assert_eq!(standing(fine, true), Tally { not_looked_at: 1, ..none });
        assert_eq!(standing(fine, false), Tally { broken: 1, ..none });
        let all = Tally { held: 3, not_met: 2, broken: 1, undecided: 0, not_looked_at: 4 };
        assert_eq!(
            all.to_string(),
            "3 held, 2 did not hold, as the file says, 1 did not hold, 4 not looked at"
        );
    }

    #[test]
    fn numbers_have_four_digits() {
        let cases = [(0.918, "0.918"), (12345.6, "12346"), (0.000_012_3, "1.230e-5"), (1.0, "1")];
        for (value, text) in cases {
            assert_eq!(number(value), text);
        }
    }
}
