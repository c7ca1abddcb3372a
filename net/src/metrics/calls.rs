//! Counts and times every call of a gRPC server, and makes it a span of its caller's trace.

use std::collections::BTreeMap;
use std::pin::Pin;
use std::sync::{Arc, OnceLock, PoisonError, RwLock};
use std::task::{Context, Poll};
use std::time::Instant;

use coalloc_common::limits;
use http::{Request, Response};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::histogram::Histogram;
use tonic::{Code, Status};
use tower_layer::Layer;
use tower_service::Service;

use super::{GaugeGuard, net};
use crate::traces;

/// Puts [`Calls`] around a server's routes.
#[derive(Debug, Clone, Copy, Default)]
pub struct CallsLayer;

impl<S> Layer<S> for CallsLayer {
    type Service = Calls<S>;

    fn layer(&self, inner: S) -> Calls<S> {
        Calls { inner }
    }
}

/// A service around another one, which counts and times its calls.
#[derive(Debug, Clone)]
pub struct Calls<S> {
    inner: S,
}

impl<S, B, R> Service<Request<B>> for Calls<S>
where
    S: Service<Request<B>, Response = Response<R>>,
    S::Future: Send + 'static,
{
    type Response = S::Response;
    type Error = S::Error;
    type Future = Pin<Box<dyn Future<Output = Result<S::Response, S::Error>> + Send>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        let span = traces::server(request.uri().path(), request.headers());
        let call = OpenCall::begin(request.uri().path());
        let answer = self.inner.call(request);
        Box::pin(async move {
            let answer = span.carry(answer).await;
            // A unary error is an answer of headers only. Of a stream, only the start is counted.
            let code = match &answer {
                Ok(answer) => {
                    Status::from_header_map(answer.headers()).map_or(Code::Ok, |s| s.code())
                }
                Err(_) => Code::Unknown,
            };
            call.end(code);
            span.status(code);
            answer
        })
    }
}

/// The counters of one method. They are looked up once for each call.
struct Method {
    name: String,
    seconds: Histogram,
    /// One counter for each status code, made when the first call ends with that code.
    codes: [OnceLock<Counter>; CODES],
}

/// Status codes of gRPC: 0 to 16.
const CODES: usize = 17;

impl Method {
    fn new(name: &str) -> Self {
        let codes = std::array::from_fn(|_| OnceLock::new());
        Self { name: name.to_owned(), seconds: net().call_seconds.with([name]), codes }
    }

    fn counter(&self, code: Code) -> &Counter {
        let slot = usize::try_from(code as i32).unwrap_or_default().min(CODES - 1);
        self.codes[slot].get_or_init(|| net().calls.with([&self.name, &format!("{code:?}")]))
    }
}

/// The method that a path names. Only a limited number of names is kept apart, because anybody can call any
/// name.
fn method(path: &str) -> Arc<Method> {
    static METHODS: RwLock<BTreeMap<String, Arc<Method>>> = RwLock::new(BTreeMap::new());
    let name = path.trim_start_matches('/');
    let known = METHODS.read().unwrap_or_else(PoisonError::into_inner).get(name).cloned();
    if let Some(known) = known {
        return known;
    }
    let ours =
        ["coalloc.v1.", "grpc.health.v1.", "grpc.reflection.v1.", "grpc.reflection.v1alpha."];
    let mut methods = METHODS.write().unwrap_or_else(PoisonError::into_inner);
    let full = methods.len() >= limits::METHODS_COUNTED_MAX;
    let name = if full || !ours.iter().any(|ours| name.starts_with(ours)) { "other" } else { name };
    Arc::clone(methods.entry(name.to_owned()).or_insert_with(|| Arc::new(Method::new(name))))
}

/// A call in progress. If it is dropped before it has ended, its caller has gone away, or it timed out.
struct OpenCall {
    method: Arc<Method>,
    begun: Instant,
    ended: bool,
    _counted: GaugeGuard,
}

impl OpenCall {
    fn begin(path: &str) -> Self {
        let counted = GaugeGuard::new(&net().calls_in_flight);
        Self { method: method(path), begun: Instant::now(), ended: false, _counted: counted }
    }

    fn end(mut self, code: Code) {
        self.ended = true;
        self.count(code);
    }

    fn count(&self, code: Code) {
        self.method.counter(code).inc();
        self.method.seconds.observe(self.begun.elapsed().as_secs_f64());
    }
}

impl Drop for OpenCall {
    fn drop(&mut self) {
        if !self.ended {
            self.count(Code::Cancelled);
        }
    }
}
