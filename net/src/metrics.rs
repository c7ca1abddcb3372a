//! Every metric of Coalloc: its name, its help, its labels. No name of a metric stands anywhere else
//! in the code.
//!
//! A name is `coalloc_<room>_<what>_<unit>`, in base units, after the conventions of Prometheus; the
//! text format adds `_total` to counters. Labels are bounded: reasons, kinds, methods, and the names of
//! resource managers and of resources of the inventory; never a user, a request or a transaction.
//!
//! The cores know nothing of this. What they decide is counted where their records become durable
//! ([`records`]), replayed ones as well: these counters are the fold of the ledger, and go on across
//! restarts. The rest is counted in the shells, and what is a state is read when somebody scrapes
//! ([`scrape`] serves, [`calls`] counts the calls of a server).
//!
//! A counter is one atomic add; a histogram takes a lock that nobody holds for longer than an add. Each
//! room's metrics appear once something of that room runs in the process.
//!
//! Left out: pushing to a gateway; metrics of the process itself (an exporter of the machine has
//! those). Why so: docs/adr/0011-telemetry.md.

pub mod calls;
pub mod records;
pub mod scrape;
mod tasks;

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

/// One metric with labels; `N` of them.
pub struct LabelledMetric<M: Metric, const N: usize> {
    names: [&'static str; N],
    family: Family<[Label; N], M, MemberFactory<M>>,
}

impl<M: Metric + Clone, const N: usize> LabelledMetric<M, N> {
    /// The metric of these values of the labels, in the order in which they are declared.
    pub fn with(&self, values: [&str; N]) -> M {
        let mut names = self.names.iter();
        let labels = values
            .map(|value| (names.next().copied().unwrap_or_default(), Cow::Owned(value.to_owned())));
        self.family.get_or_create_owned(&labels)
    }

    /// Shows these values from the start, so that a first event is seen as a step from zero.
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

/// How a family makes a new member.
#[derive(Clone)]
struct MemberFactory<M>(fn() -> M);

impl<M> MetricConstructor<M> for MemberFactory<M> {
    fn new_metric(&self) -> M {
        (self.0)()
    }
}

/// Bounds of all durations: 50 us, an fsync of a fast disk is above it, to 26 s, doubling.
fn duration() -> Histogram {
    Histogram::new((0..20).map(|n| 50e-6 * f64::from(1_u32 << n)))
}

/// Bounds of all counts: 0, 1, 2, 4, and so on to 256, the most inputs of one fsync and the most
/// frames of one request.
fn count() -> Histogram {
    Histogram::new(std::iter::once(0.0).chain((0..9).map(|n| f64::from(1_u32 << n))))
}

/// One room's registry, while its metrics are declared.
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

/// What every daemon has: calls and spans.
#[derive(Debug)]
pub struct Net {
    room: MetricGroup,
    /// 1, with what it is.
    pub daemon: LabelledMetric<Gauge, 3>,
    /// Calls answered.
    pub calls: LabelledMetric<Counter, 2>,
    /// How long answers took.
    pub call_seconds: LabelledMetric<Histogram, 1>,
    /// Calls that have no answer yet.
    pub calls_in_flight: Gauge,
    /// Connections by what they are.
    pub connections: LabelledMetric<Gauge, 1>,
    /// Connections that the server closed, by why.
    pub connections_closed: LabelledMetric<Counter, 1>,
    /// Spans by what became of them.
    pub spans: LabelledMetric<Counter, 1>,
    /// Scrapes answered.
    pub scrapes: Counter,
}

/// Metrics of servers and traces.
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
                    "Connections: silent (no HTTP/2 yet), live, leaving (told to, for another), or being cut",
                )
                .show([["silent"], ["live"], ["leaving"], ["cut"]]),
            connections_closed: room
                .counters(
                    ["cause"],
                    "connections_closed",
                    "Connections closed by this daemon: silent for 5 s, foreign (not HTTP/2), crowded out by \
                     silent ones, idle when another needed the place, or refused because all have calls at work",
                )
                .show([["silent"], ["foreign"], ["crowded"], ["idle"], ["refused"]]),
            spans: room.counters(
                ["outcome"],
                "spans",
                "Spans of traces: exported, dropped because the queue was full, or failed at the collector",
            ),
            scrapes: room.counter("scrapes", "Scrapes of these metrics, this one included"),
            room,
        }
    })
}

