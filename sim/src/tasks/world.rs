//! The world of a run: tasks arrive, are planned, and end.

use std::collections::VecDeque;
use std::sync::atomic::AtomicBool;

use coalloc_common::{
    Amount, BitsPerSecond, CoordinatorName, Cpus, InvalidField, ReservationId, Span, Time,
    Topology, Window, limits,
};
use coalloc_plan::Budget;
use coalloc_plan::multicost::{
    Scratch, Signalling, Task, TaskInstance, TaskObjective, TaskOutcome, TaskPlan, TaskPlanner,
};
use coalloc_protocol::update::{Strategy, Update};

use super::belief::Belief;
use super::controller::{Controller, Turn, wire_bytes};
use super::counts::Counts;
use super::events::{Event, Piece};
use super::net::Net;
use super::scheduler_node::SchedulerNode;
use super::settings::{Protocol, Schedulers, TasksSettings, UpdateSettings, UpdateStrategy};
use super::workload::Workload;
use crate::chance::RandomStream;
use crate::engine::Queue;
use crate::experiment::trace::TracedResource;
use crate::experiment::{Measures, ModelError, Trace, TraceEvent};

/// One task.
#[derive(Debug, Clone)]
pub(super) struct TaskState {
    pub(super) created: Time,
    pub(super) scheduler: usize,
    pub(super) source: usize,
    pub(super) bytes: u64,
    pub(super) mi: u64,
    pub(super) deadline: Option<Time>,
    /// How often a plan was requested so far.
    pub(super) asked: u32,
    /// The pieces of the current plan, links first, with their results.
    pub(super) pieces: Vec<Piece>,
    /// The id that its coordinator gave the reservation, once the coordinator has tried something.
    pub(super) reservation: Option<ReservationId>,
    /// When the last of the data is at the cluster.
    pub(super) arrival: Time,
    /// When the run would end according to the first plan.
    pub(super) promised: Option<Time>,
    pub(super) is_over: bool,
    /// The last attempt whose burst met another burst.
    pub(super) met_in: Option<u32>,
}

/// The state of a run.
pub(super) struct World<'a> {
    pub(super) settings: &'a TasksSettings,
    pub(super) net: Net,
    pub(super) controllers: Vec<Controller>,
    /// The coordinator of each scheduler.
    pub(super) offices: Vec<SchedulerNode>,
    /// One belief for each scheduler, or a single one where schedulers look at the timetables themselves.
    pub(super) beliefs: Vec<Belief>,
    pub(super) queue: Queue<Event>,
    /// Messages that take no time, in their order.
    instant: VecDeque<Event>,
    pub(super) tasks: Vec<TaskState>,
    workload: Workload,
    pub(super) chance: RandomStream,
    planner: Box<dyn TaskPlanner>,
    scratch: Scratch,
    rate: BitsPerSecond,
    pub(super) counts: Counts,
    pub(super) trace: &'a mut dyn Trace,
    labels: Vec<String>,
}

fn strategy_of(updates: &UpdateSettings) -> Strategy {
    let period = Span::from_millis(updates.period_ms);
    match updates.strategy {
        UpdateStrategy::Truth | UpdateStrategy::EveryChange => Strategy::EveryChange,
        UpdateStrategy::Periodic => Strategy::Periodic(period),
        UpdateStrategy::Threshold => Strategy::Threshold { percent: updates.percent, period },
    }
}

