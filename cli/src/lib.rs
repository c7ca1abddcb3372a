//! `coalloc`: the command line of Coalloc, one module per command, in folders by who types it.
//!
//! * [`user`]: what users and operators type.
//! * [`testbed`]: federations started on this machine or in containers, load, measurements, and the audit.
//! * [`experiments`]: `coalloc sim`, simulated worlds, and `coalloc trace`, the logs that they replay.
//! * [`kit`]: what all commands share.
//! * [`overview`]: the commands in groups, as `--help` shows them.
//! * [`completion`]: what a shell completes.
//!
//! Imports go from `testbed` and `experiments` to `user` and `kit`, and from `user` to `kit`; never the other
//! way, and never between `testbed` and `experiments`.
//!
//! A command returns an [`kit::exit::Answer`] (everything for standard output, and how the command ended) or an
//! [`kit::exit::Failure`] (for standard error). [`main`] prints either. Progress goes to standard error as it
//! happens, so standard output contains only the answer and can be piped.
//!
//! Planning, validation and the protocol are deliberately not here. A command reads files and flags, asks a
//! daemon (or a planner, when offline) and shows the answer.

mod completion;
pub mod experiments;
pub mod kit;
mod overview;
pub mod testbed;
pub mod user;

use std::io::{IsTerminal as _, Write as _};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{CommandFactory as _, FromArgMatches as _, Parser, Subcommand};
use coalloc_common::plain_text;

use kit::colour::{self, Tone};
use kit::exit::{Answer, Exit, Failure};
use kit::progress::Wait;
use kit::{arguments, pager, text, zone};
use testbed::{audit, bench, compare, compose, demo, kubernetes, relay, soak};
use user::{
    allocate, bookings, certs, config, doctor, down, find_window, give_up, health, init, ledger,
    list, log_level, modify, picture, plan, provision, quota, release, repair, request,
    reservations, reserve, serve, servers, task, topology, up, usage, watch, workflow,
};

/// Reserve computers and network bandwidth together, in advance, across domains.
#[derive(Debug, Parser)]
#[command(name = "coalloc", version, disable_help_subcommand = true, arg_required_else_help = true)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Demo(demo::DemoArgs),
    Audit(audit::AuditArgs),
    Soak(soak::SoakArgs),
    Bench(bench::BenchArgs),
    Compare(compare::CompareArgs),
    Sim(experiments::SimArgs),
    Trace(experiments::swf::TraceArgs),
    Plan(plan::PlanArgs),
    FindWindow(find_window::FindWindowArgs),
    Picture(picture::PictureArgs),
    Task(task::submit::TaskArgs),
    Workflow(workflow::WorkflowArgs),
    Reserve(reserve::ReserveArgs),
    Request(request::RequestFileArgs),
    Servers(servers::ServersArgs),
    Allocate(allocate::AllocateArgs),
    List(list::ListArgs),
    Show(reservations::ShowArgs),
    Modify(modify::ModifyArgs),
    Provision(provision::ProvisionArgs),
    Deprovision(provision::DeprovisionArgs),
    #[command(visible_alias = "cancel")]
    Release(release::ReleaseArgs),
    Quota(quota::QuotaArgs),
    Repair(repair::RepairArgs),
    GiveUp(give_up::GiveUpArgs),
    Watch(watch::WatchArgs),
    Topology(topology::TopologyArgs),
    Usage(usage::UsageArgs),
    Bookings(bookings::BookingsArgs),
    Health(health::HealthArgs),
    Doctor(doctor::DoctorArgs),
    LogLevel(log_level::LogLevelArgs),
    Compose(compose::ComposeArgs),
    Kubernetes(kubernetes::KubernetesArgs),
    Relay(relay::RelayArgs),
    Init(init::InitArgs),
    Up(up::UpArgs),
    Down(down::DownArgs),
    Config(config::ConfigArgs),
    Serve(serve::ServeArgs),
    Ledger(ledger::LedgerArgs),
    Certs(certs::CertsArgs),
    /// Print a completion script for a shell
    Completions {
        /// The shell to complete for
        shell: clap_complete::Shell,
    },
    /// Write the manual pages of all commands
    Man {
        /// The folder for them, which is made if it is missing
        #[arg(value_name = "DIR")]
        folder: PathBuf,
    },
    /// Explain a group of commands, a command, or the exit codes
    Help {
        /// A group (use, operate, study), a command, or `exit-codes`; nothing: all commands
        topic: Vec<String>,
    },
}

/// The command line, with the overview as its help.
fn command() -> clap::Command {
    let cli = Cli::command();
    let text = overview::overview(&cli);
    cli.override_help(text)
}

