//! The coordinator's changes, which all pages follow together.
//!
//! A page wants to know one thing only: that something has changed which its visitor may see. So there is one watch of the
//! coordinator for all pages, by the coordinator itself, and each visitor is told of its own changes:
//!
//! ```text
//!   ledger ── one watch ── ChangeMark { token, user } ──┬── readers of everything: the token of the last change
//!                                                       ├── alice: the token of her last change
//!                                                       └── bob: the token of his last change
//! ```
//!
//! * **Nothing of others leaks.** A mark has no content, only a token and whose reservation has changed, and a page that is
//!   told reads itself again by its visitor's rights. Who reads what is what the coordinator says of a caller
//!   ([`Caller::only_user`]), as for a watch of the visitor's own; a visitor who may not watch is refused. Who sees
//!   only its own is woken by its own changes only. From the token with which it begins it can tell how long the ledger is, as
//!   from the signs of life of any watch.
//! * **Nothing is missed.** The token of the last change waits for a slow reader: any number of changes are one. Whoever comes
//!   back says which token it had. If that is not the present one of its rights, something may have happened, and it is told
//!   at once. Tokens are only compared, so one of another ledger or from before a restart is as good as any other.
//! * **It costs what one watch costs**, however many read: a change wakes only those who may see it. Without readers the watch
//!   ends. What costs more is that pages are read again, so each hears how long to wait, which depends on how many are open.
//!
//! Left out: how a record becomes a mark, which `grc` has, and the events of a browser (`pages::live`).

use std::collections::BTreeMap;
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use coalloc_common::{Span, limits};
use coalloc_net::authorization::Caller;
use coalloc_net::watch::Watch;
use tokio::sync::watch;
use tokio_stream::StreamExt as _;
use tonic::Status;

/// A position in the coordinator's ledger, and the change there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChangeMark {
    /// The token of the position, which no other position has.
    pub token: String,
    /// The change; `None` if the mark only says that everything up to here was reported.
    pub change: Option<ChangedReservation>,
}

/// A change of a reservation, without what it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChangedReservation {
    /// The user who may see it; `None`: only those who may see everything.
    pub user: Option<String>,
}

/// Begins to watch the coordinator from now on. The first mark comes at once.
pub type ChangeSource = Arc<dyn Fn() -> ChangeStart + Send + Sync>;
/// A watch that is about to begin.
pub type ChangeStart = Pin<Box<dyn Future<Output = Result<Watch<ChangeMark>, Status>> + Send>>;

/// Whose changes somebody may see.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Sight {
    /// Those of everybody.
    Everything,
    /// Those of this user.
    User(String),
}

impl Sight {
    /// What a caller may see.
    ///
    /// # Errors
    /// PERMISSION_DENIED when it may see nothing.
    pub(crate) fn of(caller: &Caller) -> Result<Self, Status> {
        let only = caller.only_user()?;
        Ok(only.map_or(Self::Everything, |user| Self::User(user.to_string())))
    }
}

/// The token of the last change that somebody may see.
pub(crate) type LastChange = watch::Receiver<Arc<str>>;

/// The changes of one coordinator, for all who read. Clones share them.
#[derive(Clone)]
pub(crate) struct SharedChanges(Arc<Shared>);

struct Shared {
    source: ChangeSource,
    /// The number of open pages.
    open: AtomicUsize,
    /// The readers of the watch that runs, or ran last.
    readers: tokio::sync::Mutex<Option<Arc<Readers>>>,
}

impl SharedChanges {
    pub(crate) fn new(source: ChangeSource) -> Self {
        let (open, readers) = (AtomicUsize::new(0), tokio::sync::Mutex::default());
        Self(Arc::new(Shared { source, open, readers }))
    }

    /// Counts a page that is open, for as long as the answer lives.
    pub(crate) fn open_page(&self) -> OpenPage {
        self.0.open.fetch_add(1, Ordering::Relaxed);
        OpenPage(Arc::clone(&self.0))
    }

    /// The changes that may be seen from now on. The receiver is closed when the watch ends.
    ///
    /// # Errors
    /// What the coordinator refuses a watch with.
    pub(crate) async fn join(&self, sight: Sight) -> Result<LastChange, Status> {
        let mut running = self.0.readers.lock().await;
        if let Some(readers) = &*running
            && let Some(last) = readers.join(sight.clone())
        {
            return Ok(last);
        }
        let mut marks = (self.0.source)().await?;
        let begin = marks.next().await.transpose()?;
        let begin = begin.ok_or_else(|| Status::unavailable("the coordinator is stopping"))?;
        let readers = Arc::new(Readers::at(&begin.token));
        let last = readers.join(sight);
        tokio::spawn(Arc::clone(&readers).follow(marks));
        *running = Some(readers);
        last.ok_or_else(|| Status::internal("a watch of all pages has ended before it began"))
    }
}

