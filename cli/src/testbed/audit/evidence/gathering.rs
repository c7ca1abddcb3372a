//! Fetches the signed tips of all daemons, and stores each that is believed.
//!
//! A daemon that gives no tip, or one that is not believed, is reported and keeps no other one from being asked. Each
//! request has random bytes in it that the tip must repeat, so that no daemon answers with an old one.
//!
//! Coordinators name their resource managers. A tip says by itself whether it is that of a coordinator, which then is
//! asked for its resource managers, too.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::io::Write as _;
use std::time::Duration;

use coalloc_ledger::tip::hex;
use coalloc_net::client::Dialer;
use coalloc_net::identity::store::IdentityStore;
use coalloc_net::identity::trust::Use;
use coalloc_net::tips::{self, VerifiedTip};
use coalloc_proto::v1;
use serde_json::json;

use super::collection::{Finding, TipCollection};
use super::folder::EvidenceFolder;
use super::{is_due, timer};
use crate::kit::exit::{Answer, Exit, Failure};
use crate::kit::{rpc, text};
use crate::testbed::audit::Places;

/// One round: every daemon was asked once.
#[derive(Debug, Default)]
struct Round {
    stored: Vec<VerifiedTip>,
    /// Who gave no tip that is believed, and why.
    missing: Vec<String>,
    findings: Vec<Finding>,
}

/// Fetches and stores tips: one round, or, with `every`, rounds until a signal comes.
///
/// # Errors
/// When the folder cannot be written.
pub(super) async fn gather(
    places: &Places,
    folder: &EvidenceFolder,
    mut known: TipCollection,
    every: Option<Duration>,
    as_json: bool,
) -> Result<Answer, Failure> {
    let before = known.findings().to_vec();
    let mut round = Round { findings: before, ..Round::default() };
    let Some(every) = every else {
        round.run(places, folder, &mut known).await?;
        let text = round.shown(as_json);
        return Ok(Answer { text, exit: round.exit() });
    };
    let (mut timer, mut is_wrong) = (timer(every), false);
    while is_due(&mut timer).await {
        tokio::select! {
            done = round.run(places, folder, &mut known) => done?,
            // What was stored in this round stays stored.
            () = coalloc_net::server::stop_signal() => break,
        }
        is_wrong |= !round.findings.is_empty();
        let mut stdout = std::io::stdout().lock();
        // When nobody reads any more, the tips are still stored.
        let _ = stdout.write_all(round.shown(as_json).as_bytes()).and_then(|()| stdout.flush());
        round = Round::default();
    }
    let exit = if is_wrong { Exit::Failed } else { Exit::Done };
    Ok(Answer { text: String::new(), exit })
}

impl Round {
    async fn run(
        &mut self,
        places: &Places,
        folder: &EvidenceFolder,
        known: &mut TipCollection,
    ) -> Result<(), Failure> {
        let mut asked = BTreeSet::new();
        let mut coordinators = Vec::new();
        let mut direct = BTreeSet::new();
        for address in places.managers.iter().chain(&places.coordinators) {
            if !asked.insert(address.clone()) {
                continue;
            }
            let Some((kind, name)) = self.ask(places, address, None, folder, known).await? else {
                continue;
            };
            direct.insert(name);
            coordinators.extend((kind == "grc").then(|| address.clone()));
        }
        while let Some(address) = coordinators.pop() {
            for (name, address) in self.managers(&places.dialer, &address).await {
                if direct.contains(&name) || !asked.insert(address.clone()) {
                    continue;
                }
                let answer = self.ask(places, &address, Some(&name), folder, known).await?;
                coordinators.extend(answer.filter(|(kind, _)| kind == "grc").map(|_| address));
            }
        }
        Ok(())
    }

    /// Fetches and stores the tip of one daemon. Returns its kind and name, unless it gives no tip that is believed.
    async fn ask(
        &mut self,
        places: &Places,
        address: &str,
        expected: Option<&str>,
        folder: &EvidenceFolder,
        known: &mut TipCollection,
    ) -> Result<Option<(String, String)>, Failure> {
        let fetched = fetch(&places.dialer, address, expected).await;
        let (tip, verified) = match fetched {
            Ok(fetched) => fetched,
            Err(why) => {
                let whose = expected.map_or_else(String::new, |name| format!("{name} at "));
                self.missing.push(format!("{whose}{address}: {why}"));
                return Ok(None);
            }
        };
        let at = folder.append(tip, &verified)?;
        self.findings.extend(known.add(&verified, at));
        let (kind, name) = (verified.statement.kind.clone(), verified.statement.name.clone());
        self.stored.push(verified);
        Ok(Some((kind, name)))
    }

