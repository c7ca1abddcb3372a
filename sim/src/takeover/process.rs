//! A process of the coordinator: its core, its view of the log, and what it does from its start to its end.

use coalloc_common::{CoordinatorName, limits};
use coalloc_ledger::shared::{EtcdTwin, SharedLog, SharedLogError, SharedLogId};
use coalloc_ledger::{Identity, OwnedBody};
use coalloc_protocol::conversation::{
    Caller, ConversationInput, Next, PlanJob, ReleaseReply, RequestEnd,
};
use coalloc_protocol::coordinator::{
    Coordinator, CoordinatorConfig, CoordinatorEffect, CoordinatorInput, CoordinatorRecord, Reply,
};
use coalloc_protocol::message::{Answer, Delivery, Resolution};
use coalloc_protocol::{CausedRecord, Core as _, Log, Unsynced, sync};

use super::{Event, LEDGER, Order, PREFIX, Waiter, World, delivered, index_of, now_on};

/// What a process does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Role {
    StandsBy,
    Leads { epoch: u64 },
    Ended,
}

/// One process.
pub(super) struct Process {
    pub(super) name: String,
    pub(super) role: Role,
    pub(super) core: Coordinator,
    log: TwinLog,
    /// When its machine was booted, before the beginning of the world.
    booted_us: i64,
    pub(super) frozen_until_us: i64,
    pub(super) renewed_us: i64,
    pub(super) wake_queued: Option<i64>,
    inbox: Vec<CoordinatorInput>,
    batch: Option<Vec<Unsynced<CoordinatorRecord, CoordinatorEffect>>>,
}

impl Process {
    pub(super) fn is_alive(&self) -> bool {
        self.role != Role::Ended
    }

    /// Has it nothing to handle, and nothing on its way to the log?
    pub(super) fn is_idle(&self) -> bool {
        self.inbox.is_empty() && self.batch.is_none()
    }
}

/// The shared log as a ledger without a copy.
struct TwinLog(SharedLog<EtcdTwin>);

impl Log for TwinLog {
    type Record = CoordinatorRecord;
    type Error = SharedLogError;

    fn append_caused(
        &mut self,
        records: &[CausedRecord<'_, CoordinatorRecord>],
    ) -> Result<(), SharedLogError> {
        // Whatever a core records can be packed: the stories pack all of it.
        let bodies = records.iter().filter_map(|caused| OwnedBody::new(*caused).ok());
        let bodies: Vec<OwnedBody> = bodies.collect();
        assert_eq!(bodies.len(), records.len(), "a record cannot be packed");
        self.0.append(&bodies)
    }
}

pub(super) fn coordinator() -> Coordinator {
    Coordinator::new(CoordinatorConfig {
        name: CoordinatorName::composed("grc"),
        tag: LEDGER[..8].to_owned(),
        hold_for: None,
        forgets: None,
    })
}

/// Makes the log, and opens it, through a client with which nothing goes wrong.
pub(super) fn make(store: &EtcdTwin) -> SharedLog<EtcdTwin> {
    let node = Identity { kind: "grc".to_owned(), name: "grc".to_owned() };
    let id = SharedLogId::new(LEDGER.to_owned(), node);
    let made = SharedLog::create(store.observer(), PREFIX, &id);
    let opened = made.and_then(|()| SharedLog::open(store.observer(), PREFIX));
    opened.unwrap_or_else(|error| unreachable!("an observer is always answered: {error}"))
}

/// Reads the next records into a core.
fn follow(log: &mut SharedLog<EtcdTwin>, core: &mut Coordinator) -> Result<u64, FollowError> {
    let mut read = 0;
    loop {
        let bodies = log.read_next()?;
        if bodies.is_empty() {
            return Ok(read);
        }
        for body in bodies {
            let record: Result<CoordinatorRecord, _> = body.as_body().record();
            let record = record.map_err(|error| FollowError::Record(error.to_string()))?;
            core.apply(&record).map_err(|error| FollowError::Record(error.to_string()))?;
            read += 1;
        }
    }
}

#[derive(Debug, thiserror::Error)]
enum FollowError {
    #[error(transparent)]
    Log(#[from] SharedLogError),
    #[error("I12: the log is not that of one coordinator: {0}")]
    Record(String),
}

impl World {
    /// The fold of the log so far, which must go on.
    pub(super) fn follow_log(&mut self) -> Result<(), String> {
        let read = follow(&mut self.reader, &mut self.shadow).map_err(|error| error.to_string())?;
        self.counts.records += read;
        Ok(())
    }

