//! Equipment behind some RMs (F15): a naive device for each of them, and the shell that carries out what its reconciler
//! says.
//!
//! The shell does what `rm/src/equipment.rs` does: one command is under way at a time, the reconciler reads the participant
//! between two batches, and it lives as long as the process. A call takes time, and has its effect at the device before it
//! is answered. Calls are lost, are slow, are refused, or find nobody. Resources fail for a while. The effect of a call whose process has died, or has
//! given it up, may still come. The device forgets things, people alter them, and strangers put their own beside them.
//!
//! Checked (I23):
//!
//! * A Hold is answered with yes only when the device has had the claim of each of its segments.
//! * After a start, and after an outcome that nobody knows, nothing is changed before a look has succeeded.
//! * What the process knows to be at the device is not made a second time.
//! * Nothing is active for more than [`OUTSIDE_US_MAX`] when it should not be, while nothing disturbs the RM.
//! * What belongs to strangers is never removed.
//! * At rest the device has exactly what is wanted, and the participant says so.
//!
//! Random numbers are drawn from a generator of their own, so that worlds without equipment are as they would be without this
//! module. Left out: how much fits on a device, which the timetables guard. The file is long because what a call does,
//! and what must never come of it, are read together.

mod device;

use std::collections::{BTreeMap, BTreeSet};

use coalloc_common::{Amount, Reason, Refusal, ResourceId, Time, TransactionId, limits};
use coalloc_protocol::coordinator::MessageKind;
use coalloc_protocol::message::Answer;
use coalloc_protocol::participant::equipment::reconciler::{Command, CommandOutcome, Reconciler};
use coalloc_protocol::participant::equipment::{EquipmentKey, EquipmentTrouble, Stage};
use coalloc_protocol::participant::{Entry, Participant, ParticipantInput, Phase};

use self::device::{Device, Thing, is_as_wanted};
use super::asking::SYNC_US_MAX;
use super::network::RandomSource;
use super::usage::is_attempt_of;
use super::{Address, Event, Fault, World};

/// The largest number of RMs with equipment in a world.
const EQUIPPED_MAX: usize = 3;

/// For how long something may be active when it should not be, in microseconds, while nothing disturbs the RM. The longest
/// case is something of this RM of which the RM knows nothing: a look sees it, a look after the grace period removes
/// it. The other summands are a clock that was not looked at, one more pause, a slow disk, and the calls.
const OUTSIDE_US_MAX: i64 = 2 * limits::EQUIPMENT_LOOK_EVERY.as_us()
    + limits::EQUIPMENT_CLOCK_CHECK.as_us()
    + limits::EQUIPMENT_RETRY_MAX.as_us()
    + SYNC_US_MAX
    + 2 * limits::EQUIPMENT_PATIENCE.as_us();

/// What happens to the equipment of an RM.
#[derive(Debug, Clone, Copy)]
pub enum EquipmentEvent {
    /// The shell's pause of this number is over.
    Wake { rm: usize, number: u64 },
    /// The call of this number has its effect at the device.
    Effect { rm: usize, call: u64 },
    /// The shell gets the outcome of the call of this number.
    Done { rm: usize, call: u64 },
    /// Something befalls the device.
    Fault { rm: usize, fault: DeviceFault },
}

impl EquipmentEvent {
    /// Does it begin a fault? Such events are dropped once faults have stopped.
    pub(super) const fn begins(self) -> bool {
        matches!(self, Self::Fault { .. })
    }
}

/// What befalls a device.
#[derive(Debug, Clone, Copy)]
pub enum DeviceFault {
    /// It cannot be reached for so many microseconds.
    Down(i64),
    /// It forgets some of its things.
    ForgetSome,
    /// It forgets everything.
    ForgetAll,
    /// Somebody alters a thing.
    Alter,
    /// A stranger puts something beside the RM's things, in the way of what is new until faults stop.
    StrangerInTheWay,
    /// A stranger puts something beside the RM's things, and leaves it there.
    Stranger,
    /// A resource cannot be used for so many microseconds.
    Unusable(i64),
}

/// How often calls go wrong, per thousand.
#[derive(Debug, Clone, Copy, Default)]
struct CallFaults {
    /// Nobody hears of a call.
    lost_before: u64,
    /// The outcome of a call is lost.
    lost_after: u64,
    /// A call takes longer than the shell waits.
    slow: u64,
    /// The device says no.
    refused: u64,
    /// The participant is too busy to be told of an outcome.
    untold: u64,
}

