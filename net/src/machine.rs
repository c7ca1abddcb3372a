//! What a daemon takes from the machine it runs on, besides its listener and its ledger: the clocks,
//! connections to others, and threads for work that must not be done in a call's task.
//!
//! Nothing else in `net`, `rm` and `grc` reads a clock on which a decision depends, connects, or waits for a
//! disk. So a simulation can take the place of [`System`] and run the unchanged services and shells in its
//! own time (`tests/shells`).
//!
//! Left out: clocks for what is only displayed (metrics, traces and logs read the system's clocks
//! themselves), and the threads of planners (`coalloc_grc::planning`). Source:
//! docs/adr/0018-the-machine-is-handed-in.md.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use coalloc_common::Now;
use coalloc_ledger::owner::{OwnerTurn, TurnError, on_thread};
use tokio::sync::oneshot;
use tonic::transport::Channel;

use crate::client::{Destination, Dialer};
use crate::clock;
use crate::daemon::{die, end_as_standby};

/// A daemon's machine. Cheap to clone.
pub type Host = Arc<dyn Machine>;

/// A future that is done when an owner has ended.
pub type OwnerFinished = Pin<Box<dyn Future<Output = ()> + Send>>;

/// Work that may wait for a disk.
pub type BlockingWork = Box<dyn FnOnce() + Send>;

/// What a daemon takes from its machine; see the module's text.
pub trait Machine: fmt::Debug + Send + Sync + 'static {
    /// Reads both clocks.
    fn now(&self) -> Now;

    /// Identity of the running boot. Boot times of two different boots cannot be compared.
    fn boot_id(&self) -> String;

    /// A channel that connects when it is first used, and reconnects whenever it has to.
    fn connect(&self, to: &Destination) -> Channel;

    /// Drives an owner called `name` until it is stopped. If the owner fails, this process ends at once:
    /// nothing that is in memory may be sent any more (I16).
    ///
    /// # Errors
    /// When the system cannot start a thread.
    fn drive(&self, name: &str, turns: Box<dyn OwnerTurn>) -> std::io::Result<OwnerFinished>;

    /// Runs work on a thread where waiting for a disk blocks nobody else. Must be called within a tokio
    /// runtime.
    fn off_the_runtime(&self, work: BlockingWork);
}

/// Runs work on a thread where waiting for a disk blocks nobody else, and returns its result; `None` when it
/// panicked.
pub async fn off_the_runtime<T: Send + 'static>(
    host: &Host,
    work: impl FnOnce() -> T + Send + 'static,
) -> Option<T> {
    let (sender, done) = oneshot::channel();
    host.off_the_runtime(Box::new(move || {
        // The caller may be gone.
        let _ = sender.send(work());
    }));
    done.await.ok()
}

/// The machine that this process really runs on.
#[derive(Debug, Clone)]
pub struct System {
    dialer: Dialer,
}

impl System {
    /// The system as a [`Host`], which connects by `dialer`.
    #[must_use]
    pub fn host(dialer: Dialer) -> Host {
        Arc::new(Self { dialer })
    }
}

impl Machine for System {
    fn now(&self) -> Now {
        clock::now()
    }

    fn boot_id(&self) -> String {
        clock::boot_id()
    }

    fn connect(&self, to: &Destination) -> Channel {
        self.dialer.connect(to)
    }

    fn drive(&self, name: &str, turns: Box<dyn OwnerTurn>) -> std::io::Result<OwnerFinished> {
        let thread = on_thread(name, turns, |error| match error {
            TurnError::Replaced(reason) => end_as_standby(&reason),
            TurnError::Disk(_) | TurnError::Panic(_) | TurnError::Core(_) => {
                die(&error.to_string())
            }
        })?;
        Ok(Box::pin(async move {
            // The owner's last batch takes one fsync, so this must not wait on the runtime's threads.
            let _ = tokio::task::spawn_blocking(move || thread.join()).await;
        }))
    }

    fn off_the_runtime(&self, work: BlockingWork) {
        drop(tokio::task::spawn_blocking(work));
    }
}
