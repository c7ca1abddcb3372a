//! Every metric of Coalloc: its name, its help text, its labels. No other place in the code has the name of a
//! metric.
//!
//! A name is `coalloc_<group>_<what>_<unit>`, in base units, after the conventions of Prometheus; the text
//! format adds `_total` to counters. Labels are bounded: reasons, kinds, methods, and the names of resource
//! managers and of resources of the inventory; never a user, a request or a transaction.
//!
//! The cores know nothing of metrics. What they decide is counted where their records become durable
//! ([`records`]), including records that are replayed. So these counters follow from the ledger, and continue
//! across restarts. Everything else is counted in the shells. Values that describe a state are read when
//! somebody scrapes ([`scrape`] serves the metrics, [`calls`] counts the calls of a server).
//!
//! A counter is one atomic addition. A histogram takes a lock, which nobody holds for longer than an
//! addition. The metrics of a group appear once something of that group runs in the process.
//!
//! Left out: pushing to a gateway, and metrics of the process itself (exporters for the machine have those).
//! Reasons: docs/adr/0011-telemetry.md.

pub mod calls;
mod coordinator;
pub mod records;
pub mod scrape;
mod tasks;

pub use coordinator::{Grc, grc};
pub use tasks::{Tasks, tasks};

use std::borrow::Cow;
use std::fmt;
use std::sync::OnceLock;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use coalloc_common::Reason;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::{Family, MetricConstructor};
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::{Metric, Registry};

/// A gauge of seconds.
pub type Seconds = Gauge<f64, AtomicU64>;

type Label = (&'static str, Cow<'static, str>);

/// One metric with `N` labels.
pub struct LabelledMetric<M: Metric, const N: usize> {
    names: [&'static str; N],
    family: Family<[Label; N], M, MemberFactory<M>>,
}

impl<M: Metric + Clone, const N: usize> LabelledMetric<M, N> {
    /// The metric for these values of the labels, given in the order in which the labels are declared.
    pub fn with(&self, values: [&str; N]) -> M {
        let mut names = self.names.iter();
        let labels = values
            .map(|value| (names.next().copied().unwrap_or_default(), Cow::Owned(value.to_owned())));
        self.family.get_or_create_owned(&labels)
    }

    /// Creates the metrics for these values from the start, so that the first event is seen as a step from
    /// zero.
    fn show<const K: usize>(self, values: [[&str; N]; K]) -> Self {
        for values in values {
            self.with(values);
        }
        self
    }
}

impl<M: Metric, const N: usize> fmt::Debug for LabelledMetric<M, N> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Labelled").field("names", &self.names).finish_non_exhaustive()
    }
}

/// Makes a new member of a family.
#[derive(Clone)]
struct MemberFactory<M>(fn() -> M);

impl<M> MetricConstructor<M> for MemberFactory<M> {
    fn new_metric(&self) -> M {
        (self.0)()
    }
}

/// A histogram for durations. Its bounds begin at 50 us (an fsync of a fast disk takes longer) and double up
/// to 26 s.
fn duration() -> Histogram {
    Histogram::new((0..20).map(|n| 50e-6 * f64::from(1_u32 << n)))
}

/// A histogram for counts. Its bounds are 0, 1, 2, 4 and so on up to 256, which is the most inputs of one
/// fsync and the most frames of one request.
fn count() -> Histogram {
    Histogram::new(std::iter::once(0.0).chain((0..9).map(|n| f64::from(1_u32 << n))))
}

/// The registry of one group of metrics, while they are declared.
#[derive(Debug)]
struct MetricGroup {
    registry: Registry,
}

impl MetricGroup {
    fn new(name: &str) -> Self {
        Self { registry: Registry::with_prefix(format!("coalloc_{name}")) }
    }

    fn one<M: Metric + Clone>(&mut self, metric: M, name: &str, help: &str) -> M {
        self.registry.register(name, help, metric.clone());
        metric
    }

    fn counter(&mut self, name: &str, help: &str) -> Counter {
        self.one(Counter::default(), name, help)
    }

    fn gauge(&mut self, name: &str, help: &str) -> Gauge {
        self.one(Gauge::default(), name, help)
    }

    fn seconds(&mut self, name: &str, help: &str) -> Histogram {
        self.one(duration(), name, help)
    }

