//! Who may make which call: one layer in front of all handlers, which denies whatever is not allowed.
//!
//! * [`matrix`]: every method, and the kinds of callers that may use it. A method without a row is denied to all.
//! * [`roster`]: who is who at this daemon. It makes a [`Caller`] of a proven identity.
//! * [`layer`]: judges a call by its method, before anything of its message is decoded.
//!
//! The layer knows methods only. Whether a message speaks of the caller's own things is seen by its handler, which asks
//! the [`Caller`].
//!
//! Left out: how an identity is proven ([`crate::identity`], [`crate::tokens`]). Source: docs/adr/0042-identity.md.

pub mod layer;
pub mod matrix;
pub mod roster;

use std::fmt;
use std::sync::Arc;

use coalloc_common::{
    CoordinatorName, Identity, InvalidField, Requester, RmName, TransactionId, UserName,
};
use coalloc_ledger::tip::hex;
use coalloc_protocol::{Causer, ProvenPeer};
use tonic::{Request, Status};

use crate::identity::server::ProvenClient;
use crate::status;

/// A kind of caller.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Party {
    /// A user, for itself.
    User,
    /// An operator of this daemon.
    Operator,
    /// An auditor of this daemon.
    Auditor,
    /// A coordinator that this daemon's configuration names.
    Coordinator,
    /// A resource manager that this daemon's configuration names.
    ResourceManager,
    /// Anybody who has proven an identity, whichever it is.
    Identified,
}

impl Party {
    const fn bit(self) -> u8 {
        1 << self as u8
    }

    const fn words(self) -> &'static str {
        match self {
            Self::User => "users",
            Self::Operator => "operators",
            Self::Auditor => "auditors",
            Self::Coordinator => "coordinators of its configuration",
            Self::ResourceManager => "resource managers of its configuration",
            Self::Identified => "everybody with an identity",
        }
    }
}

/// Whoever makes a call, and what has been proven of it. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Caller(Arc<CallerFacts>);

#[derive(Debug)]
struct CallerFacts {
    proof: Proof,
    /// What the caller is here, as bits of [`Party`]; it may be several things.
    parties: u8,
    user: Option<UserName>,
    coordinator: Option<CoordinatorName>,
    rm: Option<RmName>,
}

/// Whose share of something limited a call takes. In plain text, all callers are one. A user is the same by certificate
/// and by token.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum CallerKey {
    /// Everybody in plain text.
    PlainText,
    /// Everybody who has shown nothing.
    Nothing,
    /// A user, by its name at this daemon.
    User(UserName),
    /// The owner of a certificate who is no user here.
    Owner(Identity),
    /// The subject of a token who is no user here: its issuer, and SHA-256 of the subject.
    Subject(Arc<str>, [u8; 32]),
}

/// How a caller has proven who it is.
#[derive(Debug, Clone)]
pub enum Proof {
    /// Nothing is proven, because this daemon serves in plain text. Everything is allowed, on loopback.
    PlainText,
    /// Nothing was shown.
    Nothing,
    /// By the certificate of its connection.
    Certificate(Arc<ProvenClient>),
    /// By a token of this issuer.
    Token {
        /// The issuer.
        issuer: Arc<str>,
        /// SHA-256 of the subject.
        subject_digest: [u8; 32],
    },
}

impl Caller {
    /// The caller at a daemon that serves in plain text: it may be anybody.
    #[must_use]
    pub fn plain_text() -> Self {
        Self::of(Proof::PlainText)
    }

    fn of(proof: Proof) -> Self {
        Self(Arc::new(CallerFacts { proof, parties: 0, user: None, coordinator: None, rm: None }))
    }

    /// The caller of a request that has passed the layer.
    ///
    /// # Errors
    /// INTERNAL when the request has not passed the layer.
    pub fn of_request<T>(request: &Request<T>) -> Result<Self, Status> {
        let caller = request.extensions().get::<Self>().cloned();
        caller.ok_or_else(|| status::internal("a call has bypassed the authorization"))
    }

    fn is(&self, party: Party) -> bool {
        self.0.parties & party.bit() != 0
    }

    fn is_unjudged(&self) -> bool {
        matches!(self.0.proof, Proof::PlainText)
    }

    /// How the caller has proven who it is.
    #[must_use]
    pub fn proof(&self) -> &Proof {
        &self.0.proof
    }

    /// The caller, as the causer of what is recorded because of its call (I20).
    #[must_use]
    pub fn causer(&self) -> Causer {
        match &self.0.proof {
            Proof::PlainText | Proof::Nothing => Causer::unproven(),
            Proof::Certificate(client) => client.causer.clone(),
            Proof::Token { issuer, subject_digest } => Causer::peer(ProvenPeer {
                peer: self.0.user.as_ref().map(ToString::to_string).unwrap_or_default(),
                issuer: Some(issuer.to_string()),
                subject: Some(hex(subject_digest)),
            }),
        }
    }

