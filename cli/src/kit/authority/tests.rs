//! Authorities and identities: what is issued, kept, renewed and revoked, read back from the files.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;

use super::folder::IdentityFolder;
use super::*;

const DAY: Duration = Duration::from_secs(86_400);

fn now() -> SystemTime {
    UNIX_EPOCH + Duration::from_millis(1_795_244_025_250) // 2026-11-21T06:53:45.25Z
}

fn domain(name: &str) -> TrustDomain {
    TrustDomain::parse("domain", name).unwrap()
}

fn identity(uri: &str) -> Identity {
    Identity::parse("identity", uri).unwrap()
}

fn grc() -> Identity {
    identity("spiffe://north.example/coalloc/coordinator/grc")
}

fn north() -> Authority {
    Authority::create(&domain("north.example"), now()).unwrap()
}

fn month() -> Validity {
    Validity::lasting(now(), 30 * DAY)
}

fn facts(pem: &str) -> PemFacts {
    PemFacts::of(pem.as_bytes()).unwrap()
}

fn only(pem: &str) -> CertificateFacts {
    facts(pem).certificates.remove(0)
}

fn list(authority: &Authority) -> facts::ListFacts {
    facts(&authority.trusted().list_pem.unwrap()).lists.remove(0)
}

/// Calls `check` with a certificate as x509-parser has it.
fn parsed(pem: &str, check: impl FnOnce(&x509_parser::certificate::X509Certificate<'_>)) {
    let block = x509_parser::pem::Pem::iter_from_buffer(pem.as_bytes()).next().unwrap().unwrap();
    check(&block.parse_x509().unwrap());
}

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().permissions().mode() & 0o777
}

#[test]
fn an_authority_can_issue_certificates_and_lists_and_no_authorities() {
    let authority = north();
    parsed(authority.certificate_pem(), |certificate| {
        let basic = certificate.basic_constraints().unwrap().unwrap();
        assert!(basic.critical && basic.value.ca);
        assert_eq!(basic.value.path_len_constraint, Some(0));
        let usage = certificate.key_usage().unwrap().unwrap().value;
        assert_eq!(usage.to_string(), "Key Cert Sign, CRL Sign");
        assert!(certificate.subject_alternative_name().unwrap().is_none());
        assert!(certificate.extended_key_usage().unwrap().is_none());
    });
    let certificate = authority.certificate();
    assert_eq!(certificate.subject, "CN=Coalloc CA of north.example");
    assert_eq!(certificate.not_before.to_string(), "2026-11-21T06:48:45Z");
    assert_eq!(certificate.not_after.to_string(), "2036-11-20T06:53:45Z");
    assert_eq!(certificate.has_signed(certificate), Some(true));
    let list = list(&authority);
    assert_eq!((list.revoked.len(), certificate.has_signed_list(&list)), (0, Some(true)));
}

#[test]
fn a_certificate_states_one_identity_and_nothing_else() {
    let mut authority = north();
    let issued = authority.issue(&grc(), month()).unwrap();
    parsed(&issued.certificate_pem, |certificate| {
        let names = certificate.subject_alternative_name().unwrap().unwrap();
        let uri = x509_parser::extensions::GeneralName::URI(
            "spiffe://north.example/coalloc/coordinator/grc",
        );
        // Without a subject, the names have to be critical.
        assert!(names.critical);
        assert_eq!(names.value.general_names, [uri]);
        assert_eq!(certificate.subject().iter().count(), 0);
        assert!(!certificate.is_ca());
        let usage = certificate.key_usage().unwrap().unwrap().value;
        assert_eq!(usage.to_string(), "Digital Signature");
        assert!(!certificate.serial.to_string().starts_with('-'));
        assert_eq!(certificate.raw_serial().len(), 16);
    });
    let certificate = only(&issued.certificate_pem);
    assert_eq!(certificate.identity, Ok(grc()));
    assert_eq!(certificate.serial, issued.serial);
    assert_eq!(certificate.not_before.to_string(), "2026-11-21T06:48:45Z");
    assert_eq!(certificate.not_after.to_string(), "2026-12-21T06:53:45Z");
    assert_eq!(certificate.has_key(&issued.key_pem), Ok(true));
    assert_eq!(authority.certificate().has_signed(&certificate), Some(true));
    // The same name is not enough.
    assert_eq!(north().certificate().has_signed(&certificate), Some(false));
    let record = &authority.records()[0];
    assert_eq!(
        (&record.serial, &record.identity, record.not_before, record.not_after, record.revoked),
        (&issued.serial, &grc(), certificate.not_before, certificate.not_after, None)
    );
    assert!(!format!("{issued:?} {authority:?}").contains("PRIVATE"));
}

