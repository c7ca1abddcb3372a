//! Units for systemd: a hardened service for each daemon, and a target for all of them.
//!
//! Left out: installing them.

use std::path::Path;

use super::STATE;
use super::federation::{PlannedDaemon, PlannedFederation};
use crate::kit::exit::Failure;
use crate::user::serve::Kind;

/// The program where a package puts it.
const PACKAGED_PROGRAM: &str = "/usr/bin/coalloc";
/// The folder of configurations and identities where a package is installed.
pub(crate) const PACKAGED_FOLDER: &str = "/etc/coalloc";
/// The ledgers where a package is installed; `state` in [`PACKAGED_FOLDER`] is a link to it.
pub(super) const PACKAGED_STATE: &str = "/var/lib/coalloc";
/// The user of daemons where a package is installed.
pub(super) const PACKAGED_USER: &str = "coalloc";
/// The unit of a package for any daemon: `coalloc@grc.service` runs `grc.yaml` of [`PACKAGED_FOLDER`].
pub(super) const TEMPLATE: &str = "coalloc@.service";
/// The unit of a package for all of them.
pub(super) const PACKAGED_TARGET: &str = "coalloc.target";

/// What differs between the units of one federation on one machine, and those of a package.
struct UnitPlace {
    /// Who wrote it, for its first line.
    by: &'static str,
    description: String,
    target: String,
    /// A line of a comment for the driver of this kind of daemon.
    privileges: &'static str,
    /// The command line, in words of a command.
    command: String,
    user: String,
    /// Further lines about the place.
    place: String,
}

/// The units by their paths in the folder. `place` is where the folder will be.
///
/// A federation on several machines gets the units of the package: paths and users of this machine mean nothing on others.
pub(super) fn all(
    federation: &PlannedFederation,
    place: &Path,
) -> Result<Vec<(String, String)>, Failure> {
    if is_packaged(federation, place) {
        let target = (format!("systemd/{PACKAGED_TARGET}"), packaged_target());
        return Ok(vec![target, (format!("systemd/{TEMPLATE}"), template())]);
    }
    let program = std::env::current_exe()
        .map_err(|error| Failure::internal(format!("the path of this program: {error}")))?;
    let target = target_name(federation);
    let mut units = vec![(format!("systemd/{target}"), self::target(federation))];
    for daemon in &federation.daemons {
        let name = format!("systemd/{}", service_name(federation, daemon));
        units.push((name, service(daemon, &target, &program, place)));
    }
    Ok(units)
}

/// Whether the daemons run from the places of a package.
pub(super) fn is_packaged(federation: &PlannedFederation, place: &Path) -> bool {
    !federation.is_local() || place == Path::new(PACKAGED_FOLDER)
}

/// The unit that starts all daemons.
pub(super) fn target_name(federation: &PlannedFederation) -> String {
    format!("coalloc-{}.target", stem(&federation.file.name))
}

fn service_name(federation: &PlannedFederation, daemon: &PlannedDaemon) -> String {
    format!("coalloc-{}-{}.service", stem(&federation.file.name), daemon.name)
}

/// A name as a unit may have it.
fn stem(name: &str) -> String {
    let plain = |c: char| if c.is_ascii_alphanumeric() || "._-".contains(c) { c } else { '-' };
    name.chars().map(plain).take(100).collect()
}

fn target(federation: &PlannedFederation) -> String {
    let services = federation.daemons.iter().map(|daemon| service_name(federation, daemon));
    format!(
        "[Unit]\nDescription=Coalloc: all daemons of a federation\nWants={}\n\n\
         [Install]\nWantedBy=multi-user.target\n",
        services.collect::<Vec<_>>().join(" ")
    )
}

/// The target of a package. Each daemon that is enabled is wanted by it.
fn packaged_target() -> String {
    "[Unit]\nDescription=Coalloc: all daemons of this machine\n\n\
     [Install]\nWantedBy=multi-user.target\n"
        .to_owned()
}

const OF_TC: &str =
    "# A driver of tc needs CAP_NET_ADMIN here and in AmbientCapabilities, and AF_NETLINK below.\n";
const OF_SLURM: &str = "# A driver of Slurm runs Slurm's programs as the SlurmUser or root, and talks to munge: loosen what is in their way.\n";

fn service(daemon: &PlannedDaemon, target: &str, program: &Path, place: &Path) -> String {
    let (kind, config) = (daemon.kind.name(), place.join(daemon.config()));
    unit(&UnitPlace {
        by: "`coalloc init`",
        description: daemon.name.clone(),
        target: target.to_owned(),
        privileges: match daemon.kind {
            Kind::Nrm => OF_TC,
            Kind::Crm => OF_SLURM,
            Kind::Grc => "",
        },
        command: format!(
            "{} serve {kind} --config {}",
            command_word(program),
            command_word(&config)
        ),
        user: user(),
        place: format!(
            "{}ReadWritePaths={}\n",
            if is_temporary(place) { OF_TEMPORARY } else { "" },
            word(&place.join(STATE))
        ),
    })
}

/// Is a folder where a private folder for temporary files hides it?
fn is_temporary(place: &Path) -> bool {
    ["/tmp", "/var/tmp"].iter().any(|temporary| place.starts_with(temporary))
}

/// For a federation that somebody tries in a folder for temporary files.
const OF_TEMPORARY: &str = "# Its files are where temporary files are, which a private folder would hide.\n\
                            PrivateTmp=no\n";

