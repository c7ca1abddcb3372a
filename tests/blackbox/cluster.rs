//! The daemons of a run: every connection between two daemons goes over a relay, and one daemon may have a
//! small disk.

use std::path::PathBuf;
use std::process::Command;
use std::sync::Arc;

use coalloc_cli::testbed::audit::Places;
use coalloc_net::client::Dialer;

use crate::harness::{Federation, free_port};
use crate::relay::Link;

/// How the coordinators are arranged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Shape {
    /// One coordinator over all resource managers.
    One,
    /// Two coordinators over the same resource managers.
    Rivals,
    /// One parent coordinator over two child coordinators, each with its own resource managers.
    Tree,
}

/// Hold policies under which resource managers soon ask about holds.
///
/// Where `mixed` outcomes are wanted, holds also end soon: a resource manager that is paused for longer
/// gets its Commit too late.
const SOON: &str = "{hold_soft: 2s, hold_hard: 10s}";
const SOFT: &str = "{hold_soft: 2s}";
/// Disk space for the ledger of the longest run, and for the file that fills the disk.
const DISK_MB: u32 = 64;

/// The daemons of a run.
pub(crate) struct Cluster {
    /// The disk comes first, so that it is unmounted before its folder is removed.
    pub(crate) disk: Option<Disk>,
    pub(crate) federation: Federation,
    /// Resource managers first, then coordinators, the parent coordinator last.
    pub(crate) names: Vec<String>,
    /// The coordinators that customers ask.
    pub(crate) asked: Vec<String>,
    pub(crate) links: Vec<Arc<Link>>,
}

/// A resource manager, its inventory, and its coordinators.
struct Manager {
    name: &'static str,
    inventory: &'static str,
    over: &'static [&'static str],
}

const A: &str = "sites: [{name: A, cpus: 100}]";
const B: &str = "sites: [{name: B, cpus: 100}]";
const PATH: &str = "paths: [{name: A-B, a: A, b: B, capacity_bps: 1000000000}]";
const PATH_1: &str = "paths: [{name: A-X, a: A, b: X, capacity_bps: 1000000000}]";
const PATH_2: &str = "paths: [{name: B-X, a: B, b: X, capacity_bps: 1000000000}]";

impl Shape {
    fn managers(self) -> Vec<Manager> {
        let of = |name, inventory, over| Manager { name, inventory, over };
        match self {
            Self::One => {
                vec![of("crm-A", A, &["grc"]), of("crm-B", B, &["grc"]), of("nrm", PATH, &["grc"])]
            }
            Self::Rivals => {
                let both: &[&str] = &["grc-1", "grc-2"];
                vec![of("crm-A", A, both), of("crm-B", B, both), of("nrm", PATH, both)]
            }
            Self::Tree => vec![
                of("crm-A", A, &["grc-1"]),
                of("nrm-1", PATH_1, &["grc-1"]),
                of("crm-B", B, &["grc-2"]),
                of("nrm-2", PATH_2, &["grc-2"]),
            ],
        }
    }

    const fn coordinators(self) -> &'static [&'static str] {
        match self {
            Self::One => &["grc"],
            Self::Rivals => &["grc-1", "grc-2"],
            Self::Tree => &["grc-1", "grc-2", "grc"],
        }
    }

    /// Every coordinator with each daemon directly below it.
    fn edges(self) -> Vec<(&'static str, &'static str)> {
        let managers = self.managers();
        let mut edges: Vec<(&str, &str)> =
            managers.iter().flat_map(|one| one.over.iter().map(|over| (*over, one.name))).collect();
        if self == Self::Tree {
            edges.extend([("grc", "grc-1"), ("grc", "grc-2")]);
        }
        edges
    }
}

