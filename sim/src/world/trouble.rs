//! Troubles of single nodes and of directions between two nodes: frozen processes, slow nodes, clogged
//! directions, full disks, damage, old disks, older and newer releases, changed configurations, lies.
//! Meddlers are in `meddling`, the rogue is in `rogue`, faults of packets in `network`, deaths in `world`.

use std::collections::{BTreeMap, BTreeSet};

use coalloc_common::{DiskSpace, Reason, Refusal, RmName, Span, TransactionId};
use coalloc_ledger::{Damage, SimulatedDisk};
use coalloc_protocol::coordinator::{CoordinatorRecord, MessageKind};
use coalloc_protocol::message::{Answer, Decision, Message};

use super::network::Packet;
use super::node::CrashPoint;
use super::{Address, Event, Fault, World};

/// A trouble that begins or ends.
#[derive(Debug, Clone, Copy)]
pub enum Trouble {
    /// A process is frozen for so many microseconds; what is sent to it waits (F5).
    Freeze(Address, i64),
    Thaw(Address),
    /// Everything that the node sends takes up to so many microseconds longer (F6).
    Slow(Address, i64),
    Swift(Address),
    /// What is sent in this direction waits until the direction is open again (F2).
    Clog {
        from: Address,
        to: Address,
        us: i64,
    },
    /// The node's disk has space for the ends of what has begun, and no more (I17).
    Low(Address),
    /// The node's disk takes nothing more (F4).
    Full(Address),
    Room(Address),
    /// The node's disk is put back to the state before its last `lost` thousandths of records (F11).
    Restore {
        node: Address,
        lost: u64,
        down_us: i64,
    },
    /// The node ran an older release, and is started again with this release (F9).
    Upgrade(Address),
    /// A coordinator dies with the next commit decision that it writes, and stays down for so long (F1).
    Doom {
        node: Address,
        down_us: i64,
    },
    /// The configuration of an RM leaves a coordinator out for so long (F12).
    LeaveOut {
        rm: usize,
        grc: usize,
        us: i64,
    },
    /// The configuration of this RM names every coordinator again.
    TakeIn(usize),
    /// A coordinator sends a message about a transaction that is not its own (F13).
    Meddle,
    /// The rogue sends a message (F14).
    Forge,
}

impl Trouble {
    /// Does it begin a trouble? Such events are dropped once faults have stopped.
    pub const fn begins(self) -> bool {
        !matches!(
            self,
            Self::Thaw(_) | Self::Swift(_) | Self::Room(_) | Self::Upgrade(_) | Self::TakeIn(_)
        )
    }
}

/// The troubles at this moment.
#[derive(Debug, Default)]
pub struct Troubles {
    frozen: BTreeMap<Address, i64>,
    slow: BTreeMap<Address, i64>,
    clogged: BTreeMap<(Address, Address), i64>,
    full: BTreeSet<Address>,
    /// RMs that lie, and how many times in a thousand they do.
    pub liars: BTreeMap<usize, u64>,
    /// Nodes that run an older release.
    pub old: BTreeSet<Address>,
    /// So many starts in a thousand find a damaged disk first.
    pub damage: u64,
    /// So many starts in a thousand take up to a minute until the ledger is read.
    pub slow_starts: u64,
    /// RMs that run a newer release until the end of the world.
    pub newer: BTreeSet<usize>,
    /// Coordinators that die with their next decision, and how long they stay down.
    doomed: BTreeMap<Address, i64>,
    /// Coordinators that are dying with a decision, and how long they stay down.
    away: BTreeMap<Address, i64>,
}

impl Troubles {
    /// When this process continues, if it is frozen.
    pub fn frozen_until(&self, node: Address) -> Option<i64> {
        self.frozen.get(&node).copied()
    }

    /// Does the disk of this node take nothing more?
    pub fn is_full(&self, node: Address) -> bool {
        self.full.contains(&node)
    }

    /// For how long a node that dies with its decision stays down, in microseconds.
    pub fn away(&mut self, node: Address) -> Option<i64> {
        self.away.remove(&node)
    }

