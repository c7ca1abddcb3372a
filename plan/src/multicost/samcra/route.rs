//! SAMCRA: the shortest path under several constraints, exactly (Stevens 2009, sections 3.3 and
//! 3.4).
//!
//! Every edge has `K` weights that add up along a path, and every sum has a limit. The length of a
//! path is the vector of its sums, each divided by its limit, in non-increasing order. Lengths are
//! compared entry by entry. The original compares only the first entry, so it cannot distinguish
//! paths that are equal there, and may find one that is worse in the others. When all entries are
//! equal, the path with fewer edges is the shorter one. With weights of zero, this keeps hop-by-hop
//! routing from going in circles.
//!
//! Left out: the meaning of the weights.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use coalloc_common::limits;

use crate::multicost::Effort;

/// A directed edge.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Edge<const K: usize> {
    /// The vertex where it begins.
    pub from: u32,
    /// The vertex where it ends.
    pub to: u32,
    /// What it adds to each sum, at most [`limits::ROUTE_WEIGHT_MAX`]; a larger value counts as
    /// that.
    pub weights: [u64; K],
}

/// A graph with constraints.
#[derive(Debug, Clone)]
pub struct Graph<const K: usize> {
    edges: Vec<Edge<K>>,
    out: Vec<Vec<u32>>,
    into: Vec<Vec<u32>>,
    limits: [u64; K],
}

/// The length of a path: its sums divided by their limits, over a common denominator and largest
/// first, then its number of edges.
pub type Length<const K: usize> = ([u128; K], u32);

/// A path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Route<const K: usize> {
    /// Indices of its edges, from the source on.
    pub edges: Vec<u32>,
    /// The sums of the weights.
    pub weights: [u64; K],
}

impl<const K: usize> Graph<K> {
    /// A graph without edges, with vertices numbered below `vertices`. `limits` are those of the
    /// sums (`L_i`), clamped to 1 to [`limits::ROUTE_WEIGHT_MAX`]. `K` is 1 to 4.
    #[must_use]
    pub fn new(vertices: usize, limits: [u64; K]) -> Self {
        const { assert!(K >= 1 && K <= 4, "products of limits fit 128 bits") };
        let limits = limits.map(|limit| limit.clamp(1, limits::ROUTE_WEIGHT_MAX));
        Self {
            edges: Vec::new(),
            out: vec![Vec::new(); vertices],
            into: vec![Vec::new(); vertices],
            limits,
        }
    }

    /// Adds an edge, which gets the next number. An edge with an end that is no vertex is never
    /// used.
    pub fn add(&mut self, edge: Edge<K>) {
        let index = self.edges.len() as u32;
        let weights = edge.weights.map(|weight| weight.min(limits::ROUTE_WEIGHT_MAX));
        self.edges.push(Edge { weights, ..edge });
        let (from, to) = (edge.from as usize, edge.to as usize);
        if from < self.out.len() && to < self.out.len() {
            self.out[from].push(index);
            self.into[to].push(index);
        }
    }

    /// The length of a path with these sums.
    #[must_use]
    pub fn length(&self, weights: [u64; K], edges: u32) -> Length<K> {
        let mut scaled = [0_u128; K];
        for (at, to) in scaled.iter_mut().enumerate() {
            let others =
                (0..K).filter(|other| *other != at).map(|other| u128::from(self.limits[other]));
            *to = u128::from(weights[at]).saturating_mul(others.product());
        }
        scaled.sort_unstable_by(|a, b| b.cmp(a));
        (scaled, edges)
    }

    /// Whether no sum exceeds its limit.
    #[must_use]
    pub fn keeps_limits(&self, weights: [u64; K]) -> bool {
        weights.iter().zip(&self.limits).all(|(weight, limit)| weight <= limit)
    }

