//! The network of a run: the graph, the places that keep timetables, and the distances between all nodes.
//!
//! A *controller* is the part of a resource manager that is at one node: the switch that keeps the timetables
//! of the links out of that node (Christodoulopoulos 2008, section 3: each node records the capacity reserved
//! on its outgoing links), or the manager of one cluster. An NRM of a federation file whose links begin at
//! several nodes becomes as many controllers.

use std::collections::BTreeMap;

use coalloc_common::topology::{Compute, Direction, Duplex, Edge, Vertex};
use coalloc_common::{
    Amount, BitsPerSecond, Cpus, EdgeName, InvalidField, ResourceId, RmName, Span, Topology,
    UnitValue, VertexIndex, VertexName, limits,
};

use super::settings::{ClusterSettings, TasksSettings, TopologySettings, TorusSettings};
use crate::chance::RandomStream;

/// Speed of light in fibre: microseconds per kilometre (Stevens 2009, section 5.1).
const US_PER_KM: i64 = 5;

/// One edge in one direction, with the same number as in the schedulers' pictures.
#[derive(Debug, Clone)]
pub(super) struct Link {
    pub(super) delay: Span,
    pub(super) resource: usize,
}

/// The computers of one site, with the same number as in the schedulers' pictures.
#[derive(Debug, Clone)]
pub(super) struct Cluster {
    pub(super) mips: u64,
    pub(super) resource: usize,
}

/// A resource that can be reserved.
#[derive(Debug, Clone)]
pub(super) struct Resource {
    pub(super) id: ResourceId,
    pub(super) capacity: Amount,
    pub(super) controller: usize,
    /// The number of the resource at its controller.
    pub(super) number: u32,
    /// The links that use it: two when both directions share it.
    pub(super) links: Vec<usize>,
    pub(super) cluster: Option<usize>,
}

/// A place that keeps timetables: the controller's name and node.
#[derive(Debug, Clone)]
pub(super) struct ControllerPlace {
    pub(super) name: RmName,
    pub(super) vertex: usize,
    /// The resources of the place, in the order of their numbers there.
    pub(super) resources: Vec<usize>,
}

/// The network of a run.
#[derive(Debug, Clone)]
pub(super) struct Net {
    pub(super) topology: Topology,
    pub(super) links: Vec<Link>,
    pub(super) clusters: Vec<Cluster>,
    pub(super) resources: Vec<Resource>,
    pub(super) places: Vec<ControllerPlace>,
    by_name: BTreeMap<RmName, usize>,
    /// Delay between each two nodes over the shortest path.
    pub(super) distance: Vec<Vec<Span>>,
    /// The longest of these delays.
    pub(super) farthest: Span,
    /// Number of links on the longest of the shortest paths.
    pub(super) hops_most: usize,
}

impl Net {
    /// The network that results from settings, the federation that they name, and a seed.
    pub(super) fn new(
        settings: &TasksSettings,
        federation: Option<&Topology>,
        seed: u64,
    ) -> Result<Self, InvalidField> {
        let bare = match (&settings.topology, federation) {
            (TopologySettings::Torus(torus), _) => torus_graph(torus)?,
            (TopologySettings::Federation, Some(federation)) => federation.clone(),
            (TopologySettings::Federation, None) => {
                let allowed = "a federation: `{file: federation.yaml}`";
                return Err(InvalidField::missing("topology.federation", allowed));
            }
        };
        let (distance, hops_most) = distances(&bare)?;
        let topology = with_clusters(bare, &settings.clusters, seed)?;
        if topology.sites().next().is_none() {
            let allowed = "at least one cluster, here or in the federation file";
            return Err(InvalidField::missing("clusters.random", allowed));
        }
        let mut net = Self {
            topology,
            links: Vec::new(),
            clusters: Vec::new(),
            resources: Vec::new(),
            places: Vec::new(),
            by_name: BTreeMap::new(),
            farthest: distance.iter().flatten().max().copied().unwrap_or(Span::ZERO),
            distance,
            hops_most,
        };
        net.add_resources();
        net.by_name = net.places.iter().map(|place| place.name.clone()).zip(0..).collect();
        Ok(net)
    }

