//! The last act of `coalloc demo workflow`: a workflow has begun when the site of its first activity dies with its
//! resource manager. Its user reports the failure, and the workflow goes on at another site. When the resource manager
//! returns, it gives back what it had.

use std::path::Path;
use std::time::{Duration, Instant};

use coalloc_common::Time;
use coalloc_net::convert::window_from_wire;
use coalloc_proto::file::{Document, parse};
use coalloc_proto::v1;
use serde_json::{Value, json};

use super::submit;
use crate::kit::exit::Failure;
use crate::kit::rpc::{self, Workflows};
use crate::testbed::audit::Testimony;
use crate::testbed::local::layout::Post;
use crate::user::daemons::{Daemons, PAUSE};
use crate::user::wording::workflow::{Marks, body, headline};

/// A workflow that begins as soon as it can.
const PIPELINE: &str = include_str!("../../../../../docs/examples/workflows/pipeline.yaml");
/// The activity whose site dies.
const FIRST: &str = "read";
/// How long a resource manager that is back may take to give back what it had.
const RELEASE_PATIENCE: Duration = Duration::from_secs(30);

/// What happened.
pub(super) struct LivingWorkflow {
    /// The workflow as it was booked.
    before: v1::WorkflowReceipt,
    /// The site that died.
    site: String,
    /// What came of the report.
    answer: v1::ReportActivityResponse,
    /// The workflow afterwards.
    after: v1::WorkflowReceipt,
}

/// Plays the act.
pub(super) async fn play(
    workflows: &mut Workflows,
    daemons: &mut Daemons,
) -> Result<LivingWorkflow, Failure> {
    let document: Document<v1::Workflow> = parse(Path::new("pipeline.yaml"), PIPELINE.to_owned())?;
    let before = submit(workflows, "pipeline", document.message).await?;
    let not_booked = || Failure::internal("the pipeline could not be booked");
    let first = planned(&before, FIRST).ok_or_else(not_booked)?.clone();
    let begin = window_from_wire("window", first.window.as_ref())?.start();
    wait_until(begin).await;
    let (site, rm) = (first.site.clone(), format!("crm-{}", first.site));
    let dead = daemons.kill(&rm)?;
    let report = v1::ReportActivityRequest {
        id: "pipeline".to_owned(),
        report_id: format!("{FIRST}-failed"),
        user: "ann".to_owned(),
        activity: FIRST.to_owned(),
        event: v1::ActivityEvent::Failed.into(),
        excluded: vec![site.clone()],
        ..v1::ReportActivityRequest::default()
    };
    let answer = workflows.report_activity(report).await;
    let answer = answer.map_err(|status| rpc::failure(&status))?.into_inner();
    let whole = rpc::whole_workflow(workflows, "pipeline").await;
    let after = whole.map_err(|status| rpc::failure(&status))?.workflow.unwrap_or_default();
    daemons.start(dead.clone(), true)?;
    daemons.wait_serving().await?;
    wait_for_release(&dead, &before).await?;
    Ok(LivingWorkflow { before, site, answer, after })
}

fn planned<'a>(receipt: &'a v1::WorkflowReceipt, name: &str) -> Option<&'a v1::PlannedActivity> {
    receipt.plan.as_ref()?.activities.iter().find(|one| one.name == name)
}

/// Waits for an instant of this machine's clock.
async fn wait_until(at: Time) {
    let left = at.since(coalloc_net::clock::now().wall);
    tokio::time::sleep(left.to_std()).await;
}

/// Waits until a resource manager that is back has nothing of a reservation any more.
async fn wait_for_release(post: &Post, of: &v1::WorkflowReceipt) -> Result<(), Failure> {
    let end = Instant::now() + RELEASE_PATIENCE;
    loop {
        let heard = Testimony::hear(&post.dialer, &post.address).await;
        let has_some = heard.is_ok_and(|(testimony, _)| testimony.has_live(&of.reservation));
        if !has_some || Instant::now() > end {
            // If it still has some, the audit finds it.
            return Ok(());
        }
        tokio::time::sleep(PAUSE).await;
    }
}

impl LivingWorkflow {
    /// Is the workflow booked whole without the dead site?
    pub(super) fn is_proven(&self) -> bool {
        let revision = self.answer.revision.clone().unwrap_or_default();
        let elsewhere = planned(&self.after, FIRST).is_some_and(|one| one.site != self.site);
        revision.state() == v1::RevisionState::Done && self.after.version == 2 && elsewhere
    }

    pub(super) fn text(&self, marks: Marks) -> String {
        let show = |receipt: &v1::WorkflowReceipt| match &receipt.plan {
            Some(plan) => format!("{}\n\n{}", headline(plan), body(plan, marks)),
            None => "no plan\n".to_owned(),
        };
        let revision = self.answer.revision.clone().unwrap_or_default();
        format!(
            "pipeline: booked, {}\ncrm-{} was killed after {FIRST} had begun there, and {FIRST} was reported to have \
             failed.\n\npipeline: version {}, {} placed anew, {}",
            show(&self.before),
            self.site,
            self.after.version,
            revision.moved.join(", "),
            show(&self.after),
        )
    }

    pub(super) fn json(&self) -> Value {
        json!({ "before": self.before, "site": self.site, "answer": self.answer, "after": self.after })
    }
}
