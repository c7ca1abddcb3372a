//! Hop 1: the Coordinator and Resolver services. A reserve call runs in a task of its own: the caller
//! waits for it, and a caller that goes away does not stop it.
//!
//! A few lines over 600: one request read from its arrival to its outcome, and the calls beside it.

use std::collections::BTreeSet;
use std::sync::Arc;

use coalloc_common::invalid::check_range;
use coalloc_common::{
    InvalidField, Reason, Refusal, RequestId, ReservationId, RmName, TransactionId, limits,
};
use coalloc_net::convert::{
    RequestOptions, plan_options, plan_to_wire, refusal_to_wire, user_name, window_to_wire,
};
use coalloc_net::traces::Span as Traced;
use coalloc_net::watch::Watch;
use coalloc_net::{metrics, status, traces};
use coalloc_plan::Plan;
use coalloc_proto::v1;
use coalloc_proto::v1::coordinator_server::Coordinator as CoordinatorRpc;
use coalloc_proto::v1::resolver_server::Resolver;
use coalloc_protocol::coordinator::{Candidate, Coordinator, CoordinatorInput, Details, Reply};
use coalloc_protocol::message::{Decision, Resolution};
use prost::Message as _;
use tokio::sync::oneshot;
use tonic::{Request, Response, Status};

use crate::admission::{self, Admitted};
use crate::alternatives::{self, Seeker};
use crate::events::ReservationEvents;
use crate::federation::{Federation, Snapshot};
use crate::pauses::Pauses;
use crate::planning::{Explained, Planned, Planners};
use crate::shell::Handle;
use crate::shown::Shown;
use crate::tasks::Pictures;
use crate::{learned, picture, shell, tasks, view};

/// The handlers.
#[derive(Debug, Clone)]
pub struct GrcService {
    /// The coordinator's name.
    pub name: String,
    /// Identity of its ledger.
    pub ledger_id: String,
    /// How plans are searched when the request does not say.
    pub defaults: RequestOptions,
    /// The RMs.
    pub federation: Federation,
    /// The planners' threads.
    pub planners: Planners,
    /// The coordinator core.
    pub handle: Handle,
    /// The plans it has shown.
    pub shown: Shown,
    /// How long to wait before planning again.
    pub pauses: Arc<Pauses>,
    /// What it believes of profiles, and how it plans tasks.
    pub pictures: Pictures,
}

/// What planning gives a reserve call to try.
pub(crate) struct Tried {
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
    /// Hops 3 and 4: ask, then plan, believing `refusals` of earlier attempts where they say less, and
    /// explain as many refused frames as will be read of.
    pub(crate) async fn plan_admitted(
        &self,
        federation: &Arc<Snapshot>,
        admitted: &Admitted,
        replaces: Option<&TransactionId>,
        refusals: &[Refusal],
        explained: Explained,
    ) -> Result<Planned, Status> {
        let frames = admitted.request.timing.frames(admitted.options.frames);
        let (frames, mut outside) = picture::bookable(federation, frames, self.handle.now().wall);
        let user = &admitted.user;
        let mut picture =
            picture::query(&self.federation, federation, &frames, user, replaces).await;
        let (request, options) = (admitted.request.clone(), admitted.options);
        let believed = learned::believed(options.solver);
        for view in &mut picture.views {
            learned::believe(&federation.topology, refusals, believed, view);
        }
        let mut planned = self
            .planners
            .plan(Arc::clone(federation), request, options, picture, explained)
            .await?;
        planned.refused.append(&mut outside);
        planned.refused.sort_by_key(|(window, _)| window.start());
        Ok(planned)
    }

