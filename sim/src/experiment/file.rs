//! What an experiment file says: a model, its settings, what is swept, and what the paper prints.
//!
//! The file is YAML. Spelling (unknown fields, text where a number belongs) is checked where it is read;
//! sense is checked by [`Experiment::check`]. Both name a field, so that the command line can name file
//! and line. Settings are a mapping that only the model understands: the sweep is applied to it first, and
//! every point of the sweep is checked before the first one runs.
//!
//! Left out: reading files. `{file: path}` anywhere in the settings, or in what an axis sets, stands for the content of that file;
//! whoever reads the experiment puts it there.

mod check;
mod shape;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

pub use check::name;
pub(in crate::experiment) use check::values;
pub use shape::{Bounds, Ratio, Shape, Term, TermOrder, Trend, TrendDirection};

/// An experiment file.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Experiment {
    /// Its short name: letters, digits and `-`; the file's name without `.yaml`.
    pub name: String,
    /// In a line, what it shows.
    pub title: String,
    /// Whose experiment it is.
    #[serde(default)]
    pub source: Option<Source>,
    /// What a reader should know before the results; a paragraph or more for the report.
    #[serde(default)]
    pub about: Option<String>,
    /// Which model runs.
    pub model: Model,
    /// The model's settings.
    pub settings: Map<String, Value>,
    /// Settings that a `--small` run changes: dotted path and value.
    #[serde(default)]
    pub small: Map<String, Value>,
    /// What is varied; the first axis is the x axis of plots that do not say another.
    #[serde(default)]
    pub sweep: Vec<Axis>,
    /// The seeds that every point runs with.
    pub seeds: Seeds,
    /// What is measured and shown.
    pub metrics: Vec<Metric>,
    /// What the paper prints.
    #[serde(default)]
    pub paper: Paper,
    /// What is drawn.
    #[serde(default)]
    pub plots: Vec<Plot>,
    /// What the paper leaves open, and what was assumed.
    #[serde(default)]
    pub assumptions: Vec<Assumption>,
}

/// Whose experiment it is.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Source {
    /// Cited as (first author year): `Takefusa 2010`.
    pub paper: String,
    /// Figure or table.
    pub figure: String,
}

/// The models there are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Model {
    /// Tasks whose data travel to a cluster (Christodoulopoulos 2008, Stevens 2009).
    Tasks,
    /// Co-allocations, planned on frames and reserved in two phases (Takefusa 2010).
    Coallocations,
}

impl Model {
    /// The revision of its behaviour. A change after which the same settings and seed measure something else raises
    /// it, so that runs from before are not mixed with runs from after; `tests/experiments` has golden runs that
    /// tell such a change.
    #[must_use]
    pub const fn revision(self) -> u32 {
        match self {
            // 2: short holds ask what was decided before they end.
            Self::Tasks => 2,
            Self::Coallocations => 1,
        }
    }
}

/// One axis of the sweep.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Axis {
    /// What the report calls it: letters, digits, `-` and `_`.
    pub name: String,
    /// For a plot's axis, with its unit.
    #[serde(default)]
    pub label: Option<String>,
    /// The setting that it varies, dotted: `workload.lambda`. Not with values that say what they `set`.
    #[serde(default)]
    pub path: Option<String>,
    /// Its values: what the setting gets, or `{label: text, set: {path: value, ..}}`, which changes
    /// several settings at once.
    pub values: Vec<Value>,
    /// The values of a `--small` run, by what they are called; all where nothing is said.
    #[serde(default)]
    pub small: Option<Vec<Value>>,
}

/// The seeds of a run: `first`, `first + 1`, and so on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Seeds {
    /// The first.
    #[serde(default = "one")]
    pub first: u64,
    /// How many.
    pub count: u64,
    /// How many in a `--small` run.
    #[serde(default = "one")]
    pub small: u64,
}

const fn one() -> u64 {
    1
}

/// Something that is measured.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Metric {
    /// The model's name of it; of a curve (`name@x`) without the x.
    pub name: String,
    /// For tables and plots.
    pub label: String,
    /// Its unit, where it has one.
    #[serde(default)]
    pub unit: Option<String>,
}

/// What the paper prints.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Paper {
    /// Its numbers.
    #[serde(default)]
    pub numbers: Vec<Printed>,
    /// What its text says of curves whose numbers it does not print.
    #[serde(default)]
    pub shapes: Vec<Shape>,
}

/// A number that the paper prints.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Printed {
    /// Of which metric.
    pub metric: String,
    /// Where on the axes; an axis that is not named stays open, and every point on it is compared.
    #[serde(default)]
    pub at: BTreeMap<String, Value>,
    /// The number.
    pub value: f64,
    /// The deviation that counts as met, in the metric's unit.
    #[serde(default)]
    pub within: Option<f64>,
    /// Where it stands in the paper.
    pub place: String,
    /// What is different on our side, or why it is missed.
    #[serde(default)]
    pub note: Option<String>,
}

/// A plot.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Plot {
    /// Name of the file, without its ending.
    pub name: String,
    /// Above it.
    pub title: String,
    /// The axis along x, or `@` for the x of curves; the first axis when nothing is said.
    #[serde(default)]
    pub x: Option<String>,
    /// Below it; the axis' own label when nothing is said.
    #[serde(default)]
    pub x_label: Option<String>,
    /// The metrics or curves that are drawn.
    pub y: Vec<String>,
    /// At the left.
    #[serde(default)]
    pub y_label: Option<String>,
    /// The axes that are fixed, and at what: a value, or a list of values. The others make one line each.
    #[serde(default)]
    pub at: BTreeMap<String, Value>,
    /// Is y logarithmic?
    #[serde(default)]
    pub log_y: bool,
    /// Is x logarithmic?
    #[serde(default)]
    pub log_x: bool,
}

