//! Paired verdicts: whether a shape holds beyond the noise of the seeds.
//!
//! All terms of a comparison are measured with the same seeds, so the comparison is made seed by seed: the
//! difference of two terms, the ratio of two terms, or the distance of a term from a bound. The mean of these
//! margins over the seeds has a 95 % confidence interval (Student's t). At a place the shape
//!
//! * *holds* if the whole interval is on its side of zero. An order is strict: an interval that contains
//!   zero is on no side. With `or_equal`, margins that are zero with every seed hold, too;
//! * *does not hold* if the whole interval is on the other side;
//! * is *undecided* otherwise. Then as many seeds would decide as make the interval narrower than its
//!   distance from zero, if margins stay as they are.
//!
//! A shape holds if it holds at its share of places, does not hold if it cannot even if all undecided places
//! held, and is undecided otherwise. Each place has 95 % by itself: of forty places one may err.
//!
//! Left out: a correction for many places, and seeds that not all terms have measured.

use serde_json::Value;

use super::super::file::{Shape, Term, TrendDirection};
use super::super::measures::parts;
use super::super::results::{AxisPoint, Results, Summary};
use super::{at, number, rows_of};

/// More seeds than this are shown as "more than".
const SEEDS_MAX: u64 = 1_000;

/// What the seeds say of a shape.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PairedOutcome {
    /// It holds.
    Holds,
    /// It does not hold.
    Fails,
    /// The seeds do not say.
    Undecided,
}

/// The paired verdict on a shape.
#[derive(Debug, Clone, PartialEq)]
pub struct PairedVerdict {
    /// The outcome.
    pub outcome: PairedOutcome,
    /// Number of places at which it does not hold.
    pub fails: usize,
    /// Number of places at which the seeds do not say.
    pub undecided: usize,
    /// How many seeds would decide the undecided places; `None` when nobody knows, as with one seed.
    pub seeds: Option<u64>,
    /// Number of places at which it holds, and number of all places.
    pub places: (usize, usize),
    /// The place that speaks most against it, with the mean margin and its interval.
    pub telling: String,
}

impl PairedVerdict {
    /// The number of seeds that would decide, in words.
    #[must_use]
    pub fn seeds_in_words(&self) -> String {
        match self.seeds {
            Some(seeds) if seeds <= SEEDS_MAX => format!("about {seeds} seeds would decide"),
            Some(_) => format!("more than {SEEDS_MAX} seeds would be needed"),
            None => "one seed decides nothing".to_owned(),
        }
    }
}

/// One comparison at a place: the margins by seed, positive where the shape holds.
struct Comparison {
    margins: Vec<f64>,
    or_equal: bool,
    words: String,
}

/// One comparison, judged.
struct Judged {
    outcome: PairedOutcome,
    /// How far the interval is on the right side of zero, in halves of its width: the least of all speaks
    /// most against the shape.
    strength: f64,
    seeds: Option<u64>,
    words: String,
}

impl Comparison {
    /// `intervals` is not set in small runs, which have too few seeds: then the mean alone decides.
    fn judge(&self, intervals: bool) -> Option<Judged> {
        let summary = Summary::of(&self.margins)?;
        let mean = summary.mean;
        let equal = self.or_equal && self.margins.iter().all(|margin| *margin == 0.0);
        let within = if intervals { summary.within } else { Some(0.0) };
        let shown = match within.filter(|_| intervals) {
            Some(within) => format!(" ± {}", number(within)),
            None => String::new(),
        };
        let words = format!("{}: {}{shown}", self.words, number(mean));
        let (outcome, seeds) = match within {
            Some(_) if equal => (PairedOutcome::Holds, None),
            Some(within) if mean - within > 0.0 || (self.or_equal && mean - within >= 0.0) => {
                (PairedOutcome::Holds, None)
            }
            Some(within) if mean + within < 0.0 || within == 0.0 => (PairedOutcome::Fails, None),
            Some(within) => {
                let times = (within / mean.abs()).powi(2) * summary.count as f64;
                // The cast saturates; it is shown up to SEEDS_MAX only.
                (PairedOutcome::Undecided, Some(times.ceil().max(2.0) as u64))
            }
            None => (PairedOutcome::Undecided, None),
        };
        let strength = mean / within.unwrap_or(f64::INFINITY).max(f64::MIN_POSITIVE);
        Some(Judged { outcome, strength: if equal { 0.0 } else { strength }, seeds, words })
    }
}

