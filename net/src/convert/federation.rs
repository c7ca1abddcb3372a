//! The topology of a federation, from a file or from what resource managers describe.

use std::collections::{BTreeMap, BTreeSet};

use coalloc_common::invalid::check_range;
use coalloc_common::suggest::{choices, did_you_mean};
use coalloc_common::topology::{Compute, Duplex, Edge, SiteResource, Vertex};
use coalloc_common::{
    BitsPerSecond, CoAllocation, Cpus, DomainName, EdgeName, InvalidField, PriceSchedule,
    ResourceId, ResourceKind, RmName, Segment, Span, Topology, UnitValue, VertexName, limits,
};
use coalloc_proto::v1;

use super::{inner_network, price_from_wire, segments_from_wire, site_cpus, span_from_wire};

/// Unit value of a resource that has none of its own.
const UNIT_VALUE_DEFAULT: u64 = 1;

/// Builds the topology of a federation file. End points of paths must be sites or listed exchange points.
///
/// # Errors
/// [`InvalidField`] with the field as it is written in the file: `networks[1].paths[3].b`.
pub fn file_topology(file: &v1::FederationFile) -> Result<Topology, InvalidField> {
    let mut topology = Topology::new();
    let mut managers = BTreeSet::new();
    for (index, compute) in file.computes.iter().enumerate() {
        let field = format!("computes[{index}]");
        let (rm, domain) = manager(&field, &compute.name, &compute.domain, &mut managers)?;
        let price = price(&field, compute.price.as_ref(), None)?;
        add_sites(&mut topology, &field, &rm, &domain, &compute.sites, price.as_ref())?;
    }
    for (index, name) in file.exchange_points.iter().enumerate() {
        let field = format!("exchange_points[{index}]");
        add_exchange(&mut topology, &field, name)?;
    }
    for (index, network) in file.networks.iter().enumerate() {
        let field = format!("networks[{index}]");
        let (rm, _) = manager(&field, &network.name, &network.domain, &mut managers)?;
        let price = price(&field, network.price.as_ref(), None)?;
        add_paths(&mut topology, &field, &rm, &network.paths, price.as_ref(), false)?;
        if let Some(inner) = &network.inner {
            // Plans are made over the disclosed paths, so the inner network must be able to carry them.
            inner_network(&field, &network.paths, inner)?;
        }
    }
    Ok(topology)
}

/// Builds the topology from what resource managers answered to Describe. End points that are not sites become
/// exchange points.
///
/// # Errors
/// [`InvalidField`] that names the resource manager and the field, when a description is invalid, or when two
/// contradict each other.
pub fn topology_of_descriptions<'a>(
    descriptions: impl IntoIterator<Item = (&'a RmName, &'a v1::DescribeResponse)> + Clone,
) -> Result<Topology, InvalidField> {
    let mut topology = Topology::new();
    for (rm, described) in descriptions.clone() {
        let domain = DomainName::parse(&format!("{rm}.domain"), &described.domain)?;
        add_sites(&mut topology, rm.as_str(), rm, &domain, &described.sites, None)?;
    }
    for (rm, described) in descriptions {
        add_paths(&mut topology, rm.as_str(), rm, &described.paths, None, true)?;
    }
    Ok(topology)
}

/// The price schedule of `field`, or else that of its inventory.
fn price(
    field: &str,
    own: Option<&v1::PriceSchedule>,
    default: Option<&PriceSchedule>,
) -> Result<Option<PriceSchedule>, InvalidField> {
    match own {
        None => Ok(default.cloned()),
        Some(wire) => price_from_wire(&format!("{field}.price"), wire).map(Some),
    }
}

fn manager(
    field: &str,
    name: &str,
    domain: &str,
    seen: &mut BTreeSet<RmName>,
) -> Result<(RmName, DomainName), InvalidField> {
    let rm = RmName::parse(&format!("{field}.name"), name)?;
    let domain = DomainName::parse(&format!("{field}.domain"), domain)?;
    if !seen.insert(rm.clone()) {
        let allowed = "a name that no other resource manager has";
        return Err(InvalidField::new(format!("{field}.name"), name, allowed));
    }
    Ok((rm, domain))
}

fn add_sites(
    topology: &mut Topology,
    field: &str,
    rm: &RmName,
    domain: &DomainName,
    sites: &[v1::Site],
    default_price: Option<&PriceSchedule>,
) -> Result<(), InvalidField> {
    for (index, site) in sites.iter().enumerate() {
        let field = format!("{field}.sites[{index}]");
        add_site(topology, &field, rm, domain, site, default_price)?;
    }
    Ok(())
}

