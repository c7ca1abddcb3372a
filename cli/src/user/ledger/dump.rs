//! `coalloc ledger dump`: prints records as they are read, no matter how many.

use std::io::{BufWriter, ErrorKind, Write as _};

use coalloc_common::plain_text;
use coalloc_ledger::LedgerError;
use coalloc_ledger::look::look;
use coalloc_ledger::tip::hex;

use super::{DumpArgs, failure, line};
use crate::kit::exit::{Answer, Exit, Failure};

/// Runs `coalloc ledger dump`.
pub(super) fn run(args: &DumpArgs) -> Result<Answer, Failure> {
    if args.from == 0 {
        return Err(Failure::bad_input("--from: 0 is not allowed; allowed: 1 or more"));
    }
    let mut out = BufWriter::new(std::io::stdout().lock());
    let (mut printed, mut broken) = (0, None);
    let seen = look(&args.file, |sequence, hash, body| {
        let full = args.limit.is_some_and(|limit| printed >= limit);
        if sequence < args.from || full || broken.is_some() {
            return Ok(());
        }
        let json = body.to_json().map_err(|source| {
            let path = args.file.clone();
            LedgerError::Undecodable { path, sequence, source }
        })?;
        let record = line::parse(&json);
        let of_txn = args.txn.as_deref().is_none_or(|id| line::mentions(&record, &|s| s == id));
        let of = |id: &str| {
            let attempt = |s: &str| s.strip_prefix(id).is_some_and(|rest| rest.starts_with('/'));
            line::mentions(&record, &|s| s == id || attempt(s))
        };
        if !of_txn || !args.reservation.as_deref().is_none_or(of) {
            return Ok(());
        }
        printed += 1;
        let written = match args.json {
            // Numbers and order are those that were written, and what would steer a terminal is written as JSON
            // escapes it.
            true => writeln!(
                out,
                "{{\"sequence\":{sequence},\"hash\":\"{}\",\"record\":{json}}}",
                hex(hash),
                json = plain_text::json(&json)
            ),
            false => {
                writeln!(out, "{sequence:>7}  {}", plain_text::one_line(&line::shown(&record)))
            }
        };
        broken = written.err();
        Ok(())
    });
    let flushed = broken.map_or_else(|| out.flush(), Err);
    match flushed {
        // A reader that closed the pipe (`| head`) has read what it wanted.
        Err(error) if error.kind() != ErrorKind::BrokenPipe => {
            return Err(Failure::new(Exit::Failed, format!("standard output: {error}")));
        }
        _ => {}
    }
    seen.map_err(|error| failure(&error))?;
    if printed == 0 {
        crate::kit::text::note("no record of that kind");
    }
    Ok(Answer::done(String::new()))
}
