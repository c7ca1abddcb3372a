//! The settings of an RM, checked: its inventory, its coordinators, how long holds last, who may watch and
//! take what.
//!
//! Left out: reading files (the crates `nrm` and `crm`).

mod quotas;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use coalloc_common::invalid::check_range;
use coalloc_common::suggest::did_you_mean;
use coalloc_common::topology::Duplex;
use coalloc_common::{
    Amount, CoordinatorName, DomainName, InvalidField, ResourceId, ResourceKind, ResourceKinds,
    RmName, Role, ServiceLevels, Span, Topology, limits,
};
use coalloc_net::client::Destination;
use coalloc_net::convert::{
    declared_servers, path_resources, price_from_wire, service_levels, span_from_wire,
    topology_of_descriptions, update_policy_from_wire,
};
use coalloc_net::daemon::DaemonSettings;
use coalloc_net::identity::settings::Security;
use coalloc_net::needs::own_version;
use coalloc_proto::v1;
use coalloc_protocol::participant::{HoldPolicy, HoldQuotas, InnerRouter, SiteServers};
use coalloc_protocol::update::UpdatePolicy;

use self::quotas::{QuotaReader, default_quotas};
use crate::driver::DriverMaker;

/// The kind of an RM; it is also the kind that its ledger has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A network resource manager.
    Nrm,
    /// A compute resource manager.
    Crm,
}

impl Kind {
    /// The word for it in ledgers and logs.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Nrm => "nrm",
            Self::Crm => "crm",
        }
    }

    /// The kind of the resources that bear the name of a site or a path.
    #[must_use]
    pub const fn usual(self) -> ResourceKind {
        match self {
            Self::Nrm => ResourceKind::Bandwidth,
            Self::Crm => ResourceKind::Cpus,
        }
    }
}

/// What an RM owns: the sites of a CRM, or the paths of an NRM.
#[derive(Debug, Clone, Default)]
pub struct Inventory {
    /// Its name in the federation.
    pub name: String,
    /// The name of its domain.
    pub domain: String,
    /// Its sites; empty for an NRM.
    pub sites: Vec<v1::Site>,
    /// Its paths; empty for a CRM.
    pub paths: Vec<v1::Path>,
    /// Price of the sites and paths that have no price of their own.
    pub price: Option<v1::PriceSchedule>,
}

/// Who may watch profiles, and the fastest policy by which updates are sent. By default nobody may watch.
#[derive(Debug, Clone)]
pub struct Profiles {
    /// Coordinators that may watch; each is one of the RM's coordinators.
    pub coordinators: BTreeSet<CoordinatorName>,
    /// The fastest policy; a subscriber may choose a slower one.
    pub updates: UpdatePolicy,
    /// Number of changes that are remembered for subscribers that are behind. No file sets it; tests do.
    pub changes_kept: usize,
}

impl Default for Profiles {
    fn default() -> Self {
        let (coordinators, updates) = (BTreeSet::new(), UpdatePolicy::default());
        Self { coordinators, updates, changes_kept: limits::CHANGES_KEPT }
    }
}

/// An RM's configuration.
#[derive(Debug, Clone)]
pub struct RmConfig {
    /// Whether it is an NRM or a CRM.
    pub kind: Kind,
    /// Where it listens, and its ledger.
    pub daemon: DaemonSettings,
    /// Its name in the federation.
    pub name: RmName,
    /// Its answer to Describe, without the ledger's id.
    pub description: v1::DescribeResponse,
    /// The resources that can be booked, with their capacities, in the order in which they are disclosed: for
    /// each site its CPUs and then its further kinds; then paths.
    pub resources: Vec<(ResourceId, Amount)>,
    /// The kind of each resource.
    pub kinds: ResourceKinds,
    /// The coordinators that may hold here, and where they are.
    pub coordinators: BTreeMap<CoordinatorName, Destination>,
    /// How long holds last, and the horizon.
    pub policy: HoldPolicy,
    /// The share of what is free that each user of each coordinator may take.
    pub levels: ServiceLevels,
    /// How much each coordinator and each of its users may hold at a time.
    pub quotas: HoldQuotas,
    /// The by-server sites of a CRM.
    pub servers: BTreeMap<ResourceId, SiteServers>,
    /// The router over the inner network of an NRM; `None`: each path is one link of its own.
    pub inside: Option<Arc<dyn InnerRouter>>,
    /// The inner network as it was configured. It is part of the epoch of updates, because it decides what is
    /// free.
    pub inner: Option<v1::InnerNetwork>,
    /// Who may watch profiles, and how often updates are sent.
    pub profiles: Profiles,
    /// What carries out bookings at real equipment; `None`: bookings are lines in a timetable.
    pub driver: Option<DriverMaker>,
}

