//! Programs of the machine, run to their end.

use std::process::{Output, Stdio};
use std::time::Duration;

use coalloc_common::plain_text::one_line;
use tokio::process::Command;

use crate::kit::exit::Failure;

/// How long one program may take.
const PATIENCE: Duration = Duration::from_secs(20);

/// The first line of what a program complains of.
pub(super) fn complaint(stderr: &[u8]) -> String {
    let text = String::from_utf8_lossy(stderr);
    let line = text.lines().map(str::trim).find(|line| !line.is_empty()).unwrap_or_default();
    one_line(line).into_owned()
}

/// Runs a program to its end.
///
/// # Errors
/// When it cannot be started, or does not end.
pub(super) async fn output(command: std::process::Command) -> Result<Output, Failure> {
    let mut command = Command::from(command);
    let program = command.as_std().get_program().to_string_lossy().into_owned();
    command.stdin(Stdio::null()).kill_on_drop(true);
    let seconds = PATIENCE.as_secs();
    let output = tokio::time::timeout(PATIENCE, command.output()).await;
    output
        .map_err(|_| Failure::internal(format!("{program} has not ended within {seconds} s")))?
        .map_err(|error| Failure::internal(format!("{program} cannot be started: {error}")))
}

/// Runs a program: what it writes, or what it complains of.
///
/// # Errors
/// As [`output`].
pub(super) async fn run(command: std::process::Command) -> Result<Result<String, String>, Failure> {
    let output = output(command).await?;
    Ok(match output.status.success() {
        true => Ok(String::from_utf8_lossy(&output.stdout).into_owned()),
        false => Err(complaint(&output.stderr)),
    })
}

/// Runs a program that must succeed.
///
/// # Errors
/// When it does not.
pub(super) async fn check(command: std::process::Command) -> Result<String, Failure> {
    let words: Vec<String> = std::iter::once(command.get_program())
        .chain(command.get_args())
        .map(|word| word.to_string_lossy().into_owned())
        .collect();
    let complained =
        |complaint: String| Failure::internal(format!("{}: {complaint}", words.join(" ")));
    run(command).await?.map_err(complained)
}

/// A command of words, in a network namespace or here.
pub(super) fn command(netns: Option<&str>, words: &str) -> std::process::Command {
    let mut words = words.split(' ');
    let Some(netns) = netns else {
        let mut command = std::process::Command::new(words.next().unwrap_or_default());
        command.args(words);
        return command;
    };
    let mut command = std::process::Command::new("nsenter");
    command.arg(format!("--net={}", super::network::file(netns))).args(words);
    command
}
