//! What clients were told: one JSON object per line, in the order in which each client was told.
//!
//! A line `asked` is written before a call is sent, so that the journal shows what a client that vanishes
//! may have caused. The next line gives the outcome of the call. The lines of one request are in order;
//! those of several requests may be mixed in any order.

use std::io::{BufRead as _, BufReader, Write};
use std::path::Path;

use coalloc_common::Time;
use coalloc_proto::v1;
use serde::{Deserialize, Serialize};

use super::rules::{Piece, pieces_of};
use crate::kit::exit::Failure;

/// A call of a client.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// A call to reserve.
    Reserve,
    /// A call to change a reservation.
    Modify,
    /// A call to release a reservation.
    Release,
}

/// What the client knows about the outcome of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum CallKnowledge {
    /// The call is about to be sent.
    Asked,
    /// The reservation is confirmed, as `version` of `transaction` with these `segments`.
    Confirmed,
    /// Definitely refused: nothing is reserved.
    Refused,
    /// The change is made, as `version` of `transaction` with these `segments`.
    Changed,
    /// The change is definitely not made.
    Unchanged,
    /// Definitely released: nothing is booked any more.
    Released,
    /// The answer says that the call is not finished.
    Indefinite,
    /// The coordinator has refused the call itself (FAILED_PRECONDITION, for example), and has done nothing.
    Rejected,
    /// No answer: a lost connection, a timeout, or a client that did not wait.
    Lost,
}

/// A segment, as it was reported to the client.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ReportedSegment {
    /// The resource manager.
    pub resource_manager: String,
    /// The resource at the resource manager.
    pub resource: String,
    /// The amount in CPUs or bit/s.
    pub amount: u64,
    /// The start, in microseconds since 1970.
    pub start_us: i64,
    /// The end, in microseconds since 1970; not part of the segment.
    pub end_us: i64,
}

/// One line of a journal.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Entry {
    /// The time of the line, by the client's clock.
    pub time: String,
    /// The name of the coordinator that was asked; empty if there is only one.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub grc: String,
    /// The client's id of its request, in every line about it.
    pub request: String,
    /// The kind of call.
    pub kind: Kind,
    /// The client's id of the change, in calls of Modify.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub change: String,
    /// What the client knows about the outcome.
    pub said: CallKnowledge,
    /// The id of the reservation, once it is known.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub reservation: String,
    /// The transaction that the client was told.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub transaction: String,
    /// The version that the client was told.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub version: u32,
    /// The booked segments that the client was told.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub segments: Vec<ReportedSegment>,
}

#[allow(clippy::trivially_copy_pass_by_ref)] // as serde asks
fn is_zero(version: &u32) -> bool {
    *version == 0
}

impl Entry {
    /// A call that is about to be sent.
    #[must_use]
    pub fn asked(grc: &str, request: &str, kind: Kind, change: &str) -> Self {
        Self {
            time: coalloc_net::clock::now().wall.to_string(),
            grc: grc.to_owned(),
            request: request.to_owned(),
            kind,
            change: change.to_owned(),
            said: CallKnowledge::Asked,
            reservation: String::new(),
            transaction: String::new(),
            version: 0,
            segments: Vec::new(),
        }
    }

    /// The outcome of that call when there is no answer.
    #[must_use]
    pub fn ended(&self, said: CallKnowledge) -> Self {
        Self { time: coalloc_net::clock::now().wall.to_string(), said, ..self.clone() }
    }

    /// The outcome of that call, taken from its answer.
    #[must_use]
    pub fn answered(&self, reservation: &v1::Reservation) -> Self {
        let said = said(self.kind, &self.change, reservation);
        let mut entry = self.ended(said);
        entry.reservation.clone_from(&reservation.id);
        entry.transaction.clone_from(&reservation.transaction);
        entry.version = reservation.version;
        if matches!(said, CallKnowledge::Confirmed | CallKnowledge::Changed) {
            entry.segments = told(reservation);
        }
        entry
    }
}

