//! The rule that requested sites may share a vertex: what they want there is added up.
//!
//! All costs are zero, so the first placement that fits ends the search, and candidates are tried
//! in the order in which they are listed. Bounds are necessary conditions: every site that is not
//! placed has an open candidate; what these sites want together is free at their open candidates;
//! and the edges of a vertex carry the links that have to leave it. Each bound that closes a branch
//! notes the shortages that it rests on in [`Notes`].
//!
//! The sum of what is wanted is compared with the sum of what is free in whole multiples of a
//! divisor, for several divisors: of sites that want 3 each, a vertex with 8 takes two. This is a
//! dual feasible function of bin packing (Fekete and Schepers 2001), because rounding down never
//! raises a sum above the sum that is rounded down.
//!
//! Two placements that differ only by an exchange of two twins ([`order::twins`]) fit alike, so the
//! search tries one of them, the one that comes first. This ends when a placement that fits is
//! refused, because the caller may take its twin.

use super::super::network::{Link, Network};
use super::super::order;
use super::notes::{Gap, Notes};
use super::{Demand, Occupancy, Search};

/// What members want, and what there is, by kind. A kind is an index here.
pub(in super::super) struct Amounts {
    /// The number of kinds.
    pub(in super::super) kinds: usize,
    /// By member and kind.
    pub(in super::super) wants: Vec<u64>,
    /// What is free, by vertex and kind.
    pub(in super::super) free: Vec<u64>,
    /// What can be free at most, by vertex and kind.
    pub(in super::super) most: Vec<u64>,
}

/// What the bounds need beside the amounts. It is the same for all searches with the same members.
pub(in super::super) struct Bounds {
    /// For each kind, the divisors in whose multiples amounts are compared.
    divisors: Vec<Vec<u64>>,
    groups: Vec<Group>,
    /// The greatest common divisor of the rates of all links.
    rate: u64,
}

/// Members that have to be placed within some vertices.
struct Group {
    members: Vec<bool>,
    vertices: Vec<u32>,
}

/// Most divisors of one kind. More of them seldom refute what these do not.
const DIVISORS_MAX: usize = 8;

impl Bounds {
    /// The bounds for members with these candidates.
    pub(in super::super) fn new(amounts: &Amounts, lists: &[Vec<u32>], links: &[Link]) -> Self {
        let mut sets: Vec<Vec<u32>> = lists.to_vec();
        sets.iter_mut().for_each(|set| set.sort_unstable());
        let mut all: Vec<u32> = sets.concat();
        all.sort_unstable();
        all.dedup();
        let mut areas = vec![all];
        for set in &sets {
            if !areas.contains(set) {
                areas.push(set.clone());
            }
        }
        let within =
            |area: &[u32], set: &[u32]| set.iter().all(|at| area.binary_search(at).is_ok());
        let group = |vertices: Vec<u32>| Group {
            members: sets.iter().map(|set| within(&vertices, set)).collect(),
            vertices,
        };
        Self {
            divisors: (0..amounts.kinds).map(|kind| divisors(amounts, kind)).collect(),
            groups: areas.into_iter().map(group).collect(),
            rate: links.iter().fold(0, |rate, link| gcd(rate, link.rate)),
        }
    }
}

/// The greatest common divisor of what members want, and the largest of these amounts.
fn divisors(amounts: &Amounts, kind: usize) -> Vec<u64> {
    let wants = amounts.wants.iter().skip(kind).step_by(amounts.kinds.max(1));
    let mut wanted: Vec<u64> = wants.copied().filter(|want| *want > 0).collect();
    let common = wanted.iter().fold(0, |common, want| gcd(common, *want));
    wanted.sort_unstable_by(|a, b| b.cmp(a));
    wanted.dedup();
    wanted.truncate(DIVISORS_MAX);
    if common > 0 && !wanted.contains(&common) {
        wanted.push(common);
    }
    wanted
}

const fn gcd(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { gcd(b, a % b) }
}

