//! `coalloc picture`: shows as bars when the amounts of a task are free, path by path and site by site, in
//! a federation file or in a coordinator's picture.

use std::fmt::Write as _;
use std::path::PathBuf;

use clap::Args;
use coalloc_common::{
    AvailabilityVector, BitsPerSecond, Cpus, InvalidField, Slot, SlotGrid, Span, Time, limits,
};
use coalloc_net::convert::{span_from_wire, span_to_wire, time_from_wire, time_to_wire};
use coalloc_plan::multicost::BelievedNetwork;
use coalloc_proto::v1;

use crate::kit::exit::{Answer, Failure};
use crate::kit::rpc::{self, GrcArgs};
use crate::kit::text;
use crate::kit::when::InstantArg;
use crate::user::offline::Federation;
use crate::user::task::{SlotArgs, TaskFile};

/// Width of the columns after a bar: ` 100 %`.
const SHARE_WIDTH: usize = 8;
/// Maximum length of a bar, because nobody counts characters beyond it.
const BAR_MAX: usize = 120;

/// Show the availability vectors on which a task would be planned, as bars
///
/// A vector says for each slot whether the task's rate is free on a path, or its CPUs at a site. Without
/// --federation the vectors come from the picture of a coordinator in distributed mode, with the age of
/// each profile.
#[derive(Debug, Clone, Args)]
pub struct PictureArgs {
    /// The FederationFile (YAML or JSON) with the resources and what is taken
    #[arg(long, value_name = "FILE", conflicts_with = "grc")]
    federation: Option<PathBuf>,
    #[command(flatten)]
    grc: GrcArgs,
    /// The task, a TaskRequest as YAML or JSON; `-` reads standard input
    #[arg(short, long, value_name = "FILE")]
    request: PathBuf,
    /// Replaces the task's `ready`: tomorrow 14:00, now+2h, 2026-11-21T10:00:00Z. Its deadline moves along
    #[arg(long, value_name = "TIME")]
    earliest_start: Option<InstantArg>,
    #[command(flatten)]
    slots: SlotArgs,
    /// Draw with ASCII only
    #[arg(long)]
    ascii: bool,
    /// Print the coordinator's ReadPictureResponse as JSON
    #[arg(long, conflicts_with_all = ["federation", "ascii"])]
    json: bool,
}

/// Characters of a bar: all free, some free, none free.
#[derive(Debug, Clone, Copy)]
struct Ink([char; 3]);

/// Block characters.
const BLOCKS: Ink = Ink(['█', '▒', '·']);
/// For terminals that have only ASCII.
const ASCII: Ink = Ink(['#', '+', '.']);

/// Runs `coalloc picture`.
///
/// # Errors
/// When a file is wrong, or the coordinator cannot be asked.
pub async fn run(args: &PictureArgs) -> Result<Answer, Failure> {
    let now = coalloc_net::clock::now().wall;
    let file = TaskFile::read(&args.request, args.earliest_start.as_ref(), None, now)?;
    let ink = if args.ascii { ASCII } else { BLOCKS };
    let width = usize::from(text::width());
    let Some(path) = &args.federation else { return believed(args, &file, now, width, ink).await };
    let federation = Federation::read(path)?;
    let paper = file.on(&federation, &args.slots.options(), now)?;
    let time = BarTime { from: paper.task.ready, length: paper.options.cut.horizon };
    Ok(Answer::done(draw(&on_paper(&paper.picture), time, width, ink)))
}

/// Availability vectors under a title, each with its name.
struct Group {
    title: String,
    rows: Vec<(String, AvailabilityVector)>,
}

/// The availability vectors of a picture: paths, then sites.
fn on_paper(picture: &BelievedNetwork) -> Vec<Group> {
    let mut rows: Vec<(String, AvailabilityVector)> = Vec::new();
    for pair in picture.links().chunks(2) {
        // The two directions of an edge are listed together; if the same is free in both, they are listed once.
        let same = pair.windows(2).all(|two| two[0].free == two[1].free);
        for (way, link) in [":ab", ":ba"].iter().zip(pair) {
            let name = if same { link.name.to_string() } else { format!("{}{way}", link.name) };
            rows.extend(link.free.first().map(|vector| (name, vector.clone())));
            if same {
                break;
            }
        }
    }
    let (rate, slot) = (picture.rate(), picture.link_grid().slot());
    let paths = Group { title: format!("paths with {rate} free, slots of {slot}"), rows };
    let clusters = picture.clusters().iter();
    let rows = clusters.map(|cluster| (cluster.name.to_string(), cluster.free.clone())).collect();
    let (cpus, slot) = (picture.cpus(), picture.cluster_grid().slot());
    vec![paths, Group { title: format!("sites with {cpus} free, slots of {slot}"), rows }]
}

