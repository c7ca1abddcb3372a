//! The shell around the participant: its owner thread with the ledger, and its questions to coordinators.
//!
//! Left out: all decisions, which are in `protocol`'s participant.

use coalloc_ledger::sqlite::SqliteLedger;
use coalloc_ledger::{Ledger, chain_text};
use coalloc_net::daemon::DaemonError;
use coalloc_net::machine::Host;
use coalloc_net::resource_manager::Resolvers;
use coalloc_net::{metrics, node};
use coalloc_protocol::message::{Decision, Resolution};
use coalloc_protocol::participant::{
    Overcommitted, Participant, ParticipantConfig, ParticipantEffect, ParticipantInput,
    ParticipantRecord,
};
use coalloc_protocol::{Core as _, sync};
use tokio::sync::mpsc;

use crate::config::RmConfig;
use crate::driver::Naming;
use crate::equipment::{self, LastReport};

/// A running participant.
pub type Node = node::Node<Participant>;
/// The handle by which handlers reach the participant.
pub type Handle = node::Handle<Participant>;

/// The participant of an empty ledger.
#[must_use]
pub fn participant(config: &RmConfig) -> Participant {
    let participant = Participant::new(ParticipantConfig {
        name: config.name.clone(),
        resources: config.resources.clone(),
        kinds: config.kinds.clone(),
        coordinators: config.coordinators.keys().cloned().collect(),
        policy: config.policy,
        levels: config.levels.clone(),
        quotas: config.quotas.clone(),
        inside: config.inside.clone(),
        servers: config.servers.clone(),
    })
    .with_changes_kept(config.profiles.changes_kept);
    match config.driver {
        Some(_) => participant.with_equipment(),
        None => participant,
    }
}

/// Opens the ledger's file and replays it. Returns the participant as it was when the daemon last stopped.
///
/// # Errors
/// When the ledger cannot be used, or another daemon has it open.
pub fn open(
    config: &RmConfig,
) -> Result<(Participant, SqliteLedger<ParticipantRecord>), DaemonError> {
    let mut participant = participant(config);
    let (path, kind) = (&config.daemon.ledger, config.kind.word());
    let ledger = node::open_ledger(path, kind, config.name.as_str(), &mut participant)?;
    Ok((participant, ledger))
}

/// Starts the participant with the state that was replayed from its ledger, and its equipment, of which `last` is told. Also
/// returns the ledger's identity. Must be called within a tokio runtime.
///
/// # Errors
/// When the ledger does not fit this configuration, or the system cannot start a thread.
pub fn start<L: Ledger<Record = ParticipantRecord>>(
    config: &RmConfig,
    host: &Host,
    mut participant: Participant,
    mut ledger: L,
    last: LastReport,
) -> Result<(Node, String), DaemonError> {
    if let Some((txn, name)) = participant.name_of_two(host.now()) {
        let text = format!(
            "{name} is a path or site in one of the ledger's bookings but an inner link or a server \
             in the configuration, or the other way round ({txn}): rename it in the configuration, \
             or release the booking first"
        );
        return Err(DaemonError::Ledger(text));
    }
    if let Some((txn, site)) = participant.without_servers(host.now()) {
        let text = format!(
            "site {site} has servers in the configuration, but a booking in the ledger has CPUs of \
             it without servers ({txn}): release the booking first, or take the servers out of the \
             configuration"
        );
        return Err(DaemonError::Ledger(text));
    }
    let ledger_id = ledger.identity();
    warn_of_overcommitments(&participant, config, host);
    for txn in participant.unrouted(host.now()) {
        tracing::warn!(
            %txn,
            "from before there was an inner network: routed now, if there is capacity"
        );
    }
    // This comes before the owner's first tick: the deadlines of holds may be in the boot time of another machine.
    let start = ParticipantInput::Start { boot: host.boot_id() };
    let started = vec![participant.step(start, host.now())];
    // A ledger may wait for an answer to its append, which must not be on a thread of the runtime.
    let appended = std::thread::scope(|scope| scope.spawn(|| sync(started, &mut ledger)).join());
    let appended = appended.map_err(|_| std::io::Error::other("the first append has panicked"))?;
    let failed = |error: L::Error| DaemonError::Ledger(chain_text(&error));
    // A start has no effects: nobody waits for anything yet.
    let _ = appended.map_err(failed)?;
    let (questions, asked) = mpsc::unbounded_channel();
    let (changes, changed) = mpsc::unbounded_channel();
    let node = Node::start("participant", host, participant, ledger, move |effect, waiters| {
        match effect {
            ParticipantEffect::Reply { token, answer } => waiters.complete(token, answer),
            ParticipantEffect::Ask { coordinator, txn } => {
                // The task that asks ends only with the process.
                let _ = questions.send((coordinator, txn));
            }
            ParticipantEffect::Reconcile { chains } => {
                // Without a driver nobody listens.
                let _ = changes.send(chains);
            }
        }
    })?;
    if let Some(driver) = &config.driver {
        let driver = driver.make(Naming::of_ledger(&ledger_id));
        tokio::spawn(equipment::keep(driver, node.handle.clone(), changed, last));
    }
    let resolvers = Resolvers::new(config.name.to_string(), &config.coordinators, host);
    let handle = node.handle.clone();
    tokio::spawn(resolvers.ask_all(asked, move |by, txn, resolution| {
        metrics::rm().resolves.with([answer_word(&resolution)]).inc();
        // If the participant is too busy for this, the alarm of the hold asks again.
        handle.tell_from(by, ParticipantInput::Resolved { txn, resolution });
    }));
    Ok((node, ledger_id))
}

/// Logs what is promised beyond the present inventory. Only an operator can add what is missing, or talk to
/// the people concerned.
fn warn_of_overcommitments(participant: &Participant, config: &RmConfig, host: &Host) {
    for Overcommitted { resource, by } in participant.overcommitted(host.now()) {
        let excess = config.kinds.of(&resource).show(by.excess);
        tracing::warn!(
            %resource, %excess, first = %by.first,
            "more is booked than the inventory has; it stays booked, but nothing new is admitted \
             there"
        );
    }
}

const fn answer_word(resolution: &Resolution) -> &'static str {
    match resolution {
        Resolution::Decided(Decision::Commit) => "commit",
        Resolution::Decided(Decision::Abort) => "abort",
        Resolution::NotMine => "not_mine",
        Resolution::Lost => "lost",
    }
}
