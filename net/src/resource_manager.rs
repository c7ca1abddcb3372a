//! What every server of the ResourceManager service does alike, be it an RM or a coordinator that serves parents:
//! reading calls, wording answers, and asking coordinators about the outcome of holds.
//!
//! Left out: what the calls do, which the cores decide. Source: docs/PROTOCOL.md.

mod bookings;

use std::collections::BTreeMap;

use coalloc_common::invalid::check_range;
use coalloc_common::{
    CoordinatorName, InvalidField, ResourceId, TransactionId, UserName, Window, limits,
};
use coalloc_proto::v1;
use coalloc_proto::v1::hold_response;
use coalloc_proto::v1::resolver_client::ResolverClient;
use coalloc_protocol::Causer;
use coalloc_protocol::digest::{BookingSet, Part, Summary};
use coalloc_protocol::message::{Answer, Decision, MessageKind, Resolution};
use tokio::sync::mpsc;
use tonic::transport::Channel;
use tonic::{Code, Request, Status};

pub use self::bookings::{BookingChange, BookingPage, ListFilter, progress};
use crate::authorization::Caller;
use crate::client::{Destination, ShownCertificate};
use crate::machine::Host;
use crate::{convert, status};

/// Checks that a message is meant for this resource manager. After two RMs have exchanged their addresses, a
/// coordinator that has not noticed yet must not take the answer of one for that of the other.
///
/// # Errors
/// When `meant` is another name.
pub fn check_meant(name: &str, meant: &str) -> Result<(), Status> {
    if meant.is_empty() || meant == name {
        return Ok(());
    }
    tracing::warn!(meant, "a message for another resource manager");
    Err(status::not_for_us(name, meant))
}

/// A query for what may be reserved.
#[derive(Debug, Clone)]
pub struct AvailabilityQuery {
    /// The windows of the query.
    pub frames: Vec<Window>,
    /// The user who asks.
    pub user: UserName,
    /// The transaction whose booking would be replaced.
    pub replaces: Option<TransactionId>,
    /// The servers and resources that do not count.
    pub avoided: Vec<ResourceId>,
}

impl AvailabilityQuery {
    /// Reads a query.
    ///
    /// # Errors
    /// INVALID_ARGUMENT for the first field that is wrong.
    pub fn read(wire: &v1::QueryAvailabilityRequest) -> Result<Self, Status> {
        Self::parse(wire).map_err(|error| status::invalid(&error))
    }

    fn parse(wire: &v1::QueryAvailabilityRequest) -> Result<Self, InvalidField> {
        let user = convert::user_name("user", &wire.user)?;
        check_range("frames", wire.frames.len(), 1..=limits::FRAMES_MAX as usize, "frames")?;
        let frame = |(index, window)| {
            let place = |bad: InvalidField| InvalidField {
                field: format!("frames[{index}]{}", bad.field),
                ..bad
            };
            convert::window_from_wire("", Some(window)).map_err(place)
        };
        let frames: Result<_, _> = wire.frames.iter().enumerate().map(frame).collect();
        let replaces = convert::replaced_from_wire(&wire.replaces)?;
        let frames = frames?;
        let avoided = convert::picked_from_wire("avoided", &wire.avoided)?;
        Ok(Self { frames, user, replaces, avoided })
    }
}

/// A Hold, Commit, Abort or Release: who sends it to this resource manager, and about which transaction.
#[derive(Debug, Clone)]
pub struct TransactionCall {
    /// The name of this resource manager.
    pub rm: String,
    /// The transaction.
    pub txn: TransactionId,
    /// The coordinator that sends the message.
    pub coordinator: CoordinatorName,
}

impl TransactionCall {
    /// Reads a call to the resource manager `rm`. `meant` is the one that the message names.
    ///
    /// # Errors
    /// When the message is meant for another one, INVALID_ARGUMENT for the first name that is wrong, or
    /// PERMISSION_DENIED when the caller may not send it: a coordinator for itself, and what ends a transaction also an
    /// operator for any coordinator (I21).
    pub fn read(
        rm: &str,
        caller: &Caller,
        kind: MessageKind,
        meant: &str,
        txn: &str,
        coordinator: &str,
    ) -> Result<Self, Status> {
        check_meant(rm, meant)?;
        let txn = TransactionId::parse("transaction", txn);
        let coordinator = CoordinatorName::parse("coordinator", coordinator);
        let (txn, coordinator) = match (txn, coordinator) {
            (Ok(txn), Ok(coordinator)) => (txn, coordinator),
            (Err(error), _) | (_, Err(error)) => return Err(status::invalid(&error)),
        };
        caller.check_sends(kind, "coordinator", &coordinator)?;
        Ok(Self { rm: rm.to_owned(), txn, coordinator })
    }

