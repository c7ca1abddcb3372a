//! Bad arguments of the command line, in the words of all other bad input: which argument, what it was, and what is allowed.
//!
//! Left out: values with parsers of our own, which say what they allow themselves. Source: the error texts of clap and of
//! the standard library.

use std::num::{ParseFloatError, ParseIntError};

use clap::error::{ContextKind, ContextValue, ErrorKind};

/// The same error, with what is allowed, if it is about a number.
#[must_use]
pub fn explain(error: clap::Error, command: &clap::Command) -> clap::Error {
    let Some(text) = about_number(&error) else { return error };
    clap::Error::raw(ErrorKind::ValueValidation, text).with_cmd(command)
}

fn about_number(error: &clap::Error) -> Option<String> {
    let said = |kind| match error.get(kind)? {
        ContextValue::String(text) => Some(text.as_str()),
        _ => None,
    };
    if error.kind() != ErrorKind::ValueValidation {
        return None;
    }
    let allowed = allowed(std::error::Error::source(error)?)?;
    // `--plans <N>`
    let argument = said(ContextKind::InvalidArg)?.split(" <").next()?;
    let value = said(ContextKind::InvalidValue)?;
    Some(format!("{argument}: {value:?} is not allowed; allowed: {allowed}\n"))
}

/// The numbers that are allowed, if a number was expected.
fn allowed(why: &(dyn std::error::Error + 'static)) -> Option<String> {
    if why.is::<ParseIntError>() {
        return Some("a whole number".to_owned());
    }
    if why.is::<ParseFloatError>() {
        return Some("a number".to_owned());
    }
    let said = why.to_string();
    if ["invalid digit found", "number too large", "cannot parse integer"]
        .iter()
        .any(|text| said.starts_with(text))
    {
        return Some("a whole number".to_owned());
    }
    // `0 is not in 1..=256`
    let (_, range) = said.split_once(" is not in ")?;
    let (least, most) = range.split_once("..=").or_else(|| range.split_once(".."))?;
    Some(match (least, most) {
        (least, "" | "18446744073709551615" | "9223372036854775807" | "4294967295") => {
            format!("{least} or more")
        }
        (least, most) => format!("{least} to {most}"),
    })
}

#[cfg(test)]
mod tests {
    use clap::{Arg, Command, value_parser};

    use super::*;

    fn said(value: &str) -> String {
        let command = Command::new("x")
            .arg(Arg::new("plans").long("plans").value_parser(value_parser!(u32).range(1..=256)))
            .arg(Arg::new("seed").long("seed").value_parser(value_parser!(u64)))
            .arg(Arg::new("count").long("count").value_parser(value_parser!(u64).range(1..)))
            .arg(Arg::new("share").long("share").value_parser(value_parser!(f64)));
        let line = std::iter::once("x").chain(value.split(' '));
        let error = command.clone().try_get_matches_from(line).unwrap_err();
        explain(error, &command).to_string()
    }

    #[test]
    fn a_number_that_is_not_allowed_is_told_with_those_that_are() {
        let cases = [
            ("--plans 0", "--plans: \"0\" is not allowed; allowed: 1 to 256"),
            ("--plans many", "--plans: \"many\" is not allowed; allowed: a whole number"),
            ("--plans 99999999999999999999", "allowed: a whole number"),
            ("--seed x", "--seed: \"x\" is not allowed; allowed: a whole number"),
            ("--seed=", "--seed: \"\" is not allowed; allowed: a whole number"),
            ("--count 0", "--count: \"0\" is not allowed; allowed: 1 or more"),
            ("--share x", "--share: \"x\" is not allowed; allowed: a number"),
        ];
        for (line, expected) in cases {
            assert!(said(line).contains(expected), "{line}: {}", said(line));
        }
        assert!(said("--speed 1").contains("unexpected argument"), "{}", said("--speed 1"));
    }
}
