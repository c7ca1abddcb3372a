//! Joint routing: the cheapest routes that fit together, for several links between fixed vertices.
//!
//! Every link first takes its cheapest route. If these fit together, they are the optimum. If not,
//! some resource carries more than is free there. In every feasible solution at least one of the
//! links on that resource takes another route, which gives the branches: the first link leaves the
//! resource; the first stays and the second leaves; and so on. A link that leaves is routed again
//! around what it must avoid, so the bound rises. A link that stays reserves its rate on the
//! resource, and the others cannot use it. No routes are enumerated. Each branch fixes one pair
//! (link, resource) for good, so the search ends.
//!
//! That bound sees one conflict at a time. Where it does not decide soon, [`Prices`] take over: each
//! node then has the bound of the linear relaxation of all that is left to route, and the routes at
//! these prices often fit together. A search may also put off a combination that takes too long
//! ([`Routing::effort`]), and come back to it when it has tried others.
//!
//! Loads are counted in each period ([`Network::periods`]). A resource is overloaded if it is in
//! some period, by the links that are wanted in that period.

use super::meter::Meter;
use super::network::{Class, Link, Network, Path};
use super::paths::{Row, Rows};
use super::prices::{PricedCase, Prices};

pub(super) const LEAVES: u8 = 1;
pub(super) const STAYS: u8 = 2;
/// Evaluations of the prices at the root and at each node below.
const ROOT_EVALUATIONS: usize = 60;
const NODE_EVALUATIONS: usize = 6;

/// A decision of the search: this link leaves this resource, or stays on it.
#[derive(Clone, Copy)]
pub(super) struct Rule {
    pub(super) link: usize,
    pub(super) resource: u32,
    pub(super) mark: u8,
}

/// A link that has to be routed between two vertices.
#[derive(Clone, Copy)]
pub(super) struct UnroutedLink {
    pub(super) link: usize,
    pub(super) start: u32,
    pub(super) end: u32,
    /// The index of a row for its route, and whether the vertex of that row is the start of the
    /// link.
    pub(super) row: usize,
    pub(super) away: bool,
}

/// The outcome of adding links.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum AddOutcome {
    /// All links are routed at the least possible cost; this is the sum.
    Routed(u64),
    /// All links are routed at this cost. The search was put off before it knew whether there are
    /// cheaper routes; none cost less than `least`.
    Fits { total: u64, least: u64 },
    /// There are no routes that fit together and cost less than the limit.
    Hopeless,
    /// The search took too long, see [`Routing::effort`]. No routes cost less than `least`.
    PutOff { least: u64 },
    /// The budget ended.
    Stopped,
}

/// The routes of the links whose ends are placed. Together they always have the least cost.
pub(super) struct Routing {
    load: Vec<u64>,
    paths: Vec<Path>,
    errands: Vec<UnroutedLink>,
    total: u64,
    /// The routes before a reroute, for undoing it: a stack with one entry for each errand.
    former: Vec<Path>,
    best: Vec<Path>,
    best_total: u64,
    rules: Vec<Rule>,
    marks: Vec<u8>,
    kept: Vec<u64>,
    scratch: Row,
    shortages: Shortages,
    prices: Prices,
    /// How many nodes a search for routes may take once prices have taken over.
    pub(super) effort: u64,
    /// How many nodes a search for routes takes before prices take over.
    pub(super) prices_after: u32,
    stage: Stage,
    /// No routes cost less, by the prices at the root of the search for them.
    least: u64,
}

/// How far a search for routes has got.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Stage {
    /// Without prices, for so many more nodes.
    Rough(u32),
    /// It needs prices.
    Ended,
    /// With prices, until so many nodes are opened in all.
    Priced(u64),
    PutOff,
}

/// The resources whose shortages a search for routes has met.
#[derive(Default)]
struct Shortages {
    met: Vec<bool>,
    list: Vec<u32>,
}

impl Shortages {
    fn clear(&mut self, resources: usize) {
        self.met.resize(resources, false);
        for resource in self.list.drain(..) {
            self.met[resource as usize] = false;
        }
    }

