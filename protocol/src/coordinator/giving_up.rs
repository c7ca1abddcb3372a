//! Giving up on an RM that does not acknowledge the end of what it has, because it is gone, perhaps for good.
//!
//! What ends waits for every RM: a reservation stays "terminating" for as long as one of them does not answer. An
//! operator who knows better says so, with a reason. That is recorded first ([`CoordinatorRecord::GaveUp`]);
//! from then on the RM counts as having answered, so that the reservation comes to its end, and whoever looks at it
//! is told which RM may still have it booked, and until when. The Release itself is not given up: it joins those of
//! what is nobody's ([`repair`](super::repair)), and is sent, across restarts, until the RM acknowledges it. That is
//! recorded, too.
//!
//! Only an end can be given up. A Commit is wanted until the user has released the reservation, and what a
//! coordinator above has here only that one may end (I21).
//!
//! Left out: who may ask, which is the shell's. Source: docs/adr/0033-giving-up-on-an-rm.md.

use std::collections::{BTreeMap, BTreeSet};

use coalloc_common::{Now, ReservationId, RmName, Time, TransactionId, UserName, limits};

use super::record::CoordinatorRecord;
use super::reservation::State;
use super::transaction::{Transaction, TransactionGoal};
use super::{Coordinator, Reply, StepOutput};
use crate::core::ReplayError;
use crate::message::Token;

/// An RM that was given up on, for one transaction of a reservation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GivenUp {
    /// Which RM.
    pub rm: RmName,
    /// It was to end this.
    pub txn: TransactionId,
    /// Who wanted it.
    pub by: UserName,
    /// And why.
    pub why: String,
    /// When.
    pub at: Time,
    /// It may have it booked until then; `None` when it was to have nothing of it.
    pub until: Option<Time>,
    /// When it has acknowledged the end after all.
    pub ended: Option<Time>,
}

/// Of what an operator gives an RM up.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum OfWhat {
    /// Of one reservation.
    Reservation(ReservationId),
    /// Of every reservation whose end it owes.
    All,
}

/// What giving up came to.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct GaveUpOn {
    /// Of which reservations; also when it was given up of one of them before.
    pub reservations: Vec<ReservationId>,
    /// Of all: further ones, more than one step takes. Asked for again, they are next.
    pub more: usize,
    /// Of all: reservations at which something else than an end is wanted of the RM, or a coordinator above decides.
    pub wanted: usize,
}

/// What [`Repair::GiveUp`](super::Repair::GiveUp) is answered with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum GiveUpReply {
    /// It is recorded.
    GaveUp(GaveUpOn),
    /// It is not, and why.
    NotGivenUp(NotGivenUp),
    /// There is no reservation of that id.
    Unknown,
}

/// Why an RM is not given up of a reservation. Nothing was recorded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NotGivenUp {
    /// It takes no part in it. These do, and owe its end.
    NoPart(Vec<RmName>),
    /// It owes no end of it. These do.
    OwesNothing(Vec<RmName>),
    /// What is wanted of it is not an end, or it has booked what stands: the reservation is to be released first.
    Wanted,
    /// A coordinator above has it, and only that one may end it (I21).
    OfParent,
}

/// What an RM has not acknowledged yet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Owed {
    /// Transactions whose decision it has not acknowledged, and somebody waits for that.
    pub decisions: usize,
    /// Releases that it is to be told all the same: it was given up on, or what it has is nobody's.
    pub releases: usize,
}

/// Is an end wanted of the RMs of a transaction?
const fn ends(txn: &Transaction) -> bool {
    matches!(txn.goal, TransactionGoal::Abort | TransactionGoal::Release)
}

impl Coordinator {
    /// What each RM has not acknowledged. Holds are none of it: who does not answer one owes nothing.
    #[must_use]
    pub fn owed(&self) -> BTreeMap<RmName, Owed> {
        let mut owed: BTreeMap<RmName, Owed> = BTreeMap::new();
        let unfinished = self.alarms.iter().filter_map(|(_, id)| self.transactions.get(id));
        for txn in unfinished
            .filter(|txn| !matches!(txn.goal, TransactionGoal::Hold | TransactionGoal::Prepared))
        {
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
        (rm, of): (&RmName, &OfWhat),
        (by, why): (&UserName, &str),
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
                by: by.clone(),
                why: why.to_owned(),
                until,
                state: None,
                version: None,
                at: now,
            };
            self.record(record, out);
            self.finish_or_go_on(&txn, now, out);
        }
        self.disown_due(now, out);
        out.reply(Reply::GiveUp(token, GiveUpReply::GaveUp(gave_up)));
    }

    /// The transactions of a reservation whose end an RM owes; none when it was given up of it before.
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
        // What is mended is wanted, also while one attempt at that ends.
        if !wanted.is_empty() || self.mending.contains_key(id) {
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

    /// The same of every reservation, as many as one step takes.
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
        (rm, txn): (&RmName, &TransactionId),
        (by, why): (&UserName, &str),
        until: Option<Time>,
        at: Now,
    ) -> Result<(), ReplayError> {
        let transaction = self.transaction_mut(txn)?;
        if transaction.is_done() || !ends(transaction) || !transaction.has_party(rm) {
            return Err(ReplayError(format!(
                "{rm} is given up of {txn}, whose end it does not owe"
            )));
        }
        transaction.acknowledge(rm);
        let id = transaction.reservation.clone();
        self.reservation_mut(&id)?.given_up.push(GivenUp {
            rm: rm.clone(),
            txn: txn.clone(),
            by: by.clone(),
            why: why.to_owned(),
            at: at.wall,
            until,
            ended: None,
        });
        self.fold_disowned(rm, txn);
        Ok(())
    }

    /// An RM has acknowledged a Release after it was given up on, if it was.
    pub(super) fn fold_given_up_ended(&mut self, rm: &RmName, txn: &TransactionId, at: Now) {
        let id = self.transactions.get(txn).map(|txn| txn.reservation.clone());
        let known = id.and_then(|id| self.reservations.get_mut(&id));
        let given_up = known.into_iter().flat_map(|known| &mut known.given_up);
        for one in given_up.filter(|one| one.rm == *rm && one.txn == *txn) {
            one.ended = Some(at.wall);
        }
    }

    /// Whoever was given up on is still told.
    pub(super) fn check_given_up(&self) -> Result<(), String> {
        let all = self.reservations.values().flat_map(|known| &known.given_up);
        let open = all.filter(|one| one.ended.is_none());
        match open.into_iter().find(|one| !self.is_disowning(&one.rm, &one.txn)) {
            None => Ok(()),
            Some(GivenUp { rm, txn, .. }) => {
                Err(format!("I22: {rm} was given up of {txn}, and is not told to end it"))
            }
        }
    }
}
