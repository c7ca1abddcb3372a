//! A gRPC server with every limit set, with health and reflection, and with a stop that is certain to end.
//!
//! Silent and idle connections never keep out a connection that has something to say; `gate` and `table` say
//! how.
//!
//! Left out: who is at the other end ([`crate::identity`]), and what they may do ([`crate::authorization`]).

pub(crate) mod connection;
mod gate;
pub mod local;
mod preface;
mod table;
mod work;

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use coalloc_common::{InvalidField, limits};
use coalloc_proto::v1;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio_stream::StreamExt as _;
use tonic::service::Routes;
use tonic::transport::Server;
use tower_layer::{Identity, Stack};

use self::connection::{Connection, until};
use self::gate::{Cause, ConnectionOrder, ConnectionPlace, Gate};
use self::table::{Bounds, Id};
use self::work::WorkLayer;
use crate::authorization::layer::AuthorizationLayer;
use crate::disk_space::DiskSpaceWatch;
use crate::files;
use crate::identity::server::{ProvenClient, TlsServer};
use crate::identity::settings::Access;
use crate::identity::trust::Use;
use crate::leadership::{Leadership, LeadershipLayer};
use crate::log_filter::LogFilterService;
use crate::metrics::calls::CallsLayer;
use crate::needs::NeedsLayer;

/// Why a server did not start, or why it ended.
#[derive(Debug, thiserror::Error)]
pub enum ServerError {
    /// The address cannot be listened on.
    #[error("listen: {address} cannot be bound: {source}; is another daemon running there?")]
    Bind {
        /// The configured address.
        address: SocketAddr,
        /// The error of the system.
        source: std::io::Error,
    },
    /// The address of the metrics cannot be listened on.
    #[error("metrics_listen: {address} cannot be bound: {source}; does another daemon use it?")]
    BindMetrics {
        /// The configured address.
        address: SocketAddr,
        /// The error of the system.
        source: std::io::Error,
    },
    /// The address of the web listener cannot be listened on.
    #[error("web_listen: {address} cannot be bound: {source}; does another daemon use it?")]
    BindWeb {
        /// The configured address.
        address: SocketAddr,
        /// The error of the system.
        source: std::io::Error,
    },
    /// Reflection could not be built from our own schema.
    #[error("the schema's descriptors are not usable: {0}")]
    Descriptors(#[from] tonic_reflection::server::Error),
}

/// Reads a field of a configuration that says where to listen.
///
/// # Errors
/// [`InvalidField`] when it is not an address with a port.
pub fn listen_address(field: &str, text: &str) -> Result<SocketAddr, InvalidField> {
    text.parse().map_err(|_| {
        InvalidField::new(field, InvalidField::quoted(text), "address:port, like 127.0.0.1:7001")
    })
}

/// Binds the address, so that a caller knows that it has the address before anything else is started.
///
/// # Errors
/// [`ServerError::Bind`].
pub async fn bind(address: SocketAddr) -> Result<TcpListener, ServerError> {
    let listen = || {
        let socket = if address.is_ipv4() { TcpSocket::new_v4() } else { TcpSocket::new_v6() }?;
        // After a restart, connections of the previous daemon may still be closing.
        socket.set_reuseaddr(true)?;
        socket.bind(address)?;
        socket.listen(limits::LISTEN_BACKLOG)
    };
    listen().map_err(|source| ServerError::Bind { address, source })
}

/// The bytes of one connection, in both directions.
pub trait Stream: AsyncRead + AsyncWrite + Unpin + Send + 'static {}
impl<S: AsyncRead + AsyncWrite + Unpin + Send + 'static> Stream for S {}

/// A connection of any network. It is boxed so that the HTTP/2 server is compiled once, in this crate, and
/// not again in every daemon.
pub type BoxStream = Box<dyn Stream>;

/// A source of connections.
pub trait Listener: Send + 'static {
    /// Waits for the next connection. Also returns the address of its other end.
    fn next(&mut self) -> impl Future<Output = std::io::Result<(BoxStream, IpAddr)>> + Send;
}

impl Listener for TcpListener {
    async fn next(&mut self) -> std::io::Result<(BoxStream, IpAddr)> {
        let (stream, peer) = accept_tcp(self).await?;
        Ok((Box::new(stream), peer.ip()))
    }
}

/// Accepts a connection that sends every answer at once.
async fn accept_tcp(listener: &TcpListener) -> std::io::Result<(TcpStream, SocketAddr)> {
    let (stream, peer) = listener.accept().await?;
    // Answers are small, and somebody waits for each. Without this option each would take the 40 ms of a
    // delayed acknowledgement, because the system holds it back until the peer has acknowledged the
    // answer before (Nagle). If the option cannot be set, the connection has ended, and reading it will
    // say so.
    let _ = stream.set_nodelay(true);
    Ok((stream, peer))
}

