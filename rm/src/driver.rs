//! The boundary to real equipment: what a driver must be able to do.
//!
//! A driver is told what is wanted, and makes the equipment so. It decides nothing: what is wanted, when to look, and
//! what to do about trouble is decided in [`coalloc_protocol::participant::equipment`]. One call is made at a time.
//!
//! A driver touches nothing that does not bear the name of its own ledger ([`Naming`]). Every call ends within
//! [`EQUIPMENT_PATIENCE`](coalloc_common::limits::EQUIPMENT_PATIENCE); a driver that starts programs kills those that take longer, and answers
//! [`EquipmentTrouble::Lost`].
//!
//! Left out: the drivers themselves, which are in `nrm` and `crm`.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use coalloc_common::ResourceId;
use coalloc_protocol::participant::equipment::{EquipmentKey, EquipmentTrouble, Observed, Want};
use sha2::{Digest as _, Sha256};

/// Equipment behind an RM.
#[tonic::async_trait]
pub trait Driver: fmt::Debug + Send + Sync + 'static {
    /// Looks at all of the equipment, and compares it with what is wanted. Changes nothing. It is called with everything that is
    /// wanted before anything is made, so a driver learns from the references which names are taken.
    ///
    /// # Errors
    /// [`EquipmentTrouble::Down`] with a sentence that says what cannot be reached, and what an operator can do.
    async fn observe(
        &self,
        wanted: &BTreeMap<EquipmentKey, Want>,
    ) -> Result<Observed, EquipmentTrouble>;

    /// Makes the equipment as wanted under one key, whatever it has under that key now. It may be called again with the
    /// same arguments, and then changes nothing. Returns how it is named at the equipment, which may change.
    ///
    /// When it returns [`Stage::Claimed`](coalloc_protocol::participant::equipment::Stage::Claimed), the claim is
    /// final: nobody else gets it, and no timeout of the equipment ends it.
    ///
    /// # Errors
    /// [`EquipmentTrouble::Refused`] when the equipment says no: then it has, under this key, what it had before, or less
    /// if that is what is wanted: nothing stays active that must not be.
    /// Otherwise as the kinds of trouble say.
    async fn make(&self, key: &EquipmentKey, want: &Want) -> Result<String, EquipmentTrouble>;

    /// Removes what has this reference, together with everything that still runs in it. What is not there counts as
    /// removed.
    ///
    /// # Errors
    /// As [`Driver::make`].
    async fn remove(&self, reference: &str) -> Result<(), EquipmentTrouble>;
}

/// Makes the driver of an RM once its names are known.
#[derive(Clone)]
pub struct DriverMaker(Arc<dyn Fn(Naming) -> Arc<dyn Driver> + Send + Sync>);

impl DriverMaker {
    /// A maker that calls `make` when the RM starts.
    pub fn new(make: impl Fn(Naming) -> Arc<dyn Driver> + Send + Sync + 'static) -> Self {
        Self(Arc::new(make))
    }

    /// Makes the driver of the RM with these names.
    #[must_use]
    pub fn make(&self, naming: Naming) -> Arc<dyn Driver> {
        (self.0)(naming)
    }
}

impl fmt::Debug for DriverMaker {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("DriverMaker")
    }
}

/// How a driver names what is its own: `co-<8 hexadecimal digits of the ledger's id>-<16 of the key's hash>`. So one
/// RM finds its own again, and leaves that of others alone.
#[derive(Debug, Clone)]
pub struct Naming {
    prefix: String,
}

impl Naming {
    /// The names of the RM whose ledger has this identity.
    #[must_use]
    pub fn of_ledger(ledger_id: &str) -> Self {
        let digits: String = ledger_id.chars().filter(char::is_ascii_hexdigit).take(8).collect();
        Self { prefix: format!("co-{digits:0>8}-") }
    }

    /// The name of what is wanted under a key.
    #[must_use]
    pub fn name(&self, key: &EquipmentKey) -> String {
        let mut hash = Sha256::new();
        hash.update(key.chain.as_str());
        hash.update([0]);
        hash.update(key.resource.as_str());
        let hash = hash.finalize();
        let digits: String = hash.iter().take(8).map(|byte| format!("{byte:02x}")).collect();
        format!("{}{digits}", self.prefix)
    }

    /// How all names of this RM begin: `co-` and 8 digits, without the dash behind them. It is also the name of what
    /// this RM has once, whatever is booked.
    #[must_use]
    pub fn of_rm(&self) -> &str {
        self.prefix.trim_end_matches('-')
    }

    /// Is this the name of something of this RM?
    #[must_use]
    pub fn is_own(&self, name: &str) -> bool {
        name.starts_with(&self.prefix)
    }

    /// Is this a name of some RM's driver, this one's or another's?
    #[must_use]
    pub fn is_of_some_rm(name: &str) -> bool {
        let mut parts = name.split('-');
        parts.next() == Some("co")
            && [8, 16].into_iter().all(|length| {
                parts.next().is_some_and(|part| {
                    part.len() == length && part.chars().all(|one| one.is_ascii_hexdigit())
                })
            })
            && parts.next().is_none()
    }

    /// The last part of a server's whole name, SITE/SERVER: its name at the equipment.
    #[must_use]
    pub fn of_server(server: &ResourceId) -> &str {
        server.as_str().rsplit('/').next().unwrap_or_default()
    }
}
