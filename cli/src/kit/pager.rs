//! Answers that are longer than the terminal, shown by the user's pager.
//!
//! The pager is the program in COALLOC_PAGER, or else in PAGER, or else `less`, which gets the flags F, R and X unless LESS
//! has others. An empty COALLOC_PAGER, or `cat`, means that nothing is paged.
//!
//! Left out: answers that are piped, and commands that print as they go.

use std::ffi::OsString;
use std::io::{IsTerminal as _, Write as _};
use std::process::{Child, Command, Stdio};

use tokio::signal::unix::{SignalKind, signal};

/// Shows an answer by the pager, if it is longer than the terminal on standard output. Otherwise, or when there is no such
/// program, returns `false`; the answer is still to be printed.
#[must_use]
pub fn page(text: &str) -> bool {
    if !std::io::stdout().is_terminal() {
        return false;
    }
    let Some((_, terminal_size::Height(height))) = terminal_size::terminal_size() else {
        return false;
    };
    // The prompt of the shell takes a line, too.
    if text.lines().count() < usize::from(height) {
        return false;
    }
    let Some(mut child) = start() else { return false };
    // Ctrl-C is for the pager, which may stop a search by it. Heard once, the signal no longer ends this process.
    let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build();
    let _heard = runtime.as_ref().ok().map(|runtime| {
        let _entered = runtime.enter();
        signal(SignalKind::interrupt())
    });
    if let Some(mut input) = child.stdin.take() {
        // Whoever leaves the pager early has read enough.
        let _ = input.write_all(text.as_bytes());
    }
    // The pager has shown the text, whatever it says of itself.
    let _ = child.wait();
    true
}

/// Starts the pager; `None` if the user wants none, or it cannot be started.
fn start() -> Option<Child> {
    let words = words(std::env::var("COALLOC_PAGER").ok(), std::env::var("PAGER").ok());
    let (program, flags) = words.split_first()?;
    let mut command = Command::new(program);
    command.args(flags).stdin(Stdio::piped());
    if std::env::var_os("LESS").is_none_or(|flags: OsString| flags.is_empty()) {
        command.env("LESS", "FRX");
    }
    command.spawn().ok()
}

/// The pager's program and its arguments; empty if there is to be none.
fn words(own: Option<String>, everybodys: Option<String>) -> Vec<String> {
    let everybodys = everybodys.filter(|text| !text.trim().is_empty());
    let command = own.or(everybodys).unwrap_or_else(|| "less".to_owned());
    let words: Vec<String> = command.split_whitespace().map(str::to_owned).collect();
    if words == ["cat"] { Vec::new() } else { words }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_own_pager_comes_before_everybody_s_and_may_be_none() {
        let words = |own: Option<&str>, everybodys: Option<&str>| {
            words(own.map(str::to_owned), everybodys.map(str::to_owned)).join(" ")
        };
        assert_eq!(words(None, None), "less");
        assert_eq!(words(None, Some("")), "less");
        assert_eq!(words(None, Some("most -s")), "most -s");
        assert_eq!(words(Some("less -S"), Some("most")), "less -S");
        assert_eq!(words(Some(""), Some("most")), "");
        assert_eq!(words(None, Some("cat")), "");
    }

    #[test]
    fn what_is_piped_is_not_paged() {
        // The tests' standard output may be a terminal, but an empty text fits each.
        assert!(!page(""));
    }
}
