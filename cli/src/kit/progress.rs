//! What a command waits for, shown on a terminal once it has taken a second, and told elsewhere once it has taken ten.
//!
//! The line is on standard error, in front of no note, and is gone when the wait is over. A thread draws it, so that
//! work which blocks has one, too. Where standard error is no terminal, a note says once what is waited for.
//!
//! Left out: bars of work whose amount is known, which long runs of `coalloc sim` draw.

use std::io::IsTerminal as _;
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use crate::kit::text;

/// Time after which somebody wonders.
const PATIENCE: Duration = Duration::from_secs(1);
/// Time after which somebody wonders who reads a log.
const PATIENCE_OF_LOG: Duration = Duration::from_secs(10);
/// Time between two drawings.
const TICK: Duration = Duration::from_millis(120);

/// The line that is drawn now.
static LINE: Mutex<Option<ProgressBar>> = Mutex::new(None);

fn line() -> MutexGuard<'static, Option<ProgressBar>> {
    // A line is whole at any time.
    LINE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A wait; it ends when it is dropped.
#[derive(Debug)]
pub struct Wait(Option<(Sender<()>, JoinHandle<()>)>);

impl Wait {
    /// Begins to wait. If standard error is a terminal and the wait takes more than a second, a line there says what is
    /// waited for, and for how long. Elsewhere a note says after ten seconds what is waited for.
    #[must_use]
    pub fn begin(what: &'static str) -> Self {
        let is_drawn = std::io::stderr().is_terminal();
        let patience = if is_drawn { PATIENCE } else { PATIENCE_OF_LOG };
        let (end, ended) = mpsc::channel::<()>();
        let drawer = std::thread::spawn(move || {
            if ended.recv_timeout(patience) == Err(RecvTimeoutError::Timeout) {
                if is_drawn {
                    *line() = Some(drawn(what));
                } else {
                    let so_long = patience.as_secs();
                    text::note(&format!("still {what}, after {so_long} s"));
                }
                // Nothing is ever sent: this returns when the wait is dropped.
                let _ = ended.recv();
            }
        });
        Self(Some((end, drawer)))
    }
}

impl Drop for Wait {
    fn drop(&mut self) {
        let Some((end, drawer)) = self.0.take() else { return };
        drop(end);
        // If the thread has panicked, there is no line.
        let _ = drawer.join();
        if let Some(line) = line().take() {
            line.finish_and_clear();
        }
    }
}

fn drawn(what: &'static str) -> ProgressBar {
    let line = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr());
    let line = line.with_elapsed(PATIENCE).with_message(what);
    if let Ok(style) = ProgressStyle::with_template("{spinner} {msg}, {elapsed}") {
        line.set_style(style);
    }
    line.enable_steady_tick(TICK);
    line
}

/// Prints on standard error while no line is in the way.
pub fn beside(print: impl FnOnce()) {
    match line().as_ref() {
        Some(line) => line.suspend(print),
        None => print(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wait_that_is_over_leaves_no_line() {
        let wait = Wait::begin("a test");
        let mut printed = false;
        beside(|| printed = true);
        drop(wait);
        assert!(printed && line().is_none());
    }
}
