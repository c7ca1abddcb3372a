//! `coalloc certs`: makes the certification authority of a domain, issues, renews and revokes the certificates of
//! daemons and users, and shows what is in them.
//!
//! The commands work on folders of this machine; no daemon is asked. A daemon notices by itself when the files of its
//! folder change.
//!
//! Left out: copying files to other machines, and what an identity may do there.

mod show;

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use clap::builder::{PossibleValuesParser, TypedValueParser as _};
use clap::{Args, Subcommand};
use coalloc_common::invalid::check_range;
use coalloc_common::{Identity, InvalidField, Role, TrustDomain, limits};

use crate::kit::authority::error::AuthorityError;
use crate::kit::authority::folder::{CERTIFICATE, IdentityFolder, KEY, TRUST, TrustedDomain};
use crate::kit::authority::host::HostName;
use crate::kit::authority::record::{IssuedRecord, parse_serial};
use crate::kit::authority::{self, Authority, AuthorityLock, Revocation, Validity};
use crate::kit::exit::{Answer, Failure};
use crate::kit::text;
pub(crate) use show::troubles;

/// Certificates by which daemons and users prove who they are.
///
/// Each domain has a certification authority, which is a folder. It issues certificates for the identities of
/// its domain, spiffe://DOMAIN/coalloc/ROLE/NAME, each into a folder that a daemon or a user points at.
#[derive(Debug, Clone, Args)]
pub struct CertsArgs {
    #[command(subcommand)]
    command: CertsCommand,
}

#[derive(Debug, Clone, Subcommand)]
enum CertsCommand {
    Init(InitArgs),
    Issue(IssueArgs),
    Renew(RenewArgs),
    Revoke(RevokeArgs),
    Show(show::ShowArgs),
}

/// Make the certification authority of a domain
///
/// Keep its folder where no daemon runs: whoever reads authority.key.pem can be everybody of the domain.
#[derive(Debug, Clone, Args)]
#[command(after_help = "Example:\n  coalloc certs init --domain north.example --out ca")]
pub struct InitArgs {
    /// The domain that the authority vouches for: a-z 0-9 . _ -
    #[arg(long, value_name = "DOMAIN")]
    domain: String,
    /// The authority's folder, which is made if it is missing
    #[arg(long, value_name = "DIR")]
    out: PathBuf,
}

/// Issue a certificate to a daemon or a user, into a folder
///
/// The folder gets certificate.pem, key.pem, and the authority in trust/. Copy it to where the daemon or the
/// user works, and nowhere else.
#[derive(Debug, Clone, Args)]
#[command(after_help = "Examples:\n  \
    coalloc certs issue --ca ca --role coordinator --name grc --out grc --host grc.north.example\n  \
    coalloc certs issue --ca ca --role user --name alice --out alice --days 7\n  \
    coalloc certs issue --ca ca --role resource-manager --name nrm-N --out nrm-N --trust south.example=south.pem")]
pub struct IssueArgs {
    /// The authority's folder
    #[arg(long, value_name = "DIR")]
    ca: PathBuf,
    /// What kind of party it is
    #[arg(long, value_parser = role_parser())]
    role: Role,
    /// Its name: of a daemon the one in its configuration, of a user the one that reserves
    #[arg(long)]
    name: String,
    /// The identity's folder, which is made if it is missing
    #[arg(long, value_name = "DIR")]
    out: PathBuf,
    #[command(flatten)]
    lifetime: Lifetime,
    /// A host name or an IP address of the daemon, for clients that compare host names; may be repeated
    #[arg(long = "host", value_name = "HOST")]
    hosts: Vec<String>,
    /// Another domain to believe: PATH is the certificate of its authority (a list NAME.crl.pem beside NAME.pem is
    /// taken along), or the authority's folder
    #[arg(long = "trust", value_name = "DOMAIN=PATH")]
    trusts: Vec<String>,
}

/// Issue a new certificate, with a new key, to the identity of a folder
///
/// The authority in trust/, and what it has revoked, become those of today. Other domains stay as they are.
/// The old certificate stays valid until it ends, unless it is revoked.
#[derive(Debug, Clone, Args)]
#[command(after_help = "Examples:\n  coalloc certs renew --ca ca grc\n  \
                        coalloc certs renew --ca ca alice --days 7")]
pub struct RenewArgs {
    /// The authority's folder
    #[arg(long, value_name = "DIR")]
    ca: PathBuf,
    /// The identity's folder
    #[arg(value_name = "IDENTITY_DIR")]
    folder: PathBuf,
    #[command(flatten)]
    lifetime: Lifetime,
}

