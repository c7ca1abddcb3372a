//! The search over placements: depth first, the cheapest vertex first, with exact joint routing at
//! every node.
//!
//! At a node some sites are placed, and the links between them are routed together at the least
//! cost. The bound adds the cheapest assignment of scores for the sites still to be placed. The
//! score of a site at a vertex is the sum of the cost of its amounts there, the cheapest route to each
//! placed neighbour, and, for each neighbour later in the order, the cheapest route to the nearest
//! vertex that this neighbour could take. Each link is counted once: at its later end when the
//! other end is placed, otherwise at its earlier end.
//!
//! Whether two sites may have one vertex is a rule of its own, an [`Occupancy`]. [`exclusive`] is
//! the rule of Eq. (5), and [`sums`] lets sites share a vertex.

pub(super) mod bounds;
pub(super) mod exclusive;
pub(super) mod notes;
pub(super) mod sums;

use super::chains::Chains;
use super::meter::Meter;
use super::network::{Class, Link, Network, Path};
use super::paths::Rows;
use super::routing::{AddOutcome, Routing, RoutingInput, UnroutedLink};
use crate::ip::admit::Candidates;

/// A link seen from one of its ends: the index of the link, and the site at the other end.
type Tie = (usize, usize);

/// How requested sites occupy vertices: what of the search depends on whether two sites may share
/// one.
pub(super) trait Occupancy: Sized {
    /// How far above the rank of its leader a site must rank, see [`Search::leaders`].
    const RANKS_ABOVE_LEADER: u32;

    /// Whether the first plan ends the search, because all plans cost the same. What
    /// [`Occupancy::preference`] adds is no cost.
    const FIRST_IS_BEST: bool = false;

    /// Sets the candidates, the order, the leaders and the ranks of a search.
    fn prepare(search: &mut Search<'_, Self>, demand: &Demand<'_>);

