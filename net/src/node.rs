//! A core at work in a daemon: its ledger opened and replayed, its owner running, and the handle by
//! which RPC handlers post to it, wait for its answers, and look at it.

use std::path::Path;

use coalloc_ledger::owner::{Owner, OwnerThread, PostError};
use coalloc_ledger::sqlite::{Identity, SqliteLedger};
use coalloc_protocol::Core;
use coalloc_protocol::message::Token;
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::sync::oneshot;
use tonic::Status;

use crate::daemon::{DaemonError, die};
use crate::waiters::Waiters;
use crate::{clock, status};

/// Opens a node's ledger, or makes a new one, and replays it into the core.
///
/// # Errors
/// [`DaemonError::Ledger`] with one sentence that names the file, and what an operator can do.
pub fn open_ledger<C: Core>(
    path: &Path,
    kind: &str,
    name: &str,
    core: &mut C,
) -> Result<SqliteLedger<C::Record>, DaemonError>
where
    C::Record: Serialize + DeserializeOwned,
{
    let identity = Identity { kind: kind.to_owned(), name: name.to_owned() };
    let new_id = || uuid::Uuid::new_v4().simple().to_string();
    SqliteLedger::open(path, &identity, new_id, |_, record| core.apply(&record))
        .map_err(|error| DaemonError::Ledger(coalloc_ledger::error::chain_text(&error)))
}

/// A running core; `A` is what it answers its callers.
#[derive(Debug)]
pub struct Node<C: Core, A> {
    /// For the handlers.
    pub handle: Handle<C, A>,
    thread: OwnerThread,
}

impl<C, A> Node<C, A>
where
    C: Core + Send + 'static,
    C::Input: Send,
    C::Record: Serialize + DeserializeOwned + Send,
    A: Send + 'static,
{
    /// Starts the owner of a core and its ledger. `on_effect` runs on the owner's thread and must not
    /// wait; it completes callers through the waiters it is given. When the ledger or the state can no
    /// longer be trusted, the process ends.
    ///
    /// # Errors
    /// When the system gives no thread.
    pub fn start(
        name: &str,
        core: C,
        ledger: SqliteLedger<C::Record>,
        mut on_effect: impl FnMut(C::Effect, &Waiters<A>) + Send + 'static,
    ) -> Result<Self, DaemonError> {
        let waiters = Waiters::default();
        let completed = waiters.clone();
        let (owner, thread) = coalloc_ledger::owner::spawn(
            name,
            core,
            ledger,
            clock::now,
            move |effect| on_effect(effect, &completed),
            |reason: String| die(&reason),
        )?;
        Ok(Self { handle: Handle { owner, waiters }, thread })
    }

    /// Lets the owner finish what was posted, ends it, and lets go whoever still waits.
    pub async fn stop(self) {
        self.handle.owner.stop();
        let thread = self.thread;
        // The owner's last batch takes one fsync.
        let _ = tokio::task::spawn_blocking(move || thread.join()).await;
        self.handle.waiters.close();
    }
}

/// The way of RPC handlers, and of a shell's own tasks, to a running core.
#[derive(Debug)]
pub struct Handle<C: Core, A> {
    owner: Owner<C>,
    waiters: Waiters<A>,
}

// By hand: a derive would ask for `C: Clone`.
impl<C: Core, A> Clone for Handle<C, A> {
    fn clone(&self) -> Self {
        Self { owner: self.owner.clone(), waiters: self.waiters.clone() }
    }
}

impl<C: Core, A> Handle<C, A> {
    /// Posts an input that nobody waits for. False when it was not taken: the core then knows nothing
    /// of it, and whoever posted relies on the core's own alarms.
    pub fn tell(&self, input: C::Input) -> bool {
        let taken = self.owner.post(input);
        if let Err(error) = taken {
            tracing::warn!(%error, "an input was not taken");
        }
        taken.is_ok()
    }

    /// Was the node told to stop? Then nothing that is posted is taken any more.
    #[must_use]
    pub fn is_stopping(&self) -> bool {
        self.owner.is_stopping()
    }

    /// Posts an input made for a token; its answer comes through the receiver.
    ///
    /// # Errors
    /// RESOURCE_EXHAUSTED when too much waits already, UNAVAILABLE when the node is stopping.
    pub fn post(
        &self,
        input: impl FnOnce(Token) -> C::Input,
    ) -> Result<oneshot::Receiver<A>, Status> {
        let (token, answer) = self.waiters.register();
        if let Err(error) = self.owner.post(input(Token(token))) {
            self.waiters.forget(token);
            return Err(post_status(error));
        }
        Ok(answer)
    }

    /// Posts an input made for a token, and waits for its answer.
    ///
    /// # Errors
    /// As [`Handle::post`].
    pub async fn call(&self, input: impl FnOnce(Token) -> C::Input) -> Result<A, Status> {
        self.post(input)?.await.map_err(|_| status::stopping())
    }

    /// Looks at the core, at a moment when all it shows is durable.
    ///
    /// # Errors
    /// As [`Handle::post`].
    pub async fn read<T: Send + 'static>(
        &self,
        look: impl FnOnce(&C) -> T + Send + 'static,
    ) -> Result<T, Status> {
        let (sender, seen) = oneshot::channel();
        let look = move |core: &C| {
            // The caller may be gone.
            let _ = sender.send(look(core));
        };
        self.owner.read(look).map_err(post_status)?;
        seen.await.map_err(|_| status::stopping())
    }
}

fn post_status(error: PostError) -> Status {
    match error {
        PostError::Busy => status::busy(),
        PostError::Stopped => status::stopping(),
    }
}
