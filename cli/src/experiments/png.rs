//! Writes a drawing as PNG.
//!
//! No font, library or program of the machine is used, so the same drawing gives the same bytes wherever
//! the numbers of its layout are the same.
//!
//! `resvg` could draw the SVG instead of this module, but it would save some hundred lines and bring 24 more crates.

use coalloc_common::limits::PICTURE_PIXELS_MAX;
use tiny_skia::{
    Color, FillRule, LineJoin, Paint, Path, PathBuilder, Pixmap, Stroke, StrokeDash, Transform,
};

use crate::kit::drawing::{Anchor, Drawing, Element, INK, PagePosition};
use crate::kit::font;

/// Pixels for each unit of a drawing.
///
/// One unit is one pixel of an older screen; two pixels look sharp on current screens.
const SCALE: f32 = 2.0;

/// Why a PNG cannot be made.
#[derive(Debug, thiserror::Error)]
pub enum PngError {
    /// The PNG would be larger than anything that is useful.
    #[error(
        "the picture would have {0} pixels; allowed: at most {PICTURE_PIXELS_MAX}; draw less of it, or SVG"
    )]
    TooLarge(u64),
    /// A defect of the encoder.
    #[error("the picture cannot be encoded: {0}")]
    Encoding(String),
}

/// The content of the PNG file.
///
/// # Errors
/// When the drawing is too large.
pub fn png(picture: &Drawing) -> Result<Vec<u8>, PngError> {
    let pixels = |length: f64| (length * f64::from(SCALE)).ceil().max(1.0) as u64;
    let (width, height) = (pixels(picture.size.0), pixels(picture.size.1));
    let count = width.saturating_mul(height);
    let too_large = || PngError::TooLarge(count);
    if count > PICTURE_PIXELS_MAX {
        return Err(too_large());
    }
    // Both are below the bound, which is below 2^32.
    let mut page = Pixmap::new(width as u32, height as u32).ok_or_else(too_large)?;
    page.fill(Color::WHITE);
    for element in &picture.elements {
        draw(&mut page, element);
    }
    page.encode_png().map_err(|error| PngError::Encoding(error.to_string()))
}

fn draw(page: &mut Pixmap, element: &Element) {
    let whole = Transform::from_scale(SCALE, SCALE);
    match element {
        Element::Line { points, colour, width, dash } => {
            let lengths: Vec<f32> = dash.iter().map(|length| *length as f32).collect();
            let dash = if lengths.is_empty() { None } else { StrokeDash::new(lengths, 0.0) };
            let line_join = LineJoin::Round;
            let stroke = Stroke { width: *width as f32, dash, line_join, ..Stroke::default() };
            if let Some(path) = through(points, false) {
                page.stroke_path(&path, &paint(colour, 1.0), &stroke, whole, None);
            }
        }
        Element::Area { points, colour, opacity, .. } => {
            if let Some(path) = through(points, true) {
                fill(page, &path, &paint(colour, *opacity as f32), whole);
            }
        }
        Element::Circle { middle, radius, colour, hollow } => {
            let circle = PathBuilder::from_circle(middle.0 as f32, middle.1 as f32, *radius as f32);
            let Some(circle) = circle else { return };
            let stroke = Stroke { width: 1.6, ..Stroke::default() };
            match hollow {
                true => {
                    fill(page, &circle, &paint("#ffffff", 1.0), whole);
                    page.stroke_path(&circle, &paint(colour, 1.0), &stroke, whole, None);
                }
                false => fill(page, &circle, &paint(colour, 1.0), whole),
            }
        }
        Element::Text { at, text, size, anchor, turned } => {
            let mut pen = Pen(PathBuilder::new());
            font::outline(text, *size, &mut pen);
            let Some(path) = pen.0.finish() else { return };
            let back = match anchor {
                Anchor::Start => 0.0,
                Anchor::Middle => font::width(text, *size) / 2.0,
                Anchor::End => font::width(text, *size),
            };
            let place = whole
                .pre_translate(at.0 as f32, at.1 as f32)
                .pre_concat(Transform::from_rotate(*turned as f32))
                .pre_translate(-back as f32, 0.0);
            fill(page, &path, &paint(INK, 1.0), place);
        }
    }
}

