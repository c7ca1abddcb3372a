//! What tells one state of a core from another, and what its log has told.

use std::collections::BTreeMap;
use std::fmt::{self, Write};

use coalloc_common::{RmName, Segment, TransactionId};
use coalloc_protocol::coordinator::{Coordinator, CoordinatorRecord, State};
use coalloc_protocol::message::Decision;
use coalloc_protocol::participant::{Participant, ParticipantRecord};

use super::cores::Explored;

/// What a coordinator's log has told.
#[derive(Debug, Clone, Default)]
pub(super) struct Decisions {
    /// What each attempt wants of each RM.
    pub(super) plans: BTreeMap<TransactionId, BTreeMap<RmName, Vec<Segment>>>,
    /// What was decided to be booked, in this order.
    pub(super) commits: Vec<TransactionId>,
    /// The reservation was confirmed once.
    pub(super) confirmed: bool,
    /// Its user has ended it.
    pub(super) released: bool,
    /// What was decided is ended again, by its user or as a mixed outcome.
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
            CoordinatorRecord::Finished { state: Some(State::Confirmed), .. } => {
                facts.confirmed = true;
            }
            CoordinatorRecord::Releasing { .. } => (facts.released, facts.undone) = (true, true),
            CoordinatorRecord::Mixed { .. } => facts.undone = true,
            _ => {}
        }
    }
}

impl Explored for Participant {
    /// Its entries show all that there is.
    type LogFacts = ();

    /// Timetables and alarms follow from the entries (I12); what has changed lately decides nothing.
    fn show(&self, to: &mut impl Write) -> fmt::Result {
        write!(to, "{:?}", self.entries())
    }

    fn learn((): &mut (), _: &ParticipantRecord) {}
}
