//! Single servers: what a site declares of them, which ones a hold wants, and which ones it has got.
//!
//! Left out: which servers are idle, which the resource manager's participant knows. Source: the comments of the
//! schema in `coalloc_proto`.

use std::collections::BTreeSet;

use coalloc_common::invalid::check_range;
use coalloc_common::servers::Choice;
use coalloc_common::{InvalidField, ResourceId, RmName, limits};
use coalloc_proto::v1;
use coalloc_protocol::message::{GrantedServers, ServerWish};

use super::{window_from_wire, window_to_wire};

/// The servers that a site declares, in their order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeclaredServers {
    /// The CPUs of each server.
    pub cpus_each: u64,
    /// The servers.
    pub servers: Vec<DeclaredServer>,
}

/// One server that a site declares.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeclaredServer {
    /// Its whole name, SITE/NAME.
    pub name: ResourceId,
    /// What it has in common with others, in alphabetical order.
    pub properties: BTreeSet<String>,
}

/// Reads the servers of a site; `None` when its CPUs are only counted. `field` is the site's field.
///
/// # Errors
/// [`InvalidField`] for the first field that is wrong, also when the site's CPUs contradict its servers.
pub fn declared_servers(
    field: &str,
    site: &v1::Site,
) -> Result<Option<DeclaredServers>, InvalidField> {
    let Some(wire) = &site.servers else { return Ok(None) };
    let field_of = |name: &str| format!("{field}.servers.{name}");
    let cpus_each =
        check_range(&field_of("cpus_each"), wire.cpus_each, 1..=limits::CPUS_MAX, "CPUs")?;
    let (mut servers, mut names) = (Vec::new(), BTreeSet::new());
    for (index, group) in wire.groups.iter().enumerate() {
        let field = field_of(&format!("groups[{index}]"));
        add_group(&field, site, group, &mut servers)?;
        let most = limits::SERVERS_MAX as usize;
        check_range(&field_of("groups"), servers.len(), 1..=most, "servers")?;
    }
    if servers.is_empty() {
        return Err(InvalidField::missing(field_of("groups"), "at least one server"));
    }
    if let Some(twice) = servers.iter().find(|server| !names.insert(&server.name)) {
        let allowed =
            "each server once at the site; those of a `count` have their numbers as names";
        return Err(InvalidField::new(field_of("groups"), &twice.name, allowed));
    }
    let all = cpus_each.saturating_mul(servers.len() as u64);
    check_range(&format!("{field}.cpus"), all, 1..=limits::CPUS_MAX, "CPUs")?;
    if site.cpus != 0 && site.cpus != all {
        let allowed =
            format!("{all}, what its {} servers have together, or nothing", servers.len());
        return Err(InvalidField::new(format!("{field}.cpus"), site.cpus, allowed));
    }
    Ok(Some(DeclaredServers { cpus_each, servers }))
}

fn add_group(
    field: &str,
    site: &v1::Site,
    group: &v1::ServerGroup,
    servers: &mut Vec<DeclaredServer>,
) -> Result<(), InvalidField> {
    let named = |name: &str, field: &str| -> Result<ResourceId, InvalidField> {
        ResourceId::parse(field, name)?;
        ResourceId::parse(field, &format!("{}/{name}", site.name))
    };
    let most = limits::SERVERS_MAX;
    check_range(&format!("{field}.count"), group.count, 0..=most, "servers")?;
    let names = match (group.count, group.names.is_empty()) {
        (0, true) => {
            return Err(InvalidField::new(format!("{field}.count"), 0, "a number, or `names`"));
        }
        (0, false) => group.names.clone(),
        (count, true) => {
            (1..=count as usize).map(|number| (servers.len() + number).to_string()).collect()
        }
        (_, false) => {
            let allowed = "nothing beside `count`, which names servers by their numbers";
            let value = InvalidField::quoted(&group.names[0]);
            return Err(InvalidField::new(format!("{field}.names"), value, allowed));
        }
    };
    let mut properties = BTreeSet::new();
    for (index, property) in group.properties.iter().enumerate() {
        let field = format!("{field}.properties[{index}]");
        properties.insert(property_from_wire(&field, property)?);
    }
    for (index, name) in names.iter().enumerate() {
        let name = named(name, &format!("{field}.names[{index}]"))?;
        servers.push(DeclaredServer { name, properties: properties.clone() });
    }
    Ok(())
}

/// Reads a property of servers.
///
/// # Errors
/// [`InvalidField`] when it is not spelled like a name.
pub fn property_from_wire(field: &str, property: &str) -> Result<String, InvalidField> {
    coalloc_common::id::check_name(field, property)?;
    Ok(property.to_owned())
}

