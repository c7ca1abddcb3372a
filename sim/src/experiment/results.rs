//! What the runs of an experiment measured, point by point, and the mean of each point over its seeds.
//!
//! The mean of a point has a 95 % confidence interval by Student's t, because the seeds are independent and
//! few.

use std::collections::BTreeMap;

use super::file::{Experiment, Point, Term};
use super::measures::{Measures, parts};

/// The mean of a metric over some seeds.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Summary {
    /// The number of seeds that measured the metric.
    pub count: usize,
    /// The mean over these seeds.
    pub mean: f64,
    /// Half the width of the 95 % confidence interval: the true mean is within this distance of the mean.
    /// `None` if there is only one seed.
    pub within: Option<f64>,
}

impl Summary {
    /// The summary of these values; `None` if there are none.
    #[must_use]
    pub fn of(values: &[f64]) -> Option<Self> {
        let count = values.len();
        if count == 0 {
            return None;
        }
        let mean = values.iter().sum::<f64>() / count as f64;
        let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
        let within = (count > 1).then(|| {
            let deviation = (squares / (count - 1) as f64).sqrt();
            student(count - 1) * deviation / (count as f64).sqrt()
        });
        Some(Self { count, mean, within })
    }
}

/// The two-sided 95 % quantile of Student's t. Between two degrees of freedom of the table, it is the
/// quantile of the smaller one.
fn student(degrees: usize) -> f64 {
    const FIRST: [f64; 30] = [
        12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160,
        2.145, 2.131, 2.120, 2.110, 2.101, 2.093, 2.086, 2.080, 2.074, 2.069, 2.064, 2.060, 2.056,
        2.052, 2.048, 2.045, 2.042,
    ];
    match degrees {
        0 => f64::INFINITY,
        few @ 1..=30 => FIRST[few - 1],
        31..=39 => 2.042,
        40..=59 => 2.021,
        60..=119 => 2.000,
        _ => 1.980,
    }
}

/// Every run of an experiment.
#[derive(Debug, Clone)]
pub struct Results {
    /// The points of the sweep.
    pub points: Vec<Point>,
    runs: BTreeMap<(usize, u64), Measures>,
}

/// A place on the axes that a term leaves open: pairs of an axis and the label of its value.
pub type AxisPoint = Vec<(String, String)>;

impl Results {
    /// Results without any runs yet, for these points.
    #[must_use]
    pub fn new(points: Vec<Point>) -> Self {
        Self { points, runs: BTreeMap::new() }
    }

    /// Adds what a point measured with a seed.
    pub fn add(&mut self, point: usize, seed: u64, measures: Measures) {
        self.runs.insert((point, seed), measures);
    }

    /// Are the measures of this point and seed there?
    #[must_use]
    pub fn has(&self, point: usize, seed: u64) -> bool {
        self.runs.contains_key(&(point, seed))
    }

    /// Number of runs.
    #[must_use]
    pub fn len(&self) -> usize {
        self.runs.len()
    }

    /// Are there no runs?
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.runs.is_empty()
    }

    /// The value of a metric, or of a point of a curve, at a point with one seed.
    #[must_use]
    pub fn value(&self, point: usize, seed: u64, metric: &str) -> Option<f64> {
        self.runs.get(&(point, seed))?.get(metric)
    }

    /// Every seed of any run, ascending.
    #[must_use]
    pub fn seeds(&self) -> Vec<u64> {
        let seeds: std::collections::BTreeSet<u64> =
            self.runs.keys().map(|(_, seed)| *seed).collect();
        seeds.into_iter().collect()
    }

    /// The mean of a metric, or of a point of a curve, over the seeds of a point.
    #[must_use]
    pub fn summary(&self, point: usize, metric: &str) -> Option<Summary> {
        let seeds = self.runs.range((point, 0)..=(point, u64::MAX));
        let values: Vec<f64> = seeds.filter_map(|(_, measures)| measures.get(metric)).collect();
        Summary::of(&values)
    }

    /// The x of every point of a curve that was measured at a point of the sweep, ascending.
    #[must_use]
    pub fn curve(&self, point: usize, curve: &str) -> Vec<f64> {
        let mut all: Vec<f64> = Vec::new();
        for (_, measures) in self.runs.range((point, 0)..=(point, u64::MAX)) {
            for (name, _) in measures.iter() {
                if let (own, Some(x)) = parts(name)
                    && own == curve
                    && !all.contains(&x)
                {
                    all.push(x);
                }
            }
        }
        all.sort_by(f64::total_cmp);
        all
    }

    /// Every name that was measured anywhere; each curve once, without an x.
    #[must_use]
    pub fn names(&self) -> Vec<String> {
        let mut names: Vec<String> = Vec::new();
        for (name, _) in self.runs.values().flat_map(Measures::iter) {
            let name = parts(name).0;
            if names.last().is_none_or(|last| last != name) {
                names.push(name.to_owned());
            }
        }
        names.sort();
        names.dedup();
        names
    }

    /// Every point of the sweep that matches a term, with its place on the axes that the term leaves open.
    #[must_use]
    pub fn places(&self, term: &Term) -> Vec<(AxisPoint, usize)> {
        let mut found = Vec::new();
        for (index, point) in self.points.iter().enumerate() {
            let mut place = AxisPoint::new();
            let mut fits = true;
            for (axis, label) in &point.labels {
                match term.at.get(axis) {
                    Some(wanted) => {
                        let wanted = super::file::values(wanted);
                        fits &= wanted.contains(label);
                        if wanted.len() > 1 {
                            place.push((axis.clone(), label.clone()));
                        }
                    }
                    None => place.push((axis.clone(), label.clone())),
                }
            }
            if fits {
                found.push((place, index));
            }
        }
        found
    }

    /// Every metric of the experiment that no run has measured.
    #[must_use]
    pub fn missing<'a>(&self, experiment: &'a Experiment) -> Vec<&'a str> {
        let names = self.names();
        let metrics = experiment.metrics.iter().map(|metric| metric.name.as_str());
        metrics.filter(|metric| !names.iter().any(|name| name == metric)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mean_has_its_confidence_interval() {
        // Two seeds with 1 and 3: the mean is 2, the deviation is sqrt 2, t for one degree of freedom is
        // 12.706, divided by sqrt 2.
        let summary = Summary::of(&[1.0, 3.0]).unwrap();
        assert_eq!((summary.count, summary.mean), (2, 2.0));
        assert!((summary.within.unwrap() - 12.706).abs() < 1e-9);
        assert_eq!(Summary::of(&[5.0]).unwrap().within, None);
        assert_eq!(Summary::of(&[]), None);
        let many: Vec<f64> = (0..121).map(|at| f64::from(at % 2)).collect();
        let within = Summary::of(&many).unwrap().within.unwrap();
        assert!((within - 1.98 * 0.502_07 / 11.0).abs() < 1e-3, "{within}");
    }
}
