//! One frame in which demands may share sites: the integer program of Takefusa 2010, section 3.2,
//! without Eq. (5).
//!
//! A workflow in the model of Decker 2007 has sets of synchronous activities: all members of a set
//! run in one frame, and channels join them at fixed rates. Members may share a site. Then their
//! amounts add up there. Channels between members at different sites are routed together, each over
//! one simple route of at most N_max edges. A channel between members at the same site takes no
//! resources.
//!
//! [`place`] answers with the first placement in the order of preference (the lexicographically
//! least), or proves that there is none. It searches in four steps, and stops at the first that
//! answers:
//!
//! 1. Every member at its first candidate. This is the common case, and it needs no search.
//! 2. The branch and bound of [`super`], with members in their own order and candidates in the
//!    order of preference. The first placement that it finds is the least. This step has few nodes,
//!    because this order is a bad one for proofs.
//! 3. Member after member, each at the first candidate with which the others can still be placed.
//!    The branch and bound answers each of these questions. It takes the members in the order
//!    that is best for proofs. Each question is a proof, so this step has a number of nodes of its
//!    own ([`Steps::one_by_one`]).
//! 4. Any placement that fits, when the third step has used up its nodes: first the least that it
//!    has found, then others as the branch and bound meets them. Whether there is a placement is
//!    still proven; [`SharedAnswer::least`] says that the order of preference is not.
//!
//! The caller may refuse a placement that fits (`accept`). Then the search goes on to the next
//! placement, up to the third step in the order of preference. No placement is offered twice.
//!
//! Left out: costs. The order of preference is the only objective, so routes are any that fit
//! together. Also left out is what else a workflow has: the frame is given, and sets of activities
//! are placed one by one.
//!
//! Deterministic: the same input gives the same answer by the same number of nodes.

use std::collections::{BTreeMap, BTreeSet};

use coalloc_common::topology::{Direction, FrameView};
use coalloc_common::{
    Amount, Cpus, EdgeIndex, LinkDemand, ResourceKind, Topology, VertexIndex, limits,
};

use super::meter::Meter;
use super::network::{self, Network, Path};
use super::order;
use super::paths::Rows;
use super::routing::{AddOutcome, Routing, RoutingInput, UnroutedLink};
use super::search::bounds::{Amounts, Bounds};
use super::search::notes::Notes;
use super::search::sums::{Manner, MemberOrder, Sums};
use super::search::{Demand, Search};
use crate::ip::admit::Candidates;
use crate::{Budget, Route};

/// One member: what it wants, and where it may be placed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SharedMember {
    /// CPUs wanted; zero is allowed.
    pub cpus: Cpus,
    /// What else is wanted at the same site, by kind.
    pub others: BTreeMap<ResourceKind, Amount>,
    /// The vertices at which it may be placed, the preferred one first. Those without enough free
    /// are no harm.
    pub candidates: Vec<VertexIndex>,
}

impl SharedMember {
    fn amount(&self, kind: ResourceKind) -> u64 {
        match kind {
            ResourceKind::Cpus => self.cpus.0,
            _ => self.others.get(&kind).map_or(0, |amount| amount.0),
        }
    }

    fn wants_as(&self, other: &Self) -> bool {
        self.cpus == other.cpus && self.others == other.others
    }
}

/// One frame in which demands may share sites.
#[derive(Debug, Clone, Copy)]
pub struct SharedFrame<'a> {
    /// The federation.
    pub topology: &'a Topology,
    /// What is free over the whole frame, with the indices of the topology.
    pub view: &'a FrameView,
    /// The members.
    pub members: &'a [SharedMember],
    /// The channels. Their ends are indices of two different members. Two members may have several
    /// channels.
    pub links: &'a [LinkDemand],
    /// N_max, clamped to 1 to [`limits::ROUTE_EDGES_MAX`].
    pub route_edges_max: u32,
}

/// Resources whose shortage a proof has used. While none of them has more free than in the view of
/// the proof, there is no placement, whatever else is free (each resource has at most its capacity
/// free).
///
/// Every resource listed could have more free. So an empty conflict means that the members never
/// fit, not even into the empty federation.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Conflict {
    /// Amounts at sites, in order.
    pub sites: Vec<(VertexIndex, ResourceKind)>,
    /// Edges, in order. A shared edge is listed from a to b, and stands for both directions.
    pub edges: Vec<(EdgeIndex, Direction)>,
}

impl Conflict {
    /// Whether no shortage was used: then the members never fit.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.sites.is_empty() && self.edges.is_empty()
    }
}

