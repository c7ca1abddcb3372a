//! The shell around the coordinator core of `protocol`: the thread that owns the core and its ledger, and the core's
//! messages to RMs and parent coordinators. Nothing is decided here.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Instant;

use coalloc_common::{RmName, TransactionId, limits};
use coalloc_ledger::{Ledger, SqliteLedger};
use coalloc_net::convert;
use coalloc_net::daemon::DaemonError;
use coalloc_net::machine::Host;
use coalloc_net::needs;
use coalloc_net::node;
use coalloc_net::resource_manager::Resolvers;
use coalloc_net::shared_ledger::Election;
use coalloc_net::status::{self, Effect};
use coalloc_net::traces::{self, SpanKind};
use coalloc_net::waiters::Waiters;
use coalloc_proto::v1;
use coalloc_protocol::Causer;
use coalloc_protocol::coordinator::{
    Coordinator, CoordinatorConfig, CoordinatorEffect, CoordinatorInput, CoordinatorRecord,
    ForgetPolicy, ParentInput, Reply,
};
use coalloc_protocol::message::{Answer, Delivery, Message};
use tokio::sync::mpsc;
use tonic::{Request, Status};

use crate::availability::federation::{Federation, RmClient};
use crate::config::GrcConfig;
use crate::meters::{self, Messages};
use crate::pictures::Pictures;
use crate::views::view;

/// Number of hexadecimal digits of the ledger's id that go into every id that this coordinator gives.
const TAG_DIGITS: usize = 8;

/// The part of the ledger's identity that goes into every id that this coordinator gives.
#[must_use]
pub fn tag(ledger_id: &str) -> &str {
    ledger_id.get(..TAG_DIGITS).unwrap_or(ledger_id)
}

/// A running coordinator.
pub type Node = node::Node<Coordinator>;
/// The handle by which handlers reach the coordinator core.
pub type Handle = node::Handle<Coordinator>;

/// The coordinator core as it is with an empty ledger.
#[must_use]
pub fn coordinator(config: &GrcConfig, host: &Host) -> Coordinator {
    let mut coordinator = Coordinator::new(CoordinatorConfig {
        name: config.name.clone(),
        tag: String::new(),
        hold_for: config.hold_for,
        forgets: Some(ForgetPolicy { retention: config.retention, every: limits::FORGET_EVERY }),
    });
    coordinator.set_short_notes(view::short_notes);
    coordinator.set_quotas(config.quotas.reservations.clone());
    if let Some(upward) = &config.upward {
        coordinator.serve_parents(upward.parents(host.boot_id()));
    }
    coordinator
}

/// Opens the ledger's file and replays it. The coordinator core is then as it was when the daemon last stopped.
///
/// # Errors
/// When the ledger cannot be used, or another daemon has it open.
pub fn open(
    config: &GrcConfig,
    host: &Host,
) -> Result<(Coordinator, SqliteLedger<CoordinatorRecord>), DaemonError> {
    let mut coordinator = coordinator(config, host);
    let path = &config.daemon.ledger;
    let ledger = node::open_ledger(path, "grc", config.name.as_str(), &mut coordinator)?;
    Ok((coordinator, ledger))
}

