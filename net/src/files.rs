//! The number of files that this process may have open. Every connection is one.

use coalloc_common::limits;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// The number of files that this process may have open; `None` is without bound.
#[must_use]
pub fn allowed() -> Option<u64> {
    getrlimit(Resource::Nofile).current
}

/// Allows this process [`limits::FILES_WANTED`] open files, or as many as the system permits. Logs a warning
/// when that is few.
pub fn allow() {
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    let wanted = maximum.map_or(limits::FILES_WANTED, |most| most.min(limits::FILES_WANTED));
    if current.is_some_and(|now| now < wanted) {
        let raised = Rlimit { current: Some(wanted), maximum };
        if let Err(error) = setrlimit(Resource::Nofile, raised) {
            tracing::warn!(%error, wanted, "the limit on open files could not be raised");
        }
    }
    let needed = (limits::CONNECTIONS_MAX + limits::FILES_BESIDE_CONNECTIONS) as u64;
    if let Some(allowed) = allowed().filter(|allowed| *allowed < needed) {
        tracing::warn!(
            allowed,
            needed,
            "few open files are allowed, so fewer connections than usual are accepted; raise the \
             limit (ulimit -n)"
        );
    }
}
