//! `coalloc demo workflow`: the ELGL federation as real processes. A beam time with a synchronous set over three domains is
//! booked; then a compute resource manager dies in the midst of the next one. At last a workflow that has begun loses the
//! site of its first activity, and goes on elsewhere ([`living`]). Everything is audited.

mod living;

use std::path::Path;
use std::time::{Duration, Instant};

use clap::Args;
use coalloc_common::{Span, Time};
use coalloc_net::convert::time_to_wire;
use coalloc_proto::file::{Document, parse};
use coalloc_proto::v1;
use serde_json::json;

use self::living::LivingWorkflow;
use super::readback;
use crate::kit::exit::{Answer, Exit, Failure};
use crate::kit::rpc::{self, Workflows};
use crate::kit::text;
use crate::kit::when::next_full;
use crate::testbed::audit::report::lines;
use crate::testbed::audit::rules::audit;
use crate::testbed::audit::testimony::whole_reservations;
use crate::testbed::audit::{Check, Testimony};
use crate::testbed::local::layout::{Post, Setup};
use crate::testbed::local::{Folder, elgl, start};
use crate::user::daemons::{Daemons, PAUSE, stop};
use crate::user::wording::workflow::{
    ASCII, BLOCKS, Marks, body, earlier_tries, headline, refusal,
};

/// The workflow of the guide.
const BEAMLINE: &str = include_str!("../../../../docs/examples/workflows/beamline.yaml");
/// The resource manager that dies; the planner puts the display there.
const VICTIM: &str = "crm-U0";
/// How long the victim is silent before it is killed: the other Holds are answered by then.
const SILENCE: Duration = Duration::from_millis(1_500);
/// How long the coordinator may take to hear of every profile.
const PICTURES_PATIENCE: Duration = Duration::from_secs(20);
const HOUR: Span = Span::from_secs(3_600);

/// A workflow over three domains is booked, and another one while a resource manager dies; all is audited
///
/// The beam time of the guide: an instrument, a filter and a display run at one time on three sites, with data
/// before and after. It is submitted twice. In the midst of the second one the resource manager of the display's
/// site falls silent and is killed, while all others hold their parts. That workflow is booked whole or not at all,
/// which is read back from all 13 resource managers. When the dead one is back, the workflow is submitted once more.
///
/// A short workflow follows that begins at once. The site of its first activity dies, the failure is reported, and the
/// workflow goes on at another site.
#[derive(Debug, Clone, Args)]
pub struct WorkflowArgs {
    /// Draw the charts with ASCII characters only
    #[arg(long)]
    ascii: bool,
    /// Print everything as JSON
    #[arg(long)]
    json: bool,
}

/// What happened.
struct Report {
    first: v1::WorkflowReceipt,
    second: v1::WorkflowReceipt,
    /// The second one once more, when the victim is back.
    third: v1::WorkflowReceipt,
    /// Parts of the second workflow that were held elsewhere when the victim was killed.
    held: usize,
    /// The workflow that lost a site while it ran.
    living: LivingWorkflow,
    testimonies: Vec<Testimony>,
    checks: Vec<Check>,
}

/// Runs `coalloc demo workflow`.
///
/// # Errors
/// When the federation does not come up, a daemon does not answer, or the demo is interrupted.
pub async fn run(args: &WorkflowArgs) -> Result<Answer, Failure> {
    let folder = Folder::new(None)?;
    let mut daemons = Daemons::default();
    let outcome = tokio::select! {
        outcome = scenario(folder.path(), &mut daemons) => outcome,
        () = coalloc_net::server::stop_signal() => {
            Err(Failure::new(Exit::Interrupted, "interrupted; the daemons are stopped"))
        }
    };
    stop(&mut daemons);
    let report = outcome?;
    let exit = if report.is_proven() { Exit::Done } else { Exit::Failed };
    let marks = if args.ascii { ASCII } else { BLOCKS };
    let text = if args.json { report.json()? } else { report.text(marks) };
    Ok(Answer { text, exit })
}

