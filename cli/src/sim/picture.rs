//! A picture of a few kinds of elements, which plots and timetables are made of; written as SVG ([`super::svg`]) or
//! as PNG ([`super::png`]).
//!
//! By hand and without a library for plots: a plot is lines, rectangles and texts, and both forms shall show the
//! same. The page is white, so that it can be read on a dark one, too.

/// Colours that people with any eyesight tell apart (Okabe and Ito), and then darker ones.
pub const COLOURS: [&str; 12] = [
    "#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#4d4d4d", "#8c564b",
    "#6a3d9a", "#b2a100", "#00796b", "#ad1457",
];
/// Text, and whatever has no colour of its own.
pub const INK: &str = "#222222";

/// A place on the page: x from the left, y from the top.
pub type At = (f64, f64);

/// A picture that is being drawn.
#[derive(Debug, Clone, PartialEq)]
pub struct Picture {
    /// Width and height.
    pub size: (f64, f64),
    /// What is on it, the lowest first.
    pub elements: Vec<Element>,
}

/// One element. Colours are `#rrggbb`.
#[derive(Debug, Clone, PartialEq)]
pub enum Element {
    /// A line through points.
    Line {
        /// The points.
        points: Vec<At>,
        /// Its colour.
        colour: &'static str,
        /// Its width.
        width: f64,
        /// Is it dashed?
        dashed: bool,
    },
    /// A filled shape.
    Area {
        /// Its corners.
        points: Vec<At>,
        /// Its colour.
        colour: &'static str,
        /// From 0, not to be seen, to 1.
        opacity: f64,
        /// Shown when somebody points at it, where that is possible.
        title: String,
    },
    /// A circle.
    Circle {
        /// Its middle.
        middle: At,
        /// Its radius.
        radius: f64,
        /// Its colour.
        colour: &'static str,
        /// Only its outline?
        hollow: bool,
    },
    /// A text in one line.
    Text {
        /// Where it stands, on its base line.
        at: At,
        /// What it says.
        text: String,
        /// The size of its letters.
        size: f64,
        /// What of it stands there.
        anchor: Anchor,
        /// Turned by so many degrees, clockwise.
        turned: f64,
    },
}

/// Where a text stands at its point.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Anchor {
    /// It begins there.
    Start,
    /// Its middle.
    Middle,
    /// It ends there.
    End,
}

impl Picture {
    /// An empty picture.
    #[must_use]
    pub const fn new(width: f64, height: f64) -> Self {
        Self { size: (width, height), elements: Vec::new() }
    }

    /// A straight line.
    pub fn line(&mut self, from: At, to: At, colour: &'static str, width: f64) {
        self.elements.push(Element::Line { points: vec![from, to], colour, width, dashed: false });
    }

    /// A line through points.
    pub fn path(&mut self, points: Vec<At>, colour: &'static str, dashed: bool) {
        self.elements.push(Element::Line { points, colour, width: 1.8, dashed });
    }

    /// A shape that lets through what is below it.
    pub fn band(&mut self, points: Vec<At>, colour: &'static str) {
        let title = String::new();
        self.elements.push(Element::Area { points, colour, opacity: 0.18, title });
    }

    /// A filled rectangle, with a text that is shown when somebody points at it.
    pub fn rect(&mut self, (x, y): At, size: (f64, f64), colour: &'static str, title: &str) {
        let points = vec![(x, y), (x + size.0, y), (x + size.0, y + size.1), (x, y + size.1)];
        let title = title.to_owned();
        self.elements.push(Element::Area { points, colour, opacity: 1.0, title });
    }

    /// A mark of one of six shapes.
    pub fn mark(&mut self, middle: At, shape: usize, colour: &'static str) {
        let corners: &[At] = match shape % 6 {
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

    /// A text of a size.
    pub fn text(&mut self, at: At, text: &str, size: f64, anchor: Anchor) {
        self.turned_text(at, text, size, anchor, 0.0);
    }

    /// A text that is turned by so many degrees, clockwise.
    pub fn turned_text(&mut self, at: At, text: &str, size: f64, anchor: Anchor, turned: f64) {
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
    // A few dozen at most.
    let last = ((high / step + 1e-9).floor() - first).max(0.0) as usize;
    (0..=last).map(|at| (first + at as f64) * step).collect()
}

/// Powers of ten from `low` to `high`; with their 2 and 5 fold, where there would be few.
#[must_use]
pub fn log_ticks(low: f64, high: f64) -> Vec<f64> {
    let powers = low.log10().floor() as i32..=high.log10().ceil() as i32;
    let of = |factors: &[f64]| -> Vec<f64> {
        let all = powers.clone().flat_map(|power| factors.iter().map(move |f| (*f, power)));
        // Two roundings less than a product: 5e-3 is the nearest number to 0.005.
        let all = all.map(|(f, power)| format!("{f}e{power}").parse().unwrap_or(f64::NAN));
        all.filter(|tick| (low..=high).contains(tick)).collect()
    };
    let tens = of(&[1.0]);
    if tens.len() > 2 { tens } else { of(&[1.0, 2.0, 5.0]) }
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
    fn a_logarithmic_scale_has_ticks_even_within_one_power() {
        assert_eq!(log_ticks(0.5, 2_000.0), [1.0, 10.0, 100.0, 1_000.0]);
        assert_eq!(log_ticks(0.004, 0.03), [0.005, 0.01, 0.02]);
    }
}
