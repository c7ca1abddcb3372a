//! Files: JSON and YAML to messages, and messages to what a daemon is told.

use std::path::{Path, PathBuf};

use coalloc_net::convert;
use coalloc_proto::file;
use coalloc_proto::v1;
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::{fuzz, mutate};

fn examples() -> Vec<(PathBuf, String)> {
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

/// What was read is written as JSON, which is read as the same.
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

#[test]
fn files() {
    let all = examples();
    fuzz("files", |rng| {
        let (_, sound) = mutate::one(rng, &all);
        let text = mutate::text(rng, sound);
        if let Some(message) = there_and_back::<v1::FederationFile>(&text) {
            let _ = convert::file_topology(&message);
        }
        if let Some(message) = there_and_back::<v1::CoAllocationRequest>(&text) {
            let now = coalloc_common::Time::from_us(0);
            let _ = convert::request_from_wire(&message, now);
        }
    });
}

#[test]
fn configurations() {
    let folder = tempfile::tempdir().unwrap();
    let daemon = "daemon: {listen: \"127.0.0.1:7001\", ledger: x.ledger, metrics_listen: \"127.0.0.1:9001\"}\n";
    let common = "coordinators: [{name: grc, address: \"127.0.0.1:7000\"}]\n\
                  policy: {hold_soft: 120s, hold_hard: 900s, horizon: 864000s}\n\
                  service_levels: [{name: half, share_percent: 50, users: [UserA, UserB]}]\n";
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
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let _inside = runtime.enter();
    let path = folder.path().join("node.yaml");
    fuzz("configurations", |rng| {
        let seed = *mutate::one::<&String>(rng, &[&nrm, &crm, &grc]);
        let text = mutate::text(rng, seed);
        std::fs::write(&path, &text).unwrap();
        let errors = [
            coalloc_nrm::load(&path).err(),
            coalloc_crm::load(&path).err(),
            coalloc_grc::config::load(&path).err(),
        ];
        for error in errors.into_iter().flatten() {
            assert!(error.to_string().contains("node.yaml"), "{error}");
        }
    });
    for (text, is_sound) in [
        (&nrm, &|| coalloc_nrm::load(&path).map(drop) as Result<(), file::FileError>),
        (&crm, &|| coalloc_crm::load(&path).map(drop)),
        (&grc, &|| coalloc_grc::config::load(&path).map(drop)),
    ] as [(&String, &dyn Fn() -> Result<(), file::FileError>); 3]
    {
        std::fs::write(&path, text).unwrap();
        is_sound().unwrap();
    }
}
