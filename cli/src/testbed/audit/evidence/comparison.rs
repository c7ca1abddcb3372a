//! Signed tips against a ledger that is read offline: the daemon's own file, or a copy.
//!
//! Left out: whether the records mean anything (`coalloc ledger verify`).

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use coalloc_common::Time;
use coalloc_ledger::look::{look, summary};
use coalloc_ledger::tip::{genesis, hex};
use coalloc_ledger::{LedgerError, LedgerSummary, chain_text};

use super::collection::{Finding, KeptTip, Problem, SeriesKey, TipCollection};
use crate::kit::exit::{Exit, Failure};
use crate::user::ledger;

/// What came of comparing one ledger with the tips of a folder.
#[derive(Debug, Clone)]
pub struct LedgerComparison {
    /// The ledger's file.
    pub file: PathBuf,
    /// Whose ledger it is, and its ids.
    pub about: LedgerSummary,
    /// The last sound record.
    pub last: u64,
    /// Tips that are about this ledger.
    pub tips: usize,
    /// The largest number in them.
    pub covered: Option<u64>,
    /// Tips that could not be compared, because they are about records in archives that are not beside the ledger.
    pub in_missing_archives: usize,
    /// When the last of them was signed, by the daemon's clock.
    pub last_signed: Option<Time>,
    /// What is wrong.
    pub findings: Vec<Finding>,
    /// The ledger has another id now than in the last tip: an operator has accepted a restored copy.
    pub renamed_from: Option<String>,
}

/// What was read of a ledger.
struct LedgerReading {
    /// The hashes of the records that tips are about.
    hashes: BTreeMap<u64, [u8; 32]>,
    last: u64,
    /// The last of the first records that were not read, because their archives are not beside the ledger.
    missing: u64,
    /// What is wrong with the ledger itself.
    damage: Option<String>,
    /// Whether all of it was read.
    is_whole: bool,
}

impl LedgerComparison {
    /// Compares a ledger with the tips of a folder.
    ///
    /// # Errors
    /// When the file is not a ledger, or cannot be read.
    pub fn new(collection: &TipCollection, file: &Path) -> Result<Self, Failure> {
        let about = summary(file).map_err(|error| ledger::failure(&error))?;
        let series: Vec<_> =
            collection.series().iter().filter(|(key, _)| key.chain_id == about.id).collect();
        let tips =
            || series.iter().flat_map(|(key, series)| series.distinct().map(move |it| (*key, it)));
        let wanted = tips().map(|(_, tip)| tip.sequence).collect();
        let reading = LedgerReading::new(file, &about.id, &wanted)?;
        let mut findings = Vec::new();
        findings.extend(reading.damage.as_ref().map(|why| damaged(&about, why)));
        for (key, tip) in tips() {
            findings.extend(other_signer(&about, key, tip));
            findings.extend(reading.compare(file, key, tip));
        }
        if series.is_empty() {
            findings.extend(replaced(collection, &about, file));
        }
        let missing: Vec<_> = tips().filter(|(_, tip)| reading.misses(tip)).collect();
        if let Some((key, tip)) = missing.last()
            && missing.len() == tips().count()
        {
            // Whoever cuts a ledger may claim that an archive was moved away. A tip about a later record would show it.
            findings.push(nothing_compared(file, reading.missing, key, tip));
        }
        let in_missing_archives = missing.len();
        let last_tip = series.iter().filter_map(|(_, series)| series.tips.last());
        let last_tip = last_tip.max_by_key(|tip| tip.at.received);
        let identity = about.identity();
        let renamed_from =
            last_tip.map(|tip| tip.ledger_id.to_string()).filter(|known| *known != identity);
        Ok(Self {
            file: file.to_owned(),
            last: reading.last,
            tips: series.iter().map(|(_, series)| series.tips.len()).sum(),
            last_signed: last_tip.map(|tip| tip.signed),
            covered: wanted.last().copied(),
            in_missing_archives,
            about,
            findings,
            renamed_from,
        })
    }
}

