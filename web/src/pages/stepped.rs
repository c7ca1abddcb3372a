//! The timeline of more bookings than anybody could tell apart: how much of each row is taken, as areas of steps.
//!
//! What is booked is at the bottom, what is only held is on it, and what is otherwise taken is on both. The height of a row is
//! its capacity. The table says how much is taken of each row at most.

use coalloc_common::{Amount, ResourceKind, Window, limits};
use coalloc_proto::v1;
use maud::{Markup, html};

use super::ground::{Ground, NAME};
use super::inventory::{Inventory, InventoryRow};
use super::otherwise::OtherwiseTaken;
use super::steps::{self, RowSteps};
use super::words;

/// The height of a row's area, in pixels.
const HEIGHT: usize = 48;

/// Where an area is: as wide as the drawing, cut into columns.
#[derive(Debug, Clone, Copy)]
pub(super) struct Area {
    /// The top and the height, in pixels.
    pub(super) y: usize,
    pub(super) height: usize,
    pub(super) columns: usize,
}

impl Area {
    /// The area between two rows of steps; nothing if there is none.
    pub(super) fn between(
        &self,
        look: &str,
        lower: &[u64],
        upper: &[u64],
        capacity: u64,
        title: &str,
    ) -> Markup {
        let outline = steps::outline(lower, upper, capacity);
        html! {
            @if !outline.is_empty() {
                svg x="0" width="100%" y=(self.y) height=(self.height) viewBox={ "0 0 " (self.columns) " 100" }
                    preserveAspectRatio="none" class={ "area " (look) } {
                    path d=(outline) { title { (title) } }
                }
            }
        }
    }
}

/// Columns of a drawing of so many rows.
fn columns(rows: usize) -> usize {
    (limits::WEB_STEPS_MAX / rows.max(1)).clamp(1, limits::WEB_STEP_COLUMNS_MAX)
}

/// The drawing.
pub(super) fn drawing(
    ground: Ground<'_>,
    all: &[v1::Reservation],
    others: &OtherwiseTaken,
) -> Markup {
    let Ground { window, inventory, .. } = ground;
    let columns = columns(inventory.rows.len());
    let rows = steps::of_rows(inventory, all, window, columns);
    let (tops, end) = Ground::tops(rows.iter().map(|_| HEIGHT));
    html! {
        svg class="timeline" width="100%" height=(end) role="group"
            aria-label="How much is booked and held, a row for each site and each path; the table below says how much at most" {
            (ground.behind(&tops, end))
            @for (index, (steps, top)) in rows.iter().zip(&tops).enumerate() {
                (areas(&inventory.rows[index], steps, &others.columns(index, window, columns), top + NAME))
            }
            (ground.before(end))
        }
    }
}

fn areas(row: &InventoryRow, steps: &RowSteps, others: &[u64], y: usize) -> Markup {
    let sum = |a: &[u64], b: &[u64]| -> Vec<u64> {
        a.iter().zip(b).map(|(a, b)| a.saturating_add(*b)).collect()
    };
    let area = Area { y, height: HEIGHT, columns: steps.booked.len() };
    let (none, both) = (vec![0; steps.booked.len()], sum(&steps.booked, &steps.held));
    let title = |word: &str| format!("{word} at {}", words::text(&row.name));
    html! {
        (area.between("booked", &none, &steps.booked, row.capacity, &title("booked")))
        (area.between("held", &steps.booked, &both, row.capacity, &title("held")))
        (area.between("others", &both, &sum(&both, others), row.capacity, &title("otherwise taken")))
    }
}

/// How much is taken of each row at most.
pub(super) fn table(
    inventory: &Inventory,
    all: &[v1::Reservation],
    window: Window,
    others: &OtherwiseTaken,
) -> Markup {
    // The most of any time is the most of one column.
    let rows = steps::of_rows(inventory, all, window, columns(inventory.rows.len()));
    let show = |row: &InventoryRow, amount: u64| {
        let kind = if row.ends.is_some() { ResourceKind::Bandwidth } else { ResourceKind::Cpus };
        kind.show(Amount(amount))
    };
    html! {
        details id="as-table" {
            summary { "The same as a table (" (words::count(rows.len(), "row")) ")" }
            div class="scroll" role="region" aria-label="The same as a table" tabindex="0" {
                table class="cards" {
                    thead { tr {
                        th scope="col" { "Where" } th scope="col" { "Reservations" } th scope="col" { "Taken at once, at most" }
                        th scope="col" { "Otherwise taken, at least" } th scope="col" { "Of" }
                    } }
                    tbody { @for (index, (row, steps)) in inventory.rows.iter().zip(&rows).enumerate() {
                        tr {
                            td data-label="Where" { (words::text(&row.name)) }
                            td data-label="Reservations" { (steps.reservations) }
                            td data-label="Taken" {
                                @let (taken, held) = steps.most();
                                (show(row, taken))
                                @if held > 0 { ", of which " (show(row, held)) " only held" }
                            }
                            td data-label="Otherwise" {
                                @if others.is_wanted && row.ends.is_none() {
                                    (show(row, others.columns(index, window, 1)[0]))
                                } @else { "-" }
                            }
                            td data-label="Of" { (row.capacity_text()) }
                        }
                    } }
                }
            }
        }
    }
}
