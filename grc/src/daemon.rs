//! A GRC as one process: its ledger, coordinator, planners and services, from the start until the process is stopped.

use std::sync::Arc;

use coalloc_ledger::{Identity, Ledger};
use coalloc_net::daemon::DaemonError;
use coalloc_net::identity::server::ClientCertificates;
use coalloc_net::identity::settings::{Access, Security};
use coalloc_net::machine::{Host, System};
use coalloc_net::server::local::LocalServices;
use coalloc_net::server::{self, Listener, ServerError};
use coalloc_net::shared_ledger::{Elected, Election, Standby};
use coalloc_net::telemetry::Telemetry;
use coalloc_net::tips::service::LedgersService;
use coalloc_protocol::Causer;
use coalloc_protocol::coordinator::{Coordinator, CoordinatorRecord};
use coalloc_web::WebSources;
use coalloc_web::changes::ChangeSource;
use coalloc_web::listener;
use tokio::net::TcpListener;
use tokio::sync::watch;
use tonic::service::Routes;

use crate::availability::federation::Federation;
use crate::calls::calendar::CalendarReaders;
use crate::calls::parents::ParentService;
use crate::calls::service::GrcService;
use crate::calls::workflows::report::RevisionQueue;
use crate::config::GrcConfig;
use crate::meters;
use crate::node::equipment;
use crate::node::pauses::Pauses;
use crate::node::reconcile::Reconciler;
use crate::node::shell;
use crate::pictures::Pictures;
use crate::planning::Planners;
use crate::planning::plan_cache::PlanCache;
use crate::views::events::ChangeMarks;

/// Serves until SIGTERM or Ctrl-C, then lets calls in flight finish. If the ledger is shared, the process first stands by until
/// it leads.
///
/// # Errors
/// When the address is taken, the ledger cannot be used, the planners get no threads, or the transport fails.
pub async fn serve(config: GrcConfig) -> Result<(), DaemonError> {
    // The address is bound first: a second daemon of this configuration fails here, or at the ledger's lock.
    let listener = server::bind(config.daemon.listen).await?;
    config.daemon.security.follow();
    let host = System::host(config.daemon.security.dialer());
    let Some(settings) = config.daemon.shared_ledger.clone() else {
        let opened = shell::open(&config, &host)?;
        let planners = Planners::start()?;
        let stop = server::stop_signal();
        return serve_on(config, &host, listener, opened, None, planners, stop).await;
    };
    let mut stop = Box::pin(server::stop_signal());
    let core = shell::coordinator(&config, &host);
    let standby = Standby {
        settings: &settings,
        daemon: &config.daemon,
        node: Identity { kind: "grc".to_owned(), name: config.name.to_string() },
        host: &host,
        access: access(&config),
        services: &services(&config),
    };
    let Some(elected) = standby.wait(&listener, core, &mut stop).await? else { return Ok(()) };
    let planners = Planners::start()?;
    let Elected { core, ledger, election } = elected;
    let office = Some(election.clone());
    serve_on(config, &host, listener, (core, ledger), office, planners, stop).await?;
    election.resign().await;
    Ok(())
}

/// Who may connect, and who may call what.
fn access(config: &GrcConfig) -> Access {
    let parents = config.upward.as_ref().map(|upward| upward.coordinators.clone());
    let parents = parents.unwrap_or_default();
    let access = config.daemon.security.access(ClientCertificates::Optional, &parents, &config.rms);
    access.with_call_quotas(config.quotas.calls.clone())
}

/// The services of a coordinator.
fn services(config: &GrcConfig) -> Vec<&'static str> {
    let mut services = vec![
        "coalloc.v1.Coordinator",
        "coalloc.v1.Workflows",
        "coalloc.v1.Resolver",
        "coalloc.v1.Ledgers",
    ];
    services.extend(config.upward.is_some().then_some("coalloc.v1.ResourceManager"));
    services
}

