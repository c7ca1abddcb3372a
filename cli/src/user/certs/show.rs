//! `coalloc certs show`: what is in the folder of an identity, in an authority's folder, or in a PEM file, and whether it
//! can be used now.
//!
//! A problem is what keeps a daemon or a user out: it makes the exit code 1. A warning is what somebody should look at.
//!
//! Left out: asking a daemon whom it believes.

use std::fmt::Write as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use clap::Args;
use coalloc_common::{Time, TrustDomain};
use serde::Serialize;

use crate::kit::authority::error::AuthorityError;
use crate::kit::authority::facts::{CertificateFacts, ListFacts, PemFacts};
use crate::kit::authority::folder::{CERTIFICATE, KEY, TRUST};
use crate::kit::authority::record::IssuedRecord;
use crate::kit::authority::{self, Authority, time_of};
use crate::kit::exit::{Answer, Exit, Failure};
use crate::kit::expiry::{Expiry, about};
use crate::kit::text;

/// Show who a certificate is for, until when, and whether it can be used
///
/// Takes the folders of identities, authorities' folders, and PEM files. Exit code 1 when a certificate has
/// ended, has not begun, was revoked, or does not fit its key or its authority.
#[derive(Debug, Clone, Args)]
#[command(after_help = "Examples:\n  coalloc certs show grc alice\n  coalloc certs show ca\n  \
                        coalloc certs show --json /etc/coalloc/identity | jq '.[0].certificates[0].not_after'")]
pub(super) struct ShowArgs {
    /// Folders and PEM files
    #[arg(value_name = "PATH", default_value = ".")]
    paths: Vec<PathBuf>,
    /// Print what was found as JSON: an array with one object for each path
    #[arg(long)]
    json: bool,
}

/// What is at one path; its field names are those of `--json`.
#[derive(Debug, Serialize, Default)]
struct Report {
    path: String,
    /// "identity", "authority" or "file".
    kind: &'static str,
    certificates: Vec<CertificateReport>,
    lists: Vec<ListReport>,
    trusts: Vec<TrustReport>,
    issued: Vec<IssuedReport>,
    /// What keeps it from being used.
    problems: Vec<String>,
    /// What somebody should look at.
    warnings: Vec<String>,
}

/// A certificate.
#[derive(Debug, Serialize)]
struct CertificateReport {
    #[serde(skip_serializing_if = "Option::is_none")]
    identity: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    role: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    domain: Option<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    hosts: Vec<String>,
    authority: bool,
    subject: String,
    issuer: String,
    serial: String,
    not_before: String,
    not_after: String,
    /// How long it lasts, for people.
    #[serde(skip)]
    left: String,
}

/// A list of revoked certificates.
#[derive(Debug, Serialize)]
struct ListReport {
    issuer: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    number: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    next_update: Option<String>,
    revoked: Vec<RevokedReport>,
}

/// A revoked certificate.
#[derive(Debug, Serialize)]
struct RevokedReport {
    serial: String,
    at: String,
}

/// A domain that is believed.
#[derive(Debug, Serialize)]
struct TrustReport {
    domain: String,
    authorities: usize,
    /// How many certificates are revoked; none when there is no list.
    #[serde(skip_serializing_if = "Option::is_none")]
    revoked: Option<usize>,
    /// Until when the authority that lasts longest is valid.
    not_after: String,
}

/// A certificate that an authority has issued.
#[derive(Debug, Serialize)]
struct IssuedReport {
    identity: String,
    serial: String,
    not_before: String,
    not_after: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    revoked: Option<String>,
    /// What has become of it, in a word.
    state: &'static str,
}

/// Runs `coalloc certs show`.
pub(super) fn run(args: &ShowArgs, now: SystemTime) -> Result<Answer, Failure> {
    let now = time_of(now);
    let reports: Result<Vec<Report>, Failure> =
        args.paths.iter().map(|path| Ok(report(path, now)?)).collect();
    let reports = reports?;
    let sound = reports.iter().all(|report| report.problems.is_empty());
    let exit = if sound { Exit::Done } else { Exit::Failed };
    let text = match args.json {
        true => text::json(&reports)?,
        false => reports.iter().map(shown).collect(),
    };
    Ok(Answer { text, exit })
}

