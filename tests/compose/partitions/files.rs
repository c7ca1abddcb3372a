//! The files of the deployment: Compose's, the daemons' configurations, and the list of identities.
//!
//! ```text
//!   peers:     etcd-1 etcd-2 etcd-3
//!   store:     etcd-1 etcd-2 etcd-3    grc-a grc-b
//!   domain:                            grc-a grc-b    crm-A nrm-A nrm-B crm-B
//!   callers:                           grc-a grc-b    this machine
//!   watched:   etcd-1 etcd-2 etcd-3    crm-A nrm-A nrm-B crm-B    this machine
//! ```
//!
//! The first three are internal, so no published port depends on them, and each can be cut by itself. Nothing that is named in
//! a configuration is reached over the last two.

use std::path::Path;

use serde_json::{Map, Value, json};

use super::etcd::{initial_cluster, write_certificates};

/// The processes of the coordinator, and the port of each.
pub(crate) const PROCESSES: [(&str, u16); 2] = [("grc-a", 7_000), ("grc-b", 7_001)];
/// The members of etcd, and the port of the metrics of each.
pub(crate) const ETCD: [(&str, u16); 3] = [("etcd-1", 2_381), ("etcd-2", 2_382), ("etcd-3", 2_383)];
/// The resource managers, and the port of each.
pub(crate) const MANAGERS: [(&str, u16); 4] =
    [("crm-A", 7_101), ("nrm-A", 7_102), ("nrm-B", 7_103), ("crm-B", 7_104)];

/// The name of a member of etcd among its peers. It is a name in no other network.
pub(crate) fn peer(member: &str) -> String {
    format!("peer-of-{member}")
}

/// Writes all files but the daemons' certificates.
pub(crate) fn write(folder: &Path, project: &str, host: &str, etcd_image: &str) {
    let write = |name: &str, value: &Value| {
        let text = serde_json::to_string_pretty(value).unwrap();
        std::fs::write(folder.join(name), text).unwrap();
    };
    std::fs::create_dir(folder.join("config")).unwrap();
    // JSON is YAML.
    write("compose.yaml", &compose(project, host, etcd_image));
    for (process, port) in PROCESSES {
        write(&format!("config/{process}.json"), &coordinator(process, port));
    }
    for (manager, port) in MANAGERS {
        write(&format!("config/{manager}.json"), &resource_manager(manager, port));
    }
    write("identities.json", &identities());
    write_certificates(folder, &ETCD.map(|(member, _)| member.to_owned()));
}

fn identity(role: &str, name: &str) -> String {
    format!("spiffe://grid/coalloc/{role}/{name}")
}

fn identities() -> Value {
    let mut all = Map::new();
    let mut add = |name: &str, role: &str, hosts: &[&str]| {
        all.insert(name.to_owned(), json!({"identity": identity(role, name), "hosts": hosts}));
    };
    for (manager, _) in MANAGERS {
        add(manager, "resource-manager", &[manager, "localhost", "127.0.0.1"]);
    }
    // Both processes are one coordinator.
    add("grc", "coordinator", &["grc-a", "grc-b", "localhost", "127.0.0.1"]);
    add("operator", "operator", &[]);
    Value::Object(all)
}

fn daemon(name: &str, port: u16) -> Value {
    json!({
        "listen": format!("0.0.0.0:{port}"),
        "ledger": format!("/var/lib/coalloc/{name}.ledger"),
        "identity": {
            "folder": "/etc/coalloc/identity",
            "operators": [identity("operator", "operator")],
        },
    })
}

fn coordinator(process: &str, port: u16) -> Value {
    let mut daemon = daemon("grc", port);
    let member = |(process, port): (&str, u16)| json!({"name": process, "address": format!("{process}:{port}")});
    daemon["sharedLedger"] = json!({
        "endpoints": ETCD.map(|(member, _)| format!("{member}:2379")),
        "prefix": "coalloc/grc",
        "member": process,
        "members": PROCESSES.map(member),
        "tls": {
            "authorities": "etcd/authority.pem",
            "certificate": "etcd/certificate.pem",
            "key": "etcd/key.pem",
        },
    });
    let manager = |(manager, port): (&str, u16)| {
        json!({
            "name": manager,
            "address": format!("{manager}:{port}"),
            "identity": identity("resource-manager", manager),
        })
    };
    json!({
        "daemon": daemon,
        "name": "grc",
        "resourceManagers": MANAGERS.map(manager),
        "quotas": {"user": {"reservations": 1_000_000, "callsPerSecond": 1_000_000}},
    })
}

/// A site, or the paths from one to the exchange point X: between two sites a request needs all four managers.
fn resource_manager(manager: &str, port: u16) -> Value {
    let (kind, site) = manager.split_once('-').unwrap();
    let mut inventory = json!({"name": manager, "domain": site});
    if kind == "crm" {
        inventory["sites"] = json!([{"name": site, "cpus": "64", "unitValue": "1"}]);
    } else {
        let path = |number: u32| {
            json!({
                "name": format!("{site}-X-{number}"),
                "a": site,
                "b": "X",
                "capacityBps": "10000000000",
                "unitValue": "1",
            })
        };
        inventory["paths"] = Value::from(vec![path(1), path(2)]);
    }
    let addresses = PROCESSES.map(|(process, port)| format!("{process}:{port}"));
    json!({
        "daemon": daemon(manager, port),
        "inventory": inventory,
        "coordinators": [{
            "name": "grc",
            "address": addresses.join(","),
            "identity": identity("coordinator", "grc"),
        }],
    })
}

