//! What must hold at rest: what is confirmed is booked at every resource manager that it names, also through
//! child coordinators, and nothing else is booked or held (I5, I6, I7).

use std::collections::BTreeMap;

use coalloc_common::TransactionId;
use coalloc_protocol::coordinator::{Reservation, State};
use coalloc_protocol::participant::Phase;

use super::{Member, World};

impl World<'_> {
    pub(super) fn check_owned(&self) -> Result<(), String> {
        let mut owners: BTreeMap<(usize, TransactionId), &Reservation> = BTreeMap::new();
        for grc in &self.grcs {
            for known in grc.core.reservations() {
                if !known.is_definite() {
                    return Err(format!("{} is {:?} at the end", known.id, known.state));
                }
                if known.state == State::Confirmed {
                    self.check_booked(known, &mut owners)?;
                }
            }
        }
        for (at, rm) in self.rms.iter().enumerate() {
            for (txn, entry) in rm.entries() {
                let live = matches!(entry.phase, Phase::Held(_) | Phase::Booked);
                if live && !owners.contains_key(&(at, txn.clone())) {
                    return Err(format!("I5: {txn} is left over at {}", rm.config().name));
                }
            }
        }
        Ok(())
    }

    /// Checks that the members of a confirmed reservation have booked what it names.
    fn check_booked<'a>(
        &self,
        known: &'a Reservation,
        owners: &mut BTreeMap<(usize, TransactionId), &'a Reservation>,
    ) -> Result<(), String> {
        let (Some(txn), Some(booked)) = (&known.transaction, &known.candidate) else {
            return Err(format!("I6: {} is confirmed without transaction or plan", known.id));
        };
        if let Some(upper) = &known.parent_transaction
            && !self.is_confirmed_at_parent(upper)
        {
            return Err(format!("I5: {} is booked for {upper}, which is not confirmed", known.id));
        }
        for (name, segments) in &booked.segments {
            let is_there = match self.by_name.get(name) {
                Some(Member::Rm(rm)) => {
                    owners.insert((*rm, txn.clone()), known);
                    let entry = self.rms[*rm].entries().get(txn);
                    entry.is_some_and(|entry| {
                        let order = entry.order.as_ref();
                        entry.phase == Phase::Booked
                            && order.is_some_and(|order| order.segments == *segments)
                    })
                }
                Some(Member::Grc(lower)) => {
                    let core = &self.grcs[*lower].core;
                    core.reservation_for_parent(txn).is_some_and(|below| {
                        let order = core.parent_order(below);
                        below.state == State::Confirmed
                            && order.is_some_and(|order| order.segments == *segments)
                    })
                }
                None => false,
            };
            if !is_there {
                return Err(format!("I6: {} is confirmed, but not booked at {name}", known.id));
            }
        }
        Ok(())
    }

    fn is_confirmed_at_parent(&self, txn: &TransactionId) -> bool {
        self.grcs.iter().any(|grc| {
            let known = grc.core.reservation_of(txn);
            known.is_some_and(|known| {
                known.state == State::Confirmed && known.transaction.as_ref() == Some(txn)
            })
        })
    }
}
