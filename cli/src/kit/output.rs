//! How a list is printed: a line for each thing within the page, everything of each (`-o wide`), or for programs
//! (`-o json`, `-o csv`).

use clap::{Args, ValueEnum};

/// How a list is printed.
#[derive(Debug, Clone, Default, Args)]
pub struct OutputArgs {
    /// Print everything of each in lines of any width, or print for programs [default: lines that fit the page]
    #[arg(short, long, value_name = "FORMAT")]
    output: Option<OutputFormat>,
    /// The same as -o json
    #[arg(long, conflicts_with = "output")]
    json: bool,
}

/// The formats besides lines that fit the page.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum OutputFormat {
    /// Everything of each, in lines of any width
    Wide,
    /// The message of the schema, as JSON
    Json,
    /// Comma-separated values with a head, times in UTC
    Csv,
}

impl OutputArgs {
    /// The format that the flags ask for; `None` is lines that fit the page.
    #[must_use]
    pub fn format(&self) -> Option<OutputFormat> {
        self.output.or(self.json.then_some(OutputFormat::Json))
    }
}

/// Fields as a line of CSV (RFC 4180), with a line end.
#[must_use]
pub fn csv_line<Field: AsRef<str>>(fields: &[Field]) -> String {
    let fields: Vec<String> = fields.iter().map(|field| csv_field(field.as_ref())).collect();
    fields.join(",") + "\n"
}

/// A field of CSV, in quotes if it needs them.
#[must_use]
pub fn csv_field(text: &str) -> String {
    match text.contains([',', '"', '\n', '\r']) {
        true => format!("\"{}\"", text.replace('"', "\"\"")),
        false => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_that_would_break_a_line_are_quoted() {
        let line = csv_line(&["plain", "a,b", "say \"x\"", "two\nlines", ""]);
        assert_eq!(line, "plain,\"a,b\",\"say \"\"x\"\"\",\"two\nlines\",\n");
    }
}
