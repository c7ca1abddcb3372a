//! What a paper says of its curves in words, as something that can be checked on ours.
//!
//! A shape speaks of terms: a metric at some values of some axes. Axes that a term does not fix stay open,
//! and the shape has to hold at every point on them that all its terms have (or at a share of them, or for
//! the mean over them).

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// One thing that a paper says of its curves. Exactly one of `order`, `ratio`, `trend` and `bounds`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Shape {
    /// What is said, in our words.
    pub says: String,
    /// Where it stands in the paper; `ours` when the paper does not say it.
    pub place: String,
    /// One term above the next.
    #[serde(default)]
    pub order: Option<TermOrder>,
    /// One term in terms of another.
    #[serde(default)]
    pub ratio: Option<Ratio>,
    /// A term along an axis.
    #[serde(default)]
    pub trend: Option<Trend>,
    /// A term between numbers.
    #[serde(default)]
    pub bounds: Option<Bounds>,
    /// The share of open points at which it has to hold, from 0 to 1; 1 when nothing is said.
    #[serde(default = "whole")]
    pub share: f64,
    /// Is it about the mean over the open points, not about each?
    #[serde(default)]
    pub mean: bool,
    /// Why it does not hold for us. It is then reported as not held, and no test demands it.
    #[serde(default)]
    pub not_met: Option<String>,
    /// Is it too fine for the few seeds of a `--small` run? No test of one demands it then.
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
    /// Which metric, or point of a curve (`curve@x`).
    pub metric: String,
    /// Axis and value, or axis and list of values, of which each is an open point.
    #[serde(default)]
    pub at: BTreeMap<String, Value>,
}

/// Terms from the largest to the smallest.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TermOrder {
    /// The terms, the largest first.
    pub falling: Vec<Term>,
    /// What a term may lack of the next and still count as above it, as a share of the next.
    #[serde(default)]
    pub slack: f64,
}

/// `of` divided by `to` within bounds.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Ratio {
    /// Above the line.
    pub of: Term,
    /// Below it.
    pub to: Term,
    /// Smallest ratio.
    #[serde(default)]
    pub at_least: Option<f64>,
    /// Largest ratio.
    #[serde(default)]
    pub at_most: Option<f64>,
}

/// A term that rises or falls along an axis.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Trend {
    /// What.
    pub of: Term,
    /// Along which axis; `@` for the x of a curve.
    pub along: String,
    /// Which way.
    pub goes: TrendDirection,
    /// What a step may go the other way, as a share of the largest value on the way.
    #[serde(default)]
    pub slack: f64,
}

/// Which way a trend goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum TrendDirection {
    /// Never less than before.
    Up,
    /// Never more than before.
    Down,
}

/// A term between two numbers.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Bounds {
    /// What.
    pub of: Term,
    /// Smallest value.
    #[serde(default)]
    pub at_least: Option<f64>,
    /// Largest value.
    #[serde(default)]
    pub at_most: Option<f64>,
}

impl Shape {
    /// Every term it speaks of, with the field that it stands in.
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