impl<'a> World<'a> {
    pub(super) fn new(
        settings: &'a TasksSettings,
        federation: Option<&Topology>,
        seed: u64,
        trace: &'a mut dyn Trace,
    ) -> Result<Self, ModelError> {
        let planner = settings.check()?.alone();
        let net = Net::new(settings, federation, seed)?;
        let nodes = net.topology.vertices().len();
        let (is_truth, schedulers) = (
            settings.updates.strategy == UpdateStrategy::Truth,
            match settings.planning.schedulers {
                Schedulers::Central => 1,
                Schedulers::Distributed => nodes,
            },
        );
        let subscribers = if is_truth { 0 } else { schedulers };
        let strategy = strategy_of(&settings.updates);
        let offices = SchedulerNode::all(&net, settings);
        let names: Vec<CoordinatorName> =
            offices.iter().map(|office| office.name().clone()).collect();
        let controller = |place| Controller::new(&net, place, &names, subscribers, strategy);
        let controllers: Vec<Controller> = (0..net.places.len()).map(controller).collect();
        let rate = settings.workload.rate_bps.or(net.rate_least()).unwrap_or(1);
        let (rate, cpus) = (BitsPerSecond(rate), Cpus(settings.workload.cpus));
        let told = (!is_truth).then_some(controllers.as_slice());
        let belief = || Belief::new(&net, &settings.planning, rate, cpus, told);
        let beliefs = if is_truth { 1 } else { schedulers };
        let beliefs = (0..beliefs).map(|_| belief()).collect::<Result<Vec<_>, InvalidField>>()?;
        let workload = Workload::new(&settings.workload, nodes, seed);
        let place = |at: &super::net::Resource| {
            let name = net.places[at.controller].name.as_str();
            format!("{name}:{}", at.id)
        };
        let labels = net.resources.iter().map(place).collect();
        let mut world = Self {
            settings,
            controllers,
            offices,
            beliefs,
            queue: Queue::new(Time::from_us(0)),
            instant: VecDeque::new(),
            tasks: Vec::new(),
            workload,
            chance: RandomStream::new(seed, "retries"),
            planner,
            scratch: Scratch::default(),
            rate,
            counts: Counts::default(),
            trace,
            labels,
            net,
        };
        world.tell_resources();
        Ok(world)
    }

    fn tell_resources(&mut self) {
        if !self.trace.is_wanted() {
            return;
        }
        for (resource, label) in self.net.resources.iter().zip(&self.labels) {
            let kind = match resource.cluster {
                Some(_) => TracedResource::Site,
                None => TracedResource::Link,
            };
            let capacity = resource.capacity.0;
            self.trace.event(TraceEvent::Resource { resource: label.into(), kind, capacity });
        }
    }

    /// Runs until no event is left, then checks every resource manager.
    pub(super) fn run(&mut self) -> Result<(), String> {
        let first = self.workload.next();
        self.queue.after(first.after, Event::Arrive);
        let mut next = first;
        loop {
            let event = match self.instant.pop_front() {
                Some(event) => event,
                None => match self.queue.take() {
                    Some((_, event)) => event,
                    None => break,
                },
            };
            self.counts.events += 1;
            match event {
                Event::Arrive => {
                    self.arrive(next)?;
                    if (self.tasks.len() as u64) < self.settings.workload.tasks {
                        next = self.workload.next();
                        self.queue.after(next.after, Event::Arrive);
                    }
                }
                Event::Plan(task) => self.plan(task)?,
                Event::Meet(attempt, piece) => self.meet(attempt, piece)?,
                Event::Heard(attempt, piece, answer) => self.heard(attempt, piece, &answer),
                Event::Release(attempt, piece) => self.release(attempt, piece),
                Event::Order(letter) => self.ordered(*letter)?,
                Event::Replied(letter) => self.answered(*letter)?,
                Event::Asks(letter) => self.asked(*letter)?,
                Event::Resolved(letter) => self.resolved(*letter)?,
                Event::WakeCoordinator(scheduler) => self.wake_coordinator(scheduler as usize)?,
                Event::WakeController(place) => self.wake_controller(place as usize)?,
                Event::End(task) => self.told_end(task, true),
                Event::Turn { place, scheduler } => {
                    self.turn(place as usize, scheduler as usize);
                }
                Event::Update { place, scheduler, update } => {
                    self.updated(place as usize, scheduler as usize, &update);
                }
            }
        }
        if let Some(open) = self.tasks.iter().position(|task| !task.is_over) {
            return Err(format!("task {open} has no outcome"));
        }
        self.offices.iter().try_for_each(SchedulerNode::check)?;
        self.controllers.iter().try_for_each(Controller::check)
    }

    pub(super) fn measures(&self) -> Measures {
        self.counts.measures(&self.net)
    }

    pub(super) fn now(&self) -> Time {
        self.queue.now()
    }

    /// Schedules an event after a delay. An event without delay comes before anything in the queue.
    pub(super) fn send(&mut self, span: Span, event: Event) {
        if span <= Span::ZERO {
            self.instant.push_back(event);
        } else {
            self.queue.after(span, event);
        }
    }

    /// The counts, if the task is one of those that are measured.
    pub(super) fn counts(&mut self, task: u32) -> Option<&mut Counts> {
        (u64::from(task) >= self.settings.workload.warm_up).then_some(&mut self.counts)
    }

