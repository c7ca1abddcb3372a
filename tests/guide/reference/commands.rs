//! Every command with its flags: what `--help` prints, in the groups of `coalloc help`.

use std::collections::BTreeSet;
use std::process::Command;

use crate::shown;

/// The columns for which help is wrapped.
const COLUMNS: &str = "80";
const GROUPS: [&str; 3] = ["use", "operate", "study"];

fn printed(words: &[&str]) -> String {
    let mut command = Command::new(env!("CARGO_BIN_EXE_coalloc"));
    let output = command.args(words).env("COLUMNS", COLUMNS).output().unwrap();
    assert!(output.status.success(), "{words:?}: {}", shown(&output));
    String::from_utf8(output.stdout).unwrap()
}

/// The names at the beginnings of lines such as `  plan   Plan a request and hold nothing`.
fn names(lines: &str) -> Vec<String> {
    let name = |line: &str| {
        let line = line.strip_prefix("  ")?;
        let name = line.split_whitespace().next()?;
        (!line.starts_with(' ') && name != "help").then(|| name.to_owned())
    };
    lines.lines().filter_map(name).collect()
}

/// The commands below a command.
fn below(help: &str) -> Vec<String> {
    let Some((_, rest)) = help.split_once("\nCommands:\n") else { return Vec::new() };
    names(rest.split("\n\n").next().unwrap())
}

fn add(text: &mut String, command: &[&str]) {
    let help = printed(&[command, &["--help"]].concat());
    let head = "#".repeat(command.len() + 2);
    let lines: Vec<&str> = help.lines().map(str::trim_end).collect();
    let help = lines.join("\n");
    *text +=
        &format!("{head} `coalloc {}`\n\n```text\n{}\n```\n\n", command.join(" "), help.trim());
    for name in below(&help) {
        add(text, &[command, &[name.as_str()]].concat());
    }
}

pub(super) fn page() -> String {
    let mut text = String::from(
        "# Commands\n\nEvery command with its arguments, as `coalloc COMMAND --help` prints it. `coalloc help GROUP` lists a \
         group. What the commands do together is in [the guide](../guide.md).\n\n",
    );
    let mut told = BTreeSet::new();
    for group in GROUPS {
        let listed = printed(&["help", group]);
        let (about, list) = listed.split_once(":\n").unwrap();
        text += &format!("## {about}\n\n");
        for name in names(list) {
            match told.insert(name.clone()) {
                true => add(&mut text, &[name.as_str()]),
                false => {
                    text += &format!("`coalloc {name}`: see [above](#coalloc-{name}).\n\n");
                }
            }
        }
    }
    assert!(told.len() > 30, "{told:?}");
    text
}
