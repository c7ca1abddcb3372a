//! Places of the points of a network on a map.
//!
//! Points that few paths separate are near each other: positions minimise the stress between the distances in the drawing and
//! the numbers of paths. The first positions are a circle in the order of the points, so the same network has the same map.
//! Left out: how points and paths look.
//!
//! Source: Gansner, Koren and North, Graph Drawing by Stress Majorization (2004).

use std::collections::VecDeque;

/// A place, to the right and down, in lengths of a path.
pub type MapPlace = (f64, f64);

/// How often each point is moved to where its neighbours want it.
const ROUNDS: usize = 300;
/// How far a point is from the paths of others, in lengths of a path.
const CLEARANCE: f64 = 0.2;
/// The part of the way to there that a point moves at a time.
const STEP: f64 = 0.3;

/// The places of `count` points that are joined by these paths, wider than high and around the middle. A path whose ends are
/// not among the points joins nothing.
#[must_use]
pub fn of_network(count: usize, paths: &[(usize, usize)]) -> Vec<MapPlace> {
    let distances = distances(count, paths);
    let turn = |index: usize| std::f64::consts::TAU * index as f64 / count.max(1) as f64;
    // The circle is a little stretched, so that no two directions are equally good.
    let on_circle = |index| (-1.3 * f64::cos(turn(index)), -f64::sin(turn(index)));
    let mut places: Vec<MapPlace> = (0..count).map(on_circle).collect();
    for _ in 0..ROUNDS {
        for point in 0..count {
            let (mut x, mut y, mut weights) = (0.0, 0.0, 0.0);
            for other in (0..count).filter(|other| *other != point) {
                let wanted = distances[point][other];
                let (dx, dy) =
                    (places[point].0 - places[other].0, places[point].1 - places[other].1);
                let apart = (dx * dx + dy * dy).sqrt().max(1e-6);
                let weight = 1.0 / (wanted * wanted);
                x += weight * (places[other].0 + dx * wanted / apart);
                y += weight * (places[other].1 + dy * wanted / apart);
                weights += weight;
            }
            if weights > 0.0 {
                places[point] = (x / weights, y / weights);
            }
        }
    }
    for _ in 0..ROUNDS {
        step_aside(&mut places, paths);
    }
    lying(&places)
}

/// Moves each point a little away from each path that passes it too near and is not its own: otherwise one line would hide
/// another one, or end at a point where it does not.
fn step_aside(places: &mut [MapPlace], paths: &[(usize, usize)]) {
    let count = places.len();
    for (a, b) in paths.iter().copied().filter(|(a, b)| (*a).max(*b) < count) {
        for point in (0..count).filter(|point| ![a, b].contains(point)) {
            let (from, to, at) = (places[a], places[b], places[point]);
            let (dx, dy) = (to.0 - from.0, to.1 - from.1);
            let length = f64::hypot(dx, dy).max(1e-6);
            let along = ((at.0 - from.0) * dx + (at.1 - from.1) * dy) / length;
            let beside = ((at.1 - from.1) * dx - (at.0 - from.0) * dy) / length;
            if !(0.0..=length).contains(&along) || beside.abs() >= CLEARANCE {
                continue;
            }
            let side = if beside < 0.0 { -1.0 } else { 1.0 };
            let step = side * (CLEARANCE - beside.abs()) * STEP;
            places[point].0 -= dy / length * step;
            places[point].1 += dx / length * step;
        }
    }
}

/// The number of paths between each two points; for those that none join, one more than the greatest.
fn distances(count: usize, paths: &[(usize, usize)]) -> Vec<Vec<f64>> {
    let mut neighbours = vec![Vec::new(); count];
    for (a, b) in paths.iter().copied().filter(|(a, b)| *a < count && *b < count) {
        neighbours[a].push(b);
        neighbours[b].push(a);
    }
    let from = |start: usize| {
        let mut distance = vec![usize::MAX; count];
        let mut queue = VecDeque::from([start]);
        distance[start] = 0;
        while let Some(at) = queue.pop_front() {
            for next in &neighbours[at] {
                if distance[*next] == usize::MAX {
                    distance[*next] = distance[at] + 1;
                    queue.push_back(*next);
                }
            }
        }
        distance
    };
    let all: Vec<Vec<usize>> = (0..count).map(from).collect();
    let reached = all.iter().flatten().filter(|distance| **distance != usize::MAX);
    let apart = reached.max().map_or(1, |most| most + 1);
    let length = |distance: &usize| (*distance).min(apart) as f64;
    all.iter().map(|row| row.iter().map(length).collect()).collect()
}

/// Turned so that the longest extent lies across the page, and around the middle.
fn lying(places: &[MapPlace]) -> Vec<MapPlace> {
    let count = places.len().max(1) as f64;
    let (sum_x, sum_y) = places.iter().fold((0.0, 0.0), |sum, at| (sum.0 + at.0, sum.1 + at.1));
    let (middle_x, middle_y) = (sum_x / count, sum_y / count);
    let places = places.iter().map(|(x, y)| (x - middle_x, y - middle_y));
    let (mut xx, mut yy, mut xy) = (0.0, 0.0, 0.0);
    for (x, y) in places.clone() {
        (xx, yy, xy) = (xx + x * x, yy + y * y, xy + x * y);
    }
    let angle = 0.5 * f64::atan2(2.0 * xy, xx - yy);
    let (sine, cosine) = angle.sin_cos();
    places.map(|(x, y)| (x * cosine + y * sine, y * cosine - x * sine)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neighbours_are_nearer_than_others_and_the_map_lies() {
        let places = of_network(5, &[(0, 1), (1, 2), (2, 3), (9, 0)]);
        let apart =
            |a: usize, b: usize| f64::hypot(places[a].0 - places[b].0, places[a].1 - places[b].1);
        assert!(apart(0, 1) < apart(0, 2) && apart(0, 2) < apart(0, 3), "{places:?}");
        let extent = |of: fn(&MapPlace) -> f64| {
            let all = places.iter().map(of);
            all.clone().fold(f64::MIN, f64::max) - all.fold(f64::MAX, f64::min)
        };
        assert!(extent(|place| place.0) > extent(|place| place.1), "{places:?}");
        assert_eq!(places, of_network(5, &[(0, 1), (1, 2), (2, 3), (9, 0)]));
        assert!(of_network(0, &[]).is_empty());
    }

    #[test]
    fn no_path_passes_through_a_point_that_it_does_not_join() {
        // Four sites, each joined to each other and to two exchange points; three sites at one of the exchange points.
        let mut paths: Vec<(usize, usize)> =
            (0..4).flat_map(|a| (a + 1..6).map(move |b| (a, b))).collect();
        paths.extend([(5, 6), (5, 7), (5, 8), (6, 7), (6, 8), (7, 8)]);
        let places = of_network(9, &paths);
        for &(a, b) in &paths {
            for point in (0..9).filter(|point| ![a, b].contains(point)) {
                let to = |one: usize, other: usize| {
                    f64::hypot(places[one].0 - places[other].0, places[one].1 - places[other].1)
                };
                let detour = to(a, point) + to(point, b) - to(a, b);
                assert!(detour > 0.01, "{point} on {a}-{b}: {detour} {places:?}");
            }
        }
    }
}
