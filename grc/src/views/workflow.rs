//! What became of a workflow, page by page. It is made from what the ledger keeps of the workflow's reservation: the
//! notes, which do not change, and beside the candidate its whole plan. So a workflow that is sent again gets the same
//! answer, even after a restart.

use std::collections::BTreeMap;

use coalloc_common::invalid::check_range;
use coalloc_common::workflow::{ActivityReport, Progress, ReportedProgress};
use coalloc_common::{InvalidField, Time, limits};
use coalloc_net::convert::{refusal_to_wire, window_from_wire};
use coalloc_proto::v1;
use coalloc_protocol::coordinator::{ChangeState, Report, Reservation, State, Ticket};
use prost::Message;
use serde_json::Value;

use crate::views::kept::{self, KeptPlan};

/// Digits of the plan's digest in a page token: a token of one plan must not be taken for one of another.
const TOKEN_DIGITS: usize = 12;

/// The notes that the coordinator core keeps of the reservation of a workflow with this many activities, without
/// reading them. `refused` is the answer of a planning that found no plan.
#[must_use]
pub fn notes(activities: usize, refused: Option<&v1::PlanWorkflowResponse>) -> String {
    serde_json::json!({
        "unreachable": [],
        "workflow": { "activities": activities },
        "refused": refused.and_then(|answer| answer.refusal.as_ref()),
        "effort": refused.and_then(|answer| answer.effort),
    })
    .to_string()
}

/// Are these the notes of a workflow?
#[must_use]
pub fn is_workflow(notes: &str) -> bool {
    let notes: Value = serde_json::from_str(notes).unwrap_or_default();
    notes["workflow"].is_object()
}

/// Is this workflow booked, so that it can be revised?
#[must_use]
pub fn is_booked(reservation: &Reservation) -> bool {
    reservation.state == State::Confirmed && reservation.parent_transaction.is_none()
}

/// The head of a workflow's plan as the plan of a reservation: without placements, routes and segments.
#[must_use]
pub fn plan_of(head: v1::WorkflowPlan) -> v1::Plan {
    v1::Plan {
        digest: head.digest,
        window: head.window,
        solver: head.planner,
        ..v1::Plan::default()
    }
}

/// A workflow that is being planned: nothing is held, and it has no reservation yet.
#[must_use]
pub fn planning(ticket: &Ticket) -> v1::WorkflowReceipt {
    v1::WorkflowReceipt { request_id: ticket.request.to_string(), ..v1::WorkflowReceipt::default() }
}

/// Which page of a plan is wanted, checked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PageWanted {
    /// The most entries.
    size: usize,
    /// The first entry, counted through activities, transfers, channels and segments.
    from: usize,
    /// The beginning of the plan's digest. Empty: the first page of whichever plan there is.
    digest: String,
}

impl PageWanted {
    /// The first page, as large as pages are.
    #[must_use]
    pub const fn first() -> Self {
        Self { size: limits::PAGE_MAX as usize, from: 0, digest: String::new() }
    }

    /// Reads size and token.
    ///
    /// # Errors
    /// [`InvalidField`] when the size is out of its range or the token is not one of a page.
    pub fn parse(wire: &v1::GetWorkflowRequest) -> Result<Self, InvalidField> {
        let size = wire.page_size.unwrap_or(limits::PAGE_DEFAULT);
        let size = check_range("page_size", size, 1..=limits::PAGE_MAX, "entries")? as usize;
        if wire.page_token.is_empty() {
            return Ok(Self { size, from: 0, digest: String::new() });
        }
        let parts = wire.page_token.split_once('-');
        let parts = parts.and_then(|(from, digest)| Some((from.parse().ok()?, digest)));
        let (from, digest) = parts.ok_or_else(|| bad_token(&wire.page_token))?;
        Ok(Self { size, from, digest: digest.to_owned() })
    }
}

/// The error for a token that is not one of a page of this plan.
fn bad_token(token: &str) -> InvalidField {
    let allowed = "the `next_page_token` of a page of this workflow's plan";
    InvalidField::new("page_token", InvalidField::quoted(token), allowed)
}

