//! Signed tips: who may have signed what, and when. The bytes are those of real certificates, made for the purpose.

use std::time::{Duration, SystemTime};

use rustls::pki_types::PrivateKeyDer;
use rustls::pki_types::pem::PemObject as _;

use coalloc_ledger::SqliteLedger;
use coalloc_protocol::Log as _;

use super::*;
use crate::client::Dialer;
use crate::identity::store::TRUST;
use crate::identity::tests::{Authority, Leaf, der, folder, uri};
use crate::machine::System;
use crate::watch::Feed;

const DAY: Duration = Duration::from_secs(86_400);
const CRM: &str = "spiffe://north/coalloc/resource-manager/crm-A";
const OTHER: &str = "spiffe://north/coalloc/resource-manager/crm-B";

fn key(leaf: &Leaf) -> CertifiedKey {
    let key = PrivateKeyDer::from_pem_slice(leaf.1.as_bytes()).unwrap();
    let key = rustls::crypto::ring::sign::any_supported_type(&key).unwrap();
    CertifiedKey::new(vec![der(leaf)], key)
}

fn trust(believed: &[&Authority]) -> Trust {
    let any = believed[0].of(CRM);
    Trust::read(&folder(&any, believed).path().join(TRUST)).unwrap()
}

fn time(at: SystemTime) -> Time {
    let since = at.duration_since(SystemTime::UNIX_EPOCH).unwrap();
    Time::from_us(i64::try_from(since.as_micros()).unwrap())
}

fn statement(identity: &str, name: &str, at: SystemTime) -> TipStatement {
    let ledger_id = "0123456789abcdef0123456789abcdef".to_owned();
    TipStatement {
        tip: Tip { ledger_id: ledger_id.clone(), sequence: 7, hash: [9; 32] },
        ledger_id,
        kind: "crm".to_owned(),
        name: name.to_owned(),
        identity: Identity::parse("identity", identity).unwrap(),
        signed: time(at),
        challenge: vec![1, 2, 3],
    }
}

#[test]
fn what_is_signed_is_read_as_it_was_signed_and_any_changed_byte_is_noticed() {
    let north = Authority::new("north");
    let (leaf, trust) = (north.of(CRM), trust(&[&north]));
    let said = statement(CRM, "crm-A", SystemTime::now());
    let tip = said.sign(&key(&leaf)).unwrap();
    let verified = verify(&tip, &trust).unwrap();
    assert_eq!(verified.statement, said);
    assert_eq!(verified.signer.identity.to_string(), CRM);
    for at in 0..tip.statement.len() {
        for bit in [1, 0x80] {
            let mut edited = tip.clone();
            edited.statement[at] ^= bit;
            assert!(verify(&edited, &trust).is_err(), "bit {bit} of byte {at}");
        }
    }
    for at in 0..tip.signature.len() {
        let mut edited = tip.clone();
        edited.signature[at] ^= 1;
        assert!(matches!(verify(&edited, &trust), Err(TipError::Forged { .. })), "byte {at}");
    }
    // A number that is changed to another good one is only noticed by the signature.
    let more = TipStatement { tip: Tip { sequence: 8, ..said.tip.clone() }, ..said };
    let edited = v1::SignedTip { statement: more.to_wire().encode_to_vec(), ..tip };
    assert!(matches!(verify(&edited, &trust), Err(TipError::Forged { .. })));
}

#[test]
fn a_signature_without_the_context_is_not_one_of_a_tip() {
    let north = Authority::new("north");
    let (leaf, trust) = (north.of(CRM), trust(&[&north]));
    let tip = statement(CRM, "crm-A", SystemTime::now()).sign(&key(&leaf)).unwrap();
    let key = key(&leaf);
    let signer = key.key.choose_scheme(&SCHEMES).unwrap();
    let signed = |bytes: &[u8]| {
        let signature = signer.sign(bytes).unwrap();
        verify(&v1::SignedTip { signature, ..tip.clone() }, &trust)
    };
    assert!(signed(&[CONTEXT, &tip.statement].concat()).is_ok());
    for context in [&b""[..], b"coalloc ledger tip, version 2\n"] {
        let refused = signed(&[context, &tip.statement].concat());
        assert!(matches!(refused, Err(TipError::Forged { .. })), "{refused:?}");
    }
}

