//! Who may make which call: one layer in front of all handlers, which denies whatever is not allowed.
//!
//! * [`roster`]: who is who at this daemon. It makes a [`Caller`] of what a connection or a token has proven.
//! * [`call_rates`]: how many calls a second a user may make.
//! * [`layer`]: judges a call by its method, before anything of its message is decoded.
//! * [`absent`]: whether a user who is not there to prove it may still do something.
//!
//! The layer knows methods only. Whether a message speaks of the caller's own things is seen by its handler, which asks
//! the [`Caller`]. Both judge by [`coalloc_protocol::authorization`], which the simulated worlds run, too. Here denials
//! become statuses, and are counted and logged.
//!
//! Left out: the judgement itself, and how an identity is proven ([`crate::identity`], [`crate::tokens`]). Source:
//! docs/adr/0042-identity.md.

pub mod absent;
pub mod call_rates;
pub mod layer;
#[cfg(test)]
mod matrix_tests;
pub mod roster;

use std::fmt;
use std::sync::Arc;

use coalloc_common::{CoordinatorName, Identity, Requester, TransactionId, UserName};
use coalloc_ledger::tip::hex;
use coalloc_protocol::authorization::{CallerFacts, Denial};
use coalloc_protocol::message::MessageKind;
use coalloc_protocol::{Causer, ProvenPeer};
use tonic::{Request, Status};

use crate::identity::server::ProvenClient;
use crate::status;

/// Whoever makes a call, and what has been proven of it. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Caller(Arc<ProvenCaller>);

#[derive(Debug)]
struct ProvenCaller {
    proof: Proof,
    facts: CallerFacts,
}

