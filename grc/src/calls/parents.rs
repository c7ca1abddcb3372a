//! The ResourceManager service of a coordinator: parent coordinators see its whole federation as one RM.
//!
//! Describe shows the sites, and one abstract path between every two end points (sites and border points), named
//! `GRC:A--B` ([`snapshot`]). A hold becomes a request of its own: its sites are pinned, and each abstract path becomes
//! a link between its ends. The usual planner plans it ([`planning`]), and the coordinator core tries it; the core is
//! the participant in the parent's transaction. Neither inner paths nor inner names are disclosed, not even in a
//! refusal. The pure part of all this is in [`coalloc_plan::abstracted`]. What the coordinator holds for parents is
//! listed and can be watched, like the bookings of an RM ([`bookings`], [`listing`]).
//!
//! Left out: more than one plan for a hold. If others were faster, it is planned once more.

mod bookings;
mod listing;
mod planning;
mod snapshot;

use coalloc_common::invalid::check_range;
use coalloc_common::{CoordinatorName, InvalidField, Refusal, TransactionId, Window, limits};
use coalloc_net::{convert, status};
use coalloc_plan::abstracted::periods::least;
use coalloc_plan::abstracted::refused::{RoutedLink, outward, words};
use coalloc_proto::v1;
use coalloc_proto::v1::resource_manager_server::ResourceManager;
use coalloc_protocol::conversation::{ParentReply, PlanJob, Planned};
use coalloc_protocol::coordinator::{Coordinator, CoordinatorInput, MessageKind, ParentInput};
use coalloc_protocol::digest::BookingSet;
use coalloc_protocol::message::{Answer, HoldOrder};
use tonic::{Request, Response, Status};

use self::bookings::ParentEvents;
use self::planning::may_take;
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
    fn shown(&self) -> Result<AbstractSnapshot, Status> {
        let edges_max = self.service.defaults.route_edges_max as usize;
        let snapshot = self.service.federation.snapshot();
        AbstractSnapshot::of(snapshot, &self.service.name, &self.config, edges_max)
    }

    fn check_meant(&self, meant: &str) -> Result<(), Status> {
        let name = &self.service.name;
        if meant.is_empty() || meant == name {
            return Ok(());
        }
        tracing::warn!(meant, "a message for another resource manager");
        Err(status::not_for_us(name, meant))
    }

    /// Handles one hold of a parent.
    async fn hold_whole(&self, order: HoldOrder) -> Result<Answer, Status> {
        let GrcService { handle, pauses, .. } = &self.service;
        let mut planner = HoldPlanner { service: self, order: &order };
        answered(converse(handle, pauses, order.clone(), &mut planner).await?)
    }

    /// A refusal in terms of what the parent may see.
    async fn outward(&self, refusal: &Refusal, order: &HoldOrder) -> Result<Refusal, Status> {
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
        Ok(planned.map(|candidate| vec![candidate]).into())
    }
}

/// The transaction that a hold or a query replaces; an empty text means none.
fn replaced(wire: &str) -> Result<Option<TransactionId>, InvalidField> {
    match wire {
        "" => Ok(None),
        wire => TransactionId::parse("replaces", wire).map(Some),
    }
}

/// Reads a parent's Hold for the coordinator core.
///
/// # Errors
/// [`InvalidField`] for the first wrong field.
pub fn order_from_wire(wire: &v1::HoldRequest) -> Result<HoldOrder, InvalidField> {
    let hold_for = wire.hold_for.as_ref();
    let hold_for = hold_for.map(|span| convert::span_from_wire("hold_for", span)).transpose()?;
    if let Some(span) = hold_for
        && !(limits::HOLD_SOFT_MIN..=limits::HOLD_SOFT_MAX).contains(&span)
    {
        let (low, high) = (limits::HOLD_SOFT_MIN, limits::HOLD_SOFT_MAX);
        return Err(InvalidField::new("hold_for", span, format!("{low} to {high}")));
    }
    let replaces = replaced(&wire.replaces)?;
    let segments = match (&replaces, wire.segments.is_empty()) {
        // A new version without segments needs nothing here any more.
        (Some(_), true) => Vec::new(),
        _ => convert::segments_from_wire("segments", &wire.segments)?,
    };
    if wire.keeps_old && replaces.is_none() {
        let allowed = "false without `replaces`: there is nothing old to keep";
        return Err(InvalidField::new("keeps_old", true, allowed));
    }
    if wire.one_way {
        let allowed = "false: a child coordinator cannot book with one message";
        return Err(InvalidField::new("one_way", true, allowed));
    }
    Ok(HoldOrder {
        txn: TransactionId::parse("transaction", &wire.transaction)?,
        coordinator: CoordinatorName::parse("coordinator", &wire.coordinator)?,
        user: convert::user_name("user", &wire.user)?,
        segments,
        hold_for,
        replaces,
        keeps_old: wire.keeps_old,
        one_way: false,
    })
}

