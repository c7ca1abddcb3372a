//! Reserve with a plan digest: exactly one plan that was shown before, or if it is outdated, fresh plans instead.
//!
//! The plan need not be the one that a planner would choose now. Others may be cheaper by now, but the client has
//! chosen this one. What counts is whether it is still feasible. A checker that does not rely on any planner decides
//! that, on fresh availability for the plan's window.

use std::sync::Arc;

use coalloc_common::{InvalidField, Reason, Refusal};
use coalloc_net::convert::{plan_from_wire, plan_to_wire, window_from_wire};
use coalloc_net::status;
use coalloc_plan::ip::{IpOptions, feasible};
use coalloc_proto::v1;
use coalloc_protocol::coordinator::Candidate;
use tonic::Status;

use crate::admission::{self, Admitted};
use crate::availability;
use crate::availability::federation::Snapshot;
use crate::calls::reserve::{PlannedCandidates, candidate};
use crate::calls::service::GrcService;
use crate::planning::ExplainedFrames;
use crate::planning::plan_cache::ShownPlan;
use crate::views::kept;

impl GrcService {
    /// The only candidate of a request whose digest names a plan.
    pub(crate) async fn candidate_of_digest(
        &self,
        wire: &v1::ReserveRequest,
        federation: &std::sync::Arc<Snapshot>,
        admitted: &Admitted,
    ) -> Result<PlannedCandidates, Status> {
        let digest = &wire.plan_digest;
        let content = admission::request_digest(wire.request.as_ref());
        let shown = self.plans.find(digest, &content);
        let outdated = match &shown {
            Some(shown) if shown.request != content => {
                let allowed = "the digest of a plan that was shown for this very request (a time relative to now makes it another request)";
                let value = InvalidField::quoted(digest);
                let error = InvalidField::new("plan_digest", value, allowed);
                return Err(status::invalid(&error));
            }
            Some(shown) => match self.still_feasible(shown, federation, admitted).await {
                Ok(candidate) => {
                    let (unreachable, fresh) = (Vec::new(), Vec::new());
                    return Ok(PlannedCandidates {
                        unreachable,
                        fresh,
                        outcome: Ok(vec![candidate]),
                    });
                }
                Err(refusal) => Some(refusal),
            },
            None => None,
        };
        let mut federation = Arc::clone(federation);
        let planned = self
            .plan_admitted(
                &mut federation,
                admitted,
                availability::Replaced::default(),
                &[],
                ExplainedFrames::Closest,
            )
            .await?;
        let federation = &federation;
        let plans = planned
            .plans
            .iter()
            .map(|judged| (judged, plan_to_wire(&federation.topology, &admitted.request, judged)));
        let plans: Vec<_> = plans.collect();
        let unreachable = planned.unreachable.clone();
        if let Some((judged, wire)) = plans.iter().find(|(_, wire)| wire.digest.starts_with(digest))
        {
            let chosen =
                candidate(federation, admitted, &judged.plan, kept::co_allocation(wire).into());
            let outcome = Ok(vec![at_once(chosen)]);
            return Ok(PlannedCandidates { unreachable, fresh: Vec::new(), outcome });
        }
        let Some(refusal) = outdated else {
            let allowed = "the digest of a plan that this coordinator has shown since it was started, \
                           and not forgotten since; plan again";
            let error = InvalidField::new("plan_digest", InvalidField::quoted(digest), allowed);
            return Err(status::invalid(&error));
        };
        let fresh: Vec<v1::Plan> = plans.into_iter().map(|(_, wire)| wire).collect();
        self.plans.remember(&content, &fresh);
        let others = match fresh.len() {
            0 => "nor can any other".to_owned(),
            1 => "1 other can".to_owned(),
            count => format!("{count} others can"),
        };
        let detail = format!("{}; {others}", refusal.detail);
        Ok(PlannedCandidates { unreachable, fresh, outcome: Err(Refusal { detail, ..refusal }) })
    }

    /// The shown plan as a candidate, or why it is not feasible any more.
    async fn still_feasible(
        &self,
        shown: &ShownPlan,
        federation: &Snapshot,
        admitted: &Admitted,
    ) -> Result<Candidate, Refusal> {
        let window = window_from_wire("window", shown.plan.window.as_ref()).ok();
        let outdated = |why: &str| {
            let when = window.map_or_else(String::new, |window| format!(" in {window}"));
            let short = shown.plan.digest.get(..12).unwrap_or_default();
            let detail = format!("plan {short}{when} cannot be made any more: {why}");
            Refusal { window, ..Refusal::new(Reason::PlanOutdated, detail) }
        };
        let plan = plan_from_wire(&federation.topology, &shown.plan);
        let plan = plan.ok_or_else(|| outdated("the federation has changed"))?;
        let (frames, outside) =
            availability::bookable(federation, vec![plan.window], self.handle.now().wall);
        if let Some((_, refusal)) = outside.first() {
            return Err(outdated(&refusal.detail));
        }
        let (rms, request, user) = (&self.federation, &admitted.request, &admitted.user);
        let picture = availability::query_for(
            rms,
            federation,
            request,
            &frames,
            user,
            availability::Replaced::default(),
        )
        .await;
        let Some(view) = picture.views.first() else { return Err(outdated("nothing is known")) };
        let edges = plan.routes.iter().map(Vec::len).max().unwrap_or(1);
        // The routes may have any length that was allowed when the plan was made: at most ROUTE_EDGES_MAX.
        let options = IpOptions { route_edges_max: edges as u32, ..IpOptions::default() };
        feasible(&federation.topology, &admitted.request, view, &options, &plan).map_err(
            |why| {
                // The checker's sentences end with the equation that is violated, which is of no use to users.
                let why = why.split(" (Eq. ").next().unwrap_or_default().to_owned();
                let missing = picture.unreachable.iter().map(ToString::to_string);
                let missing: Vec<String> = missing.collect();
                match missing.as_slice() {
                    [] => outdated(&why),
                    names => outdated(&format!("{why} ({} did not answer)", names.join(", "))),
                }
            },
        )?;
        Ok(at_once(candidate(federation, admitted, &plan, kept::co_allocation(&shown.plan).into())))
    }
}

/// The candidate, held everywhere at once. There is no next choice to search for, so holding in turn gains nothing.
fn at_once(candidate: Candidate) -> Candidate {
    Candidate { order: Vec::new(), ..candidate }
}
