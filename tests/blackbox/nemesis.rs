//! The faults of a run: a schedule drawn from a seed, and its execution.
//!
//! The same seed gives the same schedule. The point of the protocol at which each fault happens depends on
//! real time, and differs from run to run.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::os::unix::process::ExitStatusExt as _;
use std::time::{Duration, Instant};

use rand::SeedableRng;
use rand_chacha::ChaCha20Rng;
use rustix::process::Signal;

use crate::cluster::Cluster;
use crate::relay::{FAIR, STORM, pick};

/// Longer than the life of a hold ([`crate::cluster`]).
///
/// A resource manager that is out of reach for this long gets a delayed Commit too late, and the outcome is
/// mixed.
const PARTITION_MS: u64 = 10_500;
/// Partitions are rare, because nothing continues during a partition.
const KILLS_A_PARTITION: usize = 150;

/// Range of long pauses, longer than most timeouts and holds; each doubling of the length is equally likely.
const LONG_PAUSE_MS: (u64, u64) = (1_000, 60_000);
/// Maximum number of daemons that are paused at once: with more of them nothing would continue.
const PAUSED_MAX: usize = 2;

/// One fault.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Blow {
    /// SIGKILL; started again after this time.
    Kill { name: String, down_ms: u64 },
    /// SIGSTOP, and SIGCONT after this time.
    Pause { name: String, ms: u64 },
    /// The same, once fewer than [`PAUSED_MAX`] daemons are paused.
    LongPause { name: String, ms: u64 },
    /// SIGTERM, a wait for the end, and a new start.
    Restart { name: String },
    /// One direction of a connection is silent for this time: the calls, or the answers.
    Cut { link: usize, back: bool, ms: u64 },
    /// Coordinator and resource manager cannot reach each other; answers to calls that were sent before
    /// still arrive.
    Partition { edge: usize, ms: u64 },
    /// All connections of a link break.
    Snap { link: usize },
    /// Every connection is bad for this time.
    Storm { ms: u64 },
    /// The small disk is full for this time.
    Fill { ms: u64 },
}

/// What ends a fault.
#[derive(Debug, Clone)]
enum End {
    Spawn(String),
    Resume(String),
    Heal { link: usize, back: bool },
    Calm,
    Free,
}

/// How many faults of each kind were made.
#[derive(Debug, Clone, Default)]
pub(crate) struct Dealt {
    pub(crate) kills: BTreeMap<String, usize>,
    pub(crate) kills_while_starting: usize,
    pub(crate) pauses: usize,
    pub(crate) long_pauses: usize,
    pub(crate) restarts: usize,
    pub(crate) cuts: usize,
    pub(crate) partitions: usize,
    pub(crate) snaps: usize,
    pub(crate) storms: usize,
    pub(crate) fills: usize,
    /// How often a daemon ended because its disk was full (I16).
    pub(crate) ended_full: usize,
}

impl fmt::Display for Dealt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let all: usize = self.kills.values().sum();
        let each: Vec<String> =
            self.kills.iter().map(|(name, count)| format!("{name} {count}")).collect();
        write!(
            f,
            "{all} kill -9 ({}; {} of them while it was starting), {} pauses, {} of 1 s to 60 s, {} restarts, \
             {} one-way cuts, {} partitions, {} broken links, {} storms, {} full disks ({} ended by them)",
            each.join(", "),
            self.kills_while_starting,
            self.pauses,
            self.long_pauses,
            self.restarts,
            self.cuts,
            self.partitions,
            self.snaps,
            self.storms,
            self.fills,
            self.ended_full
        )
    }
}

/// The daemons and links that faults may be made on.
#[derive(Debug, Clone)]
pub(crate) struct Targets {
    pub(crate) names: Vec<String>,
    /// Number of directed connections; the two directions of one edge are neighbours.
    pub(crate) links: usize,
    /// Whether there is a small disk.
    pub(crate) disk: bool,
    /// Whether holds end soon enough for a partition to outlive them.
    pub(crate) partitions: bool,
}

