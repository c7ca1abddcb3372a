//! The ResourceManager service of a coordinator: parent coordinators see its whole federation as one RM.
//!
//! Describe shows the sites, and one abstract path between every two end points (sites and border points), named
//! `GRC:A--B` ([`snapshot`]). A hold becomes a request of its own: its sites are pinned, and each abstract path becomes
//! a link between its ends. The usual planner plans it ([`planning`]), and the coordinator core tries it; the core is
//! the participant in the parent's transaction. Neither inner paths nor inner names are disclosed, not even in a
//! refusal. The pure part of all this is in [`coalloc_plan::abstracted`]. What the coordinator holds for parents is
//! listed and can be watched, like the bookings of an RM ([`bookings`], [`listing`]). Servers of by-server sites have
//! the same names on both levels ([`servers`]).
//!
//! Left out: more than one plan for a hold. If others were faster, it is planned once more.

mod bookings;
mod listing;
mod planning;
mod servers;
mod snapshot;

use coalloc_common::service_level;
use coalloc_common::topology::FrameView;
use coalloc_common::{InvalidField, Refusal, Time};
use coalloc_net::authorization::Caller;
use coalloc_net::needs::own_version;
use coalloc_net::resource_manager::{
    AvailabilityQuery, BookingQuestion, Comparison, TransactionCall,
};
use coalloc_net::{convert, status};
use coalloc_plan::abstracted::periods::least;
use coalloc_plan::abstracted::refused::{RoutedLink, outward, words};
use coalloc_proto::v1;
use coalloc_proto::v1::resource_manager_server::ResourceManager;
use coalloc_protocol::capability::Capability;
use coalloc_protocol::conversation::{ParentReply, PlanJob, Planned};
use coalloc_protocol::coordinator::{
    Candidate, Coordinator, CoordinatorInput, MessageKind, ParentInput,
};
use coalloc_protocol::message::{Answer, HoldOrder};
use tonic::{Request, Response, Status};

use self::bookings::{ListedTransaction, ParentEvents};
use self::snapshot::AbstractSnapshot;
use crate::availability;
use crate::calls::service::GrcService;
use crate::config::parents::ParentSettings;
use crate::node::conversation::{JobPlanner, converse};
use crate::views::view;

/// The handlers of the ResourceManager service.
#[derive(Debug, Clone)]
pub struct ParentService {
    /// How this coordinator serves its parents.
    pub config: ParentSettings,
    /// The coordinator itself.
    pub service: GrcService,
}

impl ParentService {
    /// The handlers of one call, see [`GrcService::for_caller`].
    fn for_caller(&self, caller: &Caller) -> Self {
        Self { service: self.service.for_caller(caller), config: self.config.clone() }
    }

    fn shown(&self) -> Result<AbstractSnapshot, Status> {
        let edges_max = self.service.defaults.route_edges_max as usize;
        let snapshot = self.service.federation.snapshot();
        AbstractSnapshot::of(snapshot, &self.service.name, &self.config, edges_max)
    }

    /// Handles one hold of a parent.
    async fn hold_whole(&self, order: HoldOrder) -> Result<Answer, Status> {
        let parts = self.service.conversation();
        let mut planner = HoldPlanner { service: self, order: &order };
        answered(converse(parts, order.clone(), &mut planner).await?)
    }

    /// A refusal in terms of what the parent may see.
    async fn outward(&self, refusal: &Refusal, order: &HoldOrder) -> Result<Refusal, Status> {
        if let Some(of_server) = servers::outward(refusal, order) {
            return Ok(of_server);
        }
        let txn = order.txn.clone();
        let tried = move |core: &Coordinator| {
            core.reservation_for_parent(&txn).and_then(|known| known.candidate.clone())
        };
        let tried = self.service.handle.read(tried).await?;
        let plan = view::plan(tried.as_ref());
        Ok(outward(&self.service.name, refusal, &order.segments, &led(plan.as_ref())))
    }
}

/// The routes of a plan's links, by names.
fn led(plan: Option<&v1::Plan>) -> Vec<RoutedLink> {
    let led = |route: &v1::Route| RoutedLink {
        from: route.from.clone(),
        to: route.to.clone(),
        paths: route.paths.clone(),
    };
    plan.map_or_else(Vec::new, |plan| plan.routes.iter().map(led).collect())
}

