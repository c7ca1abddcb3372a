//! A cluster with a driver, and short words for what is wanted of it.

// Clippy takes helpers beside the tests for no tests.
#![allow(clippy::unwrap_used)]

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use coalloc_common::{Amount, CoordinatorName, ResourceId, Time, TransactionId, UserName, Window};
use coalloc_crm::slurm::SlurmSettings;
use coalloc_crm::slurm::testbed::Cluster;
use coalloc_net::clock::{self, Clock};
use coalloc_proto::v1;
use coalloc_protocol::participant::SiteServers;
use coalloc_protocol::participant::equipment::{EquipmentKey, Share, Stage, Want, WantedVersion};
use coalloc_rm::driver::{Driver, Naming};

/// The cluster, and the driver under test.
pub(crate) struct Testbed {
    pub(crate) cluster: Cluster,
    pub(crate) driver: Arc<dyn Driver>,
    _folder: tempfile::TempDir,
}

/// Is the test to use real equipment?
pub(crate) fn is_asked_for() -> bool {
    std::env::var("COALLOC_EQUIPMENT").is_ok_and(|value| value == "1")
}

impl Testbed {
    /// A cluster of n1 to n4; `None`: none is asked for.
    pub(crate) fn start(name: &str) -> Option<Self> {
        if !is_asked_for() {
            println!("skipped: set COALLOC_EQUIPMENT=1 to start a Slurm cluster");
            return None;
        }
        for user in ["alice", "bob"] {
            let known = std::process::Command::new("id").arg(user).output().unwrap();
            assert!(known.status.success(), "no Unix user {user}: run `useradd {user}` as root");
        }
        let folder = tempfile::tempdir().unwrap();
        let cluster = Cluster::start(folder.path(), name, &["n1", "n2", "n3", "n4"], 4).unwrap();
        let driver = driver(&cluster);
        Some(Self { cluster, driver, _folder: folder })
    }

    pub(crate) fn another_driver(&self) -> Arc<dyn Driver> {
        driver(&self.cluster)
    }

    pub(crate) fn want(&self, stage: Stage, versions: Vec<WantedVersion>) -> Want {
        let user = UserName::composed("alice");
        let coordinator = CoordinatorName::composed("grc");
        Want { stage, user, coordinator, versions, reference: None }
    }

    pub(crate) async fn differs(&self, key: &EquipmentKey, want: &Want) -> Option<String> {
        let seen = self.driver.observe(&at(key, want)).await.unwrap();
        seen.present.get(key).unwrap().differs.clone()
    }

    pub(crate) async fn trouble(&self, key: &EquipmentKey, want: &Want) -> Option<String> {
        let seen = self.driver.observe(&at(key, want)).await.unwrap();
        seen.present.get(key).unwrap().trouble.clone()
    }

    pub(crate) async fn assert_as_wanted(&self, key: &EquipmentKey, want: &Want) {
        let seen = self.driver.observe(&at(key, want)).await.unwrap();
        assert!(seen.orphans.is_empty() && seen.intruders.is_empty(), "{seen:?}");
        assert_eq!(seen.present[key].differs, None);
    }

    pub(crate) fn submit(
        &self,
        user: &str,
        reservation: &str,
        minutes: &str,
    ) -> Result<String, String> {
        self.sbatch(user, &[&format!("--reservation={reservation}"), "-t", minutes])
    }

    pub(crate) fn submit_on(
        &self,
        user: &str,
        reservation: &str,
        minutes: &str,
        node: &str,
    ) -> Result<String, String> {
        self.sbatch(user, &[&format!("--reservation={reservation}"), "-t", minutes, "-w", node])
    }

    pub(crate) fn submit_local(
        &self,
        user: &str,
        node: &str,
        minutes: &str,
    ) -> Result<String, String> {
        self.sbatch(user, &["-w", node, "-t", minutes])
    }

    fn sbatch(&self, user: &str, arguments: &[&str]) -> Result<String, String> {
        let mut command = self.cluster.command_as(user, "sbatch");
        command.args(["--parsable", "-n1", "-o", "/dev/null", "--wrap", "sleep 600"]);
        let output = command.args(arguments).output().unwrap();
        let [text, complaint] =
            [output.stdout, output.stderr].map(|one| String::from_utf8(one).unwrap());
        if output.status.success() { Ok(text.trim().to_owned()) } else { Err(complaint) }
    }

    pub(crate) fn state(&self, job: &str) -> String {
        let state = self.cluster.run("squeue", &["-h", "-t", "all", "-j", job, "-o", "%T"]);
        state.unwrap_or_default().trim().to_owned()
    }

