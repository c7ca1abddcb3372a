//! The daemons of a federation as processes: starts them, waits for them, and stops them in any case.

use std::fs::File;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use coalloc_common::Identity;
use coalloc_net::client::Dialer;
use coalloc_proto::v1;
use rustix::process::{Pid, Signal, kill_process};
use tonic_health::pb::health_check_response::ServingStatus;
use tonic_health::pb::health_client::HealthClient;
use tonic_health::pb::{HealthCheckRequest, HealthCheckResponse};

use crate::kit::exit::Failure;
use crate::kit::rpc::{self, Coordinator};
use crate::kit::text;
use crate::user::serve::Kind;

/// Timeout for the start of all daemons together.
pub const START_PATIENCE: Duration = Duration::from_secs(60);
/// Timeout for one health check.
const CHECK_PATIENCE: Duration = Duration::from_secs(2);
/// How long the daemons may take to stop after SIGTERM.
const STOP_PATIENCE: Duration = Duration::from_secs(15);
/// Number of lines of a log that are shown when its daemon failed.
const TAIL_LINES: usize = 15;
/// Pause between two checks.
pub const PAUSE: Duration = Duration::from_millis(50);

/// One daemon to start.
#[derive(Debug, Clone)]
pub struct Post {
    /// The name in the federation.
    pub name: String,
    /// The kind of daemon.
    pub kind: Kind,
    /// host:port.
    pub address: String,
    /// host:port of the daemon's metrics, if it serves any.
    pub metrics: Option<String>,
    /// host:port where a coordinator answers over HTTP, if it does.
    pub web: Option<String>,
    /// The configuration file.
    pub config: PathBuf,
    /// The file that gets the daemon's standard error.
    pub log: PathBuf,
    /// Who the daemon is, and the folder with its identity, relative to the configuration; `None` in plain text.
    pub identity: Option<(Identity, PathBuf)>,
    /// Connects to the daemon as the operator.
    pub dialer: Dialer,
    /// Whether the process shares a ledger, so that it may run without serving.
    pub may_stand_by: bool,
}

impl Post {
    /// Connects to other daemons as this daemon would.
    ///
    /// # Errors
    /// When its identity cannot be read.
    pub fn as_itself(&self) -> Result<Dialer, Failure> {
        let Some((_, folder)) = &self.identity else { return Ok(Dialer::plain_text()) };
        rpc::dialer_of(&self.config.parent().unwrap_or(Path::new(".")).join(folder))
    }
}

/// Processes that are stopped when this value is dropped, unless they are kept.
#[derive(Debug, Default)]
pub struct Daemons {
    running: Vec<Running>,
}

#[derive(Debug)]
struct Running {
    post: Post,
    child: Child,
    ended: Option<ExitStatus>,
}

impl Daemons {
    /// Starts one daemon. With `tied`, the daemon is told to stop when this process dies without stopping it.
    ///
    /// # Errors
    /// When the process cannot be started.
    pub fn start(&mut self, post: Post, tied: bool) -> Result<(), Failure> {
        let failed = |error: std::io::Error| {
            Failure::internal(format!("{} could not be started: {error}", post.name))
        };
        let program = std::env::current_exe().map_err(failed)?;
        let log = File::options().create(true).append(true).open(&post.log).map_err(failed)?;
        let mut command = Command::new(program);
        command.arg("serve").arg(post.kind.name()).arg("--config").arg(&post.config);
        if tied {
            command.arg("--with-parent").arg(std::process::id().to_string());
        }
        // The daemon gets its own process group: Ctrl-C goes only to this process, which then stops the daemons
        // in order.
        command.process_group(0).stdin(Stdio::null());
        command.stdout(log.try_clone().map_err(failed)?).stderr(log);
        let child = command.spawn().map_err(failed)?;
        self.running.push(Running { post, child, ended: None });
        Ok(())
    }

    /// Waits until every daemon says that it serves, or that it stands by where it may.
    ///
    /// # Errors
    /// When a daemon ends or the timeout passes, with the end of the daemon's log.
    pub async fn wait_serving(&mut self) -> Result<(), Failure> {
        let end = Instant::now() + START_PATIENCE;
        for index in 0..self.running.len() {
            let post = &self.running[index].post;
            let is_enough = if post.may_stand_by { is_running } else { is_serving };
            let mut health = HealthClient::new(post.dialer.channel("listen", &post.address)?);
            loop {
                self.check_alive()?;
                let answer = health.check(HealthCheckRequest::default());
                let answer = tokio::time::timeout(CHECK_PATIENCE, answer).await;
                if answer.is_ok_and(|answer| answer.is_ok_and(|it| is_enough(it.get_ref()))) {
                    break;
                }
                if Instant::now() > end {
                    let name = &self.running[index].post.name;
                    let seconds = START_PATIENCE.as_secs();
                    let problem = format!("{name} does not serve after {seconds} s");
                    return Err(self.explain(index, &problem));
                }
                tokio::time::sleep(PAUSE).await;
            }
        }
        Ok(())
    }

