//! Channels to other daemons, with every limit set: over TLS with an identity, or in plain text. What a daemon has shown at the
//! last connection is kept beside its address.
//!
//! A daemon may have several addresses: those of the processes that share its ledger. Each new connection goes to the one that
//! leads, which is the one whose health says that it serves. The others serve nothing, and a leader that is replaced
//! ends, and its connections with it.
//!
//! Left out: the TLS handshake itself ([`crate::identity::client`]).

use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};

use coalloc_common::{InvalidField, limits};
use coalloc_protocol::Causer;
use http::Uri;
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tonic::transport::{Channel, Endpoint};
use tonic_health::pb::HealthCheckRequest;
use tonic_health::pb::health_check_response::ServingStatus;
use tonic_health::pb::health_client::HealthClient;
use tower_service::Service;

use crate::identity::certificate::CertificateOwner;
use crate::identity::client::{ExpectedServer, secure};
use crate::identity::store::IdentityStore;
use crate::server::{BoxStream, Stream};

/// A daemon to connect to: where it is, and who has to answer there.
#[derive(Debug, Clone)]
pub struct Destination {
    /// The address, as host:port; several of them with commas between.
    pub address: String,
    /// How to connect to the address, with every limit set.
    pub endpoint: Endpoint,
    /// Who has to answer; `None` when calls are made in plain text.
    pub expected: Option<ExpectedServer>,
    /// The certificate that was shown there.
    pub shown: ShownCertificate,
}

/// The certificate that the daemon at a destination has shown at the last connection. Clones share it.
#[derive(Debug, Clone, Default)]
pub struct ShownCertificate(Arc<Mutex<Option<CertificateOwner>>>);

impl ShownCertificate {
    /// The certificate; `None` before the first connection, and in plain text.
    #[must_use]
    pub fn get(&self) -> Option<CertificateOwner> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The daemon that has shown it, as the causer of what follows from its answers.
    #[must_use]
    pub fn causer(&self) -> Causer {
        self.get().map_or_else(Causer::unproven, |owner| owner.causer())
    }

    fn set(&self, shown: CertificateOwner) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(shown);
    }
}

impl Destination {
    /// A daemon at `address`: `host:port`, or several of them with commas between.
    ///
    /// # Errors
    /// [`InvalidField`] when an address is not `host:port`.
    pub fn new(
        field: &str,
        address: &str,
        expected: Option<ExpectedServer>,
    ) -> Result<Self, InvalidField> {
        check_address(field, address)?;
        let endpoint = endpoint(field, first(address))?;
        Ok(Self {
            address: address.to_owned(),
            endpoint,
            expected,
            shown: ShownCertificate::default(),
        })
    }

    /// Checks that none of the peers before this one has the same identity: whoever has it would be several peers.
    ///
    /// # Errors
    /// [`InvalidField`] with the identity. `field` is the peer's field.
    pub fn check_only_one<'a>(
        &self,
        field: &str,
        before: impl IntoIterator<Item = &'a Self>,
    ) -> Result<(), InvalidField> {
        let Some(ExpectedServer::Exactly(own)) = &self.expected else { return Ok(()) };
        if before.into_iter().any(|peer| peer.expected == self.expected) {
            let allowed = "each identity once; one identity is one daemon";
            return Err(InvalidField::new(format!("{field}.identity"), own, allowed));
        }
        Ok(())
    }
}

/// Connects to daemons: with an identity over TLS, or in plain text. Cheap to clone.
#[derive(Debug, Clone, Default)]
pub struct Dialer {
    identity: Option<Arc<IdentityStore>>,
}

impl Dialer {
    /// Connects in plain text: nobody knows who calls, nor who answers.
    #[must_use]
    pub const fn plain_text() -> Self {
        Self { identity: None }
    }

    /// Connects over TLS, with the identity of a folder as it is at the time.
    #[must_use]
    pub const fn with_identity(identity: Arc<IdentityStore>) -> Self {
        Self { identity: Some(identity) }
    }