/// A call for whose outcome the shell waits.
#[derive(Debug)]
struct CallUnderWay {
    number: u64,
    command: Command,
    /// Why it fails, whatever its effect is.
    trouble: Option<EquipmentTrouble>,
    /// What its effect was.
    outcome: Option<CommandOutcome>,
}

/// The equipment of one RM, and its shell.
#[derive(Debug, Default)]
struct Equipment {
    device: Device,
    faults: CallFaults,
    /// `None` while the process is down.
    reconciler: Option<Reconciler>,
    call: Option<CallUnderWay>,
    /// Calls whose effects are still to come, also those that nobody waits for any more.
    effects: BTreeMap<u64, Command>,
    /// The number of the next wake, and when it is due.
    wake: Option<(u64, i64)>,
    /// Why nothing may be changed before a look has succeeded.
    must_look: Option<&'static str>,
    /// The resources of transactions that the device has had.
    claims: BTreeSet<(TransactionId, ResourceId)>,
    /// The resources of transactions to which the device has ever let a user in.
    let_in: BTreeSet<(TransactionId, ResourceId)>,
    /// When something last kept the RM from doing its work.
    disturbed_us: i64,
    /// What is active and should not be, and since when.
    outside: BTreeMap<EquipmentKey, i64>,
}

/// The equipment of a world, by the index of its RM.
#[derive(Default)]
pub struct AllEquipment {
    /// The source of all random numbers for equipment; `None` in worlds without any.
    dice: Option<RandomSource>,
    rms: BTreeMap<usize, Equipment>,
    numbers: u64,
}

impl AllEquipment {
    fn fresh(&mut self) -> u64 {
        self.numbers += 1;
        self.numbers
    }
}

/// The outcome of a call that has failed.
fn failed(command: &Command, trouble: EquipmentTrouble) -> CommandOutcome {
    match command {
        Command::Observe(_) => CommandOutcome::Observed(Err(trouble)),
        Command::Make { .. } => CommandOutcome::Made(Err(trouble)),
        Command::Remove { .. } => CommandOutcome::Removed(Err(trouble)),
    }
}

const fn trouble_of(outcome: &CommandOutcome) -> Option<&EquipmentTrouble> {
    match outcome {
        CommandOutcome::Observed(Err(trouble))
        | CommandOutcome::Made(Err(trouble))
        | CommandOutcome::Removed(Err(trouble)) => Some(trouble),
        _ => None,
    }
}

/// Is a transaction booked and provisioned, and one of its windows now? Computed without what the core says is wanted.
fn may_be_used(core: &Participant, txn: &TransactionId, wall: Time) -> bool {
    let Some(entry) = core.entries().get(txn) else { return false };
    let provisioned = entry.order.iter().filter(|order| !order.manual_provision);
    let segments = provisioned.filter(|_| entry.phase == Phase::Booked);
    let mut segments = segments.flat_map(|order| &order.segments).chain(&entry.kept);
    segments.any(|of| of.window.start() <= wall && wall < of.window.end())
}

/// A command in the transcript.
fn in_words(command: &Command) -> String {
    match command {
        Command::Observe(wanted) => format!("look, {} wanted", wanted.len()),
        Command::Make { key, want } => {
            let versions: Vec<&str> = want.versions.iter().map(|of| of.txn.as_str()).collect();
            let versions = versions.join(" and ");
            format!("make {} of {} {:?} for {versions}", key.resource, key.chain, want.stage)
        }
        Command::Remove { key, reference } => match key {
            Some(key) => format!("remove {} of {} ({reference})", key.resource, key.chain),
            None => format!("remove {reference}"),
        },
    }
}

impl Equipment {
    /// I23: a command may be sent to the device.
    fn check_command(&self, command: &Command) -> Result<(), String> {
        if matches!(command, Command::Observe(_)) {
            return Ok(());
        }
        if let Some(why) = self.must_look {
            return Err(format!("before a look {why}: {}", in_words(command)));
        }
        let Command::Make { key, want } = command else { return Ok(()) };
        let known = self.device.things.iter().find(|(_, of)| of.key == *key && of.is_known);
        match known {
            Some((name, _)) if want.reference.as_ref() != Some(name) => {
                Err(format!("a second time beside {name}: {}", in_words(command)))
            }
            _ => Ok(()),
        }
    }