    /// The process has ended; a new process is not frozen.
    pub fn end_process(&mut self, node: Address) {
        self.frozen.remove(&node);
    }
}

impl World {
    pub(super) fn trouble(&mut self, trouble: Trouble) -> Result<(), String> {
        match trouble {
            Trouble::Freeze(node, us) => {
                if self.is_up(node) && self.troubles.frozen_until(node).is_none() {
                    self.say_at(node, || format!("freezes for {} s", us / 1_000_000));
                    self.counts.freezes += 1;
                    self.counts.fault(Fault::F5);
                    self.troubles.frozen.insert(node, self.now_us + us);
                    self.after(us, Event::Trouble(Trouble::Thaw(node)));
                }
            }
            Trouble::Thaw(node) => {
                let now_us = self.now_us;
                if self.troubles.frozen_until(node).is_some_and(|until| until <= now_us) {
                    self.troubles.frozen.remove(&node);
                    self.went_on(node, now_us);
                    self.say_at(node, || "continues".to_owned());
                    self.begin(node)?;
                }
            }
            Trouble::Slow(node, us) => {
                self.say_at(node, || format!("is slow, up to {} s", us / 1_000_000));
                self.troubles.slow.insert(node, us);
            }
            Trouble::Swift(node) => {
                self.troubles.slow.remove(&node);
            }
            Trouble::Clog { from, to, us } => {
                self.counts.clogs += 1;
                self.counts.fault(Fault::F2);
                self.troubles.clogged.insert((from, to), self.now_us + us);
                self.say(
                    |world| format!("{} -> {}", world.name(from), world.name(to)),
                    |_| format!("clogged for {} s", us / 1_000_000),
                );
            }
            Trouble::Low(node) => {
                self.say_at(node, || "its disk is nearly full".to_owned());
                self.set_room(node, DiskSpace::Low);
            }
            Trouble::Full(node) => {
                self.say_at(node, || "its disk is full".to_owned());
                self.troubles.full.insert(node);
            }
            Trouble::Room(node) => {
                self.say_at(node, || "its disk has space again".to_owned());
                self.troubles.full.remove(&node);
                self.set_room(node, DiskSpace::Enough);
            }
            Trouble::Restore { node, lost, down_us } => self.restore(node, lost, down_us)?,
            Trouble::Upgrade(node) => self.upgrade(node)?,
            Trouble::Doom { node, down_us } => {
                self.troubles.doomed.insert(node, down_us);
            }
            Trouble::LeaveOut { rm, grc, us } => {
                let name = self.grc_names[grc].clone();
                self.say_at(Address::Rm(rm), || format!("gets a configuration without {name}"));
                self.left_out[rm].borrow_mut().insert(name);
                self.crash(Address::Rm(rm), 1_000_000, false);
                self.after(us, Event::Trouble(Trouble::TakeIn(rm)));
            }
            Trouble::TakeIn(rm) => self.take_in(rm),
            Trouble::Meddle => self.meddle()?,
            Trouble::Forge => self.forge(),
        }
        Ok(())
    }

    /// Ends all troubles; frozen processes continue.
    pub fn calm(&mut self) -> Result<(), String> {
        let frozen = std::mem::take(&mut self.troubles.frozen);
        let old = std::mem::take(&mut self.troubles.old);
        let newer = std::mem::take(&mut self.troubles.newer);
        self.troubles = Troubles { old, newer, ..Troubles::default() };
        self.calm_equipment();
        (0..self.rms.len()).for_each(|rm| self.take_in(rm));
        let rms = (0..self.rms.len()).map(Address::Rm);
        for node in (0..self.grcs.len()).map(Address::Grc).chain(rms) {
            self.set_room(node, DiskSpace::Enough);
        }
        frozen.into_iter().try_for_each(|(node, until_us)| {
            // The batch that was on its way to the disk becomes durable when it would have without the end of
            // faults.
            self.went_on(node, until_us);
            self.begin(node)
        })
    }

