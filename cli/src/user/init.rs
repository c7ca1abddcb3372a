//! `coalloc init`: writes a federation of one's own into a folder: a configuration for each daemon, certificates,
//! a first request, and what starts the daemons under systemd or in containers.
//!
//! * [`flags`]: the words of the command line.
//! * [`federation`]: from these words to domains, daemons and addresses. Pure.
//! * [`yaml`]: a configuration with an explanation of every field. Pure.
//! * [`files`]: the text of every file. [`units`] and [`compose`] have those of systemd and of Docker.
//!
//! Everything is written into a temporary folder and moved when all of it is there and every configuration has been
//! read back as its daemon reads it. So a mistake leaves nothing behind.
//!
//! Left out: starting anything (`coalloc up`), and trees of coordinators.

mod compose;
mod federation;
mod files;
mod flags;
pub(crate) mod units;
mod yaml;

use std::io::{IsTerminal as _, Write as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use clap::Args;
use coalloc_common::invalid::check_range;
use coalloc_common::{Role, limits};
use tempfile::TempDir;

use crate::kit::certificates::{Certificates, GRID, identity, operator, trust_domain};
use crate::kit::exit::{Answer, Exit, Failure};
use crate::kit::interruption::interrupted;
use crate::kit::text;
use crate::user::serve::check;
use federation::PlannedFederation;
use flags::{HostFlag, LinkFlag, SiteFlag, SiteName};

/// The folder with the ledgers and logs of all daemons.
const STATE: &str = "state";

/// Write a federation of your own: configurations, certificates, and what starts it
///
/// Every domain gets a certification authority, a resource manager for its sites (a CRM) and one for its links (an NRM);
/// one coordinator is over all of them. A site without a DOMAIN is a domain of its own. A link without a DOMAIN belongs to
/// the domain that has both of its ends, or else to the domain `network`. Every field of the files is explained in them.
#[derive(Debug, Clone, Args)]
#[command(after_help = "Examples:\n  \
    coalloc init first --site tokyo=16 --site osaka=8 --link tokyo-osaka=10G\n  \
    coalloc init labs --site east:a=64 --site east:b=64 --link east:a-b=40G \\\n      \
    --site west:c=32 --exchange ix --link east:b-ix=10G --link west:c-ix=10G\n  \
    coalloc init wide --site north=64 --host north=10.0.1.5 \\\n      \
    --host grid=grc.example.org")]
pub struct InitArgs {
    /// The folder, which must be missing, or empty but for a folder `state`
    #[arg(value_name = "DIR", default_value = ".")]
    folder: PathBuf,
    /// A site and its CPUs; may be repeated
    #[arg(long = "site", value_name = "[DOMAIN:]NAME=CPUS")]
    sites: Vec<SiteFlag>,
    /// A path between two sites or exchange points, and its rate (K, M, G, T: bit/s); may be repeated
    #[arg(long = "link", value_name = "[DOMAIN:]A-B=RATE")]
    links: Vec<LinkFlag>,
    /// A point without CPUs at which links of several domains meet; may be repeated
    #[arg(long = "exchange", value_name = "NAME")]
    exchanges: Vec<SiteName>,
    /// Where the daemons of a domain run: a host name or an IP address. The coordinator's domain is `grid`. Once one is
    /// said, all have to be [default: all on this machine, 127.0.0.1]
    #[arg(long = "host", value_name = "DOMAIN=ADDR")]
    hosts: Vec<HostFlag>,
    /// The coordinator's port; the resource managers have the next ones
    #[arg(long, value_name = "PORT", default_value_t = 7_000, value_parser = clap::value_parser!(u16).range(1..))]
    port_base: u16,
    /// Somebody who reserves, with a certificate; may be repeated
    #[arg(long = "user", value_name = "NAME", default_value = "alice")]
    users: Vec<String>,
    /// Days until the certificates end, 1 to 397
    #[arg(long, value_name = "N", default_value_t = limits::CERTIFICATE_DAYS_DEFAULT)]
    days: u16,
}

/// Runs `coalloc init`.
///
/// # Errors
/// When a flag is wrong, the folder is not empty, or a file cannot be written. Then nothing is left behind.
pub fn run(args: &InitArgs) -> Result<Answer, Failure> {
    let days = check_range("--days", args.days, 1..=limits::CERTIFICATE_DAYS_MAX, "days")?;
    let target = Target::check(&args.folder)?;
    let args = with_answers(args)?;
    let federation = PlannedFederation::of(&args, target.name())?;
    let next = files::next_steps(&federation, &args.folder);
    whole_or_nothing(move |interruption| {
        let draft = target.draft()?;
        write(&federation, draft.path(), &target.path, days, interruption)?;
        Ok((target, draft))
    })?;
    Ok(Answer::done(next))
}

/// Whether somebody has interrupted the command.
#[derive(Debug, Clone, Default)]
struct Interruption(Arc<AtomicBool>);

impl Interruption {
    fn happened(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    /// # Errors
    /// When it has happened.
    fn check(&self) -> Result<(), Failure> {
        match self.0.load(Ordering::Relaxed) {
            true => Err(Self::failure()),
            false => Ok(()),
        }
    }

    fn failure() -> Failure {
        Failure::new(Exit::Interrupted, "interrupted: nothing was written")
    }
}

/// Writes the draft and moves it to its place. Whoever interrupts this finds nothing of it: keys are in it.
fn whole_or_nothing(
    write: impl FnOnce(&Interruption) -> Result<(Target, TempDir), Failure> + Send + 'static,
) -> Result<(), Failure> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|error| Failure::internal(format!("no runtime: {error}")))?;
    runtime.block_on(async {
        let interruption = Interruption::default();
        let stop = interrupted();
        tokio::pin!(stop);
        // From here on a signal is noticed, and no longer ends this process.
        tokio::select! {
            biased;
            () = &mut stop => return Err(Interruption::failure()),
            () = std::future::ready(()) => {}
        }
        let seen = interruption.clone();
        let mut written = tokio::task::spawn_blocking(move || write(&seen));
        let written = tokio::select! {
            biased;
            () = &mut stop => {
                interruption.happened();
                written.await
            }
            written = &mut written => written,
        };
        let (target, draft) = written.map_err(|error| Failure::internal(error.to_string()))??;
        interruption.check()?;
        target.place(draft)
    })
}

