//! Two domains with an authority each, and the harness's federation over TLS: the coordinator in `grid`, the resource
//! managers in `south`.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::{Duration, SystemTime};

use coalloc_cli::kit::authority::folder::IdentityFolder;
use coalloc_cli::kit::authority::{Authority, Revocation, Validity};
use coalloc_common::{Identity, Role, TrustDomain};
use coalloc_net::client::Dialer;
use coalloc_net::identity::store::IdentityStore;
use coalloc_proto::v1;
use coalloc_proto::v1::coordinator_client::CoordinatorClient;
use coalloc_proto::v1::resolver_client::ResolverClient;
use coalloc_proto::v1::resource_manager_client::ResourceManagerClient;
use coalloc_proto::v1::workflows_client::WorkflowsClient;
use rcgen::ExtendedKeyUsagePurpose;
use rustls::AlertDescription as Alert;
use tonic::transport::Channel;

use super::stranger::{Show, certificate_of, leaf};
use crate::harness::{Federation, RMS, Setup, eventually, pair};

const DAY: Duration = Duration::from_secs(86_400);

/// A request for a pair of sites with a path.
pub(super) fn request(id: &str, user: &str) -> v1::ReserveRequest {
    let request = v1::CoAllocationRequest { user: user.to_owned(), ..pair(1, 1, 3_600, 600) };
    v1::ReserveRequest { request_id: id.to_owned(), request: Some(request), ..Default::default() }
}

pub(super) struct TlsWorld {
    pub(super) federation: Federation,
    authorities: BTreeMap<String, Authority>,
}

fn identity(domain: &str, role: Role, name: &str) -> Identity {
    let domain = TrustDomain::parse("domain", domain).unwrap();
    Identity::new("name", domain, role, name).unwrap()
}

fn role_of(daemon: &str) -> (&'static str, Role) {
    match daemon {
        "grc" => ("grid", Role::Coordinator),
        _ => ("south", Role::ResourceManager),
    }
}

impl TlsWorld {
    /// A world whose users may call without a pause.
    pub(super) async fn start() -> Self {
        Self::start_with("quotas: {user: {calls_per_second: 1000000}}\n").await
    }

    /// A world whose coordinator has this at the end of its configuration.
    pub(super) async fn start_with(of_grc: &str) -> Self {
        let edit = |name: &str, text: String| if name == "grc" { text + of_grc } else { text };
        Self::start_edited(edit).await
    }

    /// Starts the daemons with configurations that `edit` makes of the usual ones, by the name of the daemon.
    pub(super) async fn start_edited(edit: impl Fn(&str, String) -> String) -> Self {
        let now = SystemTime::now();
        let authority = |name: &str| {
            let domain = TrustDomain::parse("domain", name).unwrap();
            (name.to_owned(), Authority::create(&domain, now).unwrap())
        };
        let authorities = BTreeMap::from([authority("grid"), authority("south")]);
        let mut world = Self { federation: Federation::prepare(), authorities };
        world.federation.configure(&Setup::default());
        let daemons = RMS.iter().chain(&["grc"]);
        for name in daemons.clone() {
            let (domain, role) = role_of(name);
            world.issue(&identity(domain, role, name), name);
            world.configure(name);
            let path = world.federation.dir.path().join(format!("{name}.yaml"));
            let text = std::fs::read_to_string(&path).unwrap();
            std::fs::write(path, edit(name, text)).unwrap();
        }
        for name in daemons {
            world.federation.spawn(name);
        }
        let olga = world.who("grid", Role::Operator, "olga");
        eventually("the federation is complete", || async {
            let all = world.grc(&olga).describe_federation(v1::DescribeFederationRequest {}).await;
            all.is_ok_and(|all| all.into_inner().resource_managers.iter().all(|rm| rm.reachable))
        })
        .await;
        world
    }

