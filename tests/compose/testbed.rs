//! One testbed: its containers, and the guide's commands, run on it.

use coalloc_cli::testbed::local::layout::OPERATOR;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use tempfile::TempDir;

use crate::page::{self, PageCommand};
use crate::process::{self, Outcome};

/// Number of services of ELGL: 13 resource managers, 3 gates and a coordinator.
const SERVICES: usize = 17;

/// Time limit of each command, far above the slowest: starting all containers on a busy machine.
const LIMIT: Duration = Duration::from_secs(240);

pub(crate) struct Testbed {
    root: PathBuf,
    folder: TempDir,
    /// The Docker project of the containers, networks and volumes.
    project: String,
    /// An address of loopback, so that the ports do not collide with those of another testbed.
    host: String,
}

impl Drop for Testbed {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("{}", self.output("deploy/compose/compose ps -a").shown);
            eprintln!("{}", self.output("deploy/compose/compose logs --tail 20").shown);
        }
        // After the guide's own `down`, this command has nothing left to do.
        let _ = self.output("deploy/compose/down");
    }
}

impl Testbed {
    /// A testbed in which nothing runs yet.
    pub(crate) fn new() -> Self {
        Self {
            root: Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().to_owned(),
            folder: tempfile::tempdir().unwrap(),
            project: format!("coalloc-test-{}", std::process::id()),
            host: own_address(),
        }
    }

    /// A folder for files of the test.
    pub(crate) fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// The folder with the operator's identity, which `deploy/compose/up` makes.
    pub(crate) fn identity(&self) -> PathBuf {
        self.root.join("deploy/compose").join(OPERATOR)
    }

    /// The address of a port of the testbed on this machine.
    pub(crate) fn address(&self, port: u16) -> String {
        format!("{}:{port}", self.host)
    }

    /// The lines that begin with `$ ` in the `sh` blocks of the page, except those that build the image.
    pub(crate) fn commands_of_the_guide(&self) -> Vec<PageCommand> {
        let mut commands = page::commands(&self.root.join("docs/guide/compose.md"), "sh");
        let lines: Vec<&str> = commands.iter().map(|command| command.line.as_str()).collect();
        assert_eq!(lines.first(), Some(&"deploy/compose/build"));
        assert_eq!(lines.last(), Some(&"deploy/compose/down"));
        commands.remove(0);
        commands
    }

    fn output(&self, line: &str) -> Outcome {
        let program = Path::new(env!("CARGO_BIN_EXE_coalloc"));
        let path = format!(
            "{}:{}",
            program.parent().unwrap().display(),
            std::env::var("PATH").unwrap_or_default()
        );
        let mut shell = Command::new("bash");
        shell.args(["-c", line]).current_dir(&self.root).env("PATH", path);
        shell.env("COMPOSE_PROJECT_NAME", &self.project).env("COALLOC_PUBLISH", &self.host);
        shell.env("COALLOC_IDENTITY", self.identity());
        shell.env("COALLOC_GRC", self.address(7_000)).env("COLUMNS", "100");
        // Options from the environment of the user who runs the test must not apply.
        for option in ["COALLOC_DELAY", "COALLOC_JITTER", "COALLOC_LOSS", "COALLOC_TESTBED"] {
            shell.env_remove(option);
        }
        process::run(shell, LIMIT)
    }

    /// Runs a command, checks that it succeeds, and returns what it printed.
    pub(crate) fn run(&self, line: &str) -> String {
        self.run_of_the_guide(&PageCommand::read(line))
    }

    /// Runs a command of the guide, checks that it ends as its comment says, and returns what it printed.
    pub(crate) fn run_of_the_guide(&self, command: &PageCommand) -> String {
        let PageCommand { line, command, exit } = command;
        if command.starts_with("export ") {
            // The test has its own address.
            return String::new();
        }
        let outcome = self.output(command);
        assert_eq!(outcome.code, Some(*exit), "$ {line}\n{}", outcome.shown);
        println!("{:6.1} s  $ {line}", outcome.took.as_secs_f64());
        outcome.shown
    }