/// What is wrong with an identity's folder.
#[derive(Debug)]
pub(crate) struct IdentityTroubles {
    /// What keeps it from being used.
    pub(crate) problems: Vec<String>,
    /// What will.
    pub(crate) warnings: Vec<String>,
    /// How long its certificate lasts, in words.
    pub(crate) left: String,
}

impl IdentityTroubles {
    /// Whether there is nothing.
    pub(crate) const fn is_none(&self) -> bool {
        self.problems.is_empty() && self.warnings.is_empty()
    }
}

/// What is wrong with an identity's folder, or why it cannot be read.
pub(crate) fn troubles(folder: &Path, now: SystemTime) -> Result<IdentityTroubles, String> {
    let report = report(folder, time_of(now)).map_err(|error| error.to_string())?;
    let left = report.certificates.first().map(|one| one.left.clone()).unwrap_or_default();
    Ok(IdentityTroubles { problems: report.problems, warnings: report.warnings, left })
}

fn report(path: &Path, now: Time) -> Result<Report, AuthorityError> {
    let mut report = Report { path: path.display().to_string(), ..Report::default() };
    if !path.is_dir() {
        report.kind = "file";
        report.add_file(path, now)?;
    } else if path.join(authority::CERTIFICATE).exists() {
        report.kind = "authority";
        report.add_authority(path, now)?;
    } else if path.join(CERTIFICATE).exists() {
        report.kind = "identity";
        report.add_identity(path, now)?;
    } else {
        return Err(AuthorityError::Content {
            path: path.to_owned(),
            problem: format!("neither {CERTIFICATE} nor {} is in it", authority::CERTIFICATE),
        });
    }
    Ok(report)
}

impl Report {
    fn add_file(&mut self, path: &Path, now: Time) -> Result<(), AuthorityError> {
        let facts = PemFacts::read(path)?;
        if facts == PemFacts::default() {
            let (path, problem) = (path.to_owned(), "there is nothing of PEM in it".to_owned());
            return Err(AuthorityError::Content { path, problem });
        }
        for certificate in &facts.certificates {
            self.add_certificate(certificate, now);
        }
        for list in &facts.lists {
            self.add_list(list, now);
        }
        if facts.keys > 0 {
            self.check_readers(path);
            self.warn(format!("there is a key in it, of which nothing is shown ({})", facts.keys));
        }
        Ok(())
    }

    fn add_authority(&mut self, folder: &Path, now: Time) -> Result<(), AuthorityError> {
        let authority = Authority::load(folder)?;
        self.add_certificate(authority.certificate(), now);
        self.check_readers(&folder.join(authority::KEY));
        let path = folder.join(authority::LIST);
        if path.exists() {
            for list in &PemFacts::read(&path)?.lists {
                self.add_list(list, now);
                if authority.certificate().has_signed_list(list) == Some(false) {
                    self.problem(format!("{} is of another authority", authority::LIST));
                }
            }
        } else {
            self.problem(format!("{} is missing; the next command makes it", authority::LIST));
        }
        self.issued = authority.records().iter().map(|record| issued(record, now)).collect();
        Ok(())
    }

    fn add_identity(&mut self, folder: &Path, now: Time) -> Result<(), AuthorityError> {
        let path = folder.join(CERTIFICATE);
        let facts = PemFacts::read(&path)?;
        let certificate = facts.first(&path)?;
        self.add_certificate(certificate, now);
        if let Err(problem) = &certificate.identity {
            self.problem(format!("the certificate states no identity: {problem}"));
        }
        self.check_key(&folder.join(KEY), certificate);
        self.add_trust(&folder.join(TRUST), &facts, now)
    }

    fn add_certificate(&mut self, certificate: &CertificateFacts, now: Time) {
        let CertificateFacts { not_before, not_after, .. } = *certificate;
        let whose = match &certificate.identity {
            _ if certificate.authority => "the authority".to_owned(),
            Ok(_) => "the certificate".to_owned(),
            Err(_) => format!("the certificate {}", certificate.serial),
        };
        let expiry = Expiry::at(now, not_before, not_after);
        let left = expiry.words();
        match expiry {
            Expiry::Ended(_) => self.problem(format!("{whose} {left}")),
            Expiry::NotBegun(_) => {
                self.problem(format!("{whose} {left}; is the clock of this machine right?"));
            }
            Expiry::Valid { .. } => self.warnings.extend(expiry.warning(&whose)),
        }
        let identity = certificate.identity.as_ref().ok();
        self.certificates.push(CertificateReport {
            identity: identity.map(ToString::to_string),
            role: identity.map(|identity| identity.role.word()),
            domain: identity.map(|identity| identity.domain.to_string()),
            hosts: certificate.hosts.iter().map(ToString::to_string).collect(),
            authority: certificate.authority,
            subject: certificate.subject.clone(),
            issuer: certificate.issuer.clone(),
            serial: certificate.serial.clone(),
            not_before: not_before.to_string(),
            not_after: not_after.to_string(),
            left,
        });
    }

