//! A node whose ledger is shared in etcd: it stands by until it leads, and then runs as any other node does.
//!
//! ```text
//!   standby:  look ── follow the log into copy and core ── does somebody lead? ── yes: wait, look again
//!               ^                                              │ no: try to take the leader's key
//!               └──────────────── somebody else has it ────────┤
//!   leader:   follow the log to its end ── record the election ── start as after a restart
//! ```
//!
//! From the moment at which it has the leader's key, no append of an earlier leader lands any more. Meanwhile the process listens, and
//! answers every call with who leads. A leader that cannot append, or whose lease has ended, ends its process; whoever supervises
//! it starts it again, and it stands by.
//!
//! Left out: what a core does after its election (`protocol`), and the log itself ([`coalloc_ledger::shared`]). Source:
//! docs/adr/0049-etcd.md.

mod lease;
pub mod settings;

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use coalloc_common::{DiskSpace, limits};
use coalloc_ledger::shared::{EtcdStore, SharedLedger, SharedLogError};
use coalloc_ledger::{CoreFold, Identity, LedgerError, chain_text, snapshot_if_due};
use coalloc_protocol::{Log as _, Snapshot};
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::net::TcpListener;
use tokio::runtime::Handle as Runtime;
use tokio::sync::watch;
use tonic::service::Routes;

use self::lease::ProcessLease;
use self::settings::SharedLedgerSettings;
use crate::daemon::{DaemonError, DaemonSettings};
use crate::identity::settings::Access;
use crate::leadership::Leadership;
use crate::machine::Host;
use crate::metrics::records::Observed;
use crate::telemetry::Telemetry;
use crate::{metrics, server, status};

/// A process that has won the leader's key.
#[derive(Debug)]
pub struct Elected<C: Snapshot> {
    /// The core, with every record of the log.
    pub core: C,
    /// The ledger. Only this process appends to it.
    pub ledger: SharedLedger<C::Record, EtcdStore>,
    /// What it was elected to.
    pub election: Election,
}

/// The office of a leader.
#[derive(Debug, Clone)]
pub struct Election {
    /// The number of the election: no later leader has a lower one in the same etcd cluster.
    pub number: u64,
    /// The name of the member.
    pub member: String,
    lease: ProcessLease,
}

impl Election {
    /// Whether this process may answer.
    #[must_use]
    pub fn leadership(&self) -> Leadership {
        let lease = self.lease.clone();
        Leadership::leading(move || match lease.is_certain() {
            true => Ok(()),
            false => Err(status::lease_uncertain()),
        })
    }

    /// Gives the office back, so that another process leads at once. Call this when nothing is appended any more.
    pub async fn resign(&self) {
        self.lease.end().await;
    }
}

/// A standby: which node it is, and what it has to serve with.
#[derive(Debug)]
pub struct Standby<'a> {
    /// How the ledger is shared.
    pub settings: &'a SharedLedgerSettings,
    /// The daemon's other settings. Its ledger's file is this member's copy.
    pub daemon: &'a DaemonSettings,
    /// The node.
    pub node: Identity,
    /// The machine.
    pub host: &'a Host,
    /// Who may connect.
    pub access: Access,
    /// The services that the node has when it leads.
    pub services: &'a [&'a str],
}

impl Standby<'_> {
    /// Stands by until this process leads, or is stopped: then `None`.
    ///
    /// # Errors
    /// When the copy or the log cannot be used, or the transport fails.
    pub async fn wait<C>(
        self,
        listener: &TcpListener,
        core: C,
        stop: &mut (impl Future<Output = ()> + Unpin),
    ) -> Result<Option<Elected<C>>, DaemonError>
    where
        C: Snapshot + Send + 'static,
        C::Record: Serialize + DeserializeOwned + Observed + Send + 'static,
    {
        let etcd = self.settings.etcd();
        let lease = ProcessLease::keep(etcd.clone(), self.host)?;
        let (tell, leader) = watch::channel(None);
        let own_lease = lease.clone();
        let stopping = Arc::new(AtomicBool::new(false));
        let kind = self.node.kind.clone();
        // Traces are of calls that are carried out.
        let daemon = DaemonSettings { traces_endpoint: None, ..self.daemon.clone() };
        let telemetry = Telemetry::start(&daemon, &kind, &self.node.name, Vec::new()).await?;
        metrics::ledger().leads.with([kind.as_str()]).set(0);
        let follower = Follower {
            store: EtcdStore::new(etcd, Runtime::current(), limits::APPEND_PATIENCE.to_std()),
            settings: self.settings.clone(),
            path: daemon.ledger,
            node: self.node,
            lease,
            tell,
            stopping: Arc::clone(&stopping),
        };
        let mut follower = tokio::task::spawn_blocking(move || follower.follow_and_lead(core));
        let (members, known) = (self.settings.addresses.clone(), leader.clone());
        let standby = Leadership::standby(move || {
            let leader: Option<String> = known.borrow().clone();
            let address = leader.as_ref().and_then(|leader| members.get(leader));
            status::standby(leader.as_deref().zip(address.map(String::as_str)))
        });
        let listener = again(listener)?;
        let access = self.access.with_leadership(standby);
        let (_room, room) = watch::channel(DiskSpace::Enough);
        let mut end = None;
        let ended = async {
            end = tokio::select! {
                ended = &mut follower => Some(ended),
                () = stop => {
                    // From here on it does not try to lead any more.
                    stopping.store(true, Ordering::Release);
                    None
                }
            };
        };
        server::serve(listener, access, Routes::default(), self.services, room, ended).await?;
        telemetry.stop().await;
        let failed = |error: LedgerError| DaemonError::Ledger(chain_text(&error));
        let Some(ended) = end else {
            // It may have been elected a moment before: with its lease it gives back the leader's key.
            let ended = follower.await.map_err(std::io::Error::other)?.map_err(failed);
            own_lease.end().await;
            return ended.map(|_| None);
        };
        let elected = ended.map_err(std::io::Error::other)?.map_err(failed)?;
        if let Some(elected) = &elected {
            let Election { number, member, .. } = &elected.election;
            tracing::info!(election = number, member, "this process leads");
        }
        Ok(elected)
    }
}

