//! Real etcd members on this machine.

use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU16, Ordering};
use std::time::{Duration, Instant};

use coalloc_etcd::Etcd;
use tonic::transport::Endpoint;

/// How long a call waits for its answer.
const PATIENCE: Duration = Duration::from_secs(2);
/// How long members may take until one of them leads.
const START: Duration = Duration::from_secs(60);

/// The members of one cluster. They are killed when this is dropped.
pub(crate) struct Cluster {
    folder: tempfile::TempDir,
    /// The port of each member for clients, and the one for the other members.
    ports: Vec<(u16, u16)>,
    members: Vec<Option<Child>>,
}

/// Where etcd is installed; `None` if it is not, and need not be.
fn program() -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let found = std::env::split_paths(&path).map(|folder| folder.join("etcd"));
    let found = found.into_iter().find(|program| program.is_file());
    let must = std::env::var_os("COALLOC_ETCD").is_some_and(|wanted| wanted == "1");
    assert!(found.is_some() || !must, "COALLOC_ETCD is 1, and etcd is not installed");
    found
}

/// Ports that nobody listens on, below those that the system gives to connections: such a connection could take the port of a
/// member that was killed.
fn free_ports(count: usize) -> Vec<u16> {
    const PORTS: std::ops::Range<u16> = 12_000..20_000;
    static NEXT: AtomicU16 = AtomicU16::new(0);
    let next = |_| loop {
        let next = std::process::id() as u16 ^ NEXT.fetch_add(1, Ordering::Relaxed);
        let port = PORTS.start + next % (PORTS.end - PORTS.start);
        if TcpListener::bind(("127.0.0.1", port)).is_ok() {
            return port;
        }
    };
    (0..count).map(next).collect()
}

impl Cluster {
    /// Starts so many members, and waits until they have a leader; `None` if etcd is not installed.
    pub(crate) async fn start(members: usize) -> Option<Self> {
        let Some(program) = program() else {
            eprintln!("skipped: etcd is not installed");
            return None;
        };
        let ports = free_ports(2 * members);
        let ports: Vec<(u16, u16)> = ports.chunks(2).map(|pair| (pair[0], pair[1])).collect();
        let folder = tempfile::tempdir().unwrap();
        let mut cluster = Self { folder, ports, members: Vec::new() };
        for member in 0..members {
            let child = cluster.spawn(&program, member);
            cluster.members.push(Some(child));
        }
        let begun = Instant::now();
        let etcd = cluster.client();
        while !etcd.status().await.is_ok_and(|status| status.has_leader) {
            assert!(begun.elapsed() < START, "etcd did not start");
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        Some(cluster)
    }

    fn spawn(&self, program: &Path, member: usize) -> Child {
        let url = |port: u16| format!("http://127.0.0.1:{port}");
        let (clients, peers) = self.ports[member];
        let cluster = self.ports.iter().zip(0..);
        let cluster = cluster.map(|((_, peers), number)| format!("m{number}={}", url(*peers)));
        let cluster: Vec<String> = cluster.collect();
        let log = std::fs::File::create(self.folder.path().join(format!("m{member}.log"))).unwrap();
        Command::new(program)
            .args(["--name", &format!("m{member}")])
            .arg("--data-dir")
            .arg(self.folder.path().join(format!("m{member}")))
            .args(["--listen-client-urls", &url(clients), "--advertise-client-urls", &url(clients)])
            .args(["--listen-peer-urls", &url(peers), "--initial-advertise-peer-urls", &url(peers)])
            .args(["--initial-cluster", &cluster.join(","), "--initial-cluster-state", "new"])
            .args(["--heartbeat-interval", "100", "--election-timeout", "1000"])
            .stdout(Stdio::null())
            .stderr(log)
            .spawn()
            .unwrap()
    }

    /// A client of all members.
    pub(crate) fn client(&self) -> Etcd {
        let channel = |(clients, _): &(u16, u16)| {
            let url = format!("http://127.0.0.1:{clients}");
            let endpoint = Endpoint::from_shared(url.clone()).unwrap();
            (url, endpoint.connect_timeout(PATIENCE).connect_lazy())
        };
        Etcd::new(self.ports.iter().map(channel).collect(), PATIENCE)
    }

    /// Where the members serve clients, as host:port.
    #[allow(dead_code, reason = "other tests take the rest")]
    pub(crate) fn addresses(&self) -> Vec<String> {
        self.ports.iter().map(|(clients, _)| format!("127.0.0.1:{clients}")).collect()
    }

    /// Kills one member.
    pub(crate) fn kill(&mut self, member: usize) {
        if let Some(mut child) = self.members[member].take() {
            child.kill().unwrap();
            child.wait().unwrap();
        }
    }

    /// Starts a member again that was killed.
    pub(crate) fn restart(&mut self, member: usize) {
        let child = self.spawn(&program().unwrap(), member);
        self.members[member] = Some(child);
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        (0..self.members.len()).for_each(|member| self.kill(member));
    }
}
