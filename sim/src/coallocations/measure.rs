//! Measures the results of a day.
//!
//! Takefusa 2010 draws success over the share of the day that has passed, in tenths: the point at 50 % is
//! about the requests that arrived in the fifth tenth, up to minute 720. The text can also be read as all
//! requests up to then, so both are measured. The load of a site at 50 % is the share of the reserved day
//! that is booked there by then.

use std::collections::BTreeMap;

use coalloc_common::Topology;

use super::settings::Settings;
use super::workload::Arrival;
use super::world::{RequestOutcome, Tally};
use crate::experiment::Measures;

/// Every metric of this model, and what it measures. For a curve, the text names its x axis.
pub const METRICS: &[(&str, &str)] = &[
    ("requests", "requests that arrived"),
    ("success", "share of all requests that were reserved"),
    ("success_USER", "the same for one user; USER in lower case"),
    (
        "success_at",
        "curve over load (%): share of the requests of each tenth of the day that were reserved",
    ),
    ("success_USER_at", "curve over load (%): the same for one user"),
    ("success_until", "curve over load (%): share of all requests up to then that were reserved"),
    ("success_USER_until", "curve over load (%): the same for one user"),
    ("load", "share of the CPUs of the whole reserved day that is booked at the end"),
    ("load_SITE", "curve over load (%): share of one site's CPUs that is booked by then"),
    ("load_in_DOMAIN", "curve over load (%): the same for all sites of a domain"),
    ("load_spread", "curve over load (%): largest less smallest load of a site"),
    ("late_min", "mean time from earliest start to start, min"),
    ("answer_ms", "mean time from arrival to answer, simulated, ms"),
    ("attempts", "transactions per request, opened by the coordinators that its user asked, mean"),
    (
        "attempts_lower",
        "transactions per request that child coordinators opened for their parents, mean",
    ),
    ("holds_refused", "share of holds that resource managers refused"),
    ("holds_refused_lower", "share of the holds of parents that child coordinators refused"),
    ("messages", "messages per request, questions and answers of all kinds, mean"),
    ("messages_upper", "messages per request between coordinators, mean"),
    ("by_lower", "share of the reserved requests that a child coordinator reserved for its user"),
    ("edges", "edges that one reserved request takes, mean"),
    ("cut_short", "share of the frames planned by a program that its time limit cut short"),
    ("compared_frames", "frames that the compared planner planned"),
    (
        "agreed",
        "share of these frames for which it gives what `exact` proves: a plan of that value, or \
         none",
    ),
    ("over_optimum", "value of its plans divided by the least value, mean"),
    ("cpu_value", "unit value of the reserved CPUs, mean per CPU"),
];

/// The metrics that are curves, over the load.
pub const CURVES: &[&str] = &[
    "success_at",
    "success_USER_at",
    "success_until",
    "success_USER_until",
    "load_SITE",
    "load_in_DOMAIN",
    "load_spread",
];

/// Number of points of a curve over load.
const TENTHS: usize = 10;

#[derive(Clone, Copy, Default)]
struct Share {
    of: u64,
    accepted: u64,
}

impl Share {
    fn count(&mut self, done: &RequestOutcome) {
        self.of += 1;
        self.accepted += u64::from(done.accepted);
    }
}

pub(super) fn measures(
    settings: &Settings,
    topology: &Topology,
    arrivals: &[Arrival],
    done: &[RequestOutcome],
    tally: &Tally,
) -> Measures {
    let mut measures = Measures::new();
    measures.put("requests", done.len() as f64);
    success(&mut measures, "success", settings, arrivals, done, |_| true);
    for (at, user) in settings.workload.users.iter().enumerate() {
        let name = format!("success_{}", user.to_lowercase());
        success(&mut measures, &name, settings, arrivals, done, |arrival| arrival.user == at);
    }
    loads(&mut measures, settings, topology, arrivals, done);
    let accepted: Vec<&RequestOutcome> = done.iter().filter(|done| done.accepted).collect();
    let mean = |sum: i128, count: usize, unit: f64| sum as f64 / count as f64 / unit;
    let sum = |of: fn(&RequestOutcome) -> i64, all: &[&RequestOutcome]| -> i128 {
        all.iter().map(|done| i128::from(of(done))).sum()
    };
    let all: Vec<&RequestOutcome> = done.iter().collect();
    measures.put("late_min", mean(sum(|done| done.late_us, &accepted), accepted.len(), 60e6));
    measures.put("answer_ms", mean(sum(|done| done.answered_us, &all), all.len(), 1e3));
    let attempts: u64 = done.iter().map(|done| done.attempts).sum();
    measures.put_share("attempts", attempts, done.len() as u64);
    let requests = done.len() as u64;
    measures.put_share("attempts_lower", tally.attempts_below, requests);
    let Tally { parent: upper, rms, .. } = tally;
    measures.put_share("holds_refused", rms.holds_refused, rms.holds);
    measures.put_share("holds_refused_lower", upper.holds_refused, upper.holds);
    measures.put_share("messages", upper.messages + rms.messages, requests);
    measures.put_share("messages_upper", upper.messages, requests);
    let by_lower = accepted.iter().filter(|done| done.by_lower).count() as u64;
    measures.put_share("by_lower", by_lower, accepted.len() as u64);
    measures.put_share("cut_short", tally.programs.1, tally.programs.0);
    if let Some(compared) = &tally.compared {
        measures.put("compared_frames", compared.frames as f64);
        measures.put_share("agreed", compared.agreed, compared.frames - compared.unproven);
        measures.put("over_optimum", compared.over_optimum / compared.both as f64);
    }
    let edges: u64 = accepted.iter().map(|done| done.edges).sum();
    measures.put_share("edges", edges, accepted.len() as u64);
    measures
}

