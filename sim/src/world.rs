//! A simulated world of coordinators and participants: one event queue, one seed, integer time.
//!
//! The cores are the real ones. Around each core, the world does what its shell does in a daemon. A batch is
//! stepped, synced, then sent ([`node`]). A message is a call whose answer comes back as `Delivered`, or
//! counts as lost after `limits::MESSAGE_PATIENCE`; the same holds for a question (Resolve) of an RM
//! ([`flight`]). The network ([`network`]) loses, doubles, delays and reorders packets as it is set to. Nodes
//! die at any point of a batch. Users ([`clients`]) ask again until they have an answer. Coordinators may be
//! children of other coordinators ([`tree`]), and their shells plan what a coordinator wants planned
//! ([`planning`]). Workflows are planned by the real planners ([`workflows`]), and change when their users report
//! what happens to them ([`reports`]). In most worlds nodes and users have identities, by which every message is judged
//! ([`identity`]). Everything that happens is checked ([`check`]).
//!
//! Left out: the other real planners, which other modules test. Modelled on `TigerBeetle`'s VOPR. The file is long because
//! the state of the world, its events and what each of them does are read together.

mod asking;
pub mod check;
pub mod clients;
mod compare;
pub mod counts;
pub mod equipment;
pub mod exempt;
mod flight;
pub mod identity;
pub mod meddling;
pub mod model;
pub mod network;
pub mod node;
pub mod operator;
pub mod planning;
pub mod print;
mod quota_check;
pub mod reports;
mod rest;
mod revisions;
pub mod rogue;
pub mod script;
mod sent;
pub mod tree;
pub mod trouble;
mod usage;
mod watchers;
pub mod workflows;

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use std::sync::{Arc, Mutex, PoisonError};

use coalloc_common::{CoordinatorName, Reason, ReservationId, RmName, Time, TransactionId};
use coalloc_protocol::coordinator::{
    Coordinator, CoordinatorConfig, CoordinatorEffect, CoordinatorInput, ForgetPolicy, MessageKind,
};
use coalloc_protocol::message::{Delivery, Resolution};
use coalloc_protocol::participant::{
    Participant, ParticipantConfig, ParticipantEffect, ParticipantInput, ParticipantRecord,
};

use self::check::Watch;
use self::clients::{Clients, Visit};
pub use self::counts::{Counts, Fault};
use self::equipment::{AllEquipment, EquipmentEvent};
use self::identity::Identities;
use self::network::{FaultRates, OpenCall, Packet, Question, RandomSource, Rule};
use self::node::{CrashPoint, DiskSurvival, Finished, Node};
use self::planning::ShellJob;
use self::reports::AllFollowing;
use self::rogue::{Forged, Forgery, Rogue};
use self::script::{Script, coordinator_point, participant_point};
use self::trouble::{Trouble, Troubles};
use self::usage::{AllNews, News};
use self::watchers::Subscriber;
use self::workflows::Workflows;
use crate::engine::Queue;

/// The address of a node: its kind, and its index in [`World::grcs`] or [`World::rms`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Address {
    Grc(usize),
    Rm(usize),
}

/// An event of the queue.
#[derive(Debug, Clone)]
pub enum Event {
    /// A packet arrives.
    Arrive { from: Address, to: Address, packet: Packet },
    /// A message of the rogue arrives (F14).
    Forged(Box<Forged>),
    /// The timeout of a coordinator's call (by its number) has passed.
    CallOver(u64),
    /// The timeout of an RM's question (by its number) has passed.
    AskOver(u64),
    /// The batch that this node wrote in this life is on the disk.
    Synced(Address, u64),
    /// The tick that this node wanted in this life is due.
    Wake(Address, u64),
    /// A process dies, between two batches or within one.
    Crash { node: Address, down_us: i64, reboot: bool },
    /// A process starts again, after a reboot of its machine if `reboot` is set.
    Restart { node: Address, reboot: bool },
    /// Nothing passes from the first node to the second from now on.
    Cut(Address, Address),
    /// Packets pass from the first node to the second again.
    Mend(Address, Address),
    /// An operator or a bad time server moves the wall clock by so many microseconds.
    WallJump(Address, i64),
    /// A trouble of a node or of a direction begins or ends.
    Trouble(Trouble),
    /// The shell of a coordinator has planned a job.
    Planned(Box<ShellJob>),
    /// A user calls, or calls again.
    Visit(Visit),
    /// The shell of a coordinator, in this life, asks for what follows from the reports about a reservation.
    Follow { grc: usize, life: u64, reservation: ReservationId },
    /// Something happens at the equipment of an RM.
    Equipment(EquipmentEvent),
    /// An RM tells a coordinator of its equipment.
    News(News),
}

