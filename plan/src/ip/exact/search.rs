//! The search over placements: depth first, the cheapest vertex first, with exact joint routing at
//! every node.
//!
//! At a node some sites are placed, and the links between them are routed together at the least
//! cost. The bound adds the cheapest assignment of scores for the sites still to be placed. The
//! score of a site at a vertex is the sum of the cost of its amounts there, the cheapest route to each
//! placed neighbour, and, for each neighbour later in the order, the cheapest route to the nearest
//! vertex that this neighbour could take. Each link is counted once: at its later end when the
//! other end is placed, otherwise at its earlier end.

use super::assign::Assignment;
use super::chains::Chains;
use super::meter::Meter;
use super::network::{Class, Link, Network, Path};
use super::order;
use super::paths::{Rows, nearest};
use super::routing::{AddOutcome, Routing, RoutingInput, UnroutedLink};
use crate::ip::admit::Candidates;

/// A link seen from one of its ends: the index of the link, and the site at the other end.
type Tie = (usize, usize);

/// The input of the search, and what it keeps between nodes.
pub(super) struct Search<'a> {
    network: &'a Network,
    classes: &'a [Class],
    links: &'a [Link],
    rows: Rows,
    routing: Routing,
    assignment: Assignment,
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
    /// For each place in the order, the earlier site that must rank below.
    leaders: Vec<Option<usize>>,
    /// For each place, whether the first site can be exchanged with the site there.
    follows_first: Vec<bool>,
    /// The rank of each vertex: the cheapest for the first site ranks first.
    rank: Vec<u32>,
    /// For each place in the order, the links to sites that come earlier and later in it.
    earlier: Vec<Vec<Tie>>,
    later: Vec<Vec<Tie>>,
    /// The tables of cheapest completions, and whether the search has to go back to make them.
    chains: Option<Chains>,
    restart: bool,
    tables_after: u64,
    taken: Vec<bool>,
    placed: Vec<u32>,
    /// Scratch memory, by place in the order.
    queues: Vec<Vec<(u64, u32)>>,
    least: Vec<Vec<u64>>,
    errands: Vec<UnroutedLink>,
    /// The cost of the best plan so far.
    best: u64,
    best_placed: Vec<u32>,
    best_paths: Vec<Path>,
    /// The least bound of what was left unsearched.
    unsearched: u64,
}

/// Called for every plan better than all before, with its cost and the number of nodes opened so
/// far.
pub(super) type Watch<'a> = dyn FnMut(u64, u64) + 'a;

/// The result of a search.
pub(super) struct SearchResult {
    /// The vertex of each site, the route of each link, and the cost; `None` when no plan was
    /// found.
    pub(super) plan: Option<(Vec<u32>, Vec<Path>, u64)>,
    /// No plan costs less. `u64::MAX` when it is proven that there is no plan.
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
    /// The cost of site `.0` at vertex `.1`.
    pub(super) value: &'a dyn Fn(usize, u32) -> u64,
}

