//! `coalloc sim gantt`: draws the reservation timetable of sites and links from the trace of a run, as
//! text, SVG and PNG.
//!
//! A trace is what `coalloc sim run --trace` writes: one event per line; the last line says that the trace
//! is complete. In the drawing, each reservation is a box in the row of its resource, as high as the share
//! that it takes. Boxes of one request have the same colour.

use std::collections::BTreeSet;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use clap::Args;
use coalloc_common::{Amount, Span, Time, Window};
use coalloc_sim::experiment::TraceEvent;
use coalloc_sim::experiment::judge::number;
use coalloc_sim::experiment::trace::TracedResource;

use super::png;
use crate::kit::drawing::{Anchor, COLOURS, Drawing, ticks};
use crate::kit::exit::{Answer, Failure};
use crate::kit::font::widest;
use crate::kit::gantt::{ASCII, BLOCKS, Row, draw_marked};
use crate::kit::{svg, text, whole};

/// What the command reads.
const TRACE: &str = "a trace that `coalloc sim run --trace` has written";

/// Draw the timetable of sites and links from the trace of a run
#[derive(Debug, Clone, Args)]
#[command(after_help = "Example:\n  \
    coalloc sim run takefusa-fig7 --small --out fig7 --trace day.jsonl\n  \
    coalloc sim gantt day.jsonl --svg day.svg --png day.png")]
pub struct GanttArgs {
    /// A trace that `coalloc sim run --trace` has written
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// Write the drawing to this file, as SVG
    #[arg(long, value_name = "FILE")]
    svg: Option<PathBuf>,
    /// Write the drawing to this file, as PNG
    #[arg(long, value_name = "FILE")]
    png: Option<PathBuf>,
    /// Width from the first start to the last end in the drawing, in pixels
    #[arg(long, value_name = "PIXELS", default_value_t = 1_000, value_parser = clap::value_parser!(u16).range(200..=10_000))]
    width: u16,
    /// Only resources whose name contains this text
    #[arg(long, value_name = "TEXT")]
    only: Option<String>,
    /// Draw without block characters
    #[arg(long)]
    ascii: bool,
}

/// One reservation of a resource, in microseconds of the trace.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Bar {
    request: u64,
    amount: u64,
    start: i64,
    end: i64,
}

/// One resource and its reservations.
#[derive(Debug, Clone, PartialEq)]
struct Lane {
    name: String,
    kind: TracedResource,
    capacity: u64,
    bars: Vec<Bar>,
}

/// Runs the command.
///
/// # Errors
/// When the trace cannot be read, is cut off, or contains nothing to draw.
pub fn run(args: &GanttArgs) -> Result<Answer, Failure> {
    refuse_other_format("--svg", args.svg.as_deref(), "svg")?;
    refuse_other_format("--png", args.png.as_deref(), "png")?;
    let mut lanes = read(&args.file)?;
    if let Some(only) = &args.only {
        let names: BTreeSet<String> = lanes.iter().map(|lane| lane.name.clone()).collect();
        lanes.retain(|lane| lane.name.contains(only.as_str()));
        if lanes.is_empty() {
            let names = text::enumerate(&names.into_iter().collect::<Vec<_>>());
            return Err(Failure::bad_input(format!(
                "--only {only}: no resource of the trace has this in its name; allowed: a part of {names}"
            )));
        }
    }
    lanes.retain(|lane| !lane.bars.is_empty());
    let path = args.file.display();
    let Some((start, end)) = extent(&lanes) else {
        return Err(Failure::bad_input(format!(
            "{path}: nothing was reserved that could be drawn"
        )));
    };
    let mut out = in_text(&lanes, start, end, args.ascii);
    if args.svg.is_some() || args.png.is_some() {
        let drawn = picture(&lanes, start, end, f64::from(args.width));
        let is_trace = |file: &PathBuf| file.canonicalize().ok() == args.file.canonicalize().ok();
        if let Some(file) = [&args.svg, &args.png].into_iter().flatten().find(|file| is_trace(file))
        {
            let problem = "is the trace itself; choose another file; nothing was overwritten";
            return Err(Failure::bad_input(format!("{}: {problem}", file.display())));
        }
        let named = |option: &str, file: &Path, problem: &dyn std::fmt::Display| {
            Failure::bad_input(format!("{option} {}: {problem}", file.display()))
        };
        if let (Some(svg), Some(png)) = (&args.svg, &args.png)
            && whole::place(svg) == whole::place(png)
        {
            let problem = "is also the file of --svg; choose another one; nothing was written";
            return Err(named("--png", png, &problem));
        }
        // Both drawings are made before the first one is written.
        let mut files = Vec::new();
        if let Some(file) = &args.svg {
            files.push(("--svg", file, svg::svg(&drawn).into_bytes()));
        }
        if let Some(file) = &args.png {
            let bytes = png::png(&drawn).map_err(|error| named("--png", file, &error))?;
            files.push(("--png", file, bytes));
        }
        for (option, file, bytes) in files {
            whole::write(file, &bytes).map_err(|error| named(option, file, &error))?;
            out += &format!("\n{}\n", file.display());
        }
    }
    Ok(Answer::done(out))
}

