//! The ResourceManager service. It turns bytes into types, asks the participant's owner, and returns the
//! owner's answer. No handler changes anything itself, so a caller that goes away interrupts nothing.
//!
//! Left out: all decisions, which are in `protocol`'s participant.

use std::ops::Bound;

use coalloc_common::service_level::WHOLE;
use coalloc_common::{Now, Requester, Span, TransactionId, limits};
use coalloc_net::authorization::Caller;
use coalloc_net::resource_manager::{
    AvailabilityQuery, BookingPage, BookingQuestion, Comparison, ListFilter, TransactionCall,
    equipment_watcher,
};
use coalloc_net::traces::Span as Traced;
use coalloc_net::watch::Watch;
use coalloc_net::{convert, status};
use coalloc_proto::v1;
use coalloc_proto::v1::resource_manager_server::ResourceManager;
use coalloc_proto::v1::watch_equipment_response::What;
use coalloc_protocol::message::MessageKind;
use coalloc_protocol::participant::{Entry, Participant, ParticipantInput, Phase, Question};
use tokio_stream::StreamExt as _;
use tonic::{Request, Response, Status};

use crate::equipment::LastReport;
use crate::events::{BookingEvents, EquipmentEvents, ended, equipment_of};
use crate::publisher::Publisher;
use crate::servers::{ServerCatalog, ServerSearch};
use crate::shell::Handle;

/// The handlers of the service.
#[derive(Debug, Clone)]
pub struct RmService {
    handle: Handle,
    description: v1::DescribeResponse,
    publisher: Publisher,
    servers: ServerCatalog,
    equipment: LastReport,
}

impl RmService {
    /// Handlers that answer Describe with `description`.
    #[must_use]
    pub fn new(
        handle: Handle,
        description: v1::DescribeResponse,
        publisher: Publisher,
        equipment: LastReport,
    ) -> Self {
        let servers = ServerCatalog::of(&description.sites);
        Self { handle, description, publisher, servers, equipment }
    }

    fn call(
        &self,
        caller: &Caller,
        kind: MessageKind,
        meant: &str,
        txn: &str,
        coordinator: &str,
    ) -> Result<TransactionCall, Status> {
        let rm = &self.description.name;
        let call = TransactionCall::read(rm, caller, kind, meant, txn, coordinator)?;
        Traced::current().set("coalloc.transaction", &call.txn);
        Ok(call)
    }
}

#[tonic::async_trait]
impl ResourceManager for RmService {
    type WatchBookingsStream = Watch<v1::WatchBookingsResponse>;
    type WatchProfilesStream = Watch<v1::WatchProfilesResponse>;
    type WatchEquipmentStream = Watch<v1::WatchEquipmentResponse>;

    async fn watch_equipment(
        &self,
        request: Request<v1::WatchEquipmentRequest>,
    ) -> Result<Response<Self::WatchEquipmentStream>, Status> {
        let caller = Caller::of_request(&request)?;
        let rm = &self.description.name;
        let coordinator = equipment_watcher(rm, &caller, request.get_ref())?;
        if !self.description.has_equipment {
            let text = format!("{rm} has no equipment behind its bookings");
            return Err(status::precondition("EQUIPMENT", rm, text));
        }
        // First what changes from now on, then what there is, so that nothing is missed in between.
        let events = EquipmentEvents { coordinator: coordinator.clone() };
        let changes = self.handle.watch(&caller, "", events).await?;
        let look = move |participant: &Participant| equipment_of(participant, &coordinator);
        let now = self.handle.read(look).await?.into_iter().map(What::DataPlane);
        let now = now.chain([What::Complete(v1::EquipmentComplete {})]);
        let now = now.map(|what| Ok(v1::WatchEquipmentResponse { what: Some(what) }));
        let now: Vec<Result<v1::WatchEquipmentResponse, Status>> = now.collect();
        Ok(Response::new(Box::pin(tokio_stream::iter(now).chain(changes))))
    }

