//! A simulated machine: its clocks are those of the simulation, its connections use turmoil's network, and
//! its owners are tasks whose disk takes simulated time.

use std::cell::Cell;
use std::fmt;
use std::net::{IpAddr, Ipv4Addr};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use coalloc_common::{BootTime, Now, Time};
use coalloc_ledger::SimulatedDisk;
use coalloc_ledger::owner::{OwnerTurn, TurnError};
use coalloc_net::client::{Destination, Dialer, Network};
use coalloc_net::identity::store::IdentityStore;
use coalloc_net::machine::{BlockingWork, Machine, OwnerFinished};
use coalloc_net::server::{BoxStream, Listener};
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};
use tokio::sync::{Notify, oneshot};
use tonic::transport::Channel;
use turmoil::net::{TcpListener, TcpStream};

use crate::trace::Trace;

/// The port of every daemon; each daemon has its own host.
pub(crate) const PORT: u16 = 7_000;
/// The start of every simulation: 2027-01-01T00:00:00Z.
pub(crate) const EPOCH_US: i64 = 1_798_761_600_000_000;
/// The value of boot-time clocks at that time.
const BOOT_US: i64 = 1_000_000_000;

/// The parts of a host that outlive its crashes: its disk, and the facts about its boots.
#[derive(Debug)]
pub(crate) struct Hardware {
    pub(crate) name: &'static str,
    pub(crate) disk: SimulatedDisk,
    /// The ledger's identity.
    pub(crate) id: String,
    /// A planted fault: reports every write as durable, and makes it durable only with the next write.
    pub(crate) lies: bool,
    trace: Trace,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    boots: u32,
    booted_us: i64,
    /// Random numbers for the time that the disk takes.
    disk_time: ChaCha8Rng,
    /// Whether the process has ended by itself because a write failed.
    dead: bool,
    /// Whether the machine is on without the process: a caller learns this at once.
    absent: bool,
    /// The identity with which the process serves; `None` in plain text, and while it does not run.
    identity: Option<Arc<IdentityStore>>,
}

thread_local! {
    /// Microseconds since the simulation of this thread began, for what happens outside of its hosts.
    static OUTSIDE_US: Cell<i64> = const { Cell::new(0) };
}

/// Sets how far the simulation of this thread has come, for what happens outside of its hosts.
pub(crate) fn set_elapsed_outside(elapsed: Duration) {
    OUTSIDE_US.set(i64::try_from(elapsed.as_micros()).unwrap());
}

/// Microseconds since the simulation began.
pub(crate) fn elapsed_us() -> i64 {
    let elapsed = turmoil::sim_elapsed();
    elapsed.map_or_else(|| OUTSIDE_US.get(), |elapsed| i64::try_from(elapsed.as_micros()).unwrap())
}

impl Hardware {
    pub(crate) fn new(name: &'static str, seed: u64, lies: bool, trace: &Trace) -> Arc<Self> {
        let state = State {
            boots: 1,
            booted_us: -BOOT_US,
            disk_time: ChaCha8Rng::seed_from_u64(seed ^ hash(name)),
            dead: false,
            absent: false,
            identity: None,
        };
        // 32 hexadecimal digits. The ids of reservations begin with them, and so show the daemon and the seed.
        let id = format!("{:04x}{:04x}{seed:024x}", hash(name) & 0xffff, seed & 0xffff);
        Arc::new(Self {
            name,
            disk: SimulatedDisk::new(&id),
            id,
            lies,
            trace: trace.clone(),
            state: Mutex::new(state),
        })
    }

    /// The process has ended by itself, before it had an owner of its ledger.
    pub(crate) fn note_end(&self, why: &str) {
        self.trace.add(self.name, format_args!("ends at its start: {why}"));
        self.state.lock().unwrap().dead = true;
    }

    /// Ends the process, which loses everything that was not synced.
    ///
    /// With `reboot` the boot-time clock starts again.
    pub(crate) fn crash(&self, now_us: i64, reboot: bool) {
        self.disk.crash();
        let mut state = self.state.lock().unwrap();
        state.dead = false;
        state.identity = None;
        if reboot {
            state.boots += 1;
            state.booted_us = now_us;
        }
    }

    /// Is the machine on without its process?
    pub(crate) fn is_absent(&self) -> bool {
        self.state.lock().unwrap().absent
    }

    /// Sets this from the next start of the machine.
    pub(crate) fn set_absent(&self, absent: bool) {
        self.state.lock().unwrap().absent = absent;
    }

    /// Has the process ended by itself?
    pub(crate) fn is_dead(&self) -> bool {
        self.state.lock().unwrap().dead
    }

    /// Sets the identity with which the process serves.
    pub(crate) fn set_identity(&self, identity: &Arc<IdentityStore>) {
        self.state.lock().unwrap().identity = Some(Arc::clone(identity));
    }

    /// Has a process that runs read its identity again, as on SIGHUP. Whatever has changed must be in force then, also
    /// while the process's own certificate has ended.
    pub(crate) fn reload_identity(&self) {
        let identity = self.state.lock().unwrap().identity.clone();
        if let Some(Err(error)) = identity.map(|identity| identity.reload()) {
            self.trace.accuse(format!("{}: its identity cannot be read again: {error}", self.name));
        }
    }

