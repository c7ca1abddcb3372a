//! What is otherwise taken of sites: by reservations that the visitor may not see, or of which the coordinator does not know.
//!
//! Nobody tells a user what others have booked. But everybody who may plan can ask whether a whole site is free in a frame, and
//! a refusal says how many CPUs are, as far as the visitor's service level lets it see. What then is neither free nor taken by
//! the reservations of the drawing is taken otherwise. A frame has one answer, and of a reservation that takes only a part of
//! it nobody knows which part the answer is about. So the amount is the least that it can be.
//!
//! It costs a call of Plan for each site, and so it is asked for only when the visitor wants it.
//!
//! Left out: the past, of which nobody can plan anything; storage; and paths, because a plan may go around one.

use coalloc_common::{Span, Time, Window, limits};
use coalloc_net::convert::{span_to_wire, time_to_wire, window_from_wire};
use coalloc_proto::v1;
use maud::{Markup, html};
use tonic::{Code, Status};

use super::calls::PageCalls;
use super::inventory::Inventory;
use super::steps;
use super::words;

/// Frames of a window: an hour has one of five minutes for each of them.
const FRAMES: u32 = 12;
/// Plans of the past are refused; what is drawn begins so long after now.
const LEAD: Span = Span::from_secs(60);

/// What is otherwise taken of a site in a frame, at least.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct TakenFrame {
    /// The row of the site.
    pub(super) row: usize,
    pub(super) window: Window,
    /// CPUs.
    pub(super) amount: u64,
}

/// What is otherwise taken of all sites.
#[derive(Debug, Clone, Default)]
pub(super) struct OtherwiseTaken {
    /// Only frames in which something is; by row, then by time.
    pub(super) frames: Vec<TakenFrame>,
    /// Why it is not known.
    pub(super) unknown: Option<String>,
    /// Sites that were left out because there are too many.
    pub(super) left_out: usize,
    /// Does the visitor want it?
    pub(super) is_wanted: bool,
}

impl OtherwiseTaken {
    /// Asks for each site. Whatever goes wrong is said with the drawing, which does not need this.
    pub(super) async fn read(
        calls: &mut PageCalls,
        inventory: &Inventory,
        all: &[v1::Reservation],
        window: Window,
        now: Time,
    ) -> Self {
        let mut taken = Self { is_wanted: true, ..Self::default() };
        let Some(frames) = frames_of(window, now) else { return taken };
        let sites = inventory.rows.iter().enumerate().filter(|(_, row)| row.ends.is_none());
        for (number, (row, site)) in sites.enumerate() {
            if number >= limits::WEB_ASKED_SITES_MAX {
                taken.left_out += 1;
                continue;
            }
            match calls.plan(question(&site.name, site.capacity, &frames)).await {
                Ok(answer) => taken.frames.extend(of_site(inventory, all, row, &answer)),
                Err(status) => {
                    taken.unknown = Some(why(&status));
                    return taken;
                }
            }
        }
        taken
    }

    /// What is otherwise taken of a row, in so many columns of a window.
    pub(super) fn columns(&self, row: usize, window: Window, columns: usize) -> Vec<u64> {
        let mut values = vec![0; columns];
        for frame in self.frames.iter().filter(|frame| frame.row == row) {
            let (from, until) = (frame.window.start(), frame.window.end());
            for column in steps::columns_of(window, columns, from, until) {
                values[column] = frame.amount.max(values[column]);
            }
        }
        values
    }

    /// What a reader has to know of it.
    pub(super) fn note(&self) -> Markup {
        html! {
            @if self.is_wanted {
                p class="note" {
                    @match &self.unknown {
                        Some(why) => { "What is otherwise taken is not known: " (words::text(why)) }
                        None => {
                            "Grey is what is taken at sites, at least, by others than those you see: of each frame to come the "
                            "coordinator was asked how many CPUs are free. Paths cannot be asked about."
                            @if self.left_out > 0 {
                                " The last " (words::count(self.left_out, "site")) " were not asked about."
                            }
                        }
                    }
                }
            }
        }
    }
}

fn why(status: &Status) -> String {
    match status.code() {
        Code::PermissionDenied => "only those who may plan can ask what is free".to_owned(),
        _ => status.message().to_owned(),
    }
}

/// The frames of a window that are to come, the first of which begins after now; `None` if there are none.
fn frames_of(window: Window, now: Time) -> Option<Vec<Window>> {
    let length = Span::from_us(window.length().as_us() / i64::from(2 * FRAMES));
    let earliest = now.saturating_add(LEAD);
    let frames = (0..i64::from(2 * FRAMES)).filter_map(|number| {
        let start = window.start().saturating_add(Span::from_us(length.as_us() * number));
        Window::starting(start, length).filter(|_| start >= earliest)
    });
    Some(frames.collect()).filter(|frames: &Vec<_>| !frames.is_empty())
}

