//! The planners in the coordinators' shells. They plan what a coordinator wants planned in a conversation: a
//! user's request, a change, or a parent coordinator's hold.
//!
//! Planning takes time, and the process may die meanwhile. Then the shell posts the result, or, now and then,
//! that planning broke off.
//!
//! The plans of a request were drawn together with its demand. A child coordinator draws its plan when it is asked
//! ([`tree`](super::tree)). Workflows are planned by real planners ([`workflows`](super::workflows)).

use coalloc_common::{Reason, Refusal, limits};
use coalloc_protocol::conversation::{Caller, ConversationInput, PlanJob, PlanTarget, Planned};
use coalloc_protocol::coordinator::Candidate;
use coalloc_protocol::message::HoldOrder;

use super::{Address, Event, Waiter, World};

/// A job that a coordinator's shell plans.
#[derive(Debug, Clone)]
pub struct ShellJob {
    grc: usize,
    /// The life of the process that began to plan it.
    life: u64,
    job: PlanJob,
    caller: Caller,
}

impl World {
    /// A coordinator has one of its callers plan a job.
    pub(super) fn plan(&mut self, grc: usize, job: PlanJob, caller: Caller) -> Result<(), String> {
        let again = job.reservation().is_some();
        let mut of_change = matches!(caller, Caller::Change(_));
        let takes_us = match self.waiter(caller)? {
            Waiter::User { .. } => self.clients.planning_us,
            Waiter::Changer { demand, .. } | Waiter::Follower { demand, .. }
                if self.clients.demands[*demand].workflow.is_some() =>
            {
                of_change = false;
                self.clients.planning_us
            }
            // The new version is what it was, so nothing is searched.
            Waiter::Changer { .. } | Waiter::Follower { .. } if again => 0,
            Waiter::Changer { .. } | Waiter::Follower { .. } => self.clients.planning_us,
            Waiter::Parent { .. } | Waiter::Rogue(_) => {
                self.counts.replanned_below += u64::from(again);
                self.planning_below_us()
            }
            other => return Err(format!("{other:?} is to plan {:?}", job.target)),
        };
        let planned = ShellJob { grc, life: self.grcs[grc].life, job, caller };
        if again && of_change {
            return self.job_planned(planned);
        }
        self.after(takes_us, Event::Planned(Box::new(planned)));
        Ok(())
    }

    /// A job has been planned. If the process that planned it still lives, it posts the result.
    pub(super) fn job_planned(&mut self, planned: ShellJob) -> Result<(), String> {
        let ShellJob { grc, life, job, caller } = planned;
        if self.grcs[grc].life != life {
            return Ok(());
        }
        let planned = match self.waiter(caller)?.clone() {
            Waiter::User { demand } => self.plan_of_request(grc, demand, &job),
            Waiter::Changer { demand, wish } => self.plan_of_change(grc, demand, wish, &job),
            Waiter::Follower { demand, reservation, reports } => {
                let planned = self.plan_following(grc, demand, &reservation, reports);
                if planned.is_none() && job.reservation().is_none() {
                    self.waiters.remove(&number(caller));
                    self.grcs[grc].post(ConversationInput::BrokenOff(job).into());
                    self.begin(Address::Grc(grc))?;
                    return self.nothing_follows(grc, &reservation, reports);
                }
                planned
            }
            Waiter::Parent { .. } | Waiter::Rogue(_) => Some(self.plan_of_parent(grc, &job)?),
            other => return Err(format!("{other:?} has planned {:?}", job.target)),
        };
        let input = match planned {
            Some(planned) => ConversationInput::Planned { job, planned, caller },
            // Planning again always has a result.
            None if job.reservation().is_some() => {
                let nothing = Refusal::new(Reason::NoRoute, "there is nothing to change any more");
                ConversationInput::Planned { job, planned: Err(nothing).into(), caller }
            }
            None => {
                self.waiters.remove(&number(caller));
                ConversationInput::BrokenOff(job)
            }
        };
        self.grcs[grc].post(input.into());
        self.begin(Address::Grc(grc))
    }

