//! The events of a day: requests arrive, are planned on what the resource managers report as free, and are
//! reserved in two phases.
//!
//! The participants and coordinators are the unchanged state machines of the daemons. Messages take a fixed
//! delay and are never lost. The records of the cores go to a log that keeps nothing, because no process dies
//! here (the fault worlds have that). A request takes the same steps as in the daemons: Open; one query to
//! every resource manager for all frames; one plan for each frame; all plans, best first, to the coordinator;
//! Holds to all resource managers at once; Commits ([`planning`]). What is free is read one delay after the
//! query was sent. What is planned on it is tried one delay and the planning time later. So coordinators that
//! compete get in each other's way.
//!
//! A parent coordinator has child coordinators as its resource managers. A query of theirs takes one more delay
//! in each direction, and a child plans a hold again on its own resources ([`children`]).
//!
//! Left out: loss, restarts, random backoffs before planning again, more than two levels. The file is long because
//! the events of a day, and what each of them does, are read together.

mod children;
mod members;
mod owned;
mod planning;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use coalloc_common::{
    BootTime, CoAllocation, CoordinatorName, Now, Refusal, RequestId, RmName, Span, Time, Topology,
    TransactionId, UserName, limits,
};
use coalloc_plan::RankedPlan;
use coalloc_plan::abstracted::AbstractTopology;
use coalloc_plan::ip::outside::Programs;
use coalloc_protocol::Core;
use coalloc_protocol::conversation::{ConversationInput, Next, Opening, RequestEnd};
use coalloc_protocol::coordinator::{
    Coordinator, CoordinatorConfig, CoordinatorEffect, CoordinatorInput, MessageKind, ParentConfig,
    ParentInput, Reply, Reservation, State, Ticket,
};
use coalloc_protocol::message::{Answer, Delivery, Message, Resolution, Token};
use coalloc_protocol::participant::{Participant, ParticipantInput};

use self::children::{ChildCandidate, ReplyTarget};
use self::planning::Job;
use super::federation::participants;
use super::levels::{Levels, levels, parent_name};
use super::planning::{ComparisonCounts, Planning};
use super::settings::{RequestTarget, Settings};
use super::workload::Arrival;
use crate::engine::Queue;
use crate::experiment::{ModelError, Trace, TraceEvent};
use crate::forgetful::released;

/// The wall clock at the beginning of the day of arrivals: 2026-11-21T00:00:00Z.
const DAY: Time = Time::from_us(1_795_219_200_000_000);
/// When the machines booted, before the first request.
const BOOTED_US: i64 = -1_000_000;
/// The name of the boot. No machine dies, so there is only one.
const BOOT: &str = "boot-1";
/// A user whose answer is that it takes longer calls again after this time.
const ASK_AGAIN_US: i64 = 1_000_000;

/// Debug builds check the invariants of every core once in this many events, and every build checks them at the
/// end. A check after each event would take quadratic time in a day, and the fault worlds do that.
const CHECKED_EVERY: u64 = 64;

/// The outcome of one request.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct RequestOutcome {
    pub(super) accepted: bool,
    /// How many transactions were opened for it by the coordinators that its user called.
    pub(super) attempts: u64,
    /// The time from its arrival to its answer.
    pub(super) answered_us: i64,
    /// The time from its earliest start to its start.
    pub(super) late_us: i64,
    /// CPUs times microseconds that it got, by site.
    pub(super) cpu_us: Vec<(usize, i128)>,
    /// How many edges its links take.
    pub(super) edges: u64,
    /// Did a child coordinator answer its user?
    pub(super) by_lower: bool,
}

/// What a run counts besides its requests.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub(super) struct Tally {
    /// The messages between coordinators.
    pub(super) parent: LevelTraffic,
    /// The messages with resource managers.
    pub(super) rms: LevelTraffic,
    /// How many transactions child coordinators opened for their parents.
    pub(super) attempts_below: u64,
    pub(super) plans: u64,
    pub(super) events: u64,
    /// How many frames solver programs planned, and how many of these their time limit cut short.
    pub(super) programs: (u64, u64),
    /// The counts of the comparison with a second planner, if there is one.
    pub(super) compared: Option<ComparisonCounts>,
}

