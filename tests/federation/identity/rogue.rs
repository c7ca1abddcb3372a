//! Everything at once that a rogue with some rights can do: a coordinator that the resource managers know, and a user of
//! the honest coordinator, over one address of the network.
//!
//! Nothing here waits for effects. Each attack goes on until the rogue is dropped, and counts what was let through that
//! must not be.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use coalloc_common::{Role, limits};
use coalloc_net::client::Dialer;
use coalloc_proto::v1::coordinator_client::CoordinatorClient;
use coalloc_proto::v1::resolver_client::ResolverClient;
use coalloc_proto::v1::resource_manager_client::ResourceManagerClient;
use coalloc_proto::v1::{self};
use tokio::runtime::Runtime;
use tokio::task::JoinSet;
use tonic::transport::Channel;

use super::siege::{HALF, SILENT, half, silence};
use super::world::TlsWorld;
use crate::harness::{RMS, pair, seconds_from_now};

/// Where the rogue's silent connections come from.
const FROM: &str = "127.0.0.2";
/// Plans that it has under way at a time.
const PLANS: usize = 80;
/// Forged messages that it has under way at each resource manager.
const FORGERS: usize = 16;
/// How far ahead of the honest ids it guesses.
const GUESSES: u32 = 200;

/// An attack under way. It ends when this is dropped.
pub(super) struct Rogue {
    _attacks: JoinSet<()>,
    /// The threads of its own, on which it attacks. `None` once they are told to end.
    threads: Option<Runtime>,
    /// Forged messages that were answered as if they were the honest coordinator's.
    pub(super) let_through: Arc<AtomicUsize>,
    /// Forged messages so far.
    pub(super) forged: Arc<AtomicUsize>,
    /// Plans that were answered, with or without a plan.
    pub(super) planned: Arc<AtomicUsize>,
}

/// What a rogue does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Attack {
    /// Forged messages at resource managers and at the coordinator.
    Forge,
    /// Plans that fit nowhere.
    Plan,
    /// All the watches that it gets.
    Watch,
    /// Connections that say nothing, or half of a greeting.
    Connect,
}

impl Attack {
    pub(super) const ALL: [Self; 4] = [Self::Forge, Self::Plan, Self::Watch, Self::Connect];
}

impl Rogue {
    /// Starts attacks. `ids` begins every id of the honest coordinator's reservations: it is in each message.
    pub(super) fn start(world: &mut TlsWorld, ids: &str, attacks: &[Attack]) -> Self {
        let stolen = world.who("grid", Role::Coordinator, "grc-2");
        let mallory = world.who("grid", Role::User, "mallory");
        let counts: [Arc<AtomicUsize>; 3] = std::array::from_fn(|_| Arc::default());
        let [let_through, forged, planned] = counts;
        let threads = threads();
        // Its connections are served by its threads, too.
        let entered = threads.enter();
        let mut tasks = JoinSet::new();
        for attack in attacks {
            match attack {
                Attack::Forge => {
                    for rm in RMS {
                        let forger = Forger {
                            client: world.rm(&stolen, rm),
                            resolver: world.resolver(&stolen),
                            rm,
                            ids: ids.to_owned(),
                            let_through: Arc::clone(&let_through),
                            forged: Arc::clone(&forged),
                        };
                        // Denials come after a pause, so it does not wait for one before it sends the next.
                        for number in 0..FORGERS {
                            tasks.spawn(forger.clone().forge(number));
                        }
                    }
                }
                Attack::Plan => {
                    // Over one connection: a daemon shares the places of handshakes by address, and the honest users of
                    // this test have the same one.
                    let client = world.grc(&mallory);
                    for number in 0..PLANS {
                        tasks.spawn(plan(client.clone(), number, Arc::clone(&planned)));
                    }
                }
                Attack::Watch => {
                    tasks.spawn(watch(world.grc(&mallory)));
                }
                Attack::Connect => {
                    for daemon in RMS.iter().chain(&["grc"]) {
                        let to: SocketAddr = world.address(daemon).parse().unwrap();
                        for _ in 0..HALF / 4 {
                            tasks.spawn(half(FROM, to));
                        }
                    }
                    let to = world.address("grc").parse().unwrap();
                    tasks.spawn(silence(FROM, to, Arc::default()));
                }
            }
        }
        assert_eq!(SILENT, 10_000);
        drop(entered);
        Self { _attacks: tasks, threads: Some(threads), let_through, forged, planned }
    }
}

impl Drop for Rogue {
    fn drop(&mut self) {
        self.threads.take().into_iter().for_each(Runtime::shutdown_background);
    }
}

/// The rogue's threads. Its machine is another one than that of honest users, so honest users do not wait for it in the
/// same runtime, and its threads get the cores that nobody else wants (nice 19).
fn threads() -> Runtime {
    let last = || {
        let is_set = rustix::process::setpriority_process(None, 19);
        is_set.unwrap();
    };
    let mut builder = tokio::runtime::Builder::new_multi_thread();
    builder
        .worker_threads(2)
        .thread_name("rogue")
        .enable_all()
        .on_thread_start(last)
        .build()
        .unwrap()
}

