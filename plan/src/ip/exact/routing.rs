//! Joint routing: cheapest routes for several links between fixed vertices that fit together.
//!
//! Every link takes its cheapest route; if they fit together, that is the optimum. If not, some
//! resource carries more than is free. In every feasible answer at least one of the links on it
//! takes another way, which gives the branches: the first link leaves the resource; the first stays
//! and the second leaves; and so on. A link that leaves is routed again around what it must avoid,
//! so the bound rises; one that stays keeps its rate on the resource out of the others' reach. No
//! routes are enumerated, and each branch fixes a pair (link, resource) for good, so the search ends.

use super::meter::Meter;
use super::network::{Class, Link, Network, Path};
use super::paths::{Row, Rows};

const LEAVES: u8 = 1;
const STAYS: u8 = 2;

/// A decision of the search: this link leaves this resource, or stays on it.
#[derive(Clone, Copy)]
struct Rule {
    link: usize,
    resource: u32,
    mark: u8,
}

/// A link to be routed between two vertices.
#[derive(Clone, Copy)]
pub(super) struct UnroutedLink {
    pub(super) link: usize,
    pub(super) start: u32,
    pub(super) end: u32,
    /// Its row in the table of rows and whether that row's vertex is its start.
    pub(super) row: usize,
    pub(super) away: bool,
}

/// What came of adding links.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum AddOutcome {
    /// All links are routed, at the least value there is: the sum.
    Routed(u64),
    /// They cannot be, or not below the limit.
    Hopeless,
    /// The budget ended.
    Stopped,
}

/// The routes of the links whose ends are placed. Always of least value together.
pub(super) struct Routing {
    load: Vec<u64>,
    paths: Vec<Path>,
    errands: Vec<UnroutedLink>,
    total: u64,
    /// Routes as they were before a reroute, to go back to: by errand, a stack.
    former: Vec<Path>,
    best: Vec<Path>,
    best_total: u64,
    rules: Vec<Rule>,
    marks: Vec<u8>,
    kept: Vec<u64>,
    scratch: Row,
}

/// What [`Routing::undo`] needs.
#[derive(Clone, Copy)]
pub(super) struct Undo {
    errands: usize,
    former: usize,
    total: u64,
    rerouted: bool,
}

/// What a search reads.
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
        }
    }

    /// Cost of all routes.
    pub(super) fn total(&self) -> u64 {
        self.total
    }

    /// The route of a link.
    pub(super) fn path(&self, link: usize) -> &Path {
        &self.paths[link]
    }

    /// Where to go back to.
    pub(super) fn mark(&self) -> Undo {
        let (errands, former) = (self.errands.len(), self.former.len());
        Undo { errands, former, total: self.total, rerouted: false }
    }

    /// Takes back every link added since the mark.
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

    /// Adds links that have just got both their ends. Values at or above `limit` are of no use.
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
            // Least for the old links together, least for each new one: least for all.
            return AddOutcome::Routed(self.total);
        }
        self.reroute(ground, rows, limit, undo, meter)
    }

    /// Searches the routes of all links anew.
    fn reroute(
        &mut self,
        ground: RoutingInput<'_>,
        rows: &Rows,
        limit: u64,
        undo: &mut Undo,
        meter: &mut Meter<'_>,
    ) -> AddOutcome {
        undo.rerouted = true;
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
        let finished = self.branch(ground, meter);
        if !finished {
            return AddOutcome::Stopped;
        }
        if self.best.is_empty() {
            return AddOutcome::Hopeless;
        }
        for index in 0..self.errands.len() {
            let path = self.best[index];
            self.replace(ground, self.errands[index].link, path);
        }
        self.total = self.best_total;
        AddOutcome::Routed(self.total)
    }

    /// One node: the links on their cheapest routes under the rules. False when the budget ended.
    fn branch(&mut self, ground: RoutingInput<'_>, meter: &mut Meter<'_>) -> bool {
        if self.total >= self.best_total {
            return true;
        }
        let Some(resource) = self.overloaded(ground) else {
            self.best_total = self.total;
            self.best.clear();
            self.best.extend(self.errands.iter().map(|errand| self.paths[errand.link]));
            return true;
        };
        let rules = self.rules.len();
        let mut finished = true;
        for index in 0..self.errands.len() {
            let errand = self.errands[index];
            let link = errand.link;
            if !self.takes(ground, link, resource) || self.is_kept(link, resource) {
                continue;
            }
            if !meter.tick() {
                finished = false;
                break;
            }
            finished = self.leave(ground, errand, resource, meter);
            if !finished {
                break;
            }
            // It stays, then; the others must do without its share.
            self.rules.push(Rule { link, resource, mark: STAYS });
            self.kept[resource as usize] += ground.links[link].rate;
            if self.kept[resource as usize] > ground.network.free[resource as usize] {
                break;
            }
        }
        while self.rules.len() > rules {
            if let Some(rule) = self.rules.pop() {
                self.kept[rule.resource as usize] -= ground.links[rule.link].rate;
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
        let (marks, kept, free) = (&self.marks, &self.kept, &ground.network.free);
        self.scratch.fill(ground.network, ground.classes[link.class], errand.start, true, |at| {
            let at = at as usize;
            match marks[at] {
                0 => free[at] >= kept[at].saturating_add(link.rate),
                STAYS => true,
                _ => false,
            }
        });
        for rule in self.rules.iter().filter(|rule| rule.link == errand.link) {
            self.marks[rule.resource as usize] = 0;
        }
        self.scratch.path(errand.end)
    }

    /// The resource that carries most beyond what is free, counted in links' rates.
    fn overloaded(&self, ground: RoutingInput<'_>) -> Option<u32> {
        let mut worst = None;
        let mut excess = 0;
        for errand in &self.errands {
            for code in self.paths[errand.link].codes() {
                let resource = ground.network.resource(*code);
                let over = self.load[resource].saturating_sub(ground.network.free[resource]);
                if over > excess {
                    excess = over;
                    worst = Some(resource as u32);
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

    /// Puts a link's rate on its route. True when everything there still fits.
    fn load_path(&mut self, ground: RoutingInput<'_>, link: usize) -> bool {
        let rate = ground.links[link].rate;
        let mut fits = true;
        for code in self.paths[link].codes() {
            let resource = ground.network.resource(*code);
            self.load[resource] += rate;
            fits &= self.load[resource] <= ground.network.free[resource];
        }
        fits
    }

    fn unload(&mut self, ground: RoutingInput<'_>, link: usize) {
        let rate = ground.links[link].rate;
        for code in self.paths[link].codes() {
            self.load[ground.network.resource(*code)] -= rate;
        }
    }
}
