//! What the ledger keeps beside a candidate: the plan, and which kind of plan it is.
//!
//! The coordinator core keeps this text without reading it (`Details`). Its field `kind` says how the rest is read. A
//! kind that this release does not know is a plan that it cannot show.

use std::collections::{BTreeMap, BTreeSet};

use coalloc_proto::v1;
use serde::{Deserialize, Serialize};

/// A plan that was kept beside a candidate.
#[derive(Debug, Clone, PartialEq)]
pub enum KeptPlan {
    /// The plan of a co-allocation.
    CoAllocation(Box<v1::Plan>),
    /// The plan of a task, and what it rests on.
    Task(Box<KeptTask>),
    /// The head of a workflow's plan.
    Workflow(Box<KeptWorkflow>),
}

/// The head of a workflow's plan, and the effort of the search that found it. The whole plan is on the second line of
/// the text, and what a revision needs on the third, so that listings need not read them.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct KeptWorkflow {
    /// The plan without its long lists: without activities, transfers, channels, segments and critical path.
    pub head: v1::WorkflowPlan,
    /// The effort of the search.
    pub effort: v1::WorkflowEffort,
    /// What this version changed in the one before it; `None` for the first version.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub revised: Option<RevisedActivities>,
}

/// The activities that a revision of a workflow has changed, by name, in the order of the workflow.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RevisedActivities {
    /// Those that were placed anew.
    pub moved: Vec<String>,
    /// Those that stay and end at another instant than before.
    pub resized: Vec<String>,
    /// How many reports the revision has followed: all that were there when it was planned.
    pub reports: usize,
}

/// What the revision of a booked workflow needs besides its plan.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct KeptRequest {
    /// The workflow, with its ready time and its present deadline.
    pub workflow: v1::Workflow,
    /// How it is planned.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub options: Option<v1::WorkflowOptions>,
    /// The sites at which an activity must not run, besides those that the workflow names: they came with reports
    /// and revisions.
    #[serde(skip_serializing_if = "BTreeMap::is_empty", default)]
    pub excluded: BTreeMap<String, BTreeSet<String>>,
    /// What placements had taken that were given up while they were in use.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub past: Vec<v1::Segment>,
}

/// A task's plan, and what it rests on.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct KeptTask {
    /// The plan of the task.
    pub task_plan: v1::TaskPlan,
    /// The effort of the search that found it.
    pub effort: v1::TaskEffort,
    /// For each RM, the age of what was known of it, in microseconds.
    pub ages_us: BTreeMap<String, i64>,
    /// For each earlier try, the age of what was known of the RM that refused it, in microseconds; `None`: unknown.
    pub tried_us: Vec<Option<i64>>,
}

/// The structure of the text: the kind, and the field for that kind.
#[derive(Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
enum Form<Plan, Task, Workflow> {
    CoAllocation { plan: Plan },
    Task { task: Task },
    Workflow { workflow: Workflow },
}

/// The text of a co-allocation's plan.
#[must_use]
pub fn co_allocation(plan: &v1::Plan) -> String {
    write(&Form::<_, (), ()>::CoAllocation { plan })
}

/// The text of a task's plan.
#[must_use]
pub fn task(task: &KeptTask) -> String {
    write(&Form::<(), _, ()>::Task { task })
}

/// The text of a workflow's plan: its head on the first line, the whole plan on the second, and on the third what a
/// revision needs.
#[must_use]
pub fn workflow(
    plan: &v1::WorkflowPlan,
    effort: v1::WorkflowEffort,
    revised: Option<RevisedActivities>,
    request: Option<&KeptRequest>,
) -> String {
    let head = v1::WorkflowPlan {
        digest: plan.digest.clone(),
        planner: plan.planner.clone(),
        window: plan.window,
        makespan: plan.makespan,
        summary: plan.summary.clone(),
        ..v1::WorkflowPlan::default()
    };
    let workflow = KeptWorkflow { head, effort, revised };
    let head = write(&Form::<(), (), _>::Workflow { workflow });
    // JSON that is not indented has no line breaks.
    let request = request.map(|request| format!("\n{}", write(request))).unwrap_or_default();
    format!("{head}\n{}{request}", write(plan))
}

