//! What long runs need: threads, a signal that ends them early, and a progress bar with the remaining time.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use indicatif::{HumanDuration, ProgressBar, ProgressState, ProgressStyle};

use crate::kit::exit::Failure;

/// Does blocking work. A signal sets the flag that the work gets; the work then ends when it is ready to.
///
/// # Errors
/// The error of the work; an internal error when it panicked.
pub async fn until_stopped<T: Send + 'static>(
    work: impl FnOnce(&Arc<AtomicBool>) -> Result<T, Failure> + Send + 'static,
) -> Result<T, Failure> {
    let stop = Arc::new(AtomicBool::new(false));
    let raised = Arc::clone(&stop);
    let mut work = tokio::task::spawn_blocking(move || work(&raised));
    let done = tokio::select! {
        done = &mut work => done,
        () = coalloc_net::server::stop_signal() => {
            stop.store(true, Ordering::Relaxed);
            work.await
        }
    };
    done.map_err(|error| Failure::internal(format!("the run failed: {error}")))?
}

/// The number of threads: as many as were asked for, or one per core.
#[must_use]
pub fn threads(asked: Option<u16>) -> usize {
    let cores = || std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    asked.map_or_else(cores, usize::from)
}

/// A progress bar over `all` of `what`, of which `known` were done before it began.
#[must_use]
pub fn bar(known: u64, all: u64, what: &str) -> ProgressBar {
    let bar = ProgressBar::new(all).with_position(known);
    let template = format!("  [{{bar:30}}] {{pos}} of {{len}} {what}, {{elapsed}}, {{left}} left");
    let left = move |state: &ProgressState, out: &mut dyn std::fmt::Write| {
        let (done, all) = (state.pos().saturating_sub(known), state.len().unwrap_or(0));
        let open = all.saturating_sub(state.pos());
        let shown = match remaining(state.elapsed(), done, open) {
            Some(left) => write!(out, "{:#}", HumanDuration(left)),
            None => write!(out, "?"),
        };
        // If the bar cannot be drawn, there is nothing to do about it.
        let _ = shown;
    };
    if let Ok(style) = ProgressStyle::with_template(&template) {
        bar.set_style(style.with_key("left", left).progress_chars("=> "));
    }
    // It is drawn before the first run has ended, and its clock goes on during a long one.
    bar.enable_steady_tick(Duration::from_secs(1));
    bar
}

/// The time left, if the rest takes as long as what is done. What was there before took no time.
fn remaining(elapsed: Duration, done: u64, open: u64) -> Option<Duration> {
    let seconds = elapsed.as_secs_f64() * open as f64 / done as f64;
    Duration::try_from_secs_f64(seconds).ok()
}

/// The peak memory of this process, if the system reports it (Linux).
#[must_use]
pub fn peak_memory_mib() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    let kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kib / 1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_left_is_that_of_what_is_done() {
        let minute = Duration::from_secs(60);
        assert_eq!(remaining(minute, 10, 50), Some(Duration::from_secs(300)));
        assert_eq!(remaining(minute, 0, 50), None, "nothing is known yet");
        assert_eq!(remaining(minute, 3, 0), Some(Duration::ZERO));
    }
}
