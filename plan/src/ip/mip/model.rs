//! The model in the terms of the libraries: binary columns with a cost each, and rows between
//! bounds.
//!
//! Eq. (1) and (2) are the columns: x for every site and every vertex at which it could be placed,
//! so Eq. (6), pins and exclusions are columns that do not exist; and y for every link and every
//! directed step on whose edge the link's rate is free. Eq. (3) is the cost, in units of the
//! greatest common divisor of all costs. Eq. (4), (5), (7) with (11), (8), (9), (10) and the
//! latency bounds are the rows.
//!
//! Coefficients are whole numbers divided by their common divisor, so a row that is violated is
//! violated by at least 1, and tolerances do no harm. Where rates or latencies differ too much for
//! that, floating point gets a rounded row that is never tighter than the exact one.
//! [`Model::overstepped`] then excludes the plans that exceed it.

use coalloc_common::topology::{Direction, FrameView};
use coalloc_common::{CoAllocation, EdgeIndex, PartWindow, Topology, VertexIndex};

use crate::ip::admit::Candidates;
use crate::ip::{IpOptions, free_bps};
use crate::{Instance, Plan};

/// Largest coefficient in an exact row after division by the common divisor: an integrality
/// tolerance of 1e-6 on each column then adds up to far less than 1.
const RATIO_MAX: u64 = 10_000;

/// The choice that a column stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::ip) enum Choice {
    /// x: this site is placed at this vertex.
    Place { site: usize, vertex: u32 },
    /// y: this link takes this step.
    Step { link: usize, edge: EdgeIndex, direction: Direction },
}

/// `low <= sum of terms <= high`, terms as (column, coefficient).
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::ip) struct Row {
    pub(in crate::ip) low: i64,
    pub(in crate::ip) high: i64,
    pub(in crate::ip) terms: Vec<(usize, i64)>,
    /// The largest coefficient, where the coefficients differ too much for floating point.
    unlike: Option<i64>,
}

impl Row {
    pub(in crate::ip) const fn new(low: i64, high: i64, terms: Vec<(usize, i64)>) -> Self {
        Self { low, high, terms, unlike: None }
    }

    /// The bounds for floating point: exact, or in units of the largest coefficient and slightly
    /// wider.
    pub(in crate::ip) fn float_bounds(&self) -> (f64, f64) {
        let (low, high) = (self.low as f64, self.high as f64);
        match self.unlike {
            None => (low, high),
            Some(unit) => (low / unit as f64, high / unit as f64 + 1e-6),
        }
    }

    /// The terms in the unit of [`Self::float_bounds`].
    pub(in crate::ip) fn float_terms(&self) -> impl Iterator<Item = (usize, f64)> {
        let unit = self.unlike.unwrap_or(1) as f64;
        self.terms.iter().map(move |(column, by)| (*column, *by as f64 / unit))
    }
}

/// The model of one frame.
#[derive(Debug, Clone, Default)]
pub(in crate::ip) struct Model {
    pub(in crate::ip) choices: Vec<Choice>,
    /// The cost of each column, in units.
    pub(in crate::ip) costs: Vec<u64>,
    /// The cost of one unit of the objective.
    pub(in crate::ip) unit: u64,
    pub(in crate::ip) rows: Vec<Row>,
    /// Whether some row is rounded up.
    pub(in crate::ip) rounded: bool,
    /// The first step column of each link, and the end of the last.
    steps: Vec<usize>,
}

/// The step columns of one link, by edge and direction; `usize::MAX` where there is none.
type StepTable = Vec<[usize; 2]>;

impl Model {
    pub(in crate::ip) fn new(
        instance: &Instance<'_>,
        options: &IpOptions,
        candidates: &Candidates,
    ) -> Self {
        let Instance { topology, request, view, .. } = instance;
        let mut model = Self::default();
        let mut costs = Vec::new();
        model.add_places(instance, candidates, &mut costs);
        let mut tables = Vec::new();
        for link in 0..request.links.len() {
            tables.push(model.add_steps(instance, link, &mut costs));
        }
        model.steps.push(model.choices.len());
        model.unit = costs.iter().fold(0, |unit, cost| gcd(unit, *cost)).max(1);
        model.costs = costs.iter().map(|cost| cost / model.unit).collect();
        for (link, table) in tables.iter().enumerate() {
            model.join(topology, request, link, table);
            model.limit_route(topology, request, options, link, table);
        }
        for period in request.periods() {
            model.limit_edges(topology, request, view.during(period), period, &tables);
        }
        model
    }

    /// The columns x, with Eq. (4) and (5).
    fn add_places(
        &mut self,
        instance: &Instance<'_>,
        candidates: &Candidates,
        costs: &mut Vec<u64>,
    ) {
        let Instance { topology, request, costs: prices, .. } = instance;
        let mut guests: Vec<Vec<(usize, i64)>> = vec![Vec::new(); topology.vertices().len()];
        for site in 0..request.sites.len() {
            let mut once = Vec::new();
            for vertex in candidates.of(site) {
                let column = self.choices.len();
                self.choices.push(Choice::Place { site, vertex: *vertex });
                costs.push(prices.site(site, VertexIndex(*vertex)));
                once.push((column, 1));
                guests[*vertex as usize].push((column, 1));
            }
            self.rows.push(Row::new(1, 1, once));
        }
        for terms in guests.into_iter().filter(|terms| terms.len() > 1) {
            self.rows.push(Row::new(0, 1, terms));
        }
    }