    fn many<M: Metric + Clone, const N: usize>(
        &mut self,
        new: fn() -> M,
        names: [&'static str; N],
        name: &str,
        help: &str,
    ) -> LabelledMetric<M, N>
    where
        Family<[Label; N], M, MemberFactory<M>>: Metric,
    {
        let family = Family::new_with_constructor(MemberFactory(new));
        self.registry.register(name, help, family.clone());
        LabelledMetric { names, family }
    }

    fn counters<const N: usize>(
        &mut self,
        names: [&'static str; N],
        name: &str,
        help: &str,
    ) -> LabelledMetric<Counter, N> {
        self.many(Counter::default, names, name, help)
    }

    fn gauges<const N: usize>(
        &mut self,
        names: [&'static str; N],
        name: &str,
        help: &str,
    ) -> LabelledMetric<Gauge, N> {
        self.many(Gauge::default, names, name, help)
    }
}

/// Metrics that every daemon has: connections, calls and spans.
#[derive(Debug)]
pub struct Net {
    room: MetricGroup,
    /// Always 1; its labels say which daemon this is.
    pub daemon: LabelledMetric<Gauge, 3>,
    /// Calls answered, by method and status code.
    pub calls: LabelledMetric<Counter, 2>,
    /// How long calls took, by method.
    pub call_seconds: LabelledMetric<Histogram, 1>,
    /// Calls that are not answered yet.
    pub calls_in_flight: Gauge,
    /// Connections, by state.
    pub connections: LabelledMetric<Gauge, 1>,
    /// Connections that the server closed, by cause.
    pub connections_closed: LabelledMetric<Counter, 1>,
    /// Watches that were ended to make room for another caller.
    pub watches_displaced: Counter,
    /// Calls and connections that were denied, by reason.
    pub denied: LabelledMetric<Counter, 1>,
    /// Calls of users that were turned away as too many.
    pub calls_over_quota: Counter,
    /// When the daemon's certificate ends, in seconds since 1970; 0 without one.
    pub identity_ends: Gauge,
    /// Times when the new files of the daemon's identity could not be used.
    pub identity_refused: Counter,
    /// Spans of traces, by outcome.
    pub spans: LabelledMetric<Counter, 1>,
    /// Scrapes answered.
    pub scrapes: Counter,
}

/// The metrics of servers and traces.
pub fn net() -> &'static Net {
    static NET: OnceLock<Net> = OnceLock::new();
    NET.get_or_init(|| {
        let mut room = MetricGroup::new("net");
        Net {
            daemon: room.gauges(
                ["kind", "name", "version"],
                "daemon_info",
                "Always 1; its labels say which daemon this is",
            ),
            calls: room.counters(
                ["method", "code"],
                "calls",
                "gRPC calls this daemon has answered, by method and status code",
            ),
            call_seconds: room.many(
                duration,
                ["method"],
                "call_seconds",
                "How long gRPC calls took at this daemon, from the request to its answer",
            ),
            calls_in_flight: room
                .gauge("calls_in_flight", "gRPC calls this daemon has not answered yet"),
            connections: room
                .gauges(
                    ["state"],
                    "connections",
                    "Connections: silent (no HTTP/2 yet), live, leaving (asked to make place for \
                     another), or being cut",
                )
                .show([["silent"], ["live"], ["leaving"], ["cut"]]),
            connections_closed: room
                .counters(
                    ["cause"],
                    "connections_closed",
                    "Connections closed by this daemon: silent for 5 s, foreign (not HTTP/2), \
                     crowded out by silent ones, idle when another needed the place, refused because \
                     all others have calls in progress, handshake (no TLS, or a certificate that is \
                     not believed), or disbelieved (its certificate has ended or was revoked)",
                )
                .show([
                    ["silent"],
                    ["foreign"],
                    ["crowded"],
                    ["idle"],
                    ["refused"],
                    ["handshake"],
                    ["disbelieved"],
                ]),
            denied: room
                .counters(
                    ["reason"],
                    "denied",
                    "Calls denied because the caller has not proven who it is (unproven) or may \
                     not make this call (not_allowed), and connections denied because the client's \
                     certificate is not believed (disbelieved)",
                )
                .show([["unproven"], ["not_allowed"], ["disbelieved"]]),
            calls_over_quota: room.counter(
                "calls_over_quota",
                "Calls of users that were turned away because they were more than the quota of \
                 calls a second",
            ),
            identity_ends: room.gauge(
                "identity_ends",
                "When the certificate of this daemon ends, in seconds since 1970; 0 without one",
            ),
            identity_refused: room.counter(
                "identity_refused",
                "Times when the new files of this daemon's identity could not be used",
            ),
            spans: room.counters(
                ["outcome"],
                "spans",
                "Spans of traces: exported, dropped because the queue was full, or failed at the collector",
            ),
            watches_displaced: room.counter(
                "watches_displaced",
                "Watches ended because their caller had most, and another caller needed a place",
            ),
            scrapes: room.counter("scrapes", "Scrapes of these metrics, including this one"),
            room,
        }
    })
}

/// Metrics of ledgers, and of the owners of the cores that write them. All have the core as a label.
#[derive(Debug)]
pub struct Ledger {
    room: MetricGroup,
    /// How long one append took until its records were durable.
    pub sync_seconds: LabelledMetric<Histogram, 1>,
    /// How long one snapshot took.
    pub snapshot_seconds: LabelledMetric<Histogram, 1>,
    /// Number of records in one append.
    pub batch_records: LabelledMetric<Histogram, 1>,
    /// Records in the ledger.
    pub records: LabelledMetric<Counter, 1>,
    /// Size of the ledger's files, in bytes.
    pub size: LabelledMetric<Gauge, 1>,
    /// 1 if the disk has space for anything new, else 0.
    pub has_room: LabelledMetric<Gauge, 1>,
    /// Reserved space, in bytes, which is kept back for commits, aborts and releases.
    pub room_bytes: LabelledMetric<Gauge, 1>,
    /// 1 if this process leads those that share its ledger, else 0.
    pub leads: LabelledMetric<Gauge, 1>,
    /// Inputs that wait for the owner.
    pub inbox: LabelledMetric<Gauge, 1>,
    /// Inputs that were refused because the inbox was full.
    pub refused: LabelledMetric<Counter, 1>,
}

/// The metrics of ledgers.
pub fn ledger() -> &'static Ledger {
    static LEDGER: OnceLock<Ledger> = OnceLock::new();
    LEDGER.get_or_init(|| {
        let mut room = MetricGroup::new("ledger");
        Ledger {
            sync_seconds: room.many(
                duration,
                ["core"],
                "sync_seconds",
                "How long it took to make a batch of records durable, including its fsync",
            ),
            snapshot_seconds: room.many(
                duration,
                ["core"],
                "snapshot_seconds",
                "How long it took to write what had changed to the snapshot in the ledger",
            ),
            batch_records: room.many(
                count,
                ["core"],
                "batch_records",
                "Records that one fsync made durable",
            ),
            records: room.counters(
                ["core"],
                "records",
                "Records in the ledger, including replayed ones",
            ),
            size: room.gauges(
                ["core"],
                "size_bytes",
                "Size of the ledger's file and its write-ahead log",
            ),
            has_room: room.gauges(
                ["core"],
                "room",
                "1 when the disk has space for new holds; 0 when it is nearly full and only the \
                 ends of transactions are written",
            ),
            room_bytes: room.gauges(
                ["core"],
                "room_bytes",
                "Disk space that the ledger reserves for commits, aborts and releases",
            ),
            leads: room.gauges(
                ["kind"],
                "leads",
                "1 when this process leads those that share its ledger, or shares it with nobody; 0 when it stands by",
            ),
            inbox: room.gauges(
                ["core"],
                "inbox_waiting",
                "Commands that wait for the owner of the core; when 4096 wait, further calls are \
                 answered with busy",
            ),
            refused: room.counters(
                ["core"],
                "inbox_refused",
                "Commands that were refused because too many waited",
            ),
            room,
        }
    })
}

/// Metrics of resource managers.
#[derive(Debug)]
pub struct Rm {
    room: MetricGroup,
    /// Holds made (D2).
    pub holds: Counter,
    /// Holds refused, by reason.
    pub refusals: LabelledMetric<Counter, 1>,
    /// Bookings made (D4).
    pub bookings: Counter,
    /// Ends of holds and bookings (D5), by kind of end.
    pub ended: LabelledMetric<Counter, 1>,
    /// Transactions that were forgotten.
    pub forgotten: Counter,
    /// Transactions that are remembered.
    pub transactions: Gauge,
    /// Holds that are neither committed nor ended.
    pub live_holds: Gauge,
    /// Age of the oldest of these holds, in seconds.
    pub oldest_hold: Seconds,
    /// Questions to coordinators about a hold (Resolve), by answer.
    pub resolves: LabelledMetric<Counter, 1>,
    /// What a driver was told to do, by action and outcome.
    pub equipment: LabelledMetric<Counter, 2>,
    /// What is not as it should be at the equipment, by kind.
    pub equipment_problems: LabelledMetric<Gauge, 1>,
    /// Open streams of profile updates.
    pub subscribers: Gauge,
    /// Profile updates sent, by kind.
    pub updates: LabelledMetric<Counter, 1>,
    /// Bytes of the updates sent.
    pub update_bytes: Counter,
    /// Steps of profiles in the updates sent.
    pub update_steps: Counter,
    /// Capacity of each resource, in CPUs or bit/s.
    pub capacity: LabelledMetric<Gauge, 2>,
    /// What is booked of each resource now, in CPUs or bit/s.
    pub booked: LabelledMetric<Gauge, 2>,
    /// What is held of each resource now, in CPUs or bit/s.
    pub held: LabelledMetric<Gauge, 2>,
}

/// The metrics of resource managers.
pub fn rm() -> &'static Rm {
    RM.get_or_init(|| {
        let mut room = MetricGroup::new("rm");
        Rm {
            holds: room.counter("holds", "Holds made: phase one was answered with yes"),
            refusals: room
                .counters(["reason"], "refusals", "Holds refused, by reason")
                .show([[Reason::InsufficientCapacity.word()]]),
            bookings: room.counter("bookings", "Bookings made: holds that were committed"),
            ended: room
                .counters(
                    ["ending"],
                    "ended",
                    "Transactions that ended: holds aborted or expired, bookings released",
                )
                .show([["aborted"], ["expired"], ["released"]]),
            forgotten: room
                .counter("forgotten", "Transactions forgotten: refused or ended for good"),
            transactions: room.gauge("transactions", "Transactions that are remembered"),
            live_holds: room.gauge("live_holds", "Holds that are neither committed nor ended"),
            oldest_hold: room.one(
                Seconds::default(),
                "oldest_hold_seconds",
                "Age of the oldest hold; when it is beyond the soft expiry, its coordinator does \
                 not answer",
            ),
            resolves: room
                .counters(
                    ["answer"],
                    "resolves",
                    "Questions to coordinators about the outcome of a hold, by answer",
                )
                .show([["commit"], ["abort"], ["not_mine"], ["lost"]]),
            equipment: room
                .counters(
                    ["action", "outcome"],
                    "equipment_calls",
                    "Calls of the driver, by action (observe, make, remove) and outcome (done, \
                     refused, lost, down)",
                )
                .show([["observe", "done"]]),
            equipment_problems: room
                .gauges(
                    ["problem"],
                    "equipment_problems",
                    "What was wrong at the equipment at the last look: drift, orphans, \
                     intruders, down",
                )
                .show([["drift"], ["orphans"], ["intruders"], ["down"]]),
            subscribers: room.gauge("subscribers", "Streams of profile updates that are open"),
            updates: room
                .counters(
                    ["kind"],
                    "updates",
                    "Profile updates sent: pieces of snapshots and of deltas, facts with answers \
                     to Hold, signs of life",
                )
                .show([["snapshot"], ["delta"], ["facts"], ["alive"]]),
            update_bytes: room.counter("update_bytes", "Bytes of encoded profile updates"),
            update_steps: room.counter("update_steps", "Steps of profiles in updates"),
            capacity: room.gauges(
                ["resource", "unit"],
                "resource_capacity",
                "Capacity of a resource, in CPUs or bit/s",
            ),
            booked: room.gauges(
                ["resource", "unit"],
                "resource_booked",
                "Amount of a resource booked at this moment, in CPUs or bit/s",
            ),
            held: room.gauges(
                ["resource", "unit"],
                "resource_held",
                "Amount of a resource held at this moment, in CPUs or bit/s",
            ),
            room,
        }
    })
}

