//! From what daemons answer and what is on this machine to findings.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::time::SystemTime;

use coalloc_common::{Span, Time, limits};
use coalloc_net::convert::span_from_wire;
use coalloc_net::needs::{PROGRAM, version_from_wire};
use coalloc_proto::v1;
use coalloc_protocol::capability::PeerVersion;

use super::answers::{ClockOffset, DaemonAnswers, DaemonRole, ManagerCall};
use super::examined::{DaemonFiles, ExaminedDaemon, renewal};
use super::findings::{Check, Finding};
use super::machine::{Synchronisation, bytes, free_bytes, ledger_bytes};
use crate::kit::expiry::Expiry;
use crate::kit::text::{self, shell_word};
use crate::user::certs;
use crate::user::init::units::PACKAGED_FOLDER;
use crate::user::wording::owed::overreaching;

/// The machine on which the command runs.
const HERE: &str = "this machine";
/// The clocks of two machines with NTP differ by some milliseconds; by this much, somebody looks at the wrong window.
const CLOCK_WARNED: Span = Span::from_secs(1);
/// Free space below which a full disk is near: a backup of the ledger beside it, and this.
const DISK_WARNED_BYTES: u64 = 100 << 20;
/// Age of a picture from which on plans of tasks are often refused: ten signs of life were missed.
const PICTURE_WARNED: Span = Span::from_secs(10 * (limits::UPDATE_PROGRESS.as_us() / 1_000_000));

/// Age of the last comparison of bookings from which on something keeps them from being compared: a whole round was missed.
const COMPARISON_WARNED: Span = Span::from_secs(2 * (limits::RECONCILE_EVERY.as_us() / 1_000_000));

/// Whether something keeps the clock of this machine right.
pub(super) fn synchronisation(state: Synchronisation) -> Finding {
    match state {
        Synchronisation::Kept => Finding::ok(HERE, Check::Clock, "kept right by NTP"),
        Synchronisation::Free => {
            Finding::warning(HERE, Check::Clock, "nothing keeps it right: NTP is not synchronised")
                .then("timedatectl set-ntp true")
        }
        Synchronisation::Unknown => {
            let why = "timedatectl does not say whether NTP keeps it right";
            Finding::not_checked(HERE, Check::Clock, why)
        }
    }
}

/// The certificate of whoever asks, if the daemons want one.
pub(super) fn own_certificate(first: Option<&ExaminedDaemon>, now: Time) -> Option<Finding> {
    let credentials = first?.contact.dialer.identity()?.current();
    let owner = &credentials.owner;
    let (begins, ends) = (owner.not_before, owner.not_after);
    let renew = "coalloc certs renew --ca AUTHORITY IDENTITY";
    let found = of_expiry("who asks", begins, ends, now, renew);
    Some(Finding { measured: format!("{}, {}", owner.identity, found.measured), ..found })
}

fn of_expiry(about: &str, begins: Time, ends: Time, now: Time, renew: &str) -> Finding {
    let expiry = Expiry::at(now, begins, ends);
    let words = expiry.words();
    match expiry {
        Expiry::Valid { ends_soon: false, .. } => Finding::ok(about, Check::Certificate, words),
        Expiry::Valid { ends_soon: true, .. } => {
            let text = format!("{words}: less than a third of its life is left");
            Finding::warning(about, Check::Certificate, text).then(renew)
        }
        Expiry::Ended(_) => Finding::failed(about, Check::Certificate, words).then(renew),
        Expiry::NotBegun(_) => Finding::failed(about, Check::Certificate, words)
            .then("compare the clocks of this machine and of whoever issued it"),
    }
}

/// The name by which a daemon is told.
fn name_of(daemon: &ExaminedDaemon, said: &DaemonAnswers) -> String {
    let described = said.description.as_ref().and_then(|one| one.as_ref().ok());
    let federation = said.federation.as_ref().and_then(|one| one.as_ref().ok());
    let known = described.map(|one| &one.name).or(federation.map(|one| &one.coordinator));
    match (&daemon.files, known) {
        (None, Some(name)) => text::line(name).into_owned(),
        _ => daemon.name.clone(),
    }
}

/// What concerns one daemon alone.
pub(super) fn daemon(daemon: &ExaminedDaemon, said: &DaemonAnswers, now: Time) -> Vec<Finding> {
    let name = name_of(daemon, said);
    let mut found = vec![serves(&name, daemon, said)];
    found.extend(said.clock.as_ref().map(|read| clock(&name, daemon, read)));
    found.extend(certificate(&name, daemon, said, now));
    found.extend(disk(&name, daemon.files.as_ref(), said.takes_holds));
    found.extend(version(&name, said));
    found
}

