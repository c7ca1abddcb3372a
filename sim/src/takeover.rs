//! Worlds in which the processes of one coordinator share its ledger, and lead it one after the other or, as they
//! believe, at the same time.
//!
//! The cores are the real ones, and so is the shared log ([`coalloc_ledger::shared`]); only etcd is a twin, whose calls may be
//! done, not done or done later without an answer. Processes freeze for longer than their leases, with a batch on its way to the log
//! or with messages that wait; leases end too early, so that two processes believe that they lead; processes die and start
//! again. Resource managers start again, also on other machines. Messages get lost, come twice and come late.
//!
//! What is checked, besides the invariants of each core:
//!
//! * the log is one: its records, in order, are the fold of one coordinator, and whoever leads has exactly this state (I12);
//! * whoever appends was the last one to be elected (I16);
//! * what a user was told stays so (I8, I14);
//! * a resource manager carries out no order of a process that was replaced, once it knows the next one (I20);
//! * at rest, everything confirmed is booked at all of its resource managers and nothing else is booked or held (I5, I6, I7).
//!
//! Left out: copies of the log, snapshots and archives, which the ledger's own tests have; trees; changes. Source:
//! docs/adr/0049-etcd.md.

mod managers;
mod process;
mod rest;
mod users;

use std::collections::BTreeMap;

use coalloc_common::{RmName, Span, Time, TransactionId, limits};
use coalloc_ledger::shared::{EtcdTwin, SharedLog, Store as _};
use coalloc_protocol::conversation::{Caller, PlanJob};
use coalloc_protocol::coordinator::{Coordinator, CoordinatorInput, MessageKind};
use coalloc_protocol::message::{Answer, Delivery, Message, Resolution};
use coalloc_protocol::participant::ParticipantInput;

use self::managers::Manager;
use self::process::{Process, Role};
use self::users::User;
use crate::chance::RandomStream;
use crate::engine::Queue;

/// Where the log is in the store.
const PREFIX: &str = "coalloc/grc";
/// The key of the leader.
const LEADER: &[u8] = b"coalloc/grc/leader";
/// The ledger's id.
const LEDGER: &str = "0123456789abcdef0123456789abcdef";
/// Until when faults happen.
const FAULTS_US: i64 = 90_000_000;
/// Until when a world must have come to rest.
const REST_US: i64 = 1_800_000_000;
/// More events than any world needs.
const EVENTS_MAX: u64 = 400_000;

/// What happened in a world, or in several.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct TakeoverCounts {
    /// Worlds.
    pub worlds: u64,
    /// Events.
    pub events: u64,
    /// Elections.
    pub elections: u64,
    /// Records in the logs.
    pub records: u64,
    /// Processes that ended because they could not append.
    pub replaced: u64,
    /// Leases that ended although their process was well.
    pub lies: u64,
    /// Times when a process froze.
    pub freezes: u64,
    /// Times when a resource manager started again.
    pub restarted_managers: u64,
    /// Orders that a resource manager did not carry out, because another process leads.
    pub refused_orders: u64,
    /// Requests that were confirmed.
    pub confirmed: u64,
    /// Requests that were refused.
    pub failed: u64,
}

impl TakeoverCounts {
    /// Adds the counts of other worlds.
    pub const fn add(&mut self, other: &Self) {
        self.worlds += other.worlds;
        self.events += other.events;
        self.elections += other.elections;
        self.records += other.records;
        self.replaced += other.replaced;
        self.lies += other.lies;
        self.freezes += other.freezes;
        self.restarted_managers += other.restarted_managers;
        self.refused_orders += other.refused_orders;
        self.confirmed += other.confirmed;
        self.failed += other.failed;
    }
}

/// A mistake on purpose, to see that the checks find it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mistake {
    /// The store looks at no condition.
    NoCompare,
    /// A resource manager carries out orders of any epoch.
    AnyEpoch,
}

