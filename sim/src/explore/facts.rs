//! What distinguishes the states of a core, and the facts that its log adds.

use std::collections::BTreeMap;
use std::fmt::{self, Write};

use coalloc_common::{RmName, Segment, TransactionId};
use coalloc_protocol::coordinator::{Coordinator, CoordinatorRecord, State};
use coalloc_protocol::message::Decision;
use coalloc_protocol::participant::{Participant, ParticipantRecord};

use super::cores::Explored;

/// The facts from a coordinator's log.
#[derive(Debug, Clone, Default)]
pub(super) struct Decisions {
    /// The segments that each attempt wants at each RM.
    pub(super) plans: BTreeMap<TransactionId, BTreeMap<RmName, Vec<Segment>>>,
    /// The transactions with a commit decision, in the order of the decisions.
    pub(super) commits: Vec<TransactionId>,
    /// The reservation was confirmed at some time.
    pub(super) confirmed: bool,
    /// The user has released the reservation.
    pub(super) released: bool,
    /// What had a commit decision was ended again, by its user or as a mixed outcome.
    pub(super) undone: bool,
}

impl Explored for Coordinator {
    type LogFacts = Decisions;

    fn show(&self, to: &mut impl Write) -> fmt::Result {
        write!(to, "{self:?}")
    }

    fn learn(facts: &mut Decisions, record: &CoordinatorRecord) {
        match record {
            CoordinatorRecord::Intent { txn, candidate, .. } => {
                facts.plans.insert(txn.clone(), candidate.segments.clone());
            }
            CoordinatorRecord::Decided { txn, decision: Decision::Commit, .. } => {
                facts.commits.push(txn.clone());
            }
            CoordinatorRecord::Finished { state: State::Confirmed, .. } => {
                facts.confirmed = true;
            }
            CoordinatorRecord::Releasing { .. } => (facts.released, facts.undone) = (true, true),
            CoordinatorRecord::Mixed { .. } => facts.undone = true,
            _ => {}
        }
    }
}

impl Explored for Participant {
    /// The entries already show everything.
    type LogFacts = ();

    /// Timetables and timers follow from the entries (I12), and the list of recent changes decides nothing.
    fn show(&self, to: &mut impl Write) -> fmt::Result {
        write!(to, "{:?}", self.entries())
    }

    fn learn(_: &mut (), _: &ParticipantRecord) {}
}
