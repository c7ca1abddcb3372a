//! Signals by which a person or the system ends a command: Ctrl-C, SIGTERM, and the end of the terminal (SIGHUP).
//!
//! For commands that would otherwise leave something behind: half-written folders, processes that nobody knows of. Whoever
//! starts a command with `nohup` wants it to outlive the terminal, and it does.
//!
//! Left out: daemons, which go on when a terminal ends ([`coalloc_net::server::stop_signal`]).

use tokio::signal::unix::{SignalKind, signal};

/// Done when the command is told to end.
pub async fn interrupted() {
    let stop = coalloc_net::server::stop_signal();
    let hangup = if ignores_hangup() { None } else { signal(SignalKind::hangup()).ok() };
    match hangup {
        Some(mut hangup) => {
            tokio::select! {
                () = stop => {}
                _ = hangup.recv() => {}
            }
        }
        None => stop.await,
    }
}

/// Whether this process was started with SIGHUP ignored.
fn ignores_hangup() -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    ignored(&status) & 1 == 1
}

/// The set of signals that a process ignores, from its file in `/proc`; the signal of number 1 is the lowest bit.
fn ignored(status: &str) -> u64 {
    let set = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    set.and_then(|set| u64::from_str_radix(set.trim(), 16).ok()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ignored_signals_are_read_as_the_kernel_writes_them() {
        assert_eq!(ignored("Name:\tx\nSigIgn:\t0000000000001001\nSigCgt:\t0\n"), 0x1001);
        assert_eq!(ignored(""), 0);
    }
}
