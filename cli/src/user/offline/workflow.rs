//! Workflows without any daemon: planned on what a federation file leaves free.

use std::sync::atomic::AtomicBool;

use coalloc_common::{InvalidField, Span, limits};
use coalloc_net::convert::{ParsedWorkflow, ParsedWorkflowOptions, taken, workflow_answer_to_wire};
use coalloc_plan::workflow::rank::{Ranks, least_length};
use coalloc_plan::workflow::{ScratchTimetables, WorkflowInstance};
use coalloc_plan::{Budget, Named as _};
use coalloc_proto::v1;

use super::Federation;

/// How long a workflow takes at least and on average, when nothing else runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CriticalPath {
    /// Every activity at its fastest site, and all data there at once.
    pub least: Span,
    /// With mean speeds and rates.
    pub mean: Span,
}

impl Federation {
    /// Plans a workflow.
    ///
    /// # Errors
    /// [`InvalidField`] when what the file lists as taken does not fit.
    pub fn plan_workflow(
        &self,
        parsed: &ParsedWorkflow,
        options: ParsedWorkflowOptions,
    ) -> Result<v1::PlanWorkflowResponse, InvalidField> {
        let mut free = ScratchTimetables::new(&self.topology);
        for (index, (rm, segment)) in taken(&self.file, &self.topology)?.into_iter().enumerate() {
            free.book(&rm, std::slice::from_ref(&segment)).map_err(|short| {
                let field = format!("taken[{index}].amount");
                InvalidField::new(field, segment.amount, format!("at most {}", short.available))
            })?;
        }
        let instance = self.instance(parsed, options);
        let stop = AtomicBool::new(false);
        let nodes = limits::PLANNING_NODES_MAX;
        let budget = Budget { nodes, solver_time: Span::ZERO, stop: &stop };
        let answer = options.planner.planner().plan(&instance, &mut free, &budget);
        Ok(workflow_answer_to_wire(&self.topology, parsed, options.planner.name(), &answer))
    }

    /// The critical path of a workflow in this federation.
    ///
    /// # Errors
    /// The index of the first activity that can run at no site.
    pub fn critical_path(
        &self,
        parsed: &ParsedWorkflow,
        options: ParsedWorkflowOptions,
    ) -> Result<CriticalPath, usize> {
        let instance = self.instance(parsed, options);
        let least = least_length(&instance)?;
        Ok(CriticalPath { least, mean: Ranks::new(&instance).critical_path() })
    }

    const fn instance<'a>(
        &'a self,
        parsed: &'a ParsedWorkflow,
        options: ParsedWorkflowOptions,
    ) -> WorkflowInstance<'a> {
        WorkflowInstance {
            topology: &self.topology,
            workflow: &parsed.workflow,
            graph: &parsed.graph,
            slot: limits::WORKFLOW_SLOT,
            options: options.options,
            kept: None,
        }
    }
}
