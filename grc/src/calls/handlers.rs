//! The Coordinator and Resolver services of gRPC. A handler checks its message and passes it to the module of its call.
//!
//! Left out: what a call does until its outcome, see the other modules of [`crate::calls`].

use coalloc_common::{ReservationId, RmName, TransactionId};
use coalloc_net::authorization::Caller;
use coalloc_net::convert::{plan_to_wire, refusal_to_wire, user_name, window_to_wire};
use coalloc_net::traces::Span as Traced;
use coalloc_net::watch::Watch;
use coalloc_net::{needs, status, traces};
use coalloc_proto::v1;
use coalloc_proto::v1::coordinator_server::Coordinator as CoordinatorRpc;
use coalloc_proto::v1::resolver_server::Resolver;
use coalloc_protocol::conversation::ReleaseReply;
use coalloc_protocol::coordinator::{Coordinator, CoordinatorInput};
use coalloc_protocol::message::{Decision, Resolution};
use tonic::{Request, Response, Status};

use super::provision::ProvisionCall;
use super::service::{CallSubject, GrcService, patient};
use super::{alternatives, giving_up};
use crate::admission;
use crate::availability::Replaced;
use crate::pictures::read;
use crate::planning::ExplainedFrames;
use crate::views::events::ReservationEvents;
use crate::views::listing;

#[tonic::async_trait]
impl CoordinatorRpc for GrcService {
    type WatchStream = Watch<v1::WatchResponse>;

    async fn submit_task(
        &self,
        request: Request<v1::SubmitTaskRequest>,
    ) -> Result<Response<v1::SubmitTaskResponse>, Status> {
        let caller = Caller::of_request(&request)?;
        let service = self.for_caller(&caller);
        let mut wire = request.into_inner();
        if let Some(task) = &mut wire.task {
            caller.acts_for("task.user", &mut task.user)?;
        }
        let id = wire.request_id.clone();
        let about = CallSubject("request", &id);
        let task = match patient(about, async move { service.submit_whole(wire).await }).await? {
            Some(receipt) => receipt,
            None => {
                self.check_sees(&caller, "request", &id).await?;
                about.still(self.task_still(&id).await)?
            }
        };
        Ok(Response::new(v1::SubmitTaskResponse { task: Some(task) }))
    }

    async fn plan_task(
        &self,
        request: Request<v1::PlanTaskRequest>,
    ) -> Result<Response<v1::PlanTaskResponse>, Status> {
        let caller = Caller::of_request(&request)?;
        let v1::PlanTaskRequest { mut task, options } = request.into_inner();
        if let Some(task) = &mut task {
            caller.acts_for("task.user", &mut task.user)?;
        }
        let planned = self.plan_task_now(task.as_ref(), options.as_ref()).await?;
        Ok(Response::new(v1::PlanTaskResponse { answer: Some(planned.to_wire()) }))
    }

    async fn read_picture(
        &self,
        request: Request<v1::ReadPictureRequest>,
    ) -> Result<Response<v1::ReadPictureResponse>, Status> {
        let topology = &self.federation.snapshot().topology;
        let now = self.handle.now().wall;
        read::picture(&self.pictures, topology, &request.into_inner(), now).map(Response::new)
    }

    async fn modify(
        &self,
        request: Request<v1::ModifyRequest>,
    ) -> Result<Response<v1::ModifyResponse>, Status> {
        let caller = Caller::of_request(&request)?;
        let service = self.for_caller(&caller);
        let mut wire = request.into_inner();
        let id = wire.id.clone();
        self.check_sees(&caller, "reservation", &id).await?;
        if let Some(request) = &mut wire.request {
            caller.acts_for("request.user", &mut request.user)?;
        }
        let about = CallSubject("reservation", &id);
        let whole = async move {
            let mut reservation = service.modify_whole(wire.clone()).await?;
            let change = reservation.change.as_ref().map(v1::Change::state);
            let is_refused = change == Some(v1::ChangeState::Refused) && reservation.definite;
            if is_refused && alternatives::wanted(wire.options.as_ref(), false) {
                reservation.alternatives = service.alternatives_to_change(&wire).await;
            }
            Ok(reservation)
        };
        let reservation = match patient(about, whole).await? {
            Some(reservation) => reservation,
            None => about.still(self.still(&id).await)?,
        };
        Ok(Response::new(v1::ModifyResponse { reservation: Some(reservation) }))
    }

