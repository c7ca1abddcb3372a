//! The loop of a watch: reads events, prints lines, and reconnects when the connection breaks.

use std::time::Duration;

use clap::ValueEnum;
use coalloc_common::Span;
use coalloc_net::server::stop_signal;
use coalloc_proto::v1;
use coalloc_proto::v1::resource_manager_client::ResourceManagerClient;
use tokio::time::{Instant, sleep, sleep_until};
use tonic::transport::Channel;
use tonic::{Code, Status, Streaming};

use super::show::EventPrinter;
use crate::kit::exit::{Exit, Failure};
use crate::kit::resources::{self, DescribedResource};
use crate::kit::rpc;
use crate::kit::text;

/// Backoff before the first attempt to resume a broken connection; it doubles with each attempt.
pub(in crate::user) const PAUSE_FIRST: Duration = Duration::from_millis(100);
/// Upper bound of the backoff.
pub(in crate::user) const PAUSE_MAX: Duration = Duration::from_secs(5);
/// How often the line that counts down is drawn.
const TICK: Duration = Duration::from_secs(1);
/// Timeout for the call that the line that counts down needs.
const TICK_PATIENCE: Duration = Duration::from_millis(500);

/// The daemon to watch.
pub(in crate::user) enum Source {
    Grc { client: rpc::Coordinator, id: String, user: String },
    Rm { client: ResourceManagerClient<Channel>, resources: Vec<DescribedResource> },
}

/// What to wait for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum WatchGoal {
    /// Booked everywhere
    Confirmed,
    /// Its window has begun, and it can be used
    Started,
    /// Its time is over, or it is refused or released, with nothing of it left
    Ended,
}

/// What ends a watch, besides the user.
pub(super) struct WatchLimits {
    pub(super) count: Option<u64>,
    pub(super) until: Option<WatchGoal>,
    pub(super) idle: Option<Span>,
}

/// An item of a stream.
pub(in crate::user) enum Item {
    Reservation(Box<v1::ReservationEvent>),
    Booking(Box<v1::BookingEvent>),
    Progress(String),
}

/// An open stream.
pub(in crate::user) enum Open {
    Grc(Streaming<v1::WatchResponse>),
    Rm(Streaming<v1::WatchBookingsResponse>),
}

/// Why the loop over one connection has ended.
enum ConnectionEnd {
    Exit(Exit),
    Broken(Status),
}

impl Source {
    /// Asks a resource manager who it is.
    pub(super) async fn rm(
        mut client: ResourceManagerClient<Channel>,
        address: &str,
    ) -> Result<Self, Failure> {
        let described = client.describe(v1::DescribeRequest {}).await.map_err(|status| {
            let message = format!("no resource manager at {address}: {}", status.message());
            Failure::new(Exit::CallFailed, message)
        })?;
        Ok(Self::Rm { client, resources: resources::described(&described.into_inner()) })
    }

    pub(in crate::user) async fn open(&mut self, token: &str) -> Result<Open, Status> {
        let resume_token = token.to_owned();
        match self {
            Self::Grc { client, id, user } => {
                let request = v1::WatchRequest { resume_token, id: id.clone(), user: user.clone() };
                Ok(Open::Grc(client.watch(request).await?.into_inner()))
            }
            Self::Rm { client, .. } => {
                let request = v1::WatchBookingsRequest { resume_token };
                Ok(Open::Rm(client.watch_bookings(request).await?.into_inner()))
            }
        }
    }

    /// How long a reservation is still held.
    ///
    /// Before all resource managers hold, no event says it, so this asks the coordinator.
    async fn held_yet(&mut self, id: &str) -> Option<coalloc_proto::Duration> {
        let Self::Grc { client, .. } = self else { return None };
        let answer = client.get(v1::GetRequest { id: id.to_owned() });
        let answer = tokio::time::timeout(TICK_PATIENCE, answer).await.ok()?.ok()?;
        answer.into_inner().reservation?.expires_in
    }
}

impl Open {
    pub(in crate::user) async fn next(&mut self) -> Result<Item, Status> {
        let closed = || Status::unavailable("the stream was closed");
        loop {
            let item = match self {
                Self::Grc(stream) => match stream.message().await?.ok_or_else(closed)?.what {
                    Some(v1::watch_response::What::Event(event)) => {
                        Some(Item::Reservation(Box::new(event)))
                    }
                    Some(v1::watch_response::What::Progress(at)) => {
                        Some(Item::Progress(at.resume_token))
                    }
                    None => None,
                },
                Self::Rm(stream) => match stream.message().await?.ok_or_else(closed)?.what {
                    Some(v1::watch_bookings_response::What::Event(event)) => {
                        Some(Item::Booking(Box::new(event)))
                    }
                    Some(v1::watch_bookings_response::What::Progress(at)) => {
                        Some(Item::Progress(at.resume_token))
                    }
                    None => None,
                },
            };
            // Ignore what a later release may send besides events.
            if let Some(item) = item {
                return Ok(item);
            }
        }
    }
}

