//! The names of metrics that an experiment may have.

use std::collections::{BTreeMap, BTreeSet};

use coalloc_common::suggest::did_you_mean;
use coalloc_sim::experiment::file::Point;

use super::clock::TIMES;
use super::models::{PreparedModel, metrics};
use super::source::Source;
use crate::kit::exit::Failure;
use crate::kit::text;

/// Checks that every metric of the file exists in its model or in the clock.
///
/// # Errors
/// Names the first metric that does not exist.
pub fn check(source: &Source) -> Result<(), Failure> {
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
    check_plots(source)
}

/// Checks that a curve is drawn along its own axis, not along one of the sweep.
fn check_plots(source: &Source) -> Result<(), Failure> {
    let model = metrics(source.experiment.model);
    let is_curve = |metric: &str| {
        let known = || model.iter().chain(TIMES);
        // `success_until` would also be the success of a user of the name `until`.
        let own = known().find(|(name, _)| *name == metric);
        let own = own.or_else(|| known().find(|(name, _)| fits(name, metric)));
        own.is_some_and(|(_, about)| about.starts_with("curve over"))
    };
    for (at, plot) in source.experiment.plots.iter().enumerate() {
        if plot.x.as_deref() == Some("@") {
            continue;
        }
        if let Some(index) = plot.y.iter().position(|metric| is_curve(metric)) {
            let metric = &plot.y[index];
            let allowed = format!(
                "a metric that has one value at a point, because {metric} is a curve: give the plot `x: \"@\"`, or draw one \
                 point of it, {metric}@X"
            );
            return Err(source.mistake(&format!("plots[{at}].y[{index}]"), metric, &allowed));
        }
    }
    Ok(())
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
        let is_open = part.len() > 1 && part.chars().all(|c| c.is_ascii_uppercase());
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
}