/// The same listener once more: connections wait in its queue while none of the two accepts them.
fn again(listener: &TcpListener) -> Result<TcpListener, DaemonError> {
    use std::os::fd::AsFd as _;
    let listener = std::net::TcpListener::from(listener.as_fd().try_clone_to_owned()?);
    Ok(TcpListener::from_std(listener)?)
}

/// What reads the log, on a thread of its own.
struct Follower {
    store: EtcdStore,
    settings: SharedLedgerSettings,
    path: PathBuf,
    node: Identity,
    lease: ProcessLease,
    tell: watch::Sender<Option<String>>,
    stopping: Arc<AtomicBool>,
}

impl Follower {
    /// Tells callers from now on who leads.
    fn tell_leader(&self, leader: Option<String>) {
        let name = leader.and_then(|text| text.split(' ').next().map(str::to_owned));
        self.tell.send_if_modified(|known| {
            let is_new = *known != name;
            if is_new {
                tracing::info!(leader = name.as_deref().unwrap_or("nobody"), "standing by");
                *known = name;
            }
            is_new
        });
    }

    fn follow_and_lead<C>(self, mut core: C) -> Result<Option<Elected<C>>, LedgerError>
    where
        C: Snapshot,
        C::Record: Serialize + DeserializeOwned + Observed,
    {
        let membership = self.settings.membership.clone();
        let member = membership.member.clone();
        // Another one for every process, so that nobody takes the key of an earlier process for its own.
        let process = format!("{member} {}", uuid::Uuid::new_v4().simple());
        let noticed = |_, record: &C::Record| record.count();
        let mut fold = CoreFold { core: &mut core, noticed };
        let mut ledger =
            SharedLedger::open(self.store.clone(), membership, &self.path, &self.node, &mut fold)?;
        let mut is_silent = false;
        let epoch = loop {
            if self.stopping.load(Ordering::Acquire) {
                return Ok(None);
            }
            // A look costs two reads of etcd. While it is taken, whoever leads appends more.
            let mut pause = limits::STANDBY_PAUSE.to_std();
            match look(&mut ledger, &mut core, &process, &self.lease) {
                Ok(LookOutcome::Leads(epoch)) => break epoch,
                Ok(LookOutcome::StandsBy { leader, has_read }) => {
                    is_silent = false;
                    self.tell_leader(leader);
                    if has_read {
                        pause = Duration::ZERO;
                    }
                }
                // Nothing has changed, so it is asked again for as long as it takes.
                Err(LedgerError::Shared(error @ SharedLogError::Unknown { .. })) => {
                    if !std::mem::replace(&mut is_silent, true) {
                        tracing::warn!(error = chain_text(&error), "etcd does not answer");
                    }
                }
                Err(error) => return Err(error),
            }
            std::thread::sleep(pause);
        };
        // The end of the lease ends the process from here on: etcd has given the key to this very process.
        self.lease.bind_process(ledger.pulse());
        while read_next(&mut ledger, &mut core)? {}
        ledger.raise_format()?;
        let number = u64::try_from(epoch).unwrap_or_default();
        let election = Election { number, member, lease: self.lease };
        Ok(Some(Elected { core, ledger, election }))
    }
}

/// How one look at the log ended.
enum LookOutcome {
    /// This process leads, in this epoch.
    Leads(i64),
    /// It does not.
    StandsBy {
        /// Who does, as its process has said of itself.
        leader: Option<String>,
        /// Whether there were new records. Then there may be more.
        has_read: bool,
    },
}

/// Reads the next records of the log, and tries to lead if there are none and nobody leads.
fn look<C>(
    ledger: &mut SharedLedger<C::Record, EtcdStore>,
    core: &mut C,
    process: &str,
    lease: &ProcessLease,
) -> Result<LookOutcome, LedgerError>
where
    C: Snapshot,
    C::Record: Serialize + DeserializeOwned + Observed,
{
    let has_read = read_next(ledger, core)?;
    let leader = ledger.leader()?;
    // The key may be our own: etcd may have given it to us although the answer was lost.
    let is_free = leader.as_ref().is_none_or(|leader| leader == process);
    let Some(lease) = lease.id().filter(|_| is_free && !has_read) else {
        return Ok(LookOutcome::StandsBy { leader, has_read });
    };
    let leads = ledger.lead(process, lease)?;
    Ok(match ledger.epoch().filter(|_| leads) {
        Some(epoch) => LookOutcome::Leads(epoch),
        None => LookOutcome::StandsBy { leader: None, has_read },
    })
}

/// Reads the next records of the log into copy and core. Returns whether there were any.
fn read_next<C>(
    ledger: &mut SharedLedger<C::Record, EtcdStore>,
    core: &mut C,
) -> Result<bool, LedgerError>
where
    C: Snapshot,
    C::Record: Serialize + DeserializeOwned + Observed,
{
    let noticed = |_, record: &C::Record| record.count();
    let read = ledger.follow(&mut CoreFold { core: &mut *core, noticed })?;
    let room = ledger.room()?;
    snapshot_if_due(core, ledger, room)?;
    Ok(read > 0)
}