/// Plans a hold of a parent.
struct HoldPlanner<'a> {
    service: &'a ParentService,
    order: &'a HoldOrder,
}

impl JobPlanner for HoldPlanner<'_> {
    async fn plan(&mut self, job: &PlanJob) -> Result<Planned, Status> {
        let planned = self.service.plan(self.order, &job.refusals).await?;
        let manual_provision = self.order.manual_provision;
        let provisioned = |candidate| vec![Candidate { manual_provision, ..candidate }];
        Ok(planned.map(provisioned).into())
    }
}

/// Reads a parent's Hold for the coordinator core.
///
/// # Errors
/// [`InvalidField`] for the first wrong field.
pub fn order_from_wire(wire: &v1::HoldRequest) -> Result<HoldOrder, InvalidField> {
    if wire.one_way {
        let allowed = "false: a child coordinator cannot book with one message";
        return Err(InvalidField::new("one_way", true, allowed));
    }
    convert::hold_from_wire(wire)
}

/// The answer to a parent's message. The error means that it is unknown whether the message has taken effect.
fn answered(reply: ParentReply) -> Result<Answer, Status> {
    let sent_again = "the same message came again and is answered there";
    match reply {
        ParentReply::Answered(answer) => Ok(answer),
        ParentReply::SentAgain => Err(Status::aborted(sent_again)),
    }
}

impl ParentService {
    fn call(
        &self,
        caller: &Caller,
        kind: MessageKind,
        meant: &str,
        txn: &str,
        coordinator: &str,
    ) -> Result<TransactionCall, Status> {
        TransactionCall::read(&self.service.name, caller, kind, meant, txn, coordinator)
    }

    async fn end(
        &self,
        kind: MessageKind,
        word: &str,
        epoch: u64,
        call: TransactionCall,
    ) -> Result<Option<v1::Refusal>, Status> {
        let (txn, by) = (call.txn.clone(), call.coordinator.clone());
        let end = |token| {
            let end = ParentInput::End { txn, by, kind, epoch, token };
            CoordinatorInput::Parent(end)
        };
        let answer = answered(self.service.handle.call(&self.service.causer, end).await?)?;
        let answer = match answer {
            Answer::Refused(refusal) => {
                let words = words(&self.service.name, &refusal);
                Answer::Refused(Refusal::new(refusal.reason, words))
            }
            other => other,
        };
        call.end_answer(word, answer)
    }
}

#[tonic::async_trait]
impl ResourceManager for ParentService {
    type WatchBookingsStream = coalloc_net::watch::Watch<v1::WatchBookingsResponse>;
    type WatchProfilesStream = coalloc_net::watch::Watch<v1::WatchProfilesResponse>;
    type WatchEquipmentStream = coalloc_net::watch::Watch<v1::WatchEquipmentResponse>;

    async fn watch_equipment(
        &self,
        _: Request<v1::WatchEquipmentRequest>,
    ) -> Result<Response<Self::WatchEquipmentStream>, Status> {
        let (name, text) = (&self.service.name, "a coordinator tells of no equipment");
        Err(status::precondition("EQUIPMENT", name, text))
    }

    async fn watch_profiles(
        &self,
        _: Request<v1::WatchProfilesRequest>,
    ) -> Result<Response<Self::WatchProfilesStream>, Status> {
        Err(Status::unimplemented("a coordinator serves no profiles"))
    }

    async fn find_servers(
        &self,
        request: Request<v1::FindServersRequest>,
    ) -> Result<Response<v1::FindServersResponse>, Status> {
        let caller = Caller::of_request(&request)?;
        self.found_servers(&caller, request.get_ref()).await.map(Response::new)
    }

    async fn watch_bookings(
        &self,
        request: Request<v1::WatchBookingsRequest>,
    ) -> Result<Response<Self::WatchBookingsStream>, Status> {
        let caller = Caller::of_request(&request)?;
        let v1::WatchBookingsRequest { resume_token } = request.into_inner();
        let events = ParentEvents { name: self.service.name.clone() };
        Ok(Response::new(self.service.handle.watch(&caller, &resume_token, events).await?))
    }