    /// Records that a resource has less than `wanted` free, if it could have as much. `most` is
    /// empty when nothing is to be recorded.
    fn meet(&mut self, most: &[u64], resource: u32, wanted: u64) {
        let at = resource as usize;
        if most.get(at).is_some_and(|most| *most >= wanted) && !self.met[at] {
            self.met[at] = true;
            self.list.push(resource);
        }
    }
}

/// What [`Routing::undo`] needs.
#[derive(Clone, Copy)]
pub(super) struct Undo {
    errands: usize,
    former: usize,
    total: u64,
    rerouted: bool,
}

/// The input of a search.
#[derive(Clone, Copy)]
pub(super) struct RoutingInput<'a> {
    pub(super) network: &'a Network,
    pub(super) classes: &'a [Class],
    pub(super) links: &'a [Link],
}

impl Routing {
    pub(super) fn new(ground: RoutingInput<'_>) -> Self {
        Self {
            load: vec![0; ground.network.free.len()],
            paths: vec![Path::EMPTY; ground.links.len()],
            errands: Vec::with_capacity(ground.links.len()),
            total: 0,
            former: Vec::new(),
            best: Vec::new(),
            best_total: 0,
            rules: Vec::new(),
            marks: Vec::new(),
            kept: Vec::new(),
            scratch: Row::default(),
            shortages: Shortages::default(),
            prices: Prices::default(),
            effort: u64::MAX,
            prices_after: u32::MAX,
            stage: Stage::Rough(0),
            least: 0,
        }
    }

    /// The cost of all routes.
    pub(super) fn total(&self) -> u64 {
        self.total
    }

    /// What the routes take of a resource.
    pub(super) fn load(&self, resource: u32) -> u64 {
        self.load[resource as usize]
    }

    /// The route of a link.
    pub(super) fn path(&self, link: usize) -> &Path {
        &self.paths[link]
    }

    /// The resources whose shortages the last search for routes has met, if the network has
    /// capacities. When there were no routes, there are none either while these resources are as
    /// short, whatever is free elsewhere.
    pub(super) fn short(&self) -> &[u32] {
        &self.shortages.list
    }

    /// The present state, for [`Routing::undo`].
    pub(super) fn mark(&self) -> Undo {
        let (errands, former) = (self.errands.len(), self.former.len());
        Undo { errands, former, total: self.total, rerouted: false }
    }

    /// Removes every link added since the mark.
    pub(super) fn undo(&mut self, ground: RoutingInput<'_>, undo: Undo) {
        for index in undo.errands..self.errands.len() {
            self.unload(ground, self.errands[index].link);
        }
        self.errands.truncate(undo.errands);
        if undo.rerouted {
            for index in 0..undo.errands {
                let link = self.errands[index].link;
                let path = self.former[undo.former + index];
                self.replace(ground, link, path);
            }
        }
        self.former.truncate(undo.former);
        self.total = undo.total;
    }

    /// Adds links whose second end has just been placed. A total cost of `limit` or more is of no
    /// use.
    pub(super) fn add(
        &mut self,
        ground: RoutingInput<'_>,
        rows: &Rows,
        new: &[UnroutedLink],
        limit: u64,
        undo: &mut Undo,
        meter: &mut Meter<'_>,
    ) -> AddOutcome {
        let mut fits = true;
        for errand in new {
            let other = if errand.away { errand.end } else { errand.start };
            let Some(path) = rows.path(errand.row, other, errand.away) else {
                return AddOutcome::Hopeless;
            };
            self.errands.push(*errand);
            self.paths[errand.link] = path;
            fits &= self.load_path(ground, errand.link);
            self.total += path.cost;
        }
        if self.total >= limit {
            return AddOutcome::Hopeless;
        }
        if fits {
            // The old links together and each new link have the least cost, so all of them together
            // have it too.
            return AddOutcome::Routed(self.total);
        }
        self.reroute(ground, rows, limit, undo, meter)
    }

