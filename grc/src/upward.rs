//! The ResourceManager service of a coordinator: its whole federation as one RM to those above.
//!
//! Describe shows its sites and one abstract path between every two end points (sites and border
//! points), named `GRC:A--B`. A hold becomes a request of its own: sites pinned, each abstract path a
//! link between its ends, planned by the usual planner and tried by the coordinator core, which is
//! the participant upward. Nothing of the inside leaves: neither paths nor the names in a refusal.
//!
//! Left out: `replaces`, several windows in one hold, several candidates, WatchBookings.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use coalloc_common::invalid::check_range;
use coalloc_common::{
    Amount, BitsPerSecond, CoAllocation, CoordinatorName, Cpus, InvalidField, LinkDemand, Reason,
    Refusal, Segment, SiteDemand, SiteName, Span, Time, Timing, TransactionId, VertexIndex, Window,
    limits,
};
use coalloc_net::{client, clock, convert, status};
use coalloc_plan::abstracted::{self, AbstractPath};
use coalloc_proto::v1;
use coalloc_proto::v1::resolver_client::ResolverClient;
use coalloc_proto::v1::resource_manager_server::ResourceManager;
use coalloc_protocol::coordinator::{
    Candidate, Coordinator, CoordinatorInput, MessageKind, Reply, State, Upper, UpperEntry,
};
use coalloc_protocol::message::{Answer, Decision, HoldOrder, Resolution};
use tokio::sync::mpsc;
use tonic::{Request, Response, Status};

use crate::federation::Snapshot;
use crate::service::GrcService;
use crate::shell::Handle;
use crate::upward_config::UpwardConfig;
use crate::{picture, view};

/// The handlers.
#[derive(Debug, Clone)]
pub struct UpwardService {
    /// What this coordinator is to those above.
    pub config: UpwardConfig,
    /// The coordinator itself.
    pub service: GrcService,
}

/// What is shown of one moment's federation.
struct Shown {
    snapshot: Arc<Snapshot>,
    sites: Vec<VertexIndex>,
    paths: Vec<AbstractPath>,
    /// A path is two resources when every edge inside has a capacity for each direction.
    full_duplex: bool,
}

impl UpwardService {
    fn shown(&self) -> Result<Shown, Status> {
        let snapshot = self.service.federation.snapshot();
        let topology = &snapshot.topology;
        let sites: Vec<VertexIndex> = topology.sites().map(|(vertex, ..)| vertex).collect();
        let borders = self.config.border_points.iter().filter_map(|n| topology.find_vertex(n));
        let mut points = sites.clone();
        points.extend(borders.filter(|border| !sites.contains(border)));
        if points.len() > limits::UPWARD_POINTS_MAX {
            let (count, max) = (points.len(), limits::UPWARD_POINTS_MAX);
            let text = format!("{count} sites and border points; at most {max} can be shown above");
            return Err(Status::failed_precondition(text));
        }
        let edges_max = self.service.defaults.route_edges_max as usize;
        let paths = abstracted::paths(topology, &points, edges_max);
        let full_duplex = abstracted::is_full_duplex(topology);
        Ok(Shown { snapshot, sites, paths, full_duplex })
    }

    fn path_name(&self, shown: &Shown, path: &AbstractPath) -> String {
        let name = |at| &shown.snapshot.topology.vertex(at).name;
        format!("{}:{}--{}", self.service.name, name(path.a), name(path.b))
    }

    fn check_meant(&self, meant: &str) -> Result<(), Status> {
        let name = &self.service.name;
        if meant.is_empty() || meant == name {
            return Ok(());
        }
        Err(Status::failed_precondition(format!("this is {name}, not {meant}; nothing was done")))
    }

    async fn upper(
        &self,
        input: impl FnOnce(coalloc_protocol::message::Token) -> Upper,
    ) -> Result<Reply, Status> {
        self.service.handle.call(|token| CoordinatorInput::Upper(input(token))).await
    }