    fn arrive(&mut self, arrival: super::workload::Arrival) -> Result<(), String> {
        let (now, task) = (self.now(), self.tasks.len() as u32);
        let scheduler = match self.settings.planning.schedulers {
            Schedulers::Central => 0,
            Schedulers::Distributed => arrival.source,
        };
        let data = self.data_time(arrival.bytes).as_us();
        let mips = self.net.clusters.iter().map(|cluster| cluster.mips).max().unwrap_or(1);
        let run = time_of(arrival.mi, mips).as_us();
        let within = self.settings.workload.deadline_factor;
        let within = within.map(|factor| Span::from_us(((data + run) as f64 * factor) as i64));
        self.tasks.push(TaskState {
            created: now,
            scheduler,
            source: arrival.source,
            bytes: arrival.bytes,
            mi: arrival.mi,
            deadline: within.map(|within| now.saturating_add(within)),
            asked: 0,
            pieces: Vec::new(),
            reservation: None,
            arrival: now,
            promised: None,
            met_in: None,
            is_over: false,
        });
        if let Some(counts) = self.counts(task) {
            counts.tasks += 1;
            counts.first.get_or_insert(now);
            counts.last = Some(now);
        }
        if self.trace.is_wanted() {
            let user = self.net.topology.vertices()[arrival.source].name.as_str();
            let (at, request) = (now.as_us(), u64::from(task));
            self.trace.event(TraceEvent::Arrived { at, request, user: user.into() });
        }
        if self.settings.reservation.protocol != Protocol::OneWay {
            return self.open(task);
        }
        self.send(Span::from_us(self.settings.planning.takes_us), Event::Plan(task));
        Ok(())
    }

    pub(super) fn data_time(&self, bytes: u64) -> Span {
        time_of(bytes.saturating_mul(8), self.rate.0)
    }

    /// The index of a scheduler's belief.
    pub(super) const fn belief_of(&self, scheduler: usize) -> usize {
        if self.beliefs.len() == 1 { 0 } else { scheduler }
    }

    fn plan(&mut self, number: u32) -> Result<(), String> {
        let now = self.now();
        let state = &mut self.tasks[number as usize];
        let attempt = (number, state.asked);
        state.asked += 1;
        let (scheduler, deadline) = (state.scheduler, state.deadline);
        let task = self.task(number);
        let at = self.belief_of(scheduler);
        let belief = &mut self.beliefs[at];
        belief.advance(&self.net, &self.controllers, now);
        self.look_how_old(number, at);
        let (at_us, request) = (now.as_us(), u64::from(number));
        self.trace.event(TraceEvent::PlanningBegins { at: at_us, request });
        let stop = AtomicBool::new(false);
        let nodes = self.settings.planning.paths;
        let budget = Budget { nodes, solver_time: Span::ZERO, stop: &stop };
        let instance = TaskInstance::new(&task, self.beliefs[at].view())
            .map_err(|error| format!("task {number} cannot be planned: {error}"))?;
        let answer = self.planner.plan(&instance, &budget, &mut self.scratch);
        let plans = match &answer.outcome {
            TaskOutcome::Planned(plans) => plans.len() as u64,
            TaskOutcome::Refused(_) => 0,
        };
        self.trace.event(TraceEvent::PlanningEnds { at: at_us, request, plans });
        if let Some(counts) = self.counts(number) {
            counts.asked += 1;
            counts.effort(answer.effort);
            if let Some(plan) = answer.best() {
                counts.planned += 1;
                counts.proven += u64::from(plan.proven);
            }
        }
        match answer.outcome {
            TaskOutcome::Planned(plans) => {
                let none = || format!("the planner returned no plan for task {number}");
                let plan = plans.into_iter().next().ok_or_else(none)?;
                self.begin(attempt, &plan, deadline)
            }
            TaskOutcome::Refused(_) => {
                self.tell_refused(number, None, "no plan");
                let pause = self.retry_pause();
                self.again(number, pause)
            }
        }
    }

