//! `coalloc request new`: writes the file of a request that flags make.
//!
//! The file says the same as the flags do for `reserve` and `plan`, and what else a request may say is in its comments.

use std::fmt::Write as _;
use std::fs::File;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use clap::{Args, Subcommand};
use coalloc_proto::{notation, v1};

use crate::kit::exit::{Answer, Failure};
use crate::kit::request::{ParsedRequest, SearchArgs, TermFlags};
use crate::kit::request_flags::RequestFlags;
use crate::kit::text;

/// Make files of requests
#[derive(Debug, Clone, Args)]
pub struct RequestFileArgs {
    #[command(subcommand)]
    command: RequestFileCommand,
}

#[derive(Debug, Clone, Subcommand)]
enum RequestFileCommand {
    New(NewArgs),
}

/// Write the file of a request that flags make
///
/// `coalloc reserve` takes the file, or the same flags. Times are written as instants, so the file means the same
/// whenever it is used.
#[derive(Debug, Clone, Args)]
struct NewArgs {
    #[command(flatten)]
    parts: RequestFlags,
    #[command(flatten)]
    terms: TermFlags,
    /// The file; one that is there is not overwritten [default: standard output]
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
}

/// Runs `coalloc request`.
///
/// # Errors
/// When the flags make no request, or the file cannot be written.
pub fn run(args: &RequestFileArgs) -> Result<Answer, Failure> {
    let RequestFileCommand::New(args) = &args.command;
    let now = coalloc_net::clock::now().wall;
    let asked = ParsedRequest::of_flags(&args.parts, &args.terms, &SearchArgs::default(), now)?;
    asked.check(now)?;
    let text = yaml(&asked.request);
    let Some(path) = &args.output else { return Ok(Answer::done(text)) };
    write_new(path, &text)?;
    let path = path.display().to_string();
    let word = text::shell_word(&path);
    Ok(Answer::done(format!("{path} is written; next: coalloc plan --request {word}\n")))
}

fn write_new(path: &Path, text: &str) -> Result<(), Failure> {
    let written = File::create_new(path).and_then(|mut file| file.write_all(text.as_bytes()));
    written.map_err(|error| match error.kind() {
        std::io::ErrorKind::AlreadyExists => Failure::bad_input(format!(
            "--output {}: the file is there already; allowed: a new file",
            path.display()
        )),
        _ => Failure::bad_input(format!("--output {}: {error}", path.display())),
    })
}

/// The request as YAML with comments.
fn yaml(request: &v1::CoAllocationRequest) -> String {
    let mut out = String::from(
        "# A CoAllocationRequest: sites and links between them, reserved together or not at all.\n\
         # `coalloc plan --request FILE` shows what could be reserved, and\n\
         # `coalloc reserve --request FILE` reserves it.\n\
         \n\
         # The sites wanted. Names are this request's own; each is placed on another site\n\
         # of the federation. A site may also say `pinned_to: SITE`, `excluded: [SITE]`, and\n\
         # `others: [{kind: storage, amount: 500}]`, in GB.\n\
         sites:\n",
    );
    // Writing to a String cannot fail, here and below.
    for site in &request.sites {
        let _ = writeln!(out, "  - name: {}\n    cpus: {}", quoted(&site.name), site.cpus);
        if let Some(place) = &site.pinned_to {
            let _ = writeln!(out, "    pinned_to: {}", quoted(place));
        }
        if !site.others.is_empty() {
            out += "    others:\n";
        }
        for one in &site.others {
            let kind = quoted(&one.kind);
            let _ = writeln!(out, "      - kind: {kind}\n        amount: {}", one.amount);
        }
    }
    if !request.links.is_empty() {
        out += "# Links between these sites. `max_latency: 5ms` limits the latency of the whole route.\nlinks:\n";
    }
    for link in &request.links {
        let (from, to) = (quoted(&link.from), quoted(&link.to));
        let rate = notation::amount::short(link.bandwidth_bps);
        let _ = writeln!(out, "  - from: {from}\n    to: {to}\n    bandwidth_bps: {rate}");
        if let Some(latency) = &link.max_latency {
            let _ = writeln!(out, "    max_latency: {}", text::span(Some(latency)));
        }
    }
    out += "# How long the whole takes.\n";
    if let Some(length) = &request.duration {
        let _ = writeln!(out, "duration: {}", text::span(Some(length)));
    }
    out += "# It begins between these two. `--after TIME` moves both; `--before TIME` sets the\n# latest end.\n";
    let times =
        [("earliest_start", request.earliest_start), ("latest_start", request.latest_start)];
    for (field, time) in times {
        let _ = writeln!(out, "{field}: {}", text::instant(time.as_ref()));
    }
    if request.manual_provision() {
        out += "# Nobody is let in at the equipment before `coalloc provision`.\nmanual_provision: true\n";
    }
    if !request.series.is_empty() {
        let series = quoted(&request.series);
        let _ = writeln!(out, "# The series to which the reservation belongs.\nseries: {series}");
    }
    if request.user.is_empty() {
        out += "# `user: NAME` says for whom it is; `--user NAME` replaces it.\n";
    } else {
        let _ = writeln!(out, "user: {}", quoted(&request.user));
    }
    out
}

/// A text as YAML reads it back: bare if it is a plain name, otherwise between quotes.
fn quoted(text: &str) -> String {
    let letters =
        text.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_');
    let plain = letters && text.starts_with(|first: char| first.is_ascii_alphabetic());
    // Words that YAML may read as something else.
    let word = ["null", "true", "false", "yes", "no", "on", "off", "y", "n"];
    if plain && !word.contains(&text.to_ascii_lowercase().as_str()) {
        return text.to_owned();
    }
    serde_json::Value::from(text).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;
    use coalloc_common::Time;
    use coalloc_proto::file::parse;

    #[derive(Debug, Parser)]
    struct Line {
        #[command(flatten)]
        args: NewArgs,
    }

    fn asked(line: &str) -> ParsedRequest {
        let words = std::iter::once("x").chain(line.split(' '));
        let args = Line::try_parse_from(words).unwrap().args;
        let search = SearchArgs::default();
        ParsedRequest::of_flags(&args.parts, &args.terms, &search, Time::from_us(0)).unwrap()
    }

    #[test]
    fn the_file_says_what_the_flags_say() {
        let lines = [
            "--site a=4 --for 1h",
            "--site a=4 --for 1h --manual-provision",
            "--site a=4 --for 1h --series lab",
            "--site a=4@N0 --site b=8,storage=2TB --link a-b=2.5G,latency=5ms --for 1h30 --user ada",
            "--site no=1 --site 7=2@true --site é\"=3 --link no-7=1kbit/s --for 1.5s --user null",
            "--site a=4 --for 2h --after 2026-11-21T10:00:00.25Z --before 2026-11-22T00:00:00Z",
        ];
        for line in lines {
            let request = asked(line).request;
            let text = yaml(&request);
            let read = parse::<v1::CoAllocationRequest>(Path::new("request.yaml"), text.clone());
            let read = read.unwrap_or_else(|error| panic!("{line}: {error}\n{text}"));
            assert_eq!(read.message, request, "{line}\n{text}");
        }
    }

    #[test]
    fn a_file_that_is_there_is_not_overwritten() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("request.yaml");
        write_new(&path, "one").unwrap();
        let failure = write_new(&path, "two").unwrap_err();
        assert!(failure.message.contains("is there already"), "{failure}");
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "one");
    }
}
