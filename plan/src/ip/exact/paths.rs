//! Cheapest routes from (or to) one vertex to (or from) all others, within N_max edges, the latency
//! bound and the capacity of one class of links.
//!
//! The rounds add one edge each, as Bellman and Ford do. A label is one route to a vertex, with its
//! cost and latency. Without a latency bound, a vertex keeps the cheapest label of each round. With
//! one, it keeps every label that no label with as few edges beats in both cost and latency. A
//! route that comes back to a vertex is never better than the label it left there, so routes are
//! simple by construction.

use super::network::{Class, NONE, Network, Path};

#[derive(Clone, Copy)]
struct Label {
    vertex: u32,
    /// The step that led to this vertex.
    code: u32,
    /// The label that this one extends.
    parent: u32,
    /// The label that was found before at this vertex.
    older: u32,
    cost: u64,
    latency: u64,
}

/// The cheapest routes between one vertex and every other.
#[derive(Default)]
pub(super) struct Row {
    labels: Vec<Label>,
    newest: Vec<u32>,
    /// The cost of the route to (or from) each other vertex; `u64::MAX` when there is no route.
    pub(super) cost: Vec<u64>,
    away: bool,
}

impl Row {
    /// Computes the routes from `source` (if `away`) or to it. `open` says whether a link of the
    /// class may take a resource.
    pub(super) fn fill(
        &mut self,
        network: &Network,
        class: Class,
        source: u32,
        away: bool,
        mut open: impl FnMut(u32) -> bool,
    ) {
        self.away = away;
        self.labels.clear();
        self.newest.clear();
        self.newest.resize(network.vertices(), NONE);
        self.cost.clear();
        self.cost.resize(network.vertices(), u64::MAX);
        self.push(Label {
            vertex: source,
            code: 0,
            parent: NONE,
            older: NONE,
            cost: 0,
            latency: 0,
        });
        let mut begin = 0;
        for _ in 0..network.edges_max {
            let end = self.labels.len();
            for index in begin..end {
                let from = self.labels[index];
                for step in network.steps(from.vertex) {
                    let (resource, code, unit) = if away {
                        (step.out, step.code, step.unit)
                    } else {
                        (step.back, step.code ^ 1, step.unit_back)
                    };
                    if !open(resource) {
                        continue;
                    }
                    let cost = from.cost + unit * class.units;
                    if class.latency_max.is_none() && cost >= self.cost[step.to as usize] {
                        continue;
                    }
                    let latency = from.latency + step.latency;
                    // At most ROUTE_EDGES_MAX labels for each step, far below 2^32 in all.
                    let parent = index as u32;
                    let label = Label { vertex: step.to, code, parent, older: NONE, cost, latency };
                    self.offer(label, end, class.latency_max);
                }
            }
            begin = end;
            if begin == self.labels.len() {
                break;
            }
        }
    }

    fn push(&mut self, mut label: Label) {
        let vertex = label.vertex as usize;
        label.older = self.newest[vertex];
        self.newest[vertex] = self.labels.len() as u32;
        self.cost[vertex] = self.cost[vertex].min(label.cost);
        self.labels.push(label);
    }

    fn offer(&mut self, label: Label, layer: usize, latency_max: Option<u64>) {
        let vertex = label.vertex as usize;
        let newest = self.newest[vertex];
        let Some(latency_max) = latency_max else {
            // The label is cheaper than all before. An old label of this same round has no
            // successors yet, so it is replaced.
            if newest != NONE && newest as usize >= layer {
                let older = self.labels[newest as usize].older;
                self.labels[newest as usize] = Label { older, ..label };
                self.cost[vertex] = label.cost;
            } else {
                self.push(label);
            }
            return;
        };
        if label.latency > latency_max {
            return;
        }
        let mut other = newest;
        while other != NONE {
            let known = &self.labels[other as usize];
            if known.cost <= label.cost && known.latency <= label.latency {
                return;
            }
            other = known.older;
        }
        self.push(label);
    }

    /// The edges of the cheapest route between the row's vertex and `other`, of any length.
    pub(super) fn edges(&self, other: u32) -> Option<Vec<u32>> {
        let cost = self.cost[other as usize];
        let mut at = self.newest[other as usize];
        while at != NONE && self.labels[at as usize].cost != cost {
            at = self.labels[at as usize].older;
        }
        let mut label = self.labels.get(at as usize)?;
        let mut edges = Vec::new();
        while label.parent != NONE {
            edges.push(label.code >> 1);
            label = &self.labels[label.parent as usize];
        }
        edges.reverse();
        Some(edges)
    }

