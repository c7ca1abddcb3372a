//! What this machine can do at all: bare gRPC calls, and bare fsyncs.

use std::fs::File;
use std::io::Write as _;
use std::path::Path;
use std::time::{Duration, Instant};

use coalloc_proto::v1;
use tokio::task::JoinSet;

use crate::kit::exit::Failure;
use crate::kit::rpc;
use crate::testbed::local::layout::Post;

/// Bytes of one bare write: about one record of a ledger with its page.
const WRITE_BYTES: usize = 4_096;

/// How long each ceiling, and each half of the Hold measurement, is measured at most.
const TIME_MAX: Duration = Duration::from_secs(3);

/// How long each ceiling, and each half of the Hold measurement, is measured beside a load of `seconds`: as
/// long as the load, at most [`TIME_MAX`].
pub fn time(seconds: u64) -> Duration {
    Duration::from_secs(seconds).min(TIME_MAX)
}

/// Measures bare gRPC calls per second: Describe, which reads a constant, at every resource manager, with
/// as many calls in flight as the load has.
///
/// # Errors
/// When a call fails.
pub async fn calls(posts: &[Post], in_flight: usize, time: Duration) -> Result<f64, Failure> {
    let begin = Instant::now();
    let mut senders = JoinSet::new();
    let mut clients = Vec::with_capacity(posts.len());
    for post in posts {
        clients.push(rpc::resource_manager(&post.dialer, &post.address)?);
    }
    for sender in 0..in_flight {
        let clients = clients.clone();
        senders.spawn(async move {
            let mut done = 0_u64;
            for mut client in clients.into_iter().cycle().skip(sender) {
                if begin.elapsed() >= time {
                    break;
                }
                client.describe(v1::DescribeRequest {}).await?;
                done += 1;
            }
            Ok::<u64, tonic::Status>(done)
        });
    }
    let mut done = 0;
    while let Some(ended) = senders.join_next().await {
        let ended =
            ended.map_err(|error| Failure::internal(format!("a sending task failed: {error}")))?;
        done += ended.map_err(|status| rpc::failure(&status))?;
    }
    Ok(done as f64 / begin.elapsed().as_secs_f64())
}

/// Measures bare fsyncs per second over all files together.
///
/// There are as many files as daemons, in the folder of the ledgers. A separate thread appends to each file
/// and syncs it.
///
/// # Errors
/// When a file cannot be written.
pub async fn syncs(folder: &Path, files: usize, time: Duration) -> Result<f64, Failure> {
    let begin = Instant::now();
    let mut writers = JoinSet::new();
    for index in 0..files {
        let path = folder.join(format!("fsync-{index}"));
        writers.spawn_blocking(move || {
            let mut file = File::create(&path)?;
            let mut done = 0_u64;
            while begin.elapsed() < time {
                file.write_all(&[7; WRITE_BYTES])?;
                file.sync_data()?;
                done += 1;
            }
            std::fs::remove_file(&path)?;
            Ok::<u64, std::io::Error>(done)
        });
    }
    let mut done = 0;
    while let Some(ended) = writers.join_next().await {
        let ended =
            ended.map_err(|error| Failure::internal(format!("a writing task failed: {error}")))?;
        done += ended
            .map_err(|error| Failure::internal(format!("{}: fsync: {error}", folder.display())))?;
    }
    Ok(done as f64 / begin.elapsed().as_secs_f64())
}
