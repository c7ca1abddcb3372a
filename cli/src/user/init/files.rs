//! The text of every file that `coalloc init` writes, and what to type next.

use std::fmt::Write as _;
use std::path::Path;

use coalloc_proto::v1;

use super::federation::{GRC, PlannedDaemon, PlannedFederation};
use super::{STATE, compose, counts, units, yaml};
use crate::kit::certificates::{AUTHORITIES, GRID, IDENTITIES, OPERATOR, operator, trust_domain};
use crate::kit::exit::Failure;
use crate::kit::schema::Schema;
use crate::kit::text::shell_word;
use crate::user::serve::Kind;

/// The request that is there to begin with.
pub(super) const REQUEST: &str = "first-request.yaml";

/// Every file but certificates, by its path in the folder. `place` is where the folder will be.
pub(super) fn all(
    federation: &PlannedFederation,
    place: &Path,
) -> Result<Vec<(String, String)>, Failure> {
    let schema = Schema::read()?;
    let mut files = vec![
        ("README.txt".to_owned(), readme(federation, place)?),
        (REQUEST.to_owned(), request(federation)),
    ];
    for daemon in &federation.daemons {
        files.push((daemon.config(), configuration(&schema, federation, daemon)?));
    }
    files.push(("compose.yaml".to_owned(), compose::file(federation)));
    files.extend(units::all(federation, place)?);
    Ok(files)
}

/// The configuration of a daemon.
fn configuration(
    schema: &Schema,
    federation: &PlannedFederation,
    own: &PlannedDaemon,
) -> Result<String, Failure> {
    let kind = own.kind.name();
    let head = format!(
        "The configuration of {}, {} of the federation {:?}.\n\
         Start it: coalloc serve {kind} --config {config}\n\
         Check this file: coalloc serve {kind} --config {config} --check\n\
         What a field means: coalloc config explain FIELD\n\
         A line that begins with #NAME is a field that is not set: it shows the default, or an example. Relative paths \
         start from the folder of this file. A daemon reads this file when it starts.",
        own.name,
        own.kind.article_and_noun(),
        federation.file.name,
        config = own.config(),
    );
    let daemon = Some(v1::Daemon {
        listen: own.listen(),
        ledger: format!("{STATE}/{}.ledger", own.name),
        identity: Some(v1::IdentitySettings {
            folder: format!("{IDENTITIES}/{}", own.name),
            operators: vec![operator()?.to_string()],
            ..v1::IdentitySettings::default()
        }),
        ..v1::Daemon::default()
    });
    let coordinators = federation.coordinator().map(|grc| peer(grc, Vec::new())).transpose()?;
    let coordinators: Vec<v1::Peer> = coordinators.into_iter().collect();
    match own.kind {
        Kind::Grc => {
            let owned = |manager: &PlannedDaemon| peer(manager, owned_by(federation, manager));
            let resource_managers = federation.managers().map(owned).collect::<Result<_, _>>()?;
            let name = GRC.to_owned();
            let file = v1::GrcFile { daemon, name, resource_managers, ..v1::GrcFile::default() };
            yaml::explained(schema, "GrcFile", &file, &head)
        }
        Kind::Crm => {
            let inventory =
                federation.file.computes.iter().find(|one| one.name == own.name).cloned();
            let file = v1::CrmFile { daemon, inventory, coordinators, ..v1::CrmFile::default() };
            yaml::explained(schema, "CrmFile", &file, &head)
        }
        Kind::Nrm => {
            let inventory =
                federation.file.networks.iter().find(|one| one.name == own.name).cloned();
            let file = v1::NrmFile { daemon, inventory, coordinators, ..v1::NrmFile::default() };
            yaml::explained(schema, "NrmFile", &file, &head)
        }
    }
}

fn peer(daemon: &PlannedDaemon, owns: Vec<String>) -> Result<v1::Peer, Failure> {
    let (name, address) = (daemon.name.clone(), daemon.address());
    Ok(v1::Peer { name, address, identity: daemon.identity()?.to_string(), owns })
}

