//! Differences between bookings here and what RMs have for them, which repair is offered for each, and how a repair is made.
//!
//! Only a difference that a comparison has found ([`crate::node::reconcile`]), or equipment that cannot be used
//! ([`relocation`]), can be repaired. A repair is an ordinary
//! transaction of the core. Where an RM has lost the booking of a reservation that has begun, only the rest of the
//! booking is made again.

use std::collections::{BTreeMap, BTreeSet};

use coalloc_common::invalid::check_range;
use coalloc_common::{
    Amount, InvalidField, Now, RequestId, ReservationId, ResourceId, RmName, Segment, Time,
    TransactionId, UserName, Window, limits,
};
use coalloc_net::convert::{plan_digest, segments_to_wire, time_to_wire, user_name};
use coalloc_net::status;
use coalloc_net::traces;
use coalloc_proto::v1;
use coalloc_protocol::coordinator::{
    Candidate, ChangeTicket, Coordinator, CoordinatorInput, Difference, Differs, DisownReply,
    Repair, Reservation, State, UnusableParts,
};
use coalloc_protocol::message::GrantedServers;
use tonic::Status;

use crate::calls::relocation;
use crate::calls::service::{CallSubject, GrcService, patient};
use crate::views::kept::{self, KeptPlan, KeptTask, KeptWorkflow};
use crate::views::view::{self, RunningState};

/// The repair that is offered for a difference, and why. `repair` is `None` if nothing can be done here.
struct RepairOffer {
    repair: Option<v1::RepairKind>,
    why: String,
    user: String,
}

fn offer(core: &Coordinator, difference: &Difference) -> RepairOffer {
    let known = difference.reservation.as_ref().and_then(|id| core.find(id.as_str()));
    let user = known.map(|known| known.ticket.user.to_string()).unwrap_or_default();
    let (repair, why) = match (difference.differs, known) {
        (Differs::MissingThere | Differs::OtherContent, Some(known))
            if known.parent_transaction.is_some() =>
        {
            (
                None,
                format!(
                    "{} is booked for a parent coordinator: release it and reserve it there",
                    known.id
                ),
            )
        }
        (Differs::MissingThere, _) => {
            let why = "it is confirmed here; it is booked again if that is free".to_owned();
            (Some(v1::RepairKind::BookAgain), why)
        }
        (Differs::OtherContent, _) => {
            let why = "it is confirmed here with other content, which is booked again".to_owned();
            (Some(v1::RepairKind::BookAgain), why)
        }
        (Differs::UnknownHere, Some(known)) => {
            (Some(v1::RepairKind::Release), stands_not(known, &difference.txn))
        }
        (Differs::UnknownHere, None) => {
            let why =
                "another ledger of this coordinator's name opened it: nobody here knows whether \
                 it is needed"
                    .to_owned();
            (Some(v1::RepairKind::Release), why)
        }
    };
    RepairOffer { repair, why, user }
}

fn stands_not(known: &Reservation, txn: &TransactionId) -> String {
    let id = &known.id;
    match known.state {
        _ if known.transaction.as_ref() != Some(txn) => {
            format!("an earlier attempt at {id}, or an earlier version of it")
        }
        State::Terminated => format!("{id} was released"),
        _ => format!("{id} failed"),
    }
}

const fn kind(differs: Differs) -> v1::DifferenceKind {
    match differs {
        Differs::MissingThere => v1::DifferenceKind::MissingThere,
        Differs::UnknownHere => v1::DifferenceKind::UnknownHere,
        Differs::OtherContent => v1::DifferenceKind::OtherContent,
    }
}

fn shown(core: &Coordinator, difference: &Difference) -> v1::BookingDifference {
    let RepairOffer { repair, why, user } = offer(core, difference);
    v1::BookingDifference {
        transaction: difference.txn.to_string(),
        kind: kind(difference.differs).into(),
        reservation: difference.reservation.as_ref().map(ToString::to_string).unwrap_or_default(),
        user,
        ends: Some(time_to_wire(difference.ends)),
        repair: repair.unwrap_or(v1::RepairKind::Unspecified).into(),
        why,
    }
}

/// A checked repair call.
struct ParsedRepair {
    id: RequestId,
    rm: RmName,
    txn: TransactionId,
    by: UserName,
    why: String,
}

