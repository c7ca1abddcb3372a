//! What `coalloc init` writes, what its daemons read of it, and what it refuses.

use std::collections::BTreeSet;

use clap::Parser as _;
use coalloc_proto::file::read;
use coalloc_proto::v1;

use super::*;
use crate::kit::exit::Exit;

#[derive(Debug, clap::Parser)]
struct Line {
    #[command(flatten)]
    args: InitArgs,
}

fn parsed(folder: &Path, flags: &str) -> Result<InitArgs, String> {
    let folder = folder.to_str().unwrap();
    let words = ["init", folder].into_iter().chain(flags.split_whitespace());
    Line::try_parse_from(words).map(|line| line.args).map_err(|error| error.to_string())
}

fn init(folder: &Path, flags: &str) -> Result<String, String> {
    let answer = run(&parsed(folder, flags)?);
    answer.map(|answer| answer.text).map_err(|failure| {
        assert_eq!(failure.exit, Exit::BadInput, "{failure}");
        failure.message
    })
}

/// Everything in a folder, by its path in it.
fn files(folder: &Path) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    let mut open = vec![folder.to_owned()];
    while let Some(at) = open.pop() {
        for entry in std::fs::read_dir(at).unwrap() {
            let path = entry.unwrap().path();
            match path.is_dir() {
                true => open.push(path),
                false => {
                    let path = path.strip_prefix(folder).unwrap().to_str().unwrap();
                    found.insert(path.to_owned());
                }
            }
        }
    }
    found
}

const LABS: &str = "--site east:a=64 --site east:b-1=64 --site west:c=32 --link east:a-b-1=40G \
                    --link a-c=400M --exchange ix --link east:b-1-ix=10G --link west:c-ix=10G --user ann --user bob";

#[test]
fn every_daemon_gets_its_files_and_its_part_of_the_federation() {
    let parent = tempfile::tempdir().unwrap();
    let folder = parent.path().join("labs");
    let text = init(&folder, LABS).unwrap();
    assert!(text.contains("3 domains, 3 sites, 4 links, 6 daemons"), "{text}");
    let all = files(&folder);
    for daemon in ["grc", "crm-east", "crm-west", "nrm-east", "nrm-network", "nrm-west"] {
        for file in [
            format!("{daemon}.yaml"),
            format!("identities/{daemon}/key.pem"),
            format!("identities/{daemon}/trust/grid.pem"),
            format!("identities/{daemon}/trust/west.pem"),
            format!("systemd/coalloc-labs-{daemon}.service"),
        ] {
            assert!(all.contains(&file), "{file} in {all:?}");
        }
    }
    for identity in ["operator", "ann", "bob"] {
        assert!(all.contains(&format!("identities/{identity}/certificate.pem")), "{all:?}");
    }
    let crm: v1::CrmFile = read(&folder.join("crm-east.yaml")).unwrap().message;
    let sites = crm.inventory.unwrap().sites.into_iter();
    let sites: Vec<(String, u64)> = sites.map(|site| (site.name, site.cpus)).collect();
    assert_eq!(sites, [("a".to_owned(), 64), ("b-1".to_owned(), 64)]);
    let nrm: v1::NrmFile = read(&folder.join("nrm-east.yaml")).unwrap().message;
    let paths = nrm.inventory.unwrap().paths.into_iter();
    let paths: Vec<_> = paths.map(|path| (path.name, path.a, path.b, path.capacity_bps)).collect();
    let path =
        |name: &str, a: &str, b: &str, bps| (name.to_owned(), a.to_owned(), b.to_owned(), bps);
    let expected =
        [path("a-b-1", "a", "b-1", 40_000_000_000), path("b-1-ix", "b-1", "ix", 10_000_000_000)];
    assert_eq!(paths, expected);
    assert_eq!(nrm.coordinators[0].address, "127.0.0.1:7000");
    let grc: v1::GrcFile = read(&folder.join("grc.yaml")).unwrap().message;
    let managers = grc.resource_managers.iter();
    let managers: Vec<_> =
        managers.map(|one| (one.name.as_str(), one.address.as_str(), one.owns.join(" "))).collect();
    let expected = [
        ("crm-east", "127.0.0.1:7001", "a b-1".to_owned()),
        ("crm-west", "127.0.0.1:7002", "c".to_owned()),
        ("nrm-east", "127.0.0.1:7003", "a-b-1 b-1-ix".to_owned()),
        ("nrm-network", "127.0.0.1:7004", "a-c".to_owned()),
        ("nrm-west", "127.0.0.1:7005", "c-ix".to_owned()),
    ];
    assert_eq!(managers, expected);
    let request: v1::CoAllocationRequest =
        read(&folder.join("first-request.yaml")).unwrap().message;
    assert_eq!((request.sites[0].cpus, request.links[0].bandwidth_bps), (4, 1_000_000_000));
    assert_eq!(request.user, "ann");
}