    fn add_list(&mut self, list: &ListFacts, now: Time) {
        if let Some(next) = list.next_update.filter(|next| *next < now) {
            let (issuer, ago) = (&list.issuer, about(now.since(next)));
            self.warn(format!("the list of what {issuer} has revoked is {ago} too old"));
        }
        let revoked = list.revoked.iter();
        let revoked = revoked
            .map(|(serial, at)| RevokedReport { serial: serial.clone(), at: at.to_string() });
        self.lists.push(ListReport {
            issuer: list.issuer.clone(),
            number: list.number,
            next_update: list.next_update.map(|time| time.to_string()),
            revoked: revoked.collect(),
        });
    }

    fn check_key(&mut self, path: &Path, certificate: &CertificateFacts) {
        self.check_readers(path);
        match std::fs::read_to_string(path) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                self.problem(format!("{KEY} is missing"));
            }
            Err(error) => self.warn(format!("{KEY} is not checked: {error}")),
            Ok(key) => match certificate.has_key(&key) {
                Ok(true) => {}
                Ok(false) => self.problem(format!("{KEY} does not belong to the certificate")),
                Err(error) => self.warn(format!("{KEY} is not checked: {error}")),
            },
        }
    }

    /// Warns when others may read a key.
    fn check_readers(&mut self, path: &Path) {
        let Ok(metadata) = path.metadata() else { return };
        let mode = metadata.permissions().mode() & 0o777;
        let who = match (mode & 0o007, mode & 0o070) {
            (0, 0) => return,
            (0, _) => "its group",
            _ => "everybody",
        };
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        self.warn(format!("{name} can be read by {who} (mode {mode:o}): chmod 600 {name}"));
    }

    /// Adds the domains that are believed, and checks the certificate of the folder as its own domain sees it.
    fn add_trust(
        &mut self,
        folder: &Path,
        own: &PemFacts,
        now: Time,
    ) -> Result<(), AuthorityError> {
        let Some(certificate) = own.certificates.first() else { return Ok(()) };
        let own_domain = certificate.identity.as_ref().ok().map(|identity| &identity.domain);
        let mut own_is_believed = false;
        for domain in domains(folder) {
            let path = folder.join(format!("{domain}.pem"));
            let authorities = PemFacts::read(&path)?.certificates;
            let list = folder.join(format!("{domain}.crl.pem"));
            let list = if list.exists() { Some(PemFacts::read(&list)?.lists) } else { None };
            if authorities.is_empty() {
                self.problem(format!("there is no certificate in {TRUST}/{domain}.pem"));
            }
            for authority in &authorities {
                if now > authority.not_after || now < authority.not_before {
                    let state =
                        if now < authority.not_before { "has not begun" } else { "has ended" };
                    self.problem(format!("an authority of {domain} {state}"));
                }
            }
            for one in list.iter().flatten() {
                if authorities.iter().all(|authority| authority.has_signed_list(one) == Some(false))
                {
                    self.problem(format!(
                        "{domain}.crl.pem is of another authority than {domain}.pem"
                    ));
                }
                if let Some(next) = one.next_update.filter(|next| *next < now) {
                    let ago = about(now.since(next));
                    self.warn(format!("the list of what {domain} has revoked is {ago} too old"));
                }
            }
            if own_domain == Some(&domain) {
                own_is_believed = true;
                // With certificates between it and the authority, the chain is for the daemon to judge.
                let signed = |by: &CertificateFacts| by.has_signed(certificate) != Some(false);
                if own.certificates.len() == 1 && !authorities.iter().any(signed) {
                    self.problem(format!(
                        "no authority in {TRUST}/{domain}.pem has issued the certificate"
                    ));
                }
                let mut lists = list.iter().flatten();
                if let Some(at) = lists.find_map(|one| one.revoked_at(&certificate.serial)) {
                    self.problem(format!("the certificate was revoked at {at}"));
                }
            }
            let last = authorities.iter().map(|authority| authority.not_after).max();
            self.trusts.push(TrustReport {
                domain: domain.to_string(),
                authorities: authorities.len(),
                revoked: list.map(|lists| lists.iter().map(|one| one.revoked.len()).sum()),
                not_after: last.map_or_else(|| "-".to_owned(), |time| time.to_string()),
            });
        }
        if let Some(domain) = own_domain.filter(|_| !own_is_believed) {
            self.problem(format!(
                "{TRUST}/{domain}.pem is missing: the own domain is not believed"
            ));
        }
        Ok(())
    }

    fn problem(&mut self, text: String) {
        self.problems.push(text);
    }

    fn warn(&mut self, text: String) {
        self.warnings.push(text);
    }
}