    /// The body of an answer to Hold.
    ///
    /// # Errors
    /// The status of an answer which says that the message itself was wrong.
    pub fn hold_answer(&self, answer: Answer) -> Result<hold_response::Answer, Status> {
        let Self { txn, coordinator, .. } = self;
        Ok(match answer {
            Answer::Held { expires_in, servers } => {
                tracing::info!(%txn, %coordinator, %expires_in, "held");
                let expires_in = Some(convert::span_to_wire(expires_in));
                let servers = convert::granted_to_wire(None, &servers);
                hold_response::Answer::Held(v1::Held { expires_in, servers })
            }
            Answer::Refused(refusal) => {
                tracing::info!(%txn, %coordinator, reason = %refusal, "hold refused");
                hold_response::Answer::Refused(convert::refusal_to_wire(&refusal))
            }
            Answer::Denied => hold_response::Answer::Refused(self.denial()),
            other => return Err(self.rejection(&other)),
        })
    }

    /// The body of an answer to Commit, Abort and Release: empty, or the refusal. `word` is what has become of the
    /// transaction if it is empty.
    ///
    /// # Errors
    /// The status of an answer which says that the message itself was wrong.
    pub fn end_answer(&self, word: &str, answer: Answer) -> Result<Option<v1::Refusal>, Status> {
        let Self { txn, coordinator, .. } = self;
        match answer {
            Answer::Done => {
                tracing::info!(%txn, %coordinator, "{word}");
                Ok(None)
            }
            Answer::Refused(refusal) => {
                tracing::info!(%txn, %coordinator, reason = %refusal, "not {word}");
                Ok(Some(convert::refusal_to_wire(&refusal)))
            }
            Answer::Denied => Ok(Some(self.denial())),
            other => Err(self.rejection(&other)),
        }
    }

    /// The refusal for a coordinator that may not send a message about this transaction. It is in the body of the
    /// answer, because anybody could have sent a status.
    fn denial(&self) -> v1::Refusal {
        let Self { rm, txn, coordinator } = self;
        tracing::warn!(%txn, %coordinator, "denied");
        convert::denial(rm, txn, coordinator)
    }

    /// The status for an answer which says that the message itself was wrong.
    #[must_use]
    pub fn rejection(&self, answer: &Answer) -> Status {
        let Self { txn, coordinator, .. } = self;
        tracing::warn!(%txn, %coordinator, ?answer, "rejected");
        match answer {
            Answer::OtherContent => status::other_content("transaction", txn.as_str()),
            Answer::OlderLeader { epoch } => status::older_leader(coordinator, *epoch),
            Answer::Held { .. } | Answer::Done | Answer::Refused(_) | Answer::Denied => {
                status::internal("the core gave an answer that does not belong to this call")
            }
        }
    }
}

/// A coordinator's question what differs between its bookings and ours.
#[derive(Debug, Clone)]
pub struct Comparison {
    /// The coordinator that asks.
    pub coordinator: CoordinatorName,
    from: Part,
    theirs: Vec<Summary>,
}

impl Comparison {
    /// Reads the question to the resource manager `rm`.
    ///
    /// # Errors
    /// When it is meant for another one, INVALID_ARGUMENT for the first field that is wrong, or PERMISSION_DENIED when
    /// another one asks.
    pub fn read(
        rm: &str,
        caller: &Caller,
        wire: &v1::CompareBookingsRequest,
    ) -> Result<Self, Status> {
        check_meant(rm, &wire.resource_manager)?;
        let parse = || {
            let coordinator = CoordinatorName::parse("coordinator", &wire.coordinator)?;
            let (from, theirs) = convert::compare_from_wire(wire)?;
            Ok(Self { coordinator, from, theirs })
        };
        let comparison = parse().map_err(|error| status::invalid(&error))?;
        caller.check_is_coordinator("coordinator", &comparison.coordinator)?;
        Ok(comparison)
    }

    /// The answer of a resource manager that has booked `ours` for the coordinator.
    #[must_use]
    pub fn answer(
        &self,
        ledger_id: String,
        ours: Option<&BookingSet>,
    ) -> v1::CompareBookingsResponse {
        let nothing = BookingSet::default();
        convert::compared_to_wire(ledger_id, ours.unwrap_or(&nothing), &self.theirs, self.from..)
    }
}

