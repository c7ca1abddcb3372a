//! Streams of state changes that can be resumed: everything that has become durable, in order.
//!
//! The ledger is the log of events. Each watch has a cursor into the ledger, a reader of its own and a small
//! bounded channel; there is no queue that a slow client could fill. The owner of the core announces the last
//! durable record ([`AnnouncingLog`]), which wakes every watch. Each watch then reads on from its cursor:
//!
//! ```text
//!   owner: append, fsync ──announces 1042──┐
//!                                          v
//!   watch: cursor 1007 ── read 1008..1042 from the ledger (blocking pool, short transactions)
//!              ^          ask the core what the records do not say (immutable facts only)
//!              │          send, waiting as long as the client's flow control says
//!              └───────── cursor 1042; nothing more: wait for the next announcement
//! ```
//!
//! So nothing is sent that a crash could undo, nothing is lost or sent twice, and a client that reads nothing
//! delays only its own stream.
//!
//! A resume token is `<ledger id>:<sequence>:<16 digits>`. The digits are the beginning of the hash of that
//! record in the ledger's chain, which stands for all records before it. A token of another ledger is
//! recognised. So is a token of the same ledger when an older copy of it was put back, even after that copy
//! has grown past the token (F11).
//!
//! The number of watches is limited, and the places are shared fairly between callers ([`places`]).
//!
//! Left out: old texts (the text of an old event is made by today's program), and permissions: who may watch what is
//! judged before a watch begins ([`crate::authorization`]).

mod places;

use std::pin::Pin;
use std::sync::Arc;

use coalloc_common::{DiskSpace, InvalidField, limits};
use coalloc_ledger::tip::Tip as LedgerTip;
use coalloc_ledger::{Entry, Ledger, LedgerError, ReadRecords, chain_text};
use coalloc_protocol::{CausedRecord, ChangedPart, Core, Log};
use serde::Serialize;
use tokio::sync::{mpsc, watch};
use tokio::time::{Instant, sleep_until};
use tokio_stream::wrappers::ReceiverStream;
use tokio_stream::{Stream, StreamExt as _};
use tonic::{Code, Status};

use self::places::{WatchPlace, WatchPlaces};
use crate::authorization::{Caller, CallerKey};
use crate::latest::LatestValue;
use crate::machine::{self, Host};
use crate::node::Handle;
use crate::status;

/// The stream that a client gets. It always ends with a status.
pub type Watch<M> = Pin<Box<dyn Stream<Item = Result<M, Status>> + Send>>;

/// How the records of a core become events.
pub trait Events<C: Core>: Send + Sync + 'static {
    /// A message of the stream.
    type Message: Send + 'static;
    /// What an event needs and its record does not say. Only facts that never change once the record is
    /// applied: an event must be the same whenever it is sent.
    type Facts: Default + Send + 'static;

    /// Whether an event needs more than this record says.
    fn needs_facts(record: &C::Record) -> bool;

    /// Looks the facts up. Runs on the owner's thread, so it copies only what it needs. The core has applied
    /// at least these records.
    fn facts(records: &[Entry<C::Record>], core: &C) -> Self::Facts;

    /// The event of a record; `None` if the client does not want it. `token` makes the token that resumes
    /// after it.
    fn event(
        &self,
        entry: &Entry<C::Record>,
        facts: &Self::Facts,
        token: &dyn Fn() -> String,
    ) -> Option<Self::Message>;

    /// The message which says that everything up to a token has been sent.
    fn progress(&self, token: String) -> Self::Message;
}

/// A log that announces what has become durable.
#[derive(Debug)]
pub struct AnnouncingLog<L> {
    log: L,
    announce: DurableMark,
}

/// Tells watches up to which record the ledger is durable.
#[derive(Debug)]
pub struct DurableMark(LatestValue<u64>);

impl Drop for DurableMark {
    fn drop(&mut self) {
        self.0.close();
    }
}