    /// The rank of a candidate of a site, by which symmetric placements are told apart.
    fn rank(search: &Search<'_, Self>, site: usize, at: usize) -> u32;

    /// The rank of the candidate at which a site is placed.
    fn placed_rank(search: &Search<'_, Self>, site: usize) -> u32;

    /// Whether the sites placed so far leave this vertex to the site.
    fn is_open(&self, site: usize, vertex: u32) -> bool;

    /// The site is placed at the vertex.
    fn take(&mut self, site: usize, vertex: u32);

    /// Reverses [`Occupancy::take`].
    fn release(&mut self, site: usize, vertex: u32);

    /// The least cost that the sites from this place in the order on can add. `None` when they
    /// cannot all be placed. Fills `search.least[place]` with the least cost of each.
    fn bound_rest(search: &mut Search<'_, Self>, place: usize) -> Option<u64>;

    /// What is added to the cost by which the candidates of a place are sorted. Only a rule without
    /// costs may add anything, because this sum also bounds what is below the candidate.
    fn preference(_search: &Search<'_, Self>, _place: usize, _at: usize) -> u64 {
        0
    }

    /// Whether it is known that nothing fits below a node.
    fn is_dead(_search: &mut Search<'_, Self>, _place: usize) -> bool {
        false
    }

    /// Called when all below a node has been searched.
    fn searched(_search: &mut Search<'_, Self>, _place: usize) {}

    /// Called when the open candidates of a place are about to be tried, and all others are not.
    fn expand(_search: &mut Search<'_, Self>, _place: usize) {}

    /// Whether the site at this place, which has just been placed, leaves a chance to route the
    /// links. It is asked before they are routed.
    fn may_route(_search: &mut Search<'_, Self>, _place: usize) -> bool {
        true
    }

    /// Whether it is known that the links of the site at this place have no routes from a candidate.
    fn is_unroutable(_search: &Search<'_, Self>, _place: usize, _at: usize) -> bool {
        false
    }

    /// Called when the links of the placed sites have no routes that fit together.
    fn unroutable(_search: &mut Search<'_, Self>) {}

    /// Whether a complete placement that fits is taken. If not, the search goes on.
    fn accepts(_search: &mut Search<'_, Self>) -> bool {
        true
    }
}

/// The input of the search, and what it keeps between nodes.
pub(super) struct Search<'a, O> {
    network: &'a Network,
    classes: &'a [Class],
    links: &'a [Link],
    rows: Rows,
    routing: Routing,
    occupancy: O,
    meter: Meter<'a>,
    watch: &'a mut Watch<'a>,
    /// The candidates of all sites in one list; `starts` has where each site's part begins.
    vertices: Vec<u32>,
    starts: Vec<usize>,
    /// The cost of the amounts at the site alone, for each candidate.
    own: Vec<u64>,
    /// The score of each candidate, which the bound counts.
    score: Vec<u64>,
    /// The part of the score that is for neighbours later in the order.
    ahead: Vec<u64>,
    /// How many reasons there are for which the candidate is closed at this node.
    closed: Vec<u32>,
    order: Vec<usize>,
    /// For each place in the order, the earlier site that must not rank above.
    leaders: Vec<Option<usize>>,
    /// For each place, whether the first site can be exchanged with the site there.
    follows_first: Vec<bool>,
    /// The rank of each vertex, if the rule has one rank for all sites.
    rank: Vec<u32>,
    /// For each place in the order, the links to sites that come earlier and later in it.
    earlier: Vec<Vec<Tie>>,
    later: Vec<Vec<Tie>>,
    /// The tables of cheapest completions, and whether the search has to go back to make them.
    chains: Option<Chains>,
    restart: bool,
    tables_after: u64,
    placed: Vec<u32>,
    /// Scratch memory, by place in the order.
    queues: Vec<Vec<(u64, u32)>>,
    least: Vec<Vec<u64>>,
    errands: Vec<UnroutedLink>,
    /// The cost of the best plan so far.
    best: u64,
    best_placed: Vec<u32>,
    best_paths: Vec<Path>,
    /// Whether a plan was recorded.
    found: bool,
    /// The least bound of what was left unsearched.
    unsearched: u64,
}

/// Called for every plan better than all before, with its cost and the number of nodes opened so
/// far.
pub(super) type Watch<'a> = dyn FnMut(u64, u64) + 'a;

/// The result of a search.
pub(super) struct SearchResult {
    /// The vertex of each site, the route of each link, and the cost; `None` when no plan was
    /// found, or none that costs less than the one that was known before.
    pub(super) plan: Option<(Vec<u32>, Vec<Path>, u64)>,
    /// No plan costs less. `u64::MAX` when it is proven that there is no plan; what was known before
    /// when none is cheaper.
    pub(super) lower_bound: u64,
    /// The number of nodes opened.
    pub(super) nodes: u64,
}

/// The request, in the terms of the search.
pub(super) struct Demand<'a> {
    pub(super) candidates: &'a Candidates,
    /// What each site wants: the first site of the request that wants the same.
    pub(super) wants: &'a [usize],
    /// How many nodes are opened before the tables of cheapest completions are made.
    pub(super) tables_after: u64,
    /// Whether bounds see how the links of a site compete around it, which takes some milliseconds.
    pub(super) fan_out: bool,
    /// The cost of site `.0` at vertex `.1`.
    pub(super) value: &'a dyn Fn(usize, u32) -> u64,
}

impl<'a, O: Occupancy> Search<'a, O> {
    pub(super) fn new(
        ground: RoutingInput<'a>,
        demand: &Demand<'_>,
        occupancy: O,
        meter: Meter<'a>,
        watch: &'a mut Watch<'a>,
    ) -> Self {
        let RoutingInput { network, classes, links } = ground;
        let sites = demand.wants.len();
        let mut search = Self {
            network,
            classes,
            links,
            rows: Rows::new(network, classes.len()),
            routing: Routing::new(ground),
            occupancy,
            meter,
            watch,
            vertices: Vec::new(),
            starts: vec![0],
            own: Vec::new(),
            score: Vec::new(),
            ahead: Vec::new(),
            closed: Vec::new(),
            order: Vec::new(),
            leaders: Vec::new(),
            follows_first: Vec::new(),
            rank: Vec::new(),
            earlier: vec![Vec::new(); sites],
            later: vec![Vec::new(); sites],
            chains: None,
            restart: false,
            tables_after: demand.tables_after,
            placed: vec![0; sites],
            queues: vec![Vec::new(); sites],
            least: vec![Vec::new(); sites + 1],
            errands: Vec::new(),
            best: u64::MAX,
            best_placed: Vec::new(),
            best_paths: Vec::new(),
            found: false,
            unsearched: u64::MAX,
        };
        O::prepare(&mut search, demand);
        search
    }

    fn ground(&self) -> RoutingInput<'a> {
        RoutingInput { network: self.network, classes: self.classes, links: self.links }
    }

    /// Sets the ties of each place in the order. Returns the place of each site.
    fn set_ties(&mut self) -> Vec<usize> {
        let mut place = vec![0; self.order.len()];
        for (at, site) in self.order.iter().enumerate() {
            place[*site] = at;
        }
        for (index, link) in self.links.iter().enumerate() {
            for (site, other) in [(link.from, link.to), (link.to, link.from)] {
                let ties =
                    if place[other] < place[site] { &mut self.earlier } else { &mut self.later };
                ties[place[site]].push((index, other));
            }
        }
        place
    }

    /// Looks only for plans that cost less than one that is known, and puts off routes that take
    /// more nodes than `effort`. Prices take over a search for routes after so many nodes.
    pub(super) fn with(mut self, known: u64, effort: u64, prices_after: u32) -> Self {
        self.best = known;
        self.routing.effort = effort;
        self.routing.prices_after = prices_after;
        self
    }

    /// Runs until the search is complete or the budget has ended.
    pub(super) fn run(&mut self) -> SearchResult {
        if let Some(bound) = O::bound_rest(self, 0) {
            self.descend(0, 0, bound);
        }
        let (placed, paths) =
            (std::mem::take(&mut self.best_placed), std::mem::take(&mut self.best_paths));
        let plan = self.found.then_some((placed, paths, self.best));
        SearchResult {
            plan,
            lower_bound: self.best.min(self.unsearched),
            nodes: self.meter.opened(),
        }
    }

    /// Searches below a node. The sites before `place` are placed, their amounts cost `spent`, and no
    /// plan below costs less than `bound`. False when the budget ended.
    fn descend(&mut self, place: usize, spent: u64, bound: u64) -> bool {
        if place == self.order.len() {
            self.record(bound);
            return true;
        }
        if O::is_dead(self, place) {
            return true;
        }
        if let Some(chains) = &self.chains {
            // The search is long enough for tables, so it goes back to the node where the prefix is
            // placed.
            self.restart |= !chains.ready()
                && !self.meter.ended()
                && chains.prefix <= place
                && self.meter.opened() >= self.tables_after;
        }
        O::expand(self, place);
        let mut queue = std::mem::take(&mut self.queues[place]);
        self.fill_queue(place, &mut queue);
        // The least that the other sites add, whatever this site does.
        let others: u64 = self.least[place][1..].iter().sum();
        let routed = self.routing.total();
        let mut finished = true;
        for (score, at) in &queue {
            let floor = bound.max((spent + routed).saturating_add(*score));
            if floor >= self.best || self.restart {
                break;
            }
            if !finished || !self.meter.tick() {
                self.unsearched = self.unsearched.min(floor);
                finished = false;
                break;
            }
            finished = self.try_vertex(place, *at as usize, spent, others, floor);
            if place == 0 {
                self.close(self.vertices[*at as usize]);
            }
        }
        self.queues[place] = queue;
        if finished {
            O::searched(self, place);
        }
        finished
    }

    /// Closes this vertex for the sites that the first site can be exchanged with. All plans with
    /// the first site there have been searched, so by symmetry those plans need no search either.
    fn close(&mut self, vertex: u32) {
        for place in 1..self.order.len() {
            if !self.follows_first[place] {
                continue;
            }
            let site = self.order[place];
            for at in self.starts[site]..self.starts[site + 1] {
                self.closed[at] += u32::from(self.vertices[at] == vertex);
            }
        }
    }

    /// The open candidates of a place in the order, sorted by the least cost that they and all
    /// later sites add, then by index.
    fn fill_queue(&self, place: usize, queue: &mut Vec<(u64, u32)>) {
        let site = self.order[place];
        let least_rank = self.leaders[place]
            .map_or(0, |leader| O::placed_rank(self, leader) + O::RANKS_ABOVE_LEADER);
        let others: u64 = self.least[place][1..].iter().sum();
        let chains = self.chains.as_ref().filter(|chains| chains.ready());
        let rest = chains.map(|chains| {
            let rest = chains.rest(place, place, &self.order, &self.placed);
            (chains, chains.behind(place, &self.order, &self.placed), rest)
        });
        queue.clear();
        for at in self.starts[site]..self.starts[site + 1] {
            let vertex = self.vertices[at];
            if self.closed[at] == 0
                && self.occupancy.is_open(site, vertex)
                && O::rank(self, site, at) >= least_rank
                && !O::is_unroutable(self, place, at)
            {
                let mut least = self.score[at] + others + O::preference(self, place, at);
                if let Some((chains, behind, rest)) = rest {
                    let chain = chains.below(place, vertex, behind).saturating_add(rest);
                    least = least.max(chain.saturating_add(self.score[at] - self.ahead[at]));
                }
                // At most REQUEST_SITES_MAX times VERTICES_MAX. The indices are in the order of
                // vertices.
                queue.push((least, at as u32));
            }
        }
        queue.sort_unstable();
    }

    /// Makes the tables of cheapest completions for the present placement of the prefix. If the
    /// budget ends, there are none.
    fn fill_chains(&mut self, place: usize) {
        let Some(mut chains) = self.chains.take() else { return };
        let open_at = |search: &Self, place: usize| -> Vec<(u32, u64)> {
            let site = search.order[place];
            (search.starts[site]..search.starts[site + 1])
                .filter(|at| {
                    search.closed[*at] == 0 && search.occupancy.is_open(site, search.vertices[*at])
                })
                .map(|at| (search.vertices[at], search.score[at] - search.ahead[at]))
                .collect()
        };
        let mut finished = true;
        for child in (place..self.order.len()).rev() {
            let open = open_at(self, child);
            let Some((parent, link)) = chains.parent(child) else {
                chains.root(child, &open);
                continue;
            };
            chains.begin(child, self.network.vertices());
            let Link { from, class, .. } = self.links[link];
            let away = from == self.order[parent];
            for (vertex, _) in open_at(self, parent) {
                finished &= self.meter.tick();
                if !finished {
                    break;
                }
                let row = self.rows.find(self.network, self.classes, class, vertex, away);
                chains.fill(child, vertex, &open, &self.rows.row(row).cost);
            }
        }
        if finished {
            chains.end();
        }
        self.chains = Some(chains);
    }

    /// Searches below a node whose site at `place` has just been placed.
    fn go_on(&mut self, place: usize, spent: u64, total: u64, floor: u64) -> bool {
        let prefix = self.chains.as_ref().is_some_and(|chains| chains.prefix == place + 1);
        if prefix && self.meter.opened() >= self.tables_after {
            self.fill_chains(place + 1);
        }
        loop {
            let rest = O::bound_rest(self, place + 1);
            let chained = match &self.chains {
                Some(chains) if chains.ready() => {
                    chains.rest(place + 1, usize::MAX, &self.order, &self.placed)
                }
                _ => 0,
            };
            let bound =
                rest.map(|rest| floor.max((spent + total).saturating_add(rest.max(chained))));
            let below = match bound {
                Some(bound) if bound < self.best => self.descend(place + 1, spent, bound),
                _ => true,
            };
            if prefix && self.restart {
                self.restart = false;
                self.fill_chains(place + 1);
                continue;
            }
            if prefix && let Some(chains) = &mut self.chains {
                chains.forget();
            }
            return below;
        }
    }

    /// Searches the node with this site at this candidate. False when the budget ended.
    fn try_vertex(&mut self, place: usize, at: usize, spent: u64, others: u64, floor: u64) -> bool {
        let (site, vertex) = (self.order[place], self.vertices[at]);
        let spent = spent + self.own[at];
        self.occupancy.take(site, vertex);
        self.placed[site] = vertex;
        if !O::may_route(self, place) {
            self.occupancy.release(site, vertex);
            return true;
        }
        let mut undo = self.routing.mark();
        let ground = self.ground();
        self.collect_errands(place);
        let limit = self.best.saturating_sub(spent + others);
        let Self { routing, rows, errands, meter, .. } = self;
        let added = routing.add(ground, rows, errands, limit, &mut undo, meter);
        let finished = match added {
            AddOutcome::Hopeless => {
                O::unroutable(self);
                true
            }
            AddOutcome::Stopped => {
                self.unsearched = self.unsearched.min(floor);
                false
            }
            AddOutcome::PutOff { least } => {
                self.put_off(floor, spent + others, least);
                true
            }
            AddOutcome::Routed(total) | AddOutcome::Fits { total, .. } => {
                if let AddOutcome::Fits { least, .. } = added {
                    // What is found below is a plan, but what is not found may be one, too.
                    self.put_off(floor, spent + others, least);
                }
                self.join(place, vertex, true);
                let below = self.go_on(place, spent, total, floor);
                self.join(place, vertex, false);
                below
            }
        };
        self.routing.undo(ground, undo);
        self.occupancy.release(site, vertex);
        finished
    }

    /// Notes that what is below a node was not searched whole. No plan there costs less than `floor`,
    /// nor than the routes, which cost at least `least`, and `rest` together.
    fn put_off(&mut self, floor: u64, rest: u64, least: u64) {
        self.unsearched = self.unsearched.min(floor.max(rest.saturating_add(least)));
    }

    /// Collects the links whose second end has just been placed at this place in the order.
    fn collect_errands(&mut self, place: usize) {
        self.errands.clear();
        for (link, other) in &self.earlier[place] {
            let Link { from, to, class, .. } = self.links[*link];
            let (start, end) = (self.placed[from], self.placed[to]);
            if start == end {
                // A link between two sites that share a vertex needs no route.
                continue;
            }
            // The row of the end that was placed earlier, because many vertices are tried against
            // it.
            let away = *other == from;
            let source = self.placed[*other];
            let row = self.rows.find(self.network, self.classes, class, source, away);
            self.errands.push(UnroutedLink { link: *link, start, end, row, away });
        }
    }

    /// Adds the routes from a vertex that was just taken to the scores of its later neighbours, or
    /// subtracts them again.
    fn join(&mut self, place: usize, vertex: u32, add: bool) {
        for index in 0..self.later[place].len() {
            let (link, other) = self.later[place][index];
            let Link { from, class, .. } = self.links[link];
            let away = from == self.order[place];
            let row = self.rows.find(self.network, self.classes, class, vertex, away);
            let costs = &self.rows.row(row).cost;
            for at in self.starts[other]..self.starts[other + 1] {
                match (costs[self.vertices[at] as usize], add) {
                    (u64::MAX, true) => self.closed[at] += 1,
                    (u64::MAX, false) => self.closed[at] -= 1,
                    (cost, true) => self.score[at] += cost,
                    (cost, false) => self.score[at] -= cost,
                }
            }
        }
    }

    fn record(&mut self, cost: u64) {
        if !O::accepts(self) {
            return;
        }
        self.found = true;
        // Nothing costs less than 0, so nothing more is searched.
        self.best = if O::FIRST_IS_BEST { 0 } else { cost };
        (self.watch)(cost, self.meter.opened());
        self.best_placed.clone_from(&self.placed);
        self.best_paths.clear();
        // A link between two sites that share a vertex was not routed; its path is an old one.
        let Self { links, placed, routing, best_paths, .. } = self;
        best_paths.extend(links.iter().enumerate().map(|(index, link)| {
            if placed[link.from] == placed[link.to] { Path::EMPTY } else { *routing.path(index) }
        }));
    }
}
