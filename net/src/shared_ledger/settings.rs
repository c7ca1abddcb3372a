//! The part `daemon.shared_ledger` of a configuration, checked, and the connections to etcd.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::path::Path;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use coalloc_common::{InvalidField, limits};
use coalloc_etcd::Etcd;
use coalloc_ledger::shared::Membership;
use coalloc_proto::v1;
use http::Uri;
use hyper_util::rt::TokioIo;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tonic::transport::{Channel, Endpoint};
use tower_service::Service;

use crate::client::{check_address, endpoint};
use crate::identity::client::{let_in, told};
use crate::server::BoxStream;

/// How long etcd may take to say that it does not believe a certificate, if it says nothing when it does.
const REFUSAL_GRACE: Duration = Duration::from_millis(500);

const FIELD: &str = "daemon.shared_ledger";

/// A ledger that several processes share.
#[derive(Debug, Clone)]
pub struct SharedLedgerSettings {
    endpoints: Vec<(String, Endpoint)>,
    tls: Option<Arc<ClientConfig>>,
    /// Which of the members this process is.
    pub membership: Membership,
    /// Where each member serves, as host:port.
    pub addresses: BTreeMap<String, String>,
}

impl SharedLedgerSettings {
    /// Reads the settings. A relative path starts from `folder`.
    ///
    /// # Errors
    /// [`InvalidField`] for the first field that is wrong.
    pub fn parse(wire: &v1::SharedLedger, folder: &Path) -> Result<Self, InvalidField> {
        let field = |name: &str| format!("{FIELD}.{name}");
        if wire.endpoints.is_empty() {
            let allowed = "the addresses of etcd's members, as host:port";
            return Err(InvalidField::missing(field("endpoints"), allowed));
        }
        let tls = wire.tls.as_ref().map(|tls| client_config(tls, folder)).transpose()?;
        let endpoint = |(index, address): (usize, &String)| {
            let field = field(&format!("endpoints[{index}]"));
            let endpoint = endpoint(&field, address)?;
            if tls.is_none() && !is_loopback(address) {
                let allowed = "a loopback address, or `tls` beside it: whoever can write to etcd can \
                               decide in this ledger's name";
                return Err(InvalidField::new(field, address, allowed));
            }
            Ok((address.clone(), endpoint))
        };
        let endpoints =
            wire.endpoints.iter().enumerate().map(endpoint).collect::<Result<_, _>>()?;
        let is_plain = |text: &str, more: &str| {
            (1..=100).contains(&text.len())
                && text.chars().all(|c| c.is_ascii_alphanumeric() || more.contains(c))
        };
        if !is_plain(&wire.prefix, "-_./") {
            let allowed = "1 to 100 of the characters A-Z a-z 0-9 - _ . / for the keys of this ledger \
                           alone, like coalloc/grc";
            let value = InvalidField::quoted(&wire.prefix);
            return Err(InvalidField::new(field("prefix"), value, allowed));
        }
        let mut addresses = BTreeMap::new();
        for (index, member) in wire.members.iter().enumerate() {
            let field = |name: &str| field(&format!("members[{index}].{name}"));
            if !is_plain(&member.name, "-_.") {
                let allowed = "1 to 100 of the characters A-Z a-z 0-9 - _ .";
                let value = InvalidField::quoted(&member.name);
                return Err(InvalidField::new(field("name"), value, allowed));
            }
            check_address(&field("address"), &member.address)?;
            if addresses.insert(member.name.clone(), member.address.clone()).is_some() {
                let allowed = "each name once";
                return Err(InvalidField::new(field("name"), &member.name, allowed));
            }
        }
        if !addresses.contains_key(&wire.member) {
            let names: Vec<&str> = addresses.keys().map(String::as_str).collect();
            let allowed = format!("the name of one of `members`: {}", names.join(", "));
            let value = InvalidField::quoted(&wire.member);
            return Err(InvalidField::new(field("member"), value, allowed));
        }
        let (prefix, member) = (wire.prefix.clone(), wire.member.clone());
        let members = addresses.keys().cloned().collect();
        let membership = Membership { prefix, member, members };
        Ok(Self { endpoints, tls, membership, addresses })
    }