    /// I23: nothing is active for long when it should not be.
    fn check_active(&mut self, core: &Participant, now_us: i64, wall: Time) -> Result<(), String> {
        let mut outside = BTreeMap::new();
        for (name, Thing { key, want, .. }) in &self.device.things {
            if !matches!(want.stage, Stage::Active(_)) {
                continue;
            }
            if want.versions.iter().any(|of| may_be_used(core, &of.txn, wall)) {
                continue;
            }
            let since_us = self.outside.get(key).copied().unwrap_or(now_us);
            let lasts_us = now_us - since_us.max(self.disturbed_us);
            if lasts_us > OUTSIDE_US_MAX {
                let (resource, chain, s) = (&key.resource, &key.chain, lasts_us / 1_000_000);
                return Err(format!(
                    "{name}, {resource} of {chain}, is still active {s} s after it should have ended"
                ));
            }
            outside.insert(key.clone(), since_us);
        }
        self.outside = outside;
        Ok(())
    }

    /// Why the device is not as its participant wants it, or the participant does not know that it is.
    fn unrest(&self, core: &Participant, wall: Time) -> Option<String> {
        let wanted = core.wanted(wall);
        let states = core.equipment_states();
        for (key, want) in &wanted {
            let of = || format!("{} of {}", key.resource, key.chain);
            let Some(name) = self.device.named(key) else {
                return Some(format!("{} is not at the device", of()));
            };
            let has = &self.device.things[name].want;
            if !is_as_wanted(has, want) {
                return Some(format!("{} is {:?}, not {:?}", of(), has.stage, want.stage));
            }
            let state = states.get(key);
            let is_told = state.is_some_and(|state| {
                (state.stage, &state.reference) == (Some(want.stage), name)
                    && (&state.trouble, state.unusable.is_empty()) == (&None, true)
            });
            if !is_told {
                return Some(format!("{} is {:?}, and known as {state:?}", of(), want.stage));
            }
        }
        if let Some(name) = core.unusable().keys().next() {
            return Some(format!("{name} can be used, and is known as what cannot be"));
        }
        if self.device.things.len() != wanted.len() {
            return Some(format!("the device has what nobody wants: {:?}", self.device.things));
        }
        if let Some((key, state)) = states.iter().find(|(key, _)| !wanted.contains_key(*key)) {
            return Some(format!("{key:?} is known as {state:?}, and not wanted"));
        }
        let waits = core.entries().iter().find(|(_, entry)| Entry::waits_for_claim(entry));
        waits.map(|(txn, _)| format!("{txn} waits for its claim"))
    }

    /// Is there something that may have to be ended later?
    fn has_to_do(&self, core: &Participant, wall: Time) -> bool {
        !self.device.things.is_empty()
            || !self.effects.is_empty()
            || !core.equipment_states().is_empty()
            || !core.unusable().is_empty()
            || !core.wanted(wall).is_empty()
    }
}

impl World {
    /// Some of the RMs that are added from now on have equipment.
    pub fn equip(&mut self, seed: u64) {
        const OTHER: u64 = 0x5eed_0f15;
        self.equipment.dice = Some(RandomSource::new(seed ^ OTHER));
        self.counts.equipped += 1;
    }

    /// Does the RM of this index, which is being added, have equipment?
    pub(super) fn gets_equipment(&mut self, rm: usize) -> bool {
        let is_full = self.equipment.rms.len() >= EQUIPPED_MAX;
        let Some(dice) = self.equipment.dice.as_mut().filter(|_| !is_full) else { return false };
        let gets = dice.per_mille(500);
        if gets {
            self.equipment.rms.insert(rm, Equipment::default());
        }
        gets
    }

    /// Has this RM equipment?
    pub(super) fn has_equipment(&self, rm: usize) -> bool {
        self.equipment.rms.contains_key(&rm)
    }

    /// Was the user of a reservation ever let in to a resource of an RM? Always where there is no equipment.
    pub(super) fn was_let_in(&self, rm: usize, reservation: &str, resource: &ResourceId) -> bool {
        self.equipment.rms.get(&rm).is_none_or(|equipment| {
            let mut let_in = equipment.let_in.iter();
            let_in.any(|(txn, of)| of == resource && is_attempt_of(txn, reservation))
        })
    }

