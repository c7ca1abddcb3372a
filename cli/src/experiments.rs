//! `coalloc sim`: simulated worlds.
//!
//! [`fault`] runs random worlds under faults, and [`takeover`] those in which processes share a ledger; the other modules run
//! experiments.
//!
//! An experiment is a file ([`source`]) that names a model ([`models`]) and what it measures ([`metrics`]).
//! [`run()`] distributes the points and seeds of one or several experiments ([`suite`]), or a [`part`] of them, to all cores
//! ([`stage`]), with a clock where times are measured ([`mod@clock`]), and keeps every run in a folder
//! ([`store`], whose first line is [`head`]), with the files that the experiment names ([`included`]). From the runs it makes tables ([`tables`]), plots ([`plot`],
//! laid out by [`chart`]) and a report ([`markdown`]). With several machines, each runs a [`shard`], and [`merge`] puts
//! their folders together. [`catalog`] lists, shows and creates experiments,
//! [`settings`] lists what a model can be set to,
//! [`compare`] compares two folders, [`gantt`] draws the trace of one run ([`traces`]). A [drawing](crate::kit::drawing) is
//! written as SVG ([`crate::kit::svg`]) or PNG ([`png`], with the letters of [`crate::kit::font`]). [`programs`] starts solvers
//! that are programs, and [`swf`] finds traces of jobs and shows one (`coalloc trace`).
//!
//! The worlds and models themselves, statistics and verdicts are not here; `coalloc-sim` has them.

pub mod catalog;
pub mod chart;
pub mod clock;
pub mod compare;
pub mod fault;
pub mod gantt;
pub mod head;
pub mod included;
pub mod markdown;
pub mod merge;
pub mod metrics;
pub mod models;
pub mod part;
pub mod plot;
pub mod png;
pub mod programs;
pub mod report;
pub mod run;
pub mod settings;
pub mod shard;
pub mod source;
pub mod stage;
pub mod store;
pub mod suite;
pub mod swf;
pub mod tables;
pub mod takeover;
pub mod traces;

use clap::{Args, Subcommand};

use crate::kit::exit::{Answer, Failure};

/// Simulated worlds: experiments, and the protocol under faults
#[derive(Debug, Args)]
pub struct SimArgs {
    #[command(subcommand)]
    what: Sim,
}

#[derive(Debug, Subcommand)]
enum Sim {
    Run(run::RunArgs),
    Merge(merge::MergeArgs),
    List(catalog::ListArgs),
    Show(catalog::ShowArgs),
    New(catalog::NewArgs),
    Settings(settings::SettingsArgs),
    Compare(compare::CompareArgs),
    Gantt(gantt::GanttArgs),
    Fault(fault::FaultArgs),
    Takeover(takeover::TakeoverArgs),
}

/// Runs `coalloc sim`.
///
/// # Errors
/// Bad input, found before anything ran.
pub async fn run(args: &SimArgs) -> Result<Answer, Failure> {
    match &args.what {
        Sim::Run(args) => run::run(args).await,
        Sim::Merge(args) => merge::run(args),
        Sim::List(args) => catalog::list(args),
        Sim::Show(args) => catalog::show(args),
        Sim::New(args) => catalog::new(args),
        Sim::Settings(args) => settings::run(args),
        Sim::Compare(args) => compare::run(args),
        Sim::Gantt(args) => gantt::run(args),
        Sim::Fault(args) => fault::run(args).await,
        Sim::Takeover(args) => takeover::run(args).await,
    }
}
