//! OpenTelemetry traces: one trace for each request, across the coordinator and its resource managers.
//!
//! ```text
//! coalloc.v1.Coordinator/Reserve                  server, GRC
//!   admission
//!   coalloc.v1.ResourceManager/QueryAvailability  client, one for each RM
//!     coalloc.v1.ResourceManager/QueryAvailability   server, RM
//!   planning
//!     frame                                       one for each frame
//!   ledger sync                                   one for each record: opened, intent, decided, finished
//!   coalloc.v1.ResourceManager/Hold               client, one for each RM; the same for Commit
//!     coalloc.v1.ResourceManager/Hold             server, RM
//!       inbox, step, sync
//! ```
//!
//! The trace of a task (PlanTask, SubmitTask) has the span `picture` in place of the queries: the wait for
//! the profiles that the task is planned on. In mode central this asks every RM, but several tasks share one
//! query, so the query has no span of its own.
//!
//! The context travels as W3C `traceparent` in the metadata of calls, and inside a process as the context of
//! the running task. A core knows nothing of traces: what a coordinator's ledger and messages do for a
//! request is added to its trace through a bounded map of requests in progress ([`follow`]).
//!
//! Spans go to a bounded queue, and a thread of their own sends them to the collector. If the collector is
//! down or slow, spans are lost and counted; nothing else happens. Without `traces_endpoint` there are no
//! spans at all. Every request is traced unless its caller says in `traceparent` that it is not. A call that
//! is not a user's request (Describe, a listing) is traced only if its caller traces it.
//!
//! Left out: TLS to the collector; a sampling rate of our own; baggage.

mod export;

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::future::Future;
use std::sync::{Mutex, OnceLock, PoisonError};
use std::time::{Instant, SystemTime};

use coalloc_common::{RequestId, ReservationId, TransactionId, limits};
use opentelemetry::propagation::{Extractor, Injector, TextMapPropagator};
pub use opentelemetry::trace::SpanKind;
use opentelemetry::trace::{FutureExt, SpanBuilder, Status as SpanStatus, TraceContextExt, Tracer};
use opentelemetry::{Context, KeyValue};
use opentelemetry_sdk::propagation::TraceContextPropagator;
use opentelemetry_sdk::trace::SdkTracer;
use tonic::Code;
use tonic::metadata::{MetadataKey, MetadataMap, MetadataValue};

pub use self::export::{Collector, start};

static TRACER: OnceLock<SdkTracer> = OnceLock::new();

/// Requests of users. A call of one of these begins a trace when its caller has none.
const REQUESTS: [&str; 9] = [
    "coalloc.v1.Coordinator/Plan",
    "coalloc.v1.Coordinator/Reserve",
    "coalloc.v1.Coordinator/Modify",
    "coalloc.v1.Coordinator/Provision",
    "coalloc.v1.Coordinator/Deprovision",
    "coalloc.v1.Coordinator/Release",
    "coalloc.v1.Coordinator/ReleaseRest",
    "coalloc.v1.Coordinator/PlanTask",
    "coalloc.v1.Coordinator/SubmitTask",
];

/// A span that ends when it is dropped. Empty when the running task is not traced.
#[derive(Debug, Clone, Default)]
pub struct Span(Option<Context>);

impl Span {
    /// The span of the running task.
    #[must_use]
    pub fn current() -> Self {
        if TRACER.get().is_none() {
            return Self(None);
        }
        Self(Some(Context::current()).filter(Context::has_active_span))
    }

    /// A child span that begins now.
    #[must_use]
    pub fn child(&self, name: impl Into<Cow<'static, str>>, kind: SpanKind) -> Self {
        let Self(Some(parent)) = self else { return Self(None) };
        begin(name, kind, parent)
    }

    /// A child span that is over already.
    pub fn past(&self, name: &'static str, from: Instant, until: Instant, facts: SpanAttributes) {
        let (Self(Some(parent)), Some(tracer)) = (self, TRACER.get()) else { return };
        let builder = SpanBuilder::from_name(name)
            .with_kind(SpanKind::Internal)
            .with_start_time(wall(from))
            .with_attributes(facts);
        let mut span = tracer.build_with_context(builder, parent);
        opentelemetry::trace::Span::end_with_timestamp(&mut span, wall(until));
    }