    async fn watch_profiles(
        &self,
        request: Request<v1::WatchProfilesRequest>,
    ) -> Result<Response<Self::WatchProfilesStream>, Status> {
        let caller = Caller::of_request(&request)?;
        Ok(Response::new(self.publisher.watch(&caller, request.get_ref())?))
    }

    async fn find_servers(
        &self,
        request: Request<v1::FindServersRequest>,
    ) -> Result<Response<v1::FindServersResponse>, Status> {
        let (caller, wire) = (Caller::of_request(&request)?, request.get_ref());
        let search = ServerSearch::read(wire)?;
        if !caller.reads_all() {
            caller.check_is_coordinator("coordinator", &search.coordinator)?;
        }
        self.publisher.check_may_watch(&search.coordinator)?;
        let best = self.publisher.best(&search.coordinator);
        let best = if caller.requester() == Requester::Staff { WHOLE } else { best };
        Ok(Response::new(self.servers.search(&self.handle, &wire.site, best, search).await?))
    }

    async fn watch_bookings(
        &self,
        request: Request<v1::WatchBookingsRequest>,
    ) -> Result<Response<Self::WatchBookingsStream>, Status> {
        let caller = Caller::of_request(&request)?;
        let v1::WatchBookingsRequest { resume_token } = request.into_inner();
        Ok(Response::new(self.handle.watch(&caller, &resume_token, BookingEvents).await?))
    }

    async fn describe(
        &self,
        request: Request<v1::DescribeRequest>,
    ) -> Result<Response<v1::DescribeResponse>, Status> {
        let caller = Caller::of_request(&request)?;
        let is_told = self.description.has_equipment && caller.reads_all();
        let equipment = is_told.then(|| self.equipment.to_wire());
        Ok(Response::new(v1::DescribeResponse { equipment, ..self.description.clone() }))
    }

    async fn query_availability(
        &self,
        request: Request<v1::QueryAvailabilityRequest>,
    ) -> Result<Response<v1::QueryAvailabilityResponse>, Status> {
        let AvailabilityQuery { frames, user, replaces, avoided } =
            AvailabilityQuery::read(request.get_ref())?;
        let caller = Caller::of_request(&request)?;
        caller.check_replaces(replaces.as_ref())?;
        let question = Question::new(frames, user, replaces).avoiding(avoided);
        let mut question = question.of(caller.requester());
        // Almost every query is answered in one slice. Between two slices of a longer one, the protocol goes
        // on.
        while !question.is_answered() {
            let now = self.handle.now();
            let look = move |participant: &Participant| {
                participant.answer(&mut question, now);
                question
            };
            question = self.handle.read(look).await?;
        }
        let frames = question
            .into_answer_with_changes()
            .map(|(frame, change)| v1::FrameAvailability {
                free: frame.iter().map(|a| a.0).collect(),
                next_change: change.map(convert::time_to_wire),
            })
            .collect();
        Ok(Response::new(v1::QueryAvailabilityResponse { frames }))
    }

    async fn hold(
        &self,
        request: Request<v1::HoldRequest>,
    ) -> Result<Response<v1::HoldResponse>, Status> {
        let (caller, wire) = (Caller::of_request(&request)?, request.get_ref());
        let (meant, txn, by) = (&wire.resource_manager, &wire.transaction, &wire.coordinator);
        let call = self.call(&caller, MessageKind::Hold, meant, txn, by)?;
        let order = convert::hold_from_wire(wire).map_err(|error| status::invalid(&error))?;
        let oldest_open = wire.oldest_open;
        let watches = self.publisher.may_watch(&order.coordinator);
        let watcher = watches.then(|| (order.coordinator.clone(), order.segments.clone()));
        let epoch = wire.coordinator_epoch;
        let hold = |token| led(epoch, ParticipantInput::Hold { order, oldest_open, token });
        let answer = self.handle.call(&caller.causer(), hold).await?;
        let answer = call.hold_answer(answer)?;
        let fresh = match watcher {
            Some((coordinator, segments)) => self.publisher.fresh(&coordinator, segments).await,
            None => None,
        };
        Ok(Response::new(v1::HoldResponse { answer: Some(answer), fresh }))
    }