/// The verdict on a shape; `None` when nothing of it was measured.
#[must_use]
pub fn verdict(shape: &Shape, results: &Results, intervals: bool) -> Option<PairedVerdict> {
    let places: Vec<Vec<Judged>> = comparisons(shape, results)
        .into_iter()
        .map(|(_, all)| all.iter().filter_map(|one| one.judge(intervals)).collect::<Vec<_>>())
        .filter(|all: &Vec<Judged>| !all.is_empty())
        .collect();
    if places.is_empty() {
        return None;
    }
    let outcome = |all: &Vec<Judged>| {
        let any = |wanted| all.iter().any(|one| one.outcome == wanted);
        match (any(PairedOutcome::Fails), any(PairedOutcome::Undecided)) {
            (true, _) => PairedOutcome::Fails,
            (false, true) => PairedOutcome::Undecided,
            (false, false) => PairedOutcome::Holds,
        }
    };
    let count = |wanted| places.iter().filter(|all| outcome(all) == wanted).count();
    let (holds, fails) = (count(PairedOutcome::Holds), count(PairedOutcome::Fails));
    let of = places.len();
    let wanted = shape.share * of as f64;
    let whole = if holds as f64 >= wanted {
        PairedOutcome::Holds
    } else if ((of - fails) as f64) < wanted {
        PairedOutcome::Fails
    } else {
        PairedOutcome::Undecided
    };
    let all = || places.iter().flatten();
    let undecided = all().filter(|one| one.outcome == PairedOutcome::Undecided);
    let seeds: Option<Vec<u64>> = undecided.map(|one| one.seeds).collect();
    let telling = all().min_by(|one, other| one.strength.total_cmp(&other.strength));
    Some(PairedVerdict {
        outcome: whole,
        fails,
        undecided: of - holds - fails,
        seeds: seeds.and_then(|seeds| seeds.into_iter().max()),
        places: (holds, of),
        telling: telling.map(|one| one.words.clone()).unwrap_or_default(),
    })
}

/// The values of some terms at a place, seed by seed.
type SeedRows = Vec<(AxisPoint, Vec<Vec<f64>>)>;

/// The values of some terms with every seed, by place. Only places that all seeds have measured count.
fn by_seed(terms: &[&Term], results: &Results, mean: bool) -> SeedRows {
    let mut all: SeedRows = Vec::new();
    let seeds = results.seeds();
    for seed in &seeds {
        let value = |point: usize, metric: &str| results.value(point, *seed, metric);
        for (place, values) in rows_of(terms, results, mean, &value) {
            match all.iter_mut().find(|(known, _)| *known == place) {
                Some((_, rows)) => rows.push(values),
                None => all.push((place, vec![values])),
            }
        }
    }
    all
}

/// Every comparison that a shape makes, by place.
fn comparisons(shape: &Shape, results: &Results) -> Vec<(AxisPoint, Vec<Comparison>)> {
    let column = |rows: &[Vec<f64>], of: &dyn Fn(&[f64]) -> f64| -> Vec<f64> {
        rows.iter().map(|values| of(values)).collect()
    };
    let mean_of = |rows: &[Vec<f64>], term: usize| {
        Summary::of(&column(rows, &|values| values[term])).map_or(f64::NAN, |own| own.mean)
    };
    if let Some(order) = &shape.order {
        let terms: Vec<&Term> = order.falling.iter().collect();
        let pairs = |(place, rows): (AxisPoint, Vec<Vec<f64>>)| {
            let pair = |upper: usize| Comparison {
                margins: column(&rows, &|values| values[upper] - values[upper + 1]),
                or_equal: order.or_equal,
                words: format!(
                    "{} - {}{}",
                    number(mean_of(&rows, upper)),
                    number(mean_of(&rows, upper + 1)),
                    at(&place)
                ),
            };
            let all = (0..terms.len() - 1).map(pair).collect();
            (place, all)
        };
        return by_seed(&terms, results, shape.mean).into_iter().map(pairs).collect();
    }
    let bounded = |place: &AxisPoint, values: &[f64], (least, most), words: String| {
        let from = |bound: f64, sign: f64, word: &str| Comparison {
            margins: values.iter().map(|value| (value - bound) * sign).collect(),
            or_equal: true,
            words: format!("{words}, {word} {}{}", number(bound), at(place)),
        };
        let least = Option::map(least, |bound| from(bound, 1.0, "above"));
        least.into_iter().chain(Option::map(most, |bound| from(bound, -1.0, "below"))).collect()
    };
    if let Some(ratio) = &shape.ratio {
        let rows = by_seed(&[&ratio.of, &ratio.to], results, shape.mean);
        let of = |(place, rows): (AxisPoint, Vec<Vec<f64>>)| {
            // Nothing is a multiple of nothing: such a seed says nothing of the ratio.
            let rows: Vec<Vec<f64>> = rows.into_iter().filter(|values| values[1] != 0.0).collect();
            let values = column(&rows, &|values| values[0] / values[1]);
            let mean = Summary::of(&values).map_or(f64::NAN, |own| own.mean);
            let words = format!(
                "{} / {} = {}",
                number(mean_of(&rows, 0)),
                number(mean_of(&rows, 1)),
                number(mean)
            );
            let all = bounded(&place, &values, (ratio.at_least, ratio.at_most), words);
            (place, all)
        };
        return rows.into_iter().map(of).collect();
    }
    if let Some(bounds) = &shape.bounds {
        let of = |(place, rows): (AxisPoint, Vec<Vec<f64>>)| {
            let values = column(&rows, &|values| values[0]);
            let words = number(mean_of(&rows, 0));
            let all = bounded(&place, &values, (bounds.at_least, bounds.at_most), words);
            (place, all)
        };
        return by_seed(&[&bounds.of], results, shape.mean).into_iter().map(of).collect();
    }
    trend(shape, results)
}

