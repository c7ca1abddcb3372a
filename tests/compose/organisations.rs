//! Three organisations with an authority each, used as in `docs/guide/domains.md`: every command in a `sh` block of that
//! chapter is run as it is written, in order.
//!
//! Beyond its exit code, what a command prints is compared with what the chapter says. Where the chapter says that
//! something happens within a time, the test waits for it so long and no longer. Each command has a time limit, and all
//! of them together have one.
//!
//! Left out: what cannot be seen from outside. tests/federation/identity has that, over processes.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use tempfile::TempDir;

use crate::page::{self, PageCommand};
use crate::process::{self, Outcome};

/// Time limit of one command. The slowest one starts four containers.
const LIMIT: Duration = Duration::from_secs(90);
/// Time limit of all commands together: several times what they take on a machine with two busy cores.
const LIMIT_OF_ALL: Duration = Duration::from_secs(300);
/// Time limit of what cleans up, also when the other limits are over.
const LIMIT_OF_CLEANING: Duration = Duration::from_secs(60);
/// Whoever is revoked has to be out within this time from when the list is there.
const OUT_WITHIN: Duration = Duration::from_secs(10);

/// What commands of the chapter print: a part of a line, and parts of what its command prints. The longest part that
/// fits a line counts.
const PRINTS: [(&str, &[&str]); 21] = [
    ("at north certs init", &["the certification authority of north.example"]),
    ("publish grid", &["grid.example has published its authority"]),
    ("at grid certs show grc", &["believes  north.example", "believes  link.example"]),
    ("organisations/up", &["All daemons of north.example, link.example and grid.example serve"]),
    ("at grid topology", &["3 resource managers, ", "crm-north:7101", "nrm-link:7102"]),
    ("--id across", &["confirmed"]),
    ("at grid show", &["confirmed", "16 CPUs", "at A", "8 CPUs", "at B", "1 Gbit/s", "A-B"]),
    ("--identity forged", &["does not let us in as spiffe://grid.example/coalloc/coordinator/grc"]),
    ("at link audit --identity mallory", &["spiffe://link.example/coalloc/user/mallory"]),
    ("at link show --identity mallory", &["across"]),
    ("--id in-her-name", &["spiffe://link.example/coalloc/user/mallory may not do this"]),
    ("at link health crm-north:7101", &["crm-north:7101"]),
    ("--evidence tips", &["4 signed tips stored", "crm-north", "nrm-link", "crm-grid", "grc"]),
    ("--evidence tips --ledger", &["nrm-link"]),
    ("certs revoke", &["revoked at", "spiffe://grid.example/coalloc/coordinator/grc"]),
    ("fetch north", &["north.example has fetched 2 lists"]),
    ("--id too-late", &["failed", "crm-north, nrm-link"]),
    ("at grid health --identity grc crm-north:7101", &["our certificate was revoked"]),
    ("at grid show --identity alice across # exit 5", &["the server is not believed", "revoked"]),
    ("certs renew", &["a new certificate of spiffe://grid.example/coalloc/coordinator/grc"]),
    ("--id after", &["confirmed"]),
];

struct Organisations {
    root: PathBuf,
    folder: TempDir,
    /// The Docker project of the containers and networks.
    project: String,
    end: Instant,
}

impl Drop for Organisations {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let filter = format!("label=com.docker.compose.project={}", self.project);
            let logs = format!(
                "docker ps -a --filter {filter}; for id in $(docker ps -aq --filter {filter}); do \
                 docker logs --tail 30 $id; done"
            );
            eprintln!("{}", self.output(&logs, LIMIT_OF_CLEANING).shown);
        }
        // After the chapter's own `down`, this command has nothing left to do.
        let _ = self.output("deploy/organisations/down", LIMIT_OF_CLEANING);
    }
}

impl Organisations {
    fn new() -> Self {
        Self {
            root: Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().to_owned(),
            folder: tempfile::tempdir().unwrap(),
            project: format!("coalloc-organisations-{}", std::process::id()),
            end: Instant::now() + LIMIT_OF_ALL,
        }
    }

    /// The commands of the chapter, except the one that builds the image.
    fn commands(&self) -> Vec<PageCommand> {
        let mut commands = page::commands(&self.root.join("docs/guide/domains.md"), "sh");
        let lines: Vec<&str> = commands.iter().map(|command| command.line.as_str()).collect();
        assert_eq!(lines.first(), Some(&"deploy/compose/build"));
        assert_eq!(lines.last(), Some(&"deploy/organisations/down"));
        commands.remove(0);
        commands
    }

    fn output(&self, line: &str, limit: Duration) -> Outcome {
        let mut shell = Command::new("bash");
        shell.args(["-c", line]).current_dir(&self.root);
        shell.env("COMPOSE_PROJECT_NAME", &self.project);
        shell.env("COALLOC_ORGANISATIONS", self.folder.path().join("organisations"));
        // Options from the environment of the user who runs the test must not apply.
        for option in ["COALLOC_GRC", "COALLOC_IDENTITY", "COALLOC_LOG", "COLUMNS"] {
            shell.env_remove(option);
        }
        process::run(shell, limit)
    }