/// What became of a workflow, in the present state of its reservation, with one page of its plan, and the token of the
/// next page.
///
/// # Errors
/// [`InvalidField`] when the page is none of this plan.
pub fn page(
    reservation: &Reservation,
    wanted: &PageWanted,
) -> Result<(v1::WorkflowReceipt, String), InvalidField> {
    let text = reservation.candidate.as_ref().map(|candidate| candidate.details.text());
    let kept = text.as_deref().and_then(kept::read);
    let effort = kept.and_then(|kept| match kept {
        KeptPlan::Workflow(kept) => Some(kept.effort),
        KeptPlan::CoAllocation(_) | KeptPlan::Task(_) => None,
    });
    let notes: Value = serde_json::from_str(&reservation.notes).unwrap_or_default();
    let noted = |field: &str| Some(notes[field].clone()).filter(|value| !value.is_null());
    let refused: Option<v1::WorkflowRefusal> =
        noted("refused").and_then(|refused| serde_json::from_value(refused).ok());
    let (plan, next) = match text.as_deref().and_then(kept::whole_workflow) {
        Some(plan) => {
            let (plan, next) = cut(plan, wanted)?;
            (Some(plan), next)
        }
        None if wanted.from == 0 => (None, String::new()),
        None => return Err(bad_token(&format!("{}-{}", wanted.from, wanted.digest))),
    };
    let receipt = v1::WorkflowReceipt {
        reservation: reservation.id.to_string(),
        request_id: reservation.ticket.request.to_string(),
        confirmed: reservation.state == State::Confirmed,
        plan,
        refusal: reservation.refusal.as_ref().map(|refusal| v1::WorkflowRefusal {
            refusal: Some(refusal_to_wire(refusal)),
            ..refused.unwrap_or_default()
        }),
        tries: reservation.attempt_refusals.iter().map(refusal_to_wire).collect(),
        effort: effort.or_else(|| serde_json::from_value(noted("effort")?).ok()),
        definite: reservation.is_definite(),
        version: if is_booked(reservation) { reservation.version } else { 0 },
        revision: revision(reservation),
    };
    Ok((receipt, next))
}

/// What came of the last change of a workflow; `None` when there was none.
#[must_use]
pub fn revision(reservation: &Reservation) -> Option<v1::WorkflowRevision> {
    let change = reservation.change.as_ref()?;
    let (state, candidate) = match change.state {
        ChangeState::Checking | ChangeState::Committing | ChangeState::Aborting => {
            (v1::RevisionState::UnderWay, change.candidate.as_ref())
        }
        ChangeState::Done => (v1::RevisionState::Done, reservation.candidate.as_ref()),
        ChangeState::Refused => (v1::RevisionState::Refused, None),
    };
    let head = candidate.and_then(|candidate| kept::read(&candidate.details.text()));
    let revised = match head {
        Some(KeptPlan::Workflow(kept)) => kept.revised.unwrap_or_default(),
        Some(KeptPlan::CoAllocation(_) | KeptPlan::Task(_)) | None => Default::default(),
    };
    let refusal = change.refusal.as_ref().map(|refusal| v1::WorkflowRefusal {
        refusal: Some(refusal_to_wire(refusal)),
        ..v1::WorkflowRefusal::default()
    });
    Some(v1::WorkflowRevision {
        state: state.into(),
        change_id: change.id.to_string(),
        moved: revised.moved,
        resized: revised.resized,
        refusal,
    })
}

/// How many reports the last revision of a workflow has followed, if it is booked.
#[must_use]
pub fn reports_followed(reservation: &Reservation) -> usize {
    let done = reservation.change.as_ref().is_some_and(|change| change.state == ChangeState::Done);
    let candidate = reservation.candidate.as_ref().filter(|_| done);
    match candidate.and_then(|candidate| kept::read(&candidate.details.text())) {
        Some(KeptPlan::Workflow(kept)) => kept.revised.map_or(0, |revised| revised.reports),
        Some(KeptPlan::CoAllocation(_) | KeptPlan::Task(_)) | None => 0,
    }
}

/// Says of each activity on a page how far it is.
pub fn add_progress(receipt: &mut v1::WorkflowReceipt, reports: &[Report], now: Time) {
    if receipt.version == 0 {
        return;
    }
    let reports: Vec<ActivityReport> =
        reports.iter().filter_map(|one| serde_json::from_str(&one.text).ok()).collect();
    let mut of: BTreeMap<&str, Vec<&ActivityReport>> = BTreeMap::new();
    for report in &reports {
        of.entry(report.activity.as_str()).or_default().push(report);
    }
    for planned in receipt.plan.iter_mut().flat_map(|plan| &mut plan.activities) {
        let Ok(window) = window_from_wire("window", planned.window.as_ref()) else { continue };
        let own = of.get(planned.name.as_str()).into_iter().flatten().copied();
        let reported = ReportedProgress::of(own, window);
        planned.reported = reported != ReportedProgress::default();
        planned.set_progress(match reported.progress(window, now) {
            Progress::Waiting => v1::ActivityProgress::Waiting,
            Progress::Running => v1::ActivityProgress::Running,
            Progress::Finished => v1::ActivityProgress::Finished,
            Progress::Failed => v1::ActivityProgress::Failed,
        });
    }
}