/// The whole plan of a workflow; `None` when the text is of another kind.
#[must_use]
pub fn whole_workflow(text: &str) -> Option<v1::WorkflowPlan> {
    let mut lines = text.lines();
    let (head, plan) = (lines.next()?, lines.next()?);
    matches!(read(head)?, KeptPlan::Workflow(_)).then(|| serde_json::from_str(plan).ok())?
}

/// What the revision of a workflow needs besides its plan; `None` when the text is of another kind, or was written by
/// a release that kept nothing of it.
#[must_use]
pub fn workflow_request(text: &str) -> Option<KeptRequest> {
    let mut lines = text.lines();
    let (head, request) = (lines.next()?, lines.nth(1)?);
    matches!(read(head)?, KeptPlan::Workflow(_)).then(|| serde_json::from_str(request).ok())?
}

fn write(form: &impl Serialize) -> String {
    // Messages of our own schema can always be represented.
    serde_json::to_string(form).unwrap_or_default()
}

/// Reads a text that was kept; `None` when it holds no plan, or none of a kind that this release knows.
#[must_use]
pub fn read(text: &str) -> Option<KeptPlan> {
    let first = text.lines().next()?;
    match serde_json::from_str(first).ok()? {
        Form::CoAllocation { plan } => Some(KeptPlan::CoAllocation(plan)),
        Form::Task { task } => Some(KeptPlan::Task(task)),
        Form::Workflow { workflow } => Some(KeptPlan::Workflow(workflow)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn a_plan() -> v1::Plan {
        v1::Plan { digest: "d".to_owned(), cost_millipoints: 7, ..v1::Plan::default() }
    }

    fn a_task() -> KeptTask {
        KeptTask {
            task_plan: v1::TaskPlan { cluster: "B".to_owned(), ..v1::TaskPlan::default() },
            effort: v1::TaskEffort::default(),
            ages_us: [("rm-B".to_owned(), 7)].into(),
            tried_us: vec![None, Some(3)],
        }
    }

    #[test]
    fn a_text_says_of_which_kind_it_is_and_is_read_back() {
        let text = co_allocation(&a_plan());
        assert!(text.starts_with(r#"{"kind":"co-allocation","#), "{text}");
        assert_eq!(read(&text), Some(KeptPlan::CoAllocation(Box::new(a_plan()))));
        let text = task(&a_task());
        assert!(text.starts_with(r#"{"kind":"task","#), "{text}");
        assert_eq!(read(&text), Some(KeptPlan::Task(Box::new(a_task()))));
    }

    #[test]
    fn the_head_of_a_workflow_is_read_without_its_plan() {
        let activity = v1::PlannedActivity { name: "read".to_owned(), ..Default::default() };
        let whole = v1::WorkflowPlan {
            digest: "d".to_owned(),
            activities: vec![activity],
            ..v1::WorkflowPlan::default()
        };
        let effort = v1::WorkflowEffort { placements: 3, frames: 1 };
        let request = KeptRequest {
            workflow: v1::Workflow { user: "ann".to_owned(), ..v1::Workflow::default() },
            options: None,
            excluded: BTreeMap::from([("read".to_owned(), BTreeSet::from(["A".to_owned()]))]),
            past: Vec::new(),
        };
        let text = workflow(&whole, effort, None, Some(&request));
        assert_eq!(workflow_request(&text), Some(request));
        assert_eq!(workflow_request(&workflow(&whole, effort, None, None)), None);
        let (first, _) = text.split_once('\n').unwrap();
        for text in [&text, first] {
            let Some(KeptPlan::Workflow(kept)) = read(text) else { panic!("{text}") };
            assert_eq!((kept.head.digest.as_str(), kept.effort.placements), ("d", 3));
            assert!(kept.head.activities.is_empty());
        }
        assert_eq!(whole_workflow(&text), Some(whole));
        assert_eq!(whole_workflow(first), None);
        assert_eq!(whole_workflow(&task(&a_task())), None);
    }

    #[test]
    fn what_is_of_no_known_kind_is_no_plan() {
        for text in ["", "[]", "no JSON", r#"{"kind":"of-tomorrow","plan":{}}"#] {
            assert_eq!(read(text), None, "{text}");
        }
        // The kind decides, not the fields.
        let text = task(&a_task()).replacen("\"task\"", "\"co-allocation\"", 1);
        assert_eq!(read(&text), None, "{text}");
    }
}