    pub(crate) async fn wait_until_running(&self, job: &str) {
        for _ in 0..250 {
            if self.state(job) == "RUNNING" {
                return;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        panic!("the job {job} is {}", self.state(job));
    }

    /// Waits until a node answers the controller again after an operator has resumed it.
    pub(crate) async fn wait_until_answers(&self, node: &str) {
        for _ in 0..250 {
            let state = self.cluster.run("sinfo", &["-h", "-N", "-n", node, "-o", "%T"]).unwrap();
            if !state.contains('*') {
                return;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        panic!("{node} does not answer");
    }

    /// Removes what the controller has written of reservations. It must not run.
    pub(crate) fn forget_reservations(&self) {
        let state = self.cluster.conf().with_file_name("state");
        for file in ["resv_state", "resv_state.old"] {
            if let Err(error) = std::fs::remove_file(state.join(file)) {
                assert_eq!(error.kind(), std::io::ErrorKind::NotFound);
            }
        }
    }

    pub(crate) fn reserve(&self, name: &str, from: i64, to: i64, nodes: &str) {
        let [start, end] = [from, to].map(|second| instant(second).to_string().replace('Z', ""));
        let arguments = [
            format!("ReservationName={name}"),
            format!("StartTime={start}"),
            format!("EndTime={end}"),
            format!("Nodes={nodes}"),
        ];
        let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
        let all = [&["create", "reservation", "Users=root"], &arguments[..]].concat();
        self.cluster.run("scontrol", &all).unwrap();
    }

    /// The names of all reservations.
    pub(crate) fn reservations(&self) -> Vec<String> {
        let text = self.cluster.run("scontrol", &["show", "reservation", "-o"]).unwrap();
        let name = |line: &str| {
            line.strip_prefix("ReservationName=")?.split(' ').next().map(str::to_owned)
        };
        text.lines().filter_map(name).collect()
    }

    pub(crate) fn reservation(&self, name: &str) -> String {
        self.cluster.run("scontrol", &["show", "reservation", "-o", name]).unwrap()
    }
}

fn driver(cluster: &Cluster) -> Arc<dyn Driver> {
    let user = |user: &str, unix_user: &str| v1::SlurmUser {
        user: user.to_owned(),
        unix_user: unix_user.to_owned(),
    };
    let wire = v1::SlurmDriver {
        conf: cluster.conf().display().to_string(),
        bin: String::new(),
        users: vec![user("alice", ""), user("ghost", "nobody-of-that-name")],
    };
    let site = v1::Site { name: "A".to_owned(), ..v1::Site::default() };
    let names = (1..=4).map(|node| ResourceId::composed(format!("A/n{node}"))).collect();
    let servers =
        BTreeMap::from([(ResourceId::composed("A"), SiteServers { cpus_each: 4, names })]);
    let settings = SlurmSettings::parse(&wire, Path::new("/"), &[site], &servers).unwrap();
    settings.driver(Naming::of_ledger("0badcafe-1234"), Clock::system())
}

pub(crate) fn now_us() -> i64 {
    clock::now().wall.as_us()
}

/// The present second since 1970.
pub(crate) fn now() -> i64 {
    now_us() / 1_000_000
}

fn instant(second: i64) -> Time {
    Time::from_us(second * 1_000_000)
}

pub(crate) fn share(from: i64, to: i64, nodes: &str) -> Share {
    let servers: Vec<ResourceId> =
        nodes.split(' ').map(|node| ResourceId::composed(format!("A/{node}"))).collect();
    let window = Window::new(instant(from), instant(to)).unwrap();
    let amount = Amount(4 * servers.len() as u64);
    Share { window, amount, servers, route: Vec::new() }
}

fn transaction(name: &str) -> TransactionId {
    TransactionId::composed(format!("grc-{name}"))
}

pub(crate) fn version(name: &str, is_booked: bool, shares: Vec<Share>) -> WantedVersion {
    WantedVersion { txn: transaction(name), is_booked, is_granted: is_booked, shares }
}

pub(crate) fn alone(name: &str) -> EquipmentKey {
    EquipmentKey { chain: transaction(name), resource: ResourceId::composed("A") }
}

pub(crate) fn at(key: &EquipmentKey, want: &Want) -> BTreeMap<EquipmentKey, Want> {
    BTreeMap::from([(key.clone(), want.clone())])
}

pub(crate) fn of_user(want: Want, user: &str) -> Want {
    Want { user: UserName::composed(user), ..want }
}
