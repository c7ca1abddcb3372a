//! The requests of a load: those of the paper's workload, spread over many days so that they seldom conflict.

use coalloc_common::{Span, Time};
use coalloc_proto::v1;

use crate::demo::workload::{self, Type4};
use crate::when::next_full;

/// Number of future days that requests are spread over: within the default horizon of resource managers.
const DAYS: usize = 80;
/// Requests per day; the paper's day has about 424, so a day of these is about half full.
const OF_A_DAY: usize = 200;

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