    /// The shortest path between two vertices that keeps all limits; `None` when there is none.
    #[must_use]
    pub fn samcra(&self, source: u32, target: u32, effort: &mut Effort) -> Option<Route<K>> {
        if source as usize >= self.out.len() || target as usize >= self.out.len() {
            return None;
        }
        let ahead = LookAhead::new(self, target, effort);
        Search { graph: self, labels: Vec::new(), at: vec![Vec::new(); self.out.len()], effort }
            .run(source, target, &ahead)
    }

    /// The path that results when every vertex on it computes the shortest path from there to the
    /// target, and forwards over the first edge of that path.
    ///
    /// It never passes a vertex twice, because the length of the shortest remaining path decreases
    /// from one vertex to the next: the rest of a vertex's path is available to the next vertex, is
    /// nowhere larger, and has one edge less. The sums of the whole path may exceed a limit that
    /// each part keeps; then there is no path.
    #[must_use]
    pub fn hop_by_hop(&self, source: u32, target: u32, effort: &mut Effort) -> Option<Route<K>> {
        let (mut at, mut route) = (source, Route { edges: Vec::new(), weights: [0; K] });
        while at != target {
            // The argument above bounds the loop. This check is there in case it is wrong.
            if route.edges.len() > self.out.len() {
                return None;
            }
            let first = *self.samcra(at, target, effort)?.edges.first()?;
            let edge = &self.edges[first as usize];
            route.edges.push(first);
            route.weights = sum(route.weights, edge.weights);
            at = edge.to;
        }
        self.keeps_limits(route.weights).then_some(route)
    }
}

fn sum<const K: usize>(a: [u64; K], b: [u64; K]) -> [u64; K] {
    let mut sum = a;
    sum.iter_mut().zip(b).for_each(|(sum, b)| *sum = sum.saturating_add(b));
    sum
}

/// The least sums from each vertex to the target, each from its own Dijkstra search, and the first
/// edges of the paths that these searches find.
struct LookAhead<const K: usize> {
    least: Vec<[u64; K]>,
    /// For each weight, the first edge of the path that is least in it.
    next: Vec<[u32; K]>,
}

impl<const K: usize> LookAhead<K> {
    fn new(graph: &Graph<K>, target: u32, effort: &mut Effort) -> Self {
        let vertices = graph.out.len();
        let (mut least, mut next) = (vec![[u64::MAX; K]; vertices], vec![[u32::MAX; K]; vertices]);
        for weight in 0..K {
            let mut queue = BinaryHeap::from([Reverse((0, target))]);
            least[target as usize][weight] = 0;
            while let Some(Reverse((length, at))) = queue.pop() {
                if length > least[at as usize][weight] {
                    continue;
                }
                for index in &graph.into[at as usize] {
                    let edge = &graph.edges[*index as usize];
                    let through = length + edge.weights[weight];
                    effort.operations += 2;
                    let known = &mut least[edge.from as usize][weight];
                    if through < *known {
                        *known = through;
                        next[edge.from as usize][weight] = *index;
                        queue.push(Reverse((through, edge.from)));
                    }
                }
            }
        }
        Self { least, next }
    }

    /// The shortest of the paths that are least in one weight and keep all limits: `MAX_LENGTH`.
    fn bound(&self, graph: &Graph<K>, source: u32, target: u32) -> Option<Length<K>> {
        let path = |weight: usize| {
            let (mut at, mut weights, mut edges) = (source, [0; K], 0);
            while at != target {
                let edge = graph.edges.get(self.next[at as usize][weight] as usize)?;
                (at, weights, edges) = (edge.to, sum(weights, edge.weights), edges + 1);
            }
            graph.keeps_limits(weights).then(|| graph.length(weights, edges))
        };
        (0..K).filter_map(path).min()
    }
}

/// One partial path.
#[derive(Debug, Clone, Copy)]
struct Label<const K: usize> {
    vertex: u32,
    parent: u32,
    edge: u32,
    edges: u32,
    weights: [u64; K],
    alive: bool,
}

struct Search<'a, const K: usize> {
    graph: &'a Graph<K>,
    labels: Vec<Label<K>>,
    at: Vec<Vec<u32>>,
    effort: &'a mut Effort,
}

