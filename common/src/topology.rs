//! The federation as a graph: sites and exchange points joined by edges, each edge owned by one RM.
//!
//! It is `G = (V, E)` of Takefusa 2010, section 3.2. An edge is a path inside one domain, owned by
//! one NRM; how the NRM routes it inside the domain is not modelled here. The two directions of an
//! edge share its capacity (the sentence before Eq. 8) unless the edge says that it is full duplex.
//!
//! Vertices and edges are numbered in the order in which they were added, so that planners can work
//! on vectors. Left out: what is booked; what is free in one frame is a [`FrameView`].

mod view;

use std::collections::BTreeMap;

use crate::amount::{Amount, BitsPerSecond, Cpus, UnitValue};
use crate::id::{DomainName, EdgeName, ResourceId, RmName, VertexName};
use crate::invalid::{InvalidField, check_range};
use crate::kind::ResourceKind;
use crate::limits;
use crate::price::PriceSchedule;
use crate::request::SiteDemand;
use crate::time::Span;

pub use self::view::{FrameView, ShortOf};

/// Number of a vertex in its [`Topology`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct VertexIndex(pub u32);

impl VertexIndex {
    /// The number as an index into a vector with one entry per vertex.
    #[must_use]
    pub const fn at(self) -> usize {
        self.0 as usize
    }
}

/// Number of an edge in its [`Topology`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct EdgeIndex(pub u32);

impl EdgeIndex {
    /// The number as an index into a vector with one entry per edge.
    #[must_use]
    pub const fn at(self) -> usize {
        self.0 as usize
    }
}

/// The computers of a site.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Compute {
    /// The CRM that owns the computers.
    pub rm: RmName,
    /// The name of this resource at that CRM.
    pub resource: ResourceId,
    /// Number of CPUs, 1 to [`limits::CPUS_MAX`].
    pub capacity: Cpus,
    /// Points per CPU (`vc_i`), at most [`limits::UNIT_VALUE_MAX`].
    pub unit_value: UnitValue,
    /// Price of a CPU by the time of day. `None`: it costs nothing.
    pub price: Option<PriceSchedule>,
    /// Quality of the CPUs in points, at most [`limits::QUALITY_FULL`], which is the best.
    pub quality: u32,
    /// Speed of each CPU in million instructions a second (`C_m`), 1 to [`limits::MIPS_MAX`].
    pub mips: u64,
}

/// What a site has of one further kind of resource, besides its CPUs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SiteResource {
    /// The name of this resource at the CRM that owns the site.
    pub resource: ResourceId,
    /// The capacity, in the unit of the kind, 1 to [`ResourceKind::most`].
    pub capacity: Amount,
    /// Points per unit, at most [`limits::UNIT_VALUE_MAX`].
    pub unit_value: UnitValue,
}

/// A site, or an exchange point when it has no computers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Vertex {
    /// Name, unique among all sites and exchange points of the federation.
    pub name: VertexName,
    /// The domain that the site belongs to; `None` for an exchange point, which belongs to nobody.
    pub domain: Option<DomainName>,
    /// The computers of the site; `None` for an exchange point.
    pub compute: Option<Compute>,
    /// What the site has besides CPUs, by kind; empty at an exchange point.
    pub others: BTreeMap<ResourceKind, SiteResource>,
}

/// One resource of a site, whatever its kind.
#[derive(Debug, Clone, Copy)]
pub struct OfSite<'a> {
    /// The kind.
    pub kind: ResourceKind,
    /// The CRM that owns the site.
    pub rm: &'a RmName,
    /// The name of this resource at that CRM.
    pub resource: &'a ResourceId,
    /// The capacity, in the unit of the kind.
    pub capacity: Amount,
    /// Points per unit.
    pub unit_value: UnitValue,
    /// The price by the time of day. `None`: it costs nothing.
    pub price: Option<&'a PriceSchedule>,
}