/// The CPUs of a site: those that it states, or those of its servers.
///
/// # Errors
/// As [`declared_servers`].
pub fn site_cpus(field: &str, site: &v1::Site) -> Result<u64, InvalidField> {
    let declared = declared_servers(field, site)?;
    Ok(declared.map_or(site.cpus, |of| of.cpus_each * of.servers.len() as u64))
}

/// Reads a choice; unspecified is the default.
///
/// # Errors
/// [`InvalidField`] when it is of no known kind.
pub fn choice_from_wire(field: &str, wire: i32) -> Result<Choice, InvalidField> {
    match v1::ServerChoice::try_from(wire) {
        Ok(v1::ServerChoice::Unspecified | v1::ServerChoice::Paper) => Ok(Choice::Paper),
        Ok(v1::ServerChoice::First) => Ok(Choice::First),
        Ok(v1::ServerChoice::BestFit) => Ok(Choice::BestFit),
        Ok(v1::ServerChoice::WorstFit) => Ok(Choice::WorstFit),
        Err(_) => Err(InvalidField::new(
            field,
            wire,
            "a SERVER_CHOICE: PAPER, FIRST, BEST_FIT, WORST_FIT",
        )),
    }
}

/// A choice for the wire.
#[must_use]
pub const fn choice_to_wire(choice: Choice) -> v1::ServerChoice {
    match choice {
        Choice::Paper => v1::ServerChoice::Paper,
        Choice::First => v1::ServerChoice::First,
        Choice::BestFit => v1::ServerChoice::BestFit,
        Choice::WorstFit => v1::ServerChoice::WorstFit,
    }
}

/// Reads the whole names of picked servers.
///
/// # Errors
/// [`InvalidField`] for the first that is no name, when one is named twice, or when there are too many.
pub fn picked_from_wire(field: &str, wire: &[String]) -> Result<Vec<ResourceId>, InvalidField> {
    check_range(field, wire.len(), 0..=limits::SERVERS_MAX as usize, "servers")?;
    let (mut picked, mut names) = (Vec::new(), BTreeSet::new());
    for (index, name) in wire.iter().enumerate() {
        let field = format!("{field}[{index}]");
        let name = ResourceId::parse(&field, name)?;
        if !names.insert(name.clone()) {
            return Err(InvalidField::new(field, name, "each server once"));
        }
        picked.push(name);
    }
    Ok(picked)
}

/// Reads which servers a hold wants.
///
/// # Errors
/// [`InvalidField`] for the first field that is wrong.
pub fn wish_from_wire(
    field: &str,
    wire: Option<&v1::ServerWish>,
) -> Result<Option<ServerWish>, InvalidField> {
    let Some(wire) = wire else { return Ok(None) };
    let choice = choice_from_wire(&format!("{field}.choice"), wire.choice)?;
    let picked = picked_from_wire(&format!("{field}.picked"), &wire.picked)?;
    let avoided = picked_from_wire(&format!("{field}.avoided"), &wire.avoided)?;
    Ok(Some(ServerWish { choice, picked, avoided }))
}

/// Which servers a hold wants, for the wire.
#[must_use]
pub fn wish_to_wire(wish: &ServerWish) -> v1::ServerWish {
    v1::ServerWish {
        choice: choice_to_wire(wish.choice).into(),
        picked: wish.picked.iter().map(ToString::to_string).collect(),
        avoided: wish.avoided.iter().map(ToString::to_string).collect(),
    }
}

/// The servers that a hold or booking has, for the wire. `rm` is named where it is not clear from the context.
#[must_use]
pub fn granted_to_wire(rm: Option<&RmName>, granted: &[GrantedServers]) -> Vec<v1::GrantedServers> {
    let one = |granted: &GrantedServers| v1::GrantedServers {
        site: granted.site.to_string(),
        window: Some(window_to_wire(granted.window)),
        servers: granted.servers.iter().map(ToString::to_string).collect(),
        resource_manager: rm.map(ToString::to_string).unwrap_or_default(),
    };
    granted.iter().map(one).collect()
}