    /// The columns y of one link: the steps on which its rate is free.
    fn add_steps(
        &mut self,
        instance: &Instance<'_>,
        link: usize,
        costs: &mut Vec<u64>,
    ) -> StepTable {
        let Instance { topology, request, view, costs: prices } = instance;
        self.steps.push(self.choices.len());
        let rate = request.links[link].bandwidth;
        let then = view.during(request.links[link].window);
        let mut table = vec![[usize::MAX; 2]; topology.edges().len()];
        for (number, edge) in topology.edges().iter().enumerate() {
            // There are at most EDGES_MAX edges, so the cast keeps the value.
            let index = EdgeIndex(number as u32);
            for direction in [Direction::AToB, Direction::BToA] {
                if free_bps(edge, index, direction, then) >= rate.0 {
                    table[number][direction.at()] = self.choices.len();
                    self.choices.push(Choice::Step { link, edge: index, direction });
                    costs.push(prices.step(link, index, direction, rate));
                }
            }
        }
        table
    }

    /// Eq. (9) of one link: at every vertex, steps out minus steps in = start here minus end here.
    fn join(
        &mut self,
        topology: &Topology,
        request: &CoAllocation,
        link: usize,
        table: &StepTable,
    ) {
        let demand = request.links[link];
        let mut balance: Vec<Vec<(usize, i64)>> = vec![Vec::new(); topology.vertices().len()];
        for (edge, columns) in topology.edges().iter().zip(table) {
            for (column, (tail, head)) in columns.iter().zip([(edge.a, edge.b), (edge.b, edge.a)]) {
                if *column != usize::MAX {
                    balance[tail.at()].push((*column, 1));
                    balance[head.at()].push((*column, -1));
                }
            }
        }
        for (column, choice) in self.choices.iter().enumerate() {
            match choice {
                Choice::Place { site, vertex } if *site == demand.from => {
                    balance[*vertex as usize].push((column, -1));
                }
                Choice::Place { site, vertex } if *site == demand.to => {
                    balance[*vertex as usize].push((column, 1));
                }
                _ => {}
            }
        }
        for terms in balance.into_iter().filter(|terms| !terms.is_empty()) {
            self.rows.push(Row::new(0, 0, terms));
        }
    }

    /// Eq. (7) and (11), Eq. (10), and the latency bound of one link.
    fn limit_route(
        &mut self,
        topology: &Topology,
        request: &CoAllocation,
        options: &IpOptions,
        link: usize,
        table: &StepTable,
    ) {
        let columns = self.steps[link]..self.steps[link + 1];
        let terms = columns.clone().map(|column| (column, 1)).collect();
        self.rows.push(Row::new(1, options.route_edges() as i64, terms));
        if options.exclude_opposite_arcs {
            for [there, back] in table {
                if *there != usize::MAX && *back != usize::MAX {
                    let terms = vec![(*there, 1), (*back, 1)];
                    self.rows.push(Row::new(0, 1, terms));
                }
            }
        }
        if let Some(max) = request.links[link].latency_max {
            let latency = |column: usize| match self.choices[column] {
                Choice::Step { edge, .. } => topology.edge(edge).latency.as_us().unsigned_abs(),
                Choice::Place { .. } => 0,
            };
            let terms: Vec<(usize, u64)> =
                columns.map(|column| (column, latency(column))).collect();
            self.limit(&terms, max.as_us().unsigned_abs());
        }
    }

    /// Eq. (8) in one period: one row for both directions of a shared edge, else one for each
    /// direction.
    fn limit_edges(
        &mut self,
        topology: &Topology,
        request: &CoAllocation,
        view: &FrameView,
        period: Option<PartWindow>,
        tables: &[StepTable],
    ) {
        for (number, edge) in topology.edges().iter().enumerate() {
            let index = EdgeIndex(number as u32);
            let lanes: &[&[Direction]] = if edge.is_shared() {
                &[&[Direction::AToB, Direction::BToA]]
            } else {
                &[&[Direction::AToB], &[Direction::BToA]]
            };
            for lane in lanes {
                let mut terms = Vec::new();
                let links = request.links.iter().zip(tables);
                for (link, table) in links.filter(|(link, _)| link.is_wanted_in(period)) {
                    let columns = lane.iter().map(|direction| table[number][direction.at()]);
                    let columns = columns.filter(|column| *column != usize::MAX);
                    terms.extend(columns.map(|column| (column, link.bandwidth.0)));
                }
                self.limit(&terms, free_bps(edge, index, lane[0], view));
            }
        }
    }

