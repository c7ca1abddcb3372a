//! The daemons that `coalloc doctor` examines: those of a folder, of single configurations, or at addresses.
//!
//! A configuration is read as its daemon reads it, so one that the daemon would refuse is a finding.

use std::path::{Path, PathBuf};

use coalloc_net::client::{Destination, Dialer};
use coalloc_net::daemon::DaemonSettings;
use coalloc_net::identity::settings::Security;
use coalloc_proto::file;
use serde_json::Value;

use super::DoctorArgs;
use super::answers::{Contact, DaemonRole, ManagerCall};
use super::findings::{Check, Finding};
use crate::kit::authority::folder::IdentityFolder;
use crate::kit::certificates::{AUTHORITIES, OPERATOR};
use crate::kit::exit::Failure;
use crate::kit::rpc;
use crate::kit::text::shell_word;
use crate::user::serve::{Kind, check};
use crate::user::up::{configurations, reached_at};

/// A daemon that is examined.
#[derive(Debug, Clone)]
pub(super) struct ExaminedDaemon {
    /// Its name, or its address if nothing else is known.
    pub(super) name: String,
    /// Where it is, and as whom it is asked.
    pub(super) contact: Contact,
    /// What of it is on this machine.
    pub(super) files: Option<DaemonFiles>,
}

/// The files of a daemon of this machine.
#[derive(Debug, Clone)]
pub(super) struct DaemonFiles {
    /// Its configuration.
    pub(super) config: PathBuf,
    /// Its ledger.
    pub(super) ledger: PathBuf,
    /// The folder with its identity; `None` in plain text.
    pub(super) identity: Option<PathBuf>,
    /// How it calls others itself.
    dialer: Dialer,
    /// The coordinators of a resource manager, by name.
    coordinators: Vec<(String, Destination)>,
}

impl ExaminedDaemon {
    /// The calls that a resource manager of this machine would make to its coordinators.
    pub(super) fn own_calls(&self) -> Vec<ManagerCall> {
        let Some(files) = &self.files else { return Vec::new() };
        let one = |(coordinator, to): &(String, Destination)| ManagerCall {
            manager: self.name.clone(),
            coordinator: coordinator.clone(),
            dialer: files.dialer.clone(),
            to: to.clone(),
            outcome: Ok(()),
        };
        files.coordinators.iter().map(one).collect()
    }
}

/// The daemons that the arguments name, and what is wrong with configurations that name none. `managers`: the addresses of
/// resource managers.
pub(super) fn all(
    args: &DoctorArgs,
    managers: &[String],
) -> Result<(Vec<ExaminedDaemon>, Vec<Finding>), Failure> {
    let names_none = args.configs.is_empty() && args.managers.is_empty() && args.grc.grc.is_none();
    let folder = args.folder.clone().or_else(|| names_none.then(|| PathBuf::from(".")));
    let mut configs = args.configs.clone();
    let mut asker = None;
    if let Some(folder) = &folder {
        if folder.is_file() {
            let shown = folder.display();
            let text = format!(
                "{shown}: is a file; needed: a folder; try: coalloc doctor --config {shown}"
            );
            return Err(Failure::bad_input(text));
        }
        let found = configurations(folder)?;
        if found.is_empty() {
            let shown = folder.display();
            return Err(Failure::bad_input(format!(
                "{shown}: has no configuration of a daemon; allowed: a folder with some, as `coalloc init` writes it\n\
                 try: coalloc doctor DIR, or --config FILE, or --grc ADDR and --rm RM"
            )));
        }
        configs.extend(found);
        let operator = folder.join(OPERATOR);
        // Without --identity, because that says as whom to ask.
        if args.grc.identity.identity.is_none() && operator.is_dir() {
            asker = Some(rpc::dialer_of(&operator)?);
        }
    }
    let asker = match asker {
        Some(asker) => asker,
        None => args.grc.identity.dialer()?,
    };
    let (mut daemons, mut found) = (Vec::new(), Vec::new());
    for config in configs {
        match of_file(&config, &asker) {
            Ok(daemon) => {
                found.push(Finding::ok(
                    &daemon.name,
                    Check::Configuration,
                    format!("{} can be read", config.display()),
                ));
                daemons.push(daemon);
            }
            Err((about, failure)) => {
                let message = failure.message.lines().next().unwrap_or_default().to_owned();
                let next = match message.contains("daemon.identity") {
                    true => {
                        let folder = identity_folder(&config).ok().flatten();
                        let folder = folder.unwrap_or_else(|| PathBuf::from("IDENTITY"));
                        format!(
                            "look at its certificate: coalloc certs show {}; if it has ended: {}",
                            shell_word(&folder.display().to_string()),
                            renewal(&folder)
                        )
                    }
                    false => {
                        let second = failure.message.lines().nth(1);
                        second.unwrap_or("mend the file, or move it elsewhere").to_owned()
                    }
                };
                found.push(Finding::failed(&about, Check::Configuration, message).then(next));
            }
        }
    }
    let coordinators = args.grc.grc.iter().flat_map(|all| all.split(','));
    let coordinators = coordinators.map(|address| (DaemonRole::Coordinator, address));
    let managers = managers.iter().map(|address| (DaemonRole::Manager, address.as_str()));
    for (role, address) in coordinators.chain(managers) {
        coalloc_net::client::check_address("ADDR", address)?;
        daemons.push(ExaminedDaemon {
            name: address.to_owned(),
            contact: Contact { role, address: address.to_owned(), dialer: asker.clone() },
            files: None,
        });
    }
    // Resource managers first, as they are started.
    daemons.sort_by_key(|daemon| daemon.contact.role == DaemonRole::Coordinator);
    Ok((daemons, found))
}

