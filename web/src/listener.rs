//! Connections over HTTP/1.1: TLS where the coordinator has an identity, bounds, and who is at the other end.
//!
//! A connection has a bounded time for the head of each request, so silence costs a place for seconds only. A client whose
//! certificate is no longer believed is cut off at once. Where TLS is spoken, whoever speaks without it is told so.
//!
//! Left out: what is answered ([`crate::json`]).

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use coalloc_common::limits;
use coalloc_net::identity::server::{ProvenClient, TlsServer};
use coalloc_net::identity::trust::Use;
use coalloc_net::server::BoxStream;
use http::Request;
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tokio::task::JoinSet;
use tower_service::Service as _;

use crate::WebSources;

/// The first byte of whoever speaks TLS: the type of its first record (RFC 8446, section 5.1).
const TLS_HANDSHAKE: u8 = 22;
/// Bytes of a request without TLS that are read before it is answered.
const UNREAD_MAX: usize = 8_192;
/// What whoever does not speak TLS is told where it is spoken.
const WITHOUT_TLS: &str = "HTTP/1.1 400 Bad Request\r\ncontent-type: text/plain; charset=utf-8\r\nconnection: close\r\n\r\n\
    this address speaks TLS: write https:// in front of it instead of http://\n";

/// The client of a connection; an extension of each of its requests.
#[derive(Debug, Clone, Default)]
pub struct WebClient {
    /// Who it is, if it has shown a certificate.
    pub proven: Option<Arc<ProvenClient>>,
    /// Whether the connection is over TLS.
    pub has_tls: bool,
}

/// Answers until `stop` is done; requests in flight then have [`limits::STOP_PATIENCE`] to finish.
pub async fn serve(
    listener: TcpListener,
    tls: Option<TlsServer>,
    sources: WebSources,
    stop: impl Future<Output = ()>,
) {
    let tls = tls.map(|tls| tls.for_web());
    let router = crate::router(sources, tls.is_some());
    let places = Arc::new(Semaphore::new(limits::WEB_CONNECTIONS_MAX));
    let stopping = watch::Sender::new(false);
    let mut connections = JoinSet::new();
    let accepting = async {
        while let Ok(place) = Arc::clone(&places).acquire_owned().await {
            // Drops the connections that have ended.
            while connections.try_join_next().is_some() {}
            match listener.accept().await {
                Ok((stream, _)) => {
                    // If the option cannot be set, the connection has ended, and reading it will say so.
                    let _ = stream.set_nodelay(true);
                    let entrance = Entrance { tls: tls.clone(), router: router.clone(), place };
                    connections.spawn(entrance.attend(stream, stopping.subscribe()));
                }
                Err(error) => {
                    tracing::warn!(%error, "no connection to the web listener could be accepted");
                    tokio::time::sleep(limits::ACCEPT_PAUSE.to_std()).await;
                }
            }
        }
    };
    tokio::select! {
        () = stop => {}
        () = accepting => {}
    }
    drop(listener);
    stopping.send_replace(true);
    let ended = async { while connections.join_next().await.is_some() {} };
    if tokio::time::timeout(limits::STOP_PATIENCE.to_std(), ended).await.is_err() {
        // A stream of events never ends by itself.
        tracing::info!("requests of the web listener that are still open are dropped");
    }
}

/// What a connection meets when it is let in.
struct Entrance {
    tls: Option<TlsServer>,
    router: Router,
    place: OwnedSemaphorePermit,
}

impl Entrance {
    async fn attend(self, stream: TcpStream, mut stopping: watch::Receiver<bool>) {
        let Self { tls, router, place } = self;
        let patience: Duration = limits::WEB_HEAD_PATIENCE.to_std();
        let entered = tokio::time::timeout(patience, enter(tls.as_ref(), stream));
        // Whoever does not get in was told.
        let Ok(Ok((stream, client))) = entered.await else { return };
        let has_tls = tls.is_some();
        let judged = disbelief(tls, client.clone());
        let service = service_fn(move |mut request: Request<Incoming>| {
            request.extensions_mut().insert(WebClient { proven: client.clone(), has_tls });
            router.clone().call(request)
        });
        let connection = hyper::server::conn::http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(patience)
            .serve_connection(TokioIo::new(stream), service);
        let mut connection = std::pin::pin!(connection);
        let stopped = async move {
            // Without a sender the daemon has ended.
            let _ = stopping.wait_for(|is_stopping| *is_stopping).await;
        };
        let served = tokio::select! {
            served = connection.as_mut() => served,
            () = judged => return,
            () = stopped => {
                connection.as_mut().graceful_shutdown();
                connection.await
            }
        };
        if let Err(error) = served {
            tracing::debug!(%error, "a connection of the web listener broke");
        }
        drop(place);
    }
}

/// The stream within TLS, if that is spoken here, and who is at its other end.
async fn enter(
    tls: Option<&TlsServer>,
    mut stream: TcpStream,
) -> std::io::Result<(BoxStream, Option<Arc<ProvenClient>>)> {
    let Some(tls) = tls else { return Ok((Box::new(stream), None)) };
    let mut first = [0];
    if stream.peek(&mut first).await? == 1 && first[0] != TLS_HANDSHAKE {
        // What is read is not answered with a reset, behind which the text would be lost.
        let mut unread = [0; UNREAD_MAX];
        let _ = stream.read(&mut unread).await?;
        stream.write_all(WITHOUT_TLS.as_bytes()).await?;
        stream.shutdown().await?;
        return Err(std::io::Error::other("it does not speak TLS"));
    }
    tls.accept(Box::new(stream)).await
}

/// Done when the client is not believed any more.
async fn disbelief(tls: Option<TlsServer>, client: Option<Arc<ProvenClient>>) {
    let (Some(tls), Some(client)) = (tls, client) else { return std::future::pending().await };
    let disbelief = tls.store().disbelieved(&client.chain, Use::Client).await;
    tracing::warn!(%disbelief, client = %client.owner.identity, "a connection of the web listener ends");
}