/// What is free beside the placed members, and who takes a placement.
pub(in super::super) struct Sums<'a> {
    amounts: &'a Amounts,
    bounds: &'a Bounds,
    /// What is left of what is free, by vertex and kind.
    left: Vec<u64>,
    /// What would be left if everything were free.
    spare: Vec<u64>,
    /// Whether members are placed in their own order, so that the first placement found is the
    /// lexicographically least.
    in_order: bool,
    /// Whether twins may be exchanged.
    twins: bool,
    accept: &'a mut dyn FnMut(&[u32]) -> bool,
    notes: &'a mut Notes,
    place: Vec<usize>,
    /// Scratch memory: whether a candidate is open, whether a vertex is open to somebody, the rates
    /// away from a vertex and to it, and what a resource could add.
    open: Vec<bool>,
    usable: Vec<bool>,
    rates: Vec<[u64; 2]>,
    gains: Vec<(u64, u32)>,
}

/// How a search of [`Sums`] goes on.
pub(in super::super) struct Manner<'a> {
    /// Places members in their own order instead of the largest first.
    pub(in super::super) in_order: bool,
    /// Tries one of several placements that differ by an exchange of twins.
    pub(in super::super) twins: bool,
    /// Takes or refuses a placement that fits.
    pub(in super::super) accept: &'a mut dyn FnMut(&[u32]) -> bool,
}

impl<'a> Sums<'a> {
    pub(in super::super) fn new(
        amounts: &'a Amounts,
        bounds: &'a Bounds,
        notes: &'a mut Notes,
        manner: Manner<'a>,
    ) -> Self {
        let vertices = amounts.free.len() / amounts.kinds.max(1);
        Self {
            amounts,
            bounds,
            left: amounts.free.clone(),
            spare: amounts.most.clone(),
            in_order: manner.in_order,
            twins: manner.twins,
            accept: manner.accept,
            notes,
            place: Vec::new(),
            open: Vec::new(),
            usable: vec![false; vertices],
            rates: vec![[0; 2]; vertices],
            gains: Vec::new(),
        }
    }

    fn wants(&self, site: usize) -> &[u64] {
        &self.amounts.wants[site * self.amounts.kinds..(site + 1) * self.amounts.kinds]
    }

    /// How much of what is free everywhere a member wants, in millionths, of the kind of which it
    /// wants the largest part.
    fn weights(&self, members: usize) -> Vec<u64> {
        let kinds = self.amounts.kinds;
        let mut all = vec![0u128; kinds];
        for free in self.amounts.free.chunks(kinds.max(1)) {
            for (sum, free) in all.iter_mut().zip(free) {
                *sum += u128::from(*free);
            }
        }
        let part = |(want, all): (&u64, &u128)| {
            // At most 10^6 times what is wanted, so the cast keeps the value.
            (u128::from(*want) * 1_000_000 / (*all).max(1)).min(u128::from(u64::MAX)) as u64
        };
        let weight = |site| self.wants(site).iter().zip(&all).map(part).max().unwrap_or(0);
        (0..members).map(weight).collect()
    }
}