/// The names of sites and paths that belong to a resource manager.
fn owned_by(federation: &PlannedFederation, manager: &PlannedDaemon) -> Vec<String> {
    let computes = federation.file.computes.iter().filter(|one| one.name == manager.name);
    let sites = computes.flat_map(|one| &one.sites).map(|site| site.name.clone());
    let networks = federation.file.networks.iter().filter(|one| one.name == manager.name);
    sites.chain(networks.flat_map(|one| &one.paths).map(|path| path.name.clone())).collect()
}

/// A request that fits: two sites and the path between them, if there is one between sites, and otherwise one site.
fn request(federation: &PlannedFederation) -> String {
    /// What a first request asks for at most.
    const CPUS: u64 = 4;
    const BPS: u64 = 1_000_000_000;
    let file = &federation.file;
    let sites: Vec<&v1::Site> = file.computes.iter().flat_map(|one| &one.sites).collect();
    let site = |name: &str| sites.iter().find(|site| site.name == name);
    let mut paths = file.networks.iter().flat_map(|one| &one.paths);
    let linked = paths.find_map(|path| Some((site(&path.a)?, site(&path.b)?, path.capacity_bps)));
    let mut text = "# A request: coalloc reserve --request first-request.yaml --id first\n\
                    # Names of sites are the request's own. The coordinator finds where they fit;\n\
                    # `pinned_to: NAME` chooses one of the federation. It begins as soon as it can,\n\
                    # unless there is `earliest_start: 2026-11-21T10:00:00Z` or so.\nsites:\n"
        .to_owned();
    // Writing to a String cannot fail.
    if let Some((a, b, capacity)) = linked {
        let cpus = CPUS.min(a.cpus).min(b.cpus);
        let _ = writeln!(text, "  - {{name: a, cpus: {cpus}}}\n  - {{name: b, cpus: {cpus}}}");
        let _ = writeln!(text, "# A path between them, in bit/s.\nlinks:");
        let _ = writeln!(text, "  - {{from: a, to: b, bandwidth_bps: {}}}", BPS.min(capacity));
    } else {
        let cpus = sites.first().map_or(1, |site| CPUS.min(site.cpus));
        let _ = writeln!(text, "  - {{name: a, cpus: {cpus}}}");
    }
    let user = federation.users.first().map(|user| format!("# For whom.\nuser: {user}\n"));
    text + "# How long, in seconds.\nduration: 3600s\n" + &user.unwrap_or_default()
}

/// The commands to type next, one a line, from the folder of the federation.
fn commands(federation: &PlannedFederation) -> Vec<String> {
    let address = federation.coordinator().map(PlannedDaemon::address).unwrap_or_default();
    let user = federation.users.first().map_or("operator", String::as_str);
    vec![
        "coalloc up --detach".to_owned(),
        format!("export COALLOC_GRC={address}"),
        format!("export COALLOC_IDENTITY=\"$PWD/{IDENTITIES}/{user}\""),
        "coalloc health".to_owned(),
        "coalloc topology".to_owned(),
        format!("coalloc reserve --request {REQUEST} --id first"),
        "coalloc list".to_owned(),
    ]
}

/// What `coalloc init` prints.
pub(super) fn next_steps(federation: &PlannedFederation, folder: &Path) -> String {
    let shown = folder.display();
    let is_here = folder == Path::new(".");
    let written = if is_here { "written here".to_owned() } else { shown.to_string() };
    let mut text = format!("{written}: {}\n", counts(federation));
    let width = federation.daemons.iter().map(|daemon| daemon.name.len()).max().unwrap_or_default();
    for daemon in &federation.daemons {
        let (name, address) = (&daemon.name, daemon.address());
        let _ = writeln!(text, "  {name:<width$}  {address}");
    }
    if !federation.is_local() {
        text += "\nThe daemons run on several machines: README.txt says what each of them gets, and\nhow to start it.\n";
        return text;
    }
    text += "\nNext:\n";
    if !is_here {
        let _ = writeln!(text, "  cd {}", shell_word(&shown.to_string()));
    }
    for command in commands(federation) {
        let _ = writeln!(text, "  {command}");
    }
    text + "\nREADME.txt: how to stop it, add users, renew certificates, use systemd or Docker.\n"
}