/// Who waits for the reply that belongs to a token of a coordinator.
#[derive(Debug, Clone)]
pub enum Waiter {
    /// The user of this demand.
    User { demand: usize },
    /// The user of this demand, for one of its changes.
    Changer { demand: usize, wish: usize },
    /// The user of this demand, for one of its reports.
    Reporter { demand: usize, report: usize },
    /// The coordinator's own shell, for the change that follows from so many reports about a reservation.
    Follower { demand: usize, reservation: ReservationId, reports: usize },
    /// An RM or a child coordinator, for the answer to this question.
    Rm { by: Address, ask: u64 },
    /// A parent coordinator, for the answer to this call.
    Parent { call: u64 },
    /// A parent coordinator, for whether its Hold may follow.
    Preface,
    /// An operator.
    Operator,
    /// A meddler: somebody who has no business with this transaction (F13).
    Meddler { txn: TransactionId },
    /// The rogue (F14).
    Rogue(Forgery),
}

/// What is done with the transcript.
#[derive(Debug)]
pub enum Trace {
    Off,
    /// The transcript of a story: it is kept, and everything happens as the script says.
    Keep(Vec<String>),
    Print,
    /// Shared with the caller, so that the lines survive when the world panics.
    Share(Arc<Mutex<Vec<String>>>),
}

/// Until when faults happen in most worlds, in microseconds.
const FAULTS_US: i64 = 240_000_000;

/// The state of a simulated world. Instants and durations are microseconds of the world since its beginning.
pub struct World {
    /// The current instant.
    pub now_us: i64,
    /// Until when faults happen, in microseconds.
    pub faults_us: i64,
    /// The latest arrival of a packet that was sent while faults happened.
    pub last_late_us: i64,
    queue: Queue<Event>,
    /// The last number that was given out, see [`World::fresh`].
    numbers: u64,
    /// The coordinators. [`Address::Grc`] holds an index into this list.
    pub grcs: Vec<Node<Coordinator>>,
    grc_names: Vec<CoordinatorName>,
    /// The RMs. [`Address::Rm`] holds an index into this list.
    pub rms: Vec<Node<Participant>>,
    /// The equipment of some RMs.
    equipment: AllEquipment,
    /// What RMs are telling of it.
    news: AllNews,
    /// The subscriber of each RM.
    subscribers: Vec<Subscriber>,
    /// For each RM, the coordinators that its configuration leaves out for now. The set is read at a start.
    left_out: Vec<Rc<RefCell<BTreeSet<CoordinatorName>>>>,
    /// For each message of a meddler that an RM has not answered yet, the transaction that it is about.
    meddled: BTreeMap<u64, TransactionId>,
    /// Who everybody is; `None` when all messages come in plain text.
    identities: Option<Identities>,
    /// Who has stolen a coordinator's key, if anybody has.
    pub rogue: Option<Rogue>,
    /// For each child coordinator, by its index, its RMs.
    pub members: BTreeMap<usize, Vec<RmName>>,
    /// For each coordinator of a tree, the members that its users may name in a demand.
    pub served: BTreeMap<usize, Vec<RmName>>,
    /// So many candidates in a thousand have their RMs asked one after the other.
    pub in_turns: u64,
    /// Of the candidates whose RMs are asked in turn, so many in a thousand are booked one-way.
    pub one_way: u64,
    /// Why each child coordinator refused to hold what its parent wanted held.
    refused_to_parent: BTreeMap<(usize, TransactionId), Reason>,
    /// Decides after how many records each node writes a snapshot.
    snapshot_seed: u64,
    /// The source of all random numbers of the world.
    pub dice: RandomSource,
    /// How often packets, syncs and disks have faults at present.
    pub weather: FaultRates,
    cuts: BTreeSet<(Address, Address)>,
    /// The present troubles of single nodes and directions.
    pub troubles: Troubles,
    /// The story's rules for the next packets.
    pub rules: Vec<Rule>,
    /// The script of a world in which nothing is left to chance.
    pub script: Option<Script>,
    /// The story's crashes, each at the node's next sync that writes.
    pub crash_next: BTreeMap<Address, CrashPoint>,
    /// The story's frozen processes: each is frozen for so long at its next sync that writes.
    pub freeze_next: BTreeMap<Address, i64>,
    /// Crashes at a node's sync of this number. Only syncs that write count, from 1 on, over all its lives.
    pub crash_at: BTreeMap<(Address, u64), CrashPoint>,
    calls: BTreeMap<u64, OpenCall>,
    questions: BTreeMap<u64, Question>,
    /// Who waits for a coordinator's reply, by token.
    pub waiters: BTreeMap<u64, Waiter>,
    /// The users and their demands.
    pub clients: Clients,
    /// What the shells know about workflows.
    pub workflows: Workflows,
    /// What the shells remember of reservations with reports.
    following: AllFollowing,
    /// What the checks have recorded so far.
    pub watch: Watch,
    /// The transcript.
    pub trace: Trace,
    /// The counters of this run.
    pub counts: Counts,
    /// What coordinators forget from their next start on, whatever their configuration says; `None`: as it says.
    pub forgets_later: Rc<Cell<Option<ForgetPolicy>>>,
}

