//! Evidence against ledgers that were changed in every way, with real ledgers, certificates and folders.

use std::path::PathBuf;
use std::time::{Duration, SystemTime};

use coalloc_common::{Identity, Role, Time, TrustDomain};
use coalloc_ledger::tip::hex;
use coalloc_ledger::{Identity as LedgerOwner, SqliteLedger};
use coalloc_net::identity::store::IdentityStore;
use coalloc_net::tips::{TipError, TipStatement, verify};
use coalloc_proto::v1;
use coalloc_protocol::Log as _;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::sign::CertifiedKey;
use tempfile::TempDir;

use super::collection::Problem;
use super::*;
use crate::kit::authority::folder::IdentityFolder;
use crate::kit::authority::{Authority, Issued, Validity};
use crate::kit::exit::Exit;

const HOUR: Duration = Duration::from_secs(3_600);
const LEDGER: &str = "0123456789abcdef0123456789abcdef";
const OTHER_LEDGER: &str = "00000000000000000000000000000001";

/// A ledger of `crm-A` in the domain `north`, and an auditor with a folder.
struct World {
    folder: TempDir,
    authority: Authority,
    now: SystemTime,
}

fn identity(name: &str) -> Identity {
    let domain = TrustDomain::parse("domain", "north").unwrap();
    Identity::new("name", domain, Role::ResourceManager, name).unwrap()
}

fn key(issued: &Issued) -> CertifiedKey {
    let key = PrivateKeyDer::from_pem_slice(issued.key_pem.as_bytes()).unwrap();
    let key = rustls::crypto::ring::sign::any_supported_type(&key).unwrap();
    let certificate = CertificateDer::from_pem_slice(issued.certificate_pem.as_bytes()).unwrap();
    CertifiedKey::new(vec![certificate], key)
}

fn time(at: SystemTime) -> Time {
    let since = at.duration_since(SystemTime::UNIX_EPOCH).unwrap();
    Time::from_us(i64::try_from(since.as_micros()).unwrap())
}

impl World {
    fn new() -> Self {
        let now = SystemTime::now();
        let north = TrustDomain::parse("domain", "north").unwrap();
        let authority = Authority::create(&north, now - 48 * HOUR).unwrap();
        Self { folder: tempfile::tempdir().unwrap(), authority, now }
    }

    /// The certificate of a daemon, valid for an hour from so many hours before now.
    fn certificate(&mut self, name: &str, hours: u32) -> CertifiedKey {
        let not_before = self.now - hours * HOUR;
        let validity = Validity { not_before, not_after: not_before + HOUR };
        key(&self.authority.issue(&identity(name), validity).unwrap())
    }

    fn trust(&self) -> Trust {
        let folder = self.folder.path().join("auditor");
        IdentityFolder::at(&folder).write_trust(&[self.authority.trusted()]).unwrap();
        Trust::read(&folder.join(TRUST)).unwrap()
    }

    fn evidence(&self) -> PathBuf {
        self.folder.path().join("evidence")
    }

    /// A new file with a ledger of this id and these records; the chain is sound, whatever they are.
    fn ledger(&self, stem: &str, id: &str, records: &[&str]) -> (PathBuf, Vec<[u8; 32]>) {
        let path = self.folder.path().join(format!("{stem}.ledger"));
        let owner = LedgerOwner { kind: "crm".to_owned(), name: "crm-A".to_owned() };
        let id = || id.to_owned();
        let mut ledger = SqliteLedger::<String>::open(&path, &owner, id, |_, _| Ok(())).unwrap();
        let mut hashes = vec![*ledger.tip()];
        for record in records {
            ledger.append(&[&(*record).to_owned()]).unwrap();
            hashes.push(*ledger.tip());
        }
        (path, hashes)
    }

    fn statement(&self, name: &str, sequence: u64, hash: [u8; 32], hours: u32) -> TipStatement {
        TipStatement {
            tip: coalloc_ledger::tip::Tip { ledger_id: LEDGER.to_owned(), sequence, hash },
            ledger_id: LEDGER.to_owned(),
            kind: "crm".to_owned(),
            name: name.to_owned(),
            identity: identity(name),
            signed: time(self.now - hours * HOUR + HOUR / 2),
            challenge: Vec::new(),
        }
    }

    /// Stores a tip as an audit would that has fetched it.
    fn store(&self, tip: v1::SignedTip) {
        let verified = verify(&tip, &self.trust()).unwrap();
        EvidenceFolder::open(&self.evidence()).unwrap().append(tip, &verified).unwrap();
    }

