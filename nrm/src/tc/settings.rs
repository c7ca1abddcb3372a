//! The driver's part of the configuration file, checked: `driver: { tc: {...} }`.
//!
//! Left out: whether the interfaces exist, which is looked up at every call.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::path::PathBuf;

use coalloc_common::invalid::check_range;
use coalloc_common::suggest::did_you_mean;
use coalloc_common::topology::Duplex;
use coalloc_common::{CoordinatorName, InvalidField, ResourceId, UserName};
use coalloc_net::convert::path_resources;
use coalloc_proto::v1;

/// Where named network namespaces are; `ip netns add` puts them there.
const NAMED_NAMESPACES: &str = "/run/netns";
/// The longest name of an interface: IFNAMSIZ of the kernel without its last 0.
const INTERFACE_LEN_MAX: usize = 15;
/// What unbooked traffic gets when the file does not say.
const UNBOOKED_BPS: u64 = 10_000_000;
/// Each ordered pair of a user's addresses is an element of a map, so 16 addresses are 240 elements an interface.
const ADDRESSES_MAX: usize = 16;

/// A user of the configuration, to whom traffic belongs: its name, and its coordinator where the file says one.
pub(super) type TrafficOwner = (UserName, Option<CoordinatorName>);

/// The settings of the driver, checked.
#[derive(Debug, Clone)]
pub struct TcSettings {
    /// The file of the network namespace that has the interfaces; `None`: the daemon's own.
    pub(super) netns: Option<PathBuf>,
    /// What unbooked traffic gets together on an interface, in bit/s.
    pub(super) unbooked_bps: u64,
    /// The interfaces on which each resource has its class.
    pub(super) interfaces: BTreeMap<ResourceId, Vec<String>>,
    /// The capacity of the path that each interface belongs to, in bit/s.
    pub(super) capacities: BTreeMap<String, u64>,
    /// The addresses of each user.
    pub(super) users: BTreeMap<TrafficOwner, Vec<IpAddr>>,
}

impl TcSettings {
    /// Checks the settings against the inventory and the coordinators of the same file.
    ///
    /// # Errors
    /// [`InvalidField`] with the path of the field in the configuration file.
    pub fn parse(
        wire: &v1::TcDriver,
        paths: &[v1::Path],
        coordinators: &[v1::Peer],
    ) -> Result<Self, InvalidField> {
        let field = "driver.tc.unbooked_bps";
        let unbooked_bps = wire.unbooked_bps.unwrap_or(UNBOOKED_BPS);
        check_range(field, unbooked_bps, 1_000..=1_000_000_000_000, "bit/s")?;
        let mut settings = Self {
            netns: namespace(&wire.netns)?,
            unbooked_bps,
            interfaces: BTreeMap::new(),
            capacities: BTreeMap::new(),
            users: users(&wire.users, coordinators)?,
        };
        let mut names = BTreeSet::new();
        for (index, path) in wire.paths.iter().enumerate() {
            let field = format!("driver.tc.paths[{index}]");
            let inventory = paths.iter().find(|one| one.name == path.name).ok_or_else(|| {
                let guess = did_you_mean(&path.name, paths.iter().map(|one| one.name.as_str()));
                let allowed = format!("the name of one of `inventory.paths`{guess}");
                InvalidField::new(format!("{field}.name"), quoted(&path.name), allowed)
            })?;
            if !names.insert(path.name.as_str()) {
                let field = format!("{field}.name");
                return Err(InvalidField::new(field, quoted(&path.name), "each path once"));
            }
            settings.add_path(&field, path, inventory)?;
        }
        if let Some(missing) = paths.iter().find(|one| !names.contains(one.name.as_str())) {
            let allowed = "an entry {name, a, b} with the interfaces of every path of `inventory`";
            let value = format!("no entry for the path {}", missing.name);
            return Err(InvalidField::new("driver.tc.paths", value, allowed));
        }
        Ok(settings)
    }

    fn add_path(
        &mut self,
        field: &str,
        path: &v1::TcPath,
        inventory: &v1::Path,
    ) -> Result<(), InvalidField> {
        for (end, interface) in [("a", &path.a), ("b", &path.b)] {
            let field = format!("{field}.{end}");
            check_interface(&field, interface)?;
            if self.capacities.insert(interface.clone(), inventory.capacity_bps).is_some() {
                let allowed = "an interface that is nowhere else in `driver.tc.paths`";
                return Err(InvalidField::new(field, quoted(interface), allowed));
            }
        }
        let (a, b) = (path.a.clone(), path.b.clone());
        match path_resources(field, inventory)? {
            Duplex::Shared(resource) => _ = self.interfaces.insert(resource, vec![a, b]),
            Duplex::Full { ab, ba } => {
                self.interfaces.insert(ab, vec![b]);
                self.interfaces.insert(ba, vec![a]);
            }
        }
        Ok(())
    }