    /// A number from the equipment's own generator; `None` in worlds without equipment.
    pub(crate) fn equipment_chance(&mut self, low: i64, high: i64) -> Option<i64> {
        self.equipment.dice.as_mut().map(|dice| dice.between(low, high))
    }

    /// Sets how often calls fail, and schedules what befalls the devices (F15).
    pub fn equipment_faults(&mut self) {
        let Some(mut dice) = self.equipment.dice.take() else { return };
        let until_s = self.faults_us / 1_000_000;
        let rms: Vec<usize> = self.equipment.rms.keys().copied().collect();
        for rm in rms {
            let mut rate = |high: u64| *dice.pick(&[0, 0, high / 5, high]);
            let faults = CallFaults {
                lost_before: rate(150),
                lost_after: rate(150),
                slow: rate(100),
                refused: rate(150),
                untold: rate(100),
            };
            let mut befalls = Vec::new();
            let mut times = |dice: &mut RandomSource, fault: DeviceFault| {
                befalls.extend((0..dice.below(3)).map(|_| fault));
            };
            let down_us = dice.log_between(1, until_s / 8) * 1_000_000;
            times(&mut dice, DeviceFault::Down(down_us));
            times(&mut dice, DeviceFault::ForgetSome);
            times(&mut dice, DeviceFault::ForgetAll);
            times(&mut dice, DeviceFault::Alter);
            times(&mut dice, DeviceFault::Alter);
            times(&mut dice, DeviceFault::StrangerInTheWay);
            times(&mut dice, DeviceFault::Stranger);
            let unusable_us = dice.log_between(1, until_s / 4) * 1_000_000;
            times(&mut dice, DeviceFault::Unusable(unusable_us));
            for fault in befalls {
                let at_us = dice.between(0, until_s) * 1_000_000;
                self.at(at_us, Event::Equipment(EquipmentEvent::Fault { rm, fault }));
            }
            if let Some(equipment) = self.equipment.rms.get_mut(&rm) {
                equipment.faults = faults;
            }
        }
        self.equipment.dice = Some(dice);
    }

    /// Nothing befalls the devices any more, and what was in the way goes.
    pub(super) fn calm_equipment(&mut self) {
        for equipment in self.equipment.rms.values_mut() {
            equipment.faults = CallFaults::default();
            equipment.device.down_until_us = 0;
            equipment.device.unusable.clear();
            equipment.device.strangers.retain(|_, in_way| in_way.is_none());
        }
    }

    /// The process of an RM starts.
    pub(super) fn equipment_starts(&mut self, rm: usize) {
        let now_us = self.now_us;
        let Some(equipment) = self.equipment.rms.get_mut(&rm) else { return };
        equipment.reconciler = Some(Reconciler::default());
        equipment.must_look = Some("after the start");
        equipment.device.things.values_mut().for_each(|thing| thing.is_known = false);
        equipment.disturbed_us = now_us;
    }

    /// The process of an RM dies. The call that is under way may still have its effect.
    pub(super) fn equipment_crashes(&mut self, rm: usize) {
        let AllEquipment { dice, rms, .. } = &mut self.equipment;
        let Some((dice, equipment)) = dice.as_mut().zip(rms.get_mut(&rm)) else { return };
        (equipment.reconciler, equipment.wake) = (None, None);
        let Some(call) = equipment.call.take() else { return };
        if dice.per_mille(500) {
            equipment.effects.remove(&call.number);
        }
    }

    /// Something keeps the process of an RM from its work, or has done so until now.
    pub(super) fn disturb_equipment(&mut self, rm: usize) {
        if let Some(equipment) = self.equipment.rms.get_mut(&rm) {
            equipment.disturbed_us = self.now_us;
        }
    }

    /// Something has changed about these chains.
    pub(super) fn equipment_changed(&mut self, rm: usize, chains: BTreeSet<TransactionId>) {
        let equipment = self.equipment.rms.get_mut(&rm);
        if let Some(reconciler) = equipment.and_then(|equipment| equipment.reconciler.as_mut()) {
            reconciler.changed(chains);
        }
    }

    /// The RM whose process an event is for; `None` when it is for the device alone.
    pub(super) const fn shell_of(event: EquipmentEvent) -> Option<usize> {
        match event {
            EquipmentEvent::Wake { rm, .. } | EquipmentEvent::Done { rm, .. } => Some(rm),
            EquipmentEvent::Effect { .. } | EquipmentEvent::Fault { .. } => None,
        }
    }

