//! `coalloc ledger share` and `unshare`.

use std::path::{Path, PathBuf};

use coalloc_common::limits;
use coalloc_ledger::Identity;
use coalloc_ledger::shared::{self, EtcdStore};
use coalloc_net::daemon::{DaemonSettings, at_line, daemon_settings};
use coalloc_net::shared_ledger::settings::SharedLedgerSettings;
use coalloc_proto::file::{Document, FileError, read};
use coalloc_proto::v1;
use tokio::runtime::Runtime;

use super::{ShareArgs, UnshareArgs, failure};
use crate::kit::exit::{Answer, Failure};
use crate::kit::text;

/// Runs `coalloc ledger share`.
pub(super) fn share(args: &ShareArgs) -> Result<Answer, Failure> {
    let daemon = DaemonFile::read(&args.config)?;
    let (store, prefix) = (daemon.store()?, &daemon.shared.membership.prefix);
    let new_id = || uuid::Uuid::new_v4().simple().to_string();
    let shared = shared::share(store, prefix, &daemon.ledger, &daemon.node, new_id);
    let (node, file) = (&daemon.node, daemon.ledger.display());
    Ok(Answer::done(match shared.map_err(|error| failure(&error))? {
        None => format!("a new ledger of {node} is shared at {prefix}: start its processes\n"),
        Some(ledger) => {
            let records = usize::try_from(ledger.tip.sequence).unwrap_or(usize::MAX);
            let records = text::count(records, "record");
            format!(
                "the ledger of {node} is shared at {prefix} from now on, after {records}. Give every other member a copy of {file} \
                 (`coalloc ledger backup`)\n"
            )
        }
    }))
}

/// Runs `coalloc ledger unshare`.
pub(super) fn unshare(args: &UnshareArgs) -> Result<Answer, Failure> {
    let daemon = DaemonFile::read(&args.config)?;
    let (store, prefix) = (daemon.store()?, &daemon.shared.membership.prefix);
    let ledger = shared::unshare(store, prefix, &daemon.ledger).map_err(|error| failure(&error))?;
    let records = usize::try_from(ledger.tip.sequence).unwrap_or(usize::MAX);
    let (node, records, file) =
        (&daemon.node, text::count(records, "record"), daemon.ledger.display());
    Ok(Answer::done(format!(
        "{file} is the ledger of {node} again, with {records}. Take `shared_ledger` out of its configuration, and never start the other \
         members with their copies\n"
    )))
}

/// What a daemon's configuration says of its ledger.
struct DaemonFile {
    node: Identity,
    ledger: PathBuf,
    shared: SharedLedgerSettings,
    runtime: Runtime,
}

impl DaemonFile {
    fn read(path: &Path) -> Result<Self, Failure> {
        let (node, settings) = settings(path)?;
        let Some(shared) = settings.shared_ledger else {
            let text = format!("{}: it has no `daemon.shared_ledger`", path.display());
            return Err(Failure::bad_input(text));
        };
        let runtime = Runtime::new().map_err(|error| Failure::internal(error.to_string()))?;
        Ok(Self { node, ledger: settings.ledger, shared, runtime })
    }

    fn store(&self) -> Result<EtcdStore, Failure> {
        let _in = self.runtime.enter();
        let (etcd, patience) = (self.shared.etcd(), limits::APPEND_PATIENCE.to_std());
        Ok(EtcdStore::new(etcd, self.runtime.handle().clone(), patience))
    }
}

/// The node of a configuration, and the settings that every daemon has.
fn settings(path: &Path) -> Result<(Identity, DaemonSettings), Failure> {
    let node = |kind: &str, name: &str| Identity { kind: kind.to_owned(), name: name.to_owned() };
    if let Ok(document) = read::<v1::NrmFile>(path) {
        let file = &document.message;
        let name = file.inventory.as_ref().map_or("", |inventory| &inventory.name);
        return Ok((node("nrm", name), checked(&document, file.daemon.as_ref())?));
    }
    if let Ok(document) = read::<v1::CrmFile>(path) {
        let file = &document.message;
        let name = file.inventory.as_ref().map_or("", |inventory| &inventory.name);
        return Ok((node("crm", name), checked(&document, file.daemon.as_ref())?));
    }
    let document = read::<v1::GrcFile>(path)?;
    let file = &document.message;
    Ok((node("grc", &file.name), checked(&document, file.daemon.as_ref())?))
}

fn checked<M>(
    document: &Document<M>,
    daemon: Option<&v1::Daemon>,
) -> Result<DaemonSettings, FileError> {
    daemon_settings(daemon, document.folder()).map_err(|error| at_line(document, &error))
}