#[test]
fn host_names_are_beside_the_one_identity() {
    use x509_parser::extensions::GeneralName;
    let texts = ["grc.north.example", "127.0.0.1", "::1"].map(str::to_owned);
    let hosts = HostName::parse_all("hosts", &texts).unwrap();
    let issued = north().issue_with_hosts(&grc(), &hosts, month()).unwrap();
    parsed(&issued.certificate_pem, |certificate| {
        let names = certificate.subject_alternative_name().unwrap().unwrap();
        let six = [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1];
        let expected = [
            GeneralName::URI("spiffe://north.example/coalloc/coordinator/grc"),
            GeneralName::DNSName("grc.north.example"),
            GeneralName::IPAddress(&[127, 0, 0, 1]),
            GeneralName::IPAddress(&six),
        ];
        assert_eq!(names.value.general_names, expected);
    });
    let certificate = only(&issued.certificate_pem);
    assert_eq!((certificate.identity, certificate.hosts), (Ok(grc()), hosts));
}

#[test]
fn only_daemons_can_be_connected_to() {
    let mut authority = north();
    for role in Role::ALL {
        let identity = Identity::new("name", domain("north.example"), role, "x").unwrap();
        let issued = authority.issue(&identity, month()).unwrap();
        parsed(&issued.certificate_pem, |certificate| {
            let uses = certificate.extended_key_usage().unwrap().unwrap().value;
            let daemon = matches!(role, Role::Coordinator | Role::ResourceManager);
            assert_eq!((uses.client_auth, uses.server_auth), (true, daemon), "{role}");
            assert!(!uses.any && uses.other.is_empty(), "{role}");
        });
    }
}

#[test]
fn serial_numbers_and_keys_never_come_twice() {
    let mut authority = north();
    let issued: Vec<Issued> = (0..50).map(|_| authority.issue(&grc(), month()).unwrap()).collect();
    let serials: BTreeSet<&str> = issued.iter().map(|one| one.serial.as_str()).collect();
    let keys: BTreeSet<&str> = issued.iter().map(|one| one.key_pem.as_str()).collect();
    assert_eq!((serials.len(), keys.len()), (50, 50));
    assert!(serials.iter().all(|serial| serial.len() == 32));
}

#[test]
fn nobody_of_another_domain_and_no_time_beyond_the_authority_is_certified() {
    let mut authority = north();
    let foreign = identity("spiffe://south.example/coalloc/user/alice");
    let error = authority.issue(&foreign, month()).unwrap_err();
    assert!(matches!(error, AuthorityError::ForeignDomain { .. }), "{error}");
    let ten_years = limits::AUTHORITY_LIFETIME.to_std();
    let refused = [
        Validity::lasting(now(), ten_years + Duration::from_secs(1)),
        Validity::lasting(now(), Duration::MAX),
        Validity { not_before: now(), not_after: now() },
        Validity { not_before: now(), not_after: now() - DAY },
    ];
    for validity in refused {
        let error = authority.issue(&grc(), validity).unwrap_err().to_string();
        assert!(error.starts_with("not_after: 20"), "{error}");
        assert!(error.contains("up to 2036-11-20T06:53:45Z"), "{error}");
    }
    assert_eq!(time_of(UNIX_EPOCH - Duration::from_millis(1)), Time::from_us(-1_000_000));
    let old = Validity { not_before: UNIX_EPOCH - DAY, not_after: now() };
    let error = authority.issue(&grc(), old).unwrap_err().to_string();
    assert!(error.starts_with("not_before: 1969-12-31T"), "{error}");
    assert_eq!(authority.records(), []);
    assert!(Authority::create(&domain("north.example"), UNIX_EPOCH).is_err());
}