/// Starts the coordinator with the state that its ledger holds, and returns it with the ledger's identity. If its process was
/// elected to lead, that is recorded before anything else. Must be called within a tokio runtime.
///
/// # Errors
/// When the system gives no thread.
pub fn start<L: Ledger<Record = CoordinatorRecord>>(
    config: &GrcConfig,
    host: &Host,
    mut coordinator: Coordinator,
    ledger: L,
    election: Option<&Election>,
    federation: &Federation,
    pictures: &Pictures,
) -> Result<(Node, String), DaemonError> {
    let elected = election.map(|election| {
        let epoch = coordinator.next_epoch(election.number);
        CoordinatorInput::Elected { epoch, member: election.member.clone() }
    });
    let epoch = match &elected {
        Some(CoordinatorInput::Elected { epoch, .. }) => *epoch,
        _ => coordinator.epoch(),
    };
    let ledger_id = ledger.identity();
    coordinator.set_tag(tag(&ledger_id).to_owned());
    let (outbox, outgoing) = mpsc::unbounded_channel();
    let (questions, asked) = mpsc::unbounded_channel();
    let node = Node::start("coordinator", host, coordinator, ledger, move |effect, waiters| {
        match effect {
            CoordinatorEffect::Reply(reply) => complete(waiters, reply),
            CoordinatorEffect::AskParent { coordinator, txn } => {
                // The receiving task ends only with the process.
                let _ = questions.send((coordinator, txn));
            }
            CoordinatorEffect::Send { rm, txn, message, oldest_open } => {
                // The receiving task ends only with the process.
                let _ = outbox.send(Outgoing { rm, txn, message, oldest_open });
            }
        }
    })?;
    node.handle.tell(elected.unwrap_or(CoordinatorInput::Start));
    let (name, federation) = (config.name.to_string(), federation.clone());
    if let Some(upward) = &config.upward {
        let resolvers = Resolvers::new(name.clone(), &upward.coordinators, host);
        let handle = node.handle.clone();
        tokio::spawn(resolvers.ask_all(asked, move |by, txn, resolution| {
            // If the core is busy, this is dropped, and the alarm of the promise asks again.
            let resolved = ParentInput::Resolved { txn, resolution };
            handle.tell_from(by, CoordinatorInput::Parent(resolved));
        }));
    }
    let pictures = pictures.clone();
    let sender = Sender { coordinator: name, epoch };
    tokio::spawn(send_all(sender, federation, pictures, outgoing, node.handle.clone()));
    Ok((node, ledger_id))
}

/// Gives a caller its answer.
pub fn complete(waiters: &Waiters, reply: Reply) {
    match reply {
        Reply::Request(token, next) => waiters.complete(token, next),
        Reply::Change(token, next) => waiters.complete(token, next),
        Reply::ParentHold(token, next) => waiters.complete(token, next),
        Reply::ParentEnd(token, answer) => waiters.complete(token, answer),
        Reply::Release(token, answer) => waiters.complete(token, answer),
        Reply::Report(token, end) => waiters.complete(token, end),
        Reply::Calendar(token, reply) => waiters.complete(token, reply),
        Reply::Resolve(token, resolution) => waiters.complete(token, resolution),
        Reply::Rebook(token, end) => waiters.complete(token, end),
        Reply::Disown(token, answer) => waiters.complete(token, answer),
        Reply::GiveUp(token, answer) => waiters.complete(token, answer),
    }
}

/// Who sends messages.
#[derive(Debug, Clone)]
struct Sender {
    /// The coordinator.
    coordinator: String,
    /// The epoch in which its process leads; 0 if its ledger was never shared.
    epoch: u64,
}

/// Sends each message in a task of its own, so that a slow RM delays no other, and posts how its delivery ended.
async fn send_all(
    sender: Sender,
    federation: Federation,
    pictures: Pictures,
    mut outgoing: mpsc::UnboundedReceiver<Outgoing>,
    handle: Handle,
) {
    let messages = Arc::new(Messages::default());
    let mut not_configured = BTreeSet::new();
    while let Some(outgoing) = outgoing.recv().await {
        let (rm, txn) = (outgoing.rm.clone(), outgoing.txn.clone());
        let kind = outgoing.message.kind();
        let (sender, handle) = (sender.clone(), handle.clone());
        let client = federation.client(&rm);
        let shown = federation.shown(&rm);
        if client.is_none() && not_configured.insert(rm.clone()) {
            let todo = "configure it again; `coalloc topology` says what is owed";
            tracing::warn!(%rm, %txn, ?kind, todo, "something is owed to an RM that is not configured");
        }
        let messages = Arc::clone(&messages);
        messages.sent(&rm, &txn, kind);
        let pictures = pictures.clone();
        tokio::spawn(async move {
            let begun = Instant::now();
            let span = traces::of_transaction(&txn).child(meters::method(kind), SpanKind::Client);
            let delivery = match client {
                Some(client) => {
                    let sent = send(client, &pictures, sender, outgoing);
                    span.carry(sent).await
                }
                None => Delivery::Rejected(format!("{rm} is not configured")),
            };
            span.set("coalloc.rm", &rm);
            span.set("coalloc.transaction", &txn);
            drop(span);
            messages.ended(&rm, &txn, kind, begun, &delivery);
            // Nobody has said that a message was lost.
            let by = match &delivery {
                Delivery::Answered(_) | Delivery::Rejected(_) => shown.causer(),
                Delivery::Lost => Causer::Itself,
            };
            tracing::debug!(%txn, %rm, ?kind, ?delivery, "message");
            // If the core is busy, this is dropped, and the message's own alarm sends it again.
            handle.tell_from(by, CoordinatorInput::Delivered { rm, txn, kind, delivery });
        });
    }
}

