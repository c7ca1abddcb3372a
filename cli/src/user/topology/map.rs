//! The map of a federation: sites and exchange points, and the paths between them, as a drawing.
//!
//! Points that few paths separate are near each other ([`map_places`]), and the same federation has the same map. Left out:
//! what is booked.

use coalloc_common::{Cpus, map_places};

use super::OwnedResource;
use crate::kit::drawing::{Anchor, COLOURS, Drawing, Element, INK, PagePosition};
use crate::kit::font::{widest, width};
use crate::kit::text;
use coalloc_proto::v1;

/// The length of a path, where nothing else pulls.
const PATH_LENGTH: f64 = 120.0;
/// White space around the map.
const MARGIN: f64 = 16.0;
/// Heights of letters: of names, and of amounts.
const NAME: f64 = 13.0;
const AMOUNT: f64 = 11.0;
/// Up to this many paths, each one is labelled with its rate. On other maps, only its width tells.
const LABELLED_PATHS_MAX: usize = 12;
/// How wide the row of domains may be.
const LEGEND_WIDTH: f64 = 560.0;

/// A site or an exchange point on the map.
#[derive(Debug, Clone, PartialEq)]
struct MapPoint {
    name: String,
    /// What it has; nothing at exchange points.
    amount: Option<String>,
    /// The place of its domain among all domains; exchange points have none.
    domain: Option<usize>,
}

/// A path between two points.
#[derive(Debug, Clone, Copy, PartialEq)]
struct MapPath {
    ends: (usize, usize),
    rate_bps: u64,
    domain: usize,
}

/// What the map shows.
#[derive(Debug, Clone, Default)]
struct Map {
    points: Vec<MapPoint>,
    paths: Vec<MapPath>,
    domains: Vec<String>,
}

