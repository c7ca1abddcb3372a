//! A reservation as people read it: its state, plan and history, its last change, and the resource managers
//! that were given up on.

use std::fmt::Write as _;

use coalloc_common::{Amount, ResourceKind};
use coalloc_proto::v1;

use super::plan::{body, headline, when_and_cost};
use super::{refusal, servers};
use crate::kit::request::flags;
use crate::kit::{colour, text};

/// A request has no reservation id until the coordinator tries a plan for it.
#[must_use]
pub fn is_being_planned(one: &v1::Reservation) -> bool {
    one.id.is_empty() && one.state() == v1::ReservationState::Checking
}

/// The times of each segment, if they differ; the segments of a task follow one another.
fn times(plan: &v1::Plan) -> String {
    let segments = &plan.segments;
    if segments.windows(2).all(|pair| pair[0].window == pair[1].window) {
        return String::new();
    }
    // Windows of parts are told with the parts, which is enough while each resource is taken once.
    let told = plan.placements.iter().any(|site| {
        site.window.is_some() || site.others.iter().any(|other| other.offset.is_some())
    }) || plan.routes.iter().any(|route| route.window.is_some());
    let once = segments.iter().enumerate().all(|(at, one)| {
        let same = |other: &v1::Segment| {
            (&other.resource, &other.resource_manager) == (&one.resource, &one.resource_manager)
        };
        !segments[..at].iter().any(same)
    });
    if told && once {
        return String::new();
    }
    let width = segments.iter().map(|segment| segment.resource.len()).max().unwrap_or(0);
    let line = |segment: &v1::Segment| {
        let when = text::window(segment.window.as_ref());
        let (resource, amount) = (&segment.resource, Amount(segment.amount));
        let kind = match is_path(plan, resource) {
            true => ResourceKind::Bandwidth,
            false => ResourceKind::of_site_resource(resource).1,
        };
        format!("  {resource:width$}  {}, {when}\n", kind.show(amount))
    };
    segments.iter().map(line).collect()
}

/// Is the resource a path of the plan, or one direction of a path?
fn is_path(plan: &v1::Plan, resource: &str) -> bool {
    let mut paths = plan.routes.iter().flat_map(|route| &route.paths);
    paths.any(|path| {
        resource
            .strip_prefix(path.as_str())
            .is_some_and(|rest| rest.is_empty() || rest.starts_with(':'))
    })
}

/// A workflow in one line.
fn workflow(summary: &v1::WorkflowSummary, plan: &v1::Plan) -> String {
    let when = text::window(plan.window.as_ref());
    let sites = text::enumerate(&summary.sites);
    let count = match summary.activities {
        1 => "1 activity".to_owned(),
        count => format!("{count} activities"),
    };
    let transfers = text::count(summary.transfers as usize, "transfer");
    format!(
        "{when}, a workflow of {count} at {sites}, {transfers} ({}); `coalloc workflow show` has the plan",
        plan.solver
    )
}

/// One reservation for people.
#[must_use]
pub fn describe(one: &v1::Reservation) -> String {
    let mut out = String::new();
    if is_being_planned(one) {
        let (request, user) = (&one.request_id, &one.user);
        return format!("request {request} of {user}: being planned; nothing is held yet\n");
    }
    let state = colour::word(text::state(one.state()));
    let finality = if one.definite { "" } else { " (not final: ask again with `coalloc show`)" };
    let id = if one.id.is_empty() { "no reservation" } else { &one.id };
    // Writing to a String cannot fail, here and below.
    let _ = writeln!(out, "{id}: {state}{finality}");
    if let Some(left) = &one.expires_in {
        let _ = writeln!(out, "  {}", text::hold_ends(left));
    }
    if one.manual_provision && one.state() == v1::ReservationState::Confirmed {
        let _ = writeln!(out, "  not provisioned: `coalloc provision {id}` lets the user in");
    }
    let may_have_it = one.given_up.iter().any(|one| one.ended.is_none());
    if let Some(why) = &one.refusal {
        let hint = match (one.definite, why.transient) {
            (true, _) if may_have_it => "",
            (true, true) => "; nothing is held; the same request may succeed later under a new id",
            (true, false) => "; nothing is held",
            (false, _) => "",
        };
        let _ = writeln!(out, "  because: {}{hint}", text::refusal(why));
        let numbers = refusal::numbers(why);
        if !numbers.is_empty() {
            let _ = writeln!(out, "{}", numbers.trim_start_matches('\n'));
        }
    }
    if let Some(plan) = &one.plan {
        // An allocation is found by a search, which knows no better plan.
        let head = match &one.workflow {
            Some(summary) => workflow(summary, plan),
            None if one.allocation.is_some() => when_and_cost(plan),
            None => headline(plan),
        };
        let _ = writeln!(out, "  {head}");
        for line in body(plan).lines().chain(times(plan).lines()) {
            let _ = writeln!(out, "  {line}");
        }
    }
    for line in servers::granted(&one.servers) {
        let _ = writeln!(out, "  {line}");
    }
    for (number, refusal) in one.attempt_refusals.iter().enumerate() {
        let _ = writeln!(out, "  attempt {} failed: {}", number + 1, text::refusal(refusal));
    }
    if !one.unreachable.is_empty() {
        let names = text::enumerate(&one.unreachable);
        let _ = writeln!(out, "  planned without {names}, which did not answer");
    }
    if !one.awaited.is_empty() {
        let names = text::enumerate(&one.awaited);
        let answers = if one.awaited.len() == 1 { "it answers" } else { "they answer" };
        let _ = writeln!(
            out,
            "  waits for {names}: what was decided is told again until {answers}, and then it ends by itself"
        );
    }
    for rm in &one.given_up {
        let _ = writeln!(out, "  {}", given_up(rm));
    }
    let is_over =
        matches!(one.state(), v1::ReservationState::Terminated | v1::ReservationState::Failed);
    if let Some(last) = one.change.as_ref().filter(|_| !is_over) {
        let _ = writeln!(out, "  {}", change(last, one.definite));
    }
    if let Some(found) = &one.alternatives {
        let shown = match one.change {
            Some(_) => refusal::alternatives_to_change(found, one.request.as_ref()),
            // A request may come from a file, whose amounts no flag replaces.
            None => refusal::alternatives(found, None),
        };
        for line in shown.lines() {
            let _ = writeln!(out, "  {line}");
        }
    }
    if let Some(options) = &one.options {
        let _ = writeln!(out, "  planned with {}", flags(options));
    }
    let created = text::second(one.created.as_ref());
    let attempts = text::count(one.attempts as usize, "attempt");
    let (user, request) = (&one.user, &one.request_id);
    let version = if one.version > 1 { format!(", version {}", one.version) } else { "".into() };
    let _ = writeln!(out, "  request {request} of {user}, made {created}, {attempts}{version}");
    if !one.transaction.is_empty() {
        let _ = writeln!(out, "  transaction {} in every log", one.transaction);
    }
    out
}