/// Runs the command line of this process.
#[must_use]
pub fn main() -> ExitCode {
    if let Some(exit) = completion::answer() {
        return exit;
    }
    colour::use_on_terminals();
    zone::use_own();
    let mut command = command();
    let cli = command.try_get_matches_from_mut(std::env::args_os());
    let cli = cli.and_then(|matches| Cli::from_arg_matches(&matches));
    let cli = match cli {
        Ok(cli) => cli,
        Err(error) => return not_understood(&arguments::explain(error, &command)),
    };
    match cli.command {
        // A daemon has its own runtime, logs and exit code.
        Command::Serve(args) if !args.is_check() => serve::run(&args),
        Command::Serve(args) => finish(serve::check(&args)),
        Command::Init(args) => finish(init::run(&args)),
        Command::Config(args) => finish(config::run(&args)),
        Command::Ledger(args) => finish(ledger::run(&args)),
        Command::Certs(args) => finish(certs::run(&args)),
        Command::Completions { shell } => finish(completion::script(shell)),
        Command::Man { folder } => finish(manual_pages(&folder)),
        Command::Help { topic } => finish(overview::help(Cli::command(), &topic)),
        // These also run in containers that allow few threads, on machines with many cores.
        Command::Health(args) => finish(on_one_thread(health::run(&args))),
        Command::Relay(args) => finish(on_one_thread(relay::run(&args))),
        Command::Compose(args) => finish(compose::run(&args)),
        Command::Kubernetes(args) => finish(kubernetes::run(&args)),
        Command::Trace(args) => finish(experiments::swf::run(&args)),
        Command::Request(args) => finish(request::run(&args)),
        command => finish(run(&command)),
    }
}

fn run(command: &Command) -> Result<Answer, Failure> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
    let runtime = runtime.map_err(|error| Failure::internal(format!("no runtime: {error}")))?;
    let _wait = waits_for(command).map(Wait::begin);
    // `demo` ties its daemons to the thread that started them, so the command runs on this thread.
    runtime.block_on(async {
        match command {
            Command::Demo(args) => demo::run(args).await,
            Command::Audit(args) => audit::run(args).await,
            Command::Soak(args) => soak::run(args).await,
            Command::Bench(args) => bench::run(args).await,
            Command::Compare(args) => compare::run(args).await,
            Command::Sim(args) => experiments::run(args).await,
            Command::Plan(args) => plan::run(args).await,
            Command::FindWindow(args) => find_window::run(args).await,
            Command::Picture(args) => picture::run(args).await,
            Command::Task(args) => task::submit::run(args).await,
            Command::Workflow(args) => workflow::run(args).await,
            Command::Reserve(args) => reserve::run(args).await,
            Command::Servers(args) => servers::run(args).await,
            Command::Allocate(args) => allocate::run(args).await,
            Command::List(args) => list::run(args).await,
            Command::Show(args) => reservations::show(args).await,
            Command::Modify(args) => modify::run(args).await,
            Command::Provision(args) => provision::provision(args).await,
            Command::Deprovision(args) => provision::deprovision(args).await,
            Command::Release(args) => release::run(args).await,
            Command::Quota(args) => quota::run(args).await,
            Command::Repair(args) => repair::run(args).await,
            Command::GiveUp(args) => give_up::run(args).await,
            Command::Watch(args) => watch::run(args).await,
            Command::Topology(args) => topology::run(args).await,
            Command::Usage(args) => usage::run(args).await,
            Command::Bookings(args) => bookings::run(args).await,
            Command::Doctor(args) => doctor::run(args).await,
            Command::LogLevel(args) => log_level::run(args).await,
            Command::Up(args) => up::run(args).await,
            Command::Down(args) => down::run(args).await,
            Command::Health(_)
            | Command::Relay(_)
            | Command::Compose(_)
            | Command::Kubernetes(_)
            | Command::Serve(_)
            | Command::Init(_)
            | Command::Config(_)
            | Command::Ledger(_)
            | Command::Certs(_)
            | Command::Trace(_)
            | Command::Help { .. }
            | Command::Request(_)
            | Command::Completions { .. }
            | Command::Man { .. } => Err(Failure::internal("this command does not run here")),
        }
    })
}

/// What a person waits for while this command runs; `None` for commands that say themselves what they do.
fn waits_for(command: &Command) -> Option<&'static str> {
    Some(match command {
        Command::Plan(_) | Command::FindWindow(_) | Command::Picture(_) => "planning",
        Command::Reserve(args) if args.asks() => return None,
        Command::Reserve(_) | Command::Allocate(_) => "reserving",
        Command::Task(_) | Command::Workflow(_) => "planning and reserving",
        Command::Modify(_) => "changing the reservation",
        Command::Provision(_) | Command::Deprovision(_) => "changing who is let in",
        Command::Release(_) => "releasing",
        Command::Down(_) => "waiting until they have ended",
        Command::Repair(_) | Command::GiveUp(_) => "settling with the resource managers",
        Command::List(args) if args.stays() => return None,
        Command::List(_) | Command::Show(_) | Command::Quota(_) | Command::Servers(_) => {
            "asking the coordinator"
        }
        Command::Topology(_) | Command::Usage(_) | Command::Bookings(_) => {
            "asking the coordinator and the resource managers"
        }
        _ => return None,
    })
}

