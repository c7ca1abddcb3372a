//! Who is who at this daemon: what its configuration makes of a proven identity.
//!
//! A coordinator or a resource manager is somebody here only when the configuration names its whole identity. Operators
//! and auditors are those of the daemon's own domain, and those that the configuration adds. Users are those of any
//! domain that is believed; a user of another domain is called `DOMAIN/NAME`, so that no domain can speak for the users
//! of another one.
//!
//! Left out: which calls they may make ([`super::matrix`]).

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use coalloc_common::{CoordinatorName, Identity, RmName, Role, TrustDomain, UserName};
use http::HeaderValue;
use tonic::Status;

use super::layer::note_denial;
use super::{Caller, CallerFacts, Party, Proof};
use crate::identity::server::ProvenClient;
use crate::tokens::{TokenVerifier, VerifiedUser};
use crate::{clock, status};

/// Who is who at a daemon that does not serve in plain text.
#[derive(Debug)]
pub struct Roster {
    /// The daemon's own domain.
    pub domain: TrustDomain,
    /// Operators of other domains.
    pub operators: BTreeSet<Identity>,
    /// Auditors of other domains.
    pub auditors: BTreeSet<Identity>,
    /// The coordinators of the configuration.
    pub coordinators: BTreeMap<Identity, CoordinatorName>,
    /// The resource managers of the configuration.
    pub rms: BTreeMap<Identity, RmName>,
    /// Verifies the tokens of users who show no certificate; `None`: tokens prove nothing here.
    pub tokens: Option<Arc<TokenVerifier>>,
}

impl Roster {
    /// What a proven client is here.
    #[must_use]
    pub fn caller(&self, client: &Arc<ProvenClient>) -> Caller {
        let identity = &client.owner.identity;
        let coordinator = self.coordinators.get(identity).cloned();
        let rm = self.rms.get(identity).cloned();
        let own = identity.domain == self.domain;
        let user = (identity.role == Role::User)
            .then(|| self.user_name(&identity.domain, identity.name()))
            .flatten();
        let is_operator =
            identity.role == Role::Operator && (own || self.operators.contains(identity));
        let is_auditor =
            identity.role == Role::Auditor && (own || self.auditors.contains(identity));
        let facts = [
            (true, Party::Identified),
            (user.is_some(), Party::User),
            (is_operator, Party::Operator),
            (is_auditor, Party::Auditor),
            (coordinator.is_some(), Party::Coordinator),
            (rm.is_some(), Party::ResourceManager),
        ];
        let parties = facts.iter().filter(|(is, _)| *is).map(|(_, party)| party.bit()).sum();
        let proof = Proof::Certificate(Arc::clone(client));
        Caller(Arc::new(CallerFacts { proof, parties, user, coordinator, rm }))
    }

    /// The caller who has shown nothing.
    #[must_use]
    pub fn nobody() -> Caller {
        Caller::of(Proof::Nothing)
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
        let verified = tokens.verify(token, clock::now().wall);
        let verified = verified.map_err(|error| unproven(error.to_string()))?;
        let parties = Party::User.bit() | Party::Identified.bit();
        let VerifiedUser { user, issuer, subject_digest, .. } = verified;
        let proof = Proof::Token { issuer, subject_digest };
        let user = Some(user);
        Ok(Caller(Arc::new(CallerFacts { proof, parties, user, coordinator: None, rm: None })))
    }

    /// What a user of a domain is called here. `None` for a name that could be taken for a user of another domain, or
    /// that is too long.
    fn user_name(&self, domain: &TrustDomain, name: &str) -> Option<UserName> {
        if name.contains('/') {
            return None;
        }
        if *domain == self.domain {
            return UserName::parse("user", name).ok();
        }
        UserName::parse("user", &format!("{domain}/{name}")).ok()
    }
}

#[cfg(test)]
mod tests {
    use coalloc_common::Time;

    use super::*;
    use crate::identity::certificate::CertificateOwner;

    fn identity(text: &str) -> Identity {
        Identity::parse("identity", text).unwrap()
    }

    fn client(text: &str) -> Arc<ProvenClient> {
        let (not_before, not_after) = (Time::from_us(0), Time::from_us(1));
        let (identity, issuer) = (identity(text), String::new());
        let owner = CertificateOwner { identity, issuer, digest: [0; 32], not_before, not_after };
        let causer = owner.causer();
        Arc::new(ProvenClient { owner, chain: Vec::new(), causer })
    }

