//! The federation: one GRC, one NRM and two CRMs, each on its own host, from configuration files that are
//! read as the daemons read them.

use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};

use coalloc_grc::config::GrcConfig;
use coalloc_grc::planning::Planners;
use coalloc_net::client;
use coalloc_net::machine::Host;
use coalloc_proto::v1::coordinator_client::CoordinatorClient;
use coalloc_proto::v1::resource_manager_client::ResourceManagerClient;
use coalloc_rm::config::RmConfig;
use tonic::transport::Channel;

use crate::disk::SimLedger;
use crate::machine::{Hardware, PORT, SimListener, SimMachine, connect};
use crate::trace::Trace;

/// The coordinator.
pub(crate) const GRC: &str = "grc";
/// The resource managers.
pub(crate) const RMS: [&str; 3] = ["nrm", "crm-A", "crm-B"];
/// All daemons with a ledger.
pub(crate) const DAEMONS: [&str; 4] = [GRC, "nrm", "crm-A", "crm-B"];
/// The host of all clients.
pub(crate) const USERS: &str = "users";
/// CPUs of each site.
pub(crate) const CPUS: u64 = 10;
/// Mbit/s between the sites.
pub(crate) const MBPS: u64 = 1_000;

#[derive(Debug)]
struct Configs {
    grc: GrcConfig,
    rms: BTreeMap<&'static str, RmConfig>,
}

/// The configurations, read from text as the daemons read them from files.
fn configs() -> &'static Configs {
    static CONFIGS: OnceLock<Configs> = OnceLock::new();
    CONFIGS.get_or_init(|| {
        let folder = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| {
            let path = folder.path().join(format!("{name}.yaml"));
            std::fs::write(&path, text).unwrap();
            path
        };
        // Every host has its own network, so all daemons use the same port. Holds are short, so that a run
        // comes to rest soon.
        let daemon =
            |name: &str| format!("daemon: {{insecure_plaintext: true, listen: \"127.0.0.1:{PORT}\", ledger: {name}}}\n");
        let rm = |name: &str, inventory: &str| {
            let text = format!(
                "{}coordinators: [{{name: {GRC}, address: \"{GRC}:{PORT}\"}}]\n\
                 policy: {{hold_soft: 3s, hold_hard: 15s}}\n\
                 profiles: {{coordinators: [{GRC}]}}\n\
                 inventory: {{name: {name}, domain: D, {inventory}}}\n",
                daemon(name)
            );
            write(name, &text)
        };
        let site = |site: &str| format!("sites: [{{name: {site}, cpus: {CPUS}}}]");
        let path =
            format!("paths: [{{name: A-B, a: A, b: B, capacity_bps: {}}}]", MBPS * 1_000_000);
        let mut rms = BTreeMap::new();
        rms.insert("nrm", coalloc_nrm::load(&rm("nrm", &path)).unwrap());
        rms.insert("crm-A", coalloc_crm::load(&rm("crm-A", &site("A"))).unwrap());
        rms.insert("crm-B", coalloc_crm::load(&rm("crm-B", &site("B"))).unwrap());
        let mut text = format!("{}name: {GRC}\nresource_managers:\n", daemon(GRC));
        for name in RMS {
            text += &format!("- {{name: {name}, address: \"{name}:{PORT}\"}}\n");
        }
        Configs { grc: coalloc_grc::config::load(&write(GRC, &text)).unwrap(), rms }
    })
}

/// Runs a daemon on its host; it only ends when its host ends.
pub(crate) async fn serve(hardware: Arc<Hardware>, trace: Trace) -> turmoil::Result {
    if hardware.is_absent() {
        return std::future::pending().await;
    }
    let host: Host = Arc::new(SimMachine(Arc::clone(&hardware)));
    let listener = SimListener::bind().await?;
    let name = hardware.name;
    let records = hardware.disk.bodies().len();
    trace.add(name, format_args!("starts with {records} records"));
    let forever = std::future::pending();
    if name == GRC {
        let config = configs().grc.clone();
        let mut core = coalloc_grc::node::shell::coordinator(&config, &host);
        let ledger = SimLedger::open(&hardware, &mut core)?;
        let planners = Planners::at_once()?;
        let opened = (core, ledger);
        coalloc_grc::daemon::serve_on(config, &host, listener, opened, planners, forever).await?;
    } else {
        let config = configs().rms[name].clone();
        let mut core = coalloc_rm::shell::participant(&config);
        let ledger = SimLedger::open(&hardware, &mut core)?;
        coalloc_rm::daemon::serve_on(config, &host, listener, (core, ledger), forever).await?;
    }
    Ok(())
}

fn channel(name: &str) -> Channel {
    connect(&client::endpoint("address", &format!("{name}:{PORT}")).unwrap())
}

/// A client of the coordinator, on the host that calls this.
pub(crate) fn coordinator() -> CoordinatorClient<Channel> {
    CoordinatorClient::new(channel(GRC))
}

/// A client of a resource manager, on the host that calls this.
pub(crate) fn manager(name: &str) -> ResourceManagerClient<Channel> {
    ResourceManagerClient::new(channel(name))
}