    /// Checks that no daemon has ended.
    ///
    /// # Errors
    /// When a daemon has ended, with the end of its log.
    pub fn check_alive(&mut self) -> Result<(), Failure> {
        for index in 0..self.running.len() {
            let running = &mut self.running[index];
            if let Some(status) = running.poll() {
                let problem = format!("{} ended: {status}", running.post.name);
                return Err(self.explain(index, &problem));
            }
        }
        Ok(())
    }

    fn explain(&self, index: usize, problem: &str) -> Failure {
        let log = &self.running[index].post.log;
        let tail = tail(log);
        let text = if tail.is_empty() { "(nothing)".to_owned() } else { tail };
        Failure::internal(format!("{problem}\nthe end of {}:\n{text}", log.display()))
    }

    /// Stops a daemon from running until it is killed: nobody gets an answer from it.
    ///
    /// # Errors
    /// When no daemon of this name runs.
    pub fn pause(&mut self, name: &str) -> Result<(), Failure> {
        let index = self.index_of(name)?;
        let pid = Pid::from_child(&self.running[index].child);
        kill_process(pid, Signal::STOP)
            .map_err(|error| Failure::internal(format!("{name} could not be paused: {error}")))
    }

    /// Lets a daemon go on that was paused.
    ///
    /// # Errors
    /// When no daemon of this name runs.
    pub fn go_on(&mut self, name: &str) -> Result<(), Failure> {
        let index = self.index_of(name)?;
        let pid = Pid::from_child(&self.running[index].child);
        kill_process(pid, Signal::CONT)
            .map_err(|error| Failure::internal(format!("{name} could not go on: {error}")))
    }

    /// Waits until a daemon has ended by itself. Returns what is needed to start it again.
    ///
    /// # Errors
    /// When no daemon of this name runs, or it does not end within `patience`.
    pub async fn wait_end(&mut self, name: &str, patience: Duration) -> Result<Post, Failure> {
        let (index, end) = (self.index_of(name)?, Instant::now() + patience);
        while self.running[index].poll().is_none() {
            if Instant::now() > end {
                return Err(self.explain(index, &format!("{name} goes on")));
            }
            tokio::time::sleep(PAUSE).await;
        }
        Ok(self.running.remove(index).post)
    }

    /// Kills a daemon at once (SIGKILL). Returns what is needed to start it again.
    ///
    /// # Errors
    /// When no daemon of this name runs.
    pub fn kill(&mut self, name: &str) -> Result<Post, Failure> {
        let index = self.index_of(name)?;
        let mut running = self.running.remove(index);
        let _ = running.child.kill();
        let _ = running.child.wait();
        Ok(running.post)
    }

    fn index_of(&self, name: &str) -> Result<usize, Failure> {
        let found = self.running.iter().position(|running| running.post.name == name);
        found.ok_or_else(|| Failure::internal(format!("no daemon {name} runs")))
    }

    /// The process ids, in the order of starting.
    #[must_use]
    pub fn pids(&self) -> Vec<u32> {
        self.running.iter().map(|running| running.child.id()).collect()
    }

    /// Lets the processes continue after this process ends.
    pub fn keep(mut self) {
        self.running.clear();
    }

    /// Stops every daemon that still runs: SIGTERM, a timeout, then SIGKILL.
    ///
    /// Returns the names of the daemons that had to be killed.
    pub fn stop(&mut self) -> Vec<String> {
        for running in &mut self.running {
            if running.poll().is_none() {
                // The process id is still valid, because its exit status was not collected yet.
                let _ = kill_process(Pid::from_child(&running.child), Signal::TERM);
            }
        }
        let end = Instant::now() + STOP_PATIENCE;
        while Instant::now() < end && self.running.iter_mut().any(|one| one.poll().is_none()) {
            std::thread::sleep(Duration::from_millis(10));
        }
        let mut killed = Vec::new();
        for running in &mut self.running {
            if running.poll().is_none() {
                killed.push(running.post.name.clone());
                let _ = running.child.kill();
                let _ = running.child.wait();
            }
        }
        self.running.clear();
        killed
    }
}

