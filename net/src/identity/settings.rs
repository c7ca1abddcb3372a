//! How a daemon proves who it is, and whom it serves: the part `daemon.identity` of a configuration, checked.
//!
//! A daemon either has an identity, or it serves in plain text on loopback, where everybody may do everything.
//!
//! Left out: the other settings of a daemon ([`crate::daemon`]).

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use coalloc_common::{CoordinatorName, Identity, InvalidField, RmName, Role, TrustDomain, limits};
use coalloc_proto::v1;
use coalloc_protocol::authorization;

use super::client::ExpectedServer;
use super::server::{ClientCertificates, TlsServer};
use super::store::IdentityStore;
use crate::authorization::call_rates::{CallQuotas, CallRates};
use crate::authorization::layer::Authorization;
use crate::authorization::roster::Roster;
use crate::client::{Destination, Dialer};
use crate::clock::Clock;
use crate::leadership::Leadership;
use crate::tokens::{TokenIssuers, TokenVerifier};

/// How a daemon proves who it is, and whom it believes.
#[derive(Debug, Clone)]
pub enum Security {
    /// Calls are neither encrypted nor authenticated.
    PlainText,
    /// The daemon and its callers prove who they are.
    Proven(DaemonIdentity),
}

/// The identity of a daemon.
#[derive(Debug, Clone)]
pub struct DaemonIdentity {
    /// The folder with its certificate.
    pub store: Arc<IdentityStore>,
    /// Operators, besides those of the daemon's own domain.
    pub operators: BTreeSet<Identity>,
    /// Auditors, besides those of the daemon's own domain.
    pub auditors: BTreeSet<Identity>,
    /// Who issues tokens to users; `None`: nobody.
    pub tokens: Option<TokenSource>,
}

/// Who may connect to a server, and who may call what.
#[derive(Debug, Clone)]
pub struct Access {
    /// `None`: connections are in plain text.
    pub tls: Option<TlsServer>,
    /// Who may call what.
    pub authorization: Authorization,
    /// Counts the calls of users; `None`: they are not limited.
    pub call_rates: Option<Arc<CallRates>>,
    /// The clock by which calls are counted.
    pub clock: Clock,
    /// Whether the process may answer; `None`: its ledger is not shared, and it always may.
    pub leadership: Option<Leadership>,
}

impl Access {
    /// Everybody may do everything, in plain text.
    #[must_use]
    pub fn plain_text() -> Self {
        let (authorization, clock) = (Authorization::PlainText, Clock::system());
        Self { tls: None, authorization, call_rates: None, clock, leadership: None }
    }

    /// The same access, for a process that may answer only while it leads.
    #[must_use]
    pub fn with_leadership(self, leadership: Leadership) -> Self {
        Self { leadership: Some(leadership), ..self }
    }

    /// The same access, with a limit on the calls of each proven user.
    #[must_use]
    pub fn with_call_quotas(self, quotas: CallQuotas) -> Self {
        Self { call_rates: Some(Arc::new(CallRates::new(quotas))), ..self }
    }
}

impl Security {
    /// Reads the settings of a daemon that listens on `listen`. A relative path starts from `folder`.
    ///
    /// # Errors
    /// [`InvalidField`] when a field is wrong, or when the daemon would serve others in plain text.
    pub fn parse(
        wire: &v1::Daemon,
        listen: SocketAddr,
        folder: &Path,
    ) -> Result<Self, InvalidField> {
        match (&wire.identity, wire.insecure_plaintext) {
            (Some(identity), false) => Ok(Self::Proven(DaemonIdentity::parse(identity, folder)?)),
            (Some(_), true) => {
                let field = "daemon.insecure_plaintext";
                Err(InvalidField::new(field, true, "false, or no `identity` beside it"))
            }
            (None, true) if listen.ip().is_loopback() => Ok(Self::PlainText),
            (None, true) => {
                let allowed = "a loopback address with `insecure_plaintext: true`; everywhere else \
                               a daemon needs `identity`";
                Err(InvalidField::new("daemon.listen", listen, allowed))
            }
            (None, false) => {
                let allowed = "`identity: {folder: ...}` (`coalloc certs issue` makes the folder), \
                               or `insecure_plaintext: true` on a loopback address";
                Err(InvalidField::missing("daemon.identity", allowed))
            }
        }
    }

