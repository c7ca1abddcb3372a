//! Measures what years leave behind: a generator feeds reservations to a coordinator and two resource managers whose clocks
//! it moves, and says how much memory and disk they take while the year goes by.
//!
//! `cargo bench -p coalloc-ledger --bench year -- [RESERVATIONS]` (1,000,000 unless it says otherwise; 10,000,000 take
//! hours). The cores and the SQLite ledgers are the real ones; what is missing is the daemons around them: no process, no
//! network, no planner. The simulated time is as long as it takes to have [`LIVE`] reservations remembered at any moment, so
//! ten million reservations are a year. Of ten reservations one is refused by a resource manager, one is released by its user,
//! one is changed, and seven are left to end.
//!
//! The first line is the fresh state: [`LIVE`] reservations, and nothing has been forgotten yet. The lines after it are
//! compared with it. Archives are moved away as an operator may do it, here by deleting them; their bytes are counted. The
//! temporary folder must be on a real disk (`TMPDIR`).

#![allow(
    clippy::unwrap_used,
    reason = "a benchmark that fails has nobody to tell but the terminal"
)]

use std::collections::{BTreeMap, VecDeque};
use std::path::{Path, PathBuf};
use std::time::Instant;

use coalloc_common::{
    Amount, BootTime, CoordinatorName, DiskSpace, Now, RequestId, ReservationId, ResourceId,
    ResourceKind, RmName, Segment, ServiceLevels, Span, Time, TransactionId, UserName, Window,
};
use coalloc_ledger::{CoreFold, Identity, SqliteLedger, snapshot_if_due, step_all};
use coalloc_protocol::conversation::{
    Caller, ConversationInput, Next, Opening, PlanJob, RequestEnd, RequestToken,
};
use coalloc_protocol::coordinator::{
    Candidate, ChangeTicket, Coordinator, CoordinatorConfig, CoordinatorEffect, CoordinatorInput,
    ForgetPolicy, MessageKind, Reply, Ticket,
};
use coalloc_protocol::message::{Answer, Delivery, Message, Token};
use coalloc_protocol::participant::{
    HoldPolicy, HoldQuotas, Participant, ParticipantConfig, ParticipantEffect, ParticipantInput,
};
use coalloc_protocol::{Causer, Core as _, Snapshot, sync};
use serde::Serialize;
use serde::de::DeserializeOwned;

// As in the daemons: what is freed must go back to the system.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const DEFAULT: u64 = 1_000_000;
/// Reservations that the coordinator knows at any moment.
const LIVE: u64 = 100_000;
/// A year has so many reservations.
const YEAR: u64 = 10_000_000;
const BATCH: u64 = 256;
/// From the request to the end of the window.
const LEAD: Span = Span::from_secs(3_600);
const DURATION: Span = Span::from_secs(12 * 3_600);
/// How often it is looked for what can be forgotten. The daemons look every ten minutes; here that would take longer
/// than all the rest.
const FORGET_EVERY: Span = Span::from_secs(4 * 3_600);
const REPORTS: u64 = 10;

fn per_reservation() -> Span {
    Span::from_us(365 * 24 * 3_600 * 1_000_000 / YEAR as i64)
}

/// What is left of the time in which there are [`LIVE`] reservations, after the window.
fn retention() -> Span {
    Span::from_us(per_reservation().as_us() * LIVE as i64 - LEAD.as_us() - DURATION.as_us())
}

fn grc() -> CoordinatorName {
    CoordinatorName::composed("grc")
}

/// A core with its ledger.
struct Node<C: Snapshot> {
    core: C,
    ledger: SqliteLedger<C::Record>,
    path: PathBuf,
    archived_bytes: u64,
}

