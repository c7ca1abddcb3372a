//! What the protocol costs: messages and fsyncs of one operation over `n` RMs, counted in a world without
//! faults. Left out: the queries that planning sends before, and how long anything takes.

use crate::story;
use crate::world::clients::Visit;
use crate::world::script::Script;
use crate::world::{Address, Event, Trace, World};

/// The operation whose cost is counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Operation {
    /// A reservation that every RM holds and books.
    Reserve,
    /// A reservation whose RMs are asked one after the other.
    ReserveOneByOne,
    /// A reservation whose only plan is refused by one RM, the one with the highest number.
    Refused,
    /// A first plan that one RM refuses as in [`Self::Refused`], and a second plan over as many RMs that is
    /// booked.
    SecondPlan,
    /// A change at every RM.
    Modify,
    /// The release of a booking.
    Release,
    /// A reservation over `n` child coordinators, each with two RMs.
    Tree,
    /// Eight reservations at once, each over all RMs, on disks that take up to 5 ms for an fsync.
    EightAtOnce,
}

/// The cost of one operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Cost {
    /// Messages and their answers, on every level.
    pub messages: u64,
    /// Fsyncs of the coordinator that the user calls.
    pub grc: u64,
    /// Fsyncs of all child coordinators.
    pub below: u64,
    /// Fsyncs of all RMs.
    pub rms: u64,
}

/// When users call: first for the reservation, then for its change or release.
const FIRST_US: i64 = 1_000_000;
const THEN_US: i64 = 10_000_000;
/// When everything is at rest. The windows begin later.
const REST_US: i64 = 3_010_000_000;

/// Counts the cost of one operation over `n` RMs, or over `n` child coordinators.
///
/// # Errors
/// The check that failed, or that the operation had another result than it should.
pub fn count(operation: Operation, n: usize) -> Result<Cost, String> {
    let mut world = World::new(0, Trace::Off);
    world.script = Some(Script { down_us: 0, reboot: false, syncs: Vec::new() });
    if operation == Operation::EightAtOnce {
        world.weather.jitter_us = 1;
    }
    let (mut world, demands) = story::set_up(&script(operation, n), world)?;
    for demand in demands.into_values() {
        world.at(FIRST_US, Event::Visit(Visit::Open(demand)));
    }
    let from_us = match operation {
        Operation::Modify => {
            world.at(THEN_US, Event::Visit(Visit::Change { demand: 0, wish: 0 }));
            THEN_US
        }
        Operation::Release => {
            world.at(THEN_US, Event::Visit(Visit::Release(0)));
            THEN_US
        }
        _ => FIRST_US,
    };
    while world.next_at().is_some_and(|at| at < from_us) {
        world.step()?;
    }
    let before = world.counts.packets;
    world.run_until(REST_US)?;
    world.check_rest()?;
    if !world.is_quiet() {
        return Err(format!("{operation:?} of {n}: {}", world.why_not_quiet()));
    }
    let mut cost = Cost { messages: world.counts.packets - before, ..Cost::default() };
    let syncs = world.script.map(|script| script.syncs).unwrap_or_default();
    for sync in syncs.iter().filter(|sync| sync.at_us >= from_us) {
        match sync.node {
            Address::Grc(0) => cost.grc += 1,
            Address::Grc(_) => cost.below += 1,
            Address::Rm(_) => cost.rms += 1,
        }
    }
    Ok(cost)
}

/// The script of a story with `n` RMs and the demands of this operation.
fn script(operation: Operation, n: usize) -> String {
    let over = |amount: u64, last: u64| {
        let one = |rm: usize| {
            let amount = if rm == n { last } else { amount };
            format!("rm-{rm} cpus {amount} [3600,7200)")
        };
        (1..=n).map(one).collect::<Vec<_>>().join(" ; ")
    };
    let mut text = "grc grc 1\n".to_owned();
    if operation == Operation::Tree {
        for below in 1..=n {
            text += &format!("rm rm-{below}-a a{below}=100\nrm rm-{below}-b b{below}=100\n");
            text += &format!("lower low-{below} 1 grc rm-{below}-a,rm-{below}-b\n");
        }
        let one = |below: usize| {
            format!("low-{below} a{below} 4 [3600,7200) ; low-{below} b{below} 4 [3600,7200)")
        };
        let plan = (1..=n).map(one).collect::<Vec<_>>().join(" ; ");
        return text + &format!("demand r1 alice grc\nplan {plan}\n");
    }
    for rm in 1..=n {
        text += &format!("rm rm-{rm} cpus=100\n");
    }
    let of = |name: &str| format!("demand {name} alice grc\n");
    text + &match operation {
        Operation::ReserveOneByOne => of("r1") + &format!("turns {}\n", over(4, 4)),
        Operation::Refused => of("r1") + &format!("plan {}\n", over(4, 101)),
        Operation::SecondPlan => {
            of("r1") + &format!("plan {}\nplan {}\n", over(4, 101), over(4, 4))
        }
        Operation::Modify => {
            let (old, new) = (over(4, 4), over(8, 8));
            of("r1") + &format!("plan {old}\nchange c1 r1\nplan {new}\n")
        }
        Operation::EightAtOnce => {
            (1..=8).map(|r| of(&format!("r{r}")) + &format!("plan {}\n", over(4, 4))).collect()
        }
        Operation::Reserve | Operation::Release | Operation::Tree => {
            of("r1") + &format!("plan {}\n", over(4, 4))
        }
    }
}
