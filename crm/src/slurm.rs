//! The driver of a cluster under Slurm: each booking is a reservation of whole nodes.
//!
//! Every site of the CRM is by-server, and each of its servers is the node of the same name. So the CRM chooses the
//! nodes, and Slurm only has to reserve those. A reservation that is only held is for root alone; when it is booked,
//! the user is let in, and runs `sbatch --reservation=NAME`.
//!
//! ```text
//! Want -> pieces -> plan of commands -> scontrol
//!           ^          ^
//!          now      scontrol show reservation
//! ```
//!
//! * [`pieces`]: windows and nodes of which reservations can be made. Pure.
//! * [`text`]: what Slurm's programs write. Pure.
//! * [`plan`]: the commands that lead from what is there to what is wanted. Pure.
//! * [`view`]: what a look at the cluster shows: what differs, and who is in the way. Pure.
//! * [`programs`] and [`driver`]: the shell that runs them.
//!
//! Slurm's word is not enough: it acknowledges what it then loses when it is killed, and its refusals name
//! neither who is in the way nor, under a name that exists, whether it is its own. So each change is read back, and
//! what is in the way is looked for among reservations, jobs and nodes.
//!
//! Left out: sharing a node by cores, which needs pieces with cores instead of nodes; accounting.
//! Source: the manuals of scontrol and slurm.conf, Slurm 22.05; docs/adr/0052-equipment.md.

mod driver;
mod pieces;
mod plan;
mod programs;
pub mod testbed;
mod text;
mod view;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use coalloc_common::{InvalidField, ResourceId, UserName};
use coalloc_net::clock::Clock;
use coalloc_proto::v1;
use coalloc_protocol::participant::SiteServers;
use coalloc_rm::driver::{Driver, DriverMaker, Naming};

use self::programs::Programs;

/// A cluster, and who the users are there.
#[derive(Debug, Clone)]
pub struct SlurmSettings {
    programs: Programs,
    /// The Unix user of each user.
    users: BTreeMap<UserName, String>,
    /// The whole name of the server that each node is.
    servers: BTreeMap<String, ResourceId>,
}

impl SlurmSettings {
    /// Checks the settings of a driver. Relative paths start from `folder`. `servers` are those of each site, and
    /// `sites` all sites of the CRM.
    ///
    /// # Errors
    /// [`InvalidField`] with the path of the field in the configuration file.
    pub fn parse(
        wire: &v1::SlurmDriver,
        folder: &Path,
        sites: &[v1::Site],
        servers: &BTreeMap<ResourceId, SiteServers>,
    ) -> Result<Self, InvalidField> {
        let servers = nodes_of(sites, servers)?;
        let path = |text: &str| (!text.is_empty()).then(|| folder.join(text));
        let conf = file("driver.slurm.conf", path(&wire.conf))?;
        let bin = path(&wire.bin);
        if let Some(bin) = bin.as_ref().filter(|bin| !bin.join("scontrol").is_file()) {
            let allowed = "a folder with the programs scontrol, sinfo, squeue and scancel";
            return Err(InvalidField::new("driver.slurm.bin", bin.display(), allowed));
        }
        let mut users = BTreeMap::new();
        for (index, v1::SlurmUser { user, unix_user }) in wire.users.iter().enumerate() {
            let field = |name: &str| format!("driver.slurm.users[{index}].{name}");
            let name = UserName::parse(&field("user"), user)?;
            let (at, unix) = match unix_user.as_str() {
                "" => (field("user"), user),
                _ => (field("unix_user"), unix_user),
            };
            if !is_unix_name(unix) {
                let allowed = "the name of a Unix user in `unix_user`: A-Z a-z 0-9 . _ -";
                return Err(InvalidField::new(at, InvalidField::quoted(unix), allowed));
            }
            if unix == plan::NOBODY {
                let allowed = "another Unix user: what is only held is reserved for root";
                return Err(InvalidField::new(at, unix, allowed));
            }
            if users.insert(name, unix.clone()).is_some() {
                return Err(InvalidField::new(field("user"), user, "each user once"));
            }
        }
        if users.is_empty() {
            let allowed = "at least one user: nobody else can have a reservation of the cluster";
            return Err(InvalidField::missing("driver.slurm.users", allowed));
        }
        Ok(Self { programs: Programs { conf, bin }, users, servers })
    }

    /// What makes the driver when the CRM starts.
    #[must_use]
    pub fn maker(self) -> DriverMaker {
        DriverMaker::new(move |naming| self.driver(naming, Clock::system()))
    }

    /// The driver of a CRM.
    #[must_use]
    pub fn driver(&self, naming: Naming, clock: Clock) -> Arc<dyn Driver> {
        Arc::new(driver::Slurm::new(self.clone(), naming, clock))
    }
}

fn file(field: &str, path: Option<PathBuf>) -> Result<Option<PathBuf>, InvalidField> {
    match path {
        Some(path) if !path.is_file() => {
            Err(InvalidField::new(field, path.display(), "the path of a file that exists"))
        }
        path => Ok(path),
    }
}

/// The nodes of all sites. Every site must consist of servers that can be nodes, and have nothing else.
fn nodes_of(
    sites: &[v1::Site],
    servers: &BTreeMap<ResourceId, SiteServers>,
) -> Result<BTreeMap<String, ResourceId>, InvalidField> {
    let mut nodes = BTreeMap::new();
    for (index, site) in sites.iter().enumerate() {
        let field = |name: &str| format!("inventory.sites[{index}].{name}");
        let Some(own) = servers.get(site.name.as_str()) else {
            let allowed = "with driver.slurm, the servers of the site: each is the Slurm node of the same name, and a \
                           booking reserves whole nodes";
            return Err(InvalidField::missing(field("servers"), allowed));
        };
        if let Some(other) = site.others.first() {
            let allowed = "nothing: driver.slurm reserves nodes and nothing else";
            return Err(InvalidField::new(field("others"), &other.kind, allowed));
        }
        for server in &own.names {
            let node = Naming::of_server(server);
            if !is_unix_name(node) {
                let allowed = "with driver.slurm, names of nodes: A-Z a-z 0-9 . _ -";
                return Err(InvalidField::new(field("servers"), server, allowed));
            }
            if nodes.insert(node.to_owned(), server.clone()).is_some() {
                let allowed =
                    "with driver.slurm, servers whose names no other site has: each is a node";
                return Err(InvalidField::new(field("servers"), server, allowed));
            }
        }
    }
    Ok(nodes)
}

fn is_unix_name(text: &str) -> bool {
    let first = text.chars().next().is_some_and(|one| one.is_ascii_alphanumeric() || one == '_');
    first && text.chars().all(|one| one.is_ascii_alphanumeric() || "._-".contains(one))
}

#[cfg(test)]
mod tests;