    /// Plans what a hold wants inside.
    async fn plan(&self, order: &HoldOrder) -> Result<Result<Vec<Candidate>, Refusal>, Status> {
        if let Some(refusal) = self.outside(order, clock::now().wall) {
            return Ok(Err(refusal));
        }
        let shown = self.shown()?;
        let request = match self.inner_request(&shown, order) {
            Ok(request) => request,
            // It may be an RM's that has not answered yet since the start.
            Err(refusal)
                if refusal.reason == Reason::UnknownResource
                    && !shown.snapshot.missing.is_empty() =>
            {
                return Err(Status::unavailable(format!("{refusal}; some members are missing")));
            }
            Err(refusal) => return Ok(Err(refusal)),
        };
        let federation = &shown.snapshot;
        let frames = request.timing.frames(1);
        let (frames, outside) = picture::bookable(federation, frames, clock::now().wall);
        if let Some((_, refusal)) = outside.into_iter().next() {
            return Ok(Err(refusal));
        }
        let inner = &self.service.federation;
        let picture = picture::query(inner, federation, &frames, &order.user, None).await;
        let options = self.service.defaults;
        let planners = &self.service.planners;
        let planned =
            planners.plan(Arc::clone(federation), request.clone(), options, picture).await?;
        if planned.plans.is_empty() {
            return Ok(Err(planned.refusal()));
        }
        let candidate = |plan| {
            let wire = convert::plan_to_wire(&federation.topology, &request, plan);
            let segments = plan.plan.segments(&federation.topology, &request);
            // At once: a refusal inside ends it, and the next choice is for the one above to make.
            Candidate { segments, order: Vec::new(), details: view::details(&wire).into() }
        };
        Ok(Ok(planned.plans.iter().map(candidate).collect()))
    }

    /// Why a hold is before or beyond what this coordinator books for those above, if it is.
    fn outside(&self, order: &HoldOrder, now: Time) -> Option<Refusal> {
        let (first, last) = self.open_between(now);
        let open = |window: Window| window.start() >= first && window.end() <= last;
        let window = order.segments.iter().map(|s| s.window).find(|window| !open(*window))?;
        let text = format!("{}: {window} is not within {first} to {last}", self.service.name);
        Some(Refusal { window: Some(window), ..Refusal::new(Reason::OutsideHorizon, text) })
    }

    /// From when until when it books for those above.
    fn open_between(&self, now: Time) -> (Time, Time) {
        (now.saturating_sub(limits::START_GRACE), now.saturating_add(self.config.horizon))
    }