    /// The RM's configuration names every coordinator again, and the RM restarts to read it.
    fn take_in(&mut self, rm: usize) {
        if !std::mem::take(&mut *self.left_out[rm].borrow_mut()).is_empty() {
            self.say_at(Address::Rm(rm), || {
                "gets a configuration with every coordinator".to_owned()
            });
            self.crash(Address::Rm(rm), 1_000_000, false);
        }
    }

    /// A start may take long: the process exists, and reads its ledger.
    pub(super) fn start_slowly(&mut self, node: Address) -> Result<(), String> {
        if !self.dice.per_mille(self.troubles.slow_starts) {
            return Ok(());
        }
        self.counts.slow_starts += 1;
        self.counts.fault(Fault::F6);
        let us = self.dice.log_between(1_000, 60_000) * 1_000;
        self.trouble(Trouble::Freeze(node, us))
    }

    /// Where the node dies in this sync, if it is to die with a commit decision and this sync writes one.
    pub(super) fn dies_with_decision(&mut self, node: Address) -> Option<CrashPoint> {
        let Address::Grc(index) = node else { return None };
        let &us = self.troubles.doomed.get(&node)?;
        let decides = |record: &CoordinatorRecord| {
            matches!(record, CoordinatorRecord::Decided { decision: Decision::Commit, .. })
        };
        if !self.grcs[index].next_records().any(decides) {
            return None;
        }
        self.troubles.doomed.remove(&node);
        self.troubles.away.insert(node, us);
        self.counts.died_decided += 1;
        self.counts.fault(Fault::F1);
        Some(match self.dice.below(3) {
            0 => CrashPoint::AfterFsync,
            sent => CrashPoint::AfterEffects(usize::try_from(sent).expect("small")),
        })
    }

    fn went_on(&mut self, node: Address, at_us: i64) {
        self.watch.asking.awake(node, at_us);
        if let Address::Rm(rm) = node {
            self.model_awake(rm, at_us);
            self.disturb_equipment(rm);
        }
    }

    fn set_room(&self, node: Address, room: DiskSpace) {
        match node {
            Address::Grc(index) => self.grcs[index].disk.set_room(room),
            Address::Rm(index) => self.rms[index].disk.set_room(room),
        }
    }

    /// How much a packet is delayed because its sender is slow or its direction is clogged, in microseconds.
    pub(super) fn held_up_us(&mut self, from: Address, to: Address) -> i64 {
        let mut us = 0;
        if let Some(&most) = self.troubles.slow.get(&from) {
            us += self.dice.between(most / 4, most);
            self.counts.fault(Fault::F6);
        }
        if let Some(&until) = self.troubles.clogged.get(&(from, to)) {
            if until <= self.now_us {
                self.troubles.clogged.remove(&(from, to));
            }
            us += (until - self.now_us).max(0);
        }
        us
    }

    /// A start finds a damaged record and refuses to go on (I15). Then the disk is repaired from a mirror.
    pub(super) fn start_damaged(&mut self, node: Address) -> Result<(), String> {
        let chance = self.troubles.damage;
        let records = match node {
            Address::Grc(index) => self.grcs[index].disk.records(),
            Address::Rm(index) => self.rms[index].disk.records(),
        };
        if records < 2 || !self.dice.per_mille(chance) {
            return Ok(());
        }
        let record = usize::try_from(self.dice.below(records as u64 - 1)).expect("an index");
        let damage = *self.dice.pick(&Damage::ALL);
        self.counts.damaged += 1;
        self.counts.fault(Fault::F4);
        self.say_at(node, || format!("starts; record {} is damaged: {damage:?}", record + 1));
        match node {
            Address::Grc(index) => self.grcs[index].start_damaged(record, damage),
            Address::Rm(index) => self.rms[index].start_damaged(record, damage),
        }
    }

