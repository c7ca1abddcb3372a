//! The layout of a plot: scales, axes, lines with their confidence intervals, legend.
//!
//! All texts are measured with the font of [`crate::kit::font`], so that nothing overlaps.

use coalloc_sim::experiment::Summary;
use coalloc_sim::experiment::judge::number;

use crate::kit::drawing::{Anchor, COLOURS, Drawing, PagePosition, log_ticks, ticks};
use crate::kit::font::{widest, width};

/// One line of a plot.
pub struct Line {
    /// The line's name in the legend.
    pub name: String,
    /// Values of x, each with the summary of the measurements there.
    pub points: Vec<(f64, Summary)>,
}

/// A plot without its lines.
pub struct Chart {
    /// Text above the plot.
    pub title: String,
    /// Label below the plot.
    pub x_label: String,
    /// Label at the left of the plot.
    pub y_label: String,
    /// Whether x and y are logarithmic.
    pub log: (bool, bool),
    /// Names for 0, 1, 2 and so on of x, if x is not a number.
    pub names: Vec<String>,
    /// Number of lines that are not drawn.
    pub left_out: usize,
}

/// Width and height of the area between the axes.
const WIDE: f64 = 550.0;
const HIGH: f64 = 320.0;
const TOP: f64 = 44.0;
/// Space between the axes and the legend.
const RIGHT: f64 = 16.0;
/// Font sizes.
const TITLE: f64 = 15.0;
const LABEL: f64 = 12.5;
const SMALL: f64 = 11.5;
const LEGEND: f64 = 12.0;
const LEGEND_ROW: f64 = 17.0;
/// Length of the sample of a line in the legend, and the gap after it.
const SAMPLE: f64 = 24.0;
const GAP: f64 = 6.0;
/// Number of points from which marks on a line would run together; a band then shows the intervals.
const DENSE: usize = 60;
/// Angle at which names run downward that are too wide for their place.
const SLANT: f64 = 30.0;

const GRID: &str = "#e4e4e4";
const AXIS: &str = "#444444";

/// One scale, which maps values to positions on the page.
struct Scale {
    low: f64,
    high: f64,
    log: bool,
    from: f64,
    to: f64,
}

impl Scale {
    fn at(&self, value: f64) -> f64 {
        let map = |value: f64| if self.log { value.max(1e-300).log10() } else { value };
        let (low, high) = (map(self.low), map(self.high));
        let share = if high > low { (map(value) - low) / (high - low) } else { 0.5 };
        self.from + share.clamp(-0.02, 1.02) * (self.to - self.from)
    }

    fn ticks(&self) -> Vec<f64> {
        if self.log { log_ticks(self.low, self.high) } else { ticks(self.low, self.high, 6) }
    }
}

/// The positions of the parts of a plot.
struct Layout {
    left: f64,
    /// Size of the whole drawing.
    size: (f64, f64),
    /// Position of the label below the axis of x.
    label: f64,
    /// Whether the names below the axis of x run downward.
    slanted: bool,
}

impl Chart {
    /// Draws the plot with these lines.
    #[must_use]
    pub fn draw(&self, lines: &[Line]) -> Drawing {
        let all = || lines.iter().flat_map(|line| &line.points);
        if all().next().is_none() {
            let mut picture = Drawing::new(WIDE, TOP + HIGH);
            picture.text((16.0, 24.0), &self.title, TITLE, Anchor::Start);
            let middle = (WIDE / 2.0, (TOP + HIGH) / 2.0);
            picture.text(middle, "nothing was measured", 13.0, Anchor::Middle);
            return picture;
        }
        let y = self.y_scale(all().map(|(_, summary)| summary));
        let layout = self.layout(lines, &y);
        let x = self.x_scale(all().map(|(x, _)| *x), layout.left);
        let mut picture = Drawing::new(layout.size.0, layout.size.1);
        // If the title is too long at its normal size, it is written smaller.
        let room = layout.size.0 - 2.0 * GAP;
        let size = TITLE * (room / width(&self.title, TITLE)).min(1.0);
        let start = layout.left.min((layout.size.0 - GAP - width(&self.title, size)).max(GAP));
        picture.text((start, 24.0), &self.title, size, Anchor::Start);
        self.axes(&mut picture, &layout, &x, &y);
        // Bands are drawn first, behind all lines.
        for (at, line) in lines.iter().enumerate() {
            draw_band(&mut picture, line, at, &x, &y);
        }
        for (at, line) in lines.iter().enumerate() {
            draw_line(&mut picture, line, at, lines.len(), &x, &y);
            if lines.len() > 1 {
                let row = TOP + 10.0 + LEGEND_ROW * at as f64;
                let from = x.to + RIGHT;
                let (colour, dashed) = pen(at);
                picture.path(vec![(from, row), (from + SAMPLE, row)], colour, dashed);
                if !is_dense(line) {
                    picture.mark((from + SAMPLE / 2.0, row), at, colour);
                }
                let place = (from + SAMPLE + GAP, row + 4.0);
                picture.text(place, &line.name, LEGEND, Anchor::Start);
            }
        }
        if self.left_out > 0 {
            let text = format!("{} more lines in results.csv", self.left_out);
            let corner = (layout.size.0 - GAP, layout.size.1 - GAP);
            picture.text(corner, &text, 10.0, Anchor::End);
        }
        picture
    }