    /// The user of the configuration to whom traffic of this user of this coordinator belongs.
    pub(super) fn owner(
        &self,
        user: &UserName,
        coordinator: &CoordinatorName,
    ) -> Option<TrafficOwner> {
        [Some(coordinator.clone()), None]
            .into_iter()
            .map(|coordinator| (user.clone(), coordinator))
            .find(|owner| self.users.contains_key(owner))
    }

    /// The ordered pairs of source and destination of a user's traffic.
    pub(super) fn pairs(&self, owner: &TrafficOwner) -> Vec<(IpAddr, IpAddr)> {
        let addresses = self.users.get(owner).map_or(&[][..], Vec::as_slice);
        let all = addresses.iter().flat_map(|from| addresses.iter().map(move |to| (*from, *to)));
        all.filter(|(from, to)| from != to && from.is_ipv4() == to.is_ipv4()).collect()
    }
}

fn quoted(text: &str) -> String {
    InvalidField::quoted(text)
}

fn namespace(text: &str) -> Result<Option<PathBuf>, InvalidField> {
    let is_plain = !text.chars().any(char::is_control);
    match text {
        "" => Ok(None),
        path if path.starts_with('/') && is_plain => Ok(Some(PathBuf::from(path))),
        name if is_plain && name.len() <= 255 && !name.contains('/') && !name.starts_with('.') => {
            Ok(Some(PathBuf::from(NAMED_NAMESPACES).join(name)))
        }
        _ => {
            let allowed = "empty, a name that `ip netns list` shows, or an absolute path";
            Err(InvalidField::new("driver.tc.netns", quoted(text), allowed))
        }
    }
}

/// Interfaces are words in commands of tc and strings in scripts of nft: nothing may end them early.
fn check_interface(field: &str, name: &str) -> Result<(), InvalidField> {
    let fits = |c: char| c.is_ascii_alphanumeric() || "._-@+".contains(c);
    let first = name.chars().next().is_some_and(|c| c.is_ascii_alphanumeric());
    if first && name.chars().all(fits) && name.len() <= INTERFACE_LEN_MAX {
        return Ok(());
    }
    let allowed = format!(
        "the name of an interface: 1 to {INTERFACE_LEN_MAX} characters of A-Z a-z 0-9 . _ - @ +, beginning with a \
         letter or digit"
    );
    Err(InvalidField::new(field, quoted(name), allowed))
}

fn users(
    wire: &[v1::TcUser],
    coordinators: &[v1::Peer],
) -> Result<BTreeMap<TrafficOwner, Vec<IpAddr>>, InvalidField> {
    let (mut users, mut taken) = (BTreeMap::new(), BTreeSet::new());
    for (index, one) in wire.iter().enumerate() {
        let field = format!("driver.tc.users[{index}]");
        let user = UserName::parse(&format!("{field}.user"), &one.user)?;
        let coordinator = coordinator(&format!("{field}.coordinator"), one, coordinators)?;
        let mut addresses = Vec::new();
        for (nth, text) in one.addresses.iter().enumerate() {
            let field = format!("{field}.addresses[{nth}]");
            let address: IpAddr = text.parse().map_err(|_| {
                InvalidField::new(&field, quoted(text), "an IPv4 or IPv6 address, like 10.77.1.2")
            })?;
            if !taken.insert(address) {
                let allowed = "an address that is nowhere else in `driver.tc.users`: it tells whose traffic it is";
                return Err(InvalidField::new(field, quoted(text), allowed));
            }
            addresses.push(address);
        }
        let of_v4 = addresses.iter().filter(|one| one.is_ipv4()).count();
        let pairs = of_v4 >= 2 || addresses.len() - of_v4 >= 2;
        if !pairs || addresses.len() > ADDRESSES_MAX {
            let allowed = format!("2 to {ADDRESSES_MAX} addresses, at least two of the same kind");
            let count = format!("{} addresses", addresses.len());
            return Err(InvalidField::new(format!("{field}.addresses"), count, allowed));
        }
        if users.insert((user, coordinator), addresses).is_some() {
            let allowed = "each user of a coordinator once";
            return Err(InvalidField::new(format!("{field}.user"), quoted(&one.user), allowed));
        }
    }
    Ok(users)
}