    /// The identity with which it connects.
    #[must_use]
    pub const fn identity(&self) -> Option<&Arc<IdentityStore>> {
        self.identity.as_ref()
    }

    /// A channel that connects when it is first used, and reconnects by itself. Whoever is expected has to answer; if
    /// nobody is, any daemon that is believed may.
    #[must_use]
    pub fn connect(&self, to: &Destination) -> Channel {
        // In plain text the library's own connector does the same with less.
        match (&self.identity, several(&to.address)) {
            (None, false) => to.endpoint.connect_lazy(),
            _ => self.connect_over(SystemNetwork, to),
        }
    }

    /// The same as [`connect`](Self::connect), over a network of the caller's.
    #[must_use]
    pub fn connect_over<N: Network>(&self, network: N, to: &Destination) -> Channel {
        let expected = to.expected.clone().unwrap_or(ExpectedServer::AnyDaemon);
        to.endpoint.connect_with_connector_lazy(Connector {
            network,
            identity: self.identity.clone(),
            expected,
            address: to.address.as_str().into(),
            shown: to.shown.clone(),
        })
    }

    /// A channel to `address` (`host:port`, or several with commas between), where any daemon that is believed may answer.
    ///
    /// # Errors
    /// [`InvalidField`] when an address is not `host:port`.
    pub fn channel(&self, field: &str, address: &str) -> Result<Channel, InvalidField> {
        Ok(self.connect(&Destination::new(field, address, None)?))
    }
}

/// A network on which addresses can be connected to.
pub trait Network: Clone + Send + Sync + 'static {
    /// The bytes of a connection, in both directions.
    type Stream: Stream;

    /// Connects to `address` (`host:port`).
    fn open(&self, address: &str) -> impl Future<Output = std::io::Result<Self::Stream>> + Send;
}

/// The network of the real machine.
#[derive(Debug, Clone, Copy)]
struct SystemNetwork;

impl Network for SystemNetwork {
    type Stream = TcpStream;

    async fn open(&self, address: &str) -> std::io::Result<TcpStream> {
        let stream = TcpStream::connect(address).await?;
        // Messages are small, and somebody waits for each.
        stream.set_nodelay(true)?;
        Ok(stream)
    }
}

/// Connects to one address, or to the one of several that leads, whenever the channel needs a connection.
#[derive(Debug, Clone)]
struct Connector<N> {
    network: N,
    /// `None`: connections are in plain text.
    identity: Option<Arc<IdentityStore>>,
    expected: ExpectedServer,
    /// One or several, with commas between.
    address: Arc<str>,
    shown: ShownCertificate,
}

/// An error of a connector.
type ConnectError = Box<dyn std::error::Error + Send + Sync>;

impl<N: Network> Connector<N> {
    async fn connect(self) -> Result<BoxStream, ConnectError> {
        let address = match several(&self.address) {
            true => self.leading().await?,
            false => self.address.to_string(),
        };
        let stream = self.network.open(&address).await?;
        let Some(identity) = self.identity else { return Ok(Box::new(stream)) };
        let stream = secure(&identity, &self.expected, stream).await?;
        self.shown.set(stream.server().clone());
        Ok(Box::new(stream))
    }

    /// The address whose server says that it serves. All are asked at once, because one may be silent.
    async fn leading(&self) -> Result<String, ConnectError> {
        let mut asked = JoinSet::new();
        for address in self.address.split(',') {
            let one = Self { address: address.into(), ..self.clone() };
            asked.spawn(async move { one.serves().await });
        }
        while let Some(answer) = asked.join_next().await {
            if let Ok(Some(address)) = answer {
                return Ok(address);
            }
        }
        Err(format!("none of {} leads, or can be reached", self.address).into())
    }