/// Adds one site.
pub(super) fn add_site(
    topology: &mut Topology,
    field: &str,
    rm: &RmName,
    domain: &DomainName,
    site: &v1::Site,
    default_price: Option<&PriceSchedule>,
) -> Result<(), InvalidField> {
    let vertex = Vertex {
        name: VertexName::parse(&format!("{field}.name"), &site.name)?,
        domain: Some(domain.clone()),
        compute: Some(Compute {
            rm: rm.clone(),
            resource: ResourceId::parse(&format!("{field}.name"), &site.name)?,
            capacity: Cpus(site_cpus(field, site)?),
            unit_value: UnitValue(site.unit_value.unwrap_or(UNIT_VALUE_DEFAULT)),
            price: price(field, site.price.as_ref(), default_price)?,
            quality: site.quality.unwrap_or(limits::QUALITY_FULL),
            mips: site.mips.unwrap_or(limits::MIPS_DEFAULT),
        }),
        others: others(field, site)?,
    };
    topology.add_vertex(vertex).map_err(|error| error.within(field))?;
    Ok(())
}

/// What a site has besides CPUs.
fn others(
    field: &str,
    site: &v1::Site,
) -> Result<BTreeMap<ResourceKind, SiteResource>, InvalidField> {
    let mut others = BTreeMap::new();
    for (index, wire) in site.others.iter().enumerate() {
        let field = format!("{field}.others[{index}]");
        let kind = ResourceKind::parse_other(&format!("{field}.kind"), &wire.kind)?;
        let capacity = kind.parse_amount(&format!("{field}.capacity"), wire.capacity)?;
        let unit_value = wire.unit_value.unwrap_or(UNIT_VALUE_DEFAULT);
        let points = 0..=limits::UNIT_VALUE_MAX;
        check_range(&format!("{field}.unit_value"), unit_value, points, "points")?;
        let resource = kind.resource_at(&format!("{field}.kind"), &site.name)?;
        let own = SiteResource { resource, capacity, unit_value: UnitValue(unit_value) };
        if others.insert(kind, own).is_some() {
            return Err(InvalidField::new(format!("{field}.kind"), &wire.kind, "each kind once"));
        }
    }
    Ok(others)
}

/// What a vertex has besides CPUs, for the wire.
#[must_use]
pub fn others_to_wire(vertex: &Vertex) -> Vec<v1::SiteResource> {
    let one = |(kind, own): (&ResourceKind, &SiteResource)| v1::SiteResource {
        kind: kind.word().to_owned(),
        capacity: own.capacity.0,
        unit_value: Some(own.unit_value.0),
    };
    vertex.others.iter().map(one).collect()
}

/// The resources of a described site, by name and capacity, in the order in which they are disclosed: its CPUs, then
/// its further kinds. What this version does not know is left out; the description is then refused elsewhere.
#[must_use]
pub fn site_resources(site: &v1::Site) -> Vec<(String, u64)> {
    let known = others("site", site).unwrap_or_default();
    let others = known.into_values().map(|own| (own.resource.to_string(), own.capacity.0));
    let cpus = site_cpus("site", site).unwrap_or(site.cpus);
    std::iter::once((site.name.clone(), cpus)).chain(others).collect()
}

fn add_exchange(topology: &mut Topology, field: &str, name: &str) -> Result<(), InvalidField> {
    let name = VertexName::parse(field, name)?;
    topology
        .add_vertex(Vertex::new(name, None, None))
        .map_err(|error| InvalidField { field: field.to_owned(), ..error })?;
    Ok(())
}

fn add_paths(
    topology: &mut Topology,
    field: &str,
    rm: &RmName,
    paths: &[v1::Path],
    default_price: Option<&PriceSchedule>,
    exchanges_appear: bool,
) -> Result<(), InvalidField> {
    for (index, path) in paths.iter().enumerate() {
        let field = format!("{field}.paths[{index}]");
        add_path(topology, &field, rm, path, default_price, exchanges_appear)?;
    }
    Ok(())
}