/// More events than any world needs that comes to rest: the longest of 50,000 had some 20,000.
const EVENTS_MAX: u64 = 1_000_000;

impl World {
    /// A world without nodes or users.
    pub fn new(seed: u64, trace: Trace) -> Self {
        Self {
            now_us: 0,
            faults_us: FAULTS_US,
            last_late_us: 0,
            queue: Queue::new(Time::from_us(0)),
            numbers: 0,
            grcs: Vec::new(),
            grc_names: Vec::new(),
            rms: Vec::new(),
            equipment: AllEquipment::default(),
            news: AllNews::default(),
            subscribers: Vec::new(),
            left_out: Vec::new(),
            meddled: BTreeMap::new(),
            identities: None,
            rogue: None,
            members: BTreeMap::new(),
            served: BTreeMap::new(),
            in_turns: 0,
            one_way: 0,
            refused_to_parent: BTreeMap::new(),
            snapshot_seed: seed,
            dice: RandomSource::new(seed),
            weather: FaultRates::default(),
            cuts: BTreeSet::new(),
            troubles: Troubles::default(),
            rules: Vec::new(),
            script: None,
            crash_next: BTreeMap::new(),
            freeze_next: BTreeMap::new(),
            crash_at: BTreeMap::new(),
            calls: BTreeMap::new(),
            questions: BTreeMap::new(),
            waiters: BTreeMap::new(),
            clients: Clients::default(),
            workflows: Workflows::default(),
            following: AllFollowing::new(),
            watch: Watch::default(),
            trace,
            counts: Counts::default(),
            forgets_later: Rc::default(),
        }
    }

    /// After how many records the next node writes a snapshot. It depends on the seed and differs from node to node.
    fn snapshot_every(&self) -> u64 {
        let nodes = (self.grcs.len() + self.rms.len()) as u64;
        1 + self.snapshot_seed.wrapping_add(13 * nodes) % 47
    }

