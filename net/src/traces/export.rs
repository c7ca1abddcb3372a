//! The way out: a bounded queue in front of OpenTelemetry's own thread and OTLP exporter, so that what
//! is dropped is known, counted, and logged once.

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

/// The way to a collector. It is one for the process.
#[derive(Debug)]
pub struct Collector {
    provider: SdkTracerProvider,
}

/// Begins to trace. Needs a tokio runtime around it; the connection is made when it is first used.
///
/// # Errors
/// When the exporter cannot be made of the endpoint.
pub fn start(endpoint: &str, kind: &str, name: &str) -> Result<Collector, ExporterBuildError> {
    let exporter = Otlp::builder()
        .with_tonic()
        .with_endpoint(endpoint)
        .with_timeout(limits::COLLECTOR_PATIENCE.to_std())
        .build()?;
    let queue = Arc::new(Queue::new(endpoint));
    let batches = BatchConfigBuilder::default()
        // Ours is full first.
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
    // A second start in one process keeps the first tracer: a daemon starts once.
    let _ = TRACER.set(provider.tracer("coalloc"));
    Ok(Collector { provider })
}

impl Collector {
    /// Sends what waits, for [`limits::COLLECTOR_PATIENCE`] at most. Waits: not for async threads.
    pub fn stop(&self) {
        if let Err(error) = self.provider.shutdown_with_timeout(limits::COLLECTOR_PATIENCE.to_std())
        {
            tracing::warn!(%error, "the last spans did not reach the collector in time");
        }
    }
}

/// What waits for the collector, and what became of it.
#[derive(Debug)]
struct Queue {
    endpoint: String,
    waiting: AtomicUsize,
    exported: Counter,
    dropped: Counter,
    failed: Counter,
    /// Each trouble is said once, until the collector answers again.
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

    /// Room for one more?
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
                    tracing::info!(collector = %self.endpoint, "spans are taken again");
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
        // What its caller does not want traced is not exported, and must not be counted.
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

/// Counts what the exporter came to.
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