    fn layout(&self, lines: &[Line], y: &Scale) -> Layout {
        let numbers: Vec<String> = y.ticks().into_iter().map(number).collect();
        let left = 34.0 + widest(numbers.iter().map(String::as_str), SMALL);
        let legend = match lines.len() > 1 {
            true => {
                let names = lines.iter().map(|line| line.name.as_str());
                RIGHT + SAMPLE + GAP + widest(names, LEGEND) + GAP
            }
            false => RIGHT,
        };
        let names = widest(self.names.iter().map(String::as_str), SMALL);
        let room = WIDE / (self.names.len().max(1) as f64 + 0.8);
        let slanted = names + GAP > room;
        let (sine, cosine) = SLANT.to_radians().sin_cos();
        let below = if slanted { names * sine + 12.0 } else { 17.0 };
        // The last name may reach beyond the axes, from which it is 0.4 of its room away.
        let over = if slanted { (names * cosine - room * 0.4).max(0.0) } else { 0.0 };
        let label = TOP + HIGH + below + 24.0;
        let rows = if lines.len() > 1 { LEGEND_ROW * lines.len() as f64 } else { 0.0 };
        let high = (label + 16.0).max(TOP + 10.0 + rows);
        Layout { left, size: (left + WIDE + legend.max(over + GAP), high), label, slanted }
    }

    fn x_scale(&self, values: impl Iterator<Item = f64> + Clone, left: f64) -> Scale {
        let low = values.clone().fold(f64::INFINITY, f64::min);
        let high = values.fold(f64::NEG_INFINITY, f64::max);
        let (from, to) = (left, left + WIDE);
        if !self.names.is_empty() {
            let last = self.names.len() as f64 - 1.0;
            return Scale { low: -0.4, high: last + 0.4, log: false, from, to };
        }
        if self.log.0 && low > 0.0 {
            // A small margin keeps the first and the last mark away from the axes.
            let pad = (high / low).powf(0.03);
            return Scale { low: low / pad, high: high * pad, log: true, from, to };
        }
        let pad = ((high - low) * 0.03).max(1e-9);
        Scale { low: low - pad, high: high + pad, log: false, from, to }
    }