/// The answer to a parent's message. The error means that it is unknown whether the message has taken effect.
fn answered(reply: ParentReply) -> Result<Answer, Status> {
    let sent_again = "the same message came again and is answered there";
    match reply {
        ParentReply::Answered(answer) => Ok(answer),
        ParentReply::SentAgain => Err(Status::aborted(sent_again)),
    }
}

fn rejection(answer: &Answer, txn: &str) -> Status {
    match answer {
        Answer::OtherContent => status::other_content("transaction", txn),
        _ => Status::internal("the coordinator gave an answer that this call does not have"),
    }
}

impl ParentService {
    async fn end(
        &self,
        kind: MessageKind,
        transaction: &str,
        coordinator: &str,
    ) -> Result<Option<v1::Refusal>, Status> {
        let txn = TransactionId::parse("transaction", transaction);
        let by = CoordinatorName::parse("coordinator", coordinator);
        let (txn, by) = match (txn, by) {
            (Ok(txn), Ok(by)) => (txn, by),
            (Err(error), _) | (_, Err(error)) => return Err(status::invalid(&error)),
        };
        let (known, from) = (txn.clone(), by.clone());
        let end = |token| CoordinatorInput::Parent(ParentInput::End { txn, by, kind, token });
        let answer = answered(self.service.handle.call(end).await?)?;
        tracing::info!(txn = %known, coordinator, ?kind, ?answer, "message from a parent");
        match answer {
            Answer::Done => Ok(None),
            Answer::Refused(refusal) => {
                let reason = refusal.reason;
                let refusal = Refusal::new(reason, words(&self.service.name, &refusal));
                Ok(Some(convert::refusal_to_wire(&refusal)))
            }
            Answer::Denied => Ok(Some(self.denial(&known, &from))),
            other => Err(rejection(&other, transaction)),
        }
    }

    /// The refusal for a message that its sender may not send, because the transaction is another coordinator's.
    fn denial(&self, txn: &TransactionId, coordinator: &CoordinatorName) -> v1::Refusal {
        tracing::warn!(%txn, %coordinator, "denied");
        convert::denial(&self.service.name, txn, coordinator)
    }
}

#[tonic::async_trait]
impl ResourceManager for ParentService {
    type WatchBookingsStream = coalloc_net::watch::Watch<v1::WatchBookingsResponse>;
    type WatchProfilesStream = coalloc_net::watch::Watch<v1::WatchProfilesResponse>;

    async fn watch_profiles(
        &self,
        _: Request<v1::WatchProfilesRequest>,
    ) -> Result<Response<Self::WatchProfilesStream>, Status> {
        Err(Status::unimplemented("a coordinator serves no profiles"))
    }