/// The domains with a file of authorities in a folder, in order.
fn domains(folder: &Path) -> Vec<TrustDomain> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let mut domains: Vec<TrustDomain> = entries
        .filter_map(|entry| {
            let name = entry.file_name().into_string().ok()?;
            let domain = name.strip_suffix(".pem").filter(|name| !name.ends_with(".crl"))?;
            TrustDomain::parse("domain", domain).ok()
        })
        .collect();
    domains.sort();
    domains
}

fn issued(record: &IssuedRecord, now: Time) -> IssuedReport {
    let state = match record.revoked {
        Some(_) => "revoked",
        None if record.not_after < now => "ended",
        None if record.not_before > now => "not begun",
        None => "valid",
    };
    IssuedReport {
        identity: record.identity.to_string(),
        serial: record.serial.clone(),
        not_before: record.not_before.to_string(),
        not_after: record.not_after.to_string(),
        revoked: record.revoked.map(|time| time.to_string()),
        state,
    }
}

fn shown(report: &Report) -> String {
    let mut out = format!("{}\n", report.path);
    // Writing to a String cannot fail.
    let mut row = |name: &str, value: &str| {
        let _ = writeln!(out, "  {name:<9} {value}");
    };
    for certificate in &report.certificates {
        if let (Some(identity), Some(role), Some(domain)) =
            (&certificate.identity, certificate.role, &certificate.domain)
        {
            row("identity", identity);
            row("role", role);
            row("domain", domain);
        } else {
            let kind = if certificate.authority { "authority" } else { "subject" };
            row(kind, &certificate.subject);
        }
        if !certificate.hosts.is_empty() {
            row("hosts", &certificate.hosts.join(" "));
        }
        row("issuer", &certificate.issuer);
        row("serial", &certificate.serial);
        row("from", &certificate.not_before);
        row("until", &format!("{}, {}", certificate.not_after, certificate.left));
    }
    for list in &report.lists {
        let next = list.next_update.as_deref().unwrap_or("-");
        let revoked = list.revoked.len();
        row("revoked", &format!("{revoked} by {}; the next list is due by {next}", list.issuer));
        if report.kind == "file" {
            for one in &list.revoked {
                row("", &format!("{} at {}", one.serial, one.at));
            }
        }
    }
    for trust in &report.trusts {
        let authorities = match trust.authorities {
            1 => "1 authority".to_owned(),
            more => format!("{more} authorities"),
        };
        let revoked = trust.revoked.map_or_else(
            || "no list of what is revoked".to_owned(),
            |revoked| format!("{revoked} revoked"),
        );
        let (domain, until) = (&trust.domain, &trust.not_after);
        row("believes", &format!("{domain}: {authorities} until {until}, {revoked}"));
    }
    if !report.issued.is_empty() {
        row("issued", &report.issued.len().to_string());
        for one in &report.issued {
            let IssuedReport { state, serial, not_after, identity, .. } = one;
            row("", &format!("{state:<9} {not_after}  {serial}  {identity}"));
        }
    }
    for problem in &report.problems {
        let _ = writeln!(out, "  PROBLEM: {problem}");
    }
    for warning in &report.warnings {
        let _ = writeln!(out, "  warning: {warning}");
    }
    out
}
