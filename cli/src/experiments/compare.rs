//! `coalloc sim compare`: compares two folders of results.

use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet};
use std::io::IsTerminal as _;
use std::path::{Path, PathBuf};

use clap::Args;
use coalloc_common::suggest::did_you_mean;
use coalloc_sim::experiment::Summary;
use coalloc_sim::experiment::judge::number;
use coalloc_sim::experiment::measures::parts;

use super::head::Head;
use super::store::{Run, read};
use crate::kit::exit::{Answer, Failure};
use crate::kit::text;

/// Compare two folders of results
///
/// Compares every metric at every point that both folders have, by the means over their seeds. A difference
/// is marked where the 95 % confidence intervals do not overlap.
#[derive(Debug, Clone, Args)]
pub struct CompareArgs {
    /// A folder that `coalloc sim run` has written
    one: PathBuf,
    /// Another such folder
    other: PathBuf,
    /// Only this metric; the name of a curve selects all of its points
    #[arg(long, value_name = "NAME")]
    metric: Vec<String>,
    /// Only differences that are marked
    #[arg(long)]
    marked: bool,
}

type Values = BTreeMap<(BTreeMap<String, String>, String), Vec<f64>>;

/// Runs the command.
///
/// # Errors
/// When a folder has no results, or they have no point in common.
pub fn run(args: &CompareArgs) -> Result<Answer, Failure> {
    let (one_head, one) = values(&args.one)?;
    let (other_head, other) = values(&args.other)?;
    check_metrics(&args.metric, [&one, &other])?;
    let mut table = text::table(&["POINT", "METRIC", "ONE", "OTHER", "DIFFERENCE", ""]);
    text::align_right(&mut table, &[2, 3, 4]);
    let (mut common, mut marked, mut unsure) = (0_usize, 0_usize, 0_usize);
    let mut all: Vec<_> = one.iter().filter(|((_, name), _)| args.selects(name)).collect();
    // Values of axes, and the points of a curve, follow each other as numbers do.
    all.sort_by(|((one, a), _), ((other, b), _)| {
        let ((a, at), (b, other_at)) = (parts(a), parts(b));
        let x = |x: Option<f64>| x.unwrap_or(f64::NEG_INFINITY);
        by_place(one, other).then_with(|| a.cmp(b)).then(x(at).total_cmp(&x(other_at)))
    });
    for ((point, metric), mine) in all {
        let theirs = other.get(&(point.clone(), metric.clone()));
        let Some((mine, theirs)) =
            Summary::of(mine).zip(theirs.and_then(|theirs| Summary::of(theirs)))
        else {
            continue;
        };
        common += 1;
        let apart = differ(&mine, &theirs);
        marked += usize::from(apart);
        unsure += usize::from(mine.within.is_none() || theirs.within.is_none());
        if args.marked && !apart {
            continue;
        }
        let labels: Vec<String> =
            point.iter().map(|(axis, value)| format!("{axis}={value}")).collect();
        table.add_row([
            labels.join(" "),
            metric.clone(),
            shown(&mine),
            shown(&theirs),
            number(theirs.mean - mine.mean),
            if apart { "*".to_owned() } else { String::new() },
        ]);
    }
    if common == 0 {
        return Err(Failure::bad_input(format!(
            "{} ({}) and {} ({}) have no metric at a point in common",
            args.one.display(),
            one_head.experiment,
            args.other.display(),
            other_head.experiment
        )));
    }
    // Programs that read lines get one for each value.
    let mut out = match std::io::stdout().is_terminal() {
        true => text::finish(&table),
        false => text::finish_wide(table),
    };
    out += &format!(
        "{} in both; {marked} differ by more than their 95 % confidence intervals (*)\n",
        text::count(common, "value")
    );
    if unsure > 0 {
        out += &format!(
            "{unsure} of them have one seed in a folder, and so no interval to judge by\n"
        );
    }
    if one_head.program != other_head.program {
        out += &format!(
            "ONE was made by {}, OTHER by {}: this may explain differences\n",
            one_head.maker(),
            other_head.maker()
        );
    }
    Ok(Answer::done(out))
}

/// The order of two points: axis by axis, numbers as numbers and before words.
fn by_place(one: &BTreeMap<String, String>, other: &BTreeMap<String, String>) -> Ordering {
    let value = |label: &String| label.parse::<f64>().unwrap_or(f64::INFINITY);
    let by_label = |(one, other): (&String, &String)| {
        value(one).total_cmp(&value(other)).then_with(|| one.cmp(other))
    };
    let by_axis = one.iter().zip(other).map(|((axis, label), (other_axis, other_label))| {
        axis.cmp(other_axis).then_with(|| by_label((label, other_label)))
    });
    by_axis.fold(Ordering::Equal, Ordering::then).then(one.len().cmp(&other.len()))
}

impl CompareArgs {
    fn selects(&self, metric: &str) -> bool {
        let (curve, _) = parts(metric);
        self.metric.is_empty() || self.metric.iter().any(|own| own == metric || own == curve)
    }
}

/// Checks that one of the folders has each metric that was named.
fn check_metrics(named: &[String], folders: [&Values; 2]) -> Result<(), Failure> {
    let all = folders.into_iter().flat_map(Values::keys).map(|(_, name)| name.as_str());
    let known: BTreeSet<&str> = all.flat_map(|name| [name, parts(name).0]).collect();
    let Some(unknown) = named.iter().find(|name| !known.contains(name.as_str())) else {
        return Ok(());
    };
    let meant = did_you_mean(unknown, known.iter().copied());
    let curves: Vec<&str> = known.iter().copied().filter(|name| parts(name).0 == *name).collect();
    let curves = curves.join(", ");
    Err(Failure::bad_input(format!(
        "--metric: neither folder has a metric {unknown:?}{meant}; allowed: {curves}"
    )))
}

fn values(folder: &Path) -> Result<(Head, Values), Failure> {
    let (head, runs) = read(folder)?;
    let mut values = Values::new();
    for Run { point, measures, .. } in runs {
        for (name, value) in measures.iter() {
            values.entry((point.clone(), name.to_owned())).or_default().push(value);
        }
    }
    Ok((head, values))
}

fn shown(summary: &Summary) -> String {
    match summary.within {
        Some(within) => format!("{} ± {}", number(summary.mean), number(within)),
        None => number(summary.mean),
    }
}

/// Do the intervals not overlap? With one seed there is no interval, so the answer is no.
fn differ(one: &Summary, other: &Summary) -> bool {
    match (one.within, other.within) {
        (Some(mine), Some(theirs)) => (one.mean - other.mean).abs() > mine + theirs,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn points_follow_each_other_as_numbers_do() {
        let point = |load: &str| {
            let axes = [("load", load), ("by", "a")];
            axes.map(|(axis, label)| (axis.to_owned(), label.to_owned())).into_iter().collect()
        };
        let mut all: Vec<BTreeMap<String, String>> =
            ["none", "10", "2", "-1", "1e3"].map(point).into();
        all.sort_by(by_place);
        let loads: Vec<&str> = all.iter().map(|point| point["load"].as_str()).collect();
        assert_eq!(loads, ["-1", "2", "10", "1e3", "none"]);
    }
}
