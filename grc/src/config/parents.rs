//! The section `upward` of a GRC's configuration, checked: its parent coordinators, and how it serves them.

use std::collections::{BTreeMap, BTreeSet};

use coalloc_common::{
    CoordinatorName, DomainName, InvalidField, Role, ServiceLevels, Span, VertexName, limits,
};
use coalloc_net::client::Destination;
use coalloc_net::convert::{service_levels, span_from_wire};
use coalloc_net::identity::settings::Security;
use coalloc_proto::v1;
use coalloc_protocol::coordinator::ParentConfig;

/// How this GRC serves its parent coordinators, to which it is one resource manager.
#[derive(Debug, Clone)]
pub struct ParentSettings {
    /// The domain of this GRC, as the parents see it.
    pub domain: DomainName,
    /// The parent coordinators that may hold here, and where they are.
    pub coordinators: BTreeMap<CoordinatorName, Destination>,
    /// The exchange points at which other domains meet this GRC's federation.
    pub border_points: BTreeSet<VertexName>,
    /// Soft expiry of a parent's hold: without a decision for so long, this GRC asks the parent.
    pub soft: Span,
    /// Hard expiry of a parent's hold: a hold lasts at most this long.
    pub hard: Span,
    /// How far ahead this GRC accepts reservations of its parents.
    pub horizon: Span,
    /// The share of what is free that each user of each parent may take.
    pub levels: ServiceLevels,
}

impl ParentSettings {
    /// Reads and checks the message.
    ///
    /// # Errors
    /// [`InvalidField`] with the path of the field in the configuration file.
    pub fn parse(
        security: &Security,
        own: &CoordinatorName,
        wire: &v1::Upward,
    ) -> Result<Self, InvalidField> {
        let policy = wire.policy.unwrap_or_default();
        let span = |name: &str, wire: &Option<coalloc_proto::Duration>, or, low: Span, high| {
            let Some(wire) = wire else { return Ok(or) };
            let field = format!("upward.policy.{name}");
            let span = span_from_wire(&field, wire)?;
            if (low..=high).contains(&span) {
                return Ok(span);
            }
            Err(InvalidField::new(field, span, format!("{low} to {high}")))
        };
        let (low, high) = (limits::HOLD_SOFT_MIN, limits::HOLD_SOFT_MAX);
        let soft = span("hold_soft", &policy.hold_soft, limits::HOLD_SOFT_DEFAULT, low, high)?;
        let (low, high) = (limits::HOLD_HARD_MIN.max(soft), limits::HOLD_HARD_MAX);
        let or = limits::HOLD_HARD_DEFAULT.max(low);
        let hard = span("hold_hard", &policy.hold_hard, or, low, high)?;
        let (low, high) = (Span::from_secs(3_600), limits::HORIZON_MAX);
        let horizon = span("horizon", &policy.horizon, limits::HORIZON_DEFAULT, low, high)?;
        let coordinators = coordinators(security, own, &wire.coordinators)?;
        let levels = service_levels(
            "upward.",
            &wire.service_levels,
            &wire.coordinator_levels,
            coordinators.keys(),
        )?;
        Ok(Self {
            domain: DomainName::parse("upward.domain", &wire.domain)?,
            coordinators,
            border_points: border_points(&wire.border_points)?,
            soft,
            hard,
            horizon,
            levels,
        })
    }

    /// The part of these settings that the coordinator core needs. `boot` identifies the current boot of the machine.
    #[must_use]
    pub fn parents(&self, boot: String) -> ParentConfig {
        ParentConfig {
            coordinators: self.coordinators.keys().cloned().collect(),
            soft: self.soft,
            hard: self.hard,
            boot,
        }
    }
}

fn coordinators(
    security: &Security,
    own: &CoordinatorName,
    wire: &[v1::Peer],
) -> Result<BTreeMap<CoordinatorName, Destination>, InvalidField> {
    if wire.is_empty() {
        let allowed = "at least one coordinator; leave `upward` out when there is none";
        return Err(InvalidField::missing("upward.coordinators", allowed));
    }
    let mut peers = BTreeMap::new();
    for (index, peer) in wire.iter().enumerate() {
        let field = |name: &str| format!("upward.coordinators[{index}].{name}");
        let name = CoordinatorName::parse(&field("name"), &peer.name)?;
        let at = format!("upward.coordinators[{index}]");
        let destination = security.destination(&at, peer, Role::Coordinator)?;
        destination.check_only_one(&at, peers.values())?;
        if name == *own {
            let allowed = "another name than this coordinator's own; that would be a cycle";
            return Err(InvalidField::new(field("name"), &peer.name, allowed));
        }
        if peers.insert(name, destination).is_some() {
            return Err(InvalidField::new(field("name"), &peer.name, "each coordinator once"));
        }
    }
    Ok(peers)
}

fn border_points(wire: &[String]) -> Result<BTreeSet<VertexName>, InvalidField> {
    let allowed = format!("1 to {} exchange points", limits::UPWARD_POINTS_MAX);
    if wire.is_empty() || wire.len() > limits::UPWARD_POINTS_MAX {
        return Err(InvalidField::new("upward.border_points", wire.len(), allowed));
    }
    let mut points = BTreeSet::new();
    for (index, name) in wire.iter().enumerate() {
        let field = format!("upward.border_points[{index}]");
        if !points.insert(VertexName::parse(&field, name)?) {
            return Err(InvalidField::new(field, name, "each border point once"));
        }
    }
    Ok(points)
}