impl<const K: usize> Search<'_, K> {
    fn run(mut self, source: u32, target: u32, ahead: &LookAhead<K>) -> Option<Route<K>> {
        let mut longest = ahead.bound(self.graph, source, target);
        let mut queue = BinaryHeap::new();
        let (parent, edge, edges, weights, alive) = (0, 0, 0, [0; K], true);
        self.labels.push(Label { vertex: source, parent, edge, edges, weights, alive });
        self.at[source as usize].push(0);
        queue.push(Reverse((self.graph.length(weights, 0), 0)));
        while let Some(Reverse((_, index))) = queue.pop() {
            let label = self.labels[index as usize];
            if !label.alive {
                continue;
            }
            if label.vertex == target {
                self.effort.paths += self.labels.iter().filter(|label| label.alive).count() as u64;
                return Some(self.route(index));
            }
            for at in 0..self.graph.out[label.vertex as usize].len() {
                let edge = self.graph.out[label.vertex as usize][at];
                if let Some((predicted, new)) =
                    self.extend(index, edge, ahead, &mut longest, target)
                {
                    queue.push(Reverse((predicted, new)));
                }
            }
        }
        None
    }

    fn extend(
        &mut self,
        parent: u32,
        edge: u32,
        ahead: &LookAhead<K>,
        longest: &mut Option<Length<K>>,
        target: u32,
    ) -> Option<(Length<K>, u32)> {
        let (before, over) = (self.labels[parent as usize], self.graph.edges[edge as usize]);
        if ahead.least[over.to as usize].contains(&u64::MAX) || self.passes(parent, over.to) {
            return None;
        }
        self.effort.tried += 1;
        let weights = sum(before.weights, over.weights);
        let whole = sum(weights, ahead.least[over.to as usize]);
        let edges = before.edges + 1;
        // The path ends here, or has at least one edge more.
        let predicted = self.graph.length(whole, edges + u32::from(over.to != target));
        self.effort.operations += 5 * K as u64;
        if !self.graph.keeps_limits(whole) || longest.is_some_and(|longest| predicted > longest) {
            return None;
        }
        let label = Label { vertex: over.to, parent, edge, edges, weights, alive: true };
        if !self.stands(&label) {
            return None;
        }
        if over.to == target {
            *longest = Some(longest.map_or(predicted, |longest| longest.min(predicted)));
        }
        let index = self.labels.len() as u32;
        self.labels.push(label);
        self.at[over.to as usize].push(index);
        Some((predicted, index))
    }

    /// Whether no partial path to the same vertex is at most as large in everything. If so, the
    /// partial paths that the new one makes unnecessary are dropped.
    fn stands(&mut self, label: &Label<K>) -> bool {
        let no_larger = |a: &Label<K>, b: &Label<K>| {
            a.edges <= b.edges && a.weights.iter().zip(&b.weights).all(|(a, b)| a <= b)
        };
        let (at, labels) = (&mut self.at[label.vertex as usize], &mut self.labels);
        self.effort.operations += (K * at.len()) as u64;
        if at.iter().any(|other| no_larger(&labels[*other as usize], label)) {
            return false;
        }
        at.retain(|other| {
            let dropped = no_larger(label, &labels[*other as usize]);
            labels[*other as usize].alive = !dropped;
            !dropped
        });
        true
    }

    fn passes(&self, index: u32, vertex: u32) -> bool {
        let mut at = self.labels[index as usize];
        while at.vertex != vertex {
            if at.edges == 0 {
                return false;
            }
            at = self.labels[at.parent as usize];
        }
        true
    }

    fn route(&self, index: u32) -> Route<K> {
        let (mut at, mut edges) = (self.labels[index as usize], Vec::new());
        let weights = at.weights;
        while at.edges > 0 {
            edges.push(at.edge);
            at = self.labels[at.parent as usize];
        }
        edges.reverse();
        Route { edges, weights }
    }
}