/// Follows events until something ends the watch, and returns how it ended.
pub(super) async fn follow(
    source: Source,
    token: String,
    ends: WatchLimits,
    json: bool,
) -> Result<Exit, Failure> {
    let heard = Instant::now();
    let mut following = Following {
        shown: EventPrinter::new(json),
        source,
        token,
        ends,
        seen: 0,
        heard,
        answered: false,
    };
    let (mut pause, mut greeted, mut told) = (PAUSE_FIRST, false, false);
    let exit = loop {
        following.answered = false;
        let status = match following.connection().await? {
            ConnectionEnd::Exit(exit) => break exit,
            ConnectionEnd::Broken(status) => status,
        };
        // A daemon that has never answered is not waited for.
        let never = !std::mem::replace(&mut greeted, true) && !following.answered;
        if never {
            return Err(failure(&status));
        }
        if is_final(&status) {
            following.end();
            return Err(failure(&status));
        }
        if following.answered {
            pause = PAUSE_FIRST;
            told = false;
        }
        let (code, message) = (status.code(), status.message());
        // Printed once, no matter how many attempts fail.
        if !std::mem::replace(&mut told, true) {
            following.shown.note(&format!("the connection broke ({code:?}: {message}); resuming"));
        }
        if let Some(exit) = following.wait(pause).await {
            break exit;
        }
        pause = (pause * 2).min(PAUSE_MAX);
    };
    following.end();
    Ok(exit)
}

struct Following {
    source: Source,
    token: String,
    ends: WatchLimits,
    shown: EventPrinter,
    /// Number of events so far.
    seen: u64,
    /// When the last event came.
    heard: Instant,
    /// Whether anything has arrived over the present connection.
    answered: bool,
}

impl Following {
    /// One connection, from open to broken.
    async fn connection(&mut self) -> Result<ConnectionEnd, Failure> {
        let idle = self.idle_at();
        let open = tokio::select! {
            open = self.source.open(&self.token) => open,
            () = stop_signal() => return Ok(ConnectionEnd::Exit(Exit::Interrupted)),
            () = sleep_until(idle) => return Ok(ConnectionEnd::Exit(self.unreached())),
        };
        let mut stream = match open {
            Ok(stream) => stream,
            Err(status) => return Ok(ConnectionEnd::Broken(status)),
        };
        let interrupted = stop_signal();
        tokio::pin!(interrupted);
        loop {
            let idle = self.idle_at();
            tokio::select! {
                item = stream.next() => match item {
                    Ok(item) => if let Some(exit) = self.take(item)? {
                        return Ok(ConnectionEnd::Exit(exit));
                    },
                    Err(status) => return Ok(ConnectionEnd::Broken(status)),
                },
                () = &mut interrupted => return Ok(ConnectionEnd::Exit(Exit::Interrupted)),
                () = sleep_until(idle) => return Ok(ConnectionEnd::Exit(self.unreached())),
                () = sleep(TICK), if self.shown.counts_down() => {
                    if let Some(id) = self.shown.next_checked()
                        && let Some(left) = self.source.held_yet(&id).await
                    {
                        self.shown.held_for(&id, &left);
                    }
                    self.shown.tick();
                }
            }
        }
    }

    /// Shows an event; returns how the watch ends if this was the last event wanted.
    fn take(&mut self, item: Item) -> Result<Option<Exit>, Failure> {
        self.answered = true;
        let (token, shown, exit) = match item {
            Item::Progress(token) => {
                self.token = token;
                return Ok(None);
            }
            Item::Reservation(event) => {
                let exit = self.ends.until.and_then(|until| reached(until, event.state()));
                (event.resume_token.clone(), self.shown.reservation(&event)?, exit)
            }
            Item::Booking(event) => {
                let Source::Rm { resources, .. } = &self.source else { return Ok(None) };
                (event.resume_token.clone(), self.shown.booking(&event, resources)?, None)
            }
        };
        self.token = token;
        self.seen += 1;
        self.heard = Instant::now();
        // Nobody reads the output any more (`| head`).
        let gone = (!shown).then_some(Exit::Done);
        let counted = self.ends.count.is_some_and(|count| self.seen >= count);
        Ok(gone.or(exit).or_else(|| counted.then_some(Exit::Done)))
    }

