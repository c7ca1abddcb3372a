//! The requests of Takefusa 2010, section 4.1: two users, four types, Poisson arrivals.
//!
//! Arrivals of each user are Poisson with a mean interarrival time of 407.327 s, in the first 24 h, for
//! reservations in the 24 h after; here the arrivals only determine the order. Types 1 to 4 ask for 2, 3, 3
//! and 4 sites (the figure that shows them is missing; the site counts follow from the printed load),
//! joined by one link, a chain, a triangle, and a star, ring or mesh. Earliest starts lie on whole minutes.
//!
//! The simulator's workload draws the requests, so that a day of the demo is a day of the experiments.

use clap::ValueEnum;
use coalloc_common::{Span, Time};
use coalloc_net::convert::{span_to_wire, time_to_wire};
use coalloc_proto::v1;
use coalloc_sim::coallocations::settings::{self, Workload};
use coalloc_sim::coallocations::workload::{self as drawn, NAMES};

/// The users, in the order of their random streams.
pub const USERS: [&str; 2] = ["UserA", "UserB"];
/// The average number of requests that both users make in the paper's 24 h of arrivals.
pub const PAPER_REQUESTS: usize = 424;
/// How the four sites of type 4 are linked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
pub enum Type4 {
    /// The first site is linked with each of the others
    Star,
    /// Each site is linked with the next, and the last with the first
    #[default]
    Ring,
    /// Every site is linked with every other
    Mesh,
}

/// One request of the workload.
#[derive(Debug, Clone, PartialEq)]
pub struct Arrival {
    /// When the request would arrive, counted from the first.
    pub at: Span,
    /// Its type, 1 to 4.
    pub kind: u8,
    /// CPUs of each of the request's sites.
    pub cpus: u64,
    /// The request itself, its user included.
    pub request: v1::CoAllocationRequest,
}

impl From<Type4> for settings::Type4 {
    fn from(type4: Type4) -> Self {
        match type4 {
            Type4::Star => Self::Star,
            Type4::Ring => Self::Ring,
            Type4::Mesh => Self::Mesh,
        }
    }
}

/// The first `count` requests by arrival, for a day that begins at `day`.
#[must_use]
pub fn arrivals(seed: u64, count: usize, day: Time, type4: Type4) -> Vec<Arrival> {
    // The default workload is that of the paper.
    let workload = Workload { type4: type4.into(), ..Workload::default() };
    let all = drawn::arrivals(&workload, seed, count).into_iter();
    all.map(|arrival| on_the_wire(&arrival, &workload, day)).collect()
}

fn on_the_wire(arrival: &drawn::Arrival, workload: &Workload, day: Time) -> Arrival {
    let (sites, links) = arrival.shape(workload.type4);
    let timing = arrival.timing(workload.slack, day);
    let site = |name: &&str| v1::SiteRequest {
        name: (*name).to_owned(),
        cpus: arrival.cpus,
        ..Default::default()
    };
    let request = v1::CoAllocationRequest {
        sites: NAMES[..sites].iter().map(site).collect(),
        links: links.iter().map(|(from, to)| link(*from, *to, workload.rate_bps)).collect(),
        earliest_start: Some(time_to_wire(timing.earliest_start)),
        latest_start: Some(time_to_wire(timing.latest_start)),
        duration: Some(span_to_wire(timing.duration)),
        user: USERS[arrival.user].to_owned(),
        manual_provision: None,
        series: String::new(),
    };
    Arrival { at: arrival.at, kind: arrival.kind, cpus: arrival.cpus, request }
}

fn link(from: usize, to: usize, bandwidth_bps: u64) -> v1::LinkRequest {
    v1::LinkRequest {
        from: NAMES[from].to_owned(),
        to: NAMES[to].to_owned(),
        bandwidth_bps,
        ..v1::LinkRequest::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use coalloc_net::convert::request_from_wire;

    const DAY: Time = Time::from_us(1_795_348_800_000_000); // 2026-11-22T12:00:00Z
    const END: Time = DAY.saturating_add(Span::from_secs(86_400));

    #[test]
    fn one_seed_gives_one_workload_and_a_longer_one_begins_with_it() {
        let of = |seed, count| arrivals(seed, count, DAY, Type4::Ring);
        assert_eq!(format!("{:?}", of(1, 60)), format!("{:?}", of(1, 60)), "same seed, same bytes");
        assert_ne!(of(1, 60), of(2, 60));
        assert_eq!(of(1, 60), of(1, 500)[..60]);
        let later = DAY.saturating_add(Span::from_secs(3_600));
        let moved = arrivals(1, 60, later, Type4::Ring);
        for (one, other) in of(1, 60).iter().zip(&moved) {
            assert_eq!((one.at, one.kind, one.cpus), (other.at, other.kind, other.cpus));
            assert_eq!(one.request.duration, other.request.duration);
        }
    }

    #[test]
    fn every_request_is_valid_and_its_window_lies_in_the_day() {
        for type4 in [Type4::Star, Type4::Ring, Type4::Mesh] {
            for arrival in arrivals(7, 600, DAY, type4) {
                let request = request_from_wire(&arrival.request, Time::from_us(0)).unwrap();
                let timing = request.timing;
                let slack = timing.latest_start.since(timing.earliest_start);
                assert_eq!(slack, timing.duration.saturating_mul(3));
                assert!(timing.earliest_start >= DAY);
                assert!(timing.latest_start.saturating_add(timing.duration) <= END);
            }
        }
    }

    #[test]
    fn the_mix_is_the_papers() {
        let all = arrivals(1, 4_240, DAY, Type4::Ring);
        let share = |is: &dyn Fn(&Arrival) -> bool| {
            all.iter().filter(|arrival| is(arrival)).count() as f64 / all.len() as f64
        };
        for kind in 1..=4 {
            let share = share(&|arrival| arrival.kind == kind);
            assert!((0.22..0.28).contains(&share), "type {kind}: {share}");
        }
        for cpus in [1, 2, 4, 8] {
            let share = share(&|arrival| arrival.cpus == cpus);
            assert!((0.22..0.28).contains(&share), "{cpus} CPUs: {share}");
        }
        let user_a = share(&|arrival| arrival.request.user == "UserA");
        assert!((0.46..0.54).contains(&user_a), "{user_a}");
        // 424 requests of both users take a day to arrive, within a few percent over ten days.
        let days = all[4_239].at.as_us() as f64 / 86_400e6;
        assert!((9.4..10.6).contains(&days), "{days}");
        let sites = |kind| all.iter().find(|a| a.kind == kind).map(|a| a.request.sites.len());
        assert_eq!([sites(1), sites(2), sites(3), sites(4)], [Some(2), Some(3), Some(3), Some(4)]);
        let links = |type4| {
            let all = arrivals(1, 50, DAY, type4);
            all.iter().find(|a| a.kind == 4).map(|a| a.request.links.len())
        };
        let of_type4 = [links(Type4::Star), links(Type4::Ring), links(Type4::Mesh)];
        assert_eq!(of_type4, [Some(3), Some(4), Some(6)]);
    }
}