#[test]
fn nobody_signs_for_somebody_else() {
    let (north, south) = (Authority::new("north"), Authority::new("south"));
    let trust = trust(&[&north, &south]);
    let now = SystemTime::now();
    let signed = |leaf: &Leaf, said: &TipStatement| verify(&said.sign(&key(leaf)).unwrap(), &trust);
    let own = statement(CRM, "crm-A", now);
    assert!(signed(&north.of(CRM), &own).is_ok());
    let foreign = "spiffe://south/coalloc/resource-manager/crm-A";
    let operator = "spiffe://north/coalloc/operator/crm-A";
    let coordinator = "spiffe://north/coalloc/coordinator/crm-A";
    for (leaf, said) in [
        (north.of(OTHER), own.clone()),
        (south.of(foreign), own.clone()),
        // The signer names itself, and somebody else's ledger.
        (north.of(OTHER), statement(OTHER, "crm-A", now)),
        (north.of(operator), statement(operator, "crm-A", now)),
        (north.of(coordinator), statement(coordinator, "crm-A", now)),
        (north.of(CRM), TipStatement { kind: "grc".to_owned(), ..own.clone() }),
        (north.of(CRM), TipStatement { kind: String::new(), ..own.clone() }),
    ] {
        let refused = signed(&leaf, &said);
        assert!(matches!(refused, Err(TipError::OtherSigner { .. })), "{said:?}: {refused:?}");
    }
    // Another certificate of the same daemon beside the signature, with another key.
    let tip = own.sign(&key(&north.of(CRM))).unwrap();
    let swapped = v1::SignedTip { certificates: vec![der(&north.of(CRM)).to_vec()], ..tip };
    assert!(matches!(verify(&swapped, &trust), Err(TipError::Forged { .. })));
    // The authority of another domain vouches for nobody in this one.
    let forged = signed(&south.of(CRM), &own);
    assert!(matches!(forged, Err(TipError::Disbelieved(_))), "{forged:?}");
    let unknown = Authority::new("west").of("spiffe://west/coalloc/resource-manager/crm-A");
    assert!(matches!(signed(&unknown, &own), Err(TipError::Disbelieved(_))));
}

#[test]
fn a_certificate_counts_at_the_time_of_the_tip_also_when_it_has_ended_since() {
    let north = Authority::new("north");
    let now = SystemTime::now();
    let leaf = north.leaf_from(vec![uri(CRM)], 7, [now - 3 * DAY, now - DAY]);
    let trust = trust(&[&north]);
    let at = |at| verify(&statement(CRM, "crm-A", at).sign(&key(&leaf)).unwrap(), &trust);
    assert!(at(now - 2 * DAY).is_ok());
    for (at, why) in [(at(now), "it has ended"), (at(now - 4 * DAY), "it is not valid yet")] {
        let error = at.unwrap_err();
        assert!(matches!(error, TipError::Disbelieved(_)), "{error:?}");
        assert!(error.to_string().contains(why), "{error}");
    }
}

#[test]
fn a_certificate_that_was_revoked_counts_until_then() {
    let north = Authority::new("north");
    let now = SystemTime::now();
    let leaf = north.leaf_from(vec![uri(CRM)], 7, [now - 3 * DAY, now + 3 * DAY]);
    let own = folder(&leaf, &[&north]);
    let trusted = own.path().join(TRUST);
    // The lists of these tests revoke now.
    std::fs::write(trusted.join("north.crl.pem"), north.revoked(&[7])).unwrap();
    let trust = Trust::read(&trusted).unwrap();
    let at = |at| verify(&statement(CRM, "crm-A", at).sign(&key(&leaf)).unwrap(), &trust);
    assert!(at(now - DAY).is_ok());
    let error = at(now + DAY).unwrap_err().to_string();
    assert!(error.contains("it was revoked"), "{error}");
    let ended = at(now - 4 * DAY).unwrap_err().to_string();
    assert!(ended.contains("is not valid"), "{ended}");
}

