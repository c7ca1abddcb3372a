//! Namespaces of our own: the program runs itself again there, so that it may make networks and nothing of the machine
//! changes; and whoever the jobs run as.
//!
//! Left out: namespaces of processes. What is started is stopped by whoever has started it.

use std::ffi::OsStr;
use std::os::unix::fs::{PermissionsExt as _, chown};
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::Command;

use coalloc_crm::slurm::testbed;

use super::programs;
use crate::kit::exit::Failure;

/// Each program beside Slurm's, with the package of Debian that brings it.
const PROGRAMS: [(&str, &str); 9] = [
    ("ip", "iproute2"),
    ("tc", "iproute2"),
    ("nft", "nftables"),
    ("iperf3", "iperf3"),
    ("nsenter", "util-linux"),
    ("unshare", "util-linux"),
    ("setpriv", "util-linux"),
    ("mount", "mount"),
    ("hostname", "hostname"),
];
/// What brings Slurm's programs.
const SLURM_PACKAGES: &str = "slurmctld slurmd slurm-client slurm-wlm-basic-plugins munge";
/// Where Debian has daemons and the programs of administrators; not everybody's PATH has it.
const SYSTEM_FOLDERS: &str = "/usr/sbin:/sbin:/usr/bin:/bin";
/// The kinds of namespaces that are ours.
const KINDS: [&str; 2] = ["net", "mnt"];

/// Checks that the programs that are needed are there.
pub(super) fn check_programs() -> Result<(), Failure> {
    let path = search_path();
    let is_there =
        |program: &str| path.split(':').any(|folder| Path::new(folder).join(program).is_file());
    let mut missing = testbed::missing_programs();
    let mut packages = if missing.is_empty() { Vec::new() } else { vec![SLURM_PACKAGES] };
    for (program, package) in PROGRAMS.into_iter().filter(|(program, _)| !is_there(program)) {
        missing.push(program);
        if !packages.contains(&package) {
            packages.push(package);
        }
    }
    if missing.is_empty() {
        return Ok(());
    }
    Err(Failure::bad_input(format!(
        "this machine has no {}\ninstall what brings it; with Debian: apt-get install {}",
        missing.join(", "),
        packages.join(" ")
    )))
}

fn search_path() -> String {
    let path = std::env::var("PATH").unwrap_or_default();
    if path.is_empty() { SYSTEM_FOLDERS.to_owned() } else { format!("{path}:{SYSTEM_FOLDERS}") }
}

/// Replaces this process by the same command in namespaces of its own. Returns only when that is not possible, and why.
///
/// # Errors
/// When the system does not allow such namespaces.
pub(super) fn again() -> Result<Failure, Failure> {
    let unshare = || {
        let mut command = Command::new("unshare");
        if !rustix::process::geteuid().is_root() {
            // With the capabilities of the new namespace, and under the own name, because Slurm asks for it.
            command.args(["--user", "--map-current-user", "--keep-caps"]);
        }
        command.args(["--net", "--mount"]).env("PATH", search_path());
        command
    };
    // What the system does not allow is found out before anything is replaced.
    let tried = unshare()
        .args(["sh", "-c", "ip link set lo up && mount -t tmpfs tmpfs /run && ip netns add try"])
        .output();
    let problem = match tried {
        Ok(output) if output.status.success() => None,
        Ok(output) => Some(programs::complaint(&output.stderr)),
        Err(error) => Some(error.to_string()),
    };
    if let Some(problem) = problem {
        return Err(Failure::bad_input(format!(
            "no namespaces of networks and mounts can be made here: {problem}\n\
             run this as root, or let users make namespaces (sysctl kernel.unprivileged_userns_clone=1 \
             kernel.apparmor_restrict_unprivileged_userns=0); a container needs the capabilities SYS_ADMIN and \
             NET_ADMIN"
        )));
    }
    let failed = |error: std::io::Error| {
        Failure::internal(format!("this program cannot be started again: {error}"))
    };
    let outside = namespaces().map_err(failed)?;
    let program = std::env::current_exe().map_err(failed)?;
    let mut command = unshare();
    command.arg(program).args(std::env::args_os().skip(1)).arg("--entered-from").arg(outside);
    Ok(failed(command.exec()))
}

