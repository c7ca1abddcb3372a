//! Sends requests in a closed loop or at a fixed rate, and measures the time to each answer.
//!
//! At a fixed rate, a request's time begins when it was due, not when it was sent: if the federation
//! stalls, the time that requests spend waiting counts (no coordinated omission).

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use coalloc_proto::v1;
use tokio::task::JoinSet;

use super::requests::{Requests, Tasks};
use crate::kit::exit::Failure;
use crate::kit::rpc::Coordinator;

/// Maximum number of requests in flight at a fixed rate; a further request waits, and its waiting time counts.
const IN_FLIGHT_MAX: usize = 1_024;

/// How requests follow one another.
#[derive(Debug, Clone, Copy)]
pub enum Pace {
    /// Each of a number of senders sends its next request when its last one was answered.
    ClosedLoop {
        /// Number of senders.
        in_flight: u32,
    },
    /// One request every 1/rate seconds, whatever the outcome of the others.
    FixedRate {
        /// Requests per second.
        per_second: u32,
    },
}

impl fmt::Display for Pace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::ClosedLoop { in_flight } => write!(f, "closed loop, {in_flight} in flight"),
            Self::FixedRate { per_second } => write!(f, "fixed rate, {per_second} requests/s"),
        }
    }
}

/// The parameters of a load.
#[derive(Debug, Clone, Copy)]
pub struct Load {
    /// How requests follow one another.
    pub pace: Pace,
    /// Load before the measurement.
    pub warmup: Duration,
    /// Length of the measurement: requests that are answered in this time count.
    pub measured: Duration,
}

/// The kind of requests that are sent.
#[derive(Debug)]
pub enum WorkloadKind {
    /// Co-allocations.
    CoAllocations(Requests),
    /// Tasks.
    Tasks(Tasks),
}

/// The outcome of a load.
#[derive(Debug, Clone)]
pub struct Outcome {
    /// How requests followed one another.
    pub pace: Pace,
    /// Length of the measurement, in seconds.
    pub seconds: f64,
    /// Time until each "confirmed" answer, sorted; every booking was durable by then.
    pub confirmed: Vec<Duration>,
    /// Time until each refusal, sorted.
    pub refused: Vec<Duration>,
    /// Calls that failed, or were answered before the outcome was known.
    pub failed: usize,
    /// The message of the first such call.
    pub first_failure: String,
    /// Sum of the resource managers of all confirmed requests.
    pub managers: usize,
    /// Requests sent in total, including the warm-up.
    pub sent: usize,
}

/// One answered request.
struct Sample {
    answered: Instant,
    took: Duration,
    end: End,
}

enum End {
    Confirmed { managers: usize },
    Refused,
    Failed(String),
}

impl Load {
    /// Sends requests until the time is over, then waits for the answers that are still missing.
    ///
    /// # Errors
    /// When a sender panics.
    pub async fn run(self, client: Coordinator, asked: WorkloadKind) -> Result<Outcome, Failure> {
        let begin = Instant::now();
        let (from, to) = (begin + self.warmup, begin + self.warmup + self.measured);
        let work = Arc::new(SharedWork { asked, next: AtomicUsize::new(0), begin, to });
        let mut senders = JoinSet::new();
        let (count, gap) = match self.pace {
            Pace::ClosedLoop { in_flight } => (in_flight as usize, None),
            Pace::FixedRate { per_second } => {
                (IN_FLIGHT_MAX, Some(Duration::from_secs(1) / per_second))
            }
        };
        for _ in 0..count {
            senders.spawn(SharedWork::send_all(Arc::clone(&work), client.clone(), gap));
        }
        let mut samples = Vec::new();
        while let Some(ended) = senders.join_next().await {
            let died = |error| Failure::internal(format!("a sending task failed: {error}"));
            samples.extend(ended.map_err(died)?);
        }
        samples.retain(|sample| sample.answered >= from && sample.answered < to);
        Ok(self.outcome(samples, work.next.load(Ordering::Relaxed)))
    }

    fn outcome(self, samples: Vec<Sample>, sent: usize) -> Outcome {
        let mut outcome = Outcome {
            pace: self.pace,
            seconds: self.measured.as_secs_f64(),
            confirmed: Vec::new(),
            refused: Vec::new(),
            failed: 0,
            first_failure: String::new(),
            managers: 0,
            sent,
        };
        for Sample { took, end, .. } in samples {
            match end {
                End::Confirmed { managers } => {
                    outcome.confirmed.push(took);
                    outcome.managers += managers;
                }
                End::Refused => outcome.refused.push(took),
                End::Failed(what) => {
                    outcome.failed += 1;
                    if outcome.first_failure.is_empty() {
                        outcome.first_failure = what;
                    }
                }
            }
        }
        outcome.confirmed.sort_unstable();
        outcome.refused.sort_unstable();
        outcome
    }
}