/// The beam time, a whole number of hours from now.
fn beamline(now: Time, hours: i64) -> Result<v1::Workflow, Failure> {
    let document: Document<v1::Workflow> = parse(Path::new("beamline.yaml"), BEAMLINE.to_owned())?;
    let mut workflow = document.message;
    let ready = next_full(HOUR, now).saturating_add(HOUR.saturating_mul(hours));
    workflow.ready = Some(time_to_wire(ready));
    workflow.deadline = Some(time_to_wire(ready.saturating_add(HOUR.saturating_mul(6))));
    Ok(workflow)
}

async fn scenario(folder: &Path, daemons: &mut Daemons) -> Result<Report, Failure> {
    let file = elgl()?;
    let tasks =
        v1::TaskSettings { mode: v1::TaskMode::Distributed.into(), ..v1::TaskSettings::default() };
    let setup = Setup { tasks: Some(tasks), ..Setup::new(folder, &file) };
    let posts = start(&setup, daemons, true).await?;
    let coordinator = posts.last().ok_or_else(|| Failure::internal("no coordinator"))?;
    let mut workflows = rpc::workflows(&coordinator.dialer, &coordinator.address)?;
    let now = coalloc_net::clock::now().wall;
    wait_for_pictures(&mut workflows, &beamline(now, 1)?).await?;
    let first = submit(&mut workflows, "beam-1", beamline(now, 1)?).await?;
    // The victim is silent, so its Hold cannot be answered; when it dies, the others hold their parts.
    daemons.pause(VICTIM)?;
    let (mut client, workflow) = (workflows.clone(), beamline(now, 12)?);
    let second = tokio::spawn(async move { submit(&mut client, "beam-2", workflow).await });
    tokio::time::sleep(SILENCE).await;
    let held = holds(&posts).await?;
    let victim = daemons.kill(VICTIM)?;
    text::note(&format!(
        "{VICTIM} was killed while {held} other resource managers held their parts"
    ));
    let second = second.await;
    let second = second.map_err(|error| Failure::internal(format!("a call failed: {error}")))??;
    daemons.start(victim, true)?;
    daemons.wait_serving().await?;
    wait_for_pictures(&mut workflows, &beamline(now, 12)?).await?;
    let third = submit(&mut workflows, "beam-3", beamline(now, 12)?).await?;
    let living = living::play(&mut workflows, daemons).await?;
    let mut clients = [rpc::coordinator(&coordinator.dialer, &coordinator.address)?];
    let all = whole_reservations(&mut clients[0], &mut workflows).await;
    let mut all = all.map_err(|status| rpc::failure(&status))?;
    let heard = readback::hear(&mut clients, &posts, &[], &mut all).await?;
    let all = whole_reservations(&mut clients[0], &mut workflows).await;
    let checks = audit(&heard.testimonies, &all.map_err(|status| rpc::failure(&status))?);
    Ok(Report { first, second, third, held, living, testimonies: heard.testimonies, checks })
}

/// Waits until the coordinator knows every resource manager's profiles, that is, until it can plan.
async fn wait_for_pictures(
    workflows: &mut Workflows,
    workflow: &v1::Workflow,
) -> Result<(), Failure> {
    let end = Instant::now() + PICTURES_PATIENCE;
    loop {
        let request = v1::PlanWorkflowRequest { workflow: Some(workflow.clone()), options: None };
        let answer = workflows.plan_workflow(request).await;
        let answer = answer.map_err(|status| rpc::failure(&status))?.into_inner();
        if answer.plan.is_some() {
            return Ok(());
        }
        if Instant::now() > end {
            let why = answer.refusal.as_ref().map(refusal).unwrap_or_default();
            return Err(Failure::internal(format!("no plan: {why}")));
        }
        tokio::time::sleep(PAUSE).await;
    }
}

