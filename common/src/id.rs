//! Names and identifiers: validated strings, with one type for each kind of thing that has a name.
//!
//! A name has 1 to [`limits::NAME_LEN_MAX`] characters out of `A-Z a-z 0-9 . _ - : /` and begins with a letter or
//! a digit, so that it needs no quotes in a log line, a file name, a table or a URL. Cloning is cheap, because
//! clones share the text. Left out: whether anything has that name.

use std::fmt;
use std::sync::Arc;

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize};

use crate::invalid::InvalidField;
use crate::limits;

/// Checks the spelling of a name that came from outside. `field` is the field that contained it.
///
/// # Errors
/// [`InvalidField`] when the text is empty, too long, or has a character outside the allowed set.
pub fn check_name(field: &str, text: &str) -> Result<(), InvalidField> {
    check_name_up_to(limits::NAME_LEN_MAX, field, text)
}

fn check_name_up_to(longest: usize, field: &str, text: &str) -> Result<(), InvalidField> {
    let first = text.chars().next().is_some_and(|c| c.is_ascii_alphanumeric());
    let rest = text.chars().all(|c| c.is_ascii_alphanumeric() || "._-:/".contains(c));
    if first && rest && text.len() <= longest {
        return Ok(());
    }
    let allowed = format!(
        "1 to {longest} characters of A-Z a-z 0-9 . _ - : / beginning with a letter or digit"
    );
    Err(InvalidField::new(field, InvalidField::quoted(text), allowed))
}

/// Is this a possible spelling of a name in a ledger? A name that a coordinator with a long name has composed may
/// be longer than a name from outside.
fn is_written(text: &str) -> bool {
    let first = text.bytes().next().is_some_and(|byte| byte.is_ascii_alphanumeric());
    let rest = text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"._-:/".contains(&byte));
    first && rest && text.len() <= 2 * limits::NAME_LEN_MAX
}

