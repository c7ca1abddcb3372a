//! Smaller requests that would fit: less of one kind at sites, lower rates, both, or one site less.
//!
//! Each is the largest of its kind. What fits under a cap fits under every lower cap, so the
//! largest cap is found by bisection. Then each amount that the cap lowered without need is
//! restored. A planner, given as a function, decides what fits and supplies the plan. When its
//! budget ends before it knows ([`Trial::Unknown`]), the answer may be smaller than the largest
//! request that fits; it says so, and it always fits.

use coalloc_common::{Amount, BitsPerSecond, CoAllocation, ResourceKind, limits};

/// A smaller request with its plan. `P` is the caller's type for a plan.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SmallerRequest<P> {
    /// What is smaller, as a text for people: `3 CPUs a site instead of 8`.
    pub change: String,
    /// The smaller request.
    pub request: CoAllocation,
    /// Its plan.
    pub plan: P,
    /// Whether it is proven that no larger request of this kind fits. If not, the text of `change`
    /// says so, too.
    pub complete: bool,
}

/// Whether a request fits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Trial<P> {
    /// It fits, with this plan.
    Fits(P),
    /// It is proven that it does not fit.
    Not,
    /// The planner's budget ended before it was known.
    Unknown,
}

/// For a planner that proves all that it refuses.
impl<P> From<Option<P>> for Trial<P> {
    fn from(plan: Option<P>) -> Self {
        plan.map_or(Self::Not, Self::Fits)
    }
}

/// Of several places or times to fit into, the first that fits; unknown if any of the others was.
impl<P> FromIterator<Self> for Trial<P> {
    fn from_iter<I: IntoIterator<Item = Self>>(trials: I) -> Self {
        let mut whole = Self::Not;
        for trial in trials {
            match trial {
                Self::Fits(_) => return trial,
                Self::Unknown => whole = Self::Unknown,
                Self::Not => {}
            }
        }
        whole
    }
}

/// The planner as a function, with a note of what it left unknown.
struct Tries<'a, P> {
    fits: &'a mut dyn FnMut(&CoAllocation) -> Trial<P>,
    unknown: bool,
}

impl<P> Tries<'_, P> {
    fn plan(&mut self, tried: &CoAllocation) -> Option<P> {
        match (self.fits)(tried) {
            Trial::Fits(plan) => Some(plan),
            Trial::Not => None,
            Trial::Unknown => {
                self.unknown = true;
                None
            }
        }
    }

    /// The smaller request that these trials have led to. Its text admits what they left unknown.
    fn end(&mut self, mut change: String, request: CoAllocation, plan: P) -> SmallerRequest<P> {
        let complete = !std::mem::take(&mut self.unknown);
        if !complete {
            change.push_str(" (more may fit: the time was over before that was known)");
        }
        SmallerRequest { change, request, plan, complete }
    }
}

const MEGABIT: u64 = 1_000_000;

/// For a request that does not fit: the smaller requests that do. `fits` says of each request that
/// is tried whether it fits.
pub fn smaller<P>(
    request: &CoAllocation,
    fits: &mut dyn FnMut(&CoAllocation) -> Trial<P>,
) -> Vec<SmallerRequest<P>> {
    let tries = &mut Tries { fits, unknown: false };
    let mut found: Vec<SmallerRequest<P>> = Vec::new();
    for kind in std::iter::once(ResourceKind::Cpus).chain(ResourceKind::others()) {
        found.extend(smaller_at_sites(request, kind, tries));
    }
    let most = request.links.iter().map(|link| link.bandwidth.0).max().unwrap_or(0);
    let rates = largest(most.div_ceil(MEGABIT), tries, |cap| with_rates(request, cap * MEGABIT));
    if let Some((cap, capped, plan)) = rates {
        let restore = |smaller: &mut CoAllocation, at: usize| {
            let asked = request.links[at].bandwidth;
            std::mem::replace(&mut smaller.links[at].bandwidth, asked) != asked
        };
        let (smaller, plan) = restored(capped, plan, request.links.len(), restore, tries);
        let less = (0..)
            .zip(&request.links)
            .filter(|(at, link)| smaller.links[*at].bandwidth < link.bandwidth);
        let name = |site: usize| &request.sites[site].name;
        let less: Vec<(String, u64)> = less
            .map(|(_, link)| (format!("{}-{}", name(link.from), name(link.to)), link.bandwidth.0))
            .collect();
        let (all, cap) = (less.len() == request.links.len(), BitsPerSecond(cap * MEGABIT));
        let change =
            change(&cap.to_string(), "a link", all, &less, |n| BitsPerSecond(n).to_string());
        found.push(tries.end(change, smaller, plan));
    }
    if found.is_empty() && !request.links.is_empty() {
        let both = largest(100, tries, |percent| with_share(request, percent));
        found.extend(both.map(|(percent, smaller, plan)| {
            let what = match request.sites.iter().all(|site| site.others.is_empty()) {
                true => "CPUs",
                false => "amounts",
            };
            tries.end(format!("{percent} % of all {what} and rates"), smaller, plan)
        }));
    }
    if request.sites.len() > 2 {
        // The site with the fewest links is left out first, because the others need it least.
        let links = |site: usize| {
            request.links.iter().filter(|link| link.from == site || link.to == site).count()
        };
        let mut sites: Vec<usize> = (0..request.sites.len()).collect();
        sites.sort_by_key(|site| links(*site));
        let without = sites.into_iter().find_map(|site| {
            let rest = without_site(request, site);
            let plan = tries.plan(&rest)?;
            // Another site may be left out instead, so this one claims nothing of the others.
            tries.unknown = false;
            let change = format!("without {} and its links", request.sites[site].name);
            Some(tries.end(change, rest, plan))
        });
        found.extend(without);
    }
    found
}