impl Cluster {
    /// Starts all daemons and waits until the federation is complete.
    ///
    /// With `disk`, the first NRM's ledger is on a small disk.
    pub(crate) async fn start(shape: Shape, seed: u64, disk: bool) -> Self {
        let mut federation = Federation::prepare();
        federation.tied = true;
        federation.addresses.clear();
        let managers = shape.managers();
        let names: Vec<String> = managers
            .iter()
            .map(|one| one.name)
            .chain(shape.coordinators().iter().copied())
            .map(str::to_owned)
            .collect();
        for name in &names {
            federation.addresses.insert(name.clone(), format!("127.0.0.1:{}", free_port()));
        }
        let disk = if disk { Disk::mount(federation.dir.path().join("disk")) } else { None };
        let mut cluster = Self { disk, federation, names, asked: Vec::new(), links: Vec::new() };
        cluster.asked = match shape {
            Shape::One | Shape::Tree => vec!["grc".to_owned()],
            Shape::Rivals => vec!["grc-1".to_owned(), "grc-2".to_owned()],
        };
        cluster.configure(shape, seed).await;
        for name in cluster.names.clone() {
            cluster.spawn(&name);
        }
        cluster.complete().await;
        cluster
    }

    async fn configure(&mut self, shape: Shape, seed: u64) {
        let mut peers = std::collections::BTreeMap::new();
        for (number, (upper, lower)) in (0..).zip(shape.edges()) {
            for (turn, (from, to)) in [(upper, lower), (lower, upper)].into_iter().enumerate() {
                let name = format!("{from}>{to}");
                let listen = format!("127.0.0.1:{}", free_port());
                let to = &self.federation.addresses[to];
                // Every link has its own random stream.
                let seed = seed.wrapping_mul(1_000).wrapping_add(2 * number + turn as u64);
                self.links.push(Link::start(name.clone(), seed, &listen, to).await);
                peers.insert(name, listen);
            }
        }
        let peer = |from: &str, to: &str| {
            format!("{{name: {to}, address: \"{}\"}}", peers[&format!("{from}>{to}")])
        };
        let over = |name: &str| -> String {
            let all = shape.edges().into_iter().filter(|(_, lower)| *lower == name);
            all.map(|(upper, _)| peer(name, upper)).collect::<Vec<_>>().join(", ")
        };
        let daemon = |name: &str| {
            let on_disk = self.disk.is_some() && name == self.on_disk();
            let folder = if on_disk { "disk/" } else { "" };
            let listen = &self.federation.addresses[name];
            format!(
                "daemon: {{insecure_plaintext: true, listen: \"{listen}\", ledger: {folder}{name}.ledger}}\n"
            )
        };
        for Manager { name, inventory, over: above } in shape.managers() {
            let policy = if shape == Shape::One { SOON } else { SOFT };
            let domain = if shape == Shape::Tree { above[0] } else { "D" };
            let text = format!(
                "{}coordinators: [{}]\npolicy: {policy}\n\
                 inventory: {{name: {name}, domain: {domain}, {inventory}}}\n",
                daemon(name),
                over(name)
            );
            self.federation.write(&format!("{name}.yaml"), &text);
        }
        for name in shape.coordinators() {
            let below = shape.edges().into_iter().filter(|(upper, _)| upper == name);
            let below: Vec<String> = below.map(|(_, lower)| peer(name, lower)).collect();
            let mut text = format!(
                "{}name: {name}\nresource_managers: [{}]\n",
                daemon(name),
                below.join(", ")
            );
            if !over(name).is_empty() {
                text += &format!(
                    "upward: {{domain: {name}, coordinators: [{}], border_points: [X], policy: {SOFT}}}\n",
                    over(name)
                );
            }
            self.federation.write(&format!("{name}.yaml"), &text);
        }
    }

    /// The daemon whose ledger is on the small disk, if there is one.
    pub(crate) fn on_disk(&self) -> &str {
        let nrm = self.names.iter().find(|name| name.starts_with("nrm"));
        nrm.map(String::as_str).unwrap_or_default()
    }

