//! The content of an experiment file: a model, its settings, the axes to sweep, and what the paper prints.
//!
//! The file is YAML. Its syntax (unknown fields, text where a number belongs) is checked when it is read; its
//! meaning is checked by [`Experiment::check`]. Both name a field, so that the command line can name file and
//! line. Settings are a mapping that only the model understands: the sweep is applied to it first, and every
//! point of the sweep is checked before the first one runs.
//!
//! Left out: reading files. `{file: path}` anywhere in the settings, or in what an axis sets, stands for the
//! content of that file, and the reader of the experiment replaces it by that content.

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
    /// The short name of the experiment: letters, digits, `-` and `_`; the file's name without `.yaml`.
    pub name: String,
    /// One line that says what the experiment shows.
    pub title: String,
    /// The paper that the experiment is from.
    #[serde(default)]
    pub source: Option<Source>,
    /// What a reader should know before the results: one or more paragraphs for the report.
    #[serde(default)]
    pub about: Option<String>,
    /// The model that runs.
    pub model: Model,
    /// The model's settings.
    pub settings: Map<String, Value>,
    /// Settings that a `--small` run changes: dotted path and value.
    #[serde(default)]
    pub small: Map<String, Value>,
    /// The axes that are varied. The first axis is the x axis of plots that name no other.
    #[serde(default)]
    pub sweep: Vec<Axis>,
    /// The seeds that every point runs with.
    pub seeds: Seeds,
    /// What is measured and reported.
    pub metrics: Vec<Metric>,
    /// What the paper prints.
    #[serde(default)]
    pub paper: Paper,
    /// The plots.
    #[serde(default)]
    pub plots: Vec<Plot>,
    /// What the paper leaves open, and what was assumed.
    #[serde(default)]
    pub assumptions: Vec<Assumption>,
}

/// The source of an experiment.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Source {
    /// The paper, cited as first author and year: `Takefusa 2010`.
    pub paper: String,
    /// The figure or table of the paper.
    pub figure: String,
}

/// The models that an experiment can run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Model {
    /// Tasks whose data travel to a cluster (Christodoulopoulos 2008, Stevens 2009).
    Tasks,
    /// Co-allocations, planned on frames and reserved in two phases (Takefusa 2010).
    Coallocations,
    /// Jobs of a trace on the servers of one machine (Castillo 2009).
    Jobs,
    /// Random workflows, planned and reserved whole (Decker 2007).
    Workflows,
}

impl Model {
    /// The revision of the model's behaviour. It rises with every change after which the same settings and
    /// seed measure something else, so that runs from before and after the change are not mixed. Golden runs
    /// in `tests/experiments` detect such a change.
    #[must_use]
    pub const fn revision(self) -> u32 {
        match self {
            // Revision 2: holds that are shorter than usual ask for the decision before they end.
            // Of jobs: the paper's trees are built balanced, which changes their operations.
            // Of tasks, revision 3: that a coordinator looks at the clock when a window begins or ends is an event.
            // Of workflows, revision 3: the search for a set has other bounds, and a set that its links refuse says so.
            Self::Jobs => 2,
            Self::Tasks | Self::Workflows => 3,
            Self::Coallocations => 1,
        }
    }
}

/// One axis of the sweep.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Axis {
    /// The name of the axis in the report: letters, digits, `-` and `_`.
    pub name: String,
    /// The label of the axis in plots, with its unit.
    #[serde(default)]
    pub label: Option<String>,
    /// The dotted path of the setting that the axis varies: `workload.lambda`. Not allowed with values that
    /// have a `set`.
    #[serde(default)]
    pub path: Option<String>,
    /// The values of the axis: either what the setting gets, or `{label: text, set: {path: value, ..}}`,
    /// which changes several settings at once. With `small_only: true` a full run has no such value.
    pub values: Vec<Value>,
    /// The values of a `--small` run, by their labels; all values when this is not given.
    #[serde(default)]
    pub small: Option<Vec<Value>>,
}

/// The seeds of a run: `first`, `first + 1`, and so on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Seeds {
    /// The first seed.
    #[serde(default = "one")]
    pub first: u64,
    /// The number of seeds.
    pub count: u64,
    /// The number of seeds in a `--small` run.
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
    /// The model's name of the metric; for a curve (`name@x`) the name without the x.
    pub name: String,
    /// The label of the metric in tables and plots.
    pub label: String,
    /// The unit of the metric, if it has one.
    #[serde(default)]
    pub unit: Option<String>,
}

/// What the paper prints.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Paper {
    /// The numbers that it prints.
    #[serde(default)]
    pub numbers: Vec<Printed>,
    /// What its text says about curves whose numbers it does not print.
    #[serde(default)]
    pub shapes: Vec<Shape>,
    /// Are shapes judged seed by seed, with confidence intervals ([`super::judge::paired`])? Then orders are
    /// strict, slack is not allowed, and a shape may stay undecided.
    #[serde(default)]
    pub paired: bool,
}

/// A number that the paper prints.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Printed {
    /// The metric that the number is a value of.
    pub metric: String,
    /// The values of axes to which the number belongs. An axis that is not named stays open, and every point
    /// on it is compared.
    #[serde(default)]
    pub at: BTreeMap<String, Value>,
    /// The printed number.
    pub value: f64,
    /// The largest deviation that counts as met, in the metric's unit.
    #[serde(default)]
    pub within: Option<f64>,
    /// Where the paper prints it.
    pub place: String,
    /// What is different in our run, or why the number is not met.
    #[serde(default)]
    pub note: Option<String>,
}

