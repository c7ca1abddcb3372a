//! The events of a day: requests arrive, are planned on what the resource managers say is free, and are
//! reserved in two phases.
//!
//! The participants and coordinators are the unchanged state machines of the daemons. Messages take a fixed
//! delay and are never lost; what the cores want to keep is synced to a log that forgets, because nobody
//! dies here (the fault worlds are for that). A request goes its live way: Open, one question to every
//! resource manager for all frames, a plan a frame, all plans best first to the coordinator, Holds at once,
//! Commits. What is free is seen one delay after the question left; what is planned on it is tried one
//! delay and the planning's time later, so competing coordinators get in one another's way.
//!
//! Left out: coordinators above coordinators, loss, restarts.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::convert::Infallible;
use std::sync::atomic::AtomicBool;

use coalloc_common::{
    BootTime, CoAllocation, CoordinatorName, Now, Reason, Refusal, RequestId, ReservationId,
    RmName, Span, Time, Topology, TransactionId, UserName, limits,
};
use coalloc_plan::objectives::{Answer as Planned, best};
use coalloc_plan::{Budget, FramePlanner, Judged, Packing, Solver};
use coalloc_protocol::coordinator::{
    Candidate, Coordinator, CoordinatorConfig, CoordinatorEffect, CoordinatorInput, Details,
    MessageKind, Reply, State, Ticket,
};
use coalloc_protocol::message::{Answer, Delivery, Message, Resolution, Token};
use coalloc_protocol::participant::{Participant, ParticipantEffect, ParticipantInput, Phase};
use coalloc_protocol::{Core, Log, Unsynced, sync};

use super::federation::{participants, views};
use super::settings::{First, Settings};
use super::workload::Arrival;
use crate::experiment::{ModelError, Trace, TraceEvent};

/// The wall clock at the beginning of the day of arrivals: 2026-11-21T00:00:00Z.
const DAY: Time = Time::from_us(1_795_219_200_000_000);
/// The machines' boot, before the first request.
const BOOTED_US: i64 = -1_000_000;
/// A user who is told that it takes longer asks again after so long.
const ASK_AGAIN_US: i64 = 1_000_000;
/// Time that an outside solver may take for a frame: as good as all of it, so that its clock decides nothing.
const SOLVER_TIME: Span = Span::from_secs(3_600);

/// Debug builds check every core's invariants after so many events, and every build at the end: each event would be
/// quadratic in a day, and the fault worlds do that.
const CHECKED_EVERY: u64 = 64;

/// What became of one request.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Done {
    pub(super) accepted: bool,
    /// Transactions that were opened for it.
    pub(super) attempts: u64,
    /// From its arrival to its answer.
    pub(super) answered_us: i64,
    /// From its earliest start to its start.
    pub(super) late_us: i64,
    /// Microseconds of CPUs that it got, by site.
    pub(super) cpu_us: Vec<(usize, i128)>,
    /// Edges that its links take.
    pub(super) edges: u64,
}

/// What a run has counted beside its requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Tally {
    pub(super) messages: u64,
    pub(super) holds: u64,
    pub(super) holds_refused: u64,
    pub(super) plans: u64,
    pub(super) events: u64,
}

/// Something that happens at an instant.
#[derive(Debug)]
enum Event {
    Arrives(usize),
    /// Its user asks what became of it, or it is its turn.
    AsksAgain(usize),
    /// The resource managers are asked what is free.
    Asked(usize, Option<ReservationId>),
    Planned(usize, Option<ReservationId>, Result<Vec<Judged>, Refusal>),
    ToRm {
        grc: usize,
        rm: usize,
        txn: TransactionId,
        message: Message,
    },
    ToGrc {
        grc: usize,
        rm: usize,
        txn: TransactionId,
        kind: MessageKind,
        answer: Answer,
    },
    /// A resource manager asks what became of a transaction.
    Resolve {
        grc: usize,
        rm: usize,
        txn: TransactionId,
    },
    Resolved {
        rm: usize,
        txn: TransactionId,
        resolution: Resolution,
    },
    WakeGrc(usize),
    WakeRm(usize),
}

/// A log that nobody reads again.
struct Forgetful<R>(std::marker::PhantomData<R>);