/// The state that the senders share.
struct SharedWork {
    asked: WorkloadKind,
    next: AtomicUsize,
    begin: Instant,
    to: Instant,
}

impl SharedWork {
    async fn send_all(
        self: Arc<Self>,
        mut client: Coordinator,
        gap: Option<Duration>,
    ) -> Vec<Sample> {
        let mut samples = Vec::new();
        loop {
            let index = self.next.fetch_add(1, Ordering::Relaxed);
            let due = match gap {
                // A bench sends far fewer than 2^32 requests.
                Some(gap) => self.begin + gap * index as u32,
                None => Instant::now(),
            };
            if due >= self.to {
                return samples;
            }
            tokio::time::sleep_until(due.into()).await;
            let answer = match &self.asked {
                WorkloadKind::CoAllocations(requests) => {
                    let answer = client.reserve(requests.get(index)).await;
                    answer.map(|answer| end(answer.into_inner().reservation))
                }
                WorkloadKind::Tasks(tasks) => {
                    let answer = client.submit_task(tasks.get(index)).await;
                    answer.map(|answer| end_of_task(answer.into_inner().task))
                }
            };
            let failed =
                |status: tonic::Status| format!("{:?}: {}", status.code(), status.message());
            let end = answer.unwrap_or_else(|status| End::Failed(failed(status)));
            let answered = Instant::now();
            samples.push(Sample { answered, took: answered - due, end });
        }
    }
}

fn end(reservation: Option<v1::Reservation>) -> End {
    use v1::ReservationState as S;
    let Some(reservation) = reservation else { return End::Failed("an empty answer".to_owned()) };
    match reservation.state() {
        S::Confirmed | S::Active => {
            let segments = reservation.plan.map(|plan| plan.segments).unwrap_or_default();
            End::Confirmed { managers: managers(&segments) }
        }
        S::Failed if reservation.definite => End::Refused,
        state => End::Failed(format!(
            "answered before the outcome was final: {}",
            crate::kit::text::state(state)
        )),
    }
}

fn end_of_task(receipt: Option<v1::TaskReceipt>) -> End {
    let Some(receipt) = receipt else { return End::Failed("an empty answer".to_owned()) };
    match (receipt.confirmed, receipt.definite) {
        (true, _) => {
            let segments = receipt.plan.map(|plan| plan.segments).unwrap_or_default();
            End::Confirmed { managers: managers(&segments) }
        }
        (false, true) => End::Refused,
        (false, false) => End::Failed("answered before the outcome was final".to_owned()),
    }
}

/// The number of resource managers that have a segment.
fn managers(segments: &[v1::Segment]) -> usize {
    let names = segments.iter().map(|segment| segment.resource_manager.as_str());
    names.collect::<BTreeSet<&str>>().len()
}

/// The value below which this share of a sorted list lies; zero for an empty list.
#[must_use]
pub fn percentile(sorted: &[Duration], share: f64) -> Duration {
    let last = sorted.len().saturating_sub(1);
    // This is between 0 and `last`.
    let at = (last as f64 * share).round() as usize;
    sorted.get(at.min(last)).copied().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_of_the_list() {
        let list: Vec<Duration> = (1..=100).map(Duration::from_millis).collect();
        assert_eq!(percentile(&list, 0.0), Duration::from_millis(1));
        assert_eq!(percentile(&list, 0.5), Duration::from_millis(51));
        assert_eq!(percentile(&list, 0.99), Duration::from_millis(99));
        assert_eq!(percentile(&list, 1.0), Duration::from_millis(100));
        assert_eq!(percentile(&[], 0.5), Duration::ZERO);
    }

    #[test]
    fn only_what_is_booked_counts_as_a_co_allocation() {
        let reservation = |state: v1::ReservationState, definite| {
            let segment =
                |rm: &str| v1::Segment { resource_manager: rm.into(), ..Default::default() };
            let segments = vec![segment("crm-A"), segment("nrm"), segment("crm-A")];
            let plan = Some(v1::Plan { segments, ..Default::default() });
            Some(v1::Reservation { state: state.into(), definite, plan, ..Default::default() })
        };
        use v1::ReservationState as S;
        let booked = end(reservation(S::Confirmed, true));
        assert!(matches!(booked, End::Confirmed { managers: 2 }));
        assert!(matches!(end(reservation(S::Failed, true)), End::Refused));
        assert!(matches!(end(reservation(S::Failed, false)), End::Failed(_)));
        assert!(matches!(end(reservation(S::Checking, false)), End::Failed(_)));
        assert!(matches!(end(None), End::Failed(_)));
    }
}
