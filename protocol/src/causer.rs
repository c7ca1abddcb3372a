//! Who caused a record, as far as it is proven (I20).
//!
//! A record says what happened, and in whose name: "coordinator grc commits". Its causer says who sent the input that led
//! to it, and by what that sender has proven who it is. The two may differ: an operator may release a user's reservation.
//! Shells attach the causer to an input, and [`sync`](crate::sync) passes it to the log with each record of the step. No
//! core ever reads it.
//!
//! Left out: how an identity is proven, which `net` does. Source: docs/adr/0042-identity.md.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

/// Who caused an input, and with it every record of the step. Cheap to clone.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Causer {
    /// The node itself: time has passed, the process has started, or the disk is full.
    #[default]
    Itself,
    /// Somebody else, who sent a message or answered one.
    Peer(Arc<ProvenPeer>),
}

/// A peer, and by what it has proven who it is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProvenPeer {
    /// The peer's identity (`spiffe://DOMAIN/coalloc/ROLE/NAME`), or the name of a user who has shown a token. In plain
    /// text, where nothing is proven: `unproven`.
    pub peer: String,
    /// The authority that issued the peer's certificate, or the issuer of its token. `None` if nothing is proven.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub issuer: Option<String>,
    /// SHA-256, in hexadecimal digits, of the peer's certificate, or of its token's subject. `None` if nothing is proven.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub subject: Option<String>,
}

impl Causer {
    /// A peer of which nothing is proven, because messages come in plain text.
    #[must_use]
    pub fn unproven() -> Self {
        Self::peer(ProvenPeer { peer: "unproven".to_owned(), issuer: None, subject: None })
    }

    /// This peer.
    #[must_use]
    pub fn peer(peer: ProvenPeer) -> Self {
        Self::Peer(Arc::new(peer))
    }
}

/// A record on its way to the log, with the causer of the step that made it.
#[derive(Debug)]
pub struct CausedRecord<'a, R> {
    /// The record.
    pub record: &'a R,
    /// Who caused it.
    pub by: &'a Causer,
}

// Written by hand, because derives would ask the same of the record.
impl<R> Clone for CausedRecord<'_, R> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<R> Copy for CausedRecord<'_, R> {}

impl<'a, R> From<&'a R> for CausedRecord<'a, R> {
    fn from(record: &'a R) -> Self {
        Self { record, by: &Causer::Itself }
    }
}
