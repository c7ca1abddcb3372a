//! The requests of a load: those of the paper's workload, spread over many days so that they seldom conflict; and
//! short tasks.

use coalloc_common::{Span, Time};
use coalloc_proto::v1;
use rand::{RngExt as _, SeedableRng as _};
use rand_chacha::ChaCha20Rng;

use crate::kit::when::next_full;
use crate::testbed::demo::torus;
use crate::testbed::demo::workload::{self, Type4};

/// Number of future days that requests are spread over: within the default horizon of resource managers.
const DAYS: usize = 80;
/// Requests per day; the paper's day has about 424, so a day of these is about half full.
const OF_A_DAY: usize = 200;

/// The data of a task take 0.8 ms at the rate of a link (100 kB); its run takes 2 ms.
const DATA_BYTES: u64 = 100_000;
const WORK_MI: u64 = 50;

/// An endless supply of requests from a seed.
#[derive(Debug)]
pub struct Requests {
    /// An id of one run of the bench, so that the request ids of two runs always differ.
    run: String,
    frames: u32,
    days: Vec<Vec<v1::CoAllocationRequest>>,
}

impl Requests {
    /// The requests of a seed, each planned in this many frames.
    #[must_use]
    pub fn new(seed: u64, frames: u32) -> Self {
        let tomorrow = next_full(Span::from_secs(3_600), coalloc_net::clock::now().wall)
            .saturating_add(Span::from_secs(86_400));
        let run = format!("bench-{}", uuid::Uuid::new_v4().simple());
        Self { run, frames, days: (0..DAYS).map(|day| of_day(seed, day, tomorrow)).collect() }
    }

    /// Request number `index`. After [`DAYS`] times [`OF_A_DAY`] the requests repeat, under new ids.
    #[must_use]
    pub fn get(&self, index: usize) -> v1::ReserveRequest {
        let (day, place) = (index % DAYS, index / DAYS % OF_A_DAY);
        v1::ReserveRequest {
            request_id: format!("{}-{index}", self.run),
            request: Some(self.days[day][place].clone()),
            options: Some(v1::PlanOptions { frames: Some(self.frames), ..Default::default() }),
            plan_digest: String::new(),
        }
    }
}

fn of_day(seed: u64, day: usize, tomorrow: Time) -> Vec<v1::CoAllocationRequest> {
    let length = Span::from_secs(86_400);
    // This is at most DAYS.
    let start = tomorrow.saturating_add(length.saturating_mul(day as i64));
    let seed = seed.wrapping_mul(1_000).wrapping_add(day as u64);
    let arrivals = workload::arrivals(seed, OF_A_DAY, start, Type4::Ring);
    arrivals.into_iter().map(|arrival| arrival.request).collect()
}

/// The tasks of a bench: their sources are random, everything else is the same.
#[derive(Debug, Clone)]
pub struct Tasks {
    seed: u64,
    points: Vec<String>,
}

impl Tasks {
    /// The tasks of a seed, whose data begin at any of these points.
    #[must_use]
    pub const fn new(seed: u64, points: Vec<String>) -> Self {
        Self { seed, points }
    }

    /// The task with this number.
    #[must_use]
    pub fn get(&self, index: usize) -> v1::SubmitTaskRequest {
        let mut dice = ChaCha20Rng::seed_from_u64(self.seed);
        dice.set_stream(index as u64);
        let source = self.points[dice.random_range(0..self.points.len())].clone();
        let task = v1::TaskRequest {
            source,
            data_bytes: DATA_BYTES,
            work_mi: WORK_MI,
            bandwidth_bps: torus::workload::RATE.0,
            user: "bench".to_owned(),
            ..v1::TaskRequest::default()
        };
        v1::SubmitTaskRequest {
            request_id: format!("bench-{}-{index}", self.seed),
            task: Some(task),
            ..v1::SubmitTaskRequest::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_unique_and_neighbours_ask_for_other_days() {
        let requests = Requests::new(1, 10);
        let (one, next) = (requests.get(0), requests.get(1));
        assert_ne!(one.request_id, next.request_id);
        let start = |request: &v1::ReserveRequest| {
            let request = request.request.clone().unwrap();
            request.earliest_start.unwrap().seconds
        };
        assert!(start(&next) - start(&one) > 0, "the next day");
        let again = requests.get(DAYS * OF_A_DAY);
        assert_eq!(again.request, one.request);
        assert_ne!(again.request_id, one.request_id);
    }
}
