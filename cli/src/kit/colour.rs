//! Colours on a terminal: how a reservation or a daemon is doing, the heads of tables, and errors.
//!
//! A command has no colours until [`use_on_terminals`] was called, which only the program itself does, so that a test sees
//! plain text on any terminal. Whoever sets NO_COLOR, pipes the output or has a terminal without colours gets plain text,
//! too; CLICOLOR_FORCE colours what is piped.
//!
//! Left out: colours of charts and plots, and of clap's help, which clap makes by the same rules.

use std::borrow::Cow;
use std::fmt::Write as _;
use std::io::IsTerminal as _;
use std::sync::atomic::{AtomicBool, Ordering};

use anstyle::{AnsiColor, Style};
use coalloc_common::plain_text;

/// May answers have colours?
static ANSWERS: AtomicBool = AtomicBool::new(false);
/// May errors have colours?
static ERRORS: AtomicBool = AtomicBool::new(false);

/// What a colour says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tone {
    /// It is as it should be.
    Good,
    /// It is not decided yet, or needs a look.
    Open,
    /// It failed.
    Bad,
    /// It is over.
    Past,
    /// The head of a table.
    Head,
}

impl Tone {
    /// All tones.
    const ALL: [Self; 5] = [Self::Good, Self::Open, Self::Bad, Self::Past, Self::Head];

    /// The tone of a word for a state or a verdict; `None` if it is another word.
    #[must_use]
    pub fn of_word(word: &str) -> Option<Self> {
        match word {
            "confirmed" | "active" | "serving" | "ok" => Some(Self::Good),
            "checking" | "held" | "committing" | "aborting" | "terminating" | "warning" => {
                Some(Self::Open)
            }
            "failed" => Some(Self::Bad),
            "terminated" | "passed" => Some(Self::Past),
            _ => None,
        }
    }

    fn style(self) -> Style {
        match self {
            Self::Good => AnsiColor::Green.on_default(),
            Self::Open => AnsiColor::Yellow.on_default(),
            Self::Bad => AnsiColor::Red.on_default().bold(),
            Self::Past => Style::new().dimmed(),
            Self::Head => Style::new().bold(),
        }
    }

    /// The text in this tone, whether or not there are colours.
    fn paint(self, text: &str) -> String {
        let style = self.style();
        format!("{style}{text}{style:#}")
    }
}

/// From now on, what goes to a terminal has colours, unless its user or the terminal does not want any.
pub fn use_on_terminals() {
    ANSWERS.store(wanted(std::io::stdout().is_terminal()), Ordering::Relaxed);
    ERRORS.store(wanted(std::io::stderr().is_terminal()), Ordering::Relaxed);
}

fn wanted(is_terminal: bool) -> bool {
    use anstyle_query::{clicolor, clicolor_force, no_color, term_supports_color};
    !no_color()
        && (clicolor_force() || is_terminal && clicolor().unwrap_or(true) && term_supports_color())
}

/// A word of an answer in the tone of its meaning.
#[must_use]
pub fn word(text: &str) -> String {
    Tone::of_word(text).map_or_else(|| text.to_owned(), |tone| in_answer(tone, text))
}

/// A text of an answer in a tone.
#[must_use]
pub fn in_answer(tone: Tone, text: &str) -> String {
    match ANSWERS.load(Ordering::Relaxed) {
        true => tone.paint(text),
        false => text.to_owned(),
    }
}

/// A text on standard error in a tone.
#[must_use]
pub fn in_error(tone: Tone, text: &str) -> String {
    match ERRORS.load(Ordering::Relaxed) {
        true => tone.paint(text),
        false => text.to_owned(),
    }
}

/// The lines of an answer as they may go to a terminal: nothing steers it but our own colours.
#[must_use]
pub fn lines(text: &str) -> String {
    match ANSWERS.load(Ordering::Relaxed) {
        true => with_own_colours(text, plain_text::lines),
        false => plain_text::lines(text).into_owned(),
    }
}

/// One line of an answer, as [`lines`].
#[must_use]
pub fn line(text: &str) -> String {
    match ANSWERS.load(Ordering::Relaxed) {
        true => with_own_colours(text, plain_text::one_line),
        false => plain_text::one_line(text).into_owned(),
    }
}

/// The text, made plain but for our own colours.
fn with_own_colours(text: &str, plain: fn(&str) -> Cow<'_, str>) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('\u{1b}') {
        let (before, from) = rest.split_at(at);
        out += &plain(before);
        let length = own_sequence(from).unwrap_or(0);
        out.push_str(&from[..length]);
        // What is not ours is written out, its first character at least.
        let foreign = if length == 0 { '\u{1b}'.len_utf8() } else { 0 };
        out += &plain(&from[length..length + foreign]);
        rest = &from[length + foreign..];
    }
    out + &plain(rest)
}

