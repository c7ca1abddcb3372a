//! What a coordinator shows above of one moment's federation: its sites, and a path between every two of
//! its end points, each of them a resource or two.

use std::collections::BTreeMap;
use std::sync::Arc;

use coalloc_common::topology::FrameView;
use coalloc_common::{
    Amount, BitsPerSecond, CoAllocation, Cpus, LinkDemand, Reason, Refusal, ResourceId, SiteDemand,
    SiteName, Span, Timing, VertexIndex, Window, limits,
};
use coalloc_net::convert;
use coalloc_plan::abstracted::{self, AbstractPath};
use coalloc_proto::v1;
use tonic::Status;

use crate::federation::Snapshot;
use crate::upward_config::UpwardConfig;

/// What is shown.
pub(super) struct Shown {
    pub(super) snapshot: Arc<Snapshot>,
    /// The coordinator's name, with which those of its paths begin.
    name: String,
    paths: Vec<AbstractPath>,
    /// In the order in which they are described and answered for.
    pub(super) resources: Vec<Resource>,
    edges_max: usize,
}

/// Something that can be held.
pub(super) struct Resource {
    pub(super) name: ResourceId,
    pub(super) what: What,
}

/// What a resource is inside.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum What {
    /// The CPUs of a site.
    Site(VertexIndex),
    /// The way from one end point to another, no slower than shown.
    Way { from: VertexIndex, to: VertexIndex, latency: Span },
}

impl What {
    /// An amount of it, for people.
    pub(super) fn show(self, amount: Amount) -> String {
        match self {
            Self::Site(_) => Cpus(amount.0).to_string(),
            Self::Way { .. } => BitsPerSecond(amount.0).to_string(),
        }
    }
}

impl Shown {
    pub(super) fn of(
        snapshot: Arc<Snapshot>,
        name: &str,
        config: &UpwardConfig,
        edges_max: usize,
    ) -> Result<Self, Status> {
        let topology = &snapshot.topology;
        let sites: Vec<VertexIndex> = topology.sites().map(|(vertex, ..)| vertex).collect();
        let borders = config.border_points.iter().filter_map(|n| topology.find_vertex(n));
        let mut points = sites.clone();
        points.extend(borders.filter(|border| !sites.contains(border)));
        if points.len() > limits::UPWARD_POINTS_MAX {
            let (count, max) = (points.len(), limits::UPWARD_POINTS_MAX);
            let text = format!("{count} sites and border points; at most {max} can be shown above");
            return Err(Status::failed_precondition(text));
        }
        let paths = abstracted::paths(topology, &points, edges_max);
        let resource = |name: &str, what| Resource { name: ResourceId::composed(name), what };
        let site = |site| resource(topology.vertex(site).name.as_str(), What::Site(site));
        let mut resources: Vec<Resource> = sites.into_iter().map(site).collect();
        let mut shown =
            Self { name: name.to_owned(), paths, resources: Vec::new(), edges_max, snapshot };
        for path in &shown.paths {
            let name = shown.path_name(path);
            let AbstractPath { a, b, latency, .. } = *path;
            let way = |from, to| What::Way { from, to, latency };
            if path.full_duplex {
                resources.push(resource(&format!("{name}:ab"), way(a, b)));
                resources.push(resource(&format!("{name}:ba"), way(b, a)));
            } else {
                resources.push(resource(&name, way(a, b)));
            }
        }
        shown.resources = resources;
        Ok(shown)
    }

    fn path_name(&self, path: &AbstractPath) -> String {
        let name = |at| &self.snapshot.topology.vertex(at).name;
        format!("{}:{}--{}", self.name, name(path.a), name(path.b))
    }

