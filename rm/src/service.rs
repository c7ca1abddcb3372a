//! The ResourceManager service. It turns bytes into types, asks the participant's owner, and returns the
//! owner's answer. No handler changes anything itself, so a caller that goes away interrupts nothing.
//!
//! Left out: all decisions, which are in `protocol`'s participant.

use coalloc_common::invalid::check_range;
use coalloc_common::{
    CoordinatorName, InvalidField, Now, Span, TransactionId, UserName, Window, limits,
};
use coalloc_net::traces::Span as Traced;
use coalloc_net::watch::Watch;
use coalloc_net::{convert, status};
use coalloc_proto::v1;
use coalloc_proto::v1::resource_manager_server::ResourceManager;
use coalloc_protocol::digest::BookingSet;
use coalloc_protocol::message::{Answer, HoldOrder};
use coalloc_protocol::participant::{
    Entry, Participant, ParticipantInput, Phase, Question, TransactionEnd,
};
use prost::Message as _;
use tonic::{Request, Response, Status};

use crate::events::BookingEvents;
use crate::publisher::Publisher;
use crate::shell::Handle;

/// The handlers of the service.
#[derive(Debug, Clone)]
pub struct RmService {
    handle: Handle,
    description: v1::DescribeResponse,
    publisher: Publisher,
}

impl RmService {
    /// Handlers that answer Describe with `description`.
    #[must_use]
    pub const fn new(
        handle: Handle,
        description: v1::DescribeResponse,
        publisher: Publisher,
    ) -> Self {
        Self { handle, description, publisher }
    }

    /// Checks that a message is meant for this resource manager. After two RMs have exchanged their
    /// addresses, a coordinator that has not noticed yet must not take the answer of one for that of the
    /// other.
    fn check_meant(&self, meant: &str) -> Result<(), Status> {
        let name = &self.description.name;
        if meant.is_empty() || meant == name {
            return Ok(());
        }
        tracing::warn!(meant, "a message for another resource manager");
        Err(status::not_for_us(name, meant))
    }

    /// The body of an answer to Commit, Abort and Release: empty, or the refusal.
    fn end_answer(
        &self,
        word: &str,
        answer: Answer,
        txn: &TransactionId,
        by: &CoordinatorName,
    ) -> Result<Option<v1::Refusal>, Status> {
        match answer {
            Answer::Done => {
                tracing::info!(%txn, coordinator = %by, "{word}");
                Ok(None)
            }
            Answer::Refused(refusal) => {
                tracing::info!(%txn, coordinator = %by, reason = %refusal, "not {word}");
                Ok(Some(convert::refusal_to_wire(&refusal)))
            }
            Answer::Denied => Ok(Some(self.denial(txn, by))),
            other => Err(rejection(&other, txn, by)),
        }
    }

    /// The refusal for a coordinator that may not send a message about this transaction. It is in the body of
    /// the answer, because anybody could have sent a status.
    fn denial(&self, txn: &TransactionId, coordinator: &CoordinatorName) -> v1::Refusal {
        tracing::warn!(%txn, %coordinator, "denied");
        convert::denial(&self.description.name, txn, coordinator)
    }
}

#[tonic::async_trait]
impl ResourceManager for RmService {
    type WatchBookingsStream = Watch<v1::WatchBookingsResponse>;
    type WatchProfilesStream = Watch<v1::WatchProfilesResponse>;

    async fn watch_profiles(
        &self,
        request: Request<v1::WatchProfilesRequest>,
    ) -> Result<Response<Self::WatchProfilesStream>, Status> {
        Ok(Response::new(self.publisher.watch(request.get_ref())?))
    }

    async fn watch_bookings(
        &self,
        request: Request<v1::WatchBookingsRequest>,
    ) -> Result<Response<Self::WatchBookingsStream>, Status> {
        let v1::WatchBookingsRequest { resume_token } = request.into_inner();
        Ok(Response::new(self.handle.watch(&resume_token, BookingEvents).await?))
    }

    async fn describe(
        &self,
        _: Request<v1::DescribeRequest>,
    ) -> Result<Response<v1::DescribeResponse>, Status> {
        Ok(Response::new(self.description.clone()))
    }

