//! A client that is not ours: it shows whatever it is given, believes every server, and calls any method with an empty
//! message.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use coalloc_cli::kit::authority::Issued;
use coalloc_common::Identity;
use http::Uri;
use http::uri::PathAndQuery;
use hyper_util::rt::TokioIo;
use prost::Message as _;
use rcgen::{
    CertificateParams, DistinguishedName, ExtendedKeyUsagePurpose, Issuer, KeyPair, SanType,
};
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::{AlertDescription, ClientConfig, DigitallySignedStruct, SignatureScheme};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tonic::client::Grpc;
use tonic::transport::{Channel, Endpoint};
use tonic::{Code, Request};

/// Calls at a time.
const AT_A_TIME: usize = 8;

/// What a client shows of itself.
#[derive(Clone)]
pub(super) enum Show {
    /// It does not even speak TLS.
    PlainText,
    /// No certificate.
    Nothing,
    /// A certificate and its key, as PEM.
    Certificate(String, String),
}

impl Show {
    pub(super) fn issued(issued: &Issued) -> Self {
        Self::Certificate(issued.certificate_pem.clone(), issued.key_pem.clone())
    }
}

/// A certificate of an authority for whatever names.
pub(super) fn leaf(
    authority_pem: &str,
    authority_key: &str,
    uris: &[&Identity],
    used: ExtendedKeyUsagePurpose,
) -> Show {
    let key = KeyPair::from_pem(authority_key).unwrap();
    let issuer = Issuer::from_ca_cert_pem(authority_pem, key).unwrap();
    let mut params = CertificateParams::default();
    params.distinguished_name = DistinguishedName::new();
    let uri =
        |identity: &&Identity| SanType::URI(identity.to_string().as_str().try_into().unwrap());
    params.subject_alt_names = uris.iter().map(uri).collect();
    params.subject_alt_names.push(SanType::DnsName("localhost".try_into().unwrap()));
    params.extended_key_usages = vec![used];
    params.use_authority_key_identifier_extension = true;
    let own = KeyPair::generate().unwrap();
    let certificate = params.signed_by(&own, &issuer).unwrap();
    Show::Certificate(certificate.pem(), own.serialize_pem())
}

/// The paths of all methods that daemons serve.
pub(super) fn methods() -> Vec<String> {
    let sets = [
        coalloc_proto::DESCRIPTORS,
        tonic_health::pb::FILE_DESCRIPTOR_SET,
        tonic_reflection::pb::v1::FILE_DESCRIPTOR_SET,
        tonic_reflection::pb::v1alpha::FILE_DESCRIPTOR_SET,
    ];
    let mut paths = Vec::new();
    for set in sets {
        let set = FileSet::decode(set).unwrap();
        for file in set.files {
            for service in file.services {
                for method in service.methods {
                    paths.push(format!("/{}.{}/{}", file.package, service.name, method.name));
                }
            }
        }
    }
    paths
}

#[derive(prost::Message)]
struct FileSet {
    #[prost(message, repeated, tag = "1")]
    files: Vec<File>,
}
#[derive(prost::Message)]
struct File {
    #[prost(string, tag = "2")]
    package: String,
    #[prost(message, repeated, tag = "6")]
    services: Vec<Service>,
}
#[derive(prost::Message)]
struct Service {
    #[prost(string, tag = "1")]
    name: String,
    #[prost(message, repeated, tag = "2")]
    methods: Vec<Method>,
}
#[derive(prost::Message)]
struct Method {
    #[prost(string, tag = "1")]
    name: String,
}

/// Calls a method with an empty message, and says how that ended. A connection that the server refuses or drops is
/// UNAVAILABLE, whatever the client's library makes of it.
pub(super) async fn call(address: &str, show: &Show, path: &str) -> Code {
    let endpoint = Endpoint::from_shared(format!("http://{address}")).unwrap();
    let channel = match show {
        Show::PlainText => endpoint.connect_lazy(),
        Show::Nothing => tls(&endpoint, address, None),
        Show::Certificate(certificate, key) => tls(&endpoint, address, Some((certificate, key))),
    };
    let mut client = Grpc::new(channel);
    if client.ready().await.is_err() {
        return Code::Unavailable;
    }
    let codec = tonic_prost::ProstCodec::<(), ()>::default();
    let path = PathAndQuery::try_from(path).unwrap();
    let said = match client.server_streaming(Request::new(()), path, codec).await {
        Ok(answer) => answer.into_inner().message().await.err(),
        Err(status) => Some(status),
    };
    let Some(status) = said else { return Code::Ok };
    // A status of the server has trailers; what the library makes of a broken connection has a cause instead.
    match std::error::Error::source(&status) {
        Some(_) => Code::Unavailable,
        None => status.code(),
    }
}

