//! The resource managers: participants that start again from their records, on the same machine or on another one.
//!
//! Another machine is what a shared ledger of a resource manager brings: the process that takes over has a clock that began at another
//! time. Left out: two processes of a resource manager that both believe to lead; its log is of the same kind as the
//! coordinator's.

use std::collections::BTreeMap;

use coalloc_common::{Amount, CoordinatorName, ResourceId, ResourceKind, TransactionId};
use coalloc_protocol::Core as _;
use coalloc_protocol::coordinator::CoordinatorInput;
use coalloc_protocol::message::{Answer, Message, Token};
use coalloc_protocol::participant::{
    HoldPolicy, HoldQuotas, Participant, ParticipantConfig, ParticipantEffect, ParticipantInput,
    ParticipantRecord,
};

use super::{Event, Mistake, Order, Waiter, World, now_on, rm_name};
use crate::forgetful::released;

/// How much a resource manager has.
pub(super) const CAPACITY: u64 = 10;
/// How long a machine had run at most when the world began: a month.
const BOOTED_MAX_US: i64 = 30 * 86_400_000_000;

/// One resource manager.
pub(super) struct Manager {
    pub(super) core: Participant,
    /// What it has recorded.
    records: Vec<ParticipantRecord>,
    /// How many machines it has had.
    machines: u32,
    /// How long its machine had run when the world began.
    booted_us: i64,
    /// The highest epoch of an order that has arrived.
    epoch: u64,
    pub(super) wake_queued: Option<i64>,
}

impl Manager {
    pub(super) fn new(rm: usize) -> Self {
        let (records, core) = (Vec::new(), core(rm));
        Self { core, records, machines: 1, booted_us: 5_000_000, epoch: 0, wake_queued: None }
    }

    fn boot(&self) -> String {
        format!("boot-{}", self.machines)
    }
}

fn core(rm: usize) -> Participant {
    let core = Participant::new(ParticipantConfig {
        name: rm_name(rm),
        resources: vec![(ResourceId::composed("r"), Amount(CAPACITY))],
        kinds: ResourceKind::Cpus.into(),
        coordinators: [CoordinatorName::composed("grc")].into(),
        policy: HoldPolicy::default(),
        levels: coalloc_common::ServiceLevels::default(),
        quotas: HoldQuotas::default(),
        inside: None,
        servers: BTreeMap::new(),
    });
    core.with_changes_kept(0)
}

impl World {
    /// A resource manager starts, for the first time or once more.
    pub(super) fn start_manager(&mut self, rm: usize) {
        let boot = self.managers[rm].boot();
        self.step_manager(rm, ParticipantInput::Start { boot });
    }

    /// A resource manager ends, and starts again from what it has recorded.
    pub(super) fn restart_manager(&mut self, rm: usize) -> Result<(), String> {
        let moves = self.dice.below(2) == 0;
        let booted_us = self.below(BOOTED_MAX_US);
        let manager = &mut self.managers[rm];
        let mut again = core(rm);
        for record in &manager.records {
            again.apply(record).map_err(|error| format!("I14: rm-{rm}: {error}"))?;
        }
        if again.entries() != manager.core.entries() {
            return Err(format!("I14: rm-{rm} has forgotten something"));
        }
        manager.core = again;
        if moves {
            manager.machines += 1;
            manager.booted_us = booted_us;
        }
        manager.wake_queued = None;
        self.counts.restarted_managers += 1;
        self.note(|| {
            format!("rm-{rm} starts again{}", if moves { " on another machine" } else { "" })
        });
        self.start_manager(rm);
        Ok(())
    }

