//! Shapes: what a paper says about its curves in words, in a form that can be checked on our results.
//!
//! A shape has terms: a metric at some values of some axes. Axes that a term does not fix stay open. The
//! shape has to hold at every point on the open axes where all its terms have a value (or at a share of these
//! points, or for the mean over them).

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// One statement of a paper about its curves. It has exactly one of `order`, `ratio`, `trend` and `bounds`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Shape {
    /// The statement, in our words.
    pub says: String,
    /// Where the paper makes the statement; `ours` when the paper does not make it.
    pub place: String,
    /// The statement that each term is above the next.
    #[serde(default)]
    pub order: Option<TermOrder>,
    /// The statement that the ratio of two terms is within bounds.
    #[serde(default)]
    pub ratio: Option<Ratio>,
    /// The statement that a term rises or falls along an axis.
    #[serde(default)]
    pub trend: Option<Trend>,
    /// The statement that a term is between two numbers.
    #[serde(default)]
    pub bounds: Option<Bounds>,
    /// The share of open points at which it has to hold, from 0 to 1; 1 when this is not given.
    #[serde(default = "whole")]
    pub share: f64,
    /// Is the statement about the mean over the open points, instead of each point?
    #[serde(default)]
    pub mean: bool,
    /// Why the shape does not hold in our results. It is then reported as not held, and no test requires it.
    #[serde(default)]
    pub not_met: Option<String>,
    /// Is the statement too fine for the few seeds of a `--small` run? Then no test of such a run requires
    /// it.
    #[serde(default)]
    pub full_only: bool,
}

const fn whole() -> f64 {
    1.0
}

/// A metric at some values of some axes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Term {
    /// The metric, or a point of a curve (`curve@x`).
    pub metric: String,
    /// The axes with one value or a list of values; each value of a list is an open point.
    #[serde(default)]
    pub at: BTreeMap<String, Value>,
}

/// Terms from the largest to the smallest.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TermOrder {
    /// The terms, the largest first.
    pub falling: Vec<Term>,
    /// May a term be equal to the next one? For files that judge seed by seed, whose orders are strict
    /// otherwise.
    #[serde(default)]
    pub or_equal: bool,
    /// How far a term may be below the next one and still count as above it, as a share of the next one.
    #[serde(default)]
    pub slack: f64,
}

/// The ratio of `of` to `to`, within bounds.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Ratio {
    /// The numerator.
    pub of: Term,
    /// The denominator.
    pub to: Term,
    /// The smallest ratio that is allowed.
    #[serde(default)]
    pub at_least: Option<f64>,
    /// The largest ratio that is allowed.
    #[serde(default)]
    pub at_most: Option<f64>,
}

/// A term that rises or falls along an axis.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Trend {
    /// The term that rises or falls.
    pub of: Term,
    /// The axis along which it does; `@` for the x of a curve.
    pub along: String,
    /// The direction of the trend.
    pub goes: TrendDirection,
    /// May a value be equal to the one before? For files that judge seed by seed, whose trends are strict
    /// otherwise.
    #[serde(default)]
    pub or_equal: bool,
    /// How far a step may go in the other direction, as a share of the largest value of the line.
    #[serde(default)]
    pub slack: f64,
}

/// The direction of a trend.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum TrendDirection {
    /// No value is less than the one before.
    Up,
    /// No value is more than the one before.
    Down,
}

/// A term between two numbers.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Bounds {
    /// The term that is bounded.
    pub of: Term,
    /// The smallest value that is allowed.
    #[serde(default)]
    pub at_least: Option<f64>,
    /// The largest value that is allowed.
    #[serde(default)]
    pub at_most: Option<f64>,
}

impl Shape {
    /// Every term of the shape, with its field within the shape.
    #[must_use]
    pub fn terms(&self) -> Vec<(String, &Term)> {
        let mut terms = Vec::new();
        if let Some(order) = &self.order {
            let falling = order.falling.iter().enumerate();
            terms.extend(falling.map(|(at, term)| (format!("order.falling[{at}]"), term)));
        }
        if let Some(ratio) = &self.ratio {
            terms.push(("ratio.of".to_owned(), &ratio.of));
            terms.push(("ratio.to".to_owned(), &ratio.to));
        }
        if let Some(trend) = &self.trend {
            terms.push(("trend.of".to_owned(), &trend.of));
        }
        if let Some(bounds) = &self.bounds {
            terms.push(("bounds.of".to_owned(), &bounds.of));
        }
        terms
    }
}
