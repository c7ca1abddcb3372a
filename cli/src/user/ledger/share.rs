//! `coalloc ledger share`.

use std::path::Path;

use coalloc_common::limits;
use coalloc_ledger::shared::{EtcdStore, share};
use coalloc_net::daemon::{DaemonSettings, at_line, daemon_settings};
use coalloc_proto::file::{Document, FileError, read};
use coalloc_proto::v1;

use super::{ShareArgs, failure};
use crate::kit::exit::{Answer, Failure};
use crate::kit::text;

/// Runs `coalloc ledger share`.
pub(super) fn run(args: &ShareArgs) -> Result<Answer, Failure> {
    let settings = settings(&args.config)?;
    let Some(shared) = settings.shared_ledger else {
        let text = format!("{}: it has no `daemon.shared_ledger`", args.config.display());
        return Err(Failure::bad_input(text));
    };
    let runtime = tokio::runtime::Runtime::new();
    let runtime = runtime.map_err(|error| Failure::internal(error.to_string()))?;
    let etcd = {
        let _in = runtime.enter();
        shared.etcd()
    };
    let patience = limits::APPEND_PATIENCE.to_std();
    let store = EtcdStore::new(etcd, runtime.handle().clone(), patience);
    let prefix = &shared.membership.prefix;
    let ledger = share(store, prefix, &settings.ledger).map_err(|error| failure(&error))?;
    let (node, records) = (&ledger.about.node, ledger.tip.sequence);
    let records = text::count(usize::try_from(records).unwrap_or(usize::MAX), "record");
    Ok(Answer::done(format!(
        "the ledger of {} {} is shared at {prefix} from now on; it goes on after {records}. Give every other member a copy of {} \
         (`coalloc ledger backup`)\n",
        node.kind,
        node.name,
        settings.ledger.display(),
    )))
}

/// The settings of a daemon of any kind.
fn settings(path: &Path) -> Result<DaemonSettings, Failure> {
    if let Ok(document) = read::<v1::NrmFile>(path) {
        return Ok(checked(&document, document.message.daemon.as_ref())?);
    }
    if let Ok(document) = read::<v1::CrmFile>(path) {
        return Ok(checked(&document, document.message.daemon.as_ref())?);
    }
    let document = read::<v1::GrcFile>(path)?;
    Ok(checked(&document, document.message.daemon.as_ref())?)
}

fn checked<M>(
    document: &Document<M>,
    daemon: Option<&v1::Daemon>,
) -> Result<DaemonSettings, FileError> {
    daemon_settings(daemon, document.folder()).map_err(|error| at_line(document, &error))
}