/// The namespaces of this process.
fn namespaces() -> std::io::Result<String> {
    let link = |kind: &str| std::fs::read_link(format!("/proc/self/ns/{kind}"));
    let all: std::io::Result<Vec<String>> =
        KINDS.iter().map(|kind| Ok(link(kind)?.to_string_lossy().into_owned())).collect();
    Ok(all?.join(","))
}

/// Makes the new namespaces usable. `outside` are those that this process must have left.
///
/// # Errors
/// When they are the same, or something cannot be mounted.
pub(super) fn arrive(outside: &OsStr) -> Result<(), Failure> {
    let own = namespaces().map_err(|error| Failure::internal(format!("/proc/self/ns: {error}")))?;
    let outside = outside.to_string_lossy();
    let are_left = own.split(',').all(|one| !outside.split(',').any(|other| other == one))
        && outside.split(',').count() == KINDS.len();
    if !are_left {
        return Err(Failure::bad_input("--entered-from is for `coalloc demo equipment` itself"));
    }
    let run = |program: &str, args: &[&str]| -> Result<(), Failure> {
        let output = Command::new(program).args(args).output();
        let output =
            output.map_err(|error| Failure::internal(format!("{program} cannot run: {error}")))?;
        if output.status.success() {
            return Ok(());
        }
        let complaint = programs::complaint(&output.stderr);
        Err(Failure::internal(format!("{program} {}: {complaint}", args.join(" "))))
    };
    // The names of network namespaces go there, and others' names are not seen.
    run("mount", &["-t", "tmpfs", "tmpfs", "/run"])?;
    run("ip", &["link", "set", "lo", "up"])
}

/// The Unix user as whom the jobs run.
#[derive(Debug, Clone)]
pub(super) struct JobUser {
    /// The name.
    pub(super) name: String,
    /// The numbers of user and group if they are not ours: we are root, which the driver keeps for itself.
    ids: Option<(u32, u32)>,
}

impl JobUser {
    /// The user who runs this program; `nobody` if that is root.
    ///
    /// # Errors
    /// When the user has no name.
    pub(super) fn find() -> Result<Self, Failure> {
        let asked = |args: &[&str]| -> Result<String, Failure> {
            let output = Command::new("id").args(args).output();
            let output = output.map_err(|error| Failure::internal(format!("id: {error}")))?;
            if output.status.success() {
                return Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned());
            }
            let complaint = programs::complaint(&output.stderr);
            Err(Failure::bad_input(format!("Slurm needs Unix users with names: {complaint}")))
        };
        if !rustix::process::geteuid().is_root() {
            return Ok(Self { name: asked(&["-un"])?, ids: None });
        }
        let number = |option: &str| -> Result<u32, Failure> {
            let text = asked(&[option, "nobody"])?;
            text.parse().map_err(|_| Failure::internal(format!("id {option} nobody: {text}")))
        };
        Ok(Self { name: "nobody".to_owned(), ids: Some((number("-u")?, number("-g")?)) })
    }

    /// The arguments of setpriv that make a program this user's.
    pub(super) fn setpriv(&self) -> Option<[String; 3]> {
        let (user, group) = self.ids?;
        Some([format!("--reuid={user}"), format!("--regid={group}"), "--clear-groups".to_owned()])
    }

    /// Lets the user go through a folder, to others in it, without seeing what is there.
    ///
    /// # Errors
    /// When that cannot be set.
    pub(super) fn let_into(&self, folder: &Path) -> Result<(), Failure> {
        if self.ids.is_none() {
            return Ok(());
        }
        std::fs::set_permissions(folder, std::fs::Permissions::from_mode(0o711))
            .map_err(|error| Failure::internal(format!("{}: {error}", folder.display())))
    }

    /// Gives the user a new folder.
    ///
    /// # Errors
    /// When it cannot be made.
    pub(super) fn give(&self, folder: &Path) -> Result<(), Failure> {
        let made = std::fs::create_dir_all(folder);
        let given = made.and_then(|()| match self.ids {
            Some((user, group)) => chown(folder, Some(user), Some(group)),
            None => Ok(()),
        });
        given.map_err(|error| Failure::internal(format!("{}: {error}", folder.display())))
    }
}