/// The messages between two levels.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct LevelTraffic {
    /// Messages of all kinds, answers included.
    pub(super) messages: u64,
    pub(super) holds: u64,
    pub(super) holds_refused: u64,
}

/// A node that a coordinator can send Hold to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Member {
    /// A resource manager.
    Rm(usize),
    /// A child coordinator, as its parent sees it.
    Grc(usize),
}

/// A coordinator.
struct Grc {
    name: CoordinatorName,
    core: Coordinator,
    members: Vec<Member>,
    /// The topology that its members have described.
    topology: Arc<Topology>,
    /// What it discloses to its parents, if it is a child coordinator.
    shown: Option<Arc<AbstractTopology>>,
}

/// Something that happens at one instant.
#[derive(Debug)]
enum Event {
    Arrives(usize),
    /// A user calls again, or calls another coordinator, or the request's turn has come.
    AsksAgain(usize),
    /// A query for what is free has reached the resource managers.
    Asked(Job),
    Planned(Job, Result<Vec<RankedPlan>, Refusal>),
    PlannedBelow(Job, Result<ChildCandidate, Refusal>),
    ToMember {
        grc: usize,
        to: Member,
        txn: TransactionId,
        message: Message,
    },
    ToGrc {
        grc: usize,
        from: Member,
        txn: TransactionId,
        kind: MessageKind,
        answer: Answer,
    },
    /// A member that holds asks for the decision on a transaction.
    Resolve {
        grc: usize,
        from: Member,
        txn: TransactionId,
    },
    Resolved {
        to: Member,
        txn: TransactionId,
        resolution: Resolution,
    },
    Wake(Member),
}

pub(super) struct World<'a> {
    settings: &'a Settings,
    /// The topology of all resource managers.
    topology: &'a Topology,
    arrivals: &'a [Arrival],
    planning: Planning,
    rms: Vec<Participant>,
    /// First the parents, or the coordinators that have all resource managers; then the child coordinators.
    grcs: Vec<Grc>,
    by_name: BTreeMap<RmName, Member>,
    queue: Queue<Event>,
    /// The number of tokens that were given out.
    tokens: u64,
    now_us: i64,
    /// The wake-ups in the queue, so that none is queued twice.
    wakes: BTreeSet<(Member, i64)>,
    numbers: BTreeMap<RequestId, usize>,
    /// The callers that wait for an answer and are not users. A user's token is the number of its request.
    asking: BTreeMap<u64, ReplyTarget>,
    /// The coordinator that each user calls.
    asked: Vec<usize>,
    /// How many transactions were opened by coordinators that the user called before.
    attempts: Vec<u64>,
    /// The plans of each request, until one of them is booked.
    tried: Vec<Vec<RankedPlan>>,
    /// What each child coordinator last tried for a parent's transaction.
    ways: BTreeMap<(usize, TransactionId), ChildCandidate>,
    /// The requests at each coordinator that takes them in turn: the one at work first, then those that wait.
    turns: Vec<VecDeque<usize>>,
    done: Vec<Option<RequestOutcome>>,
    tally: Tally,
    trace: &'a mut dyn Trace,
}