/// Serves those who have access, until `stop` is done. Calls in flight then have [`limits::STOP_PATIENCE`] to finish.
///
/// `services` are the names that gRPC health reports as serving, in addition to the empty name.
///
/// # Errors
/// [`ServerError`] when the transport fails.
pub async fn serve<L: Listener>(
    listener: L,
    access: Access,
    routes: Routes,
    services: &[&str],
    room: DiskSpaceWatch,
    stop: impl Future<Output = ()>,
) -> Result<(), ServerError> {
    let gate = Gate::new(Bounds::for_files(files::allowed()));
    serve_at(&gate, listener, access, routes, services, room, stop).await
}

/// The same as [`serve`], with a gate of the caller's, which has its own bounds on connections.
async fn serve_at<L: Listener>(
    gate: &Arc<Gate>,
    mut listener: L,
    access: Access,
    routes: Routes,
    services: &[&str],
    room: DiskSpaceWatch,
    stop: impl Future<Output = ()>,
) -> Result<(), ServerError> {
    let (health, health_service) = tonic_health::server::health_reporter();
    let is_standby = access.leadership.as_ref().is_some_and(Leadership::is_standby);
    let (status, patience) = match is_standby {
        // Nobody waits for anything at a standby but those who watch its health.
        true => (tonic_health::ServingStatus::NotServing, std::time::Duration::ZERO),
        false => (tonic_health::ServingStatus::Serving, limits::STOP_PATIENCE.to_std()),
    };
    // The server as a whole has no name.
    for service in services.iter().chain([&""]) {
        health.set_service_status(*service, status).await;
    }
    // The service manager that has started this daemon starts what needs it now. Without one, nobody is told.
    if let Err(error) = sd_notify::notify(&[sd_notify::NotifyState::Ready]) {
        tracing::warn!(%error, "the service manager was not told that this daemon is ready");
    }
    let reflection = || {
        tonic_reflection::server::Builder::configure()
            .register_encoded_file_descriptor_set(coalloc_proto::DESCRIPTORS)
            .register_encoded_file_descriptor_set(tonic_health::pb::FILE_DESCRIPTOR_SET)
    };
    // Many clients know only `v1alpha`, the older of the two.
    let routes = routes
        .add_service(health_service)
        .add_service(logging(LogFilterService))
        .add_service(reflection().build_v1()?)
        .add_service(reflection().build_v1alpha()?);
    let room = tokio::spawn(crate::disk_space::follow(health.clone(), room));
    let names: Vec<String> = services.iter().map(|name| (*name).to_owned()).collect();
    let stop = async move {
        stop.await;
        room.abort();
        health
            .set_service_status(crate::disk_space::HOLDS, tonic_health::ServingStatus::NotServing)
            .await;
        for service in names {
            health.set_service_status(service, tonic_health::ServingStatus::NotServing).await;
        }
    };
    let server = Server::builder()
        .timeout(limits::CALL_TIME_MAX.to_std())
        .concurrency_limit_per_connection(limits::CALLS_MAX)
        .load_shed(true)
        .max_concurrent_streams(limits::STREAMS_MAX)
        .http2_keepalive_interval(Some(limits::SERVER_KEEPALIVE.to_std()))
        .http2_keepalive_timeout(Some(limits::SERVER_KEEPALIVE_PATIENCE.to_std()))
        .layer(CallsLayer)
        .layer(WorkLayer)
        .layer(AuthorizationLayer {
            authorization: access.authorization,
            call_rates: access.call_rates,
            clock: access.clock,
        })
        .layer(NeedsLayer)
        .layer(LeadershipLayer(access.leadership));
    let stopping = watch::Sender::new(false);
    let mut connections = JoinSet::new();
    let routes = routes.prepare();
    let accepting = gate.accept(&mut listener, |stream, place| {
        // Drops the connections that have ended.
        while connections.try_join_next().is_some() {}
        let (server, routes) = (server.clone(), routes.clone());
        let entrance = Entrance { tls: access.tls.clone(), server, routes };
        let_in(&mut connections, stream, place, entrance, stopping.subscribe());
    });
    tokio::select! {
        () = stop => {}
        () = accepting => {}
    }
    drop(listener);
    stopping.send_replace(true);
    gate.order_all(ConnectionOrder::Leave);
    let ended = async { while connections.join_next().await.is_some() {} };
    if tokio::time::timeout(patience, ended).await.is_err() {
        // A watch stream never ends by itself. Dropping a call is harmless: no state changes in its task.
        tracing::info!("calls that are still open are dropped");
        gate.order_all(ConnectionOrder::Cut);
    }
    Ok(())
}

