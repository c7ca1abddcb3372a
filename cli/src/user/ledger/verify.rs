//! `coalloc ledger verify` and `accept-restored`.

use std::fmt::Write as _;
use std::path::Path;

use coalloc_common::Time;
use coalloc_ledger::look::{SoundLedger, accept_restored, look};
use coalloc_ledger::tip::{TipState, hex};
use coalloc_ledger::{BodyError, LedgerError};
use coalloc_protocol::coordinator::CoordinatorRecord;
use coalloc_protocol::participant::ParticipantRecord;
use serde::Serialize;

use super::{AcceptArgs, VerifyArgs, failure, line};
use crate::kit::exit::{Answer, Failure};
use crate::kit::text;

/// The report on a sound ledger; its field names are those of `--json`.
#[derive(Debug, Serialize)]
struct Report {
    file: String,
    sound: bool,
    node_kind: String,
    node: String,
    records: u64,
    /// The first record that was read: 1, unless the archives before it were moved away.
    proven_from: u64,
    /// How many of the first records are in archives.
    archived: u64,
    /// The last record that the snapshot contains, 0 without a snapshot.
    snapshot: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    first: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    last: Option<String>,
    tip: String,
    identity: String,
    created: String,
    /// State of the tip file beside the ledger: "agrees", "behind", "missing", "unreadable".
    beside: &'static str,
    live: bool,
    unfinished_bytes: u64,
}

/// Runs `coalloc ledger verify`.
pub(super) fn run(args: &VerifyArgs) -> Result<Answer, Failure> {
    let (mut sound_until, mut first, mut last) = (0, None, None);
    // Which kind of node wrote the records is known only when all are read; each record must be valid for
    // one of the two kinds.
    let (mut resource_manager, mut coordinator) = (Ok(()), Ok(()));
    let seen = look(&args.file, |sequence, _, body| {
        let at = body.to_json().ok().and_then(|json| line::time(&line::parse(&json)));
        first = first.or(at);
        last = at.or(last);
        sound_until = sequence;
        keep_first(&mut resource_manager, sequence, body.record::<ParticipantRecord>());
        keep_first(&mut coordinator, sequence, body.record::<CoordinatorRecord>());
        Ok(())
    });
    let sound = seen.map_err(|error| {
        let mut failure = failure(&error);
        if sound_until > 0 && failure.exit == crate::kit::exit::Exit::Failed {
            let _ = write!(failure.message, "\nrecords 1 to {sound_until} are sound");
        }
        if failure.exit == crate::kit::exit::Exit::Failed {
            let path = text::shell_word(&args.file.to_string_lossy());
            // Writing to a String cannot fail.
            let _ = write!(
                failure.message,
                "\na copy that `coalloc ledger backup` has made can take its place: \
                 coalloc ledger restore --help ({path} has to be moved away first)"
            );
        }
        failure
    })?;
    let understood = if sound.about.node.kind == "grc" { coordinator } else { resource_manager };
    if let Err((sequence, source)) = understood {
        let path = args.file.clone();
        return Err(failure(&LedgerError::Undecodable { path, sequence, source }));
    }
    let report = report(&args.file, &sound, first, last);
    if args.json {
        return Ok(Answer::done(text::json(&report)?));
    }
    Ok(Answer::done(shown(&report)))
}

/// Keeps the first record that cannot be parsed.
fn keep_first<T>(
    kept: &mut Result<(), (u64, BodyError)>,
    sequence: u64,
    read: Result<T, BodyError>,
) {
    if kept.is_ok()
        && let Err(error) = read
    {
        *kept = Err((sequence, error));
    }
}

/// The beginning of a new identity. It is random enough: it only has to differ from all earlier identities under the
/// same name.
pub(super) fn new_tag() -> String {
    let mut tag = uuid::Uuid::new_v4().simple().to_string();
    tag.truncate(8);
    tag
}

/// Runs `coalloc ledger accept-restored`.
pub(super) fn accept(args: &AcceptArgs) -> Result<Answer, Failure> {
    let sound = accept_restored(&args.file, &new_tag()).map_err(|error| failure(&error))?;
    Ok(Answer::done(format!(
        "{} is accepted as it is: {} records, from now on of the node with identity {}.\nThis \
         node has lost everything that was reserved after the last of them. Start it and compare \
         with the other side:\nfor a resource manager `coalloc list` of its coordinators, for a \
         coordinator the bookings of its resource managers.\n",
        args.file.display(),
        sound.tip.sequence,
        sound.about.identity(),
    )))
}

fn report(file: &Path, sound: &SoundLedger, first: Option<Time>, last: Option<Time>) -> Report {
    Report {
        file: file.display().to_string(),
        sound: true,
        node_kind: sound.about.node.kind.clone(),
        node: sound.about.node.name.clone(),
        records: sound.tip.sequence,
        proven_from: sound.missing + 1,
        archived: sound.archived,
        snapshot: sound.snapshot.unwrap_or(0),
        first: first.map(|time| time.to_string()),
        last: last.map(|time| time.to_string()),
        tip: hex(&sound.tip.hash),
        identity: sound.about.identity(),
        created: sound.about.created.clone(),
        beside: match &sound.remembered {
            TipState::Nothing => "missing",
            TipState::Unreadable => "unreadable",
            TipState::Tip(tip) if *tip == sound.tip => "agrees",
            TipState::Tip(_) => "behind",
        },
        live: sound.live,
        unfinished_bytes: sound.unfinished.map_or(0, |unfinished| unfinished.bytes),
    }
}

/// Which records were checked, and where they are.
fn proven(report: &Report) -> String {
    let Report { proven_from, archived, snapshot, .. } = *report;
    match (proven_from, archived) {
        (1, 0) => "from the first record on".to_owned(),
        (1, archived) => format!("from the first record on; up to {archived} in archives"),
        (from, _) if from == archived + 1 => format!(
            "from record {from} on, with the snapshot at record {snapshot}; the archives of the records before are \
             not here"
        ),
        (from, archived) => format!(
            "from record {from} on; up to {archived} in archives, the archives before are not here"
        ),
    }
}

fn shown(report: &Report) -> String {
    let none = || "-".to_owned();
    let (first, last) = (report.first.clone(), report.last.clone());
    let beside = match report.beside {
        "agrees" => "agrees: this is the ledger that was last used here",
        "behind" => "behind: normal after a power cut, or while the node is running",
        "missing" => {
            "missing, as for a copy: nobody can tell whether records at the end were cut off"
        }
        _ => "unreadable: nobody can tell whether records at the end were cut off",
    };
    let mut out = format!("{} is sound\n", report.file);
    let rows = [
        ("node", format!("{} {}", report.node_kind, report.node)),
        ("records", report.records.to_string()),
        ("proven", proven(report)),
        ("first", first.unwrap_or_else(none)),
        ("last", last.unwrap_or_else(none)),
        ("hash", report.tip.clone()),
        ("identity", report.identity.clone()),
        ("made", report.created.clone()),
        ("tip file", beside.to_owned()),
        ("in use", if report.live { "by a running node" } else { "by nobody" }.to_owned()),
    ];
    for (name, value) in rows {
        // Writing to a String cannot fail.
        let _ = writeln!(out, "  {name:<9} {value}");
    }
    if report.unfinished_bytes > 0 {
        let bytes = report.unfinished_bytes;
        let _ = writeln!(
            out,
            "  a crash has left {bytes} bytes of an unfinished transaction; the next start rolls it back"
        );
    }
    out
}
