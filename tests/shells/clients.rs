//! Clients that reserve, change, release and repeat calls, set short deadlines or go away in the middle of
//! a call, and write down what they were told.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use coalloc_cli::kit::rpc::Coordinator;
use coalloc_cli::testbed::audit::journal::{CallKnowledge, Entry, Kind};
use coalloc_net::status::{self, Effect};
use coalloc_proto::{Timestamp, v1};
use tonic::{Code, Request, Status};

use crate::faults::{Draws, FAULTS};
use crate::federation::GRC;
use crate::identities::{Party, Protection};
use crate::machine::EPOCH_US;
use crate::trace::Trace;

/// Number of users.
pub(crate) const USERS: u64 = 3;
/// Number of windows that requests ask for; there are few, so that requests conflict.
const SLOTS: u64 = 4;
/// Length of a window, in seconds.
const SLOT: i64 = 1_800;
/// How long a user repeats its questions at the end.
const LAST: Duration = Duration::from_secs(90);

/// Everything that clients were told.
pub(crate) type Journal = Arc<Mutex<Vec<Entry>>>;
/// The ids of all transactions that clients were told of.
pub(crate) type Transactions = Arc<Mutex<Vec<String>>>;

/// How a client waits for its answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Manner {
    /// The client waits as long as it takes.
    Waits,
    /// The client sets a deadline.
    Deadline(Duration),
    /// The client goes away without a word (F8).
    Vanishes(Duration),
}

/// A request for CPUs at both sites and Mbit/s between them, in one of the windows.
pub(crate) fn wanted(cpus: u64, mbps: u64, slot: u64) -> v1::CoAllocationRequest {
    let site = |name: &str| v1::SiteRequest { name: name.to_owned(), cpus, ..Default::default() };
    let first = EPOCH_US / 1_000_000 + 3_600;
    v1::CoAllocationRequest {
        sites: vec![site("left"), site("right")],
        links: vec![v1::LinkRequest {
            from: "left".to_owned(),
            to: "right".to_owned(),
            bandwidth_bps: mbps * 1_000_000,
            ..v1::LinkRequest::default()
        }],
        earliest_start: Some(Timestamp { seconds: first + slot as i64 * SLOT, nanos: 0 }),
        latest_start: None,
        duration: Some(coalloc_proto::Duration { seconds: SLOT, nanos: 0 }),
        user: "user".to_owned(),
        manual_provision: None,
        series: String::new(),
    }
}

/// A call, as it is written into the journal.
#[derive(Debug, Clone)]
enum Call {
    Reserve(v1::ReserveRequest),
    Modify(v1::ModifyRequest),
    Release(v1::ReleaseReservationRequest),
}

impl Call {
    const fn kind(&self) -> Kind {
        match self {
            Self::Reserve(_) => Kind::Reserve,
            Self::Modify(_) => Kind::Modify,
            Self::Release(_) => Kind::Release,
        }
    }

    fn change(&self) -> &str {
        match self {
            Self::Modify(wire) => &wire.change_id,
            Self::Reserve(_) | Self::Release(_) => "",
        }
    }

    async fn send(
        self,
        mut client: Coordinator,
        deadline: Option<Duration>,
    ) -> Result<Option<v1::Reservation>, Status> {
        fn timed<T>(wire: T, deadline: Option<Duration>) -> Request<T> {
            let mut request = Request::new(wire);
            deadline.into_iter().for_each(|deadline| request.set_timeout(deadline));
            request
        }
        Ok(match self {
            Self::Reserve(wire) => {
                client.reserve(timed(wire, deadline)).await?.into_inner().reservation
            }
            Self::Modify(wire) => {
                client.modify(timed(wire, deadline)).await?.into_inner().reservation
            }
            Self::Release(wire) => {
                client.release(timed(wire, deadline)).await?.into_inner().reservation
            }
        })
    }
}

