//! A workflow file that was read, and what flags replaced in it.

use coalloc_common::{InvalidField, Time};
use coalloc_net::convert::{
    ParsedWorkflow, ParsedWorkflowOptions, time_to_wire, workflow_from_wire, workflow_options,
};
use coalloc_proto::file::Document;
use coalloc_proto::v1;

use super::FileArgs;
use crate::kit::exit::Failure;
use crate::kit::input_file::{FileKind, read_input};
use crate::kit::request::rate_hardly_meant;
use crate::kit::rpc;
use crate::kit::text;
use crate::user::offline::Federation;

/// A workflow, and the file that it was read from.
#[derive(Debug)]
pub(super) struct WorkflowFile {
    /// The workflow.
    pub(super) request: v1::Workflow,
    document: Document<v1::Workflow>,
    ready_is_a_flag: bool,
}

impl WorkflowFile {
    /// Reads a workflow.
    pub(super) fn read(args: &FileArgs, now: Time) -> Result<Self, Failure> {
        let document: Document<v1::Workflow> = read_input(&args.path, FileKind::Workflow)?;
        for (index, channel) in document.message.channels.iter().enumerate() {
            if let Some(problem) = rate_hardly_meant(channel.bandwidth_bps) {
                let field = format!("channels[{index}].bandwidth_bps");
                return Err(document.mistake(&field, &problem).into());
            }
        }
        let mut request = document.message.clone();
        if let Some(when) = &args.earliest_start {
            let at = when.at(now);
            let times =
                text::time(request.ready.as_ref()).zip(text::time(request.deadline.as_ref()));
            if let Some((was, deadline)) = times {
                request.deadline = Some(time_to_wire(at.saturating_add(deadline.since(was))));
            }
            request.ready = Some(time_to_wire(at));
        }
        if let Some(user) = &args.user {
            request.user.clone_from(user);
        }
        Ok(Self { request, document, ready_is_a_flag: args.earliest_start.is_some() })
    }

    /// The checked workflow; sites are looked up if a federation is given.
    pub(super) fn parse(
        &self,
        federation: Option<&Federation>,
        soonest: Time,
    ) -> Result<ParsedWorkflow, Failure> {
        let topology = federation.map(|federation| &federation.topology);
        workflow_from_wire(topology, &self.request, soonest).map_err(|error| self.mistake(&error))
    }

    /// The checked options.
    pub(super) fn options(
        &self,
        options: &v1::WorkflowOptions,
    ) -> Result<ParsedWorkflowOptions, Failure> {
        workflow_options(Some(options)).map_err(|error| self.mistake(&error))
    }

    /// An error in the meaning of this workflow.
    pub(super) fn mistake(&self, error: &InvalidField) -> Failure {
        let problem = error.problem();
        self.mistake_in(&error.field, &problem)
    }

    fn mistake_in(&self, field: &str, problem: &str) -> Failure {
        let field = field.strip_prefix("workflow.").unwrap_or(field);
        if field == "ready" && self.ready_is_a_flag {
            return Failure::bad_input(format!("--earliest-start: {problem}"));
        }
        if let Some(option) = field.strip_prefix("options.") {
            return Failure::bad_input(format!("--{}: {problem}", option.replace('_', "-")));
        }
        self.document.mistake(field, problem).into()
    }

    /// The meaning of a failed call: a mistake that the coordinator found is in this file or its flags.
    pub(super) fn failure(&self, status: &tonic::Status, otherwise: Failure) -> Failure {
        match rpc::violations(status).into_iter().next() {
            Some((field, description)) if field != "request_id" => {
                self.mistake_in(&field, &description)
            }
            _ => otherwise,
        }
    }
}
