//! A Gantt chart in text: one row per resource, one column per stretch of time, one block per fill level.

use std::fmt::Write as _;

use coalloc_common::{Amount, Span, Time, Window};
use jiff::tz::TimeZone;

use crate::kit::zone::ZoneClock;

/// The bookings of one row.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Row {
    /// The resource.
    pub name: String,
    /// Its capacity.
    pub capacity: u64,
    /// The windows in which it is booked, with the amounts.
    pub taken: Vec<(Window, Amount)>,
}

/// Characters for fill levels: nothing, then increasing levels up to (nearly) everything, and one for
/// overbooked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ink {
    fills: &'static str,
    too_much: char,
}

/// Blocks in steps of one eighth.
pub const BLOCKS: Ink = Ink { fills: " ▁▂▃▄▅▆▇█", too_much: '!' };
/// For terminals that have only ASCII.
pub const ASCII: Ink = Ink { fills: " .:-=+*#%@", too_much: '!' };

const DAY: i64 = 86_400;
/// Lengths that a column may stand for, in seconds.
const COLUMNS: [i64; 21] = [
    1,
    2,
    5,
    10,
    30,
    60,
    300,
    600,
    900,
    1_200,
    1_800,
    3_600,
    2 * 3_600,
    4 * 3_600,
    12 * 3_600,
    DAY,
    2 * DAY,
    7 * DAY,
    14 * DAY,
    28 * DAY,
    56 * DAY,
];
/// Lengths from one mark of the head line to the next, in seconds.
const MARKS: [i64; 21] = [
    10,
    20,
    30,
    60,
    300,
    600,
    1_800,
    3_600,
    2 * 3_600,
    3 * 3_600,
    4 * 3_600,
    6 * 3_600,
    12 * 3_600,
    DAY,
    2 * DAY,
    4 * DAY,
    7 * DAY,
    14 * DAY,
    28 * DAY,
    56 * DAY,
    112 * DAY,
];
/// Minimum number of columns between two marks of the head line.
const MARK_GAP: i64 = 6;
/// Width of the text after the chart: ` 100 %`.
const PEAK_WIDTH: usize = 6;

/// As [`draw`], for the day from `start`, in this zone.
#[must_use]
pub fn draw_day(start: Time, rows: &[Row], width: usize, ink: Ink, zone: TimeZone) -> String {
    let day = Window::starting(start, Span::from_secs(DAY));
    let clock = ZoneClock::new(zone, start);
    day.map_or_else(String::new, |day| draw(day, rows, width, ink, &clock))
}

/// Draws rows over a window, within `width` columns, with times by this clock: longer than a day, with days. Rows without
/// bookings are left out. The last column may end after the window.
#[must_use]
pub fn draw(window: Window, rows: &[Row], width: usize, ink: Ink, clock: &ZoneClock) -> String {
    let day = Span::from_secs(DAY);
    let (mark, least): (&dyn Fn(Time) -> String, _) = match window.length() > day {
        true => (&|time| clock.day(time), day),
        false => (&|time| clock.time_of_day(time), Span::ZERO),
    };
    draw_marked(window, rows, width, ink, least, mark)
}

/// As [`draw`], with these marks in the head line, which are at least `apart` from one another.
pub fn draw_marked(
    window: Window,
    rows: &[Row],
    width: usize,
    ink: Ink,
    apart: Span,
    mark: &dyn Fn(Time) -> String,
) -> String {
    let rows: Vec<&Row> = rows.iter().filter(|row| !row.taken.is_empty()).collect();
    if rows.is_empty() {
        return String::new();
    }
    let label = rows.iter().map(|row| row.name.chars().count()).max().unwrap_or(0);
    let length = (window.length().as_us() / 1_000_000).max(1);
    let seconds = column_seconds(length, width.saturating_sub(label + 3 + PEAK_WIDTH));
    let (start, column) = (window.start(), Span::from_secs(seconds));
    let mut out = format!("{:label$}  {}\n", "", head(start, length, seconds, apart, mark));
    for row in &rows {
        let columns = 0..columns(length, seconds);
        let fills: Vec<u64> = columns.map(|at| row.fill(start, column, at)).collect();
        let bar: String = fills.iter().map(|fill| ink.of(*fill, row.capacity)).collect();
        let percent = u128::from(fills.iter().copied().max().unwrap_or(0)) * 100
            / u128::from(row.capacity.max(1));
        // Writing to a String cannot fail, here and below.
        let _ = writeln!(out, "{:label$} |{bar}|{percent:>4} %", row.name);
    }
    let samples: Vec<String> = ink.fills.chars().skip(1).map(String::from).collect();
    let _ = writeln!(
        out,
        "a column is {column}, filled to the most that is booked in it: {}\n\
         right: the most in any column; resources without a booking are left out",
        samples.concat()
    );
    out
}

/// How many columns a length of time has.
const fn columns(length: i64, seconds: i64) -> i64 {
    (length + seconds - 1) / seconds
}

/// The shortest column length with which this length of time fits into the width.
fn column_seconds(length: i64, width: usize) -> i64 {
    let fits = |seconds: &i64| columns(length, *seconds) as usize <= width;
    COLUMNS.into_iter().find(fits).unwrap_or(COLUMNS[COLUMNS.len() - 1])
}