fn coordinator(
    field: &str,
    user: &v1::TcUser,
    coordinators: &[v1::Peer],
) -> Result<Option<CoordinatorName>, InvalidField> {
    let name = &user.coordinator;
    if name.is_empty() {
        return Ok(None);
    }
    if !coordinators.iter().any(|peer| peer.name == *name) {
        let guess = did_you_mean(name, coordinators.iter().map(|peer| peer.name.as_str()));
        let allowed = format!("empty, or one of `coordinators`{guess}");
        return Err(InvalidField::new(field, quoted(name), allowed));
    }
    CoordinatorName::parse(field, name).map(Some)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn path(name: &str, full_duplex: bool) -> v1::Path {
        let capacity_bps = 1_000_000_000;
        v1::Path { name: name.into(), capacity_bps, full_duplex, ..v1::Path::default() }
    }

    fn tc_path(name: &str, a: &str, b: &str) -> v1::TcPath {
        v1::TcPath { name: name.into(), a: a.into(), b: b.into() }
    }

    fn user(user: &str, coordinator: &str, addresses: &[&str]) -> v1::TcUser {
        let addresses = addresses.iter().map(ToString::to_string).collect();
        v1::TcUser { user: user.into(), coordinator: coordinator.into(), addresses }
    }

    fn sound() -> v1::TcDriver {
        v1::TcDriver {
            netns: "exchange".into(),
            unbooked_bps: None,
            paths: vec![tc_path("N0-N1", "to-a", "to-b"), tc_path("N0-N2", "eth2", "eth3.7")],
            users: vec![
                user("alice", "", &["10.77.1.2", "10.77.2.2", "fd00::1"]),
                user("alice", "grc-2", &["10.77.1.3", "10.77.2.3"]),
            ],
        }
    }

    fn parse(wire: &v1::TcDriver) -> Result<TcSettings, InvalidField> {
        let coordinators =
            ["grc-1", "grc-2"].map(|name| v1::Peer { name: name.into(), ..v1::Peer::default() });
        TcSettings::parse(wire, &[path("N0-N1", false), path("N0-N2", true)], &coordinators)
    }

    #[test]
    fn resources_have_the_interfaces_of_their_directions() {
        let settings = parse(&sound()).unwrap();
        let of = |name: &str| settings.interfaces[&ResourceId::parse("", name).unwrap()].clone();
        assert_eq!(of("N0-N1"), ["to-a", "to-b"]);
        assert_eq!(of("N0-N2:ab"), ["eth3.7"]);
        assert_eq!(of("N0-N2:ba"), ["eth2"]);
        assert_eq!(settings.netns, Some(PathBuf::from("/run/netns/exchange")));
        assert_eq!(settings.unbooked_bps, 10_000_000);
        let at = parse(&v1::TcDriver { netns: "/tmp/ns".into(), ..sound() }).unwrap();
        assert_eq!(at.netns, Some(PathBuf::from("/tmp/ns")));
    }

    #[test]
    fn a_user_with_its_coordinator_comes_before_the_one_of_all() {
        let settings = parse(&sound()).unwrap();
        let alice = UserName::composed("alice");
        let of = |name: &str| settings.owner(&alice, &CoordinatorName::composed(name));
        assert_eq!(of("grc-1"), Some((alice.clone(), None)));
        assert_eq!(of("grc-2"), Some((alice.clone(), Some(CoordinatorName::composed("grc-2")))));
        let bob = UserName::composed("bob");
        assert_eq!(settings.owner(&bob, &CoordinatorName::composed("grc-1")), None);
        let pairs = settings.pairs(&(alice, None));
        let text: Vec<String> = pairs.iter().map(|(from, to)| format!("{from}>{to}")).collect();
        assert_eq!(text, ["10.77.1.2>10.77.2.2", "10.77.2.2>10.77.1.2"]);
    }

    #[test]
    fn what_is_wrong_is_named_by_its_field() {
        type Change = fn(&mut v1::TcDriver);
        let cases: [(Change, &str); 14] = [
            (|wire| wire.netns = "a/b".into(), "driver.tc.netns"),
            (|wire| wire.netns = "..".into(), "driver.tc.netns"),
            (|wire| wire.unbooked_bps = Some(0), "driver.tc.unbooked_bps"),
            (|wire| _ = wire.paths.pop(), "driver.tc.paths"),
            (|wire| wire.paths[1].name = "N0-N3".into(), "driver.tc.paths[1].name"),
            (|wire| wire.paths[1].name = "N0-N1".into(), "driver.tc.paths[1].name"),
            (|wire| wire.paths[1].a = "to-b".into(), "driver.tc.paths[1].a"),
            (|wire| wire.paths[0].b = "a b".into(), "driver.tc.paths[0].b"),
            (|wire| wire.paths[0].b = "sixteen-letters0".into(), "driver.tc.paths[0].b"),
            (|wire| wire.users[0].user = String::new(), "driver.tc.users[0].user"),
            (|wire| wire.users[1].coordinator = "grc-3".into(), "driver.tc.users[1].coordinator"),
            (
                |wire| wire.users[1].addresses[0] = "10.0.0".into(),
                "driver.tc.users[1].addresses[0]",
            ),
            (
                |wire| wire.users[1].addresses[1] = "10.77.1.2".into(),
                "driver.tc.users[1].addresses[1]",
            ),
            (|wire| _ = wire.users[1].addresses.pop(), "driver.tc.users[1].addresses"),
        ];
        for (change, field) in cases {
            let mut wire = sound();
            change(&mut wire);
            assert_eq!(parse(&wire).unwrap_err().field, field);
        }
    }
}