/// Draws the map.
pub(super) fn drawing(
    sites: &[OwnedResource<'_, v1::Site>],
    paths: &[OwnedResource<'_, v1::Path>],
    exchange_points: &[String],
) -> Drawing {
    let mut map = Map::default();
    for OwnedResource { domain, thing, .. } in sites {
        let domain = Some(map.domain(domain));
        let amount = Some(Cpus(thing.cpus).to_string());
        map.points.push(MapPoint { name: thing.name.clone(), amount, domain });
    }
    for name in exchange_points {
        map.point(name);
    }
    for OwnedResource { domain, thing, .. } in paths {
        let ends = (map.point(&thing.a), map.point(&thing.b));
        let domain = map.domain(domain);
        map.paths.push(MapPath { ends, rate_bps: thing.capacity_bps, domain });
    }
    map.draw()
}

impl Map {
    /// The place of a domain, which is new if nothing before belongs to it.
    fn domain(&mut self, name: &str) -> usize {
        let known = self.domains.iter().position(|domain| domain == name);
        known.unwrap_or_else(|| {
            self.domains.push(name.to_owned());
            self.domains.len() - 1
        })
    }

    /// The place of a point. Where paths end and no site is, is an exchange point.
    fn point(&mut self, name: &str) -> usize {
        let known = self.points.iter().position(|point| point.name == name);
        known.unwrap_or_else(|| {
            self.points.push(MapPoint { name: name.to_owned(), amount: None, domain: None });
            self.points.len() - 1
        })
    }

    /// Where the points are, in lengths of a path, wider than high.
    fn places(&self) -> Vec<PagePosition> {
        let ends: Vec<_> = self.paths.iter().map(|path| path.ends).collect();
        map_places::of_network(self.points.len(), &ends)
    }

    fn draw(&self) -> Drawing {
        let places = self.places();
        let left = places.iter().map(|place| place.0).fold(0.0, f64::min);
        let top = places.iter().map(|place| place.1).fold(0.0, f64::min);
        let right = places.iter().map(|place| place.0).fold(0.0, f64::max);
        let bottom = places.iter().map(|place| place.1).fold(0.0, f64::max);
        // Labels are centred below their points.
        let texts = self.points.iter().flat_map(|point| [Some(&point.name), point.amount.as_ref()]);
        let beside = widest(texts.flatten().map(String::as_str), NAME) / 2.0 + MARGIN;
        let map_width = (right - left) * PATH_LENGTH + 2.0 * beside;
        let legend = self.legend(LEGEND_WIDTH.max(map_width) - 2.0 * MARGIN);
        let legend_width = legend.iter().map(|entry| entry.end).fold(0.0, f64::max);
        let page_width = map_width.max(legend_width + 2.0 * MARGIN);
        let shift = (page_width - map_width) / 2.0 + beside;
        let at = |index: usize| {
            let (x, y) = places[index];
            ((x - left) * PATH_LENGTH + shift, (y - top) * PATH_LENGTH + MARGIN + 10.0)
        };
        let under = (bottom - top) * PATH_LENGTH + MARGIN + 10.0 + 3.0 * NAME + MARGIN;
        let rows = legend.last().map_or(0, |entry| entry.row + 1);
        let mut drawing = Drawing::new(page_width, under + rows as f64 * 20.0 + 6.0);
        self.draw_paths(&mut drawing, at);
        self.draw_points(&mut drawing, at);
        for entry in &legend {
            let place = (MARGIN + entry.begin, under + entry.row as f64 * 20.0);
            entry.draw(&mut drawing, place);
        }
        drawing
    }

    fn draw_paths(&self, drawing: &mut Drawing, at: impl Fn(usize) -> PagePosition) {
        let rates = self.rates();
        for MapPath { ends: (a, b), rate_bps, domain } in &self.paths {
            let colour = COLOURS[domain % COLOURS.len()];
            drawing.line(at(*a), at(*b), colour, width_of(&rates, *rate_bps));
        }
        if self.paths.len() > LABELLED_PATHS_MAX {
            return;
        }
        for MapPath { ends: (a, b), rate_bps, .. } in &self.paths {
            let (from, to) = (at(*a), at(*b));
            let middle = (f64::midpoint(from.0, to.0), f64::midpoint(from.1, to.1));
            label(drawing, (middle.0, middle.1 + 4.0), &text::rate(*rate_bps), AMOUNT);
        }
    }

    fn draw_points(&self, drawing: &mut Drawing, at: impl Fn(usize) -> PagePosition) {
        for (index, point) in self.points.iter().enumerate() {
            let (x, y) = at(index);
            let (radius, colour) = match point.domain {
                Some(domain) => (8.0, COLOURS[domain % COLOURS.len()]),
                None => (5.0, INK),
            };
            let hollow = point.domain.is_none();
            drawing.elements.push(Element::Circle { middle: (x, y), radius, colour, hollow });
            label(drawing, (x, y + radius + NAME), &point.name, NAME);
            if let Some(amount) = &point.amount {
                label(drawing, (x, y + radius + NAME + AMOUNT + 2.0), amount, AMOUNT);
            }
        }
    }

    /// The different rates, from the least.
    fn rates(&self) -> Vec<u64> {
        let mut rates: Vec<u64> = self.paths.iter().map(|path| path.rate_bps).collect();
        rates.sort_unstable();
        rates.dedup();
        rates
    }

    /// Domains by their colours, what an exchange point looks like, and rates by their widths where paths have no label.
    fn legend(&self, width_max: f64) -> Vec<LegendEntry> {
        let named = self.domains.iter().enumerate();
        let mut entries: Vec<(Sign, String)> = named
            .map(|(index, name)| (Sign::Domain(COLOURS[index % COLOURS.len()]), name.clone()))
            .collect();
        if self.points.iter().any(|point| point.domain.is_none()) {
            entries.push((Sign::ExchangePoint, "exchange point".to_owned()));
        }
        if self.paths.len() > LABELLED_PATHS_MAX {
            let rates = self.rates();
            let sign = |rate: &u64| (Sign::Rate(width_of(&rates, *rate)), text::rate(*rate));
            entries.extend(rates.iter().map(sign));
        }
        let (mut row, mut begin) = (0, 0.0);
        let placed = entries.into_iter().map(|(sign, text)| {
            let length = 30.0 + width(&text, AMOUNT) + 16.0;
            if begin > 0.0 && begin + length > width_max {
                (row, begin) = (row + 1, 0.0);
            }
            let entry = LegendEntry { sign, text, row, begin, end: begin + length };
            begin += length;
            entry
        });
        placed.collect()
    }
}

/// What stands before a text of the legend.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Sign {
    Domain(&'static str),
    ExchangePoint,
    Rate(f64),
}

#[derive(Debug, Clone, PartialEq)]
struct LegendEntry {
    sign: Sign,
    text: String,
    row: usize,
    begin: f64,
    end: f64,
}

impl LegendEntry {
    fn draw(&self, drawing: &mut Drawing, (x, y): PagePosition) {
        match self.sign {
            Sign::Domain(colour) => drawing.rect((x, y - 8.0), (22.0, 8.0), colour, ""),
            Sign::ExchangePoint => drawing.elements.push(Element::Circle {
                middle: (x + 11.0, y - 4.0),
                radius: 5.0,
                colour: INK,
                hollow: true,
            }),
            Sign::Rate(width) => drawing.line((x, y - 4.0), (x + 22.0, y - 4.0), INK, width),
        }
        drawing.text((x + 30.0, y), &self.text, AMOUNT, Anchor::Start);
    }
}

/// The width of the line of a path: the more rate, the wider.
fn width_of(rates: &[u64], rate_bps: u64) -> f64 {
    let rank = rates.iter().position(|rate| *rate == rate_bps).unwrap_or(0);
    1.4 + 3.0 * rank as f64 / rates.len().saturating_sub(1).max(1) as f64
}

/// A text on white, so that lines behind it do not cross it.
fn label(drawing: &mut Drawing, at: PagePosition, text: &str, size: f64) {
    let (x, y) = at;
    let half = width(text, size) / 2.0 + 2.0;
    let (top, bottom) = (y - size * 0.85, y + size * 0.25);
    let points = vec![(x - half, top), (x + half, top), (x + half, bottom), (x - half, bottom)];
    let title = String::new();
    drawing.elements.push(Element::Area { points, colour: "#ffffff", opacity: 0.88, title });
    drawing.text(at, text, size, Anchor::Middle);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn site(name: &str) -> v1::Site {
        v1::Site { name: name.into(), cpus: 16, ..Default::default() }
    }

    fn path(a: &str, b: &str) -> v1::Path {
        let (a, b) = (a.to_owned(), b.to_owned());
        v1::Path {
            name: format!("{a}-{b}"),
            a,
            b,
            capacity_bps: 10_000_000_000,
            ..Default::default()
        }
    }

    fn owned<T>(thing: &T) -> OwnedResource<'_, T> {
        OwnedResource { domain: "grid", manager: "rm", thing }
    }

    #[test]
    fn every_text_is_on_the_page_and_no_two_points_are_at_one_place() {
        let long = "a-site-with-a-name-as-long-as-somebody-may-give-it";
        let sites = ["a", "b", "c", long, "alone"].map(site);
        let paths = [path("a", "ix"), path("b", "ix"), path("ix", "c"), path("c", long)];
        let sites: Vec<_> = sites.iter().map(owned).collect();
        let paths: Vec<_> = paths.iter().map(owned).collect();
        let drawing = drawing(&sites, &paths, &["unused".to_owned()]);
        let (mut texts, mut middles) = (0, Vec::new());
        for element in &drawing.elements {
            match element {
                Element::Text { at: (x, y), text, size, anchor, .. } => {
                    let length = width(text, *size);
                    let begin = if *anchor == Anchor::Middle { x - length / 2.0 } else { *x };
                    assert!(begin >= 0.0 && begin + length <= drawing.size.0, "{text} at {x}");
                    assert!(*y > *size && *y < drawing.size.1, "{text} at {y}");
                    texts += 1;
                }
                Element::Circle { middle, .. } => middles.push(*middle),
                _ => {}
            }
        }
        // Names of 7 points, 5 amounts, 4 rates, a domain and the exchange point of the legend.
        assert_eq!((texts, middles.len()), (18, 8));
        let near = |a: &PagePosition, b: &PagePosition| (a.0 - b.0).hypot(a.1 - b.1) < 30.0;
        for (index, middle) in middles.iter().enumerate() {
            assert!(!middles[index + 1..].iter().any(|other| near(middle, other)), "{middles:?}");
        }
    }

    #[test]
    fn a_federation_without_anything_has_a_map_too() {
        let drawing = drawing(&[], &[], &[]);
        assert!(drawing.elements.is_empty() && drawing.size.0 > 0.0, "{drawing:?}");
    }
}
