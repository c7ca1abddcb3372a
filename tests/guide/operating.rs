//! The chapter "Operating": `coalloc doctor` and `coalloc log-level` on real daemons that are well, down, shut out, or on a full
//! disk; and signals that come while a folder is written or daemons are started.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant, SystemTime};

use coalloc_cli::kit::authority::folder::IdentityFolder;
use coalloc_cli::kit::authority::{Authority, Validity};
use coalloc_common::{Identity, Role, TrustDomain};
use serde_json::Value;

use crate::shell::free_ports;
use crate::tmpfs::Small;

const DAY: Duration = Duration::from_secs(86_400);

/// A federation of `coalloc init` with a coordinator and the CRM of one site. Its daemons end with it.
struct OwnFederation {
    parent: tempfile::TempDir,
    port: u16,
}

impl Drop for OwnFederation {
    fn drop(&mut self) {
        if let Ok(pids) = std::fs::read_to_string(self.folder().join("pids")) {
            let mut kill = Command::new("kill");
            let _ = kill.args(pids.split_whitespace()).stderr(Stdio::null()).status();
        }
    }
}

impl OwnFederation {
    /// Written; the ledgers are in `state` if that is another folder.
    fn written(after: u16, state: Option<&Path>) -> Self {
        let federation = Self { parent: tempfile::tempdir().unwrap(), port: free_ports(4, after) };
        std::fs::create_dir(federation.folder()).unwrap();
        if let Some(state) = state {
            std::os::unix::fs::symlink(state, federation.folder().join("state")).unwrap();
        }
        let port = federation.port.to_string();
        let line = ["init", ".", "--site", "tokyo=16", "--port-base", &port];
        federation.does(&line, 0);
        federation
    }

    fn folder(&self) -> PathBuf {
        self.parent.path().join("own")
    }

    fn command(&self, words: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_coalloc"));
        command.args(words).current_dir(self.folder()).env("COLUMNS", "200");
        command.env_remove("COALLOC_GRC").env_remove("COALLOC_LOG");
        command.env("COALLOC_IDENTITY", self.folder().join("identities/operator"));
        command
    }

    /// Runs a command that ends with this exit code; what it says.
    fn does(&self, words: &[&str], code: i32) -> String {
        let output = self.command(words).output().unwrap();
        let shown = crate::shown(&output);
        assert_eq!(output.status.code(), Some(code), "{words:?}: {shown}");
        shown
    }

    /// The findings of `coalloc doctor`, as `check of: verdict`, and each with all that it says.
    fn findings(&self, words: &[&str], code: i32) -> Vec<(String, String)> {
        let all = [&["doctor", "--json"][..], words].concat();
        let report: Value = serde_json::from_str(&self.does(&all, code)).unwrap();
        let text = |finding: &Value, name: &str| finding[name].as_str().unwrap_or("").to_owned();
        let one = |finding: &Value| {
            let [check, about, verdict] =
                ["check", "about", "verdict"].map(|name| text(finding, name));
            let said = format!("{}; {}", text(finding, "measured"), text(finding, "next"));
            (format!("{check} {about}: {verdict}"), said)
        };
        report["findings"].as_array().unwrap().iter().map(one).collect()
    }

    fn kill(&self, name: &str) {
        let pids = std::fs::read_to_string(self.folder().join("pids")).unwrap();
        let is_it = |pid: &&str| {
            let line = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
            String::from_utf8_lossy(&line).contains(&format!("{name}.yaml"))
        };
        let pid = pids.split_whitespace().find(is_it).expect("it runs");
        assert!(Command::new("kill").args(["-KILL", pid]).status().unwrap().success());
        eventually("it is gone", || {
            let state = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
            state.is_empty() || state.contains(") Z ")
        });
    }

    fn log(&self, name: &str) -> String {
        std::fs::read_to_string(self.folder().join(format!("state/{name}.log"))).unwrap()
    }
}

