//! What the settings of the driver must be.

use super::*;

fn site(name: &str) -> v1::Site {
    v1::Site { name: name.to_owned(), ..v1::Site::default() }
}

fn servers(all: &[(&str, &[&str])]) -> BTreeMap<ResourceId, SiteServers> {
    let whole = |site: &str, node: &str| ResourceId::composed(format!("{site}/{node}"));
    let of = |(site, nodes): &(&str, &[&str])| {
        let names = nodes.iter().map(|node| whole(site, node)).collect();
        (ResourceId::composed(*site), SiteServers { cpus_each: 4, names })
    };
    all.iter().map(of).collect()
}

fn user(user: &str, unix_user: &str) -> v1::SlurmUser {
    v1::SlurmUser { user: user.to_owned(), unix_user: unix_user.to_owned() }
}

fn settings(users: &[v1::SlurmUser]) -> v1::SlurmDriver {
    v1::SlurmDriver { users: users.to_vec(), ..v1::SlurmDriver::default() }
}

fn error(wire: &v1::SlurmDriver, sites: &[v1::Site], nodes: &[(&str, &[&str])]) -> String {
    let parsed = SlurmSettings::parse(wire, Path::new("/"), sites, &servers(nodes));
    parsed.unwrap_err().to_string()
}

#[test]
fn users_are_mapped() {
    let wire = settings(&[user("alice", ""), user("east/bob", "bob")]);
    let parsed =
        SlurmSettings::parse(&wire, Path::new("/"), &[site("A")], &servers(&[("A", &["n1"])]));
    let users: Vec<String> = parsed.unwrap().users.into_values().collect();
    assert_eq!(users, ["alice", "bob"]);
}

#[test]
fn each_mistake_names_its_field() {
    let (good, one) = (settings(&[user("alice", "")]), [site("A")]);
    let nodes: &[(&str, &[&str])] = &[("A", &["n1"])];
    let without = error(&good, &[site("A"), site("B")], nodes);
    assert!(without.starts_with("inventory.sites[1].servers: it is missing"), "{without}");
    let twice = error(&good, &[site("A"), site("B")], &[("A", &["n1"]), ("B", &["n1"])]);
    assert!(twice.starts_with("inventory.sites[1].servers: B/n1"), "{twice}");
    let name = error(&good, &one, &[("A", &["n:1"])]);
    assert!(name.contains("names of nodes"), "{name}");
    let storage = v1::SiteResource { kind: "storage".to_owned(), ..v1::SiteResource::default() };
    let others = error(&good, &[v1::Site { others: vec![storage], ..site("A") }], nodes);
    assert!(others.starts_with("inventory.sites[0].others: storage"), "{others}");
    for (users, field) in [
        (vec![], "driver.slurm.users"),
        (vec![user("a", ""), user("a", "b")], "driver.slurm.users[1].user"),
        (vec![user("east/a", "")], "driver.slurm.users[0].user"),
        (vec![user("a", "b,c")], "driver.slurm.users[0].unix_user"),
        (vec![user("a", "root")], "driver.slurm.users[0].unix_user"),
    ] {
        let text = error(&settings(&users), &one, nodes);
        assert!(text.starts_with(&format!("{field}: ")), "{text}");
    }
    let conf = v1::SlurmDriver { conf: "no/where".to_owned(), ..good.clone() };
    assert!(error(&conf, &one, nodes).starts_with("driver.slurm.conf: /no/where"));
    let bin = v1::SlurmDriver { bin: "no/where".to_owned(), ..good };
    assert!(error(&bin, &one, nodes).starts_with("driver.slurm.bin: /no/where"));
}

#[test]
fn a_file_with_a_driver_is_read() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("crm.yaml");
    let text = "daemon: {listen: '127.0.0.1:7002', ledger: crm.ledger, insecure_plaintext: true}\n\
        inventory: {name: crm-A, domain: east, sites: [{name: A, servers: {cpus_each: 4, groups: [{names: [n1]}]}}]}\n\
        coordinators: [{name: grc, address: '127.0.0.1:7001'}]\n";
    std::fs::write(&path, format!("{text}driver: {{slurm: {{users: [{{user: alice}}]}}}}\n"))
        .unwrap();
    assert!(crate::load(&path).unwrap().driver.is_some());
    std::fs::write(&path, text).unwrap();
    assert!(crate::load(&path).unwrap().driver.is_none());
    std::fs::write(&path, format!("{text}driver: {{}}\n")).unwrap();
    let error = crate::load(&path).unwrap_err().to_string();
    assert!(error.contains("driver") && error.contains("slurm"), "{error}");
    std::fs::write(&path, format!("{text}driver: {{slurm: {{}}}}\n")).unwrap();
    let error = crate::load(&path).unwrap_err().to_string();
    assert!(error.contains("driver.slurm.users") && error.contains(":4"), "{error}");
}
