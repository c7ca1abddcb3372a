//! A whole Slurm cluster on one machine, in a folder: for tests, and for `coalloc demo equipment`.
//!
//! munged, slurmctld and one slurmd for each node run as child processes with a configuration of their own, on free
//! ports of the loopback. Nothing outside the folder is read or written, so several clusters can run side by side,
//! beside one that is installed. It runs as root, or as a plain user in a user namespace, where all jobs are that
//! user's:
//!
//! ```sh
//! unshare -U --map-current-user --keep-caps -n -m sh -c '
//!   ip link set lo up; ip address add 10.255.255.1/32 dev lo; mount -t tmpfs tmpfs /run; exec ...'
//! ```
//!
//! With [`Cluster::start_at`] each node has a network of its own, in a namespace.
//!
//! The address is needed where there is no other interface: with loopback addresses alone, Slurm resolves no address
//! at all.
//!
//! When the value is dropped, everything that it has started is killed.

use std::fmt::Write as _;
use std::fs;
use std::io::Read as _;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

/// How long everything may take to start.
const START_PATIENCE: Duration = Duration::from_secs(20);
/// Where all daemons are reached that run on this machine alone.
const LOOPBACK: &str = "127.0.0.1";
/// Pause between two looks.
const PAUSE: Duration = Duration::from_millis(50);
/// Where Debian has daemons; not everybody's PATH has it.
const SYSTEM_FOLDERS: &str = "/usr/sbin:/usr/bin:/sbin:/bin";
/// The programs of which a cluster consists, and those by which it is used.
const PROGRAMS: [&str; 9] =
    ["munged", "slurmctld", "slurmd", "scontrol", "sinfo", "squeue", "scancel", "sbatch", "srun"];

/// Where a node of a cluster runs.
#[derive(Debug, Clone)]
pub struct NodePlace {
    /// The name of the node.
    pub name: String,
    /// The address at which the controller reaches it.
    pub address: String,
    /// The file of the network namespace in which it and its jobs run; `None`: where the controller runs.
    pub netns: Option<PathBuf>,
}

/// A cluster that runs.
#[derive(Debug)]
pub struct Cluster {
    folder: PathBuf,
    munged: Child,
    controller: Option<Child>,
    nodes: Vec<Node>,
}

/// A node, and its daemon while it runs.
#[derive(Debug)]
struct Node {
    place: NodePlace,
    daemon: Option<Child>,
}

/// The programs that a cluster needs and this machine does not have.
#[must_use]
pub fn missing_programs() -> Vec<&'static str> {
    let path = std::env::var("PATH").unwrap_or_default();
    let folders: Vec<&str> = path.split(':').chain(SYSTEM_FOLDERS.split(':')).collect();
    let is_missing =
        |program: &&str| !folders.iter().any(|folder| Path::new(folder).join(program).is_file());
    PROGRAMS.into_iter().filter(is_missing).collect()
}

impl Cluster {
    /// Starts a cluster in a folder that exists, and waits until its nodes are idle. The nodes have the names given, and
    /// as many CPUs each.
    ///
    /// # Errors
    /// A sentence that says what is missing, or what has failed and where its log is.
    pub fn start(folder: &Path, name: &str, nodes: &[&str], cpus: u32) -> Result<Self, String> {
        let place = |name: &&str| NodePlace {
            name: (*name).to_owned(),
            address: LOOPBACK.to_owned(),
            netns: None,
        };
        Self::start_at(folder, name, LOOPBACK, nodes.iter().map(place).collect(), cpus)
    }

