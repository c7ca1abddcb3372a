//! The few elements of SVG that plots and timetables are drawn with.
//!
//! By hand and without a library: a plot is lines, rectangles and texts, and every library looked at brings a
//! font stack with it. The page is white, so that it can be read on a dark one, too.

use std::fmt::Write as _;

/// Colours that people with any eyesight tell apart (Okabe and Ito), and then darker ones.
pub const COLOURS: [&str; 12] = [
    "#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#4d4d4d", "#8c564b",
    "#6a3d9a", "#b2a100", "#00796b", "#ad1457",
];

/// A picture that is being drawn.
#[derive(Debug)]
pub struct Svg {
    body: String,
    width: f64,
    height: f64,
}

/// Where a text stands at its point.
#[derive(Debug, Clone, Copy)]
pub enum Anchor {
    /// It begins there.
    Start,
    /// Its middle.
    Middle,
    /// It ends there.
    End,
}

impl Svg {
    /// An empty picture.
    #[must_use]
    pub const fn new(width: f64, height: f64) -> Self {
        Self { body: String::new(), width, height }
    }

    /// A straight line.
    pub fn line(&mut self, from: (f64, f64), to: (f64, f64), colour: &str, width: f64) {
        // Writing to a String cannot fail, here and below.
        let _ = writeln!(
            self.body,
            "<line x1=\"{:.1}\" y1=\"{:.1}\" x2=\"{:.1}\" y2=\"{:.1}\" stroke=\"{colour}\" stroke-width=\"{width}\"/>",
            from.0, from.1, to.0, to.1
        );
    }

    /// A line through points; `dash` is empty or lengths.
    pub fn path(&mut self, points: &[(f64, f64)], colour: &str, dash: &str) {
        let points: Vec<String> = points.iter().map(|(x, y)| format!("{x:.1},{y:.1}")).collect();
        let dash =
            if dash.is_empty() { String::new() } else { format!(" stroke-dasharray=\"{dash}\"") };
        let _ = writeln!(
            self.body,
            "<polyline points=\"{}\" fill=\"none\" stroke=\"{colour}\" stroke-width=\"1.8\" stroke-linejoin=\"round\"{dash}/>",
            points.join(" ")
        );
    }

    /// A filled rectangle, with a text that is shown when somebody points at it.
    pub fn rect(&mut self, corner: (f64, f64), size: (f64, f64), colour: &str, title: &str) {
        let _ = write!(
            self.body,
            "<rect x=\"{:.2}\" y=\"{:.2}\" width=\"{:.2}\" height=\"{:.2}\" fill=\"{colour}\"",
            corner.0, corner.1, size.0, size.1
        );
        let _ = match title.is_empty() {
            true => writeln!(self.body, "/>"),
            false => writeln!(self.body, "><title>{}</title></rect>", escaped(title)),
        };
    }

    /// A mark of one of six shapes.
    pub fn mark(&mut self, (x, y): (f64, f64), shape: usize, colour: &str) {
        let points = |points: &[(f64, f64)]| {
            let all: Vec<String> =
                points.iter().map(|(dx, dy)| format!("{:.1},{:.1}", x + dx, y + dy)).collect();
            format!("<polygon points=\"{}\" fill=\"{colour}\"/>", all.join(" "))
        };
        let text = match shape % 6 {
            0 => format!("<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"3.2\" fill=\"{colour}\"/>"),
            1 => points(&[(-3.0, -3.0), (3.0, -3.0), (3.0, 3.0), (-3.0, 3.0)]),
            2 => points(&[(0.0, -4.0), (3.8, 3.0), (-3.8, 3.0)]),
            3 => points(&[(0.0, -4.2), (4.2, 0.0), (0.0, 4.2), (-4.2, 0.0)]),
            4 => points(&[(0.0, 4.0), (3.8, -3.0), (-3.8, -3.0)]),
            _ => format!(
                "<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"3\" fill=\"white\" stroke=\"{colour}\" stroke-width=\"1.6\"/>"
            ),
        };
        self.body += &text;
        self.body.push('\n');
    }

    /// A text of a size.
    pub fn text(&mut self, at: (f64, f64), text: &str, size: f64, anchor: Anchor) {
        self.put_text(at, text, size, anchor, "");
    }

    /// A text that runs upward.
    pub fn text_up(&mut self, at: (f64, f64), text: &str, size: f64) {
        let turn = format!(" transform=\"rotate(-90 {:.1} {:.1})\"", at.0, at.1);
        self.put_text(at, text, size, Anchor::Middle, &turn);
    }

    fn put_text(&mut self, at: (f64, f64), text: &str, size: f64, anchor: Anchor, more: &str) {
        let anchor = match anchor {
            Anchor::Start => "start",
            Anchor::Middle => "middle",
            Anchor::End => "end",
        };
        let _ = writeln!(
            self.body,
            "<text x=\"{:.1}\" y=\"{:.1}\" font-size=\"{size}\" text-anchor=\"{anchor}\"{more}>{}</text>",
            at.0,
            at.1,
            escaped(text)
        );
    }

    /// The file.
    #[must_use]
    pub fn finish(self) -> String {
        let (width, height) = (self.width, self.height);
        format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width:.0}\" height=\"{height:.0}\" \
             viewBox=\"0 0 {width:.0} {height:.0}\" font-family=\"Helvetica, Arial, DejaVu Sans, sans-serif\" \
             fill=\"#222222\">\n<rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n{}</svg>\n",
            self.body
        )
    }
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

/// Steps of 1, 2 or 5 times a power of ten from `low` to `high`, about `count` of them.
#[must_use]
pub fn ticks(low: f64, high: f64, count: usize) -> Vec<f64> {
    let rough = (high - low) / count.max(1) as f64;
    if !(rough > 0.0 && rough.is_finite()) {
        return vec![low];
    }
    let power = 10_f64.powf(rough.log10().floor());
    let step = [1.0, 2.0, 5.0, 10.0].into_iter().map(|factor| factor * power);
    let step = step.into_iter().find(|step| *step >= rough).unwrap_or(power * 10.0);
    let first = (low / step - 1e-9).ceil();
    // A few dozen at most.
    let last = ((high / step + 1e-9).floor() - first).max(0.0) as usize;
    (0..=last).map(|at| (first + at as f64) * step).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_round() {
        assert_eq!(ticks(0.0, 1.0, 5), [0.0, 0.2, 0.4, 0.6000000000000001, 0.8, 1.0]);
        assert_eq!(ticks(1.0, 10.0, 5), [2.0, 4.0, 6.0, 8.0, 10.0]);
        assert_eq!(ticks(3.0, 3.0, 5), [3.0]);
    }

    #[test]
    fn texts_cannot_break_the_picture() {
        let mut svg = Svg::new(10.0, 10.0);
        svg.text((0.0, 0.0), "a < b & \"c\"", 12.0, Anchor::Start);
        assert!(svg.finish().contains("a &lt; b &amp; &quot;c&quot;"));
    }
}