    /// Checks that the daemon's certificate is its own.
    ///
    /// # Errors
    /// [`InvalidField`] when it has another role or name.
    pub fn check_owner(&self, role: Role, name: &str) -> Result<(), InvalidField> {
        let Self::Proven(identity) = self else { return Ok(()) };
        identity.store.check_owner(role, name).map_err(|error| {
            let field = "daemon.identity.folder";
            InvalidField::new(field, error, format!("a certificate of the {role} {name}"))
        })
    }

    /// Connects to other daemons as this one.
    #[must_use]
    pub fn dialer(&self) -> Dialer {
        match self {
            Self::PlainText => Dialer::plain_text(),
            Self::Proven(identity) => Dialer::with_identity(Arc::clone(&identity.store)),
        }
    }

    /// Another daemon of the configuration: where it is, and who has to answer there. `field` is the peer's field, and
    /// `role` the role that it has here unless its identity says otherwise.
    ///
    /// # Errors
    /// [`InvalidField`] when its address or its identity is wrong.
    pub fn destination(
        &self,
        field: &str,
        peer: &v1::Peer,
        role: Role,
    ) -> Result<Destination, InvalidField> {
        let identity_field = format!("{field}.identity");
        if role != Role::ResourceManager && !peer.owns.is_empty() {
            let allowed = "nothing: only a coordinator says what its resource managers own";
            return Err(InvalidField::new(format!("{field}.owns"), peer.owns.len(), allowed));
        }
        let expected = match self {
            Self::PlainText if peer.identity.is_empty() => None,
            Self::PlainText => {
                let allowed = "no identity, because this daemon calls in plain text";
                let value = InvalidField::quoted(&peer.identity);
                return Err(InvalidField::new(identity_field, value, allowed));
            }
            Self::Proven(own) if peer.identity.is_empty() => {
                let domain = own.store.identity().domain;
                Some(Identity::new(&format!("{field}.name"), domain, role, &peer.name)?)
            }
            Self::Proven(_) => {
                let identity = Identity::parse(&identity_field, &peer.identity)?;
                if !matches!(identity.role, Role::Coordinator | Role::ResourceManager) {
                    let allowed = "the identity of a coordinator or a resource manager";
                    return Err(InvalidField::new(identity_field, identity, allowed));
                }
                Some(identity)
            }
        };
        let expected = expected.map(ExpectedServer::Exactly);
        Destination::new(&format!("{field}.address"), &peer.address, expected)
    }

    /// Who may connect to this daemon, and who may call what.
    #[must_use]
    pub fn access(
        &self,
        certificates: ClientCertificates,
        coordinators: &BTreeMap<CoordinatorName, Destination>,
        rms: &BTreeMap<RmName, Destination>,
    ) -> Access {
        let Self::Proven(identity) = self else { return Access::plain_text() };
        let identities = authorization::Roster {
            domain: identity.store.identity().domain,
            operators: identity.operators.clone(),
            auditors: identity.auditors.clone(),
            coordinators: by_identity(coordinators),
            rms: by_identity(rms),
        };
        let roster = Roster {
            identities,
            tokens: identity.tokens.as_ref().map(|tokens| Arc::clone(&tokens.verifier)),
            clock: identity.store.clock().clone(),
        };
        Access {
            tls: Some(TlsServer::new(Arc::clone(&identity.store), certificates)),
            authorization: Authorization::Roster(Arc::new(roster)),
            call_rates: None,
            clock: identity.store.clock().clone(),
            leadership: None,
        }
    }