    /// How long a write takes before it is durable, and then until that is reported: some milliseconds,
    /// occasionally a good part of a second.
    fn disk_time(&self) -> [Duration; 2] {
        let draws = &mut self.state.lock().unwrap().disk_time;
        let mut draw = || {
            let most = if draws.next_u32().is_multiple_of(16) { 600 } else { 12 };
            Duration::from_millis(u64::from(draws.next_u32() % most))
        };
        [draw(), draw()]
    }
}

/// FNV-1a, which gives the same value in every process.
pub(crate) fn hash(text: &str) -> u64 {
    text.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

/// A host from one start to its next crash.
pub(crate) struct SimMachine {
    pub(crate) hardware: Arc<Hardware>,
    /// Connects with the identity of the process.
    pub(crate) dialer: Dialer,
}

impl fmt::Debug for SimMachine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.hardware.name)
    }
}

impl Machine for SimMachine {
    fn now(&self) -> Now {
        let elapsed = elapsed_us();
        let booted = self.hardware.state.lock().unwrap().booted_us;
        Now { wall: Time::from_us(EPOCH_US + elapsed), boot: BootTime::from_us(elapsed - booted) }
    }

    fn boot_id(&self) -> String {
        format!("{}-{}", self.hardware.name, self.hardware.state.lock().unwrap().boots)
    }

    fn connect(&self, to: &Destination) -> Channel {
        self.dialer.connect_over(SimNetwork, to)
    }

    fn drive(&self, name: &str, mut turns: Box<dyn OwnerTurn>) -> std::io::Result<OwnerFinished> {
        let (hardware, name) = (Arc::clone(&self.hardware), name.to_owned());
        let posted = Arc::new(Notify::new());
        let bell = Arc::clone(&posted);
        turns.ring(Box::new(move || bell.notify_one()));
        let (done, ended) = oneshot::channel::<()>();
        tokio::spawn(async move {
            if let Err(end) = turn_by_turn(&hardware, turns.as_mut(), &posted).await {
                hardware.trace.add(hardware.name, format_args!("{name} ends: {end}"));
                if let End::Broken(text) = end {
                    hardware.trace.accuse(format!("{}: {name}: {text}", hardware.name));
                }
                hardware.state.lock().unwrap().dead = true;
                // What the process still had in memory is never reported, because the process will be
                // crashed soon.
                std::future::pending::<()>().await;
            }
            drop(done);
        });
        Ok(Box::pin(async move {
            let _ = ended.await;
        }))
    }

    fn off_the_runtime(&self, work: BlockingWork) {
        // The simulated disk answers at once.
        work();
    }
}

/// Why an owner ends, unless it was told to end.
#[derive(Debug)]
enum End {
    /// A write failed, as planned.
    Cut(String),
    /// The core violates an invariant.
    Broken(String),
}

impl fmt::Display for End {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (Self::Cut(text) | Self::Broken(text)) = self;
        f.write_str(text)
    }
}

/// Does the work of a thread in `coalloc_ledger::owner`, with the time that the disk takes.
async fn turn_by_turn(
    hardware: &Hardware,
    turns: &mut dyn OwnerTurn,
    posted: &Notify,
) -> Result<(), End> {
    loop {
        let patience = turns.patience();
        if !patience.is_zero() {
            let _ = tokio::time::timeout(patience, posted.notified()).await;
        }
        let records = sound(|| turns.step(Duration::ZERO))??;
        let [write, told] = hardware.disk_time();
        if records > 0 {
            tokio::time::sleep(write).await;
        }
        sound(|| turns.sync())??;
        if records > 0 {
            // The records are durable, but this is not reported yet.
            tokio::time::sleep(told).await;
        }
        if !sound(|| turns.release())? {
            return Ok(());
        }
    }
}

impl From<TurnError> for End {
    fn from(error: TurnError) -> Self {
        match error {
            TurnError::Disk(text) | TurnError::Replaced(text) => Self::Cut(text),
            TurnError::Core(text) | TurnError::Panic(text) => Self::Broken(text),
        }
    }
}

/// Runs a part of a turn; a panic of a core ends its process.
fn sound<T>(part: impl FnOnce() -> T) -> Result<T, End> {
    catch_unwind(AssertUnwindSafe(part)).map_err(|panic| {
        let text = panic.downcast_ref::<String>().cloned();
        let text = text.or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned()));
        End::Broken(format!("panic: {}", text.unwrap_or_default()))
    })
}

/// Listens on the simulated network.
pub(crate) struct SimListener(TcpListener);

impl SimListener {
    pub(crate) async fn bind() -> std::io::Result<Self> {
        Ok(Self(TcpListener::bind((Ipv4Addr::UNSPECIFIED, PORT)).await?))
    }
}

impl Listener for SimListener {
    async fn next(&mut self) -> std::io::Result<(BoxStream, IpAddr)> {
        let (stream, peer) = self.0.accept().await?;
        Ok((Box::new(stream), peer.ip()))
    }
}

/// Connects over the simulated network.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SimNetwork;

impl Network for SimNetwork {
    type Stream = TcpStream;

    async fn open(&self, address: &str) -> std::io::Result<TcpStream> {
        TcpStream::connect(address).await
    }
}
