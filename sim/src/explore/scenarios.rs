//! The scenarios: what a user asks of two resource managers, step by step.

use coalloc_common::{
    Amount, CoordinatorName, Reason, Refusal, RequestId, ReservationId, ResourceId, RmName,
    Segment, Span, UserName, Window,
};
use coalloc_protocol::conversation::{Caller, ConversationInput, Opening, PlanJob};
use coalloc_protocol::coordinator::{
    Candidate, ChangeTicket, CoordinatorConfig, CoordinatorInput, Ticket,
};
use coalloc_protocol::message::Token;
use coalloc_protocol::participant::{HoldPolicy, HoldQuotas, ParticipantConfig};
use std::collections::BTreeMap;

use crate::world::node::WALL_START;

/// The names of the two resource managers.
pub(super) const RMS: [&str; 2] = ["a", "b"];
/// The name of the only coordinator.
const GRC: &str = "grc";
/// The tag of the coordinator, with which its ids begin.
const TAG: &str = "t";
/// The id of the only reservation.
pub(super) const RESERVATION: &str = "grc-t-1";
const REQUEST: &str = "r1";
const CHANGE: &str = "c1";
const USER: &str = "alice";
/// The length of every reserved window.
const LASTS: Span = Span::from_secs(3_600);

/// The amounts that a plan takes at each RM, and whether it is booked one-way.
#[derive(Debug, Clone, Copy)]
pub struct Plan {
    amounts: [u64; 2],
    one_way: bool,
}

impl Plan {
    const fn of(amounts: [u64; 2]) -> Self {
        Self { amounts, one_way: false }
    }

    const fn one_way(amounts: [u64; 2]) -> Self {
        Self { amounts, one_way: true }
    }
}

/// One call of the user. The next call is made after the answer to this one.
#[derive(Debug, Clone, Copy)]
pub enum UserCall {
    /// Reserve by the first of these plans that is not refused.
    Reserve(&'static [Plan]),
    /// Change the reservation to the first of these plans that is not refused.
    Modify(&'static [Plan]),
    /// Release the reservation.
    Release,
}

impl UserCall {
    /// The word for the call in a trace.
    pub(super) const fn word(self) -> &'static str {
        match self {
            Self::Reserve(_) => "reserve",
            Self::Modify(_) => "modify",
            Self::Release => "release",
        }
    }
}

/// Two resource managers, and what the user asks of them.
#[derive(Debug, Clone, Copy)]
pub struct Scenario {
    /// The name of the scenario.
    pub name: &'static str,
    /// The capacity of each RM.
    pub capacity: [u64; 2],
    /// When the window begins at each RM, in seconds from the beginning. A hold of a window that has begun is
    /// short.
    pub starts: [i64; 2],
    /// The calls of the user, in order.
    pub calls: &'static [UserCall],
}

/// All scenarios that are explored.
pub const ALL: [Scenario; 3] = [CHANGE_OF_RUNNING, SECOND_PLAN, ONE_WAY];

/// Reserve, change, release. At `a` the window begins at once, so that holds there are short; at `b` it
/// begins in an hour.
pub const CHANGE_OF_RUNNING: Scenario = Scenario {
    name: "change",
    capacity: [10, 10],
    starts: [0, 3_600],
    calls: &[
        UserCall::Reserve(&[Plan::of([4, 4])]),
        UserCall::Modify(&[Plan::of([7, 7])]),
        UserCall::Release,
    ],
};

/// `b` has less than the first plan wants; the second plan is booked and released.
pub const SECOND_PLAN: Scenario = Scenario {
    name: "second plan",
    capacity: [10, 10],
    starts: [3_600, 3_600],
    calls: &[UserCall::Reserve(&[Plan::of([4, 20]), Plan::of([4, 4])]), UserCall::Release],
};

/// `a` has already booked the first plan one-way when `b` refuses it.
pub const ONE_WAY: Scenario = Scenario {
    name: "one-way",
    capacity: [10, 10],
    starts: [3_600, 3_600],
    calls: &[
        UserCall::Reserve(&[Plan::one_way([4, 20]), Plan::one_way([4, 4])]),
        UserCall::Release,
    ],
};

impl Scenario {
    pub(super) fn coordinator() -> CoordinatorConfig {
        CoordinatorConfig {
            name: coordinator_name(),
            tag: TAG.to_owned(),
            hold_for: None,
            forgets: None,
        }
    }

    pub(super) fn participant(&self, rm: usize) -> ParticipantConfig {
        ParticipantConfig {
            name: RmName::composed(RMS[rm]),
            resources: vec![(ResourceId::composed("r"), Amount(self.capacity[rm]))],
            kinds: coalloc_common::ResourceKind::Cpus.into(),
            coordinators: [coordinator_name()].into(),
            policy: HoldPolicy::default(),
            levels: coalloc_common::ServiceLevels::default(),
            quotas: HoldQuotas::default(),
            inside: None,
            servers: BTreeMap::new(),
        }
    }

    /// The coordinator's input with which a call begins. The token of a call is its number.
    pub(super) fn begin(&self, step: usize) -> Option<CoordinatorInput> {
        let number = step as u64;
        let open = |opening| ConversationInput::Open(opening).into();
        Some(match self.calls.get(step)? {
            UserCall::Reserve(_) => open(Opening::Request(ticket(), Token::new(number))),
            UserCall::Modify(_) => open(Opening::Change(change(), Token::new(number))),
            UserCall::Release => {
                let (reservation, token) = (reservation(), Token::new(number));
                CoordinatorInput::Release { reservation, token }
            }
        })
    }

    /// The result of planning, which takes no time here: the plans of a call that is new to the coordinator.
    /// When it is planned again after a refusal, there is no plan.
    pub(super) fn planned(&self, step: usize, job: PlanJob, caller: Caller) -> ConversationInput {
        let candidates = |plans: &[Plan]| plans.iter().map(|plan| self.candidate(*plan)).collect();
        let planned = match (job.reservation(), self.calls.get(step)) {
            (None, Some(UserCall::Reserve(plans) | UserCall::Modify(plans))) => {
                Ok(candidates(plans)).into()
            }
            _ => Err(Refusal::new(Reason::InsufficientCapacity, "no other plan")).into(),
        };
        ConversationInput::Planned { job, planned, caller }
    }

    fn candidate(&self, plan: Plan) -> Candidate {
        let segment = |rm: usize| {
            let start = WALL_START.saturating_add(Span::from_secs(self.starts[rm]));
            let window = Window::starting(start, LASTS)?;
            let amount = Amount(plan.amounts[rm]);
            Some(Segment { resource: ResourceId::composed("r"), amount, window })
        };
        let at = |rm: usize| (RmName::composed(RMS[rm]), segment(rm).into_iter().collect());
        Candidate {
            segments: (0..RMS.len()).map(at).collect(),
            order: RMS.iter().filter(|_| plan.one_way).map(|rm| RmName::composed(*rm)).collect(),
            one_way: plan.one_way,
            ..Candidate::default()
        }
    }
}

pub(super) fn coordinator_name() -> CoordinatorName {
    CoordinatorName::composed(GRC)
}

fn reservation() -> ReservationId {
    ReservationId::composed(RESERVATION)
}

fn ticket() -> Ticket {
    let (request, user) = (RequestId::composed(REQUEST), UserName::composed(USER));
    Ticket { request, user, content: String::new() }
}

fn change() -> ChangeTicket {
    ChangeTicket {
        reservation: reservation(),
        change: RequestId::composed(CHANGE),
        content: String::new(),
    }
}
