//! Who everybody is in a run: certificates that are made for the run, and judged by simulated time.
//!
//! The coordinators and users are in the domain `grid`, the resource managers in `south`; each has an authority of its
//! own. Certificates of daemons may end within the run, and are renewed while everything else goes wrong. The
//! certificate of the stolen coordinator key ([`crate::rogue`]) is revoked in the end.
//!
//! Keys and serial numbers differ from run to run, also with the same seed. Nothing that a run shows depends on them.

use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

use coalloc_cli::kit::authority::{Authority, Issued, Revocation, Validity};
use coalloc_cli::kit::leader_channel::LeaderChannel;
use coalloc_cli::kit::rpc::Coordinator;
use coalloc_common::{BootTime, Identity, Now, Role, Time, TrustDomain};
use coalloc_net::client::{Destination, Dialer};
use coalloc_net::clock::Clock;
use coalloc_net::identity::client::ExpectedServer;
use coalloc_net::identity::settings::{DaemonIdentity, Security};
use coalloc_net::identity::store::IdentityStore;
use coalloc_proto::v1::resolver_client::ResolverClient;
use coalloc_proto::v1::resource_manager_client::ResourceManagerClient;
use tempfile::TempDir;
use tonic::transport::Channel;

use crate::federation::{DAEMONS, GRC};
use crate::machine::{EPOCH_US, PORT, SimNetwork, elapsed_us};
use crate::trace::Trace;

/// The coordinator whose key is stolen.
pub(crate) const STOLEN: &str = "grc-2";

const GRID: &str = "grid";
const SOUTH: &str = "south";
/// Longer than any run.
const LONG: Duration = Duration::from_secs(86_400);
/// Pause before a daemon that has no usable certificate is started again.
const AGAIN: Duration = Duration::from_millis(500);

/// Someone who calls daemons, besides the daemons themselves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Party {
    /// The user of all requests.
    User,
    /// The operator of the coordinator's domain.
    Operator,
    /// The operator of the resource managers' domain.
    SouthOperator,
    /// A program that has the coordinator's identity, too.
    Coordinator,
    /// Whoever has the stolen key.
    Rogue,
}

impl Party {
    const ALL: [Self; 5] =
        [Self::User, Self::Operator, Self::SouthOperator, Self::Coordinator, Self::Rogue];

    /// The folder with its identity, and the identity.
    fn folder_and_identity(self) -> (&'static str, Identity) {
        match self {
            Self::User => ("user", identity(GRID, Role::User, "user")),
            Self::Operator => ("operator", identity(GRID, Role::Operator, "olga")),
            Self::SouthOperator => ("south-operator", identity(SOUTH, Role::Operator, "otto")),
            Self::Coordinator => ("follower", identity(GRID, Role::Coordinator, GRC)),
            Self::Rogue => ("rogue", identity(GRID, Role::Coordinator, STOLEN)),
        }
    }
}

fn identity(domain: &str, role: Role, name: &str) -> Identity {
    Identity::new("name", domain_of(domain), role, name).unwrap()
}

fn domain_of(name: &str) -> TrustDomain {
    TrustDomain::parse("domain", name).unwrap()
}

/// The identity of a daemon.
fn daemon(name: &str) -> Identity {
    match name {
        GRC | STOLEN => identity(GRID, Role::Coordinator, name),
        _ => identity(SOUTH, Role::ResourceManager, name),
    }
}

/// Simulated time, as certificates state times.
fn at(elapsed: Duration) -> SystemTime {
    SystemTime::UNIX_EPOCH + Duration::from_micros(EPOCH_US as u64) + elapsed
}

/// The clocks of the simulation.
fn clock() -> Clock {
    Clock::new(|| {
        let elapsed = elapsed_us();
        Now { wall: Time::from_us(EPOCH_US + elapsed), boot: BootTime::from_us(elapsed) }
    })
}

/// The identities of a run.
#[derive(Debug)]
pub(crate) struct Identities {
    folder: TempDir,
    /// Those of [`GRID`] and [`SOUTH`].
    authorities: Mutex<[Authority; 2]>,
    /// When the certificate of the stolen key was revoked.
    revoked: Mutex<Option<Duration>>,
}

impl Identities {
    /// Makes the identities of a run. `ends` says when the first certificate of a daemon ends.
    pub(crate) fn create(ends: impl Fn(&str) -> Option<Duration>) -> Arc<Self> {
        let folder = tempfile::tempdir().unwrap();
        let authority = |name| Authority::create(&domain_of(name), at(Duration::ZERO)).unwrap();
        let authorities = Mutex::new([authority(GRID), authority(SOUTH)]);
        let this = Self { folder, authorities, revoked: Mutex::default() };
        for party in Party::ALL {
            let (folder, identity) = party.folder_and_identity();
            this.issue(folder, &identity, LONG);
        }
        for name in DAEMONS {
            this.issue(name, &daemon(name), ends(name).unwrap_or(LONG));
        }
        Arc::new(this)
    }

    fn path(&self, folder: &str) -> PathBuf {
        self.folder.path().join(folder)
    }