#[test]
fn whatever_is_too_long_or_no_tip_at_all_is_refused_with_its_field() {
    let north = Authority::new("north");
    let (leaf, trust) = (north.of(CRM), trust(&[&north]));
    let tip = statement(CRM, "crm-A", SystemTime::now()).sign(&key(&leaf)).unwrap();
    let certificate = &tip.certificates[0];
    let edited = |edit: fn(&mut v1::TipStatement)| {
        let mut wire = v1::TipStatement::decode(&tip.statement[..]).unwrap();
        edit(&mut wire);
        v1::SignedTip { statement: wire.encode_to_vec(), ..tip.clone() }
    };
    for (expected, bad) in [
        ("certificates", v1::SignedTip { certificates: Vec::new(), ..tip.clone() }),
        (
            "certificates",
            v1::SignedTip { certificates: vec![certificate.clone(); 9], ..tip.clone() },
        ),
        ("certificates", v1::SignedTip { certificates: vec![vec![0; 16_385]], ..tip.clone() }),
        ("statement", v1::SignedTip { statement: vec![0; 4_097], ..tip.clone() }),
        ("statement", v1::SignedTip { statement: vec![0xff], ..tip.clone() }),
        ("signature", v1::SignedTip { signature: vec![0; 1_025], ..tip.clone() }),
        ("signature_scheme", v1::SignedTip { signature_scheme: 0x0401, ..tip.clone() }),
        ("signature_scheme", v1::SignedTip { signature_scheme: 0x1_0403, ..tip.clone() }),
        ("statement.chain_id", edited(|it| it.chain_id = "../../etc/passwd".to_owned())),
        ("statement.ledger_id", edited(|it| it.ledger_id.clear())),
        ("statement.hash", edited(|it| it.hash.truncate(31))),
        ("statement.signed_us", edited(|it| it.signed_us = -1)),
        ("statement.identity", edited(|it| it.identity.clear())),
        ("certificates", v1::SignedTip::default()),
    ] {
        match verify(&bad, &trust) {
            Err(TipError::Malformed(error)) => assert_eq!(error.field, expected),
            other => panic!("{expected}: {other:?}"),
        }
    }
}

#[tokio::test]
async fn the_tip_is_that_of_the_last_record_that_was_announced_as_durable() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("crm-A.ledger");
    let whose = coalloc_ledger::Identity { kind: "crm".to_owned(), name: "crm-A".to_owned() };
    let id = || "0123456789abcdef0123456789abcdef".to_owned();
    let mut ledger = SqliteLedger::<u64>::open(&path, &whose, id, |_, _| Ok(())).unwrap();
    ledger.append(&[&1, &2]).unwrap();
    let host = System::host(Dialer::plain_text());
    let (mark, feed) = Feed::of(&ledger);
    let before = feed.tip(&host).await.unwrap();
    assert_eq!((before.sequence, before.ledger_id.as_str()), (2, ledger.id()));
    assert_eq!(before.hash, *ledger.tip());
    // Written to the file, but not announced.
    ledger.append(&[&3]).unwrap();
    assert_eq!(feed.tip(&host).await.unwrap(), before);
    let mut announcing = mark.around(ledger);
    announcing.append(&[&4]).unwrap();
    let after = feed.tip(&host).await.unwrap();
    assert_eq!(after.sequence, 3, "one record more was announced");
    assert_ne!(after.hash, before.hash);
}

#[tokio::test]
async fn a_ledger_without_records_has_the_tip_before_its_first_record() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("crm-A.ledger");
    let whose = coalloc_ledger::Identity { kind: "crm".to_owned(), name: "crm-A".to_owned() };
    let id = || "0123456789abcdef0123456789abcdef".to_owned();
    let ledger = SqliteLedger::<u64>::open(&path, &whose, id, |_, _| Ok(())).unwrap();
    let (_mark, feed) = Feed::of(&ledger);
    let tip = feed.tip(&System::host(Dialer::plain_text())).await.unwrap();
    assert_eq!((tip.sequence, tip.hash), (0, *ledger.tip()));
}