impl DurableMark {
    /// Wraps a log, so that every append to it is announced.
    pub const fn around<L>(self, log: L) -> AnnouncingLog<L> {
        AnnouncingLog { log, announce: self }
    }
}

impl<L: Log> Log for AnnouncingLog<L> {
    type Record = L::Record;
    type Error = L::Error;

    fn append_caused(&mut self, records: &[CausedRecord<'_, L::Record>]) -> Result<(), L::Error> {
        self.log.append_caused(records)?;
        self.announce.0.update(|last| *last += records.len() as u64);
        Ok(())
    }

    fn snapshot_is_due(&self, changed: usize) -> bool {
        self.log.snapshot_is_due(changed)
    }

    fn write_snapshot<P: Serialize>(&mut self, changed: &[ChangedPart<P>]) -> Result<(), L::Error> {
        self.log.write_snapshot(changed)
    }

    fn room(&mut self) -> Result<DiskSpace, L::Error> {
        self.log.room()
    }
}

/// Reads records of one ledger.
type Reader<R> = Box<dyn ReadRecords<Record = R> + Send>;
/// Opens readers of one ledger.
type Readers<R> = dyn Fn() -> Result<Reader<R>, LedgerError> + Send + Sync;

/// Makes the watches of one ledger.
pub struct Feed<R> {
    readers: Arc<Readers<R>>,
    ledger_id: Arc<str>,
    durable: LatestValue<u64>,
    end: watch::Sender<bool>,
    places: WatchPlaces,
    /// The places of watches by which the daemon itself follows its ledger.
    own_places: WatchPlaces,
}

// Not derived: a derive would ask for `R: Clone`.
impl<R> Clone for Feed<R> {
    fn clone(&self) -> Self {
        Self {
            readers: Arc::clone(&self.readers),
            ledger_id: Arc::clone(&self.ledger_id),
            durable: self.durable.clone(),
            end: self.end.clone(),
            places: self.places.clone(),
            own_places: self.own_places.clone(),
        }
    }
}

impl<R> std::fmt::Debug for Feed<R> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Feed").field("ledger_id", &self.ledger_id).finish_non_exhaustive()
    }
}

/// The position of a watch in the ledger.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Cursor {
    sequence: u64,
    hash: [u8; 32],
}

impl Cursor {
    fn token(&self, ledger_id: &str) -> String {
        format!("{ledger_id}:{}:{}", self.sequence, mark(&self.hash))
    }
}

/// The part of a hash that goes into a token.
fn mark(hash: &[u8; 32]) -> String {
    hash.iter().take(8).map(|byte| format!("{byte:02x}")).collect()
}

/// Where a client wants a watch to begin.
#[derive(Debug, Clone, PartialEq, Eq)]
enum WatchStart {
    Now,
    Start,
    After { ledger: String, sequence: u64, mark: String },
}

impl WatchStart {
    fn parse(token: &str) -> Result<Self, InvalidField> {
        let bad = || {
            let allowed = "nothing (from now on), \"0\" (from the beginning), or the resume token of \
                           an event, like 4f1c...:1042:9b3d...";
            InvalidField::new("resume_token", InvalidField::quoted(token), allowed)
        };
        let hex = |text: &str, digits: usize| {
            text.len() == digits && text.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'))
        };
        match token {
            "" => return Ok(Self::Now),
            "0" => return Ok(Self::Start),
            _ => {}
        }
        let mut parts = token.split(':');
        let (Some(ledger), Some(sequence), Some(mark), None) =
            (parts.next(), parts.next(), parts.next(), parts.next())
        else {
            return Err(bad());
        };
        let digits = !sequence.is_empty() && sequence.bytes().all(|byte| byte.is_ascii_digit());
        if !hex(ledger, 32) || !digits || !hex(mark, 16) {
            return Err(bad());
        }
        let sequence = sequence.parse().map_err(|_| bad())?;
        Ok(Self::After { ledger: ledger.to_owned(), sequence, mark: mark.to_owned() })
    }
}