    fn add_resources(&mut self) {
        let topology = self.topology.clone();
        let mut known: BTreeMap<(RmName, usize), usize> = BTreeMap::new();
        for edge in topology.edges() {
            for direction in [Direction::AToB, Direction::BToA] {
                let shared = direction == Direction::BToA && edge.is_shared();
                let link = self.links.len();
                let resource = if shared {
                    self.links[link - 1].resource
                } else {
                    let from = edge.head(direction.back()).at();
                    let id = edge.resource(direction).clone();
                    let rm = edge.rm.clone();
                    self.add_resource(id, edge.capacity.into(), rm, from, &mut known)
                };
                self.resources[resource].links.push(link);
                self.links.push(Link { delay: edge.latency, resource });
            }
        }
        for (vertex, _, compute) in topology.sites() {
            let (id, capacity) = (compute.resource.clone(), compute.capacity.into());
            let resource =
                self.add_resource(id, capacity, compute.rm.clone(), vertex.at(), &mut known);
            self.resources[resource].cluster = Some(self.clusters.len());
            self.clusters.push(Cluster { mips: compute.mips, resource });
        }
    }

    fn add_resource(
        &mut self,
        id: ResourceId,
        capacity: Amount,
        rm: RmName,
        vertex: usize,
        known: &mut BTreeMap<(RmName, usize), usize>,
    ) -> usize {
        let at = &self.topology.vertices()[vertex].name;
        let name = RmName::composed(format!("{rm}/{at}"));
        let controller = *known.entry((rm, vertex)).or_insert_with(|| {
            self.places.push(ControllerPlace { name, vertex, resources: Vec::new() });
            self.places.len() - 1
        });
        let resource = self.resources.len();
        let place = &mut self.places[controller];
        let number = place.resources.len() as u32; // Lossless: at most EDGES_MAX.
        place.resources.push(resource);
        let (links, cluster) = (Vec::new(), None);
        self.resources.push(Resource { id, capacity, controller, number, links, cluster });
        resource
    }
}

/// A torus of nodes `v<row>-<column>`. Each node has a link to the next row and one to the next column; both
/// belong to the node's own NRM.
fn torus_graph(torus: &TorusSettings) -> Result<Topology, InvalidField> {
    let mut topology = Topology::new();
    let name = |row: u32, column: u32| format!("v{row}-{column}");
    for (row, column) in (0..torus.side).flat_map(|row| (0..torus.side).map(move |c| (row, c))) {
        let name = VertexName::composed(name(row, column));
        topology.add_vertex(Vertex::new(name, None, None))?;
    }
    let vertex =
        |row: u32, column: u32| VertexIndex(row % torus.side * torus.side + column % torus.side);
    let latency = Span::from_us(i64::from(torus.km) * US_PER_KM);
    for (row, column) in (0..torus.side).flat_map(|row| (0..torus.side).map(move |c| (row, c))) {
        let rm = RmName::composed(format!("nrm-{}", name(row, column)));
        for (to, word) in [(vertex(row, column + 1), "east"), (vertex(row + 1, column), "south")] {
            let edge_name = EdgeName::composed(format!("{}-{word}", name(row, column)));
            let from = vertex(row, column);
            let path = edge(edge_name, from, to, rm.clone(), torus.capacity_bps, latency);
            topology.add_edge(path)?;
        }
    }
    Ok(topology)
}

/// A path that has its capacity in each direction, as an NRM describes it.
pub(super) fn edge(
    name: EdgeName,
    a: VertexIndex,
    b: VertexIndex,
    rm: RmName,
    capacity_bps: u64,
    latency: Span,
) -> Edge {
    let duplex = Duplex::Full {
        ab: ResourceId::composed(format!("{name}:ab")),
        ba: ResourceId::composed(format!("{name}:ba")),
    };
    let (unit_value, price, quality) = (UnitValue(1), None, limits::QUALITY_FULL);
    let capacity = BitsPerSecond(capacity_bps);
    Edge { name, a, b, rm, capacity, unit_value, price, quality, latency, duplex }
}

