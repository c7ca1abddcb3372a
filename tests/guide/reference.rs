//! The reference of the guide, `docs/reference/`, is what the source says: fields of files and messages from the schema,
//! commands from their help, errors from the code that makes them, and settings of experiments from their types.
//!
//! `COALLOC_BLESS=1` writes the pages anew. Left out: metrics, whose table in `docs/guide/metrics.md` is compared with
//! running daemons by tests/federation.

mod commands;
mod errors;
mod schema;
mod settings;

use crate::generated::is_current;
use crate::root;

/// What a page says of itself; it is not shown.
const HEAD: &str = "<!-- Generated from the source by tests/guide/reference.rs; \
                    `COALLOC_BLESS=1 cargo test -p coalloc --test guide reference` writes it anew. -->\n\n";

fn check(page: &str, text: &str) {
    let text = format!("{HEAD}{}\n", text.trim_end());
    is_current(&root().join("docs/reference").join(page), &text);
}

/// A text as a cell of a table, or as a paragraph: on one line, and nothing in it is markup.
fn plain(text: &str) -> String {
    let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
    let mut out = String::with_capacity(text.len());
    let mut is_code = false;
    for character in text.chars() {
        match character {
            '`' => {
                is_code = !is_code;
                out.push('`');
            }
            '|' => out += "\\|",
            '<' | '>' | '[' | ']' | '*' | '_' if !is_code => {
                out.push('\\');
                out.push(character);
            }
            _ => out.push(character),
        }
    }
    out
}

#[test]
fn the_reference_has_every_field_of_every_file() {
    check("files.md", &schema::files());
}

#[test]
fn the_reference_has_every_call_and_every_message() {
    check("calls.md", &schema::calls());
}

#[test]
fn the_reference_has_every_command() {
    check("commands.md", &commands::page());
}

#[test]
fn the_reference_has_every_error() {
    check("errors.md", &errors::page());
}

#[test]
fn the_reference_has_every_setting_of_experiments() {
    check("settings.md", &settings::page());
}

#[test]
fn markup_in_a_comment_is_text() {
    assert_eq!(
        plain("a [b,\n  c) <d> | `x_y|<z>` e_f"),
        "a \\[b, c) \\<d\\> \\| `x_y\\|<z>` e\\_f"
    );
}
