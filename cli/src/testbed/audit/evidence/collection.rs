//! What the signed tips of a folder say together, without any ledger.
//!
//! An honest ledger only grows, and a record keeps its hash. So two tips of one ledger with one number and two hashes,
//! or a later tip with a smaller number, prove that the ledger was not what its daemon has signed before.
//!
//! Left out: the order by the daemons' clocks, which may be wrong. Tips are in the order in which they were fetched.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use coalloc_common::{Identity, Time};
use coalloc_ledger::tip::{Tip, hex};
use coalloc_net::tips::VerifiedTip;
use serde::Serialize;

/// What is wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Problem {
    /// Two tips have the same number and two hashes.
    Contradiction,
    /// A tip has a smaller number than one that was fetched before.
    WentBack,
    /// A daemon has signed tips of two ledgers.
    OtherLedger,
    /// Two daemons have signed tips of one ledger.
    TwoSigners,
    /// The ledger has another hash at this number.
    Changed,
    /// The ledger ends before this number.
    Cut,
    /// The ledger is damaged, older than it was, or cannot be read as far as this number.
    Damaged,
    /// The tip was signed by another daemon than the one that the ledger names.
    OtherSigner,
    /// A line of the evidence is no signed tip, or is not believed.
    Unusable,
}

/// Something that is wrong, with what an auditor needs to ask about it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Finding {
    /// What it is.
    pub problem: Problem,
    /// The id with which the ledger's chain begins; empty when it is not known.
    pub ledger: String,
    /// The number of the record.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sequence: Option<u64>,
    /// The hash that was signed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub signed_hash: Option<String>,
    /// The other hash: of another tip, or in the ledger.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub other_hash: Option<String>,
    /// Who has signed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub signer: Option<String>,
    /// When it was signed, by the signer's clock.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub signed: Option<String>,
    /// All of it in words.
    pub text: String,
}

/// Where a tip is stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredAt {
    /// The file.
    pub file: Arc<Path>,
    /// The line in it, from 1 on; 0 when it was appended just now.
    pub line: usize,
    /// When it was received, by the auditor's clock.
    pub received: Time,
}

/// One tip, without what all tips of its series have in common.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeptTip {
    /// The number of the record.
    pub sequence: u64,
    /// Its hash.
    pub hash: [u8; 32],
    /// When it was signed, by the signer's clock.
    pub signed: Time,
    /// The id by which others knew the ledger then.
    pub ledger_id: Arc<str>,
    /// Where it is stored.
    pub at: StoredAt,
}

/// A ledger as a daemon has signed for it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct SeriesKey {
    /// The id with which the ledger's chain begins.
    pub chain_id: String,
    /// The daemon that signs.
    pub signer: Identity,
    /// The kind of the daemon.
    pub kind: String,
}

/// All tips of one ledger by one daemon, in the order in which they were fetched.
#[derive(Debug, Clone, Default)]
pub struct TipSeries {
    /// The tips.
    pub tips: Vec<KeptTip>,
    /// The first tip of each number and hash, by its place in `tips`. More than one for a number is a contradiction.
    first: BTreeMap<u64, Vec<usize>>,
    /// The place of the tip with the largest number since the ledger last went back.
    highest: usize,
}

/// All tips of a folder.
#[derive(Debug, Clone, Default)]
pub struct TipCollection {
    series: BTreeMap<SeriesKey, TipSeries>,
    findings: Vec<Finding>,
}

impl SeriesKey {
    /// The daemon and its ledger, for people.
    #[must_use]
    pub fn words(&self) -> String {
        format!("{} {}, ledger {}", self.kind, self.signer.name(), self.chain_id)
    }

    /// Something that is wrong with a tip of this series.
    #[must_use]
    pub fn finding(&self, problem: Problem, tip: &KeptTip, text: String) -> Finding {
        Finding {
            problem,
            ledger: self.chain_id.clone(),
            sequence: Some(tip.sequence),
            signed_hash: Some(hex(&tip.hash)),
            other_hash: None,
            signer: Some(self.signer.to_string()),
            signed: Some(tip.signed.to_string()),
            text,
        }
    }
}

impl KeptTip {
    /// The same tip, as it is beside a ledger.
    #[must_use]
    pub fn tip(&self, chain_id: &str) -> Tip {
        Tip { ledger_id: chain_id.to_owned(), sequence: self.sequence, hash: self.hash }
    }
}

impl TipSeries {
    /// The first tip of each number and hash, by number: the others say nothing else.
    pub fn distinct(&self) -> impl Iterator<Item = &KeptTip> {
        self.first.values().flatten().filter_map(|place| self.tips.get(*place))
    }