    async fn query_availability(
        &self,
        request: Request<v1::QueryAvailabilityRequest>,
    ) -> Result<Response<v1::QueryAvailabilityResponse>, Status> {
        let request = request.into_inner();
        let query = Query::parse(&request).map_err(|error| status::invalid(&error))?;
        let Query { frames, user, replaces } = query;
        let mut question = Question::new(frames, user, replaces);
        // Almost every query is answered in one slice. Between two slices of a longer one, the protocol goes
        // on.
        while !question.is_answered() {
            let now = self.handle.now();
            let look = move |participant: &Participant| {
                participant.answer(&mut question, now);
                question
            };
            question = self.handle.read(look).await?;
        }
        let frames = question
            .into_answer_with_changes()
            .map(|(frame, change)| v1::FrameAvailability {
                free: frame.iter().map(|a| a.0).collect(),
                next_change: change.map(convert::time_to_wire),
            })
            .collect();
        Ok(Response::new(v1::QueryAvailabilityResponse { frames }))
    }

    async fn hold(
        &self,
        request: Request<v1::HoldRequest>,
    ) -> Result<Response<v1::HoldResponse>, Status> {
        self.check_meant(&request.get_ref().resource_manager)?;
        let order = hold_order(request.get_ref()).map_err(|error| status::invalid(&error))?;
        let (txn, coordinator) = (order.txn.clone(), order.coordinator.clone());
        let user = order.user.clone();
        Traced::current().set("coalloc.transaction", &txn);
        let watches = self.publisher.may_watch(&coordinator);
        let segments = watches.then(|| order.segments.clone());
        let answer = self.handle.call(|token| ParticipantInput::Hold { order, token }).await?;
        use v1::hold_response::Answer as Wire;
        let answer = match answer {
            Answer::Held { expires_in } => {
                tracing::info!(%txn, %coordinator, %user, expires_in = %expires_in, "held");
                Wire::Held(v1::Held { expires_in: Some(convert::span_to_wire(expires_in)) })
            }
            Answer::Refused(refusal) => {
                tracing::info!(%txn, %coordinator, %user, reason = %refusal, "hold refused");
                Wire::Refused(convert::refusal_to_wire(&refusal))
            }
            Answer::Denied => Wire::Refused(self.denial(&txn, &coordinator)),
            other => return Err(rejection(&other, &txn, &coordinator)),
        };
        let fresh = match segments {
            Some(segments) => self.publisher.fresh(segments).await,
            None => None,
        };
        Ok(Response::new(v1::HoldResponse { answer: Some(answer), fresh }))
    }

    async fn commit(
        &self,
        request: Request<v1::CommitRequest>,
    ) -> Result<Response<v1::CommitResponse>, Status> {
        let v1::CommitRequest { transaction, coordinator, resource_manager } = request.into_inner();
        self.check_meant(&resource_manager)?;
        let (txn, by) = names(&transaction, &coordinator)?;
        Traced::current().set("coalloc.transaction", &txn);
        let input = |token| ParticipantInput::Commit { txn: txn.clone(), by: by.clone(), token };
        let refused = self.end_answer("booked", self.handle.call(input).await?, &txn, &by)?;
        Ok(Response::new(v1::CommitResponse { refused }))
    }

    async fn abort(
        &self,
        request: Request<v1::AbortRequest>,
    ) -> Result<Response<v1::AbortResponse>, Status> {
        let v1::AbortRequest { transaction, coordinator, resource_manager } = request.into_inner();
        self.check_meant(&resource_manager)?;
        let (txn, by) = names(&transaction, &coordinator)?;
        Traced::current().set("coalloc.transaction", &txn);
        let input = |token| ParticipantInput::Abort { txn: txn.clone(), by: by.clone(), token };
        let refused = self.end_answer("aborted", self.handle.call(input).await?, &txn, &by)?;
        Ok(Response::new(v1::AbortResponse { refused }))
    }

    async fn release(
        &self,
        request: Request<v1::ReleaseRequest>,
    ) -> Result<Response<v1::ReleaseResponse>, Status> {
        let v1::ReleaseRequest { transaction, coordinator, resource_manager } =
            request.into_inner();
        self.check_meant(&resource_manager)?;
        let (txn, by) = names(&transaction, &coordinator)?;
        Traced::current().set("coalloc.transaction", &txn);
        let input = |token| ParticipantInput::Release { txn: txn.clone(), by: by.clone(), token };
        let refused = self.end_answer("released", self.handle.call(input).await?, &txn, &by)?;
        Ok(Response::new(v1::ReleaseResponse { refused }))
    }

    async fn compare_bookings(
        &self,
        request: Request<v1::CompareBookingsRequest>,
    ) -> Result<Response<v1::CompareBookingsResponse>, Status> {
        let wire = request.into_inner();
        self.check_meant(&wire.resource_manager)?;
        let coordinator = CoordinatorName::parse("coordinator", &wire.coordinator)
            .map_err(|error| status::invalid(&error))?;
        let (from, theirs) =
            convert::compare_from_wire(&wire).map_err(|error| status::invalid(&error))?;
        let (name, ledger) = (coordinator.clone(), self.description.ledger_id.clone());
        let look = move |participant: &Participant| {
            let nothing = BookingSet::default();
            let known = participant.config().coordinators.contains(&coordinator);
            let ours = participant.booked_for(&coordinator).unwrap_or(&nothing);
            known.then(|| convert::compared_to_wire(ledger, ours, &theirs, from..))
        };
        let denied = || {
            let text = format!("coordinator {name} is not configured here");
            status::denied(text)
        };
        self.handle.read(look).await?.map(Response::new).ok_or_else(denied)
    }

