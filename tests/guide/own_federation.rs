//! The chapter "Your own federation, step by step": a shell runs its commands from an empty folder, as a reader types them.
//! And what the page only tells of `coalloc up`: it stays in the foreground until Ctrl-C.

use std::io::{BufRead as _, BufReader, Read as _};
use std::net::{TcpListener, TcpStream};
use std::os::unix::net::UnixDatagram;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use crate::shell::{Detached, PORTS, ShellPage, free_ports};

/// The most commands from an empty folder to the first reservation.
const COMMANDS_MAX: usize = 12;

#[test]
fn an_own_federation_has_a_reservation_after_at_most_twelve_commands() {
    let folder = tempfile::tempdir().unwrap();
    let federation = folder.path().join("my-federation");
    // The last command of the page stops the daemons; after a failure before it, this does.
    let _detached = Detached(&federation);
    let page = ShellPage::new("own-federation.md", folder.path())
        .with_ports(7_000, free_ports(PORTS, 12_000))
        .with_ports(7_100, free_ports(PORTS, 16_500));
    let commands = page.commands();
    let reserve = commands.iter().position(|one| one.command.starts_with("coalloc reserve"));
    let count = reserve.expect("the page reserves") + 1;
    assert!(count <= COMMANDS_MAX, "{count} commands to the first reservation");
    let shown = page.run();
    for expected in [
        "3 resource managers, 3 reachable",
        ": confirmed",
        "1 reservation, without",
        "The reservations that you may see",
        ": ok\n",
    ] {
        assert!(shown.contains(expected), "{expected}: {shown}");
    }
    let next = shown.split_once("Next:\n").expect("init says what to type next").1;
    let next = next.lines().take_while(|line| !line.is_empty()).map(str::trim);
    let typed: Vec<&str> = commands[1..=count].iter().map(|one| one.command.as_str()).collect();
    for (printed, typed) in next.zip(typed) {
        // The page and what `init` prints are the same commands, but for the port.
        if !typed.contains("COALLOC_GRC") {
            assert_eq!(printed, typed);
        }
    }
}

#[test]
fn without_a_terminal_nothing_is_asked_and_the_flags_are_told() {
    let folder = tempfile::tempdir().unwrap();
    let mut init = Command::new(env!("CARGO_BIN_EXE_coalloc"));
    let output = init.arg("init").current_dir(folder.path()).stdin(Stdio::null()).output().unwrap();
    let shown = crate::shown(&output);
    assert_eq!(output.status.code(), Some(2), "{shown}");
    assert!(shown.contains("--site tokyo=16 --site osaka=8 --link tokyo-osaka=10G"), "{shown}");
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
}

/// A process that does not outlive a test that fails. Its daemons do not outlive it.
struct Foreground(Child);

impl Drop for Foreground {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn in_the_foreground_ctrl_c_stops_all_daemons_and_a_wrong_file_starts_none() {
    let folder = tempfile::tempdir().unwrap();
    let coalloc = |words: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_coalloc"));
        command.args(words).current_dir(folder.path());
        command.env_remove("COALLOC_GRC").env_remove("COALLOC_IDENTITY");
        command
    };
    let port = free_ports(8, 21_000);
    let base = port.to_string();
    let init = ["init", "one", "--site", "tokyo=16", "--port-base", base.as_str()];
    assert!(coalloc(&init).output().unwrap().status.success());
    let socket = folder.path().join("notify");
    let manager = UnixDatagram::bind(&socket).unwrap();
    manager.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    let mut serve = coalloc(&["serve", "crm", "--config", "one/crm-tokyo.yaml"]);
    let serve = serve.env("NOTIFY_SOCKET", &socket).stderr(Stdio::null()).spawn().unwrap();
    let serve = Foreground(serve);
    let mut told = [0; 64];
    let length =
        manager.recv(&mut told).expect("a daemon tells the service manager that it serves");
    assert_eq!(String::from_utf8_lossy(&told[..length]).trim(), "READY=1");
    TcpStream::connect(("127.0.0.1", port + 1)).expect("it serves");
    drop(serve);
    let mut up = coalloc(&["up", "one"]);
    let up = up.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let Foreground(up) = &mut Foreground(up);
    let mut lines = BufReader::new(up.stderr.take().unwrap()).lines().map(Result::unwrap);
    assert!(lines.any(|line| line.contains("Ctrl-C stops them")), "it ends before it serves");
    let again = coalloc(&["up", "one"]).output().unwrap();
    assert_eq!(again.status.code(), Some(1), "{}", crate::shown(&again));
    assert!(crate::shown(&again).contains("cannot be bound"), "{}", crate::shown(&again));
    let pid = up.id().to_string();
    assert!(Command::new("kill").args(["-INT", &pid]).status().unwrap().success());
    let mut said = String::new();
    up.stdout.take().unwrap().read_to_string(&mut said).unwrap();
    assert_eq!((up.wait().unwrap().code(), said.as_str()), (Some(0), "all daemons are stopped\n"));
    for port in [port, port + 1] {
        TcpListener::bind(("127.0.0.1", port)).expect("the daemon is gone");
    }
    let file = folder.path().join("one/crm-tokyo.yaml");
    let text = std::fs::read_to_string(&file).unwrap();
    let mistakes = [
        (text.replace("cpus: 16", "cpus: 0"), "inventory.sites[0].cpus: 0"),
        (text.replace("\ninventory:", "\ninventroy:"), "crm-tokyo.yaml"),
        (format!("{text}\tbroken: [\n"), "crm-tokyo.yaml"),
    ];
    for (text, expected) in mistakes {
        std::fs::write(&file, text).unwrap();
        let wrong = coalloc(&["up", "one"]).output().unwrap();
        let shown = crate::shown(&wrong);
        assert_eq!(wrong.status.code(), Some(2), "{shown}");
        assert!(shown.contains(expected) && !shown.contains("starting"), "{shown}");
    }
}
