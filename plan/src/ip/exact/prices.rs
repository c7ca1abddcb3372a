//! Prices on what is free: a bound on joint routing that sees how links compete (a Lagrangian
//! relaxation of Eq. 8).
//!
//! Each resource has a price for a unit of rate. Every link takes the route that is cheapest with
//! its prices, by itself; what all that is free is worth at these prices is subtracted. Whatever
//! the prices are, no routes that fit together cost less (Geoffrion 1974). The best prices give the
//! bound of the linear relaxation over all routes of at most N_max edges, without listing routes:
//! a route enters when it is the cheapest (as columns are priced out). The prices rise where too
//! many links want to go, and fall elsewhere: a subgradient method with the steps of Polyak (1969).
//! Where no routes fit together, the bound rises beyond every cost.
//!
//! Exact: prices and costs are integers, so the bound is one, too. Steps are computed with floating
//! point numbers by operations that give the same result on every machine.
//!
//! Left out: latencies. A route that is too slow may count, which only lowers the bound.

use super::meter::Meter;
use super::network::{Link, NONE, Network, Path};
use super::routing::{RoutingInput, Rule, STAYS, UnroutedLink};

/// Costs are scaled so that the limit is about this number.
const SCALE: u64 = 1 << 32;
/// The largest rate in units.
const UNITS_MAX: u64 = 1 << 10;

/// How a link may take a resource.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Passage {
    /// At the price of the resource.
    Priced,
    /// Its share there is set aside for it.
    Kept,
    Closed,
}

/// Links that are routed together under rules.
#[derive(Clone, Copy)]
pub(super) struct PricedCase<'a> {
    pub(super) ground: RoutingInput<'a>,
    pub(super) errands: &'a [UnroutedLink],
    pub(super) rules: &'a [Rule],
    /// What is set aside for links that stay, by resource and period, in bit/s.
    pub(super) kept: &'a [u64],
}

impl PricedCase<'_> {
    fn passage(&self, link: usize, resource: u32) -> Passage {
        let mut own = self.rules.iter().filter(|rule| rule.resource == resource);
        match own.find(|rule| rule.link == link) {
            Some(rule) if rule.mark == STAYS => Passage::Kept,
            Some(_) => Passage::Closed,
            None => {
                let Link { rate, periods: (begin, end), .. } = self.ground.links[link];
                let network = self.ground.network;
                let first = resource as usize * network.periods;
                let short = |at: usize| network.free[at] < self.kept[at].saturating_add(rate);
                match (first + begin..first + end).any(short) {
                    true => Passage::Closed,
                    false => Passage::Priced,
                }
            }
        }
    }
}

/// The result of one evaluation of the bound.
struct Priced {
    /// The sum of all links' priced costs less what is free, scaled; `None` if a link has no route.
    bound: Option<i128>,
    /// Whether all routes fit together.
    fits: bool,
}

/// Prices, and the routes of each link at these prices.
#[derive(Default)]
pub(super) struct Prices {
    /// By resource and period.
    price: Vec<u64>,
    /// The prices that gave the best bound.
    good: Vec<u64>,
    /// What the routes take beyond what is free, in units of rate.
    excess: Vec<i64>,
    touched: Vec<u32>,
    /// The priced routes, by link.
    paths: Vec<Path>,
    unit: u64,
    /// Costs are multiplied by the one and shifted right by the other.
    factor: u64,
    shift: u32,
    cap: u64,
    /// No routes that fit together cost less, by the last [`Prices::raise`].
    least: u64,
    walk: Walk,
}

/// Scratch memory: cheapest walks from one vertex, by their number of edges.
#[derive(Default)]
struct Walk {
    cost: Vec<u64>,
    /// By round and vertex, the step that led there; [`NONE`] where the round changed nothing.
    steps: Vec<u32>,
    /// By round and vertex, the vertex before.
    from: Vec<u32>,
    front: Vec<u32>,
    next: Vec<u32>,
    fresh: Vec<(u32, u64, u32, u32)>,
}

