//! A gRPC server with every limit set, health and reflection, and a stop that ends.

use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use coalloc_common::{InvalidField, limits};
use coalloc_proto::v1;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_stream::Stream;
use tokio_stream::wrappers::ReceiverStream;
use tonic::service::Routes;
use tonic::transport::Server;
use tonic::transport::server::Connected;

use crate::metrics::calls::CallsLayer;

/// Why a server did not come up or ended.
#[derive(Debug, thiserror::Error)]
pub enum ServerError {
    /// The address cannot be listened on.
    #[error("listen: {address} cannot be bound: {source}; is another daemon running there?")]
    Bind {
        /// The configured address.
        address: SocketAddr,
        /// Why.
        source: std::io::Error,
    },
    /// The address of the metrics cannot be listened on.
    #[error("metrics_listen: {address} cannot be bound: {source}; has another daemon the same?")]
    BindMetrics {
        /// The configured address.
        address: SocketAddr,
        /// Why.
        source: std::io::Error,
    },
    /// The transport failed.
    #[error("the server ended: {0}")]
    Transport(#[from] tonic::transport::Error),
    /// Reflection could not be built from our own schema.
    #[error("the schema's descriptors are not usable: {0}")]
    Descriptors(#[from] tonic_reflection::server::Error),
}

/// Takes a field of a configuration that says where to listen.
///
/// # Errors
/// [`InvalidField`] when it is not an address with a port, or when others can reach it and
/// `insecure_plaintext` does not allow that.
pub fn listen_address(
    field: &str,
    text: &str,
    insecure_plaintext: bool,
) -> Result<SocketAddr, InvalidField> {
    let address: SocketAddr = text.parse().map_err(|_| {
        InvalidField::new(field, InvalidField::quoted(text), "address:port, like 127.0.0.1:7001")
    })?;
    if !address.ip().is_loopback() && !insecure_plaintext {
        let allowed = "a loopback address, or any with `insecure_plaintext: true`, \
                       because calls are not encrypted";
        return Err(InvalidField::new(field, address, allowed));
    }
    Ok(address)
}

/// Binds the address, so that a caller knows it is taken before anything else is started.
///
/// # Errors
/// [`ServerError::Bind`].
pub async fn bind(address: SocketAddr) -> Result<TcpListener, ServerError> {
    TcpListener::bind(address).await.map_err(|source| ServerError::Bind { address, source })
}

/// Where connections come from.
pub trait Listener: Send + 'static {
    /// One of them.
    type Stream: AsyncRead + AsyncWrite + Unpin + Send + 'static;

    /// The next one.
    fn next(&mut self) -> impl Future<Output = std::io::Result<Self::Stream>> + Send;
}

impl Listener for TcpListener {
    type Stream = TcpStream;

