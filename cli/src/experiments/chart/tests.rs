//! What a plot shows: texts on the page and apart, intervals within what can be, lines that are told apart without colours.

use super::*;
use crate::kit::drawing::Element;

fn chart(names: &[&str]) -> Chart {
    Chart {
        title:
            "A title that is far longer than the plot is wide, as titles of experiments on papers, \
                with all their conditions, sometimes are"
                .to_owned(),
        x_label: "x".to_owned(),
        y_label: "y".to_owned(),
        log: (false, false),
        names: names.iter().map(|name| (*name).to_owned()).collect(),
        legend: "planner".to_owned(),
        left_out: 0,
    }
}

fn line(name: &str, count: u32) -> Line {
    let point = |at| {
        let mean = f64::from(at) + 1.0;
        (f64::from(at), Summary { count: 3, mean, within: Some(0.5) })
    };
    let range = (0.0, f64::INFINITY);
    Line { name: name.to_owned(), points: (0..count).map(point).collect(), range }
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
        let is_band =
            |element: &&Element| matches!(element, Element::Area { opacity, .. } if *opacity < 1.0);
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

/// The strokes of a colour: the points of each line.
fn strokes(picture: &Drawing, wanted: &str) -> Vec<Vec<PagePosition>> {
    let of = |element: &Element| match element {
        Element::Line { points, colour, .. } if *colour == wanted => Some(points.clone()),
        _ => None,
    };
    picture.elements.iter().filter_map(of).collect()
}

/// The middles of the round marks of the first line, without that of the legend.
fn marks(picture: &Drawing) -> Vec<PagePosition> {
    let of = |element: &Element| match element {
        Element::Circle { middle, colour, .. } if *colour == COLOURS[0] => Some(*middle),
        _ => None,
    };
    picture.elements.iter().filter_map(of).collect()
}

#[test]
fn an_interval_of_a_share_ends_where_shares_do() {
    let share = |mean, within| Summary { count: 3, mean, within: Some(within) };
    let points = vec![(1.0, share(0.97, 0.37)), (2.0, share(0.02, 0.1)), (3.0, share(0.5, 0.1))];
    let line = Line { name: "a".to_owned(), points, range: (0.0, 1.0) };
    let ends: Vec<[f64; 2]> = line.points.iter().map(|(_, own)| line.ends(own)).collect();
    assert_eq!((ends[0][1], ends[1][0], ends[2]), (1.0, 0.0, [0.4, 0.6]));
    let picture = chart(&[]).draw(&[line]);
    let ticks: Vec<String> = texts(&picture).into_iter().map(|(text, ..)| text).collect();
    assert!(ticks.contains(&"1".to_owned()) && !ticks.contains(&"1.2".to_owned()), "{ticks:?}");
    let drawn = strokes(&picture, COLOURS[0]);
    assert!(drawn.iter().flatten().all(|at| at.1 >= TOP), "{drawn:?}");
}

#[test]
fn a_mark_stands_on_its_interval_beside_those_of_other_lines() {
    for names in [&["a", "b", "c"][..], &[]] {
        let picture = chart(names).draw(&[line("one", 3), line("other", 3)]);
        let bars = |colour| {
            let upright = strokes(&picture, colour).into_iter();
            let upright = upright.filter(|all| all.len() == 2 && all[0].0 == all[1].0);
            upright.map(|all| all[0].0).collect::<Vec<f64>>()
        };
        let (own, other, marks) = (bars(COLOURS[0]), bars(COLOURS[1]), marks(&picture));
        assert_eq!((own.len(), other.len(), marks.len()), (3, 3, 4), "{names:?}");
        assert!(own.iter().zip(&marks).all(|(bar, mark)| *bar == mark.0), "{own:?} {marks:?}");
        assert!(own.iter().zip(&other).all(|(one, two)| two - one > CAP), "{own:?} {other:?}");
    }
}

#[test]
fn names_are_not_joined_and_numbers_are() {
    let joined = |names: &[&str]| {
        let picture = chart(names).draw(&[line("one", 3), line("other", 3)]);
        strokes(&picture, COLOURS[0]).iter().filter(|points| points.len() == 3).count()
    };
    assert_eq!((joined(&["a", "b", "c"]), joined(&[])), (0, 1));
}

#[test]
fn lines_are_told_apart_without_colours() {
    let mut pens: Vec<_> =
        (0..24).map(|at| pen(at, 24, 0.0)).map(|pen| (pen.dash, pen.mark)).collect();
    assert!(pens[0].0 != pens[1].0 && pens[0].1 != pens[1].1);
    pens.sort_by(|one, other| one.partial_cmp(other).unwrap());
    pens.dedup();
    assert_eq!(pens.len(), 24);
}

#[test]
fn a_small_effect_is_shown_and_said() {
    let of = |means: [f64; 3]| {
        let point =
            |(at, mean): (usize, f64)| (at as f64, Summary { count: 3, mean, within: Some(0.5) });
        let points = means.into_iter().enumerate().map(point).collect();
        let line = Line { name: "a".to_owned(), points, range: (0.0, f64::INFINITY) };
        let picture = chart(&[]).draw(&[line]);
        let said = texts(&picture).into_iter().map(|(text, ..)| text);
        let said = said.filter(|text| text.starts_with("the axis of y")).collect::<Vec<String>>();
        let heights: Vec<f64> = marks(&picture).into_iter().map(|mark| mark.1).collect();
        (said, heights[0] - heights[2])
    };
    let (said, high) = of([40.0, 41.0, 43.0]);
    assert!(
        said == ["the axis of y begins at 39, not at 0"] && high > HIGH / 3.0,
        "{said:?} {high}"
    );
    assert_eq!(of([4.0, 41.0, 43.0]).0, [""; 0], "a large effect is shown from 0 on");
}

#[test]
fn few_points_have_ticks_of_their_own() {
    let mut own = line("a", 4);
    for (at, x) in [200.0, 300.0, 405.0, 9e6].into_iter().enumerate() {
        own.points[at].0 = x;
    }
    own.points.pop();
    let picture = chart(&[]).draw(&[own]);
    let said: Vec<String> = texts(&picture).into_iter().map(|(text, ..)| text).collect();
    assert!(["200", "300", "405"].iter().all(|x| said.iter().any(|text| text == x)), "{said:?}");
}