macro_rules! name_type {
    ($(#[$doc:meta])* $name:ident) => {
        name_type! { $(#[$doc])* $name, limits::NAME_LEN_MAX }
    };
    ($(#[$doc:meta])* $name:ident, $longest:expr) => {
        $(#[$doc])*
        #[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
        #[serde(transparent)]
        pub struct $name(Arc<str>);

        impl $name {
            /// Checks a name from outside; `field` is the field that contained it.
            ///
            /// # Errors
            /// [`InvalidField`] when the text is not spelled like a name, see [`check_name`].
            pub fn parse(field: &str, text: &str) -> Result<Self, InvalidField> {
                check_name_up_to($longest, field, text)?;
                Ok(Self(text.into()))
            }

            /// A name that this program has composed out of checked parts.
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
            /// Reads a name from a ledger. A text that is not a name was not written by this program.
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
    /// The name of a resource manager, unique in the federation: `nrm-N`, `crm-N0`.
    RmName
}
name_type! {
    /// The name of a coordinator, unique in the federation. It has at most [`limits::COORDINATOR_NAME_LEN_MAX`]
    /// characters, so that every id that the coordinator makes is a valid name.
    CoordinatorName, limits::COORDINATOR_NAME_LEN_MAX
}
name_type! {
    /// The name of an administrative domain.
    DomainName
}
name_type! {
    /// The name of a user of a coordinator.
    UserName
}
name_type! {
    /// The name of a vertex of the topology: a site or an exchange point (Takefusa 2010, section 3.2, `V`).
    VertexName
}
name_type! {
    /// The name of a site in the REQUEST (`V_r`); the plan decides on which vertex it is placed.
    SiteName
}
name_type! {
    /// The name of an activity of a workflow, unique in the workflow.
    ActivityName
}
name_type! {
    /// The name of a data item of a workflow, unique in the workflow.
    DataName
}
name_type! {
    /// The name of an edge of the topology: a path inside one domain (Takefusa 2010, section 3.2, `E`).
    EdgeName
}
name_type! {
    /// The name of one bookable resource at one resource manager; unique there, but not in the federation.
    ResourceId
}
name_type! {
    /// The id of a request. The client chooses it, so that a request that is sent twice is recognized as one
    /// request.
    RequestId
}
name_type! {
    /// The id of a reservation, given by the coordinator: `<coordinator>-<ledger tag>-<number>`.
    ReservationId
}
name_type! {
    /// The id of one attempt to reserve one plan: `<reservation>/<attempt>`, unique in the federation for ever. A
    /// coordinator counts its attempts, over all of its reservations.
    TransactionId
}

impl TransactionId {
    /// Was this id given by this coordinator? It then has the form `<coordinator>-<tag>-<number>/<attempt>`. The
    /// tag contains no dash and no slash, so an id belongs to at most one coordinator, even if one coordinator's
    /// name begins with another's.
    #[must_use]
    pub fn is_of(&self, coordinator: &CoordinatorName) -> bool {
        let own = self.as_str().strip_prefix(coordinator.as_str());
        let Some(own) = own.and_then(|own| own.strip_prefix('-')) else { return false };
        let Some((reservation, attempt)) = own.split_once('/') else { return false };
        let Some((tag, number)) = reservation.split_once('-') else { return false };
        let is_number = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
        !tag.is_empty() && is_number(number) && is_number(attempt)
    }

    /// The ledger that counts this attempt, as `<coordinator>-<tag>`, and the attempt's number there. `None` when the id
    /// has no number, or one beyond 64 bits.
    #[must_use]
    pub fn counted(&self) -> Option<(&str, u64)> {
        let (reservation, attempt) = self.as_str().rsplit_once('/')?;
        let (ledger, _) = reservation.rsplit_once('-')?;
        Some((ledger, attempt.parse().ok()?))
    }
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

    #[test]
    fn the_longest_coordinator_gives_ids_that_are_names() {
        let longest = "c".repeat(limits::COORDINATOR_NAME_LEN_MAX);
        let name = CoordinatorName::parse("coordinator", &longest).unwrap();
        let id = format!("{name}-0123abcd-{}/{}", u64::MAX, u32::MAX);
        assert!(TransactionId::parse("transaction", &id).unwrap().is_of(&name));
        let error = CoordinatorName::parse("name", &format!("{longest}c")).unwrap_err();
        assert!(error.to_string().contains("1 to 80"), "{error}");
    }

    #[test]
    fn an_id_is_of_one_coordinator_at_most() {
        let names = ["grc", "grc-2", "grc-2-t", "g", "2", "grc/1", "grc-2-t-7/1"];
        let names = names.map(|name| CoordinatorName::parse("name", name).unwrap());
        let of = |id: &str| {
            let id = TransactionId::parse("transaction", id).unwrap();
            let own = names.iter().filter(|name| id.is_of(name)).map(CoordinatorName::as_str);
            own.collect::<Vec<_>>()
        };
        assert_eq!(of("grc-t-1/1"), ["grc"]);
        assert_eq!(of("grc-2-t-7/1"), ["grc-2"]);
        assert_eq!(of("grc-2-7/1"), ["grc"], "of a ledger whose tag is 2");
        assert_eq!(of("grc-2-t-t-7/1"), ["grc-2-t"]);
        assert_eq!(of("grc/1-t-7/1"), ["grc/1"]);
        let counted = |txn: &str| {
            let txn = TransactionId::composed(txn);
            txn.counted().map(|(ledger, attempt)| (ledger.to_owned(), attempt))
        };
        assert_eq!(counted("grc-2-t-7/15"), Some(("grc-2-t".to_owned(), 15)));
        assert_eq!(counted("grc-t-7"), None);
        assert_eq!(counted("grc-t-7/99999999999999999999"), None);
        for strange in ["grc", "grc-", "grc-t", "grc-t-1", "grc-t-x/1", "grc-t-1/", "grc-t-1/x"] {
            assert_eq!(of(strange), Vec::<&str>::new(), "{strange}");
        }
    }
}
