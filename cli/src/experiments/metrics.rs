//! The names of metrics that an experiment may have.

use std::collections::{BTreeMap, BTreeSet};

use coalloc_common::suggest::did_you_mean;
use coalloc_sim::experiment::Experiment;
use coalloc_sim::experiment::file::{Metric, Model, Point, Shape};
use coalloc_sim::experiment::measures::parts;

use super::clock::{TIME_CURVES, TIMES};
use super::models::{PreparedModel, curves, metrics};
use super::source::Source;
use crate::kit::exit::Failure;
use crate::kit::text;

/// Checks that every metric of the file exists in its model or in the clock.
///
/// # Errors
/// Names the first metric that does not exist.
pub fn check_names(source: &Source) -> Result<(), Failure> {
    let model = metrics(source.experiment.model);
    for (at, metric) in source.experiment.metrics.iter().enumerate() {
        let known = model.iter().chain(TIMES).any(|(name, _)| fits(name, &metric.name));
        if !known {
            let names: Vec<&str> = model.iter().chain(TIMES).map(|(name, _)| *name).collect();
            let guess = did_you_mean(&metric.name, names.iter().copied());
            let allowed = format!("a metric of its model: {}{guess}", names.join(", "));
            return Err(source.mistake(&format!("metrics[{at}].name"), &metric.name, &allowed));
        }
    }
    Ok(())
}

/// Checks that curves, and metrics with one value at a point, each stand where they can.
///
/// # Errors
/// Names the first metric that does not belong where it stands.
pub fn check_curves(source: &Source) -> Result<(), Failure> {
    let experiment = &source.experiment;
    let is_curve = |metric: &str| is_curve(experiment.model, metric);
    let one_value = |field: &str, metric: &str, instead: &str| match is_curve(metric) {
        false => Ok(()),
        true => {
            let allowed = format!(
                "a metric that has one value at a point, because {metric} is a curve: {instead}one point of it, {metric}@X"
            );
            Err(source.mistake(field, metric, &allowed))
        }
    };
    let curve = |field: &str, metric: &str| match is_curve(metric) {
        true => Ok(()),
        false => {
            let allowed = "a curve, because the x of curves, `@`, is named here";
            Err(source.mistake(field, metric, allowed))
        }
    };
    for (at, plot) in experiment.plots.iter().enumerate() {
        for (index, metric) in plot.y.iter().enumerate() {
            let field = format!("plots[{at}].y[{index}]");
            match plot.x.as_deref() == Some("@") {
                true => curve(&field, metric)?,
                false => one_value(&field, metric, "give the plot `x: \"@\"`, or draw ")?,
            }
        }
    }
    for (at, number) in experiment.paper.numbers.iter().enumerate() {
        one_value(&format!("paper.numbers[{at}].metric"), &number.metric, "name ")?;
    }
    for (at, shape) in experiment.paper.shapes.iter().enumerate() {
        let is_along_curve = shape.trend.as_ref().is_some_and(|trend| trend.along == "@");
        for (place, term) in shape.terms() {
            let field = format!("paper.shapes[{at}].{place}.metric");
            match is_along_curve {
                true => curve(&field, &term.metric)?,
                false => one_value(&field, &term.metric, "name ")?,
            }
        }
    }
    Ok(())
}

/// Is it a curve of its model, or of the clock? A point of a curve, `success_at@50`, is not.
fn is_curve(model: Model, metric: &str) -> bool {
    let own = known(model, metric);
    own.is_some_and(|(name, _)| curves(model).chain(TIME_CURVES).any(|curve| *curve == name))
        && !metric.contains('@')
}

/// The metric of its model, or of the clock, that a name means, and what is said of it.
fn known(model: Model, metric: &str) -> Option<(&'static str, &'static str)> {
    let (metric, _) = parts(metric);
    let closed = |name: &str| name.split('_').filter(|part| !is_open(part)).count();
    let all = metrics(model).iter().chain(TIMES).copied();
    // `success_until` would also be the success of a user of the name `until`: the closest name counts.
    all.filter(|(name, _)| fits(name, metric)).max_by_key(|(name, _)| closed(name))
}

/// Is the metric, or the curve, a share of a whole, which is never more than 1?
#[must_use]
pub fn is_share(model: Model, metric: &str) -> bool {
    let Some((name, _)) = known(model, metric) else { return false };
    // What is said to be the same as something before is of its kind.
    let mut is_share = false;
    for (own, about) in metrics(model).iter().chain(TIMES) {
        is_share = about.contains("share ") || (is_share && about.contains("the same"));
        if *own == name {
            return is_share;
        }
    }
    false
}