    /// Adds a coordinator and starts it.
    pub fn add_grc(&mut self, config: CoordinatorConfig) -> Result<(), String> {
        self.grc_names.push(config.name.clone());
        // In the transcript, apostrophes distinguish two ledgers under one name.
        let twins = self.grcs.iter().filter(|grc| grc.name == config.name.as_str()).count();
        let name = format!("{}{}", config.name, "'".repeat(twins));
        let later = Rc::clone(&self.forgets_later);
        let make = move |_: &str| {
            let forgets = later.get().or(config.forgets);
            Coordinator::new(CoordinatorConfig { forgets, ..config.clone() })
        };
        let every = self.snapshot_every();
        let node = Node::new(&name, make, |_| CoordinatorInput::Start).with_snapshots(every);
        self.grcs.push(node);
        self.restart(Address::Grc(self.grcs.len() - 1), false)
    }

    /// Adds a participant and starts it.
    pub fn add_rm(&mut self, config: ParticipantConfig) -> Result<(), String> {
        let name = config.name.clone();
        let left_out = Rc::new(RefCell::new(BTreeSet::new()));
        self.left_out.push(Rc::clone(&left_out));
        let is_equipped = self.gets_equipment(self.rms.len());
        let make = move |_: &str| {
            let mut config = config.clone();
            config.coordinators = &config.coordinators - &*left_out.borrow();
            let participant = Participant::new(config).with_changes_kept(watchers::CHANGES_KEPT);
            if is_equipped { participant.with_equipment() } else { participant }
        };
        let start = |boot| ParticipantInput::Start { boot };
        let every = self.snapshot_every();
        self.rms.push(Node::new(name.as_str(), make, start).with_snapshots(every));
        self.subscribers.push(Subscriber::default());
        self.restart(Address::Rm(self.rms.len() - 1), false)
    }

    /// Does the configuration of an RM name this coordinator?
    pub fn serves(&self, rm: usize, grc: usize) -> bool {
        self.rms[rm].shadow.config().coordinators.contains(&self.grc_names[grc])
    }

    /// Schedules an event. An event for a past instant happens now.
    pub fn at(&mut self, at_us: i64, event: Event) {
        self.queue.at(Time::from_us(at_us.max(self.now_us)), event);
    }

    /// Schedules an event so many microseconds after now.
    pub fn after(&mut self, us: i64, event: Event) {
        self.at(self.now_us.saturating_add(us), event);
    }

    /// A number that was not used before in this world.
    pub fn fresh(&mut self) -> u64 {
        self.numbers += 1;
        self.numbers
    }

    /// The name of a node in the transcript.
    pub fn name(&self, node: Address) -> &str {
        match node {
            Address::Grc(index) => &self.grcs[index].name,
            Address::Rm(index) => &self.rms[index].name,
        }
    }

    /// The node with this name; coordinators are searched first.
    pub fn find(&self, name: &str) -> Option<Address> {
        let grc = self.grcs.iter().position(|node| node.name == name).map(Address::Grc);
        grc.or_else(|| self.rms.iter().position(|node| node.name == name).map(Address::Rm))
    }

    /// The index of the RM with this name.
    pub fn rm_index(&self, name: &RmName) -> Option<usize> {
        self.rms.iter().position(|rm| rm.name == name.as_str())
    }

    /// Adds a line to the transcript. The text is made only when somebody reads it.
    pub fn say(&mut self, who: impl Fn(&Self) -> String, what: impl Fn(&Self) -> String) {
        if matches!(self.trace, Trace::Off) {
            return;
        }
        let line = print::line(self.now_us, &who(self), &what(self));
        match &mut self.trace {
            Trace::Off => {}
            Trace::Keep(lines) => lines.push(line.trim_end().to_owned()),
            Trace::Print => eprintln!("{line}"),
            Trace::Share(lines) => {
                let mut lines = lines.lock().unwrap_or_else(PoisonError::into_inner);
                lines.push(line.trim_end().to_owned());
            }
        }
    }

    /// Does a script determine everything that happens?
    const fn is_story(&self) -> bool {
        matches!(self.trace, Trace::Keep(_)) || self.script.is_some()
    }