#[test]
fn an_authority_is_only_for_a_domain_that_can_have_files() {
    let error = Authority::create(&domain("north.crl"), now()).unwrap_err().to_string();
    assert!(error.starts_with("domain: \"north.crl\" is not allowed"), "{error}");
    let error = Authority::create(&domain(&"n".repeat(248)), now()).unwrap_err().to_string();
    assert!(error.contains("allowed: 1 to 247 characters"), "{error}");
    let folder = tempfile::tempdir().unwrap();
    let domain = domain(&"n".repeat(247));
    let mut authority = Authority::create(&domain, now()).unwrap();
    let name = "x".repeat(limits::NAME_LEN_MAX);
    let identity = Identity::new("name", domain, Role::User, &name).unwrap();
    let issued = authority.issue(&identity, month()).unwrap();
    let written = IdentityFolder::at(folder.path());
    written.write(&issued, &[authority.trusted()]).unwrap();
    assert_eq!(written.owner().unwrap().0, identity);
}

#[test]
fn certificates_of_the_past_and_of_the_future_are_for_tests() {
    let mut authority = north();
    let past = Validity { not_before: now() - 20 * DAY, not_after: now() - 10 * DAY };
    let future = Validity { not_before: now() + 10 * DAY, not_after: now() + 20 * DAY };
    for validity in [past, future] {
        let certificate = only(&authority.issue(&grc(), validity).unwrap().certificate_pem);
        assert_eq!(certificate.not_before, time_of(validity.not_before));
        assert_eq!(certificate.not_after, time_of(validity.not_after));
    }
}

#[test]
fn the_list_has_exactly_what_was_revoked_and_its_number_grows() {
    let mut authority = north();
    let serials: Vec<String> =
        (0..3).map(|_| authority.issue(&grc(), month()).unwrap().serial).collect();
    let later = now() + Duration::from_secs(60);
    let revoked = authority.revoke(Revocation::Serial(&serials[1]), later).unwrap();
    assert_eq!(revoked[0].revoked, Some(time_of(later)));
    let before = list(&authority).number;
    authority.crl_pem(later).unwrap();
    let first = list(&authority);
    assert!(first.number > before);
    assert_eq!(first.revoked, [(serials[1].clone(), time_of(later))]);
    assert_eq!(first.next_update, Some(time_of(later + 30 * DAY)));
    assert_eq!(authority.certificate().has_signed_list(&first), Some(true));
    assert_eq!(north().certificate().has_signed_list(&first), Some(false));
    // Revoking again changes nothing, and a list of the same second has a greater number.
    let again = authority.revoke(Revocation::Serial(&serials[1]), later + DAY).unwrap();
    assert_eq!(again, revoked);
    authority.crl_pem(later).unwrap();
    assert!(list(&authority).number > first.number);
    // What has ended for a year is not listed any more.
    authority.crl_pem(now() + (30 + 366) * DAY).unwrap();
    assert_eq!(list(&authority).revoked.len(), 1);
    authority.crl_pem(now() + (31 + 366) * DAY).unwrap();
    assert_eq!(list(&authority).revoked.len(), 0);
}

#[test]
fn an_identity_is_revoked_with_all_certificates_that_may_still_stand_behind_something() {
    let mut authority = north();
    let short = Validity::lasting(now(), DAY);
    let ended = authority.issue(&grc(), short).unwrap().serial;
    let one = authority.issue(&grc(), month()).unwrap().serial;
    let alice = identity("spiffe://north.example/coalloc/user/alice");
    authority.issue(&alice, month()).unwrap();
    let other = authority.issue(&grc(), month()).unwrap().serial;
    let later = now() + 2 * DAY;
    let revoked = authority.revoke(Revocation::Identity(&grc()), later).unwrap();
    let serials: Vec<&str> = revoked.iter().map(|record| record.serial.as_str()).collect();
    assert_eq!(serials, [&ended, &one, &other]);
    // Two days of a certificate of one day are over, and a year.
    let bob = identity("spiffe://north.example/coalloc/user/bob");
    authority.issue(&bob, short).unwrap();
    let late = authority.revoke(Revocation::Identity(&bob), now() + (2 + 366) * DAY).unwrap_err();
    assert!(late.to_string().contains("ended less than 366 days ago"), "{late}");
    let nobody = identity("spiffe://north.example/coalloc/user/nobody");
    for which in [Revocation::Identity(&nobody), Revocation::Serial("4f")] {
        let error = authority.revoke(which, later).unwrap_err();
        assert!(matches!(error, AuthorityError::NotIssued { .. }), "{error}");
    }
}

