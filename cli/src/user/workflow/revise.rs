//! `coalloc workflow report` and `revise`: what happens to a booked workflow, and what becomes of it.

use std::fmt::Write as _;

use clap::{Args, ValueEnum};
use coalloc_net::convert::time_to_wire;
use coalloc_proto::v1;
use uuid::Uuid;

use super::marks;
use crate::kit::exit::{Answer, Exit, Failure};
use crate::kit::rpc::{self, GrcArgs, Workflows};
use crate::kit::text;
use crate::kit::when::InstantArg;
use crate::user::wording::workflow::{Marks, body, headline, refusal};

/// Report what happened to an activity of a booked workflow, and have the workflow follow
///
/// The report is durable once it is answered. If it changes anything, a new version of the workflow is booked in
/// place of the old one, all or nothing: an early end gives back, a late one moves what waits for its data, a
/// failure places the activity, its synchronous set and all that follows anew. What runs stays where it is.
/// Activities of which nobody reports anything follow the clock.
#[derive(Debug, Clone, Args)]
pub(super) struct ReportArgs {
    /// The id of the reservation, or of the workflow
    id: String,
    /// The name of the activity
    activity: String,
    /// What happened
    event: EventArg,
    /// Until when it runs, with needs-until: 14:30, now+20m, 2026-11-21T10:00:00Z
    #[arg(required_if_eq("event", "needs-until"))]
    until: Option<InstantArg>,
    /// When it happened [default: now]
    #[arg(long, value_name = "TIME")]
    at: Option<InstantArg>,
    /// With failed: a site at which the activity must not run again; may be given several times
    #[arg(long, value_name = "SITE")]
    exclude: Vec<String>,
    /// The user; the coordinator refuses anyone but the workflow's user [default: the workflow's user]
    #[arg(long, value_name = "NAME")]
    user: Option<String>,
    /// The id of this report: sent again with the same content, it is the same report [default: a random
    /// UUID]
    #[arg(long, value_name = "REPORT_ID")]
    report_id: Option<String>,
    #[command(flatten)]
    grc: GrcArgs,
    /// Print the ReportActivityResponse as JSON
    #[arg(long)]
    json: bool,
}

/// What happened to an activity, as it is written on the command line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum EventArg {
    /// It has begun
    Started,
    /// It has ended, and its data are there
    Finished,
    /// It has failed, and has to run again
    Failed,
    /// It runs until the time that follows
    NeedsUntil,
}

/// Revise a booked workflow: without some sites, with some activities placed anew, or for another deadline
///
/// What runs stays where it is. Without any of these flags it tries once more to follow reports that could not be
/// followed before. The new version is booked in place of the old one, all or nothing.
#[derive(Debug, Clone, Args)]
pub(super) struct ReviseArgs {
    /// The id of the reservation, or of the workflow
    id: String,
    /// A site at which nothing may run any more that has not begun; may be given several times
    #[arg(long, value_name = "SITE")]
    exclude: Vec<String>,
    /// An activity that is placed anew unless it has begun; may be given several times
    #[arg(long, value_name = "NAME")]
    activity: Vec<String>,
    /// A new deadline: tomorrow 14:00, now+2h, 2026-11-21T10:00:00Z
    #[arg(long, value_name = "TIME")]
    deadline: Option<InstantArg>,
    /// Say what the new version would be, and change nothing
    #[arg(long)]
    plan_only: bool,
    /// The user; the coordinator refuses anyone but the workflow's user [default: the workflow's user]
    #[arg(long, value_name = "NAME")]
    user: Option<String>,
    /// The id of this revision: sent again with the same content, it gets the same answer [default: a random
    /// UUID]
    #[arg(long, value_name = "CHANGE_ID")]
    change_id: Option<String>,
    /// Draw with ASCII only
    #[arg(long)]
    ascii: bool,
    #[command(flatten)]
    grc: GrcArgs,
    /// Print the ReviseWorkflowResponse as JSON
    #[arg(long)]
    json: bool,
}

