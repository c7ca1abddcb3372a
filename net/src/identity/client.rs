//! The client's end of a TLS connection.
//!
//! In TLS 1.3 a client is done before the server has judged the client's certificate. If the client went on at once,
//! its first call would fail in one of several ways by chance, and nobody would say why. So a connection counts as made
//! only when the server's session ticket has come, which it sends once it has let the client in. A refusal is then a
//! failed connection whose error names the server's alert.
//!
//! Left out: addresses and timeouts of connections ([`crate::client`]).

use std::fmt;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};

use coalloc_common::{Identity, Role, limits};
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{ClientConfig, Resumption};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::sign::SingleCertAndKey;
use rustls::{DigitallySignedStruct, SignatureScheme};
use tokio::io::{AsyncBufRead as _, AsyncRead, AsyncWrite, ReadBuf};
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use super::Disbelief;
use super::certificate::CertificateOwner;
use super::server::alert;
use super::store::{Credentials, IdentityStore};
use super::trust::{Trust, Use, algorithms};
use crate::clock::Clock;

/// Who has to answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ExpectedServer {
    /// This one.
    Exactly(Identity),
    /// Any coordinator or resource manager of a domain that is believed: enough for people, who say where to connect.
    AnyDaemon,
}

impl ExpectedServer {
    fn check(&self, found: &Identity) -> Result<(), Disbelief> {
        let is_expected = match self {
            Self::Exactly(identity) => identity == found,
            Self::AnyDaemon => matches!(found.role, Role::Coordinator | Role::ResourceManager),
        };
        if is_expected {
            return Ok(());
        }
        Err(Disbelief::Unexpected { expected: self.to_string(), found: found.clone() })
    }
}

impl fmt::Display for ExpectedServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Exactly(identity) => write!(f, "{identity}"),
            Self::AnyDaemon => f.write_str("a coordinator or a resource manager"),
        }
    }
}

/// Why there is no TLS connection.
#[derive(Debug, thiserror::Error)]
pub enum HandshakeError {
    /// The server's certificate is not believed.
    #[error("the server is not believed: {0}")]
    Server(Disbelief),
    /// The server has ended the handshake.
    #[error("the server does not let us in as {identity}: {alert}")]
    Refused {
        /// Who we are.
        identity: Identity,
        /// What the server says.
        alert: String,
    },
    /// The server did not let the client in within [`limits::HANDSHAKE_PATIENCE`].
    #[error("the server has not answered the TLS handshake in time; does it speak TLS?")]
    Silent,
    /// The server does not speak TLS, or the connection broke.
    #[error("the TLS handshake failed: {0}; does the server speak TLS?")]
    Broken(std::io::Error),
}

/// Does the handshake over a connection, with the identity of `store` as it is now. The stream that it returns fails
/// once the server is not believed any more.
///
/// # Errors
/// [`HandshakeError`].
pub async fn secure<S: AsyncRead + AsyncWrite + Unpin + Send + 'static>(
    store: &Arc<IdentityStore>,
    expected: &ExpectedServer,
    stream: S,
) -> Result<BelievedStream<S>, HandshakeError> {
    let credentials = store.current();
    let patience = limits::HANDSHAKE_PATIENCE.to_std();
    let stream =
        tokio::time::timeout(patience, handshake(&credentials, store.clock(), expected, stream))
            .await
            .unwrap_or(Err(HandshakeError::Silent))?;
    let chain = stream.get_ref().1.peer_certificates().unwrap_or_default();
    let chain: Vec<_> = chain.iter().map(|one| one.clone().into_owned()).collect();
    let none = HandshakeError::Broken(std::io::ErrorKind::InvalidData.into());
    // Whoever was verified has shown a certificate that can be read.
    let server = CertificateOwner::read(chain.first().ok_or(none)?);
    let server = server.map_err(HandshakeError::Server)?;
    let store = Arc::clone(store);
    let disbelieved = Box::pin(async move { store.disbelieved(&chain, Use::Server).await });
    Ok(BelievedStream { stream, server, disbelieved })
}

async fn handshake<S: AsyncRead + AsyncWrite + Unpin>(
    credentials: &Credentials,
    clock: &Clock,
    expected: &ExpectedServer,
    stream: S,
) -> Result<TlsStream<S>, HandshakeError> {
    let verifier = Arc::new(ServerVerifier {
        trust: Arc::clone(&credentials.trust),
        expected: expected.clone(),
        disbelief: Mutex::new(None),
    });
    let mut config = ClientConfig::builder_with_protocol_versions(&[&rustls::version::TLS13])
        .dangerous()
        .with_custom_certificate_verifier(Arc::clone(&verifier) as Arc<dyn ServerCertVerifier>)
        .with_client_cert_resolver(Arc::new(SingleCertAndKey::from(Arc::clone(
            &credentials.certified,
        ))));
    config.alpn_protocols = vec![b"h2".to_vec()];
    config.resumption = Resumption::disabled();
    config.time_provider = Arc::new(clock.clone());
    // The name is sent to the server, which has only one certificate and does not look at it.
    config.enable_sni = false;
    let name = ServerName::from(std::net::Ipv4Addr::LOCALHOST);
    let failed = |error: std::io::Error| {
        let disbelief = verifier.disbelief.lock().unwrap_or_else(PoisonError::into_inner).take();
        match (disbelief, told(&error)) {
            (Some(disbelief), _) => HandshakeError::Server(disbelief),
            (None, Some(alert)) => {
                let identity = credentials.owner.identity.clone();
                HandshakeError::Refused { identity, alert }
            }
            (None, None) => HandshakeError::Broken(error),
        }
    };
    let connector = TlsConnector::from(Arc::new(config));
    let mut stream = connector.connect(name, stream).await.map_err(&failed)?;
    let_in(&mut stream).await.map_err(&failed)?;
    Ok(stream)
}

