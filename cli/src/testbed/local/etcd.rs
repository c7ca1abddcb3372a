//! Members of etcd on this machine, for federations whose coordinator's ledger is shared, and lines to them that can be
//! cut.

use std::fs::File;
use std::net::Ipv4Addr;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Instant;

use rustix::process::{Pid, Signal, kill_process};
use tokio::net::TcpStream;

use super::ports;
use crate::kit::exit::Failure;
use crate::user::daemons::{PAUSE, START_PATIENCE};

/// A cluster of etcd. Its members are killed when this value is dropped.
#[derive(Debug)]
pub struct EtcdCluster {
    members: Vec<Child>,
    /// Where the members serve clients, as host:port.
    pub addresses: Vec<String>,
}

impl EtcdCluster {
    /// Starts a new cluster of so many members, whose files go to a folder, and waits until all members listen. `program` is etcd; `None`: the one in
    /// the path.
    ///
    /// # Errors
    /// When there is no such program, a member does not come up, or there are not enough free ports.
    pub async fn start(
        folder: &Path,
        program: Option<&Path>,
        members: usize,
    ) -> Result<Self, Failure> {
        let program = program.map_or_else(|| PathBuf::from("etcd"), Path::to_owned);
        let ports = ports::free(2 * members)?;
        let (clients, peers) = ports.split_at(members);
        let url = |port: &u16| format!("http://127.0.0.1:{port}");
        let names = peers.iter().zip(1..).map(|(peer, n)| format!("etcd-{n}={}", url(peer)));
        let all = names.collect::<Vec<_>>().join(",");
        let mut cluster = Self {
            members: Vec::new(),
            addresses: clients.iter().map(|port| format!("127.0.0.1:{port}")).collect(),
        };
        for (n, (client, peer)) in (1..).zip(clients.iter().zip(peers)) {
            let name = format!("etcd-{n}");
            let failed = |error: std::io::Error| {
                Failure::bad_input(format!(
                    "{}: {error}; install etcd (Debian: etcd-server), or say where it is with --etcd FILE",
                    program.display()
                ))
            };
            let log = File::create(folder.join(format!("{name}.log"))).map_err(failed)?;
            let child = Command::new(&program)
                .args(["--name", &name])
                .arg("--data-dir")
                .arg(folder.join(&name))
                .args([
                    "--listen-client-urls",
                    &url(client),
                    "--advertise-client-urls",
                    &url(client),
                ])
                .args([
                    "--listen-peer-urls",
                    &url(peer),
                    "--initial-advertise-peer-urls",
                    &url(peer),
                ])
                .args(["--initial-cluster", &all, "--initial-cluster-state", "new"])
                .args(["--auto-compaction-mode", "periodic", "--auto-compaction-retention", "10m"])
                .process_group(0)
                .stdin(Stdio::null())
                .stdout(Stdio::null())
                .stderr(log)
                .spawn();
            cluster.members.push(child.map_err(failed)?);
        }
        let problem = format!("etcd does not listen; its logs are in {}", folder.display());
        wait_listening(ports, &problem).await?;
        Ok(cluster)
    }
}

/// The line of one process to all members of etcd: a relay, which forwards nothing while it is stopped. It is killed when this
/// value is dropped.
#[derive(Debug)]
pub struct EtcdLine {
    relay: Child,
    /// Where the process reaches the members, as host:port.
    pub addresses: Vec<String>,
}

impl EtcdLine {
    /// Lays a line to these members.
    ///
    /// # Errors
    /// When the relay cannot be started, or there are not enough free ports.
    pub async fn lay(members: &[String]) -> Result<Self, Failure> {
        let ports = ports::free(members.len())?;
        let addresses: Vec<String> = ports.iter().map(|port| format!("127.0.0.1:{port}")).collect();
        let routes = addresses.iter().zip(members).map(|(here, to)| format!("{here}={to}"));
        let failed = |error: std::io::Error| Failure::internal(format!("no relay: {error}"));
        let relay = Command::new(std::env::current_exe().map_err(failed)?)
            .arg("relay")
            .args(routes)
            .process_group(0)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .map_err(failed)?;
        let line = Self { relay, addresses };
        wait_listening(ports, "the relay does not listen").await?;
        Ok(line)
    }

    /// Cuts the line: nothing passes, and nobody is told.
    ///
    /// # Errors
    /// When the relay has ended.
    pub fn cut(&self) -> Result<(), Failure> {
        self.signal(Signal::STOP)
    }

    /// Mends the line.
    ///
    /// # Errors
    /// When the relay has ended.
    pub fn mend(&self) -> Result<(), Failure> {
        self.signal(Signal::CONT)
    }

    fn signal(&self, signal: Signal) -> Result<(), Failure> {
        kill_process(Pid::from_child(&self.relay), signal)
            .map_err(|error| Failure::internal(format!("the relay: {error}")))
    }
}

impl Drop for EtcdLine {
    fn drop(&mut self) {
        let _ = self.relay.kill();
        let _ = self.relay.wait();
    }
}

/// Waits until somebody listens on each of these ports: whoever takes free ports next must find these in use.
async fn wait_listening(ports: Vec<u16>, problem: &str) -> Result<(), Failure> {
    let end = Instant::now() + START_PATIENCE;
    for port in ports {
        while TcpStream::connect((Ipv4Addr::LOCALHOST, port)).await.is_err() {
            if Instant::now() > end {
                return Err(Failure::internal(problem));
            }
            tokio::time::sleep(PAUSE).await;
        }
    }
    Ok(())
}

impl Drop for EtcdCluster {
    fn drop(&mut self) {
        for member in &mut self.members {
            let _ = member.kill();
            let _ = member.wait();
        }
    }
}
