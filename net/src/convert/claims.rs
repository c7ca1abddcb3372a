//! The topology of resource managers that do not trust each other: whose a name is that several of them describe, and
//! what happens when they describe more than there is room for.
//!
//! Each description is valid by itself ([`topology_of_descriptions`](super::topology_of_descriptions) has built it).
//! Together they may contradict each other, by a mistake or on purpose. A name then belongs to its owner
//! ([`Owners`]), and the claims of all others are ignored, each by itself: the rest of their descriptions is used.
//! Nothing that one resource manager describes can keep the topology from being built.
//!
//! Left out: the connections, and telling people. Source: issue 18, point 11.

use std::collections::{BTreeMap, BTreeSet};

use coalloc_common::{DomainName, InvalidField, Owners, RmName, Topology, limits};
use coalloc_proto::v1;

use super::federation::{add_path, add_site};
use super::site_resources;

/// What a resource manager describes.
#[derive(Debug, Clone, Copy)]
pub struct Described<'a> {
    /// Its configured name.
    pub rm: &'a RmName,
    /// Its last description, which is valid by itself.
    pub said: &'a v1::DescribeResponse,
    /// False: another daemon answers at its address now. Nothing of it is used, but its names stay its own.
    pub present: bool,
}

/// What is believed of all descriptions together.
#[derive(Debug, Default)]
pub struct Claims {
    /// The graph of what is believed.
    pub topology: Topology,
    /// For each resource manager that describes names of others: these names. They are not in the topology.
    pub foreign: BTreeMap<RmName, Vec<v1::ForeignName>>,
    /// The resource managers of which nothing is used, because there is no room for what they describe, and one
    /// sentence for each.
    pub crowded_out: BTreeMap<RmName, String>,
}

impl Claims {
    /// Settles what all of them describe. The result does not depend on the order of `described`.
    #[must_use]
    pub fn of<'a>(described: &[Described<'a>], owners: &Owners) -> Self {
        let mut claims = Self::default();
        let mut all = claims.with_room(described, owners);
        all.sort_by_key(|one| owners.rank(one.rm));
        let mut names = Names { owners, sites: BTreeMap::new(), paths: BTreeMap::new() };
        // Sites come first, because the end points of paths that are no sites become exchange points.
        for one in &all {
            for (index, site) in one.said.sites.iter().enumerate() {
                let owner = names.take_site(one.rm, site).err();
                let name = v1::ForeignName { site: site.name.clone(), ..Default::default() };
                claims.settle(*one, name, owner, |topology| {
                    let field = format!("{}.sites[{index}]", one.rm);
                    let domain = DomainName::parse("domain", &one.said.domain)?;
                    add_site(topology, &field, one.rm, &domain, site, None)
                });
            }
        }
        for one in &all {
            for (index, path) in one.said.paths.iter().enumerate() {
                let owner = names.take_path(one.rm, path).err();
                let name = v1::ForeignName { path: path.name.clone(), ..Default::default() };
                claims.settle(*one, name, owner, |topology| {
                    let field = format!("{}.paths[{index}]", one.rm);
                    add_path(topology, &field, one.rm, path, None, true)
                });
            }
        }
        claims
    }

    /// Adds a site or a path to the topology, or records that the name belongs to somebody else.
    fn settle(
        &mut self,
        of: Described<'_>,
        mut name: v1::ForeignName,
        owner: Option<&RmName>,
        add: impl FnOnce(&mut Topology) -> Result<(), InvalidField>,
    ) {
        if !of.present {
            return;
        }
        match owner {
            Some(owner) => name.owner = owner.to_string(),
            None => match add(&mut self.topology) {
                Ok(()) => return,
                // The names are free, there is room, and the description is valid by itself. Should the graph
                // refuse it all the same, the others must not suffer.
                Err(error) => tracing::debug!(rm = %of.rm, %error, "not used"),
            },
        }
        self.foreign.entry(of.rm.clone()).or_default().push(name);
    }

    /// Those for which there is room together: the smallest descriptions first. So whoever describes an absurd number
    /// of sites or paths crowds out nobody but itself.
    fn with_room<'a>(
        &mut self,
        described: &[Described<'a>],
        owners: &Owners,
    ) -> Vec<Described<'a>> {
        let size = |one: &Described<'_>| one.said.sites.len() + one.said.paths.len();
        let mut all = described.to_vec();
        all.sort_by_key(|one| (size(one), owners.rank(one.rm)));
        let (mut vertices, mut paths) = (BTreeSet::new(), 0);
        all.retain(|one| {
            if !one.present {
                return true;
            }
            let more: BTreeSet<&str> =
                vertex_names(one.said).filter(|name| !vertices.contains(name)).collect();
            let fits = vertices.len() + more.len() <= limits::VERTICES_MAX
                && paths + one.said.paths.len() <= limits::EDGES_MAX;
            if fits {
                vertices.extend(more);
                paths += one.said.paths.len();
            } else {
                self.crowded_out.insert(one.rm.clone(), no_room(one.said));
            }
            fits
        });
        all
    }
}