    /// The segments of a hold as a request to this coordinator's own RMs.
    fn inner_request(&self, shown: &Shown, order: &HoldOrder) -> Result<CoAllocation, Refusal> {
        let window = order.segments.first().map(|segment| segment.window);
        let window = window.filter(|window| order.segments.iter().all(|s| s.window == *window));
        let Some(window) = window else {
            let text = "a hold at a coordinator has one window for all its segments";
            return Err(Refusal::new(Reason::Denied, text));
        };
        let topology = &shown.snapshot.topology;
        let mut ends: BTreeMap<String, (VertexIndex, VertexIndex, Span)> = BTreeMap::new();
        for path in &shown.paths {
            let name = self.path_name(shown, path);
            if shown.full_duplex {
                ends.insert(format!("{name}:ab"), (path.a, path.b, path.latency));
                ends.insert(format!("{name}:ba"), (path.b, path.a, path.latency));
            } else {
                ends.insert(name, (path.a, path.b, path.latency));
            }
        }
        let mut demands = Demands { sites: Vec::new(), index: BTreeMap::new() };
        let mut links = Vec::new();
        for segment in &order.segments {
            let site = shown
                .sites
                .iter()
                .find(|site| topology.vertex(**site).name.as_str() == segment.resource.as_str());
            if let Some(site) = site {
                let at = demands.at(shown, *site);
                demands.sites[at].cpus = Cpus(segment.amount.0);
                continue;
            }
            let Some((a, b, latency)) = ends.get(segment.resource.as_str()) else {
                let text = format!("there is no resource {}", segment.resource);
                let resource = Some(segment.resource.clone());
                return Err(Refusal { resource, ..Refusal::new(Reason::UnknownResource, text) });
            };
            links.push(LinkDemand {
                from: demands.at(shown, *a),
                to: demands.at(shown, *b),
                bandwidth: BitsPerSecond(segment.amount.0),
                // What was shown is kept: no way inside may be slower.
                latency_max: Some(*latency),
            });
        }
        let (sites, start) = (demands.sites, window.start());
        if sites.len() > limits::REQUEST_SITES_MAX || links.len() > limits::REQUEST_LINKS_MAX {
            let (sites_max, links_max) = (limits::REQUEST_SITES_MAX, limits::REQUEST_LINKS_MAX);
            let text = format!("at most {sites_max} end points and {links_max} paths in one hold");
            return Err(Refusal::new(Reason::BeyondCapacity, text));
        }
        let duration = window.length();
        let timing = Timing { earliest_start: start, latest_start: start, duration };
        Ok(CoAllocation { sites, links, timing })
    }

    /// A refusal from inside as it may be told above: of what was asked for, not of what is inside.
    fn outward(&self, refusal: &Refusal, order: &HoldOrder) -> Refusal {
        let named = |segment: &&Segment| Some(&segment.resource) == refusal.resource.as_ref();
        let known = order.segments.iter().find(named);
        // Not a site's: it lies on the way of a path.
        let path = || order.segments.iter().find(|s| s.resource.as_str().contains("--"));
        let segment = known.or_else(path).or(order.segments.first());
        let short = match (refusal.requested, refusal.available) {
            (Some(requested), Some(available)) => requested.0.saturating_sub(available.0),
            _ => 0,
        };
        let available = segment.map(|s| Amount(s.amount.0.saturating_sub(short.max(1))));
        let detail = match segment {
            Some(s) if known.is_some() => format!("{}: not enough is free", s.resource),
            Some(s) => format!("{}: no way inside for all that is asked", s.resource),
            None => "not possible inside".to_owned(),
        };
        let about = refusal.reason == Reason::InsufficientCapacity
            || refusal.reason == Reason::NoRoute
            || refusal.reason == Reason::BeyondCapacity;
        let reason = match refusal.reason {
            // To the one above this is an amount that is not there.
            Reason::NoRoute => Reason::InsufficientCapacity,
            other => other,
        };
        Refusal {
            rm: None,
            resource: segment.filter(|_| about).map(|s| s.resource.clone()),
            window: segment.map(|s| s.window),
            requested: segment.filter(|_| about).map(|s| s.amount),
            available: available.filter(|_| about),
            ..Refusal::new(reason, if about { detail } else { self.words(refusal) })
        }
    }

    fn words(&self, refusal: &Refusal) -> String {
        let what = match refusal.reason {
            Reason::Expired => "the hold had expired",
            Reason::Aborted => "it was aborted",
            Reason::Released => "it was released",
            Reason::NotHeld => "nothing is held, and never will be",
            Reason::OutsideHorizon => return refusal.detail.clone(),
            Reason::UnknownResource => return refusal.detail.clone(),
            Reason::Mixed => "some of it could not be booked; the rest is released",
            _ => "it could not be held inside in time",
        };
        format!("{}: {what}", self.service.name)
    }
}

/// End points of a request under construction: one demand each, however many segments meet there.
struct Demands {
    sites: Vec<SiteDemand>,
    index: BTreeMap<VertexIndex, usize>,
}