/// The smaller request with less of one kind at sites.
fn smaller_at_sites<P>(
    request: &CoAllocation,
    kind: ResourceKind,
    tries: &mut Tries<'_, P>,
) -> Option<SmallerRequest<P>> {
    let most = request.sites.iter().map(|site| site.amount(kind).0).max().unwrap_or(0);
    let (cap, capped, plan) = largest(most, tries, |cap| with_at_most(request, kind, cap))?;
    let restore = |smaller: &mut CoAllocation, at: usize| {
        let (asked, now) = (request.sites[at].amount(kind), smaller.sites[at].amount(kind));
        smaller.sites[at].set_amount(kind, asked);
        now != asked
    };
    let (smaller, plan) = restored(capped, plan, request.sites.len(), restore, tries);
    let less = (0..)
        .zip(&request.sites)
        .filter(|(at, site)| smaller.sites[*at].amount(kind) < site.amount(kind));
    let less: Vec<(String, u64)> =
        less.map(|(_, site)| (site.name.to_string(), site.amount(kind).0)).collect();
    let all = less.len() == request.sites.len();
    let change = change(&kind.show(Amount(cap)), "a site", all, &less, |n| n.to_string());
    Some(tries.end(change, smaller, plan))
}

/// Restores what the cap lowered without need: each amount that can be as requested beside the
/// others.
fn restored<P>(
    mut smaller: CoAllocation,
    mut plan: P,
    amounts: usize,
    restore: impl Fn(&mut CoAllocation, usize) -> bool,
    tries: &mut Tries<'_, P>,
) -> (CoAllocation, P) {
    for at in 0..amounts {
        let mut tried = smaller.clone();
        if restore(&mut tried, at)
            && let Some(found) = tries.plan(&tried)
        {
            (smaller, plan) = (tried, found);
        }
    }
    (smaller, plan)
}

/// The text for [`SmallerRequest::change`]: `3 CPUs a site instead of 8`, `3 CPUs for a instead of
/// 8`.
fn change(
    cap: &str,
    each: &str,
    all: bool,
    less: &[(String, u64)],
    show: impl Fn(u64) -> String,
) -> String {
    let names: Vec<&str> = less.iter().map(|(name, _)| name.as_str()).collect();
    let whom = if all { each.to_owned() } else { format!("for {}", names.join(", ")) };
    let most = less.iter().map(|(_, asked)| *asked).max().unwrap_or(0);
    let up_to = if less.iter().all(|(_, asked)| *asked == most) { "" } else { "up to " };
    format!("{cap} {whom} instead of {up_to}{}", show(most))
}

/// The largest cap below `all` that fits, with its request and plan; `None` if not even a cap of 1
/// fits.
fn largest<P>(
    all: u64,
    tries: &mut Tries<'_, P>,
    capped: impl Fn(u64) -> CoAllocation,
) -> Option<(u64, CoAllocation, P)> {
    tries.unknown = false;
    if all <= 1 {
        return None;
    }
    let least = capped(1);
    let mut best = tries.plan(&least).map(|plan| (1, least, plan))?;
    let mut too_much = all;
    for _ in 0..limits::SMALLER_STEPS_MAX {
        let middle = best.0 + (too_much - best.0) / 2;
        if middle == best.0 {
            break;
        }
        let tried = capped(middle);
        match tries.plan(&tried) {
            Some(plan) => best = (middle, tried, plan),
            None => too_much = middle,
        }
    }
    Some(best)
}

fn with_at_most(request: &CoAllocation, kind: ResourceKind, cap: u64) -> CoAllocation {
    let mut smaller = request.clone();
    for site in &mut smaller.sites {
        site.set_amount(kind, site.amount(kind).min(Amount(cap)));
    }
    smaller
}

fn with_rates(request: &CoAllocation, cap: u64) -> CoAllocation {
    let mut smaller = request.clone();
    let cap = BitsPerSecond(cap);
    smaller.links.iter_mut().for_each(|link| link.bandwidth = link.bandwidth.min(cap));
    smaller
}

/// The given percentage of all amounts and rates, rounded up to whole units and Mbit/s, and never
/// more than requested.
fn with_share(request: &CoAllocation, percent: u64) -> CoAllocation {
    let mut smaller = request.clone();
    for site in &mut smaller.sites {
        let amounts: Vec<(ResourceKind, Amount)> = site.amounts().collect();
        for (kind, Amount(asked)) in amounts {
            site.set_amount(kind, Amount((asked * percent).div_ceil(100).min(asked)));
        }
    }
    for link in &mut smaller.links {
        let megabits = (link.bandwidth.0.div_ceil(100) * percent).div_ceil(MEGABIT);
        link.bandwidth = BitsPerSecond((megabits * MEGABIT).min(link.bandwidth.0));
    }
    smaller
}

fn without_site(request: &CoAllocation, gone: usize) -> CoAllocation {
    let mut smaller = request.clone();
    smaller.sites.remove(gone);
    smaller.links.retain(|link| link.from != gone && link.to != gone);
    let moved = |site: usize| if site > gone { site - 1 } else { site };
    for link in &mut smaller.links {
        (link.from, link.to) = (moved(link.from), moved(link.to));
    }
    smaller
}