impl Occupancy for Sums<'_> {
    const RANKS_ABOVE_LEADER: u32 = 0;

    fn prepare(search: &mut Search<'_, Self>, demand: &Demand<'_>) {
        let members = demand.wants.len();
        for site in 0..members {
            let candidates = demand.candidates.of(site);
            search.vertices.extend_from_slice(candidates);
            // There are at most VERTICES_MAX candidates.
            search.rank.extend(0..candidates.len() as u32);
            search.starts.push(search.vertices.len());
        }
        let candidates = search.vertices.len();
        search.own.resize(candidates, 0);
        search.score.resize(candidates, 0);
        search.ahead.resize(candidates, 0);
        search.closed.resize(candidates, 0);
        search.occupancy.open.resize(candidates, false);
        search.order = if search.occupancy.in_order {
            (0..members).collect()
        } else {
            let open: Vec<usize> =
                (0..members).map(|site| demand.candidates.of(site).len()).collect();
            order::packing_order(search.links, &open, &search.occupancy.weights(members))
        };
        search.occupancy.place = search.set_ties();
        (search.leaders, search.follows_first) = if search.occupancy.twins {
            let reversible = search.network.reversible;
            order::twins(search.links, demand.candidates, demand.wants, &search.order, reversible)
        } else {
            (vec![None; members], vec![false; members])
        };
    }

    fn is_open(&self, site: usize, vertex: u32) -> bool {
        let from = vertex as usize * self.amounts.kinds;
        self.wants(site).iter().zip(&self.left[from..]).all(|(want, left)| want <= left)
    }

    fn take(&mut self, site: usize, vertex: u32) {
        let from = vertex as usize * self.amounts.kinds;
        for kind in 0..self.amounts.kinds {
            let want = self.amounts.wants[site * self.amounts.kinds + kind];
            self.left[from + kind] -= want;
            self.spare[from + kind] -= want;
        }
    }

    fn release(&mut self, site: usize, vertex: u32) {
        let from = vertex as usize * self.amounts.kinds;
        for kind in 0..self.amounts.kinds {
            let want = self.amounts.wants[site * self.amounts.kinds + kind];
            self.left[from + kind] += want;
            self.spare[from + kind] += want;
        }
    }

    fn bound_rest(search: &mut Search<'_, Self>, place: usize) -> Option<u64> {
        search.least[place].clear();
        search.least[place].resize(search.order.len() - place, 0);
        (search.find_open(place) && search.sums_suffice(place)).then_some(0)
    }

    fn expand(search: &mut Search<'_, Self>, place: usize) {
        let site = search.order[place];
        for at in search.starts[site]..search.starts[site + 1] {
            if search.closed[at] > 0 || !search.occupancy.is_open(site, search.vertices[at]) {
                search.note_closed(place, site, at);
            }
        }
    }

    fn may_route(search: &mut Search<'_, Self>, place: usize) -> bool {
        search.links.is_empty() || search.ports_suffice(place)
    }

    fn unroutable(search: &mut Search<'_, Self>) {
        for resource in search.routing.short() {
            search.occupancy.notes.add_edge(*resource);
        }
    }

    fn accepts(search: &mut Search<'_, Self>) -> bool {
        if (search.occupancy.accept)(&search.placed) {
            return true;
        }
        // What was left out for a twin so far does not fit, because its twin did not.
        search.leaders.fill(None);
        search.follows_first.fill(false);
        false
    }
}

impl Search<'_, Sums<'_>> {
    /// Finds the open candidates of the members from this place in the order on. False when one of
    /// them has none.
    fn find_open(&mut self, place: usize) -> bool {
        for index in place..self.order.len() {
            let site = self.order[index];
            let mut some = false;
            for at in self.starts[site]..self.starts[site + 1] {
                let open = self.closed[at] == 0 && self.occupancy.is_open(site, self.vertices[at]);
                self.occupancy.open[at] = open;
                some |= open;
            }
            if !some {
                for at in self.starts[site]..self.starts[site + 1] {
                    self.note_closed(place, site, at);
                }
                return false;
            }
        }
        true
    }

    /// Notes why a candidate is closed to a member while the members before `place` are placed.
    fn note_closed(&mut self, place: usize, site: usize, at: usize) {
        let vertex = self.vertices[at];
        let sums = &mut self.occupancy;
        let from = vertex as usize * sums.amounts.kinds;
        let mut short = None;
        for (kind, want) in sums.wants(site).iter().enumerate() {
            if *want > sums.spare[from + kind]
                || (*want > sums.left[from + kind] && sums.notes.has_site(vertex, kind))
            {
                return;
            }
            if *want > sums.left[from + kind] && short.is_none() {
                short = Some(kind);
            }
        }
        let mut gap = None;
        let mut gaps = 0;
        for index in 0..self.earlier[self.occupancy.place[site]].len() {
            let (link, other) = self.earlier[self.occupancy.place[site]][index];
            if self.closed[at] == 0 || self.occupancy.place[other] >= place {
                continue;
            }
            let Link { from, class, .. } = self.links[link];
            let away = from == other;
            let source = self.placed[other];
            let row = self.rows.find(self.network, self.classes, class, source, away);
            if self.rows.row(row).cost[vertex as usize] < u64::MAX {
                continue;
            }
            let away = away || self.network.reversible;
            let new = Gap { class, vertex: source, away, other: vertex };
            if self.occupancy.notes.has_gap(&new) {
                return;
            }
            gaps += 1;
            gap = gap.or(Some(new));
        }
        if self.closed[at] > gaps {
            // The candidate is closed for a twin, whose own search has noted the shortages.
            return;
        }
        match (short, gap) {
            (Some(kind), _) => self.occupancy.notes.add_site(vertex, kind),
            (None, Some(gap)) => self.occupancy.notes.add_gap(gap),
            (None, None) => {}
        }
    }

