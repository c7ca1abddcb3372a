//! What the stored evidence shows, for people and for programs.
//!
//! Everything that is not proven is said: a ledger without tips, tips without a ledger, and records that were written
//! after the last tip.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use coalloc_common::Time;
use serde::Serialize;

use super::collection::{Finding, TipCollection};
use super::comparison::LedgerComparison;
use crate::kit::exit::{Exit, Failure};
use crate::kit::text;

/// One ledger: what was compared.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
struct LedgerLine {
    /// The id with which the chain begins.
    ledger: String,
    kind: String,
    name: String,
    /// The file that was compared; `None` when none was given.
    #[serde(skip_serializing_if = "Option::is_none")]
    file: Option<PathBuf>,
    tips: usize,
    /// The largest number that was signed.
    #[serde(skip_serializing_if = "Option::is_none")]
    signed_until: Option<u64>,
    /// Tips about records in archives that are not beside the ledger.
    #[serde(skip_serializing_if = "is_zero")]
    in_missing_archives: usize,
    /// When the last tip was signed, by the daemon's clock.
    #[serde(skip_serializing_if = "Option::is_none")]
    last_signed: Option<String>,
    /// The last sound record of the file.
    #[serde(skip_serializing_if = "Option::is_none")]
    last_record: Option<u64>,
    /// The id by which others knew the ledger in the last tip, if they know it by another one now.
    #[serde(skip_serializing_if = "Option::is_none")]
    known_before_as: Option<String>,
    #[serde(skip)]
    is_wrong: bool,
}

/// What the evidence shows.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct EvidenceReport {
    /// No finding, and no ledger without evidence.
    holds: bool,
    folder: PathBuf,
    tips: usize,
    #[serde(skip_serializing_if = "Option::is_none")]
    first: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    last: Option<String>,
    ledgers: Vec<LedgerLine>,
    findings: Vec<Finding>,
    /// Whether something that was to be proven has no evidence.
    is_unproven: bool,
}

impl EvidenceReport {
    /// The report on a folder and the ledgers that were compared with it.
    #[must_use]
    pub fn new(
        folder: &Path,
        collection: &TipCollection,
        comparisons: Vec<LedgerComparison>,
    ) -> Self {
        let mut findings = collection.findings().to_vec();
        findings.extend(comparisons.iter().flat_map(|one| one.findings.iter().cloned()));
        let lacks = collection.count() == 0 || comparisons.iter().any(|one| one.tips == 0);
        let mut ledgers: Vec<_> = comparisons.into_iter().map(LedgerLine::compared).collect();
        for (key, series) in collection.series() {
            if ledgers.iter().any(|line| line.file.is_some() && line.ledger == key.chain_id) {
                continue;
            }
            ledgers.push(LedgerLine {
                ledger: key.chain_id.clone(),
                kind: key.kind.clone(),
                name: key.signer.name().to_owned(),
                file: None,
                tips: series.tips.len(),
                signed_until: series.tips.iter().map(|tip| tip.sequence).max(),
                in_missing_archives: 0,
                last_signed: series.tips.last().map(|tip| tip.signed.to_string()),
                last_record: None,
                known_before_as: None,
                is_wrong: findings.iter().any(|one| one.ledger == key.chain_id),
            });
        }
        let signed = || collection.series().values().flat_map(|it| &it.tips).map(|tip| tip.signed);
        let shown = |time: Option<Time>| time.map(|time| time.to_string());
        Self {
            holds: findings.is_empty() && !lacks,
            folder: folder.to_owned(),
            tips: collection.count(),
            first: shown(signed().min()),
            last: shown(signed().max()),
            ledgers,
            findings,
            is_unproven: lacks,
        }
    }

    /// Everything that is wrong.
    #[must_use]
    pub fn findings(&self) -> &[Finding] {
        &self.findings
    }

