//! What the ledger keeps beside a candidate: the plan, and which kind of plan it is.
//!
//! The coordinator core gives the text back and never looks at it (`Details`). Its field `kind` says how the
//! rest is read; a kind that this release does not know is no plan that it can show.
//!
//! Ledgers of releases before the field say nothing of it: their plans are told apart by their fields.

use std::collections::BTreeMap;

use coalloc_proto::v1;
use serde::{Deserialize, Serialize};

/// What stands beside a candidate.
#[derive(Debug, Clone, PartialEq)]
pub enum KeptPlan {
    /// The plan of a co-allocation.
    CoAllocation(Box<v1::Plan>),
    /// The plan of a task, and what it rests on.
    Task(Box<KeptTask>),
}

/// A task's plan, and what it rests on.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct KeptTask {
    /// The plan.
    pub task_plan: v1::TaskPlan,
    /// What finding it took.
    pub effort: v1::TaskEffort,
    /// How old what was known of each RM was, in microseconds.
    pub ages_us: BTreeMap<String, i64>,
    /// How old what was known of those who refused the tries before was.
    pub tried_us: Vec<Option<i64>>,
}

/// Which kind of plan a text is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Kind {
    CoAllocation,
    Task,
}

/// The text's form: the kind, and the field of that kind.
#[derive(Serialize, Deserialize)]
struct Form<Plan, Task> {
    kind: Kind,
    #[serde(skip_serializing_if = "Option::is_none")]
    plan: Option<Plan>,
    #[serde(skip_serializing_if = "Option::is_none")]
    task: Option<Task>,
}

/// The text of a co-allocation's plan.
#[must_use]
pub fn co_allocation(plan: &v1::Plan) -> String {
    write(&Form { kind: Kind::CoAllocation, plan: Some(plan), task: None::<()> })
}

/// The text of a task's plan.
#[must_use]
pub fn task(task: &KeptTask) -> String {
    write(&Form { kind: Kind::Task, plan: None::<()>, task: Some(task) })
}

fn write(form: &impl Serialize) -> String {
    // Messages of our own schema are always representable.
    serde_json::to_string(form).unwrap_or_default()
}

/// Reads what was kept; nothing when there is none, or none that this release knows.
#[must_use]
pub fn read(text: &str) -> Option<KeptPlan> {
    match serde_json::from_str::<Form<Box<v1::Plan>, Box<KeptTask>>>(text) {
        Ok(Form { kind: Kind::CoAllocation, plan, .. }) => plan.map(KeptPlan::CoAllocation),
        Ok(Form { kind: Kind::Task, task, .. }) => task.map(KeptPlan::Task),
        Err(_) => read_older(text),
    }
}

/// Reads a text without a kind.
fn read_older(text: &str) -> Option<KeptPlan> {
    let fields: BTreeMap<String, serde::de::IgnoredAny> = serde_json::from_str(text).ok()?;
    if fields.contains_key("kind") {
        return None;
    }
    if fields.contains_key("task_plan") {
        return serde_json::from_str(text).ok().map(KeptPlan::Task);
    }
    serde_json::from_str(text).ok().map(KeptPlan::CoAllocation)
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
    fn texts_of_older_ledgers_are_read_as_what_they_are() {
        let older = serde_json::to_string(&a_plan()).unwrap();
        assert_eq!(read(&older), Some(KeptPlan::CoAllocation(Box::new(a_plan()))));
        let older = serde_json::to_string(&a_task()).unwrap();
        assert_eq!(read(&older), Some(KeptPlan::Task(Box::new(a_task()))));
        let empty = serde_json::to_string(&v1::Plan::default()).unwrap();
        assert_eq!(read(&empty), Some(KeptPlan::CoAllocation(Box::default())));
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