/// Revoke certificates, and make the list of what is revoked anew
///
/// It takes effect where the list gets to: the answer says which file to copy. Revoking again does no harm.
#[derive(Debug, Clone, Args)]
#[command(after_help = "Examples:\n  coalloc certs revoke --ca ca grc\n  \
    coalloc certs revoke --ca ca --identity spiffe://north.example/coalloc/user/alice\n  \
    coalloc certs revoke --ca ca --serial 5f0d6c1e0a3b4c5d6e7f8091a2b3c4d5")]
pub struct RevokeArgs {
    /// The authority's folder
    #[arg(long, value_name = "DIR")]
    ca: PathBuf,
    #[command(flatten)]
    which: Which,
}

/// Which certificates to revoke.
#[derive(Debug, Clone, Args)]
#[group(required = true, multiple = false)]
struct Which {
    /// The identity's folder: its present certificate
    #[arg(value_name = "IDENTITY_DIR")]
    folder: Option<PathBuf>,
    /// The certificate with this serial number
    #[arg(long, value_name = "HEX")]
    serial: Option<String>,
    /// All certificates of this identity that have not ended
    #[arg(long, value_name = "URI")]
    identity: Option<String>,
}

/// How long a new certificate lasts.
#[derive(Debug, Clone, Args)]
struct Lifetime {
    /// Days until it ends, 1 to 397
    #[arg(long, value_name = "N", default_value_t = limits::CERTIFICATE_DAYS_DEFAULT)]
    days: u16,
}

impl Lifetime {
    fn from(&self, now: SystemTime) -> Result<Validity, Failure> {
        let days = check_range("--days", self.days, 1..=limits::CERTIFICATE_DAYS_MAX, "days")?;
        Ok(Validity::lasting(now, Duration::from_secs(u64::from(days) * 86_400)))
    }
}

fn role_parser() -> impl clap::builder::TypedValueParser<Value = Role> {
    let role = |word: String| {
        let found = Role::ALL.into_iter().find(|role| role.word() == word);
        found.ok_or("no such role")
    };
    PossibleValuesParser::new(Role::ALL.map(Role::word)).try_map(role)
}

/// Runs `coalloc certs`.
///
/// # Errors
/// When the input is not allowed, or a file cannot be read or written.
pub fn run(args: &CertsArgs) -> Result<Answer, Failure> {
    run_at(args, SystemTime::now())
}

fn run_at(args: &CertsArgs, now: SystemTime) -> Result<Answer, Failure> {
    match &args.command {
        CertsCommand::Init(args) => init(args, now),
        CertsCommand::Issue(args) => issue(args, now),
        CertsCommand::Renew(args) => renew(args, now),
        CertsCommand::Revoke(args) => revoke(args, now),
        CertsCommand::Show(args) => show::run(args, now),
    }
}

fn init(args: &InitArgs, now: SystemTime) -> Result<Answer, Failure> {
    let domain = TrustDomain::parse("--domain", &args.domain)?;
    let mut made = Authority::create(&domain, now)?;
    std::fs::create_dir_all(&args.out).map_err(|error| {
        Failure::bad_input(format!("{}: creating the folder failed: {error}", args.out.display()))
    })?;
    let _lock = AuthorityLock::take(&args.out)?;
    for name in [authority::CERTIFICATE, authority::KEY] {
        let path = args.out.join(name);
        if path.symlink_metadata().is_ok() {
            let instead = "name another folder";
            return Err(AuthorityError::Exists { path, instead }.into());
        }
    }
    made.save(&args.out, now)?;
    let folder = args.out.display();
    Ok(Answer::done(format!(
        "{folder}: the certification authority of {domain}, until {until}\n\
         Keep {folder}/{key} secret: whoever has it can be everybody of {domain}.\n\
         Give {folder}/{certificate} to other domains that shall believe {domain}.\n",
        until = made.certificate().not_after,
        key = authority::KEY,
        certificate = authority::CERTIFICATE,
    )))
}

/// Reads an authority, and keeps others from changing it.
fn open(folder: &Path, now: SystemTime) -> Result<(Authority, AuthorityLock), Failure> {
    if !folder.join(authority::CERTIFICATE).exists() {
        return Err(Failure::bad_input(format!(
            "--ca: {} is not allowed; allowed: a folder with {}, as `coalloc certs init` makes it",
            folder.display(),
            authority::CERTIFICATE,
        )));
    }
    let lock = AuthorityLock::take(folder)?;
    let mut authority = Authority::load(folder)?;
    authority.forget_ended(now);
    Ok((authority, lock))
}