#[test]
fn every_configuration_passes_the_check_and_explains_every_field() {
    let parent = tempfile::tempdir().unwrap();
    let folder = parent.path().join("labs");
    init(&folder, LABS).unwrap();
    let schema = crate::kit::schema::Schema::read().unwrap();
    for (kind, message, file) in [
        (crate::user::serve::Kind::Grc, "GrcFile", "grc.yaml"),
        (crate::user::serve::Kind::Crm, "CrmFile", "crm-east.yaml"),
        (crate::user::serve::Kind::Nrm, "NrmFile", "nrm-network.yaml"),
    ] {
        let path = folder.join(file);
        let answer = check::run(kind, &path).unwrap();
        assert!(answer.text.contains(": ok\n"), "{}", answer.text);
        assert_eq!(check::kind_of(&path).unwrap(), Some(kind));
        let text = std::fs::read_to_string(&path).unwrap();
        let is_long = |line: &&str| line.starts_with(['#', ' ']) && line.contains("# ");
        assert!(text.lines().filter(is_long).all(|line| line.len() <= 80), "{text}");
        let words: Vec<&str> = text.split_whitespace().collect();
        let words = words.join(" ").replace(" # ", " ");
        for field in &schema.message(message).unwrap().fields {
            let set = format!("\n{}:", field.name);
            let unset = format!("\n#{}:", field.name);
            assert!(text.contains(&set) || text.contains(&unset), "{}: {text}", field.name);
            assert!(words.contains(&field.comment), "{}: {text}", field.name);
        }
    }
    // A field that is not set becomes one that is by taking away the #, and means the same.
    let path = folder.join("crm-west.yaml");
    let text = std::fs::read_to_string(&path).unwrap();
    std::fs::write(&path, text.replace("\n#policy:", "\npolicy:")).unwrap();
    assert!(read::<v1::CrmFile>(&path).unwrap().message.policy.is_some());
    check::run(crate::user::serve::Kind::Crm, &path).unwrap();
}

#[test]
fn a_check_names_line_field_and_what_to_type() {
    let parent = tempfile::tempdir().unwrap();
    let folder = parent.path().join("one");
    init(&folder, "--site tokyo=16").unwrap();
    let path = folder.join("crm-tokyo.yaml");
    let text = std::fs::read_to_string(&path).unwrap();
    let crm = crate::user::serve::Kind::Crm;
    for (from, to, expected) in [
        ("cpus: 16", "cpus: 0", "coalloc config explain inventory.sites.cpus"),
        ("cpus: 16", "cpu: 16", "cpu: there is no such field"),
        (
            "\n#policy: {hold_soft: 120s",
            "\npolicy: {hold_soft: 1000s",
            "policy.hold_soft: 16 min 40 s is",
        ),
        ("ledger: state/", "ledger: nowhere/", "daemon.ledger: "),
        ("folder: identities/crm-tokyo", "folder: identities/grc", "daemon.identity.folder: "),
        ("folder: identities/crm-tokyo", "folder: identities/gone", "daemon.identity.folder: "),
    ] {
        let line = 1 + text.split_once(from).unwrap().0.matches('\n').count();
        let line = line + usize::from(from.starts_with('\n'));
        std::fs::write(&path, text.replacen(from, to, 1)).unwrap();
        let failure = check::run(crm, &path).unwrap_err();
        assert_eq!(failure.exit, Exit::BadInput);
        let said = failure.message;
        assert!(said.contains(expected), "{to}: {said}");
        assert!(said.starts_with(&format!("{}:{line}: ", path.display())), "{line}: {said}");
        assert!(said.contains("coalloc config explain"), "{said}");
    }
    std::fs::write(&path, text).unwrap();
    let failure = check::run(crate::user::serve::Kind::Grc, &path).unwrap_err();
    assert!(failure.message.contains("coalloc serve crm --config"), "{failure}");
    let before = files(&folder);
    check::run(crm, &path).unwrap();
    assert_eq!(files(&folder), before, "nothing is made");
}