impl Vertex {
    /// A vertex that has nothing besides these computers, if any.
    #[must_use]
    pub const fn new(
        name: VertexName,
        domain: Option<DomainName>,
        compute: Option<Compute>,
    ) -> Self {
        Self { name, domain, compute, others: BTreeMap::new() }
    }

    /// All resources of a site, the CPUs first and then the further kinds in their order; none at an
    /// exchange point. It is the order in which a CRM discloses them.
    pub fn resources(&self) -> impl Iterator<Item = OfSite<'_>> {
        self.compute.iter().flat_map(|compute| {
            let rm = &compute.rm;
            let cpus = OfSite {
                kind: ResourceKind::Cpus,
                rm,
                resource: &compute.resource,
                capacity: compute.capacity.into(),
                unit_value: compute.unit_value,
                price: compute.price.as_ref(),
            };
            let others = self.others.iter().map(move |(kind, own)| OfSite {
                kind: *kind,
                rm,
                resource: &own.resource,
                capacity: own.capacity,
                unit_value: own.unit_value,
                price: None,
            });
            std::iter::once(cpus).chain(others)
        })
    }

    /// What a demand costs here by Eq. (3), in thousandths of a point: unit value times amount, over all
    /// kinds that it wants.
    #[must_use]
    pub fn value_of(&self, demand: &SiteDemand) -> u64 {
        let value = |of: OfSite<'_>| of.kind.value(of.unit_value, demand.amount(of.kind)).milli;
        self.resources().map(value).fold(0, u64::saturating_add)
    }
}

/// How an edge's capacity serves its two directions.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Duplex {
    /// One capacity for both directions together: one resource at the NRM.
    Shared(ResourceId),
    /// Each direction has the full capacity: two resources at the NRM.
    Full {
        /// From `a` to `b`.
        ab: ResourceId,
        /// From `b` to `a`.
        ba: ResourceId,
    },
}

/// The direction in which a link uses an edge.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Direction {
    /// From `a` to `b`.
    AToB,
    /// From `b` to `a`.
    BToA,
}

impl Direction {
    /// 0 for a to b, 1 for b to a: an index into a pair.
    #[must_use]
    pub const fn at(self) -> usize {
        match self {
            Self::AToB => 0,
            Self::BToA => 1,
        }
    }

    /// The opposite direction.
    #[must_use]
    pub const fn back(self) -> Self {
        match self {
            Self::AToB => Self::BToA,
            Self::BToA => Self::AToB,
        }
    }
}

/// A path inside one domain between two of its end points.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Edge {
    /// Name, unique among all edges of the federation.
    pub name: EdgeName,
    /// One end of the path.
    pub a: VertexIndex,
    /// The other end; never the same vertex as `a`.
    pub b: VertexIndex,
    /// The NRM that owns the path.
    pub rm: RmName,
    /// The rate that can be booked when nothing is booked yet, 1 to [`limits::BANDWIDTH_MAX_BPS`].
    pub capacity: BitsPerSecond,
    /// Points per Gbit/s (`vb_k`), at most [`limits::UNIT_VALUE_MAX`].
    pub unit_value: UnitValue,
    /// Price of a Gbit/s by the time of day. `None`: it costs nothing.
    pub price: Option<PriceSchedule>,
    /// Quality of the path in points, at most [`limits::QUALITY_FULL`], which is the best.
    pub quality: u32,
    /// One-way latency, at most [`limits::LATENCY_MAX`].
    pub latency: Span,
    /// How the two directions share the capacity.
    pub duplex: Duplex,
}

impl Edge {
    /// The resource that a link takes when it uses the edge in this direction.
    #[must_use]
    pub const fn resource(&self, direction: Direction) -> &ResourceId {
        match (&self.duplex, direction) {
            (Duplex::Shared(resource), _) => resource,
            (Duplex::Full { ab, .. }, Direction::AToB) => ab,
            (Duplex::Full { ba, .. }, Direction::BToA) => ba,
        }
    }