    /// Makes a configuration of the harness one with identities.
    fn configure(&self, name: &str) {
        let path = self.federation.dir.path().join(format!("{name}.yaml"));
        let mut text = std::fs::read_to_string(&path).unwrap();
        let plain = "insecure_plaintext: true";
        assert!(text.contains(plain));
        text = text.replace(plain, &format!("identity: {{folder: id-{name}}}"));
        for (peer, address) in &self.federation.addresses {
            let (domain, role) = role_of(peer);
            let named = format!("{{name: {peer}, address: \"{address}\"}}");
            let identity = identity(domain, role, peer);
            let proven =
                format!("{{name: {peer}, address: \"{address}\", identity: \"{identity}\"}}");
            // A second coordinator, which is believed, too.
            let rival = ", {name: grc-2, address: \"127.0.0.1:1\", \
                         identity: \"spiffe://grid/coalloc/coordinator/grc-2\"}";
            let rival = if peer == "grc" { rival } else { "" };
            text = text.replace(&named, &(proven + rival));
        }
        if name != "grc" {
            // Workflows are planned on profiles.
            text += "profiles: {coordinators: [grc]}\n";
        }
        std::fs::write(path, text).unwrap();
    }

    pub(super) fn folder(&self, stem: &str) -> PathBuf {
        self.federation.dir.path().join(format!("id-{stem}"))
    }

    fn issue(&mut self, identity: &Identity, stem: &str) {
        self.issue_lasting(identity, stem, Validity::lasting(SystemTime::now(), DAY));
    }

    /// Issues a certificate that began ten days ago and ends in two days and a half.
    pub(super) fn issue_near_its_end(&mut self, domain: &str, role: Role, name: &str, stem: &str) {
        let now = SystemTime::now();
        let validity = Validity { not_before: now - 10 * DAY, not_after: now + DAY * 5 / 2 };
        self.issue_lasting(&identity(domain, role, name), stem, validity);
    }

    fn issue_lasting(&mut self, identity: &Identity, stem: &str, validity: Validity) {
        let authority = self.authorities.get_mut(identity.domain.as_str()).unwrap();
        let issued = authority.issue(identity, validity).unwrap();
        for authority in self.authorities.values_mut() {
            authority.crl_pem(SystemTime::now()).unwrap();
        }
        let trusted: Vec<_> = self.authorities.values().map(Authority::trusted).collect();
        IdentityFolder::at(&self.folder(stem)).write(&issued, &trusted).unwrap();
    }

    /// A client of ours with this identity.
    pub(super) fn who(&mut self, domain: &str, role: Role, name: &str) -> Dialer {
        let stem = format!("{domain}-{role}-{name}");
        if !self.folder(&stem).exists() {
            self.issue(&identity(domain, role, name), &stem);
        }
        self.folder_dialer(&stem)
    }

    pub(super) fn folder_dialer(&self, stem: &str) -> Dialer {
        Dialer::with_identity(IdentityStore::open(&self.folder(stem)).unwrap())
    }

    pub(super) fn address(&self, daemon: &str) -> String {
        self.federation.addresses[daemon].clone()
    }

    pub(super) fn grc(&self, dialer: &Dialer) -> CoordinatorClient<Channel> {
        CoordinatorClient::new(dialer.channel("grc", &self.address("grc")).unwrap())
    }

    pub(super) fn rm(&self, dialer: &Dialer, name: &str) -> ResourceManagerClient<Channel> {
        ResourceManagerClient::new(dialer.channel("rm", &self.address(name)).unwrap())
    }

    pub(super) fn resolver(&self, dialer: &Dialer) -> ResolverClient<Channel> {
        ResolverClient::new(dialer.channel("grc", &self.address("grc")).unwrap())
    }

    pub(super) fn workflows(&self, dialer: &Dialer) -> WorkflowsClient<Channel> {
        WorkflowsClient::new(dialer.channel("grc", &self.address("grc")).unwrap())
    }

    /// What is in the ledger of each daemon, byte by byte.
    pub(super) fn ledgers(&self) -> BTreeMap<String, Vec<u8>> {
        let read = |name: &&str| {
            let file = |ending: &str| {
                let path = self.federation.dir.path().join(format!("{name}.ledger{ending}"));
                std::fs::read(path).unwrap_or_default()
            };
            let bytes = [file(""), file("-wal")].concat();
            assert!(bytes.len() > 4_096, "{name}");
            ((*name).to_owned(), bytes)
        };
        RMS.iter().chain(&["grc"]).map(read).collect()
    }

