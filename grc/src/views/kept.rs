//! What the ledger keeps beside a candidate: the plan, and which kind of plan it is.
//!
//! The coordinator core keeps this text without reading it (`Details`). Its field `kind` says how the rest is read. A
//! kind that this release does not know is a plan that it cannot show.

use std::collections::BTreeMap;

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

/// The head of a workflow's plan, and the effort of the search that found it. The whole plan is on the next line of
/// the text, so that listings need not read it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct KeptWorkflow {
    /// The plan without its long lists: without activities, transfers, channels, segments and critical path.
    pub head: v1::WorkflowPlan,
    /// The effort of the search.
    pub effort: v1::WorkflowEffort,
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

/// The text of a workflow's plan: its head on the first line, the whole plan on the second.
#[must_use]
pub fn workflow(plan: &v1::WorkflowPlan, effort: v1::WorkflowEffort) -> String {
    let head = v1::WorkflowPlan {
        digest: plan.digest.clone(),
        planner: plan.planner.clone(),
        window: plan.window,
        makespan: plan.makespan,
        summary: plan.summary.clone(),
        ..v1::WorkflowPlan::default()
    };
    let workflow = KeptWorkflow { head, effort };
    let head = write(&Form::<(), (), _>::Workflow { workflow });
    // JSON that is not indented has no line breaks.
    format!("{head}\n{}", write(plan))
}

/// The whole plan of a workflow; `None` when the text is of another kind.
#[must_use]
pub fn whole_workflow(text: &str) -> Option<v1::WorkflowPlan> {
    let (head, plan) = text.split_once('\n')?;
    matches!(read(head)?, KeptPlan::Workflow(_)).then(|| serde_json::from_str(plan).ok())?
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
        let text = workflow(&whole, v1::WorkflowEffort { placements: 3, frames: 1 });
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