    /// Does the same with nodes that run elsewhere: in network namespaces, from which they reach the controller at this
    /// address.
    ///
    /// # Errors
    /// As [`Cluster::start`].
    pub fn start_at(
        folder: &Path,
        name: &str,
        controller: &str,
        nodes: Vec<NodePlace>,
        cpus: u32,
    ) -> Result<Self, String> {
        let missing = missing_programs();
        if !missing.is_empty() {
            return Err(format!(
                "no {} on this machine: apt-get install slurmctld slurmd slurm-client slurm-wlm-basic-plugins munge",
                missing.join(", ")
            ));
        }
        let at = |error: std::io::Error| format!("{}: {error}", folder.display());
        let folder = fs::canonicalize(folder).map_err(at)?;
        for own in nodes.iter().map(|node| node.name.as_str()).chain(["state"]) {
            fs::create_dir_all(folder.join(own)).map_err(at)?;
        }
        let conf = configuration(&folder, name, controller, &nodes, cpus)?;
        fs::write(folder.join("slurm.conf"), conf).map_err(at)?;
        let munged = start_munged(&folder)?;
        let nodes = nodes.into_iter().map(|place| Node { place, daemon: None }).collect();
        let mut cluster = Self { folder, munged, controller: None, nodes };
        let socket = cluster.folder.join("munge.sock");
        let log = cluster.folder.join("munged.log");
        wait("munged", &log, || Ok(socket.exists()))?;
        cluster.start_controller()?;
        let names: Vec<String> = cluster.nodes.iter().map(|node| node.place.name.clone()).collect();
        for name in &names {
            cluster.start_node(name)?;
        }
        cluster.wait_for_idle_nodes()?;
        Ok(cluster)
    }

    /// The path of its slurm.conf.
    #[must_use]
    pub fn conf(&self) -> PathBuf {
        self.folder.join("slurm.conf")
    }

    /// The log of the controller.
    fn log(&self) -> PathBuf {
        self.folder.join("slurmctld.log")
    }

    /// A program of Slurm, to be run at this cluster.
    #[must_use]
    pub fn command(&self, program: &str) -> Command {
        command(&self.folder, program)
    }

    /// A program of Slurm, to be run at this cluster as another Unix user. Needs root.
    #[must_use]
    pub fn command_as(&self, user: &str, program: &str) -> Command {
        let mut command = self.command("setpriv");
        let user = [format!("--reuid={user}"), format!("--regid={user}"), "--clear-groups".into()];
        command.args(user).arg(program).current_dir("/");
        command
    }

    /// Runs a program of Slurm at this cluster.
    ///
    /// # Errors
    /// What it complains of.
    pub fn run(&self, program: &str, arguments: &[&str]) -> Result<String, String> {
        text_of(program, self.command(program).args(arguments).output())
    }

    /// Starts the controller, and waits until it answers.
    ///
    /// # Errors
    /// A sentence that says where its log is.
    pub fn start_controller(&mut self) -> Result<(), String> {
        let mut command = self.command("slurmctld");
        self.controller = Some(spawn(command.arg("-D"))?);
        let folder = self.folder.clone();
        wait("slurmctld", &self.log(), || Ok(answers(&folder)))
    }

    /// Kills the controller, as a power failure would.
    pub fn kill_controller(&mut self) {
        self.controller.take().into_iter().for_each(end);
    }

    /// Stops the controller from running (SIGSTOP), until it is told to go on (SIGCONT).
    ///
    /// # Errors
    /// There is no controller, or it cannot be told.
    pub fn pause_controller(&self, is_paused: bool) -> Result<(), String> {
        let id = self.controller.as_ref().ok_or("there is no controller")?.id().to_string();
        let signal = if is_paused { "-STOP" } else { "-CONT" };
        text_of("kill", Command::new("kill").args([signal, &id]).output()).map(|_| ())
    }

