//! Who somebody is: the identity that a certificate states as its only URI, `spiffe://DOMAIN/coalloc/ROLE/NAME`.
//!
//! An identity has three parts. The trust domain is the organisation whose certification authority vouches for the
//! identity. The role says what kind of party it is, and the name says which one. Two identities are the same when all
//! three parts are equal, byte by byte: there are no wildcards, prefixes or normal forms.
//!
//! Left out: certificates and how they are verified (`coalloc_net::identity`), and what an identity may do
//! (`coalloc_net::authorization`). Source: SPIFFE ID and X509-SVID standards, whose rules for trust domains are kept.

use std::fmt;
use std::sync::Arc;

use crate::id::check_name;
use crate::invalid::InvalidField;
use crate::limits;

/// What an identity is written like, for error messages.
const FORM: &str = "spiffe://DOMAIN/coalloc/ROLE/NAME with a role out of coordinator, resource-manager, user, \
                    operator, auditor";

/// The organisation whose certification authority vouches for an identity: 1 to
/// [`limits::TRUST_DOMAIN_LEN_MAX`] characters out of `a-z 0-9 . _ -`, beginning with a letter or a digit.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TrustDomain(Arc<str>);

impl TrustDomain {
    /// Checks the name of a trust domain; `field` is the field that contained it.
    ///
    /// # Errors
    /// [`InvalidField`] when it has a character that the name of a trust domain cannot have.
    pub fn parse(field: &str, text: &str) -> Result<Self, InvalidField> {
        let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
        let first = text.chars().next().is_some_and(plain);
        let rest = text.chars().all(|c| plain(c) || "._-".contains(c));
        let longest = limits::TRUST_DOMAIN_LEN_MAX;
        if first && rest && text.len() <= longest {
            return Ok(Self(text.into()));
        }
        let allowed = format!(
            "1 to {longest} characters of a-z 0-9 . _ - beginning with a letter or digit, like north.example"
        );
        Err(InvalidField::new(field, InvalidField::quoted(text), allowed))
    }

    /// The text of the name.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for TrustDomain {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

impl fmt::Debug for TrustDomain {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", &*self.0)
    }
}

/// What kind of party an identity is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Role {
    /// A coordinator (GRC).
    Coordinator,
    /// An NRM or a CRM.
    ResourceManager,
    /// Somebody who reserves for himself or herself.
    User,
    /// Somebody who runs daemons of the domain, and may act for its users.
    Operator,
    /// Somebody who may read everything and change nothing.
    Auditor,
}

impl Role {
    /// All roles.
    pub const ALL: [Self; 5] =
        [Self::Coordinator, Self::ResourceManager, Self::User, Self::Operator, Self::Auditor];

    /// The word for the role in an identity.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Coordinator => "coordinator",
            Self::ResourceManager => "resource-manager",
            Self::User => "user",
            Self::Operator => "operator",
            Self::Auditor => "auditor",
        }
    }

    fn of_word(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|role| role.word() == word)
    }
}

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.word())
    }
}

/// Who somebody is; see the module's text.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Identity {
    /// The organisation that vouches for the identity.
    pub domain: TrustDomain,
    /// What kind of party it is.
    pub role: Role,
    /// The name that it has in that role: spelled like every name ([`check_name`]).
    name: Arc<str>,
}

impl Identity {
    /// An identity of its parts; `field` is the field that contained the name.
    ///
    /// # Errors
    /// [`InvalidField`] when the name is not spelled like a name.
    pub fn new(
        field: &str,
        domain: TrustDomain,
        role: Role,
        name: &str,
    ) -> Result<Self, InvalidField> {
        check_name(field, name)?;
        Ok(Self { domain, role, name: name.into() })
    }

    /// Reads an identity; `field` is the field that contained it.
    ///
    /// # Errors
    /// [`InvalidField`] when the text is not `spiffe://DOMAIN/coalloc/ROLE/NAME`.
    pub fn parse(field: &str, uri: &str) -> Result<Self, InvalidField> {
        let parts = || {
            let (domain, path) = uri.strip_prefix("spiffe://")?.split_once('/')?;
            let (role, name) = path.strip_prefix("coalloc/")?.split_once('/')?;
            let domain = TrustDomain::parse(field, domain).ok()?;
            Self::new(field, domain, Role::of_word(role)?, name).ok()
        };
        parts().ok_or_else(|| InvalidField::new(field, InvalidField::quoted(uri), FORM))
    }

    /// The name in its role.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }
}

impl fmt::Display for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "spiffe://{}/coalloc/{}/{}", self.domain, self.role, self.name)
    }
}

impl fmt::Debug for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "\"{self}\"")
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn an_identity_is_read_as_it_is_written() {
        for text in [
            "spiffe://north.example/coalloc/coordinator/grc",
            "spiffe://n/coalloc/resource-manager/crm:1/a",
            "spiffe://0-9_a.b/coalloc/user/alice",
        ] {
            assert_eq!(Identity::parse("identity", text).unwrap().to_string(), text);
        }
    }

    #[test]
    fn whatever_is_not_exactly_an_identity_is_refused_with_its_field() {
        for text in [
            "",
            "spiffe://",
            "spiffe://north.example",
            "spiffe://north.example/coalloc/user",
            "spiffe://north.example/coalloc/user/",
            "spiffe://north.example/coalloc/root/alice",
            "spiffe://north.example/coalloc/User/alice",
            "spiffe://North.example/coalloc/user/alice",
            "SPIFFE://north.example/coalloc/user/alice",
            "spiffe://north.example:443/coalloc/user/alice",
            "spiffe://alice@north.example/coalloc/user/alice",
            "spiffe://north.example//coalloc/user/alice",
            "spiffe://north.example/coalloc/user/al ice",
            "spiffe://north.example/coalloc/user/alice?x=y",
            "spiffe://north.example/coalloc/user/alice#x",
            "spiffe://north.example/coalloc/user/%61lice",
            "spiffe://north.example/coalloc/user/../operator/eve",
            "https://north.example/coalloc/user/alice",
            "spiffe://north.example/coalloc/user/alice\n",
            "spiffe://n\u{f6}rth/coalloc/user/alice",
        ] {
            let error = Identity::parse("certificate.uri", text).unwrap_err();
            assert_eq!(error.field, "certificate.uri", "{text:?}");
        }
    }

    proptest! {
        #[test]
        fn no_text_is_read_as_anything_but_itself(text in "spiffe://[a-z./]{0,9}/coalloc/[a-z-]{0,16}/.{0,9}") {
            if let Ok(identity) = Identity::parse("identity", &text) {
                prop_assert_eq!(identity.to_string(), text);
            }
        }
    }
}