    /// A client of etcd. It connects when it is first used. Must be called within a tokio runtime.
    #[must_use]
    pub fn etcd(&self) -> Etcd {
        let channel = |(address, endpoint): &(String, Endpoint)| {
            let endpoint = endpoint.clone().connect_timeout(limits::ETCD_PATIENCE.to_std());
            let channel: Channel = match &self.tls {
                None => endpoint.connect_lazy(),
                Some(config) => {
                    let (config, address) = (Arc::clone(config), address.as_str().into());
                    endpoint.connect_with_connector_lazy(EtcdConnector { config, address })
                }
            };
            (address.clone(), channel)
        };
        Etcd::new(self.endpoints.iter().map(channel).collect(), limits::ETCD_PATIENCE.to_std())
    }
}

/// The host of a `host:port`.
fn host(address: &str) -> &str {
    let host = address.rsplit_once(':').map_or(address, |(host, _)| host);
    host.trim_start_matches('[').trim_end_matches(']')
}

fn is_loopback(address: &str) -> bool {
    let host = host(address);
    host == "localhost" || host.parse::<IpAddr>().is_ok_and(|ip| ip.is_loopback())
}

/// How connections to etcd are encrypted: etcd's certificates state hosts, and its users are certificates, too.
fn client_config(tls: &v1::EtcdTls, folder: &Path) -> Result<Arc<ClientConfig>, InvalidField> {
    let bad = |name: &str, file: &str, error: &dyn std::fmt::Display| {
        let (field, value) = (format!("{FIELD}.tls.{name}"), InvalidField::quoted(file));
        InvalidField::new(field, value, format!("a PEM file that can be used; {error}"))
    };
    let certificates = |name: &str, file: &str| {
        let read = CertificateDer::pem_file_iter(folder.join(file));
        let read = read.and_then(Iterator::collect::<Result<Vec<CertificateDer<'static>>, _>>);
        read.map_err(|error| bad(name, file, &error))
    };
    let mut roots = RootCertStore::empty();
    for root in certificates("authorities", &tls.authorities)? {
        roots.add(root).map_err(|error| bad("authorities", &tls.authorities, &error))?;
    }
    let chain = certificates("certificate", &tls.certificate)?;
    let key = PrivateKeyDer::from_pem_file(folder.join(&tls.key));
    let key = key.map_err(|error| bad("key", &tls.key, &error))?;
    let config = ClientConfig::builder_with_protocol_versions(&[&rustls::version::TLS13])
        .with_root_certificates(roots)
        .with_client_auth_cert(chain, key);
    let mut config = config.map_err(|error| bad("certificate", &tls.certificate, &error))?;
    config.alpn_protocols = vec![b"h2".to_vec()];
    Ok(Arc::new(config))
}

/// Connects to one member of etcd over TLS.
#[derive(Debug, Clone)]
struct EtcdConnector {
    config: Arc<ClientConfig>,
    address: Arc<str>,
}

impl Service<Uri> for EtcdConnector {
    type Response = TokioIo<BoxStream>;
    type Error = Box<dyn std::error::Error + Send + Sync>;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Self::Error>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, _: Uri) -> Self::Future {
        let Self { config, address } = self.clone();
        Box::pin(async move {
            let stream = TcpStream::connect(&*address).await?;
            stream.set_nodelay(true)?;
            let name = ServerName::try_from(host(&address).to_owned())?;
            let mut stream = TlsConnector::from(config).connect(name, stream).await?;
            // A server that sends no ticket says nothing when it lets a client in.
            if let Ok(Err(error)) = tokio::time::timeout(REFUSAL_GRACE, let_in(&mut stream)).await {
                return Err(match told(&error) {
                    Some(why) => {
                        format!("etcd does not let us in with our certificate: {why}").into()
                    }
                    None => error.into(),
                });
            }
            Ok(TokioIo::new(Box::new(stream) as BoxStream))
        })
    }
}