    /// Has the files of the identity read again whenever they change. Must be called within a tokio runtime.
    pub fn follow(&self) {
        if let Self::Proven(identity) = self {
            tokio::spawn(Arc::clone(&identity.store).follow());
            if let Some(tokens) = &identity.tokens {
                tokio::spawn(tokens.clone().follow());
            }
        }
    }
}

impl DaemonIdentity {
    fn parse(wire: &v1::IdentitySettings, folder: &Path) -> Result<Self, InvalidField> {
        let field = "daemon.identity.folder";
        if wire.folder.is_empty() {
            let allowed = "a folder with certificate.pem, key.pem and trust/";
            return Err(InvalidField::new(field, "\"\"", allowed));
        }
        let store = IdentityStore::open(&folder.join(&wire.folder)).map_err(|error| {
            let allowed = format!("a folder with an identity in force; {error}");
            InvalidField::new(field, InvalidField::quoted(&wire.folder), allowed)
        })?;
        let operators = staff("daemon.identity.operators", &wire.operators, Role::Operator)?;
        let auditors = staff("daemon.identity.auditors", &wire.auditors, Role::Auditor)?;
        let tokens = TokenSource::read(&store.identity().domain, &wire.token_issuers, folder)?;
        Ok(Self { store, operators, auditors, tokens })
    }
}

/// The issuers of users' tokens, and the files with their keys.
#[derive(Debug, Clone)]
pub struct TokenSource {
    domain: TrustDomain,
    issuers: Vec<v1::TokenIssuer>,
    folder: PathBuf,
    verifier: Arc<TokenVerifier>,
}

impl TokenSource {
    fn read(
        domain: &TrustDomain,
        issuers: &[v1::TokenIssuer],
        folder: &Path,
    ) -> Result<Option<Self>, InvalidField> {
        if issuers.is_empty() {
            return Ok(None);
        }
        let verifier = Arc::new(TokenVerifier::new(TokenIssuers::read(domain, issuers, folder)?));
        let (domain, issuers, folder) = (domain.clone(), issuers.to_vec(), folder.to_owned());
        Ok(Some(Self { domain, issuers, folder, verifier }))
    }

    /// What the files of keys hold now. A file that cannot be read is empty here; reading the keys says why.
    fn files(&self) -> Vec<Vec<u8>> {
        let paths = self.issuers.iter().map(|issuer| self.folder.join(&issuer.keys));
        paths.map(|path| std::fs::read(path).unwrap_or_default()).collect()
    }

    /// Reads the keys again whenever their files have changed, for as long as the runtime lives. Keys that cannot be
    /// used are told, and those before stay in force.
    async fn follow(self) {
        let mut seen = self.files();
        loop {
            tokio::time::sleep(limits::IDENTITY_POLL.to_std()).await;
            let files = self.files();
            if files == seen {
                continue;
            }
            seen = files;
            match TokenIssuers::read(&self.domain, &self.issuers, &self.folder) {
                Ok(issuers) => {
                    tracing::info!("the keys of token issuers were read again");
                    self.verifier.replace(issuers);
                }
                Err(error) => {
                    crate::metrics::net().identity_refused.inc();
                    tracing::warn!(%error, "the new keys of token issuers cannot be used; the old ones stay in force");
                }
            }
        }
    }
}

fn staff(field: &str, wire: &[String], role: Role) -> Result<BTreeSet<Identity>, InvalidField> {
    let one = |(index, text): (usize, &String)| {
        let field = format!("{field}[{index}]");
        let identity = Identity::parse(&field, text)?;
        if identity.role == role {
            return Ok(identity);
        }
        Err(InvalidField::new(field, identity, format!("an identity of the role {role}")))
    };
    wire.iter().enumerate().map(one).collect()
}

fn by_identity<N: Clone>(peers: &BTreeMap<N, Destination>) -> BTreeMap<Identity, N> {
    let named = peers.iter().filter_map(|(name, peer)| match &peer.expected {
        Some(ExpectedServer::Exactly(identity)) => Some((identity.clone(), name.clone())),
        Some(ExpectedServer::AnyDaemon) | None => None,
    });
    named.collect()
}
