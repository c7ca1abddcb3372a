//! Checks an experiment: every name that it uses must be declared, and nothing may be empty.

use std::collections::{BTreeMap, BTreeSet};

use coalloc_common::invalid::check_range;
use coalloc_common::suggest::{choices, nearest};
use coalloc_common::{InvalidField, limits};
use serde_json::Value;

use super::{Axis, Experiment, Shape, Term, text_of};

impl Experiment {
    /// Checks everything that can be checked without the model.
    ///
    /// # Errors
    /// The first mistake, with its field.
    pub fn check(&self) -> Result<(), InvalidField> {
        name("name", &self.name)?;
        self.check_sweep()?;
        check_range("seeds.first", self.seeds.first, 0..=limits::EXPERIMENT_SEED_MAX, "")?;
        let seeds = 1..=limits::EXPERIMENT_RUNS_MAX;
        check_range("seeds.count", self.seeds.count, seeds.clone(), "")?;
        check_range("seeds.small", self.seeds.small, seeds, "")?;
        let points =
            self.sweep.iter().fold(1_u64, |all, axis| all.saturating_mul(axis.values.len() as u64));
        let runs = points.saturating_mul(self.seeds.count);
        if runs > limits::EXPERIMENT_RUNS_MAX {
            let most = limits::EXPERIMENT_RUNS_MAX;
            let allowed = format!("at most {most} runs: values of all axes, times seeds");
            return Err(InvalidField::new("sweep", format!("{runs} runs"), allowed));
        }
        self.check_metrics()?;
        self.check_paper()?;
        self.check_plots()
    }

    fn check_sweep(&self) -> Result<(), InvalidField> {
        let mut names = BTreeSet::new();
        for (at, axis) in self.sweep.iter().enumerate() {
            let field = format!("sweep[{at}]");
            name(&format!("{field}.name"), &axis.name)?;
            if !names.insert(&axis.name) {
                let allowed = "a name that no other axis has";
                return Err(InvalidField::new(format!("{field}.name"), &axis.name, allowed));
            }
            if axis.values.iter().all(Axis::is_small_only) {
                let allowed = "at least one value to sweep in a full run";
                let found = if axis.values.is_empty() { "[]" } else { "small_only in all" };
                return Err(InvalidField::new(format!("{field}.values"), found, allowed));
            }
            check_values(&field, axis)?;
        }
        Ok(())
    }

    fn check_metrics(&self) -> Result<(), InvalidField> {
        if self.metrics.is_empty() {
            return Err(InvalidField::new("metrics", "[]", "at least one metric"));
        }
        let mut names = BTreeSet::new();
        for (at, metric) in self.metrics.iter().enumerate() {
            if !names.insert(&metric.name) {
                let field = format!("metrics[{at}].name");
                return Err(InvalidField::new(field, &metric.name, "each metric once"));
            }
        }
        Ok(())
    }

    fn check_paper(&self) -> Result<(), InvalidField> {
        for (at, printed) in self.paper.numbers.iter().enumerate() {
            let field = format!("paper.numbers[{at}]");
            self.check_metric(&format!("{field}.metric"), &printed.metric)?;
            self.check_at(&field, &printed.at)?;
            if !printed.value.is_finite() {
                let value = as_written(printed.value);
                return Err(InvalidField::new(format!("{field}.value"), value, "a number"));
            }
            if let Some(within) = printed.within.filter(|within| within.is_nan() || *within < 0.0) {
                let allowed = "0 or more, in the metric's unit";
                return Err(InvalidField::new(format!("{field}.within"), within, allowed));
            }
        }
        for (at, shape) in self.paper.shapes.iter().enumerate() {
            self.check_shape(&format!("paper.shapes[{at}]"), shape)?;
        }
        Ok(())
    }