    /// The whole way of one reserve call, from hop 2 to its outcome.
    async fn reserve_whole(
        &self,
        wire: v1::ReserveRequest,
    ) -> Result<(v1::Reservation, Vec<v1::Plan>), Status> {
        let ticket = admission::ticket(&wire, &self.own_ids())?;
        let id = ticket.request.clone();
        Traced::current().set("coalloc.request", &id);
        let _followed = traces::follow(&id);
        let opened = self.handle.call(|token| CoordinatorInput::Open { ticket, token }).await?;
        if opened != Reply::Plan {
            // It is known, or another call plans it and this one has waited for that.
            return Ok((self.stands(opened, id.as_str())?, Vec::new()));
        }
        // From here the request counts as being planned; whatever ends the planning must say so.
        let (answer, fresh) = match self.plan_and_reserve(&wire, &id).await {
            Ok(answer) => answer,
            Err(status) => {
                self.insist(|| CoordinatorInput::Forget { request: id.clone() }).await;
                return Err(status);
            }
        };
        let plan_again = |reservation: ReservationId| async {
            let refused = move |coordinator: &Coordinator| {
                coordinator.find(reservation.as_str()).map(|found| found.attempt_refusals.clone())
            };
            // A node that is stopping says nothing more; planning on what the RMs say does no harm.
            let refusals = self.handle.read(refused).await.ok().flatten().unwrap_or_default();
            let tried = self.candidates(&wire, &refusals).await?;
            Ok((tried.outcome, tried.fresh))
        };
        // The next choice of a search that backtracks is another one; a chosen plan stays the same.
        let chosen = !wire.plan_digest.is_empty();
        let pausing =
            chosen || !self.options(wire.options.as_ref()).solver.reserves_as_it_searches();
        let (reply, fresh) = self.followed(answer, fresh, pausing, plan_again).await?;
        Ok((self.stands(reply, id.as_str())?, fresh))
    }

    /// Follows what was posted to its outcome; whenever others were faster at every plan, plans again on
    /// what is free then, and says what came of that in any case. `told` is what the planning had to tell
    /// besides; what the last one tells is given back. `pausing`: whoever wants the same again waits a
    /// while first.
    pub(crate) async fn followed<T, F>(
        &self,
        mut answer: oneshot::Receiver<Reply>,
        mut told: T,
        pausing: bool,
        plan: impl Fn(ReservationId) -> F,
    ) -> Result<(Reply, T), Status>
    where
        F: Future<Output = Result<(Candidates, T), Status>>,
    {
        let mut replans = 0;
        loop {
            let reservation = match answer.await.map_err(|_| status::stopping())? {
                Reply::Replan(reservation) => reservation,
                reply => return Ok((reply, told)),
            };
            replans += 1;
            if pausing {
                self.pauses.wait(replans).await;
            }
            tracing::info!(%reservation, "refused; planning again");
            metrics::grc().replans.inc();
            let outcome = loop {
                match plan(reservation.clone()).await {
                    Ok((outcome, tells)) => {
                        told = tells;
                        break outcome;
                    }
                    // Busy is no reason to refuse what is half way through.
                    Err(status) if status.code() == tonic::Code::ResourceExhausted => {
                        tokio::time::sleep(limits::BUSY_PAUSE.to_std()).await;
                    }
                    Err(status) => break Err(planning_failed(&status)),
                }
            };
            answer = self.replanned(reservation, outcome).await?;
        }
    }

    async fn plan_and_reserve(
        &self,
        wire: &v1::ReserveRequest,
        id: &RequestId,
    ) -> Result<(oneshot::Receiver<Reply>, Vec<v1::Plan>), Status> {
        let Tried { unreachable, fresh, outcome } = self.candidates(wire, &[]).await?;
        let notes = view::notes(&unreachable, wire.request.as_ref(), wire.options.as_ref());
        let request = id.clone();
        let posted = self.handle.post(|token| match outcome {
            Ok(candidates) => {
                CoordinatorInput::Reserve { request, candidates, replans: None, notes, token }
            }
            Err(refusal) => CoordinatorInput::Refuse { request, refusal, notes, token },
        });
        Ok((posted?, fresh))
    }

    /// How plans are searched for a request that was admitted.
    fn options(&self, wire: Option<&v1::PlanOptions>) -> RequestOptions {
        plan_options(wire, self.defaults).unwrap_or(self.defaults)
    }

    /// Says what planning again has come to.
    pub(crate) async fn replanned(
        &self,
        reservation: ReservationId,
        outcome: Candidates,
    ) -> Result<oneshot::Receiver<Reply>, Status> {
        loop {
            let (reservation, outcome) = (reservation.clone(), outcome.clone());
            let input = |token| CoordinatorInput::Replanned { reservation, outcome, token };
            match self.handle.post(input) {
                Err(status) if status.code() == tonic::Code::ResourceExhausted => {
                    tokio::time::sleep(limits::BUSY_PAUSE.to_std()).await;
                }
                posted => return posted,
            }
        }
    }

