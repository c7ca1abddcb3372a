//! The federation: one GRC, one NRM and two CRMs, each on its own host, from configuration files that are
//! read as the daemons read them.

use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};

use coalloc_grc::config::GrcConfig;
use coalloc_grc::planning::Planners;
use coalloc_net::client::{Destination, ShownCertificate};
use coalloc_net::daemon::DaemonError;
use coalloc_net::machine::Host;
use coalloc_rm::config::RmConfig;

use crate::disk::SimLedger;
use crate::identities::{Protection, STOLEN};
use crate::machine::{Hardware, PORT, SimListener, SimMachine};
use crate::trace::Trace;

/// The coordinator.
pub(crate) const GRC: &str = "grc";
/// The resource managers.
pub(crate) const RMS: [&str; 3] = ["nrm", "crm-A", "crm-B"];
/// All daemons with a ledger.
pub(crate) const DAEMONS: [&str; 4] = [GRC, "nrm", "crm-A", "crm-B"];
/// The host of all honest clients.
pub(crate) const USERS: &str = "users";
/// The host of whoever has the stolen key.
pub(crate) const ROGUE: &str = "rogue";
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
                "{}coordinators: [{{name: {GRC}, address: \"{GRC}:{PORT}\"}}, \
                 {{name: {STOLEN}, address: \"{ROGUE}:{PORT}\"}}]\n\
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
pub(crate) async fn serve(
    hardware: Arc<Hardware>,
    protection: Protection,
    trace: Trace,
) -> turmoil::Result {
    if hardware.is_absent() {
        return std::future::pending().await;
    }
    let name = hardware.name;
    let identity = match &protection {
        Protection::PlainText => None,
        Protection::Tls(identities) => Some(identities.of_daemon(name, &trace).await),
    };
    if let Some(identity) = &identity {
        hardware.set_identity(identity);
    }
    let security = Protection::security(identity);
    let dialer = security.dialer();
    let host: Host = Arc::new(SimMachine { hardware: Arc::clone(&hardware), dialer });
    let listener = SimListener::bind().await?;
    let records = hardware.disk.bodies().len();
    trace.add(name, format_args!("starts with {records} records"));
    let forever = std::future::pending();
    if name == GRC {
        let mut config = configs().grc.clone();
        config.daemon.security = security;
        expect_all(&protection, &mut config.rms);
        let mut core = coalloc_grc::node::shell::coordinator(&config, &host);
        let ledger = SimLedger::open(&hardware, &mut core)?;
        let planners = Planners::at_once()?;
        let opened = (core, ledger);
        coalloc_grc::daemon::serve_on(config, &host, listener, opened, None, planners, forever)
            .await?;
    } else {
        let mut config = configs().rms[name].clone();
        config.daemon.security = security;
        expect_all(&protection, &mut config.coordinators);
        let mut core = coalloc_rm::shell::participant(&config);
        let ledger = SimLedger::open(&hardware, &mut core)?;
        let opened = (core, ledger);
        let ended = coalloc_rm::daemon::serve_on(config, &host, listener, opened, None, forever);
        match ended.await {
            // Its first append has failed. The process is gone, and is started again later.
            Err(DaemonError::Ledger(why)) => {
                hardware.note_end(&why);
                std::future::pending::<()>().await;
            }
            ended => ended?,
        }
    }
    Ok(())
}

/// Sets who has to answer where a daemon's peers are.
fn expect_all<N: ToString>(protection: &Protection, peers: &mut BTreeMap<N, Destination>) {
    for (name, destination) in peers {
        destination.expected = protection.destination(&name.to_string()).expected;
        // The configuration is that of all runs, and each start of a daemon has connections of its own.
        destination.shown = ShownCertificate::default();
    }
}
