//! Processes that share a ledger in real members of etcd: a coordinator's and a resource manager's.

use std::process::{Command, Output};

use coalloc_net::client;
use coalloc_proto::v1;
use coalloc_proto::v1::coordinator_client::CoordinatorClient;
use serde_json::Value;
use tonic::Code;
use tonic_types::StatusExt as _;

use crate::harness::{Federation, RMS, Setup, eventually, free_port, pair};

// Other tests take the rest.
#[allow(dead_code)]
#[path = "../../etcd/tests/real/cluster.rs"]
mod cluster;

use cluster::Cluster;

/// A federation in which two processes share the ledger of the coordinator, and two that of `crm-A`.
struct SharedFederation {
    federation: Federation,
    /// The addresses of the two processes of the coordinator, and of the resource manager.
    grc: [String; 2],
    crm: [String; 2],
    _etcd: Cluster,
}

fn coalloc(words: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_coalloc")).args(words).output().unwrap()
}

fn address() -> String {
    format!("127.0.0.1:{}", free_port())
}

impl SharedFederation {
    /// `None` if etcd is not installed.
    async fn start() -> Option<Self> {
        let etcd = Cluster::start(3).await?;
        let mut federation = Federation::prepare();
        let (grc, crm) = ([address(), address()], [address(), address()]);
        federation.addresses.insert("grc".to_owned(), grc.join(","));
        federation.addresses.insert("crm-A".to_owned(), crm.join(","));
        federation.configure(&Setup::default());
        let shared = Self { federation, grc, crm, _etcd: etcd };
        for (node, addresses) in [("grc", &shared.grc), ("crm-A", &shared.crm)] {
            for member in [0, 1] {
                shared.write(node, addresses, member);
            }
        }
        Some(shared)
    }

    /// Writes the configuration of one process, from that of the node.
    fn write(&self, node: &str, addresses: &[String; 2], member: usize) {
        let path = self.federation.dir.path().join(format!("{node}.yaml"));
        let whole = std::fs::read_to_string(path).unwrap();
        let name = |member: usize| ["a", "b"][member];
        let members: Vec<String> = (0..2)
            .map(|member| format!("{{name: {}, address: \"{}\"}}", name(member), addresses[member]))
            .collect();
        let etcd = self._etcd.addresses().join("\", \"");
        let shared = format!(
            "ledger: {node}-{member}.ledger, shared_ledger: {{endpoints: [\"{etcd}\"], prefix: coalloc/{node}, \
             member: {}, members: [{}]}}",
            name(member),
            members.join(", ")
        );
        let listen = |address: &str| format!("listen: \"{address}\"");
        let one = whole
            .replace(&listen(&addresses.join(",")), &listen(&addresses[member]))
            .replace(&format!("ledger: {node}.ledger"), &shared);
        assert_ne!(one, whole);
        self.federation.write(&format!("{node}-{member}.yaml"), &one);
    }

    async fn start_all(&mut self) {
        for node in ["crm-A-0", "grc-0"] {
            let config = self.federation.dir.path().join(format!("{node}.yaml"));
            let shared = coalloc(&["ledger", "share", "--config", &config.to_string_lossy()]);
            assert!(shared.status.success(), "{}", String::from_utf8_lossy(&shared.stderr));
        }
        for name in ["crm-B", "nrm", "crm-A-0", "crm-A-1", "grc-0", "grc-1"] {
            self.federation.spawn(name);
        }
        self.federation.complete().await;
    }

    /// The number of the process that leads, 0 or 1, and the other one's refusal.
    async fn leader(&self) -> (usize, tonic::Status) {
        let found = std::cell::RefCell::new(None);
        eventually("one process of the coordinator leads", || async {
            let mut answers = Vec::new();
            for address in &self.grc {
                let mut client = CoordinatorClient::new(client::channel("grc", address).unwrap());
                answers.push(client.list(v1::ListRequest::default()).await);
            }
            let standby = answers.iter().position(Result::is_err);
            let leads = answers.iter().position(Result::is_ok);
            let (Some(leads), Some(standby)) = (leads, standby) else { return false };
            // A process that has just started may not have heard yet who leads.
            let refusal = answers.remove(standby).unwrap_err();
            let info = refusal.get_details_error_info();
            if info.is_none_or(|info| !info.metadata.contains_key("leader")) {
                return false;
            }
            *found.borrow_mut() = Some((leads, refusal));
            true
        })
        .await;
        found.into_inner().unwrap()
    }
}