impl<'a> World<'a> {
    pub(super) fn new(
        settings: &'a Settings,
        topology: &'a Topology,
        arrivals: &'a [Arrival],
        programs: Option<&Arc<dyn Programs>>,
        trace: &'a mut dyn Trace,
    ) -> Result<Self, ModelError> {
        let levels = levels(topology, settings)?;
        let names: Vec<CoordinatorName> = (1..=settings.coordinators)
            .map(|number| CoordinatorName::composed(parent_name(number)))
            .collect();
        let rms = participants(topology, settings, |rm| match &levels {
            None => names.iter().cloned().collect(),
            Some(levels) => {
                let own = levels.groups.iter().filter(|group| group.rms.contains(rm));
                own.map(|group| CoordinatorName::composed(&*group.name)).collect()
            }
        });
        let mut by_name: BTreeMap<RmName, Member> =
            rms.keys().cloned().zip((0..).map(Member::Rm)).collect();
        let grcs = coordinators(topology, &names, levels, &mut by_name);
        let lower = grcs.len() - names.len();
        let first = |request: usize| match settings.asked {
            RequestTarget::Parent => request % names.len(),
            RequestTarget::LowerFirst => names.len() + request % lower.max(1),
        };
        let mut world = Self {
            settings,
            topology,
            arrivals,
            planning: Planning::new(settings, programs)?,
            rms: rms.into_values().collect(),
            grcs,
            by_name,
            queue: Queue::new(Time::from_us(0)),
            tokens: 0,
            now_us: 0,
            wakes: BTreeSet::new(),
            numbers: (0..arrivals.len()).map(|number| (request_id(number), number)).collect(),
            asking: BTreeMap::new(),
            asked: (0..arrivals.len()).map(first).collect(),
            attempts: vec![0; arrivals.len()],
            tried: vec![Vec::new(); arrivals.len()],
            ways: BTreeMap::new(),
            turns: vec![VecDeque::new(); names.len()],
            done: vec![None; arrivals.len()],
            tally: Tally::default(),
            trace,
        };
        for rm in 0..world.rms.len() {
            world.step_rm(rm, ParticipantInput::Start { boot: BOOT.to_owned() });
        }
        for grc in 0..world.grcs.len() {
            world.step_grc(grc, CoordinatorInput::Start)?;
        }
        for (request, arrival) in arrivals.iter().enumerate() {
            world.at(arrival.at.as_us(), Event::Arrives(request));
        }
        Ok(world)
    }

    /// Runs the day to its end. Returns the outcome of each request.
    pub(super) fn run(mut self) -> Result<(Vec<RequestOutcome>, Tally), ModelError> {
        while let Some((at, event)) = self.queue.take() {
            self.now_us = at.as_us();
            self.tally.events += 1;
            self.happen(event)?;
            if cfg!(debug_assertions) && self.tally.events.is_multiple_of(CHECKED_EVERY) {
                self.check()?;
            }
        }
        self.check()?;
        self.check_owned().map_err(ModelError::Defect)?;
        let below = self.grcs.iter().flat_map(|grc| grc.core.reservations());
        let below = below.filter(|known| known.parent_transaction.is_some());
        self.tally.attempts_below = below.map(|known| u64::from(known.attempts)).sum();
        let missing = || ModelError::Defect("a request has no outcome".to_owned());
        let done = self.done.into_iter().collect::<Option<Vec<_>>>().ok_or_else(missing)?;
        self.tally.programs = self.planning.frames_of_programs();
        self.tally.compared = self.planning.compared();
        Ok((done, self.tally))
    }

    fn check(&self) -> Result<(), ModelError> {
        let rms = self.rms.iter().map(Core::check_invariants);
        let all = rms.chain(self.grcs.iter().map(|grc| grc.core.check_invariants()));
        all.collect::<Result<(), String>>().map_err(ModelError::Defect)
    }

    fn at(&mut self, at: i64, event: Event) {
        self.queue.at(Time::from_us(at), event);
    }

    /// The counts of messages with this member and those of its kind.
    const fn exchanged(&mut self, member: Member) -> &mut LevelTraffic {
        match member {
            Member::Rm(_) => &mut self.tally.rms,
            Member::Grc(_) => &mut self.tally.parent,
        }
    }

    /// Sends a message to or from a member. It arrives after one delay.
    fn send(&mut self, member: Member, event: Event) {
        self.exchanged(member).messages += 1;
        self.at(self.now_us + self.settings.delay_us, event);
    }

    /// A token that no user has, for a caller that waits.
    fn token<A>(&mut self, asker: ReplyTarget) -> Token<A> {
        self.tokens += 1;
        let number = self.arrivals.len() as u64 + self.tokens;
        self.asking.insert(number, asker);
        Token::new(number)
    }

    /// The caller with this token, which is not a user.
    fn asker<A>(&mut self, token: Token<A>) -> Result<ReplyTarget, ModelError> {
        let nobody = || ModelError::Defect(format!("nobody waits for the answer to {token:?}"));
        self.asking.remove(&token.number()).ok_or_else(nobody)
    }

