//! Hops 2 to 4 of a reserve call, and every later attempt: what is admitted, asked, planned and tried until
//! there is an outcome, and what would do instead of what could not be had.
//!
//! Left out: the attempts themselves, which are the coordinator core's (`coalloc_protocol::coordinator`);
//! changes ([`crate::calls::modify`]) and tasks ([`crate::calls::tasks`]), which share [`GrcService::drive_replans`].

use std::sync::Arc;

use coalloc_common::{Refusal, RmName, TransactionId};
use coalloc_net::convert::{plan_options, plan_to_wire};
use coalloc_net::traces;
use coalloc_net::traces::Span as Traced;
use coalloc_plan::{Plan, learned};
use coalloc_proto::v1;
use coalloc_protocol::conversation::{PlanJob, Planned};
use coalloc_protocol::coordinator::{Candidate, Details};
use tokio::time::Instant;
use tonic::Status;

use crate::admission::{self, Admitted};
use crate::availability;
use crate::availability::federation::Snapshot;
use crate::calls::alternatives::AlternativeSearch;
use crate::calls::service::{GrcService, stands};
use crate::node::conversation::{JobPlanner, converse};
use crate::planning::{ExplainedFrames, PlanningOutcome};
use crate::views::kept;
use crate::views::view;

/// What planning gives a reserve call to try.
pub(crate) struct PlannedCandidates {
    /// RMs that were not asked, or did not answer.
    pub(crate) unreachable: Vec<RmName>,
    /// What can be made instead of an outdated plan.
    pub(crate) fresh: Vec<v1::Plan>,
    /// What to try.
    pub(crate) outcome: Candidates,
}

/// The candidates, best first, or why there are none.
pub(crate) type Candidates = Result<Vec<Candidate>, Refusal>;

impl GrcService {
    /// Hop 2: what is admitted, and the federation that it is planned on. That there is no such place is
    /// said only by descriptions that are younger than the request.
    pub(crate) async fn admitted(
        &self,
        request: Option<&v1::CoAllocationRequest>,
        options: Option<&v1::PlanOptions>,
    ) -> Result<(Arc<Snapshot>, Admitted), Status> {
        let federation = self.federation.settled().await;
        let _admission = traces::part("admission");
        let (asked, now) = (Instant::now(), self.handle.now().wall);
        let admitted = admission::read(request, options, self.defaults, now)?;
        let Err(unknown) = admission::check_places(&admitted, &federation) else {
            return Ok((federation, admitted));
        };
        if unknown.code() != tonic::Code::InvalidArgument {
            return Err(unknown);
        }
        let (fresh, _) = self.federation.younger_than(asked).await;
        admission::check_places(&admitted, &fresh)?;
        Ok((fresh, admitted))
    }

    /// Hops 3 and 4: ask, then plan, believing `refusals` of earlier attempts where they say less, and
    /// explain as many refused frames as will be read of. What would be refused for good is planned again when
    /// descriptions that are younger than the planning say something else; `federation` is theirs then.
    pub(crate) async fn plan_admitted(
        &self,
        federation: &mut Arc<Snapshot>,
        admitted: &Admitted,
        replaces: Option<&TransactionId>,
        refusals: &[Refusal],
        explained: ExplainedFrames,
    ) -> Result<PlanningOutcome, Status> {
        let asked = Instant::now();
        let planned = self.plan_once(federation, admitted, replaces, refusals, explained).await?;
        if !planned.is_for_good() {
            return Ok(planned);
        }
        let (fresh, silent) = self.federation.younger_than(asked).await;
        let mut planned = if Arc::ptr_eq(&fresh, federation) {
            planned
        } else {
            *federation = fresh;
            self.plan_once(federation, admitted, replaces, refusals, explained).await?
        };
        // What an RM has that is silent now may be what is missing.
        planned.unreachable.extend(silent);
        planned.unreachable.sort();
        planned.unreachable.dedup();
        Ok(planned)
    }

    /// Asks and plans on what is known of the federation.
    async fn plan_once(
        &self,
        federation: &Arc<Snapshot>,
        admitted: &Admitted,
        replaces: Option<&TransactionId>,
        refusals: &[Refusal],
        explained: ExplainedFrames,
    ) -> Result<PlanningOutcome, Status> {
        let frames = admitted.request.timing.frames(admitted.options.frames);
        let (frames, mut outside) =
            availability::bookable(federation, frames, self.handle.now().wall);
        let user = &admitted.user;
        let mut picture =
            availability::query(&self.federation, federation, &frames, user, replaces).await;
        let (request, options) = (admitted.request.clone(), admitted.options);
        let believed = learned::believed(options.solver);
        for view in &mut picture.views {
            learned::believe(&federation.topology, refusals, believed, view);
        }
        let mut planned = self
            .planners
            .of(user)
            .plan(Arc::clone(federation), request, options, picture, explained)
            .await?;
        planned.refused.append(&mut outside);
        planned.refused.sort_by_key(|(window, _)| window.start());
        Ok(planned)
    }