    /// Do both directions share one capacity?
    #[must_use]
    pub const fn is_shared(&self) -> bool {
        matches!(self.duplex, Duplex::Shared(_))
    }

    /// The vertex at the end of the edge in this direction.
    #[must_use]
    pub const fn head(&self, direction: Direction) -> VertexIndex {
        match direction {
            Direction::AToB => self.b,
            Direction::BToA => self.a,
        }
    }
}

/// A step from a vertex to a neighbour.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Hop {
    /// The edge that the step uses.
    pub edge: EdgeIndex,
    /// The direction in which it uses the edge.
    pub direction: Direction,
    /// The vertex at the end of the step.
    pub to: VertexIndex,
}

/// The graph. Vertices are added first, then the edges between them; every addition is checked.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Topology {
    vertices: Vec<Vertex>,
    edges: Vec<Edge>,
    hops: Vec<Vec<Hop>>,
    vertex_by_name: BTreeMap<VertexName, VertexIndex>,
    edge_by_name: BTreeMap<EdgeName, EdgeIndex>,
}

impl Topology {
    /// An empty graph.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a vertex and returns its number.
    ///
    /// # Errors
    /// [`InvalidField`] when the name is taken, a number is out of its range or the graph is full.
    pub fn add_vertex(&mut self, vertex: Vertex) -> Result<VertexIndex, InvalidField> {
        if self.vertices.len() >= limits::VERTICES_MAX {
            let allowed = format!("at most {} sites and exchange points", limits::VERTICES_MAX);
            return Err(InvalidField::new("name", &vertex.name, allowed));
        }
        if self.vertex_by_name.contains_key(&vertex.name) {
            let allowed = "a name that no other site or exchange point has";
            return Err(InvalidField::new("name", &vertex.name, allowed));
        }
        if let Some(compute) = &vertex.compute {
            check_range("cpus", compute.capacity.0, 1..=limits::CPUS_MAX, "CPUs")?;
            check_range("unit_value", compute.unit_value.0, 0..=limits::UNIT_VALUE_MAX, "points")?;
            check_range("quality", compute.quality, 0..=limits::QUALITY_FULL, "points")?;
            check_range("mips", compute.mips, 1..=limits::MIPS_MAX, "MIPS")?;
        }
        self.check_others(&vertex)?;
        // At most VERTICES_MAX.
        let index = VertexIndex(self.vertices.len() as u32);
        self.vertex_by_name.insert(vertex.name.clone(), index);
        self.vertices.push(vertex);
        self.hops.push(Vec::new());
        Ok(index)
    }

    /// Checks what a vertex has besides CPUs.
    fn check_others(&self, vertex: &Vertex) -> Result<(), InvalidField> {
        if vertex.compute.is_none() && !vertex.others.is_empty() {
            let allowed = "no further resources where there are no CPUs";
            return Err(InvalidField::new("others", vertex.others.len(), allowed));
        }
        for (kind, own) in &vertex.others {
            kind.parse_amount("others.capacity", own.capacity.0)?;
            let points = 0..=limits::UNIT_VALUE_MAX;
            check_range("others.unit_value", own.unit_value.0, points, "points")?;
        }
        // A site may be called `A:storage`. Then a site A must not have storage, or vice versa.
        let twice = |own: &ResourceId| {
            let name = VertexName::parse("name", own.as_str()).ok();
            name.is_some_and(|name| self.vertex_by_name.contains_key(&name))
        };
        if let Some(own) = vertex.others.values().find(|own| twice(&own.resource)) {
            let allowed = "a name that no site has";
            return Err(InvalidField::new("others", &own.resource, allowed));
        }
        let (site, kind) = ResourceKind::of_site_resource(vertex.name.as_str());
        let other = VertexName::parse("name", site).ok().and_then(|name| self.find_vertex(&name));
        if kind != ResourceKind::Cpus
            && other.is_some_and(|other| self.vertex(other).others.contains_key(&kind))
        {
            let allowed = format!("a name other than that of {site}'s {}", kind.noun());
            return Err(InvalidField::new("name", &vertex.name, allowed));
        }
        Ok(())
    }

