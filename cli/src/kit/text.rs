//! How values are shown to people: instants, windows, states, tables. Programs get JSON.
//!
//! Texts that a stranger can choose (reasons of operators, refusals, messages of servers) are shown by [`line()`], and
//! cells of tables by [`TextTable`]: neither can break a line, steer a terminal, or turn its direction.

use std::io::Write as _;

use std::borrow::Cow;

use coalloc_common::plain_text;
use coalloc_common::{Amount, BitsPerSecond, Cpus, ResourceKind, Span, Time, Value};
use coalloc_net::convert::{span_from_wire, time_from_wire, window_from_wire};
use coalloc_proto::{Duration, Timestamp, v1};
use comfy_table::presets::NOTHING;
use comfy_table::{CellAlignment, ColumnConstraint, ContentArrangement, Table};
use jiff::Zoned;
use jiff::tz::TimeZone;
use serde::Serialize;

use crate::kit::exit::Failure;
use crate::kit::{colour, progress, zone};

/// Columns of a page when there is no terminal.
const WIDTH_DEFAULT: u16 = 100;
/// Columns that a cell which is cut has at least, so that its head fits.
const CUT_CELL_MIN: u16 = 6;

/// The message as canonical JSON, for programs.
///
/// # Errors
/// When the message has a value that JSON cannot express, which no message of a daemon should have.
pub fn json(message: &impl Serialize) -> Result<String, Failure> {
    let text = serde_json::to_string_pretty(message);
    text.map(|text| plain_text::json(&text).into_owned() + "\n")
        .map_err(|error| Failure::internal(format!("JSON: {error}")))
}

/// The message as canonical JSON on one line.
///
/// # Errors
/// As [`json`].
pub fn json_line(message: &impl Serialize) -> Result<String, Failure> {
    let text = serde_json::to_string(message);
    text.map(|text| plain_text::json(&text).into_owned())
        .map_err(|error| Failure::internal(format!("JSON: {error}")))
}

/// A text of a stranger on one line.
#[must_use]
pub fn line(text: &str) -> Cow<'_, str> {
    plain_text::one_line(text)
}

/// Prints a note on standard error while the command continues.
pub fn note(text: &str) {
    progress::beside(|| {
        // When standard error is gone, nobody can be told about it.
        let _ = writeln!(std::io::stderr(), "{}", plain_text::lines(text));
    });
}

/// Columns of the terminal on standard output; without one `COLUMNS`, or those of the terminal on standard error, where a pager
/// may show what is piped, or 100.
#[must_use]
pub fn width() -> u16 {
    let columns = || std::env::var("COLUMNS").ok()?.parse().ok();
    let beside = || terminal_size::terminal_size_of(std::io::stderr()).map(|(width, _)| width.0);
    Table::new().width().or_else(columns).or_else(beside).unwrap_or(WIDTH_DEFAULT)
}

/// What is taken or wanted at one site: CPUs, then the further kinds.
#[must_use]
pub fn amounts(cpus: u64, others: &[v1::KindAmount]) -> String {
    let others = others.iter().map(|one| amount_of(&one.kind, one.amount));
    let all: Vec<String> = std::iter::once(Cpus(cpus).to_string()).chain(others).collect();
    all.join(", ")
}

/// An amount at a site, of the kind with this word; of CPUs when the word is empty.
#[must_use]
pub fn amount_of(kind: &str, amount: u64) -> String {
    if kind.is_empty() {
        return Cpus(amount).to_string();
    }
    // A coordinator of a later release may know kinds that this one does not.
    let known = ResourceKind::parse_other("kind", kind);
    known.map_or_else(|_| format!("{amount} {kind}"), |kind| kind.show(Amount(amount)))
}

/// A table without rules between cells, so that its text works with `cut` and `grep`.
#[derive(Debug)]
pub struct TextTable(Table);

impl TextTable {
    /// Adds a row. A cell is one line, whatever text is in it.
    pub fn add_row<Cell: ToString>(&mut self, cells: impl IntoIterator<Item = Cell>) {
        let cells = cells.into_iter().map(|cell| line(&cell.to_string()).into_owned());
        self.0.add_row(cells.collect::<Vec<String>>());
    }