impl<R> Log for Forgetful<R> {
    type Record = R;
    type Error = Infallible;

    fn append(&mut self, _: &[&R]) -> Result<(), Infallible> {
        Ok(())
    }
}

fn released<R, E>(step: Unsynced<R, E>) -> Vec<E> {
    match sync(vec![step], &mut Forgetful(std::marker::PhantomData)) {
        Ok(synced) => synced.into_effects(),
        Err(never) => match never {},
    }
}

pub(super) struct World<'a> {
    settings: &'a Settings,
    topology: &'a Topology,
    arrivals: &'a [Arrival],
    solver: Solver,
    planner: Box<dyn FramePlanner>,
    rms: Vec<Participant>,
    rm_index: BTreeMap<RmName, usize>,
    grcs: Vec<Coordinator>,
    queue: BTreeMap<(i64, u64), Event>,
    serial: u64,
    now_us: i64,
    /// The wake-ups in the queue, so that none is there twice.
    wakes: BTreeSet<(bool, usize, i64)>,
    numbers: BTreeMap<RequestId, usize>,
    /// Who waits for what a coordinator says of a transaction.
    asking: BTreeMap<Token, (usize, TransactionId)>,
    /// What planning gave, until one of it is booked.
    tried: Vec<Vec<Judged>>,
    /// What each coordinator is at, and who waits, where it takes requests in turn.
    turns: Vec<VecDeque<usize>>,
    done: Vec<Option<Done>>,
    tally: Tally,
    trace: &'a mut dyn Trace,
}

impl<'a> World<'a> {
    pub(super) fn new(
        settings: &'a Settings,
        topology: &'a Topology,
        arrivals: &'a [Arrival],
        trace: &'a mut dyn Trace,
    ) -> Result<Self, ModelError> {
        let solver = settings.solver()?;
        let names: Vec<CoordinatorName> = (1..=settings.coordinators)
            .map(|number| CoordinatorName::composed(format!("grc-{number}")))
            .collect();
        let rms = participants(topology, settings, &names);
        let grc = |name: &CoordinatorName| {
            let config =
                CoordinatorConfig { name: name.clone(), tag: "sim".to_owned(), hold_for: None };
            Coordinator::new(config)
        };
        let mut world = Self {
            settings,
            topology,
            arrivals,
            solver,
            planner: solver.planner(settings.ip_options(), None),
            rm_index: rms.keys().cloned().zip(0..).collect(),
            rms: rms.into_values().collect(),
            grcs: names.iter().map(grc).collect(),
            queue: BTreeMap::new(),
            serial: 0,
            now_us: 0,
            wakes: BTreeSet::new(),
            numbers: (0..arrivals.len()).map(|number| (request_id(number), number)).collect(),
            asking: BTreeMap::new(),
            tried: vec![Vec::new(); arrivals.len()],
            turns: vec![VecDeque::new(); names.len()],
            done: vec![None; arrivals.len()],
            tally: Tally::default(),
            trace,
        };
        for rm in 0..world.rms.len() {
            world.step_rm(rm, ParticipantInput::Start { boot: "boot-1".to_owned() });
        }
        for grc in 0..world.grcs.len() {
            world.step_grc(grc, CoordinatorInput::Start)?;
        }
        for (request, arrival) in arrivals.iter().enumerate() {
            world.at(arrival.at.as_us(), Event::Arrives(request));
        }
        Ok(world)
    }

    /// Lets everything happen; what became of each request.
    pub(super) fn run(mut self) -> Result<(Vec<Done>, Tally), ModelError> {
        while let Some(((at, _), event)) = self.queue.pop_first() {
            self.now_us = at;
            self.tally.events += 1;
            self.happen(event)?;
            if cfg!(debug_assertions) && self.tally.events.is_multiple_of(CHECKED_EVERY) {
                self.check()?;
            }
        }
        self.check()?;
        let missing = || ModelError::Defect("a request has no outcome".to_owned());
        let done = self.done.into_iter().collect::<Option<Vec<_>>>().ok_or_else(missing)?;
        Ok((done, self.tally))
    }

    fn check(&self) -> Result<(), ModelError> {
        let rms = self.rms.iter().map(Core::check_invariants);
        let all = rms.chain(self.grcs.iter().map(Core::check_invariants));
        all.collect::<Result<(), String>>().map_err(ModelError::Defect)
    }

