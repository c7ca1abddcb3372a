//! The lease of a process that shares a ledger: a thread renews it until it is given back.
//!
//! The end of a lease is counted from before the call that has renewed it, by a clock that goes on while the machine sleeps. So
//! etcd ends it later than that, if the two clocks run about equally fast.
//!
//! Left out: what a leader may do without a lease. Nothing that is decided depends on it.

use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use coalloc_common::{BootTime, limits};
use coalloc_etcd::{Etcd, EtcdError};
use tokio::runtime::Handle as Runtime;

use crate::daemon::end_as_standby;
use crate::machine::Host;

/// Pause after a renewal that was not answered.
const RETRY: Duration = Duration::from_millis(200);

/// The lease of this process. Clones are the same one.
#[derive(Debug, Clone)]
pub(super) struct ProcessLease {
    etcd: Etcd,
    host: Host,
    state: Arc<LeaseState>,
}

#[derive(Debug, Default)]
struct LeaseState {
    /// Its id; 0 if there is none.
    id: AtomicI64,
    /// When it ends at the earliest, in boot time.
    ends_us: AtomicI64,
    /// Does the process end with its lease?
    leads: AtomicBool,
    /// Was it given back?
    is_over: AtomicBool,
    /// Rises while the owner of the ledger works.
    pulse: OnceLock<Arc<AtomicU64>>,
}

impl ProcessLease {
    /// Gets a lease, and renews it from now on, on a thread that waits for nothing else. Must be called within a tokio runtime.
    ///
    /// # Errors
    /// When the system gives no thread.
    pub(super) fn keep(etcd: Etcd, host: &Host) -> std::io::Result<Self> {
        let lease = Self { etcd, host: Arc::clone(host), state: Arc::default() };
        let (kept, runtime) = (lease.clone(), Runtime::current());
        std::thread::Builder::new().name("lease".to_owned()).spawn(move || kept.renew(&runtime))?;
        Ok(lease)
    }

    /// The lease's id; `None` if there is none, or if it may have ended.
    #[must_use]
    pub(super) fn id(&self) -> Option<i64> {
        let id = self.state.id.load(Ordering::Acquire);
        (id != 0 && self.is_certain()).then_some(id)
    }

    /// Whether the lease is certain to be in force for some time.
    #[must_use]
    pub(super) fn is_certain(&self) -> bool {
        let until = self.host.now().boot.saturating_add(limits::LEASE_MARGIN);
        until < self.ends()
    }

    /// From now on this process leads. It ends when its lease has ended, and when its pulse does not rise any more.
    pub(super) fn bind_process(&self, pulse: Arc<AtomicU64>) {
        // Nobody else binds it.
        let _ = self.state.pulse.set(pulse);
        self.state.leads.store(true, Ordering::Release);
    }

    /// Ends the lease, so that another process may lead at once.
    pub(super) async fn end(&self) {
        self.state.is_over.store(true, Ordering::Release);
        self.state.leads.store(false, Ordering::Release);
        let id = self.state.id.swap(0, Ordering::AcqRel);
        if id != 0
            && let Err(error) = self.etcd.revoke(id).await
        {
            tracing::warn!(%error, "the lease could not be given back; another process leads when it has ended");
        }
    }

    fn renew(&self, runtime: &Runtime) {
        let mut last_pulse = (0, self.host.now().boot);
        while !self.state.is_over.load(Ordering::Acquire) {
            // No call may last until after the end of the lease: the process must be able to end in time.
            let left = self.ends().since(self.host.now().boot).max(limits::LEASE_RENEWAL);
            let renewed = runtime
                .block_on(async { tokio::time::timeout(left.to_std(), self.renew_once()).await });
            let pause = match renewed {
                Ok(Ok(())) => limits::LEASE_RENEWAL.to_std(),
                Ok(Err(error)) => {
                    tracing::warn!(%error, "the lease was not renewed");
                    RETRY
                }
                Err(_) => RETRY,
            };
            self.end_if_over();
            self.end_if_stuck(&mut last_pulse);
            std::thread::sleep(pause);
        }
    }

    fn ends(&self) -> BootTime {
        BootTime::from_us(self.state.ends_us.load(Ordering::Acquire))
    }

    /// Ends the process of a leader whose owner has done nothing for long: its disk hangs, for example.
    fn end_if_stuck(&self, last: &mut (u64, BootTime)) {
        let pulse = self.state.pulse.get().map_or(0, |pulse| pulse.load(Ordering::Relaxed));
        let now = self.host.now().boot;
        if pulse != last.0 || !self.state.leads.load(Ordering::Acquire) {
            *last = (pulse, now);
        } else if now > last.1.saturating_add(limits::STUCK_LEADER) {
            end_as_standby(
                "the owner of the ledger has done nothing for too long; does a disk hang?",
            );
        }
    }

    /// Ends the process of a leader that cannot reach etcd: its callers go to whoever leads by now.
    fn end_if_over(&self) {
        if self.host.now().boot > self.ends() && self.state.leads.load(Ordering::Acquire) {
            end_as_standby(
                "etcd has not renewed the lease of this process in time, so another one may lead",
            );
        }
    }

    async fn renew_once(&self) -> Result<(), EtcdError> {
        let (id, asked) = (self.state.id.load(Ordering::Acquire), self.host.now().boot);
        let renewed = match id {
            0 => None,
            id => self.etcd.renew(id).await?,
        };
        if id != 0 && renewed.is_none() && self.state.leads.load(Ordering::Acquire) {
            end_as_standby("the lease of this process has ended, so another one may lead");
        }
        let lease = match renewed {
            Some(lease) => lease,
            None => self.etcd.grant(seconds()).await?,
        };
        let lasts = i64::try_from(lease.lasts.as_micros()).unwrap_or(i64::MAX);
        let ends = asked.as_us().saturating_add(lasts);
        self.state.ends_us.store(ends, Ordering::Release);
        self.state.id.store(lease.id, Ordering::Release);
        Ok(())
    }
}

/// What etcd is asked for.
fn seconds() -> u32 {
    u32::try_from(limits::LEASE.as_us() / 1_000_000).unwrap_or(u32::MAX)
}
