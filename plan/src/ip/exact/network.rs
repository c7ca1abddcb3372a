//! The frame as flat arrays: the steps out of each vertex, the resource that each step takes, and
//! what is free.
//!
//! The number of a step (its code) is `2 * edge + direction`; flipping the last bit gives the
//! opposite step. Resources are also numbered by codes: both steps of a shared edge take the even
//! one.
//!
//! Where links have windows of their own, what is free differs from period to period. Then the
//! network has what is free of each resource in each period, and a layer for each window that links
//! have: the same edges, with what is free in that window and what steps cost in it. Routes of one
//! link are searched in its layer, and loads of several links are added up in each period.

use coalloc_common::topology::{Direction, FrameView};
use coalloc_common::{
    BitsPerSecond, CoAllocation, EdgeIndex, LinkDemand, PartWindow, Topology, limits,
};

use crate::ip::free_bps;
use crate::{Instance, Route};

/// Stands for no vertex, no label or no row.
pub(super) const NONE: u32 = u32::MAX;

/// A step out of a vertex.
#[derive(Clone, Copy)]
pub(super) struct Step {
    /// The vertex that it leads to.
    pub(super) to: u32,
    /// The code of the step.
    pub(super) code: u32,
    /// The resource that the step takes.
    pub(super) out: u32,
    /// The resource that the opposite step takes.
    pub(super) back: u32,
    /// The cost of the step for each unit of rate.
    pub(super) unit: u64,
    /// The cost of the opposite step for each unit of rate.
    pub(super) unit_back: u64,
    /// Latency in microseconds.
    pub(super) latency: u64,
}

/// The edges of one frame.
pub(super) struct Network {
    starts: Vec<u32>,
    steps: Vec<Step>,
    /// What is free of each resource, in bit/s; with several periods, what is free in each of them,
    /// see [`Network::periods`].
    pub(super) free: Vec<u64>,
    /// The number of periods, which is 1 unless links have windows of their own. What is free of a
    /// resource in a period is at `resource * periods + period`.
    pub(super) periods: usize,
    /// For each window that links have, the network in that window. Empty unless links have windows
    /// of their own; then the network itself serves all of them.
    layers: Vec<Self>,
    /// What can be free of each resource at most; empty before [`Network::set_capacities`].
    pub(super) most: Vec<u64>,
    /// The resource of each code.
    resources: Vec<u32>,
    /// Whether every edge is shared and costs the same in both directions, so that any route can be
    /// used in either direction.
    pub(super) reversible: bool,
    /// N_max: the most edges of a route.
    pub(super) edges_max: usize,
}

impl Network {
    /// The edges of a federation with what is free in the view. `unit` gives the cost of a step for
    /// each unit of rate.
    pub(super) fn new(
        topology: &Topology,
        view: &FrameView,
        unit: impl Fn(EdgeIndex, Direction) -> u64,
        edges_max: usize,
    ) -> Self {
        let edges = topology.edges();
        let mut free = Vec::with_capacity(2 * edges.len());
        let mut resources = Vec::with_capacity(2 * edges.len());
        for (index, edge) in edges.iter().enumerate() {
            // There are at most EDGES_MAX edges, so the casts keep the values.
            let code = 2 * index as u32;
            let index = EdgeIndex(index as u32);
            let lane = |direction| free_bps(edge, index, direction, view);
            free.extend([lane(Direction::AToB), lane(Direction::BToA)]);
            resources.extend([code, code + u32::from(!edge.is_shared())]);
        }
        let mut starts = Vec::with_capacity(topology.vertices().len() + 1);
        let mut steps = Vec::with_capacity(2 * edges.len());
        starts.push(0);
        for vertex in 0..topology.vertices().len() as u32 {
            for hop in topology.hops(coalloc_common::VertexIndex(vertex)) {
                let edge = topology.edge(hop.edge);
                let code = 2 * hop.edge.0 + hop.direction.at() as u32;
                steps.push(Step {
                    to: hop.to.0,
                    code,
                    out: resources[code as usize],
                    back: resources[(code ^ 1) as usize],
                    unit: unit(hop.edge, hop.direction),
                    unit_back: unit(hop.edge, hop.direction.back()),
                    // Not negative, because the topology checks it.
                    latency: edge.latency.as_us().unsigned_abs(),
                });
            }
            starts.push(steps.len() as u32);
        }
        let reversible = (0u32..).zip(edges).all(|(index, edge)| {
            let cost = |direction| unit(EdgeIndex(index), direction);
            edge.is_shared() && cost(Direction::AToB) == cost(Direction::BToA)
        });
        Self {
            starts,
            steps,
            free,
            periods: 1,
            layers: Vec::new(),
            most: Vec::new(),
            resources,
            reversible,
            edges_max,
        }
    }

