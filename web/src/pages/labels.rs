//! Where the labels of a map's points stand: beside their points, where the fewest lines, points and other labels are.
//!
//! How wide a text is only the browser knows. Here it is guessed from its characters, rather too wide than too narrow.
//!
//! Left out: labels of paths, which stand in the middle of their lines, and which others avoid.

/// A place on a drawing, to the right and down, in pixels.
pub(super) type Place = (f64, f64);

/// The guessed width of a character, and the height of a line, in pixels.
const CHARACTER_WIDTH: f64 = 8.4;
pub(super) const LINE_HEIGHT: f64 = 15.0;
/// Space between a point and its label, in pixels.
const GAP: f64 = 4.0;
/// How much a covered pixel of a point or another label counts, compared with a pixel of a line.
const COVERED_WEIGHT: f64 = 0.5;

/// A point with a label.
#[derive(Debug, Clone, Copy)]
pub(super) struct LabelledPoint {
    pub(super) at: Place,
    pub(super) radius: f64,
    /// Characters of the longest line of the label.
    pub(super) characters: usize,
    pub(super) lines: usize,
}

/// Where a label stands.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct LabelPlace {
    /// Where its lines are held, by `side`.
    pub(super) x: f64,
    /// The baseline of its first line.
    pub(super) y: f64,
    pub(super) side: Side,
}

/// The side of its point on which a label stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Side {
    /// Above or below.
    Middle,
    Right,
    Left,
}

impl Side {
    /// The class of its lines.
    pub(super) const fn class(self) -> &'static str {
        match self {
            Self::Middle => "middle",
            Self::Right => "right",
            Self::Left => "left",
        }
    }
}

/// A rectangle on a drawing.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Area {
    pub(super) left: f64,
    pub(super) top: f64,
    pub(super) width: f64,
    pub(super) height: f64,
}

impl Area {
    /// The area of a text of one line around a place.
    pub(super) fn of_text(around: Place, characters: usize) -> Self {
        let width = characters as f64 * CHARACTER_WIDTH;
        let (left, top) = (around.0 - width / 2.0, around.1 - LINE_HEIGHT / 2.0);
        Self { left, top, width, height: LINE_HEIGHT }
    }

    fn of_point(point: &LabelledPoint) -> Self {
        let ((x, y), side) = (point.at, 2.0 * point.radius);
        Self { left: x - point.radius, top: y - point.radius, width: side, height: side }
    }

    /// The pixels that two areas share.
    fn shared(&self, other: &Self) -> f64 {
        let along = |from: f64, length: f64, other_from: f64, other_length: f64| {
            ((from + length).min(other_from + other_length) - from.max(other_from)).max(0.0)
        };
        along(self.left, self.width, other.left, other.width)
            * along(self.top, self.height, other.top, other.height)
    }

    /// How much of a line is inside, in pixels (Liang and Barsky, 1984).
    fn length_inside(&self, [from, to]: [Place; 2]) -> f64 {
        let (dx, dy) = (to.0 - from.0, to.1 - from.1);
        let (mut enters, mut leaves) = (0.0_f64, 1.0_f64);
        let bounds = [
            (-dx, from.0 - self.left),
            (dx, self.left + self.width - from.0),
            (-dy, from.1 - self.top),
            (dy, self.top + self.height - from.1),
        ];
        for (outward, room) in bounds {
            if outward == 0.0 {
                if room < 0.0 {
                    return 0.0;
                }
            } else if outward < 0.0 {
                enters = enters.max(room / outward);
            } else {
                leaves = leaves.min(room / outward);
            }
        }
        (leaves - enters).max(0.0) * dx.hypot(dy)
    }
}

/// The places of the labels of all points on a drawing of this size, with these lines, and areas that are taken already. Below its
/// point a label stands where nothing is better.
pub(super) fn place_labels(
    points: &[LabelledPoint],
    lines: &[[Place; 2]],
    taken: &[Area],
    size: Place,
) -> Vec<LabelPlace> {
    let drawing = Area { left: 0.0, top: 0.0, width: size.0, height: size.1 };
    let mut taken = taken.to_vec();
    let mut places = Vec::with_capacity(points.len());
    for (own, point) in points.iter().enumerate() {
        let cost = |area: &Area| {
            let crossed: f64 = lines.iter().map(|line| area.length_inside(*line)).sum();
            let others = points.iter().enumerate().filter(|(other, _)| *other != own);
            let hidden: f64 = others.map(|(_, other)| area.shared(&Area::of_point(other))).sum();
            let covered: f64 = taken.iter().map(|other| area.shared(other)).sum();
            let outside = area.width * area.height - area.shared(&drawing);
            crossed + COVERED_WEIGHT * (hidden + covered + outside)
        };
        let mut all = candidates(point).into_iter();
        let first = all.next().map(|(place, area)| (place, area, cost(&area)));
        let best = all.fold(first, |best, (place, area)| {
            let own = cost(&area);
            // A pixel more or less is no reason to leave the usual place.
            let is_better = best.is_none_or(|(.., least)| own < least - 1.0);
            if is_better { Some((place, area, own)) } else { best }
        });
        if let Some((place, area, _)) = best {
            taken.push(area);
            places.push(place);
        }
    }
    places
}