/// Runs `coalloc workflow report`.
pub(super) async fn report(args: &ReportArgs) -> Result<Answer, Failure> {
    let now = coalloc_net::clock::now().wall;
    let event = match args.event {
        EventArg::Started => v1::ActivityEvent::Started,
        EventArg::Finished => v1::ActivityEvent::Finished,
        EventArg::Failed => v1::ActivityEvent::Failed,
        EventArg::NeedsUntil => v1::ActivityEvent::NeedsUntil,
    };
    let mut client = args.grc.connect_workflows().await?;
    let user = user_of(&mut client, &args.id, args.user.as_ref()).await?;
    let report_id = args.report_id.clone().unwrap_or_else(|| Uuid::new_v4().to_string());
    text::note(&format!("report id: {report_id}"));
    let request = v1::ReportActivityRequest {
        id: args.id.clone(),
        report_id: report_id.clone(),
        user,
        activity: args.activity.clone(),
        event: event.into(),
        until: args.until.as_ref().map(|until| time_to_wire(until.at(now))),
        time: args.at.as_ref().map(|at| time_to_wire(at.at(now))),
        excluded: args.exclude.clone(),
    };
    let what_to_do = format!("send it again with --report-id {report_id}: it is recorded once");
    let answer = client.report_activity(request).await;
    let answer = answer.map_err(|status| rpc::failure_of_change(&status, &what_to_do))?;
    let answer = answer.into_inner();
    let revision = answer.revision.clone().unwrap_or_default();
    let text = match args.json {
        true => text::json(&answer)?,
        false => {
            let what = describe(&revision, answer.version);
            format!("recorded for {}\n{what}", answer.reservation)
        }
    };
    Ok(Answer { text, exit: exit(&revision) })
}

/// Runs `coalloc workflow revise`.
pub(super) async fn revise(args: &ReviseArgs) -> Result<Answer, Failure> {
    let now = coalloc_net::clock::now().wall;
    let mut client = args.grc.connect_workflows().await?;
    let user = user_of(&mut client, &args.id, args.user.as_ref()).await?;
    let change_id = args.change_id.clone().unwrap_or_else(|| Uuid::new_v4().to_string());
    if !args.plan_only {
        text::note(&format!("change id: {change_id}"));
    }
    let request = v1::ReviseWorkflowRequest {
        id: args.id.clone(),
        change_id: change_id.clone(),
        user,
        excluded: args.exclude.clone(),
        again: args.activity.clone(),
        deadline: args.deadline.as_ref().map(|deadline| time_to_wire(deadline.at(now))),
        plan_only: args.plan_only,
    };
    let what_to_do = format!("send it again with --change-id {change_id}: it is made once");
    let answer = client.revise_workflow(request).await;
    let answer = answer.map_err(|status| rpc::failure_of_change(&status, &what_to_do))?;
    let mut answer = answer.into_inner();
    if !answer.next_page_token.is_empty() {
        let whole = rpc::whole_workflow(&mut client, &args.id).await;
        let whole = whole.map_err(|status| rpc::failure(&status))?;
        (answer.workflow, answer.next_page_token) = (whole.workflow, String::new());
    }
    let revision = answer.revision.clone().unwrap_or_default();
    let text = match args.json {
        true => text::json(&answer)?,
        false => revised(&revision, answer.workflow.as_ref(), marks(args.ascii)),
    };
    Ok(Answer { text, exit: exit(&revision) })
}

/// The user that was named, or else that of the workflow.
async fn user_of(
    client: &mut Workflows,
    id: &str,
    named: Option<&String>,
) -> Result<String, Failure> {
    if let Some(named) = named {
        return Ok(named.clone());
    }
    let request =
        v1::GetWorkflowRequest { id: id.to_owned(), page_size: Some(1), page_token: String::new() };
    let answer = client.get_workflow(request).await.map_err(|status| rpc::failure(&status))?;
    Ok(answer.into_inner().reservation.unwrap_or_default().user)
}