impl<C: Snapshot> Node<C>
where
    C::Record: Serialize + DeserializeOwned + Send + Sync + 'static,
{
    fn open(folder: &Path, kind: &str, name: &str, mut core: C) -> Self {
        let path = folder.join(format!("{name}.ledger"));
        let node = Identity { kind: kind.to_owned(), name: name.to_owned() };
        let mut fold = CoreFold { core: &mut core, noticed: |_, _: &C::Record| {} };
        let ledger = SqliteLedger::open_into(&path, &node, || "0".repeat(32), &mut fold).unwrap();
        Self { core, ledger, path, archived_bytes: 0 }
    }

    /// One turn of an owner.
    fn turn(&mut self, inputs: Vec<C::Input>, now: Now) -> Vec<C::Effect> {
        snapshot_if_due(&mut self.core, &mut self.ledger, DiskSpace::Enough).unwrap();
        let inputs = inputs.into_iter().map(|input| (input, Causer::Itself));
        let steps = step_all(&mut self.core, None, inputs, now);
        sync(steps, &mut self.ledger).unwrap().into_effects()
    }

    /// Bytes of the file and of what SQLite keeps beside it.
    fn file_bytes(&self) -> u64 {
        let wal = PathBuf::from(format!("{}-wal", self.path.display()));
        [&self.path, &wal]
            .map(|path| std::fs::metadata(path).map_or(0, |data| data.len()))
            .iter()
            .sum()
    }

    /// Moves the archives away.
    fn move_archives(&mut self) {
        let folder = PathBuf::from(format!("{}.archive", self.path.display()));
        for entry in std::fs::read_dir(folder).into_iter().flatten() {
            let path = entry.unwrap().path();
            let name = path.file_name().unwrap().to_string_lossy();
            // The copy that is being written has another name until it is complete.
            if name.starts_with(|first: char| first.is_ascii_digit()) {
                self.archived_bytes += std::fs::metadata(&path).unwrap().len();
                std::fs::remove_file(path).unwrap();
            }
        }
    }
}

fn coordinator(folder: &Path) -> Node<Coordinator> {
    let mut core = Coordinator::new(CoordinatorConfig {
        name: grc(),
        tag: String::new(),
        hold_for: None,
        forgets: Some(ForgetPolicy { retention: retention(), every: FORGET_EVERY }),
    });
    core.set_tag("1a2b3c4d".to_owned());
    Node::open(folder, "grc", "grc", core)
}

fn rm(folder: &Path, name: &str, kind: ResourceKind) -> Node<Participant> {
    let core = Participant::new(ParticipantConfig {
        name: RmName::composed(name),
        kinds: kind.into(),
        resources: vec![(ResourceId::composed(format!("{name}-resource")), Amount(1_000_000))],
        coordinators: [grc()].into(),
        policy: HoldPolicy { forget_every: FORGET_EVERY, ..HoldPolicy::default() },
        levels: ServiceLevels::default(),
        quotas: HoldQuotas::default(),
        inside: None,
        servers: BTreeMap::new(),
    });
    Node::open(folder, if kind == ResourceKind::Cpus { "crm" } else { "nrm" }, name, core)
}

/// What becomes of the reservation with this number.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Course {
    Refused,
    Released,
    Changed,
    Ends,
}

fn course(number: u64) -> Course {
    match number % 10 {
        0 => Course::Refused,
        1 => Course::Released,
        2 => Course::Changed,
        _ => Course::Ends,
    }
}

/// A coordinator, its resource managers, and the time.
struct World {
    grc: Node<Coordinator>,
    rms: BTreeMap<RmName, Node<Participant>>,
    now: Now,
    confirmed: u64,
}

impl World {
    fn candidate(&self, number: u64, start: Span) -> Candidate {
        let refused = course(number) == Course::Refused;
        let window = Window::starting(self.now.wall.saturating_add(start), DURATION).unwrap();
        let segments = |(place, name): (usize, &RmName)| {
            let resource = ResourceId::composed(format!("{name}-resource"));
            // More than there is at the last resource manager, so that the first one holds in vain.
            let amount = Amount(if refused && place > 0 { 1_000_001 } else { 10 });
            (name.clone(), vec![Segment { resource, amount, window }])
        };
        let segments = self.rms.keys().enumerate().map(segments).collect();
        // About as long as what a planner says.
        let details = format!("{:0>300}", number).into();
        Candidate { segments, details, ..Candidate::default() }
    }

    fn planned(&self, job: PlanJob, number: u64, caller: Caller, start: Span) -> CoordinatorInput {
        let planned = Ok(vec![self.candidate(number, start)]).into();
        ConversationInput::Planned { job, planned, caller }.into()
    }