/// The places where the label of a point may stand, the usual one first.
fn candidates(point: &LabelledPoint) -> [(LabelPlace, Area); 8] {
    let LabelledPoint { at: (x, y), radius, characters, lines } = *point;
    let (width, height) = (characters as f64 * CHARACTER_WIDTH, lines as f64 * LINE_HEIGHT);
    let far = radius + GAP;
    // Beside a point but not at its height, a label is nearer.
    let near = radius * 0.7 + GAP / 2.0;
    let (below, above) = (y + far, y - far - height);
    let of = |side: Side, x: f64, top: f64| {
        let left = match side {
            Side::Middle => x - width / 2.0,
            Side::Right => x,
            Side::Left => x - width,
        };
        (LabelPlace { x, y: top + 12.0, side }, Area { left, top, width, height })
    };
    [
        of(Side::Middle, x, below),
        of(Side::Middle, x, above),
        of(Side::Right, x + far, y - height / 2.0),
        of(Side::Left, x - far, y - height / 2.0),
        of(Side::Right, x + near, y + near),
        of(Side::Left, x - near, y + near),
        of(Side::Right, x + near, y - near - height),
        of(Side::Left, x - near, y - near - height),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    const SIZE: Place = (400.0, 400.0);

    fn point(x: f64, y: f64) -> LabelledPoint {
        LabelledPoint { at: (x, y), radius: 10.0, characters: 4, lines: 2 }
    }

    #[test]
    fn a_line_is_as_long_inside_as_it_is() {
        let area = Area { left: 10.0, top: 10.0, width: 30.0, height: 20.0 };
        let inside = |from, to| (area.length_inside([from, to]) * 1_000.0).round() / 1_000.0;
        assert_eq!(inside((0.0, 20.0), (100.0, 20.0)), 30.0, "through");
        assert_eq!(inside((20.0, 20.0), (20.0, 25.0)), 5.0, "within");
        assert_eq!(inside((25.0, 0.0), (25.0, 15.0)), 5.0, "into");
        assert_eq!(inside((0.0, 0.0), (40.0, 30.0)), 33.333, "diagonally");
        assert_eq!(inside((0.0, 5.0), (100.0, 5.0)), 0.0, "past");
        assert_eq!(inside((20.0, 20.0), (20.0, 20.0)), 0.0, "no line");
    }

    #[test]
    fn a_label_goes_where_no_line_and_no_label_is() {
        let places =
            |points: &[LabelledPoint], lines: &[[Place; 2]]| place_labels(points, lines, &[], SIZE);
        let alone = places(&[point(200.0, 200.0)], &[]);
        assert_eq!((alone[0].x, alone[0].side), (200.0, Side::Middle));
        assert!(alone[0].y > 210.0, "{alone:?}");
        let down = [[(200.0, 200.0), (200.0, 400.0)]];
        assert!(places(&[point(200.0, 200.0)], &down)[0].y < 190.0);
        let upright = [[(200.0, 0.0), (200.0, 400.0)]];
        assert_eq!(places(&[point(200.0, 200.0)], &upright)[0].side, Side::Right);
        let star: Vec<[Place; 2]> = [(200.0, 0.0), (200.0, 400.0), (400.0, 200.0)]
            .map(|end| [(200.0, 200.0), end])
            .to_vec();
        assert_eq!(places(&[point(200.0, 200.0)], &star)[0].side, Side::Left);
        // Two points that are near each other.
        let both = places(&[point(200.0, 200.0), point(200.0, 226.0)], &[]);
        assert!(both[0].y < 200.0 && both[1].y > 226.0, "{both:?}");
    }

    #[test]
    fn a_label_stays_on_the_drawing() {
        let at_the_edge = place_labels(&[point(200.0, 385.0)], &[], &[], SIZE);
        assert!(at_the_edge[0].y < 400.0, "{at_the_edge:?}");
        let corner = place_labels(&[point(12.0, 388.0)], &[], &[], SIZE);
        assert!(corner[0].side == Side::Right && corner[0].y < 400.0, "{corner:?}");
        let taken = [Area::of_text((200.0, 225.0), 9)];
        let beside = place_labels(&[point(200.0, 200.0)], &[], &taken, SIZE);
        assert!(beside[0].y < 200.0, "{beside:?}");
    }
}