/// The tenth of the day in which a request arrived, from 0.
fn tenth(settings: &Settings, arrival: &Arrival) -> usize {
    let day = settings.workload.day().as_us().max(1);
    let tenth = arrival.at.as_us() * TENTHS as i64 / day;
    // From 0 to 9, because requests arrive within the day.
    usize::try_from(tenth).unwrap_or(0).min(TENTHS - 1)
}

fn percent(tenth: usize) -> f64 {
    (100 * (tenth + 1) / TENTHS) as f64
}

fn success(
    measures: &mut Measures,
    name: &str,
    settings: &Settings,
    arrivals: &[Arrival],
    done: &[RequestOutcome],
    counts: impl Fn(&Arrival) -> bool,
) {
    let mut tenths = [Share::default(); TENTHS];
    for (arrival, done) in arrivals.iter().zip(done).filter(|(arrival, _)| counts(arrival)) {
        tenths[tenth(settings, arrival)].count(done);
    }
    let mut until = Share::default();
    for (at, share) in tenths.iter().enumerate() {
        until.of += share.of;
        until.accepted += share.accepted;
        let ratio = |share: Share| share.accepted as f64 / share.of as f64;
        measures.put_at(&format!("{name}_at"), percent(at), ratio(*share));
        measures.put_at(&format!("{name}_until"), percent(at), ratio(until));
    }
    measures.put_share(name, until.accepted, until.of);
}

fn loads(
    measures: &mut Measures,
    settings: &Settings,
    topology: &Topology,
    arrivals: &[Arrival],
    done: &[RequestOutcome],
) {
    let day = i128::from(settings.workload.day().as_us());
    let mut booked = vec![[0_i128; TENTHS]; topology.vertices().len()];
    let (mut value, mut cpu_us) = (0.0, 0.0);
    for (arrival, done) in arrivals.iter().zip(done) {
        for (site, amount) in &done.cpu_us {
            booked[*site][tenth(settings, arrival)] += amount;
            let compute = topology.vertices()[*site].compute.as_ref();
            value += *amount as f64 * compute.map_or(0, |compute| compute.unit_value.0) as f64;
            cpu_us += *amount as f64;
        }
    }
    let mut domains: BTreeMap<&str, [(i128, i128); TENTHS]> = BTreeMap::new();
    let mut ends = [(f64::INFINITY, f64::NEG_INFINITY); TENTHS];
    let (mut all, mut capacity) = (0, 0);
    for (vertex, own, compute) in topology.sites() {
        let there = i128::from(compute.capacity.0) * day;
        let domain = own.domain.as_ref().map(|domain| domain.as_str()).unwrap_or_default();
        let domain = domains.entry(domain).or_insert([(0, 0); TENTHS]);
        let mut until = 0;
        for (at, amount) in booked[vertex.at()].iter().enumerate() {
            until += amount;
            let load = until as f64 / there as f64;
            measures.put_at(&format!("load_{}", own.name), percent(at), load);
            ends[at] = (ends[at].0.min(load), ends[at].1.max(load));
            domain[at] = (domain[at].0 + until, domain[at].1 + there);
        }
        all += until;
        capacity += there;
    }
    for at in 0..TENTHS {
        measures.put_at("load_spread", percent(at), ends[at].1 - ends[at].0);
        for (domain, own) in &domains {
            let (until, there) = own[at];
            measures.put_at(&format!("load_in_{domain}"), percent(at), until as f64 / there as f64);
        }
    }
    measures.put("load", all as f64 / capacity as f64);
    measures.put("cpu_value", value / cpu_us);
}