    /// Revokes a certificate, and tells one daemon.
    pub(super) fn revoke(&mut self, domain: &str, role: Role, name: &str, daemon: &str) {
        let authority = self.authorities.get_mut(domain).unwrap();
        let now = SystemTime::now();
        authority.revoke(Revocation::Identity(&identity(domain, role, name)), now).unwrap();
        authority.crl_pem(now).unwrap();
        let trusted = authority.trusted();
        IdentityFolder::at(&self.folder(daemon)).write_trust(&[trusted]).unwrap();
    }

    pub(super) fn renew(&mut self, daemon: &str) {
        let (domain, role) = role_of(daemon);
        self.issue(&identity(domain, role, daemon), daemon);
    }

    /// The certificates that the daemons show to whoever connects, whatever is in their folders.
    pub(super) async fn shown_certificates(&self) -> Vec<Vec<u8>> {
        let mut shown = Vec::new();
        for name in RMS.iter().chain(&["grc"]) {
            shown.push(certificate_of(&self.address(name)).await);
        }
        shown
    }

    pub(super) fn break_certificate(&self, daemon: &str) {
        let path = self.folder(daemon).join("certificate.pem");
        let draft = self.folder(daemon).join(".draft");
        std::fs::write(&draft, "not a certificate").unwrap();
        std::fs::rename(draft, path).unwrap();
    }

    /// Whoever shows nothing that is believed, and the alert that tells it so.
    pub(super) fn nobodies(&mut self) -> Vec<(&'static str, Show, Option<Alert>)> {
        let (now, alice) = (SystemTime::now(), identity("grid", Role::User, "alice"));
        let grid = TrustDomain::parse("domain", "grid").unwrap();
        let mut unknown = Authority::create(&grid, now).unwrap();
        let valid = Validity::lasting(now, DAY);
        let unknown = unknown.issue(&alice, valid).unwrap();
        let (south_pem, south_key) = self.files_of("south");
        let (grid_pem, grid_key) = self.files_of("grid");
        let operator = identity("grid", Role::Operator, "olga");
        let authority = self.authorities.get_mut("grid").unwrap();
        let mut of = |not_before: SystemTime, not_after: SystemTime| {
            Show::issued(&authority.issue(&operator, Validity { not_before, not_after }).unwrap())
        };
        let expired = of(now - DAY / 48, now - DAY / 96);
        let future = of(now + DAY, now + 2 * DAY);
        let revoked = identity("grid", Role::Operator, "rita");
        let shown = Show::issued(&authority.issue(&revoked, valid).unwrap());
        let grc = identity("grid", Role::Coordinator, "grc");
        for daemon in RMS.iter().chain(&["grc"]) {
            self.revoke("grid", Role::Operator, "rita", daemon);
        }
        let client = ExtendedKeyUsagePurpose::ClientAuth;
        let of_grid =
            |uris: &[&Identity], used: &_| leaf(&grid_pem, &grid_key, uris, Clone::clone(used));
        let of_south = |whose: &Identity| leaf(&south_pem, &south_key, &[whose], client.clone());
        let for_servers = of_grid(&[&operator], &ExtendedKeyUsagePurpose::ServerAuth);
        let (issued, unknown) = (Show::issued(&unknown), Some(Alert::UnknownCA));
        vec![
            ("plain text", Show::PlainText, None),
            ("nothing", Show::Nothing, Some(Alert::CertificateRequired)),
            ("a certificate of an unknown authority", issued, unknown),
            ("our identity by another domain's authority", of_south(&grc), unknown),
            ("an operator by another domain's authority", of_south(&operator), unknown),
            ("an expired certificate", expired, Some(Alert::CertificateExpired)),
            ("a certificate of tomorrow", future, Some(Alert::CertificateExpired)),
            ("a revoked certificate", shown, Some(Alert::CertificateRevoked)),
            ("two identities", of_grid(&[&operator, &grc], &client), Some(Alert::BadCertificate)),
            ("no identity", of_grid(&[], &client), Some(Alert::BadCertificate)),
            ("a server's certificate", for_servers, Some(Alert::UnsupportedCertificate)),
        ]
    }