    async fn commit(
        &self,
        request: Request<v1::CommitRequest>,
    ) -> Result<Response<v1::CommitResponse>, Status> {
        let (caller, wire) = (Caller::of_request(&request)?, request.get_ref());
        let (meant, txn, by) = (&wire.resource_manager, &wire.transaction, &wire.coordinator);
        let call = self.call(&caller, MessageKind::Commit, meant, txn, by)?;
        let (txn, by) = (call.txn.clone(), call.coordinator.clone());
        let epoch = wire.coordinator_epoch;
        let input = |token| led(epoch, ParticipantInput::Commit { txn, by, token });
        let refused =
            call.end_answer("booked", self.handle.call(&caller.causer(), input).await?)?;
        Ok(Response::new(v1::CommitResponse { refused }))
    }

    async fn abort(
        &self,
        request: Request<v1::AbortRequest>,
    ) -> Result<Response<v1::AbortResponse>, Status> {
        let (caller, wire) = (Caller::of_request(&request)?, request.get_ref());
        let (meant, txn, by) = (&wire.resource_manager, &wire.transaction, &wire.coordinator);
        let call = self.call(&caller, MessageKind::Abort, meant, txn, by)?;
        let (txn, by) = (call.txn.clone(), call.coordinator.clone());
        let epoch = wire.coordinator_epoch;
        let input = |token| led(epoch, ParticipantInput::Abort { txn, by, token });
        let refused =
            call.end_answer("aborted", self.handle.call(&caller.causer(), input).await?)?;
        Ok(Response::new(v1::AbortResponse { refused }))
    }

    async fn release(
        &self,
        request: Request<v1::ReleaseRequest>,
    ) -> Result<Response<v1::ReleaseResponse>, Status> {
        let (caller, wire) = (Caller::of_request(&request)?, request.get_ref());
        let (meant, txn, by) = (&wire.resource_manager, &wire.transaction, &wire.coordinator);
        let call = self.call(&caller, MessageKind::Release, meant, txn, by)?;
        let (txn, by) = (call.txn.clone(), call.coordinator.clone());
        let epoch = wire.coordinator_epoch;
        let input = |token| led(epoch, ParticipantInput::Release { txn, by, token });
        let refused =
            call.end_answer("released", self.handle.call(&caller.causer(), input).await?)?;
        Ok(Response::new(v1::ReleaseResponse { refused }))
    }

    async fn compare_bookings(
        &self,
        request: Request<v1::CompareBookingsRequest>,
    ) -> Result<Response<v1::CompareBookingsResponse>, Status> {
        let caller = Caller::of_request(&request)?;
        let comparison = Comparison::read(&self.description.name, &caller, request.get_ref())?;
        let (name, ledger) = (comparison.coordinator.clone(), self.description.ledger_id.clone());
        let look = move |participant: &Participant| {
            let coordinator = &comparison.coordinator;
            let known = participant.config().coordinators.contains(coordinator);
            known.then(|| comparison.answer(ledger, participant.booked_for(coordinator)))
        };
        let denied = || {
            let text = format!("coordinator {name} is not configured here");
            status::denied(text)
        };
        self.handle.read(look).await?.map(Response::new).ok_or_else(denied)
    }

    async fn get_booking(
        &self,
        request: Request<v1::GetBookingRequest>,
    ) -> Result<Response<v1::GetBookingResponse>, Status> {
        let caller = Caller::of_request(&request)?;
        let question = BookingQuestion::read(&self.description.name, &caller, request.get_ref())?;
        let (now, txn) = (self.handle.now(), question.txn.clone());
        let look = move |participant: &Participant| {
            let entry = participant.entries().get(&txn)?;
            Some(booking(participant, &txn, entry, now))
        };
        question.answer(self.handle.read(look).await?).map(Response::new)
    }

