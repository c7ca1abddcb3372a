//! Who is who at a daemon: what its configuration makes of a proven identity.
//!
//! A coordinator or a resource manager is somebody here only when the configuration names its whole identity. Operators
//! and auditors are those of the daemon's own domain, and those that the configuration adds. Users are those of any
//! domain that is believed; a user of another domain is called `DOMAIN/NAME`, so that no domain can speak for the users
//! of another one.
//!
//! Left out: which calls they may make ([`super::matrix`]).

use std::collections::{BTreeMap, BTreeSet};

use coalloc_common::{CoordinatorName, Identity, RmName, Role, TrustDomain, UserName};

use super::Party;
use super::caller::CallerFacts;
use super::matrix::Parties;

/// Who is who at a daemon that does not serve in plain text.
#[derive(Debug, Clone)]
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
}

impl Roster {
    /// What the owner of a proven identity is here.
    #[must_use]
    pub fn facts(&self, identity: &Identity) -> CallerFacts {
        let own = identity.domain == self.domain;
        let user = (identity.role == Role::User)
            .then(|| self.user_name(&identity.domain, identity.name()))
            .flatten();
        let others = match identity.role {
            Role::Operator if own || self.operators.contains(identity) => {
                Parties::of(&[Party::Operator])
            }
            Role::Auditor if own || self.auditors.contains(identity) => {
                Parties::of(&[Party::Auditor])
            }
            _ => Parties::of(&[]),
        };
        let coordinator = self.coordinators.get(identity).cloned();
        let rm = self.rms.get(identity).cloned();
        CallerFacts::identified(user, coordinator, rm, others)
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
    use coalloc_common::TransactionId;

    use super::*;
    use crate::message::MessageKind;

    fn identity(text: &str) -> Identity {
        Identity::parse("identity", text).unwrap()
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
        }
    }

    #[test]
    fn what_is_named_whole_is_somebody_and_nothing_else_is() {
        let roster = roster();
        let is = |text: &str, party: Party| roster.facts(&identity(text)).is(party);
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
            let parties = roster.facts(&identity(stranger)).parties();
            assert_eq!(parties, Parties::of(&[Party::Identified]), "{stranger}");
        }
    }

    #[test]
    fn a_user_of_another_domain_never_has_the_name_of_a_user_of_ours() {
        let roster = roster();
        let name = |text: &str| roster.facts(&identity(text)).user().cloned();
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
        let caller = |text: &str| roster.facts(&identity(text));
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
        for (kind, operators) in [
            (MessageKind::Hold, false),
            (MessageKind::Commit, false),
            (MessageKind::Abort, true),
            (MessageKind::Release, true),
        ] {
            assert_eq!(olga.check_sends(kind, "coordinator", &grc).is_ok(), operators, "{kind:?}");
            assert!(coordinator.check_sends(kind, "coordinator", &grc).is_ok());
            assert!(coordinator.check_sends(kind, "coordinator", &other).is_err());
        }
        let crm = caller("spiffe://south/coalloc/resource-manager/crm-A");
        assert!(crm.check_is_rm("resource_manager", "crm-A").is_ok());
        assert!(crm.check_is_rm("resource_manager", "crm-AB").is_err());
        assert!(crm.check_is_rm("resource_manager", "").is_err());
        assert!(crm.only_user().is_err());
        let (own, others) = ("grc-1-5/1", "grc-2-1-5/1");
        let replaces = |txn: &str| coordinator.check_replaces(Some(&TransactionId::composed(txn)));
        assert!(replaces(own).is_ok() && replaces(others).is_err());
    }
}
