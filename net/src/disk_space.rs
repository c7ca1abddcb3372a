//! Whether a daemon has room on its disk to hold anything new (I17), for whoever watches its health.
//!
//! The ledger says it, on the thread of the core; gRPC health tells it to the outside under the name
//! [`HOLDS`], while the services themselves stay serving: commits, aborts and releases go on.

use coalloc_common::DiskSpace;
use tokio::sync::watch;
use tonic_health::ServingStatus;
use tonic_health::server::HealthReporter;

/// The name under which gRPC health says whether anything new is held.
pub const HOLDS: &str = "coalloc.holds";

/// What the ledger of a node says of its disk, and the next thing that it says.
pub type DiskSpaceWatch = watch::Receiver<DiskSpace>;

/// Keeps health up to date, until the node ends.
pub(crate) async fn follow(health: HealthReporter, mut room: DiskSpaceWatch) {
    loop {
        let status = match *room.borrow_and_update() {
            DiskSpace::Enough => ServingStatus::Serving,
            DiskSpace::Low => ServingStatus::NotServing,
        };
        health.set_service_status(HOLDS, status).await;
        if room.changed().await.is_err() {
            return;
        }
    }
}
