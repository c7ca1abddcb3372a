//! What a child coordinator describes of its federation to a parent: its sites, and a path between
//! every two of its end points. Each site is one resource for each kind that it has, each path one or two. Also turns what
//! the parent wants of them into a request inside the child's federation.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use coalloc_common::topology::{Compute, Duplex, Edge, FrameView, SiteResource, Vertex};
use coalloc_common::{
    Amount, BitsPerSecond, CoAllocation, Cpus, DomainName, EdgeName, InvalidField, LinkDemand,
    Reason, Refusal, ResourceId, ResourceKind, RmName, SiteDemand, SiteName, Span, Timing,
    Topology, UnitValue, VertexIndex, VertexName, Window, limits,
};

use super::{AbstractPath, paths, widest};

/// A federation as its coordinator describes it to a parent.
#[derive(Debug, Clone)]
pub struct AbstractTopology {
    topology: Arc<Topology>,
    /// The coordinator's name. The names of its paths begin with it.
    name: String,
    paths: Vec<ShownPath>,
    resources: Vec<Resource>,
    edges_max: usize,
}

/// A path as it is described to the parent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ShownPath {
    /// The path's name: `GRC:A--B`, with the coordinator and both ends.
    pub name: String,
    /// One end.
    pub a: VertexName,
    /// The other end.
    pub b: VertexName,
    /// The rate that can be held when nothing is booked.
    pub capacity: BitsPerSecond,
    /// Points per Gbit/s.
    pub unit_value: UnitValue,
    /// One-way latency.
    pub latency: Span,
    /// Whether the path is two resources, one for each direction.
    pub full_duplex: bool,
}

/// A resource that the parent can hold.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Resource {
    /// The parent's name for it.
    pub name: ResourceId,
    /// What it stands for inside.
    pub what: InnerResource,
}

/// What a resource of the parent stands for inside.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum InnerResource {
    /// What a site has of a kind.
    Site(VertexIndex, ResourceKind),
    /// A route from one end point to another, no slower than the described latency.
    Way {
        /// The end point where the route begins.
        from: VertexIndex,
        /// The end point where the route ends.
        to: VertexIndex,
        /// The latency that was described to the parent.
        latency: Span,
    },
}

impl InnerResource {
    /// An amount of this resource, for people.
    #[must_use]
    pub fn show(self, amount: Amount) -> String {
        match self {
            Self::Site(_, kind) => kind.show(amount),
            Self::Way { .. } => ResourceKind::Bandwidth.show(amount),
        }
    }
}

impl AbstractTopology {
    /// Describes the federation of the coordinator `name`, which meets other domains at `borders`.
    /// A path stands for routes of at most `edges_max` edges.
    ///
    /// # Errors
    /// When there are more end points than a description may have, or a path between two of them
    /// has too long a name.
    pub fn of(
        topology: Arc<Topology>,
        name: &str,
        borders: &BTreeSet<VertexName>,
        edges_max: usize,
    ) -> Result<Self, InvalidField> {
        let sites: Vec<VertexIndex> = topology.sites().map(|(vertex, ..)| vertex).collect();
        let borders = borders.iter().filter_map(|name| topology.find_vertex(name));
        let mut points = sites.clone();
        points.extend(borders.filter(|border| !sites.contains(border)));
        if points.len() > limits::UPWARD_POINTS_MAX {
            let allowed = format!("at most {} sites and border points", limits::UPWARD_POINTS_MAX);
            return Err(InvalidField::new("border_points", points.len(), allowed));
        }
        let found = paths(&topology, &points, edges_max);
        let resource = |name: &str, what| -> Result<Resource, InvalidField> {
            Ok(Resource { name: ResourceId::parse("paths", name)?, what })
        };
        let mut resources: Vec<Resource> = Vec::new();
        for site in sites {
            let vertex = topology.vertex(site);
            for of in vertex.resources() {
                let name = of.kind.resource_at("sites", vertex.name.as_str())?;
                resources.push(Resource { name, what: InnerResource::Site(site, of.kind) });
            }
        }
        let mut shown = Vec::with_capacity(found.len());
        for path in &found {
            let AbstractPath { a, b, latency, .. } = *path;
            let path = described(&topology, name, path);
            let way = |from, to| InnerResource::Way { from, to, latency };
            if path.full_duplex {
                resources.push(resource(&format!("{}:ab", path.name), way(a, b))?);
                resources.push(resource(&format!("{}:ba", path.name), way(b, a))?);
            } else {
                resources.push(resource(&path.name, way(a, b))?);
            }
            shown.push(path);
        }
        Ok(Self { topology, name: name.to_owned(), paths: shown, resources, edges_max })
    }

