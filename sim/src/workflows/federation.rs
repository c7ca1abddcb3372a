//! The federation of a run: machines in a full mesh of equal links.
//!
//! Source: Decker 2007, section V-A: "seven cluster and parallel computers", speeds "uniformly between 500 and
//! 1100", "all resources were fully connected with equal network links". Each machine has a CRM; one NRM has
//! all links. Left out: latency, prices and exchange points.

use coalloc_common::topology::{Compute, Duplex, Edge, Vertex};
use coalloc_common::{
    BitsPerSecond, Cpus, DomainName, EdgeName, InvalidField, ResourceId, RmName, Span, Topology,
    UnitValue, VertexIndex, VertexName, limits,
};

use super::generator::draw;
use super::settings::{MachineSettings, SpeedChoice};
use crate::chance::RandomStream;

/// The machines `m0`, `m1`, .. and the links between each two of them.
pub(super) fn topology(settings: &MachineSettings, seed: u64) -> Result<Topology, InvalidField> {
    let mut topology = Topology::new();
    for (index, mips) in (0..settings.machines).zip(speeds(settings, seed)) {
        let name = format!("m{index}");
        let compute = Compute {
            rm: RmName::composed(format!("crm-{name}")),
            resource: ResourceId::composed(name.as_str()),
            capacity: Cpus(settings.cpus),
            unit_value: UnitValue(1),
            price: None,
            quality: limits::QUALITY_FULL,
            mips,
        };
        let domain = DomainName::composed(name.as_str());
        let vertex = Vertex::new(VertexName::composed(name), Some(domain), Some(compute));
        topology.add_vertex(vertex)?;
    }
    for a in 0..settings.machines {
        for b in a + 1..settings.machines {
            let name = format!("m{a}-m{b}");
            topology.add_edge(Edge {
                a: VertexIndex(a),
                b: VertexIndex(b),
                rm: RmName::composed("nrm"),
                capacity: BitsPerSecond(settings.link_bps),
                unit_value: UnitValue(1),
                price: None,
                quality: limits::QUALITY_FULL,
                latency: Span::ZERO,
                duplex: Duplex::Full {
                    ab: ResourceId::composed(format!("{name}:ab")),
                    ba: ResourceId::composed(format!("{name}:ba")),
                },
                name: EdgeName::composed(name),
            })?;
        }
    }
    Ok(topology)
}

/// The speed of each machine.
fn speeds(settings: &MachineSettings, seed: u64) -> Vec<u64> {
    let range = settings.speeds;
    let mut random = RandomStream::new(seed, "workflow-speeds");
    let steps = u64::from(settings.machines.saturating_sub(1)).max(1);
    let even = |index: u32| range.least + (range.most - range.least) * u64::from(index) / steps;
    let machines = 0..settings.machines;
    match settings.speed_choice {
        SpeedChoice::Even => machines.map(even).collect(),
        SpeedChoice::Drawn => machines.map(|_| draw(&mut random, range)).collect(),
    }
}