    async fn list_bookings(
        &self,
        request: Request<v1::ListBookingsRequest>,
    ) -> Result<Response<v1::ListBookingsResponse>, Status> {
        let mut page = Listing::new(ListFilter::read(request.get_ref())?);
        if let Some(token) = page.filter.after.clone() {
            let looked = token.clone();
            let known = move |core: &Participant| core.entries().contains_key(&looked);
            if !self.handle.read(known).await? {
                return Err(ListFilter::unknown_token(&token));
            }
        }
        // In slices, like queries: between two of them the protocol goes on.
        while !page.is_whole {
            let now = self.handle.now();
            let look = move |participant: &Participant| {
                page.take(participant, now);
                page
            };
            page = self.handle.read(look).await?;
        }
        Ok(Response::new(page.page.into_answer()))
    }
}

/// A message of a process that leads in this epoch.
fn led(epoch: u64, order: ParticipantInput) -> ParticipantInput {
    ParticipantInput::Led { epoch, order: Box::new(order) }
}

/// A listing, with what has been read of its page so far.
struct Listing {
    filter: ListFilter,
    page: BookingPage,
    is_whole: bool,
}

impl Listing {
    const fn new(filter: ListFilter) -> Self {
        let page = filter.page();
        Self { filter, page, is_whole: false }
    }

    /// Reads one more slice: about [`limits::QUERY_SLICE_WORK`] entries and segments, and at least one entry.
    fn take(&mut self, participant: &Participant, now: Now) {
        let after = self.filter.after.clone();
        let after = after.as_ref().map_or(Bound::Unbounded, Bound::Excluded);
        let range = participant.entries().range::<TransactionId, _>((after, Bound::Unbounded));
        let mut work = 0;
        for (txn, entry) in range {
            if work >= limits::QUERY_SLICE_WORK {
                return;
            }
            let segments = entry.order.iter().flat_map(|order| &order.segments);
            work += 1 + segments.clone().count();
            let live = matches!(entry.phase, Phase::Held(_) | Phase::Booked);
            let shows = self.filter.shows(live, segments.map(|segment| segment.window));
            if shows && !self.page.add(booking(participant, txn, entry, now)) {
                self.is_whole = true;
                return;
            }
            self.filter.after = Some(txn.clone());
        }
        self.is_whole = true;
    }
}

/// What the equipment has for a booking, with the state that says what it has still to do.
fn under_way(shown: v1::DataPlane, entry: &Entry) -> v1::DataPlane {
    use v1::ProvisionState as P;
    let booked = entry.order.as_ref().filter(|_| entry.phase == Phase::Booked);
    let state = match (shown.provision_state(), booked.map(|order| order.manual_provision)) {
        (P::Provisioned, Some(true)) => P::Releasing,
        (P::Released, Some(false)) => P::Provisioning,
        (state, _) => state,
    };
    v1::DataPlane { provision_state: state.into(), ..shown }
}

fn booking(participant: &Participant, txn: &TransactionId, entry: &Entry, now: Now) -> v1::Booking {
    let state = match &entry.phase {
        Phase::Held(_) => v1::BookingState::Held,
        Phase::Booked => v1::BookingState::Booked,
        Phase::Refused(_) => v1::BookingState::Refused,
        Phase::Ended(ending) => ended(*ending),
    };
    let expires_in = match &entry.phase {
        Phase::Held(held) => {
            Some(convert::span_to_wire(held.hard_at.since(now.boot).max(Span::ZERO)))
        }
        Phase::Booked | Phase::Refused(_) | Phase::Ended(_) => None,
    };
    let (order, servers) = (entry.order.as_ref(), entry.granted_servers());
    let booking = convert::booking_to_wire(txn, &entry.coordinator, order, &servers, state);
    let states = participant.equipment_of(txn, entry);
    let data_plane = states.map(|(key, state)| {
        let shown = convert::data_plane_to_wire(&key.resource, txn, Some(state));
        under_way(shown, entry)
    });
    v1::Booking { expires_in, data_plane: data_plane.collect(), ..booking }
}
