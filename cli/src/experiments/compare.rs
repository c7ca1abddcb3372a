//! `coalloc sim compare`: compares two folders of results.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use clap::Args;
use coalloc_sim::experiment::Summary;
use coalloc_sim::experiment::judge::number;

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
    let (one_head, one) = values(&args.one, &args.metric)?;
    let (other_head, other) = values(&args.other, &args.metric)?;
    let mut table = text::table(&["POINT", "METRIC", "ONE", "OTHER", "DIFFERENCE", ""]);
    text::align_right(&mut table, &[2, 3, 4]);
    let (mut common, mut marked) = (0_u64, 0_u64);
    for ((point, metric), mine) in &one {
        let theirs = other.get(&(point.clone(), metric.clone()));
        let Some((mine, theirs)) =
            Summary::of(mine).zip(theirs.and_then(|theirs| Summary::of(theirs)))
        else {
            continue;
        };
        common += 1;
        let apart = differ(&mine, &theirs);
        marked += u64::from(apart);
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
    let mut out = text::finish(&table);
    out += &format!(
        "{common} values in both; {marked} differ by more than their 95 % confidence intervals (*)\n"
    );
    if one_head.program != other_head.program {
        out += &format!(
            "ONE was made by {}, OTHER by {}: this may explain differences\n",
            one_head.maker(),
            other_head.maker()
        );
    }
    Ok(Answer::done(out))
}

fn values(folder: &Path, metrics: &[String]) -> Result<(Head, Values), Failure> {
    let (head, runs) = read(folder)?;
    let mut values = Values::new();
    for Run { point, measures, .. } in runs {
        for (name, value) in measures.iter() {
            let (curve, _) = coalloc_sim::experiment::measures::parts(name);
            if metrics.is_empty() || metrics.iter().any(|own| own == name || own == curve) {
                values.entry((point.clone(), name.to_owned())).or_default().push(value);
            }
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