fn readme(federation: &PlannedFederation, place: &Path) -> Result<String, Failure> {
    let mut text = format!(
        "The federation {:?}: {}.\nWritten by `coalloc init`. Commands start from this folder.\n\nFILES\n\n",
        federation.file.name,
        counts(federation)
    );
    let width = federation.daemons.iter().map(|daemon| daemon.config().len()).max();
    let width = width.unwrap_or_default().max(REQUEST.len());
    for daemon in &federation.daemons {
        let (config, kind) = (daemon.config(), daemon.kind.abbreviation());
        let address = daemon.address();
        let _ = writeln!(text, "  {config:<width$}  {kind} of {}, at {address}", daemon.domain);
    }
    for (name, what) in [
        (REQUEST, "a request to begin with"),
        ("state/", "ledgers and logs; back up the ledgers"),
        ("identities/", "certificates and keys of daemons and users"),
        ("authorities/", "who issued them; best kept where no daemon runs"),
        ("systemd/", "units for systemd"),
        ("compose.yaml", "the daemons as containers"),
    ] {
        let _ = writeln!(text, "  {name:<width$}  {what}");
    }
    let user = federation.users.first().map_or("operator", String::as_str);
    if federation.is_local() {
        let _ = writeln!(
            text,
            "\nSTART, ON THIS MACHINE\n\n  {}\n\n\
             Without --detach, `coalloc up` stays in the foreground, and Ctrl-C stops all\n\
             daemons. Detached daemons are stopped by\n\n  coalloc down",
            commands(federation).join("\n  ")
        );
    } else {
        several_machines(&mut text, federation);
    }
    let _ = writeln!(
        text,
        "\nCHANGE\n\n\
         Every field of a configuration is explained in it, and by\n\
         `coalloc config explain FIELD`. A daemon reads its file when it starts; check\n\
         it before:\n"
    );
    for daemon in &federation.daemons {
        let _ = writeln!(
            text,
            "  coalloc serve {} --config {} --check",
            daemon.kind.name(),
            daemon.config()
        );
    }
    let grid = format!("{AUTHORITIES}/{}", trust_domain(GRID)?);
    let trust: Vec<String> = federation
        .domains()
        .into_iter()
        .map(trust_domain)
        .filter(|domain| domain.as_ref().is_ok_and(|domain| domain.as_str() != GRID))
        .map(|domain| domain.map(|domain| format!("--trust {domain}={AUTHORITIES}/{domain}")))
        .collect::<Result<_, _>>()?;
    let _ = writeln!(
        text,
        "\nUSERS AND OPERATORS\n\n\
         {user} may reserve, and sees its own reservations. The identity in\n\
         {OPERATOR} may do everything for everybody. One more user:\n\n  \
         coalloc certs issue --ca {grid} --role user --name bob \\\n    --out {IDENTITIES}/bob\n\n\
         One more operator, who also believes the domains of the resource managers. They\n\
         serve an operator of grid only if daemon.identity.operators in their files\n\
         names it:\n\n  \
         coalloc certs issue --ca {grid} --role operator --name olga \\\n    --out {IDENTITIES}/olga \\\n    {}",
        trust.join(" \\\n    ")
    );
    let copied = match federation.is_local() {
        true => "",
        false => {
            " Copy\nthe folder to its machine afterwards: trust/ and key.pem first, certificate.pem last."
        }
    };
    let _ = writeln!(
        text,
        "\nRENEW\n\n`coalloc health` warns before certificates end. Renewing needs no restart.{copied}\n"
    );
    for daemon in &federation.daemons {
        let _ = writeln!(
            text,
            "  coalloc certs renew --ca {AUTHORITIES}/{} {IDENTITIES}/{}",
            trust_domain(&daemon.domain)?,
            daemon.name
        );
    }
    for name in federation.users.iter().map(String::as_str).chain(["operator"]) {
        let _ = writeln!(text, "  coalloc certs renew --ca {grid} {IDENTITIES}/{name}");
    }
    systemd(&mut text, federation, place);
    let services = if federation.is_local() { "" } else { " DAEMON" };
    let _ = writeln!(
        text,
        "\nDOCKER\n\n\
         compose.yaml runs the same configurations with the network of this machine. It\n\
         needs the image coalloc:local, which deploy/compose/build in the sources of\n\
         Coalloc makes.\n\n  \
         docker compose up --detach{services}",
    );
    Ok(text)
}