    /// Puts a new certificate into a folder. It is valid since before the run, until a whole second of it.
    fn issue(&self, folder: &str, identity: &Identity, until: Duration) {
        let until = Duration::from_secs(until.as_secs());
        let validity = Validity {
            not_before: at(Duration::ZERO) - Duration::from_secs(60),
            not_after: at(until),
        };
        let issued = {
            let mut authorities = self.authorities.lock().unwrap();
            let own = authorities.iter_mut().find(|one| *one.domain() == identity.domain);
            own.unwrap().issue(identity, validity).unwrap()
        };
        let path = self.path(folder);
        std::fs::create_dir_all(path.join("trust")).unwrap();
        let Issued { certificate_pem, key_pem, .. } = issued;
        std::fs::write(path.join("certificate.pem"), certificate_pem).unwrap();
        std::fs::write(path.join("key.pem"), key_pem).unwrap();
        self.write_trust(folder);
    }

    /// Writes who is believed, and what was revoked.
    fn write_trust(&self, folder: &str) {
        let trust = self.path(folder).join("trust");
        for authority in self.authorities.lock().unwrap().iter() {
            let trusted = authority.trusted();
            let write = |ending: &str, text: &str| {
                std::fs::write(trust.join(format!("{}{ending}", trusted.domain)), text).unwrap();
            };
            write(".pem", &trusted.authorities_pem);
            write(".crl.pem", &trusted.list_pem.unwrap());
        }
    }

    /// Gives a daemon a new certificate, which outlasts the run.
    pub(crate) fn renew(&self, name: &str) {
        self.issue(name, &daemon(name), LONG);
    }

    /// Revokes the certificate of the stolen coordinator key, and tells every daemon's folder.
    pub(crate) fn revoke_stolen(&self, elapsed: Duration) {
        {
            let mut authorities = self.authorities.lock().unwrap();
            let grid = &mut authorities[0];
            let stolen = daemon(STOLEN);
            grid.revoke(Revocation::Identity(&stolen), at(elapsed)).unwrap();
            grid.crl_pem(at(elapsed)).unwrap();
        }
        DAEMONS.iter().for_each(|name| self.write_trust(name));
        *self.revoked.lock().unwrap() = Some(elapsed);
    }

    /// The identity of a daemon that starts. A daemon without a usable certificate does not start, and whoever looks
    /// after it tries again and again.
    pub(crate) async fn of_daemon(&self, name: &str, trace: &Trace) -> Arc<IdentityStore> {
        loop {
            match IdentityStore::open_by(&self.path(name), clock()) {
                Ok(store) => return store,
                Err(_) => trace.add(name, format_args!("has no valid certificate")),
            }
            tokio::time::sleep(AGAIN).await;
        }
    }
}

/// How daemons and clients of a run connect. Cheap to clone.
#[derive(Debug, Clone)]
pub(crate) enum Protection {
    /// In plain text.
    PlainText,
    /// Over TLS, with identities.
    Tls(Arc<Identities>),
}

impl Protection {
    /// The settings of a daemon with this identity; `None` in plain text.
    pub(crate) fn security(store: Option<Arc<IdentityStore>>) -> Security {
        let Some(store) = store else { return Security::PlainText };
        let (operators, auditors) = Default::default();
        Security::Proven(DaemonIdentity { store, operators, auditors, tokens: None })
    }

    /// The address of a daemon, and who has to answer there.
    pub(crate) fn destination(&self, name: &str) -> Destination {
        let expected = match self {
            Self::PlainText => None,
            Self::Tls(_) => Some(ExpectedServer::Exactly(daemon(name))),
        };
        Destination::new("address", &format!("{name}:{PORT}"), expected).unwrap()
    }

    /// When the stolen key was revoked, if it was.
    pub(crate) fn revoked_at(&self) -> Option<Duration> {
        match self {
            Self::PlainText => None,
            Self::Tls(identities) => *identities.revoked.lock().unwrap(),
        }
    }

    /// A channel of somebody to a daemon, from the host that calls this.
    fn channel(&self, party: Party, name: &str) -> Channel {
        let dialer = match self {
            Self::PlainText => Dialer::plain_text(),
            Self::Tls(identities) => {
                let path = identities.path(party.folder_and_identity().0);
                Dialer::with_identity(IdentityStore::open_by(&path, clock()).unwrap())
            }
        };
        dialer.connect_over(SimNetwork, &self.destination(name))
    }

    /// Somebody's client of the coordinator.
    pub(crate) fn coordinator(&self, party: Party) -> Coordinator {
        let channel = LeaderChannel::new(self.channel(party, GRC), GRC);
        Coordinator::new(channel)
    }

    /// Somebody's client of the coordinator, for questions of resource managers.
    pub(crate) fn resolver(&self, party: Party) -> ResolverClient<Channel> {
        ResolverClient::new(self.channel(party, GRC))
    }

    /// Somebody's client of a resource manager.
    pub(crate) fn manager(&self, party: Party, name: &str) -> ResourceManagerClient<Channel> {
        ResourceManagerClient::new(self.channel(party, name))
    }
}
