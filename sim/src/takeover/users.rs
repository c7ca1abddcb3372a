//! The users: each makes one request, asks until there is an answer, and may release what was confirmed.

use std::collections::BTreeMap;

use coalloc_common::{
    Amount, Reason, Refusal, RequestId, ReservationId, ResourceId, Segment, Span, UserName, Window,
};
use coalloc_protocol::conversation::{ConversationInput, Opening, PlanJob, PlanTarget, Planned};
use coalloc_protocol::coordinator::{Candidate, CoordinatorInput, Reservation, State, Ticket};
use coalloc_protocol::message::Token;

use super::managers::CAPACITY;
use super::{Event, Waiter, World, rm_name};
use crate::chance::RandomStream;
use crate::world::node::WALL_START;

/// How long a user waits before asking again.
const PATIENCE_US: i64 = 6_000_000;
/// The windows begin so long after the beginning of the world, when everything is over.
const STARTS: Span = Span::from_secs(10_000);

/// One user and its request.
#[derive(Debug, Clone)]
pub(super) struct User {
    /// The amounts at each resource manager, for each plan.
    plans: Vec<BTreeMap<usize, u64>>,
    /// Which of three windows it wants.
    window: i64,
    releases: bool,
    /// What it was told: the reservation, and its state.
    pub(super) told: Option<(ReservationId, State)>,
    pub(super) is_done: bool,
}

impl User {
    pub(super) fn draw(dice: &mut RandomStream, managers: usize) -> Self {
        let plans = 1 + dice.below(3);
        let plan = |dice: &mut RandomStream| {
            let count = 1 + dice.below(managers as u64) as usize;
            let chosen = dice.choose(count, managers);
            chosen.into_iter().map(|rm| (rm, 1 + dice.below(CAPACITY))).collect()
        };
        Self {
            plans: (0..plans).map(|_| plan(dice)).collect(),
            window: dice.below(3) as i64,
            releases: dice.below(3) == 0,
            told: None,
            is_done: false,
        }
    }

    fn candidates(&self) -> Vec<Candidate> {
        let start =
            WALL_START.saturating_add(STARTS).saturating_add(Span::from_secs(600 * self.window));
        let segment = |amount: u64| {
            let window = Window::starting(start, Span::from_secs(600))?;
            Some(Segment { resource: ResourceId::composed("r"), amount: Amount(amount), window })
        };
        let candidate = |plan: &BTreeMap<usize, u64>| {
            let at = |(rm, amount): (&usize, &u64)| {
                (rm_name(*rm), segment(*amount).into_iter().collect())
            };
            Candidate { segments: plan.iter().map(at).collect(), ..Candidate::default() }
        };
        self.plans.iter().map(candidate).collect()
    }
}

fn request_id(user: usize) -> String {
    format!("request-{user}")
}

impl World {
    /// A user calls whoever it believes to lead, and calls again later if there is no answer.
    pub(super) fn visit(&mut self, user: usize) -> Result<(), String> {
        if self.users[user].is_done {
            return Ok(());
        }
        self.after(PATIENCE_US, Event::Visit(user));
        let leaders = self.leaders();
        let Some(at) = leaders.get(self.dice.below(leaders.len() as u64) as usize).copied() else {
            return Ok(());
        };
        let number = self.fresh();
        self.waiters.insert(number, Waiter::User(user));
        let input = match &self.users[user].told {
            Some((reservation, State::Confirmed)) => {
                let (reservation, token) = (reservation.clone(), Token::new(number));
                CoordinatorInput::Release { reservation, token }
            }
            _ => {
                let ticket = Ticket {
                    request: RequestId::composed(request_id(user)),
                    user: UserName::composed("alice"),
                    content: "content".to_owned(),
                };
                ConversationInput::Open(Opening::Request(ticket, Token::new(number))).into()
            }
        };
        self.post(at, input)
    }

    /// What planning finds: the plans of a new request, and nothing when it is planned again.
    pub(super) fn plan(&self, job: &PlanJob) -> Planned {
        let user = match &job.target {
            PlanTarget::Request(request) if job.reservation().is_none() => {
                let number = request.as_str().rsplit('-').next().and_then(|text| text.parse().ok());
                number.and_then(|number: usize| self.users.get(number))
            }
            _ => None,
        };
        match user {
            Some(user) => Ok(user.candidates()).into(),
            None => Err(Refusal::new(Reason::InsufficientCapacity, "no other plan")).into(),
        }
    }

    /// A user is told something, which must not contradict what it was told before.
    pub(super) fn tell_user(&mut self, at: usize, known: &Reservation) -> Result<(), String> {
        if !known.is_definite() {
            return Ok(());
        }
        let user = &mut self.users[at];
        let now = (known.id.clone(), known.state);
        let stays = match (&user.told, &now) {
            (None, _) => true,
            (Some(before), now) if before == now => true,
            (Some((id, State::Confirmed)), (same, State::Terminated)) => id == same,
            _ => false,
        };
        // An answer of before the release may arrive after it.
        let is_late = matches!(&user.told, Some((id, State::Terminated)) if *id == now.0)
            && now.1 == State::Confirmed;
        if !stays && !is_late {
            let told = &user.told;
            return Err(format!("I8: user {at} was told {told:?}, and now {now:?}"));
        }
        if !is_late {
            user.told = Some(now.clone());
            user.is_done = now.1 != State::Confirmed || !user.releases;
        }
        self.note(|| format!("user {at} is told {now:?}"));
        Ok(())
    }
}
