//! The requests of a soak: small ones in few days, sized after what the federation has, so that many fit and
//! some get into each other's way. Each is drawn from a random stream of its own: the same seed asks the
//! same, whatever became of the others.

use coalloc_common::{Span, Time};
use coalloc_net::convert::{span_to_wire, time_to_wire};
use coalloc_proto::v1;
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha20Rng;
use rand_distr::{Distribution, Uniform};

use crate::exit::{Exit, Failure};

/// Users, in turn.
const USERS: [&str; 2] = ["soak-A", "soak-B"];
/// Every second request begins within so many minutes, where they meet; the others within [`SPREAD_MIN`].
const CROWDED_MIN: i64 = 6 * 60;
/// Three days.
const SPREAD_MIN: i64 = 3 * 24 * 60;
/// Minutes before the first: no window begins while the soak runs.
const LEAD_MIN: i64 = 24 * 60;

/// What can be asked of a federation.
#[derive(Debug, Clone)]
pub struct Offers {
    seed: u64,
    start: Time,
    sites: usize,
    cpus_max: u64,
    rate_max: u64,
}

impl Offers {
    /// Sized after the federation.
    ///
    /// # Errors
    /// When it has no site.
    pub fn new(seed: u64, federation: &v1::DescribeFederationResponse) -> Result<Self, Failure> {
        let members =
            || federation.resource_managers.iter().filter_map(|member| member.description.as_ref());
        let sites: Vec<u64> = members().flat_map(|one| &one.sites).map(|site| site.cpus).collect();
        let paths = members().flat_map(|one| &one.paths).map(|path| path.capacity_bps).min();
        let Some(least) = sites.iter().min() else {
            let text = format!("{} knows of no site", federation.coordinator);
            return Err(Failure::new(Exit::CallFailed, text));
        };
        let start = coalloc_net::clock::now().wall.saturating_add(Span::from_secs(LEAD_MIN * 60));
        // Without a path there is nothing to join sites with.
        let joined = if paths.is_some() { sites.len().min(3) } else { 1 };
        let rate_max = paths.unwrap_or_default() / 5;
        Ok(Self { seed, start, sites: joined, cpus_max: (least / 8).max(1), rate_max })
    }

    /// The random stream of one customer.
    #[must_use]
    pub fn random(&self, index: u64) -> ChaCha20Rng {
        let mut random = ChaCha20Rng::seed_from_u64(self.seed);
        random.set_stream(index);
        random
    }

    /// A request.
    pub fn draw(&self, random: &mut impl Rng) -> v1::CoAllocationRequest {
        let sites = pick(random, self.sites.min(2) as u64, self.sites as u64) as usize;
        let (cpus, rate) = (self.cpus(random), self.rate(random));
        let spread = [CROWDED_MIN, SPREAD_MIN][pick(random, 0, 1) as usize];
        // Minutes of three days, and below.
        let earliest = pick(random, 0, spread as u64) as i64;
        let latest = earliest + pick(random, 0, 120) as i64;
        let minutes = [10, 30, 60][pick(random, 0, 2) as usize];
        let at = |minutes: i64| {
            Some(time_to_wire(self.start.saturating_add(Span::from_secs(minutes * 60))))
        };
        let name = |index: usize| format!("s{index}");
        let site = |index| v1::SiteRequest { name: name(index), cpus, ..Default::default() };
        let link = |index| v1::LinkRequest {
            from: name(index - 1),
            to: name(index),
            bandwidth_bps: rate,
            max_latency: None,
        };
        v1::CoAllocationRequest {
            sites: (0..sites).map(site).collect(),
            links: (1..sites).map(link).collect(),
            earliest_start: at(earliest),
            latest_start: at(latest),
            duration: Some(span_to_wire(Span::from_secs(minutes * 60))),
            user: USERS[pick(random, 0, 1) as usize].to_owned(),
        }
    }

    /// A new version of it: other amounts, another length, the start stays.
    pub fn change(
        &self,
        of: &v1::CoAllocationRequest,
        random: &mut impl Rng,
    ) -> v1::CoAllocationRequest {
        let mut changed = of.clone();
        (changed.earliest_start, changed.latest_start) = (None, None);
        let (cpus, rate) = (self.cpus(random), self.rate(random));
        changed.sites.iter_mut().for_each(|site| site.cpus = cpus);
        changed.links.iter_mut().for_each(|link| link.bandwidth_bps = rate);
        let minutes = [10, 20, 40, 90][pick(random, 0, 3) as usize];
        changed.duration = Some(span_to_wire(Span::from_secs(minutes * 60)));
        changed
    }

    fn cpus(&self, random: &mut impl Rng) -> u64 {
        pick(random, 1, self.cpus_max)
    }

    fn rate(&self, random: &mut impl Rng) -> u64 {
        pick(random, self.rate_max / 10, self.rate_max).max(1)
    }
}

/// One of `low..=high`.
pub(super) fn pick(random: &mut impl Rng, low: u64, high: u64) -> u64 {
    // Of reversed bounds the lower one.
    Uniform::new_inclusive(low, high.max(low)).map_or(low, |range| range.sample(random))
}

#[cfg(test)]
mod tests {
    use super::*;
    use coalloc_net::convert::request_from_wire;

    fn federation(sites: usize, paths: usize) -> v1::DescribeFederationResponse {
        let site = v1::Site { cpus: 16, ..Default::default() };
        let path = v1::Path { capacity_bps: 1_000_000_000, ..Default::default() };
        let description = Some(v1::DescribeResponse {
            sites: vec![site; sites],
            paths: vec![path; paths],
            ..Default::default()
        });
        let member = v1::ResourceManagerStatus { description, ..Default::default() };
        v1::DescribeFederationResponse { resource_managers: vec![member], ..Default::default() }
    }

    #[test]
    fn every_request_is_valid_and_small_and_one_seed_asks_the_same() {
        for (sites, paths, joined) in [(1, 0, 1), (2, 1, 2), (10, 4, 3), (3, 0, 1)] {
            let offers = Offers::new(7, &federation(sites, paths)).unwrap();
            for index in 0..300 {
                let request = offers.draw(&mut offers.random(index));
                assert_eq!(request, offers.draw(&mut offers.random(index)));
                let valid = request_from_wire(&request, Time::from_us(0)).unwrap();
                assert!(valid.timing.earliest_start >= offers.start);
                assert!(request.sites.len() <= joined && request.sites[0].cpus <= 2);
                assert!(request.links.iter().all(|link| link.bandwidth_bps <= 200_000_000));
                let changed = offers.change(&request, &mut offers.random(index));
                assert_eq!(changed.sites.len(), request.sites.len());
            }
        }
        assert!(Offers::new(7, &federation(0, 1)).is_err());
    }
}
