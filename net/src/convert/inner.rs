//! Inner networks of domains, from files: checked, numbered, and ready for routing.
//!
//! Left out: routing itself (`coalloc_plan::inner`). Source: docs/adr/0010-inner-networks.md.

use std::collections::{BTreeMap, BTreeSet};

use coalloc_common::invalid::check_range;
use coalloc_common::topology::Duplex;
use coalloc_common::{Amount, BitsPerSecond, InvalidField, ResourceId, Span, VertexName, limits};
use coalloc_plan::inner::{Link, Path, Router};
use coalloc_proto::v1;

use super::{path_resources, span_from_wire};

/// Prefix of the names of inner links inside the RM, so that none is the name of a disclosed resource.
const PREFIX: &str = "inner/";

/// An inner network and the paths that are routed over it.
#[derive(Debug, Clone)]
pub struct InnerPlan {
    /// The links by the router's index: names and capacities.
    pub links: Vec<(ResourceId, Amount)>,
    /// The router's index of every disclosed resource.
    pub paths: BTreeMap<ResourceId, usize>,
    /// The router of these paths.
    pub router: Router,
    /// Whether bookings that have not begun may be rerouted.
    pub may_move: bool,
}

/// Reads an inner network. `field` is the inventory that has it.
///
/// # Errors
/// [`InvalidField`] when the network or one of its links is wrong, or when it can never carry a path as the
/// path is disclosed. The error then has the path's capacity or latency, and that of the inner network.
pub fn inner_network(
    field: &str,
    paths: &[v1::Path],
    wire: &v1::InnerNetwork,
) -> Result<InnerPlan, InvalidField> {
    let inner = format!("{field}.inner");
    let count = wire.links.len();
    check_range(&format!("{inner}.links"), count, 1..=limits::INNER_LINKS_MAX, "links")?;
    let links_max = wire.max_links_per_path.unwrap_or(limits::INNER_ROUTE_LINKS_DEFAULT);
    let links_max = check_range(
        &format!("{inner}.max_links_per_path"),
        links_max,
        1..=limits::INNER_ROUTE_LINKS_MAX,
        "links",
    )?;
    let mut vertices: BTreeMap<&str, u32> = BTreeMap::new();
    let (mut links, mut names, mut seen) = (Vec::new(), Vec::new(), BTreeSet::new());
    for (index, link) in wire.links.iter().enumerate() {
        let field = format!("{inner}.links[{index}]");
        let name = link_name(&field, &link.name)?;
        if !seen.insert(link.name.as_str()) {
            let allowed = "a name that no other inner link has";
            return Err(InvalidField::new(format!("{field}.name"), &link.name, allowed));
        }
        links.push(inner_link(&field, link, &mut vertices)?);
        names.push((name, Amount(link.capacity_bps)));
    }
    let mut routed = Vec::with_capacity(paths.len());
    let mut resources = BTreeMap::new();
    for (index, path) in paths.iter().enumerate() {
        let field = format!("{field}.paths[{index}]");
        if path.name.starts_with(PREFIX) {
            let allowed = format!("a name that does not begin with {PREFIX}");
            return Err(InvalidField::new(format!("{field}.name"), &path.name, allowed));
        }
        routed.push(path_ends(&field, path, &vertices)?);
        match path_resources(&field, path)? {
            Duplex::Shared(resource) => resources.extend([(resource, index)]),
            Duplex::Full { ab, ba } => resources.extend([(ab, index), (ba, index)]),
        }
    }
    let links_max = links_max as usize;
    check_paths(field, paths, &routed, |routed| {
        Router::new(vertices.len(), links.clone(), routed, links_max)
    })?;
    let router = Router::new(vertices.len(), links, routed, links_max);
    Ok(InnerPlan { links: names, paths: resources, router, may_move: wire.may_move })
}