fn serves(name: &str, daemon: &ExaminedDaemon, said: &DaemonAnswers) -> Finding {
    let problem = match &said.serves {
        Some(Ok(words)) => match &said.description {
            Some(Ok(described)) if daemon.files.is_some() && described.name != daemon.name => {
                format!("{} answers at {}", described.name, daemon.contact.address)
            }
            _ => {
                return Finding::ok(
                    name,
                    Check::Serves,
                    format!("{words} at {}", daemon.contact.address),
                );
            }
        },
        Some(Err(problem)) => problem.clone(),
        None => "it was not asked".to_owned(),
    };
    let next = match &daemon.files {
        _ if said.is_disbelief => {
            "ask as somebody whom it lets in, with --identity DIR; `coalloc certs show DIR` says who that is"
                .to_owned()
        }
        Some(DaemonFiles { config, .. }) => {
            let (folder, name) = (config.parent().unwrap_or(Path::new(".")), &daemon.name);
            if folder == Path::new(PACKAGED_FOLDER) {
                format!("look at its log: journalctl -u coalloc@{name}; start it: systemctl start coalloc@{name}")
            } else {
                let folder = match folder.as_os_str().is_empty() || folder == Path::new(".") {
                    true => String::new(),
                    false => format!(" {}", shell_word(&folder.display().to_string())),
                };
                let up = format!("coalloc up{folder} --detach --only {name}");
                format!("start it: {up}; its log is then beside its ledger")
            }
        }
        None => "look at its log, on its machine".to_owned(),
    };
    Finding::failed(name, Check::Serves, problem).then(next)
}

fn clock(name: &str, daemon: &ExaminedDaemon, read: &Result<ClockOffset, String>) -> Finding {
    let ClockOffset { ahead_us, within_us } = match read {
        Ok(read) => *read,
        Err(_) if daemon.contact.dialer.identity().is_none() => {
            return Finding::ok(
                name,
                Check::Clock,
                "that of this machine: plain text is for loopback only",
            );
        }
        Err(why) => return Finding::not_checked(name, Check::Clock, why),
    };
    let within = about_span(within_us);
    let off = about_span(ahead_us.saturating_abs());
    let measured = match ahead_us {
        _ if ahead_us.saturating_abs() <= within_us => format!("that of this machine, to {within}"),
        0.. => format!("{off} ahead of this machine's, to {within}"),
        _ => format!("{off} behind this machine's, to {within}"),
    };
    // What is certain: the rest may be the way of the message.
    let at_least = Span::from_us(ahead_us.saturating_abs().saturating_sub(within_us).max(0));
    let next = "make NTP keep both clocks right: timedatectl set-ntp true";
    if at_least > limits::CERTIFICATE_BACKDATE {
        Finding::failed(name, Check::Clock, measured).then(next)
    } else if at_least > CLOCK_WARNED {
        Finding::warning(name, Check::Clock, measured).then(next)
    } else {
        Finding::ok(name, Check::Clock, measured)
    }
}

/// A length of time with few digits: nobody needs more of an offset or an age.
fn about_span(us: i64) -> String {
    match us {
        ..1_000 => "1 ms".to_owned(),
        1_000..1_000_000 => format!("{} ms", us / 1_000),
        1_000_000..10_000_000 => format!("{}.{} s", us / 1_000_000, us / 100_000 % 10),
        10_000_000..600_000_000 => format!("{} s", us / 1_000_000),
        _ => format!("{} min", us / 60_000_000),
    }
}

fn certificate(
    name: &str,
    daemon: &ExaminedDaemon,
    said: &DaemonAnswers,
    now: Time,
) -> Vec<Finding> {
    let folder = daemon.files.as_ref().and_then(|files| files.identity.as_ref());
    let Some(folder) = folder else {
        let shown = said.certificate.as_ref();
        let renew = "on its machine: coalloc certs renew --ca AUTHORITY IDENTITY";
        return shown
            .map(|owner| of_expiry(name, owner.not_before, owner.not_after, now, renew))
            .into_iter()
            .collect();
    };
    let folder_word = shell_word(&folder.display().to_string());
    let renew = renewal(folder);
    let show = format!("coalloc certs show {folder_word}");
    match certs::troubles(folder, SystemTime::now()) {
        Err(problem) => vec![Finding::failed(name, Check::Certificate, problem).then(show)],
        Ok(troubles) if troubles.is_none() => {
            vec![Finding::ok(name, Check::Certificate, troubles.left)]
        }
        Ok(troubles) => {
            let next = |text: &str| {
                if text.contains("certificate ends in") { renew.clone() } else { show.clone() }
            };
            let failed = troubles.problems.iter().map(|text| {
                Finding::failed(name, Check::Certificate, text.as_str()).then(show.clone())
            });
            let warned = troubles.warnings.iter().map(|text| {
                Finding::warning(name, Check::Certificate, text.as_str()).then(next(text))
            });
            failed.chain(warned).collect()
        }
    }
}