/// The names of the sites and end points of paths in a description.
fn vertex_names(said: &v1::DescribeResponse) -> impl Iterator<Item = &str> {
    let sites = said.sites.iter().map(|site| site.name.as_str());
    sites.chain(said.paths.iter().flat_map(|path| [path.a.as_str(), path.b.as_str()]))
}

fn no_room(said: &v1::DescribeResponse) -> String {
    let (sites, paths) = (said.sites.len(), said.paths.len());
    let (most, most_paths) = (limits::VERTICES_MAX, limits::EDGES_MAX);
    format!(
        "describes too much, {sites} sites and {paths} paths: with those of the others, a \
         federation has at most {most} sites and exchange points, and {most_paths} paths"
    )
}

/// Who has which name so far.
struct Names<'a> {
    owners: &'a Owners,
    /// The names of sites, and of what they have besides CPUs (`A:storage`), which no site may be called.
    sites: BTreeMap<String, &'a RmName>,
    paths: BTreeMap<&'a str, &'a RmName>,
}

impl<'a> Names<'a> {
    /// Gives a site's names to a resource manager.
    ///
    /// # Errors
    /// Whoever one of them belongs to.
    fn take_site<'b: 'a>(&mut self, rm: &'b RmName, site: &v1::Site) -> Result<(), &'a RmName> {
        let names = || site_resources(site).into_iter().map(|(name, _)| name);
        for name in names() {
            foreign(rm, self.owners.of(&name).or(self.sites.get(&name).copied()))?;
        }
        self.sites.extend(names().map(|name| (name, rm)));
        Ok(())
    }

    /// Gives a path's name to a resource manager.
    ///
    /// # Errors
    /// Whoever the path belongs to; or whoever has a site one of whose resources is called like an end of the path.
    fn take_path<'b: 'a>(&mut self, rm: &'b RmName, path: &'b v1::Path) -> Result<(), &'a RmName> {
        let name = path.name.as_str();
        foreign(rm, self.owners.of(name).or(self.paths.get(name).copied()))?;
        for end in [&path.a, &path.b] {
            let (site, part) = end.rsplit_once(':').unwrap_or((end, ""));
            let of_site = self.sites.get(site).filter(|owner| self.sites.get(end) == Some(owner));
            foreign(rm, of_site.copied().filter(|_| !part.is_empty()))?;
        }
        self.paths.insert(name, rm);
        Ok(())
    }
}

/// # Errors
/// The owner, if there is one and it is another than this resource manager.
fn foreign<'a>(rm: &RmName, owner: Option<&'a RmName>) -> Result<(), &'a RmName> {
    owner.filter(|owner| *owner != rm).map_or(Ok(()), Err)
}

