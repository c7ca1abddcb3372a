//! The certificates of a testbed: made, left alone, renewed, and handed over.

use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};

use coalloc_net::identity::store::IdentityStore;

use super::super::ComposeArgs;
use super::*;
use crate::kit::authority::folder::IdentityFolder;
use crate::kit::exit::Exit;

const DAY: Duration = Duration::from_secs(86_400);

/// A testbed of ELGL: a coordinator, 13 resource managers and the operator.
fn testbed() -> (tempfile::TempDir, CertificatesArgs) {
    let folder = tempfile::tempdir().unwrap();
    let out = Some(folder.path().to_owned());
    super::super::run(&ComposeArgs { what: None, federation: None, out, force: false }).unwrap();
    let args = CertificatesArgs { folder: folder.path().to_owned(), owner: None };
    (folder, args)
}

fn made(args: &CertificatesArgs, now: SystemTime) -> bool {
    match run_at(args, now).unwrap().text.as_str() {
        "15 certificates made; they last 30 days\n" => true,
        "the certificates of 15 identities last\n" => false,
        text => panic!("{text}"),
    }
}

#[test]
fn every_identity_is_whole_and_believes_every_domain() {
    let (folder, args) = testbed();
    assert!(made(&args, SystemTime::now()));
    let identities = folder.path().join("identities");
    assert_eq!(fs::read_dir(&identities).unwrap().count(), 15);
    for entry in fs::read_dir(&identities).unwrap() {
        let path = entry.unwrap().path();
        IdentityStore::open(&path).unwrap();
        let key = fs::metadata(path.join("key.pem")).unwrap();
        assert_eq!(key.permissions().mode() & 0o777, 0o600);
        for domain in ["grid", "n", "s", "u"] {
            assert!(path.join(format!("trust/{domain}.pem")).exists(), "{domain}");
            assert!(path.join(format!("trust/{domain}.crl.pem")).exists(), "{domain}");
        }
    }
    let hosts = |stem: &str| {
        let (_, facts) = IdentityFolder::at(&identities.join(stem)).owner().unwrap();
        facts.hosts.iter().map(ToString::to_string).collect::<Vec<_>>().join(" ")
    };
    assert_eq!(hosts("crm-N0"), "crm-N0 gate-N localhost 127.0.0.1");
    assert_eq!(hosts("grc"), "grc localhost 127.0.0.1");
    assert_eq!(hosts("operator"), "");
}

#[test]
fn nothing_is_made_while_a_third_of_the_life_is_left_and_all_is_whole() {
    let (folder, args) = testbed();
    let now = SystemTime::now();
    assert!(made(&args, now));
    assert!(!made(&args, now));
    assert!(!made(&args, now + DAY * 19));
    assert!(made(&args, now + DAY * 21));
    let key = folder.path().join("identities/nrm-S/key.pem");
    fs::remove_file(&key).unwrap();
    assert!(made(&args, now) && key.exists());
    // The containers have other names now.
    let plan = folder.path().join(IDENTITIES);
    let text = fs::read_to_string(&plan).unwrap();
    fs::write(&plan, text.replace("\"gate-N\"", "\"door-N\"")).unwrap();
    assert!(made(&args, now));
    assert!(!made(&args, now));
}

#[test]
fn owners_change_in_the_testbed_and_nowhere_else() {
    let (folder, mut args) = testbed();
    let path = |name: &str| folder.path().join(name);
    let owner = |name: &str| path(name).symlink_metadata().unwrap().uid();
    let own = fs::metadata(folder.path()).unwrap().uid();
    // Only root can give files away.
    let daemons = if rustix::process::geteuid().is_root() { 65_532 } else { own };
    args.owner = Some(daemons);
    fs::write(path("outside"), "").unwrap();
    fs::create_dir_all(path("identities/grc")).unwrap();
    symlink(path("outside"), path("identities/grc/link")).unwrap();
    symlink(folder.path().join("config"), path("identities/link")).unwrap();
    assert!(made(&args, SystemTime::now()));
    for name in ["identities/grc", "identities/grc/key.pem", "identities/crm-N0/trust/grid.pem"] {
        assert_eq!(owner(name), daemons, "{name}");
    }
    for name in [
        "identities",
        "identities/operator/key.pem",
        "authorities/n/authority.key.pem",
        "outside",
        "config/grc.json",
    ] {
        assert_eq!(owner(name), own, "{name}");
    }
    // The authorities may be kept elsewhere while all lasts; a link in their place is not followed.
    fs::rename(path("authorities"), path("elsewhere")).unwrap();
    assert!(!made(&args, SystemTime::now()));
    symlink(path("elsewhere"), path("authorities")).unwrap();
    let failure = run(&args).unwrap_err();
    assert!(failure.message.contains("authorities is no folder"), "{failure}");
}

#[test]
fn what_is_no_plan_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let args = CertificatesArgs { folder: folder.path().to_owned(), owner: None };
    let identity = "spiffe://n/coalloc/resource-manager/a";
    let plan = |stem: &str, host: &str| {
        format!(r#"{{"{stem}": {{"identity": "{identity}", "hosts": ["{host}"]}}}}"#)
    };
    for (text, problem) in [
        (None, "`coalloc compose` writes it"),
        (Some("[]".to_owned()), "`coalloc compose` writes it"),
        (Some(plan("../a", "a")), "cannot be the name of a folder"),
        (Some(plan("a", "a b")), "a.hosts: \"a b\" is not allowed"),
    ] {
        if let Some(text) = text {
            fs::write(folder.path().join(IDENTITIES), text).unwrap();
        }
        let failure = run(&args).unwrap_err();
        assert_eq!(failure.exit, Exit::BadInput, "{failure}");
        assert!(failure.message.contains(problem), "{failure}");
    }
    assert!(!folder.path().join("identities").exists());
}