/// Refuses a file whose name says that it is a drawing of the other format.
fn refuse_other_format(option: &str, file: Option<&Path>, format: &str) -> Result<(), Failure> {
    let Some(file) = file else { return Ok(()) };
    let said = file.extension().map(|own| own.to_string_lossy().to_lowercase());
    match said.as_deref() {
        Some(other @ ("svg" | "png")) if other != format => Err(Failure::bad_input(format!(
            "{option} {}: the name ends in .{other}, and the drawing is in {format}; \
             write --{other} for that, or a name that ends in .{format}; nothing was written",
            file.display()
        ))),
        _ => Ok(()),
    }
}

fn read(path: &Path) -> Result<Vec<Lane>, Failure> {
    let shown = path.display();
    let bytes = std::fs::read(path).map_err(|error| {
        let problem = match error.kind() {
            ErrorKind::NotFound => format!("there is no such file; needed: {TRACE}"),
            ErrorKind::IsADirectory => format!("is a folder; needed: {TRACE}"),
            _ => error.to_string(),
        };
        Failure::bad_input(format!("{shown}: {problem}"))
    })?;
    let lines = bytes.strip_suffix(b"\n").unwrap_or(&bytes).split(|byte| *byte == b'\n');
    let mut lanes: Vec<Lane> = Vec::new();
    let (mut events, mut is_whole) = (0_u64, false);
    for (number, line) in (1_u64..).zip(lines) {
        if is_whole {
            let problem = "this line follows the end of the trace";
            return Err(Failure::bad_input(format!("{shown}:{number}: {problem}")));
        }
        let event: TraceEvent<'_> = serde_json::from_slice(line).map_err(|error| {
            let said = error.to_string();
            let said = said.split(" at line ").next().unwrap_or_default();
            let problem = match (number, error.is_eof()) {
                _ if bytes.is_empty() => "the file is empty".to_owned(),
                (_, true) => format!("the trace is cut off here: {said}"),
                (1, false) => format!("is no line of a trace: {said}"),
                (_, false) => said.to_owned(),
            };
            let needed = if number == 1 { format!("; needed: {TRACE}") } else { String::new() };
            Failure::bad_input(format!("{shown}:{number}: {problem}{needed}"))
        })?;
        match &event {
            TraceEvent::TraceEnds { events: said } if *said == events => is_whole = true,
            TraceEvent::TraceEnds { events: said } => {
                return Err(Failure::bad_input(format!(
                    "{shown}:{number}: events: this line counts {said} lines before it, but there \
                     are {events}"
                )));
            }
            _ => take(&mut lanes, event, &format!("{shown}:{number}"))?,
        }
        events += 1;
    }
    if !is_whole {
        return Err(Failure::bad_input(format!(
            "{shown}:{}: the trace is cut off: its last line, trace_ends, is missing; run it again",
            events.max(1)
        )));
    }
    Ok(lanes)
}