    /// Signs and stores the tips of these records of a ledger, each an hour after the other.
    fn sign(&mut self, hashes: &[[u8; 32]], sequences: &[usize]) {
        let mut hours = 24;
        for sequence in sequences {
            let key = self.certificate("crm-A", hours);
            let number = u64::try_from(*sequence).unwrap();
            let said = self.statement("crm-A", number, hashes[*sequence], hours);
            self.store(said.sign(&key).unwrap());
            hours -= 1;
        }
    }

    fn report(&self, ledgers: &[&Path]) -> EvidenceReport {
        let folder = self.evidence();
        let collection = EvidenceFolder::of(&folder).read(&self.trust()).unwrap();
        let compare = |ledger: &&Path| LedgerComparison::new(&collection, ledger).unwrap();
        EvidenceReport::new(&folder, &collection, ledgers.iter().map(compare).collect())
    }

    fn problems(&self, ledgers: &[&Path]) -> Vec<Problem> {
        let report = self.report(ledgers);
        let problems: Vec<_> = report.findings().iter().map(|one| one.problem).collect();
        assert_eq!(report.exit() == Exit::Failed, !problems.is_empty(), "{}", report.text());
        problems
    }
}

#[test]
fn a_ledger_that_only_grows_agrees_with_its_tips_also_when_their_certificates_have_ended() {
    let mut world = World::new();
    let (path, hashes) = world.ledger("crm-A", LEDGER, &["a", "b", "c", "d"]);
    // Every certificate has ended long ago: it lasts an hour.
    world.sign(&hashes, &[0, 2, 2, 3]);
    let report = world.report(&[&path]);
    assert_eq!(report.exit(), Exit::Done, "{}", report.text());
    let text = report.text();
    assert!(text.starts_with("The evidence agrees; 4 signed tips"), "{text}");
    assert!(text.contains("no tip covers the last 1"), "{text}");
    let without = world.report(&[]).text();
    assert!(without.contains("No ledger was given"), "{without}");
}

#[test]
fn a_new_chain_with_other_records_is_found_although_it_is_sound() {
    let mut world = World::new();
    let (path, hashes) = world.ledger("crm-A", LEDGER, &["a", "b", "c"]);
    world.sign(&hashes, &[1, 3]);
    assert_eq!(world.problems(&[&path]), []);
    let (rewritten, others) = world.ledger("rewritten", LEDGER, &["a", "B", "c"]);
    coalloc_ledger::look::look(&rewritten, |_, _, _| Ok(())).expect("its chain is sound");
    // What was signed before the changed record still agrees.
    assert_eq!(world.problems(&[&rewritten]), [Problem::Changed]);
    let report = world.report(&[&rewritten]);
    let finding = &report.findings()[0];
    assert_eq!((finding.sequence, finding.ledger.as_str()), (Some(3), LEDGER));
    assert_eq!(finding.signed_hash, Some(hex(&hashes[3])));
    assert_eq!(finding.other_hash, Some(hex(&others[3])));
    assert_eq!(finding.signer, Some(identity("crm-A").to_string()));
    let signed = time(world.now - 23 * HOUR + HOUR / 2).to_string();
    assert_eq!(finding.signed, Some(signed.clone()));
    for part in [LEDGER, &hex(&hashes[3]), &hex(&others[3]), "record 3", &signed, "changed or cut"]
    {
        assert!(finding.text.contains(part), "{part}: {}", finding.text);
    }
}

#[test]
fn a_ledger_that_was_cut_is_found_although_it_is_sound() {
    let mut world = World::new();
    let (_, hashes) = world.ledger("crm-A", LEDGER, &["a", "b", "c"]);
    world.sign(&hashes, &[2, 3]);
    let (cut, _) = world.ledger("cut", LEDGER, &["a", "b"]);
    assert_eq!(world.problems(&[&cut]), [Problem::Cut]);
    let text = world.report(&[&cut]).text();
    assert!(text.contains("ends at record 2") && text.contains("FAIL"), "{text}");
    // With a new end, it is no shorter than it was.
    let (regrown, _) = world.ledger("regrown", LEDGER, &["a", "b", "x", "y"]);
    assert_eq!(world.problems(&[&regrown]), [Problem::Changed]);
}

#[test]
fn a_record_that_was_changed_in_the_file_leaves_the_tips_after_it_without_proof() {
    let mut world = World::new();
    let (path, hashes) = world.ledger("crm-A", LEDGER, &["a", "unmistakable", "c"]);
    world.sign(&hashes, &[1, 2, 3]);
    let mut bytes = std::fs::read(&path).unwrap();
    let at = bytes.windows(12).position(|window| window == b"unmistakable").unwrap();
    bytes[at] = b'U';
    std::fs::write(&path, bytes).unwrap();
    // The damage itself, and the two tips that cannot be compared.
    let expected = [Problem::Damaged, Problem::Damaged, Problem::Damaged];
    assert_eq!(world.problems(&[&path]), expected);
    let report = world.report(&[&path]);
    let numbers: Vec<_> = report.findings().iter().map(|finding| finding.sequence).collect();
    assert_eq!(numbers, [None, Some(2), Some(3)]);
}

