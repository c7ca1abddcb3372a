//! The Ledgers service of a daemon: signs the tip of its ledger for operators and auditors.
//!
//! Left out: how a tip is signed and verified ([`super`]).

use std::fmt;

use coalloc_common::{InvalidField, limits};
use coalloc_proto::v1;
use coalloc_protocol::Core;
use tonic::{Request, Response, Status};

use super::TipStatement;
use crate::authorization::Caller;
use crate::identity::settings::Security;
use crate::machine;
use crate::node::Handle;
use crate::status;

/// The handlers of the Ledgers service.
pub struct LedgersService<C: Core> {
    handle: Handle<C>,
    /// The id by which others know the ledger.
    ledger_id: String,
    kind: &'static str,
    name: String,
    security: Security,
}

impl<C: Core> fmt::Debug for LedgersService<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LedgersService").field("name", &self.name).finish_non_exhaustive()
    }
}

impl<C: Core> LedgersService<C> {
    /// The service of a daemon of this kind (`nrm`, `crm`, `grc`) and name. `ledger_id` is the id by which others know
    /// its ledger.
    #[must_use]
    pub fn new(
        handle: Handle<C>,
        ledger_id: &str,
        kind: &'static str,
        name: &str,
        security: &Security,
    ) -> Self {
        let (ledger_id, name) = (ledger_id.to_owned(), name.to_owned());
        Self { handle, ledger_id, kind, name, security: security.clone() }
    }
}

#[tonic::async_trait]
impl<C> v1::ledgers_server::Ledgers for LedgersService<C>
where
    C: Core + Send + 'static,
    C::Input: Send,
    C::Record: Send + Sync + 'static,
{
    async fn sign_tip(
        &self,
        request: Request<v1::SignTipRequest>,
    ) -> Result<Response<v1::SignTipResponse>, Status> {
        // Fails when the request has not passed the authorization.
        Caller::of_request(&request)?;
        let challenge = request.into_inner().challenge;
        if challenge.len() > limits::TIP_CHALLENGE_BYTES_MAX {
            let (length, most) = (challenge.len(), limits::TIP_CHALLENGE_BYTES_MAX);
            let allowed = format!("at most {most} bytes");
            let error = InvalidField::new("challenge", format!("{length} bytes"), allowed);
            return Err(status::invalid(&error));
        }
        let Security::Proven(own) = &self.security else {
            let text = "this daemon serves in plain text and has no key to sign with: give it an \
                        identity (`coalloc certs issue`, then `identity` in its configuration)";
            return Err(status::precondition("IDENTITY", &self.name, text));
        };
        let tip = self.handle.tip().await?;
        let credentials = own.store.current();
        let statement = TipStatement {
            tip,
            ledger_id: self.ledger_id.clone(),
            kind: self.kind.to_owned(),
            name: self.name.clone(),
            identity: credentials.owner.identity.clone(),
            signed: self.handle.now().wall,
            challenge,
        };
        // A large RSA key takes milliseconds, for which other calls must not wait.
        let signed = machine::off_the_runtime(self.handle.host(), move || {
            statement.sign(&credentials.certified)
        });
        let signed = signed.await.ok_or_else(|| status::internal("signing broke off"))?;
        let tip = signed.map_err(|error| status::internal(error.to_string()))?;
        Ok(Response::new(v1::SignTipResponse { tip: Some(tip) }))
    }
}
