//! Follows one stream of updates from every RM for as long as the process runs. A stream resumes from what the picture
//! has, begins anew with a snapshot where that is not possible, and is reopened with growing backoff after it ended.

use std::sync::Arc;

use coalloc_common::{RmName, Span, limits};
use coalloc_proto::v1;
use tonic::Status;

use super::believed::why;
use super::store::{Pictures, UpdateOutcome};
use crate::availability::federation::RmClient;
use crate::config::tasks::Mode;

impl Pictures {
    /// Follows every configured RM, each in a task of its own, for as long as the runtime lives. Does nothing in mode
    /// central.
    pub fn watch(&self) {
        if self.settings().mode != Mode::Distributed {
            return;
        }
        for rm in self.0.federation.names() {
            tokio::spawn(follow(self.clone(), rm));
        }
        tokio::spawn(expect(self.clone()));
    }
}

/// Makes the picture expect the resources of each new snapshot of the federation.
async fn expect(pictures: Pictures) {
    let mut snapshot = pictures.0.federation.snapshot();
    loop {
        pictures.expect(&snapshot);
        snapshot = pictures.0.federation.after(&snapshot).await;
    }
}

/// How a stream ended.
enum End {
    /// An update in it cannot be merged: the next stream begins anew.
    Unusable,
    /// The stream broke, or was refused.
    Broken(Status),
}

async fn follow(pictures: Pictures, rm: RmName) {
    let (mut pause, mut anew) = (limits::PROFILES_RETRY, false);
    loop {
        let client = described(&pictures, &rm).await;
        let (end, heard) = stream(&pictures, &rm, client, anew).await;
        if heard {
            pause = limits::PROFILES_RETRY;
        }
        anew = matches!(end, End::Unusable);
        if let End::Broken(error) = &end {
            pictures.problem(&rm, why(error));
        }
        if !matches!(&end, End::Broken(error) if is_its_answer(error)) {
            // Another process may answer at this address now, with another inventory.
            pictures.0.federation.doubt(&rm, "its stream of profiles has ended");
        }
        tokio::time::sleep(pause.to_std()).await;
        pause = pause.saturating_mul(2).min(limits::PROFILES_RETRY_MAX);
    }
}

/// Did the RM itself refuse the stream: for lack of permission, of resources, or of the call?
pub(super) fn is_its_answer(error: &Status) -> bool {
    use tonic::Code;
    matches!(
        error.code(),
        Code::PermissionDenied
            | Code::ResourceExhausted
            | Code::Unimplemented
            | Code::InvalidArgument
    )
}

/// Waits until an RM has described itself and the picture expects its resources.
async fn described(pictures: &Pictures, rm: &RmName) -> RmClient {
    let mut snapshot = pictures.0.federation.snapshot();
    loop {
        if let Some((client, _)) = snapshot.members.get(rm) {
            pictures.expect(&Arc::clone(&snapshot));
            return client.clone();
        }
        snapshot = pictures.0.federation.after(&snapshot).await;
    }
}

/// Reads one stream to its end. Returns how it ended, and whether any update was merged.
async fn stream(pictures: &Pictures, rm: &RmName, mut client: RmClient, anew: bool) -> (End, bool) {
    let (epoch, revision) = if anew { (0, 0) } else { pictures.cursor(rm) };
    let request = v1::WatchProfilesRequest {
        coordinator: pictures.0.coordinator.clone(),
        epoch,
        revision,
        policy: pictures.settings().updates,
    };
    let silence = limits::PROFILES_SILENCE_MAX.to_std();
    let mut heard = false;
    let mut news = match tokio::time::timeout(silence, client.watch_profiles(request)).await {
        Ok(Ok(answer)) => answer.into_inner(),
        Ok(Err(error)) => return (End::Broken(error), heard),
        Err(_) => return (End::Broken(silent(limits::PROFILES_SILENCE_MAX)), heard),
    };
    loop {
        let update = match tokio::time::timeout(silence, news.message()).await {
            Ok(Ok(Some(v1::WatchProfilesResponse { update: Some(update) }))) => update,
            // A response without an update is ignored.
            Ok(Ok(Some(_))) => continue,
            Ok(Ok(None)) => return (End::Broken(Status::unavailable("the stream ended")), heard),
            Ok(Err(error)) => return (End::Broken(error), heard),
            Err(_) => return (End::Broken(silent(limits::PROFILES_SILENCE_MAX)), heard),
        };
        match pictures.take(rm, &update) {
            UpdateOutcome::Merged => heard = true,
            UpdateOutcome::Ignored => {}
            UpdateOutcome::NeedsSnapshot => return (End::Unusable, heard),
        }
    }
}

fn silent(after: Span) -> Status {
    Status::unavailable(format!("nothing was received for {after}"))
}