impl ParsedRepair {
    fn parse(wire: v1::RepairRequest) -> Result<Self, InvalidField> {
        let why = wire.why;
        let length = check_range("why", why.chars().count(), 0..=limits::WHY_MAX, "characters");
        length.map_err(|error| InvalidField::new("why", "too long", error.allowed))?;
        Ok(Self {
            id: RequestId::parse("repair_id", &wire.repair_id)?,
            rm: RmName::parse("resource_manager", &wire.resource_manager)?,
            txn: TransactionId::parse("transaction", &wire.transaction)?,
            by: user_name("by", &wire.by)?,
            why,
        })
    }
}

/// The parts of these segments that are not over.
fn left(segments: &[Segment], now: Time) -> Vec<Segment> {
    let left = |segment: &Segment| {
        let window = segment.window;
        let window = Window::new(window.start().max(now), window.end())?;
        Some(Segment { window, ..segment.clone() }).filter(|left| left.amount > Amount::ZERO)
    };
    segments.iter().filter_map(left).collect()
}

/// The candidate for booking again: the whole booking, but at the RMs in `lost` only the parts that are not over.
fn again(booked: &Candidate, lost: &[RmName], now: Time) -> Candidate {
    let mut again = booked.clone();
    for rm in lost {
        if let Some(segments) = again.segments.get_mut(rm) {
            *segments = left(segments, now);
        }
    }
    if again.segments != booked.segments {
        let of = |(rm, segments): (&RmName, &Vec<Segment>)| segments_to_wire(Some(rm), segments);
        let digest = plan_digest(&again.segments);
        let segments = again.segments.iter().flat_map(of).collect();
        // The route and the run that the plan of a task shows were also those of the part that is over.
        match kept::read(&again.details.text()) {
            Some(KeptPlan::CoAllocation(plan)) => {
                let plan = v1::Plan { digest, segments, ..*plan };
                again.details = kept::co_allocation(&plan).into();
            }
            Some(KeptPlan::Task(task)) => {
                let task_plan = v1::TaskPlan { digest, segments, ..task.task_plan };
                again.details = kept::task(&KeptTask { task_plan, ..*task }).into();
            }
            Some(KeptPlan::Workflow(kept)) => {
                let text = again.details.text();
                if let Some(plan) = kept::whole_workflow(&text) {
                    let plan = v1::WorkflowPlan { digest, segments, ..plan };
                    let request = kept::workflow_request(&text);
                    let KeptWorkflow { effort, revised, .. } = *kept;
                    let text = kept::workflow(&plan, effort, revised, request.as_ref());
                    again.details = text.into();
                }
            }
            None => {}
        }
    }
    again
}

/// At the RMs in `lost`, wants the servers that the reservation had there: its user was told so. If a site has several
/// grants, one wish cannot say which servers are for which of them, and the RM chooses.
fn with_same_servers(
    mut candidate: Candidate,
    lost: &[RmName],
    had: &BTreeMap<RmName, Vec<GrantedServers>>,
) -> Candidate {
    for (rm, granted) in had.iter().filter(|(rm, _)| lost.contains(rm)) {
        let again = candidate.segments.get(rm).map_or(&[][..], Vec::as_slice);
        let again: Vec<&ResourceId> = again.iter().map(|segment| &segment.resource).collect();
        let granted: Vec<_> = granted.iter().filter(|of| again.contains(&&of.site)).collect();
        let sites: BTreeSet<&ResourceId> = granted.iter().map(|of| &of.site).collect();
        if sites.len() == granted.len() {
            let picked = granted.iter().flat_map(|of| &of.servers).cloned().collect();
            candidate.servers.entry(rm.clone()).or_default().picked = picked;
        }
    }
    candidate
}

