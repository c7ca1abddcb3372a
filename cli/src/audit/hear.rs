//! Finds every daemon of a federation, waits until nothing moves any more, and reads all of it.
//!
//! Coordinators name their resource managers; a resource manager that has coordinators below it is one
//! itself, and is asked like one. At rest every outcome is final, nobody holds anything, and the
//! coordinators say the same before and after the resource managers were asked: what was read from many
//! places one after the other is then what they all had at one time.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::time::{Duration, Instant};

use coalloc_proto::v1;
use tonic::Status;

use super::testimony::reservations;
use super::{Lower, Testimony};
use crate::exit::{Exit, Failure};
use crate::rpc;

/// Pause between two looks.
const PAUSE: Duration = Duration::from_millis(200);

/// Where to ask.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Places {
    /// host:port of coordinators.
    pub coordinators: Vec<String>,
    /// host:port of resource managers that are not where their coordinators find them (behind a relay,
    /// or in a network of their own).
    pub managers: Vec<String>,
}

impl Places {
    /// Those of a folder of configurations, as `coalloc demo --dir` leaves one.
    ///
    /// # Errors
    /// When it cannot be read, or has no coordinator's configuration.
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

/// One coordinator, as it was found.
#[derive(Debug, Clone, PartialEq)]
pub struct Coordinator {
    /// Its name.
    pub name: String,
    /// All that it knows of.
    pub reservations: Vec<v1::Reservation>,
    /// Where it is.
    pub address: String,
    /// How its resource managers differ from what it counts on, by itself; nothing of one that cannot tell.
    pub compared: Vec<v1::ComparedBookings>,
}

/// What everybody says.
#[derive(Debug, Clone, Default)]
pub struct Heard {
    /// Resource managers that are no coordinators.
    pub testimonies: Vec<Testimony>,
    /// Coordinators below another one.
    pub lower: Vec<Lower>,
    /// All coordinators, those below others too.
    pub coordinators: Vec<Coordinator>,
    /// What still moved when the patience ended; empty: nothing did. A hold whose transaction is over
    /// does not move.
    pub restless: Vec<String>,
}

impl Heard {
    /// Nothing moves, and nobody holds anything.
    fn is_at_rest(&self) -> bool {
        let lower = self.lower.iter().map(|lower| &lower.testimony);
        let mut all = self.testimonies.iter().chain(lower);
        self.restless.is_empty() && !all.any(Testimony::has_hold)
    }
}

/// Asks everybody again and again until all is at rest, or the patience ends.
///
/// # Errors
/// When the patience ends before everybody has answered once.
pub async fn hear(places: &Places, patience: Duration) -> Result<Heard, Failure> {
    let end = Instant::now() + patience;
    loop {
        match hear_once(places).await {
            Ok(heard) if heard.is_at_rest() || Instant::now() > end => {
                return Ok(compared(heard).await);
            }
            Err(failure) if Instant::now() > end => return Err(failure),
            Ok(_) | Err(_) => tokio::time::sleep(PAUSE).await,
        }
    }
}

/// With what every coordinator finds that compares now.
async fn compared(mut heard: Heard) -> Heard {
    for coordinator in &mut heard.coordinators {
        let Ok(mut client) = rpc::coordinator(&coordinator.address) else { continue };
        let fresh = v1::ListDifferencesRequest { fresh: true, ..Default::default() };
        // One of before there was this question says nothing of it.
        if let Ok(answer) = client.list_differences(fresh).await {
            coordinator.compared = answer.into_inner().resource_managers;
        }
    }
    heard
}

async fn hear_once(places: &Places) -> Result<Heard, Failure> {
    let mut direct = BTreeMap::new();
    for address in &places.managers {
        let client = rpc::resource_manager(address);
        let described = client?.describe(v1::DescribeRequest {}).await;
        let described = described.map_err(|status| failed(address, &status))?.into_inner();
        direct.insert(described.name, address.clone());
    }
    let mut heard = Heard::default();
    let mut addresses: Vec<String> = places.coordinators.clone();
    let mut asked: BTreeSet<String> = BTreeSet::new();
    let mut by_address = BTreeMap::new();
    // Coordinators first, and again at the end; what is below one is found by asking it.
    while let Some(address) = addresses.pop() {
        if by_address.contains_key(&address) {
            continue;
        }
        let mut client = rpc::coordinator(&address)?;
        let described = client.describe_federation(v1::DescribeFederationRequest {}).await;
        let described = described.map_err(|status| failed(&address, &status))?.into_inner();
        let name = described.coordinator;
        let all = reservations(&mut client).await.map_err(|status| failed(&name, &status))?;
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
            let said = Testimony::hear(&address).await;
            let (testimony, below) = said.map_err(|status| failed(&manager.name, &status))?;
            if below.is_empty() {
                heard.testimonies.push(testimony);
            } else {
                heard.lower.push(Lower { testimony, reservations: Vec::new() });
                addresses.push(address);
            }
        }
    }
    for (address, coordinator) in by_address {
        let again = reservations(&mut rpc::coordinator(&address)?).await;
        let again = again.map_err(|status| failed(&coordinator.name, &status))?;
        if again != coordinator.reservations {
            heard.restless.push(format!("{} has changed while it was read", coordinator.name));
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

/// What moves yet.
fn restless(heard: &Heard) -> Vec<String> {
    let mut restless = Vec::new();
    for Coordinator { name, reservations, .. } in &heard.coordinators {
        let open = reservations.iter().filter(|one| !one.definite).count();
        if open > 0 {
            let open = crate::text::count(open, "reservation");
            restless.push(format!("{name} has {open} without a final outcome"));
        }
    }
    restless
}

fn failed(name: &str, status: &Status) -> Failure {
    let (code, message) = (status.code(), status.message());
    Failure::new(Exit::CallFailed, format!("{name} could not be asked: {code:?}: {message}"))
}
