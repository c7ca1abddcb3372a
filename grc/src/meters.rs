//! The metrics of the coordinator's shell for Prometheus: which RMs answer, how old the knowledge of each RM is, and
//! which messages had to be sent again.
//!
//! Left out: the metrics themselves, which are in [`coalloc_net::metrics`].

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use coalloc_common::{RmName, TransactionId, limits};
use coalloc_net::metrics::{grc, scrape, seconds, tasks};
use coalloc_proto::v1;
use coalloc_protocol::coordinator::{Coordinator, MessageKind, Owed};
use coalloc_protocol::message::Delivery;

/// When each RM last answered an availability query.
static TOLD: Mutex<BTreeMap<RmName, Instant>> = Mutex::new(BTreeMap::new());

/// Counts an availability query to an RM that was sent at `begun`, and whether the RM answered.
pub fn queried(rm: &RmName, begun: Instant, answered: bool) {
    let grc = grc();
    grc.query_seconds.observe(seconds(begun.elapsed()));
    let outcome = if answered { "answered" } else { "failed" };
    grc.queries.with([rm.as_str(), outcome]).inc();
    if answered {
        let mut told = TOLD.lock().unwrap_or_else(PoisonError::into_inner);
        told.insert(rm.clone(), Instant::now());
    }
}

/// What a scrape reads from the coordinator core.
#[derive(Debug)]
pub struct CoreFigures {
    /// What each RM has not acknowledged.
    owed: BTreeMap<RmName, Owed>,
    /// Reservations that the coordinator remembers.
    reservations: usize,
}

impl CoreFigures {
    /// The figures of a coordinator now.
    #[must_use]
    pub fn of(core: &Coordinator) -> Self {
        Self { owed: core.owed(), reservations: core.reservations_remembered() }
    }
}

/// At each scrape, reads which RMs answer, how old the knowledge of each is, and the figures of the core.
pub fn reader<F>(
    statuses: impl Fn() -> Vec<v1::ResourceManagerStatus> + Send + Sync + 'static,
    figures: impl Fn() -> F + Send + Sync + 'static,
) -> scrape::Reader
where
    F: Future<Output = Option<CoreFigures>> + Send + 'static,
{
    // From the start, so that a first event is seen as a step from zero.
    let first = statuses();
    // Every label exists from the start, so that the first event shows as a step from zero.
    for status in &first {
        for kind in
            [MessageKind::Hold, MessageKind::Commit, MessageKind::Abort, MessageKind::Release]
        {
            grc().messages.with([&status.name, word(kind), "answered"]);
            grc().retried.with([&status.name, word(kind)]);
        }
        grc().queries.with([&status.name, "answered"]);
        tasks().updates.with([&status.name, "snapshot"]);
        tasks().update_bytes.with([&status.name]);
        tasks().ignored.with([&status.name, "gap"]);
        grc().given_up.with([&status.name]);
    }
    // The configured RMs, and every other RM that something was ever owed to: its gauge must return to zero.
    let known: Arc<Mutex<BTreeSet<RmName>>> =
        Arc::new(Mutex::new(first.iter().map(|one| RmName::composed(&*one.name)).collect()));
    scrape::reader(move || {
        let grc = grc();
        for status in statuses() {
            grc.reachable.with([&status.name]).set(i64::from(status.reachable));
            grc.foreign_names.with([&status.name]).set(i64::from(status.foreign_names_total));
        }
        for (rm, told) in &*TOLD.lock().unwrap_or_else(PoisonError::into_inner) {
            grc.picture_age.with([rm.as_str()]).set(seconds(told.elapsed()));
        }
        let (figures, known) = (figures(), Arc::clone(&known));
        async move {
            // A coordinator that is stopping or too busy leaves the figures of the previous scrape.
            let Some(CoreFigures { owed, reservations }) = figures.await else { return };
            grc.remembered.set(i64::try_from(reservations).unwrap_or(i64::MAX));
            let mut known = known.lock().unwrap_or_else(PoisonError::into_inner);
            known.extend(owed.keys().cloned());
            for rm in &*known {
                let Owed { decisions, releases } = owed.get(rm).copied().unwrap_or_default();
                for (kind, count) in [("decision", decisions), ("release", releases)] {
                    let count = i64::try_from(count).unwrap_or(i64::MAX);
                    grc.owed.with([rm.as_str(), kind]).set(count);
                }
            }
        }
    })
}

/// The messages that were lost. The next message with the same RM, transaction and kind is a retry.
#[derive(Debug, Default)]
pub struct Messages {
    lost: Mutex<BTreeSet<(TransactionId, RmName, &'static str)>>,
}

impl Messages {
    /// Counts a message that is about to be sent, as a retry if the same message was lost before.
    pub fn sent(&self, rm: &RmName, txn: &TransactionId, kind: MessageKind) {
        let again = (txn.clone(), rm.clone(), word(kind));
        if self.lost().remove(&again) {
            grc().retried.with([rm.as_str(), word(kind)]).inc();
        }
    }

    /// Counts how a message that was sent at `begun` ended, and how long it took.
    pub fn ended(
        &self,
        rm: &RmName,
        txn: &TransactionId,
        kind: MessageKind,
        begun: Instant,
        delivery: &Delivery,
    ) {
        let outcome = match delivery {
            Delivery::Answered(_) => "answered",
            Delivery::Rejected(_) => "rejected",
            Delivery::Lost => "lost",
        };
        grc().messages.with([rm.as_str(), word(kind), outcome]).inc();
        grc().message_seconds.with([word(kind)]).observe(seconds(begun.elapsed()));
        let mut lost = self.lost();
        if *delivery == Delivery::Lost && lost.len() < limits::LOST_COUNTED_MAX {
            lost.insert((txn.clone(), rm.clone(), word(kind)));
        }
    }

    fn lost(&self) -> std::sync::MutexGuard<'_, BTreeSet<(TransactionId, RmName, &'static str)>> {
        self.lost.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

const fn word(kind: MessageKind) -> &'static str {
    match kind {
        MessageKind::Hold => "hold",
        MessageKind::Commit => "commit",
        MessageKind::Abort => "abort",
        MessageKind::Release => "release",
    }
}

/// The full name of the RPC that carries a message of this kind.
#[must_use]
pub const fn method(kind: MessageKind) -> &'static str {
    match kind {
        MessageKind::Hold => "coalloc.v1.ResourceManager/Hold",
        MessageKind::Commit => "coalloc.v1.ResourceManager/Commit",
        MessageKind::Abort => "coalloc.v1.ResourceManager/Abort",
        MessageKind::Release => "coalloc.v1.ResourceManager/Release",
    }
}

#[cfg(test)]
mod tests {
    use coalloc_protocol::message::Answer;

    use super::*;

    #[test]
    fn only_what_was_lost_before_counts_as_sent_again() {
        let (messages, begun) = (Messages::default(), Instant::now());
        let (rm, txn) = (RmName::composed("crm-X"), TransactionId::composed("grc-t-1/1"));
        let retried = grc().retried.with(["crm-X", "commit"]);
        let kind = MessageKind::Commit;
        for (delivery, again) in
            [(Delivery::Lost, 0), (Delivery::Lost, 1), (Delivery::Answered(Answer::Done), 2)]
        {
            messages.sent(&rm, &txn, kind);
            assert_eq!(retried.get(), again);
            messages.ended(&rm, &txn, kind, begun, &delivery);
        }
        messages.sent(&rm, &txn, kind);
        assert_eq!(retried.get(), 2, "it was answered: this is another one");
        assert_eq!(grc().messages.with(["crm-X", "commit", "lost"]).get(), 2);
    }
}
