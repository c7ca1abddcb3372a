//! What `coalloc --help` and `coalloc help` show: the commands in groups, so that the first screen has what a user needs first.
//!
//! Left out: the help of each command, which clap makes of its arguments. A command that is in no group fails a test here.

use clap::Command;

use crate::kit::exit::{self, Answer, Failure};

/// The commands that a user needs first, in the order of their use.
const FIRST: [&str; 5] = ["plan", "reserve", "list", "show", "release"];

/// Commands that belong together.
struct CommandGroup {
    name: &'static str,
    about: &'static str,
    /// Their names, in the order of their use.
    commands: &'static [&'static str],
}

const GROUPS: [CommandGroup; 3] = [
    CommandGroup {
        name: "use",
        about: "Reserve, look, change and give back",
        commands: &[
            "plan",
            "reserve",
            "list",
            "show",
            "release",
            "request",
            "modify",
            "provision",
            "deprovision",
            "watch",
            "quota",
            "servers",
            "allocate",
            "task",
            "workflow",
            "picture",
            "topology",
            "usage",
            "find-window",
        ],
    },
    CommandGroup {
        name: "operate",
        about: "Run a federation and keep it well",
        commands: &[
            "init",
            "up",
            "down",
            "kubernetes",
            "serve",
            "config",
            "certs",
            "health",
            "doctor",
            "log-level",
            "topology",
            "usage",
            "bookings",
            "quota",
            "repair",
            "give-up",
            "ledger",
            "audit",
            "completions",
            "man",
        ],
    },
    CommandGroup {
        name: "study",
        about: "Try, measure and simulate",
        commands: &[
            "demo", "sim", "trace", "bench", "compare", "soak", "audit", "compose", "relay",
        ],
    },
];

/// The width for which lists are wrapped, in characters.
const WIDTH: usize = 80;

/// The first screen. It fits 24 lines of 80 characters.
pub(crate) fn overview(cli: &Command) -> String {
    let about = cli.get_about().map(ToString::to_string).unwrap_or_default();
    let mut text = format!("{about}\n\nUsage: coalloc COMMAND [OPTIONS]\n\n");
    text += &listed(cli, &FIRST);
    text += "\nAll commands, which `coalloc help GROUP` explains:\n";
    for group in &GROUPS {
        let rest: Vec<&str> =
            group.commands.iter().copied().filter(|name| !FIRST.contains(name)).collect();
        text += &wrapped(&format!("  {:<9}", group.name), &rest);
    }
    text += "\nMore: `coalloc COMMAND --help`, `coalloc help exit-codes`, `coalloc --version`";
    text
}

/// Runs `coalloc help TOPIC...`: a group, the exit codes, or a command.
///
/// # Errors
/// When there is no such topic.
pub(crate) fn help(mut cli: Command, topic: &[String]) -> Result<Answer, Failure> {
    let names: Vec<&str> = topic.iter().map(String::as_str).collect();
    let group = |name: &str| GROUPS.iter().find(|group| group.name == name);
    let text = match names.as_slice() {
        [] => overview(&cli) + "\n",
        ["exit-codes"] => exit::help() + "\n",
        [name] if group(name).is_some() => {
            let group = group(name).into_iter();
            group.map(|of| format!("{}:\n\n{}", of.about, listed(&cli, of.commands))).collect()
        }
        names => {
            cli.build();
            let mut command = &mut cli;
            for name in names {
                command = command.find_subcommand_mut(name).ok_or_else(|| no_topic(name))?;
            }
            command.render_long_help().to_string()
        }
    };
    Ok(Answer::done(text))
}

fn no_topic(name: &str) -> Failure {
    let groups: Vec<&str> = GROUPS.iter().map(|group| group.name).collect();
    Failure::bad_input(format!(
        "help: there is no command, group or topic {name:?}; allowed: a command, {}, or exit-codes; \
         `coalloc help` lists the commands",
        groups.join(", ")
    ))
}

/// Every topic of `coalloc help`, with a line about it.
pub(crate) fn topics(cli: &Command) -> Vec<(String, String)> {
    let about = |command: &Command| command.get_about().map(ToString::to_string);
    let commands = cli
        .get_subcommands()
        .map(|command| (command.get_name().to_owned(), about(command).unwrap_or_default()));
    let groups = GROUPS.iter().map(|group| (group.name.to_owned(), group.about.to_owned()));
    let codes = ("exit-codes".to_owned(), "What each exit code means".to_owned());
    commands.chain(groups).chain([codes]).collect()
}

/// The commands of these names, a line each.
fn listed(cli: &Command, names: &[&str]) -> String {
    let line = |name: &&str| {
        let command = cli.find_subcommand(name);
        let about = command.and_then(Command::get_about).map(ToString::to_string);
        format!("  {name:<12} {}\n", about.unwrap_or_default())
    };
    names.iter().map(line).collect()
}

/// Words after a head, over as many lines as they need.
fn wrapped(head: &str, words: &[&str]) -> String {
    let (mut text, mut line) = (String::new(), head.to_owned());
    for (index, word) in words.iter().enumerate() {
        let comma = if index + 1 == words.len() { "" } else { "," };
        if line.chars().count() + word.len() + comma.len() + 1 > WIDTH {
            text += line.trim_end();
            text.push('\n');
            line = " ".repeat(head.chars().count());
        }
        line += &format!("{word}{comma} ");
    }
    text + line.trim_end() + "\n"
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    fn command() -> Command {
        crate::command()
    }

    #[test]
    fn every_command_is_in_a_group_and_every_group_has_commands_only() {
        let cli = command();
        let has: BTreeSet<&str> = cli.get_subcommands().map(Command::get_name).collect();
        let grouped: BTreeSet<&str> =
            GROUPS.iter().flat_map(|group| group.commands).copied().chain(["help"]).collect();
        assert_eq!(has, grouped);
    }

    #[test]
    fn the_first_screen_fits_a_small_terminal_and_begins_with_what_users_need() {
        let text = overview(&command());
        let lines: Vec<&str> = text.lines().collect();
        assert!(lines.len() < 24, "{} lines\n{text}", lines.len());
        let longest = lines.iter().map(|line| line.chars().count()).max();
        assert!(longest <= Some(WIDTH), "{longest:?}\n{text}");
        let first: Vec<&str> = lines[4..9].iter().map(|line| line[2..14].trim()).collect();
        assert_eq!(first, FIRST);
        assert!(lines[4..9].iter().all(|line| line.len() > 20), "{text}");
    }

    #[test]
    fn topics_are_groups_commands_and_exit_codes() {
        let help = |topic: &[&str]| {
            let topic: Vec<String> = topic.iter().map(|word| (*word).to_owned()).collect();
            help(command(), &topic).map(|answer| answer.text)
        };
        assert!(help(&[]).unwrap().contains("coalloc help GROUP"));
        let operate = help(&["operate"]).unwrap();
        assert!(operate.contains("\n  give-up      Stop waiting for"), "{operate}");
        assert!(help(&["exit-codes"]).unwrap().contains("  3  refused"));
        assert!(help(&["reserve"]).unwrap().contains("Usage: coalloc reserve"));
        assert!(help(&["certs", "issue"]).unwrap().contains("Usage: coalloc certs issue"));
        let error = help(&["reserv"]).unwrap_err().message;
        assert!(error.contains("\"reserv\"") && error.contains("use, operate, study"), "{error}");
    }
}