    fn idle_at(&self) -> Instant {
        // Longer than anybody waits, but short enough not to overflow.
        let never = Duration::from_secs(366 * 86_400);
        self.heard + self.ends.idle.map_or(never, |idle| idle.to_std().min(never))
    }

    /// How the watch ends when nothing happens any more.
    const fn unreached(&self) -> Exit {
        let waiting = self.ends.count.is_some() || self.ends.until.is_some();
        if waiting { Exit::Unfinished } else { Exit::Done }
    }

    /// Waits before the next connection, unless something else ends the watch.
    ///
    /// The countdown goes on meanwhile, because holds expire all the same.
    async fn wait(&self, pause: Duration) -> Option<Exit> {
        let (over, interrupted) = (Instant::now() + pause, stop_signal());
        tokio::pin!(interrupted);
        loop {
            tokio::select! {
                () = sleep_until(over) => return None,
                () = &mut interrupted => return Some(Exit::Interrupted),
                () = sleep_until(self.idle_at()) => return Some(self.unreached()),
                () = sleep(TICK), if self.shown.counts_down() => self.shown.tick(),
            }
        }
    }

    /// Prints how to resume.
    fn end(&mut self) {
        self.shown.end();
        if !self.token.is_empty() {
            text::note(&format!("to go on from here: --from {}", self.token));
        }
    }
}

/// Returns how the watch ends if the reservation has reached the state waited for, or never will.
const fn reached(until: WatchGoal, state: v1::ReservationState) -> Option<Exit> {
    use v1::ReservationState as S;
    match (until, state) {
        (WatchGoal::Confirmed, S::Confirmed | S::Active | S::PassedEndTime)
        | (WatchGoal::Started, S::Active | S::PassedEndTime)
        | (WatchGoal::Ended, S::Failed | S::Terminated | S::PassedEndTime) => Some(Exit::Done),
        (WatchGoal::Confirmed | WatchGoal::Started, S::Failed | S::Terminated) => {
            Some(Exit::Refused)
        }
        _ => None,
    }
}

/// Would the same call get the same answer again?
pub(in crate::user) fn is_final(status: &Status) -> bool {
    matches!(
        status.code(),
        Code::InvalidArgument
            | Code::NotFound
            | Code::FailedPrecondition
            | Code::PermissionDenied
            | Code::Unauthenticated
            | Code::Unimplemented
            | Code::DataLoss
    )
}

fn failure(status: &Status) -> Failure {
    match status.code() {
        // The token came from the user.
        Code::FailedPrecondition => Failure::bad_input(status.message()),
        _ => rpc::failure(status),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waiting_ends_with_what_was_waited_for_or_with_what_makes_it_impossible() {
        use v1::ReservationState as S;
        let cases = [
            (WatchGoal::Confirmed, S::Checking, None),
            (WatchGoal::Confirmed, S::Committing, None),
            (WatchGoal::Confirmed, S::Confirmed, Some(Exit::Done)),
            (WatchGoal::Confirmed, S::Failed, Some(Exit::Refused)),
            (WatchGoal::Confirmed, S::Aborting, None),
            (WatchGoal::Confirmed, S::Active, Some(Exit::Done)),
            (WatchGoal::Started, S::Confirmed, None),
            (WatchGoal::Started, S::Active, Some(Exit::Done)),
            (WatchGoal::Started, S::Terminated, Some(Exit::Refused)),
            (WatchGoal::Ended, S::Confirmed, None),
            (WatchGoal::Ended, S::Active, None),
            (WatchGoal::Ended, S::PassedEndTime, Some(Exit::Done)),
            (WatchGoal::Ended, S::Terminating, None),
            (WatchGoal::Ended, S::Terminated, Some(Exit::Done)),
            (WatchGoal::Ended, S::Failed, Some(Exit::Done)),
        ];
        for (until, state, expected) in cases {
            assert_eq!(reached(until, state), expected, "{until:?} {state:?}");
        }
    }

    #[test]
    fn a_token_of_another_past_is_the_users_mistake_and_a_broken_stream_is_not() {
        let status = Status::failed_precondition("another ledger");
        assert!(is_final(&status));
        assert_eq!(failure(&status).exit, Exit::BadInput);
        for code in [Code::Unavailable, Code::Unknown, Code::Internal, Code::ResourceExhausted] {
            assert!(!is_final(&Status::new(code, "")), "{code:?}");
        }
    }
}