/// How systemd runs the daemons.
fn systemd(text: &mut String, federation: &PlannedFederation, place: &Path) {
    if units::is_packaged(federation, place) {
        let (folder, state) = (units::PACKAGED_FOLDER, units::PACKAGED_STATE);
        let all = federation.daemons.iter().map(|daemon| format!("coalloc@{}", daemon.name));
        let names = match federation.is_local() {
            true => all.collect::<Vec<_>>().join(" \\\n    "),
            false => "coalloc@NAME".to_owned(),
        };
        let _ = writeln!(
            text,
            "\nSYSTEMD\n\n\
             The package coalloc has the units coalloc@NAME, which run\n\
             {folder}/NAME.yaml as the user {user}, and {target} for all of\n\
             them. Ledgers are in {state}; {folder}/{STATE} is a link to it.\n\
             Where the package is not installed, make what it would have made: the program as\n\
             /usr/bin/coalloc, the user, the folder of its ledgers, and the units:\n\n  \
             sudo useradd --system --user-group --home-dir {state} {user}\n  \
             sudo install -d -o {user} -g {user} -m 750 {state}\n  \
             sudo ln -s {state} {folder}/{STATE}\n  \
             sudo cp systemd/* /etc/systemd/system/\n  \
             sudo systemctl daemon-reload\n\n\
             Either way, the user has to own its files in {folder}:\n\n  \
             sudo chown -R {user}: {folder}\n  \
             sudo systemctl enable --now {target} {names}",
            user = units::PACKAGED_USER,
            target = units::PACKAGED_TARGET,
        );
        return;
    }
    let (folder, target) = (place.display(), units::target_name(federation));
    let _ = writeln!(
        text,
        "\nSYSTEMD\n\n\
         The units run the daemons from this folder, {folder}.\n\
         Do not run `coalloc up` at the same time.\n\n  \
         sudo cp systemd/* /etc/systemd/system/\n  \
         sudo systemctl daemon-reload\n  \
         sudo systemctl enable --now {target}"
    );
}

/// What each machine gets.
fn several_machines(text: &mut String, federation: &PlannedFederation) {
    *text += "\nSTART, ON SEVERAL MACHINES\n\n\
              Each machine gets the files of its own daemons, and no others: a key belongs to\none machine.\n";
    for daemon in &federation.daemons {
        let PlannedDaemon { name, host, .. } = daemon;
        let (kind, config) = (daemon.kind.name(), daemon.config());
        let _ = writeln!(
            text,
            "\n{host}: {config} and {IDENTITIES}/{name}, and an empty folder {STATE}\n  \
             coalloc serve {kind} --config {config} --check\n  \
             coalloc serve {kind} --config {config}"
        );
    }
    *text += "\nWhoever uses it, from anywhere:\n\n";
    for command in commands(federation).iter().skip(1) {
        let _ = writeln!(text, "  {command}");
    }
}
