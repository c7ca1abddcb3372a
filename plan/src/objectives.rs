//! The value of a plan by each objective of Takefusa 2010, section 3.4, and how several objectives
//! are packed into the one number that a planner minimises.
//!
//! Inside a frame, every objective except the start is a sum over choices: sites at vertices, and
//! links over steps. [`Measure`] gives the terms as exact integers, in a unit that is fine enough
//! for the objective. What people see is rounded up once, at the end.
//!
//! [`Packing`] puts the objectives of a [`Ranking`] into one `u64` by weights. Each objective is
//! divided by the greatest common divisor of its terms, and weighs more than the largest sum of all
//! objectives after it. So the least packed sum is the lexicographic optimum. Where 63 bits are too
//! few, the least important objectives are counted in coarser steps, and the plan says so
//! ([`RankedPlan::coarse`]).
//!
//! Load (option A): the CPUs of a site count with the share of that site that is taken once they
//! are booked. A link counts with the share of each path that is taken, plus what one link of the
//! request's mean rate adds to it. Further kinds at a site count by their unit value only, in
//! preference: they have no price and no quality, and GB cannot be added to CPUs. When several links of a request share a path, none of them
//! counts the load of the others, because planners add and do not multiply.
//!
//! Price and load count in the window of each part, if it has one of its own. Quality and preference
//! count amounts alone.

use std::collections::BTreeMap;

use coalloc_common::kind::Combination;
use coalloc_common::price;
use coalloc_common::topology::{Direction, FrameView};
use coalloc_common::{
    BitsPerSecond, CoAllocation, EdgeIndex, Objective, PartWindow, Ranking, Refusal, ResourceKind,
    RmName, Segment, SiteDemand, Topology, Value, VertexIndex, Window, limits,
};

use crate::costs::{Costs, mbps, rate_unit_mbps};
use crate::ip::free_bps;
use crate::{Budget, FramePlanner, Instance, Outcome, Plan, Route};

/// The exact terms of every objective in one frame.
#[derive(Debug, Clone, Copy)]
pub struct Measure<'a> {
    topology: &'a Topology,
    request: &'a CoAllocation,
    view: &'a FrameView,
    rate_unit: u64,
    /// Mean rate of the request's links, in bit/s, rounded up.
    mean_rate: u64,
}

impl<'a> Measure<'a> {
    /// The measure for this request in this frame.
    #[must_use]
    pub fn new(topology: &'a Topology, request: &'a CoAllocation, view: &'a FrameView) -> Self {
        let sum: u64 = request.links.iter().map(|link| link.bandwidth.0).sum();
        let mean_rate = sum.div_ceil(request.links.len().max(1) as u64);
        Self { topology, request, view, rate_unit: rate_unit_mbps(request), mean_rate }
    }

    /// The term of a demand at a vertex, in the objective's fine unit; 0 at an exchange point.
    fn site(&self, objective: Objective, demand: &SiteDemand, at: VertexIndex) -> u128 {
        let vertex = self.topology.vertex(at);
        let Some(compute) = &vertex.compute else { return 0 };
        let amount = u128::from(demand.cpus.0);
        let part = demand.window(ResourceKind::Cpus);
        match objective {
            Objective::Start => 0,
            Objective::Price => {
                let price = compute.price.as_ref();
                let window = PartWindow::within(part, self.view.window);
                1000 * amount * price.map_or(0, |price| price.unit_price_us(window))
            }
            Objective::Quality => 1000 * amount * short_of_full(compute.quality),
            Objective::Load => {
                let capacity = u128::from(compute.capacity.0.max(1));
                let free = self.view.during(part).free_cpus[at.at()].0;
                let taken = compute.capacity.0.saturating_sub(free);
                (1_000_000 * amount * (u128::from(taken) + amount)).div_ceil(capacity)
            }
            Objective::Preference => u128::from(vertex.value_of(demand)),
        }
    }

    /// The term of one unit of rate on a step for a link with this window, in the objective's fine unit.
    fn step(
        &self,
        objective: Objective,
        part: Option<PartWindow>,
        index: EdgeIndex,
        direction: Direction,
    ) -> u128 {
        let edge = self.topology.edge(index);
        let unit = u128::from(self.rate_unit);
        match objective {
            Objective::Start => 0,
            Objective::Price => {
                let price = edge.price.as_ref();
                let window = PartWindow::within(part, self.view.window);
                unit * price.map_or(0, |price| price.unit_price_us(window))
            }
            Objective::Quality => unit * short_of_full(edge.quality),
            Objective::Load => {
                let free = free_bps(edge, index, direction, self.view.during(part));
                let taken = edge.capacity.0.saturating_sub(free).saturating_add(self.mean_rate);
                (1000 * unit * u128::from(taken)).div_ceil(u128::from(edge.capacity.0.max(1)))
            }
            Objective::Preference => unit * u128::from(edge.unit_value.0),
        }
    }

