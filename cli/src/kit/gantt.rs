//! A Gantt chart in text: one row per resource, one column per stretch of the day, one block per fill level.

use std::fmt::Write as _;

use coalloc_common::{Amount, Span, Time, Window};

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

/// Lengths that a column may stand for, in minutes: divisors of a day.
const COLUMN_MINUTES: [i64; 8] = [5, 10, 15, 20, 30, 60, 120, 240];
/// Minimum number of columns between two marks of the head line.
const MARK_GAP: i64 = 6;
/// Width of the text after the chart: ` 100 %`.
const PEAK_WIDTH: usize = 6;

/// Draws rows over the day from `start`, within `width` columns. Rows without bookings are left out.
#[must_use]
pub fn draw(start: Time, rows: &[Row], width: usize, ink: Ink) -> String {
    let rows: Vec<&Row> = rows.iter().filter(|row| !row.taken.is_empty()).collect();
    if rows.is_empty() {
        return String::new();
    }
    let label = rows.iter().map(|row| row.name.chars().count()).max().unwrap_or(0);
    let minutes = column_minutes(width.saturating_sub(label + 3 + PEAK_WIDTH));
    let column = Span::from_secs(minutes * 60);
    let mut out = format!("{:label$}  {}\n", "", head(start, minutes));
    for row in &rows {
        let fills: Vec<u64> =
            (0..24 * 60 / minutes).map(|at| row.fill(start, column, at)).collect();
        let bar: String = fills.iter().map(|fill| ink.of(*fill, row.capacity)).collect();
        let percent = u128::from(fills.iter().copied().max().unwrap_or(0)) * 100
            / u128::from(row.capacity.max(1));
        // Writing to a String cannot fail, here and below.
        let _ = writeln!(out, "{:label$} |{bar}|{percent:>4} %", row.name);
    }
    let samples: Vec<String> = ink.fills.chars().skip(1).map(String::from).collect();
    let _ = writeln!(
        out,
        "{:label$}  a column is {}, filled to the most that is booked in it: {}\n\
         {:label$}  right: the most of the day; resources without a booking are left out",
        "",
        Span::from_secs(minutes * 60),
        samples.concat(),
        ""
    );
    out
}

/// The shortest column length with which a day fits into the width.
fn column_minutes(width: usize) -> i64 {
    let fits = |minutes: &i64| (24 * 60 / minutes) as usize <= width;
    COLUMN_MINUTES.into_iter().find(fits).unwrap_or(COLUMN_MINUTES[COLUMN_MINUTES.len() - 1])
}

/// The head line, `08:00 ... 11:00 ...`, with each mark above the column that begins at that time.
fn head(start: Time, minutes: i64) -> String {
    let hours = [1, 2, 3, 4, 6, 12].into_iter().find(|hours| hours * 60 / minutes >= MARK_GAP);
    let step = hours.unwrap_or(24) * 60;
    let mut line = String::new();
    for mark in (0..24 * 60).step_by(step as usize) {
        let time = start.saturating_add(Span::from_secs(mark * 60)).to_string();
        // The time of day in `2026-11-22T08:00:00Z`.
        let clock = time.get(11..16).unwrap_or_default();
        let _ = write!(line, "{clock:width$}", width = (step / minutes) as usize);
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

    const DAY: Time = Time::from_us(1_795_334_400_000_000); // 2026-11-22T08:00:00Z

    fn hours(from: i64, to: i64, amount: u64) -> (Window, Amount) {
        let at = |hours: i64| DAY.saturating_add(Span::from_secs(hours * 3_600));
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
       right: the most of the day; resources without a booking are left out
";
        assert_eq!(draw(DAY, &rows(), 40, BLOCKS), expected);
    }

    #[test]
    fn a_wider_page_has_finer_columns_and_ascii_will_do() {
        let text = draw(DAY, &rows()[..1], 70, ASCII);
        let bar = text.lines().nth(1).unwrap();
        assert_eq!(bar, "N0 |++@@++                                        ::| 100 %");
        for width in 0..300 {
            let text = draw(DAY, &rows(), width, BLOCKS);
            let longest = text.lines().take(3).map(|line| line.chars().count()).max().unwrap();
            assert!(longest <= width.max(20), "{longest} of {width}");
        }
    }
}