/// Cuts one page out of a plan.
fn cut(
    plan: v1::WorkflowPlan,
    wanted: &PageWanted,
) -> Result<(v1::WorkflowPlan, String), InvalidField> {
    let digits: String = plan.digest.chars().take(TOKEN_DIGITS).collect();
    let lists =
        [plan.activities.len(), plan.transfers.len(), plan.channels.len(), plan.segments.len()];
    let all: usize = lists.iter().sum();
    if wanted.from > 0 && (wanted.from >= all || wanted.digest != digits) {
        return Err(bad_token(&format!("{}-{}", wanted.from, wanted.digest)));
    }
    let mut page = Page { skip: wanted.from, left: wanted.size, bytes: limits::PAGE_BYTES };
    let is_first = wanted.from == 0;
    let cut = v1::WorkflowPlan {
        activities: page.take(plan.activities),
        transfers: page.take(plan.transfers),
        channels: page.take(plan.channels),
        segments: page.take(plan.segments),
        ..if is_first {
            v1::WorkflowPlan {
                digest: plan.digest,
                planner: plan.planner,
                window: plan.window,
                makespan: plan.makespan,
                summary: plan.summary,
                merged: plan.merged,
                critical_path: plan.critical_path,
                ..v1::WorkflowPlan::default()
            }
        } else {
            v1::WorkflowPlan::default()
        }
    };
    let next = wanted.from + (wanted.size - page.left);
    let token = if next < all { format!("{next}-{digits}") } else { String::new() };
    Ok((cut, token))
}

/// What still fits on a page, and how many entries come before it.
struct Page {
    skip: usize,
    left: usize,
    bytes: usize,
}

impl Page {
    fn take<M: Message>(&mut self, list: Vec<M>) -> Vec<M> {
        let skipped = self.skip.min(list.len());
        self.skip -= skipped;
        let mut taken = Vec::new();
        for one in list.into_iter().skip(skipped) {
            if self.left == 0 || self.bytes == 0 {
                // Nothing of the later lists comes before what is left of this one.
                self.bytes = 0;
                break;
            }
            self.left -= 1;
            self.bytes = self.bytes.saturating_sub(one.encoded_len());
            taken.push(one);
        }
        taken
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan() -> v1::WorkflowPlan {
        let activity = |name: &str| v1::PlannedActivity { name: name.into(), ..Default::default() };
        let transfer = |data: &str| v1::PlannedTransfer { data: data.into(), ..Default::default() };
        let segment = |name: &str| v1::Segment { resource: name.into(), ..Default::default() };
        v1::WorkflowPlan {
            digest: "0123456789abcdef".to_owned(),
            planner: "p".to_owned(),
            activities: ["a", "b", "c"].map(activity).to_vec(),
            transfers: ["d", "e"].map(transfer).to_vec(),
            segments: ["s", "t"].map(segment).to_vec(),
            ..v1::WorkflowPlan::default()
        }
    }

    fn entries(plan: &v1::WorkflowPlan) -> String {
        let activities = plan.activities.iter().map(|one| one.name.as_str());
        let transfers = plan.transfers.iter().map(|one| one.data.as_str());
        let segments = plan.segments.iter().map(|one| one.resource.as_str());
        activities.chain(transfers).chain(segments).collect()
    }

    #[test]
    fn pages_of_every_size_have_every_entry_once() {
        for size in 1..=8 {
            let (mut all, mut token, mut pages) = (String::new(), String::new(), 0);
            loop {
                let wire = v1::GetWorkflowRequest {
                    page_size: Some(size),
                    page_token: token,
                    ..Default::default()
                };
                let (page, next) = cut(plan(), &PageWanted::parse(&wire).unwrap()).unwrap();
                assert_eq!(page.planner.is_empty(), pages > 0, "the head is on the first page");
                assert!(entries(&page).len() <= size as usize);
                all += &entries(&page);
                (token, pages) = (next, pages + 1);
                if token.is_empty() {
                    break;
                }
            }
            assert_eq!((all.as_str(), pages), ("abcdest", 7_u32.div_ceil(size)));
        }
    }

    #[test]
    fn tokens_of_other_plans_and_sizes_out_of_range_are_refused() {
        let wire = |token: &str, size| v1::GetWorkflowRequest {
            page_size: Some(size),
            page_token: token.into(),
            ..Default::default()
        };
        for size in [0, limits::PAGE_MAX + 1] {
            assert!(PageWanted::parse(&wire("", size)).is_err(), "{size}");
        }
        assert!(PageWanted::parse(&wire("next", 1)).is_err());
        for token in ["1-ffffffffffff", "7-0123456789ab", "1-"] {
            let wanted = PageWanted::parse(&wire(token, 1)).unwrap();
            let error = cut(plan(), &wanted).unwrap_err().to_string();
            assert!(error.contains(token), "{error}");
        }
    }

    #[test]
    fn notes_of_a_workflow_are_known_from_others() {
        assert!(is_workflow(&notes(1, None)));
        assert!(!is_workflow(&crate::views::view::notes(&[], None, None)) && !is_workflow(""));
    }
}
