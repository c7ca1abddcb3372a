//! Subscribers of profiles through crashes: within the epoch of a ledger, revisions only rise, and changes
//! continue from what the subscriber has (I13).
//!
//! A ledger that nobody has restored stays in its epoch, whatever dies.
//!
//! `tests/updates` and the worlds of `sim/` compare what a subscriber then believes with the truth.

use std::time::Duration;

use coalloc_proto::v1;
use tonic::Status;

use crate::federation::{GRC, RMS};
use crate::identities::{Party, Protection};
use crate::trace::Trace;

/// Pause between two attempts.
const PAUSE: Duration = Duration::from_millis(400);
/// A stream that is silent this long is broken: a resource manager sends something each second.
const SILENCE: Duration = Duration::from_secs(5);

/// An epoch and a revision in it.
type Point = (u64, u64);

/// What a subscriber has received.
#[derive(Debug, Default)]
struct Had {
    /// The last complete picture, from which the subscriber can continue.
    picture: Option<Point>,
    /// The last update, which may belong to a picture that is not complete yet.
    told: Option<Point>,
}

/// Follows every resource manager, for as long as the run lasts.
pub(crate) fn follow_all(protection: &Protection, trace: &Trace) {
    for name in RMS {
        let (protection, trace) = (protection.clone(), trace.clone());
        tokio::spawn(async move {
            let mut had = Had::default();
            loop {
                let broken = follow(&protection, name, &mut had, &trace).await.err();
                let text = broken.map(|status| format!("{:?}", status.code()));
                trace.add("watch", format_args!("profiles of {name} ended: {text:?}"));
                tokio::time::sleep(PAUSE).await;
            }
        });
    }
}

/// Follows one stream until it breaks.
async fn follow(
    protection: &Protection,
    name: &'static str,
    had: &mut Had,
    trace: &Trace,
) -> Result<(), Status> {
    let (epoch, revision) = had.picture.unwrap_or_default();
    let request =
        v1::WatchProfilesRequest { coordinator: GRC.to_owned(), epoch, revision, policy: None };
    // The client must be kept: see `watching`.
    let mut client = protection.manager(Party::Coordinator, name);
    let mut stream = client.watch_profiles(request).await?.into_inner();
    loop {
        let message = tokio::time::timeout(SILENCE, stream.message()).await;
        let silent = |_| Status::deadline_exceeded("it says nothing");
        let Some(message) = message.map_err(silent)?? else { return Ok(()) };
        let Some(update) = message.update else {
            trace.accuse(format!("I13: {name} sends a profile without an update"));
            return Ok(());
        };
        if let Err(what) = take(had, &update) {
            trace.accuse(format!("I13: {name}: {what}"));
        }
        let how = match update.kind() {
            v1::ProfileUpdateKind::Snapshot => "begins anew at",
            _ => "goes on from",
        };
        if !update.parts.is_empty() {
            let revision = update.revision;
            trace.add("watch", format_args!("{name} {how} revision {revision}"));
        }
    }
}

/// Accepts an update if it may come now.
fn take(had: &mut Had, update: &v1::ProfileUpdate) -> Result<(), String> {
    let new = (update.epoch, update.revision);
    if let Some((epoch, revision)) = had.told {
        if epoch != update.epoch {
            return Err(format!("its epoch was {epoch}, now {}", update.epoch));
        }
        if update.revision < revision {
            return Err(format!("it is at revision {} after {revision}", update.revision));
        }
    }
    match update.kind() {
        v1::ProfileUpdateKind::Snapshot => had.picture = Some(new).filter(|_| !update.more),
        v1::ProfileUpdateKind::Delta if had.picture == Some((update.epoch, update.from)) => {
            had.picture = Some(new);
        }
        v1::ProfileUpdateKind::Delta => {
            return Err(format!("what changed after {} is told to {had:?}", update.from));
        }
        v1::ProfileUpdateKind::Facts => return Ok(()),
        v1::ProfileUpdateKind::Unspecified => return Err("it says nothing of its kind".to_owned()),
    }
    had.told = Some(new);
    Ok(())
}