fn on_one_thread(
    command: impl Future<Output = Result<Answer, Failure>>,
) -> Result<Answer, Failure> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|error| Failure::internal(format!("no runtime: {error}")))?;
    runtime.block_on(command)
}

fn manual_pages(folder: &Path) -> Result<Answer, Failure> {
    let failed = |error| Failure::new(Exit::Failed, format!("{}: {error}", folder.display()));
    std::fs::create_dir_all(folder).map_err(failed)?;
    clap_mangen::generate_to(Cli::command(), folder).map_err(failed)?;
    let text = format!("read one with `man -l {}/coalloc-reserve.1`\n", folder.display());
    Ok(Answer::done(text))
}

/// Prints an answer or a failure.
///
/// A reader that closed the pipe (`| head`) has read what it wanted, so the exit code stays that of the
/// command.
fn finish(result: Result<Answer, Failure>) -> ExitCode {
    let Answer { text, exit } = match result {
        Ok(answer) => answer,
        Err(failure) => {
            match wants_json() {
                true => text::note(&failure.json()),
                false => print_error(&failure.message),
            }
            return failure.exit.into();
        }
    };
    // Nothing that a command prints steers a terminal but its colours. What else is in the text comes from somebody else.
    let mut text = colour::lines(&text);
    if std::io::stdout().is_terminal() && !wants_json() {
        text = colour::folded(&text, text::width().into());
    }
    if pager::page(&text) {
        return exit.into();
    }
    let mut stdout = std::io::stdout().lock();
    match stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()) {
        Ok(()) => exit.into(),
        Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => exit.into(),
        Err(error) => {
            text::note(&format!("error: standard output: {error}"));
            Exit::Failed.into()
        }
    }
}

/// Ends with what clap says: a mistake in the arguments, or the help that was asked for.
fn not_understood(error: &clap::Error) -> ExitCode {
    if !(error.use_stderr() && wants_json()) {
        error.exit();
    }
    let text = error.to_string();
    // The rest says how to get the help, which is not for programs.
    let problem = text.split("\n\nFor more information").next().unwrap_or_default();
    finish(Err(Failure::bad_input(problem.trim().trim_start_matches("error: "))))
}

/// Whoever wants answers as JSON gets errors as JSON.
fn wants_json() -> bool {
    let arguments: Vec<_> = std::env::args_os().collect();
    let is_one = |argument: &std::ffi::OsString| {
        ["--json", "-ojson", "--output=json"].iter().any(|flag| argument == flag)
    };
    let is_pair = |pair: &[std::ffi::OsString]| {
        (pair[0] == "-o" || pair[0] == "--output") && pair[1] == "json"
    };
    arguments.iter().any(is_one) || arguments.windows(2).any(is_pair)
}

/// Prints `error: ` and the message on standard error, with all further lines of the message indented.
fn print_error(message: &str) {
    let head = colour::in_error(Tone::Bad, "error:");
    let mut message = plain_text::lines(message).into_owned();
    if std::io::stderr().is_terminal() {
        message = colour::folded(&message, usize::from(text::width()).saturating_sub(7));
    }
    let message = message.replace('\n', "\n       ");
    // When standard error is gone, nobody can be told about it.
    let _ = writeln!(std::io::stderr(), "{head} {message}");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_consistent_and_documented() {
        Cli::command().debug_assert();
        for command in Cli::command().get_subcommands() {
            assert!(command.get_about().is_some(), "{} says what it does", command.get_name());
        }
    }

    #[test]
    fn a_federation_file_and_a_coordinator_exclude_one_another() {
        let parse = |line: &str| Cli::try_parse_from(line.split(' '));
        assert!(parse("coalloc plan --request r --federation f").is_ok());
        assert!(parse("coalloc plan --request r --federation f --grc h:1").is_err());
        assert!(parse("coalloc plan --request r --frames 0").is_err());
        assert!(parse("coalloc demo --requests 0").is_err());
        assert!(parse("coalloc list --state confirmed --state failed").is_ok());
        assert!(parse("coalloc list --since -2h --limit 3 -o wide").is_ok());
        assert!(parse("coalloc list --watch --json").is_err());
    }
}