    /// The network of an instance, whose links may have windows of their own.
    pub(super) fn of_instance(instance: &Instance<'_>, edges_max: usize) -> Self {
        let Instance { topology, request, view, costs } = instance;
        let layer = |link: usize, view: &FrameView| {
            Self::new(topology, view, |edge, way| costs.step_unit(link, edge, way), edges_max)
        };
        let mut network = layer(0, view);
        if request.links.iter().all(|link| link.window.is_none()) {
            return network;
        }
        for window in windows(request) {
            let link = request.links.iter().position(|link| link.window == window).unwrap_or(0);
            network.layers.push(layer(link, view.during(window)));
        }
        network.reversible = network.layers.iter().all(|layer| layer.reversible);
        let periods = request.periods();
        let then: Vec<Self> = periods.iter().map(|period| layer(0, view.during(*period))).collect();
        network.periods = periods.len();
        network.free = (0..network.free.len())
            .flat_map(|resource| then.iter().map(move |period| period.free[resource]))
            .collect();
        network
    }

    /// The network in which links of a class are routed.
    pub(super) fn layer(&self, class: Class) -> &Self {
        self.layers.get(class.layer).unwrap_or(self)
    }

    /// A network of undirected links without a federation: `(a, b, microseconds)` each, by index.
    /// Every step costs 1 for each unit of rate.
    pub(super) fn of_links(vertices: usize, links: &[(u32, u32, u64)], edges_max: usize) -> Self {
        let mut from: Vec<Vec<Step>> = vec![Vec::new(); vertices];
        for (code, &(a, b, latency)) in (0u32..).step_by(2).zip(links) {
            let step = |to, code: u32| Step {
                to,
                code,
                out: code & !1,
                back: code & !1,
                unit: 1,
                unit_back: 1,
                latency,
            };
            from[a as usize].push(step(b, code));
            from[b as usize].push(step(a, code | 1));
        }
        let mut starts = vec![0];
        let mut steps = Vec::with_capacity(2 * links.len());
        for some in from {
            steps.extend(some);
            starts.push(steps.len() as u32);
        }
        let resources = (0..2 * links.len() as u32).map(|code| code & !1).collect();
        Self {
            starts,
            steps,
            free: Vec::new(),
            periods: 1,
            layers: Vec::new(),
            most: Vec::new(),
            resources,
            reversible: true,
            edges_max,
        }
    }

    /// Sets what can be free at most. From then on, routing records which shortages it meets.
    pub(super) fn set_capacities(&mut self, topology: &Topology) {
        let capacities = topology.edges().iter().flat_map(|edge| [edge.capacity.0; 2]);
        self.most = capacities.zip(&self.free).map(|(most, free)| most.max(*free)).collect();
    }

    /// Sets the cost of both steps of every edge.
    pub(super) fn price(&mut self, unit: impl Fn(u32) -> u64) {
        for step in &mut self.steps {
            step.unit = unit(step.code >> 1);
            step.unit_back = step.unit;
        }
    }

    pub(super) fn vertices(&self) -> usize {
        self.starts.len() - 1
    }

    pub(super) fn steps(&self, vertex: u32) -> &[Step] {
        let vertex = vertex as usize;
        &self.steps[self.starts[vertex] as usize..self.starts[vertex + 1] as usize]
    }

    /// The resource that a step takes.
    pub(super) fn resource(&self, code: u32) -> usize {
        self.resources[code as usize] as usize
    }
}

/// What the routes of a link depend on: links of one class have the same routes between the same
/// vertices.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct Class {
    /// Rate in bit/s.
    pub(super) rate: u64,
    /// The rate in units of rate, in which the cost of a step is counted.
    pub(super) units: u64,
    /// The most latency that a route may have, in microseconds, if it is bounded.
    pub(super) latency_max: Option<u64>,
    /// The layer of the network in which it is routed; 0 unless links have windows of their own.
    pub(super) layer: usize,
}