    /// Posts what must arrive unless the node is stopping.
    pub(crate) async fn insist(&self, input: impl Fn() -> CoordinatorInput) {
        while !self.handle.tell(input()) && !self.handle.is_stopping() {
            tokio::time::sleep(limits::BUSY_PAUSE.to_std()).await;
        }
    }

    /// Hops 2 to 4 of a reserve call: what to try, best first, or why there is nothing.
    async fn candidates(
        &self,
        wire: &v1::ReserveRequest,
        refusals: &[Refusal],
    ) -> Result<Tried, Status> {
        let federation = self.federation.settled().await;
        let (request, options) = (wire.request.as_ref(), wire.options.as_ref());
        let admission = traces::part("admission");
        let now = self.handle.now().wall;
        let admitted = admission::admit(request, options, self.defaults, &federation, now)?;
        drop(admission);
        if !wire.plan_digest.is_empty() {
            return self.candidate_of_digest(wire, &federation, &admitted).await;
        }
        let planned =
            self.plan_admitted(&federation, &admitted, None, refusals, Explained::Closest).await?;
        tracing::info!(
            request = wire.request_id,
            user = %admitted.user,
            plans = planned.plans.len(),
            frames_refused = planned.refused.len(),
            "planned"
        );
        if planned.plans.is_empty() {
            let outcome = Err(planned.refusal());
            return Ok(Tried { unreachable: planned.unreachable, fresh: Vec::new(), outcome });
        }
        let (snapshot, shared) = (Arc::clone(&federation), Arc::new(admitted.request.clone()));
        let candidates = planned.plans.into_iter().map(|judged| {
            let plan = judged.plan.clone();
            let (federation, request) = (Arc::clone(&federation), Arc::clone(&shared));
            let write =
                move || view::details(&plan_to_wire(&federation.topology, &request, &judged));
            candidate(&snapshot, &admitted, &plan, Details::later(write))
        });
        let outcome = Ok(candidates.collect());
        Ok(Tried { unreachable: planned.unreachable, fresh: Vec::new(), outcome })
    }