    /// The names and addresses of a coordinator's resource managers.
    async fn managers(&mut self, dialer: &Dialer, address: &str) -> Vec<(String, String)> {
        let described = match rpc::coordinator(dialer, address) {
            Ok(mut client) => client
                .describe_federation(v1::DescribeFederationRequest {})
                .await
                .map_err(|status| rpc::failure(&status).message),
            Err(failure) => Err(failure.message),
        };
        let described = match described {
            Ok(described) => described.into_inner(),
            Err(why) => {
                self.missing.push(format!("the resource managers of {address}: {why}"));
                return Vec::new();
            }
        };
        let (named, hidden): (Vec<_>, Vec<_>) =
            described.resource_managers.into_iter().partition(|rm| !rm.address.is_empty());
        for rm in hidden {
            let name = rm.name;
            let why = "its coordinator tells its address to its own operators and auditors only; name it with --rm ADDR";
            self.missing.push(format!("{name}: {why}"));
        }
        named.into_iter().map(|rm| (rm.name, rm.address)).collect()
    }

    fn exit(&self) -> Exit {
        match (self.findings.is_empty(), self.missing.is_empty()) {
            (false, _) => Exit::Failed,
            (true, false) => Exit::CallFailed,
            (true, true) => Exit::Done,
        }
    }

    /// The round, for people or as one line of JSON.
    fn shown(&self, as_json: bool) -> String {
        if as_json {
            let stored: Vec<_> = self.stored.iter().map(as_value).collect();
            let (missing, findings) = (&self.missing, &self.findings);
            let round = json!({ "stored": stored, "missing": missing, "findings": findings });
            return format!("{round}\n");
        }
        let now = coalloc_net::clock::now().wall;
        let mut out = format!("{now}  {} stored\n", text::count(self.stored.len(), "signed tip"));
        let width = self.stored.iter().map(|tip| tip.statement.name.len()).max().unwrap_or(0);
        // Writing to a String cannot fail, here and below.
        for VerifiedTip { statement, .. } in &self.stored {
            let (kind, name, tip) = (&statement.kind, &statement.name, &statement.tip);
            let hash = hex(&tip.hash);
            let _ = writeln!(
                out,
                "  {kind} {name:<width$}  record {:<6} {hash}  signed {}",
                tip.sequence, statement.signed
            );
        }
        for who in &self.missing {
            let _ = writeln!(out, "  NONE   no tip of {who}");
        }
        for finding in &self.findings {
            let _ = writeln!(out, "  FAIL   {}", finding.text);
        }
        out
    }
}

fn as_value(verified: &VerifiedTip) -> serde_json::Value {
    let VerifiedTip { statement, signer } = verified;
    json!({
        "ledger": statement.tip.ledger_id,
        "kind": statement.kind,
        "name": statement.name,
        "sequence": statement.tip.sequence,
        "hash": hex(&statement.tip.hash),
        "signer": signer.identity.to_string(),
        "signed": statement.signed.to_string(),
    })
}

/// Fetches the signed tip of a daemon, and verifies it now and at its own time. `expected` is the name that its
/// coordinator has for it.
async fn fetch(
    dialer: &Dialer,
    address: &str,
    expected: Option<&str>,
) -> Result<(v1::SignedTip, VerifiedTip), String> {
    let store = dialer.identity().ok_or("there is no identity to ask with")?;
    let mut client = rpc::ledgers(dialer, address).map_err(|failure| failure.message)?;
    // Nobody can have signed these bytes before.
    let challenge = uuid::Uuid::new_v4().as_bytes().to_vec();
    let request = v1::SignTipRequest { challenge: challenge.clone() };
    let answer = client.sign_tip(request).await.map_err(|status| rpc::failure(&status).message)?;
    let tip = answer.into_inner().tip.ok_or("the answer has no tip")?;
    let verified = verify_now(&tip, store, &challenge, expected)?;
    Ok((tip, verified))
}

/// Verifies a tip that was fetched just now. More has to be right than of a tip that is stored: it answers this challenge,
/// and its signer is believed now.
pub(super) fn verify_now(
    tip: &v1::SignedTip,
    store: &IdentityStore,
    challenge: &[u8],
    expected: Option<&str>,
) -> Result<VerifiedTip, String> {
    let verified = tips::verify(tip, &store.current().trust).map_err(|error| error.to_string())?;
    let statement = &verified.statement;
    if statement.challenge != challenge {
        return Err("the tip was signed for somebody else, or before".to_owned());
    }
    if let Some(expected) = expected.filter(|expected| **expected != statement.name) {
        let name = &statement.name;
        return Err(format!("{name} answers where its coordinator has {expected}"));
    }
    let chain = tips::certificates(tip).map_err(|error| error.to_string())?;
    let chain: Vec<_> = chain.into_iter().map(|one| one.into_owned()).collect();
    store.verify(&chain, Use::Server).map_err(|disbelief| disbelief.to_string())?;
    Ok(verified)
}