#[test]
fn what_is_wrong_is_answered_with_what_to_type_and_leaves_nothing_behind() {
    let parent = tempfile::tempdir().unwrap();
    let folder = parent.path().join("mine");
    let two = "--site tokyo=16 --site osaka=8";
    for (flags, expected) in [
        (
            "--site tokyo=16 --site tokyo=8".to_owned(),
            "--site: tokyo is not allowed; allowed: each site once",
        ),
        ("--site tokyo".to_owned(), "allowed: NAME=CPUS"),
        (
            format!("{two} --link tokyo-osaca=10G"),
            "did you mean osaka?\nadd it with --site osaca=CPUS",
        ),
        (format!("{two} --link tokyo-osaka=10"), "allowed: a rate with its unit"),
        (format!("{two} --link tokyo-osaka=1G --link tokyo-osaka=1G"), "allowed: each link once"),
        (format!("{two} --link tokyo-osaka=1G --link osaka-tokyo=1G"), "allowed: each link once"),
        (
            "--site a=1 --site b=1 --site a-b=1 --link a-b=1G".to_owned(),
            "allowed: a link whose name is not that of a site",
        ),
        (
            format!("{two} --host tokyo=10.0.0.1 --host osaka=10.0.0.2 --host grid=localhost"),
            "allowed: addresses that other machines reach",
        ),
        (format!("{two} --link tokyo-tokyo=1G"), "allowed: two different ends"),
        (
            format!("{two} --port-base 65535"),
            "--port-base: 65535 is not allowed; allowed: 1 to 65533",
        ),
        (format!("{two} --host tokyo=10.0.0.1"), "add: --host grid=ADDR --host osaka=ADDR"),
        (format!("{two} --host tokio=10.0.0.1"), "did you mean tokyo?"),
        (format!("{two} --host tokyo=a..b"), "allowed: an IP address, or a DNS name"),
        (format!("{two} --exchange tokyo"), "allowed: each name once, and not that of a site"),
        (format!("{two} --user operator"), "allowed: each user once, and not `operator`"),
        (format!("{two} --user al/ice"), "--user: "),
        (format!("{two} --days 398"), "--days: 398 is not allowed; allowed: 1 to 397 days"),
        ("--site X:a=1 --site x:b=1".to_owned(), "allowed: each domain in one spelling"),
        (
            "--site a=1 --site a-b=1 --site b-c=1 --site c=1 --link a-b-c=1G".to_owned(),
            "make clear",
        ),
    ] {
        let said = init(&folder, &flags).unwrap_err();
        assert!(said.contains(expected), "{flags}: {said}");
        assert_eq!(files(parent.path()), BTreeSet::new(), "{flags}");
        assert!(!folder.exists());
    }
}

#[test]
fn a_folder_with_something_in_it_stays_as_it_is() {
    let folder = tempfile::tempdir().unwrap();
    let note = folder.path().join("note");
    std::fs::write(&note, "mine").unwrap();
    let said = init(folder.path(), "--site a=1").unwrap_err();
    assert!(said.contains("is not empty, it has \"note\"") && said.contains("try: "), "{said}");
    assert_eq!(files(folder.path()).len(), 1);
    std::fs::remove_file(note).unwrap();
    init(folder.path(), "--site a=1").unwrap();
    let tops: Vec<_> = std::fs::read_dir(folder.path()).unwrap().collect();
    assert_eq!(tops.len(), 9, "an empty folder is filled, and no draft stays: {tops:?}");
}