    fn check_shape(&self, field: &str, shape: &Shape) -> Result<(), InvalidField> {
        let kinds = [
            shape.order.is_some(),
            shape.ratio.is_some(),
            shape.trend.is_some(),
            shape.bounds.is_some(),
        ];
        let given = kinds.into_iter().filter(|given| *given).count();
        if given != 1 {
            let allowed = "exactly one of order, ratio, trend, bounds";
            return Err(InvalidField::new(field, format!("{given} of them"), allowed));
        }
        if !(0.0..=1.0).contains(&shape.share) {
            return Err(InvalidField::new(format!("{field}.share"), shape.share, "0 to 1"));
        }
        let slack = shape.order.as_ref().map(|order| order.slack);
        let slack = slack.or(shape.trend.as_ref().map(|trend| trend.slack));
        if let Some(slack) = slack.filter(|slack| self.paper.paired && *slack != 0.0) {
            let kind = if shape.order.is_some() { "order" } else { "trend" };
            let allowed = "no slack where shapes are judged seed by seed (paper.paired)";
            return Err(InvalidField::new(format!("{field}.{kind}.slack"), slack, allowed));
        }
        for (place, Term { metric, at }) in shape.terms() {
            self.check_metric(&format!("{field}.{place}.metric"), metric)?;
            self.check_at(&format!("{field}.{place}"), at)?;
        }
        if let Some(order) = &shape.order
            && order.falling.len() < 2
        {
            let field = format!("{field}.order.falling");
            return Err(InvalidField::new(field, order.falling.len(), "two terms or more"));
        }
        if let Some(ratio) = &shape.ratio {
            check_limits(&format!("{field}.ratio"), ratio.at_least, ratio.at_most)?;
        }
        if let Some(bounds) = &shape.bounds {
            check_limits(&format!("{field}.bounds"), bounds.at_least, bounds.at_most)?;
        }
        if let Some(trend) = &shape.trend
            && trend.along != "@"
        {
            self.check_axis(&format!("{field}.trend.along"), &trend.along)?;
        }
        Ok(())
    }

    fn check_plots(&self) -> Result<(), InvalidField> {
        let mut names = BTreeSet::new();
        for (at, plot) in self.plots.iter().enumerate() {
            let field = format!("plots[{at}]");
            name(&format!("{field}.name"), &plot.name)?;
            if !names.insert(&plot.name) {
                let allowed = "a name that no other plot has";
                return Err(InvalidField::new(format!("{field}.name"), &plot.name, allowed));
            }
            if plot.y.is_empty() {
                return Err(InvalidField::new(format!("{field}.y"), "[]", "at least one metric"));
            }
            for (index, metric) in plot.y.iter().enumerate() {
                self.check_metric(&format!("{field}.y[{index}]"), metric)?;
            }
            if let Some(x) = plot.x.as_ref().filter(|x| *x != "@") {
                self.check_axis(&format!("{field}.x"), x)?;
            }
            self.check_at(&field, &plot.at)?;
        }
        Ok(())
    }

    fn check_metric(&self, field: &str, metric: &str) -> Result<(), InvalidField> {
        if self.metric(metric).is_some() {
            return Ok(());
        }
        let known = self.metrics.iter().map(|metric| metric.name.as_str());
        Err(one_of(field, metric, &known.collect::<Vec<_>>(), "a metric of this file"))
    }

    fn check_axis(&self, field: &str, axis: &str) -> Result<&Axis, InvalidField> {
        let known: Vec<&str> = self.sweep.iter().map(|axis| axis.name.as_str()).collect();
        let found = self.sweep.iter().find(|known| known.name == axis);
        found.ok_or_else(|| one_of(field, axis, &known, "an axis of the sweep"))
    }

    /// Checks the axes of an `at`. Its values may be gone from the sweep: see [`Experiment::removed_values`]. A word that is nearly one
    /// of them is misspelled.
    fn check_at(&self, field: &str, at: &BTreeMap<String, Value>) -> Result<(), InvalidField> {
        for (name, wanted) in at {
            let field = format!("{field}.at.{name}");
            let known = &self.check_axis(&field, name)?.values;
            let known: Vec<String> = known.iter().map(Axis::label_of).collect();
            let known: Vec<&str> = known.iter().map(String::as_str).collect();
            let is_misspelled = |wanted: &String| {
                let is_word = wanted.parse::<f64>().is_err();
                is_word
                    && !known.contains(&wanted.as_str())
                    && !nearest(wanted, known.iter().copied()).is_empty()
            };
            if let Some(wanted) = values(wanted).into_iter().find(is_misspelled) {
                return Err(not_on_axis(field, &wanted, &known));
            }
        }
        Ok(())
    }

    /// The values of axes that numbers, shapes and plots name, and that the sweep does not have: whoever removes a value from
    /// the sweep need not change the rest of the file. What is said of such a value is left out.
    #[must_use]
    pub fn removed_values(&self) -> Vec<InvalidField> {
        let numbers = self.paper.numbers.iter().enumerate();
        let numbers = numbers.map(|(at, number)| (format!("paper.numbers[{at}]"), &number.at));
        let shapes = self.paper.shapes.iter().enumerate().flat_map(|(at, shape)| {
            let terms = shape.terms().into_iter();
            terms.map(move |(place, term)| (format!("paper.shapes[{at}].{place}"), &term.at))
        });
        let plots = self.plots.iter().enumerate();
        let plots = plots.map(|(at, plot)| (format!("plots[{at}]"), &plot.at));
        let mut removed = Vec::new();
        for (field, at) in numbers.chain(shapes).chain(plots) {
            for (name, wanted) in at {
                let axis = self.sweep.iter().find(|axis| axis.name == *name);
                let known: Vec<String> =
                    axis.iter().flat_map(|axis| &axis.values).map(Axis::label_of).collect();
                let wanted = values(wanted).into_iter().filter(|wanted| !known.contains(wanted));
                let known: Vec<&str> = known.iter().map(String::as_str).collect();
                let field = format!("{field}.at.{name}");
                removed.extend(wanted.map(|wanted| not_on_axis(field.clone(), &wanted, &known)));
            }
        }
        removed
    }
}

