//! The requests of Takefusa 2010, section 4.1: some users, four types, Poisson arrivals.
//!
//! Types 1 to 4 ask for 2, 3, 3 and 4 sites, joined by one link, a chain, a triangle, and a star, ring or
//! mesh. The figure that shows the types is missing; the site counts follow from the printed load.
//!
//! Each user draws from a random stream of their own, so that a seed gives the same requests on every
//! machine, relative to the start of the day. The first N requests are the same whether N or more are drawn.

use std::collections::{BTreeMap, BTreeSet};

use coalloc_common::{
    Amount, BitsPerSecond, CoAllocation, Cpus, LinkDemand, SiteDemand, SiteName, Span, Time, Timing,
};

use super::settings::{Type4, Workload};
use crate::chance::RandomStream;

/// One request, relative to the days of arrivals and of reservations.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Arrival {
    /// When it arrives, after the beginning of the day of arrivals.
    pub at: Span,
    /// The user who sends it: the index in [`Workload::users`].
    pub user: usize,
    /// The type of the request, 1 to 4.
    pub kind: u8,
    /// CPUs at each of its sites.
    pub cpus: u64,
    /// Duration, minutes.
    pub minutes: i64,
    /// Earliest start, minutes after the beginning of the reserved day.
    pub earliest_min: i64,
}

/// The first `count` requests by arrival. The workload must have been checked.
#[must_use]
pub fn arrivals(workload: &Workload, seed: u64, count: usize) -> Vec<Arrival> {
    draw(workload, seed, |draws, all| all.extend(draws.take(count)), count)
}

/// The requests that arrive within the day, at most [`Workload::requests`].
#[must_use]
pub fn of_a_day(workload: &Workload, seed: u64) -> Vec<Arrival> {
    let day = workload.day();
    let within = |draws: Draw<'_>, all: &mut Vec<Arrival>| {
        all.extend(draws.take_while(|arrival| arrival.at < day).take(workload.requests));
    };
    draw(workload, seed, within, workload.requests)
}

fn draw<'a>(
    workload: &'a Workload,
    seed: u64,
    take: impl Fn(Draw<'a>, &mut Vec<Arrival>),
    count: usize,
) -> Vec<Arrival> {
    let mut all = Vec::new();
    for user in 0..workload.users.len() {
        let chance = RandomStream::new(seed, &format!("user {user}"));
        take(Draw { chance, user, workload, clock_s: 0.0 }, &mut all);
    }
    all.sort_by_key(|arrival| arrival.at);
    all.truncate(count);
    all
}

/// The endless sequence of the requests of one user.
struct Draw<'a> {
    chance: RandomStream,
    user: usize,
    workload: &'a Workload,
    clock_s: f64,
}

impl Iterator for Draw<'_> {
    type Item = Arrival;

    fn next(&mut self) -> Option<Arrival> {
        let (workload, chance) = (self.workload, &mut self.chance);
        self.clock_s += chance.exponential(workload.interarrival_s);
        // The type, 1 to 4.
        let kind = 1 + chance.below(4) as u8;
        let cpus = *pick(chance, &workload.cpus)?;
        let minutes = *pick(chance, &workload.durations_min)?;
        // Not negative, because the settings were checked.
        let earliest = u64::try_from(workload.earliest_max(minutes)).unwrap_or(0);
        let earliest_min = chance.below(earliest + 1) as i64;
        // Whole microseconds; the arrivals of a month are far below 2^53 microseconds.
        let at = Span::from_us((self.clock_s * 1e6) as i64);
        Some(Arrival { at, user: self.user, kind, cpus, minutes, earliest_min })
    }
}

fn pick<'a, T>(chance: &mut RandomStream, values: &'a [T]) -> Option<&'a T> {
    values.get(chance.below(values.len() as u64) as usize)
}

/// The names that a request gives its sites.
pub const NAMES: [&str; 4] = ["a", "b", "c", "d"];