/// The outcome for one frame.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SharedOutcome {
    /// A placement that fits and was not refused. The lexicographically least one (member by
    /// member, by position in its candidates) if [`SharedAnswer::least`] is set.
    Fits {
        /// The vertex of each member.
        placements: Vec<VertexIndex>,
        /// The route of each channel; empty when both ends share a vertex.
        routes: Vec<Route>,
    },
    /// It is proven that there is no placement but those that were refused.
    Refuted {
        /// The shortages that the proof has used.
        conflict: Conflict,
        /// Whether a placement fits and was refused.
        refused: bool,
    },
    /// The budget ended.
    Stopped,
}

/// An outcome, and the work it took.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SharedAnswer {
    /// The outcome.
    pub outcome: SharedOutcome,
    /// How many search nodes were opened.
    pub nodes: u64,
    /// Whether placements were offered in the order of preference: the fourth step was not needed.
    pub least: bool,
}

/// How many nodes the steps may open.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Steps {
    /// For the second step.
    pub in_order: u64,
    /// For the third step, beyond its first search, which finds out whether there is any placement.
    pub one_by_one: u64,
}

impl Steps {
    /// Nodes of the second step for each member, and as many for the frame. A search that goes right
    /// opens one for each member.
    const IN_ORDER: u64 = 16;
    /// The same of the third step. Of sets of 8 members with 8 channels 1 of 100 needs more, of sets
    /// of 16 members 1 of 3.
    const ONE_BY_ONE: u64 = 32;

    /// The steps for a number of members.
    #[must_use]
    pub fn of(members: usize) -> Self {
        // There are at most REQUEST_SITES_MAX members.
        let each = 1 + members as u64;
        Self { in_order: Self::IN_ORDER * each, one_by_one: Self::ONE_BY_ONE * each }
    }

    /// Without bounds: the answer is the least placement, or the budget has ended.
    pub const UNBOUNDED: Self = Self { in_order: u64::MAX, one_by_one: u64::MAX };
}

/// Places the members of one frame. `accept` is asked about placements that fit, the preferred one
/// first, until it takes one.
#[must_use]
pub fn place(
    frame: &SharedFrame<'_>,
    budget: &Budget<'_>,
    accept: &mut dyn FnMut(&[VertexIndex]) -> bool,
) -> SharedAnswer {
    place_in(frame, budget, Steps::of(frame.members.len()), accept)
}

/// [`place`] with these bounds on its steps. For tests, which set 0.
#[doc(hidden)]
#[must_use]
pub fn place_in(
    frame: &SharedFrame<'_>,
    budget: &Budget<'_>,
    steps: Steps,
    accept: &mut dyn FnMut(&[VertexIndex]) -> bool,
) -> SharedAnswer {
    debug_assert!(frame.links.iter().all(|link| link.from != link.to));
    let kinds = kinds(frame.members);
    let firsts = first_choices(frame, &kinds);
    let mut offers = Offers { refused: BTreeSet::new(), accept };
    let apart = |link: &LinkDemand| {
        firsts.as_ref().is_none_or(|firsts| firsts[link.from] != firsts[link.to])
    };
    let mut meter = Meter::new(budget.nodes, budget.stop);
    if let Some(firsts) = &firsts
        && !frame.links.iter().any(apart)
        && offers.take(firsts)
    {
        let outcome = fits(firsts, &[], frame.links.len());
        return SharedAnswer { outcome, nodes: 0, least: true };
    }
    let edges_max = frame.route_edges_max.clamp(1, limits::ROUTE_EDGES_MAX) as usize;
    let mut network = Network::new(frame.topology, frame.view, |_, _| 0, edges_max);
    let (links, classes) = network::links(frame.links, |_| 0);
    let ground = RoutingInput { network: &network, classes: &classes, links: &links };
    if let Some(firsts) = &firsts
        && frame.links.iter().any(apart)
        && let Some(paths) = route_all(ground, firsts, &mut meter)
        && offers.take(firsts)
    {
        let outcome = fits(firsts, &paths, links.len());
        return SharedAnswer { outcome, nodes: meter.opened(), least: true };
    }
    network.set_capacities(frame.topology);
    let amounts = amounts(frame, &kinds);
    let list = |member: &SharedMember| member.candidates.iter().map(|vertex| vertex.0).collect();
    let lists: Vec<Vec<u32>> = frame.members.iter().map(list).collect();
    let same = |member: &SharedMember| frame.members.iter().position(|one| one.wants_as(member));
    let solver = Solver {
        ground: RoutingInput { network: &network, classes: &classes, links: &links },
        bounds: Bounds::new(&amounts, &lists, &links),
        wants: frame.members.iter().filter_map(same).collect(),
        notes: Notes::new(&network, kinds.len()),
        amounts,
        lists,
        offers,
        meter,
        left: steps.one_by_one,
        least: None,
    };
    solver.answer(&kinds, steps.in_order)
}

