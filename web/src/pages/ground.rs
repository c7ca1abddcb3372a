//! The ground of a drawing over time: how much time it shows, marks of time, the names of rows, and the line of now.
//!
//! Positions across the page are in percent, so that a drawing is as wide as the page and its letters are never scaled.
//!
//! Left out: what is drawn on it.

use coalloc_common::{Span, Time, Window};
use maud::{Markup, html};

use super::inventory::Inventory;
use super::words;

/// Heights, in pixels: of a row's name, of a bar with the gap below it, of a bar, and of the times above the rows.
pub(super) const NAME: usize = 20;
pub(super) const LANE: usize = 22;
pub(super) const BAR: usize = 18;
pub(super) const HEAD: usize = 22;

/// How much time is drawn.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum Scale {
    Hour,
    #[default]
    Day,
    Week,
}

impl Scale {
    pub(super) const ALL: [Self; 3] = [Self::Hour, Self::Day, Self::Week];

    pub(super) const fn word(self) -> &'static str {
        match self {
            Self::Hour => "hour",
            Self::Day => "day",
            Self::Week => "week",
        }
    }

    pub(super) const fn length(self) -> Span {
        Span::from_secs(match self {
            Self::Hour => 3_600,
            Self::Day => 86_400,
            Self::Week => 7 * 86_400,
        })
    }

    /// From one mark to the next, in seconds, and the format of a mark.
    const fn marks(self) -> (i64, &'static str) {
        match self {
            Self::Hour => (600, "%H:%M"),
            Self::Day => (4 * 3_600, "%H:%M"),
            Self::Week => (86_400, "%m-%d"),
        }
    }

    /// Where the drawing begins if the visitor has chosen no time: a little before now, at a full hour or a full day.
    pub(super) fn around(self, now: Time) -> Time {
        let floor = |unit: i64| now.as_us().div_euclid(unit * 1_000_000).saturating_mul(unit);
        let start_s = match self {
            Self::Hour => floor(600) - 600,
            Self::Day => floor(3_600) - 2 * 3_600,
            Self::Week => floor(86_400) - 86_400,
        };
        Time::from_us(start_s.saturating_mul(1_000_000))
    }
}

/// What is behind and before the bars of a drawing.
#[derive(Debug, Clone, Copy)]
pub(super) struct Ground<'a> {
    pub(super) window: Window,
    pub(super) scale: Scale,
    pub(super) now: Time,
    pub(super) inventory: &'a Inventory,
}

impl Ground<'_> {
    /// The tops of rows whose contents have these heights, and the end of the last one.
    pub(super) fn tops(heights: impl Iterator<Item = usize>) -> (Vec<usize>, usize) {
        let (mut tops, mut top) = (Vec::new(), HEAD);
        for height in heights {
            tops.push(top);
            top += NAME + height + 4;
        }
        (tops, top)
    }

    /// Marks of time.
    pub(super) fn marks(&self, end: usize) -> Markup {
        let (step, format) = self.scale.marks();
        let length_s = self.window.length().as_us() / 1_000_000;
        let mark = |at: i64| self.window.start().saturating_add(Span::from_secs(at));
        html! {
            @for at in (0..length_s).step_by(step as usize) {
                @let x = percent(across(self.window, mark(at)));
                line class="mark" x1=(x) x2=(x) y1="16" y2=(end) {}
                text class="mark" x=(x) dx="3" y="12" data-time=(mark(at)) data-form=(self.scale.word()) {
                    (words::utc(mark(at), format))
                }
            }
        }
    }

    /// Marks of time, and the names of sites and paths.
    pub(super) fn behind(&self, tops: &[usize], end: usize) -> Markup {
        html! {
            (self.marks(end))
            @for (row, top) in self.inventory.rows.iter().zip(tops) {
                line class="row" x1="0" x2="100%" y1=(top) y2=(top) {}
                text class="row" x="2" y=(top + 15) {
                    (words::text(&row.name)) " "
                    tspan class="amount" { (row.capacity_text()) }
                }
            }
        }
    }

    /// The line of now, if that is in the drawing.
    pub(super) fn before(&self, end: usize) -> Markup {
        let has_now = self.window.start() <= self.now && self.now < self.window.end();
        html! {
            @if has_now {
                @let x = percent(across(self.window, self.now));
                line class="now" x1=(x) x2=(x) y1="0" y2=(end) { title { "now" } }
            }
        }
    }
}

/// Where an instant is across the page, in percent.
pub(super) fn across(window: Window, at: Time) -> f64 {
    let length = window.length().as_us().max(1) as f64;
    (at.since(window.start()).as_us() as f64 / length * 100.0).clamp(0.0, 100.0)
}

pub(super) fn percent(value: f64) -> String {
    format!("{value:.3}%")
}