    /// A row: the sum of whole coefficients is at most `max`, for binary columns.
    fn limit(&mut self, terms: &[(usize, u64)], max: u64) {
        let terms: Vec<(usize, u64)> =
            terms.iter().copied().filter(|(_, coefficient)| *coefficient > 0).collect();
        let divisor = terms.iter().fold(0, |divisor, (_, coefficient)| gcd(divisor, *coefficient));
        let sum: u128 = terms.iter().map(|(_, coefficient)| u128::from(*coefficient)).sum();
        let Some(largest) = terms.iter().map(|(_, coefficient)| *coefficient).max() else { return };
        if sum <= u128::from(max) {
            return;
        }
        // Below the sum of at most REQUEST_LINKS_MAX rates or of EDGES_MAX latencies, which is far
        // below 2^63.
        let whole = |amount: u64| (amount / divisor) as i64;
        let terms = terms.iter().map(|(column, by)| (*column, whole(*by))).collect();
        let unlike = (largest / divisor > RATIO_MAX).then_some(whole(largest));
        self.rounded |= unlike.is_some();
        self.rows.push(Row { unlike, ..Row::new(0, whole(max), terms) });
    }

    /// Adds a cut for every capacity and latency that the plan exceeds, and returns how many. A cut
    /// excludes no valid plan: choices that exceed a limit together cannot all be taken.
    pub(in crate::ip) fn overstepped(
        &mut self,
        topology: &Topology,
        request: &CoAllocation,
        view: &FrameView,
        plan: &Plan,
    ) -> usize {
        let before = self.rows.len();
        for period in request.periods() {
            self.overloaded(topology, request, view.during(period), period, plan);
        }
        for (number, (link, route)) in request.links.iter().zip(&plan.routes).enumerate() {
            let latency: i64 =
                route.iter().map(|(edge, _)| topology.edge(*edge).latency.as_us()).sum();
            if link.latency_max.is_some_and(|max| latency > max.as_us()) {
                let columns = |choice: &Choice| match choice {
                    Choice::Step { link, edge, direction } => {
                        *link == number && route.contains(&(*edge, *direction))
                    }
                    Choice::Place { .. } => false,
                };
                self.cut(columns, route.len());
            }
        }
        self.rows.len() - before
    }

    /// Adds a cut for every capacity that the plan exceeds in one period.
    fn overloaded(
        &mut self,
        topology: &Topology,
        request: &CoAllocation,
        view: &FrameView,
        period: Option<PartWindow>,
        plan: &Plan,
    ) {
        let taken = |link: usize, edge: EdgeIndex| {
            plan.routes[link].iter().find(|step| step.0 == edge).map(|step| step.1)
        };
        for (number, edge) in topology.edges().iter().enumerate() {
            let index = EdgeIndex(number as u32);
            for lane in [Direction::AToB, Direction::BToA] {
                let on = |link: &usize| match taken(*link, index) {
                    Some(direction) => {
                        request.links[*link].is_wanted_in(period)
                            && (direction == lane || edge.is_shared())
                    }
                    None => false,
                };
                let links: Vec<usize> = (0..request.links.len()).filter(on).collect();
                let load: u64 = links.iter().map(|link| request.links[*link].bandwidth.0).sum();
                if load > free_bps(edge, index, lane, view) {
                    let both = edge.is_shared();
                    let columns = |choice: &Choice| match choice {
                        Choice::Step { link, edge, direction } => {
                            *edge == index && links.contains(link) && (both || *direction == lane)
                        }
                        Choice::Place { .. } => false,
                    };
                    self.cut(columns, links.len());
                }
            }
        }
    }

    /// Admits only solutions below this cost from now on. `cost` is in the units of
    /// [`Costs`](crate::Costs). False when there can be no such solution.
    pub(in crate::ip) fn beat(&mut self, cost: u64) -> bool {
        let Some(most) = cost.checked_sub(1) else { return false };
        let whole = |cost: u64| i64::try_from(cost).unwrap_or(i64::MAX);
        let priced = self.costs.iter().enumerate().filter(|(_, cost)| **cost > 0);
        let terms = priced.map(|(column, cost)| (column, whole(*cost))).collect();
        // Costs are whole units, so none lies between this bound and `cost`.
        self.rows.push(Row::new(0, whole(most / self.unit), terms));
        true
    }

    fn cut(&mut self, chosen: impl Fn(&Choice) -> bool, count: usize) {
        let columns = self.choices.iter().enumerate().filter(|(_, choice)| chosen(choice));
        let terms = columns.map(|(column, _)| (column, 1)).collect();
        self.rows.push(Row::new(0, count as i64 - 1, terms));
    }

    /// The vertex of each site by these values.
    pub(in crate::ip) fn placements(
        &self,
        sites: usize,
        values: &[f64],
    ) -> Option<Vec<VertexIndex>> {
        let mut placed = vec![None; sites];
        for (choice, value) in self.choices.iter().zip(values) {
            if let Choice::Place { site, vertex } = choice
                && *value > 0.5
            {
                placed[*site] = Some(VertexIndex(*vertex));
            }
        }
        placed.into_iter().collect()
    }
}

fn gcd(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { gcd(b, a % b) }
}
