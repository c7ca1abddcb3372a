//! What a shell completes: commands and flags, ids of reservations, names of what the federation has, experiments, fields.
//!
//! The script of `coalloc completions SHELL` calls this program again with [`VARIABLE`] set, and with the words that were
//! typed. Ids and names come from the coordinator that these words (`--grc`, `--identity`) or the environment name. A
//! coordinator that does not answer within [`PATIENCE`] completes nothing.
//!
//! Left out: values with a grammar of their own, but for the pinned site in `--site NAME=CPUS@SITE`.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::{Command, CommandFactory as _};
use clap_complete::CompleteEnv;
use clap_complete::engine::{
    ArgValueCompleter, CompletionCandidate, PathCompleter, ValueCompleter as _,
};
use clap_complete::env::{EnvCompleter, Shells};
use coalloc_proto::v1;
use coalloc_sim::experiment::shipped::SHIPPED;

use crate::kit::exit::{Answer, Failure};
use crate::kit::resources::described;
use crate::kit::rpc::{GrcArgs, IdentityArgs, all_reservations};
use crate::kit::text;
use crate::user::config;
use crate::{Cli, overview};

/// The environment variable by which a shell asks for completions.
const VARIABLE: &str = "COALLOC_COMPLETE";
/// How long a person waits for a completion.
const PATIENCE: Duration = Duration::from_millis(1_500);

/// What completes an argument.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Subject {
    /// Reservations that have not ended.
    Reservation,
    /// Workflows that have not ended.
    Workflow,
    Series,
    Site,
    Path,
    ResourceManager,
    /// The site behind the `@` of a site of a request.
    PinnedSite,
    /// Experiments that come with the program, and files.
    Experiment,
    /// Fields of configurations.
    Field,
    /// Topics of `coalloc help`.
    Topic,
}

/// What completes the argument with this id of a command; `None`: what clap knows of its values.
fn subject(command: &str, argument: &str) -> Option<Subject> {
    Some(match (command, argument) {
        ("workflow", "id") => Subject::Workflow,
        (
            "show" | "release" | "modify" | "provision" | "deprovision" | "watch" | "give-up",
            "id",
        ) => Subject::Reservation,
        ("list" | "modify" | "release", "series") => Subject::Series,
        ("usage" | "servers" | "allocate", "site") | ("workflow", "exclude" | "data_at") => {
            Subject::Site
        }
        ("usage", "path") => Subject::Path,
        ("usage" | "bookings" | "repair" | "give-up", "rm") => Subject::ResourceManager,
        ("plan" | "reserve" | "request" | "find-window", "site") => Subject::PinnedSite,
        ("sim", "files" | "file" | "from") => Subject::Experiment,
        ("config", "field") => Subject::Field,
        ("help", "topic") => Subject::Topic,
        _ => return None,
    })
}

/// Answers the shell, if it is a shell that calls. Before anything else is printed.
///
/// # Errors
/// The exit code when the shell is unknown.
pub(crate) fn answer() -> Option<ExitCode> {
    let folder = std::env::current_dir().ok();
    let env = CompleteEnv::with_factory(command).var(VARIABLE).completer("coalloc");
    match env.try_complete(std::env::args_os(), folder.as_deref()) {
        Ok(true) => Some(ExitCode::SUCCESS),
        Ok(false) => None,
        Err(error) => error.exit(),
    }
}

/// The script that makes a shell ask.
///
/// # Errors
/// None that is the user's.
pub(crate) fn script(shell: clap_complete::Shell) -> Result<Answer, Failure> {
    let mut script = Vec::new();
    let known = Shells::builtins();
    let known: Option<&dyn EnvCompleter> = known.completer(&shell.to_string());
    let known = known.ok_or_else(|| Failure::internal(format!("{shell}: an unknown shell")))?;
    known
        .write_registration(VARIABLE, "coalloc", "coalloc", "coalloc", &mut script)
        .map_err(|error| Failure::internal(format!("the script: {error}")))?;
    let script = String::from_utf8_lossy(&script).into_owned();
    Ok(Answer::done(match shell {
        clap_complete::Shell::Bash => for_bash(&script),
        _ => script,
    }))
}

/// The script for bash, which also completes what stands behind an `@`.
///
/// Bash cuts words at `@`, and offers the names of hosts behind it where nothing else is offered. The script gives this program
/// the whole word, and bash the part behind the `@`.
fn for_bash(script: &str) -> String {
    let own = [
        ("    local words=(\"${COMP_WORDS[@]}\")\n", BASH_WORDS),
        (BASH_LAST_WORD, ""),
        ("    if [[ $? != 0 ]]; then\n        unset COMPREPLY\n", BASH_REPLY),
        ("-o bashdefault ", ""),
    ];
    own.iter().fold(script.to_owned(), |script, (theirs, ours)| script.replace(theirs, ours))
}

