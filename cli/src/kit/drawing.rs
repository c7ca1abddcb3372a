//! A drawing made of a few kinds of elements, for plots, timetables and maps; written as SVG ([`super::svg`]) or
//! as PNG ([`crate::experiments::png`]).
//!
//! It uses no plotting library: a plot is only lines, rectangles and texts, and both formats must show the
//! same. The page is white, so that it can also be read on a dark page.

/// Colours that people with any eyesight can tell apart (Okabe and Ito), followed by darker colours.
pub const COLOURS: [&str; 12] = [
    "#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#4d4d4d", "#8c564b",
    "#6a3d9a", "#b2a100", "#00796b", "#ad1457",
];
/// Patterns of lines that are told apart without colours: lengths of strokes and gaps. The first is a whole line. Through the
/// gaps of a line, one that lies below it is seen.
pub const DASHES: [&[f64]; 6] = [
    &[],
    &[7.0, 3.5],
    &[2.0, 2.5],
    &[9.0, 3.0, 2.0, 3.0],
    &[14.0, 4.0],
    &[5.0, 2.0, 1.5, 2.0, 1.5, 2.0],
];
/// The number of shapes of a mark.
pub const MARKS: usize = 6;
/// The colour of text, and of everything that has no colour of its own.
pub const INK: &str = "#222222";

/// A position on the page: x from the left, y from the top.
pub type PagePosition = (f64, f64);

/// A drawing.
#[derive(Debug, Clone, PartialEq)]
pub struct Drawing {
    /// Width and height.
    pub size: (f64, f64),
    /// The elements; later ones cover earlier ones.
    pub elements: Vec<Element>,
}

/// One element. Colours are `#rrggbb`.
#[derive(Debug, Clone, PartialEq)]
pub enum Element {
    /// A line through points.
    Line {
        /// The points.
        points: Vec<PagePosition>,
        /// The colour.
        colour: &'static str,
        /// The width.
        width: f64,
        /// Lengths of strokes and gaps; empty for a whole line.
        dash: &'static [f64],
    },
    /// A filled shape.
    Area {
        /// The corners.
        points: Vec<PagePosition>,
        /// The colour.
        colour: &'static str,
        /// From 0 (invisible) to 1.
        opacity: f64,
        /// Shown when the pointer is over the area, in formats that can do so.
        title: String,
    },
    /// A circle.
    Circle {
        /// The centre.
        middle: PagePosition,
        /// The radius.
        radius: f64,
        /// The colour.
        colour: &'static str,
        /// Whether only the outline is drawn.
        hollow: bool,
    },
    /// A text in one line.
    Text {
        /// The position of the text, on its base line.
        at: PagePosition,
        /// The text itself.
        text: String,
        /// The font size.
        size: f64,
        /// The part of the text that is at the position.
        anchor: Anchor,
        /// Rotation in degrees, clockwise.
        turned: f64,
    },
}

/// How a text is placed at its position.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Anchor {
    /// The text begins there.
    Start,
    /// The middle of the text is there.
    Middle,
    /// The text ends there.
    End,
}

impl Drawing {
    /// An empty drawing.
    #[must_use]
    pub const fn new(width: f64, height: f64) -> Self {
        Self { size: (width, height), elements: Vec::new() }
    }

    /// A straight line.
    pub fn line(&mut self, from: PagePosition, to: PagePosition, colour: &'static str, width: f64) {
        self.elements.push(Element::Line { points: vec![from, to], colour, width, dash: &[] });
    }

    /// A line through points.
    pub fn path(&mut self, points: Vec<PagePosition>, colour: &'static str, dash: &'static [f64]) {
        self.elements.push(Element::Line { points, colour, width: 1.8, dash });
    }

    /// A translucent area, through which what lies below stays visible.
    pub fn band(&mut self, points: Vec<PagePosition>, colour: &'static str) {
        let title = String::new();
        self.elements.push(Element::Area { points, colour, opacity: 0.18, title });
    }

    /// A filled rectangle, with a text that is shown when the pointer is over it.
    pub fn rect(
        &mut self,
        corner: PagePosition,
        size: (f64, f64),
        colour: &'static str,
        title: &str,
    ) {
        let (x, y) = corner;
        let points = vec![(x, y), (x + size.0, y), (x + size.0, y + size.1), (x, y + size.1)];
        let title = title.to_owned();
        self.elements.push(Element::Area { points, colour, opacity: 1.0, title });
    }