/// The steps of a trend along an axis, or along the x of a curve.
fn trend(shape: &Shape, results: &Results) -> Vec<(AxisPoint, Vec<Comparison>)> {
    let Some(trend) = &shape.trend else { return Vec::new() };
    // A line: a place, and at each step the point and the metric.
    let mut lines: Vec<(AxisPoint, Vec<(usize, String)>)> = Vec::new();
    if trend.along == "@" {
        let (curve, _) = parts(&trend.of.metric);
        for (place, point) in results.places(&trend.of) {
            let steps = results.curve(point, curve).into_iter();
            lines.push((place, steps.map(|x| (point, format!("{curve}@{x}"))).collect()));
        }
    } else {
        let mut along = trend.of.clone();
        along.at.retain(|axis, wanted| *axis != trend.along || matches!(wanted, Value::Array(_)));
        for (mut place, point) in results.places(&along) {
            place.retain(|(axis, _)| *axis != trend.along);
            let step = (point, trend.of.metric.clone());
            match lines.iter_mut().find(|(known, _)| *known == place) {
                Some((_, steps)) => steps.push(step),
                None => lines.push((place, vec![step])),
            }
        }
    }
    let seeds = results.seeds();
    let sign = if trend.goes == TrendDirection::Up { 1.0 } else { -1.0 };
    let steps = |(place, steps): (AxisPoint, Vec<(usize, String)>)| {
        let pair = |pair: &[(usize, String)]| {
            let values = |seed: &u64| {
                let value =
                    |(point, metric): &(usize, String)| results.value(*point, *seed, metric);
                Some((value(&pair[0])?, value(&pair[1])?))
            };
            let both: Vec<(f64, f64)> = seeds.iter().filter_map(values).collect();
            let mean = |of: &dyn Fn(&(f64, f64)) -> f64| {
                Summary::of(&both.iter().map(of).collect::<Vec<_>>())
                    .map_or(f64::NAN, |own| own.mean)
            };
            let margins = both.iter().map(|(from, to)| (to - from) * sign).collect();
            let words = format!(
                "{} to {}{}",
                number(mean(&|both| both.0)),
                number(mean(&|both| both.1)),
                at(&place)
            );
            Comparison { margins, or_equal: trend.or_equal, words }
        };
        let all = steps.windows(2).map(pair).collect();
        (place, all)
    };
    lines.into_iter().map(steps).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiment::{Experiment, Measures};

    /// Judges an order, `a` above `b`, whose differences with each seed are given.
    fn ordered(differences: &[f64], more: &str) -> PairedVerdict {
        judged(
            differences,
            &format!(
                "order: {{falling: [{{metric: m, at: {{by: a}}}}, {{metric: m, at: {{by: b}}}}]{more}}}"
            ),
        )
    }

    fn judged(differences: &[f64], shape: &str) -> PairedVerdict {
        let text = format!(
            "{{name: x, title: x, model: tasks, settings: {{}}, seeds: {{count: 9}}, \
             metrics: [{{name: m, label: m}}], sweep: [{{name: by, path: by, values: [a, b]}}], \
             paper: {{paired: true, shapes: [{{says: x, place: x, {shape}}}]}}}}"
        );
        let experiment: Experiment = serde_saphyr::from_str(&text).unwrap();
        experiment.check().unwrap();
        let mut results = Results::new(experiment.points(false));
        for (seed, difference) in (1..).zip(differences) {
            // The seeds differ far more than the planners do.
            let noise = (seed * 37 % 11) as f64;
            for (point, value) in [noise + difference, noise].into_iter().enumerate() {
                let mut measures = Measures::new();
                measures.put("m", value);
                results.add(point, seed, measures);
            }
        }
        verdict(&experiment.paper.shapes[0], &results, true).unwrap()
    }

    #[test]
    fn a_seed_with_nothing_to_compare_with_says_nothing_of_a_ratio() {
        let term = |by: &str| format!("{{metric: m, at: {{by: {by}}}}}");
        let ratio =
            format!("ratio: {{of: {}, to: {}, at_least: 0.5, at_most: 1.5}}", term("a"), term("b"));
        // The eleventh seed has measured 0 of both.
        let verdict = judged(&[0.0; 11], &ratio);
        assert_eq!(verdict.outcome, PairedOutcome::Holds, "{}", verdict.telling);
    }

    #[test]
    fn what_seeds_have_in_common_does_not_hide_a_difference() {
        let held = ordered(&[0.25, 0.25, 0.5, 0.25], "");
        assert_eq!((held.outcome, held.places), (PairedOutcome::Holds, (1, 1)));
        let fails = ordered(&[-0.25, -0.25, -0.5, -0.25], "");
        assert_eq!((fails.outcome, fails.fails), (PairedOutcome::Fails, 1));
    }

    #[test]
    fn noise_decides_nothing_and_says_how_many_seeds_would() {
        // Mean 0.25, deviation 0.5: with four seeds 0.25 +- 3.182 x 0.5 / 2.
        let open = ordered(&[0.75, -0.25, 0.75, -0.25], "");
        assert_eq!((open.outcome, open.undecided), (PairedOutcome::Undecided, 1));
        let within = 3.182 * (1.0_f64 / 3.0).sqrt() / 2.0;
        let wanted = (4.0 * (within / 0.25).powi(2)).ceil();
        assert_eq!(open.seeds, Some(wanted as u64));
        assert!(open.seeds_in_words().contains("seeds would decide"));
        assert_eq!(ordered(&[0.25], "").outcome, PairedOutcome::Undecided);
        assert_eq!(ordered(&[0.25], "").seeds, None);
    }

    #[test]
    fn an_order_is_strict_unless_it_says_so() {
        assert_eq!(ordered(&[0.0, 0.0, 0.0], "").outcome, PairedOutcome::Fails);
        assert_eq!(ordered(&[0.0, 0.0, 0.0], ", or_equal: true").outcome, PairedOutcome::Holds);
        let never_more = ordered(&[0.5, -0.5, 0.25], ", or_equal: true");
        assert_eq!(never_more.outcome, PairedOutcome::Undecided);
    }

    #[test]
    fn bounds_and_trends_are_judged_with_their_intervals() {
        let bounds = "bounds: {of: {metric: m, at: {by: a}}, at_most: 100}";
        assert_eq!(judged(&[0.0, 1.0, 2.0], bounds).outcome, PairedOutcome::Holds);
        // The values are 4, 9, 3: their mean is below 9, and their interval is not.
        let bounds = "bounds: {of: {metric: m, at: {by: a}}, at_most: 9}";
        assert_eq!(judged(&[0.0, 1.0, 2.0], bounds).outcome, PairedOutcome::Undecided);
        let down = "trend: {of: {metric: m}, along: by, goes: down}";
        assert_eq!(judged(&[0.25, 0.25, 0.5, 0.25], down).outcome, PairedOutcome::Holds);
        let up = "trend: {of: {metric: m}, along: by, goes: up}";
        assert_eq!(judged(&[0.25, 0.25, 0.5, 0.25], up).outcome, PairedOutcome::Fails);
    }

    #[test]
    fn without_intervals_the_mean_decides() {
        let comparison = |margins: &[f64]| Comparison {
            margins: margins.to_vec(),
            or_equal: false,
            words: String::new(),
        };
        let outcome = |margins: &[f64]| comparison(margins).judge(false).unwrap().outcome;
        assert_eq!(outcome(&[0.1]), PairedOutcome::Holds);
        assert_eq!(outcome(&[0.1, -0.3]), PairedOutcome::Fails);
        assert_eq!(outcome(&[0.0]), PairedOutcome::Fails);
    }
}
