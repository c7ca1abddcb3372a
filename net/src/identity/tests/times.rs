//! Certificates that end, also in the middle of a connection, and authorities below authorities.

use std::sync::atomic::{AtomicUsize, Ordering};

use super::*;
use crate::clock::{self, Clock};

const GRC: &str = "spiffe://north/coalloc/coordinator/grc";
const CRM: &str = "spiffe://north/coalloc/resource-manager/crm";

#[test]
fn a_certificate_is_believed_from_its_first_second_to_its_last() {
    let north = Authority::new("north");
    let leaf = north.leaf(vec![uri(GRC)], 7, [-1, 1]);
    let own = folder(&leaf, &[&north]);
    let trust = Trust::read(&own.path().join(TRUST)).unwrap();
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap();
    let at = |now: Duration| {
        trust.verify(&der(&leaf), &[], Use::Server, UnixTime::since_unix_epoch(now))
    };
    let reason = |now| match at(now) {
        Err(Disbelief::Invalid { reason, .. }) => reason,
        other => panic!("{other:?}"),
    };
    assert!(at(since).is_ok());
    let minute = Duration::from_secs(60);
    assert!(at(since + DAY - minute).is_ok() && at(since - DAY + minute).is_ok());
    let (late, early) = (reason(since + DAY + minute), reason(since - DAY - minute));
    assert!(matches!(late, webpki::Error::CertExpired { .. }), "{late:?}");
    assert!(matches!(early, webpki::Error::CertNotValidYet { .. }), "{early:?}");
}

#[test]
fn an_authority_below_another_one_is_believed_if_both_have_lists_or_neither() {
    let (root, south) = (Authority::of_length("north", 1), Authority::of_length("south", 1));
    let below = |above: &Authority| {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::default();
        params.distinguished_name = DistinguishedName::new();
        params.distinguished_name.push(DnType::CommonName, "below");
        params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        params.serial_number = Some(SerialNumber::from(70_u64));
        let pem = params.signed_by(&key, &above.issuer).unwrap().pem();
        Authority { domain: "north", pem, issuer: Issuer::new(params, key) }
    };
    let between = below(&root);
    let leaf = between.of(GRC);
    let own = folder(&leaf, &[&root, &south]);
    let trusted = own.path().join(TRUST);
    let verify = |between: &Authority, leaf: &Leaf| {
        let between = CertificateDer::from_pem_slice(between.pem.as_bytes()).unwrap();
        let trust = Trust::read(&trusted).unwrap();
        trust.verify(&der(leaf), &[between], Use::Client, UnixTime::now())
    };
    let fails = |expected: webpki::Error| match verify(&between, &leaf) {
        Err(Disbelief::Invalid { reason, .. }) => assert_eq!(reason, expected),
        other => panic!("{other:?}"),
    };
    assert!(verify(&between, &leaf).is_ok());
    let alone = Trust::read(&trusted).unwrap();
    assert!(alone.verify(&der(&leaf), &[], Use::Client, UnixTime::now()).is_err());
    // An authority of another domain does not get here by one below it.
    let foreign = below(&south);
    assert!(verify(&foreign, &foreign.of(GRC)).is_err());
    let write = |lists: &[String]| {
        std::fs::write(trusted.join("north.crl.pem"), lists.concat()).unwrap();
    };
    write(&[root.revoked(&[70]), between.revoked(&[])]);
    fails(webpki::Error::CertRevoked);
    write(&[root.revoked(&[]), between.revoked(&[7])]);
    fails(webpki::Error::CertRevoked);
    write(&[root.revoked(&[])]);
    fails(webpki::Error::UnknownRevocationStatus);
    write(&[root.revoked(&[7]), between.revoked(&[70])]);
    assert!(verify(&between, &leaf).is_ok(), "serial numbers are those of their own authority");
}

