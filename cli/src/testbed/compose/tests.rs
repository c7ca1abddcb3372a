//! The compose project that is written for a federation file: its content, and what daemons read from it.

use std::path::Path;

use coalloc_proto::file::{self, Document};

use super::*;

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().join("deploy/compose")
}

fn elgl() -> BTreeMap<String, String> {
    let file = crate::testbed::local::elgl().unwrap();
    files(&file, &Plan::of(&file).unwrap()).unwrap()
}

/// The testbed in the repository is what `coalloc compose` writes; COALLOC_BLESS=1 rewrites it.
#[test]
fn the_testbed_of_the_paper_is_what_this_writes() {
    let (folder, expected) = (folder(), elgl());
    if std::env::var_os("COALLOC_BLESS").is_some() {
        let args =
            ComposeArgs { what: None, federation: None, out: Some(folder.clone()), force: true };
        run(&args).unwrap();
    }
    for (name, text) in &expected {
        let found = std::fs::read_to_string(folder.join(name)).unwrap_or_default();
        assert!(
            found == *text,
            "deploy/compose/{name} is not what `coalloc compose --out deploy/compose --force` writes"
        );
    }
    let configs = std::fs::read_dir(folder.join("config")).unwrap().count();
    assert_eq!(configs, expected.keys().filter(|name| name.starts_with("config/")).count());
}

/// Each daemon reaches the others only through gates: names beyond a gate are those of the gate.
#[test]
fn every_daemon_sees_the_others_through_its_gate() {
    let written = tempfile::tempdir().unwrap();
    let out = written.path().join("new/testbed");
    let args = ComposeArgs { what: None, federation: None, out: Some(out.clone()), force: false };
    let answer = run(&args).unwrap();
    assert!(answer.text.contains("13 resource managers in 3 domains, 3 gates"), "{}", answer.text);
    let grc: Document<v1::GrcFile> = file::read(&out.join("config/grc.json")).unwrap();
    let grc = grc.message;
    assert_eq!(grc.resource_managers.len(), 13);
    let nrm = &grc.resource_managers[0];
    assert_eq!((nrm.name.as_str(), nrm.address.as_str()), ("nrm-N", "gate-N:7101"));
    let crm: Document<v1::CrmFile> = file::read(&out.join("config/crm-U2.json")).unwrap();
    let crm = crm.message;
    assert_eq!(crm.coordinators[0].address, "gate-U:7000");
    let daemon = crm.daemon.unwrap();
    assert_eq!(daemon.listen, "0.0.0.0:7113");
    assert_eq!(daemon.ledger, "/var/lib/coalloc/crm-U2.ledger");
    assert!(!daemon.insecure_plaintext);
    assert_eq!(daemon.identity.unwrap().folder, "/etc/coalloc/identity");
    let coordinator = "spiffe://grid/coalloc/coordinator/grc";
    assert_eq!(crm.coordinators[0].identity, coordinator);
    assert_eq!(nrm.identity, "spiffe://n/coalloc/resource-manager/nrm-N");
    let compose = std::fs::read_to_string(out.join("compose.yaml")).unwrap();
    assert!(compose.contains("- 0.0.0.0:7113=crm-U2:7113"), "{compose}");
    // The second time, the files exist already.
    let failure = run(&args).unwrap_err();
    assert!(failure.message.contains("--force"), "{failure}");
}

fn federation(managers: &[(&str, &str)]) -> v1::FederationFile {
    let computes = managers.iter().map(|(name, domain)| v1::ComputeInventory {
        name: (*name).to_owned(),
        domain: (*domain).to_owned(),
        sites: vec![v1::Site { name: format!("site of {name}"), cpus: 1, ..Default::default() }],
        ..Default::default()
    });
    v1::FederationFile {
        name: "My own: lab".into(),
        computes: computes.collect(),
        ..Default::default()
    }
}

#[test]
fn names_become_those_of_containers() {
    let plan = Plan::of(&federation(&[("z/crm:1", "net.example org"), ("b", "A")])).unwrap();
    assert_eq!(plan.project, "coalloc-my-own--lab");
    assert_eq!(plan.domains[0].name, "A", "in order, whatever the order of the file");
    assert_eq!((plan.managers[0].service.as_str(), plan.managers[0].port), ("z-crm-1", 7_101));
    assert_eq!(plan.domains[1].gate(), "gate-net-example-org");
    assert_eq!(plan.domains[1].delay(), "COALLOC_DELAY_NET_EXAMPLE_ORG");
    let of_a: Vec<&str> =
        plan.of_domain(&plan.domains[0]).map(|manager| manager.service.as_str()).collect();
    assert_eq!((of_a, plan.managers[1].port), (vec!["b"], 7_102));
}

#[test]
fn names_that_cannot_be_told_apart_are_refused() {
    let long = "n".repeat(SERVICE_LEN_MAX + 1);
    for (managers, problem) in [
        (
            vec![("a/b", "N"), ("a:b", "N")],
            "\"a:b\" and \"a/b\" would both be the container \"a-b\"",
        ),
        (vec![("GRC", "N")], "\"GRC\" and the testbed"),
        (vec![("a", "N"), ("b", "n")], "would both be the container \"gate-n\""),
        (vec![("gate-N", "N")], "would both be the container \"gate-N\""),
        (vec![(long.as_str(), "N")], "up to 63 characters"),
    ] {
        let failure = Plan::of(&federation(&managers)).unwrap_err();
        assert!(failure.message.contains(problem), "{failure}");
    }
}