    /// The task in the form in which a planner gets it.
    fn task(&self, number: u32) -> Task {
        let state = &self.tasks[number as usize];
        let settings = self.settings;
        // A planner that does not know sizes looks only at the present moment.
        let known = settings.planning.sizes_known;
        Task {
            // Lossless: at most VERTICES_MAX.
            source: coalloc_common::VertexIndex(state.source as u32),
            data_bytes: if known { state.bytes } else { 1 },
            work_mi: if known { state.mi } else { 1 },
            cpus: Cpus(settings.workload.cpus),
            rate: self.rate,
            ready: self.now(),
            deadline: if known { state.deadline } else { None },
            objective: TaskObjective::Completion,
            signalling: self.signalling(),
            cluster: None,
            plans: 1,
        }
    }

    /// When data may leave after a plan is made.
    fn signalling(&self) -> Signalling {
        let Self { settings, net, .. } = self;
        let nodes = net.hops_most as i64 + 2;
        let handling = settings.reservation.processing_us;
        let lead = |us: i64| Span::from_us(us).min(limits::LATENCY_MAX);
        let is_far = settings.planning.schedulers == Schedulers::Distributed;
        match settings.reservation.protocol {
            Protocol::TwoPhase if is_far => {
                Signalling::TellAndWait { lead: lead(handling * nodes) }
            }
            // Each resource manager is asked after the answer of the one before.
            Protocol::OneWayInTurn if is_far => {
                let round = net.farthest.as_us().saturating_mul(2).saturating_add(handling);
                Signalling::TellAndGo { lead: lead(round.saturating_mul(nodes)) }
            }
            Protocol::OneWay | Protocol::OneWayInTurn | Protocol::TwoPhase => {
                Signalling::TellAndGo { lead: lead(handling * nodes) }
            }
        }
    }

    /// Counts by how much the picture is out of date when a task is planned on it.
    fn look_how_old(&mut self, task: u32, belief: usize) {
        if self.beliefs[belief].is_truth() {
            return;
        }
        let now = self.now();
        let (mut behind, mut oldest) = (0, Span::ZERO);
        for (place, controller) in self.controllers.iter().enumerate() {
            let revision = self.beliefs[belief].revision(&self.net, place);
            if let Some(changed) = controller.changed_after(revision) {
                behind += 1;
                oldest = oldest.max(now.since(changed));
            }
        }
        let looked = self.controllers.len() as u64;
        if let Some(counts) = self.counts(task) {
            counts.looked += looked;
            counts.behind += behind;
            counts.stale_plans += 1;
            counts.stale_us += i128::from(oldest.as_us());
        }
    }

    /// The pieces of a plan with their true windows. If sizes are unknown, the length of the run is not known
    /// until the data are there.
    pub(super) fn pieces_of(&self, number: u32, plan: &TaskPlan) -> Vec<Piece> {
        let state = &self.tasks[number as usize];
        let is_central = self.settings.planning.schedulers == Schedulers::Central;
        let known = self.settings.planning.sizes_known;
        let data = self.data_time(state.bytes).max(Span::from_us(1));
        let (mut pieces, mut away) = (Vec::with_capacity(plan.legs.len() + 1), Span::ZERO);
        for leg in &plan.legs {
            let link = &self.net.links[leg.link];
            let window = match known {
                true => leg.window,
                false => Window::starting(leg.window.start(), data).unwrap_or(leg.window),
            };
            let amount = Amount(self.rate.0);
            pieces.push(Piece::new(link.resource, window, amount, away));
            if !is_central {
                away = away.saturating_add(link.delay);
            }
        }
        let cluster = &self.net.clusters[plan.cluster];
        let amount = Amount(self.settings.workload.cpus);
        pieces.push(Piece::new(cluster.resource, plan.run, amount, away));
        pieces
    }

    /// When the last of a plan's data is at the cluster; later than planned if sizes are unknown.
    pub(super) fn arrival_of(&self, number: u32, plan: &TaskPlan) -> Time {
        if self.settings.planning.sizes_known || plan.legs.is_empty() {
            return plan.arrival;
        }
        let planned = Span::from_us(self.settings.planning.link_slot_us);
        let data = self.data_time(self.tasks[number as usize].bytes);
        plan.arrival.saturating_add(data.saturating_sub(planned).max(Span::ZERO))
    }

    /// How long a task runs at a cluster.
    pub(super) fn run_time(&self, number: u32, cluster: usize) -> Span {
        let mi = self.tasks[number as usize].mi;
        time_of(mi, self.net.clusters[cluster].mips).max(Span::from_us(1))
    }

    /// Sends the updates of a place that are due, and schedules the others.
    pub(super) fn publish(&mut self, place: usize) {
        if self.settings.updates.strategy == UpdateStrategy::Truth {
            return;
        }
        for scheduler in 0..self.beliefs.len() {
            self.turn(place, scheduler);
        }
    }