/// The kinds that members want, the CPUs first.
fn kinds(members: &[SharedMember]) -> Vec<ResourceKind> {
    let others = members.iter().flat_map(|member| &member.others);
    let wanted: BTreeSet<ResourceKind> =
        others.filter(|(_, amount)| amount.0 > 0).map(|(kind, _)| *kind).collect();
    let others = wanted.into_iter().filter(|kind| *kind != ResourceKind::Cpus);
    std::iter::once(ResourceKind::Cpus).chain(others).collect()
}

/// The first candidate of every member, if their amounts fit there together.
fn first_choices(frame: &SharedFrame<'_>, kinds: &[ResourceKind]) -> Option<Vec<u32>> {
    let first = |member: &SharedMember| member.candidates.first().map(|vertex| vertex.0);
    let firsts: Vec<u32> = frame.members.iter().map(first).collect::<Option<_>>()?;
    for (member, vertex) in firsts.iter().enumerate() {
        // The sum is complete at the last member that has this first candidate.
        let sum = |kind: ResourceKind| -> u64 {
            let here = firsts[..=member].iter().zip(frame.members);
            here.filter(|(first, _)| *first == vertex).map(|(_, one)| one.amount(kind)).sum()
        };
        let at = VertexIndex(*vertex);
        if kinds.iter().any(|kind| sum(*kind) > frame.view.free_at(*kind, at).0) {
            return None;
        }
    }
    Some(firsts)
}

/// Routes for all links between members that are placed apart; an empty one for the others.
fn route_all(ground: RoutingInput<'_>, placed: &[u32], meter: &mut Meter<'_>) -> Option<Vec<Path>> {
    let mut rows = Rows::new(ground.network, ground.classes.len());
    let mut routing = Routing::new(ground);
    let mut errands = Vec::with_capacity(ground.links.len());
    for (index, link) in ground.links.iter().enumerate() {
        let (start, end) = (placed[link.from], placed[link.to]);
        if start != end {
            let row = rows.find(ground.network, ground.classes, link.class, start, true);
            errands.push(UnroutedLink { link: index, start, end, row, away: true });
        }
    }
    let mut undo = routing.mark();
    match routing.add(ground, &rows, &errands, u64::MAX, &mut undo, meter) {
        AddOutcome::Routed(_) => {
            Some((0..ground.links.len()).map(|link| *routing.path(link)).collect())
        }
        // Nothing is put off here.
        AddOutcome::Fits { .. }
        | AddOutcome::Hopeless
        | AddOutcome::PutOff { .. }
        | AddOutcome::Stopped => None,
    }
}

/// What members want, what is free and what can be free, by kind.
fn amounts(frame: &SharedFrame<'_>, kinds: &[ResourceKind]) -> Amounts {
    let wants = |member: &SharedMember| kinds.iter().map(|kind| member.amount(*kind)).collect();
    let wants: Vec<Vec<u64>> = frame.members.iter().map(wants).collect();
    let mut free = Vec::with_capacity(frame.topology.vertices().len() * kinds.len());
    let mut most = Vec::with_capacity(free.capacity());
    for (index, vertex) in (0u32..).zip(frame.topology.vertices()) {
        for kind in kinds {
            let here = frame.view.free_at(*kind, VertexIndex(index)).0;
            let of = vertex.resources().find(|of| of.kind == *kind);
            free.push(here);
            most.push(of.map_or(0, |of| of.capacity.0).max(here));
        }
    }
    Amounts { kinds: kinds.len(), wants: wants.concat(), free, most }
}

/// The outcome for a placement with these paths; without paths all routes are empty.
fn fits(placed: &[u32], paths: &[Path], links: usize) -> SharedOutcome {
    let route = |link| paths.get(link).map_or_else(Route::new, Path::route);
    SharedOutcome::Fits {
        placements: placed.iter().copied().map(VertexIndex).collect(),
        routes: (0..links).map(route).collect(),
    }
}