impl Drop for Daemons {
    fn drop(&mut self) {
        self.stop();
    }
}

impl Running {
    /// How the process ended, if it has.
    fn poll(&mut self) -> Option<ExitStatus> {
        if self.ended.is_none() {
            // An error means that there is no such process, so there is nothing to stop either.
            self.ended = self.child.try_wait().unwrap_or(Some(ExitStatus::default()));
        }
        self.ended
    }
}

/// Waits until the coordinator reaches every resource manager.
///
/// # Errors
/// When a daemon ends, or the coordinator does not reach all of them in time.
pub(crate) async fn wait_reachable(
    client: &mut Coordinator,
    daemons: &mut Daemons,
) -> Result<(), Failure> {
    let end = Instant::now() + START_PATIENCE;
    loop {
        daemons.check_alive()?;
        let answer = client.describe_federation(v1::DescribeFederationRequest {}).await;
        let problems = match answer {
            Err(status) => vec![format!("grc: {}", status.message())],
            Ok(answer) => {
                let managers = answer.into_inner().resource_managers.into_iter();
                let lost = managers.filter(|manager| !manager.reachable);
                lost.map(|manager| format!("{}: {}", manager.name, manager.problem)).collect()
            }
        };
        if problems.is_empty() {
            return Ok(());
        }
        if Instant::now() > end {
            let seconds = START_PATIENCE.as_secs();
            let problems = problems.join("\n");
            let text =
                format!("not all resource managers are reachable after {seconds} s\n{problems}");
            return Err(Failure::internal(text));
        }
        tokio::time::sleep(PAUSE).await;
    }
}

/// Returns when a daemon ends that should not.
pub(crate) async fn first_death(daemons: &mut Daemons) -> Failure {
    loop {
        tokio::time::sleep(PAUSE).await;
        if let Err(failure) = daemons.check_alive() {
            return failure;
        }
    }
}

/// Stops the daemons, and prints which of them had to be killed.
pub(crate) fn stop(daemons: &mut Daemons) {
    let killed = daemons.stop();
    if !killed.is_empty() {
        let names = text::enumerate(&killed);
        text::note(&format!("did not stop when asked and had to be killed: {names}"));
    }
}

fn is_running(answer: &HealthCheckResponse) -> bool {
    matches!(answer.status(), ServingStatus::Serving | ServingStatus::NotServing)
}

fn is_serving(answer: &HealthCheckResponse) -> bool {
    answer.status() == ServingStatus::Serving
}

/// The last lines of a log.
fn tail(log: &Path) -> String {
    let text = std::fs::read(log).unwrap_or_default();
    let text = String::from_utf8_lossy(&text);
    let lines: Vec<&str> = text.lines().collect();
    lines[lines.len().saturating_sub(TAIL_LINES)..].join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kit::exit::Exit;

    fn post(folder: &Path) -> Post {
        Post {
            name: "crm-Z".into(),
            kind: Kind::Crm,
            address: "127.0.0.1:1".into(),
            metrics: None,
            web: None,
            config: folder.join("none.json"),
            log: folder.join("none.log"),
            identity: None,
            dialer: Dialer::plain_text(),
            may_stand_by: false,
        }
    }

    /// Under `cargo test` the running program is the test program, which has no command `serve`.
    #[tokio::test]
    async fn a_daemon_that_ends_at_once_is_reported_with_the_end_of_its_log() {
        let folder = tempfile::tempdir().unwrap();
        let mut daemons = Daemons::default();
        daemons.start(post(folder.path()), false).unwrap();
        let failure = daemons.wait_serving().await.unwrap_err();
        assert_eq!(failure.exit, Exit::Failed);
        assert!(failure.message.contains("crm-Z ended"), "{failure}");
        assert!(failure.message.contains("none.log"), "{failure}");
        assert!(failure.message.contains("config"), "its last words are shown: {failure}");
    }

    #[test]
    fn what_runs_is_stopped_with_its_owner() {
        let child = Command::new("sleep").arg("600").spawn().unwrap();
        let pid = Pid::from_child(&child);
        let folder = tempfile::tempdir().unwrap();
        let running = Running { post: post(folder.path()), child, ended: None };
        drop(Daemons { running: vec![running] });
        assert!(rustix::process::test_kill_process(pid).is_err(), "it is gone");
    }
}
