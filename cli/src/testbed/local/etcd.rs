//! Members of etcd on this machine, for federations whose coordinator's ledger is shared.

use std::fs::File;
use std::net::Ipv4Addr;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Instant;

use tokio::net::TcpStream;

use super::daemons::{PAUSE, START_PATIENCE};
use super::ports;
use crate::kit::exit::Failure;

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
        // Whoever takes free ports next must find these in use.
        let end = Instant::now() + START_PATIENCE;
        for port in ports {
            while TcpStream::connect((Ipv4Addr::LOCALHOST, port)).await.is_err() {
                if Instant::now() > end {
                    let text =
                        format!("etcd does not listen; its logs are in {}", folder.display());
                    return Err(Failure::internal(text));
                }
                tokio::time::sleep(PAUSE).await;
            }
        }
        Ok(cluster)
    }
}

impl Drop for EtcdCluster {
    fn drop(&mut self) {
        for member in &mut self.members {
            let _ = member.kill();
            let _ = member.wait();
        }
    }
}
