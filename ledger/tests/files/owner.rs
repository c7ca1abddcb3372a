//! Tests of the owner of a core: one append for everything that waits, no effect before the append,
//! and nothing after a failure.
//!
//! Threads meet at channels only. [`PATIENCE`] is how long a failing test waits; it is never a
//! pause.
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::mpsc::{self, Receiver, Sender};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use coalloc_common::{BootTime, Now, Time, limits};
use coalloc_ledger::{
    AppendFault, CoreFold, MemoryLedger, Owner, OwnerThread, PostError, SimulatedDisk, TurnError,
    spawn,
};
use coalloc_protocol::{Causer, ChangedPart, Core, Log, ReplayError, Snapshot, Unsynced};

const PATIENCE: Duration = Duration::from_secs(20);

/// A core that adds up the numbers it is given.
#[derive(Default)]
struct Sum {
    sum: u64,
    wake: Option<BootTime>,
    /// Number of ticks. A tick clears `wake`, unless `stubborn` is set.
    ticks: u64,
    stubborn: bool,
    broken: bool,
}

enum Input {
    Add(u64),
    /// Makes no record, only an effect.
    Ask,
    WakeAt(BootTime),
    Stubborn,
    Break,
    Panic,
    Tick,
}

#[derive(Debug, PartialEq, Eq)]
enum Effect {
    Sum(u64),
    Ticked(BootTime),
}

impl Core for Sum {
    type Input = Input;
    type Record = u64;
    type Effect = Effect;

    fn step(&mut self, input: Input, now: Now) -> Unsynced<u64, Effect> {
        let mut records = Vec::new();
        let mut effects = Vec::new();
        match input {
            Input::Add(number) => {
                self.sum += number;
                records.push(number);
                effects.push(Effect::Sum(self.sum));
            }
            Input::Ask => effects.push(Effect::Sum(self.sum)),
            Input::WakeAt(at) => self.wake = Some(at),
            Input::Stubborn => self.stubborn = true,
            Input::Break => self.broken = true,
            Input::Panic => panic!("as told"),
            Input::Tick => {
                self.ticks += 1;
                if !self.stubborn {
                    self.wake = None;
                }
                effects.push(Effect::Ticked(now.boot));
            }
        }
        Unsynced::new(records, effects)
    }

    fn apply(&mut self, record: &u64) -> Result<(), ReplayError> {
        self.sum += record;
        Ok(())
    }

    fn tick() -> Input {
        Input::Tick
    }

    fn next_wake(&self) -> Option<BootTime> {
        self.wake
    }

    fn check_invariants(&self) -> Result<(), String> {
        if self.broken { Err("I1: broken".to_owned()) } else { Ok(()) }
    }
}

/// Its sum is its only part.
impl Snapshot for Sum {
    type Part = u64;

    fn changed(&self) -> usize {
        1
    }

    fn take_changed(&mut self) -> Vec<ChangedPart<u64>> {
        vec![ChangedPart { key: "sum".to_owned(), part: Some(self.sum) }]
    }

    fn restore(&mut self, sum: u64) -> Result<(), ReplayError> {
        self.sum = sum;
        Ok(())
    }

    fn restored(&mut self, _: u64) -> Result<(), ReplayError> {
        Ok(())
    }
}

/// A log whose every append reports its records and waits until the test lets it through.
struct Gate {
    entered: Sender<Vec<u64>>,
    pass: Receiver<()>,
}

impl Log for Gate {
    type Record = u64;
    type Error = mpsc::RecvError;

    /// Fails when the test drops its end of the channel.
    fn append_caused(
        &mut self,
        records: &[coalloc_protocol::CausedRecord<'_, u64>],
    ) -> Result<(), mpsc::RecvError> {
        self.entered
            .send(records.iter().map(|caused| *caused.record).collect())
            .map_err(|_| mpsc::RecvError)?;
        self.pass.recv()
    }
}

/// An owner with everything that can be observed of it.
struct Watched {
    owner: Owner<Sum>,
    thread: OwnerThread,
    effects: Receiver<Effect>,
    failures: Receiver<String>,
    boot: Arc<AtomicI64>,
}

fn watch(log: impl Log<Record = u64> + Send + 'static) -> Watched {
    let (effect, effects) = mpsc::channel();
    let (failure, failures) = mpsc::channel();
    let boot = Arc::new(AtomicI64::new(0));
    let hand = Arc::clone(&boot);
    let clock = move || Now {
        wall: Time::from_us(0),
        boot: BootTime::from_us(hand.load(Ordering::SeqCst)),
    };
    let on_effect = move |said| effect.send(said).unwrap();
    let on_failure = move |error: TurnError| failure.send(error.to_string()).unwrap();
    let (owner, thread) = spawn("sum", Sum::default(), log, clock, on_effect, on_failure).unwrap();
    Watched { owner, thread, effects, failures, boot }
}

fn gated() -> (Watched, Receiver<Vec<u64>>, Sender<()>) {
    let (entered, appends) = mpsc::channel();
    let (open, pass) = mpsc::channel();
    (watch(Gate { entered, pass }), appends, open)
}

fn in_memory() -> (Watched, SimulatedDisk) {
    let disk = SimulatedDisk::new("sum");
    disk.set_snapshot_every(50);
    let log = MemoryLedger::<u64>::open(&disk, |_, _| Ok(())).unwrap();
    (watch(log), disk)
}

fn read<T: Send + 'static>(
    owner: &Owner<Sum>,
    look: impl FnOnce(&Sum) -> T + Send + 'static,
) -> Receiver<T> {
    let (said, heard) = mpsc::channel();
    owner.read(move |sum| said.send(look(sum)).unwrap()).unwrap();
    heard
}

