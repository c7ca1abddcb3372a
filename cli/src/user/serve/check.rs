//! `coalloc serve --check`: reads a configuration and everything that it names, as the daemon would, and says what is
//! wrong or what the daemon would be. Nothing is started or changed.
//!
//! Left out: whether other daemons can be reached (`coalloc health`), and whether a ledger is sound
//! (`coalloc ledger verify`).

use std::fmt::Write as _;
use std::io;
use std::net::SocketAddr;
use std::path::Path;
use std::time::SystemTime;

use coalloc_common::InvalidField;
use coalloc_grc::config::GrcConfig;
use coalloc_net::daemon::{DaemonSettings, at_line};
use coalloc_net::identity::settings::Security;
use coalloc_proto::file::{self, FileError};
use coalloc_rm::config::RmConfig;
use rustix::fs::{Access, access};
use serde_json::Value;

use super::Kind;
use crate::kit::authority::time_of;
use crate::kit::exit::{Answer, Failure};
use crate::kit::expiry::Expiry;
use crate::kit::text;
use crate::user::config::{self, without_indices};

/// Runs `coalloc serve --check`.
///
/// # Errors
/// The first thing that is wrong, with its line.
pub fn run(kind: Kind, config: &Path) -> Result<Answer, Failure> {
    let summary = configuration(kind, config)?;
    Ok(Answer::done(format!("{}: ok\n{summary}", config.display())))
}

/// Checks a configuration, and says what the daemon would be.
///
/// # Errors
/// The first thing that is wrong, with its line.
pub fn configuration(kind: Kind, path: &Path) -> Result<String, Failure> {
    match kind {
        Kind::Nrm => coalloc_nrm::load(path).and_then(|config| manager(path, &config)),
        Kind::Crm => coalloc_crm::load(path).and_then(|config| manager(path, &config)),
        Kind::Grc => coalloc_grc::config::load(path).and_then(|config| coordinator(path, &config)),
    }
    .map_err(|error| with_hint(kind, path, &error))
}

/// The error, and what to type next.
fn with_hint(kind: Kind, path: &Path, error: &FileError) -> Failure {
    let hint = match (kind_of(path).ok().flatten(), error) {
        (Some(other), _) if other != kind => {
            let (path, other) = (path.display(), other.name());
            format!(
                "it looks like the file of another daemon: coalloc serve {other} --config {path} --check"
            )
        }
        (_, FileError::Mistake { field, .. }) if !field.is_empty() => {
            let field = without_indices(field.trim_end_matches(": "));
            match config::fields().contains(&field) {
                true => format!("what the field means: coalloc config explain {field}"),
                false => "all fields: coalloc config explain".to_owned(),
            }
        }
        (_, FileError::Unreadable { source, .. }) if source.kind() == io::ErrorKind::NotFound => {
            "coalloc init writes the configurations of a whole federation, with what each field means"
                .to_owned()
        }
        _ => "all fields: coalloc config explain".to_owned(),
    };
    Failure::bad_input(format!("{error}\n{hint}"))
}

/// The kind of daemon whose configuration a file seems to be; `None`: it is no configuration of a daemon.
///
/// # Errors
/// When it cannot be read, or is a daemon's configuration of which nobody can say the kind.
pub fn kind_of(path: &Path) -> Result<Option<Kind>, FileError> {
    let document = file::read::<Value>(path)?;
    let message = &document.message;
    let has = |value: &Value, name: &str| value.get(name).is_some();
    let inventory = message.get("inventory").unwrap_or(&Value::Null);
    if has(message, "resource_managers") || has(message, "resourceManagers") {
        Ok(Some(Kind::Grc))
    } else if has(inventory, "paths") {
        Ok(Some(Kind::Nrm))
    } else if has(inventory, "sites") {
        Ok(Some(Kind::Crm))
    } else if has(message, "daemon") {
        let allowed = "it is no coordinator, which has `resource_managers`, and no resource manager, which has \
                       `inventory` with `paths` or `sites`";
        Err(document.mistake("daemon", allowed))
    } else {
        Ok(None)
    }
}