impl RmConfig {
    /// Checks an inventory and the settings around it.
    ///
    /// # Errors
    /// [`InvalidField`] with the path of the field in the configuration file.
    pub fn new(
        kind: Kind,
        daemon: DaemonSettings,
        inventory: Inventory,
        coordinators: &[v1::Peer],
        policy: Option<&v1::HoldPolicy>,
    ) -> Result<Self, InvalidField> {
        let name = RmName::parse("inventory.name", &inventory.name)?;
        DomainName::parse("inventory.domain", &inventory.domain)?;
        let policy = hold_policy(policy)?;
        let count = inventory.sites.len() + inventory.paths.len();
        if !(1..=limits::RM_RESOURCES_MAX).contains(&count) {
            let field = if kind == Kind::Nrm { "inventory.paths" } else { "inventory.sites" };
            let allowed = format!("1 to {}", limits::RM_RESOURCES_MAX);
            return Err(InvalidField::new(field, count, allowed));
        }
        let mut inventory = with_prices(inventory)?;
        let servers = servers(&mut inventory)?;
        daemon.security.check_owner(Role::ResourceManager, name.as_str())?;
        let coordinators = peers(&daemon.security, coordinators)?;
        let description = v1::DescribeResponse {
            name: inventory.name,
            domain: inventory.domain,
            ledger_id: String::new(),
            sites: inventory.sites,
            paths: inventory.paths,
            horizon: Some(coalloc_net::convert::span_to_wire(policy.horizon)),
            coordinators_below: Vec::new(),
            coordinators: coordinators.keys().map(ToString::to_string).collect(),
            started: None,
            version: Some(own_version(&[])),
            has_equipment: false,
            equipment: None,
        };
        let topology = own_topology(&name, &description)?;
        let resources = resources(&topology, &description)?;
        check_server_names(&resources, &servers)?;
        let kinds = ResourceKinds::all(kind.usual()).with(kinds_at_sites(&topology));
        let quotas = default_quotas(&resources, &kinds, policy.horizon, coordinators.len());
        Ok(Self {
            kind,
            daemon,
            name,
            description,
            resources,
            kinds,
            coordinators,
            policy,
            levels: ServiceLevels::default(),
            quotas,
            inside: None,
            servers,
            inner: None,
            profiles: Profiles::default(),
            driver: None,
        })
    }

    /// This configuration with an inner network: as it was configured, and its router.
    #[must_use]
    pub fn with_inside(self, inner: Option<(v1::InnerNetwork, Arc<dyn InnerRouter>)>) -> Self {
        let (inner, inside) = inner.unzip();
        Self { inside, inner, ..self }
    }

    /// This configuration with a driver to real equipment.
    #[must_use]
    pub fn with_driver(self, driver: Option<DriverMaker>) -> Self {
        Self { driver, ..self }
    }