    async fn provision(
        &self,
        request: Request<v1::ProvisionRequest>,
    ) -> Result<Response<v1::ProvisionResponse>, Status> {
        let caller = Caller::of_request(&request)?;
        let v1::ProvisionRequest { id, change_id: change, user } = request.into_inner();
        let call = ProvisionCall { id, change, user, is_provisioned: true };
        let reservation = Some(self.provisioned(&caller, call).await?);
        Ok(Response::new(v1::ProvisionResponse { reservation }))
    }

    async fn deprovision(
        &self,
        request: Request<v1::DeprovisionRequest>,
    ) -> Result<Response<v1::DeprovisionResponse>, Status> {
        let caller = Caller::of_request(&request)?;
        let v1::DeprovisionRequest { id, change_id: change, user } = request.into_inner();
        let call = ProvisionCall { id, change, user, is_provisioned: false };
        let reservation = Some(self.provisioned(&caller, call).await?);
        Ok(Response::new(v1::DeprovisionResponse { reservation }))
    }

    async fn watch(
        &self,
        request: Request<v1::WatchRequest>,
    ) -> Result<Response<Self::WatchStream>, Status> {
        let caller = Caller::of_request(&request)?;
        let v1::WatchRequest { resume_token, id, mut user } = request.into_inner();
        let only = caller.only_user()?;
        if let Some(own) = only {
            if !user.is_empty() {
                caller.check_acts_for("user", &user)?;
            }
            user = own.to_string();
        }
        if !id.is_empty() {
            self.check_sees(&caller, "reservation", &id).await?;
        }
        if !user.is_empty() {
            user_name("user", &user).map_err(|error| status::invalid(&error))?;
        }
        if !id.is_empty() && self.find(&id).await?.is_none() {
            return Err(status::not_found("reservation", &id));
        }
        let some = |text: String| Some(text).filter(|text| !text.is_empty());
        let events = ReservationEvents { id: some(id), user: some(user), own: only.is_some() };
        Ok(Response::new(self.handle.watch(&caller, &resume_token, events).await?))
    }

    async fn plan(
        &self,
        request: Request<v1::PlanRequest>,
    ) -> Result<Response<v1::PlanResponse>, Status> {
        let caller = Caller::of_request(&request)?;
        let mut wire = request.into_inner();
        if let Some(request) = &mut wire.request {
            caller.acts_for("request.user", &mut request.user)?;
        }
        let (request, options) = (wire.request.as_ref(), wire.options.as_ref());
        let (mut federation, admitted) = self.admitted(request, options).await?;
        let (planners, _turn) = self.planners.of(&admitted.user).what_if().await?;
        let service = Self { planners, ..self.clone() };
        let planned = service.plan_admitted(
            &mut federation,
            &admitted,
            Replaced::default(),
            &[],
            ExplainedFrames::All,
        );
        let mut planned = planned.await?;
        let alternatives = match &wire.request {
            Some(request) if planned.plans.is_empty() && alternatives::wanted(options, true) => {
                let nothing = Replaced::default();
                service.alternatives(&federation, request, &admitted, nothing, &mut planned).await
            }
            _ => None,
        };
        let plan = |plan| plan_to_wire(&federation.topology, &admitted.request, plan);
        let refused = planned.refused.iter().map(|(window, refusal)| v1::RefusedFrame {
            window: Some(window_to_wire(*window)),
            refusal: Some(refusal_to_wire(&planned.blame(refusal.clone()))),
        });
        let plans: Vec<v1::Plan> = planned.plans.iter().map(plan).collect();
        self.plans.remember(&admission::request_digest(wire.request.as_ref()), &plans);
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
        let caller = Caller::of_request(&request)?;
        let service = self.for_caller(&caller);
        let mut wire = request.into_inner();
        if let Some(request) = &mut wire.request {
            caller.acts_for("request.user", &mut request.user)?;
        }
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
        let about = CallSubject("request", &id);
        let (reservation, fresh_plans) = match patient(about, whole).await? {
            Some(outcome) => outcome,
            None => {
                self.check_sees(&caller, "request", &id).await?;
                (about.still(self.still(&id).await)?, Vec::new())
            }
        };
        Ok(Response::new(v1::ReserveResponse { reservation: Some(reservation), fresh_plans }))
    }

