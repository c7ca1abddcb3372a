//! A small federation of real processes: two sites `A` and `B`, each with its CRM, and one NRM with a path
//! of 1 Gbit/s between them.

use std::collections::BTreeMap;
use std::fs::File;
use std::net::{TcpStream, UdpSocket};
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU16, Ordering};
use std::time::{Duration, Instant};

use coalloc_net::client;
use coalloc_proto::v1;
use coalloc_proto::v1::coordinator_client::CoordinatorClient;
use coalloc_proto::v1::resource_manager_client::ResourceManagerClient;
use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;
use tonic::transport::Channel;

pub(crate) const RMS: [&str; 3] = ["crm-A", "crm-B", "nrm"];
/// Nothing in these tests takes longer than this unless it is broken.
pub(crate) const PATIENCE: Duration = Duration::from_secs(40);

/// Returns a port that only this process uses, below the range that the system gives to outgoing connections.
///
/// Daemons listen on the TCP port, with pauses and restarts. The UDP port of the same number is bound here
/// as long as this process lives, which tells other test processes that the number is taken.
pub(crate) fn free_port() -> u16 {
    static NEXT: AtomicU16 = AtomicU16::new(0);
    static TAKEN: Mutex<Vec<UdpSocket>> = Mutex::new(Vec::new());
    loop {
        let step = NEXT.fetch_add(1, Ordering::Relaxed);
        let first = (std::process::id() % 89) as u16 * 100;
        let port = 10_000 + (first + step) % 9_900;
        let Ok(flag) = UdpSocket::bind(("127.0.0.1", port)) else { continue };
        // Nobody listens there. Listening there to find out would be wrong: a daemon that another thread starts
        // at this moment inherits the listener until it runs its own program, and the port stays taken.
        if TcpStream::connect(("127.0.0.1", port)).is_err() {
            TAKEN.lock().unwrap().push(flag);
            return port;
        }
    }
}

pub(crate) struct Federation {
    pub(crate) dir: TempDir,
    pub(crate) addresses: BTreeMap<String, String>,
    children: BTreeMap<String, Child>,
    /// Whether daemons stop when this process dies without stopping them. If so, the thread that lives
    /// longest must start all of them, because the system ties them to that thread.
    pub(crate) tied: bool,
    /// The programs of daemons that run another one than the one under test.
    pub(crate) programs: BTreeMap<String, PathBuf>,
}

/// The settings that a test may change.
pub(crate) struct Setup {
    /// The RMs' hold policy, as YAML.
    pub(crate) policy: &'static str,
    /// Where the GRC finds an RM, if not at the RM's own address.
    pub(crate) relayed: BTreeMap<String, String>,
}

impl Default for Setup {
    fn default() -> Self {
        Self { policy: "{}", relayed: BTreeMap::new() }
    }
}

impl Federation {
    /// Starts a whole federation, and waits until it is complete.
    pub(crate) async fn start() -> Self {
        let mut federation = Self::prepare();
        federation.configure(&Setup::default());
        federation.start_all().await;
        federation
    }