/// The command that renews the certificate in a folder. A federation that `coalloc init` has made has its authorities beside
/// its identities.
pub(super) fn renewal(folder: &Path) -> String {
    let authority = || {
        let (identity, _) = IdentityFolder::at(folder).owner().ok()?;
        let authorities = folder.parent()?.parent()?.join(AUTHORITIES);
        let path = authorities.join(identity.domain.as_str());
        path.is_dir().then(|| shell_word(&path.display().to_string()))
    };
    let authority = authority().unwrap_or_else(|| "AUTHORITY".to_owned());
    format!("coalloc certs renew --ca {authority} {}", shell_word(&folder.display().to_string()))
}

/// The daemon of a configuration; or the name of the file, and what is wrong in it.
fn of_file(path: &Path, asker: &Dialer) -> Result<ExaminedDaemon, (String, Failure)> {
    let stem = path.file_stem().map(|stem| stem.to_string_lossy().into_owned()).unwrap_or_default();
    let bad = |failure: Failure| (stem.clone(), failure);
    let kind = check::kind_of(path).map_err(|error| bad(error.into()))?;
    let Some(kind) = kind else {
        let text = format!("{}: is not the configuration of a daemon", path.display());
        return Err(bad(Failure::bad_input(format!("{text}\ncoalloc config explain"))));
    };
    // With the daemon's own checks, and a hint.
    check::configuration(kind, path).map_err(|failure| {
        let shown = shell_word(&path.display().to_string());
        let message = failure.message.lines().next().unwrap_or_default();
        let next = format!("coalloc serve {} --config {shown} --check", kind.name());
        bad(Failure::bad_input(format!("{message}\n{next}")))
    })?;
    let failed = |error: file::FileError| bad(error.into());
    let (name, settings, coordinators) = match kind {
        Kind::Grc => {
            let config = coalloc_grc::config::load(path).map_err(failed)?;
            (config.name.to_string(), config.daemon, Vec::new())
        }
        Kind::Nrm | Kind::Crm => {
            let load = if kind == Kind::Nrm { coalloc_nrm::load } else { coalloc_crm::load };
            let config = load(path).map_err(failed)?;
            let coordinators = config.coordinators.into_iter();
            let coordinators = coordinators.map(|(name, to)| (name.to_string(), to)).collect();
            (config.name.to_string(), config.daemon, coordinators)
        }
    };
    let DaemonSettings { listen, security, ledger, .. } = settings;
    let is_plain = matches!(security, Security::PlainText);
    let role = if kind == Kind::Grc { DaemonRole::Coordinator } else { DaemonRole::Manager };
    let contact = Contact {
        role,
        address: reached_at(&listen.to_string()),
        dialer: if is_plain { Dialer::plain_text() } else { asker.clone() },
    };
    let identity = identity_folder(path).map_err(failed)?.filter(|_| !is_plain);
    let dialer = security.dialer();
    let config = path.to_owned();
    let files = Some(DaemonFiles { config, ledger, identity, dialer, coordinators });
    Ok(ExaminedDaemon { name, contact, files })
}

/// The folder with the identity that a configuration names.
fn identity_folder(path: &Path) -> Result<Option<PathBuf>, file::FileError> {
    let document = file::read::<Value>(path)?;
    let folder = document.message.pointer("/daemon/identity/folder").and_then(Value::as_str);
    Ok(folder.map(|folder| document.folder().join(folder)))
}