    pub(super) fn equipment_event(&mut self, event: EquipmentEvent) -> Result<(), String> {
        match event {
            EquipmentEvent::Wake { rm, number } => {
                let Some(equipment) = self.equipment.rms.get_mut(&rm) else { return Ok(()) };
                if equipment.wake.is_some_and(|(next, _)| next == number) {
                    equipment.wake = None;
                    return self.equipment_goes_on(rm);
                }
                Ok(())
            }
            EquipmentEvent::Effect { rm, call } => self.equipment_effect(rm, call),
            EquipmentEvent::Done { rm, call } => self.equipment_done(rm, call),
            EquipmentEvent::Fault { rm, fault } => {
                self.device_fault(rm, fault);
                Ok(())
            }
        }
    }

    /// Carries out the next command, if the participant can be read and no command is under way.
    pub(super) fn equipment_goes_on(&mut self, rm: usize) -> Result<(), String> {
        let (node, now_us) = (&self.rms[rm], self.now_us);
        let Some(equipment) = self.equipment.rms.get_mut(&rm) else { return Ok(()) };
        let is_frozen = self.troubles.frozen_until(Address::Rm(rm)).is_some();
        let may_read = node.is_settled() && !is_frozen && equipment.call.is_none();
        let core = node.core.as_ref().filter(|_| may_read);
        let Some((core, reconciler)) = core.zip(equipment.reconciler.as_mut()) else {
            return Ok(());
        };
        let now = node.now(now_us);
        let next = reconciler.next(core, now);
        let due = node.world_us(reconciler.due());
        let problem = |what| format!("I23: {}: {what}", node.name);
        equipment.check_active(core, now_us, now.wall).map_err(problem)?;
        if let Some(command) = next {
            equipment.check_command(&command).map_err(problem)?;
            self.call_device(rm, command);
            return Ok(());
        }
        if now_us > self.faults_us && !equipment.has_to_do(core, now.wall) {
            return Ok(());
        }
        let (least, most) = (limits::EQUIPMENT_RETRY_MIN, limits::EQUIPMENT_LOOK_EVERY);
        let at_us = due.clamp(now_us + least.as_us(), now_us + most.as_us());
        if equipment.wake.is_some_and(|(_, other_us)| other_us <= at_us) {
            return Ok(());
        }
        self.equipment.numbers += 1;
        let number = self.equipment.numbers;
        equipment.wake = Some((number, at_us));
        self.at(at_us, Event::Equipment(EquipmentEvent::Wake { rm, number }));
        Ok(())
    }

    /// Sends a command to the device.
    fn call_device(&mut self, rm: usize, command: Command) {
        let number = self.equipment.fresh();
        let AllEquipment { dice, rms, .. } = &mut self.equipment;
        let Some((dice, equipment)) = dice.as_mut().zip(rms.get_mut(&rm)) else { return };
        let CallFaults { lost_before, lost_after, slow, refused, .. } = equipment.faults;
        let patience_us = limits::EQUIPMENT_PATIENCE.as_us();
        let mut done_us = match dice.below(100) {
            0..=89 => dice.between(2_000, 80_000),
            90..=97 => dice.between(80_000, 1_000_000),
            _ => dice.between(1_000_000, patience_us - 1),
        };
        let mut effect_us = Some(dice.between(1_000, done_us));
        let counts = &mut self.counts;
        let lost = || Some(EquipmentTrouble::Lost("the call was cut off".to_owned()));
        let mut trouble = None;
        let mut note = "";
        if equipment.device.down_until_us > self.now_us {
            trouble = Some(EquipmentTrouble::Down("no controller answers".to_owned()));
            (effect_us, note) = (None, "   (down)");
            counts.device_down += 1;
        } else if dice.per_mille(lost_before) {
            (trouble, effect_us, note) = (lost(), None, "   (lost before its effect)");
            counts.device_lost_before += 1;
        } else if dice.per_mille(lost_after) {
            (trouble, note) = (lost(), "   (lost after its effect)");
            counts.device_lost_after += 1;
        } else if dice.per_mille(slow) {
            let late_us = dice.between(patience_us, 3 * patience_us);
            effect_us = (!dice.per_mille(300)).then_some(late_us);
            (trouble, done_us, note) = (lost(), patience_us, "   (slow)");
            counts.device_slow += 1;
        } else if !matches!(command, Command::Observe(_)) && dice.per_mille(refused) {
            let refusal = Refusal::new(Reason::Equipment, "a job is in the way");
            trouble = Some(EquipmentTrouble::Refused(Box::new(refusal)));
            (effect_us, note) = (None, "   (refused)");
            counts.device_refused += 1;
        }
        if trouble.is_some() {
            counts.fault(Fault::F15);
        }
        counts.device_calls += 1;
        let text = in_words(&command);
        if effect_us.is_some() {
            equipment.effects.insert(number, command.clone());
        }
        equipment.call = Some(CallUnderWay { number, command, trouble, outcome: None });
        if let Some(us) = effect_us {
            self.after(us, Event::Equipment(EquipmentEvent::Effect { rm, call: number }));
        }
        self.after(done_us, Event::Equipment(EquipmentEvent::Done { rm, call: number }));
        self.say_at(Address::Rm(rm), || format!("equipment: {text}{note}"));
    }