/// Something that the paper leaves open, or that we do otherwise.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Assumption {
    /// What of.
    pub about: String,
    /// What the paper says.
    #[serde(default)]
    pub paper: Option<String>,
    /// What we took.
    pub ours: String,
}

/// One point of a sweep: what each axis stands at, and the settings that make it.
#[derive(Debug, Clone, PartialEq)]
pub struct Point {
    /// Axis and what its value is called, in the order of the axes.
    pub labels: Vec<(String, String)>,
    /// The settings.
    pub settings: Map<String, Value>,
    /// Which value of each axis it is, for messages.
    pub indices: Vec<usize>,
}

impl Axis {
    /// What a value is called.
    #[must_use]
    pub fn label_of(value: &Value) -> String {
        let named = value.as_object().and_then(|choice| choice.get("label"));
        text_of(named.unwrap_or(value))
    }

    /// What a value sets: dotted path and value.
    fn sets(&self, value: &Value) -> Vec<(String, Value)> {
        match (&self.path, value.as_object().and_then(|choice| choice.get("set"))) {
            (_, Some(Value::Object(set))) => {
                set.iter().map(|(path, value)| (path.clone(), value.clone())).collect()
            }
            (Some(path), _) => vec![(path.clone(), value.clone())],
            (None, _) => Vec::new(),
        }
    }

    /// The paths that it sets anywhere.
    pub fn paths(&self) -> Vec<String> {
        let of_all = self.values.iter().flat_map(|value| self.sets(value));
        of_all.map(|(path, _)| path).collect()
    }

    /// What its values are called, in order; those of a small run, when it is one.
    #[must_use]
    pub fn labels(&self, small: bool) -> Vec<String> {
        self.chosen(small).into_iter().map(|(_, value)| Self::label_of(value)).collect()
    }

    fn chosen(&self, small: bool) -> Vec<(usize, &Value)> {
        let all = self.values.iter().enumerate();
        match self.small.as_ref().filter(|_| small) {
            Some(few) => {
                let few: Vec<String> = few.iter().map(text_of).collect();
                all.filter(|(_, value)| few.contains(&Self::label_of(value))).collect()
            }
            None => all.collect(),
        }
    }
}

/// A scalar as it is called in tables: text without quotes.
#[must_use]
pub fn text_of(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

impl Experiment {
    /// Every point of the sweep, the last axis fastest.
    #[must_use]
    pub fn points(&self, small: bool) -> Vec<Point> {
        let mut settings = self.settings.clone();
        if small {
            for (path, value) in &self.small {
                set(&mut settings, path, value.clone());
            }
        }
        let mut points = vec![Point { labels: Vec::new(), settings, indices: Vec::new() }];
        for axis in &self.sweep {
            let mut next = Vec::with_capacity(points.len() * axis.values.len());
            for point in &points {
                for (index, value) in axis.chosen(small) {
                    let mut point = point.clone();
                    for (path, value) in axis.sets(value) {
                        set(&mut point.settings, &path, value);
                    }
                    point.labels.push((axis.name.clone(), Axis::label_of(value)));
                    point.indices.push(index);
                    next.push(point);
                }
            }
            points = next;
        }
        points
    }

    /// The seeds of every point.
    pub fn seeds(&self, small: bool) -> std::ops::Range<u64> {
        let count = if small { self.seeds.small.min(self.seeds.count) } else { self.seeds.count };
        self.seeds.first..self.seeds.first.saturating_add(count)
    }

    /// The field of this file that gave a point its setting at `path`: an axis' value, or the setting.
    #[must_use]
    pub fn field_of_setting(&self, point: &Point, path: &str) -> String {
        for (at, (axis, index)) in self.sweep.iter().zip(&point.indices).enumerate() {
            let Some(value) = axis.values.get(*index) else { continue };
            let covers = |own: &str| {
                let is_inside = |inner: &str, outer: &str| inner.starts_with(&format!("{outer}."));
                // What is no mapping in the file was made one by this axis.
                let made = is_inside(own, path) && !self.is_mapping(path);
                path == own || is_inside(path, own) || made
            };
            if axis.sets(value).iter().any(|(own, _)| covers(own)) {
                return format!("sweep[{at}].values[{index}]");
            }
        }
        format!("settings.{path}")
    }

    /// Has this file a mapping at a path of its settings?
    fn is_mapping(&self, path: &str) -> bool {
        let mut inner = Some(&self.settings);
        for step in path.split('.') {
            inner = inner.and_then(|map| map.get(step)).and_then(Value::as_object);
        }
        inner.is_some()
    }

    /// A metric as it is shown, by the name of it or of a point of its curve.
    #[must_use]
    pub fn metric(&self, name: &str) -> Option<&Metric> {
        let (curve, _) = super::measures::parts(name);
        self.metrics.iter().find(|metric| metric.name == name || metric.name == curve)
    }
}

/// Sets what stands at a dotted path; what is missing on the way is made.
fn set(settings: &mut Map<String, Value>, path: &str, value: Value) {
    match path.split_once('.') {
        None => {
            settings.insert(path.to_owned(), value);
        }
        Some((first, rest)) => {
            let inner = settings.entry(first).or_insert_with(|| Value::Object(Map::new()));
            if !inner.is_object() {
                *inner = Value::Object(Map::new());
            }
            if let Value::Object(inner) = inner {
                set(inner, rest, value);
            }
        }
    }
}

#[cfg(test)]
mod tests;