/// Waits until the server has let us in: in TLS 1.3 it judges the client's certificate when the client has done its part.
///
/// # Errors
/// The server's alert (see [`told`]), or that the connection broke.
pub(crate) async fn let_in<S: AsyncRead + AsyncWrite + Unpin>(
    stream: &mut TlsStream<S>,
) -> std::io::Result<()> {
    std::future::poll_fn(|context| {
        let read = Pin::new(&mut *stream).poll_fill_buf(context).map_ok(<[u8]>::is_empty);
        if stream.get_ref().1.tls13_tickets_received() > 0 {
            return Poll::Ready(Ok(()));
        }
        match read {
            Poll::Ready(Ok(true)) => Poll::Ready(Err(std::io::ErrorKind::UnexpectedEof.into())),
            // A server that is not ours may speak first.
            Poll::Ready(Ok(false)) => Poll::Ready(Ok(())),
            Poll::Ready(Err(error)) => Poll::Ready(Err(error)),
            Poll::Pending => Poll::Pending,
        }
    })
    .await
}

/// The server's alert, in plain words, if an error was caused by one.
pub(crate) fn told(error: &std::io::Error) -> Option<String> {
    use rustls::AlertDescription as Alert;
    let rustls::Error::AlertReceived(alert) = error.get_ref()?.downcast_ref()? else { return None };
    let words = match alert {
        Alert::CertificateExpired => "our certificate has ended or is not valid yet",
        Alert::CertificateRevoked => "our certificate was revoked",
        Alert::UnknownCA => "it does not believe the authority of our domain",
        Alert::CertificateRequired => "it wants a certificate",
        Alert::BadCertificate => "our certificate states no usable identity",
        Alert::AccessDenied => "it expected somebody else",
        Alert::UnsupportedCertificate => "our certificate is not for clients",
        _ => return Some(format!("TLS alert {alert:?}")),
    };
    Some(words.to_owned())
}

/// Judges the certificate of one server.
#[derive(Debug)]
struct ServerVerifier {
    trust: Arc<Trust>,
    expected: ExpectedServer,
    /// Why the server was not believed. The library's own errors cannot say it.
    disbelief: Mutex<Option<Disbelief>>,
}

impl ServerCertVerifier for ServerVerifier {
    fn verify_server_cert(
        &self,
        certificate: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        let verified = self
            .trust
            .verify(certificate, intermediates, Use::Server, now)
            .and_then(|owner| self.expected.check(&owner.identity));
        verified.map(|()| ServerCertVerified::assertion()).map_err(|disbelief| {
            let error = alert(&disbelief);
            *self.disbelief.lock().unwrap_or_else(PoisonError::into_inner) = Some(disbelief);
            error
        })
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        rustls::crypto::verify_tls12_signature(message, certificate, signed, &algorithms())
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        rustls::crypto::verify_tls13_signature(message, certificate, signed, &algorithms())
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        algorithms().supported_schemes()
    }
}

/// A connection to a server that is believed. It fails once the server is not believed any more.
pub struct BelievedStream<S> {
    stream: TlsStream<S>,
    server: CertificateOwner,
    disbelieved: Pin<Box<dyn Future<Output = Disbelief> + Send>>,
}

impl<S> BelievedStream<S> {
    /// What the server's certificate says.
    #[must_use]
    pub const fn server(&self) -> &CertificateOwner {
        &self.server
    }

    /// Every poll calls this, so that the HTTP/2 library is woken whatever it waits for.
    fn check(&mut self, context: &mut Context<'_>) -> std::io::Result<()> {
        match self.disbelieved.as_mut().poll(context) {
            Poll::Ready(disbelief) => {
                tracing::warn!(%disbelief, "a connection ends, because the server is not believed any more");
                self.disbelieved = Box::pin(std::future::ready(disbelief));
                Err(std::io::ErrorKind::ConnectionAborted.into())
            }
            Poll::Pending => Ok(()),
        }
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncRead for BelievedStream<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<std::io::Result<()>> {
        self.check(context)?;
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncWrite for BelievedStream<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<std::io::Result<usize>> {
        self.check(context)?;
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
}