    /// A plan's value in the objective's fine unit. Plans are compared by this value.
    #[must_use]
    pub fn exact(&self, objective: Objective, sites: &[VertexIndex], routes: &[Route]) -> u128 {
        if objective == Objective::Start {
            return u128::from(self.view.window.start().as_us().unsigned_abs());
        }
        let demands = self.request.sites.iter().zip(sites);
        let placed: u128 = demands.map(|(site, at)| self.site(objective, site, *at)).sum();
        let links = self.request.links.iter().zip(routes).map(|(link, route)| {
            let units = u128::from(mbps(link.bandwidth).div_ceil(self.rate_unit));
            let step = |(edge, way): &_| self.step(objective, link.window, *edge, *way);
            units * route.iter().map(step).sum::<u128>()
        });
        placed + links.sum::<u128>()
    }
}

fn short_of_full(quality: u32) -> u128 {
    u128::from(limits::QUALITY_FULL.saturating_sub(quality))
}

/// Converts a value from the objective's fine unit to the unit that people see (see [`Objective`]),
/// rounded up.
#[must_use]
pub fn shown(objective: Objective, exact: u128) -> u64 {
    match objective {
        Objective::Price => price::millipoints(exact.div_ceil(1000)),
        Objective::Quality | Objective::Load => {
            u64::try_from(exact.div_ceil(1000)).unwrap_or(u64::MAX)
        }
        Objective::Start | Objective::Preference => u64::try_from(exact).unwrap_or(u64::MAX),
    }
}

/// What segments cost by the price schedules of their resources, in thousandths of a point, rounded
/// up once. It is for a reservation that was changed while it ran, so that no single plan describes
/// it. `None` if the topology lacks one of the resources: its price is then unknown.
#[must_use]
pub fn price_of(topology: &Topology, segments: &BTreeMap<RmName, Vec<Segment>>) -> Option<u64> {
    let sites = topology.sites().flat_map(|(_, vertex, _)| vertex.resources());
    let sites = sites.map(|of| ((of.rm, of.resource), (of.price, of.kind)));
    let edges = topology.edges().iter().flat_map(|edge| {
        let of = (edge.price.as_ref(), ResourceKind::Bandwidth);
        [Direction::AToB, Direction::BToA].map(|way| ((&edge.rm, edge.resource(way)), of))
    });
    let prices: BTreeMap<_, _> = sites.chain(edges).collect();
    let mut sum = 0;
    for (rm, segment) in segments.iter().flat_map(|(rm, own)| own.iter().map(move |s| (rm, s))) {
        let (price, kind) = prices.get(&(rm, &segment.resource))?;
        // In the fine unit of `Measure`.
        let amount = match kind.combination() {
            Combination::AtOneSite => 1000 * u128::from(segment.amount.0),
            Combination::OnEveryPath => u128::from(mbps(BitsPerSecond(segment.amount.0))),
        };
        sum += amount * price.map_or(0, |price| price.unit_price_us(segment.window));
    }
    Some(shown(Objective::Price, sum))
}

/// One objective in a packed number.
#[derive(Debug, Clone, Copy)]
struct Part {
    objective: Objective,
    /// What one unit of the objective adds to the packed number.
    weight: u64,
    /// One more than the largest sum of the objective, in units.
    range: u64,
    /// How many fine units make one unit.
    unit: u128,
    /// Whether a unit is coarser than the greatest common divisor of all terms.
    coarse: bool,
}

/// The objectives of a ranking packed into one number, for one frame.
#[derive(Debug, Clone)]
pub struct Packing<'a> {
    measure: Measure<'a>,
    ranking: Ranking,
    parts: Vec<Part>,
    /// The instance that a planner has to solve.
    pub instance: Instance<'a>,
}

/// Packed numbers stay below this, because planners add them in 64 bits.
const PACKED_MAX: u128 = 1 << 63;

