//! The folder with an identity: a certificate with its key, and the authorities that are believed.
//!
//! A daemon reads its folder at its start, on SIGHUP, and whenever its files change. A folder that cannot be used is
//! refused as a whole and told; what was read before stays in force.
//!
//! Left out: making the files (`coalloc certs`).

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use coalloc_common::{Identity, Role, Span, Time, limits};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, UnixTime};
use rustls::sign::CertifiedKey;
use sha2::{Digest as _, Sha256};

use super::certificate::CertificateOwner;
use super::trust::{Trust, Use, read};
use super::{Disbelief, IdentityError, server};
use crate::clock::Clock;
use crate::latest::LatestValue;

/// The file with the certificate, and after it the certificates of its issuers up to, but without, an authority.
pub const CERTIFICATE: &str = "certificate.pem";
/// The file with the certificate's key.
pub const KEY: &str = "key.pem";
/// The folder with the authorities that are believed.
pub const TRUST: &str = "trust";

/// What one reading of a folder gave.
#[derive(Debug)]
pub struct Credentials {
    /// The owner of the certificate: whoever uses this folder.
    pub owner: CertificateOwner,
    /// The certificate with its chain and key.
    pub certified: Arc<CertifiedKey>,
    /// Who is believed.
    pub trust: Arc<Trust>,
    /// The settings of a server where clients have to show a certificate, and of one where they may.
    pub(super) servers: server::Settings,
}

impl Credentials {
    /// Reads a folder. Certificates are judged by `clock`, now and later.
    ///
    /// # Errors
    /// When a file is missing or cannot be used, or the certificate is not valid now. A certificate that is in force
    /// already may have ended: what else has changed, say a list of what was revoked, counts all the same.
    fn read(folder: &Path, clock: &Clock, in_force: Option<&Self>) -> Result<Self, IdentityError> {
        let path = folder.join(CERTIFICATE);
        let bad = |problem: String| IdentityError::content(&path, problem);
        let chain: Result<Vec<CertificateDer<'static>>, _> =
            CertificateDer::pem_slice_iter(&read(&path)?).collect();
        let chain = chain.map_err(|error| bad(error.to_string()))?;
        let first = chain.first().ok_or_else(|| bad("there is no certificate in it".to_owned()))?;
        let owner = CertificateOwner::read(first).map_err(|error| bad(error.to_string()))?;
        let now = clock.now().wall;
        let is_in_force = in_force.is_some_and(|it| it.certified.cert.first() == Some(first));
        if now >= owner.not_after && !is_in_force {
            return Err(bad(format!("the certificate ended at {}; renew it", owner.not_after)));
        }
        if now < owner.not_before {
            return Err(bad(format!(
                "the certificate is valid from {} on; is the clock of this machine right?",
                owner.not_before
            )));
        }
        let key_path = folder.join(KEY);
        let bad_key =
            |error: &dyn std::fmt::Display| IdentityError::content(&key_path, error.to_string());
        let key =
            PrivateKeyDer::from_pem_slice(&read(&key_path)?).map_err(|error| bad_key(&error))?;
        let key = rustls::crypto::ring::sign::any_supported_type(&key)
            .map_err(|error| bad_key(&error))?;
        let certified = CertifiedKey::new(chain, key);
        certified.keys_match().map_err(|_| {
            bad_key(&"the key does not belong to the certificate beside it; replace both")
        })?;
        let (certified, trust) = (Arc::new(certified), Arc::new(Trust::read(&folder.join(TRUST))?));
        let servers = server::Settings::new(&certified, &trust, clock);
        Ok(Self { owner, certified, trust, servers })
    }
}

/// A folder with an identity, and what it held when it was last read.
#[derive(Debug)]
pub struct IdentityStore {
    folder: PathBuf,
    clock: Clock,
    current: ArcSwap<Credentials>,
    /// The digest of the files that are in force. Files that were refused are read again at the next look: time alone
    /// may make them usable.
    seen: std::sync::Mutex<[u8; 32]>,
    /// How often something new has come into force.
    pub(super) renewals: LatestValue<u64>,
}

