//! A rogue with the stolen key of a coordinator that every resource manager believes (F14).
//!
//! It knows the transactions of all users. It forges messages of the honest coordinator and of resource managers, sends
//! messages in the stolen coordinator's own name about transactions of others, and calls what only users and operators
//! may. All of that must be denied. It also holds, books and ends what is the stolen coordinator's own, which it may.
//! Once the stolen key is revoked, nobody may answer it any more.
//!
//! Left out: floods (`tests/federation/identity`).

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use coalloc_cli::kit::rpc::{Coordinator, ResourceManager};
use coalloc_proto::v1::hold_response::Answer;
use coalloc_proto::{Timestamp, v1};
use tonic::{Code, Status};

use crate::clients::{Transactions, wanted};
use crate::faults::{Draws, FAULTS};
use crate::federation::{GRC, RMS};
use crate::identities::{Party, Protection, STOLEN};
use crate::machine::EPOCH_US;
use crate::trace::Trace;

/// How long after the revocation a connection may still be open.
const CUT_WITHIN: Duration = Duration::from_secs(1);
/// A call takes this long at most.
const PATIENCE: Duration = Duration::from_secs(4);

/// The rogue.
pub(crate) struct Rogue {
    protection: Protection,
    /// Its connections to the resource managers, which it keeps.
    managers: BTreeMap<&'static str, ResourceManager>,
    coordinator: Coordinator,
    draws: Draws,
    known: Transactions,
    trace: Trace,
    /// The number of the next transaction of its own.
    next: u64,
}

/// What the answer to a forged message may be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Owed {
    /// No, by the daemon's judgement of identities.
    Denial,
    /// No, in either way.
    Refusal,
    /// Anything.
    Anything,
}

/// What a daemon has answered.
#[derive(Debug)]
enum Reply {
    /// The message was taken, and has an effect.
    Done,
    /// The message was understood, and refused.
    Refused,
    /// The call has failed.
    Failed(Status),
}

impl Reply {
    fn of(answer: Result<Option<v1::Refusal>, Status>) -> Self {
        match answer {
            Ok(None) => Self::Done,
            Ok(Some(_)) => Self::Refused,
            Err(status) => Self::Failed(status),
        }
    }

    /// Has a daemon answered, and not only the network?
    fn is_answered(&self) -> bool {
        match self {
            Self::Done | Self::Refused => true,
            Self::Failed(status) => !matches!(
                status.code(),
                Code::Unavailable | Code::DeadlineExceeded | Code::Cancelled | Code::Unknown
            ),
        }
    }
}

impl Rogue {
    pub(crate) fn new(
        protection: &Protection,
        draws: Draws,
        known: &Transactions,
        trace: &Trace,
    ) -> Self {
        let manager = |name| (name, protection.manager(Party::Rogue, name));
        Self {
            protection: protection.clone(),
            managers: RMS.into_iter().map(manager).collect(),
            coordinator: protection.coordinator(Party::Rogue),
            draws,
            known: Arc::clone(known),
            trace: trace.clone(),
            next: 1,
        }
    }

    /// Sends messages as long as faults are made.
    pub(crate) async fn work(mut self) {
        while turmoil::sim_elapsed().unwrap_or_default() < FAULTS {
            tokio::time::sleep(self.draws.between(50, 800)).await;
            let rm = self.draws.one_of(&RMS);
            let known = self.known.lock().unwrap().clone();
            let foreign = known.get(self.draws.below(known.len().max(1) as u64) as usize).cloned();
            let foreign = foreign.unwrap_or_else(|| format!("{GRC}-00000000-1/1"));
            match self.draws.below(10) {
                0..=2 => self.forge(rm, GRC, &foreign, Owed::Denial).await,
                3..=5 => self.forge(rm, STOLEN, &foreign, Owed::Refusal).await,
                6 => self.replace(rm, &foreign).await,
                7 => self.ask_and_meddle(rm, &foreign).await,
                _ => {
                    let own = self.own(rm);
                    self.forge(rm, STOLEN, &own, Owed::Anything).await;
                }
            }
        }
    }

    /// A transaction of its own: a new one, or one that it has used. Each is at one resource manager only, because
    /// nobody makes the rogue book everywhere or nowhere.
    fn own(&mut self, rm: &str) -> String {
        let number = if self.draws.percent(40) {
            self.next += 1;
            self.next
        } else {
            1 + self.draws.below(self.next)
        };
        format!("{STOLEN}-{}-{number}/1", rm.replace('-', ""))
    }

    fn hold(&mut self, rm: &str, coordinator: &str, transaction: &str) -> v1::HoldRequest {
        let at = |seconds: i64| Timestamp { seconds: EPOCH_US / 1_000_000 + seconds, nanos: 0 };
        let resource = match rm {
            "crm-A" => "A",
            "crm-B" => "B",
            _ => "A-B",
        };
        let segment = v1::Segment {
            resource: resource.to_owned(),
            amount: 1,
            window: Some(v1::Window { start: Some(at(3_600)), end: Some(at(5_400)) }),
            ..v1::Segment::default()
        };
        v1::HoldRequest {
            transaction: transaction.to_owned(),
            coordinator: coordinator.to_owned(),
            user: "mallory".to_owned(),
            segments: vec![segment],
            one_way: self.draws.percent(20),
            ..v1::HoldRequest::default()
        }
    }

