//! Signed tips of ledgers, over real processes: who gets them, and what they show when a ledger is written anew.

use std::path::{Path, PathBuf};
use std::process::Command;

use coalloc_common::Role;
use coalloc_ledger::look::look;
use coalloc_ledger::{Identity as LedgerOwner, SqliteLedger};
use coalloc_net::client::Dialer;
use coalloc_net::tips;
use coalloc_proto::v1;
use coalloc_proto::v1::ledgers_client::LedgersClient;
use coalloc_protocol::Log as _;
use coalloc_protocol::participant::ParticipantRecord;
use serde_json::Value;
use tonic::Code;

use super::code;
use super::world::{TlsWorld, request};
use crate::harness::{Federation, RMS, eventually};

async fn sign_tip(
    dialer: &Dialer,
    address: &str,
    challenge: &[u8],
) -> Result<v1::SignedTip, tonic::Status> {
    let mut client = LedgersClient::new(dialer.channel("daemon", address).unwrap());
    let challenge = challenge.to_vec();
    let answer = client.sign_tip(v1::SignTipRequest { challenge }).await?;
    Ok(answer.into_inner().tip.unwrap())
}

/// An auditor at work: `coalloc audit --evidence` with an identity of the world.
struct AuditRun<'a> {
    world: &'a TlsWorld,
    folder: PathBuf,
}

impl AuditRun<'_> {
    fn run(&self, stem: &str, words: &[&str]) -> (Option<i32>, String) {
        let mut command = Command::new(env!("CARGO_BIN_EXE_coalloc"));
        command.env_remove("COALLOC_GRC").env_remove("COALLOC_IDENTITY");
        command.args(["audit", "--evidence"]).arg(&self.folder).args(words);
        command.arg("--identity").arg(self.world.federation.dir.path().join(format!("id-{stem}")));
        let output = command.output().unwrap();
        let text = [&output.stdout[..], &output.stderr[..]].concat();
        (output.status.code(), String::from_utf8_lossy(&text).into_owned())
    }

    /// Fetches the tips of all resource managers, as an auditor of their domain.
    fn fetch(&self) -> (Option<i32>, String) {
        let addresses: Vec<String> = RMS.iter().map(|rm| self.world.address(rm)).collect();
        self.run("south-auditor-sue", &["--rm", &addresses.join(",")])
    }

    fn verify(&self, ledgers: &[&Path]) -> (Option<i32>, String) {
        let paths: Vec<_> = ledgers.iter().map(|path| path.to_string_lossy()).collect();
        self.run("south-auditor-sue", &["--ledger", &paths.join(",")])
    }
}

