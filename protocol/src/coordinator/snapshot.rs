//! The state of a coordinator as parts: reservations, their transactions, and what else the records say.
//!
//! All that follows from these is computed when they are put back: the order of the reservations, the ids of their requests,
//! what is booked at each RM, and which reservations of each user are live. What a restart forgets is in no part: who
//! waits, what is tried next, and when something is sent again.

use std::collections::BTreeMap;

use coalloc_common::{ReservationId, RmName, TransactionId, UserName};
use serde::{Deserialize, Serialize};

use super::calendar::CalendarAddress;
use super::forgetting::ForgottenCount;
use super::mending::Mending;
use super::parent::ParentEntry;
use super::record::Differs;
use super::reports::Report;
use super::reservation::{Change, Reservation};
use super::transaction::StoredTransaction;
use super::{Coordinator, LeaderEpoch, place_in};
use crate::core::ReplayError;
use crate::snapshot::{ChangedPart, Snapshot};
use crate::tracked::TrackedMap;

/// A part of a coordinator's snapshot.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(transparent)]
pub struct CoordinatorPart(Part);

#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Part {
    Reservation {
        reservation: Box<Reservation>,
    },
    Transaction {
        txn: TransactionId,
        transaction: Box<StoredTransaction>,
    },
    /// The changes of a reservation before its last.
    PastChanges {
        reservation: ReservationId,
        changes: Vec<Change>,
    },
    /// The reports about a reservation, in the order in which they arrived.
    Reports {
        reservation: ReservationId,
        reports: Vec<Report>,
    },
    /// A reservation of which some RMs have booked a change and others have not.
    Mending {
        reservation: ReservationId,
        mending: Box<Mending>,
    },
    /// A transaction of a parent coordinator.
    Parent {
        txn: TransactionId,
        entry: Box<ParentEntry>,
    },
    /// A parent's reservation, and the one with the newer version.
    Replacing {
        old: ReservationId,
        new: ReservationId,
    },
    /// An RM that is still to release what it has of a transaction.
    Disowning {
        rm: RmName,
        txn: TransactionId,
    },
    /// How much was forgotten so far.
    Forgotten {
        reservations: u64,
        attempts: u64,
    },
    /// What is known to be at rest of a parent coordinator's ledger.
    OldestOpen {
        ledger: String,
        number: u64,
    },
    /// The epoch in which a process of a parent leads those that share the parent's ledger.
    ParentLeader {
        ledger: String,
        epoch: u64,
    },
    /// The secret address of a user's calendar.
    Calendar {
        user: UserName,
        address: Box<CalendarAddress>,
    },
    /// The epoch of the last election of a leader.
    Epoch {
        epoch: u64,
    },
    /// How the bookings of an RM differed when they were compared last.
    Differing {
        rm: RmName,
        transactions: BTreeMap<TransactionId, Differs>,
    },
}

/// Moves the changes of one map into the list of all changes.
fn take<K: Ord + Clone, V>(
    all: &mut Vec<ChangedPart<CoordinatorPart>>,
    map: &mut TrackedMap<K, V>,
    name: impl Fn(&K) -> String,
    part: impl Fn(K, &V) -> Part,
) {
    all.extend(map.take_changed().map(|(key, value)| ChangedPart {
        key: name(&key),
        part: value.map(|value| CoordinatorPart(part(key, value))),
    }));
}

impl Snapshot for Coordinator {
    type Part = CoordinatorPart;

    fn changed(&self) -> usize {
        self.reservations.changed()
            + self.transactions.changed()
            + self.past_changes.changed()
            + self.reports.of.changed()
            + self.mendings.open.changed()
            + self.parents.entries.changed()
            + self.parents.replacing.changed()
            + self.parents.leader_epochs.on_record.changed()
            + self.disowning.all.changed()
            + self.promises.differing.changed()
            + self.forgetting.oldest_open.on_record.changed()
            + self.calendars.of.changed()
            + usize::from(self.forgetting.count != self.forgetting.count_in_snapshot)
            + usize::from(self.epoch.now != self.epoch.in_snapshot)
    }

