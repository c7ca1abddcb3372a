//! What the tests of equipment run on: a participant with a reconciler, and a naive device that notes what must never happen.

use std::collections::VecDeque;

use super::super::super::tests::{at, config, grc, synced, txn};
use super::super::super::*;
use super::super::reconciler::{Command, CommandOutcome, Reconciler};
use super::super::*;
use crate::message::HoldOrder;

/// What a device does with the next call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fault {
    None,
    Refuse,
    Down,
    /// The call is lost before, or after, it has had its effect.
    LostBefore,
    LostAfter,
}

/// Equipment that remembers what it was told, and notes what must never happen.
#[derive(Debug, Default)]
pub(super) struct Device {
    pub(super) things: BTreeMap<String, (EquipmentKey, Want)>,
    pub(super) made: usize,
    pub(super) faults: VecDeque<Fault>,
    /// Resources that cannot be used.
    pub(super) unusable: BTreeSet<ResourceId>,
    pub(super) was_looked_at: bool,
    /// Every command, in a word.
    pub(super) calls: Vec<&'static str>,
}

impl Device {
    pub(super) fn carry_out(&mut self, command: &Command) -> CommandOutcome {
        let fault = self.faults.pop_front().unwrap_or(Fault::None);
        let refusal = || Refusal::new(Reason::Equipment, "a job is in the way".to_owned());
        let trouble = match fault {
            Fault::None | Fault::LostAfter => None,
            Fault::Refuse if matches!(command, Command::Observe(_)) => None,
            Fault::Refuse => Some(EquipmentTrouble::Refused(Box::new(refusal()))),
            Fault::Down => Some(EquipmentTrouble::Down("no controller answers".to_owned())),
            Fault::LostBefore => Some(EquipmentTrouble::Lost("it hangs".to_owned())),
        };
        let lost =
            (fault == Fault::LostAfter).then(|| EquipmentTrouble::Lost("cut off".to_owned()));
        match command {
            Command::Observe(wanted) => {
                self.calls.push("observe");
                self.was_looked_at = true;
                let seen = trouble.or(lost).map_or_else(|| Ok(self.seen(wanted)), Err);
                CommandOutcome::Observed(seen)
            }
            Command::Make { key, want } => {
                self.calls.push("make");
                assert!(self.was_looked_at, "made before anybody has looked");
                let done = match trouble {
                    Some(trouble) => Err(trouble),
                    None => Ok(self.make(key, want)),
                };
                CommandOutcome::Made(done.and_then(|name| lost.map_or(Ok(name), Err)))
            }
            Command::Remove { reference, .. } => {
                self.calls.push("remove");
                assert!(self.was_looked_at, "removed before anybody has looked");
                let done = trouble.map_or(Ok(()), Err);
                if done.is_ok() {
                    self.things.remove(reference);
                }
                CommandOutcome::Removed(done.and_then(|()| lost.map_or(Ok(()), Err)))
            }
        }
    }

    pub(super) fn make(&mut self, key: &EquipmentKey, want: &Want) -> String {
        let of_key = self.things.iter().find(|(_, (other, _))| other == key);
        let known = of_key.map(|(name, _)| name.clone());
        if let Some(name) = &known {
            assert_eq!(want.reference.as_ref(), Some(name), "{key:?} is made twice");
        }
        let name = known.unwrap_or_else(|| {
            self.made += 1;
            format!("thing-{}", self.made)
        });
        self.things.insert(name.clone(), (key.clone(), want.clone()));
        name
    }

    pub(super) fn seen(&self, wanted: &BTreeMap<EquipmentKey, Want>) -> Observed {
        let mut observed = Observed::default();
        for (name, (key, has)) in &self.things {
            let Some(want) = wanted.get(key) else {
                observed.orphans.insert(name.clone());
                continue;
            };
            let is_same = has.stage == want.stage && has.versions == want.versions;
            let differs = (!is_same).then(|| "it is something else".to_owned());
            observed
                .present
                .insert(key.clone(), Presence { reference: name.clone(), differs, trouble: None });
        }
        let out = || Unusable { sentence: "it is out".to_owned(), goes_on: false };
        observed.unusable = self.unusable.iter().map(|name| (name.clone(), out())).collect();
        observed
    }
}

/// An RM with its device. Time is in milliseconds since [`at`] zero.
pub(super) struct Rm {
    pub(super) participant: Participant,
    pub(super) reconciler: Reconciler,
    pub(super) device: Device,
    pub(super) ms: i64,
    pub(super) log: Vec<ParticipantRecord>,
    pub(super) answers: BTreeMap<u64, Answer>,
    pub(super) tokens: u64,
    /// How far somebody has set the wall clock ahead.
    pub(super) ahead_ms: i64,
    /// The participant is too busy for so many outcomes.
    pub(super) untold: usize,
}

