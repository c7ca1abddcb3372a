//! The two clocks of a real machine ([`crate::machine::System`]), read in one place, and clocks that are handed in.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use coalloc_common::{BootTime, Now, Time};
use rustix::time::{ClockId, clock_gettime};
use rustls::pki_types::UnixTime;
use rustls::time_provider::TimeProvider;

/// A source of both clocks: those of the real machine, or those of a simulation. Cheap to clone.
#[derive(Clone)]
pub struct Clock(Arc<dyn Fn() -> Now + Send + Sync>);

impl Clock {
    /// The clocks of the real machine.
    #[must_use]
    pub fn system() -> Self {
        Self::new(now)
    }

    /// Clocks that are read by a function.
    pub fn new(read: impl Fn() -> Now + Send + Sync + 'static) -> Self {
        Self(Arc::new(read))
    }

    /// Reads both clocks.
    #[must_use]
    pub fn now(&self) -> Now {
        (self.0)()
    }

    /// The wall clock, for the TLS library. A time before 1970 counts as 1970.
    #[must_use]
    pub fn unix(&self) -> UnixTime {
        let us = u64::try_from(self.now().wall.as_us()).unwrap_or_default();
        UnixTime::since_unix_epoch(Duration::from_micros(us))
    }
}

impl fmt::Debug for Clock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.now())
    }
}

impl TimeProvider for Clock {
    fn current_time(&self) -> Option<UnixTime> {
        Some(self.unix())
    }
}

/// Reads both clocks of the real machine.
#[must_use]
pub fn now() -> Now {
    Now {
        wall: Time::from_us(read_us(ClockId::Realtime)),
        boot: BootTime::from_us(read_us(BOOT_CLOCK)),
    }
}

/// A clock that goes on while the machine sleeps and that nobody can set. On systems without one, the
/// monotonic clock.
#[cfg(target_os = "linux")]
const BOOT_CLOCK: ClockId = ClockId::Boottime;
#[cfg(not(target_os = "linux"))]
const BOOT_CLOCK: ClockId = ClockId::Monotonic;

fn read_us(clock: ClockId) -> i64 {
    let at = clock_gettime(clock);
    at.tv_sec.saturating_mul(1_000_000).saturating_add(at.tv_nsec / 1_000)
}

/// Identity of the running boot: boot times of two different boots cannot be compared. If the system does not
/// say it, the process counts as a boot of its own, so that timers are set again by the wall clock after a
/// restart.
#[must_use]
pub fn boot_id() -> String {
    std::fs::read_to_string("/proc/sys/kernel/random/boot_id").map_or_else(
        |_| format!("process-{}-{}", std::process::id(), now().wall.as_us()),
        |text| text.trim().to_owned(),
    )
}