/// A number that is none, as YAML has it.
fn as_written(value: f64) -> &'static str {
    match value {
        value if value.is_nan() => ".nan",
        value if value < 0.0 => "-.inf",
        _ => ".inf",
    }
}

/// Checks the numbers between which something has to be.
fn check_limits(field: &str, least: Option<f64>, most: Option<f64>) -> Result<(), InvalidField> {
    for (name, limit) in [("at_least", least), ("at_most", most)] {
        if let Some(limit) = limit.filter(|limit| !limit.is_finite()) {
            return Err(InvalidField::new(
                format!("{field}.{name}"),
                as_written(limit),
                "a number",
            ));
        }
    }
    match (least, most) {
        (None, None) => {
            let allowed = "at_least, at_most, or both: without them it always holds";
            Err(InvalidField::new(field, "neither at_least nor at_most", allowed))
        }
        (Some(least), Some(most)) if least > most => {
            let allowed = format!("at most {most}, which is its at_most: nothing is in between");
            Err(InvalidField::new(format!("{field}.at_least"), least, allowed))
        }
        _ => Ok(()),
    }
}

/// The labels of the values that an `at` names on an axis.
pub(in crate::experiment) fn values(value: &Value) -> Vec<String> {
    match value {
        Value::Array(several) => several.iter().map(text_of).collect(),
        single => vec![text_of(single)],
    }
}

fn check_values(field: &str, axis: &Axis) -> Result<(), InvalidField> {
    let mut labels = BTreeSet::new();
    for (at, value) in axis.values.iter().enumerate() {
        let place = format!("{field}.values[{at}]");
        match value {
            Value::Object(choice) => {
                let known = ["label", "set", "small_only"];
                let is_choice = choice.keys().all(|key| known.contains(&key.as_str()))
                    && choice.get("label").is_some_and(Value::is_string)
                    && choice.get("set").is_some_and(Value::is_object)
                    && choice.get("small_only").is_none_or(Value::is_boolean);
                if !is_choice {
                    let allowed = "a value, or {label: a text, set: {path: value, ..}}, with \
                                   small_only: true if it is for small runs only";
                    return Err(InvalidField::new(place, value, allowed));
                }
            }
            Value::Array(_) | Value::Null => {
                let allowed = "a number, a text, true or false, or {label: .., set: ..}";
                return Err(InvalidField::new(place, value, allowed));
            }
            _ if axis.path.is_none() => {
                let allowed = "the dotted path of the setting that the values are for";
                return Err(InvalidField::missing(format!("{field}.path"), allowed));
            }
            _ => {}
        }
        if !labels.insert(Axis::label_of(value)) {
            return Err(InvalidField::new(place, Axis::label_of(value), "each value once"));
        }
    }
    for (at, small) in axis.small.iter().flatten().enumerate() {
        if !labels.contains(&text_of(small)) {
            let field = format!("{field}.small[{at}]");
            let named = labels.iter().map(String::as_str);
            let allowed = format!("a value of this axis: {}", choices(&text_of(small), named));
            return Err(InvalidField::new(field, text_of(small), allowed));
        }
    }
    if axis.small.as_ref().is_some_and(Vec::is_empty) {
        return Err(InvalidField::new(format!("{field}.small"), "[]", "at least one value"));
    }
    Ok(())
}

/// Checks a name of an experiment, an axis or a plot.
///
/// # Errors
/// When the name is empty or too long, or has characters other than letters, digits, `-` and `_`.
pub fn name(field: &str, text: &str) -> Result<(), InvalidField> {
    let is_good = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
    if !text.is_empty() && text.len() <= limits::NAME_LEN_MAX && text.chars().all(is_good) {
        return Ok(());
    }
    let allowed = "1 to 128 characters of A-Z a-z 0-9 - _";
    Err(InvalidField::new(field, InvalidField::quoted(text), allowed))
}

fn not_on_axis(field: String, wanted: &str, known: &[&str]) -> InvalidField {
    let allowed = format!("a value of that axis: {}", choices(wanted, known.iter().copied()));
    InvalidField::new(field, InvalidField::quoted(wanted), allowed)
}

fn one_of(field: &str, value: &str, known: &[&str], what: &str) -> InvalidField {
    let allowed = format!("{what}: {}", known.join(", "));
    InvalidField::new(field, InvalidField::quoted(value), allowed)
}
