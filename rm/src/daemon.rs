//! An RM as one process: its ledger, its participant and its service, until it is told to stop.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::ExitCode;

use coalloc_ledger::{Identity, Ledger};
use coalloc_net::convert;
use coalloc_net::daemon::{self, DaemonError, Workers};
use coalloc_net::identity::server::ClientCertificates;
use coalloc_net::identity::settings::Access;
use coalloc_net::machine::{Host, System};
use coalloc_net::server::{self, Listener};
use coalloc_net::shared_ledger::{Elected, Election, Standby};
use coalloc_net::telemetry::{LogFormat, Telemetry};
use coalloc_net::tips::service::LedgersService;
use coalloc_proto::file::FileError;
use coalloc_proto::v1::DescribeResponse;
use coalloc_protocol::participant::{Participant, ParticipantRecord};
use tonic::service::Routes;

use crate::config::RmConfig;
use crate::equipment::LastReport;
use crate::publisher::Publisher;
use crate::service::RmService;
use crate::{meters, shell};

/// Runs the daemon of a configuration file until it is told to stop; `load` reads that file. The daemon is
/// compiled once, here, and not again for each kind of RM.
#[must_use]
pub fn run(
    config: &Path,
    log: LogFormat,
    load: fn(&Path) -> Result<RmConfig, FileError>,
) -> ExitCode {
    daemon::run(log, Workers::One, || async {
        serve(load(config).map_err(DaemonError::Configuration)?).await
    })
}

/// Serves until SIGTERM or Ctrl-C, then lets calls in flight finish. If the ledger is shared, the process first stands by until
/// it leads.
///
/// # Errors
/// When the address is taken, the ledger cannot be used, or the transport fails.
async fn serve(config: RmConfig) -> Result<(), DaemonError> {
    // The address comes first, so that a second daemon with this configuration ends here, or else at the
    // ledger's lock.
    let listener = server::bind(config.daemon.listen).await?;
    let Some(settings) = config.daemon.shared_ledger.clone() else {
        let opened = shell::open(&config)?;
        config.daemon.security.follow();
        let host = System::host(config.daemon.security.dialer());
        return serve_on(config, &host, listener, opened, None, server::stop_signal()).await;
    };
    config.daemon.security.follow();
    let host = System::host(config.daemon.security.dialer());
    let mut stop = Box::pin(server::stop_signal());
    let core = shell::participant(&config);
    let standby = Standby {
        settings: &settings,
        daemon: &config.daemon,
        node: Identity { kind: config.kind.word().to_owned(), name: config.name.to_string() },
        host: &host,
        access: access(&config),
        services: &SERVICES,
    };
    let Some(elected) = standby.wait(&listener, core, &mut stop).await? else { return Ok(()) };
    let Elected { core, ledger, election } = elected;
    let office = Some(election.clone());
    serve_on(config, &host, listener, (core, ledger), office, stop).await?;
    election.resign().await;
    Ok(())
}

/// The services of an RM.
const SERVICES: [&str; 2] = ["coalloc.v1.ResourceManager", "coalloc.v1.Ledgers"];

/// Who may connect, and who may call what.
fn access(config: &RmConfig) -> Access {
    let (required, none) = (ClientCertificates::Required, BTreeMap::new());
    config.daemon.security.access(required, &config.coordinators, &none)
}

/// Serves on any machine, until `stop` is done. `election` is what the process was elected to, if its ledger is shared.
///
/// # Errors
/// When the ledger does not fit this configuration, or the transport fails.
pub async fn serve_on<L: Ledger<Record = ParticipantRecord>>(
    config: RmConfig,
    host: &Host,
    listener: impl Listener,
    opened: (Participant, L),
    election: Option<Election>,
    stop: impl Future<Output = ()>,
) -> Result<(), DaemonError> {
    let (participant, ledger) = opened;
    let last = LastReport::default();
    let (node, ledger_id) = shell::start(&config, host, participant, ledger, last.clone())?;
    let readers =
        vec![node.reader.clone(), meters::reader(node.handle.clone(), config.kinds.clone())];
    let (kind, name) = (config.kind.word(), config.name.as_str());
    let telemetry = Telemetry::start(&config.daemon, kind, name, readers).await?;
    let publisher = Publisher::new(node.handle.clone(), &config, &ledger_id);
    let started = Some(convert::time_to_wire(node.handle.now().wall));
    let ledgers = LedgersService::new(
        node.handle.clone(),
        &ledger_id,
        kind,
        config.name.as_str(),
        &config.daemon.security,
    );
    let description = DescribeResponse {
        ledger_id,
        started,
        has_equipment: config.driver.is_some(),
        ..config.description.clone()
    };
    let service = RmService::new(node.handle.clone(), description, publisher, last);
    let routes =
        Routes::new(server::resource_manager(service)).add_service(server::ledgers(ledgers));
    let (name, listen) = (&config.name, config.daemon.listen);
    tracing::info!(rm = %name, kind = config.kind.word(), %listen, "serving");
    let access =
        Access { leadership: election.as_ref().map(Election::leadership), ..access(&config) };
    let stop = async {
        stop.await;
        // A watch stream never ends by itself.
        node.handle.end_watches();
    };
    server::serve(listener, access, routes, &SERVICES, node.room.clone(), stop).await?;
    node.stop().await;
    telemetry.stop().await;
    tracing::info!(rm = %config.name, "stopped");
    Ok(())
}