    /// Steps a resource manager. Returns its answer, and how many records it has written.
    pub(super) fn step_manager(
        &mut self,
        rm: usize,
        input: ParticipantInput,
    ) -> (Option<Answer>, usize) {
        let booted_us = self.managers[rm].booted_us;
        let now = now_on(self.now_us, booted_us);
        let step = self.managers[rm].core.step(input, now);
        let records = step.records().len();
        self.managers[rm].records.extend_from_slice(step.records());
        let mut answer = None;
        for effect in released(step) {
            match effect {
                ParticipantEffect::Reply { answer: given, .. } => answer = Some(given),
                ParticipantEffect::Ask { txn, .. } => self.send(Event::Ask(rm, txn)),
                ParticipantEffect::Reconcile { .. } => {}
            }
        }
        if let Some(wake) = self.managers[rm].core.next_wake() {
            let wake_us = wake.as_us() - booted_us;
            if self.managers[rm].wake_queued.is_none_or(|queued| queued > wake_us) {
                self.managers[rm].wake_queued = Some(wake_us);
                let pause = (wake_us - self.now_us).max(1_000);
                self.after(pause, Event::ManagerWake(rm));
            }
        }
        (answer, records)
    }

    pub(super) fn wake_manager(&mut self, rm: usize) {
        let booted_us = self.managers[rm].booted_us;
        let now = now_on(self.now_us, booted_us);
        let wake = self.managers[rm].core.next_wake();
        if wake.is_some_and(|wake| wake <= now.boot) {
            let _ = self.step_manager(rm, Participant::tick());
        } else if let Some(wake) = wake {
            let wake_us = wake.as_us() - booted_us;
            self.managers[rm].wake_queued = Some(wake_us);
            let pause = (wake_us - self.now_us).max(1_000);
            self.after(pause, Event::ManagerWake(rm));
        }
    }

    /// A message arrives at its resource manager.
    pub(super) fn order(&mut self, order: Order) -> Result<(), String> {
        let Order { epoch, rm, txn, message, oldest_open, .. } = order.clone();
        let (by, token) = (CoordinatorName::composed("grc"), Token::new(0));
        let kind = message.kind();
        let input = match message {
            Message::Hold(order) => ParticipantInput::Hold { order, oldest_open, token },
            Message::Commit => ParticipantInput::Commit { txn, by, token },
            Message::Abort => ParticipantInput::Abort { txn, by, token },
            Message::Release => ParticipantInput::Release { txn, by, token },
        };
        let known = self.managers[rm].epoch;
        // The mistake: it believes that every order is of the last leader.
        let said = if self.mistake == Some(Mistake::AnyEpoch) { epoch.max(known) } else { epoch };
        let led = ParticipantInput::Led { epoch: said, order: Box::new(input) };
        let (answer, records) = self.step_manager(rm, led);
        if let Err(error) = self.managers[rm].core.check_invariants() {
            return Err(format!("rm-{rm}: {error}"));
        }
        let refused = matches!(answer, Some(Answer::OlderLeader { .. }));
        self.counts.refused_orders += u64::from(refused);
        self.note(|| format!("{kind:?} of {} in epoch {epoch} at rm-{rm}: {answer:?}", order.txn));
        if epoch < known && (!refused || records > 0) {
            let txn = &order.txn;
            return Err(format!(
                "I20: rm-{rm} carries out {kind:?} of {txn} in epoch {epoch}, but knows epoch {known}"
            ));
        }
        self.managers[rm].epoch = known.max(epoch);
        if let Some(answer) = answer {
            self.send(Event::Answered(Box::new(order), answer));
        }
        Ok(())
    }

    /// A resource manager asks somebody who believes to lead.
    pub(super) fn ask(&mut self, rm: usize, txn: TransactionId) -> Result<(), String> {
        let leaders = self.leaders();
        let Some(at) = leaders.get(self.dice.below(leaders.len() as u64) as usize).copied() else {
            return Ok(());
        };
        let token = self.fresh();
        self.waiters.insert(token, Waiter::Manager(rm, txn.clone()));
        let (rm, token) = (rm_name(rm), Token::new(token));
        self.post(at, CoordinatorInput::Resolve { txn, rm, token })
    }
}