    fn roster() -> Roster {
        let grc = identity("spiffe://grid/coalloc/coordinator/grc");
        let crm = identity("spiffe://south/coalloc/resource-manager/crm-A");
        Roster {
            domain: TrustDomain::parse("domain", "north").unwrap(),
            operators: BTreeSet::from([identity("spiffe://grid/coalloc/operator/olga")]),
            auditors: BTreeSet::from([identity("spiffe://grid/coalloc/auditor/ada")]),
            coordinators: BTreeMap::from([(grc, CoordinatorName::composed("grc"))]),
            rms: BTreeMap::from([(crm, RmName::composed("crm-A"))]),
            tokens: None,
        }
    }

    #[test]
    fn what_is_named_whole_is_somebody_and_nothing_else_is() {
        let roster = roster();
        let is = |text: &str, party: Party| roster.caller(&client(text)).is(party);
        assert!(is("spiffe://grid/coalloc/coordinator/grc", Party::Coordinator));
        assert!(is("spiffe://south/coalloc/resource-manager/crm-A", Party::ResourceManager));
        assert!(is("spiffe://north/coalloc/operator/anybody", Party::Operator));
        assert!(is("spiffe://grid/coalloc/operator/olga", Party::Operator));
        assert!(is("spiffe://north/coalloc/auditor/anybody", Party::Auditor));
        assert!(is("spiffe://grid/coalloc/auditor/ada", Party::Auditor));
        for stranger in [
            "spiffe://north/coalloc/coordinator/grc",
            "spiffe://grid/coalloc/coordinator/grc-2",
            "spiffe://grid/coalloc/coordinator/gr",
            "spiffe://grid/coalloc/resource-manager/grc",
            "spiffe://north/coalloc/resource-manager/crm-A",
            "spiffe://grid/coalloc/operator/olga-2",
            "spiffe://south/coalloc/operator/olga",
            "spiffe://south/coalloc/auditor/ada",
        ] {
            let parties = roster.caller(&client(stranger)).0.parties;
            assert_eq!(parties, Party::Identified.bit(), "{stranger}");
        }
    }

    #[test]
    fn a_user_of_another_domain_never_has_the_name_of_a_user_of_ours() {
        let roster = roster();
        let name = |text: &str| roster.caller(&client(text)).0.user.clone();
        let named = |text: &str| Some(UserName::composed(text.to_owned()));
        assert_eq!(name("spiffe://north/coalloc/user/alice"), named("alice"));
        assert_eq!(name("spiffe://south/coalloc/user/alice"), named("south/alice"));
        assert_eq!(name("spiffe://north/coalloc/user/south/alice"), None);
        assert_eq!(name("spiffe://south/coalloc/user/x/alice"), None);
        assert_eq!(name("spiffe://north/coalloc/operator/alice"), None);
    }

    #[test]
    fn everybody_acts_for_itself_only() {
        let roster = roster();
        let caller = |text: &str| roster.caller(&client(text));
        let user = |name: &str| UserName::composed(name.to_owned());
        let alice = caller("spiffe://north/coalloc/user/alice");
        assert!(alice.check_acts_for("user", "alice").is_ok());
        assert!(alice.check_acts_for("user", "alice2").is_err());
        assert!(alice.sees("alice") && !alice.sees("bob") && !alice.sees(""));
        assert_eq!(alice.only_user().unwrap(), Some(&user("alice")));
        let olga = caller("spiffe://grid/coalloc/operator/olga");
        assert!(olga.check_acts_for("user", "alice").is_ok());
        assert_eq!(olga.only_user().unwrap(), None);
        let ada = caller("spiffe://grid/coalloc/auditor/ada");
        assert!(ada.check_acts_for("user", "ada").is_err());
        assert!(ada.sees("alice"));
        let (grc, other) = (CoordinatorName::composed("grc"), CoordinatorName::composed("grc-2"));
        let coordinator = caller("spiffe://grid/coalloc/coordinator/grc");
        assert!(coordinator.check_is_coordinator("coordinator", &grc).is_ok());
        assert!(coordinator.check_is_coordinator("coordinator", &other).is_err());
        assert!(olga.check_is_coordinator("coordinator", &grc).is_err());
        assert!(olga.check_ends_for("coordinator", &grc).is_ok());
        let crm = caller("spiffe://south/coalloc/resource-manager/crm-A");
        assert!(crm.check_is_rm("resource_manager", "crm-A").is_ok());
        assert!(crm.check_is_rm("resource_manager", "crm-AB").is_err());
        assert!(crm.check_is_rm("resource_manager", "").is_err());
        assert!(crm.only_user().is_err());
        assert!(!Roster::nobody().is(Party::Identified));
    }
}