    /// Adds an edge between two existing vertices and returns its number.
    ///
    /// # Errors
    /// [`InvalidField`] when the name is taken, both ends are the same vertex, a number is out of its
    /// range or the graph is full.
    pub fn add_edge(&mut self, edge: Edge) -> Result<EdgeIndex, InvalidField> {
        if self.edges.len() >= limits::EDGES_MAX {
            let allowed = format!("at most {} paths", limits::EDGES_MAX);
            return Err(InvalidField::new("name", &edge.name, allowed));
        }
        if self.edge_by_name.contains_key(&edge.name) {
            return Err(InvalidField::new("name", &edge.name, "a name that no other path has"));
        }
        for (field, end) in [("a", edge.a), ("b", edge.b)] {
            if end.at() >= self.vertices.len() {
                return Err(InvalidField::new(field, end.0, "a site or exchange point"));
            }
        }
        if edge.a == edge.b {
            let name = &self.vertices[edge.b.at()].name;
            return Err(InvalidField::new("b", name, "an end point other than `a`"));
        }
        let capacity = edge.capacity.0;
        check_range("capacity_bps", capacity, 1..=limits::BANDWIDTH_MAX_BPS, "bit/s")?;
        check_range("unit_value", edge.unit_value.0, 0..=limits::UNIT_VALUE_MAX, "points")?;
        check_range("quality", edge.quality, 0..=limits::QUALITY_FULL, "points")?;
        if !(Span::ZERO..=limits::LATENCY_MAX).contains(&edge.latency) {
            let allowed = format!("0 to {}", limits::LATENCY_MAX);
            return Err(InvalidField::new("latency", edge.latency, allowed));
        }
        // At most EDGES_MAX.
        let index = EdgeIndex(self.edges.len() as u32);
        let hop = |direction, to| Hop { edge: index, direction, to };
        self.hops[edge.a.at()].push(hop(Direction::AToB, edge.b));
        self.hops[edge.b.at()].push(hop(Direction::BToA, edge.a));
        self.edge_by_name.insert(edge.name.clone(), index);
        self.edges.push(edge);
        Ok(index)
    }

    /// All vertices, by index.
    #[must_use]
    pub fn vertices(&self) -> &[Vertex] {
        &self.vertices
    }

    /// All edges, by index.
    #[must_use]
    pub fn edges(&self) -> &[Edge] {
        &self.edges
    }

    /// The vertex with this number, which must come from this topology.
    #[must_use]
    pub fn vertex(&self, index: VertexIndex) -> &Vertex {
        &self.vertices[index.at()]
    }

    /// The edge with this number, which must come from this topology.
    #[must_use]
    pub fn edge(&self, index: EdgeIndex) -> &Edge {
        &self.edges[index.at()]
    }

    /// The steps out of a vertex, in the order in which their edges were added.
    #[must_use]
    pub fn hops(&self, from: VertexIndex) -> &[Hop] {
        &self.hops[from.at()]
    }

    /// The number of the vertex with this name.
    #[must_use]
    pub fn find_vertex(&self, name: &VertexName) -> Option<VertexIndex> {
        self.vertex_by_name.get(name).copied()
    }

    /// The number of the edge with this name.
    #[must_use]
    pub fn find_edge(&self, name: &EdgeName) -> Option<EdgeIndex> {
        self.edge_by_name.get(name).copied()
    }