#[test]
fn whoever_has_no_valid_certificate_any_more_still_follows_what_was_revoked() {
    let north = Authority::new("north");
    let own = folder(&north.of(CRM), &[&north]);
    let later = std::sync::Arc::new(std::sync::atomic::AtomicI64::new(0));
    let passed = std::sync::Arc::clone(&later);
    let clock = Clock::new(move || {
        let now = clock::now();
        let passed = coalloc_common::Span::from_secs(passed.load(Ordering::Relaxed));
        coalloc_common::Now { wall: now.wall.saturating_add(passed), ..now }
    });
    let store = IdentityStore::open_by(own.path(), clock.clone()).unwrap();
    later.store(400 * 86_400, Ordering::Relaxed);
    std::fs::write(own.path().join(TRUST).join("north.crl.pem"), north.revoked(&[7])).unwrap();
    assert!(store.reload().unwrap(), "the list counts");
    // Nobody begins with a certificate that has ended, and no other one of that kind comes into force.
    let error = IdentityStore::open_by(own.path(), clock).unwrap_err().to_string();
    assert!(error.contains("renew it"), "{error}");
}

#[tokio::test]
async fn a_certificate_that_ends_takes_its_connections_with_it() {
    let north = Authority::new("north");
    let soon = || {
        let now = SystemTime::now();
        [now - DAY, now + Duration::from_secs(4)]
    };
    let lasting = |whose: &str| folder(&north.of(whose), &[&north]);
    let ending = |whose: &str| folder(&north.leaf_from(vec![uri(whose)], 9, soon()), &[&north]);
    let open = |folder: &TempDir| IdentityStore::open(folder.path()).unwrap();
    // This one counts how often it looks at its clock.
    let looks = std::sync::Arc::new(AtomicUsize::new(0));
    let counted = std::sync::Arc::clone(&looks);
    let clock = Clock::new(move || {
        counted.fetch_add(1, Ordering::Relaxed);
        clock::now()
    });
    let client = IdentityStore::open_by(lasting(GRC).path(), clock).unwrap();
    let server = open(&ending(CRM));
    let (other_client, other_server) = (open(&ending(GRC)), open(&lasting(CRM)));
    let connect = async |client: &_, server: &std::sync::Arc<IdentityStore>| {
        let server = TlsServer::new(std::sync::Arc::clone(server), ClientCertificates::Required);
        let (near, far) = duplex(1 << 16);
        let expected = ExpectedServer::Exactly(Identity::parse("expected", CRM).unwrap());
        tokio::join!(secure(client, &expected, near), server.accept(Box::new(far)))
    };
    // While both are valid both are let in, and the server's end says how long the client's certificate lasts.
    let (first, accepted) = connect(&client, &server).await;
    let (mut first, _open) = (first.unwrap(), accepted.unwrap());
    let (second, accepted) = connect(&other_client, &other_server).await;
    let (_second, (_stream, proven)) = (second.unwrap(), accepted.unwrap());
    // Nothing comes over the first; it fails when the server's certificate has ended.
    let cut = first.read_u8().await.unwrap_err();
    assert_eq!(cut.kind(), std::io::ErrorKind::ConnectionAborted, "{cut}");
    let looks = looks.load(Ordering::Relaxed);
    assert!(looks < 50, "it waits for the end, and does not look all the time: {looks} looks");
    let chain = &proven.unwrap().chain;
    let ended = other_server.disbelieved(chain, Use::Client).await.to_string();
    assert!(ended.ends_with("is not valid: it has ended"), "{ended}");
    // Nor is there a new one.
    let (refused, accepted) = connect(&client, &server).await;
    let said = refused.err().unwrap().to_string();
    assert!(said.contains("the server is not believed") && said.contains("it has ended"), "{said}");
    assert!(accepted.is_err());
    let (refused, accepted) = connect(&other_client, &other_server).await;
    let said = refused.err().unwrap().to_string();
    assert!(said.contains("our certificate has ended or is not valid yet"), "{said}");
    assert!(accepted.is_err());
}
