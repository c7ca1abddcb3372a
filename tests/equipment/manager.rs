//! A resource manager with equipment as a real process, which is killed where its [`Gate`] says, and the words of the
//! coordinator that uses it.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use coalloc_net::client;
use coalloc_proto::v1;
use coalloc_proto::v1::resource_manager_client::ResourceManagerClient;
use tokio::task::JoinHandle;
use tonic::transport::Channel;

use crate::gate::{Gate, Mode, Stopped};
use crate::harness::free_port;

/// Nothing takes longer than this unless it is broken.
pub(crate) const PATIENCE: Duration = Duration::from_secs(25);
/// Within this time, what nobody wants is gone: 20 s after a look has shown it, and looks are every 30 s.
pub(crate) const ORPHAN_PATIENCE: Duration = Duration::from_secs(55);
/// Pause between two looks.
pub(crate) const PAUSE: Duration = Duration::from_millis(20);
/// The end of the log that is shown when a test fails.
const LINES_SHOWN: usize = 60;

/// The process, and the gate before its equipment.
pub(crate) struct Manager {
    folder: PathBuf,
    kind: &'static str,
    address: String,
    child: Option<Child>,
    pub(crate) gate: Gate,
    mode: Mode,
    /// The commands in which it was killed.
    pub(crate) kills: Vec<String>,
    late: Vec<Stopped>,
}

/// What is held or booked.
#[derive(Debug, Clone)]
pub(crate) struct Order {
    /// Its transaction.
    pub(crate) txn: String,
    /// The transaction of which it is a change; empty: none.
    pub(crate) replaces: String,
    /// The resource.
    pub(crate) resource: &'static str,
    /// The amount.
    pub(crate) amount: u64,
    /// Its servers; none for a path.
    pub(crate) servers: Vec<&'static str>,
    /// The first second and the one after the last, since 1970.
    pub(crate) window: (i64, i64),
}

/// What a resource manager says of a booking.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct ShownBooking {
    pub(crate) state: v1::BookingState,
    pub(crate) provision: v1::ProvisionState,
    pub(crate) active: bool,
    pub(crate) consistent: bool,
    pub(crate) handle: String,
    pub(crate) trouble: String,
}

impl Manager {
    /// Writes the configuration, and starts the process. The gate's programs come first on its PATH.
    pub(crate) fn start(
        folder: &Path,
        kind: &'static str,
        configuration: &str,
        gate: Gate,
    ) -> Self {
        let address = format!("127.0.0.1:{}", free_port());
        // The coordinator is this test. Nobody listens at its address, and nobody is called there.
        let text = format!(
            "daemon: {{insecure_plaintext: true, listen: \"{address}\", ledger: manager.ledger}}\n\
             coordinators: [{{name: grc, address: \"127.0.0.1:{}\"}}]\n{configuration}",
            free_port()
        );
        std::fs::write(folder.join("manager.yaml"), text).unwrap();
        let (folder, child) = (folder.to_owned(), None);
        let (mode, kills, late) = (Mode::Before, Vec::new(), Vec::new());
        let mut manager = Self { folder, kind, address, child, gate, mode, kills, late };
        manager.restart();
        manager
    }

    /// Kills the process as SIGKILL does, if it runs.
    pub(crate) fn kill(&mut self) {
        if let Some(mut child) = self.child.take() {
            child.kill().unwrap();
            child.wait().unwrap();
        }
    }

    /// Starts the process again, with the same ledger.
    pub(crate) fn restart(&mut self) {
        self.kill();
        let log = self.folder.join("manager.log");
        let log = File::options().create(true).append(true).open(log).unwrap();
        let path = format!("{}:{}", self.gate.folder().display(), std::env::var("PATH").unwrap());
        let mut command = Command::new(env!("CARGO_BIN_EXE_coalloc"));
        command.args(["serve", self.kind, "--config"]).arg(self.folder.join("manager.yaml"));
        command.arg("--with-parent").arg(std::process::id().to_string());
        command.env("PATH", path).stdin(Stdio::null()).stdout(Stdio::null()).stderr(log);
        self.child = Some(command.spawn().unwrap());
    }

    /// From now on, the process is killed where its programs stop; `None`: nowhere.
    pub(crate) fn kill_at(&mut self, mode: Option<Mode>) {
        self.gate.set(mode);
        self.mode = mode.unwrap_or(self.mode);
    }

