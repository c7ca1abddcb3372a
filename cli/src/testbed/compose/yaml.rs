//! The text of a testbed's files, written by hand and not by a serializer, because people read and change them.

use std::fmt::Write as _;

use super::{Domain, Plan, config_name};
use crate::testbed::containers::{GRC_PORT, IDENTITY, METRICS_PORT, Manager, STATE};
use crate::testbed::local::layout::GRC;

/// The address of the host on which ports are published.
const PUBLISH: &str = "${COALLOC_PUBLISH:-127.0.0.1}";

/// Settings that all services share.
///
/// The limits only stop a daemon that has gone wrong; they are not tight: a daemon of ELGL uses some 20
/// MiB, a gate 13 MiB.
const SHARED: &str = r#"
x-service: &service
  image: ${COALLOC_IMAGE:-coalloc:local}
  environment: {COALLOC_LOG: "${COALLOC_LOG:-info}", COALLOC_IDENTITY: /etc/coalloc/identity}
  user: "65532:65532"
  read_only: true
  cap_drop: [ALL]
  security_opt: ["no-new-privileges:true"]
  # What crashes comes back with its ledger. What cannot start (a configuration, a ledger) stays down, to
  # be looked at. Killed or stopped by hand, it stays so until it is started by hand.
  restart: "on-failure:3"
  stop_grace_period: 10s
  logging: {driver: json-file, options: {max-size: "10m", max-file: "2"}}

x-manager: &manager
  <<: *service
  mem_limit: 128m
  cpus: 0.5
  pids_limit: 64

x-gate: &gate
  <<: *service
  mem_limit: 64m
  cpus: 0.5
  pids_limit: 64

# A check is a process of its own; more often than this, 17 of them would be felt on two cores.
x-check: &check
  interval: 5s
  timeout: 5s
  retries: 3
  start_period: 20s
"#;

/// `compose.yaml`.
pub(super) fn compose(federation: &str, plan: &Plan) -> String {
    // The name contains no line end, but it is used in a comment, so this makes sure.
    let federation = federation.replace(char::is_control, " ");
    let mut text = format!(
        "# Testbed of the federation {federation:?}: a network for each domain, and one between them.\n\
         # Written by `coalloc compose`. Options are in .env beside this file, and explained in\n\
         # docs/guide/compose.md.\n#\n"
    );
    for domain in &plan.domains {
        let managers: Vec<&str> =
            plan.of_domain(domain).map(|manager| manager.service.as_str()).collect();
        let (gate, network) = (domain.gate(), domain.network());
        let _ =
            writeln!(text, "#   exchange: {GRC} -- {gate} -- {network}: {}", managers.join(" "));
    }
    text += SHARED;
    text += "\nservices:\n";
    coordinator(&mut text);
    for domain in &plan.domains {
        gate(&mut text, plan, domain);
        for manager in plan.of_domain(domain) {
            self::manager(&mut text, manager, &domain.network());
        }
    }
    prometheus_service(&mut text, plan);
    text += "\nnetworks:\n  exchange:\n";
    for domain in &plan.domains {
        let _ = writeln!(text, "  {}:", domain.network());
    }
    let _ = write!(text, "\nvolumes:\n  {GRC}:\n");
    for manager in &plan.managers {
        let _ = writeln!(text, "  {}:", manager.service);
    }
    text
}

fn coordinator(text: &mut String) {
    let config = config_name(GRC);
    // Writing to a String cannot fail, here and below.
    let _ = write!(
        text,
        r#"  {GRC}:
    <<: *service
    command: [serve, grc, --config, /etc/coalloc/{GRC}.json]
    healthcheck: {{<<: *check, test: [CMD, /coalloc, health, "127.0.0.1:{GRC_PORT}"]}}
    networks: [exchange]
    ports: ["{PUBLISH}:{GRC_PORT}:{GRC_PORT}", "{PUBLISH}:{METRICS_PORT}:{METRICS_PORT}"]
    volumes: ["./{config}:/etc/coalloc/{GRC}.json:ro", "./identities/{GRC}:{IDENTITY}:ro", "{GRC}:{STATE}"]
    mem_limit: 512m
    cpus: 1.0
    # Its planners have a thread for each core.
    pids_limit: 1024
"#
    );
}