impl Arrival {
    /// Its number of sites, and the pairs of sites that links join.
    #[must_use]
    pub const fn shape(&self, type4: Type4) -> (usize, &'static [(usize, usize)]) {
        match (self.kind, type4) {
            (1, _) => (2, &[(0, 1)]),
            (2, _) => (3, &[(0, 1), (1, 2)]),
            (3, _) => (3, &[(0, 1), (1, 2), (2, 0)]),
            (_, Type4::Star) => (4, &[(0, 1), (0, 2), (0, 3)]),
            (_, Type4::Ring) => (4, &[(0, 1), (1, 2), (2, 3), (3, 0)]),
            (_, Type4::Mesh) => (4, &[(0, 1), (0, 2), (0, 3), (1, 2), (1, 3), (2, 3)]),
        }
    }

    /// The start times and the duration of the request, for a reserved day that begins at `day`.
    #[must_use]
    pub fn timing(&self, slack: i64, day: Time) -> Timing {
        let after = |minutes: i64| day.saturating_add(Span::from_secs(minutes * 60));
        Timing {
            earliest_start: after(self.earliest_min),
            latest_start: after(self.earliest_min + slack * self.minutes),
            duration: Span::from_secs(self.minutes * 60),
        }
    }

    /// The request as a planner gets it, for a reserved day that begins at `day`.
    #[must_use]
    pub fn request(&self, workload: &Workload, day: Time) -> CoAllocation {
        let (sites, links) = self.shape(workload.type4);
        let site = |name: &&str| SiteDemand {
            name: SiteName::composed(*name),
            cpus: Cpus(self.cpus),
            others: workload.others.iter().map(|(kind, wanted)| (*kind, Amount(*wanted))).collect(),
            pinned: None,
            excluded: BTreeSet::new(),
            windows: BTreeMap::new(),
        };
        let bandwidth = BitsPerSecond(workload.rate_bps);
        let link = |&(from, to): &(usize, usize)| LinkDemand {
            from,
            to,
            bandwidth,
            latency_max: None,
            window: None,
        };
        CoAllocation {
            sites: NAMES[..sites].iter().map(site).collect(),
            links: links.iter().map(link).collect(),
            timing: self.timing(workload.slack, day),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_seed_gives_one_workload_and_a_longer_one_begins_with_it() {
        let workload = Workload::default();
        assert_eq!(arrivals(&workload, 1, 60), arrivals(&workload, 1, 60));
        assert_ne!(arrivals(&workload, 1, 60), arrivals(&workload, 2, 60));
        assert_eq!(arrivals(&workload, 1, 60), arrivals(&workload, 1, 500)[..60]);
        let day = of_a_day(&workload, 1);
        assert_eq!(arrivals(&workload, 1, day.len()), day);
        assert!((360..490).contains(&day.len()), "424 on average, not {}", day.len());
    }

    #[test]
    fn the_load_of_a_day_is_that_of_its_computers() {
        // 232 CPUs for 1440 min, within a few percent over a hundred seeds. The site counts of the types were
        // derived from this load.
        let workload = Workload::default();
        let mut cpu_minutes = 0.0;
        for arrival in (0..100).flat_map(|seed| of_a_day(&workload, seed)) {
            let sites = arrival.shape(workload.type4).0 as f64;
            cpu_minutes += sites * arrival.cpus as f64 * arrival.minutes as f64;
        }
        let load = cpu_minutes / 100.0 / (232.0 * 1440.0);
        assert!((0.97..1.03).contains(&load), "{load}");
    }

    #[test]
    fn every_request_passes_admission() {
        let day = Time::from_us(1_795_348_800_000_000);
        for type4 in [Type4::Star, Type4::Ring, Type4::Mesh] {
            let workload = Workload { type4, ..Workload::default() };
            for arrival in arrivals(&workload, 3, 200) {
                assert_eq!(arrival.request(&workload, day).check(), Ok(()));
            }
        }
    }
}