    /// What a user does next, when the request has this end.
    fn goes_on(
        &self,
        number: u64,
        token: RequestToken,
        id: ReservationId,
    ) -> Option<CoordinatorInput> {
        match course(number) {
            Course::Ends | Course::Refused => None,
            Course::Released => Some(CoordinatorInput::Release {
                reservation: id,
                token: Token::new(token.number()),
            }),
            Course::Changed => {
                let ticket = ChangeTicket {
                    reservation: id,
                    change: RequestId::composed(format!("change-{number}")),
                    content: "0".repeat(64),
                };
                let opening = Opening::Change(ticket, Token::new(number));
                Some(ConversationInput::Open(opening).into())
            }
        }
    }

    /// Carries out what a coordinator's step has put out, and returns what comes of it for the coordinator.
    fn carry_out(&mut self, effects: Vec<CoordinatorEffect>) -> Vec<CoordinatorInput> {
        let mut inputs = Vec::new();
        let mut sent: BTreeMap<RmName, Vec<(TransactionId, Message, u64)>> = BTreeMap::new();
        for effect in effects {
            match effect {
                CoordinatorEffect::Send { rm, txn, message, oldest_open } => {
                    sent.entry(rm).or_default().push((txn, message, oldest_open));
                }
                CoordinatorEffect::Reply(Reply::Request(token, Next::Plan(job))) => {
                    inputs.push(self.planned(job, token.number(), Caller::Request(token), LEAD));
                }
                CoordinatorEffect::Reply(Reply::Request(token, Next::Done(end))) => {
                    let RequestEnd::Stands(reservation) = end else { panic!("{end:?}") };
                    self.confirmed += u64::from(course(token.number()) != Course::Refused);
                    inputs.extend(self.goes_on(token.number(), token, reservation.id.clone()));
                }
                CoordinatorEffect::Reply(Reply::Change(token, Next::Plan(job))) => {
                    let later = Span::from_us(LEAD.as_us() / 2);
                    inputs.push(self.planned(job, token.number(), Caller::Change(token), later));
                }
                CoordinatorEffect::Reply(_) | CoordinatorEffect::AskParent { .. } => {}
            }
        }
        for (rm, messages) in sent {
            inputs.extend(self.deliver(&rm, messages));
        }
        inputs
    }

    fn deliver(
        &mut self,
        rm: &RmName,
        messages: Vec<(TransactionId, Message, u64)>,
    ) -> Vec<CoordinatorInput> {
        let kinds: Vec<(TransactionId, MessageKind)> =
            messages.iter().map(|(txn, message, _)| (txn.clone(), message.kind())).collect();
        let by = grc();
        let inputs = messages.into_iter().zip(0..).map(|((txn, message, oldest_open), place)| {
            let (by, token) = (by.clone(), Token::<Answer>::new(place));
            match message {
                Message::Hold(order) => ParticipantInput::Hold { order, oldest_open, token },
                Message::Commit => ParticipantInput::Commit { txn, by, token },
                Message::Abort => ParticipantInput::Abort { txn, by, token },
                Message::Release => ParticipantInput::Release { txn, by, token },
            }
        });
        let inputs = inputs.collect();
        let effects = self.rms.get_mut(rm).unwrap().turn(inputs, self.now);
        let answers = effects.into_iter().filter_map(|effect| match effect {
            ParticipantEffect::Reply { token, answer } => Some((token, answer)),
            ParticipantEffect::Ask { .. } | ParticipantEffect::Reconcile { .. } => None,
        });
        let delivered = |(token, answer): (Token<Answer>, Answer)| {
            let (txn, kind) = kinds[token.number() as usize].clone();
            let delivery = Delivery::Answered(answer);
            CoordinatorInput::Delivered { rm: rm.clone(), txn, kind, delivery }
        };
        answers.map(delivered).collect()
    }

    /// Feeds the coordinator, and everybody who hears of it, until nothing is left to do.
    fn settle(&mut self, mut inputs: Vec<CoordinatorInput>) {
        loop {
            let effects = self.grc.turn(std::mem::take(&mut inputs), self.now);
            inputs = self.carry_out(effects);
            if inputs.is_empty() {
                return;
            }
        }
    }

    /// Lets time pass up to here, with every tick at its time.
    fn pass(&mut self, span: Span) {
        let until = self.now.boot.saturating_add(span);
        loop {
            let wakes =
                self.rms.values().map(|rm| rm.core.next_wake()).chain([self.grc.core.next_wake()]);
            let next = wakes.flatten().min().map_or(until, |wake| wake.clamp(self.now.boot, until));
            let passed = next.since(self.now.boot);
            self.now = Now { wall: self.now.wall.saturating_add(passed), boot: next };
            if next == until {
                return;
            }
            for rm in self
                .rms
                .values_mut()
                .filter(|rm| rm.core.next_wake().is_some_and(|wake| wake <= next))
            {
                drop(rm.turn(Vec::new(), self.now));
            }
            self.settle(Vec::new());
        }
    }