    /// Is there no row besides the header?
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// An empty table.
#[must_use]
pub fn table(header: &[&str]) -> TextTable {
    let mut table = Table::new();
    table.load_style(NOTHING).set_content_arrangement(ContentArrangement::Dynamic);
    table.set_width(width()).set_header(header.to_vec());
    for column in table.column_iter_mut() {
        column.set_padding((0, 2));
    }
    TextTable(table)
}

/// Aligns columns to the right, for numbers.
pub fn align_right(table: &mut TextTable, columns: &[usize]) {
    for index in columns {
        if let Some(column) = table.0.column_mut(*index) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
}

/// The table's text, with a line end, but without blanks before the line end.
#[must_use]
pub fn finish(table: &TextTable) -> String {
    colour::table(&(table.0.trim_fmt() + "\n"))
}

/// The table's text with one line for each row: where a row does not fit the page, its last cell is cut with `…`. If the
/// other cells leave no space for it, the last column is left out.
#[must_use]
pub fn finish_in_lines(mut table: TextTable) -> String {
    let widths = table.0.column_max_content_widths();
    let last = widths.len().saturating_sub(1);
    let page = table.0.width().unwrap_or(WIDTH_DEFAULT);
    let others = widths.iter().take(last).fold(0, |sum: u16, width| sum.saturating_add(width + 2));
    for column in table.0.column_iter_mut().take(last) {
        column.set_constraint(ColumnConstraint::ContentWidth);
    }
    if let Some(column) = table.0.column_mut(last) {
        column.set_padding((0, 0));
        if others.saturating_add(CUT_CELL_MIN) > page {
            column.set_constraint(ColumnConstraint::Hidden);
        }
    }
    if let Some(mut header) = table.0.header().cloned() {
        header.max_height(1);
        table.0.set_header(header);
    }
    for row in table.0.row_iter_mut() {
        row.max_height(1);
    }
    finish(&table)
}

/// The table's text with one line for each row, however wide.
#[must_use]
pub fn finish_wide(mut table: TextTable) -> String {
    table.0.set_content_arrangement(ContentArrangement::Disabled);
    finish(&table)
}

/// An instant of a message: `2026-11-21T10:00:00Z`; `-` if it is unset or not an instant.
#[must_use]
pub fn instant(wire: Option<&Timestamp>) -> String {
    time(wire).map_or_else(|| "-".to_owned(), |time| time.to_string())
}

/// An instant of a message on the reader's clock: `2026-11-21 10:00 CET`; `-` if it is unset or not an instant.
#[must_use]
pub fn moment(wire: Option<&Timestamp>) -> String {
    time(wire).map_or_else(|| "-".to_owned(), moment_of)
}

/// The full second of an instant of a message on the reader's clock: `2026-11-21 10:00:07 CET`; `-` as above.
#[must_use]
pub fn second(wire: Option<&Timestamp>) -> String {
    let second = |time: Time| Time::from_us(time.as_us().div_euclid(1_000_000) * 1_000_000);
    time(wire).map_or_else(|| "-".to_owned(), |time| moment_of(second(time)))
}

/// An instant on the reader's clock: `2026-11-21 10:00 CET`.
#[must_use]
pub fn moment_of(time: Time) -> String {
    let shown = |at: Zoned| at.strftime(&format!("%Y-%m-%d {} %Z", clock_format(&at))).to_string();
    zoned(time, &zone::shown()).map_or_else(|| "-".to_owned(), shown)
}

/// The instant of a message, if it is valid.
#[must_use]
pub fn time(wire: Option<&Timestamp>) -> Option<Time> {
    time_from_wire("", wire?).ok()
}

/// A length of time in a message: `2 h`; `-` if it is unset or not a length.
#[must_use]
pub fn span(wire: Option<&Duration>) -> String {
    let span = wire.and_then(|wire| span_from_wire("", wire).ok());
    span.map_or_else(|| "-".to_owned(), |span| span.to_string())
}

/// How long something is still held, in full seconds.
#[must_use]
pub fn hold_ends(left: &Duration) -> String {
    let left = span_from_wire("expires_in", left).unwrap_or(Span::ZERO);
    let left = Span::from_us(left.as_us().max(0) / 1_000_000 * 1_000_000);
    format!("held: the first of its holds ends in {left}, unless it is booked before then")
}

/// Both ends of a window on the reader's clock, with the day only once if it is the same: `2026-11-21 10:00 to 11:00 CET`.
#[must_use]
pub fn window(wire: Option<&v1::Window>) -> String {
    window_in(wire, &zone::shown())
}

fn window_in(wire: Option<&v1::Window>, zone: &TimeZone) -> String {
    let local = |wire| zoned(time(wire)?, zone);
    let ends =
        wire.and_then(|window| Some((local(window.start.as_ref())?, local(window.end.as_ref())?)));
    let Some((start, end)) = ends else { return "-".to_owned() };
    // Clocks may be changed in between.
    let start_zone = if start.offset() == end.offset() { "" } else { " %Z" };
    let day = if start.date() == end.date() { "" } else { "%Y-%m-%d " };
    let from =
        start.strftime(&format!("%Y-%m-%d {}{start_zone}", clock_format(&start))).to_string();
    let to = end.strftime(&format!("{day}{} %Z", clock_format(&end))).to_string();
    format!("{from} to {to}")
}

/// An instant on the reader's clock like `2026-11-21 10:00`, with seconds and fractions only if they are not zero.
#[must_use]
pub fn minutes(time: Time) -> String {
    let at = zoned(time, &zone::shown());
    let shown = |at: Zoned| at.strftime(&format!("%Y-%m-%d {}", clock_format(&at))).to_string();
    at.map_or_else(|| "-".to_owned(), shown)
}

fn zoned(time: Time, zone: &TimeZone) -> Option<Zoned> {
    let at = jiff::Timestamp::from_microsecond(time.as_us()).ok()?;
    Some(at.to_zoned(zone.clone()))
}

fn clock_format(at: &Zoned) -> &'static str {
    match (at.second(), at.subsec_nanosecond()) {
        (0, 0) => "%H:%M",
        (_, 0) => "%H:%M:%S",
        _ => "%H:%M:%S%.f",
    }
}

/// The length of a window.
#[must_use]
pub fn length(wire: Option<&v1::Window>) -> Option<Span> {
    let window = wire?;
    Some(time(window.end.as_ref())?.since(time(window.start.as_ref())?))
}

/// A rate: `2.5 Gbit/s`.
#[must_use]
pub fn rate(bps: u64) -> String {
    BitsPerSecond(bps).to_string()
}

/// A cost in points.
#[must_use]
pub fn points(milli: u64) -> String {
    Value { milli }.to_string()
}

/// The word for a state.
#[must_use]
pub fn state(state: v1::ReservationState) -> &'static str {
    use v1::ReservationState as S;
    match state {
        S::Unspecified => "unknown",
        S::Checking => "checking",
        S::Held => "held",
        S::Committing => "committing",
        S::Confirmed => "confirmed",
        S::Active => "active",
        S::Aborting => "aborting",
        S::Failed => "failed",
        S::Terminating => "terminating",
        S::Terminated => "terminated",
        S::PassedEndTime => "passed",
    }
}