impl<'a> Packing<'a> {
    /// Packs the objectives that count, for routes of at most `route_edges` edges.
    #[must_use]
    pub fn new(
        topology: &'a Topology,
        request: &'a CoAllocation,
        view: &'a FrameView,
        ranking: Ranking,
        route_edges: usize,
    ) -> Self {
        let measure = Measure::new(topology, request, view);
        let open = Open::of(&measure);
        let mut parts: Vec<Part> = Vec::with_capacity(Objective::ALL.len());
        let mut room = PACKED_MAX;
        for objective in ranking.counting().iter().filter(|o| **o != Objective::Start) {
            let part = open.part(&measure, *objective, route_edges, room);
            room /= u128::from(part.range);
            parts.push(part);
        }
        let mut weight = 1;
        for part in parts.iter_mut().rev() {
            part.weight = weight;
            weight = weight.saturating_mul(part.range);
        }
        let packed = |term: &dyn Fn(Objective) -> u128| {
            let sum = |sum: u64, part: &Part| {
                // A term that no plan can choose may be larger than the range, so it is capped.
                let units = term(part.objective) / part.unit;
                let units = u64::try_from(units).unwrap_or(u64::MAX).min(part.range - 1);
                sum.saturating_add(part.weight.saturating_mul(units))
            };
            parts.iter().fold(0, sum)
        };
        let costs = Costs::new(
            topology,
            request,
            |demand, at| packed(&|objective| measure.site(objective, demand, at)),
            |part, edge, way| packed(&|objective| measure.step(objective, part, edge, way)),
        );
        let instance = Instance { topology, request, view, costs };
        Self { measure, ranking, parts, instance }
    }

    /// Gives the values of a plan of this instance.
    #[must_use]
    pub fn judge(&self, plan: Plan) -> RankedPlan {
        let exact = |objective| self.measure.exact(objective, &plan.placements, &plan.routes);
        let values = self.ranking.all().map(|objective| (objective, exact(objective)));
        let coarse = self.parts.iter().filter(|part| part.coarse);
        let milli = shown(Objective::Preference, exact(Objective::Preference));
        let coarse: Vec<Objective> = coarse.map(|part| part.objective).collect();
        RankedPlan {
            lower_bound: Value { milli: self.preference_bound(&plan).min(milli) },
            proven_optimal: plan.is_proven_optimal() && coarse.is_empty(),
            preference: Value { milli },
            key: self.ranking.counting().iter().map(|objective| exact(*objective)).collect(),
            values: values.map(|(objective, exact)| (objective, shown(objective, exact))).to_vec(),
            coarse,
            solver: plan.solver,
            plan,
        }
    }

    /// A lower bound of preference, in thousandths of a point: every plan of the frame that is as
    /// good in all objectives ranked before preference has at least this much.
    fn preference_bound(&self, plan: &Plan) -> u64 {
        let (mut bound, mut cost) = (plan.lower_bound, plan.cost);
        for part in &self.parts {
            let (least, has) = (bound / part.weight, cost / part.weight);
            if part.objective == Objective::Preference {
                return u64::try_from(u128::from(least) * part.unit).unwrap_or(u64::MAX);
            }
            if least < has {
                return 0;
            }
            (bound, cost) = (bound % part.weight, cost % part.weight);
        }
        0
    }
}

/// The choices that are open in a frame. No plan of the frame contains any other choice.
struct Open<'a> {
    /// For each requested site: what it wants, and the vertices that have so much free.
    sites: Vec<(&'a SiteDemand, Vec<VertexIndex>)>,
    /// For each window that links have: the steps on which the least rate requested in it is free.
    steps: Vec<(Option<PartWindow>, EdgeIndex, Direction)>,
    /// The units of rate of all requested links together.
    units: u128,
}

impl<'a> Open<'a> {
    fn of(measure: &Measure<'a>) -> Self {
        let Measure { topology, request, view, rate_unit, .. } = measure;
        let sites = request.sites.iter().map(|site| {
            let open = topology.sites().map(|(at, _, _)| at);
            let open = open.filter(|at| view.fits(site, *at));
            (site, open.collect())
        });
        let mut least: BTreeMap<Option<PartWindow>, BitsPerSecond> = BTreeMap::new();
        for link in &request.links {
            let rate = least.entry(link.window).or_insert(link.bandwidth);
            *rate = link.bandwidth.min(*rate);
        }
        // There are at most EDGES_MAX edges, so the cast keeps the value.
        let edges = (0..topology.edges().len() as u32).map(EdgeIndex);
        let steps = least.iter().flat_map(|(part, least)| {
            let view = view.during(*part);
            edges.clone().flat_map(move |edge| {
                let free = view.free_bps[edge.at()];
                let ways = [Direction::AToB, Direction::BToA].into_iter();
                ways.filter(move |way| free[way.at()] >= *least).map(move |way| (*part, edge, way))
            })
        });
        let units = request.links.iter().map(|link| mbps(link.bandwidth).div_ceil(*rate_unit));
        Self { sites: sites.collect(), steps: steps.collect(), units: units.map(u128::from).sum() }
    }