    /// The whole way of one reserve call, from hop 2 to its outcome.
    pub(crate) async fn reserve_whole(
        &self,
        wire: v1::ReserveRequest,
    ) -> Result<(v1::Reservation, Vec<v1::Plan>), Status> {
        let ticket = admission::ticket(&wire, &self.own_ids())?;
        let id = ticket.request.clone();
        Traced::current().set("coalloc.request", &id);
        let _followed = traces::follow(&id);
        let mut planner = RequestPlanner { service: self, wire: &wire, fresh: Vec::new() };
        let end = converse(&self.handle, &self.pauses, ticket, &mut planner).await?;
        Ok((self.shown(&*stands(end, id.as_str())?), planner.fresh))
    }

    /// Hops 2 to 4 of a reserve call: what to try, best first, or why there is nothing.
    async fn candidates(
        &self,
        wire: &v1::ReserveRequest,
        refusals: &[Refusal],
    ) -> Result<PlannedCandidates, Status> {
        let (request, options) = (wire.request.as_ref(), wire.options.as_ref());
        let (mut federation, admitted) = self.admitted(request, options).await?;
        if !wire.plan_digest.is_empty() {
            return self.candidate_of_digest(wire, &federation, &admitted).await;
        }
        let planned = self
            .plan_admitted(&mut federation, &admitted, None, refusals, ExplainedFrames::Closest)
            .await?;
        tracing::info!(
            request = wire.request_id,
            user = %admitted.user,
            plans = planned.plans.len(),
            frames_refused = planned.refused.len(),
            "planned"
        );
        if planned.plans.is_empty() {
            let outcome = Err(planned.refusal());
            return Ok(PlannedCandidates {
                unreachable: planned.unreachable,
                fresh: Vec::new(),
                outcome,
            });
        }
        let (snapshot, shared) = (Arc::clone(&federation), Arc::new(admitted.request.clone()));
        let candidates = planned.plans.into_iter().map(|judged| {
            let plan = judged.plan.clone();
            let (federation, request) = (Arc::clone(&federation), Arc::clone(&shared));
            let write =
                move || kept::co_allocation(&plan_to_wire(&federation.topology, &request, &judged));
            candidate(&snapshot, &admitted, &plan, Details::later(write))
        });
        let outcome = Ok(candidates.collect());
        Ok(PlannedCandidates { unreachable: planned.unreachable, fresh: Vec::new(), outcome })
    }

    /// What would do instead of a request that nothing could be planned for.
    pub(crate) async fn alternatives(
        &self,
        federation: &Arc<Snapshot>,
        wire: &v1::CoAllocationRequest,
        admitted: &Admitted,
        planned: &mut PlanningOutcome,
    ) -> Option<v1::Alternatives> {
        let (snapshot, planners) = (federation, &self.planners.of(&admitted.user));
        let host = self.handle.host();
        let seeker = AlternativeSearch { host, federation: &self.federation, snapshot, planners };
        match seeker.seek(wire, admitted, planned).await {
            Ok(found) => Some(found),
            // The refusal is the answer; a planner without time for more does not change that.
            Err(error) => {
                tracing::info!(%error, "no alternatives were sought");
                None
            }
        }
    }

    /// What would do instead of a reservation that failed, planned anew once the protocol is done.
    pub(crate) async fn alternatives_to(
        &self,
        wire: &v1::ReserveRequest,
    ) -> Option<v1::Alternatives> {
        let mut federation = self.federation.snapshot();
        let (request, options) = (wire.request.as_ref()?, wire.options.as_ref());
        let now = self.handle.now().wall;
        let admitted = admission::admit(Some(request), options, self.defaults, &federation, now);
        let admitted = admitted.ok()?;
        let planned =
            self.plan_admitted(&mut federation, &admitted, None, &[], ExplainedFrames::Closest);
        let mut planned = planned.await.ok()?;
        if !planned.plans.is_empty() {
            return None;
        }
        self.alternatives(&federation, request, &admitted, &mut planned).await
    }
}

/// Plans a reserve call.
struct RequestPlanner<'a> {
    service: &'a GrcService,
    wire: &'a v1::ReserveRequest,
    /// What can be made instead of an outdated plan, of the last planning.
    fresh: Vec<v1::Plan>,
}

impl JobPlanner for RequestPlanner<'_> {
    async fn plan(&mut self, job: &PlanJob) -> Result<Planned, Status> {
        let (service, wire) = (self.service, self.wire);
        let tried = service.candidates(wire, &job.refusals).await?;
        self.fresh = tried.fresh;
        let (request, options) = (wire.request.as_ref(), wire.options.as_ref());
        let notes = view::notes(&tried.unreachable, request, options);
        Ok(Planned { outcome: tried.outcome, replans: None, notes })
    }

    /// The next choice of a search that backtracks is another one; a chosen plan stays the same.
    fn backs_off(&self) -> bool {
        let options = plan_options(self.wire.options.as_ref(), self.service.defaults);
        let solver = options.unwrap_or(self.service.defaults).solver;
        !self.wire.plan_digest.is_empty() || !solver.reserves_as_it_searches()
    }
}

/// A plan as a reserve call tries it.
pub(crate) fn candidate(
    federation: &Snapshot,
    Admitted { request, options, .. }: &Admitted,
    plan: &Plan,
    details: Details,
) -> Candidate {
    Candidate {
        segments: plan.segments(&federation.topology, request),
        order: options.solver.hold_order(&federation.topology, request, plan),
        details,
        one_way: false,
    }
}