    /// A mark in one of six shapes.
    pub fn mark(&mut self, middle: PagePosition, shape: usize, colour: &'static str) {
        let corners: &[PagePosition] = match shape % MARKS {
            1 => &[(-3.0, -3.0), (3.0, -3.0), (3.0, 3.0), (-3.0, 3.0)],
            2 => &[(0.0, -4.0), (3.8, 3.0), (-3.8, 3.0)],
            3 => &[(0.0, -4.2), (4.2, 0.0), (0.0, 4.2), (-4.2, 0.0)],
            4 => &[(0.0, 4.0), (3.8, -3.0), (-3.8, -3.0)],
            round => {
                let (radius, hollow) = if round == 0 { (3.2, false) } else { (3.0, true) };
                self.elements.push(Element::Circle { middle, radius, colour, hollow });
                return;
            }
        };
        let points = corners.iter().map(|(dx, dy)| (middle.0 + dx, middle.1 + dy)).collect();
        let title = String::new();
        self.elements.push(Element::Area { points, colour, opacity: 1.0, title });
    }

    /// A text in this size.
    pub fn text(&mut self, at: PagePosition, text: &str, size: f64, anchor: Anchor) {
        self.turned_text(at, text, size, anchor, 0.0);
    }

    /// A text that is turned clockwise by this many degrees.
    pub fn turned_text(
        &mut self,
        at: PagePosition,
        text: &str,
        size: f64,
        anchor: Anchor,
        turned: f64,
    ) {
        self.elements.push(Element::Text { at, text: text.to_owned(), size, anchor, turned });
    }
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
    // There are a few dozen at most.
    let last = ((high / step + 1e-9).floor() - first).max(0.0) as usize;
    (0..=last).map(|at| (first + at as f64) * step).collect()
}

/// Powers of ten from `low` to `high`, with 2 and 5 times each power if there would be few.
#[must_use]
pub fn log_ticks(low: f64, high: f64) -> Vec<f64> {
    let powers = low.log10().floor() as i32..=high.log10().ceil() as i32;
    let of = |factors: &[f64]| -> Vec<f64> {
        let all = powers.clone().flat_map(|power| factors.iter().map(move |f| (*f, power)));
        // Parsing rounds less often than multiplying: 5e-3 becomes the number nearest to 0.005.
        let all = all.map(|(f, power)| format!("{f}e{power}").parse().unwrap_or(f64::NAN));
        all.filter(|tick| (low..=high).contains(tick)).collect()
    };
    let tens = of(&[1.0]);
    if tens.len() > 2 { tens } else { of(&[1.0, 2.0, 5.0]) }
}

/// A number beside a tick, in as few signs as it takes: `0.6`, `120000`, `2 M`.
#[must_use]
pub fn tick_text(value: f64) -> String {
    let size = value.abs();
    let (scaled, unit) = match size {
        _ if size >= 1e15 => return format!("{value:e}"),
        _ if size >= 1e12 => (value / 1e12, " T"),
        _ if size >= 1e9 => (value / 1e9, " G"),
        _ if size >= 1e6 => (value / 1e6, " M"),
        _ => (value, ""),
    };
    // Ticks are multiples of round steps, so what is further behind the point is an error of rounding.
    let text = format!("{scaled:.9}");
    match text.trim_end_matches('0').trim_end_matches('.') {
        "0" | "-0" if value != 0.0 => format!("{value:e}"),
        "-0" => "0".to_owned(),
        plain => format!("{plain}{unit}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tick_is_written_plainly() {
        for (value, text) in [
            (0.600_000_000_000_000_1, "0.6"),
            (0.0, "0"),
            (-0.0, "0"),
            (-2.5, "-2.5"),
            (120_000.0, "120000"),
            (1_500_000.0, "1.5 M"),
            (4e9, "4 G"),
            (0.000_02, "0.00002"),
            (2e-12, "2e-12"),
        ] {
            assert_eq!(tick_text(value), text, "{value}");
        }
    }

    #[test]
    fn ticks_are_round() {
        assert_eq!(ticks(0.0, 1.0, 5), [0.0, 0.2, 0.4, 0.6000000000000001, 0.8, 1.0]);
        assert_eq!(ticks(1.0, 10.0, 5), [2.0, 4.0, 6.0, 8.0, 10.0]);
        assert_eq!(ticks(3.0, 3.0, 5), [3.0]);
    }

    #[test]
    fn a_logarithmic_scale_has_ticks_even_within_one_power() {
        assert_eq!(log_ticks(0.5, 2_000.0), [1.0, 10.0, 100.0, 1_000.0]);
        assert_eq!(log_ticks(0.004, 0.03), [0.005, 0.01, 0.02]);
    }
}
