//! An image of etcd, made of this machine's own program, and the certificates of its members and of whoever writes to it.
//!
//! The image is FROM scratch: the program, the libraries that `ldd` names, and an empty folder for its data. Nothing is
//! fetched. Connections of members with each other are in plain text: they have a network of their own.
//!
//! Left out: etcd's own users. Every certificate of the test's authority may write everything.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DistinguishedName, DnType,
    ExtendedKeyUsagePurpose, IsCa, KeyPair, KeyUsagePurpose,
};

use crate::process;

/// Time limit of each command.
const LIMIT: Duration = Duration::from_secs(60);

/// Where etcd is installed; `None` if it is not, and need not be.
pub(crate) fn program() -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let program = std::env::split_paths(&path).map(|folder| folder.join("etcd"));
    let program = program.into_iter().find(|program| program.is_file());
    let must = std::env::var_os("COALLOC_ETCD").is_some_and(|wanted| wanted == "1");
    assert!(program.is_some() || !must, "COALLOC_ETCD is 1, and etcd is not installed");
    if program.is_none() {
        println!("skipped: etcd is not installed");
    }
    program
}

/// An image with etcd, which is removed when this is dropped.
pub(crate) struct EtcdImage {
    /// Its name, which no other test gives an image.
    pub(crate) name: String,
}

impl EtcdImage {
    pub(crate) fn build(program: &Path) -> Self {
        let context = tempfile::tempdir().unwrap();
        let root = context.path().join("root");
        for library in libraries(program) {
            // The loader looks for each where it is here.
            let copy = root.join(library.strip_prefix("/").unwrap());
            std::fs::create_dir_all(copy.parent().unwrap()).unwrap();
            std::fs::copy(&library, &copy).unwrap();
        }
        std::fs::create_dir_all(&root).unwrap();
        std::fs::create_dir(context.path().join("data")).unwrap();
        std::fs::copy(program, root.join("etcd")).unwrap();
        // A new volume inherits the owner of the folder.
        let file = "FROM scratch\nCOPY root /\nCOPY --chown=65532:65532 data /var/lib/etcd\n\
                    USER 65532:65532\nENTRYPOINT [\"/etcd\"]\n";
        std::fs::write(context.path().join("Dockerfile"), file).unwrap();
        let image = Self { name: format!("coalloc-test-etcd:{}", std::process::id()) };
        let mut build = Command::new("docker");
        build.args(["build", "--quiet", "--tag", &image.name]).arg(context.path());
        let outcome = process::run(build, LIMIT);
        assert!(outcome.is_success(), "{}", outcome.shown);
        image
    }
}

impl Drop for EtcdImage {
    fn drop(&mut self) {
        let mut remove = Command::new("docker");
        remove.args(["image", "rm", "--force", &self.name]);
        let outcome = process::run(remove, LIMIT);
        if !outcome.is_success() {
            eprintln!("{}", outcome.shown);
        }
    }
}

/// The libraries that a program is linked with, and their loader; none if it is static.
fn libraries(program: &Path) -> BTreeSet<PathBuf> {
    let mut ldd = Command::new("ldd");
    ldd.arg(program);
    let listed = process::run(ldd, LIMIT);
    let paths = listed.stdout.split_whitespace().filter(|word| word.starts_with('/'));
    paths.map(PathBuf::from).filter(|path| path.is_file()).collect()
}

/// Makes an authority, and writes two folders: `etcd` for the members, which serve under these names, and `etcd-user` for
/// whoever writes to them.
pub(crate) fn write_certificates(folder: &Path, hosts: &[String]) {
    let mut params = named("the authority of etcd", &[]);
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign];
    let authority = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
    for (name, hosts) in [("etcd", hosts), ("etcd-user", &[])] {
        let folder = folder.join(name);
        std::fs::create_dir(&folder).unwrap();
        let key = KeyPair::generate().unwrap();
        let mut params = named(name, hosts);
        // A member also calls itself.
        params.extended_key_usages =
            vec![ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth];
        let certificate = params.signed_by(&key, &authority).unwrap();
        let files = [
            ("authority.pem", authority.pem()),
            ("certificate.pem", certificate.pem()),
            ("key.pem", key.serialize_pem()),
        ];
        for (file, text) in files {
            std::fs::write(folder.join(file), text).unwrap();
        }
    }
}

fn named(name: &str, hosts: &[String]) -> CertificateParams {
    let mut params = CertificateParams::new(hosts).unwrap();
    params.distinguished_name = DistinguishedName::new();
    params.distinguished_name.push(DnType::CommonName, name);
    params
}

/// What a member says of itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct EtcdStatus {
    /// It leads.
    pub(crate) leads: bool,
    /// It knows a leader that it hears.
    pub(crate) has_leader: bool,
}

impl EtcdStatus {
    /// Asks a member for its metrics; `None` if it does not answer.
    pub(crate) fn ask(address: &str) -> Option<Self> {
        let metrics = metrics(address).ok()?;
        let is_one = |name: &str| metrics.lines().any(|line| line == format!("{name} 1"));
        let (leads, has_leader) =
            (is_one("etcd_server_is_leader"), is_one("etcd_server_has_leader"));
        metrics.contains("etcd_server_has_leader").then_some(Self { leads, has_leader })
    }
}

fn metrics(address: &str) -> std::io::Result<String> {
    use std::io::{Read as _, Write as _};
    let mut stream = std::net::TcpStream::connect(address)?;
    stream.set_read_timeout(Some(Duration::from_secs(2)))?;
    stream.write_all(b"GET /metrics HTTP/1.0\r\n\r\n")?;
    let mut text = String::new();
    stream.read_to_string(&mut text)?;
    Ok(text)
}

/// The value of `--initial-cluster`.
pub(crate) fn initial_cluster<'a>(members: impl Iterator<Item = (&'a str, &'a str)>) -> String {
    let mut all = String::new();
    for (name, peer) in members {
        let comma = if all.is_empty() { "" } else { "," };
        // Writing to a String cannot fail.
        let _ = write!(all, "{comma}{name}=http://{peer}:2380");
    }
    all
}