#[test]
fn what_waits_while_the_disk_is_busy_shares_one_append() {
    let (watched, appends, open) = gated();
    watched.owner.post(Input::Add(1), Causer::Itself).unwrap();
    assert_eq!(appends.recv_timeout(PATIENCE).unwrap(), [1]);
    let waiting: Vec<u64> = (2..=100).collect();
    for number in &waiting {
        watched.owner.post(Input::Add(*number), Causer::Itself).unwrap();
    }
    open.send(()).unwrap();
    assert_eq!(appends.recv_timeout(PATIENCE).unwrap(), waiting);
    open.send(()).unwrap();
    // More inputs than fit one batch are cut into appends of the largest size.
    watched.owner.post(Input::Add(0), Causer::Itself).unwrap();
    assert_eq!(appends.recv_timeout(PATIENCE).unwrap(), [0]);
    for _ in 0..=limits::GROUP_COMMIT_MAX {
        watched.owner.post(Input::Add(0), Causer::Itself).unwrap();
    }
    open.send(()).unwrap();
    assert_eq!(appends.recv_timeout(PATIENCE).unwrap().len(), limits::GROUP_COMMIT_MAX);
    open.send(()).unwrap();
    assert_eq!(appends.recv_timeout(PATIENCE).unwrap().len(), 1);
    open.send(()).unwrap();
    watched.owner.stop();
    assert!(watched.thread.join());
}

#[test]
fn nothing_is_said_or_shown_before_it_is_durable() {
    let (watched, appends, open) = gated();
    watched.owner.post(Input::Add(1), Causer::Itself).unwrap();
    appends.recv_timeout(PATIENCE).unwrap();
    // All of these are in the next batch, among them an input without records of its own and two
    // reads.
    watched.owner.post(Input::Add(2), Causer::Itself).unwrap();
    watched.owner.post(Input::Ask, Causer::Itself).unwrap();
    let before = read(&watched.owner, |sum| sum.sum);
    watched.owner.post(Input::Add(4), Causer::Itself).unwrap();
    let after = read(&watched.owner, |sum| sum.sum);
    assert!(watched.effects.try_recv().is_err());
    open.send(()).unwrap();
    assert_eq!(appends.recv_timeout(PATIENCE).unwrap(), [2, 4]);
    // The owner now waits in the append: the steps are done, but their effects have not been
    // released.
    assert_eq!(watched.effects.try_iter().collect::<Vec<_>>(), [Effect::Sum(1)]);
    assert!(before.try_recv().is_err() && after.try_recv().is_err());
    open.send(()).unwrap();
    // A read sees all of its batch, and all of that is durable.
    assert_eq!(before.recv_timeout(PATIENCE).unwrap(), 7);
    assert_eq!(after.recv_timeout(PATIENCE).unwrap(), 7);
    // Effects come before the reads, in the order of their inputs.
    let said: Vec<_> = watched.effects.try_iter().collect();
    assert_eq!(said, [Effect::Sum(3), Effect::Sum(3), Effect::Sum(7)]);
}

#[test]
fn a_failed_append_releases_nothing_and_ends_the_owner() {
    for cut in AppendFault::ALL {
        let (watched, disk) = in_memory();
        disk.cut_after(1, cut);
        watched.owner.post(Input::Add(1), Causer::Itself).unwrap();
        assert_eq!(watched.effects.recv_timeout(PATIENCE).unwrap(), Effect::Sum(1));
        watched.owner.post(Input::Add(2), Causer::Itself).unwrap();
        let failure = watched.failures.recv_timeout(PATIENCE).unwrap();
        assert!(failure.contains(&format!("{cut:?}")), "{failure}");
        assert!(!watched.thread.join());
        assert_eq!(watched.owner.post(Input::Add(4), Causer::Itself), Err(PostError::Stopped));
        assert_eq!(watched.owner.read(|_| ()), Err(PostError::Stopped));
        assert_eq!(watched.effects.try_iter().count(), 0);
        assert_eq!(watched.failures.try_iter().count(), 0, "once");
    }
}

