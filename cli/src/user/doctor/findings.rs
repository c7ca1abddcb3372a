//! A finding of `coalloc doctor`, and how all of them are shown.

use std::collections::BTreeSet;

use serde::Serialize;

use crate::kit::exit::{Answer, Exit, Failure};
use crate::kit::text;

/// What was looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Check {
    /// Its file can be read.
    Configuration,
    /// It answers.
    Serves,
    /// Its clock, or that of this machine.
    Clock,
    /// Its certificate, and the lists of what is revoked.
    Certificate,
    /// Free space.
    Disk,
    /// Its release.
    Version,
    /// Whether one accepts the other.
    Accepts,
    /// How old is what a coordinator knows.
    Picture,
}

impl Check {
    const fn word(self) -> &'static str {
        match self {
            Self::Configuration => "configuration",
            Self::Serves => "serves",
            Self::Clock => "clock",
            Self::Certificate => "certificate",
            Self::Disk => "disk",
            Self::Version => "version",
            Self::Accepts => "accepts",
            Self::Picture => "picture",
        }
    }
}

/// What comes of a check.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Verdict {
    /// As it should be.
    Ok,
    /// It works, but not for ever.
    Warning,
    /// It does not work.
    Failed,
    /// It could not be looked at; the text says why.
    NotChecked,
}

impl Verdict {
    const fn word(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Warning => "warning",
            Self::Failed => "FAILED",
            Self::NotChecked => "not checked",
        }
    }
}

/// One line of the table.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(super) struct Finding {
    /// The daemon, or `this machine`.
    pub(super) about: String,
    pub(super) check: Check,
    pub(super) verdict: Verdict,
    /// What was measured.
    pub(super) measured: String,
    /// What to type, or to do.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) next: Option<String>,
}

impl Finding {
    fn new(about: &str, check: Check, verdict: Verdict, measured: impl Into<String>) -> Self {
        let (about, measured) = (about.to_owned(), measured.into());
        Self { about, check, verdict, measured, next: None }
    }

    pub(super) fn ok(about: &str, check: Check, measured: impl Into<String>) -> Self {
        Self::new(about, check, Verdict::Ok, measured)
    }

    pub(super) fn warning(about: &str, check: Check, measured: impl Into<String>) -> Self {
        Self::new(about, check, Verdict::Warning, measured)
    }

    pub(super) fn failed(about: &str, check: Check, measured: impl Into<String>) -> Self {
        Self::new(about, check, Verdict::Failed, measured)
    }

    pub(super) fn not_checked(about: &str, check: Check, why: impl Into<String>) -> Self {
        Self::new(about, check, Verdict::NotChecked, why)
    }

    /// The daemon of which the configuration cannot be used, if that was found.
    pub(super) fn broken_configuration(&self) -> Option<String> {
        let is_broken = self.check == Check::Configuration && self.verdict == Verdict::Failed;
        is_broken.then(|| self.about.clone())
    }

    /// Is it about the certificate of one of these?
    pub(super) fn is_of_certificate(&self, names: &BTreeSet<String>) -> bool {
        self.check == Check::Certificate && names.contains(&self.about)
    }

    /// The same, with what to type next.
    pub(super) fn then(self, next: impl Into<String>) -> Self {
        Self { next: Some(next.into()), ..self }
    }
}

/// All findings, and how many there are of each kind.
#[derive(Debug, Serialize)]
struct Report {
    ok: usize,
    warnings: usize,
    failed: usize,
    not_checked: usize,
    findings: Vec<Finding>,
}

/// What the command answers: the table, what to do, and how many findings there are of each kind.
pub(super) fn answer(mut findings: Vec<Finding>, as_json: bool) -> Result<Answer, Failure> {
    // What is looked at together stands together; within that, the order of the daemons stays.
    findings.sort_by_key(|finding| finding.check);
    let count = |verdict| findings.iter().filter(|finding| finding.verdict == verdict).count();
    let (ok, warnings) = (count(Verdict::Ok), count(Verdict::Warning));
    let (failed, not_checked) = (count(Verdict::Failed), count(Verdict::NotChecked));
    let exit = if failed == 0 { Exit::Done } else { Exit::Failed };
    let report = Report { ok, warnings, failed, not_checked, findings };
    let text = if as_json { text::json(&report)? } else { shown(&report) };
    Ok(Answer { text, exit })
}

fn shown(report: &Report) -> String {
    let mut table = text::table(&["check", "of", "verdict", "measured"]);
    for Finding { about, check, verdict, measured, .. } in &report.findings {
        table.add_row([check.word(), about, verdict.word(), measured]);
    }
    let mut out = text::finish(&table);
    let to_do = report.findings.iter().filter_map(|finding| {
        Some(format!("  {}: {}\n", finding.about, text::line(finding.next.as_deref()?)))
    });
    let mut to_do: Vec<String> = to_do.collect();
    to_do.dedup();
    if !to_do.is_empty() {
        out += "\nTo do:\n";
        out += &to_do.concat();
    }
    let Report { ok, warnings, failed, not_checked, .. } = report;
    let more = match not_checked {
        0 => String::new(),
        count => format!(", {count} not checked"),
    };
    let warned = text::count(*warnings, "warning");
    out + &format!("\n{ok} ok, {warned}, {failed} failed{more}\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_failure_is_the_exit_code_and_what_to_do_is_told_once() {
        let low = |about| Finding::warning(about, Check::Disk, "9 MB free").then("free some space");
        let well = vec![low("crm-a"), Finding::ok("crm-a", Check::Serves, "serving")];
        let answer = super::answer(well.clone(), false).unwrap();
        assert_eq!(answer.exit, Exit::Done);
        let lines: Vec<&str> = answer.text.lines().collect();
        assert!(lines[1].starts_with("serves  crm-a  ok "), "{}", answer.text);
        assert!(answer.text.ends_with("1 ok, 1 warning, 0 failed\n"), "{}", answer.text);
        let mut ill = well;
        ill.extend([low("crm-a"), Finding::failed("grc", Check::Serves, "no answer")]);
        ill.push(Finding::not_checked("grc", Check::Clock, "no answer"));
        let answer = super::answer(ill.clone(), false).unwrap();
        assert_eq!(answer.exit, Exit::Failed);
        assert_eq!(answer.text.matches("free some space").count(), 1, "{}", answer.text);
        assert!(answer.text.ends_with("1 ok, 2 warnings, 1 failed, 1 not checked\n"));
        let json: serde_json::Value =
            serde_json::from_str(&super::answer(ill, true).unwrap().text).unwrap();
        assert_eq!((json["failed"].as_u64(), json["not_checked"].as_u64()), (Some(1), Some(1)));
        assert_eq!(json["findings"][1]["verdict"], "failed");
    }
}