/// Checks whether a text is a resume token, or another text by which a watch may begin.
///
/// # Errors
/// [`InvalidField`] saying what is allowed.
pub fn check_token(token: &str) -> Result<(), InvalidField> {
    WatchStart::parse(token).map(drop)
}

impl<R: 'static> Feed<R> {
    /// The feed of a ledger, and the mark to which the ledger's appends have to be announced from now on.
    #[must_use]
    pub fn of<L: Ledger<Record = R>>(ledger: &L) -> (DurableMark, Self) {
        let durable = LatestValue::new(ledger.last_sequence());
        let readers = ledger.readers();
        let feed = Self {
            readers: Arc::new(move || Ok(Box::new(readers()?) as Reader<R>)),
            ledger_id: ledger.id().into(),
            durable: durable.clone(),
            end: watch::Sender::new(false),
            places: WatchPlaces::new(limits::WATCHERS_MAX),
            own_places: WatchPlaces::new(limits::OWN_WATCHES_MAX),
        };
        (DurableMark(durable), feed)
    }

    /// See [`Handle::tip`].
    pub(crate) async fn tip(&self, host: &Host) -> Result<LedgerTip, Status> {
        let readers = Arc::clone(&self.readers);
        let (ledger_id, sequence) = (self.ledger_id.to_string(), self.durable.get());
        blocking(host, move || {
            // The file may have records that nobody has announced yet; this one is durable.
            let hash = readers().and_then(|mut reader| reader.hash(sequence)).map_err(broken)?;
            let missing = || status::internal("the ledger lacks its last durable record");
            Ok(LedgerTip { ledger_id, sequence, hash: hash.ok_or_else(missing)? })
        })
        .await
    }

    /// Ends every watch, and refuses new ones.
    pub(crate) fn end(&self) {
        self.end.send_replace(true);
    }

    /// See [`Handle::follow`].
    pub(crate) fn follow(&self, caller: &Caller) -> Result<WatcherSlot, Status> {
        self.slot(&self.places, caller.key())
    }

    fn slot(&self, places: &WatchPlaces, caller: CallerKey) -> Result<WatcherSlot, Status> {
        let mut end = self.end.subscribe();
        if *end.borrow_and_update() {
            return Err(status::stopping());
        }
        let place = places.enter(caller)?;
        Ok(WatcherSlot { durable: self.durable.clone(), end, place })
    }

    /// See [`Handle::watch`].
    pub(crate) async fn watch<C, E>(
        &self,
        handle: Handle<C>,
        caller: &Caller,
        token: &str,
        events: E,
    ) -> Result<Watch<E::Message>, Status>
    where
        C: Core<Record = R> + Send + 'static,
        C::Input: Send,
        R: Send + Sync,
        E: Events<C>,
    {
        let begin = WatchStart::parse(token).map_err(|error| status::invalid(&error))?;
        self.watch_at(handle, self.follow(caller)?, begin, events).await
    }

    /// See [`Handle::watch_itself`].
    pub(crate) async fn watch_itself<C, E>(
        &self,
        handle: Handle<C>,
        events: E,
    ) -> Result<Watch<E::Message>, Status>
    where
        C: Core<Record = R> + Send + 'static,
        C::Input: Send,
        R: Send + Sync,
        E: Events<C>,
    {
        let slot = self.slot(&self.own_places, CallerKey::Itself)?;
        self.watch_at(handle, slot, WatchStart::Now, events).await
    }

    async fn watch_at<C, E>(
        &self,
        handle: Handle<C>,
        slot: WatcherSlot,
        begin: WatchStart,
        events: E,
    ) -> Result<Watch<E::Message>, Status>
    where
        C: Core<Record = R> + Send + 'static,
        C::Input: Send,
        R: Send + Sync,
        E: Events<C>,
    {
        let WatcherSlot { durable: _, end, place } = slot;
        let (readers, id) = (Arc::clone(&self.readers), self.ledger_id.to_string());
        let durable = self.durable.get();
        let (reader, cursor) = blocking(handle.host(), move || {
            let mut reader = readers().map_err(broken)?;
            let cursor = begin_at(&mut reader, &id, begin, durable)?;
            Ok((reader, cursor))
        })
        .await?;
        let (sender, receiver) = mpsc::channel(limits::WATCH_BUFFER);
        let last = place.last_status();
        let watcher = Watcher {
            handle,
            events: Arc::new(events),
            ledger_id: Arc::clone(&self.ledger_id),
            durable: self.durable.clone(),
            end,
            place,
            cursor,
            sender,
        };
        tokio::spawn(watcher.run(reader));
        Ok(ending_with(receiver, last))
    }
}

