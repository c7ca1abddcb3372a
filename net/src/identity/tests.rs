//! Who is believed, and what either end is told when it is not: over pipes, with certificates made for the purpose.

use std::path::Path;
use std::time::{Duration, SystemTime};

use coalloc_common::Role;
use rcgen::{
    BasicConstraints, CertificateParams, CertificateRevocationListParams, DistinguishedName,
    DnType, IsCa, Issuer, KeyIdMethod, KeyPair, KeyUsagePurpose, RevokedCertParams, SanType,
    SerialNumber,
};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, UnixTime};
use tempfile::TempDir;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, duplex};

use super::certificate::CertificateOwner;
use super::client::{ExpectedServer, HandshakeError, secure};
use super::server::{ClientCertificates, TlsServer};
use super::store::{CERTIFICATE, IdentityStore, KEY, TRUST};
use super::trust::{Trust, Use};
use super::*;

mod times;

const DAY: Duration = Duration::from_secs(86_400);

pub(crate) struct Authority {
    domain: &'static str,
    pem: String,
    issuer: Issuer<'static, KeyPair>,
}

/// A certificate and its key, as PEM.
pub(crate) struct Leaf(pub(crate) String, pub(crate) String);

pub(crate) fn uri(text: &str) -> SanType {
    SanType::URI(text.try_into().unwrap())
}

impl Authority {
    pub(crate) fn new(domain: &'static str) -> Self {
        Self::of_length(domain, 0)
    }

    /// With at most so many authorities between it and a certificate.
    fn of_length(domain: &'static str, length: u8) -> Self {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::default();
        params.distinguished_name = DistinguishedName::new();
        params.distinguished_name.push(DnType::CommonName, format!("CA of {domain}"));
        params.is_ca = IsCa::Ca(BasicConstraints::Constrained(length));
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        let pem = params.self_signed(&key).unwrap().pem();
        Self { domain, pem, issuer: Issuer::new(params, key) }
    }

    /// Valid from and until so many days from now.
    fn leaf(&self, names: Vec<SanType>, serial: u64, valid: [i64; 2]) -> Leaf {
        let day = |days: i64| {
            let now = SystemTime::now();
            let length = DAY * u32::try_from(days.abs()).unwrap();
            if days < 0 { now - length } else { now + length }
        };
        self.leaf_from(names, serial, valid.map(day))
    }

    pub(crate) fn leaf_from(
        &self,
        names: Vec<SanType>,
        serial: u64,
        valid: [SystemTime; 2],
    ) -> Leaf {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::default();
        params.distinguished_name = DistinguishedName::new();
        params.subject_alt_names = names;
        params.serial_number = Some(SerialNumber::from(serial));
        params.not_before = valid[0].into();
        params.not_after = valid[1].into();
        Leaf(params.signed_by(&key, &self.issuer).unwrap().pem(), key.serialize_pem())
    }

    pub(crate) fn of(&self, identity: &str) -> Leaf {
        self.leaf(vec![uri(identity)], 7, [-1, 1])
    }

    /// The list with these serial numbers.
    pub(crate) fn revoked(&self, serials: &[u64]) -> String {
        let now = SystemTime::now();
        let one = |serial: &u64| RevokedCertParams {
            serial_number: SerialNumber::from(*serial),
            revocation_time: now.into(),
            reason_code: None,
            invalidity_date: None,
        };
        let params = CertificateRevocationListParams {
            this_update: now.into(),
            next_update: (now + DAY).into(),
            crl_number: SerialNumber::from(1_u64),
            issuing_distribution_point: None,
            revoked_certs: serials.iter().map(one).collect(),
            key_identifier_method: KeyIdMethod::Sha256,
        };
        params.signed_by(&self.issuer).unwrap().pem().unwrap()
    }
}

pub(crate) fn folder(leaf: &Leaf, believed: &[&Authority]) -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &Path, text: &str| std::fs::write(folder.path().join(name), text).unwrap();
    std::fs::create_dir(folder.path().join(TRUST)).unwrap();
    write(Path::new(CERTIFICATE), &leaf.0);
    write(Path::new(KEY), &leaf.1);
    for authority in believed {
        write(&Path::new(TRUST).join(format!("{}.pem", authority.domain)), &authority.pem);
    }
    folder
}

pub(crate) fn der(leaf: &Leaf) -> CertificateDer<'static> {
    CertificateDer::from_pem_slice(leaf.0.as_bytes()).unwrap()
}