    /// Is nothing under way except timeouts?
    pub fn is_idle(&self) -> bool {
        let under_way = |event: &Event| {
            matches!(
                event,
                Event::Arrive { .. }
                    | Event::Synced(..)
                    | Event::Planned(_)
                    | Event::Visit(_)
                    | Event::Follow { .. }
            )
        };
        !self.queue.iter().any(under_way)
    }

    fn say_at(&mut self, node: Address, what: impl Fn() -> String) {
        self.say(|world| world.name(node).to_owned(), |_| format!("| {}", what()));
    }

    /// The instant of the next event.
    pub fn next_at(&self) -> Option<i64> {
        self.queue.next_at().map(Time::as_us)
    }

    /// Handles all events up to an instant.
    pub fn run_until(&mut self, until_us: i64) -> Result<(), String> {
        while self.next_at().is_some_and(|at| at <= until_us) {
            self.step()?;
        }
        Ok(())
    }

    /// Handles the next event. Returns false when there is none.
    pub fn step(&mut self) -> Result<bool, String> {
        let Some((at, event)) = self.queue.take() else { return Ok(false) };
        let at = at.as_us();
        self.now_us = at;
        self.counts.events += 1;
        if self.counts.events > EVENTS_MAX {
            return Err(format!("I22: {EVENTS_MAX} events, and still no rest"));
        }
        match event {
            Event::Arrive { from, to, packet } => self.arrive(from, to, packet)?,
            Event::Forged(forged) => self.forged_arrives(*forged)?,
            Event::CallOver(call) => self.call_ends(call, Delivery::Lost)?,
            Event::AskOver(ask) => self.ask_ends(ask, Resolution::Lost)?,
            Event::Synced(node, life) | Event::Wake(node, life)
                if life == self.life(node) && self.troubles.frozen_until(node).is_some() =>
            {
                // A frozen process continues where it was.
                let until_us = self.troubles.frozen_until(node).unwrap_or(at);
                self.at(until_us.max(at + 1), event);
            }
            Event::Equipment(what)
                if let Some(until_us) = World::shell_of(what)
                    .and_then(|rm| self.troubles.frozen_until(Address::Rm(rm))) =>
            {
                self.at(until_us.max(at + 1), event);
            }
            Event::Equipment(what) => self.equipment_event(what)?,
            Event::News(news) => self.news_arrives(news)?,
            Event::Synced(node, life) if life == self.life(node) => self.synced(node)?,
            Event::Wake(node, life) if life == self.life(node) => {
                self.forget_tick(node);
                self.begin(node)?;
            }
            Event::Synced(..) | Event::Wake(..) => {}
            Event::Crash { node, down_us, reboot } => self.crash(node, down_us, reboot),
            Event::Restart { node, reboot } => self.restart(node, reboot)?,
            Event::Cut(from, to) => self.cut(from, to),
            Event::Mend(from, to) => self.mend(from, to),
            Event::WallJump(node, us) => self.wall_jump(node, us),
            Event::Trouble(trouble) => self.trouble(trouble)?,
            Event::Planned(job) => self.job_planned(*job)?,
            Event::Visit(visit) => self.visit(visit)?,
            Event::Follow { grc, life, reservation } => self.follow_now(grc, life, &reservation)?,
        }
        Ok(true)
    }

    /// Stops all packets in one direction between two nodes.
    pub fn cut(&mut self, from: Address, to: Address) {
        self.cuts.insert((from, to));
        self.counts.cuts += 1;
        self.counts.fault(Fault::F2);
        self.say(
            |world| format!("{} -> {}", world.name(from), world.name(to)),
            |_| "nothing passes from now on".to_owned(),
        );
    }

    /// Lets packets pass again in one direction between two nodes.
    pub fn mend(&mut self, from: Address, to: Address) {
        self.cuts.remove(&(from, to));
    }

    /// Lets packets pass again in every direction.
    pub fn mend_all(&mut self) {
        self.cuts.clear();
    }

    /// Sees to it that every node that is down restarts within so many microseconds.
    pub fn restart_within(&mut self, us: i64) {
        let latest = Time::from_us(self.now_us + us);
        self.queue.hurry(latest, |event| matches!(event, Event::Restart { .. }));
    }

