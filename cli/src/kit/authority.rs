//! The certification authority of a domain: it issues certificates that state identities, and revokes them.
//!
//! * [`Authority`]: issues and revokes. It lives in a folder: `authority.pem`, `authority.key.pem`,
//!   `authority.crl.pem` (the list of what is revoked) and `issued.json` ([`record`]).
//! * [`folder`]: the folder of an identity, with its certificate, its key, and whom it believes.
//! * [`facts`]: what is in certificates and lists, also of others.
//!
//! The clock is handed in, so that tests can make certificates that have ended or not yet begun.
//!
//! Left out: authorities above authorities, keys in hardware, requests for certificates (CSR), and replacing an
//! authority by another one. A domain that needs them uses an authority of its own; daemons only want the files.

pub mod error;
pub mod facts;
mod files;
pub mod folder;
pub mod host;
pub mod record;

use std::fmt;
use std::fs::File;
use std::path::Path;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use coalloc_common::{Identity, InvalidField, Role, Time, TrustDomain, limits};
use rand::TryRng as _;
use rcgen::{
    BasicConstraints, CertificateParams, CertificateRevocationListParams, DistinguishedName,
    DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyIdMethod, KeyPair, KeyUsagePurpose,
    PKCS_ECDSA_P256_SHA256, RevokedCertParams, SanType, SerialNumber,
};

use error::AuthorityError;
use facts::{CertificateFacts, PemFacts};
use files::Readers;
use folder::TrustedDomain;
use host::HostName;
use record::{IssuedRecord, serial_bytes, serial_text};

/// The file with an authority's certificate.
pub const CERTIFICATE: &str = "authority.pem";
/// The file with an authority's key.
pub const KEY: &str = "authority.key.pem";
/// The file with an authority's list of revoked certificates.
pub const LIST: &str = "authority.crl.pem";
/// The file with what an authority has issued.
pub const RECORDS: &str = "issued.json";

/// The last second of the year 9999, after which a certificate cannot express a time.
const LAST: Time = Time::from_us(253_402_300_799_000_000);

/// Replaces a file that its owner alone may read, durably.
///
/// # Errors
/// When it cannot be written.
pub fn write_for_owner(folder: &Path, name: &str, text: &str) -> Result<(), AuthorityError> {
    files::replace(folder, name, text, Readers::Owner)
}

/// From when until when a certificate is valid.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Validity {
    /// It is valid from this second on.
    pub not_before: SystemTime,
    /// It is valid until this second.
    pub not_after: SystemTime,
}

impl Validity {
    /// Valid for this long from now on, and for some minutes before, for those whose clocks are slow.
    #[must_use]
    pub fn lasting(now: SystemTime, length: Duration) -> Self {
        // No authority lasts so long, so what is cut here is refused anyway.
        let length = length.min(limits::AUTHORITY_LIFETIME.to_std() * 2);
        Self { not_before: backdated(now), not_after: now + length }
    }
}

/// A certificate that was issued, with its key.
#[derive(Clone, PartialEq, Eq)]
pub struct Issued {
    /// The certificate.
    pub certificate_pem: String,
    /// Its key, which is secret.
    pub key_pem: String,
    /// Its serial number: hexadecimal digits in lower case.
    pub serial: String,
}

impl fmt::Debug for Issued {
    /// Shows no key.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Issued").field("serial", &self.serial).finish_non_exhaustive()
    }
}

