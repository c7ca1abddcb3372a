//! Whether this process has room on its disk to hold anything new (I17), for whoever watches its health.
//!
//! The ledger says it, on the thread of the core; gRPC health tells it to the outside under the name
//! [`HOLDS`], while the services themselves stay serving: commits, aborts and releases go on.
//!
//! Left out: several nodes in one process. A daemon is one; of more, the last to speak is heard.

use std::sync::LazyLock;

use coalloc_common::DiskRoom;
use tokio::sync::watch;
use tonic_health::ServingStatus;
use tonic_health::server::HealthReporter;

/// The name under which gRPC health says whether anything new is held.
pub const HOLDS: &str = "coalloc.holds";

static ROOM: LazyLock<watch::Sender<DiskRoom>> =
    LazyLock::new(|| watch::Sender::new(DiskRoom::Enough));

/// The ledger has looked.
pub(crate) fn tell(room: DiskRoom) {
    ROOM.send_if_modified(|known| std::mem::replace(known, room) != room);
}

/// Keeps health up to date, for as long as it is polled.
pub(crate) async fn follow(health: HealthReporter) {
    let mut room = ROOM.subscribe();
    loop {
        let status = match *room.borrow_and_update() {
            DiskRoom::Enough => ServingStatus::Serving,
            DiskRoom::Low => ServingStatus::NotServing,
        };
        health.set_service_status(HOLDS, status).await;
        // The sender lives as long as the process.
        if room.changed().await.is_err() {
            return;
        }
    }
}
