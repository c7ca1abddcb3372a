//! How much is taken of a row over time, as steps: for drawings of more bookings than anybody could tell apart.
//!
//! A row has one value for each column of the drawing, the most that is taken at one time within the column. So nothing that
//! is taken is lost between two columns, and a drawing has the same size however many bookings there are.
//!
//! Left out: what a column is across the page, which the drawing scales.

use coalloc_common::{Time, Window};
use coalloc_net::convert::window_from_wire;
use coalloc_proto::v1;

use super::inventory::Inventory;
use super::words;

/// What is taken of one row, by column.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct RowSteps {
    /// What is booked.
    pub(super) booked: Vec<u64>,
    /// What is only held, beside that.
    pub(super) held: Vec<u64>,
    /// The number of reservations.
    pub(super) reservations: usize,
}

/// A part of a reservation.
#[derive(Debug, Clone, Copy)]
struct Part {
    window: Window,
    amount: u64,
    is_held: bool,
}

impl RowSteps {
    /// The most that is taken at one time, and how much of it is only held.
    pub(super) fn most(&self) -> (u64, u64) {
        let both = self.booked.iter().zip(&self.held);
        both.map(|(booked, held)| (booked.saturating_add(*held), *held)).max().unwrap_or_default()
    }

    /// Of a path of two directions, the values of that of which more is taken, column by column.
    fn fuller(mut self, other: &Self) -> Self {
        for column in 0..self.booked.len() {
            let sum = |one: &Self| one.booked[column].saturating_add(one.held[column]);
            if sum(other) > sum(&self) {
                self.booked[column] = other.booked[column];
                self.held[column] = other.held[column];
            }
        }
        self
    }
}

/// The steps of all rows in a window, cut into so many columns.
pub(super) fn of_rows(
    inventory: &Inventory,
    all: &[v1::Reservation],
    window: Window,
    columns: usize,
) -> Vec<RowSteps> {
    let mut directions = vec![[Vec::new(), Vec::new()]; inventory.rows.len()];
    let mut reservations = vec![(0, usize::MAX); inventory.rows.len()];
    for (of, one) in all.iter().enumerate() {
        let is_held = words::is_held(one.state());
        for segment in one.plan.iter().flat_map(|plan| &plan.segments) {
            let Ok(own) = window_from_wire("", segment.window.as_ref()) else { continue };
            let Some(row) = inventory.row(segment).filter(|_| own.overlaps(window)) else {
                continue;
            };
            if reservations[row].1 != of {
                reservations[row] = (reservations[row].0 + 1, of);
            }
            if inventory.is_counted(segment) && !words::has_ended(one.state()) {
                let is_back =
                    inventory.rows[row].is_full_duplex && segment.resource.ends_with(":ba");
                let part = Part { window: own, amount: segment.amount, is_held };
                directions[row][usize::from(is_back)].push(part);
            }
        }
    }
    let of_row = |([there, back], (reservations, _)): ([Vec<Part>; 2], (usize, usize))| {
        let steps = of_parts(&there, window, columns).fuller(&of_parts(&back, window, columns));
        RowSteps { reservations, ..steps }
    };
    directions.into_iter().zip(reservations).map(of_row).collect()
}

/// What is taken of one resource, by column: booked and held together.
pub(super) fn of_resource(
    all: &[v1::Reservation],
    (manager, resource): (&str, &str),
    window: Window,
    columns: usize,
) -> Vec<u64> {
    let live = all.iter().filter(|one| !words::has_ended(one.state()));
    let segments = live.flat_map(|one| &one.plan).flat_map(|plan| &plan.segments);
    let own = segments.filter(|one| one.resource == resource && one.resource_manager == manager);
    let part = |one: &v1::Segment| {
        let window = window_from_wire("", one.window.as_ref()).ok()?;
        Some(Part { window, amount: one.amount, is_held: false })
    };
    of_parts(&own.filter_map(part).collect::<Vec<_>>(), window, columns).booked
}

fn of_parts(parts: &[Part], window: Window, columns: usize) -> RowSteps {
    let mut changes: Vec<(Time, bool, bool, u64)> = Vec::with_capacity(2 * parts.len());
    for part in parts {
        changes.push((part.window.start(), true, part.is_held, part.amount));
        changes.push((part.window.end(), false, part.is_held, part.amount));
    }
    // At one instant what ends comes before what begins: windows are half open.
    changes.sort_unstable();
    let mut steps = RowSteps { booked: vec![0; columns], held: vec![0; columns], reservations: 0 };
    let (mut booked, mut held) = (0_u64, 0_u64);
    for (at, change) in changes.iter().enumerate() {
        let (from, begins, is_held, amount) = *change;
        let taken = if is_held { &mut held } else { &mut booked };
        *taken = if begins { taken.saturating_add(amount) } else { taken.saturating_sub(amount) };
        let Some(until) = changes.get(at + 1).map(|next| next.0) else { break };
        if booked == 0 && held == 0 || until <= from {
            continue;
        }
        for column in columns_of(window, columns, from, until) {
            if booked.saturating_add(held) > steps.booked[column].saturating_add(steps.held[column])
            {
                (steps.booked[column], steps.held[column]) = (booked, held);
            }
        }
    }
    steps
}