    pub(super) fn start_process(&mut self) -> Result<(), String> {
        let at = self.processes.len();
        let member = if at.is_multiple_of(2) { "a" } else { "b" };
        let name = format!("{member} {at}");
        let client = self.store.client();
        let log = match SharedLog::open(client, PREFIX) {
            Ok(log) => log,
            Err(error) => return Err(error.to_string()),
        };
        let booted_us = 1_000_000 + self.below(1_000_000_000_000);
        self.note(|| format!("{name} starts"));
        self.processes.push(Process {
            name,
            role: Role::StandsBy,
            core: coordinator(),
            log: TwinLog(log),
            booted_us,
            frozen_until_us: 0,
            renewed_us: self.now_us,
            wake_queued: None,
            inbox: Vec::new(),
            batch: None,
        });
        self.after(1_000, Event::Look(at));
        Ok(())
    }

    /// Ends a process. Another one starts a moment later.
    pub(super) fn end_process(&mut self, at: usize, why: &str) {
        let process = &mut self.processes[at];
        process.role = Role::Ended;
        process.batch = None;
        process.inbox.clear();
        let name = process.name.clone();
        self.note(|| format!("{name} {why}"));
        let pause = 100_000 + self.below(3_000_000);
        self.after(pause, Event::Start);
    }

    /// A process that stands by follows the log, and tries to lead if nobody does.
    pub(super) fn look(&mut self, at: usize) -> Result<(), String> {
        let process = &mut self.processes[at];
        if process.role != Role::StandsBy {
            return Ok(());
        }
        let name = process.name.clone();
        let log = &mut process.log.0;
        let looked = follow(log, &mut process.core).and_then(|_| {
            if log.leader()?.is_some() {
                return Ok(false);
            }
            // From here on earlier leaders append nothing, so the rest of the log is all that there is.
            let leads = log.lead(&name, 1)?;
            if leads {
                follow(log, &mut process.core)?;
            }
            Ok(leads)
        });
        match looked {
            Ok(true) => self.elect(at),
            Ok(false) | Err(FollowError::Log(SharedLogError::Unknown { .. })) => {
                self.after(limits::STANDBY_PAUSE.as_us(), Event::Look(at));
                Ok(())
            }
            Err(error) => Err(format!("{name}: {error}")),
        }
    }

    fn elect(&mut self, at: usize) -> Result<(), String> {
        self.counts.elections += 1;
        let process = &mut self.processes[at];
        let number = process.log.0.epoch().and_then(|epoch| u64::try_from(epoch).ok());
        let epoch = process.core.next_epoch(number.unwrap_or_default());
        process.role = Role::Leads { epoch };
        let member = process.name.clone();
        process.inbox.push(CoordinatorInput::Elected { epoch, member: member.clone() });
        self.note(|| format!("{member} leads in epoch {epoch}"));
        self.begin(at)
    }

    /// Gives an input to a process, if it is alive and leads.
    pub(super) fn post(&mut self, at: usize, input: CoordinatorInput) -> Result<(), String> {
        let process = &mut self.processes[at];
        if !matches!(process.role, Role::Leads { .. }) {
            return Ok(());
        }
        process.inbox.push(input);
        self.begin(at)
    }

    pub(super) fn deliver(&mut self, order: &Order, delivery: Delivery) -> Result<(), String> {
        self.post(order.process, delivered(order, delivery))
    }

    /// Steps what waits, if the process is not frozen and has nothing on its way to the log.
    pub(super) fn begin(&mut self, at: usize) -> Result<(), String> {
        let now_us = self.now_us;
        let process = &mut self.processes[at];
        let leads = matches!(process.role, Role::Leads { .. });
        if !leads || process.batch.is_some() || process.frozen_until_us > now_us {
            return Ok(());
        }
        let now = now_on(now_us, process.booted_us);
        let due = process.core.next_wake().is_some_and(|wake| wake <= now.boot);
        let inputs = due.then(Coordinator::tick).into_iter().chain(process.inbox.drain(..));
        let batch: Vec<_> = inputs.map(|input| process.core.step(input, now)).collect();
        if batch.is_empty() {
            self.queue_wake(at);
            return Ok(());
        }
        process.core.check_invariants().map_err(|error| format!("{}: {error}", process.name))?;
        process.batch = Some(batch);
        let on_the_way = 500 + self.below(8_000);
        self.after(on_the_way, Event::Sync(at));
        Ok(())
    }