/// The unit of the package, of which an instance is a daemon.
fn template() -> String {
    unit(&UnitPlace {
        by: "the package coalloc",
        description: "%i".to_owned(),
        target: PACKAGED_TARGET.to_owned(),
        privileges: "# Change it for one daemon: systemctl edit coalloc@NAME. A driver of tc needs CAP_NET_ADMIN here and in\n\
                     # AmbientCapabilities, and AF_NETLINK below. A driver of Slurm runs Slurm's programs as the SlurmUser or root.\n",
        command: format!("{PACKAGED_PROGRAM} serve --config {PACKAGED_FOLDER}/%i.yaml"),
        user: PACKAGED_USER.to_owned(),
        place: format!(
            "# What COALLOC_LOG is when a daemon starts.\n\
             EnvironmentFile=-/etc/default/coalloc\n\
             StateDirectory=coalloc\n\
             StateDirectoryMode=0750\n\
             ReadWritePaths={PACKAGED_STATE}\n"
        ),
    })
}

fn unit(of: &UnitPlace) -> String {
    let UnitPlace { by, description, target, privileges, command, user, place } = of;
    format!(
        "# Written by {by}.\n\
         [Unit]\n\
         Description=Coalloc: {description}\n\
         After=network-online.target\n\
         Wants=network-online.target\n\
         PartOf={target}\n\
         \n\
         [Service]\n\
         # It says when it serves, however long it reads its ledger before.\n\
         Type=notify\n\
         TimeoutStartSec=infinity\n\
         ExecStart={command}\n\
         # The certificates and the ledger belong to this user.\n\
         User={user}\n\
         Restart=on-failure\n\
         RestartSec=2s\n\
         TimeoutStopSec=30s\n\
         LimitNOFILE=4096\n\
         UMask=0077\n\
         \n\
         # It writes its ledger, and nothing else.\n\
         ProtectSystem=strict\n\
         ProtectHome=read-only\n\
         PrivateTmp=yes\n\
         {place}\
         PrivateDevices=yes\n\
         ProtectProc=invisible\n\
         ProcSubset=pid\n\
         ProtectClock=yes\n\
         ProtectHostname=yes\n\
         ProtectKernelLogs=yes\n\
         ProtectKernelModules=yes\n\
         ProtectKernelTunables=yes\n\
         ProtectControlGroups=yes\n\
         {privileges}\
         CapabilityBoundingSet=\n\
         AmbientCapabilities=\n\
         NoNewPrivileges=yes\n\
         LockPersonality=yes\n\
         MemoryDenyWriteExecute=yes\n\
         RemoveIPC=yes\n\
         RestrictAddressFamilies=AF_INET AF_INET6 AF_UNIX\n\
         RestrictNamespaces=yes\n\
         RestrictRealtime=yes\n\
         RestrictSUIDSGID=yes\n\
         SystemCallArchitectures=native\n\
         SystemCallFilter=@system-service\n\
         SystemCallFilter=~@privileged\n\
         SystemCallErrorNumber=EPERM\n\
         \n\
         [Install]\n\
         WantedBy={target}\n",
    )
}

/// The owner of what this process writes: by name, if the machine has one.
fn user() -> String {
    let id = rustix::process::geteuid().as_raw();
    let users = std::fs::read_to_string("/etc/passwd").unwrap_or_default();
    name_in(&users, id).unwrap_or_else(|| id.to_string())
}

/// The name of a user in the text of `/etc/passwd`.
fn name_in(users: &str, id: u32) -> Option<String> {
    let id = id.to_string();
    users.lines().find_map(|line| {
        let mut fields = line.split(':');
        let (name, number) = (fields.next()?, fields.nth(1)?);
        (number == id).then(|| name.to_owned())
    })
}

/// A path as a word of a setting.
fn word(path: &Path) -> String {
    let text = path.display().to_string().replace('%', "%%");
    let plain = |c: char| !c.is_whitespace() && !"\"'\\".contains(c);
    match text.chars().all(plain) {
        true => text,
        false => format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\"")),
    }
}

/// A path as a word of a command, in which a `$` would begin a variable.
fn command_word(path: &Path) -> String {
    word(path).replace('$', "$$")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_package_has_the_units_that_init_writes_for_it() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../deploy/debian");
        for (name, text) in [(TEMPLATE, template()), (PACKAGED_TARGET, packaged_target())] {
            let path = folder.join(name);
            if std::env::var("COALLOC_BLESS").is_ok_and(|bless| bless == "1") {
                std::fs::write(&path, &text).unwrap();
            }
            let there = std::fs::read_to_string(&path).unwrap();
            assert_eq!(there, text, "{}: write it anew with COALLOC_BLESS=1", path.display());
        }
    }

    #[test]
    fn a_user_is_named_as_the_machine_names_it() {
        let users = "root:x:0:0:root:/root:/bin/bash\nann:x:1000:100::/home/ann:/bin/sh\n";
        assert_eq!(name_in(users, 1000).as_deref(), Some("ann"));
        assert_eq!(name_in(users, 100), None);
    }

    #[test]
    fn paths_stay_one_word_in_settings_and_commands() {
        for (path, in_setting, in_command) in [
            ("/srv/fed", "/srv/fed", "/srv/fed"),
            ("/srv/my fed", "\"/srv/my fed\"", "\"/srv/my fed\""),
            ("/srv/100%$x", "/srv/100%%$x", "/srv/100%%$$x"),
            ("/a\"b\\c", "\"/a\\\"b\\\\c\"", "\"/a\\\"b\\\\c\""),
        ] {
            let path = Path::new(path);
            assert_eq!(
                (word(path).as_str(), command_word(path).as_str()),
                (in_setting, in_command)
            );
        }
    }
}