fn manager(path: &Path, config: &RmConfig) -> Result<String, FileError> {
    let mut rows = daemon(path, &config.daemon)?;
    let description = &config.description;
    let noun = if description.paths.is_empty() { "CRM" } else { "NRM" };
    rows.insert(0, (noun, format!("{} of the domain {}", config.name, description.domain)));
    for site in &description.sites {
        rows.push(("site", format!("{}: {}", site.name, text::amounts(site.cpus, &[]))));
    }
    for path in &description.paths {
        let rate = text::rate(path.capacity_bps);
        rows.push(("path", format!("{}: {rate} between {} and {}", path.name, path.a, path.b)));
    }
    for (name, destination) in &config.coordinators {
        rows.push(("coordinator", format!("{name} at {}", destination.address)));
    }
    rows.push(("books ahead", config.policy.horizon.to_string()));
    let driver = if config.driver.is_some() {
        "configured"
    } else {
        "none: bookings are lines in a timetable"
    };
    rows.push(("equipment", driver.to_owned()));
    Ok(table(&rows))
}

fn coordinator(path: &Path, config: &GrcConfig) -> Result<String, FileError> {
    let mut rows = daemon(path, &config.daemon)?;
    rows.insert(0, ("coordinator", config.name.to_string()));
    let web = |address| match config.daemon.security {
        Security::PlainText => format!("http://{address}"),
        Security::Proven(_) => format!("https://{address}"),
    };
    rows.push(("over HTTP", config.web_listen.map_or_else(|| "nowhere".to_owned(), web)));
    rows.extend(
        config.web_experiments.iter().map(|path| ("experiments", path.display().to_string())),
    );
    for (name, destination) in &config.rms {
        rows.push(("manages", format!("{name} at {}", destination.address)));
    }
    if let Some(upward) = &config.upward {
        let parents: Vec<String> = upward.coordinators.keys().map(ToString::to_string).collect();
        rows.push(("serves", text::enumerate(&parents)));
    }
    rows.push(("remembers", config.retention.to_string()));
    Ok(table(&rows))
}

/// What every daemon has. Checks also what only shows when the daemon starts.
fn daemon(path: &Path, daemon: &DaemonSettings) -> Result<Vec<(&'static str, String)>, FileError> {
    let ledger = &daemon.ledger;
    let folder = ledger.parent().filter(|parent| !parent.as_os_str().is_empty());
    let folder = folder.unwrap_or(Path::new("."));
    for written in [Some(folder), ledger.exists().then_some(ledger.as_path())].into_iter().flatten()
    {
        if let Err(error) = access(written, Access::READ_OK | Access::WRITE_OK) {
            let allowed =
                format!("a file that this user may write; {}: {error}", written.display());
            let error = InvalidField::new("daemon.ledger", ledger.display(), allowed);
            return Err(in_file(path, &error));
        }
    }
    let state = if ledger.exists() { "there" } else { "will be made" };
    let mut rows = vec![
        ("listens at", daemon.listen.to_string()),
        ("ledger", format!("{}, {state}", ledger.display())),
    ];
    if daemon.shared_ledger.is_some() {
        rows.push(("shared ledger", "in etcd, read when the daemon starts".to_owned()));
    }
    match &daemon.security {
        Security::PlainText => {
            rows.push(("identity", "none: everybody may do everything, in plain text".to_owned()))
        }
        Security::Proven(identity) => {
            let owner = &identity.store.current().owner;
            let expiry = Expiry::at(time_of(SystemTime::now()), owner.not_before, owner.not_after);
            rows.push(("identity", format!("{}, {}", owner.identity, expiry.words())));
        }
    }
    rows.push(("metrics", daemon.metrics_listen.map_or_else(|| "nowhere".to_owned(), metrics)));
    Ok(rows)
}

fn metrics(address: SocketAddr) -> String {
    format!("http://{address}/metrics")
}

/// The error with the line of its field.
fn in_file(path: &Path, error: &InvalidField) -> FileError {
    match file::read::<Value>(path) {
        Ok(document) => at_line(&document, error),
        Err(error) => error,
    }
}

fn table(rows: &[(&str, String)]) -> String {
    let mut text = String::new();
    for (name, value) in rows {
        // Writing to a String cannot fail.
        let _ = writeln!(text, "  {name:<13} {value}");
    }
    text
}
