//! The rule that requested sites may share a vertex: what they want there is added up.
//!
//! All costs are zero, so the first placement that fits ends the search. If the caller wants the
//! first placement, members are placed in their own order, and candidates are tried in the order in
//! which they are listed. Otherwise members come in the order of [`MemberOrder`], candidates near
//! placed neighbours are tried first, and states below which nothing fits are remembered.
//!
//! Bounds are necessary conditions: every member that is not placed has an open candidate; what
//! these members want together is free at their open candidates ([`super::bounds`]); the edges
//! of a vertex carry the links that have to leave it (`ports`); and links over one edge fit beside those that
//! are there (`forced`). Each bound that closes a branch notes the
//! shortages that it rests on in [`Notes`].
//!
//! Two placements that differ only by an exchange of two twins ([`order::twins`]) fit alike, so the
//! search tries one of them, the one that comes first. This ends when a placement that fits is
//! refused, because the caller may take the twins' exchange.

mod forced;
mod ports;

use std::collections::BTreeSet;

use super::super::network::Link;
use super::super::order;
use super::bounds::{Amounts, Bounds, Group, Measure};
use super::notes::{Gap, Notes};
use super::{Demand, Occupancy, Search};

/// Most states that a search remembers, of some hundred bytes each. A search that meets more of
/// them seldom meets them again.
const STATES_MAX: usize = 1 << 15;

/// What is free beside the placed members, and who takes a placement.
pub(in super::super) struct Sums<'a> {
    amounts: &'a Amounts,
    bounds: &'a Bounds,
    /// What is left of what is free, by vertex and kind.
    left: Vec<u64>,
    /// What would be left if everything were free.
    spare: Vec<u64>,
    order: MemberOrder,
    /// Whether twins may be exchanged.
    twins: bool,
    /// How many placements were refused, and how many when the search entered each place.
    refused: u64,
    refused_before: Vec<u64>,
    accept: &'a mut dyn FnMut(&[u32]) -> bool,
    notes: &'a mut Notes,
    place: Vec<usize>,
    /// The states below which nothing fits, see [`Search::state`].
    dead: BTreeSet<Vec<u64>>,
    /// Scratch memory: whether a candidate is open, whether a vertex is open to somebody, the rates
    /// away from a vertex and to it, and what a resource could add.
    open: Vec<bool>,
    usable: Vec<bool>,
    rates: Vec<[u64; 2]>,
    gains: Vec<(u64, u32)>,
}

/// The order in which members are placed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in super::super) enum MemberOrder {
    /// Their own, so that the first placement found is the lexicographically least.
    Own,
    /// The largest first: best for proofs where amounts at sites are short.
    Largest,
    /// Always one with the most links to members placed before it: best for proofs where edges are
    /// short.
    Linked,
}