/// A requested link between two requested sites.
#[derive(Clone, Copy)]
pub(super) struct Link {
    pub(super) from: usize,
    pub(super) to: usize,
    pub(super) class: usize,
    pub(super) rate: u64,
    /// The first period in which it is wanted, and the end of the last; 0 and 1 unless links have
    /// windows of their own.
    pub(super) periods: (usize, usize),
}

/// The windows that links have, in the order of the links.
fn windows(request: &CoAllocation) -> Vec<Option<PartWindow>> {
    let mut windows = Vec::new();
    for link in &request.links {
        if !windows.contains(&link.window) {
            windows.push(link.window);
        }
    }
    windows
}

/// The requested links of a request, and their classes. `units` counts a rate in units of rate.
pub(super) fn links_of(
    request: &CoAllocation,
    units: impl Fn(BitsPerSecond) -> u64,
) -> (Vec<Link>, Vec<Class>) {
    if request.links.iter().all(|link| link.window.is_none()) {
        return links(&request.links, units);
    }
    let (windows, periods) = (windows(request), request.periods());
    let layer = |demand: &LinkDemand| {
        let same = |window: &Option<PartWindow>| *window == demand.window;
        let layer = windows.iter().position(same).unwrap_or(0);
        let covers = |period: &Option<PartWindow>| demand.is_wanted_in(*period);
        let begin = periods.iter().position(covers).unwrap_or(0);
        let length = periods[begin..].iter().take_while(|period| covers(period)).count();
        (layer, (begin, begin + length))
    };
    classified(&request.links, units, layer)
}

/// The links without windows of their own, and their classes. `units` counts a rate in units of
/// rate.
pub(super) fn links(
    demands: &[LinkDemand],
    units: impl Fn(BitsPerSecond) -> u64,
) -> (Vec<Link>, Vec<Class>) {
    classified(demands, units, |_| (0, (0, 1)))
}

/// Links and classes. `when` gives the layer and the periods of a link.
fn classified(
    demands: &[LinkDemand],
    units: impl Fn(BitsPerSecond) -> u64,
    when: impl Fn(&LinkDemand) -> (usize, (usize, usize)),
) -> (Vec<Link>, Vec<Class>) {
    let mut classes: Vec<Class> = Vec::new();
    let link = |demand: &LinkDemand| {
        let (layer, periods) = when(demand);
        let class = Class {
            rate: demand.bandwidth.0,
            units: units(demand.bandwidth),
            latency_max: demand.latency_max.map(|max| max.as_us().unsigned_abs()),
            layer,
        };
        let known = classes.iter().position(|other| *other == class);
        let index = known.unwrap_or_else(|| {
            classes.push(class);
            classes.len() - 1
        });
        Link { from: demand.from, to: demand.to, class: index, rate: class.rate, periods }
    };
    let links = demands.iter().map(link).collect();
    (links, classes)
}

/// A route: the codes of its steps in the order of travel, and its cost for its link.
#[derive(Clone, Copy)]
pub(super) struct Path {
    length: u8,
    codes: [u32; limits::ROUTE_EDGES_MAX as usize],
    /// Cost of the route in the units of [`crate::Costs`].
    pub(super) cost: u64,
}

impl Path {
    pub(super) const EMPTY: Self =
        Self { length: 0, codes: [0; limits::ROUTE_EDGES_MAX as usize], cost: 0 };

    pub(super) fn codes(&self) -> &[u32] {
        &self.codes[..usize::from(self.length)]
    }

    /// Appends a step. The caller never appends more than N_max, which is at most
    /// `ROUTE_EDGES_MAX`.
    pub(super) fn push(&mut self, code: u32) {
        self.codes[usize::from(self.length)] = code;
        self.length += 1;
    }

    /// Turns the route round, so that it leads from its end to its start.
    pub(super) fn turn(&mut self) {
        let codes = &mut self.codes[..usize::from(self.length)];
        codes.reverse();
        codes.iter_mut().for_each(|code| *code ^= 1);
    }

    /// Reverses the order of the steps, for a chain that was followed backwards.
    pub(super) fn reverse(&mut self) {
        self.codes[..usize::from(self.length)].reverse();
    }

    pub(super) fn route(&self) -> Route {
        let step = |code: &u32| {
            let direction = if code & 1 == 0 { Direction::AToB } else { Direction::BToA };
            (EdgeIndex(code >> 1), direction)
        };
        self.codes().iter().map(step).collect()
    }
}