    /// Chooses the addresses only; nothing runs.
    pub(crate) fn prepare() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let mut addresses = BTreeMap::new();
        for name in RMS.iter().chain(&["grc"]) {
            addresses.insert((*name).to_owned(), format!("127.0.0.1:{}", free_port()));
        }
        Self { dir, addresses, children: BTreeMap::new(), tied: false, programs: BTreeMap::new() }
    }

    /// A view of the daemons of another federation, which owns none of them.
    pub(crate) fn elsewhere(addresses: BTreeMap<String, String>) -> Self {
        let dir = tempfile::tempdir().unwrap();
        Self { dir, addresses, children: BTreeMap::new(), tied: false, programs: BTreeMap::new() }
    }

    pub(crate) fn configure(&self, setup: &Setup) {
        let grc = &self.addresses["grc"];
        let policy = setup.policy;
        let common = |name: &str| {
            format!(
                "daemon: {{insecure_plaintext: true, listen: \"{}\", ledger: {name}.ledger}}\n\
                 coordinators: [{{name: grc, address: \"{grc}\"}}]\npolicy: {policy}\n",
                self.addresses[name]
            )
        };
        for site in ["A", "B"] {
            let name = format!("crm-{site}");
            let sites = format!("sites: [{{name: {site}, cpus: 100}}]");
            let inventory = format!("inventory: {{name: {name}, domain: D, {sites}}}\n");
            self.write(&format!("{name}.yaml"), &(common(&name) + &inventory));
        }
        let paths = "paths: [{name: A-B, a: A, b: B, capacity_bps: 1000000000}]";
        let inventory = format!("inventory: {{name: nrm, domain: D, {paths}}}\n");
        self.write("nrm.yaml", &(common("nrm") + &inventory));
        let mut grc = format!(
            "daemon: {{insecure_plaintext: true, listen: \"{grc}\", ledger: grc.ledger}}\nname: grc\nresource_managers:\n"
        );
        for name in RMS {
            let address = setup.relayed.get(name).unwrap_or(&self.addresses[name]);
            grc += &format!("- {{name: {name}, address: \"{address}\"}}\n");
        }
        self.write("grc.yaml", &grc);
    }

    pub(crate) fn write(&self, file: &str, text: &str) -> PathBuf {
        let path = self.dir.path().join(file);
        std::fs::write(&path, text).unwrap();
        path
    }

    pub(crate) async fn start_all(&mut self) {
        for name in RMS {
            self.spawn(name);
        }
        self.spawn("grc");
        self.complete().await;
    }

    /// Starts a daemon with its configuration file.
    pub(crate) fn spawn(&mut self, name: &str) {
        let child = self.command(name).spawn().unwrap();
        self.adopt(name, child);
    }

    /// Takes over a daemon that was started in another way.
    pub(crate) fn adopt(&mut self, name: &str, child: Child) {
        self.children.insert(name.to_owned(), child);
    }

    pub(crate) fn command(&self, name: &str) -> Command {
        let kind = name.split('-').next().unwrap();
        let log = self.dir.path().join(format!("{name}.log"));
        let log = File::options().create(true).append(true).open(log).unwrap();
        let own = PathBuf::from(env!("CARGO_BIN_EXE_coalloc"));
        let mut command = Command::new(self.programs.get(name).unwrap_or(&own));
        command.args(["serve", kind, "--config"]);
        command.arg(self.dir.path().join(format!("{name}.yaml")));
        if self.tied {
            command.arg("--with-parent").arg(std::process::id().to_string());
        }
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(log);
        command
    }

    /// Waits until the GRC sees every RM.
    pub(crate) async fn complete(&self) {
        eventually("the federation is complete", || async {
            let Ok(answer) = self.grc().describe_federation(v1::DescribeFederationRequest {}).await
            else {
                return false;
            };
            answer.into_inner().resource_managers.iter().all(|rm| rm.reachable)
        })
        .await;
    }

    pub(crate) fn pid(&self, name: &str) -> Pid {
        Pid::from_child(&self.children[name])
    }

    /// How a daemon ended that was not told to end; `None` while it runs.
    pub(crate) fn ended(&mut self, name: &str) -> Option<ExitStatus> {
        let ended = self.children.get_mut(name)?.try_wait().unwrap();
        if ended.is_some() {
            self.children.remove(name);
        }
        ended
    }

    /// Sends SIGKILL; the process is gone when this returns.
    pub(crate) fn kill(&mut self, name: &str) {
        let mut child = self.children.remove(name).unwrap();
        child.kill().unwrap();
        child.wait().unwrap();
    }

    pub(crate) fn pause(&self, name: &str) {
        kill_process(self.pid(name), Signal::STOP).unwrap();
    }

    pub(crate) fn resume(&self, name: &str) {
        kill_process(self.pid(name), Signal::CONT).unwrap();
    }

    /// Sends SIGTERM, and returns how the process ended.
    pub(crate) fn stop(&mut self, name: &str) -> std::process::ExitStatus {
        let mut child = self.children.remove(name).unwrap();
        kill_process(Pid::from_child(&child), Signal::TERM).unwrap();
        child.wait().unwrap()
    }

    pub(crate) fn log(&self, name: &str) -> String {
        std::fs::read_to_string(self.dir.path().join(format!("{name}.log"))).unwrap_or_default()
    }

    pub(crate) fn grc(&self) -> CoordinatorClient<Channel> {
        CoordinatorClient::new(client::channel("grc", &self.addresses["grc"]).unwrap())
    }

    pub(crate) fn rm(&self, name: &str) -> ResourceManagerClient<Channel> {
        ResourceManagerClient::new(client::channel("rm", &self.addresses[name]).unwrap())
    }

    pub(crate) async fn reserve(
        &self,
        id: &str,
        request: v1::CoAllocationRequest,
    ) -> v1::Reservation {
        self.try_reserve(id, request).await.unwrap()
    }

    /// Reserves, and checks that the reservation is confirmed.
    pub(crate) async fn reserve_confirmed(
        &self,
        id: &str,
        request: v1::CoAllocationRequest,
    ) -> v1::Reservation {
        let reservation = self.reserve(id, request).await;
        assert!(reservation.state().is_booked(), "{id}: {reservation:?}");
        reservation
    }

    pub(crate) async fn try_reserve(
        &self,
        id: &str,
        request: v1::CoAllocationRequest,
    ) -> Result<v1::Reservation, tonic::Status> {
        let request = v1::ReserveRequest {
            request_id: id.to_owned(),
            request: Some(request),
            ..Default::default()
        };
        Ok(self.grc().reserve(request).await?.into_inner().reservation.unwrap())
    }

    pub(crate) async fn get(&self, id: &str) -> Result<v1::Reservation, tonic::Status> {
        let answer = self.grc().get(v1::GetRequest { id: id.to_owned() }).await?;
        Ok(answer.into_inner().reservation.unwrap())
    }

    /// Everything that one RM holds and has booked.
    pub(crate) async fn bookings(&self, rm: &str) -> Vec<v1::Booking> {
        let request = v1::ListBookingsRequest { page_size: Some(10_000), ..Default::default() };
        self.rm(rm).list_bookings(request).await.unwrap().into_inner().bookings
    }

    /// Waits until no RM holds anything undecided and no reservation is unfinished, then audits everything.
    pub(crate) async fn audit_at_rest(&self) {
        eventually("every transaction has ended", || async {
            let list = self.grc().list(v1::ListRequest::default()).await;
            let Ok(list) = list else { return false };
            let mut held = false;
            for rm in RMS {
                let bookings = self.bookings(rm).await;
                held |= bookings.iter().any(|b| b.state() == v1::BookingState::Held);
            }
            !held && list.into_inner().reservations.iter().all(|r| r.definite)
        })
        .await;
        self.audit().await;
    }

    /// Checks I1, I5, I6 and I7 from outside.
    pub(crate) async fn audit(&self) {
        let list = self.grc().list(v1::ListRequest::default()).await.unwrap().into_inner();
        let confirmed: BTreeMap<&str, &v1::Reservation> = list
            .reservations
            .iter()
            .filter(|r| r.state().is_booked())
            .map(|r| (r.transaction.as_str(), r))
            .collect();
        let mut booked: BTreeMap<(String, String), Vec<v1::Segment>> = BTreeMap::new();
        for rm in RMS {
            let capacity = if rm == "nrm" { 1_000_000_000 } else { 100 };
            let bookings = self.bookings(rm).await;
            let segments: Vec<&v1::Segment> = bookings.iter().flat_map(|b| &b.segments).collect();
            for (at, resource) in segments.iter().map(|s| (start(s), &s.resource)) {
                let same = segments.iter().filter(|s| s.resource == *resource);
                let inside = same.filter(|s| start(s) <= at && at < end(s));
                let taken: u64 = inside.map(|s| s.amount).sum();
                assert!(taken <= capacity, "I1: {resource} has {taken} of {capacity} taken");
            }
            for booking in bookings {
                assert_eq!(booking.state(), v1::BookingState::Booked, "I7: {rm}: {booking:?}");
                assert!(
                    confirmed.contains_key(booking.transaction.as_str()),
                    "I5: {rm} has booked {} which nobody was confirmed",
                    booking.transaction
                );
                booked.insert((booking.transaction, rm.to_owned()), booking.segments);
            }
        }
        for (txn, reservation) in confirmed {
            for segment in &reservation.plan.as_ref().unwrap().segments {
                let key = (txn.to_owned(), segment.resource_manager.clone());
                let there = booked.get(&key).is_some_and(|segments| {
                    segments.iter().any(|s| {
                        s.resource == segment.resource
                            && s.amount == segment.amount
                            && s.window == segment.window
                    })
                });
                assert!(there, "I6: {txn} is confirmed without {segment:?}");
            }
        }
    }
}

