//! A federation file as far as the tasks world needs it: who has which paths and computers.
//!
//! The spelling is that of `coalloc.v1.FederationFile`, which the daemons read (`net/src/convert`, which this
//! pure crate cannot use). What the simulator has no use for (prices, service levels, inner networks) is
//! read over, and so is a field that is spelled wrong.

use coalloc_common::topology::{Compute, Duplex, Edge, Vertex};
use coalloc_common::{
    BitsPerSecond, Cpus, DomainName, EdgeName, InvalidField, ResourceId, RmName, Span, Topology,
    UnitValue, VertexName, limits,
};
use serde::{Deserialize, Serialize};

/// A federation file.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Federation {
    /// Its name.
    #[serde(default)]
    pub name: String,
    /// Where its numbers are from.
    #[serde(default)]
    pub source: String,
    /// Who has computers.
    #[serde(default)]
    computes: Vec<ComputeInventory>,
    /// Points without computers.
    #[serde(default)]
    exchange_points: Vec<String>,
    /// Who has paths.
    #[serde(default)]
    networks: Vec<NetworkInventory>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct ComputeInventory {
    name: String,
    domain: String,
    sites: Vec<SiteEntry>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct SiteEntry {
    name: String,
    cpus: u64,
    #[serde(default = "mips_default")]
    mips: u64,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct NetworkInventory {
    name: String,
    domain: String,
    paths: Vec<PathEntry>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct PathEntry {
    name: String,
    a: String,
    b: String,
    capacity_bps: u64,
    #[serde(default)]
    latency: Option<String>,
    #[serde(default)]
    full_duplex: bool,
}

const fn mips_default() -> u64 {
    limits::MIPS_DEFAULT
}

impl Federation {
    /// The graph.
    ///
    /// # Errors
    /// [`InvalidField`] with the field as it stands in the file.
    pub fn topology(&self) -> Result<Topology, InvalidField> {
        let mut topology = Topology::new();
        for (index, inventory) in self.computes.iter().enumerate() {
            let field = format!("computes[{index}]");
            let rm = RmName::parse(&format!("{field}.name"), &inventory.name)?;
            let domain = DomainName::parse(&format!("{field}.domain"), &inventory.domain)?;
            for (index, site) in inventory.sites.iter().enumerate() {
                let field = format!("{field}.sites[{index}]");
                let name = VertexName::parse(&format!("{field}.name"), &site.name)?;
                let compute = compute(rm.clone(), &site.name, site.cpus, site.mips);
                let vertex = Vertex { name, domain: Some(domain.clone()), compute: Some(compute) };
                topology.add_vertex(vertex).map_err(|error| error.within(&field))?;
            }
        }
        for (index, name) in self.exchange_points.iter().enumerate() {
            let name = VertexName::parse(&format!("exchange_points[{index}]"), name)?;
            topology.add_vertex(Vertex { name, domain: None, compute: None })?;
        }
        for (index, inventory) in self.networks.iter().enumerate() {
            let field = format!("networks[{index}]");
            let rm = RmName::parse(&format!("{field}.name"), &inventory.name)?;
            DomainName::parse(&format!("{field}.domain"), &inventory.domain)?;
            for (index, path) in inventory.paths.iter().enumerate() {
                let field = format!("{field}.paths[{index}]");
                let edge = path.edge(&field, &rm, &topology)?;
                topology.add_edge(edge).map_err(|error| error.within(&field))?;
            }
        }
        Ok(topology)
    }
}

impl PathEntry {
    fn edge(&self, field: &str, rm: &RmName, topology: &Topology) -> Result<Edge, InvalidField> {
        let name = EdgeName::parse(&format!("{field}.name"), &self.name)?;
        let end = |end: &str, text: &str| {
            let field = format!("{field}.{end}");
            let found = topology.find_vertex(&VertexName::parse(&field, text)?);
            let allowed = "a site, or one of exchange_points";
            found.ok_or_else(|| InvalidField::new(&field, InvalidField::quoted(text), allowed))
        };
        let (a, b) = (end("a", &self.a)?, end("b", &self.b)?);
        let latency = match &self.latency {
            None => Span::ZERO,
            Some(text) => seconds(text).ok_or_else(|| {
                let allowed = "seconds with at most six decimals and an s: 0.004s";
                InvalidField::new(format!("{field}.latency"), InvalidField::quoted(text), allowed)
            })?,
        };
        Ok(edge(name, (a, b), rm.clone(), (self.capacity_bps, latency), self.full_duplex))
    }
}

/// An edge with the resources that NRMs call it by.
pub(super) fn edge(
    name: EdgeName,
    (a, b): (coalloc_common::VertexIndex, coalloc_common::VertexIndex),
    rm: RmName,
    (capacity_bps, latency): (u64, Span),
    full_duplex: bool,
) -> Edge {
    let duplex = match full_duplex {
        false => Duplex::Shared(ResourceId::composed(name.as_str())),
        true => Duplex::Full {
            ab: ResourceId::composed(format!("{name}:ab")),
            ba: ResourceId::composed(format!("{name}:ba")),
        },
    };
    let (unit_value, price, quality) = (UnitValue(1), None, limits::QUALITY_FULL);
    let capacity = BitsPerSecond(capacity_bps);
    Edge { name, a, b, rm, capacity, unit_value, price, quality, latency, duplex }
}

/// Computers as a CRM calls them.
pub(super) fn compute(rm: RmName, site: &str, cpus: u64, mips: u64) -> Compute {
    Compute {
        rm,
        resource: ResourceId::composed(site),
        capacity: Cpus(cpus),
        unit_value: UnitValue(1),
        price: None,
        quality: limits::QUALITY_FULL,
        mips,
    }
}

/// A duration of the JSON mapping.
fn seconds(text: &str) -> Option<Span> {
    let number = text.strip_suffix('s')?;
    let (whole, part) = number.split_once('.').unwrap_or((number, ""));
    let digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    if whole.is_empty() || part.len() > 6 || !digits(whole) || !digits(part) {
        return None;
    }
    let us = format!("{part:0<6}").parse::<i64>().ok()?;
    Some(Span::from_secs(whole.parse().ok()?).saturating_add(Span::from_us(us)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_read_to_the_microsecond() {
        for (text, us) in [("0.004s", 4_000), ("1s", 1_000_000), ("2.000050s", 2_000_050)] {
            assert_eq!(seconds(text), Some(Span::from_us(us)));
        }
        for text in ["", "s", "1", "-1s", "0.0000001s", "1.5ms", ".5s"] {
            assert_eq!(seconds(text), None, "{text}");
        }
    }
}