/// Whether etcd is there. Where it must be, its absence is a failure.
pub(crate) async fn is_etcd_installed() -> bool {
    Cluster::start(1).await.is_some()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_standby_says_who_leads_and_takes_over_with_everything() {
    let Some(mut shared) = SharedFederation::start().await else { return };
    shared.start_all().await;
    let (leads, refusal) = shared.leader().await;
    assert_eq!(refusal.code(), Code::Unavailable);
    let info = refusal.get_details_error_info().unwrap();
    assert_eq!(
        (info.reason.as_str(), &info.metadata["leader"][..]),
        ("STANDBY", ["a", "b"][leads])
    );
    assert_eq!(info.metadata["address"], shared.grc[leads]);
    let request = pair(10, 10, 3_600, 600);
    let before = shared.federation.reserve_confirmed("r1", request.clone()).await;
    // Told to stop, a leader gives its lease back: nobody waits for its end.
    let begun = std::time::Instant::now();
    assert!(shared.federation.stop(&format!("grc-{leads}")).success());
    let after = {
        let again = std::cell::RefCell::new(None);
        eventually("the other process has it", || async {
            let got = shared.federation.get("r1").await;
            *again.borrow_mut() = got.ok();
            again.borrow().is_some()
        })
        .await;
        again.into_inner().unwrap()
    };
    assert!(begun.elapsed() < std::time::Duration::from_secs(4), "{:?}", begun.elapsed());
    assert_eq!((after.id, after.state), (before.id.clone(), before.state));
    // The same request again is the same reservation, and a new one is planned with what is booked.
    assert_eq!(shared.federation.reserve("r1", request).await.id, before.id);
    shared.federation.reserve_confirmed("r2", pair(90, 10, 3_600, 600)).await;
    // The resource manager's leader is killed: the other process has its bookings.
    let log = |member| shared.federation.log(&format!("crm-A-{member}"));
    let of_crm = (0..2).find(|member| log(*member).contains("this process leads")).unwrap();
    shared.federation.kill(&format!("crm-A-{of_crm}"));
    eventually("the other process of crm-A answers", || async {
        let request = v1::ListBookingsRequest::default();
        let listed = shared.federation.rm("crm-A").list_bookings(request).await;
        listed.is_ok_and(|listed| listed.into_inner().bookings.len() == 2)
    })
    .await;
    eventually("the coordinator reaches it", || async {
        shared
            .federation
            .try_reserve("r3", pair(5, 5, 7_200, 600))
            .await
            .is_ok_and(|reservation| reservation.state().is_booked())
    })
    .await;
    shared.federation.audit_at_rest().await;
    assert_ne!(shared.crm[of_crm], "");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_leader_fails_again_and_again_under_load_and_nothing_is_lost() {
    if !is_etcd_installed().await {
        return;
    }
    let failures = std::env::var("COALLOC_HA_FAILURES").unwrap_or_else(|_| "3".to_owned());
    let demo = Command::new(env!("CARGO_BIN_EXE_coalloc"))
        .args(["demo", "ha", "--json", "--failures", &failures])
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&demo.stderr);
    assert_eq!(demo.status.code(), Some(0), "{said}{}", String::from_utf8_lossy(&demo.stdout));
    let report: Value = serde_json::from_slice(&demo.stdout).unwrap();
    assert_eq!(report["proven"], true, "{report}");
    assert_eq!(report["takeovers"].as_array().unwrap().len().to_string(), failures);
    assert!(report["offered"].as_u64().unwrap() > 50, "{report}");
}

#[tokio::test(flavor = "multi_thread")]
async fn settings_that_cannot_be_are_refused_with_field_value_and_what_is_allowed() {
    let federation = Federation::prepare();
    federation.configure(&Setup::default());
    let whole = std::fs::read_to_string(federation.dir.path().join("grc.yaml")).unwrap();
    let members = "member: a, members: [{name: a, address: \"127.0.0.1:1\"}]";
    let cases = [
        (format!("prefix: x, {members}"), "shared_ledger.endpoints"),
        (format!("endpoints: [\"10.1.2.3:2379\"], prefix: x, {members}"), "endpoints[0]"),
        (format!("endpoints: [\"127.0.0.1:2379\"], {members}"), "shared_ledger.prefix"),
        (
            "endpoints: [\"127.0.0.1:2379\"], prefix: x, member: b, members: [{name: a, address: \"h:1\"}]"
                .to_owned(),
            "shared_ledger.member",
        ),
        (
            format!("endpoints: [\"127.0.0.1:2379\"], prefix: x, {members}, tls: {{authorities: none.pem}}"),
            "tls.authorities",
        ),
    ];
    for (settings, field) in cases {
        let ledger = format!("ledger: grc.ledger, shared_ledger: {{{settings}}}");
        federation.write("grc-bad.yaml", &whole.replace("ledger: grc.ledger", &ledger));
        let output = federation.command("grc-bad").stderr(std::process::Stdio::piped()).output();
        let output = output.unwrap();
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(2), "{settings}: {text}");
        assert!(text.contains("grc-bad.yaml:1:") && text.contains(field), "{field}: {text}");
    }
    assert_eq!(RMS.len(), 3);
}