/// A message on its way to an RM.
struct Outgoing {
    rm: RmName,
    txn: TransactionId,
    message: Message,
    /// Said with a Hold: all attempts with lower numbers are at rest.
    oldest_open: u64,
}

/// Sends one message to an RM and returns how its delivery ended.
async fn send(
    mut client: RmClient,
    pictures: &Pictures,
    sender: Sender,
    outgoing: Outgoing,
) -> Delivery {
    let Outgoing { rm, txn, message, oldest_open } = outgoing;
    let (transaction, resource_manager) = (txn.to_string(), rm.to_string());
    let Sender { coordinator, epoch: coordinator_epoch } = sender;
    let refused = match message {
        Message::Hold(order) => {
            let hold = convert::hold_to_wire(&rm, &order, oldest_open, coordinator_epoch);
            let mut request = timed(hold);
            needs::say(&order.needs(), request.metadata_mut());
            let answer = client.hold(request).await.map(tonic::Response::into_inner);
            // This comes before the core gets the answer, so that planning again already uses these facts.
            if let Ok(v1::HoldResponse { fresh: Some(facts), .. }) = &answer {
                pictures.learn(&rm, facts);
            }
            return delivered(answer.map(convert::hold_answer_from_wire));
        }
        Message::Commit => {
            let request =
                v1::CommitRequest { transaction, coordinator, resource_manager, coordinator_epoch };
            client.commit(timed(request)).await.map(|answer| answer.into_inner().refused)
        }
        Message::Abort => {
            let request =
                v1::AbortRequest { transaction, coordinator, resource_manager, coordinator_epoch };
            client.abort(timed(request)).await.map(|answer| answer.into_inner().refused)
        }
        Message::Release => {
            let request = v1::ReleaseRequest {
                transaction,
                coordinator,
                resource_manager,
                coordinator_epoch,
            };
            client.release(timed(request)).await.map(|answer| answer.into_inner().refused)
        }
    };
    delivered(refused.map(|refused| Some(convert::end_answer_from_wire(refused.as_ref()))))
}

fn timed<T>(message: T) -> Request<T> {
    let mut request = Request::new(message);
    request.set_timeout(limits::MESSAGE_PATIENCE.to_std());
    traces::Span::current().inject(request.metadata_mut());
    request
}

/// How the delivery of a message ended, from the result of its call. Only the body of an answer is the RM's own word; a
/// status may come from anything between here and the RM. An answer that cannot be read counts as lost.
fn delivered(result: Result<Option<Answer>, Status>) -> Delivery {
    match result {
        Ok(Some(answer)) => Delivery::Answered(answer),
        Ok(None) => Delivery::Lost,
        Err(status) => match status::effect(&status) {
            Effect::Unknown => Delivery::Lost,
            Effect::Rejected => Delivery::Rejected(format!(
                "the call was refused with {:?}: {}",
                status.code(),
                status.message()
            )),
        },
    }
}