    async fn get_quota(
        &self,
        request: Request<v1::GetQuotaRequest>,
    ) -> Result<Response<v1::GetQuotaResponse>, Status> {
        let caller = Caller::of_request(&request)?;
        self.quota(&caller, &request.into_inner()).await.map(Response::new)
    }

    async fn make_calendar_address(
        &self,
        request: Request<v1::MakeCalendarAddressRequest>,
    ) -> Result<Response<v1::MakeCalendarAddressResponse>, Status> {
        let caller = Caller::of_request(&request)?;
        let service = self.for_caller(&caller);
        service.calendar_made(&caller, request.get_ref()).await.map(Response::new)
    }

    async fn get_calendar_address(
        &self,
        request: Request<v1::GetCalendarAddressRequest>,
    ) -> Result<Response<v1::GetCalendarAddressResponse>, Status> {
        let caller = Caller::of_request(&request)?;
        self.calendar_address(&caller, request.get_ref()).await.map(Response::new)
    }

    async fn revoke_calendar_address(
        &self,
        request: Request<v1::RevokeCalendarAddressRequest>,
    ) -> Result<Response<v1::RevokeCalendarAddressResponse>, Status> {
        let caller = Caller::of_request(&request)?;
        let service = self.for_caller(&caller);
        service.calendar_revoked(&caller, request.get_ref()).await.map(Response::new)
    }

    async fn read_calendar(
        &self,
        request: Request<v1::ReadCalendarRequest>,
    ) -> Result<Response<v1::ReadCalendarResponse>, Status> {
        self.calendar(request.into_inner()).await.map(Response::new)
    }

    async fn get(
        &self,
        request: Request<v1::GetRequest>,
    ) -> Result<Response<v1::GetResponse>, Status> {
        let caller = Caller::of_request(&request)?;
        let id = request.into_inner().id;
        self.check_sees(&caller, "reservation", &id).await?;
        let found = self.find(&id).await?;
        let reservation = found.ok_or_else(|| status::not_found("reservation", &id))?;
        Ok(Response::new(v1::GetResponse { reservation: Some(reservation) }))
    }

    async fn get_data_plane(
        &self,
        request: Request<v1::GetDataPlaneRequest>,
    ) -> Result<Response<v1::GetDataPlaneResponse>, Status> {
        let caller = Caller::of_request(&request)?;
        let id = request.into_inner().id;
        self.check_sees(&caller, "reservation", &id).await?;
        self.data_plane(&id).await.map(Response::new)
    }

    async fn list(
        &self,
        request: Request<v1::ListRequest>,
    ) -> Result<Response<v1::ListResponse>, Status> {
        let caller = Caller::of_request(&request)?;
        let mut wire = request.into_inner();
        let only = caller.only_user()?;
        if let Some(own) = only {
            if !wire.user.is_empty() {
                caller.check_acts_for("user", &wire.user)?;
            }
            wire.user = own.to_string();
        }
        listing::page(&self.handle, wire, only.is_some()).await.map(Response::new)
    }