/// Faults for a given number of kills, each with the pause before it, with a given number of long pauses
/// among them.
pub(crate) fn schedule(
    seed: u64,
    on: &Targets,
    kills: usize,
    long_pauses: usize,
) -> Vec<(Duration, Blow)> {
    let Targets { names, links, disk, partitions } = on.clone();
    let mut paused = 0;
    let mut random = ChaCha20Rng::seed_from_u64(seed);
    let mut blows = Vec::new();
    let mut killed = 0;
    // Such faults are drawn rarely or never, but every run of some length must have them.
    let mut fill = disk && kills >= 20;
    let mut next_partition =
        if partitions && kills >= 20 { kills.min(KILLS_A_PARTITION) / 3 } else { usize::MAX };
    while killed < kills {
        let gap = Duration::from_millis(pick(&mut random, 100, 600));
        let name = names[pick(&mut random, 0, names.len() as u64 - 1) as usize].clone();
        let link = pick(&mut random, 0, links as u64 - 1) as usize;
        let back = pick(&mut random, 0, 1) == 1;
        let blow = match pick(&mut random, 0, 99) {
            _ if paused < long_pauses && paused * kills <= killed * long_pauses => {
                paused += 1;
                Blow::LongPause { name, ms: long_pause_ms(&mut random) }
            }
            _ if killed >= next_partition => {
                next_partition += KILLS_A_PARTITION;
                Blow::Partition { edge: link / 2, ms: PARTITION_MS }
            }
            _ if fill && killed * 2 >= kills => {
                fill = false;
                Blow::Fill { ms: 2_000 }
            }
            0..=64 => {
                killed += 1;
                Blow::Kill { name, down_ms: pick(&mut random, 0, 200) }
            }
            65..=70 => Blow::Pause { name, ms: pick(&mut random, 500, 4_000) },
            71..=77 => Blow::Restart { name },
            78..=85 => Blow::Cut { link, back, ms: pick(&mut random, 300, 3_000) },
            86..=92 => Blow::Snap { link },
            93..=96 => Blow::Storm { ms: pick(&mut random, 1_000, 4_000) },
            _ if disk => Blow::Fill { ms: pick(&mut random, 500, 3_000) },
            _ => Blow::Snap { link },
        };
        blows.push((gap, blow));
    }
    blows
}

fn long_pause_ms(random: &mut ChaCha20Rng) -> u64 {
    let (low, high) = LONG_PAUSE_MS;
    let share = pick(random, 0, 1_000) as f64 / 1_000.0;
    (low as f64 * (high as f64 / low as f64).powf(share)) as u64
}

/// Makes the faults.
pub(crate) struct Nemesis<'a> {
    cluster: &'a mut Cluster,
    begun: Instant,
    ends: Vec<(Instant, End)>,
    down: BTreeSet<String>,
    paused: BTreeSet<String>,
    full: bool,
    storms: usize,
    pub(crate) dealt: Dealt,
}

impl<'a> Nemesis<'a> {
    pub(crate) fn new(cluster: &'a mut Cluster) -> Self {
        Self {
            cluster,
            begun: Instant::now(),
            ends: Vec::new(),
            down: BTreeSet::new(),
            paused: BTreeSet::new(),
            full: false,
            storms: 0,
            dealt: Dealt::default(),
        }
    }

    /// Makes all faults, and further kills if some kills met a daemon that was dead already; then ends all
    /// faults, and waits until the federation is complete.
    pub(crate) async fn deal(&mut self, blows: &[(Duration, Blow)], kills: usize) {
        let killing = |(_, blow): &&(Duration, Blow)| matches!(blow, Blow::Kill { .. });
        let mut more = blows.iter().filter(killing).cycle();
        let mut all = blows.iter();
        loop {
            let dealt = self.dealt.kills.values().sum::<usize>();
            let next = all.next().or_else(|| if dealt < kills { more.next() } else { None });
            let Some((gap, blow)) = next else { break };
            self.wait_until(Instant::now() + *gap).await;
            if matches!(blow, Blow::LongPause { .. }) {
                self.wait_for_fewer_pauses().await;
            }
            self.note(&format!("{blow:?}"));
            self.strike(blow);
            self.look_for_dead();
        }
        while let Some(last) = self.ends.iter().map(|(at, _)| *at).max() {
            self.wait_until(last).await;
        }
        self.look_for_dead();
        for link in &self.cluster.links {
            link.heal();
        }
        self.note("all faults are over");
        self.cluster.complete().await;
        self.note("the federation is whole again");
    }