impl GrcService {
    /// The differences that the last comparisons found, or if the client wants fresh ones, those of a comparison now.
    pub(crate) async fn differences(
        &self,
        wire: &v1::ListDifferencesRequest,
    ) -> Result<v1::ListDifferencesResponse, Status> {
        let mut names = self.federation.names();
        let wanted = &wire.resource_manager;
        if !wanted.is_empty() {
            names.retain(|rm| rm.as_str() == wanted);
            if names.is_empty() {
                return Err(status::not_found("resource manager", wanted));
            }
        }
        if wire.fresh {
            self.reconciler.compare_all(names.clone()).await;
        }
        let compared: BTreeMap<RmName, _> =
            names.into_iter().map(|rm| (rm.clone(), self.reconciler.compared(&rm))).collect();
        let policy = self.repair_policy;
        let look = move |core: &Coordinator| {
            let one = |(rm, compared): (&RmName, &crate::node::reconcile::ComparisonResult)| {
                let all = compared.differences.iter().map(|difference| shown(core, difference));
                let all: Vec<_> = all.chain(relocation::differences_at(core, rm, policy)).collect();
                let more = all.len().saturating_sub(limits::DIFFERENCES_KEPT);
                v1::ComparedBookings {
                    resource_manager: rm.to_string(),
                    time: compared.at.map(time_to_wire),
                    problem: compared.problem.clone(),
                    differences: all.into_iter().take(limits::DIFFERENCES_KEPT).collect(),
                    more: u32::try_from(more).unwrap_or(u32::MAX),
                }
            };
            compared.iter().map(one).collect()
        };
        let resource_managers = self.handle.read(look).await?;
        Ok(v1::ListDifferencesResponse { resource_managers })
    }

    /// Handles one repair call.
    pub(crate) async fn repair_one(
        &self,
        wire: v1::RepairRequest,
    ) -> Result<v1::RepairResponse, Status> {
        let asked = ParsedRepair::parse(wire).map_err(|error| status::invalid(&error))?;
        let found = self.reconciler.compared(&asked.rm).differences;
        let Some(difference) = found.into_iter().find(|one| one.txn == asked.txn) else {
            if let Some(done) = self.repaired(&asked).await? {
                return Ok(done);
            }
            if let Some((id, off)) = self.stranded_of(&asked.rm, &asked.txn).await? {
                return self.relocate_asked(&asked, &id, &off).await;
            }
            let ParsedRepair { rm, txn, .. } = &asked;
            let text = format!("no difference at {rm} is known for it; it may be repaired already");
            return Err(status::not_now("transaction", txn.as_str(), text));
        };
        let looked = difference.clone();
        let offered = self.handle.read(move |core| offer(core, &looked)).await?;
        match (offered.repair, difference.reservation) {
            (Some(v1::RepairKind::BookAgain), Some(id)) => self.book_again(asked, id).await,
            (Some(v1::RepairKind::Release), _) => self.release_nobodys(asked).await,
            _ => Err(status::not_now("transaction", asked.txn.as_str(), offered.why)),
        }
    }

    /// Moves a reservation off equipment that cannot be used.
    async fn relocate_asked(
        &self,
        asked: &ParsedRepair,
        id: &ReservationId,
        off: &UnusableParts,
    ) -> Result<v1::RepairResponse, Status> {
        let (service, change, by) = (self.clone(), asked.id.clone(), &asked.by);
        tracing::info!(reservation = %id, %by, why = asked.why, "moving it off unusable equipment");
        let (own, off) = (id.clone(), off.clone());
        let moved = async move { service.relocate(own.as_str(), change.as_str(), &off).await };
        let reservation = match patient(CallSubject("reservation", id.as_str()), moved).await? {
            Some(reservation) => reservation,
            None => self.still(id.as_str()).await?,
        };
        Ok(v1::RepairResponse { reservation: Some(reservation), released: false })
    }

    /// The answer to a repair that was made before, if that repair was a change.
    async fn repaired(&self, asked: &ParsedRepair) -> Result<Option<v1::RepairResponse>, Status> {
        let (id, txn) = (asked.id.clone(), asked.txn.clone());
        let now = self.handle.now();
        let look = move |core: &Coordinator| {
            let reservation = core.reservation_of(&txn)?;
            core.find_change(&reservation.id, id.as_str())?;
            Some(view::shown(reservation, &RunningState::of(core, reservation), now))
        };
        let reservation = self.handle.read(look).await?;
        Ok(reservation
            .map(|known| v1::RepairResponse { reservation: Some(known), released: false }))
    }