    /// The one address, if its server says that it serves.
    async fn serves(self) -> Option<String> {
        let address = self.address.to_string();
        let endpoint = endpoint("address", &address).ok()?;
        let mut client = HealthClient::new(endpoint.connect_with_connector_lazy(self));
        let request = HealthCheckRequest { service: String::new() };
        let answer = client.check(request);
        let patience = limits::LEADER_PATIENCE.to_std();
        let answer = tokio::time::timeout(patience, answer).await.ok()?.ok()?.into_inner();
        (answer.status() == ServingStatus::Serving).then_some(address)
    }
}

impl<N: Network> Service<Uri> for Connector<N> {
    type Response = TokioIo<BoxStream>;
    type Error = ConnectError;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Self::Error>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, _: Uri) -> Self::Future {
        let connector = self.clone();
        Box::pin(async move { connector.connect().await.map(TokioIo::new) })
    }
}

/// Whether these are several addresses.
#[must_use]
pub fn several(address: &str) -> bool {
    address.contains(',')
}

/// The first of several addresses.
fn first(address: &str) -> &str {
    address.split(',').next().unwrap_or(address)
}

/// Checks an address, or several with commas between, without connecting anywhere.
///
/// # Errors
/// [`InvalidField`] when one is not `host:port`.
pub fn check_address(field: &str, address: &str) -> Result<(), InvalidField> {
    address.split(',').try_for_each(|one| bare(field, one).map(drop))
}

fn bare(field: &str, address: &str) -> Result<Endpoint, InvalidField> {
    let bad = || InvalidField::new(field, InvalidField::quoted(address), "host:port");
    let (host, port) = address.rsplit_once(':').ok_or_else(bad)?;
    let plain = |c: char| c.is_ascii_alphanumeric() || "-._:[]".contains(c);
    if host.is_empty() || !host.chars().all(plain) || port.parse::<u16>().is_err() {
        return Err(bad());
    }
    // Also over TLS: the connector does the handshake, and the HTTP library must not do another one.
    Endpoint::from_shared(format!("http://{address}")).map_err(|_| bad())
}

/// A channel in plain text to `address` (`host:port`). It connects when it is first used, and reconnects by itself.
///
/// # Errors
/// [`InvalidField`] when the address is not `host:port`.
pub fn channel(field: &str, address: &str) -> Result<Channel, InvalidField> {
    Dialer::plain_text().channel(field, address)
}

/// How to connect to `address` (`host:port`), with every limit set. Keepalive notices within a second that a
/// peer has gone without closing the connection.
///
/// # Errors
/// [`InvalidField`] when the address is not `host:port`.
pub fn endpoint(field: &str, address: &str) -> Result<Endpoint, InvalidField> {
    Ok(bare(field, address)?
        .connect_timeout(limits::CONNECT_PATIENCE.to_std())
        .timeout(limits::CALL_TIME_MAX.to_std())
        .http2_keep_alive_interval(limits::CLIENT_KEEPALIVE.to_std())
        .keep_alive_timeout(limits::CLIENT_KEEPALIVE_PATIENCE.to_std())
        .keep_alive_while_idle(false)
        .tcp_nodelay(true))
}

#[cfg(test)]
mod tests {
    use coalloc_common::Identity;

    use super::*;

    #[test]
    fn one_identity_is_one_peer() {
        let peer = |name: Option<&str>| {
            let identity = |name| format!("spiffe://grid/coalloc/coordinator/{name}");
            let identity = name.map(|name| Identity::parse("identity", &identity(name)).unwrap());
            let expected = identity.map(ExpectedServer::Exactly);
            Destination::new("address", "127.0.0.1:1", expected).unwrap()
        };
        let before = [peer(Some("grc")), peer(None)];
        peer(Some("grc-2")).check_only_one("peers[2]", &before).unwrap();
        peer(None).check_only_one("peers[2]", &before).unwrap();
        let error = peer(Some("grc")).check_only_one("peers[2]", &before).unwrap_err();
        assert_eq!(error.field, "peers[2].identity");
        assert!(error.value.contains("coordinator/grc"), "{error}");
    }
}