impl Prices {
    /// Begins anew, with all prices zero. Routes that cost `limit` or more together are of no use.
    pub(super) fn begin(&mut self, ground: RoutingInput<'_>, limit: u64) {
        let RoutingInput { network, links, .. } = ground;
        self.price.clear();
        self.price.resize(network.free.len(), 0);
        self.good.clone_from(&self.price);
        self.touched.clear();
        self.excess.clear();
        self.excess.resize(network.free.len(), 0);
        self.paths.clear();
        self.paths.resize(links.len(), Path::EMPTY);
        let common = links.iter().fold(0, |common, link| gcd(common, link.rate));
        let most = links.iter().map(|link| link.rate).max().unwrap_or(1);
        self.unit = common.max(most / UNITS_MAX).max(1);
        // No price need exceed the limit, for any link.
        self.cap = 2 * SCALE;
        self.factor = (SCALE / limit.saturating_add(1).max(1)).max(1);
        self.shift = 0;
        while (limit >> self.shift) > SCALE {
            self.shift += 1;
        }
    }

    /// The limit that a bound has to reach, scaled.
    fn scaled_limit(&self, limit: u64) -> i128 {
        if self.shift > 0 {
            i128::from(limit >> self.shift) + 1
        } else {
            i128::from(limit.saturating_sub(1)) * i128::from(self.factor) + 1
        }
    }

    fn scaled(&self, cost: u64) -> u64 {
        if self.shift > 0 { cost >> self.shift } else { cost.saturating_mul(self.factor) }
    }

    /// The bound at the present prices.
    fn evaluate(&mut self, case: &PricedCase<'_>) -> Priced {
        let PricedCase { ground, errands, kept, .. } = *case;
        let network = ground.network;
        for at in self.touched.drain(..) {
            self.excess[at as usize] = 0;
        }
        let mut bound = 0i128;
        let mut free_of_excess = true;
        for UnroutedLink { link, start, end, .. } in errands.iter().copied() {
            let passage = |resource| case.passage(link, resource);
            let Some(cost) = self.route(ground, link, (start, end), passage) else {
                return Priced { bound: None, fits: false };
            };
            bound += i128::from(cost);
            let Link { rate, periods: (begin, until), .. } = ground.links[link];
            for code in self.paths[link].codes() {
                let resource = network.resource(*code) as u32;
                if case.passage(link, resource) == Passage::Kept {
                    continue;
                }
                let first = resource as usize * network.periods;
                for at in first + begin..first + until {
                    if self.excess[at] == 0 {
                        self.touched.push(at as u32);
                    }
                    // In units of at most UNITS_MAX, for at most REQUEST_LINKS_MAX links.
                    self.excess[at] += (rate / self.unit) as i64;
                }
            }
        }
        let left = |at: usize| network.free[at].saturating_sub(kept[at]) / self.unit;
        for (at, price) in self.price.iter().enumerate().filter(|(_, price)| **price > 0) {
            bound -= i128::from(*price) * i128::from(left(at));
        }
        for at in &self.touched {
            let at = *at as usize;
            free_of_excess &= self.excess[at] <= i64::try_from(left(at)).unwrap_or(i64::MAX);
        }
        Priced { bound: Some(bound), fits: free_of_excess }
    }

    /// Changes the prices after an evaluation, by a step that would raise the bound by `rise` if the
    /// routes stayed the same.
    fn step(&mut self, case: &PricedCase<'_>, rise: i128) {
        let (network, kept) = (case.ground.network, case.kept);
        let left = |at: usize| {
            i64::try_from(network.free[at].saturating_sub(kept[at]) / self.unit).unwrap_or(i64::MAX)
        };
        let mut norm = 0.0;
        let mut slopes: Vec<(usize, i64)> = Vec::new();
        for at in 0..self.price.len() {
            if self.price[at] == 0 && self.excess[at] == 0 {
                continue;
            }
            let slope = self.excess[at].saturating_sub(left(at));
            // A price of zero cannot fall.
            if slope > 0 || self.price[at] > 0 {
                norm += slope as f64 * slope as f64;
                slopes.push((at, slope));
            }
        }
        if norm <= 0.0 {
            return;
        }
        let length = rise.max(1) as f64 / norm;
        for (at, slope) in slopes {
            let price = self.price[at] as f64 + length * slope as f64;
            // Within 0 and the cap, so the cast keeps the whole part.
            self.price[at] = price.clamp(0.0, self.cap as f64) as u64;
        }
    }