    async fn describe(
        &self,
        _: Request<v1::DescribeRequest>,
    ) -> Result<Response<v1::DescribeResponse>, Status> {
        // Before the RMs have answered, this coordinator would describe itself without any resources.
        self.service.federation.settled().await;
        let shown = self.shown()?;
        let (sites, paths) = shown.describe();
        let members = shown.snapshot.members.values();
        let below = members.flat_map(|(_, member)| member.coordinators_below.iter().cloned());
        let mut below: Vec<String> = below.collect();
        below.push(self.service.name.clone());
        below.sort();
        below.dedup();
        Ok(Response::new(v1::DescribeResponse {
            name: self.service.name.clone(),
            domain: self.config.domain.to_string(),
            ledger_id: self.service.ledger_id.clone(),
            sites,
            paths,
            horizon: Some(convert::span_to_wire(self.config.horizon)),
            coordinators_below: below,
            coordinators: self.config.coordinators.keys().map(ToString::to_string).collect(),
            started: Some(convert::time_to_wire(self.service.reconciler.began())),
            // A child coordinator cannot book with one message.
            version: Some(own_version(&[Capability::OneWay])),
            // What the equipment of its members has is not disclosed to a parent.
            has_equipment: false,
            equipment: None,
        }))
    }

    async fn query_availability(
        &self,
        request: Request<v1::QueryAvailabilityRequest>,
    ) -> Result<Response<v1::QueryAvailabilityResponse>, Status> {
        let query = AvailabilityQuery::read(request.get_ref())?;
        let AvailabilityQuery { frames, user, replaces, avoided } = query;
        if let Some(avoided) = avoided.first() {
            let allowed = "nothing: a child coordinator tells nobody what cannot be used";
            let error = InvalidField::new("avoided", avoided, allowed);
            return Err(status::invalid(&error));
        }
        let caller = Caller::of_request(&request)?;
        caller.check_replaces(replaces.as_ref())?;
        let standing = match &replaces {
            // A transaction that is not booked here frees nothing.
            Some(old) => self.standing(old).await?.unwrap_or_default(),
            None => planning::ReplacedBooking::default(),
        };
        let shown = self.shown()?;
        let (first, last) = self.open_between(self.service.handle.now().wall);
        let federation = &self.service.federation;
        let inside = availability::Replaced::from(standing.transaction.as_ref());
        let picture =
            availability::query(federation, &shown.snapshot, &frames, &user, inside).await;
        let share = self.level(&caller.requester(), &user).share;
        let frame = |(view, change): (&FrameView, &Option<Time>)| {
            let window = view.window;
            let open = window.start() >= first && window.end() <= last;
            let free = shown.all.resources().iter().zip(shown.all.free(view));
            let free = free.map(|(resource, free)| {
                let own = least(&standing.wanted, &resource.name, window);
                if open { service_level::most(own, free, share).0 } else { own.0 }
            });
            let free = free.collect();
            v1::FrameAvailability { free, next_change: change.map(convert::time_to_wire) }
        };
        let frames = picture.views.iter().zip(&picture.changes).map(frame).collect();
        Ok(Response::new(v1::QueryAvailabilityResponse { frames }))
    }

    async fn hold(
        &self,
        request: Request<v1::HoldRequest>,
    ) -> Result<Response<v1::HoldResponse>, Status> {
        let (caller, wire) = (Caller::of_request(&request)?, request.get_ref());
        let (meant, txn, by) = (&wire.resource_manager, &wire.transaction, &wire.coordinator);
        let call = self.call(&caller, MessageKind::Hold, meant, txn, by)?;
        let order = order_from_wire(wire).map_err(|error| status::invalid(&error))?;
        // If the caller goes away, the hold goes on in its own task.
        let (service, wanted) = (self.for_caller(&caller), order.clone());
        let (txn, by) = (order.txn.clone(), order.coordinator.clone());
        let (oldest_open, epoch) = (wire.oldest_open, wire.coordinator_epoch);
        let preface = |token| ParentInput::Preface { txn, by, oldest_open, epoch, token }.into();
        let heard = service.service.handle.call(&service.service.causer, preface).await?;
        if let older @ Answer::OlderLeader { .. } = answered(heard)? {
            return Err(call.rejection(&older));
        }
        let task = tokio::spawn(async move { service.hold_whole(wanted).await });
        let unknown = |_| status::outcome_unknown("transaction", order.txn.as_str());
        let answer = task.await.map_err(unknown)??;
        let answer = match answer {
            Answer::Refused(refusal) => Answer::Refused(self.outward(&refusal, &order).await?),
            other => other,
        };
        let answer = call.hold_answer(answer)?;
        Ok(Response::new(v1::HoldResponse { answer: Some(answer), fresh: None }))
    }