    /// Runs a command of the chapter, checks that it ends and prints what the chapter says, and returns what it printed.
    fn run(&self, command: &PageCommand) -> String {
        let PageCommand { line, command, exit } = command;
        let left = self.end.saturating_duration_since(Instant::now());
        assert!(!left.is_zero(), "the chapter takes longer than {LIMIT_OF_ALL:?}");
        let outcome = self.output(command, left.min(LIMIT));
        let shown = outcome.shown;
        assert_eq!(outcome.code, Some(*exit), "$ {line}\n{shown}");
        for part in expected_of(line) {
            assert!(shown.contains(part), "$ {line}\nprints no {part:?}:\n{shown}");
        }
        println!("{:5.1} s  $ {line}", outcome.took.as_secs_f64());
        shown
    }

    fn read(&self, line: &str) -> String {
        self.run(&PageCommand::read(&format!("deploy/organisations/{line}")))
    }

    /// The number of records in each ledger.
    fn records(&self) -> Vec<u64> {
        let daemons =
            [("north", "crm-north"), ("link", "nrm-link"), ("grid", "crm-grid"), ("grid", "grc")];
        let count = |(organisation, daemon): &(&str, &str)| {
            let file = format!("organisations/{organisation}/ledgers/{daemon}/{daemon}.ledger");
            let mut verify = Command::new(env!("CARGO_BIN_EXE_coalloc"));
            verify.args(["ledger", "verify", "--json"]).arg(self.folder.path().join(file));
            let outcome = process::run(verify, LIMIT);
            assert!(outcome.is_success(), "{}", outcome.shown);
            let found: serde_json::Value = serde_json::from_str(&outcome.stdout).unwrap();
            found["records"].as_u64().unwrap_or_else(|| panic!("{found}"))
        };
        daemons.iter().map(count).collect()
    }

    /// Waits until the coordinator, which was revoked, has lost its connections to the other organisations.
    fn coordinator_is_out(&self, since: Instant) {
        loop {
            let began = since.elapsed();
            let topology = self.read("at grid topology --identity olga");
            let is_out = |rm: &str| {
                let row = topology.lines().find(|line| line.starts_with(rm));
                row.is_some_and(|row| row.contains("UNREACHABLE"))
            };
            if is_out("crm-north") && is_out("nrm-link") {
                println!(
                    "the coordinator is out after {:.1} s at most",
                    since.elapsed().as_secs_f64()
                );
                return;
            }
            assert!(began < OUT_WITHIN, "not out within {OUT_WITHIN:?}:\n{topology}");
        }
    }

    /// Checks that nothing of this project is left.
    fn is_gone(&self) {
        for (list, label) in [
            ("docker ps -aq", "com.docker.compose.project"),
            ("docker ps -aq", "coalloc.organisations"),
            ("docker network ls -q", "com.docker.compose.project"),
        ] {
            let filter = format!("{list} --filter label={label}={}", self.project);
            let left = self.output(&filter, LIMIT);
            assert_eq!((left.code, left.shown.trim()), (Some(0), ""), "{list}");
        }
        let left = std::fs::read_dir(self.folder.path().join("organisations")).unwrap();
        let left: Vec<_> = left.map(|entry| entry.unwrap().file_name()).collect();
        assert_eq!(left, [".organisations"], "folders of organisations are left");
    }
}

/// What a command has to print.
fn expected_of(line: &str) -> &'static [&'static str] {
    let entries = PRINTS.iter().filter(|(part, _)| line.contains(part));
    entries.max_by_key(|(part, _)| part.len()).map_or(&[], |(_, parts)| parts)
}

#[test]
fn three_organisations_do_what_the_chapter_says() {
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let Some(_alone) = runtime.block_on(crate::engine()) else { return };
    let began = Instant::now();
    let organisations = Organisations::new();
    let commands = organisations.commands();
    for (part, parts) in PRINTS {
        let is_there = commands.iter().any(|one| expected_of(&one.line) == parts);
        assert!(is_there, "no command of the chapter has {part}");
    }
    let mut honest_records = None;
    let mut revoked = None;
    for command in &commands {
        let rest = command.command.trim_start_matches("deploy/organisations/");
        // The first and the last command of the section about those who are not let in.
        if rest.starts_with("at link certs init --domain grid.example") {
            honest_records = Some(organisations.records());
        } else if rest.starts_with("at link audit --identity ada --evidence tips") {
            if let Some(before) = honest_records.take() {
                assert_eq!(organisations.records(), before, "a denied call is in no ledger");
                assert!(before.iter().all(|count| *count > 0), "{before:?}");
                println!("       no ledger has changed: {before:?} records");
            }
        } else if rest.starts_with("at grid topology")
            && let Some(since) = revoked.take()
        {
            organisations.coordinator_is_out(since);
        }
        organisations.run(command);
        if rest.starts_with("fetch ") {
            revoked = Some(Instant::now());
        }
    }
    organisations.is_gone();
    println!("{:5.1} s  in all", began.elapsed().as_secs_f64());
}