    /// Where a program has stopped, kills the process and starts it again.
    pub(crate) fn look_at_gate(&mut self) {
        let stopped = self.gate.stopped();
        if stopped.is_empty() {
            return;
        }
        self.kill();
        for program in stopped {
            println!("killed {:?}: {}", self.mode, program.words.replace('\n', "; "));
            self.kills.push(program.words.clone());
            match self.mode {
                Mode::Late => self.late.push(program),
                _ => self.gate.kill(&program),
            }
        }
        self.restart();
    }

    /// Lets the commands of killed processes be carried out now, and waits until they are. Were there any?
    async fn let_late_ones_go(&mut self) -> bool {
        let late = std::mem::take(&mut self.late);
        for program in &late {
            self.gate.let_go(program);
            until("a late command has ended", PATIENCE, async || {
                self.gate.is_done(program).then_some(()).ok_or_else(String::new)
            })
            .await;
        }
        !late.is_empty()
    }

    /// Waits until `differs` tells of nothing any more, while the process is killed at the gate. Then lets the late commands
    /// go, and waits once more.
    pub(crate) async fn settle(
        &mut self,
        what: &str,
        mut differs: impl AsyncFnMut(&Self) -> Option<String>,
    ) {
        loop {
            let begun = Instant::now();
            loop {
                self.look_at_gate();
                let differs = differs(self).await;
                let text = match differs {
                    // A command may have had its effect and not have stopped yet.
                    None if self.gate.is_busy() => "a command is about to stop".to_owned(),
                    None => break,
                    Some(text) => text,
                };
                assert!(begun.elapsed() < PATIENCE, "{what}: {text}");
                tokio::time::sleep(PAUSE).await;
            }
            if !self.let_late_ones_go().await {
                return;
            }
        }
    }

    pub(crate) fn client(&self) -> ResourceManagerClient<Channel> {
        ResourceManagerClient::new(client::channel("rm", &self.address).unwrap())
    }

    /// Calls until there is an answer. The process may be killed at the gate meanwhile.
    pub(crate) async fn ask<T, F>(
        &mut self,
        call: impl Fn(ResourceManagerClient<Channel>) -> F,
    ) -> T
    where
        T: Send + 'static,
        F: Future<Output = Result<tonic::Response<T>, tonic::Status>> + Send + 'static,
    {
        let begun = Instant::now();
        loop {
            let answer = tokio::spawn(call(self.client()));
            while !answer.is_finished() {
                self.look_at_gate();
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
            match answer.await.unwrap() {
                Ok(answer) => return answer.into_inner(),
                Err(status) => assert!(begun.elapsed() < PATIENCE, "{status:?}"),
            }
            tokio::time::sleep(PAUSE).await;
        }
    }

    /// Holds; the answer is the refusal.
    pub(crate) async fn try_hold(&mut self, order: &Order) -> Option<v1::Refusal> {
        let request = order.request();
        let answer = self.ask(|mut rm| {
            let request = request.clone();
            async move { rm.hold(request).await }
        });
        match answer.await.answer.unwrap() {
            v1::hold_response::Answer::Held(_) => None,
            v1::hold_response::Answer::Refused(refusal) => Some(refusal),
        }
    }

    pub(crate) async fn hold(&mut self, order: &Order) {
        assert_eq!(self.try_hold(order).await, None, "{order:?}");
    }

    /// Sends a Hold, once, to a process that serves. Nobody waits for the answer yet.
    pub(crate) async fn begin_hold(
        &mut self,
        order: &Order,
    ) -> JoinHandle<Result<tonic::Response<v1::HoldResponse>, tonic::Status>> {
        self.ask(|mut rm| async move { rm.describe(v1::DescribeRequest {}).await }).await;
        let (mut client, request) = (self.client(), order.request());
        tokio::spawn(async move { client.hold(request).await })
    }

    pub(crate) async fn commit(&mut self, order: &Order) {
        let (transaction, coordinator) = (order.txn.clone(), "grc".to_owned());
        let request = v1::CommitRequest { transaction, coordinator, ..Default::default() };
        let answer = self.ask(|mut rm| {
            let request = request.clone();
            async move { rm.commit(request).await }
        });
        assert_eq!(answer.await.refused, None);
    }

    pub(crate) async fn abort(&mut self, order: &Order) {
        let (transaction, coordinator) = (order.txn.clone(), "grc".to_owned());
        let request = v1::AbortRequest { transaction, coordinator, ..Default::default() };
        let answer = self.ask(|mut rm| {
            let request = request.clone();
            async move { rm.abort(request).await }
        });
        assert_eq!(answer.await.refused, None);
    }

    pub(crate) async fn release(&mut self, order: &Order) {
        let (transaction, coordinator) = (order.txn.clone(), "grc".to_owned());
        let request = v1::ReleaseRequest { transaction, coordinator, ..Default::default() };
        let answer = self.ask(|mut rm| {
            let request = request.clone();
            async move { rm.release(request).await }
        });
        assert_eq!(answer.await.refused, None);
    }

    /// What it says of a booking; `None`: there is none, or nobody answers.
    pub(crate) async fn told(&self, txn: &str) -> Option<ShownBooking> {
        let (transaction, coordinator) = (txn.to_owned(), "grc".to_owned());
        let request = v1::GetBookingRequest { transaction, coordinator, ..Default::default() };
        let booking = self.client().get_booking(request).await.ok()?.into_inner().booking?;
        let state = booking.state();
        let plane = booking.data_plane.into_iter().next().unwrap_or_default();
        let provision = plane.provision_state();
        let v1::DataPlane { active, version_consistent: consistent, handle, trouble, .. } = plane;
        Some(ShownBooking { state, provision, active, consistent, handle, trouble })
    }

    /// The name that the equipment has for a booking.
    pub(crate) async fn handle(&self, order: &Order) -> String {
        until("the booking has a handle", PATIENCE, async || {
            let told = self.told(&order.txn).await.unwrap_or_default();
            if told.handle.is_empty() { Err(format!("{told:?}")) } else { Ok(told.handle) }
        })
        .await
    }

    /// All that it has logged.
    pub(crate) fn log(&self) -> String {
        std::fs::read_to_string(self.folder.join("manager.log")).unwrap_or_default()
    }
}

impl Order {
    /// An order of the coordinator, from `start` to `end` seconds from now.
    pub(crate) fn new(resource: &'static str, number: u32, start: i64, end: i64) -> Self {
        let now = now();
        Self {
            txn: format!("grc-t-{number}/{number}"),
            replaces: String::new(),
            resource,
            amount: 0,
            servers: Vec::new(),
            window: (now + start, now + end),
        }
    }