    /// Removes the faults that are still to come from the queue.
    pub fn drop_faults(&mut self) {
        self.queue.retain(|event| match event {
            Event::Cut(..) | Event::WallJump(..) | Event::Crash { .. } => false,
            Event::Trouble(trouble) => !trouble.begins(),
            Event::Equipment(what) => !what.begins(),
            _ => true,
        });
    }

    fn wall_jump(&mut self, node: Address, us: i64) {
        self.counts.jumps += 1;
        self.counts.fault(Fault::F5);
        self.say_at(node, || format!("wall clock is set, {} s ahead of now", us / 1_000_000));
        let clock = match node {
            Address::Grc(index) => &mut self.grcs[index].clock,
            Address::Rm(index) => &mut self.rms[index].clock,
        };
        (clock.wall_ahead_us, clock.was_set) = (us, true);
        if let Address::Rm(rm) = node {
            self.disturb_equipment(rm);
        }
    }

    fn life(&self, node: Address) -> u64 {
        match node {
            Address::Grc(index) => self.grcs[index].life,
            Address::Rm(index) => self.rms[index].life,
        }
    }

    fn forget_tick(&mut self, node: Address) {
        match node {
            Address::Grc(index) => self.grcs[index].tick_queued = None,
            Address::Rm(index) => self.rms[index].tick_queued = None,
        }
    }

    fn is_up(&self, node: Address) -> bool {
        match node {
            Address::Grc(index) => self.grcs[index].is_up(),
            Address::Rm(index) => self.rms[index].is_up(),
        }
    }

    /// The node dies at once. It comes back by itself unless `down_us` is negative.
    pub fn crash(&mut self, node: Address, down_us: i64, reboot: bool) {
        if !self.is_up(node) {
            return;
        }
        self.counts.crashes += 1;
        self.counts.long_downs += u64::from(down_us >= 60_000_000);
        self.troubles.end_process(node);
        self.say_at(node, || "dies".to_owned());
        match node {
            Address::Grc(index) => {
                self.grcs[index].crash();
                self.forget_following(index);
            }
            Address::Rm(index) => {
                self.rms[index].crash();
                self.subscribers[index].disconnect();
                self.equipment_crashes(index);
            }
        }
        if down_us >= 0 {
            self.after(down_us, Event::Restart { node, reboot });
        }
    }

    /// Starts the process of a node that is down, after a reboot of its machine if `reboot` is set.
    pub fn restart(&mut self, node: Address, reboot: bool) -> Result<(), String> {
        if self.is_up(node) {
            return Ok(());
        }
        self.start_damaged(node)?;
        let what = if reboot { "starts, its machine booted anew" } else { "starts" };
        self.say_at(node, || what.to_owned());
        match node {
            Address::Grc(index) => {
                self.grcs[index].restart(self.now_us, reboot)?;
                self.check_all_reported(index)?;
                self.follow_all(index);
            }
            Address::Rm(index) => {
                self.rms[index].restart(self.now_us, reboot)?;
                self.equipment_starts(index);
            }
        }
        self.news_after_start(node);
        self.watch.asking.awake(node, self.now_us);
        self.start_slowly(node)?;
        self.begin(node)
    }

    /// Begins a batch if inputs wait; otherwise sees to it that the node is woken in time.
    pub fn begin(&mut self, node: Address) -> Result<(), String> {
        if self.troubles.frozen_until(node).is_some() {
            return Ok(());
        }
        let began = match node {
            Address::Grc(index) => self.grcs[index].begin(self.now_us)?,
            Address::Rm(index) => self.rms[index].begin(self.now_us)?,
        };
        if began {
            let us = self.weather.sync_us(&mut self.dice);
            let life = self.life(node);
            self.after(us, Event::Synced(node, life));
            return self.freeze_in_sync(node);
        }
        let (wants, queued) = match node {
            Address::Grc(index) => (self.grcs[index].wants_tick_at(), self.grcs[index].tick_queued),
            Address::Rm(index) => (self.rms[index].wants_tick_at(), self.rms[index].tick_queued),
        };
        let Some(at) = wants.filter(|at| queued.is_none_or(|queued| *at < queued)) else {
            return Ok(());
        };
        match node {
            Address::Grc(index) => self.grcs[index].tick_queued = Some(at),
            Address::Rm(index) => self.rms[index].tick_queued = Some(at),
        }
        let life = self.life(node);
        self.at(at, Event::Wake(node, life));
        Ok(())
    }