impl Demands {
    fn at(&mut self, shown: &Shown, vertex: VertexIndex) -> usize {
        let sites = &mut self.sites;
        *self.index.entry(vertex).or_insert_with(|| {
            let name = shown.snapshot.topology.vertex(vertex).name.clone();
            sites.push(SiteDemand {
                name: SiteName::composed(name.as_str()),
                cpus: Cpus(0),
                pinned: Some(name),
                excluded: BTreeSet::new(),
            });
            sites.len() - 1
        })
    }
}

fn order_from_wire(wire: &v1::HoldRequest) -> Result<HoldOrder, InvalidField> {
    if !wire.replaces.is_empty() {
        let allowed = "nothing: a coordinator does not change what it holds for one above";
        return Err(InvalidField::new("replaces", &wire.replaces, allowed));
    }
    let hold_for = wire.hold_for.as_ref();
    let hold_for = hold_for.map(|span| convert::span_from_wire("hold_for", span)).transpose()?;
    if let Some(span) = hold_for
        && !(limits::HOLD_SOFT_MIN..=limits::HOLD_SOFT_MAX).contains(&span)
    {
        let (low, high) = (limits::HOLD_SOFT_MIN, limits::HOLD_SOFT_MAX);
        return Err(InvalidField::new("hold_for", span, format!("{low} to {high}")));
    }
    Ok(HoldOrder {
        txn: TransactionId::parse("transaction", &wire.transaction)?,
        coordinator: CoordinatorName::parse("coordinator", &wire.coordinator)?,
        user: convert::user_name("user", &wire.user)?,
        segments: convert::segments_from_wire("segments", &wire.segments)?,
        hold_for,
        replaces: None,
    })
}

/// The call has no answer, and nothing is known of its effect.
fn unanswered(reply: &Reply) -> Status {
    match reply {
        Reply::Forgotten => Status::aborted("the same message came again and is answered there"),
        _ => status::stopping(),
    }
}

fn rejection(answer: &Answer, txn: &str) -> Status {
    match answer {
        Answer::OtherContent => status::other_content("transaction", txn),
        Answer::Denied => status::denied(format!(
            "{txn}: the coordinator is not configured above this one, or it is another's"
        )),
        _ => Status::internal("the coordinator gave an answer that this call does not have"),
    }
}

impl UpwardService {
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
        let known = txn.clone();
        let reply = self.upper(|token| Upper::End { txn, by, kind, token }).await?;
        let Reply::Upper(answer) = reply else { return Err(unanswered(&reply)) };
        tracing::info!(txn = %known, coordinator, ?kind, ?answer, "from above");
        match answer {
            Answer::Done => Ok(None),
            Answer::Refused(refusal) => {
                let reason = refusal.reason;
                let refusal = Refusal::new(reason, self.words(&refusal));
                Ok(Some(convert::refusal_to_wire(&refusal)))
            }
            other => Err(rejection(&other, transaction)),
        }
    }
}

#[tonic::async_trait]
impl ResourceManager for UpwardService {
    type WatchBookingsStream = coalloc_net::watch::Watch<v1::WatchBookingsResponse>;

    async fn watch_bookings(
        &self,
        _: Request<v1::WatchBookingsRequest>,
    ) -> Result<Response<Self::WatchBookingsStream>, Status> {
        Err(Status::unimplemented("WatchBookings of a coordinator: use Coordinator.Watch"))
    }