    /// Searches for the routes of all links again.
    fn reroute(
        &mut self,
        ground: RoutingInput<'_>,
        rows: &Rows,
        limit: u64,
        undo: &mut Undo,
        meter: &mut Meter<'_>,
    ) -> AddOutcome {
        undo.rerouted = true;
        self.shortages.clear(self.load.len());
        self.marks.resize(self.load.len(), 0);
        self.kept.resize(self.load.len(), 0);
        self.total = 0;
        for index in 0..self.errands.len() {
            let errand = self.errands[index];
            if index < undo.errands {
                self.former.push(self.paths[errand.link]);
                let other = if errand.away { errand.end } else { errand.start };
                if let Some(path) = rows.path(errand.row, other, errand.away) {
                    self.replace(ground, errand.link, path);
                }
            }
            self.total += self.paths[errand.link].cost;
        }
        self.best_total = limit;
        self.best.clear();
        self.stage = Stage::Rough(self.prices_after);
        let mut finished = self.branch(ground, meter);
        if !finished && self.stage == Stage::Ended {
            finished = self.branch_with_prices(ground, meter);
        }
        if !finished && self.stage != Stage::PutOff {
            return AddOutcome::Stopped;
        }
        if self.best.is_empty() {
            return match finished {
                true => AddOutcome::Hopeless,
                false => AddOutcome::PutOff { least: self.least },
            };
        }
        for index in 0..self.errands.len() {
            let path = self.best[index];
            self.replace(ground, self.errands[index].link, path);
        }
        self.total = self.best_total;
        match finished {
            true => AddOutcome::Routed(self.total),
            false => AddOutcome::Fits { total: self.total, least: self.least },
        }
    }

    /// The search for routes from its root again, now with prices. False when it did not end.
    fn branch_with_prices(&mut self, ground: RoutingInput<'_>, meter: &mut Meter<'_>) -> bool {
        self.best_total = self.best_total.min(dearest(ground).saturating_add(1));
        self.prices.begin(ground, self.best_total);
        self.stage = Stage::Priced(meter.opened().saturating_add(self.effort));
        if !self.raise(ground, ROOT_EVALUATIONS, meter) {
            return true;
        }
        self.least = self.prices.least();
        let Self { prices, errands, rules, kept, .. } = self;
        let filled = prices.fill(&PricedCase { ground, errands, rules, kept });
        if let Some(paths) = filled {
            self.offer(ground, &paths);
        }
        self.branch(ground, meter)
    }

    /// Raises the bound of the prices at this node. False when nothing below it costs less than the
    /// best routes so far.
    fn raise(&mut self, ground: RoutingInput<'_>, most: usize, meter: &mut Meter<'_>) -> bool {
        let mut prices = std::mem::take(&mut self.prices);
        let mut fitting: Vec<Vec<Path>> = Vec::new();
        let Self { errands, rules, kept, best_total, .. } = self;
        let case = PricedCase { ground, errands, rules, kept };
        let open = prices
            .raise(&case, most, *best_total, meter, &mut |paths| fitting.push(paths.to_vec()));
        self.prices = prices;
        for paths in fitting {
            self.offer(ground, &paths);
        }
        open
    }

    /// Takes routes that fit together, by link, if they are the cheapest so far.
    fn offer(&mut self, ground: RoutingInput<'_>, paths: &[Path]) {
        let timed = |errand: &UnroutedLink| {
            ground.classes[ground.links[errand.link].class].latency_max.is_some()
        };
        let total: u64 = self.errands.iter().map(|errand| paths[errand.link].cost).sum();
        // Prices know nothing of latencies, and count rates in units that may be coarse.
        if total < self.best_total
            && !self.errands.iter().any(timed)
            && self.fit_together(ground, paths)
        {
            self.best_total = total;
            self.best.clear();
            self.best.extend(self.errands.iter().map(|errand| paths[errand.link]));
        }
    }