/// One request of a user, and what the user knows about it.
#[derive(Debug, Clone)]
struct Mine {
    id: String,
    wire: v1::CoAllocationRequest,
    /// The request of the last change.
    changed: Option<v1::CoAllocationRequest>,
    /// Whether the user was told that it is confirmed, and nothing else since.
    confirmed: bool,
    /// Whether the user was told that nothing of it is left.
    over: bool,
    changes: u32,
}

/// A user.
pub(crate) struct User {
    name: String,
    draws: Draws,
    journal: Journal,
    known: Transactions,
    trace: Trace,
    client: Coordinator,
    requests: Vec<Mine>,
}

impl User {
    pub(crate) fn new(
        name: &str,
        protection: &Protection,
        draws: Draws,
        (journal, known): (&Journal, &Transactions),
        trace: &Trace,
    ) -> Self {
        Self {
            name: name.to_owned(),
            draws,
            journal: Arc::clone(journal),
            known: Arc::clone(known),
            trace: trace.clone(),
            client: protection.coordinator(Party::User),
            requests: Vec::new(),
        }
    }

    /// Everything that a user does: calls as long as faults are made, then perhaps questions about the
    /// outcomes.
    pub(crate) async fn work(mut self) {
        while turmoil::sim_elapsed().unwrap_or_default() < FAULTS {
            tokio::time::sleep(self.draws.between(20, 1_500)).await;
            let manner = match self.draws.below(10) {
                0..=5 => Manner::Waits,
                6 | 7 => Manner::Deadline(self.draws.between(1, 1_000)),
                _ => Manner::Vanishes(self.draws.between(0, 600)),
            };
            match self.draws.below(10) {
                0..=4 => self.reserve_anew(manner).await,
                5 => self.again(manner).await,
                6..=7 => self.modify(manner).await,
                _ => self.release(manner).await,
            }
        }
        self.ask_at_last().await;
    }

    fn draw_wanted(&mut self) -> v1::CoAllocationRequest {
        let (cpus, mbps) = (1 + self.draws.below(5), 50 * (1 + self.draws.below(8)));
        wanted(cpus, mbps, self.draws.below(SLOTS))
    }

    async fn reserve_anew(&mut self, manner: Manner) {
        let wire = self.draw_wanted();
        let id = format!("{}-{}", self.name, self.requests.len());
        let (confirmed, over) = (false, false);
        self.requests.push(Mine { id, wire, changed: None, confirmed, over, changes: 0 });
        self.reserve(self.requests.len() - 1, manner).await;
    }

    async fn reserve(&mut self, at: usize, manner: Manner) {
        let Mine { id, wire, .. } = self.requests[at].clone();
        let wire = v1::ReserveRequest {
            request_id: id,
            request: Some(wire),
            ..v1::ReserveRequest::default()
        };
        self.make(at, Call::Reserve(wire), manner).await;
    }

    /// Repeats a request: one whose answer was lost, or any other.
    async fn again(&mut self, manner: Manner) {
        if !self.requests.is_empty() {
            let at = self.draws.below(self.requests.len() as u64) as usize;
            self.reserve(at, manner).await;
        }
    }

    /// One of the requests that are confirmed.
    fn a_confirmed(&mut self) -> Option<usize> {
        let confirmed = |mine: &Mine| mine.confirmed && !mine.over;
        let all: Vec<usize> =
            (0..self.requests.len()).filter(|at| confirmed(&self.requests[*at])).collect();
        (!all.is_empty()).then(|| self.draws.one_of(&all))
    }

    async fn modify(&mut self, manner: Manner) {
        let Some(at) = self.a_confirmed() else { return };
        let wire = self.draw_wanted();
        // One change in three repeats the previous one.
        let again = self.requests[at].changes > 0 && self.draws.percent(33);
        let mine = &mut self.requests[at];
        if !again {
            mine.changes += 1;
            mine.changed = Some(wire);
        }
        let wire = v1::ModifyRequest {
            id: mine.id.clone(),
            change_id: format!("c{}", mine.changes),
            request: mine.changed.clone(),
            ..v1::ModifyRequest::default()
        };
        self.make(at, Call::Modify(wire), manner).await;
    }