#[test]
fn two_tips_that_contradict_each_other_need_no_ledger() {
    let mut world = World::new();
    let (_, hashes) = world.ledger("crm-A", LEDGER, &["a", "b", "c"]);
    let (_, others) = world.ledger("other", LEDGER, &["a", "x", "c"]);
    world.sign(&hashes, &[1, 2]);
    world.sign(&others, &[2, 2, 3]);
    // However often the second hash was signed, it is one contradiction.
    assert_eq!(world.problems(&[]), [Problem::Contradiction]);
    let report = world.report(&[]);
    let finding = &report.findings()[0];
    assert_eq!(finding.signed_hash, Some(hex(&hashes[2])));
    assert_eq!(finding.other_hash, Some(hex(&others[2])));
}

#[test]
fn a_later_tip_with_a_smaller_number_needs_no_ledger() {
    let mut world = World::new();
    let (path, hashes) = world.ledger("crm-A", LEDGER, &["a", "b", "c", "d"]);
    world.sign(&hashes, &[1, 3, 2, 3, 4]);
    assert_eq!(world.problems(&[]), [Problem::WentBack]);
    assert_eq!(world.problems(&[&path]), [Problem::WentBack]);
}

#[test]
fn a_ledger_that_was_replaced_is_found_with_and_without_tips_of_the_new_one() {
    let mut world = World::new();
    let (_, hashes) = world.ledger("crm-A", LEDGER, &["a"]);
    world.sign(&hashes, &[1]);
    let (new, others) = world.ledger("new", OTHER_LEDGER, &["a"]);
    assert_eq!(world.problems(&[&new]), [Problem::OtherLedger]);
    let key = world.certificate("crm-A", 1);
    let mut said = world.statement("crm-A", 1, others[1], 1);
    said.tip.ledger_id = OTHER_LEDGER.to_owned();
    world.store(said.sign(&key).unwrap());
    assert_eq!(world.problems(&[]), [Problem::OtherLedger]);
}

#[test]
fn a_daemon_cannot_sign_for_another_ones_ledger_unnoticed() {
    let mut world = World::new();
    let (path, hashes) = world.ledger("crm-A", LEDGER, &["a", "b"]);
    let rogue = world.certificate("crm-B", 3);
    // Under the name of the other one it is refused at once.
    let forged = world.statement("crm-A", 2, [7; 32], 3).sign(&rogue).unwrap();
    let refused = verify(&forged, &world.trust());
    assert!(matches!(refused, Err(TipError::OtherSigner { .. })), "{refused:?}");
    // Under its own name it speaks for a ledger that is not its own.
    world.sign(&hashes, &[1]);
    let said = world.statement("crm-B", 2, hashes[2], 3);
    world.store(said.sign(&rogue).unwrap());
    assert_eq!(world.problems(&[&path]), [Problem::TwoSigners, Problem::OtherSigner]);
}

#[test]
fn evidence_that_was_edited_or_cut_off_is_reported_by_line_and_hides_no_other_one() {
    let mut world = World::new();
    let (path, hashes) = world.ledger("crm-A", LEDGER, &["a", "b", "c"]);
    world.sign(&hashes, &[1, 2, 3]);
    let file = world.evidence().join(format!("crm-A.{LEDGER}.jsonl"));
    let text = std::fs::read_to_string(&file).unwrap();
    let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
    assert_eq!(lines.len(), 3);
    let mut evidence: v1::Evidence = serde_json::from_str(&lines[1]).unwrap();
    let tip = evidence.tip.as_mut().unwrap();
    let at = tip.statement.len() - 20;
    tip.statement[at] ^= 1;
    lines[1] = serde_json::to_string(&evidence).unwrap();
    // The last line is cut off, as by a crash.
    lines[2].truncate(100);
    std::fs::write(&file, lines.join("\n")).unwrap();
    world.sign(&hashes, &[3]);
    let long = " ".repeat(coalloc_common::limits::EVIDENCE_LINE_BYTES_MAX + 10);
    let text = std::fs::read_to_string(&file).unwrap();
    std::fs::write(&file, text.clone() + &long + "\n" + text.lines().next().unwrap() + "\n")
        .unwrap();
    let report = world.report(&[&path]);
    let texts: Vec<&str> = report.findings().iter().map(|finding| finding.text.as_str()).collect();
    assert!(texts[0].contains("line 2: "), "{texts:?}");
    assert!(texts[1].contains("line 3: it cannot be read"), "{texts:?}");
    assert!(texts[2].contains("line 5: it has more than"), "{texts:?}");
    // The first tip is there again after the long line, and reads as a ledger that went back.
    assert_eq!(report.findings().len(), 4, "{texts:?}");
    assert_eq!(report.findings()[3].problem, Problem::WentBack);
    assert!(report.text().contains("3 signed tips"), "{}", report.text());
}

