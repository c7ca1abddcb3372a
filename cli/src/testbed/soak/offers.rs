//! The requests of a soak: small requests within a few days, sized for the federation so that many fit and
//! some conflict.
//!
//! Each customer draws from its own random stream: the same seed gives the same requests, whatever became
//! of the others.

use coalloc_common::{Span, Time};
use coalloc_net::convert::{span_to_wire, time_to_wire};
use coalloc_proto::v1;
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha20Rng;
use rand_distr::{Distribution, Uniform};

use crate::kit::exit::{Exit, Failure};

/// The users, who take turns.
const USERS: [&str; 2] = ["soak-A", "soak-B"];
/// Every second request begins within this many minutes, so that requests conflict; the others within
/// [`SPREAD_MIN`].
const CROWDED_MIN: i64 = 6 * 60;
/// Three days, in minutes.
const SPREAD_MIN: i64 = 3 * 24 * 60;
/// Minutes before the first window begins, so that no window begins while the soak runs.
const LEAD_MIN: i64 = 24 * 60;

/// The resources of a federation that requests may ask for.
#[derive(Debug, Clone)]
pub struct OfferedResources {
    seed: u64,
    start: Time,
    sites: usize,
    cpus_max: u64,
    rate_max: u64,
}

impl OfferedResources {
    /// Sizes the requests for the federation.
    ///
    /// # Errors
    /// When the federation has no site.
    pub fn new(seed: u64, federation: &v1::DescribeFederationResponse) -> Result<Self, Failure> {
        let members =
            || federation.resource_managers.iter().filter_map(|member| member.description.as_ref());
        let sites: Vec<u64> = members().flat_map(|one| &one.sites).map(|site| site.cpus).collect();
        let paths = members().flat_map(|one| &one.paths).map(|path| path.capacity_bps).min();
        let Some(least) = sites.iter().min() else {
            let text = format!("{} knows no site", federation.coordinator);
            return Err(Failure::new(Exit::CallFailed, text));
        };
        let start = coalloc_net::clock::now().wall.saturating_add(Span::from_secs(LEAD_MIN * 60));
        // Without a path, sites cannot be linked.
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

    /// Draws a request.
    pub fn draw(&self, random: &mut impl Rng) -> v1::CoAllocationRequest {
        let sites = pick(random, self.sites.min(2) as u64, self.sites as u64) as usize;
        let (cpus, rate) = (self.cpus(random), self.rate(random));
        let spread = [CROWDED_MIN, SPREAD_MIN][pick(random, 0, 1) as usize];
        // The numbers are minutes of at most three days, so they fit.
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
            ..v1::LinkRequest::default()
        };
        v1::CoAllocationRequest {
            sites: (0..sites).map(site).collect(),
            links: (1..sites).map(link).collect(),
            earliest_start: at(earliest),
            latest_start: at(latest),
            duration: Some(span_to_wire(Span::from_secs(minutes * 60))),
            user: USERS[pick(random, 0, 1) as usize].to_owned(),
            manual_provision: None,
            series: String::new(),
        }
    }

    /// Draws a new version of a request: other amounts and another length, the same start.
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

/// Draws one of `low..=high`.
pub(super) fn pick(random: &mut impl Rng, low: u64, high: u64) -> u64 {
    // If the bounds are reversed, this is the lower one.
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
            let offers = OfferedResources::new(7, &federation(sites, paths)).unwrap();
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
        assert!(OfferedResources::new(7, &federation(0, 1)).is_err());
    }
}