    /// The request of the user with this token.
    fn request_of<A>(&self, token: Token<A>) -> Result<usize, ModelError> {
        let nobody = || ModelError::Defect(format!("no user waits for the answer to {token:?}"));
        let request = usize::try_from(token.number()).ok();
        request.filter(|request| *request < self.arrivals.len()).ok_or_else(nobody)
    }

    fn now(&self) -> Now {
        Now {
            wall: DAY.saturating_add(Span::from_us(self.now_us)),
            boot: BootTime::from_us(self.now_us - BOOTED_US),
        }
    }

    fn happen(&mut self, event: Event) -> Result<(), ModelError> {
        match event {
            Event::Arrives(request) => self.arrives(request),
            Event::AsksAgain(request) => self.open(request),
            Event::Asked(job) => self.plan(job),
            Event::Planned(job, outcome) => self.planned(job, outcome),
            Event::PlannedBelow(job, outcome) => self.planned_at_child(job, outcome),
            Event::ToMember { grc, to: Member::Rm(rm), txn, message } => {
                self.rm_hears(grc, rm, txn, message);
                Ok(())
            }
            Event::ToMember { grc, to: Member::Grc(lower), txn, message } => {
                self.lower_hears(grc, lower, txn, message)
            }
            Event::ToGrc { grc, from, txn, kind, answer } => {
                let rm = self.rm_name(from);
                let delivery = Delivery::Answered(answer);
                self.step_grc(grc, CoordinatorInput::Delivered { rm, txn, kind, delivery })
            }
            Event::Resolve { grc, from, txn } => {
                let rm = self.rm_name(from);
                let token = self.token(ReplyTarget::Holder { member: from, txn: txn.clone() });
                self.step_grc(grc, CoordinatorInput::Resolve { txn, rm, token })
            }
            Event::Resolved { to: Member::Rm(rm), txn, resolution } => {
                self.step_rm(rm, ParticipantInput::Resolved { txn, resolution });
                Ok(())
            }
            Event::Resolved { to: Member::Grc(lower), txn, resolution } => self.step_grc(
                lower,
                CoordinatorInput::Parent(ParentInput::Resolved { txn, resolution }),
            ),
            Event::Wake(member) => {
                self.wakes.remove(&(member, self.now_us));
                match member {
                    Member::Rm(rm) => {
                        self.step_rm(rm, ParticipantInput::Tick);
                        Ok(())
                    }
                    Member::Grc(grc) => self.step_grc(grc, CoordinatorInput::Tick),
                }
            }
        }
    }

    fn rm_name(&self, member: Member) -> RmName {
        match member {
            Member::Rm(rm) => self.rms[rm].config().name.clone(),
            Member::Grc(grc) => RmName::composed(self.grcs[grc].name.as_str()),
        }
    }

