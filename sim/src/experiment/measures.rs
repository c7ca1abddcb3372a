//! What one run of a model measured: names and numbers, in the order of the names.
//!
//! A name is a metric (`blocking`), or one point of a curve that the run itself draws over something that is
//! no axis of the sweep (`success_a@50`: at a load of 50 %). A model counts in integers, and divides only
//! when it puts a measure here. What could not be measured (a share of nothing) is absent.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// The measures of one point and seed.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Measures(BTreeMap<String, f64>);

impl Measures {
    /// An empty set of measures.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets a metric. An infinite value or NaN is left out.
    pub fn put(&mut self, name: &str, value: f64) {
        if value.is_finite() {
            self.0.insert(name.to_owned(), value);
        }
    }

    /// Sets a metric to the ratio of two counts. It is left out when `of` is 0.
    pub fn put_share(&mut self, name: &str, part: u64, of: u64) {
        self.put(name, part as f64 / of as f64);
    }

    /// Sets the point at `x` of a curve.
    pub fn put_at(&mut self, curve: &str, x: f64, y: f64) {
        self.put(&format!("{curve}@{x}"), y);
    }

    /// The value of a metric, or of a point of a curve (`curve@x`).
    #[must_use]
    pub fn get(&self, name: &str) -> Option<f64> {
        self.0.get(name).copied()
    }

    /// All measures, in the order of their names.
    pub fn iter(&self) -> impl Iterator<Item = (&str, f64)> {
        self.0.iter().map(|(name, value)| (name.as_str(), *value))
    }

    /// Has nothing been measured?
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// Splits a name: the curve and the x of the point if it names one, else the metric and `None`.
#[must_use]
pub fn parts(name: &str) -> (&str, Option<f64>) {
    match name.split_once('@') {
        Some((curve, x)) => match x.parse() {
            Ok(x) => (curve, Some(x)),
            Err(_) => (name, None),
        },
        None => (name, None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_number_is_left_out() {
        let mut measures = Measures::new();
        measures.put_share("blocking", 1, 4);
        measures.put_share("conflict", 0, 0);
        measures.put("delay", f64::INFINITY);
        assert_eq!(measures.iter().collect::<Vec<_>>(), [("blocking", 0.25)]);
    }

    #[test]
    fn a_point_of_a_curve_is_found_by_its_name() {
        let mut measures = Measures::new();
        measures.put_at("success", 50.0, 0.918);
        measures.put_at("success", 2.5, 1.0);
        assert_eq!(measures.get("success@50"), Some(0.918));
        assert_eq!(parts("success@2.5"), ("success", Some(2.5)));
        assert_eq!(parts("success"), ("success", None));
        assert_eq!(parts("mail@home"), ("mail@home", None));
    }

    #[test]
    fn its_json_is_read_back() {
        let mut measures = Measures::new();
        measures.put("a", 0.1);
        measures.put_at("b", 10.0, 3.0);
        let text = serde_json::to_string(&measures).unwrap();
        assert_eq!(text, r#"{"a":0.1,"b@10":3.0}"#);
        assert_eq!(serde_json::from_str::<Measures>(&text).unwrap(), measures);
    }
}
