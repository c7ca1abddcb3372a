//! The layout of a plot: axes, lines with their confidence intervals, legend.
//!
//! All texts are measured with the font of [`crate::kit::font`], so that nothing overlaps. Lines differ in colour, dashes and
//! marks, so that they can be told apart in grey and where they coincide. The points that several lines have at one x stand
//! side by side, each with its interval. Values of an axis that are no numbers are not joined by lines, because there is
//! nothing between them.

mod scale;

use coalloc_sim::experiment::Summary;

use self::scale::Scale;
use crate::kit::drawing::{Anchor, COLOURS, DASHES, Drawing, MARKS, PagePosition, tick_text};
use crate::kit::font::{widest, width};

/// One line of a plot.
pub struct Line {
    /// The line's name in the legend.
    pub name: String,
    /// Values of x, each with the summary of the measurements there.
    pub points: Vec<(f64, Summary)>,
    /// The least and the largest value that can be, such as 0 and 1 for a share.
    pub range: (f64, f64),
}

impl Line {
    /// The ends of the confidence interval of a point, without what cannot be.
    fn ends(&self, own: &Summary) -> [f64; 2] {
        let (within, (least, most)) = (own.within.unwrap_or(0.0), self.range);
        // Measured values are in the range, unless rounding has moved them.
        [(own.mean - within).max(least.min(own.mean)), (own.mean + within).min(most.max(own.mean))]
    }

    fn is_dense(&self) -> bool {
        self.points.len() > DENSE
    }

    /// The points from left to right.
    fn sorted(&self) -> Vec<(f64, Summary)> {
        let mut points = self.points.clone();
        points.sort_by(|one, other| one.0.total_cmp(&other.0));
        points
    }
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
    /// Text above the legend: what its names are values of.
    pub legend: String,
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
const NOTE: f64 = 10.0;
const LEGEND_ROW: f64 = 17.0;
/// Length of the sample of a line in the legend, with two strokes of the longest dashes, and the gap after it.
const SAMPLE: f64 = 34.0;
const GAP: f64 = 6.0;
/// Number of points from which marks on a line would run together; a band then shows the intervals.
const DENSE: usize = 60;
/// Angle at which names run downward that are too wide for their place.
const SLANT: f64 = 30.0;
/// Half the width of the caps of an interval.
const CAP: f64 = 3.0;
/// How far the points of two lines at one x are apart where there is room, and how far the first and the last at most where x is
/// a number, so that they stand by it.
const APART: f64 = 9.0;
const APART_ALL: f64 = 18.0;
/// Number of different x up to which each has its tick.
const OWN_TICKS: usize = 10;

const GRID: &str = "#e4e4e4";
const AXIS: &str = "#444444";

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

/// How a line is drawn, and how far aside its points are.
struct Pen {
    colour: &'static str,
    dash: &'static [f64],
    mark: usize,
    aside: f64,
    /// Half the width of caps.
    cap: f64,
}

impl Chart {
    /// Draws the plot with these lines.
    #[must_use]
    pub fn draw(&self, lines: &[Line]) -> Drawing {
        if lines.iter().all(|line| line.points.is_empty()) {
            let mut picture = Drawing::new(WIDE, TOP + HIGH);
            picture.text((16.0, 24.0), &self.title, TITLE, Anchor::Start);
            let middle = (WIDE / 2.0, (TOP + HIGH) / 2.0);
            picture.text(middle, "nothing was measured", 13.0, Anchor::Middle);
            return picture;
        }
        let y = self.y_scale(lines);
        let layout = self.layout(lines, &y);
        let x = self.x_scale(lines, layout.left);
        let mut picture = Drawing::new(layout.size.0, layout.size.1);
        // If the title is too long at its normal size, it is written smaller.
        let room = layout.size.0 - 2.0 * GAP;
        let size = TITLE * (room / width(&self.title, TITLE)).min(1.0);
        let start = layout.left.min((layout.size.0 - GAP - width(&self.title, size)).max(GAP));
        picture.text((start, 24.0), &self.title, size, Anchor::Start);
        self.axes(&mut picture, lines, &layout, &x, &y);
        // Bands are drawn first, behind all lines.
        let step = self.step(lines, &x);
        for (at, line) in lines.iter().enumerate() {
            draw_band(&mut picture, line, &pen(at, lines.len(), step), &x, &y);
        }
        for (at, line) in lines.iter().enumerate() {
            self.draw_line(&mut picture, line, &pen(at, lines.len(), step), &x, &y);
        }
        self.draw_legend(&mut picture, lines, x.to + RIGHT);
        self.notes(&mut picture, &layout, &y);
        picture
    }