#[test]
fn a_link_to_the_state_that_is_there_already_is_used() {
    let (folder, state) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    std::os::unix::fs::symlink(state.path(), folder.path().join("state")).unwrap();
    init(folder.path(), "--site a=1").unwrap();
    let link = std::fs::read_link(folder.path().join("state")).unwrap();
    assert_eq!(link, state.path());
    check::configuration(crate::user::serve::Kind::Crm, &folder.path().join("crm-a.yaml")).unwrap();
}

#[test]
fn on_several_machines_daemons_listen_for_others_and_are_named_by_their_hosts() {
    let parent = tempfile::tempdir().unwrap();
    let folder = parent.path().join("wide");
    let flags =
        "--site north=64 --host north=10.0.1.5 --host grid=grc.example.org --port-base 7100";
    let text = init(&folder, flags).unwrap();
    assert!(text.contains("several machines") && !text.contains("coalloc up"), "{text}");
    let crm: v1::CrmFile = read(&folder.join("crm-north.yaml")).unwrap().message;
    assert_eq!(crm.daemon.unwrap().listen, "0.0.0.0:7101");
    assert_eq!(crm.coordinators[0].address, "grc.example.org:7100");
    let (_, facts) =
        crate::kit::authority::folder::IdentityFolder::at(&folder.join("identities/grc"))
            .owner()
            .unwrap();
    assert!(facts.hosts.iter().any(|host| host.to_string() == "grc.example.org"), "{facts:?}");
    let readme = std::fs::read_to_string(folder.join("README.txt")).unwrap();
    assert!(readme.contains("10.0.1.5: crm-north.yaml and identities/crm-north"), "{readme}");
    assert!(readme.contains("systemctl enable --now coalloc.target coalloc@NAME"), "{readme}");
    let unit = std::fs::read_to_string(folder.join("systemd/coalloc@.service")).unwrap();
    let here = folder.display().to_string();
    assert!(unit.contains("User=coalloc\n") && !unit.contains(&here), "of no machine: {unit}");
}

#[test]
fn units_and_containers_run_every_configuration_and_write_ledgers_only() {
    let parent = tempfile::tempdir().unwrap();
    let folder = parent.path().join("my labs");
    init(&folder, "--site tokyo=16 --site osaka=8 --link tokyo-osaka=1G").unwrap();
    let compose: serde_json::Value = read(&folder.join("compose.yaml")).unwrap().message;
    let services = compose["services"].as_object().unwrap();
    assert_eq!(services.len(), 4);
    let target = std::fs::read_to_string(folder.join("systemd/coalloc-my-labs.target")).unwrap();
    for (name, kind) in
        [("grc", "grc"), ("crm-tokyo", "crm"), ("crm-osaka", "crm"), ("nrm-network", "nrm")]
    {
        let unit = format!("coalloc-my-labs-{name}.service");
        assert!(target.contains(&unit), "{target}");
        let unit = std::fs::read_to_string(folder.join("systemd").join(unit)).unwrap();
        let place = folder.canonicalize().unwrap();
        let is_temporary = ["/tmp", "/var/tmp"].iter().any(|one| place.starts_with(one));
        assert_eq!(unit.contains("\nPrivateTmp=no\n"), is_temporary, "{unit}");
        let place = place.display();
        for line in [
            format!(" serve {kind} --config \"{place}/{name}.yaml\"\n"),
            format!("\nReadWritePaths=\"{place}/state\"\n"),
            "\nProtectSystem=strict\n".to_owned(),
            "\nCapabilityBoundingSet=\n".to_owned(),
            "\nWantedBy=coalloc-my-labs.target\n".to_owned(),
        ] {
            assert!(unit.contains(&line), "{line}: {unit}");
        }
        let command = &services[name]["command"];
        assert_eq!(
            *command,
            serde_json::json!(["serve", kind, "--config", format!("{name}.yaml")])
        );
        let volumes = services[name]["volumes"].as_array().unwrap();
        let written: Vec<_> = volumes
            .iter()
            .filter_map(|one| one.as_str().filter(|one| !one.ends_with(":ro")))
            .collect();
        assert_eq!(written, ["./state:/federation/state"]);
    }
}