#[test]
fn a_certificate_at_hand_is_revoked_without_a_record_but_never_a_foreign_one() {
    let folder = tempfile::tempdir().unwrap();
    let mut authority = north();
    authority.save(folder.path(), now()).unwrap();
    let issued = authority.issue(&grc(), month()).unwrap();
    // The backup of before is put back.
    let mut restored = Authority::load(folder.path()).unwrap();
    let certificate = only(&issued.certificate_pem);
    restored.revoke(Revocation::Certificate(&certificate), now()).unwrap();
    assert_eq!(restored.records()[0].identity, grc());
    restored.crl_pem(now()).unwrap();
    assert!(list(&restored).revoked_at(&issued.serial).is_some());
    let foreign = only(&north().issue(&grc(), month()).unwrap().certificate_pem);
    let error = restored.revoke(Revocation::Certificate(&foreign), now()).unwrap_err();
    assert!(matches!(error, AuthorityError::NotIssued { .. }), "{error}");
    let own = restored.certificate().clone();
    assert!(restored.revoke(Revocation::Certificate(&own), now()).is_err());
}

#[test]
fn an_authority_is_read_as_it_was_written() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("ca");
    let mut authority = north();
    let serial = authority.issue(&grc(), month()).unwrap().serial;
    authority.revoke(Revocation::Serial(&serial), now()).unwrap();
    authority.save(&path, now()).unwrap();
    assert_eq!(mode(&path.join(KEY)), 0o600);
    let names: BTreeSet<String> = fs::read_dir(&path)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    assert_eq!(names, [CERTIFICATE, KEY, LIST, RECORDS].map(str::to_owned).into());
    let mut read = Authority::load(&path).unwrap();
    assert_eq!(read.records(), authority.records());
    assert_eq!(read.trusted(), authority.trusted());
    let certificate = only(&read.issue(&grc(), month()).unwrap().certificate_pem);
    assert_eq!(authority.certificate().has_signed(&certificate), Some(true));
    read.save(&path, now()).unwrap();
    assert!(list(&read).number > list(&authority).number);
    assert_eq!(authority.certificate().has_signed_list(&list(&read)), Some(true));
    // Another authority never takes its place.
    let error = north().save(&path, now()).unwrap_err();
    assert!(matches!(error, AuthorityError::Exists { .. }), "{error}");
    assert_eq!(Authority::load(&path).unwrap().records(), read.records());
}

#[test]
fn files_that_do_not_belong_together_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let (one, other) = (folder.path().join("one"), folder.path().join("other"));
    north().save(&one, now()).unwrap();
    Authority::create(&domain("south.example"), now()).unwrap().save(&other, now()).unwrap();
    let error = |path: &Path| Authority::load(path).unwrap_err().to_string();
    fs::copy(other.join(KEY), one.join(KEY)).unwrap();
    assert!(error(&one).contains("does not belong to it"), "{}", error(&one));
    fs::copy(one.join(RECORDS), other.join(RECORDS)).unwrap();
    assert!(error(&other).contains("expected: CN=Coalloc CA of north.example"));
    fs::write(one.join(RECORDS), r#"{"domain": "north.example", "issued": [{}]}"#).unwrap();
    assert!(error(&one).contains("missing field `serial`"), "{}", error(&one));
    fs::write(one.join(RECORDS), vec![b' '; 17 << 20]).unwrap();
    assert!(error(&one).contains("allowed: up to 16777216 bytes"), "{}", error(&one));
    assert!(error(&folder.path().join("none")).contains("issued.json: reading failed"));
}