impl Rm {
    pub(super) fn new() -> Self {
        let mut rm = Self {
            participant: fresh(),
            reconciler: Reconciler::default(),
            device: Device::default(),
            ms: 0,
            log: Vec::new(),
            answers: BTreeMap::new(),
            tokens: 0,
            ahead_ms: 0,
            untold: 0,
        };
        rm.step(ParticipantInput::Start { boot: "boot".into() });
        rm.settle();
        rm
    }

    pub(super) fn now(&self) -> Now {
        let of = |zero: i64| zero + self.ms * 1_000;
        let wall = Time::from_us(of(at(0).wall.as_us()) + self.ahead_ms * 1_000);
        Now { wall, boot: BootTime::from_us(of(0)) }
    }

    pub(super) fn step(&mut self, input: ParticipantInput) {
        let step = self.participant.step(input, self.now());
        self.log.extend_from_slice(step.records());
        self.participant.check_invariants().unwrap();
        for effect in synced(step) {
            match effect {
                ParticipantEffect::Reply { token, answer } => {
                    assert!(self.answers.insert(token.number(), answer).is_none(), "two answers");
                }
                ParticipantEffect::Reconcile { chains } => self.reconciler.changed(chains),
                ParticipantEffect::Ask { .. } => {}
            }
        }
    }

    /// Carries out one command, if there is one.
    pub(super) fn work(&mut self) -> bool {
        let now = self.now();
        let Some(command) = self.reconciler.next(&self.participant, now) else { return false };
        let outcome = self.device.carry_out(&command);
        for input in self.reconciler.done(command, outcome, now.boot) {
            match self.untold.checked_sub(1) {
                Some(left) => self.untold = left,
                None => self.step(input),
            }
        }
        true
    }

    pub(super) fn settle(&mut self) {
        for _ in 0..200 {
            if !self.work() {
                return;
            }
        }
        panic!("the reconciler does not come to rest: {:?}", self.device.calls);
    }

    /// Lets time pass in steps of a tenth of a second, working all the while.
    pub(super) fn pass(&mut self, ms: i64) {
        let until = self.ms + ms;
        while self.ms < until {
            self.ms = (self.ms + 100).min(until);
            if self.participant.next_wake().is_some_and(|wake| wake <= self.now().boot) {
                self.step(ParticipantInput::Tick);
            }
            self.settle();
        }
    }

    pub(super) fn hold(&mut self, order: &HoldOrder) -> u64 {
        self.tokens += 1;
        let token = Token::new(self.tokens);
        self.step(ParticipantInput::Hold { order: order.clone(), oldest_open: 0, token });
        self.tokens
    }

    pub(super) fn tell(
        &mut self,
        name: &str,
        input: fn(TransactionId, CoordinatorName, Token<Answer>) -> ParticipantInput,
    ) -> Option<Answer> {
        self.tokens += 1;
        self.step(input(txn(name), grc(), Token::new(self.tokens)));
        self.answers.get(&self.tokens).cloned()
    }

    pub(super) fn commit(&mut self, name: &str) -> Option<Answer> {
        self.tell(name, |txn, by, token| ParticipantInput::Commit { txn, by, token })
    }

    pub(super) fn abort(&mut self, name: &str) -> Option<Answer> {
        self.tell(name, |txn, by, token| ParticipantInput::Abort { txn, by, token })
    }

    pub(super) fn release(&mut self, name: &str) -> Option<Answer> {
        self.tell(name, |txn, by, token| ParticipantInput::Release { txn, by, token })
    }

    /// The process dies and starts again, with what is in its log.
    pub(super) fn restart(&mut self) {
        let mut participant = fresh();
        for record in &self.log {
            participant.apply(record).unwrap();
        }
        participant.check_invariants().unwrap();
        assert_eq!(*participant.equipment_states(), *self.participant.equipment_states());
        let claims = |of: &Participant| -> Vec<(TransactionId, Claim)> {
            of.entries().iter().map(|(txn, entry)| (txn.clone(), entry.claim)).collect()
        };
        assert_eq!(claims(&participant), claims(&self.participant));
        self.participant = participant;
        self.reconciler = Reconciler::default();
        self.device.was_looked_at = false;
        self.step(ParticipantInput::Start { boot: "boot".into() });
    }

    /// The stages of all things, in the order of their names.
    pub(super) fn stages(&self) -> Vec<Stage> {
        self.device.things.values().map(|(_, want)| want.stage).collect()
    }

    pub(super) fn is_held(&self, call: u64) -> bool {
        matches!(self.answers.get(&call), Some(Answer::Held { .. }))
    }

    pub(super) fn refused(&self, call: u64) -> Option<&Refusal> {
        match self.answers.get(&call) {
            Some(Answer::Refused(refusal)) => Some(refusal),
            _ => None,
        }
    }
}

pub(super) fn fresh() -> Participant {
    Participant::new(config(&[("N0-N1", 1_000), ("N1-N2", 1_000)])).with_equipment()
}
