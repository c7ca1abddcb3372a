//! The containers of the deployment and their networks: started, cut, connected again, asked, and removed.
//!
//! A cut is `docker network disconnect`: the container's interface is gone, no connection over it is closed, and nothing that
//! others send arrives. A container that is connected again may have another address.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use coalloc_cli::kit::rpc;
use coalloc_cli::testbed::local::layout::OPERATOR;
use coalloc_net::client::Dialer;
use coalloc_net::status::is_standby;
use coalloc_proto::v1;
use coalloc_proto::v1::coordinator_client::CoordinatorClient;
use tempfile::TempDir;

use super::etcd::{EtcdImage, EtcdStatus};
use super::files::{self, ETCD, MANAGERS, PROCESSES};
use crate::process::{self, Outcome};
use crate::testbed::{eventually, own_address};

/// Time limit of each command, far above the slowest.
const LIMIT: Duration = Duration::from_secs(120);
/// How long anything may take to come up.
const START: Duration = Duration::from_secs(60);
/// What a process logs when it is elected.
const ELECTED: &str = "this process leads";
/// Patience for one question to a process.
const ASK_PATIENCE: Duration = Duration::from_millis(500);

/// What a process of the coordinator answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ProcessState {
    /// It answers calls.
    Leads,
    /// It says that it stands by.
    StandsBy,
    /// It does not answer, or does not know whether it leads.
    Silent,
}

/// A container in a network.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Connection {
    pub(crate) service: String,
    pub(crate) network: &'static str,
    /// Its name there.
    pub(crate) alias: String,
}

impl Connection {
    pub(crate) fn new(service: &str, network: &'static str, alias: &str) -> Self {
        Self { service: service.to_owned(), network, alias: alias.to_owned() }
    }
}

pub(crate) struct Deployment {
    root: PathBuf,
    folder: TempDir,
    project: String,
    /// An address of loopback, so that the ports do not collide with those of anybody else.
    host: String,
    dialer: Dialer,
    etcd_image: EtcdImage,
}

impl Drop for Deployment {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("{}", self.output("compose ps -a").shown);
            eprintln!("{}", self.output("compose logs --tail 40").shown);
        }
        self.remove();
    }
}

impl Deployment {
    /// Writes all files, and starts nothing.
    pub(crate) fn new(etcd_image: EtcdImage) -> Self {
        let mut deployment = Self {
            root: Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().to_owned(),
            folder: tempfile::tempdir().unwrap(),
            project: format!("coalloc-partitions-{}", std::process::id()),
            host: own_address(),
            dialer: Dialer::plain_text(),
            etcd_image,
        };
        let path = deployment.folder.path();
        files::write(path, &deployment.project, &deployment.host, &deployment.etcd_image.name);
        deployment.run("chmod -R a+rX config etcd etcd-user");
        deployment.own_certificates("65532");
        deployment.dialer = rpc::dialer_of(&deployment.identity()).unwrap();
        deployment
    }

    /// Makes the certificates if there are none, and gives those of daemons to a user.
    fn own_certificates(&self, owner: &str) {
        let image = "${COALLOC_IMAGE:-coalloc:local}";
        self.run(&format!(
            "docker run --rm --user 0 --volume \"$PWD:/testbed\" {image} compose certificates /testbed --owner {owner}"
        ));
    }

    /// The folder with the operator's identity.
    pub(crate) fn identity(&self) -> PathBuf {
        self.folder.path().join(OPERATOR)
    }

    /// The file for what customers are told.
    pub(crate) fn journal(&self) -> PathBuf {
        self.folder.path().join("told.jsonl")
    }

    /// The addresses of both processes of the coordinator on this machine, with a comma between.
    pub(crate) fn coordinator(&self) -> String {
        PROCESSES.map(|(_, port)| self.address(port)).join(",")
    }

    fn address(&self, port: u16) -> String {
        format!("{}:{port}", self.host)
    }

    fn container(&self, service: &str) -> String {
        format!("{}-{service}", self.project)
    }

    fn network(&self, network: &str) -> String {
        format!("{}_{network}", self.project)
    }

    /// Runs a command in the folder of the deployment. `compose` is Compose.
    fn output(&self, line: &str) -> Outcome {
        let program = Path::new(env!("CARGO_BIN_EXE_coalloc"));
        let path = format!(
            "{}:{}:{}",
            program.parent().unwrap().display(),
            self.root.join("deploy/compose").display(),
            std::env::var("PATH").unwrap_or_default()
        );
        let mut shell = Command::new("bash");
        shell.args(["-c", line]).current_dir(self.folder.path()).env("PATH", path);
        shell.env("COMPOSE_PROJECT_NAME", &self.project);
        shell.env("COALLOC_TESTBED", self.folder.path());
        shell.env("COALLOC_GRC", self.coordinator()).env("COALLOC_IDENTITY", self.identity());
        shell.env("COLUMNS", "100");
        process::run(shell, LIMIT)
    }

    /// Runs a command, checks that it succeeds, and returns what it printed to standard output.
    pub(crate) fn run(&self, line: &str) -> String {
        let outcome = self.output(line);
        assert!(outcome.is_success(), "$ {line}\n{}", outcome.shown);
        outcome.stdout.trim().to_owned()
    }

    /// Starts etcd, makes the shared ledger, and starts all daemons.
    pub(crate) async fn start(&self) {
        let members = ETCD.map(|(member, _)| member).join(" ");
        self.run(&format!("compose up --detach {members}"));
        eventually("etcd has a leader", START, || self.etcd_leader(None).is_some()).await;
        self.run("compose run --rm -T grc-a ledger share --config /etc/coalloc/config.json");
        self.run("compose up --detach");
        eventually("the coordinator reaches everyone", START, || {
            self.output("coalloc topology").shown.contains("4 resource managers, 4 reachable")
        })
        .await;
    }