    /// The node dies, and an older copy of its disk is put back (F11).
    fn restore(&mut self, node: Address, lost: u64, down_us: i64) -> Result<(), String> {
        self.crash(node, down_us, false);
        let lost = self.disk(node).records() * usize::try_from(lost).expect("small") / 1_000;
        self.restore_without(node, lost)
    }

    fn disk(&self, node: Address) -> SimulatedDisk {
        match node {
            Address::Grc(index) => self.grcs[index].disk.clone(),
            Address::Rm(index) => self.rms[index].disk.clone(),
        }
    }

    /// Puts back an older copy of the disk of a node that is down. The copy lacks at least so many records.
    pub fn restore_without(&mut self, node: Address, lost: usize) -> Result<(), String> {
        let disk = self.disk(node);
        let bodies = disk.bodies();
        // A copy of a disk is made between two transactions of the ledger.
        let keep = disk.end_before(bodies.len().saturating_sub(lost));
        if keep == bodies.len() {
            return Ok(());
        }
        let gone = bodies.len() - keep;
        self.say_at(node, || format!("its disk is put back without the last {gone} records"));
        self.counts.forgotten += gone as u64;
        self.counts.emptied += u64::from(keep == 0);
        self.counts.fault(Fault::F11);
        self.watch.exempt.lose(&bodies[keep..]);
        match node {
            Address::Grc(index) => self.grcs[index].restore(keep),
            Address::Rm(index) => {
                self.rms[index].restore(keep)?;
                self.subscribers[index].restored();
                self.model_again(index);
                Ok(())
            }
        }
    }

    /// The node ran an older release until now. It is stopped, and this release continues with its ledger.
    fn upgrade(&mut self, node: Address) -> Result<(), String> {
        if !self.troubles.old.remove(&node) {
            return Ok(());
        }
        self.crash(node, 1_000_000, false);
        self.counts.upgrades += 1;
        self.counts.fault(Fault::F9);
        self.say_at(node, || "is upgraded".to_owned());
        Ok(())
    }

    /// Does an RM of an older release reject this message because it is new (F9)?
    pub(super) fn rejects(&mut self, rm: usize, call: u64, message: &Message) -> bool {
        let is_new = matches!(message, Message::Hold(order) if order.replaces.is_some());
        if !is_new || !self.troubles.old.contains(&Address::Rm(rm)) {
            return false;
        }
        let Some(grc) = self.calls.get(&call).map(|call| call.grc) else { return true };
        self.counts.rejected += 1;
        self.counts.fault(Fault::F9);
        let text = "this release does not know `replaces`".to_owned();
        self.send(Address::Rm(rm), Address::Grc(grc), Packet::Rejected { call, text });
        true
    }

    /// Does an RM of a newer release refuse this hold for a reason that this release does not know (F9)? It
    /// always refuses the same holds, as any RM does, so that nothing has to be written down for it here.
    pub(super) fn refuses_anew(&mut self, rm: usize, call: u64, message: &Message) -> bool {
        let Message::Hold(order) = message else { return false };
        let sum: u32 = order.txn.as_str().bytes().map(u32::from).sum();
        if !self.troubles.newer.contains(&rm) || !sum.is_multiple_of(4) {
            return false;
        }
        let Some(grc) = self.calls.get(&call).map(|call| call.grc) else { return true };
        self.counts.unknown_reasons += 1;
        self.counts.fault(Fault::F9);
        let answer = Answer::Refused(Refusal::new(Reason::Unknown, "a reason of a newer release"));
        self.send(Address::Rm(rm), Address::Grc(grc), Packet::Answer { call, answer });
        true
    }

    /// An RM of a newer release has another reason for refusing a Commit that comes too late (F9).
    pub(super) fn as_newer(&mut self, rm: usize, call: u64, answer: Answer) -> Answer {
        let is_commit = self.calls.get(&call).is_some_and(|call| call.kind == MessageKind::Commit);
        match answer {
            Answer::Refused(refusal)
                if is_commit
                    && refusal.reason == Reason::Expired
                    && self.troubles.newer.contains(&rm) =>
            {
                self.counts.unknown_reasons += 1;
                self.counts.fault(Fault::F9);
                Answer::Refused(Refusal { reason: Reason::Unknown, ..refusal })
            }
            answer => answer,
        }
    }

