//! Names and identifiers: validated strings, one type for each thing that has a name.
//!
//! A name is 1 to [`limits::NAME_LEN_MAX`] characters out of `A-Z a-z 0-9 . _ - : /` and begins with
//! a letter or a digit, so that it can stand in a log line, a file name, a table and a URL without
//! being quoted. Cloning is cheap (the text is shared).

use std::fmt;
use std::sync::Arc;

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize};

use crate::invalid::InvalidField;
use crate::limits;

/// Checks the spelling of a name that came from outside. `field` is where it stood.
///
/// # Errors
/// [`InvalidField`] when the text is empty, too long, or has a character outside the allowed set.
pub fn check_name(field: &str, text: &str) -> Result<(), InvalidField> {
    let allowed = "1 to 128 characters of A-Z a-z 0-9 . _ - : / beginning with a letter or digit";
    let first = text.chars().next().is_some_and(|c| c.is_ascii_alphanumeric());
    let rest = text.chars().all(|c| c.is_ascii_alphanumeric() || "._-:/".contains(c));
    if first && rest && text.len() <= limits::NAME_LEN_MAX {
        return Ok(());
    }
    Err(InvalidField::new(field, InvalidField::quoted(text), allowed))
}

/// May a name that was written down be spelled so? A composed one of a long-named coordinator is longer than one
/// from outside may be.
fn is_written(text: &str) -> bool {
    let first = text.bytes().next().is_some_and(|byte| byte.is_ascii_alphanumeric());
    let rest = text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"._-:/".contains(&byte));
    first && rest && text.len() <= 2 * limits::NAME_LEN_MAX
}

macro_rules! name_type {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
        #[serde(transparent)]
        pub struct $name(Arc<str>);

        impl $name {
            /// Takes a name from outside; `field` says where it stood.
            ///
            /// # Errors
            /// [`InvalidField`] when the spelling is not a name's, see [`check_name`].
            pub fn parse(field: &str, text: &str) -> Result<Self, InvalidField> {
                check_name(field, text)?;
                Ok(Self(text.into()))
            }

            /// A name that this program composed itself out of checked parts.
            #[must_use]
            pub fn composed(text: impl Into<Arc<str>>) -> Self {
                let text = text.into();
                debug_assert!(check_name("composed", &text).is_ok(), "not a name: {text:?}");
                Self(text)
            }

            /// The text of the name.
            #[must_use]
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl<'de> Deserialize<'de> for $name {
            /// From a ledger: what is no name there was not written by this program.
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                let text = Arc::<str>::deserialize(deserializer)?;
                match is_written(&text) {
                    true => Ok(Self(text)),
                    false => Err(D::Error::custom(format_args!("not a name: {text:.40?}"))),
                }
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.pad(&self.0)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{:?}", &*self.0)
            }
        }

        impl AsRef<str> for $name {
            fn as_ref(&self) -> &str {
                &self.0
            }
        }

        impl std::borrow::Borrow<str> for $name {
            fn borrow(&self) -> &str {
                &self.0
            }
        }
    };
}

name_type! {
    /// A resource manager, unique in the federation: `nrm-N`, `crm-N0`.
    RmName
}
name_type! {
    /// A coordinator, unique in the federation.
    CoordinatorName
}
name_type! {
    /// An administrative domain.
    DomainName
}
name_type! {
    /// A user of a coordinator.
    UserName
}
name_type! {
    /// A vertex of the topology: a site or an exchange point (Takefusa 2010, section 3.2, `V`).
    VertexName
}
name_type! {
    /// A site as the REQUEST calls it (`V_r`); which vertex it lands on is the plan's business.
    SiteName
}
name_type! {
    /// An edge of the topology: a path inside one domain (Takefusa 2010, section 3.2, `E`).
    EdgeName
}
name_type! {
    /// One bookable thing at one resource manager; unique there, not in the federation.
    ResourceId
}
name_type! {
    /// Chosen by the client, so that a request sent twice is one request.
    RequestId
}
name_type! {
    /// What the user got: given by the coordinator, `<coordinator>-<ledger tag>-<number>`.
    ReservationId
}
name_type! {
    /// One attempt to reserve one plan: `<reservation>/<attempt>`, unique in the federation for ever.
    TransactionId
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_checked_and_the_error_names_field_value_and_range() {
        assert!(VertexName::parse("site", "N0").is_ok());
        assert!(TransactionId::parse("txn", "grc-7f3a-12/1").is_ok());
        for bad in ["", "-x", "a b", "é", &"x".repeat(129)] {
            let error = VertexName::parse("sites[0].name", bad).unwrap_err().to_string();
            assert!(error.contains("sites[0].name") && error.contains("1 to 128"), "{error}");
            let written = serde_json::to_string(bad).unwrap();
            assert_eq!(
                serde_json::from_str::<VertexName>(&written).is_ok(),
                bad.len() == 129,
                "a ledger may have longer ones, and no others: {written}"
            );
            assert!(error.len() < 300, "a long value is cut: {error}");
        }
    }
}