    /// Raises the bound by up to `most` evaluations, as long as it is below `limit`. Calls `found`
    /// whenever the routes at these prices fit together. False when the bound has reached the
    /// limit, so that no routes that fit together cost less.
    pub(super) fn raise(
        &mut self,
        case: &PricedCase<'_>,
        most: usize,
        limit: u64,
        meter: &mut Meter<'_>,
        found: &mut dyn FnMut(&[Path]),
    ) -> bool {
        let target = self.scaled_limit(limit);
        let mut best: Option<i128> = None;
        let (mut rise, mut failed) = (0i128, 0);
        for _ in 0..most {
            if !meter.tick() {
                break;
            }
            let priced = self.evaluate(case);
            let Some(bound) = priced.bound.filter(|bound| *bound < target) else { return false };
            if priced.fits {
                found(&self.paths);
                // The prices cannot show more than these routes, unless some is paid for nothing.
                if self.price.iter().all(|price| *price == 0) {
                    break;
                }
            }
            match best {
                Some(best) if bound <= best => {
                    failed += 1;
                    if failed == 2 {
                        (rise, failed) = (rise / 2, 0);
                        self.price.clone_from(&self.good);
                        if rise * 200 < best.abs() || rise < 2 {
                            break;
                        }
                        self.evaluate(case);
                        self.step(case, rise);
                        continue;
                    }
                }
                _ => {
                    rise = match best {
                        None => (target - bound).min(bound.abs().max(i128::from(SCALE / 16))) / 2,
                        Some(_) => rise + rise / 4,
                    };
                    best = Some(bound);
                    failed = 0;
                    self.good.clone_from(&self.price);
                }
            }
            self.step(case, rise);
        }
        self.price.clone_from(&self.good);
        self.least = best.map_or(0, |best| self.unscaled(best));
        true
    }

    /// What no routes that fit together cost less than, by the last [`Prices::raise`] that did not
    /// reach its limit.
    pub(super) const fn least(&self) -> u64 {
        self.least
    }

    /// The least cost of what costs as much as this when it is scaled.
    fn unscaled(&self, bound: i128) -> u64 {
        let Ok(bound) = u64::try_from(bound) else { return 0 };
        // The bound is below the limit, so nothing is lost on the left.
        if self.shift > 0 { bound << self.shift } else { bound.div_ceil(self.factor) }
    }

    /// Routes link after link at the present prices, each around what those before it have filled:
    /// the dearest first. `None` when one has no route left.
    pub(super) fn fill(&mut self, case: &PricedCase<'_>) -> Option<Vec<Path>> {
        let PricedCase { ground, errands, .. } = *case;
        let network = ground.network;
        let nothing = PricedCase { rules: &[], ..*case };
        self.evaluate(&nothing).bound?;
        let mut order: Vec<(std::cmp::Reverse<u64>, usize)> = errands
            .iter()
            .enumerate()
            .map(|(at, errand)| {
                let codes = self.paths[errand.link].codes();
                let prices = codes.iter().map(|code| {
                    self.price[network.resource(*code) * network.periods].saturating_add(1)
                });
                (std::cmp::Reverse(prices.sum()), at)
            })
            .collect();
        order.sort_unstable();
        let mut load = vec![0u64; network.free.len()];
        for (_, at) in order {
            let UnroutedLink { link, start, end, .. } = errands[at];
            let Link { rate, periods: (begin, until), .. } = ground.links[link];
            let fits = |at: usize| network.free[at] >= load[at].saturating_add(rate);
            let passage = |resource: u32| {
                let first = resource as usize * network.periods;
                match (first + begin..first + until).all(fits) {
                    true => Passage::Priced,
                    false => Passage::Closed,
                }
            };
            self.route(ground, link, (start, end), passage)?;
            for code in self.paths[link].codes() {
                let first = network.resource(*code) * network.periods;
                load[first + begin..first + until].iter_mut().for_each(|load| *load += rate);
            }
        }
        Some(self.paths.clone())
    }