    pub(crate) fn coalloc(&self, arguments: &str) -> String {
        let outcome = self.output(&format!("coalloc {arguments}"));
        assert!(outcome.is_success(), "coalloc {arguments}\n{}", outcome.shown);
        outcome.stdout
    }

    /// Runs `coalloc` inside a container; did it succeed?
    pub(crate) fn exec(&self, service: &str, arguments: &str) -> bool {
        let container = self.container(service);
        self.output(&format!("docker exec {container} /coalloc {arguments}")).is_success()
    }

    /// The container of every service.
    ///
    /// Docker is asked directly, because compose takes a second and this is needed often.
    fn containers(&self) -> BTreeMap<String, String> {
        let format = "{{.Label \"com.docker.compose.service\"}} {{.ID}}";
        let label = format!("label=com.docker.compose.project={}", self.project);
        let list = self.run_quietly(&format!("docker ps -a --filter {label} --format '{format}'"));
        let pairs = list.lines().filter_map(|line| line.split_once(' '));
        pairs.map(|(service, id)| (service.to_owned(), id.to_owned())).collect()
    }

    fn container(&self, service: &str) -> String {
        let id = self.containers().remove(service);
        id.unwrap_or_else(|| panic!("{service} has no container"))
    }

    /// Runs `docker WHAT` with the containers of these services.
    pub(crate) fn docker(&self, what: &str, services: &[&str]) {
        let ids: Vec<String> = services.iter().map(|service| self.container(service)).collect();
        self.run_quietly(&format!("docker {what} {}", ids.join(" ")));
        println!("          docker {what} {}", services.join(" "));
    }

    fn run_quietly(&self, line: &str) -> String {
        let outcome = self.output(line);
        assert!(outcome.is_success(), "$ {line}\n{}", outcome.shown);
        outcome.stdout.trim().to_owned()
    }

    pub(crate) fn services(&self) -> Vec<String> {
        let services: Vec<String> = self.containers().into_keys().collect();
        assert_eq!(services.len(), SERVICES, "{services:?}");
        services
    }

    pub(crate) fn inspect(&self, service: &str, format: &str) -> String {
        let container = self.container(service);
        self.run_quietly(&format!("docker inspect --format '{format}' {container}"))
    }

    pub(crate) fn addresses(&self, service: &str) -> Vec<String> {
        let format = "{{range .NetworkSettings.Networks}}{{.IPAddress}} {{end}}";
        self.inspect(service, format).split_whitespace().map(str::to_owned).collect()
    }

    pub(crate) fn disconnect(&self, service: &str, network: &str) {
        self.docker(&format!("network disconnect {}_{network}", self.project), &[service]);
    }

    pub(crate) fn connect(&self, service: &str, network: &str) {
        let network = format!("{}_{network}", self.project);
        self.docker(&format!("network connect --alias {service} {network}"), &[service]);
    }

    /// Checks that no container crashed: Docker restarts them, so a test that only looks at the end would
    /// not see it.
    pub(crate) fn nobody_crashed(&self) {
        for service in self.services() {
            let format = "{{.State.Status}} {{.RestartCount}} {{.State.OOMKilled}}";
            assert_eq!(self.inspect(&service, format), "running 0 false", "{service}");
        }
    }

    /// Checks that nothing of this project is left.
    pub(crate) fn is_gone(&self) {
        let label = format!("--filter label=com.docker.compose.project={}", self.project);
        for (what, list) in
            [("container", "ps -aq"), ("network", "network ls -q"), ("volume", "volume ls -q")]
        {
            let left = self.run_quietly(&format!("docker {list} {label}"));
            assert_eq!(left, "", "a {what} is left");
        }
    }
}

/// An address of loopback for the published ports of this process's containers.
pub(crate) fn own_address() -> String {
    let id = std::process::id();
    format!("127.1.{}.{}", id / 250 % 250 + 1, id % 250 + 1)
}

/// Waits for a condition.
pub(crate) async fn eventually(what: &str, patience: Duration, mut holds: impl FnMut() -> bool) {
    let end = Instant::now() + patience;
    while !holds() {
        assert!(Instant::now() < end, "not within {} s: {what}", patience.as_secs());
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
}