    /// Ends faults that are due, until another daemon may be paused.
    async fn wait_for_fewer_pauses(&mut self) {
        while self.paused.len() >= PAUSED_MAX {
            let resumes = self.ends.iter().filter(|(_, end)| matches!(end, End::Resume(_)));
            let Some(first) = resumes.map(|(at, _)| *at).min() else { return };
            self.wait_until(first).await;
        }
    }

    fn note(&self, what: &str) {
        println!("{:>8.2} s  {what}", self.begun.elapsed().as_secs_f64());
    }

    /// Waits, and ends faults that become due meanwhile.
    async fn wait_until(&mut self, until: Instant) {
        loop {
            let next = self.ends.iter().enumerate().min_by_key(|(_, (at, _))| *at);
            let due = next.map(|(index, (at, _))| (index, *at)).filter(|(_, at)| *at <= until);
            let Some((index, at)) = due else { break };
            tokio::time::sleep_until(at.into()).await;
            let (_, end) = self.ends.swap_remove(index);
            self.end(end);
        }
        tokio::time::sleep_until(until.into()).await;
    }

    fn later(&mut self, ms: u64, end: End) {
        self.ends.push((Instant::now() + Duration::from_millis(ms), end));
    }

    fn strike(&mut self, blow: &Blow) {
        match blow {
            Blow::Kill { name, down_ms } => {
                if self.down.contains(name) {
                    // The daemon is down already, so it is killed while it starts.
                    self.end(End::Spawn(name.clone()));
                    self.dealt.kills_while_starting += 1;
                }
                self.paused.remove(name);
                if self.died(name) {
                    return;
                }
                self.cluster.federation.kill(name);
                *self.dealt.kills.entry(name.clone()).or_default() += 1;
                self.down.insert(name.clone());
                self.later(*down_ms, End::Spawn(name.clone()));
            }
            Blow::Pause { name, ms } => {
                if self.pause(name, *ms) {
                    self.dealt.pauses += 1;
                }
            }
            Blow::LongPause { name, ms } => {
                // A daemon that is down or paused already cannot be paused; another one is paused instead.
                let names = self.cluster.names.clone();
                let (before, from): (Vec<_>, Vec<_>) = names.iter().partition(|one| *one < name);
                if from.into_iter().chain(before).any(|name| self.pause(name, *ms)) {
                    self.dealt.long_pauses += 1;
                }
            }
            Blow::Restart { name } => {
                if self.down.contains(name) || self.paused.contains(name) || self.died(name) {
                    return;
                }
                let status = self.cluster.federation.stop(name);
                // The daemon may have met its full disk first, or got the signal before it could handle it.
                let early = status.signal() == Some(Signal::TERM.as_raw());
                assert!(
                    status.success() || early || self.is_full(name),
                    "{name} was asked to stop: {status}"
                );
                self.cluster.spawn(name);
                self.dealt.restarts += 1;
            }
            Blow::Cut { link, back, ms } => {
                self.note(&format!("  ({})", self.cluster.links[*link].name));
                self.cluster.links[*link].cut(*back, true);
                self.dealt.cuts += 1;
                self.later(*ms, End::Heal { link: *link, back: *back });
            }
            Blow::Partition { edge, ms } => {
                for link in [2 * edge, 2 * edge + 1] {
                    self.note(&format!("  ({})", self.cluster.links[link].name));
                    self.cluster.links[link].cut(false, true);
                    self.later(*ms, End::Heal { link, back: false });
                }
                self.dealt.partitions += 1;
            }
            Blow::Snap { link } => {
                self.cluster.links[*link].snap();
                self.dealt.snaps += 1;
            }
            Blow::Storm { ms } => {
                self.storms += 1;
                self.cluster.links.iter().for_each(|link| link.set_weather(STORM));
                self.dealt.storms += 1;
                self.later(*ms, End::Calm);
            }
            Blow::Fill { ms } => {
                let Some(disk) = self.cluster.disk.as_ref().filter(|_| !self.full) else { return };
                let bytes = disk.fill();
                self.full = true;
                self.dealt.fills += 1;
                self.later(*ms, End::Free);
                self.note(&format!("  ({bytes} bytes of ballast)"));
            }
        }
    }