    fn y_scale<'a>(&self, values: impl Iterator<Item = &'a Summary> + Clone) -> Scale {
        let (from, to) = (TOP + HIGH, TOP);
        let means = || values.clone().map(|summary| summary.mean);
        let positive = means().filter(|mean| *mean > 0.0).fold(f64::INFINITY, f64::min);
        let top = |summary: &Summary| summary.mean + summary.within.unwrap_or(0.0);
        let high = values.clone().map(top).fold(f64::NEG_INFINITY, f64::max);
        if self.log.1 && positive.is_finite() {
            return Scale { low: positive / 1.5, high: high * 1.5, log: true, from, to };
        }
        let low = means().fold(0.0, f64::min);
        // For shares, the whole scale stays visible.
        let high = if high <= 1.0 && high > 0.55 { 1.02 } else { high * 1.06 };
        Scale { low, high: if high > low { high } else { low + 1.0 }, log: false, from, to }
    }

    fn axes(&self, picture: &mut Drawing, layout: &Layout, x: &Scale, y: &Scale) {
        for tick in y.ticks() {
            let at = y.at(tick);
            picture.line((x.from, at), (x.to, at), GRID, 1.0);
            picture.text((x.from - 7.0, at + 4.0), &number(tick), SMALL, Anchor::End);
        }
        let named: Vec<(f64, String)> = match self.names.is_empty() {
            true => x.ticks().into_iter().map(|tick| (tick, number(tick))).collect(),
            false => (0_u32..).map(f64::from).zip(self.names.iter().cloned()).collect(),
        };
        for (tick, name) in named {
            let at = x.at(tick);
            picture.line((at, y.from), (at, y.from + 4.0), AXIS, 1.0);
            match layout.slanted {
                true => {
                    let place = (at - 3.0, y.from + 15.0);
                    picture.turned_text(place, &name, SMALL, Anchor::Start, SLANT);
                }
                false => picture.text((at, y.from + 17.0), &name, SMALL, Anchor::Middle),
            }
        }
        picture.line((x.from, y.from), (x.to, y.from), AXIS, 1.0);
        picture.line((x.from, y.from), (x.from, y.to), AXIS, 1.0);
        let middle = (x.from + x.to) / 2.0;
        picture.text((middle, layout.label), &self.x_label, LABEL, Anchor::Middle);
        let place = (16.0, (y.from + y.to) / 2.0);
        picture.turned_text(place, &self.y_label, LABEL, Anchor::Middle, -90.0);
    }
}

/// The colour of a line, and whether it is dashed, which it is when all colours are in use.
fn pen(line: usize) -> (&'static str, bool) {
    (COLOURS[line % COLOURS.len()], line >= COLOURS.len())
}

fn is_dense(line: &Line) -> bool {
    line.points.len() > DENSE
}

/// The points of a line from left to right.
fn sorted(line: &Line) -> Vec<(f64, Summary)> {
    let mut points = line.points.clone();
    points.sort_by(|one, other| one.0.total_cmp(&other.0));
    points
}

/// A height limited to the axes, because an interval may reach beyond the plot.
fn inside(height: f64, y: &Scale) -> f64 {
    height.clamp(y.from.min(y.to), y.from.max(y.to))
}

/// The confidence intervals of a line with many points.
fn draw_band(picture: &mut Drawing, line: &Line, at: usize, x: &Scale, y: &Scale) {
    let points = sorted(line);
    // Zero has no place on a logarithmic scale, and a band without a lower edge would hide all others.
    let reaches_nothing = |own: &Summary| own.mean <= own.within.unwrap_or(0.0);
    if y.log && points.iter().any(|(_, own)| reaches_nothing(own)) {
        return;
    }
    if !is_dense(line) || points.iter().all(|(_, own)| own.within.is_none_or(|w| w == 0.0)) {
        return;
    }
    let edge = |sign: f64| {
        let place = move |(at, own): &(f64, Summary)| -> PagePosition {
            (x.at(*at), inside(y.at(own.mean + sign * own.within.unwrap_or(0.0)), y))
        };
        points.iter().map(place).collect::<Vec<PagePosition>>()
    };
    let mut corners = edge(1.0);
    corners.extend(edge(-1.0).into_iter().rev());
    picture.band(corners, pen(at).0);
}

