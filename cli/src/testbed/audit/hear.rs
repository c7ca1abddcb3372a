//! Finds every daemon of a federation, waits until nothing moves any more, and reads everything.
//!
//! Coordinators name their resource managers. A resource manager that reports coordinators below itself is
//! a child coordinator, and is asked like a coordinator. At rest, every outcome is final, nobody holds
//! anything, and the coordinators give the same answer before and after the resource managers are asked.
//! Only then do the answers, read one after the other, describe one common point in time.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::time::{Duration, Instant};

use coalloc_net::client::Dialer;
use coalloc_net::status::is_standby;
use coalloc_proto::v1;
use tonic::Status;

use super::testimony::{Lower, Testimony, whole_reservations};
use crate::kit::exit::{Exit, Failure};
use crate::kit::rpc;

/// Pause between two rounds of questions.
const PAUSE: Duration = Duration::from_millis(200);

/// The addresses to ask, and who asks.
#[derive(Debug, Clone, Default)]
pub struct Places {
    /// host:port of coordinators.
    pub coordinators: Vec<String>,
    /// host:port of resource managers that are not where their coordinators find them (behind a relay, or
    /// in their own network).
    pub managers: Vec<String>,
    /// Who asks.
    pub dialer: Dialer,
}

impl Places {
    /// The addresses in a folder of configurations, such as `coalloc demo --dir` leaves.
    ///
    /// # Errors
    /// When the folder cannot be read, or has no coordinator's configuration.
    pub fn of_folder(folder: &Path) -> Result<Self, Failure> {
        let failed = |error: std::io::Error| {
            Failure::bad_input(format!("--dir: {}: {error}", folder.display()))
        };
        let mut files = Vec::new();
        for entry in std::fs::read_dir(folder).map_err(failed)? {
            files.push(entry.map_err(failed)?.path());
        }
        files.retain(|path| {
            path.extension().is_some_and(|kind| kind == "json" || kind == "yaml" || kind == "yml")
        });
        files.sort();
        let mut places = Self::default();
        let listen = |daemon: Option<v1::Daemon>| daemon.map(|daemon| daemon.listen);
        for path in files {
            use coalloc_proto::file::read;
            if let Ok(file) = read::<v1::GrcFile>(&path) {
                places.coordinators.extend(listen(file.message.daemon));
            } else if let Ok(file) = read::<v1::NrmFile>(&path) {
                places.managers.extend(listen(file.message.daemon));
            } else if let Ok(file) = read::<v1::CrmFile>(&path) {
                places.managers.extend(listen(file.message.daemon));
            }
        }
        if places.coordinators.is_empty() {
            let text = format!("--dir: {} has no coordinator's configuration", folder.display());
            return Err(Failure::bad_input(text));
        }
        Ok(places)
    }
}

/// One coordinator and its answers.
#[derive(Debug, Clone, PartialEq)]
pub struct Coordinator {
    /// Its name.
    pub name: String,
    /// All reservations that it knows.
    pub reservations: Vec<v1::Reservation>,
    /// Its address.
    pub address: String,
    /// The differences that the coordinator itself finds between its resource managers and its own records;
    /// empty if it cannot compare.
    pub compared: Vec<v1::ComparedBookings>,
}

/// The answers of all daemons.
#[derive(Debug, Clone, Default)]
pub struct FederationReport {
    /// Resource managers that are not coordinators.
    pub testimonies: Vec<Testimony>,
    /// Child coordinators.
    pub lower: Vec<Lower>,
    /// All coordinators, child coordinators included.
    pub coordinators: Vec<Coordinator>,
    /// Everything that still moved when the timeout passed; empty if nothing did. A hold whose transaction
    /// is over does not count as moving.
    pub restless: Vec<String>,
}

impl FederationReport {
    /// Does nothing move, and does nobody hold anything?
    fn is_at_rest(&self) -> bool {
        let lower = self.lower.iter().map(|lower| &lower.testimony);
        let mut all = self.testimonies.iter().chain(lower);
        self.restless.is_empty() && !all.any(Testimony::has_hold)
    }
}

/// Asks every daemon again and again until all is at rest, or the timeout passes.
///
/// # Errors
/// When the timeout passes before every daemon has answered once.
pub async fn hear(places: &Places, patience: Duration) -> Result<FederationReport, Failure> {
    let end = Instant::now() + patience;
    loop {
        match hear_once(places).await {
            Ok(heard) if heard.is_at_rest() || Instant::now() > end => {
                return Ok(compared(&places.dialer, heard).await);
            }
            Err(failure) if Instant::now() > end => return Err(failure),
            Ok(_) | Err(_) => tokio::time::sleep(PAUSE).await,
        }
    }
}