/// Whose share of something limited a call takes. In plain text, all callers are one. A user is the same by certificate
/// and by token.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum CallerKey {
    /// The daemon itself.
    Itself,
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
        Self::new(Proof::PlainText, CallerFacts::plain_text())
    }

    fn new(proof: Proof, facts: CallerFacts) -> Self {
        Self(Arc::new(ProvenCaller { proof, facts }))
    }

    /// The caller of a request that has passed the layer.
    ///
    /// # Errors
    /// INTERNAL when the request has not passed the layer.
    pub fn of_request<T>(request: &Request<T>) -> Result<Self, Status> {
        let caller = request.extensions().get::<Self>().cloned();
        caller.ok_or_else(|| status::internal("a call has bypassed the authorization"))
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
                peer: self.0.facts.user().map(ToString::to_string).unwrap_or_default(),
                issuer: Some(issuer.to_string()),
                subject: Some(hex(subject_digest)),
            }),
        }
    }

    /// Whose share of something limited a call of this caller takes.
    #[must_use]
    pub fn key(&self) -> CallerKey {
        match (self.0.facts.user(), &self.0.proof) {
            (Some(user), _) => CallerKey::User(user.clone()),
            (None, Proof::PlainText) => CallerKey::PlainText,
            (None, Proof::Nothing) => CallerKey::Nothing,
            (None, Proof::Certificate(client)) => CallerKey::Owner(client.owner.identity.clone()),
            (None, Proof::Token { issuer, subject_digest }) => {
                CallerKey::Subject(Arc::clone(issuer), *subject_digest)
            }
        }
    }

    /// The user that the caller is here, if it is one.
    #[must_use]
    pub fn user(&self) -> Option<&UserName> {
        self.0.facts.user()
    }

    /// Whether the caller is an operator of this daemon, or anybody in plain text.
    #[must_use]
    pub fn is_operator(&self) -> bool {
        self.0.facts.is_operator()
    }

    /// Whether the caller may read what belongs to all: an operator or an auditor, or anybody in plain text.
    #[must_use]
    pub fn reads_all(&self) -> bool {
        self.0.facts.reads_all()
    }

    /// Checks that the caller may call a method at all, by its path.
    ///
    /// # Errors
    /// UNAUTHENTICATED when the caller has shown nothing, and otherwise PERMISSION_DENIED.
    fn check_calls(&self, path: &str) -> Result<(), Status> {
        self.judged(self.0.facts.check_calls(path))
    }

    /// Checks that the caller has shown who it is. `path` is the path of a method.
    ///
    /// # Errors
    /// UNAUTHENTICATED when the caller has shown nothing.
    fn check_has_shown(&self, path: &str) -> Result<(), Status> {
        self.judged(self.0.facts.check_has_shown(path))
    }

    /// Puts the caller's own name in place of an empty one, if the caller is a user, and checks that the caller may act
    /// for the user that is then named.
    ///
    /// # Errors
    /// As [`Caller::check_acts_for`].
    pub fn acts_for(&self, field: &str, user: &mut String) -> Result<(), Status> {
        if let Some(own) = self.user().filter(|_| user.is_empty()) {
            own.as_str().clone_into(user);
        }
        self.check_acts_for(field, user)
    }

    /// Checks that the caller may act for a user: a user for itself, an operator for anybody.
    ///
    /// # Errors
    /// PERMISSION_DENIED. `field` is the field that names the user.
    pub fn check_acts_for(&self, field: &str, user: &str) -> Result<(), Status> {
        self.judged(self.0.facts.check_acts_for(field, user))
    }

    /// Whether the caller may see what belongs to a user.
    #[must_use]
    pub fn sees(&self, user: &str) -> bool {
        self.0.facts.sees(user)
    }

    /// The only user whose things the caller may see; `None` when it may see everybody's.
    ///
    /// # Errors
    /// PERMISSION_DENIED when the caller is no user and may not read what belongs to all.
    pub fn only_user(&self) -> Result<Option<&UserName>, Status> {
        self.judged(self.0.facts.only_user())
    }

    /// Checks that the caller is this coordinator.
    ///
    /// # Errors
    /// PERMISSION_DENIED. `field` is the field that names the coordinator.
    pub fn check_is_coordinator(&self, field: &str, name: &CoordinatorName) -> Result<(), Status> {
        self.judged(self.0.facts.check_is_coordinator(field, name))
    }

    /// Checks that the caller may send a message of this kind in the name of this coordinator (I21).
    ///
    /// # Errors
    /// PERMISSION_DENIED. `field` is the field that names the coordinator.
    pub fn check_sends(
        &self,
        kind: MessageKind,
        field: &str,
        name: &CoordinatorName,
    ) -> Result<(), Status> {
        self.judged(self.0.facts.check_sends(kind, field, name))
    }

    /// Whose service level counts for what this caller is shown. Operators and auditors see all, and in plain text
    /// nobody knows which coordinator it is.
    #[must_use]
    pub fn requester(&self) -> Requester {
        self.0.facts.requester()
    }

    /// Checks that a transaction which a query would replace is one of the caller's own, if the caller is a
    /// coordinator.
    ///
    /// # Errors
    /// PERMISSION_DENIED when it is another coordinator's.
    pub fn check_replaces(&self, replaced: Option<&TransactionId>) -> Result<(), Status> {
        self.judged(self.0.facts.check_replaces(replaced))
    }

    /// Checks that the caller is this resource manager.
    ///
    /// # Errors
    /// PERMISSION_DENIED. `field` is the field that names the resource manager.
    pub fn check_is_rm(&self, field: &str, name: &str) -> Result<(), Status> {
        self.judged(self.0.facts.check_is_rm(field, name))
    }

    /// Makes a status of a denial. Also counts and logs it.
    fn judged<T>(&self, judgement: Result<T, Denial>) -> Result<T, Status> {
        judgement.map_err(|denial| match &denial {
            Denial::Unproven { method, .. } => {
                layer::note_denial("unproven", method);
                status::unauthenticated(denial.to_string())
            }
            Denial::NoRow(_) => {
                layer::note_denial("not_allowed", &format!("{self}: {denial}"));
                Status::unimplemented(denial.to_string())
            }
            _ => {
                layer::note_denial("not_allowed", &format!("{self}: {denial}"));
                status::denied(format!("{self} may not do this: {denial}"))
            }
        })
    }
}

impl fmt::Display for Caller {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0.proof {
            Proof::PlainText => f.write_str("a caller in plain text"),
            Proof::Nothing => f.write_str("a caller without an identity"),
            Proof::Certificate(client) => write!(f, "{}", client.owner.identity),
            Proof::Token { issuer, .. } => {
                let user = self.0.facts.user().map_or("", UserName::as_str);
                write!(f, "user {user} of {:?}", &**issuer)
            }
        }
    }
}