    async fn book_again(
        &self,
        asked: ParsedRepair,
        id: ReservationId,
    ) -> Result<v1::RepairResponse, Status> {
        let ParsedRepair { id: change, txn, .. } = asked;
        let is_lost = |one: &Difference| one.txn == txn && one.differs == Differs::MissingThere;
        let has_lost = |rm: &RmName| self.reconciler.compared(rm).differences.iter().any(is_lost);
        let lost: Vec<RmName> = self.federation.names().into_iter().filter(has_lost).collect();
        let Now { wall: now, .. } = self.handle.now();
        let wanted = id.clone();
        let booked = move |core: &Coordinator| {
            let known = core.find(wanted.as_str())?;
            Some((known.candidate.clone()?, known.servers.clone()))
        };
        let booked = self.handle.read(booked).await?;
        let missing = || status::not_found("reservation", id.as_str());
        let (booked, servers) = booked.ok_or_else(missing)?;
        let candidate = with_same_servers(again(&booked, &lost, now), &lost, &servers);
        let ticket = ChangeTicket {
            reservation: id.clone(),
            change: change.clone(),
            content: format!("book {txn} again"),
        };
        let service = self.clone();
        let (own, asked_id, rms) = (id.clone(), change.clone(), lost.clone());
        let rebook = async move {
            let _followed = traces::follow_reservation(&own);
            let input = |token| {
                let lost = rms;
                Repair::Rebook { ticket, booked: txn, candidate, lost, token }
            };
            let end = service
                .handle
                .call(&service.causer, |token| CoordinatorInput::Repair(input(token)))
                .await?;
            let known = service.change_end(end, &own, &asked_id)?;
            Ok(service.shown(&known))
        };
        let reservation = match patient(CallSubject("reservation", id.as_str()), rebook).await? {
            Some(reservation) => reservation,
            None => self.still(id.as_str()).await?,
        };
        let state = reservation.change.as_ref().map(|change| change.state().as_str_name());
        tracing::info!(reservation = %id, repair = %change, state, "repair has ended");
        lost.iter().for_each(|rm| self.reconciler.compare_soon(rm));
        Ok(v1::RepairResponse { reservation: Some(reservation), released: false })
    }

    async fn release_nobodys(&self, asked: ParsedRepair) -> Result<v1::RepairResponse, Status> {
        let ParsedRepair { rm, txn, by, why, .. } = asked;
        tracing::info!(%rm, %txn, %by, why, "releasing a booking of nobody");
        let (service, own) = (self.clone(), rm.clone());
        let shown = txn.clone();
        let release = async move {
            let input = |token| Repair::Disown { rm: own, txn, by, why, token };
            service
                .handle
                .call(&service.causer, |token| CoordinatorInput::Repair(input(token)))
                .await
        };
        let about = CallSubject("transaction", shown.as_str());
        let released = match patient(about, release).await? {
            None => false,
            Some(DisownReply::Released) => true,
            Some(DisownReply::Stands(_)) => {
                let text = "it is reserved here, or something is under way; compare again";
                return Err(status::not_now("transaction", shown.as_str(), text));
            }
        };
        self.reconciler.compare_soon(&rm);
        Ok(v1::RepairResponse { reservation: None, released })
    }
}

#[cfg(test)]
mod tests {
    use coalloc_common::ResourceId;

    use super::*;

    fn at(seconds: i64) -> Time {
        Time::from_us(seconds * 1_000_000)
    }

    #[test]
    fn the_kept_plan_of_a_task_lists_what_is_booked_again() {
        let rm = RmName::composed("crm");
        let window = Window::new(at(0), at(100)).unwrap();
        let segment = Segment { resource: ResourceId::composed("A"), amount: Amount(4), window };
        let kept = KeptTask {
            task_plan: v1::TaskPlan { cluster: "A".to_owned(), ..v1::TaskPlan::default() },
            effort: v1::TaskEffort::default(),
            ages_us: BTreeMap::new(),
            tried_us: Vec::new(),
        };
        let booked = Candidate {
            segments: [(rm.clone(), vec![segment])].into(),
            details: kept::task(&kept).into(),
            ..Candidate::default()
        };
        let again = again(&booked, std::slice::from_ref(&rm), at(40));
        let rest = &again.segments[&rm];
        assert_eq!(rest[0].window, Window::new(at(40), at(100)).unwrap());
        let Some(KeptPlan::Task(task)) = kept::read(&again.details.text()) else { panic!() };
        assert_eq!(task.task_plan.segments, segments_to_wire(Some(&rm), rest));
        assert_eq!(task.task_plan.digest, plan_digest(&again.segments));
        assert_eq!(task.task_plan.cluster, "A");
    }
}
