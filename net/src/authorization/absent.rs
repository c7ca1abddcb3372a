//! Whether a user who is not there to prove it may still do something: what it has proven once is kept, and judged anew by
//! what is believed now.
//!
//! * A certificate has to be one that would still be believed had its time not passed: its domain and its authority are
//!   trusted, nothing of its chain is revoked. Certificates of days would otherwise end whatever is made with them.
//! * A token has to be of an issuer that is still configured, for a user of the same name.
//! * What was made in plain text proves nothing to a coordinator that wants proofs.
//!
//! Whose calls are too many is counted as if the user were there. Left out: what is asked for. Source:
//! docs/adr/0059-calendar-addresses.md.

use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD_NO_PAD;
use coalloc_common::{Time, UserName, limits};
use coalloc_protocol::authorization::CallerFacts;
use coalloc_protocol::coordinator::OwnerProof;
use rustls::pki_types::CertificateDer;
use tonic::Status;

use super::layer::{Authorization, AuthorizationLayer};
use super::{Caller, Proof};
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

/// Judges users who are not there.
#[derive(Debug, Clone)]
pub struct AbsentUsers {
    judge: AuthorizationLayer,
    store: Option<Arc<IdentityStore>>,
}

impl AbsentUsers {
    /// Users of a server.
    #[must_use]
    pub fn of(access: &Access) -> Self {
        let store = access.tls.as_ref().map(|tls| Arc::clone(tls.store()));
        Self { judge: AuthorizationLayer::of(access), store }
    }

    /// Whether a user, by what it had proven at the time `at`, may still call the method at `path`.
    #[must_use]
    pub fn may_call(&self, path: &str, user: &UserName, proof: &OwnerProof, at: Time) -> bool {
        let Some(facts) = self.facts(user, proof, at) else { return false };
        let is_same = facts.is_unjudged() || facts.user() == Some(user);
        is_same && facts.check_calls(path).is_ok()
    }

    fn facts(&self, user: &UserName, proof: &OwnerProof, at: Time) -> Option<CallerFacts> {
        let Authorization::Roster(roster) = &self.judge.authorization else {
            return Some(CallerFacts::plain_text());
        };
        match proof {
            OwnerProof::PlainText => None,
            OwnerProof::Certificate(chain) => {
                let der = chain.iter().map(|one| STANDARD_NO_PAD.decode(one).ok());
                let chain: Vec<_> =
                    der.map(|der| der.map(CertificateDer::from)).collect::<Option<_>>()?;
                let owner = self.store.as_ref()?.verify_kept(&chain, Use::Client, at).ok()?;
                Some(roster.identities.facts(&owner.identity))
            }
            OwnerProof::Token(issuer) => {
                let speaks = roster.tokens.as_ref()?.speaks_for(issuer, user);
                speaks.then(|| CallerFacts::user_only(user.clone()))
            }
        }
    }

    /// Counts a call of the user, which may be one too many.
    ///
    /// # Errors
    /// RESOURCE_EXHAUSTED.
    pub fn count(&self, user: &UserName) -> Result<(), Status> {
        match self.judge.authorization {
            Authorization::PlainText => Ok(()),
            Authorization::Roster(_) => self.judge.count_user(user),
        }
    }
}