/// Reads the servers that a hold has.
///
/// # Errors
/// [`InvalidField`] for the first field that is wrong.
pub fn granted_from_wire(
    field: &str,
    wire: &[v1::GrantedServers],
) -> Result<Vec<GrantedServers>, InvalidField> {
    let one = |(index, wire): (usize, &v1::GrantedServers)| {
        let field = |name: &str| format!("{field}[{index}].{name}");
        Ok(GrantedServers {
            site: ResourceId::parse(&field("site"), &wire.site)?,
            window: window_from_wire(&field("window"), wire.window.as_ref())?,
            servers: picked_from_wire(&field("servers"), &wire.servers)?,
        })
    };
    wire.iter().enumerate().map(one).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn site(cpus: u64, groups: Vec<v1::ServerGroup>) -> v1::Site {
        let servers = Some(v1::SiteServers { cpus_each: 4, groups });
        v1::Site { name: "A".to_owned(), cpus, servers, ..v1::Site::default() }
    }

    fn group(count: u32, names: &[&str], properties: &[&str]) -> v1::ServerGroup {
        let texts = |texts: &[&str]| texts.iter().map(|text| (*text).to_owned()).collect();
        v1::ServerGroup { count, names: texts(names), properties: texts(properties) }
    }

    #[test]
    fn servers_have_their_numbers_or_their_own_names() {
        let groups = vec![group(2, &[], &["gpu"]), group(0, &["big"], &[]), group(1, &[], &[])];
        let site = site(0, groups);
        let declared = declared_servers("sites[0]", &site).unwrap().unwrap();
        let names: Vec<&str> = declared.servers.iter().map(|one| one.name.as_str()).collect();
        assert_eq!(names, ["A/1", "A/2", "A/big", "A/4"]);
        assert_eq!(declared.servers[0].properties, BTreeSet::from(["gpu".to_owned()]));
        assert_eq!(site_cpus("sites[0]", &site), Ok(16));
        let counted = v1::Site { cpus: 7, ..v1::Site::default() };
        assert_eq!(site_cpus("sites[0]", &counted), Ok(7));
    }

    #[test]
    fn a_mistake_names_field_value_and_what_is_allowed() {
        let wrong = |site: &v1::Site| {
            let InvalidField { field, value, .. } = declared_servers("s", site).unwrap_err();
            (field, value)
        };
        let pair = |field: &str, value: &str| (field.to_owned(), value.to_owned());
        assert_eq!(wrong(&site(15, vec![group(4, &[], &[])])), pair("s.cpus", "15"));
        assert_eq!(wrong(&site(0, vec![])), pair("s.servers.groups", ""));
        assert_eq!(
            wrong(&site(0, vec![group(0, &[], &[])])),
            pair("s.servers.groups[0].count", "0")
        );
        assert_eq!(
            wrong(&site(0, vec![group(2, &["x"], &[])])),
            pair("s.servers.groups[0].names", "\"x\"")
        );
        assert_eq!(
            wrong(&site(0, vec![group(1, &[], &[]), group(0, &["1"], &[])])),
            pair("s.servers.groups", "A/1")
        );
        assert_eq!(
            wrong(&site(0, vec![group(10_001, &[], &[])])),
            pair("s.servers.groups[0].count", "10001")
        );
        assert_eq!(
            wrong(&site(0, vec![group(6_000, &[], &[]), group(6_000, &[], &[])])),
            pair("s.servers.groups", "12000")
        );
        assert_eq!(
            wrong(&site(0, vec![group(0, &["a b"], &[])])).0,
            "s.servers.groups[0].names[0]"
        );
        assert_eq!(
            wrong(&site(0, vec![group(1, &[], &["a b"])])).0,
            "s.servers.groups[0].properties[0]"
        );
        let mut none = site(0, vec![group(1, &[], &[])]);
        none.servers.as_mut().unwrap().cpus_each = 0;
        assert_eq!(wrong(&none), pair("s.servers.cpus_each", "0"));
    }

    #[test]
    fn a_wish_and_what_is_granted_are_read_as_they_were_written() {
        let picked = vec![ResourceId::composed("A/1"), ResourceId::composed("A/2")];
        let avoided = vec![ResourceId::composed("A/3")];
        let wish = ServerWish { choice: Choice::WorstFit, picked: picked.clone(), avoided };
        let wire = wish_to_wire(&wish);
        assert_eq!(wish_from_wire("servers", Some(&wire)), Ok(Some(wish)));
        assert_eq!(wish_from_wire("servers", None), Ok(None));
        let picked_twice = vec!["A/1".into(), "A/1".into()];
        let twice = v1::ServerWish { choice: 9, picked: picked_twice, ..Default::default() };
        assert_eq!(wish_from_wire("servers", Some(&twice)).unwrap_err().field, "servers.choice");
        let twice = v1::ServerWish { choice: 0, ..twice };
        assert_eq!(wish_from_wire("servers", Some(&twice)).unwrap_err().field, "servers.picked[1]");
        let bad = v1::ServerWish { avoided: vec!["A 3".into()], ..Default::default() };
        assert_eq!(wish_from_wire("servers", Some(&bad)).unwrap_err().field, "servers.avoided[0]");
        let at = coalloc_common::Time::from_us;
        let window = coalloc_common::Window::new(at(1), at(2)).unwrap();
        let site = ResourceId::composed("A");
        let granted = vec![GrantedServers { site, window, servers: picked }];
        assert_eq!(granted_from_wire("servers", &granted_to_wire(None, &granted)), Ok(granted));
    }
}