/// An event of the queue.
#[derive(Debug, Clone)]
enum Event {
    /// A process that stands by looks at the log.
    Look(usize),
    /// The batch of a process is on its way to the log.
    Sync(usize),
    /// A process wanted to be woken.
    Wake(usize),
    /// A process has planned a job.
    Planned(usize, Box<(PlanJob, Caller)>),
    /// A message of a process arrives at a resource manager.
    Order(Box<Order>),
    /// The answer to it arrives.
    Answered(Box<Order>, Answer),
    /// The patience of a process with a message is over.
    CallOver(Box<Order>),
    /// A resource manager asks for the decision on a transaction.
    Ask(usize, TransactionId),
    /// It is told the decision.
    Told(usize, TransactionId, Resolution),
    /// A resource manager wanted to be woken.
    ManagerWake(usize),
    /// A user calls.
    Visit(usize),
    /// Leases are renewed, or end.
    Leases,
    /// Something goes wrong with some process.
    Accident,
    /// Some resource manager starts again.
    ManagerRestart,
    /// A process starts.
    Start,
}

/// A message of a process to a resource manager.
#[derive(Debug, Clone)]
struct Order {
    process: usize,
    epoch: u64,
    /// The number of the call.
    call: u64,
    rm: usize,
    txn: TransactionId,
    message: Message,
    oldest_open: u64,
}

/// Who waits for a reply of a process.
#[derive(Debug, Clone)]
enum Waiter {
    User(usize),
    Manager(usize, TransactionId),
}

/// One world.
struct World {
    now_us: i64,
    queue: Queue<Event>,
    dice: RandomStream,
    store: EtcdTwin,
    processes: Vec<Process>,
    managers: Vec<Manager>,
    users: Vec<User>,
    waiters: BTreeMap<u64, Waiter>,
    /// Calls that have no answer yet.
    calls: BTreeMap<u64, usize>,
    numbers: u64,
    /// Of a thousand messages, so many are lost, and so many come twice.
    lost: u64,
    doubled: u64,
    mistake: Option<Mistake>,
    /// The fold of the log, and a reader of it.
    shadow: Coordinator,
    reader: SharedLog<EtcdTwin>,
    counts: TakeoverCounts,
    trace: Option<Vec<String>>,
}

/// Runs the world of a seed.
///
/// # Errors
/// What does not hold, with the simulated time.
pub fn run(seed: u64, mistake: Option<Mistake>) -> Result<TakeoverCounts, String> {
    let mut world = World::new(seed, mistake, None);
    let end = world.run();
    end.map_err(|what| format!("seed {seed} at {} ms: {what}", world.now_us / 1_000))?;
    Ok(world.counts)
}

/// Runs the world of a seed, and says everything that happens.
///
/// # Errors
/// As [`run`].
pub fn run_logged(seed: u64) -> (Vec<String>, Result<TakeoverCounts, String>) {
    let mut world = World::new(seed, None, Some(Vec::new()));
    let end = world.run().map(|()| world.counts);
    (world.trace.unwrap_or_default(), end)
}

impl World {
    fn new(seed: u64, mistake: Option<Mistake>, trace: Option<Vec<String>>) -> Self {
        let mut dice = RandomStream::new(seed, "takeover");
        let faults = u32::try_from(dice.below(300)).unwrap_or_default();
        let store = EtcdTwin::new(dice.below(u64::MAX), faults);
        let reader = process::make(&store);
        if mistake == Some(Mistake::NoCompare) {
            store.compare_nothing();
        }
        let count = 2 + dice.below(3) as usize;
        let managers = (0..count).map(Manager::new).collect();
        let requests = 3 + dice.below(12) as usize;
        let users = (0..requests).map(|_| User::draw(&mut dice, count)).collect();
        let (lost, doubled) = (dice.below(200), dice.below(100));
        let mut world = Self {
            now_us: 0,
            queue: Queue::new(Time::from_us(0)),
            dice,
            store,
            processes: Vec::new(),
            managers,
            users,
            waiters: BTreeMap::new(),
            calls: BTreeMap::new(),
            numbers: 0,
            lost,
            doubled,
            mistake,
            shadow: process::coordinator(),
            reader,
            counts: TakeoverCounts { worlds: 1, ..TakeoverCounts::default() },
            trace,
        };
        for rm in 0..count {
            world.start_manager(rm);
        }
        world.after(0, Event::Start);
        world.after(10_000, Event::Start);
        world.after(500_000, Event::Leases);
        world.after(2_000_000, Event::Accident);
        world.after(3_000_000, Event::ManagerRestart);
        for user in 0..requests {
            let at = world.below(FAULTS_US);
            world.after(at, Event::Visit(user));
        }
        world
    }

