//! The state of a participant as parts: one for each transaction, one for the boot, one for each ledger of which
//! something was forgotten, and one for each ledger that has leaders.
//!
//! A part has what the records say of a transaction: its order, its phase with the clocks of a hold, and what it takes. All
//! else follows: the timetables are the sum of what the entries take, and so are totals, alarms and indexes. When a
//! hold asked last is not in a part, because a restart forgets it.
//!
//! One thing is not as after a replay of all records: an inner link that is no longer configured and whose routes were all
//! moved away counts as retired after a replay, and is unknown after a snapshot. Nothing is taken of it in either case.

use coalloc_common::timetable::Timetable;
use coalloc_common::{ResourceId, TransactionId};
use serde::{Deserialize, Serialize};

use super::equipment::{Claim, EquipmentKey, EquipmentState};
use super::{Entry, Participant, Phase};
use crate::core::ReplayError;
use crate::snapshot::{ChangedPart, Snapshot};

/// A part of a participant's snapshot.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ParticipantPart {
    /// The boot in whose time all deadlines are counted.
    Boot {
        /// The boot's id.
        boot: String,
    },
    /// What is known to be at rest of a coordinator's ledger.
    OldestOpen {
        /// The ledger, as `<coordinator>-<tag>`.
        ledger: String,
        /// All of its attempts with lower numbers are at rest.
        number: u64,
    },
    /// Which process leads those that share a coordinator's ledger.
    Leader {
        /// The ledger, as `<coordinator>-<tag>`.
        ledger: String,
        /// The epoch in which it leads.
        epoch: u64,
    },
    /// What is known of the equipment under one key.
    Equipment {
        /// The key.
        key: EquipmentKey,
        /// What is known.
        state: EquipmentState,
    },
    /// One transaction.
    Entry {
        /// Its id.
        txn: TransactionId,
        /// What is known of it.
        entry: Box<Entry>,
    },
}

impl Snapshot for Participant {
    type Part = ParticipantPart;

    fn changed(&self) -> usize {
        self.entries.changed()
            + self.forgetting.oldest_open.on_record.changed()
            + self.leader_epochs.on_record.changed()
            + self.equipment.states.changed()
            + usize::from(self.boot != self.boot_in_snapshot)
    }

    fn take_changed(&mut self) -> Vec<ChangedPart<ParticipantPart>> {
        let mut changed = Vec::with_capacity(self.changed());
        if self.boot != self.boot_in_snapshot {
            self.boot_in_snapshot.clone_from(&self.boot);
            let part = self.boot.clone().map(|boot| ParticipantPart::Boot { boot });
            changed.push(ChangedPart { key: "boot".to_owned(), part });
        }
        changed.extend(self.forgetting.oldest_open.on_record.take_changed().map(
            |(ledger, number)| {
                let key = format!("oldest open {ledger}");
                let part =
                    number.map(|number| ParticipantPart::OldestOpen { ledger, number: *number });
                ChangedPart { key, part }
            },
        ));
        changed.extend(self.leader_epochs.on_record.take_changed().map(|(ledger, epoch)| {
            let key = format!("leader {ledger}");
            let part = epoch.map(|epoch| ParticipantPart::Leader { ledger, epoch: *epoch });
            ChangedPart { key, part }
        }));
        changed.extend(self.equipment.states.take_changed().map(|(key, state)| ChangedPart {
            key: format!("equipment {} {}", key.chain, key.resource),
            part: state.cloned().map(|state| ParticipantPart::Equipment { key, state }),
        }));
        changed.extend(self.entries.take_changed().map(|(txn, entry)| ChangedPart {
            key: format!("entry {txn}"),
            part: entry.map(|entry| ParticipantPart::Entry { txn, entry: Box::new(entry.clone()) }),
        }));
        changed
    }

    fn restore(&mut self, part: ParticipantPart) -> Result<(), ReplayError> {
        match part {
            ParticipantPart::Boot { boot } => {
                self.boot = Some(boot);
                self.boot_in_snapshot.clone_from(&self.boot);
            }
            ParticipantPart::OldestOpen { ledger, number } => {
                if self.forgetting.oldest_open.on_record.restore(ledger.clone(), number).is_some() {
                    return Err(ReplayError(format!("{ledger} is there twice")));
                }
            }
            ParticipantPart::Leader { ledger, epoch } => {
                if self.leader_epochs.on_record.restore(ledger.clone(), epoch).is_some() {
                    return Err(ReplayError(format!("{ledger} is there twice")));
                }
            }
            ParticipantPart::Equipment { key, state } => {
                if self.equipment.states.restore(key.clone(), state).is_some() {
                    return Err(ReplayError(format!(
                        "{} {} is there twice",
                        key.chain, key.resource
                    )));
                }
            }
            ParticipantPart::Entry { txn, mut entry } => {
                if let Phase::Held(held) = &mut entry.phase {
                    held.ask_at = held.soft_at;
                }
                if self.entries.restore(txn.clone(), *entry).is_some() {
                    return Err(ReplayError(format!("{txn} is there twice")));
                }
            }
        }
        Ok(())
    }

    fn restored(&mut self, records: u64) -> Result<(), ReplayError> {
        self.changes.restart(records);
        // Only these have something in the timetables or in an index. The others are many.
        let (mut live, mut known) = (Vec::new(), Vec::new());
        for (txn, entry) in self.entries.iter() {
            if entry.in_timetables().is_some() {
                live.push(txn.clone());
            }
            if !matches!(entry.phase, Phase::Refused(_)) || entry.claim != Claim::NotNeeded {
                let new = |resource: &&ResourceId| !self.timetables.contains_key(*resource);
                known.extend(entry.resources().filter(new).cloned());
            }
        }
        for resource in known {
            self.timetable_of(&resource);
        }
        for txn in live {
            self.enter_live(&txn)?;
        }
        Ok(())
    }
}

impl Entry {
    /// Everything that has a timetable and that it takes or took: resources, inner links and servers.
    fn resources(&self) -> impl Iterator<Item = &ResourceId> {
        let order = self.order.iter().flat_map(|order| &order.segments);
        let links = self.inner.iter().flatten().flatten();
        let servers = self.servers.iter().flat_map(|of| &of.servers);
        order.map(|segment| &segment.resource).chain(links).chain(servers)
    }
}

impl Participant {
    /// Enters an entry of a snapshot in the timetables, and in all that is counted and indexed.
    fn enter_live(&mut self, txn: &TransactionId) -> Result<(), ReplayError> {
        let Some(entry) = self.entries.get(txn) else { return Ok(()) };
        let Some((layer, segments)) = entry.in_timetables() else { return Ok(()) };
        let phase = entry.phase.clone();
        let order = entry.order.as_ref();
        let replaces = order.and_then(|order| order.replaces.clone());
        if let Some(order) = order
            && entry.inner.is_some()
            && matches!(phase, Phase::Held(_) | Phase::Booked)
        {
            self.overlaps.insert(txn, &order.segments);
        }
        for segment in &segments {
            let taken = self.take_segment(layer, segment, Timetable::restore);
            taken.map_err(|problem| ReplayError(format!("{txn}: {problem}")))?;
        }
        self.note_equipment(txn);
        match phase {
            Phase::Held(_) => {
                if let Some(old) = replaces {
                    self.replacing.insert(old, txn.clone());
                }
                self.count_hold(txn);
                self.set_alarm(txn);
            }
            Phase::Booked => self.enter_booked(txn),
            Phase::Refused(_) | Phase::Ended(_) => {}
        }
        Ok(())
    }
}