    fn user(&self, request: usize) -> &'a str {
        &self.settings.workload.users[self.arrivals[request].user]
    }

    fn request(&self, request: usize) -> CoAllocation {
        let day = DAY.saturating_add(self.settings.workload.day());
        self.arrivals[request].request(&self.settings.workload, day)
    }

    fn arrives(&mut self, request: usize) -> Result<(), ModelError> {
        let (at, user) = (self.now_us, self.user(request));
        let arrived = TraceEvent::Arrived { at, request: request as u64, user: user.into() };
        self.trace.event(arrived);
        if self.settings.in_turn {
            let turns = &mut self.turns[request % self.settings.coordinators as usize];
            turns.push_back(request);
            if turns.len() > 1 {
                return Ok(());
            }
        }
        self.open(request)
    }

    fn open(&mut self, request: usize) -> Result<(), ModelError> {
        let ticket = Ticket {
            request: request_id(request),
            user: UserName::composed(self.user(request)),
            content: String::new(),
        };
        let opening = Opening::Request(ticket, Token::new(request as u64));
        self.step_grc(self.asked[request], ConversationInput::Open(opening).into())
    }

    fn step_grc(&mut self, grc: usize, input: CoordinatorInput) -> Result<(), ModelError> {
        let now = self.now();
        for effect in released(self.grcs[grc].core.step(input, now)) {
            match effect {
                CoordinatorEffect::Send { rm, txn, message, .. } => {
                    let Some(to) = self.by_name.get(&rm).copied() else {
                        return Err(ModelError::Defect(format!("there is no {rm}")));
                    };
                    self.send(to, Event::ToMember { grc, to, txn, message });
                }
                CoordinatorEffect::Reply(reply) => self.answered(grc, reply)?,
                CoordinatorEffect::AskParent { coordinator, txn } => {
                    self.ask_coordinator(Member::Grc(grc), &coordinator, txn);
                }
            }
        }
        self.wake(Member::Grc(grc), self.grcs[grc].core.next_wake());
        Ok(())
    }

    fn wake(&mut self, member: Member, wake: Option<BootTime>) {
        let Some(wake) = wake else { return };
        let at = self.now_us.max(wake.as_us().saturating_add(BOOTED_US));
        if self.wakes.insert((member, at)) {
            self.at(at, Event::Wake(member));
        }
    }

    /// Sends Resolve for a transaction to the coordinator of this name.
    fn ask_coordinator(&mut self, from: Member, name: &CoordinatorName, txn: TransactionId) {
        if let Some(grc) = self.grcs.iter().position(|grc| grc.name == *name) {
            self.send(from, Event::Resolve { grc, from, txn });
        }
    }

    /// Handles a coordinator's answer to one of its callers.
    fn answered(&mut self, grc: usize, reply: Reply) -> Result<(), ModelError> {
        match reply {
            Reply::Request(token, Next::Plan(job)) => {
                let request = self.request_of(token)?;
                self.ask(Job::Request { request, job });
            }
            Reply::Request(token, Next::Done(end)) => {
                let request = self.request_of(token)?;
                match end {
                    RequestEnd::Stands(known) if known.is_definite() => {
                        self.stands(grc, request, &known)?;
                    }
                    RequestEnd::Stands(_) | RequestEnd::BrokenOff => {
                        self.at(self.now_us + ASK_AGAIN_US, Event::AsksAgain(request));
                    }
                    RequestEnd::OtherContent | RequestEnd::DiskFull => {
                        return Err(ModelError::Defect(format!("a user is told {end:?}")));
                    }
                }
            }
            Reply::ParentHold(token, next) => {
                let asker = self.asker(token)?;
                self.hold_answered(grc, asker, next)?;
            }
            Reply::ParentEnd(token, answer) => {
                let asker = self.asker(token)?;
                self.parent_answered(grc, asker, answer)?;
            }
            Reply::Resolve(token, resolution) => match self.asker(token)? {
                ReplyTarget::Holder { member: to, txn } => {
                    self.send(to, Event::Resolved { to, txn, resolution });
                }
                other => return Err(ModelError::Defect(format!("{other:?} asks nothing"))),
            },
            Reply::Change(..)
            | Reply::Release(..)
            | Reply::Report(..)
            | Reply::Calendar(..)
            | Reply::Rebook(..)
            | Reply::Disown(..)
            | Reply::GiveUp(..) => {
                return Err(ModelError::Defect(format!("nobody waits for {reply:?}")));
            }
        }
        Ok(())
    }

    /// A request has an outcome at the coordinator that its user called.
    fn stands(
        &mut self,
        grc: usize,
        request: usize,
        known: &Reservation,
    ) -> Result<(), ModelError> {
        let is_confirmed = known.state == State::Confirmed;
        let attempts = self.attempts[request] + u64::from(known.attempts);
        let tried = std::mem::take(&mut self.tried[request]);
        let by_lower = self.grcs[grc].shown.is_some();
        if by_lower && !is_confirmed {
            self.attempts[request] = attempts;
            self.asked[request] = request % self.settings.coordinators as usize;
            self.at(self.now_us, Event::AsksAgain(request));
            return Ok(());
        }
        let mut done = RequestOutcome {
            accepted: is_confirmed,
            attempts,
            answered_us: self.now_us - self.arrivals[request].at.as_us(),
            late_us: 0,
            cpu_us: Vec::new(),
            edges: 0,
            by_lower,
        };
        if is_confirmed {
            self.count(grc, request, known, &tried, &mut done)?;
        }
        self.ends(request, done);
        Ok(())
    }

    /// Counts what a reserved request got.
    fn count(
        &self,
        grc: usize,
        request: usize,
        known: &Reservation,
        tried: &[RankedPlan],
        done: &mut RequestOutcome,
    ) -> Result<(), ModelError> {
        let (wanted, topology) = (self.request(request), &self.grcs[grc].topology);
        let booked = known.candidate.as_ref();
        let is_booked = |judged: &&RankedPlan| {
            let segments = judged.plan.segments(topology, &wanted);
            booked.is_some_and(|booked| booked.segments == segments)
        };
        let Some(RankedPlan { plan, .. }) = tried.iter().find(is_booked) else {
            return Err(ModelError::Defect(format!("{} is booked unlike any plan", known.id)));
        };
        let length = i128::from(plan.window.length().as_us());
        done.late_us = plan.window.start().since(wanted.timing.earliest_start).as_us();
        for (site, at) in wanted.sites.iter().zip(&plan.placements) {
            let there = self.topology.find_vertex(&topology.vertex(*at).name);
            done.cpu_us.extend(there.map(|at| (at.at(), length * i128::from(site.cpus.0))));
        }
        done.edges = match &known.transaction {
            Some(txn) if self.is_parent(grc) => {
                let ways = self.grcs[grc].members.iter().filter_map(|member| match member {
                    Member::Grc(lower) => self.ways.get(&(*lower, txn.clone())),
                    Member::Rm(_) => None,
                });
                ways.map(|way| way.edges).sum()
            }
            _ => plan.routes.iter().map(|route| route.len() as u64).sum(),
        };
        Ok(())
    }

    /// Are the members of this coordinator coordinators?
    fn is_parent(&self, grc: usize) -> bool {
        matches!(self.grcs[grc].members.first(), Some(Member::Grc(_)))
    }

    fn ends(&mut self, request: usize, done: RequestOutcome) {
        let (at, accepted) = (self.now_us, done.accepted);
        self.trace.event(TraceEvent::Ended { at, request: request as u64, accepted });
        self.done[request] = Some(done);
        if self.settings.in_turn {
            let turns = &mut self.turns[request % self.settings.coordinators as usize];
            turns.pop_front();
            if let Some(next) = turns.front().copied() {
                self.at(at, Event::AsksAgain(next));
            }
        }
    }
}

