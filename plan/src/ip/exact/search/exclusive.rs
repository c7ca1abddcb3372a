//! The rule that no two requested sites share a vertex (Eq. 5), and what rests on it: the bound by
//! the cheapest assignment, and symmetries of several sites at a time.

use super::super::assign::Assignment;
use super::super::chains::Chains;
use super::super::fan::Fan;
use super::super::network::{Link, Network};
use super::super::order;
use super::super::paths::nearest;
use super::{Demand, Occupancy, Search};

/// The vertices that are taken.
pub(in super::super) struct Exclusive {
    taken: Vec<bool>,
    assignment: Assignment,
}

impl Exclusive {
    pub(in super::super) fn new(vertices: usize) -> Self {
        Self { taken: vec![false; vertices], assignment: Assignment::new(vertices) }
    }
}

impl Occupancy for Exclusive {
    const RANKS_ABOVE_LEADER: u32 = 1;

    fn prepare(search: &mut Search<'_, Self>, demand: &Demand<'_>) {
        search.open_candidates(demand);
        search.set_order(demand);
        search.look_ahead();
        if demand.fan_out {
            search.fan_out();
        }
        search.set_rank();
    }

    fn rank(search: &Search<'_, Self>, _site: usize, at: usize) -> u32 {
        search.rank[search.vertices[at] as usize]
    }

    fn placed_rank(search: &Search<'_, Self>, site: usize) -> u32 {
        search.rank[search.placed[site] as usize]
    }

    fn is_open(&self, _site: usize, vertex: u32) -> bool {
        !self.taken[vertex as usize]
    }

    fn take(&mut self, _site: usize, vertex: u32) {
        self.taken[vertex as usize] = true;
    }

    fn release(&mut self, _site: usize, vertex: u32) {
        self.taken[vertex as usize] = false;
    }

    fn bound_rest(search: &mut Search<'_, Self>, place: usize) -> Option<u64> {
        let Search { order, starts, vertices, closed, occupancy, score, least, .. } = search;
        let Exclusive { taken, assignment } = occupancy;
        let scores = |row: usize| {
            let site = order[place + row];
            (starts[site]..starts[site + 1])
                .filter(|at| closed[*at] == 0 && !taken[vertices[*at] as usize])
                .map(|at| (vertices[at], score[at]))
        };
        assignment.least(order.len() - place, scores, &mut least[place])
    }
}

impl Search<'_, Exclusive> {
    /// Takes over the candidates, except vertices whose edges cannot carry the site's links.
    fn open_candidates(&mut self, demand: &Demand<'_>) {
        for site in 0..demand.wants.len() {
            let ports = Ports::of(self.links, site, 0);
            let later: Vec<Ports> = (1..self.network.periods)
                .map(|period| Ports::of(self.links, site, period))
                .collect();
            for vertex in demand.candidates.of(site) {
                if ports.suffice(self.network, *vertex)
                    && later.iter().all(|ports| ports.suffice(self.network, *vertex))
                {
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
        let place = self.set_ties();
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
                    let class = self.classes[link.class];
                    nearest(self.network.layer(class), class, &marked, away)
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

    /// Raises the same bounds by what the links to later neighbours need together, in small
    /// federations. Closes the vertices that they cannot all leave.
    fn fan_out(&mut self) {
        let mut marked = vec![false; self.network.vertices()];
        for vertex in &self.vertices {
            marked[*vertex as usize] = true;
        }
        for place in 0..self.order.len() {
            let site = self.order[place];
            let later = self.later[place].iter().map(|(link, _)| self.links[*link]);
            let links = later.clone().count();
            // Two links between the same two sites end at one vertex.
            let mut others: Vec<usize> =
                self.later[place].iter().map(|(_, other)| *other).collect();
            others.sort_unstable();
            others.dedup();
            if others.len() < links {
                continue;
            }
            let rate = later.clone().map(|link| link.rate).min().unwrap_or(0);
            let units = later.map(|link| self.classes[link.class].units).min().unwrap_or(0);
            let fan = (links > 1).then(|| Fan::new(self.network, rate, units, links)).flatten();
            let Some(mut fan) = fan else { continue };
            for at in self.starts[site]..self.starts[site + 1] {
                if self.closed[at] > 0 {
                    continue;
                }
                match fan.least(self.vertices[at], links, &marked) {
                    Some(cost) => {
                        let more = cost.saturating_sub(self.ahead[at]);
                        self.score[at] += more;
                        self.ahead[at] += more;
                    }
                    None => self.closed[at] += 1,
                }
            }
        }
    }

    /// Ranks the vertices: the cheapest for the first site ranks first.
    fn set_rank(&mut self) {
        let mut ranked: Vec<(u64, u32)> =
            (0..self.network.vertices() as u32).map(|vertex| (u64::MAX, vertex)).collect();
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
}

/// What the links of a site require of the edges of any vertex in one period: each link leaves the
/// vertex over one edge.
struct Ports {
    period: usize,
    /// The number of links away from the site, to the site, and both together, each with the least
    /// of their rates.
    away: (u64, u64),
    back: (u64, u64),
    both: (u64, u64),
}

impl Ports {
    fn of(links: &[Link], site: usize, period: usize) -> Self {
        let count = |chosen: &dyn Fn(&Link) -> bool| {
            links
                .iter()
                .filter(|link| (link.periods.0..link.periods.1).contains(&period) && chosen(link))
                .fold((0, u64::MAX), |(count, rate), link| (count + 1, link.rate.min(rate)))
        };
        Self {
            period,
            away: count(&|link| link.from == site),
            back: count(&|link| link.to == site),
            both: count(&|link| link.from == site || link.to == site),
        }
    }

    /// Whether the edges of the vertex carry that many links of the least rate. This is necessary
    /// but not sufficient.
    fn suffice(&self, network: &Network, vertex: u32) -> bool {
        let steps = network.steps(vertex);
        let free = |resource: u32| network.free[resource as usize * network.periods + self.period];
        let enough = |(links, rate): (u64, u64), away: bool, back: bool| {
            let mut slots = 0;
            links == 0
                || steps.iter().any(|step| {
                    if away {
                        slots += free(step.out) / rate;
                    }
                    // On a shared edge the opposite step uses the same capacity.
                    if back && !(away && step.back == step.out) {
                        slots += free(step.back) / rate;
                    }
                    slots >= links
                })
        };
        enough(self.both, true, true)
            && (network.reversible
                || (enough(self.away, true, false) && enough(self.back, false, true)))
    }
}