    /// This configuration with coordinators that may watch profiles.
    ///
    /// # Errors
    /// [`InvalidField`] with the path of the field in the configuration file.
    pub fn with_profiles(mut self, wire: Option<&v1::ProfilePolicy>) -> Result<Self, InvalidField> {
        let Some(wire) = wire else { return Ok(self) };
        let mut coordinators = BTreeSet::new();
        for (index, name) in wire.coordinators.iter().enumerate() {
            let field = format!("profiles.coordinators[{index}]");
            let name = CoordinatorName::parse(&field, name)?;
            if !self.coordinators.contains_key(&name) {
                let known = self.coordinators.keys().map(CoordinatorName::as_str);
                let guess = did_you_mean(name.as_str(), known);
                let allowed = format!("one of `coordinators`{guess}");
                return Err(InvalidField::new(field, name, allowed));
            }
            if let Some(twice) = coordinators.replace(name) {
                return Err(InvalidField::new(field, twice, "each coordinator once"));
            }
        }
        let updates = wire.updates.as_ref();
        let updates = updates.map(|wire| update_policy_from_wire("profiles.updates", wire));
        self.profiles.updates = updates.transpose()?.unwrap_or_default();
        self.profiles.coordinators = coordinators;
        Ok(self)
    }

    /// This configuration with service levels of users, and with levels of coordinators.
    ///
    /// # Errors
    /// [`InvalidField`] with the path of the field in the configuration file.
    pub fn with_levels(
        mut self,
        users: &[v1::ServiceLevel],
        coordinators: &[v1::CoordinatorLevels],
    ) -> Result<Self, InvalidField> {
        self.levels = service_levels("", users, coordinators, self.coordinators.keys())?;
        Ok(self)
    }

    /// This configuration with quotas of what may be held at a time.
    ///
    /// # Errors
    /// [`InvalidField`] with the path of the field in the configuration file.
    pub fn with_quotas(mut self, wire: Option<&v1::HoldQuotas>) -> Result<Self, InvalidField> {
        let Some(wire) = wire else { return Ok(self) };
        let reader = QuotaReader {
            kinds: self.resources.iter().map(|(resource, _)| self.kinds.of(resource)).collect(),
            coordinators: self.coordinators.keys().collect(),
        };
        let quotas = reader.read(wire, std::mem::take(&mut self.quotas))?;
        self.quotas = quotas;
        Ok(self)
    }
}

/// The inventory, with its price at every site and path that has none of its own.
fn with_prices(mut inventory: Inventory) -> Result<Inventory, InvalidField> {
    let Some(price) = &inventory.price else { return Ok(inventory) };
    price_from_wire("inventory.price", price)?;
    let sites = inventory.sites.iter_mut().map(|site| &mut site.price);
    for own in sites.chain(inventory.paths.iter_mut().map(|path| &mut path.price)) {
        own.get_or_insert_with(|| price.clone());
    }
    Ok(inventory)
}

/// The servers of every by-server site. What they have together becomes the CPUs of the site.
fn servers(inventory: &mut Inventory) -> Result<BTreeMap<ResourceId, SiteServers>, InvalidField> {
    let (mut each, mut count) = (BTreeMap::new(), 0);
    for (index, site) in inventory.sites.iter_mut().enumerate() {
        let field = format!("inventory.sites[{index}]");
        let Some(declared) = declared_servers(&field, site)? else { continue };
        let name = ResourceId::parse(&format!("{field}.name"), &site.name)?;
        let names: Vec<ResourceId> = declared.servers.into_iter().map(|one| one.name).collect();
        count += names.len();
        let most = limits::SERVERS_MAX as usize;
        check_range("inventory.sites", count, 0..=most, "servers of all sites")?;
        let cpus_each = declared.cpus_each;
        site.cpus = cpus_each * names.len() as u64;
        each.insert(name, SiteServers { cpus_each, names });
    }
    Ok(each)
}

/// Checks that no server has the name of another resource, or of a server of another site.
fn check_server_names(
    resources: &[(ResourceId, Amount)],
    servers: &BTreeMap<ResourceId, SiteServers>,
) -> Result<(), InvalidField> {
    let mut seen: BTreeSet<&ResourceId> = resources.iter().map(|(name, _)| name).collect();
    let twice = servers.values().flat_map(|site| &site.names).find(|name| !seen.insert(name));
    twice.map_or(Ok(()), |name| {
        let allowed = "a name for each server (SITE/NAME) that nothing else here has";
        Err(InvalidField::new("inventory.sites", name, allowed))
    })
}

