//! The commands on a page of the user's guide.
//!
//! A block of the language `console` (run by tests/guide) or `sh` (run by a shell: in tests/compose, and for pages that begin with
//! a folder of their own in tests/guide) holds commands only, one a line behind `$ `. A comment `# exit N` behind a command
//! says with which exit code it ends, and otherwise that is 0.
//!
//! Left out: running them.

use std::path::Path;

/// One command of a page.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct PageCommand {
    /// The line as the page has it, without `$ `.
    pub(crate) line: String,
    /// The command, without the comment.
    pub(crate) command: String,
    /// The exit code that the page promises.
    pub(crate) exit: i32,
}

impl PageCommand {
    pub(crate) fn read(line: &str) -> Self {
        let (command, comment) = line.split_once('#').unwrap_or((line, ""));
        let exit = comment.trim().strip_prefix("exit ").map_or(0, |code| code.parse().unwrap());
        Self { line: line.to_owned(), command: command.trim().to_owned(), exit }
    }
}

/// The commands of all blocks of a language on a page, in order.
pub(crate) fn commands(page: &Path, language: &str) -> Vec<PageCommand> {
    let text = std::fs::read_to_string(page).unwrap();
    let begin = format!("```{language}");
    let mut inside = false;
    let mut commands = Vec::new();
    for line in text.lines() {
        if line == begin {
            inside = true;
        } else if line == "```" {
            inside = false;
        } else if inside {
            let line = line.strip_prefix("$ ");
            let line = line.unwrap_or_else(|| {
                panic!("{}: blocks of {language} hold commands only", page.display())
            });
            commands.push(PageCommand::read(line));
        }
    }
    commands
}
