//! Places of watches are shared fairly: who has most of them loses one to a newcomer, and is told so.

use std::time::Duration;

use coalloc_common::{Role, limits};
use coalloc_proto::v1;
use tonic::{Code, Status, Streaming};

use super::world::TlsWorld;

/// A watch that loses its place has to end within this time.
const PATIENCE: Duration = Duration::from_secs(10);

/// Reads a stream to its end.
async fn end_of<T>(mut stream: Streaming<T>) -> Status {
    let end = async {
        loop {
            match stream.message().await {
                Ok(Some(_)) => {}
                Ok(None) => panic!("a watch ends with a status"),
                Err(status) => return status,
            }
        }
    };
    tokio::time::timeout(PATIENCE, end).await.expect("the watch ends")
}

fn is_displaced(status: &Status) -> bool {
    status.code() == Code::ResourceExhausted && status.message().contains("make room for another")
}

#[tokio::test(flavor = "multi_thread")]
async fn a_user_with_all_watches_keeps_nobody_out_and_resumes_what_it_loses() {
    let mut world = TlsWorld::start().await;
    let alice = world.who("grid", Role::User, "alice");
    let bob = world.who("grid", Role::User, "bob");
    let mut client = world.grc(&alice);
    let mut watches = Vec::new();
    for _ in 0..limits::WATCHERS_MAX {
        watches.push(client.watch(v1::WatchRequest::default()).await.unwrap().into_inner());
    }
    let refused = client.watch(v1::WatchRequest::default()).await.unwrap_err();
    assert_eq!(refused.code(), Code::ResourceExhausted);
    assert!(refused.message().contains("64 of them are yours"), "{refused}");
    let mut last = watches.pop().unwrap();
    let message = last.message().await.unwrap().unwrap();
    let Some(v1::watch_response::What::Progress(position)) = message.what else {
        panic!("a watch begins with its position");
    };
    let mut of_bob = world.grc(&bob).watch(v1::WatchRequest::default()).await.unwrap().into_inner();
    let status = end_of(last).await;
    assert!(is_displaced(&status), "{status}");
    assert!(of_bob.message().await.unwrap().is_some(), "bob's watch lives");
    // Resumed, it takes nothing back from bob, but a place of alice's own.
    let resume =
        || v1::WatchRequest { resume_token: position.resume_token.clone(), ..Default::default() };
    let refused = client.watch(resume()).await.unwrap_err();
    assert!(refused.message().contains("63 of them are yours"), "{refused}");
    drop(watches.pop());
    crate::harness::eventually("the place is free again", || async {
        client.clone().watch(resume()).await.is_ok()
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn auditors_and_coordinators_share_the_watches_of_a_resource_manager() {
    let mut world = TlsWorld::start().await;
    let sue = world.who("south", Role::Auditor, "sue");
    let sam = world.who("south", Role::Auditor, "sam");
    let grc = world.folder_dialer("grc");
    let profiles = || v1::WatchProfilesRequest { coordinator: "grc".into(), ..Default::default() };
    let mut crm = world.rm(&grc, "crm-A");
    let mut watches = Vec::new();
    let refused = loop {
        match crm.watch_profiles(profiles()).await {
            Ok(answer) => watches.push(answer.into_inner()),
            Err(status) => break status,
        }
    };
    assert_eq!(refused.code(), Code::ResourceExhausted, "{refused}");
    assert_eq!(watches.len(), limits::WATCHERS_MAX);
    // They stay open, so that their places stay taken.
    let mut of_auditors = Vec::new();
    for who in [&sue, &sam] {
        let mut client = world.rm(who, "crm-A");
        let bookings = v1::WatchBookingsRequest::default();
        let mut stream = client.watch_bookings(bookings).await.unwrap().into_inner();
        assert!(stream.message().await.unwrap().is_some());
        of_auditors.push(stream);
        let status = end_of(watches.pop().unwrap()).await;
        assert!(is_displaced(&status), "{status}");
    }
}
