//! The letters of drawings: the width of a text, and its outlines.
//!
//! The font is part of the program, because a machine may have none (`cli/fonts/OFL.txt` says which font it
//! is). Its widths are those of Arial and Helvetica, which the SVG asks for, so a layout that is measured
//! with it fits in both formats.

use ttf_parser::{Face, GlyphId, OutlineBuilder};

static FONT: &[u8] = include_bytes!("../../fonts/plot-sans.ttf");

/// The font; `None` if it cannot be read, which a test rules out.
fn face() -> Option<Face<'static>> {
    Face::parse(FONT, 0).ok()
}

/// The glyph of a character; a box if the font does not have the character.
fn glyph(face: &Face<'_>, character: char) -> GlyphId {
    face.glyph_index(character).unwrap_or(GlyphId(0))
}

/// The width of a text in this size.
#[must_use]
pub fn width(text: &str, size: f64) -> f64 {
    let Some(face) = face() else { return text.chars().count() as f64 * size * 0.6 };
    let advance = |c| f64::from(face.glyph_hor_advance(glyph(&face, c)).unwrap_or(0));
    text.chars().map(advance).sum::<f64>() * size / f64::from(face.units_per_em())
}

/// The width of the widest of several texts.
pub fn widest<'a>(texts: impl IntoIterator<Item = &'a str>, size: f64) -> f64 {
    texts.into_iter().map(|text| width(text, size)).fold(0.0, f64::max)
}

/// Draws the outlines of a text that begins at x = 0 on its base line, with y downward.
pub fn outline(text: &str, size: f64, pen: &mut impl OutlineBuilder) {
    let Some(face) = face() else { return };
    let scale = size as f32 / f32::from(face.units_per_em());
    let mut x = 0.0;
    for character in text.chars() {
        let glyph = glyph(&face, character);
        face.outline_glyph(glyph, &mut Placed { pen, x, scale });
        x += f32::from(face.glyph_hor_advance(glyph).unwrap_or(0)) * scale;
    }
}

/// Moves a glyph to its position in the text.
struct Placed<'a, P> {
    pen: &'a mut P,
    x: f32,
    scale: f32,
}

impl<P> Placed<'_, P> {
    fn at(&self, x: f32, y: f32) -> (f32, f32) {
        (self.x + x * self.scale, -y * self.scale)
    }
}

impl<P: OutlineBuilder> OutlineBuilder for Placed<'_, P> {
    fn move_to(&mut self, x: f32, y: f32) {
        let (x, y) = self.at(x, y);
        self.pen.move_to(x, y);
    }

    fn line_to(&mut self, x: f32, y: f32) {
        let (x, y) = self.at(x, y);
        self.pen.line_to(x, y);
    }

    fn quad_to(&mut self, x1: f32, y1: f32, x: f32, y: f32) {
        let ((x1, y1), (x, y)) = (self.at(x1, y1), self.at(x, y));
        self.pen.quad_to(x1, y1, x, y);
    }

    fn curve_to(&mut self, x1: f32, y1: f32, x2: f32, y2: f32, x: f32, y: f32) {
        let ((x1, y1), (x2, y2), (x, y)) = (self.at(x1, y1), self.at(x2, y2), self.at(x, y));
        self.pen.curve_to(x1, y1, x2, y2, x, y);
    }

    fn close(&mut self) {
        self.pen.close();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_font_has_what_labels_are_written_with() {
        let face = face().unwrap();
        for character in (' '..='~').chain("±µäöüéłšžαλτ–—…→≤≥≈×".chars())
        {
            assert!(face.glyph_index(character).is_some(), "{character}");
        }
        // Arial has the same width: 556 of 1000 for a digit.
        assert!((width("00", 10.0) - 11.12).abs() < 0.01, "{}", width("00", 10.0));
        assert!(width("\u{4e00}", 10.0) > 0.0, "a box stands for what is missing");
    }
}
