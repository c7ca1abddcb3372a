//! `coalloc picture`: when the amounts of a task are free, path by path and site by site, as bars.

use std::fmt::Write as _;
use std::path::PathBuf;

use clap::Args;
use coalloc_common::{AvailabilityVector, Span, Time};
use coalloc_plan::multicost::Picture;

use crate::exit::{Answer, Failure};
use crate::offline::Federation;
use crate::task::{SlotArgs, TaskFile};
use crate::text;
use crate::when::When;

/// Columns behind a bar: ` 100 %`.
const SHARE_WIDTH: usize = 8;
/// Bars are not longer than this: beyond it nobody counts.
const BAR_MAX: usize = 120;

/// Show what a task would be planned on: its availability vectors, as bars
///
/// A vector says slot by slot whether the task's rate is free on a path, or its CPUs at a site.
#[derive(Debug, Clone, Args)]
pub struct PictureArgs {
    /// The FederationFile (YAML or JSON): what there is and what is taken
    #[arg(long, value_name = "FILE")]
    federation: PathBuf,
    /// The task, a TaskRequest as YAML or JSON; `-` reads standard input
    #[arg(short, long, value_name = "FILE")]
    request: PathBuf,
    /// Replaces the task's `ready`: 2026-11-21T10:00:00Z, now, now+2h. Its deadline moves along
    #[arg(long, value_name = "TIME")]
    earliest_start: Option<When>,
    #[command(flatten)]
    slots: SlotArgs,
    /// Draw with ASCII only
    #[arg(long)]
    ascii: bool,
}

/// Characters of a bar: all free, some, none.
#[derive(Debug, Clone, Copy)]
struct Ink([char; 3]);

/// Blocks.
const BLOCKS: Ink = Ink(['█', '▒', '·']);
/// For terminals that have only ASCII.
const ASCII: Ink = Ink(['#', '+', '.']);

/// Runs `coalloc picture`.
///
/// # Errors
/// When a file is wrong.
pub fn run(args: &PictureArgs) -> Result<Answer, Failure> {
    let now = coalloc_net::clock::now().wall;
    let federation = Federation::read(&args.federation)?;
    let file = TaskFile::read(&args.request, args.earliest_start, None, now)?;
    let paper = file.on(&federation, &args.slots.options(), now)?;
    let ink = if args.ascii { ASCII } else { BLOCKS };
    let width = usize::from(text::width());
    Ok(Answer::done(draw(&paper.picture, paper.task.ready, paper.options.horizon, width, ink)))
}

/// One row a vector.
fn draw(picture: &Picture, from: Time, horizon: Span, width: usize, ink: Ink) -> String {
    let mut rows: Vec<(String, &AvailabilityVector)> = Vec::new();
    for pair in picture.links().chunks(2) {
        // Both directions of an edge stand side by side; where they share what is free, once.
        let same = pair.windows(2).all(|two| two[0].free == two[1].free);
        for (way, link) in [":ab", ":ba"].iter().zip(pair) {
            let name = if same { link.name.to_string() } else { format!("{}{way}", link.name) };
            rows.extend(link.free.first().map(|vector| (name, vector)));
            if same {
                break;
            }
        }
    }
    let links = rows.len();
    let clusters = picture.clusters().iter();
    rows.extend(clusters.map(|cluster| (cluster.name.to_string(), &cluster.free)));
    let label = rows.iter().map(|(name, _)| name.chars().count()).max().unwrap_or(0);
    let columns = width.saturating_sub(label + 3 + SHARE_WIDTH).clamp(10, BAR_MAX);
    let (rate, cpus) = (picture.rate(), picture.cpus());
    // Writing to a String cannot fail, here and below.
    let mut out = String::new();
    let title = |out: &mut String, what: &str, slot: Span| {
        let _ = writeln!(out, "{what}, slots of {slot}:");
    };
    for (index, (name, vector)) in rows.iter().enumerate() {
        if index == 0 && links > 0 {
            title(&mut out, &format!("paths with {rate} free"), picture.link_grid().slot());
        }
        if index == links {
            title(&mut out, &format!("sites with {cpus} free"), picture.cluster_grid().slot());
        }
        let (bar, share) = bar(vector, (from, horizon), columns, ink);
        let _ = writeln!(out, "{name:label$} |{bar}| {share:>3} %");
    }
    let end = from.saturating_add(horizon);
    let column = about(Span::from_us(horizon.as_us() / columns as i64));
    let Ink([all, some, none]) = ink;
    let _ = writeln!(
        out,
        "\nfrom {from} to {end}, a column is {column}: {all} free throughout, {some} in part, {none} not; \
         right: the share that is free"
    );
    out
}

/// A length with its two leading digits: `47 s`, or `about 47 s` when that is not all of it.
fn about(length: Span) -> String {
    let mut unit = 1;
    while length.as_us() / unit >= 100 {
        unit *= 10;
    }
    // Whole seconds read better than a digit less.
    let unit = if length >= Span::from_secs(1) { unit.min(1_000_000) } else { unit };
    let round = Span::from_us(length.as_us() / unit * unit);
    if round == length { round.to_string() } else { format!("about {round}") }
}

/// The bar of a vector, and how much of it is free, in percent, rounded down.
fn bar(
    vector: &AvailabilityVector,
    (from, horizon): (Time, Span),
    columns: usize,
    ink: Ink,
) -> (String, usize) {
    let grid = vector.grid();
    let at = |column: usize| {
        let part = i128::from(horizon.as_us()) * column as i128 / columns as i128;
        // At most the horizon.
        grid.containing(from.saturating_add(Span::from_us(part as i64))).0
    };
    let (mut free_all, mut slots_all) = (0, 0);
    let mut text = String::new();
    for column in 0..columns {
        // A column shorter than a slot shows the slot that it begins in.
        let (first, end) = (at(column), at(column + 1).max(at(column) + 1));
        let slots = (end - first) as usize;
        let free = (first..end).filter(|slot| vector.is_free(coalloc_common::Slot(*slot))).count();
        (free_all, slots_all) = (free_all + free, slots_all + slots);
        let Ink([all, some, none]) = ink;
        text.push(if free == slots {
            all
        } else if free > 0 {
            some
        } else {
            none
        });
    }
    (text, free_all * 100 / slots_all.max(1))
}

#[cfg(test)]
mod tests {
    use super::*;
    use coalloc_common::{Slot, SlotGrid};

    #[test]
    fn a_bar_shows_what_is_free_throughout_in_part_and_not_at_all() {
        let grid = SlotGrid::new(Span::from_secs(1)).unwrap();
        let bits = (0..40).map(|slot| !(8..22).contains(&slot));
        let vector = AvailabilityVector::of_bits(grid, Slot(100), bits).unwrap();
        let from = Time::from_us(100_000_000);
        let whole = (from, Span::from_secs(40));
        assert_eq!(bar(&vector, whole, 10, BLOCKS), ("██···▒████".to_owned(), 65));
        assert_eq!(bar(&vector, whole, 40, ASCII).0, "########..............##################");
        // Beyond its end nothing is known.
        let beyond = (from, Span::from_secs(80));
        assert_eq!(bar(&vector, beyond, 4, ASCII), ("++..".to_owned(), 32));
        let us = [1_000_000, 46_753_246, 3_600_000_000, 1_234, 7_500_000];
        let texts = us.map(|us| about(Span::from_us(us)));
        assert_eq!(texts, ["1 s", "about 46 s", "1 h", "about 1200 us", "7500 ms"]);
        // Columns shorter than a slot.
        assert_eq!(bar(&vector, (from, Span::from_secs(2)), 4, ASCII).0, "####");
    }
}