#[test]
fn a_certificate_states_exactly_one_identity() {
    let north = Authority::new("north");
    let alice = "spiffe://north/coalloc/user/alice";
    let dns = || SanType::DnsName("north".try_into().unwrap());
    let read = |names: Vec<SanType>| CertificateOwner::read(&der(&north.leaf(names, 1, [-1, 1])));
    let owner = read(vec![dns(), uri(alice), SanType::IpAddress([127, 0, 0, 1].into())]).unwrap();
    assert_eq!((owner.identity.to_string(), owner.identity.role), (alice.to_owned(), Role::User));
    for names in [
        vec![dns()],
        vec![uri(alice), uri("spiffe://north/coalloc/operator/alice")],
        vec![uri(alice), uri("https://north/alice")],
        vec![uri(alice), uri(alice)],
        vec![uri("https://north/alice")],
        vec![uri("spiffe://north/coalloc/user/")],
    ] {
        assert!(matches!(read(names), Err(Disbelief::NoIdentity(_))));
    }
    let garbage = CertificateOwner::read(&CertificateDer::from(b"certificate".as_slice()));
    assert!(matches!(garbage, Err(Disbelief::NoIdentity(_))));
}

#[test]
fn an_authority_vouches_for_its_own_domain_and_for_what_it_has_not_revoked() {
    let (north, south) = (Authority::new("north"), Authority::new("south"));
    let of = |authority: &Authority, domain: &str| {
        authority.of(&format!("spiffe://{domain}/coalloc/coordinator/grc"))
    };
    let both = folder(&of(&north, "north"), &[&north, &south]);
    let trust = |folder: &TempDir| Trust::read(&folder.path().join(TRUST));
    let verify = |trust: &Trust, leaf: &Leaf| {
        trust.verify(&der(leaf), &[], Use::Client, UnixTime::now()).map(|owner| owner.identity)
    };
    let believed = trust(&both).unwrap();
    assert!(verify(&believed, &of(&north, "north")).is_ok());
    assert!(verify(&believed, &of(&south, "south")).is_ok());
    let forged = verify(&believed, &of(&south, "north"));
    assert!(matches!(forged, Err(Disbelief::Invalid { .. })), "{forged:?}");
    let unknown = verify(&believed, &of(&north, "west"));
    assert!(matches!(unknown, Err(Disbelief::UnknownDomain(_))), "{unknown:?}");
    let list = both.path().join(TRUST).join("north.crl.pem");
    std::fs::write(&list, north.revoked(&[7])).unwrap();
    let revoked = verify(&trust(&both).unwrap(), &of(&north, "north")).unwrap_err();
    let is_revoked =
        matches!(&revoked, Disbelief::Invalid { reason: webpki::Error::CertRevoked, .. });
    assert!(is_revoked, "{revoked:?}");
    std::fs::write(&list, north.revoked(&[8])).unwrap();
    assert!(verify(&trust(&both).unwrap(), &of(&north, "north")).is_ok());
    // Another authority's list does not unlock anything.
    std::fs::write(&list, south.revoked(&[])).unwrap();
    assert!(verify(&trust(&both).unwrap(), &of(&north, "north")).is_err());
    // A folder with anything else in it is refused as a whole.
    for (name, text) in [("north.crl.pem", "nothing"), ("notes.txt", ""), ("west.crl.pem", "")] {
        let path = both.path().join(TRUST).join(name);
        std::fs::write(&path, text).unwrap();
        assert!(trust(&both).is_err(), "{name}");
        std::fs::remove_file(path).unwrap();
    }
    assert!(trust(&both).is_ok());
}

/// What a client says of a handshake, and whether the server has let it in.
async fn meet(client: &TempDir, server: &TempDir, expected: &str) -> (String, bool) {
    let open = |folder: &TempDir| IdentityStore::open(folder.path()).unwrap();
    let server = TlsServer::new(open(server), ClientCertificates::Required);
    let (near, far) = duplex(1 << 16);
    let accepting = tokio::spawn(async move {
        let (mut stream, client) = server.accept(Box::new(far)).await.ok()?;
        stream.write_all(b"x").await.ok()?;
        client
    });
    let expected = ExpectedServer::Exactly(Identity::parse("expected", expected).unwrap());
    let said = match secure(&open(client), &expected, near).await {
        Ok(mut stream) => {
            assert_eq!(stream.read_u8().await.unwrap(), b'x');
            "welcome".to_owned()
        }
        Err(error) => error.to_string(),
    };
    (said, accepting.await.unwrap().is_some())
}

