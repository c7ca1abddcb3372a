//! Whether a user who is not there to prove it may still do something: what it has proven once is kept, and judged anew by
//! what is believed now.
//!
//! * A certificate has to be one that would still be believed had its time not passed: its domain and its authority are
//!   trusted, nothing of its chain is revoked. Certificates of days would otherwise end whatever is made with them.
//! * A token has to be of an issuer that is still configured, for a user of the same name.
//! * What was made in plain text proves nothing to a coordinator that wants proofs.
//!
//! What is done for it is counted apart from its calls: whoever has got hold of what stands for the user must not keep the user
//! from calling. Left out: what is asked for. Source:
//! docs/adr/0059-calendar-addresses.md.

use std::collections::BTreeMap;
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD_NO_PAD;
use coalloc_common::{Time, UserName, limits};
use coalloc_protocol::authorization::CallerFacts;
use coalloc_protocol::coordinator::OwnerProof;
use rustls::pki_types::CertificateDer;
use tonic::Status;

use super::call_rates::{CallQuotas, CallRates};
use super::layer::{Authorization, AuthorizationLayer};
use super::{Caller, Proof};
use crate::identity::Disbelief;
use crate::identity::settings::Access;
use crate::identity::store::IdentityStore;
use crate::identity::trust::Use;

impl Caller {
    /// The user that the caller is, and by what it has proven that, to be kept. `None` when the caller is no user, or its
    /// certificates are larger than [`limits::CALENDAR_PROOF_MAX`].
    #[must_use]
    pub fn kept_proof(&self) -> Option<(UserName, OwnerProof)> {
        let user = self.user()?.clone();
        let proof = match self.proof() {
            Proof::PlainText | Proof::Nothing => return None,
            Proof::Certificate(client) => {
                let chain = client.chain.iter().map(|one| STANDARD_NO_PAD.encode(one));
                let chain: Vec<String> = chain.collect();
                let length: usize = chain.iter().map(String::len).sum();
                if length > limits::CALENDAR_PROOF_MAX {
                    return None;
                }
                OwnerProof::Certificate(chain)
            }
            Proof::Token { issuer, .. } => OwnerProof::Token(issuer.to_string()),
        };
        Some((user, proof))
    }
}

/// Whether a user who is not there may do something.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AbsentRight {
    /// It may.
    Granted,
    /// It may not now. What is configured or believed may change.
    Denied,
    /// It may not any more: a certificate by which it had proven who it is was revoked.
    Revoked,
}

/// Judges users who are not there.
#[derive(Debug, Clone)]
pub struct AbsentUsers {
    judge: AuthorizationLayer,
    store: Option<Arc<IdentityStore>>,
    /// What users do while they are not there has a share of its own.
    rates: Arc<CallRates>,
}

impl AbsentUsers {
    /// Users of a server.
    #[must_use]
    pub fn of(access: &Access) -> Self {
        let store = access.tls.as_ref().map(|tls| Arc::clone(tls.store()));
        let each = limits::CALENDAR_READS_PER_S;
        let rates = Arc::new(CallRates::new(CallQuotas { each, users: BTreeMap::new() }));
        Self { judge: AuthorizationLayer::of(access), store, rates }
    }

    /// Whether a user, by what it had proven at the time `at`, may still call the method at `path`.
    #[must_use]
    pub fn judge(&self, path: &str, user: &UserName, proof: &OwnerProof, at: Time) -> AbsentRight {
        let facts = match self.facts(user, proof, at) {
            Ok(facts) => facts,
            Err(denied) => return denied,
        };
        let is_same = facts.is_unjudged() || facts.user() == Some(user);
        match is_same && facts.check_calls(path).is_ok() {
            true => AbsentRight::Granted,
            false => AbsentRight::Denied,
        }
    }

    fn facts(
        &self,
        user: &UserName,
        proof: &OwnerProof,
        at: Time,
    ) -> Result<CallerFacts, AbsentRight> {
        const DENIED: AbsentRight = AbsentRight::Denied;
        let Authorization::Roster(roster) = &self.judge.authorization else {
            return Ok(CallerFacts::plain_text());
        };
        match proof {
            OwnerProof::PlainText => Err(DENIED),
            OwnerProof::Certificate(chain) => {
                let der = chain.iter().map(|one| STANDARD_NO_PAD.decode(one).ok());
                let chain =
                    der.map(|der| der.map(CertificateDer::from)).collect::<Option<Vec<_>>>();
                let (chain, store) = chain.zip(self.store.as_ref()).ok_or(DENIED)?;
                let owner = store.verify_kept(&chain, Use::Client, at);
                let owner = owner.map_err(|disbelief| match disbelief {
                    Disbelief::Invalid { reason: webpki::Error::CertRevoked, .. } => {
                        AbsentRight::Revoked
                    }
                    _ => DENIED,
                })?;
                Ok(roster.identities.facts(&owner.identity))
            }
            OwnerProof::Token(issuer) => {
                let tokens = roster.tokens.as_ref().ok_or(DENIED)?;
                match tokens.speaks_for(issuer, user) {
                    true => Ok(CallerFacts::user_only(user.clone())),
                    false => Err(DENIED),
                }
            }
        }
    }

    /// Counts what was done for the user while it was not there, which may be once too often.
    ///
    /// # Errors
    /// RESOURCE_EXHAUSTED.
    pub fn count(&self, user: &UserName) -> Result<(), Status> {
        if matches!(self.judge.authorization, Authorization::PlainText) {
            return Ok(());
        }
        self.judge.count_in(&self.rates, user)
    }
}