    /// Whose share of something limited a call of this caller takes.
    #[must_use]
    pub fn key(&self) -> CallerKey {
        match (&self.0.user, &self.0.proof) {
            (Some(user), _) => CallerKey::User(user.clone()),
            (None, Proof::PlainText) => CallerKey::PlainText,
            (None, Proof::Nothing) => CallerKey::Nothing,
            (None, Proof::Certificate(client)) => CallerKey::Owner(client.owner.identity.clone()),
            (None, Proof::Token { issuer, subject_digest }) => {
                CallerKey::Subject(Arc::clone(issuer), *subject_digest)
            }
        }
    }

    /// Whether the caller is an operator of this daemon, or anybody in plain text.
    #[must_use]
    pub fn is_operator(&self) -> bool {
        self.is_unjudged() || self.is(Party::Operator)
    }

    /// Whether the caller may read what belongs to all: an operator or an auditor, or anybody in plain text.
    #[must_use]
    pub fn reads_all(&self) -> bool {
        self.is_operator() || self.is(Party::Auditor)
    }

    /// Checks that the caller may act for a user: a user for itself, an operator for anybody.
    ///
    /// # Errors
    /// PERMISSION_DENIED. `field` is the field that names the user.
    pub fn check_acts_for(&self, field: &str, user: &str) -> Result<(), Status> {
        let own = self.0.user.as_ref().map(UserName::as_str);
        if self.is_operator() || own == Some(user) {
            return Ok(());
        }
        let (user, own) = (InvalidField::quoted(user), own.unwrap_or("nobody"));
        Err(self.denied(&format!("{field}: {user} is somebody else; your name here is {own}")))
    }

    /// Whether the caller may see what belongs to a user.
    #[must_use]
    pub fn sees(&self, user: &str) -> bool {
        self.reads_all() || self.0.user.as_ref().is_some_and(|own| own.as_str() == user)
    }

    /// The only user whose things the caller may see; `None` when it may see everybody's.
    ///
    /// # Errors
    /// PERMISSION_DENIED when the caller is no user and may not read what belongs to all.
    pub fn only_user(&self) -> Result<Option<&UserName>, Status> {
        if self.reads_all() {
            return Ok(None);
        }
        self.0.user.as_ref().map(Some).ok_or_else(|| self.denied("it belongs to users"))
    }

    /// Checks that the caller is this coordinator.
    ///
    /// # Errors
    /// PERMISSION_DENIED. `field` is the field that names the coordinator.
    pub fn check_is_coordinator(&self, field: &str, name: &CoordinatorName) -> Result<(), Status> {
        if self.is_unjudged() || self.0.coordinator.as_ref() == Some(name) {
            return Ok(());
        }
        Err(self.denied(&format!("{field}: {:?} is another coordinator", name.as_str())))
    }

    /// Checks that the caller is this coordinator or an operator of this daemon (I21).
    ///
    /// # Errors
    /// PERMISSION_DENIED. `field` is the field that names the coordinator.
    pub fn check_ends_for(&self, field: &str, name: &CoordinatorName) -> Result<(), Status> {
        if self.is_operator() {
            return Ok(());
        }
        self.check_is_coordinator(field, name)
    }

    /// Whose service level counts for what this caller is shown. Operators and auditors see all, and in plain text
    /// nobody knows which coordinator it is.
    #[must_use]
    pub fn requester(&self) -> Requester {
        match &self.0.coordinator {
            Some(own) => Requester::Coordinator(own.clone()),
            None if self.is(Party::Operator) || self.is(Party::Auditor) => Requester::Staff,
            None => Requester::Unknown,
        }
    }

    /// Checks that a transaction which a query would replace is one of the caller's own, if the caller is a
    /// coordinator.
    ///
    /// # Errors
    /// PERMISSION_DENIED when it is another coordinator's.
    pub fn check_replaces(&self, replaced: Option<&TransactionId>) -> Result<(), Status> {
        match (replaced, &self.0.coordinator) {
            (Some(txn), Some(own)) if !self.reads_all() && !txn.is_of(own) => {
                Err(self.denied(&format!("replaces: {txn} is a transaction of somebody else")))
            }
            _ => Ok(()),
        }
    }

    /// Checks that the caller is this resource manager.
    ///
    /// # Errors
    /// PERMISSION_DENIED. `field` is the field that names the resource manager.
    pub fn check_is_rm(&self, field: &str, name: &str) -> Result<(), Status> {
        if self.is_unjudged() || self.0.rm.as_ref().is_some_and(|rm| rm.as_str() == name) {
            return Ok(());
        }
        let name = InvalidField::quoted(name);
        Err(self.denied(&format!("{field}: {name} is another resource manager")))
    }

    /// PERMISSION_DENIED for this caller, with the reason. Also counts and logs it.
    #[must_use]
    pub fn denied(&self, reason: &str) -> Status {
        layer::note_denial("not_allowed", &format!("{self}: {reason}"));
        status::denied(format!("{self} may not do this: {reason}"))
    }
}

impl fmt::Display for Caller {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0.proof {
            Proof::PlainText => f.write_str("a caller in plain text"),
            Proof::Nothing => f.write_str("a caller without an identity"),
            Proof::Certificate(client) => write!(f, "{}", client.owner.identity),
            Proof::Token { issuer, .. } => {
                let user = self.0.user.as_ref().map_or("", UserName::as_str);
                write!(f, "user {user} of {:?}", &**issuer)
            }
        }
    }
}
