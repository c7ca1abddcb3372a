//! A coordinator whose ledger is in an etcd that asks for certificates.

use std::fs::File;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};

use crate::harness::{Federation, Setup, eventually, free_port, pair};
use crate::shared_ledger::is_etcd_installed;

/// A certification authority of etcd. Its certificates are for 127.0.0.1.
struct Authority(CertifiedIssuer<'static, KeyPair>);

impl Authority {
    fn new() -> Self {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        Self(CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap())
    }

    /// Writes the authority's certificate as NAME-ca.pem, and a certificate with its key as NAME.pem and NAME-key.pem.
    fn write(&self, folder: &Path, name: &str) {
        let key = KeyPair::generate().unwrap();
        let params = CertificateParams::new(vec!["127.0.0.1".to_owned()]).unwrap();
        let certificate = params.signed_by(&key, &self.0).unwrap();
        for (file, text) in [
            (format!("{name}-ca.pem"), self.0.pem()),
            (format!("{name}.pem"), certificate.pem()),
            (format!("{name}-key.pem"), key.serialize_pem()),
        ] {
            std::fs::write(folder.join(file), text).unwrap();
        }
    }
}

/// One member of etcd, which is killed when this is dropped.
struct Etcd(Child);

impl Drop for Etcd {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Starts an etcd that lets in only whoever has a certificate of the same authority.
fn etcd(folder: &Path, name: &str, port: u16) -> Etcd {
    let (url, peers) = (format!("https://127.0.0.1:{port}"), free_port());
    let peers = format!("http://127.0.0.1:{peers}");
    let file = |what: &str| folder.join(format!("{name}{what}.pem"));
    let child = Command::new("etcd")
        .args(["--name", name, "--data-dir"])
        .arg(folder.join("etcd"))
        .args(["--listen-client-urls", &url, "--advertise-client-urls", &url])
        .args(["--listen-peer-urls", &peers, "--initial-advertise-peer-urls", &peers])
        .args(["--initial-cluster", &format!("{name}={peers}"), "--client-cert-auth"])
        .arg("--trusted-ca-file")
        .arg(file("-ca"))
        .arg("--cert-file")
        .arg(file(""))
        .arg("--key-file")
        .arg(file("-key"))
        .stdout(Stdio::null())
        .stderr(File::create(folder.join("etcd.log")).unwrap())
        .spawn()
        .unwrap();
    Etcd(child)
}

fn share(federation: &Federation, name: &str) -> Output {
    let config = federation.dir.path().join(format!("{name}.yaml"));
    let mut share = Command::new(env!("CARGO_BIN_EXE_coalloc"));
    share.args(["ledger", "share", "--config"]).arg(config).output().unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn only_whom_etcd_knows_shares_a_ledger_there() {
    if !is_etcd_installed().await {
        return;
    }
    let mut federation = Federation::prepare();
    federation.configure(&Setup::default());
    let folder = federation.dir.path().to_owned();
    let (ours, foreign) = (Authority::new(), Authority::new());
    ours.write(&folder, "member");
    ours.write(&folder, "own");
    foreign.write(&folder, "stranger");
    let port = free_port();
    let _etcd = etcd(&folder, "member", port);
    let whole = std::fs::read_to_string(folder.join("grc.yaml")).unwrap();
    let address = &federation.addresses["grc"];
    let configure = |file: &str, authorities: &str, who: &str| {
        let shared = format!(
            "ledger: grc.ledger, shared_ledger: {{endpoints: [\"127.0.0.1:{port}\"], prefix: coalloc/grc, \
             member: a, members: [{{name: a, address: \"{address}\"}}], tls: {{authorities: {authorities}-ca.pem, \
             certificate: {who}.pem, key: {who}-key.pem}}}}"
        );
        federation.write(file, &whole.replace("ledger: grc.ledger", &shared));
    };
    configure("stranger.yaml", "own", "stranger");
    configure("misled.yaml", "stranger", "own");
    configure("grc.yaml", "own", "own");
    eventually("the ledger is shared", || async { share(&federation, "grc").status.success() })
        .await;
    // Whoever has no certificate of etcd's authority is not let in, and whoever meets an etcd of another authority does not go in.
    for name in ["stranger", "misled"] {
        let refused = share(&federation, name);
        let text = String::from_utf8_lossy(&refused.stderr).into_owned();
        assert!(!refused.status.success(), "{name}: {text}");
        assert!(text.contains("coalloc/grc") && text.contains("ertificate"), "{name}: {text}");
    }
    federation.start_all().await;
    federation.reserve_confirmed("one", pair(10, 10, 3_600, 600)).await;
    federation.kill("grc");
    federation.spawn("grc");
    eventually("the coordinator goes on with what is in etcd", || async {
        let known = federation.get("one").await;
        known.is_ok_and(|known| known.state().is_booked())
    })
    .await;
}