/// Adds the differences that every coordinator finds when it compares now.
async fn compared(dialer: &Dialer, mut heard: FederationReport) -> FederationReport {
    for coordinator in &mut heard.coordinators {
        let Ok(mut client) = rpc::coordinator(dialer, &coordinator.address) else { continue };
        let fresh = v1::ListDifferencesRequest { fresh: true, ..Default::default() };
        // An older coordinator that does not know this call is left out.
        if let Ok(answer) = client.list_differences(fresh).await {
            coordinator.compared = answer.into_inner().resource_managers;
        }
    }
    heard
}

async fn hear_once(places: &Places) -> Result<FederationReport, Failure> {
    let mut direct = BTreeMap::new();
    for address in &places.managers {
        let client = rpc::resource_manager(&places.dialer, address);
        let described = client?.describe(v1::DescribeRequest {}).await;
        let described = described.map_err(|status| failed(address, &status))?.into_inner();
        direct.insert(described.name, address.clone());
    }
    let mut heard = FederationReport::default();
    let mut addresses: Vec<String> = places.coordinators.clone();
    let mut asked: BTreeSet<String> = BTreeSet::new();
    let mut by_address = BTreeMap::new();
    // Coordinators are asked first, and again at the end; asking a coordinator finds its child coordinators.
    while let Some(address) = addresses.pop() {
        if by_address.contains_key(&address) {
            continue;
        }
        let mut client = rpc::coordinator(&places.dialer, &address)?;
        let mut workflows = rpc::workflows(&places.dialer, &address)?;
        let described = client.describe_federation(v1::DescribeFederationRequest {}).await;
        let described = match described {
            Ok(described) => described.into_inner(),
            // Whoever leads is asked, or another one becomes the leader meanwhile.
            Err(status) if is_standby(&status) && places.coordinators.len() > 1 => continue,
            Err(status) => return Err(failed(&address, &status)),
        };
        let name = described.coordinator;
        let all = whole_reservations(&mut client, &mut workflows).await;
        let all = all.map_err(|status| failed(&name, &status))?;
        let coordinator = Coordinator {
            name,
            reservations: all.clone(),
            address: address.clone(),
            compared: Vec::new(),
        };
        by_address.insert(address, coordinator);
        for manager in described.resource_managers {
            let address = direct.get(&manager.name).unwrap_or(&manager.address).clone();
            if !asked.insert(address.clone()) {
                continue;
            }
            let said = Testimony::hear(&places.dialer, &address).await;
            let (testimony, below) = said.map_err(|status| failed(&manager.name, &status))?;
            if below.is_empty() {
                heard.testimonies.push(testimony);
            } else {
                heard.lower.push(Lower { testimony, reservations: Vec::new() });
                addresses.push(address);
            }
        }
    }
    if by_address.is_empty() {
        return Err(Failure::new(Exit::CallFailed, "every coordinator stands by, and none leads"));
    }
    for (address, coordinator) in by_address {
        let mut client = rpc::coordinator(&places.dialer, &address)?;
        let mut workflows = rpc::workflows(&places.dialer, &address)?;
        let again = whole_reservations(&mut client, &mut workflows).await;
        let again = again.map_err(|status| failed(&coordinator.name, &status))?;
        if again != coordinator.reservations {
            heard.restless.push(format!("{} changed while it was being read", coordinator.name));
        }
        heard.coordinators.push(Coordinator { reservations: again, ..coordinator });
    }
    for lower in &mut heard.lower {
        let name = &lower.testimony.name;
        let own = heard.coordinators.iter().find(|coordinator| coordinator.name == *name);
        lower.reservations = own.map(|own| own.reservations.clone()).unwrap_or_default();
    }
    heard.testimonies.sort_by(|a, b| a.name.cmp(&b.name));
    heard.lower.sort_by(|a, b| a.testimony.name.cmp(&b.testimony.name));
    heard.coordinators.sort_by(|a, b| a.name.cmp(&b.name));
    heard.restless.extend(restless(&heard));
    Ok(heard)
}

/// Everything that still moves.
fn restless(heard: &FederationReport) -> Vec<String> {
    let mut restless = Vec::new();
    for Coordinator { name, reservations, .. } in &heard.coordinators {
        let open = reservations.iter().filter(|one| !one.definite).count();
        if open > 0 {
            let open = crate::kit::text::count(open, "reservation");
            restless.push(format!("{name} has {open} without a final outcome"));
        }
    }
    restless
}

fn failed(name: &str, status: &Status) -> Failure {
    let (code, message) = (status.code(), status.message());
    Failure::new(Exit::CallFailed, format!("{name} could not be asked: {code:?}: {message}"))
}
