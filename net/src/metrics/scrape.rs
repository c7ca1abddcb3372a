//! Serves the metrics over HTTP: `GET /metrics` at an address of its own. So a scrape never waits behind a
//! call, and only metrics can be reached at that address.

use std::convert::Infallible;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use coalloc_common::limits;
use http::{Method, Request, Response, StatusCode, header};
use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;

/// The type of the text: OpenMetrics, which every Prometheus since 2.5 requests.
const CONTENT_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// Reads a state into its gauges, before a scrape is answered.
pub type Reader = Arc<dyn Fn() -> Pin<Box<dyn Future<Output = ()> + Send>> + Send + Sync>;

/// Makes a [`Reader`] from an async closure.
pub fn reader<F>(read: impl Fn() -> F + Send + Sync + 'static) -> Reader
where
    F: Future<Output = ()> + Send + 'static,
{
    Arc::new(move || Box::pin(read()))
}

/// Answers scrapes for as long as the runtime lives. Each scrape first runs the readers, for a limited time;
/// of a core that is busy, it then shows the values of the scrape before.
pub async fn serve(listener: TcpListener, readers: Vec<Reader>) {
    let places = Arc::new(Semaphore::new(limits::SCRAPES_MAX));
    while let Ok(place) = Arc::clone(&places).acquire_owned().await {
        match listener.accept().await {
            Ok((stream, _)) => {
                let readers = readers.clone();
                tokio::spawn(async move {
                    // A client that does not finish in time is cut off.
                    let answered = answer_one(stream, readers);
                    let _ = tokio::time::timeout(limits::SCRAPE_PATIENCE.to_std(), answered).await;
                    drop(place);
                });
            }
            Err(error) => {
                tracing::warn!(%error, "no scrape could be accepted");
                tokio::time::sleep(limits::ACCEPT_PAUSE.to_std()).await;
            }
        }
    }
}

/// Serves one connection, with one answer.
async fn answer_one(stream: TcpStream, readers: Vec<Reader>) {
    let service = service_fn(move |request| {
        let readers = readers.clone();
        async move { Ok::<_, Infallible>(answer(&request, &readers).await) }
    });
    let served = hyper::server::conn::http1::Builder::new()
        .timer(TokioTimer::new())
        .keep_alive(false)
        .serve_connection(TokioIo::new(stream), service)
        .await;
    if let Err(error) = served {
        tracing::debug!(%error, "a scrape broke off");
    }
}

async fn answer(request: &Request<Incoming>, readers: &[Reader]) -> Response<Full<Bytes>> {
    if request.uri().path() != "/metrics" {
        return plain(StatusCode::NOT_FOUND, "the metrics are at /metrics\n".to_owned());
    }
    if request.method() != Method::GET {
        return plain(StatusCode::METHOD_NOT_ALLOWED, "only GET is answered here\n".to_owned());
    }
    for read in readers {
        if tokio::time::timeout(limits::SCRAPE_READ_PATIENCE.to_std(), read()).await.is_err() {
            tracing::warn!(
                "a core could not be read in time for a scrape; its last figures are reported"
            );
        }
    }
    super::net().scrapes.inc();
    match super::text() {
        Ok(text) => {
            let mut response = Response::new(Full::from(text));
            let kind = header::HeaderValue::from_static(CONTENT_TYPE);
            response.headers_mut().insert(header::CONTENT_TYPE, kind);
            response
        }
        Err(error) => plain(StatusCode::INTERNAL_SERVER_ERROR, format!("{error}\n")),
    }
}

fn plain(status: StatusCode, text: String) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::from(text));
    *response.status_mut() = status;
    response
}