fn disk(name: &str, files: Option<&DaemonFiles>, takes_holds: Option<bool>) -> Option<Finding> {
    let full = (takes_holds == Some(false)).then(|| {
        let text = "nearly full: nothing new is held; commits and releases go on";
        Finding::failed(name, Check::Disk, text).then("free some space on the disk of its ledger")
    });
    let Some(files) = files else {
        let ok = || Finding::ok(name, Check::Disk, "enough for new holds, as it says itself");
        return full.or_else(|| takes_holds.map(|_| ok()));
    };
    let folder = files.ledger.parent().unwrap_or(&files.ledger);
    let Some(free) = free_bytes(folder) else {
        let text = format!("{} cannot be looked at", folder.display());
        return Some(full.unwrap_or_else(|| Finding::not_checked(name, Check::Disk, text)));
    };
    let ledger = ledger_bytes(&files.ledger);
    let measured =
        format!("{} free in {}; its ledger has {}", bytes(free), folder.display(), bytes(ledger));
    let next = format!("free some space in {}", shell_word(&folder.display().to_string()));
    Some(match full {
        Some(full) => {
            let measured = format!("{}; {measured}", full.measured);
            Finding::failed(name, Check::Disk, measured).then(next)
        }
        None if free < limits::LEDGER_FREE_MIN => {
            Finding::failed(name, Check::Disk, measured).then(next)
        }
        None if free < ledger.saturating_add(DISK_WARNED_BYTES) => {
            Finding::warning(name, Check::Disk, measured).then(next)
        }
        None => Finding::ok(name, Check::Disk, measured),
    })
}

fn version(name: &str, said: &DaemonAnswers) -> Option<Finding> {
    let described = said.description.as_ref().map(|one| one.as_ref().map(|one| &one.version));
    let federation = said.federation.as_ref().map(|one| one.as_ref().map(|one| &one.version));
    let said = match described.or(federation)? {
        Ok(version) => version_from_wire(version.as_ref()),
        Err(why) => return Some(Finding::not_checked(name, Check::Version, why.as_str())),
    };
    let measured = shown(&said);
    Some(match said.program == PROGRAM {
        true => Finding::ok(name, Check::Version, measured),
        false => {
            let text = format!("{measured}; this program is {PROGRAM}");
            Finding::warning(name, Check::Version, text).then(
                "upgrade the older one, and restart daemons that were started before an upgrade",
            )
        }
    })
}

fn shown(version: &PeerVersion) -> String {
    let program = if version.program.is_empty() { "an early release" } else { &version.program };
    format!("{program} (protocol {})", version.protocol)
}

/// What concerns a coordinator and its resource managers together.
pub(super) fn federation(
    daemons: &[ExaminedDaemon],
    heard: &[DaemonAnswers],
    calls: &[ManagerCall],
    now: Time,
) -> Vec<Finding> {
    let examined: BTreeSet<String> =
        daemons.iter().zip(heard).map(|(daemon, said)| name_of(daemon, said)).collect();
    // Of a coordinator that does not serve, that is said already.
    let is_silent = |name: &str| {
        (daemons.iter().zip(heard))
            .any(|(daemon, said)| daemon.name == name && !matches!(said.serves, Some(Ok(_))))
    };
    let calls = calls.iter().filter(|call| call.outcome.is_ok() || !is_silent(&call.coordinator));
    let mut found: Vec<Finding> = calls.map(let_in).collect();
    for (daemon, said) in daemons.iter().zip(heard) {
        if daemon.contact.role != DaemonRole::Coordinator {
            continue;
        }
        let name = name_of(daemon, said);
        match &said.federation {
            Some(Ok(federation)) => {
                found.extend(managers(&name, federation, &examined, now));
                found.extend(pictures(&name, said, now));
            }
            Some(Err(why)) => found.push(Finding::not_checked(&name, Check::Accepts, why.as_str())),
            // That it does not serve is said already.
            None => {}
        }
    }
    found
}

fn let_in(call: &ManagerCall) -> Finding {
    let about = format!("{} <- {}", call.coordinator, call.manager);
    match &call.outcome {
        Ok(()) => Finding::ok(&about, Check::Accepts, "answers its questions about transactions"),
        Err(why) => Finding::failed(&about, Check::Accepts, why.as_str()).then(format!(
            "is {} up, and does resource_managers in its file name {} with its address and identity?",
            call.coordinator, call.manager
        )),
    }
}