#[test]
fn reads_behind_a_failed_append_are_dropped_not_answered() {
    let (watched, appends, open) = gated();
    watched.owner.post(Input::Add(1), Causer::Itself).unwrap();
    appends.recv_timeout(PATIENCE).unwrap();
    watched.owner.post(Input::Add(2), Causer::Itself).unwrap();
    let look = read(&watched.owner, |sum| sum.sum);
    open.send(()).unwrap();
    appends.recv_timeout(PATIENCE).unwrap();
    drop(open);
    assert!(!watched.thread.join());
    assert_eq!(look.recv_timeout(PATIENCE), Err(mpsc::RecvTimeoutError::Disconnected));
}

#[test]
fn reads_that_take_long_let_inputs_go_first() {
    let (watched, _) = in_memory();
    let held = || {
        let ((began, begins), (end, ends)) = (mpsc::channel(), mpsc::channel::<()>());
        let look = move |_: &Sum| {
            began.send(()).unwrap();
            ends.recv_timeout(PATIENCE).unwrap();
        };
        watched.owner.read(look).unwrap();
        (begins, end)
    };
    let (first, go_on) = held();
    first.recv_timeout(PATIENCE).unwrap();
    // These two reads are taken out together. The input is posted after both, while the first of
    // them runs.
    let (long, end) = held();
    let last = read(&watched.owner, |sum| sum.sum);
    go_on.send(()).unwrap();
    long.recv_timeout(PATIENCE).unwrap();
    watched.owner.post(Input::Add(7), Causer::Itself).unwrap();
    watched.boot.fetch_add(limits::READS_TIME.as_us(), Ordering::SeqCst);
    end.send(()).unwrap();
    assert_eq!(last.recv_timeout(PATIENCE).unwrap(), 7);
    watched.owner.stop();
    assert!(watched.thread.join());
}

#[test]
fn more_reads_than_a_batch_takes_are_all_answered_also_by_one_that_is_stopping() {
    let (watched, appends, open) = gated();
    watched.owner.post(Input::Add(1), Causer::Itself).unwrap();
    appends.recv_timeout(PATIENCE).unwrap();
    let looks: Vec<_> =
        (0..3 * limits::GROUP_COMMIT_MAX).map(|_| read(&watched.owner, |sum| sum.sum)).collect();
    watched.owner.stop();
    open.send(()).unwrap();
    for look in looks {
        assert_eq!(look.recv_timeout(PATIENCE).unwrap(), 1);
    }
    assert!(watched.thread.join());
}

#[test]
fn a_broken_invariant_is_neither_written_nor_said() {
    if !cfg!(debug_assertions) {
        return;
    }
    let (watched, disk) = in_memory();
    watched.owner.post(Input::Break, Causer::Itself).unwrap();
    let failure = watched.failures.recv_timeout(PATIENCE).unwrap();
    assert_eq!(failure, "invariant violated: I1: broken");
    assert!(!watched.thread.join());
    assert_eq!(disk.counts().appends, 0);
}

#[test]
fn a_panic_is_a_failure() {
    let (watched, _) = in_memory();
    watched.owner.post(Input::Panic, Causer::Itself).unwrap();
    assert_eq!(watched.failures.recv_timeout(PATIENCE).unwrap(), "panic: as told");
    assert!(!watched.thread.join());
}

#[test]
fn a_tick_comes_when_its_time_has_come_and_before_the_inputs() {
    let (watched, _) = in_memory();
    watched.owner.post(Input::WakeAt(BootTime::from_us(5_000_000)), Causer::Itself).unwrap();
    watched.boot.store(4_999_999, Ordering::SeqCst);
    assert_eq!(read(&watched.owner, |sum| sum.ticks).recv_timeout(PATIENCE).unwrap(), 0);
    watched.boot.store(5_000_000, Ordering::SeqCst);
    watched.owner.post(Input::Ask, Causer::Itself).unwrap();
    let ticked = Effect::Ticked(BootTime::from_us(5_000_000));
    assert_eq!(watched.effects.recv_timeout(PATIENCE).unwrap(), ticked);
    assert_eq!(watched.effects.recv_timeout(PATIENCE).unwrap(), Effect::Sum(0));
    assert_eq!(read(&watched.owner, |sum| sum.ticks).recv_timeout(PATIENCE).unwrap(), 1);
}