    async fn describe(
        &self,
        _: Request<v1::DescribeRequest>,
    ) -> Result<Response<v1::DescribeResponse>, Status> {
        let shown = self.shown()?;
        let topology = &shown.snapshot.topology;
        let sites = topology.sites().map(|(_, vertex, compute)| v1::Site {
            name: vertex.name.to_string(),
            cpus: compute.capacity.0,
            unit_value: Some(compute.unit_value.0),
            ..v1::Site::default()
        });
        let paths = shown.paths.iter().map(|path| v1::Path {
            name: self.path_name(&shown, path),
            a: topology.vertex(path.a).name.to_string(),
            b: topology.vertex(path.b).name.to_string(),
            capacity_bps: path.width.0,
            unit_value: Some(path.unit_value.min(limits::UNIT_VALUE_MAX)),
            latency: Some(convert::span_to_wire(path.latency.min(limits::LATENCY_MAX))),
            full_duplex: shown.full_duplex,
            ..v1::Path::default()
        });
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
            sites: sites.collect(),
            paths: paths.collect(),
            horizon: Some(convert::span_to_wire(self.config.horizon)),
            coordinators_below: below,
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
            Ok::<_, InvalidField>((frames?, convert::user_name("user", &wire.user)?))
        };
        let (frames, user) = parsed().map_err(|error| status::invalid(&error))?;
        let shown = self.shown()?;
        let (first, last) = self.open_between(clock::now().wall);
        let federation = &self.service.federation;
        let picture = picture::query(federation, &shown.snapshot, &frames, &user, None).await;
        let edges_max = self.service.defaults.route_edges_max as usize;
        let frame = |(view, change): (
            &coalloc_common::topology::FrameView,
            &Option<coalloc_common::Time>,
        )| {
            let open = view.window.start() >= first && view.window.end() <= last;
            let mut free: Vec<u64> =
                shown.sites.iter().map(|site| view.free_cpus[site.at()].0).collect();
            let mut widths: BTreeMap<VertexIndex, Vec<BitsPerSecond>> = BTreeMap::new();
            let mut width = |from: VertexIndex, to: VertexIndex| {
                let topology = &shown.snapshot.topology;
                let row = widths.entry(from);
                row.or_insert_with(|| abstracted::widest(topology, view, from, edges_max))[to.at()]
                    .0
            };
            for path in &shown.paths {
                free.push(width(path.a, path.b));
                if shown.full_duplex {
                    free.push(width(path.b, path.a));
                }
            }
            if !open {
                free.fill(0);
            }
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
        let hold = |planned| {
            let order = order.clone();
            self.upper(move |token| Upper::Hold { order, planned, token })
        };
        let mut reply = hold(None).await?;
        if reply == Reply::PlanUpper {
            reply = hold(Some(self.plan(&order).await?)).await?;
        }
        let Reply::Upper(answer) = reply else { return Err(unanswered(&reply)) };
        tracing::info!(txn = %order.txn, coordinator = %order.coordinator, ?answer, "hold from above");
        let answer = match answer {
            Answer::Held { expires_in } => {
                Wire::Held(v1::Held { expires_in: Some(convert::span_to_wire(expires_in)) })
            }
            Answer::Refused(refusal) => {
                Wire::Refused(convert::refusal_to_wire(&self.outward(&refusal, &order)))
            }
            other => return Err(rejection(&other, order.txn.as_str())),
        };
        Ok(Response::new(v1::HoldResponse { answer: Some(answer) }))
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
        self.end(MessageKind::Release, &transaction, &coordinator).await?;
        Ok(Response::new(v1::ReleaseResponse {}))
    }

    async fn list_bookings(
        &self,
        request: Request<v1::ListBookingsRequest>,
    ) -> Result<Response<v1::ListBookingsResponse>, Status> {
        let wire = request.into_inner();
        let size = wire.page_size.unwrap_or(limits::PAGE_DEFAULT);
        let size = check_range("page_size", size, 1..=limits::PAGE_MAX, "entries")
            .map_err(|error| status::invalid(&error))? as usize;
        let window = wire.window.as_ref();
        let window = window.map(|w| convert::window_from_wire("window", Some(w))).transpose();
        let window = window.map_err(|error| status::invalid(&error))?;
        let look = move |core: &Coordinator| {
            let shown = core.uppers().iter().filter(|(txn, _)| txn.as_str() > &*wire.page_token);
            let shown = shown.filter_map(|(txn, entry)| booking(core, txn, entry));
            let mut wanted = shown.filter(|(live, segments, _)| {
                (*live || wire.include_ended)
                    && window.is_none_or(|window| segments.iter().any(|s| s.overlaps(window)))
            });
            let bookings: Vec<v1::Booking> =
                wanted.by_ref().take(size).map(|(_, _, booking)| booking).collect();
            let more = wanted.next().is_some();
            let last = bookings.last().filter(|_| more).map(|b| b.transaction.clone());
            v1::ListBookingsResponse { bookings, next_page_token: last.unwrap_or_default() }
        };
        Ok(Response::new(self.service.handle.read(look).await?))
    }
}

