//! The manifests that are written for a federation file: their content, what daemons read from them, and their keys.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use coalloc_net::identity::store::IdentityStore;

use super::*;
use crate::kit::authority::folder::IdentityFolder;
use crate::kit::exit::Exit;
use crate::testbed::containers::{IDENTITY, STATE};
use crate::user::serve::check;

const DAY: Duration = Duration::from_secs(86_400);
const SERVICES: [&str; 5] = ["grc", "nrm-metro", "nrm-regional", "crm-metro", "crm-regional"];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().to_owned()
}

fn args(out: &Path) -> KubernetesArgs {
    KubernetesArgs {
        federation: root().join("docs/examples/small-federation.yaml"),
        out: out.to_owned(),
        namespace: "coalloc".parse().unwrap(),
        image: "coalloc:local".parse().unwrap(),
        storage: "1Gi".parse().unwrap(),
        force: false,
    }
}

fn written() -> (tempfile::TempDir, KubernetesArgs) {
    let folder = tempfile::tempdir().unwrap();
    let args = args(&folder.path().join("new/cluster"));
    let answer = run(&args).unwrap();
    assert!(answer.text.contains("4 resource managers and a coordinator; 6 certificates made"));
    (folder, args)
}

fn read(args: &KubernetesArgs, name: &str) -> String {
    fs::read_to_string(args.out.join(name)).unwrap()
}

/// The manifests in the repository are what `coalloc kubernetes` writes; COALLOC_BLESS=1 rewrites them.
#[test]
fn the_example_is_what_this_writes() {
    let folder = root().join("deploy/kubernetes");
    let file = Federation::read(&args(&folder).federation).unwrap().file;
    let expected = files(&file, &Plan::of(&file, &args(&folder)).unwrap()).unwrap();
    if std::env::var_os("COALLOC_BLESS").is_some() {
        fs::create_dir_all(&folder).unwrap();
        for (name, text) in &expected {
            fs::write(folder.join(name), text).unwrap();
        }
    }
    for (name, text) in &expected {
        let found = fs::read_to_string(folder.join(name)).unwrap_or_default();
        assert!(
            found == *text,
            "deploy/kubernetes/{name} is not what `coalloc kubernetes --federation \
             docs/examples/small-federation.yaml --out deploy/kubernetes --force` writes"
        );
    }
    let daemons = fs::read_dir(&folder).unwrap().filter(|entry| {
        entry.as_ref().unwrap().file_name().to_string_lossy().starts_with("daemon-")
    });
    assert_eq!(daemons.count(), SERVICES.len());
}

/// The configuration in a daemon's manifest.
fn config(manifest: &str) -> String {
    let (_, rest) = manifest.split_once(".json: |\n").unwrap();
    let lines = rest.lines().take_while(|line| line.starts_with("    "));
    lines.map(|line| line[4..].to_owned() + "\n").collect()
}

#[test]
fn every_daemon_reads_its_configuration_and_identity() {
    let (folder, args) = written();
    for (service, kind) in
        SERVICES.into_iter().zip([Kind::Grc, Kind::Nrm, Kind::Nrm, Kind::Crm, Kind::Crm])
    {
        let manifest = read(&args, &file_name(service));
        // What is mounted into the pod is somewhere else here.
        let identity = args.out.join("identities").join(service);
        let text = config(&manifest)
            .replace(IDENTITY, &identity.display().to_string())
            .replace(STATE, &folder.path().display().to_string());
        let path = folder.path().join(format!("{service}.json"));
        fs::write(&path, text).unwrap();
        let answer = check::run(kind, &path).unwrap();
        assert_eq!(answer.exit, Exit::Done, "{}", answer.text);
        // The pod gets what is on the list, and that is a whole identity.
        let secrets = read(&args, SECRETS_FILE);
        let marker = format!("\n  name: {service}-identity\n");
        let (_, secret) = secrets.split_once(&marker).unwrap();
        let secret = secret.split("\n---\n").next().unwrap();
        let pod = folder.path().join(service);
        fs::create_dir_all(pod.join("trust")).unwrap();
        for item in manifest.lines().filter_map(|line| line.trim().strip_prefix("- {key: ")) {
            let (key, path) = item.trim_end_matches('}').split_once(", path: ").unwrap();
            let value =
                secret.lines().find_map(|line| line.trim().strip_prefix(&format!("{key}: ")));
            fs::write(pod.join(path), STANDARD.decode(value.unwrap()).unwrap()).unwrap();
        }
        let store = IdentityStore::open(&pod).unwrap();
        let domains = store.current().trust.domains().map(ToString::to_string).collect::<Vec<_>>();
        assert_eq!(domains, ["grid", "metro", "regional"], "{service}");
    }
}

