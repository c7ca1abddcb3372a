//! A workflow's plan as a Gantt chart, and as a table that says the same.
//!
//! Everything that takes something is a row: activities, transfers of data, and channels between sites, by their starts. What the
//! end of the plan waits for, the critical path, has a frame in the chart and the number of its step.
//!
//! Left out: dependencies as arrows. The critical path names the ones that matter.

use coalloc_common::{BitsPerSecond, Cpus, Span, Time, Window, limits};
use coalloc_net::convert::window_from_wire;
use coalloc_proto::v1;
use maud::{Markup, html};

use super::reservation::of_kind;
use super::words;

/// Heights in pixels: the marks of time, a name, a bar, and a row with both.
const HEAD: usize = 22;
const NAME: usize = 20;
const BAR: usize = 14;
const ROW: usize = NAME + BAR + 8;
/// Most marks of time, so that their texts do not touch each other on a narrow screen.
const MARKS_MAX: i64 = 5;
/// From one mark to the next, in seconds: the first of these that makes few enough marks.
const STEPS_S: [i64; 17] = [
    1, 5, 15, 60, 300, 600, 1_800, 3_600, 7_200, 10_800, 21_600, 43_200, 86_400, 172_800, 604_800,
    2_592_000, 7_776_000,
];

/// What a row stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum GanttKind {
    Activity,
    /// An activity of a synchronous set.
    Member,
    Transfer,
    Channel,
}

impl GanttKind {
    const ALL: [Self; 4] = [Self::Activity, Self::Member, Self::Transfer, Self::Channel];

    const fn word(self) -> &'static str {
        match self {
            Self::Activity => "activity",
            Self::Member => "activity of a synchronous set",
            Self::Transfer => "transfer of data",
            Self::Channel => "channel",
        }
    }

    const fn class(self) -> &'static str {
        match self {
            Self::Activity => "activity",
            Self::Member => "member",
            Self::Transfer | Self::Channel => "travel",
        }
    }
}

#[derive(Debug, Clone)]
struct GanttRow {
    kind: GanttKind,
    what: String,
    place: String,
    amounts: String,
    /// How far it is; `-` if nobody says that.
    progress: &'static str,
    window: Window,
    /// The number of its step on the critical path, from 1.
    step: Option<usize>,
}

/// The rows of a plan, by their starts.
#[derive(Debug, Clone, Default)]
pub(super) struct Gantt {
    rows: Vec<GanttRow>,
    left_out: usize,
}

impl Gantt {
    /// The first rows of a plan.
    pub(super) fn of(plan: &v1::WorkflowPlan) -> Self {
        let mut rows: Vec<_> =
            activities(plan).chain(transfers(plan)).chain(channels(plan)).collect();
        rows.sort_by_key(|row| (row.window.start(), row.window.end()));
        let left_out = rows.len().saturating_sub(limits::WEB_BARS_MAX);
        rows.truncate(limits::WEB_BARS_MAX);
        Self { rows, left_out }
    }

    /// The chart, what its looks mean, and the table.
    pub(super) fn markup(&self) -> Markup {
        let start = self.rows.iter().map(|row| row.window.start()).min();
        let end = self.rows.iter().map(|row| row.window.end()).max();
        let whole = start.zip(end).and_then(|(start, end)| Window::new(start, end));
        html! {
            @if let Some(whole) = whole {
                @if self.left_out > 0 {
                    p class="trouble" { "The last " (words::count(self.left_out, "row")) " are left out." }
                }
                (self.chart(whole))
                (legend())
                (self.table())
            }
        }
    }

    fn chart(&self, whole: Window) -> Markup {
        let height = HEAD + self.rows.len() * ROW;
        html! {
            svg class="timeline gantt" width="100%" height=(height) role="group"
                aria-label="When each part of the workflow runs; the table below says the same" {
                @for (at, format) in marks(whole) {
                    @let x = percent(across(whole, at));
                    line class="mark" x1=(x) x2=(x) y1="16" y2=(height) {}
                    // A mark of minutes is shown in the reader's zone.
                    text class="mark" x=(x) dx="3" y="12" data-time=[(format == MINUTES).then_some(at)] { (words::utc(at, format)) }
                }
                @for (index, row) in self.rows.iter().enumerate() {
                    @let top = HEAD + index * ROW;
                    @let (from, to) = (across(whole, row.window.start()), across(whole, row.window.end()));
                    line class="row" x1="0" x2="100%" y1=(top) y2=(top) {}
                    a href={ "#part-" (index) } class={ "part " (row.kind.class()) @if row.step.is_some() { " critical" } } {
                        title { (row.sentence()) }
                        text class="row" x="2" y=(top + 15) {
                            @if let Some(step) = row.step { (step) ". " }
                            (row.what) " "
                            tspan class="amount" { (row.place) }
                        }
                        rect x=(percent(from)) y=(top + NAME) width=(percent((to - from).max(0.5))) height=(BAR) rx="2" {}
                    }
                }
            }
        }
    }