/// One transaction of a coordinator above as it stands here; is it live, and when is it.
fn booking(
    core: &Coordinator,
    txn: &TransactionId,
    entry: &UpperEntry,
) -> Option<(bool, Vec<Window>, v1::Booking)> {
    let mut shown = v1::Booking {
        transaction: txn.to_string(),
        coordinator: entry.coordinator.to_string(),
        state: v1::BookingState::Aborted.into(),
        ..v1::Booking::default()
    };
    let Some((order, id)) = &entry.order else { return Some((false, Vec::new(), shown)) };
    let known = core.find(id.as_str())?;
    let (live, state) = match known.state {
        State::Checking | State::Held | State::Aborting => (true, v1::BookingState::Held),
        State::Committing | State::Confirmed | State::Terminating => {
            (true, v1::BookingState::Booked)
        }
        State::Terminated => (false, v1::BookingState::Released),
        State::Failed => match known.refusal.as_ref().map(|refusal| refusal.reason) {
            Some(Reason::Expired) => (false, v1::BookingState::Expired),
            Some(Reason::Aborted) => (false, v1::BookingState::Aborted),
            _ => (false, v1::BookingState::Refused),
        },
    };
    shown.user = order.user.to_string();
    shown.state = state.into();
    shown.segments = convert::segments_to_wire(None, &order.segments);
    let left = core.promised_until(known).map(|until| until.since(clock::now().boot));
    shown.expires_in = left.map(|left| convert::span_to_wire(left.max(Span::ZERO)));
    Some((live, order.segments.iter().map(|s| s.window).collect(), shown))
}

/// Asks coordinators above what became of their transactions, each question on its own.
pub(crate) async fn ask_all(
    own: String,
    config: UpwardConfig,
    mut asked: mpsc::UnboundedReceiver<(CoordinatorName, TransactionId)>,
    handle: Handle,
) {
    while let Some((coordinator, txn)) = asked.recv().await {
        let address = config.coordinators.get(&coordinator);
        // Checked when the configuration was read; a new connection each time, questions are rare.
        let channel = address.and_then(|address| client::channel("address", address).ok());
        let Some(channel) = channel else { continue };
        let (own, handle) = (own.clone(), handle.clone());
        tokio::spawn(async move {
            let mut request = Request::new(v1::ResolveRequest {
                transaction: txn.to_string(),
                resource_manager: own,
            });
            request.set_timeout(limits::MESSAGE_PATIENCE.to_std());
            let resolution = match ResolverClient::new(channel).resolve(request).await {
                Ok(answer) => match answer.into_inner().decision() {
                    v1::Decision::Commit => Resolution::Decided(Decision::Commit),
                    v1::Decision::Abort => Resolution::Decided(Decision::Abort),
                    v1::Decision::Unspecified => Resolution::Lost,
                },
                Err(status) if status.code() == tonic::Code::NotFound => Resolution::NotMine,
                Err(_) => Resolution::Lost,
            };
            tracing::info!(%txn, %coordinator, ?resolution, "asked above what became of a hold");
            // Busy: the alarm of the promise asks again.
            handle.tell(CoordinatorInput::Upper(Upper::Resolved { txn, resolution }));
        });
    }
}
