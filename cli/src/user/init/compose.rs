//! A file for Docker's compose that runs the daemons of the folder with the network of the machine, so that the same
//! configurations serve with and without containers.
//!
//! Left out: the image (`deploy/compose/build`), and networks of their own for domains (`coalloc compose`).

use std::fmt::Write as _;

use super::STATE;
use super::federation::{PlannedDaemon, PlannedFederation};
use crate::kit::certificates::IDENTITIES;

/// The text of `compose.yaml`.
pub(super) fn file(federation: &PlannedFederation) -> String {
    let (user, group) = (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw());
    let mut text = format!(
        "# The daemons as containers: docker compose up --detach\n\
         # Written by `coalloc init`.\n\
         # They use the network of this machine, so the configurations hold as they are.\n\
         \n\
         x-daemon: &daemon\n  \
         image: ${{COALLOC_IMAGE:-coalloc:local}}\n  \
         network_mode: host\n  \
         # The owner of this folder: keys are for the owner alone.\n  \
         user: \"{user}:{group}\"\n  \
         read_only: true\n  \
         cap_drop: [ALL]\n  \
         security_opt: [\"no-new-privileges:true\"]\n  \
         restart: \"on-failure:3\"\n  \
         stop_grace_period: 15s\n  \
         logging: {{driver: json-file, options: {{max-size: \"10m\", max-file: \"2\"}}}}\n\n\
         services:\n"
    );
    for daemon in &federation.daemons {
        let PlannedDaemon { name, .. } = daemon;
        let (kind, config) = (daemon.kind.name(), daemon.config());
        // Writing to a String cannot fail.
        let _ = write!(
            text,
            "  {service:?}:\n    <<: *daemon\n    \
             command: [serve, {kind}, --config, {config:?}]\n    \
             working_dir: /federation\n    \
             volumes:\n      \
             - {:?}\n      \
             - {:?}\n      \
             # Of the folder, only the ledgers can be written.\n      \
             - \"./{STATE}:/federation/{STATE}\"\n",
            format!("./{config}:/federation/{config}:ro"),
            format!("./{IDENTITIES}/{name}:/federation/{IDENTITIES}/{name}:ro"),
            service = name,
        );
    }
    text
}