    async fn watch_bookings(
        &self,
        request: Request<v1::WatchBookingsRequest>,
    ) -> Result<Response<Self::WatchBookingsStream>, Status> {
        let v1::WatchBookingsRequest { resume_token } = request.into_inner();
        let events = ParentEvents { name: self.service.name.clone() };
        Ok(Response::new(self.service.handle.watch(&resume_token, events).await?))
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
        }))
    }

    async fn query_availability(
        &self,
        request: Request<v1::QueryAvailabilityRequest>,
    ) -> Result<Response<v1::QueryAvailabilityResponse>, Status> {
        let wire = request.into_inner();
        let parsed = || {
            check_range("frames", wire.frames.len(), 1..=limits::FRAMES_MAX as usize, "frames")?;
            let frame =
                |(at, window)| convert::window_from_wire(&format!("frames[{at}]"), Some(window));
            let frames: Result<Vec<Window>, InvalidField> =
                wire.frames.iter().enumerate().map(frame).collect();
            let user = convert::user_name("user", &wire.user)?;
            Ok::<_, InvalidField>((frames?, user, replaced(&wire.replaces)?))
        };
        let (frames, user, replaces) = parsed().map_err(|error| status::invalid(&error))?;
        let standing = match &replaces {
            // A transaction that is not booked here frees nothing.
            Some(old) => self.standing(old).await?.unwrap_or_default(),
            None => planning::ReplacedBooking::default(),
        };
        let shown = self.shown()?;
        let (first, last) = self.open_between(self.service.handle.now().wall);
        let federation = &self.service.federation;
        let inside = standing.transaction.as_ref();
        let picture =
            availability::query(federation, &shown.snapshot, &frames, &user, inside).await;
        let share = self.share(&user);
        let frame = |(view, change): (
            &coalloc_common::topology::FrameView,
            &Option<coalloc_common::Time>,
        )| {
            let window = view.window;
            let open = window.start() >= first && window.end() <= last;
            let free = shown.all.resources().iter().zip(shown.all.free(view));
            let free = free.map(|(resource, free)| {
                let own = least(&standing.wanted, &resource.name, window);
                if open { may_take(own, free, share).0 } else { own.0 }
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
        use v1::hold_response::Answer as Wire;
        self.check_meant(&request.get_ref().resource_manager)?;
        let order = order_from_wire(request.get_ref()).map_err(|e| status::invalid(&e))?;
        // If the caller goes away, the hold goes on in its own task.
        let (service, wanted) = (self.clone(), order.clone());
        let task = tokio::spawn(async move { service.hold_whole(wanted).await });
        let unknown = |_| status::outcome_unknown("transaction", order.txn.as_str());
        let answer = task.await.map_err(unknown)??;
        tracing::info!(txn = %order.txn, coordinator = %order.coordinator, ?answer, "a parent's hold");
        let answer = match answer {
            Answer::Held { expires_in } => {
                Wire::Held(v1::Held { expires_in: Some(convert::span_to_wire(expires_in)) })
            }
            Answer::Refused(refusal) => {
                let refusal = self.outward(&refusal, &order).await?;
                Wire::Refused(convert::refusal_to_wire(&refusal))
            }
            Answer::Denied => Wire::Refused(self.denial(&order.txn, &order.coordinator)),
            other => return Err(rejection(&other, order.txn.as_str())),
        };
        Ok(Response::new(v1::HoldResponse { answer: Some(answer), fresh: None }))
    }

    async fn commit(
        &self,
        request: Request<v1::CommitRequest>,
    ) -> Result<Response<v1::CommitResponse>, Status> {
        let v1::CommitRequest { transaction, coordinator, resource_manager } = request.into_inner();
        self.check_meant(&resource_manager)?;
        let refused = self.end(MessageKind::Commit, &transaction, &coordinator).await?;
        Ok(Response::new(v1::CommitResponse { refused }))
    }

    async fn abort(
        &self,
        request: Request<v1::AbortRequest>,
    ) -> Result<Response<v1::AbortResponse>, Status> {
        let v1::AbortRequest { transaction, coordinator, resource_manager } = request.into_inner();
        self.check_meant(&resource_manager)?;
        let refused = self.end(MessageKind::Abort, &transaction, &coordinator).await?;
        Ok(Response::new(v1::AbortResponse { refused }))
    }

    async fn release(
        &self,
        request: Request<v1::ReleaseRequest>,
    ) -> Result<Response<v1::ReleaseResponse>, Status> {
        let v1::ReleaseRequest { transaction, coordinator, resource_manager } =
            request.into_inner();
        self.check_meant(&resource_manager)?;
        let refused = self.end(MessageKind::Release, &transaction, &coordinator).await?;
        Ok(Response::new(v1::ReleaseResponse { refused }))
    }

    async fn compare_bookings(
        &self,
        request: Request<v1::CompareBookingsRequest>,
    ) -> Result<Response<v1::CompareBookingsResponse>, Status> {
        let wire = request.into_inner();
        self.check_meant(&wire.resource_manager)?;
        let coordinator = CoordinatorName::parse("coordinator", &wire.coordinator)
            .map_err(|error| status::invalid(&error))?;
        let (from, theirs) =
            convert::compare_from_wire(&wire).map_err(|error| status::invalid(&error))?;
        let (name, ledger) = (coordinator.clone(), self.service.ledger_id.clone());
        let look = move |core: &Coordinator| {
            let nothing = BookingSet::default();
            let ours = core.booked_for_parent(&coordinator).unwrap_or(&nothing);
            let known = core.serves(&coordinator);
            known.then(|| convert::compared_to_wire(ledger, ours, &theirs, from..))
        };
        let denied = || status::denied(format!("coordinator {name} is not configured as a parent"));
        self.service.handle.read(look).await?.map(Response::new).ok_or_else(denied)
    }

    async fn list_bookings(
        &self,
        request: Request<v1::ListBookingsRequest>,
    ) -> Result<Response<v1::ListBookingsResponse>, Status> {
        listing::page(&self.service.handle, request.into_inner()).await.map(Response::new)
    }
}