/// The line that says which curves of an experiment no plot draws and nothing else names: only `results.csv` has them.
#[must_use]
pub fn curves_not_drawn(experiment: &Experiment) -> Option<String> {
    let drawn = experiment.plots.iter().flat_map(|plot| plot.y.iter());
    let numbers = experiment.paper.numbers.iter().map(|number| &number.metric);
    let shapes = experiment.paper.shapes.iter().flat_map(Shape::terms);
    let named: BTreeSet<&str> = (drawn.chain(numbers).map(String::as_str))
        .chain(shapes.map(|(_, term)| term.metric.as_str()))
        .map(|metric| parts(metric).0)
        .collect();
    let is_left = |metric: &&Metric| {
        is_curve(experiment.model, &metric.name) && !named.contains(metric.name.as_str())
    };
    let left: Vec<&str> =
        (experiment.metrics.iter().filter(is_left)).map(|metric| metric.name.as_str()).collect();
    let first = left.first()?;
    Some(format!(
        "no plot draws the points of {}, which are in results.csv; to draw a curve, add to plots: \
         {{name: {first}, title: A title, x: \"@\", y: [{first}]}}",
        left.join(", ")
    ))
}

/// Checks that what the names of metrics name, such as a site, is there at some point of the experiment.
///
/// # Errors
/// Names the first metric of something that is not there, and what is.
pub fn check_named(source: &Source, points: &[(Point, PreparedModel)]) -> Result<(), Failure> {
    let mut there: BTreeMap<&str, BTreeSet<String>> = BTreeMap::new();
    for (part, name) in points.iter().flat_map(|(_, prepared)| prepared.named()) {
        there.entry(part).or_default().insert(name);
    }
    let model = metrics(source.experiment.model);
    for (at, metric) in source.experiment.metrics.iter().enumerate() {
        let fitting = model.iter().filter_map(|(known, _)| captured(known, &metric.name));
        let is_there = |(part, name): &(&str, &str)| {
            there.get(part).is_some_and(|names| names.contains(*name))
        };
        let mut wrong = None;
        let is_known = fitting.into_iter().any(|parts| {
            let missing = parts.into_iter().find(|part| !is_there(part));
            wrong = wrong.or(missing);
            missing.is_none()
        });
        if let (false, Some((part, name))) = (is_known, wrong) {
            let names = there.get(part).cloned().unwrap_or_default();
            let guess = did_you_mean(name, names.iter().map(String::as_str));
            let names: Vec<String> = names.into_iter().collect();
            let allowed = format!("as {part}: {}{guess}", text::enumerate(&names));
            return Err(source.mistake(&format!("metrics[{at}].name"), &metric.name, &allowed));
        }
    }
    Ok(())
}

/// Does a part of the name of a known metric stand for a name of the settings?
fn is_open(part: &str) -> bool {
    part.len() > 1 && part.chars().all(|c| c.is_ascii_uppercase())
}

/// Does the name fit this known metric?
fn fits(known: &str, name: &str) -> bool {
    captured(known, name).is_some()
}

/// What the name has for each open part of a known metric that it fits.
///
/// Capitals in a known name stand for a name of the settings: `load_SITE`.
fn captured<'k, 'n>(known: &'k str, name: &'n str) -> Option<Vec<(&'k str, &'n str)>> {
    let mut rest = name;
    let mut found = Vec::new();
    let parts: Vec<&str> = known.split('_').collect();
    for (at, part) in parts.iter().enumerate() {
        let is_open = is_open(part);
        let last = at + 1 == parts.len();
        let end = match (is_open, last) {
            (true, true) => rest.len(),
            (true, false) => rest.find('_')?,
            (false, _) if rest.starts_with(part) => part.len(),
            (false, _) => return None,
        };
        if is_open {
            found.push((*part, &rest[..end]));
        }
        rest = &rest[end..];
        if last {
            return rest.is_empty().then_some(found);
        }
        rest = rest.strip_prefix('_')?;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_model_s_metric_may_have_a_name_of_the_settings_in_it() {
        for (known, name, is) in [
            ("success", "success", true),
            ("success", "successes", false),
            ("load_SITE", "load_N0", true),
            ("load_SITE", "load", false),
            ("success_USER_at", "success_usera_at", true),
            ("success_USER_at", "success_usera", false),
            ("success_at", "success_until", false),
        ] {
            assert_eq!(fits(known, name), is, "{known} {name}");
        }
    }

    #[test]
    fn a_share_is_known_by_what_is_said_of_its_metric() {
        for (model, name, is) in [
            (Model::Coallocations, "success_usera_at", true),
            (Model::Coallocations, "success_at@50", true),
            (Model::Coallocations, "load_in_N", true),
            (Model::Coallocations, "late_min", false),
            (Model::Coallocations, "messages", false),
            (Model::Tasks, "task_blocking", true),
            (Model::Tasks, "total_delay_s", false),
            (Model::Jobs, "wait_share", true),
            (Model::Jobs, "penalty", false),
            (Model::Workflows, "rejection", true),
            (Model::Workflows, "offered_load", false),
            (Model::Workflows, "plan_ms", false),
        ] {
            assert_eq!(is_share(model, name), is, "{name}");
        }
    }

    #[test]
    fn a_curve_is_known_by_the_closest_name() {
        for (name, is) in [
            ("success", false),
            ("success_at", true),
            ("success_until", true),
            ("success_usera", false),
            ("success_usera_at", true),
            ("success_at@50", false),
            ("load_N0", true),
            ("load_N0@50", false),
            ("plan_sites_ms", true),
        ] {
            assert_eq!(is_curve(Model::Coallocations, name), is, "{name}");
        }
    }
}