impl LedgerReading {
    fn new(file: &Path, chain_id: &str, wanted: &BTreeSet<u64>) -> Result<Self, Failure> {
        let genesis = genesis(chain_id);
        let mut hashes = BTreeMap::from([(genesis.sequence, genesis.hash)]);
        let (mut last, mut missing) = (genesis.sequence, 0);
        let seen = look(file, |sequence, hash, _| {
            last = sequence;
            if wanted.contains(&sequence) {
                hashes.insert(sequence, *hash);
            }
            Ok(())
        });
        let (damage, is_whole) = match seen {
            Ok(sound) => {
                missing = sound.missing;
                (None, true)
            }
            Err(error) => {
                let failure = ledger::failure(&error);
                if failure.exit != Exit::Failed {
                    return Err(failure);
                }
                // These are found when every record has been read.
                let is_whole =
                    matches!(error, LedgerError::Restored { .. } | LedgerError::PageDamaged { .. });
                (Some(chain_text(&error)), is_whole)
            }
        };
        Ok(Self { hashes, last, missing, damage, is_whole })
    }

    /// Is this tip about a record in an archive that is not here?
    fn misses(&self, tip: &KeptTip) -> bool {
        tip.sequence <= self.missing && !self.hashes.contains_key(&tip.sequence)
    }

    /// What is wrong with the ledger in view of one tip.
    fn compare(&self, file: &Path, key: &SeriesKey, tip: &KeptTip) -> Option<Finding> {
        let (file, last) = (file.display(), self.last);
        let (problem, found, other) = match self.hashes.get(&tip.sequence) {
            Some(hash) if *hash == tip.hash => return None,
            Some(hash) => {
                (Problem::Changed, format!("{file} has hash {}", hex(hash)), Some(hex(hash)))
            }
            None if self.misses(tip) => return None,
            None if self.is_whole => (Problem::Cut, format!("{file} ends at record {last}"), None),
            None => (Problem::Damaged, format!("{file} is sound up to record {last} only"), None),
        };
        let text = format!(
            "{}, record {}: {} has signed hash {} at {}, but {found}: the ledger was changed or cut after it was signed",
            key.words(),
            tip.sequence,
            key.signer,
            hex(&tip.hash),
            tip.signed,
        );
        Some(Finding { other_hash: other, ..key.finding(problem, tip, text) })
    }
}

/// The ledger begins after the last record that was signed, and its archives are not here.
fn nothing_compared(file: &Path, missing: u64, key: &SeriesKey, tip: &KeptTip) -> Finding {
    let text = format!(
        "{}, record {}: {} has signed hash {} at {}, but {} begins after record {missing}, and the archives with the \
         records before are not beside it: no tip can be compared. Put its archives there",
        key.words(),
        tip.sequence,
        key.signer,
        hex(&tip.hash),
        tip.signed,
        file.display(),
    );
    key.finding(Problem::Cut, tip, text)
}

fn damaged(about: &LedgerSummary, why: &str) -> Finding {
    let text = format!("{} {}, ledger {}: {why}", about.node.kind, about.node.name, about.id);
    let (sequence, signed_hash, other_hash) = (None, None, None);
    let (problem, ledger) = (Problem::Damaged, about.id.clone());
    let (signer, signed) = (None, None);
    Finding { problem, ledger, sequence, signed_hash, other_hash, signer, signed, text }
}

/// The tip is by another daemon than the one that the ledger names.
fn other_signer(about: &LedgerSummary, key: &SeriesKey, tip: &KeptTip) -> Option<Finding> {
    if key.kind == about.node.kind && key.signer.name() == about.node.name {
        return None;
    }
    let text = format!(
        "ledger {}, record {}: {} has signed hash {} at {}, but it is the ledger of {} {}",
        about.id,
        tip.sequence,
        key.signer,
        hex(&tip.hash),
        tip.signed,
        about.node.kind,
        about.node.name
    );
    Some(key.finding(Problem::OtherSigner, tip, text))
}

/// No tip is of this ledger, but its daemon, or another one of its kind and name, has signed for another ledger.
fn replaced(collection: &TipCollection, about: &LedgerSummary, file: &Path) -> Vec<Finding> {
    let of_name = collection
        .series()
        .iter()
        .filter(|(key, _)| key.kind == about.node.kind && key.signer.name() == about.node.name);
    let finding = |(key, series): (&SeriesKey, &super::collection::TipSeries)| {
        let last = series.tips.last()?;
        let text = format!(
            "{}, record {}: {} has signed hash {} at {}, but {} is ledger {}, of which there is no tip: the ledger was \
             replaced, or is of another daemon of that name",
            key.words(),
            last.sequence,
            key.signer,
            hex(&last.hash),
            last.signed,
            file.display(),
            about.id
        );
        Some(key.finding(Problem::OtherLedger, last, text))
    };
    of_name.filter_map(finding).collect()
}