impl<'a> Search<'a> {
    pub(super) fn new(
        ground: RoutingInput<'a>,
        demand: &Demand<'_>,
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
            assignment: Assignment::new(network.vertices()),
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
            taken: vec![false; network.vertices()],
            placed: vec![0; sites],
            queues: vec![Vec::new(); sites],
            least: vec![Vec::new(); sites + 1],
            errands: Vec::new(),
            best: u64::MAX,
            best_placed: Vec::new(),
            best_paths: Vec::new(),
            unsearched: u64::MAX,
        };
        search.open_candidates(demand);
        search.set_order(demand);
        search.look_ahead();
        search.set_rank();
        search
    }

    fn ground(&self) -> RoutingInput<'a> {
        RoutingInput { network: self.network, classes: self.classes, links: self.links }
    }

    /// Takes over the candidates, except vertices whose edges cannot carry the site's links.
    fn open_candidates(&mut self, demand: &Demand<'_>) {
        for site in 0..demand.wants.len() {
            let ports = Ports::of(self.links, site);
            for vertex in demand.candidates.of(site) {
                if ports.suffice(self.network, *vertex) {
                    self.vertices.push(*vertex);
                    self.own.push((demand.value)(site, *vertex));
                }
            }
            self.starts.push(self.vertices.len());
        }
        self.score.extend_from_slice(&self.own);
        self.closed.resize(self.own.len(), 0);
        self.ahead.resize(self.own.len(), 0);
    }

    fn set_order(&mut self, demand: &Demand<'_>) {
        let open: Vec<usize> = self.starts.windows(2).map(|pair| pair[1] - pair[0]).collect();
        self.order = order::placing_order(self.links, &open);
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
        self.chains = Chains::of(self.links, &self.order, &place);
        let reversible = self.network.reversible;
        (self.leaders, self.follows_first) =
            order::leaders(self.links, demand.candidates, demand.wants, &self.order, reversible);
    }

    /// Adds to each score a lower bound of the routes to neighbours later in the order.
    fn look_ahead(&mut self) {
        let mut marked = vec![false; self.network.vertices()];
        for vertex in &self.vertices {
            marked[*vertex as usize] = true;
        }
        let mut tables: Vec<Option<Vec<u64>>> = vec![None; 2 * self.classes.len()];
        for place in 0..self.order.len() {
            let site = self.order[place];
            for (link, _) in &self.later[place] {
                let link = self.links[*link];
                let away = link.from == site || self.network.reversible;
                let table = tables[2 * link.class + usize::from(away)].get_or_insert_with(|| {
                    nearest(self.network, self.classes[link.class], &marked, away)
                });
                for at in self.starts[site]..self.starts[site + 1] {
                    match table[self.vertices[at] as usize] {
                        u64::MAX => self.closed[at] += 1,
                        cost => {
                            self.score[at] += cost;
                            self.ahead[at] += cost;
                        }
                    }
                }
            }
        }
    }

    fn set_rank(&mut self) {
        let mut ranked: Vec<(u64, u32)> =
            (0u32..).zip(&self.taken).map(|(vertex, _)| (u64::MAX, vertex)).collect();
        if let Some(first) = self.order.first() {
            for at in self.starts[*first]..self.starts[*first + 1] {
                ranked[self.vertices[at] as usize].0 = self.score[at];
            }
        }
        ranked.sort_unstable();
        self.rank.resize(ranked.len(), 0);
        for (rank, (_, vertex)) in (0u32..).zip(ranked) {
            self.rank[vertex as usize] = rank;
        }
    }

    /// Runs until the search is complete or the budget has ended.
    pub(super) fn run(mut self) -> SearchResult {
        if let Some(bound) = self.bound_rest(0) {
            self.descend(0, 0, bound);
        }
        let plan = (self.best < u64::MAX).then_some((self.best_placed, self.best_paths, self.best));
        SearchResult {
            plan,
            lower_bound: self.best.min(self.unsearched),
            nodes: self.meter.opened(),
        }
    }

    /// The least cost that the sites from this place in the order on can add.
    fn bound_rest(&mut self, place: usize) -> Option<u64> {
        let Self { order, starts, vertices, closed, taken, score, .. } = self;
        let scores = |row: usize| {
            let site = order[place + row];
            (starts[site]..starts[site + 1])
                .filter(|at| closed[*at] == 0 && !taken[vertices[*at] as usize])
                .map(|at| (vertices[at], score[at]))
        };
        self.assignment.least(order.len() - place, scores, &mut self.least[place])
    }

    /// Searches below a node. The sites before `place` are placed, their amounts cost `spent`, and no
    /// plan below costs less than `bound`. False when the budget ended.
    fn descend(&mut self, place: usize, spent: u64, bound: u64) -> bool {
        if place == self.order.len() {
            self.record(bound);
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
        let rank = |vertex: u32| self.rank[vertex as usize];
        let after = self.leaders[place].map(|leader| rank(self.placed[leader]));
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
                && !self.taken[vertex as usize]
                && after.is_none_or(|after| rank(vertex) > after)
            {
                let mut least = self.score[at] + others;
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
                    search.closed[*at] == 0 && !search.taken[search.vertices[*at] as usize]
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
            let rest = self.bound_rest(place + 1);
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
        self.taken[vertex as usize] = true;
        self.placed[site] = vertex;
        let mut undo = self.routing.mark();
        let ground = self.ground();
        self.collect_errands(place);
        let limit = self.best.saturating_sub(spent + others);
        let Self { routing, rows, errands, meter, .. } = self;
        let added = routing.add(ground, rows, errands, limit, &mut undo, meter);
        let finished = match added {
            AddOutcome::Hopeless => true,
            AddOutcome::Stopped => {
                self.unsearched = self.unsearched.min(floor);
                false
            }
            AddOutcome::Routed(total) => {
                self.join(place, vertex, true);
                let below = self.go_on(place, spent, total, floor);
                self.join(place, vertex, false);
                below
            }
        };
        self.routing.undo(ground, undo);
        self.taken[vertex as usize] = false;
        finished
    }

    /// Collects the links whose second end has just been placed at this place in the order.
    fn collect_errands(&mut self, place: usize) {
        self.errands.clear();
        for (link, other) in &self.earlier[place] {
            let Link { from, to, class, .. } = self.links[*link];
            // The row of the end that was placed earlier, because many vertices are tried against
            // it.
            let away = *other == from;
            let source = self.placed[*other];
            let row = self.rows.find(self.network, self.classes, class, source, away);
            let (start, end) = (self.placed[from], self.placed[to]);
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
        self.best = cost;
        (self.watch)(cost, self.meter.opened());
        self.best_placed.clone_from(&self.placed);
        self.best_paths.clear();
        self.best_paths.extend((0..self.links.len()).map(|link| *self.routing.path(link)));
    }
}

/// What the links of a site require of the edges of any vertex: each link leaves the vertex over
/// one edge.
struct Ports {
    /// The number of links away from the site, to the site, and both together, each with the least
    /// of their rates.
    away: (u64, u64),
    back: (u64, u64),
    both: (u64, u64),
}

impl Ports {
    fn of(links: &[Link], site: usize) -> Self {
        let count = |chosen: &dyn Fn(&Link) -> bool| {
            links
                .iter()
                .filter(|link| chosen(link))
                .fold((0, u64::MAX), |(count, rate), link| (count + 1, link.rate.min(rate)))
        };
        Self {
            away: count(&|link| link.from == site),
            back: count(&|link| link.to == site),
            both: count(&|link| link.from == site || link.to == site),
        }
    }

    /// Whether the edges of the vertex carry that many links of the least rate. This is necessary
    /// but not sufficient.
    fn suffice(&self, network: &Network, vertex: u32) -> bool {
        let steps = network.steps(vertex);
        let enough = |(links, rate): (u64, u64), away: bool, back: bool| {
            let mut slots = 0;
            links == 0
                || steps.iter().any(|step| {
                    if away {
                        slots += network.free[step.out as usize] / rate;
                    }
                    // On a shared edge the opposite step uses the same capacity.
                    if back && !(away && step.back == step.out) {
                        slots += network.free[step.back as usize] / rate;
                    }
                    slots >= links
                })
        };
        enough(self.both, true, true)
            && (network.reversible
                || (enough(self.away, true, false) && enough(self.back, false, true)))
    }
}
