//! Whether a daemon's disk has space to hold anything new (I17), for whoever watches its health.
//!
//! The ledger reports it on the core's thread. gRPC health publishes it under the name [`HOLDS`], while the
//! services themselves stay serving, because commits, aborts and releases go on.
//!
//! Left out: how the space is measured and reserved (`coalloc_ledger`).

use coalloc_common::DiskSpace;
use tokio::sync::watch;
use tonic_health::ServingStatus;
use tonic_health::server::HealthReporter;

/// The name under which gRPC health says whether the daemon accepts anything new to hold.
pub const HOLDS: &str = "coalloc.holds";

/// What a node's ledger last reported of its disk; it wakes when the report changes.
pub type DiskSpaceWatch = watch::Receiver<DiskSpace>;

/// Keeps health up to date until the node ends.
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
