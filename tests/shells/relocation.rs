//! A reservation moves off equipment that cannot be used: the real daemons with drivers of naive equipment, in simulated time.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use coalloc_common::ResourceId;
use coalloc_grc::config::GrcConfig;
use coalloc_grc::planning::Planners;
use coalloc_net::machine::Host;
use coalloc_proto::{Timestamp, v1};
use coalloc_protocol::participant::equipment::{
    EquipmentKey, EquipmentTrouble, Observed, Presence, Stage, Unusable, Want,
};
use coalloc_rm::config::RmConfig;
use coalloc_rm::driver::{Driver, DriverMaker};

use crate::disk::SimLedger;
use crate::federation::{GRC, USERS};
use crate::identities::{Party, Protection};
use crate::machine::{EPOCH_US, Hardware, PORT, SimListener, SimMachine};
use crate::trace::Trace;

const SITES: [&str; 2] = ["crm-A", "crm-B"];
/// When the window of the reservation begins and how long it is, in seconds after the start of the simulation.
pub(crate) const START_S: i64 = 60;
const LENGTH_S: i64 = 900;
/// The longest that a move takes: the RM looks every 30 s, the coordinator waits 10 s, and tries again after 30 s.
const MOVE_MAX: Duration = Duration::from_secs(90);

/// Naive equipment of one site.
#[derive(Debug, Default)]
struct Equipment {
    things: BTreeMap<EquipmentKey, Want>,
    unusable: BTreeSet<ResourceId>,
    /// Nothing can be removed.
    is_stuck: bool,
}

/// The equipment of a site, which the test breaks and mends.
#[derive(Debug, Clone, Default)]
pub(crate) struct SharedEquipment(Arc<Mutex<Equipment>>);

impl SharedEquipment {
    fn with<T>(&self, use_it: impl FnOnce(&mut Equipment) -> T) -> T {
        use_it(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn set_unusable(&self, servers: &[&str]) {
        let servers = servers.iter().map(|name| ResourceId::composed(*name)).collect();
        self.with(|equipment| equipment.unusable = servers);
    }

    /// The servers that the user may use now.
    pub(crate) fn in_use(&self, now_us: i64) -> Vec<String> {
        self.with(|equipment| {
            let active =
                equipment.things.values().filter(|want| matches!(want.stage, Stage::Active(_)));
            let shares = active.flat_map(|want| want.versions.iter().filter(|of| of.is_booked));
            let shares = shares.flat_map(|version| &version.shares);
            let now = shares.filter(|share| {
                share.window.start().as_us() <= now_us && now_us < share.window.end().as_us()
            });
            now.flat_map(|share| &share.servers).map(ToString::to_string).collect()
        })
    }
}

#[tonic::async_trait]
impl Driver for SharedEquipment {
    async fn observe(
        &self,
        wanted: &BTreeMap<EquipmentKey, Want>,
    ) -> Result<Observed, EquipmentTrouble> {
        self.with(|equipment| {
            let sentence = |name: &ResourceId| format!("the node of {name} is down");
            let mut observed = Observed::default();
            for (key, has) in &equipment.things {
                let reference = format!("{}/{}", key.chain, key.resource);
                let Some(want) = wanted.get(key) else {
                    observed.orphans.insert(reference);
                    continue;
                };
                let is_same = has.stage == want.stage && has.versions == want.versions;
                let differs = (!is_same).then(|| "it is something else".to_owned());
                let shares = want.versions.iter().flat_map(|version| &version.shares);
                let mut servers = shares.flat_map(|share| &share.servers);
                let trouble = servers.find(|name| equipment.unusable.contains(*name));
                let trouble = trouble.map(sentence);
                observed.present.insert(key.clone(), Presence { reference, differs, trouble });
            }
            let unusable = equipment.unusable.iter();
            let reason = |name: &ResourceId| Unusable { sentence: sentence(name), goes_on: false };
            observed.unusable = unusable.map(|name| (name.clone(), reason(name))).collect();
            Ok(observed)
        })
    }

    async fn make(&self, key: &EquipmentKey, want: &Want) -> Result<String, EquipmentTrouble> {
        self.with(|equipment| equipment.things.insert(key.clone(), want.clone()));
        Ok(format!("{}/{}", key.chain, key.resource))
    }

    async fn remove(&self, reference: &str) -> Result<(), EquipmentTrouble> {
        if self.with(|equipment| equipment.is_stuck) {
            return Err(EquipmentTrouble::Down("no controller answers".to_owned()));
        }
        let is_other = |key: &EquipmentKey| format!("{}/{}", key.chain, key.resource) != reference;
        self.with(|equipment| equipment.things.retain(|key, _| is_other(key)));
        Ok(())
    }
}

/// The configurations of a coordinator and two sites of three servers each, as daemons read them.
fn configs(repair: &str) -> (GrcConfig, BTreeMap<&'static str, RmConfig>) {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| {
        let path = folder.path().join(format!("{name}.yaml"));
        std::fs::write(&path, text).unwrap();
        path
    };
    let daemon = |name: &str| {
        format!(
            "daemon: {{insecure_plaintext: true, listen: \"127.0.0.1:{PORT}\", ledger: {name}}}\n"
        )
    };
    let site = |name: &'static str| {
        let site = name.trim_start_matches("crm-");
        let text = format!(
            "{}coordinators: [{{name: {GRC}, address: \"{GRC}:{PORT}\"}}]\n\
             inventory: {{name: {name}, domain: D, sites: [{{name: {site}, servers: {{cpus_each: 2, groups: \
             [{{names: [\"1\", \"2\", \"3\"]}}]}}}}]}}\n",
            daemon(name)
        );
        (name, coalloc_crm::load(&write(name, &text)).unwrap())
    };
    let mut text = format!("{}name: {GRC}\nrepair: {repair}\nresource_managers:\n", daemon(GRC));
    for name in SITES {
        text += &format!("- {{name: {name}, address: \"{name}:{PORT}\"}}\n");
    }
    (coalloc_grc::config::load(&write(GRC, &text)).unwrap(), SITES.map(site).into())
}

