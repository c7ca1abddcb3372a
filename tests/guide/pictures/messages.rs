//! A story of the protocol as a drawing: who sends what to whom, from top to bottom, and what is written to which ledger.
//!
//! The story files of `tests/stories` are what the simulator prints, so the drawing tells what the protocol does.

use coalloc_cli::kit::drawing::{Anchor, COLOURS, Drawing, INK};
use coalloc_cli::kit::font::width;
use coalloc_cli::kit::svg::svg;

/// Distances: between two lines of life, and between two lines of the story.
const COLUMN: f64 = 170.0;
const ROW: f64 = 25.0;
const TOP: f64 = 44.0;
const LEFT: f64 = 60.0;
const LETTERS: f64 = 12.0;

/// A line of a story.
#[derive(Debug, Clone, PartialEq, Eq)]
enum StoryLine {
    /// Somebody sends a message.
    Message { from: String, to: String, text: String },
    /// Somebody writes a record to its ledger.
    Record { node: String, text: String },
}

/// Reads `  0.010s crm-A              | D2 held ..` and `  0.010s crm-A -> grc       Held, ..`; other lines are not drawn.
fn read(line: &str) -> Option<StoryLine> {
    let (_, rest) = line.trim_start().split_once("s ")?;
    if let Some((node, text)) = rest.split_once(" | ") {
        let is_record =
            text.starts_with('D') && text[1..].starts_with(|c: char| c.is_ascii_digit());
        let text = text.split_whitespace().take(2).collect::<Vec<_>>().join(" ");
        return is_record.then(|| StoryLine::Record { node: node.trim().to_owned(), text });
    }
    let (from, rest) = rest.split_once(" -> ")?;
    let (to, text) = rest.split_once("  ")?;
    let text = text.trim().split([' ', ',', ':']).next().unwrap_or_default().to_owned();
    Some(StoryLine::Message { from: from.to_owned(), to: to.to_owned(), text })
}

/// Who takes part, in the order in which they stand.
fn columns(lines: &[StoryLine]) -> Vec<String> {
    let mut names = Vec::new();
    for line in lines {
        let of_line = match line {
            StoryLine::Message { from, to, .. } => vec![from, to],
            StoryLine::Record { node, .. } => vec![node],
        };
        for name in of_line {
            if !names.contains(name) {
                names.push(name.clone());
            }
        }
    }
    names
}

/// The drawing of the lines from the one with `first` in it to the one with `last` in it, as SVG.
pub(crate) fn drawing(story: &str, first: &str, last: &str) -> String {
    let (_, told) = story.split_once("----\n").unwrap();
    let mut lines = Vec::new();
    for line in told.lines().skip_while(|line| !line.contains(first)) {
        lines.extend(read(line));
        if line.contains(last) {
            break;
        }
    }
    assert!(lines.len() > 8, "{lines:?}");
    let names = columns(&lines);
    let bottom = TOP + ROW * (lines.len() as f64 + 0.8);
    let size = (2.0 * LEFT + COLUMN * (names.len() - 1) as f64, bottom + 14.0);
    let mut drawing = Drawing::new(size.0, size.1);
    let x = |name: &str| {
        let column = names.iter().position(|other| other == name).unwrap();
        LEFT + COLUMN * column as f64
    };
    for name in &names {
        drawing.line((x(name), TOP - 8.0), (x(name), bottom), "#bbbbbb", 1.2);
        drawing.text((x(name), 24.0), name, 13.0, Anchor::Middle);
    }
    for (row, line) in lines.iter().enumerate() {
        let y = TOP + ROW * (row as f64 + 1.0);
        match line {
            StoryLine::Message { from, to, text } => {
                arrow(&mut drawing, x(from), x(to), y);
                let label = (f64::midpoint(x(from), x(to)), y - 4.0);
                on_white(&mut drawing, label, text);
            }
            StoryLine::Record { node, text } => record(&mut drawing, (x(node), y), text),
        }
    }
    svg(&drawing)
}

fn arrow(drawing: &mut Drawing, from: f64, to: f64, y: f64) {
    let back = if to > from { -9.0 } else { 9.0 };
    drawing.line((from, y), (to, y), INK, 1.4);
    drawing.path(vec![(to + back, y - 4.5), (to, y), (to + back, y + 4.5)], INK, &[]);
}

/// A text over a line that it would cross.
fn on_white(drawing: &mut Drawing, at: (f64, f64), text: &str) {
    let half = width(text, LETTERS) / 2.0 + 3.0;
    drawing.rect((at.0 - half, at.1 - 11.0), (2.0 * half, 12.0), "#ffffff", "");
    drawing.text(at, text, LETTERS, Anchor::Middle);
}

/// A record is a coloured box on the line of life of whose ledger it is in.
fn record(drawing: &mut Drawing, at: (f64, f64), text: &str) {
    let half = width(text, LETTERS) / 2.0 + 6.0;
    let corner = (at.0 - half, at.1 - 14.0);
    drawing.rect(
        corner,
        (2.0 * half, 19.0),
        COLOURS[4],
        "a record, durable before anything is sent",
    );
    drawing.text(at, text, LETTERS, Anchor::Middle);
}