    /// A lying RM says yes to a Hold that its core never gets (F7).
    pub(super) fn promises_falsely(&mut self, rm: usize, call: u64, message: &Message) -> bool {
        if !matches!(message, Message::Hold(_)) || !self.will_lie(rm) {
            return false;
        }
        let Some(known) = self.calls.get(&call) else { return false };
        let (grc, txn) = (known.grc, known.txn.clone());
        let expires_in = self.any_span();
        self.has_lied(rm, &txn, self.watch.yes_is_booked(&txn, MessageKind::Hold));
        let answer = Answer::Held { expires_in, servers: Vec::new() };
        self.send(Address::Rm(rm), Address::Grc(grc), Packet::Answer { call, answer });
        true
    }

    /// What a lying RM answers instead of the truth (F7): the contrary, or nonsense.
    pub(super) fn lied(&mut self, rm: usize, call: u64, truth: Answer) -> Answer {
        if !self.will_lie(rm) {
            return truth;
        }
        let Some(known) = self.calls.get(&call) else { return truth };
        let (kind, txn) = (known.kind, known.txn.clone());
        let reasons = [Reason::InsufficientCapacity, Reason::NotHeld, Reason::Expired];
        let reason = *self.dice.pick(&reasons);
        let name = RmName::composed(&*self.rms[rm].name);
        let refused = || Answer::Refused(Refusal::new(reason, "a lie").at(&name));
        let lie = match (self.dice.below(6), &truth, kind) {
            (0, ..) => Answer::OtherContent,
            (1, ..) => Answer::Denied,
            (2, ..) => Answer::Held { expires_in: self.any_span(), servers: Vec::new() },
            (_, Answer::Done | Answer::Held { .. }, _) => refused(),
            (_, _, MessageKind::Hold) => {
                Answer::Held { expires_in: self.any_span(), servers: Vec::new() }
            }
            _ => Answer::Done,
        };
        if self.dice.per_mille(200) {
            self.asks_nonsense(rm);
        }
        let yes = match kind {
            MessageKind::Hold => matches!(lie, Answer::Held { .. }),
            _ => lie == Answer::Done,
        };
        self.has_lied(rm, &txn, yes && self.watch.yes_is_booked(&txn, kind));
        lie
    }

    fn will_lie(&mut self, rm: usize) -> bool {
        let chance = self.troubles.liars.get(&rm).copied().unwrap_or(0);
        self.dice.per_mille(chance)
    }

    fn has_lied(&mut self, rm: usize, txn: &TransactionId, booked: bool) {
        self.counts.lies += 1;
        self.counts.fault(Fault::F7);
        self.watch.exempt.lie(rm, txn, booked);
        self.say_at(Address::Rm(rm), || "lies:".to_owned());
    }

    fn any_span(&mut self) -> Span {
        let spans = [i64::MIN, -1, 0, 1_000_000, 900_000_000, i64::MAX];
        Span::from_us(*self.dice.pick(&spans))
    }

    /// A lying RM asks for the outcome of a transaction that it has no part in (I21).
    fn asks_nonsense(&mut self, rm: usize) {
        let others: Vec<usize> = (0..self.rms.len()).filter(|other| *other != rm).collect();
        if others.is_empty() {
            return;
        }
        let other = *self.dice.pick(&others);
        let entries = self.rms[other].shadow.entries();
        let alien =
            entries.iter().find(|(txn, _)| !self.rms[rm].shadow.entries().contains_key(*txn));
        let Some((txn, coordinator)) =
            alien.map(|(txn, entry)| (txn.clone(), entry.coordinator.clone()))
        else {
            return;
        };
        // If the RM has a part in the transaction after all, its question decides like any other.
        self.has_lied(rm, &txn, false);
        self.ask(Address::Rm(rm), &coordinator, txn);
    }
}