/// The head line, `08:00 ... 11:00 ...`, with each mark above the column that begins at that time.
fn head(
    start: Time,
    length: i64,
    seconds: i64,
    apart: Span,
    mark: &dyn Fn(Time) -> String,
) -> String {
    let least = apart.as_us() / 1_000_000;
    // Of times that rise, the last is the longest.
    let longest = mark(start.saturating_add(Span::from_secs(length))).chars().count() as i64;
    let gap = MARK_GAP.max(longest + 1);
    let is_wide = |step: &i64| *step >= least && step % seconds == 0 && step / seconds >= gap;
    let step = MARKS.into_iter().find(is_wide).unwrap_or(length.max(seconds));
    let mut line = String::new();
    for at in (0..length).step_by(step as usize) {
        let mark = mark(start.saturating_add(Span::from_secs(at)));
        let _ = write!(line, "{mark:width$}", width = (step / seconds) as usize);
    }
    line.trim_end().to_owned()
}

impl Row {
    /// The largest amount that is booked at any instant of a column.
    fn fill(&self, start: Time, column: Span, at: i64) -> u64 {
        let from = start.saturating_add(column.saturating_mul(at));
        let Some(column) = Window::starting(from, column) else { return 0 };
        let inside: Vec<_> =
            self.taken.iter().filter(|(window, _)| window.overlaps(column)).collect();
        // The level only rises where a window starts, so it is enough to check these instants and the
        // column's start.
        let starts = inside.iter().map(|(window, _)| window.start().max(column.start()));
        let level = |instant: Time| -> u64 {
            let covering = inside
                .iter()
                .filter(|(window, _)| window.start() <= instant && instant < window.end());
            covering.map(|(_, amount)| amount.0).fold(0, u64::saturating_add)
        };
        starts.map(level).max().unwrap_or(0)
    }
}

impl Ink {
    /// The character for a fill level, rounded up so that every booking is visible.
    fn of(self, fill: u64, capacity: u64) -> char {
        if fill > capacity {
            return self.too_much;
        }
        let steps = self.fills.chars().count() as u128 - 1;
        let step = (u128::from(fill) * steps).div_ceil(u128::from(capacity.max(1)));
        self.fills.chars().nth(step as usize).unwrap_or(self.too_much)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use jiff::tz::TimeZone;

    const START: Time = Time::from_us(1_795_334_400_000_000); // 2026-11-22T08:00:00Z

    fn hours(from: i64, to: i64, amount: u64) -> (Window, Amount) {
        let at = |hours: i64| START.saturating_add(Span::from_secs(hours * 3_600));
        (Window::new(at(from), at(to)).unwrap(), Amount(amount))
    }

    fn rows() -> Vec<Row> {
        let row = |name: &str, capacity, taken| Row { name: name.into(), capacity, taken };
        vec![
            row("N0", 8, vec![hours(0, 2, 4), hours(1, 3, 4), hours(23, 24, 1)]),
            row("free", 8, vec![]),
            row("N0-N1", 5, vec![hours(6, 12, 1), hours(8, 10, 5)]),
        ]
    }

    #[test]
    fn a_small_chart() {
        let expected = "       \
       08:00 14:00 20:00 02:00
N0    |▄█▄                    ▁| 100 %
N0-N1 |      ▂▂!!▂▂            | 120 %
a column is 1 h, filled to the most that is booked in it: ▁▂▃▄▅▆▇█
right: the most in any column; resources without a booking are left out
";
        assert_eq!(draw_day(START, &rows(), 40, BLOCKS, TimeZone::UTC), expected);
    }

    #[test]
    fn a_wider_page_has_finer_columns_and_ascii_will_do() {
        let text = draw_day(START, &rows()[..1], 70, ASCII, TimeZone::UTC);
        let bar = text.lines().nth(1).unwrap();
        assert_eq!(bar, "N0 |++@@++                                        ::| 100 %");
        for width in 0..300 {
            let text = draw_day(START, &rows(), width, BLOCKS, TimeZone::UTC);
            let longest = text.lines().take(3).map(|line| line.chars().count()).max().unwrap();
            assert!(longest <= width.max(20), "{longest} of {width}");
        }
    }

    #[test]
    fn any_length_is_drawn_within_the_page_and_more_than_a_day_is_marked_by_days() {
        let clock = ZoneClock::new(TimeZone::UTC, START);
        for minutes in [1, 10, 90, 24 * 60, 3 * 24 * 60, 30 * 24 * 60, 366 * 24 * 60] {
            let window = Window::starting(START, Span::from_secs(minutes * 60)).unwrap();
            let text = draw(window, &rows(), 80, BLOCKS, &clock);
            let longest = text.lines().map(|line| line.chars().count()).max();
            assert!(longest <= Some(80), "{minutes} min: {longest:?}\n{text}");
        }
        let days = Window::starting(START, Span::from_secs(3 * 86_400)).unwrap();
        let text = draw(days, &rows(), 80, BLOCKS, &clock);
        assert!(text.starts_with("       11-22 "), "{text}");
        assert!(text.contains(" 11-23 ") && text.contains(" 11-24"), "{text}");
        let hour = Window::starting(START, Span::from_secs(3_600)).unwrap();
        let text = draw(hour, &rows()[..1], 80, ASCII, &clock);
        assert!(text.contains("08:00 08:10 08:20") || text.contains("08:00     08:10"), "{text}");
    }
}
