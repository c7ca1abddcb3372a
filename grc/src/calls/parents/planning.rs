//! Plans a parent's hold inside this federation. Each period of the hold is a request of its own: its sites are pinned,
//! and each path is a link between the path's ends. The usual planner plans it on what is free.
//!
//! A refusal is in terms that the parent knows: the first site or path that does not fit beside those before it, and
//! how much of it would fit.

use std::collections::BTreeMap;
use std::sync::Arc;

use coalloc_common::topology::FrameView;
use coalloc_common::{
    Reason, Refusal, Requester, RmName, Segment, Time, TransactionId, UserName, Window, limits,
    service_level,
};
use coalloc_net::convert;
use coalloc_plan::abstracted::periods::{Periods, WantedAmounts, kept, least, periods};
use coalloc_plan::abstracted::refused::{is_short, of_resource, unplanned};
use coalloc_plan::abstracted::{Inner, short};
use coalloc_plan::{Budget, Instance, learned};
use coalloc_proto::v1;
use coalloc_protocol::coordinator::{Candidate, Coordinator, Details, State};
use coalloc_protocol::message::HoldOrder;
use tonic::Status;

use super::ParentService;
use super::servers::wishes;
use super::snapshot::AbstractSnapshot;
use crate::availability::{self, FrameAvailability};
use crate::calls::modify::merged;
use crate::planning::{ExplainedFrames, PlanningOutcome};
use crate::views::kept;
use crate::views::view;

/// The booking here of a parent's transaction that a new version replaces.
#[derive(Debug, Clone, Default)]
pub(super) struct ReplacedBooking {
    /// The segments as the parent knows them.
    pub(super) wanted: Vec<Segment>,
    /// The transaction of this coordinator that has booked it.
    pub(super) transaction: Option<TransactionId>,
    /// The segments that this transaction has booked at each RM of this federation.
    inside: BTreeMap<RmName, Vec<Segment>>,
    details: Details,
}

impl ParentService {
    /// The booking here of a parent's transaction; `None` when it is not booked.
    pub(super) async fn standing(
        &self,
        txn: &TransactionId,
    ) -> Result<Option<ReplacedBooking>, Status> {
        let txn = txn.clone();
        let look = move |core: &Coordinator| {
            let known = core.reservation_for_parent(&txn)?;
            let (order, booked) = (core.parent_order(known)?, known.candidate.as_ref()?);
            (known.state == State::Confirmed).then(|| ReplacedBooking {
                wanted: order.segments.clone(),
                transaction: known.transaction.clone(),
                inside: booked.segments.clone(),
                details: booked.details.clone(),
            })
        };
        self.service.handle.read(look).await
    }

    /// What a user may take through this requester, and what the requester may know.
    pub(super) fn level(&self, requester: &Requester, user: &UserName) -> ParentLevel {
        let levels = &self.config.levels;
        ParentLevel { share: levels.share(requester, user), best: levels.best(requester) }
    }

    /// The first and the last instant at which this coordinator books for parents.
    pub(super) fn open_between(&self, now: Time) -> (Time, Time) {
        (now.saturating_sub(limits::START_GRACE), now.saturating_add(self.config.horizon))
    }

    /// Plans what a hold wants inside. Where the `refusals` of its earlier attempts leave less than the RMs report as
    /// free, the refusals count.
    pub(super) async fn plan(
        &self,
        order: &HoldOrder,
        refusals: &[Refusal],
    ) -> Result<Result<Candidate, Refusal>, Status> {
        let standing = match &order.replaces {
            None => ReplacedBooking::default(),
            Some(old) => match self.standing(old).await? {
                Some(standing) => standing,
                None => {
                    let text = format!("{old} is not booked here, so it cannot be replaced");
                    return Ok(Err(Refusal::new(Reason::NotHeld, text)));
                }
            },
        };
        let now = self.service.handle.now().wall;
        let parts = periods(&order.segments, &standing.wanted, now);
        if let Err(refusal) = self.check_periods(&parts, now) {
            return Ok(Err(refusal));
        }
        let stays = kept(&standing.inside, &parts.kept);
        if parts.planned.is_empty() {
            let old = at_once(BTreeMap::new(), standing.details);
            let plan = view::plan(Some(&old)).filter(|_| !stays.is_empty());
            let segments = merged(stays);
            let details = kept::co_allocation(&joined(plan.into_iter().collect(), &segments));
            return Ok(Ok(at_once(segments, details.into())));
        }
        let shown = self.shown()?;
        let mut wires = Vec::with_capacity(parts.planned.len());
        let mut all = stays;
        let planned = self.plan_periods(&shown, order, &parts, &standing, refusals).await?;
        let planned = match planned {
            Ok(planned) => planned,
            Err(refusal) => return Ok(Err(refusal)),
        };
        for (inner, planned) in &planned {
            let topology = &shown.snapshot.topology;
            let Some(best) = planned.plans.first() else { continue };
            wires.push(convert::plan_to_wire(topology, &inner.request, best));
            for (rm, segments) in best.plan.segments(topology, &inner.request) {
                all.entry(rm).or_default().extend(segments);
            }
        }
        let segments = merged(all);
        let details = kept::co_allocation(&joined(wires, &segments));
        let servers = wishes(&shown.snapshot, order, &segments);
        let candidate = at_once(segments, details.into());
        Ok(servers.map(|servers| Candidate { servers, ..candidate }))
    }

