//! One stream of updates from every RM, for ever: resumed from what the picture has, begun anew with a
//! snapshot where that does not do, reconnected with growing pauses.

use std::sync::Arc;

use coalloc_common::{RmName, Span, limits};
use coalloc_proto::v1;
use tonic::Status;

use super::believed::MissingProfiles;
use super::store::{Pictures, UpdateOutcome};
use crate::availability::federation::RmClient;

/// Follows every configured RM, each on its own.
pub(super) fn all(pictures: &Pictures) {
    for rm in pictures.0.federation.names() {
        tokio::spawn(follow(pictures.clone(), rm));
    }
    tokio::spawn(expect(pictures.clone()));
}

/// Keeps the picture expecting what the federation is.
async fn expect(pictures: Pictures) {
    let mut snapshot = pictures.0.federation.snapshot();
    loop {
        pictures.expect(&snapshot);
        snapshot = pictures.0.federation.after(&snapshot).await;
    }
}

/// How a stream ended.
enum End {
    /// Something in it cannot be merged; begin anew.
    Unusable,
    /// It broke, or was refused.
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
            // It may be another one now, with another inventory.
            pictures.0.federation.doubt(&rm, "its stream of profiles has ended");
        }
        tokio::time::sleep(pause.to_std()).await;
        pause = pause.saturating_mul(2).min(limits::PROFILES_RETRY_MAX);
    }
}

/// Did the RM itself say that it does not tell: for want of the permission, of a place, of the call?
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

/// Waits until an RM has described itself and the picture expects what it said.
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

/// One stream to its end; was anything heard on it?
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
            // Nothing in it says nothing.
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
    Status::unavailable(format!("nothing was heard for {after}"))
}

/// Why there are no profiles, for people.
pub(super) fn why(error: &Status) -> MissingProfiles {
    match error.code() {
        tonic::Code::PermissionDenied => MissingProfiles {
            denied: true,
            text: "does not let this coordinator watch its profiles: it has to be named in \
                   `profiles.coordinators` of its configuration"
                .to_owned(),
        },
        tonic::Code::Unimplemented => MissingProfiles::silent("serves no profiles".to_owned()),
        _ => MissingProfiles::silent(format!("tells no profiles: {}", error.message())),
    }
}