fn take(lanes: &mut Vec<Lane>, event: TraceEvent<'_>, place: &str) -> Result<(), Failure> {
    let unknown = |resource: &str| {
        Failure::bad_input(format!("{place}: resource: no earlier line describes {resource}"))
    };
    match event {
        TraceEvent::Resource { resource, kind, capacity } => {
            lanes.push(Lane { name: resource.into_owned(), kind, capacity, bars: Vec::new() });
        }
        TraceEvent::Reserved { request, resource, amount, start, end, .. } => {
            let lane = lanes.iter_mut().find(|lane| lane.name == resource);
            let lane = lane.ok_or_else(|| unknown(&resource))?;
            if start >= end {
                let message = format!("{place}: end: {end} is not after the start, {start}");
                return Err(Failure::bad_input(message));
            }
            lane.bars.push(Bar { request, amount, start, end });
        }
        TraceEvent::Released { request, resource, start, .. } => {
            let lane = lanes.iter_mut().find(|lane| lane.name == resource);
            let lane = lane.ok_or_else(|| unknown(&resource))?;
            lane.bars.retain(|bar| bar.request != request || bar.start != start);
        }
        _ => {}
    }
    Ok(())
}

/// The first start and the last end.
fn extent(lanes: &[Lane]) -> Option<(i64, i64)> {
    let bars = || lanes.iter().flat_map(|lane| &lane.bars);
    Some((bars().map(|bar| bar.start).min()?, bars().map(|bar| bar.end).max()?))
}

/// Draws the whole trace. The marks are times since the start of the simulation.
fn in_text(lanes: &[Lane], start: i64, end: i64, ascii: bool) -> String {
    const SECOND_US: i64 = 1_000_000;
    // Marks are then at whole hours or minutes.
    let unit = match end - start {
        length if length > 6 * 3_600 * SECOND_US => 3_600 * SECOND_US,
        length if length > 360 * SECOND_US => 60 * SECOND_US,
        _ => SECOND_US,
    };
    let from = Time::from_us(start - start.rem_euclid(unit));
    let Some(window) = Window::new(from, Time::from_us(end)) else { return String::new() };
    let row = |lane: &Lane| {
        let window = |bar: &Bar| {
            Window::new(Time::from_us(bar.start), Time::from_us(bar.end.max(bar.start + 1)))
        };
        let taken = lane.bars.iter().filter_map(|bar| Some((window(bar)?, Amount(bar.amount))));
        Row { name: lane.name.clone(), capacity: lane.capacity, taken: taken.collect() }
    };
    let rows: Vec<Row> = lanes.iter().map(row).collect();
    let ink = if ascii { ASCII } else { BLOCKS };
    let mark = |time: Time| {
        let (s, is_exact) = (time.as_us().div_euclid(SECOND_US), unit == SECOND_US);
        let seconds = if is_exact { format!(":{:02}", s % 60) } else { String::new() };
        format!("{}:{:02}{seconds}", s / 3_600, s / 60 % 60)
    };
    let width = usize::from(text::width());
    let mut out = draw_marked(window, &rows, width, ink, Span::ZERO, &mark);
    let format = if unit == SECOND_US { "hours:minutes:seconds" } else { "hours:minutes" };
    let bars = || lanes.iter().flat_map(|lane| &lane.bars);
    let requests: BTreeSet<u64> = bars().map(|bar| bar.request).collect();
    // A request has a segment on each resource that it takes.
    out += &format!(
        "times since the start of the simulation, {format}\n{} of {} on {}\n",
        text::count(bars().count(), "segment"),
        text::count(requests.len(), "request"),
        text::count(lanes.len(), "resource")
    );
    out
}