/// The placements that were offered to the caller.
struct Offers<'a> {
    refused: BTreeSet<Vec<u32>>,
    accept: &'a mut dyn FnMut(&[VertexIndex]) -> bool,
}

impl Offers<'_> {
    /// Whether the caller takes a placement. One that it has refused is not offered again.
    fn take(&mut self, placed: &[u32]) -> bool {
        if self.refused.contains(placed) {
            return false;
        }
        let vertices: Vec<VertexIndex> = placed.iter().copied().map(VertexIndex).collect();
        let taken = (self.accept)(&vertices);
        if !taken {
            self.refused.insert(placed.to_vec());
        }
        taken
    }
}

/// A placement that fits, and the routes of its links.
#[derive(Clone)]
struct FittingPlacement {
    placed: Vec<u32>,
    paths: Vec<Path>,
}

/// The outcome of a search, or of a part of one.
enum Verdict {
    Fits(FittingPlacement),
    /// There is nothing to be found. The notes have the reason.
    Refuted,
    /// The budget ended.
    Stopped,
}

/// The second step and those after it.
struct Solver<'a, 'b> {
    ground: RoutingInput<'a>,
    amounts: Amounts,
    bounds: Bounds,
    lists: Vec<Vec<u32>>,
    wants: Vec<usize>,
    notes: Notes,
    offers: Offers<'b>,
    meter: Meter<'b>,
    /// What the third step may still open.
    left: u64,
    /// The least placement that it has found, until it is offered.
    least: Option<FittingPlacement>,
}

/// Nodes of the first turn of [`Solver::search_any`] for each member, and as many for the frame.
const TURN_NODES: u64 = 64;

/// What a search of the solver is for.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Purpose {
    /// The least placement that is taken.
    Least,
    /// Whether there is a placement. Nothing is offered.
    Any,
    /// Any placement that is taken.
    AnyTaken,
}

impl Solver<'_, '_> {
    fn answer(mut self, kinds: &[ResourceKind], in_order_nodes: u64) -> SharedAnswer {
        let own = MemberOrder::Own;
        let mut verdict = self.search(&[], in_order_nodes, (Purpose::Least, own));
        let mut least = true;
        if matches!(verdict, Verdict::Stopped) && !self.meter.ended() {
            self.notes.clear();
            verdict = self.member_by_member();
        }
        if matches!(verdict, Verdict::Stopped) && !self.meter.ended() {
            self.notes.clear();
            least = false;
            verdict = self.any();
        }
        let outcome = match verdict {
            Verdict::Fits(found) => fits(&found.placed, &found.paths, found.paths.len()),
            Verdict::Stopped => SharedOutcome::Stopped,
            Verdict::Refuted => {
                let refused = !self.offers.refused.is_empty();
                SharedOutcome::Refuted { conflict: self.conflict(kinds), refused }
            }
        };
        SharedAnswer { outcome, nodes: self.meter.opened(), least }
    }

    fn conflict(&mut self, kinds: &[ResourceKind]) -> Conflict {
        let site = |(vertex, kind): (u32, usize)| (VertexIndex(vertex), kinds[kind]);
        let edge = |code: u32| {
            let direction = if code & 1 == 0 { Direction::AToB } else { Direction::BToA };
            (EdgeIndex(code >> 1), direction)
        };
        let RoutingInput { network, classes, .. } = self.ground;
        Conflict {
            sites: self.notes.sites().map(site).collect(),
            edges: self.notes.edges(network, classes).map(edge).collect(),
        }
    }

    /// Searches the placements of some members at given vertices and of the others at any of their
    /// candidates.
    fn search(
        &mut self,
        pinned: &[u32],
        nodes: u64,
        (purpose, order): (Purpose, MemberOrder),
    ) -> Verdict {
        let Self { ground, amounts, bounds, lists, wants, notes, offers, meter, .. } = self;
        let lists = lists.iter().enumerate().map(|(member, list)| match pinned.get(member) {
            Some(_) => &pinned[member..=member],
            None => list,
        });
        let candidates = Candidates::listed(lists);
        let twins = match purpose {
            Purpose::Least => offers.refused.is_empty(),
            Purpose::Any => true,
            // A twin's exchange may be met, and left out, before the placement that stands for it.
            Purpose::AnyTaken => false,
        };
        let mut accept = |placed: &[u32]| purpose == Purpose::Any || offers.take(placed);
        let manner = Manner { order, twins, accept: &mut accept };
        let sums = Sums::new(amounts, bounds, notes, manner);
        let demand = Demand {
            candidates: &candidates,
            wants,
            tables_after: u64::MAX,
            fan_out: false,
            value: &|_, _| 0,
        };
        let mut watch = |_, _| {};
        let part = meter.part(nodes);
        let found = Search::new(*ground, &demand, sums, part, &mut watch).run();
        meter.spend(found.nodes);
        match found.plan {
            Some((placed, paths, _)) => Verdict::Fits(FittingPlacement { placed, paths }),
            None if found.lower_bound == u64::MAX => Verdict::Refuted,
            None => Verdict::Stopped,
        }
    }

