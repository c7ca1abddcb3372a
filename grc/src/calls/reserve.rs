//! Hops 2 to 4 of a reserve call and of each of its attempts: admission, queries and planning until there is an
//! outcome, and alternatives to a request that is refused.
//!
//! Left out: the attempts themselves, which the coordinator core makes (`coalloc_protocol::coordinator`); changes
//! ([`crate::calls::modify`]) and tasks ([`crate::calls::tasks`]), which share [`crate::node::conversation`].

use std::sync::Arc;

use coalloc_common::{Refusal, RmName};
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
use crate::availability::Replaced;
use crate::availability::federation::Snapshot;
use crate::calls::alternatives::AlternativeSearch;
use crate::calls::service::{GrcService, stands};
use crate::node::conversation::{JobPlanner, converse};
use crate::planning::{ExplainedFrames, PlanningOutcome};
use crate::views::kept;
use crate::views::view;

/// The candidates that planning gives to a reserve call.
pub(crate) struct PlannedCandidates {
    /// The RMs that were not asked or did not answer.
    pub(crate) unreachable: Vec<RmName>,
    /// Plans that could be reserved instead of an outdated one.
    pub(crate) fresh: Vec<v1::Plan>,
    /// The candidates to try.
    pub(crate) outcome: Candidates,
}

/// The candidates, best first, or why there are none.
pub(crate) type Candidates = Result<Vec<Candidate>, Refusal>;

impl GrcService {
    /// Hop 2: admits a request, and returns the federation that it is planned on. A place is reported as unknown only
    /// on descriptions that were asked for after the request came.
    pub(crate) async fn admitted(
        &self,
        request: Option<&v1::CoAllocationRequest>,
        options: Option<&v1::PlanOptions>,
    ) -> Result<(Arc<Snapshot>, Admitted), Status> {
        let now = self.handle.now().wall;
        let admitted = admission::read(request, options, self.defaults, now)?;
        let check = |federation: &Snapshot| admission::check_places(&admitted, federation);
        let (federation, ()) = self.settled_on(check).await?;
        Ok((federation, admitted))
    }

    /// The federation on which a call is planned, and what `check` makes of it. If the check finds a mistake, it is
    /// made again on descriptions that were asked for after the call came.
    pub(crate) async fn settled_on<T>(
        &self,
        check: impl Fn(&Snapshot) -> Result<T, Status>,
    ) -> Result<(Arc<Snapshot>, T), Status> {
        let federation = self.federation.settled().await;
        let _admission = traces::part("admission");
        let asked = Instant::now();
        match check(&federation) {
            Err(mistake) if mistake.code() == tonic::Code::InvalidArgument => {
                let (fresh, _) = self.federation.younger_than(asked).await;
                check(&fresh).map(|checked| (fresh, checked))
            }
            checked => checked.map(|checked| (federation, checked)),
        }
    }

    /// Hops 3 and 4: queries the RMs, then plans. Where the `refusals` of earlier attempts leave less than the RMs
    /// report as free, the refusals count. `explained` says which refused frames are explained. Before a request is
    /// refused for good, all RMs are asked for their descriptions again. If those differ, `federation` is set to the
    /// new ones, and the request is planned once more.
    pub(crate) async fn plan_admitted(
        &self,
        federation: &mut Arc<Snapshot>,
        admitted: &Admitted,
        replaces: Replaced<'_>,
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
        // What is missing may belong to an RM that does not answer now.
        planned.unreachable.extend(silent);
        planned.unreachable.sort();
        planned.unreachable.dedup();
        Ok(planned)
    }