/// What an answer tells the client about the outcome of this call.
#[must_use]
pub fn said(kind: Kind, change: &str, reservation: &v1::Reservation) -> CallKnowledge {
    use v1::ReservationState as S;
    let state = reservation.state();
    match kind {
        Kind::Reserve => match state {
            // While a change is under way, the old version is still confirmed.
            S::Confirmed | S::Active | S::PassedEndTime => CallKnowledge::Confirmed,
            S::Failed if reservation.definite => CallKnowledge::Refused,
            S::Terminated if reservation.definite => CallKnowledge::Released,
            _ => CallKnowledge::Indefinite,
        },
        Kind::Modify => {
            let mine = reservation.change.as_ref().filter(|found| found.change_id == change);
            match (state, mine.map(v1::Change::state)) {
                (S::Confirmed | S::Active | S::PassedEndTime, Some(v1::ChangeState::Done)) => {
                    CallKnowledge::Changed
                }
                (S::Confirmed | S::Active | S::PassedEndTime, Some(v1::ChangeState::Refused)) => {
                    CallKnowledge::Unchanged
                }
                // A mixed outcome, or a release in the meantime, has ended the whole reservation.
                (S::Failed | S::Terminated, _) if reservation.definite => CallKnowledge::Released,
                _ => CallKnowledge::Indefinite,
            }
        }
        Kind::Release => match state {
            S::Terminated | S::Failed if reservation.definite => CallKnowledge::Released,
            _ => CallKnowledge::Indefinite,
        },
    }
}

/// The segments of a reservation, in order.
fn told(reservation: &v1::Reservation) -> Vec<ReportedSegment> {
    let places = pieces_of(reservation);
    let all = places.into_iter().flat_map(|(manager, pieces)| {
        pieces.into_iter().map(move |Piece { resource, start, end, amount }| ReportedSegment {
            resource_manager: manager.clone(),
            resource,
            amount,
            // The values come from a coordinator's answer, so they are in the range of Time.
            start_us: i64::try_from(start).unwrap_or_default(),
            end_us: i64::try_from(end).unwrap_or_default(),
        })
    });
    all.collect()
}

/// Writes a journal.
#[derive(Debug)]
pub struct Writer<W: Write> {
    out: W,
}

impl<W: Write> Writer<W> {
    /// A writer to this output.
    pub const fn new(out: W) -> Self {
        Self { out }
    }

    /// Adds a line, and flushes it, so that a client that is killed leaves everything it was told.
    ///
    /// # Errors
    /// When the line cannot be written.
    pub fn add(&mut self, entry: &Entry) -> std::io::Result<()> {
        let mut line = serde_json::to_string(entry)?;
        line.push('\n');
        self.out.write_all(line.as_bytes())?;
        self.out.flush()
    }
}

/// Reads a journal.
///
/// # Errors
/// When the file cannot be read, or a line is not an entry; the error names file and line. A last line that
/// was cut off is ignored, because its writer was killed.
pub fn read(path: &Path) -> Result<Vec<Entry>, Failure> {
    let bad = |text: String| Failure::bad_input(format!("{}{text}", path.display()));
    let file = std::fs::File::open(path).map_err(|error| bad(format!(": {error}")))?;
    let mut entries = Vec::new();
    let mut reader = BufReader::new(file);
    for number in 1.. {
        let mut line = String::new();
        let wrong = |error: &dyn std::fmt::Display| bad(format!(":{number}: {error}"));
        if reader.read_line(&mut line).map_err(|error| wrong(&error))? == 0 {
            break;
        }
        if line.trim().is_empty() {
            continue;
        }
        match serde_json::from_str(&line) {
            Ok(entry) => entries.push(entry),
            Err(_) if !line.ends_with('\n') => break,
            Err(error) => return Err(wrong(&error)),
        }
    }
    check(&entries).map_err(|(number, text)| bad(format!(":{number}: {text}")))?;
    Ok(entries)
}