/// The states of a reservation that has not ended.
pub const NOT_ENDED: [v1::ReservationState; 7] = [
    v1::ReservationState::Checking,
    v1::ReservationState::Held,
    v1::ReservationState::Committing,
    v1::ReservationState::Confirmed,
    v1::ReservationState::Active,
    v1::ReservationState::Aborting,
    v1::ReservationState::Terminating,
];

/// The lines of a paragraph, broken between words to at most `width` columns where words are not longer.
#[must_use]
pub fn wrap(text: &str, width: usize) -> Vec<String> {
    let mut lines = vec![String::new()];
    for word in text.split_whitespace() {
        match lines.last_mut() {
            Some(line) if line.is_empty() => line.push_str(word),
            Some(line) if line.chars().count() + 1 + word.chars().count() <= width => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(word.to_owned()),
        }
    }
    lines
}

/// Columns that a line of one of several things takes at most.
const LINE_WIDTH: usize = 80;

/// What became of one of several things: a head and an outcome on a line, or the outcome below its head if it does not fit.
#[must_use]
pub fn outcome_line(head: &str, outcome: &str) -> String {
    if head.chars().count() + 1 + outcome.chars().count() <= LINE_WIDTH {
        return format!("{head} {outcome}\n");
    }
    let lines = wrap(outcome, LINE_WIDTH - 6);
    lines.iter().fold(head.trim_end().to_owned() + "\n", |all, line| all + "      " + line + "\n")
}