impl IdentityStore {
    /// Reads a folder. Certificates are judged by the clock of the real machine.
    ///
    /// # Errors
    /// When a file is missing or cannot be used, or the certificate is not valid now.
    pub fn open(folder: &Path) -> Result<Arc<Self>, IdentityError> {
        Self::open_by(folder, Clock::system())
    }

    /// Reads a folder. Certificates are judged by `clock`.
    ///
    /// # Errors
    /// As [`open`](Self::open).
    pub fn open_by(folder: &Path, clock: Clock) -> Result<Arc<Self>, IdentityError> {
        let seen = std::sync::Mutex::new(digest(folder)?);
        let current = ArcSwap::from_pointee(Credentials::read(folder, &clock, None)?);
        let renewals = LatestValue::new(0);
        Ok(Arc::new(Self { folder: folder.to_owned(), clock, current, seen, renewals }))
    }

    /// The clock by which certificates are judged.
    #[must_use]
    pub const fn clock(&self) -> &Clock {
        &self.clock
    }

    /// What is in force.
    #[must_use]
    pub fn current(&self) -> Arc<Credentials> {
        self.current.load_full()
    }

    /// Who uses this folder.
    #[must_use]
    pub fn identity(&self) -> Identity {
        self.current.load().owner.identity.clone()
    }

    /// Reads the folder again if its files are not those in force. True when something new is in force.
    ///
    /// # Errors
    /// When the folder cannot be used, or belongs to somebody else now. What was read before stays in force.
    pub fn reload(&self) -> Result<bool, IdentityError> {
        let now = digest(&self.folder)?;
        let seen = || self.seen.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        if *seen() == now {
            return Ok(false);
        }
        let credentials = Credentials::read(&self.folder, &self.clock, Some(&self.current()))?;
        let (own, new) = (self.identity(), &credentials.owner.identity);
        if *new != own {
            let problem = format!("it is the certificate of {new}; this is {own}");
            return Err(IdentityError::content(&self.folder.join(CERTIFICATE), problem));
        }
        self.current.store(Arc::new(credentials));
        *seen() = now;
        self.renewals.update(|count| *count += 1);
        Ok(true)
    }