    fn layout(&self, lines: &[Line], y: &Scale) -> Layout {
        let numbers: Vec<String> = y.ticks().into_iter().map(tick_text).collect();
        let left = 34.0 + widest(numbers.iter().map(String::as_str), SMALL);
        let legend = match lines.len() > 1 {
            true => {
                let names = lines.iter().map(|line| line.name.as_str());
                let entries = SAMPLE + GAP + widest(names, LEGEND);
                RIGHT + entries.max(width(&self.legend, LEGEND)) + GAP
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
        let rows = lines.len() + usize::from(!self.legend.is_empty());
        let rows = if lines.len() > 1 { LEGEND_ROW * rows as f64 } else { 0.0 };
        let high = (label + 18.0).max(TOP + 10.0 + rows);
        Layout { left, size: (left + WIDE + legend.max(over + GAP), high), label, slanted }
    }

    fn x_scale(&self, lines: &[Line], left: f64) -> Scale {
        let (from, to) = (left, left + WIDE);
        if !self.names.is_empty() {
            return Scale::of_names(self.names.len(), from, to);
        }
        let values = lines.iter().flat_map(|line| &line.points).map(|(x, _)| *x);
        Scale::of_x(values, self.log.0, from, to)
    }

    fn y_scale(&self, lines: &[Line]) -> Scale {
        let all =
            || lines.iter().flat_map(|line| line.points.iter().map(move |(_, own)| (line, own)));
        let ends = all().flat_map(|(line, own)| line.ends(own));
        let (from, to) = (TOP + HIGH, TOP);
        if self.log.1
            && let Some(scale) =
                Scale::log_y(all().map(|(line, own)| (own.mean, line.ends(own))), from, to)
        {
            return scale;
        }
        Scale::of_y(ends, lines.iter().all(|line| line.range.1 <= 1.0), from, to)
    }

    /// How far the points of two lines at one x are apart.
    fn step(&self, lines: &[Line], x: &Scale) -> f64 {
        let count = lines.len() as f64;
        if lines.len() < 2 || lines.iter().any(Line::is_dense) {
            return 0.0;
        }
        if !self.names.is_empty() {
            return (0.7 * (x.at(1.0) - x.at(0.0)) / count).min(2.0 * APART);
        }
        let places = own_xs(lines);
        let places = places.windows(2).map(|pair| x.at(pair[1]) - x.at(pair[0]));
        let room = places.fold(f64::INFINITY, f64::min);
        APART.min(APART_ALL / count).min(0.5 * room / count)
    }

    /// The ticks of x, each with its text.
    fn x_ticks(&self, lines: &[Line], x: &Scale) -> Vec<(f64, String)> {
        if !self.names.is_empty() {
            return (0_u32..).map(f64::from).zip(self.names.iter().cloned()).collect();
        }
        let named = |ticks: Vec<f64>| -> Vec<(f64, String)> {
            ticks.into_iter().map(|tick| (tick, tick_text(tick))).collect()
        };
        // Where there are few points, a reader wants to know of which x they are.
        let own = named(own_xs(lines));
        let fits = |pair: &[(f64, String)]| {
            let half = |text: &str| width(text, SMALL) / 2.0;
            x.at(pair[1].0) - x.at(pair[0].0) > half(&pair[0].1) + half(&pair[1].1) + GAP
        };
        match own.len() <= OWN_TICKS && own.windows(2).all(fits) {
            true => own,
            false => named(x.ticks()),
        }
    }

    fn axes(&self, picture: &mut Drawing, lines: &[Line], layout: &Layout, x: &Scale, y: &Scale) {
        for tick in y.ticks() {
            let at = y.at(tick);
            picture.line((x.from, at), (x.to, at), GRID, 1.0);
            picture.text((x.from - 7.0, at + 4.0), &tick_text(tick), SMALL, Anchor::End);
        }
        for (tick, name) in self.x_ticks(lines, x) {
            let at = x.at(tick);
            if tick > 0.0 && !self.names.is_empty() {
                let between = x.at(tick - 0.5);
                picture.line((between, y.from), (between, y.to), GRID, 1.0);
            }
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

    fn draw_legend(&self, picture: &mut Drawing, lines: &[Line], from: f64) {
        if lines.len() < 2 {
            return;
        }
        let mut row = TOP + 10.0;
        if !self.legend.is_empty() {
            picture.text((from, row + 4.0), &self.legend, LEGEND, Anchor::Start);
            row += LEGEND_ROW;
        }
        for (at, line) in lines.iter().enumerate() {
            let pen = pen(at, lines.len(), 0.0);
            if self.names.is_empty() {
                picture.path(vec![(from, row), (from + SAMPLE, row)], pen.colour, pen.dash);
            }
            if !line.is_dense() {
                picture.mark((from + SAMPLE / 2.0, row), pen.mark, pen.colour);
            }
            let place = (from + SAMPLE + GAP, row + 4.0);
            picture.text(place, &line.name, LEGEND, Anchor::Start);
            row += LEGEND_ROW;
        }
    }

    /// What a reader would otherwise get wrong.
    fn notes(&self, picture: &mut Drawing, layout: &Layout, y: &Scale) {
        let corner = layout.size.1 - GAP;
        if !y.log && y.low > 0.0 {
            let text = format!("the axis of y begins at {}, not at 0", tick_text(y.low));
            picture.text((GAP, corner), &text, NOTE, Anchor::Start);
        }
        if self.left_out > 0 {
            let text = format!("{} more lines in results.csv", self.left_out);
            picture.text((layout.size.0 - GAP, corner), &text, NOTE, Anchor::End);
        }
    }

    fn draw_line(&self, picture: &mut Drawing, line: &Line, pen: &Pen, x: &Scale, y: &Scale) {
        let points = line.sorted();
        let place = |(at, own): &(f64, Summary)| (x.at(*at) + pen.aside, y.at(own.mean));
        let places: Vec<PagePosition> = points.iter().map(place).collect();
        if self.names.is_empty() {
            picture.path(places.clone(), pen.colour, pen.dash);
        }
        if line.is_dense() {
            return;
        }
        for ((_, own), place) in points.iter().zip(&places) {
            if own.within.is_some_and(|within| within > 0.0) {
                draw_interval(picture, place.0, line.ends(own), own.mean, pen, y);
            }
            picture.mark(*place, pen.mark, pen.colour);
        }
    }
}

/// Every different x of these lines, from left to right.
fn own_xs(lines: &[Line]) -> Vec<f64> {
    let mut all: Vec<f64> = lines.iter().flat_map(|line| &line.points).map(|(x, _)| *x).collect();
    all.sort_by(f64::total_cmp);
    all.dedup();
    all
}

/// How the line with index `at` of `lines` lines is drawn. The combinations of colour, dashes and marks do not repeat within the
/// number of lines of a plot.
fn pen(at: usize, lines: usize, step: f64) -> Pen {
    let middle = lines.saturating_sub(1) as f64 / 2.0;
    Pen {
        colour: COLOURS[at % COLOURS.len()],
        dash: DASHES[(at + at / MARKS) % DASHES.len()],
        mark: at % MARKS,
        aside: (at as f64 - middle) * step,
        cap: if step > 0.0 { CAP.min((step * 0.45).max(1.0)) } else { CAP },
    }
}

/// Draws the confidence interval of a point.
fn draw_interval(picture: &mut Drawing, x: f64, ends: [f64; 2], mean: f64, pen: &Pen, y: &Scale) {
    let [least, most] = ends;
    // On a logarithmic axis, an interval that reaches zero or less has only an upper half.
    let least = if y.log && least <= 0.0 { mean } else { least };
    let ends = [least, most].map(|end| y.at(end));
    let [low, high] = ends.map(|end| inside(end, y));
    picture.line((x, low), (x, high), pen.colour, 1.0);
    // An end beyond the axes gets no cap, because the interval continues.
    for end in ends.into_iter().filter(|end| inside(*end, y) == *end) {
        picture.line((x - pen.cap, end), (x + pen.cap, end), pen.colour, 1.0);
    }
}

/// A height limited to the axes, because an interval may reach beyond the plot.
fn inside(height: f64, y: &Scale) -> f64 {
    height.clamp(y.from.min(y.to), y.from.max(y.to))
}

/// The confidence intervals of a line with many points.
fn draw_band(picture: &mut Drawing, line: &Line, pen: &Pen, x: &Scale, y: &Scale) {
    let points = line.sorted();
    // Zero has no place on a logarithmic scale, and a band without a lower edge would hide all others.
    if y.log && points.iter().any(|(_, own)| line.ends(own)[0] <= 0.0) {
        return;
    }
    if !line.is_dense() || points.iter().all(|(_, own)| own.within.is_none_or(|w| w == 0.0)) {
        return;
    }
    let edge = |end: usize| {
        let place = move |(at, own): &(f64, Summary)| -> PagePosition {
            (x.at(*at), inside(y.at(line.ends(own)[end]), y))
        };
        points.iter().map(place).collect::<Vec<PagePosition>>()
    };
    let mut corners = edge(1);
    corners.extend(edge(0).into_iter().rev());
    picture.band(corners, pen.colour);
}

#[cfg(test)]
mod tests;
