//! The names of metrics that an experiment may have.

use super::clock::TIMES;
use super::models::metrics;
use super::source::Source;
use crate::kit::exit::Failure;

/// Checks that every metric of the file exists in its model or in the clock.
///
/// # Errors
/// Names the first metric that does not exist.
pub fn check(source: &Source) -> Result<(), Failure> {
    let model = metrics(source.experiment.model);
    for (at, metric) in source.experiment.metrics.iter().enumerate() {
        let known = model.iter().chain(TIMES).any(|(name, _)| fits(name, &metric.name));
        if !known {
            let names: Vec<&str> = model.iter().chain(TIMES).map(|(name, _)| *name).collect();
            let allowed = format!("a metric of its model: {}", names.join(", "));
            return Err(source.mistake(&format!("metrics[{at}].name"), &metric.name, &allowed));
        }
    }
    Ok(())
}

/// Does the name fit this known metric?
///
/// Capitals in a known name stand for a name of the settings: `load_SITE`.
fn fits(known: &str, name: &str) -> bool {
    let mut rest = name;
    let parts: Vec<&str> = known.split('_').collect();
    for (at, part) in parts.iter().enumerate() {
        let is_open = part.len() > 1 && part.chars().all(|c| c.is_ascii_uppercase());
        let last = at + 1 == parts.len();
        let end = match (is_open, last) {
            (true, true) => rest.len(),
            (true, false) => match rest.find('_') {
                Some(end) => end,
                None => return false,
            },
            (false, _) if rest.starts_with(part) => part.len(),
            (false, _) => return false,
        };
        rest = &rest[end..];
        if last {
            return rest.is_empty();
        }
        match rest.strip_prefix('_') {
            Some(next) => rest = next,
            None => return false,
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_model_s_metric_may_have_a_name_of_the_settings_in_it() {
        for (known, name, is) in [
            ("success", "success", true),
            ("success", "successes", false),
            ("load_SITE", "load_N0", true),
            ("load_SITE", "load", false),
            ("success_USER_at", "success_usera_at", true),
            ("success_USER_at", "success_usera", false),
            ("success_at", "success_until", false),
        ] {
            assert_eq!(fits(known, name), is, "{known} {name}");
        }
    }
}