/// What a resource manager describes, without the names that belong to others.
#[must_use]
pub fn own_part(said: &v1::DescribeResponse, foreign: &[v1::ForeignName]) -> v1::DescribeResponse {
    let mut own = said.clone();
    if foreign.is_empty() {
        return own;
    }
    let sites: BTreeSet<&str> = foreign.iter().map(|name| name.site.as_str()).collect();
    let paths: BTreeSet<&str> = foreign.iter().map(|name| name.path.as_str()).collect();
    own.sites.retain(|site| !sites.contains(site.name.as_str()));
    own.paths.retain(|path| !paths.contains(path.name.as_str()));
    own
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::convert::topology_of_descriptions;

    fn describes(sites: &[&str], paths: &[(&str, &str, &str)]) -> v1::DescribeResponse {
        let site =
            |name: &&str| v1::Site { name: (*name).to_owned(), cpus: 4, ..v1::Site::default() };
        let path = |(name, a, b): &(&str, &str, &str)| v1::Path {
            name: (*name).to_owned(),
            a: (*a).to_owned(),
            b: (*b).to_owned(),
            capacity_bps: 1_000_000_000,
            ..v1::Path::default()
        };
        let sites = sites.iter().map(site).collect();
        let paths = paths.iter().map(path).collect();
        v1::DescribeResponse { domain: "D".to_owned(), sites, paths, ..Default::default() }
    }

    fn owners(all: &[(&str, &[&str])]) -> Owners {
        let mut owners = Owners::default();
        for (rm, patterns) in all {
            let patterns: Vec<String> = patterns.iter().map(ToString::to_string).collect();
            owners.add("owns", &RmName::composed(*rm), &patterns).unwrap();
        }
        owners
    }

    /// Settles descriptions in both orders, which must be the same, and checks that what is believed of each is a
    /// federation without contradictions.
    fn settled(all: &[(&str, &v1::DescribeResponse, bool)], owners: &Owners) -> Claims {
        let names: Vec<RmName> = all.iter().map(|(rm, ..)| RmName::composed(*rm)).collect();
        let described = names.iter().zip(all);
        let described =
            described.map(|(rm, (_, said, present))| Described { rm, said, present: *present });
        let mut described: Vec<Described<'_>> = described.collect();
        let claims = Claims::of(&described, owners);
        described.reverse();
        let other = Claims::of(&described, owners);
        assert_eq!(claims.topology, other.topology);
        assert_eq!(claims.foreign, other.foreign);
        assert_eq!(claims.crowded_out, other.crowded_out);
        let none = Vec::new();
        let parts =
            described.iter().filter(|one| one.present && !claims.crowded_out.contains_key(one.rm));
        let parts: Vec<(&RmName, v1::DescribeResponse)> = parts
            .map(|one| (one.rm, own_part(one.said, claims.foreign.get(one.rm).unwrap_or(&none))))
            .collect();
        let strict = topology_of_descriptions(parts.iter().map(|(rm, said)| (*rm, said))).unwrap();
        let sorted = |topology: &Topology| {
            let mut names: Vec<String> =
                topology.vertices().iter().map(|v| v.name.to_string()).collect();
            names.extend(topology.edges().iter().map(|edge| edge.name.to_string()));
            names.sort();
            names
        };
        assert_eq!(sorted(&claims.topology), sorted(&strict));
        claims
    }

    fn site_of(claims: &Claims, name: &str) -> Option<String> {
        let found = claims.topology.sites().find(|(_, vertex, _)| vertex.name.as_str() == name);
        found.map(|(.., compute)| compute.rm.to_string())
    }

    fn told(claims: &Claims, rm: &str) -> Vec<String> {
        let names = claims.foreign.get(rm).into_iter().flatten();
        names.map(|name| format!("{}{} of {}", name.site, name.path, name.owner)).collect()
    }

    #[test]
    fn the_first_in_the_configuration_wins_and_the_rest_of_the_other_is_used() {
        let (honest, rogue) = (describes(&["N0"], &[]), describes(&["N0", "R0"], &[]));
        let order = owners(&[("z-honest", &[]), ("a-rogue", &[])]);
        let all = [("z-honest", &honest, true), ("a-rogue", &rogue, true)];
        let claims = settled(&all, &order);
        assert_eq!(site_of(&claims, "N0").as_deref(), Some("z-honest"));
        assert_eq!(site_of(&claims, "R0").as_deref(), Some("a-rogue"));
        assert_eq!(told(&claims, "a-rogue"), ["N0 of z-honest"]);
        assert_eq!(told(&claims, "z-honest"), Vec::<String>::new());
    }

    #[test]
    fn the_configured_owner_wins_before_it_has_said_anything() {
        let rogue = describes(&["N0", "X1"], &[("N0-N1", "R", "N0"), ("mine", "R", "N0")]);
        let order = owners(&[("rogue", &[]), ("crm", &["N0"]), ("nrm", &["N*", "X1"])]);
        let claims = settled(&[("rogue", &rogue, true)], &order);
        assert_eq!(told(&claims, "rogue"), ["N0 of crm", "X1 of nrm", "N0-N1 of nrm"]);
        assert_eq!(claims.topology.edges().len(), 1);
        assert_eq!(site_of(&claims, "N0"), None, "an end of a path, but no site");
        let honest = describes(&["N0"], &[]);
        let claims = settled(&[("rogue", &rogue, true), ("crm", &honest, true)], &order);
        assert_eq!(site_of(&claims, "N0").as_deref(), Some("crm"));
    }

    #[test]
    fn a_path_of_another_leaves_no_trace_of_its_ends() {
        let honest = describes(&[], &[("p", "X", "Y")]);
        let rogue = describes(&[], &[("p", "X", "Z"), ("q", "X", "Y")]);
        let order = owners(&[("honest", &[]), ("rogue", &[])]);
        let claims = settled(&[("honest", &honest, true), ("rogue", &rogue, true)], &order);
        assert_eq!(told(&claims, "rogue"), ["p of honest"]);
        let names: Vec<&str> =
            claims.topology.vertices().iter().map(|vertex| vertex.name.as_str()).collect();
        assert_eq!(names, ["X", "Y"]);
        assert_eq!(claims.topology.edges().len(), 2);
    }

    #[test]
    fn what_a_site_has_besides_cpus_is_its_own_name_too() {
        let mut honest = describes(&["A"], &[]);
        let storage = v1::SiteResource { kind: "storage".into(), capacity: 5, unit_value: None };
        honest.sites[0].others.push(storage);
        let rogue = describes(&["A:storage"], &[("p", "A:storage", "B")]);
        let all = [("honest", &honest, true), ("rogue", &rogue, true)];
        let claims = settled(&all, &owners(&[("honest", &[]), ("rogue", &[])]));
        assert_eq!(told(&claims, "rogue"), ["A:storage of honest", "p of honest"]);
        // If the rogue comes first, only the owner's statement helps; it includes what the site has.
        let claims = settled(&all, &owners(&[("rogue", &[]), ("honest", &["A"])]));
        assert_eq!(told(&claims, "rogue"), ["A:storage of honest", "p of honest"]);
        assert_eq!(site_of(&claims, "A").as_deref(), Some("honest"));
    }

    #[test]
    fn names_stay_with_whom_another_daemon_displaced() {
        let said = describes(&["N0"], &[("p", "X", "Y")]);
        let order = owners(&[("honest", &[]), ("rogue", &[])]);
        let claims = settled(&[("honest", &said, false), ("rogue", &said, true)], &order);
        assert_eq!(told(&claims, "rogue"), ["N0 of honest", "p of honest"]);
        assert!(claims.topology.vertices().is_empty());
    }

    #[test]
    fn who_describes_too_much_crowds_out_only_itself() {
        let many: Vec<String> = (0..limits::VERTICES_MAX).map(|n| format!("r{n}")).collect();
        let many: Vec<&str> = many.iter().map(String::as_str).collect();
        let (honest, rogue) = (describes(&["N0"], &[("p", "N0", "X")]), describes(&many, &[]));
        // Being first does not help, nor does owning everything.
        let order = owners(&[("rogue", &["*"]), ("honest", &["N0", "p"])]);
        let all = [("rogue", &rogue, true), ("honest", &honest, true)];
        let claims = settled(&all, &order);
        assert_eq!(site_of(&claims, "N0").as_deref(), Some("honest"));
        assert_eq!(claims.topology.vertices().len(), 2);
        let why = &claims.crowded_out["rogue"];
        assert!(why.contains("10000 sites and 0 paths") && why.contains("at most"), "{why}");
        // Whatever fits exactly is used.
        let fits = describes(&many[2..], &[]);
        let claims = settled(&[("rogue", &fits, true), ("honest", &honest, true)], &order);
        assert!(claims.crowded_out.is_empty());
        assert_eq!(claims.topology.vertices().len(), limits::VERTICES_MAX);
    }

    #[test]
    fn paths_have_their_own_bound() {
        let paths: Vec<String> = (0..limits::EDGES_MAX).map(|n| format!("e{n}")).collect();
        let paths: Vec<(&str, &str, &str)> =
            paths.iter().map(|name| (name.as_str(), "X", "Y")).collect();
        let (honest, rogue) = (describes(&[], &[("p", "X", "Y")]), describes(&[], &paths));
        let all = [("rogue", &rogue, true), ("honest", &honest, true)];
        let claims = settled(&all, &owners(&[("rogue", &[]), ("honest", &[])]));
        assert_eq!(claims.topology.edges().len(), 1);
        assert!(claims.crowded_out["rogue"].contains("100000 paths"));
    }
}