    /// Searches for any placement of the members that are not pinned, in both orders that are good
    /// for proofs by turns, each time with twice as many nodes: which one is better depends on what is
    /// short. Keeps notes only of the search that ends.
    fn search_any(&mut self, pinned: &[u32], nodes: u64, purpose: Purpose) -> Verdict {
        if self.ground.links.is_empty() {
            return self.search(pinned, nodes, (purpose, MemberOrder::Largest));
        }
        let (mut left, mut part) = (nodes, TURN_NODES * (1 + self.lists.len() as u64));
        let notes = self.notes.clone();
        let mut orders = [MemberOrder::Linked, MemberOrder::Largest].into_iter().cycle();
        loop {
            let order = orders.next().unwrap_or(MemberOrder::Linked);
            let opened = self.meter.opened();
            let verdict = self.search(pinned, part.min(left), (purpose, order));
            left -= self.meter.opened() - opened;
            if !matches!(verdict, Verdict::Stopped) || left == 0 || self.meter.ended() {
                return verdict;
            }
            self.notes.clone_from(&notes);
            part = part.saturating_mul(2);
        }
    }

    /// The third step.
    fn member_by_member(&mut self) -> Verdict {
        match self.search_any(&[], u64::MAX, Purpose::Any) {
            Verdict::Fits(found) => {
                self.notes.clear();
                self.least = Some(found.clone());
                let RoutingInput { network, links, .. } = self.ground;
                let candidates = Candidates::listed(self.lists.iter().map(Vec::as_slice));
                let order: Vec<usize> = (0..self.lists.len()).collect();
                let (leaders, _) =
                    order::twins(links, &candidates, &self.wants, &order, network.reversible);
                self.improve(&mut Vec::new(), &leaders, found)
            }
            other => other,
        }
    }

    /// The least placement that is taken, of those with the pinned members where they are. `found`
    /// is one that fits.
    fn improve(
        &mut self,
        pinned: &mut Vec<u32>,
        leaders: &[Option<usize>],
        found: FittingPlacement,
    ) -> Verdict {
        let member = pinned.len();
        if member == self.lists.len() {
            self.least = None;
            let taken = self.offers.take(&found.placed);
            return if taken { Verdict::Fits(found) } else { Verdict::Refuted };
        }
        let position = |list: &[u32], vertex| list.iter().position(|at| *at == vertex);
        for at in 0..self.lists[member].len() {
            let vertex = self.lists[member][at];
            // With its twin at this vertex, there was no placement, and twins can be exchanged.
            if self.offers.refused.is_empty()
                && let Some(leader) = leaders[member]
                && position(&self.lists[leader], pinned[leader]).is_some_and(|first| at < first)
            {
                continue;
            }
            pinned.push(vertex);
            let best = if found.placed[member] == vertex {
                Verdict::Fits(found.clone())
            } else {
                self.ask(pinned)
            };
            let verdict = match best {
                Verdict::Fits(found) => self.improve(pinned, leaders, found),
                other => other,
            };
            pinned.pop();
            if !matches!(verdict, Verdict::Refuted) {
                return verdict;
            }
        }
        Verdict::Refuted
    }

    /// Whether the other members can be placed, too. Keeps notes only if they cannot.
    fn ask(&mut self, pinned: &[u32]) -> Verdict {
        let notes = self.notes.clone();
        let opened = self.meter.opened();
        let verdict = self.search_any(pinned, self.left, Purpose::Any);
        self.left -= self.meter.opened() - opened;
        if !matches!(verdict, Verdict::Refuted) {
            self.notes = notes;
        }
        if let Verdict::Fits(found) = &verdict {
            self.least = Some(found.clone());
        }
        verdict
    }

    /// The fourth step.
    fn any(&mut self) -> Verdict {
        if let Some(found) = self.least.take()
            && self.offers.take(&found.placed)
        {
            return Verdict::Fits(found);
        }
        self.search_any(&[], u64::MAX, Purpose::AnyTaken)
    }
}
