//! The resource managers: participants that keep no log, because they never fail here.

use std::collections::BTreeMap;

use coalloc_common::{Amount, CoordinatorName, ResourceId, ResourceKind, TransactionId};
use coalloc_protocol::Core as _;
use coalloc_protocol::coordinator::CoordinatorInput;
use coalloc_protocol::message::{Answer, Message, Token};
use coalloc_protocol::participant::{
    HoldPolicy, HoldQuotas, Participant, ParticipantConfig, ParticipantEffect, ParticipantInput,
};

use super::{Event, Mistake, Order, Waiter, World, now_on, rm_name};
use crate::forgetful::released;

/// How much a resource manager has.
pub(super) const CAPACITY: u64 = 10;
/// How long each one's machine had run when the world began.
const BOOTED_US: i64 = 5_000_000;

/// One resource manager.
pub(super) struct Manager {
    pub(super) core: Participant,
    /// The highest epoch of an order that has arrived.
    epoch: u64,
    pub(super) wake_queued: Option<i64>,
}

impl Manager {
    pub(super) fn new(rm: usize) -> Self {
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
        Self { core: core.with_changes_kept(0), epoch: 0, wake_queued: None }
    }
}

impl World {
    /// Steps a resource manager. Returns its answer, and how many records it has written.
    pub(super) fn step_manager(
        &mut self,
        rm: usize,
        input: ParticipantInput,
    ) -> (Option<Answer>, usize) {
        let now = now_on(self.now_us, BOOTED_US);
        let step = self.managers[rm].core.step(input, now);
        let records = step.records().len();
        let mut answer = None;
        for effect in released(step) {
            match effect {
                ParticipantEffect::Reply { answer: given, .. } => answer = Some(given),
                ParticipantEffect::Ask { txn, .. } => self.send(Event::Ask(rm, txn)),
            }
        }
        if let Some(wake) = self.managers[rm].core.next_wake() {
            let wake_us = wake.as_us() - BOOTED_US;
            if self.managers[rm].wake_queued.is_none_or(|queued| queued > wake_us) {
                self.managers[rm].wake_queued = Some(wake_us);
                let pause = (wake_us - self.now_us).max(1_000);
                self.after(pause, Event::ManagerWake(rm));
            }
        }
        (answer, records)
    }

    pub(super) fn wake_manager(&mut self, rm: usize) {
        let now = now_on(self.now_us, BOOTED_US);
        let wake = self.managers[rm].core.next_wake();
        if wake.is_some_and(|wake| wake <= now.boot) {
            let _ = self.step_manager(rm, Participant::tick());
        } else if let Some(wake) = wake {
            let wake_us = wake.as_us() - BOOTED_US;
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