/// Writes a ledger anew into another file: with the same id, and with the records that `edit` makes of the old ones. Its
/// chain is sound.
fn rewrite(from: &Path, to: &Path, edit: impl FnOnce(&mut Vec<ParticipantRecord>)) {
    let mut records = Vec::new();
    let about = look(from, |_, _, body| {
        records.push(serde_json::from_str(&body.to_json().unwrap()).unwrap());
        Ok(())
    });
    let about = about.unwrap().about;
    edit(&mut records);
    let LedgerOwner { kind, name } = about.node;
    let owner = LedgerOwner { kind, name };
    let id = || about.id.clone();
    let mut ledger =
        SqliteLedger::<ParticipantRecord>::open(to, &owner, id, |_, _| Ok(())).unwrap();
    ledger.append(&records.iter().collect::<Vec<_>>()).unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn every_daemon_signs_for_its_operators_and_auditors_what_its_ledger_has() {
    let mut world = TlsWorld::start().await;
    let alice = world.who("grid", Role::User, "alice");
    world.grc(&alice).reserve(request("r1", "alice")).await.unwrap();
    let staff = [
        world.who("grid", Role::Auditor, "ada"),
        world.who("grid", Role::Operator, "olga"),
        world.who("south", Role::Auditor, "sue"),
        world.who("south", Role::Operator, "otto"),
    ];
    for daemon in RMS.iter().chain(&["grc"]) {
        let (address, is_grc) = (world.address(daemon), *daemon == "grc");
        let (own, foreign) = if is_grc { (0..2, 2..4) } else { (2..4, 0..2) };
        for dialer in &staff[foreign] {
            assert_eq!(code(sign_tip(dialer, &address, b"").await), Code::PermissionDenied);
        }
        assert_eq!(code(sign_tip(&alice, &address, b"").await), Code::PermissionDenied);
        for dialer in &staff[own] {
            let tip = sign_tip(dialer, &address, b"whatever I choose").await.unwrap();
            let trust = &dialer.identity().unwrap().current().trust;
            let verified = tips::verify(&tip, trust).unwrap();
            let said = &verified.statement;
            assert_eq!(
                (said.name.as_str(), &said.challenge[..]),
                (*daemon, &b"whatever I choose"[..])
            );
            // The ledger has exactly this record with exactly this hash.
            let path = world.federation.dir.path().join(format!("{daemon}.ledger"));
            let mut hash = None;
            let seen = look(&path, |sequence, found, _| {
                hash = hash.or((sequence == said.tip.sequence).then_some(*found));
                Ok(())
            });
            let about = seen.unwrap().about;
            assert_eq!(hash, Some(said.tip.hash), "{daemon}");
            assert_eq!((&said.tip.ledger_id, &said.ledger_id), (&about.id, &about.identity()));
            assert_eq!(said.kind, about.node.kind);
            let long = sign_tip(dialer, &address, &[0; 33]).await;
            assert_eq!(code(long), Code::InvalidArgument);
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_auditor_finds_a_ledger_that_was_written_anew_and_one_that_was_cut() {
    let mut world = TlsWorld::start().await;
    let alice = world.who("grid", Role::User, "alice");
    world.who("south", Role::Auditor, "sue");
    world.who("grid", Role::Auditor, "ada");
    world.grc(&alice).reserve(request("r1", "alice")).await.unwrap();
    let dir = world.federation.dir.path().to_owned();
    let path = |name: &str| dir.join(format!("{name}.ledger"));
    let audit = AuditRun { world: &world, folder: dir.join("evidence") };
    // Nobody is passed over: the resource managers are there, but they do not sign for an auditor of another domain.
    let grc = world.address("grc");
    let (exit, text) = audit.run("grid-auditor-ada", &["--grc", &grc]);
    assert_eq!(exit, Some(5), "{text}");
    assert!(text.contains("1 signed tip stored") && text.contains("no tip of crm-A"), "{text}");
    let (exit, text) = audit.fetch();
    assert_eq!(exit, Some(0), "{text}");
    assert!(text.contains("3 signed tips stored"), "{text}");
    // The daemons are still at work.
    let ledgers = [path("grc"), path("nrm"), path("crm-A"), path("crm-B")];
    let (exit, text) = audit.verify(&ledgers.each_ref().map(PathBuf::as_path));
    assert_eq!(exit, Some(0), "{text}");
    assert_eq!(text.matches("  ok  ").count(), 4, "{text}");
    // A new chain over the same records in another order.
    let anew = dir.join("anew.ledger");
    rewrite(&path("crm-A"), &anew, |records| {
        let last = records.pop().unwrap();
        records.insert(0, last);
    });
    look(&anew, |_, _, _| Ok(())).expect("its chain is sound");
    let (exit, text) = audit.verify(&[&anew]);
    assert_eq!(exit, Some(1), "{text}");
    let signer = "spiffe://south/coalloc/resource-manager/crm-A";
    assert!(text.contains(signer) && text.contains("changed or cut after it was signed"), "{text}");
    // The operator of crm-A cuts its ledger and everything beside it, and starts the daemon again.
    let cut = dir.join("cut.ledger");
    rewrite(&path("crm-A"), &cut, |records| records.truncate(1));
    let mut world = world;
    world.federation.kill("crm-A");
    for ending in ["", "-wal", "-shm", ".tip"] {
        let _ = std::fs::remove_file(dir.join(format!("crm-A.ledger{ending}")));
    }
    std::fs::copy(&cut, path("crm-A")).unwrap();
    world.federation.spawn("crm-A");
    let sue = world.folder_dialer("south-auditor-sue");
    eventually("crm-A serves again", || async {
        world.rm(&sue, "crm-A").list_bookings(v1::ListBookingsRequest::default()).await.is_ok()
    })
    .await;
    let audit = AuditRun { world: &world, folder: dir.join("evidence") };
    let (exit, text) = audit.fetch();
    assert_eq!(exit, Some(1), "{text}");
    assert!(text.contains("the ledger was cut after it was signed"), "{text}");
    // The next round adds nothing to that, and whoever looks later sees it, too.
    let (exit, text) = audit.run("south-auditor-sue", &["--offline", "--json"]);
    assert_eq!(exit, Some(1), "{text}");
    let report: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(report["findings"][0]["problem"], "went-back", "{text}");
    assert_eq!(report["findings"][0]["signer"], signer, "{text}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_daemon_without_an_identity_says_that_it_cannot_sign() {
    let federation = Federation::start().await;
    for name in RMS.iter().chain(&["grc"]) {
        let address = &federation.addresses[*name];
        let status = sign_tip(&Dialer::plain_text(), address, b"").await.unwrap_err();
        assert_eq!(status.code(), Code::FailedPrecondition, "{status:?}");
        assert!(status.message().contains("coalloc certs issue"), "{status:?}");
    }
}
