//! A network resource manager in this process or in a separate one, and a subscriber.

use std::collections::BTreeMap;
use std::path::PathBuf;

use coalloc_common::{Amount, BootTime, Now, Profile, ResourceId, RmName, Time, Window, limits};
use coalloc_net::client::Dialer;
use coalloc_net::machine::{Host, System};
use coalloc_net::{client, convert, server};
use coalloc_proto::v1::resource_manager_client::ResourceManagerClient;
use coalloc_proto::{Timestamp, v1};
use coalloc_protocol::update::{Picture, Update, UpdateKind};
use coalloc_rm::{daemon, shell};
use tempfile::TempDir;
use tokio::sync::oneshot;
use tonic::transport::{Channel, Endpoint};
use tonic::{Status, Streaming};

use crate::harness::{PATIENCE, free_port};

pub(crate) type Client = ResourceManagerClient<Channel>;

/// The resources of every resource manager here: a shared path, and a path that is full-duplex.
pub(crate) const RESOURCES: [(&str, u64); 3] = [("A-B", 1_000), ("A-C:ab", 500), ("A-C:ba", 500)];

/// A configuration with this text for `profiles`.
pub(crate) fn configuration(address: &str, profiles: &str) -> String {
    format!(
        "daemon: {{insecure_plaintext: true, listen: \"{address}\", ledger: nrm.ledger}}\n\
         coordinators: [{{name: grc, address: \"127.0.0.1:1\"}}, {{name: other, address: \"127.0.0.1:2\"}}]\n\
         profiles: {profiles}\n\
         inventory:\n  name: nrm\n  domain: D\n  paths:\n  \
         - {{name: A-B, a: A, b: B, capacity_bps: 1000}}\n  \
         - {{name: A-C, a: A, b: C, capacity_bps: 500, full_duplex: true}}\n"
    )
}

/// A resource manager in this process.
pub(crate) struct Rm {
    pub(crate) address: String,
    folder: TempDir,
    stop: Option<oneshot::Sender<()>>,
    running: Option<tokio::task::JoinHandle<()>>,
}

impl Rm {
    /// Starts it with this text for `profiles`, and a ring of this many changes.
    pub(crate) async fn start(profiles: &str, changes_kept: usize) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let address = format!("127.0.0.1:{}", free_port());
        let mut rm = Self { address, folder, stop: None, running: None };
        rm.run(profiles, changes_kept).await;
        rm
    }

    /// Stops it and starts it again from its ledger.
    pub(crate) async fn restart(&mut self, profiles: &str, changes_kept: usize) {
        drop(self.stop.take());
        self.running.take().unwrap().await.unwrap();
        self.run(profiles, changes_kept).await;
    }

    async fn run(&mut self, profiles: &str, changes_kept: usize) {
        let file: PathBuf = self.folder.path().join("nrm.yaml");
        std::fs::write(&file, configuration(&self.address, profiles)).unwrap();
        let mut config = coalloc_nrm::load(&file).unwrap();
        config.profiles.changes_kept = changes_kept;
        let host: Host = System::host(Dialer::plain_text());
        let listener = server::bind(config.daemon.listen).await.unwrap();
        let opened = shell::open(&config).unwrap();
        let (stop, stopped) = oneshot::channel::<()>();
        let stopped = async {
            let _ = stopped.await;
        };
        let serving = async move {
            daemon::serve_on(config, &host, listener, opened, None, stopped).await.unwrap()
        };
        (self.stop, self.running) = (Some(stop), Some(tokio::spawn(serving)));
    }

    pub(crate) fn client(&self) -> Client {
        client_of(&self.address)
    }

    /// A client with a small window, so that little data is in transit to it.
    pub(crate) fn narrow_client(&self) -> Client {
        let endpoint = Endpoint::from_shared(format!("http://{}", self.address)).unwrap();
        let window = Some(4_096);
        let endpoint = endpoint.initial_stream_window_size(window);
        ResourceManagerClient::new(endpoint.initial_connection_window_size(window).connect_lazy())
    }
}