/// Serves on any machine until the future `stop` ends. `election` is what the process was elected to, if its ledger is shared.
///
/// # Errors
/// When no thread can be started, or the transport fails.
pub async fn serve_on<L: Ledger<Record = CoordinatorRecord>>(
    config: GrcConfig,
    host: &Host,
    listener: impl Listener,
    opened: (Coordinator, L),
    election: Option<Election>,
    planners: Planners,
    stop: impl Future<Output = ()>,
) -> Result<(), DaemonError> {
    let above = config.upward.iter().flat_map(|upward| upward.coordinators.keys());
    let lineage = std::iter::once(config.name.to_string()).chain(above.map(ToString::to_string));
    let federation =
        Federation::new(&config.rms, host).of(lineage.collect()).with_owners(config.owners.clone());
    let tasks = config.tasks.clone();
    let pictures = Pictures::new(config.name.as_str(), tasks, federation.clone(), host);
    let (coordinator, ledger) = opened;
    let (node, ledger_id) = shell::start(
        &config,
        host,
        coordinator,
        ledger,
        election.as_ref(),
        &federation,
        &pictures,
    )?;
    let (handle, known) = (node.handle.clone(), federation.clone());
    let statuses = move || known.statuses();
    let figures = move || {
        let handle = handle.clone();
        async move { handle.read(meters::CoreFigures::of).await.ok() }
    };
    let readers = vec![node.reader.clone(), meters::reader(statuses, figures)];
    let name = config.name.as_str();
    let telemetry = Telemetry::start(&config.daemon, "grc", name, readers).await?;
    let reconciler = Reconciler::new(&config.name, &federation, &node.handle);
    federation.watch();
    pictures.watch();
    reconciler.watch();
    equipment::follow(config.name.as_str(), &federation, &node.handle);
    let ledgers =
        LedgersService::new(node.handle.clone(), &ledger_id, "grc", name, &config.daemon.security);
    let calls = matches!(config.daemon.security, Security::Proven(_));
    let calls = calls.then(|| Arc::new(config.quotas.calls.clone()));
    // One for all listeners: a user's calls are counted together.
    let access =
        Access { leadership: election.as_ref().map(Election::leadership), ..access(&config) };
    let service = GrcService {
        name: config.name.to_string(),
        pauses: Arc::new(Pauses::of_ledger(&ledger_id)),
        ledger_id,
        defaults: config.planning,
        federation,
        planners,
        handle: node.handle.clone(),
        plans: PlanCache::default(),
        pictures,
        reconciler,
        repair_policy: config.repair,
        revisions: RevisionQueue::default(),
        causer: Causer::Itself,
        calls,
        calendar_readers: CalendarReaders::of(&access),
    };
    let reports = service.clone();
    tokio::spawn(async move { reports.follow_reports().await });
    tokio::spawn(service.clone().keep_relocating());
    let mut routes = Routes::new(server::coordinator(service.clone()))
        .add_service(server::workflows(service.clone()))
        .add_service(server::resolver(service.clone()))
        .add_service(server::ledgers(ledgers));
    let (grc, listen, rms) = (&config.name, config.daemon.listen, config.rms.len());
    tracing::info!(%grc, %listen, rms, "serving");
    let services = services(&config);
    if let Some(config) = config.upward.clone() {
        let upward = ParentService { config, service };
        routes = routes.add_service(server::resource_manager(upward));
    }
    let stopping = watch::Sender::new(false);
    let web = match config.web_listen {
        None => None,
        Some(address) => {
            let bound = TcpListener::bind(address).await;
            let listener = bound.map_err(|source| ServerError::BindWeb { address, source })?;
            tracing::info!(listen = %address, "answers over HTTP");
            let local = LocalServices::new(routes.clone(), &access);
            let mut stopping = stopping.subscribe();
            let stop = async move {
                // Without a sender the daemon has ended.
                let _ = stopping.wait_for(|is_stopping| *is_stopping).await;
            };
            let handle = node.handle.clone();
            let changes: ChangeSource = Arc::new(move || {
                let handle = handle.clone();
                Box::pin(async move { handle.watch_itself(ChangeMarks).await })
            });
            let tls = access.tls.clone();
            let shown =
                WebSources { services: local, changes, experiments: config.web_experiments };
            Some(tokio::spawn(listener::serve(listener, tls, shown, stop)))
        }
    };
    let stop = async {
        stop.await;
        // A stream of events never ends by itself.
        node.handle.end_watches();
        stopping.send_replace(true);
    };
    server::serve(listener, access, routes, &services, node.room.clone(), stop).await?;
    if let Some(web) = web {
        // It ends in bounded time, and has nothing to say.
        let _ = web.await;
    }
    node.stop().await;
    telemetry.stop().await;
    tracing::info!(grc = %config.name, "stopped");
    Ok(())
}