/// The stream of what a task sends, and at its end a status that is made then.
pub fn ending_with<M: Send + 'static>(
    receiver: mpsc::Receiver<Result<M, Status>>,
    last: impl FnOnce() -> Status + Send + 'static,
) -> Watch<M> {
    let last = tokio_stream::iter(std::iter::once_with(move || Err(last())));
    Box::pin(ReceiverStream::new(receiver).chain(last))
}

/// A place among the watchers, for a stream of something other than records, and what wakes that stream.
#[derive(Debug)]
pub struct WatcherSlot {
    durable: LatestValue<u64>,
    end: watch::Receiver<bool>,
    /// The place is given back when this is dropped.
    place: WatchPlace,
}

impl WatcherSlot {
    /// The sequence number of the last durable record.
    #[must_use]
    pub fn durable(&self) -> u64 {
        self.durable.get()
    }

    /// The last status of the stream, once it is over.
    pub fn last_status(&self) -> impl FnOnce() -> Status + Send + 'static {
        self.place.last_status()
    }

    /// Waits for a record after `seen`; false when the daemon stops, or when the place was given to another caller.
    pub async fn beyond(&mut self, seen: u64) -> bool {
        tokio::select! {
            biased;
            () = self.place.lost() => false,
            _ = self.end.changed() => false,
            more = self.durable.wait_for(|last| *last > seen) => more.is_some(),
        }
    }
}

/// Finds the position at which a client wants to begin.
fn begin_at<R>(
    reader: &mut Reader<R>,
    id: &str,
    begin: WatchStart,
    durable: u64,
) -> Result<Cursor, Status> {
    let (sequence, expected) = match begin {
        WatchStart::Now => (durable, None),
        WatchStart::Start => (0, None),
        WatchStart::After { ledger, .. } if ledger != id => {
            let text = format!(
                "the resume token is of ledger {ledger}, but this daemon has ledger {id}: it is \
                 another daemon, or its ledger was replaced, and events in between cannot be \
                 reported. List the current state, then watch without a token"
            );
            return Err(status::precondition("LEDGER", &ledger, text));
        }
        WatchStart::After { sequence, mark, .. } => (sequence, Some(mark)),
    };
    let archived = reader.begin().map_err(broken)?;
    if sequence < archived {
        return Err(no_longer_kept(id, archived));
    }
    let hash = if sequence > durable { None } else { reader.hash(sequence).map_err(broken)? };
    match hash {
        Some(hash) if expected.is_none_or(|expected| expected == mark(&hash)) => {
            Ok(Cursor { sequence, hash })
        }
        _ => {
            let text = format!(
                "the resume token is of a record {sequence} that ledger {id} does not have: an \
                 older copy was restored, which ends at record {durable} now. Events reported \
                 after that have not happened here. List the current state, then watch without a \
                 token"
            );
            Err(status::precondition("RECORD", &format!("{id}:{sequence}"), text))
        }
    }
}

/// The watcher has to begin anew: the records that it wants next are in archives, which no daemon reads.
fn no_longer_kept(id: &str, archived: u64) -> Status {
    let text = format!(
        "the events up to record {archived} of ledger {id} are archived and cannot be streamed any more. List the \
         current state, then watch without a token; `coalloc ledger dump` shows the archived records"
    );
    status::precondition("ARCHIVED", &format!("{id}:{archived}"), text)
}

