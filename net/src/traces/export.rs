//! Sends spans to the collector. A bounded queue of our own is in front of OpenTelemetry's thread and OTLP
//! exporter, so that spans that are dropped are known, counted, and logged once.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use coalloc_common::limits;
use opentelemetry::trace::TracerProvider;
use opentelemetry::{Context, KeyValue};
use opentelemetry_otlp::{ExporterBuildError, SpanExporter as Otlp, WithExportConfig};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::error::OTelSdkResult;
use opentelemetry_sdk::trace::{
    BatchConfigBuilder, BatchSpanProcessor, Sampler, SdkTracerProvider, Span, SpanData,
    SpanExporter, SpanProcessor,
};
use prometheus_client::metrics::counter::Counter;

use super::TRACER;
use crate::metrics;

/// The connection to a collector. There is one for the whole process.
#[derive(Debug)]
pub struct Collector {
    provider: SdkTracerProvider,
}

/// Begins to collect traces. Must be called within a tokio runtime. The connection is made when it is first
/// used.
///
/// # Errors
/// When no exporter can be made for the endpoint.
pub fn start(endpoint: &str, kind: &str, name: &str) -> Result<Collector, ExporterBuildError> {
    let exporter = Otlp::builder()
        .with_tonic()
        .with_endpoint(endpoint)
        .with_timeout(limits::COLLECTOR_PATIENCE.to_std())
        .build()?;
    let queue = Arc::new(Queue::new(endpoint));
    let batches = BatchConfigBuilder::default()
        // Twice the bound of our own queue, so that ours is full first.
        .with_max_queue_size(limits::SPANS_MAX * 2)
        .with_max_export_batch_size(limits::SPANS_BATCH_MAX)
        .with_scheduled_delay(limits::SPANS_PAUSE.to_std())
        .build();
    let counting = CountingExporter { queue: Arc::clone(&queue), exporter };
    let processor = BatchSpanProcessor::builder(counting).with_batch_config(batches).build();
    let resource = Resource::builder_empty().with_service_name(format!("coalloc-{kind}"));
    let provider = SdkTracerProvider::builder()
        .with_span_processor(Gate { queue, processor })
        .with_sampler(Sampler::ParentBased(Box::new(Sampler::AlwaysOn)))
        .with_resource(
            resource
                .with_attribute(KeyValue::new("service.instance.id", name.to_owned()))
                .with_attribute(KeyValue::new("service.version", env!("CARGO_PKG_VERSION")))
                .build(),
        )
        .build();
    // A second start in one process keeps the first tracer. A daemon starts only once.
    let _ = TRACER.set(provider.tracer("coalloc"));
    Ok(Collector { provider })
}

impl Collector {
    /// Sends the spans that wait, for at most [`limits::COLLECTOR_PATIENCE`]. Blocks, so it must not run on
    /// the runtime's threads.
    pub fn stop(&self) {
        if let Err(error) = self.provider.shutdown_with_timeout(limits::COLLECTOR_PATIENCE.to_std())
        {
            tracing::warn!(%error, "the last spans did not reach the collector in time");
        }
    }
}

/// The number of spans that wait for the collector, and counters of what happened to the others.
#[derive(Debug)]
struct Queue {
    endpoint: String,
    waiting: AtomicUsize,
    exported: Counter,
    dropped: Counter,
    failed: Counter,
    /// A problem was logged. It is not logged again until the collector has answered.
    complained: AtomicBool,
}

impl Queue {
    fn new(endpoint: &str) -> Self {
        let spans = &metrics::net().spans;
        Self {
            endpoint: endpoint.to_owned(),
            waiting: AtomicUsize::new(0),
            exported: spans.with(["exported"]),
            dropped: spans.with(["dropped"]),
            failed: spans.with(["failed"]),
            complained: AtomicBool::new(false),
        }
    }

    fn complain(&self, problem: &str) {
        if !self.complained.swap(true, Ordering::Relaxed) {
            let collector = &self.endpoint;
            tracing::warn!(%collector, problem, "spans are lost; nothing else is affected");
        }
    }

    /// Takes a place in the queue; false when it is full.
    fn enter(&self) -> bool {
        if self.waiting.fetch_add(1, Ordering::Relaxed) < limits::SPANS_MAX {
            return true;
        }
        self.waiting.fetch_sub(1, Ordering::Relaxed);
        self.dropped.inc();
        self.complain("the queue of spans is full");
        false
    }

    fn left(&self, count: usize, result: &OTelSdkResult) {
        self.waiting.fetch_sub(count, Ordering::Relaxed);
        let spans = u64::try_from(count).unwrap_or(u64::MAX);
        match result {
            Ok(()) => {
                self.exported.inc_by(spans);
                if self.complained.swap(false, Ordering::Relaxed) {
                    tracing::info!(collector = %self.endpoint, "spans are accepted again");
                }
            }
            Err(error) => {
                self.failed.inc_by(spans);
                self.complain(&error.to_string());
            }
        }
    }
}

/// Keeps the queue within its bound.
#[derive(Debug)]
struct Gate {
    queue: Arc<Queue>,
    processor: BatchSpanProcessor,
}

impl SpanProcessor for Gate {
    fn on_start(&self, span: &mut Span, context: &Context) {
        self.processor.on_start(span, context);
    }

    fn on_end(&self, span: SpanData) {
        // Spans that the caller does not want traced are not exported, so they must not be counted.
        if span.span_context.is_sampled() && self.queue.enter() {
            self.processor.on_end(span);
        }
    }

    fn force_flush(&self) -> OTelSdkResult {
        self.processor.force_flush()
    }

    fn shutdown_with_timeout(&self, timeout: Duration) -> OTelSdkResult {
        self.processor.shutdown_with_timeout(timeout)
    }

    fn set_resource(&mut self, resource: &Resource) {
        self.processor.set_resource(resource);
    }
}

/// Counts what the exporter exported and what failed.
#[derive(Debug)]
struct CountingExporter {
    queue: Arc<Queue>,
    exporter: Otlp,
}

impl SpanExporter for CountingExporter {
    async fn export(&self, batch: Vec<SpanData>) -> OTelSdkResult {
        let count = batch.len();
        let result = self.exporter.export(batch).await;
        self.queue.left(count, &result);
        result
    }

    fn shutdown_with_timeout(&self, timeout: Duration) -> OTelSdkResult {
        self.exporter.shutdown_with_timeout(timeout)
    }

    fn set_resource(&mut self, resource: &Resource) {
        self.exporter.set_resource(resource);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_queue_drops_and_counts_and_a_place_is_given_back() {
        let queue = Queue::new("http://nowhere:1");
        for _ in 0..limits::SPANS_MAX {
            assert!(queue.enter());
        }
        let before = queue.dropped.get();
        assert!(!queue.enter() && !queue.enter());
        assert_eq!(queue.dropped.get() - before, 2);
        assert!(queue.complained.load(Ordering::Relaxed));
        queue.left(1, &Ok(()));
        assert!(queue.enter() && !queue.enter());
        assert!(queue.complained.load(Ordering::Relaxed), "it complains anew after an answer");
    }
}