    /// The part of one objective, with a unit so coarse that its range fits into `room`.
    fn part(
        &self,
        measure: &Measure<'_>,
        objective: Objective,
        route_edges: usize,
        room: u128,
    ) -> Part {
        let mut unit = 0;
        let mut most = 0;
        for (demand, open) in &self.sites {
            let mut dearest = 0;
            for at in open {
                let term = measure.site(objective, demand, *at);
                unit = gcd(unit, term);
                dearest = dearest.max(term);
            }
            most += dearest;
        }
        let mut dearest = 0;
        for (part, edge, way) in &self.steps {
            let term = measure.step(objective, *part, *edge, *way);
            unit = gcd(unit, term);
            dearest = dearest.max(term);
        }
        most += self.units * route_edges as u128 * dearest;
        let exact = unit.max(1);
        let most = most / exact;
        // Terms are rounded down to multiples of `coarser`, so the largest sum is below `room`.
        let coarser = if most < room { 1 } else { most / room + 1 };
        // Below 2^63, by the line above.
        let range = (most / coarser + 1) as u64;
        Part { objective, weight: 1, range, unit: exact * coarser, coarse: coarser > 1 }
    }
}

fn gcd(a: u128, b: u128) -> u128 {
    if b == 0 { a } else { gcd(b, a % b) }
}

/// A plan and its values.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RankedPlan {
    /// The plan.
    pub plan: Plan,
    /// The value of every objective in the unit that people see (see [`Objective`]), in the order
    /// of the ranking.
    pub values: Vec<(Objective, u64)>,
    /// The plan's value by Eq. (3).
    pub preference: Value,
    /// A lower bound of `preference` over all plans of the frame that are as good in every
    /// objective ranked before it.
    pub lower_bound: Value,
    /// Whether it is proven that no plan of its frame is better.
    pub proven_optimal: bool,
    /// Objectives that were counted in coarser steps than their terms have, because 63 bits were
    /// too few. Among plans that are equal in every objective before these, the best one by these
    /// may have been missed.
    pub coarse: Vec<Objective>,
    /// The solver that made the plan, see [`Plan::solver`].
    pub solver: &'static str,
    /// The exact values of the objectives that count, in the order of the ranking.
    key: Vec<u128>,
}

/// The answer for one frame.
pub type Answer = Result<RankedPlan, Refusal>;

impl Packing<'_> {
    /// Lets a planner solve this frame, and gives the values of the plan it found.
    pub fn solve(&self, planner: &dyn FramePlanner, budget: &Budget<'_>) -> Answer {
        match planner.plan(&self.instance, budget) {
            Outcome::Planned(plan) => Ok(self.judge(plan)),
            Outcome::Refused(refusal) => Err(refusal),
        }
    }
}

/// Sorts plans, the best first, by the ranking that all of them were measured by. Ties go by
/// window, placements and routes, so that the order is always the same.
pub fn sort(plans: &mut [RankedPlan]) {
    plans.sort_by(|a, b| {
        let places = |judged: &RankedPlan| (judged.plan.window, judged.plan.placements.clone());
        let keys = a.key.cmp(&b.key);
        keys.then_with(|| places(a).cmp(&places(b))).then_with(|| a.plan.routes.cmp(&b.plan.routes))
    });
}

/// Stage 2iv of Takefusa 2010, section 3.1. Returns the best `count` plans of all frames, the best
/// first, and the refusals of the frames without a plan, the earliest first.
#[must_use]
pub fn best(
    answers: Vec<(Window, Answer)>,
    count: usize,
) -> (Vec<RankedPlan>, Vec<(Window, Refusal)>) {
    let (mut plans, mut refused) = (Vec::new(), Vec::new());
    for (window, answer) in answers {
        match answer {
            Ok(plan) => plans.push(plan),
            Err(refusal) => refused.push((window, refusal)),
        }
    }
    sort(&mut plans);
    plans.truncate(count);
    refused.sort_by_key(|(window, _)| window.start());
    (plans, refused)
}
