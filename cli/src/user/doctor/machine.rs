//! What `coalloc doctor` asks of this machine: whether something keeps its clock right, and how much of a disk is free.

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use super::examined::ExaminedDaemon;
use super::findings::{Check, Finding};
use crate::kit::text;

/// Whether the clock of this machine is kept right by NTP.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum Synchronisation {
    /// It is.
    Kept,
    /// It is not.
    Free,
    /// Nobody here can say.
    #[default]
    Unknown,
}

/// Asks the service manager, which knows of every NTP client through the kernel.
pub(super) async fn synchronisation(patience: Duration) -> Synchronisation {
    let mut command = tokio::process::Command::new("timedatectl");
    command.args(["show", "--property=NTPSynchronized", "--value"]);
    command.stdin(Stdio::null()).stderr(Stdio::null()).kill_on_drop(true);
    match tokio::time::timeout(patience, command.output()).await {
        Ok(Ok(output)) => match String::from_utf8_lossy(&output.stdout).trim() {
            "yes" => Synchronisation::Kept,
            "no" => Synchronisation::Free,
            _ => Synchronisation::Unknown,
        },
        _ => Synchronisation::Unknown,
    }
}

/// The free bytes of the disk under a path, for whoever is not root; `None` if they cannot be read.
pub(super) fn free_bytes(path: &Path) -> Option<u64> {
    let system = rustix::fs::statvfs(path).ok()?;
    Some(system.f_bavail.saturating_mul(system.f_frsize))
}

/// The bytes of a ledger with what is beside it; 0 if there is none yet.
pub(super) fn ledger_bytes(ledger: &Path) -> u64 {
    let size = |path: &Path| std::fs::metadata(path).map_or(0, |file| file.len());
    let mut log = ledger.as_os_str().to_owned();
    log.push("-wal");
    size(ledger) + size(Path::new(&log))
}

/// Whether backups of all ledgers of this machine fit where backups are kept.
pub(super) fn backups(folders: &[PathBuf], daemons: &[ExaminedDaemon]) -> Vec<Finding> {
    let ledgers = daemons.iter().filter_map(|daemon| daemon.files.as_ref());
    let needed: u64 = ledgers.map(|files| ledger_bytes(&files.ledger)).sum();
    let one = |folder: &PathBuf| {
        let about = format!("backups in {}", folder.display());
        let Some(free) = free_bytes(folder) else {
            return Finding::failed(&about, Check::Disk, "the folder cannot be looked at")
                .then(format!("mkdir -p {}", text::shell_word(&folder.display().to_string())));
        };
        let measured =
            format!("{} free; one backup of each ledger takes {}", bytes(free), bytes(needed));
        match free < needed.saturating_mul(2) {
            true => Finding::warning(&about, Check::Disk, measured)
                .then("delete old backups, or keep them on a larger disk"),
            false => Finding::ok(&about, Check::Disk, measured),
        }
    };
    folders.iter().map(one).collect()
}

/// An amount of bytes, for people.
pub(super) fn bytes(count: u64) -> String {
    match count {
        0..1_000 => format!("{count} B"),
        1_000..1_000_000 => format!("{} kB", count / 1_000),
        1_000_000..1_000_000_000 => format!("{} MB", count / 1_000_000),
        _ => format!("{}.{} GB", count / 1_000_000_000, count / 100_000_000 % 10),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_told_in_their_unit() {
        let shown = [0, 999, 1_000, 41_900_000, 1_250_000_000].map(bytes);
        assert_eq!(shown, ["0 B", "999 B", "1 kB", "41 MB", "1.2 GB"]);
        assert!(free_bytes(Path::new("/")).is_some_and(|free| free > 0));
        assert_eq!(free_bytes(Path::new("/nowhere/at/all")), None);
        assert_eq!(ledger_bytes(Path::new("/nowhere/at.ledger")), 0);
    }

    #[tokio::test]
    async fn a_folder_for_backups_that_is_missing_fails() {
        let found = backups(&[PathBuf::from("/nowhere/at/all")], &[]);
        assert_eq!(found[0].next.as_deref(), Some("mkdir -p /nowhere/at/all"));
    }
}