    pub(crate) fn spawn(&mut self, name: &str) {
        let mut command = self.federation.command(name);
        if std::env::var_os("COALLOC_LOG").is_none() {
            // With thousands of requests, a log of each would hide what matters.
            command.env("COALLOC_LOG", "warn");
        }
        self.federation.adopt(name, command.spawn().unwrap());
    }

    /// Waits until the coordinators that customers ask see all daemons completely.
    pub(crate) async fn complete(&self) {
        use coalloc_proto::v1;
        let count = |shown: &v1::DescribeResponse| shown.sites.len() + shown.paths.len();
        crate::harness::eventually("the federation is complete", || async {
            for name in &self.asked {
                let address = &self.federation.addresses[name];
                let mut client =
                    coalloc_cli::kit::rpc::coordinator(&Dialer::plain_text(), address).unwrap();
                let answer = client.describe_federation(v1::DescribeFederationRequest {}).await;
                let Ok(answer) = answer else { return false };
                let whole = answer.into_inner().resource_managers.iter().all(|member| {
                    let shown = member.description.as_ref();
                    // A child coordinator shows at least a site and a path.
                    let least = if member.name.starts_with("grc") { 2 } else { 1 };
                    member.reachable && shown.is_some_and(|shown| count(shown) >= least)
                });
                if !whole {
                    return false;
                }
            }
            true
        })
        .await;
    }

    /// The addresses for the auditor: those of the daemons themselves, without the relays.
    pub(crate) fn places(&self) -> Places {
        let (coordinators, managers) =
            self.names.iter().partition::<Vec<&String>, _>(|name| name.starts_with("grc"));
        let at = |names: &[&String]| -> Vec<String> {
            names.iter().map(|name| self.federation.addresses[*name].clone()).collect()
        };
        // A child coordinator is also found as a resource manager, at its own address.
        let lower = coordinators.iter().filter(|name| !self.asked.contains(name));
        let lower: Vec<&String> = lower.copied().collect();
        let managers = [at(&managers), at(&lower)].concat();
        Places { coordinators: at(&coordinators), managers, ..Places::default() }
    }

    /// The addresses for customers.
    pub(crate) fn entrances(&self) -> Vec<String> {
        self.asked.iter().map(|name| self.federation.addresses[name].clone()).collect()
    }
}

/// A separate file system in memory; dropping this value unmounts it.
pub(crate) struct Disk {
    folder: PathBuf,
}

impl Disk {
    /// Returns `None` where mounting is not allowed, and prints why.
    fn mount(folder: PathBuf) -> Option<Self> {
        std::fs::create_dir(&folder).unwrap();
        let size = format!("size={DISK_MB}m");
        let output =
            Command::new("mount").args(["-t", "tmpfs", "-o", &size, "tmpfs"]).arg(&folder).output();
        match output {
            Ok(output) if output.status.success() => Some(Self { folder }),
            Ok(output) => {
                let why = String::from_utf8_lossy(&output.stderr);
                println!("no full disks in this run: tmpfs cannot be mounted: {}", why.trim());
                None
            }
            Err(error) => {
                println!("no full disks in this run: no mount: {error}");
                None
            }
        }
    }

    /// Fills the disk to the last byte; returns how many bytes were written.
    pub(crate) fn fill(&self) -> u64 {
        use std::io::Write as _;
        let mut ballast = std::fs::File::create(self.folder.join("ballast")).unwrap();
        let mut bytes = 0;
        // Large pieces are written first, then smaller ones for the rest.
        for size in [1 << 20, 4_096, 1] {
            let piece = vec![0; size];
            while ballast.write_all(&piece).is_ok() {
                bytes += size as u64;
            }
        }
        bytes
    }

    pub(crate) fn free(&self) {
        std::fs::remove_file(self.folder.join("ballast")).unwrap();
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        // The unmount is lazy, because a daemon may still be ending on this disk.
        let _ = Command::new("umount").arg("-l").arg(&self.folder).status();
    }
}
