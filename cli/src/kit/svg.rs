//! Writes a drawing as SVG.

use std::fmt::Write as _;

use coalloc_common::plain_text;

use super::drawing::{Anchor, Drawing, Element, INK, PagePosition};

/// The content of the SVG file.
#[must_use]
pub fn svg(picture: &Drawing) -> String {
    let (width, height) = picture.size;
    let mut text = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width:.0}\" height=\"{height:.0}\" \
         viewBox=\"0 0 {width:.0} {height:.0}\" font-family=\"Helvetica, Arial, Liberation Sans, Arimo, sans-serif\" \
         fill=\"{INK}\">\n<rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n"
    );
    for element in &picture.elements {
        // Writing to a String cannot fail.
        let _ = put(&mut text, element);
    }
    text + "</svg>\n"
}

fn put(out: &mut String, element: &Element) -> std::fmt::Result {
    match element {
        Element::Line { points, colour, width, dash } => {
            let lengths: Vec<String> = dash.iter().map(ToString::to_string).collect();
            let dash = match lengths.is_empty() {
                true => String::new(),
                false => format!(" stroke-dasharray=\"{}\"", lengths.join(" ")),
            };
            writeln!(
                out,
                "<polyline points=\"{}\" fill=\"none\" stroke=\"{colour}\" stroke-width=\"{width}\" stroke-linejoin=\"round\"{dash}/>",
                places(points)
            )
        }
        Element::Area { points, colour, opacity, title } => {
            let faint =
                if *opacity < 1.0 { format!(" fill-opacity=\"{opacity}\"") } else { String::new() };
            write!(out, "<polygon points=\"{}\" fill=\"{colour}\"{faint}", places(points))?;
            match title.is_empty() {
                true => writeln!(out, "/>"),
                false => writeln!(out, "><title>{}</title></polygon>", escaped(title)),
            }
        }
        Element::Circle { middle: (x, y), radius, colour, hollow } => {
            let ink = match hollow {
                true => format!("fill=\"white\" stroke=\"{colour}\" stroke-width=\"1.6\""),
                false => format!("fill=\"{colour}\""),
            };
            writeln!(out, "<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"{radius}\" {ink}/>")
        }
        Element::Text { at: (x, y), text, size, anchor, turned } => {
            let anchor = match anchor {
                Anchor::Start => "start",
                Anchor::Middle => "middle",
                Anchor::End => "end",
            };
            let turn = match *turned == 0.0 {
                true => String::new(),
                false => format!(" transform=\"rotate({turned:.0} {x:.1} {y:.1})\""),
            };
            writeln!(
                out,
                "<text x=\"{x:.1}\" y=\"{y:.1}\" font-size=\"{size:.1}\" text-anchor=\"{anchor}\"{turn}>{}</text>",
                escaped(text)
            )
        }
    }
}

fn places(points: &[PagePosition]) -> String {
    let points: Vec<String> = points.iter().map(|(x, y)| format!("{x:.1},{y:.1}")).collect();
    points.join(" ")
}

fn escaped(text: &str) -> String {
    // XML has no way to write control characters.
    let text = plain_text::one_line(text);
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_cannot_break_the_picture() {
        let mut picture = Drawing::new(10.0, 10.0);
        picture.text((0.0, 0.0), "a < b & \"c\" \u{1b}\u{202e}", 12.0, Anchor::Start);
        assert!(svg(&picture).contains("a &lt; b &amp; &quot;c&quot; \\u{1b}\\u{202e}<"));
    }
}
