//! `coalloc doctor`: whether the daemons of this machine, and the federation that they belong to, are well, in one table.
//!
//! * [`examined`]: the daemons that are asked: those of a folder, of single configurations, or at addresses.
//! * [`answers`]: what a daemon answers to calls that exist for others, too. All daemons are asked at once, and a silent one
//!   costs the patience once.
//! * [`machine`]: what is asked of the machine itself: its clock and its disks.
//! * [`checks`]: from all this to findings. Pure.
//! * [`findings`]: a finding, and how all of them are shown.
//!
//! Left out: mending anything, reading whole ledgers (`coalloc ledger verify`), and comparing bookings anew (`coalloc repair`).

mod answers;
mod checks;
mod examined;
mod findings;
mod machine;

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::time::SystemTime;

use clap::Args;
use tokio::task::JoinSet;

use crate::kit::authority::time_of;
use crate::kit::exit::{Answer, Failure};
use crate::kit::rpc::GrcArgs;
use crate::kit::when::Length;
use crate::user::doctor::answers::{DaemonAnswers, ManagerCall};
use crate::user::doctor::examined::ExaminedDaemon;
use crate::user::doctor::findings::Finding;

/// Say whether daemons and their federation are well, and what to type if not
///
/// Checks that configurations can be read and daemons serve; the clock of this machine against that of each daemon;
/// certificates; free disk space; releases; whether coordinators and resource managers accept one another; and how old the
/// coordinator's picture of each resource manager is. Nothing is changed.
///
/// Examines the daemons whose configurations are in DIR, or of --config, or those at --grc and --rm. Asks as
/// --identity says or, without it, as the operator in DIR/identities/operator, or as COALLOC_IDENTITY says.
///
/// Exit code 0: nothing has failed, though there may be warnings; 1: something has failed.
#[derive(Debug, Clone, Args)]
#[command(after_help = "Examples:\n  \
    coalloc doctor my-federation\n  \
    coalloc doctor --config /etc/coalloc/grc.yaml --identity ~/olga\n  \
    coalloc doctor --grc grc.example.org:7000 --rm crm.example.org:7001")]
pub struct DoctorArgs {
    /// A folder with configurations, as `coalloc init` writes it [default: the current one, unless a flag names a daemon]
    #[arg(value_name = "DIR")]
    folder: Option<PathBuf>,
    /// The configuration of a daemon of this machine; may be repeated
    #[arg(long = "config", value_name = "FILE")]
    configs: Vec<PathBuf>,
    /// A resource manager: host:port, or its name at the coordinator; may be repeated
    #[arg(long = "rm", value_name = "RM")]
    managers: Vec<String>,
    #[command(flatten)]
    grc: GrcArgs,
    /// A folder with backups of ledgers, whose disk is looked at, too; may be repeated
    #[arg(long, value_name = "DIR")]
    backups: Vec<PathBuf>,
    /// Timeout for each daemon; they are asked at once
    #[arg(long, value_name = "LENGTH", default_value = "3s")]
    patience: Length,
    /// Print the findings as JSON
    #[arg(long)]
    json: bool,
}

/// Runs `coalloc doctor`.
///
/// # Errors
/// When there is nothing to examine, or an address is not valid.
pub async fn run(args: &DoctorArgs) -> Result<Answer, Failure> {
    let managers = args.grc.manager_addresses(&args.managers).await?;
    let (daemons, mut found) = examined::all(args, &managers)?;
    let patience = args.patience.0.to_std();
    let clock = tokio::spawn(machine::synchronisation(patience));
    let mut asked = JoinSet::new();
    for (index, daemon) in daemons.iter().enumerate() {
        let contact = daemon.contact.clone();
        asked.spawn(async move { (index, answers::ask(&contact, patience).await) });
    }
    let mut calls = JoinSet::new();
    for call in daemons.iter().flat_map(ExaminedDaemon::own_calls) {
        calls.spawn(async move { call.made(patience).await });
    }
    let mut heard: Vec<DaemonAnswers> = vec![DaemonAnswers::default(); daemons.len()];
    for (index, answers) in asked.join_all().await {
        heard[index] = answers;
    }
    let mut calls: Vec<ManagerCall> = calls.join_all().await;
    calls.sort_by(|a, b| (&a.manager, &a.coordinator).cmp(&(&b.manager, &b.coordinator)));
    let now = time_of(SystemTime::now());
    let synchronised = clock.await.unwrap_or_default();
    found.push(checks::synchronisation(synchronised));
    found.extend(checks::own_certificate(daemons.first(), now));
    for (daemon, answers) in daemons.iter().zip(&heard) {
        found.extend(checks::daemon(daemon, answers, now));
    }
    // What a coordinator saw of a daemon when they connected is less than what its own files say.
    let broken: BTreeSet<String> = found.iter().filter_map(Finding::broken_configuration).collect();
    let together = checks::federation(&daemons, &heard, &calls, now).into_iter();
    found.extend(together.filter(|one| !one.is_of_certificate(&broken)));
    found.extend(machine::backups(&args.backups, &daemons));
    findings::answer(found, args.json)
}