/// Asks at a terminal for the sites and links that the flags do not name.
fn with_answers(args: &InitArgs) -> Result<InitArgs, Failure> {
    let mut args = args.clone();
    if !args.sites.is_empty() {
        return Ok(args);
    }
    if std::io::stdin().is_terminal() {
        args.sites = ask("Sites and their CPUs, like `tokyo=16 osaka=8`", "--site")?;
    }
    if args.sites.is_empty() {
        return Err(Failure::bad_input(
            "--site: it is missing; needed: at least one site, like --site tokyo=16\n\
             try: coalloc init my-federation --site tokyo=16 --site osaka=8 --link tokyo-osaka=10G",
        ));
    }
    if args.sites.len() > 1 && args.links.is_empty() {
        args.links = ask("Links and their rates, like `tokyo-osaka=10G`; or nothing", "--link")?;
    }
    Ok(args)
}

/// The words of a line that somebody types.
fn ask<T: std::str::FromStr<Err = String>>(question: &str, flag: &str) -> Result<Vec<T>, Failure> {
    let failed = |error| Failure::internal(format!("the terminal: {error}"));
    let mut stderr = std::io::stderr();
    write!(stderr, "{question}: ").and_then(|()| stderr.flush()).map_err(failed)?;
    let mut line = String::new();
    std::io::stdin().read_line(&mut line).map_err(failed)?;
    let word = |word: &str| {
        word.parse().map_err(|error| Failure::bad_input(format!("{flag} {word}: {error}")))
    };
    line.split_whitespace().map(word).collect()
}

/// The folder that is to be filled.
#[derive(Debug)]
struct Target {
    path: PathBuf,
    /// Whether it is there, and empty.
    exists: bool,
}

impl Target {
    fn check(folder: &Path) -> Result<Self, Failure> {
        let shown = folder.display();
        let bad = |error: std::io::Error| Failure::bad_input(format!("{shown}: {error}"));
        let path = std::path::absolute(folder).map_err(bad)?;
        if path.to_str().is_none_or(|text| text.chars().any(char::is_control)) {
            let text = "is not allowed; allowed: a path in UTF-8 without control characters";
            return Err(Failure::bad_input(format!("{shown}: {text}")));
        }
        if path.symlink_metadata().is_err() {
            return Ok(Self { path, exists: false });
        }
        let path = path.canonicalize().map_err(bad)?;
        for entry in std::fs::read_dir(&path).map_err(bad)? {
            let first = entry.map_err(bad)?.file_name();
            // The Debian package has made it, as a link to where state belongs.
            if first == STATE && path.join(STATE).is_dir() {
                continue;
            }
            return Err(Failure::bad_input(format!(
                "{shown}: is not empty, it has {first:?}; allowed: a folder that is empty or missing\n\
                 try: coalloc init NEW-FOLDER, with the same flags"
            )));
        }
        Ok(Self { path, exists: true })
    }

