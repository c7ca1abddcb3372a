//! `coalloc audit`: reads every resource manager and every coordinator over the public API, and checks that
//! their answers are consistent with each other and with what clients were told.
//!
//! The steps, in order: [`hear`](mod@hear) finds the daemons and waits until nothing moves; [`testimony`]
//! holds the answers of one daemon; [`rules`] compares them (I1, I5, I6, I7, I22); [`journal`] holds what
//! clients were told, and `reported` compares it with the daemons' answers (I6, I8); [`report`] shows the
//! result.
//!
//! With `--evidence` it does something else instead: it gathers signed tips of the ledgers, and verifies them against the
//! ledgers ([`evidence`]).
//!
//! Without that, ledgers, metrics, logs and the code that the daemons count with are deliberately not used. An audit
//! needs nothing but addresses. `coalloc demo` ends with the same rules.

pub mod evidence;
pub mod hear;
pub mod journal;
pub mod report;
mod reported;
pub mod rules;
pub mod testimony;
mod violation;

use std::collections::BTreeSet;
use std::path::PathBuf;

use clap::Args;
use coalloc_proto::v1;

use crate::kit::exit::{Answer, Exit, Failure};
use crate::kit::rpc::{self, GrcArgs, IdentityArgs};
use crate::kit::when::Length;
use crate::testbed::local::layout;
pub use hear::{FederationReport, Places, hear};
pub use testimony::{Lower, Testimony};
pub use violation::{Check, Violation};

/// How long the audit waits by default for a federation at rest.
const PATIENCE: &str = "60s";

/// Check that nothing is overbooked, half reserved or lost, from outside
///
/// Asks every coordinator, and every resource manager that a coordinator names, what it has, and compares
/// the answers: I1 nothing is overbooked at any instant; I5 nothing is booked at one resource manager and
/// ended at another; I6 everything confirmed is booked with exactly those segments, and nothing else is
/// booked; I7 no hold is left at rest; I22 every outcome is final. Every coordinator also compares its
/// bookings with its resource managers'. With --journal also I6 and I8: everything is as clients were told.
///
/// The audit waits until the federation is at rest. It never is while requests are being made; the exit
/// code is then 4. A violation gives exit code 1, and names invariant, transaction, resource manager, what
/// was expected and what was found.
///
/// With --evidence an auditor proves instead that no ledger was changed or cut: `--evidence DIR` fetches the
/// tip of every daemon's ledger (number and hash of the last record, signed by the daemon), verifies it, and
/// stores it in DIR. `--evidence DIR --ledger FILE` verifies all stored tips against the ledgers, without
/// asking anybody: every signature, that its signer was believed at that time, and that the ledger still has
/// that hash at that record. Exit code 1: something contradicts; 4: a ledger has no evidence; 5: a daemon
/// gave no tip.
#[derive(Debug, Clone, Args)]
#[command(after_help = "Examples:\n  \
    coalloc audit\n  \
    coalloc audit --grc 10.0.0.1:7000,10.0.0.2:7000 --journal told.jsonl\n  \
    coalloc audit --dir /tmp/elgl --json\n  \
    coalloc audit --grc 127.0.0.1:7000 --rm 127.0.0.1:7101,127.0.0.1:7102\n  \
    coalloc audit --evidence tips --every 1h --identity ada        gather signed tips, until a signal\n  \
    coalloc audit --evidence tips --ledger crm-A.ledger,nrm.ledger  verify them against ledgers\n  \
    coalloc audit --evidence tips --offline                        verify them against each other")]
pub struct AuditArgs {
    /// The coordinators' host:port; their child coordinators are found [default: $COALLOC_GRC, or
    /// 127.0.0.1:7000]
    #[arg(long, value_name = "ADDR", value_delimiter = ',', conflicts_with = "dir")]
    grc: Vec<String>,
    /// host:port of resource managers (and child coordinators) that cannot be reached at the address that
    /// their coordinator has for them
    #[arg(long, value_name = "ADDR", value_delimiter = ',')]
    rm: Vec<String>,
    /// A folder of configurations, as `coalloc demo --dir` leaves one, instead of addresses
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
    #[command(flatten)]
    identity: IdentityArgs,
    /// What clients were told: one JSON object per line, see the guide
    #[arg(long, value_name = "FILE")]
    journal: Vec<PathBuf>,
    /// Folder of signed tips: fetch them from all daemons, verify and store them; with --ledger or --offline,
    /// verify those that are stored
    #[arg(long, value_name = "DIR", conflicts_with_all = ["journal", "patience"])]
    evidence: Option<PathBuf>,
    /// Fetch signed tips again and again, like 1h; a signal ends it
    #[arg(long, value_name = "LENGTH", requires = "evidence")]
    every: Option<Length>,
    /// Verify the stored tips against these ledgers, or copies of them; no daemon is asked
    #[arg(long, value_name = "FILE", value_delimiter = ',', requires = "evidence", conflicts_with_all = ["grc", "rm", "every"])]
    ledger: Vec<PathBuf>,
    /// Verify the stored tips against each other; no daemon is asked
    #[arg(long, requires = "evidence", conflicts_with_all = ["grc", "rm", "every"])]
    offline: bool,
    /// How long to wait until nothing moves any more
    #[arg(long, value_name = "LENGTH", default_value = PATIENCE)]
    patience: Length,
    /// Print everything as JSON
    #[arg(long)]
    json: bool,
}