    fn take_changed(&mut self) -> Vec<ChangedPart<CoordinatorPart>> {
        let mut all = Vec::with_capacity(self.changed());
        take(
            &mut all,
            &mut self.reservations,
            |id| format!("reservation {id}"),
            |_, known| Part::Reservation { reservation: Box::new(known.clone()) },
        );
        take(
            &mut all,
            &mut self.transactions,
            |txn| format!("transaction {txn}"),
            |txn, known| Part::Transaction { txn, transaction: Box::new(known.stored()) },
        );
        take(
            &mut all,
            &mut self.past_changes,
            |id| format!("changes {id}"),
            |reservation, changes| {
                let changes = changes.values().cloned().collect();
                Part::PastChanges { reservation, changes }
            },
        );
        take(
            &mut all,
            &mut self.reports.of,
            |id| format!("reports {id}"),
            |reservation, reports| Part::Reports { reservation, reports: reports.all.clone() },
        );
        take(
            &mut all,
            &mut self.mendings.open,
            |id| format!("mending {id}"),
            |reservation, known| Part::Mending { reservation, mending: Box::new(known.clone()) },
        );
        take(
            &mut all,
            &mut self.parents.entries,
            |txn| format!("parent {txn}"),
            |txn, entry| Part::Parent { txn, entry: Box::new(entry.clone()) },
        );
        take(
            &mut all,
            &mut self.parents.replacing,
            |old| format!("replacing {old}"),
            |old, new| Part::Replacing { old, new: new.clone() },
        );
        take(
            &mut all,
            &mut self.parents.leader_epochs.on_record,
            |ledger| format!("parent leader {ledger}"),
            |ledger, epoch| Part::ParentLeader { ledger, epoch: *epoch },
        );
        take(
            &mut all,
            &mut self.disowning.all,
            |(rm, txn)| format!("disowning {rm} {txn}"),
            |(rm, txn), _| Part::Disowning { rm, txn },
        );
        take(
            &mut all,
            &mut self.promises.differing,
            |rm| format!("differing {rm}"),
            |rm, transactions| Part::Differing { rm, transactions: transactions.clone() },
        );
        take(
            &mut all,
            &mut self.forgetting.oldest_open.on_record,
            |ledger| format!("oldest open {ledger}"),
            |ledger, number| Part::OldestOpen { ledger, number: *number },
        );
        take(
            &mut all,
            &mut self.calendars.of,
            |user| format!("calendar {user}"),
            |user, address| Part::Calendar { user, address: Box::new(address.clone()) },
        );
        if self.epoch.now != self.epoch.in_snapshot {
            self.epoch.in_snapshot = self.epoch.now;
            let part = Some(CoordinatorPart(Part::Epoch { epoch: self.epoch.now }));
            all.push(ChangedPart { key: "epoch".to_owned(), part });
        }
        if self.forgetting.count != self.forgetting.count_in_snapshot {
            self.forgetting.count_in_snapshot = self.forgetting.count;
            let ForgottenCount { reservations, attempts } = self.forgetting.count;
            let part = Some(CoordinatorPart(Part::Forgotten { reservations, attempts }));
            all.push(ChangedPart { key: "forgotten".to_owned(), part });
        }
        all
    }

    fn restore(&mut self, part: CoordinatorPart) -> Result<(), ReplayError> {
        let is_new = match part.0 {
            Part::Reservation { reservation } => {
                self.reservations.restore(reservation.id.clone(), *reservation).is_none()
            }
            Part::Transaction { txn, transaction } => {
                self.transactions.restore(txn, (*transaction).into()).is_none()
            }
            Part::PastChanges { reservation, changes } => {
                let changes = changes.into_iter().map(|change| (change.id.clone(), change));
                self.past_changes.restore(reservation, changes.collect()).is_none()
            }
            Part::Reports { reservation, reports } => {
                self.reports.of.restore(reservation, reports.into_iter().collect()).is_none()
            }
            Part::Mending { reservation, mending } => {
                self.mendings.open.restore(reservation, *mending).is_none()
            }
            Part::Parent { txn, entry } => self.parents.entries.restore(txn, *entry).is_none(),
            Part::Replacing { old, new } => self.parents.replacing.restore(old, new).is_none(),
            Part::ParentLeader { ledger, epoch } => {
                self.parents.leader_epochs.on_record.restore(ledger, epoch).is_none()
            }
            Part::Disowning { rm, txn } => self.disowning.restore((rm, txn)),
            Part::Forgotten { reservations, attempts } => {
                let is_new = self.forgetting.count == ForgottenCount::default();
                self.forgetting.count = ForgottenCount { reservations, attempts };
                self.forgetting.count_in_snapshot = self.forgetting.count;
                is_new
            }
            Part::Calendar { user, address } => self.calendars.restore(user, *address),
            Part::Epoch { epoch } => {
                let is_new = self.epoch.now == 0;
                self.epoch = LeaderEpoch { now: epoch, in_snapshot: epoch };
                is_new
            }
            Part::OldestOpen { ledger, number } => {
                self.forgetting.oldest_open.on_record.restore(ledger, number).is_none()
            }
            Part::Differing { rm, transactions } => {
                self.promises.differing.restore(rm, transactions).is_none()
            }
        };
        is_new.then_some(()).ok_or_else(|| ReplayError("a part is there twice".to_owned()))
    }

    fn restored(&mut self, _records: u64) -> Result<(), ReplayError> {
        self.attempts.opened =
            self.reservations.values().map(|known| u64::from(known.opened)).sum::<u64>()
                + self.forgetting.count.attempts;
        let unplaced = |id: &ReservationId| ReplayError(format!("{id} has no number"));
        let place = |id: &ReservationId| place_in(id.as_str()).ok_or_else(|| unplaced(id));
        let ids = self.reservations.keys().map(|id| Ok((place(id)?, id.clone())));
        self.order = ids.collect::<Result<BTreeMap<_, _>, ReplayError>>()?;
        let own = self.reservations.values().filter(|known| known.parent_transaction.is_none());
        self.by_request =
            own.map(|known| (known.ticket.request.clone(), known.id.clone())).collect();
        let foreign = self.transactions.iter().filter(|(txn, known)| {
            let named = txn.as_str().rsplit_once('/').map(|(id, _)| id);
            named != Some(known.reservation.as_str())
        });
        let foreign = foreign.map(|(txn, known)| (known.reservation.clone(), txn.clone()));
        for (id, txn) in foreign.collect::<Vec<_>>() {
            self.forgetting.note_foreign(id, txn);
        }
        self.stir();
        for id in self.order.clone().into_values() {
            self.recount(&id);
            self.note_rest(&id);
            if let Some(known) = self.reservations.get(&id) {
                self.live.set(known);
                self.usages.set(known);
            }
        }
        Ok(())
    }
}