/// Which certificates to revoke.
#[derive(Debug, Clone, Copy)]
pub enum Revocation<'a> {
    /// The one with this serial number.
    Serial(&'a str),
    /// All certificates of an identity that have not ended.
    Identity(&'a Identity),
    /// This one, even if the authority has lost its record.
    Certificate(&'a CertificateFacts),
}

/// The folder of an authority, locked for others until this is dropped.
#[derive(Debug)]
pub struct AuthorityLock {
    _folder: File,
}

impl AuthorityLock {
    /// Waits until nobody else changes the authority in a folder. Without this, two commands at a time could lose the
    /// record of a certificate.
    ///
    /// # Errors
    /// When the folder cannot be opened.
    pub fn take(folder: &Path) -> Result<Self, AuthorityError> {
        let opened =
            File::open(folder).map_err(AuthorityError::io(folder, "opening the folder"))?;
        opened.lock().map_err(AuthorityError::io(folder, "locking the folder"))?;
        Ok(Self { _folder: opened })
    }
}

/// The certification authority of a domain.
#[derive(Debug)]
pub struct Authority {
    domain: TrustDomain,
    certificate_pem: String,
    certificate: CertificateFacts,
    issuer: Issuer<'static, KeyPair>,
    list_pem: String,
    list_number: u64,
    records: Vec<IssuedRecord>,
}

impl Authority {
    /// Makes an authority for a domain, in memory only.
    ///
    /// # Errors
    /// When `now` is no time that a certificate can express, or the system gives no random numbers.
    pub fn create(domain: &TrustDomain, now: SystemTime) -> Result<Self, AuthorityError> {
        check_domain(domain)?;
        let not_after = now + limits::AUTHORITY_LIFETIME.to_std();
        check_times(backdated(now), not_after, LAST)?;
        let making = || AuthorityError::making("the certificate of an authority");
        let key = KeyPair::generate_for(&PKCS_ECDSA_P256_SHA256).map_err(making())?;
        let mut params = CertificateParams::default();
        params.distinguished_name = DistinguishedName::new();
        params.distinguished_name.push(DnType::CommonName, common_name(domain));
        params.serial_number = Some(SerialNumber::from_slice(&random_serial()?));
        params.not_before = backdated(now).into();
        params.not_after = not_after.into();
        // It issues for its identities only, and makes no authorities below it.
        params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        let certificate_pem = params.self_signed(&key).map_err(making())?.pem();
        let path = Path::new(CERTIFICATE);
        let mut authority = Self::of(domain.clone(), certificate_pem, key, Vec::new(), path)?;
        authority.crl_pem(now)?;
        Ok(authority)
    }

    /// Reads an authority from its folder.
    ///
    /// # Errors
    /// When a file is missing or cannot be used, or the files do not belong together.
    pub fn load(folder: &Path) -> Result<Self, AuthorityError> {
        let path = folder.join(RECORDS);
        let (domain, records) = record::read(&path, &files::read_text(&path)?)?;
        let path = folder.join(KEY);
        let key = KeyPair::from_pem(&files::read_text(&path)?);
        let key = key.map_err(|error| AuthorityError::content(&path, error.to_string()))?;
        let path = folder.join(CERTIFICATE);
        let mut authority = Self::of(domain, files::read_text(&path)?, key, records, &path)?;
        let path = folder.join(LIST);
        match PemFacts::read(&path) {
            Ok(facts) => {
                let numbers = facts.lists.iter().filter_map(|list| list.number);
                authority.list_number = numbers.max().unwrap_or_default();
                authority.list_pem = files::read_text(&path)?;
            }
            // The next list is made of the records alone.
            Err(AuthorityError::Io { source, .. })
                if source.kind() == std::io::ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
        Ok(authority)
    }

    fn of(
        domain: TrustDomain,
        certificate_pem: String,
        key: KeyPair,
        records: Vec<IssuedRecord>,
        path: &Path,
    ) -> Result<Self, AuthorityError> {
        let bad = |problem: String| AuthorityError::content(path, problem);
        let facts = PemFacts::of(certificate_pem.as_bytes()).map_err(bad)?;
        let certificate = facts.first(path)?.clone();
        if facts.certificates.len() != 1 || !certificate.authority {
            return Err(bad("it is not the certificate of one authority".to_owned()));
        }
        let (expected, found) = (format!("CN={}", common_name(&domain)), &certificate.subject);
        if *found != expected {
            return Err(bad(format!("it is the certificate of {found}; expected: {expected}")));
        }
        if !certificate.has_key(&key.serialize_pem()).map_err(bad)? {
            return Err(bad(format!("the key in {KEY} does not belong to it")));
        }
        let issuer = Issuer::from_ca_cert_pem(&certificate_pem, key);
        let issuer = issuer.map_err(|error| bad(error.to_string()))?;
        let (list_pem, list_number) = (String::new(), 0);
        Ok(Self { domain, certificate_pem, certificate, issuer, list_pem, list_number, records })
    }

    /// Writes the authority into a folder, with a new list of what is revoked. Key and certificate are written only if
    /// they are not there yet.
    ///
    /// # Errors
    /// When a file cannot be written, or another authority is there.
    pub fn save(&mut self, folder: &Path, now: SystemTime) -> Result<(), AuthorityError> {
        files::make_folder(folder)?;
        let list = self.crl_pem(now)?;
        let key = self.issuer.key().serialize_pem();
        let write_once = |name: &str, text: &str, readers| {
            let path = folder.join(name);
            if path.symlink_metadata().is_err() {
                return files::replace(folder, name, text, readers);
            }
            let instead = "it is of another authority; name another folder";
            match files::read_text(&path)? == text {
                true => Ok(()),
                false => Err(AuthorityError::Exists { path, instead }),
            }
        };
        write_once(KEY, &key, Readers::Owner)?;
        // What is handed out is on record before; what is revoked is on record before it is in the list.
        let records = record::write(&self.domain, &self.records);
        files::replace(folder, RECORDS, &records, Readers::All)?;
        files::replace(folder, LIST, &list, Readers::All)?;
        write_once(CERTIFICATE, &self.certificate_pem, Readers::All)
    }

    /// The domain that it vouches for.
    #[must_use]
    pub fn domain(&self) -> &TrustDomain {
        &self.domain
    }

    /// Its certificate.
    #[must_use]
    pub fn certificate(&self) -> &CertificateFacts {
        &self.certificate
    }

    /// Its certificate as PEM.
    #[must_use]
    pub fn certificate_pem(&self) -> &str {
        &self.certificate_pem
    }

    /// What it has issued, in the order of issue.
    #[must_use]
    pub fn records(&self) -> &[IssuedRecord] {
        &self.records
    }

    /// Its domain, as those who believe it have it: with the list that was made last.
    #[must_use]
    pub fn trusted(&self) -> TrustedDomain {
        TrustedDomain {
            domain: self.domain.clone(),
            authorities_pem: self.certificate_pem.clone(),
            list_pem: (!self.list_pem.is_empty()).then(|| self.list_pem.clone()),
        }
    }

    /// Issues a certificate without host names: see [`issue_with_hosts`](Self::issue_with_hosts).
    ///
    /// # Errors
    /// As [`issue_with_hosts`](Self::issue_with_hosts).
    pub fn issue(
        &mut self,
        identity: &Identity,
        validity: Validity,
    ) -> Result<Issued, AuthorityError> {
        self.issue_with_hosts(identity, &[], validity)
    }

    /// Issues a certificate with a new key. It goes out only after [`save`](Self::save), so that it can be revoked.
    ///
    /// # Errors
    /// When the identity is of another domain, the validity is not within the authority's own, or the records are full
    /// (see [`forget_ended`](Self::forget_ended)).
    pub fn issue_with_hosts(
        &mut self,
        identity: &Identity,
        hosts: &[HostName],
        validity: Validity,
    ) -> Result<Issued, AuthorityError> {
        if identity.domain != self.domain {
            let (identity, domain) = (identity.clone(), self.domain.clone());
            return Err(AuthorityError::ForeignDomain { identity, domain });
        }
        let Validity { not_before, not_after } = validity;
        check_times(not_before, not_after, self.certificate.not_after)?;
        self.check_place()?;
        let making = || AuthorityError::making("a certificate");
        let key = KeyPair::generate_for(&PKCS_ECDSA_P256_SHA256).map_err(making())?;
        let uri = identity.to_string().as_str().try_into().map_err(making())?;
        let serial = random_serial()?;
        let mut params = CertificateParams::default();
        // The URI alone says who the owner is, and nobody can take another name for it.
        params.distinguished_name = DistinguishedName::new();
        params.subject_alt_names = vec![SanType::URI(uri)];
        for host in hosts {
            params.subject_alt_names.push(match host {
                HostName::Dns(name) => {
                    SanType::DnsName(name.as_str().try_into().map_err(making())?)
                }
                HostName::Ip(address) => SanType::IpAddress(*address),
            });
        }
        params.serial_number = Some(SerialNumber::from_slice(&serial));
        params.not_before = not_before.into();
        params.not_after = not_after.into();
        params.is_ca = IsCa::ExplicitNoCa;
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.extended_key_usages = uses(identity.role);
        params.use_authority_key_identifier_extension = true;
        let certificate = params.signed_by(&key, &self.issuer).map_err(making())?;
        let serial = serial_text(&serial);
        self.records.push(IssuedRecord {
            serial: serial.clone(),
            identity: identity.clone(),
            not_before: time_of(not_before),
            not_after: time_of(not_after),
            revoked: None,
        });
        let (certificate_pem, key_pem) = (certificate.pem(), key.serialize_pem());
        Ok(Issued { certificate_pem, key_pem, serial })
    }

    /// Forgets certificates that have ended long before `now`, if the records are full; of those that are not revoked, more
    /// if that is not enough.
    pub fn forget_ended(&mut self, now: SystemTime) {
        let now = time_of(now);
        if self.records.len() >= limits::AUTHORITY_RECORDS_MAX {
            self.records.retain(|record| is_listed(record, now));
        }
        if self.records.len() >= limits::AUTHORITY_RECORDS_MAX {
            self.records.retain(|record| record.revoked.is_some() || record.not_after >= now);
        }
    }

    fn check_place(&self) -> Result<(), AuthorityError> {
        let records = self.records.len();
        if records >= limits::AUTHORITY_RECORDS_MAX {
            return Err(AuthorityError::Full { domain: self.domain.clone(), records });
        }
        Ok(())
    }

    /// Revokes certificates, and returns them. One that is revoked already keeps its time. The next list has them.
    ///
    /// # Errors
    /// When the authority has not issued such a certificate.
    pub fn revoke(
        &mut self,
        which: Revocation<'_>,
        now: SystemTime,
    ) -> Result<Vec<IssuedRecord>, AuthorityError> {
        let now = time_of(now);
        let domain = self.domain.clone();
        let missing = |what| AuthorityError::NotIssued { domain, what };
        let serials: Vec<String> = match which {
            Revocation::Serial(serial) => {
                let known = self.records.iter().any(|record| record.serial == serial);
                if !known {
                    return Err(missing(format!("a certificate with the serial number {serial}")));
                }
                vec![serial.to_owned()]
            }
            Revocation::Identity(identity) => {
                let fits = |record: &&IssuedRecord| {
                    // One that has ended may still stand behind the address of a calendar.
                    record.identity == *identity && is_listed(record, now)
                };
                let fitting = self.records.iter().filter(fits);
                let serials: Vec<String> = fitting.map(|record| record.serial.clone()).collect();
                if serials.is_empty() {
                    let days = limits::REVOKED_LISTED.as_us() / 86_400_000_000;
                    let what = format!(
                        "a certificate of {identity} that has ended less than {days} days ago, or not yet"
                    );
                    return Err(missing(what));
                }
                serials
            }
            Revocation::Certificate(certificate) => {
                let serial = &certificate.serial;
                let identity = self.check_issued(certificate)?;
                if !self.records.iter().any(|record| record.serial == *serial) {
                    self.check_place()?;
                    self.records.push(IssuedRecord {
                        serial: serial.clone(),
                        identity,
                        not_before: certificate.not_before,
                        not_after: certificate.not_after,
                        revoked: None,
                    });
                }
                vec![serial.clone()]
            }
        };
        let mut revoked = Vec::new();
        for record in &mut self.records {
            if serials.contains(&record.serial) {
                record.revoked.get_or_insert(now);
                revoked.push(record.clone());
            }
        }
        Ok(revoked)
    }

    /// Checks that it has issued a certificate, and returns whose it is.
    ///
    /// # Errors
    /// When the certificate is signed by somebody else, or states no identity of the authority's domain.
    pub fn check_issued(&self, certificate: &CertificateFacts) -> Result<Identity, AuthorityError> {
        let serial = &certificate.serial;
        let missing = |what| AuthorityError::NotIssued { domain: self.domain.clone(), what };
        let identity = certificate.identity.clone().map_err(|problem| {
            missing(format!("the certificate with the serial number {serial}: {problem}"))
        })?;
        if self.certificate.has_signed(certificate) != Some(true) || identity.domain != self.domain
        {
            return Err(missing(format!(
                "this certificate of {identity} with the serial number {serial}"
            )));
        }
        Ok(identity)
    }

    /// Makes the list of what is revoked. Each list has a greater number than the one before, even if the files of the
    /// authority were restored meanwhile.
    ///
    /// # Errors
    /// When `now` is no time that a list can express.
    pub fn crl_pem(&mut self, now: SystemTime) -> Result<String, AuthorityError> {
        let next_update = now + limits::REVOCATION_LIST_LIFETIME.to_std();
        check_times(now, next_update, LAST)?;
        let seconds = u64::try_from(time_of(now).as_us() / 1_000_000).unwrap_or_default();
        let number = seconds.max(self.list_number.saturating_add(1));
        let listed = self.records.iter().filter(|record| is_listed(record, time_of(now)));
        let revoked = listed.filter_map(|record| {
            let at = u64::try_from(record.revoked?.as_us()).unwrap_or_default();
            Some(RevokedCertParams {
                serial_number: SerialNumber::from_slice(&serial_bytes(&record.serial)),
                revocation_time: (UNIX_EPOCH + Duration::from_micros(at)).into(),
                reason_code: None,
                invalidity_date: None,
            })
        });
        let identifier = self.certificate.key_identifier();
        let params = CertificateRevocationListParams {
            this_update: now.into(),
            next_update: next_update.into(),
            crl_number: SerialNumber::from(number),
            issuing_distribution_point: None,
            revoked_certs: revoked.collect(),
            key_identifier_method: identifier
                .map_or(KeyIdMethod::Sha256, KeyIdMethod::PreSpecified),
        };
        let making = || AuthorityError::making("a list of revoked certificates");
        let list = params.signed_by(&self.issuer).map_err(making())?;
        self.list_pem = list.pem().map_err(making())?;
        self.list_number = number;
        Ok(self.list_pem.clone())
    }
}

/// Whether a certificate has not ended for so long that a list could do without it.
fn is_listed(record: &IssuedRecord, now: Time) -> bool {
    record.not_after.saturating_add(limits::REVOKED_LISTED) >= now
}

/// What a certificate may be used for. Nobody connects to users, operators and auditors.
fn uses(role: Role) -> Vec<ExtendedKeyUsagePurpose> {
    let (client, server) =
        (ExtendedKeyUsagePurpose::ClientAuth, ExtendedKeyUsagePurpose::ServerAuth);
    match role {
        Role::Coordinator | Role::ResourceManager => vec![client, server],
        Role::User | Role::Operator | Role::Auditor => vec![client],
    }
}

fn common_name(domain: &TrustDomain) -> String {
    format!("Coalloc CA of {domain}")
}

/// Refuses a domain for which there can be no files: their names are too long, or its file of authorities would be taken
/// for the list of another domain.
fn check_domain(domain: &TrustDomain) -> Result<(), AuthorityError> {
    let (name, longest) = (domain.as_str(), limits::TRUST_DOMAIN_FILE_LEN_MAX);
    if name.len() <= longest && !name.ends_with(".crl") {
        return Ok(());
    }
    let allowed = format!(
        "1 to {longest} characters that do not end with .crl, because DOMAIN.crl.pem is the name of a list"
    );
    Err(InvalidField::new("domain", InvalidField::quoted(name), allowed).into())
}

/// Checks that an interval can be expressed, is not empty, and ends by `last`.
fn check_times(start: SystemTime, end: SystemTime, last: Time) -> Result<(), AuthorityError> {
    let (start, end) = (time_of(start), time_of(end));
    if start < Time::from_us(0) || start >= last {
        let allowed = format!("1970-01-01T00:00:00Z until before {last}");
        return Err(InvalidField::new("not_before", start, allowed).into());
    }
    if end <= start || end > last {
        let allowed = format!("after {start} and up to {last}, when the authority ends");
        return Err(InvalidField::new("not_after", end, allowed).into());
    }
    Ok(())
}

fn backdated(now: SystemTime) -> SystemTime {
    now.checked_sub(limits::CERTIFICATE_BACKDATE.to_std()).unwrap_or(now)
}

/// The full second of an instant, as certificates express it.
#[must_use]
pub fn time_of(instant: SystemTime) -> Time {
    let seconds = match instant.duration_since(UNIX_EPOCH) {
        Ok(after) => i64::try_from(after.as_secs()).unwrap_or(i64::MAX),
        Err(before) => {
            let before = before.duration();
            let full = before.as_secs().saturating_add(u64::from(before.subsec_nanos() > 0));
            i64::try_from(full).map_or(i64::MIN, |seconds| -seconds)
        }
    };
    Time::from_us(seconds.saturating_mul(1_000_000))
}

/// 126 random bits in 16 bytes: the first bits are 01, so that the number is positive and always has 16 bytes.
fn random_serial() -> Result<[u8; 16], AuthorityError> {
    let mut bytes = [0; 16];
    let filled = rand::rngs::SysRng.try_fill_bytes(&mut bytes);
    filled.map_err(|error| AuthorityError::Random(error.to_string()))?;
    bytes[0] = bytes[0] & 0x3f | 0x40;
    Ok(bytes)
}

#[cfg(test)]
mod tests;