    /// Whether what the members from this place in the order on want together is free at their open
    /// candidates. This is necessary but not sufficient.
    fn sums_suffice(&mut self, place: usize) -> bool {
        let (amounts, bounds) = (self.occupancy.amounts, self.occupancy.bounds);
        for group in &bounds.groups {
            for kind in 0..amounts.kinds {
                self.mark_usable(place, group, kind);
                for divisor in &bounds.divisors[kind] {
                    let wanted: u64 = self.order[place..]
                        .iter()
                        .filter(|site| group.members[**site])
                        .map(|site| amounts.wants[*site * amounts.kinds + kind] / divisor)
                        .sum();
                    let sums = &self.occupancy;
                    let left = |at: &u32| {
                        let left = sums.left[*at as usize * amounts.kinds + kind] / divisor;
                        if sums.usable[*at as usize] { left } else { 0 }
                    };
                    let have: u64 = group.vertices.iter().map(left).sum();
                    if wanted > have {
                        self.note_sum(place, group, kind, *divisor, wanted - have - 1);
                        return false;
                    }
                }
            }
        }
        true
    }

    /// Marks the vertices of a group that are open to a member that wants something of the kind.
    fn mark_usable(&mut self, place: usize, group: &Group, kind: usize) {
        for vertex in &group.vertices {
            self.occupancy.usable[*vertex as usize] = false;
        }
        let Self { order, starts, vertices, occupancy, .. } = self;
        for site in &order[place..] {
            if !group.members[*site] || occupancy.wants(*site)[kind] == 0 {
                continue;
            }
            let own = starts[*site]..starts[*site + 1];
            for (vertex, open) in vertices[own.clone()].iter().zip(&occupancy.open[own]) {
                occupancy.usable[*vertex as usize] |= open;
            }
        }
    }

    /// Notes the shortages of a sum that does not suffice. `slack` is how much more could be free,
    /// in multiples of the divisor, and the sum would not suffice either.
    fn note_sum(&mut self, place: usize, group: &Group, kind: usize, divisor: u64, slack: u64) {
        let sums = &mut self.occupancy;
        sums.gains.clear();
        for vertex in &group.vertices {
            let from = *vertex as usize * sums.amounts.kinds + kind;
            let usable = sums.usable[*vertex as usize];
            if usable && sums.notes.has_site(*vertex, kind) {
                continue;
            }
            let now = if usable { sums.left[from] / divisor } else { 0 };
            sums.gains.push((sums.spare[from] / divisor - now, *vertex));
        }
        self.occupancy.drop_small_gains(slack);
        for index in 0..self.occupancy.gains.len() {
            let vertex = self.occupancy.gains[index].1;
            if self.occupancy.usable[vertex as usize] {
                self.occupancy.notes.add_site(vertex, kind);
            } else {
                self.note_closed_to(place, vertex, group, kind);
            }
        }
    }

    /// Notes why a vertex is closed to every member of a group that wants something of the kind.
    fn note_closed_to(&mut self, place: usize, vertex: u32, group: &Group, kind: usize) {
        for index in place..self.order.len() {
            let site = self.order[index];
            if !group.members[site] || self.occupancy.wants(site)[kind] == 0 {
                continue;
            }
            for at in self.starts[site]..self.starts[site + 1] {
                if self.vertices[at] == vertex {
                    self.note_closed(place, site, at);
                }
            }
        }
    }