/// Height of the row of a site, and of a link.
const SITE: f64 = 34.0;
const LINK: f64 = 18.0;
/// In a drawing of few resources, rows are so much higher.
const FEW_LANES: usize = 4;
const FEW_LANES_FACTOR: f64 = 1.6;
const TOP: f64 = 34.0;
const TITLE: &str = "What is reserved, by resource; the height of a row is its capacity";

fn picture(lanes: &[Lane], start: i64, end: i64, wide: f64) -> Drawing {
    let is_site = |lane: &Lane| lane.kind == TracedResource::Site;
    let factor = if lanes.len() > FEW_LANES { 1.0 } else { FEW_LANES_FACTOR };
    let height = |lane: &Lane| factor * if is_site(lane) { SITE } else { LINK };
    let letters = |lane: &Lane| if is_site(lane) { 12.0 } else { 10.0 };
    let names = lanes.iter().map(|lane| widest([lane.name.as_str()], letters(lane)));
    let left = names.fold(0.0, f64::max) + 14.0;
    let bottom = TOP + lanes.iter().map(|lane| height(lane) + 3.0).sum::<f64>();
    let mut picture =
        Drawing::new((left + wide).max(14.0 + widest([TITLE], 13.0)) + 24.0, bottom + 30.0);
    let length = (end - start).max(1) as f64;
    let x = |at: f64| left + (at - start as f64) / length * wide;
    picture.text((14.0, 20.0), TITLE, 13.0, Anchor::Start);
    let mut top = TOP;
    for lane in lanes {
        let high = height(lane);
        picture.rect((left, top), (wide, high), "#f3f3f3", "");
        let place = (left - 6.0, top + high / 2.0 + 4.0);
        picture.text(place, &lane.name, letters(lane), Anchor::End);
        top += high + 3.0;
    }
    // The unit is hours if there are several of them, otherwise seconds.
    let (unit, name) = if length > 4.0 * 3600e6 { (3600e6, "h") } else { (1e6, "s") };
    for tick in ticks(start as f64 / unit, end as f64 / unit, (wide / 80.0) as usize) {
        let at = x(tick * unit);
        picture.line((at, TOP), (at, bottom), "#dddddd", 1.0);
        let text = format!("{} {name}", number(tick));
        picture.text((at, bottom + 16.0), &text, 11.0, Anchor::Middle);
    }
    let mut top = TOP;
    for lane in lanes {
        let high = height(lane);
        for (bar, below) in stacked(&lane.bars) {
            let share = |amount: u64| amount as f64 / lane.capacity.max(1) as f64 * high;
            let (from, to) = (x(bar.start as f64), x(bar.end as f64));
            let corner = (from, top + high - share(below + bar.amount));
            let size = ((to - from).max(0.4), (share(bar.amount) - 0.4).max(0.2));
            // The colour follows the request's number, so that neighbours differ.
            let colour = COLOURS[(bar.request % COLOURS.len() as u64) as usize];
            let title = format!("request {}: {} of {}", bar.request, bar.amount, lane.name);
            picture.rect(corner, size, colour, &title);
        }
        top += high + 3.0;
    }
    picture
}