async fn submit(
    workflows: &mut Workflows,
    id: &str,
    workflow: v1::Workflow,
) -> Result<v1::WorkflowReceipt, Failure> {
    let request = v1::SubmitWorkflowRequest {
        request_id: id.to_owned(),
        workflow: Some(workflow),
        options: None,
    };
    let answer = workflows.submit_workflow(request).await;
    let answer = answer.map_err(|status| rpc::failure(&status))?.into_inner();
    answer.workflow.ok_or_else(|| Failure::internal("an answer without content"))
}

/// How many resource managers other than the victim hold something.
async fn holds(posts: &[Post]) -> Result<usize, Failure> {
    let mut held = 0;
    let managers = posts.split_last().map_or(&[][..], |(_, managers)| managers);
    for post in managers.iter().filter(|post| post.name != VICTIM) {
        let (testimony, _) = Testimony::hear(&post.dialer, &post.address)
            .await
            .map_err(|status| Failure::internal(format!("{}: {}", post.name, status.message())))?;
        held += usize::from(testimony.has_hold());
    }
    Ok(held)
}

impl Report {
    /// Does the audit hold, were the first workflow and the third one booked, did the victim die in the midst, and did the
    /// last workflow go on?
    fn is_proven(&self) -> bool {
        self.first.confirmed
            && self.third.confirmed
            && self.held > 0
            && self.living.is_proven()
            && self.checks.iter().all(|check| check.passed)
    }

    fn text(&self, marks: Marks) -> String {
        let mut out = told("beam-1", &self.first, marks);
        out += &format!(
            "\n{VICTIM} was killed while {} other resource managers held their parts of beam-2.\n\n",
            self.held
        );
        out += &told("beam-2", &self.second, marks);
        out += &format!("\n{VICTIM} was started again.\n\n");
        out += &told("beam-3", &self.third, marks);
        out += &format!("\n{}", self.living.text(marks));
        let verdict = if self.is_proven() { "The proof holds" } else { "The proof FAILS" };
        let managers = text::count(self.testimonies.len(), "resource manager");
        out + &format!("\n{verdict}; read back from {managers}:\n{}", lines(&self.checks))
    }

    fn json(&self) -> Result<String, Failure> {
        text::json(&json!({
            "first": self.first,
            "second": self.second,
            "third": self.third,
            "held": self.held,
            "living": self.living.json(),
            "checks": self.checks,
            "proven": self.is_proven(),
        }))
    }
}

/// One workflow: its plan, or why it is not booked, and the tries that failed before.
fn told(id: &str, receipt: &v1::WorkflowReceipt, marks: Marks) -> String {
    let mut out = match (&receipt.plan, &receipt.refusal) {
        (Some(plan), None) if receipt.confirmed => {
            format!("{id}: booked, {}\n\n{}", headline(plan), body(plan, marks))
        }
        (_, refused) => {
            let why = refused.as_ref().map_or_else(|| "not finished\n".to_owned(), refusal);
            format!("{id}: not booked: {why}")
        }
    };
    for (number, one) in earlier_tries(receipt).iter().enumerate() {
        out += &format!("try {} failed: {}\n", number + 1, text::refusal(one));
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::user::offline::Federation;
    use coalloc_net::convert::{workflow_from_wire, workflow_options};

    #[test]
    fn the_display_is_planned_where_the_victim_is() {
        let path = "elgl.yaml".as_ref();
        let file = serde_json::to_string(&elgl().unwrap()).unwrap();
        let federation = Federation::of(parse(path, file).unwrap()).unwrap();
        let now = Time::from_us(1_800_000_000_000_000);
        let workflow = beamline(now, 1).unwrap();
        let parsed = workflow_from_wire(Some(&federation.topology), &workflow, now).unwrap();
        let options = workflow_options(None).unwrap();
        let plan = federation.plan_workflow(&parsed, options).unwrap().plan.unwrap();
        let display = plan.activities.iter().find(|one| one.name == "display").unwrap();
        assert_eq!(format!("crm-{}", display.site), VICTIM);
    }
}
