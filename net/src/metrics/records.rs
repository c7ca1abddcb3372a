//! What cores decide, counted where their records become durable: no counter counts more than the ledger has.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use coalloc_common::{Refusal, TransactionId};
use coalloc_protocol::coordinator::{CoordinatorRecord, MendTarget};
use coalloc_protocol::message::Decision;
use coalloc_protocol::participant::ParticipantRecord;

use super::{grc, rm};
use crate::traces;

/// A record that knows which counters it raises.
pub trait Observed {
    /// Counts the record. It is durable, written by this process or an earlier one.
    fn count(&self);

    /// Notes in the trace of its request that the record was made durable just now.
    fn trace(&self, _: &traces::SpanTimes) {}
}

impl Observed for ParticipantRecord {
    fn count(&self) {
        let rm = rm();
        match self {
            Self::Opened { .. }
            | Self::Moved { .. }
            | Self::LeaderChanged { .. }
            | Self::Claimed { .. }
            | Self::Equipped { .. } => {}
            Self::Held { .. } => {
                rm.holds.inc();
            }
            Self::Refused { refusal, .. } | Self::ClaimRefused { refusal, .. } => {
                rm.refusals.with([refusal.reason.word()]).inc();
            }
            Self::Booked { .. } => {
                rm.bookings.inc();
            }
            Self::Ended { ending, .. } => {
                rm.ended.with([ending.word()]).inc();
            }
            Self::Forgotten { transactions, .. } => {
                rm.forgotten.inc_by(transactions.len() as u64);
            }
        }
    }
}

/// The transactions that are not finished, and whether they will end as confirmed. There are as many as are
/// in flight.
static OPEN: Mutex<BTreeMap<TransactionId, bool>> = Mutex::new(BTreeMap::new());

/// Sets (`Some`) or removes (`None`) an open transaction. Returns what was known of it.
fn open(txn: &TransactionId, confirms: Option<bool>) -> Option<bool> {
    let mut open = OPEN.lock().unwrap_or_else(PoisonError::into_inner);
    let was = match confirms {
        Some(confirms) => open.insert(txn.clone(), confirms),
        None => open.remove(txn),
    };
    grc().unfinished.set(open.len() as i64);
    was
}

/// Those open transactions that change a reservation which was confirmed before, with the outcome of the
/// change once they are booked everywhere.
static CHANGES: Mutex<BTreeMap<TransactionId, &'static str>> = Mutex::new(BTreeMap::new());