/// One sentence about the last change of a reservation.
#[must_use]
pub fn change(change: &v1::Change, definite: bool) -> String {
    use v1::ChangeState as C;
    let id = &change.change_id;
    let attempts = text::count(change.attempts as usize, "attempt");
    let why = change.refusal.as_ref().map(why_refused).unwrap_or_default();
    match change.state() {
        C::Done => format!("change {id}: done, {attempts}"),
        C::Refused => {
            let what = if definite { "nothing has changed" } else { "holds are being dropped" };
            let why = if why.is_empty() { why } else { format!(": {why}") };
            format!("change {id}: refused, {what}{why}")
        }
        C::Committing => format!("change {id}: decided, being booked"),
        C::Checking | C::Unspecified => {
            format!("change {id}: being held; nothing changes until it is decided")
        }
    }
}

/// Why a change was refused, and whether it may succeed later.
#[must_use]
pub fn why_refused(refusal: &v1::Refusal) -> String {
    let hint = if refusal.transient { "; the same change may succeed later" } else { "" };
    text::refusal(refusal) + hint
}

/// A resource manager that was given up on, as a sentence for people.
#[must_use]
pub fn given_up(one: &v1::GivenUp) -> String {
    let v1::GivenUp { resource_manager: rm, by, why, .. } = one;
    let time = text::moment(one.time.as_ref());
    let why = text::line(why);
    let begin = format!("{rm} was given up on by {by} ({why}) at {time}");
    match (&one.ended, &one.booked_until) {
        (Some(ended), _) => {
            let ended = text::moment(Some(ended));
            format!("{begin}; it has returned, and has had nothing of it since {ended}")
        }
        (None, Some(until)) => {
            let until = text::moment(Some(until));
            format!(
                "{begin}: it may still have it booked until {until}, and is told to end it when it returns"
            )
        }
        (None, None) => {
            format!("{begin}: it is told to end what it still has of it when it returns")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn how_it_was_planned_is_told_as_the_flags_that_say_it() {
        let objectives = vec![v1::Objective::Price.into(), v1::Objective::Start.into()];
        let options = v1::PlanOptions {
            objectives,
            max_paths_per_link: Some(2),
            ..v1::PlanOptions::default()
        };
        let one = v1::Reservation { options: Some(options), ..v1::Reservation::default() };
        let text = describe(&one);
        assert!(
            text.contains("\n  planned with --max-paths 2 --objective price,start\n"),
            "{text}"
        );
        assert!(!describe(&v1::Reservation::default()).contains("planned with"));
    }

    #[test]
    fn a_refusal_says_why_and_what_is_left() {
        let text = describe(&v1::Reservation {
            id: "grc-1a2b-7".into(),
            request_id: "r7".into(),
            user: "alice".into(),
            state: v1::ReservationState::Failed.into(),
            definite: true,
            refusal: Some(v1::Refusal {
                detail: "N0 has 2 CPUs free, 4 are needed".into(),
                resource_manager: "crm-N0".into(),
                transient: true,
                ..Default::default()
            }),
            ..Default::default()
        });
        assert!(text.starts_with("grc-1a2b-7: failed\n"), "{text}");
        assert!(text.contains("crm-N0: N0 has 2 CPUs free"), "{text}");
        assert!(text.contains("nothing is held"), "{text}");
    }
}