    async fn next(&mut self) -> std::io::Result<TcpStream> {
        let (stream, _) = self.accept().await?;
        // Answers are small and awaited: held back until the peer has acknowledged the last one (Nagle),
        // each would take the 40 ms of a delayed acknowledgement. A connection that cannot be told
        // so has ended, and says so when it is read.
        let _ = stream.set_nodelay(true);
        Ok(stream)
    }
}

/// Serves until `stop` is done, then lets the calls in flight finish, for a while.
///
/// `services` are the names reported as serving by gRPC health, beside the empty name.
///
/// # Errors
/// [`ServerError`] when the transport fails.
pub async fn serve<L: Listener>(
    listener: L,
    routes: Routes,
    services: &[&str],
    stop: impl Future<Output = ()>,
) -> Result<(), ServerError> {
    let (health, health_service) = tonic_health::server::health_reporter();
    for service in services {
        health.set_service_status(*service, tonic_health::ServingStatus::Serving).await;
    }
    let reflection = tonic_reflection::server::Builder::configure()
        .register_encoded_file_descriptor_set(coalloc_proto::DESCRIPTORS)
        .register_encoded_file_descriptor_set(tonic_health::pb::FILE_DESCRIPTOR_SET)
        .build_v1()?;
    let routes = routes.add_service(health_service).add_service(reflection);
    let room = tokio::spawn(crate::room::follow(health.clone()));
    let (stopping, stopped) = tokio::sync::oneshot::channel();
    let names: Vec<String> = services.iter().map(|name| (*name).to_owned()).collect();
    let stop = async move {
        stop.await;
        room.abort();
        health
            .set_service_status(crate::room::HOLDS, tonic_health::ServingStatus::NotServing)
            .await;
        for service in names {
            health.set_service_status(service, tonic_health::ServingStatus::NotServing).await;
        }
        // The other side is this function, below.
        let _ = stopping.send(());
    };
    let server = Server::builder()
        .timeout(limits::CALL_TIME_MAX.to_std())
        .concurrency_limit_per_connection(limits::CALLS_MAX)
        .load_shed(true)
        .max_concurrent_streams(limits::STREAMS_MAX)
        .http2_keepalive_interval(Some(limits::SERVER_KEEPALIVE.to_std()))
        .http2_keepalive_timeout(Some(limits::SERVER_KEEPALIVE_PATIENCE.to_std()))
        .layer(CallsLayer)
        .add_routes(routes)
        .serve_with_incoming_shutdown(connections(listener), stop);
    let overdue = async {
        if stopped.await.is_err() {
            std::future::pending::<()>().await;
        }
        tokio::time::sleep(limits::STOP_PATIENCE.to_std()).await;
    };
    tokio::select! {
        ended = server => Ok(ended?),
        () = overdue => {
            // A watched stream never ends by itself; no transition runs in any of them.
            tracing::info!("calls still open are dropped");
            Ok(())
        }
    }
}

/// The connections of a listener, at most [`limits::CONNECTIONS_MAX`] at a time. When the system has
/// none to give, the next try waits a little.
fn connections<L: Listener>(
    mut listener: L,
) -> impl Stream<Item = std::io::Result<Connection<L::Stream>>> {
    let places = Arc::new(Semaphore::new(limits::CONNECTIONS_MAX));
    let (sender, receiver) = tokio::sync::mpsc::channel(1);
    tokio::spawn(async move {
        while let Ok(place) = Arc::clone(&places).acquire_owned().await {
            let accepted = tokio::select! {
                biased;
                accepted = listener.next() => accepted,
                () = sender.closed() => return,
            };
            match accepted {
                // The server is gone when nobody takes it.
                Ok(stream) => drop(sender.send(Ok(Connection { stream, _place: place })).await),
                Err(error) => {
                    tracing::warn!(%error, "no connection could be accepted");
                    tokio::time::sleep(limits::ACCEPT_PAUSE.to_std()).await;
                }
            }
        }
    });
    ReceiverStream::new(receiver)
}

/// A connection and its place among those that may be open.
struct Connection<S> {
    stream: S,
    _place: OwnedSemaphorePermit,
}

impl<S> Connected for Connection<S> {
    /// No handler asks where a call comes from.
    type ConnectInfo = ();

    fn connect_info(&self) {}
}

impl<S: AsyncRead + Unpin> AsyncRead for Connection<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<std::io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Connection<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<std::io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_flush(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<std::io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<std::io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[std::io::IoSlice<'_>],
    ) -> Poll<std::io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(context, slices)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }
}

/// Done when the process is told to stop (SIGTERM, or Ctrl-C).
pub async fn stop_signal() {
    use tokio::signal::unix::{SignalKind, signal};
    let interrupt = tokio::signal::ctrl_c();
    match signal(SignalKind::terminate()) {
        Ok(mut terminate) => {
            tokio::select! {
                _ = terminate.recv() => {}
                _ = interrupt => {}
            }
        }
        Err(error) => {
            tracing::warn!(%error, "SIGTERM cannot be watched, only Ctrl-C");
            let _ = interrupt.await;
        }
    }
}

/// The ResourceManager service over `service`, with its message limits.
pub fn resource_manager<S: v1::resource_manager_server::ResourceManager>(
    service: S,
) -> v1::resource_manager_server::ResourceManagerServer<S> {
    v1::resource_manager_server::ResourceManagerServer::new(service)
        .max_decoding_message_size(limits::MESSAGE_MAX_BYTES)
        .max_encoding_message_size(limits::ANSWER_MAX_BYTES)
}

/// The Coordinator service over `service`, with its message limits.
pub fn coordinator<S: v1::coordinator_server::Coordinator>(
    service: S,
) -> v1::coordinator_server::CoordinatorServer<S> {
    v1::coordinator_server::CoordinatorServer::new(service)
        .max_decoding_message_size(limits::MESSAGE_MAX_BYTES)
        .max_encoding_message_size(limits::ANSWER_MAX_BYTES)
}

/// The Resolver service over `service`, with its message limits.
pub fn resolver<S: v1::resolver_server::Resolver>(
    service: S,
) -> v1::resolver_server::ResolverServer<S> {
    v1::resolver_server::ResolverServer::new(service)
        .max_decoding_message_size(limits::MESSAGE_MAX_BYTES)
        .max_encoding_message_size(limits::ANSWER_MAX_BYTES)
}

#[cfg(test)]
mod tests {
    use tokio_stream::StreamExt as _;

    use super::*;

    #[tokio::test]
    async fn no_answer_waits_for_an_acknowledgement_of_the_one_before() {
        let listener = bind("127.0.0.1:0".parse().unwrap()).await.unwrap();
        let address = listener.local_addr().unwrap();
        let mut connections = Box::pin(connections(listener));
        let _client = TcpStream::connect(address).await.unwrap();
        let connection = connections.next().await.unwrap().unwrap();
        assert!(connection.stream.nodelay().unwrap());
    }
}