/// The picture of a coordinator.
async fn believed(
    args: &PictureArgs,
    file: &TaskFile,
    now: Time,
    width: usize,
    ink: Ink,
) -> Result<Answer, Failure> {
    let task = &file.request;
    let ready = task.ready.as_ref().map(|at| time_from_wire("ready", at)).transpose();
    let ready = ready.map_err(|error| file.mistake(&error))?;
    let from = ready.unwrap_or(now);
    let horizon = args.slots.horizon.map_or(limits::TASK_HORIZON_DEFAULT, |length| length.0);
    let slot = args.slots.link_slot.map_or_else(|| slot_of(horizon), |length| length.0);
    let grid = SlotGrid::new(slot).map_err(|error| {
        let error = InvalidField { field: "options.link_slot".to_owned(), ..error };
        file.mistake(&error)
    })?;
    let slots = u32::try_from(grid.slots_for(horizon)).unwrap_or(u32::MAX);
    if slots > limits::PICTURE_SHOWN_SLOTS_MAX {
        let most = limits::PICTURE_SHOWN_SLOTS_MAX;
        let text = format!("--horizon: {horizon} has {slots} slots of {slot}; allowed: {most}");
        return Err(Failure::bad_input(text));
    }
    let cpus = task.cpus.unwrap_or(1);
    let request = v1::ReadPictureRequest {
        bandwidth_bps: task.bandwidth_bps,
        cpus,
        from: Some(time_to_wire(from)),
        slot: Some(span_to_wire(slot)),
        slots,
    };
    let answer = args.grc.connect().await?.read_picture(request).await;
    let answer = answer.map_err(|status| file.failure(&status, rpc::failure(&status)))?;
    let response = answer.into_inner();
    if args.json {
        return Ok(Answer::done(text::json(&response)?));
    }
    let (rate, cpus) = (BitsPerSecond(task.bandwidth_bps), Cpus(cpus));
    let parts = response.parts.iter().map(|part| told(part, grid, from));
    let groups: Result<Vec<Group>, InvalidField> = parts.collect();
    let groups = groups.map_err(|error| Failure::internal(error.to_string()))?;
    let title = format!("{rate} on paths, {cpus} at sites, slots of {slot}\n\n");
    Ok(Answer::done(title + &draw(&groups, BarTime { from, length: horizon }, width, ink)))
}

/// A slot length that divides a horizon into about 960 slots: eight per column.
fn slot_of(horizon: Span) -> Span {
    Span::from_us((horizon.as_us() / 960).max(1))
}

/// The part of the picture that comes from one resource manager, with its age.
fn told(part: &v1::PicturePart, grid: SlotGrid, from: Time) -> Result<Group, InvalidField> {
    let age = part.age.as_ref().map(|age| span_from_wire("age", age)).transpose()?;
    let age = age.map_or("nothing received yet".to_owned(), |age| format!("{} old", about(age)));
    let v1::PicturePart { resource_manager, revision, updates, bytes, ignored, .. } = part;
    let ignored = match ignored {
        0 => String::new(),
        ignored => format!(", {ignored} ignored"),
    };
    let title = format!(
        "{resource_manager}: {age}, revision {revision}, {} of {bytes} bytes{ignored}",
        text::count(*updates as usize, "update"),
    );
    let row = |vector: &v1::PictureVector| {
        let bits = vector.free.chars().map(|bit| bit == '1');
        let vector_of = AvailabilityVector::of_bits(grid, grid.containing(from), bits)?;
        Ok((vector.resource.clone(), vector_of))
    };
    let rows: Result<Vec<_>, InvalidField> = part.vectors.iter().map(row).collect();
    Ok(Group { title, rows: rows? })
}

/// The time that bars show.
#[derive(Debug, Clone, Copy)]
struct BarTime {
    from: Time,
    length: Span,
}