static RM: OnceLock<Rm> = OnceLock::new();

/// A duration in seconds.
#[must_use]
pub fn seconds(since: Duration) -> f64 {
    since.as_secs_f64()
}

/// Adds one to a gauge while it lives.
#[derive(Debug)]
pub struct GaugeGuard(Gauge);

impl GaugeGuard {
    /// Adds one to `gauge` for as long as the returned value lives.
    #[must_use]
    pub fn new(gauge: &Gauge) -> Self {
        gauge.inc();
        Self(gauge.clone())
    }
}

impl Drop for GaugeGuard {
    fn drop(&mut self) {
        self.0.dec();
    }
}

/// All metrics of the groups that run in this process, in OpenMetrics text.
///
/// # Errors
/// When formatting fails; writing to a string does not fail.
pub fn text() -> Result<String, fmt::Error> {
    use prometheus_client::encoding::text::{encode_eof, encode_registry};
    let mut text = String::new();
    let rooms = [
        Some(&net().room),
        Some(&ledger().room),
        RM.get().map(|rm| &rm.room),
        coordinator::GRC.get().map(|grc| &grc.room),
        tasks::TASKS.get().map(|tasks| &tasks.room),
    ];
    for room in rooms.into_iter().flatten() {
        encode_registry(&mut text, &room.registry)?;
    }
    encode_eof(&mut text)?;
    Ok(text)
}