    /// Freezes a story's process after its step and before the sync has made that step durable.
    fn freeze_in_sync(&mut self, node: Address) -> Result<(), String> {
        if self.next_write(node).is_none() {
            return Ok(());
        }
        let us = self.freeze_next.remove(&node);
        us.map_or(Ok(()), |us| self.trouble(Trouble::Freeze(node, us)))
    }

    fn next_write(&self, node: Address) -> Option<u64> {
        match node {
            Address::Grc(index) => self.grcs[index].next_write(),
            Address::Rm(index) => self.rms[index].next_write(),
        }
    }

    /// Where in this batch the node dies, if it does.
    fn crash_point(&mut self, node: Address) -> Option<CrashPoint> {
        let number = self.next_write(node)?;
        let planned = self.crash_at.remove(&(node, number));
        if let Some(point) = planned.or_else(|| self.crash_next.remove(&node)) {
            return Some(point);
        }
        if let Some(point) = self.dies_with_decision(node) {
            return Some(point);
        }
        if self.troubles.is_full(node) {
            self.counts.full += 1;
            self.counts.fault(Fault::F4);
            return Some(CrashPoint::BeforeWrite);
        }
        let unsynced = [DiskSurvival::Nothing, DiskSurvival::Part, DiskSurvival::All];
        let (crash, error) = (self.weather.crash, self.weather.io_error);
        if self.dice.per_mille(error) {
            self.counts.io_errors += 1;
            self.counts.fault(Fault::F4);
            let survives = *self.dice.pick(&unsynced);
            let at_write = self.dice.per_mille(500);
            let point = CrashPoint::BeforeFsync(survives);
            return Some(if at_write { CrashPoint::BeforeWrite } else { point });
        }
        if !self.dice.per_mille(crash) {
            return None;
        }
        let point = match self.dice.below(8) {
            0 => CrashPoint::BeforeWrite,
            which @ 1..=3 => {
                CrashPoint::BeforeFsync(unsynced[usize::try_from(which - 1).expect("small")])
            }
            4 => CrashPoint::AfterFsync,
            sent => CrashPoint::AfterEffects(usize::try_from(sent - 4).expect("small")),
        };
        // Every third of those that die after their first effect dies in a snapshot instead.
        let point = match point {
            CrashPoint::AfterEffects(1) if number.is_multiple_of(3) => {
                let survives = unsynced[usize::try_from(number / 3 % 3).expect("small")];
                CrashPoint::InSnapshot(survives)
            }
            point => point,
        };
        self.count_crash(node, point);
        Some(point)
    }

    fn count_crash(&mut self, node: Address, point: CrashPoint) {
        self.counts.fault(Fault::F1);
        match point {
            CrashPoint::BeforeWrite => self.counts.before_write += 1,
            CrashPoint::BeforeFsync(survives) => {
                self.counts.before_fsync += 1;
                match survives {
                    DiskSurvival::Nothing => self.counts.lost_writes += 1,
                    DiskSurvival::Part => self.counts.torn += 1,
                    DiskSurvival::All => {}
                }
                if survives != DiskSurvival::All {
                    self.counts.fault(Fault::F4);
                }
            }
            CrashPoint::AfterFsync => self.counts.after_fsync += 1,
            CrashPoint::AfterEffects(_) => self.counts.after_effects += 1,
            CrashPoint::InSnapshot(_) => self.counts.in_snapshot += 1,
        }
        let rms = (0..self.rms.len()).map(Address::Rm);
        let mut others = (0..self.grcs.len()).map(Address::Grc).chain(rms);
        self.counts.pairs += u64::from(others.any(|other| other != node && !self.is_up(other)));
    }