    async fn commit(
        &self,
        request: Request<v1::CommitRequest>,
    ) -> Result<Response<v1::CommitResponse>, Status> {
        let (caller, wire) = (Caller::of_request(&request)?, request.get_ref());
        let (meant, txn, by) = (&wire.resource_manager, &wire.transaction, &wire.coordinator);
        let call = self.call(&caller, MessageKind::Commit, meant, txn, by)?;
        let epoch = wire.coordinator_epoch;
        let refused =
            self.for_caller(&caller).end(MessageKind::Commit, "booked", epoch, call).await?;
        Ok(Response::new(v1::CommitResponse { refused }))
    }

    async fn abort(
        &self,
        request: Request<v1::AbortRequest>,
    ) -> Result<Response<v1::AbortResponse>, Status> {
        let (caller, wire) = (Caller::of_request(&request)?, request.get_ref());
        let (meant, txn, by) = (&wire.resource_manager, &wire.transaction, &wire.coordinator);
        let call = self.call(&caller, MessageKind::Abort, meant, txn, by)?;
        let epoch = wire.coordinator_epoch;
        let refused =
            self.for_caller(&caller).end(MessageKind::Abort, "aborted", epoch, call).await?;
        Ok(Response::new(v1::AbortResponse { refused }))
    }

    async fn release(
        &self,
        request: Request<v1::ReleaseRequest>,
    ) -> Result<Response<v1::ReleaseResponse>, Status> {
        let (caller, wire) = (Caller::of_request(&request)?, request.get_ref());
        let (meant, txn, by) = (&wire.resource_manager, &wire.transaction, &wire.coordinator);
        let call = self.call(&caller, MessageKind::Release, meant, txn, by)?;
        let epoch = wire.coordinator_epoch;
        let refused =
            self.for_caller(&caller).end(MessageKind::Release, "released", epoch, call).await?;
        Ok(Response::new(v1::ReleaseResponse { refused }))
    }

    async fn compare_bookings(
        &self,
        request: Request<v1::CompareBookingsRequest>,
    ) -> Result<Response<v1::CompareBookingsResponse>, Status> {
        let caller = Caller::of_request(&request)?;
        let comparison = Comparison::read(&self.service.name, &caller, request.get_ref())?;
        let (name, ledger) = (comparison.coordinator.clone(), self.service.ledger_id.clone());
        let look = move |core: &Coordinator| {
            let coordinator = &comparison.coordinator;
            let known = core.serves(coordinator);
            known.then(|| comparison.answer(ledger, core.booked_for_parent(coordinator)))
        };
        let denied = || status::denied(format!("coordinator {name} is not configured as a parent"));
        self.service.handle.read(look).await?.map(Response::new).ok_or_else(denied)
    }

    async fn get_booking(
        &self,
        request: Request<v1::GetBookingRequest>,
    ) -> Result<Response<v1::GetBookingResponse>, Status> {
        let caller = Caller::of_request(&request)?;
        let question = BookingQuestion::read(&self.service.name, &caller, request.get_ref())?;
        let (now, txn) = (self.service.handle.now(), question.txn.clone());
        // What the equipment of its members has is not disclosed to a parent.
        let look = move |core: &Coordinator| {
            let entry = core.parent_entries().get(&txn)?;
            Some(ListedTransaction::of(core, &txn, entry)?.shown(now))
        };
        question.answer(self.service.handle.read(look).await?).map(Response::new)
    }

    async fn list_bookings(
        &self,
        request: Request<v1::ListBookingsRequest>,
    ) -> Result<Response<v1::ListBookingsResponse>, Status> {
        listing::page(&self.service.handle, request.get_ref()).await.map(Response::new)
    }
}