    async fn release(
        &self,
        request: Request<v1::ReleaseReservationRequest>,
    ) -> Result<Response<v1::ReleaseReservationResponse>, Status> {
        let caller = Caller::of_request(&request)?;
        let v1::ReleaseReservationRequest { id, user } = request.into_inner();
        self.check_sees(&caller, "reservation", &id).await?;
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
            core.find(asked.as_str()).is_some_and(|known| known.parent_transaction.is_some())
        };
        if self.handle.read(above).await? {
            let text = "it belongs to a parent coordinator; only that one may release it";
            return Err(status::denied(text));
        }
        let (service, shown) = (self.for_caller(&caller), id.clone());
        Traced::current().set("coalloc.reservation", &reservation);
        let release = async move {
            let _followed = traces::follow_reservation(&reservation);
            let input = |token| CoordinatorInput::Release { reservation, token };
            match service.handle.call(&service.causer, input).await? {
                ReleaseReply::Stands(known) => Ok(service.shown(&known)),
                ReleaseReply::Unknown => Err(status::not_found("reservation", &shown)),
            }
        };
        let about = CallSubject("reservation", &id);
        let reservation = match patient(about, release).await? {
            Some(reservation) => Some(reservation),
            None => Some(about.still(self.still(&id).await)?),
        };
        Ok(Response::new(v1::ReleaseReservationResponse { reservation }))
    }

    async fn release_rest(
        &self,
        request: Request<v1::ReleaseRestRequest>,
    ) -> Result<Response<v1::ReleaseRestResponse>, Status> {
        let caller = Caller::of_request(&request)?;
        let service = self.for_caller(&caller);
        let wire = request.into_inner();
        let id = wire.id.clone();
        self.check_sees(&caller, "reservation", &id).await?;
        let about = CallSubject("reservation", &id);
        let whole = async move { service.release_rest_whole(wire).await };
        let reservation = match patient(about, whole).await? {
            Some(reservation) => reservation,
            None => about.still(self.still(&id).await)?,
        };
        Ok(Response::new(v1::ReleaseRestResponse { reservation: Some(reservation) }))
    }

    async fn list_differences(
        &self,
        request: Request<v1::ListDifferencesRequest>,
    ) -> Result<Response<v1::ListDifferencesResponse>, Status> {
        self.differences(request.get_ref()).await.map(Response::new)
    }

    async fn search_servers(
        &self,
        request: Request<v1::SearchServersRequest>,
    ) -> Result<Response<v1::SearchServersResponse>, Status> {
        self.search_now(request.get_ref()).await.map(Response::new)
    }

    async fn allocate(
        &self,
        request: Request<v1::AllocateRequest>,
    ) -> Result<Response<v1::AllocateResponse>, Status> {
        let caller = Caller::of_request(&request)?;
        let service = self.for_caller(&caller);
        let mut wire = request.into_inner();
        caller.acts_for("user", &mut wire.user)?;
        let id = wire.request_id.clone();
        let about = CallSubject("request", &id);
        let whole = async move { service.allocate_whole(wire).await };
        let (reservation, starts_tried) = match patient(about, whole).await? {
            Some(outcome) => outcome,
            None => {
                self.check_sees(&caller, "request", &id).await?;
                (about.still(self.still(&id).await)?, 0)
            }
        };
        Ok(Response::new(v1::AllocateResponse { reservation: Some(reservation), starts_tried }))
    }

    async fn repair(
        &self,
        request: Request<v1::RepairRequest>,
    ) -> Result<Response<v1::RepairResponse>, Status> {
        self.for_caller(&Caller::of_request(&request)?)
            .repair_one(request.into_inner())
            .await
            .map(Response::new)
    }

    async fn give_up(
        &self,
        request: Request<v1::GiveUpRequest>,
    ) -> Result<Response<v1::GiveUpResponse>, Status> {
        self.for_caller(&Caller::of_request(&request)?)
            .give_up_on(request.into_inner())
            .await
            .map(Response::new)
    }

    async fn describe_federation(
        &self,
        request: Request<v1::DescribeFederationRequest>,
    ) -> Result<Response<v1::DescribeFederationResponse>, Status> {
        let caller = Caller::of_request(&request)?;
        let mut owed = self.handle.read(Coordinator::owed).await?;
        let managers = self.reconciler.noted(self.federation.statuses());
        let mut resource_managers = giving_up::with_owed(managers, &mut owed);
        // What is still in `owed` is owed to RMs that are not configured.
        let not_configured = giving_up::elsewhere(owed);
        let snapshot = self.federation.snapshot();
        let vertices = snapshot.topology.vertices().iter();
        let exchange_points = vertices.filter(|vertex| vertex.compute.is_none());
        let mut ledger_id = self.ledger_id.clone();
        if !caller.reads_all() {
            ledger_id.clear();
            resource_managers.iter_mut().for_each(for_users);
        }
        Ok(Response::new(v1::DescribeFederationResponse {
            coordinator: self.name.clone(),
            resource_managers,
            not_configured,
            version: Some(needs::own_version(&[])),
            exchange_points: exchange_points.map(|vertex| vertex.name.to_string()).collect(),
            ledger_id,
        }))
    }
}