    /// The folder's own name.
    fn name(&self) -> &str {
        self.path.file_name().and_then(|name| name.to_str()).unwrap_or("federation")
    }

    /// A folder for the files until all are there. It is on the same file system, so that they can be moved.
    fn draft(&self) -> Result<TempDir, Failure> {
        let parent = self.path.parent().unwrap_or(Path::new("/"));
        let place = if self.exists { &self.path } else { parent };
        let draft = std::fs::create_dir_all(place)
            .and_then(|()| tempfile::Builder::new().prefix(".coalloc-init-").tempdir_in(place));
        draft.map_err(|error| Failure::bad_input(format!("{}: {error}", place.display())))
    }

    /// Moves what was written to where it belongs.
    fn place(&self, draft: TempDir) -> Result<(), Failure> {
        let failed = |error| Failure::internal(format!("{}: {error}", self.path.display()));
        if !self.exists {
            std::fs::rename(draft.path(), &self.path).map_err(failed)?;
            // It is no longer there to be removed.
            let _ = draft.keep();
            return Ok(());
        }
        for entry in std::fs::read_dir(draft.path()).map_err(failed)? {
            let entry = entry.map_err(failed)?;
            if entry.file_name() == STATE && self.path.join(STATE).exists() {
                continue;
            }
            std::fs::rename(entry.path(), self.path.join(entry.file_name())).map_err(failed)?;
        }
        draft.close().map_err(failed)
    }
}

/// Writes all files into `folder`, which will be `place`.
fn write(
    federation: &PlannedFederation,
    folder: &Path,
    place: &Path,
    days: u16,
    interruption: &Interruption,
) -> Result<(), Failure> {
    let failed = |path: &Path| {
        let path = path.display().to_string();
        move |error: std::io::Error| Failure::internal(format!("{path}: {error}"))
    };
    std::fs::create_dir(folder.join(STATE)).map_err(failed(folder))?;
    certificates(federation, folder, days, interruption)?;
    for (name, text) in files::all(federation, place)? {
        interruption.check()?;
        let path = folder.join(name);
        if let Some(parent) = path.parent() {
            std::fs::create_dir_all(parent).map_err(failed(parent))?;
        }
        std::fs::write(&path, text).map_err(failed(&path))?;
    }
    for daemon in &federation.daemons {
        let checked = check::configuration(daemon.kind, &folder.join(daemon.config()));
        checked.map_err(|failure| Failure::internal(failure.message))?;
    }
    Ok(())
}

/// Makes an authority for each domain, and the identities of daemons, of the users and of the operator.
fn certificates(
    federation: &PlannedFederation,
    folder: &Path,
    days: u16,
    interruption: &Interruption,
) -> Result<(), Failure> {
    let domains = federation.daemons.iter().map(|daemon| trust_domain(&daemon.domain));
    let domains: Vec<_> = domains.collect::<Result<_, _>>()?;
    let lifetime = Duration::from_secs(u64::from(days) * 86_400);
    let mut certificates = Certificates::new(folder, domains, lifetime)?;
    for daemon in &federation.daemons {
        interruption.check()?;
        certificates.issue(&daemon.name, &daemon.identity()?, &daemon.hosts()?)?;
    }
    certificates.issue("operator", &operator()?, &[])?;
    for user in &federation.users {
        certificates.issue(user, &identity(GRID, Role::User, user)?, &[])?;
    }
    Ok(())
}

/// How many daemons there are, in words.
fn counts(federation: &PlannedFederation) -> String {
    let domains = text::count(federation.domains().len(), "domain");
    let sites = federation.file.computes.iter().map(|one| one.sites.len()).sum();
    let links = federation.file.networks.iter().map(|one| one.paths.len()).sum();
    format!(
        "{domains}, {}, {}, {}",
        text::count(sites, "site"),
        text::count(links, "link"),
        text::count(federation.daemons.len(), "daemon")
    )
}

#[cfg(test)]
mod tests;