    fn table(&self) -> Markup {
        html! {
            h3 { "The same as a table" }
            div class="scroll" role="region" aria-label="The same as a table" tabindex="0" {
                table class="cards" {
                    thead { tr {
                        th scope="col" { "What" } th scope="col" { "Where" } th scope="col" { "Amount" }
                        th scope="col" { "Window" } th scope="col" { "Length" } th scope="col" { "Critical path" }
                        th scope="col" { "Progress" }
                    } }
                    tbody { @for (index, row) in self.rows.iter().enumerate() {
                        tr id={ "part-" (index) } {
                            td data-label="What" { b { (row.what) } ", " (row.kind.word()) }
                            td data-label="Where" { (row.place) }
                            td data-label="Amount" { (row.amounts) }
                            td data-label="Window" { (words::window(row.window)) }
                            td data-label="Length" { (row.window.length()) }
                            td data-label="Critical path" {
                                @match row.step { Some(step) => { "step " (step) } None => { "no" } }
                            }
                            td data-label="Progress" { (row.progress) }
                        }
                    } }
                }
            }
        }
    }
}

impl GanttRow {
    fn sentence(&self) -> String {
        let Self { kind, what, place, amounts, window, .. } = self;
        let (start, end) = (
            words::utc(window.start(), "%Y-%m-%d %H:%M:%S"),
            words::utc(window.end(), "%H:%M:%S UTC"),
        );
        let critical = if self.step.is_some() { ", on the critical path" } else { "" };
        format!("{what}, {}: {amounts} {place}, {start} to {end}{critical}", kind.word())
    }
}

fn activities(plan: &v1::WorkflowPlan) -> impl Iterator<Item = GanttRow> {
    plan.activities.iter().filter_map(|one| {
        let others = one.others.iter().map(|other| of_kind(&other.kind, other.amount));
        let amounts: Vec<_> = std::iter::once(Cpus(one.cpus).to_string()).chain(others).collect();
        Some(GanttRow {
            kind: if one.in_sync_set { GanttKind::Member } else { GanttKind::Activity },
            what: words::text(&one.name).into_owned(),
            place: format!("at {}", words::text(&one.site)),
            amounts: amounts.join(", "),
            progress: progress(one),
            window: window_from_wire("", one.window.as_ref()).ok()?,
            step: step(plan, |step| step.activity == one.name),
        })
    })
}

fn transfers(plan: &v1::WorkflowPlan) -> impl Iterator<Item = GanttRow> {
    plan.transfers.iter().filter_map(|one| {
        Some(GanttRow {
            kind: GanttKind::Transfer,
            what: words::text(&one.data).into_owned(),
            place: route(&one.from, &one.to, &one.paths),
            amounts: BitsPerSecond(one.rate_bps).to_string(),
            progress: "-",
            window: window_from_wire("", one.window.as_ref()).ok()?,
            step: step(plan, |step| step.data == one.data && step.site == one.to),
        })
    })
}

/// The channels between different sites.
fn channels(plan: &v1::WorkflowPlan) -> impl Iterator<Item = GanttRow> {
    plan.channels.iter().filter(|one| !one.paths.is_empty()).filter_map(|one| {
        Some(GanttRow {
            kind: GanttKind::Channel,
            what: format!("{} → {}", words::text(&one.from), words::text(&one.to)),
            place: format!("over {}", words::text(&one.paths.join(", "))),
            amounts: BitsPerSecond(one.bandwidth_bps).to_string(),
            progress: "-",
            window: window_from_wire("", one.window.as_ref()).ok()?,
            step: None,
        })
    })
}

fn route(from: &str, to: &str, paths: &[String]) -> String {
    format!("{} → {} over {}", words::text(from), words::text(to), words::text(&paths.join(", ")))
}

/// The number of a step of the critical path, from 1.
fn step(plan: &v1::WorkflowPlan, is: impl Fn(&v1::CriticalStep) -> bool) -> Option<usize> {
    plan.critical_path.iter().position(is).map(|at| at + 1)
}

/// How far an activity is, in the words of `coalloc workflow show`.
fn progress(one: &v1::PlannedActivity) -> &'static str {
    use v1::ActivityProgress as P;
    match (one.progress(), one.reported) {
        (P::Waiting, false) => "waits",
        (P::Waiting, true) => "waits (reported)",
        (P::Running, false) => "runs",
        (P::Running, true) => "runs (reported)",
        (P::Finished, false) => "ended",
        (P::Finished, true) => "ended (reported)",
        (P::Failed, false) => "failed",
        (P::Failed, true) => "failed (reported)",
        (P::Unspecified, _) => "-",
    }
}

const SECONDS: &str = "%H:%M:%S";
const MINUTES: &str = "%H:%M";
const DAYS: &str = "%m-%d";

