//! Sends the updates of one subscriber to its stream, after an added delay if there is one.
//!
//! An update is made only when there is a place for it, so that it is as recent as possible when it is sent.
//! With a delay, as many updates are under way as [`limits::UPDATES_DELAYED_MAX`] and
//! [`limits::UPDATE_STEPS_DELAYED_MAX`] allow. No more are made until the first of them has been sent.
//!
//! Left out: what is in an update, and when one is due ([`super`]).

use std::sync::Arc;

use coalloc_common::{Span, limits};
use coalloc_net::watch::{Watch, WatcherSlot, ending_with};
use coalloc_proto::v1::WatchProfilesResponse;
use tokio::sync::mpsc::{self, OwnedPermit};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep, sleep_until};
use tonic::Status;

type Message = Result<WatchProfilesResponse, Status>;

/// The end of a stream into which updates are put. The stream ends when this is dropped.
pub(super) struct DelayedSender {
    stream: mpsc::Sender<Message>,
    delay: Option<Delay>,
}

/// Updates that are kept back for a time.
struct Delay {
    length: Span,
    sender: mpsc::Sender<DelayedUpdate>,
    steps: Arc<Semaphore>,
    relay: JoinHandle<()>,
}

impl Drop for Delay {
    fn drop(&mut self) {
        // Updates that are still kept back have no stream any more.
        self.relay.abort();
    }
}

pub(super) struct DelayedUpdate {
    due: Instant,
    update: WatchProfilesResponse,
    /// Given back when the update has been sent.
    _steps: OwnedSemaphorePermit,
}

/// A place for one update: in the stream, or among the updates that are kept back.
pub(super) enum UpdateSlot {
    Now(OwnedPermit<Message>),
    Later { place: OwnedPermit<DelayedUpdate>, steps: OwnedSemaphorePermit, delay: Span },
}

impl UpdateSlot {
    /// Sends an update that has `steps` steps of profiles.
    pub(super) fn send(self, update: WatchProfilesResponse, steps: usize) {
        match self {
            Self::Now(place) => drop(place.send(Ok(update))),
            Self::Later { place, steps: mut most, delay } => {
                let due = Instant::now() + delay.to_std();
                let surplus = most.num_permits().saturating_sub(steps);
                drop(most.split(surplus));
                drop(place.send(DelayedUpdate { due, update, _steps: most }));
            }
        }
    }
}

impl DelayedSender {
    /// A sender, and the stream that it feeds. The stream ends with the status `last`, which is made then.
    pub(super) fn new(
        delay: Span,
        last: impl FnOnce() -> Status + Send + 'static,
    ) -> (Self, Watch<WatchProfilesResponse>) {
        let (stream, receiver) = mpsc::channel(limits::WATCH_BUFFER);
        let delay = (delay > Span::ZERO).then(|| {
            let (sender, delayed) = mpsc::channel(limits::UPDATES_DELAYED_MAX);
            let relay = tokio::spawn(relay(delayed, stream.clone()));
            let steps = Arc::new(Semaphore::new(limits::UPDATE_STEPS_DELAYED_MAX));
            Delay { length: delay, sender, steps, relay }
        });
        (Self { stream, delay }, ending_with(receiver, last))
    }

    /// Waits for a place. `None` when the client is gone, when it has read nothing for too long, when the
    /// daemon stops, or when another caller gets the place among the watchers.
    pub(super) async fn place(&self, following: &mut WatcherSlot) -> Option<UpdateSlot> {
        tokio::select! {
            biased;
            place = self.reserve() => place,
            _ = following.beyond(u64::MAX) => None,
            () = sleep(limits::WATCH_STALL_MAX.to_std()) => None,
        }
    }

    async fn reserve(&self) -> Option<UpdateSlot> {
        let Some(delay) = &self.delay else {
            return self.stream.clone().reserve_owned().await.ok().map(UpdateSlot::Now);
        };
        // Takes as many steps as an update may have; sending gives back those that it does not use.
        let most = limits::UPDATE_STEPS_MAX as u32;
        let steps = Arc::clone(&delay.steps).acquire_many_owned(most).await.ok()?;
        let place = delay.sender.clone().reserve_owned().await.ok()?;
        Some(UpdateSlot::Later { place, steps, delay: delay.length })
    }

    /// Done when the client is gone.
    pub(super) async fn closed(&self) {
        self.stream.closed().await;
    }
}

/// Sends each update when it is due.
async fn relay(mut delayed: mpsc::Receiver<DelayedUpdate>, stream: mpsc::Sender<Message>) {
    while let Some(DelayedUpdate { due, update, _steps }) = delayed.recv().await {
        sleep_until(due).await;
        let stalled = sleep(limits::WATCH_STALL_MAX.to_std());
        tokio::select! {
            biased;
            sent = stream.send(Ok(update)) => if sent.is_err() { return },
            () = stalled => return,
        }
    }
}

#[cfg(test)]
mod tests {
    use coalloc_net::status;
    use tokio_stream::StreamExt as _;

    use super::*;

    fn update(revision: u64) -> WatchProfilesResponse {
        let update = coalloc_proto::v1::ProfileUpdate { revision, ..Default::default() };
        WatchProfilesResponse { update: Some(update) }
    }

    async fn send(way: &DelayedSender, revision: u64, steps: usize) {
        way.reserve().await.expect("a place").send(update(revision), steps);
    }

    fn revision(message: Option<Message>) -> Option<u64> {
        Some(message?.ok()?.update?.revision)
    }

    #[tokio::test(start_paused = true)]
    async fn a_delay_keeps_every_update_back_for_as_long_and_no_more_than_there_is_room_for() {
        let (way, mut stream) = DelayedSender::new(Span::from_secs(5), status::stopping);
        let begun = Instant::now();
        send(&way, 1, 1).await;
        sleep(std::time::Duration::from_secs(2)).await;
        send(&way, 2, 1).await;
        assert_eq!(revision(stream.next().await), Some(1));
        assert_eq!(begun.elapsed().as_secs(), 5);
        assert_eq!(revision(stream.next().await), Some(2));
        assert_eq!(begun.elapsed().as_secs(), 7);
        // This fills all steps that may be under way; the next update waits until the first has been sent.
        let full = limits::UPDATE_STEPS_DELAYED_MAX / limits::UPDATE_STEPS_MAX;
        for revision in 0..full {
            send(&way, revision as u64, limits::UPDATE_STEPS_MAX).await;
        }
        assert_eq!(begun.elapsed().as_secs(), 7);
        let reading = tokio::spawn(async move {
            let mut seen = 0;
            while revision(stream.next().await).is_some() {
                seen += 1;
            }
            seen
        });
        send(&way, 99, 1).await;
        assert_eq!(begun.elapsed().as_secs(), 12);
        // Updates that are kept back end with the sender.
        drop(way);
        let seen = reading.await.expect("it ends");
        assert!((1..=full).contains(&seen), "{seen}");
    }

    #[tokio::test(start_paused = true)]
    async fn without_a_delay_an_update_is_there_at_once_and_a_full_stream_has_no_place() {
        let (way, mut stream) = DelayedSender::new(Span::ZERO, status::stopping);
        for revision in 0..limits::WATCH_BUFFER {
            send(&way, revision as u64, 1).await;
        }
        let wait = std::time::Duration::from_secs(1);
        assert!(tokio::time::timeout(wait, way.reserve()).await.is_err());
        assert_eq!(revision(stream.next().await), Some(0));
        send(&way, 77, 1).await;
        drop(stream);
        way.closed().await;
        assert!(way.reserve().await.is_none());
    }
}