/// A page that is open.
pub(crate) struct OpenPage(Arc<Shared>);

impl OpenPage {
    /// The time within which a page reads itself again after a change, and before it does so once more: with many open pages it
    /// is longer, so that all of them together read [`limits::WEB_READS_PER_S`] times a second at most.
    pub(crate) fn pause(&self) -> Span {
        pause(self.0.open.load(Ordering::Relaxed))
    }
}

impl Drop for OpenPage {
    fn drop(&mut self) {
        self.0.open.fetch_sub(1, Ordering::Relaxed);
    }
}

fn pause(open: usize) -> Span {
    let ms = open.saturating_mul(1_000) / limits::WEB_READS_PER_S;
    Span::from_millis(i64::try_from(ms).unwrap_or(i64::MAX / 1_000)).max(limits::WEB_READ_PAUSE)
}

/// Those who follow one watch.
struct Readers(Mutex<State>);

struct State {
    /// The last position of the watch; `None`: it has ended.
    position: Option<Arc<str>>,
    /// By what they may see: the token of the last change of these.
    groups: BTreeMap<Sight, watch::Sender<Arc<str>>>,
}

impl Readers {
    fn at(position: &str) -> Self {
        Self(Mutex::new(State { position: Some(position.into()), groups: BTreeMap::new() }))
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// `None` when the watch has ended.
    fn join(&self, sight: Sight) -> Option<LastChange> {
        let mut state = self.lock();
        let position = Arc::clone(state.position.as_ref()?);
        let group = state.groups.entry(sight).or_insert_with(|| watch::Sender::new(position));
        Some(group.subscribe())
    }

    /// Passes on what the watch says, until it ends or nobody reads.
    async fn follow(self: Arc<Self>, mut marks: Watch<ChangeMark>) {
        while let Some(Ok(mark)) = marks.next().await {
            if !self.note(mark) {
                return;
            }
        }
        self.end();
    }

    /// Notes a mark; false when nobody reads any more. The watch has then ended.
    fn note(&self, mark: ChangeMark) -> bool {
        let mut state = self.lock();
        let token: Arc<str> = mark.token.into();
        state.position = Some(Arc::clone(&token));
        let Some(change) = mark.change else {
            state.groups.retain(|_, group| group.receiver_count() > 0);
            let is_read = !state.groups.is_empty();
            if !is_read {
                state.position = None;
            }
            return is_read;
        };
        for sight in std::iter::once(Sight::Everything).chain(change.user.map(Sight::User)) {
            if let Some(group) = state.groups.get(&sight) {
                group.send_replace(Arc::clone(&token));
            }
        }
        true
    }

    fn end(&self) {
        let mut state = self.lock();
        state.position = None;
        // Closes the receivers.
        state.groups.clear();
    }
}

#[cfg(test)]
mod tests {
    use tokio::sync::mpsc;
    use tokio_stream::wrappers::UnboundedReceiverStream;

    use super::*;

    type Marks = mpsc::UnboundedSender<Result<ChangeMark, Status>>;

    /// A coordinator that says what the test wants, and counts the watches of it.
    #[derive(Clone, Default)]
    struct Coordinator {
        watches: Arc<AtomicUsize>,
        marks: Arc<Mutex<Option<Marks>>>,
    }

    impl Coordinator {
        fn shared(&self) -> SharedChanges {
            let this = self.clone();
            SharedChanges::new(Arc::new(move || {
                let number = this.watches.fetch_add(1, Ordering::SeqCst);
                let (sender, receiver) = mpsc::unbounded_channel();
                sender.send(Ok(progress(&format!("begin-{number}")))).unwrap();
                *this.marks.lock().unwrap() = Some(sender);
                Box::pin(
                    async move { Ok(Box::pin(UnboundedReceiverStream::new(receiver)) as Watch<_>) },
                )
            }))
        }

        fn says(&self, mark: ChangeMark) {
            self.marks.lock().unwrap().as_ref().unwrap().send(Ok(mark)).unwrap();
        }
    }

