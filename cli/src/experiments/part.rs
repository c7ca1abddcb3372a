//! The part of an experiment that a command runs: which seeds and which points.
//!
//! The folder of a part belongs to the whole experiment: a later command may run the rest into it. The report says
//! what part it is about.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::RangeInclusive;

use clap::Args;
use coalloc_common::limits;
use coalloc_common::suggest::did_you_mean;
use coalloc_sim::experiment::Experiment;
use coalloc_sim::experiment::file::{Point, Seeds};

use serde::{Deserialize, Serialize};

use crate::kit::exit::Failure;
use crate::kit::text;

/// The options of `coalloc sim run` that choose a part.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, Args)]
#[serde(deny_unknown_fields)]
pub struct PartArgs {
    /// Seeds per point [default: the experiment's setting]
    #[arg(long, value_name = "N", value_parser = seed_count, allow_negative_numbers = true)]
    pub seeds: Option<u64>,
    /// The first seed; the others follow it [default: the experiment's setting]
    #[arg(long, value_name = "N", value_parser = first_seed, allow_negative_numbers = true)]
    pub first_seed: Option<u64>,
    /// Only the points with this value of an axis; may be given for several values and axes
    #[arg(long, value_name = "AXIS=VALUE")]
    pub point: Vec<String>,
}

fn seed_count(text: &str) -> Result<u64, String> {
    whole_number(text, 1..=limits::EXPERIMENT_RUNS_MAX)
}

fn first_seed(text: &str) -> Result<u64, String> {
    whole_number(text, 0..=limits::EXPERIMENT_SEED_MAX)
}

fn whole_number(text: &str, allowed: RangeInclusive<u64>) -> Result<u64, String> {
    let number = text.parse().ok().filter(|number| allowed.contains(number));
    number.ok_or_else(|| {
        format!("allowed: a whole number from {} to {}", allowed.start(), allowed.end())
    })
}

impl PartArgs {
    /// The experiment with the seeds of the part, and one line for each way in which it is less than what its file says.
    pub fn set_seeds(&self, experiment: &mut Experiment) -> Vec<String> {
        let file = experiment.seeds;
        let own = &mut experiment.seeds;
        if let Some(seeds) = self.seeds {
            (own.count, own.small) = (seeds, seeds);
        }
        own.first = self.first_seed.unwrap_or(own.first);
        let line = |own: &Seeds| {
            format!(
                "its seeds begin with {}, those of the experiment's file with {}",
                own.first, file.first
            )
        };
        (own.first != file.first).then(|| line(own)).into_iter().collect()
    }

    /// The points that are in the part.
    ///
    /// # Errors
    /// Names an axis or a value that does not exist, and what does.
    pub fn points<'a>(
        &'a self,
        experiment: &Experiment,
        small: bool,
    ) -> Result<PickedPoints<'a>, Failure> {
        let mut picked = PickedPoints::default();
        for pair in &self.point {
            let labels = |axis: &str| {
                let axes = experiment.sweep.iter().filter(|own| own.name == axis);
                axes.flat_map(|own| own.labels(small)).collect()
            };
            let (axis, value) = axis_value("--point", pair, experiment, labels)?;
            picked.0.entry(axis).or_default().insert(value);
        }
        Ok(picked)
    }

    /// The line that says how many of an experiment's points the part has, if it has not all of them.
    #[must_use]
    pub fn points_line(&self, picked: usize, all: usize) -> Option<String> {
        let options: Vec<String> =
            self.point.iter().map(|pair| format!("--point {pair}")).collect();
        (picked < all).then(|| {
            let all = text::count(all, "point");
            format!("a part of the experiment: {picked} of its {all} ({})", options.join(" "))
        })
    }

    /// The options as a command has them, each after a blank.
    #[must_use]
    pub fn words(&self) -> String {
        let seeds = self.seeds.map(|seeds| format!(" --seeds {seeds}"));
        let first = self.first_seed.map(|first| format!(" --first-seed {first}"));
        let points = self.point.iter().map(|pair| format!(" --point {pair}"));
        seeds.into_iter().chain(first).chain(points).collect()
    }
}

/// The wanted values of each axis; every value of an axis that is not named.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PickedPoints<'a>(BTreeMap<&'a str, BTreeSet<&'a str>>);

impl PickedPoints<'_> {
    /// Is the point wanted?
    #[must_use]
    pub fn has(&self, point: &Point) -> bool {
        (point.labels.iter()).all(|(axis, label)| {
            self.0.get(axis.as_str()).is_none_or(|wanted| wanted.contains(label.as_str()))
        })
    }
}

/// The axis and the value of an option `AXIS=VALUE`; `labels` are the values that an axis has.
///
/// # Errors
/// Names an axis or a value that does not exist, and what does.
pub fn axis_value<'a>(
    option: &str,
    pair: &'a str,
    experiment: &Experiment,
    labels: impl FnOnce(&str) -> Vec<String>,
) -> Result<(&'a str, &'a str), Failure> {
    let bad = |problem: &str, wrong: &str, known: &[&str]| {
        let guess = did_you_mean(wrong, known.iter().copied());
        let allowed = known.join(", ");
        Failure::bad_input(format!("{option} {pair}: {problem}; allowed: {allowed}{guess}"))
    };
    let axes: Vec<&str> = experiment.sweep.iter().map(|axis| axis.name.as_str()).collect();
    let Some((axis, value)) = pair.split_once('=') else {
        return Err(bad("is not AXIS=VALUE", pair, &axes));
    };
    if !axes.contains(&axis) {
        return Err(bad(&format!("{axis} is not an axis of {}", experiment.name), axis, &axes));
    }
    let known = labels(axis);
    let known: Vec<&str> = known.iter().map(String::as_str).collect();
    if !known.contains(&value) {
        let problem = format!("{value} is not a value of that axis in this run");
        return Err(bad(&problem, value, &known));
    }
    Ok((axis, value))
}