/// The computers of a site, as a CRM describes them.
fn compute(rm: RmName, site: &str, settings: &ClusterSettings) -> Compute {
    Compute {
        rm,
        resource: ResourceId::composed(site),
        capacity: Cpus(settings.cpus),
        unit_value: UnitValue(1),
        price: None,
        quality: limits::QUALITY_FULL,
        mips: settings.mips,
    }
}

/// The same graph with the clusters of the settings.
fn with_clusters(
    bare: Topology,
    settings: &ClusterSettings,
    seed: u64,
) -> Result<Topology, InvalidField> {
    let nodes = bare.vertices().len();
    let chosen: Vec<usize> = match (&settings.random, &settings.at) {
        (None, None) => return Ok(bare),
        (Some(count), _) => {
            let count = *count as usize;
            if count == 0 || count > nodes {
                let allowed = format!("1 to {nodes} clusters");
                return Err(InvalidField::new("clusters.random", count, allowed));
            }
            RandomStream::new(seed, "clusters").choose(count, nodes)
        }
        (None, Some(names)) => {
            let find = |(index, name): (usize, &String)| {
                let field = format!("clusters.at[{index}]");
                let found = bare.find_vertex(&VertexName::parse(&field, name)?);
                let allowed = "a node of the topology";
                found
                    .map(|vertex| vertex.at())
                    .ok_or_else(|| InvalidField::new(field, InvalidField::quoted(name), allowed))
            };
            names.iter().enumerate().map(find).collect::<Result<_, _>>()?
        }
    };
    let mut topology = Topology::new();
    for (index, vertex) in bare.vertices().iter().enumerate() {
        let name = vertex.name.as_str();
        let compute = chosen.contains(&index).then(|| {
            let rm = RmName::composed(format!("crm-{name}"));
            compute(rm, name, settings)
        });
        topology.add_vertex(Vertex { compute, ..vertex.clone() })?;
    }
    for edge in bare.edges() {
        topology.add_edge(edge.clone())?;
    }
    Ok(topology)
}

/// The shortest delays between all nodes, and the number of links on the longest of these paths.
fn distances(topology: &Topology) -> Result<(Vec<Vec<Span>>, usize), InvalidField> {
    let nodes = topology.vertices().len();
    let mut hops_most = 0;
    let mut all = Vec::with_capacity(nodes);
    for source in 0..nodes {
        let mut best = vec![(i64::MAX, usize::MAX); nodes];
        let mut done = vec![false; nodes];
        best[source] = (0, 0);
        for _ in 0..nodes {
            let left = (0..nodes).filter(|node| !done[*node] && best[*node].0 < i64::MAX);
            let Some(at) = left.min_by_key(|node| best[*node]) else { break };
            done[at] = true;
            // Lossless: at most VERTICES_MAX.
            for hop in topology.hops(VertexIndex(at as u32)) {
                let latency = topology.edge(hop.edge).latency.as_us();
                let through = (best[at].0 + latency, best[at].1 + 1);
                best[hop.to.at()] = best[hop.to.at()].min(through);
            }
        }
        if let Some(cut) = (0..nodes).find(|node| !done[*node]) {
            let names = [source, cut].map(|node| topology.vertices()[node].name.as_str());
            let value = format!("no route from {} to {}", names[0], names[1]);
            let allowed = "a federation whose nodes are all joined by paths";
            return Err(InvalidField::new("topology.federation", value, allowed));
        }
        hops_most = best.iter().map(|(_, hops)| *hops).max().unwrap_or(0).max(hops_most);
        all.push(best.into_iter().map(|(us, _)| Span::from_us(us)).collect());
    }
    debug_assert!(nodes <= limits::VERTICES_MAX);
    Ok((all, hops_most))
}

impl Net {
    /// The index of the place with this name.
    pub(super) fn place_named(&self, name: &RmName) -> Option<usize> {
        self.by_name.get(name).copied()
    }

    /// The capacity of the smallest link, which every path has at least, in bit/s.
    pub(super) fn rate_least(&self) -> Option<u64> {
        self.topology.edges().iter().map(|edge| edge.capacity.0).min()
    }

    /// The CPUs of all clusters together.
    pub(super) fn cpus(&self) -> Cpus {
        Cpus(self.clusters.iter().map(|c| self.resources[c.resource].capacity.0).sum())
    }
}