/// A plot.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Plot {
    /// The name of the plot's file, without its extension.
    pub name: String,
    /// The title above the plot.
    pub title: String,
    /// The axis along x, or `@` for the x of curves; the first axis when this is not given.
    #[serde(default)]
    pub x: Option<String>,
    /// The label of the x axis; the axis' own label when this is not given.
    #[serde(default)]
    pub x_label: Option<String>,
    /// The metrics or curves that are drawn.
    pub y: Vec<String>,
    /// The label of the y axis.
    #[serde(default)]
    pub y_label: Option<String>,
    /// The axes that are fixed, each with a value or a list of values. Every value of the other axes makes a
    /// line.
    #[serde(default)]
    pub at: BTreeMap<String, Value>,
    /// Is the y axis logarithmic?
    #[serde(default)]
    pub log_y: bool,
    /// Is the x axis logarithmic?
    #[serde(default)]
    pub log_x: bool,
}

/// Something that the paper leaves open, or that we do differently.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Assumption {
    /// The subject of the assumption.
    pub about: String,
    /// What the paper says about it.
    #[serde(default)]
    pub paper: Option<String>,
    /// What we assumed.
    pub ours: String,
}

/// Which part of a setting is to blame for a mistake in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SettingFault {
    /// Its name: the model has no such setting.
    Name,
    /// Its value.
    Value,
}

/// One point of a sweep: the value of each axis, and the settings that result.
#[derive(Debug, Clone, PartialEq)]
pub struct Point {
    /// Each axis and the label of its value, in the order of the axes.
    pub labels: Vec<(String, String)>,
    /// The settings of the point.
    pub settings: Map<String, Value>,
    /// The index of the value on each axis, for messages.
    pub indices: Vec<usize>,
}

impl Axis {
    /// The label of a value.
    #[must_use]
    pub fn label_of(value: &Value) -> String {
        let named = value.as_object().and_then(|choice| choice.get("label"));
        text_of(named.unwrap_or(value))
    }

    /// Is the value for `--small` runs only?
    fn is_small_only(value: &Value) -> bool {
        value.get("small_only") == Some(&Value::Bool(true))
    }

    /// The dotted paths and values that a value of the axis sets.
    fn sets(&self, value: &Value) -> Vec<(String, Value)> {
        match (&self.path, value.as_object().and_then(|choice| choice.get("set"))) {
            (_, Some(Value::Object(set))) => {
                set.iter().map(|(path, value)| (path.clone(), value.clone())).collect()
            }
            (Some(path), _) => vec![(path.clone(), value.clone())],
            (None, _) => Vec::new(),
        }
    }

    /// The paths that any value of the axis sets.
    pub fn paths(&self) -> Vec<String> {
        let of_all = self.values.iter().flat_map(|value| self.sets(value));
        of_all.map(|(path, _)| path).collect()
    }

    /// The labels of the values, in order; those of a small run if `small` is set.
    #[must_use]
    pub fn labels(&self, small: bool) -> Vec<String> {
        self.chosen(small).into_iter().map(|(_, value)| Self::label_of(value)).collect()
    }

    fn chosen(&self, small: bool) -> Vec<(usize, &Value)> {
        let all = self.values.iter().enumerate();
        let all = all.filter(|(_, value)| small || !Self::is_small_only(value));
        match self.small.as_ref().filter(|_| small) {
            Some(few) => {
                let few: Vec<String> = few.iter().map(text_of).collect();
                all.filter(|(_, value)| few.contains(&Self::label_of(value))).collect()
            }
            None => all.collect(),
        }
    }
}

/// A scalar as tables show it: text without quotes.
#[must_use]
pub fn text_of(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

impl Experiment {
    /// Every point of the sweep; the last axis varies fastest.
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

    /// The seeds that every point runs with.
    pub fn seeds(&self, small: bool) -> std::ops::Range<u64> {
        let count = if small { self.seeds.small.min(self.seeds.count) } else { self.seeds.count };
        self.seeds.first..self.seeds.first.saturating_add(count)
    }

    /// The field of this file that is to blame for the setting that a point has at `path`: the path or a value of an axis, or
    /// the setting itself.
    #[must_use]
    pub fn field_of_setting(&self, point: &Point, path: &str, fault: SettingFault) -> String {
        let is_inside = |inner: &str, outer: &str| inner.starts_with(&format!("{outer}."));
        for (at, (axis, index)) in self.sweep.iter().zip(&point.indices).enumerate() {
            let Some(value) = axis.values.get(*index) else { continue };
            for (own, _) in axis.sets(value) {
                // If the path is not a mapping in the file, this axis made it one.
                let is_made = is_inside(&own, path) && !self.is_mapping(path);
                let is_misnamed = own == path && fault == SettingFault::Name;
                if axis.path.as_ref() == Some(&own) && (is_made || is_misnamed) {
                    return format!("sweep[{at}].path");
                }
                if is_made || own == path || is_inside(path, &own) {
                    return format!("sweep[{at}].values[{index}]");
                }
            }
        }
        format!("settings.{path}")
    }

    /// Does this file have a mapping at a path of its settings?
    fn is_mapping(&self, path: &str) -> bool {
        let mut inner = Some(&self.settings);
        for step in path.split('.') {
            inner = inner.and_then(|map| map.get(step)).and_then(Value::as_object);
        }
        inner.is_some()
    }

    /// The declaration of a metric, by its name or by the name of a point of its curve.
    #[must_use]
    pub fn metric(&self, name: &str) -> Option<&Metric> {
        let (curve, _) = super::measures::parts(name);
        self.metrics.iter().find(|metric| metric.name == name || metric.name == curve)
    }
}

/// Sets the value at a dotted path. Mappings that are missing on the path are created.
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