    /// Whether the edges of every vertex carry the links that have to leave it or come to it: those
    /// whose other end is placed at another vertex, or cannot be placed there.
    fn ports_suffice(&mut self, place: usize) -> bool {
        for index in 0..self.links.len() {
            let Link { from, to, rate, .. } = self.links[index];
            let at = |site: usize| (self.occupancy.place[site] <= place).then(|| self.placed[site]);
            match (at(from), at(to)) {
                (Some(start), Some(end)) if start != end => {
                    self.occupancy.rates[start as usize][0] += rate;
                    self.occupancy.rates[end as usize][1] += rate;
                }
                (Some(start), None) if !self.could_join(to, start) => {
                    self.occupancy.rates[start as usize][0] += rate;
                }
                (None, Some(end)) if !self.could_join(from, end) => {
                    self.occupancy.rates[end as usize][1] += rate;
                }
                _ => {}
            }
        }
        let mut suffice = true;
        for index in 0..=place {
            let vertex = self.placed[self.order[index]];
            let rates = std::mem::take(&mut self.occupancy.rates[vertex as usize]);
            if suffice && rates != [0; 2] {
                suffice = self.port_suffices(place, vertex, rates);
            }
        }
        suffice
    }

    /// Whether a member that is not placed could be placed at this vertex.
    fn could_join(&self, site: usize, vertex: u32) -> bool {
        (self.starts[site]..self.starts[site + 1])
            .any(|at| self.vertices[at] == vertex && self.closed[at] == 0)
            && self.occupancy.is_open(site, vertex)
    }

    /// Whether the edges of a vertex carry these rates away from it and to it.
    fn port_suffices(&mut self, place: usize, vertex: u32, rates: [u64; 2]) -> bool {
        let [away, back] = rates;
        for (ways, wanted) in
            [([true, true], away + back), ([true, false], away), ([false, true], back)]
        {
            let rate = self.occupancy.bounds.rate;
            let have: u64 = port(self.network, vertex, ways)
                .map(|resource| self.network.free[resource as usize] / rate * rate)
                .fold(0, u64::saturating_add);
            if wanted > have {
                self.note_port(place, vertex, ways, wanted - have - 1);
                return false;
            }
        }
        true
    }

    /// Notes the shortages of a vertex whose edges do not carry its links.
    fn note_port(&mut self, place: usize, vertex: u32, ways: [bool; 2], slack: u64) {
        let (network, rate) = (self.network, self.occupancy.bounds.rate);
        self.occupancy.gains.clear();
        for resource in port(network, vertex, ways) {
            if !self.occupancy.notes.has_edge(resource) {
                let (free, most) =
                    (network.free[resource as usize], network.most[resource as usize]);
                self.occupancy.gains.push((most / rate * rate - free / rate * rate, resource));
            }
        }
        self.occupancy.drop_small_gains(slack);
        for index in 0..self.occupancy.gains.len() {
            let resource = self.occupancy.gains[index].1;
            self.occupancy.notes.add_edge(resource);
        }
        for index in 0..self.links.len() {
            let Link { from, to, .. } = self.links[index];
            for (placed, other, way) in [(from, to, 0), (to, from, 1)] {
                if !ways[way]
                    || self.occupancy.place[placed] > place
                    || self.placed[placed] != vertex
                    || self.occupancy.place[other] <= place
                    || self.could_join(other, vertex)
                {
                    continue;
                }
                for at in self.starts[other]..self.starts[other + 1] {
                    if self.vertices[at] == vertex {
                        self.note_closed(place, other, at);
                    }
                }
            }
        }
    }
}

impl Sums<'_> {
    /// Removes the resources whose shortages do not matter: together they could add no more than
    /// the slack.
    fn drop_small_gains(&mut self, mut slack: u64) {
        self.gains.sort_unstable();
        self.gains.retain(|(gain, _)| {
            let matters = *gain > slack;
            slack -= if matters { 0 } else { *gain };
            matters
        });
    }
}

/// The resources of the edges of a vertex, for the steps away from it and the steps to it.
fn port(network: &Network, vertex: u32, ways: [bool; 2]) -> impl Iterator<Item = u32> + '_ {
    network.steps(vertex).iter().flat_map(move |step| {
        // On a shared edge both steps take the same resource.
        let back = ways[1] && !(ways[0] && step.back == step.out);
        [ways[0].then_some(step.out), back.then_some(step.back)].into_iter().flatten()
    })
}