    /// Pauses a daemon for this time, if it runs.
    fn pause(&mut self, name: &str, ms: u64) -> bool {
        if self.down.contains(name) || self.died(name) || !self.paused.insert(name.to_owned()) {
            return false;
        }
        self.cluster.federation.pause(name);
        self.later(ms, End::Resume(name.to_owned()));
        true
    }

    fn end(&mut self, end: End) {
        match end {
            End::Spawn(name) => {
                // A kill during the start may have ended this fault already.
                if self.down.remove(&name) {
                    self.cluster.spawn(&name);
                }
            }
            End::Resume(name) => {
                if self.paused.remove(&name) && !self.died(&name) {
                    self.cluster.federation.resume(&name);
                }
            }
            End::Heal { link, back } => self.cluster.links[link].cut(back, false),
            End::Calm => {
                self.storms -= 1;
                if self.storms == 0 {
                    self.cluster.links.iter().for_each(|link| link.set_weather(FAIR));
                }
            }
            End::Free => {
                if let Some(disk) = &self.cluster.disk {
                    disk.free();
                }
                self.full = false;
                // The daemon may have died of the full disk just now, or may not have been able to start
                // before.
                let name = self.cluster.on_disk().to_owned();
                let _ = self.died(&name);
            }
        }
    }

    fn is_full(&self, name: &str) -> bool {
        self.dealt.fills > 0 && self.cluster.disk.is_some() && name == self.cluster.on_disk()
    }

    /// Checks that no daemon ends by itself, except the one whose disk is full (I16), which is started again.
    fn died(&mut self, name: &str) -> bool {
        let Some(status) = self.cluster.federation.ended(name) else { return false };
        let log = self.cluster.federation.log(name);
        let tail: Vec<&str> = log.lines().rev().take(20).collect();
        let tail: Vec<&str> = tail.into_iter().rev().collect();
        assert!(self.is_full(name), "{name} ended by itself: {status}\n{}", tail.join("\n"));
        self.note(&format!("  {name} has ended ({status}), its disk was full"));
        self.dealt.ended_full += 1;
        self.paused.remove(name);
        self.down.insert(name.to_owned());
        self.later(100, End::Spawn(name.to_owned()));
        true
    }

    fn look_for_dead(&mut self) {
        for name in self.cluster.names.clone() {
            if !self.down.contains(&name) {
                let _ = self.died(&name);
            }
        }
    }
}

#[test]
fn a_schedule_is_of_its_seed_and_has_every_blow() {
    let names: Vec<String> = ["crm-A", "nrm", "grc"].map(str::to_owned).into();
    let on = Targets { names, links: 6, disk: true, partitions: true };
    let one = schedule(7, &on, 400, 100);
    assert_eq!(one, schedule(7, &on, 400, 100));
    assert_ne!(one, schedule(8, &on, 400, 100));
    let count = |is: fn(&Blow) -> bool| one.iter().filter(|(_, blow)| is(blow)).count();
    assert_eq!(count(|blow| matches!(blow, Blow::Kill { .. })), 400);
    assert_eq!(count(|blow| matches!(blow, Blow::Partition { .. })), 3);
    let long = one.iter().filter_map(|(_, blow)| match blow {
        Blow::LongPause { ms, .. } => Some(*ms),
        _ => None,
    });
    let long: Vec<u64> = long.collect();
    assert_eq!(long.len(), 100);
    let short = long.iter().filter(|ms| **ms < 7_746).count();
    assert!((35..=65).contains(&short), "half of them are under the geometric mean: {short}");
    let others: [fn(&Blow) -> bool; 6] = [
        |blow| matches!(blow, Blow::Pause { .. }),
        |blow| matches!(blow, Blow::Restart { .. }),
        |blow| matches!(blow, Blow::Cut { .. }),
        |blow| matches!(blow, Blow::Snap { .. }),
        |blow| matches!(blow, Blow::Storm { .. }),
        |blow| matches!(blow, Blow::Fill { .. }),
    ];
    assert!(others.into_iter().all(|is| count(is) >= 5));
    let short = schedule(7, &on, 20, 0);
    assert!(short.iter().any(|(_, blow)| matches!(blow, Blow::Fill { .. })));
    assert!(short.iter().any(|(_, blow)| matches!(blow, Blow::Partition { .. })));
}