    /// What would do instead of a request that nothing could be planned for.
    async fn alternatives(
        &self,
        federation: &Arc<Snapshot>,
        wire: &v1::CoAllocationRequest,
        admitted: &Admitted,
        planned: &mut Planned,
    ) -> Option<v1::Alternatives> {
        let (snapshot, planners) = (federation, &self.planners);
        let host = self.handle.host();
        let seeker = Seeker { host, federation: &self.federation, snapshot, planners };
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
    async fn alternatives_to(&self, wire: &v1::ReserveRequest) -> Option<v1::Alternatives> {
        let federation = self.federation.snapshot();
        let (request, options) = (wire.request.as_ref()?, wire.options.as_ref());
        let now = self.handle.now().wall;
        let admitted = admission::admit(Some(request), options, self.defaults, &federation, now);
        let admitted = admitted.ok()?;
        let planned = self.plan_admitted(&federation, &admitted, None, &[], Explained::Closest);
        let mut planned = planned.await.ok()?;
        if !planned.plans.is_empty() {
            return None;
        }
        self.alternatives(&federation, request, &admitted, &mut planned).await
    }

    pub(crate) fn stands(&self, reply: Reply, id: &str) -> Result<v1::Reservation, Status> {
        match reply {
            Reply::Stands(reservation) => {
                let shown = view::reservation(&reservation, self.handle.now().wall);
                tracing::info!(
                    reservation = %reservation.id,
                    txn = shown.transaction,
                    state = ?reservation.state,
                    attempts = reservation.attempts,
                    "stands"
                );
                Ok(shown)
            }
            Reply::NoRoom => Err(status::disk_full("nothing was reserved")),
            Reply::OtherContent => Err(status::other_content("request", id)),
            Reply::Unknown => Err(status::not_found("reservation", id)),
            Reply::ChangeUnderWay(_)
            | Reply::NotConfirmed(_)
            | Reply::ChangesSpent
            | Reply::PlanChange
            | Reply::PlanUpper
            | Reply::Upper(_) => {
                Err(Status::internal("the coordinator answered another call than this one"))
            }
            Reply::Forgotten | Reply::Plan | Reply::Replan(_) | Reply::Resolution(_) => {
                Err(status::broken_off("the planning of this request"))
            }
        }
    }

    /// Where something stands that has no outcome yet.
    pub(crate) async fn still(&self, id: &str) -> Result<v1::Reservation, Status> {
        self.find(id).await?.ok_or_else(|| status::not_found("reservation", id))
    }

    /// A reservation by its id or its request's; a request that is being planned has no id yet.
    async fn find(&self, id: &str) -> Result<Option<v1::Reservation>, Status> {
        let id = id.to_owned();
        let now = self.handle.now();
        let look = move |coordinator: &Coordinator| match coordinator.find(&id) {
            Some(found) => Some(view::of(coordinator, found, now)),
            None => coordinator.planning(&id).map(view::planning),
        };
        self.handle.read(look).await
    }

    /// How the ids of this coordinator's reservations begin.
    pub(crate) fn own_ids(&self) -> String {
        format!("{}-{}-", self.name, shell::tag(&self.ledger_id))
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

/// Why planning again came to nothing, when that is not for want of anything.
pub(crate) fn planning_failed(status: &Status) -> Refusal {
    let reason = match status.code() {
        // What could be asked for when it was admitted cannot any more: time has passed.
        tonic::Code::InvalidArgument | tonic::Code::FailedPrecondition => Reason::OutsideHorizon,
        tonic::Code::Internal => Reason::BudgetExhausted,
        _ => Reason::Unreachable,
    };
    Refusal::new(reason, status.message())
}

/// Waits as long as a call may wait: `None` when it takes longer, and it goes on by itself.
async fn patient<T>(
    call: impl Future<Output = Result<T, Status>> + Send + 'static,
) -> Result<Option<T>, Status>
where
    T: Send + 'static,
{
    let task = tokio::spawn(Traced::current().carry(call));
    match tokio::time::timeout(limits::RESERVE_PATIENCE.to_std(), task).await {
        Ok(ended) => ended.map_err(|_| status::stopping())?.map(Some),
        Err(_) => Ok(None),
    }
}

#[tonic::async_trait]
impl CoordinatorRpc for GrcService {
    type WatchStream = Watch<v1::WatchResponse>;

    async fn submit_task(
        &self,
        request: Request<v1::SubmitTaskRequest>,
    ) -> Result<Response<v1::SubmitTaskResponse>, Status> {
        let service = self.clone();
        let wire = request.into_inner();
        let id = wire.request_id.clone();
        let task = match patient(async move { service.submit_whole(wire).await }).await? {
            Some(receipt) => receipt,
            None => self.task_still(&id).await?,
        };
        Ok(Response::new(v1::SubmitTaskResponse { task: Some(task) }))
    }

    async fn plan_task(
        &self,
        request: Request<v1::PlanTaskRequest>,
    ) -> Result<Response<v1::PlanTaskResponse>, Status> {
        let v1::PlanTaskRequest { task, options } = request.into_inner();
        let planned = self.plan_task_now(task.as_ref(), options.as_ref()).await?;
        Ok(Response::new(v1::PlanTaskResponse { answer: Some(planned.to_wire()) }))
    }

    async fn read_picture(
        &self,
        request: Request<v1::ReadPictureRequest>,
    ) -> Result<Response<v1::ReadPictureResponse>, Status> {
        let topology = &self.federation.snapshot().topology;
        let now = self.handle.now().wall;
        tasks::read::picture(&self.pictures, topology, &request.into_inner(), now)
            .map(Response::new)
    }

    async fn modify(
        &self,
        request: Request<v1::ModifyRequest>,
    ) -> Result<Response<v1::ModifyResponse>, Status> {
        let service = self.clone();
        let wire = request.into_inner();
        let id = wire.id.clone();
        let reservation = match patient(async move { service.modify_whole(wire).await }).await? {
            Some(reservation) => reservation,
            None => self.still(&id).await?,
        };
        Ok(Response::new(v1::ModifyResponse { reservation: Some(reservation) }))
    }

    async fn watch(
        &self,
        request: Request<v1::WatchRequest>,
    ) -> Result<Response<Self::WatchStream>, Status> {
        let v1::WatchRequest { resume_token, id, user } = request.into_inner();
        if !user.is_empty() {
            user_name("user", &user).map_err(|error| status::invalid(&error))?;
        }
        if !id.is_empty() && self.find(&id).await?.is_none() {
            return Err(status::not_found("reservation", &id));
        }
        let some = |text: String| Some(text).filter(|text| !text.is_empty());
        let events = ReservationEvents { id: some(id), user: some(user) };
        Ok(Response::new(self.handle.watch(&resume_token, events).await?))
    }

    async fn plan(
        &self,
        request: Request<v1::PlanRequest>,
    ) -> Result<Response<v1::PlanResponse>, Status> {
        let wire = request.into_inner();
        let federation = self.federation.settled().await;
        let (request, options) = (wire.request.as_ref(), wire.options.as_ref());
        let now = self.handle.now().wall;
        let admitted = admission::admit(request, options, self.defaults, &federation, now)?;
        let planned = self.plan_admitted(&federation, &admitted, None, &[], Explained::All);
        let mut planned = planned.await?;
        let alternatives = match &wire.request {
            Some(request) if planned.plans.is_empty() && alternatives::wanted(options, true) => {
                self.alternatives(&federation, request, &admitted, &mut planned).await
            }
            _ => None,
        };
        let plan = |plan| plan_to_wire(&federation.topology, &admitted.request, plan);
        let refused = planned.refused.iter().map(|(window, refusal)| v1::RefusedFrame {
            window: Some(window_to_wire(*window)),
            refusal: Some(refusal_to_wire(&planned.blame(refusal.clone()))),
        });
        let plans: Vec<v1::Plan> = planned.plans.iter().map(plan).collect();
        self.shown.remember(&admission::request_digest(wire.request.as_ref()), &plans);
        Ok(Response::new(v1::PlanResponse {
            plans,
            refused: refused.collect(),
            unreachable: planned.unreachable.iter().map(ToString::to_string).collect(),
            alternatives,
        }))
    }

    async fn reserve(
        &self,
        request: Request<v1::ReserveRequest>,
    ) -> Result<Response<v1::ReserveResponse>, Status> {
        let service = self.clone();
        let wire = request.into_inner();
        let id = wire.request_id.clone();
        let whole = async move {
            let (mut reservation, fresh) = service.reserve_whole(wire.clone()).await?;
            let failed = reservation.state() == v1::ReservationState::Failed;
            if failed && reservation.definite && alternatives::wanted(wire.options.as_ref(), false)
            {
                reservation.alternatives = service.alternatives_to(&wire).await;
            }
            Ok((reservation, fresh))
        };
        let (reservation, fresh_plans) = match patient(whole).await? {
            Some(outcome) => outcome,
            None => (self.still(&id).await?, Vec::new()),
        };
        Ok(Response::new(v1::ReserveResponse { reservation: Some(reservation), fresh_plans }))
    }

    async fn get(
        &self,
        request: Request<v1::GetRequest>,
    ) -> Result<Response<v1::GetResponse>, Status> {
        let id = request.into_inner().id;
        let found = self.find(&id).await?;
        let reservation = found.ok_or_else(|| status::not_found("reservation", &id))?;
        Ok(Response::new(v1::GetResponse { reservation: Some(reservation) }))
    }

    async fn list(
        &self,
        request: Request<v1::ListRequest>,
    ) -> Result<Response<v1::ListResponse>, Status> {
        let wire = request.into_inner();
        let size = wire.page_size.unwrap_or(limits::PAGE_DEFAULT);
        let size = check_range("page_size", size, 1..=limits::PAGE_MAX, "entries")
            .map_err(|error| status::invalid(&error))?;
        let states: BTreeSet<i32> = wire.states.iter().copied().collect();
        let token = wire.page_token.clone();
        let now = self.handle.now();
        let look = move |coordinator: &Coordinator| {
            if !wire.page_token.is_empty() && coordinator.find(&wire.page_token).is_none() {
                return None;
            }
            let mut reservations = coordinator.reservations();
            if !wire.page_token.is_empty() {
                reservations.by_ref().find(|r| r.id.as_str() == wire.page_token);
            }
            let mut wanted = reservations
                .filter(|r| wire.user.is_empty() || r.ticket.user.as_str() == wire.user)
                .filter(|r| {
                    states.is_empty() || view::states(r).any(|state| states.contains(&state))
                })
                .map(|r| view::of(coordinator, r, now))
                .filter(|shown| states.is_empty() || states.contains(&shown.state))
                .peekable();
            let (mut page, mut bytes) = (Vec::new(), 0);
            while page.len() < size as usize
                && bytes < limits::PAGE_BYTES
                && let Some(shown) = wanted.next()
            {
                bytes += shown.encoded_len();
                page.push(shown);
            }
            let last = page.last().filter(|_| wanted.peek().is_some());
            let next_page_token = last.map(|r: &v1::Reservation| r.id.clone()).unwrap_or_default();
            Some(v1::ListResponse { reservations: page, next_page_token })
        };
        let page = self.handle.read(look).await?;
        let bad =
            || InvalidField::new("page_token", InvalidField::quoted(&token), "a token of a page");
        Ok(Response::new(page.ok_or_else(|| status::invalid(&bad()))?))
    }

    async fn release(
        &self,
        request: Request<v1::ReleaseReservationRequest>,
    ) -> Result<Response<v1::ReleaseReservationResponse>, Status> {
        let v1::ReleaseReservationRequest { id, user } = request.into_inner();
        let found = self.find(&id).await?.ok_or_else(|| status::not_found("reservation", &id))?;
        if !user.is_empty() && user != found.user {
            return Err(status::denied(format!("{id} is not a reservation of user {user}")));
        }
        if found.id.is_empty() {
            let text = "it is still being planned, so there is nothing to release yet; ask again";
            return Err(status::not_now("request", &id, text));
        }
        let reservation = ReservationId::composed(found.id);
        let asked = reservation.clone();
        let above = move |core: &Coordinator| {
            core.find(asked.as_str()).is_some_and(|known| known.upper.is_some())
        };
        if self.handle.read(above).await? {
            let text = "it belongs to a coordinator above; only that one may release it";
            return Err(status::denied(text));
        }
        let (service, shown) = (self.clone(), id.clone());
        Traced::current().set("coalloc.reservation", &reservation);
        let release = async move {
            let _followed = traces::follow_reservation(&reservation);
            let input = |token| CoordinatorInput::Release { reservation, token };
            service.stands(service.handle.call(input).await?, &shown)
        };
        let reservation = match patient(release).await? {
            Some(reservation) => Some(reservation),
            None => Some(self.still(&id).await?),
        };
        Ok(Response::new(v1::ReleaseReservationResponse { reservation }))
    }

    async fn describe_federation(
        &self,
        _: Request<v1::DescribeFederationRequest>,
    ) -> Result<Response<v1::DescribeFederationResponse>, Status> {
        let snapshot = self.federation.snapshot();
        let vertices = snapshot.topology.vertices().iter();
        let exchange_points = vertices.filter(|vertex| vertex.compute.is_none());
        Ok(Response::new(v1::DescribeFederationResponse {
            coordinator: self.name.clone(),
            resource_managers: self.federation.statuses(),
            exchange_points: exchange_points.map(|vertex| vertex.name.to_string()).collect(),
            ledger_id: self.ledger_id.clone(),
        }))
    }
}

#[tonic::async_trait]
impl Resolver for GrcService {
    async fn resolve(
        &self,
        request: Request<v1::ResolveRequest>,
    ) -> Result<Response<v1::ResolveResponse>, Status> {
        let v1::ResolveRequest { transaction, resource_manager } = request.into_inner();
        let txn = TransactionId::parse("transaction", &transaction);
        let rm = RmName::parse("resource_manager", &resource_manager);
        let (txn, rm) = match (txn, rm) {
            (Ok(txn), Ok(rm)) => (txn, rm),
            (Err(error), _) | (_, Err(error)) => return Err(status::invalid(&error)),
        };
        tracing::info!(%txn, %rm, "asked what became of a transaction");
        let answer = self.handle.post(|token| CoordinatorInput::Resolve { txn, rm, token })?;
        let decision = match answer.await {
            Ok(Reply::Resolution(Resolution::Decided(Decision::Commit))) => v1::Decision::Commit,
            Ok(Reply::Resolution(Resolution::Decided(Decision::Abort))) => v1::Decision::Abort,
            Ok(Reply::Resolution(Resolution::Lost)) => {
                let text = "no answer yet: the coordinator above decides";
                return Err(Status::unavailable(text));
            }
            Ok(_) => return Err(status::not_found("transaction", &transaction)),
            Err(_) => return Err(status::stopping()),
        };
        Ok(Response::new(v1::ResolveResponse { decision: decision.into() }))
    }
}