#[tokio::test]
async fn either_end_is_told_why_it_is_not_believed() {
    let (north, south) = (Authority::new("north"), Authority::new("south"));
    let (crm, grc) =
        ("spiffe://south/coalloc/resource-manager/crm", "spiffe://north/coalloc/coordinator/grc");
    let server = || folder(&south.of(crm), &[&north, &south]);
    let client = folder(&north.of(grc), &[&north, &south]);
    assert_eq!(meet(&client, &server(), crm).await, ("welcome".to_owned(), true));
    let alone = folder(&south.of(crm), &[&south]);
    let (said, is_in) = meet(&client, &alone, crm).await;
    assert!(said.contains("it does not believe the authority of our domain") && !is_in, "{said}");
    let lists = server();
    std::fs::write(lists.path().join(TRUST).join("north.crl.pem"), north.revoked(&[7])).unwrap();
    let (said, is_in) = meet(&client, &lists, crm).await;
    assert!(said.contains("our certificate was revoked") && !is_in, "{said}");
    let (said, is_in) = meet(&client, &server(), &crm.replace("crm", "crm-2")).await;
    assert!(said.contains("crm answers where") && said.contains("crm-2 was expected"), "{said}");
    assert!(!is_in);
    let stranger = folder(&north.of(grc), &[&north]);
    let (said, is_in) = meet(&stranger, &server(), crm).await;
    assert!(said.contains("no certification authority of the domain south is believed"), "{said}");
    assert!(!is_in);
}

#[tokio::test]
async fn a_server_that_speaks_something_else_or_nothing_is_named() {
    let north = Authority::new("north");
    let client = folder(&north.of("spiffe://north/coalloc/user/alice"), &[&north]);
    let store = IdentityStore::open(client.path()).unwrap();
    let (near, mut far) = duplex(1 << 16);
    far.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n").await.unwrap();
    let error = secure(&store, &ExpectedServer::AnyDaemon, near).await.err().unwrap();
    assert!(matches!(error, HandshakeError::Broken(_)), "{error}");
    // Only time ends this one.
    let (near, _silent) = duplex(1 << 16);
    let error = secure(&store, &ExpectedServer::AnyDaemon, near).await.err().unwrap();
    assert!(matches!(error, HandshakeError::Silent), "{error}");
}

#[test]
fn a_folder_that_cannot_be_used_is_refused_and_what_was_read_stays() {
    let (north, south) = (Authority::new("north"), Authority::new("south"));
    let grc = "spiffe://north/coalloc/coordinator/grc";
    let own = folder(&north.of(grc), &[&north]);
    let store = IdentityStore::open(own.path()).unwrap();
    let first = store.current();
    assert!(!store.reload().unwrap(), "nothing has changed");
    let write = |leaf: &Leaf| {
        std::fs::write(own.path().join(CERTIFICATE), &leaf.0).unwrap();
        std::fs::write(own.path().join(KEY), &leaf.1).unwrap();
    };
    for (leaf, problem) in [
        (north.of("spiffe://north/coalloc/coordinator/other"), "this is spiffe"),
        (north.leaf(vec![uri(grc)], 9, [-2, -1]), "ended at"),
        (north.leaf(vec![uri(grc)], 9, [1, 2]), "valid from"),
        (Leaf(north.of(grc).0, south.of(grc).1), "does not belong to the certificate"),
        (Leaf("nothing".to_owned(), String::new()), "no certificate in it"),
    ] {
        write(&leaf);
        let error = store.reload().unwrap_err().to_string();
        assert!(error.contains(problem), "{error}");
        assert_eq!(store.current().owner, first.owner);
    }
    let before = store.renewals.get();
    write(&north.leaf(vec![uri(grc)], 10, [-1, 2]));
    assert!(store.reload().unwrap() && store.renewals.get() == before + 1);
    assert_ne!(store.current().owner, first.owner);
}

#[tokio::test]
async fn a_folder_that_was_refused_only_because_of_the_clock_is_read_again() {
    let north = Authority::new("north");
    let grc = "spiffe://north/coalloc/coordinator/grc";
    let own = folder(&north.of(grc), &[&north]);
    let store = IdentityStore::open(own.path()).unwrap();
    let first = store.current();
    // Whoever renews is two seconds ahead of us. Certificates count whole seconds.
    let from = SystemTime::now() + Duration::from_secs(2);
    let leaf = north.leaf_from(vec![uri(grc)], 11, [from, from + DAY]);
    std::fs::write(own.path().join(CERTIFICATE), &leaf.0).unwrap();
    std::fs::write(own.path().join(KEY), &leaf.1).unwrap();
    let early = store.reload().unwrap_err().to_string();
    assert!(early.contains("valid from"), "{early}");
    assert_eq!(store.current().owner, first.owner);
    // Only the clock changes from here on, no file.
    let begun = std::time::Instant::now();
    while !matches!(store.reload(), Ok(true)) {
        assert!(begun.elapsed() < Duration::from_secs(10), "it is never read again");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert_ne!(store.current().owner, first.owner);
    assert!(!store.reload().unwrap(), "nothing has changed since");
}