pub(crate) fn client_of(address: &str) -> Client {
    ResourceManagerClient::new(client::channel("rm", address).unwrap())
}

pub(crate) fn now() -> Now {
    let wall = coalloc_net::clock::now().wall;
    Now { wall, boot: BootTime::from_us(0) }
}

/// A window in seconds, counted from an instant an hour ahead that is the same for the whole process.
pub(crate) fn window(from: i64, length: i64) -> v1::Window {
    static BASE: std::sync::OnceLock<i64> = std::sync::OnceLock::new();
    let base = *BASE.get_or_init(|| now().wall.as_us() / 1_000_000 + 3_600);
    let stamp = |s: i64| Some(Timestamp { seconds: base + s, nanos: 0 });
    v1::Window { start: stamp(from), end: stamp(from + length) }
}

/// A hold of one segment by `grc`.
pub(crate) fn order(txn: &str, resource: &str, amount: u64, window: v1::Window) -> v1::HoldRequest {
    let segment = v1::Segment {
        resource: resource.to_owned(),
        amount,
        window: Some(window),
        ..v1::Segment::default()
    };
    v1::HoldRequest {
        transaction: transaction(txn),
        coordinator: "grc".to_owned(),
        segments: vec![segment],
        ..v1::HoldRequest::default()
    }
}

/// An id of coordinator `grc`, made from a short name.
pub(crate) fn transaction(name: &str) -> String {
    let number = name.bytes().fold(0_u64, |number, byte| number << 8 | u64::from(byte));
    format!("grc-t-{number}/1")
}

pub(crate) async fn hold(client: &mut Client, order: v1::HoldRequest) -> v1::HoldResponse {
    client.hold(order).await.unwrap().into_inner()
}

pub(crate) async fn book(client: &mut Client, mut order: v1::HoldRequest) {
    order.one_way = true;
    let answer = hold(client, order).await.answer;
    assert!(matches!(answer, Some(v1::hold_response::Answer::Held(_))), "{answer:?}");
}

pub(crate) async fn commit(client: &mut Client, txn: &str) -> Option<v1::Refusal> {
    let (transaction, coordinator) = (transaction(txn), "grc".to_owned());
    let request = v1::CommitRequest { transaction, coordinator, ..Default::default() };
    client.commit(request).await.unwrap().into_inner().refused
}

pub(crate) async fn abort(client: &mut Client, txn: &str) -> Option<v1::Refusal> {
    let (transaction, coordinator) = (transaction(txn), "grc".to_owned());
    let request = v1::AbortRequest { transaction, coordinator, ..Default::default() };
    client.abort(request).await.unwrap().into_inner().refused
}

pub(crate) async fn release(client: &mut Client, txn: &str) {
    let (transaction, coordinator) = (transaction(txn), "grc".to_owned());
    let request = v1::ReleaseRequest { transaction, coordinator, ..Default::default() };
    client.release(request).await.unwrap();
}

/// What one subscriber receives and believes.
pub(crate) struct Subscriber {
    pub(crate) picture: Picture,
    pub(crate) cursor: (u64, u64),
    stream: Option<Streaming<v1::WatchProfilesResponse>>,
}

pub(crate) fn rm_name() -> RmName {
    RmName::composed("nrm")
}

impl Subscriber {
    pub(crate) fn new() -> Self {
        let mut picture = Picture::default();
        let all = RESOURCES.map(|(name, amount)| (ResourceId::composed(name), Amount(amount)));
        picture.expect(&rm_name(), all);
        Self { picture, cursor: (0, 0), stream: None }
    }