/// A ledger that cannot be read ends only this call or watch. The owner finds out by itself if it has the same
/// trouble.
fn broken(error: coalloc_ledger::LedgerError) -> Status {
    let text = chain_text(&error);
    tracing::error!(text, "a call cannot read the ledger");
    Status::new(Code::DataLoss, text)
}

/// Reading waits for the disk, so it runs off the runtime's threads.
async fn blocking<T: Send + 'static>(
    host: &Host,
    work: impl FnOnce() -> Result<T, Status> + Send + 'static,
) -> Result<T, Status> {
    let done = machine::off_the_runtime(host, work).await;
    done.unwrap_or_else(|| Err(Status::internal("reading the ledger broke off")))
}

/// Why a watch is over.
enum WatchEnd {
    /// The client is gone, or the last status of the stream says it: the daemon stops, or the place is lost.
    Quietly,
    /// The client is sent this status.
    With(Status),
}

/// One running watch.
struct Watcher<C: Core, E: Events<C>> {
    handle: Handle<C>,
    events: Arc<E>,
    ledger_id: Arc<str>,
    durable: LatestValue<u64>,
    end: watch::Receiver<bool>,
    place: WatchPlace,
    cursor: Cursor,
    sender: mpsc::Sender<Result<E::Message, Status>>,
}

