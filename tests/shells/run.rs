//! One run: a federation on simulated machines, its clients, and the faults of the seed.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use coalloc_common::DiskSpace;
use coalloc_ledger::AppendFault;
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::SeedableRng;
use turmoil::Sim;

use crate::clients::{self, Journal, Transactions, User};
use crate::faults::{Draws, FAULTS, Fault, Reboot, plan, plan_renewals};
use crate::federation::{DAEMONS, ROGUE, USERS, serve};
use crate::identities::{Identities, Protection};
use crate::machine::{Hardware, set_elapsed_outside};
use crate::profiles;
use crate::rogue::Rogue;
use crate::trace::Trace;
use crate::verdict::judge_at_rest;
use crate::watching;

/// Length of one step of every host; faults are made between steps.
const TICK: Duration = Duration::from_millis(10);
const LATENCY: [Duration; 2] = [Duration::from_millis(1), Duration::from_millis(40)];
/// A run that takes longer than this is broken.
const LONGEST: Duration = Duration::from_secs(400);
/// A process that has died by itself is started again after this time at the latest.
const DOWN_MAX: Duration = Duration::from_secs(4);

/// The outcome of a run.
#[derive(Debug)]
pub(crate) struct Outcome {
    pub(crate) lines: Vec<String>,
    pub(crate) faults: Vec<String>,
}

/// The kind of ledger that the daemons use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ledgers {
    /// The ledgers keep everything that they report.
    Sound,
    /// A planted fault: the ledgers report records before they have them.
    Lying,
}

/// The random generator of one part of a run.
pub(crate) fn draws(seed: u64, part: &str) -> Draws {
    Draws(ChaCha8Rng::seed_from_u64(seed ^ crate::machine::hash(part)))
}

/// A simulated network with hosts for all daemons; all of them start cleanly.
pub(crate) fn federation<'a>(
    seed: u64,
    ledgers: Ledgers,
    protection: &Protection,
    trace: &Trace,
) -> (Sim<'a>, BTreeMap<&'static str, Arc<Hardware>>) {
    let mut sim = turmoil::Builder::new()
        .rng_seed(seed)
        .tick_duration(TICK)
        .min_message_latency(LATENCY[0])
        .max_message_latency(LATENCY[1])
        .simulation_duration(LONGEST)
        .build();
    let mut hosts = BTreeMap::new();
    for name in DAEMONS {
        let hardware = Hardware::new(name, seed, ledgers == Ledgers::Lying, trace);
        hosts.insert(name, Arc::clone(&hardware));
        let (protection, trace) = (protection.clone(), trace.clone());
        sim.host(name, move || serve(Arc::clone(&hardware), protection.clone(), trace.clone()));
    }
    (sim, hosts)
}

/// Runs one seed to its end.
pub(crate) fn run(seed: u64, ledgers: Ledgers) -> Outcome {
    let trace = Trace::default();
    set_elapsed_outside(Duration::ZERO);
    let mut plan = plan(&mut draws(seed, "faults"));
    // One run in four is in plain text.
    let protection = if seed.is_multiple_of(4) {
        Protection::PlainText
    } else {
        let (ends, renewals) = plan_renewals(&mut draws(seed, "renewals"));
        plan.extend(renewals);
        plan.sort_by_key(|(at, _)| *at);
        Protection::Tls(Identities::create(|name| ends.get(name).copied()))
    };
    let (mut sim, hosts) = federation(seed, ledgers, &protection, &trace);
    let journal: Journal = Arc::default();
    let known = Transactions::default();
    let rogue = (protection.clone(), Arc::clone(&known), trace.clone());
    sim.host(ROGUE, move || {
        let (protection, known, trace) = rogue.clone();
        async move {
            match protection {
                Protection::PlainText => {}
                Protection::Tls(_) => {
                    let draws = draws(seed, "rogue");
                    Rogue::new(&protection, draws, &known, &trace).work().await;
                }
            }
            // The host stays, and nobody listens there.
            std::future::pending().await
        }
    });
    let users = (protection.clone(), Arc::clone(&journal), trace.clone());
    sim.client(USERS, async move {
        let (protection, journal, trace) = users;
        let followed = watching::follow_all(&protection, &trace);
        profiles::follow_all(&protection, &trace);
        let mut at_work = Vec::new();
        for number in 0..clients::USERS {
            let name = format!("u{number}");
            let told = (&journal, &known);
            let user = User::new(&name, &protection, draws(seed, &name), told, &trace);
            at_work.push(tokio::spawn(user.work()));
        }
        for user in at_work {
            user.await?;
        }
        judge_at_rest(&protection, &journal, &trace).await;
        watching::compare_all(&protection, followed, &trace).await;
        Ok(())
    });
    let (down, dark) = Default::default();
    let mut nemesis = Nemesis { hosts, protection, down, dark, trace };
    nemesis.drive(&mut sim, plan);
    let trace = nemesis.trace;
    Outcome { lines: trace.lines(), faults: trace.faults() }
}

/// Makes the faults.
struct Nemesis {
    hosts: BTreeMap<&'static str, Arc<Hardware>>,
    protection: Protection,
    /// Processes that are not running, and since when.
    down: BTreeMap<&'static str, Duration>,
    /// The faults that links have now.
    dark: BTreeMap<(&'static str, &'static str), Fault>,
    trace: Trace,
}