#[test]
fn daemons_reach_one_another_by_the_names_of_services() {
    let (_folder, args) = written();
    let grc = config(&read(&args, "daemon-grc.yaml"));
    assert!(grc.contains("\"address\": \"nrm-metro:7101\""), "{grc}");
    assert!(grc.contains("\"address\": \"crm-regional:7104\""), "{grc}");
    assert!(!grc.contains("quotas"), "{grc}");
    let crm = read(&args, "daemon-crm-regional.yaml");
    assert!(config(&crm).contains("\"address\": \"grc:7000\""), "{crm}");
    assert!(config(&crm).contains("\"listen\": \"0.0.0.0:7104\""), "{crm}");
    assert!(crm.contains("health, \"127.0.0.1:7104\""), "{crm}");
    let hosts = |stem: &str| {
        let path = args.out.join("identities").join(stem);
        let (_, facts) = IdentityFolder::at(&path).owner().unwrap();
        facts.hosts.iter().map(ToString::to_string).collect::<Vec<_>>().join(" ")
    };
    let names = "crm-metro crm-metro.coalloc.svc crm-metro.coalloc.svc.cluster.local";
    assert_eq!(hosts("crm-metro"), format!("{names} localhost 127.0.0.1"));
    assert_eq!(hosts("operator"), "");
}

#[test]
fn keys_are_for_the_owner_alone_and_the_operators_stays_here() {
    let (_folder, args) = written();
    let mode = |name: &str| fs::metadata(args.out.join(name)).unwrap().permissions().mode() & 0o777;
    for name in [
        SECRETS_FILE,
        "identities/grc/key.pem",
        "identities/operator/key.pem",
        "authorities/grid/authority.key.pem",
    ] {
        assert_eq!(mode(name), 0o600, "{name}");
    }
    let secrets = read(&args, SECRETS_FILE);
    assert_eq!(secrets.matches("\nkind: Secret\n").count(), SERVICES.len());
    assert!(!secrets.contains("operator"), "{secrets}");
}

#[test]
fn keys_stay_while_they_last_and_are_renewed_by_their_authorities() {
    let (_folder, args) = written();
    let (secrets, list) = (read(&args, SECRETS_FILE), read(&args, LIST_FILE));
    let authority = read(&args, "authorities/grid/authority.pem");
    let now = SystemTime::now();
    let answer = run_at(&args, now + DAY * 59).unwrap();
    assert!(answer.text.contains("the certificates of 6 identities last"), "{}", answer.text);
    assert_eq!(read(&args, SECRETS_FILE), secrets);
    let answer = run_at(&args, now + DAY * 61).unwrap();
    assert!(answer.text.contains("6 certificates made; they last 90 days"), "{}", answer.text);
    assert_ne!(read(&args, SECRETS_FILE), secrets);
    assert_eq!(read(&args, LIST_FILE), list);
    assert_eq!(read(&args, "authorities/grid/authority.pem"), authority);
}

