//! What telemetry costs a call, measured where the cost arises: around a service that does nothing, and at
//! the records of one hold. `cargo bench -p coalloc-net --bench telemetry`.

// clippy allows unwrap in test functions only; a bench is test code all through.
#![allow(clippy::unwrap_used)]

use std::convert::Infallible;
use std::future::{Ready, ready};
use std::task::{Context, Poll};
use std::time::Instant;

use coalloc_net::metrics::calls::CallsLayer;
use coalloc_net::metrics::{self};
use coalloc_net::traces::{self, Span};
use divan::Bencher;
use http::{Request, Response};
use tokio::runtime::Runtime;
use tower_layer::Layer;
use tower_service::Service;

fn main() {
    divan::main();
}

/// A service that answers at once.
#[derive(Clone)]
struct Nothing;

impl Service<Request<()>> for Nothing {
    type Response = Response<()>;
    type Error = Infallible;
    type Future = Ready<Result<Response<()>, Infallible>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, _: Request<()>) -> Self::Future {
        ready(Ok(Response::new(())))
    }
}

fn runtime() -> Runtime {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap()
}

fn hold() -> Request<()> {
    Request::builder().uri("/coalloc.v1.ResourceManager/Hold").body(()).unwrap()
}

#[divan::bench]
fn a_call_bare(bencher: Bencher) {
    let runtime = runtime();
    bencher.bench_local(|| runtime.block_on(Nothing.call(hold())));
}

#[divan::bench]
fn a_call_counted(bencher: Bencher) {
    let (runtime, mut service) = (runtime(), CallsLayer.layer(Nothing));
    bencher.bench_local(|| runtime.block_on(service.call(hold())));
}

/// What appending the record of one hold counts: its time, its size, the record, the hold.
#[divan::bench]
fn the_record_of_a_hold(bencher: Bencher) {
    let ledger = metrics::ledger();
    let (seconds, batch) =
        (ledger.sync_seconds.with(["bench"]), ledger.batch_records.with(["bench"]));
    let records = ledger.records.with(["bench"]);
    bencher.bench_local(|| {
        let begun = Instant::now();
        seconds.observe(begun.elapsed().as_secs_f64());
        batch.observe(1.0);
        records.inc();
        metrics::rm().holds.inc();
    });
}

/// What a coordinator counts for one message, with its labels.
#[divan::bench]
fn a_message_counted(bencher: Bencher) {
    bencher.bench_local(|| {
        metrics::grc().messages.with(["crm-A", "hold", "answered"]).inc();
        metrics::grc().message_seconds.with(["hold"]).observe(0.001);
    });
}

/// The spans of a request that is not traced: traces are off.
#[divan::bench]
fn a_spans_of_a_hold_traces_off(bencher: Bencher) {
    bencher.bench_local(spans_of_a_hold);
}

/// The spans of a request that is traced, with a collector that is dead: most spans are made, and then
/// dropped.
#[divan::bench]
fn b_spans_of_a_hold_traces_on(bencher: Bencher) {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let _inside = runtime.enter();
    let collector = traces::start("http://127.0.0.1:1", "bench", "bench").unwrap();
    let root = traces::root("bench");
    bencher.bench_local(|| runtime.block_on(root.carry(async { spans_of_a_hold() })));
    drop(root);
    collector.stop();
}

/// A server span with three child spans that are over already.
fn spans_of_a_hold() {
    let span = Span::current().child("coalloc.v1.ResourceManager/Hold", traces::SpanKind::Server);
    let now = Instant::now();
    for part in ["inbox", "step", "sync"] {
        span.past(part, now, now, Vec::new());
    }
}