/// Draws the line with index `at` among `lines` lines.
fn draw_line(picture: &mut Drawing, line: &Line, at: usize, lines: usize, x: &Scale, y: &Scale) {
    let (colour, dashed) = pen(at);
    let points = sorted(line);
    let places: Vec<PagePosition> =
        points.iter().map(|(at, own)| (x.at(*at), y.at(own.mean))).collect();
    picture.path(places.clone(), colour, dashed);
    if is_dense(line) {
        return;
    }
    // The bars of several lines at one x are drawn side by side, a little off their marks.
    let middle = (lines.saturating_sub(1)) as f64 / 2.0;
    let aside = (at as f64 - middle) * (12.0 / lines.max(4) as f64);
    for ((_, own), place) in points.iter().zip(&places) {
        if let Some(within) = own.within.filter(|within| *within > 0.0) {
            // On a logarithmic axis, an interval that reaches zero or less has only an upper half.
            let least = if y.log && own.mean <= within { own.mean } else { own.mean - within };
            let ends = [least, own.mean + within].map(|end| y.at(end));
            let [low, high] = ends.map(|end| inside(end, y));
            let x = place.0 + aside;
            picture.line((x, low), (x, high), colour, 1.0);
            // An end beyond the axes gets no cap, because the interval continues.
            for end in ends.into_iter().filter(|end| inside(*end, y) == *end) {
                picture.line((x - 3.0, end), (x + 3.0, end), colour, 1.0);
            }
        }
        picture.mark(*place, at, colour);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kit::drawing::Element;

    fn chart(names: &[&str]) -> Chart {
        Chart {
            title: "A title that is far longer than the plot is wide, as titles of experiments on papers, \
                    with all their conditions, sometimes are"
                .to_owned(),
            x_label: "x".to_owned(),
            y_label: "y".to_owned(),
            log: (false, false),
            names: names.iter().map(|name| (*name).to_owned()).collect(),
            left_out: 0,
        }
    }

    fn line(name: &str, count: u32) -> Line {
        let point = |at| {
            let mean = f64::from(at) + 1.0;
            (f64::from(at), Summary { count: 3, mean, within: Some(0.5) })
        };
        Line { name: name.to_owned(), points: (0..count).map(point).collect() }
    }

    /// Every text of a drawing: the text, and the corners of its box before it is turned.
    fn texts(picture: &Drawing) -> Vec<(String, PagePosition, PagePosition, f64)> {
        let of = |element: &Element| match element {
            Element::Text { at, text, size, anchor, turned } => {
                let wide = width(text, *size);
                let left = match anchor {
                    Anchor::Start => at.0,
                    Anchor::Middle => at.0 - wide / 2.0,
                    Anchor::End => at.0 - wide,
                };
                Some((text.clone(), (left, at.1 - size * 0.75), (left + wide, at.1), *turned))
            }
            _ => None,
        };
        picture.elements.iter().filter_map(of).collect()
    }

    #[test]
    fn texts_are_on_the_page_and_not_on_one_another() {
        for names in [&["a", "b", "c"][..], &["every-change-and-more"; 6][..], &[]] {
            let lines = [line("a line with a name", 3), line("another, which is longer still", 3)];
            let picture = chart(names).draw(&lines);
            let upright: Vec<_> =
                texts(&picture).into_iter().filter(|(.., turned)| *turned == 0.0).collect();
            assert!(upright.len() >= 8, "{upright:?}");
            for (at, (text, from, to, _)) in upright.iter().enumerate() {
                assert!(from.0 >= 0.0 && to.0 <= picture.size.0, "{text} is cut off");
                assert!(from.1 >= 0.0 && to.1 <= picture.size.1, "{text} is cut off");
                for (other, low, high, _) in &upright[..at] {
                    let apart = to.0 < low.0 || high.0 < from.0 || to.1 < low.1 || high.1 < from.1;
                    assert!(apart, "{text} is on {other} with {names:?}");
                }
            }
        }
    }

    #[test]
    fn intervals_are_bars_on_few_points_and_a_band_on_many() {
        let bands = |count| {
            let picture = chart(&[]).draw(&[line("a", count)]);
            let is_band = |element: &&Element| matches!(element, Element::Area { opacity, .. } if *opacity < 1.0);
            (picture.elements.iter().filter(is_band).count(), picture.elements.len())
        };
        assert_eq!(bands(10).0, 0);
        assert!(bands(10).1 > 10 * 4, "three strokes and a mark a point");
        assert_eq!(bands(100).0, 1);
    }

    #[test]
    fn an_interval_that_reaches_below_nothing_ends_at_the_axis() {
        let mut wide = line("a", 5);
        wide.points[2].1.within = Some(50.0);
        let picture = chart(&[]).draw(&[wide]);
        let strokes = picture.elements.iter().filter_map(|element| match element {
            Element::Line { points, colour, .. } => Some((points.clone(), colour.to_owned())),
            _ => None,
        });
        let strokes: Vec<_> = strokes.collect();
        let axis = strokes.iter().filter(|(_, colour)| *colour == AXIS);
        let lowest = |all: &mut dyn Iterator<Item = &(Vec<PagePosition>, _)>| {
            all.flat_map(|(points, _)| points).map(|at| at.1).fold(0.0, f64::max)
        };
        let ground = lowest(&mut axis.filter(|(points, _)| points[0].1 == points[1].1));
        let drawn = lowest(&mut strokes.iter().filter(|(_, colour)| *colour == COLOURS[0]));
        assert!(drawn <= ground, "{drawn} is below the axis at {ground}");
    }
}