    /// Sites and paths as Describe tells them.
    pub(super) fn describe(&self) -> (Vec<v1::Site>, Vec<v1::Path>) {
        let topology = &self.snapshot.topology;
        let sites = topology.sites().map(|(_, vertex, compute)| v1::Site {
            name: vertex.name.to_string(),
            cpus: compute.capacity.0,
            unit_value: Some(compute.unit_value.0),
            mips: Some(compute.mips),
            ..v1::Site::default()
        });
        let paths = self.paths.iter().map(|path| v1::Path {
            name: self.path_name(path),
            a: topology.vertex(path.a).name.to_string(),
            b: topology.vertex(path.b).name.to_string(),
            capacity_bps: path.width.0,
            unit_value: Some(path.unit_value.min(limits::UNIT_VALUE_MAX)),
            latency: Some(convert::span_to_wire(path.latency.min(limits::LATENCY_MAX))),
            full_duplex: path.full_duplex,
            ..v1::Path::default()
        });
        (sites.collect(), paths.collect())
    }

    /// What is free of each resource alone, in their order.
    pub(super) fn free(&self, view: &FrameView) -> Vec<Amount> {
        let topology = &self.snapshot.topology;
        let mut widths: BTreeMap<VertexIndex, Vec<BitsPerSecond>> = BTreeMap::new();
        let mut free = |resource: &Resource| match resource.what {
            What::Site(site) => view.free_cpus[site.at()].into(),
            What::Way { from, to, .. } => {
                let row = widths.entry(from);
                let row =
                    row.or_insert_with(|| abstracted::widest(topology, view, from, self.edges_max));
                row[to.at()].into()
            }
        };
        self.resources.iter().map(&mut free).collect()
    }

    pub(super) fn find(&self, name: &ResourceId) -> Option<&Resource> {
        self.resources.iter().find(|resource| resource.name == *name)
    }

    /// What is wanted over one window as a request to this coordinator's own RMs, and which resource each
    /// of its sites and links stands for; a site that is only the end of a link stands for none.
    pub(super) fn request(
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
            match resource.what {
                What::Site(site) => {
                    let at = inner.site(self, site);
                    inner.request.sites[at].cpus = Cpus(amount.0);
                    inner.of_sites[at] = Some(name.clone());
                }
                What::Way { from, to, latency } => {
                    let link = LinkDemand {
                        from: inner.site(self, from),
                        to: inner.site(self, to),
                        bandwidth: BitsPerSecond(amount.0),
                        // What was shown is kept: no way inside may be slower.
                        latency_max: Some(latency),
                    };
                    inner.request.links.push(link);
                    inner.of_links.push(name.clone());
                }
            }
        }
        let (sites, links) = (inner.request.sites.len(), inner.request.links.len());
        if sites > limits::REQUEST_SITES_MAX || links > limits::REQUEST_LINKS_MAX {
            let (sites_max, links_max) = (limits::REQUEST_SITES_MAX, limits::REQUEST_LINKS_MAX);
            let text = format!("at most {sites_max} end points and {links_max} paths in one hold");
            return Err(Refusal::new(Reason::BeyondCapacity, text));
        }
        Ok(inner)
    }
}

/// A hold from above, over one window, as a request inside.
pub(super) struct Inner {
    pub(super) request: CoAllocation,
    pub(super) of_sites: Vec<Option<ResourceId>>,
    pub(super) of_links: Vec<ResourceId>,
    index: BTreeMap<VertexIndex, usize>,
}

impl Inner {
    fn new(window: Window) -> Self {
        let (start, duration) = (window.start(), window.length());
        let timing = Timing { earliest_start: start, latest_start: start, duration };
        let request = CoAllocation { sites: Vec::new(), links: Vec::new(), timing };
        Self { request, of_sites: Vec::new(), of_links: Vec::new(), index: BTreeMap::new() }
    }

    /// The demand of an end point: one, however many paths meet there.
    fn site(&mut self, shown: &Shown, vertex: VertexIndex) -> usize {
        let (sites, of_sites) = (&mut self.request.sites, &mut self.of_sites);
        *self.index.entry(vertex).or_insert_with(|| {
            let name = shown.snapshot.topology.vertex(vertex).name.clone();
            sites.push(SiteDemand {
                name: SiteName::composed(name.as_str()),
                cpus: Cpus(0),
                pinned: Some(name),
                excluded: std::collections::BTreeSet::new(),
            });
            of_sites.push(None);
            sites.len() - 1
        })
    }
}
