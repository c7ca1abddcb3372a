//! Whose names are whose: which resource manager may describe a site, an exchange point or a path.
//!
//! An operator states it in the coordinator's configuration. Where nothing is stated, the resource manager that the
//! configuration lists first has the name. So it never depends on who answers first.
//!
//! Left out: what is described, and the comparison with it; see `net::convert`. Source: issue 18, point 11.

use std::collections::BTreeMap;

use crate::id::{RmName, check_name};
use crate::invalid::InvalidField;
use crate::limits;

/// The end of a pattern that stands for all names that begin with what is before it.
const ANYTHING: char = '*';

/// The owners of names, and the order of resource managers where no owner is stated.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Owners {
    ranks: BTreeMap<RmName, usize>,
    /// The owners of single names.
    names: BTreeMap<String, RmName>,
    /// The owners of all names that begin with a text.
    beginnings: BTreeMap<String, RmName>,
}

impl Owners {
    /// Adds the next resource manager and what it owns: names, or beginnings of names with a `*` behind them. `field`
    /// is the field that has the patterns.
    ///
    /// # Errors
    /// [`InvalidField`] when there are too many patterns, when one is not a name, or when one is stated already.
    pub fn add(
        &mut self,
        field: &str,
        rm: &RmName,
        patterns: &[String],
    ) -> Result<(), InvalidField> {
        let most = limits::OWNED_PATTERNS_MAX;
        if patterns.len() > most {
            let allowed = format!("at most {most} patterns");
            return Err(InvalidField::new(field, patterns.len(), allowed));
        }
        for (index, pattern) in patterns.iter().enumerate() {
            let field = format!("{field}[{index}]");
            let (text, map) = match pattern.strip_suffix(ANYTHING) {
                Some(beginning) => (beginning, &mut self.beginnings),
                None => (pattern.as_str(), &mut self.names),
            };
            // A lone `*` has nothing before it: all names that nobody else owns.
            if !(text.is_empty() && pattern.len() == 1) {
                check_name(&field, text).map_err(|error| InvalidField {
                    allowed: format!(
                        "{}; a {ANYTHING} behind it stands for any ending",
                        error.allowed
                    ),
                    ..error
                })?;
            }
            if let Some(other) = map.get(text) {
                let allowed = format!("each pattern once; {other} has it already");
                return Err(InvalidField::new(field, InvalidField::quoted(pattern), allowed));
            }
            map.insert(text.to_owned(), rm.clone());
        }
        let rank = self.ranks.len();
        self.ranks.entry(rm.clone()).or_insert(rank);
        Ok(())
    }

    /// The stated owner of a name; `None` if nothing is stated of it. The longest pattern counts. Who owns a name also
    /// owns what is named after it with a colon: `A:storage` is part of the site A.
    #[must_use]
    pub fn of(&self, name: &str) -> Option<&RmName> {
        let mut ends = (0..=name.len()).rev().filter_map(|end| name.split_at_checked(end));
        ends.find_map(|(beginning, rest)| {
            let whole = rest.is_empty() || rest.starts_with(':');
            let named = self.names.get(beginning).filter(|_| whole);
            named.or_else(|| self.beginnings.get(beginning))
        })
    }

    /// The place of a resource manager in the order; those that were not added come last, by name.
    #[must_use]
    pub fn rank<'a>(&self, rm: &'a RmName) -> (usize, &'a RmName) {
        (self.ranks.get(rm).copied().unwrap_or(usize::MAX), rm)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn owners(all: &[(&str, &[&str])]) -> Result<Owners, InvalidField> {
        let mut owners = Owners::default();
        for (rm, patterns) in all {
            let patterns: Vec<String> = patterns.iter().map(ToString::to_string).collect();
            owners.add("owns", &RmName::composed(*rm), &patterns)?;
        }
        Ok(owners)
    }

    #[test]
    fn the_longest_pattern_says_whose_a_name_is() {
        let all: [(&str, &[&str]); 3] = [("nrm", &["N*"]), ("crm", &["N0"]), ("rest", &["*"])];
        let owners = owners(&all).unwrap();
        for (name, owner) in [
            ("N0", "crm"),
            ("N0:storage", "crm"),
            ("N0-N1", "nrm"),
            ("N0-N1:ab", "nrm"),
            ("N", "nrm"),
            ("n0", "rest"),
            ("é", "rest"),
            ("", "rest"),
        ] {
            assert_eq!(owners.of(name).map(RmName::as_str), Some(owner), "{name}");
        }
        assert_eq!(Owners::default().of("N0"), None);
    }

    #[test]
    fn the_order_is_the_one_of_the_configuration_and_not_of_the_alphabet() {
        let owners = owners(&[("z", &[]), ("a", &[])]).unwrap();
        let (a, b, z) = (RmName::composed("a"), RmName::composed("b"), RmName::composed("z"));
        let mut all = [&b, &a, &z];
        all.sort_by_key(|rm| owners.rank(rm));
        assert_eq!(all, [&z, &a, &b]);
    }

    #[test]
    fn a_pattern_is_stated_once_and_is_a_name() {
        let twice = owners(&[("a", &["N*"]), ("b", &["N", "N*"])]).unwrap_err();
        assert_eq!(twice.field, "owns[1]");
        assert!(twice.allowed.contains("a has it already"), "{twice}");
        for wrong in ["", "N**", "N *", "*N", "N\n"] {
            assert_eq!(owners(&[("a", &[wrong])]).unwrap_err().field, "owns[0]", "{wrong:?}");
        }
        let many = vec!["N"; limits::OWNED_PATTERNS_MAX + 1];
        assert!(owners(&[("a", &many)]).unwrap_err().allowed.contains("at most"));
    }
}