    /// A call has its effect at the device.
    fn equipment_effect(&mut self, rm: usize, call: u64) -> Result<(), String> {
        let Some(equipment) = self.equipment.rms.get_mut(&rm) else { return Ok(()) };
        let Some(command) = equipment.effects.remove(&call) else { return Ok(()) };
        let outcome = equipment.device.carry_out(&command, self.now_us)?;
        if let (Command::Make { key, want }, None) = (&command, trouble_of(&outcome)) {
            let claimed = want.versions.iter().map(|of| (of.txn.clone(), key.resource.clone()));
            let is_active = matches!(want.stage, Stage::Active(_));
            equipment.let_in.extend(claimed.clone().filter(|_| is_active));
            equipment.claims.extend(claimed);
            self.counts.device_active += u64::from(matches!(want.stage, Stage::Active(_)));
        }
        match equipment.call.as_mut().filter(|under_way| under_way.number == call) {
            Some(under_way) => under_way.outcome = Some(outcome),
            None if matches!(command, Command::Observe(_)) => {}
            None => {
                equipment.disturbed_us = self.now_us;
                self.counts.device_late += 1;
                self.counts.fault(Fault::F15);
                let text = in_words(&command);
                self.say_at(Address::Rm(rm), || format!("equipment: late effect: {text}"));
            }
        }
        Ok(())
    }

    /// The shell gets the outcome of a call, and tells the reconciler and the participant.
    fn equipment_done(&mut self, rm: usize, call: u64) -> Result<(), String> {
        let now_us = self.now_us;
        let now = self.rms[rm].now(now_us);
        let AllEquipment { dice, rms, .. } = &mut self.equipment;
        let Some((dice, equipment)) = dice.as_mut().zip(rms.get_mut(&rm)) else { return Ok(()) };
        let Some(done) = equipment.call.take_if(|under_way| under_way.number == call) else {
            return Ok(());
        };
        let outcome = done.trouble.map(|trouble| failed(&done.command, trouble));
        let Some(outcome) = outcome.or(done.outcome) else {
            return Err("a call to equipment ends before its effect".to_owned());
        };
        let (device, command) = (&mut equipment.device, done.command);
        match (&outcome, trouble_of(&outcome)) {
            (_, Some(trouble)) => {
                equipment.disturbed_us = now_us;
                if matches!(trouble, EquipmentTrouble::Lost(_)) {
                    let lost = "after a call whose outcome nobody knows";
                    equipment.must_look = equipment.must_look.or(Some(lost));
                }
            }
            (CommandOutcome::Observed(Ok(observed)), _) => {
                equipment.must_look = None;
                for presence in observed.present.values() {
                    if let Some(thing) = device.things.get_mut(&presence.reference) {
                        thing.is_known = true;
                    }
                }
            }
            (CommandOutcome::Made(Ok(name)), _) => {
                if let Some(thing) = device.things.get_mut(name) {
                    thing.is_known = true;
                }
            }
            _ => {}
        }
        let Some(reconciler) = equipment.reconciler.as_mut() else { return Ok(()) };
        let mut told = reconciler.done(command, outcome, now.boot);
        let before = told.len();
        told.retain(|_| !dice.per_mille(equipment.faults.untold));
        if told.len() < before {
            equipment.disturbed_us = now_us;
            let untold = (before - told.len()) as u64;
            self.counts.device_untold += untold;
            (0..untold).for_each(|_| self.counts.fault(Fault::F15));
        }
        for input in told {
            if let ParticipantInput::Equipped { key, outcome: Err(why), .. } = &input {
                let (resource, chain, why) = (&key.resource, &key.chain, why.to_string());
                self.say_at(Address::Rm(rm), || format!("equipment: {resource} of {chain}: {why}"));
            }
            self.rms[rm].post(input);
        }
        self.equipment_goes_on(rm)?;
        self.begin(Address::Rm(rm))
    }

