//! Service levels, from files: the share of what is free that some users may take (Takefusa 2010, section
//! 3.4, option C).

use std::collections::BTreeMap;

use coalloc_common::invalid::check_range;
use coalloc_common::{InvalidField, UserName};
use coalloc_proto::v1;

/// Percent of what is free that a user may take, for each user. `path` is where the levels are in the file.
///
/// # Errors
/// [`InvalidField`] when a name, a share or a user is missing, out of its range, or there twice.
pub fn service_levels(
    path: &str,
    wire: &[v1::ServiceLevel],
) -> Result<BTreeMap<UserName, u32>, InvalidField> {
    let mut levels: BTreeMap<UserName, u32> = BTreeMap::new();
    let mut named: BTreeMap<&str, usize> = BTreeMap::new();
    for (index, level) in wire.iter().enumerate() {
        let field = |name: &str| format!("{path}[{index}].{name}");
        UserName::parse(&field("name"), &level.name)?;
        if let Some(first) = named.insert(&level.name, index) {
            let allowed = format!("a name that no other level has; {path}[{first}] has it");
            return Err(InvalidField::new(field("name"), &level.name, allowed));
        }
        let share = check_range(&field("share_percent"), level.share_percent, 1..=100, "percent")?;
        if level.users.is_empty() {
            return Err(InvalidField::new(field("users"), "none", "at least one user"));
        }
        for (at, user) in level.users.iter().enumerate() {
            let field = format!("{}[{at}]", field("users"));
            if levels.insert(UserName::parse(&field, user)?, share).is_some() {
                return Err(InvalidField::new(field, user, "each user once, in one level"));
            }
        }
    }
    Ok(levels)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn level(name: &str, share_percent: u32, users: &[&str]) -> v1::ServiceLevel {
        let users = users.iter().map(|user| (*user).to_owned()).collect();
        v1::ServiceLevel { name: name.to_owned(), share_percent, users }
    }

    #[test]
    fn service_levels_are_checked_and_the_error_names_field_and_range() {
        let levels = [level("guests", 25, &["eve", "mallory"]), level("staff", 100, &["alice"])];
        let levels = service_levels("service_levels", &levels).unwrap();
        assert_eq!(levels[&UserName::composed("eve")], 25);
        assert_eq!(levels[&UserName::composed("alice")], 100);
        let cases: [(&str, Vec<v1::ServiceLevel>); 6] = [
            ("service_levels[0].share_percent", vec![level("x", 0, &["eve"])]),
            ("service_levels[0].share_percent", vec![level("x", 101, &["eve"])]),
            ("service_levels[0].users", vec![level("x", 50, &[])]),
            ("service_levels[0].name", vec![level("", 50, &["eve"])]),
            ("service_levels[1].name", vec![level("x", 50, &["a"]), level("x", 60, &["b"])]),
            ("service_levels[1].users[0]", vec![level("x", 50, &["a"]), level("y", 60, &["a"])]),
        ];
        for (field, levels) in cases {
            let error = service_levels("service_levels", &levels).unwrap_err();
            assert_eq!(error.field, field, "{error}");
            assert!(!error.allowed.is_empty());
        }
    }
}
