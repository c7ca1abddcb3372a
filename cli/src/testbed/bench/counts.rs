//! The counters of the daemons: fsyncs and messages, read from their metrics.

use std::path::Path;

use coalloc_proto::v1;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::kit::exit::Failure;
use crate::testbed::local::layout::{Post, Setup, Telemetry};

/// Counters of a whole federation, added up.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counts {
    /// Durable appends of all ledgers: one fsync each.
    pub syncs: u64,
    /// Records in these appends.
    pub records: u64,
    /// Hold, Commit, Abort and Release calls that the coordinator sent.
    pub messages: u64,
    /// Availability queries that the coordinator sent.
    pub queries: u64,
}

impl Counts {
    /// The difference between two readings.
    #[must_use]
    pub const fn since(self, before: &Self) -> Self {
        Self {
            syncs: self.syncs.saturating_sub(before.syncs),
            records: self.records.saturating_sub(before.records),
            messages: self.messages.saturating_sub(before.messages),
            queries: self.queries.saturating_sub(before.queries),
        }
    }
}

/// A federation with one coordinator, whose daemons serve what these readings need.
#[must_use]
pub fn setup<'a>(folder: &'a Path, file: &'a v1::FederationFile) -> Setup<'a> {
    let telemetry = Telemetry { metrics: true, ..Telemetry::default() };
    Setup { telemetry, ..Setup::new(folder, file) }
}

/// Reads every daemon's metrics.
///
/// # Errors
/// When a daemon does not answer.
pub async fn read(posts: &[Post]) -> Result<Counts, Failure> {
    let mut counts = Counts::default();
    for post in posts {
        let Some(address) = &post.metrics else { continue };
        let text = scrape(address).await.map_err(|error| {
            Failure::internal(format!("{}: no metrics at {address}: {error}", post.name))
        })?;
        counts.syncs += sum(&text, "coalloc_ledger_sync_seconds_count");
        counts.records += sum(&text, "coalloc_ledger_records_total");
        counts.messages += sum(&text, "coalloc_grc_messages_total");
        counts.queries += sum(&text, "coalloc_grc_queries_total");
    }
    Ok(counts)
}

async fn scrape(address: &str) -> std::io::Result<String> {
    let mut stream = TcpStream::connect(address).await?;
    let request = format!("GET /metrics HTTP/1.1\r\nHost: {address}\r\n\r\n");
    stream.write_all(request.as_bytes()).await?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await?;
    Ok(answer)
}

/// The sum of a metric over all its labels.
fn sum(text: &str, name: &str) -> u64 {
    let of_name = |line: &&str| {
        let rest = line.strip_prefix(name);
        rest.is_some_and(|rest| rest.starts_with(['{', ' ']))
    };
    let value = |line: &str| line.rsplit_once(' ')?.1.parse::<u64>().ok();
    text.lines().filter(of_name).filter_map(value).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_metric_is_added_up_over_its_labels_and_no_other_is() {
        let text = "# TYPE a counter\na_total{x=\"1\"} 2\na_total{x=\"2\"} 3\na_total_more 7\n";
        assert_eq!(sum(text, "a_total"), 5);
        assert_eq!(sum("a_total 4\n", "a_total"), 4);
    }
}