fn link_name(field: &str, name: &str) -> Result<ResourceId, InvalidField> {
    let field = format!("{field}.name");
    ResourceId::parse(&field, name)?;
    let max = limits::NAME_LEN_MAX - PREFIX.len();
    if name.len() > max {
        return Err(InvalidField::new(field, name, format!("at most {max} characters")));
    }
    Ok(ResourceId::composed(format!("{PREFIX}{name}")))
}

fn inner_link<'a>(
    field: &str,
    link: &'a v1::InnerLink,
    vertices: &mut BTreeMap<&'a str, u32>,
) -> Result<Link, InvalidField> {
    for (end, name) in [("a", &link.a), ("b", &link.b)] {
        VertexName::parse(&format!("{field}.{end}"), name)?;
    }
    if link.a == link.b {
        let allowed = "an end other than `a`";
        return Err(InvalidField::new(format!("{field}.b"), &link.b, allowed));
    }
    let capacity_field = format!("{field}.capacity_bps");
    let capacity =
        check_range(&capacity_field, link.capacity_bps, 1..=limits::BANDWIDTH_MAX_BPS, "bit/s")?;
    let mut end = |name: &'a str| {
        // There are at most two new vertices for each link.
        let next = vertices.len() as u32;
        *vertices.entry(name).or_insert(next)
    };
    let (a, b) = (end(&link.a), end(&link.b));
    let latency = latency(field, link.latency.as_ref())?;
    Ok(Link { a, b, capacity, latency })
}

/// A latency in microseconds; 0 when it is unset.
fn latency(field: &str, wire: Option<&coalloc_proto::Duration>) -> Result<u64, InvalidField> {
    let field = format!("{field}.latency");
    let span = wire.map_or(Ok(Span::ZERO), |latency| span_from_wire(&field, latency))?;
    if span > limits::LATENCY_MAX {
        return Err(InvalidField::new(field, span, format!("0 to {}", limits::LATENCY_MAX)));
    }
    Ok(span.as_us().unsigned_abs())
}

fn path_ends(
    field: &str,
    path: &v1::Path,
    vertices: &BTreeMap<&str, u32>,
) -> Result<Path, InvalidField> {
    let end = |end: &str, name: &String| {
        let allowed = "an end of one of inner.links";
        let found = vertices.get(name.as_str()).copied();
        found.ok_or_else(|| InvalidField::new(format!("{field}.{end}"), name, allowed))
    };
    let (a, b) = (end("a", &path.a)?, end("b", &path.b)?);
    Ok(Path { a, b, latency_max: latency(field, path.latency.as_ref())? })
}

/// Checks that the inner network could carry every path as it is disclosed, if nothing else were booked.
fn check_paths(
    field: &str,
    paths: &[v1::Path],
    routed: &[Path],
    router: impl Fn(Vec<Path>) -> Router,
) -> Result<(), InvalidField> {
    let patient = routed.iter().map(|path| Path { latency_max: u64::MAX, ..*path }).collect();
    let router = router(patient);
    let empty: Vec<i64> = router
        .links()
        .iter()
        .map(|link| i64::try_from(link.capacity).unwrap_or(i64::MAX))
        .collect();
    for (index, (path, ends)) in paths.iter().zip(routed).enumerate() {
        let field = format!("{field}.paths[{index}]");
        let carries = router.widest(index, &empty, path.capacity_bps);
        if carries < path.capacity_bps {
            let field = format!("{field}.capacity_bps");
            let allowed = format!(
                "at most {carries} ({}), which is what one inner route can carry",
                BitsPerSecond(carries)
            );
            return Err(InvalidField::new(field, path.capacity_bps, allowed));
        }
        let least = router.least_latency(index, path.capacity_bps).unwrap_or(0);
        if ends.latency_max < least {
            let span = |us: u64| Span::from_us(i64::try_from(us).unwrap_or(i64::MAX));
            let allowed = format!(
                "at least {}, the latency of the fastest inner route that carries the path; slower \
                 inner routes are used up to the latency set here",
                span(least)
            );
            let field = format!("{field}.latency");
            return Err(InvalidField::new(field, span(ends.latency_max), allowed));
        }
    }
    Ok(())
}