/// The instants that the chart marks, at round times, each with the format in which it is written.
fn marks(whole: Window) -> Vec<(Time, &'static str)> {
    let (start_us, end_us) = (whole.start().as_us(), whole.end().as_us());
    let length_s = whole.length().as_us() / 1_000_000;
    let step_s = STEPS_S.into_iter().find(|step| length_s / step < MARKS_MAX);
    let step_s = step_s.unwrap_or_else(|| length_s / MARKS_MAX + 1);
    let format = match step_s {
        ..60 => SECONDS,
        60..86_400 => MINUTES,
        _ => DAYS,
    };
    let step_us = Span::from_secs(step_s).as_us();
    let first = start_us.div_euclid(step_us) + i64::from(start_us.rem_euclid(step_us) > 0);
    let at = |number: i64| first.saturating_add(number).saturating_mul(step_us);
    (0..=MARKS_MAX)
        .map(at)
        .take_while(|at| *at < end_us)
        .map(|at| (Time::from_us(at), format))
        .collect()
}

/// Where an instant is across the chart, in percent.
fn across(whole: Window, at: Time) -> f64 {
    let length = whole.length().as_us().max(1) as f64;
    (at.since(whole.start()).as_us() as f64 / length * 100.0).clamp(0.0, 100.0)
}

fn percent(value: f64) -> String {
    format!("{value:.3}%")
}

fn legend() -> Markup {
    html! {
        ul class="legend" {
            @for kind in GanttKind::ALL.into_iter().filter(|kind| *kind != GanttKind::Channel) {
                li {
                    svg width="22" height="12" aria-hidden="true" class={ "gantt part " (kind.class()) } {
                        rect x="1" y="1" width="20" height="10" rx="2" {}
                    }
                    " " (kind.word()) @if kind == GanttKind::Transfer { ", or channel" }
                }
            }
            li {
                svg width="22" height="12" aria-hidden="true" class="gantt part critical" {
                    rect x="2" y="2" width="18" height="8" rx="2" {}
                }
                " on the critical path, with the number of its step"
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use coalloc_net::convert::window_to_wire;

    use super::*;

    const EVIL: &str = "\"><script>";

    fn window(from_s: i64, to_s: i64) -> Option<v1::Window> {
        let at = |seconds: i64| Time::from_us(1_795_262_400_000_000 + seconds * 1_000_000);
        Window::new(at(from_s), at(to_s)).map(window_to_wire)
    }

    fn plan() -> v1::WorkflowPlan {
        let activity = |name: &str, window| v1::PlannedActivity {
            name: name.into(),
            site: "N0".into(),
            cpus: 4,
            window,
            progress: v1::ActivityProgress::Running.into(),
            ..Default::default()
        };
        let step = |activity: &str, data: &str, window| v1::CriticalStep {
            activity: activity.into(),
            data: data.into(),
            site: "N0".into(),
            window,
        };
        v1::WorkflowPlan {
            activities: vec![activity("late", window(600, 1_200)), activity(EVIL, window(0, 60))],
            transfers: vec![v1::PlannedTransfer {
                data: "volume".into(),
                from: "S2".into(),
                to: "N0".into(),
                paths: vec!["X1-S2".into()],
                rate_bps: 1_000_000_000,
                window: window(60, 600),
            }],
            channels: vec![v1::PlannedChannel {
                from: "late".into(),
                to: EVIL.into(),
                ..Default::default()
            }],
            critical_path: vec![
                step("", "volume", window(60, 600)),
                step("late", "", window(600, 1_200)),
            ],
            ..Default::default()
        }
    }

    #[test]
    fn the_chart_and_its_table_have_the_same_rows_by_their_starts() {
        let gantt = Gantt::of(&plan());
        let all: Vec<_> = gantt.rows.iter().map(|row| (row.what.as_str(), row.step)).collect();
        // Both ends of the channel are at one site: it takes nothing.
        assert_eq!(all, [(EVIL, None), ("volume", Some(1)), ("late", Some(2))]);
        let text = gantt.markup().into_string();
        assert!(!text.contains("<script") && !text.contains(" style="), "{text}");
        for index in 0..3 {
            assert!(text.contains(&format!("href=\"#part-{index}\"")), "{text}");
            assert!(text.contains(&format!("<tr id=\"part-{index}\">")), "{text}");
        }
        assert!(text.contains("x=\"50.000%\" y=\"126\" width=\"50.000%\""), "{text}");
        assert!(
            text.contains("class=\"part activity critical\"") && text.contains(">step 2<"),
            "{text}"
        );
        assert!(text.contains("S2 → N0 over X1-S2") && text.contains(">1 Gbit/s<"), "{text}");
        assert!(Gantt::default().markup().into_string().is_empty());
    }

    #[test]
    fn marks_are_few_and_at_round_times() {
        let of = |from, to| {
            let whole = window_from_wire("", window(from, to).as_ref()).unwrap();
            let all = marks(whole);
            let texts: Vec<_> =
                all.into_iter().map(|(at, format)| words::utc(at, format)).collect();
            texts.join(" ")
        };
        assert_eq!(of(1, 1_201), "12:05 12:10 12:15 12:20");
        assert_eq!(of(0, 4), "12:00:00 12:00:01 12:00:02 12:00:03");
        assert_eq!(of(-10, 4 * 86_400), "11-22 11-23 11-24 11-25");
        assert!(of(0, 366 * 86_400).split(' ').count() <= 6);
    }
}
