//! The server's end of a TLS connection.
//!
//! The server sends one session ticket after it has judged the client's certificate. Nobody can resume a session with
//! it: a resumed session would bring back a certificate that was judged by older rules. The ticket only tells the
//! client that it was let in (see [`super::client`]); in TLS 1.3 nothing else does.
//!
//! Left out: how many connections there may be ([`crate::server`]).

use std::sync::Arc;

use coalloc_protocol::Causer;
use rustls::client::danger::HandshakeSignatureValid;
use rustls::pki_types::{CertificateDer, UnixTime};
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::server::{ServerConfig, StoresServerSessions};
use rustls::sign::{CertifiedKey, SingleCertAndKey};
use rustls::{CertificateError, DigitallySignedStruct, DistinguishedName, SignatureScheme};
use tokio_rustls::TlsAcceptor;

use super::Disbelief;
use super::certificate::CertificateOwner;
use super::store::IdentityStore;
use super::trust::{Trust, Use, algorithms};
use crate::authorization::layer::note_denial;
use crate::clock::Clock;
use crate::server::BoxStream;

/// Whether clients have to show a certificate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ClientCertificates {
    /// Only who has a certificate may connect.
    Required,
    /// Who has none may connect, and has to prove its identity in another way.
    Optional,
}

/// A client whose certificate was believed when it connected.
#[derive(Debug, Clone)]
pub struct ProvenClient {
    /// The owner of the certificate.
    pub owner: CertificateOwner,
    /// The certificate, and those of its issuers.
    pub chain: Vec<CertificateDer<'static>>,
    /// The owner, as the causer of what follows from its messages.
    pub causer: Causer,
}

/// The settings of all kinds of server.
#[derive(Debug)]
pub(super) struct Settings {
    required: Arc<ServerConfig>,
    optional: Arc<ServerConfig>,
    web: Arc<ServerConfig>,
}

impl Settings {
    pub(super) fn new(certified: &Arc<CertifiedKey>, trust: &Arc<Trust>, clock: &Clock) -> Self {
        let of = |certificates, protocol: &[u8]| {
            let verifier = Arc::new(ClientVerifier { trust: Arc::clone(trust), certificates });
            let mut config =
                ServerConfig::builder_with_protocol_versions(&[&rustls::version::TLS13])
                    .with_client_cert_verifier(verifier)
                    .with_cert_resolver(Arc::new(SingleCertAndKey::from(Arc::clone(certified))));
            config.alpn_protocols = vec![protocol.to_vec()];
            config.session_storage = Arc::new(NothingIsResumed);
            config.send_tls13_tickets = 1;
            config.time_provider = Arc::new(clock.clone());
            Arc::new(config)
        };
        Self {
            required: of(ClientCertificates::Required, b"h2"),
            optional: of(ClientCertificates::Optional, b"h2"),
            web: of(ClientCertificates::Optional, b"http/1.1"),
        }
    }
}

/// The server's end of all its TLS connections.
#[derive(Debug, Clone)]
pub struct TlsServer {
    store: Arc<IdentityStore>,
    certificates: ClientCertificates,
    is_web: bool,
}

impl TlsServer {
    /// A server that shows the certificate of `store`, as it is when a client connects.
    #[must_use]
    pub const fn new(store: Arc<IdentityStore>, certificates: ClientCertificates) -> Self {
        Self { store, certificates, is_web: false }
    }

    /// The same server for browsers: its clients speak HTTP/1.1, and need no certificate.
    #[must_use]
    pub fn for_web(&self) -> Self {
        Self { is_web: true, certificates: ClientCertificates::Optional, ..self.clone() }
    }

    /// The identity of this server, and who it believes.
    #[must_use]
    pub const fn store(&self) -> &Arc<IdentityStore> {
        &self.store
    }

    /// Does the handshake with a client. Also says who the client is, if it has shown a certificate.
    ///
    /// # Errors
    /// When the client does not speak TLS 1.3, or its certificate is missing or not believed. The client was told.
    pub async fn accept(
        &self,
        stream: BoxStream,
    ) -> std::io::Result<(BoxStream, Option<Arc<ProvenClient>>)> {
        let current = self.store.current();
        let settings = match self.certificates {
            _ if self.is_web => &current.servers.web,
            ClientCertificates::Required => &current.servers.required,
            ClientCertificates::Optional => &current.servers.optional,
        };
        let stream = TlsAcceptor::from(Arc::clone(settings)).accept(stream).await?;
        let client = match stream.get_ref().1.peer_certificates() {
            None | Some([]) => None,
            Some(chain) => {
                let chain: Vec<_> = chain.iter().map(|one| one.clone().into_owned()).collect();
                // The handshake has read this certificate once already; this cannot fail any more.
                let owner = CertificateOwner::read(&chain[0]).map_err(std::io::Error::other)?;
                let causer = owner.causer();
                Some(Arc::new(ProvenClient { owner, chain, causer }))
            }
        };
        Ok((Box::new(stream), client))
    }
}

/// Judges the certificates of clients.
#[derive(Debug)]
struct ClientVerifier {
    trust: Arc<Trust>,
    certificates: ClientCertificates,
}

impl ClientCertVerifier for ClientVerifier {
    fn client_auth_mandatory(&self) -> bool {
        self.certificates == ClientCertificates::Required
    }

    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        &[]
    }

    fn verify_client_cert(
        &self,
        certificate: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> Result<ClientCertVerified, rustls::Error> {
        match self.trust.verify(certificate, intermediates, Use::Client, now) {
            Ok(_) => Ok(ClientCertVerified::assertion()),
            Err(disbelief) => {
                note_denial("disbelieved", &disbelief.to_string());
                Err(alert(&disbelief))
            }
        }
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

/// The error of the TLS library for a certificate that is not believed; it chooses the alert that the other end gets.
pub(super) fn alert(disbelief: &Disbelief) -> rustls::Error {
    let error = match disbelief {
        Disbelief::NoIdentity(_) => CertificateError::BadEncoding,
        Disbelief::UnknownDomain(_) => CertificateError::UnknownIssuer,
        Disbelief::Unexpected { .. } => CertificateError::ApplicationVerificationFailure,
        Disbelief::Invalid { reason, .. } => match reason {
            webpki::Error::CertExpired { .. } => CertificateError::Expired,
            webpki::Error::CertNotValidYet { .. } => CertificateError::NotValidYet,
            webpki::Error::CertRevoked => CertificateError::Revoked,
            // An authority of the same name with another key, say one that was made anew, is not ours either.
            webpki::Error::UnknownIssuer | webpki::Error::InvalidSignatureForPublicKey => {
                CertificateError::UnknownIssuer
            }
            webpki::Error::UnknownRevocationStatus => CertificateError::UnknownRevocationStatus,
            webpki::Error::RequiredEkuNotFoundContext(_) => CertificateError::InvalidPurpose,
            _ => CertificateError::BadEncoding,
        },
    };
    error.into()
}

/// Keeps no session, but has tickets sent; see the module's text.
#[derive(Debug)]
struct NothingIsResumed;

impl StoresServerSessions for NothingIsResumed {
    fn put(&self, _: Vec<u8>, _: Vec<u8>) -> bool {
        true
    }

    fn get(&self, _: &[u8]) -> Option<Vec<u8>> {
        None
    }

    fn take(&self, _: &[u8]) -> Option<Vec<u8>> {
        None
    }

    fn can_cache(&self) -> bool {
        true
    }
}