    /// The coordinator's name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The child's own federation.
    #[must_use]
    pub fn topology(&self) -> &Topology {
        &self.topology
    }

    /// The sites, which are the same on both levels.
    pub fn sites(&self) -> impl Iterator<Item = (&Vertex, &Compute)> {
        self.topology.sites().map(|(_, vertex, compute)| (vertex, compute))
    }

    /// The paths between the end points.
    #[must_use]
    pub fn paths(&self) -> &[ShownPath] {
        &self.paths
    }

    /// All resources, in the order in which they are described and answered for.
    #[must_use]
    pub fn resources(&self) -> &[Resource] {
        &self.resources
    }

    /// What is free of each resource by itself, in the order of [`Self::resources`].
    #[must_use]
    pub fn free(&self, view: &FrameView) -> Vec<Amount> {
        let mut widths: BTreeMap<VertexIndex, Vec<BitsPerSecond>> = BTreeMap::new();
        let mut free = |resource: &Resource| match resource.what {
            InnerResource::Site(site, kind) => view.free_at(kind, site),
            InnerResource::Way { from, to, .. } => {
                let row = widths.entry(from);
                let row = row.or_insert_with(|| widest(&self.topology, view, from, self.edges_max));
                row[to.at()].into()
            }
        };
        self.resources.iter().map(&mut free).collect()
    }

    /// The resource with this name.
    #[must_use]
    pub fn find(&self, name: &ResourceId) -> Option<&Resource> {
        self.resources.iter().find(|resource| resource.name == *name)
    }

    /// Turns what is wanted over one window into a request to this coordinator's own RMs.
    ///
    /// # Errors
    /// When a resource does not exist, or there are more resources, or more of one, than a request
    /// may ask for.
    pub fn request(
        &self,
        window: Window,
        wanted: &BTreeMap<ResourceId, Amount>,
    ) -> Result<Inner, Refusal> {
        let mut inner = Inner::new(window);
        for (name, amount) in wanted {
            let Some(resource) = self.find(name) else {
                let text = format!("there is no resource {name}");
                let resource = Some(name.clone());
                return Err(Refusal { resource, ..Refusal::new(Reason::UnknownResource, text) });
            };
            check_amount(resource, *amount)?;
            match resource.what {
                InnerResource::Site(site, kind) => {
                    let at = inner.site(&self.topology, site);
                    inner.request.sites[at].set_amount(kind, *amount);
                    inner.of_sites[at].insert(kind, name.clone());
                }
                InnerResource::Way { from, to, latency } => {
                    let link = LinkDemand {
                        from: inner.site(&self.topology, from),
                        to: inner.site(&self.topology, to),
                        bandwidth: BitsPerSecond(amount.0),
                        // The described latency is a promise: no route inside may be slower.
                        latency_max: Some(latency),
                        window: None,
                    };
                    inner.request.links.push(link);
                    inner.of_links.push(name.clone());
                }
            }
        }
        let (sites, links) = (inner.request.sites.len(), inner.request.links.len());
        if sites > limits::REQUEST_SITES_MAX || links > limits::REQUEST_LINKS_MAX {
            let (sites_max, links_max) = (limits::REQUEST_SITES_MAX, limits::REQUEST_LINKS_MAX);
            let text =
                format!("a hold may have at most {sites_max} end points and {links_max} paths");
            return Err(Refusal::new(Reason::BeyondCapacity, text));
        }
        Ok(inner)
    }
}

/// Refuses an amount above the bounds of [`CoAllocation::check`], because planners rely on them.
fn check_amount(resource: &Resource, amount: Amount) -> Result<(), Refusal> {
    let most = match resource.what {
        InnerResource::Site(_, kind) => Amount(kind.most()),
        InnerResource::Way { .. } => Amount(ResourceKind::Bandwidth.most()),
    };
    if amount <= most {
        return Ok(());
    }
    let (name, asked, most) =
        (&resource.name, resource.what.show(amount), resource.what.show(most));
    let text = format!("{asked} of {name} were asked for; a request may ask for at most {most}");
    let refusal = Refusal::new(Reason::BeyondCapacity, text);
    Err(Refusal { resource: Some(name.clone()), requested: Some(amount), ..refusal })
}