/// Runs a story with the federation, the equipment of both sites, and this policy.
pub(crate) fn tell<F>(
    repair: &str,
    story: impl FnOnce(BTreeMap<&'static str, SharedEquipment>) -> F,
) where
    F: Future<Output = turmoil::Result> + 'static,
{
    let trace = Trace::default();
    let mut sim = turmoil::Builder::new()
        .rng_seed(1)
        .tick_duration(Duration::from_millis(10))
        .simulation_duration(Duration::from_secs(1_200))
        .build();
    let (grc, rms) = configs(repair);
    let equipment: BTreeMap<&'static str, SharedEquipment> =
        SITES.map(|name| (name, SharedEquipment::default())).into();
    for (name, mut config) in rms {
        let driver = equipment[name].clone();
        config.driver = Some(DriverMaker::new(move |_| Arc::new(driver.clone())));
        let (hardware, trace) = (Hardware::new(name, 1, false, &trace), trace.clone());
        sim.host(name, move || {
            let (config, hardware) = (config.clone(), Arc::clone(&hardware));
            trace.add(name, format_args!("starts"));
            async move {
                let dialer = config.daemon.security.dialer();
                let host: Host = Arc::new(SimMachine { hardware: Arc::clone(&hardware), dialer });
                let mut core = coalloc_rm::shell::participant(&config);
                let ledger = SimLedger::open(&hardware, &mut core)?;
                let (listener, opened) = (SimListener::bind().await?, (core, ledger));
                let forever = std::future::pending();
                coalloc_rm::daemon::serve_on(config, &host, listener, opened, None, forever)
                    .await?;
                Ok(())
            }
        });
    }
    let hardware = Hardware::new(GRC, 1, false, &trace);
    sim.host(GRC, move || {
        let (config, hardware) = (grc.clone(), Arc::clone(&hardware));
        async move {
            let dialer = config.daemon.security.dialer();
            let host: Host = Arc::new(SimMachine { hardware: Arc::clone(&hardware), dialer });
            let mut core = coalloc_grc::node::shell::coordinator(&config, &host);
            let ledger = SimLedger::open(&hardware, &mut core)?;
            let (listener, opened) = (SimListener::bind().await?, (core, ledger));
            let (planners, forever) = (Planners::at_once()?, std::future::pending());
            coalloc_grc::daemon::serve_on(config, &host, listener, opened, None, planners, forever)
                .await?;
            Ok(())
        }
    });
    sim.client(USERS, story(equipment));
    sim.run().unwrap_or_else(|error| panic!("{error}\n{}", trace.lines().join("\n")));
}

pub(crate) fn now_us() -> i64 {
    EPOCH_US + i64::try_from(turmoil::sim_elapsed().unwrap_or_default().as_micros()).unwrap()
}

pub(crate) async fn shown() -> v1::Reservation {
    let mut client = Protection::PlainText.coordinator(Party::User);
    let answer = client.get(v1::GetRequest { id: "mine".to_owned() }).await.unwrap();
    answer.into_inner().reservation.unwrap()
}

/// Waits until this is true of the reservation. The time is simulated.
pub(crate) async fn until(what: &str, is_so: impl Fn(&v1::Reservation) -> bool) -> v1::Reservation {
    let end = tokio::time::Instant::now() + MOVE_MAX;
    loop {
        let reservation = shown().await;
        if is_so(&reservation) {
            return reservation;
        }
        assert!(tokio::time::Instant::now() < end, "not {what}: {reservation:#?}");
        tokio::time::sleep(Duration::from_millis(500)).await;
    }
}

/// Reserves 4 CPUs anywhere, which is two servers. Returns the site.
async fn reserve() -> &'static str {
    site_of(&reserve_with(None).await)
}