    /// Checks that all periods to be planned lie within the time that can be booked, and that they are not too many.
    fn check_periods(&self, parts: &Periods, now: Time) -> Result<(), Refusal> {
        let (first, last) = self.open_between(now);
        let open = |window: &Window| window.start() >= first && window.end() <= last;
        if let Some((window, _)) = parts.planned.iter().find(|(window, _)| !open(window)) {
            let text = format!("{}: {window} is not within {first} to {last}", self.service.name);
            let refusal = Refusal::new(Reason::OutsideHorizon, text);
            return Err(Refusal { window: Some(*window), ..refusal });
        }
        let (count, max) = (parts.planned.len(), limits::UPWARD_PERIODS_MAX);
        if count > max {
            let text = format!("a hold of {count} different periods; at most {max} are planned");
            return Err(Refusal::new(Reason::BeyondCapacity, text));
        }
        Ok(())
    }

    /// Plans every period. If one has no plan, the refusal says why.
    async fn plan_periods(
        &self,
        shown: &AbstractSnapshot,
        order: &HoldOrder,
        parts: &Periods,
        standing: &ReplacedBooking,
        refusals: &[Refusal],
    ) -> Result<Result<Vec<(Inner, PlanningOutcome)>, Refusal>, Status> {
        let federation = &shown.snapshot;
        let mut requests = Vec::with_capacity(parts.planned.len());
        for (window, wanted) in &parts.planned {
            match shown.all.request(*window, wanted) {
                Ok(inner) => requests.push((inner, wanted)),
                // The resource may belong to an RM that has not answered since the start.
                Err(refusal)
                    if refusal.reason == Reason::UnknownResource
                        && !federation.missing.is_empty() =>
                {
                    return Err(Status::unavailable(format!(
                        "{refusal}; some members are missing"
                    )));
                }
                Err(refusal) => return Ok(Err(refusal)),
            }
        }
        let windows = parts.planned.iter().map(|(window, _)| *window).collect();
        let (windows, outside) =
            availability::bookable(federation, windows, self.service.handle.now().wall);
        if let Some((_, refusal)) = outside.into_iter().next() {
            return Ok(Err(refusal));
        }
        let (rms, replaces) = (&self.service.federation, standing.transaction.as_ref());
        let FrameAvailability { views, unreachable, .. } =
            availability::query(rms, federation, &windows, &order.user, replaces.into()).await;
        let mut planned = Vec::with_capacity(requests.len());
        for ((inner, wanted), mut view) in requests.into_iter().zip(views) {
            let believed = learned::believed(self.service.defaults.solver);
            learned::believe(&federation.topology, refusals, believed, &mut view);
            let parent = Requester::Coordinator(order.coordinator.clone());
            let level = self.level(&parent, &order.user);
            if let Some(refusal) = beyond_level(shown, &view, level, wanted, standing) {
                return Ok(Err(refusal));
            }
            let (views, unreachable) = (vec![view.clone()], unreachable.clone());
            let picture = FrameAvailability { views, changes: Vec::new(), unreachable };
            let (request, options) = (inner.request.clone(), self.service.defaults);
            let federation = Arc::clone(federation);
            let one = self
                .service
                .planners
                .of(&order.user)
                .plan(federation, request, options, picture, ExplainedFrames::Closest)
                .await?;
            if one.plans.is_empty() {
                return Ok(Err(self.short(shown, &inner, view, &one).await));
            }
            planned.push((inner, one));
        }
        Ok(Ok(planned))
    }