    fn run(&mut self) -> Result<(), String> {
        while let Some((at, event)) = self.queue.take() {
            self.now_us = at.as_us();
            self.counts.events += 1;
            if self.counts.events > EVENTS_MAX || self.now_us > REST_US {
                return Err(format!("I22: no rest: {}", self.restless()));
            }
            self.happen(event)?;
            self.follow_log()?;
            if self.now_us > FAULTS_US && self.is_at_rest() {
                return self.check_at_rest();
            }
        }
        Err("nothing is left to do, and the world is not at rest".to_owned())
    }

    fn below(&mut self, most: i64) -> i64 {
        self.dice.below(most.unsigned_abs()) as i64
    }

    fn happens(&mut self, in_thousand: u64) -> bool {
        self.is_faulty() && self.dice.below(1_000) < in_thousand
    }

    const fn is_faulty(&self) -> bool {
        self.now_us < FAULTS_US
    }

    fn after(&mut self, us: i64, event: Event) {
        self.queue.at(Time::from_us(self.now_us.saturating_add(us)), event);
    }

    fn fresh(&mut self) -> u64 {
        self.numbers += 1;
        self.numbers
    }

    fn note(&mut self, what: impl FnOnce() -> String) {
        if let Some(trace) = &mut self.trace {
            trace.push(format!("{:>10} ms  {}", self.now_us / 1_000, what()));
        }
    }

    fn happen(&mut self, event: Event) -> Result<(), String> {
        // Whoever is frozen does later what it should do now.
        if let Some(until) = self.frozen_until(&event) {
            let thaw = until - self.now_us;
            self.after(thaw, event);
            return Ok(());
        }
        match event {
            Event::Start => self.start_process(),
            Event::Look(process) => self.look(process),
            Event::Sync(process) => self.sync(process),
            Event::Wake(process) => {
                self.processes[process].wake_queued = None;
                self.begin(process)
            }
            Event::Planned(process, planned) => {
                let (job, caller) = *planned;
                self.planned(process, job, caller)
            }
            Event::Order(order) => self.order(*order),
            Event::Answered(order, answer) => self.answered(*order, answer),
            Event::CallOver(order) => {
                if self.calls.remove(&order.call).is_some() {
                    return self.deliver(&order, Delivery::Lost);
                }
                Ok(())
            }
            Event::Ask(rm, txn) => self.ask(rm, txn),
            Event::Told(rm, txn, resolution) => {
                self.step_manager(rm, ParticipantInput::Resolved { txn, resolution });
                Ok(())
            }
            Event::ManagerWake(rm) => {
                self.managers[rm].wake_queued = None;
                self.wake_manager(rm);
                Ok(())
            }
            Event::Visit(user) => self.visit(user),
            Event::Leases => self.leases(),
            Event::Accident => {
                self.accident();
                Ok(())
            }
            Event::ManagerRestart if !self.is_faulty() => Ok(()),
            Event::ManagerRestart => {
                let next = 1_000_000 + self.below(20_000_000);
                self.after(next, Event::ManagerRestart);
                let rm = self.dice.below(self.managers.len() as u64) as usize;
                self.restart_manager(rm)
            }
        }
    }

    /// Until when the process of an event does nothing; `None` if it is well.
    fn frozen_until(&self, event: &Event) -> Option<i64> {
        let process = match event {
            Event::Look(process)
            | Event::Sync(process)
            | Event::Wake(process)
            | Event::Planned(process, _) => *process,
            Event::Answered(order, _) | Event::CallOver(order) => order.process,
            _ => return None,
        };
        let until = self.processes[process].frozen_until_us;
        (until > self.now_us).then_some(until)
    }