    /// Whether the routes of the links, by link, fit together.
    fn fit_together(&self, ground: RoutingInput<'_>, paths: &[Path]) -> bool {
        let mut load = vec![0u64; ground.network.free.len()];
        self.errands.iter().all(|errand| {
            let Link { rate, periods: (begin, end), .. } = ground.links[errand.link];
            paths[errand.link].codes().iter().all(|code| {
                let first = ground.network.resource(*code) * ground.network.periods;
                (first + begin..first + end).all(|at| {
                    load[at] += rate;
                    load[at] <= ground.network.free[at]
                })
            })
        })
    }

    /// Opens one node. False when the budget or the stage of this search has ended.
    fn tick(&mut self, ground: RoutingInput<'_>, meter: &mut Meter<'_>) -> bool {
        if !meter.tick() {
            return false;
        }
        match self.stage {
            // Where shortages are recorded, prices would not say which they have used.
            Stage::Rough(_) if !ground.network.most.is_empty() => {}
            Stage::Rough(0) => self.stage = Stage::Ended,
            Stage::Rough(left) => self.stage = Stage::Rough(left - 1),
            Stage::Priced(until) if meter.opened() >= until => self.stage = Stage::PutOff,
            Stage::Priced(_) | Stage::Ended | Stage::PutOff => {}
        }
        !matches!(self.stage, Stage::Ended | Stage::PutOff)
    }

    /// One node: the links are on their cheapest routes under the rules. False when the budget
    /// ended.
    fn branch(&mut self, ground: RoutingInput<'_>, meter: &mut Meter<'_>) -> bool {
        if self.total >= self.best_total {
            return true;
        }
        let Some(over) = self.overloaded(ground) else {
            self.best_total = self.total;
            self.best.clear();
            self.best.extend(self.errands.iter().map(|errand| self.paths[errand.link]));
            return true;
        };
        if matches!(self.stage, Stage::Priced(_)) && !self.raise(ground, NODE_EVALUATIONS, meter) {
            return true;
        }
        let (network, periods) = (ground.network, ground.network.periods);
        let (resource, period) = ((over / periods) as u32, over % periods);
        self.shortages.meet(&network.most, resource, self.load[over]);
        let rules = self.rules.len();
        let mut finished = true;
        for index in 0..self.errands.len() {
            let errand = self.errands[index];
            let link = errand.link;
            let (begin, end) = ground.links[link].periods;
            if !(begin..end).contains(&period)
                || !self.takes(ground, link, resource)
                || self.is_kept(link, resource)
            {
                continue;
            }
            if !self.tick(ground, meter) {
                finished = false;
                break;
            }
            finished = self.leave(ground, errand, resource, meter);
            if !finished {
                break;
            }
            // In the next branches this link stays, and the others must do without its share.
            self.rules.push(Rule { link, resource, mark: STAYS });
            let first = resource as usize * periods;
            for at in first + begin..first + end {
                self.kept[at] += ground.links[link].rate;
            }
            if self.kept[over] > network.free[over] {
                self.shortages.meet(&network.most, resource, self.kept[over]);
                break;
            }
        }
        while self.rules.len() > rules {
            if let Some(rule) = self.rules.pop() {
                let Link { rate, periods: (begin, end), .. } = ground.links[rule.link];
                let first = rule.resource as usize * periods;
                for at in first + begin..first + end {
                    self.kept[at] -= rate;
                }
            }
        }
        finished
    }

    /// The branch in which a link leaves a resource.
    fn leave(
        &mut self,
        ground: RoutingInput<'_>,
        errand: UnroutedLink,
        resource: u32,
        meter: &mut Meter<'_>,
    ) -> bool {
        let link = errand.link;
        self.rules.push(Rule { link, resource, mark: LEAVES });
        let mut finished = true;
        if let Some(path) = self.detour(ground, errand) {
            let (former, total) = (self.paths[link], self.total);
            self.total = total - former.cost + path.cost;
            if self.total < self.best_total {
                self.replace(ground, link, path);
                finished = self.branch(ground, meter);
                self.replace(ground, link, former);
            }
            self.total = total;
        }
        self.rules.pop();
        finished
    }

