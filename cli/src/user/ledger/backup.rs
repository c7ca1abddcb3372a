//! `coalloc ledger backup` and `restore`.

use std::fmt::Write as _;

use coalloc_ledger::backup::{self, RestoredLedger};
use coalloc_ledger::look::SoundLedger;
use coalloc_ledger::tip::hex;
use serde::Serialize;

use super::verify::new_tag;
use super::{BackupArgs, RestoreArgs, failure};
use crate::kit::exit::{Answer, Failure};
use crate::kit::text;

/// A backup; its field names are those of `--json`.
#[derive(Debug, Serialize)]
struct BackupReport {
    file: String,
    node_kind: String,
    node: String,
    records: u64,
    tip: String,
    bytes: u64,
}

/// Runs `coalloc ledger backup`.
pub(super) fn back_up(args: &BackupArgs) -> Result<Answer, Failure> {
    let copy = backup::back_up(&args.file, &args.to).map_err(|error| failure(&error))?;
    let SoundLedger { about, tip, .. } = copy;
    let report = BackupReport {
        file: args.to.display().to_string(),
        node_kind: about.node.kind,
        node: about.node.name,
        records: tip.sequence,
        tip: hex(&tip.hash),
        // The file was there a moment ago.
        bytes: std::fs::metadata(&args.to).map_or(0, |file| file.len()),
    };
    if args.json {
        return Ok(Answer::done(text::json(&report)?));
    }
    Ok(Answer::done(format!(
        "{} has all {} records of {} {} up to now, and each of them is sound: {}, last hash {}\n",
        report.file,
        report.records,
        report.node_kind,
        report.node,
        text::count(usize::try_from(report.bytes).unwrap_or(usize::MAX), "byte"),
        report.tip,
    )))
}

/// A restored ledger; its field names are those of `--json`.
#[derive(Debug, Serialize)]
struct RestoreReport {
    file: String,
    node_kind: String,
    node: String,
    records: u64,
    identity: String,
    /// `null` when nobody knows.
    lost_records: Option<u64>,
    moved_to: Option<String>,
}

/// Runs `coalloc ledger restore`.
pub(super) fn restore(args: &RestoreArgs) -> Result<Answer, Failure> {
    let restored = backup::restore(&args.backup, &args.to, &new_tag());
    let restored = restored.map_err(|error| failure(&error))?;
    let RestoredLedger { ledger, lost, moved_to } = restored;
    let report = RestoreReport {
        file: args.to.display().to_string(),
        node_kind: ledger.about.node.kind.clone(),
        node: ledger.about.node.name.clone(),
        records: ledger.tip.sequence,
        identity: ledger.about.identity(),
        lost_records: lost,
        moved_to: moved_to.map(|path| path.display().to_string()),
    };
    if args.json {
        return Ok(Answer::done(text::json(&report)?));
    }
    Ok(Answer::done(shown(&report)))
}

fn shown(report: &RestoreReport) -> String {
    let RestoreReport { file, node_kind, node, records, identity, lost_records, moved_to } = report;
    let mut out = format!("{file} is the ledger of {node_kind} {node} again: {records} records\n");
    if let Some(path) = moved_to {
        // Writing to a String cannot fail.
        let _ = writeln!(out, "What was there before is now {path}.");
    }
    let lost = match lost_records {
        Some(0) => {
            out.push_str(
                "Nothing is missing: it has every record that was written here. Start the node.\n",
            );
            return out;
        }
        Some(1) => "1 record that was written here later is lost".to_owned(),
        Some(lost) => format!("{lost} records that were written here later are lost"),
        None => "Nobody here knows what was recorded after the backup".to_owned(),
    };
    let next = match node_kind.as_str() {
        "grc" => {
            "`coalloc repair` there shows what its resource managers have and it does not know"
        }
        _ => {
            "`coalloc repair` at each of its coordinators shows what differs, and with --apply books what is missing"
        }
    };
    let _ = writeln!(
        out,
        "{lost}, so the node has another identity from now on: {identity}. Start it; then {next}."
    );
    out
}