/// Adds one path; with `exchanges_appear` also its end points that are not there yet, as exchange points.
pub(super) fn add_path(
    topology: &mut Topology,
    field: &str,
    rm: &RmName,
    path: &v1::Path,
    default_price: Option<&PriceSchedule>,
    exchanges_appear: bool,
) -> Result<(), InvalidField> {
    let mut ends = Vec::with_capacity(2);
    for (end, name) in [("a", &path.a), ("b", &path.b)] {
        let end_field = format!("{field}.{end}");
        let vertex = VertexName::parse(&end_field, name)?;
        if topology.find_vertex(&vertex).is_none() && exchanges_appear {
            add_exchange(topology, &end_field, name)?;
        }
        let found = topology.find_vertex(&vertex);
        ends.push(found.ok_or_else(|| {
            InvalidField::new(&end_field, name, "a site, or one of exchange_points")
        })?);
    }
    let latency = match &path.latency {
        None => Span::ZERO,
        Some(latency) => span_from_wire(&format!("{field}.latency"), latency)?,
    };
    let [a, b] = ends[..] else { return Ok(()) };
    let edge = Edge {
        name: EdgeName::parse(&format!("{field}.name"), &path.name)?,
        a,
        b,
        rm: rm.clone(),
        capacity: BitsPerSecond(path.capacity_bps),
        unit_value: UnitValue(path.unit_value.unwrap_or(UNIT_VALUE_DEFAULT)),
        price: price(field, path.price.as_ref(), default_price)?,
        quality: path.quality.unwrap_or(limits::QUALITY_FULL),
        latency,
        duplex: path_resources(field, path)?,
    };
    topology.add_edge(edge).map_err(|error| error.within(field))?;
    Ok(())
}

/// The resources of a path: one with the path's name, or one for each direction when it is full duplex.
///
/// # Errors
/// When the path's name cannot be the name of a resource.
pub fn path_resources(field: &str, path: &v1::Path) -> Result<Duplex, InvalidField> {
    let field = format!("{field}.name");
    let resource = |suffix: &str| ResourceId::parse(&field, &format!("{}{suffix}", path.name));
    Ok(if path.full_duplex {
        Duplex::Full { ab: resource(":ab")?, ba: resource(":ba")? }
    } else {
        Duplex::Shared(resource("")?)
    })
}

/// Checks that all sites which a request names are sites of the federation.
///
/// # Errors
/// [`InvalidField`] for the first unknown site, with the names of the known sites.
pub fn check_references(topology: &Topology, request: &CoAllocation) -> Result<(), InvalidField> {
    let check = |field: String, name: &VertexName| {
        let vertex = topology.find_vertex(name).map(|index| topology.vertex(index));
        if vertex.is_some_and(|vertex| vertex.compute.is_some()) {
            return Ok(());
        }
        let names = topology.sites().map(|(_, vertex, _)| vertex.name.as_str());
        let allowed = format!("a site of the federation: {}", choices(name.as_str(), names));
        Err(InvalidField::new(field, InvalidField::quoted(name.as_str()), allowed))
    };
    for (index, site) in request.sites.iter().enumerate() {
        if let Some(pin) = &site.pinned {
            check(format!("sites[{index}].pinned_to"), pin)?;
        }
        for (nth, name) in site.excluded.iter().enumerate() {
            check(format!("sites[{index}].excluded[{nth}]"), name)?;
        }
    }
    Ok(())
}

/// The segments that a federation file says are booked already, checked against its resources.
///
/// # Errors
/// When a segment is malformed or names a resource that the file does not have.
pub fn taken(
    file: &v1::FederationFile,
    topology: &Topology,
) -> Result<Vec<(RmName, Segment)>, InvalidField> {
    let mut known: BTreeSet<(&RmName, &ResourceId)> = BTreeSet::new();
    let of_sites = topology.sites().flat_map(|(_, vertex, _)| vertex.resources());
    known.extend(of_sites.map(|of| (of.rm, of.resource)));
    for edge in topology.edges() {
        match &edge.duplex {
            Duplex::Shared(resource) => known.extend([(&edge.rm, resource)]),
            Duplex::Full { ab, ba } => known.extend([(&edge.rm, ab), (&edge.rm, ba)]),
        }
    }
    let mut taken = Vec::with_capacity(file.taken.len());
    for (index, wire) in file.taken.iter().enumerate() {
        let field = format!("taken[{index}]");
        let rm_field = format!("{field}.resource_manager");
        let rm = RmName::parse(&rm_field, &wire.resource_manager)?;
        let one = segments_from_wire("taken", std::slice::from_ref(wire));
        let one = one.map_err(|error| InvalidField {
            field: error.field.replacen("taken[0]", &field, 1),
            ..error
        })?;
        for segment in one {
            if !known.contains(&(&rm, &segment.resource)) {
                let own = known.iter().filter(|(owner, _)| **owner == rm);
                let guess =
                    did_you_mean(segment.resource.as_str(), own.map(|(_, name)| name.as_str()));
                let allowed = format!("a resource of {rm}{guess}");
                let field = format!("{field}.resource");
                return Err(InvalidField::new(field, &segment.resource, allowed));
            }
            taken.push((rm.clone(), segment));
        }
    }
    Ok(taken)
}
