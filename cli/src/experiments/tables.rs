//! Results as CSV: one line for each metric of each point.

use std::fmt::Write as _;

use coalloc_sim::experiment::Results;
use coalloc_sim::experiment::measures::parts;

use crate::kit::output::csv_field;

/// The results as lines of `axis,..,metric,x,seeds,mean,ci95`.
///
/// x is empty unless the metric is a curve. ci95 (half the width of the confidence interval) is empty
/// unless there are two seeds.
#[must_use]
pub fn csv(results: &Results) -> String {
    let axes = results.points.first().map(|point| &point.labels[..]).unwrap_or_default();
    let mut text: String = axes.iter().map(|(axis, _)| format!("{},", csv_field(axis))).collect();
    text += "metric,x,seeds,mean,ci95\n";
    let names = results.names();
    for (index, point) in results.points.iter().enumerate() {
        let place: String =
            point.labels.iter().map(|(_, label)| format!("{},", csv_field(label))).collect();
        for name in &names {
            let xs = results.curve(index, name);
            let own = [(name.clone(), None)];
            let all = xs.iter().map(|x| (format!("{name}@{x}"), Some(*x))).chain(own);
            for (full, x) in all {
                let Some(summary) = results.summary(index, &full) else { continue };
                let x = x.map(|x| x.to_string()).unwrap_or_default();
                let within = summary.within.map(|w| w.to_string()).unwrap_or_default();
                // Writing to a String cannot fail.
                let _ = writeln!(
                    text,
                    "{place}{},{x},{},{},{within}",
                    csv_field(parts(&full).0),
                    summary.count,
                    summary.mean
                );
            }
        }
    }
    text
}