    fn request(&mut self, numbers: std::ops::Range<u64>) {
        let open = |number: u64| {
            let ticket = Ticket {
                request: RequestId::composed(format!("request-{number}")),
                user: UserName::composed(format!("user-{}", number % 100)),
                content: "0".repeat(64),
            };
            ConversationInput::Open(Opening::Request(ticket, Token::new(number))).into()
        };
        self.settle(numbers.map(open).collect());
    }
}

/// What is measured at one moment.
#[derive(Clone, Copy)]
struct Footprint {
    resident_kb: u64,
    file_bytes: u64,
}

impl World {
    fn footprint(&self) -> Footprint {
        let files = self.rms.values().map(Node::file_bytes).chain([self.grc.file_bytes()]);
        Footprint { resident_kb: resident_kb(), file_bytes: files.sum() }
    }

    fn move_archives(&mut self) {
        self.grc.move_archives();
        self.rms.values_mut().for_each(Node::move_archives);
    }
}

/// Memory of this process that is in use.
fn resident_kb() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    line.trim_end_matches("kB").trim().parse().unwrap()
}

fn print(world: &World, done: u64, begun: Instant, fresh: Footprint) {
    let Footprint { resident_kb, file_bytes } = world.footprint();
    let archived: u64 =
        world.rms.values().map(|rm| rm.archived_bytes).sum::<u64>() + world.grc.archived_bytes;
    let entries: Vec<usize> = world.rms.values().map(|rm| rm.core.entries().len()).collect();
    println!(
        "{done:>9} reservations {:>6.0?}: coordinator knows {}, resource managers {entries:?}; memory {:.0} MB \
         ({:.2} of fresh), ledgers {:.0} MB ({:.2}), archives {:.0} MB",
        begun.elapsed(),
        world.grc.core.reservations().count(),
        resident_kb as f64 / 1e3,
        resident_kb as f64 / fresh.resident_kb as f64,
        file_bytes as f64 / 1e6,
        file_bytes as f64 / fresh.file_bytes as f64,
        archived as f64 / 1e6,
    );
}

fn main() {
    let wanted = std::env::args().skip(1).find_map(|arg| arg.parse().ok()).unwrap_or(DEFAULT);
    let folder = tempfile::tempdir().unwrap();
    let rms = [("crm-A", ResourceKind::Cpus), ("nrm-N", ResourceKind::Bandwidth)];
    let rms = rms.map(|(name, kind)| (RmName::composed(name), rm(folder.path(), name, kind)));
    let now = Now { wall: Time::from_us(1_795_219_200_000_000), boot: BootTime::from_us(0) };
    let grc = coordinator(folder.path());
    let mut world = World { grc, rms: rms.into(), now, confirmed: 0 };
    drop(world.grc.turn(vec![CoordinatorInput::Start], now));
    for rm in world.rms.values_mut() {
        drop(rm.turn(vec![ParticipantInput::Start { boot: "bench".to_owned() }], now));
    }
    let begun = Instant::now();
    let (mut done, mut fresh) = (0, None);
    let mut reports = VecDeque::from_iter((1..=REPORTS).map(|part| wanted * part / REPORTS));
    while done < wanted {
        world.request(done..done + BATCH);
        world.pass(Span::from_us(per_reservation().as_us() * BATCH as i64));
        world.move_archives();
        done += BATCH;
        if fresh.is_none() && done >= LIVE {
            fresh = Some(world.footprint());
            print(&world, done, begun, world.footprint());
        }
        while reports.pop_front_if(|next| *next <= done).is_some() {
            print(&world, done, begun, fresh.unwrap_or_else(|| world.footprint()));
        }
    }
    println!("{} confirmed", world.confirmed);
    let World { grc, rms, .. } = world;
    drop((grc, rms));
    let begun = Instant::now();
    let grc = coordinator(folder.path());
    println!(
        "start of the coordinator: {:.2?} with {} reservations, {} records ever",
        begun.elapsed(),
        grc.core.reservations().count(),
        grc.ledger.last_sequence()
    );
}