/// Draws one row per vector.
fn draw(groups: &[Group], time: BarTime, width: usize, ink: Ink) -> String {
    let names = groups.iter().flat_map(|group| &group.rows).map(|(name, _)| name.chars().count());
    let label = names.max().unwrap_or(0);
    let columns = width.saturating_sub(label + 3 + SHARE_WIDTH).clamp(10, BAR_MAX);
    // Writing to a String cannot fail, here and below.
    let mut out = String::new();
    for Group { title, rows } in groups {
        let _ = writeln!(out, "{title}:");
        for (name, vector) in rows {
            let (bar, share) = bar(vector, time, columns, ink);
            let _ = writeln!(out, "{name:label$} |{bar}| {share:>3} %");
        }
    }
    let BarTime { from, length } = time;
    let (start, end) = (text::moment_of(from), text::moment_of(from.saturating_add(length)));
    let column = about(Span::from_us(length.as_us() / columns as i64));
    let Ink([all, some, none]) = ink;
    let _ = writeln!(
        out,
        "\nfrom {start} to {end}, a column is {column}: {all} free throughout, {some} in part, {none} not; \
         right: the share that is free"
    );
    out
}

/// A length of time with two leading digits: `47 s`, or `about 47 s` if that is not exact.
fn about(length: Span) -> String {
    let mut unit = 1;
    while length.as_us() / unit >= 100 {
        unit *= 10;
    }
    // Whole seconds read better, even if that keeps an additional digit.
    let unit = if length >= Span::from_secs(1) { unit.min(1_000_000) } else { unit };
    let round = Span::from_us(length.as_us() / unit * unit);
    if round == length { round.to_string() } else { format!("about {round}") }
}

/// The bar of a vector, and how much of it is free, in percent, rounded down.
fn bar(vector: &AvailabilityVector, time: BarTime, columns: usize, ink: Ink) -> (String, usize) {
    let grid = vector.grid();
    let at = |column: usize| {
        let part = i128::from(time.length.as_us()) * column as i128 / columns as i128;
        // This is at most the length.
        grid.containing(time.from.saturating_add(Span::from_us(part as i64))).0
    };
    let (mut free_all, mut slots_all) = (0, 0);
    let mut text = String::new();
    for column in 0..columns {
        // A column that is shorter than a slot shows the slot in which it begins.
        let (first, end) = (at(column), at(column + 1).max(at(column) + 1));
        let slots = (end - first) as usize;
        let free = (first..end).filter(|slot| vector.is_free(Slot(*slot))).count();
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

    #[test]
    fn a_part_of_a_live_picture_says_how_old_it_is() {
        let grid = SlotGrid::new(Span::from_secs(1)).unwrap();
        let from = Time::from_us(100_000_000);
        let vectors = vec![v1::PictureVector { resource: "a-b".into(), free: "1100".into() }];
        let mut part = v1::PicturePart {
            resource_manager: "nrm-N".into(),
            age: Some(span_to_wire(Span::from_millis(1_250))),
            revision: 7,
            updates: 1,
            bytes: 90,
            vectors,
            ..v1::PicturePart::default()
        };
        let group = told(&part, grid, from).unwrap();
        assert_eq!(group.title, "nrm-N: about 1200 ms old, revision 7, 1 update of 90 bytes");
        let text = draw(&[group], BarTime { from, length: Span::from_secs(4) }, 24, ASCII);
        assert!(text.contains("a-b |#####.....|  50 %"), "{text}");
        (part.age, part.ignored) = (None, 2);
        let title = told(&part, grid, from).unwrap().title;
        assert!(
            title.contains("nothing received yet") && title.ends_with(", 2 ignored"),
            "{title}"
        );
    }

    #[test]
    fn a_bar_shows_what_is_free_throughout_in_part_and_not_at_all() {
        let grid = SlotGrid::new(Span::from_secs(1)).unwrap();
        let bits = (0..40).map(|slot| !(8..22).contains(&slot));
        let vector = AvailabilityVector::of_bits(grid, Slot(100), bits).unwrap();
        let from = Time::from_us(100_000_000);
        let over = |s| BarTime { from, length: Span::from_secs(s) };
        assert_eq!(bar(&vector, over(40), 10, BLOCKS), ("██···▒████".to_owned(), 65));
        assert_eq!(bar(&vector, over(40), 40, ASCII).0, "########..............##################");
        // Beyond the end of the vector nothing is known.
        assert_eq!(bar(&vector, over(80), 4, ASCII), ("++..".to_owned(), 32));
        let us = [1_000_000, 46_753_246, 3_600_000_000, 1_234, 7_500_000];
        let texts = us.map(|us| about(Span::from_us(us)));
        assert_eq!(texts, ["1 s", "about 46 s", "1 h", "about 1200 us", "7500 ms"]);
        // Here the columns are shorter than a slot.
        assert_eq!(bar(&vector, over(2), 4, ASCII).0, "####");
    }
}