    async fn list_bookings(
        &self,
        request: Request<v1::ListBookingsRequest>,
    ) -> Result<Response<v1::ListBookingsResponse>, Status> {
        let mut page = Page::parse(request.get_ref()).map_err(|error| status::invalid(&error))?;
        if let Some(token) = page.after.clone() {
            let asked = token.clone();
            let known = move |core: &Participant| core.entries().contains_key(&asked);
            if !self.handle.read(known).await? {
                let allowed = "the `next_page_token` of a page";
                return Err(status::invalid(&InvalidField::new("page_token", token, allowed)));
            }
        }
        // In slices, like queries: between two of them the protocol goes on.
        while !page.is_whole {
            let now = self.handle.now();
            let look = move |participant: &Participant| {
                page.take(participant, now);
                page
            };
            page = self.handle.read(look).await?;
        }
        Ok(Response::new(page.into_answer()))
    }
}

/// A query for what may be reserved.
struct Query {
    frames: Vec<Window>,
    user: UserName,
    replaces: Option<TransactionId>,
}

impl Query {
    fn parse(request: &v1::QueryAvailabilityRequest) -> Result<Self, InvalidField> {
        let user = convert::user_name("user", &request.user)?;
        let max = limits::FRAMES_MAX as usize;
        check_range("frames", request.frames.len(), 1..=max, "frames")?;
        let frame =
            |(index, window)| convert::window_from_wire(&format!("frames[{index}]"), Some(window));
        let frames: Result<_, _> = request.frames.iter().enumerate().map(frame).collect();
        Ok(Self { frames: frames?, user, replaces: replaced(&request.replaces)? })
    }
}

/// The transaction that another one replaces; `None` when the text is empty.
fn replaced(wire: &str) -> Result<Option<TransactionId>, InvalidField> {
    match wire {
        "" => Ok(None),
        wire => TransactionId::parse("replaces", wire).map(Some),
    }
}

/// Reads a Hold into the form that the participant accepts.
///
/// # Errors
/// [`InvalidField`] for the first field that is wrong.
pub fn hold_order(wire: &v1::HoldRequest) -> Result<HoldOrder, InvalidField> {
    let hold_for = match &wire.hold_for {
        None => None,
        Some(span) => {
            let span = convert::span_from_wire("hold_for", span)?;
            if !(limits::HOLD_SOFT_MIN..=limits::HOLD_SOFT_MAX).contains(&span) {
                let (low, high) = (limits::HOLD_SOFT_MIN, limits::HOLD_SOFT_MAX);
                return Err(InvalidField::new("hold_for", span, format!("{low} to {high}")));
            }
            Some(span)
        }
    };
    let replaces = replaced(&wire.replaces)?;
    if wire.one_way && replaces.is_some() {
        let allowed = "false with `replaces`: a change is held, then committed";
        return Err(InvalidField::new("one_way", true, allowed));
    }
    if wire.keeps_old && replaces.is_none() {
        let allowed = "false without `replaces`: there is nothing old to keep";
        return Err(InvalidField::new("keeps_old", true, allowed));
    }
    let segments = match (&replaces, wire.segments.is_empty()) {
        // The new version needs nothing here.
        (Some(_), true) => Vec::new(),
        _ => convert::segments_from_wire("segments", &wire.segments)?,
    };
    Ok(HoldOrder {
        txn: TransactionId::parse("transaction", &wire.transaction)?,
        coordinator: CoordinatorName::parse("coordinator", &wire.coordinator)?,
        user: convert::user_name("user", &wire.user)?,
        segments,
        hold_for,
        replaces,
        keeps_old: wire.keeps_old,
        one_way: wire.one_way,
    })
}

fn names(txn: &str, coordinator: &str) -> Result<(TransactionId, CoordinatorName), Status> {
    let txn = TransactionId::parse("transaction", txn);
    let coordinator = CoordinatorName::parse("coordinator", coordinator);
    match (txn, coordinator) {
        (Ok(txn), Ok(coordinator)) => Ok((txn, coordinator)),
        (Err(error), _) | (_, Err(error)) => Err(status::invalid(&error)),
    }
}