/// Takes away what a user need not know of a resource manager: where it is, which ledger it has, and in which words its
/// connection failed.
fn for_users(rm: &mut v1::ResourceManagerStatus) {
    rm.address.clear();
    if let Some(description) = &mut rm.description {
        description.ledger_id.clear();
    }
    if !rm.problem.is_empty() {
        "it cannot be used now".clone_into(&mut rm.problem);
    }
}

impl GrcService {
    /// A Provision or Deprovision of this caller.
    async fn provisioned(
        &self,
        caller: &Caller,
        mut call: ProvisionCall,
    ) -> Result<v1::Reservation, Status> {
        let (service, id) = (self.for_caller(caller), call.id.clone());
        self.check_sees(caller, "reservation", &id).await?;
        caller.acts_for("user", &mut call.user)?;
        let about = CallSubject("reservation", &id);
        match patient(about, async move { service.provision_whole(call).await }).await? {
            Some(reservation) => Ok(reservation),
            None => about.still(self.still(&id).await),
        }
    }
}

#[tonic::async_trait]
impl Resolver for GrcService {
    async fn resolve(
        &self,
        request: Request<v1::ResolveRequest>,
    ) -> Result<Response<v1::ResolveResponse>, Status> {
        let caller = Caller::of_request(&request)?;
        let v1::ResolveRequest { transaction, resource_manager } = request.into_inner();
        caller.check_is_rm("resource_manager", &resource_manager)?;
        let txn = TransactionId::parse("transaction", &transaction);
        let rm = RmName::parse("resource_manager", &resource_manager);
        let (txn, rm) = match (txn, rm) {
            (Ok(txn), Ok(rm)) => (txn, rm),
            (Err(error), _) | (_, Err(error)) => return Err(status::invalid(&error)),
        };
        tracing::info!(%txn, %rm, "asked for the outcome of a transaction");
        let resolve = |token| CoordinatorInput::Resolve { txn, rm, token };
        let answer = self.handle.post(&caller.causer(), resolve)?;
        let decision = match answer.await.map_err(|_| status::stopping())? {
            Resolution::Decided(Decision::Commit) => v1::Decision::Commit,
            Resolution::Decided(Decision::Abort) => v1::Decision::Abort,
            Resolution::Lost => {
                let text = "no answer yet: the parent coordinator decides";
                return Err(Status::unavailable(text));
            }
            Resolution::NotMine => return Err(status::not_found("transaction", &transaction)),
        };
        Ok(Response::new(v1::ResolveResponse { decision: decision.into() }))
    }
}