/// The same, as the reservation.
pub(crate) async fn reserve_with(manual_provision: Option<bool>) -> v1::Reservation {
    tokio::time::sleep(Duration::from_secs(2)).await;
    let site = v1::SiteRequest { name: "x".to_owned(), cpus: 4, ..Default::default() };
    let seconds = EPOCH_US / 1_000_000 + START_S;
    let request = v1::CoAllocationRequest {
        sites: vec![site],
        earliest_start: Some(Timestamp { seconds, nanos: 0 }),
        duration: Some(coalloc_proto::Duration { seconds: LENGTH_S, nanos: 0 }),
        user: "user".to_owned(),
        manual_provision,
        ..Default::default()
    };
    let wire = v1::ReserveRequest {
        request_id: "mine".to_owned(),
        request: Some(request),
        ..Default::default()
    };
    let mut client = Protection::PlainText.coordinator(Party::User);
    let answer = client.reserve(wire).await.unwrap().into_inner().reservation.unwrap();
    assert_eq!(answer.state(), v1::ReservationState::Confirmed);
    answer
}

pub(crate) fn site_of(reservation: &v1::Reservation) -> &'static str {
    let plan = reservation.plan.as_ref().unwrap();
    if plan.placements[0].at == "A" { "crm-A" } else { "crm-B" }
}

pub(crate) fn is_active(reservation: &v1::Reservation) -> bool {
    reservation.state() == v1::ReservationState::Active
}

fn is_version(version: u64) -> impl Fn(&v1::Reservation) -> bool {
    move |known| {
        let is_well = is_active(known) && known.equipment_trouble.is_empty();
        u64::from(known.version) == version && is_well
    }
}

#[test]
fn a_running_reservation_moves_to_other_servers_then_to_another_site_and_waits_where_nothing_is_free()
 {
    tell("REPAIR_POLICY_AUTOMATIC", |equipment| async move {
        let first = reserve().await;
        let other = if first == "crm-A" { "crm-B" } else { "crm-A" };
        let named = |rm: &str, numbers: &[u32]| -> Vec<String> {
            let site = rm.trim_start_matches("crm-");
            numbers.iter().map(|number| format!("{site}/{number}")).collect()
        };
        tokio::time::sleep(Duration::from_secs(START_S as u64)).await;
        until("active", is_active).await;
        let had = equipment[first].in_use(now_us());
        assert_eq!(had.len(), 2);

        // One of its servers: the site has one more.
        let (broken, kept) = (had[0].clone(), had[1].clone());
        equipment[first].set_unusable(&[&broken]);
        let told = until("told", |known| !known.equipment_trouble.is_empty()).await;
        assert_eq!(told.state(), v1::ReservationState::Confirmed, "it is of no use");
        let moved = until("moved", is_version(2)).await;
        assert_eq!(moved.change.as_ref().unwrap().change_id, "repair-1");
        assert_eq!(site_of(&moved), first);
        let has = equipment[first].in_use(now_us());
        assert!(has.len() == 2 && has.contains(&kept) && !has.contains(&broken), "{has:?}");

        // All of them: the other site has three.
        let all = named(first, &[1, 2, 3]);
        equipment[first].set_unusable(&all.iter().map(String::as_str).collect::<Vec<_>>());
        let moved = until("at the other site", is_version(3)).await;
        assert_eq!(site_of(&moved), other);
        assert_eq!(equipment[first].in_use(now_us()), Vec::<String>::new());
        assert_eq!(equipment[other].in_use(now_us()).len(), 2);

        // Nothing is left anywhere: it stays as it is, and moves when something can be used again.
        let all = named(other, &[1, 2, 3]);
        equipment[other].set_unusable(&all.iter().map(String::as_str).collect::<Vec<_>>());
        let refused = until("refused", |known| {
            let change = known.change.as_ref().unwrap();
            change.change_id == "repair-3" && change.state() == v1::ChangeState::Refused
        });
        let refused = refused.await;
        assert_eq!((refused.version, site_of(&refused)), (3, other));
        assert!(!refused.equipment_trouble.is_empty());
        equipment[first].set_unusable(&[]);
        let moved = until("back", is_version(4)).await;
        assert_eq!(site_of(&moved), first);
        assert_eq!(equipment[first].in_use(now_us()).len(), 2);
        assert_eq!(equipment[other].in_use(now_us()), Vec::<String>::new());
        Ok(())
    });
}