    /// Appends the batch, and releases what depends on it.
    pub(super) fn sync(&mut self, at: usize) -> Result<(), String> {
        let process = &mut self.processes[at];
        let Some(batch) = process.batch.take() else { return Ok(()) };
        let Role::Leads { epoch } = process.role else { return Ok(()) };
        match sync(batch, &mut process.log) {
            Ok(synced) => {
                for effect in synced.into_effects() {
                    self.carry_out(at, epoch, effect)?;
                }
                self.begin(at)
            }
            Err(error) => {
                self.counts.replaced += 1;
                let why = format!("ends: {error}");
                self.end_process(at, &why);
                Ok(())
            }
        }
    }

    fn queue_wake(&mut self, at: usize) {
        let process = &mut self.processes[at];
        let Some(wake) = process.core.next_wake() else { return };
        let wake_us = wake.as_us() - process.booted_us;
        if process.wake_queued.is_none_or(|queued| queued > wake_us) {
            process.wake_queued = Some(wake_us);
            let pause = (wake_us - self.now_us).max(1_000);
            self.after(pause, Event::Wake(at));
        }
    }

    fn carry_out(
        &mut self,
        at: usize,
        epoch: u64,
        effect: CoordinatorEffect,
    ) -> Result<(), String> {
        match effect {
            CoordinatorEffect::Send { rm, txn, message, oldest_open } => {
                let (call, rm) = (self.fresh(), index_of(&rm));
                let order = Order { process: at, epoch, call, rm, txn, message, oldest_open };
                self.calls.insert(call, at);
                let over = Event::CallOver(Box::new(order.clone()));
                self.after(limits::MESSAGE_PATIENCE.as_us(), over);
                self.send(Event::Order(Box::new(order)));
                Ok(())
            }
            CoordinatorEffect::AskParent { .. } => Ok(()),
            CoordinatorEffect::Reply(reply) => self.reply(at, reply),
        }
    }

    fn reply(&mut self, at: usize, reply: Reply) -> Result<(), String> {
        match reply {
            Reply::Request(token, Next::Plan(job)) => {
                let pause = 1_000 + self.below(300_000);
                let planned = Box::new((job, Caller::Request(token)));
                self.after(pause, Event::Planned(at, planned));
                Ok(())
            }
            Reply::Request(token, Next::Done(RequestEnd::Stands(known))) => {
                match self.waiters.remove(&token.number()) {
                    Some(Waiter::User(user)) => self.tell_user(user, &known),
                    _ => Ok(()),
                }
            }
            Reply::Release(token, ReleaseReply::Stands(known)) => {
                match self.waiters.remove(&token.number()) {
                    Some(Waiter::User(user)) => self.tell_user(user, &known),
                    _ => Ok(()),
                }
            }
            Reply::Resolve(token, resolution) => {
                if let Some(Waiter::Manager(rm, txn)) = self.waiters.remove(&token.number())
                    && resolution != Resolution::Lost
                {
                    self.send(Event::Told(rm, txn, resolution));
                }
                Ok(())
            }
            _ => Ok(()),
        }
    }

    pub(super) fn planned(
        &mut self,
        at: usize,
        job: PlanJob,
        caller: Caller,
    ) -> Result<(), String> {
        let planned = self.plan(&job);
        self.post(at, ConversationInput::Planned { job, planned, caller }.into())
    }

    pub(super) fn answered(&mut self, order: Order, answer: Answer) -> Result<(), String> {
        if self.calls.remove(&order.call).is_none() {
            return Ok(());
        }
        let delivery = match answer {
            // A status, which anybody may have sent.
            Answer::OlderLeader { .. } => Delivery::Lost,
            answer => Delivery::Answered(answer),
        };
        self.deliver(&order, delivery)
    }
}