    /// The refusal if there is no plan, in terms that the parent knows.
    async fn short(
        &self,
        shown: &AbstractSnapshot,
        inner: &Inner,
        view: FrameView,
        planned: &PlanningOutcome,
    ) -> Refusal {
        let (why, window) = (planned.refusal(), view.window);
        if !is_short(&why) {
            return why;
        }
        let (federation, request) = (Arc::clone(&shown.snapshot), inner.request.clone());
        let options = self.service.defaults;
        let planner = self.service.planners.planner(options, limits::UPWARD_SHORT_TIME);
        let look = move |stop: &std::sync::atomic::AtomicBool| {
            let nodes = limits::EXACT_NODES_MAX;
            let budget = Budget { nodes, solver_time: limits::ALTERNATIVES_SOLVER_TIME, stop };
            let instance = Instance::new(&federation.topology, &request, &view);
            short(&instance, planner.as_ref(), &budget)
        };
        let time = limits::UPWARD_SHORT_TIME;
        // If the search gives no answer, the refusal is the same, only less precise.
        let found = self.service.planners.run(options.solver, time, look).await.ok().flatten();
        unplanned(&shown.all, inner, window, why, found)
    }
}

/// How much of what is free here a parent's user may take, and how much of it the parent may know, in percent.
#[derive(Debug, Clone, Copy)]
pub(super) struct ParentLevel {
    /// The user's service level.
    pub(super) share: u32,
    /// The parent's best level, which is at least the share.
    best: u32,
}

/// The refusal if a service level does not allow an amount that the parent may know to be free. To a parent that may not
/// know all, the rest is not free.
fn beyond_level(
    shown: &AbstractSnapshot,
    view: &FrameView,
    ParentLevel { share, best }: ParentLevel,
    wanted: &WantedAmounts,
    standing: &ReplacedBooking,
) -> Option<Refusal> {
    let window = view.window;
    if share == service_level::WHOLE {
        return None;
    }
    for (resource, free) in shown.all.resources().iter().zip(shown.all.free(view)) {
        let Some(amount) = wanted.get(&resource.name) else { continue };
        let own = least(&standing.wanted, &resource.name, window);
        let most = service_level::most(own, free, share);
        if *amount <= most {
            continue;
        }
        let (has, asked) = (resource.what.show(most), resource.what.show(*amount));
        let name = &resource.name;
        if *amount <= service_level::most(own, free, best) {
            let detail = format!(
                "the user's service level is {share} % of what is free: {has} of {name} in \
                 {window}, {asked} were asked for"
            );
            let reason = Reason::ServiceLevel;
            return Some(of_resource(reason, name, window, *amount, most, detail));
        }
        if best < service_level::WHOLE {
            let detail =
                format!("{name}: {has} of the requested {asked} are available in {window}");
            let reason = Reason::InsufficientCapacity;
            return Some(of_resource(reason, name, window, *amount, most, detail));
        }
    }
    None
}

/// A candidate that is held everywhere at once. A refusal inside ends the hold: the parent makes the next choice.
fn at_once(segments: BTreeMap<RmName, Vec<Segment>>, details: Details) -> Candidate {
    Candidate { segments, details, ..Candidate::default() }
}

/// One plan, made from those of several periods and from what stays booked.
fn joined(wires: Vec<v1::Plan>, segments: &BTreeMap<RmName, Vec<Segment>>) -> v1::Plan {
    let mut wires = wires.into_iter();
    let mut plan = wires.next().unwrap_or_default();
    plan.routes.extend(wires.flat_map(|wire| wire.routes));
    let windows = || segments.values().flatten().map(|segment| segment.window);
    let (start, end) = (windows().map(|w| w.start()).min(), windows().map(|w| w.end()).max());
    if let (Some(start), Some(end)) = (start, end) {
        plan.window = Window::new(start, end).map(convert::window_to_wire).or(plan.window);
    }
    plan.digest = convert::plan_digest(segments);
    let of =
        |(rm, segments): (&RmName, &Vec<Segment>)| convert::segments_to_wire(Some(rm), segments);
    plan.segments = segments.iter().flat_map(of).collect();
    plan
}