/// Plans over and over what does not fit, with the most frames and with alternatives.
async fn plan(mut client: CoordinatorClient<Channel>, number: usize, planned: Arc<AtomicUsize>) {
    let start = 3_600 + number as i64;
    let request = v1::CoAllocationRequest {
        user: "mallory".to_owned(),
        latest_start: Some(seconds_from_now(start + 80_000)),
        ..pair(100, 1_000, start, 3_600)
    };
    let options = v1::PlanOptions {
        frames: Some(limits::FRAMES_MAX),
        alternatives: Some(true),
        ..v1::PlanOptions::default()
    };
    let request = v1::PlanRequest { request: Some(request), options: Some(options) };
    loop {
        match client.plan(request.clone()).await {
            Ok(_) => {
                planned.fetch_add(1, Ordering::Relaxed);
            }
            // It is too greedy, and comes back at once.
            Err(_) => tokio::task::yield_now().await,
        }
    }
}

/// Takes as many places of watches as it gets, and asks for more.
async fn watch(mut client: CoordinatorClient<Channel>) {
    let mut watches = Vec::new();
    loop {
        match client.watch(v1::WatchRequest::default()).await {
            Ok(stream) => watches.push(stream.into_inner()),
            Err(_) => tokio::task::yield_now().await,
        }
    }
}

/// Forges messages at one resource manager, and at the honest coordinator in its name.
#[derive(Clone)]
struct Forger {
    client: ResourceManagerClient<Channel>,
    resolver: ResolverClient<Channel>,
    rm: &'static str,
    ids: String,
    let_through: Arc<AtomicUsize>,
    forged: Arc<AtomicUsize>,
}

impl Forger {
    /// Forges with every `FORGERS`th guess.
    async fn forge(mut self, first: usize) {
        for round in (first as u32..).step_by(FORGERS) {
            let number = 1 + round % GUESSES;
            self.pretend(number).await;
            self.under_its_own_name(number).await;
            tokio::task::yield_now().await;
        }
    }

    fn count(&self, is_denied: bool) {
        self.forged.fetch_add(1, Ordering::Relaxed);
        if !is_denied {
            self.let_through.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Messages in the name of the honest coordinator, and of the resource manager.
    async fn pretend(&mut self, number: u32) {
        let transaction = format!("{}{number}/1", self.ids);
        let hold = self.hold("grc", &transaction, "");
        let is_denied = self.client.hold(hold).await.is_err();
        self.count(is_denied);
        let coordinator = "grc".to_owned();
        let commit = v1::CommitRequest {
            transaction: transaction.clone(),
            coordinator: coordinator.clone(),
            ..Default::default()
        };
        let is_denied = self.client.commit(commit).await.is_err();
        self.count(is_denied);
        let abort = v1::AbortRequest {
            transaction: transaction.clone(),
            coordinator: coordinator.clone(),
            ..Default::default()
        };
        let is_denied = self.client.abort(abort).await.is_err();
        self.count(is_denied);
        let release = v1::ReleaseRequest {
            transaction: transaction.clone(),
            coordinator,
            ..Default::default()
        };
        let is_denied = self.client.release(release).await.is_err();
        self.count(is_denied);
        let resolve = v1::ResolveRequest { transaction, resource_manager: self.rm.to_owned() };
        let is_denied = self.resolver.resolve(resolve).await.is_err();
        self.count(is_denied);
    }

    /// Messages in its own name about what belongs to the honest coordinator, and holds of its own.
    async fn under_its_own_name(&mut self, number: u32) {
        let of_grc = format!("{}{number}/1", self.ids);
        let own = format!("grc-2-00000000-{number}/1");
        for (transaction, replaces) in [(of_grc.as_str(), ""), (own.as_str(), of_grc.as_str())] {
            let hold = self.hold("grc-2", transaction, replaces);
            let answer = self.client.hold(hold).await.map(|held| held.into_inner().answer);
            self.count(!matches!(answer, Ok(Some(v1::hold_response::Answer::Held(_)))));
        }
        // The tombstone of an id to come. Whatever is answered, the honest coordinator's Hold of that id must succeed.
        let tombstone = v1::AbortRequest {
            transaction: of_grc,
            coordinator: "grc-2".to_owned(),
            ..Default::default()
        };
        let _ = self.client.abort(tombstone).await;
        // What is its own, it may hold.
        let _ = self.client.hold(self.hold("grc-2", &format!("{own}0"), "")).await;
    }

    fn hold(&self, coordinator: &str, transaction: &str, replaces: &str) -> v1::HoldRequest {
        let window = v1::Window {
            start: Some(seconds_from_now(90_000)),
            end: Some(seconds_from_now(93_600)),
        };
        let resource = match self.rm {
            "crm-A" => "A",
            "crm-B" => "B",
            _ => "A-B",
        };
        let segment = v1::Segment {
            resource: resource.to_owned(),
            amount: 1,
            window: Some(window),
            ..v1::Segment::default()
        };
        v1::HoldRequest {
            transaction: transaction.to_owned(),
            coordinator: coordinator.to_owned(),
            user: "alice".to_owned(),
            segments: vec![segment],
            replaces: replaces.to_owned(),
            ..v1::HoldRequest::default()
        }
    }
}

/// A dialer of the honest users.
pub(super) fn honest(world: &mut TlsWorld, number: usize) -> (String, Dialer) {
    let name = format!("honest-{number}");
    let dialer = world.who("grid", Role::User, &name);
    (name, dialer)
}