/// Whether resource managers accept a coordinator, as it has found out by its own calls within the last seconds.
fn managers(
    coordinator: &str,
    federation: &v1::DescribeFederationResponse,
    examined: &BTreeSet<String>,
    now: Time,
) -> Vec<Finding> {
    let mut found = Vec::new();
    let own = version_from_wire(federation.version.as_ref());
    for manager in &federation.resource_managers {
        let name = text::line(&manager.name).into_owned();
        let about = format!("{coordinator} -> {name}");
        found.push(if !manager.reachable {
            let problem = text::line(&manager.problem);
            Finding::failed(&about, Check::Accepts, format!("it is not reached: {problem}"))
                .then(format!("is {name} up at the address in the file of {coordinator}, and do the two believe each other?"))
        } else if manager.denies {
            Finding::failed(&about, Check::Accepts, "it answers, but lets it hold nothing")
                .then(format!("add {coordinator} to coordinators in the file of {name}, and restart {name}"))
        } else if manager.differences > 0 {
            let count = text::count(manager.differences as usize, "booking");
            Finding::warning(&about, Check::Accepts, format!("accepted; {count} differ"))
                .then(format!("coalloc repair --rm {name}"))
        } else {
            Finding::ok(&about, Check::Accepts, "accepted")
        });
        let described = manager.description.as_ref();
        if let Some(described) = described.filter(|_| manager.reachable) {
            let theirs = version_from_wire(described.version.as_ref());
            let lacking = own.capabilities.difference(&theirs.capabilities);
            let lacking: Vec<String> = lacking.map(|one| one.word().to_owned()).collect();
            if !lacking.is_empty() {
                let text =
                    format!("{} does not know {}", shown(&theirs), text::enumerate(&lacking));
                found.push(
                    Finding::warning(&about, Check::Version, text)
                        .then(format!("upgrade {name}; requests that need these are refused")),
                );
            } else if !examined.contains(&name) {
                found.push(Finding::ok(&name, Check::Version, shown(&theirs)));
            }
        }
        let life = manager.certificate.as_ref().filter(|_| !examined.contains(&name));
        let life = life.and_then(|life| {
            Some((text::time(life.not_before.as_ref())?, text::time(life.not_after.as_ref())?))
        });
        found.extend(life.map(|(from, until)| {
            of_expiry(&name, from, until, now, "tell its operators to renew it")
        }));
    }
    let rest = overreaching(federation);
    found.extend(rest.map(|text| {
        Finding::warning(coordinator, Check::Accepts, text)
            .then(format!("set owns of the resource managers in the file of {coordinator}"))
    }));
    found
}

/// How old is what a coordinator knows of each resource manager: the picture on which tasks are planned, if it keeps one, and the
/// last comparison of bookings.
fn pictures(coordinator: &str, said: &DaemonAnswers, now: Time) -> Vec<Finding> {
    let compared = match &said.comparisons {
        Some(Ok(comparisons)) => &comparisons.resource_managers,
        Some(Err(why)) => {
            return vec![Finding::not_checked(coordinator, Check::Picture, why.as_str())];
        }
        None => return Vec::new(),
    };
    let parts = said.picture.iter().flat_map(|picture| &picture.parts);
    let ages: BTreeMap<&str, Option<Span>> = parts
        .map(|part| {
            let age = part.age.as_ref();
            let age = age.and_then(|age| span_from_wire("age", age).ok());
            (part.resource_manager.as_str(), age)
        })
        .collect();
    compared
        .iter()
        .map(|one| picture(coordinator, one, ages.get(&*one.resource_manager), now))
        .collect()
}

fn picture(
    coordinator: &str,
    compared: &v1::ComparedBookings,
    age: Option<&Option<Span>>,
    now: Time,
) -> Finding {
    let name = text::line(&compared.resource_manager);
    let about = format!("{coordinator} of {name}");
    let since = text::time(compared.time.as_ref()).map(|time| now.since(time).max(Span::ZERO));
    let bookings = match since {
        Some(since) => format!("bookings compared {} ago", about_span(since.as_us())),
        None => "bookings not compared yet".to_owned(),
    };
    let measured = match age {
        None => bookings,
        Some(None) => format!("no picture, because it lets nobody watch; {bookings}"),
        Some(Some(age)) => format!("picture {} old; {bookings}", about_span(age.as_us())),
    };
    let is_old = matches!(age, Some(Some(age)) if *age > PICTURE_WARNED);
    let is_late = since.is_some_and(|since| since > COMPARISON_WARNED);
    if is_old || is_late || !compared.problem.is_empty() {
        let problem = match compared.problem.is_empty() {
            true => String::new(),
            false => format!("; {}", text::line(&compared.problem)),
        };
        let next = format!("is the connection from {coordinator} to {name} alive? its log says");
        Finding::warning(&about, Check::Picture, measured + &problem).then(next)
    } else {
        Finding::ok(&about, Check::Picture, measured)
    }
}

#[cfg(test)]
mod tests;