fn issue(args: &IssueArgs, now: SystemTime) -> Result<Answer, Failure> {
    let validity = args.lifetime.from(now)?;
    let (mut authority, _lock) = open(&args.ca, now)?;
    let identity = Identity::new("--name", authority.domain().clone(), args.role, &args.name)?;
    let hosts = HostName::parse_all("--host", &args.hosts)?;
    if !hosts.is_empty() && !matches!(args.role, Role::Coordinator | Role::ResourceManager) {
        let allowed = "none: only a coordinator or a resource manager is connected to";
        return Err(InvalidField::new("--host", &hosts[0], allowed).into());
    }
    let folder = IdentityFolder::at(&args.out);
    folder.check_new()?;
    let mut trust: Vec<TrustedDomain> = Vec::new();
    for text in &args.trusts {
        let one = trusted(text)?;
        if one.domain == *authority.domain() || trust.iter().any(|it| it.domain == one.domain) {
            let allowed = "each other domain once; the authority's own domain is believed anyway";
            return Err(InvalidField::new("--trust", one.domain, allowed).into());
        }
        trust.push(one);
    }
    let issued = authority.issue_with_hosts(&identity, &hosts, validity)?;
    authority.save(&args.ca, now)?;
    trust.insert(0, authority.trusted());
    folder.write(&issued, &trust)?;
    let mut text = format!("{}: a certificate of {identity}\n", args.out.display());
    let domains: Vec<String> = trust.iter().map(|one| one.domain.to_string()).collect();
    let until = authority::time_of(validity.not_after);
    // Writing to a String cannot fail.
    let _ = writeln!(text, "  serial   {}", issued.serial);
    let _ = writeln!(text, "  until    {until}");
    let _ = writeln!(text, "  believes {}", text::enumerate(&domains));
    let _ = writeln!(text, "{KEY} in it is secret: it belongs to this identity alone.");
    Ok(Answer::done(text))
}

/// Reads `DOMAIN=PATH`.
fn trusted(text: &str) -> Result<TrustedDomain, Failure> {
    let Some((domain, path)) = text.split_once('=') else {
        let allowed = "DOMAIN=PATH, like south.example=south.pem";
        return Err(InvalidField::new("--trust", InvalidField::quoted(text), allowed).into());
    };
    let domain = TrustDomain::parse("--trust", domain)?;
    Ok(TrustedDomain::read(&domain, Path::new(path))?)
}

fn renew(args: &RenewArgs, now: SystemTime) -> Result<Answer, Failure> {
    let validity = args.lifetime.from(now)?;
    let (mut authority, _lock) = open(&args.ca, now)?;
    let folder = IdentityFolder::at(&args.folder);
    let (_, old) = folder.owner()?;
    // Otherwise whoever can write into the folder could become anybody.
    let identity = authority.check_issued(&old)?;
    let issued = authority.issue_with_hosts(&identity, &old.hosts, validity)?;
    authority.save(&args.ca, now)?;
    folder.write(&issued, &[authority.trusted()])?;
    let until = authority::time_of(validity.not_after);
    let known = authority.records().iter().find(|record| record.serial == old.serial);
    let old = match known.and_then(|record| record.revoked) {
        Some(at) => format!("The old one, {}, was revoked at {at}.", old.serial),
        None if old.not_after < authority::time_of(now) => {
            format!("The old one, {}, has ended at {}.", old.serial, old.not_after)
        }
        None => format!("The old one, {}, is valid until {}.", old.serial, old.not_after),
    };
    Ok(Answer::done(format!(
        "{}: a new certificate of {identity}\n  serial   {}\n  until    {until}\n{old}\n",
        args.folder.display(),
        issued.serial,
    )))
}

fn revoke(args: &RevokeArgs, now: SystemTime) -> Result<Answer, Failure> {
    let (mut authority, _lock) = open(&args.ca, now)?;
    let revoked = if let Some(folder) = &args.which.folder {
        let (_, certificate) = IdentityFolder::at(folder).owner()?;
        authority.revoke(Revocation::Certificate(&certificate), now)?
    } else if let Some(serial) = &args.which.serial {
        authority.revoke(Revocation::Serial(&parse_serial("--serial", serial)?), now)?
    } else {
        let identity = args.which.identity.as_deref().unwrap_or_default();
        authority.revoke(Revocation::Identity(&Identity::parse("--identity", identity)?), now)?
    };
    authority.save(&args.ca, now)?;
    let mut text = String::new();
    for IssuedRecord { serial, identity, revoked, not_after, .. } in &revoked {
        let at = revoked.map_or_else(|| "-".to_owned(), |at| at.to_string());
        let _ = writeln!(text, "revoked at {at}: {identity}");
        let _ = writeln!(text, "  serial   {serial}");
        let _ = writeln!(text, "  until    {not_after}");
    }
    let (folder, list, domain) = (args.ca.display(), authority::LIST, authority.domain());
    let _ = writeln!(
        text,
        "Copy {folder}/{list} to {TRUST}/{domain}.crl.pem beside {CERTIFICATE}\nof every daemon and user that \
         believes {domain}: until then, they believe what is revoked."
    );
    Ok(Answer::done(text))
}

#[cfg(test)]
mod tests;
