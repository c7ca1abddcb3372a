//! Plans and segments, from and to the wire.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use coalloc_common::invalid::check_range;
use coalloc_common::topology::Direction;
use coalloc_common::{
    Amount, CoAllocation, EdgeName, InvalidField, PartWindow, ResourceId, ResourceKind, RmName,
    Segment, Span, Topology, VertexName, limits,
};
use coalloc_plan::{Plan, RankedPlan, Route};
use coalloc_proto::v1;
use sha2::{Digest as _, Sha256};

use super::request::others_of;
use super::{objective_to_wire, span_to_wire, window_from_wire, window_to_wire};

/// SHA-256 over the segments, in hexadecimal. Two plans that reserve the same segments have the same digest.
#[must_use]
pub fn plan_digest(segments: &BTreeMap<RmName, Vec<Segment>>) -> String {
    let mut hash = Sha256::new();
    for (rm, segments) in segments {
        for segment in segments {
            let (start, end) = (segment.window.start().as_us(), segment.window.end().as_us());
            // No name contains a space or a newline, so this text can be read in only one way.
            let line = format!("{rm} {} {} {start} {end}\n", segment.resource, segment.amount);
            hash.update(line.as_bytes());
        }
    }
    let mut text = String::with_capacity(64);
    for byte in hash.finalize() {
        // Writing to a String cannot fail.
        let _ = write!(text, "{byte:02x}");
    }
    text
}

/// The wire form of a plan, with names in place of indices.
#[must_use]
pub fn plan_to_wire(topology: &Topology, request: &CoAllocation, judged: &RankedPlan) -> v1::Plan {
    let plan = &judged.plan;
    let segments = plan.segments(topology, request);
    let duration = request.timing.duration;
    let own = |window: PartWindow| window_to_wire(PartWindow::within(Some(window), plan.window));
    let placements = request.sites.iter().zip(&plan.placements).map(|(site, at)| v1::Placement {
        site: site.name.to_string(),
        at: topology.vertex(*at).name.to_string(),
        cpus: site.cpus.0,
        others: others_of(site, duration),
        window: site.window(ResourceKind::Cpus).map(own),
    });
    let routes = request.links.iter().zip(&plan.routes).map(|(link, route)| {
        let mut via = vec![topology.vertex(plan.placements[link.from]).name.to_string()];
        let mut latency = Span::ZERO;
        for (edge, direction) in route {
            let edge = topology.edge(*edge);
            via.push(topology.vertex(edge.head(*direction)).name.to_string());
            latency = latency.saturating_add(edge.latency);
        }
        v1::Route {
            from: request.sites[link.from].name.to_string(),
            to: request.sites[link.to].name.to_string(),
            bandwidth_bps: link.bandwidth.0,
            paths: route.iter().map(|(edge, _)| topology.edge(*edge).name.to_string()).collect(),
            via,
            latency: Some(span_to_wire(latency)),
            window: link.window.map(own),
        }
    });
    let values = judged.values.iter().map(|(objective, value)| v1::ObjectiveValue {
        objective: objective_to_wire(*objective).into(),
        value: *value,
    });
    v1::Plan {
        digest: plan_digest(&segments),
        window: Some(window_to_wire(plan.window)),
        placements: placements.collect(),
        routes: routes.collect(),
        segments: segments
            .iter()
            .flat_map(|(rm, segments)| segments_to_wire(Some(rm), segments))
            .collect(),
        cost_millipoints: judged.preference.milli,
        lower_bound_millipoints: judged.lower_bound.milli,
        proven_optimal: judged.proven_optimal,
        values: values.collect(),
        solver: judged.solver.to_owned(),
        coarse: judged.coarse.iter().map(|one| objective_to_wire(*one).into()).collect(),
    }
}

/// Reads a plan that this node sent out earlier, with indices of the present topology in place of names.
/// `None` when a name is no longer known. It does not check whether the plan can be made (see
/// `ip::feasible`), and does not set the cost.
#[must_use]
pub fn plan_from_wire(topology: &Topology, wire: &v1::Plan) -> Option<Plan> {
    let vertex = |name: &str| topology.find_vertex(&VertexName::parse("at", name).ok()?);
    let placements = wire.placements.iter().map(|placement| vertex(&placement.at));
    let route = |wire: &v1::Route| {
        let heads = wire.via.iter().skip(1);
        let steps = wire.paths.iter().zip(heads).map(|(path, head)| {
            let index = topology.find_edge(&EdgeName::parse("paths", path).ok()?)?;
            let (edge, head) = (topology.edge(index), vertex(head)?);
            let ways = [Direction::AToB, Direction::BToA];
            Some((index, ways.into_iter().find(|way| edge.head(*way) == head)?))
        });
        steps.collect::<Option<Route>>()
    };
    Some(Plan {
        window: window_from_wire("window", wire.window.as_ref()).ok()?,
        placements: placements.collect::<Option<_>>()?,
        routes: wire.routes.iter().map(route).collect::<Option<_>>()?,
        cost: 0,
        lower_bound: 0,
        solver: "",
    })
}

/// The wire form of segments, with the name of their resource manager when `rm` is given.
#[must_use]
pub fn segments_to_wire(rm: Option<&RmName>, segments: &[Segment]) -> Vec<v1::Segment> {
    let resource_manager = rm.map(ToString::to_string).unwrap_or_default();
    segments
        .iter()
        .map(|segment| v1::Segment {
            resource: segment.resource.to_string(),
            amount: segment.amount.0,
            window: Some(window_to_wire(segment.window)),
            resource_manager: resource_manager.clone(),
        })
        .collect()
}

/// Reads segments. Segments of one resource may overlap; their amounts then add up.
///
/// # Errors
/// When there are none or too many, or when a name, amount or window is out of its range.
pub fn segments_from_wire(field: &str, wire: &[v1::Segment]) -> Result<Vec<Segment>, InvalidField> {
    if wire.is_empty() || wire.len() > limits::HOLD_SEGMENTS_MAX {
        let allowed = format!("1 to {} segments", limits::HOLD_SEGMENTS_MAX);
        return Err(InvalidField::new(field, wire.len(), allowed));
    }
    let mut segments: Vec<Segment> = Vec::with_capacity(wire.len());
    for (index, segment) in wire.iter().enumerate() {
        let field = format!("{field}[{index}]");
        let amount_field = format!("{field}.amount");
        check_range(&amount_field, segment.amount, 1..=limits::BANDWIDTH_MAX_BPS, "")?;
        segments.push(Segment {
            resource: ResourceId::parse(&format!("{field}.resource"), &segment.resource)?,
            amount: Amount(segment.amount),
            window: window_from_wire(&format!("{field}.window"), segment.window.as_ref())?,
        });
    }
    Ok(segments)
}