/// The columns of which some time is in `[from, until)`.
pub(super) fn columns_of(
    window: Window,
    columns: usize,
    from: Time,
    until: Time,
) -> std::ops::Range<usize> {
    let (from, until) = (from.max(window.start()), until.min(window.end()));
    if until <= from {
        return 0..0;
    }
    let length = i128::from(window.length().as_us().max(1));
    let at = |time: Time| i128::from(time.since(window.start()).as_us()) * columns as i128;
    let first = at(from) / length;
    let end = (at(until) + length - 1) / length;
    // Both are from 0 to the number of columns.
    first as usize..(end as usize).min(columns)
}

/// The outline of the area between two rows of steps, as the data of a path: a column is one unit wide, and the capacity is 100
/// units high. Empty when there is nothing between them.
pub(super) fn outline(lower: &[u64], upper: &[u64], capacity: u64) -> String {
    let height = |value: u64| {
        let share = (u128::from(value) * 100).div_ceil(u128::from(capacity.max(1)));
        100 - share.min(100)
    };
    let mut data = String::new();
    let mut column = 0;
    while column < upper.len() {
        if upper[column] <= lower[column] {
            column += 1;
            continue;
        }
        let end = (column..upper.len()).find(|at| upper[*at] <= lower[*at]).unwrap_or(upper.len());
        data.push_str(&format!("M{column} {}", height(upper[column])));
        let mut level = height(upper[column]);
        for (at, value) in upper.iter().enumerate().take(end).skip(column + 1) {
            if height(*value) != level {
                level = height(*value);
                data.push_str(&format!("H{at}V{level}"));
            }
        }
        level = height(lower[end - 1]);
        data.push_str(&format!("H{end}V{level}"));
        for at in (column..end - 1).rev() {
            if height(lower[at]) != level {
                level = height(lower[at]);
                data.push_str(&format!("H{}V{level}", at + 1));
            }
        }
        data.push_str(&format!("H{column}Z"));
        column = end;
    }
    data
}

#[cfg(test)]
mod tests {
    use coalloc_common::Span;

    use super::*;

    const NOON: Time = Time::from_us(1_795_262_400_000_000); // 2026-11-21T12:00:00Z

    fn window(from: i64, to: i64) -> Window {
        let at = |seconds: i64| NOON.saturating_add(Span::from_secs(seconds));
        Window::new(at(from), at(to)).unwrap()
    }

    fn part(from: i64, to: i64, amount: u64, is_held: bool) -> Part {
        Part { window: window(from, to), amount, is_held }
    }

    #[test]
    fn a_column_has_the_most_that_is_taken_at_one_time_in_it() {
        // Two that follow one another are not added, two at once are; what began before the window counts.
        let parts = [
            part(-5, 3, 2, false),
            part(3, 5, 3, false),
            part(4, 12, 1, true),
            part(25, 31, 4, false),
        ];
        let steps = of_parts(&parts, window(0, 40), 4);
        assert_eq!(steps.booked, [3, 0, 4, 4]);
        assert_eq!(steps.held, [1, 1, 0, 0]);
        assert_eq!(steps.most(), (4, 1));
    }

    #[test]
    fn steps_are_as_a_look_at_every_instant_says() {
        let mut seed = 7_u64;
        let mut next = |below: u64| {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (seed >> 33) % below
        };
        for _ in 0..50 {
            let mut parts = Vec::new();
            for _ in 0..12 {
                let from = next(70) as i64 - 10;
                parts.push(part(from, from + 1 + next(20) as i64, 1 + next(9), next(3) == 0));
            }
            let steps = of_parts(&parts, window(0, 60), 7);
            for column in 0..7 {
                // In tenths of a second, in which no part begins or ends between two looks.
                let looks = (0..600).filter(|tenth| tenth * 7 / 600 == column);
                let taken = looks.map(|tenth| {
                    let at = NOON.saturating_add(Span::from_millis(tenth as i64 * 100));
                    let takes = |one: &&Part| one.window.start() <= at && at < one.window.end();
                    parts.iter().filter(takes).map(|one| one.amount).sum::<u64>()
                });
                let sum = steps.booked[column] + steps.held[column];
                assert_eq!(taken.max().unwrap(), sum, "column {column} of {parts:?}");
            }
        }
    }

    #[test]
    fn an_outline_goes_along_the_top_and_back_along_the_bottom() {
        assert_eq!(outline(&[0; 4], &[0, 2, 2, 4], 4), "M1 50H3V0H4V100H1Z");
        assert_eq!(outline(&[0, 2, 4], &[0, 4, 4], 4), "M1 0H2V50H1Z");
        assert_eq!(outline(&[1, 2], &[3, 3], 4), "M0 25H2V50H1V75H0Z");
        assert_eq!(outline(&[0; 3], &[9, 0, 9], 4), "M0 0H1V100H0ZM2 0H3V100H2Z");
        assert_eq!(outline(&[5, 5], &[5, 5], 4), "");
    }
}