/// The result of an audit.
#[derive(Debug, Clone)]
pub struct Audit {
    /// Resource managers that were asked.
    pub managers: usize,
    /// Coordinators that were asked.
    pub coordinators: usize,
    /// The checks that were made.
    pub checks: Vec<Check>,
    /// Everything that still moved; empty if all was at rest.
    pub restless: Vec<String>,
}

impl Audit {
    /// Was everything at rest, with no violation?
    #[must_use]
    pub fn holds(&self) -> bool {
        self.restless.is_empty() && self.violations().next().is_none()
    }

    /// The violations; while something still moves, they may be temporary.
    pub fn violations(&self) -> impl Iterator<Item = &Violation> {
        self.checks.iter().flat_map(|check| &check.violations)
    }

    fn exit(&self) -> Exit {
        match (self.holds(), self.restless.is_empty()) {
            (true, _) => Exit::Done,
            (false, true) => Exit::Failed,
            (false, false) => Exit::Unfinished,
        }
    }
}

/// Runs `coalloc audit`.
///
/// # Errors
/// When the journal cannot be read, or a daemon does not answer.
pub async fn run(args: &AuditArgs) -> Result<Answer, Failure> {
    if let Some(folder) = &args.evidence {
        return evidence::run(args, folder).await;
    }
    let mut entries = Vec::new();
    for path in &args.journal {
        entries.extend(journal::read(path)?);
    }
    let places = args.places()?;
    for address in &places.coordinators {
        rpc::check_is_coordinator(&places.dialer, address).await?;
    }
    let heard = hear(&places, args.patience.0.to_std()).await?;
    let entries = (!args.journal.is_empty()).then_some(&entries[..]);
    let audit = judge(&heard, entries);
    let text = if args.json { audit.json()? } else { audit.text() };
    Ok(Answer { text, exit: audit.exit() })
}

impl AuditArgs {
    fn places(&self) -> Result<Places, Failure> {
        let mut places = match &self.dir {
            Some(folder) => Places::of_folder(folder)?,
            None => Places { coordinators: self.grc.clone(), ..Places::default() },
        };
        // Tips are each daemon's own: whoever wants those of some resource managers only needs no coordinator.
        let needs_none = self.evidence.is_some() && !self.rm.is_empty();
        if places.coordinators.is_empty() && !needs_none {
            places.coordinators.push(GrcArgs::default().address());
        }
        places.managers.extend(self.rm.iter().cloned());
        let of_folder = self.dir.as_ref().map(|folder| folder.join(layout::OPERATOR));
        places.dialer = match of_folder.filter(|folder| folder.is_dir()) {
            Some(folder) if self.identity.identity.is_none() => rpc::dialer_of(&folder)?,
            _ => self.identity.dialer()?,
        };
        Ok(places)
    }
}

/// Checks everything the daemons reported, and what clients were told if there is a journal.
#[must_use]
pub fn judge(heard: &FederationReport, journal: Option<&[journal::Entry]>) -> Audit {
    let below = heard.lower.iter().map(|lower| &lower.testimony);
    let all: Vec<Testimony> = heard.testimonies.iter().chain(below).cloned().collect();
    let reservations: Vec<v1::Reservation> =
        heard.coordinators.iter().flat_map(|one| &one.reservations).cloned().collect();
    let names: BTreeSet<&str> = heard.coordinators.iter().map(|one| one.name.as_str()).collect();
    let promised = rules::promised(&reservations);
    let mut checks = vec![
        rules::nothing_overbooked(&heard.testimonies),
        rules::confirmed_is_booked(&all, &promised),
        rules::nothing_else_booked(&all, &promised, Some(&names)),
        rules::nothing_half_booked(&all),
        rules::no_hold_left(&all),
        rules::all_have_ended(&reservations),
    ];
    if !heard.lower.is_empty() {
        checks.push(rules::promises_are_kept(&heard.testimonies, &heard.lower));
    }
    checks.extend(rules::one_holder(&all, &reservations));
    checks.extend(rules::all_agree(&heard.coordinators));
    if let Some(entries) = journal {
        let kept = heard.coordinators.iter().map(|one| (one.name.as_str(), &one.reservations[..]));
        checks.push(reported::all_is_as_reported(entries, &all, &kept.collect()));
    }
    let (managers, coordinators) = (heard.testimonies.len(), heard.coordinators.len());
    Audit { managers, coordinators, checks, restless: heard.restless.clone() }
}