    fn waiter(&self, caller: Caller) -> Result<&Waiter, String> {
        self.waiters.get(&number(caller)).ok_or_else(|| format!("{caller:?} waits for nothing"))
    }

    /// The plans of a demand. When it is planned again, they are the same plans, as if the picture had changed,
    /// or now and then none. A search that goes back gives only the plans that no refusal has excluded.
    fn plan_of_request(&mut self, grc: usize, demand: usize, job: &PlanJob) -> Option<Planned> {
        let candidates = self.clients.demands[demand].candidates.clone();
        let fails = self.dice.per_mille(self.clients.planning_fails);
        if self.clients.demands[demand].workflow.is_some() {
            let fails = fails && job.reservation().is_none();
            return (!fails).then(|| self.plan_workflow(grc, demand, job));
        }
        if job.reservation().is_none() {
            return (!fails).then(|| Planned { notes: notes(demand), ..some_of(candidates) });
        }
        let goes_back = candidates.first().is_some_and(|first| !first.order.is_empty());
        let left = match goes_back {
            true => candidates.into_iter().filter(|one| !is_refused(one, &job.refusals)).collect(),
            false => candidates,
        };
        let nothing = Refusal::new(Reason::InsufficientCapacity, "nothing is free any more");
        let outcome = if fails || (goes_back && left.is_empty()) { Err(nothing) } else { Ok(left) };
        Some(outcome.into())
    }

    fn plan_of_change(
        &mut self,
        grc: usize,
        demand: usize,
        wish: usize,
        job: &PlanJob,
    ) -> Option<Planned> {
        if self.clients.demands[demand].workflow.is_some() {
            let id = self.known_id(demand)?;
            let reports = self.grcs[grc].core.as_ref()?.reports(&id).len();
            let avoid = self.clients.demands[demand].changes[wish].avoid.clone();
            return self.plan_revision(grc, &id, reports, &avoid);
        }
        let candidates = self.clients.demands[demand].changes[wish].candidates.clone();
        if job.reservation().is_some() {
            return Some(Ok(candidates).into());
        }
        let fails = self.dice.per_mille(self.clients.planning_fails);
        (!fails).then(|| some_of(candidates))
    }

    fn plan_of_parent(&mut self, grc: usize, job: &PlanJob) -> Result<Planned, String> {
        let order = match &job.target {
            PlanTarget::ParentHold(order) => Some(order.clone()),
            PlanTarget::Again(id) => {
                let core = self.grcs[grc].core.as_ref();
                core.and_then(|core| core.parent_order(core.find(id.as_str())?)).cloned()
            }
            PlanTarget::Request(_) | PlanTarget::Change(_) => None,
        };
        let order: HoldOrder = order.ok_or("what a parent wants planned is known")?;
        let plans = self.plan_at_child(grc, &order);
        let none = || Refusal::new(Reason::InsufficientCapacity, "there is no plan");
        Ok(plans.ok_or_else(none).into())
    }
}

const fn number(caller: Caller) -> u64 {
    match caller {
        Caller::Request(token) => token.number(),
        Caller::Change(token) => token.number(),
        Caller::ParentHold(token) => token.number(),
    }
}

/// Some requests are so long that they are not kept when they are refused.
fn notes(demand: usize) -> String {
    let bytes = if demand % 16 == 3 { limits::REFUSED_NOTES_BYTES_MAX + 1 } else { 0 };
    "n".repeat(bytes)
}

fn some_of(candidates: Vec<Candidate>) -> Planned {
    match candidates.is_empty() {
        true => Err(Refusal::new(Reason::NoRoute, "there is no plan")).into(),
        false => Ok(candidates).into(),
    }
}

/// Does a candidate want something that was not available according to one of these refusals?
fn is_refused(candidate: &Candidate, refusals: &[Refusal]) -> bool {
    refusals.iter().any(|refusal| {
        let asked = refusal.rm.as_ref().and_then(|rm| candidate.segments.get(rm));
        asked.into_iter().flatten().any(|segment| {
            Some(&segment.resource) == refusal.resource.as_ref()
                && refusal.window == Some(segment.window)
                && refusal.available.is_some_and(|there| there < segment.amount)
        })
    })
}