    /// Adds a tip, and returns what is wrong with it in view of those before it.
    fn add(&mut self, key: &SeriesKey, tip: KeptTip) -> Vec<Finding> {
        let mut findings = Vec::new();
        let place = self.tips.len();
        let (signer, words) = (&key.signer, key.words());
        let known = self.first.entry(tip.sequence).or_default();
        let mut before = known.iter().filter_map(|place| self.tips.get(*place));
        let first = before.clone().next();
        if !before.any(|before| before.hash == tip.hash) {
            known.push(place);
            if let Some(before) = first {
                let (was, is) = (hex(&before.hash), hex(&tip.hash));
                let text = format!(
                    "{words}, record {}: {signer} has signed hash {was} at {}, and hash {is} at {}: one of the two was \
                     never in the ledger, or the ledger was changed or cut in between{}",
                    tip.sequence,
                    before.signed,
                    tip.signed,
                    restored(before, &tip)
                );
                let finding = key.finding(Problem::Contradiction, before, text);
                findings.push(Finding { other_hash: Some(is), ..finding });
            }
        }
        match self.tips.get(self.highest) {
            Some(highest) if highest.sequence > tip.sequence => {
                let text = format!(
                    "{words}: {signer} has signed record {} with hash {} at {}, and later, at {}, a ledger that ends at \
                     record {}: the ledger was cut after it was signed{}",
                    highest.sequence,
                    hex(&highest.hash),
                    highest.signed,
                    tip.signed,
                    tip.sequence,
                    restored(highest, &tip)
                );
                findings.push(key.finding(Problem::WentBack, highest, text));
                self.highest = place;
            }
            Some(highest) if highest.sequence == tip.sequence => {}
            _ => self.highest = place,
        }
        self.tips.push(tip);
        findings
    }
}

/// What else is known when a ledger has another id in a later tip.
fn restored(before: &KeptTip, after: &KeptTip) -> String {
    if before.ledger_id == after.ledger_id {
        return String::new();
    }
    let (was, is) = (&before.ledger_id, &after.ledger_id);
    format!(" (an operator has accepted a restored copy: others knew it as {was}, then as {is})")
}

impl TipCollection {
    /// Adds a tip, and returns what is wrong with it in view of those before it.
    pub fn add(&mut self, verified: &VerifiedTip, at: StoredAt) -> Vec<Finding> {
        let statement = &verified.statement;
        let key = SeriesKey {
            chain_id: statement.tip.ledger_id.clone(),
            signer: verified.signer.identity.clone(),
            kind: statement.kind.clone(),
        };
        let mut findings = Vec::new();
        if !self.series.contains_key(&key) {
            findings.extend(self.others(&key, statement.signed));
        }
        let series = self.series.entry(key.clone()).or_default();
        let known = series.tips.last().map(|last| &last.ledger_id);
        let known = known.filter(|known| ***known == *statement.ledger_id).cloned();
        let tip = KeptTip {
            sequence: statement.tip.sequence,
            hash: statement.tip.hash,
            signed: statement.signed,
            ledger_id: known.unwrap_or_else(|| statement.ledger_id.as_str().into()),
            at,
        };
        findings.extend(series.add(&key, tip));
        self.findings.extend(findings.iter().cloned());
        findings
    }

    /// What is wrong with a new series in view of the others: its signer has another ledger, or its ledger another
    /// signer.
    fn others(&self, key: &SeriesKey, signed: Time) -> Vec<Finding> {
        let mut findings = Vec::new();
        let words = key.words();
        for (other, series) in &self.series {
            let Some(last) = series.tips.last() else { continue };
            let (problem, text) = if other.signer == key.signer {
                let text = format!(
                    "{words}: {} has signed for this ledger at {signed}, and for ledger {} at {}, record {}: one ledger \
                     was replaced by the other one",
                    key.signer, other.chain_id, last.signed, last.sequence
                );
                (Problem::OtherLedger, text)
            } else if other.chain_id == key.chain_id {
                let text = format!(
                    "{words}: {} has signed for this ledger at {signed}, and {} at {}, record {}: it is not known whose \
                     it is",
                    key.signer, other.signer, last.signed, last.sequence
                );
                (Problem::TwoSigners, text)
            } else {
                continue;
            };
            findings.push(other.finding(problem, last, text));
        }
        findings
    }

    /// Notes a line that is no signed tip, or is not believed.
    pub(super) fn add_unusable(&mut self, file: &Path, line: usize, why: String) {
        let text = format!("{}, line {line}: {why}", file.display());
        let (ledger, sequence, signed_hash, other_hash) = (String::new(), None, None, None);
        let problem = Problem::Unusable;
        let (signer, signed) = (None, None);
        self.findings.push(Finding {
            problem,
            ledger,
            sequence,
            signed_hash,
            other_hash,
            signer,
            signed,
            text,
        });
    }

    /// All tips, by ledger and signer.
    #[must_use]
    pub const fn series(&self) -> &BTreeMap<SeriesKey, TipSeries> {
        &self.series
    }

    /// Everything that is wrong with the tips themselves.
    #[must_use]
    pub fn findings(&self) -> &[Finding] {
        &self.findings
    }

    /// How many tips there are.
    #[must_use]
    pub fn count(&self) -> usize {
        self.series.values().map(|series| series.tips.len()).sum()
    }
}