    /// Leases are renewed by those who can, and end for the others. Sometimes one ends too early.
    fn leases(&mut self) -> Result<(), String> {
        self.after(1_000_000, Event::Leases);
        let now = self.now_us;
        for process in &mut self.processes {
            if process.is_alive() && process.frozen_until_us <= now {
                process.renewed_us = now;
            }
        }
        let leader = self.store.observer().get(LEADER).map_err(|error| error.to_string())?;
        let leader = leader.map(|leader| String::from_utf8_lossy(&leader.value).into_owned());
        // Whoever believes to lead learns that its lease has ended when it renews it, which may take a while.
        for at in self.leaders() {
            let process = &self.processes[at];
            let knows = Some(&process.name) == leader.as_ref() || process.frozen_until_us > now;
            if !knows && self.dice.below(3) == 0 {
                self.end_process(at, "learns that its lease has ended");
            }
        }
        let Some(leader) = leader else { return Ok(()) };
        let holder = self.processes.iter().find(|process| process.name == leader);
        let lease = limits::LEASE.as_us();
        let is_over =
            holder.is_none_or(|holder| !holder.is_alive() || now - holder.renewed_us >= lease);
        let lies = self.happens(20);
        self.counts.lies += u64::from(lies && !is_over);
        if is_over || lies {
            self.note(|| format!("the lease of {leader} ends"));
            self.store.expire(LEADER);
        }
        Ok(())
    }

    /// Some process freezes or dies, or another one starts.
    fn accident(&mut self) {
        if !self.is_faulty() {
            self.store.set_faults(0);
            for process in &mut self.processes {
                process.frozen_until_us = process.frozen_until_us.min(self.now_us);
            }
            return;
        }
        let next = 500_000 + self.below(8_000_000);
        self.after(next, Event::Accident);
        let alive: Vec<usize> =
            (0..self.processes.len()).filter(|at| self.processes[*at].is_alive()).collect();
        let Some(victim) = alive.get(self.dice.below(alive.len() as u64) as usize).copied() else {
            return;
        };
        if self.dice.below(3) == 0 {
            self.end_process(victim, "is killed");
            return;
        }
        let long = self.below(12_000_000);
        self.counts.freezes += 1;
        self.processes[victim].frozen_until_us = self.now_us + long;
        // What has arrived meanwhile is handled when it goes on.
        self.after(long, Event::Wake(victim));
        let name = self.processes[victim].name.clone();
        self.note(|| format!("{name} is frozen for {} ms", long / 1_000));
    }

    /// Sends a message, which may be lost, come twice and come late.
    fn send(&mut self, event: Event) {
        let copies = match (self.happens(self.lost), self.happens(self.doubled)) {
            (true, _) => 0,
            (false, true) => 2,
            (false, false) => 1,
        };
        for _ in 0..copies {
            let slow = if self.happens(100) { 8_000_000 } else { 40_000 };
            let delay = 500 + self.below(slow);
            self.after(delay, event.clone());
        }
    }

    /// Those who believe that they lead.
    fn leaders(&self) -> Vec<usize> {
        let leads = |at: &usize| matches!(self.processes[*at].role, Role::Leads { .. });
        (0..self.processes.len()).filter(leads).collect()
    }
}

fn rm_name(rm: usize) -> RmName {
    RmName::composed(format!("rm-{rm}"))
}

fn index_of(rm: &RmName) -> usize {
    rm.as_str().rsplit('-').next().and_then(|number| number.parse().ok()).unwrap_or_default()
}

/// What the clocks of a machine show that was started so long before the world.
fn now_on(now_us: i64, booted_us: i64) -> coalloc_common::Now {
    coalloc_common::Now {
        wall: crate::world::node::WALL_START.saturating_add(Span::from_us(now_us)),
        boot: coalloc_common::BootTime::from_us(now_us + booted_us),
    }
}

/// The kind of a message that is delivered to a core, with what became of it.
fn delivered(order: &Order, delivery: Delivery) -> CoordinatorInput {
    let (rm, txn) = (rm_name(order.rm), order.txn.clone());
    let kind: MessageKind = order.message.kind();
    CoordinatorInput::Delivered { rm, txn, kind, delivery }
}
