//! Every reason of a refusal, every error of a call, and every exit code.
//!
//! The errors of calls are read from `net/src/status.rs`, which makes all of them.

use std::process::Command;

use coalloc_cli::kit::schema::Schema;

use super::plain;
use crate::root;

/// A function of `net/src/status.rs` that makes a status.
#[derive(Debug)]
struct CallError {
    code: String,
    reason: String,
    /// Messages of google.rpc besides ErrorInfo.
    details: String,
    meaning: String,
}

/// The functions with `with_reason`, in their order.
fn call_errors(source: &str) -> Vec<CallError> {
    let source = source.split("\n#[cfg(test)]").next().unwrap();
    let constant = |name: &str| {
        let (_, rest) = source.split_once(&format!("const {name}: &str = \"")).unwrap();
        rest.split('"').next().unwrap().to_owned()
    };
    let starts: Vec<usize> = source.match_indices("\npub fn ").map(|(at, _)| at).collect();
    let ends = starts[1..].iter().copied().chain([source.len()]);
    let functions = starts.iter().zip(ends).map(|(start, end)| (*start, &source[*start..end]));
    let mut errors = Vec::new();
    for (start, function) in functions {
        let Some((_, call)) = function.split_once("with_reason(") else { continue };
        let reason = call.split(',').nth(1).unwrap().trim();
        let reason = match reason.strip_prefix('"') {
            Some(text) => text.trim_end_matches('"').to_owned(),
            None => constant(reason),
        };
        let before = source[..start].lines().rev().skip_while(|line| line.starts_with("#["));
        let comment: Vec<&str> = before.map_while(|line| line.strip_prefix("/// ")).collect();
        let comment = comment.into_iter().rev().collect::<Vec<_>>().join(" ");
        let (head, meaning) =
            comment.split_once(": ").unwrap_or_else(|| panic!("{reason}: {comment}"));
        let (code, details) = head.split_once(" with ").unwrap_or((head, ""));
        let is_code = code.chars().all(|c| c.is_ascii_uppercase() || c == '_');
        assert!(is_code, "{reason}: the comment begins with the code: {comment}");
        let meaning = meaning.replace("[`", "`").replace("`]", "`");
        errors.push(CallError { code: code.into(), reason, details: details.into(), meaning });
    }
    errors
}

pub(super) fn page() -> String {
    let mut text = String::from(
        "# Errors and exit codes\n\nA request that is refused is an answer with a reason; a call that fails is an error. [Refusals](../guide/refusals.md) \
         is about what a refusal says, and what would fit instead.\n\n## Reasons of refusals\n\n`Refusal.reason` in \
         [answers](calls.md).\n\n| reason | meaning |\n|---|---|\n",
    );
    let schema = Schema::read().unwrap();
    let reasons = schema.values("Reason");
    assert!(reasons.len() > 15, "{reasons:?}");
    for value in reasons {
        text += &format!("| `{}` | {} |\n", value.name, plain(&value.comment));
    }
    text += "\n## Errors of calls\n\nA gRPC status with `google.rpc.ErrorInfo` of the domain `coalloc`. Its reason is for programs; \
             the message is for people.\n\n| code | `ErrorInfo.reason` | further details | meaning |\n|---|---|---|---|\n";
    let source = std::fs::read_to_string(root().join("net/src/status.rs")).unwrap();
    let errors = call_errors(&source);
    assert_eq!(errors.len() + 1, source.matches("with_reason(").count(), "{errors:#?}");
    let chapter = std::fs::read_to_string(root().join("docs/guide/refusals.md")).unwrap();
    for CallError { code, reason, details, meaning } in errors {
        let (first, rest) = meaning.split_at(1);
        let meaning = plain(&(first.to_uppercase() + rest));
        text += &format!("| {code} | `{reason}` | {details} | {meaning} |\n");
        assert!(chapter.contains(&format!("`{reason}`")), "docs/guide/refusals.md: {reason}");
    }
    let mut help = Command::new(env!("CARGO_BIN_EXE_coalloc"));
    let output = help.args(["help", "exit-codes"]).env("COLUMNS", "80").output().unwrap();
    let codes = String::from_utf8(output.stdout).unwrap();
    text += &format!(
        "\n## Exit codes of the command line\n\nAs `coalloc help exit-codes` prints them:\n\n```text\n{}\n```\n",
        codes.trim_end()
    );
    text
}