    fn at(&mut self, at: i64, event: Event) {
        self.serial += 1;
        self.queue.insert((at, self.serial), event);
    }

    /// After the delay of a message.
    fn send(&mut self, event: Event) {
        self.tally.messages += 1;
        self.at(self.now_us + self.settings.delay_us, event);
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
            Event::Asked(request, again) => {
                self.plan(request, again);
                Ok(())
            }
            Event::Planned(request, again, outcome) => self.planned(request, again, outcome),
            Event::ToRm { grc, rm, txn, message } => {
                self.rm_hears(grc, rm, txn, message);
                Ok(())
            }
            Event::ToGrc { grc, rm, txn, kind, answer } => {
                let rm = self.rms[rm].config().name.clone();
                let delivery = Delivery::Answered(answer);
                self.step_grc(grc, CoordinatorInput::Delivered { rm, txn, kind, delivery })
            }
            Event::Resolve { grc, rm, txn } => {
                let name = self.rms[rm].config().name.clone();
                self.serial += 1;
                let token = Token(self.arrivals.len() as u64 + self.serial);
                self.asking.insert(token, (rm, txn.clone()));
                self.step_grc(grc, CoordinatorInput::Resolve { txn, rm: name, token })
            }
            Event::Resolved { rm, txn, resolution } => {
                self.step_rm(rm, ParticipantInput::Resolved { txn, resolution });
                Ok(())
            }
            Event::WakeGrc(grc) => {
                self.wakes.remove(&(true, grc, self.now_us));
                self.step_grc(grc, CoordinatorInput::Tick)
            }
            Event::WakeRm(rm) => {
                self.wakes.remove(&(false, rm, self.now_us));
                self.step_rm(rm, ParticipantInput::Tick);
                Ok(())
            }
        }
    }

    fn grc_of(&self, request: usize) -> usize {
        request % self.grcs.len()
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
        let token = Token(request as u64);
        self.step_grc(self.grc_of(request), CoordinatorInput::Open { ticket, token })
    }

    /// Stages 2i to 2iv of the paper, on what is free now.
    fn plan(&mut self, request: usize, again: Option<ReservationId>) {
        let wanted = self.request(request);
        let frames = wanted.timing.frames(self.settings.frames);
        let user = UserName::composed(self.user(request));
        let views = views(self.topology, self.rms.iter(), &frames, &user, self.now());
        let ranking = self.settings.ranking().unwrap_or_default();
        let edges = self.settings.ip_options().route_edges_max as usize;
        let (stop, nodes) = (AtomicBool::new(false), limits::EXACT_NODES_MAX);
        let budget = Budget { nodes, solver_time: SOLVER_TIME, stop: &stop };
        let mut answers: Vec<(coalloc_common::Window, Planned)> = Vec::with_capacity(views.len());
        for view in &views {
            let (at, number) = (self.now_us, request as u64);
            self.trace.event(TraceEvent::PlanningBegins { at, request: number });
            let packing = Packing::new(self.topology, &wanted, view, ranking, edges);
            let answer = packing.solve(self.planner.as_ref(), &budget);
            let plans = u64::from(answer.is_ok());
            self.trace.event(TraceEvent::PlanningEnds { at, request: number, plans });
            self.tally.plans += plans;
            let ends = self.solver.slides() && answer.is_ok();
            answers.push((view.window, answer));
            if ends {
                break;
            }
        }
        let (mut plans, refused) = best(answers, limits::ATTEMPTS_MAX);
        if self.settings.first == First::Latest {
            // Stable: plans of one start stay in their order.
            plans.sort_by_key(|judged| Reverse(judged.plan.window.start()));
        }
        let refusal = refused.into_iter().map(|(_, refusal)| refusal).next_back();
        let none = || Refusal::new(Reason::NoRoute, "there was no frame to plan");
        let outcome = if plans.is_empty() { Err(refusal.unwrap_or_else(none)) } else { Ok(plans) };
        let later = self.settings.delay_us + self.settings.planning_us;
        self.at(self.now_us + later, Event::Planned(request, again, outcome));
    }

    fn planned(
        &mut self,
        request: usize,
        again: Option<ReservationId>,
        outcome: Result<Vec<Judged>, Refusal>,
    ) -> Result<(), ModelError> {
        let wanted = self.request(request);
        let candidate = |judged: &Judged| Candidate {
            segments: judged.plan.segments(self.topology, &wanted),
            order: self.solver.hold_order(self.topology, &wanted, &judged.plan),
            one_way: false,
            details: Details::default(),
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
        let token = Token(request as u64);
        let (id, notes) = (request_id(request), String::new());
        let input = match (again, candidates) {
            (Some(reservation), outcome) => {
                CoordinatorInput::Replanned { reservation, outcome, token }
            }
            (None, Ok(candidates)) => {
                CoordinatorInput::Reserve { request: id, candidates, replans: None, notes, token }
            }
            (None, Err(refusal)) => CoordinatorInput::Refuse { request: id, refusal, notes, token },
        };
        self.step_grc(self.grc_of(request), input)
    }

    fn rm_hears(&mut self, grc: usize, rm: usize, txn: TransactionId, message: Message) {
        let (kind, by) = (message.kind(), self.grc_name(grc));
        // One message is heard at a time, and answered within its step.
        let token = Token(0);
        let input = match message {
            Message::Hold(order) => ParticipantInput::Hold { order, token },
            Message::Commit => ParticipantInput::Commit { txn: txn.clone(), by, token },
            Message::Abort => ParticipantInput::Abort { txn: txn.clone(), by, token },
            Message::Release => ParticipantInput::Release { txn: txn.clone(), by, token },
        };
        let Some(answer) = self.step_rm(rm, input) else { return };
        self.note(grc, rm, &txn, kind, &answer);
        self.send(Event::ToGrc { grc, rm, txn, kind, answer });
    }

    /// Counts an answer, and tells the trace of it.
    fn note(
        &mut self,
        grc: usize,
        rm: usize,
        txn: &TransactionId,
        kind: MessageKind,
        answer: &Answer,
    ) {
        let refused = match (kind, answer) {
            (MessageKind::Hold, Answer::Refused(refusal)) => Some(refusal),
            _ => None,
        };
        self.tally.holds += u64::from(kind == MessageKind::Hold);
        self.tally.holds_refused += u64::from(refused.is_some());
        if !self.trace.is_wanted() {
            return;
        }
        let reservation = self.grcs[grc].reservation_of(txn);
        let number = reservation.and_then(|known| self.numbers.get(&known.ticket.request));
        let Some(request) = number.map(|request| *request as u64) else { return };
        let (at, participant) = (self.now_us, &self.rms[rm]);
        if let Some(refusal) = refused {
            let resource = participant.config().name.as_str().into();
            let reason = refusal.reason.word().into();
            self.trace.event(TraceEvent::Refused { at, request, resource, reason });
        }
        if kind != MessageKind::Commit {
            return;
        }
        let entry = participant.entries().get(txn).filter(|entry| entry.phase == Phase::Booked);
        let segments = entry.and_then(|entry| entry.order.as_ref());
        for segment in segments.iter().flat_map(|order| &order.segments) {
            self.trace.event(TraceEvent::Reserved {
                at,
                request,
                resource: segment.resource.as_str().into(),
                amount: segment.amount.0,
                start: segment.window.start().since(DAY).as_us(),
                end: segment.window.end().since(DAY).as_us(),
            });
        }
    }

    fn grc_name(&self, grc: usize) -> CoordinatorName {
        CoordinatorName::composed(format!("grc-{}", grc + 1))
    }

    /// Steps a participant; its answer, if it has one.
    fn step_rm(&mut self, rm: usize, input: ParticipantInput) -> Option<Answer> {
        let now = self.now();
        let effects = released(self.rms[rm].step(input, now));
        let mut reply = None;
        for effect in effects {
            match effect {
                ParticipantEffect::Reply { answer, .. } => reply = Some(answer),
                ParticipantEffect::Ask { coordinator, txn } => {
                    let asked = (0..self.grcs.len()).find(|grc| self.grc_name(*grc) == coordinator);
                    if let Some(grc) = asked {
                        self.send(Event::Resolve { grc, rm, txn });
                    }
                }
            }
        }
        if let Some(wake) = self.rms[rm].next_wake() {
            let at = self.now_us.max(wake.as_us().saturating_add(BOOTED_US));
            if self.wakes.insert((false, rm, at)) {
                self.at(at, Event::WakeRm(rm));
            }
        }
        reply
    }

    fn step_grc(&mut self, grc: usize, input: CoordinatorInput) -> Result<(), ModelError> {
        let now = self.now();
        for effect in released(self.grcs[grc].step(input, now)) {
            match effect {
                CoordinatorEffect::Send { rm, txn, message } => {
                    let Some(rm) = self.rm_index.get(&rm).copied() else {
                        return Err(ModelError::Defect(format!("there is no {rm}")));
                    };
                    self.send(Event::ToRm { grc, rm, txn, message });
                }
                CoordinatorEffect::Reply { token, reply } => self.answered(token, reply)?,
                CoordinatorEffect::AskAbove { .. } => {
                    return Err(ModelError::Defect("nobody is above".to_owned()));
                }
            }
        }
        if let Some(wake) = self.grcs[grc].next_wake() {
            let at = self.now_us.max(wake.as_us().saturating_add(BOOTED_US));
            if self.wakes.insert((true, grc, at)) {
                self.at(at, Event::WakeGrc(grc));
            }
        }
        Ok(())
    }

    fn answered(&mut self, token: Token, reply: Reply) -> Result<(), ModelError> {
        // A user's token is the number of the request; only a Resolution is for somebody else.
        let request = token.0 as usize;
        match reply {
            Reply::Plan => {
                self.tally.messages += self.rms.len() as u64;
                self.at(self.now_us + self.settings.delay_us, Event::Asked(request, None));
            }
            Reply::Replan(reservation) => {
                self.tally.messages += self.rms.len() as u64;
                let asked = Event::Asked(request, Some(reservation));
                self.at(self.now_us + self.settings.delay_us, asked);
            }
            Reply::Stands(known) if known.is_definite() => {
                let is_confirmed = known.state == State::Confirmed;
                let (attempts, segments) = (u64::from(known.attempts), known.candidate);
                let tried = std::mem::take(&mut self.tried[request]);
                let chosen = segments.filter(|_| is_confirmed).and_then(|chosen| {
                    let wanted = self.request(request);
                    tried.into_iter().find(|judged| {
                        judged.plan.segments(self.topology, &wanted) == chosen.segments
                    })
                });
                self.ends(request, is_confirmed, attempts, chosen);
            }
            Reply::Stands(_) | Reply::Forgotten => {
                self.at(self.now_us + ASK_AGAIN_US, Event::AsksAgain(request));
            }
            Reply::Resolution(resolution) => {
                if let Some((rm, txn)) = self.asking.remove(&token) {
                    self.send(Event::Resolved { rm, txn, resolution });
                }
            }
            other => return Err(ModelError::Defect(format!("a user is told {other:?}"))),
        }
        Ok(())
    }

    fn ends(&mut self, request: usize, accepted: bool, attempts: u64, chosen: Option<Judged>) {
        let (at, arrival) = (self.now_us, self.arrivals[request]);
        self.trace.event(TraceEvent::Ended { at, request: request as u64, accepted });
        let wanted = self.request(request);
        let mut done = Done {
            accepted,
            attempts,
            answered_us: at - arrival.at.as_us(),
            late_us: 0,
            cpu_us: Vec::new(),
            edges: 0,
        };
        if let Some(Judged { plan, .. }) = chosen {
            let length = i128::from(plan.window.length().as_us());
            done.late_us = plan.window.start().since(wanted.timing.earliest_start).as_us();
            let placed = wanted.sites.iter().zip(&plan.placements);
            done.cpu_us =
                placed.map(|(site, at)| (at.at(), length * i128::from(site.cpus.0))).collect();
            done.edges = plan.routes.iter().map(|route| route.len() as u64).sum();
        }
        self.done[request] = Some(done);
        let grc = self.grc_of(request);
        if self.settings.in_turn {
            self.turns[grc].pop_front();
            if let Some(next) = self.turns[grc].front() {
                self.at(at, Event::AsksAgain(*next));
            }
        }
    }
}

fn request_id(request: usize) -> RequestId {
    RequestId::composed(format!("r{request}"))
}