    /// Whoever is believed, and is nobody at any of the daemons.
    pub(super) fn strangers(&mut self) -> Vec<(&'static str, Show)> {
        let mut shown = |domain: &str, role, name| {
            let valid = Validity::lasting(SystemTime::now(), DAY);
            let authority = self.authorities.get_mut(domain).unwrap();
            Show::issued(&authority.issue(&identity(domain, role, name), valid).unwrap())
        };
        vec![
            ("a coordinator that nobody knows", shown("grid", Role::Coordinator, "grc-3")),
            ("a coordinator of the wrong domain", shown("south", Role::Coordinator, "grc")),
            ("a coordinator with half a name", shown("grid", Role::Coordinator, "gr")),
            (
                "a resource manager that nobody knows",
                shown("south", Role::ResourceManager, "crm-C"),
            ),
            (
                "a resource manager of the wrong domain",
                shown("grid", Role::ResourceManager, "crm-A"),
            ),
        ]
    }

    /// The certificate and key of an authority.
    fn files_of(&mut self, domain: &str) -> (String, String) {
        let folder = self.federation.dir.path().join(format!("ca-{domain}"));
        self.authorities.get_mut(domain).unwrap().save(&folder, SystemTime::now()).unwrap();
        let read = |name: &str| std::fs::read_to_string(folder.join(name)).unwrap();
        (read("authority.pem"), read("authority.key.pem"))
    }

    /// Whoever is somebody at some daemon, and the methods that are for it, by daemon. The table is written down here
    /// a second time, so that a row that is too wide in the matrix of the program is noticed.
    pub(super) fn somebodies(&mut self) -> Vec<(&'static str, Show, Allowed)> {
        const USER: &str = "Allocate Deprovision Get GetCalendarAddress GetDataPlane List MakeCalendarAddress Modify Plan PlanTask Provision Release ReleaseRest Reserve RevokeCalendarAddress SearchServers SubmitTask Watch GetQuota \
                            GetWorkflow PlanWorkflow ReportActivity ReviseWorkflow SubmitWorkflow";
        const AUDITOR: &str = "Get GetCalendarAddress GetDataPlane GetQuota GetWorkflow List ListDifferences ReadPicture SignTip Watch";
        const RM_AUDITOR: &str =
            "Describe FindServers ListBookings QueryAvailability SignTip WatchBookings";
        const RM_OPERATOR: &str = "Abort Describe FindServers GetLogFilter ListBookings QueryAvailability Release SetLogFilter SignTip \
                                   WatchBookings";
        const COORDINATOR: &str = "Abort Commit CompareBookings Describe FindServers GetBooking Hold QueryAvailability Release \
                                   WatchEquipment WatchProfiles";
        let mut shown = |domain: &str, role, name| {
            let valid = Validity::lasting(SystemTime::now(), DAY);
            let authority = self.authorities.get_mut(domain).unwrap();
            Show::issued(&authority.issue(&identity(domain, role, name), valid).unwrap())
        };
        let rms: &[_] = &["ResourceManager", "Ledgers", "Logging"];
        let grcs: &[_] = &["Coordinator", "Workflows", "Ledgers", "Logging"];
        let at_rms = |names| Allowed { at_grc: false, services: rms, names };
        let at_grc = |names| Allowed { at_grc: true, services: grcs, names };
        let resolver = Allowed { at_grc: true, services: &["Resolver"], names: "Resolve" };
        vec![
            ("a user", shown("grid", Role::User, "ulla"), at_grc(USER)),
            ("a user of another domain", shown("south", Role::User, "ulla"), at_grc(USER)),
            ("an auditor of grid", shown("grid", Role::Auditor, "ada"), at_grc(AUDITOR)),
            ("an auditor of south", shown("south", Role::Auditor, "ada"), at_rms(RM_AUDITOR)),
            ("an operator of south", shown("south", Role::Operator, "otto"), at_rms(RM_OPERATOR)),
            ("the coordinator", shown("grid", Role::Coordinator, "grc"), at_rms(COORDINATOR)),
            ("a resource manager", shown("south", Role::ResourceManager, "crm-A"), resolver),
        ]
    }
}

/// What is for somebody.
#[derive(Clone, Copy)]
pub(super) struct Allowed {
    at_grc: bool,
    services: &'static [&'static str],
    names: &'static str,
}

impl Allowed {
    /// Whether a method at a daemon is for it.
    pub(super) fn has(&self, daemon: &str, path: &str) -> bool {
        let (service, name) = path.rsplit_once('/').unwrap();
        let service = service.trim_start_matches("/coalloc.v1.");
        self.at_grc == (daemon == "grc")
            && self.services.contains(&service)
            && self.names.split_whitespace().any(|it| it == name)
    }
}
