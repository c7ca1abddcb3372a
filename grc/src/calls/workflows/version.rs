//! The booked version of a workflow: what the ledger keeps of it, and what that means on the federation of today.
//!
//! Left out: what a revision makes of it, see [`super::revision`].

use std::collections::{BTreeMap, BTreeSet};

use coalloc_common::workflow::{ActivityReport, ReportedProgress};
use coalloc_common::{
    InvalidField, RequestId, ReservationId, RmName, Segment, Time, Topology, UserName, VertexName,
};
use coalloc_net::convert::{
    ParsedWorkflow, ParsedWorkflowOptions, schedule_from_wire, segments_from_wire,
    workflow_from_wire, workflow_options,
};
use coalloc_plan::workflow::Schedule;
use coalloc_plan::workflow::revise::BookedWorkflow;
use coalloc_proto::v1;
use coalloc_protocol::coordinator::{Change, Report, Reservation};

use crate::views::kept::{self, KeptRequest};

/// The booked version of a workflow, as the ledger keeps it.
#[derive(Debug, Clone)]
pub struct BookedVersion {
    /// The reservation.
    pub id: ReservationId,
    /// Whose workflow it is.
    pub user: UserName,
    /// How many changes were ever opened.
    pub changes: usize,
    /// The last change.
    pub change: Option<Change>,
    /// What is booked at each resource manager.
    pub segments: BTreeMap<RmName, Vec<Segment>>,
    /// The plan.
    pub plan: v1::WorkflowPlan,
    /// What revisions need besides the plan.
    pub request: KeptRequest,
    /// What was reported, in the order in which it arrived, with the ids of the reports.
    pub reports: Vec<(RequestId, ActivityReport)>,
}

impl BookedVersion {
    /// Reads what the ledger keeps. `None` when the plan is of a release that kept no workflow beside it.
    #[must_use]
    pub fn read(reservation: &Reservation, reports: &[Report]) -> Option<Self> {
        let candidate = reservation.candidate.as_ref()?;
        let text = candidate.details.text();
        Some(Self {
            id: reservation.id.clone(),
            user: reservation.ticket.user.clone(),
            changes: reservation.changes,
            change: reservation.change.clone(),
            segments: candidate.segments.clone(),
            plan: kept::whole_workflow(&text)?,
            request: kept::workflow_request(&text)?,
            reports: reports.iter().filter_map(read_report).collect(),
        })
    }

    /// The version on a federation.
    ///
    /// # Errors
    /// [`InvalidField`] when the federation no longer has a site or a path of it.
    pub fn on(&self, topology: &Topology) -> Result<ParsedVersion, InvalidField> {
        let KeptRequest { workflow, options, excluded, past } = &self.request;
        let mut parsed = workflow_from_wire(Some(topology), workflow, Time::MIN)?;
        for activity in &mut parsed.workflow.activities {
            let names = excluded.get(activity.name.as_str()).into_iter().flatten();
            let names = names.filter_map(|name| VertexName::parse("excluded", name).ok());
            activity.excluded.extend(names);
        }
        let unknown = || {
            let allowed = "sites and paths of the federation";
            InvalidField::new("plan", "a place that there is no more", allowed)
        };
        let schedule = schedule_from_wire(topology, &parsed, &self.plan).ok_or_else(unknown)?;
        let mut taken: BTreeMap<RmName, Vec<Segment>> = BTreeMap::new();
        for segment in past {
            let rm = RmName::parse("past.resource_manager", &segment.resource_manager)?;
            let segments = segments_from_wire("past", std::slice::from_ref(segment))?;
            taken.entry(rm).or_default().extend(segments);
        }
        let of = |index: usize| {
            let name = &parsed.workflow.activities[index].name;
            let own = self.reports.iter().map(|(_, report)| report);
            let own = own.filter(|report| report.activity == *name);
            ReportedProgress::of(own, schedule.activities[index].window)
        };
        let reported: Vec<ReportedProgress> = (0..schedule.activities.len()).map(of).collect();
        let mut excluded_of: BTreeMap<usize, BTreeSet<VertexName>> = BTreeMap::new();
        for (index, activity) in parsed.workflow.activities.iter().enumerate() {
            let own = self.reports.iter().filter(|(_, report)| report.activity == activity.name);
            let sites: BTreeSet<VertexName> =
                own.flat_map(|(_, report)| report.excluded.iter().cloned()).collect();
            if !sites.is_empty() {
                excluded_of.insert(index, sites);
            }
        }
        let options = workflow_options(options.as_ref())?;
        Ok(ParsedVersion { parsed, options, schedule, past: taken, reported, excluded_of })
    }
}

/// The report behind a text of the ledger.
fn read_report(report: &Report) -> Option<(RequestId, ActivityReport)> {
    Some((report.id.clone(), serde_json::from_str(&report.text).ok()?))
}

/// The booked version of a workflow with indices in place of names.
#[derive(Debug, Clone)]
pub struct ParsedVersion {
    /// The workflow, with the sites at which activities must not run any more.
    pub parsed: ParsedWorkflow,
    /// How it is planned.
    pub options: ParsedWorkflowOptions,
    /// Where and when everything happens.
    pub schedule: Schedule,
    /// What placements had taken that were given up while they were in use.
    pub past: BTreeMap<RmName, Vec<Segment>>,
    /// What was reported of each activity in its present placement.
    pub reported: Vec<ReportedProgress>,
    /// Sites at which single activities must not run again.
    pub excluded_of: BTreeMap<usize, BTreeSet<VertexName>>,
}

impl ParsedVersion {
    /// The version as revisions take it.
    #[must_use]
    pub fn booked(&self) -> BookedWorkflow<'_> {
        BookedWorkflow { schedule: &self.schedule, past: &self.past, reported: &self.reported }
    }
}