#[test]
fn what_is_back_soon_stays_and_what_an_old_site_cannot_remove_is_no_reason_to_move_again() {
    tell("REPAIR_POLICY_AUTOMATIC", |equipment| async move {
        let first = reserve().await;
        tokio::time::sleep(Duration::from_secs(START_S as u64)).await;
        until("active", is_active).await;
        let had = equipment[first].in_use(now_us());
        equipment[first].set_unusable(&[&had[0]]);
        until("told", |known| !known.equipment_trouble.is_empty()).await;
        equipment[first].set_unusable(&[]);
        tokio::time::sleep(Duration::from_secs(60)).await;
        let known = shown().await;
        assert_eq!((known.version, is_active(&known)), (1, true), "it is back after some seconds");
        assert_eq!(equipment[first].in_use(now_us()), had);

        let site = first.trim_start_matches("crm-");
        let all = [1, 2, 3].map(|number| format!("{site}/{number}"));
        equipment[first].with(|equipment| equipment.is_stuck = true);
        equipment[first].set_unusable(&all.each_ref().map(String::as_str));
        let moved = until("moved", |known| known.version == 2).await;
        assert_ne!(site_of(&moved), first);
        tokio::time::sleep(Duration::from_secs(150)).await;
        assert_eq!(shown().await.version, 2, "it is whole where it is");
        equipment[first].with(|equipment| equipment.is_stuck = false);
        until("well", is_version(2)).await;
        Ok(())
    });
}

#[test]
fn an_operator_moves_what_is_offered_and_nobody_else_does() {
    tell("REPAIR_POLICY_OFFER", |equipment| async move {
        let site = reserve().await;
        // Its window has not begun, so all of it moves.
        tokio::time::sleep(Duration::from_secs(5)).await;
        let broken = shown().await.servers[0].servers[0].clone();
        equipment[site].set_unusable(&[&broken]);
        until("told", |known| !known.equipment_trouble.is_empty()).await;
        tokio::time::sleep(Duration::from_secs(60)).await;
        assert_eq!(shown().await.version, 1, "nobody has moved it");

        let mut client = Protection::PlainText.coordinator(Party::User);
        let all = client.list_differences(v1::ListDifferencesRequest::default()).await.unwrap();
        let all = all.into_inner().resource_managers;
        let offered: Vec<_> = all.iter().flat_map(|one| &one.differences).collect();
        assert_eq!(offered.len(), 1, "{all:?}");
        assert_eq!(offered[0].kind(), v1::DifferenceKind::Unusable);
        assert_eq!(offered[0].repair(), v1::RepairKind::Relocate);
        assert!(offered[0].why.contains("is down"), "{}", offered[0].why);
        let repair = v1::RepairRequest {
            repair_id: "by-hand".to_owned(),
            resource_manager: site.to_owned(),
            transaction: offered[0].transaction.clone(),
            ..Default::default()
        };
        let done = client.repair(repair.clone()).await.unwrap().into_inner().reservation.unwrap();
        assert_eq!(done.change.as_ref().unwrap().state(), v1::ChangeState::Done);
        assert_eq!((done.version, site_of(&done)), (2, site));
        // The same once more is the same repair.
        let again = client.repair(repair).await.unwrap().into_inner().reservation.unwrap();
        assert_eq!(again.version, 2);
        until("active again", is_version(2)).await;
        assert!(!equipment[site].in_use(now_us()).contains(&broken));
        Ok(())
    });
}

#[test]
fn what_cannot_be_used_is_reserved_by_nobody() {
    tell("REPAIR_POLICY_NONE", |equipment| async move {
        equipment["crm-A"].set_unusable(&["A/1", "A/2"]);
        // Until the RM has looked.
        tokio::time::sleep(Duration::from_secs(35)).await;
        assert_eq!(reserve().await, "crm-B", "A has one server");
        equipment["crm-B"].set_unusable(&["B/1", "B/2", "B/3"]);
        until("told", |known| !known.equipment_trouble.is_empty()).await;
        let mut client = Protection::PlainText.coordinator(Party::User);
        let all = client.list_differences(v1::ListDifferencesRequest::default()).await.unwrap();
        let all = all.into_inner().resource_managers;
        let told = all.iter().flat_map(|one| &one.differences).next().unwrap();
        assert_eq!(told.repair(), v1::RepairKind::Unspecified, "{told:?}");
        let repair = v1::RepairRequest {
            repair_id: "r".to_owned(),
            resource_manager: "crm-B".to_owned(),
            transaction: told.transaction.clone(),
            ..Default::default()
        };
        let refused = client.repair(repair).await.unwrap_err();
        assert_eq!(refused.code(), tonic::Code::FailedPrecondition);
        assert!(refused.message().contains("REPAIR_POLICY_NONE"), "{}", refused.message());
        Ok(())
    });
}