    /// Queries the RMs and plans once, on the federation as it is known.
    async fn plan_once(
        &self,
        federation: &Arc<Snapshot>,
        admitted: &Admitted,
        replaces: Replaced<'_>,
        refusals: &[Refusal],
        explained: ExplainedFrames,
    ) -> Result<PlanningOutcome, Status> {
        let frames = admitted.request.timing.frames(admitted.options.frames);
        let (frames, mut outside) =
            availability::bookable(federation, frames, self.handle.now().wall);
        let user = &admitted.user;
        let (rms, request) = (&self.federation, &admitted.request);
        let mut picture =
            availability::query_for(rms, federation, request, &frames, user, replaces).await;
        let (request, options) = (request.clone(), admitted.options);
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

    /// Handles one reserve call from hop 2 to its outcome: the reservation, and fresh plans if the chosen plan is
    /// outdated.
    pub(crate) async fn reserve_whole(
        &self,
        wire: v1::ReserveRequest,
    ) -> Result<(v1::Reservation, Vec<v1::Plan>), Status> {
        let ticket = admission::ticket(&wire, &self.own_ids())?;
        let id = ticket.request.clone();
        Traced::current().set("coalloc.request", &id);
        let _followed = traces::follow(&id);
        let mut planner = RequestPlanner { service: self, wire: &wire, fresh: Vec::new() };
        let end = converse(self.conversation(), ticket, &mut planner).await?;
        Ok((self.shown(&*stands(end, id.as_str())?), planner.fresh))
    }

    /// Hops 2 to 4 of a reserve call: the candidates, best first, or why there are none.
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
            .plan_admitted(
                &mut federation,
                &admitted,
                Replaced::default(),
                refusals,
                ExplainedFrames::Closest,
            )
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

    /// Alternatives to a request that has no plan.
    pub(crate) async fn alternatives(
        &self,
        federation: &Arc<Snapshot>,
        wire: &v1::CoAllocationRequest,
        admitted: &Admitted,
        replaces: Replaced<'_>,
        planned: &mut PlanningOutcome,
    ) -> Option<v1::Alternatives> {
        let (snapshot, planners) = (federation, &self.planners.of(&admitted.user));
        let host = self.handle.host();
        let federation = &self.federation;
        let seeker = AlternativeSearch { host, federation, snapshot, planners, replaces };
        match seeker.seek(wire, admitted, planned).await {
            Ok(found) => Some(found),
            // The answer is the refusal. It does not change if no planner has time for alternatives.
            Err(error) => {
                tracing::info!(%error, "no alternatives were sought");
                None
            }
        }
    }

    /// Alternatives to a reservation that failed. The request is planned anew, after the protocol has ended.
    pub(crate) async fn alternatives_to(
        &self,
        wire: &v1::ReserveRequest,
    ) -> Option<v1::Alternatives> {
        let mut federation = self.federation.snapshot();
        let (request, options) = (wire.request.as_ref()?, wire.options.as_ref());
        let now = self.handle.now().wall;
        let admitted = admission::admit(Some(request), options, self.defaults, &federation, now);
        let admitted = admitted.ok()?;
        let planned = self.plan_admitted(
            &mut federation,
            &admitted,
            Replaced::default(),
            &[],
            ExplainedFrames::Closest,
        );
        let mut planned = planned.await.ok()?;
        if !planned.plans.is_empty() {
            return None;
        }
        self.alternatives(&federation, request, &admitted, Replaced::default(), &mut planned).await
    }
}

/// Plans a reserve call.
struct RequestPlanner<'a> {
    service: &'a GrcService,
    wire: &'a v1::ReserveRequest,
    /// Plans that could be reserved instead of an outdated one, from the last planning.
    fresh: Vec<v1::Plan>,
}

impl JobPlanner for RequestPlanner<'_> {
    async fn plan(&mut self, job: &PlanJob) -> Result<Planned, Status> {
        let (service, wire) = (self.service, self.wire);
        let tried = service.candidates(wire, &job.refusals).await?;
        self.fresh = tried.fresh;
        let (request, options) = (wire.request.as_ref(), wire.options.as_ref());
        let notes = view::notes(&tried.unreachable, request, options);
        let manual_provision = request.is_some_and(v1::CoAllocationRequest::manual_provision);
        let provisioned = |candidate| Candidate { manual_provision, ..candidate };
        let outcome = tried.outcome.map(|all| all.into_iter().map(provisioned).collect());
        Ok(Planned { outcome, replans: None, notes })
    }

    /// A search that backtracks takes another choice next, so it needs no backoff; a chosen plan stays the same.
    fn backs_off(&self) -> bool {
        let options = plan_options(self.wire.options.as_ref(), self.service.defaults);
        let solver = options.unwrap_or(self.service.defaults).solver;
        !self.wire.plan_digest.is_empty() || !solver.reserves_as_it_searches()
    }
}

/// A plan as the candidate of a reserve call.
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
        ..Candidate::default()
    }
}