/// Splits each bar into pieces, each with the amount below it.
///
/// At every instant the bars are stacked in the order in which they started, so a row is never higher than
/// the amount taken. A piece ends where the amount below it changes.
fn stacked(bars: &[Bar]) -> Vec<(Bar, u64)> {
    let mut bars = bars.to_vec();
    bars.sort_by_key(|bar| (bar.start, bar.request));
    let mut instants: Vec<i64> = bars.iter().flat_map(|bar| [bar.start, bar.end]).collect();
    instants.sort_unstable();
    instants.dedup();
    let mut pieces: Vec<(Bar, u64)> = Vec::with_capacity(bars.len());
    // For each bar, its piece that continues.
    let mut open: Vec<Option<usize>> = vec![None; bars.len()];
    for stretch in instants.windows(2) {
        let (start, end) = (stretch[0], stretch[1]);
        let mut below = 0;
        for (bar, open) in bars.iter().zip(&mut open) {
            if bar.end <= start || bar.start >= end {
                continue;
            }
            match open.filter(|piece| pieces[*piece].1 == below) {
                Some(piece) => pieces[piece].0.end = end,
                None => {
                    *open = Some(pieces.len());
                    pieces.push((Bar { start, end, ..*bar }, below));
                }
            }
            below += bar.amount;
        }
    }
    pieces
}

#[cfg(test)]
mod tests {
    use super::*;

    const RESOURCE: &str = r#"{"event":"resource","resource":"N0","kind":"site","capacity":8}"#;
    const RESERVED: &str =
        r#"{"event":"reserved","at":1,"request":0,"resource":"N0","amount":4,"start":0,"end":10}"#;

    fn read_text(text: &str) -> Result<Vec<Lane>, String> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("t.jsonl");
        std::fs::write(&path, text).unwrap();
        let name = path.display().to_string();
        read(&path).map_err(|failure| failure.message.replace(&name, "t.jsonl"))
    }

    #[test]
    fn a_drawing_is_not_written_under_the_name_of_another_format() {
        let refuse =
            |option, name: &str, format| refuse_other_format(option, Some(Path::new(name)), format);
        let error = refuse("--svg", "day.PNG", "svg").unwrap_err().message;
        assert!(error.starts_with("--svg day.PNG: the name ends in .png"), "{error}");
        assert!(refuse("--png", "day.svg", "png").is_err());
        for name in ["day.svg", "day", "/dev/stdout", "day.txt"] {
            assert!(refuse("--svg", name, "svg").is_ok(), "{name}");
        }
    }

    #[test]
    fn a_trace_that_is_cut_off_is_refused_with_its_line() {
        let whole = format!("{RESOURCE}\n{RESERVED}\n{{\"event\":\"trace_ends\",\"events\":2}}\n");
        assert_eq!(read_text(&whole).unwrap()[0].bars.len(), 1);
        let cases = [
            (whole.len() - 2, "t.jsonl:3: the trace is cut off here"),
            (RESOURCE.len() + 1 + RESERVED.len() + 1, "t.jsonl:2: the trace is cut off: its last"),
            (RESOURCE.len() + 20, "t.jsonl:2: the trace is cut off here"),
            (0, "t.jsonl:1: the file is empty; needed: a trace"),
        ];
        for (length, said) in cases {
            let error = read_text(&whole[..length]).unwrap_err();
            assert!(error.starts_with(said), "{error}");
        }
        let lost = format!("{RESOURCE}\n{{\"event\":\"trace_ends\",\"events\":2}}\n");
        assert!(
            read_text(&lost).unwrap_err().contains("counts 2 lines before it, but there are 1")
        );
        let alien = whole.replacen("N0", "N1", 1);
        assert!(
            read_text(&alien)
                .unwrap_err()
                .contains("t.jsonl:2: resource: no earlier line describes N0")
        );
    }

    #[test]
    fn boxes_of_one_time_stand_upon_one_another_and_fall_when_one_ends() {
        let bar = |request, start, end, amount| Bar { request, amount, start, end };
        let pieces = stacked(&[bar(0, 0, 10, 2), bar(1, 5, 15, 3), bar(2, 10, 20, 2)]);
        let expected = [
            (bar(0, 0, 10, 2), 0),
            (bar(1, 5, 10, 3), 2),
            (bar(1, 10, 15, 3), 0),
            (bar(2, 10, 15, 2), 3),
            (bar(2, 15, 20, 2), 0),
        ];
        assert_eq!(pieces, expected);
    }
}