fn described(topology: &Topology, coordinator: &str, path: &AbstractPath) -> ShownPath {
    let end = |at| topology.vertex(at).name.clone();
    let (a, b) = (end(path.a), end(path.b));
    ShownPath {
        name: format!("{coordinator}:{a}--{b}"),
        a,
        b,
        capacity: path.width,
        unit_value: UnitValue(path.unit_value.min(limits::UNIT_VALUE_MAX)),
        latency: path.latency.min(limits::LATENCY_MAX),
        full_duplex: path.full_duplex,
    }
}

/// The federation as a parent sees it, put together from what its children describe: first all
/// sites and then all paths, in the order of `below`. An end point that is no site becomes an
/// exchange point. Prices and quality are not described.
///
/// # Errors
/// When a name stands for two things, or there are too many.
pub fn seen_by_parent(below: &[(DomainName, &AbstractTopology)]) -> Result<Topology, InvalidField> {
    let mut topology = Topology::new();
    for (domain, shown) in below {
        for (vertex, compute) in shown.sites() {
            let compute = Compute {
                rm: RmName::composed(shown.name()),
                resource: ResourceId::composed(vertex.name.as_str()),
                price: None,
                quality: limits::QUALITY_FULL,
                ..compute.clone()
            };
            let others = vertex.others.iter().map(|(kind, own)| {
                let resource = kind.resource_at("sites", vertex.name.as_str())?;
                Ok((*kind, SiteResource { resource, ..own.clone() }))
            });
            let others = others.collect::<Result<_, InvalidField>>()?;
            let (name, domain) = (vertex.name.clone(), Some(domain.clone()));
            topology.add_vertex(Vertex { name, domain, compute: Some(compute), others })?;
        }
    }
    for (_, shown) in below {
        for path in shown.paths() {
            let a = end_point(&mut topology, &path.a)?;
            let b = end_point(&mut topology, &path.b)?;
            let resource = |way| ResourceId::parse("path", &format!("{}{way}", path.name));
            topology.add_edge(Edge {
                name: EdgeName::parse("path", &path.name)?,
                a,
                b,
                rm: RmName::composed(shown.name()),
                capacity: path.capacity,
                unit_value: path.unit_value,
                price: None,
                quality: limits::QUALITY_FULL,
                latency: path.latency,
                duplex: match path.full_duplex {
                    true => Duplex::Full { ab: resource(":ab")?, ba: resource(":ba")? },
                    false => Duplex::Shared(resource("")?),
                },
            })?;
        }
    }
    Ok(topology)
}

fn end_point(topology: &mut Topology, name: &VertexName) -> Result<VertexIndex, InvalidField> {
    match topology.find_vertex(name) {
        Some(known) => Ok(known),
        None => topology.add_vertex(Vertex::new(name.clone(), None, None)),
    }
}

/// A hold from the parent over one window, as a request inside the child's federation.
#[derive(Debug, Clone)]
pub struct Inner {
    /// The request. Its sites are pinned, and each path is a link between its ends.
    pub request: CoAllocation,
    /// The resources that each site of the request stands for, by kind; empty where the site is only
    /// the end of a link.
    pub of_sites: Vec<BTreeMap<ResourceKind, ResourceId>>,
    /// The resource that each link of the request stands for.
    pub of_links: Vec<ResourceId>,
    index: BTreeMap<VertexIndex, usize>,
}

impl Inner {
    fn new(window: Window) -> Self {
        let (start, duration) = (window.start(), window.length());
        let timing = Timing { earliest_start: start, latest_start: start, duration };
        let request = CoAllocation { sites: Vec::new(), links: Vec::new(), timing };
        Self { request, of_sites: Vec::new(), of_links: Vec::new(), index: BTreeMap::new() }
    }

    /// The index of the demand for an end point. There is one, however many paths meet there.
    fn site(&mut self, topology: &Topology, vertex: VertexIndex) -> usize {
        let (sites, of_sites) = (&mut self.request.sites, &mut self.of_sites);
        *self.index.entry(vertex).or_insert_with(|| {
            let name = topology.vertex(vertex).name.clone();
            sites.push(SiteDemand {
                name: SiteName::composed(name.as_str()),
                cpus: Cpus(0),
                others: BTreeMap::new(),
                pinned: Some(name),
                excluded: BTreeSet::new(),
                windows: BTreeMap::new(),
            });
            of_sites.push(BTreeMap::new());
            sites.len() - 1
        })
    }
}