#[test]
fn a_file_with_other_content_is_left_alone_without_force() {
    let (_folder, mut args) = written();
    let path = args.out.join("daemon-grc.yaml");
    let changed = read(&args, "daemon-grc.yaml").replace("memory: 1Gi", "memory: 2Gi");
    fs::write(&path, &changed).unwrap();
    let failure = run(&args).unwrap_err();
    assert!(failure.message.contains("daemon-grc.yaml is there already"), "{failure}");
    assert!(failure.message.contains("--force"), "{failure}");
    assert_eq!(read(&args, "daemon-grc.yaml"), changed);
    args.force = true;
    run(&args).unwrap();
    assert_ne!(read(&args, "daemon-grc.yaml"), changed);
}

#[test]
fn the_words_of_the_command_line_are_where_they_belong() {
    let folder = tempfile::tempdir().unwrap();
    let mut args = args(folder.path());
    args.namespace = "lab".parse().unwrap();
    args.image = "registry.example/coalloc:1".parse().unwrap();
    args.storage = "20Gi".parse().unwrap();
    run(&args).unwrap();
    let crm = read(&args, "daemon-crm-metro.yaml");
    assert!(crm.contains("image: registry.example/coalloc:1\n"), "{crm}");
    assert!(crm.contains("{storage: 20Gi}"), "{crm}");
    for name in [NETWORK_FILE, EVICTIONS_FILE, SECRETS_FILE, "daemon-crm-metro.yaml"] {
        let text = read(&args, name);
        let (objects, inside) =
            (text.matches("\nkind: ").count(), text.matches("\n  namespace: lab\n").count());
        assert_eq!(objects, inside, "{name}");
    }
    let listed = read(&args, LIST_FILE);
    for entry in fs::read_dir(&args.out).unwrap() {
        let name = entry.unwrap().file_name().to_string_lossy().into_owned();
        let is_manifest = name.ends_with(".yaml") && name != LIST_FILE;
        assert_eq!(listed.contains(&format!("  - {name}\n")), is_manifest, "{name}");
    }
}

fn federation(names: &[&str]) -> v1::FederationFile {
    let computes = names.iter().map(|name| v1::ComputeInventory {
        name: (*name).to_owned(),
        domain: "d".into(),
        ..Default::default()
    });
    v1::FederationFile { computes: computes.collect(), ..Default::default() }
}

#[test]
fn names_become_those_of_services() {
    let plan = |names: &[&str]| Plan::of(&federation(names), &args(Path::new("unused")));
    let made = plan(&["crm/Tokyo:1", "3com", "-a-"]).unwrap();
    let services: Vec<&str> = made.managers.iter().map(|one| one.service.as_str()).collect();
    assert_eq!(services, ["crm-tokyo-1", "rm-3com", "a"]);
    let long = "n".repeat(SERVICE_LEN_MAX + 1);
    for (names, problem) in [
        (vec!["a/b", "A:b"], "\"A:b\" and \"a/b\" would both be the container \"a-b\""),
        (vec!["GRC"], "\"GRC\" and the federation would both be"),
        (vec!["operator"], "\"operator\" and the federation would both be"),
        (vec!["coalloc"], "\"coalloc\" and the federation would both be"),
        (vec!["3com", "rm-3com"], "would both be the container \"rm-3com\""),
        (vec![long.as_str()], "up to 52 characters"),
    ] {
        let failure = plan(&names).unwrap_err();
        assert!(failure.message.contains(problem), "{failure}");
    }
}

#[test]
fn a_configuration_that_no_config_map_holds_is_refused() {
    let mut file = federation(&["a"]);
    let site =
        |number: usize| v1::Site { name: format!("site-{number}"), cpus: 1, ..Default::default() };
    file.computes[0].sites = (0..30_000).map(site).collect();
    let plan = Plan::of(&file, &args(Path::new("unused"))).unwrap();
    let failure = files(&file, &plan).unwrap_err();
    assert!(failure.message.contains("the configuration of a has "), "{failure}");
    assert!(failure.message.contains("up to 1048576 bytes"), "{failure}");
}