    fn progress(token: &str) -> ChangeMark {
        ChangeMark { token: token.into(), change: None }
    }

    fn change(token: &str, user: Option<&str>) -> ChangeMark {
        ChangeMark {
            token: token.into(),
            change: Some(ChangedReservation { user: user.map(Into::into) }),
        }
    }

    fn user(name: &str) -> Sight {
        Sight::User(name.into())
    }

    #[tokio::test]
    async fn two_hundred_readers_share_one_watch_and_each_learns_of_its_own() {
        let coordinator = Coordinator::default();
        let shared = coordinator.shared();
        let mut everything = shared.join(Sight::Everything).await.unwrap();
        let mut users = Vec::new();
        for number in 0..200 {
            users.push(shared.join(user(&format!("user-{number}"))).await.unwrap());
        }
        assert_eq!(coordinator.watches.load(Ordering::SeqCst), 1);

        coordinator.says(change("1", Some("user-7")));
        coordinator.says(change("2", None));
        users[7].changed().await.unwrap();
        assert_eq!(&**users[7].borrow_and_update(), "1");
        // What nobody but readers of everything may see comes after it, and ends what the test waits for.
        everything.wait_for(|last| &**last == "2").await.unwrap();
        for (number, last) in users.iter().enumerate() {
            assert!(!last.has_changed().unwrap(), "{number}");
            let expected = if number == 7 { "1" } else { "begin-0" };
            assert_eq!(&**last.borrow(), expected, "{number}");
        }
    }

    #[tokio::test]
    async fn whoever_comes_back_sees_by_its_token_whether_it_has_missed_something() {
        let coordinator = Coordinator::default();
        let shared = coordinator.shared();
        let mut everything = shared.join(Sight::Everything).await.unwrap();
        let stays = shared.join(user("eve")).await.unwrap();
        let before = Arc::clone(&stays.borrow());
        coordinator.says(change("1", Some("alice")));
        everything.changed().await.unwrap();
        assert_eq!(*shared.join(user("eve")).await.unwrap().borrow(), before, "nothing of hers");
        coordinator.says(change("2", Some("eve")));
        everything.wait_for(|last| &**last == "2").await.unwrap();
        assert_ne!(*shared.join(user("eve")).await.unwrap().borrow(), before);
        // Nobody of alice's rights was there when she changed something: the position differs from all that she can have.
        assert_eq!(&**shared.join(user("alice")).await.unwrap().borrow(), "2");
    }

    #[tokio::test]
    async fn a_watch_that_ends_takes_its_readers_along_and_the_next_one_begins_anew() {
        let coordinator = Coordinator::default();
        let shared = coordinator.shared();
        let mut last = shared.join(user("eve")).await.unwrap();
        let first = Arc::clone(&last.borrow());
        *coordinator.marks.lock().unwrap() = None;
        assert!(last.changed().await.is_err());
        let mut last = shared.join(user("eve")).await.unwrap();
        assert_ne!(*last.borrow(), first, "a token from before is no present one");
        assert_eq!(coordinator.watches.load(Ordering::SeqCst), 2);

        // Without readers it ends at the next sign of life.
        coordinator.says(progress("5"));
        coordinator.says(change("6", Some("eve")));
        last.changed().await.unwrap();
        drop(last);
        coordinator.says(progress("7"));
        let marks = coordinator.marks.lock().unwrap().clone().unwrap();
        marks.closed().await;
        shared.join(user("eve")).await.unwrap();
        assert_eq!(coordinator.watches.load(Ordering::SeqCst), 3);
    }

    #[test]
    fn many_open_pages_wait_longer_and_read_no_more_often_together() {
        assert_eq!([0, 1, 40].map(pause), [limits::WEB_READ_PAUSE; 3]);
        assert_eq!(pause(200), Span::from_secs(5));
        let shared = Coordinator::default().shared();
        let pages: Vec<_> = (0..80).map(|_| shared.open_page()).collect();
        assert_eq!(pages[0].pause(), Span::from_secs(2));
        drop(pages);
        assert_eq!(shared.open_page().pause(), Span::from_secs(1));
    }

    #[tokio::test]
    async fn a_refusal_of_the_coordinator_is_the_readers() {
        let source: ChangeSource =
            Arc::new(|| Box::pin(async { Err(Status::unavailable("stopping")) }));
        let refused = SharedChanges::new(source).join(Sight::Everything).await.unwrap_err();
        assert_eq!(refused.message(), "stopping");
    }
}