/// `text` as one word of a shell.
#[must_use]
pub fn shell_word(text: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "._-/:=@,+".contains(c);
    match !text.is_empty() && text.chars().all(plain) {
        true => text.to_owned(),
        false => format!("'{}'", text.replace('\'', "'\\''")),
    }
}

/// A number and its noun: `1 plan`, `2 plans`.
#[must_use]
pub fn count(number: usize, thing: &str) -> String {
    format!("{number} {thing}{}", if number == 1 { "" } else { "s" })
}

/// A list in words: `a, b and c`.
#[must_use]
pub fn enumerate(names: &[String]) -> String {
    match names {
        [] => "none".to_owned(),
        [one] => one.clone(),
        [first @ .., last] => format!("{} and {last}", first.join(", ")),
    }
}

/// A refusal as one sentence; it begins with the resource manager that refused, unless the planner did.
#[must_use]
pub fn refusal(refusal: &v1::Refusal) -> String {
    refusal_with(refusal, window)
}

/// A sentence of a daemon with its instants on the reader's clock: daemons write them in UTC.
#[must_use]
pub fn on_own_clock(sentence: &str) -> String {
    let is_of_instant = |c: char| c.is_ascii_digit() || "-:.TZ".contains(c);
    let mut out = String::with_capacity(sentence.len());
    let mut rest = sentence;
    while let Some(start) = rest.find(|c: char| c.is_ascii_digit()) {
        let (before, from) = rest.split_at(start);
        let end = from.find(|c: char| !is_of_instant(c)).unwrap_or(from.len());
        let (word, after) = from.split_at(end);
        // The end of a sentence may follow.
        let instant = word.trim_end_matches(['.', ':']);
        let at = instant.strip_suffix('Z').and_then(|_| instant.parse::<jiff::Timestamp>().ok());
        out += before;
        match at {
            Some(at) => {
                out += &moment_of(Time::from_us(at.as_microsecond()));
                out += &word[instant.len()..];
            }
            None => out += word,
        }
        rest = after;
    }
    out + rest
}

