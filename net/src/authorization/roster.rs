//! Who is who at this daemon, by certificate or by token.
//!
//! What a proven identity is here, its configuration says ([`coalloc_protocol::authorization::Roster`]). A token stands
//! for a user, who shows no certificate.
//!
//! Left out: which calls they may make ([`coalloc_protocol::authorization::matrix`]).

use std::sync::Arc;

use coalloc_protocol::authorization::{self, CallerFacts};
use http::HeaderValue;
use tonic::Status;

use super::layer::note_denial;
use super::{Caller, Proof};
use crate::clock::Clock;
use crate::identity::server::ProvenClient;
use crate::status;
use crate::tokens::{TokenVerifier, VerifiedUser};

/// Who is who at a daemon that does not serve in plain text.
#[derive(Debug)]
pub struct Roster {
    /// Who is who by identity.
    pub identities: authorization::Roster,
    /// Verifies the tokens of users who show no certificate; `None`: tokens prove nothing here.
    pub tokens: Option<Arc<TokenVerifier>>,
    /// The clock by which tokens are judged.
    pub clock: Clock,
}

impl Roster {
    /// What a proven client is here.
    #[must_use]
    pub fn caller(&self, client: &Arc<ProvenClient>) -> Caller {
        let facts = self.identities.facts(&client.owner.identity);
        Caller::new(Proof::Certificate(Arc::clone(client)), facts)
    }

    /// The caller who has shown nothing.
    #[must_use]
    pub fn nobody() -> Caller {
        Caller::new(Proof::Nothing, CallerFacts::nobody())
    }

    /// The user that a token was issued to. `header` is the value of the header `authorization`.
    ///
    /// # Errors
    /// UNAUTHENTICATED, with what the user has to do, when the token proves nothing here.
    pub fn token_caller(&self, header: &HeaderValue) -> Result<Caller, Status> {
        let unproven = |text: String| {
            note_denial("unproven", &text);
            status::unauthenticated(text)
        };
        let Some(tokens) = &self.tokens else {
            return Err(unproven("tokens prove nothing here: no issuer is configured".to_owned()));
        };
        let token = header.to_str().ok().and_then(|text| text.strip_prefix("Bearer "));
        let token = token.ok_or_else(|| {
            unproven("authorization: allowed is `Bearer ` and a token".to_owned())
        })?;
        let verified = tokens.verify(token, self.clock.now().wall);
        let verified = verified.map_err(|error| unproven(error.to_string()))?;
        let VerifiedUser { user, issuer, subject_digest, .. } = verified;
        let proof = Proof::Token { issuer, subject_digest };
        Ok(Caller::new(proof, CallerFacts::user_only(user)))
    }
}