fn fill(page: &mut Pixmap, path: &Path, paint: &Paint<'_>, place: Transform) {
    page.fill_path(path, paint, FillRule::Winding, place, None);
}

fn through(points: &[PagePosition], closed: bool) -> Option<Path> {
    let mut path = PathBuilder::new();
    for (at, (x, y)) in points.iter().enumerate() {
        match at {
            0 => path.move_to(*x as f32, *y as f32),
            _ => path.line_to(*x as f32, *y as f32),
        }
    }
    if closed {
        path.close();
    }
    path.finish()
}

/// `#rrggbb`; black for anything else.
fn paint(colour: &str, opacity: f32) -> Paint<'static> {
    let digits = colour.strip_prefix('#').and_then(|hex| u32::from_str_radix(hex, 16).ok());
    let [_, red, green, blue] = digits.unwrap_or(0).to_be_bytes();
    let mut paint = Paint { anti_alias: true, ..Paint::default() };
    // This is from 0 to 255.
    paint.set_color_rgba8(red, green, blue, (opacity * 255.0) as u8);
    paint
}

/// Adds the outlines of letters to a path.
struct Pen(PathBuilder);

impl ttf_parser::OutlineBuilder for Pen {
    fn move_to(&mut self, x: f32, y: f32) {
        self.0.move_to(x, y);
    }

    fn line_to(&mut self, x: f32, y: f32) {
        self.0.line_to(x, y);
    }

    fn quad_to(&mut self, x1: f32, y1: f32, x: f32, y: f32) {
        self.0.quad_to(x1, y1, x, y);
    }

    fn curve_to(&mut self, x1: f32, y1: f32, x2: f32, y2: f32, x: f32, y: f32) {
        self.0.cubic_to(x1, y1, x2, y2, x, y);
    }

    fn close(&mut self) {
        self.0.close();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kit::drawing::DASHES;

    /// Is any pixel in this rectangle dark?
    fn is_inked(page: &Pixmap, from: (u32, u32), to: (u32, u32)) -> bool {
        (from.0..to.0).any(|x| {
            (from.1..to.1).any(|y| page.pixel(x, y).is_some_and(|pixel| pixel.red() < 128))
        })
    }

    #[test]
    fn every_element_is_drawn_where_it_is_said_to_be() {
        let mut picture = Drawing::new(100.0, 100.0);
        picture.text((10.0, 20.0), "Text", 12.0, Anchor::Start);
        picture.turned_text((90.0, 90.0), "up", 12.0, Anchor::Start, -90.0);
        picture.rect((10.0, 30.0), (10.0, 10.0), "#000000", "");
        picture.mark((50.0, 50.0), 0, "#000000");
        picture.path(vec![(10.0, 80.0), (30.0, 80.0)], "#000000", DASHES[1]);
        let page = Pixmap::decode_png(&png(&picture).unwrap()).unwrap();
        assert_eq!((page.width(), page.height()), (200, 200));
        for (name, from, to) in [
            ("text", (20, 20), (70, 42)),
            ("turned text", (160, 140), (182, 180)),
            ("rectangle", (20, 60), (40, 80)),
            ("mark", (96, 96), (104, 104)),
            ("line", (20, 156), (60, 164)),
        ] {
            assert!(is_inked(&page, from, to), "{name}");
        }
        assert!(!is_inked(&page, (80, 0), (200, 90)), "nothing was to be here");
    }

    #[test]
    fn a_picture_that_memory_would_not_hold_is_refused() {
        let error = png(&Drawing::new(10_000.0, 100_000.0)).unwrap_err().to_string();
        assert!(error.starts_with("the picture would have 4000000000 pixels; allowed"), "{error}");
    }
}