/// Calls each of these methods, some of them at a time, and says how each ended.
pub(super) async fn call_each(
    address: &str,
    show: &Show,
    paths: impl IntoIterator<Item = String>,
) -> Vec<(String, Code)> {
    let (mut ended, mut calls) = (Vec::new(), JoinSet::new());
    for path in paths {
        // Denials come after a pause.
        if calls.len() == AT_A_TIME {
            ended.extend(calls.join_next().await.map(Result::unwrap));
        }
        let (address, show) = (address.to_owned(), show.clone());
        calls.spawn(async move {
            let said = call(&address, &show, &path).await;
            (path, said)
        });
    }
    ended.extend(calls.join_all().await);
    ended
}

/// The certificate that a server shows to a client that shows none.
pub(super) async fn certificate_of(address: &str) -> Vec<u8> {
    let name = ServerName::try_from("localhost").unwrap();
    let stream = TcpStream::connect(address).await.unwrap();
    // In TLS 1.3 the client is done before the server judges it.
    let stream = TlsConnector::from(Arc::new(settings(None))).connect(name, stream).await.unwrap();
    stream.get_ref().1.peer_certificates().unwrap()[0].to_vec()
}

/// The alert with which a server ends the handshake of a client; `None` when it ends it in another way, or not at all.
pub(super) async fn alert_to(address: &str, show: &Show) -> Option<AlertDescription> {
    let shown = match show {
        Show::PlainText => return None,
        Show::Nothing => None,
        Show::Certificate(certificate, key) => Some((certificate, key)),
    };
    let stream = TcpStream::connect(address).await.unwrap();
    let name = ServerName::try_from("localhost").unwrap();
    let stream = TlsConnector::from(Arc::new(settings(shown))).connect(name, stream).await;
    // Nothing is written here: what the server has not read when it closes would take its alert away.
    let error = match stream {
        Ok(mut stream) => stream.read_u8().await.err()?,
        Err(error) => error,
    };
    match error.get_ref()?.downcast_ref()? {
        rustls::Error::AlertReceived(alert) => Some(*alert),
        _ => None,
    }
}

/// The whole answer of a web listener to a request of HTTP/1.1 after which the connection is closed.
pub(super) async fn https(
    address: &str,
    shown: Option<(&String, &String)>,
    request: &str,
) -> String {
    let mut config = settings(shown);
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    let stream = TcpStream::connect(address).await.unwrap();
    let name = ServerName::try_from("localhost").unwrap();
    let mut stream = TlsConnector::from(Arc::new(config)).connect(name, stream).await.unwrap();
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut answer = Vec::new();
    // A server may close without saying so in TLS; what matters is whether the answer is whole, which its reader sees.
    let _ = stream.read_to_end(&mut answer).await;
    String::from_utf8(answer).unwrap()
}

fn tls(endpoint: &Endpoint, address: &str, shown: Option<(&String, &String)>) -> Channel {
    let connector = Connector(Arc::new(settings(shown)), address.to_owned());
    endpoint.connect_with_connector_lazy(connector)
}

fn settings(shown: Option<(&String, &String)>) -> ClientConfig {
    let config = ClientConfig::builder_with_protocol_versions(&[&rustls::version::TLS13])
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(BelievesAll));
    let mut config = match shown {
        None => config.with_no_client_auth(),
        Some((certificate, key)) => {
            let chain = CertificateDer::pem_slice_iter(certificate.as_bytes());
            let chain = chain.collect::<Result<Vec<_>, _>>().unwrap();
            let key = PrivateKeyDer::from_pem_slice(key.as_bytes()).unwrap();
            config.with_client_auth_cert(chain, key).unwrap()
        }
    };
    config.alpn_protocols = vec![b"h2".to_vec()];
    config
}

struct Connector(Arc<ClientConfig>, String);

impl tower_service::Service<Uri> for Connector {
    type Response = TokioIo<TlsStream<TcpStream>>;
    type Error = std::io::Error;
    type Future = Pin<Box<dyn Future<Output = std::io::Result<Self::Response>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, _: Uri) -> Self::Future {
        let (connector, address) = (TlsConnector::from(Arc::clone(&self.0)), self.1.clone());
        Box::pin(async move {
            let stream = TcpStream::connect(address).await?;
            let name = ServerName::try_from("localhost").unwrap();
            Ok(TokioIo::new(connector.connect(name, stream).await?))
        })
    }
}

#[derive(Debug)]
struct BelievesAll;

impl ServerCertVerifier for BelievesAll {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn verify_tls13_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        rustls::crypto::ring::default_provider()
            .signature_verification_algorithms
            .supported_schemes()
    }
}