/// How the script that ours is made of cuts the last word at the cursor.
const BASH_LAST_WORD: &str = r#"    if [[ "${BASH_VERSINFO[0]}" -ge 4 ]]; then
        words[COMP_CWORD]="$2"
    fi
"#;

/// Joins what bash has cut, up to the cursor: words between which the line has no blank are one. Sets what of the last one bash
/// does not count as typed.
const BASH_WORDS: &str = r#"    local words=() rest="${COMP_LINE:0:COMP_POINT}" next word at
    for (( at = 0; at <= COMP_CWORD; at++ )); do
        next="${rest#"${rest%%[![:space:]]*}"}"
        word="${COMP_WORDS[at]}"
        (( at < COMP_CWORD )) || word="$next"
        if (( at > 0 )) && [[ "$next" == "$rest" && -n "$word" ]]; then
            words[${#words[@]}-1]+="$word"
        else
            words+=("$word")
        fi
        rest="${next#"$word"}"
    done
    local _CLAP_COMPLETE_INDEX=$(( ${#words[@]} - 1 ))
    local before="${words[_CLAP_COMPLETE_INDEX]%"$2"}"
"#;

/// Takes away what bash has already, and gives up as the script that this one is made of.
const BASH_REPLY: &str = r#"    local failed=$?
    COMPREPLY=("${COMPREPLY[@]#"$before"}")
    if [[ $failed != 0 ]]; then
        unset COMPREPLY
"#;

/// The command line, with what completes its arguments.
fn command() -> Command {
    Cli::command().mut_subcommands(|command| {
        let name = command.get_name().to_owned();
        with_subjects(command, &name)
    })
}

fn with_subjects(command: Command, name: &str) -> Command {
    let command = command.mut_args(|argument| match subject(name, argument.get_id().as_str()) {
        Some(subject) => {
            let candidates = move |typed: &OsStr| candidates(subject, typed);
            argument.add(ArgValueCompleter::new(candidates))
        }
        None => argument,
    });
    command.mut_subcommands(|command| with_subjects(command, name))
}

fn candidates(subject: Subject, typed: &OsStr) -> Vec<CompletionCandidate> {
    let Some(word) = typed.to_str() else { return Vec::new() };
    let mut found: Vec<CompletionCandidate> = match subject {
        Subject::Experiment => {
            let shipped = SHIPPED.iter().map(|one| CompletionCandidate::new(one.name));
            shipped.chain(PathCompleter::file().complete(typed)).collect()
        }
        Subject::Field => config::fields().into_iter().map(CompletionCandidate::new).collect(),
        Subject::Topic => {
            let topics = overview::topics(&Cli::command());
            topics.into_iter().map(|(topic, about)| candidate(topic, about)).collect()
        }
        Subject::PinnedSite => {
            let Some((before, _)) = word.rsplit_once('@') else { return Vec::new() };
            let known = known_to_coordinator(Subject::Site);
            known
                .into_iter()
                .map(|(name, about)| candidate(format!("{before}@{name}"), about))
                .collect()
        }
        _ => known_to_coordinator(subject)
            .into_iter()
            .map(|(name, about)| candidate(name, about))
            .collect(),
    };
    found.retain(|one| one.get_value().to_str().is_some_and(|value| value.starts_with(word)));
    found
}

fn candidate(value: String, about: String) -> CompletionCandidate {
    CompletionCandidate::new(value).help((!about.is_empty()).then_some(about.into()))
}

/// Names of this subject, each with a line about it; empty if the coordinator does not tell them in time.
fn known_to_coordinator(subject: Subject) -> BTreeMap<String, String> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let Ok(runtime) = runtime else { return BTreeMap::new() };
    let words: Vec<OsString> = std::env::args_os().collect();
    let asked = async {
        let mut client = coordinator_of(&words).connect().await?;
        match subject {
            Subject::Reservation | Subject::Workflow | Subject::Series => {
                let states = text::NOT_ENDED.map(i32::from).to_vec();
                let request = v1::ListRequest { states, ..Default::default() };
                let all = all_reservations(&mut client, request).await;
                let all = all.map_err(|status| crate::kit::rpc::failure(&status))?;
                Ok(all.iter().filter_map(|one| of_reservation(subject, one)).collect())
            }
            _ => {
                let request = v1::DescribeFederationRequest {};
                let known = client.describe_federation(request).await;
                let known = known.map_err(|status| crate::kit::rpc::failure(&status))?;
                Ok::<_, Failure>(of_federation(subject, &known.into_inner()))
            }
        }
    };
    let answer = runtime.block_on(async { tokio::time::timeout(PATIENCE, asked).await });
    answer.ok().and_then(Result::ok).unwrap_or_default()
}

/// The coordinator and the identity that the typed words name.
fn coordinator_of(words: &[OsString]) -> GrcArgs {
    let value = |flag: &str| {
        let words = || words.iter().filter_map(|word| word.to_str());
        let behind = words().skip_while(|word| *word != flag).nth(1);
        let within = || words().find_map(|word| word.strip_prefix(flag)?.strip_prefix('='));
        behind.or_else(within).map(str::to_owned)
    };
    let identity = IdentityArgs { identity: value("--identity").map(PathBuf::from) };
    GrcArgs { grc: value("--grc"), identity }
}

/// The name of a reservation as this subject, and a line about it.
fn of_reservation(subject: Subject, one: &v1::Reservation) -> Option<(String, String)> {
    let id = if one.request_id.is_empty() { &one.id } else { &one.request_id };
    let state = text::state(one.state());
    let window = text::window(one.plan.as_ref().and_then(|plan| plan.window.as_ref()));
    let about = format!("{state}, {window}");
    match subject {
        Subject::Workflow if one.workflow.is_none() => None,
        Subject::Series => {
            let series = one.request.as_ref().map(|request| &request.series);
            Some((series.filter(|name| !name.is_empty())?.clone(), String::new()))
        }
        _ => Some((id.clone(), about)),
    }
}

/// The names of a federation that are this subject, each with a line about it.
fn of_federation(
    subject: Subject,
    federation: &v1::DescribeFederationResponse,
) -> BTreeMap<String, String> {
    let managers = federation.resource_managers.iter();
    if subject == Subject::ResourceManager {
        return managers.map(|one| (one.name.clone(), text::line(&one.problem).into())).collect();
    }
    let resources = managers.filter_map(|one| one.description.as_ref()).flat_map(described);
    let wanted = resources.filter(|one| one.ends.is_some() == (subject == Subject::Path));
    wanted.map(|one| (one.of, String::new())).collect()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    fn values(subject: Subject, typed: &str) -> Vec<String> {
        let found = candidates(subject, OsStr::new(typed));
        found.iter().filter_map(|one| Some(one.get_value().to_str()?.to_owned())).collect()
    }

    #[test]
    fn every_subject_completes_an_argument_that_there_is() {
        fn below(command: &Command, name: &str, found: &mut BTreeSet<String>) {
            for argument in command.get_arguments() {
                let subject = subject(name, argument.get_id().as_str());
                found.extend(subject.map(|subject| format!("{subject:?}")));
            }
            for inner in command.get_subcommands() {
                below(inner, name, found);
            }
        }
        let mut found = BTreeSet::new();
        for command in Cli::command().get_subcommands() {
            below(command, command.get_name(), &mut found);
        }
        assert_eq!(found.len(), 10, "{found:?}");
        command().debug_assert();
    }

    #[test]
    fn what_the_program_knows_itself_needs_no_coordinator() {
        assert!(values(Subject::Experiment, "takefusa-fig").len() > 1);
        assert_eq!(values(Subject::Field, "hold_sof"), ["hold_soft"]);
        assert!(values(Subject::Topic, "").contains(&"operate".to_owned()));
        assert_eq!(values(Subject::PinnedSite, "a=4"), [""; 0]);
    }

    #[test]
    fn the_words_name_the_coordinator_and_the_identity() {
        let words = |line: &str| line.split(' ').map(OsString::from).collect::<Vec<_>>();
        let args = coordinator_of(&words("coalloc -- coalloc show --grc h:1 --identity=me x"));
        assert_eq!(args.grc.as_deref(), Some("h:1"));
        assert_eq!(args.identity.identity, Some(PathBuf::from("me")));
        assert!(coordinator_of(&words("coalloc -- coalloc show")).grc.is_none());
    }

    #[test]
    fn every_shell_has_a_script_that_asks_this_program() {
        use clap::ValueEnum as _;
        for shell in clap_complete::Shell::value_variants() {
            let answer = script(*shell).unwrap();
            assert!(answer.text.contains(VARIABLE), "{shell}: {}", answer.text);
        }
        let bash = script(clap_complete::Shell::Bash).unwrap().text;
        for ours in [BASH_WORDS, BASH_REPLY] {
            assert!(bash.contains(ours), "{bash}");
        }
        assert!(!bash.contains("bashdefault") && !bash.contains(BASH_LAST_WORD), "{bash}");
    }
}
