//! Units for systemd: a hardened service for each daemon, and a target for all of them.
//!
//! Left out: installing them.

use std::path::Path;

use super::STATE;
use super::federation::{PlannedDaemon, PlannedFederation};
use crate::kit::exit::Failure;
use crate::user::serve::Kind;

/// The units by their paths in the folder. `place` is where the folder will be.
pub(super) fn all(
    federation: &PlannedFederation,
    place: &Path,
) -> Result<Vec<(String, String)>, Failure> {
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

fn service(daemon: &PlannedDaemon, target: &str, program: &Path, place: &Path) -> String {
    let (kind, name) = (daemon.kind.name(), &daemon.name);
    let config = place.join(daemon.config());
    let user = user();
    let privileges = match daemon.kind {
        Kind::Nrm => {
            "# A driver of tc needs CAP_NET_ADMIN here and in AmbientCapabilities, and AF_NETLINK below.\n"
        }
        Kind::Crm => {
            "# A driver of Slurm runs Slurm's programs as the SlurmUser or root, and talks to munge: loosen what is in their way.\n"
        }
        Kind::Grc => "",
    };
    format!(
        "# Written by `coalloc init`.\n\
         [Unit]\n\
         Description=Coalloc: {name}\n\
         After=network-online.target\n\
         Wants=network-online.target\n\
         PartOf={target}\n\
         \n\
         [Service]\n\
         # It says when it serves, however long it reads its ledger before.\n\
         Type=notify\n\
         TimeoutStartSec=infinity\n\
         ExecStart={program} serve {kind} --config {config}\n\
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
         ReadWritePaths={state}\n\
         PrivateTmp=yes\n\
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
        program = command_word(program),
        config = command_word(&config),
        state = word(&place.join(STATE)),
    )
}

/// The owner of what this process writes.
fn user() -> u32 {
    rustix::process::geteuid().as_raw()
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
