//! Clients on this machine: each reserves, changes and releases, one call after the other, and writes down
//! what it is told.

use std::fmt;
use std::fs::File;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use coalloc_cli::audit::journal::{Entry, Kind, Said, Writer};
use coalloc_cli::demo::workload::{Type4, arrivals};
use coalloc_cli::rpc;
use coalloc_common::Span;
use coalloc_proto::v1;
use tokio::task::JoinHandle;
use tonic::Status;

use crate::testbed::{Testbed, eventually};

/// Clients, each with one call at a time: enough to meet every fault in every phase, and little enough for
/// two cores that carry 17 containers too.
const CLIENTS: usize = 4;
/// Requests that one client has at most.
const REQUESTS: usize = 5_000;
/// Answers that are heard in each fault, at least.
const ANSWERS: usize = 12;
/// As long as a client waits for an answer, before it goes away and leaves the outcome open.
const PATIENCE: Duration = Duration::from_secs(20);
/// Pause of a client that got no answer.
const PAUSE: Duration = Duration::from_millis(100);

pub(crate) struct Load {
    shared: Arc<Shared>,
    clients: Vec<JoinHandle<()>>,
}

struct Shared {
    address: String,
    stop: AtomicBool,
    answers: AtomicUsize,
    journal: Mutex<Writer<File>>,
    tally: Mutex<Tally>,
}

/// What clients heard.
#[derive(Debug, Default, Clone)]
pub(crate) struct Tally {
    said: std::collections::BTreeMap<(String, Said), usize>,
}

impl Load {
    pub(crate) fn start(testbed: &Testbed) -> Self {
        let journal = File::create(testbed.folder().join("told.jsonl")).unwrap();
        let shared = Arc::new(Shared {
            address: testbed.address(7_000),
            stop: AtomicBool::new(false),
            answers: AtomicUsize::new(0),
            journal: Mutex::new(Writer::new(journal)),
            tally: Mutex::default(),
        });
        let clients = (0..CLIENTS).map(|number| tokio::spawn(Arc::clone(&shared).client(number)));
        Self { clients: clients.collect(), shared }
    }

    /// Waits until some more answers have come.
    pub(crate) async fn goes_on(&self, when: &str) {
        let answers = || self.shared.answers.load(Ordering::Relaxed);
        let (before, began) = (answers(), Instant::now());
        let enough = || answers() >= before + ANSWERS;
        eventually(&format!("{ANSWERS} answers {when}"), Duration::from_secs(120), enough).await;
        let seconds = began.elapsed().as_secs_f64();
        println!("{seconds:6.1} s  {} answers {when}", answers() - before);
    }

    /// Lets the calls in flight end.
    pub(crate) async fn stop(self) -> Tally {
        self.shared.stop.store(true, Ordering::Relaxed);
        for client in self.clients {
            client.await.unwrap();
        }
        self.shared.tally.lock().unwrap().clone()
    }
}

impl Shared {
    async fn client(self: Arc<Self>, number: usize) {
        let now = coalloc_net::clock::now().wall;
        let day = now.saturating_add(Span::from_secs(86_400));
        for (count, arrival) in arrivals(number as u64, REQUESTS, day, Type4::Ring).into_iter().enumerate() {
            if self.stop.load(Ordering::Relaxed) {
                return;
            }
            let id = format!("client-{number}-{count}");
            let request = arrival.request;
            let said = self.reserve(&id, request.clone()).await;
            if said != Some(Said::Confirmed) {
                continue;
            }
            // What stays is as important as what goes.
            if count % 3 == 1 {
                self.modify(&id, request).await;
            }
            if count % 2 == 0 {
                self.release(&id).await;
            }
        }
    }

    async fn reserve(&self, id: &str, request: v1::CoAllocationRequest) -> Option<Said> {
        let call = v1::ReserveRequest {
            request_id: id.to_owned(),
            request: Some(request),
            ..Default::default()
        };
        let answer = async {
            let answer = self.coordinator()?.reserve(call).await?;
            Ok(answer.into_inner().reservation)
        };
        self.tell(Entry::asked("", id, Kind::Reserve, ""), answer).await
    }

    /// Half an hour more.
    async fn modify(&self, id: &str, mut request: v1::CoAllocationRequest) {
        request.earliest_start = None;
        request.latest_start = None;
        if let Some(duration) = &mut request.duration {
            duration.seconds += 1_800;
        }
        let call = v1::ModifyRequest {
            id: id.to_owned(),
            change_id: "longer".to_owned(),
            request: Some(request),
            ..Default::default()
        };
        let answer = async {
            let answer = self.coordinator()?.modify(call).await?;
            Ok(answer.into_inner().reservation)
        };
        self.tell(Entry::asked("", id, Kind::Modify, "longer"), answer).await;
    }

    async fn release(&self, id: &str) {
        let call = v1::ReleaseReservationRequest { id: id.to_owned(), ..Default::default() };
        let answer = async {
            let answer = self.coordinator()?.release(call).await?;
            Ok(answer.into_inner().reservation)
        };
        self.tell(Entry::asked("", id, Kind::Release, ""), answer).await;
    }

    fn coordinator(&self) -> Result<rpc::Coordinator, Status> {
        rpc::coordinator(&self.address).map_err(|failure| Status::internal(failure.message))
    }

    /// Makes a call, and writes down that and what came of it.
    async fn tell(
        &self,
        asked: Entry,
        answer: impl Future<Output = Result<Option<v1::Reservation>, Status>>,
    ) -> Option<Said> {
        self.write(&asked);
        let answer = tokio::time::timeout(PATIENCE, answer).await;
        let entry = match answer {
            Ok(Ok(Some(reservation))) => asked.answered(&reservation),
            Ok(Ok(None)) => panic!("an answer without a reservation"),
            Ok(Err(status)) if is_rejected(&status) => asked.ended(Said::Rejected),
            Ok(Err(_)) | Err(_) => {
                tokio::time::sleep(PAUSE).await;
                asked.ended(Said::Lost)
            }
        };
        self.write(&entry);
        if entry.said != Said::Lost {
            self.answers.fetch_add(1, Ordering::Relaxed);
        }
        Some(entry.said)
    }

    fn write(&self, entry: &Entry) {
        self.journal.lock().unwrap().add(entry).unwrap();
        let what = format!("{:?}", entry.kind).to_lowercase();
        *self.tally.lock().unwrap().said.entry((what, entry.said)).or_default() += 1;
    }
}

fn is_rejected(status: &Status) -> bool {
    use coalloc_net::status::{Effect, effect};
    effect(status) == Effect::Rejected
}

impl Tally {
    fn count(&self, kind: &str, said: Said) -> usize {
        self.said.get(&(kind.to_owned(), said)).copied().unwrap_or_default()
    }

    /// A run in which little happened has shown nothing.
    pub(crate) fn is_enough(&self) {
        for (kind, said, least) in [
            ("reserve", Said::Confirmed, 20),
            ("modify", Said::Changed, 3),
            ("release", Said::Released, 5),
            // The coordinator was killed: somebody lost an answer, or found nobody.
            ("reserve", Said::Lost, 1),
        ] {
            let count = self.count(kind, said);
            assert!(count >= least, "{kind} {said:?}: {count}, at least {least} wanted: {self}");
        }
    }
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "clients were told:")?;
        for ((kind, said), count) in &self.said {
            write!(f, " {kind} {said:?} {count},")?;
        }
        Ok(())
    }
}