impl Drop for Federation {
    fn drop(&mut self) {
        for child in self.children.values_mut() {
            let _ = kill_process(Pid::from_child(child), Signal::CONT);
            let _ = child.kill();
            let _ = child.wait();
        }
        if std::thread::panicking() {
            for name in self.addresses.keys() {
                eprintln!("--- log of {name}\n{}", self.log(name));
            }
        }
    }
}

fn start(segment: &v1::Segment) -> i64 {
    segment.window.as_ref().unwrap().start.as_ref().unwrap().seconds
}

fn end(segment: &v1::Segment) -> i64 {
    segment.window.as_ref().unwrap().end.as_ref().unwrap().seconds
}

/// Polls until the condition holds; fails when it never does.
pub(crate) async fn eventually<F: Future<Output = bool>>(what: &str, condition: impl Fn() -> F) {
    let begun = Instant::now();
    while !condition().await {
        assert!(begun.elapsed() < PATIENCE, "never: {what}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

pub(crate) fn seconds_from_now(s: i64) -> coalloc_proto::Timestamp {
    let now = coalloc_net::clock::now().wall.as_us() / 1_000_000;
    coalloc_proto::Timestamp { seconds: now + s, nanos: 0 }
}

/// Two sites with CPUs, and a link of this many Mbit/s between them, from `start_s` seconds from now.
pub(crate) fn pair(cpus: u64, mbps: u64, start_s: i64, duration_s: i64) -> v1::CoAllocationRequest {
    let site = |name: &str| v1::SiteRequest { name: name.to_owned(), cpus, ..Default::default() };
    v1::CoAllocationRequest {
        sites: vec![site("left"), site("right")],
        links: vec![v1::LinkRequest {
            from: "left".to_owned(),
            to: "right".to_owned(),
            bandwidth_bps: mbps * 1_000_000,
            ..v1::LinkRequest::default()
        }],
        earliest_start: Some(seconds_from_now(start_s)),
        latest_start: None,
        duration: Some(coalloc_proto::Duration { seconds: duration_s, nanos: 0 }),
        user: "UserA".to_owned(),
        manual_provision: None,
        series: String::new(),
    }
}