    /// The vertices that have computers, with their numbers, in order.
    pub fn sites(&self) -> impl Iterator<Item = (VertexIndex, &Vertex, &Compute)> {
        self.vertices.iter().enumerate().filter_map(|(index, vertex)| {
            let compute = vertex.compute.as_ref()?;
            // At most VERTICES_MAX.
            Some((VertexIndex(index as u32), vertex, compute))
        })
    }

    /// Every resource that planners count, with its RM: those of each site, then for each edge that of the direction
    /// [`Direction::AToB`] and that of the other one, which is the same where both share it.
    pub fn resources(&self) -> impl Iterator<Item = (&RmName, &ResourceId)> {
        let of_sites = self.sites().flat_map(|(_, vertex, _)| vertex.resources());
        let of_edges = self.edges.iter().flat_map(|edge| {
            let directions = [Direction::AToB, Direction::BToA];
            directions.map(|direction| (&edge.rm, edge.resource(direction)))
        });
        of_sites.map(|of| (of.rm, of.resource)).chain(of_edges)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::time::Window;

    fn site(name: &str, storage: Option<u64>) -> Vertex {
        let compute = Compute {
            rm: RmName::composed("crm"),
            resource: ResourceId::composed(name),
            capacity: Cpus(8),
            unit_value: UnitValue(1),
            price: None,
            quality: limits::QUALITY_FULL,
            mips: limits::MIPS_DEFAULT,
        };
        let mut vertex = Vertex::new(VertexName::composed(name), None, Some(compute));
        vertex.others.extend(storage.map(|gb| {
            let resource = ResourceId::composed(format!("{name}:storage"));
            let own = SiteResource { resource, capacity: Amount(gb), unit_value: UnitValue(2) };
            (ResourceKind::Storage, own)
        }));
        vertex
    }

    #[test]
    fn what_a_site_has_besides_cpus_is_checked_and_named_once() {
        let mut topology = Topology::new();
        topology.add_vertex(site("A", Some(100))).unwrap();
        for (wrong, field) in [
            (site("B", Some(0)), "others.capacity"),
            (site("B", Some(limits::STORAGE_MAX_GB + 1)), "others.capacity"),
            (site("A:storage", None), "name"),
            (Vertex { compute: None, ..site("B", Some(1)) }, "others"),
        ] {
            assert_eq!(topology.add_vertex(wrong).unwrap_err().field, field);
        }
        topology.add_vertex(site("B:storage", None)).unwrap();
        assert_eq!(topology.add_vertex(site("B", Some(1))).unwrap_err().field, "others");
    }

    #[test]
    fn a_view_knows_what_a_demand_lacks() {
        let mut topology = Topology::new();
        let a = topology.add_vertex(site("A", Some(100))).unwrap();
        let b = topology.add_vertex(site("B", None)).unwrap();
        let window = Window::starting(crate::Time::from_us(0), Span::from_secs(60)).unwrap();
        let view = FrameView::empty_federation(&topology, window);
        let mut demand = SiteDemand {
            name: crate::SiteName::composed("r"),
            cpus: Cpus(8),
            others: BTreeMap::new(),
            pinned: None,
            excluded: std::collections::BTreeSet::new(),
            windows: BTreeMap::new(),
        };
        assert!(view.fits(&demand, a) && view.fits(&demand, b));
        assert_eq!(topology.vertex(a).value_of(&demand), 8_000);
        demand.set_amount(ResourceKind::Storage, Amount(100));
        assert!(view.fits(&demand, a) && !view.fits(&demand, b));
        assert_eq!(topology.vertex(a).value_of(&demand), 208_000);
        let short = view.short_of(&demand, b).unwrap();
        assert_eq!((short.kind, short.free), (ResourceKind::Storage, Amount::ZERO));
        demand.cpus = Cpus(9);
        assert_eq!(view.short_of(&demand, a).unwrap().kind, ResourceKind::Cpus);
        let answered = FrameView::of_answers(&topology, window, |_, _| 1_000);
        assert_eq!(answered.at_most_capacity(&topology), view);
    }
}
