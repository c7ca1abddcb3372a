//! What the program says to bad input: the table `mistakes.txt`, line by line, against a federation of its own.
//!
//! ```text
//! = FILE CONTENT      a file that the next commands have; \n and \t in it are line ends and tabs
//! $ COMMAND           {grc} and {crm} are the addresses of the coordinator and of a resource manager
//! -> EXIT             its exit code
//! LINES               what it prints on both outputs; … is anything
//! ```
//!
//! Ids that the program makes up are left out. Every message says what to do: what is allowed, or what to type.

use std::path::Path;
use std::process::{Command, Stdio};

use crate::shell::{Detached, free_ports};
use crate::{shown, words_of};

const TABLE: &str = include_str!("mistakes.txt");
/// The fewest commands in the table.
const COMMANDS_MIN: usize = 120;
/// What tells somebody what to do; each message has one of these.
const ADVICE: [&str; 11] = [
    "allowed: ",
    "needed: ",
    "expected",
    "[possible values: ",
    "--help",
    "coalloc ",
    "--request FILE",
    "--identity DIR",
    "--grc ADDR",
    " not closed?",
    " still open",
];

/// A command with bad input.
struct Mistake<'a> {
    /// The files that it reads, with their contents.
    files: Vec<(&'a str, String)>,
    command: &'a str,
    exit: i32,
    lines: Vec<&'a str>,
}

fn table() -> Vec<Mistake<'static>> {
    let mut table: Vec<Mistake> = Vec::new();
    let mut files = Vec::new();
    for line in TABLE.lines().filter(|line| !line.is_empty() && !line.starts_with('#')) {
        if let Some(file) = line.strip_prefix("= ") {
            let (name, content) = file.split_once(' ').unwrap();
            files.push((name, content.replace("\\n", "\n").replace("\\t", "\t") + "\n"));
        } else if let Some(command) = line.strip_prefix("$ ") {
            let files = std::mem::take(&mut files);
            table.push(Mistake { files, command, exit: 0, lines: Vec::new() });
        } else if let Some(exit) = line.strip_prefix("-> ") {
            table.last_mut().unwrap().exit = exit.parse().unwrap();
        } else {
            table.last_mut().unwrap().lines.push(line);
        }
    }
    table
}

/// Is this the line, where `…` in it is anything?
fn is_line(pattern: &str, line: &str) -> bool {
    let mut pieces = pattern.split('…');
    let Some(mut rest) = pieces.next().and_then(|first| line.strip_prefix(first)) else {
        return false;
    };
    let mut is_open = false;
    for piece in pieces {
        let Some((_, behind)) = rest.split_once(piece) else { return false };
        (rest, is_open) = (behind, piece.is_empty());
    }
    rest.is_empty() || is_open
}

fn is_made_up(line: &str) -> bool {
    ["request id: ", "change id: "].iter().any(|start| line.starts_with(start))
}

#[test]
fn every_mistake_is_told_with_what_to_do() {
    let table = table();
    assert!(table.len() >= COMMANDS_MIN, "{} commands", table.len());
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let federation = folder.join("my-federation");
    let _detached = Detached(&federation);
    let port = free_ports(8, 25_000);
    let coalloc = |words: &[String], at: &Path| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_coalloc"));
        command.args(words).current_dir(at).stdin(Stdio::null()).env("COLUMNS", "100");
        command.env("COALLOC_GRC", format!("127.0.0.1:{port}"));
        command.env("COALLOC_IDENTITY", federation.join("identities/alice"));
        command.output().unwrap()
    };
    let flags = "--site tokyo=16 --site osaka=32 --link tokyo-osaka=10G --port-base";
    for (words, at) in [
        (format!("init my-federation {flags} {port}"), folder),
        ("up --detach".to_owned(), federation.as_path()),
    ] {
        let output = coalloc(&words_of(&words), at);
        assert!(output.status.success(), "{}", shown(&output));
    }
    let mut wrong = String::new();
    for Mistake { files, command, exit, lines } in table {
        for (name, content) in files {
            std::fs::write(federation.join(name), content).unwrap();
        }
        let addresses = [("{grc}", port), ("{crm}", port + 1)];
        let place = |text: &str| {
            addresses.iter().fold(text.to_owned(), |text, (name, port)| {
                text.replace(name, &format!("127.0.0.1:{port}"))
            })
        };
        let output = coalloc(&words_of(&place(command)), &federation);
        let said = shown(&output);
        let got: Vec<&str> =
            said.lines().filter(|line| !line.is_empty() && !is_made_up(line)).collect();
        let is_right = output.status.code() == Some(exit)
            && got.len() == lines.len()
            && lines.iter().zip(&got).all(|(line, got)| is_line(&place(line), got));
        let has_advice = ADVICE.iter().any(|advice| said.contains(advice));
        if !is_right || !has_advice {
            let code = output.status.code().unwrap_or(-1);
            wrong += &format!("$ {command}\n-> {code}\n{}\n", got.join("\n"));
        }
    }
    assert!(wrong.is_empty(), "not what the table says, or without advice:\n{wrong}");
}
