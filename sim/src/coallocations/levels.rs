//! Child coordinators: which resource managers each of them has, and what parent coordinators see of them.
//!
//! Takefusa 2010, section 2.1, names hierarchical GRCs (a GRC reserves on subordinate GRCs as on RMs) and
//! measures one GRC only. A child coordinator offers its sites and a path between every two of its end
//! points, as it does live (`coalloc_plan::abstracted`). Live, an operator configures which points are border
//! points. Here they follow from the federation: every point at which an RM of another coordinator has
//! resources, too.
//!
//! Left out: more than two levels, and resource managers directly under a parent coordinator that also has
//! children.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use coalloc_common::{DomainName, InvalidField, RmName, Topology, VertexIndex, VertexName};
use coalloc_plan::abstracted::{AbstractTopology, seen_by_parent};

use super::federation::not_reached;
use super::settings::{Lower, RequestTarget, Settings, Word};

/// A child coordinator.
#[derive(Debug)]
pub(super) struct Group {
    pub(super) name: String,
    pub(super) rms: BTreeSet<RmName>,
    /// The topology that it plans on.
    pub(super) topology: Arc<Topology>,
    pub(super) shown: AbstractTopology,
}

/// All child coordinators, and what their parents see.
#[derive(Debug)]
pub(super) struct Levels {
    pub(super) groups: Vec<Group>,
    /// The topology that parent coordinators plan on.
    pub(super) parent_topology: Arc<Topology>,
}

/// Divides the resource managers among child coordinators; `None` where there are no child coordinators.
///
/// # Errors
/// When a resource manager is in no group or in two, when a name is unknown or taken, when a group has more
/// end points than an abstract topology may have, or when the abstract topologies do not connect all sites.
pub(super) fn levels(
    topology: &Topology,
    settings: &Settings,
) -> Result<Option<Levels>, InvalidField> {
    let domains = domains_of_rms(topology);
    let named = match &settings.lower {
        Lower::Word(Word::None) => return no_levels(settings),
        Lower::Groups(groups) if groups.is_empty() => return no_levels(settings),
        Lower::Word(Word::Domains) => by_domain(&domains, settings)?,
        Lower::Groups(groups) => by_name(groups, &domains, settings)?,
    };
    let edges_max = settings.ip_options().route_edges_max as usize;
    let mut groups = Vec::with_capacity(named.len());
    for (name, rms) in named {
        let (own, borders) = part(topology, &rms)?;
        let own = Arc::new(own);
        let shown = AbstractTopology::of(Arc::clone(&own), &name, &borders, edges_max).map_err(
            |error| InvalidField::new(format!("lower.{name}"), error.value, error.allowed),
        )?;
        groups.push(Group { name, rms, topology: own, shown });
    }
    let below = groups.iter().map(|group| (DomainName::composed(&*group.name), &group.shown));
    let below: Vec<(DomainName, &AbstractTopology)> = below.collect();
    let above = seen_by_parent(&below).map_err(|error| {
        let value = format!("the topology that parents see has {} {}", error.field, error.value);
        InvalidField::new("lower", value, error.allowed)
    })?;
    if let Some(far) = not_reached(&above) {
        let value = format!("no path that parents see leads to {far}");
        let allowed = format!("groups whose paths of at most {edges_max} edges join all sites");
        return Err(InvalidField::new("lower", value, allowed));
    }
    Ok(Some(Levels { groups, parent_topology: Arc::new(above) }))
}

fn no_levels(settings: &Settings) -> Result<Option<Levels>, InvalidField> {
    if settings.asked == RequestTarget::Parent {
        return Ok(None);
    }
    let allowed = "only `upper` if there are no child coordinators (`lower`)";
    Err(InvalidField::new("asked", "lower-first", allowed))
}

/// The domains of each resource manager: those of its sites, or of the sites where its paths end.
fn domains_of_rms(topology: &Topology) -> BTreeMap<&RmName, BTreeSet<&DomainName>> {
    let mut domains: BTreeMap<&RmName, BTreeSet<&DomainName>> = BTreeMap::new();
    for (_, vertex, compute) in topology.sites() {
        domains.entry(&compute.rm).or_default().extend(&vertex.domain);
    }
    for edge in topology.edges() {
        let own = domains.entry(&edge.rm).or_default();
        for end in [edge.a, edge.b] {
            own.extend(&topology.vertex(end).domain);
        }
    }
    domains
}

type Named = Vec<(String, BTreeSet<RmName>)>;

/// Checks that the name of a child coordinator is valid and not taken.
fn check_name(
    field: &str,
    name: &str,
    domains: &BTreeMap<&RmName, BTreeSet<&DomainName>>,
    settings: &Settings,
) -> Result<(), InvalidField> {
    RmName::parse(field, name)?;
    let is_upper = (1..=settings.coordinators).any(|number| parent_name(number) == name);
    if is_upper || domains.keys().any(|rm| rm.as_str() == name) {
        let allowed = "a name that no parent coordinator (grc-1, ..) and no resource manager has";
        return Err(InvalidField::new(field, name, allowed));
    }
    Ok(())
}

