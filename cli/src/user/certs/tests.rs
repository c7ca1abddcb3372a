//! The subcommands of `coalloc certs`, on folders of a temporary place.

use std::fs;

use clap::Parser;
use serde_json::Value;

use super::*;
use crate::kit::exit::Exit;

/// The commands alone, so that a test can write them as a user does.
#[derive(Debug, Parser)]
struct Line {
    #[command(flatten)]
    args: CertsArgs,
}

/// A folder in which commands run; `@` in a command stands for it.
struct Folder(tempfile::TempDir);

impl Folder {
    /// A folder with the authority of north.example in `ca`, and an identity of grc in `grc`.
    fn new() -> Self {
        let folder = Self(tempfile::tempdir().unwrap());
        folder.run("init --domain north.example --out @/ca");
        folder.run("issue --ca @/ca --role coordinator --name grc --out @/grc");
        folder
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn read(&self, name: &str) -> String {
        fs::read_to_string(self.path(name)).unwrap()
    }

    fn result(&self, line: &str) -> Result<Answer, Failure> {
        self.result_at(line, SystemTime::now())
    }

    fn result_at(&self, line: &str, now: SystemTime) -> Result<Answer, Failure> {
        let line = line.replace('@', &self.0.path().to_string_lossy());
        let words = ["certs"].into_iter().chain(line.split(' '));
        run_at(&Line::try_parse_from(words).unwrap().args, now)
    }

    fn run(&self, line: &str) -> String {
        let answer = self.result(line).unwrap();
        assert_eq!(answer.exit, Exit::Done, "{line}: {}", answer.text);
        answer.text
    }

    fn refused(&self, line: &str) -> (Exit, String) {
        let failure = self.result(line).unwrap_err();
        (failure.exit, failure.message)
    }

    /// What `show` says when something is wrong.
    fn wrong(&self, line: &str) -> String {
        let answer = self.result(line).unwrap();
        assert_eq!(answer.exit, Exit::Failed, "{}", answer.text);
        answer.text
    }
}

const HOUR: Duration = Duration::from_secs(3_600);

fn days(number: u64) -> Duration {
    Duration::from_secs(number * 86_400)
}

#[test]
fn an_authority_and_an_identity_are_made_once() {
    let folder = Folder::new();
    let before = folder.read("ca/authority.key.pem");
    let (exit, message) = folder.refused("init --domain south.example --out @/ca");
    assert_eq!(exit, Exit::BadInput);
    assert!(message.contains("authority.pem is there already"), "{message}");
    // Neither does a key alone get lost.
    fs::remove_file(folder.path("ca/authority.pem")).unwrap();
    let (_, message) = folder.refused("init --domain north.example --out @/ca");
    assert!(message.contains("authority.key.pem is there already"), "{message}");
    assert_eq!(folder.read("ca/authority.key.pem"), before);
    let folder = Folder::new();
    let before = folder.read("grc/key.pem");
    let line = "issue --ca @/ca --role coordinator --name grc --out @/grc";
    let (exit, message) = folder.refused(line);
    assert_eq!((exit, folder.read("grc/key.pem")), (Exit::BadInput, before));
    assert!(message.contains("renew it with `coalloc certs renew`"), "{message}");
    assert_eq!(folder.run("show @/ca").matches("valid  ").count(), 1);
}

#[test]
fn what_is_not_allowed_is_refused_with_what_is() {
    let folder = Folder::new();
    folder.run("init --domain south.example --out @/south");
    for (line, problem) in [
        ("init --domain North --out @/x", "--domain: \"North\" is not allowed; allowed: 1 to 255"),
        ("init --domain a.crl --out @/x", "domain: \"a.crl\" is not allowed"),
        ("issue --ca @/ca --role user --name a/b? --out @/x", "--name: \"a/b?\" is not allowed"),
        (
            "issue --ca @/ca --role user --name a --out @/x --days 0",
            "--days: 0 is not allowed; allowed: 1 to 397",
        ),
        ("issue --ca @/ca --role user --name a --out @/x --days 398", "allowed: 1 to 397 days"),
        ("issue --ca @/grc --role user --name a --out @/x", "allowed: a folder with authority.pem"),
        ("issue --ca @/ca --role user --name a --out @/x --trust south", "allowed: DOMAIN=PATH"),
        (
            "issue --ca @/ca --role user --name a --out @/x --trust S=@/south",
            "--trust: \"S\" is not allowed",
        ),
        (
            "issue --ca @/ca --role user --name a --out @/x --trust north.example=@/ca",
            "each other domain once",
        ),
        (
            "issue --ca @/ca --role user --name a --out @/x --trust s=@/south --trust s=@/south",
            "each other domain once",
        ),
        (
            "issue --ca @/ca --role user --name a --out @/x --trust s=@/grc/certificate.pem",
            "not of an authority",
        ),
        ("renew --ca @/ca @/south", "certificate.pem: reading failed"),
        ("revoke --ca @/ca --serial 4g", "--serial: \"4g\" is not allowed"),
        ("revoke --ca @/ca --identity alice", "--identity: \"alice\" is not allowed"),
        ("show @/nowhere", "reading failed"),
        ("show @", "neither certificate.pem nor authority.pem is in it"),
        ("show @/ca/issued.json", "there is nothing of PEM in it"),
    ] {
        let (exit, message) = folder.refused(line);
        assert_eq!(exit, Exit::BadInput, "{line}: {message}");
        assert!(message.contains(problem), "{line}: {message}");
    }
    assert!(!folder.path("x").exists());
    assert_eq!(folder.run("show @/ca").matches("valid  ").count(), 1);
    for line in ["revoke --ca ca", "revoke --ca ca a --serial 4f", "issue --role root"] {
        let words = ["certs"].into_iter().chain(line.split(' '));
        assert!(Line::try_parse_from(words).is_err(), "{line}");
    }
}

#[test]
fn a_renewed_identity_is_the_same_with_another_serial_number_and_key() {
    let folder = Folder::new();
    let owner = || IdentityFolder::at(&folder.path("grc")).owner().unwrap();
    let ((before, old), key) = (owner(), folder.read("grc/key.pem"));
    folder.run("init --domain south.example --out @/south");
    fs::copy(folder.path("south/authority.pem"), folder.path("grc/trust/south.example.pem"))
        .unwrap();
    // What was revoked since arrives with the new certificate.
    folder.run("issue --ca @/ca --role user --name alice --out @/alice");
    folder.run("revoke --ca @/ca @/alice");
    let text = folder.run("renew --ca @/ca @/grc --days 90");
    assert!(text.contains(&format!("The old one, {}, is valid until", old.serial)), "{text}");
    let (after, new) = owner();
    assert_eq!(before, after);
    folder.run("revoke --ca @/ca @/grc");
    let again = folder.run("renew --ca @/ca @/grc --days 90");
    assert!(again.contains(&format!("The old one, {}, was revoked at", new.serial)), "{again}");
    assert!(old.serial != new.serial && key != folder.read("grc/key.pem"));
    let shown = folder.run("show @/grc");
    assert!(shown.contains("ends in 89 days") || shown.contains("ends in 90 days"), "{shown}");
    assert!(shown.contains("north.example: 1 authority until 20"), "{shown}");
    assert!(shown.contains(", 2 revoked\n"), "{shown}");
    assert!(shown.contains("south.example: 1 authority until 20"), "{shown}");
    assert!(shown.contains(", no list of what is revoked\n"), "{shown}");
    assert!(!shown.contains("PROBLEM") && !shown.contains("warning"), "{shown}");
}

#[test]
fn host_names_of_daemons_are_shown_and_outlive_a_renewal() {
    let folder = Folder::new();
    let issue = "issue --ca @/ca --role";
    folder.run(&format!("{issue} resource-manager --name n --out @/n --host n.example --host ::1"));
    for renewal in [None, Some("renew --ca @/ca @/n")] {
        renewal.map(|line| folder.run(line));
        let shown = folder.run("show @/n");
        assert!(shown.contains("n.example ::1\n"), "{shown}");
        let json: Value = serde_json::from_str(&folder.run("show --json @/n")).unwrap();
        let hosts = &json[0]["certificates"][0]["hosts"];
        assert_eq!(*hosts, serde_json::json!(["n.example", "::1"]));
    }
    for role in ["user", "operator", "auditor"] {
        let (exit, message) =
            folder.refused(&format!("{issue} {role} --name x --out @/x --host a"));
        assert_eq!(exit, Exit::BadInput, "{role}");
        assert!(message.contains("only a coordinator or a resource manager"), "{message}");
    }
    let many = " --host a".repeat(limits::HOSTS_MAX + 1);
    for (hosts, problem) in [(many.as_str(), "at most 16 host names"), (" --host *.a", "DNS name")]
    {
        let line = format!("{issue} coordinator --name x --out @/x{hosts}");
        let (_, message) = folder.refused(&line);
        assert!(message.contains(problem), "{message}");
    }
    assert!(!folder.path("x").exists());
}

#[test]
fn nobody_becomes_somebody_else_by_a_folder_with_a_certificate_of_his_own() {
    let folder = Folder::new();
    folder.run("init --domain north.example --out @/fake");
    folder.run("issue --ca @/fake --role operator --name eve --out @/eve");
    for line in ["renew --ca @/ca @/eve", "revoke --ca @/ca @/eve"] {
        let (exit, message) = folder.refused(line);
        assert_eq!(exit, Exit::NotFound, "{message}");
        assert!(message.contains("the authority of north.example has not issued"), "{message}");
    }
    assert!(!folder.run("show @/ca").contains("eve"));
}

#[test]
fn what_is_revoked_is_in_the_list_and_the_answer_says_where_to_copy_it() {
    let folder = Folder::new();
    let text = folder.run("revoke --ca @/ca @/grc");
    let copy = format!(
        "Copy {} to trust/north.example.crl.pem",
        folder.path("ca/authority.crl.pem").display()
    );
    assert!(text.contains(&copy), "{text}");
    assert_eq!(text.lines().next(), folder.run("revoke --ca @/ca @/grc").lines().next());
    folder.run("show @/grc");
    fs::copy(folder.path("ca/authority.crl.pem"), folder.path("grc/trust/north.example.crl.pem"))
        .unwrap();
    let shown = folder.wrong("show @/grc");
    assert!(shown.contains("PROBLEM: the certificate was revoked at 20"), "{shown}");
    let serial = IdentityFolder::at(&folder.path("grc")).owner().unwrap().1.serial;
    assert!(folder.run("show @/ca/authority.crl.pem").contains(&serial));
    assert!(folder.run("show @/ca").contains("revoked   20"));
    folder.run("renew --ca @/ca @/grc");
    folder.run("show @/grc");
    folder.run("revoke --ca @/ca --identity spiffe://north.example/coalloc/coordinator/grc");
    let (exit, _) =
        folder.refused("revoke --ca @/ca --identity spiffe://north.example/coalloc/user/x");
    assert_eq!(exit, Exit::NotFound);
    assert_eq!(folder.refused("revoke --ca @/ca --serial 4f").0, Exit::NotFound);
    let upper = serial.to_uppercase();
    assert!(folder.run(&format!("revoke --ca @/ca --serial {upper}")).contains(&serial));
}

#[test]
fn show_counts_down_and_fails_before_the_beginning_and_after_the_end() {
    let folder = Folder::new();
    let start = SystemTime::now();
    let show = |now: SystemTime| {
        let answer = folder.result_at("show @/grc", now).unwrap();
        (answer.exit, answer.text)
    };
    let (exit, text) = show(start + days(19) + HOUR);
    assert_eq!(exit, Exit::Done);
    assert!(text.contains("ends in 10 days") && !text.contains("warning"), "{text}");
    let (exit, text) = show(start + days(26) + HOUR);
    assert_eq!(exit, Exit::Done);
    let warning = "warning: the certificate ends in 3 days: less than a third of its life is left";
    assert!(text.contains(warning), "{text}");
    let (exit, text) = show(start + days(33));
    assert_eq!(exit, Exit::Failed);
    assert!(text.contains("PROBLEM: the certificate ended "), "{text}");
    assert!(text.contains("the list of what north.example has revoked is "), "{text}");
    let (exit, text) = show(start - days(2));
    assert_eq!(exit, Exit::Failed);
    assert!(text.contains("PROBLEM: the certificate begins in 1 day;"), "{text}");
    let (exit, text) = show(start + days(4_000));
    assert_eq!(exit, Exit::Failed);
    assert!(text.contains("PROBLEM: an authority of north.example has ended"), "{text}");
}

#[test]
fn show_finds_keys_and_authorities_that_do_not_fit() {
    use std::os::unix::fs::PermissionsExt as _;
    let folder = Folder::new();
    folder.run("issue --ca @/ca --role user --name alice --out @/alice");
    folder.run("init --domain south.example --out @/south");
    let chmod = |mode| {
        let permissions = fs::Permissions::from_mode(mode);
        fs::set_permissions(folder.path("grc/key.pem"), permissions).unwrap();
    };
    for (mode, who) in [(0o644, "everybody"), (0o640, "its group")] {
        chmod(mode);
        let expected = format!("warning: key.pem can be read by {who} (mode {mode:o})");
        assert!(folder.run("show @/grc").contains(&expected));
    }
    chmod(0o600);
    fs::write(folder.path("grc/key.pem"), folder.read("alice/key.pem")).unwrap();
    assert!(
        folder.wrong("show @/grc").contains("PROBLEM: key.pem does not belong to the certificate")
    );
    fs::write(folder.path("grc/key.pem"), "none").unwrap();
    assert!(folder.run("show @/grc").contains("warning: key.pem is not checked: "));
    fs::remove_file(folder.path("grc/key.pem")).unwrap();
    assert!(folder.wrong("show @/grc").contains("PROBLEM: key.pem is missing"));
    let trust = |name: &str| folder.path("alice/trust").join(name);
    fs::copy(folder.path("south/authority.pem"), trust("north.example.pem")).unwrap();
    let shown = folder.wrong("show @/alice");
    assert!(
        shown.contains("no authority in trust/north.example.pem has issued the certificate"),
        "{shown}"
    );
    assert!(shown.contains("north.example.crl.pem is of another authority"), "{shown}");
    fs::remove_file(trust("north.example.pem")).unwrap();
    assert!(folder.wrong("show @/alice").contains("the own domain is not believed"));
}

#[test]
fn programs_get_json_of_all_paths() {
    let folder = Folder::new();
    let json = folder.run("show --json @/grc @/ca @/ca/authority.pem @/grc/certificate.pem");
    let json: Value = serde_json::from_str(&json).unwrap();
    let kinds: Vec<&Value> = json.as_array().unwrap().iter().map(|one| &one["kind"]).collect();
    assert_eq!(kinds, ["identity", "authority", "file", "file"]);
    let certificate = &json[0]["certificates"][0];
    assert_eq!(certificate["identity"], "spiffe://north.example/coalloc/coordinator/grc");
    assert_eq!(
        (&certificate["role"], &certificate["domain"]),
        (&"coordinator".into(), &"north.example".into())
    );
    assert_eq!(certificate, &json[3]["certificates"][0]);
    assert_eq!(json[0]["trusts"][0]["revoked"], 0);
    assert_eq!(json[1]["issued"][0]["state"], "valid");
    assert_eq!(json[1]["issued"][0]["serial"], certificate["serial"]);
    assert_eq!(json[2]["certificates"][0]["authority"], true);
    assert_eq!(json[0]["problems"], Value::Array(vec![]));
}