/// The server of one connection.
type OneServer = Server<
    Stack<
        LeadershipLayer,
        Stack<NeedsLayer, Stack<AuthorizationLayer, Stack<WorkLayer, Stack<CallsLayer, Identity>>>>,
    >,
>;

/// What a connection meets when it is let in.
struct Entrance {
    tls: Option<TlsServer>,
    server: OneServer,
    routes: Routes,
}

/// Starts the task of one connection. Not generic, so that the server is compiled in this crate.
fn let_in(
    connections: &mut JoinSet<()>,
    stream: BoxStream,
    place: ConnectionPlace,
    entrance: Entrance,
    stopping: watch::Receiver<bool>,
) {
    connections.spawn(attend(stream, place, entrance, stopping));
}

/// Waits until the client has spoken, then serves the connection until it ends, has to leave, or the server
/// stops. In the last two cases calls in flight may finish, and the client is told that no new ones are
/// accepted. A client that is not believed any more is cut off at once.
async fn attend(
    stream: BoxStream,
    place: ConnectionPlace,
    entrance: Entrance,
    mut stopping: watch::Receiver<bool>,
) {
    let Entrance { tls, server, routes } = entrance;
    let heard = tokio::select! {
        heard = place.hear(stream, tls.as_ref()) => heard,
        _ = stopping.wait_for(|stopping| *stopping) => None,
    };
    let Some(heard) = heard else { return };
    let (gate, id) = place.number();
    let (mut leave, mut insist) = (place.orders(), place.orders());
    let judged = judge(Arc::clone(&gate), id, tls, heard.client.clone());
    let connection = Connection::new(heard, place);
    // A server ends when its source of connections ends. This one has to serve its only connection to the
    // end.
    let only = tokio_stream::once(Ok::<_, std::io::Error>(connection));
    let end = async move {
        tokio::select! {
            () = until(&mut leave, ConnectionOrder::Leave) => {}
            _ = stopping.wait_for(|stopping| *stopping) => {}
        }
    };
    let only = only.chain(tokio_stream::pending());
    let served = server.serve_with_incoming_shutdown(routes, only, end);
    let insist = async move {
        until(&mut insist, ConnectionOrder::Leave).await;
        loop {
            tokio::time::sleep(limits::LEAVING_PATIENCE.to_std()).await;
            gate.cut_if_idle(id);
        }
    };
    tokio::select! {
        served = served => {
            if let Err(error) = served {
                tracing::debug!(%error, "a connection broke");
            }
        }
        () = insist => {}
        () = judged => {}
    }
}

/// Ends a connection whose client is not believed any more, and asks one to leave that is old. Never done before that.
async fn judge(gate: Arc<Gate>, id: Id, tls: Option<TlsServer>, client: Option<Arc<ProvenClient>>) {
    let (Some(tls), Some(client)) = (tls, client) else { return std::future::pending().await };
    let aged = async {
        tokio::time::sleep(limits::CONNECTION_AGE_MAX.to_std()).await;
        gate.order(id, ConnectionOrder::Leave);
        std::future::pending::<()>().await;
    };
    tokio::select! {
        disbelief = tls.store().disbelieved(&client.chain, Use::Client) => {
            tracing::warn!(%disbelief, client = %client.owner.identity, "a connection ends");
            Cause::Disbelieved.counter().inc();
            // The HTTP/2 library serves the connection in a task of its own, which only this ends.
            gate.order(id, ConnectionOrder::Cut);
        }
        () = aged => {}
    }
}

/// Done when the process receives SIGTERM or Ctrl-C.
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
            tracing::warn!(%error, "SIGTERM cannot be handled; only Ctrl-C stops this daemon");
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

/// The Workflows service over `service`, with its message limits.
pub fn workflows<S: v1::workflows_server::Workflows>(
    service: S,
) -> v1::workflows_server::WorkflowsServer<S> {
    v1::workflows_server::WorkflowsServer::new(service)
        .max_decoding_message_size(limits::WORKFLOW_MESSAGE_MAX_BYTES)
        .max_encoding_message_size(limits::ANSWER_MAX_BYTES)
}

/// The Ledgers service over `service`, with its message limits.
pub fn ledgers<S: v1::ledgers_server::Ledgers>(service: S) -> v1::ledgers_server::LedgersServer<S> {
    v1::ledgers_server::LedgersServer::new(service)
        .max_decoding_message_size(limits::TIP_MESSAGE_MAX_BYTES)
        .max_encoding_message_size(limits::ANSWER_MAX_BYTES)
}

/// The Logging service of this process, with its message limits.
fn logging(service: LogFilterService) -> v1::logging_server::LoggingServer<LogFilterService> {
    v1::logging_server::LoggingServer::new(service)
        .max_decoding_message_size(limits::LOGGING_MESSAGE_MAX_BYTES)
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
mod tests;