    /// Hold, Commit, Abort or Release of a transaction.
    async fn forge(&mut self, rm: &str, coordinator: &str, transaction: &str, owed: Owed) {
        let (transaction, coordinator) = (transaction.to_owned(), coordinator.to_owned());
        let resource_manager = rm.to_owned();
        let mut client = self.managers[rm].clone();
        match self.draws.below(4) {
            0 => {
                let hold = self.hold(rm, &coordinator, &transaction);
                self.send("Hold", owed, async { held(client.hold(hold).await) }).await;
            }
            1 => {
                let wire = v1::CommitRequest {
                    transaction,
                    coordinator,
                    resource_manager,
                    ..Default::default()
                };
                let answer = async { client.commit(wire).await.map(|it| it.into_inner().refused) };
                self.send("Commit", owed, answer).await;
            }
            2 => {
                let wire = v1::AbortRequest {
                    transaction,
                    coordinator,
                    resource_manager,
                    ..Default::default()
                };
                let answer = async { client.abort(wire).await.map(|it| it.into_inner().refused) };
                self.send("Abort", owed, answer).await;
            }
            _ => {
                let wire = v1::ReleaseRequest {
                    transaction,
                    coordinator,
                    resource_manager,
                    ..Default::default()
                };
                let answer = async { client.release(wire).await.map(|it| it.into_inner().refused) };
                self.send("Release", owed, answer).await;
            }
        }
    }

    /// A hold of its own that would replace a booking of somebody else.
    async fn replace(&mut self, rm: &str, foreign: &str) {
        let own = self.own(rm);
        let hold = self.hold(rm, STOLEN, &own);
        let hold = v1::HoldRequest { replaces: foreign.to_owned(), one_way: false, ..hold };
        let mut client = self.managers[rm].clone();
        let answer = async { held(client.hold(hold).await) };
        self.send("Hold that replaces", Owed::Refusal, answer).await;
    }

    /// What only a resource manager, a user or an operator may call.
    async fn ask_and_meddle(&mut self, rm: &str, foreign: &str) {
        let reservation = foreign.split('/').next().unwrap_or_default().to_owned();
        let mut coordinator = self.coordinator.clone();
        match self.draws.below(4) {
            0 => {
                let (transaction, resource_manager) = (foreign.to_owned(), rm.to_owned());
                let wire = v1::ResolveRequest { transaction, resource_manager };
                let mut resolver = self.protection.resolver(Party::Rogue);
                let answer = async { resolver.resolve(wire).await.map(|_| None) };
                self.send("Resolve", Owed::Denial, answer).await;
            }
            1 => {
                let user = "user".to_owned();
                let wire = v1::ReleaseReservationRequest { id: reservation, user };
                let answer = async { coordinator.release(wire).await.map(|_| None) };
                self.send("a user's Release", Owed::Denial, answer).await;
            }
            2 => {
                let request_id = "rogue".to_owned();
                let request = Some(wanted(1, 50, 0));
                let wire = v1::ReserveRequest { request_id, request, ..Default::default() };
                let answer = async { coordinator.reserve(wire).await.map(|_| None) };
                self.send("Reserve", Owed::Denial, answer).await;
            }
            _ => {
                let mut client = self.managers[rm].clone();
                let wire = v1::ListBookingsRequest::default();
                let answer = async { client.list_bookings(wire).await.map(|_| None) };
                self.send("ListBookings", Owed::Denial, answer).await;
            }
        }
    }

    /// Sends a message, and judges the answer.
    async fn send(
        &self,
        what: &str,
        owed: Owed,
        answer: impl Future<Output = Result<Option<v1::Refusal>, Status>>,
    ) {
        let begun = turmoil::sim_elapsed().unwrap_or_default();
        let Ok(answer) = tokio::time::timeout(PATIENCE, answer).await else { return };
        let reply = Reply::of(answer);
        let is_denied =
            matches!(&reply, Reply::Failed(status) if status.code() == Code::PermissionDenied);
        let how = match &reply {
            Reply::Done => "done".to_owned(),
            Reply::Refused => "refused".to_owned(),
            Reply::Failed(status) => format!("{:?}", status.code()),
        };
        let revoked = self.protection.revoked_at().is_some_and(|at| begun > at + CUT_WITHIN);
        let key = if revoked { "revoked" } else { "stolen" };
        self.trace.add("rogue", format_args!("{what} with a {key} key ({owed:?}): {how}"));
        let is_right = match owed {
            Owed::Denial => is_denied || !reply.is_answered(),
            Owed::Refusal => !matches!(reply, Reply::Done),
            Owed::Anything => true,
        };
        if !is_right {
            self.trace.accuse(format!("F14: {what} with a stolen key: {how}, not {owed:?}"));
        }
        if reply.is_answered() && revoked {
            self.trace.accuse(format!("F14: {what} with a revoked key: {how}"));
        }
    }
}

/// The answer to a Hold.
fn held(
    answer: Result<tonic::Response<v1::HoldResponse>, Status>,
) -> Result<Option<v1::Refusal>, Status> {
    match answer?.into_inner().answer {
        Some(Answer::Held(_)) => Ok(None),
        Some(Answer::Refused(refusal)) => Ok(Some(refusal)),
        None => Err(Status::internal("an answer without an answer")),
    }
}
