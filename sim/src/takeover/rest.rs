//! When a world is at rest, and what must be so then.

use std::collections::BTreeMap;

use coalloc_common::{RmName, Segment, TransactionId};
use coalloc_protocol::coordinator::State;
use coalloc_protocol::participant::Phase;

use super::process::Role;
use super::{World, index_of, rm_name};

impl World {
    /// Does everybody know the outcome, and does nobody do anything more?
    pub(super) fn is_at_rest(&self) -> bool {
        self.users.iter().all(|user| user.is_done)
            && self.shadow.unfinished() == 0
            && self.holds().is_none()
            && self.processes.iter().all(super::process::Process::is_idle)
            && matches!(self.leaders()[..], [only] if self.is_elected_last(only))
    }

    /// Whoever was replaced may not know it yet, while its successor has failed.
    fn is_elected_last(&self, at: usize) -> bool {
        self.processes[at].role == Role::Leads { epoch: self.shadow.epoch() }
    }

    /// What is not at rest.
    pub(super) fn restless(&self) -> String {
        let waiting: Vec<usize> =
            (0..self.users.len()).filter(|user| !self.users[*user].is_done).collect();
        let (unfinished, leaders) = (self.shadow.unfinished(), self.leaders());
        let held = self.holds();
        format!(
            "users {waiting:?} wait, {unfinished} transactions are unfinished, held: {held:?}, leaders: {leaders:?}"
        )
    }

    fn holds(&self) -> Option<(usize, &TransactionId)> {
        let held = |(rm, manager): (usize, &super::Manager)| {
            let entries = manager.core.entries().iter();
            let mut held = entries.filter(|(_, entry)| matches!(entry.phase, Phase::Held(_)));
            held.next().is_some().then_some(rm)
        };
        let rm = self.managers.iter().enumerate().find_map(held)?;
        let entries = self.managers[rm].core.entries().iter();
        let txn = entries.into_iter().find(|(_, entry)| matches!(entry.phase, Phase::Held(_)));
        txn.map(|(txn, _)| (rm, txn))
    }

    pub(super) fn check_at_rest(&mut self) -> Result<(), String> {
        let leader = self.leaders();
        for at in leader {
            let process = &self.processes[at];
            if !process.core.reservations().eq(self.shadow.reservations()) {
                return Err(format!("I12: {} is not the fold of the log", process.name));
            }
        }
        let mut promised: BTreeMap<(usize, TransactionId), &[Segment]> = BTreeMap::new();
        for known in self.shadow.reservations() {
            match known.state {
                State::Confirmed => {}
                State::Failed | State::Terminated => {
                    self.counts.failed += u64::from(known.state == State::Failed);
                    continue;
                }
                state => return Err(format!("I22: {} is {state:?} at rest", known.id)),
            }
            self.counts.confirmed += 1;
            let (Some(txn), Some(candidate)) = (&known.transaction, &known.candidate) else {
                return Err(format!("{} is confirmed without a plan", known.id));
            };
            let parts = candidate.segments.iter();
            promised.extend(
                parts.map(|(rm, segments): (&RmName, _)| {
                    ((index_of(rm), txn.clone()), &segments[..])
                }),
            );
        }
        for (rm, manager) in self.managers.iter().enumerate() {
            for (txn, entry) in manager.core.entries() {
                if entry.phase != Phase::Booked {
                    continue;
                }
                let booked = entry.order.as_ref().map(|order| &order.segments[..]);
                if promised.remove(&(rm, txn.clone())).map(Some) != Some(booked) {
                    return Err(format!(
                        "I6: {} has {txn} booked, which is not confirmed",
                        rm_name(rm)
                    ));
                }
            }
        }
        if let Some(((rm, txn), _)) = promised.pop_first() {
            return Err(format!("I6: {txn} is confirmed, and {} has not booked it", rm_name(rm)));
        }
        for (at, user) in self.users.iter().enumerate() {
            let Some((id, state)) = &user.told else { continue };
            let known = self.shadow.find(id.as_str());
            if known.map(|known| known.state) != Some(*state) {
                return Err(format!("I14: user {at} was told {id} {state:?}, which is {known:?}"));
            }
        }
        Ok(())
    }
}