    /// Sets an attribute of the span.
    pub fn set(&self, key: &'static str, value: impl ToString) {
        if let Self(Some(context)) = self {
            context.span().set_attribute(KeyValue::new(key, value.to_string()));
        }
    }

    /// Sets the status with which the call ended.
    pub fn status(&self, code: Code) {
        let Self(Some(context)) = self else { return };
        let span = context.span();
        span.set_attribute(KeyValue::new("rpc.grpc.status_code", code as i64));
        if code != Code::Ok {
            span.set_status(SpanStatus::error(code.description()));
        }
    }

    /// Runs a future within this span.
    pub fn carry<F: Future>(&self, future: F) -> impl Future<Output = F::Output> + use<F> {
        // If this is empty, the context of the running task stays as it is.
        future.with_context(self.0.clone().unwrap_or_else(Context::current))
    }

    /// Writes the span into the metadata of a call.
    pub fn inject(&self, metadata: &mut MetadataMap) {
        if let Self(Some(context)) = self {
            TraceContextPropagator::new().inject_context(context, &mut Metadata(metadata));
        }
    }

    /// Whether there is a span.
    #[must_use]
    pub const fn is_on(&self) -> bool {
        self.0.is_some()
    }
}

/// The attributes of a span: keys and values.
pub type SpanAttributes = Vec<KeyValue>;

/// One attribute.
#[must_use]
pub fn fact(key: &'static str, value: impl ToString) -> KeyValue {
    KeyValue::new(key, value.to_string())
}

fn begin(name: impl Into<Cow<'static, str>>, kind: SpanKind, parent: &Context) -> Span {
    let Some(tracer) = TRACER.get() else { return Span(None) };
    let span = tracer.build_with_context(SpanBuilder::from_name(name).with_kind(kind), parent);
    Span(Some(parent.with_span(span)))
}

/// The time of the wall clock at a moment of this process.
fn wall(at: Instant) -> SystemTime {
    let now = SystemTime::now();
    now.checked_sub(at.elapsed()).unwrap_or(now)
}

/// A span that begins a new trace; empty when no traces are collected.
#[must_use]
pub fn root(name: &'static str) -> Span {
    begin(name, SpanKind::Internal, &Context::new())
}

/// A child of the running task's span, for work inside this process; it begins now.
#[must_use]
pub fn part(name: &'static str) -> Span {
    Span::current().child(name, SpanKind::Internal)
}

/// A child of `parent` for a call to another daemon. It is also written into the call's metadata.
#[must_use]
pub fn call(parent: &Span, method: &'static str, metadata: &mut MetadataMap) -> Span {
    let span = parent.child(method, SpanKind::Client);
    span.inject(metadata);
    span
}

/// The span of a call that has just been received.
pub(crate) fn server(path: &str, headers: &http::HeaderMap) -> Span {
    if TRACER.get().is_none() {
        return Span(None);
    }
    let parent =
        TraceContextPropagator::new().extract_with_context(&Context::new(), &Headers(headers));
    let name = path.trim_start_matches('/');
    if !parent.span().span_context().is_valid() && !REQUESTS.contains(&name) {
        return Span(None);
    }
    let span = begin(name.to_owned(), SpanKind::Server, &parent);
    span.set("rpc.system", "grpc");
    if let Some((service, method)) = name.split_once('/') {
        span.set("rpc.service", service);
        span.set("rpc.method", method);
    }
    span
}

/// When something in this process began and ended.
pub type SpanTimes = (Instant, Instant);

/// The requests in progress that are traced, and the reservations that they became.
#[derive(Default)]
struct TracedRequests {
    requests: BTreeMap<RequestId, (Span, Option<ReservationId>)>,
    reservations: BTreeMap<ReservationId, Span>,
}

static FOLLOWED: Mutex<Option<TracedRequests>> = Mutex::new(None);

fn followed<T>(look: impl FnOnce(&mut TracedRequests) -> T) -> T {
    let mut followed = FOLLOWED.lock().unwrap_or_else(PoisonError::into_inner);
    look(followed.get_or_insert_with(TracedRequests::default))
}

/// Stops following a request when it is dropped.
#[derive(Debug)]
#[must_use = "dropped, it ends"]
pub struct TraceGuard(Option<RequestId>);