    /// Starts the daemon of a node.
    ///
    /// # Errors
    /// The name is unknown, or the program cannot be started.
    pub fn start_node(&mut self, name: &str) -> Result<(), String> {
        let node = self.nodes.iter_mut().find(|node| node.place.name == name);
        let node = node.ok_or_else(|| format!("{name} is no node of this cluster"))?;
        let mut command = match &node.place.netns {
            // Nothing but the network changes: `ip netns exec` would also mount another /sys, and slurmd dies there.
            Some(netns) => {
                let mut command = command(&self.folder, "nsenter");
                command.arg(format!("--net={}", netns.display())).arg("slurmd");
                command
            }
            None => command(&self.folder, "slurmd"),
        };
        node.daemon = Some(spawn(command.args(["-D", "-N", name]))?);
        Ok(())
    }

    /// Kills the daemon of a node.
    pub fn kill_node(&mut self, name: &str) {
        let node = self.nodes.iter_mut().find(|node| node.place.name == name);
        node.and_then(|node| node.daemon.take()).into_iter().for_each(end);
    }

    /// Waits until all nodes are idle.
    ///
    /// # Errors
    /// A sentence with the state of the nodes.
    pub fn wait_for_idle_nodes(&self) -> Result<(), String> {
        let mut last = String::new();
        let is_idle = |text: &str| text.lines().all(|state| state == "idle");
        let waited = wait("the nodes", &self.log(), || {
            last = self.run("sinfo", &["-h", "-N", "-o", "%T"])?;
            Ok(is_idle(&last))
        });
        waited.map_err(|error| format!("{error}; {}", last.replace('\n', " ")))
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        self.kill_controller();
        self.nodes.iter_mut().filter_map(|node| node.daemon.take()).for_each(end);
        // Jobs are no children of ours: they bear the path of the configuration.
        let mark = format!("SLURM_CONF={}", self.conf().display()).into_bytes();
        for process in fs::read_dir("/proc").into_iter().flatten().flatten() {
            let id = process.file_name().to_string_lossy().parse::<u32>();
            let Ok(id) = id else { continue };
            let environment = fs::read(process.path().join("environ")).unwrap_or_default();
            if id != std::process::id()
                && environment.split(|byte| *byte == 0).any(|one| one == mark)
            {
                let _ = Command::new("kill").args(["-9", &id.to_string()]).status();
            }
        }
        let _ = self.munged.kill();
        let _ = self.munged.wait();
    }
}

fn end(mut child: Child) {
    let _ = child.kill();
    let _ = child.wait();
}

/// A program with the environment of the cluster.
fn command(folder: &Path, program: &str) -> Command {
    let path = std::env::var("PATH").unwrap_or_default();
    let mut command = Command::new(program);
    command
        .env("PATH", format!("{path}:{SYSTEM_FOLDERS}"))
        .env("SLURM_CONF", folder.join("slurm.conf"))
        .env("TZ", "UTC")
        .stdin(Stdio::null());
    command
}

fn spawn(command: &mut Command) -> Result<Child, String> {
    let program = command.get_program().to_string_lossy().into_owned();
    let spawned = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn();
    spawned.map_err(|error| format!("{program} cannot be started: {error}"))
}

fn text_of(program: &str, output: std::io::Result<Output>) -> Result<String, String> {
    let output = output.map_err(|error| format!("{program} cannot be started: {error}"))?;
    let [text, complaint] =
        [&output.stdout, &output.stderr].map(|bytes| String::from_utf8_lossy(bytes).into_owned());
    if output.status.success() { Ok(text) } else { Err(format!("{program}: {}", complaint.trim())) }
}

/// Does the controller answer? Asked for a short time only: without a controller the programs wait for 9 s.
fn answers(folder: &Path) -> bool {
    let mut command = command(folder, "scontrol");
    let Ok(mut child) = spawn(command.args(["show", "config"])) else { return false };
    let until = Instant::now() + Duration::from_secs(1);
    while Instant::now() < until {
        if let Ok(Some(status)) = child.try_wait() {
            return status.success();
        }
        std::thread::sleep(PAUSE);
    }
    end(child);
    false
}