/// A refusal as one sentence, in which `shown` formats the window if the sentence names it.
#[must_use]
pub fn refusal_with(
    refusal: &v1::Refusal,
    shown: impl FnOnce(Option<&v1::Window>) -> String,
) -> String {
    let detail = match refusal.detail.as_str() {
        "" => refusal.reason().as_str_name().trim_start_matches("REASON_").to_lowercase(),
        detail => line(detail).into_owned(),
    };
    // Daemons write windows as they do in logs: `[start, end)`.
    let detail = match window_from_wire("window", refusal.window.as_ref()) {
        Ok(window) => detail.replace(&window.to_string(), &shown(refusal.window.as_ref())),
        Err(_) => detail,
    };
    let detail = on_own_clock(&detail);
    match refusal.resource_manager.as_str() {
        "" => detail,
        name => format!("{name}: {detail}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn window_of(start_s: i64, end_s: i64) -> v1::Window {
        let at = |seconds| Some(Timestamp { seconds, nanos: 0 });
        v1::Window { start: at(start_s), end: at(end_s) }
    }

    #[test]
    fn instants_of_a_daemon_are_shown_on_the_reader_s_clock() {
        let said = "it begins at 2026-11-21T12:00:00Z. crm-N0 has 4.5 of 2026-11-21 free [2026-11-21T12:00:05Z, 10:00)";
        let shown = "it begins at 2026-11-21 12:00 UTC. crm-N0 has 4.5 of 2026-11-21 free [2026-11-21 12:00:05 UTC, 10:00)";
        assert_eq!(on_own_clock(said), shown);
        assert_eq!(on_own_clock("N0 Z 5Z"), "N0 Z 5Z");
    }

    #[test]
    fn windows_name_their_day_once_and_seconds_only_where_there_are_any() {
        let noon = 1_795_262_400;
        let cases = [
            (noon, noon + 3_600, "2026-11-21 12:00 to 13:00 UTC"),
            (noon + 5, noon + 3_600, "2026-11-21 12:00:05 to 13:00 UTC"),
            (noon, noon + 86_400, "2026-11-21 12:00 to 2026-11-22 12:00 UTC"),
        ];
        for (start, end, expected) in cases {
            assert_eq!(window(Some(&window_of(start, end))), expected);
        }
        assert_eq!(window(None), "-");
        let berlin = TimeZone::get("Europe/Berlin").unwrap();
        let local = window_in(Some(&window_of(noon, noon + 3_600)), &berlin);
        assert_eq!(local, "2026-11-21 13:00 to 14:00 CET");
        // 2026-10-25, 00:30 to 02:00 UTC: clocks go back in between.
        let night = Some(window_of(1_792_888_200, 1_792_893_600));
        assert_eq!(window_in(night.as_ref(), &berlin), "2026-10-25 02:30 CEST to 03:00 CET");
        assert_eq!(length(Some(&window_of(0, 90))), Some(Span::from_secs(90)));
    }

    #[test]
    fn a_refusal_names_its_window_as_everything_else_does() {
        let window = window_of(1_795_262_400, 1_795_266_000);
        let refused = v1::Refusal {
            window: Some(window),
            resource_manager: "crm-A".into(),
            detail:
                "A has 0 free in [2026-11-21T12:00:00Z, 2026-11-21T13:00:00Z), 4 were asked for"
                    .into(),
            ..Default::default()
        };
        let expected = "crm-A: A has 0 free in 2026-11-21 12:00 to 13:00 UTC, 4 were asked for";
        assert_eq!(refusal(&refused), expected);
        let bare = v1::Refusal { reason: v1::Reason::TimedOut.into(), ..Default::default() };
        assert_eq!(refusal(&bare), "timed_out");
    }

    #[test]
    fn a_cell_is_one_line_and_cannot_steer() {
        let mut strange = table(&["user", "why"]);
        strange.add_row(["a\nb\u{1b}[2J", "\u{202e}c"]);
        strange.add_row(["plain", "d"]);
        let expected = "user           why\na\\nb\\u{1b}[2J  \\u{202e}c\nplain          d\n";
        assert_eq!(finish(&strange), expected);
        let text = json(&["\u{202e}\n"]).unwrap();
        assert!(text.contains("\\u202e\\n"), "{text}");
        assert_eq!(json_line(&["\u{9b}"]).unwrap(), "[\"\\u009b\"]");
    }

    #[test]
    fn a_row_is_one_line_of_which_the_last_cell_is_cut() {
        let rows = || {
            let mut rows = table(&["id", "what"]);
            rows.0.set_width(20);
            rows.add_row(["a long id", "what was refused and why"]);
            rows.add_row(["b", "short"]);
            rows
        };
        assert_eq!(
            finish_in_lines(rows()),
            "id         what\na long id  what was…\nb          short\n"
        );
        assert!(finish_wide(rows()).contains("a long id  what was refused and why\n"));
        let mut narrow = rows();
        narrow.0.set_width(16);
        assert_eq!(finish_in_lines(narrow), "id\na long id\nb\n");
    }

    #[test]
    fn words_of_a_shell_stay_one_word() {
        let cases =
            [("a/b-1", "a/b-1"), ("my labs", "'my labs'"), ("it's", "'it'\\''s'"), ("", "''")];
        for (text, expected) in cases {
            assert_eq!(shell_word(text), expected);
        }
    }

    #[test]
    fn a_paragraph_is_broken_between_words() {
        let cases: [(&str, &[&str]); 4] = [
            ("a bc  def", &["a bc", "def"]),
            ("abcdef g", &["abcdef", "g"]),
            ("", &[""]),
            ("ab cd", &["ab cd"]),
        ];
        for (text, expected) in cases {
            assert_eq!(wrap(text, 5), expected);
        }
    }

    #[test]
    fn an_outcome_that_does_not_fit_is_below_its_head() {
        assert_eq!(outcome_line("a:", "terminated"), "a: terminated\n");
        let long = outcome_line("a:", &"word ".repeat(20));
        assert!(long.starts_with("a:\n      word word") && long.lines().count() == 3, "{long}");
        assert!(long.lines().all(|line| line.len() <= 80), "{long}");
    }

    #[test]
    fn things_are_counted_and_listed_as_people_do() {
        assert_eq!((count(1, "plan"), count(0, "plan")), ("1 plan".into(), "0 plans".into()));
        let names = |names: &[&str]| names.iter().map(ToString::to_string).collect::<Vec<_>>();
        assert_eq!(enumerate(&names(&["a", "b", "c"])), "a, b and c");
        assert_eq!(enumerate(&names(&["a"])), "a");
    }
}