impl Drop for TraceGuard {
    fn drop(&mut self) {
        if let Some(request) = &self.0 {
            followed(|followed| {
                if let Some((_, Some(reservation))) = followed.requests.remove(request) {
                    followed.reservations.remove(&reservation);
                }
            });
        }
    }
}

/// From now on, whatever the coordinator does for this request is added to the running task's span, until the
/// returned guard is dropped. At most [`limits::TRACED_MAX`] requests are followed at a time; others are not.
pub fn follow(request: &RequestId) -> TraceGuard {
    follow_as(request, None)
}

/// As [`follow`], for a reservation that exists already.
pub fn follow_reservation(reservation: &ReservationId) -> TraceGuard {
    // No client's id looks like a reservation's: admission refuses ids that begin like one.
    follow_as(&RequestId::composed(reservation.to_string()), Some(reservation))
}

fn follow_as(request: &RequestId, reservation: Option<&ReservationId>) -> TraceGuard {
    let span = Span::current();
    if !span.is_on() {
        return TraceGuard(None);
    }
    followed(|followed| {
        let full = followed.requests.len() >= limits::TRACED_MAX;
        // A second call for the same request waits for the first, so the work is in the first call's trace.
        if full || followed.requests.contains_key(request) {
            return TraceGuard(None);
        }
        if let Some(reservation) = reservation {
            followed.reservations.insert(reservation.clone(), span.clone());
        }
        followed.requests.insert(request.clone(), (span, reservation.cloned()));
        TraceGuard(Some(request.clone()))
    })
}

/// Notes that a request has become a reservation.
pub(crate) fn opened(request: &RequestId, reservation: &ReservationId) {
    if TRACER.get().is_none() {
        return;
    }
    followed(|followed| {
        let Some((span, known)) = followed.requests.get_mut(request) else { return };
        span.set("coalloc.reservation", reservation);
        *known = Some(reservation.clone());
        followed.reservations.insert(reservation.clone(), span.clone());
    });
}

/// The span of the request that this transaction is an attempt for.
#[must_use]
pub fn of_transaction(txn: &TransactionId) -> Span {
    if TRACER.get().is_none() {
        return Span(None);
    }
    // A transaction's id is its reservation's id, a slash and a number.
    let reservation = txn.as_str().rsplit_once('/').map_or(txn.as_str(), |(id, _)| id);
    of_reservation(&ReservationId::composed(reservation.to_owned()))
}

fn of_reservation(reservation: &ReservationId) -> Span {
    followed(|followed| followed.reservations.get(reservation).cloned().unwrap_or_default())
}

/// Adds a span for the fsync of a reservation's record.
pub(crate) fn synced(
    reservation: &ReservationId,
    record: &'static str,
    txn: Option<&TransactionId>,
    past: &SpanTimes,
) {
    if is_on() {
        let facts = [Some(fact("coalloc.record", record)), txn.map(transaction)];
        let facts = facts.into_iter().flatten().collect();
        of_reservation(reservation).past("ledger sync", past.0, past.1, facts);
    }
}

/// As [`synced`], for a record about a transaction.
pub(crate) fn synced_of(txn: &TransactionId, record: &'static str, past: &SpanTimes) {
    if is_on() {
        let facts = vec![fact("coalloc.record", record), transaction(txn)];
        of_transaction(txn).past("ledger sync", past.0, past.1, facts);
    }
}

fn transaction(txn: &TransactionId) -> KeyValue {
    fact("coalloc.transaction", txn)
}

/// Whether traces are collected.
#[must_use]
pub fn is_on() -> bool {
    TRACER.get().is_some()
}

struct Headers<'a>(&'a http::HeaderMap);

impl Extractor for Headers<'_> {
    fn get(&self, key: &str) -> Option<&str> {
        self.0.get(key)?.to_str().ok()
    }

    fn keys(&self) -> Vec<&str> {
        self.0.keys().map(http::HeaderName::as_str).collect()
    }
}

struct Metadata<'a>(&'a mut MetadataMap);

impl Injector for Metadata<'_> {
    fn set(&mut self, key: &str, value: String) {
        // The propagator's keys and values are plain ASCII.
        if let (Ok(key), Ok(value)) =
            (MetadataKey::from_bytes(key.as_bytes()), MetadataValue::try_from(value))
        {
            self.0.insert(key, value);
        }
    }
}
