//! Giving up on an RM that does not acknowledge an end because it is gone, perhaps for good.
//!
//! The end of a reservation waits for every RM: the reservation stays "terminating" as long as one of them does
//! not answer. An operator who knows that the RM is gone can give up on it, with a reason. That is recorded
//! first ([`CoordinatorRecord::GaveUp`]). From then on the RM counts as having answered, so the reservation can
//! end. The reservation then shows which RM may still have it booked, and until when. The Release is not given
//! up. It joins the releases that belong to no reservation ([`repair`](super::repair)), and is sent, also after
//! restarts, until the RM acknowledges it. The acknowledgement is recorded, too.
//!
//! Only an end can be given up. A Commit is wanted until the user has released the reservation. What belongs to
//! a parent coordinator only the parent may end (I21).
//!
//! Left out: who may ask, which the shell decides. Source: docs/adr/0033-giving-up-on-an-rm.md.

use std::collections::{BTreeMap, BTreeSet};

use coalloc_common::{Now, ReservationId, RmName, Time, TransactionId, UserName, limits};

use super::record::{CoordinatorRecord, stamped};
use super::reservation::{GivenUp, State};
use super::transaction::{Transaction, TransactionGoal};
use super::{Coordinator, Reply, StepOutput};
use crate::core::ReplayError;
use crate::message::Token;

/// Who gives up on an RM or has something released there, and why.
#[derive(Debug)]
pub(super) struct Operator {
    pub(super) by: UserName,
    pub(super) why: String,
}

/// For which reservations an operator gives up on an RM.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum OfWhat {
    /// For this one.
    Reservation(ReservationId),
    /// For every reservation whose end the RM has not acknowledged.
    All,
}

/// For which reservations an RM was given up on.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct GaveUpOn {
    /// The reservations, also one for which the RM was given up on before.
    pub reservations: Vec<ReservationId>,
    /// With [`OfWhat::All`]: how many further reservations there are. One step takes at most
    /// [`limits::GIVE_UP_MAX`]; the next call takes the next ones.
    pub more: usize,
    /// With [`OfWhat::All`]: how many reservations were left out, because something else than an end is wanted
    /// of the RM there, or because they belong to a parent coordinator.
    pub wanted: usize,
}

/// The answer to [`Repair::GiveUp`](super::Repair::GiveUp).
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum GiveUpReply {
    /// It is recorded, for these reservations.
    GaveUp(GaveUpOn),
    /// It is refused.
    NotGivenUp(NotGivenUp),
    /// There is no reservation of that id.
    Unknown,
}

/// Why an RM is not given up on for a reservation. Nothing was recorded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NotGivenUp {
    /// The RM takes no part in the reservation. These RMs do, and have not acknowledged its end.
    NoPart(Vec<RmName>),
    /// The RM has no end of it to acknowledge. These RMs have.
    OwesNothing(Vec<RmName>),
    /// What is wanted of the RM is not an end, or the RM has booked the current version. The reservation must
    /// be released first.
    Wanted,
    /// It belongs to a parent coordinator, and only the parent may end it (I21).
    OfParent,
}

/// What an RM has not acknowledged yet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Owed {
    /// How many transactions wait for the RM to acknowledge a decision or a release.
    pub decisions: usize,
    /// How many releases the RM is still sent although no transaction waits for them: it was given up on, or
    /// what it has belongs to no reservation.
    pub releases: usize,
}

/// Does the transaction want an end of its RMs?
const fn ends(txn: &Transaction) -> bool {
    matches!(txn.goal, TransactionGoal::Abort | TransactionGoal::Release)
}

impl Coordinator {
    /// What each RM has not acknowledged. A Hold without an answer does not count: the RM owes nothing.
    #[must_use]
    pub fn owed(&self) -> BTreeMap<RmName, Owed> {
        let mut owed: BTreeMap<RmName, Owed> = BTreeMap::new();
        let unfinished = self.alarms.iter().filter_map(|(_, id)| self.transactions.get(id));
        for txn in unfinished.filter(|txn| txn.is_decided()) {
            for rm in txn.silent() {
                owed.entry(rm.clone()).or_default().decisions += 1;
            }
        }
        for rm in self.disowning.rms() {
            owed.entry(rm.clone()).or_default().releases += 1;
        }
        owed
    }

    pub(super) fn give_up(
        &mut self,
        rm: &RmName,
        of: &OfWhat,
        operator: Operator,
        token: Token<GiveUpReply>,
        now: Now,
        out: &mut StepOutput,
    ) {
        let (gave_up, ended) = match of {
            OfWhat::All => self.all_ends(rm),
            OfWhat::Reservation(id) if !self.reservations.contains_key(id) => {
                return out.reply(Reply::GiveUp(token, GiveUpReply::Unknown));
            }
            OfWhat::Reservation(id) => match self.ends_of(id, rm) {
                Ok(ended) => {
                    let reservations = vec![id.clone()];
                    (GaveUpOn { reservations, ..GaveUpOn::default() }, ended)
                }
                Err(why_not) => {
                    return out.reply(Reply::GiveUp(token, GiveUpReply::NotGivenUp(why_not)));
                }
            },
        };
        for txn in ended {
            let until = self.transactions.get(&txn).and_then(|txn| txn.wanted_until(rm));
            let record = CoordinatorRecord::GaveUp {
                txn: txn.clone(),
                rm: rm.clone(),
                by: operator.by.clone(),
                why: operator.why.clone(),
                until,
                state: stamped::STATE,
                version: stamped::VERSION,
                active: stamped::ACTIVE,
                at: now,
            };
            self.record(record, out);
            self.finish_or_go_on(&txn, now, out);
        }
        self.disown_due(now, out);
        out.reply(Reply::GiveUp(token, GiveUpReply::GaveUp(gave_up)));
    }

