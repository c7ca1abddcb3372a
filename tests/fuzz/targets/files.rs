//! Files: from JSON and YAML to messages, and from messages to the settings of a daemon.

use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use coalloc_net::convert;
use coalloc_proto::file;
use coalloc_proto::v1;
use serde::Serialize;
use serde::de::DeserializeOwned;

pub(crate) fn examples() -> Vec<(PathBuf, String)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/examples");
    let mut all: Vec<_> = std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.is_file())
        .map(|path| (path.clone(), std::fs::read_to_string(path).unwrap()))
        .collect();
    all.sort();
    assert!(all.len() > 8);
    all
}

/// Reads a text, and checks that the message survives being written as JSON and read again.
fn there_and_back<T: DeserializeOwned + Serialize + PartialEq + std::fmt::Debug>(
    text: &str,
) -> Option<T> {
    let path = Path::new("file.yaml");
    match file::parse::<T>(path, text.to_owned()) {
        Ok(document) => {
            let json = serde_json::to_string(&document.message).unwrap();
            let again = file::parse::<T>(path, json.clone()).unwrap();
            assert_eq!(again.message, document.message, "{json}");
            Some(document.message)
        }
        Err(error) => {
            let said = error.to_string();
            assert!(said.starts_with("file.yaml:"), "no line: {said}");
            assert!(said.len() < 20_000, "{} bytes of error", said.len());
            None
        }
    }
}

/// Files of a federation, and of a request.
pub(crate) fn files(bytes: &[u8]) -> bool {
    let Ok(text) = std::str::from_utf8(bytes) else { return false };
    let federation = there_and_back::<v1::FederationFile>(text);
    let request = there_and_back::<v1::CoAllocationRequest>(text);
    if let Some(message) = &federation {
        let _ = convert::file_topology(message);
    }
    if let Some(message) = &request {
        let _ = convert::request_from_wire(message, coalloc_common::Time::from_us(0));
    }
    federation.is_some() || request.is_some()
}

/// The configurations of an NRM, a CRM and a coordinator.
pub(crate) fn daemons() -> [String; 3] {
    let daemon = "daemon: {insecure_plaintext: true, listen: \"127.0.0.1:7001\", ledger: x.ledger, metrics_listen: \"127.0.0.1:9001\"}\n";
    let common = "coordinators: [{name: grc, address: \"127.0.0.1:7000\"}]\n\
                  policy: {hold_soft: 120s, hold_hard: 900s, horizon: 864000s}\n\
                  service_levels: [{name: half, share_percent: 50, users: [UserA, UserB]}]\n\
                  coordinator_levels: [{name: grc, best_percent: 60, users_percent: 20, \
                  service_levels: [{name: few, share_percent: 60, users: [UserC]}]}]\n";
    let paths =
        "{name: A-B, a: A, b: B, capacity_bps: 1000000000, latency: 0.002s, full_duplex: true}";
    let inner = "inner: {links: [{name: l1, a: A, b: S, capacity_bps: 2000000000}, {name: l2, a: S, b: B, \
                 capacity_bps: 2000000000}], may_move: true}";
    let nrm =
        format!("{daemon}inventory: {{name: nrm, domain: D, paths: [{paths}], {inner}}}\n{common}");
    let sites = "{name: A, cpus: 100, unit_value: 3, quality: 900}";
    let crm = format!("{daemon}inventory: {{name: crm, domain: D, sites: [{sites}]}}\n{common}");
    let grc = format!(
        "{daemon}name: grc\nresource_managers: [{{name: nrm, address: \"127.0.0.1:7002\"}}]\nhold_for: 60s\n\
         upward: {{domain: D, coordinators: [{{name: top, address: \"127.0.0.1:7003\"}}], border_points: [X]}}\n"
    );
    [nrm, crm, grc]
}

/// The three configurations of daemons.
pub(crate) fn configurations(bytes: &[u8]) -> bool {
    // Addresses of peers become channels, which can only be created inside a runtime.
    static RUNTIME: LazyLock<tokio::runtime::Runtime> =
        LazyLock::new(|| tokio::runtime::Runtime::new().unwrap());
    let _inside = RUNTIME.enter();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("node.yaml");
    std::fs::write(&path, bytes).unwrap();
    let read = [
        coalloc_nrm::load(&path).map(drop),
        coalloc_crm::load(&path).map(drop),
        coalloc_grc::config::load(&path).map(drop),
    ];
    for error in read.iter().filter_map(|read| read.as_ref().err()) {
        assert!(error.to_string().contains("node.yaml"), "{error}");
    }
    read.iter().any(Result::is_ok)
}