fn gate(text: &mut String, plan: &Plan, domain: &Domain) {
    let (gate, network, delay) = (domain.gate(), domain.network(), domain.delay());
    let name = domain.name.replace(char::is_control, " ");
    let _ = write!(
        text,
        r#"
  # Domain {name}.
  {gate}:
    <<: *gate
    command:
      - relay
      - --delay=${{COALLOC_DELAY:-0ms}}
      - --delay=${{{delay}:-0ms}}
      - --jitter=${{COALLOC_JITTER:-0ms}}
      - --loss=${{COALLOC_LOSS:-0}}
      - 0.0.0.0:{GRC_PORT}={GRC}:{GRC_PORT}
"#
    );
    for Manager { service, port, .. } in plan.of_domain(domain) {
        let _ = writeln!(text, "      - 0.0.0.0:{port}={service}:{port}");
    }
    let _ = write!(
        text,
        r#"    healthcheck: {{<<: *check, test: [CMD, /coalloc, health, --listens, "127.0.0.1:{GRC_PORT}"]}}
    networks: [exchange, {network}]
"#
    );
}

fn manager(text: &mut String, manager: &Manager, network: &str) {
    let Manager { service, port, .. } = manager;
    let (kind, config) = (manager.kind.name(), config_name(service));
    let _ = write!(
        text,
        r#"
  {service}:
    <<: *manager
    command: [serve, {kind}, --config, /etc/coalloc/{service}.json]
    healthcheck: {{<<: *check, test: [CMD, /coalloc, health, "127.0.0.1:{port}"]}}
    networks: [{network}]
    ports: ["{PUBLISH}:{port}:{port}"]
    volumes: ["./{config}:/etc/coalloc/{service}.json:ro", "./identities/{service}:{IDENTITY}:ro", "{service}:{STATE}"]
"#
    );
}

/// The service of Prometheus, which is in every network because it must reach every daemon; it forwards
/// nothing.
fn prometheus_service(text: &mut String, plan: &Plan) {
    let networks: Vec<String> = plan.domains.iter().map(Domain::network).collect();
    let networks = networks.join(", ");
    let _ = write!(
        text,
        r#"
  # Only with `--profile metrics`, as its image is not ours to build.
  prometheus:
    profiles: [metrics]
    image: ${{COALLOC_PROMETHEUS_IMAGE:-prom/prometheus:v3.5.0}}
    networks: [exchange, {networks}]
    ports: ["{PUBLISH}:9090:9090"]
    volumes: ["./prometheus.yml:/etc/prometheus/prometheus.yml:ro"]
    mem_limit: 512m
"#
    );
}

/// `prometheus.yml`: every daemon, by the name of its container.
pub(super) fn prometheus(plan: &Plan) -> String {
    let mut text = format!(
        "# Scrapes the testbed from inside its networks: `docker compose --profile metrics up -d`.\n\
         # Written by `coalloc compose`.\nglobal:\n  scrape_interval: 5s\n\nscrape_configs:\n\
         - job_name: coalloc\n  static_configs:\n  \
         - {{targets: [\"{GRC}:{METRICS_PORT}\"], labels: {{daemon: \"{GRC}\"}}}}\n"
    );
    for domain in &plan.domains {
        for Manager { name, service, domain, .. } in plan.of_domain(domain) {
            let _ = writeln!(
                text,
                "  - {{targets: [\"{service}:{METRICS_PORT}\"], labels: {{daemon: {name:?}, domain: {domain:?}}}}}"
            );
        }
    }
    text
}

/// `.env`: the options.
pub(super) fn options(plan: &Plan) -> String {
    let mut text = format!(
        "# Options of this testbed. The environment goes before this file.\n\
         # Written by `coalloc compose`; explained in docs/guide/compose.md.\n\n\
         # Names of containers, networks and volumes begin with this.\n\
         COMPOSE_PROJECT_NAME={}\n\
         # What `deploy/compose/build` makes.\n\
         COALLOC_IMAGE=coalloc:local\n\
         # On which address of this machine the ports are: another one of loopback for a second testbed.\n\
         COALLOC_PUBLISH=127.0.0.1\n\
         # What daemons log: error, warn, info, debug, trace.\n\
         COALLOC_LOG=info\n\n\
         # How much later everything between a domain and the exchange arrives, in each direction; give or\n\
         # take so much; and percent of it that comes 200 ms late, as if it had been lost and sent again.\n\
         COALLOC_DELAY=0ms\n\
         COALLOC_JITTER=0ms\n\
         COALLOC_LOSS=0\n\
         # In addition, for one domain alone.\n",
        plan.project
    );
    for domain in &plan.domains {
        let _ = writeln!(text, "{}=0ms", domain.delay());
    }
    text
}
