//! Channels to other daemons, with every limit set: over TLS with an identity, or in plain text. What a daemon has shown at the
//! last connection is kept beside its address.
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
use tonic::transport::{Channel, Endpoint};
use tower_service::Service;

use crate::identity::certificate::CertificateOwner;
use crate::identity::client::{ExpectedServer, secure};
use crate::identity::store::IdentityStore;
use crate::server::{BoxStream, Stream};

/// A daemon to connect to: where it is, and who has to answer there.
#[derive(Debug, Clone)]
pub struct Destination {
    /// The address, as host:port.
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
    /// A daemon at `address` (`host:port`).
    ///
    /// # Errors
    /// [`InvalidField`] when the address is not `host:port`.
    pub fn new(
        field: &str,
        address: &str,
        expected: Option<ExpectedServer>,
    ) -> Result<Self, InvalidField> {
        let endpoint = endpoint(field, address)?;
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
        match self.identity {
            None => to.endpoint.connect_lazy(),
            Some(_) => self.connect_over(SystemNetwork, to),
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

    /// A channel to `address` (`host:port`), where any daemon that is believed may answer.
    ///
    /// # Errors
    /// [`InvalidField`] when the address is not `host:port`.
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

/// Connects to one address, whenever the channel needs a connection.
#[derive(Debug, Clone)]
struct Connector<N> {
    network: N,
    /// `None`: connections are in plain text.
    identity: Option<Arc<IdentityStore>>,
    expected: ExpectedServer,
    address: Arc<str>,
    shown: ShownCertificate,
}

impl<N: Network> Service<Uri> for Connector<N> {
    type Response = TokioIo<BoxStream>;
    type Error = Box<dyn std::error::Error + Send + Sync>;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Self::Error>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, _: Uri) -> Self::Future {
        let Self { network, identity, expected, address, shown } = self.clone();
        Box::pin(async move {
            let stream = network.open(&address).await?;
            let Some(identity) = identity else { return Ok(TokioIo::new(Box::new(stream) as _)) };
            let stream = secure(&identity, &expected, stream).await?;
            shown.set(stream.server().clone());
            Ok(TokioIo::new(Box::new(stream) as _))
        })
    }
}

/// Checks an address without connecting anywhere.
///
/// # Errors
/// [`InvalidField`] when it is not `host:port`.
pub fn check_address(field: &str, address: &str) -> Result<(), InvalidField> {
    bare(field, address).map(|_| ())
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