impl Nemesis {
    /// Steps the simulation until the clients are done.
    fn drive(&mut self, sim: &mut Sim<'_>, plan: Vec<(Duration, Fault)>) {
        let mut plan = plan.into_iter().peekable();
        let mut over = false;
        loop {
            let now = sim.elapsed();
            self.trace.at(now);
            set_elapsed_outside(now);
            while let Some((_, fault)) = plan.next_if(|(at, _)| *at <= now) {
                self.inflict(sim, fault, now);
            }
            self.bury(sim, now);
            if now >= FAULTS && !std::mem::replace(&mut over, true) {
                self.stop(sim);
            }
            match sim.step() {
                Ok(true) => return,
                Ok(false) => {}
                Err(error) => return self.trace.accuse(format!("the run broke off: {error}")),
            }
        }
    }

    fn inflict(&mut self, sim: &mut Sim<'_>, fault: Fault, now: Duration) {
        match fault {
            Fault::Partition(a, b)
            | Fault::OneWay(a, b)
            | Fault::Hold(a, b)
            | Fault::Slow(a, b, _) => {
                bend(sim, fault);
                self.dark.insert(in_order(a, b), fault);
            }
            Fault::Heal(a, b) => {
                self.dark.remove(&in_order(a, b));
                heal(sim, a, b);
            }
            Fault::Crash(name, reboot) => self.crash(sim, name, reboot, now),
            Fault::CutAfter(name, appends, cut) => self.hosts[name].disk.cut_after(appends, cut),
            Fault::Disk(name, room) => self.hosts[name].disk.set_room(room),
            Fault::Renew(_) | Fault::Revoke => self.change_identities(fault, now),
            Fault::Start(name) => return self.start(sim, name),
        }
        self.trace.add("fault", format_args!("{fault:?}"));
    }

    /// Changes the files of identities, and tells the processes that run.
    fn change_identities(&self, fault: Fault, now: Duration) {
        let Protection::Tls(identities) = &self.protection else { return };
        match fault {
            Fault::Renew(name) => {
                identities.renew(name);
                self.hosts[name].reload_identity();
            }
            _ => {
                identities.revoke_stolen(now);
                self.hosts.values().for_each(|hardware| hardware.reload_identity());
            }
        }
    }

    fn crash(&mut self, sim: &mut Sim<'_>, name: &'static str, reboot: Reboot, now: Duration) {
        if self.down.contains_key(name) {
            return;
        }
        // The order in which turmoil drops the parts of a process differs from run to run, so none of it
        // may be visible from outside.
        let others: Vec<&str> =
            DAEMONS.into_iter().chain([USERS, ROGUE]).filter(|other| *other != name).collect();
        others.iter().for_each(|other| sim.partition(name, *other));
        sim.crash(name);
        others.iter().for_each(|other| sim.repair(name, *other));
        let hidden = self.dark.iter().filter(|((a, b), _)| *a == name || *b == name);
        hidden.for_each(|(_, fault)| bend(sim, *fault));
        let hardware = &self.hosts[name];
        hardware.crash(i64::try_from(now.as_micros()).unwrap(), reboot == Reboot::Yes);
        self.down.insert(name, now);
        if reboot == Reboot::No {
            hardware.set_absent(true);
            sim.bounce(name);
        }
    }

    fn start(&mut self, sim: &mut Sim<'_>, name: &'static str) {
        if self.down.remove(name).is_some() {
            self.hosts[name].set_absent(false);
            sim.bounce(name);
        }
    }

    /// Removes processes that have died by themselves, and starts them again when their time has come.
    fn bury(&mut self, sim: &mut Sim<'_>, now: Duration) {
        for name in DAEMONS {
            if self.hosts[name].is_dead() {
                self.trace.add("fault", format_args!("{name} has died"));
                self.crash(sim, name, Reboot::No, now);
            }
            if self.down.get(name).is_some_and(|since| now >= *since + DOWN_MAX) {
                self.start(sim, name);
            }
        }
    }

    /// Ends all faults; no further fault is made.
    fn stop(&mut self, sim: &mut Sim<'_>) {
        for ((a, b), _) in std::mem::take(&mut self.dark) {
            heal(sim, a, b);
        }
        for name in DAEMONS {
            // This is more writes than a run makes.
            self.hosts[name].disk.cut_after(u64::MAX, AppendFault::BeforeWrite);
            self.hosts[name].disk.set_room(DiskSpace::Enough);
            self.start(sim, name);
        }
        self.trace.add("fault", format_args!("no more faults"));
    }
}

/// The two ends of a link, in a fixed order.
fn in_order(a: &'static str, b: &'static str) -> (&'static str, &'static str) {
    if a < b { (a, b) } else { (b, a) }
}

/// Applies a fault to a link.
fn bend(sim: &Sim<'_>, fault: Fault) {
    match fault {
        Fault::Partition(a, b) => sim.partition(a, b),
        Fault::OneWay(from, to) => sim.partition_oneway(from, to),
        Fault::Hold(a, b) => sim.hold(a, b),
        Fault::Slow(a, b, latency) => sim.set_link_latency(a, b, latency),
        Fault::Heal(..)
        | Fault::Crash(..)
        | Fault::CutAfter(..)
        | Fault::Start(_)
        | Fault::Renew(_)
        | Fault::Revoke
        | Fault::Disk(..) => {}
    }
}

/// Restores a link; messages that were held back arrive now.
fn heal(sim: &Sim<'_>, a: &'static str, b: &'static str) {
    sim.release(a, b);
    sim.set_link_latency(a, b, LATENCY[0]);
    sim.set_link_max_message_latency(a, b, LATENCY[1]);
}