#[test]
fn what_has_no_evidence_is_not_passed_over() {
    let mut world = World::new();
    let (path, hashes) = world.ledger("crm-A", LEDGER, &["a"]);
    std::fs::create_dir(world.evidence()).unwrap();
    for ledgers in [&[][..], &[path.as_path()]] {
        let report = world.report(ledgers);
        assert_eq!(report.exit(), Exit::Unfinished, "{}", report.text());
        assert!(report.text().starts_with("NOT PROVEN"), "{}", report.text());
    }
    world.sign(&hashes, &[1]);
    assert_eq!(world.report(&[&path]).exit(), Exit::Done);
    // The ledger of somebody else, beside one that has evidence.
    let owner = LedgerOwner { kind: "crm".to_owned(), name: "crm-C".to_owned() };
    let other = world.folder.path().join("crm-C.ledger");
    let id = || OTHER_LEDGER.to_owned();
    drop(SqliteLedger::<String>::open(&other, &owner, id, |_, _| Ok(())).unwrap());
    let report = world.report(&[&path, &other]);
    assert_eq!(report.exit(), Exit::Unfinished);
    let text = report.text();
    assert!(text.contains("NONE") && text.contains("crm-C"), "{text}");
}

#[test]
fn an_accepted_copy_is_named_beside_what_it_has_lost() {
    let mut world = World::new();
    let (_, hashes) = world.ledger("crm-A", LEDGER, &["a", "b", "c"]);
    world.sign(&hashes, &[3]);
    let (copy, _) = world.ledger("copy", LEDGER, &["a"]);
    std::fs::remove_file(copy.with_extension("ledger.tip")).unwrap();
    coalloc_ledger::look::accept_restored(&copy, "89abcdef").unwrap();
    assert_eq!(world.problems(&[&copy]), [Problem::Cut]);
    let text = world.report(&[&copy]).text();
    assert!(text.contains("an operator has accepted a restored copy"), "{text}");
}

#[test]
fn a_tip_that_is_fetched_answers_the_challenge_by_a_certificate_that_is_in_force() {
    let mut world = World::new();
    let folder = world.folder.path().join("ada");
    let domain = TrustDomain::parse("domain", "north").unwrap();
    let ada = Identity::new("name", domain, Role::Auditor, "ada").unwrap();
    let issued = world.authority.issue(&ada, Validity::lasting(world.now, HOUR)).unwrap();
    IdentityFolder::at(&folder).write(&issued, &[world.authority.trusted()]).unwrap();
    let store = IdentityStore::open(&folder).unwrap();
    let challenge = b"asked just now";
    let tip = |world: &mut World, hours: u32, challenge: &[u8]| {
        let key = world.certificate("crm-A", hours);
        let said = world.statement("crm-A", 1, [7; 32], hours);
        // In the middle of the hour in which the certificate is valid, as far as there is one.
        let signed = if hours == 0 { time(world.now) } else { said.signed };
        TipStatement { challenge: challenge.to_vec(), signed, ..said }.sign(&key).unwrap()
    };
    let good = tip(&mut world, 0, challenge);
    for expected in [None, Some("crm-A")] {
        gathering::verify_now(&good, &store, challenge, expected).unwrap();
    }
    let ended = tip(&mut world, 5, challenge);
    verify(&ended, &world.trust()).expect("it was good at its time");
    let old = tip(&mut world, 0, b"asked before");
    for (tip, expected, why) in [
        (&good, Some("crm-B"), "crm-A answers where its coordinator has crm-B"),
        (&old, None, "the tip was signed for somebody else, or before"),
        (&ended, None, "it has ended"),
    ] {
        let refused = gathering::verify_now(tip, &store, challenge, expected).unwrap_err();
        assert!(refused.contains(why), "{refused}");
    }
}

#[test]
fn two_audits_never_write_to_one_folder_at_a_time() {
    let world = World::new();
    let first = EvidenceFolder::open(&world.evidence()).unwrap();
    let refused = EvidenceFolder::open(&world.evidence()).unwrap_err();
    assert_eq!(refused.exit, Exit::Refused, "{refused}");
    drop(first);
    EvidenceFolder::open(&world.evidence()).unwrap();
}