/// A coordinator's question for one of its bookings.
#[derive(Debug)]
pub struct BookingQuestion {
    /// The coordinator that asks.
    pub coordinator: CoordinatorName,
    /// The transaction of the booking.
    pub txn: TransactionId,
}

impl BookingQuestion {
    /// Reads the question to the resource manager `rm`.
    ///
    /// # Errors
    /// As [`Comparison::read`].
    pub fn read(rm: &str, caller: &Caller, wire: &v1::GetBookingRequest) -> Result<Self, Status> {
        check_meant(rm, &wire.resource_manager)?;
        let parse = || {
            let coordinator = CoordinatorName::parse("coordinator", &wire.coordinator)?;
            Ok(Self { coordinator, txn: TransactionId::parse("transaction", &wire.transaction)? })
        };
        let question: Self = parse().map_err(|error| status::invalid(&error))?;
        caller.check_is_coordinator("coordinator", &question.coordinator)?;
        Ok(question)
    }

    /// The answer: the booking, if it is the coordinator's.
    ///
    /// # Errors
    /// NOT_FOUND when it is not.
    pub fn answer(&self, booking: Option<v1::Booking>) -> Result<v1::GetBookingResponse, Status> {
        let own = booking.filter(|booking| booking.coordinator == self.coordinator.as_str());
        let booking = own.ok_or_else(|| status::not_found("transaction", self.txn.as_str()))?;
        Ok(v1::GetBookingResponse { booking: Some(booking) })
    }
}

/// Reads which coordinator wants to watch the equipment of the resource manager `rm`.
///
/// # Errors
/// As [`Comparison::read`].
pub fn equipment_watcher(
    rm: &str,
    caller: &Caller,
    wire: &v1::WatchEquipmentRequest,
) -> Result<CoordinatorName, Status> {
    check_meant(rm, &wire.resource_manager)?;
    let coordinator = CoordinatorName::parse("coordinator", &wire.coordinator);
    let coordinator = coordinator.map_err(|error| status::invalid(&error))?;
    caller.check_is_coordinator("coordinator", &coordinator)?;
    Ok(coordinator)
}

/// The coordinators that know the outcomes of holds.
#[derive(Debug)]
pub struct Resolvers {
    rm: String,
    clients: BTreeMap<CoordinatorName, (ResolverClient<Channel>, ShownCertificate)>,
}

impl Resolvers {
    /// Those that the resource manager `rm` may ask.
    #[must_use]
    pub fn new(
        rm: String,
        coordinators: &BTreeMap<CoordinatorName, Destination>,
        host: &Host,
    ) -> Self {
        let client = |(name, to): (&CoordinatorName, &Destination)| {
            (name.clone(), (ResolverClient::new(host.connect(to)), to.shown.clone()))
        };
        Self { rm, clients: coordinators.iter().map(client).collect() }
    }

    /// Asks about the outcome of transactions, each question in a task of its own, and posts the answers with who gave
    /// them.
    pub async fn ask_all(
        self,
        mut asked: mpsc::UnboundedReceiver<(CoordinatorName, TransactionId)>,
        post: impl Fn(Causer, TransactionId, Resolution) + Clone + Send + 'static,
    ) {
        while let Some((coordinator, txn)) = asked.recv().await {
            let Some((client, shown)) = self.clients.get(&coordinator).cloned() else {
                tracing::warn!(%txn, %coordinator, "the hold's coordinator is no longer configured");
                continue;
            };
            let (rm, post) = (self.rm.clone(), post.clone());
            tokio::spawn(async move {
                let resolution = resolve(client, rm, &txn).await;
                tracing::info!(%txn, %coordinator, ?resolution, "asked about the outcome of a hold");
                post(shown.causer(), txn, resolution);
            });
        }
    }
}

async fn resolve(
    mut client: ResolverClient<Channel>,
    rm: String,
    txn: &TransactionId,
) -> Resolution {
    let message = v1::ResolveRequest { transaction: txn.to_string(), resource_manager: rm };
    let mut request = Request::new(message);
    request.set_timeout(limits::MESSAGE_PATIENCE.to_std());
    match client.resolve(request).await {
        Ok(answer) => match answer.into_inner().decision() {
            v1::Decision::Commit => Resolution::Decided(Decision::Commit),
            v1::Decision::Abort => Resolution::Decided(Decision::Abort),
            v1::Decision::Unspecified => Resolution::Lost,
        },
        Err(status) if status.code() == Code::NotFound => Resolution::NotMine,
        Err(_) => Resolution::Lost,
    }
}