/// The inventory as a topology of its own, so that every check of the federation's topology is made early.
fn own_topology(
    name: &RmName,
    description: &v1::DescribeResponse,
) -> Result<Topology, InvalidField> {
    topology_of_descriptions([(name, description)]).map_err(|error| InvalidField {
        field: error.field.replacen(name.as_str(), "inventory", 1),
        ..error
    })
}

/// The kind of each resource of a site.
fn kinds_at_sites(topology: &Topology) -> impl Iterator<Item = (ResourceId, ResourceKind)> + '_ {
    let all = topology.sites().flat_map(|(_, vertex, _)| vertex.resources());
    all.map(|of| (of.resource.clone(), of.kind))
}

fn resources(
    topology: &Topology,
    description: &v1::DescribeResponse,
) -> Result<Vec<(ResourceId, Amount)>, InvalidField> {
    let mut resources: Vec<(ResourceId, Amount)> = topology
        .sites()
        .flat_map(|(_, vertex, _)| vertex.resources())
        .map(|of| (of.resource.clone(), of.capacity))
        .collect();
    for path in &description.paths {
        let capacity = Amount(path.capacity_bps);
        match path_resources("inventory.paths", path)? {
            Duplex::Shared(resource) => resources.push((resource, capacity)),
            Duplex::Full { ab, ba } => resources.extend([(ab, capacity), (ba, capacity)]),
        }
    }
    let mut seen = BTreeSet::new();
    for (resource, _) in &resources {
        if !seen.insert(resource) {
            let allowed = "each resource once; a full-duplex path is two, NAME:ab and NAME:ba";
            return Err(InvalidField::new("inventory", resource, allowed));
        }
    }
    Ok(resources)
}

fn peers(
    security: &Security,
    wire: &[v1::Peer],
) -> Result<BTreeMap<CoordinatorName, Destination>, InvalidField> {
    if wire.is_empty() {
        let allowed = "at least one coordinator; without any, nobody could book here";
        return Err(InvalidField::missing("coordinators", allowed));
    }
    let mut peers = BTreeMap::new();
    for (index, peer) in wire.iter().enumerate() {
        let field = |name: &str| format!("coordinators[{index}].{name}");
        let name = CoordinatorName::parse(&field("name"), &peer.name)?;
        let at = format!("coordinators[{index}]");
        let destination = security.destination(&at, peer, Role::Coordinator)?;
        destination.check_only_one(&at, peers.values())?;
        if peers.insert(name, destination).is_some() {
            return Err(InvalidField::new(field("name"), &peer.name, "each coordinator once"));
        }
    }
    Ok(peers)
}

fn hold_policy(wire: Option<&v1::HoldPolicy>) -> Result<HoldPolicy, InvalidField> {
    let mut policy = HoldPolicy::default();
    let Some(wire) = wire else { return Ok(policy) };
    let fields = [
        (
            "policy.hold_soft",
            &wire.hold_soft,
            &mut policy.soft,
            limits::HOLD_SOFT_MIN,
            limits::HOLD_SOFT_MAX,
        ),
        (
            "policy.hold_hard",
            &wire.hold_hard,
            &mut policy.hard,
            limits::HOLD_HARD_MIN,
            limits::HOLD_HARD_MAX,
        ),
        (
            "policy.horizon",
            &wire.horizon,
            &mut policy.horizon,
            Span::from_secs(3_600),
            limits::HORIZON_MAX,
        ),
    ];
    for (field, wire, target, low, high) in fields {
        let Some(wire) = wire else { continue };
        let span = span_from_wire(field, wire)?;
        if !(low..=high).contains(&span) {
            return Err(InvalidField::new(field, span, format!("{low} to {high}")));
        }
        *target = span;
    }
    if policy.hard < policy.soft {
        let allowed = format!("at least hold_soft, {}", policy.soft);
        return Err(InvalidField::new("policy.hold_hard", policy.hard, allowed));
    }
    Ok(policy)
}