    /// Its servers, which have 4 CPUs each.
    pub(crate) fn on(self, servers: &[&'static str]) -> Self {
        Self { amount: 4 * servers.len() as u64, servers: servers.to_vec(), ..self }
    }

    /// Its rate in Mbit/s.
    pub(crate) fn at(self, mbps: u64) -> Self {
        Self { amount: mbps * 1_000_000, ..self }
    }

    /// A change of it, with the same window.
    pub(crate) fn changed(&self, number: u32) -> Self {
        let txn = format!("grc-t-{number}/{number}");
        Self { txn, replaces: self.txn.clone(), ..self.clone() }
    }

    pub(crate) fn request(&self) -> v1::HoldRequest {
        let instant = |seconds| coalloc_proto::Timestamp { seconds, nanos: 0 };
        let (start, end) = (Some(instant(self.window.0)), Some(instant(self.window.1)));
        let window = Some(v1::Window { start, end });
        let (resource, amount) = (self.resource.to_owned(), self.amount);
        let whole = |server: &&str| format!("{}/{server}", self.resource);
        let picked: Vec<String> = self.servers.iter().map(whole).collect();
        v1::HoldRequest {
            transaction: self.txn.clone(),
            coordinator: "grc".to_owned(),
            user: "alice".to_owned(),
            segments: vec![v1::Segment { resource, amount, window, ..Default::default() }],
            replaces: self.replaces.clone(),
            servers: (!picked.is_empty()).then(|| v1::ServerWish { picked, ..Default::default() }),
            ..Default::default()
        }
    }
}

impl Drop for Manager {
    fn drop(&mut self) {
        if let Some(mut child) = self.child.take() {
            let _ = child.kill();
            let _ = child.wait();
        }
        if std::thread::panicking() {
            let log = self.log();
            let lines: Vec<&str> = log.lines().rev().take(LINES_SHOWN).collect();
            for line in lines.iter().rev() {
                eprintln!("{line}");
            }
        }
    }
}

/// The present second since 1970.
pub(crate) fn now() -> i64 {
    coalloc_net::clock::now().wall.as_us() / 1_000_000
}

/// Looks until there is something, and returns it. If there never is, fails with what was last seen instead.
pub(crate) async fn until<T>(
    what: &str,
    patience: Duration,
    mut look: impl AsyncFnMut() -> Result<T, String>,
) -> T {
    let begun = Instant::now();
    loop {
        match look().await {
            Ok(found) => return found,
            Err(seen) => assert!(begun.elapsed() < patience, "never: {what}; {seen}"),
        }
        tokio::time::sleep(PAUSE).await;
    }
}
