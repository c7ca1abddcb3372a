//! What a daemon takes from the machine it runs on, besides its listener and its ledger: the clocks, the way
//! to others, and whoever does what must not be done in a call's task.
//!
//! Nothing else in `net`, `rm` and `grc` reads a clock that anything is decided by, connects, or waits for a
//! disk. So a simulation that stands in for [`System`] runs the unchanged services and shells, on
//! its own time (`tests/shells`).
//!
//! Left out: what is only shown (metrics, traces, logs) reads the system's clocks itself; planners
//! have threads of their own (`coalloc_grc::planning`).

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use coalloc_common::Now;
use coalloc_ledger::owner::{OwnerTurn, on_thread};
use tokio::sync::oneshot;
use tonic::transport::{Channel, Endpoint};

use crate::clock;
use crate::daemon::die;

/// A daemon's machine. Cheap to clone.
pub type Host = Arc<dyn Machine>;

/// Done when an owner has ended.
pub type OwnerFinished = Pin<Box<dyn Future<Output = ()> + Send>>;

/// Work that may wait for a disk.
pub type BlockingWork = Box<dyn FnOnce() + Send>;

/// See the module's text.
pub trait Machine: fmt::Debug + Send + Sync + 'static {
    /// Reads both clocks.
    fn now(&self) -> Now;

    /// Identity of the running boot: boot times of two boots do not compare.
    fn boot_id(&self) -> String;

    /// A channel that connects when first used, and again when it has to.
    fn connect(&self, endpoint: &Endpoint) -> Channel;

    /// Drives an owner called `name` until it is stopped. When it fails, this process ends at once: nothing it
    /// has in memory may be said any more (I16).
    ///
    /// # Errors
    /// When the system gives no thread.
    fn drive(&self, name: &str, turns: Box<dyn OwnerTurn>) -> std::io::Result<OwnerFinished>;

    /// Does work where waiting for a disk harms nobody. Needs a tokio runtime around it.
    fn off_the_runtime(&self, work: BlockingWork);
}

/// Does work where waiting for a disk harms nobody; `None` when it panicked.
pub async fn off_the_runtime<T: Send + 'static>(
    host: &Host,
    work: impl FnOnce() -> T + Send + 'static,
) -> Option<T> {
    let (sender, done) = oneshot::channel();
    host.off_the_runtime(Box::new(move || {
        // Whoever asked may be gone.
        let _ = sender.send(work());
    }));
    done.await.ok()
}

/// The machine that this process really runs on.
#[derive(Debug, Clone, Copy)]
pub struct System;

impl System {
    /// As a daemon takes it.
    #[must_use]
    pub fn host() -> Host {
        Arc::new(Self)
    }
}

impl Machine for System {
    fn now(&self) -> Now {
        clock::now()
    }

    fn boot_id(&self) -> String {
        clock::boot_id()
    }

    fn connect(&self, endpoint: &Endpoint) -> Channel {
        endpoint.connect_lazy()
    }

    fn drive(&self, name: &str, turns: Box<dyn OwnerTurn>) -> std::io::Result<OwnerFinished> {
        let thread = on_thread(name, turns, |reason: String| die(&reason))?;
        Ok(Box::pin(async move {
            // The owner's last batch takes one fsync.
            let _ = tokio::task::spawn_blocking(move || thread.join()).await;
        }))
    }

    fn off_the_runtime(&self, work: BlockingWork) {
        drop(tokio::task::spawn_blocking(work));
    }
}