/// Ledgers and the owners of the cores behind them.
#[derive(Debug)]
pub struct Ledger {
    room: MetricGroup,
    /// One append: its records durable.
    pub sync_seconds: LabelledMetric<Histogram, 1>,
    /// Records that shared one append.
    pub batch_records: LabelledMetric<Histogram, 1>,
    /// Records in the ledger.
    pub records: LabelledMetric<Counter, 1>,
    /// Size of its files.
    pub size: LabelledMetric<Gauge, 1>,
    /// Is there room for something new?
    pub has_room: LabelledMetric<Gauge, 1>,
    /// What is kept back for ends.
    pub room_bytes: LabelledMetric<Gauge, 1>,
    /// Commands waiting for the owner.
    pub inbox: LabelledMetric<Gauge, 1>,
    /// Commands that the full inbox refused.
    pub refused: LabelledMetric<Counter, 1>,
}

/// Metrics of ledgers.
pub fn ledger() -> &'static Ledger {
    static LEDGER: OnceLock<Ledger> = OnceLock::new();
    LEDGER.get_or_init(|| {
        let mut room = MetricGroup::new("ledger");
        Ledger {
            sync_seconds: room.many(
                duration,
                ["core"],
                "sync_seconds",
                "How long it took to make a batch of records durable, its fsync included",
            ),
            batch_records: room.many(
                count,
                ["core"],
                "batch_records",
                "Records that one fsync made durable",
            ),
            records: room.counters(["core"], "records", "Records in the ledger, replayed ones too"),
            size: room.gauges(
                ["core"],
                "size_bytes",
                "Size of the ledger's file and its write-ahead log",
            ),
            has_room: room.gauges(
                ["core"],
                "room",
                "1 when there is room on the disk for new holds; 0: it is nearly full, and only ends are written",
            ),
            room_bytes: room.gauges(
                ["core"],
                "room_bytes",
                "What the ledger keeps back on the disk for commits, aborts and releases",
            ),
            inbox: room.gauges(
                ["core"],
                "inbox_waiting",
                "Commands that wait for the owner of the core; at 4096 calls are answered busy",
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

/// Resource managers.
#[derive(Debug)]
pub struct Rm {
    room: MetricGroup,
    /// Holds made (D2).
    pub holds: Counter,
    /// Holds refused.
    pub refusals: LabelledMetric<Counter, 1>,
    /// Bookings made (D4).
    pub bookings: Counter,
    /// Ends of holds and bookings (D5).
    pub ended: LabelledMetric<Counter, 1>,
    /// Holds there are.
    pub live_holds: Gauge,
    /// Age of the oldest of them.
    pub oldest_hold: Seconds,
    /// Questions to coordinators.
    pub resolves: LabelledMetric<Counter, 1>,
    /// Who watches profiles.
    pub subscribers: Gauge,
    /// Updates of profiles given to streams.
    pub updates: LabelledMetric<Counter, 1>,
    /// Their bytes.
    pub update_bytes: Counter,
    /// Their steps.
    pub update_steps: Counter,
    /// What there is of a resource.
    pub capacity: LabelledMetric<Gauge, 2>,
    /// What is booked of it now.
    pub booked: LabelledMetric<Gauge, 2>,
    /// What is held of it now.
    pub held: LabelledMetric<Gauge, 2>,
}

/// Metrics of resource managers.
pub fn rm() -> &'static Rm {
    RM.get_or_init(|| {
        let mut room = MetricGroup::new("rm");
        Rm {
            holds: room.counter("holds", "Holds made: phase one, answered yes"),
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
            live_holds: room.gauge("live_holds", "Holds that are neither committed nor ended"),
            oldest_hold: room.one(
                Seconds::default(),
                "oldest_hold_seconds",
                "Age of the oldest hold; beyond the soft expiry its coordinator does not answer",
            ),
            resolves: room
                .counters(
                    ["answer"],
                    "resolves",
                    "Questions to coordinators what became of a hold, by what came of them",
                )
                .show([["commit"], ["abort"], ["not_mine"], ["lost"]]),
            subscribers: room.gauge("subscribers", "Streams of profile updates that are open"),
            updates: room
                .counters(
                    ["kind"],
                    "updates",
                    "Profile updates sent: snapshots and deltas by pieces, facts with answers to Hold, signs of life",
                )
                .show([["snapshot"], ["delta"], ["facts"], ["alive"]]),
            update_bytes: room.counter("update_bytes", "Bytes of profile updates, as they are encoded"),
            update_steps: room.counter("update_steps", "Steps of profiles in updates"),
            capacity: room.gauges(
                ["resource", "unit"],
                "resource_capacity",
                "What there is of a resource, in CPUs or bit/s",
            ),
            booked: room.gauges(
                ["resource", "unit"],
                "resource_booked",
                "What is booked of a resource at this moment, in CPUs or bit/s",
            ),
            held: room.gauges(
                ["resource", "unit"],
                "resource_held",
                "What is held of a resource at this moment, in CPUs or bit/s",
            ),
            room,
        }
    })
}

/// Coordinators.
#[derive(Debug)]
pub struct Grc {
    room: MetricGroup,
    /// Requests that became reservations or refusals.
    pub requests: Counter,
    /// What they came to.
    pub reservations: LabelledMetric<Counter, 1>,
    /// Changes of reservations, by outcome.
    pub changes: LabelledMetric<Counter, 1>,
    /// Why requests failed.
    pub refusals: LabelledMetric<Counter, 1>,
    /// Reservations ended by users.
    pub releases: Counter,
    /// Transactions opened (D1).
    pub attempts: Counter,
    /// Why attempts failed.
    pub attempt_refusals: LabelledMetric<Counter, 1>,
    /// Transactions that not every RM has acknowledged.
    pub unfinished: Gauge,
    /// Messages by what became of them.
    pub messages: LabelledMetric<Counter, 3>,
    /// Messages sent again.
    pub retried: LabelledMetric<Counter, 2>,
    /// How long an answer took.
    pub message_seconds: LabelledMetric<Histogram, 1>,
    /// Availability queries.
    pub queries: LabelledMetric<Counter, 2>,
    /// How long one took.
    pub query_seconds: Histogram,
    /// All planning of one picture.
    pub planning_seconds: Histogram,
    /// Plans found for one request.
    pub plans: Histogram,
    /// Frames planned.
    pub frames: LabelledMetric<Counter, 1>,
    /// Requests being planned, or waiting for it.
    pub plannings: Gauge,
    /// Calls of outside solvers that nobody waits for any more.
    pub libraries_left: Gauge,
    /// Plannings made again because others were faster, or a search that backtracks was refused a choice.
    pub replans: Counter,
    /// Does an RM answer?
    pub reachable: LabelledMetric<Gauge, 1>,
    /// How old what is known of an RM is.
    pub picture_age: LabelledMetric<Seconds, 1>,
    /// Comparisons of bookings with an RM's.
    pub comparisons: LabelledMetric<Counter, 2>,
    /// Bookings that differ.
    pub differences: LabelledMetric<Gauge, 2>,
    /// Ends of which an RM was given up.
    pub given_up: LabelledMetric<Counter, 1>,
    /// What RMs have not acknowledged.
    pub owed: LabelledMetric<Gauge, 2>,
}

/// Metrics of coordinators.
pub fn grc() -> &'static Grc {
    GRC.get_or_init(|| {
        let mut room = MetricGroup::new("grc");
        Grc {
            requests: room.counter("requests", "Requests that were planned to an end"),
            reservations: room.counters(
                ["outcome"],
                "reservations",
                "Requests that ended: confirmed, failed, or mixed (booked in part, then released)",
            ).show([["confirmed"], ["failed"], ["mixed"]]),
            changes: room
                .counters(["outcome"], "changes", "Changes that ended: done, or refused")
                .show([["done"], ["refused"]]),
            refusals: room
                .counters(["reason"], "refusals", "Requests that failed, by reason")
                .show([[Reason::InsufficientCapacity.word()]]),
            releases: room.counter("releases", "Confirmed reservations ended by their users"),
            attempts: room.counter("attempts", "Transactions opened: plans that were tried"),
            attempt_refusals: room.counters(
                ["reason"],
                "attempt_refusals",
                "Transactions aborted, by the reason of the first refusal",
            ).show([[Reason::InsufficientCapacity.word()]]),
            unfinished: room.gauge(
                "transactions_unfinished",
                "Transactions that some resource manager has not acknowledged yet",
            ),
            messages: room.counters(
                ["rm", "kind", "outcome"],
                "messages",
                "Messages to resource managers: answered, lost (sent again), or rejected",
            ),
            retried: room.counters(
                ["rm", "kind"],
                "messages_retried",
                "Messages sent again because nothing was heard of the one before",
            ),
            message_seconds: room.many(
                duration,
                ["kind"],
                "message_seconds",
                "How long a message to a resource manager took, to its answer or its loss",
            ),
            queries: room.counters(
                ["rm", "outcome"],
                "queries",
                "Availability queries to resource managers: answered or failed",
            ),
            query_seconds: room
                .seconds("query_seconds", "How long one availability query to one RM took"),
            planning_seconds: room.seconds(
                "planning_seconds",
                "How long the planning of all frames of one request took, waiting for a thread included",
            ),
            plans: room.one(count(), "plans", "Plans found for one request, one a frame"),
            frames: room
                .counters(["outcome"], "frames", "Frames: planned or refused")
                .show([["planned"], ["refused"]]),
            plannings: room
                .gauge("plannings_in_flight", "Requests that are being planned or wait for it"),
            libraries_left: room.gauge(
                "libraries_left",
                "Outside solvers that did not keep their time and still work, nobody waiting for them",
            ),
            replans: room.counter("replans", "Requests planned again: others were faster, or a search went back"),
            reachable: room
                .gauges(["rm"], "rm_reachable", "1 when the resource manager answers, else 0"),
            picture_age: room.many(
                Seconds::default,
                ["rm"],
                "picture_age_seconds",
                "How long ago the resource manager last told what is free",
            ),
            comparisons: room.counters(
                ["rm", "outcome"],
                "comparisons",
                "Comparisons of bookings with the resource manager's: equal, differ, or failed",
            ),
            differences: room.gauges(
                ["rm", "kind"],
                "differences",
                "Bookings that the resource manager has otherwise than this coordinator counts on, by kind",
            ),
            given_up: room.counters(
                ["rm"],
                "given_up",
                "Ends of transactions of which an operator has given the resource manager up",
            ),
            owed: room.gauges(
                ["rm", "kind"],
                "owed",
                "What the resource manager has not acknowledged: decisions that are waited for, or releases that are not",
            ),
            room,
        }
    })
}

static RM: OnceLock<Rm> = OnceLock::new();
static GRC: OnceLock<Grc> = OnceLock::new();

/// Seconds of a duration.
#[must_use]
pub fn seconds(since: Duration) -> f64 {
    since.as_secs_f64()
}

/// Counts up now and down when it is dropped.
#[derive(Debug)]
pub struct GaugeGuard(Gauge);

impl GaugeGuard {
    /// One more, for as long as this lives.
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

/// All metrics of the rooms that run here, in OpenMetrics text.
///
/// # Errors
/// When formatting fails, which writing to a string does not.
pub fn text() -> Result<String, fmt::Error> {
    use prometheus_client::encoding::text::{encode_eof, encode_registry};
    let mut text = String::new();
    let rooms = [
        Some(&net().room),
        Some(&ledger().room),
        RM.get().map(|rm| &rm.room),
        GRC.get().map(|grc| &grc.room),
        tasks::TASKS.get().map(|tasks| &tasks.room),
    ];
    for room in rooms.into_iter().flatten() {
        encode_registry(&mut text, &room.registry)?;
    }
    encode_eof(&mut text)?;
    Ok(text)
}