    fn device_fault(&mut self, rm: usize, fault: DeviceFault) {
        let resources: Vec<ResourceId> =
            self.rms[rm].shadow.config().resources.iter().map(|(name, _)| name.clone()).collect();
        let now_us = self.now_us;
        let AllEquipment { dice, rms, numbers } = &mut self.equipment;
        let Some((dice, equipment)) = dice.as_mut().zip(rms.get_mut(&rm)) else { return };
        equipment.disturbed_us = now_us;
        let device = &mut equipment.device;
        let before = device.things.len();
        match fault {
            DeviceFault::Down(us) => device.down_until_us = now_us + us,
            DeviceFault::ForgetSome => device.things.retain(|_, _| dice.per_mille(500)),
            DeviceFault::ForgetAll => device.things.clear(),
            DeviceFault::Alter => {
                let names: Vec<String> = device.things.keys().cloned().collect();
                if names.is_empty() {
                    return;
                }
                let Some(thing) = device.things.get_mut(dice.pick(&names)) else { return };
                let stages = [Stage::Claimed, Stage::Granted, Stage::Active(Amount(1))];
                match dice.below(4) {
                    0 => drop(thing.want.versions.pop()),
                    stage => {
                        thing.want.stage = stages[usize::try_from(stage - 1).expect("small")];
                    }
                }
                self.counts.device_altered += 1;
            }
            DeviceFault::Unusable(us) => {
                device.unusable.insert(dice.pick(&resources).clone(), now_us + us);
                self.counts.device_unusable += 1;
            }
            DeviceFault::StrangerInTheWay | DeviceFault::Stranger => {
                *numbers += 1;
                let in_way = matches!(fault, DeviceFault::StrangerInTheWay);
                let in_way = in_way.then(|| dice.pick(&resources).clone());
                device.strangers.insert(format!("stranger-{numbers}"), in_way);
                self.counts.device_strangers += 1;
            }
        }
        let forgotten = (before - device.things.len()) as u64;
        self.counts.device_forgotten += forgotten;
        (0..forgotten.max(1)).for_each(|_| self.counts.fault(Fault::F15));
        self.say_at(Address::Rm(rm), || format!("equipment: {fault:?}, {forgotten} gone"));
    }

    /// I23: an RM says yes to a Hold only when its equipment has had the claim.
    pub(super) fn watch_claim(&self, rm: usize, call: u64, answer: &Answer) -> Result<(), String> {
        let Some(equipment) = self.equipment.rms.get(&rm) else { return Ok(()) };
        let call = self.calls.get(&call).filter(|call| call.kind == MessageKind::Hold);
        let Some(call) = call.filter(|_| matches!(answer, Answer::Held { .. })) else {
            return Ok(());
        };
        let entry = self.rms[rm].shadow.entries().get(&call.txn);
        let order = entry.and_then(|entry| entry.order.as_ref());
        for segment in order.iter().flat_map(|order| &order.segments) {
            if !equipment.claims.contains(&(call.txn.clone(), segment.resource.clone())) {
                let (name, txn, resource) = (&self.rms[rm].name, &call.txn, &segment.resource);
                return Err(format!(
                    "I23: {name} says yes to {txn} before its equipment has claimed {resource}"
                ));
            }
        }
        Ok(())
    }

    /// Why the equipment of an RM is not as it should be at rest.
    pub(super) fn equipment_unrest(&self) -> Option<String> {
        self.equipment.rms.iter().find_map(|(rm, equipment)| {
            let node = &self.rms[*rm];
            let now = node.now(self.now_us);
            let core = node.core.as_ref()?;
            let why = equipment.unrest(core, now.wall)?;
            Some(format!("I23: equipment of {}: {why}", node.name))
        })
    }
}