/// The status for an answer which says that the message itself was wrong.
fn rejection(answer: &Answer, txn: &TransactionId, coordinator: &CoordinatorName) -> Status {
    tracing::warn!(%txn, %coordinator, ?answer, "rejected");
    match answer {
        Answer::OtherContent => status::other_content("transaction", txn.as_str()),
        Answer::Held { .. } | Answer::Done | Answer::Refused(_) | Answer::Denied => {
            status::internal("the participant gave an answer that does not belong to this call")
        }
    }
}

/// One page of a listing, with what has been read of it so far.
struct Page {
    window: Option<Window>,
    size: usize,
    include_ended: bool,
    /// The last transaction that was read.
    after: Option<TransactionId>,
    bookings: Vec<v1::Booking>,
    bytes: usize,
    is_whole: bool,
    /// Whether there are more entries after this page.
    has_next: bool,
}

impl Page {
    fn parse(wire: &v1::ListBookingsRequest) -> Result<Self, InvalidField> {
        let window = match &wire.window {
            None => None,
            window => Some(convert::window_from_wire("window", window.as_ref())?),
        };
        let size = wire.page_size.unwrap_or(limits::PAGE_DEFAULT);
        check_range("page_size", size, 1..=limits::PAGE_MAX, "entries")?;
        let after = match wire.page_token.as_str() {
            "" => None,
            token => Some(TransactionId::parse("page_token", token)?),
        };
        Ok(Self {
            window,
            size: size as usize,
            include_ended: wire.include_ended,
            after,
            bookings: Vec::new(),
            bytes: 0,
            is_whole: false,
            has_next: false,
        })
    }

    /// Reads one more slice: about [`limits::QUERY_SLICE_WORK`] entries and segments, and at least one entry.
    fn take(&mut self, participant: &Participant, now: Now) {
        use std::ops::Bound;
        let after = self.after.clone();
        let after = after.as_ref().map_or(Bound::Unbounded, Bound::Excluded);
        let range = participant.entries().range::<TransactionId, _>((after, Bound::Unbounded));
        let mut work = 0;
        for (txn, entry) in range {
            if work >= limits::QUERY_SLICE_WORK {
                return;
            }
            work += 1 + entry.order.as_ref().map_or(0, |order| order.segments.len());
            if self.wants(entry) {
                if self.bookings.len() >= self.size || self.bytes >= limits::PAGE_BYTES {
                    (self.is_whole, self.has_next) = (true, true);
                    return;
                }
                let shown = booking(txn, entry, now);
                self.bytes += shown.encoded_len();
                self.bookings.push(shown);
            }
            self.after = Some(txn.clone());
        }
        self.is_whole = true;
    }

    fn into_answer(self) -> v1::ListBookingsResponse {
        let last = self.bookings.last().filter(|_| self.has_next);
        let next_page_token = last.map(|last| last.transaction.clone()).unwrap_or_default();
        v1::ListBookingsResponse { bookings: self.bookings, next_page_token }
    }

    fn wants(&self, entry: &Entry) -> bool {
        let live = matches!(entry.phase, Phase::Held(_) | Phase::Booked);
        let mut segments = entry.order.iter().flat_map(|order| &order.segments);
        (live || self.include_ended)
            && self.window.is_none_or(|window| segments.any(|s| s.window.overlaps(window)))
    }
}

fn booking(txn: &TransactionId, entry: &Entry, now: Now) -> v1::Booking {
    let (state, expires_in) = match &entry.phase {
        Phase::Held(held) => {
            let left = held.hard_at.since(now.boot).max(Span::ZERO);
            (v1::BookingState::Held, Some(convert::span_to_wire(left)))
        }
        Phase::Booked => (v1::BookingState::Booked, None),
        Phase::Refused(_) => (v1::BookingState::Refused, None),
        Phase::Ended(TransactionEnd::Aborted) => (v1::BookingState::Aborted, None),
        Phase::Ended(TransactionEnd::Expired) => (v1::BookingState::Expired, None),
        Phase::Ended(TransactionEnd::Released) => (v1::BookingState::Released, None),
        Phase::Ended(TransactionEnd::Replaced) => (v1::BookingState::Replaced, None),
    };
    let order = entry.order.as_ref();
    v1::Booking {
        transaction: txn.to_string(),
        coordinator: entry.coordinator.to_string(),
        user: order.map(|order| order.user.to_string()).unwrap_or_default(),
        state: state.into(),
        segments: order
            .map(|order| convert::segments_to_wire(None, &order.segments))
            .unwrap_or_default(),
        expires_in,
        replaces: order
            .and_then(|order| order.replaces.as_ref())
            .map(ToString::to_string)
            .unwrap_or_default(),
    }
}
