//! The shell around the participant: its owner thread with the ledger, and its questions to coordinators.
//!
//! Left out: all decisions, which are in `protocol`'s participant.

use std::collections::BTreeMap;

use coalloc_common::{CoordinatorName, RmName, TransactionId};
use coalloc_ledger::Ledger;
use coalloc_ledger::sqlite::SqliteLedger;
use coalloc_net::daemon::DaemonError;
use coalloc_net::machine::Host;
use coalloc_net::{client, metrics, node};
use coalloc_proto::v1;
use coalloc_proto::v1::resolver_client::ResolverClient;
use coalloc_protocol::message::{Decision, Resolution};
use coalloc_protocol::participant::{
    Overcommitted, Participant, ParticipantConfig, ParticipantEffect, ParticipantInput,
    ParticipantRecord,
};
use tokio::sync::mpsc;
use tonic::transport::Channel;

use crate::config::RmConfig;

/// A running participant.
pub type Node = node::Node<Participant>;
/// The handle by which handlers reach the participant.
pub type Handle = node::Handle<Participant>;

/// The participant of an empty ledger.
#[must_use]
pub fn participant(config: &RmConfig) -> Participant {
    Participant::new(ParticipantConfig {
        name: config.name.clone(),
        resources: config.resources.clone(),
        kinds: config.kinds.clone(),
        coordinators: config.coordinators.keys().cloned().collect(),
        policy: config.policy,
        levels: config.levels.clone(),
        inside: config.inside.clone(),
    })
    .with_changes_kept(config.profiles.changes_kept)
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

/// Starts the participant with the state that was replayed from its ledger. Also returns the ledger's
/// identity. Must be called within a tokio runtime.
///
/// # Errors
/// When the ledger does not fit this configuration, or the system cannot start a thread.
pub fn start<L: Ledger<Record = ParticipantRecord>>(
    config: &RmConfig,
    host: &Host,
    (participant, ledger): (Participant, L),
) -> Result<(Node, String), DaemonError> {
    if let Some((txn, name)) = participant.name_of_two(host.now()) {
        let text = format!(
            "{name} is a path in one of the ledger's bookings but an inner link in the \
             configuration, or the other way round ({txn}): rename it in the configuration, or \
             release the booking first"
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
    let (questions, asked) = mpsc::unbounded_channel();
    let node = Node::start("participant", host, participant, ledger, move |effect, waiters| {
        match effect {
            ParticipantEffect::Reply { token, answer } => waiters.complete(token, answer),
            ParticipantEffect::Ask { coordinator, txn } => {
                // The task that asks ends only with the process.
                let _ = questions.send((coordinator, txn));
            }
        }
    })?;
    node.handle.tell(ParticipantInput::Start { boot: host.boot_id() });
    let peers = resolvers(&config.coordinators, host)?;
    tokio::spawn(ask(config.name.clone(), peers, asked, node.handle.clone()));
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

fn resolvers(
    coordinators: &BTreeMap<CoordinatorName, String>,
    host: &Host,
) -> Result<BTreeMap<CoordinatorName, ResolverClient<Channel>>, DaemonError> {
    let mut peers = BTreeMap::new();
    for (name, address) in coordinators {
        // The address was checked when the configuration was read.
        let endpoint = client::endpoint("coordinators.address", address)
            .map_err(|error| DaemonError::Ledger(error.to_string()))?;
        peers.insert(name.clone(), ResolverClient::new(host.connect(&endpoint)));
    }
    Ok(peers)
}

/// Asks coordinators about the outcome of transactions, each question in a task of its own, and posts the
/// answers.
async fn ask(
    rm: RmName,
    peers: BTreeMap<CoordinatorName, ResolverClient<Channel>>,
    mut asked: mpsc::UnboundedReceiver<(CoordinatorName, TransactionId)>,
    handle: Handle,
) {
    while let Some((coordinator, txn)) = asked.recv().await {
        let Some(client) = peers.get(&coordinator).cloned() else {
            tracing::warn!(%txn, %coordinator, "the hold's coordinator is no longer configured");
            continue;
        };
        let (rm, handle) = (rm.clone(), handle.clone());
        tokio::spawn(async move {
            let resolution = resolve(client, &rm, &txn).await;
            metrics::rm().resolves.with([answer_word(&resolution)]).inc();
            tracing::info!(%txn, %coordinator, ?resolution, "asked about the outcome of a hold");
            // If the participant is too busy for this, the alarm of the hold asks again.
            handle.tell(ParticipantInput::Resolved { txn, resolution });
        });
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

async fn resolve(
    mut client: ResolverClient<Channel>,
    rm: &RmName,
    txn: &TransactionId,
) -> Resolution {
    let mut request = tonic::Request::new(v1::ResolveRequest {
        transaction: txn.to_string(),
        resource_manager: rm.to_string(),
    });
    request.set_timeout(coalloc_common::limits::MESSAGE_PATIENCE.to_std());
    match client.resolve(request).await {
        Ok(answer) => match answer.into_inner().decision() {
            v1::Decision::Commit => Resolution::Decided(Decision::Commit),
            v1::Decision::Abort => Resolution::Decided(Decision::Abort),
            v1::Decision::Unspecified => Resolution::Lost,
        },
        Err(status) if status.code() == tonic::Code::NotFound => Resolution::NotMine,
        Err(_) => Resolution::Lost,
    }
}