/// A service with the limits that those of `deploy/compose/compose.yaml` have.
fn service(project: &str, name: &str, image: &str) -> Value {
    json!({
        "image": image,
        // Docker is asked about it by this name, because Compose takes a second to say which container it is.
        "container_name": format!("{project}-{name}"),
        "user": "65532:65532",
        "read_only": true,
        "cap_drop": ["ALL"],
        "security_opt": ["no-new-privileges:true"],
        "restart": "on-failure:3",
        "stop_grace_period": "10s",
        "mem_limit": "256m",
        "cpus": 1.0,
        "pids_limit": 1_024,
        // Docker asks nobody else for a name without a full stop then: that of whoever is cut off is unknown at once.
        "dns_opt": ["ndots:1"],
    })
}

fn compose(project: &str, host: &str, etcd_image: &str) -> Value {
    let coalloc_image =
        std::env::var("COALLOC_IMAGE").unwrap_or_else(|_| "coalloc:local".to_owned());
    let publish = |port: u16, inside: u16| json!([format!("{host}:{port}:{inside}")]);
    let mut services = Map::new();
    for (member, port) in ETCD {
        let mut one = service(project, member, etcd_image);
        one["command"] = json!(etcd_arguments(member));
        // etcd's own resolver needs no libraries beside those that it is linked with.
        one["environment"] = json!({"GODEBUG": "netdns=go"});
        let networks = json!({"store": {}, "peers": {"aliases": [peer(member)]}, "watched": {}});
        one["networks"] = networks;
        one["ports"] = publish(port, 2_381);
        one["volumes"] = json!(["./etcd:/etc/etcd:ro", format!("{member}:/var/lib/etcd")]);
        services.insert(member.to_owned(), one);
    }
    let coalloc = |name: &str, kind: &str, port: u16| {
        let mut one = service(project, name, &coalloc_image);
        one["command"] = json!(["serve", kind, "--config", "/etc/coalloc/config.json"]);
        one["environment"] =
            json!({"COALLOC_LOG": "info", "COALLOC_IDENTITY": "/etc/coalloc/identity"});
        one["ports"] = publish(port, port);
        let identity = if kind == "grc" { "grc" } else { name };
        one["volumes"] = json!([
            format!("./config/{name}.json:/etc/coalloc/config.json:ro"),
            format!("./identities/{identity}:/etc/coalloc/identity:ro"),
            format!("{name}:/var/lib/coalloc"),
        ]);
        one
    };
    for (process, port) in PROCESSES {
        let mut one = coalloc(process, "grc", port);
        // A process that does not lead any more ends, and stands by after its next start.
        one["restart"] = json!("always");
        one["networks"] = json!({"store": {}, "domain": {}, "callers": {}});
        one["volumes"].as_array_mut().unwrap().push(json!("./etcd-user:/etc/coalloc/etcd:ro"));
        services.insert(process.to_owned(), one);
    }
    for (manager, port) in MANAGERS {
        let (kind, _) = manager.split_once('-').unwrap();
        let mut one = coalloc(manager, kind, port);
        one["networks"] = json!({"domain": {}, "watched": {}});
        services.insert(manager.to_owned(), one);
    }
    let volumes: Map<String, Value> =
        services.keys().map(|name| (name.clone(), json!({}))).collect();
    let internal = json!({"internal": true});
    json!({
        "services": services,
        "networks": {"peers": internal, "store": internal, "domain": internal, "callers": {}, "watched": {}},
        "volumes": volumes,
    })
}

fn etcd_arguments(member: &str) -> Vec<String> {
    let peers = ETCD.map(|(member, _)| (member, peer(member)));
    let cluster = initial_cluster(peers.iter().map(|(member, peer)| (*member, peer.as_str())));
    let own_peer = format!("http://{}:2380", peer(member));
    let own_client = format!("https://{member}:2379");
    let arguments = [
        ("name", member),
        ("data-dir", "/var/lib/etcd/data"),
        ("listen-client-urls", "https://0.0.0.0:2379"),
        ("advertise-client-urls", &own_client),
        ("cert-file", "/etc/etcd/certificate.pem"),
        ("key-file", "/etc/etcd/key.pem"),
        ("client-cert-auth", "true"),
        ("trusted-ca-file", "/etc/etcd/authority.pem"),
        ("listen-peer-urls", "http://0.0.0.0:2380"),
        ("initial-advertise-peer-urls", &own_peer),
        ("initial-cluster", &cluster),
        ("initial-cluster-state", "new"),
        ("listen-metrics-urls", "http://0.0.0.0:2381"),
        ("experimental-initial-corrupt-check", "true"),
        // The default since etcd 3.5. Without it, a member that comes back overthrows the leader.
        ("pre-vote", "true"),
        ("auto-compaction-mode", "periodic"),
        ("auto-compaction-retention", "10m"),
    ];
    arguments.iter().map(|(name, value)| format!("--{name}={value}")).collect()
}
