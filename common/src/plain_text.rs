//! Texts of strangers as plain text: what a terminal, a log or a table would obey is written out instead.
//!
//! Names cannot contain any of this ([`check_name`](crate::id::check_name)). Reasons of operators, refusals of resource
//! managers and messages of servers can: a line end would make one event two, an escape sequence could clear the
//! screen, and a mark of direction could show the rest of a line backwards. The text itself stays as it is in ledgers
//! and messages, and JSON gives it back exactly.
//!
//! Left out: quotes and markup, which are data to everything that we write. Source: issue 18, acceptance; Unicode
//! Standard Annex 9 (marks of direction).

use std::borrow::Cow;
use std::fmt::Write as _;

/// Does this character steer how others are shown instead of showing anything itself?
#[must_use]
pub fn steers(c: char) -> bool {
    // Control characters, among them DEL and those after it (C1), which some terminals obey like ESC.
    c.is_control()
        || matches!(c,
            // A hyphen that is not shown; marks of direction and their isolates.
            '\u{ad}' | '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}'
            // Nothing to see, but two names that look the same differ in it.
            | '\u{180e}' | '\u{200b}'..='\u{200d}' | '\u{2060}'..='\u{2064}' | '\u{206a}'..='\u{206f}' | '\u{feff}'
            // Ends of lines and paragraphs; notes to lines; tags.
            | '\u{2028}' | '\u{2029}' | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e007f}')
}

/// The text on one line: `\n` and `\u{1b}` stand for what steers.
#[must_use]
pub fn one_line(text: &str) -> Cow<'_, str> {
    written_out(text, steers, escape)
}

/// The text with its lines and tabs as they are; everything else that steers is written out.
#[must_use]
pub fn lines(text: &str) -> Cow<'_, str> {
    let steers = |c: char| !matches!(c, '\n' | '\t') && steers(c);
    written_out(text, steers, escape)
}

/// A text in JSON, in which what steers is written as JSON escapes it, so that it means the same. Line ends between
/// values stay.
#[must_use]
pub fn json(text: &str) -> Cow<'_, str> {
    let steers = |c: char| !matches!(c, '\n' | '\t') && steers(c);
    written_out(text, steers, |out, c| {
        for unit in c.encode_utf16(&mut [0; 2]) {
            // Writing to a String cannot fail.
            let _ = write!(out, "\\u{unit:04x}");
        }
    })
}

fn escape(out: &mut String, c: char) {
    match c {
        '\n' | '\r' | '\t' => out.extend(c.escape_default()),
        _ => out.extend(c.escape_unicode()),
    }
}

fn written_out(
    text: &str,
    steers: impl Fn(char) -> bool,
    write: impl Fn(&mut String, char),
) -> Cow<'_, str> {
    // Almost every text is plain ASCII, which is seen without decoding it.
    let is_plain = |byte: &u8| matches!(byte, b' '..=b'~');
    if text.as_bytes().iter().all(is_plain) || !text.chars().any(&steers) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len() + 16);
    for c in text.chars() {
        if steers(c) {
            write(&mut out, c);
        } else {
            out.push(c);
        }
    }
    Cow::Owned(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    const EVIL: &str = "a\n\r\t\u{1b}[2J\u{9b}2J\u{7f}\u{202e}b\u{2066}\u{200f}\u{200b}\u{2028}\u{e0041}<script>\"'é\u{5e9}日";

    #[test]
    fn what_steers_is_written_out_and_everything_else_stays() {
        let line = one_line(EVIL);
        let expected = "a\\n\\r\\t\\u{1b}[2J\\u{9b}2J\\u{7f}\\u{202e}b\\u{2066}\\u{200f}\\u{200b}\\u{2028}\
                        \\u{e0041}<script>\"'é\u{5e9}日";
        assert_eq!(line, expected);
        assert!(!line.chars().any(steers));
        assert_eq!(one_line(&line), line, "once is enough");
        assert_eq!(lines("a\n\tb\u{1b}"), "a\n\tb\\u{1b}");
        for plain in ["", "N0-N1 \"é\" <b>", "\u{5e9}\u{5dc}\u{5d5}\u{5dd}"] {
            assert!(matches!(one_line(plain), Cow::Borrowed(same) if same == plain));
        }
    }

    #[test]
    fn json_means_the_same() {
        let written = serde_json::to_string_pretty(&[EVIL, "b"]).unwrap();
        let shown = json(&written);
        assert!(!shown.chars().any(|c| c != '\n' && steers(c)), "{shown:?}");
        assert_eq!(serde_json::from_str::<Vec<String>>(&shown).unwrap(), [EVIL, "b"]);
    }

    #[test]
    fn no_character_that_steers_can_be_in_a_name() {
        for c in (0..=0x10_ffff).filter_map(char::from_u32).filter(|c| steers(*c)) {
            assert!(crate::id::check_name("name", &format!("a{c}")).is_err(), "{c:?}");
        }
    }
}