    fn turn(&mut self, place: usize, scheduler: usize) {
        let now = self.now();
        let at = (place as u32, scheduler as u32);
        let turn = self.controllers[place].due(&self.net, place, scheduler, now);
        let update = match turn {
            Turn::Nothing => return,
            Turn::At(time) => {
                return self.queue.at(time, Event::Turn { place: at.0, scheduler: at.1 });
            }
            Turn::Tell(update) => update,
        };
        self.counts.updates += 1;
        self.counts.update_bytes += wire_bytes(&update);
        if self.trace.is_wanted() {
            let name = self.net.places[place].name.as_str();
            let (resource, to) = (name.into(), scheduler_name(self.settings, &self.net, scheduler));
            let at = now.as_us();
            self.trace.event(TraceEvent::UpdateSent { at, resource, to: to.into() });
        }
        let delay = Span::from_millis(self.settings.updates.delay_ms);
        let event = Event::Update { place: at.0, scheduler: at.1, update };
        self.send(delay.saturating_add(self.away(place, scheduler)), event);
    }

    /// Travel time of light between a place and a scheduler.
    pub(super) fn away(&self, place: usize, scheduler: usize) -> Span {
        match self.settings.planning.schedulers {
            Schedulers::Central => Span::ZERO,
            Schedulers::Distributed => self.net.distance[self.net.places[place].vertex][scheduler],
        }
    }

    fn updated(&mut self, place: usize, scheduler: usize, update: &Update) {
        let now = self.now();
        let belief = self.belief_of(scheduler);
        if !self.beliefs[belief].hear(&self.net, &self.controllers, place, update, now) {
            self.counts.ignored += 1;
            return;
        }
        if self.trace.is_wanted() {
            let name = self.net.places[place].name.as_str();
            let by = scheduler_name(self.settings, &self.net, scheduler);
            let age = now.since(update.at).as_us();
            let (resource, by, at) = (name.into(), by.into(), now.as_us());
            self.trace.event(TraceEvent::UpdateMerged { at, resource, by, age });
        }
    }

    /// Traces a refusal.
    pub(super) fn tell_refused(&mut self, task: u32, resource: Option<usize>, reason: &str) {
        if self.trace.is_wanted() {
            let resource = resource.map_or("", |at| self.labels[at].as_str());
            let (at, request) = (self.queue.now().as_us(), u64::from(task));
            let (resource, reason) = (resource.into(), reason.into());
            self.trace.event(TraceEvent::Refused { at, request, resource, reason });
        }
    }

    pub(super) fn tell_reserved(&mut self, task: u32, piece: &Piece) {
        if self.trace.is_wanted() {
            let resource = self.labels[piece.resource].as_str().into();
            let (start, end) = (piece.window.start().as_us(), piece.window.end().as_us());
            let (at, request, amount) = (self.queue.now().as_us(), u64::from(task), piece.amount.0);
            let event = TraceEvent::Reserved { at, request, resource, amount, start, end };
            self.trace.event(event);
        }
    }

    pub(super) fn tell_released(&mut self, task: u32, piece: &Piece) {
        if self.trace.is_wanted() {
            let resource = self.labels[piece.resource].as_str().into();
            let (at, request) = (self.queue.now().as_us(), u64::from(task));
            let start = piece.window.start().as_us();
            self.trace.event(TraceEvent::Released { at, request, resource, start });
        }
    }

    pub(super) fn told_end(&mut self, task: u32, accepted: bool) {
        let (at, request) = (self.now().as_us(), u64::from(task));
        self.trace.event(TraceEvent::Ended { at, request, accepted });
    }
}

fn scheduler_name<'n>(settings: &TasksSettings, net: &'n Net, scheduler: usize) -> &'n str {
    match settings.planning.schedulers {
        Schedulers::Central => "central",
        Schedulers::Distributed => net.topology.vertices()[scheduler].name.as_str(),
    }
}

/// The time that an amount takes at a rate per second, rounded up to a microsecond.
fn time_of(amount: u64, per_second: u64) -> Span {
    let us = (u128::from(amount) * 1_000_000).div_ceil(u128::from(per_second.max(1)));
    Span::from_us(i64::try_from(us).unwrap_or(i64::MAX))
}