/// Checks the fields that every line must have.
fn check(entries: &[Entry]) -> Result<(), (usize, String)> {
    for (entry, number) in entries.iter().zip(1..) {
        if entry.request.is_empty() {
            return Err((
                number,
                "request: empty; allowed: the id that the client chose".to_owned(),
            ));
        }
        if entry.kind == Kind::Modify && entry.change.is_empty() {
            return Err((number, "change: empty; a modify needs the id of its change".to_owned()));
        }
    }
    Ok(())
}

/// The segments of a line, by resource manager.
pub(super) fn pieces(entry: &Entry) -> std::collections::BTreeMap<String, Vec<Piece>> {
    let mut places = std::collections::BTreeMap::<String, Vec<Piece>>::new();
    for ReportedSegment { resource_manager, resource, amount, start_us, end_us } in &entry.segments
    {
        places.entry(resource_manager.clone()).or_default().push(Piece {
            resource: resource.clone(),
            start: Time::from_us(*start_us).as_us().into(),
            end: Time::from_us(*end_us).as_us().into(),
            amount: *amount,
        });
    }
    places.values_mut().for_each(|pieces| pieces.sort());
    places
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read_and_a_line_that_was_cut_off_is_left_out() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("journal");
        let asked = Entry::asked("grc", "r1", Kind::Modify, "c1");
        let mut told = asked.ended(CallKnowledge::Changed);
        told.segments = vec![ReportedSegment {
            resource_manager: "crm".into(),
            resource: "A".into(),
            amount: 4,
            start_us: 1,
            end_us: 2,
        }];
        let mut writer = Writer::new(Vec::new());
        writer.add(&asked).unwrap();
        writer.add(&told).unwrap();
        let mut bytes = writer.out;
        bytes.extend(b"{\"time\": \"2026");
        std::fs::write(&path, &bytes).unwrap();
        assert_eq!(read(&path).unwrap(), [asked, told]);
        bytes.extend(b"\n");
        std::fs::write(&path, &bytes).unwrap();
        let failure = read(&path).unwrap_err();
        assert!(failure.message.contains("journal:3: "), "{failure}");
    }

    #[test]
    fn a_line_without_an_id_is_refused_by_its_number() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("journal");
        for (change, request, field) in [("", "r1", "change"), ("c1", "", "request")] {
            let entry = Entry::asked("grc", request, Kind::Modify, change);
            std::fs::write(&path, serde_json::to_string(&entry).unwrap() + "\n").unwrap();
            let failure = read(&path).unwrap_err();
            assert!(failure.message.contains(&format!("journal:1: {field}: ")), "{failure}");
        }
    }

    #[test]
    fn only_what_is_final_counts_as_told() {
        use v1::ReservationState as S;
        let of = |state: S, definite| v1::Reservation {
            state: state.into(),
            definite,
            ..Default::default()
        };
        let reserve = |state, definite| said(Kind::Reserve, "", &of(state, definite));
        assert_eq!(reserve(S::Confirmed, true), CallKnowledge::Confirmed);
        assert_eq!(reserve(S::Failed, true), CallKnowledge::Refused);
        assert_eq!(reserve(S::Failed, false), CallKnowledge::Indefinite);
        assert_eq!(reserve(S::Committing, false), CallKnowledge::Indefinite);
        let change = |state: v1::ChangeState, id: &str| v1::Reservation {
            change: Some(v1::Change {
                change_id: id.into(),
                state: state.into(),
                ..Default::default()
            }),
            ..of(S::Confirmed, true)
        };
        let modify = |of: &v1::Reservation| said(Kind::Modify, "c1", of);
        assert_eq!(modify(&change(v1::ChangeState::Done, "c1")), CallKnowledge::Changed);
        assert_eq!(modify(&change(v1::ChangeState::Refused, "c1")), CallKnowledge::Unchanged);
        assert_eq!(modify(&change(v1::ChangeState::Done, "c0")), CallKnowledge::Indefinite);
        assert_eq!(modify(&of(S::Failed, true)), CallKnowledge::Released, "a mixed outcome");
        assert_eq!(said(Kind::Release, "", &of(S::Terminated, true)), CallKnowledge::Released);
        assert_eq!(said(Kind::Release, "", &of(S::Terminating, false)), CallKnowledge::Indefinite);
    }
}