    /// The cheapest route of a link under the rules.
    fn detour(&mut self, ground: RoutingInput<'_>, errand: UnroutedLink) -> Option<Path> {
        let link = ground.links[errand.link];
        for rule in self.rules.iter().filter(|rule| rule.link == errand.link) {
            self.marks[rule.resource as usize] |= rule.mark;
        }
        let Self { marks, kept, scratch, shortages, .. } = self;
        let Network { free, most, periods, .. } = ground.network;
        let class = ground.classes[link.class];
        let layer = ground.network.layer(class);
        let (begin, end) = link.periods;
        scratch.fill(layer, class, errand.start, true, |resource| match marks[resource as usize] {
            0 => {
                let first = resource as usize * periods;
                let short = |at: &usize| free[*at] < kept[*at].saturating_add(link.rate);
                let Some(at) = (first + begin..first + end).find(short) else {
                    return *periods == 1 || layer.free[resource as usize] >= link.rate;
                };
                shortages.meet(most, resource, kept[at].saturating_add(link.rate));
                false
            }
            STAYS => true,
            _ => false,
        });
        for rule in self.rules.iter().filter(|rule| rule.link == errand.link) {
            self.marks[rule.resource as usize] = 0;
        }
        self.scratch.path(errand.end)
    }

    /// The resource and period whose load exceeds what is free by the most, in bit/s, as an index of
    /// [`Network::free`].
    fn overloaded(&self, ground: RoutingInput<'_>) -> Option<usize> {
        let mut worst = None;
        let mut excess = 0;
        for errand in &self.errands {
            let (begin, end) = ground.links[errand.link].periods;
            for code in self.paths[errand.link].codes() {
                let first = ground.network.resource(*code) * ground.network.periods;
                for at in first + begin..first + end {
                    let over = self.load[at].saturating_sub(ground.network.free[at]);
                    if over > excess {
                        excess = over;
                        worst = Some(at);
                    }
                }
            }
        }
        worst
    }

    fn takes(&self, ground: RoutingInput<'_>, link: usize, resource: u32) -> bool {
        let codes = self.paths[link].codes();
        codes.iter().any(|code| ground.network.resource(*code) == resource as usize)
    }

    fn is_kept(&self, link: usize, resource: u32) -> bool {
        let stays =
            |rule: &Rule| rule.link == link && rule.resource == resource && rule.mark == STAYS;
        self.rules.iter().any(stays)
    }

    fn replace(&mut self, ground: RoutingInput<'_>, link: usize, path: Path) {
        self.unload(ground, link);
        self.paths[link] = path;
        self.load_path(ground, link);
    }

    /// Adds a link's rate to its route. True when every load on it still fits.
    fn load_path(&mut self, ground: RoutingInput<'_>, link: usize) -> bool {
        let Link { rate, periods: (begin, end), .. } = ground.links[link];
        let mut fits = true;
        for code in self.paths[link].codes() {
            let first = ground.network.resource(*code) * ground.network.periods;
            for at in first + begin..first + end {
                self.load[at] += rate;
                fits &= self.load[at] <= ground.network.free[at];
            }
        }
        fits
    }

    fn unload(&mut self, ground: RoutingInput<'_>, link: usize) {
        let Link { rate, periods: (begin, end), .. } = ground.links[link];
        for code in self.paths[link].codes() {
            let first = ground.network.resource(*code) * ground.network.periods;
            for at in first + begin..first + end {
                self.load[at] -= rate;
            }
        }
    }
}

/// More than all links together can cost: each by its dearest route.
fn dearest(ground: RoutingInput<'_>) -> u64 {
    let RoutingInput { network, classes, links } = ground;
    let cost = |link: &Link| {
        let class = classes[link.class];
        let layer = network.layer(class);
        let steps = (0..layer.vertices() as u32).flat_map(|vertex| layer.steps(vertex));
        let unit = steps.map(|step| step.unit).max().unwrap_or(0);
        unit.saturating_mul(class.units).saturating_mul(network.edges_max as u64)
    };
    links.iter().map(cost).fold(0, u64::saturating_add)
}