    /// Starts to watch, or continues from where it was.
    pub(crate) async fn watch(
        &mut self,
        client: &mut Client,
        policy: Option<v1::UpdatePolicy>,
    ) -> Result<(), Status> {
        let (epoch, revision) = self.cursor;
        let coordinator = "grc".to_owned();
        let request = v1::WatchProfilesRequest { coordinator, epoch, revision, policy };
        self.stream = Some(client.watch_profiles(request).await?.into_inner());
        Ok(())
    }

    /// Receives the next update and applies it to the picture.
    pub(crate) async fn next(&mut self) -> Result<Update, Status> {
        let stream = self.stream.as_mut().expect("it watches");
        let next = tokio::time::timeout(PATIENCE, stream.message());
        let message = next.await.expect("a stream is never silent for so long")?;
        let wire = message.expect("it ends with a status").update.expect("an update");
        let update = convert::update_from_wire("update", &wire).expect("sound");
        self.picture.merge(&rm_name(), &update, now()).expect("it goes on");
        let cursor = self.picture.cursor(&rm_name()).unwrap_or_default();
        // I13: within an epoch revisions do not fall.
        assert!(cursor.0 != self.cursor.0 || cursor.1 >= self.cursor.1, "{cursor:?}");
        self.cursor = cursor;
        Ok(update)
    }

    /// Reads until the picture equals what the resource manager lists; returns the updates on the way.
    pub(crate) async fn until_right(&mut self, client: &mut Client) -> Vec<Update> {
        let truth = truth(client).await;
        let (mut heard, begun) = (Vec::new(), std::time::Instant::now());
        while !self.believes(&truth) {
            // The stream always sends signs of life, so only the time can end this loop.
            assert!(begun.elapsed() < PATIENCE, "never right: {truth:?}, {:?}", self.picture);
            heard.push(self.next().await.unwrap());
        }
        heard
    }

    /// Does the picture equal the listing, for every instant from now on?
    pub(crate) fn believes(&self, truth: &BTreeMap<&str, Profile>) -> bool {
        let Some(known) = self.picture.known(&rm_name()) else { return false };
        truth.iter().all(|(name, truth)| {
            let mut own = known.profile(&ResourceId::composed(*name)).unwrap().clone();
            let from = own.from().max(truth.from());
            own.forget_before(from);
            let mut truth = truth.clone();
            truth.forget_before(from);
            own == truth
        })
    }
}

/// What is free of every resource from now on, computed from the listed holds and bookings.
pub(crate) async fn truth(client: &mut Client) -> BTreeMap<&'static str, Profile> {
    let request = v1::ListBookingsRequest { page_size: Some(10_000), ..Default::default() };
    let bookings = client.list_bookings(request).await.unwrap().into_inner().bookings;
    let segments: Vec<&v1::Segment> = bookings.iter().flat_map(|b| &b.segments).collect();
    let from = now().wall;
    let of = |(name, capacity): (&'static str, u64)| {
        let own: Vec<(Time, Time, u64)> = segments
            .iter()
            .filter(|segment| segment.resource == name)
            .map(|segment| {
                let window = convert::window_from_wire("w", segment.window.as_ref()).unwrap();
                (window.start(), window.end(), segment.amount)
            })
            .collect();
        let mut profile = Profile::constant(from, Amount::ZERO);
        let mut instants: Vec<Time> = own.iter().flat_map(|one| [one.0, one.1]).collect();
        instants.retain(|at| *at > from);
        instants.push(from);
        instants.sort_unstable();
        for at in instants {
            let taken: u64 = own.iter().filter(|o| o.0 <= at && at < o.1).map(|o| o.2).sum();
            let rest = Window::new(at, Time::from_us(limits::TIME_MAX_US)).unwrap();
            profile.replace(rest, &[(at, Amount(capacity - taken))]);
        }
        (name, profile)
    };
    RESOURCES.into_iter().map(of).collect()
}

/// Is it a complete picture, or a piece of one?
pub(crate) fn is_snapshot(update: &Update) -> bool {
    matches!(update.kind, UpdateKind::Snapshot { .. })
}