/// Waits until something is there. The error has the end of a log.
fn wait(
    what: &str,
    log: &Path,
    mut is_there: impl FnMut() -> Result<bool, String>,
) -> Result<(), String> {
    const LINES_SHOWN: usize = 3;
    let until = Instant::now() + START_PATIENCE;
    let mut trouble = String::new();
    while Instant::now() < until {
        match is_there() {
            Ok(true) => return Ok(()),
            Ok(false) => {}
            Err(error) => trouble = error,
        }
        std::thread::sleep(PAUSE);
    }
    let text = fs::read_to_string(log).unwrap_or_default();
    let lines: Vec<&str> = text.lines().rev().take(LINES_SHOWN).collect();
    let lines: Vec<&str> = lines.into_iter().rev().collect();
    let (seconds, log, lines) = (START_PATIENCE.as_secs(), log.display(), lines.join(" / "));
    Err(format!("{what}: not ready after {seconds} s; {trouble}; the end of {log}: {lines}"))
}

fn start_munged(folder: &Path) -> Result<Child, String> {
    use std::os::unix::fs::PermissionsExt as _;
    let key = folder.join("munge.key");
    let at = |error: std::io::Error| format!("{}: {error}", key.display());
    let mut bytes = [0; 1024];
    fs::File::open("/dev/urandom").and_then(|mut from| from.read_exact(&mut bytes)).map_err(at)?;
    fs::write(&key, bytes).map_err(at)?;
    fs::set_permissions(&key, fs::Permissions::from_mode(0o400)).map_err(at)?;
    // Jobs of other users go through the folder to the socket.
    fs::set_permissions(folder, fs::Permissions::from_mode(0o755)).map_err(at)?;
    let mut command = command(folder, "munged");
    command.args(["--foreground", "--force", "--origin=127.0.0.1"]);
    for (option, file) in [
        ("socket", "munge.sock"),
        ("key-file", "munge.key"),
        ("log-file", "munged.log"),
        ("pid-file", "munged.pid"),
        ("seed-file", "munged.seed"),
    ] {
        command.arg(format!("--{option}={}", folder.join(file).display()));
    }
    spawn(&mut command)
}

fn configuration(
    folder: &Path,
    name: &str,
    controller: &str,
    nodes: &[NodePlace],
    cpus: u32,
) -> Result<String, String> {
    let asked = |program: &str, argument: &str| {
        text_of(program, Command::new(program).arg(argument).output())
            .map(|text| text.trim().to_owned())
    };
    let (host, user) = (asked("hostname", "-s")?, asked("id", "-un")?);
    let ports = free_ports(nodes.len() + 1)?;
    let mut lines = String::new();
    for (NodePlace { name, address, .. }, port) in nodes.iter().zip(ports.iter().skip(1)) {
        let _ = writeln!(
            lines,
            "NodeName={name} NodeHostname={host} NodeAddr={address} Port={port} CPUs={cpus} State=UNKNOWN"
        );
    }
    let port = ports.first().copied().unwrap_or_default();
    let names: Vec<&str> = nodes.iter().map(|node| node.name.as_str()).collect();
    Ok(include_str!("testbed/slurm.conf")
        .replace("{name}", name)
        .replace("{host}", &host)
        .replace("{controller}", controller)
        .replace("{port}", &port.to_string())
        .replace("{user}", &user)
        .replace("{folder}", &folder.display().to_string())
        .replace("{nodes}\n", &lines)
        .replace("{names}", &names.join(",")))
}

/// Ports of the loopback that nobody has at the moment.
fn free_ports(count: usize) -> Result<Vec<u16>, String> {
    let bind =
        |_| TcpListener::bind("127.0.0.1:0").and_then(|one| Ok((one.local_addr()?.port(), one)));
    let bound: std::io::Result<Vec<_>> = (0..count).map(bind).collect();
    let bound = bound.map_err(|error| format!("no free port: {error}"))?;
    Ok(bound.into_iter().map(|(port, _)| port).collect())
}