fn changes<T>(look: impl FnOnce(&mut BTreeMap<TransactionId, &'static str>) -> T) -> T {
    look(&mut CHANGES.lock().unwrap_or_else(PoisonError::into_inner))
}

fn failed(outcome: &str, refusal: &Refusal) {
    grc().reservations.with([outcome]).inc();
    grc().refusals.with([refusal.reason.word()]).inc();
}

impl Observed for CoordinatorRecord {
    fn count(&self) {
        let grc = grc();
        match self {
            Self::Opened { .. } | Self::ParentHoldOpened { .. } => {
                grc.requests.inc();
            }
            Self::Refused { refusal, .. } => {
                grc.requests.inc();
                failed("failed", refusal);
            }
            Self::Prepared { .. }
            | Self::ParentTombstone { .. }
            | Self::ReplacedForParent { .. } => {}
            Self::Disowned { .. } | Self::DisownEnded { .. } | Self::Differs { .. } => {}
            Self::Superseded { .. } | Self::Settled { .. } => {}
            Self::LeaderElected { .. }
            | Self::ParentLeaderChanged { .. }
            | Self::CalendarChanged { .. } => {}
            Self::Forgotten { reservations, .. } => {
                grc.forgotten.inc_by(reservations.len() as u64);
            }
            Self::RetentionEnded { txn, .. } => {
                open(txn, Some(false));
            }
            Self::UsageChanged { usage, .. } => {
                grc.usages.with([usage.phase.word()]).inc();
            }
            Self::GaveUp { rm, .. } => {
                grc.given_up.with([rm.as_str()]).inc();
            }
            Self::Concluded { refusal, .. } => failed("failed", refusal),
            Self::ChangeOpened { .. } => {}
            Self::Reported { .. } => {
                grc.reports.inc();
            }
            Self::ChangeRefused { .. } => {
                grc.changes.with(["refused"]).inc();
            }
            Self::Intent { txn, replaces, mends, .. } => {
                grc.attempts.inc();
                if replaces.is_some() {
                    let outcome = if *mends == Some(MendTarget::Old) { "refused" } else { "done" };
                    changes(|changes| changes.insert(txn.clone(), outcome));
                }
                open(txn, Some(false));
            }
            Self::Decided { txn, decision: Decision::Commit, .. } => {
                open(txn, Some(true));
            }
            Self::Decided { decision: Decision::Abort, refusal, .. } => {
                let reason = refusal.as_ref().map_or("none", |refusal| refusal.reason.word());
                grc.attempt_refusals.with([reason]).inc();
            }
            Self::Mixed { txn, refusal, .. } => {
                open(txn, Some(false));
                failed("mixed", refusal);
            }
            Self::Split { txn, .. } => {
                open(txn, None);
                changes(|changes| changes.remove(txn));
                grc.changes.with(["split"]).inc();
            }
            Self::Releasing { txn, .. } => {
                // The transaction has to be acknowledged (once more). If it was not confirmed yet, it never
                // will be.
                open(txn, Some(false));
                // One release ends both a decided change and the version that it replaces.
                if !changes(|changes| changes.contains_key(txn)) {
                    grc.releases.inc();
                }
            }
            Self::Finished { txn, .. } => {
                let change = changes(|changes| changes.remove(txn));
                if open(txn, None) == Some(true) {
                    match change {
                        Some(outcome) => grc.changes.with([outcome]).inc(),
                        None => grc.reservations.with(["confirmed"]).inc(),
                    };
                }
            }
        }
    }

    fn trace(&self, sync: &traces::SpanTimes) {
        match self {
            Self::Opened { reservation, ticket, .. } => {
                traces::opened(&ticket.request, reservation);
                traces::synced(reservation, "opened", None, sync);
            }
            Self::Refused { reservation, ticket, .. } => {
                traces::opened(&ticket.request, reservation);
                traces::synced(reservation, "refused", None, sync);
            }
            Self::Concluded { reservation, .. } => {
                traces::synced(reservation, "concluded", None, sync);
            }
            Self::ChangeOpened { ticket, .. } => {
                traces::synced(&ticket.reservation, "change_opened", None, sync);
            }
            Self::Reported { reservation, .. } => {
                traces::synced(reservation, "reported", None, sync);
            }
            Self::ChangeRefused { reservation, .. } => {
                traces::synced(reservation, "change_refused", None, sync);
            }
            Self::Intent { txn, reservation, .. } => {
                traces::synced(reservation, "intent", Some(txn), sync);
            }
            // A hold of a parent coordinator is traced only within its call: the request is the parent's.
            Self::ParentHoldOpened { .. }
            | Self::ParentTombstone { .. }
            | Self::ReplacedForParent { .. }
            | Self::Superseded { .. } => {}
            // These belong to no request at all.
            Self::Disowned { .. }
            | Self::DisownEnded { .. }
            | Self::Differs { .. }
            | Self::LeaderElected { .. }
            | Self::ParentLeaderChanged { .. }
            | Self::CalendarChanged { .. }
            | Self::Forgotten { .. } => {}
            Self::RetentionEnded { txn, .. } => traces::synced_of(txn, "retention_ended", sync),
            // This belongs to no call.
            Self::UsageChanged { .. } => {}
            Self::GaveUp { txn, .. } => traces::synced_of(txn, "gave_up", sync),
            Self::Prepared { txn, .. } => traces::synced_of(txn, "prepared", sync),
            Self::Decided { txn, .. } => traces::synced_of(txn, "decided", sync),
            Self::Mixed { txn, .. } => traces::synced_of(txn, "mixed", sync),
            Self::Split { txn, .. } => traces::synced_of(txn, "split", sync),
            Self::Releasing { txn, .. } => traces::synced_of(txn, "releasing", sync),
            Self::Finished { txn, .. } => traces::synced_of(txn, "finished", sync),
            Self::Settled { txn, .. } => traces::synced_of(txn, "settled", sync),
        }
    }
}

#[cfg(test)]
mod tests {
    use coalloc_common::{BootTime, Now, Reason, RmName, Time, UserName};
    use coalloc_protocol::coordinator::State;

    use super::*;

    fn at() -> Now {
        Now { wall: Time::from_us(0), boot: BootTime::from_us(0) }
    }

    fn decided(txn: &str) -> CoordinatorRecord {
        let txn = TransactionId::composed(txn);
        CoordinatorRecord::Decided {
            txn,
            decision: Decision::Commit,
            refusal: None,
            state: State::Confirmed,
            expires_in: None,
            version: 1,
            active: false,
            at: at(),
            servers: BTreeMap::new(),
        }
    }

    fn finished(txn: &str) -> CoordinatorRecord {
        CoordinatorRecord::Finished {
            txn: TransactionId::composed(txn),
            state: State::Confirmed,
            version: 1,
            active: false,
            at: at(),
        }
    }

    #[test]
    fn a_reservation_counts_as_confirmed_once_and_only_if_it_was() {
        let by = UserName::composed("u");
        let release = |txn: &str, by: &UserName| CoordinatorRecord::Releasing {
            txn: TransactionId::composed(txn),
            by: by.clone(),
            version: 1,
            at: at(),
        };
        let mixed = CoordinatorRecord::Mixed {
            txn: TransactionId::composed("m/1"),
            rm: RmName::composed("r"),
            refusal: Refusal::new(Reason::Expired, "too late"),
            at: at(),
        };
        let records = [
            // Confirmed, then released.
            decided("a/1"),
            finished("a/1"),
            release("a/1", &by),
            finished("a/1"),
            // Released before all had acknowledged: never confirmed.
            decided("b/1"),
            release("b/1", &by),
            finished("b/1"),
            // Mixed.
            decided("m/1"),
            mixed,
            finished("m/1"),
            // Still open.
            decided("c/1"),
        ];
        for record in &records {
            record.count();
        }
        let outcome = |outcome| grc().reservations.with([outcome]).get();
        assert_eq!((outcome("confirmed"), outcome("mixed"), outcome("failed")), (1, 1, 0));
        assert_eq!(grc().refusals.with(["expired"]).get(), 1);
        assert_eq!((grc().releases.get(), grc().unfinished.get()), (2, 1));
    }

    #[test]
    fn reasons_are_named_in_metrics_as_in_ledgers() {
        for reason in [Reason::InsufficientCapacity, Reason::NotHeld, Reason::ServiceLevel] {
            assert_eq!(serde_json::to_value(reason).unwrap(), reason.word());
        }
    }
}