fn exit(revision: &v1::WorkflowRevision) -> Exit {
    match revision.state() {
        v1::RevisionState::Done | v1::RevisionState::Nothing | v1::RevisionState::Planned => {
            Exit::Done
        }
        v1::RevisionState::Refused => Exit::Refused,
        v1::RevisionState::UnderWay | v1::RevisionState::Unspecified => Exit::Unfinished,
    }
}

/// A revision with the plan that it led to.
fn revised(
    revision: &v1::WorkflowRevision,
    workflow: Option<&v1::WorkflowReceipt>,
    marks: Marks,
) -> String {
    let mut out = describe(revision, workflow.map_or(0, |workflow| workflow.version));
    let shows = matches!(revision.state(), v1::RevisionState::Done | v1::RevisionState::Planned);
    if let Some(plan) = workflow.and_then(|workflow| workflow.plan.as_ref()).filter(|_| shows) {
        // Writing to a String cannot fail.
        let _ = write!(out, "{}\n\n{}", headline(plan), body(plan, marks));
    }
    out
}

/// What came of a revision, for people.
fn describe(revision: &v1::WorkflowRevision, version: u32) -> String {
    let changes = changes(revision);
    match revision.state() {
        v1::RevisionState::Nothing => "nothing has to be changed\n".to_owned(),
        v1::RevisionState::Planned => format!("this would be the new version{changes}\n"),
        v1::RevisionState::UnderWay => {
            "the new version is not booked yet: ask `coalloc workflow show`\n".to_owned()
        }
        v1::RevisionState::Done => format!("version {version} is booked{changes}\n"),
        v1::RevisionState::Refused => {
            let why = revision.refusal.as_ref().map(refusal).unwrap_or_default();
            format!("refused, and the version that was booked stays: {why}")
        }
        v1::RevisionState::Unspecified => {
            "the coordinator does not say what came of it\n".to_owned()
        }
    }
}

/// Which activities a revision changes: ": `a` is placed anew, `b` ends at another time".
pub(super) fn changes(revision: &v1::WorkflowRevision) -> String {
    let part = |names: &[String], one: &str, several: &str| match names {
        [] => None,
        [name] => Some(format!("{name} {one}")),
        _ => Some(format!("{} {several}", text::enumerate(names))),
    };
    let moved = part(&revision.moved, "is placed anew", "are placed anew");
    let resized = part(&revision.resized, "ends at another time", "end at another time");
    let parts: Vec<String> = moved.into_iter().chain(resized).collect();
    if parts.is_empty() { String::new() } else { format!(": {}", parts.join("; ")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn revision(
        state: v1::RevisionState,
        moved: &[&str],
        resized: &[&str],
    ) -> v1::WorkflowRevision {
        let names = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
        v1::WorkflowRevision {
            state: state.into(),
            moved: names(moved),
            resized: names(resized),
            ..v1::WorkflowRevision::default()
        }
    }

    #[test]
    fn what_came_of_a_revision_is_said_in_words() {
        let done = revision(v1::RevisionState::Done, &["store"], &["filter", "show"]);
        let text =
            "version 2 is booked: store is placed anew; filter and show end at another time\n";
        assert_eq!(describe(&done, 2), text);
        let nothing = revision(v1::RevisionState::Nothing, &[], &[]);
        assert_eq!(describe(&nothing, 1), "nothing has to be changed\n");
        let planned = revision(v1::RevisionState::Planned, &[], &[]);
        assert_eq!(describe(&planned, 1), "this would be the new version\n");
    }

    #[test]
    fn an_outcome_has_an_exit_code() {
        use v1::RevisionState::{Done, Nothing, Planned, Refused, UnderWay, Unspecified};
        let states = [Done, Nothing, Planned, Refused, UnderWay, Unspecified];
        let exits = states.map(|state| exit(&revision(state, &[], &[])));
        let wanted =
            [Exit::Done, Exit::Done, Exit::Done, Exit::Refused, Exit::Unfinished, Exit::Unfinished];
        assert_eq!(exits, wanted);
    }
}