#[test]
fn nobody_has_to_post_for_a_tick_to_come() {
    let (said, effects) = mpsc::channel();
    let begin = Instant::now();
    let boot = move || BootTime::from_us(begin.elapsed().as_micros() as i64);
    let clock = move || Now { wall: Time::from_us(0), boot: boot() };
    let on_effect = move |effect| said.send(effect).unwrap();
    let on_failure = |error| panic!("{error}");
    let disk = SimulatedDisk::new("sum");
    let log = MemoryLedger::<u64>::open(&disk, |_, _| Ok(())).unwrap();
    let core = Sum::default();
    let (owner, thread) = spawn("sum", core, log, clock, on_effect, on_failure).unwrap();
    let wake = BootTime::from_us(boot().as_us() + 30_000);
    owner.post(Input::WakeAt(wake), Causer::Itself).unwrap();
    let Effect::Ticked(at) = effects.recv_timeout(PATIENCE).unwrap() else { panic!() };
    assert!(at >= wake);
    owner.stop();
    assert!(thread.join());
}

#[test]
fn a_wake_that_stays_in_the_past_does_not_spin() {
    let (watched, _) = in_memory();
    watched.owner.post(Input::Stubborn, Causer::Itself).unwrap();
    let begin = Instant::now();
    watched.owner.post(Input::WakeAt(BootTime::from_us(0)), Causer::Itself).unwrap();
    for _ in 0..20 {
        watched.effects.recv_timeout(PATIENCE).unwrap();
    }
    // There are 19 waits between 20 ticks.
    assert!(begin.elapsed() >= Duration::from_millis(19), "{:?}", begin.elapsed());
}

#[test]
fn stop_finishes_what_was_posted_and_refuses_what_comes_later() {
    let (watched, appends, open) = gated();
    watched.owner.post(Input::Add(1), Causer::Itself).unwrap();
    appends.recv_timeout(PATIENCE).unwrap();
    watched.owner.post(Input::Add(2), Causer::Itself).unwrap();
    let other = watched.owner.clone();
    other.stop();
    assert_eq!(watched.owner.post(Input::Add(4), Causer::Itself), Err(PostError::Stopped));
    open.send(()).unwrap();
    assert_eq!(appends.recv_timeout(PATIENCE).unwrap(), [2]);
    open.send(()).unwrap();
    assert!(watched.thread.join());
    assert_eq!(watched.effects.iter().count(), 2);
    assert_eq!(watched.failures.iter().count(), 0);
}

#[test]
fn a_full_inbox_is_busy_and_can_still_be_stopped() {
    let (watched, appends, open) = gated();
    watched.owner.post(Input::Add(0), Causer::Itself).unwrap();
    appends.recv_timeout(PATIENCE).unwrap();
    for _ in 0..limits::INBOX_MAX {
        watched.owner.post(Input::Ask, Causer::Itself).unwrap();
    }
    assert_eq!(watched.owner.post(Input::Ask, Causer::Itself), Err(PostError::Busy));
    watched.owner.stop();
    open.send(()).unwrap();
    assert!(watched.thread.join());
    assert_eq!(watched.effects.iter().count(), 1 + limits::INBOX_MAX);
}

#[test]
fn the_owner_ends_with_its_last_handle() {
    let (watched, disk) = in_memory();
    let Watched { owner, thread, .. } = watched;
    let other = owner.clone();
    drop(owner);
    // The core is dropped at the end, and its ledger is closed.
    drop(other);
    assert!(thread.join());
    assert_eq!(disk.counts().opens, 1);
}

#[test]
fn answers_come_from_many_threads_at_once() {
    let (watched, disk) = in_memory();
    let total = Arc::new(Mutex::new(0));
    std::thread::scope(|scope| {
        for thread in 0..4_u64 {
            let (owner, total) = (watched.owner.clone(), Arc::clone(&total));
            scope.spawn(move || {
                for number in 0..500 {
                    while owner.post(Input::Add(thread * number), Causer::Itself)
                        == Err(PostError::Busy)
                    {
                        std::thread::yield_now();
                    }
                    *total.lock().unwrap() += thread * number;
                }
            });
        }
    });
    watched.owner.stop();
    assert!(watched.thread.join());
    let said: Vec<_> = watched.effects.iter().collect();
    assert_eq!(said.len(), 2_000);
    assert_eq!(said.last(), Some(&Effect::Sum(*total.lock().unwrap())));
    let (mut sum, mut noticed) = (Sum::default(), 0_u64);
    let mut fold = CoreFold { core: &mut sum, noticed: |_, _: &u64| noticed += 1 };
    MemoryLedger::<u64>::open_into(&disk, &mut fold).unwrap();
    assert_eq!(noticed, 2_000, "also those that the snapshot stands for");
    let (contained, _) = disk.snapshot().expect("one was due");
    assert!(contained + 50 + limits::GROUP_COMMIT_MAX > 2_000, "{contained}");
    assert_eq!(sum.sum, *total.lock().unwrap());
}
