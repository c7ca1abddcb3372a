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

/// A clock that goes on while the machine sleeps and that nobody can set; where the system has none,
/// the monotonic one.
#[cfg(target_os = "linux")]
const BOOT_CLOCK: ClockId = ClockId::Boottime;
#[cfg(not(target_os = "linux"))]
const BOOT_CLOCK: ClockId = ClockId::Monotonic;

fn read_us(clock: ClockId) -> i64 {
    let at = clock_gettime(clock);
    at.tv_sec.saturating_mul(1_000_000).saturating_add(at.tv_nsec / 1_000)
}

/// Identity of the running boot: boot times of two boots do not compare. Where the system does not
/// tell, the process is its own boot, which makes a restart re-arm its timers by the wall clock.
#[must_use]
pub fn boot_id() -> String {
    std::fs::read_to_string("/proc/sys/kernel/random/boot_id").map_or_else(
        |_| format!("process-{}-{}", std::process::id(), now().wall.as_us()),
        |text| text.trim().to_owned(),
    )
}