    /// Finds the cheapest priced route of a link, and returns its priced cost.
    fn route(
        &mut self,
        ground: RoutingInput<'_>,
        link: usize,
        (start, end): (u32, u32),
        passage: impl Fn(u32) -> Passage,
    ) -> Option<u64> {
        let network = ground.network;
        let Link { class, rate, periods: (begin, until), .. } = ground.links[link];
        let class = ground.classes[class];
        let layer = network.layer(class);
        let units = rate / self.unit;
        let mut walk = std::mem::take(&mut self.walk);
        walk.begin(network.vertices(), start);
        for round in 0..network.edges_max {
            walk.open_round(network.vertices());
            for at in 0..walk.front.len() {
                let from = walk.front[at];
                let spent = walk.cost[from as usize];
                for step in layer.steps(from) {
                    let resource = step.out as usize;
                    if layer.free[resource] < class.rate {
                        continue;
                    }
                    let way = passage(step.out);
                    if way == Passage::Closed {
                        continue;
                    }
                    let own = self.scaled(step.unit.saturating_mul(class.units));
                    let mut cost = spent.saturating_add(own);
                    if way == Passage::Priced {
                        let first = resource * network.periods;
                        let price: u64 = self.price[first + begin..first + until].iter().sum();
                        cost = cost.saturating_add(price * units);
                    }
                    // The end is reached for less already, or this way is no better than another.
                    if cost < walk.cost[end as usize].min(walk.cost[step.to as usize]) {
                        walk.fresh.push((step.to, cost, step.code, from));
                    }
                }
            }
            if !walk.close_round(round, network.vertices()) {
                break;
            }
        }
        let cost = walk.cost[end as usize];
        let found = (cost != u64::MAX).then(|| {
            self.paths[link] = walk.path(layer, class.units, end, start);
            cost
        });
        self.walk = walk;
        found
    }
}

impl Walk {
    fn begin(&mut self, vertices: usize, start: u32) {
        self.cost.clear();
        self.cost.resize(vertices, u64::MAX);
        self.cost[start as usize] = 0;
        self.steps.clear();
        self.from.clear();
        self.front.clear();
        self.front.push(start);
    }

    fn open_round(&mut self, vertices: usize) {
        let rounds = self.steps.len() + vertices;
        self.steps.resize(rounds, NONE);
        self.from.resize(rounds, NONE);
        self.fresh.clear();
    }

    /// Takes over what the round has found. False when that is nothing.
    fn close_round(&mut self, round: usize, vertices: usize) -> bool {
        self.next.clear();
        for (to, cost, code, from) in self.fresh.drain(..) {
            if cost < self.cost[to as usize] {
                let slot = round * vertices + to as usize;
                if self.steps[slot] == NONE {
                    self.next.push(to);
                }
                self.cost[to as usize] = cost;
                self.steps[slot] = code;
                self.from[slot] = from;
            }
        }
        std::mem::swap(&mut self.front, &mut self.next);
        !self.front.is_empty()
    }

    /// The route to a vertex, by the last round that reached it.
    fn path(&self, layer: &Network, units: u64, end: u32, start: u32) -> Path {
        let vertices = layer.vertices();
        let mut path = Path::EMPTY;
        let (mut at, mut before) = (end, self.steps.len() / vertices);
        while at != start && before > 0 {
            before -= 1;
            let slot = before * vertices + at as usize;
            if self.steps[slot] != NONE {
                let code = self.steps[slot];
                path.push(code);
                at = self.from[slot];
                let step = layer.steps(at).iter().find(|step| step.code == code);
                path.cost += step.map_or(0, |step| step.unit * units);
            }
        }
        path.reverse();
        path
    }
}

const fn gcd(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { gcd(b, a % b) }
}