fn eventually(what: &str, is_so: impl Fn() -> bool) {
    let end = Instant::now() + Duration::from_secs(40);
    while !is_so() {
        assert!(Instant::now() < end, "{what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

fn has(findings: &[(String, String)], line: &str, said: &str) {
    let found = findings.iter().any(|(head, text)| head == line && text.contains(said));
    assert!(found, "{line} with {said:?} in {findings:#?}");
}

#[test]
fn the_doctor_names_who_is_down_shut_out_or_about_to_lose_its_certificate() {
    let federation = OwnFederation::written(25_000, None);
    federation.does(&["up", "--detach"], 0);
    let well = federation.findings(&[], 0);
    for line in [
        "configuration crm-tokyo: ok",
        "serves grc: ok",
        "clock crm-tokyo: ok",
        "certificate grc: ok",
        "version grc: ok",
        "accepts grc -> crm-tokyo: ok",
        "accepts grc <- crm-tokyo: ok",
        "picture grc of crm-tokyo: ok",
    ] {
        has(&well, line, "");
    }
    let table = federation.does(&["doctor"], 0);
    assert!(table.starts_with("check ") && table.contains(" 0 failed"), "{table}");
    let (grc, crm) =
        (format!("127.0.0.1:{}", federation.port), format!("127.0.0.1:{}", federation.port + 1));
    let by_address = federation.findings(&["--grc", &grc, "--rm", &crm], 0);
    has(&by_address, "serves crm-tokyo: ok", &crm);
    has(&by_address, "certificate crm-tokyo: ok", "ends in");

    // A certificate in the last third of its life.
    let folder = federation.folder();
    let authority =
        |domain: &str| Authority::load(&folder.join("authorities").join(domain)).unwrap();
    let now = SystemTime::now();
    let validity = Validity { not_before: now - 10 * DAY, not_after: now + DAY * 5 / 2 };
    let domain = TrustDomain::parse("domain", "tokyo").unwrap();
    let whose = Identity::new("name", domain, Role::ResourceManager, "crm-tokyo").unwrap();
    let issued = authority("tokyo").issue(&whose, validity).unwrap();
    let trusted = [authority("grid").trusted(), authority("tokyo").trusted()];
    IdentityFolder::at(&folder.join("identities/crm-tokyo")).write(&issued, &trusted).unwrap();
    let soon = federation.findings(&[], 0);
    has(&soon, "certificate crm-tokyo: warning", "ends in 2 days");
    has(&soon, "certificate crm-tokyo: warning", "coalloc certs renew");

    // A resource manager that is down, and costs no more than the others.
    federation.kill("crm-tokyo");
    eventually("the coordinator has noticed", || {
        let output = federation.command(&["doctor", "--json"]).output().unwrap();
        crate::shown(&output).contains("it is not reached")
    });
    let down = federation.findings(&[], 1);
    has(&down, "serves crm-tokyo: failed", "coalloc up --detach --only crm-tokyo");
    has(&down, "accepts grc -> crm-tokyo: failed", "");
    has(&down, "serves grc: ok", "");

    // A coordinator that a resource manager does not know.
    let file = folder.join("crm-tokyo.yaml");
    let text = std::fs::read_to_string(&file).unwrap();
    let other =
        text.replace("name: grc", "name: other").replace("coordinator/grc", "coordinator/other");
    assert_ne!(text, other);
    std::fs::write(&file, other).unwrap();
    federation.does(&["up", "--detach", "--only", "crm-tokyo"], 0);
    let denied = federation.findings(&[], 1);
    has(&denied, "serves crm-tokyo: ok", "");
    has(&denied, "accepts grc -> crm-tokyo: failed", "");
    let call = denied.iter().find(|(head, _)| head.starts_with("accepts other <- crm-tokyo: "));
    assert!(call.is_some_and(|(head, _)| head.ends_with("failed")), "{denied:#?}");

    // A file that its daemon would refuse.
    std::fs::write(&file, text.replace("cpus: 16", "cpus: 0")).unwrap();
    let wrong = federation.findings(&[], 1);
    has(&wrong, "configuration crm-tokyo: failed", "cpus: 0");
}

#[test]
fn the_doctor_sees_a_disk_that_gets_full() {
    let Some(small) = Small::mounted(40) else { return };
    let federation = OwnFederation::written(27_000, Some(small.path()));
    federation.does(&["up", "--detach"], 0);
    let before = federation.findings(&[], 0);
    has(&before, "disk grc: warning", "free some space in");
    small.fill();
    let full = federation.findings(&[], 1);
    has(&full, "disk grc: failed", "its ledger has");
    has(&full, "disk crm-tokyo: failed", "");
    small.free();
    let words = ["--backups", "/nowhere/at/all"];
    has(&federation.findings(&words, 1), "disk backups in /nowhere/at/all: failed", "mkdir -p");
}

#[test]
fn an_operator_changes_what_a_daemon_logs_and_a_user_does_not() {
    let federation = OwnFederation::written(29_000, None);
    federation.does(&["up", "--detach"], 0);
    let crm = format!("127.0.0.1:{}", federation.port + 1);
    let log_level = |words: &[&str], code| {
        federation.does(&[&["log-level", "--rm", &crm][..], words].concat(), code)
    };
    assert_eq!(log_level(&[], 0), format!("{crm}  info\n"));
    assert!(!federation.log("crm-tokyo").contains("DEBUG"));
    let said = log_level(&["debug", "--for", "1h"], 0);
    assert_eq!(said, format!("{crm}  debug for 1 h, then info\n"));
    eventually("it logs more", || federation.log("crm-tokyo").contains("DEBUG"));
    assert!(federation.log("crm-tokyo").contains("by=spiffe://grid/coalloc/operator/operator"));
    let said = log_level(&["warn,coalloc_rm=debug"], 0);
    assert!(said.contains("(when it started: info)"), "{said}");
    assert_eq!(log_level(&["--as-at-start"], 0), format!("{crm}  info\n"));
    log_level(&["debug", "--for", "1s"], 0);
    eventually("it ends by itself", || {
        federation.log("crm-tokyo").contains("what was logged for some time only has ended")
    });
    assert_eq!(log_level(&[], 0), format!("{crm}  info\n"));
    assert!(log_level(&["debgu"], 2).contains("did you mean debug?"));
    assert!(log_level(&["debug", "--for", "2d"], 2).contains("1 s to 1 d"));
    let denied = log_level(&["debug", "--identity", "identities/alice"], 3);
    assert!(denied.contains("operators"), "{denied}");
}

/// Ends a process as a terminal that is closed does, or Ctrl-C.
fn signalled(mut process: std::process::Child, signal: &str) -> Option<i32> {
    let pid = process.id().to_string();
    // It may have ended already.
    let _ = Command::new("kill").args([signal, &pid]).stderr(Stdio::null()).status();
    process.wait().unwrap().code()
}

#[test]
fn whoever_is_interrupted_leaves_neither_keys_nor_daemons_behind() {
    let parent = tempfile::tempdir().unwrap();
    let init = |name: &str| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_coalloc"));
        command.current_dir(parent.path()).args(["init", name]);
        let sites = (0..20).flat_map(|site| ["--site".to_owned(), format!("s{site}=1")]);
        command.args(sites).stdout(Stdio::null()).stderr(Stdio::null());
        command.spawn().unwrap()
    };
    let is_draft = |entry: &std::fs::DirEntry| {
        entry.file_name().to_string_lossy().starts_with(".coalloc-init-")
    };
    let drafts = || std::fs::read_dir(parent.path()).unwrap().flatten().filter(is_draft).count();
    for (name, signal) in [("one", "-INT"), ("two", "-HUP")] {
        let process = init(name);
        eventually("it writes", || drafts() > 0 || parent.path().join(name).exists());
        let code = signalled(process, signal);
        assert_eq!(drafts(), 0, "{signal}: {code:?}");
        let is_whole = parent.path().join(name).join("README.txt").exists();
        assert_eq!(is_whole, code == Some(0), "{signal}: {code:?}");
    }

    let federation = OwnFederation::written(31_000, None);
    let mut up = federation.command(&["up", "--detach"]);
    let up = up.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let logs = || federation.folder().join("state/crm-tokyo.log").exists();
    eventually("it starts daemons", logs);
    let code = signalled(up, "-HUP");
    if code != Some(0) {
        assert_eq!(code, Some(130));
        let address = ("127.0.0.1", federation.port + 1);
        std::net::TcpListener::bind(address).expect("no daemon is left");
    } else {
        assert!(federation.folder().join("pids").exists());
    }
}