    async fn release(&mut self, manner: Manner) {
        let Some(at) = self.a_confirmed() else { return };
        let id = self.requests[at].id.clone();
        let user = "user".to_owned();
        self.make(at, Call::Release(v1::ReleaseReservationRequest { id, user }), manner).await;
    }

    /// Some users ask in the end for the outcome of their requests; the others never ask.
    async fn ask_at_last(&mut self) {
        let began = turmoil::sim_elapsed().unwrap_or_default();
        for at in 0..self.requests.len() {
            // A change asks for something else than the first request.
            let open = |mine: &Mine| !mine.confirmed && !mine.over && mine.changes == 0;
            if self.draws.percent(40) {
                continue;
            }
            while open(&self.requests[at])
                && turmoil::sim_elapsed().unwrap_or_default() < began + LAST
            {
                self.reserve(at, Manner::Waits).await;
                tokio::time::sleep(Duration::from_millis(500)).await;
            }
        }
    }

    fn note(&self, entry: &Entry, more: &str) {
        let Entry { request, kind, change, said, .. } = entry;
        self.trace.add(&self.name, format_args!("{kind:?} {request} {change} {said:?}{more}"));
        self.journal.lock().unwrap().push(entry.clone());
    }

    /// Makes a call, and writes down its outcome.
    async fn make(&mut self, at: usize, call: Call, manner: Manner) {
        let id = self.requests[at].id.clone();
        let asked = Entry::asked(GRC, &id, call.kind(), call.change());
        self.note(&asked, &format!(" {manner:?}"));
        let deadline = match manner {
            Manner::Deadline(deadline) => Some(deadline),
            Manner::Waits | Manner::Vanishes(_) => None,
        };
        let answer = call.send(self.client.clone(), deadline);
        let answer = match manner {
            // The call is dropped in the middle, wherever that is.
            Manner::Vanishes(after) => tokio::time::timeout(after, answer).await.ok(),
            Manner::Waits | Manner::Deadline(_) => Some(answer.await),
        };
        let (entry, more) = match &answer {
            None => (asked.ended(CallKnowledge::Lost), String::new()),
            Some(Ok(None)) => {
                self.trace.accuse(format!("{id}: an answer without a reservation"));
                return;
            }
            Some(Ok(Some(told))) => {
                if !told.transaction.is_empty() {
                    self.known.lock().unwrap().push(told.transaction.clone());
                }
                let (state, version) = (told.state(), told.version);
                let detail =
                    told.refusal.as_ref().map(|refusal| format!(" {:?}", refusal.reason()));
                let detail = detail.unwrap_or_default();
                let text = format!(" {} {state:?} v{version}{detail}", told.transaction);
                (asked.answered(told), text)
            }
            Some(Err(status)) => {
                self.check_status(&id, status);
                let said = match status::effect(status) {
                    Effect::Rejected => CallKnowledge::Rejected,
                    Effect::Unknown => CallKnowledge::Lost,
                };
                (asked.ended(said), format!(" {:?}: {}", status.code(), status.message()))
            }
        };
        self.note(&entry, &more);
        let mine = &mut self.requests[at];
        match entry.said {
            CallKnowledge::Confirmed | CallKnowledge::Changed => mine.confirmed = true,
            CallKnowledge::Refused | CallKnowledge::Released => mine.over = true,
            _ => {}
        }
    }

    /// Checks that no fault makes a daemon report an internal error, or that a request is a different one.
    fn check_status(&self, id: &str, status: &Status) {
        let broken = [Code::Internal, Code::DataLoss, Code::Unimplemented, Code::AlreadyExists];
        if broken.contains(&status.code()) {
            self.trace.accuse(format!("{id}: {:?}: {}", status.code(), status.message()));
        }
    }
}