/// The text with each line broken between words where it is wider than the page; what follows is indented by two more
/// columns than its line. Our own colours take no columns. A word that is wider than the page stays whole.
#[must_use]
pub fn folded(text: &str, width: usize) -> String {
    let mut out = String::with_capacity(text.len());
    for line in text.split_inclusive('\n') {
        if columns(line.trim_end_matches('\n')) <= width {
            out += line;
            continue;
        }
        let indent = line.len() - line.trim_start_matches(' ').len();
        let hanging = " ".repeat((indent + 2).min(width / 2));
        let mut used = 0;
        for word in line.trim_end_matches('\n').split_inclusive(' ') {
            let wide = columns(word.trim_end());
            if used > indent && used + wide > width {
                out.truncate(out.trim_end_matches(' ').len());
                out.push('\n');
                out += &hanging;
                used = hanging.len();
            }
            out += word;
            used += columns(word);
        }
        out.truncate(out.trim_end_matches(' ').len());
        if line.ends_with('\n') {
            out.push('\n');
        }
    }
    out
}

/// The columns that a text takes, without those of our own colours.
fn columns(text: &str) -> usize {
    let (mut count, mut rest) = (0, text);
    while let Some(first) = rest.chars().next() {
        let colour = own_sequence(rest);
        count += usize::from(colour.is_none());
        rest = &rest[colour.unwrap_or(first.len_utf8())..];
    }
    count
}

/// The length in bytes of the sequence that begins or ends one of our tones, if the text begins with one.
fn own_sequence(text: &str) -> Option<usize> {
    Tone::ALL.into_iter().find_map(|tone| {
        let style = tone.style();
        let ends = [style.render().to_string(), style.render_reset().to_string()];
        ends.iter().find(|sequence| text.starts_with(sequence.as_str())).map(String::len)
    })
}

/// The text of a table, whose head and words for states are plain, with its tones: the head, and in each row the word that
/// begins in the column of the head's `state`, `STATE` or `verdict`.
#[must_use]
pub fn table(text: &str) -> String {
    match ANSWERS.load(Ordering::Relaxed) {
        true => table_in_colour(text),
        false => text.to_owned(),
    }
}

fn table_in_colour(text: &str) -> String {
    let mut lines = text.lines();
    let head = lines.next().unwrap_or_default();
    let column = column_of_words(head);
    let mut out = Tone::Head.paint(head) + "\n";
    for line in lines {
        let at = column.and_then(|column| line.char_indices().nth(column).map(|(at, _)| at));
        let (before, from) = line.split_at(at.unwrap_or(line.len()));
        let (own, behind) = from.split_at(from.find(' ').unwrap_or(from.len()));
        let own = Tone::of_word(own).map_or_else(|| own.to_owned(), |tone| tone.paint(own));
        // Writing to a String cannot fail.
        let _ = writeln!(out, "{before}{own}{behind}");
    }
    out
}

/// The column, in characters, where the words for states stand.
fn column_of_words(head: &str) -> Option<usize> {
    let mut column = 0;
    for cell in head.split_inclusive(' ') {
        if ["state", "verdict"].contains(&cell.trim_end().to_lowercase().as_str()) {
            return Some(column);
        }
        column += cell.chars().count();
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_a_terminal_nothing_has_colours() {
        assert_eq!(word("active"), "active");
        assert_eq!(in_error(Tone::Bad, "error:"), "error:");
        assert_eq!(lines("a\u{1b}[32mb"), "a\\u{1b}[32mb");
    }

    #[test]
    fn only_our_own_colours_reach_a_terminal() {
        let shown = |text: &str| with_own_colours(text, plain_text::lines);
        let own = Tone::Good.paint("active");
        assert_eq!(shown(&format!("a {own}\n")), format!("a {own}\n"));
        for foreign in ["\u{1b}[2J", "\u{1b}[8mhidden", "\u{1b}", "\u{1b}]0;title\u{7}", "\u{202e}"]
        {
            let text = shown(&format!("{own}{foreign}{own}"));
            assert!(text.starts_with(&own) && text.ends_with(&own), "{text:?}");
            let between = &text[own.len()..text.len() - own.len()];
            assert!(!between.chars().any(plain_text::steers), "{text:?}");
        }
    }

    #[test]
    fn a_line_that_is_too_wide_goes_on_below_with_its_indent() {
        let own = Tone::Good.paint("active");
        let text = format!("short\n  because: one two three {own} five\n{}\n", "x".repeat(30));
        let expected =
            format!("short\n  because: one two\n    three {own} five\n{}\n", "x".repeat(30));
        assert_eq!(folded(&text, 21), expected);
        assert_eq!(folded("a b", 1), "a\nb");
        for text in ["", "\n", "a  b\n\n c"] {
            assert_eq!(folded(text, 20), text);
        }
    }

    #[test]
    fn a_table_has_its_states_in_colour_and_nothing_else() {
        let text = "id       user   state      where\nactive   eve    confirmed  failed at é\né        mallé  failed     -\nx\n";
        let good = Tone::Good.paint("confirmed");
        let bad = Tone::Bad.paint("failed");
        let expected = format!(
            "{}\nactive   eve    {good}  failed at é\né        mallé  {bad}     -\nx\n",
            Tone::Head.paint("id       user   state      where")
        );
        assert_eq!(table_in_colour(text), expected);
        assert_eq!(
            table_in_colour("a  b\nfailed  ok\n"),
            Tone::Head.paint("a  b") + "\nfailed  ok\n"
        );
    }
}
