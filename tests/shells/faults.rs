//! The faults of a run, drawn from the seed before anything runs.

use std::collections::BTreeMap;
use std::time::Duration;

use coalloc_common::DiskSpace;
use coalloc_ledger::AppendFault;
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::Rng;

use crate::federation::{DAEMONS, GRC, RMS, USERS};

/// How long faults are made.
pub(crate) const FAULTS: Duration = Duration::from_secs(25);

/// One fault that is made at a given moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fault {
    /// No messages pass between two hosts (F2).
    Partition(&'static str, &'static str),
    /// No messages pass from the first host to the second (F2).
    OneWay(&'static str, &'static str),
    /// Messages between two hosts are held back, and all arrive together at the end (F3).
    Hold(&'static str, &'static str),
    /// Messages between two hosts take this long (F3, F6).
    Slow(&'static str, &'static str, Duration),
    /// The link works normally again.
    Heal(&'static str, &'static str),
    /// A process is killed, or its machine loses power (F1).
    Crash(&'static str, Reboot),
    /// A process dies in a write, after this many further writes (F1, F4).
    CutAfter(&'static str, u64, AppendFault),
    /// A process that is not running is started again.
    Start(&'static str),
    /// A disk is nearly full, or has space again (F4).
    Disk(&'static str, DiskSpace),
    /// A daemon is given a new certificate, perhaps after its certificate has ended.
    Renew(&'static str),
    /// The certificate of the stolen key is revoked (F14).
    Revoke,
}

/// Does the machine go down with the process, and boot again?
///
/// Peers then get no answer at all, not even that nobody listens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reboot {
    No,
    Yes,
}

/// A random generator with the draws that are needed here.
#[derive(Debug)]
pub(crate) struct Draws(pub(crate) ChaCha8Rng);

impl Draws {
    /// A number from 0 up to, but not including, `below`.
    pub(crate) fn below(&mut self, below: u64) -> u64 {
        self.0.next_u64() % below
    }

    /// True in this percentage of calls.
    pub(crate) fn percent(&mut self, percent: u64) -> bool {
        self.below(100) < percent
    }

    /// A duration between two times.
    pub(crate) fn between(&mut self, from_ms: u64, until_ms: u64) -> Duration {
        Duration::from_millis(from_ms + self.below(until_ms - from_ms))
    }

    /// One of these values.
    pub(crate) fn one_of<T: Copy>(&mut self, all: &[T]) -> T {
        all[self.below(all.len() as u64) as usize]
    }
}

/// The links that are in use.
fn links() -> Vec<(&'static str, &'static str)> {
    let mut links: Vec<_> = RMS.iter().map(|rm| (GRC, *rm)).collect();
    links.push((USERS, GRC));
    links
}

/// When the first certificates of daemons end, and when daemons get new ones. Now and then the new one is late.
pub(crate) fn plan_renewals(
    draws: &mut Draws,
) -> (BTreeMap<&'static str, Duration>, Vec<(Duration, Fault)>) {
    let (mut ends, mut renewals) = (BTreeMap::new(), Vec::new());
    for name in DAEMONS {
        if draws.percent(50) {
            let end = Duration::from_secs(4 + draws.below(18));
            let margin = draws.between(100, 3_000);
            let at = if draws.percent(40) { end + margin } else { end - margin };
            ends.insert(name, end);
            renewals.push((at.min(FAULTS), Fault::Renew(name)));
        }
    }
    renewals.push((draws.between(12_000, 20_000), Fault::Revoke));
    (ends, renewals)
}

/// All faults of a run, in order of time. Each fault of a link ends before the next fault of that link begins.
pub(crate) fn plan(draws: &mut Draws) -> Vec<(Duration, Fault)> {
    let mut plan = Vec::new();
    let wild = draws.one_of(&[1, 1, 2, 4]);
    for (a, b) in links() {
        let mut at = draws.between(0, 20_000 / wild);
        while at < FAULTS {
            let (from, to) = if draws.percent(50) { (a, b) } else { (b, a) };
            let fault = match draws.below(8) {
                0 | 1 => Fault::Partition(a, b),
                2..=4 => Fault::OneWay(from, to),
                5 | 6 => Fault::Hold(a, b),
                _ => Fault::Slow(a, b, draws.between(50, 3_000)),
            };
            plan.push((at, fault));
            at += draws.between(100, 8_000);
            plan.push((at.min(FAULTS), Fault::Heal(a, b)));
            at += draws.between(100, 20_000 / wild);
        }
    }
    for name in DAEMONS {
        let mut at = draws.between(0, 24_000 / wild);
        while at < FAULTS {
            let fault = match draws.below(4) {
                0 => Fault::Crash(name, Reboot::Yes),
                1 => Fault::Crash(name, Reboot::No),
                _ => Fault::CutAfter(name, draws.below(4), draws.one_of(&AppendFault::ALL)),
            };
            plan.push((at, fault));
            at += draws.between(100, 6_000);
            plan.push((at.min(FAULTS), Fault::Start(name)));
            at += draws.between(500, 24_000 / wild);
        }
    }
    for name in DAEMONS {
        if draws.percent(40) {
            let at = draws.between(0, 20_000);
            plan.push((at, Fault::Disk(name, DiskSpace::Low)));
            let until = at + draws.between(500, 8_000);
            plan.push((until.min(FAULTS), Fault::Disk(name, DiskSpace::Enough)));
        }
    }
    plan.sort_by_key(|(at, _)| *at);
    plan
}