/// How a search of [`Sums`] goes on.
pub(in super::super) struct Manner<'a> {
    /// The order in which members are placed.
    pub(in super::super) order: MemberOrder,
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
            order: manner.order,
            twins: manner.twins,
            refused: 0,
            refused_before: Vec::new(),
            accept: manner.accept,
            notes,
            place: Vec::new(),
            dead: BTreeSet::new(),
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
    const FIRST_IS_BEST: bool = true;

    fn prepare(search: &mut Search<'_, Self>, demand: &Demand<'_>) {
        let members = demand.wants.len();
        for site in 0..members {
            let candidates = demand.candidates.of(site);
            search.vertices.extend_from_slice(candidates);
            search.starts.push(search.vertices.len());
        }
        let candidates = search.vertices.len();
        search.own.resize(candidates, 0);
        search.score.resize(candidates, 0);
        search.ahead.resize(candidates, 0);
        search.closed.resize(candidates, 0);
        search.occupancy.open.resize(candidates, false);
        search.occupancy.refused_before.resize(members, 0);
        let open = || (0..members).map(|site| demand.candidates.of(site).len()).collect::<Vec<_>>();
        search.order = match search.occupancy.order {
            MemberOrder::Own => (0..members).collect(),
            MemberOrder::Largest => {
                let weights = search.occupancy.weights(members);
                order::packing_order(search.links, &open(), &weights)
            }
            MemberOrder::Linked => order::placing_order(search.links, &open()),
        };
        search.occupancy.place = search.set_ties();
        (search.leaders, search.follows_first) = if search.occupancy.twins {
            let reversible = search.network.reversible;
            order::twins(search.links, demand.candidates, demand.wants, &search.order, reversible)
        } else {
            (vec![None; members], vec![false; members])
        };
    }

    fn rank(search: &Search<'_, Self>, site: usize, at: usize) -> u32 {
        // At most VERTICES_MAX.
        (at - search.starts[site]) as u32
    }

    fn placed_rank(search: &Search<'_, Self>, site: usize) -> u32 {
        let own = &search.vertices[search.starts[site]..search.starts[site + 1]];
        let rank = own.iter().position(|vertex| *vertex == search.placed[site]);
        // At most VERTICES_MAX.
        rank.map_or(0, |rank| rank as u32)
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
        let suffices = search.find_open(place)
            && search.sums_suffice(place)
            && search.forced_routes_suffice(place);
        suffices.then_some(0)
    }

    /// Near its neighbours first, unless the caller wants the first placement. The first member
    /// takes its vertices by rank, because [`Search::close`] relies on it.
    fn preference(search: &Search<'_, Self>, place: usize, at: usize) -> u64 {
        if search.occupancy.order == MemberOrder::Own || place == 0 {
            return 0;
        }
        let away = |(_, other): &&(usize, usize)| search.placed[*other] != search.vertices[at];
        search.earlier[place].iter().filter(away).count() as u64
    }

    fn is_dead(search: &mut Search<'_, Self>, place: usize) -> bool {
        search.occupancy.refused_before[place] = search.occupancy.refused;
        search.has_states(place)
            && !search.occupancy.dead.is_empty()
            && search.occupancy.dead.contains(&search.state(place))
    }

    /// A state is dead if nothing fits below it. A placement that fits and is refused says nothing
    /// of others with the same state.
    fn searched(search: &mut Search<'_, Self>, place: usize) {
        if search.has_states(place)
            && search.occupancy.refused_before[place] == search.occupancy.refused
            && search.best == u64::MAX
            && search.occupancy.dead.len() < STATES_MAX
        {
            let state = search.state(place);
            search.occupancy.dead.insert(state);
        }
    }

    fn expand(search: &mut Search<'_, Self>, place: usize) {
        let site = search.order[place];
        for at in search.starts[site]..search.starts[site + 1] {
            if search.closed[at] > 0 || !search.occupancy.is_open(site, search.vertices[at]) {
                search.note_closed(place, site, at);
            } else if Self::is_unroutable(search, place, at) {
                search.note_short_edge(place, place, search.vertices[at]);
            }
        }
    }

    fn is_unroutable(search: &Search<'_, Self>, place: usize, at: usize) -> bool {
        search.network.edges_max == 1
            && search.short_edges(place, place, search.vertices[at]).next().is_some()
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
        search.occupancy.refused += 1;
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

    /// Whether states are compared at this place. Before the second member is placed, all differ;
    /// before the last one, a search costs less.
    fn has_states(&self, place: usize) -> bool {
        self.occupancy.order != MemberOrder::Own
            && (2..self.order.len().saturating_sub(1)).contains(&place)
    }

    /// What decides whether the members from this place in the order on can be placed: what is
    /// left, where their neighbours and the twins before them are, and which links are routed from
    /// where to where.
    fn state(&self, place: usize) -> Vec<u64> {
        let sums = &self.occupancy;
        let mut state = vec![place as u64];
        for vertex in &sums.bounds.groups[0].vertices {
            let from = *vertex as usize * sums.amounts.kinds;
            state.extend_from_slice(&sums.left[from..from + sums.amounts.kinds]);
        }
        for earlier in 0..place {
            let site = self.order[earlier];
            let tied = self.later[earlier].iter().any(|(_, other)| sums.place[*other] >= place);
            if tied || self.leaders[place..].contains(&Some(site)) {
                state.push((earlier as u64) << 32 | u64::from(self.placed[site]));
            }
        }
        let routed = state.len();
        for link in self.links {
            let (start, end) = (self.placed[link.from], self.placed[link.to]);
            if sums.place[link.from].max(sums.place[link.to]) < place && start != end {
                // There are at most VERTICES_MAX vertices and REQUEST_LINKS_MAX classes.
                state.push((link.class as u64) << 48 | u64::from(start) << 24 | u64::from(end));
            }
        }
        state[routed..].sort_unstable();
        state
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
                let wants = self.order[place..]
                    .iter()
                    .filter(|site| group.members[**site])
                    .map(|site| amounts.wants[*site * amounts.kinds + kind]);
                for (divisor, exact) in &bounds.divisors[kind] {
                    let measure = Measure::new(*divisor, *exact, wants.clone());
                    let wanted: u64 = wants.clone().map(|want| want / divisor).sum();
                    let sums = &self.occupancy;
                    let left = |at: &u32| match sums.usable[*at as usize] {
                        true => measure.of(sums.left[*at as usize * amounts.kinds + kind]),
                        false => 0,
                    };
                    let have: u64 = group.vertices.iter().map(left).sum();
                    if wanted > have {
                        self.note_sum(place, group, kind, measure, wanted - have - 1);
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
    /// in the measure, and the sum would not suffice either.
    fn note_sum(&mut self, place: usize, group: &Group, kind: usize, measure: Measure, slack: u64) {
        let sums = &mut self.occupancy;
        sums.gains.clear();
        for vertex in &group.vertices {
            let from = *vertex as usize * sums.amounts.kinds + kind;
            let usable = sums.usable[*vertex as usize];
            if usable && sums.notes.has_site(*vertex, kind) {
                continue;
            }
            let now = if usable { measure.of(sums.left[from]) } else { 0 };
            sums.gains.push((measure.of(sums.spare[from]) - now, *vertex));
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
