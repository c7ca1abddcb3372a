//! `coalloc down`: stops the daemons of a folder that `coalloc up --detach` has left running.
//!
//! Numbers of processes are given to other processes later. So each one is looked at again after it can no longer be
//! exchanged for another (a pidfd), and is signalled only if it is a daemon of the folder.
//!
//! Left out: daemons in the foreground, in containers and of systemd, which have keys and commands of their own.

use std::path::{Path, PathBuf};

use std::time::{Duration, Instant};

use clap::Args;
use coalloc_common::suggest::did_you_mean;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fd::OwnedFd;
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

use crate::kit::exit::{Answer, Exit, Failure};
use crate::kit::when::Length;
use crate::kit::{text, whole};
use crate::user::up::{PIDS, configuration_of, running};

/// Stop the daemons of a folder that `coalloc up --detach` has left running
///
/// Each one finishes what it is doing, and nothing of its ledger is lost. Whatever else has the numbers of processes that
/// ended long ago is left alone.
///
/// Exit code 0: none of those that are meant runs; 4: some still end.
#[derive(Debug, Clone, Args)]
#[command(after_help = "Examples:\n  \
    coalloc down my-federation\n  \
    coalloc down                    the current folder\n  \
    coalloc down --only crm-tokyo   one of its daemons")]
pub struct DownArgs {
    /// The folder with the configurations
    #[arg(value_name = "DIR", default_value = ".")]
    folder: PathBuf,
    /// Only the daemon of this name; may be repeated
    #[arg(long, value_name = "NAME")]
    only: Vec<String>,
    /// How long to wait until they have ended
    #[arg(long, value_name = "LENGTH", default_value = "30s")]
    patience: Length,
}

/// A process that cannot be exchanged for another one of its number.
struct EndingDaemon {
    name: String,
    process: OwnedFd,
}

impl EndingDaemon {
    /// Waits until it has ended; false: it has not by then.
    fn ends_by(&self, until: Instant) -> bool {
        let left = until.saturating_duration_since(Instant::now());
        // A longer time is as good as no limit.
        let left = Timespec::try_from(left.max(Duration::from_millis(1))).ok();
        // A pidfd can be read when its process has ended.
        let mut watched = [PollFd::new(&self.process, PollFlags::IN)];
        let ready = rustix::io::retry_on_intr(|| poll(&mut watched, left.as_ref()));
        ready.is_ok_and(|ready| ready > 0)
    }
}

/// Runs `coalloc down`.
///
/// # Errors
/// When there is no such folder, or a process cannot be signalled.
pub async fn run(args: &DownArgs) -> Result<Answer, Failure> {
    let shown = args.folder.display();
    let folder = args.folder.canonicalize();
    let folder = folder.map_err(|error| Failure::bad_input(format!("{shown}: {error}")))?;
    let pids = folder.join(PIDS);
    let mut all = Vec::new();
    for pid in meant(running(&pids), &args.only, &folder)? {
        all.extend(end(&pids, &pid)?);
    }
    if all.is_empty() {
        let which = match &args.only[..] {
            [] => "no daemon runs".to_owned(),
            only => format!("{} does not run", text::enumerate(only)),
        };
        let text = format!("{which} that was started in the background in {shown}\n");
        return keep_running(&pids).map(|()| Answer::done(text));
    }
    let until = Instant::now() + args.patience.0.to_std();
    let names: Vec<String> = all.iter().map(|one| one.name.clone()).collect();
    let left = tokio::task::spawn_blocking(move || {
        let left = all.into_iter().filter(|one| !one.ends_by(until));
        left.map(|one| one.name).collect::<Vec<String>>()
    });
    let left = left.await.map_err(|error| Failure::internal(error.to_string()))?;
    if !left.is_empty() {
        let left = text::enumerate(&left);
        let problem = format!("{left}: still running after {}", args.patience.0);
        return Err(Failure::new(
            Exit::Unfinished,
            format!("{problem}\nlook at the log beside the ledger, or wait longer: --patience 2m"),
        ));
    }
    keep_running(&pids)?;
    Ok(Answer::done(format!("stopped: {}\n", text::enumerate(&names))))
}

/// The processes of the daemons with these names, or all.
fn meant(pids: Vec<String>, only: &[String], folder: &Path) -> Result<Vec<String>, Failure> {
    let names: Vec<String> = pids.iter().map(|pid| name_of(pid)).collect();
    let is_of_folder = |name: &String| folder.join(format!("{name}.yaml")).is_file();
    let is_known = |name: &&String| names.contains(name) || is_of_folder(name);
    if let Some(wrong) = only.iter().find(|name| !is_known(name)) {
        let guess = did_you_mean(wrong, names.iter().map(String::as_str));
        let names = text::enumerate(&names);
        return Err(Failure::bad_input(format!(
            "--only: {wrong:?} is no daemon of this folder; those that run: {names}{guess}"
        )));
    }
    let is_meant = |(_, name): &(String, String)| only.is_empty() || only.contains(name);
    Ok(pids.into_iter().zip(names).filter(is_meant).map(|(pid, _)| pid).collect())
}

/// Asks one process to end, if it is still a daemon of the folder.
fn end(pids: &Path, pid: &str) -> Result<Option<EndingDaemon>, Failure> {
    let failed = |error: &dyn std::fmt::Display| {
        Failure::new(Exit::Failed, format!("process {pid} cannot be stopped: {error}"))
    };
    let Some(number) = pid.parse().ok().and_then(Pid::from_raw) else { return Ok(None) };
    let process = match pidfd_open(number, PidfdFlags::NONBLOCK) {
        Ok(process) => process,
        Err(rustix::io::Errno::SRCH) => return Ok(None),
        Err(error) => return Err(failed(&error)),
    };
    if !running(pids).iter().any(|one| one == pid) {
        return Ok(None);
    }
    match pidfd_send_signal(&process, Signal::TERM) {
        Ok(()) | Err(rustix::io::Errno::SRCH) => {}
        Err(error) => return Err(failed(&error)),
    }
    Ok(Some(EndingDaemon { name: name_of(pid), process }))
}

/// The name of a daemon's configuration without its ending.
fn name_of(pid: &str) -> String {
    let config = configuration_of(pid);
    let name = config.as_deref().and_then(Path::file_stem);
    name.map_or_else(|| format!("process {pid}"), |name| name.to_string_lossy().into_owned())
}

/// Takes the numbers that belong to nobody now out of the file, and removes the file with the last one.
fn keep_running(pids: &Path) -> Result<(), Failure> {
    let left = running(pids);
    let kept = match left.is_empty() {
        true => std::fs::remove_file(pids),
        false => whole::write(pids, (left.join("\n") + "\n").as_bytes()),
    };
    match kept {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(Failure::internal(format!("{}: {error}", pids.display())))
        }
        _ => Ok(()),
    }
}