    /// Reads the folder again on SIGHUP and whenever its files have changed, for as long as the runtime lives.
    pub async fn follow(self: Arc<Self>) {
        use tokio::signal::unix::{SignalKind, signal};
        let mut hangups = signal(SignalKind::hangup()).ok();
        let (mut warned, mut told) = (None, String::new());
        loop {
            self.show_end(&mut warned);
            let hangup = async {
                match &mut hangups {
                    Some(hangups) => drop(hangups.recv().await),
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                () = hangup => {}
                () = tokio::time::sleep(limits::IDENTITY_POLL.to_std()) => {}
            }
            let store = Arc::clone(&self);
            let Ok(reloaded) = tokio::task::spawn_blocking(move || store.reload()).await else {
                continue;
            };
            let folder = self.folder.display();
            match reloaded {
                // Whatever was refused before is gone.
                Ok(false) => told.clear(),
                Ok(true) => {
                    told.clear();
                    let owner = &self.current().owner;
                    tracing::info!(%folder, identity = %owner.identity, until = %owner.not_after, "identity read again");
                }
                // A folder that stays unreadable is told once.
                Err(error) if error.to_string() == told => {}
                Err(error) => {
                    told = error.to_string();
                    crate::metrics::net().identity_refused.inc();
                    tracing::warn!(%folder, %error, "the new files of the identity cannot be used; the old ones stay in force");
                }
            }
        }
    }

    /// Shows in the metrics when the certificate ends, and warns once an hour when less than a third of its life is left.
    fn show_end(&self, warned: &mut Option<Time>) {
        let (owner, now) = (&self.current().owner, self.clock.now().wall);
        crate::metrics::net().identity_ends.set(owner.not_after.as_us() / 1_000_000);
        let (life, left) = (owner.not_after.since(owner.not_before), owner.not_after.since(now));
        let is_due = warned.is_none_or(|at| now.since(at) >= limits::IDENTITY_WARNING_PAUSE);
        if is_due && left.saturating_mul(3) < life {
            *warned = Some(now);
            tracing::warn!(identity = %owner.identity, until = %owner.not_after, "the certificate ends soon; renew it");
        }
    }

    /// Checks that the owner has a role and a name.
    ///
    /// # Errors
    /// When the certificate is somebody else's.
    pub fn check_owner(&self, role: Role, name: &str) -> Result<(), IdentityError> {
        let identity = self.identity();
        if identity.role == role && identity.name() == name {
            return Ok(());
        }
        let problem = format!(
            "it is the certificate of {identity}; this daemon needs one of the {role} {name}"
        );
        Err(IdentityError::content(&self.folder.join(CERTIFICATE), problem))
    }

    /// Whether the owner of a certificate is still believed.
    ///
    /// # Errors
    /// [`Disbelief`].
    pub fn verify(
        &self,
        chain: &[CertificateDer<'static>],
        used: Use,
    ) -> Result<CertificateOwner, Disbelief> {
        let Some((first, intermediates)) = chain.split_first() else {
            return Err(Disbelief::NoIdentity("there is no certificate".to_owned()));
        };
        self.current.load().trust.verify(first, intermediates, used, self.clock.unix())
    }

    /// Who the owner of a certificate is, if it would be believed now had its time not passed since `at`: its authority is
    /// believed, and nothing of the chain was revoked.
    ///
    /// # Errors
    /// [`Disbelief`].
    pub fn verify_kept(
        &self,
        chain: &[CertificateDer<'_>],
        used: Use,
        at: Time,
    ) -> Result<CertificateOwner, Disbelief> {
        let Some((first, intermediates)) = chain.split_first() else {
            return Err(Disbelief::NoIdentity("there is no certificate".to_owned()));
        };
        let us = u64::try_from(at.as_us()).unwrap_or_default();
        let at = UnixTime::since_unix_epoch(Duration::from_micros(us));
        self.current.load().trust.verify(first, intermediates, used, at)
    }

    /// Done when a certificate is not believed any more: it has ended, was revoked, or its authority was dropped.
    pub async fn disbelieved(&self, chain: &[CertificateDer<'static>], used: Use) -> Disbelief {
        loop {
            let seen = self.renewals.get();
            let owner = match self.verify(chain, used) {
                Ok(owner) => owner,
                Err(disbelief) => return disbelief,
            };
            // A certificate is good to the end of its last second.
            let end = owner.not_after.saturating_add(Span::from_secs(1));
            let left = end.since(self.clock.now().wall);
            // A clock that is set meanwhile is noticed at the next look.
            let look = left.min(limits::IDENTITY_LOOK).max(Span::from_millis(1));
            tokio::select! {
                _ = self.renewals.wait_for(|count| *count != seen) => {}
                () = tokio::time::sleep(look.to_std()) => {}
            }
        }
    }
}

/// The digest of all files of an identity's folder.
fn digest(folder: &Path) -> Result<[u8; 32], IdentityError> {
    let mut paths = vec![folder.join(CERTIFICATE), folder.join(KEY)];
    let trust = folder.join(TRUST);
    let unreadable = |source| IdentityError::Read { path: trust.clone(), source };
    for entry in std::fs::read_dir(&trust).map_err(unreadable)? {
        paths.push(entry.map_err(unreadable)?.path());
    }
    paths.sort_unstable();
    let mut whole = Sha256::new();
    for path in paths {
        let bytes = if path.is_file() { read(&path)? } else { Vec::new() };
        whole.update(path.to_string_lossy().len().to_le_bytes());
        whole.update(path.to_string_lossy().as_bytes());
        whole.update(bytes.len().to_le_bytes());
        whole.update(&bytes);
    }
    Ok(whole.finalize().into())
}