/// All coordinators, parents first. Child coordinators are entered in `by_name`.
fn coordinators(
    topology: &Topology,
    names: &[CoordinatorName],
    levels: Option<Levels>,
    by_name: &mut BTreeMap<RmName, Member>,
) -> Vec<Grc> {
    let core = |name: &CoordinatorName| {
        let config = CoordinatorConfig {
            name: name.clone(),
            tag: "sim".to_owned(),
            hold_for: None,
            forgets: None,
        };
        Coordinator::new(config)
    };
    let grc = |name: &CoordinatorName, members, topology: &Arc<Topology>, shown| {
        let (name, topology) = (name.clone(), Arc::clone(topology));
        Grc { core: core(&name), name, members, topology, shown }
    };
    let Some(levels) = levels else {
        let (members, topology) = (by_name.values().copied(), Arc::new(topology.clone()));
        let members: Vec<Member> = members.collect();
        return names.iter().map(|name| grc(name, members.clone(), &topology, None)).collect();
    };
    let below = names.len()..names.len() + levels.groups.len();
    let below: Vec<Member> = below.map(Member::Grc).collect();
    let upper = names.iter().map(|name| grc(name, below.clone(), &levels.parent_topology, None));
    let mut grcs: Vec<Grc> = upper.collect();
    for (group, member) in levels.groups.into_iter().zip(below) {
        let name = CoordinatorName::composed(&*group.name);
        let own = group.rms.iter().filter_map(|rm| by_name.get(rm).copied()).collect();
        let mut lower = grc(&name, own, &group.topology, Some(Arc::new(group.shown)));
        lower.core.serve_parents(ParentConfig {
            coordinators: names.iter().cloned().collect(),
            soft: limits::HOLD_SOFT_DEFAULT,
            hard: limits::HOLD_HARD_DEFAULT,
            boot: BOOT.to_owned(),
        });
        by_name.insert(RmName::composed(name.as_str()), member);
        grcs.push(lower);
    }
    grcs
}

fn request_id(request: usize) -> RequestId {
    RequestId::composed(format!("r{request}"))
}