    /// The transactions of a reservation whose end this RM has not acknowledged; empty if it was given up on
    /// before.
    fn ends_of(&self, id: &ReservationId, rm: &RmName) -> Result<Vec<TransactionId>, NotGivenUp> {
        let known = self.reservations.get(id);
        if known.is_some_and(|known| known.parent_transaction.is_some()) {
            return Err(NotGivenUp::OfParent);
        }
        let owing = || {
            let unfinished = self.attempts_of(id).filter(|(_, txn)| !txn.is_done() && ends(txn));
            let owing: BTreeSet<&RmName> = unfinished.flat_map(|(_, txn)| txn.silent()).collect();
            owing.into_iter().cloned().collect()
        };
        if !self.attempts_of(id).any(|(_, txn)| txn.has_party(rm)) {
            return Err(NotGivenUp::NoPart(owing()));
        }
        let silent = |txn: &Transaction| !txn.is_done() && txn.silent().any(|silent| silent == rm);
        let (ended, wanted): (Vec<_>, Vec<_>) =
            self.attempts_of(id).filter(|(_, txn)| silent(txn)).partition(|(_, txn)| ends(txn));
        // A change that is being mended is wanted, even while one attempt to mend ends.
        if !wanted.is_empty() || self.mendings.open.contains_key(id) {
            return Err(NotGivenUp::Wanted);
        }
        let before = known.is_some_and(|known| known.given_up.iter().any(|one| one.rm == *rm));
        let stands = known.is_some_and(|known| {
            !matches!(known.state, State::Aborting | State::Terminating) && !known.is_over()
        });
        match ended.is_empty() && !before {
            true if stands => Err(NotGivenUp::Wanted),
            true => Err(NotGivenUp::OwesNothing(owing())),
            false => Ok(ended.into_iter().map(|(txn, _)| txn.clone()).collect()),
        }
    }

    /// The same for every reservation, up to as many as one step takes.
    fn all_ends(&self, rm: &RmName) -> (GaveUpOn, Vec<TransactionId>) {
        let unfinished = self.alarms.iter().filter_map(|(_, id)| self.transactions.get(id));
        let owing = unfinished.filter(|txn| txn.silent().any(|silent| silent == rm));
        let owing: BTreeSet<&ReservationId> = owing.map(|txn| &txn.reservation).collect();
        let (mut gave_up, mut all) = (GaveUpOn::default(), Vec::new());
        for id in owing {
            match self.ends_of(id, rm) {
                Ok(_) if gave_up.reservations.len() == limits::GIVE_UP_MAX => gave_up.more += 1,
                Ok(mut ended) => {
                    gave_up.reservations.push(id.clone());
                    all.append(&mut ended);
                }
                Err(_) => gave_up.wanted += 1,
            }
        }
        (gave_up, all)
    }

    pub(super) fn fold_gave_up(
        &mut self,
        rm: &RmName,
        txn: &TransactionId,
        operator: Operator,
        until: Option<Time>,
        at: Now,
    ) -> Result<(), ReplayError> {
        let transaction = self.transaction_mut(txn)?;
        if transaction.is_done() || !ends(transaction) || !transaction.has_party(rm) {
            return Err(ReplayError(format!(
                "{rm} was given up on for {txn}, whose end it does not owe"
            )));
        }
        transaction.give_up_on(rm);
        let id = transaction.reservation.clone();
        self.reservation_mut(&id)?.given_up.push(GivenUp {
            rm: rm.clone(),
            txn: txn.clone(),
            by: operator.by,
            why: operator.why,
            at: at.wall,
            until,
            ended: None,
        });
        self.fold_disowned(rm, txn);
        Ok(())
    }

    /// An RM has acknowledged a Release. If it was given up on for that transaction, this notes when.
    pub(super) fn fold_given_up_ended(&mut self, rm: &RmName, txn: &TransactionId, at: Now) {
        let id = self.transactions.get(txn).map(|txn| txn.reservation.clone());
        let known = id.and_then(|id| self.reservations.get_mut(&id));
        let given_up = known.into_iter().flat_map(|known| &mut known.given_up);
        for one in given_up.filter(|one| one.rm == *rm && one.txn == *txn) {
            one.ended = Some(at.wall);
        }
    }

    /// Checks that every RM which was given up on is still sent Release.
    pub(super) fn check_given_up(&self) -> Result<(), String> {
        let all = self.reservations.values().flat_map(|known| &known.given_up);
        let open = all.filter(|one| one.ended.is_none());
        match open.into_iter().find(|one| !self.is_disowning(&one.rm, &one.txn)) {
            None => Ok(()),
            Some(GivenUp { rm, txn, .. }) => {
                Err(format!("I22: {rm} was given up on for {txn}, but is not told to end it"))
            }
        }
    }
}
