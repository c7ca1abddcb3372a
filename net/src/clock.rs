//! The two clocks of a real machine ([`crate::machine::System`]), read in one place.

use coalloc_common::{BootTime, Now, Time};
use rustix::time::{ClockId, clock_gettime};

/// Reads both clocks.
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