    /// The disk is done: records are checked and effects leave, or the node dies on the way.
    fn synced(&mut self, node: Address) -> Result<(), String> {
        let point = self.crash_point(node);
        let failed = match node {
            Address::Grc(index) => self.grc_synced(index, point)?,
            Address::Rm(index) => self.rm_synced(index, point)?,
        };
        if point.is_none() && !failed {
            if let Address::Rm(rm) = node {
                self.equipment_goes_on(rm)?;
            }
            return self.begin(node);
        }
        let (down_us, reboot) = match &self.script {
            Some(script) => (script.down_us, script.reboot),
            // A story says itself when the node comes back.
            None if self.is_story() => (-1, false),
            None => (self.down_us(node), self.dice.per_mille(300)),
        };
        self.crash(node, down_us, reboot);
        Ok(())
    }

    /// For how long a node that dies at a sync stays down, in microseconds.
    fn down_us(&mut self, node: Address) -> i64 {
        if let Some(us) = self.troubles.away(node) {
            return us;
        }
        match self.dice.per_mille(self.weather.long_down) {
            true => self.dice.log_between(20_000, 1_800_000) * 1_000,
            false => self.dice.between(0, 20_000) * 1_000,
        }
    }

    fn grc_synced(&mut self, index: usize, point: Option<CrashPoint>) -> Result<bool, String> {
        let Finished { records, effects, failed } = self.grcs[index].finish(point)?;
        self.counts.records += records.len() as u64;
        self.counts.syncs += u64::from(!records.is_empty());
        for record in &records {
            self.say_at(Address::Grc(index), || print::coordinator_record(record));
        }
        let points: Vec<_> = records.iter().map(coordinator_point).collect();
        self.note_sync(Address::Grc(index), &points, effects.len());
        self.watch_grc(index, &records)?;
        for effect in effects {
            match effect {
                CoordinatorEffect::Send { rm, txn, message, oldest_open } => {
                    self.watch.note_sent(self.rm_index(&rm), &rm, &txn, &message);
                    self.call(index, &rm, txn, message, oldest_open);
                }
                CoordinatorEffect::Reply(reply) => self.reply(index, reply)?,
                CoordinatorEffect::AskParent { coordinator, txn } => {
                    self.ask(Address::Grc(index), &coordinator, txn);
                }
            }
        }
        Ok(failed)
    }

    fn rm_synced(&mut self, index: usize, point: Option<CrashPoint>) -> Result<bool, String> {
        let Finished { records, effects, failed } = self.rms[index].finish(point)?;
        self.counts.records += records.len() as u64;
        self.counts.syncs += u64::from(!records.is_empty());
        for record in &records {
            self.say_at(Address::Rm(index), || print::participant_record(record));
        }
        let points: Vec<_> = records.iter().map(participant_point).collect();
        self.note_sync(Address::Rm(index), &points, effects.len());
        self.watch_rm(index, &records)?;
        if records.iter().any(|record| matches!(record, ParticipantRecord::Equipped { .. })) {
            self.news_of_equipment(index);
        }
        self.subscriber_looks(index)?;
        for effect in effects {
            match effect {
                ParticipantEffect::Reply { token, answer } => {
                    let call = token.number();
                    self.watch_answer(index, call, &answer)?;
                    self.watch_claim(index, call, &answer)?;
                    self.watch_meddled(index, call, &answer)?;
                    self.watch_forged(index, call, &answer)?;
                    let Some(grc) = self.calls.get(&call).map(|call| call.grc) else { continue };
                    let answer = self.as_newer(index, call, answer);
                    let answer = self.lied(index, call, answer);
                    let packet = Packet::Answer { call, answer };
                    self.send(Address::Rm(index), Address::Grc(grc), packet);
                }
                ParticipantEffect::Ask { coordinator, txn } => {
                    self.ask(Address::Rm(index), &coordinator, txn);
                }
                ParticipantEffect::Reconcile { chains } => self.equipment_changed(index, chains),
            }
        }
        Ok(failed)
    }
}