impl<C, E> Watcher<C, E>
where
    C: Core + Send + 'static,
    C::Input: Send,
    C::Record: Send + Sync + 'static,
    E: Events<C>,
{
    async fn run(mut self, reader: Reader<C::Record>) {
        if let Err(WatchEnd::With(status)) = self.follow(reader).await {
            // The client may be gone.
            let _ = self.sender.send(Err(status)).await;
        }
    }

    async fn follow(&mut self, mut reader: Reader<C::Record>) -> Result<(), WatchEnd> {
        // At once: the client then has a token, whatever happens before the first event.
        self.progress().await?;
        let mut told = Instant::now();
        let mut behind = self.cursor.sequence < self.durable.get();
        loop {
            let pause = Instant::now() + limits::WATCH_PAUSE.to_std() * self.place.of_caller();
            let last = self.durable.get();
            while self.cursor.sequence < last {
                let chunk;
                (reader, chunk) = self.read(reader, last).await?;
                if self.tell(chunk).await? {
                    told = Instant::now();
                }
                if told.elapsed() >= limits::WATCH_PROGRESS.to_std() {
                    self.progress().await?;
                    told = Instant::now();
                }
            }
            if std::mem::take(&mut behind) {
                // Everything from before the watch began has been sent; from here on the stream is live.
                self.progress().await?;
                told = Instant::now();
            }
            let quiet = told + limits::WATCH_PROGRESS.to_std();
            let seen = self.cursor.sequence;
            tokio::select! {
                biased;
                () = self.place.lost() => return Err(WatchEnd::Quietly),
                _ = self.end.changed() => return Err(WatchEnd::Quietly),
                () = self.sender.closed() => return Err(WatchEnd::Quietly),
                more = self.durable.wait_for(|last| *last > seen) => {
                    more.ok_or(WatchEnd::Quietly)?;
                    sleep_until(pause).await;
                }
                () = sleep_until(quiet) => {
                    self.progress().await?;
                    told = Instant::now();
                }
            }
        }
    }

    /// Reads the next records. The reader is returned with them.
    async fn read(
        &self,
        mut reader: Reader<C::Record>,
        last: u64,
    ) -> Result<(Reader<C::Record>, Vec<Entry<C::Record>>), WatchEnd> {
        let (cursor, id) = (self.cursor.sequence, Arc::clone(&self.ledger_id));
        let read = blocking(self.handle.host(), move || {
            let chunk = reader.read(cursor, last).map_err(|error| match error {
                LedgerError::Archived { archived, .. } => no_longer_kept(&id, archived),
                error => broken(error),
            })?;
            if chunk.is_empty() {
                let text = format!("record {} of the ledger is missing", cursor + 1);
                return Err(Status::data_loss(text));
            }
            Ok((reader, chunk))
        });
        read.await.map_err(WatchEnd::With)
    }

    /// Sends the events of a chunk and moves the cursor to its end. True if there were any events.
    async fn tell(&mut self, chunk: Vec<Entry<C::Record>>) -> Result<bool, WatchEnd> {
        let chunk = Arc::new(chunk);
        let facts = self.facts(&chunk).await?;
        let mut any = false;
        for entry in chunk.iter() {
            self.cursor = Cursor { sequence: entry.sequence, hash: entry.hash };
            let token = || self.cursor.token(&self.ledger_id);
            if let Some(event) = self.events.event(entry, &facts, &token) {
                self.send(event).await?;
                any = true;
            }
        }
        Ok(any)
    }

    async fn facts(&self, chunk: &Arc<Vec<Entry<C::Record>>>) -> Result<E::Facts, WatchEnd> {
        if !chunk.iter().any(|entry| E::needs_facts(&entry.record)) {
            return Ok(E::Facts::default());
        }
        loop {
            let records = Arc::clone(chunk);
            match self.handle.read(move |core| E::facts(&records, core)).await {
                Ok(facts) => return Ok(facts),
                // No fact may be left out because the owner is busy, so this tries again.
                Err(status) if status.code() == Code::ResourceExhausted => {
                    tokio::time::sleep(limits::BUSY_PAUSE.to_std()).await;
                }
                Err(_) => return Err(WatchEnd::Quietly),
            }
        }
    }

    async fn progress(&mut self) -> Result<(), WatchEnd> {
        let token = self.cursor.token(&self.ledger_id);
        let progress = self.events.progress(token);
        self.send(progress).await
    }

    /// Waits until the client has taken the message. Ends the watch when the client has taken nothing for too
    /// long, when another caller gets its place, or when the daemon stops.
    async fn send(&mut self, message: E::Message) -> Result<(), WatchEnd> {
        tokio::select! {
            biased;
            () = self.place.lost() => Err(WatchEnd::Quietly),
            sent = self.sender.send(Ok(message)) => sent.map_err(|_| WatchEnd::Quietly),
            _ = self.end.changed() => Err(WatchEnd::Quietly),
            () = tokio::time::sleep(limits::WATCH_STALL_MAX.to_std()) => Err(WatchEnd::Quietly),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ID: &str = "0123456789abcdef0123456789abcdef";

    #[test]
    fn a_token_goes_there_and_back() {
        let cursor = Cursor { sequence: 1_042, hash: [0xa0; 32] };
        let token = cursor.token(ID);
        assert_eq!(token, format!("{ID}:1042:a0a0a0a0a0a0a0a0"));
        let (ledger, mark) = (ID.to_owned(), "a0".repeat(8));
        assert_eq!(
            WatchStart::parse(&token),
            Ok(WatchStart::After { ledger, sequence: 1_042, mark })
        );
        assert_eq!(
            (WatchStart::parse(""), WatchStart::parse("0")),
            (Ok(WatchStart::Now), Ok(WatchStart::Start))
        );
    }

    #[test]
    fn what_is_no_token_is_said_with_what_is() {
        let mark = "a0".repeat(8);
        let cases = [
            "1".to_owned(),
            "start".to_owned(),
            format!("{ID}:1"),
            format!("{ID}:-1:{mark}"),
            format!("{ID}::{mark}"),
            format!("{ID}:99999999999999999999:{mark}"),
            format!("{ID}:1:{mark}:"),
            format!("{ID}:1:xyz"),
            format!("{}:1:{mark}", ID.to_uppercase()),
            format!("{}:1:{mark}", &ID[1..]),
        ];
        for token in cases {
            let error = WatchStart::parse(&token).unwrap_err();
            assert_eq!(error.field, "resume_token", "{token}");
            assert!(error.allowed.contains("from the beginning"), "{token}: {error}");
        }
    }
}