#[test]
fn an_authority_with_too_many_records_forgets_what_has_ended_or_refuses() {
    let mut authority = north();
    authority.issue(&grc(), Validity::lasting(now(), DAY)).unwrap();
    let record = authority.records[0].clone();
    authority.records = vec![record; limits::AUTHORITY_RECORDS_MAX];
    authority.forget_ended(now() + DAY);
    let error = authority.issue(&grc(), month()).unwrap_err();
    assert!(matches!(error, AuthorityError::Full { .. }), "{error}");
    let text = record::write(authority.domain(), authority.records());
    assert!((text.len() as u64) < limits::CERTIFICATE_FILE_BYTES_MAX / 2, "{}", text.len());
    authority.forget_ended(now() + 32 * DAY);
    assert_eq!(authority.records().len(), 0);
    authority.issue(&grc(), month()).unwrap();
}

#[test]
fn the_folder_of_an_identity_has_all_that_a_daemon_reads_and_is_renewed_in_place() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("grc");
    let mut authority = north();
    let south = Authority::create(&domain("south.example"), now()).unwrap();
    let issued = authority.issue(&grc(), month()).unwrap();
    let identity_folder = IdentityFolder::at(&path);
    identity_folder.check_new().unwrap();
    identity_folder.write(&issued, &[authority.trusted(), south.trusted()]).unwrap();
    let read = |name: &str| fs::read_to_string(path.join(name)).unwrap();
    assert_eq!(read("certificate.pem"), issued.certificate_pem);
    assert_eq!(read("key.pem"), issued.key_pem);
    assert_eq!(read("trust/north.example.pem"), authority.certificate_pem());
    assert_eq!(read("trust/south.example.pem"), south.certificate_pem());
    assert_eq!(facts(&read("trust/north.example.crl.pem")).lists.len(), 1);
    assert_eq!(mode(&path.join("key.pem")), 0o600);
    assert_eq!(mode(&path.join("certificate.pem")) & 0o600, 0o600);
    assert_eq!(identity_folder.owner().unwrap().0, grc());
    let error = identity_folder.check_new().unwrap_err();
    assert!(error.to_string().contains("coalloc certs renew"), "{error}");
    // A key that its owner lets the group read stays so, and one that everybody could read does not.
    let renewed = authority.issue(&grc(), month()).unwrap();
    for (before, after) in [(0o644, 0o600), (0o640, 0o640), (0o600, 0o600)] {
        let permissions = fs::Permissions::from_mode(before);
        fs::set_permissions(path.join("key.pem"), permissions).unwrap();
        identity_folder.write(&renewed, &[authority.trusted()]).unwrap();
        assert_eq!(mode(&path.join("key.pem")), after);
    }
    let (owner, certificate) = identity_folder.owner().unwrap();
    assert_eq!(owner, grc());
    assert_eq!(certificate.serial, renewed.serial);
    assert_eq!(certificate.has_key(&read("key.pem")), Ok(true));
    assert_eq!(certificate.has_key(&issued.key_pem), Ok(false));
    assert_eq!(read("trust/south.example.pem"), south.certificate_pem());
    // No draft is left behind.
    assert_eq!(fs::read_dir(&path).unwrap().count(), 3);
    assert_eq!(fs::read_dir(path.join("trust")).unwrap().count(), 4);
}