    /// How the command ends: with 1 when anything is wrong, and with 4 when something has no evidence.
    #[must_use]
    pub fn exit(&self) -> Exit {
        match (self.findings.is_empty(), self.is_unproven) {
            (false, _) => Exit::Failed,
            (true, true) => Exit::Unfinished,
            (true, false) => Exit::Done,
        }
    }

    /// The report for people.
    #[must_use]
    pub fn text(&self) -> String {
        let verdict = match self.exit() {
            Exit::Done => "The evidence agrees",
            Exit::Unfinished => "NOT PROVEN, because evidence is missing",
            _ => "The evidence CONTRADICTS",
        };
        let mut out = format!("{verdict}; {}", text::count(self.tips, "signed tip"));
        // Writing to a String cannot fail, here and below.
        if let (Some(first), Some(last)) = (&self.first, &self.last) {
            let _ = write!(out, ", signed from {first} to {last}");
        }
        let _ = writeln!(out, ", in {}:", self.folder.display());
        for line in &self.ledgers {
            let _ = writeln!(out, "{}", line.text());
        }
        for finding in &self.findings {
            let _ = writeln!(out, "  FAIL   {}", finding.text);
        }
        if self.ledgers.iter().all(|line| line.file.is_none()) && self.tips > 0 {
            out += "No ledger was given: the tips were compared with each other only (--ledger FILE)\n";
        }
        out
    }

    /// The report for programs.
    ///
    /// # Errors
    /// When it cannot be written as JSON.
    pub fn json(&self) -> Result<String, Failure> {
        text::json(self)
    }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
const fn is_zero(count: &usize) -> bool {
    *count == 0
}

fn count(number: u64, thing: &str) -> String {
    text::count(usize::try_from(number).unwrap_or(usize::MAX), thing)
}

impl LedgerLine {
    fn compared(one: LedgerComparison) -> Self {
        Self {
            ledger: one.about.id,
            kind: one.about.node.kind,
            name: one.about.node.name,
            file: Some(one.file),
            tips: one.tips,
            signed_until: one.covered,
            in_missing_archives: one.in_missing_archives,
            last_signed: one.last_signed.map(|time| time.to_string()),
            last_record: Some(one.last),
            known_before_as: one.renamed_from,
            is_wrong: !one.findings.is_empty(),
        }
    }

    fn text(&self) -> String {
        let whose = format!("{} {}, ledger {}", self.kind, self.name, self.ledger);
        let tips = text::count(self.tips, "tip");
        let mark = match (&self.file, self.is_wrong, self.tips) {
            (_, true, _) => "FAIL",
            (Some(_), false, 0) => "NONE",
            (Some(_), false, _) => "ok  ",
            (None, false, _) => "-   ",
        };
        let mut out = format!("  {mark}   {whose}: {tips}");
        // Writing to a String cannot fail, here and below.
        if let Some(until) = self.signed_until {
            let _ = write!(out, " up to record {until}");
        }
        if let Some(signed) = &self.last_signed {
            let _ = write!(out, ", the last one signed at {signed}");
        }
        match (&self.file, self.last_record) {
            (Some(file), Some(last)) => {
                let (file, sound) =
                    (file.display(), if self.is_wrong { "sound record" } else { "record" });
                let _ = write!(out, "; {file} has {}", count(last, sound));
                let after = last.saturating_sub(self.signed_until.unwrap_or_default());
                if after > 0 {
                    let _ = write!(out, ", and no tip covers the last {after}");
                }
            }
            _ => out += "; no ledger was given to compare with",
        }
        if self.in_missing_archives > 0 {
            let tips = text::count(self.in_missing_archives, "tip");
            let _ = write!(
                out,
                "; {tips} could not be compared, because the archives are not beside it"
            );
        }
        if let Some(before) = &self.known_before_as {
            let _ = write!(
                out,
                "; an operator has accepted a restored copy since (others knew it as {before})"
            );
        }
        out
    }
}