/// Asks in which of these frames, which follow one another, all CPUs of a site are free.
fn question(site: &str, cpus: u64, frames: &[Window]) -> v1::PlanRequest {
    let wanted = v1::SiteRequest {
        name: "all".to_owned(),
        cpus,
        pinned_to: Some(site.to_owned()),
        ..v1::SiteRequest::default()
    };
    let start = |frame: Option<&Window>| frame.map(|frame| time_to_wire(frame.start()));
    let request = v1::CoAllocationRequest {
        sites: vec![wanted],
        earliest_start: start(frames.first()),
        latest_start: start(frames.last()),
        duration: frames.first().map(|frame| span_to_wire(frame.length())),
        ..v1::CoAllocationRequest::default()
    };
    let options = v1::PlanOptions {
        frames: u32::try_from(frames.len()).ok(),
        alternatives: Some(false),
        ..v1::PlanOptions::default()
    };
    v1::PlanRequest { request: Some(request), options: Some(options) }
}

/// What of an answer about a site is taken by nobody who is drawn.
fn of_site(
    inventory: &Inventory,
    all: &[v1::Reservation],
    row: usize,
    answer: &v1::PlanResponse,
) -> Vec<TakenFrame> {
    let capacity = inventory.rows[row].capacity;
    let of_frame = |refused: &v1::RefusedFrame| {
        let window = window_from_wire("", refused.window.as_ref()).ok()?;
        let refusal = refused.refusal.as_ref()?;
        // Another refusal than one about this site's CPUs says nothing about them.
        let free = refusal.available.filter(|_| refusal.requested == Some(capacity))?;
        let own = steps::of_rows(inventory, all, window, 1);
        let own = own[row].booked[0].saturating_add(own[row].held[0]);
        let amount = capacity.saturating_sub(free).saturating_sub(own);
        (amount > 0).then_some(TakenFrame { row, window, amount })
    };
    answer.refused.iter().filter_map(of_frame).collect()
}

#[cfg(test)]
mod tests {
    use coalloc_net::convert::window_to_wire;

    use super::*;
    use crate::pages::inventory::example;

    const NOON: Time = Time::from_us(1_795_262_400_000_000); // 2026-11-21T12:00:00Z

    fn hours(from: i64, to: i64) -> Window {
        let at = |hours: i64| NOON.saturating_add(Span::from_secs(hours * 3_600));
        Window::new(at(from), at(to)).unwrap()
    }

    fn refused(window: Window, requested: u64, available: u64) -> v1::RefusedFrame {
        let refusal = v1::Refusal {
            requested: Some(requested),
            available: Some(available),
            ..v1::Refusal::default()
        };
        v1::RefusedFrame { window: Some(window_to_wire(window)), refusal: Some(refusal) }
    }

    #[test]
    fn frames_are_to_come_and_follow_one_another() {
        let frames = frames_of(hours(-2, 22), NOON).unwrap();
        assert_eq!(frames.len(), 21);
        assert_eq!(frames[0], hours(1, 2), "the hour that has begun is over for plans");
        assert!(frames.is_sorted_by(|a, b| a.end() == b.start()));
        assert!(frames_of(hours(-24, 0), NOON).is_none());
        let question = question("A", 8, &frames);
        let options = question.options.unwrap();
        assert_eq!((options.frames, options.alternatives), (Some(21), Some(false)));
        assert_eq!(question.request.unwrap().sites[0].pinned_to.as_deref(), Some("A"));
    }

    #[test]
    fn what_is_neither_free_nor_drawn_is_taken_otherwise_at_least() {
        let inventory = Inventory::of(&example("B"));
        let segment = v1::Segment {
            resource: "A".into(),
            resource_manager: "crm".into(),
            amount: 3,
            window: Some(window_to_wire(hours(2, 4))),
        };
        let plan = Some(v1::Plan { segments: vec![segment], ..Default::default() });
        let own = v1::Reservation { plan, ..Default::default() };
        let answer = v1::PlanResponse {
            refused: vec![
                refused(hours(1, 2), 8, 6),
                refused(hours(2, 3), 8, 1),
                refused(hours(3, 4), 8, 5),
                // About something else than the CPUs of this site.
                refused(hours(4, 5), 1, 0),
            ],
            ..Default::default()
        };
        let frames = of_site(&inventory, &[own], 0, &answer);
        let of = |from, amount| TakenFrame { row: 0, window: hours(from, from + 1), amount };
        assert_eq!(frames, [of(1, 2), of(2, 4)]);
        let taken = OtherwiseTaken { frames, is_wanted: true, ..Default::default() };
        assert_eq!(taken.columns(0, hours(0, 4), 8), [0, 0, 2, 2, 4, 4, 0, 0]);
        assert_eq!(taken.columns(1, hours(0, 4), 2), [0, 0]);
    }

    #[test]
    fn who_may_not_ask_is_told_so_once() {
        let unknown = Some(why(&Status::permission_denied("user <script> may not")));
        let taken = OtherwiseTaken { unknown, is_wanted: true, ..Default::default() };
        let text = taken.note().into_string();
        assert!(text.contains("only those who may plan can ask what is free"), "{text}");
        assert!(OtherwiseTaken::default().note().into_string().is_empty());
    }
}