    /// The cheapest route between the row's vertex and `other`, in the order of travel.
    pub(super) fn path(&self, other: u32) -> Option<Path> {
        let cost = self.cost[other as usize];
        let mut at = self.newest[other as usize];
        while at != NONE && self.labels[at as usize].cost != cost {
            at = self.labels[at as usize].older;
        }
        if at == NONE {
            return None;
        }
        let mut path = Path::EMPTY;
        path.cost = cost;
        let mut label = &self.labels[at as usize];
        while label.parent != NONE {
            path.push(label.code);
            label = &self.labels[label.parent as usize];
        }
        if self.away {
            path.reverse();
        }
        Some(path)
    }
}

/// The rows of the frame without any load. Each is computed when it is first needed.
pub(super) struct Rows {
    rows: Vec<Row>,
    index: Vec<u32>,
}

impl Rows {
    pub(super) fn new(network: &Network, classes: usize) -> Self {
        Self { rows: Vec::with_capacity(8), index: vec![NONE; classes * 2 * network.vertices()] }
    }

    /// The index of the row of routes from `source` (if `away`) or to it.
    pub(super) fn find(
        &mut self,
        network: &Network,
        classes: &[Class],
        class: usize,
        source: u32,
        away: bool,
    ) -> usize {
        // Where every route can be used in either direction, the rows away from a vertex serve both
        // directions.
        let away = away || network.reversible;
        let slot = (2 * class + usize::from(away)) * network.vertices() + source as usize;
        if self.index[slot] == NONE {
            let rate = classes[class].rate;
            let mut row = Row::default();
            let layer = network.layer(classes[class]);
            row.fill(layer, classes[class], source, away, |resource| {
                layer.free[resource as usize] >= rate
            });
            self.index[slot] = self.rows.len() as u32;
            self.rows.push(row);
        }
        self.index[slot] as usize
    }

    pub(super) fn row(&self, index: usize) -> &Row {
        &self.rows[index]
    }

    /// The cheapest route of a row, in the direction away from its vertex or to it.
    pub(super) fn path(&self, index: usize, other: u32, away: bool) -> Option<Path> {
        let row = &self.rows[index];
        let mut path = row.path(other)?;
        if row.away != away {
            path.turn();
        }
        Some(path)
    }
}

/// For every vertex, the cost of the cheapest route to the nearest other marked vertex (if `away`),
/// or from it. It ignores latency and may allow more than N_max edges, so it is a lower bound. Each
/// vertex keeps its two nearest marked vertices, because the nearest may be the vertex itself.
pub(super) fn nearest(network: &Network, class: Class, marked: &[bool], away: bool) -> Vec<u64> {
    const FAR: (u64, u32) = (u64::MAX, NONE);
    let mut near: Vec<[(u64, u32); 2]> = (0u32..)
        .zip(marked)
        .map(|(vertex, marked)| if *marked { [(0, vertex), FAR] } else { [FAR, FAR] })
        .collect();
    // Updates in place cover at least one more edge in each round.
    for _ in 0..network.edges_max {
        let mut changed = false;
        for vertex in 0..network.vertices() {
            for step in network.steps(vertex as u32) {
                let (resource, unit) =
                    if away { (step.out, step.unit) } else { (step.back, step.unit_back) };
                if network.free[resource as usize] < class.rate {
                    continue;
                }
                for (cost, mark) in near[step.to as usize] {
                    if mark != NONE {
                        let offer = (cost + unit * class.units, mark);
                        changed |= improve(&mut near[vertex], offer);
                    }
                }
            }
        }
        if !changed {
            break;
        }
    }
    let other = |(vertex, pair): (u32, &[(u64, u32); 2])| {
        if pair[0].1 == vertex { pair[1].0 } else { pair[0].0 }
    };
    (0u32..).zip(&near).map(other).collect()
}

fn improve(pair: &mut [(u64, u32); 2], offer: (u64, u32)) -> bool {
    if offer.0 >= pair[1].0 {
        return false;
    }
    if offer.1 == pair[0].1 {
        let better = offer.0 < pair[0].0;
        pair[0].0 = pair[0].0.min(offer.0);
        return better;
    }
    if offer.0 < pair[0].0 {
        pair[1] = pair[0];
        pair[0] = offer;
    } else {
        pair[1] = offer;
    }
    true
}
