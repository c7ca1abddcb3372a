//! Queries and the planning on their answers: stages 2i to 2iv of the paper, for users and for parent
//! coordinators.
//!
//! Each level costs one delay in each direction: a parent coordinator queries its children, which query their
//! own resource managers. Planning takes its time once those answers have arrived.

use std::cmp::Reverse;

use coalloc_common::topology::FrameView;
use coalloc_common::{CoAllocation, Reason, Refusal, Topology, UserName, Window, limits};
use coalloc_plan::RankedPlan;
use coalloc_plan::learned::{believe, believed};
use coalloc_plan::objectives::{Answer, best};
use coalloc_protocol::conversation::{Caller, ConversationInput, PlanJob};
use coalloc_protocol::coordinator::Candidate;
use coalloc_protocol::message::{HoldOrder, Token};

use super::super::federation::Disclosed;
use super::super::planning::Question;
use super::super::settings::First;
use super::{Event, Member, World};
use crate::experiment::{ModelError, TraceEvent};

/// All plans of a request, best first, or the refusal.
type Outcome = Result<Vec<RankedPlan>, Refusal>;

/// A planning job.
#[derive(Debug)]
pub(super) enum Job {
    /// A user's request at the coordinator that got it. `again` names the reservation that is planned again
    /// because other requests were faster.
    Request { request: usize, job: PlanJob },
    /// What a parent coordinator wants a child coordinator to hold.
    Hold { grc: usize, from: usize, order: HoldOrder, job: PlanJob },
}

impl World<'_> {
    fn planner_of(&self, job: &Job) -> usize {
        match job {
            Job::Request { request, .. } => self.asked[*request],
            Job::Hold { grc, .. } => *grc,
        }
    }

    /// How long a query takes to reach the last member, in microseconds.
    fn way_us(&self, job: &Job) -> i64 {
        let hops = if self.is_parent(self.planner_of(job)) { 2 } else { 1 };
        hops * self.settings.delay_us
    }

    /// Sends one query for all frames to each member.
    pub(super) fn ask(&mut self, job: Job) {
        self.count_questions(self.planner_of(&job));
        self.at(self.now_us + self.way_us(&job), Event::Asked(job));
    }

    /// Counts a query and an answer for each member; child coordinators query their own members.
    fn count_questions(&mut self, grc: usize) {
        for at in 0..self.grcs[grc].members.len() {
            let member = self.grcs[grc].members[at];
            self.exchanged(member).messages += 2;
            if let Member::Grc(lower) = member {
                self.count_questions(lower);
            }
        }
    }

    /// The present answers of a coordinator's members, as views of its topology.
    pub(super) fn picture(&self, grc: usize, frames: &[Window], user: &UserName) -> Vec<FrameView> {
        let mut disclosed = Disclosed::default();
        for member in &self.grcs[grc].members {
            match member {
                Member::Rm(rm) => disclosed.ask(&self.rms[*rm], frames, user, self.now()),
                Member::Grc(lower) => {
                    if let Some(shown) = &self.grcs[*lower].shown {
                        disclosed.ask_child(shown, &self.picture(*lower, frames, user));
                    }
                }
            }
        }
        disclosed.views(&self.grcs[grc].topology, frames)
    }

    /// Lowers views to the amounts in earlier refusals of a reservation.
    pub(super) fn believe(&self, grc: usize, job: &PlanJob, views: &mut [FrameView]) {
        let (grc, refusals) = (&self.grcs[grc], &job.refusals);
        for view in views {
            believe(&grc.topology, refusals, believed(self.planning.solver()), view);
        }
    }

    pub(super) fn plan(&mut self, job: Job) -> Result<(), ModelError> {
        let later = self.now_us + self.way_us(&job) + self.settings.planning_us;
        let event = match job {
            Job::Request { request, job: ref plan } => {
                let outcome = self.plan_request(request, plan)?;
                Event::Planned(job, outcome)
            }
            Job::Hold { grc, ref order, job: ref plan, .. } => {
                let outcome = self.plan_at_child(grc, order, plan)?;
                Event::PlannedBelow(job, outcome)
            }
        };
        self.at(later, event);
        Ok(())
    }

    /// All plans of a request, best first.
    fn plan_request(&mut self, request: usize, job: &PlanJob) -> Result<Outcome, ModelError> {
        let (wanted, grc) = (self.request(request), self.asked[request]);
        let frames = wanted.timing.frames(self.settings.frames);
        let user = UserName::composed(self.user(request));
        let mut views = self.picture(grc, &frames, &user);
        self.believe(grc, job, &mut views);
        let topology = self.grcs[grc].topology.clone();
        let answers = self.solve(&topology, request, &wanted, &views)?;
        let (mut plans, refused) = best(answers, limits::ATTEMPTS_MAX);
        if self.settings.first == First::Latest {
            // A stable sort: plans with the same start keep their order.
            plans.sort_by_key(|judged| Reverse(judged.plan.window.start()));
        }
        if !plans.is_empty() {
            return Ok(Ok(plans));
        }
        let refusal = refused.into_iter().map(|(_, refusal)| refusal).next_back();
        let none = || Refusal::new(Reason::NoRoute, "there was no frame to plan");
        Ok(Err(refusal.unwrap_or_else(none)))
    }

    /// An answer for each view; a sliding solver gives none after the first frame that fits.
    pub(super) fn solve(
        &mut self,
        topology: &Topology,
        request: usize,
        wanted: &CoAllocation,
        views: &[FrameView],
    ) -> Result<Vec<(Window, Answer)>, ModelError> {
        let at = self.now_us;
        let question = Question { at, request, topology, wanted };
        let answers = self.planning.plan(&question, views, self.trace)?;
        self.tally.plans += answers.iter().filter(|(_, answer)| answer.is_ok()).count() as u64;
        Ok(answers)
    }

    /// Hands the plans to the coordinator that the user's request went to.
    pub(super) fn planned(&mut self, job: Job, outcome: Outcome) -> Result<(), ModelError> {
        let Job::Request { request, job: plan } = job else {
            return Err(ModelError::Defect("a hold was planned as a request".to_owned()));
        };
        let (wanted, grc) = (self.request(request), self.asked[request]);
        let topology = &self.grcs[grc].topology;
        let candidate = |judged: &RankedPlan| Candidate {
            segments: judged.plan.segments(topology, &wanted),
            order: self.planning.solver().hold_order(topology, &wanted, &judged.plan),
            ..Candidate::default()
        };
        let candidates = outcome.as_ref().map(|plans| plans.iter().map(candidate).collect());
        let candidates: Result<Vec<Candidate>, Refusal> = candidates.map_err(Clone::clone);
        if let Err(refusal) = &candidates {
            self.trace.event(TraceEvent::Refused {
                at: self.now_us,
                request: request as u64,
                resource: "".into(),
                reason: refusal.reason.word().into(),
            });
        }
        self.tried[request] = outcome.unwrap_or_default();
        let (planned, caller) = (candidates.into(), Caller::Request(Token::new(request as u64)));
        let input = ConversationInput::Planned { job: plan, planned, caller };
        self.step_grc(grc, input.into())
    }
}