fn by_domain(
    domains: &BTreeMap<&RmName, BTreeSet<&DomainName>>,
    settings: &Settings,
) -> Result<Named, InvalidField> {
    let mut named: BTreeMap<String, BTreeSet<RmName>> = BTreeMap::new();
    for (rm, own) in domains {
        let mut own = own.iter();
        let (Some(domain), None) = (own.next(), own.next()) else {
            let value = format!("domains, but {rm} is not of one domain");
            let allowed = "child coordinators by name, each with its domains and resource managers";
            return Err(InvalidField::new("lower", value, allowed));
        };
        let name = format!("grc-{domain}");
        check_name("lower", &name, domains, settings)?;
        named.entry(name).or_default().insert((*rm).clone());
    }
    Ok(named.into_iter().collect())
}

fn by_name(
    groups: &BTreeMap<String, Vec<String>>,
    domains: &BTreeMap<&RmName, BTreeSet<&DomainName>>,
    settings: &Settings,
) -> Result<Named, InvalidField> {
    let mut taken: BTreeMap<&RmName, &String> = BTreeMap::new();
    let mut named = Named::new();
    for (name, words) in groups {
        let field = format!("lower.{name}");
        check_name(&field, name, domains, settings)?;
        let mut rms = BTreeSet::new();
        for (at, word) in words.iter().enumerate() {
            let field = format!("{field}[{at}]");
            for rm in meant(&field, word, domains)? {
                if let Some(other) = taken.insert(rm, name) {
                    let value = format!("{word}, but {rm} is in {other} already");
                    let allowed = "each resource manager in one group";
                    return Err(InvalidField::new(field, value, allowed));
                }
                rms.insert(rm.clone());
            }
        }
        if rms.is_empty() {
            let allowed = "at least one domain or resource manager";
            return Err(InvalidField::new(field, "an empty list", allowed));
        }
        named.push((name.clone(), rms));
    }
    if let Some(rm) = domains.keys().find(|rm| !taken.contains_key(**rm)) {
        let value = format!("no group has {rm}");
        return Err(InvalidField::new("lower", value, "each resource manager in one group"));
    }
    Ok(named)
}

/// The resource managers that a word stands for: all of a domain, or the one of that name.
fn meant<'a>(
    field: &str,
    word: &str,
    domains: &BTreeMap<&'a RmName, BTreeSet<&DomainName>>,
) -> Result<Vec<&'a RmName>, InvalidField> {
    let is_of = |own: &BTreeSet<&DomainName>| {
        own.len() == 1 && own.iter().any(|domain| domain.as_str() == word)
    };
    let of_domain = domains.iter().filter(|(_, own)| is_of(own)).map(|(rm, _)| *rm);
    let mut found: Vec<&RmName> = of_domain.collect();
    if found.is_empty() {
        found.extend(domains.keys().copied().filter(|rm| rm.as_str() == word));
    }
    if found.is_empty() {
        let all: BTreeSet<&str> =
            domains.values().flatten().map(|domain| domain.as_str()).collect();
        let all: Vec<&str> = all.into_iter().take(20).collect();
        let rms: Vec<&str> = domains.keys().map(|rm| rm.as_str()).take(20).collect();
        let allowed = format!("a domain ({}) or an RM ({})", all.join(", "), rms.join(", "));
        return Err(InvalidField::new(field, InvalidField::quoted(word), allowed));
    }
    Ok(found)
}

/// The part of a federation that belongs to some resource managers, and those of its points at which other
/// resource managers have resources, too.
fn part(
    topology: &Topology,
    rms: &BTreeSet<RmName>,
) -> Result<(Topology, BTreeSet<VertexName>), InvalidField> {
    let all = topology.vertices().len();
    let (mut own, mut others) = (vec![false; all], vec![false; all]);
    let mut touch = |rm: &RmName, at: VertexIndex| {
        let side = if rms.contains(rm) { &mut own } else { &mut others };
        side[at.at()] = true;
    };
    for (at, _, compute) in topology.sites() {
        touch(&compute.rm, at);
    }
    for edge in topology.edges() {
        touch(&edge.rm, edge.a);
        touch(&edge.rm, edge.b);
    }
    let (mut part, mut borders) = (Topology::new(), BTreeSet::new());
    for (vertex, at) in topology.vertices().iter().zip(0..) {
        if !own[at] {
            continue;
        }
        let mut vertex = vertex.clone();
        if vertex.compute.as_ref().is_some_and(|compute| !rms.contains(&compute.rm)) {
            // In this part the site is only a point where paths end.
            (vertex.compute, vertex.domain) = (None, None);
        }
        if others[at] {
            borders.insert(vertex.name.clone());
        }
        part.add_vertex(vertex)?;
    }
    for edge in topology.edges().iter().filter(|edge| rms.contains(&edge.rm)) {
        let end = |at| part.find_vertex(&topology.vertex(at).name);
        if let (Some(a), Some(b)) = (end(edge.a), end(edge.b)) {
            part.add_edge(coalloc_common::topology::Edge { a, b, ..edge.clone() })?;
        }
    }
    Ok((part, borders))
}

/// The name of a parent coordinator, or of the only coordinator; numbers begin at 1.
pub(super) fn parent_name(number: u32) -> String {
    format!("grc-{number}")
}
