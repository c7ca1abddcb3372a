//! Streams through crashes: a follower that resumes with its tokens has, in the end, received every event once.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use coalloc_cli::kit::rpc::{Coordinator, ResourceManager};
use coalloc_proto::v1;
use tonic::{Code, Status, Streaming};

use crate::identities::{Party, Protection};
use crate::trace::Trace;

/// The stream to follow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stream {
    /// The bookings of the NRM.
    Bookings,
    /// The reservations of the GRC.
    Reservations,
}

const ALL: [Stream; 2] = [Stream::Bookings, Stream::Reservations];
/// Pause between two attempts.
const PAUSE: Duration = Duration::from_millis(300);
/// How long a follower may take at the end.
const LAST: Duration = Duration::from_secs(40);

/// One message: the token to resume from, and the event, if the message is one.
type WatchMessage = (String, Option<String>);

/// An open stream, and the client that opened it.
///
/// The client must be kept: when no call can be made any more, hyper takes the connection for idle even if
/// a stream uses it, and does not notice a peer that is gone without a word.
enum Open {
    Bookings(Streaming<v1::WatchBookingsResponse>, #[expect(dead_code)] ResourceManager),
    Reservations(Streaming<v1::WatchResponse>, #[expect(dead_code)] Coordinator),
}

impl Stream {
    async fn open(self, protection: &Protection, resume_token: String) -> Result<Open, Status> {
        Ok(match self {
            Self::Bookings => {
                let request = v1::WatchBookingsRequest { resume_token };
                let mut client = protection.manager(Party::SouthOperator, "nrm");
                Open::Bookings(client.watch_bookings(request).await?.into_inner(), client)
            }
            Self::Reservations => {
                let request = v1::WatchRequest { resume_token, ..Default::default() };
                let mut client = protection.coordinator(Party::Operator);
                Open::Reservations(client.watch(request).await?.into_inner(), client)
            }
        })
    }
}

impl Open {
    async fn next(&mut self) -> Result<Option<WatchMessage>, Status> {
        Ok(match self {
            Self::Bookings(stream, _) => {
                use v1::watch_bookings_response::What;
                stream.message().await?.and_then(|message| message.what).map(|what| match what {
                    What::Event(event) => {
                        let said = format!("{} {:?}", event.sequence, event.booking);
                        (event.resume_token, Some(said))
                    }
                    What::Progress(progress) => (progress.resume_token, None),
                })
            }
            Self::Reservations(stream, _) => {
                use v1::watch_response::What;
                stream.message().await?.and_then(|message| message.what).map(|what| match what {
                    What::Event(event) => {
                        let said = format!(
                            "{} {} {:?} v{} {} {}",
                            event.sequence,
                            event.reservation,
                            event.state(),
                            event.version,
                            event.transaction,
                            event.what
                        );
                        (event.resume_token, Some(said))
                    }
                    What::Progress(progress) => (progress.resume_token, None),
                })
            }
        })
    }
}

/// The events that a follower has received.
type Heard = Arc<Mutex<Vec<String>>>;

/// Follows every stream from its beginning, for as long as the run lasts.
pub(crate) fn follow_all(protection: &Protection, trace: &Trace) -> Vec<Heard> {
    let follow_one = |stream: &Stream| {
        let heard = Heard::default();
        tokio::spawn(follow(protection.clone(), *stream, Arc::clone(&heard), trace.clone()));
        heard
    };
    ALL.iter().map(follow_one).collect()
}

async fn follow(protection: Protection, stream: Stream, heard: Heard, trace: Trace) {
    let mut token = "0".to_owned();
    loop {
        // The token ends with a digest of records, which name certificates by their digests.
        let shown = token.rsplit_once(':').map_or(token.as_str(), |(place, _)| place);
        trace.add("watch", format_args!("{stream:?} from {shown}"));
        let broken = match stream.open(&protection, token.clone()).await {
            Ok(mut open) => loop {
                match open.next().await {
                    Ok(Some((behind, event))) => {
                        token = behind;
                        heard.lock().unwrap().extend(event);
                    }
                    Ok(None) => break None,
                    Err(status) => break Some(status),
                }
            },
            Err(status) => Some(status),
        };
        let text = broken.as_ref().map(|status| format!("{:?}", status.code()));
        trace.add("watch", format_args!("{stream:?} ended: {text:?}"));
        if let Some(status) = broken.filter(|status| status.code() == Code::FailedPrecondition) {
            return trace
                .accuse(format!("{stream:?}: what was told is gone: {}", status.message()));
        }
        tokio::time::sleep(PAUSE).await;
    }
}

/// Compares the events of each follower with those that a new follower receives at the end.
pub(crate) async fn compare_all(protection: &Protection, followed: Vec<Heard>, trace: &Trace) {
    for (stream, heard) in ALL.into_iter().zip(followed) {
        let all = match everything(protection, stream).await {
            Ok(all) => all,
            Err(status) => return trace.accuse(format!("{stream:?}: {}", status.message())),
        };
        let until = turmoil::sim_elapsed().unwrap_or_default() + LAST;
        while heard.lock().unwrap().len() < all.len()
            && turmoil::sim_elapsed().unwrap_or_default() < until
        {
            tokio::time::sleep(PAUSE).await;
        }
        let heard = heard.lock().unwrap();
        let differs = heard.iter().zip(&all).position(|(heard, told)| heard != told);
        if differs.is_some() || heard.len() != all.len() {
            let (heard, all) = (heard.len(), all.len());
            trace.accuse(format!("{stream:?}: {heard} events of {all}, first other {differs:?}"));
        }
        trace.add("watch", format_args!("{stream:?}: {} events", all.len()));
    }
}

/// All events of a stream, read at once.
async fn everything(protection: &Protection, stream: Stream) -> Result<Vec<String>, Status> {
    let mut open = stream.open(protection, "0".to_owned()).await?;
    let (mut all, mut progress) = (Vec::new(), 0);
    // One progress message comes at the start, and one when all past events have been sent.
    while progress < 2 {
        match open.next().await? {
            Some((_, Some(event))) => all.push(event),
            Some((_, None)) => progress += 1,
            None => return Err(Status::unavailable("the stream ended")),
        }
    }
    Ok(all)
}