    /// Cuts connections, all at once as far as Docker can.
    pub(crate) fn cut(&self, connections: &[Connection]) {
        let disconnect = |one: &Connection| {
            let (network, container) = (self.network(one.network), self.container(&one.service));
            format!("docker network disconnect {network} {container}")
        };
        let commands: Vec<String> = connections.iter().map(disconnect).collect();
        self.run(&commands.join(" && "));
    }

    /// Makes connections again that were cut.
    pub(crate) async fn heal(&self, connections: &[Connection]) {
        for one in connections {
            let Connection { service, network, alias } = one;
            let (of, container) = (self.network(network), self.container(service));
            // Docker does not connect a container that is just being started again.
            eventually(&format!("{service} is in {network} again"), START, || {
                let connect = format!("docker network connect --alias {alias} {of} {container}");
                self.output(&connect).is_success()
                    || self.network_address(service, network).is_some()
            })
            .await;
        }
    }

    /// The address of a container in a network; `None` if it is not there.
    fn network_address(&self, service: &str, network: &str) -> Option<String> {
        let format =
            "{{range $name, $it := .NetworkSettings.Networks}}{{$name}}={{$it.IPAddress}} {{end}}";
        let all = self.inspect(service, format);
        let wanted = format!("{}=", self.network(network));
        let address = all.split(' ').find_map(|one| one.strip_prefix(&wanted));
        address.filter(|address| !address.is_empty()).map(str::to_owned)
    }

    fn inspect(&self, service: &str, format: &str) -> String {
        self.run(&format!("docker inspect --format '{format}' {}", self.container(service)))
    }

    /// Does anybody listen at a port of a service, as a process of the coordinator sees it over a network? Nobody does while
    /// either of the two is being started again.
    pub(crate) fn reaches(&self, from: &str, to: &str, network: &str, port: u16) -> bool {
        let Some(address) = self.network_address(to, network) else { return false };
        let from = self.container(from);
        self.output(&format!("docker exec {from} /coalloc health --listens {address}:{port}"))
            .is_success()
    }

    /// Asks one process of the coordinator.
    pub(crate) async fn state(&self, process: usize) -> ProcessState {
        let channel = self.dialer.channel("grc", &self.address(PROCESSES[process].1)).unwrap();
        let mut client = CoordinatorClient::new(channel);
        let request = v1::ListRequest { page_size: Some(1), ..v1::ListRequest::default() };
        match tokio::time::timeout(ASK_PATIENCE, client.list(request)).await {
            Ok(Ok(_)) => ProcessState::Leads,
            Ok(Err(status)) if is_standby(&status) => ProcessState::StandsBy,
            Ok(Err(_)) | Err(_) => ProcessState::Silent,
        }
    }

    /// What a member of etcd says of itself; `None` if it does not answer.
    pub(crate) fn etcd_status(&self, member: usize) -> Option<EtcdStatus> {
        EtcdStatus::ask(&self.address(ETCD[member].1))
    }

    /// The member of etcd that leads, other than this one.
    pub(crate) fn etcd_leader(&self, other_than: Option<usize>) -> Option<usize> {
        (0..ETCD.len()).filter(|member| Some(*member) != other_than).find(|member| {
            self.etcd_status(*member).is_some_and(|status| status.leads && status.has_leader)
        })
    }

    /// Compares everything with what customers were told; panics if anything differs.
    pub(crate) fn audit(&self) -> String {
        let managers = MANAGERS.map(|(_, port)| self.address(port)).join(",");
        let journal = self.journal().display().to_string();
        self.run(&format!("coalloc audit --patience 100s --rm {managers} --journal {journal}"))
    }

    /// Checks that nothing has ended but processes of the coordinator that were replaced, each once, and returns how often
    /// one was elected.
    pub(crate) fn elections(&self) -> usize {
        let format = "{{.State.Status}} {{.State.OOMKilled}} {{.RestartCount}}";
        for (service, _) in ETCD.iter().chain(&MANAGERS) {
            assert_eq!(self.inspect(service, format), "running false 0", "{service}");
        }
        let (mut restarts, mut elections) = (0, 0);
        for (process, _) in PROCESSES {
            let state = self.inspect(process, format);
            let count = state.strip_prefix("running false ");
            let count = count.unwrap_or_else(|| panic!("{process}: {state}"));
            restarts += count.parse::<usize>().unwrap();
            // The log goes on over restarts.
            let log = self.output(&format!("docker logs {} 2>&1", self.container(process))).stdout;
            elections += log.matches(ELECTED).count();
            assert!(!log.contains("panicked"), "{process}:\n{log}");
        }
        assert_eq!(restarts + 1, elections, "whoever was elected has ended once, but for the last");
        elections
    }

    /// Removes everything but the image of etcd. What is not there any more is not missed.
    pub(crate) fn remove(&self) {
        let down = self.output("compose down --volumes --timeout 5");
        // The folder is removed by whoever runs the test.
        let back = self.output(
            "docker run --rm --user 0 --volume \"$PWD:/testbed\" ${COALLOC_IMAGE:-coalloc:local} \
             compose certificates /testbed --owner \"$(id -u)\"",
        );
        for outcome in [down, back] {
            if !outcome.is_success() {
                eprintln!("{}", outcome.shown);
            }
        }
    }

    /// Checks that no container, network or volume of the deployment is left.
    pub(crate) fn is_gone(&self) {
        let label = format!("--filter label=com.docker.compose.project={}", self.project);
        for list in ["ps -aq", "network ls -q", "volume ls -q"] {
            assert_eq!(self.run(&format!("docker {list} {label}")), "", "docker {list}");
        }
    }
}