#[test]
fn only_authorities_with_their_own_lists_are_believed() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    let mut authority = north();
    authority.save(&at("ca"), now()).unwrap();
    let name = domain("north.example");
    assert_eq!(TrustedDomain::read(&name, &at("ca")).unwrap(), authority.trusted());
    assert_eq!(TrustedDomain::read(&name, &at("ca/authority.pem")).unwrap(), authority.trusted());
    fs::write(at("north.pem"), authority.certificate_pem()).unwrap();
    assert_eq!(TrustedDomain::read(&name, &at("north.pem")).unwrap().list_pem, None);
    let issued = authority.issue(&grc(), month()).unwrap();
    fs::write(at("leaf.pem"), &issued.certificate_pem).unwrap();
    fs::write(at("key.pem"), &issued.key_pem).unwrap();
    let both = format!("{}{}", authority.certificate_pem(), issued.key_pem);
    fs::write(at("both.pem"), both).unwrap();
    fs::write(at("foreign.pem"), authority.certificate_pem()).unwrap();
    fs::write(at("foreign.crl.pem"), north().trusted().list_pem.unwrap()).unwrap();
    fs::write(at("garbage.pem"), "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n")
        .unwrap();
    for (file, problem) in [
        ("leaf.pem", "not of an authority"),
        ("key.pem", "there is no certificate in it"),
        ("both.pem", "more in it than certificates"),
        ("ca/authority.crl.pem", "there is no certificate in it"),
        ("foreign.pem", "foreign.crl.pem: it is no list of the authorities in "),
        ("garbage.pem", "cannot be read"),
        ("none.pem", "reading failed"),
    ] {
        let error = TrustedDomain::read(&name, &at(file)).unwrap_err().to_string();
        assert!(error.contains(problem), "{file}: {error}");
    }
    assert!(TrustedDomain::read(&domain("a.crl"), &at("north.pem")).is_err());
}

#[test]
fn serial_numbers_are_read_as_other_programs_print_them() {
    for text in ["4f0d", "4F0D", "4f:0d", "004F:0d"] {
        assert_eq!(record::parse_serial("--serial", text).as_deref(), Ok("4f0d"));
    }
    assert_eq!(serial_bytes("f0d"), [0x0f, 0x0d]);
    assert_eq!(serial_text(&[0, 0x0f, 0x0d]), "f0d");
    let long = "1".repeat(41);
    for text in ["", "0", "::", "4g", "-4", "4 f", "\u{661}", long.as_str()] {
        let error = record::parse_serial("--serial", text).unwrap_err();
        assert_eq!(error.field, "--serial", "{text:?}");
    }
}

#[test]
fn what_others_write_into_certificates_is_shown_escaped() {
    let key = KeyPair::generate().unwrap();
    let mut params = CertificateParams::default();
    params.distinguished_name = DistinguishedName::new();
    let evil = "x\u{202e}y\u{1b}[2J\n\"z\u{200f}\u{7}";
    params.distinguished_name.push(DnType::CommonName, evil);
    let uri = |text: &str| SanType::URI(text.try_into().unwrap());
    params.subject_alt_names =
        vec![uri("spiffe://a/coalloc/user/a"), uri("spiffe://a/coalloc/user/b")];
    let two = only(&params.self_signed(&key).unwrap().pem());
    for text in [&two.subject, &two.issuer] {
        assert!(
            !text.chars().any(|c| c.is_control() || "\u{202e}\u{200f}".contains(c)),
            "{text:?}"
        );
        assert!(text.contains("\\u{202e}") && text.contains("\\u{1b}[2J\\n"), "{text}");
    }
    assert_eq!(two.identity, Err("it has 2 URIs among its names instead of one".to_owned()));
    params.subject_alt_names = vec![uri("spiffe://a/coalloc/user/a\u{1b}[2J")];
    let odd = only(&params.self_signed(&key).unwrap().pem()).identity.unwrap_err();
    assert!(odd.starts_with("its URI: \"spiffe://a/coalloc/user/a\\u{1b}[2J\""), "{odd}");
}

#[test]
fn whatever_is_no_pem_is_refused_with_what_is_wrong() {
    let authority = north();
    let pem = authority.certificate_pem();
    for (text, problem) in [
        (pem.replace("CERTIFICATE", "X509 CRL"), "the list of revoked certificates cannot be read"),
        (pem.replace("CERTIFICATE", "EVIL \u{202e}"), "is neither certificate, list nor key"),
        (pem.replace("-----END CERTIFICATE-----", ""), "it is not PEM"),
    ] {
        let error = PemFacts::of(text.as_bytes()).unwrap_err();
        assert!(error.contains(problem) && !error.contains('\u{202e}'), "{error}");
    }
    assert_eq!(PemFacts::of(b"nothing at all"), Ok(PemFacts::default()));
}
